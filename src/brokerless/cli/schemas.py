"""`brokerless schemas`: the schemas of a registry, from its topic at rest, and which topics use them."""

from __future__ import annotations

import json
import os
import sys
import uuid
from typing import TYPE_CHECKING, Any

import click

from brokerless.cli import terminal
from brokerless.cli.next_command import say_next
from brokerless.cli.options import LocalPath, as_json, chosen_topics, existing_path
from brokerless.cli.state import STATE_EXITS, TableForm, at_time, form_of, of_state, telling
from brokerless.io.remote import is_remote
from brokerless.wording import counted, printable
from brokerless.wording import moment as moment_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerless.schemas.schema import Schema, SchemaVersion
    from brokerless.state.schemas import Schemas

_HEADINGS = ("SUBJECT", "VERSION", "ID", "TYPE", "DELETED", "UPDATED", "REFERENCES")
_OF_USAGE = ("TOPIC", "PART", "FRAMING", "ID", "RECORDS", "FIRST AT", "TYPE", "SUBJECTS")

_registry = click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=existing_path)
_context = click.option(
    "--context", metavar="NAME", help="Look up ids in this context of the registry.  [default: the default context]"
)


class _Schemas(click.Group):
    """The verbs of schemas; without one, `list`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # What is no path is a verb that was mistyped.
        if args and args[0] not in self.commands and (is_remote(args[0]) or os.path.exists(args[0])):
            args = ["list", *args]
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # An option of `list` before its paths.
        if args and args[0].startswith("-") and args[0] not in ctx.help_option_names:
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Schemas, short_help="List the schemas of a registry, and what uses them.")
def schemas() -> None:
    """Show the schemas of a registry, from its topic _schemas. No registry runs.

    PATH is a log directory with the topic _schemas, a partition's directory of a registry's topic, or a JSON file: a
    registry's answer to GET /schemas?deleted=true, or what --save wrote. Deleted schemas are shown, too: old records
    still carry their ids.

    Without a verb, `list` is meant.

    \b
    brokerless schemas list data
    brokerless schemas list data --usage --topic orders
    brokerless schemas show 3 data
    brokerless schemas diff orders-value 1 latest data
    brokerless schemas list data --save schemas.json
    """


@schemas.command(name="list", short_help="List subjects and versions, or the ids in records.", epilog=STATE_EXITS)
@of_state
@click.option("--usage", is_flag=True, help="Count the records that name each schema. This reads all records.")
@chosen_topics
@click.option(
    "--schemas",
    "registry",
    metavar="PATH",
    multiple=True,
    type=existing_path,
    help="With --usage: where the schemas are, if PATH has only the records. Repeatable.",
)
@click.option("--save", metavar="FILE", type=LocalPath(dir_okay=False), help="Write all schemas to a JSON file, too.")
@at_time
def list_(
    paths: tuple[str, ...],
    form: str,
    file_form: str | None,
    output: str | None,
    topics: tuple[str, ...],
    registry: tuple[str, ...],
    save: str | None,
    as_of: int | None,
    *,
    usage: bool,
) -> None:
    """List the versions of all subjects; with --usage, the ids that records name, topic by topic.

    DELETED is soft or hard: a registry gives out the schema of a soft-deleted version by its id, but not that of a
    hard-deleted one. With --usage, an id without a subject is one that the registry does not have.

    \b
    brokerless schemas list data
    brokerless schemas list data --usage --topic 'orders*'
    brokerless schemas list backup/orders-0 --usage --schemas schemas.json
    """
    from brokerless.state import schemas as of_schemas

    if not usage and (topics or registry):
        raise click.UsageError(f"{'--topic' if topics else '--schemas'} needs --usage")
    printed = form_of(form, file_form, output)
    with telling():
        found = of_schemas.Schemas(*(registry or paths), as_of=as_of)
        if save is not None:
            found.save(save)
            terminal.say(f"{counted(len(found.versions), 'version')} written to {save}", err=True)
        if usage:
            table = found.usage(*(paths if registry else ()), topics=topics or None)
            shown = TableForm(table.schema, printed, output, _OF_USAGE, _use, ("ID", "RECORDS"))
        else:
            table = found.table().sort_by([(name, "ascending") for name in ("context", "subject", "version")])
            shown = TableForm(table.schema, printed, output, _HEADINGS, _version, ("VERSION", "ID"))
        shown.print_batches(table.to_batches())
        if not usage and save is None and printed == "text" and found.versions and all(map(os.path.isdir, paths)):
            say_next("schemas", paths, "--usage")


@schemas.command(short_help="Print one schema.", epilog=STATE_EXITS)
@click.argument("schema_id", metavar="ID")
@_registry
@_context
@as_json
def show(schema_id: str, paths: tuple[str, ...], context: str | None, form: str) -> None:
    """Print the text of the schema with an id, or with a GUID as headers carry it.

    Its versions and references go to stderr. --json prints one object with all of it.

    \b
    brokerless schemas show 3 data
    brokerless schemas show 1 data --context .eu
    brokerless schemas show 84bbe99d-955d-72fc-5f02-a86872156297 data --json
    """
    from brokerless.state.schemas import Schemas

    if not schema_id.isdecimal():
        try:
            schema_id = str(uuid.UUID(schema_id))
        except ValueError as error:
            raise click.BadParameter(f"{schema_id!r} is neither an id nor a GUID", param_hint="ID") from error
    with telling():
        found = Schemas(*paths)
        schema = found.schema(int(schema_id) if schema_id.isdecimal() else schema_id, context=context)
        versions = found.versions_of(schema)
    if form == "json":
        click.echo(json.dumps(_described(schema, versions), ensure_ascii=False))
        return
    _print(schema.text)
    terminal.say(f"{schema.schema_type}, id {schema.id}, guid {schema.guid}", err=True)
    for version in versions:
        deleted = f" ({version.deleted}-deleted)" if version.deleted else ""
        terminal.say(f"{version.subject} version {version.version}{deleted}", err=True)
    for reference in schema.references:
        terminal.say(f"refers to {reference.name}: {reference.subject} version {reference.version}", err=True)


@schemas.command(short_help="Show what changed between two versions.", epilog=STATE_EXITS)
@click.argument("subject", metavar="SUBJECT")
@click.argument("before", metavar="VERSION")
@click.argument("after", metavar="VERSION")
@_registry
def diff(subject: str, before: str, after: str, paths: tuple[str, ...]) -> None:
    """Show the lines that differ between two versions of a subject. A VERSION is a number, or latest.

    \b
    brokerless schemas diff orders-value 1 2 data
    brokerless schemas diff orders-value 1 latest data
    """
    import difflib

    from brokerless.state.schemas import Schemas

    with telling():
        found = Schemas(*paths)
        old, new = (_named(found, subject, number) for number in (before, after))
    before, after = (f"{subject} version {one.version} (id {one.schema.id})" for one in (old, new))
    for line in difflib.unified_diff(_pretty(old.schema), _pretty(new.schema), before, after, lineterm=""):
        _print(line)


def _print(text: str) -> None:
    # Otherwise click removes what looks like a colour.
    click.echo(shown(text, is_terminal=sys.stdout.isatty()), color=True)


def shown(text: str, *, is_terminal: bool) -> str:
    """Return foreign text as it is printed: unchanged to a file or a pipe, and unable to control a terminal."""
    if not is_terminal:
        return text
    return "\n".join(printable(line.expandtabs(4)) for line in text.splitlines())


def _named(found: Schemas, subject: str, number: str) -> SchemaVersion:
    if number == "latest":
        return found.latest(subject)
    if not number.isdecimal():
        raise click.UsageError(f"{number!r} is no version: give a number, or latest")
    return found.version(subject, int(number))


def _pretty(schema: Schema) -> list[str]:
    """Return the lines of a schema; JSON with one part on each line."""
    try:
        return json.dumps(json.loads(schema.text), indent=2, ensure_ascii=False).splitlines()
    except (ValueError, RecursionError):
        return schema.text.splitlines()


def _described(schema: Schema, versions: list[SchemaVersion]) -> dict[str, Any]:
    return {
        "id": schema.id,
        "guid": schema.guid,
        "context": schema.context,
        "schema_type": schema.schema_type,
        "schema": schema.text,
        "references": [one._asdict() for one in schema.references],
        "versions": [{"subject": one.subject, "version": one.version, "deleted": one.deleted} for one in versions],
    }


def _version(row: dict[str, Any]) -> Sequence[object]:
    references = [f"{one['subject']}:{one['version']}" for one in row["references"] or ()]
    cells = [row[name] for name in ("subject", "version", "id", "schema_type", "deleted")]
    return [*cells, moment_text(row["updated"]), " ".join(references)]


def _use(row: dict[str, Any]) -> Sequence[object]:
    named = row["id"] if row["id"] is not None else row["guid"]
    own = f"{row['topic']}-{row['part']}"
    subjects = [
        f"{one['subject']}:{one['version']}"
        for one in sorted(row["subjects"] or (), key=lambda one: one["subject"] != own)
    ]
    more = [f"and {len(subjects) - 1} more"] if len(subjects) > 1 else []
    return [
        row["topic"],
        row["part"],
        row["framing"],
        named,
        row["records"],
        f"{row['first_partition']}@{row['first_offset']}",
        row["schema_type"],
        " ".join([*subjects[:1], *more]),
    ]
