"""Read, write, recover and copy whole log directories.

Modules:
    log_dirs.py                log directories for reading: topics, partitions, replicas
    key_partitions.py          the partitions to which the default partitioner sends keys
    writer.py, root_writer.py  one log directory open for writing; its own files
    topics.py                  the topics that a write creates, and checks of existing ones
    transactional_ids.py       the producer and the open transaction of each transactional id
    recover.py                 recover a directory, or forecast the result
    start_faults.py            faults that keep a broker from starting
    copying.py                 copies of partitions that a broker can start from
    restoration.py             the extra files that a restore commits with its rows
"""
