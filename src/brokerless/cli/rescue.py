"""`brokerless rescue`: log directories that a new cluster can start on, from the disks that are left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from brokerless.arguments import listed_few
from brokerless.cli import terminal
from brokerless.cli.findings import by_hand, say_cures
from brokerless.cli.healing_report import HEALING_EXITS, print_left, print_lost, print_repaired, print_reports
from brokerless.cli.next_command import say_next
from brokerless.cli.options import BytesProgress, as_json, chosen_topics, existing_path, int_from, known_release, moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerless.healing.report import MissingPartition, RescueReport


@click.command(short_help="Make a cluster that starts, from any disks that are left.", epilog=HEALING_EXITS)
@click.argument("disks", metavar="DISK...", nargs=-1, required=True, type=existing_path)
@click.option(
    "--output", metavar="DIR", help="The new directory; with several nodes, each gets a directory node-ID in it."
)
@click.option(
    "--node", "nodes", type=int_from(0), multiple=True, help="The id of a node of the new cluster. Repeatable."
)
@click.option(
    "--voters",
    metavar="ID@HOST:PORT,...",
    help="The controllers among the nodes. The metadata log names them, instead of controller.quorum.voters.",
)
@click.option(
    "--cluster-id",
    help="The id of the new cluster. If the ids on the disks differ because one is damaged, give the right one.  "
    "[default: the old one]",
)
@click.option(
    "--release",
    type=known_release,
    metavar="RELEASE",
    help="Start with the features of this release of Kafka.  [default: the old ones]",
)
@chosen_topics
@click.option(
    "--rename",
    "renames",
    metavar="OLD=NEW",
    multiple=True,
    help="Give a topic a new name; --topic names the old one. Repeatable.",
)
@click.option(
    "--as-of",
    type=moment(),
    help="Cut the logs at this time, without later records. Transactions that were open then are committed or aborted.",
)
@click.option("--convert", is_flag=True, help="Write messages of formats 0 and 1, of brokers before 0.11, in format 2.")
@click.option(
    "--lost",
    "lost_path",
    metavar="DIR",
    help="The directory for the report of losses and doubts.  [default: the result's name with .lost]",
)
@click.option(
    "--dry-run", is_flag=True, help="Report what the result will have and what will be missing, and change nothing."
)
@as_json
def rescue(
    disks: tuple[str, ...],
    output: str | None,
    nodes: tuple[int, ...],
    voters: str | None,
    cluster_id: str | None,
    release: str | None,
    topics: tuple[str, ...],
    renames: tuple[str, ...],
    as_of: int | None,
    convert: bool,
    lost_path: str | None,
    dry_run: bool,
    form: str,
) -> None:
    """Make log directories for a new KRaft cluster, from the log directories DISK of an old one.

    DISK is any log directory of any broker or controller of one cluster, with or without ZooKeeper. The disks are only
    read. For each partition, the rescue takes the best replica: in-sync replicas first, then by the highest leader
    epoch, then by the highest end offset. Damaged ranges are filled from the other replicas.

    \b
    The new cluster has:
      topics          with their ids and settings; if no disk has metadata, the topics that have directories
      ACLs            also quotas, users, tokens and features, from the newest metadata on any disk
      groups          consumers resume at their committed offsets
      transactions    coordinators end open ones

    With --topic, also name __consumer_offsets and __transaction_state. Without these topics, groups lose their offsets,
    and open transactions stay open. With --rename, groups have no offsets for the new topic.

    Without --node, the new cluster has one node. With --node, replicas stay on the named nodes; fewer nodes mean fewer
    replicas. The new cluster keeps the old cluster id, so the old nodes must stay down. If the new nodes can reach the
    old cluster, give another --cluster-id. The new cluster then lacks the records that are only in remote storage.

    Each node needs a broker's own configuration: node.id, log.dirs, and controller.quorum.voters with all controllers.
    With --voters, the metadata log names the controllers, and the nodes need controller.quorum.bootstrap.servers.

    --dry-run prints the report: the source of each partition, lost ranges of offsets, lost partitions, doubts and
    notes. A rescue also writes the report to report.json in the directory --lost.

    \b
    brokerless rescue /mnt/disk1 /mnt/disk2 --dry-run
    brokerless rescue /mnt/disk1 /mnt/disk2 --output /var/lib/kafka/new
    brokerless rescue snap1 snap2 snap3 --output new --node 1 --node 2 --node 3
    brokerless rescue /backup/data --output fork --topic orders --as-of 2026-05-01 --cluster-id laptop
    """
    if output is None and not dry_run:
        raise click.UsageError("give --output with a new directory, or see with --dry-run what it would have")
    pairs = dict(_pair(one) for one in renames)
    from brokerless.healing.rescue import rescue as of_disks

    with BytesProgress("checked and wrote") as progress:
        found = of_disks(
            *disks,
            output=None if dry_run else output,
            nodes=nodes or None,
            voters=voters,
            cluster_id=cluster_id,
            release=release,
            topics=topics or None,
            rename=pairs,
            as_of=as_of,
            convert=convert,
            lost_path=lost_path,
            dry_run=dry_run,
            progress=progress.add,
        )
    print_reports([found], form, _show, following=lambda: _say_following(found, disks))


def _say_following(found: RescueReport, disks: Sequence[str]) -> None:
    say_cures(by_hand(one for one in found.left if one.severity != "note"))
    if found.dry_run:
        say_next("rescue", disks, "--output", f"{disks[0].rstrip('/')}.rescued", without=["dry_run"])


def _pair(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise click.BadParameter(f"{text!r} is not OLD=NEW", param_hint="--rename")
    return old, new


def _show(found: RescueReport) -> None:
    print_lost(found)
    for is_gone, kind in ((True, "lost"), (False, "perhaps lost")):
        # A missing disk is the same cause for thousands of partitions.
        by_cause: dict[str, list[MissingPartition]] = {}
        for missing in found.missing:
            if missing.is_gone == is_gone:
                by_cause.setdefault(missing.reason, []).append(missing)
        for reason, partitions in by_cause.items():
            names = [_with_end(one) for one in partitions]
            many = f"{len(names)} partitions: " if len(names) > 1 else ""
            terminal.say(f"{kind}: {many}{listed_few(names)}: {reason}")
    print_repaired(found)
    for note in found.notes:
        terminal.say(f"note: {note}")
    print_left(found)
    terminal.say(found.summary, err=True)


def _with_end(missing: MissingPartition) -> str:
    name = f"{missing.topic}-{missing.partition}"
    return name if missing.offset is None else f"{name} (from offset {missing.offset} on)"
