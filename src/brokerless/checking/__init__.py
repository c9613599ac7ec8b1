"""The faults of log directories, with the effect and the cure of each.

Modules:
    check.py               the check of log directories
    codes.py               the kinds of findings: what each means, its effect and its cure
    finding.py             a finding
    segments.py            one segment: its batches and records, and its indexes compared with them
    batch_check.py         batches of a log compared with each other, across segments
    batch_columns.py       batches that are not plain, and the exact fault of each
    logs.py                one log: its small files compared with its batches
    compare.py             the comparison of two copies of a partition
    comparison.py          the result of a comparison
    differences.py         the first difference between two copies, and its cause
    directories.py         a log directory: names, ids, checkpoints
"""
