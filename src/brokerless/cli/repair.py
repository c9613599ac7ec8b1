"""`brokerless repair`: a log directory without its faults."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from brokerless.cli import terminal
from brokerless.cli.findings import by_hand, say_cures
from brokerless.cli.healing_report import HEALING_EXITS, print_left, print_lost, print_repaired, print_reports
from brokerless.cli.next_command import say_next
from brokerless.cli.options import BytesProgress, as_json, chosen_topics, dry_run_option, existing_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerless.healing.report import RepairReport

# The effect of a checkpoint that is written again without the offsets that could not be read.
_EFFECTS = {
    "cleaner-offset-checkpoint": "its offsets are lost, and the log cleaner reads these logs from their start again",
    "log-start-offset-checkpoint": "its log start offsets are lost, and deleted records may become visible again",
    "recovery-point-offset-checkpoint": "its recovery points are lost, and a broker recovers these logs when it starts",
    "replication-offset-checkpoint": "its high watermarks are lost, and a broker determines them again",
}


@click.command(short_help="Keep every sound batch, on both sides of damage.", epilog=HEALING_EXITS)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=existing_path)
@click.option("--output", metavar="DIR", help="Write the result to this new directory.")
@click.option("--in-place", is_flag=True, help="Replace the damaged partitions with the result.")
@click.option(
    "--from",
    "sources",
    metavar="OTHER",
    multiple=True,
    type=existing_path,
    help="Take lost records from this other replica, where it has the same history. Repeatable.",
)
@chosen_topics
@click.option(
    "--keep-suspect",
    is_flag=True,
    help="Keep batches with a wrong checksum whose records can all be decoded, with a new checksum.",
)
@click.option(
    "--indexes-only",
    is_flag=True,
    help="Leave logs with damaged batches as they are; repair the files beside the batches of the other logs.",
)
@click.option(
    "--lost",
    "lost_path",
    metavar="DIR",
    help="The directory for the bytes that are left out, and the report.  [default: the result's name with .lost]",
)
@dry_run_option
@as_json
def repair(
    paths: tuple[str, ...],
    output: str | None,
    in_place: bool,
    sources: tuple[str, ...],
    topics: tuple[str, ...],
    keep_suspect: bool,
    indexes_only: bool,
    lost_path: str | None,
    dry_run: bool,
    form: str,
) -> None:
    """Repair the log directory PATH, or a partition's directory: keep every sound batch on both sides of damage.

    A broker that finds damage cuts the log there and loses everything after it. A repair leaves out only the damaged
    batches, and keeps all offsets. It rebuilds indexes, producer snapshots, leader epochs and checkpoints as a broker's
    recovery does, and writes the clean-shutdown marker, so that a broker accepts the result without recovery.

    --from takes lost records from other replicas that have the same history. The history is checked by leader epochs,
    or, in a log without them, by the batches beside the damage. In a compacted topic, these records may bring back a
    deleted key.

    The result lists each damaged range of offsets, and its state:

    \b
      lost       no source has it
      recovered  another replica had it, or only its batch's magic or length was wrong
      suspect    kept by --keep-suspect although the checksum is wrong

    It also lists doubts, and the steps: which files of a partition are written or rebuilt, and why. The bytes that are
    left out go to the directory --lost, with a report.json of all ranges.

    A broker never fetches a lost range from a leader, and a leader serves its log with the gap. If another replica has
    all records, name it with --from. Or move the damaged directory away, and let the broker fetch the partition again.

    No broker may use PATH. With --output it stays unchanged. --in-place replaces whole partitions, all at once: if the
    process dies, the directory is either unchanged or repaired. The cluster's metadata log is only repaired if nothing
    of it is lost; otherwise `brokerless rescue` makes a new cluster.

    \b
    brokerless repair data --dry-run
    brokerless repair data --output repaired --from replica/data
    brokerless repair data --in-place --lost /backup/lost
    """
    if in_place and output is not None:
        raise click.UsageError("--in-place writes no new directory: give --in-place or --output, not both")
    if not (output or in_place or dry_run):
        raise click.UsageError("give --output with a new directory, or --in-place, or --dry-run")
    if len(paths) > 1 and (output or lost_path):
        raise click.UsageError(
            "--output and --lost need exactly one PATH, because the results of several would go to one directory"
        )
    from brokerless.healing.repair import repair as of_path

    with BytesProgress("checked and wrote") as progress:
        reports = [
            of_path(
                path,
                output,
                in_place=in_place and not dry_run,
                sources=sources,
                topics=topics or None,
                keep_suspect=keep_suspect,
                indexes_only=indexes_only,
                lost_path=lost_path,
                dry_run=dry_run,
                progress=progress.add,
            )
            for path in paths
        ]
    print_reports(
        reports,
        form,
        show,
        following=lambda: _say_following(reports, paths, has_target=in_place or output is not None, dry_run=dry_run),
    )


def _say_following(reports: Sequence[RepairReport], paths: Sequence[str], *, has_target: bool, dry_run: bool) -> None:
    left = [one for report in reports for one in report.left if one.severity != "note"]
    cures = by_hand(left)
    say_cures(cures)
    if not dry_run:
        # A check would only repeat what nothing but a hand can cure.
        if not left or any(one.code not in cures for one in left):
            say_next("check", [report.output for report in reports])
    elif any(report.repaired or report.checkpoints for report in reports):
        into = ["--in-place"] if len(paths) > 1 else ["--output", f"{paths[0].rstrip('/')}.repaired"]
        say_next("repair", paths, *([] if has_target else into), without=["dry_run"])


def show(found: RepairReport) -> None:
    """Print what a repair did, or would do."""
    print_lost(found)
    print_repaired(found)
    for name in found.checkpoints:
        effect = _EFFECTS.get(os.path.basename(name))
        terminal.say(f"write {name} again, because it cannot be read{f': {effect}' if effect else ''}")
    for directory, why in found.left_out.items():
        terminal.say(f"leave out {directory}: {why}")
    for name, why in found.left_alone.items():
        terminal.say(f"{name} is left unchanged: {why}")
    print_left(found)
    terminal.say(found.summary, err=True)
