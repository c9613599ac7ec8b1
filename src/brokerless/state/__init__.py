"""The state of a cluster as tables, from Kafka's internal topics, the metadata log and producer snapshots.

Modules:
    internal_topic.py      the records of an internal topic that count for a coordinator
    groups.py              groups of all types, with their members
    offset_commits.py      the offsets that groups committed, and their lag
    producers.py           the producers of each partition
    transactions.py        transactional ids; open and hanging transactions
    remote_segments.py     the segments in remote storage
    schemas.py             the schemas of a registry, and which topics use them
    cluster.py             a cluster's metadata as of a point, and the changes between two points
    cluster_changes.py     the changes of topics, settings, ACLs and users one by one, with their times
"""
