"""The manifest of an export: its logs, their ranges, and its files. `restore` and a resumed export read it.

`_manifest.json` is written before the first task, and again when all files exist. `_SUCCESS` comes last, and holds the
manifest's digest. In between, each finished task leaves a receipt, so that a run after a failure skips the task.

An export can come from an untrusted source. Its names become paths, and its numbers become sizes and offsets. So a
manifest is refused if it has a value that no export writes.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, Any, Self, TypeVar

from brokerless.layout import checkpoints, file_names
from brokerless.layout.topic_config import TopicConfig
from brokerless.log.defect import Defect
from brokerless.values.forms import PARTS
from brokerless.values.row_decoder import Tally

if TYPE_CHECKING:
    from collections.abc import Mapping
    from inspect import Parameter

    from brokerless.spark.jobs.export_directory import ExportDirectory

_T = TypeVar("_T")

MANIFEST = "_manifest.json"
SUCCESS = "_SUCCESS"
RECEIPTS = "_tasks"
_VERSION = 1
_MAX = (1 << 63) - 1
_MAX_EPOCH = (1 << 31) - 1
# More partitions than a whole cluster has: each becomes a directory.
_MOST_PARTITIONS = 200_000


@dataclass(frozen=True, kw_only=True)
class ExportedFile:
    """One file of an export.

    Attributes:
        topic: the topic of its rows.
        partition: the partition of its rows.
        name: the path below the export's directory.
        rows: the number of rows; at least one.
        bytes: the size of the file.
        first_offset: the offset of its first row.
        last_offset: the offset of its last row.
        seconds: the time that its task took to write it.
    """

    topic: str
    partition: int
    name: str
    rows: int
    bytes: int
    first_offset: int
    last_offset: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """The result of one task.

    Attributes:
        files: the files that it wrote.
        lost: the ranges that `onCorrupt=skip` left out.
        replaced_keys: the number of header keys with a U+FFFD, which consumers see in place of bytes that are not
            UTF-8.
        tallies: the keys and values that did not decode.
    """

    files: tuple[ExportedFile, ...]
    lost: tuple[Defect, ...]
    replaced_keys: int
    tallies: tuple[Tally, ...] = ()

    def to_json(self) -> bytes:
        """Return the receipt as JSON."""
        return _json({**asdict(self), "lost": [lost._asdict() for lost in self.lost]})

    @classmethod
    def from_json(cls, content: bytes, path: str) -> Self:
        """Parse the JSON of `to_json`.

        Raises:
            ValueError: the file is no receipt. The message has its path.
        """
        try:
            fields = json.loads(content)
            return cls(
                files=tuple(ExportedFile(**file) for file in fields["files"]),
                lost=tuple(Defect(**lost) for lost in fields["lost"]),
                replaced_keys=fields["replaced_keys"],
                tallies=tuple(Tally(**tally) for tally in fields["tallies"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is not the receipt of a task: {error}; delete it to do the task again") from error

    def is_there(self, directory: ExportDirectory) -> bool:
        """Return whether all files of the receipt exist with their recorded size."""
        return all(directory.size(file.name) == file.bytes for file in self.files)


@dataclass(frozen=True, kw_only=True)
class ExportedPartition:
    """A partition at the time when the export began.

    Attributes:
        leader_epoch: the last leader epoch that begins below the end offset; -1 if unknown.
        start_offset: the first offset of the export.
        end_offset: the offset after the last one of the export.
    """

    leader_epoch: int
    start_offset: int
    end_offset: int


@dataclass(frozen=True, kw_only=True)
class ExportedTopic:
    """A topic of an export.

    Attributes:
        topic_id: the topic's id; None if it has none.
        configs: the known settings, by Kafka's names.
        partitions: the partitions by number.
    """

    topic_id: str | None
    configs: dict[str, str]
    partitions: dict[int, ExportedPartition] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The contents of an export.

    Attributes:
        form: "parquet" or "json".
        columns: the columns of its rows. Parquet has `topic` and `partition` in the directory names instead.
        id: 32 hex digits, unique to this export.
        is_complete: whether all files are listed; `_SUCCESS` then holds the manifest's digest.
        plan: the digest of all tasks, so that only the same job resumes the export.
        target_bytes: the bytes that a task should read, recorded so that another machine plans the same tasks.
        tasks: the number of tasks.
        topics: the topics by name.
        files: all files, by name; empty until the export is complete.
        lost: the ranges that `onCorrupt=skip` left out.
        replaced_keys: see `Receipt`; the sum over all tasks.
        decoded: "key", "value" or both, if the files have them decoded.
        tallies: see `Receipt`; the sums over all tasks.
    """

    form: str
    columns: tuple[str, ...]
    id: str
    plan: str
    target_bytes: int
    tasks: int
    topics: dict[str, ExportedTopic]
    files: tuple[ExportedFile, ...] = ()
    lost: tuple[Defect, ...] = ()
    replaced_keys: int = 0
    decoded: tuple[str, ...] = ()
    tallies: tuple[Tally, ...] = ()
    is_complete: bool = False

    def write(self, directory: ExportDirectory) -> None:
        """Write the manifest into an export's directory: a new file, or if complete, a replacement and `_SUCCESS`.

        Raises:
            FileExistsError: the manifest is incomplete, and the directory has one already.
        """
        content = _json({"version": _VERSION, **asdict(self), "lost": [lost._asdict() for lost in self.lost]})
        if not self.is_complete:
            directory.write_new(MANIFEST, content)
            return
        directory.write(MANIFEST, content)
        directory.write(SUCCESS, _digest(content))

    @staticmethod
    def is_whole(directory: ExportDirectory) -> bool:
        """Return whether the export is finished: `_SUCCESS` holds the digest of its manifest."""
        return directory.holds(SUCCESS) and directory.read(SUCCESS) == _digest(directory.read(MANIFEST))

    @classmethod
    def read(cls, directory: ExportDirectory) -> Self:
        """Read the manifest of an export.

        Raises:
            ValueError: the manifest is invalid, or of an unknown version.
        """
        try:
            fields: dict[str, Any] = json.loads(directory.read(MANIFEST))
            version = fields.pop("version")
            if version != _VERSION:
                raise ValueError(f"version {version} found, {_VERSION} expected")
            topics = {
                name: ExportedTopic(
                    topic_id=topic["topic_id"],
                    configs=topic["configs"],
                    partitions={_number(n): _made(ExportedPartition, one) for n, one in topic["partitions"].items()},
                )
                for name, topic in fields["topics"].items()
            }
            fields["columns"] = tuple(fields["columns"])
            fields["files"] = tuple(_made(ExportedFile, file) for file in fields["files"])
            fields["lost"] = tuple(_made(Defect, lost) for lost in fields["lost"])
            fields["decoded"] = tuple(fields.get("decoded", ()))
            fields["tallies"] = tuple(_made(Tally, tally) for tally in fields.get("tallies", ()))
            manifest = _made(cls, {**fields, "topics": topics})
            _check(manifest)
            return manifest
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else error
            raise ValueError(f"{directory.path}/{MANIFEST} is not a valid manifest: {what}") from error


def _made(kind: type[_T], said: dict[str, Any]) -> _T:
    """Build an object of a class from JSON fields.

    Raises:
        ValueError: a field is unknown or missing.
    """
    known = _known(kind)  # type: ignore[arg-type] # a class is hashable
    for name in said:
        if name not in known:
            raise ValueError(f"{name!r} is not a field of {kind.__name__}")
    for name, parameter in known.items():
        if name not in said and parameter.default is parameter.empty:
            raise ValueError(f"{name!r} is missing")
    return kind(**said)


@cache
def _known(kind: type[object]) -> Mapping[str, Parameter]:
    # Cached, because an export may have 100,000 files.
    return signature(kind).parameters


def _number(text: str) -> int:
    """Parse a partition's number, in the only form that an export writes."""
    if not re.fullmatch("0|[1-9][0-9]{0,9}", text):
        raise ValueError(f"{text!r} is no partition")
    return int(text)


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode() + b"\n"


def _json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, indent=1).encode() + b"\n"


def _check(manifest: Manifest) -> None:
    """Check every value of a manifest.

    Raises:
        TypeError: a value has the wrong type.
        ValueError: a value is invalid.
    """
    if manifest.form not in ("parquet", "json"):
        raise ValueError(f"form {manifest.form!r}")
    if not all(isinstance(name, str) for name in manifest.columns):
        raise ValueError("a column's name is not a string")
    for text in (manifest.id, manifest.plan):
        if not isinstance(text, str) or not re.fullmatch("[0-9a-f]{32,64}", text):
            raise ValueError(f"{text!r} is no id: 32 to 64 hex digits expected")
    if not isinstance(manifest.is_complete, bool):
        raise TypeError(f"is_complete {manifest.is_complete!r}")
    for what, value in (("tasks", manifest.tasks), ("replaced_keys", manifest.replaced_keys)):
        _check_integer(what, value, 0, _MAX)
    _check_integer("target_bytes", manifest.target_bytes, 1, _MAX)
    _check_decoded(manifest)
    for name, topic in manifest.topics.items():
        _check_topic(name, topic)
    for file in manifest.files:
        _check_file(file, manifest)


def _check_decoded(manifest: Manifest) -> None:
    for part in (*manifest.decoded, *(tally.part for tally in manifest.tallies)):
        if part not in PARTS:
            raise ValueError(f"{part!r} is neither key nor value")
    for tally in manifest.tallies:
        _check_integer("count of a tally:", tally.count, 1, _MAX)


def _check_topic(name: str, topic: ExportedTopic) -> None:
    file_names.check_topic_name(name)
    # The metadata log has an id that Kafka reserves, and is never restored.
    if topic.topic_id is not None and name != file_names.METADATA_TOPIC:
        checkpoints.check_topic_id(topic.topic_id)
    if not all(isinstance(text, str) for item in topic.configs.items() for text in item):
        raise ValueError(f"a setting of topic {name!r} is not a string")
    TopicConfig.from_configs(topic.configs)
    if not topic.partitions:
        raise ValueError(f"topic {name!r} has no partition")
    for number, partition in topic.partitions.items():
        _check_integer(f"partition of topic {name!r}:", number, 0, _MOST_PARTITIONS - 1)
        what = f"of {name}-{number}"
        _check_integer(f"leader_epoch {what}:", partition.leader_epoch, -1, _MAX_EPOCH)
        _check_integer(f"end_offset {what}:", partition.end_offset, 0, _MAX)
        _check_integer(f"start_offset {what}:", partition.start_offset, 0, partition.end_offset)


def _check_file(file: ExportedFile, manifest: Manifest) -> None:
    topic = manifest.topics.get(file.topic)
    _check_integer("partition of a file:", file.partition, 0, _MOST_PARTITIONS - 1)
    if topic is None or file.partition not in topic.partitions:
        raise ValueError(f"a file of {file.topic}-{file.partition}, which is not in it")
    suffix = r"\.parquet" if manifest.form == "parquet" else r"\.json(\.gz)?"
    expected = rf"topic={re.escape(file.topic)}/partition={file.partition}/[0-9]{{20}}-[0-9]{{6,}}{suffix}"
    if not isinstance(file.name, str) or not re.fullmatch(expected, file.name):
        raise ValueError(f"{file.name!r} is not the name of a file of {file.topic}-{file.partition}")
    partition = topic.partitions[file.partition]
    _check_integer(f"bytes of {file.name}:", file.bytes, 1, _MAX)
    _check_integer(f"first_offset of {file.name}:", file.first_offset, partition.start_offset, partition.end_offset - 1)
    _check_integer(f"last_offset of {file.name}:", file.last_offset, file.first_offset, partition.end_offset - 1)
    _check_integer(f"rows of {file.name}:", file.rows, 1, file.last_offset - file.first_offset + 1)
    if not isinstance(file.seconds, int | float) or isinstance(file.seconds, bool):
        raise TypeError(f"seconds of {file.name}: {file.seconds!r}")


def _check_integer(what: str, value: object, least: int, greatest: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= greatest:
        raise ValueError(f"{what} {value!r} found, {least} to {greatest} expected")
