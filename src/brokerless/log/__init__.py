"""One partition at rest: its files, and how they are read.

Modules:
    log.py                     `Log`: the public class that reads a partition
    partition_files.py         the files of a partition: its segments, and where its log starts and ends
    segment.py                 one segment, its indexes, and where it ends
    offset_range.py            the offset range of a read, resolved from words, offsets and times
    split.py                   a read divided into ranges of files
    reader.py                  splits decoded into Arrow
    read_options.py            the options of reads that many functions pass on
    filter.py                  a pyarrow expression, and the parts of it that save reading
    log_reader.py              the rows of several logs, narrowed before they are read
    dataset.py, frames.py      rows as a dataset of pyarrow, and as data frames
    search.py                  what a record must hold to be found
    matches.py                 the records that a search finds
    surroundings.py            the records around others
    offsets_for_times.py       offsets for times: the time index, and the broker's rules
    unlikely_times.py          timestamps in the future, or in another unit than ms
    end_offsets.py             the log end offset at past times
    aborted_transactions.py    aborted and open transactions, found by their markers
    defect.py                  a fault at one place of a log, and the offsets that it costs
    survey.py                  sound and damaged ranges of a segment, and the offsets lost between them
    registry.py                the schemas of a registry, from its topic beside other logs
    expected_end.py            the end that a log should have according to the files around it
"""
