"""The repair of log directories, and the rescue of clusters from their disks.

Modules:
    rescue.py                  a new cluster from the surviving disks of an old one
    rescue_plan.py             the nodes of the new cluster, and the source of each partition
    surviving_metadata.py      the newest metadata of a cluster on any of its disks
    found_topics.py            the topics on the disks, and the replicas of each partition
    replica_ranking.py         the ranking of these replicas
    partition_counts.py        the number of partitions of Kafka's own topics, without metadata
    producer_ids.py            the highest producer id in partitions
    new_cluster.py             the metadata that the new cluster starts with
    repair.py                  a log directory repaired: beside the damaged one, or in its place
    repair_plan.py             the plan for the logs of a directory, and its execution
    log_repair.py              the repair plan of one log: the parts to keep, and the steps
    write_partition.py         the execution of these steps: a new partition directory
    pieces.py                  runs of whole batches in a file, between damage
    replica_fill.py            the batches that a log lacks, from another replica
    leader_epochs.py           leader epochs that contradict each other
    abort_markers.py           lost markers of aborted transactions
    groups_ahead.py            groups that committed offsets beyond the new end of a log
    suspect_batches.py         damaged batches whose records are there
    report.py                  the report of a repair or a rescue
    lost_directory.py          the bytes that a result lacks, and the report
    damaged_range.py           offsets that damage hit, with their state after the repair
"""
