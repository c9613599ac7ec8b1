"""What is wrong with log directories, with its effect and its cure.

Modules:
    check.py               the check of log directories
    codes.py               the kinds of findings: what each means, its effect and its cure
    finding.py             a finding
    segments.py            batches and records of a segment, and its indexes against them
    batch_columns.py       batches that are not plain, and what exactly is wrong with them
    logs.py                one log: its small files against its batches
    comparison.py          two copies of a partition compared
    differences.py         where two copies differ, and why
    directories.py         a log directory: names, ids, checkpoints
"""
