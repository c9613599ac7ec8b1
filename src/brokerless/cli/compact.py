"""`brokerless compact`: what a broker's log cleaner does, without the broker."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from brokerless.cli.options import long_from, release, size
from brokerless.cli.rewriting import rewriting

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerless.cli.rewriting import RewriteTarget

    _Command = TypeVar("_Command", bound=Callable[..., Any])


def compaction(function: _Command) -> _Command:
    """Add the options that `compact` and `explain` share."""

    @wraps(function)
    def command(**options: Any) -> Any:  # noqa: ANN401 - a command's
        return function(**options)

    for decorate in (
        release,
        click.option(
            "--delete-retention-ms",
            type=long_from(0),
            help="Keep tombstones and markers this long, in place of the topic's setting.",
        ),
        click.option(
            "--min-compaction-lag-ms",
            type=long_from(0),
            help="Skip segments with younger records, in place of the topic's setting.",
        ),
        click.option(
            "--ignore-checkpoint", is_flag=True, help="Ignore the cleaner's checkpoint: the whole log is dirty."
        ),
        click.option(
            "--roll",
            is_flag=True,
            help="Roll the active segment first: it is never compacted.",
        ),
    ):
        command = decorate(command)
    return command  # type: ignore[return-value] # with options, which click passes


@click.command(short_help="Keep the last record of each key, as the log cleaner does.")
@rewriting
@compaction
@click.option(
    "--drop-null-keys",
    is_flag=True,
    help="Drop records that have no key. Without this, a log that has any is refused.",
)
@click.option(
    "--only-due", is_flag=True, help="Skip logs that a broker would skip: not dirty enough, or policy delete."
)
@click.option(
    "--memory",
    type=size,
    default="512MiB",
    show_default=True,
    help="Memory for keys and decisions, plus about 100 MB; with less, the log is read more often.",
)
def compact(target: RewriteTarget, **options: Any) -> None:  # noqa: ANN401 - those of `Compaction`
    """Keep the last record of each key, as a broker's log cleaner does.

    PATH is a log directory, with --topic, or one partition's directory. Tombstones, transactions and their markers, old
    message formats and producers' sequences follow Kafka's rules. The active segment stays, and so do all records from
    the first open transaction on; a dry run says how many. With --roll, the roll stays even if the rest is refused.

    Lag and retention of tombstones are the topic's settings on its broker, as the metadata log has them; name the
    broker's own file with --broker-config. The report says where each setting comes from.

    \b
    brokerless compact data --topic users --dry-run
    brokerless compact data --topic users --in-place --roll
    brokerless compact data --topic users --output compacted --jobs 4
    """
    from brokerless.rewriting.compact.compact import Compaction

    target.run(Compaction(**options))
