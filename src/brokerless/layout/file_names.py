"""The names in a log directory, and the choice of the live files in a partition directory.

A broker that dies during a cleaning, a split or a deletion leaves `.cleaned`, `.swap` and `.deleted` files.
`live_files` selects the files that Kafka's own load would keep (LogLoader), and changes nothing:

- `.deleted` and `.cleaned` files are ignored.
- A `.swap` file at or above the lowest `.cleaned` offset belongs to an interrupted split and is ignored.
- The other `.log.swap` files are complete. They replace all plain files in their offset range.
- An index without its `.log` is ignored.
- A producer snapshot at a segment's base offset is kept. The last snapshot is also kept if it is not below the last
  segment, as after a clean shutdown. Other snapshots are ignored.
"""

from __future__ import annotations

import os
import re
import shlex
from collections import defaultdict
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from brokerless import _native
from brokerless.arguments import FEW, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LOG, INDEX, TIMEINDEX, TXNINDEX, SNAPSHOT = 1, 2, 4, 8, 16

SEGMENT_KINDS = (LOG, INDEX, TIMEINDEX, TXNINDEX)
"""The kinds of file in a segment."""

CLEANED, SWAP, DELETED = STATES = (".cleaned", ".swap", ".deleted")
"""The suffixes of files that are unfinished, of files that replace others, and of files that will be deleted."""

SET_ASIDE = "set-aside-"
"""The prefix of files with data that recovery truncated. Brokers ignore them."""

_KINDS = {"log": LOG, "index": INDEX, "timeindex": TIMEINDEX, "txnindex": TXNINDEX, "snapshot": SNAPSHOT}
_EXTENSIONS = {kind: extension for extension, kind in _KINDS.items()}
_SUFFIXES = {extension + state: (kind, state) for extension, kind in _KINDS.items() for state in ("", *STATES)}

# The ends of the file names from which a starting broker parses an offset.
_BY_OFFSET = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", CLEANED, SWAP)

# Kafka's metadata log. It belongs to the Raft layer and is not loaded with the topics.
METADATA_TOPIC = "__cluster_metadata"
OFFSETS_TOPIC = "__consumer_offsets"
COORDINATORS = frozenset({OFFSETS_TOPIC, "__transaction_state", "__share_group_state"})
"""The topics whose partitions a coordinator loads completely, or not at all."""
# The cache of tiered storage (RemoteIndexCache.DIR_NAME).
REMOTE_INDEXES = "remote-log-index-cache"
"""A directory of a tiered broker that is not a partition."""

MOST_PARTITIONS = 100_000
"""The maximum number of partitions of a topic. Each is a directory, and far fewer already overload a broker."""

# Kafka's Topic.INTERNAL_TOPICS, its metadata log, and the default topic of remote log metadata.
_INTERNAL = {
    METADATA_TOPIC,
    OFFSETS_TOPIC,
    "__remote_log_metadata",
    "__share_group_state",
    "__transaction_state",
}

_LEFTOVER = re.compile(r"^\S+-\S+\.\S+-(delete|stray|future)$")


class DirectoryName(NamedTuple):
    """The parts of a partition directory's name. `leftover` is "", "delete", "stray" or "future"."""

    topic: str
    partition: int
    leftover: str = ""


def parse_directory_name(name: str) -> DirectoryName:
    """Parse a partition directory's name. The last `-` separates topic and partition, because topics may contain `-`.

    Raises:
        ValueError: the name is not the name of a partition directory.

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


def is_directory_name(name: str) -> bool:
    """Return whether a name is the name of a partition's directory."""
    try:
        parse_directory_name(name)
    except ValueError:
        return False
    return True


def is_utf8(name: str) -> bool:
    """Return whether a file's name is UTF-8. Java decodes other names to names that no file has."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def leftover_directory_name(topic: str, partition: int, kind: str, unique: str) -> str:
    """Return the directory name of a partition that is no longer, or not yet, in use.

    Args:
        topic: the topic; shortened, except for "future", so that the name has at most 255 characters.
        partition: the partition number.
        kind: "delete", "stray" or "future".
        unique: 32 hex digits that no other directory has.

    >>> leftover_directory_name("orders", 0, "delete", "0123456789abcdef0123456789abcdef")
    'orders-0.0123456789abcdef0123456789abcdef-delete'
    """
    rest = f"-{partition}.{unique}-{kind}"
    return (topic if kind == "future" else topic[: 255 - len(rest)]) + rest


def check_topic_name(name: str) -> None:
    """Refuse an invalid topic name (`Topic.validate`).

    Raises:
        ValueError: the name is invalid.

    >>> check_topic_name("page views")
    Traceback (most recent call last):
    ValueError: not a topic name: 'page views'; 1 to 249 letters, digits, '.', '_' or '-' expected
    """
    if not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name) or name in (".", ".."):
        raise ValueError(f"not a topic name: {name!r}; 1 to 249 letters, digits, '.', '_' or '-' expected")


def check_topic_names(names: Iterable[str], present: Iterable[str] = ()) -> None:
    """Refuse names for new topics that Kafka would refuse, such as names that differ only in `.` and `_`.

    Args:
        names: the names of topics to create.
        present: the names of existing topics; a topic to be created again may be among them.

    Raises:
        ValueError: a name is invalid, or collides with another name.

    >>> check_topic_names(["page.views"], ["page_views"])
    Traceback (most recent call last):
    ValueError: topic 'page.views' collides with topic 'page_views': Kafka's metrics cannot tell . from _
    """
    known: dict[str, set[str]] = defaultdict(set)
    for name in present:
        known[name.replace(".", "_")].add(name)
    for name in names:
        check_topic_name(name)
        alike = known[name.replace(".", "_")]
        for other in sorted(alike - {name}):
            raise ValueError(f"topic {name!r} collides with topic {other!r}: Kafka's metrics cannot tell . from _")
        alike.add(name)


def is_internal(topic: str | None) -> bool:
    """Return whether Kafka itself writes the topic. Internal topics are read only if they are named.

    >>> is_internal("__consumer_offsets"), is_internal("orders")
    (True, False)
    """
    return topic in _INTERNAL


def is_glob(name: str) -> bool:
    """Return whether a name is a glob, which contains `*`, `?` or `[`. No topic name does."""
    return any(letter in name for letter in "*?[")


def is_chosen(topic: str | None, names: Iterable[str]) -> bool:
    """Return whether names or globs select a topic. A glob selects Kafka's internal topics only if it begins with `_`.

    >>> is_chosen("orders-v2", ["orders-*"]), is_chosen("__consumer_offsets", ["*"])
    (True, False)
    """
    return any(
        topic == name
        or (
            topic is not None
            and is_glob(name)
            and fnmatchcase(topic, name)
            and (name.startswith("_") or not is_internal(topic))
        )
        for name in names
    )


class InactivePartition(NamedTuple):
    """A partition directory that is no longer, or not yet, in use: `kind` is "delete", "stray" or "future".

    >>> import os
    >>> import brokerless as bl
    >>> bl.create_log_dir(NEW).close()
    >>> os.mkdir(f"{NEW}/orders-0.{'0' * 32}-delete")
    >>> [(left.topic, left.partition, left.kind) for left in bl.LogDirs(NEW).leftovers()]
    [('orders', 0, 'delete')]
    """

    path: str
    topic: str
    partition: int
    kind: str


def chosen_topics(names: Iterable[str], known: Iterable[str], inactive: Iterable[InactivePartition] = ()) -> list[str]:
    """Return the topics that names or globs select, sorted.

    Args:
        names: names or globs.
        known: the topics.
        inactive: the directories that are not in use. They are listed only for the text of an error.

    Raises:
        ValueError: a name or a glob selects no topic, or only directories that are not in use.

    >>> chosen_topics(["orders-*", "users"], ["orders-1", "orders-2", "users", "other"])
    ['orders-1', 'orders-2', 'users']
    """
    topics = set(known)
    chosen: set[str] = set()
    for name in names:
        found = {topic for topic in topics if is_chosen(topic, [name])}
        if not found:
            left = sorted(one for one in inactive if is_chosen(one.topic, [name]))
            raise ValueError(_only_inactive(name, left)) if left else unknown("topic", name, topics)
        chosen |= found
    return sorted(chosen)


def _only_inactive(name: str, left: list[InactivePartition]) -> str:
    """Return the text about a topic that has only directories which are not in use."""
    kinds = sorted({f"-{one.kind}" for one in left})
    paths = " ".join(shlex.quote(one.path) for one in left[:FEW]) + (" ..." if len(left) > FEW else "")
    removes = "A broker removes those in -delete when it starts: copy them first. " if "-delete" in kinds else ""
    return (
        f"topic {name!r} has only directories that end in {' or '.join(kinds)}, which reads skip unless their paths "
        f"are given: `brokerless read {paths}`. {removes}"
        'The guide "Your broker\'s words" says how to bring back a deleted topic'
    )


def snapshot_offsets(names: Iterable[str]) -> list[int]:
    """Return the offsets of the producer snapshots among a partition's files, ascending.

    >>> snapshot_offsets(["00000000000000000007.snapshot", "00000000000000000007.log", "x.snapshot"])
    [7]
    """
    offsets = (live_base_offset(name) for name in names if name.endswith(".snapshot"))
    return sorted(offset for offset in offsets if offset is not None)


def check_writable_topic(name: str, *, is_copy: bool) -> None:
    """Refuse to write rows to an internal topic, because a broker would not understand them.

    Args:
        name: the topic.
        is_copy: whether the rows keep their offsets, as a copy of an internal topic does.

    Raises:
        ValueError: the topic is the metadata log, or it is internal and the rows are not a copy.
    """
    if name == METADATA_TOPIC:
        raise ValueError(f"cannot write records to {name}: only Kafka's Raft layer writes to it")
    if is_internal(name) and not is_copy:
        raise ValueError(f"topic {name} is internal to Kafka: only rows that keep their offsets can be written to it")


def check_leader_epoch(topic: str, leader_epoch: int) -> None:
    """Refuse an invalid leader epoch.

    Raises:
        ValueError: the epoch is negative, or above 2^31-1.
    """
    if not 0 <= leader_epoch < 1 << 31:
        raise ValueError(f"leader epoch {leader_epoch} of topic {topic!r}: 0 to {(1 << 31) - 1} are allowed")


def check_partitions(topic: str, partitions: int) -> None:
    """Refuse an invalid number of partitions.

    Raises:
        ValueError: the number is not between 1 and `MOST_PARTITIONS`.
    """
    if not 1 <= partitions <= MOST_PARTITIONS:
        raise ValueError(f"topic {topic!r} of {partitions} partitions: 1 to {MOST_PARTITIONS} are allowed")


def is_partition_directory(names: Iterable[str]) -> bool:
    """Return whether a directory that holds these names is a partition directory, whatever its path is."""
    return any(name in ("leader-epoch-checkpoint", "partition.metadata") or _parse(name) for name in names)


def base_offset(path: str) -> int:
    """Return the offset in a file's name: the base offset of a segment, or the end offset of a snapshot.

    Raises:
        ValueError: the text before the first dot is not an offset.

    >>> base_offset("/data/orders-0/00000000000000000042.timeindex")
    42
    """
    number = os.path.basename(path).partition(".")[0]
    # 99 digits are within the limit up to which Python converts text to numbers.
    if not re.fullmatch("[0-9]{1,99}", number) or int(number) >= 1 << 63:
        raise ValueError(f"cannot read {path}: a segment's file is named by its base offset (00000000000000000042.log)")
    return int(number)


def live_base_offset(name: str) -> int | None:
    """Return the offset in the name of a file that Kafka would open; None for any other name.

    >>> live_base_offset("00000000000000000042.log"), live_base_offset("2024-05-01-backup.log")
    (42, None)
    """
    parsed = _parse(name)
    return None if parsed is None else parsed[0]


def broker_offset(name: str) -> int | None:
    """Return the offset that a broker parses from a file name of any length; None if it fails on the name.

    As in `LogFileUtils.offsetFromFileName`, the offset is a Java `long` before the first dot.

    >>> broker_offset("7.log"), broker_offset("-7.snapshot"), broker_offset("backup.log")
    (7, -7, None)
    """
    number = name.partition(".")[0]
    # 99 digits are within the limit up to which Python converts text to numbers.
    if not re.fullmatch("[+-]?[0-9]{1,99}", number) or not -(1 << 63) <= int(number) < 1 << 63:
        return None
    return int(number)


def is_fatal(name: str) -> bool:
    """Return whether a file of this name in a partition directory keeps a broker from starting (LogLoader).

    >>> is_fatal("99999999999999999999.log"), is_fatal("x.snapshot"), is_fatal("backup.txt"), is_fatal("7.log")
    (True, True, False, False)
    """
    return name.endswith(_BY_OFFSET) and broker_offset(name) is None


def segment_file(base_offset: int, kind: int, state: str = "") -> str:
    """Return the name of a segment's file.

    >>> segment_file(42, TIMEINDEX)
    '00000000000000000042.timeindex'
    """
    return f"{base_offset:020d}.{_EXTENSIONS[kind]}{state}"


class LiveFiles(NamedTuple):
    """The live files of a partition directory. All attributes are in ascending order.

    Attributes:
        kinds: the kinds of files of each segment, by base offset: a sum of LOG, INDEX, TIMEINDEX, TXNINDEX.
        swapped: the kinds of files that still have the `.swap` suffix, by base offset.
        snapshots: the offsets of the producer snapshots.
        lost: the base offsets of segments that have indexes, but neither a `.log` nor a `.log.deleted`.
    """

    kinds: dict[int, int]
    swapped: dict[int, int]
    snapshots: list[int]
    lost: list[int]


def live_files(names: Iterable[str], next_offset_of: Callable[[str], int]) -> LiveFiles:
    """Select the live files of a partition directory.

    `next_offset_of` returns the offset after the last batch of a `.log.swap` file, by name.
    """
    plain, others = _native.segment_files(list(names), _KINDS)
    swapped: dict[int, int] = {}
    deleted = set()
    cleaned = 1 << 63
    for name in others:
        parsed = _parse(name)
        if parsed is None:
            continue
        offset, kind, state = parsed
        if state == SWAP:
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
    # Kafka opens only names padded to 20 digits. Other .log files are not Kafka's.
    if known is None or len(digits) != 20 or not (digits.isascii() and digits.isdigit()):
        return None
    offset = int(digits)
    return (offset, *known) if offset < 1 << 63 else None
