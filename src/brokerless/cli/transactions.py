"""`brokerless transactions`: transactional ids, and the transactions that are open or hang in the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from brokerless.cli import terminal
from brokerless.cli.options import chosen_topics
from brokerless.cli.state import COORDINATOR_EXITS, TableForm, at_time, form_of, of_state, state_memory, telling
from brokerless.wording import moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_HEADINGS = ("TRANSACTIONAL ID", "PRODUCER", "EPOCH", "STATE", "STARTED", "UPDATED", "PARTITIONS", "OPEN", "NOTE")
_ROWS = 1 << 10
_MOST_CURES = 4
_UNDER_WAY = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


@click.command(short_help="List transactions: ongoing, open and hanging ones.", epilog=COORDINATOR_EXITS)
@of_state
@chosen_topics
@click.option(
    "--open",
    "chosen",
    flag_value="open",
    help="Only transactions that are ongoing for their coordinator, or open in the data.",
)
@click.option("--hanging", "chosen", flag_value="hanging", help="Only hanging transactions.")
@click.option("--history", is_flag=True, help="Show every state that the log still has.")
@at_time
@state_memory
def transactions(
    paths: tuple[str, ...],
    form: str,
    file_form: str | None,
    output: str | None,
    topics: tuple[str, ...],
    chosen: str | None,
    as_of: int | None,
    memory: int,
    *,
    history: bool,
) -> None:
    """List the transactional ids of a cluster with their states, and the transactions that are open in the data.

    OPEN names the partitions where the producer's transaction is open, each with its first offset: consumers with
    read_committed wait there. PARTITIONS is the number of partitions where the coordinator still has to end the
    transaction.

    A transaction hangs in a partition if its coordinator does not know the producer or the partition, and so never ends
    it (KIP-664). `kafka-transactions.sh abort` ends it, with the offset in OPEN.

    --history lists each state of an id that compaction has kept, in the order of the coordinators' logs. It does not
    read the data.

    --topic selects the transactions that are open in the topic, or that the coordinator still has to end there. OPEN
    then names no other topics.

    Name the data directories of all brokers: a hanging transaction and its coordinator may be on different ones.

    \b
    brokerless transactions /var/lib/kafka/data --open
    brokerless transactions broker1 broker2 broker3 --hanging --json
    brokerless transactions data --topic orders --open
    brokerless transactions data --history
    """
    from brokerless.state import transactions as of_transactions

    printed = form_of(form, file_form, output)
    if history and chosen == "hanging":
        raise click.UsageError("--history does not read the data, which shows what hangs: leave out --hanging")
    with telling():
        if history:
            batches = of_transactions.transaction_states(*paths, topics=topics or None, as_of=as_of, memory=memory)
        else:
            table = of_transactions.transactions(*paths, topics=topics or None, as_of=as_of, memory=memory)
            batches = iter(table.to_batches(max_chunksize=_ROWS))
        shown = batches if chosen is None else (_chosen(batch, chosen) for batch in batches)
        numbers = ("PRODUCER", "EPOCH", "PARTITIONS")
        cures: dict[str, None] = {}
        TableForm(of_transactions.SCHEMA, printed, output, _HEADINGS, _row, numbers).print_batches(
            _noted(shown, cures) if printed == "text" else shown
        )
        for cure in list(cures)[:_MOST_CURES]:
            terminal.say(cure, err=True)


def _noted(shown: Iterable[Any], cures: dict[str, None]) -> Iterator[Any]:
    """Yield batches, and note how to end each hanging transaction."""
    from brokerless.checking.finding import Finding

    for batch in shown:
        for row in batch.to_pylist():
            for one in row["open"] or () if row["is_hanging"] else ():
                if len(cures) < _MOST_CURES:
                    place = {"topic": one["topic"], "partition": one["partition"], "path": ""}
                    hanging = Finding(code="transaction-hanging", message="", start_offset=one["first_offset"], **place)
                    cures[f"cure of {hanging.code}: {hanging.cure}"] = None
        yield batch


def _chosen(batch: Any, chosen: str) -> Any:  # noqa: ANN401 - rows, imported late
    import pyarrow as pa
    import pyarrow.compute as pc

    if chosen == "hanging":
        is_chosen = batch["is_hanging"]
    else:
        count = pc.list_value_length(batch["open"])
        is_open = pc.fill_null(pc.greater(count, pa.scalar(0, pa.int32())), pa.scalar(False))
        is_chosen = pc.or_(is_open, pc.is_in(batch["state"], value_set=pa.array(_UNDER_WAY)))
    return batch.filter(is_chosen)


def _row(row: dict[str, Any]) -> Sequence[object]:
    places = [f"{one['topic']}-{one['partition']}@{one['first_offset']}" for one in row["open"] or ()]
    return [
        row["transactional_id"],
        row["producer_id"],
        row["producer_epoch"],
        row["state"],
        moment(row["started"]),
        moment(row["coordinator_time"] if row["is_removed"] else row["updated"]),
        None if row["partitions"] is None else len(row["partitions"]),
        " ".join(places),
        "removed" if row["is_removed"] else _verdict(row),
    ]


def _verdict(row: dict[str, Any]) -> str:
    if row["is_hanging"]:
        return "hangs"
    return "may hang" if row["open"] and row["is_hanging"] is None else ""
