"""The schemas of a schema registry, as a table, and which topics use them."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from brokerless import _native
from brokerless.arguments import check_paths, to_ms
from brokerless.io import disk, storage
from brokerless.log_dir.log_dirs import LogDirs
from brokerless.metadata.schema import TIME, schema, structs
from brokerless.notes import note
from brokerless.schemas.schema import SCHEMAS_TOPIC
from brokerless.schemas.store import SchemaStore
from brokerless.state.internal_topic import committed_rows, known_logs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from brokerless.arguments import Time
    from brokerless.log.log import Log
    from brokerless.schemas.schema import SchemaVersion
    from brokerless.schemas.store import Row

SCHEMA = schema(
    subject=pa.string(),
    version=pa.int32(),
    id=pa.int32(),
    schema_type=pa.string(),
    guid=pa.string(),
    context=pa.string(),
    deleted=pa.string(),
    references=structs(name=pa.string(), subject=pa.string(), version=pa.int32()),
    schema=pa.string(),
    updated=TIME,
    offset=pa.int64(),
)
USAGE = schema(
    topic=pa.string(),
    part=pa.string(),
    framing=pa.string(),
    id=pa.int32(),
    guid=pa.string(),
    records=pa.int64(),
    first_partition=pa.int32(),
    first_offset=pa.int64(),
    schema_type=pa.string(),
    subjects=structs(subject=pa.string(), version=pa.int32(), deleted=pa.string()),
)
_PARTS = ("key", "value")
_MOST_IDS = 10_000
"""The most ids of a topic that are counted each on its own. Bytes that only look framed may have any."""


class Schemas(SchemaStore):
    """The schemas of a registry, from its topic `_schemas` at rest. No registry runs.

    Deleted schemas are kept, because old data still carry their ids. A hard-deleted schema is known until the log
    cleaner removes its record.

    Args:
        paths: log directories with the topic `_schemas`; partition directories of a registry's topic, whatever its name
            (`kafkastore.topic`); or JSON files: the answer of a registry to `GET /schemas?deleted=true`, or what `save`
            wrote.
        as_of: the schemas at this time, as far as compaction has left records from it; None: at the end.

    Attributes:
        name: the paths, for messages.
        versions: every version of every subject, a list of `SchemaVersion` in the order of the registry.

    Raises:
        FileNotFoundError: a path does not exist.
        ValueError: no path has the topic, or a file or partition is something else.

    >>> import brokerless as bl
    >>> schemas = bl.Schemas(REGISTRY_DIR)
    >>> schemas.subjects[:2]
    [':.ctx:ctx-orders-value', ':.second:orders-value']
    >>> latest = schemas.latest("orders-value")
    >>> latest.version, latest.schema.id, latest.schema.schema_type
    (3, 3, 'AVRO')
    """

    def __init__(self, *paths: str | os.PathLike[str], as_of: Time | None = None) -> None:
        check_paths("Schemas", paths)
        if not paths:
            raise ValueError("no path: a log directory, a partition directory of _schemas or a JSON file is needed")
        until = None if as_of is None else to_ms("as_of", as_of)
        given = [os.fspath(path) for path in paths]
        files = [path for path in given if not path.endswith(".log") and storage.is_file(path)]
        others = [path for path in given if path not in files]
        self._directories = LogDirs(*others) if others else None
        logs = [] if self._directories is None else _logs(self._directories)
        self._topics = {log.topic for log in logs}
        super().__init__(", ".join(given), *map(_read, files), *(_records(log, until) for log in logs))
        if not self.versions and SCHEMAS_TOPIC not in self._topics and logs:
            raise ValueError(f"no schema in {self.name}: it is not the topic of a registry, which is {SCHEMAS_TOPIC}")

    def __repr__(self) -> str:
        return f"<Schemas {self.name} {len(self.subjects)} subjects {len(self.versions)} versions>"

    def table(self) -> pa.Table:
        """Return a row for each version of a subject.

        Columns: `subject version id schema_type`; `guid`, which message headers carry; `context` ("." is the default);
        `deleted`: "soft", "hard", or null for a version in use; `references`, a list of `name`, `subject` and
        `version`; `schema`, its text; `updated` and `offset`: the time and offset of its last record, null if it is
        from a file that has none.

        >>> import brokerless as bl
        >>> bl.Schemas(REGISTRY_DIR).table().select(["subject", "version", "id"]).to_pylist()[0]
        {'subject': 'orders-value', 'version': 1, 'id': 1}
        """
        return pa.Table.from_pylist([_row(version) for version in self.versions], SCHEMA)

    def usage(self, *paths: str | os.PathLike[str], topics: Iterable[str] | None = None) -> pa.Table:
        """Count the records that name each schema. This reads all records.

        Columns: `topic`; `part`, "key" or "value"; `framing`: "prefix-v0", "prefix-v1", "header", or "none" for bytes
        without a schema; `id`, `guid`: one of them is what the records have, the other one is looked up; `records`;
        `first_partition` and `first_offset`: the place of the first one; `schema_type`; `subjects`, a list of
        `subject`, `version` and `deleted`: empty if the schema is not known.

        Args:
            paths: log directories or partition directories; none: those of the schemas.
            topics: the topics to read, by name or glob; None: all but internal ones.

        Raises:
            ValueError: a topic does not exist; or there are no directories.

        >>> import brokerless as bl
        >>> rows = bl.Schemas(REGISTRY_DIR).usage(topics=["orders"]).to_pylist()
        >>> [(row["part"], row["id"], row["records"]) for row in rows]
        [('key', 4, 69), ('value', 1, 19), ('value', 2, 24), ('value', 3, 26)]
        """
        directories = LogDirs(*paths) if paths else self._directories
        if directories is None:
            raise ValueError(f"usage: no log directory: {self.name} has only schemas")
        rows: list[dict[str, Any]] = []
        for topic, logs in groupby(directories.readable(topics), lambda log: log.topic):
            if topic not in (*self._topics, SCHEMAS_TOPIC):
                rows += self._usage_in(topic, logs)
        return pa.Table.from_pylist(rows, USAGE)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all versions to a JSON file, in the form of a registry's answers. `Schemas(path)` reads it.

        >>> import brokerless as bl
        >>> bl.Schemas(REGISTRY_DIR).save(NEW)
        >>> bl.Schemas(NEW).subjects == bl.Schemas(REGISTRY_DIR).subjects
        True
        """
        disk.atomic_write(os.fspath(path), self.to_json().encode())

    def _usage_in(self, topic: str | None, logs: Iterable[Log]) -> Iterator[dict[str, Any]]:
        found: dict[tuple[str, str, int | None, str | None], _Use] = {}
        unnamed = 0
        for log in logs:
            for part, batch in _ids_in(log):
                for framing, schema_id, guid, count, offset in _counted(batch):
                    key = (part, framing, schema_id, guid)
                    if key not in found and len(found) >= _MOST_IDS:
                        key = (part, framing, None, None)
                        unnamed += count
                    use = found.setdefault(key, _Use(log.partition, offset))
                    use.records += count
        if unnamed:
            note(f"{topic}: {unnamed:,} records name other ids, and are counted without them: there are too many ids")
        for (part, framing, schema_id, guid), use in sorted(found.items(), key=lambda pair: _by_id(*pair[0])):
            named = guid if guid is not None else schema_id
            subject = None if topic is None else f"{topic}-{part}"
            schema = None
            if named is not None:
                with contextlib.suppress(ValueError):
                    schema = self.schema(named, subject=subject)
            yield {
                "topic": topic,
                "part": part,
                "framing": framing,
                "id": schema_id if schema is None else schema.id,
                "guid": guid if schema is None else schema.guid,
                "records": use.records,
                "first_partition": use.partition,
                "first_offset": use.offset,
                "schema_type": None if schema is None else schema.schema_type,
                "subjects": [
                    {"subject": one.subject, "version": one.version, "deleted": one.deleted}
                    for one in (() if schema is None else self.versions_of(schema))
                ],
            }


@dataclass
class _Use:
    """The records that name an id: their number, and the place of the first."""

    partition: int | None
    offset: int
    records: int = 0


def _by_id(part: str, framing: str, schema_id: int | None, guid: str | None) -> tuple[str, int, str, str]:
    return part, -1 if schema_id is None else schema_id, guid or "", framing


def _logs(directories: LogDirs) -> list[Log]:
    """Return the partitions of the registry's topic."""
    topics = directories.topics()
    if SCHEMAS_TOPIC in topics:
        return known_logs(directories, [SCHEMAS_TOPIC])
    if not directories.given_roots:
        return known_logs(directories)
    raise ValueError(
        f"no topic {SCHEMAS_TOPIC} in {directories.in_words()}: a registry keeps its schemas there. If its "
        "kafkastore.topic has another name, name the directory of that topic's partition"
    )


def _records(log: Log, until: int | None) -> Iterator[Row]:
    for rows in committed_rows(log, as_of=until):
        columns = [rows[name].to_pylist() for name in ("offset", "timestamp", "key", "value")]
        yield from zip(*columns, strict=True)


def _read(path: str) -> str:
    with storage.File(path) as file:
        try:
            return file.read(0, file.size()).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is neither JSON nor a .log file: {error}") from error


def _row(version: SchemaVersion) -> dict[str, Any]:
    schema = version.schema
    return {
        "subject": version.subject,
        "version": version.version,
        "id": schema.id,
        "schema_type": schema.schema_type,
        "guid": schema.guid,
        "context": schema.context,
        "deleted": version.deleted,
        "references": [one._asdict() for one in schema.references],
        "schema": schema.text,
        "updated": version.timestamp,
        "offset": version.offset,
    }


def _ids_in(log: Log) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the ids in the keys and in the values of a log, with their offsets."""
    reader = log.read(on_corrupt="skip", columns=["key", "value", "headers", "offset"])
    for rows in reader:
        for part in _PARTS:
            ids = _native.schema_ids(rows[part], rows["headers"], is_key=part == "key")
            yield part, ids.append_column("offset", rows["offset"])
    for lost in reader.lost:
        note(f"{log.name}: these records are not counted: {lost}")


def _counted(ids: pa.RecordBatch) -> Iterator[tuple[str, int | None, str | None, int, int]]:
    """Yield each id of a batch with its number of records and first offset; payloads that are null have none."""
    table = pa.Table.from_batches([ids]).filter(pc.is_valid(ids["framing"]))
    counted = table.group_by(["framing", "schemaId", "schemaGuid"]).aggregate([("offset", "count"), ("offset", "min")])
    names = ("framing", "schemaId", "schemaGuid", "offset_count", "offset_min")
    yield from zip(*(counted[name].to_pylist() for name in names), strict=True)
