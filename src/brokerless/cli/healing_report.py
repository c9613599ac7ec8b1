"""The output of `repair` and `rescue`, and their exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from brokerless.cli import terminal
from brokerless.cli.exit_codes import DAMAGE, WARNINGS, exit_line
from brokerless.cli.findings import finding_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from brokerless.healing.report import HealingReport

HEALING_EXITS = exit_line(
    done="nothing is lost",
    damage="errors remain",
    warnings="something is or may be lost, or warnings remain",
)


def print_reports(
    reports: Sequence[HealingReport],
    form: str,
    show: Callable[[Any], None],
    *,
    following: Callable[[], None] = lambda: None,
) -> None:
    """Print reports as JSON, or with `show`. Exit with the code of the worst; return if nothing is lost or damaged.

    Args:
        reports: the reports.
        form: "json" for JSON lines.
        show: prints a report.
        following: prints the command to run next.
    """
    for report in reports:
        if form == "json":
            click.echo(json.dumps(report.to_dict(), separators=(",", ":")))
        else:
            show(report)
    if form != "json":
        following()
    if any(finding.severity == "error" for report in reports for finding in report.left):
        raise SystemExit(DAMAGE)
    if not all(report.is_whole for report in reports):
        raise SystemExit(WARNINGS)


def print_lost(report: HealingReport) -> None:
    """Print the lost ranges of offsets."""
    for damaged in report.lost:
        terminal.say(str(damaged))


def print_repaired(report: HealingReport) -> None:
    """Print the damaged ranges that are not lost, the doubts, and the changes to each partition."""
    for damaged in report.ranges:
        if damaged.state != "lost":
            terminal.say(str(damaged))
    for doubt in report.doubts:
        terminal.say(f"doubt: {doubt}")
    recovered = set(getattr(report, "recovered", ()))
    for name, steps in report.repaired.items():
        for step in steps if name not in recovered else ():
            terminal.say(f"{name}: {step}")


def print_left(report: HealingReport) -> None:
    """Print the remaining findings."""
    for finding in report.left:
        if finding.severity != "note":
            terminal.say(f"{'would be left' if report.dry_run else 'left'}: {finding_line(finding)}")
