"""The metadata log: its snapshots and its records, replayed into a `MetadataImage`."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from itertools import repeat
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from brokerless import _native
from brokerless.errors import CorruptRecordError, UnsupportedFormatError, located
from brokerless.io import storage
from brokerless.layout.file_names import METADATA_TOPIC
from brokerless.log.log import Log
from brokerless.metadata.directory import CutSnapshotError, formatted_snapshot, has_metadata_log, snapshot_of_name
from brokerless.metadata.image import MetadataImage
from brokerless.metadata.records import metadata_records, rows_of
from brokerless.notes import note

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from brokerless.log.segment import Segment

_HEADER, _FOOTER = "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER"


def snapshots(log: Log) -> list[tuple[int, int, str]]:
    """Return the end offset, the leader epoch and the path of each snapshot, newest first.

    The last entry may be the snapshot that formatting wrote, with offset 0 and leader epoch 0.
    """
    named = ((name, snapshot_of_name(name)) for name in storage.list_directory(log.path))
    return sorted(((*found, f"{log.path}/{name}") for name, found in named if found is not None), reverse=True)


def last_time(snapshot: bytes) -> int:
    """Return the time of the last record in a snapshot, in ms.

    Raises:
        CorruptRecordError: the snapshot is damaged.
    """
    for control_type, value in _control_records(snapshot):
        if control_type == _HEADER:
            return int(value["lastContainedLogTimestamp"])
    raise CorruptRecordError("no snapshot: it has no header")


def replay_snapshot(content: bytes, image: MetadataImage) -> None:
    """Apply the records of a snapshot, which is complete only if it begins with its header and ends with its footer.

    Raises:
        CutSnapshotError: the snapshot is cut. The records before the cut are applied.
        CorruptRecordError: the snapshot is damaged. The records before the damage may be applied.
    """
    kinds = []
    for control_type, value in _control_records(content):
        kinds.append(control_type)
        if control_type == _HEADER:
            image.time = value["lastContainedLogTimestamp"]
        else:
            image.replay_control(control_type, value)
    if kinds[:1] != [_HEADER]:
        raise CorruptRecordError("metadata snapshot is cut: it has no header", position=0)
    decoder, position = _native.Decoder(["key", "value"]), 0
    while position < len(content):
        rows, consumed = decoder.decode(memoryview(content)[position:], position)
        if not consumed:
            break
        if rows is not None:
            replay_rows(rows, image)
        position += consumed
    if position < len(content) or kinds[-1] != _FOOTER:
        raise CutSnapshotError("metadata snapshot is cut: it has no footer", position=position)


def check_formatted_snapshot(content: bytes) -> None:
    """Check the snapshot that formatting wrote, which a node reads at each start while it has no newer one.

    The metadata log has the records of the snapshot too, so nobody misses them. But their checksums must be right
    (`KRaftControlRecordStateMachine.maybeLoadSnapshot`). An empty or a cut snapshot is read up to its end.

    Raises:
        CorruptRecordError: the snapshot is damaged.
    """
    if content:
        with suppress(CutSnapshotError):
            replay_snapshot(content, MetadataImage())


def replay_log(
    log: Log, image: MetadataImage, start: int, end: int, at: int | None = None
) -> CorruptRecordError | UnsupportedFormatError | None:
    """Apply the records in [start, end) up to a time. Stop at damage, where a broker would cut the log.

    Returns:
        The damage; None if all records were applied.
    """
    damage = None
    try:
        # Read up to `end` instead of the time: the search for the time's offset could need batches after damage.
        for rows in log.read(start, end, columns=["key", "value", "offset", "timestamp"]):
            times = [time or 0 for time in rows["timestamp"].view(pa.int64()).to_pylist()]
            count = next((row for row, time in enumerate(times) if at is not None and time > at), len(times))
            if count:
                replay_rows(rows.slice(0, count), image, rows["offset"].to_pylist())
                image.offset, image.time = rows["offset"][count - 1].as_py() + 1, times[count - 1]
            if count < len(times):
                break
    except (CorruptRecordError, UnsupportedFormatError) as error:
        end = start if image.offset is None else image.offset
        damage = error
    for segment in log.segments:
        if start < segment.end_offset(log.log_end_offset) and segment.base_offset < end:
            _replay_controls(segment, image, end, at)
    return damage


def _control_records(content: bytes | memoryview, position: int = 0) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the type and the value of each control record in batches.

    Raises:
        CorruptRecordError: the checksum of a batch with control records is wrong.
    """
    batches, _ = _native.scan(content, position, check_crcs=True)
    columns = ("position", "size", "is_control", "is_valid")
    for start, size, is_control, is_valid in zip(*(batches[name].to_pylist() for name in columns), strict=True):
        if not is_control:
            continue
        if not is_valid:
            raise CorruptRecordError("control batch of the metadata has a wrong checksum", position=start)
        begin = start - position
        lines, _ = _native.JsonDump(records=True).feed(memoryview(content)[begin : begin + size], start)
        for record in json.loads(lines).get("records") or ():
            if isinstance(record.get("value"), dict):
                yield record["control_type"], record["value"]


def _replay_controls(segment: Segment, image: MetadataImage, end: int, at: int | None) -> None:
    """Apply the control records of a segment up to an offset and a time. Stop at damage, which the caller reports."""
    columns = ("position", "size", "base_offset", "max_timestamp", "is_control")
    with segment.open() as file, suppress(CorruptRecordError, UnsupportedFormatError):
        for batches in segment.scan():
            for position, size, offset, time, is_control in zip(
                *(batches[name].to_pylist() for name in columns), strict=True
            ):
                # A flipped bit can make a batch look like a message of an old format, which may have no base offset.
                if offset is None:
                    continue
                if offset >= end:
                    return
                if is_control and (at is None or time <= at):
                    for control_type, value in _control_records(file.read(position, size), position):
                        image.replay_control(control_type, value)


def replay_records(records: Iterable[bytes], image: MetadataImage) -> None:
    """Apply records, given as their bytes."""
    for rows in rows_of(records):
        replay_rows(rows, image)


def replay_rows(
    rows: pa.RecordBatch,
    image: MetadataImage,
    offsets: Iterable[int | None] = repeat(None),
    times: Iterable[int | None] = repeat(None),
) -> None:
    """Apply the records in rows.

    Args:
        rows: the rows, with `key` and `value`.
        image: the image, whose `offset` and `time` become those of each record, if they are given.
        offsets: the offset of each record.
        times: the time of each record, in ms.
    """
    for record, offset, time in zip(metadata_records(rows), offsets, times, strict=False):
        if offset is not None and time is not None:
            image.offset, image.time = offset + 1, time
        takes_all = image.refusal is None
        kind, version, name, fields, unknown, content = record
        if unknown is not None:
            # The name of a known type is missing if the record ends before its version.
            is_of_new_type = name is None and None not in (kind, version)
            why = unknown if name is None else f"{name}: {unknown}"
            image.not_understood(why, content, is_of_new_type=is_of_new_type, is_malformed=record.is_malformed)
        elif name is not None:
            image.replay(name, fields, content)
        if takes_all and image.refusal is not None and offset is not None:
            image.refusal = f"the record at offset {offset}: {image.refusal}"


def cluster_image(path: str) -> MetadataImage | None:
    """Return the cluster's state from a log directory's metadata log; None without a metadata log.

    If the log is damaged, the records after the damage are ignored, because a broker would cut the log there. The
    image's `is_whole` is then False.

    Raises:
        CorruptRecordError: a snapshot is damaged.
    """
    if not has_metadata_log(path):
        return None
    image, log = MetadataImage(), Log(f"{path}/{METADATA_TOPIC}-0")
    start = log.local_log_start_offset
    first = formatted_snapshot(path)
    newest = next((one for one in snapshots(log) if os.path.basename(one[2]) != os.path.basename(first)), None)
    if newest is not None:
        # Start at the snapshot: before it, the log may have a topic's deletion without its creation.
        start = min(max(start, newest[0]), log.log_end_offset)
        with located(newest[2]):
            try:
                replay_snapshot(storage.read_all(newest[2]), image)
            except CutSnapshotError as error:
                image.is_whole = False
                note(
                    f"{newest[2]}: {error.args[0]}. So the cluster's metadata may be incomplete; a broker uses them "
                    "as they are"
                )
    damage = replay_log(log, image, start, log.log_end_offset) if start < log.log_end_offset else None
    if newest is None and start > 0:
        # Without the earlier records, it is not known whether a controller would refuse a record.
        image.refusal = None
    if damage is not None:
        image.is_whole = False
        note(damaged_in_words(damage))
    elif not image.is_whole:
        count, why = sum(image.unknown.values()), ", ".join(image.unknown)
        note(
            f"{log.path}: {count} records cannot be decoded ({why}), so the settings, replicas and producer ids in the "
            "cluster's metadata may be outdated"
        )
    return image


def damaged_in_words(damage: CorruptRecordError | UnsupportedFormatError) -> str:
    """Return the note on a damaged metadata log, which is replayed up to the damage."""
    return (
        f"the cluster's metadata are read up to the damage at {damage.path}:{damage.position} ({damage.args[0]}), so "
        "they may be outdated. A broker truncates the metadata log at the damage"
    )
