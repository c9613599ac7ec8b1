"""`RescuePlan`: the nodes of a new cluster, and the source of each of their partitions."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from brokerless.arguments import listed_few, unknown
from brokerless.checking.directories import hanging
from brokerless.errors import BrokerlessError, CorruptRecordError
from brokerless.healing.abort_markers import open_at_end
from brokerless.healing.damaged_range import DamagedRange
from brokerless.healing.found_topics import (
    damaged_checkpoints,
    find_topics,
    node_ids,
    open_disks,
    same_cluster,
)
from brokerless.healing.log_repair import Step, known_start, salvage
from brokerless.healing.new_cluster import NewCluster, NewPartition
from brokerless.healing.replica_ranking import last_epoch, ranked
from brokerless.healing.report import MissingPartition, RescueReport
from brokerless.healing.surviving_metadata import surviving_metadata
from brokerless.io import storage
from brokerless.io.runner import Threads
from brokerless.layout import checkpoints, file_names, lost_offsets
from brokerless.layout.file_names import is_chosen
from brokerless.layout.log_dir_files import different_shutdowns
from brokerless.log_dir.copying import FilesAtRest
from brokerless.metadata.directory import first_snapshot, formatted_snapshot
from brokerless.notes import collected
from brokerless.remarks import Remark
from brokerless.state.internal_topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from brokerless.state.offset_commits import commits_of
from brokerless.state.transactions import current_transactions, open_in
from brokerless.wording import counted, option, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from brokerless.checking.finding import Finding
    from brokerless.healing.found_topics import FoundTopic
    from brokerless.healing.log_repair import LogRepair
    from brokerless.healing.replica_ranking import Replica
    from brokerless.healing.report import MissingCode
    from brokerless.io.runner import Progress
    from brokerless.layout.log_dir_files import LogDirFiles
    from brokerless.layout.release import Release
    from brokerless.layout.topic_config import TopicConfig
    from brokerless.log.log import Log


class KeptReplica(NamedTuple):
    """The replica that a partition is built from.

    Attributes:
        replica: the best usable replica.
        repair: the repair plan of its log.
        epoch: the leader epoch of its last batch.
    """

    replica: Replica
    repair: LogRepair
    epoch: int


@dataclass
class RescuedPartition:
    """A partition of the new cluster: its topic in the old cluster, its nodes, and the replica that it is built from.

    Attributes:
        topic: the topic in the old cluster.
        number: the partition number.
        replicas: the nodes of its replicas.
        log_start_offset: the highest log start offset in any replica's checkpoint. Records below it are deleted.
        kept: the replica that it is built from; None if nothing is kept.
        unread: the replicas that cannot be read, each with the reason.
        hidden: one sentence for each replica that had more records than are kept.
        live: the nodes of the replicas that can be read to the end.
        doubts: the uncertainties.
    """

    topic: FoundTopic
    number: int
    replicas: list[int]
    log_start_offset: int = 0
    kept: KeptReplica | None = None
    unread: list[Remark] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    live: set[int | None] = field(default_factory=set)
    doubts: list[Remark] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.topic.name}-{self.number}"

    @property
    def known(self) -> dict[str, Any]:
        return self.topic.partitions.get(self.number, {})

    def remark(self, code: str, message: str, path: str | None = None, names: Iterable[str] = ()) -> Remark:
        """Return a remark on the partition."""
        return Remark(code, message, topic=self.topic.name, partition=self.number, path=path, names=tuple(names))

    def unreadable(self, path: str, error: Exception) -> Remark:
        """Return the remark on a replica that cannot be read."""
        return self.remark("replica-unreadable", f"{path} cannot be read: {error}", path)

    def of_log(self, doubt: Remark) -> Remark:
        """Return a doubt about the log as a remark on the partition."""
        path = None if self.kept is None else self.kept.repair.log.path
        return doubt.of(f"{self.name}: ", topic=self.topic.name, partition=self.number, path=path)


def _check_readable(log: Log) -> None:
    """Open each segment.

    Raises:
        OSError: a segment cannot be opened or read.
    """
    for segment in log.segments:
        with segment.open() as file:
            file.read(0, 1)


def _hidden(log: Log, kept: Log | None, end: int) -> str:
    """Return the evidence that a replica had records after those that are kept; "" without any.

    Args:
        log: the replica.
        kept: the log that is used; None if it is this one.
        end: the offset after the last record that is kept.
    """
    expected = log.files.expected_end
    if expected is not None and expected.offset > end:
        return (
            f"{log.path} once reached offset {expected.offset} ({', '.join(expected.sources)}), so records are missing"
        )
    damaged = log.files.damage_at_end
    if kept is None or damaged is None:
        return ""
    # After a clean shutdown, the recovery point is the end of the log. Nothing is hidden if the kept records reach it.
    known_end = log.recovery_point if log.root.is_clean else None
    if known_end is not None and known_end <= end:
        return ""
    # After a crash, damage may be a torn end whose records the kept replica has. If the file is longer than the kept
    # one, it held more.
    mine, other = log.segments[-1], kept.segments[-1] if kept.segments else None
    is_torn = not log.root.is_clean and other is not None and mine.base_offset <= other.base_offset
    if is_torn and other is not None and (mine.base_offset < other.base_offset or mine.size <= other.size):
        return ""
    return f"{log.path} is damaged from offset {damaged.start_offset} on, and it is not known where the log ended"


def _lost_before(repair: LogRepair) -> list[DamagedRange]:
    """Return the ranges of a log that an earlier repair recorded as lost, and that no other replica has either."""
    log = repair.log
    known: list[tuple[int, int]] = []
    with contextlib.suppress(CorruptRecordError, OSError):
        known = lost_offsets.recorded(log.path)
    now = [(one.start_offset, one.end_offset) for one in repair.ranges]
    start_of_log = log.local_log_start_offset
    path, message = f"{log.path}/{lost_offsets.FILE}", "an earlier repair recorded these offsets as lost"
    return [
        DamagedRange.lost(log, "offset-gap", message, path, None, (max(start, start_of_log), end))
        for start, end in lost_offsets.without(known, [(low, high) for low, high in now if high is not None])
        if end > start_of_log
    ]


def _check_names(rename: Mapping[str, str], topics: Mapping[str, FoundTopic]) -> None:
    """Refuse invalid new names of topics."""
    staying = topics.keys() - rename.keys()
    file_names.check_topic_names(rename.values(), present=staying)
    for topic, name in rename.items():
        if topic not in topics:
            raise unknown("topic", topic, topics)
        if name in staying or list(rename.values()).count(name) > 1:
            raise ValueError(f"topic {topic!r} cannot be renamed to {name!r}: there is one of that name")


@dataclass(kw_only=True)
class RescuePlan:
    """The plan of a rescue. As text, the plan has one line per step.

    A step has the verb of `log_repair.Step`, or "cut" or "convert" for a partition that is first written, then changed.

    Attributes:
        report: the report of the planned rescue.
        roots: the disks.
        at_rest: the state of the files. The plan is valid only while no process changes them.
        nodes: the nodes of the new cluster.
        voters: the controllers among them that the metadata log names, each with its host and port.
        rename: new names of topics.
        until: the time at which the logs are cut, in ms since the epoch; None if nothing is cut.
        converts: whether messages of formats 0 and 1 are written in format 2.
        topics: the topics of the new cluster, by their old names.
        partitions: the partitions of these topics.
        cluster: the metadata of the new cluster.
        directory_ids: the id of each node's directory. The ids are assigned from the start, because a later assignment
            empties the list of eligible leader replicas (KIP-966).
        progress: see `rescue`.
    """

    report: RescueReport
    roots: Sequence[LogDirFiles]
    at_rest: FilesAtRest
    nodes: Sequence[int]
    voters: Mapping[int, tuple[str, int]]
    rename: Mapping[str, str]
    until: int | None
    converts: bool
    topics: Mapping[str, FoundTopic]
    partitions: Sequence[RescuedPartition]
    cluster: NewCluster
    directory_ids: Mapping[int, str]
    progress: Progress

    @classmethod
    def of(
        cls,
        disks: Sequence[str],
        to: str,
        *,
        nodes: Sequence[int] | None = None,
        voters: Mapping[int, tuple[str, int]] | None = None,
        cluster_id: str | None = None,
        release: Release | None = None,
        topics: set[str] | None = None,
        rename: Mapping[str, str] | None = None,
        until: int | None = None,
        converts: bool = False,
        progress: Progress = lambda _name, _size: None,
    ) -> RescuePlan:
        """Read the disks, and plan the new cluster. For the arguments see `rescue`."""
        roots, rename = open_disks(disks), dict(rename or {})
        at_rest = FilesAtRest(root.path for root in roots)
        result = RescueReport(output=to, doubts=damaged_checkpoints(roots))
        result.doubts += [
            Remark(
                "shutdowns-differ",
                f"{message}. One directory may be an older snapshot, and its partitions may lack records",
                path=path,
            )
            for path, message in different_shutdowns(roots)
        ]
        old_id = same_cluster(roots, cluster_id, result.notes)
        result.cluster_id = cluster_id or old_id or checkpoints.random_id()
        nodes = sorted(nodes if nodes is not None else list(node_ids(roots))[:1] or [1])
        if len(set(nodes)) < len(nodes) or not all(0 <= node < 1 << 31 for node in nodes):
            raise ValueError(f"the ids of nodes must be different, and 0 or more, not {nodes}")
        voters = voters or {}
        if not voters.keys() <= set(nodes):
            raise ValueError(f"voters {sorted(voters)} are not among the nodes {nodes}")
        result.nodes = {node: to if len(nodes) == 1 else f"{to}/node-{node}" for node in nodes}
        if old_id is None and cluster_id is None:
            result.notes.append(Remark("cluster-id-new", "no disk names the cluster's id: the cluster gets a new one"))
        elif result.cluster_id == old_id:
            said = (
                f"the cluster keeps its id, {old_id}, so the old nodes must be down before the new nodes start, and "
                "must stay down"
            )
            result.notes.append(Remark("cluster-id-kept", said))
        metadata = surviving_metadata(roots, result.doubts)
        if metadata is None:
            said = (
                "no disk has the cluster's metadata, so only the partitions' directories show which topics exist. The "
                "settings of topics, access rights, quotas and users are lost. All topics get retention.ms=-1, so "
                "that brokers do not delete their records"
            )
            result.doubts.append(Remark("metadata-missing", said))
        else:
            result.metadata = metadata.path
            result.notes += [
                Remark(
                    "node-id-missing",
                    f"{root.path}/{checkpoints.META_PROPERTIES} has no node id, so it is not known whether the "
                    "replicas in this directory were in sync, and whether a controller wrote it",
                    path=f"{root.path}/{checkpoints.META_PROPERTIES}",
                )
                for root in roots
                if root.node_id is None
            ]
            result.doubts += metadata.doubts
            result.notes += metadata.notes
        cluster = NewCluster(
            nodes,
            metadata,
            release=release,
            is_fork=result.cluster_id != old_id,
            names_voters=bool(voters),
            rename=rename,
        )
        image = None if metadata is None else metadata.image
        found, others = find_topics(roots, image, topics, result.notes, result.doubts)
        _check_names(rename, found)
        cluster.find_tiered(found.values(), {*found, *others})
        partitions = []
        for turn, topic in enumerate(found.values()):
            result.topics[rename.get(topic.name, topic.name)] = topic.count
            partitions += [
                RescuedPartition(topic, number, cluster.nodes_of(topic, number, turn + number))
                for number in range(topic.count)
            ]
        plan = cls(
            report=result,
            roots=roots,
            at_rest=at_rest,
            nodes=nodes,
            voters=voters,
            rename=rename,
            until=until,
            converts=converts,
            topics=found,
            partitions=partitions,
            cluster=cluster,
            directory_ids={node: checkpoints.random_id() for node in nodes},
            progress=progress,
        )
        plan._note_fork(others)
        if metadata is None:
            result.doubts += plan._committed_elsewhere(topics)
        # Disks that need a rescue may be failing ones.
        with storage.bridged(), Threads() as threads:
            list(threads.map(plan._examine, partitions))
        plan._report_all()
        return plan

    def new_name(self, topic: FoundTopic) -> str:
        """Return the name of a topic in the new cluster."""
        return self.rename.get(topic.name, topic.name)

    def new_id(self, topic: FoundTopic) -> str:
        """Return the id of a topic in the new cluster. A renamed topic gets a new id, the same on all nodes."""
        return self._new_ids.get(topic.name, topic.topic_id)

    @cached_property
    def _new_ids(self) -> dict[str, str]:
        return {name: checkpoints.random_id() for name, new_name in self.rename.items() if new_name != name}

    def records(self, highest_producer_id: int = -1) -> Iterator[bytes]:
        """Yield the metadata records of the new cluster.

        Args:
            highest_producer_id: the highest producer id on the disks; -1 if none.
        """
        partitions: dict[str, list[NewPartition]] = {}
        for one in self.partitions:
            epoch = max(one.known.get("leader_epoch", 0), -1 if one.kept is None else one.kept.epoch)
            partitions.setdefault(one.topic.name, []).append(NewPartition(one.number, one.replicas, epoch))
        topics = (
            (self.topics[name], self.new_id(self.topics[name]), of_topic) for name, of_topic in partitions.items()
        )
        return self.cluster.records(topics, self.directory_ids, highest_producer_id)

    def metadata_files(self, directory: str) -> list[str]:
        """Return the paths of a node's first metadata files: the records, then the voters if in another file."""
        if self.cluster.starts_with_log:
            return [first_snapshot(directory)]
        return [f"{directory}/{checkpoints.BOOTSTRAP}", *([formatted_snapshot(directory)] if self.voters else [])]

    def steps(self) -> Iterator[tuple[str, Step]]:
        """Yield the steps, each with the directory that it is for."""
        for node, directory in self.report.nodes.items():
            for one in self.partitions:
                name = f"{self.new_name(one.topic)}-{one.number}"
                if node not in one.replicas:
                    continue
                if one.kept is None:
                    yield directory, Step("write", name, b"", "the new partition is empty, because no disk has it")
                    continue
                if one.kept.repair.is_changed:
                    yield from ((f"{directory}/{name}", step) for step in one.kept.repair.steps(one.topic.topic_id))
                else:
                    path = one.kept.repair.log.path
                    yield directory, Step("keep", name, path, f"copied unchanged from {path}")
                if (new_id := self.new_id(one.topic)) != one.topic.topic_id:
                    content = checkpoints.format_partition_metadata(new_id)
                    why = f"with the new name, the topic gets a new id, {new_id}"
                    yield f"{directory}/{name}", Step("write", checkpoints.PARTITION_METADATA, content, why)
                if self.until is not None:
                    yield (
                        directory,
                        Step("cut", name, b"", f"as it was at {self.until}, each transaction whole or absent"),
                    )
                if self.converts:
                    yield directory, Step("convert", name, b"", "messages of formats 0 and 1 become those of format 2")
            files = [os.path.relpath(path, directory) for path in self.metadata_files(directory)]
            for file in (*files, checkpoints.META_PROPERTIES, checkpoints.CLEAN_SHUTDOWN):
                yield directory, Step("write", file, b"", "the new cluster starts with it")

    def foreseen(self) -> Iterator[Finding]:
        """Yield the findings that a check of the result would report, as far as the sources show them."""
        kept = {
            (self.new_name(one.topic), one.number): one.kept.repair for one in self.partitions if one.kept is not None
        }
        for repair in kept.values():
            yield from (one for one in repair.left if one.severity != "note" and one.kind.level != "deep")
        coordinators = [repair.log for (topic, _), repair in kept.items() if topic == TRANSACTIONS_TOPIC]
        opened: list[dict[str, Any]] = []
        for (topic, partition), repair in kept.items() if coordinators else ():
            with contextlib.suppress(BrokerlessError, OSError):
                pieces = chain.from_iterable(repair.segments.values())
                found = open_at_end(pieces) if repair.is_changed else open_in(repair.log)
                opened += [{**one, "topic": topic, "partition": partition} for one in found]
        with contextlib.suppress(BrokerlessError, OSError, ValueError):
            table = current_transactions(coordinators, opened)
            yield from hanging(table, lambda topic, partition: kept[topic, partition].log.path)

    def __str__(self) -> str:
        return "\n".join(f"{directory}: {step}" for directory, step in self.steps())

    def _committed_elsewhere(self, wanted: set[str] | None) -> Iterator[Remark]:
        """Yield a doubt for each partition that no disk has, although groups committed offsets in it.

        Without metadata, nothing else shows that the partition was there.
        """
        topic = self.topics.get(OFFSETS_TOPIC)
        groups: dict[tuple[str, int], set[str]] = {}
        for log in () if topic is None else topic.logs:
            # The log's own damage is reported with the log.
            with contextlib.suppress(BrokerlessError, OSError), collected():
                for rows in commits_of(log, history=False):
                    names = (rows[name].to_pylist() for name in ("group", "topic", "partition"))
                    for group, name, number in zip(*names, strict=True):
                        found = self.topics.get(name)
                        is_wanted = wanted is None or found is not None or is_chosen(name, wanted)
                        if is_wanted and (found is None or number >= found.count):
                            groups.setdefault((name, number), set()).add(group)
        for (name, number), committed in sorted(groups.items()):
            said = (
                f"{printable(name)}-{number}: no disk has this partition, and no metadata name it, but "
                f"{counted(len(committed), 'group')} committed offsets in it: "
                f"{listed_few([printable(group) for group in sorted(committed)])}. The new cluster does not have it"
            )
            names_of = tuple(sorted(committed))
            yield Remark("partition-count", said, topic=name, partition=number, names=names_of)

    def _note_fork(self, others: set[str]) -> None:
        """Note the state that the new cluster lacks because topics were left out or renamed."""
        notes = self.report.notes
        if OFFSETS_TOPIC in others:
            said = f"groups have no committed offsets, because {OFFSETS_TOPIC} is not among the topics"
            notes.append(Remark("groups-anew", said, topic=OFFSETS_TOPIC))
        elif self.rename and OFFSETS_TOPIC in self.topics:
            renamed = tuple(self.rename.values())
            notes.append(
                Remark(
                    "groups-anew",
                    f"groups have no offsets on {', '.join(renamed)}, because they committed under the old names",
                    names=renamed,
                )
            )
        if self.until is None and (TRANSACTIONS_TOPIC in others or self.rename):
            which = "" if TRANSACTIONS_TOPIC in others else f" of {', '.join(self.rename.values())}"
            said = (
                f"open transactions{which} stay open, because no coordinator knows them, and read_committed consumers "
                f"stop at them. To abort them, cut the logs at a time ({option('as_of')})"
            )
            notes.append(Remark("transactions-stay-open", said, names=tuple(self.rename.values()) if which else ()))

    def _examine(self, one: RescuedPartition) -> None:
        """Plan a partition from its best usable replica. Other replicas supply the batches that this replica lacks."""
        replicas = []
        config = self.cluster.config_of(one.topic)
        for replica in ranked(one.topic.replicas.get(one.number, ()), one.known):
            try:
                _check_readable(replica.log)
                replicas.append(replica)
            except (OSError, BrokerlessError) as error:
                one.unread.append(one.unreadable(replica.log.path, error))
        has_id = any(replica.topic_id is not None for replica in replicas)
        one.log_start_offset = max(
            (
                known_start(replica.log) or 0
                for replica in replicas
                if replica.state != "stray" and (replica.topic_id is not None or not has_id)
            ),
            default=0,
        )
        passed: list[KeptReplica] = []
        for replica in replicas:
            # A replica that does not name its topic id may belong to an older topic.
            others = [
                other.log
                for other in replicas
                if other is not replica and (other.topic_id is not None or replica.topic_id is None)
            ]
            try:
                found = self._salvage(one, replica, others, config)
                kept = KeptReplica(replica, found, last_epoch(replica.log, one.known.get("leader_epoch")))
            except (OSError, BrokerlessError) as error:
                one.unread.append(one.unreadable(replica.log.path, error))
                continue
            if not found.unusable:
                one.kept = kept
                break
            passed.append(kept)
        why = "; ".join(f"{kept.repair.log.path}: {kept.repair.unusable}" for kept in passed)
        if one.kept is None and passed:
            one.kept = passed[0]
            one.doubts.append(
                one.remark(
                    "copied-as-is",
                    f"{one.name} is copied as it is, and may be damaged: {why}",
                    one.kept.replica.log.path,
                )
            )
        elif one.kept is not None and passed:
            said = (
                f"{one.name} comes from {one.kept.replica.log.path}, up to offset {one.kept.repair.end_offset}. A "
                f"replica that ends later, or has a later leader epoch, cannot be used: {why}"
            )
            unusable = [other.repair.log.path for other in passed]
            one.doubts.append(one.remark("replica-unusable", said, one.kept.replica.log.path, unusable))
        if one.kept is not None:
            self._compare(one, one.kept, replicas)

    def _salvage(self, one: RescuedPartition, replica: Replica, others: list[Log], config: TopicConfig) -> LogRepair:
        """Plan the repair of a replica, without the help of replicas that cannot be read."""
        log = replica.log
        known = None if replica.state == "stray" else known_start(log)
        first = log.segments[0].base_offset if log.segments else 0
        # Without a checkpoint entry, the log starts at its first segment.
        start = known if one.log_start_offset <= max(known or 0, first) else one.log_start_offset
        if self.cluster.loses_remote(one.topic):
            config = with_fields(config, remote_storage_enable=None)
        find = partial(salvage, log, config=config, log_start_offset=start, progress=partial(self.progress, log.name))
        try:
            return find(others)
        except (OSError, BrokerlessError):
            if not others:
                raise
        # Find out which replica cannot be read.
        find()
        readable = []
        for other in others:
            try:
                find([other])
                readable.append(other)
            except (OSError, BrokerlessError) as error:
                one.unread.append(one.unreadable(other.path, error))
        return find(readable)

    def _compare(self, one: RescuedPartition, kept: KeptReplica, replicas: Iterable[Replica]) -> None:
        """Find the complete replicas, and those that had more records than are kept, as far as the files show it."""
        end = kept.repair.end_offset
        if kept.replica.topic_id is None and one.topic.has_id:
            said = (
                f"{one.name} comes from {kept.replica.log.path}. This directory has no topic id, so it may belong to "
                "an older topic with the same name"
            )
            one.doubts.append(one.remark("topic-id-missing", said, kept.replica.log.path))
        for replica in replicas:
            is_kept = replica is kept.replica
            if replica.topic_id is None and kept.replica.topic_id is not None:
                continue
            is_said = is_kept and any(
                of_end.end_offset is None or of_end.end_offset >= end for of_end in kept.repair.lost
            )
            hidden = ""
            if not is_said:
                try:
                    hidden = _hidden(replica.log, None if is_kept else kept.repair.log, end)
                except (OSError, BrokerlessError) as error:
                    one.unread.append(one.unreadable(replica.log.path, error))
                    continue
            if hidden:
                one.hidden.append(hidden)
            elif not replica.state:
                one.live.add(replica.node_id)

    def _report_all(self) -> None:
        """Add to the report the partitions, and the settings and state that the new cluster cannot keep."""
        # By disk and node: the partitions with batches from that node, although the metadata do not name it for them.
        unassigned: dict[tuple[str, int], list[str]] = {}
        for one in self.partitions:
            self._report(one)
            for disk in self._unassigned_sources(one):
                unassigned.setdefault(disk, []).append(one.name)
        for (path, node), names in unassigned.items():
            said = (
                f"{listed_few(names)}: batches come from {path} of node {node}, although the metadata assign the "
                "replicas to other nodes"
            )
            self.report.notes.append(Remark("replica-unassigned", said, path=path, names=tuple(names)))
        later = [
            one.name
            for one in self.partitions
            if one.known and one.kept is not None and one.kept.epoch > one.known["leader_epoch"]
        ]
        if later:
            said = (
                f"the metadata are older than the logs: they lack the last leader epoch of {listed_few(later)}. Later "
                "changes of topics, settings and access rights may be lost"
            )
            self.report.doubts.append(Remark("metadata-older", said, names=tuple(later)))
        # Building the records notes each setting that changes.
        for _ in self.records():
            pass
        self.report.notes += self.cluster.finish_notes()

    def _report(self, one: RescuedPartition) -> None:
        """Add a partition to the report: its source, its damaged ranges and its missing records."""
        result = self.report
        if one.kept is None:
            result.missing.append(self._gone(one))
            return
        found, replica = one.kept.repair, one.kept.replica
        result.chosen[one.name] = found.log.path
        result.ranges += found.ranges
        result.ranges += _lost_before(found)
        if told := found.told(one.topic.topic_id):
            result.repaired[one.name] = told
        unread = [why.of(f"a replica of {one.name} is not used: ") for why in one.unread]
        of_log = [one.of_log(doubt) for doubt in found.doubts]
        result.doubts += [*one.doubts, *unread, *of_log]
        if replica.state == "future":
            said = f"{one.name} comes from {found.log.path}, a replica that was being moved to another disk"
            result.notes.append(one.remark("replica-moved", said, found.log.path))
        fatal = [step.name for step in found.gone if step.verb == "drop" and file_names.is_fatal(step.name)]
        result.notes += [
            one.remark(
                "file-unknown",
                f"{found.log.path}/{name} is not copied, because a broker does not start with a file of that name",
                f"{found.log.path}/{name}",
            )
            for name in fatal
        ]
        if replica.topic_id is not None:
            without_id = [other.log.path for other in one.topic.replicas[one.number] if other.topic_id is None]
            if without_id:
                said = (
                    f"not used: {listed_few(without_id)}. A directory without a topic id may belong to an older topic "
                    "with the same name"
                )
                result.notes.append(one.remark("replica-unused", said, names=without_id))
        result.missing += [MissingPartition(one.topic.name, one.number, "end", why, False) for why in one.hidden]
        live = one.live
        in_sync, leader = set(one.known.get("isr") or one.known.get("elr") or ()), one.known.get("leader", -1)
        code: MissingCode = "not-in-sync"
        reason = ""
        if in_sync and not in_sync & live:
            reason = (
                f"no disk has the whole replica of a node that was in sync (nodes {sorted(in_sync)}), so records that "
                "were committed may be missing at the end"
            )
        elif leader >= 0 and leader not in live:
            code = "not-leader"
            reason = (
                f"no disk has the whole replica of its leader, node {leader}, so records that were not replicated yet "
                "are missing at the end"
            )
        if reason:
            result.missing.append(MissingPartition(one.topic.name, one.number, code, reason, False, found.end_offset))

    def _gone(self, one: RescuedPartition) -> MissingPartition:
        """Return the report entry of a partition from which nothing is kept."""
        why = "no disk has the partition, so it starts empty at offset 0"
        if one.unread:
            unread = "; ".join(map(str, one.unread))
            why = (
                f"the partition starts empty at offset 0, because no replica can be used: {unread}. If the unreadable "
                "file is not a .log, move it away, and run the rescue again: then the records can be read"
            )
        elif deleted := self._to_be_deleted(one):
            why += (
                f". A broker was about to delete {', '.join(deleted)}. To use its records, rename it to {one.name}, "
                "and run the rescue again"
            )
        return MissingPartition(one.topic.name, one.number, "unreadable" if one.unread else "gone", why, True)

    def _to_be_deleted(self, one: RescuedPartition) -> list[str]:
        """Return the directories of a partition that a broker has renamed for deletion, but not deleted yet."""
        found = []
        for root in self.roots:
            for name in storage.list_subdirectories(root.path):
                with contextlib.suppress(ValueError):
                    parsed = file_names.parse_directory_name(name)
                    if parsed == file_names.DirectoryName(one.topic.name, one.number, "delete"):
                        found.append(f"{root.path}/{name}")
        return found

    def _unassigned_sources(self, one: RescuedPartition) -> Iterator[tuple[str, int]]:
        """Yield the disk and the node of each replica that is used although the metadata do not name it."""
        assigned: Sequence[int] = one.known.get("replicas", ())
        if one.kept is None or not assigned:
            return
        used = {one.kept.repair.log.path, *(of_range.source for of_range in one.kept.repair.ranges)}
        for other in one.topic.replicas[one.number]:
            if other.log.path in used and other.node_id is not None and other.node_id not in assigned:
                yield other.log.root.path, other.node_id
