"""The work on partitions as calls, and the scheduler that hands the calls to a runner.

The work on a partition is one call, or several steps. The calls of one step may run at the same time. A runner may run
a call in another process or on another machine, and more than once. Each attempt then gets its own directory for its
files. An operation that can be divided (`Divisible`) is divided if the log is large.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from brokerless.append.operation import Divisible, ReportT
from brokerless.rewriting import attempts

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence
    from concurrent.futures import Future
    from typing import TypeAlias

    from brokerless.append.operation import Outcome, PlanT, Progress, RewriteOperation, StagedCall, Steps
    from brokerless.io.runner import Call, Runner

    _Calls: TypeAlias = Generator[Sequence[Call[Any]], list[Any], Outcome[ReportT]]


class PartitionWork(Generic[ReportT]):
    """The work on one partition, from its first step to its outcome.

    Attributes:
        calls: the calls of the present step, which may run in any order.
        outcome: the outcome; None until the last step is done.
    """

    def __init__(self, steps: _Calls[ReportT]) -> None:
        self._steps = steps
        self._results: dict[int, Any] = {}
        self.outcome: Outcome[ReportT] | None = None
        self.calls = next(steps)

    def take(self, number: int, result: Any) -> bool:  # noqa: ANN401 - depends on the operation
        """Take the result of one call. Return whether the step is done; then `calls` or `outcome` is new."""
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


class Task(Protocol[ReportT]):
    """A partition to be worked on."""

    @property
    def name(self) -> str:
        """The partition's name."""

    def begin(self) -> PartitionWork[ReportT]:
        """Open the log, plan the work, and return it with the calls of its first step."""


_TaskT = TypeVar("_TaskT", bound=Task[Any])


class _PendingCall(NamedTuple, Generic[_TaskT]):
    task: _TaskT
    work: PartitionWork[Any]
    number: int


class Scheduler(Generic[_TaskT]):
    """Hands the calls of many partitions to a runner, which makes `runner.jobs` of them at a time.

    - Partitions begin in the order of `tasks`. The next one begins, which opens its log, only when the runner has a
      free place and no call of an earlier partition is ready. So as few logs as possible are open at a time.
    - The calls of a partition's first step are ready as soon as the partition has begun. The calls of a later step are
      ready when all calls of the step before have returned. Ready calls are submitted in the order in which they became
      ready.
    - A partition is finished when its last step has returned. `run` then yields the outcome, and the caller applies it
      before any other call is submitted.

    Args:
        runner: the runner of the calls; an entered context manager.
        tasks: the partitions, in order.
    """

    def __init__(self, runner: Runner, tasks: Iterable[_TaskT]) -> None:
        self._runner = runner
        self._waiting = deque(tasks)
        self._ready: deque[_PendingCall[_TaskT]] = deque()
        self._pending: dict[Future[Any], _PendingCall[_TaskT]] = {}

    def run(self) -> Iterator[tuple[_TaskT, Outcome[Any]]]:
        """Work on all partitions, and yield each with its outcome once it is finished."""
        while self._waiting or self._ready or self._pending:
            while (self._waiting or self._ready) and len(self._pending) < self._runner.jobs:
                if not self._ready:
                    task = self._waiting.popleft()
                    self._add_calls(task, task.begin())
                self._submit(self._ready.popleft())
            task, work = self._complete_one()
            if work.outcome is not None:
                yield task, work.outcome

    def _add_calls(self, task: _TaskT, work: PartitionWork[Any]) -> None:
        self._ready.extend(_PendingCall(task, work, number) for number in range(len(work.calls)))

    def _submit(self, call: _PendingCall[_TaskT]) -> None:
        future = self._runner.submit(call.task.name, call.work.calls[call.number])
        self._pending[future] = call

    def _complete_one(self) -> tuple[_TaskT, PartitionWork[Any]]:
        """Wait until a call has returned. If it was the last of its step, make the calls of the next step ready."""
        future, result = self._runner.first_completed(self._pending)
        task, work, number = self._pending.pop(future)
        if work.take(number, result):
            self._add_calls(task, work)
        return task, work


def in_place(operation: RewriteOperation[PlanT, ReportT], plan: PlanT, *, dry_run: bool) -> PartitionWork[ReportT]:
    """Return work that is a single call. Unless it is a dry run, the call writes beside the old segments."""
    return PartitionWork(_single_call(partial(operation.work, plan, dry_run=dry_run)))


def staged(
    operation: RewriteOperation[PlanT, ReportT], plan: PlanT, attempts_directory: str, share: int
) -> PartitionWork[ReportT]:
    """Return work whose calls may run on any machine that sees the files, and more than once.

    Args:
        operation: the operation.
        plan: the operation's plan.
        attempts_directory: the directory for attempts (`attempts.make`).
        share: the approximate number of bytes of old segments for one call.
    """
    steps = operation.steps(plan, share) if isinstance(operation, Divisible) else None
    if steps is None:
        return PartitionWork(
            _single_call(partial(_attempt, partial(operation.work, plan, dry_run=False), attempts_directory))
        )
    return PartitionWork(_with_attempts(steps, attempts_directory))


def _single_call(call: Call[Outcome[ReportT]]) -> _Calls[ReportT]:
    (result,) = yield [call]
    outcome: Outcome[ReportT] = result
    return outcome


def _with_attempts(steps: Steps[ReportT], attempts_directory: str) -> _Calls[ReportT]:
    """Give each attempt at each call its own directory."""
    try:
        calls = next(steps)
        while True:
            calls = steps.send((yield [partial(_attempt, call, attempts_directory) for call in calls]))
    except StopIteration as done:
        outcome: Outcome[ReportT] = done.value
        return outcome


def _attempt(call: StagedCall, attempts_directory: str, *, progress: Progress) -> Any:  # noqa: ANN401 - the operation's
    return call(progress=progress, output=attempts.begin(attempts_directory))
