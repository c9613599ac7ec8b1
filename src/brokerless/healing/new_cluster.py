"""The metadata that a rescued cluster starts with: its nodes, topics, settings, and all other records.

Replicas stay on their nodes if the new cluster has these nodes. Settings that the new cluster cannot keep are changed.
Each change is noted.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from brokerless.arguments import listed_few
from brokerless.errors import BrokerlessError, UnsupportedFormatError
from brokerless.healing.surviving_metadata import IN_SYNC, is_above
from brokerless.layout.topic_config import TopicConfig
from brokerless.metadata.bootstrap import (
    LEAST_METADATA_VERSION,
    OLDEST_RELEASE,
    feature_level,
    feature_records,
    next_block,
)
from brokerless.metadata.records import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    config_record,
    partition_record,
    producer_ids_record,
    topic_record,
)
from brokerless.remarks import Remark
from brokerless.state.internal_topic import REMOTE_LOG_METADATA_TOPIC
from brokerless.wording import counted, option

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from brokerless.healing.found_topics import FoundTopic
    from brokerless.healing.surviving_metadata import SurvivingImage, SurvivingMetadata
    from brokerless.layout.release import Release
    from brokerless.log.log import Log

_REMOTE = "remote.storage.enable"
_ELR = "eligible.leader.replicas.version"
_OF_REMOTE = re.compile(r"remote\..*|local\.retention\..*")
# The settings with which brokers create their own topics, without those that depend on the number of replicas.
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


class NewPartition(NamedTuple):
    """A partition of the new cluster.

    Attributes:
        number: the partition number.
        replicas: the nodes of its replicas.
        leader_epoch: the highest known leader epoch of the partition.
    """

    number: int
    replicas: list[int]
    leader_epoch: int


class NewCluster:
    """The new cluster.

    Args:
        nodes: the ids of its nodes.
        metadata: the metadata of the old cluster; None if not known.
        release: the release whose features it starts with; None: the features of the old cluster.
        is_fork: whether the new cluster has another id, because it may meet the old cluster.
        names_voters: whether its metadata log names the controllers (KIP-853); otherwise their configuration does.
        rename: the new names of topics.

    Attributes:
        notes: the differences from the old cluster.

    Raises:
        UnsupportedFormatError: the metadata have records of a newer Kafka release, and no `release` is given.
    """

    def __init__(
        self,
        nodes: Sequence[int],
        metadata: SurvivingMetadata | None,
        *,
        release: Release | None,
        is_fork: bool,
        names_voters: bool,
        rename: Mapping[str, str],
    ) -> None:
        self._nodes, self._release, self._is_fork, self._rename = nodes, release, is_fork, rename
        self._image: SurvivingImage | None = None if metadata is None else metadata.image
        # A dict keeps the order, and finds a note quickly.
        self.notes: dict[Remark, None] = {}
        self._moved: list[str] = []
        self._tiered: dict[str, bool | None] = {}
        if metadata is None:
            return
        if metadata.image.feature_level("kraft.version") and not names_voters:
            self._note(
                "voters-unnamed",
                "the old metadata log names the controllers, but the new one does not. Set controller.quorum.voters "
                f"on the new nodes, or give {option('voters')}",
            )
        lost, of_new_types = metadata.image.lost_meaning, len(metadata.image.of_new_types)
        if lost and release is None:
            found = "; ".join(f"{counted(count, 'record')}: {why}" for why, count in lost.items())
            is_newer = all(why.startswith("unknown version") for why in lost)
            raise UnsupportedFormatError(
                f"metadata records{' of a newer release' * is_newer} cannot be decoded: their content would be lost "
                f"({found}). {'Use a newer brokerless, or g' if is_newer else 'G'}ive the release of Kafka that the "
                f"new cluster has ({option('release')}), which leaves these records out",
                path=metadata.path,
            )
        for why, count in lost.items():
            records = "a metadata record is" if count == 1 else f"{count} metadata records are"
            self._note("metadata-left-out", f"{records} left out, because decoding failed: {why}")
        if of_new_types:
            what = "left out" if release is not None else "kept as they are"
            records = "record of an unknown type is" if of_new_types == 1 else "records of unknown types are"
            self._note("metadata-unknown", f"{of_new_types} metadata {records} {what}")

    def nodes_of(self, topic: FoundTopic, number: int, turn: int) -> list[int]:
        """Return the nodes of a partition: as many as before, and the old nodes, as far as the new cluster has them.

        Args:
            topic: the topic.
            number: the partition number.
            turn: the index of the node to begin at, which spreads partitions over the nodes.
        """
        before = self._replicas(topic, number)
        count = min(len(before) if before else len(self._nodes), len(self._nodes))
        staying = [node for node in dict.fromkeys(before) if node in self._nodes]
        turned = [*self._nodes[turn % len(self._nodes) :], *self._nodes[: turn % len(self._nodes)]]
        return [*staying, *(node for node in turned if node not in staying)][:count]

    def _replicas(self, topic: FoundTopic, number: int) -> list[int]:
        """Return the nodes of a partition in the old cluster.

        During a reassignment, these are the target nodes if one of them is in sync, else the original ones.
        """
        known: dict[str, Any] = topic.partitions.get(number, {})
        every = known.get("replicas") or []
        adding, removing = set(known.get("adding_replicas") or ()), set(known.get("removing_replicas") or ())
        if not adding and not removing:
            return list(every)
        target = [node for node in every if node not in removing]
        origin = [node for node in every if node not in adding]
        in_sync = set(known.get("isr") or ())
        self._moved.append(f"{topic.name}-{number}")
        return target if target and (in_sync & set(target) or not origin) else origin

    def config_of(self, topic: FoundTopic) -> TopicConfig:
        """Return the settings of a topic that matter for its files."""
        configs = {} if self._image is None or not topic.is_known else self._image.configs_of(topic.name)
        policy = configs.get("cleanup.policy", _INTERNAL_SETTINGS.get(topic.name, {}).get("cleanup.policy"))
        settings: dict[str, object] = {} if policy is None else {"cleanup_policy": policy}
        settings["remote_storage_enable"] = self._tiered.get(topic.name, False)
        return TopicConfig().with_keywords(settings)

    def loses_remote(self, topic: FoundTopic) -> bool:
        """Return whether a topic had segments in remote storage that the new cluster cannot read."""
        return self._tiered.get(topic.name) is False

    def find_tiered(self, topics: Iterable[FoundTopic], names: Container[str]) -> None:
        """Find the topics with segments in remote storage, and decide which of them keep these segments.

        Args:
            topics: the topics.
            names: the names of all topics on the disks.
        """
        for topic in topics:
            configs = {} if self._image is None or not topic.is_known else self._image.configs_of(topic.name)
            is_set = configs.get(_REMOTE, "").strip().lower() == "true"
            before = [] if topic.is_known else [log for log in topic.logs if _missing(log) is not None]
            if not is_set and not before:
                continue
            new_name = self._rename.get(topic.name, topic.name)
            starts = "" if topic.is_known else f" ({_start(before[0])})"
            gone = (
                "the result lacks the records that are only in remote storage, and its partitions begin with their "
                "first local segment"
            )
            if new_name != topic.name:
                self._tiered[topic.name] = False
                self._note(
                    "remote-storage",
                    f"topic {topic.name}{starts} has segments in remote storage. They belong to the topic's old id, so "
                    f"{new_name} cannot read them. So {gone}",
                    topic=topic.name,
                )
            elif self._is_fork:
                self._tiered[topic.name] = False
                self._note(
                    "remote-storage",
                    f"topic {topic.name}{starts} has segments in remote storage. A cluster with another id must not "
                    f"use this storage, because retention would delete the old cluster's segments. So {gone}",
                    topic=topic.name,
                )
            elif topic.is_known:
                self._tiered[topic.name] = True
                self._note(
                    "remote-storage",
                    f"topic {topic.name} has segments in remote storage. Configure the new brokers with the same "
                    "remote storage, but only if the old brokers stay down, because two clusters would delete each "
                    "other's segments",
                    topic=topic.name,
                )
            elif REMOTE_LOG_METADATA_TOPIC in names:
                self._tiered[topic.name] = True
                self._note(
                    "remote-storage",
                    f"topic {topic.name}{starts} has segments in remote storage, and its settings are lost: it gets "
                    f"{_REMOTE}=true. Configure the new brokers with the same storage",
                    topic=topic.name,
                )
            else:
                self._tiered[topic.name] = None
                self._note(
                    "remote-storage",
                    f"topic {topic.name}{starts} has segments in remote storage, or has lost them. If the remote "
                    f"storage still exists, set {_REMOTE}=true before a broker starts",
                    topic=topic.name,
                )

    def settings(self, topic: FoundTopic, replicas: int) -> dict[str, str]:
        """Return the topic-level settings of a topic that has this number of replicas."""
        if self._image is None or not topic.is_known:
            # With Kafka's defaults, a broker would delete records older than seven days within minutes.
            settings = dict(_INTERNAL_SETTINGS.get(topic.name, {"retention.ms": "-1"}))
            return {**settings, _REMOTE: "true"} if self._tiered.get(topic.name) else settings
        settings = self._image.configs_of(topic.name)
        if is_above(settings.get(IN_SYNC), replicas):
            # Otherwise no producer could write to the topic with acks=all.
            wanted = settings[IN_SYNC][:20]
            settings[IN_SYNC] = str(replicas)
            self._note(
                "min-insync-replicas",
                f"{IN_SYNC} of topic {topic.name} is lowered from {wanted} to {replicas}, the number of its replicas",
                topic=topic.name,
            )
        if self._tiered.get(topic.name) is False:
            settings = {name: value for name, value in settings.items() if not _OF_REMOTE.fullmatch(name)}
        return settings

    @property
    def _new_release(self) -> Release | None:
        """The release whose features the cluster starts with; None if it keeps the old cluster's features."""
        if self._image is None or self._image.feature_level("metadata.version") < LEAST_METADATA_VERSION:
            return self._release or OLDEST_RELEASE
        return self._release

    @property
    def starts_with_log(self) -> bool:
        """True if the cluster starts with a metadata log instead of a `bootstrap.checkpoint`.

        With a `bootstrap.checkpoint`, the first controller finds an empty log. If the feature of eligible leader
        replicas is on, the controller then sets the cluster-wide min.insync.replicas from its configuration, and
        ignores the setting in the `bootstrap.checkpoint` (KIP-966, `ActivationRecordsGenerator`).
        """
        image, release = self._image, self._new_release
        if image is None or IN_SYNC not in image.broker_configs.get("", {}):
            return False
        return (image.feature_level(_ELR) if release is None else feature_level(release, _ELR)) > 0

    def _broker_settings(self, image: SurvivingImage) -> Iterator[bytes]:
        """Yield the records of the dynamic settings of brokers."""
        nodes, absent = {str(node) for node in self._nodes}, dict[str, list[str]]()
        for broker, name, value, record in image.broker_settings():
            if broker and broker not in nodes:
                absent.setdefault(broker, []).append(name)
            elif name == IN_SYNC and is_above(value, len(self._nodes)):
                # Otherwise no producer could write with acks=all.
                whose = f"broker {broker}" if broker else "the cluster"
                self._note(
                    "min-insync-replicas",
                    f"{IN_SYNC} of {whose} is lowered from {value[:20]} to {len(self._nodes)}, the number of nodes",
                )
                yield config_record(BROKER_RESOURCE, broker, name, str(len(self._nodes)))
            else:
                yield record
        for broker, names in absent.items():
            self._note(
                "broker-settings-left-out",
                f"settings of broker {broker[:20]} are left out, because the new cluster does not have this node: "
                f"{listed_few(names)}",
                names=names,
            )

    def first_producer_id(self, highest: int) -> int:
        """Return the first producer id that the cluster hands out, given the highest one on the disks."""
        known = 0 if self._image is None else self._image.next_producer_id
        if highest < known:
            return known
        # Controllers allocate ids to brokers in blocks. If the metadata are not the newest, another broker may have had
        # the next block.
        return next_block(next_block(highest)) if highest >= 0 else known

    def records(
        self,
        topics: Iterable[tuple[FoundTopic, str, Sequence[NewPartition]]],
        directories: Mapping[int, str],
        highest_producer_id: int,
    ) -> Iterator[bytes]:
        """Yield the metadata records.

        Args:
            topics: each topic, with its new id and its partitions.
            directories: the id of each node's directory.
            highest_producer_id: the highest producer id on the disks; -1 if none.
        """
        image, release = self._image, self._new_release
        if image is not None and release is None:
            yield from image.features()
        else:
            self._note("features", f"the cluster starts with the features of Kafka {release}")
            yield from feature_records(release or OLDEST_RELEASE)
        if image is not None:
            yield from self._broker_settings(image)
            yield from image.others()
        first = self.first_producer_id(highest_producer_id)
        if first:
            yield producer_ids_record(self._nodes[0], first)
        for topic, topic_id, partitions in topics:
            name = self._rename.get(topic.name, topic.name)
            yield topic_record(name, topic_id)
            for config, value in self.settings(topic, min(len(one.replicas) for one in partitions)).items():
                yield config_record(TOPIC_RESOURCE, name, config, value)
            for one in partitions:
                # Clients and followers could not tell a leader of the same epoch from the old one.
                epoch = min(one.leader_epoch + 1, (1 << 31) - 1)
                places = [directories[node] for node in one.replicas]
                yield partition_record(one.number, topic_id, one.replicas, epoch, places)
        if image is not None and self._release is None:
            # These records come last, because they may refer to any other record.
            yield from image.of_new_types

    def finish_notes(self) -> list[Remark]:
        """Return all notes."""
        if self._moved:
            self._note(
                "partition-moving",
                f"these partitions were being moved to other nodes: {listed_few(self._moved)}. The replicas that were "
                "to be removed are left out. If no other replica was in sync, the replicas that were to be added are "
                "left out instead",
                names=self._moved,
            )
        return list(self.notes)

    def _note(self, code: str, message: str, *, topic: str | None = None, names: Iterable[str] = ()) -> None:
        self.notes[Remark(code, message, topic=topic, names=tuple(names))] = None


def _missing(log: Log) -> tuple[int, int] | None:
    """Return the offsets of a log before its first local segment; None if it has none, or they are not known."""
    with contextlib.suppress(BrokerlessError, OSError):
        return log.missing_offsets
    return None


def _start(log: Log) -> str:
    start, first = _missing(log) or (0, 0)
    return f"{log.path} starts at offset {start}, but its first segment at {first}"
