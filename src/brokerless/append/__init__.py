"""One partition open for writing: appends, rolls, segments that replace others.

Modules:
    writer.py                  the partition: append, truncate, replace and delete segments
    open_log.py                the appender that decides, and the files that it decides for
    active_segment.py          the files of the active segment
    operation.py               what every operation on a log has in common: state in, outcome out
    swap.py                    new segments put in the place of old ones
"""
