"""The `brokerless` command: one function a verb, each in the file of its name, no logic of its own.

Data goes to stdout, words to stderr. Exit codes: 0 done, 1 damage or findings, 2 could not run.
The library is imported inside the verbs: `--help` and a mistyped option answer at once.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import TYPE_CHECKING

import click

from brokerless.cli.compact import compact
from brokerless.cli.convert import convert
from brokerless.cli.dump import dump
from brokerless.cli.erase import erase
from brokerless.cli.explain import explain
from brokerless.cli.ls import ls
from brokerless.cli.offsets import offsets
from brokerless.cli.produce import produce
from brokerless.cli.read import read
from brokerless.cli.recover import recover
from brokerless.cli.retain import retain
from brokerless.cli.spark import spark
from brokerless.errors import BrokerlessError, CorruptRecordError, UnsupportedFormatError

if TYPE_CHECKING:
    from collections.abc import Sequence

DAMAGE = 1
FAILURE = 2
INTERRUPTED = 130


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="brokerless")
def cli() -> None:
    """Read and write Kafka log directories with no broker running.

    PATH is, throughout, the data directory of a broker (its log.dirs, or a copy or snapshot of it), one
    topic-partition directory in it, or one .log file.

    \b
    brokerless ls /var/lib/kafka/data                    what is there
    brokerless read /var/lib/kafka/data/orders-0         its records, as JSON lines
    brokerless offsets orders-0 --timestamp 2024-05-01   where a day begins
    brokerless dump orders-0/00000000000000000000.log    batch by batch, in kafka-dump-log's words
    brokerless produce data --topic orders --input F     records into a topic
    brokerless recover data                              after a crash: what a broker does when it starts
    brokerless retain data --topic T --retention-ms N    old segments go; or a copy as of some moment
    brokerless compact data --topic T                    the last record of each key stays
    brokerless explain data KEY --topic T                why a record is still there
    brokerless convert data --topic T --compression C    another codec or message format
    brokerless erase data --topic T --key K              records of a key, or their values
    brokerless spark ...                                 verbs as Spark jobs, for a whole cluster's logs

    Exit codes: 0 done, 1 damage was met, 2 could not run.
    """


for command in (ls, read, offsets, dump, produce, recover, retain, compact, explain, convert, erase, spark):
    cli.add_command(command)


def _run(arguments: Sequence[str] | None) -> int:
    # Not cli.main: it answers a broken pipe with 1, which here means damage.
    try:
        with cli.make_context("brokerless", list(sys.argv[1:] if arguments is None else arguments)) as context:
            cli.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code
    finally:
        sys.stdout.flush()  # data before words, where both go to one place
    return 0


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Leave out the line of code, which Python shows too."""
    click.echo(f"warning: {message}", err=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _show_warning
            code = _run(arguments)
    except BrokenPipeError:
        # Whoever read us (`| head`) has what it wanted. The interpreter would flush into the closed pipe once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except KeyboardInterrupt:
        code = INTERRUPTED
    except click.ClickException as error:
        error.show()
        code = FAILURE
    except (CorruptRecordError, UnsupportedFormatError) as error:
        click.echo(f"brokerless: {error}", err=True)
        for note in getattr(error, "__notes__", ()):
            click.echo(f"note: {note}", err=True)
        code = DAMAGE
    except (BrokerlessError, ValueError, OSError) as error:
        click.echo(f"brokerless: {error}", err=True)
        code = FAILURE
    sys.exit(code)
