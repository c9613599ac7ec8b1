"""Log directories without their faults, and clusters that start again.

Modules:
    repair.py                  a log directory repaired: beside the damaged one, or in its place
    salvage.py                 what can be kept of a log
    pieces.py                  whole batches of a file, between damage
    other_replicas.py          what a log lacks, from another replica
    epochs.py                  leader epochs that contradict each other
    suspects.py                batches with a wrong checksum whose records can be decoded
    damaged_range.py           offsets that damage hit, and what became of them
"""
