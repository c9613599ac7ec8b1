"""`brokerless recover`: recover logs after a crash, as a starting broker does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from brokerless.cli import terminal
from brokerless.cli.exit_codes import DAMAGE, exit_line
from brokerless.cli.next_command import say_next
from brokerless.cli.options import LocalPath, Progress, as_json, broker_settings, chosen_topics, dry_run_option
from brokerless.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerless.log_dir.recover import Forecast
    from brokerless.recovery.lost_batches import Cut
    from brokerless.remarks import Remark


@click.command(
    short_help="Recover the logs of a directory after a crash.",
    epilog=exit_line(damage="a broker would not start or not serve all logs, or --force is needed"),
)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=LocalPath(exists=True, file_okay=False))
@chosen_topics
@dry_run_option
@click.option(
    "--force",
    is_flag=True,
    help="Recover even if a cleanly shut down directory loses records, or records are already missing.",
)
@click.option("--all", "shows_all", is_flag=True, help="Print every change.")
@click.option("--in-place", is_flag=True, help="Recover the logs where they are: the default.")
@as_json
@broker_settings
def recover(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    dry_run: bool,
    force: bool,
    shows_all: bool,
    in_place: bool,
    form: str,
    broker_config: str | None,
    metadata: str | None,
) -> None:
    """Recover the log directories PATH, as a broker does when it starts after a crash. Stop the broker first.

    Recovery cuts each log at its first invalid batch after the recovery point, and rebuilds its indexes and producer
    state. It finishes interrupted cleanings and deletions, or removes their files. It also recovers replicas that are
    being moved (-future), and stray replicas (-stray). Then it writes the clean-shutdown marker, so that the broker
    starts without a recovery of its own.

    The first line says how many records are lost, how many changes are needed, and whether a broker will start. The
    damage itself may hold further records: the line says how many at most, if the end of the log is known for certain.
    Each log that needs changes has a line with their number, and each cut at damage has a line. --all prints each
    change. Bytes that are cut off at damage stay in the log's directory, in files named set-aside-*, which brokers
    ignore. If a log loses its end, a line that begins with "doubt" names the groups that committed offsets beyond it.

    A broker recovers nothing in a directory that was shut down cleanly, so a cut in such a directory needs --force. If
    other files show for certain that a log lacks records, recovery needs --force too, because it erases that evidence.
    After a crash, a log that ends below its recovery point lacks records for certain.

    If a broker would not start, the message names the reason and the cure. Name all log.dirs of a broker, because only
    one of them has the cluster's metadata.

    \b
    brokerless recover data --dry-run
    brokerless recover data
    brokerless recover /disk1/kafka /disk2/kafka
    """
    from brokerless.layout.log_dir_files import LogDirFiles
    from brokerless.log_dir.recover import Forecast, recovered
    from brokerless.metadata.directory import metadata_among

    if in_place and dry_run:
        raise click.UsageError("--in-place and --dry-run contradict each other")
    settings: dict[str, dict[str, Any]] = {
        path: {"broker_config": broker_config, "metadata": metadata or metadata_among(paths, path)} for path in paths
    }
    forecasts = _forecasts(settings, topics, err=form == "json")
    found = Forecast.of_all(forecasts.values())
    clean = {path for path in paths if LogDirFiles(path).is_clean}
    refuses = any(forecasts[path].cuts for path in clean) and not force
    _print_forecast(
        found, _groups_ahead(found, paths), form, needs_force=refuses or (bool(found.missing) and not force)
    )
    with Progress(prints=True) as progress:
        for path in paths:
            changes = 0
            logs = forecasts[path].steps if dry_run else recovered(path, topics, force=force, **settings[path])
            for name, steps in logs:
                progress(name)
                cuts = [cut for log, cut in forecasts[path].cuts if log == name]
                if form == "json":
                    _print_json(path, name, steps, cuts)
                else:
                    _print_steps(name, steps, cuts, shows_all=shows_all)
                changes += len(steps)
            done = f"{counted(changes, 'change')} {'would be made' if dry_run else 'made'} in {path}"
            if changes and dry_run and not shows_all:
                done += "; --all prints them"
            if changes and dry_run and found.is_good and path in clean:
                done += "; the directory was shut down cleanly, "
                stops = forecasts[path].unstartable
                done += (
                    f"but without this recovery, {stops[0]}" if stops else "so a broker starts without this recovery"
                )
            if not changes and found.is_good:
                done += f": a broker accepts {'the logs of these topics' if topics else 'its logs'} unchanged"
            terminal.say(done, err=True)
    _end(found, paths, force=force, dry_run=dry_run, are_clean=len(clean) == len(paths), refuses_cuts=refuses)


def _forecasts(settings: dict[str, dict[str, Any]], topics: tuple[str, ...], *, err: bool) -> dict[str, Forecast]:
    """Return the forecast for each directory. If one fails, print whether a broker would start."""
    from brokerless.errors import CorruptRecordError
    from brokerless.log_dir.recover import forecast
    from brokerless.log_dir.start_faults import OfflineError
    from brokerless.recovery.load_result import SilentLossError

    try:
        return {path: forecast(path, topics, beside=tuple(settings), **of_path) for path, of_path in settings.items()}
    except SilentLossError:
        terminal.say("a broker will start and lose records", err=err)
        raise
    except CorruptRecordError as error:
        starts = isinstance(error, OfflineError) and len(settings) > 1
        said = "a broker will start, without one of its log directories" if starts else "a broker will not start"
        terminal.say(said, err=err)
        raise


def _groups_ahead(found: Forecast, paths: Sequence[str]) -> list[Remark]:
    """Return the doubts about groups that committed offsets beyond the new end of a log."""
    from brokerless.healing.groups_ahead import groups_ahead
    from brokerless.notes import collected

    with collected():
        return [doubt for path in paths if found.shortened for doubt in groups_ahead(path, found.shortened)]


def _print_forecast(found: Forecast, doubts: Sequence[Remark], form: str, *, needs_force: bool) -> None:
    if form == "json":
        of_doubts = [doubt.to_dict() for doubt in doubts]
        row = {**found.to_dict(), "doubts": of_doubts, "needs_force": needs_force}
        click.echo(json.dumps(row, separators=(",", ":")))
        return
    terminal.say(found.summary())
    for line in (*found.faults, *found.dropping, *found.missing, *found.ends_early, *found.notes):
        terminal.say(str(line))
    for doubt in doubts:
        terminal.say(f"doubt: {doubt}")


def _end(
    found: Forecast, paths: tuple[str, ...], *, force: bool, dry_run: bool, are_clean: bool, refuses_cuts: bool
) -> None:
    """Print the next command. Exit with 1 if a broker would not serve every log, or the recovery is refused."""
    is_refused = bool(found.missing) and not force
    if dry_run and refuses_cuts:
        terminal.say(
            "without --dry-run, recovery would be refused, because it would cut off what a broker keeps after a clean "
            "shutdown: repair keeps the sound batches, or use --force",
            err=True,
        )
        say_next("repair", paths)
        raise SystemExit(DAMAGE)
    if dry_run and is_refused:
        terminal.say(
            "without --dry-run, recovery would fail: put back the removed or truncated files, or use --force", err=True
        )
    if not found.is_good or is_refused:
        say_next("check", paths)
        raise SystemExit(DAMAGE)
    if found.changes and not (dry_run and are_clean):
        say_next("recover" if dry_run else "check", paths, without=["dry_run"])


def _print_json(path: str, name: str, steps: Sequence[Remark], cuts: Sequence[Cut]) -> None:
    """Print an object for a log that needs changes."""
    if steps:
        row = {
            "path": f"{path}/{name}",
            "changes": [step.to_dict() for step in steps],
            "set_aside": [cut.to_dict(f"{path}/{name}") for cut in cuts],
        }
        click.echo(json.dumps(row, separators=(",", ":")))


def _print_steps(name: str, steps: Sequence[Remark], cuts: Sequence[Cut], *, shows_all: bool) -> None:
    if shows_all:
        for step in steps:
            terminal.say(f"{name}: {step}")
    elif steps:
        terminal.say(f"{name}: {counted(len(steps), 'change')}")
        for cut in cuts:
            terminal.say(f"{name}: sets aside {cut}")
