"""`rescue`: log directories that a new KRaft cluster starts on, from whatever disks of an old one are left.

1. The newest metadata on any disk say which topics there are, with their settings, and everything else that the
   controllers knew (`surviving_metadata`). Without metadata, the directories' names and `partition.metadata` do.
2. For each partition the best replica is chosen: by the leader epoch of its last batch, then by its end. What is
   damaged or missing in it comes from the others (`salvage`).
3. Each node gets a directory with its partitions, and the metadata as the file that a new cluster starts with
   (`layout.bootstrap_metadata`): the first controller loads it, and brokers find their partitions in place.

Everything is built under a name that a broker would delete, checked, and published by one rename.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import warnings
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from typing import TYPE_CHECKING, NamedTuple

from brokerless import _native
from brokerless.arguments import check_several, to_ms, unknown
from brokerless.checking.check import check
from brokerless.errors import BrokerlessError, CorruptRecordError, UnsupportedFormatError
from brokerless.healing.partition_files import write_partition
from brokerless.healing.salvage import salvage
from brokerless.healing.surviving_metadata import surviving_metadata
from brokerless.io import disk, storage
from brokerless.io.clock import now_ms
from brokerless.io.remote import is_remote
from brokerless.layout import checkpoints, commit_journal, file_names
from brokerless.layout.bootstrap_metadata import (
    LEAST_METADATA_VERSION,
    OLDEST_RELEASE,
    feature_records,
    next_block,
    partition_record,
    producer_ids_record,
    topic_config_record,
    topic_record,
)
from brokerless.layout.log_dir_files import LogDirFiles, check_outside
from brokerless.layout.release import Release
from brokerless.layout.topic_config import TopicConfig
from brokerless.layout.voters import Voter, parse_voters, voters_snapshot
from brokerless.log.log import Log
from brokerless.log_dir.cluster_metadata import formatted_snapshot
from brokerless.log_dir.copying import StagedCopy, check_at_rest
from brokerless.rewriting.run import rewrite
from brokerless.rewriting.truncate_to import TruncateTo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from brokerless.arguments import Time
    from brokerless.checking.finding import Finding
    from brokerless.healing.damaged_range import DamagedRange
    from brokerless.healing.salvage import Salvage

_Place = tuple[str, int]
_IN_SYNC = "min.insync.replicas"
# Those with which brokers create their own topics, but for numbers of replicas.
_INTERNAL_SETTINGS = {
    "__consumer_offsets": {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"},
    "__transaction_state": {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    },
    "__share_group_state": {"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": "104857600"},
    "__remote_log_metadata": {"cleanup.policy": "delete", "retention.ms": "-1"},
}
REPORT = "report.json"


class MissingPartition(NamedTuple):
    """A partition of the cluster that is not, or not surely, on the disks as a whole.

    Attributes:
        topic: the topic.
        partition: the partition.
        reason: what is missing, and how that is known.
        is_gone: whether no disk has any of it: it starts empty.
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
        notes: what else is not as it was, a sentence each.
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
    notes: list[str] = field(default_factory=list)
    left: list[Finding] = field(default_factory=list)
    lost_path: str | None = None

    @property
    def lost(self) -> list[DamagedRange]:
        """The ranges of offsets that are lost."""
        return [one for one in self.ranges if one.state == "lost"]

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
            "notes": self.notes,
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
            and metadata of releases before 3.7, have no level that can be kept: then 4.0.
        topics: only these topics; None: all.
        rename: new names of topics. They get new ids.
        until: cut the records as they were at this time.
        dry_run: change nothing, and return what would be done.
        progress: called with the bytes of each segment that was checked, from any thread.

    Raises:
        FileExistsError: `to`, or the directory of the report, exists.
        FileNotFoundError: a disk, or the parent of `to`, does not exist.
        LogInUseError: a broker, or another writer, has a disk open.
        ValueError: the disks are of several clusters, a topic has several ids, or the arguments contradict each other.

    >>> import brokerless as bl
    >>> found = bl.rescue(SAMPLE_DIR, dry_run=True)
    >>> found.lost, list(found.nodes)
    ([], [1])
    """
    if (to is None) != dry_run:
        raise ValueError("give a directory for the result, or dry_run=True")
    if not disks:
        raise ValueError("give at least one disk")
    check_several("topics", topics)
    target = os.path.abspath(os.fspath(to if to is not None else f"{os.fspath(disks[0])}-rescued"))
    wanted = None if topics is None else set(topics)
    with _quiet():
        job = _Job(
            [os.fspath(one) for one in disks],
            target,
            nodes=nodes,
            voters={} if voters is None else parse_voters(voters),
            cluster_id=cluster_id,
            release=None if release is None else Release.parse(release),
            topics=wanted,
            rename=dict(rename or {}),
            progress=progress,
        )
        if not dry_run:
            job.write(None if until is None else to_ms("until", until))
    return job.result


@dataclass
class _Partition:
    """A partition of the new cluster: its topic under the old name, its nodes, and what is kept of it, if anything."""

    topic: str
    number: int
    topic_id: str
    replicas: list[int]
    leader_epoch: int
    found: Salvage | None
    last_epoch: int = -1


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
        progress: Callable[[int], None],
    ) -> None:
        self._roots = _roots(disks)
        self._release, self._rename = release, rename
        self._new_ids: dict[str, str] = {}
        self._directory_ids: dict[int, str] = {}
        self.result = Rescue(to)
        self.result.cluster_id = cluster_id or self._known_cluster_id()
        known = sorted(_node_ids(self._roots))
        self._nodes = sorted(nodes if nodes is not None else known[:1] or [1])
        if len(set(self._nodes)) < len(self._nodes) or not all(0 <= node < 1 << 31 for node in self._nodes):
            raise ValueError(f"not nodes: {self._nodes}; different numbers from 0 on expected")
        self._voters = voters
        if not voters.keys() <= set(self._nodes):
            raise ValueError(f"voters {sorted(voters)} are not among the nodes {self._nodes}")
        several = len(self._nodes) > 1
        self.result.nodes = {node: f"{to}/node-{node}" if several else to for node in self._nodes}
        self._metadata = surviving_metadata([root.path for root in self._roots if _has_metadata(root.path)])
        self._note_metadata()
        replicas = self._replicas()
        self._ids = self._topic_ids(replicas, topics)
        staying = self._ids.keys() - rename.keys()
        file_names.check_topic_names(rename.values(), present=staying)
        for topic, name in rename.items():
            if topic not in self._ids:
                raise unknown("topic", topic, self._ids)
            if name in staying or list(rename.values()).count(name) > 1:
                raise ValueError(f"topic {topic!r} cannot be renamed to {name!r}: there is one of that name")
        self._partitions = self._planned(replicas, progress)

    def _known_cluster_id(self) -> str:
        ids: dict[str, str] = {}
        for root in self._roots:
            with contextlib.suppress(CorruptRecordError):
                if root.cluster_id is not None:
                    ids.setdefault(root.cluster_id, root.path)
        if len(ids) > 1:
            places = ", ".join(f"{one} in {path}" for one, path in ids.items())
            raise ValueError(f"different clusters: {places}; rescue each alone")
        if not ids:
            self.result.notes.append("no disk tells the cluster's id: the cluster gets a new one")
        return next(iter(ids), None) or checkpoints.random_id()

    def _note_metadata(self) -> None:
        found = self._metadata
        notes = self.result.notes
        if found is None:
            notes.append(
                "no disk has the cluster's metadata: topics are known by their directories only. Their settings, "
                "access rights, quotas and users are lost. So that nothing is deleted, all get retention.ms=-1"
            )
            return
        self.result.metadata = found.path
        notes += found.doubts
        if found.image.unknown:
            notes.append(f"{len(found.image.unknown)} metadata records of unknown types are kept as they are")

    def _replicas(self) -> dict[_Place, list[Log]]:
        """Return all replicas of each partition."""
        replicas: dict[_Place, list[Log]] = defaultdict(list)
        for root in self._roots:
            found, _ = commit_journal.list_consistent(root.path)
            for name, path in sorted(found.items()):
                try:
                    parsed = file_names.parse_directory_name(name)
                except ValueError:
                    continue
                if parsed.topic == file_names.METADATA_TOPIC or parsed.leftover in ("delete", "future"):
                    continue
                if parsed.leftover == "stray":
                    self.result.notes.append(
                        f"not used: {path}: the broker found that its topic was deleted, or moved to other nodes"
                    )
                    continue
                replicas[parsed.topic, parsed.partition].append(Log(path, root=root))
        return replicas

    def _topic_ids(self, replicas: dict[_Place, list[Log]], topics: set[str] | None) -> dict[str, str]:
        """Return the id of each topic that there will be, by its old name; drop the replicas of other topics."""
        by_metadata = {} if self._metadata is None else self._metadata.image.topic_ids
        on_disks: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for (topic, _), logs in replicas.items():
            for log in logs:
                on_disks[topic][_topic_id(log) or ""].append(log.path)
        known = {*by_metadata, *on_disks}
        for topic in topics or ():
            if topic not in known:
                raise unknown("topic", topic, known)
        ids = {
            topic: self._topic_id_of(topic, on_disks.get(topic, {}), by_metadata)
            for topic in sorted(known if topics is None else topics)
        }
        for place in list(replicas):
            if place[0] in ids:
                replicas[place] = [log for log in replicas[place] if _topic_id(log) in (None, ids[place[0]])]
            else:
                del replicas[place]
        return ids

    def _topic_id_of(self, topic: str, on_disks: Mapping[str, list[str]], by_metadata: Mapping[str, str]) -> str:
        """Return the id that counts of a topic, given the directories by the ids that they have."""
        here = {one: paths for one, paths in on_disks.items() if one}
        if topic in by_metadata:
            chosen = by_metadata[topic]
        elif len(here) > 1:
            places = ", ".join(f"{one} in {paths[0]}" for one, paths in here.items())
            raise ValueError(
                f"topic {topic!r} was created several times, and no metadata tell which one counts: {places}; leave "
                "out the disks of the others"
            )
        else:
            chosen = next(iter(here), None) or checkpoints.random_id()
            if self._metadata is not None and not file_names.is_internal(topic):
                self.result.notes.append(
                    f"topic {topic} is not in the metadata: it was deleted, or created after them. It is kept, with "
                    "retention.ms=-1 as its only setting"
                )
        for one, paths in here.items():
            if one != chosen:
                self.result.notes.append(
                    f"not used: {', '.join(paths)}: an older topic of the name {topic!r}, with the id {one}"
                )
        return chosen

    def _planned(self, replicas: dict[_Place, list[Log]], progress: Callable[[int], None]) -> list[_Partition]:
        partitions = []
        for number, (topic, topic_id) in enumerate(sorted(self._ids.items())):
            known = {} if self._metadata is None else self._metadata.image.partitions_of(topic)
            numbers = {partition for name, partition in replicas if name == topic}
            # An index of partitions has no gaps: what decides is the number of partitions, as for keys and groups.
            count = max([*known, *numbers], default=-1) + 1
            if count > file_names.MOST_PARTITIONS:
                raise ValueError(
                    f"topic {topic!r} has a partition {count - 1}, above the most that there may be, "
                    f"{file_names.MOST_PARTITIONS}: leave the topic out, or move the directory of that name away"
                )
            self.result.topics[self._rename.get(topic, topic)] = count
            for partition in range(count):
                of_metadata = known.get(partition, {})
                nodes = self._nodes_of(of_metadata.get("replicas"), number + partition)
                epoch = of_metadata.get("leader_epoch", 0)
                partitions.append(_Partition(topic, partition, topic_id, nodes, epoch, None))

        def examine(one: _Partition) -> None:
            ranked = _ranked(replicas.get((one.topic, one.number), ()))
            if ranked:
                best = ranked[0]
                others = [other.log for other in ranked[1:]]
                one.found = salvage(best.log, others, config=self._config(one.topic), progress=progress)
                one.last_epoch = best.epoch

        with ThreadPoolExecutor(os.cpu_count()) as threads:
            list(threads.map(examine, partitions))
        for one in partitions:
            self._report(one, replicas)
        return partitions

    def _nodes_of(self, replicas: Sequence[int] | None, turn: int) -> list[int]:
        """Return the nodes of a partition: as many as before, if there are so many; the same ones, where they stay."""
        count = min(len(replicas) if replicas else len(self._nodes), len(self._nodes))
        staying = [node for node in replicas or () if node in self._nodes]
        turned = [*self._nodes[turn % len(self._nodes) :], *self._nodes[: turn % len(self._nodes)]]
        return [*staying, *(node for node in turned if node not in staying)][:count]

    def _config(self, topic: str) -> TopicConfig:
        configs = {} if self._metadata is None else self._metadata.image.configs_of(topic)
        policy = configs.get("cleanup.policy", _INTERNAL_SETTINGS.get(topic, {}).get("cleanup.policy"))
        return TopicConfig() if policy is None else TopicConfig().with_keywords({"cleanup_policy": policy})

    def _report(self, one: _Partition, replicas: dict[_Place, list[Log]]) -> None:
        """Add a partition to the report: its source, its damaged ranges and its missing records."""
        result = self.result
        if one.found is None:
            result.missing.append(
                MissingPartition(one.topic, one.number, "no disk has it: it starts empty at offset 0", True)
            )
            return
        result.chosen[f"{one.topic}-{one.number}"] = one.found.log.path
        result.ranges += one.found.ranges
        result.notes += [f"{one.topic}-{one.number}: {doubt}" for doubt in one.found.doubts]
        known = {} if self._metadata is None else self._metadata.image.partitions_of(one.topic).get(one.number, {})
        here = {_node_id(log.root) for log in replicas[one.topic, one.number]}
        in_sync = set(known.get("isr", ()))
        if in_sync and not in_sync & here:
            reason = (
                f"none of the disks is of a replica that was in sync ({sorted(in_sync)}): records that were committed "
                f"may be missing behind offset {one.found.end_offset}"
            )
            result.missing.append(MissingPartition(one.topic, one.number, reason, False))
        elif known and known["leader"] not in here and known["leader"] >= 0:
            reason = (
                f"no disk is of its leader, node {known['leader']}: what was not replicated yet is missing behind "
                f"offset {one.found.end_offset}"
            )
            result.missing.append(MissingPartition(one.topic, one.number, reason, False))

    def write(self, until: int | None) -> None:
        """Write the directories, check them, and publish them."""
        result = self.result
        report_to = f"{result.to}.lost"
        check_outside(report_to)
        if storage.exists(report_to):
            raise FileExistsError(errno.EEXIST, "exists: the report needs a new path", report_to)
        with StagedCopy(result.to, is_partition=False) as copy:
            highest = -1
            # Known from the start: to assign one later empties the list of eligible leader replicas (KIP-966).
            self._directory_ids = {node: checkpoints.random_id() for node in self._nodes}
            for node in self._nodes:
                directory = copy.path if len(self._nodes) == 1 else f"{copy.path}/node-{node}"
                if directory != copy.path:
                    disk.make_directory(directory)
                highest = max(highest, self._write_partitions(copy, node, directory))
            for node in self._nodes:
                directory = copy.path if len(self._nodes) == 1 else f"{copy.path}/node-{node}"
                self._write_root(node, directory, highest)
            if until is not None:
                self._cut(copy.path, until)
            result.left = [
                with_fields(
                    one,
                    path=one.path.replace(copy.path, result.to, 1),
                    message=one.message.replace(copy.path, result.to),
                )
                for node in self._nodes
                for one in check(copy.path if len(self._nodes) == 1 else f"{copy.path}/node-{node}")
                if one.severity != "note"
            ]
            result.lost_path = report_to
            self._write_report(report_to)
            copy.publish()

    def _write_partitions(self, copy: StagedCopy, node: int, directory: str) -> int:
        """Write the partitions of a node, and the checkpoints. Return the highest producer id."""
        points: dict[_Place, int] = {}
        starts: dict[_Place, int] = {}
        dirty: dict[_Place, int] = {}
        highest = -1
        for one in self._partitions:
            if node not in one.replicas:
                continue
            topic = self._rename.get(one.topic, one.topic)
            place, to = (topic, one.number), f"{directory}/{topic}-{one.number}"
            key = one.topic, one.number
            topic_id = one.topic_id if topic == one.topic else self._new_id(topic)
            if one.found is None:
                disk.make_directory(to)
                self._write_topic_id(to, topic_id)
                continue
            log, found = one.found.log, one.found
            if found.segments and not found.unusable:
                loaded = write_partition(
                    found,
                    to,
                    config=self._config(one.topic),
                    topic_id=topic_id,
                    log_start_offset=log.root.log_start_offsets.get(key),
                    high_watermark=None,
                    first_dirty_offset=log.root.first_dirty_offsets.get(key),
                )
                start, end, first = loaded.log_start_offset, loaded.log_end_offset, loaded.base_offsets[0]
            else:
                copy.add_partition(log.path, to)
                start, end = log.log_start_offset, log.log_end_offset
                first = log.segments[0].base_offset if log.segments else start
            disk.atomic_write(f"{to}/{checkpoints.PARTITION_METADATA}", checkpoints.format_partition_metadata(topic_id))
            points[place] = end
            if start != first:
                starts[place] = start
            if key in log.root.first_dirty_offsets:
                dirty[place] = min(log.root.first_dirty_offsets[key], end)
            highest = max(highest, _highest_producer_id(to))
        for name, offsets in (
            (checkpoints.RECOVERY_POINTS, points),
            (checkpoints.LOG_START_OFFSETS, starts),
            (checkpoints.HIGH_WATERMARKS, points),
            (checkpoints.FIRST_DIRTY_OFFSETS, dirty),
        ):
            if offsets or name != checkpoints.FIRST_DIRTY_OFFSETS:
                disk.atomic_write(f"{directory}/{name}", checkpoints.format_offset_checkpoint(offsets))
        return highest

    @staticmethod
    def _write_topic_id(directory: str, topic_id: str) -> None:
        content = checkpoints.format_partition_metadata(topic_id)
        disk.atomic_write(f"{directory}/{checkpoints.PARTITION_METADATA}", content)

    def _new_id(self, topic: str) -> str:
        """Return the id of a topic with a new name: the same on all nodes."""
        return self._new_ids.setdefault(topic, checkpoints.random_id())

    def _write_root(self, node: int, directory: str, highest: int) -> None:
        """Write the metadata that the cluster starts with, the ids, and the mark of a clean shutdown."""
        content = _native.kraft_snapshot(list(self._records(highest)), now_ms())
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

    def _records(self, highest: int) -> Iterator[bytes]:
        """Yield the metadata records of the new cluster."""
        image = None if self._metadata is None else self._metadata.image
        version = None if image is None else image.metadata_version
        if image is not None and self._release is None and (version or 0) >= LEAST_METADATA_VERSION:
            yield from image.features()
        else:
            release = self._release or OLDEST_RELEASE
            self._note(f"the cluster starts with the features of Kafka {release}")
            yield from feature_records(release)
        if image is not None:
            yield from image.others(self._nodes, most_in_sync=len(self._nodes))
            yield from image.unknown
        known = 0 if image is None else image.next_producer_id
        first = max(known, next_block(highest) if highest >= 0 else 0)
        if first:
            yield producer_ids_record(self._nodes[0], first)
        by_topic: dict[str, list[_Partition]] = defaultdict(list)
        for one in self._partitions:
            by_topic[one.topic].append(one)
        for topic, partitions in by_topic.items():
            name = self._rename.get(topic, topic)
            topic_id = partitions[0].topic_id if name == topic else self._new_id(name)
            yield topic_record(name, topic_id)
            for config, value in self._settings(topic, replicas=len(partitions[0].replicas)).items():
                yield topic_config_record(name, config, value)
            for one in partitions:
                # A leader of the same epoch as before would not be told apart from the old one.
                epoch = max(one.leader_epoch, one.last_epoch) + 1
                directories = [self._directory_ids[node] for node in one.replicas]
                yield partition_record(one.number, topic_id, one.replicas, epoch, directories)

    def _settings(self, topic: str, *, replicas: int) -> dict[str, str]:
        """Return the own settings of a topic in the new cluster."""
        image = None if self._metadata is None else self._metadata.image
        if image is None or topic not in image.topic_ids:
            # With Kafka's defaults, a broker would delete records of more than seven days within minutes.
            return _INTERNAL_SETTINGS.get(topic, {"retention.ms": "-1"})
        settings = image.configs_of(topic)
        wanted = settings.get(_IN_SYNC, "")
        if wanted.isdecimal() and int(wanted) > replicas:
            # Otherwise nobody could write to it with acks=all.
            settings[_IN_SYNC] = str(replicas)
            self._note(f"{_IN_SYNC} of topic {topic} is {replicas}, not {wanted}: it has no more replicas")
        if settings.get("remote.storage.enable") == "true":
            self._note(
                f"topic {topic} has segments in remote storage. Only a cluster that takes the place of the old one may "
                "be configured with the same storage: of a fork, retention would delete the segments of production"
            )
        return settings

    def _note(self, note: str) -> None:
        if note not in self.result.notes:
            self.result.notes.append(note)

    def _cut(self, path: str, until: int) -> None:
        """Cut the records as they were at a time. Kafka's own topics are cut, too: groups go on as they did then."""
        topics = sorted({self._rename.get(one.topic, one.topic) for one in self._partitions if one.found is not None})
        for node in self._nodes:
            directory = path if len(self._nodes) == 1 else f"{path}/node-{node}"
            rewrite(TruncateTo(timestamp=until, sole_replica=True), directory, topics=topics)

    def _write_report(self, to: str) -> None:
        unfinished = f"{to}.unfinished-{os.getpid()}"
        disk.make_directory(unfinished)
        try:
            content = json.dumps(self.result.to_dict(), indent=1).encode() + b"\n"
            disk.atomic_write(f"{unfinished}/{REPORT}", content)
            disk.rename(unfinished, to)
            disk.sync_directory(os.path.dirname(to))
        except BaseException:
            if storage.exists(unfinished):
                disk.remove_tree(unfinished)
            raise


class _Ranked(NamedTuple):
    """A replica with what decides whether it is the best one."""

    epoch: int
    end_offset: int
    log: Log


def _ranked(logs: Iterable[Log]) -> list[_Ranked]:
    """Return replicas, the best first: by the leader epoch of the last sound batch, then by the end."""
    found = []
    for log in logs:
        epoch, end = -1, -1
        with contextlib.suppress(BrokerlessError, OSError):
            end = log.log_end_offset
            epoch = _last_epoch(log)
        found.append(_Ranked(epoch, end, log))
    return sorted(found, key=lambda one: (one.epoch, one.end_offset), reverse=True)


def _last_epoch(log: Log) -> int:
    """Return the leader epoch of the last sound batch; -1: it has none."""
    for segment in reversed(log.segments):
        epoch = -1
        with contextlib.suppress(CorruptRecordError, UnsupportedFormatError), segment.open() as file:
            for batches in segment.batches_since(file, log.log_end_offset - 1, check_crcs=True):
                epochs = batches["partition_leader_epoch"].to_pylist()
                valid = batches["is_valid"].to_pylist()
                epoch = max([epoch, *(one or 0 for one, is_valid in zip(epochs, valid, strict=True) if is_valid)])
        if epoch >= 0:
            return epoch
    return -1


def _highest_producer_id(directory: str) -> int:
    highest = -1
    for batches in Log(directory).scan():
        highest = max([highest, *(one for one in batches["producer_id"].to_pylist() if one is not None)])
    return highest


def _roots(disks: Iterable[str]) -> list[LogDirFiles]:
    roots = []
    for path in dict.fromkeys(disks):
        if not storage.is_directory(path):
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        if file_names.is_partition_directory(storage.list_directory(path)):
            raise ValueError(f"{path} is one partition's directory: give the log directory around it")
        root = LogDirFiles(path)
        if not is_remote(path):
            check_at_rest(root)
        roots.append(root)
    return roots


def _has_metadata(path: str) -> bool:
    names = storage.list_directory(path)
    return checkpoints.BOOTSTRAP in names or f"{file_names.METADATA_TOPIC}-0" in names


def _node_id(root: LogDirFiles) -> int | None:
    """Return the node of a disk; None: it does not tell, or its ids are damaged."""
    with contextlib.suppress(CorruptRecordError):
        return root.node_id
    return None


def _node_ids(roots: Iterable[LogDirFiles]) -> set[int]:
    return {node for node in map(_node_id, roots) if node is not None}


def _topic_id(log: Log) -> str | None:
    with contextlib.suppress(CorruptRecordError):
        return log.topic_id
    return None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Leave out warnings: the report says the same."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
