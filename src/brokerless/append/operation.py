"""What the verbs that rewrite a log have in common: what they plan from, what they do, and what they hand back.

A verb (compact, retain, convert, erase) is a small picklable object. Whoever owns the log lets it `plan` from the log's
`LogState`; `work` on that plan reads the old segments and writes new ones as `.cleaned` files, beside them or not, in
any process; the owner then puts the `Outcome` into force. So only the owner changes what counts, and only when all that
is new is on the disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from brokerless.append.swap import discard
from brokerless.layout.topic_config import OPTION

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from typing import TypeAlias

    from brokerless.append.swap import Replacement
    from brokerless.append.writer import LogWriter
    from brokerless.layout.topic_config import TopicConfig
    from brokerless.log.segment import Segment

    Progress = Callable[[int], None]

    class StagedCall(Protocol):
        """A part of the work, in whatever process, with a directory of its own for what it writes. Picklable."""

        def __call__(self, *, progress: Progress, output: str) -> Any: ...  # noqa: ANN401 - what the next step takes

    # Calls that may be made at the same time; what came of them, in their order; in the end, what all came to.
    Steps: TypeAlias = "Generator[Sequence[StagedCall], list[Any], Outcome[ReportT]]"

PlanT = TypeVar("PlanT")
ReportT = TypeVar("ReportT", bound="Report", covariant=True)  # noqa: PLC0105 - the usual name, were it not exported


@dataclass(frozen=True, kw_only=True)
class LogState:
    """A log at rest, as a verb plans from it. Picklable.

    Attributes:
        directory: the partition's.
        config: the topic's.
        segments: ascending; the last one is the active segment.
        log_start_offset: the first offset that counts; below the first segment, records are in remote storage.
        log_end_offset: the next offset to be given.
        high_watermark: where the replicated part ends.
        last_stable_offset: where `read_committed` ends.
        first_dirty_offset: the cleaner's checkpoint; None: there is none.
        producers: the producer state at the log end, as the content of a `.snapshot`.
        now: the one clock of the run, ms since the epoch.
        others_from: other replicas end at this offset or behind it (`Replication`); None: there are none.
        is_tiered: segments of the log may be in remote storage, also such as are here.
        is_original: the log itself is changed, as its cluster has it; False: a copy is, or nothing.
    """

    directory: str
    config: TopicConfig
    segments: tuple[Segment, ...]
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    last_stable_offset: int
    first_dirty_offset: int | None
    producers: bytes
    now: int
    others_from: int | None = None
    is_tiered: bool = False
    is_original: bool = True

    @property
    def remote_offsets(self) -> tuple[int, int] | None:
        """The range [start, end) that is in remote storage alone; None: there is none."""
        first = self.segments[0].base_offset
        return (self.log_start_offset, first) if self.log_start_offset < first else None

    def remote_part(self) -> str:
        """Say what of a tiered log is in remote storage, as far as its files tell."""
        if self.remote_offsets is None:
            return "copies of its segments may be in remote storage"
        start, end = self.remote_offsets
        return f"its offsets {start} to {end - 1} are in remote storage, where copies of later ones may be, too"


class Report(Protocol):
    """What a verb did, or would do, to one log. A frozen dataclass."""

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON takes it; sizes in bytes, times in ms."""

    def lines(self) -> list[str]:
        """Return it in words, a line each, the most important first."""


def outputs_of(replacements: Sequence[Replacement], output: str | None) -> tuple[str, ...]:
    """Return `Outcome.outputs` for replacements that are all in one directory; None for the log's own."""
    return () if output is None else (output,) * len(replacements)


@dataclass(frozen=True, kw_only=True)
class Outcome(Generic[ReportT]):
    """What a verb's work came to, and what the log's owner is to make of it. Picklable.

    Attributes:
        report: for the user.
        replacements: ascending, in order; each is swapped in by itself.
        truncate_to: the offset from which on everything goes; None: nothing.
        aborts_open_transactions: end what is open at the log end then with ABORT markers.
        deleted_segments: how many of the oldest segments go; all of them: a new one begins at the log end.
        log_start_offset: where the log starts from now on; None: as before, but for deleted segments.
        first_dirty_offset: the cleaner's new checkpoint; None: as before.
        outputs: for each replacement the directory that it is in, to be moved from there (`collect`); none: all are in
            the log's own.
        has_producers: False: the new segments hold no producer's batches any more, and the log forgets those it knew.
        has_leader_epochs: False: likewise of leader epochs, which formats 0 and 1 lack.
        unread_from: of segments from this base offset on the work has not read every batch; None: it read them all.
    """

    report: ReportT
    replacements: tuple[Replacement, ...] = ()
    truncate_to: int | None = None
    aborts_open_transactions: bool = False
    deleted_segments: int = 0
    log_start_offset: int | None = None
    first_dirty_offset: int | None = None
    outputs: tuple[str, ...] = ()
    has_producers: bool = True
    has_leader_epochs: bool = True
    unread_from: int | None = None


class RewriteOperation(Protocol[PlanT, ReportT]):
    """What is done to a log. A frozen dataclass of its options; picklable, as are its plans and outcomes."""

    @property
    def state_name(self) -> str:
        """The operation's name in resume files, where it stays what it is."""

    @property
    def decided_by(self) -> tuple[str, ...]:
        """The topic's settings that decide which records go: where they are not known, nothing is done."""

    def prepare(self, log: LogWriter) -> None:
        """Do what has to come before the plan (a roll). A dry run leaves it out: `plan` then says what it would do."""

    def plan(self, state: LogState) -> PlanT:
        """Say what is to be done, by what the owner knows. No record is read.

        Raises:
            ValueError: refused; the message says what would be lost, and how to ask for it.
        """

    def work(self, plan: PlanT, *, dry_run: bool, progress: Progress, output: str | None = None) -> Outcome[ReportT]:
        """Read the log, and write `.cleaned` files, in whatever process.

        Args:
            plan: of `plan`.
            dry_run: write nothing; the outcome has a report and nothing else.
            progress: to be called with the bytes of old segments that were read since the last call.
            output: the directory for them, from which they are moved later; None: the log's own.

        Raises:
            CorruptRecordError: a segment is damaged; nothing of the log has changed.
            ValueError: refused, for what was found.
        """


@runtime_checkable
class Divisible(RewriteOperation[PlanT, ReportT], Protocol[PlanT, ReportT]):
    """A verb whose work on a large log may be done by several: none needs the memory or the time for all of it."""

    def steps(self, plan: PlanT, share: int) -> Steps[ReportT] | None:
        """Return the work in steps, each of calls of about `share` bytes; None: it is no more than one share."""


def check_known(operation: RewriteOperation[Any, Any], config: TopicConfig, directory: str) -> None:
    """Refuse a verb that would let records go by settings that are not known.

    Raises:
        ValueError: they are not.
    """
    unknown = [name for name in operation.decided_by if config.are_guessed and config.source_of(name) != OPTION]
    if unknown:
        raise ValueError(
            f"cannot tell which records of {directory} go: {' and '.join(unknown)} of its topic "
            f"{'are' if len(unknown) > 1 else 'is'} not known: no metadata log (__cluster_metadata-0) "
            "at hand names it. Name the directory that has it (--metadata DIR), or the broker's "
            "server.properties (--broker-config FILE), or give each setting that the verb takes as an option"
        )


def perform(operation: RewriteOperation[PlanT, ReportT], log: LogWriter) -> ReportT:
    """Do a verb's whole work on an open log, here and now, and return its report.

    Raises:
        As the verb's `plan` and `work`; the log is as it was, but for a roll.
    """
    check_known(operation, log.config, log.directory)
    operation.prepare(log)
    try:
        outcome = operation.work(operation.plan(log.state()), dry_run=False, progress=lambda _: None)
        log.enforce(outcome)
    except BaseException:
        discard(log)
        raise
    return outcome.report
