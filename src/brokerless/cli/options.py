"""What several verbs share: PATH with --topic and --partition, times, isolation, and a line of progress."""

from __future__ import annotations

import base64
import binascii
import os
import re
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar

import click

from brokerless.arguments import to_ms
from brokerless.cli import terminal
from brokerless.layout.release import NEWEST, Release

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerless.log.log import Log

_Command = TypeVar("_Command", bound=Callable[..., Any])
_PROGRESS_SECONDS = 0.2
# Kafka's int and long: no larger number means anything in a log.
INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1


def int_from(least: int) -> click.IntRange:
    """Make an option's type: a Kafka int that is not below `least`."""
    return click.IntRange(least, INT_MAX)


def long_from(least: int) -> click.IntRange:
    """Make an option's type: a Kafka long that is not below `least`."""
    return click.IntRange(least, LONG_MAX)


def moment(**words: int) -> Callable[[str], int]:
    """Make an option's type: ms since the epoch, or ISO 8601 (UTC unless it says otherwise), or one of `words`."""
    known = {word.replace("_", "-"): number for word, number in words.items()}

    def time(text: str) -> int:
        if text in known:
            return known[text]
        try:
            return to_ms("time", text)
        except ValueError as error:
            what = str(error).removeprefix("time: ").replace(" a datetime,", "").replace("1970, or", "1970 or")
            others = "".join(f", {word}" for word in known) if "is no time" in what else ""
            raise click.BadParameter(f"{what}{others}") from None

    return time


def offset_or(*words: str) -> Callable[[str], int | str]:
    """Make an option's type: an offset, or one of `words`."""

    def offset(text: str) -> int | str:
        if text in words:
            return text
        if re.fullmatch(r"\d{1,19}", text) and int(text) <= LONG_MAX:
            return int(text)
        others = "".join(f" or {word}" for word in words)
        raise click.BadParameter(f"{text!r} is no offset: give a number up to {LONG_MAX}{others}")

    return offset


def known_release(text: str) -> str:
    """Parse an option: a release of Kafka."""
    try:
        return str(Release.parse(text))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


release = click.option(
    "--release",
    type=known_release,
    default=str(NEWEST),
    show_default=True,
    help="The Kafka whose rules count, where they have changed.",
)


class _PathOrUrl(click.Path):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        from brokerless.io.remote import is_remote

        return value if is_remote(str(value)) else super().convert(value, param, ctx)


existing_path, existing_file = _PathOrUrl(exists=True), _PathOrUrl(exists=True, dir_okay=False)


def paths(function: _Command) -> _Command:
    """PATH... with --topic and --partition."""
    for decorate in (
        click.option(
            "--partition", "partitions", type=int_from(0), multiple=True, help="Only this partition. Repeatable."
        ),
        click.option("--topic", "topics", multiple=True, help="Only this topic of the directory. Repeatable."),
        click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=existing_path),
    ):
        function = decorate(function)
    return function


isolation_level = click.option(
    "--isolation-level",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_uncommitted",
    show_default=True,
    help="read_committed leaves out aborted transactions and stops at the first open one.",
)

bytes_as = click.option(
    "--bytes",
    "bytes_as",
    type=click.Choice(["utf8", "base64", "hex"]),
    default="utf8",
    show_default=True,
    help='How keys, values and header values are written. With utf8, one that is not UTF-8 becomes {"base64": ...}.',
)


given_bytes = click.option(
    "--bytes",
    "bytes_as",
    type=click.Choice(["utf8", "base64", "hex"]),
    default="utf8",
    show_default=True,
    help="How keys, prefixes and header values are given.",
)


def parse_bytes(text: bytes, bytes_as: str) -> bytes:
    """Parse bytes that are given as text, in the form that `given_bytes` says."""
    try:
        if bytes_as == "base64":
            return base64.b64decode(text, validate=True)
        return bytes.fromhex(text.decode()) if bytes_as == "hex" else text
    except (binascii.Error, ValueError):
        raise click.BadParameter(f"{text.decode(errors='replace')!r} is not {bytes_as}") from None


as_json = click.option(
    "--json",
    "form",
    is_flag=True,
    callback=lambda _context, _option, is_given: "json" if is_given else "text",
    help="Print JSON lines.",
)

new_directory = click.option(
    "--output",
    "to",
    type=click.Path(),
    help="Write the result to this new directory, of the same kind as PATH, and leave PATH unchanged.",
)

metadata = click.option(
    "--metadata",
    type=click.Path(exists=True, file_okay=False),
    help="The directory that has the cluster's metadata log, if it is not PATH.",
)


def broker_settings(function: _Command) -> _Command:
    """Where settings of topics are that the log directory does not have."""
    for decorate in (
        metadata,
        click.option(
            "--broker-config",
            metavar="FILE",
            type=click.Path(exists=True, dir_okay=False),
            help="The broker's server.properties: settings of topics that have none of their own.",
        ),
    ):
        function = decorate(function)
    return function


def format_of(path: str | None, form: str | None) -> str:
    """Return the format of a file of rows: what is asked for, else what its name says, else json.

    Raises:
        click.UsageError: its name says another format.
    """
    suffix = os.path.splitext(path or "")[1].removeprefix(".").lower()
    if form is None and suffix in _OTHER_FORMATS:
        raise click.UsageError(
            f"{path}: {suffix} is no format here. Name the file .json, .arrow or .parquet, or give --format"
        )
    return form or (suffix if suffix in ("arrow", "parquet") else "json")


# Names under which nobody looks for JSON lines.
_OTHER_FORMATS = {"avro", "bz2", "csv", "feather", "gz", "orc", "tsv", "xls", "xlsx", "xml", "xz", "yaml", "zip", "zst"}


class Progress:
    """A line on stderr that overwrites itself, if stderr is a terminal.

    Args:
        prints: whether the verb prints meanwhile: then no line comes between, where stdout is a terminal too.
    """

    def __init__(self, *, prints: bool) -> None:
        self._is_shown = sys.stderr.isatty() and not (prints and sys.stdout.isatty())
        self._last = time.monotonic()
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave an empty line for what comes next."""
        if self._width:
            self._write("")

    def __call__(self, text: str) -> None:
        """Show `text`, unless something else was shown just now."""
        now = time.monotonic()
        if self._is_shown and now - self._last >= _PROGRESS_SECONDS:
            self._last = now
            self._write(text)

    def _write(self, text: str) -> None:
        terminal.overwrite(text, self._width)
        self._width = len(text)


def note_missing(log: Log) -> None:
    """Say on stderr which offsets belong to a log but are not here, if there are such."""
    if log.missing_offsets:
        first, end = log.missing_offsets
        click.echo(f"note: {log.name} has no offsets {first} to {end - 1} here: remote or deleted", err=True)


def chosen(
    paths: Sequence[str], topics: Sequence[str], partitions: Sequence[int], *, internal: bool = True
) -> list[Log]:
    """Return the logs that PATH..., --topic and --partition name.

    With `internal=False` Kafka's own topics only count if they are named, by --topic or by their directory.
    """
    from brokerless.log_dir.log_dirs import LogDirs

    log_dirs = LogDirs(*paths)
    return (log_dirs.logs if internal else log_dirs.readable)(topics or None, partitions or None)
