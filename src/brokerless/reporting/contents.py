"""The contents of logs by topic, from one read of each segment: sums, batch sizes, distinct keys, findings of a check.

A pass works on some logs, in any process, and returns a `Contents`. Contents of several passes are merged, in any
order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from brokerless import _native
from brokerless.checking.check import DirectoriesToCheck, check_directories, check_log, open_log
from brokerless.io.chunking import in_shares
from brokerless.state.producers import SCHEMA as PRODUCERS
from brokerless.state.producers import as_table, entries_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from brokerless.checking.check import LogToCheck
    from brokerless.checking.finding import Finding
    from brokerless.io.storage import File
    from brokerless.layout.log_dir_files import LogDirFiles
    from brokerless.log.log import Log
    from brokerless.log.survey import Run

# A damaged disk may have millions of findings. A page shows the first ones of the worst severity.
MAX_FINDINGS = 500

SEVERITIES = ("error", "warning", "note")
"""The severities of findings, the worst first."""

# The size of a pass, so that progress shows and all cores have work.
_PASS_BYTES = 64 << 20
# One process merges the results of all passes.
_MOST_PASSES = 2000
_OPEN_COST = 1 << 20


class Piece(NamedTuple):
    """A log to read.

    Attributes:
        log: the log.
        counts: whether reads use this replica. Other replicas are only checked, and their records are not counted.
    """

    log: LogToCheck
    counts: bool


class PartitionContents(NamedTuple):
    """The contents of one partition.

    Attributes:
        records: the number of records.
        first_time: the smallest timestamp in ms; None if no record has one.
        last_time: the largest timestamp in ms; None if no record has one.
    """

    records: int
    first_time: int | None
    last_time: int | None


@dataclass
class TopicContents:
    """The contents of a topic's segments.

    Attributes:
        profile: the sums by time, format and codec, and the batches by size.
        keys: a sketch of the keys of each partition, as bytes.
        partitions: the contents of each partition.
    """

    profile: _native.Profile = field(default_factory=partial(_native.Profile, is_bounded=True))
    keys: dict[int, bytes] = field(default_factory=dict)
    partitions: dict[int, PartitionContents] = field(default_factory=dict)


@dataclass
class Contents:
    """The contents of logs.

    Attributes:
        topics: the contents of each topic, by name.
        findings: the first findings of a check, errors first.
        kinds: the number of all findings, by topic and code.
        by_partition: the number of all findings, by topic, partition and severity; with "damage" as severity, those
            of lost or wrong batches and records.
        notes: one sentence for each file that could not be read.
        producers: the producers that reads of the logs would find, as `brokerless.producers` returns them.
        offsets: the start and the end offset of each log that reads use, by path.
    """

    topics: dict[str, TopicContents] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    by_partition: Counter[tuple[str, int, str]] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    producers: pa.Table = field(default_factory=PRODUCERS.empty_table)
    offsets: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, findings: Iterable[Finding]) -> None:
        """Count findings, and keep the first findings of each severity."""
        kept = Counter(finding.severity for finding in self.findings)
        for finding in findings:
            self.kinds[finding.topic or "", finding.code] += 1
            if finding.partition is not None:
                self.by_partition[finding.topic or "", finding.partition, finding.severity] += 1
                if finding.severity == "error" and finding.kind.subject in ("batch", "records"):
                    self.by_partition[finding.topic or "", finding.partition, "damage"] += 1
            if kept[finding.severity] < MAX_FINDINGS:
                kept[finding.severity] += 1
                self.findings.append(finding)


def passes(logs: Iterable[LogToCheck], read: Iterable[str]) -> list[tuple[Piece, ...]]:
    """Divide logs into passes. A log is read by one pass, since its segments are checked against each other.

    Args:
        logs: all replicas.
        read: the paths of the replicas that reads use.
    """
    counted = set(read)
    found = [Piece(log, log.path in counted) for log in logs]
    total = sum(piece.log.size + _OPEN_COST for piece in found)
    return in_shares(found, lambda piece: piece.log.size + _OPEN_COST, max(_PASS_BYTES, total // _MOST_PASSES))


def read(pieces: DirectoriesToCheck | Iterable[Piece], progress: Callable[[int], None] = lambda _: None) -> Contents:
    """Read logs whole: collect the findings of a check, and count the sound contents.

    Args:
        pieces: the logs; or log directories, which are checked except for their logs.
        progress: gets the bytes of each segment that was read.
    """
    found = Contents()
    if isinstance(pieces, DirectoriesToCheck):
        found.add(check_directories(pieces))
        return found
    counted: defaultdict[str, list[tuple[int, _Partition]]] = defaultdict(list)
    producers: list[tuple[Log, pa.RecordBatch]] = []
    roots: dict[str, LogDirFiles] = {}

    def gone(path: str, error: FileNotFoundError) -> None:
        # A running broker deletes segments.
        found.notes.append(f"{error.filename or path} was not read, because it no longer exists")

    for log, counts in pieces:
        # One object for each log, because the runs of a log come in order, and logs without a topic share a number.
        partition = _Partition()
        if counts:
            counted[log.topic or ""].append((log.partition or 0, partition))
        try:
            listed = open_log(log, roots)
            missing = partial(gone, log.path)
            count = partition.count if counts else None
            found.add(check_log(listed, log.config, "deep", count=count, gone=missing, progress=progress))
            if counts:
                found.offsets[log.path] = listed.log_start_offset, listed.log_end_offset
                producers.append((listed, entries_of(listed)))
        except FileNotFoundError as error:
            gone(log.path, error)
    found.producers = as_table(producers)
    found.topics = {topic: _of_partitions(partitions) for topic, partitions in counted.items()}
    return merged([found])


def merged(several: Iterable[Contents]) -> Contents:
    """Return the merged contents of several passes."""
    result = Contents()
    producers: list[pa.Table] = []
    by_topic: defaultdict[str, list[TopicContents]] = defaultdict(list)
    for contents in several:
        for topic, of_topic in contents.topics.items():
            by_topic[topic].append(of_topic)
        result.findings += contents.findings
        result.kinds += contents.kinds
        result.by_partition += contents.by_partition
        result.notes += contents.notes
        result.offsets |= contents.offsets
        producers.append(contents.producers)
    result.topics = {topic: _merged(found) for topic, found in by_topic.items()}
    if producers:
        result.producers = pa.concat_tables(producers)
    result.findings = sorted(result.findings, key=_place)[:MAX_FINDINGS]
    return result


def distinct_keys(sketches: Iterable[bytes]) -> int:
    """Return the approximate number of distinct keys in all the sketches."""
    union = _native.KeySketch()
    for sketch in sketches:
        union.merge(_native.KeySketch(sketch))
    return round(union.estimate())


class _Partition:
    """The contents of a partition, as far as they were read."""

    def __init__(self) -> None:
        self.profile, self.keys = _native.Profile(is_bounded=True), _native.KeySketch()

    def count(self, file: File, run: Run) -> None:
        """Count the records and batches of a run."""
        self.profile.feed(file, run.position, run.end_position, first_offset=run.first_offset, keys=self.keys)

    def merge(self, other: _Partition) -> None:
        """Add the contents of another log."""
        self.profile.merge(other.profile)
        self.keys.merge(other.keys)


def _of_partitions(partitions: Iterable[tuple[int, _Partition]]) -> TopicContents:
    topic = TopicContents()
    by_number: dict[int, _Partition] = {}
    for number, one in partitions:
        by_number.setdefault(number, _Partition()).merge(one)
    for number, one in by_number.items():
        profile = one.profile
        topic.profile.merge(profile)
        topic.keys[number] = one.keys.to_bytes()
        topic.partitions[number] = PartitionContents(profile.records, profile.first_timestamp, profile.last_timestamp)
    return topic


def _merged(several: list[TopicContents]) -> TopicContents:
    if len(several) == 1:
        return several[0]
    profile = several[0].profile
    for one in several[1:]:
        profile.merge(one.profile)
    sketches: defaultdict[int, list[bytes]] = defaultdict(list)
    for one in several:
        for partition, sketch in one.keys.items():
            sketches[partition].append(sketch)
    return TopicContents(
        profile,
        {partition: _union(found) for partition, found in sketches.items()},
        {partition: facts for one in several for partition, facts in one.partitions.items()},
    )


def _union(sketches: list[bytes]) -> bytes:
    if len(sketches) == 1:
        return sketches[0]
    union = _native.KeySketch()
    for sketch in sketches:
        union.merge(_native.KeySketch(sketch))
    return union.to_bytes()


def _place(finding: Finding) -> tuple[int, str, int, str, int]:
    position = -1 if finding.position is None else finding.position
    rank = SEVERITIES.index(finding.severity)
    return rank, finding.topic or "", finding.partition or 0, finding.path, position
