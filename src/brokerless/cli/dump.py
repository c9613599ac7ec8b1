"""`brokerless dump`: single files, batch by batch."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from brokerless.cli import terminal
from brokerless.cli.exit_codes import DAMAGE, FAILURE, exit_line
from brokerless.cli.options import as_json, bytes_option, decode_text_options, existing_path, long_from
from brokerless.layout.file_names import METADATA_TOPIC, OFFSETS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerless.inspection.record_contents import Contents
    from brokerless.values.decoding import Decoding

# The options that decode the records of Kafka's own topics, by kafka-dump-log's names.
_DECODERS = {
    "offsets_decoder": OFFSETS_TOPIC,
    "transaction_log_decoder": "__transaction_state",
    "cluster_metadata_decoder": METADATA_TOPIC,
    "remote_log_metadata_decoder": "__remote_log_metadata",
    "share_group_state_decoder": "__share_group_state",
}


def _decoder_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that decode the records of Kafka's own topics; the command gets the topic as `state_of`."""

    @functools.wraps(function)
    def with_topic(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        given = [name for name in _DECODERS if kwargs.pop(name)]
        if len(given) > 1:
            one, other = (f"--{name.replace('_', '-')}" for name in given[:2])
            raise click.UsageError(f"{one} and {other} contradict each other: a file has the records of one topic")
        function(*args, state_of=_DECODERS[given[0]] if given else None, **kwargs)

    for name, topic in reversed(_DECODERS.items()):
        option = click.option(
            f"--{name.replace('_', '-')}", is_flag=True, help=f"Decode the records as those of {topic}."
        )
        with_topic = option(with_topic)
    return with_topic


@click.command(
    short_help="Show single files, batch by batch.",
    epilog=exit_line(damage="damage was found, or an index does not fit"),
)
@click.argument("paths", metavar="[FILE|DIR]...", nargs=-1, type=existing_path)
@click.option("--files", "listed", metavar="FILE,FILE...", help="Files, separated by commas, as for kafka-dump-log.")
@as_json
@click.option("--deep-iteration", is_flag=True, help="Show the records of each batch.")
@click.option("--print-data-log", is_flag=True, help="Show keys and values too.")
@click.option("--skip-record-metadata", is_flag=True, help="Show only the keys and values of records.")
@click.option("--verify-index-only", is_flag=True, help="Check indexes without showing their entries.")
@click.option("--index-sanity-check", is_flag=True, help="Check each index by itself, without the log.")
@click.option("--max-bytes", type=long_from(0), help="Read at most this many bytes of each .log.")
@click.option("--records", is_flag=True, help="With --json: show the records of each batch too.")
@decode_text_options
@_decoder_options
@bytes_option(
    "With --json: write keys, values and header values in this form. "
    'With utf8, bytes that are not UTF-8 become {"base64": ...}.'
)
def dump(
    paths: tuple[str, ...],
    listed: str | None,
    form: str,
    deep_iteration: bool,
    print_data_log: bool,
    skip_record_metadata: bool,
    verify_index_only: bool,
    index_sanity_check: bool,
    max_bytes: int | None,
    records: bool,
    bytes_as: str,
    decode: Decoding | None,
    state_of: str | None,
) -> None:
    """Decode .log, .index, .timeindex, .txnindex, .snapshot and .checkpoint files.

    For a directory, every file of these kinds in it is shown. The text has the fields and the wording of
    kafka-dump-log. An index is checked against the files of the same name beside it. Stderr reports index entries that
    do not fit, and batches with a wrong checksum. It also reports that a .log ends too early, if other files show this.
    A damaged file is shown up to the damage, and the next file follows.

    --decode and the options ending in -decoder show the records of each batch, with decoded keys and values. The
    decoders are those of kafka-dump-log, and print what it prints. What does not decode never stops a dump, unless
    --on-decode-error says so.

    JSON has one object per batch or entry. It also covers the text files of a log directory: checkpoints,
    partition.metadata, meta.properties. Files of other kinds are named on stderr and skipped.

    \b
    brokerless dump orders-0/*.log                             batch headers and whether their CRC holds
    brokerless dump orders-0/*.log --print-data-log            records as well
    brokerless dump orders-0/*.log --json --records            the same for programs
    brokerless dump orders-0/*.log --decode value=registry     with the schemas in _schemas-0 beside orders-0
    brokerless dump __consumer_offsets-0 --offsets-decoder     commits and groups
    brokerless dump orders-0/*index --verify-index-only        do the indexes fit the log?
    """
    from brokerless.errors import CorruptRecordError, UnsupportedFormatError
    from brokerless.inspection.dump import Dump

    files = _files(paths, listed, form)
    is_damaged = is_unread = is_short = False
    contents = _contents(files, decode, state_of)
    if records and form == "text" and contents is None:
        raise click.UsageError("--records needs --json; without --json, use --deep-iteration")
    of_text = {
        "--deep-iteration": deep_iteration,
        "--print-data-log": print_data_log,
        "--skip-record-metadata": skip_record_metadata,
        "--verify-index-only": verify_index_only,
        "--index-sanity-check": index_sanity_check,
    }
    if form == "json" and any(of_text.values()):
        named = next(option for option, is_given in of_text.items() if is_given)
        raise click.UsageError(
            f"{named} cannot be combined with --json, which checks no index; to show records, use --records"
        )
    write = sys.stdout.buffer.write
    dump = Dump(
        deep_iteration=deep_iteration,
        print_data_log=print_data_log,
        skip_record_metadata=skip_record_metadata,
        verify_index_only=verify_index_only,
        index_sanity_check=index_sanity_check,
        max_bytes=max_bytes,
        escape_controls=sys.stdout.isatty(),
        contents=contents,
    )
    try:
        for path in files:
            pieces = dump.text(path) if form == "text" else dump.json_lines(path, records=records, bytes_as=bytes_as)
            while True:
                try:
                    piece = next(pieces, None)
                except (CorruptRecordError, UnsupportedFormatError, OSError) as error:
                    # A damaged or missing file must not hide the others.
                    sys.stdout.flush()
                    terminal.say(f"brokerless: {error}", err=True)
                    is_damaged = True
                    is_unread |= isinstance(error, OSError) and not isinstance(error, FileNotFoundError)
                    break
                if piece is None:
                    break
                write(piece)
            is_short |= _say_missing(path)
    finally:
        sys.stdout.flush()
        click.echo(dump.report(), err=True, nl=False)
    for note in () if contents is None else contents.notes():
        terminal.say(f"note: {note}", err=True)
    if is_damaged or is_short or dump.is_damaged:
        raise SystemExit(FAILURE if is_unread else DAMAGE)


def _contents(files: list[str], decode: Decoding | None, state_of: str | None) -> Contents | None:
    """Return what decodes the records of the files; None if no option does."""
    from brokerless.inspection.dump import place_of
    from brokerless.inspection.record_contents import DecodedContents, StateContents
    from brokerless.io import storage
    from brokerless.log_dir.log_dirs import LogDirs

    if state_of is not None:
        if decode is not None:
            raise click.UsageError(f"--decode cannot be combined with the decoder of {state_of}")
        return StateContents(state_of)
    if decode is None:
        return None
    if decode.needs_schemas:
        directories = dict.fromkeys(os.path.dirname(storage.absolute(path)) for path in files)
        decode = LogDirs(*directories).with_schemas(decode)
    return DecodedContents(decode, {place_of(path)[0] for path in files})


def _files(paths: tuple[str, ...], listed: str | None, form: str) -> list[str]:
    from brokerless.inspection.decode_files import DUMPED, has_entries, suffix
    from brokerless.io import storage

    files = []
    for path in (*paths, *filter(None, (listed or "").split(","))):
        if not storage.is_directory(path):
            if not storage.exists(path):
                raise click.BadParameter(f"{path!r} does not exist", param_hint="--files")
            files.append(path)
            continue
        found = sorted(
            name
            for name in storage.list_directory(path)
            if (suffix(name) in DUMPED or (form == "json" and has_entries(name))) and storage.is_file(f"{path}/{name}")
        )
        if not found:
            raise click.UsageError(
                f"nothing to show: {path} has no file of a kind that dump knows; name files or a partition's directory"
            )
        files += [f"{path}/{name}" for name in found]
    if not files:
        raise click.UsageError("no file: name files or a partition's directory")
    return files


def _say_missing(path: str) -> bool:
    """Report the records missing after a `.log`, by the other files of its directory; return whether there are any."""
    from brokerless.errors import CorruptRecordError, UnsupportedFormatError
    from brokerless.log.log import Log

    if not path.endswith(".log"):
        return False
    # Damage has been reported, and a dumped file need not be a segment.
    with contextlib.suppress(CorruptRecordError, UnsupportedFormatError, OSError, ValueError):
        log = Log(path)
        sys.stdout.flush()
        for said in log.files.contradictions():
            terminal.say(f"behind {path}: {said}", err=True)
        return bool(log.files.missing)
    return False
