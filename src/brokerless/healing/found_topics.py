"""The topics of the new cluster after a rescue: their ids, their numbers of partitions, and the replicas on the disks.

- With metadata, a topic has the partitions that the metadata name. A directory with a higher partition number is used
  only if it has the topic's id: a broker created it after the last metadata on these disks.
- Without metadata, the directory with the highest partition number gives the topic's number of partitions. For Kafka's
  own topics, the keys of their records give this number (`partition_counts`).
- A directory with another topic id belongs to an older topic of the same name, and is ignored.
- A replica without a readable topic id ranks after replicas with one, because it may belong to an older topic.
- A replica that was being moved to another disk (`-future`) ranks after an equal replica that was not being moved.
- A replica that its broker renamed to `-stray` is used if the partition has no other replica, and no other topic has
  the same name. A broker that starts with a new metadata log renames all its replicas to `-stray`.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from brokerless.arguments import listed_few
from brokerless.errors import CorruptRecordError
from brokerless.healing.partition_counts import likely_count
from brokerless.healing.replica_ranking import Replica, node_id_of, ranked
from brokerless.io import storage
from brokerless.io.remote import is_remote
from brokerless.layout import checkpoints, commit_journal, file_names
from brokerless.layout.file_names import chosen_topics
from brokerless.layout.log_dir_files import LogDirFiles, hint_at_log_dirs, inactive_in, is_log_dir
from brokerless.log.log import Log
from brokerless.log_dir.copying import check_at_rest
from brokerless.remarks import Remark
from brokerless.wording import option

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from brokerless.healing.surviving_metadata import SurvivingImage

_T = TypeVar("_T")

# `LocalLog.logDirNameWithSuffixCappedLength`
_LONGEST_NAME = 255


@dataclass
class FoundTopic:
    """A topic of the old cluster.

    Attributes:
        name: the topic's name.
        topic_id: the topic's id.
        is_known: whether the metadata contain the topic.
        has_id: whether its id comes from the metadata or a directory; otherwise the id is new.
        count: the number of partitions.
        partitions: the metadata of the partitions, by number.
        replicas: the replicas of each partition on the disks, by number.
    """

    name: str
    topic_id: str
    is_known: bool
    has_id: bool = True
    count: int = 0
    partitions: dict[int, dict[str, Any]] = field(default_factory=dict)
    replicas: dict[int, list[Replica]] = field(default_factory=dict)

    @property
    def logs(self) -> list[Log]:
        """The logs of all replicas."""
        return [replica.log for replicas in self.replicas.values() for replica in replicas]


class _Disk(LogDirFiles):
    """A log directory on a disk that may be failing: a file that cannot be read is treated as damaged."""

    def _parsed(self, name: str, parse: Callable[[bytes], _T], absent: _T) -> _T:
        try:
            return super()._parsed(name, parse, absent)
        except OSError as error:
            raise CorruptRecordError(f"cannot be read: {error}", path=self._file(name)) from error


def damaged_checkpoints(roots: Iterable[LogDirFiles]) -> list[Remark]:
    """Return a remark for each damaged checkpoint on some disks. Such a checkpoint is treated as empty."""
    found = []
    for root in roots:
        for name in checkpoints.OFFSET_CHECKPOINTS:
            try:
                checkpoints.parse_offset_checkpoint(storage.read_all(f"{root.path}/{name}"))
            except FileNotFoundError:
                continue
            except (OSError, CorruptRecordError) as error:
                said = (
                    f"{root.path}/{name} is not used, because it cannot be read ({error}). Without it, deleted records "
                    "may become visible again, and lost records may not be reported"
                )
                found.append(Remark("checkpoint-damaged", said, path=f"{root.path}/{name}"))
    return found


def open_disks(paths: Iterable[str]) -> list[LogDirFiles]:
    """Return log directories, after a check that no process has them open.

    Raises:
        FileNotFoundError: a path does not exist.
        LogInUseError: a broker, or another writer, has a directory open.
        ValueError: a path is a partition directory, or not a log directory.
    """
    roots: list[LogDirFiles] = []
    for path in dict.fromkeys(paths):
        if not storage.is_directory(path):
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        if file_names.is_partition_directory(storage.list_directory(path)):
            raise ValueError(f"{path} is one partition's directory: give the log directory around it")
        if not is_log_dir(path):
            what = "it has none of a broker's own files, and no partition's directory"
            raise ValueError(f"{path} is not a log directory{hint_at_log_dirs(path) or f': {what}'}")
        root = _Disk(path)
        if not is_remote(path):
            check_at_rest(root)
        roots.append(root)
    return roots


def find_topics(
    roots: Iterable[LogDirFiles],
    image: SurvivingImage | None,
    wanted: set[str] | None,
    notes: list[Remark],
    doubts: list[Remark],
) -> tuple[dict[str, FoundTopic], set[str]]:
    """Return the topics by name, sorted, and the names of those that are not wanted.

    Args:
        roots: the disks.
        image: the metadata; None if no disk has any.
        wanted: only these topics; None: all.
        notes: receives a remark for each unused or uncertain part of the disks.
        doubts: receives a remark for each topic with `-stray` replicas that may belong to another topic.

    Raises:
        ValueError: no topic has a wanted name; a topic has several ids, and no metadata show which id is right; or a
            topic has too many partitions.
    """
    here, strays = _listed(roots)
    by_metadata = {} if image is None else dict(image.topic_ids)
    for name in [name for name in by_metadata if not _is_topic(name)]:
        notes.append(
            Remark(
                "topic-name",
                f"the metadata have a topic whose name is not valid, and it is left out: {name!r}",
                topic=name,
            )
        )
        del by_metadata[name]
    names = {topic_id: name for name, topic_id in by_metadata.items()}
    _move_lone_strays(strays, here, {*by_metadata, *here}, names)
    known = {*by_metadata, *here}
    inactive = (one for root in roots for one in inactive_in(root.path))
    topics = {}
    for name in sorted(known) if wanted is None else chosen_topics(wanted, known, inactive):
        topic_id = _topic_id(name, here.get(name, {}), by_metadata, has_metadata=image is not None, notes=notes)
        topic = topics[name] = FoundTopic(name, topic_id, name in by_metadata)
        topic.has_id = topic.is_known or any(
            replica.topic_id is not None for replicas in here.get(name, {}).values() for replica in replicas
        )
        topic.partitions = image.partitions_of(name) if image is not None and topic.is_known else {}
        for number, replicas in here.get(name, {}).items():
            if of_topic := [replica for replica in replicas if replica.topic_id in (None, topic_id)]:
                topic.replicas[number] = of_topic
        paths = [one.log.path for replicas in topic.replicas.values() for one in replicas if one.state == "stray"]
        if paths:
            # The directory name shortens a long topic name.
            cut = "; the name may be cut" if any(len(os.path.basename(path)) == _LONGEST_NAME for path in paths) else ""
            said = (
                f"topic {name} is in no metadata. It is restored from directories that a broker renamed -stray: "
                f"{listed_few(paths)}{cut}. Either the topic was deleted, or the broker started with a new metadata "
                "log. If the topic was deleted, leave it out"
            )
            doubts.append(Remark("stray", said, topic=name, names=tuple(paths)))
    _add_strays(topics, strays, names, notes, doubts)
    for topic in topics.values():
        _count(topic, notes, has_metadata=image is not None)
    if image is None and any(not file_names.is_internal(name) for name in topics):
        said = (
            "without metadata, the highest partition found on the disks determines how many partitions a topic gets. "
            "A topic may have had more"
        )
        notes.append(Remark("partition-count", said))
    return {name: topic for name, topic in topics.items() if topic.count}, known - topics.keys()


def _listed(
    roots: Iterable[LogDirFiles],
) -> tuple[dict[str, dict[int, list[Replica]]], list[Replica]]:
    """Return the replicas by topic and partition, and the `-stray` replicas."""
    here: dict[str, dict[int, list[Replica]]] = defaultdict(lambda: defaultdict(list))
    strays = []
    for root in roots:
        found, _ = commit_journal.list_consistent(root.path)
        for name, path in sorted(found.items()):
            try:
                parsed = file_names.parse_directory_name(name)
            except ValueError:
                continue
            if parsed.topic == file_names.METADATA_TOPIC or parsed.leftover == "delete" or not _is_topic(parsed.topic):
                continue
            log = Log(path, root=root)
            topic_id = None
            with contextlib.suppress(CorruptRecordError, OSError):
                topic_id = log.topic_id
            replica = Replica(log, topic_id, parsed.leftover)
            if parsed.leftover == "stray":
                strays.append(replica)
            else:
                here[parsed.topic][parsed.partition].append(replica)
    return here, strays


def _is_topic(name: str) -> bool:
    with contextlib.suppress(ValueError):
        file_names.check_topic_name(name)
        return True
    return False


def _topic_id(
    name: str,
    here: Mapping[int, list[Replica]],
    by_metadata: Mapping[str, str],
    *,
    has_metadata: bool,
    notes: list[Remark],
) -> str:
    """Return the topic id to use for a topic name."""
    paths: dict[str, list[str]] = defaultdict(list)
    for replicas in here.values():
        for replica in replicas:
            if replica.topic_id is not None:
                paths[replica.topic_id].append(replica.log.path)
    if name in by_metadata:
        chosen = by_metadata[name]
    elif len(paths) > 1:
        places = ", ".join(f"{topic_id} in {of_id[0]}" for topic_id, of_id in paths.items())
        raise ValueError(
            f"topic {name!r} was created several times, and no metadata say which topic id is current: {places}. Leave "
            "out the disks that have the other ids, or move their directories away"
        )
    else:
        chosen = next(iter(paths), None) or checkpoints.random_id()
        if has_metadata and not file_names.is_internal(name):
            said = (
                f"topic {name} is not in the metadata: the topic was deleted, or was created after the metadata were "
                "written. It is kept, with retention.ms=-1 as its only setting"
            )
            notes.append(Remark("topic-unknown", said, topic=name))
    for topic_id, of_id in paths.items():
        if topic_id != chosen:
            said = f"not used: {listed_few(of_id)} (an older topic with the name {name!r} and the id {topic_id})"
            notes.append(Remark("replica-unused", said, topic=name, names=tuple(of_id)))
    return chosen


def _move_lone_strays(
    strays: list[Replica],
    here: dict[str, dict[int, list[Replica]]],
    known: Collection[str],
    names: Mapping[str, str],
) -> None:
    """Add `-stray` replicas to the other replicas, unless another topic has the same name or the same id."""
    for replica in list(strays):
        name = replica.log.topic or ""
        if name not in known and replica.topic_id not in names:
            here[name][replica.log.partition or 0].append(replica)
            strays.remove(replica)


def _add_strays(
    topics: Mapping[str, FoundTopic],
    strays: Iterable[Replica],
    names: Mapping[str, str],
    notes: list[Remark],
    doubts: list[Remark],
) -> None:
    """Add `-stray` replicas to partitions without any other replica."""
    older: dict[tuple[str, str | None], list[str]] = defaultdict(list)
    for replica in strays:
        # The directory name shortens a long topic name: the topic id identifies the topic.
        name = names.get(replica.topic_id or "", replica.log.topic or "")
        topic, number, path = topics.get(name), replica.log.partition or 0, replica.log.path
        if topic is None:
            continue
        if replica.topic_id != topic.topic_id:
            older[name, replica.topic_id].append(path)
        elif any(other.state != "stray" for other in topic.replicas.get(number, [])):
            said = (
                f"not used: {path} (the broker renamed it -stray, because the topic was deleted, or the partition was "
                "moved to other nodes)"
            )
            notes.append(Remark("replica-unused", said, topic=name, partition=number, path=path))
        else:
            said = (
                f"{name}-{number} comes from {path}, which its broker renamed -stray, because no other replica is left"
            )
            notes.append(Remark("stray", said, topic=name, partition=number, path=path))
            topic.replicas.setdefault(number, []).append(replica)
    for (name, topic_id), paths in older.items():
        which = "have no topic id" if topic_id is None else f"have the topic id {topic_id}"
        said = (
            f"not used: {listed_few(paths)}. A broker renamed these directories -stray. They {which}, but topic {name} "
            f"has the id {topics[name].topic_id}. Each can be read as a partition directory"
        )
        doubts.append(Remark("replica-unused", said, topic=name, names=tuple(paths)))


def _count(topic: FoundTopic, notes: list[Remark], *, has_metadata: bool) -> None:
    """Find the number of partitions of a topic, and leave out the directories with higher numbers."""
    highest = max(topic.replicas, default=-1)
    if topic.is_known:
        topic.count = max(topic.partitions, default=-1) + 1
        above = sorted(number for number in topic.replicas if number >= topic.count)
        sure = [number for number in above if any(one.topic_id is not None for one in topic.replicas[number])]
        unsure = [
            replica.log.path
            for number in above
            if not sure or number > sure[-1]
            for replica in topic.replicas.pop(number)
        ]
        if sure:
            said = (
                f"the metadata have {topic.count} partitions of topic {topic.name}, but the disks have partition "
                f"{sure[-1]} with its topic id: partitions were added after the metadata were written"
            )
            notes.append(Remark("partition-count", said, topic=topic.name, partition=sure[-1]))
            topic.count = sure[-1] + 1
        if unsure:
            said = (
                f"not used: {listed_few(unsure)}, because the metadata have only {topic.count} partitions of "
                f"{topic.name}"
            )
            notes.append(Remark("replica-unused", said, topic=topic.name, names=tuple(unsure)))
        if not topic.count:
            said = f"topic {topic.name} is left out: it has no partitions"
            notes.append(Remark("topic-empty", said, topic=topic.name))
    else:
        # Partition numbers have no gaps, so only their count matters, as it does for keys and groups.
        topic.count = highest + 1
    if topic.count > file_names.MOST_PARTITIONS:
        raise ValueError(
            f"topic {topic.name!r} has a partition {topic.count - 1}, but a topic has at most "
            f"{file_names.MOST_PARTITIONS} partitions: leave the topic out, or move the directory of that partition "
            "away"
        )
    if not topic.is_known and file_names.is_internal(topic.name):
        best = {number: ranked(replicas)[0].log for number, replicas in topic.replicas.items()}
        count = likely_count(topic.name, best, topic.count)
        if count.reason:
            what = "no metadata" if not has_metadata else "the metadata do not"
            said = f"{what} say how many partitions {topic.name} has. It gets {count.partitions}, {count.reason}"
            notes.append(Remark("partition-count", said, topic=topic.name))
        topic.count = count.partitions


def same_cluster(roots: Iterable[LogDirFiles], wanted: str | None, notes: list[Remark]) -> str | None:
    """Return the id of the cluster of some disks; None if no disk has it.

    Args:
        roots: the disks.
        wanted: the id of the new cluster; None: the id of the old one. If one disk has this id, all disks are treated
            as disks of that cluster.
        notes: receives a remark for each id that is not used, with the reason.

    Raises:
        ValueError: the disks belong to several clusters: their ids differ in more than one bit, and none of them is
            `wanted`.
    """
    paths: dict[str, list[str]] = {}
    for root in roots:
        try:
            found = root.cluster_id
        except CorruptRecordError as error:
            said = f"the ids of {root.path} are not used: {error}"
            notes.append(Remark("ids-damaged", said, path=f"{root.path}/{checkpoints.META_PROPERTIES}"))
            continue
        if found:
            paths.setdefault(found, []).append(root.path)
        elif found is not None:
            said = f"the cluster.id of {root.path} is not used, because it is empty"
            notes.append(Remark("ids-damaged", said, path=f"{root.path}/{checkpoints.META_PROPERTIES}"))
    if not paths:
        return None
    chosen = wanted if wanted in paths else max(paths, key=lambda one: len(paths[one]))
    for other, of_other in paths.items():
        if other == chosen:
            continue
        if chosen != wanted and not _is_flipped(chosen, other):
            places = ", ".join(f"{one} in {of_id[0]}" for one, of_id in paths.items())
            raise ValueError(
                f"the disks belong to different clusters: {places}. Rescue each cluster by itself. If they are one "
                f"cluster with a damaged id, give the right id ({option('cluster_id')})"
            )
        why = "the given id"
        if chosen != wanted:
            disks = f"{len(paths[chosen])} of {sum(map(len, paths.values()))} disks"
            why = f"the id on {disks}. To use the other id, give it ({option('cluster_id')})"
        said = (
            f"the cluster.id of {listed_few(of_other)} is {other}. This is treated as a damaged form of {chosen}, {why}"
        )
        notes.append(Remark("ids-damaged", said, names=tuple(of_other)))
    return chosen


def _is_flipped(one: str, other: str) -> bool:
    """Return whether two texts differ in one bit. Ids of different clusters differ in about half of their bits."""
    if len(one) != len(other):
        return False
    return sum((ord(mine) ^ ord(theirs)).bit_count() for mine, theirs in zip(one, other, strict=True)) == 1


def node_ids(roots: Iterable[LogDirFiles]) -> Iterator[int]:
    """Yield the nodes of some disks."""
    yield from sorted({node for node in map(node_id_of, roots) if node is not None})
