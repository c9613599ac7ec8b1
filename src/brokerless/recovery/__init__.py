"""The work of a starting broker on a partition: load, recover, truncate.

Modules:
    loader.py, load_result.py  the changes made by opening a log, and the result
    clean_start.py             a log as a broker loads it after a clean shutdown, with damage that it keeps
    truncate.py                the changes made by truncating a log
    file_changes.py            the changes, as ordered steps that a crash can interrupt
    producer_state.py          producers, from snapshots and batches
    segment_replay.py          a walk over one segment for its producers
    lost_batches.py            sound batches that recovery cuts off
"""
