"""Whole log directories: topics and their logs, written, recovered, copied.

Modules:
    log_dirs.py                log directories, read: topics, partitions, replicas
    writer.py, root_writer.py  one log directory open for writing; its own files
    topics.py                  topics and partitions as a write will have them
    transactional_ids.py       which producer has a transactional id, and what it has open
    cluster_metadata.py        what a directory says of its cluster
    recover.py                 recover a directory, or forecast what that would do
    start_faults.py            faults that keep a broker from starting
    copying.py                 copies of partitions, with what a broker needs to start from them
    restoration.py             what makes a write a restore
"""
