"""Entries of the small files of a log directory: indexes, producer snapshots, checkpoints, properties."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from brokerless import _native
from brokerless.errors import located
from brokerless.io.storage import exists, read_all, read_until_zeros, size
from brokerless.layout import checkpoints
from brokerless.layout.file_names import STATES, base_offset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    Entry = dict[str, Any]

_LARGEST_ENTRY = 12
# As Python objects, entries take about fifty times their bytes. A slice of this many takes a few MB.
_SLICE = 1 << 13


DUMPED = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")
"""The suffixes of the files that kafka-dump-log shows."""


def suffix(path: str) -> str:
    """Return the suffix for a file's kind, with the dot; empty if the name has none.

    The name of bytes that a repair sets aside ends with the position of the first one.

    >>> suffix("orders.v2-0/00000000000000000042.log.deleted"), suffix("orders.v2-0/leader-epoch-checkpoint")
    ('.log', '')
    >>> suffix("orders-0/00000000000000000042.log@2492")
    '.log'
    """
    name = re.sub(r"@\d+$", "", os.path.basename(path))
    for state in STATES:
        name = name.removesuffix(state)
    return name[name.rindex(".") :] if "." in name else ""


def sibling(path: str, suffix_of_it: str) -> str:
    """Return the path of the segment's file of another kind, preferably in the same state (such as `.deleted`)."""
    kind = suffix(path)
    stem, state = path[: path.rindex(kind)], path[path.rindex(kind) + len(kind) :]
    in_state = stem + suffix_of_it + state
    return in_state if exists(in_state) else stem + suffix_of_it


def has_entries(path: str) -> bool:
    """Return whether `entries` can read a file of this name."""
    return suffix(path) in _BY_SUFFIX or os.path.basename(path) in _BY_NAME


def offset_index(path: str) -> _native.OffsetIndex:
    """Read a `.index`."""
    return _native.OffsetIndex(_without_tail(path), base_offset(path))


def entries(path: str) -> Iterator[Entry]:
    """Return the entries of any file of a log directory except a `.log`. The whole file is read and checked first.

    Raises:
        CorruptRecordError: the file is damaged.
        ValueError: no file of a log directory has such a name.
    """
    with located(path):
        by_suffix = _BY_SUFFIX.get(suffix(path))
        if by_suffix is not None:
            return _sliced(by_suffix(path))
        by_name = _BY_NAME.get(os.path.basename(path))
        if by_name is not None:
            return iter(by_name(read_all(path)))
    raise ValueError(f"cannot read {path}: no file of a log directory has such a name")


def _sliced(rows: pa.RecordBatch) -> Iterator[Entry]:
    for start in range(0, rows.num_rows, _SLICE):
        yield from rows.slice(start, _SLICE).to_pylist()


def _time_index(path: str) -> pa.RecordBatch:
    return _native.TimeIndex(_without_tail(path), base_offset(path)).entries()


def _transaction_index(path: str) -> pa.RecordBatch:
    return _native.TransactionIndex(read_all(path), base_offset(path)).entries()


def _without_tail(path: str) -> bytes:
    """Return an index without its tail of zeros, except for one slot: the first slot is an entry even if it is zero."""
    content = read_until_zeros(path)
    return content if len(content) == size(path) else content + bytes(_LARGEST_ENTRY)


def _checkpoint(content: bytes) -> list[Entry]:
    return [
        {"topic": topic, "partition": partition, "offset": offset}
        for (topic, partition), offset in checkpoints.parse_offset_checkpoint(content).items()
    ]


_BY_SUFFIX: dict[str, Callable[[str], pa.RecordBatch]] = {
    ".index": lambda path: offset_index(path).entries(),
    ".timeindex": _time_index,
    ".txnindex": _transaction_index,
    ".snapshot": lambda path: _native.producer_snapshot(read_all(path)),
}
_BY_NAME: dict[str, Callable[[bytes], list[Entry]]] = {
    checkpoints.LEADER_EPOCHS: lambda content: [epoch._asdict() for epoch in checkpoints.parse_leader_epochs(content)],
    checkpoints.PARTITION_METADATA: lambda content: [checkpoints.parse_partition_metadata(content)._asdict()],
    checkpoints.META_PROPERTIES: lambda content: [checkpoints.parse_meta_properties(content)._asdict()],
    checkpoints.CLEAN_SHUTDOWN: lambda content: [{"broker_epoch": checkpoints.parse_clean_shutdown(content)}],
    checkpoints.RECOVERY_POINTS: _checkpoint,
    checkpoints.LOG_START_OFFSETS: _checkpoint,
    checkpoints.HIGH_WATERMARKS: _checkpoint,
    checkpoints.FIRST_DIRTY_OFFSETS: _checkpoint,
}
