"""`ServedDirectory`: the answers of a directory to a server. The server's threads call it concurrently."""

from __future__ import annotations

import base64
import logging
import os
import re
import threading
import time
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from brokerless.arguments import check_number, some_or_all, to_ms
from brokerless.errors import CorruptRecordError
from brokerless.io import storage
from brokerless.io.remote import is_remote
from brokerless.layout import checkpoints, commit_journal, file_names
from brokerless.layout.file_names import is_chosen
from brokerless.layout.log_dir_files import LogDirFiles
from brokerless.log.aborted_transactions import first_unstable_offset, fitting, transactions
from brokerless.log.log import Log
from brokerless.log.offset_range import stable_end, visible_end
from brokerless.log.offsets_for_times import answer, first_record_at
from brokerless.log.partition_files import PartitionFiles
from brokerless.log_dir.log_dirs import LogDirs
from brokerless.notes import collected
from brokerless.recovery.clean_start import kept_damage
from brokerless.wording import current_face, option, printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from brokerless.arguments import Time
    from brokerless.errors import UnsupportedFormatError
    from brokerless.layout.checkpoints import LeaderEpoch


# How long the contents of a log directory's own files are taken as current, in seconds. The lock has no modification
# time.
_FRESH = 0.05
_OF_ROOT = (
    checkpoints.HIGH_WATERMARKS,
    checkpoints.LOG_START_OFFSETS,
    checkpoints.RECOVERY_POINTS,
    checkpoints.FIRST_DIRTY_OFFSETS,
    checkpoints.CLEAN_SHUTDOWN,
)

_Partition = tuple[
    str,
    list[int],
    list[tuple[int, str]],
    int,
    tuple[int, int, int],
    list[tuple[int, int]],
    list[tuple[int, int, int]],
]


_LOGGER = logging.getLogger("brokerless.serve")
_MOST_TOLD = 1000
# A change this soon after another one may leave a directory's modification time unchanged.
_COARSEST_CLOCK_NS = 2_000_000_000
_PARTITION = re.compile(r".+-\d+")
_Status = tuple[str, int, int]
_T = TypeVar("_T")


class ServedDirectory:
    """The topics of some log directories, for a server. Topics and partitions that appear or disappear are detected.

    Args:
        paths: log directories, partition directories or `.log` files, as for `LogDirs`.
        topics: only these topics; None: all.
        end_offset: the offset at which every partition ends; None for the end of its log. A batch that contains this
            offset is left out too.
        as_of: a time. The batch of the first record at or after it is left out, with all following batches.
    """

    # Why a client that produces gets an error, for the log.
    why_read_only = "this server only reads, and changes nothing in a directory"

    def __init__(
        self,
        *paths: str | os.PathLike[str],
        topics: Iterable[str] | None = None,
        end_offset: int | None = None,
        as_of: Time | None = None,
    ) -> None:
        self._paths = paths
        self._wanted = some_or_all("topics", topics)
        self._local = [os.fspath(path) for path in paths if not is_remote(os.fspath(path))]
        self._times, self._names = self._modified(), self._listed()
        with collected():
            found = LogDirs(*paths)
            self._logs = _by_partition(found.logs(self._wanted))
        self._numbers = _by_topic(self._logs)
        self._number = 0
        # Clients cause any number of warnings, which must not keep damage from being logged.
        self._told: set[str] = set()
        self._damaged: set[str | tuple[str, int]] = set()
        # The threads of the server call this object, so they have no interface of their own.
        self._face = current_face()
        self._lock, self._listing = threading.Lock(), threading.Lock()
        if end_offset is not None:
            check_number("end_offset", end_offset, 0)
            if as_of is not None:
                raise ValueError(f"{option('end_offset')} and {option('as_of')} both give an end: give one of them")
        self._end_offset = end_offset
        self._as_of = None if as_of is None else to_ms("as_of", as_of)
        self._has_commits = file_names.OFFSETS_TOPIC in found.topics()
        self._roots: dict[str, _Root] = {}
        # The last segment of each requested partition.
        self._last: dict[tuple[str, int], str] = {}
        # The last known leader epoch of each requested partition.
        self._epochs: dict[tuple[str, int], int] = {}
        self._configs: dict[tuple[str, str], list[tuple[str, str]]] | None = None
        self._around = [root.path for root in found.roots if not is_remote(root.path) and root.is_there]
        ids = [root.cluster_id for root in found.roots if root.is_there and root.cluster_id is not None]
        self.cluster_id = ids[0] if ids else checkpoints.random_id()
        nodes = [root.node_id for root in found.roots if root.is_there and root.node_id is not None]
        self.node_id = nodes[0] if nodes else 0

    def topics(self, known: int | None) -> tuple[int, list[tuple[str, bytes | None, list[int], bool]]] | None:
        """Return the topics.

        Args:
            known: the number of the listing that the server has; None if it has none.

        Returns:
            None if the listing is unchanged; else its number, and for each topic the name, the id, the partitions, and
            whether it is internal.
        """
        self._list_again()
        logs, numbers_of, number = self._logs, self._numbers, self._number
        if number == known:
            return None
        return number, [
            (topic, self._id(logs[topic, numbers[0]]), numbers, file_names.is_internal(topic))
            for topic, numbers in numbers_of.items()
            if topic != file_names.METADATA_TOPIC
        ]

    def _list_again(self) -> None:
        """List the partitions again if one was created or deleted."""
        with self._listing:
            times = self._modified()
            if times is not None and times == self._times:
                return
            names = self._listed()
            if names != self._names:
                with collected():
                    try:
                        found = LogDirs(*self._paths)
                    except FileNotFoundError:
                        # A directory is missing, for example while a disk is remounted. The next check may find it.
                        return
                    wanted = self._wanted
                    if wanted is not None:
                        wanted = [topic for topic in found.topics() if is_chosen(topic, wanted)]
                    self._logs = {} if wanted == [] else _by_partition(found.logs(wanted))
                    self._numbers = _by_topic(self._logs)
                    self._epochs = {}
                    self._number += 1
                with self._lock:
                    self._configs = None
            self._times, self._names = times, names

    def _modified(self) -> tuple[int, ...] | None:
        """Return when the directories last got or lost an entry; None if that was less than two seconds ago.

        A later change could then have the same time, because some file systems have coarse clocks.
        """
        found = []
        for path in self._local:
            try:
                found.append(os.stat(path).st_mtime_ns)
            except OSError:
                found.append(0)
        is_new = any(time.time_ns() - at < _COARSEST_CLOCK_NS for at in found)
        return None if is_new else tuple(found)

    def _listed(self) -> list[set[tuple[str, int]]]:
        """Return the names and inodes of the directories' partitions. A broker also writes checkpoints beside them.

        A topic that was deleted and created again has other inodes.
        """
        found = []
        for path in self._local:
            try:
                with os.scandir(path) as entries:
                    found.append({(one.name, one.inode()) for one in entries if _PARTITION.fullmatch(one.name)})
            except OSError:
                found.append(set())
        return found

    def partition(
        self, topic: str, partition: int, known: int | None
    ) -> tuple[int, list[_Status], list[_Status], _Partition | None]:
        """Return a partition as it is now.

        Args:
            topic: the topic.
            partition: the partition's number.
            known: the state that the server knows, or None.

        Returns:
            The state; the partition's files that change with it, each with its modification time and size; the same for
            the files of its log directory; and None if the state is unchanged, else a tuple: the directory; the base
            offset of each segment; the names of `.log` files that differ from their base offset; the end position of
            the last sound batch in the last segment; the log start offset, the high watermark and the last stable
            offset; the leader epochs with their first offsets; the aborted transactions: producer, first offset, offset
            of the marker.
        """
        key = topic, partition
        path = self._logs[key].path
        root = self._root(self._logs[key].root.path)
        own = [] if is_remote(path) else [_status(path)]
        if own and (last := self._last.get(key)) is not None:
            own.append(_status(last))
            state = root.state_of(key, own)
            if state == known:
                return state, own, root.watched, None
        with collected():
            log = Log(commit_journal.active_path(path), root=root)
            segments = log.segments
            if own:
                # Before the end of the segment is looked up: a broker may append meanwhile.
                self._last[key] = segments[-1].path if segments else log.path
                own = [own[0], _status(self._last[key])]
            end = self._end(log)
            stable = self._stable_end(log, end)
            kept = None if self._has_end else kept_damage(log)
            if kept is not None and kept.log_end_offset > end:
                # Only the snapshot of the producers says what is open in a batch that cannot be read.
                end, unstable = kept.log_end_offset, kept.producers.first_unstable_offset
                stable = end if unstable is None else min(end, unstable)
            start = log.local_log_start_offset
            # As on a broker, a transaction that began before the log start counts from there on.
            offsets = start, end, max(start, stable)
            epochs = [(one.epoch, one.start_offset) for one in self._epochs_of(log)]
            if self._has_end:
                # As in a log that was truncated there: no client learns of a later leader.
                epochs = [one for one in epochs if one[1] < end]
            self._epochs[key] = epochs[-1][0] if epochs else -1
            directory = os.path.dirname(segments[0].path) if segments else log.path
            bases = [one.base_offset for one in segments]
            # A segment that a cleaner was about to swap in.
            names = [(one.base_offset, os.path.basename(one.path)) for one in segments if one.is_swapped]
            found = directory, bases, names, log.files.extent.end_position, offsets, epochs, _aborted(log)
        return root.state_of(key, own), own, root.watched, found

    @property
    def _has_end(self) -> bool:
        """True if the caller of the server set an end offset or a time."""
        return self._end_offset is not None or self._as_of is not None

    def _stable_end(self, log: Log, end: int) -> int:
        """Return the end of a log for read_committed consumers: at most the start of a transaction open at `end`."""
        if not self._has_end:
            return min(end, stable_end(log.files, skips=True))
        unstable = first_unstable_offset(log.files.whole, end, skips=True)
        return end if unstable is None else min(end, unstable)

    def _end(self, log: Log) -> int:
        """Return the end of the log for consumers."""
        end = visible_end(log.files)
        if self._end_offset is not None:
            end = min(end, self._end_offset)
        elif self._as_of is not None:
            found = first_record_at(log.files, self._as_of)
            end = min(end, found.offset) if found.offset >= 0 else end
        if self._has_end:
            end = _start_of_batch(log, end)
        # Records below the start may be deleted up to the middle of a batch.
        return max(end, log.local_log_start_offset)

    def _root(self, path: str) -> _Root:
        """Return the files of a log directory itself as they are now. They apply to all partitions of the directory."""
        known = self._roots.get(path)
        if known is not None and time.monotonic() - known.since < _FRESH:
            return known
        found = _Root(path)
        if known is not None and (known.watched, known.is_locked) == (found.watched, found.is_locked):
            known.since = found.since
            return known
        self._roots[path] = found
        return found

    def offset_for_time(self, topic: str, partition: int, timestamp: int, end: int) -> tuple[int, int, int]:
        """Return the offset, the timestamp and the leader epoch of the first record at or after a time; -1 for none."""
        with collected():
            found = answer(PartitionFiles(self._logs[topic, partition].path), timestamp, end)
        return found.offset, found.timestamp, -1 if found.leader_epoch is None else found.leader_epoch

    def leader_epochs(self, topic: str) -> list[int]:
        """Return the leader epoch of each partition of a topic, in their order; -1 if unknown.

        The leader epoch of a partition is read once, and again when the server reads the partition. In an object store,
        it is only read with the partition, because reading the epochs of all partitions would take too long.
        """
        found, logs, known = [], self._logs, self._epochs
        for partition in self._numbers.get(topic, ()):
            epoch = known.get((topic, partition))
            if epoch is None:
                # A new listing may have dropped the partition in the meantime.
                log = logs.get((topic, partition))
                # Finding the end of a partition takes time, so its last epoch is unknown until the partition is
                # requested.
                epochs = [] if log is None or self._has_end or is_remote(log.path) else self._epochs_of(log)
                epoch = known[topic, partition] = epochs[-1].epoch if epochs else -1
            found.append(epoch)
        return found

    def groups(self) -> list[tuple[str, str, list[tuple[str, int]]]]:
        """Return the groups in the directory's `__consumer_offsets`.

        Returns:
            The name of each group; its protocol type, "" if it only commits offsets; and the partitions whose offsets
            are in a transaction that has not ended.
        """
        if not self._has_commits:
            return []
        from brokerless.state.groups import group_rows  # noqa: PLC0415 - loads Arrow, which takes longest
        from brokerless.state.offset_commits import pending_commits  # noqa: PLC0415 - as well

        with collected():
            try:
                rows = group_rows(*self._paths)
                pending = pending_commits(*self._paths)
            except ValueError:
                # No directory has __consumer_offsets.
                return []
        return [
            (row["group"], row["protocol_type"] or "", pending.get(row["group"], []))
            for row in rows
            if row["type"] != "share"
        ]

    def commits(self) -> list[tuple[str, str, int, int, int, str]]:
        """Return the commits of groups: group, topic, partition, offset, leader epoch, metadata."""
        if not self._has_commits:
            return []
        from brokerless.state.offset_commits import commits  # noqa: PLC0415 - loads Arrow, which takes longest

        with collected():
            try:
                found = commits(*self._paths, history=False, lag=False).read_all()
            except ValueError:
                # No directory has __consumer_offsets.
                return []
        rows = found.select(["group", "topic", "partition", "offset", "leader_epoch", "metadata"]).to_pylist()
        return [
            (
                row["group"],
                row["topic"],
                row["partition"],
                row["offset"],
                -1 if row["leader_epoch"] is None else row["leader_epoch"],
                row["metadata"] or "",
            )
            for row in rows
            if row["topic"] is not None and row["offset"] is not None
        ]

    def holds(self, path: str) -> bool:
        """Return whether a file, which need not exist yet, lies in a served directory, even through links.

        For a served partition, its whole log directory is treated as served.
        """
        place = os.path.realpath(path)
        served = {one if os.path.isdir(one) else os.path.dirname(one) for one in map(os.path.realpath, self._local)}
        served |= {os.path.realpath(root) for root in self._around}
        if any(os.path.commonpath([place, one]) == one for one in served):
            return True
        # The file may have another name in that directory, too.
        if not os.path.isfile(place) or os.stat(place).st_nlink == 1:
            return False
        files = (os.path.join(at, name) for one in served for at, _, names in os.walk(one) for name in names)
        return any(os.path.samefile(place, file) for file in files if os.path.exists(file))

    def problem(self, text: str) -> None:
        """Log a warning about unreadable content, once for each message. Clients get an error without these details."""
        if self._is_new(text, self._told):
            _LOGGER.warning("%s", printable(text))

    def damaged(self, error: CorruptRecordError | UnsupportedFormatError, path: str | None = None) -> None:
        """Log damage that a client has met, once for each place, as an error: what is wrong, where, and the cure.

        Args:
            error: the damage, as a read would raise it.
            path: the file; None if the error has it.
        """
        error.path = error.path or path
        error.face = self._face
        text = str(error).replace("\nhint: ", "; hint: ")
        place = text if error.path is None or error.position is None else (error.path, error.position)
        if self._is_new(place, self._damaged):
            _LOGGER.error("%s", printable(text))

    def _is_new(self, what: _T, known: set[_T]) -> bool:
        """Return whether this was not logged before. Hostile files may cause any number of messages."""
        with self._lock:
            is_new = what not in known and len(known) < _MOST_TOLD
            if is_new:
                known.add(what)
        return is_new

    def _epochs_of(self, log: Log) -> list[LeaderEpoch]:
        try:
            return log.leader_epochs
        except CorruptRecordError as error:
            self.damaged(error)
            return []

    def _id(self, log: Log) -> bytes | None:
        try:
            text = log.topic_id
        except CorruptRecordError as error:
            self.damaged(error)
            return None
        return None if text is None else base64.urlsafe_b64decode(f"{text}==")

    def refused(self, topic: str) -> None:
        """Log a warning about a client that tried to produce, once for each topic. Some clients show no reason.

        Args:
            topic: the topic; "" if the request names no topic, as the first request of an idempotent producer.
        """
        to = f" to topic {topic}" if topic else ""
        self.problem(f"a client tried to produce{to}, and got an error, because {self.why_read_only}")

    def size(self, path: str) -> int:
        """Return the length of a file in an object store."""
        return storage.size(path)

    def read(self, path: str, position: int, length: int) -> bytes:
        """Return bytes of a file in an object store, fewer at its end."""
        with storage.File(path) as file:
            return file.read(position, length)

    def configs(self, kind: str, name: str) -> list[tuple[str, str]]:
        """Return the configs of a topic or broker that the metadata have. Secrets are left out.

        Args:
            kind: "topic" or "broker".
            name: the topic, or the broker's id; "" stands for all brokers.
        """
        from brokerless.state.cluster import cluster  # noqa: PLC0415 - loads Arrow, which takes longest

        with self._lock, collected():
            if self._configs is None:
                self._configs = {}
                try:
                    rows = cluster(*self._paths).rows("configs")
                except (ValueError, CorruptRecordError):
                    rows = []
                for row in rows:
                    if row["value"] is not None and not row["is_sensitive"]:
                        place = row["resource_type"], row["resource"]
                        self._configs.setdefault(place, []).append((row["name"], row["value"]))
            return self._configs.get((kind, name), [])


def _start_of_batch(log: Log, end: int) -> int:
    """Return the end if it lies between two batches, else the start of its batch, because clients get whole batches."""
    for segment in reversed(log.segments):
        if segment.base_offset >= end:
            continue
        before = segment.base_offset
        with segment.open() as file:
            # From the start: only the batch before shows where a batch of magic 0 or 1 begins.
            for batches in segment.batches_since(file, segment.base_offset):
                columns = (batches[name].to_pylist() for name in ("last_offset", "magic", "base_offset"))
                for last_offset, magic, base_offset in zip(*columns, strict=True):
                    if last_offset >= end:
                        return min(end, base_offset if magic == 2 else before)
                    before = last_offset + 1
        return end
    return end


def _by_partition(logs: list[Log]) -> dict[tuple[str, int], Log]:
    return {(log.topic, log.partition or 0): log for log in logs if log.topic is not None}


def _by_topic(logs: dict[tuple[str, int], Log]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(logs):
        found.setdefault(topic, []).append(partition)
    return found


class _Root(LogDirFiles):
    """The files of a log directory itself at one time.

    Attributes:
        since: the time at which the files were last found unchanged.
        watched: the files, each with its modification time and size.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.since = time.monotonic()
        self.watched = [] if is_remote(path) else [_status(f"{path}/{name}") for name in _OF_ROOT]

    @cached_property
    def is_locked(self) -> bool:
        """True if a live broker or another writer held the lock at that time."""
        return super().is_locked

    def state_of(self, partition: tuple[str, int], own: list[_Status]) -> int:
        """Return a number that changes with a partition's content as readers see it."""
        checkpointed = self.log_start_offsets.get(partition), self.high_watermarks.get(partition)
        return hash((tuple(own), checkpointed, self.is_locked, self.is_clean)) & ((1 << 63) - 1)


def _status(path: str) -> _Status:
    """Return the path with its modification time in ns and its size, each -1 if there is no such file."""
    try:
        status = os.stat(path)
    except OSError:
        return path, -1, -1
    return path, status.st_mtime_ns, status.st_size


def _aborted(log: Log) -> list[tuple[int, int, int]]:
    """Return the aborted transactions: from the indexes, which brokers trust, or from the markers if no index fits."""
    found: list[tuple[int, int, int]] = []
    for segment in log.segments:
        if segment.has_transaction_index:
            entries = fitting(segment)
            if entries is None:
                return sorted(
                    transactions(log.files, log.segments[0].base_offset, log.log_end_offset).aborted, key=_end
                )
            found += entries
    return sorted(found, key=_end)


def _end(aborted: tuple[int, int, int]) -> int:
    return aborted[2]
