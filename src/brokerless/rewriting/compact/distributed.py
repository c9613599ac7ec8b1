"""Compacting a large log in calls for any process: deciding by ranges of hashes, rewriting by groups of segments.

The deciding calls save their verdicts in their output directories, where the rewriting calls read them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from brokerless.io.chunking import in_shares
from brokerless.rewriting.compact import passes
from brokerless.rewriting.compact.passes import VERDICTS_SHARE, decide_all
from brokerless.rewriting.compact.record_selection import Verdicts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerless.append.operation import Progress, Replacement
    from brokerless.log.segment import Segment
    from brokerless.rewriting.compact.passes import Decided, Plan
    from brokerless.rewriting.compact.report import Counts, SegmentReport

    Group = tuple[Segment, ...]

_HASHES = 1 << 64


class GroupResult(NamedTuple):
    """The result of rewriting some groups.

    Attributes:
        replacements: the replacement of each group.
        reports: the reports of all old segments.
        output: the directory of the new segments.
    """

    replacements: tuple[Replacement, ...]
    reports: tuple[SegmentReport, ...]
    output: str


def divided(remaining: tuple[int, int]) -> list[tuple[int, int]]:
    """Divide the hashes that a first pass left undecided into ranges as large as the range that it decided."""
    first, many = remaining
    count = -(-many // max(1, _HASHES - many))
    size = -(-many // count)
    return [(first + done, min(size, many - done)) for done in range(0, many, size)]


def decide(
    plan: Plan, hash_range: tuple[int, int], memory: int, *, passes: int | None = None, progress: Progress, output: str
) -> Decided:
    """Decide a range of hashes in at most `passes` passes, and save the verdicts."""
    with Verdicts(memory // VERDICTS_SHARE) as verdicts:
        decided = decide_all(plan, verdicts, hash_range, memory=memory, progress=progress, passes=passes)
        verdicts.save(output)
    return decided._replace(place=output)


def shares(plan: Plan, share: int) -> list[tuple[Group, ...]]:
    """Combine neighbouring groups of segments into shares of about `share` bytes."""
    return in_shares(plan.groups, lambda group: sum(segment.size for segment in group), share)


def rewrite(
    plan: Plan,
    groups: Sequence[Group],
    places: Sequence[str],
    counts: dict[int, Counts],
    memory: int,
    *,
    progress: Progress,
    output: str,
) -> GroupResult:
    """Rewrite some groups by the verdicts that are saved in these directories."""
    replacements, reports = [], []
    for group in groups:
        with Verdicts(memory // VERDICTS_SHARE) as verdicts:
            for segment in group:
                for place in places:
                    verdicts.add_saved(place, segment.base_offset)
            replacement, found = passes.rewrite(plan, group, verdicts, counts, progress=progress, output=output)
        replacements.append(replacement)
        reports += found
    return GroupResult(tuple(replacements), tuple(reports), output)
