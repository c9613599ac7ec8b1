"""The names in a log directory, and which files of a partition directory a reader takes.

A broker that died in the middle of a cleaning, a split or a deletion leaves `.cleaned`, `.swap` and `.deleted` files.
`live_files` takes of them what Kafka's own load would keep (LogLoader), without changing anything:

- `.deleted` and `.cleaned` files count for nothing;
- a `.swap` file at or above the lowest `.cleaned` offset belongs to an interrupted split and counts for nothing;
- the other `.log.swap` files are complete: every plain file in the offset range they cover is superseded, and they
  stand in under their final names;
- an index without its `.log` counts for nothing, nor does a producer snapshot that is neither at a segment's base
  offset nor, as a clean shutdown leaves it, the last one and not below the last segment.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LOG, INDEX, TIMEINDEX, TXNINDEX, SNAPSHOT = 1, 2, 4, 8, 16

SEGMENT_KINDS = (LOG, INDEX, TIMEINDEX, TXNINDEX)
"""The kinds of file that a segment consists of."""

CLEANED, SWAP, DELETED = STATES = (".cleaned", ".swap", ".deleted")
"""What the name of a file ends in that does not count yet, takes the place of others, or does not count any more."""

SET_ASIDE = "set-aside-"
"""What the name of a file begins with that recovery has cut off: no broker looks at it."""

_KINDS = {"log": LOG, "index": INDEX, "timeindex": TIMEINDEX, "txnindex": TXNINDEX, "snapshot": SNAPSHOT}
_EXTENSIONS = {kind: extension for extension, kind in _KINDS.items()}
_SUFFIXES = {extension + state: (kind, state) for extension, kind in _KINDS.items() for state in ("", *STATES)}

# Kafka's metadata log: the Raft layer's, not a topic's, and not loaded with the others.
METADATA_TOPIC = "__cluster_metadata"

MOST_PARTITIONS = 100_000
"""Of a topic. Each is a directory; a broker has trouble with far fewer."""

# Kafka's Topic.INTERNAL_TOPICS, its metadata log, and the default topic of remote log metadata.
_INTERNAL = {
    METADATA_TOPIC,
    "__consumer_offsets",
    "__remote_log_metadata",
    "__share_group_state",
    "__transaction_state",
}

_LEFTOVER = re.compile(r"^\S+-\S+\.\S+-(delete|stray|future)$")


class DirectoryName(NamedTuple):
    """What the name of a partition directory says; `leftover` is "", "delete", "stray" or "future"."""

    topic: str
    partition: int
    leftover: str = ""


def parse_directory_name(name: str) -> DirectoryName:
    """Take a partition directory's name apart: the last `-` divides, topics may contain more of them.

    Raises:
        ValueError: it is no such name.

    >>> parse_directory_name("page-views-12")
    DirectoryName(topic='page-views', partition=12, leftover='')
    >>> parse_directory_name("orders-0.0123456789abcdef0123456789abcdef-delete").leftover
    'delete'
    """
    if not is_utf8(name):
        raise ValueError(f"not a partition directory: {name!r} is not UTF-8")
    live, leftover = name, ""
    if name.endswith(("-delete", "-stray", "-future")):
        match = _LEFTOVER.match(name)
        if not match:
            raise ValueError(f"not a partition directory: {name!r} has no unique part before its suffix")
        live, leftover = name[: name.rindex(".")], match[1]
    topic, _, number = live.rpartition("-")
    if not topic or not re.fullmatch(r"\+?[0-9]{1,10}", number) or int(number) >= 1 << 31:
        raise ValueError(f"not a partition directory: {name!r} is not <topic>-<partition>")
    return DirectoryName(topic, int(number), leftover)


def is_utf8(name: str) -> bool:
    """Tell whether a file's name is UTF-8. Of others Java, with such a locale, makes names that no file has."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def leftover_directory_name(topic: str, partition: int, kind: str, unique: str) -> str:
    """Name the directory of a partition that no longer, or not yet, counts.

    Args:
        topic: it is cut where the whole would not fit into the 255 characters of a file's name; not for "future".
        partition: its number.
        kind: "delete", "stray" or "future".
        unique: 32 hex digits that no other directory has.

    >>> leftover_directory_name("orders", 0, "delete", "0123456789abcdef0123456789abcdef")
    'orders-0.0123456789abcdef0123456789abcdef-delete'
    """
    rest = f"-{partition}.{unique}-{kind}"
    return (topic if kind == "future" else topic[: 255 - len(rest)]) + rest


def check_topic_name(name: str) -> None:
    """Refuse what is no topic's name (`Topic.validate`).

    Raises:
        ValueError: it is none.

    >>> check_topic_name("page views")
    Traceback (most recent call last):
    ValueError: not a topic name: 'page views'; 1 to 249 letters, digits, '.', '_' or '-' expected
    """
    if not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name) or name in (".", ".."):
        raise ValueError(f"not a topic name: {name!r}; 1 to 249 letters, digits, '.', '_' or '-' expected")


def check_topic_names(names: Iterable[str], present: Iterable[str] = ()) -> None:
    """Refuse names for new topics, or topics made anew, as Kafka would: for metrics no two may differ in . and _ alone.

    Args:
        names: theirs.
        present: those of the topics that are there; one that is made anew may be among them.

    Raises:
        ValueError: one is no name, or collides with another one.

    >>> check_topic_names(["page.views"], ["page_views"])
    Traceback (most recent call last):
    ValueError: topic 'page.views' collides with topic 'page_views': Kafka's metrics take . and _ for the same
    """
    known: dict[str, set[str]] = defaultdict(set)
    for name in present:
        known[name.replace(".", "_")].add(name)
    for name in names:
        check_topic_name(name)
        alike = known[name.replace(".", "_")]
        for other in sorted(alike - {name}):
            raise ValueError(f"topic {name!r} collides with topic {other!r}: Kafka's metrics take . and _ for the same")
        alike.add(name)


def is_internal(topic: str | None) -> bool:
    """Tell whether Kafka itself writes the topic: not read unless it is named.

    >>> is_internal("__consumer_offsets"), is_internal("orders")
    (True, False)
    """
    return topic in _INTERNAL


def snapshot_offsets(names: Iterable[str]) -> list[int]:
    """Return the offsets of the producer snapshots among a partition's files, ascending.

    >>> snapshot_offsets(["00000000000000000007.snapshot", "00000000000000000007.log", "x.snapshot"])
    [7]
    """
    offsets = (live_base_offset(name) for name in names if name.endswith(".snapshot"))
    return sorted(offset for offset in offsets if offset is not None)


def check_writable_topic(name: str, *, is_copy: bool) -> None:
    """Refuse to write rows to a topic that Kafka itself writes: a broker would not understand them.

    Args:
        name: the topic's.
        is_copy: the rows keep their offsets, and so come from such a topic.

    Raises:
        ValueError: it is the metadata log, or such a topic and no copy of one.
    """
    if name == METADATA_TOPIC:
        raise ValueError(f"{name} is the Raft layer's: its records are not written here")
    if is_internal(name) and not is_copy:
        raise ValueError(f"topic {name} is Kafka's own: only copies whose rows keep their offsets are written to it")


def check_leader_epoch(topic: str, leader_epoch: int) -> None:
    """Refuse a leader epoch that is none.

    Raises:
        ValueError: it is negative, or above an int's.
    """
    if not 0 <= leader_epoch < 1 << 31:
        raise ValueError(f"leader epoch {leader_epoch} of topic {topic!r}: 0 to {(1 << 31) - 1} are allowed")


def check_partitions(topic: str, partitions: int) -> None:
    """Refuse numbers of partitions that a topic cannot have.

    Raises:
        ValueError: it is none from 1 to `MOST_PARTITIONS`.
    """
    if not 1 <= partitions <= MOST_PARTITIONS:
        raise ValueError(f"topic {topic!r} of {partitions} partitions: 1 to {MOST_PARTITIONS} are allowed")


def is_partition_directory(names: Iterable[str]) -> bool:
    """Tell from the names in a directory whether it is one partition's, whatever its own name."""
    return any(name in ("leader-epoch-checkpoint", "partition.metadata") or _parse(name) for name in names)


def base_offset(path: str) -> int:
    """Return the number in a file's name: a segment's base offset, or the end offset of a snapshot.

    Raises:
        ValueError: there is no number before the first dot, or one that is no offset.

    >>> base_offset("/data/orders-0/00000000000000000042.timeindex")
    42
    """
    number = os.path.basename(path).partition(".")[0]
    # so long a number is none that Python would refuse to convert
    if not re.fullmatch("[0-9]{1,99}", number) or int(number) >= 1 << 63:
        raise ValueError(f"cannot read {path}: a segment's file is named by its base offset (00000000000000000042.log)")
    return int(number)


def live_base_offset(name: str) -> int | None:
    """Return the number in a name that Kafka would open; None: it is not Kafka's, and its digits mean nothing.

    >>> live_base_offset("00000000000000000042.log"), live_base_offset("2024-05-01-backup.log")
    (42, None)
    """
    parsed = _parse(name)
    return None if parsed is None else parsed[0]


def segment_file(base_offset: int, kind: int, state: str = "") -> str:
    """Name a segment's file.

    >>> segment_file(42, TIMEINDEX)
    '00000000000000000042.timeindex'
    """
    return f"{base_offset:020d}.{_EXTENSIONS[kind]}{state}"


class LiveFiles(NamedTuple):
    """The files of a partition directory that count.

    `kinds` maps each segment's base offset to the kinds it has (a sum of LOG, INDEX, TIMEINDEX, TXNINDEX), `swapped`
    to those of them that still bear the `.swap` suffix. `snapshots` are the offsets of producer snapshots. `lost` are
    segments of which there are indexes, and no `.log`, be it a deleted one. All ascend.
    """

    kinds: dict[int, int]
    swapped: dict[int, int]
    snapshots: list[int]
    lost: list[int]


def live_files(names: Iterable[str], next_offset_of: Callable[[str], int]) -> LiveFiles:
    """Sort out a partition directory; `next_offset_of` gives the offset after the last batch of a `.log.swap` name."""
    plain: dict[int, int] = {}
    swapped: dict[int, int] = {}
    deleted = set()
    cleaned = 1 << 63
    for name in names:
        parsed = _parse(name)
        if parsed is None:
            continue
        offset, kind, state = parsed
        if state == "":
            plain[offset] = plain.get(offset, 0) | kind
        elif state == SWAP:
            swapped[offset] = swapped.get(offset, 0) | kind
        elif state == CLEANED:
            cleaned = min(cleaned, offset)
        elif kind == LOG:
            deleted.add(offset)
    swapped = {offset: kinds for offset, kinds in sorted(swapped.items()) if offset < cleaned}
    complete = [offset for offset, kinds in swapped.items() if kinds & LOG]
    if complete:
        end = max(max(next_offset_of(segment_file(offset, LOG, SWAP)), offset) for offset in complete)
        plain = {offset: kinds for offset, kinds in plain.items() if not complete[0] <= offset < end}
    for offset, kinds in swapped.items():
        plain[offset] = plain.get(offset, 0) | kinds
    ordered = sorted(plain.items())
    segments = {offset: kinds & ~SNAPSHOT for offset, kinds in ordered if kinds & LOG}
    snapshots = [offset for offset, kinds in ordered if kinds & SNAPSHOT]
    last = max(segments, default=0)
    kept = [offset for offset in snapshots if offset in segments or (offset == snapshots[-1] and offset >= last)]
    lost = [offset for offset, kinds in ordered if kinds & (INDEX | TIMEINDEX) and not kinds & LOG]
    return LiveFiles(segments, swapped, kept, [offset for offset in lost if offset not in deleted])


def _parse(name: str) -> tuple[int, int, str] | None:
    digits, _, suffix = name.partition(".")
    known = _SUFFIXES.get(suffix)
    # Kafka opens only names padded to 20 digits: whatever else ends in .log is not its own.
    if known is None or len(digits) != 20 or not (digits.isascii() and digits.isdigit()):
        return None
    offset = int(digits)
    return (offset, *known) if offset < 1 << 63 else None
