"""Compaction: keep the last record of each key, as the log cleaner does.

Modules:
    compact.py, distributed.py the operation; the same in several calls for a large log
    plan.py                    which segments are cleanable, and which are merged
    passes.py                  decide which records stay, then rewrite
    record_selection.py        the decision: a bit for each record
    report.py, explain.py      the changes; why the records of a key still exist
"""
