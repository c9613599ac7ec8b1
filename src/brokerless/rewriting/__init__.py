"""Operations that rewrite logs, and how they run over partitions.

Modules:
    run.py, selection.py       an operation over the named partitions, in place or into a new directory
    task_steps.py, attempts.py the calls that do a partition's work; a call may run twice
    progress_file.py           the finished partitions
    retain.py, truncate.py     delete old segments; cut a log back to an earlier time or offset
    whole_transactions.py      the effect of a cut of several logs on transactions
    convert.py, estimate.py    other formats and codecs; the space that each would take
    erase.py                   remove chosen records
    segment_rewrite.py         one old segment, rewritten
    cleaned_segment.py         the files of a new segment
    compact/                   keep the last record of each key
"""
