"""The text files of a log directory: checkpoints, leader epochs, partition.metadata, meta.properties, shutdown marker.

Each `parse_*` function returns what Kafka would read, and raises `CorruptRecordError` if Kafka would refuse the
content. Like Kafka, it tolerates CRLF, a missing last newline, duplicate entries and a newer version of
partition.metadata. Each `format_*` function returns the content that Kafka would write.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import re
from typing import TYPE_CHECKING, NamedTuple

from brokerless.errors import CorruptRecordError
from brokerless.wording import excerpt

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
# The marker's name while a writer has the directory open. Brokers load only directories, and ignore this file.
CLEAN_SHUTDOWN_ASIDE = f"{CLEAN_SHUTDOWN}.aside"
NO_BROKER_EPOCH = -2
"""The broker epoch to write for a broker that its controller does not know yet.

A controller with eligible leader replicas (KIP-966) compares the epoch with its own record for the broker. A different
epoch means an unclean shutdown: the controller removes the broker from all in-sync replicas, even from partitions where
it is the only one. For an unknown broker, the controller has -2 (`ClusterControlManager.registerBroker`).
"""
BOOTSTRAP = "bootstrap.checkpoint"
QUORUM_STATE = "quorum-state"
LOCK = ".lock"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
FIRST_DIRTY_OFFSETS = "cleaner-offset-checkpoint"
OFFSET_CHECKPOINTS = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS, FIRST_DIRTY_OFFSETS)


# DirectoryId.reserved
_RESERVED_DIRECTORY_IDS = 100


class UnexpectedContentError(CorruptRecordError):
    """The error for content that Kafka distinguishes from an unreadable file, such as a letter instead of a number.

    If a broker cannot read a file, it takes the log directory offline. If the content is unexpected, the broker stops.
    Kafka 3 and later ignore unexpected content in the offset checkpoints of a log directory.
    """


class LeaderEpoch(NamedTuple):
    """A leader epoch of a log, from its leader-epoch-checkpoint.

    `Log.leader_epochs` returns all leader epochs of a log.

    Attributes:
        epoch: the number of the epoch.
        start_offset: the offset of the first record written in the epoch.

    >>> import brokerless as bl
    >>> bl.Log(SAMPLE).leader_epochs
    [LeaderEpoch(epoch=0, start_offset=0), LeaderEpoch(epoch=6, start_offset=120)]
    """

    epoch: int
    start_offset: int


class PartitionMetadata(NamedTuple):
    """The content of partition.metadata: its version and the topic id (22 characters of URL-safe base64)."""

    version: int
    topic_id: str


class MetaProperties(NamedTuple):
    """The content of meta.properties. `node_id` is `broker.id` in a version 0 file (ZooKeeper). Absent ids are None."""

    version: int
    cluster_id: str | None
    node_id: int | None
    directory_id: str | None


# Content that matches needs no check of each line: a broker with 10,000 partitions has as many lines.
_AS_A_BROKER_WRITES = re.compile(rb"0\n[0-9]{1,9}\n(?:[A-Za-z0-9._-]{1,249} [0-9]{1,9} -?[0-9]{1,18}\n)*")


def parse_offset_checkpoint(content: bytes) -> dict[tuple[str, int], int]:
    r"""Parse one of the four `topic partition offset` checkpoints of a log directory.

    >>> parse_offset_checkpoint(b"0\n2\norders 0 17\norders 1 9\n")
    {('orders', 0): 17, ('orders', 1): 9}
    """
    if _AS_A_BROKER_WRITES.fullmatch(content):
        _, announced, *words = content.decode("ascii").split()
        if 3 * int(announced) == len(words):
            return dict(zip(zip(words[::3], map(int, words[1::3]), strict=True), map(int, words[2::3]), strict=True))
    entries = _checkpoint_entries(content, fields=3)
    try:
        return {(topic, _integer(partition, 32)): _integer(offset, 64) for topic, partition, offset in entries}
    except CorruptRecordError as error:
        raise UnexpectedContentError(f"checkpoint is malformed: {error}") from None


def format_offset_checkpoint(offsets: Mapping[tuple[str, int], int]) -> bytes:
    r"""Format a `topic partition offset` checkpoint, with sorted entries.

    Topics with white space in their names are left out, because Kafka allows no such topics, and the whole file would
    be unreadable.

    >>> format_offset_checkpoint({("orders", 1): 9, ("orders", 0): 17, ("a b", 0): 1})
    b'0\n2\norders 0 17\norders 1 9\n'
    """
    return _checkpoint(
        f"{topic} {partition} {offset}"
        for (topic, partition), offset in sorted(offsets.items())
        if len(topic.split()) == 1
    )


def parse_leader_epochs(content: bytes) -> list[LeaderEpoch]:
    r"""Parse a leader-epoch-checkpoint, in file order.

    >>> parse_leader_epochs(b"0\n1\n3 17\n")
    [LeaderEpoch(epoch=3, start_offset=17)]
    """
    lines = _checkpoint_entries(content, fields=2)
    try:
        entries = [LeaderEpoch(_integer(epoch, 32), _integer(start, 64)) for epoch, start in lines]
    except CorruptRecordError as error:
        raise UnexpectedContentError(f"checkpoint is malformed: {error}") from None
    for epoch, start in entries:
        if min(epoch, start) < 0:
            raise UnexpectedContentError(f"checkpoint has an entry below 0: epoch {epoch} at {start}")
    return entries


def format_leader_epochs(epochs: Iterable[tuple[int, int]]) -> bytes:
    r"""Format a leader-epoch-checkpoint, with the entries in this order.

    >>> format_leader_epochs([LeaderEpoch(3, 17)])
    b'0\n1\n3 17\n'
    """
    return _checkpoint(f"{epoch} {start_offset}" for epoch, start_offset in epochs)


def parse_partition_metadata(content: bytes) -> PartitionMetadata:
    r"""Parse a partition.metadata: two `name: value` lines, whose names Kafka does not check.

    >>> parse_partition_metadata(b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw").topic_id
    'AAECAwQFBgcICQoLDA0ODw'
    """
    lines = _lines(content)[:2]
    values = []
    for line in lines:
        parts = _drop_empty_tail(re.split(r":[ \t\x0b\f]+", line))
        if len(parts) != 2:
            raise CorruptRecordError(f"partition metadata is malformed: {excerpt(line)} is not `name: value`")
        values.append(parts[1])
    if values and (version := _integer(values[0], 32)) < 0:
        raise CorruptRecordError(f"partition metadata has an unknown version: {version}")
    if len(values) < 2:
        raise UnexpectedContentError(f"partition metadata is cut: {len(values)} of 2 lines")
    try:
        uuid = _uuid_bytes(values[1])
    except CorruptRecordError as error:
        raise UnexpectedContentError(str(error.args[0])) from None
    if not any(uuid):
        raise CorruptRecordError(f"partition metadata has no topic id: {values[1]} is the zero uuid")
    return PartitionMetadata(version, values[1])


def format_partition_metadata(topic_id: str) -> bytes:
    r"""Format a partition.metadata.

    Raises:
        ValueError: `topic_id` is not a valid topic id.

    >>> format_partition_metadata("AAECAwQFBgcICQoLDA0ODw")
    b'version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw'
    """
    check_topic_id(topic_id)
    return f"version: 0\ntopic_id: {topic_id}".encode()


def random_id() -> str:
    """Return a new id for a topic, a cluster or a directory: 22 characters of URL-safe base64, as Kafka generates."""
    import uuid  # noqa: PLC0415 - slow to import at every start of the command

    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # A leading "-" would look like an option on a command line (Uuid.randomUuid).
        if not text.startswith("-"):
            return text


def check_topic_id(topic_id: str) -> None:
    """Refuse an invalid topic id.

    Raises:
        ValueError: the id is not 22 characters of URL-safe base64, or is one of the two ids that Kafka reserves
            (`Uuid.RESERVED`): 0, and 1, which is the id of the metadata log.
    """
    if not _is_uuid(topic_id, 2):
        raise ValueError(f"not a topic id: {topic_id!r}; it is 22 characters of URL-safe base64, as `ls` shows it")


def check_directory_id(directory_id: str) -> None:
    """Refuse a directory id with which a broker would not start.

    Raises:
        ValueError: the id is not 22 characters of URL-safe base64, or is one of the hundred ids that Kafka reserves
            (`DirectoryId.reserved`).
    """
    if not _is_uuid(directory_id, _RESERVED_DIRECTORY_IDS):
        raise ValueError(f"not a directory id: {directory_id!r}; it is 22 characters of URL-safe base64")


def _is_uuid(text: str, lowest: int) -> bool:
    try:
        return len(text) == 22 and int.from_bytes(_uuid_bytes(text)) >= lowest
    except CorruptRecordError:
        return False


def parse_meta_properties(content: bytes) -> MetaProperties:
    r"""Parse a meta.properties of either version, as `MetaProperties.Builder` and `MetaPropertiesEnsemble.verify` do.

    >>> parse_meta_properties(b"version=1\nnode.id=7\ncluster.id=x\n")
    MetaProperties(version=1, cluster_id='x', node_id=7, directory_id=None)
    """
    properties = parse_properties(content)
    version = _integer(properties.get("version", "0"), 32)
    if version not in (0, 1):
        raise CorruptRecordError(f"meta.properties has an unknown version: stored {version}, known 0 and 1")
    required = ("node.id", "cluster.id") if version else ()
    for name in required:
        if name not in properties:
            raise CorruptRecordError(f"meta.properties is of version {version}, and has no {name}")
    node, directory = properties.get("node.id" if version else "broker.id"), properties.get("directory.id")
    node_id = None if node is None else _integer(node, 32)
    if directory is not None and not _is_uuid(directory, _RESERVED_DIRECTORY_IDS):
        kind = UnexpectedContentError if _is_uuid(directory, 0) else CorruptRecordError
        raise kind(f"meta.properties has a directory.id that no directory has: {excerpt(directory)}")
    if version and node_id is not None and node_id < 0:
        raise UnexpectedContentError(f"meta.properties has a node.id that no node has: {node_id}")
    return MetaProperties(
        version=version, cluster_id=properties.get("cluster.id"), node_id=node_id, directory_id=directory
    )


def format_meta_properties(meta: MetaProperties) -> bytes:
    r"""Format a meta.properties of either version. Ids that are None are left out.

    Raises:
        ValueError: an id is not printable ASCII, as all ids of Kafka are.

    >>> format_meta_properties(MetaProperties(version=0, cluster_id=None, node_id=3, directory_id=None))
    b'broker.id=3\nversion=0\n'
    """
    properties = {
        "broker.id" if meta.version == 0 else "node.id": meta.node_id,
        "directory.id": meta.directory_id,
        "version": meta.version,
        "cluster.id": meta.cluster_id,
    }
    lines = []
    for name, value in properties.items():
        text = str(value)
        if not (text.isascii() and text.isprintable()):
            raise ValueError(f"not a {name}: {text!r} has other characters than printable ASCII")
        if value is not None:
            escaped = _SPECIAL.sub(r"\\\g<0>", text)
            lines.append(f"{name}={escaped}\n")
    return "".join(lines).encode("ascii")


def parse_clean_shutdown(content: bytes) -> int | None:
    r"""Return the broker epoch in a shutdown marker; None if the marker has none, which is valid.

    >>> parse_clean_shutdown(b'{"version":0,"brokerEpoch":9}')
    9
    """
    try:
        epoch = json.loads(content)["brokerEpoch"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return epoch if type(epoch) is int else None


def format_clean_shutdown(broker_epoch: int | None) -> bytes:
    r"""Format a clean-shutdown marker (`.kafka_cleanshutdown`).

    If the marker has no broker epoch, a controller with eligible leader replicas sees an unclean shutdown. A broker
    epoch of -1 would not have this effect: a broker with several disks would use the marker on its next disk instead.

    >>> format_clean_shutdown(9)
    b'{"version":0,"brokerEpoch":9}'
    >>> format_clean_shutdown(None)
    b'{"version":0}'
    """
    if broker_epoch is None:
        return b'{"version":0}'
    return b'{"version":0,"brokerEpoch":%d}' % broker_epoch


def check_quorum_state(content: bytes) -> None:
    r"""Check that a controller can read the `quorum-state` of its metadata log: JSON on the first line.

    Raises:
        CorruptRecordError: a controller could not read the file, and would not start.

    >>> check_quorum_state(b'{"leaderId":1,"leaderEpoch":2,"votedId":-1,"data_version":0}')
    """
    line = (_lines(content) or [""])[0]
    try:
        # Like Jackson, ignore the text after the object.
        state, _ = json.JSONDecoder().raw_decode(line.lstrip())
    except (ValueError, RecursionError) as error:
        raise CorruptRecordError(f"quorum state is malformed: {error}") from None
    for name in ("data_version", "leaderId", "leaderEpoch", "votedId"):
        if not isinstance(state, dict) or type(state.get(name)) is not int:
            raise CorruptRecordError(f"quorum state is malformed: no number {name!r} in it")
    if state["data_version"] not in (0, 1):
        raise CorruptRecordError(f"quorum state has an unknown version: stored {state['data_version']}, known 0 and 1")
    voted = state.get("votedDirectoryId")
    if voted is None and "votedDirectoryId" not in state:
        if state["data_version"]:
            raise CorruptRecordError("quorum state is malformed: of version 1, and without votedDirectoryId")
    elif not isinstance(voted, str) or not _is_uuid(voted, 0):
        raise CorruptRecordError(f"quorum state is malformed: no votedDirectoryId: {excerpt(str(voted))}")


def parse_properties(content: bytes) -> dict[str, str]:
    r"""Parse a Java properties file (java.util.Properties: comments, three separators, continued lines, escapes).

    >>> parse_properties(b"# when\ncluster.id = a\\u002db\\\n  c\n")
    {'cluster.id': 'a-bc'}
    """
    properties = {}
    for line in _logical_lines(content.decode("latin-1")):
        match = _PROPERTY.fullmatch(line)
        if match:
            properties[_unescape(match["key"])] = _unescape(match["value"])
    return properties


_PROPERTY = re.compile(r"(?P<key>(?:[^\\=: \t\f]|\\.)*)(?:[ \t\f]*[=:])?[ \t\f]*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.)|$)", re.DOTALL)
_SPECIAL = re.compile(r"[\\=:#! ]")
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _logical_lines(text: str) -> list[str]:
    lines = []
    continued: str | None = None
    for natural in io.StringIO(text, newline=None):
        line = natural.rstrip("\n").lstrip(" \t\f")
        if continued is None and (not line or line[0] in "#!"):
            continue
        line = (continued or "") + line
        backslashes = len(line) - len(line.rstrip("\\"))
        continued = line[:-1] if backslashes % 2 else None
        if continued is None:
            lines.append(line)
    if continued:
        lines.append(continued)
    return lines


def _unescape(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        if match[2] == "u":
            raise CorruptRecordError(
                f"properties are malformed: no four hexadecimal digits after \\u in {excerpt(text)}"
            )
        return _CONTROLS.get(match[2] or "", match[2] or "")

    return _ESCAPE.sub(plain, text)


def _checkpoint_entries(content: bytes, fields: int) -> list[list[str]]:
    lines = _lines(content)
    if lines and lines[0] != "0":
        raise CorruptRecordError(f"checkpoint has an unknown version: stored {excerpt(lines[0])}, known 0")
    if len(lines) < 2:
        return []
    announced = _integer(lines[1], 32)
    if announced < 0:
        raise UnexpectedContentError(f"checkpoint is malformed: {announced} entries announced")
    entries = [_drop_empty_tail(re.split(r"[ \t\x0b\f]+", line)) for line in lines[2:]]
    for number, entry in enumerate(entries, start=3):
        if len(entry) != fields:
            raise CorruptRecordError(f"checkpoint is malformed: line {number} has {len(entry)} fields, not {fields}")
    if len(entries) != announced:
        raise CorruptRecordError(f"checkpoint is malformed: {announced} entries announced, {len(entries)} present")
    return entries


def _checkpoint(entries: Iterable[str]) -> bytes:
    lines = list(entries)
    return "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines)).encode()


def _lines(content: bytes) -> list[str]:
    # Split at Java's line ends only: str.splitlines would also split at U+2028 and similar characters.
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise CorruptRecordError(f"not UTF-8: byte {content[error.start]:#04x}", position=error.start) from None
    return [line.removesuffix("\n") for line in io.StringIO(text, newline=None)]


def _drop_empty_tail(parts: list[str]) -> list[str]:
    while parts and not parts[-1]:
        parts.pop()
    return parts


def _integer(text: str, bits: int) -> int:
    # Accept digits of all scripts, as Java's parseInt does.
    if re.fullmatch(r"[+-]?\d{1,64}", text) and max(text) <= "\uffff":
        value = int(text)
        if -(1 << bits - 1) <= value < 1 << bits - 1:
            return value
    raise CorruptRecordError(f"not an int{bits}: {excerpt(text)}")


def _uuid_bytes(text: str) -> bytes:
    try:
        value = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        value = b""
    if len(value) != 16:
        raise CorruptRecordError(f"not a uuid: {excerpt(text)}")
    return value
