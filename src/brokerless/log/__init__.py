"""One partition at rest: its files, and reading it.

Modules:
    log.py, segment.py         a partition; one segment, its indexes, and where it ends
    offset_range.py            words, offsets and times become the range that a read covers
    split.py                   that range divided into pieces of files
    reader.py                  the pieces, read as Arrow
    timestamps.py              offsets for times: the time index, and the broker's rules
    transactions.py            aborted and open transactions, found by their markers
    damage.py                  which bytes can be trusted, and what is lost between them
    expected_records.py        records that a log should have, by the files around it
"""
