"""What Kafka keeps in a log directory besides records.

Modules:
    file_names.py              names of segments, indexes, snapshots, partition directories
    checkpoints.py             the small text files: checkpoints, properties, markers
    log_dir_files.py, lock.py  a log directory's own files, read; its lock, held as Kafka holds it
    topic_config.py            a topic's settings, each with its source
    broker_settings.py         the settings that a topic takes from its broker, layer by layer
    bootstrap_metadata.py      the metadata that a new KRaft cluster starts with
    release.py                 releases of Kafka, compared
    journal.py                 a commit that is in force, and whose files are still to be moved
    streaming_epochs.py        the last epoch of each streaming query
    restored_topics.py         which topics were restored
    replication.py             what is known of other replicas
    tiering.py                 where a log starts whose oldest segments may be in remote storage
"""
