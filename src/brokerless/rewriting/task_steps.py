"""The work on one partition as calls: one, or step by step several that may be made at the same time.

Where calls may be made elsewhere, and more than once, each gets a directory of its own for what it writes, and a verb
that can be divided (`Divisible`) is, if the log is large.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from brokerless.append.operation import Divisible, ReportT
from brokerless.rewriting import attempts

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from typing import TypeAlias

    from brokerless.append.operation import Outcome, PlanT, Progress, RewriteOperation, StagedCall, Steps
    from brokerless.io.workers import Call

    _Calls: TypeAlias = Generator[Sequence[Call[Any]], list[Any], Outcome[ReportT]]


class Running(Generic[ReportT]):
    """The work on a partition while it is done.

    Attributes:
        calls: those of the step that it is at, to be made in any order.
        outcome: what it came to; None: it is not done.
    """

    def __init__(self, steps: _Calls[ReportT]) -> None:
        self._steps = steps
        self._results: dict[int, Any] = {}
        self.outcome: Outcome[ReportT] | None = None
        self.calls = next(steps)

    def take(self, number: int, result: Any) -> bool:  # noqa: ANN401 - the verb's
        """Take the result of one of the calls; True: it was the last one, and there are others, or the outcome."""
        self._results[number] = result
        if len(self._results) < len(self.calls):
            return False
        results = [self._results[i] for i in range(len(self.calls))]
        self._results, self.calls = {}, ()
        try:
            self.calls = self._steps.send(results)
        except StopIteration as done:
            self.outcome = done.value
        return True


def in_place(operation: RewriteOperation[PlanT, ReportT], plan: PlanT, *, dry_run: bool) -> Running[ReportT]:
    """Return work that writes beside the old segments, if it writes: one call."""
    return Running(_one(partial(operation.work, plan, dry_run=dry_run)))


def staged(operation: RewriteOperation[PlanT, ReportT], plan: PlanT, place: str, share: int) -> Running[ReportT]:
    """Return work whose calls may be made more than once, and anywhere.

    Args:
        operation: what is done.
        plan: the verb's.
        place: of `attempts.make`.
        share: bytes of old segments for one call, about.
    """
    steps = operation.steps(plan, share) if isinstance(operation, Divisible) else None
    if steps is None:
        return Running(_one(partial(_attempt, partial(operation.work, plan, dry_run=False), place)))
    return Running(_attempted(steps, place))


def _one(call: Call[Outcome[ReportT]]) -> _Calls[ReportT]:
    (outcome,) = yield [call]
    done: Outcome[ReportT] = outcome
    return done


def _attempted(steps: Steps[ReportT], place: str) -> _Calls[ReportT]:
    """Let each attempt at each call have a directory of its own."""
    try:
        calls = next(steps)
        while True:
            calls = steps.send((yield [partial(_attempt, call, place) for call in calls]))
    except StopIteration as done:
        outcome: Outcome[ReportT] = done.value
        return outcome


def _attempt(call: StagedCall, place: str, *, progress: Progress) -> Any:  # noqa: ANN401 - the verb's
    return call(progress=progress, output=attempts.begin(place))
