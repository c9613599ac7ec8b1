"""`brokerless recover`: recover logs after a crash, as a starting broker does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from brokerless.cli import terminal
from brokerless.cli.exit_codes import DAMAGE
from brokerless.cli.options import LocalPath, Progress, broker_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerless.recovery.lost_batches import Cut


@click.command(short_help="Recover the logs of a directory after a crash.")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=LocalPath(exists=True, file_okay=False))
@click.option("--topic", "topics", multiple=True, help="Only this topic. Repeatable.")
@click.option("--dry-run", is_flag=True, help="Report what would be done, and change nothing.")
@click.option(
    "--force",
    is_flag=True,
    help="Recover even if a clean directory loses records, or records are already missing.",
)
@click.option("--verbose", is_flag=True, help="Print every change.")
@broker_settings
def recover(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    dry_run: bool,
    force: bool,
    verbose: bool,
    broker_config: str | None,
    metadata: str | None,
) -> None:
    """Recover the logs of the log directories PATH, which must not be in use by a broker.

    Does step for step what a broker does when it starts without a clean-shutdown marker: cut each log at its first
    invalid batch behind the recovery point, rebuild its indexes and producer state, and finish or remove the leftovers
    of interrupted cleanings and deletions. Future replicas (being moved here) and stray ones are recovered too. Then
    the marker is written, so that the broker starts at once.

    The first line says how many records are lost, how much is changed, and whether a broker will start. Then one line
    per log says how many changes it needs, and one more per cut at damage what is lost; --verbose prints each change.
    What is cut off at damage stays in the log's
    directory, in files named set-aside-*, which brokers pass over. A broker recovers nothing in a directory that was
    shut down cleanly: there, cutting needs --force. If other files show that a log lacks records, recovery needs
    --force too, clean or not: it erases that evidence.

    Exit code 1: a broker would not start, or would not serve all of the logs, or records are missing and --force is not
    given. The message names the reason and the cure.
    Name all log.dirs of a broker: only one of them has the cluster's metadata.

    \b
    brokerless recover data --dry-run
    brokerless recover data
    brokerless recover /disk1/kafka /disk2/kafka
    """
    from brokerless.errors import CorruptRecordError
    from brokerless.log_dir.recover import Forecast, forecast, recovered
    from brokerless.log_dir.start_faults import OfflineError
    from brokerless.metadata.directory import metadata_among
    from brokerless.recovery.load_result import SilentLossError

    try:
        forecasts = {
            path: forecast(
                path,
                topics,
                broker_config=broker_config,
                metadata=metadata or metadata_among(paths, path),
                beside=paths,
            )
            for path in paths
        }
    except SilentLossError:
        terminal.say("a broker will start and lose records")
        raise
    except CorruptRecordError as error:
        starts = isinstance(error, OfflineError) and len(paths) > 1
        terminal.say("a broker will start, without one of its log directories" if starts else "a broker will not start")
        raise
    found = Forecast.of_all(forecasts.values())
    terminal.say(found.summary())
    for line in (*found.faults, *found.dropping, *found.missing, *found.ends_early, *found.notes):
        terminal.say(str(line))
    with Progress(prints=True) as progress:
        for path in paths:
            changes = 0
            steps_of_all = (
                forecasts[path].steps
                if dry_run
                else recovered(
                    path,
                    topics,
                    force=force,
                    broker_config=broker_config,
                    metadata=metadata or metadata_among(paths, path),
                )
            )
            for name, steps in steps_of_all:
                progress(name)
                cuts = [cut for log, cut in forecasts[path].cuts if log == name]
                _print_steps(name, steps, cuts, verbose=verbose)
                changes += len(steps)
            done = f"{changes} change{'s'[: changes != 1]} {'would be made' if dry_run else 'made'} in {path}"
            if changes and dry_run and not verbose:
                done += "; --verbose prints them"
            if not changes and found.is_good:
                done += f": a broker takes {'those of these topics' if topics else 'its logs'} as they are"
            terminal.say(done, err=True)
    if dry_run and found.missing and not force:
        terminal.say("recovery would be refused: put back what was removed or cut, or use --force", err=True)
    if not found.is_good or (found.missing and not force):
        raise SystemExit(DAMAGE)


def _print_steps(name: str, steps: Sequence[str], cuts: Sequence[Cut], *, verbose: bool) -> None:
    if verbose:
        for step in steps:
            terminal.say(f"{name}: {step}")
    elif steps:
        terminal.say(f"{name}: {len(steps)} change{'s'[: len(steps) != 1]}")
        for cut in cuts:
            terminal.say(f"{name}: sets aside {cut}")
