"""The group of verbs. Their errors become a line on stderr and an exit code, never a traceback."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from traceback import extract_tb
from typing import TYPE_CHECKING, TextIO

import click

from brokerless.cli import terminal
from brokerless.cli.check import check
from brokerless.cli.cluster import cluster
from brokerless.cli.compact import compact
from brokerless.cli.convert import convert
from brokerless.cli.dump import dump
from brokerless.cli.erase import erase
from brokerless.cli.exit_codes import DAMAGE, FAILURE, MEANINGS, UNREAD, Ended, of_interrupt
from brokerless.cli.find import find
from brokerless.cli.finding import finding
from brokerless.cli.groups import groups
from brokerless.cli.ls import ls
from brokerless.cli.next_command import remember
from brokerless.cli.offsets import offsets
from brokerless.cli.produce import produce
from brokerless.cli.producers import producers
from brokerless.cli.read import read
from brokerless.cli.recover import recover
from brokerless.cli.repair import repair
from brokerless.cli.report import report
from brokerless.cli.rescue import rescue
from brokerless.cli.retain import retain
from brokerless.cli.schemas import schemas
from brokerless.cli.serve import serve
from brokerless.cli.spark import spark
from brokerless.cli.sql import sql
from brokerless.cli.transactions import transactions
from brokerless.cli.truncate import truncate
from brokerless.errors import BrokerlessError, CorruptRecordError, UnsupportedFormatError
from brokerless.io.interrupts import interrupt
from brokerless.io.storage import as_given
from brokerless.notes import notes_to
from brokerless.wording import printable, worded_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_STDERR = 2
# What a shell sets to ask for completions, as click's scripts for shells do.
_COMPLETION = "_BROKERLESS_COMPLETE"
# Options that had other names, so that nobody has to look for the new name.
_NOW = {
    "--to": "--output",
    "--at": "--as-of",
    "--until": "--as-of for a time, --end-offset for an offset",
    "--isolation": "--isolation-level",
    "--max-memory": "--memory",
    "--verbose": "--all",
    "--advertise": "--advertised",
    "--message-format": "--magic",
}
_VERBS_NOW = {"explain": "compact PATH --explain KEY"}
_MOST_REMEMBERED = 1000
# The signals of Ctrl-C, of timeout, systemd, docker and Kubernetes, and of a closed terminal.
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


_JOBS = {
    "Look": (ls, read, find, sql, offsets, dump, groups, transactions, producers, cluster, schemas, report),
    "Check and heal": (check, finding, recover, repair, rescue),
    "Change": (compact, retain, convert, erase, truncate),
    "Write, serve, and run on Spark": (produce, serve, spark),
}


class _Verbs(click.Group):
    """The verbs, which `--help` lists by job."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _VERBS_NOW:
            ctx.fail(f"{cmd_name} is now {_VERBS_NOW[cmd_name]}")
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, words = super().resolve_command(ctx, args)
        remember(ctx, words)
        return name, command, words

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.commands))
        for job, verbs in _JOBS.items():
            with formatter.section(job):
                formatter.write_dl([(str(verb.name).ljust(width), verb.get_short_help_str(80)) for verb in verbs])


_EXITS = "\b\nExit codes (the help of each verb lists its own):\n" + "\n".join(
    f"  {code}  {meaning}" for code, meaning in MEANINGS.items()
)


@click.group(
    cls=_Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    commands=[verb for verbs in _JOBS.values() for verb in verbs],
    epilog=_EXITS,
)
@click.version_option(package_name="brokerless")
def cli() -> None:
    """Kafka's log directories at rest: read, check, repair, change and serve them.

    PATH is a broker's data directory (its log.dirs, or a copy or snapshot of it), one partition's directory, or one
    .log file. A TIME is ms since 1970, ISO 8601 (UTC by default), or a time before now: -1h, yesterday. A SIZE is
    bytes: 500MB is 500 * 10^6 bytes, 512MiB is 512 * 2^20.

    \b
    brokerless check /var/lib/kafka/data
    brokerless find /var/lib/kafka/data --topic orders --any A-1017
    brokerless read /var/lib/kafka/data --topic orders --limit 10
    """


def _run(arguments: Sequence[str] | None) -> int:
    # Not cli.main: it exits with 1 after a broken pipe, which here means damage.
    if instruction := os.environ.get(_COMPLETION):
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, "brokerless", _COMPLETION, instruction)
    try:
        with cli.make_context("brokerless", list(sys.argv[1:] if arguments is None else arguments)) as context:
            cli.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code
    except CorruptRecordError as error:
        if error.path is not None:
            given = sys.argv[1:] if arguments is None else map(str, arguments)
            error.path = as_given(error.path, *(word for word in given if not word.startswith("-")))
        raise
    except click.NoSuchOption as error:
        if error.option_name in _NOW:
            raise click.UsageError(f"{error.option_name} is now {_NOW[error.option_name]}", error.ctx) from error
        raise
    finally:
        sys.stdout.flush()  # data before messages, if both go to one place
    return 0


def _show_notes() -> Callable[[str], None]:
    """Return a function that prints each note once: several objects may read a file and report the same doubt."""
    shown: set[str] = set()

    def show(text: str) -> None:
        if text not in shown:
            # Hostile files may cause any number of notes.
            if len(shown) < _MOST_REMEMBERED:
                shown.add(text)
            terminal.say(f"warning: {text}", err=True)

    return show


def as_flag(name: str, value: str | None = None) -> str:
    """Return an option as written on the command line: by the running verb, or else by the first that has it."""
    context = click.get_current_context(silent=True)
    running = [] if context is None else [context.command]
    flags = (
        parameter.opts[0]
        for command in (*running, *_commands(cli))
        for parameter in command.params
        if isinstance(parameter, click.Option) and parameter.name == name
    )
    flag = next(flags, name)
    return flag if value is None else f"{flag} {value}"


def _commands(group: click.Group) -> Iterator[click.Command]:
    for command in group.commands.values():
        yield command
        if isinstance(command, click.Group):
            yield from _commands(command)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    Raises:
        SystemExit: a verb exits with its own code.
    """
    _open_closed()
    with terminal.harmless(), worded_for(as_flag):
        return _run_to_its_end(arguments)


def _run_to_its_end(arguments: Sequence[str] | None) -> int:
    try:
        with _ending(), notes_to(_show_notes()):
            return _run(arguments)
    except BrokenPipeError as error:
        # The reader of stdout (`| head`) has all it wanted: end as after SIGPIPE, because 0 means that nothing was
        # found. A broken pipe that --output names is an error.
        return UNREAD if error.filename is None else _told(error)
    except Exception as error:  # noqa: BLE001 - a traceback does not help a user
        return _told(error)
    finally:
        _settle(sys.stdout)
        _settle(sys.stderr)


def _told(error: Exception) -> int:
    """Print an error, and return its exit code."""
    interrupt = _interrupt_behind(error)
    if interrupt is not None:
        return of_interrupt(interrupt)
    # If stderr is unwritable, the exit code still reports the error.
    with suppress(OSError):
        if isinstance(error, click.ClickException):
            _show(error)
        else:
            terminal.say(f"brokerless: {_in_words(error)}", err=True)
        for note in getattr(error, "__notes__", ()):
            terminal.say(f"note: {note}", err=True)
    return DAMAGE if isinstance(error, CorruptRecordError | UnsupportedFormatError) else FAILURE


def _show(error: click.ClickException) -> None:
    """Print an error of click as all others are printed, after the usage of the verb."""
    # Without arguments, click passes the help as an error. Before click 8.2, there was no such error.
    if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
        error.show()
        return
    context = getattr(error, "ctx", None)
    if context is not None:
        click.echo(f"{context.get_usage()}\nTry `{context.command_path} --help` for help.\n", err=True)
    # The message may be foreign text; the lines that click adds to it, such as a list of choices, are ours.
    vars(error).update(message=printable(error.message))
    for line in f"brokerless: {error.format_message()}".splitlines():
        terminal.say(line, err=True)


def _in_words(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "not enough memory"
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return terminal.in_words(error)
    if isinstance(error, BrokerlessError | ValueError | OSError) or type(error).__module__.startswith("pyarrow."):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and "pip install" in str(error):
        return str(error)  # it names the extra that is not installed
    frames = [frame for frame in extract_tb(error.__traceback__) if "brokerless" in frame.filename]
    at = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    return f"unexpected {type(error).__name__}{at}: {error}; please report this, with the command that you ran"


def _interrupt_behind(error: BaseException | None) -> KeyboardInterrupt | None:
    """Return the interrupt that caused an error, such as one during an import or a shutdown; None if there was none."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error


@contextmanager
def _ending() -> Iterator[None]:
    """Turn signals that end this process into interrupts, so that no change is left half done.

    An ignored signal (`nohup`) stays ignored.
    """
    # Python lets only the main thread set handlers.
    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in _ENDING if is_main}
    taken = [number for number, by in before.items() if by in (signal.SIG_DFL, signal.default_int_handler)]

    def end(number: int, _frame: object) -> None:
        # Only once, so that a second signal does not interrupt the cleanup. `timeout` sends two.
        for other in taken:
            signal.signal(other, signal.SIG_IGN)
        interrupt(Ended(number))

    try:
        for number in taken:
            signal.signal(number, end)
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number])


def _open_closed() -> None:
    """Open closed standard streams as /dev/null.

    Otherwise, after `2>&-`, the next file that is opened gets descriptor 2, and native code writes its errors into it.
    """
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    while (number := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115 - until the end
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 - until the end
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115 - until the end


def _settle(stream: TextIO) -> None:
    """Drop output that cannot be written, because the interpreter would fail on it again at exit."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
