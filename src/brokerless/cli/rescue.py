"""`brokerless rescue`: log directories that a new cluster starts on, from whatever disks are left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from brokerless.arguments import listed_few
from brokerless.cli import terminal
from brokerless.cli.healing_report import print_left, print_lost, print_repaired, print_reports
from brokerless.cli.options import BytesProgress, as_json, chosen_topics, existing_path, int_from, known_release, moment

if TYPE_CHECKING:
    from brokerless.healing.report import MissingPartition, RescueReport


@click.command(short_help="Make a cluster that starts, from any disks that are left.")
@click.argument("disks", metavar="DISK...", nargs=-1, required=True, type=existing_path)
@click.option(
    "--output", metavar="DIR", help="The new directory; of several nodes each gets a directory node-ID in it."
)
@click.option("--node", "nodes", type=int_from(0), multiple=True, help="A node that there will be. Repeatable.")
@click.option(
    "--voters",
    metavar="ID@HOST:PORT,...",
    help="The controllers among the nodes, to be named in the metadata log and not in controller.quorum.voters.",
)
@click.option(
    "--cluster-id",
    help="The id of the new cluster; settles which one is right if disks disagree.  [default: the old one]",
)
@click.option(
    "--release",
    type=known_release,
    metavar="RELEASE",
    help="Start with the features of this release of Kafka.  [default: those of before]",
)
@chosen_topics
@click.option("--rename", "renames", metavar="OLD=NEW", multiple=True, help="Give a topic a new name. Repeatable.")
@click.option(
    "--as-of",
    type=moment(),
    help="Cut the records as they were at this time. Transactions open then are committed or aborted.",
)
@click.option("--convert", is_flag=True, help="Write messages of formats 0 and 1, of brokers before 0.11, in format 2.")
@click.option(
    "--lost",
    "lost_path",
    metavar="DIR",
    help="Where to put the report of what is lost or in doubt.  [default: the result's name with .lost]",
)
@click.option("--dry-run", is_flag=True, help="Report what there will be and what is missing, and change nothing.")
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
    """Make log directories that a KRaft cluster starts on, from the log directories DISK of an old one.

    Any disks will do, of any brokers and controllers, also of a cluster with ZooKeeper. They are only read. The best
    replica of each partition is taken: one in sync, then by the leader epoch of its last batch, then by its end. What
    is damaged in it comes from the others. Topics keep their ids and settings; access rights, quotas, users, tokens and
    features are those of the newest metadata on any disk. Groups go on at their offsets, and coordinators end open
    transactions, for the topics of both are kept. With --topic, name __consumer_offsets and __transaction_state, too,
    or groups start anew and open transactions stay open; with --rename, groups start anew on the new topic. Without
    metadata, the topics are known by their directories.

    Without --node there is one node. Replicas stay on their nodes, as far as these are named; with fewer nodes, there
    are fewer replicas. The cluster keeps its id: the old nodes must stay down. Give a copy that may meet its old
    cluster another --cluster-id: it gets nothing of its topics that is only in remote storage.

    The result needs a broker's own configuration: node.id, log.dirs, and controller.quorum.voters with all controllers.
    With --voters, the metadata log names these, and the nodes need controller.quorum.bootstrap.servers.

    --dry-run tells what will be missing: partitions that no disk has, and those without a replica that was in sync. The
    same is in report.json, in the directory --lost: where the records of each partition come from, lost ranges of
    offsets, partitions that are lost or may be, doubts and notes. It has no bytes: the disks still have them.

    Exit codes: 0 all is there; 3 records, partitions or changes of the metadata are lost, or may be; 1 errors are left;
    2 could not run.

    \b
    brokerless rescue /mnt/disk1 /mnt/disk2 --dry-run
    brokerless rescue /mnt/disk1 /mnt/disk2 --output /var/lib/kafka/new
    brokerless rescue snap1 snap2 snap3 --output new --node 1 --node 2 --node 3
    brokerless rescue /backup/data --output fork --topic orders --as-of 2026-05-01 --cluster-id laptop
    """
    if (output is None) != dry_run:
        raise click.UsageError("give either --output with a new directory, or --dry-run")
    pairs = dict(_pair(one) for one in renames)
    from brokerless.healing.rescue import rescue as of_disks

    with BytesProgress("checked and wrote") as progress:
        found = of_disks(
            *disks,
            output=output,
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
    print_reports([found], form, lambda report: _show(report, is_dry=dry_run))


def _pair(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise click.BadParameter(f"{text!r} is not OLD=NEW", param_hint="--rename")
    return old, new


def _show(found: RescueReport, *, is_dry: bool) -> None:
    print_lost(found)
    for is_gone, kind in ((True, "lost"), (False, "perhaps lost")):
        # A disk that is not there is the same cause for thousands of partitions.
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
    print_left(found, is_dry=is_dry)
    count = sum(found.topics.values())
    what = "there will be" if is_dry else "there are"
    topics = f"{len(found.topics)} topic{'s' * (len(found.topics) != 1)} with {count} partition{'s' * (count != 1)}"
    if (len(found.topics), is_dry) == (1, False):
        what = "there is"
    said = f"{what} {topics} on node{'s' * (len(found.nodes) > 1)} {', '.join(map(str, found.nodes))}"
    if not is_dry:
        said += f"; start brokers on {', '.join(found.nodes.values())}; the report is in {found.lost_path}"
    terminal.say(said, err=True)


def _with_end(missing: MissingPartition) -> str:
    name = f"{missing.topic}-{missing.partition}"
    return name if missing.offset is None else f"{name} (from offset {missing.offset} on)"
