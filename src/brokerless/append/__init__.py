"""One partition open for writing: appends, rolls, segments that replace others.

Modules:
    writer.py                  the partition: append, truncate, replace and delete segments
    segment_files.py           the partition's files, as an append changes them
    active_segment.py          the files of the active segment
    operation.py               what every operation on a log has in common: state in, outcome out
    swap.py                    new segments put in the place of old ones
"""
