"""Logs made by hand, for what no golden log holds: batches of format 2, uncompressed, and the files around them."""

import struct
from pathlib import Path

from support.reference_decoder import crc32c

NOW = 1_700_000_000_000


class Memory:
    """Bytes as a file that the core reads."""

    def __init__(self, content):
        self._content = content

    def size(self):
        return len(self._content)

    def read(self, position, length):
        return self._content[position : position + length]


def batch(
    base_offset,
    values,
    *,
    timestamp=NOW,
    leader_epoch=0,
    producer_id=-1,
    producer_epoch=None,
    base_sequence=-1,
    transactional=False,
    control=False,
    keys=None,
    last_offset_delta=None,
    deltas=None,
    step=1,
):
    """Build a batch with a record a value; record i has the timestamp `timestamp` + i * `step`.

    `deltas` are the offsets of the records in the batch: all of them, unless some were compacted away.
    """
    deltas = deltas or list(range(len(values)))
    records = b"".join(
        _record(delta, i * step, key, value)
        for i, (delta, key, value) in enumerate(zip(deltas, keys or [None] * len(values), values, strict=True))
    )
    if producer_epoch is None:
        producer_epoch = 0 if producer_id >= 0 else -1
    body = struct.pack(
        ">hiqqqhii",
        0x10 * transactional | 0x20 * control,
        max(deltas, default=-1) if last_offset_delta is None else last_offset_delta,
        timestamp,
        timestamp + max(0, len(values) - 1) * step,
        producer_id,
        producer_epoch,
        base_sequence,
        len(values),
    )
    body += records
    return struct.pack(">qiibI", base_offset, len(body) + 9, leader_epoch, 2, crc32c(body)) + body


def marker(offset, producer_id, *, commit, coordinator_epoch=0, **fields):
    """Build the control batch that ends a transaction; `fields` are those of `batch`."""
    key = struct.pack(">hh", 0, 1 if commit else 0)
    value = struct.pack(">hi", 0, coordinator_epoch)
    return batch(offset, [value], keys=[key], producer_id=producer_id, transactional=True, control=True, **fields)


def _record(offset_delta, timestamp_delta, key, value):
    body = b"\0" + _varint(timestamp_delta) + _varint(offset_delta) + _bytes(key) + _bytes(value) + _varint(0)
    return _varint(len(body)) + body


def _bytes(content):
    return _varint(-1) if content is None else _varint(len(content)) + content


def _varint(number):
    number = number << 1 if number >= 0 else (-number << 1) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def write_segment(directory, base_offset, batches, *, indexed=True):
    """Write a `.log`, and the indexes that a broker with an index interval of 0 would write beside it."""
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    stem = directory / f"{base_offset:020d}"
    stem.with_suffix(".log").write_bytes(b"".join(batches))
    if indexed:
        offsets, times, position, latest = [], [], 0, -1
        for content in batches:
            last = struct.unpack_from(">q", content)[0] + struct.unpack_from(">i", content, 23)[0]
            timestamp = struct.unpack_from(">q", content, 35)[0]
            if timestamp > latest:
                latest = timestamp
                times.append(struct.pack(">qi", timestamp, last - base_offset))
            if position:
                offsets.append(struct.pack(">ii", last - base_offset, position))
            position += len(content)
        stem.with_suffix(".index").write_bytes(b"".join(offsets))
        stem.with_suffix(".timeindex").write_bytes(b"".join(times))
    return stem.with_suffix(".log")


def write_transaction_index(directory, base_offset, entries):
    """Write a `.txnindex` of (producer_id, first_offset, last_offset, last_stable_offset)."""
    path = Path(directory) / f"{base_offset:020d}.txnindex"
    path.write_bytes(b"".join(struct.pack(">hqqqq", 0, *entry) for entry in entries))
    return path


def write_snapshot(directory, offset, open_transactions=()):
    """Write a producer snapshot with one producer for each (producer_id, first_offset)."""
    entries = b"".join(
        struct.pack(">qhiqiqiq", producer, 0, -1, -1, 0, NOW, -1, first) for producer, first in open_transactions
    )
    body = struct.pack(">i", len(open_transactions)) + entries
    path = Path(directory) / f"{offset:020d}.snapshot"
    path.write_bytes(struct.pack(">hI", 1, crc32c(body)) + body)
    return path
