"""`brokerless cluster`: the metadata of a cluster by subject, as of any point, and what changed between two points."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from brokerless.cli import terminal
from brokerless.cli.options import existing_path
from brokerless.cli.state import STATE_EXITS, Point, TableForm, form_of, of_state, point_of, telling
from brokerless.wording import counted
from brokerless.wording import moment as moment_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from brokerless.state.cluster import ClusterState

_HELP = {
    "brokers": "brokers: endpoints, racks, and whether they are fenced",
    "controllers": "registered controllers",
    "topics": "topics with their ids, partitions and replicas",
    "partitions": "partitions: leader, epochs, replicas, in-sync (ISR) and eligible leader replicas (ELR)",
    "configs": "configs that were set on topics, brokers and groups",
    "acls": "ACLs",
    "quotas": "quotas of users, clients and addresses",
    "users": "SCRAM users: mechanism and iterations",
    "features": "features and their levels, including metadata.version",
    "tokens": "delegation tokens, without their secrets",
    "voters": "voters of the metadata quorum, and the leader",
}
_SECRETS = ("salt", "stored_key", "server_key")
# The fields that a line of text leaves out.
_ONLY_IN_FILES = {
    "brokers": ("epoch", "incarnation_id", "log_dirs"),
    "controllers": ("incarnation_id",),
    "partitions": ("partition_epoch", "last_known_elr", "adding_replicas", "removing_replicas", "directories"),
    "configs": ("is_sensitive",),
    "acls": ("id",),
    "tokens": ("requester", "max_time"),
}


as_of = click.option(
    "--as-of",
    "point",
    type=point_of,
    metavar="POINT",
    help="Show the state at a time, or at an offset of the metadata log: offset:N.",
)


class _Views(click.Group):
    """The views of the metadata. A path in the place of a view is answered with the views."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and os.path.exists(args[0]):
            for name, command in self.commands.items():
                terminal.say(f"{name:<12}{command.get_short_help_str(limit=100)}")
            terminal.say(f"next: {terminal.as_typed('brokerless', 'cluster', 'topics', *args)}", err=True)
            ctx.exit()
        return super().resolve_command(ctx, args)


@click.group(cls=_Views, short_help="Show brokers, topics, configs, ACLs, and what changed.")
def cluster() -> None:
    """Show the metadata of a cluster, from the snapshots and the log of its controllers (__cluster_metadata).

    PATH is the log directory of a controller or broker that holds the metadata log: metadata.log.dir, or the first of
    log.dirs if that is not set. Secrets are not shown unless --secrets asks for them.

    \b
    brokerless cluster topics data
    brokerless cluster configs data --as-of 2024-05-01T12:00
    brokerless cluster acls data --json
    brokerless cluster diff data --since 2024-05-01
    brokerless cluster diff before after
    """


def _subject_command(subject: str) -> click.Command:
    @click.command(
        name=subject, short_help=f"List {_HELP[subject]}.", help=f"List {_HELP[subject]}.", epilog=STATE_EXITS
    )
    @of_state
    @as_of
    def command(
        paths: tuple[str, ...],
        form: str,
        file_form: str | None,
        output: str | None,
        point: Point | None,
        secrets: bool = False,
    ) -> None:
        printed = form_of(form, file_form, output)
        with telling():
            table = _state(paths, point, secrets=secrets).table(subject)
            hidden = {*(() if secrets else _SECRETS)}
            hidden |= {*_ONLY_IN_FILES.get(subject, ())} if printed == "text" else set()
            names = [name for name in table.schema.names if name not in hidden]
            table = table.select(names)
            headings = [name.upper().replace("_", " ") for name in names]
            numbers = [heading for heading, field in zip(headings, table.schema, strict=True) if _is_number(field.type)]
            shown = TableForm(table.schema, printed, output, headings, _row_of(table.schema), numbers)
            shown.print_batches(table.to_batches())

    if subject in ("users", "configs"):
        help_text = "Show salts and keys too." if subject == "users" else "Show the values of sensitive settings too."
        command = click.option("--secrets", is_flag=True, help=help_text)(command)
    return command


for _subject in _HELP:
    cluster.add_command(_subject_command(_subject))


@cluster.command(short_help="Show what changed between two points or two directories.", epilog=STATE_EXITS)
@click.argument("paths", metavar="PATH [PATH]", nargs=-1, required=True, type=existing_path)
@click.option("--since", type=point_of, metavar="POINT", help="With one PATH: the earlier point, a time or offset:N.")
@as_of
@click.option(
    "--subject",
    "subjects",
    type=click.Choice([*_HELP]),
    multiple=True,
    help="Show the changes of this view only, such as configs. Repeat it for several views.",
)
@click.option(
    "--all", "shows_all", is_flag=True, help="Show the changes of leaders, in-sync replicas, ELRs and epochs too."
)
@click.option("--json", "is_json", is_flag=True, help="Print JSON lines.")
def diff(
    paths: tuple[str, ...],
    since: Point | None,
    point: Point | None,
    subjects: Sequence[str],
    *,
    shows_all: bool,
    is_json: bool,
) -> None:
    """Show what changed in one PATH since a point, or from the first PATH to the second.

    When a broker stops or starts, each of its partitions changes its leader, in-sync replicas (ISR), eligible leader
    replicas (ELR) or epochs. These changes are shown only with --all; a note on stderr counts them.

    \b
    brokerless cluster diff data --since 2024-05-01T11:00 --as-of 2024-05-01T12:00
    brokerless cluster diff data --since offset:4000
    brokerless cluster diff data --since -1d --subject configs --subject acls
    brokerless cluster diff backup data
    """
    if len(paths) > 2:
        raise click.UsageError("name one PATH, or two to compare")
    if (len(paths) == 1) != (since is not None):
        raise click.UsageError("with one PATH, give the earlier point with --since; with two PATHs, leave --since out")
    with telling():
        before = _state(paths[:1], since if len(paths) == 1 else point, secrets=False)
        changes = before.diff(_state(paths[-1:], point, secrets=False))
        chosen, hidden = _chosen(changes, subjects, shows_all=shows_all)
        headings = ("SUBJECT", "KEY", "CHANGE", "COLUMN", "BEFORE", "AFTER")
        form = "json" if is_json else "text"
        TableForm(chosen.schema, form, None, headings, _change).print_batches(chosen.to_batches())
    if hidden:
        what = f"{counted(hidden, 'change')} of leaders, in-sync replicas or epochs"
        terminal.say(f"note: {what} {'is' if hidden == 1 else 'are'} not shown: add --all", err=True)


def _chosen(changes: pa.Table, subjects: Sequence[str], *, shows_all: bool) -> tuple[pa.Table, int]:
    """Return the changes to show, and the number of the others that `--all` would add."""
    import pyarrow as pa

    from brokerless.state.cluster import is_of_leadership

    wanted = [row for row in changes.to_pylist() if not subjects or row["subject"] in subjects]
    shown = [row for row in wanted if shows_all or not is_of_leadership(row)]
    return pa.Table.from_pylist(shown, changes.schema), len(wanted) - len(shown)


def _state(paths: Sequence[str], point: Point | None, *, secrets: bool) -> ClusterState:
    from brokerless.state.cluster import cluster as state_of

    wanted = point or Point()
    return state_of(*paths, as_of=wanted.as_of, as_of_offset=wanted.as_of_offset, secrets=secrets)


def _change(row: dict[str, Any]) -> Sequence[object]:
    names = ("subject", "key", "change", "column", "before", "after")
    return ["" if row[name] is None else row[name] for name in names]


def _is_number(kind: Any) -> bool:  # noqa: ANN401 - an Arrow type, imported late
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _row_of(schema: Any) -> Callable[[dict[str, Any]], Sequence[object]]:  # noqa: ANN401 - as above
    import pyarrow as pa

    times = {field.name for field in schema if pa.types.is_timestamp(field.type)}

    def row(cells: dict[str, Any]) -> list[object]:
        return [moment_text(cell) if name in times else _cell(cell) for name, cell in cells.items()]

    return row


def _cell(value: object) -> object:
    """Return a cell of the text, with lists and endpoints in short form."""
    from brokerless.metadata.schema import finite, json_text

    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ",".join(str(_cell(one)) for one in value) or None
    if isinstance(value, dict):
        if "host" in value:
            return f"{value['name']}://{value['host']}:{value['port']}"
        if "type" in value:
            return f"{value['type']}={value['name'] or '<default>'}"
        return json_text(value)
    return finite(value)
