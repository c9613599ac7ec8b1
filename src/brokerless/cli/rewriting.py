"""The shared part of the verbs that rewrite logs: the options, the progress line and the report."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from brokerless.cli import terminal
from brokerless.cli.exit_codes import DAMAGE, exit_line
from brokerless.cli.next_command import next_command
from brokerless.cli.options import (
    LocalPath,
    Progress,
    as_json,
    broker_settings,
    chosen_partitions,
    chosen_topics,
    dry_run_option,
    int_from,
    new_directory,
)
from brokerless.io import storage
from brokerless.layout import file_names
from brokerless.wording import counted, option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from brokerless.append.operation import PlanT, ReportT, RewriteOperation
    from brokerless.io.runner import Runner
    from brokerless.rewriting.progress_file import ProgressFile
    from brokerless.rewriting.run import RewriteResult

    _Command = TypeVar("_Command", bound=Callable[..., Any])
    _TargetT = TypeVar("_TargetT", bound="RewriteTarget")

REWRITE_EXITS = exit_line(damage="damage was found, or the new logs have the same damage")


@dataclass(frozen=True, kw_only=True)
class RewriteTarget:
    """The options of `rewriting`: the logs of an operation, and the place of its result."""

    paths: tuple[str, ...]
    topics: tuple[str, ...]
    partitions: tuple[int, ...]
    output: str | None = None
    in_place: bool
    dry_run: bool
    jobs: int = 1
    form: str
    broker_config: str | None
    metadata: str | None

    def run(self, operation: RewriteOperation[PlanT, ReportT]) -> list[ReportT]:
        """Run an operation on the logs, print its results, and return the reports.

        Raises:
            click.UsageError: no place for the result is given, or both.
            SystemExit: the operation succeeded, but earlier damage remains.
        """
        if self.output and self.in_place:
            raise click.UsageError("--in-place writes no new directory: give --in-place or --output, not both")
        if not (self.output or self.in_place or self.dry_run):
            raise click.UsageError("give --output DIR or --in-place, or see with --dry-run what would change")
        if self.output and len(self.paths) > 1:
            raise click.UsageError("--output needs exactly one PATH, because a copy has one source")
        results, _ = self._rewrite(operation)
        what = (
            "examined; nothing was changed"
            if self.dry_run
            else f"written to {self.output}"
            if self.output
            else "done in place"
        )
        terminal.say(f"{counted(len(results), 'partition')} {what}", err=True)
        if self.output and not self.dry_run:
            _note_left_out(self.paths[0], self.output, len(results))
        if any(result.damage for result in results):
            raise SystemExit(DAMAGE)
        return [result.report for result in results]

    def _rewrite(
        self,
        operation: RewriteOperation[PlanT, ReportT],
        *,
        runner: Callable[[Callable[[str, int], None]], Runner | None] = lambda _progress: None,
        progress_file: ProgressFile | None = None,
        share: int | None = None,
    ) -> tuple[list[RewriteResult[ReportT]], dict[str, int]]:
        """Print results as they come; return them, and the bytes read by partition."""
        from brokerless.rewriting.run import SHARE, rewrite_each

        results = []
        read: dict[str, int] = {}
        with Progress(prints=True) as show, way_around_damage(), _ways_on(self.paths):

            def progress(name: str, count: int) -> None:
                read[name] = read.get(name, 0) + count
                show(f"{name}: {read[name] >> 20:,} MiB read; {sum(read.values()) >> 20:,} MiB in all")

            for result in rewrite_each(
                operation,
                self.paths,
                topics=self.topics or None,
                partitions=self.partitions or None,
                output=None if self.dry_run else self.output,
                dry_run=self.dry_run,
                jobs=self.jobs,
                progress=progress,
                runner=runner(progress),
                progress_file=progress_file,
                share=share or SHARE,
                broker_config=self.broker_config,
                metadata=self.metadata,
            ):
                results.append(result)
                print_result(result, self.form, dry_run=self.dry_run)
                if result.unkept_log_start_offset is not None:
                    terminal.say(
                        f"the copy of {result.name} starts at offset {result.unkept_log_start_offset}, but no file in "
                        "its directory can record this offset. Write it into log-start-offset-checkpoint of the log "
                        "directory to which you move the copy",
                        err=True,
                    )
        return results, read


@contextmanager
def _ways_on(paths: Iterable[str]) -> Iterator[None]:
    """Add to a refusal the command that is not refused."""
    from brokerless.append.operation import UnknownSettingsError

    try:
        yield
    except UnknownSettingsError as error:
        verb = click.get_current_context().info_name or ""
        words = [word for name, value in error.settings.items() for word in option(name, str(value)).split()]
        error.add_note(f"with these options: {next_command(verb, paths, *words)}")
        raise


@contextmanager
def way_around_damage() -> Iterator[None]:
    """Add a hint to errors about damage: how to make a copy that the verb accepts."""
    from brokerless.errors import CorruptRecordError

    try:
        yield
    except CorruptRecordError as error:
        error.add_note(
            "every verb accepts a copy without the damaged batches. To make a copy in which every readable record "
            "keeps its offset: brokerless read PATH --topic T --on-corrupt skip | brokerless produce NEW --topic T "
            "--keep-offsets"
        )
        raise


def print_result(result: RewriteResult[ReportT], form: str, *, dry_run: bool) -> None:
    """Print the result for one partition, as text or JSON."""
    report = result.report
    if form == "json":
        words = {"topic": result.topic, "partition": result.partition, "dry_run": dry_run, **report.to_dict()}
        if result.damage:
            words["damage"] = [lost._asdict() for lost in result.damage]
        if result.unkept_log_start_offset is not None:
            words["unkept_log_start_offset"] = result.unkept_log_start_offset
        click.echo(json.dumps(words, separators=(",", ":")))
    else:
        for line in report.lines(dry_run=dry_run):
            terminal.say(f"{result.name}: {line}")
    for step in result.recovery:
        terminal.say(f"{result.name}: first, as when a broker starts: {step}", err=True)
    for lost in result.damage:
        terminal.say(f"{result.name}: the new log has the same damage: {lost}", err=True)


def _note_left_out(path: str, output: str, written: int) -> None:
    """Note that a copy of some partitions is no data directory of a broker that has more."""
    names = storage.list_directory(path)
    known = 0 if file_names.is_partition_directory(names) else sum(map(file_names.is_directory_name, names))
    if known > written:
        terminal.say(
            f"note: {output} has {written} of the {counted(known, 'partition')} in {path}. A broker that starts there "
            "would have empty logs in place of the others: move the new partitions into the old directory, or make a "
            "cluster with `brokerless rescue`",
            err=True,
        )


def target_of(kind: type[_TargetT], options: dict[str, Any]) -> _TargetT:
    """Take a target's options out of those of a command."""
    return kind(**{field.name: options.pop(field.name) for field in fields(kind) if field.name in options})


def rewriting(function: _Command) -> _Command:
    """Add PATH... and the options of `RewriteTarget`; the command receives them as its argument `target`.

    A caller that has a `target` already gives it in place of these options.
    """

    @wraps(function)
    def command(target: RewriteTarget | None = None, **options: Any) -> Any:  # noqa: ANN401 - a command's
        if target is None:
            target = target_of(RewriteTarget, options)
        return function(target=target, **options)

    for decorate in (
        broker_settings,
        as_json,
        click.option(
            "--jobs",
            type=int_from(1),
            default=1,
            show_default=True,
            help="Work on this many partitions at a time, each in its own process.",
        ),
        dry_run_option,
        click.option("--in-place", is_flag=True, help="Change the logs themselves."),
        new_directory,
        chosen_partitions,
        chosen_topics,
        click.argument(
            "paths", metavar="PATH...", nargs=-1, required=True, type=LocalPath(exists=True, file_okay=False)
        ),
    ):
        command = decorate(command)
    return command  # type: ignore[return-value] # with other arguments, which click passes
