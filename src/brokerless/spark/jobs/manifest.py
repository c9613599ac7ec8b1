"""What an export says of itself: which logs, how far, in which files. `restore` goes by it, and so does a second run.

`_manifest.json` is written before the first task, and once more when all files are there; `_SUCCESS` comes last, with
its digest. In
between each finished task leaves a receipt, so that a run after a failure knows what is done.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, Any, Self, TypeVar

from brokerless.log.reader import LostRange
from brokerless.spark.jobs.manifest_checks import check

if TYPE_CHECKING:
    from collections.abc import Mapping
    from inspect import Parameter

    from brokerless.spark.jobs.export_directory import ExportDirectory

_T = TypeVar("_T")

MANIFEST = "_manifest.json"
SUCCESS = "_SUCCESS"
RECEIPTS = "_tasks"
_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class ExportedFile:
    """One file of an export.

    Attributes:
        topic: whose rows.
        partition: likewise.
        name: below the export's directory.
        rows: how many; at least one.
        bytes: of the file.
        first_offset: of its first row.
        last_offset: of its last row.
        seconds: that its task took for it.
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
    """What one task has written.

    Attributes:
        files: that it wrote.
        lost: what `onCorrupt=skip` left out.
        replaced_keys: header keys that are no UTF-8 in the log, probably: they have a U+FFFD, as consumers get them.
    """

    files: tuple[ExportedFile, ...]
    lost: tuple[LostRange, ...]
    replaced_keys: int

    def to_json(self) -> bytes:
        """Return it as text."""
        return _json({**asdict(self), "lost": [lost._asdict() for lost in self.lost]})

    @classmethod
    def from_json(cls, content: bytes) -> Self:
        """Take such a text apart."""
        fields = json.loads(content)
        return cls(
            files=tuple(ExportedFile(**file) for file in fields["files"]),
            lost=tuple(LostRange(**lost) for lost in fields["lost"]),
            replaced_keys=fields["replaced_keys"],
        )

    def is_there(self, directory: ExportDirectory) -> bool:
        """Tell whether all its files are, as long as they were written."""
        return all(directory.size(file.name) == file.bytes for file in self.files)


@dataclass(frozen=True, kw_only=True)
class ExportedPartition:
    """A partition, as it was when the export was begun.

    Attributes:
        leader_epoch: the last one that begins below the end; -1: none is known.
        start_offset: where the export starts.
        end_offset: what it holds ends below this.
    """

    leader_epoch: int
    start_offset: int
    end_offset: int


@dataclass(frozen=True, kw_only=True)
class ExportedTopic:
    """A topic.

    Attributes:
        topic_id: None where it has none.
        configs: what is known of its settings, as Kafka has them.
        partitions: by number.
    """

    topic_id: str | None
    configs: dict[str, str]
    partitions: dict[int, ExportedPartition] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What an export holds.

    Attributes:
        form: "parquet" or "json".
        columns: of its rows, but for `topic` and `partition`, which Parquet has in the names of directories.
        id: 32 hex digits that no other export has.
        is_complete: whether all files are known; `_SUCCESS` vouches for the manifest then.
        plan: the digest of what all tasks do: another job does not go on with it.
        target_bytes: how much a task was to read: without it the same job has other tasks on another machine.
        tasks: how many.
        topics: by name.
        files: all of them, by name; none until the export is whole.
        lost: what `onCorrupt=skip` left out.
        replaced_keys: as of `Receipt`, of all tasks.
    """

    form: str
    columns: tuple[str, ...]
    id: str
    plan: str
    target_bytes: int
    tasks: int
    topics: dict[str, ExportedTopic]
    files: tuple[ExportedFile, ...] = ()
    lost: tuple[LostRange, ...] = ()
    replaced_keys: int = 0
    is_complete: bool = False

    def write(self, directory: ExportDirectory) -> None:
        """Write it into an export's directory: the first one, where there is none; or a complete one, and that it is.

        Raises:
            FileExistsError: it is to be the first, and there is one.
        """
        content = _json({"version": _VERSION, **asdict(self), "lost": [lost._asdict() for lost in self.lost]})
        if not self.is_complete:
            directory.write_new(MANIFEST, content)
            return
        directory.write(MANIFEST, content)
        directory.write(SUCCESS, _digest(content))

    @staticmethod
    def is_whole(directory: ExportDirectory) -> bool:
        """Tell whether the export is whole: `_SUCCESS` is there, and of this manifest."""
        return directory.holds(SUCCESS) and directory.read(SUCCESS) == _digest(directory.read(MANIFEST))

    @classmethod
    def read(cls, directory: ExportDirectory) -> Self:
        """Read that of an export.

        Raises:
            ValueError: it is none that this version reads.
        """
        try:
            fields: dict[str, Any] = json.loads(directory.read(MANIFEST))
            version = fields.pop("version")
            if version != _VERSION:
                raise ValueError(f"version {version}, and {_VERSION} is read here")
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
            fields["lost"] = tuple(_made(LostRange, lost) for lost in fields["lost"])
            manifest = _made(cls, {**fields, "topics": topics})
            check(manifest)
            return manifest
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else error
            raise ValueError(f"{directory.path}/{MANIFEST} is not what an export says of itself: {what}") from error


def _made(kind: type[_T], said: dict[str, Any]) -> _T:
    """Make one of these of what is said of it.

    Raises:
        ValueError: it has no such thing, or one that is missing.
    """
    known = _known(kind)  # type: ignore[arg-type] # a class is hashable
    for name in said:
        if name not in known:
            raise ValueError(f"{name!r} is nothing that {kind.__name__} has")
    for name, parameter in known.items():
        if name not in said and parameter.default is parameter.empty:
            raise ValueError(f"{name!r} is missing")
    return kind(**said)


@cache
def _known(kind: type[object]) -> Mapping[str, Parameter]:
    # Cached, for an export may have 100,000 files.
    return signature(kind).parameters


def _number(text: str) -> int:
    """Read a partition's number, in the one form that it is written in."""
    if not re.fullmatch("0|[1-9][0-9]{0,9}", text):
        raise ValueError(f"{text!r} is no partition")
    return int(text)


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode() + b"\n"


def _json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, indent=1).encode() + b"\n"
