"""Log directories without their faults, and clusters that start again.

Modules:
    rescue.py                  a cluster that starts, from whatever disks are left
    surviving_metadata.py      the newest metadata of a cluster on any of them
    repair.py                  a log directory repaired: beside the damaged one, or in its place
    salvage.py                 what can be kept of a log
    partition_files.py         a partition's directory, written from what can be kept
    pieces.py                  whole batches of a file, between damage
    other_replicas.py          what a log lacks, from another replica
    epochs.py                  leader epochs that contradict each other
    markers.py                 lost markers of aborted transactions
    suspects.py                batches with a wrong checksum whose records can be decoded
    lost_directory.py          the bytes that a result lacks, and the report
    damaged_range.py           offsets that damage hit, and what became of them
"""
