"""`rescue`: makes log directories that a new KRaft cluster starts on, from the surviving disks of an old cluster.

1. The newest metadata on any disk give the topics, their settings, and everything else that the controllers knew
   (`surviving_metadata`). Without metadata, the directories' names and `partition.metadata` give the topics.
2. For each partition, the best replica is chosen (`replica_ranking`): in-sync replicas first, then by the leader epoch
   of the last batch, then by the log end offset. Damaged and missing records come from the other replicas (`salvage`).
3. Each node gets a directory with its partitions and the metadata (`new_cluster`). The metadata are a file or a log
   that a new cluster starts with: the first controller loads it, and brokers find their partitions in place.

Everything is built under a name that a broker would delete, checked, and published by one rename.
"""

from __future__ import annotations

import errno
import os
from dataclasses import replace as with_fields
from functools import partial
from typing import TYPE_CHECKING

from brokerless.arguments import check_paths, listed_few, some_or_all, to_ms
from brokerless.checking.check import check
from brokerless.healing.lost_directory import lost_directory, lost_files
from brokerless.healing.producer_ids import in_snapshots, of_headers, of_transactional_ids
from brokerless.healing.rescue_plan import RescuePlan
from brokerless.healing.write_partition import write_partition
from brokerless.io import disk, storage
from brokerless.io.clock import now_ms
from brokerless.layout import checkpoints, file_names
from brokerless.layout.log_dir_files import LogDirFiles
from brokerless.layout.release import Release
from brokerless.layout.topic_config import TopicConfig
from brokerless.log.log import Log
from brokerless.log_dir.copying import StagedCopy
from brokerless.metadata.voters import Voter, parse_voters, voters_snapshot
from brokerless.notes import collected
from brokerless.recovery.loader import load
from brokerless.remarks import Remark
from brokerless.rewriting.convert import Conversion
from brokerless.rewriting.run import rewrite, rewrite_each
from brokerless.rewriting.truncate import Truncation
from brokerless.state.internal_topic import TRANSACTIONS_TOPIC
from brokerless.wording import option

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from brokerless.arguments import Time
    from brokerless.healing.report import RescueReport
    from brokerless.healing.rescue_plan import KeptReplica, RescuedPartition
    from brokerless.io.runner import Progress

_Place = tuple[str, int]


def rescue(
    *disks: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    nodes: Sequence[int] | None = None,
    voters: str | None = None,
    cluster_id: str | None = None,
    release: str | None = None,
    topics: Iterable[str] | None = None,
    rename: Mapping[str, str] | None = None,
    as_of: Time | None = None,
    convert: bool = False,
    lost_path: str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    progress: Progress = lambda _name, _size: None,
) -> RescueReport:
    """Make log directories that a new KRaft cluster starts on, from any disks of an old cluster.

    The disks are only read. Topics keep their ids, settings and records. Consumer groups and transactions continue,
    because their topics are kept, too. ACLs, quotas, SCRAM users, delegation tokens and features stay as they are in
    the newest surviving metadata.

    Args:
        disks: log directories of any brokers and controllers of one cluster, which may be a ZooKeeper cluster.
        output: the new directory. It becomes the log directory of the node or, with several nodes, holds a directory
            `node-<id>` for each. None only with `dry_run`.
        nodes: the ids of the new nodes; None: one node, with the lowest id of a node on the disks.
        voters: the controllers among the nodes, as "1@host1:9093,2@host2:9093": the metadata log names them (KIP-853).
            None: the nodes' configuration names them, in `controller.quorum.voters`.
        cluster_id: the id of the new cluster; None: the id of the old cluster. Give another id if the new cluster may
            connect to nodes of the old one. If the disks disagree because an id is damaged, give the right id here.
        release: the release of Kafka whose features the cluster starts with; None: the features of the old cluster. For
            a ZooKeeper cluster, or metadata of a release before 3.7, None means 4.0, because their features cannot be
            kept. If a release is given, metadata records that are not understood are left out.
        topics: only these topics; None: all. Groups and open transactions continue only if `__consumer_offsets` and
            `__transaction_state` are among them.
        rename: new names of topics. Renamed topics get new ids, and consumer groups have no committed offsets there.
        as_of: cut the logs at this time, and leave out later records. Each transaction is kept as a whole or not at
            all.
        convert: convert messages of formats 0 and 1 (of brokers before 0.11) to format 2.
        lost_path: the new directory for the report; by default the name of the result with ".lost" added, and a number
            if that exists.
        dry_run: change nothing, and return the report of the planned rescue.
        progress: called from any thread with the name of a log and the number of its bytes checked or written since the
            last call.

    Raises:
        FileExistsError: `output` or `lost_path` exists.
        FileNotFoundError: a disk, or the parent of `output`, does not exist.
        LogInUseError: a broker, or another writer, has a disk open, or changed it meanwhile.
        UnsupportedFormatError: the metadata have records of a newer release, and `release` is not given.
        ValueError: a disk is not a log directory, the disks belong to several clusters, a topic has several ids, or the
            arguments contradict each other.

    >>> import brokerless as bl
    >>> found = bl.rescue(SAMPLE_DIR, dry_run=True)
    >>> found.lost, list(found.nodes)
    ([], [1])
    """
    check_paths("rescue", disks)
    if (output is None) != dry_run:
        raise ValueError(f"give a directory for the result ({option('output')}), or {option('dry_run')}")
    if not disks:
        raise ValueError("give at least one disk")
    names = some_or_all("topics", topics)
    for one in disks:
        disk.check_local(os.fspath(one), "rescue")
    for made in (output, lost_path):
        disk.check_local(os.fspath("" if made is None else made))
    target = os.path.abspath(os.fspath(output if output is not None else f"{os.fspath(disks[0])}-rescued"))
    report_to = ""
    if not dry_run:
        _check_free(target)
        report_to = lost_directory(target, lost_path)
        if report_to == target:
            raise ValueError(f"the report cannot go to {target}, the directory of the result: name another one")
    with collected():
        plan = RescuePlan.of(
            [os.fspath(one) for one in disks],
            target,
            nodes=nodes,
            voters={} if voters is None else parse_voters(voters),
            cluster_id=cluster_id,
            release=None if release is None else Release.parse(release),
            topics=None if names is None else set(names),
            rename=rename,
            until=None if as_of is None else to_ms("as_of", as_of),
            converts=convert,
            progress=progress,
        )
        plan.report.dry_run = dry_run
        if not dry_run:
            _NewNodes(plan).write(report_to)
        elif as_of is None:
            plan.report.left = list(plan.foreseen())
        else:
            said = (
                "transactions that are open at that time will be committed, aborted or left out, each as a whole. A "
                "dry run does not decide which"
            )
            plan.report.notes.append(Remark("transactions-unknown", said))
    # The result and the report begin as they were given.
    result_to = target if output is None else os.fspath(output)
    lost_as_given = os.fspath(lost_path) if lost_path is not None else result_to.rstrip("/") + report_to[len(target) :]
    given = (result_to, *(os.fspath(one) for one in disks))
    return plan.report.with_paths(
        lambda path: lost_as_given if report_to and path == report_to else storage.as_given(path, *given)
    )


def _check_free(target: str) -> None:
    """Refuse an existing target early, before hours of work."""
    disk.check_local(target)
    if storage.exists(target):
        raise FileExistsError(errno.EEXIST, "the path exists already, and --output needs a new one", target)
    parent = os.path.dirname(target)
    if not storage.is_directory(parent):
        raise FileNotFoundError(errno.ENOENT, "the parent directory does not exist: create it first", parent)


class _NewNodes:
    """The writer of the new nodes' directories.

    Args:
        plan: the plan of the rescue.
    """

    def __init__(self, plan: RescuePlan) -> None:
        self._plan = plan
        self._highest = -1
        self._old_formats: set[str] = set()

    def _directory(self, to: str, node: int) -> str:
        """Return the directory of a node in the unfinished result."""
        return self._plan.report.nodes[node].replace(self._plan.report.output, to, 1)

    def write(self, report_to: str) -> None:
        """Write the directories, check them, and publish them."""
        result = self._plan.report
        disks = [root.path for root in self._plan.roots]
        with StagedCopy(result.output, is_partition=False, like=disks) as copy:
            for node in self._plan.nodes:
                directory = self._directory(copy.path, node)
                if directory != copy.path:
                    disk.make_directory(directory)
                self._write_partitions(copy, node, directory)
            if self._plan.until is not None:
                self._cut(self._plan.until, copy.path)
            for node in self._plan.nodes if self._plan.converts else ():
                self._convert(node, self._directory(copy.path, node))
            self._highest = max(self._highest, in_snapshots(self._logs()))
            for node in self._plan.nodes:
                self._write_root(node, self._directory(copy.path, node))
            if self._old_formats and not self._plan.converts:
                names = ", ".join(sorted(self._old_formats))
                said = (
                    f"messages of formats 0 and 1, of brokers before 0.11, are kept in {names}: {option('convert')} "
                    "converts them to format 2"
                )
                self._note(Remark("old-formats", said, names=tuple(sorted(self._old_formats))))
            for note in self._plan.cluster.finish_notes():
                self._note(note)
            result.left = [
                with_fields(
                    one,
                    path=one.path.replace(copy.path, result.output, 1),
                    message=one.message.replace(copy.path, result.output),
                )
                for node in self._plan.nodes
                for one in check(self._directory(copy.path, node))
                if one.severity != "note"
            ]
            self._plan.at_rest.check()
            result.lost_path = report_to
            with lost_files(report_to, result.to_dict(), copy.path, like=disks):
                copy.publish()

    def _logs(self) -> Iterator[Log]:
        """Yield all replicas of the topics, including unused ones, because their producers may return."""
        for topic in self._plan.topics.values():
            yield from topic.logs

    def _write_partitions(self, copy: StagedCopy, node: int, directory: str) -> None:
        """Write the partitions of a node, and the checkpoints."""
        points: dict[_Place, int] = {}
        starts: dict[_Place, int] = {}
        dirty: dict[_Place, int] = {}
        for one in self._plan.partitions:
            if node not in one.replicas:
                continue
            name = self._plan.new_name(one.topic)
            to = f"{directory}/{name}-{one.number}"
            if one.kept is None:
                disk.make_directory(to)
            else:
                place = name, one.number
                with copy.name_in_errors(one.kept.replica.log.path, to):
                    start, first, end = self._write_partition(copy, one, one.kept, to)
                points[place] = end
                # An entry also shows that a log is not tiered although its leader epochs begin below its first segment.
                if start != first or one.kept.repair.log_start_offset:
                    starts[place] = start
                replica = one.kept.replica
                known = replica.checkpointed(replica.log.root.first_dirty_offsets)
                if known is not None:
                    dirty[place] = min(known, end)
                self._look_at(to, one.topic.name)
            content = checkpoints.format_partition_metadata(self._plan.new_id(one.topic))
            disk.atomic_write(f"{to}/{checkpoints.PARTITION_METADATA}", content)
        for file, offsets in (
            (checkpoints.RECOVERY_POINTS, points),
            (checkpoints.LOG_START_OFFSETS, starts),
            (checkpoints.HIGH_WATERMARKS, points),
            (checkpoints.FIRST_DIRTY_OFFSETS, dirty),
        ):
            if offsets or file != checkpoints.FIRST_DIRTY_OFFSETS:
                disk.atomic_write(f"{directory}/{file}", checkpoints.format_offset_checkpoint(offsets))

    def _write_partition(
        self, copy: StagedCopy, one: RescuedPartition, kept: KeptReplica, to: str
    ) -> tuple[int, int, int]:
        """Write a partition's directory. Return its log start offset, its first base offset, and its end."""
        log, found, root = kept.replica.log, kept.repair, kept.replica.log.root
        start = found.log_start_offset
        config = self._plan.cluster.config_of(one.topic)
        loses_remote = self._plan.cluster.loses_remote(one.topic)
        if found.segments and not found.unusable:
            if loses_remote:
                start = max(start or 0, next(iter(found.segments)))
            loaded = write_partition(
                found,
                to,
                config=config,
                topic_id=self._plan.new_id(one.topic),
                log_start_offset=start,
                high_watermark=None,
                first_dirty_offset=kept.replica.checkpointed(root.first_dirty_offsets),
                progress=partial(self._plan.progress, log.name),
            )
            return loaded.log_start_offset, loaded.base_offsets[0], loaded.log_end_offset
        progress = partial(self._plan.progress, log.name)
        for name in copy.add_partition(log.path, to, progress, is_fatal=file_names.is_fatal):
            said = f"{log.path}/{name} is not copied, because a broker does not start with a file of that name"
            self._note(
                Remark("file-unknown", said, topic=log.topic, partition=log.partition, path=f"{log.path}/{name}")
            )
        first, end = log.segments[0].base_offset if log.segments else log.log_start_offset, log.log_end_offset
        # Leader epochs of records that were only in remote storage are dropped, and so are records that another replica
        # has deleted.
        new_start = max(first if loses_remote else log.log_start_offset, start or 0)
        if log.log_start_offset < new_start:
            loaded = load(to, config, is_clean=True, recovery_point=end, log_start_offset=new_start, now=now_ms())
            loaded.changes.apply()
            return loaded.log_start_offset, loaded.base_offsets[0], loaded.log_end_offset
        return log.log_start_offset, first, end

    def _look_at(self, directory: str, topic: str) -> None:
        """Collect the highest producer id and old message formats from a new partition's batches."""
        log = Log(directory)
        found = of_headers(log)
        self._highest = max(self._highest, found.producer_id)
        if found.magic < 2:
            self._old_formats.add(self._plan.rename.get(topic, topic))
        if topic == TRANSACTIONS_TOPIC:
            with collected() as notes:
                self._highest = max(self._highest, of_transactional_ids(log))
            # All replicas of a partition have the same.
            doubts = [Remark("producer-ids", note, topic=TRANSACTIONS_TOPIC, partition=log.partition) for note in notes]
            self._plan.report.doubts += [doubt for doubt in doubts if doubt not in self._plan.report.doubts]

    def _cut(self, until: int, to: str) -> None:
        """Cut the logs of all nodes at one time, so that each transaction is whole or absent.

        Kafka's own topics are cut, too, so groups continue from their state at that time.
        """
        nodes = [node for node in self._plan.nodes if self._topics_of(node)]
        if not nodes:
            return
        ended: dict[bool, set[int]] = {True: set(), False: set()}
        for done in rewrite_each(
            Truncation(timestamp=until, sole_replica=True),
            [self._directory(to, node) for node in nodes],
            topics=sorted({topic for node in nodes for topic in self._topics_of(node)}),
        ):
            # All replicas of a partition have the same.
            if done.report.ended:
                self._plan.report.ended[done.name] = list(done.report.ended)
            for one in done.report.ended:
                ended[one.is_committed].add(one.producer_id)
            if done.report.whole_from is not None:
                said = (
                    f"{done.name} is cut at offset {done.report.log_end_offset} and not at {done.report.whole_from}, "
                    "because the COMMIT marker there ends a transaction that is incomplete in other partitions at "
                    "that time"
                )
                self._note(Remark("cut-before", said, topic=done.topic, partition=done.partition))
        if any(ended.values()) and TRANSACTIONS_TOPIC not in self._plan.topics:
            said = (
                f"{TRANSACTIONS_TOPIC} is not among the topics, so only COMMIT and ABORT markers show which "
                "transactions were decided at that time"
            )
            self._note(Remark("transactions-unknown", said, topic=TRANSACTIONS_TOPIC))
        for is_committed, producers in ended.items():
            if producers:
                several = "s" if len(producers) > 1 else ""
                was = "were" if several else "was"
                end = "committed, because this" if is_committed else "aborted, because nothing"
                said = (
                    f"the last transaction{several} of producer{several} {listed_few(map(str, sorted(producers)))} "
                    f"{was} open at that time. Each is now {end} had been decided by then"
                )
                code = "transactions-committed" if is_committed else "transactions-aborted"
                self._note(Remark(code, said, names=tuple(map(str, sorted(producers)))))

    def _topics_of(self, node: int) -> set[str]:
        """Return the new names of the topics that have records on a node."""
        return {
            self._plan.new_name(one.topic)
            for one in self._plan.partitions
            if one.kept is not None and node in one.replicas
        }

    def _convert(self, node: int, directory: str) -> None:
        """Convert the records of a node."""
        topics = self._topics_of(node)
        if not topics & self._old_formats:
            return
        for done in rewrite(
            Conversion(magic=2, sole_replica=True), directory, topics=sorted(topics & self._old_formats)
        ):
            # Logs of older formats have no leader epochs, and so no leader epoch checkpoint.
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
        """Write the metadata that the cluster starts with, the ids, and the clean-shutdown marker."""
        records = self._plan.records(self._highest)
        voters = [Voter(one, self._plan.directory_ids[one], *place) for one, place in self._plan.voters.items()]
        file, *of_voters = self._plan.metadata_files(directory)
        contents = {file: voters_snapshot(() if of_voters else voters, now_ms(), records)}
        contents |= {path: voters_snapshot(voters, now_ms()) for path in of_voters}
        for path, content in contents.items():
            if (around := os.path.dirname(path)) != directory:
                disk.make_directory(around)
            disk.atomic_write(path, content)
        meta = checkpoints.MetaProperties(1, self._plan.report.cluster_id, node, self._plan.directory_ids[node])
        disk.atomic_write(f"{directory}/{checkpoints.META_PROPERTIES}", checkpoints.format_meta_properties(meta))
        marker = checkpoints.format_clean_shutdown(checkpoints.NO_BROKER_EPOCH)
        disk.atomic_write(f"{directory}/{checkpoints.CLEAN_SHUTDOWN}", marker)
        disk.sync_directory(directory)

    def _note(self, note: Remark) -> None:
        if note not in self._plan.report.notes:
            self._plan.report.notes.append(note)
