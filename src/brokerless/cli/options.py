"""Options that several verbs share: PATH with --topic and --partition, times, isolation; and a progress line."""

from __future__ import annotations

import base64
import binascii
import functools
import os
import re
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar

import click

from brokerless import _native
from brokerless.arguments import to_ms
from brokerless.cli import terminal
from brokerless.layout.release import NEWEST, Release
from brokerless.wording import conjoined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerless.log.log import Log
    from brokerless.values.forms import Forms

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
_PROGRESS_SECONDS = 0.2
# The largest Kafka int and long; a log has no larger numbers.
INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1
_TIMES = "ms since 1970, ISO 8601 (2024-05-01T12:00), or a time before now (-1h, -2d, yesterday)"


class _Number(click.IntRange):
    """An integer in an obvious range: the help shows it as N, without its bounds."""

    def get_metavar(self, *_: Any, **__: Any) -> str:  # noqa: ANN401 - click's own arguments, which differ by release
        return "N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        number = click.INT.convert(value, param, ctx)
        if not int(self.min or 0) <= number <= int(self.max or 0):
            self.fail(f"{number} is not in the range {super()._describe_range()}", param, ctx)
        return number

    def _describe_range(self) -> str:
        return ""


def int_from(least: int) -> click.IntRange:
    """Return an option type: a Kafka int of at least `least`."""
    return _Number(least, INT_MAX)


def long_from(least: int) -> click.IntRange:
    """Return an option type: a Kafka long of at least `least`."""
    return _Number(least, LONG_MAX)


_UNITS_OF_TIME = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DAYS_AGO = {"today": 0, "yesterday": 1}


def relative_time(text: str, now: int) -> int | None:
    """Parse a time before now (-1h, -30m, -2d), or the start of a day in UTC; None if the text has another form.

    >>> relative_time("-1h", 7_200_000), relative_time("yesterday", 200_000_000), relative_time("2024-05-01", 0)
    (3600000, 86400000, None)
    """
    if text == "now":
        return now
    if text in _DAYS_AGO:
        return now // 86_400_000 * 86_400_000 - 86_400_000 * _DAYS_AGO[text]
    found = re.fullmatch(r"-(\d{1,15})(ms|[smhdw])", text)
    return None if found is None else now - int(found[1]) * _UNITS_OF_TIME[found[2]]


def moment(**words: int) -> Callable[[str], int]:
    """Return an option type: ms since the epoch, ISO 8601 (UTC by default), a time before now, or one of `words`."""
    known = {word.replace("_", "-"): number for word, number in words.items()}

    def time(text: str) -> int:
        from brokerless.io.clock import now_ms
        from brokerless.log.unlikely_times import other_unit

        if text in known:
            return known[text]
        before_now = relative_time(text, now_ms())
        if before_now is not None:
            if before_now < 0:
                raise click.BadParameter(f"{text} is before 1970: no record has such a time")
            return before_now
        try:
            ms = to_ms("", text, ", ".join([_TIMES, *known]))
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
        if text.isdecimal() and ms < LONG_MAX and (unit := other_unit(ms)):
            raise click.BadParameter(f"{text} looks like {unit}: give {_TIMES}")
        return ms

    return time


def offset_or(*words: str, from_end: bool = False) -> Callable[[str], int | str]:
    """Return an option type: an offset, or one of `words`. With `from_end`, also a negative number."""

    def offset(text: str) -> int | str:
        if text in words:
            return text
        if re.fullmatch(r"-?\d{1,19}" if from_end else r"\d{1,19}", text) and int(text) <= LONG_MAX:
            return int(text)
        others = "".join(f" or {word}" for word in words)
        raise click.BadParameter(f"{text!r} is not an offset: give a number up to {LONG_MAX}{others}")

    return offset


_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}


def size(text: str) -> int:
    """Parse a number of bytes, with an optional unit: KiB, MiB or GiB, or KB, MB or GB, as messages show sizes.

    >>> size("512MiB"), size("500MB"), size("500 MB")
    (536870912, 500000000, 500000000)
    """
    digits, unit = next(
        ((text.removesuffix(u).removesuffix(" "), n) for u, n in _UNITS.items() if text.endswith(u)), (text, 1)
    )
    if not (digits.isascii() and digits.isdigit() and digits.strip("0")):
        raise click.BadParameter(f"{text!r} is not a number of bytes, KB, MB, GB, KiB, MiB or GiB")
    # Python refuses numbers of thousands of digits with its own message.
    number = int(digits.lstrip("0")[:20]) * unit
    if number > LONG_MAX:
        raise click.BadParameter(f"{text!r} is more than {LONG_MAX} bytes")
    return number


def size_or_zero(text: str) -> int:
    """Parse a number of bytes as `size` does; 0 is one, too.

    >>> size_or_zero("0"), size_or_zero("500MB")
    (0, 500000000)
    """
    return 0 if text == "0" else size(text)


def known_release(text: str) -> str:
    """Parse a Kafka release."""
    try:
        return str(Release.parse(text))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


release = click.option(
    "--release",
    type=known_release,
    metavar="RELEASE",
    default=str(NEWEST),
    show_default=True,
    help="Follow the rules of this Kafka release, where releases differ.",
)


class _PathOrUrl(click.Path):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        from brokerless.io.remote import is_remote

        return value if is_remote(str(value)) else super().convert(value, param, ctx)


class LocalPath(click.Path):
    """A local path. Object stores are only read, and only by verbs that accept their URLs.

    "-" is no path, unless the option reads it as a standard stream. So no file of that name is created by mistake.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        from brokerless.io.remote import is_remote

        if is_remote(str(value)):
            cure = (
                "copy it to a local directory" if self.exists else "name a local path, and copy the result from there"
            )
            self.fail(f"{value} is in an object store, which brokerless only reads: {cure}", param, ctx)
        if value == "-" and not self.allow_dash:
            self.fail("this option does not accept - for stdin or stdout: name a file", param, ctx)
        return super().convert(value, param, ctx)


existing_path, existing_file = _PathOrUrl(exists=True), _PathOrUrl(exists=True, dir_okay=False)


chosen_topics = click.option(
    "--topic",
    "topics",
    metavar="TOPIC",
    multiple=True,
    help="Only this topic, or topics that match a glob ('orders-*'). Repeatable.",
)
chosen_partitions = click.option(
    "--partition", "partitions", type=int_from(0), metavar="N", multiple=True, help="Only this partition. Repeatable."
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Report what would be done, and change nothing.")


def paths(function: _Command) -> _Command:
    """Add PATH... with --topic and --partition."""
    for decorate in (
        chosen_partitions,
        chosen_topics,
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


def bytes_option(help: str) -> Callable[[_Command], _Command]:  # noqa: A002 - click's name
    """Add the option for the form of keys and values; `help` names them."""
    return click.option(
        "--bytes",
        "bytes_as",
        type=click.Choice(["utf8", "base64", "hex"]),
        default="utf8",
        show_default=True,
        help=help,
    )


def parse_bytes(text: bytes, bytes_as: str, option: str) -> bytes:
    """Parse bytes from text in the form that `bytes_option` chooses. An error names the option or argument."""
    try:
        if bytes_as == "base64":
            return base64.b64decode(text, validate=True)
        return bytes.fromhex(text.decode()) if bytes_as == "hex" else text
    except (binascii.Error, ValueError):
        raise click.BadParameter(f"{text.decode(errors='replace')!r} is not {bytes_as}", param_hint=option) from None


def decode_options(function: _Command) -> _Command:
    """Add the options that decode keys and values to columns; the command gets a `Decoding` as `decode`, or None."""
    return _to_columns(function, _decoding)


def decode_source_options(function: _Command) -> _Command:
    """Add the same options to a command that reads with the Spark source, whose options it gets as `decode`."""
    return _to_columns(function, _of_source)


def _of_source(decode: str, given: dict[str, Any]) -> dict[str, str]:
    from brokerless.io import storage
    from brokerless.values.decoding import Decoding

    options = {"onDecodeError" if name == "on_error" else name: str(value) for name, value in given.items()}
    if schemas := given.pop("schemas", None):
        options["schemas"] = storage.absolute(schemas)
    # What cannot be is refused before Spark starts.
    Decoding.of(Decoding.parsed(decode) | given)
    return {"decode": decode, **options}


def _to_columns(function: _Command, made: Callable[[str, dict[str, Any]], object]) -> _Command:
    return _decode_options(
        function,
        made,
        schemas="PATH",
        schema="writer for JSON lines, else latest where TOPIC-value is the one subject",
        null="null keeps the bytes of what does not decode, and the error, in columns of their own",
    )


def decode_text_options(function: _Command) -> _Command:
    """Add the same options to a command that shows records as text."""
    return _decode_options(
        function,
        _decoding,
        schemas="the directory above that of a file",
        schema="writer",
        null="null shows the bytes of what does not decode, and the error",
    )


def _decoding(decode: str, given: dict[str, Any]) -> Forms:
    from brokerless.values.decoding import Decoding

    return _forms(Decoding, decode, given)


def _decode_options(
    function: _Command, made: Callable[[str, dict[str, Any]], object], *, schemas: str, schema: str, null: str
) -> _Command:
    """Add them with the words for the defaults of --schemas and --schema, and for `null`; see `_forms_options`."""
    on_error = click.option(
        "--on-decode-error",
        "on_error",
        type=click.Choice(["null", "raise", "skip"]),
        default="null",
        show_default=True,
        help=f"{null}; raise ends the output there; skip leaves the record out.",
    )
    of_schema = _schema_option(
        ("writer", "latest", "union"),
        "Types of values of a registry: writer (JSON text, each by its own schema), latest (those of the subject's "
        f"newest version), union (the fields of all versions), or the ID of a schema.  [default: {schema}]",
    )
    forms = (
        "Decode values and keys, as value=registry,key=utf8. Forms: registry (the schemas of a schema registry), utf8, "
        "json, int32, int64, float32, float64, uuid, hex."
    )
    return _forms_options(function, made, "decode", forms, schemas, {"on_error": on_error, "schema": of_schema})


def encode_options(function: _Command) -> _Command:
    """Add the options that encode keys and values; the command gets an `Encoding` as `encode`, or None."""

    def made(encode: str, given: dict[str, Any]) -> Forms:
        from brokerless.values.encoding import Encoding

        return _forms(Encoding, encode, given)

    of_schema = _schema_option(
        ("latest",),
        "Schema of values of a registry: latest (the newest version of the subject), or the ID of a schema.  "
        "[default: latest]",
    )
    forms = (
        "Encode values and keys, as value=registry,key=utf8. Forms: those of `read --decode`; and avro, protobuf "
        "and json-schema, which are registry with a schema of this type."
    )
    framing = click.option(
        "--framing",
        type=click.Choice(["prefix", "header"]),
        help="Place of a schema's id: prefix, before the value; or header, its GUID in the header __value_schema_id or "
        "__key_schema_id.  [default: prefix]",
    )
    register = click.option(
        "--register",
        metavar="FILE",
        type=LocalPath(exists=True, dir_okay=False),
        callback=_text_of,
        help="File with a schema for the values, of the type that --encode names: value=avro, protobuf or json-schema. "
        "It becomes the next version of the subject in the topic _schemas of PATH, unless a version has it already.",
    )
    more: dict[str, _Decorator] = {"register": register, "framing": framing, "schema": of_schema}
    return _forms_options(function, made, "encode", forms, "PATH", more)


def _forms(kind: type[Forms], forms: str, given: dict[str, Any]) -> Forms:
    from brokerless.state.schemas import Schemas

    if "schemas" in given:
        given["schemas"] = Schemas(given["schemas"])
    return kind.of(kind.parsed(forms) | given)


def _text_of(_context: click.Context, _option: click.Parameter, path: str | None) -> str | None:
    if path is None:
        return None
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"{path} is no text in UTF-8: {error}") from error


def _schema_option(choices: tuple[str, ...], text: str) -> _Decorator:
    def choice(_context: click.Context, _option: click.Parameter, text: str | None) -> str | int | None:
        if text is None or text in choices:
            return text
        if text.isdecimal():
            return int(text)
        raise click.BadParameter(f"{text!r} is neither {', '.join(choices)} nor the ID of a schema")

    return click.option("--schema", metavar="CHOICE", callback=choice, help=text)


def _forms_options(
    function: _Command,
    made: Callable[[str, dict[str, Any]], object],
    verb: str,
    text: str,
    place: str,
    more: dict[str, _Decorator],
) -> _Command:
    """Add the option `verb` with its help text, and those that go with it.

    Args:
        function: the command. Its argument `verb` is what `made` returns; None without the option.
        made: makes it of the text of the option and of the others that are given.
        verb: "decode" or "encode".
        text: the help text of the option.
        place: the place of the schemas by default.
        more: further options, by the names of their fields.
    """
    options = {
        **more,
        "message": click.option(
            "--message",
            metavar="NAME",
            help="Full name of the values' Protobuf message, as shop.Order.Line.  [default: the first of the schema]",
        ),
        "context": click.option(
            "--context", help="Context of the schemas.  [default: that of the subject, else the default one]"
        ),
        "subject": click.option("--subject", help="Subject of the values.  [default: TOPIC-value]"),
        "schemas": click.option(
            "--schemas",
            metavar="PATH",
            type=existing_path,
            help="Log directory with the registry's topic _schemas, or a file of `brokerless schemas list --save`.  "
            f"[default: {place}]",
        ),
    }

    def chosen(forms: str | None, given: dict[str, Any]) -> object:
        given = {name: value for name, value in given.items() if value is not None}
        if forms is None:
            # The others have no effect by themselves; that of errors has a default.
            if given.keys() - {"on_error"}:
                needing = conjoined([f"--{name}" for name in reversed(options) if name != "on_error"])
                raise click.UsageError(f"{needing} need --{verb}, such as --{verb} value=registry")
            return None
        try:
            return made(forms, given)
        except ValueError as error:
            raise click.UsageError(str(error)) from None

    @functools.wraps(function)
    def command(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        given = {name: kwargs.pop(name) for name in options}
        kwargs[verb] = chosen(kwargs[verb], given)
        return function(*args, **kwargs)

    for decorate in (*options.values(), click.option(f"--{verb}", metavar="PART=FORM,...", help=text)):
        command = decorate(command)
    return command  # type: ignore[return-value]


compression_option = click.option(
    "--compression",
    type=click.Choice(_native.CODECS),
    default="none",
    show_default=True,
    help="Codec of the batches.",
)
batch_size_option = click.option(
    "--batch-size",
    type=int_from(1),
    default=16384,
    show_default=True,
    help="Close a batch at this many bytes.",
)

as_json = click.option(
    "--json",
    "form",
    is_flag=True,
    callback=lambda _context, _option, is_given: "json" if is_given else "text",
    help="Print JSON lines.",
)

new_directory = click.option(
    "--output",
    type=LocalPath(),
    help="Write the chosen partitions to this new directory, and leave PATH unchanged. If PATH is a log directory, so "
    "is the new one, and a broker that starts there finds all other partitions empty.",
)

metadata = click.option(
    "--metadata",
    type=LocalPath(exists=True, file_okay=False),
    help="Directory that holds the cluster's metadata log, if PATH does not.",
)


def broker_settings(function: _Command) -> _Command:
    """Add the options that name sources of topic settings outside the log directory."""
    for decorate in (
        metadata,
        click.option(
            "--broker-config",
            metavar="FILE",
            type=LocalPath(exists=True, dir_okay=False),
            help="The broker's server.properties, for settings that a topic does not override.",
        ),
    ):
        function = decorate(function)
    return function


def format_of(path: str | None, form: str | None) -> str:
    """Return the format of a file of rows: the given one, else by the file's extension, else json.

    Raises:
        click.UsageError: the name has the suffix of an unsupported format.
    """
    suffix = os.path.splitext(path or "")[1].removeprefix(".").lower()
    if form is None and suffix in _OTHER_FORMATS:
        raise click.UsageError(
            f"{path}: {suffix} is not a supported format. Name the file .json, .arrow or .parquet, or give --format"
        )
    return form or (suffix if suffix in ("arrow", "parquet") else "json")


# Suffixes that no file of JSON lines has.
_OTHER_FORMATS = {"avro", "bz2", "csv", "feather", "gz", "orc", "tsv", "xls", "xlsx", "xml", "xz", "yaml", "zip", "zst"}


class Progress:
    """A progress line on stderr that overwrites itself, if stderr is a terminal.

    Args:
        prints: whether the verb prints during its work. If so, no progress is shown where stdout is a terminal too.
    """

    def __init__(self, *, prints: bool) -> None:
        self._is_shown = sys.stderr.isatty() and not (prints and sys.stdout.isatty())
        self._last = time.monotonic()
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Clear the line for later output."""
        if self._width:
            self._write("")

    def __call__(self, text: str) -> None:
        """Show `text`, unless the line changed less than 0.2 seconds ago."""
        now = time.monotonic()
        if self._is_shown and now - self._last >= _PROGRESS_SECONDS:
            self._last = now
            self._write(text)

    def _write(self, text: str) -> None:
        terminal.overwrite(text, self._width)
        self._width = len(text)


class BytesProgress(Progress):
    """Progress in bytes: "checked 1,234 bytes". Threads may call `add`."""

    def __init__(self, what: str) -> None:
        super().__init__(prints=True)
        self._what, self._done = what, 0

    def add(self, name: str, size: int) -> None:
        """Show that more bytes of a log are done."""
        self._done += size
        self(f"{self._what} {self._done:,} bytes, now in {name}")


def note_missing(log: Log) -> None:
    """Print a note about offsets that belong to a log but are not here, if there are any."""
    if log.files.missing_in_words:
        terminal.say(f"note: {log.files.missing_in_words}", err=True)


def named_logs(
    paths: Sequence[str], topics: Sequence[str], partitions: Sequence[int], *, internal: bool = True
) -> list[Log]:
    """Return the logs that PATH..., --topic and --partition select.

    With `internal=False`, Kafka's internal topics are included only if --topic or a path names them.
    """
    from brokerless.log_dir.log_dirs import LogDirs

    log_dirs = LogDirs(*paths)
    return (log_dirs.logs if internal else log_dirs.readable)(topics or None, partitions or None)
