"""`brokerless transactions`: transactional ids, and the transactions that are open or hang in the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from brokerless.cli.state import TableForm, at_time, form_of, of_state, telling
from brokerless.cli.table import moment

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEADINGS = ("TRANSACTIONAL ID", "PRODUCER", "EPOCH", "STATE", "STARTED", "UPDATED", "PARTITIONS", "OPEN", "NOTE")
_UNDER_WAY = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


@click.command(short_help="List transactions: ongoing, open and hanging ones.")
@of_state
@click.option("--open", "chosen", flag_value="open", help="Only those that are under way, or open in the data.")
@click.option("--hanging", "chosen", flag_value="hanging", help="Only those that hang.")
@at_time
def transactions(
    paths: tuple[str, ...],
    form: str,
    file_form: str | None,
    output: str | None,
    chosen: str | None,
    at: int | None,
) -> None:
    """List the transactional ids of a cluster, with their state, and the transactions that are open in the data.

    OPEN has the partitions where the data have the producer's transaction open, each with its first offset. Consumers
    with read_committed wait there. PARTITIONS is the number of those that the coordinator still has to end.

    A transaction hangs in a partition if its coordinator will never end it there, since it does not know the producer
    or the partition (KIP-664). kafka-transactions.sh abort ends it, with the offset that OPEN has.

    Give the data directories of all brokers: a hanging transaction may be on one, and its coordinator on another.

    \b
    brokerless transactions /var/lib/kafka/data --open
    brokerless transactions broker1 broker2 broker3 --hanging --json
    """
    import pyarrow as pa

    from brokerless.state import transactions as of_transactions

    printed = form_of(form, file_form, output)
    with telling():
        table = of_transactions.transactions(*paths, at=at)
        if chosen is not None:
            rows = zip(*(table[name].to_pylist() for name in ("state", "is_hanging")), strict=True)
            is_open = [bool(places) for places in _counts(table)]
            kept = [
                bool(hangs) if chosen == "hanging" else state in _UNDER_WAY or has_open
                for (state, hangs), has_open in zip(rows, is_open, strict=True)
            ]
            table = table.filter(pa.array(kept, pa.bool_()))
        numbers = ("PRODUCER", "EPOCH", "PARTITIONS")
        TableForm(table.schema, printed, output, _HEADINGS, _row, numbers).print_batches(table.to_batches())


def _counts(table: Any) -> list[int | None]:  # noqa: ANN401 - a table, imported late
    import pyarrow.compute as pc

    return pc.list_value_length(table["open"]).to_pylist()  # type: ignore[no-any-return]


def _row(row: dict[str, Any]) -> Sequence[object]:
    places = [f"{one['topic']}-{one['partition']}@{one['first_offset']}" for one in row["open"] or ()]
    return [
        row["transactional_id"],
        row["producer_id"],
        row["producer_epoch"],
        row["state"],
        moment(row["started"]),
        moment(row["updated"]),
        None if row["partitions"] is None else len(row["partitions"]),
        " ".join(places),
        "hangs" if row["is_hanging"] else "",
    ]
