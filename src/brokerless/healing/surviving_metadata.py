"""The newest metadata of a cluster on any of its disks, with the records as Kafka wrote them.

Each controller and each broker has a copy of the metadata log. The most recent copy is used: the one whose last sound
batch has the highest leader epoch and, among equals, the highest end offset. A copy is used up to its first damage. A
damaged snapshot is ignored, because an older snapshot and the log after it may have the same records.

A copy is not sound in these cases:

- an empty or missing log;
- a log that ends before the end that its other files give;
- a log that ends below its newest snapshot, because a controller writes snapshots only of records in its log.

If most voters have sound copies, nothing is in doubt: every committed record is in one of these copies, and so in the
most recent one, as in an election among these voters.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from brokerless.errors import BrokerlessError, CorruptRecordError, UnsupportedFormatError, located
from brokerless.io import storage
from brokerless.layout import checkpoints
from brokerless.layout.file_names import METADATA_TOPIC
from brokerless.log.log import Log
from brokerless.metadata.bootstrap import bootstrap_file
from brokerless.metadata.directory import has_metadata_log, has_started, has_topic_ids
from brokerless.metadata.image import MetadataImage
from brokerless.metadata.log import replay_log, replay_snapshot, snapshots
from brokerless.metadata.records import BROKER_RESOURCE, TOPIC_RESOURCE
from brokerless.remarks import Remark

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from brokerless.layout.log_dir_files import LogDirFiles

    _Key = tuple[Any, ...]

IN_SYNC = "min.insync.replicas"


class SurvivingImage(MetadataImage):
    """The metadata of a cluster, with the bytes of the records that they consist of.

    Attributes:
        of_new_types: the records of unknown types, in order.
        lost_meaning: why records of known types are not understood: a later release wrote them in a newer version.
    """

    def __init__(self) -> None:
        super().__init__(secrets=True)
        self.of_new_types: list[bytes] = []
        self.lost_meaning: dict[str, int] = {}
        self._records: dict[_Key, bytes] = {}

    def not_understood(self, why: str, record: bytes, *, is_of_new_type: bool, is_malformed: bool) -> None:
        """Keep a record of a new type. For other records, keep only the reason."""
        super().not_understood(why, record, is_of_new_type=is_of_new_type, is_malformed=is_malformed)
        if is_of_new_type:
            self.of_new_types.append(record)
        else:
            self.lost_meaning[why] = self.lost_meaning.get(why, 0) + 1

    def replayed(self, name: str, value: dict[str, Any], record: bytes) -> None:
        """Keep the latest record of each object."""
        key = _KEYS[name](value) if name in _KEYS else None
        if key is not None:
            self._records.pop(key, None)
            self._records[key] = record

    @property
    def voters(self) -> set[int]:
        """The controllers that elect their leader; empty if they are not known."""
        return set(self._voters)

    def feature_level(self, name: str) -> int:
        """Return the level of a feature; 0 if it is off."""
        return self._features.get(name, 0)

    def features(self) -> list[bytes]:
        """Return the records of the features. metadata.version is first, because the other features depend on it."""
        keys = sorted(
            (key for key in self._records if key[0] == "feature" and key[1] in self._features),
            key=lambda key: key[1] != "metadata.version",
        )
        return [self._records[key] for key in keys]

    def broker_settings(self) -> Iterator[tuple[str, str, str, bytes]]:
        """Yield the dynamic settings of brokers, each as broker, name, value and record.

        The broker "" stands for the cluster-wide default.
        """
        for key, record in self._records.items():
            if key[:2] == ("config", BROKER_RESOURCE):
                value = self._configs.get(key[1:3], {}).get(key[3])
                if value is not None:
                    yield key[2], key[3], value, record

    def others(self) -> Iterator[bytes]:
        """Yield the records of ACLs, quotas, SCRAM users, delegation tokens, and settings of other resources."""
        for key, record in self._records.items():
            if key[0] == "config":
                value = self._configs.get(key[1:3], {}).get(key[3])
                if value is not None and key[1] not in (TOPIC_RESOURCE, BROKER_RESOURCE):
                    yield record
            elif (
                (key[0] == "acl" and key[1] in self._acls)
                or (key[0] == "quota" and key[1:] in self._quotas)
                or (key[0] == "user" and key[1:] in self._users)
                or (key[0] == "token" and key[1] in self._tokens)
            ):
                yield record


def is_above(value: str | None, most: int) -> bool:
    """Return whether the text of a setting is a number above `most`. Damaged metadata may contain any text.

    >>> is_above("2", 1), is_above("9" * 9999, 1), is_above("two", 1), is_above(None, 1)
    (True, True, False, False)
    """
    match = re.fullmatch(r"\s*\+?0*([0-9]+)\s*", value or "")
    return match is not None and (len(match[1]) > len(str(most)) or int(match[1]) > most)


def _quota(value: dict[str, Any]) -> _Key:
    parts = {one["entityType"]: one["entityName"] for one in value["entity"]}
    return "quota", tuple(sorted(parts.items(), key=lambda part: part[0])), value["key"]


# The fields that identify the object of a record, by record type.
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
        epoch: the leader epoch of its last batch; -1 without a batch.
        offset: the offset after the last record; -1 for a cluster that has not started.
        doubts: why some of the cluster's metadata may be missing.
        notes: the other faults of the copies.
    """

    path: str
    image: SurvivingImage
    epoch: int
    offset: int
    doubts: list[Remark]
    notes: list[Remark]


def surviving_metadata(roots: Iterable[LogDirFiles], unread: list[Remark] | None = None) -> SurvivingMetadata | None:
    """Return the newest metadata in log directories.

    Args:
        roots: the directories.
        unread: receives the reasons why copies cannot be read, if no other copy exists.

    Returns:
        The metadata; None if no directory has readable metadata.
    """
    read: list[_Copy] = []
    notes: list[Remark] = []
    for root in roots:
        try:
            one = _read(root, notes)
        except (BrokerlessError, OSError) as error:
            said = f"the metadata in {root.path} cannot be read: {error}"
            notes.append(Remark("metadata-damaged", said, path=root.path))
            continue
        if one is not None:
            read.append(one)
    if not read:
        if unread is not None:
            unread += notes
        return None
    best = max(read, key=lambda one: one.rank)
    notes += [
        Remark(
            "metadata-damaged",
            f"the metadata log {one.path} is damaged, and is readable up to offset {one.offset}: {one.damage}",
            path=one.path,
        )
        for one in read
        if one.damage and (one is not best or (one.is_whole and one.is_end_known))
    ]
    notes += [
        Remark(
            "metadata-left-out",
            f"{best.path}: {count} records {name} of a preview release are left out",
            path=best.path,
        )
        for name, count in best.image.left_out.items()
    ]
    return SurvivingMetadata(best.path, best.image, best.epoch, best.offset, _doubts(best, read), notes)


class _Copy(NamedTuple):
    """A copy of the metadata, as far as it can be read.

    Attributes:
        path: the directory of the copy, or the file that a new cluster starts with.
        node_id: the node that wrote the log; None if not known.
        image: the metadata after its last sound record.
        voters: the controllers that elect their leader, as far as the copy has them.
        is_whole: False if the records begin after the start of the log, and no readable snapshot covers the earlier
            records.
        epoch: the leader epoch of its last sound record; -1 for a cluster that has not started.
        offset: the offset after its last sound record; -1 for a cluster that has not started.
        damage: the faults of the copy; "" without any.
        is_end_known: whether the copy has all records that its node had.
    """

    path: str
    node_id: int | None
    image: SurvivingImage
    voters: set[int]
    is_whole: bool
    epoch: int
    offset: int
    damage: str
    is_end_known: bool

    @property
    def rank(self) -> tuple[bool, bool, int, int]:
        has_started = self.epoch >= 0
        return has_started and self.is_whole, has_started, self.epoch, self.offset


def _read(root: LogDirFiles, notes: list[Remark]) -> _Copy | None:
    """Read the metadata in a log directory; None if it has none. Add to `notes` the reason if its log is not used."""
    node_id = None
    with suppress(CorruptRecordError):
        node_id = root.node_id
    emptied, directory = "", f"{root.path}/{METADATA_TOPIC}-0"
    if has_metadata_log(root.path):
        log = Log(directory, root=root)
        found = _read_log(log, node_id)
        if not log.segments and not has_started(root.path):
            # A rescued cluster that has not started has such a snapshot.
            return found._replace(epoch=-1, offset=-1)
        if found.offset > 0 or found.image.topic_ids:
            return found
        # An empty log holds no metadata, so other metadata in the directory take precedence.
        emptied = f"the log {found.path} is empty" + (f": {found.damage}" if found.damage else "")
    elif storage.exists(f"{directory}/{checkpoints.QUORUM_STATE}"):
        emptied = f"the log {directory} is missing"
    file = bootstrap_file(root.path, root.journal)
    image = SurvivingImage()
    if storage.exists(file):
        with located(file):
            replay_snapshot(storage.read_all(file), image)
        # On the second disk of a broker that has run, the formatted metadata tell nothing about the cluster since then.
        if image.topic_ids or not (has_topic_ids(root.path) or root.recovery_points):
            if not emptied and has_started(root.path):
                emptied = f"a broker has started on {root.path} since it was formatted, but the metadata log is missing"
            return _Copy(file, node_id, image, set(), True, -1, -1, emptied, not emptied)
    if emptied:
        notes.append(Remark("metadata-missing", f"the metadata in {root.path} are lost: {emptied}", path=root.path))
    return None


def _read_log(log: Log, node_id: int | None) -> _Copy:
    image, damages = SurvivingImage(), []
    epoch, start, has_snapshot = 0, 0, False
    for offset, of_epoch, path in snapshots(log):
        candidate = SurvivingImage()
        try:
            with located(path):
                replay_snapshot(storage.read_all(path), candidate)
        except (BrokerlessError, OSError) as error:
            damages.append(f"the snapshot {path} is damaged: {error}")
            continue
        image, epoch, start, has_snapshot = candidate, of_epoch, offset, True
        break
    image.offset = start
    first = log.segments[0].base_offset if log.segments else start
    is_whole = has_snapshot or first == 0
    end, is_end_known = start, True
    if first > start and has_snapshot:
        # The records in between are lost, and later records may change objects of those records.
        damages.append(f"the log begins at offset {first}, but the newest sound snapshot ends at offset {start}")
        is_end_known = False
    else:
        if first > start:
            damages.append(f"the log begins at offset {first}, but no sound snapshot has the metadata before it")
        begin = max(start, first)
        end, epoch, damage = _sound_end(log, begin, epoch)
        if damage:
            damages.append(damage)
            is_end_known = False
        unreadable = replay_log(log, image, begin, end) if begin < end else None
        if unreadable is not None:
            end, is_end_known = image.offset or 0, False
            damages.append(str(unreadable))
    behind = _behind(log, end) if is_end_known else ""
    if behind:
        damages.append(behind)
        is_end_known = False
    elif is_end_known and (lost := _lost_behind(log, node_id, epoch, start if has_snapshot else None)):
        damages.append(lost)
        is_end_known = False
    voters = image.voters or _voters_of_quorum_state(log)
    return _Copy(log.path, node_id, image, voters, is_whole, epoch, end, "; ".join(damages), is_end_known)


def _behind(log: Log, end: int) -> str:
    """Return the evidence that a sound log continued after `end`; "" without any."""
    expected = log.files.expected_end
    if expected is not None and expected.offset > end:
        return f"it ends at offset {end}, but {' and '.join(expected.sources)}"
    # Kafka does not preallocate this log.
    for segment in log.segments[-1:]:
        zeros = segment.size - log.files.extent.end_position
        if zeros > 0:
            return f"{segment.path}: the {zeros} bytes after offset {end} are not batches, as after a crash"
    return ""


def _lost_behind(log: Log, node_id: int | None, epoch: int, snapshot: int | None) -> str:
    """Return the evidence that a log without damage lacks its end; "" without any.

    Args:
        log: the log.
        node_id: the node that wrote the log; None if not known.
        epoch: the leader epoch of the log's last record.
        snapshot: the end offset of the log's newest sound snapshot, or None.
    """
    end = log.files.extent.next_offset
    if snapshot is not None and not log.segments and has_started(log.root.path):
        return f"it has no segments after its snapshot of offset {snapshot}"
    if snapshot is not None and log.segments and end < snapshot:
        return f"it ends at offset {end}, below its own snapshot of offset {snapshot}"
    leader, of_leader = (_quorum_state(log).get(name, -1) for name in ("leaderId", "leaderEpoch"))
    # A leader's first record has the leader's epoch.
    if isinstance(of_leader, int) and leader == node_id and of_leader > epoch:
        return (
            f"it has no records of leader epoch {of_leader}, although its node was the leader of that epoch according "
            f"to {checkpoints.QUORUM_STATE}"
        )
    return ""


def _sound_end(log: Log, start: int, epoch: int) -> tuple[int, int, str]:
    """Return the end of the batches from an offset on, the epoch of the last batch, and the damage or gap after it."""
    end = start
    columns = ("base_offset", "last_offset", "partition_leader_epoch", "is_valid")
    for segment in log.segments:
        if segment.limit_offset <= start and not segment.is_last:
            continue
        try:
            for batches in segment.scan(check_crcs=True):
                for base, last, of_epoch, is_valid in zip(
                    *(batches[name].to_pylist() for name in columns), strict=True
                ):
                    if last is not None and last < start:
                        continue
                    # A batch without a base offset is a message of an old format, which no metadata log has.
                    if base is None or last is None:
                        return end, epoch, f"{segment.path}: the bytes after offset {end} are not a batch of metadata"
                    if not is_valid:
                        return end, epoch, f"{segment.path}: the batch at offset {base} has a wrong checksum"
                    if base > end:
                        return end, epoch, f"{segment.path}: offsets {end} to {base - 1} are missing"
                    end, epoch = last + 1, max(epoch, of_epoch or 0)
        except (CorruptRecordError, UnsupportedFormatError) as error:
            return end, epoch, str(error)
    return end, epoch, ""


def _voters_of_quorum_state(log: Log) -> set[int]:
    """Return the voters in the file `quorum-state`; empty if the file has none because the log names them (KIP-853)."""
    with suppress(ValueError, TypeError, KeyError, OverflowError):
        return {int(voter["voterId"]) for voter in _quorum_state(log)["currentVoters"]}
    return set()


def _quorum_state(log: Log) -> dict[str, Any]:
    """Return the content of the file `quorum-state`; empty if it cannot be read."""
    # A damaged file may hold anything, and then counts as empty.
    with suppress(OSError, ValueError, RecursionError):
        content = json.loads(storage.read_all(f"{log.path}/{checkpoints.QUORUM_STATE}"))
        return content if isinstance(content, dict) else {}
    return {}


def _doubts(best: _Copy, read: Sequence[_Copy]) -> list[Remark]:
    said = ""
    doubts = []
    if not best.is_whole:
        said = f"{best.path} does not have all metadata: {best.damage}. Earlier metadata are lost"
    elif best.epoch < 0 and not best.is_end_known:
        said = f"the metadata are only those of the format of {best.path}, without later changes: {best.damage}"
    elif not best.is_end_known:
        said = f"the metadata in {best.path} are known up to offset {best.offset}: {best.damage}"
    if said:
        doubts.append(Remark("metadata-incomplete", said, path=best.path))
    if best.epoch < 0:
        return doubts
    voters = best.voters or next((one.voters for one in read if one.voters), set())
    here = {one.node_id for one in read if one.is_whole and one.is_end_known and one.epoch >= 0} & voters
    if 2 * len(here) > len(voters):
        return doubts
    behind = [one for one in read if one.epoch >= 0 and one.offset != best.offset]
    others = "".join(f"; {one.path} ends at {one.offset}" for one in behind)
    which = f"{len(here)} of the {len(voters)} controllers" if voters else "controllers that are not known"
    said = (
        f"the metadata come from {best.path}, which ends at offset {best.offset}{others}. The disks have only the "
        f"sound metadata logs of {which}, so the last changes may not have been committed, and changes that only "
        "other controllers had are missing"
    )
    doubts.append(Remark("metadata-uncommitted", said, path=best.path, names=tuple(one.path for one in behind)))
    return doubts
