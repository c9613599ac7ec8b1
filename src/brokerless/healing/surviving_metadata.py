"""The newest metadata of a cluster on any of its disks, with the records as Kafka wrote them.

Each controller, and each broker, has a copy of the metadata log. The copy that goes furthest counts: by the leader
epoch of its last sound batch, then by its end. What only a minority of the controllers had may not have been committed;
a disk does not tell.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

from brokerless.errors import CorruptRecordError, UnsupportedFormatError
from brokerless.layout.file_names import METADATA_TOPIC
from brokerless.log.log import Log
from brokerless.state.cluster import replay_metadata
from brokerless.state.metadata_image import MetadataImage

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    _Key = tuple[Any, ...]

_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4


class SurvivingImage(MetadataImage):
    """The metadata of a cluster, with the bytes of the records that make it up.

    Attributes:
        next_producer_id: all lower producer ids have been handed to brokers.
        unknown: records of types or versions that are not known, in order.
    """

    def __init__(self) -> None:
        super().__init__(secrets=True)
        self.next_producer_id = 0
        self.unknown: list[bytes] = []
        self._records: dict[_Key, bytes] = {}

    def not_understood(self, record: bytes) -> None:
        """Keep a record whose meaning is not known."""
        self.unknown.append(record)

    def replayed(self, name: str, value: dict[str, Any], record: bytes) -> None:
        """Keep the latest record of each thing."""
        key = _KEYS[name](value) if name in _KEYS else None
        if key is not None:
            self._records.pop(key, None)
            self._records[key] = record
        if name == "ProducerIdsRecord":
            self.next_producer_id = value["nextProducerId"]

    @property
    def topic_ids(self) -> dict[str, str]:
        """The topic ids by name."""
        return dict(self._ids)

    def partitions_of(self, topic: str) -> dict[int, dict[str, Any]]:
        """Return the partitions of a topic: `replicas`, `isr`, `leader`, `leader_epoch` and others, by number."""
        return self._partitions.get(self._ids.get(topic, ""), {})

    def configs_of(self, topic: str) -> dict[str, str]:
        """Return the own settings of a topic."""
        return dict(self._configs.get((_TOPIC_RESOURCE, topic), {}))

    @property
    def metadata_version(self) -> int | None:
        """The level of the feature metadata.version; None: there is none."""
        return self._features.get("metadata.version")

    def features(self) -> list[bytes]:
        """Return the records of the features, metadata.version first: it says how to read the others."""
        keys = sorted(
            (key for key in self._records if key[0] == "feature" and key[1] in self._features),
            key=lambda key: key[1] != "metadata.version",
        )
        return [self._records[key] for key in keys]

    def others(self, nodes: Container[int], *, most_in_sync: int) -> Iterator[bytes]:
        """Yield the records of settings but those of topics, of access rights, quotas, users and tokens.

        Args:
            nodes: the nodes that there will be: settings of other brokers are left out.
            most_in_sync: a min.insync.replicas above it is left out: nobody could write with acks=all.
        """
        for key, record in self._records.items():
            if key[0] == "config":
                _, kind, resource, name = key
                value = self._configs.get((kind, resource), {}).get(name)
                is_too_much = name == "min.insync.replicas" and int(value or 0) > most_in_sync
                is_of_other = kind == _BROKER_RESOURCE and resource and not _is_node(resource, nodes)
                if value is not None and kind != _TOPIC_RESOURCE and not (is_of_other or is_too_much):
                    yield record
            elif (
                (key[0] == "acl" and key[1] in self._acls)
                or (key[0] == "quota" and key[1:] in self._quotas)
                or (key[0] == "user" and key[1:] in self._users)
                or (key[0] == "token" and key[1] in self._tokens)
            ):
                yield record


def _is_node(resource: str, nodes: Container[int]) -> bool:
    return resource.isdecimal() and int(resource) in nodes


def _quota(value: dict[str, Any]) -> _Key:
    parts = {one["entityType"]: one["entityName"] for one in value["entity"]}
    return "quota", tuple(sorted(parts.items(), key=lambda part: part[0])), value["key"]


# By the type of a record, what it is about.
_KEYS: dict[str, Any] = {
    "FeatureLevelRecord": lambda value: ("feature", value["name"]),
    "ConfigRecord": lambda value: ("config", value["resourceType"], value["resourceName"], value["name"]),
    "AccessControlEntryRecord": lambda value: ("acl", value["id"]),
    "ClientQuotaRecord": _quota,
    "UserScramCredentialRecord": lambda value: ("user", value["name"], value["mechanism"]),
    "DelegationTokenRecord": lambda value: ("token", value["tokenId"]),
}


class SurvivingMetadata(NamedTuple):
    """The newest metadata on some disks.

    Attributes:
        path: the metadata log, or the file that a new cluster starts with.
        image: the metadata.
        epoch: the leader epoch of its last batch; -1: there is none.
        offset: the offset after the last record; -1 for a cluster that has not started.
        doubts: what is not certain, a sentence each.
    """

    path: str
    image: SurvivingImage
    epoch: int
    offset: int
    doubts: list[str]


def surviving_metadata(paths: Iterable[str]) -> SurvivingMetadata | None:
    """Return the newest metadata in log directories; None: none of them has any that can be read."""
    found: list[SurvivingMetadata] = []
    doubts: list[str] = []
    for path in paths:
        image = SurvivingImage()
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                source = replay_metadata(path, image)
            except ValueError:
                continue
            except (CorruptRecordError, UnsupportedFormatError) as error:
                doubts.append(f"the metadata in {path} cannot be read: {error}")
                continue
        of_path = [str(one.message) for one in warned]
        offset = -1 if image.offset is None else image.offset
        found.append(SurvivingMetadata(source, image, _last_epoch(source), offset, of_path))
    best = max(found, key=lambda one: (one.epoch, one.offset), default=None)
    if best is None:
        return None
    if best.epoch >= 0:
        behind = [one for one in found if one.epoch >= 0 and one.offset != best.offset]
        others = "".join(f"; {one.path} ends at {one.offset}" for one in behind)
        doubts.append(
            f"the metadata are those of {best.path}, at offset {best.offset}{others}: its last changes may not have "
            "been committed, if few controllers had them, and changes that only other disks had are missing"
        )
    return best._replace(doubts=[*best.doubts, *doubts])


def _last_epoch(source: str) -> int:
    """Return the leader epoch of the last sound batch of a metadata log; -1: it has none."""
    if not source.rstrip("/").endswith(f"{METADATA_TOPIC}-0"):
        return -1
    epoch = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log = Log(source)
        try:
            for segment in log.segments[-1:]:
                for batches in segment.scan(check_crcs=True):
                    for of_batch, is_valid in zip(
                        batches["partition_leader_epoch"].to_pylist(), batches["is_valid"].to_pylist(), strict=True
                    ):
                        epoch = max(epoch, of_batch or 0) if is_valid else epoch
        except (CorruptRecordError, UnsupportedFormatError):
            pass
    return epoch
