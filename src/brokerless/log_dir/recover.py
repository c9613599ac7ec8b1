"""Recovery of a whole log directory, and its forecast: the changes, and what a broker that starts afterwards does."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal

from brokerless.arguments import listed_few
from brokerless.errors import CorruptRecordError, UnsupportedFormatError
from brokerless.io import storage
from brokerless.io.clock import now_ms
from brokerless.layout import checkpoints, file_names
from brokerless.layout.commit_journal import Journal
from brokerless.layout.file_names import chosen_topics, is_chosen
from brokerless.layout.lock import check_free
from brokerless.layout.log_dir_files import LogDirFiles, hint_at_log_dirs, inactive_in
from brokerless.layout.topic_config import TopicConfig
from brokerless.log.log import Log
from brokerless.log_dir.root_writer import RootWriter
from brokerless.log_dir.start_faults import (
    METADATA,
    STRAY_CURE,
    Fault,
    absent_partitions,
    conflicting_ids,
    doubled_partitions,
    foreign_ids,
    missing_ids,
    named_by_reason,
    names_taken_from_checkpoints,
    partition_faults,
    quorum_faults,
    remark_on,
    start_faults,
    taken_names,
)
from brokerless.log_dir.transactional_ids import check_file
from brokerless.log_dir.writer import LogDirWriter
from brokerless.notes import note
from brokerless.recovery.loader import load
from brokerless.remarks import Remark
from brokerless.wording import counted, option

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from brokerless.layout.checkpoints import MetaProperties
    from brokerless.log.expected_end import ExpectedEnd
    from brokerless.log_dir.start_faults import Absent
    from brokerless.metadata.topic_settings import Path
    from brokerless.recovery.load_result import Loaded
    from brokerless.recovery.lost_batches import Cut

Start = Literal["yes", "partly", "serves_nothing", "no"]
"""The forecast of a broker's start on log directories.

- yes: the broker starts, and serves the logs.
- partly: the broker starts, but does not serve some logs.
- serves_nothing: the broker starts, but serves no log, because the cluster's metadata are missing.
- no: the broker does not start.
"""

_ROLL_FORWARD = Remark(
    "rename", "replace the old directory by the new one of an interrupted write, because the write was committed"
)
_MAKE = Remark("make", "make the directory, because the metadata of the new cluster have the partition")


@dataclass
class Forecast:
    """A forecast of recovery: the changes to a log directory, and what a broker that starts afterwards does.

    Attributes:
        steps: the changes to each log, in order, each with the name of the log's directory.
        cuts: the truncations at damage, each with the name of its log.
        damaged_offsets: the number of offsets in the damage at these truncations, at most; None if it is not known,
            because damage follows the last sound batch of a log, and no file shows for certain where the log ended.
        metas: the ids of the directories, by path; directories without ids are left out.
        faults: the reasons why a broker will not start.
        missing_metadata: the reasons why a broker will start but serve nothing, unless another of its log directories
            has the metadata.
        has_metadata: whether the cluster's metadata are in the directory, or the caller named their directory.
        directories: the directories of partitions, and of the metadata log.
        partitions: the number of partitions.
        unserved: the reason why a broker will not serve a partition, by partition directory.
        lost: the partitions that a broker will lead with an empty log.
        unserved_records: the number of records in these partitions, at most.
        notes: other actions of the broker.
        missing: records that are missing although other files in the directory refer to them. Recovery rewrites these
            files, so afterwards nothing shows the loss.
        ends_early: the logs that, after a crash, may lack records according to other files, although no damage is cut
            off.
        missing_offsets: the number of offsets that the logs lack at their ends according to other files, although no
            damage is cut off.
        shortened: the new end of each log that certainly lacks records at its end, or whose end is cut off, by path.
        unstartable: the logs of a directory that was shut down cleanly on which a broker does not start before a
            recovery, each with the reason.
    """

    steps: list[tuple[str, list[Remark]]] = field(default_factory=list)
    cuts: list[tuple[str, Cut]] = field(default_factory=list)
    damaged_offsets: int | None = 0
    metas: dict[str, MetaProperties] = field(default_factory=dict)
    faults: list[Remark] = field(default_factory=list)
    missing_metadata: list[Remark] = field(default_factory=list)
    has_metadata: bool = False
    directories: list[str] = field(default_factory=list)
    partitions: int = 0
    unserved: dict[str, Remark] = field(default_factory=dict)
    lost: list[Absent] = field(default_factory=list)
    unserved_records: int = 0
    notes: list[Remark] = field(default_factory=list)
    missing: list[Remark] = field(default_factory=list)
    ends_early: list[ExpectedEnd] = field(default_factory=list)
    missing_offsets: int = 0
    shortened: dict[str, int] = field(default_factory=dict)
    unstartable: list[str] = field(default_factory=list)

    @property
    def lost_records(self) -> int:
        """The number of records in sound batches after damage."""
        return sum(cut.records for _, cut in self.cuts)

    @property
    def changes(self) -> int:
        """The number of changes."""
        return sum(len(steps) for _, steps in self.steps)

    @property
    def dropping(self) -> list[Remark]:
        """The reasons why a broker will start but not serve partitions."""
        return [*self.missing_metadata, *self.unserved.values(), *named_by_reason(self.lost)]

    @property
    def is_good(self) -> bool:
        """True if a broker will start and serve the logs."""
        return not (self.faults or self.dropping)

    @classmethod
    def of_all(cls, found: Collection[Forecast]) -> Forecast:
        """Merge the forecasts for all log directories of one broker. Only one directory needs to have the metadata."""
        metas = {path: meta for one in found for path, meta in one.metas.items()}
        # Replicas of a partition on two nodes are not a partition that one broker has twice.
        is_one_node = len({meta.node_id for meta in metas.values()} - {None}) < 2
        directories = [path for one in found for path in one.directories]
        has_metadata = any(one.has_metadata for one in found)
        return cls(
            steps=[steps for one in found for steps in one.steps],
            cuts=[cut for one in found for cut in one.cuts],
            damaged_offsets=_sum(one.damaged_offsets for one in found),
            metas=metas,
            faults=[
                *(why for one in found for why in one.faults),
                *(fault.remark for fault in conflicting_ids(metas)),
                *(fault.remark for fault in doubled_partitions(directories if is_one_node else ())),
            ],
            missing_metadata=[] if has_metadata else [why for one in found for why in one.missing_metadata],
            has_metadata=has_metadata,
            directories=directories,
            partitions=sum(one.partitions for one in found),
            unserved={name: why for one in found for name, why in one.unserved.items()},
            lost=[why for one in found for why in one.lost],
            unserved_records=sum(one.unserved_records for one in found),
            notes=[note for one in found for note in one.notes],
            missing=[said for one in found for said in one.missing],
            ends_early=[end for one in found for end in one.ends_early],
            missing_offsets=sum(one.missing_offsets for one in found),
            shortened={path: end for one in found for path, end in one.shortened.items()},
            unstartable=[why for one in found for why in one.unstartable],
        )

    def to_dict(self) -> dict[str, object]:
        """Return the sums and remarks as a dict for JSON. `start` is a `Start`."""
        starts: Start = "serves_nothing" if self.missing_metadata else "partly"
        return {
            "start": "no" if self.faults else "yes" if self.is_good else starts,
            "lost_records": self.lost_records,
            "damaged_offsets": self.damaged_offsets,
            "missing_offsets": self.missing_offsets,
            "changes": self.changes,
            "partitions": self.partitions,
            "unserved": sorted(self.unserved),
            "lost_partitions": [f"{one.topic}-{one.partition}" for one in self.lost],
            "faults": [one.to_dict() for one in self.faults],
            "reasons": [one.to_dict() for one in self.dropping],
            "missing": [one.to_dict() for one in self.missing],
            "notes": [one.to_dict() for one in (*map(_early_end, self.ends_early), *self.notes)],
        }

    def summary(self) -> str:
        """Return the forecast in one line."""
        ends = len({name for name, _ in self.cuts})
        sound = counted(self.lost_records, "record")
        lost = f"{sound} lost"
        if ends:
            hit = "the records" if self.damaged_offsets is None else f"up to {counted(self.damaged_offsets, 'record')}"
            lost = f"lost in {counted(ends, 'log')}: {hit} in the damage, {sound} after it"
        damage = "; records are missing already" if self.missing else ""
        if self.ends_early:
            offsets = sum(one.offset - one.end_offset for one in self.ends_early)
            damage += f"; up to {offsets} may be missing already"
        changes = counted(self.changes, "change")
        return f"{lost}{damage}; {changes}; a broker {self._start}"

    @property
    def _start(self) -> str:
        if self.faults:
            return "will not start"
        if self.is_good:
            return "will start"
        if self.missing_metadata:
            return "will start and serve nothing"
        partitions = self.partitions + len(self.lost)
        served = self.partitions - len(self.unserved)
        what = f"{served} of {counted(partitions, 'partition')}" if served else "nothing"
        unserved = [f"up to {self.unserved_records} records are not served"] if self.unserved else []
        lost = [f"{len(self.lost)} log{'s are' if len(self.lost) != 1 else ' is'} lost"] if self.lost else []
        return f"will start and serve {what}: {', '.join(unserved + lost)}"


def recovered(
    path: str,
    topics: Collection[str] = (),
    *,
    force: bool = False,
    broker_config: Path | None = None,
    metadata: Path | None = None,
) -> Iterator[tuple[str, list[Remark]]]:
    """Recover each log of a log directory, and yield its name and its changes.

    Data that recovery cuts off at damage stays in the log's directory, in files that brokers ignore.

    Args:
        path: the log directory.
        topics: the topics to recover, by name or glob; empty: all.
        force: recover even if records are missing, or if the directory was shut down cleanly, so that a broker would
            still serve the data that recovery cuts off.
        broker_config: the broker's configuration file; see `LogDirWriter`.
        metadata: the directory of the cluster's metadata log; see `LogDirWriter`.

    Raises:
        LogInUseError: a broker, or another writer, has the directory open.
        CorruptRecordError: a broker would not start on a log (logs before it are recovered); or a file of the directory
            is damaged (nothing is changed); or, without `force`, records are missing, or the directory was shut down
            cleanly and recovery would lose records.
        ValueError: a topic is unknown, or `path` is no log directory.
    """
    root = _checked(path, topics, broker_config, metadata)
    absent = _absent(root)
    if root.had_marker and not force:
        _check_clean(root, forecast(path, topics, broker_config=broker_config, metadata=metadata))
    elif not force:
        _check_missing(root, topics)
    with LogDirWriter(
        path, sole_replica=None, recover=True, broker_config=broker_config, metadata=metadata
    ) as directory:
        for name in directory.rolled_forward:
            yield name, [_ROLL_FORWARD]
        yield from _written_again(root)
        for key in _chosen(directory.partitions(), topics):
            log = directory.log(*key)
            yield _name(key), [_MAKE] if key in absent else log.recovery
        yield from directory.recover_leftovers(topics)


def _written_again(root: RootWriter) -> Iterator[tuple[str, list[Remark]]]:
    """Yield the checkpoints to write again, because a broker reads them as empty, or serves nothing because of them."""
    for name, message in root.overlooked.items():
        is_needed = name == checkpoints.HIGH_WATERMARKS
        said = f"write the file again: {message}" + ("; until then, a broker serves no partition" * is_needed)
        yield name, [Remark("write", said, path=f"{root.path}/{name}")]


def _check_clean(root: RootWriter, found: Forecast) -> None:
    """Refuse to cut logs that a broker would serve unchanged, and to rewrite files that name missing records."""
    if found.cuts:
        cuts = "; ".join(f"{name}/{cut}" for name, cut in found.cuts)
        sound = found.lost_records
        too = f", so {counted(sound, 'record')} after the damage would be lost, too" if sound else ""
        raise CorruptRecordError(
            "the directory was shut down cleanly: a broker recovers nothing, and serves the sound batches. A recovery "
            f"would cut off {cuts}{too}. Nothing was changed. To recover the directory, and set aside the cut bytes, "
            f"use {option('force')}",
            path=root.path,
        )
    _refuse_missing(root, found.missing, "the directory was shut down cleanly, but ")


def _check_missing(root: RootWriter, topics: Collection[str]) -> None:
    """After a crash, or in a copy of a running broker's files, refuse to rewrite files that name missing records."""
    there = LogDirFiles(root.path)
    missing = []
    names = [root.partitions[key] for key in _chosen(sorted(root.partitions), topics)]
    names += [name for name, (topic, _) in root.leftovers.items() if not topics or is_chosen(topic, topics)]
    for name in names:
        # Recovery reports damage itself, and sets aside what it cuts off there.
        with contextlib.suppress(CorruptRecordError, UnsupportedFormatError, FileNotFoundError):
            files = Log(f"{root.path}/{name}", root=there).files
            missing += [
                f"{one.path}: {one.reason}"
                for one in files.missing
                if one.code != "records-missing" or files.extent.damage is None
            ]
    _refuse_missing(root, missing)


def _refuse_missing(root: RootWriter, missing: Sequence[object], when: str = "") -> None:
    if missing:
        said = "; ".join(map(str, missing))
        raise CorruptRecordError(
            f"{when}records are missing: {said}. A broker continues without them, and reports nothing. Nothing was "
            f"changed. Put back the removed or truncated files, or use {option('force')} to accept the logs as they "
            "are",
            path=root.path,
        )


def planned(path: str, topics: Collection[str] = ()) -> Iterator[tuple[str, list[Remark]]]:
    """Yield the name of each log and the changes that recovery would make. Nothing is changed.

    Raises:
        LogInUseError: a broker, or another writer, has the directory open.
        CorruptRecordError: a broker would not start on a log, or a file of the directory is damaged.
        ValueError: a topic is unknown, or `path` is no log directory.
    """
    yield from forecast(path, topics).steps


def forecast(
    path: str,
    topics: Collection[str] = (),
    *,
    broker_config: Path | None = None,
    metadata: Path | None = None,
    beside: Collection[str] = (),
) -> Forecast:
    """Return the changes that recovery would make to a log directory, and what a broker that starts afterwards does.

    Nothing is changed.

    Args:
        path: the log directory.
        topics: the topics to recover; empty: all.
        broker_config: the broker's configuration file; see `LogDirWriter`.
        metadata: the directory of the cluster's metadata log; see `LogDirWriter`.
        beside: the broker's other log directories.

    Raises:
        LogInUseError: a broker, or another writer, has the directory open.
        CorruptRecordError: a broker would not start on a log, or a file of the directory is damaged.
        ValueError: a topic is unknown, or `path` is no log directory.
    """
    root = _checked(path, topics, broker_config, metadata, beside)
    root.cluster.online.update(LogDirFiles(one).directory_id for one in beside)
    inside = (*root.partitions.values(), *root.leftovers, METADATA)
    found = Forecast(directories=[f"{path}/{name}" for name in inside if storage.exists(f"{path}/{name}")])
    unserved = _foresee_metadata(root, found, topics, beside)
    absent = _absent(root)
    for name in sorted(root.journal.partitions) if root.journal is not None else ():
        found.steps.append((name, [_ROLL_FORWARD]))
    found.steps += _written_again(root)
    for key in _chosen(sorted(root.partitions), topics):
        found.partitions += 1
        if key in absent:
            found.steps.append((_name(key), [_MAKE]))
            continue
        look = partial(
            _loaded,
            root,
            root.partitions[key],
            _config(root, key[0]),
            root.recovery_points.get(key, 0),
            root.log_start_offsets.get(key),
            high_watermark=root.high_watermarks.get(key),
            first_dirty_offset=root.first_dirty_offsets.get(key),
        )
        loaded = left = look()
        if root.had_marker:
            # Records that recovery would cut off are still present, so they are not missing.
            try:
                left = look(is_clean=True)
            except CorruptRecordError as error:
                found.unstartable.append(f"{_name(key)}: {error.args[0]}")
        _foresee(found, _name(key), loaded)
        if key in unserved:
            found.unserved[f"{path}/{root.partitions[key]}"] = unserved[key]
            found.unserved_records += loaded.log_end_offset - loaded.log_start_offset
        if left is not loaded:
            found.notes += [
                remark_on("silent-loss", f"{_name(key)}: without recovery, {loss}", left.changes.directory)
                for loss in dict.fromkeys(left.losses)
            ]
        found.missing += [_of_log(said, _name(key), left) for said in left.missing]
        _foresee_end(found, loaded, left if root.had_marker else loaded, is_clean=root.had_marker)
    for name, (topic, _) in root.leftovers.items():
        if not topics or is_chosen(topic, topics):
            offsets = root.leftover_offsets(name)
            loaded = _loaded(root, name, _config(root, topic), *offsets)
            _foresee(found, name, loaded)
            found.missing += [_of_log(said, name, loaded) for said in loaded.missing]
    return found


def _of_log(said: Remark, name: str, loaded: Loaded) -> Remark:
    here = remark_on(said.code, "", loaded.changes.directory)
    return said.of(f"{name}: ", topic=here.topic, partition=here.partition, path=here.path)


def _early_end(end: ExpectedEnd) -> Remark:
    topic, partition, _ = file_names.parse_directory_name(end.name)
    return Remark("records-missing", str(end), topic=topic, partition=partition)


def _foresee(found: Forecast, name: str, loaded: Loaded) -> None:
    loaded.check_losses(is_clean=False)
    found.steps.append((name, [step.remark(loaded.changes.directory) for step in loaded.changes.steps]))
    cuts = [cut for cut in loaded.cuts if cut.is_damage]
    found.cuts += [(name, cut) for cut in cuts]
    if cuts:
        found.damaged_offsets = _sum([found.damaged_offsets, _damaged_offsets(loaded, cuts)])


def _damaged_offsets(loaded: Loaded, cuts: Sequence[Cut]) -> int | None:
    """Return the number of offsets in the damage of a log; None if nothing shows where the log ended."""
    ends = [last + 1 for _, last in (cut.offsets for cut in cuts if cut.offsets is not None)]
    expected = loaded.expected_end
    if max(cuts, key=lambda cut: cut.name).ends_damaged and (expected is None or not expected.is_clean):
        # After a crash, the other files may be behind the log.
        return None
    if expected is not None:
        ends.append(expected.offset)
    sound = sum(cut.records for cut in cuts)
    return max(0, max(ends) - loaded.log_end_offset - sound) if ends else None


def _sum(numbers: Iterable[int | None]) -> int | None:
    """Return the sum; None if one of the numbers is not known."""
    found = list(numbers)
    return None if None in found else sum(number for number in found if number is not None)


def _foresee_end(found: Forecast, recovered_log: Loaded, loaded: Loaded, *, is_clean: bool) -> None:
    """Forecast that a log ends before the offset that other files give.

    Args:
        found: the forecast.
        recovered_log: the log after a recovery.
        loaded: the log as a broker loads it.
        is_clean: whether the directory was shut down cleanly.
    """
    expected = loaded.expected_end
    is_missing = expected is not None and expected.is_certain
    if is_missing or any(cut.is_damage for cut in recovered_log.cuts):
        found.shortened[loaded.changes.directory] = recovered_log.log_end_offset
    if expected is None:
        return
    if any(cut.is_damage for cut in loaded.cuts) and not is_clean:
        said = f"{expected.name} {expected.short}"
        found.notes.append(remark_on("records-missing", said, loaded.changes.directory))
        return
    found.missing_offsets += expected.offset - expected.end_offset
    if expected.is_certain:
        found.missing.append(remark_on("records-missing", expected.missing, loaded.changes.directory))
    else:
        found.ends_early.append(expected)


def _foresee_metadata(
    root: RootWriter, found: Forecast, topics: Collection[str], beside: Collection[str]
) -> dict[tuple[str, int], Remark]:
    """Forecast what a broker does with the directory's ids and the cluster's metadata log. Recovery changes neither.

    Returns:
        The reason why the broker will not serve a partition, by partition.
    """
    if root.meta is not None:
        found.metas[root.path] = root.meta
    elif lacking := list(missing_ids(root.path, beside)):
        found.faults += [fault.remark for fault in lacking]
    else:
        said = (
            f"no {checkpoints.META_PROPERTIES} in {root.path}: a KRaft broker does not start without it; a broker with "
            "ZooKeeper recreates it"
        )
        found.notes.append(Remark("ids-missing", said, path=f"{root.path}/{checkpoints.META_PROPERTIES}"))
    found.faults += [fault.remark for fault in quorum_faults(root.path)]
    has_log = storage.is_directory(f"{root.path}/{METADATA}")
    if has_log:
        of_metadata = partition_faults(f"{root.path}/{METADATA}")
        found.faults += [fault.remark for fault in of_metadata if fault.code != "topic-id-damaged"]
    found.has_metadata = root.bootstrap is not None or root.cluster.image is not None
    if root.cluster.image is not None and root.cluster.image.refusal is not None:
        cure = "copy the metadata log from another controller; without one, `brokerless rescue` makes a new cluster"
        found.faults.append(
            Fault("metadata-damaged", f"{root.path}/{METADATA}", root.cluster.image.refusal, cure).remark
        )
    found.faults += [fault.remark for fault in foreign_ids(root.cluster)]
    _foresee_partitions(root, found, topics, beside)
    strays = any(file_names.parse_directory_name(name).leftover == "stray" for name in root.leftovers)
    if (root.partitions or strays) and (missing := root.cluster.missing_metadata()):
        found.missing_metadata.append(Remark("metadata-missing", missing, path=root.path))
    if has_log and any(name.endswith(".log") for name in storage.list_directory(f"{root.path}/{METADATA}")):
        # A broker recovers the whole metadata log at each start, even after a clean shutdown (KafkaMetadataLog).
        found.notes += [
            remark_on(
                "metadata-cut-off",
                f"a broker cuts off a part of {METADATA}, and loses the topics, partitions and settings in it: {cut}",
                f"{root.path}/{METADATA}/{cut.name}",
            )
            for cut in _loaded(root, METADATA, TopicConfig(), 0, None).cuts
            if cut.is_damage
        ]
        if (expected := Log(f"{root.path}/{METADATA}", root=LogDirFiles(root.path)).files.expected_end) is not None:
            said = f"{expected}. A broker does not know the topics, partitions and settings in these records"
            found.notes.append(remark_on("records-missing", said, f"{root.path}/{METADATA}"))
    return {} if found.missing_metadata else root.unserved(topics)


def _foresee_partitions(root: RootWriter, found: Forecast, topics: Collection[str], beside: Collection[str]) -> None:
    """Forecast what a broker does about partitions that the metadata place here, and whose logs are missing."""
    if root.cluster.image is not None:
        roots = [LogDirFiles(one) for one in dict.fromkeys([root.path, *beside])]
        absent = absent_partitions(root.cluster.image.rows, roots)
        mine = [one for one in absent if one.path == root.path and (not topics or is_chosen(one.topic, topics))]
        found.lost += [one for one in mine if one.is_lost]
        found.notes += named_by_reason(one for one in mine if not one.is_lost)
        if strays := [stray for one in mine for stray in one.strays]:
            found.notes.append(Remark("stray", f"{listed_few(strays)}: {STRAY_CURE}", names=tuple(strays)))
    goes_on = any(other != root.path for other in beside)
    for fault in (*taken_names(root.cluster), *names_taken_from_checkpoints(LogDirFiles(root.path))):
        if fault.takes_offline and goes_on:
            found.unserved[fault.path] = fault.remark
        else:
            found.faults.append(fault.remark)


def _loaded(
    root: RootWriter,
    name: str,
    config: TopicConfig,
    recovery_point: int,
    log_start_offset: int | None,
    high_watermark: int | None = None,
    first_dirty_offset: int | None = None,
    is_clean: bool = False,
) -> Loaded:
    """Return the changes that recovery would make to a partition directory."""
    return load(
        f"{root.path}/{name}",
        config,
        is_clean=is_clean,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        now=now_ms(),
        high_watermark=high_watermark,
        first_dirty_offset=first_dirty_offset,
    )


def _checked(
    path: str,
    topics: Collection[str],
    broker_config: Path | None,
    metadata: Path | None,
    beside: Collection[str] = (),
) -> RootWriter:
    """Return a log directory's files as a writer finds them, or raise the error that stops a writer. Take no lock."""
    names = storage.list_directory(path)
    if file_names.is_partition_directory(names):
        raise ValueError(f"{path!r} is a partition's directory: recover the log directory around it")
    if not LogDirFiles.is_root(names):
        for fault in missing_ids(path, beside):
            raise fault.error()
        hint = hint_at_log_dirs(path) or "; give one of a broker's log.dirs"
        raise ValueError(f"{path!r} is not a log directory: it has none of a broker's own files{hint}")
    check_free(f"{path}/{checkpoints.LOCK}")
    pending = Journal.read(path)
    check_file(path)
    # The worst faults come first: they stop a broker even if it has other directories.
    for fault in sorted(start_faults(path, beside), key=lambda fault: fault.takes_offline):
        # Recovery does not need the quorum's files. The forecast reports that they keep a broker from starting.
        if fault.code != "quorum-damaged":
            raise fault.error()
    root = RootWriter(path, pending, broker_config=broker_config, metadata=metadata)
    known = {topic for topic, _ in (*root.partitions, *root.leftovers.values())}
    chosen_topics(topics, known, inactive_in(path))
    for name in storage.list_subdirectories(path):
        if not file_names.is_utf8(name):
            note(f"{path}/{name} is ignored: the name is not UTF-8, and a broker does not see it")
    _check_partitions(root)
    return root


def _check_partitions(root: RootWriter) -> None:
    """Raise the first fault in the names and the small files of the partitions' directories."""
    for name in (*root.partitions.values(), *root.leftovers):
        # The metadata of a new cluster may name a partition whose directory does not exist yet.
        for fault in partition_faults(f"{root.path}/{name}") if storage.exists(f"{root.path}/{name}") else ():
            raise fault.error()
    for name, topic in root.deleted.items():
        _check_deleted(root, name, topic)


def _check_deleted(root: RootWriter, name: str, topic: str) -> None:
    """Refuse a `-delete` directory that keeps a broker from starting. Do not recover it, because nothing reads it."""
    try:
        for fault in partition_faults(f"{root.path}/{name}"):
            raise fault.error()
        with contextlib.suppress(UnsupportedFormatError):
            _loaded(root, name, _config(root, topic), 0, None)
    except CorruptRecordError as error:
        why = str(error.args[0])
        effect = "" if why.startswith("a broker ") else "a broker does not start: "
        error.args = (f"{effect}{why}. A broker was about to delete the directory {name}: remove it",)
        raise


def _config(root: RootWriter, topic: str) -> TopicConfig:
    """Return a topic's settings. A broker loads the topic's logs only if all settings are valid (LogConfig)."""
    try:
        return root.config_of(topic)
    except ValueError as error:
        cure = "without the metadata log of another controller, `brokerless rescue` makes a new cluster"
        fault = Fault("metadata-damaged", f"{root.path}/{METADATA}", f"topic {topic}: {error}", cure)
        raise fault.error() from error


def _absent(root: RootWriter) -> set[tuple[str, int]]:
    """Return the partitions that only the metadata name, because of a crash while their topic was created."""
    return {key for key, name in root.partitions.items() if not storage.exists(f"{root.path}/{name}")}


def _name(key: tuple[str, int]) -> str:
    return f"{key[0]}-{key[1]}"


def _chosen(keys: list[tuple[str, int]], topics: Collection[str]) -> list[tuple[str, int]]:
    return [key for key in keys if not topics or is_chosen(key[0], topics)]
