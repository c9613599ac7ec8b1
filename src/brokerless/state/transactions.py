"""Transactions as their coordinators know them, and open and hanging transactions in the data partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.json import ParseOptions, ReadOptions, read_json

from brokerless.arguments import FEW, check_paths, listed_few, some_or_all, to_ms
from brokerless.layout.file_names import chosen_topics, is_chosen
from brokerless.log_dir.log_dirs import LogDirs
from brokerless.metadata.schema import TIME, schema, structs
from brokerless.notes import LeftOut, collected, note
from brokerless.state.internal_topic import (
    MEMORY,
    TRANSACTIONS_TOPIC,
    RowMemory,
    committed_rows,
    java_hash,
    known_logs,
    latest_records,
    logs_of,
    needed_logs_of,
    state_records,
    tell_absent,
    understood_records,
)
from brokerless.state.producers import producers_of

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from brokerless.arguments import Time
    from brokerless.log.log import Log
    from brokerless.state.internal_topic import StateRecord

_OPEN = structs(
    topic=pa.string(),
    partition=pa.int32(),
    producer_epoch=pa.int16(),
    first_offset=pa.int64(),
    last_offset=pa.int64(),
    last_time=TIME,
    coordinator_epoch=pa.int32(),
    is_hanging=pa.bool_(),
)
_PARTITIONS = pa.list_(pa.struct([("topic", pa.string()), ("partition", pa.int32())]))
_PLACE = schema(topic=pa.string(), partition=pa.int32())
SCHEMA = schema(
    transactional_id=pa.string(),
    producer_id=pa.int64(),
    producer_epoch=pa.int16(),
    state=pa.string(),
    timeout_ms=pa.int32(),
    started=TIME,
    updated=TIME,
    partitions=_PARTITIONS,
    open=_OPEN,
    is_hanging=pa.bool_(),
    is_removed=pa.bool_(),
    coordinator_partition=pa.int32(),
    coordinator_offset=pa.int64(),
    coordinator_time=TIME,
)
# The approximate memory of a row, in bytes.
_ROW_SIZE = 1200
# TransactionState, by its number in records.
STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
# The fields of a record's value, under the names of Kafka's JSON.
_VALUE = schema(
    producerId=pa.int64(),
    producerEpoch=pa.int16(),
    transactionStatus=pa.int32(),
    transactionTimeoutMs=pa.int32(),
    transactionStartTimestampMs=pa.int64(),
    transactionLastUpdateTimestampMs=pa.int64(),
    transactionPartitions=structs(topic=pa.string(), partitionIds=pa.list_(pa.int32())),
)


def transactions(
    *paths: str | os.PathLike[str],
    topics: Iterable[str] | None = None,
    as_of: Time | None = None,
    history: bool = False,
    memory: int = MEMORY,
) -> pa.Table:
    """Return the transactional ids in log directories, and the transactions that are open in the data partitions.

    Columns: `transactional_id producer_id producer_epoch`; `state` as Kafka names it; `timeout_ms`; `started`, null
    without a transaction; `updated`; `partitions`, in which the coordinator still has to end the transaction: a list of
    `topic` and `partition`; `open`, the partitions in which the producer's transaction is open: a list of `topic
    partition producer_epoch first_offset last_offset last_time coordinator_epoch is_hanging`; `is_hanging`, whether the
    transaction hangs in any of them; `is_removed`, whether the record removes the id (the columns before it are then
    null); `coordinator_partition coordinator_offset coordinator_time`, the place and time of the record in
    `__transaction_state`.

    A transaction hangs in a partition if its coordinator will not end it there, because the coordinator does not know
    the producer, or does not know that the transaction includes the partition (KIP-664). `kafka-transactions.sh
    find-hanging` finds the same transactions, once they are older than the longest timeout. If no coordinator knows the
    producer of an open transaction, the transaction has its own row, without a transactional id.

    With `history`, an id has one row per state, in the order of the coordinators' logs. `open` is then null.

    Args:
        paths: log directories.
        topics: only the transactions of these topics, by name or glob: those that are open in one of their partitions,
            or whose coordinator still has to end them there. `open` then lists no other topics. None: all.
        as_of: return the coordinators' state at this time, as far as compaction has left records from it; `open` is
            then null. None: at the end.
        history: return every state up to `as_of` that compaction has left, instead of only the latest state of each id.
        memory: the approximate number of bytes for the records, in addition to one batch. Records and ids that take
            more are left out, and a warning names them.

    Raises:
        FileNotFoundError: a path does not exist.
        ValueError: a path is no log directory, or a topic is neither in the directories nor in a transaction.

    >>> import brokerless as bl
    >>> bl.transactions(CLUSTER_DIR).num_rows
    3
    >>> bl.transactions(CLUSTER_DIR, topics=["payments"])["transactional_id"].to_pylist()
    ['payment-service-2', 'payment-service-3']
    """
    check_paths("transactions", paths)
    if history:
        return pa.Table.from_batches(transaction_states(*paths, topics=topics, as_of=as_of, memory=memory), SCHEMA)
    directories, wanted = LogDirs(*paths), some_or_all("topics", topics)
    until = None if as_of is None else to_ms("as_of", as_of)
    choice = None if wanted is None else _Choice(wanted, directories)
    if until is not None:
        logs = needed_logs_of(directories, TRANSACTIONS_TOPIC)
    else:
        names = None if choice is None else choice.names_to_read()
        logs = [] if names == [] else known_logs(directories, names)
    coordinators = [log for log in logs if log.topic == TRANSACTIONS_TOPIC]
    if until is not None:
        table = _sorted(_known(coordinators, as_of=until, memory=memory).rows)
        return table if choice is None else choice.check(choice.of(table))
    tell_absent(directories, TRANSACTIONS_TOPIC, is_needed=True)
    table = current_transactions(coordinators, [one for log in logs for one in open_in(log)], memory=memory)
    if choice is not None:
        table = choice.check(choice.of(table))
    _tell_unseen(table, {(log.topic, log.partition) for log in logs}, wanted)
    return table


class _Choice:
    """The transactions of some topics.

    Args:
        wanted: names or globs.
        directories: the directories whose topics are known to exist.
    """

    def __init__(self, wanted: list[str], directories: LogDirs) -> None:
        self._wanted, self._there = wanted, directories.topics()
        self._left = directories.leftovers()
        self._seen: set[str] = set()

    def names_to_read(self) -> list[str]:
        """Return the topics whose logs have the chosen transactions, and their coordinators' topic."""
        return [name for name in self._there if name == TRANSACTIONS_TOPIC or is_chosen(name, self._wanted)]

    def of(self, table: Any) -> Any:  # noqa: ANN401 - a table or a batch, and the same
        """Return the rows that name a chosen topic in `open` or `partitions`."""
        rows: set[int] = set()
        for name in ("open", "partitions"):
            column = table[name]
            places = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            topics = pc.struct_field(pc.list_flatten(places), "topic")
            names = [one for one in pc.unique(topics).to_pylist() if is_chosen(one, self._wanted)]
            self._seen.update(names)
            is_named = pc.is_in(topics, value_set=pa.array(names, pa.string()))
            parents: Any = pc.list_parent_indices(places)
            rows.update(parents.filter(is_named).to_pylist())
        return table.take(pa.array(sorted(rows), pa.int64()))

    def check(self, table: pa.Table) -> pa.Table:
        """Return a table. Refuse a wanted topic that neither the directories nor the transactions have.

        Raises:
            ValueError: no topic is chosen by one of the names or globs.
        """
        chosen_topics(self._wanted, [*self._there, *self._seen], self._left)
        return table


def current_transactions(coordinators: Sequence[Log], found: list[dict[str, Any]], *, memory: int = MEMORY) -> pa.Table:
    """Return the table of `transactions` at the end of the logs.

    Args:
        coordinators: the partitions of `__transaction_state`.
        found: the transactions that are open in the data partitions, as `open_in` returns them.
        memory: see `transactions`.
    """
    known = _known(coordinators, memory=memory)
    has_all = _are_all(coordinators, known.rows)
    if found and not has_all:
        note(
            LeftOut(
                "it is not known which transactions hang, because the paths do not have all partitions of "
                f"{TRANSACTIONS_TOPIC}"
            )
        )
    elif found and known.doubtful:
        names = listed_few(f"{TRANSACTIONS_TOPIC}-{number}" for number in sorted(known.doubtful))
        note(LeftOut(f"it is not known which transactions hang, because not all records of {names} could be read"))
    return _sorted(known.rows + _with_open(known, found, knows_all=has_all and not known.doubtful))


class _Known(NamedTuple):
    """The coordinators' state: rows of `SCHEMA`, and the partitions with records that were left out."""

    rows: list[dict[str, Any]]
    doubtful: set[int]


def _known(coordinators: Iterable[Log], *, as_of: int | None = None, memory: int = MEMORY) -> _Known:
    of_all = RowMemory(memory)
    known = _Known([], set())
    for log in coordinators:
        # Each note is about records that were left out.
        with collected(forwards=True) as notes:
            known.rows.extend(transactions_of(log, as_of=as_of, memory=memory, rows=of_all))
        if notes:
            known.doubtful.add(log.partition or 0)
    return known


def _tell_unseen(table: pa.Table, seen: Collection[tuple[str | None, int | None]], wanted: list[str] | None) -> None:
    """Warn about partitions that no path has, and in which coordinators still have to end transactions.

    Args:
        table: the transactions.
        seen: the topics and partitions whose logs were read.
        wanted: only partitions of these topics, by name or glob; None: all.
    """
    places: Any = pc.list_flatten(table["partitions"].combine_chunks())
    awaited = pa.table({name: places.field(name) for name in _PLACE.names}).group_by(_PLACE.names).aggregate([])
    there = pa.Table.from_pylist([dict(zip(_PLACE.names, one, strict=True)) for one in seen], _PLACE)
    unseen = awaited.join(there, _PLACE.names, join_type="left anti")
    if wanted is not None:
        names = [name for name in pc.unique(unseen["topic"]).to_pylist() if is_chosen(name, wanted)]
        unseen = unseen.filter(pc.is_in(unseen["topic"], value_set=pa.array(names, pa.string())))
    count = unseen.num_rows
    if count:
        unseen = unseen.sort_by([(name, "ascending") for name in _PLACE.names])
        first = unseen.slice(0, FEW).to_pylist()
        listed = listed_few((f"{one['topic']}-{one['partition']}" for one in first), count)
        are, they = ("is", "it") if count == 1 else ("are", "they")
        note(LeftOut(f"{listed} {are} in none of the paths, so it is not known which transactions {they} have open"))


def _sorted(rows: list[dict[str, Any]]) -> pa.Table:
    table = pa.Table.from_pylist(rows, SCHEMA)
    return table.sort_by([("transactional_id", "ascending"), ("producer_id", "ascending")])


def transaction_states(
    *paths: str | os.PathLike[str],
    topics: Iterable[str] | None = None,
    as_of: Time | None = None,
    memory: int = MEMORY,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `transactions` with `history`."""
    directories, wanted = LogDirs(*paths), some_or_all("topics", topics)
    until = None if as_of is None else to_ms("as_of", as_of)
    choice = None if wanted is None else _Choice(wanted, directories)
    for log in needed_logs_of(directories, TRANSACTIONS_TOPIC):
        for states in states_in(log, as_of=until, memory=memory):
            yield states if choice is None else choice.of(states)
    if choice is not None:
        choice.check(SCHEMA.empty_table())


def timeouts(path: str, producers: Collection[int]) -> dict[int, int]:
    """Return the `transaction.timeout.ms` of producers, by id, according to coordinators' logs in a log directory."""
    found: dict[int, int] = {}
    wanted = pa.array(sorted(producers), pa.int64())
    for log in logs_of(LogDirs(path), TRANSACTIONS_TOPIC):
        for states in states_in(log):
            chosen = states.filter(pc.is_in(states["producer_id"], value_set=wanted)).select(
                ["producer_id", "timeout_ms"]
            )
            found.update((row["producer_id"], row["timeout_ms"]) for row in chosen.to_pylist())
    return found


def states_in(log: Log, *, as_of: int | None = None, memory: int = MEMORY) -> Iterator[pa.RecordBatch]:
    """Yield the states in one partition of `__transaction_state`, or in one segment of it, up to a time in ms."""
    for rows in committed_rows(log, as_of=as_of):
        for part, decoded in understood_records(log, rows, memory=memory):
            if part.num_rows:
                yield _states(log, part, decoded)


def _states(log: Log, rows: pa.RecordBatch, decoded: pa.RecordBatch) -> pa.RecordBatch:
    """Return the states in records as rows of `SCHEMA`. A log may have millions, so they are not Python objects."""
    keys = _parsed(decoded["key"], pa.schema([("transactionalId", pa.string())]))
    values = _parsed(decoded["value"], _VALUE)
    count = rows.num_rows
    columns: dict[str, pa.Array[Any]] = {
        "transactional_id": keys["transactionalId"],
        "producer_id": values["producerId"],
        "producer_epoch": values["producerEpoch"],
        "state": _named(values["transactionStatus"]),
        "timeout_ms": values["transactionTimeoutMs"],
        "started": _not_negative(values["transactionStartTimestampMs"]),
        "updated": _not_negative(values["transactionLastUpdateTimestampMs"]),
        "partitions": _partitions(values["transactionPartitions"], pc.is_valid(decoded["value"])),
        "is_removed": pc.is_null(decoded["value"]),
        "coordinator_partition": pa.repeat(pa.scalar(log.partition, pa.int32()), count),
        "coordinator_offset": rows["offset"],
        "coordinator_time": rows["timestamp"].cast(TIME),
    }
    nothing = (columns.get(field.name, pa.nulls(count, field.type)) for field in SCHEMA)
    return pa.RecordBatch.from_arrays(list(nothing), schema=SCHEMA)


def _parsed(texts: pa.Array[Any], schema: pa.Schema) -> pa.RecordBatch:
    """Parse the JSON object of each row; without one, all fields are null. Kafka's JSON has no line breaks."""
    # Unlike a slice's buffer, the joined array's buffer holds only these rows.
    join: Any = pc.binary_join_element_wise
    content = join(texts, "", "\n", null_handling="replace", null_replacement="{}").buffers()[2]
    source: Any = pa.BufferReader(content)
    table = read_json(
        source,
        ReadOptions(use_threads=False, block_size=max(content.size, 1)),
        ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )
    return table.combine_chunks().to_batches()[0]


def _named(numbers: pa.Array[Any]) -> pa.Array[Any]:
    names: pa.Array[Any] = pa.array(STATES)
    is_known = pc.and_(
        pc.greater_equal(numbers, pa.scalar(0, pa.int32())), pc.less(numbers, pa.scalar(len(STATES), pa.int32()))
    )
    known = names.take(pc.if_else(is_known, numbers, pa.scalar(None, pa.int32())))
    named: pa.Array[Any] = pc.coalesce(known, numbers.cast(pa.string()))
    return named


def _not_negative(times: pa.Array[Any]) -> pa.Array[Any]:
    found = pc.if_else(pc.less(times, pa.scalar(0, pa.int64())), pa.scalar(None, pa.int64()), times)
    return found.cast(TIME)  # type: ignore[no-any-return]


def _partitions(topics: pa.Array[Any], is_there: pa.Array[Any]) -> pa.Array[Any]:
    """Return a list of topic and partition for each list of topics with their partitions; null for a removed id."""
    places: Any = pc.list_flatten(topics)
    row: Any = pc.list_parent_indices(topics)
    parents: Any = pc.list_parent_indices(places.field("partitionIds"))
    flat = pa.table(
        {
            "row": row.take(parents),
            "place": parents,
            "topic": places.field("topic").take(parents),
            "partition": pc.list_flatten(places.field("partitionIds")),
        }
    )
    flat = flat.sort_by([("row", "ascending"), ("place", "ascending"), ("partition", "ascending")]).combine_chunks()
    rows = pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), len(topics) + 1))
    counted: Any = flat.group_by("row").aggregate([("partition", "count")])
    at: Any = pc.index_in(pc.subtract(rows, pa.scalar(1, pa.int64())), value_set=counted["row"].combine_chunks())
    counts: Any = pc.fill_null(counted["partition_count"].combine_chunks().take(at), 0)
    # The list offsets begin with 0. Each is the number of elements in the rows before it.
    ends: Any = pc.cumulative_sum(counts)
    offsets: Any = pc.subtract(ends, counts).cast(pa.int32())
    values = pa.StructArray.from_arrays(
        [flat["topic"].combine_chunks(), flat["partition"].combine_chunks()], fields=list(_PARTITIONS.value_type)
    )
    return pa.ListArray.from_arrays(offsets, values, type=_PARTITIONS, mask=pc.invert(is_there))


def transactions_of(
    log: Log, *, as_of: int | None = None, memory: int = MEMORY, rows: RowMemory | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the transactional ids of one partition of `__transaction_state`, as rows of `SCHEMA` without `open`.

    Args:
        log: the partition.
        as_of: the time in ms; None: the end.
        memory: see `transactions`.
        rows: the memory for the rows of several partitions; None: for the rows of this partition alone.
    """
    of_rows = rows or RowMemory(memory)
    for batch in latest_records(log, as_of=as_of, memory=memory).take():
        for record in state_records(log, batch, memory=memory):
            # Count the objects of the row, and those of its printed form.
            if not of_rows.take(log, _ROW_SIZE + record.memory):
                return
            yield _state(record)


def _state(record: StateRecord) -> dict[str, Any]:
    row = {
        "transactional_id": record.key["transactionalId"],
        "is_removed": record.value is None,
        "coordinator_partition": record.partition,
        "coordinator_offset": record.offset,
        "coordinator_time": record.timestamp,
    }
    value = record.value
    if value is None:
        return row
    number = value["transactionStatus"]
    return {
        **row,
        "producer_id": value["producerId"],
        "producer_epoch": value["producerEpoch"],
        "state": STATES[number] if 0 <= number < len(STATES) else str(number),
        "timeout_ms": value["transactionTimeoutMs"],
        "started": _time(value["transactionStartTimestampMs"]),
        "updated": _time(value["transactionLastUpdateTimestampMs"]),
        "partitions": [
            {"topic": one["topic"], "partition": partition}
            for one in value["transactionPartitions"] or ()
            for partition in sorted(one["partitionIds"])
        ],
    }


def open_in(log: Log) -> list[dict[str, Any]]:
    """Return the transactions that are open in a partition, as elements of `open` with their `producer_id`."""
    return open_of(producers_of(log))


def open_of(found: pa.Table) -> list[dict[str, Any]]:
    """Return the open transactions of producers, which `producers_of` found, as `open_in` does."""
    found = found.filter(pc.is_valid(found["transaction_start_offset"]))
    # In ms, because Python cannot represent some times as dates.
    times: Any = found["last_time"].cast(pa.int64())
    found = found.set_column(found.schema.get_field_index("last_time"), "last_time", times)
    return [{**producer, "first_offset": producer["transaction_start_offset"]} for producer in found.to_pylist()]


def _are_all(coordinators: Iterable[Log], rows: list[dict[str, Any]]) -> bool:
    """Return whether these are all partitions of `__transaction_state`.

    The hash of an id determines its partition (`TransactionStateManager.partitionFor`). So an id in another partition
    shows that more partitions exist.
    """
    numbers = {log.partition for log in coordinators}
    count = len(numbers)
    if numbers != set(range(count)) or not count:
        return False
    return all(java_hash(row["transactional_id"]) % count == row["coordinator_partition"] for row in rows)


def _time(ms: int) -> int | None:
    return None if ms < 0 else ms


def _with_open(known: _Known, found: list[dict[str, Any]], *, knows_all: bool) -> list[dict[str, Any]]:
    """Add open transactions to the rows of their producers. Return new rows for the transactions of unknown producers.

    It is certain whether a transaction hangs only if all records of its coordinator are known or, for an unknown
    producer, all records of all coordinators. Otherwise `is_hanging` is null.
    """
    by_producer = {row["producer_id"]: row for row in known.rows}
    unknown: dict[int, dict[str, Any]] = {}
    for row in known.rows:
        row.update(open=[], is_hanging=False)
    for one in found:
        producer = one["producer_id"]
        if producer in by_producer:
            row = by_producer[producer]
            is_awaited = {"topic": one["topic"], "partition": one["partition"]} in row["partitions"]
            is_known = row["coordinator_partition"] not in known.doubtful
        else:
            new = {"producer_id": producer, "producer_epoch": one["producer_epoch"], "open": [], "is_removed": False}
            row = unknown.setdefault(producer, new)
            is_awaited, is_known = False, knows_all
        row["open"].append({**one, "is_hanging": False if is_awaited else True if is_known else None})
    for row in (*known.rows, *unknown.values()):
        verdicts = [one["is_hanging"] for one in row["open"]]
        row["is_hanging"] = True if True in verdicts else None if None in verdicts else False
    return list(unknown.values())
