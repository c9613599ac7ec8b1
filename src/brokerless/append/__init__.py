"""A partition open for writing: appends, rolls, and the replacement of segments.

Modules:
    writer.py                  the partition: append, truncate, replace and delete segments
    segment_files.py           the files that the partition writes to
    active_segment.py          the files of the active segment
    operation.py               the base of every operation on a log: state in, outcome out
    swap.py                    replacing old segments by new ones
"""
