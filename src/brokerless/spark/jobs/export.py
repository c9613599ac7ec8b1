"""The `export` job: records to files that Spark, pandas and DuckDB read as one table. The tasks write the files."""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from brokerless import _native
from brokerless.arguments import unknown
from brokerless.io import storage
from brokerless.layout.log_dir_files import check_outside
from brokerless.notes import collected, note
from brokerless.spark.jobs.export_directory import ExportDirectory
from brokerless.spark.jobs.export_files import FileWriter
from brokerless.spark.jobs.export_plan import plan
from brokerless.spark.jobs.formats import COMPRESSIONS, EXACT_TIME, JSON_COLUMNS, PARQUET_COLUMNS, PATH
from brokerless.spark.jobs.manifest import MANIFEST, RECEIPTS, Manifest, Receipt
from brokerless.spark.jobs.reading import subscription
from brokerless.spark.jobs.spark_tasks import SparkTasks
from brokerless.spark.jobs.tables import PACKAGES, write_table
from brokerless.spark.source.option_values import local
from brokerless.spark.source.options import Options
from brokerless.spark.source.tasks import plan_consistently
from brokerless.values.row_decoder import decoded_columns, default_columns, summed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from brokerless.log.defect import Defect

    Path = str | os.PathLike[str]

FORMATS = (*COMPRESSIONS, *PACKAGES)
_OR_SCHEMAS = " or the newest schemas"


@dataclass(frozen=True, kw_only=True)
class PartitionReport:
    """The result of a job for one partition.

    Attributes:
        topic: the topic.
        partition: the partition's number.
        rows: the number of rows.
        bytes: the size of its files; None if Spark wrote them.
        seconds: the total time of its tasks; None if Spark wrote the files.
    """

    topic: str
    partition: int
    rows: int
    bytes: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class ExportReport:
    """The result of an export.

    Attributes:
        partitions: the exported partitions, sorted, including those without rows.
        tasks: the number of tasks that ran.
        skipped: the number of tasks that an earlier run had finished.
        lost: the ranges that `onCorrupt=skip` left out.
        replaced_keys: the number of header keys with a U+FFFD, which replaces bytes of the log that are not UTF-8.
        notes: information for the caller, one sentence per note.
        files: the number of files with records; None if Spark wrote them.
    """

    partitions: tuple[PartitionReport, ...]
    tasks: int
    skipped: int
    lost: tuple[Defect, ...]
    replaced_keys: int
    notes: tuple[str, ...] = ()
    files: int | None = None


def export(
    spark: SparkSession,
    path: Path | Sequence[Path],
    output: Path,
    *,
    format: str = "parquet",  # noqa: A002 - Spark's word for it
    compression: str | None = None,
    topics: Iterable[str] | None = None,
    options: Mapping[str, str] | None = None,
) -> ExportReport:
    """Export records to a directory of Parquet or JSON files. The tasks write the files themselves.

    The files are named `topic=<topic>/partition=<number>/<offset>-<task>.parquet`. A file appears when it is complete,
    and `_SUCCESS` appears when all files are complete. After a failure, run the same call again: it resumes the export.

    Args:
        spark: a session, not one of Spark Connect.
        path: one or more log directories or partition directories; local paths or URLs.
        output: a directory that the driver and the executors share, or a URL. It must be new, empty, or hold an export
            that the same call began.
        format: "parquet" or "json". "delta" (`output` is a path) and "iceberg" (`output` is a table) need their Spark
            packages, and use Spark's own writers.
        compression: the codec of the files. For parquet "zstd" (default), "none", "snappy", "gzip" or "lz4"; for json
            "none" (default) or "gzip".
        topics: the topics to export, by name or glob; None: the topics that the options select, by default all topics
            except Kafka's internal ones.
        options: options of `spark.read.format("brokerless")`: ranges, isolation, columns, task sizes, and `decode`
            with those that belong to it. Decoded values have one type in all files, that of the source, and JSON lines
            are those of `brokerless read --decode`. Such an export cannot be restored.

    Raises:
        FileNotFoundError: a path does not exist.
        ValueError: options contradict each other, or the directory holds other files or another export.
        RecordDeserializationError: a key or value does not decode, and `onDecodeError` is "raise".

    Example: `export(spark, "/backup/kafka-data", "/exports/orders", topics=["orders"])`
    """
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    given = _given(path, topics, options or {})
    read = Options.parse(given).for_batch()
    if format in PACKAGES:
        if compression is not None:
            raise ValueError(f"compression is of parquet and json: {format} has settings of its own")
        columns: Sequence[str] = _native.ROW_COLUMNS
        if read.decode is not None:
            columns = default_columns(read.decode.decoding, columns)
        return _counted(write_table(spark, given, columns, format, os.fspath(output)))
    known = COMPRESSIONS[format]
    if compression is not None and compression not in known:
        raise unknown("compression", compression, known)
    if format == "json" and read.decode is not None:
        read = replace(read, decode=replace(read.decode, decoding=read.decode.decoding.as_text()))
    writer = FileWriter(
        directory=ExportDirectory(storage.absolute(local(output))),
        form=format,
        columns=_columns(read, format),
        compression=compression or known[0],
        check_crcs=read.check_crcs,
    )
    with collected(forwards=True) as notes:
        exported = _export(spark, writer, read)
    return replace(exported, notes=tuple(notes))


def _export(spark: SparkSession, writer: FileWriter, options: Options) -> ExportReport:
    directory = writer.directory
    before = _found(directory)
    target = None if before is None else before.target_bytes
    tasks, manifest, writer = plan_consistently(options, lambda: plan(options, writer, target))
    if before is not None and before.plan != manifest.plan:
        raise ValueError(
            f"{directory.path} has another export, with other options, or the logs"
            f"{_OR_SCHEMAS if options.decode else ''} have changed since it was begun: use another directory (if logs "
            "grow, only an export with endingOffsets can be resumed)"
        )
    if before is not None and Manifest.is_whole(directory):
        _check_there(directory, before)
        return _report(before, tasks=0)
    directory.begin()
    if before is None:
        try:
            manifest.write(directory)
        except FileExistsError as error:
            raise ValueError(
                f"another run has begun an export to {directory.path} meanwhile: run this one again"
            ) from error
    else:
        manifest = replace(manifest, id=before.id)
    receipts = _receipts(directory)
    missing = [(number, task) for number, task in enumerate(tasks) if number not in receipts]
    made = SparkTasks(spark).map(writer.write_numbered, missing)
    if Manifest.is_whole(directory):
        # Another run finished first, and its manifest is valid.
        return _report(Manifest.read(directory), tasks=len(missing))
    receipts |= {number: receipt for (number, _), receipt in zip(missing, made, strict=True)}
    in_order = [receipts[number] for number in range(len(tasks))]
    manifest = replace(
        manifest,
        files=tuple(file for receipt in in_order for file in receipt.files),
        lost=tuple(lost for receipt in in_order for lost in receipt.lost),
        replaced_keys=sum(receipt.replaced_keys for receipt in in_order),
        tallies=tuple(summed(tally for receipt in in_order for tally in receipt.tallies)),
        is_complete=True,
    )
    manifest.write(directory)
    directory.finish(RECEIPTS)
    return _report(manifest, tasks=len(missing))


def _given(path: Path | Sequence[Path], topics: Iterable[str] | None, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the read."""
    for name in options:
        if name.lower() in ("path", "paths", "view", "includeheaders"):
            raise ValueError(
                f"option {name} is not for an export: it takes its paths as an argument, and always "
                "exports whole records"
            )
    paths = [path] if isinstance(path, str | os.PathLike) else path
    # Spark plans in a process that may have another working directory.
    given = {**options, "path": json.dumps([storage.absolute(local(one)) for one in paths])}
    return given | subscription(topics, paths)


def _columns(options: Options, form: str) -> tuple[str, ...]:
    """Return the columns of the files. They always include `offset`, and Parquet adds the exact time to `timestamp`."""
    known: Sequence[str] = JSON_COLUMNS if form == "json" else PARQUET_COLUMNS
    everything = [*_native.ROW_COLUMNS, *([] if form == "json" else [PATH])]
    if options.decode is not None:
        known = default_columns(options.decode.decoding, known)
        everything += decoded_columns(options.decode.decoding)
    if options.columns is None:
        return tuple(known)
    for name in options.columns:
        if name not in everything:
            raise unknown("column", name, everything)
    wanted = dict.fromkeys(["offset", *options.columns])
    if form == "json":
        return tuple(wanted)
    if "timestamp" in wanted:
        wanted[EXACT_TIME] = None
    return tuple(name for name in wanted if name not in ("topic", "partition"))


def _found(directory: ExportDirectory) -> Manifest | None:
    """Return the manifest of an unfinished or finished export; None if the directory is new or empty.

    Raises:
        ValueError: the directory holds other files, or is in a place where it would keep a broker from starting.
    """
    if directory.holds(MANIFEST):
        return Manifest.read(directory)
    if not directory.is_remote:
        check_outside(directory.path, is_deep=True)
    names = directory.names()
    if names:
        raise ValueError(
            f"{directory.path} holds {names[0]}, and is not an export: use a directory that is new or empty"
        )
    return None


def _check_there(directory: ExportDirectory, manifest: Manifest) -> None:
    """Refuse a finished export if a file is missing or has another size."""
    for file in manifest.files:
        size = directory.size(file.name)
        if size != file.bytes:
            found = "is gone" if size is None else f"has {size} bytes, and was written with {file.bytes}"
            raise ValueError(f"{directory.path}/{file.name} {found}: export to another directory")


def _receipts(directory: ExportDirectory) -> dict[int, Receipt]:
    """Return the receipts of finished tasks whose files exist, by task number."""
    found = {}
    for name in directory.names(RECEIPTS):
        # File managers and copy tools leave other files.
        if re.fullmatch(r"[0-9]+\.json", name):
            receipt = Receipt.from_json(directory.read(f"{RECEIPTS}/{name}"), f"{directory.path}/{RECEIPTS}/{name}")
            if receipt.is_there(directory):
                found[int(name.removesuffix(".json"))] = receipt
    return found


def _report(manifest: Manifest, *, tasks: int) -> ExportReport:
    for tally in manifest.tallies:
        note(tally.text)
    by_partition = defaultdict(list)
    for file in manifest.files:
        by_partition[file.topic, file.partition].append(file)
    return ExportReport(
        partitions=tuple(
            PartitionReport(
                topic=topic,
                partition=number,
                rows=sum(file.rows for file in by_partition[topic, number]),
                bytes=sum(file.bytes for file in by_partition[topic, number]),
                seconds=sum(file.seconds for file in by_partition[topic, number]),
            )
            for topic, found in sorted(manifest.topics.items())
            for number in sorted(found.partitions)
        ),
        tasks=tasks,
        skipped=manifest.tasks - tasks,
        lost=manifest.lost,
        replaced_keys=manifest.replaced_keys,
        files=len(manifest.files),
    )


def _counted(table: DataFrame) -> ExportReport:
    counts = table.groupBy("topic", "partition").count().orderBy("topic", "partition").collect()
    partitions = tuple(PartitionReport(topic=topic, partition=number, rows=rows) for topic, number, rows in counts)
    return ExportReport(partitions=partitions, tasks=0, skipped=0, lost=(), replaced_keys=0)
