"""`brokerless compact`: what a broker's log cleaner does, without the broker."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from brokerless.cli.options import LONG_MAX, long_from, release
from brokerless.cli.rewriting import rewriting

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerless.cli.rewriting import Where

    _Command = TypeVar("_Command", bound=Callable[..., Any])

_UNITS = {"KiB": 10, "MiB": 20, "GiB": 30}


def size(text: str) -> int:
    """Parse bytes: a number, with KiB, MiB or GiB behind it.

    >>> size("512MiB")
    536870912
    """
    digits, shift = next(((text.removesuffix(u), n) for u, n in _UNITS.items() if text.endswith(u)), (text, 0))
    if not (digits.isascii() and digits.isdigit() and digits.strip("0")):
        raise click.BadParameter(f"{text!r} is not a number of bytes, KiB, MiB or GiB")
    # Python refuses numbers of thousands of digits in words of its own.
    number = int(digits.lstrip("0")[:20]) << shift
    if number > LONG_MAX:
        raise click.BadParameter(f"{text!r} is more than {LONG_MAX} bytes")
    return number


def compaction(function: _Command) -> _Command:
    """The options that say what a compaction does."""

    @wraps(function)
    def command(**options: Any) -> Any:  # noqa: ANN401 - a command's
        return function(**options)

    for decorate in (
        release,
        click.option(
            "--delete-retention-ms",
            type=long_from(0),
            help="How long tombstones and markers stay, in place of the topic's setting.",
        ),
        click.option(
            "--min-compaction-lag-ms",
            type=long_from(0),
            help="Leave segments with younger records alone, in place of the topic's setting.",
        ),
        click.option(
            "--ignore-checkpoint", is_flag=True, help="Ignore the cleaner's checkpoint: the whole log is dirty."
        ),
        click.option(
            "--roll",
            is_flag=True,
            help="Roll the active segment first, which is never compacted.",
        ),
    ):
        command = decorate(command)
    return command  # type: ignore[return-value] # with options, which click passes


def compact_options(function: _Command) -> _Command:
    """All options of `Compact`."""
    for decorate in (
        click.option(
            "--memory",
            type=size,
            default="512MiB",
            show_default=True,
            help="For keys and what is decided; with less, the log is read more often. Some 100 MB come on top.",
        ),
        click.option(
            "--only-due",
            is_flag=True,
            help="Leave logs alone that a broker would: not dirty enough, or policy delete.",
        ),
        click.option(
            "--drop-null-keys", is_flag=True, help="Drop records that have no key. Else a log that has any is refused."
        ),
        compaction,
    ):
        function = decorate(function)
    return function


@click.command(short_help="Keep the last record of each key, as the log cleaner does.")
@rewriting
@compact_options
def compact(where: Where, **options: Any) -> None:  # noqa: ANN401 - those of `Compact`
    """Keep the last record of each key, as a broker's log cleaner does.

    PATH is a log directory, with --topic, or one partition's directory. Tombstones, transactions and their markers,
    old message formats and sequences of producers are treated by Kafka's rules. The active segment is left alone, and
    all from the first open transaction on; a dry run says how much that is. With --roll, the roll stays if the rest is
    refused.

    Lag and retention of tombstones are those that the topic has on its broker, as far as the metadata log tells; name
    the broker's own file with --broker-config. The report says where each setting comes from.

    \b
    brokerless compact data --topic users --dry-run
    brokerless compact data --topic users --in-place --roll
    brokerless compact data --topic users --output compacted --jobs 4
    """
    from brokerless.rewriting.compact.compact import Compact

    where.run(Compact(**options))
