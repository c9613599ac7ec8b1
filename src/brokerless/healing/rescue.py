"""`rescue`: log directories that a new KRaft cluster starts on, from whatever disks of an old one are left.

1. The newest metadata on any disk say which topics there are, with their settings, and everything else that the
   controllers knew (`surviving_metadata`). Without metadata, the directories' names and `partition.metadata` do.
2. For each partition the best replica is chosen (`found_topics`): one in sync, then by the leader epoch of its last
   batch, then by its end. What is damaged or missing in it comes from the others (`salvage`).
3. Each node gets a directory with its partitions, and the metadata as the file that a new cluster starts with
   (`new_cluster`): the first controller loads it, and brokers find their partitions in place.

Everything is built under a name that a broker would delete, checked, and published by one rename.
"""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import asdict, dataclass, field
from dataclasses import replace as with_fields
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from brokerless import _native
from brokerless.arguments import check_several, listed_few, to_ms, unknown
from brokerless.checking.check import DirectoriesToCheck, check, check_directories
from brokerless.errors import BrokerlessError, CorruptRecordError, LogInUseError
from brokerless.healing.damaged_range import DamagedRange
from brokerless.healing.found_topics import (
    damaged_checkpoints,
    find_topics,
    last_epoch,
    node_ids,
    open_disks,
    ranked,
    same_cluster,
)
from brokerless.healing.lost_directory import lost_directory, lost_files
from brokerless.healing.new_cluster import NewCluster, NewPartition
from brokerless.healing.partition_files import write_partition
from brokerless.healing.producer_ids import in_snapshots, of_headers, of_transactional_ids
from brokerless.healing.repair import _sizes as file_sizes
from brokerless.healing.salvage import known_start, salvage
from brokerless.healing.surviving_metadata import surviving_metadata
from brokerless.io import disk, storage
from brokerless.io.clock import now_ms
from brokerless.io.runner import Threads
from brokerless.layout import checkpoints, file_names, lost_offsets
from brokerless.layout.log_dir_files import LogDirFiles
from brokerless.layout.release import Release
from brokerless.layout.topic_config import TopicConfig
from brokerless.log.log import Log
from brokerless.log_dir.copying import StagedCopy
from brokerless.metadata.directory import formatted_snapshot
from brokerless.metadata.voters import Voter, parse_voters, voters_snapshot
from brokerless.notes import collected
from brokerless.recovery.loader import load
from brokerless.rewriting.convert import Convert
from brokerless.rewriting.run import rewrite, rewrite_each
from brokerless.rewriting.truncate_to import TruncateTo
from brokerless.state.internal_topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from brokerless.wording import option

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from brokerless.arguments import Time
    from brokerless.checking.finding import Finding
    from brokerless.healing.found_topics import FoundTopic, Replica
    from brokerless.healing.salvage import Salvage
    from brokerless.rewriting.truncate_to import EndedTransaction

_Place = tuple[str, int]


class MissingPartition(NamedTuple):
    """A partition of the cluster that is not, or not surely, on the disks as a whole.

    Attributes:
        topic: the topic.
        partition: the partition.
        reason: what is missing, and how that is known.
        is_gone: whether no disk has any of it that can be used: it starts empty.
    """

    topic: str
    partition: int
    reason: str
    is_gone: bool


@dataclass
class Rescue:
    """What a rescue did, or what it would do.

    Attributes:
        to: the directory of the result.
        nodes: the log directory of each node.
        cluster_id: the id of the new cluster.
        metadata: where the metadata come from; None: there are none, and topics are known by their directories only.
        topics: how many partitions each topic has.
        chosen: the directory that each partition's records come from, by the partition's name.
        ranges: the damaged ranges of offsets, and what became of them.
        missing: the partitions that are not, or not surely, whole.
        doubts: what else may be lost, and what is not known, a sentence each: transactions that may have been
            committed, changes of the metadata, logs that cannot be checked.
        notes: what else is not as it was, a sentence each.
        ended: for each partition, by its name, the transactions that were open at the moment of a cut.
        left: the findings that are still true of the result.
        lost_path: the directory with the report; None for a dry run.
    """

    to: str
    nodes: dict[int, str] = field(default_factory=dict)
    cluster_id: str = ""
    metadata: str | None = None
    topics: dict[str, int] = field(default_factory=dict)
    chosen: dict[str, str] = field(default_factory=dict)
    ranges: list[DamagedRange] = field(default_factory=list)
    missing: list[MissingPartition] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    ended: dict[str, list[EndedTransaction]] = field(default_factory=dict)
    left: list[Finding] = field(default_factory=list)
    lost_path: str | None = None

    @property
    def lost(self) -> list[DamagedRange]:
        """The ranges of offsets that are lost."""
        return [one for one in self.ranges if one.state == "lost"]

    @property
    def is_whole(self) -> bool:
        """Whether nothing is lost, nothing is in doubt, and no error or warning is left."""
        return not (self.lost or self.missing or self.doubts or self.left)

    def to_dict(self) -> dict[str, object]:
        """Return it as a dict for JSON."""
        return {
            "to": self.to,
            "nodes": self.nodes,
            "cluster_id": self.cluster_id,
            "metadata": self.metadata,
            "topics": self.topics,
            "chosen": self.chosen,
            "ranges": [one.to_dict() for one in self.ranges],
            "missing": [one._asdict() for one in self.missing],
            "doubts": self.doubts,
            "notes": self.notes,
            "ended": {name: [asdict(one) for one in of_it] for name, of_it in self.ended.items() if of_it},
            "left": [one.to_dict() for one in self.left],
            "lost_path": self.lost_path,
        }


def rescue(
    *disks: str | os.PathLike[str],
    to: str | os.PathLike[str] | None = None,
    nodes: Sequence[int] | None = None,
    voters: str | None = None,
    cluster_id: str | None = None,
    release: str | None = None,
    topics: Iterable[str] | None = None,
    rename: Mapping[str, str] | None = None,
    until: Time | None = None,
    convert: bool = False,
    lost_path: str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> Rescue:
    """Make log directories that a new KRaft cluster starts on, from any disks of an old cluster.

    The disks are only read. Topics keep their ids, settings and records; consumer groups and transactions go on, for
    their topics are kept, too. Access rights, quotas, users, tokens and features stay as the newest surviving metadata
    have them.

    Args:
        disks: log directories of any brokers and controllers of one cluster, also with ZooKeeper.
        to: the new directory: of the node, or with a directory `node-<id>` for each of several; None: with `dry_run`.
        nodes: the ids of the nodes that there will be; None: one, with the lowest id of a node on the disks.
        voters: the controllers among the nodes, as "1@host1:9093,2@host2:9093": the metadata log names them (KIP-853).
            None: the configuration of the nodes does, in `controller.quorum.voters`.
        cluster_id: the id of the new cluster; None: the old one. Give another id to a copy that may meet the old one.
        release: the release of Kafka whose features the cluster starts with; None: as before. Clusters with ZooKeeper,
            and metadata of releases before 3.7, have no level that can be kept: then 4.0. With a release, metadata
            records that are not understood are left out.
        topics: only these topics; None: all. Groups and open transactions go on only if `__consumer_offsets` and
            `__transaction_state` are among them.
        rename: new names of topics. They get new ids, and groups start anew on them.
        until: cut the records as they were at this time, each transaction as a whole or not at all.
        convert: write messages of formats 0 and 1, of brokers before 0.11, in format 2.
        lost_path: the new directory for the report; by default the name of the result with ".lost" behind it, and
            a number if that exists.
        dry_run: change nothing, and return what would be done.
        progress: called with the bytes that were checked, and with those that were written, from any thread.

    Raises:
        FileExistsError: `to` or `lost_path` exists.
        FileNotFoundError: a disk, or the parent of `to`, does not exist.
        LogInUseError: a broker, or another writer, has a disk open, or changed it meanwhile.
        UnsupportedFormatError: the metadata have records of a newer release, and `release` is not given.
        ValueError: the disks are of several clusters, a topic has several ids, or the arguments contradict each other.

    >>> import brokerless as bl
    >>> found = bl.rescue(SAMPLE_DIR, dry_run=True)
    >>> found.lost, list(found.nodes)
    ([], [1])
    """
    if (to is None) != dry_run:
        raise ValueError(f"give a directory for the result ({option('to')}), or {option('dry_run')}")
    if not disks:
        raise ValueError("give at least one disk")
    check_several("topics", topics)
    target = os.path.abspath(os.fspath(to if to is not None else f"{os.fspath(disks[0])}-rescued"))
    report_to = ""
    if not dry_run:
        _check_free(target)
        report_to = lost_directory(target, lost_path)
        if report_to == target:
            raise ValueError(f"the report needs a place of its own, not {target}")
    wanted = None if topics is None else set(topics)
    with collected():
        job = _Job(
            [os.fspath(one) for one in disks],
            target,
            nodes=nodes,
            voters={} if voters is None else parse_voters(voters),
            cluster_id=cluster_id,
            release=None if release is None else Release.parse(release),
            topics=wanted,
            rename=dict(rename or {}),
            until=None if until is None else to_ms("until", until),
            convert=convert,
            progress=progress,
        )
        if not dry_run:
            job.write(report_to)
        elif until is None:
            job.result.left = list(_hanging([os.fspath(one) for one in disks], job.result.topics))
        else:
            job.result.notes.append(
                "transactions that are open at that moment will be committed, aborted or left out, each as a whole; a "
                "dry run does not tell which"
            )
    return job.result


def _hanging(disks: Sequence[str], topics: Container[str]) -> Iterator[Finding]:
    """Yield the transactions that no coordinator will end."""
    with contextlib.suppress(BrokerlessError, OSError, ValueError):
        for one in check_directories(DirectoriesToCheck(tuple(disks))):
            if one.code == "transaction-hanging" and one.topic in topics:
                yield one


def _check_free(target: str) -> None:
    """Refuse a place that is taken before hours of work."""
    disk.check_local(target)
    if storage.exists(target):
        raise FileExistsError(errno.EEXIST, "exists: the result needs a new path", target)
    parent = os.path.dirname(target)
    if not storage.is_directory(parent):
        raise FileNotFoundError(errno.ENOENT, "the parent directory does not exist: create it first", parent)


class _Kept(NamedTuple):
    """What is kept of a partition.

    Attributes:
        replica: the best replica that can be used.
        salvage: what can be kept of it.
        epoch: the leader epoch of its last batch.
    """

    replica: Replica
    salvage: Salvage
    epoch: int


@dataclass
class _Partition:
    """A partition of the new cluster: its topic as it was, its nodes, and what is kept of it, if anything.

    Attributes:
        topic: its topic.
        number: its number.
        replicas: its nodes.
        log_start_offset: the highest start in a checkpoint of any replica: records below it are deleted.
        kept: what is kept of it; None: nothing is.
        unread: the replicas that cannot be read, and why, a sentence each.
        hidden: the replicas that had more than is kept, a sentence each.
        live: the nodes of the replicas that can be read up to their end.
        doubts: what is not known, a sentence each.
    """

    topic: FoundTopic
    number: int
    replicas: list[int]
    log_start_offset: int = 0
    kept: _Kept | None = None
    unread: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    live: set[int | None] = field(default_factory=set)
    doubts: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.topic.name}-{self.number}"

    @property
    def known(self) -> dict[str, Any]:
        return self.topic.partitions.get(self.number, {})


def _sizes_on(roots: Iterable[LogDirFiles]) -> dict[str, dict[str, tuple[int, int]]]:
    """Return the size and the time of each file on some disks, by their paths; nothing of one that cannot be listed."""
    found = {}
    for root in roots:
        with contextlib.suppress(OSError):
            found[root.path] = file_sizes(root.path)
    return found


def _check_readable(log: Log) -> None:
    """Open each segment.

    Raises:
        OSError: one cannot be opened, or read.
    """
    for segment in log.segments:
        with segment.open() as file:
            file.read(0, 1)


def _hidden(log: Log, kept: Log | None, end: int) -> str:
    """Return what tells that a replica had records behind those that are kept; "": nothing does.

    Args:
        log: the replica.
        kept: the log that is taken; None: it is this one.
        end: the offset after the last record that is kept.
    """
    expected = log.files.expected_end
    if expected is not None and expected.offset > end:
        return f"{log.path} went on to offset {expected.offset} ({', '.join(expected.sources)}), and not all is there"
    damaged = log.files.damage_at_end
    if kept is None or damaged is None:
        return ""
    # A log that a broker closed says where it ended: below that, nothing is hidden.
    known_end = log.recovery_point if log.root.is_clean else None
    if known_end is not None and known_end <= end:
        return ""
    # After a crash, damage may be the torn end of what others have as a whole. It was more if the file is longer.
    mine, other = log.segments[-1], kept.segments[-1] if kept.segments else None
    is_torn = not log.root.is_clean and other is not None and mine.base_offset <= other.base_offset
    if is_torn and other is not None and (mine.base_offset < other.base_offset or mine.size <= other.size):
        return ""
    return f"{log.path} is damaged from offset {damaged.start_offset} on, and where it ended is not known"


def _lost_before(found: Salvage) -> list[DamagedRange]:
    """Return what an earlier repair lost of a log, and no other replica has either."""
    log = found.log
    known: list[tuple[int, int]] = []
    with contextlib.suppress(CorruptRecordError, OSError):
        known = lost_offsets.recorded(log.path)
    now = [(one.start_offset, one.end_offset) for one in found.ranges]
    start_of_log = log.local_log_start_offset
    return [
        DamagedRange(
            topic=log.topic,
            partition=log.partition,
            state="lost",
            start_offset=max(start, start_of_log),
            end_offset=end,
            code="offset-gap",
            message="lost before: an earlier repair recorded it",
            path=f"{log.path}/{lost_offsets.FILE}",
        )
        for start, end in lost_offsets.without(known, [(low, high) for low, high in now if high is not None])
        if end > start_of_log
    ]


class _Job:
    """A rescue: its plan, and how it is carried out."""

    def __init__(
        self,
        disks: list[str],
        to: str,
        *,
        nodes: Sequence[int] | None,
        voters: dict[int, tuple[str, int]],
        cluster_id: str | None,
        release: Release | None,
        topics: set[str] | None,
        rename: dict[str, str],
        until: int | None,
        convert: bool,
        progress: Callable[[int], None],
    ) -> None:
        self._progress = progress
        self._rename, self._until, self._converts, self._voters = rename, until, convert, voters
        self._new_ids: dict[str, str] = {}
        self._directory_ids: dict[int, str] = {}
        self._highest = -1
        self._old_formats: set[str] = set()
        roots = open_disks(disks)
        self._roots, self._sizes = roots, _sizes_on(roots)
        result = self.result = Rescue(to)
        result.doubts += damaged_checkpoints(roots)
        old_id = same_cluster(roots)
        result.cluster_id = cluster_id or old_id or checkpoints.random_id()
        known_nodes = list(node_ids(roots))
        self._nodes = sorted(nodes if nodes is not None else known_nodes[:1] or [1])
        if len(set(self._nodes)) < len(self._nodes) or not all(0 <= node < 1 << 31 for node in self._nodes):
            raise ValueError(f"not nodes: {self._nodes}; different numbers from 0 on expected")
        if not voters.keys() <= set(self._nodes):
            raise ValueError(f"voters {sorted(voters)} are not among the nodes {self._nodes}")
        result.nodes = {node: self._directory(to, node) for node in self._nodes}
        if old_id is None and cluster_id is None:
            result.notes.append("no disk tells the cluster's id: the cluster gets a new one")
        elif result.cluster_id == old_id:
            result.notes.append(
                f"the cluster keeps its id, {old_id}: the old nodes must be down before its nodes start, and stay down"
            )
        metadata = surviving_metadata(roots, result.doubts)
        if metadata is None:
            result.notes.append(
                "no disk has the cluster's metadata: topics are known by their directories only. Their settings, "
                "access rights, quotas and users are lost. So that nothing is deleted, all get retention.ms=-1"
            )
        else:
            result.metadata = metadata.path
            result.doubts += metadata.doubts
            result.notes += metadata.notes
        self._cluster = NewCluster(
            self._nodes, metadata, release=release, is_fork=result.cluster_id != old_id, rename=rename
        )
        image = None if metadata is None else metadata.image
        self._topics, others = find_topics(roots, image, topics, result.notes)
        self._check_names()
        self._note_fork(others)
        self._cluster.find_tiered(self._topics.values(), {*self._topics, *others})
        self._partitions = list(self._plan())
        with Threads() as threads:
            list(threads.map(self._examine, self._partitions))
        # By disk and node: the partitions that have batches of its, although the metadata do not name it.
        self._unassigned: dict[tuple[str, int], list[str]] = {}
        for one in self._partitions:
            self._report(one)
        for (path, node), names in self._unassigned.items():
            result.notes.append(
                f"batches come from {path}, of node {node}, for {listed_few(names)}: the metadata name other nodes"
            )
        result.notes += self._cluster.finish_notes()

    def _directory(self, to: str, node: int) -> str:
        return to if len(self._nodes) == 1 else f"{to}/node-{node}"

    def _check_names(self) -> None:
        """Refuse new names that topics cannot have."""
        rename = self._rename
        staying = self._topics.keys() - rename.keys()
        file_names.check_topic_names(rename.values(), present=staying)
        for topic, name in rename.items():
            if topic not in self._topics:
                raise unknown("topic", topic, self._topics)
            if name in staying or list(rename.values()).count(name) > 1:
                raise ValueError(f"topic {topic!r} cannot be renamed to {name!r}: there is one of that name")

    def _note_fork(self, others: set[str]) -> None:
        """Note what a copy of some topics lacks, or one under other names."""
        notes = self.result.notes
        if OFFSETS_TOPIC in others:
            notes.append(f"groups start anew: {OFFSETS_TOPIC} is not among the topics")
        elif self._rename and OFFSETS_TOPIC in self._topics:
            notes.append(f"groups start anew on {', '.join(self._rename.values())}: they know the old names")
        if self._until is None and (TRANSACTIONS_TOPIC in others or self._rename):
            which = "" if TRANSACTIONS_TOPIC in others else f" of {', '.join(self._rename.values())}"
            notes.append(
                f"open transactions{which} stay open, for no coordinator knows them: read_committed consumers stop "
                f"there. A cut ({option('until')}) aborts them"
            )

    def _plan(self) -> Iterator[_Partition]:
        for turn, topic in enumerate(self._topics.values()):
            self.result.topics[self._rename.get(topic.name, topic.name)] = topic.count
            for number in range(topic.count):
                yield _Partition(topic, number, self._cluster.nodes_of(topic, number, turn + number))

    def _examine(self, one: _Partition) -> None:
        """Find what can be kept of a partition: of the best replica that can be used, with the help of the others."""
        replicas = []
        config = self._cluster.config_of(one.topic)
        for replica in ranked(one.topic.replicas.get(one.number, ()), one.known):
            try:
                _check_readable(replica.log)
                replicas.append(replica)
            except (OSError, BrokerlessError) as error:
                one.unread.append(f"{replica.log.path} cannot be read: {error}")
        has_id = any(replica.topic_id is not None for replica in replicas)
        one.log_start_offset = max(
            (
                known_start(replica.log) or 0
                for replica in replicas
                if replica.state != "stray" and (replica.topic_id is not None or not has_id)
            ),
            default=0,
        )
        passed: list[_Kept] = []
        for replica in replicas:
            # What does not tell its topic's id may be of an older topic.
            others = [
                other.log
                for other in replicas
                if other is not replica and (other.topic_id is not None or replica.topic_id is None)
            ]
            try:
                found = self._salvage(one, replica, others, config)
                kept = _Kept(replica, found, last_epoch(replica.log, one.known.get("leader_epoch")))
            except (OSError, BrokerlessError) as error:
                one.unread.append(f"{replica.log.path} cannot be read: {error}")
                continue
            if not found.unusable:
                one.kept = kept
                break
            passed.append(kept)
        why = "; ".join(f"{kept.salvage.log.path}: {kept.salvage.unusable}" for kept in passed)
        if one.kept is None and passed:
            one.kept = passed[0]
            one.doubts.append(f"{one.name} is copied as it is, and may be damaged: {why}")
        elif one.kept is not None and passed:
            one.doubts.append(
                f"{one.name} comes from {one.kept.replica.log.path}, up to offset {one.kept.salvage.end_offset}. A "
                f"replica that goes further, or is of a later leader, cannot be used: {why}"
            )
        if one.kept is not None:
            self._compare(one, one.kept, replicas)

    def _salvage(self, one: _Partition, replica: Replica, others: list[Log], config: TopicConfig) -> Salvage:
        """Find what can be kept of a replica, without the help of those that cannot be read."""
        log = replica.log
        known = None if replica.state == "stray" else known_start(log)
        first = log.segments[0].base_offset if log.segments else 0
        # Of no entry in a checkpoint, the first segment tells the start.
        start = known if one.log_start_offset <= max(known or 0, first) else one.log_start_offset
        if self._cluster.loses_remote(one.topic):
            config = with_fields(config, remote_storage_enable=None)
        find = partial(salvage, log, config=config, log_start_offset=start, progress=self._progress)
        try:
            return find(others)
        except (OSError, BrokerlessError):
            if not others:
                raise
        # Which one cannot be read is not known.
        find()
        readable = []
        for other in others:
            try:
                find([other])
                readable.append(other)
            except (OSError, BrokerlessError) as error:
                one.unread.append(f"{other.path} cannot be read: {error}")
        return find(readable)

    def _compare(self, one: _Partition, kept: _Kept, replicas: Iterable[Replica]) -> None:
        """Find the replicas that had more than is kept, as far as their files tell, and those that are whole."""
        end = kept.salvage.end_offset
        if kept.replica.topic_id is None and one.topic.has_id:
            one.doubts.append(
                f"{one.name} comes from {kept.replica.log.path}, which does not tell its topic's id: it may be of an "
                "older topic of that name"
            )
        for replica in replicas:
            is_kept = replica is kept.replica
            if replica.topic_id is None and kept.replica.topic_id is not None:
                continue
            is_said = is_kept and any(
                of_end.end_offset is None or of_end.end_offset >= end for of_end in kept.salvage.lost
            )
            hidden = ""
            if not is_said:
                try:
                    hidden = _hidden(replica.log, None if is_kept else kept.salvage.log, end)
                except (OSError, BrokerlessError) as error:
                    one.unread.append(f"{replica.log.path} cannot be read: {error}")
                    continue
            if hidden:
                one.hidden.append(hidden)
            elif not replica.state:
                one.live.add(replica.node_id)

    def _report(self, one: _Partition) -> None:
        """Add a partition to the report: its source, its damaged ranges and its missing records."""
        result = self.result
        if one.kept is None:
            why, is_gone = "no disk has it: it starts empty at offset 0", True
            if one.unread:
                why = (
                    f"it starts empty at offset 0, for no replica can be used: {'; '.join(one.unread)}. A file that "
                    "is no .log may be moved away: then the records can be read"
                )
            elif deleted := self._to_be_deleted(one):
                why += f". A broker was to delete {', '.join(deleted)}: renamed to {one.name}, it is a replica again"
            result.missing.append(MissingPartition(one.topic.name, one.number, why, is_gone))
            return
        found, replica = one.kept.salvage, one.kept.replica
        result.chosen[one.name] = found.log.path
        result.ranges += found.ranges
        result.ranges += _lost_before(found)
        unread = [f"a replica of {one.name} is not used: {why}" for why in one.unread]
        result.doubts += [*one.doubts, *unread, *(f"{one.name}: {doubt}" for doubt in found.doubts)]
        if replica.state == "future":
            result.notes.append(f"{one.name} comes from {found.log.path}: a replica that was moved to another disk")
        self._note_sources(one, one.kept)
        result.missing += [MissingPartition(one.topic.name, one.number, why, False) for why in one.hidden]
        live = one.live
        in_sync, leader = set(one.known.get("isr") or one.known.get("elr") or ()), one.known.get("leader", -1)
        reason = ""
        if in_sync and not in_sync & live:
            reason = (
                f"none of the disks has a whole replica that was in sync ({sorted(in_sync)}): records that were "
                f"committed may be missing behind offset {found.end_offset}"
            )
        elif leader >= 0 and leader not in live:
            reason = (
                f"no disk has the whole replica of its leader, node {leader}: what was not replicated yet is missing "
                f"behind offset {found.end_offset}"
            )
        if reason:
            result.missing.append(MissingPartition(one.topic.name, one.number, reason, False))

    def _to_be_deleted(self, one: _Partition) -> list[str]:
        """Return the directories of a partition that a broker has renamed, and not deleted yet."""
        found = []
        for root in self._roots:
            for name in storage.list_subdirectories(root.path):
                with contextlib.suppress(ValueError):
                    parsed = file_names.parse_directory_name(name)
                    if parsed == file_names.DirectoryName(one.topic.name, one.number, "delete"):
                        found.append(f"{root.path}/{name}")
        return found

    def _note_sources(self, one: _Partition, kept: _Kept) -> None:
        """Note which replicas are used although the metadata do not name them, and which are not used."""
        notes = self.result.notes
        used = {kept.salvage.log.path, *(of_range.source for of_range in kept.salvage.ranges)}
        assigned: Sequence[int] = one.known.get("replicas", ())
        for other in one.topic.replicas[one.number] if assigned else ():
            if other.log.path in used and other.node_id is not None and other.node_id not in assigned:
                self._unassigned.setdefault((other.log.root.path, other.node_id), []).append(one.name)
        if kept.replica.topic_id is not None:
            without_id = [other.log.path for other in one.topic.replicas[one.number] if other.topic_id is None]
            if without_id:
                notes.append(
                    f"not used: {listed_few(without_id)}: what does not tell its topic's id may be of an older topic"
                )

    def write(self, report_to: str) -> None:
        """Write the directories, check them, and publish them."""
        result = self.result
        with StagedCopy(result.to, is_partition=False) as copy:
            # Known from the start: to assign one later empties the list of eligible leader replicas (KIP-966).
            self._directory_ids = {node: checkpoints.random_id() for node in self._nodes}
            for node in self._nodes:
                directory = self._directory(copy.path, node)
                if directory != copy.path:
                    disk.make_directory(directory)
                self._write_partitions(copy, node, directory)
            if self._until is not None:
                self._cut(self._until, copy.path)
            for node in self._nodes if self._converts else ():
                self._convert(node, self._directory(copy.path, node))
            self._highest = max(self._highest, in_snapshots(self._logs()))
            for node in self._nodes:
                self._write_root(node, self._directory(copy.path, node))
            if self._old_formats and not self._converts:
                self._note(
                    f"messages of formats 0 and 1, of brokers before 0.11, are kept in {', '.join(self._old_formats)}: "
                    f"{option('convert')} makes records of today's format of them"
                )
            for note in self._cluster.finish_notes():
                self._note(note)
            result.left = [
                with_fields(
                    one,
                    path=one.path.replace(copy.path, result.to, 1),
                    message=one.message.replace(copy.path, result.to),
                )
                for node in self._nodes
                for one in check(self._directory(copy.path, node))
                if one.severity != "note"
            ]
            self._check_unchanged()
            result.lost_path = report_to
            with lost_files(report_to, result.to_dict(), copy.path):
                copy.publish()

    def _check_unchanged(self) -> None:
        now = _sizes_on(self._roots)
        for path, before in self._sizes.items():
            if now.get(path) != before:
                raise LogInUseError(f"changed meanwhile: {path}; stop what writes there, and start again")

    def _logs(self) -> Iterator[Log]:
        """Yield all replicas of the topics, also those that are not taken: their producers may be back."""
        for topic in self._topics.values():
            yield from topic.logs

    def _write_partitions(self, copy: StagedCopy, node: int, directory: str) -> None:
        """Write the partitions of a node, and the checkpoints."""
        points: dict[_Place, int] = {}
        starts: dict[_Place, int] = {}
        dirty: dict[_Place, int] = {}
        for one in self._partitions:
            if node not in one.replicas:
                continue
            name = self._rename.get(one.topic.name, one.topic.name)
            to = f"{directory}/{name}-{one.number}"
            if one.kept is None:
                disk.make_directory(to)
            else:
                place = name, one.number
                with copy.name_in_errors(one.kept.replica.log.path, to):
                    start, first, end = self._write_partition(copy, one, one.kept, to)
                points[place] = end
                # An entry also says that a log is not tiered although its epochs begin below its first segment.
                if start != first or one.kept.salvage.log_start_offset:
                    starts[place] = start
                replica = one.kept.replica
                known = replica.checkpointed(replica.log.root.first_dirty_offsets)
                if known is not None:
                    dirty[place] = min(known, end)
                self._look_at(to, one.topic.name)
            content = checkpoints.format_partition_metadata(self._id_of(one.topic))
            disk.atomic_write(f"{to}/{checkpoints.PARTITION_METADATA}", content)
        for file, offsets in (
            (checkpoints.RECOVERY_POINTS, points),
            (checkpoints.LOG_START_OFFSETS, starts),
            (checkpoints.HIGH_WATERMARKS, points),
            (checkpoints.FIRST_DIRTY_OFFSETS, dirty),
        ):
            if offsets or file != checkpoints.FIRST_DIRTY_OFFSETS:
                disk.atomic_write(f"{directory}/{file}", checkpoints.format_offset_checkpoint(offsets))

    def _write_partition(self, copy: StagedCopy, one: _Partition, kept: _Kept, to: str) -> tuple[int, int, int]:
        """Write a partition's directory. Return its log start offset, its first base offset, and its end."""
        log, found, root = kept.replica.log, kept.salvage, kept.replica.log.root
        start = found.log_start_offset
        config = self._cluster.config_of(one.topic)
        loses_remote = self._cluster.loses_remote(one.topic)
        if found.segments and not found.unusable:
            if loses_remote:
                start = max(start or 0, next(iter(found.segments)))
            loaded = write_partition(
                found,
                to,
                config=config,
                topic_id=self._id_of(one.topic),
                log_start_offset=start,
                high_watermark=None,
                first_dirty_offset=kept.replica.checkpointed(root.first_dirty_offsets),
                progress=self._progress,
            )
            return loaded.log_start_offset, loaded.base_offsets[0], loaded.log_end_offset
        for name in copy.add_partition(log.path, to, self._progress, is_fatal=file_names.is_fatal):
            self._note(f"not copied: {log.path}/{name}: a broker stops at that name")
        first, end = log.segments[0].base_offset if log.segments else log.log_start_offset, log.log_end_offset
        # Leader epochs of what was only in remote storage go, and records that another replica has deleted.
        new_start = max(first if loses_remote else log.log_start_offset, start or 0)
        if log.log_start_offset < new_start:
            loaded = load(to, config, is_clean=True, recovery_point=end, log_start_offset=new_start, now=now_ms())
            loaded.changes.apply()
            return loaded.log_start_offset, loaded.base_offsets[0], loaded.log_end_offset
        return log.log_start_offset, first, end

    def _look_at(self, directory: str, topic: str) -> None:
        """Take what a new partition's batches tell of producers and formats."""
        log = Log(directory)
        found = of_headers(log)
        self._highest = max(self._highest, found.producer_id)
        if found.magic < 2:
            self._old_formats.add(self._rename.get(topic, topic))
        if topic == TRANSACTIONS_TOPIC:
            self._highest = max(self._highest, of_transactional_ids(log))

    def _id_of(self, topic: FoundTopic) -> str:
        """Return the id of a topic: with a new name a new one, the same on all nodes."""
        name = self._rename.get(topic.name, topic.name)
        return topic.topic_id if name == topic.name else self._new_ids.setdefault(name, checkpoints.random_id())

    def _cut(self, until: int, to: str) -> None:
        """Cut the records of all nodes at a moment, so that each transaction is whole or absent.

        Kafka's own topics are cut, too: groups go on as they did then. Before the metadata are written, no other node
        is known that could have replicas.
        """
        nodes = [node for node in self._nodes if self._topics_of(node)]
        if not nodes:
            return
        ended: dict[bool, set[int]] = {True: set(), False: set()}
        for done in rewrite_each(
            TruncateTo(timestamp=until, sole_replica=True),
            [self._directory(to, node) for node in nodes],
            topics=sorted({topic for node in nodes for topic in self._topics_of(node)}),
        ):
            # The replicas of a partition have the same.
            self.result.ended[done.name] = list(done.report.ended)
            for one in done.report.ended:
                ended[one.is_committed].add(one.producer_id)
            if done.report.whole_from is not None:
                self._note(
                    f"{done.name} is cut at offset {done.report.log_end_offset}, not at {done.report.whole_from}: "
                    "the COMMIT marker there is of a transaction of which other partitions lack a part at that moment"
                )
        if any(ended.values()) and TRANSACTIONS_TOPIC not in self._topics:
            self._note(
                f"{TRANSACTIONS_TOPIC} is not among the topics: only COMMIT and ABORT markers show what had been "
                "decided at that moment"
            )
        for is_committed, producers in ended.items():
            if producers:
                what = "committed, for that was" if is_committed else "aborted, for nothing was"
                several = "s" if len(producers) > 1 else ""
                self._note(
                    f"open at that moment, and now {what} decided by then: the last transaction{several} of "
                    f"producer{several} {listed_few(map(str, sorted(producers)))}"
                )

    def _topics_of(self, node: int) -> set[str]:
        """Return the new names of the topics of which a node has records."""
        return {
            self._rename.get(one.topic.name, one.topic.name)
            for one in self._partitions
            if one.kept is not None and node in one.replicas
        }

    def _convert(self, node: int, directory: str) -> None:
        """Convert the records of a node."""
        topics = self._topics_of(node)
        if not topics & self._old_formats:
            return
        for done in rewrite(Convert(magic=2, sole_replica=True), directory, topics=sorted(topics & self._old_formats)):
            # Older formats have no leader epochs, so there is no file of them either.
            root = LogDirFiles(directory)
            loaded = load(
                f"{directory}/{done.name}",
                TopicConfig(),
                is_clean=False,
                recovery_point=0,
                log_start_offset=root.log_start_offsets.get(done.key),
                now=now_ms(),
            )
            loaded.changes.apply()

    def _write_root(self, node: int, directory: str) -> None:
        """Write the metadata that the cluster starts with, the ids, and the mark of a clean shutdown."""
        content = _native.kraft_snapshot(list(self._records()), now_ms())
        disk.atomic_write(f"{directory}/{checkpoints.BOOTSTRAP}", content)
        if self._voters:
            every = [Voter(one, self._directory_ids[one], *place) for one, place in self._voters.items()]
            path = formatted_snapshot(directory)
            disk.make_directory(os.path.dirname(path))
            disk.atomic_write(path, voters_snapshot(every, now_ms()))
        meta = checkpoints.MetaProperties(1, self.result.cluster_id, node, self._directory_ids[node])
        disk.atomic_write(f"{directory}/{checkpoints.META_PROPERTIES}", checkpoints.format_meta_properties(meta))
        marker = checkpoints.format_clean_shutdown(checkpoints.NO_BROKER_EPOCH)
        disk.atomic_write(f"{directory}/{checkpoints.CLEAN_SHUTDOWN}", marker)
        disk.sync_directory(directory)

    def _records(self) -> Iterator[bytes]:
        """Yield the metadata records of the new cluster."""
        partitions: dict[str, list[NewPartition]] = {}
        for one in self._partitions:
            epoch = max(one.known.get("leader_epoch", 0), -1 if one.kept is None else one.kept.epoch)
            partitions.setdefault(one.topic.name, []).append(NewPartition(one.number, one.replicas, epoch))
        topics = (
            (self._topics[name], self._id_of(self._topics[name]), of_topic) for name, of_topic in partitions.items()
        )
        return self._cluster.records(topics, self._directory_ids, self._highest)

    def _note(self, note: str) -> None:
        if note not in self.result.notes:
            self.result.notes.append(note)
