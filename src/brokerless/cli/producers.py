"""`brokerless producers`: the producers of each partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from brokerless.cli.options import chosen_partitions, chosen_topics
from brokerless.cli.state import STATE_EXITS, TableForm, form_of, of_state, point_of, telling
from brokerless.wording import moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerless.cli.state import Point

_HEADINGS = (
    "PARTITION",
    "PRODUCER",
    "EPOCH",
    "LAST SEQUENCE",
    "LAST OFFSET",
    "LAST TIME",
    "COORDINATOR EPOCH",
    "OPEN SINCE OFFSET",
)
_NUMBERS = (*_HEADINGS[1:5], *_HEADINGS[6:])


@click.command(short_help="List the producers of partitions.", epilog=STATE_EXITS)
@of_state
@chosen_topics
@chosen_partitions
@click.option(
    "--as-of",
    "point",
    type=point_of,
    metavar="POINT",
    help="Show the state at a time, or before an offset of each partition: offset:N.",
)
def producers(
    paths: tuple[str, ...],
    form: str,
    file_form: str | None,
    output: str | None,
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    point: Point | None,
) -> None:
    """List the idempotent and transactional producers of partitions.

    The columns are those of `kafka-transactions.sh describe-producers`. The producers come from the newest producer
    snapshot and the batches after it; with --as-of, only from snapshots and batches before that point. OPEN SINCE
    OFFSET is the first offset of an open transaction.

    \b
    brokerless producers /var/lib/kafka/data --topic orders
    brokerless producers orders-0 --json
    brokerless producers orders-0 --as-of 2024-05-01T12:00
    """
    from brokerless.state import producers as of_producers

    printed = form_of(form, file_form, output)
    with telling():
        table = of_producers.producers(
            *paths,
            topics=topics or None,
            partitions=partitions or None,
            as_of=None if point is None else point.as_of,
            as_of_offset=None if point is None else point.as_of_offset,
        )
        TableForm(table.schema, printed, output, _HEADINGS, _row, _NUMBERS).print_batches(table.to_batches())


def _row(row: dict[str, Any]) -> Sequence[object]:
    names = ("producer_id", "producer_epoch", "last_sequence", "last_offset")
    return [
        f"{row['topic']}-{row['partition']}",
        *(row[name] for name in names),
        moment(row["last_time"]),
        row["coordinator_epoch"],
        row["transaction_start_offset"],
    ]
