"""What is wrong with log directories, with its effect and its cure.

Modules:
    check.py               the check of log directories
    codes.py               the kinds of findings: what each means, its effect and its cure
    finding.py             a finding
    segments.py            one segment: its batches and records, and its indexes against them
    batch_check.py         batches of a log against each other, across segments
    batch_columns.py       batches that are not plain, and what exactly is wrong with them
    logs.py                one log: its small files against its batches
    compare.py             two copies of a partition compared
    comparison.py          the result of that
    differences.py         where two copies differ, and why
    directories.py         a log directory: names, ids, checkpoints
"""
