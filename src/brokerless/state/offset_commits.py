"""The offsets that groups committed: each commit that is still in the log, with its lag."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from brokerless import _native
from brokerless.arguments import check_paths, some_or_all, to_ms
from brokerless.errors import BrokerlessError, UnsupportedFormatError, in_words
from brokerless.layout.file_names import is_chosen
from brokerless.log.end_offsets import end_offsets
from brokerless.log_dir.log_dirs import LogDirs, sorted_replicas
from brokerless.metadata.schema import TIME, schema
from brokerless.notes import LeftOut, note
from brokerless.recovery.clean_start import broker_end
from brokerless.state.internal_topic import (
    MEMORY,
    OFFSETS_TOPIC,
    committed_rows,
    latest_records,
    logs_of,
    more_memory,
    needed_logs_of,
    not_understood,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from brokerless.arguments import Time
    from brokerless.log.log import Log

SCHEMA = schema(
    group=pa.string(),
    topic=pa.string(),
    partition=pa.int32(),
    offset=pa.int64(),
    leader_epoch=pa.int32(),
    metadata=pa.string(),
    commit_time=TIME,
    expire_time=TIME,
    topic_id=pa.string(),
    is_removed=pa.bool_(),
    previous_offset=pa.int64(),
    previous_commit_time=TIME,
    is_back=pa.bool_(),
    lag_then=pa.int64(),
    lag=pa.int64(),
    log_start_offset=pa.int64(),
    log_end_offset=pa.int64(),
    is_out_of_range=pa.bool_(),
    coordinator_partition=pa.int32(),
    coordinator_offset=pa.int64(),
    coordinator_time=TIME,
)

# The number of commits whose lags are computed together, and of rows in a batch of the result.
_ROWS_AT_ONCE, _ROWS = 1 << 18, 1 << 14


def commits(
    *paths: str | os.PathLike[str],
    groups: Iterable[str] | None = None,
    topics: Iterable[str] | None = None,
    as_of: Time | None = None,
    history: bool = True,
    lag: bool = True,
    memory: int = MEMORY,
) -> pa.RecordBatchReader:
    """Read the offset commits of groups: all commits that compaction has left, or only the latest of each partition.

    Columns: `group topic partition`; `offset`, the next offset to read; `leader_epoch metadata commit_time expire_time
    topic_id`; `is_removed`, whether the record removes the offset (the columns from `offset` on are then null);
    `previous_offset previous_commit_time`, the group's previous commit, even if it was removed; `is_back`, whether the
    commit is below the previous one; `lag_then`, the number of records up to the log end at `commit_time`; `lag`, the
    number of records up to the log end now, or at `as_of`; `log_start_offset log_end_offset` of the partition now;
    `is_out_of_range`, whether the offset is outside of these, so that a consumer that starts with it resets
    (`auto.offset.reset`); `coordinator_partition coordinator_offset coordinator_time`, the place and time of the record
    in `__consumer_offsets`.

    A commit in a transaction is returned once the transaction is committed. The lag is null if the directories do not
    have the partition, and below 0 for a commit beyond the log end, as in `kafka-consumer-groups`. The end of a log at
    a past time comes from the timestamps of its records: see `end_offsets`.

    Args:
        paths: log directories.
        groups: only these groups; None: all.
        topics: only commits for these topics; None: all.
        as_of: only commits up to this time; None: all.
        history: return all commits, instead of only the latest ones that are not removed.
        lag: whether to compute lags, which reads the logs' indexes, and batch headers around each commit's time.
        memory: the approximate number of bytes for the records, in addition to one batch. Partitions of
            `__consumer_offsets` that take more are left out, and a warning names them.

    Raises:
        FileNotFoundError: a path does not exist.
        ValueError: a path is no log directory.

    >>> import brokerless as bl
    >>> bl.commits(CLUSTER_DIR).read_all().num_rows
    34
    """
    check_paths("commits", paths)
    named, of_topics = some_or_all("groups", groups), some_or_all("topics", topics)
    of_groups = None if named is None else pa.array(sorted(set(named)), pa.string())
    directories = LogDirs(*paths)
    until = None if as_of is None else to_ms("as_of", as_of)
    coordinators = needed_logs_of(directories, OFFSETS_TOPIC)
    lags = Lags(directories, until) if lag else None

    def batches() -> Iterator[pa.RecordBatch]:
        for log in coordinators:
            for batch in commits_of(log, as_of=until, history=history, memory=memory):
                kept = batch if of_groups is None else batch.filter(pc.is_in(batch["group"], value_set=of_groups))
                if of_topics is not None:
                    names = [name for name in pc.unique(kept["topic"]).to_pylist() if is_chosen(name, of_topics)]
                    kept = kept.filter(pc.is_in(kept["topic"], value_set=pa.array(names, pa.string())))
                if kept.num_rows:
                    yield kept

    return pa.RecordBatchReader.from_batches(SCHEMA, batches() if lags is None else lags.each(batches()))


def commits_of(
    log: Log, *, as_of: int | None = None, history: bool = True, memory: int = MEMORY
) -> Iterator[pa.RecordBatch]:
    """Yield the offset commits in one partition of `__consumer_offsets`, with the schema `SCHEMA` and null lags.

    Args:
        log: the partition.
        as_of: only commits up to this time in ms; None: all.
        history: return all commits, instead of only the latest ones that are not removed.
        memory: see `commits`.
    """
    decoder = _native.OffsetCommits(memory // 2)
    first_failed: int | None = None
    for rows in committed_rows(log, as_of=as_of) if history else latest_records(log, as_of=as_of, memory=memory).take():
        try:
            found = decoder.decode(rows["key"], rows["value"])
        except UnsupportedFormatError as error:
            offset = rows["offset"][0].as_py()
            remedy = more_memory(2 * memory)
            note(LeftOut(f"{log.name}: commits from offset {offset} on are left out: {error.args[0]}: {remedy}"))
            return
        if first_failed is None and decoder.failed is not None:
            first_failed = rows["offset"][decoder.failed[1]].as_py()
        count = found.num_rows
        columns = {
            **{name: found[name] for name in found.schema.names},
            "is_back": pc.less(found["offset"], found["previous_offset"]),
            "coordinator_partition": pa.repeat(pa.scalar(log.partition, pa.int32()), count),
            "coordinator_offset": rows["offset"].take(found["row"]),
            "coordinator_time": rows["timestamp"].take(found["row"]).cast(TIME),
        }
        of_lags = (columns.get(field.name, pa.nulls(count, field.type)) for field in SCHEMA)
        yield pa.RecordBatch.from_arrays(list(of_lags), schema=SCHEMA)
    if decoder.failed is not None and first_failed is not None:
        count, _, why = decoder.failed
        note(f"{log.name}: {not_understood(log, 'commits', count, first_failed, why)}")


def pending_commits(*paths: str | os.PathLike[str]) -> dict[str, list[tuple[str, int]]]:
    """Return, by group, the topics and partitions with offsets in an open transaction."""
    found: dict[str, list[tuple[str, int]]] = {}
    for log in logs_of(LogDirs(*paths), OFFSETS_TOPIC):
        pending = _native.LatestRecords(MEMORY // 2)
        latest_records(log, pending=pending)
        decoder = _native.OffsetCommits()
        for rows in pending.take():
            for row in decoder.decode(rows["key"], rows["value"]).select(["group", "topic", "partition"]).to_pylist():
                found.setdefault(row["group"], []).append((row["topic"], row["partition"]))
    return found


class Lags:
    """The lags of commits, from the logs of their partitions.

    Args:
        directories: the log directories with the logs.
        as_of: the time that is treated as the present, in ms; None: the end of the logs.
    """

    def __init__(self, directories: LogDirs, as_of: int | None) -> None:
        self._at = as_of
        self._replicas: dict[tuple[str, int], list[Log]] = {}
        for log in directories.logs(all_replicas=True):
            if log.topic is not None and log.partition is not None:
                self._replicas.setdefault((log.topic, log.partition), []).append(log)
        self._known = (
            pa.array(sorted({topic for topic, _ in self._replicas}), pa.string()),
            pa.array(sorted({partition for _, partition in self._replicas}), pa.int32()),
        )
        self._logs: dict[tuple[str, int], Log | None] = {}
        self._ends: dict[tuple[str, int], int | None] = {}
        self._ranges: dict[tuple[str, int], tuple[int | None, int | None]] = {}

    def each(self, batches: Iterable[pa.RecordBatch], *, then: bool = True) -> Iterator[pa.RecordBatch]:
        """Yield the commits with their lags; without `then`, `lag_then` is null.

        A search for the ends of a log costs the same for one time and for many. So this method handles a large number
        of commits together, including those of several coordinators.
        """
        waiting: list[pa.RecordBatch] = []
        for batch in batches:
            waiting.append(batch)
            if sum(one.num_rows for one in waiting) >= _ROWS_AT_ONCE:
                yield from self._of_all(waiting, then=then)
                waiting = []
        yield from self._of_all(waiting, then=then)

    def _of_all(self, batches: list[pa.RecordBatch], *, then: bool) -> Iterator[pa.RecordBatch]:
        for combined in pa.Table.from_batches(batches, SCHEMA).combine_chunks().to_batches():
            if combined.num_rows:
                yield from pa.Table.from_batches([self.of(combined, then=then)]).to_batches(max_chunksize=_ROWS)

    def of(self, commits: pa.RecordBatch, *, then: bool = True) -> pa.RecordBatch:
        """Return the commits with their lags; without `then`, `lag_then` is null."""
        places = pa.table({"topic": commits["topic"], "partition": commits["partition"]})
        ones = pa.repeat(pa.scalar(1, pa.int64()), commits.num_rows)
        places = places.append_column("row", pc.subtract(pc.cumulative_sum(ones), pa.scalar(1, pa.int64())))
        # Millions of these partitions may be in no directory, so an absent partition must cost nothing.
        topics, partitions = self._known
        is_known: Any = pc.and_(
            pc.is_in(places["topic"], value_set=topics), pc.is_in(places["partition"], value_set=partitions)
        )
        absent: pa.Array[Any] = places["row"].filter(pc.invert(is_known)).combine_chunks()
        nothing: pa.Array[Any] = pa.nulls(len(absent), pa.int64())
        grouped = places.filter(is_known).group_by(["topic", "partition"]).aggregate([("row", "list")])
        order, past, now, starts, log_ends = [absent], [nothing], [nothing], [nothing], [nothing]
        for number, rows in enumerate(_lists(grouped["row_list"])):
            key = (str(grouped["topic"][number]), int(grouped["partition"][number]))
            offsets = commits["offset"].take(rows)
            start, log_end = self._range(key)
            order.append(rows)
            if then:
                times = commits["commit_time"].take(rows).cast(pa.int64())
                past.append(_behind(offsets, self._ends_at(key, times)))
            else:
                past.append(pa.nulls(len(rows), pa.int64()))
            starts.append(pa.repeat(pa.scalar(start, pa.int64()), len(rows)))
            log_ends.append(pa.repeat(pa.scalar(log_end, pa.int64()), len(rows)))
            if self._at is None:
                now.append(pc.subtract(log_ends[-1], offsets))
            else:
                now.append(_behind(offsets, pa.repeat(pa.scalar(self._end_at(key), pa.int64()), len(rows))))
        back = pc.sort_indices(pa.concat_arrays(order))
        columns = {name: commits[name] for name in commits.schema.names}
        columns.update(
            lag_then=pa.concat_arrays(past).take(back),
            lag=pa.concat_arrays(now).take(back),
            log_start_offset=pa.concat_arrays(starts).take(back),
            log_end_offset=pa.concat_arrays(log_ends).take(back),
        )
        offset = columns["offset"]
        is_below = pc.less(offset, columns["log_start_offset"])
        columns["is_out_of_range"] = pc.or_(is_below, pc.greater(offset, columns["log_end_offset"]))
        return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)

    def _log(self, key: tuple[str, int]) -> Log | None:
        """Return the log of a partition; None if it is absent, or damage hides which replica to read."""
        if key not in self._logs:
            self._logs[key] = None
            try:
                if key in self._replicas:
                    self._logs[key] = sorted_replicas(self._replicas[key])[0]
            except (BrokerlessError, OSError) as error:
                note(f"the lag of commits for {key[0]}-{key[1]} is not known: {in_words(error)}")
        return self._logs[key]

    def _range(self, key: tuple[str, int]) -> tuple[int | None, int | None]:
        """Return the current start and end of a log; None for a value that is not known."""
        if key not in self._ranges:
            log = self._log(key)
            self._ranges[key] = (None, None)
            try:
                if log is not None:
                    self._ranges[key] = (log.log_start_offset, broker_end(log))
            except (BrokerlessError, OSError) as error:
                note(f"the lag of commits for {key[0]}-{key[1]} is not known: {in_words(error)}")
        return self._ranges[key]

    def _end_at(self, key: tuple[str, int]) -> int | None:
        """Return the end of a log at the time that is treated as the present; None if it is not known."""
        if key not in self._ends:
            self._ends[key] = self._ends_at(key, pa.array([self._at], pa.int64()))[0].as_py()
        return self._ends[key]

    def _ends_at(self, key: tuple[str, int], times: pa.Array[Any]) -> pa.Array[Any]:
        """Return the ends of a log at these times; null where they are not known."""
        log = self._log(key)
        known = pc.unique(pc.drop_null(times)).sort()
        if log is None or not len(known):
            return pa.nulls(len(times), pa.int64())
        try:
            ends = end_offsets(log.files, known)
        except (BrokerlessError, OSError) as error:
            note(f"the lag at a past time of commits for {log.name} is not known: {in_words(error)}")
            return pa.nulls(len(times), pa.int64())
        return ends.take(pc.index_in(times, value_set=known))


def _lists(column: pa.ChunkedArray[Any]) -> Iterator[pa.Array[Any]]:
    for chunk in column.chunks:
        for number in range(len(chunk)):
            yield chunk[number].values


def _behind(offsets: pa.Array[Any], ends: pa.Array[Any]) -> pa.Array[Any]:
    """Return the lag of offsets, at least 0. The end at a time may be too low, because producers set the timestamps."""
    behind: pa.Array[Any] = pc.max_element_wise(pc.subtract(ends, offsets), pa.scalar(0, pa.int64()), skip_nulls=False)
    return behind
