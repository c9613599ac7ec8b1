"""The files of a log directory besides records.

Modules:
    file_names.py              names of segments, indexes, snapshots, partition directories
    checkpoints.py             the small text files: checkpoints, properties, markers
    log_dir_files.py, lock.py  a log directory's files outside its partitions; its lock, held as Kafka holds it
    topic_config.py            a topic's settings, each with its source
    setting_layers.py          the settings that a topic inherits from its broker, layer by layer
    release.py                 releases of Kafka and their rules
    commit_journal.py          an atomic commit of several partitions
    streaming_epochs.py        the last committed streaming epoch of each Spark query
    restored_topics.py         the topics that are restored exports
    lost_offsets.py            the offsets that a repair could not keep
    replication.py             the known facts about other replicas
    tiering.py                 the log start offset of logs with remote segments
"""
