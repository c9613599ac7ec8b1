"""A write by many tasks: rows are staged beside the logs, then all rows take effect or none.

The rename that makes the write take effect is `brokerless.layout.commit_journal.commit`.

Modules:
    atomic_write.py            the write, from its begin to its commit
    parts.py                   the files that one task writes
    staged_logs.py             the logs that the commit builds from the parts
"""
