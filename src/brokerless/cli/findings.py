"""The output of findings: lines, totals, and exit codes."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from brokerless.cli import terminal
from brokerless.cli.exit_codes import DAMAGE, WARNINGS
from brokerless.cli.next_command import say_next
from brokerless.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from brokerless.checking.finding import Finding


def levels(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --quick and --deep, as the argument `level`: None without them."""
    for option in (
        click.option("--deep", "level", flag_value="deep", help="Also decode every record."),
        click.option("--quick", "level", flag_value="quick", help="Check names, small files and batch headers only."),
    ):
        command = option(command)
    return command


# A repair includes a recovery. A rescue makes a new cluster, as the last resort.
_HEALING = ("repair", "recover", "rescue")
# The others are a `brokerless finding CODE` away.
_MOST_CURES = 3


class Printer:
    """Prints findings as they are found.

    Args:
        form: "json" for JSON lines.
        shows_notes: whether notes are printed as text. Notes are always counted.
    """

    def __init__(self, form: str, *, shows_notes: bool) -> None:
        self._form, self._shows_notes = form, shows_notes
        self._counts: Counter[str] = Counter()
        self._cures: set[str] = set()
        self._by_hand: dict[str, str] = {}

    def add(self, finding: Finding) -> None:
        """Print a finding."""
        self._counts[finding.severity] += 1
        if finding.severity != "note":
            self._cures |= _verbs(finding)
            self._by_hand = by_hand([finding]) | self._by_hand
        if self._form == "json":
            click.echo(json.dumps(finding.to_dict(), separators=(",", ":")))
        elif finding.severity != "note" or self._shows_notes:
            terminal.say(finding_line(finding))

    def end(self, paths: Sequence[str] = ()) -> None:
        """Print on stderr the totals, and the command that repairs the most findings on these paths; then exit."""
        if self._form != "json":
            terminal.say(self._summary(), err=True)
            if paths and self._cures:
                say_next(next(verb for verb in _HEALING if verb in self._cures), paths, "--dry-run")
            elif self._by_hand and all(map(_is_root, paths)):
                # No verb of ours mends it. The report shows what else there is: who reads, and how far.
                say_next("report", paths, "--output", "report.html")
            say_cures(self._by_hand)
        exit_for(self._counts)

    def _summary(self) -> str:
        if not self._counts:
            return "no findings"
        more = "" if self._shows_notes or not self._counts["note"] else "; --all shows the notes"
        return f"{in_words(self._counts)}{more}. `brokerless finding CODE` explains a finding"


def _is_root(path: str) -> bool:
    from brokerless.io import storage
    from brokerless.layout.log_dir_files import LogDirFiles

    return LogDirFiles.is_root(storage.list_directory(path))


def by_hand(findings: Iterable[Finding]) -> dict[str, str]:
    """Return the cures of errors and warnings that no verb of ours is, by their codes."""
    found: dict[str, str] = {}
    for one in findings:
        if one.severity != "note" and not _verbs(one):
            found.setdefault(one.code, one.cure)
    return found


def _verbs(finding: Finding) -> set[str]:
    """Return the verbs of ours that a cure names."""
    return {verb for verb in _HEALING if f"`brokerless {verb}`" in finding.kind.cure}


def say_cures(cures: Mapping[str, str]) -> None:
    """Print on stderr the cures that no verb of ours is, by the code of their first finding."""
    for code, cure in list(cures.items())[:_MOST_CURES]:
        terminal.say(f"cure of {code}: {cure}", err=True)


def in_words(counts: Counter[str]) -> str:
    """Return the numbers of findings by severity as text."""
    return ", ".join(counted(counts[kind], kind) for kind in ("error", "warning", "note"))


def exit_for(counts: Counter[str]) -> None:
    """Exit with the code of the worst severity among findings; return if they are notes only."""
    if counts["error"]:
        raise SystemExit(DAMAGE)
    if counts["warning"]:
        raise SystemExit(WARNINGS)


def finding_line(finding: Finding) -> str:
    """Return a finding as a line of text."""
    # What is missing has no position in the file that ends before it.
    is_place = finding.position is not None and not finding.message.endswith(" are lost")
    place = f"{finding.path}:{finding.position}" if is_place else finding.path
    name = f"{finding.topic}-{finding.partition}"
    # Mostly the path has it.
    said = "" if finding.topic is None or f"/{name}/" in f"/{finding.path}/" else f"{name}: "
    return f"{finding.severity} {finding.code} {place}: {said}{finding.message}{_lost(finding)}"


def _lost(finding: Finding) -> str:
    from brokerless.log.defect import lost_in_words

    is_said = finding.message.endswith(" are lost")
    if not finding.kind.loses_records or finding.start_offset is None or is_said:
        return ""
    said = lost_in_words(finding.start_offset, finding.end_offset)
    # The batch is sound: only brokerless does not read it.
    return f"; {said.replace('lost:', 'not read:') if finding.code == 'batch-unsupported' else said}"
