"""A write by many tasks: staged beside the logs, then all of it in force or nothing.

The rename that puts it in force is `brokerless.layout.commit_journal.commit`.

Modules:
    atomic_write.py            the write, from its begin to its commit
    parts.py                   the files that one task writes
    staged_logs.py             the logs that the commit makes of the parts
"""
