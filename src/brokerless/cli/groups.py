"""`brokerless groups`: consumer groups, their members, their commits and their lag."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from brokerless.arguments import unknown
from brokerless.cli.next_command import say_next
from brokerless.cli.options import chosen_topics
from brokerless.cli.state import (
    COORDINATOR_EXITS,
    TableForm,
    at_time,
    dicts,
    form_of,
    large,
    of_state,
    state_memory,
    telling,
)
from brokerless.cli.table import print_table
from brokerless.layout.file_names import chosen_topics as known_topics
from brokerless.layout.file_names import is_chosen
from brokerless.wording import duration, moment

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    import pyarrow as pa

_GROUPS = ("GROUP", "TYPE", "STATE", "PROTOCOL", "EPOCH", "MEMBERS", "UPDATED")
_NUMBERS = ("EPOCH", "MEMBERS")
_MEMBERS = ("GROUP", "MEMBER", "CLIENT", "HOST", "EPOCH", "TOPICS", "ASSIGNMENT")
_RETENTION_MS = 7 * 86_400_000
_ROWS = 1 << 13
_COMMITS = ("GROUP", "PARTITION", "OFFSET", "LAG THEN", "LAG", "COMMITTED", "NOTE", "METADATA")


@click.command(short_help="List consumer groups, members, offsets and lag.", epilog=COORDINATOR_EXITS)
@of_state
@click.option("--group", "names", multiple=True, help="Only this group. Repeatable.")
@chosen_topics
@click.option("--members", "shown", flag_value="members", help="Show the members and their assignments.")
@click.option("--offsets", "shown", flag_value="offsets", help="Show the latest committed offsets, with their lag.")
@click.option("--history", is_flag=True, help="Show every change that the log still has; with --offsets, every commit.")
@click.option("--no-lag", is_flag=True, help="With --offsets: leave out the lag, without reading the partitions' logs.")
@at_time
@state_memory
def groups(
    paths: tuple[str, ...],
    form: str,
    file_form: str | None,
    output: str | None,
    names: tuple[str, ...],
    topics: tuple[str, ...],
    shown: str | None,
    as_of: int | None,
    memory: int,
    *,
    history: bool,
    no_lag: bool,
) -> None:
    """List the groups of a cluster: classic, consumer, share and streams groups.

    --offsets lists the latest commits of each group. LAG THEN is the lag at the time of the commit, and LAG is the lag
    now, or at the time of --as-of. A partition that is not in PATH has no lag. A note marks commits beyond the log's
    end or below its start: a consumer that resumes from such a commit resets its offset.

    --history lists each change of a group; together with --offsets, it lists each commit. A note marks a commit below
    an earlier commit, even if the earlier one was removed in between. For a removed offset, the note says how long
    after its commit it was removed.

    The history has only the records that compaction has not removed.

    \b
    brokerless groups /var/lib/kafka/data
    brokerless groups data --offsets --group billing
    brokerless groups broker1 broker2 broker3 --offsets --history --group billing --json
    brokerless groups data --members --history --group billing
    brokerless groups data --offsets --as-of 2024-05-01T12:00
    """
    from brokerless.state import groups as of_groups
    from brokerless.state import offset_commits

    if no_lag and shown != "offsets":
        raise click.UsageError("--no-lag is for --offsets, which shows a lag")
    printed = form_of(form, file_form, output)
    if topics and shown != "offsets":
        raise click.UsageError("--topic selects commits: give --offsets with it")
    with telling() as notes:
        check = partial(_check_known, names, topics, paths=paths, memory=memory, notes=notes)
        if shown == "offsets":
            wanted: Any = {"groups": names or None, "topics": topics or None}
            options: Any = {**wanted, "as_of": as_of, "history": history, "lag": not no_lag, "memory": memory}
            commits = offset_commits.commits(*paths, **options)
            numbers = ("OFFSET", "LAG THEN", "LAG")
            batches = _each(commits if history else _by_group(commits), check)
            TableForm(
                commits.schema, printed, output, _COMMITS, partial(_commit, is_history=history), numbers
            ).print_batches(batches)
            return
        rows = []
        changes: Iterable[pa.RecordBatch] = ()
        if history:
            found = of_groups.group_changes(*paths, as_of=as_of, groups=names or None, memory=memory)
            changes = _each(found, check)
        else:
            rows = of_groups.group_rows(*paths, as_of=as_of, memory=memory)
            check({row["group"] for row in rows})
            rows = [row for row in rows if not names or row["group"] in names]
        if shown == "members" and printed == "text":
            _print_members(map(dicts, changes) if history else [rows], has_time=history)
            return
        headings = (*_GROUPS, "NOTE") if history else _GROUPS
        table = TableForm(of_groups.SCHEMA, printed, output, headings, partial(_group, has_note=history), _NUMBERS)
        if history:
            table.print_batches(changes)
        else:
            table.print_rows(rows)
            if rows and printed == "text" and output is None:
                say_next("groups", paths, "--offsets")


def _check_known(
    names: Sequence[str],
    topics: Sequence[str],
    found: Collection[str],
    found_topics: Collection[str] = (),
    *,
    paths: Sequence[str],
    memory: int,
    notes: Sequence[object],
) -> None:
    """Refuse groups and topics that do not exist, at any time, unless damage or a missing directory may hide them.

    `names` and `topics` are asked for; `found` and `found_topics` are the groups and topics that were found.
    """
    from brokerless.log_dir.log_dirs import LogDirs
    from brokerless.state.groups import group_changes, group_rows
    from brokerless.state.offset_commits import commits

    missing = [name for name in names if name not in found]
    absent = [topic for topic in topics if not any(is_chosen(name, [topic]) for name in found_topics)]
    if not (missing or absent) or notes:
        return
    known = {str(row["group"]) for row in group_rows(*paths, memory=memory)}
    committed: set[str] = set()
    for batch in commits(*paths, lag=False, memory=memory):
        known.update(map(str, batch["group"].unique().to_pylist()))
        committed.update(map(str, batch["topic"].unique().to_pylist()))
    for changes in group_changes(*paths, groups=missing or None, memory=memory) if missing else ():
        known.update(map(str, changes["group"].unique().to_pylist()))
    for name in missing:
        if name not in known:
            raise unknown("group", name, known)
    if absent:
        directories = LogDirs(*paths)
        known_topics(absent, {*committed, *directories.topics()}, directories.leftovers())


def _each(batches: Iterable[pa.RecordBatch], check: Callable[..., None]) -> Iterator[pa.RecordBatch]:
    """Yield batches, then check the names of their groups and topics."""
    groups: set[Any] = set()
    topics: set[Any] = set()
    for batch in batches:
        groups.update(batch["group"].unique().to_pylist())
        if "topic" in batch.schema.names:
            topics.update(batch["topic"].unique().to_pylist())
        yield batch
    check(groups, topics)


def _by_group(commits: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Yield commits by group, topic and partition, a part at a time: a sorted copy of all would double the memory."""
    import pyarrow.compute as pc

    table = commits.read_all()
    order = pc.sort_indices(table, [(name, "ascending") for name in ("group", "topic", "partition")])
    for start in range(0, len(order), _ROWS):
        yield from table.take(order.slice(start, _ROWS)).combine_chunks().to_batches()


def _print_members(pieces: Iterable[list[dict[str, Any]]], *, has_time: bool) -> None:
    for rows in large(pieces):
        cells = [_member(row, member, has_time=has_time) for row in rows for member in row["members"] or ()]
        print_table((*_MEMBERS, "UPDATED") if has_time else _MEMBERS, cells, numbers=("EPOCH",))


def _group(row: dict[str, Any], *, has_note: bool) -> Sequence[object]:
    names = [row[name] for name in ("group", "type", "state", "protocol", "epoch")]
    when = row["coordinator_time"] if row["is_removed"] else row["updated"]
    cells = [*names, None if row["members"] is None else len(row["members"]), moment(when)]
    return [*cells, "removed" if row["is_removed"] else ""] if has_note else cells


def _member(group: dict[str, Any], member: dict[str, Any], *, has_time: bool) -> list[str]:
    assigned = [one for one in member["assignment"] or () if one["partitions"]]
    cells = [
        group["group"],
        member["member_id"],
        member["client_id"],
        member["client_host"],
        member["epoch"],
        ",".join(member["topics"] or ()),
        " ".join(f"{one['topic']}-{','.join(map(str, one['partitions']))}" for one in assigned),
    ]
    cells += [moment(group["updated"])] if has_time else []
    return ["-" if cell in (None, "") else str(cell) for cell in cells]


def _commit(row: dict[str, Any], *, is_history: bool) -> Sequence[object]:
    when = row["coordinator_time"] if row["is_removed"] else row["commit_time"]
    return [
        row["group"],
        f"{row['topic']}-{row['partition']}",
        row["offset"],
        row["lag_then"],
        row["lag"],
        moment(when),
        "; ".join(_notes(row, is_history=is_history)),
        row["metadata"] or "",
    ]


def _notes(row: dict[str, Any], *, is_history: bool) -> Iterator[str]:
    # A consumer starts with the latest commit alone.
    resets = "" if is_history else ", so a consumer resets"
    if row["is_removed"]:
        yield _removed(row["coordinator_time"], row["previous_commit_time"])
    if row["is_back"]:
        yield f"back from {row['previous_offset']}"
    if row["is_out_of_range"] and row["offset"] < row["log_start_offset"]:
        yield f"below the log start {row['log_start_offset']}{resets}"
    elif row["is_out_of_range"]:
        yield f"beyond the log end {row['log_end_offset']}{resets}"


def _removed(when: int | None, committed: int | None) -> str:
    """Return a note on a removed offset. A broker removes expired offsets, and an admin may remove any."""
    if when is None or committed is None or when < committed:
        return "removed"
    age = duration(when - committed)
    expired = ": offsets.retention.minutes is 7 days by default" if when - committed >= _RETENTION_MS else ""
    return f"removed {age} after its commit{expired}"
