"""A log of three segments of four batches each, and the offsets that a read of it hands out."""

from support.log_files import batch, write_segment

SIZE = len(batch(0, [b"a", b"b"]))
"""Of each batch: two records."""


def write_log(directory):
    """Write offsets 0 to 7, 8 to 15, 16 to 23."""
    for base in (0, 8, 16):
        write_segment(directory, base, [batch(base + i, [b"a", b"b"]) for i in (0, 2, 4, 6)])
    return directory


def offsets(reader):
    return [offset for rows in reader for offset in rows["offset"].to_pylist()]


def read_offsets(log, **options):
    return offsets(log.read(columns=["offset"], **options))


def log_file(directory, base):
    return directory / f"{base:020d}.log"
