"""The numbers of a report, as tables. They are the same whether threads of this process or Spark tasks compute them."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from brokerless import _native
from brokerless.arguments import some_or_all
from brokerless.checking import check
from brokerless.checking.codes import CODES
from brokerless.checking.finding import SCHEMA as FINDINGS
from brokerless.errors import BrokerlessError, in_words
from brokerless.inspection.profile import by_hour
from brokerless.io import storage
from brokerless.io.chunking import in_shares
from brokerless.layout.file_names import METADATA_TOPIC, is_internal
from brokerless.log.log import Log
from brokerless.log_dir.log_dirs import LogDirs, topics_in
from brokerless.metadata.schema import TIME, schema
from brokerless.metadata.topic_names import TopicNames
from brokerless.notes import collected, note
from brokerless.reporting import contents
from brokerless.reporting.coordinators import coordinated
from brokerless.reporting.lag_over_time import SCHEMA as LAGS
from brokerless.reporting.lag_over_time import LagOverTime, bounded
from brokerless.reporting.samples import SCHEMA as SAMPLES
from brokerless.reporting.samples import sampled, samples_in
from brokerless.rewriting.estimate import estimate
from brokerless.state.cluster_changes import NO_CHANGES, changes_in
from brokerless.state.cluster_changes import SCHEMA as CHANGES
from brokerless.state.internal_topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, logs_of
from brokerless.state.offset_commits import SCHEMA as COMMITS
from brokerless.state.offset_commits import Lags
from brokerless.state.transactions import SCHEMA as TRANSACTIONS
from brokerless.state.transactions import current_transactions, open_of
from brokerless.wording import current_face, worded_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from brokerless.io.runner import Progress, Runner
    from brokerless.log.segment import Segment
    from brokerless.reporting.coordinators import Coordinated
    from brokerless.state.cluster_changes import Changes
    from brokerless.wording import Face

_T = TypeVar("_T")
_R = TypeVar("_R")
_MS_PER_HOUR = 3_600_000
# The topics whose records are built in other forms, the largest first, and how many bytes of each.
_MOST_MEASURED = 20
_SAMPLE = 2 << 20
# A topic with more segments is measured by this many.
_MOST_SEGMENTS = 32
# The number of partitions whose producers one call reads.
_PARTITIONS_A_CALL = 64
# The number of calls for the coordinators. Each call lists the directories again.
_CALLS = 16
# Partitions of coordinators are read one after the other, because reading them at once would add up their memory.
_COORDINATORS = Lock()

SCHEMAS = {
    "topics": schema(
        topic=pa.string(),
        partitions=pa.int64(),
        replicas=pa.int64(),
        segments=pa.int64(),
        disk_bytes=pa.int64(),
        batches=pa.int64(),
        bytes=pa.int64(),
        records=pa.int64(),
        key_bytes=pa.int64(),
        value_bytes=pa.int64(),
        null_keys=pa.int64(),
        tombstones=pa.int64(),
        magics=pa.list_(pa.int32()),
        compressions=pa.list_(pa.string()),
        first_time=TIME,
        last_time=TIME,
        distinct_keys=pa.int64(),
        cleanup_policy=pa.string(),
        compacted_records=pa.int64(),
    ),
    "partitions": schema(
        topic=pa.string(),
        partition=pa.int32(),
        replicas=pa.int64(),
        segments=pa.int64(),
        bytes=pa.int64(),
        start_offset=pa.int64(),
        end_offset=pa.int64(),
        records=pa.int64(),
        distinct_keys=pa.int64(),
        first_time=TIME,
        last_time=TIME,
        errors=pa.int64(),
        warnings=pa.int64(),
        is_damaged=pa.bool_(),
    ),
    "commits": schema(
        group=pa.string(),
        topic=pa.string(),
        partition=pa.int32(),
        offset=pa.int64(),
        lag=pa.int64(),
        is_out_of_range=pa.bool_(),
        commit_time=TIME,
    ),
    "samples": SAMPLES,
    "hours": schema(topic=pa.string(), hour=pa.int64(), records=pa.int64(), bytes=pa.int64()),
    "intervals": schema(topic=pa.string(), time=TIME, width=pa.int64(), records=pa.int64(), bytes=pa.int64()),
    "forms": schema(
        topic=pa.string(),
        magic=pa.int32(),
        compression=pa.string(),
        batches=pa.int64(),
        bytes=pa.int64(),
        records=pa.int64(),
    ),
    "batch_sizes": schema(topic=pa.string(), size=pa.int64(), batches=pa.int64(), bytes=pa.int64()),
    "space": schema(
        topic=pa.string(),
        batch_size=pa.int64(),
        compression=pa.string(),
        bytes_per_record=pa.float64(),
        bytes_per_record_now=pa.float64(),
        sampled_records=pa.int64(),
    ),
    "producers": schema(
        topic=pa.string(),
        producers=pa.int64(),
        transactional=pa.int64(),
        open_transactions=pa.int64(),
        last_time=TIME,
    ),
    "groups": schema(
        group=pa.string(),
        type=pa.string(),
        state=pa.string(),
        members=pa.int64(),
        partitions=pa.int64(),
        lag=pa.int64(),
        out_of_range=pa.int64(),
        last_commit=TIME,
        commits_back=pa.int64(),
    ),
    "lags": LAGS,
    "transactions": TRANSACTIONS,
    "changes": CHANGES,
    "findings": FINDINGS,
    "kinds": schema(topic=pa.string(), code=pa.string(), severity=pa.string(), findings=pa.int64()),
}
"""The tables of a report, by name. `ClusterReport` describes them."""


class _Steps(NamedTuple):
    """The runner for the steps of a report; see `compute`."""

    runner: Runner
    progress: Progress

    def run(self, what: str, arguments: Sequence[_T], call: Callable[[_T], _R]) -> list[_R]:
        """Call a function for each argument, and return the results in the same order."""
        found: list[_R] = []
        self.progress(f"{what}: 0 of {len(arguments):,}", 0)
        for result in self.runner.map(call, arguments):
            found.append(result)
            self.progress(f"{what}: {len(found):,} of {len(arguments):,}", 1)
        return found


@dataclass
class Numbers:
    """The numbers of a report.

    Attributes:
        paths: the paths.
        cluster_ids: the ids in `meta.properties`.
        nodes: the ids of the brokers.
        tables: the tables, by the names in `SCHEMAS`.
        notes: a sentence for each fact that is not known, with the reason.
        has_groups: whether the paths have partitions of `__consumer_offsets`.
        has_transactions: whether the paths have partitions of `__transaction_state`.
        elsewhere: the number of partitions of which records are missing here, because they are in remote storage or
            were deleted.
        earlier_changes: the number of changes of the metadata that are older than those in the table.
        is_whole: whether the numbers are of all topics, and the directories themselves were checked.
    """

    paths: tuple[str, ...]
    cluster_ids: list[str]
    nodes: list[int]
    tables: dict[str, pa.Table]
    notes: list[str]
    has_groups: bool
    has_transactions: bool
    elsewhere: int
    earlier_changes: int
    is_whole: bool


def compute(
    paths: tuple[str, ...],
    topics: Iterable[str] | None,
    runner: Runner,
    progress: Progress = lambda _what, _done: None,
    *,
    samples: int = 0,
) -> Numbers:
    """Compute the numbers of log directories.

    Args:
        paths: log directories or partition directories.
        topics: only these topics, their groups and producers; None: all.
        runner: runs the calls.
        progress: see `report`.
        samples: the number of first and of latest records to show of each partition.

    Raises:
        FileNotFoundError: a path does not exist.
        ValueError: a path is no log directory, or a topic does not exist.
    """
    names = some_or_all("topics", topics)
    steps = _Steps(runner, progress)
    with collected() as notes:
        directories = LogDirs(*paths)
        wanted = None if names is None else topics_in(directories, names)
        replicas = directories.logs(wanted, all_replicas=True)
        logs = directories.logs(wanted)
        planned = check.plan(paths, None if wanted is None else lambda _: replicas, directories)
        sizes: Counter[str] = Counter()
        for log in planned.logs:
            sizes[log.topic or ""] += log.size
        ids = contents.Contents()
        ids.add(planned.findings)
        # The first call takes long if a directory has many partitions. The others run beside it.
        calls: list[check.DirectoriesToCheck | Iterable[contents.Piece]] = [
            *planned.directories,
            *contents.passes(planned.logs, [log.path for log in logs]),
        ]
        found = contents.merged([ids, *steps.run("reading logs", calls, contents.read)])
        policies = {log.topic or "": None if log.config is None else log.config.cleanup_policy for log in planned.logs}
        tables = _of_contents(found, replicas, logs, sizes, policies)
        tables["space"] = _space(tables["topics"], logs, steps)
        tables["producers"] = _producers(found.producers)
        tables["partitions"] = _partitions(found, replicas, logs, {log.path: log.size for log in planned.logs})
        tables["groups"], tables["lags"], tables["commits"] = _groups(paths, directories, wanted, steps)
        tables["samples"] = _samples(logs, samples, steps)
        tables["transactions"] = _transactions(directories, wanted, open_of(found.producers))
        changes = _changes(directories, wanted)
        tables["changes"] = changes.table
        elsewhere = sum(log.missing_offsets is not None for log in logs)
    nodes = {root.node_id for root in directories.roots if root.node_id is not None}
    clusters = {root.cluster_id for root in directories.roots if root.cluster_id is not None}
    topics_here = directories.topics()
    return Numbers(
        paths,
        sorted(clusters),
        sorted(nodes),
        tables,
        [*dict.fromkeys(_with_given_paths(one, paths) for one in [*found.notes, *notes])],
        OFFSETS_TOPIC in topics_here,
        TRANSACTIONS_TOPIC in topics_here,
        elsewhere,
        changes.earlier,
        is_whole=wanted is None,
    )


def _with_given_paths(text: str, paths: Iterable[str]) -> str:
    """Return a note with paths as they were given: a log opens its segments by absolute paths."""
    for path in paths:
        text = type(text)(text.replace(f"{storage.absolute(path)}/", f"{path.rstrip('/')}/"))
    return text


def _table(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMAS[name])


def _of_contents(
    found: contents.Contents,
    replicas: list[Log],
    logs: list[Log],
    sizes: Counter[str],
    policies: dict[str, str | None],
) -> dict[str, pa.Table]:
    rows: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    by_topic: defaultdict[str, list[Log]] = defaultdict(list)
    intervals = [SCHEMAS["intervals"].empty_table()]
    for log in replicas:
        by_topic[log.topic or ""].append(log)
    partitions = Counter(log.topic or "" for log in logs)
    for topic, here in by_topic.items():
        of_topic = found.topics.get(topic, contents.TopicContents())
        sums = by_hour(of_topic.profile)
        facts = _facts(sums)
        distinct = [contents.distinct_keys([sketch]) for sketch in of_topic.keys.values()]
        rows["topics"].append(
            {
                "topic": topic or None,
                "partitions": partitions[topic],
                "replicas": len(here),
                "segments": sum(len(log.segments) for log in here),
                "disk_bytes": sizes[topic],
                **facts,
                "distinct_keys": contents.distinct_keys(of_topic.keys.values()),
                "cleanup_policy": policies.get(topic),
                "compacted_records": min(sum(distinct), facts["records"]),
            }
        )
        rows["hours"] += _grouped(topic, sums, ["hour"], ["records", "bytes"])
        intervals.append(_intervals(topic, of_topic.profile))
        rows["forms"] += _grouped(topic, sums, ["magic", "compression"], ["batches", "bytes", "records"])
        rows["batch_sizes"] += [
            {"topic": topic or None, "size": size, "batches": batches, "bytes": total}
            for size, batches, total in of_topic.profile.batch_sizes()
        ]
    kinds = [
        {"topic": topic or None, "code": code, "severity": CODES[code].severity, "findings": count}
        for (topic, code), count in sorted(found.kinds.items())
    ]
    tables = {
        name: _table(name, rows[name]).sort_by([(key, "ascending") for key in keys])
        for name, keys in {
            "topics": ["topic"],
            "hours": ["topic", "hour"],
            "forms": ["topic", "magic", "compression"],
            "batch_sizes": ["topic", "size"],
        }.items()
    }
    tables["intervals"] = pa.concat_tables(intervals).sort_by([("topic", "ascending"), ("time", "ascending")])
    # These are sorted: errors first.
    tables["findings"] = _table("findings", [finding.to_row() for finding in found.findings])
    tables["kinds"] = _table("kinds", sorted(kinds, key=lambda kind: contents.SEVERITIES.index(kind["severity"])))
    return tables


def _intervals(topic: str, found: _native.Profile) -> pa.Table:
    sums = found.intervals()
    names, widths = pa.scalar(topic or None, pa.string()), pa.scalar(found.interval_width, pa.int64())
    columns: dict[str, Any] = {
        "topic": pa.repeat(names, sums.num_rows),
        "time": sums["time"].cast(TIME),
        "width": pa.repeat(widths, sums.num_rows),
        "records": sums["records"],
        "bytes": sums["bytes"],
    }
    return pa.table(columns, SCHEMAS["intervals"])


def _facts(sums: pa.Table) -> dict[str, Any]:
    """Return the columns of `topics` that are sums over all batches and records."""
    added = ("batches", "bytes", "records", "key_bytes", "value_bytes", "null_keys", "tombstones")
    facts: dict[str, Any] = {name: pc.sum(sums[name]).as_py() or 0 for name in added}
    facts["magics"] = sorted(set(sums["magic"].to_pylist()))
    facts["compressions"] = sorted(set(sums["compression"].to_pylist()), key=_native.CODECS.index)
    # In ms, because Python has no date for some of them.
    facts["first_time"] = pc.min(sums["first_timestamp"]).as_py()
    facts["last_time"] = pc.max(sums["last_timestamp"]).as_py()
    return facts


def _grouped(topic: str, sums: pa.Table, keys: list[str], facts: list[str]) -> list[dict[str, Any]]:
    grouped = sums.group_by(keys).aggregate([(name, "sum") for name in facts])
    return [
        {
            "topic": topic or None,
            **{name: row[name] for name in keys},
            **{name: row[f"{name}_sum"] or 0 for name in facts},
        }
        for row in grouped.to_pylist()
    ]


def _space(topics: pa.Table, logs: list[Log], steps: _Steps) -> pa.Table:
    by_size = topics.sort_by([("bytes", "descending")])["topic"].to_pylist()
    # Brokers write Kafka's own topics, and choose their codec.
    largest = [topic for topic in by_size if topic is None or not is_internal(topic)][:_MOST_MEASURED]
    of_topics: defaultdict[str | None, list[Segment]] = defaultdict(list)
    for log in logs:
        of_topics[log.topic] += log.segments
    samples = [(topic, _spread(of_topics[topic])) for topic in largest]
    rows = list(chain.from_iterable(steps.run("measuring codecs", samples, _space_of)))
    return _table("space", rows).sort_by([(key, "ascending") for key in ("topic", "batch_size", "compression")])


def _spread(segments: list[Segment]) -> list[Segment]:
    """Return at most `_MOST_SEGMENTS` segments, in equal distances."""
    count = len(segments)
    return (
        [segments[at * count // _MOST_SEGMENTS] for at in range(_MOST_SEGMENTS)] if count > _MOST_SEGMENTS else segments
    )


def _space_of(sample: tuple[str | None, list[Segment]]) -> list[dict[str, Any]]:
    topic, segments = sample
    found = None
    with _unread(f"the codecs of {topic}"):
        found = estimate(segments, sample=_SAMPLE, on_corrupt="skip")
    if found is None or not found.sampled_records:
        return []
    now = {
        "topic": topic,
        "bytes_per_record_now": found.sampled_bytes / found.sampled_records,
        "sampled_records": found.sampled_records,
    }
    forms = [(None, form.compression, form.bytes_per_record) for form in found.forms if form.magic == 2]
    filled = [(form.batch_size, form.compression, form.bytes_per_record) for form in found.batches]
    return [
        {**now, "batch_size": size, "compression": codec, "bytes_per_record": per_record}
        for size, codec, per_record in [*forms, *filled]
    ]


def _partitions(
    found: contents.Contents,
    replicas: list[Log],
    logs: list[Log],
    sizes: dict[str, int],
) -> pa.Table:
    """Return a row for each partition; `sizes` are those of logs, by path."""
    counts = Counter((log.topic or "", log.partition or 0) for log in replicas)
    rows = []
    for log in logs:
        topic, partition = log.topic or "", log.partition or 0
        of_topic = found.topics.get(topic, contents.TopicContents())
        facts = of_topic.partitions.get(partition)
        start, end = found.offsets.get(log.path, (None, None))
        sketch = of_topic.keys.get(partition)
        rows.append(
            {
                "topic": log.topic,
                "partition": log.partition,
                "replicas": counts[topic, partition],
                "segments": len(log.segments),
                "bytes": sizes.get(log.path),
                "start_offset": start,
                "end_offset": end,
                "distinct_keys": contents.distinct_keys([sketch]) if sketch else None,
                **(facts._asdict() if facts else {}),
                "errors": found.by_partition[topic, partition, "error"],
                "warnings": found.by_partition[topic, partition, "warning"],
                "is_damaged": found.by_partition[topic, partition, "damage"] > 0,
            }
        )
    return _table("partitions", rows).sort_by([("topic", "ascending"), ("partition", "ascending")])


def _samples(logs: list[Log], number: int, steps: _Steps) -> pa.Table:
    if not number:
        return SAMPLES.empty_table()
    shares = in_shares([log.path for log in sampled(logs)], lambda _: 1, _PARTITIONS_A_CALL)
    return pa.concat_tables(
        [SAMPLES.empty_table(), *steps.run("reading samples", shares, partial(_samples_in, number))]
    )


def _samples_in(number: int, paths: Sequence[str]) -> pa.Table:
    found = [SAMPLES.empty_table()]
    for path in paths:
        with _unread(f"the samples of {path}"):
            found.append(samples_in(Log(path), number))
    return pa.concat_tables(found)


def _producers(found: pa.Table) -> pa.Table:
    times: Any = found["last_time"].cast(pa.int64())
    found = found.set_column(found.schema.get_field_index("last_time"), "last_time", times)
    by_producer = found.group_by(["topic", "producer_id"]).aggregate(
        [("coordinator_epoch", "max"), ("transaction_start_offset", "count"), ("last_time", "max")]
    )
    rows: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in by_producer.to_pylist():
        rows[row["topic"]].append(row)
    summed = [
        {
            "topic": topic,
            "producers": len(found),
            "transactional": sum(
                row["coordinator_epoch_max"] is not None or row["transaction_start_offset_count"] > 0 for row in found
            ),
            "open_transactions": sum(row["transaction_start_offset_count"] for row in found),
            "last_time": max((row["last_time_max"] for row in found if row["last_time_max"] is not None), default=None),
        }
        for topic, found in sorted(rows.items())
    ]
    return _table("producers", summed)


@contextmanager
def _unread(what: str) -> Iterator[None]:
    """Note what is not known, because a running broker has deleted a file, or the disk cannot read it."""
    try:
        yield
    except FileNotFoundError as error:
        note(f"{what} are not known: {error.filename} no longer exists")
    except OSError as error:
        note(f"{what} are not known: {in_words(error)}")


def _groups(
    paths: tuple[str, ...], directories: LogDirs, topics: list[str] | None, steps: _Steps
) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Return the groups, their lags over time, and their latest commits."""
    places: list[str] = []
    with _unread("groups"):
        places = [log.path for log in logs_of(directories, OFFSETS_TOPIC)]
    shares = in_shares(places, lambda _: 1, -(-len(places) // _CALLS) or 1)
    found = list(chain.from_iterable(steps.run("reading groups", shares, partial(_coordinated, paths))))
    over_time = LagOverTime()
    latest = pa.concat_tables([COMMITS.empty_table(), *(one.latest for one in found)])
    for one in found:
        over_time.add(_of_topics(one.lags, topics))
    latest = _of_topics(latest, topics)
    # A hostile time may be one that Python has no date for.
    latest = latest.set_column(latest.schema.get_field_index("commit_time"), "commit_time", _ms(latest["commit_time"]))
    latest = latest.set_column(latest.schema.get_field_index("lag"), "lag", bounded(latest["lag"]))
    back: Counter[str] = Counter()
    for one in found:
        for (name, topic), count in one.back.items():
            if topics is None or topic in topics:
                back[name] += count
    outside: Any = pc.fill_null(latest["is_out_of_range"], pa.scalar(False)).cast(pa.int64())
    grouped = (
        latest.append_column("outside", outside)
        .group_by("group")
        .aggregate(
            [("partition", "count"), ("lag", "sum"), ("lag", "count"), ("outside", "sum"), ("commit_time", "max")]
        )
    )
    committed = {row["group"]: row for row in grouped.to_pylist()}
    rows = []
    for group in sorted((group for one in found for group in one.groups), key=lambda group: str(group["group"])):
        name = group["group"]
        commits = committed.get(name)
        if topics is not None and commits is None:
            continue
        rows.append(
            {
                **group,
                "partitions": commits["partition_count"] if commits else 0,
                "lag": commits["lag_sum"] if commits and commits["lag_count"] else None,
                "out_of_range": commits["outside_sum"] if commits else 0,
                "last_commit": commits["commit_time_max"] if commits else None,
                "commits_back": back[name],
            }
        )
    found_commits = latest.select(SCHEMAS["commits"].names).cast(SCHEMAS["commits"])
    in_order = found_commits.sort_by([("group", "ascending"), ("topic", "ascending"), ("partition", "ascending")])
    return _table("groups", rows), over_time.finish(), in_order


def _coordinated(paths: tuple[str, ...], places: Sequence[str]) -> list[Coordinated]:
    directories = LogDirs(*paths)
    names, lags, found = TopicNames(directories), Lags(directories, None), []
    with _COORDINATORS, worded_for(_of_other_verbs(current_face())):
        for path in places:
            with _unread(f"the groups of {path}"):
                found.append(coordinated(Log(path), names, lags))
    return found


def _of_other_verbs(face: Face) -> Face:
    """Return an interface whose texts name the commands with the option `memory`, which a report lacks."""

    def worded(name: str, value: str | None = None) -> str:
        text = face(name, value)
        return f"{text} of `groups` or `transactions`" if name == "memory" else text

    return worded


def _changes(directories: LogDirs, topics: list[str] | None) -> Changes:
    """Return what changed in the cluster's metadata."""
    if METADATA_TOPIC in directories.topics():
        for log in directories.logs([METADATA_TOPIC]):
            with _unread(f"the changes in {log.path}"):
                return changes_in(log, topics)
    return NO_CHANGES


def _ms(times: Any) -> Any:  # noqa: ANN401 - arrays
    return times.cast(pa.int64())


def _of_topics(table: pa.Table, topics: list[str] | None) -> pa.Table:
    if topics is None:
        return table
    return table.filter(pc.is_in(table["topic"], value_set=pa.array(topics, pa.string())))


def _transactions(directories: LogDirs, topics: list[str] | None, opened: list[dict[str, Any]]) -> pa.Table:
    """Return the transactions that are not complete: open at the coordinator or in a partition."""
    table = TRANSACTIONS.empty_table()
    try:
        with _unread("transactions"), worded_for(_of_other_verbs(current_face())):
            table = current_transactions(logs_of(directories, TRANSACTIONS_TOPIC), opened)
    except BrokerlessError as error:
        note(f"transactions are not known: {error}")
    lengths: Any = pc.list_value_length(table["open"])
    is_open: Any = pc.greater(lengths, pa.scalar(0))
    is_ongoing: Any = pc.is_in(table["state"], value_set=pa.array(["Ongoing", "PrepareCommit", "PrepareAbort"]))
    # Nulls count as false.
    found = table.filter(pc.or_kleene(is_open, is_ongoing))
    if topics is None:
        return found
    kept = {row for name in ("open", "partitions") for row in _rows_with(found[name].combine_chunks(), topics)}
    return found.take(pa.array(sorted(kept), pa.int64()))


def _rows_with(places: Any, topics: list[str]) -> set[int]:  # noqa: ANN401 - a list array of structs
    """Return the indexes of the rows that name one of the topics."""
    names = pc.struct_field(pc.list_flatten(places), "topic")
    rows = pc.list_parent_indices(places).filter(pc.is_in(names, value_set=pa.array(topics, pa.string())))
    return set(rows.to_pylist())
