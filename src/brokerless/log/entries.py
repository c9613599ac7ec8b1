"""What the small files of a log directory say, entry by entry: indexes, producer snapshots, checkpoints, properties."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from brokerless import _native
from brokerless.errors import located
from brokerless.log import texts
from brokerless.storage import read_all, read_until_zeros, size

if TYPE_CHECKING:
    from collections.abc import Callable

    Entries = list[dict[str, Any]]

_LARGEST_ENTRY = 12


def base_offset(path: str) -> int:
    """Return the number in a segment file's name.

    >>> base_offset("orders-0/00000000000000000042.timeindex")
    42
    """
    number = os.path.basename(path).partition(".")[0]
    if not (number.isascii() and number.isdigit()):
        raise ValueError(f"cannot read {path}: a segment's file is named by its base offset (00000000000000000042.log)")
    return int(number)


def suffix(path: str) -> str:
    """Return what stands behind the last dot of a file's name, with the dot; empty if there is none.

    >>> suffix("orders.v2-0/00000000000000000042.log.deleted"), suffix("orders.v2-0/leader-epoch-checkpoint")
    ('.deleted', '')
    """
    name = os.path.basename(path)
    return name[name.rindex(".") :] if "." in name else ""


def offset_index(path: str) -> _native.OffsetIndex:
    """Read a `.index`."""
    return _native.OffsetIndex(_without_tail(path), base_offset(path))


def entries(path: str) -> Entries:
    """Return the entries of any file of a log directory that is not a log.

    Raises:
        CorruptRecordError: the file is damaged.
        ValueError: its name is that of no such file.
    """
    with located(path):
        by_suffix = _BY_SUFFIX.get(suffix(path))
        if by_suffix is not None:
            return by_suffix(path)
        by_name = _BY_NAME.get(os.path.basename(path))
        if by_name is not None:
            return by_name(read_all(path))
    raise ValueError(f"cannot read {path}: no file of a log directory is named so")


def _time_index(path: str) -> Entries:
    return _native.TimeIndex(_without_tail(path), base_offset(path)).entries().to_pylist()


def _transaction_index(path: str) -> Entries:
    return _native.TransactionIndex(read_all(path), base_offset(path)).entries().to_pylist()


def _without_tail(path: str) -> bytes:
    """Return an index without its zeros but for one slot: the first is an entry even if it is zero."""
    content = read_until_zeros(path)
    return content if len(content) == size(path) else content + bytes(_LARGEST_ENTRY)


def _checkpoint(content: bytes) -> Entries:
    return [
        {"topic": topic, "partition": partition, "offset": offset}
        for (topic, partition), offset in texts.parse_offset_checkpoint(content).items()
    ]


_BY_SUFFIX: dict[str, Callable[[str], Entries]] = {
    ".index": lambda path: offset_index(path).entries().to_pylist(),
    ".timeindex": _time_index,
    ".txnindex": _transaction_index,
    ".snapshot": lambda path: _native.producer_snapshot(read_all(path)).to_pylist(),
}
_BY_NAME: dict[str, Callable[[bytes], Entries]] = {
    texts.LEADER_EPOCHS: lambda content: [epoch._asdict() for epoch in texts.parse_leader_epochs(content)],
    texts.PARTITION_METADATA: lambda content: [texts.parse_partition_metadata(content)._asdict()],
    texts.META_PROPERTIES: lambda content: [texts.parse_meta_properties(content)._asdict()],
    texts.CLEAN_SHUTDOWN: lambda content: [{"broker_epoch": texts.parse_clean_shutdown(content)}],
    texts.RECOVERY_POINTS: _checkpoint,
    texts.LOG_START_OFFSETS: _checkpoint,
    texts.HIGH_WATERMARKS: _checkpoint,
    texts.FIRST_DIRTY_OFFSETS: _checkpoint,
}
