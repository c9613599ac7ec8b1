"""A write by many tasks, all of it in force or nothing.

Modules:
    atomic_write.py            the write: stage, then one rename
    parts.py                   what one task writes
    staged_logs.py             the logs that the commit makes of the parts
"""
