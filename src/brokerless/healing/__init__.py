"""Log directories without their faults, and clusters that start again.

Modules:
    rescue.py                  a cluster that starts, from whatever disks are left
    rescue_plan.py             the nodes of the new cluster, and what each partition is made of
    surviving_metadata.py      the newest metadata of a cluster on any of them
    found_topics.py            the topics that they have, and the replicas of each partition
    replica_ranking.py         which of these replicas is the best
    partition_counts.py        how many partitions Kafka's own topics have, if no metadata tell
    producer_ids.py            the highest producer id that partitions know
    new_cluster.py             the metadata that the new cluster starts with
    repair.py                  a log directory repaired: beside the damaged one, or in its place
    repair_plan.py             what is done for each log of a directory, and then done
    log_repair.py              the plan of one log: what can be kept of it, and the steps
    write_partition.py         a partition's directory, written by these steps
    pieces.py                  whole batches of a file, between damage
    replica_fill.py            what a log lacks, from another replica
    leader_epochs.py           leader epochs that contradict each other
    abort_markers.py           lost markers of aborted transactions
    suspect_batches.py         batches with a wrong checksum whose records can be decoded
    report.py                  what a repair or a rescue did
    lost_directory.py          the bytes that a result lacks, and the report
    damaged_range.py           offsets that damage hit, and what became of them
"""
