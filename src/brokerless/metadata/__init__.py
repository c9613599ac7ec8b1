"""Cluster metadata in a log directory: the metadata log, its snapshots, and the records that a new cluster starts with.

Modules:
    directory.py           where a log directory holds metadata, and whether a broker has started on it
    records.py             records of the topics that Kafka keeps its own state in, decoded
    schema.py              the types of the tables, and their values as JSON
    image.py               the metadata after their records, by subject
    log.py                 the snapshots and the records of the metadata log
    bootstrap.py           the metadata that a new KRaft cluster starts with
    voters.py              the voters of a metadata quorum, in the first snapshot of its log
    topic_settings.py      settings of topics in layers, replicas, and the partitions that a broker will serve
    topic_names.py         names of topics by their ids
    uncommitted.py         notes about rows that other brokers may not have
"""
