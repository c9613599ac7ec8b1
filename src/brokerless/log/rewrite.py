"""What the verbs that rewrite a log share: what they plan from, what they hand back, and the swap of segments.

A verb (compact, retain, convert, erase) is a small picklable object. Whoever owns the log lets it `plan` from the log's
`LogState`; `work` on that plan reads the old segments and writes new ones as `.cleaned` files, beside them or not, in
any process; the owner then puts the `Outcome` into force. So only the owner changes what counts, and only when all that
is new is on the disk.

The swap has Kafka's own steps (LocalLog.replaceSegments): `.cleaned` becomes `.swap`, the old files `.deleted`, `.swap`
the final name. What a crash leaves between any two of them a broker's load, and ours, completes or takes back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from brokerless import disk, storage
from brokerless.log import files
from brokerless.log.cleaned import CLEANED
from brokerless.log.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence
    from typing import TypeAlias

    from brokerless.log.settings import TopicSettings
    from brokerless.log.writer import LogWriter

    Progress = Callable[[int], None]

    class Apart(Protocol):
        """A part of the work, in whatever process, with a directory of its own for what it writes. Picklable."""

        def __call__(self, *, progress: Progress, output: str) -> Any: ...  # noqa: ANN401 - what the next step takes

    # Calls that may be made at the same time; what came of them, in their order; in the end, what all came to.
    Steps: TypeAlias = "Generator[Sequence[Apart], list[Any], Outcome[ReportT]]"

PlanT = TypeVar("PlanT")
ReportT = TypeVar("ReportT", bound="Report", covariant=True)  # noqa: PLC0105 - the usual name, were it not exported

_SWAP, _DELETED = ".swap", ".deleted"
_KINDS = (files.LOG, files.INDEX, files.TIMEINDEX, files.TXNINDEX)


@dataclass(frozen=True, kw_only=True)
class LogState:
    """A log at rest, as a verb plans from it. Picklable.

    Attributes:
        directory: the partition's.
        settings: the topic's.
        segments: ascending; the last one is the active segment.
        log_start_offset: the first offset that counts.
        log_end_offset: the next offset to be given.
        high_watermark: where the replicated part ends.
        last_stable_offset: where `read_committed` ends.
        first_dirty_offset: the cleaner's checkpoint; None: there is none.
        producers: the producer state at the log end, as the content of a `.snapshot`.
        now: the one clock of the run, ms since the epoch.
    """

    directory: str
    settings: TopicSettings
    segments: tuple[Segment, ...]
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    last_stable_offset: int
    first_dirty_offset: int | None
    producers: bytes
    now: int


class Replacement(NamedTuple):
    """New segments that stand for old ones. Their `.cleaned` files are complete and durable.

    Attributes:
        base_offsets: of the new segments, ascending; the first is that of the first source. A segment without batches
            counts too: sources whose records all went leave an empty one.
        sources: the base offsets of the old segments, ascending, with no other segment between them.
    """

    base_offsets: tuple[int, ...]
    sources: tuple[int, ...]


class Report(Protocol):
    """What a verb did, or would do, to one log. A frozen dataclass."""

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON takes it; sizes in bytes, times in ms."""

    def lines(self) -> list[str]:
        """Return it in words, a line each, the most important first."""


@dataclass(frozen=True, kw_only=True)
class Outcome(Generic[ReportT]):
    """What a verb's work came to, and what the log's owner is to make of it. Picklable.

    Attributes:
        report: for the user.
        replacements: ascending, in order; each is swapped in by itself.
        truncate_to: the offset from which on everything goes; None: nothing.
        deleted_segments: how many of the oldest segments go; all of them: a new one begins at the log end.
        log_start_offset: where the log starts from now on; None: as before, but for deleted segments.
        first_dirty_offset: the cleaner's new checkpoint; None: as before.
        outputs: for each replacement the directory that it is in, to be moved from there (`collect`); none: all are in
            the log's own.
        has_producers: False: the new segments hold no producer's batches any more, nor leader epochs (formats 0 and
            1), and the log forgets those that it knew.
    """

    report: ReportT
    replacements: tuple[Replacement, ...] = ()
    truncate_to: int | None = None
    deleted_segments: int = 0
    log_start_offset: int | None = None
    first_dirty_offset: int | None = None
    outputs: tuple[str, ...] = ()
    has_producers: bool = True


class Verb(Protocol[PlanT, ReportT]):
    """What is done to a log. A frozen dataclass of its options; picklable, as are its plans and outcomes."""

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
class Divisible(Verb[PlanT, ReportT], Protocol[PlanT, ReportT]):
    """A verb whose work on a large log may be done by several: none needs the memory or the time for all of it."""

    def steps(self, plan: PlanT, share: int) -> Steps[ReportT] | None:
        """Return the work in steps, each of calls of about `share` bytes; None: it is no more than one share."""


def perform(verb: Verb[PlanT, ReportT], log: LogWriter, *, progress: Progress = lambda _: None) -> ReportT:
    """Do a verb's whole work on an open log, here and now, and return its report.

    Raises:
        As the verb's `plan` and `work`; the log is as it was, but for a roll.
    """
    verb.prepare(log)
    try:
        outcome = verb.work(verb.plan(log.state()), dry_run=False, progress=progress)
        log.enforce(outcome)
    except BaseException:
        discard(log)
        raise
    return outcome.report


def discard(log: LogWriter) -> None:
    """Remove the new segments of a log that will not be swapped in, as its next load would.

    Not where a swap was begun: a load tells by the `.cleaned` files whether the `.swap` files are all there.
    """
    if not log.is_broken:
        for name in sorted(storage.list_directory(log.directory)):
            if name.endswith(CLEANED) and files.is_partition_directory([name]):
                disk.remove(f"{log.directory}/{name}")


def collect(directory: str, outcome: Outcome[Report]) -> None:
    """Move new segments from where they were written to the log's directory, where a load drops them still.

    Raises:
        FileNotFoundError: one of them is not there.
    """
    if not outcome.outputs:
        return
    for output, replacement in zip(outcome.outputs, outcome.replacements, strict=True):
        names = set(storage.list_directory(output))
        for base_offset in replacement.base_offsets:
            for kind in _KINDS:
                name = files.segment_file(base_offset, kind, CLEANED)
                if name in names or kind != files.TXNINDEX:
                    disk.rename(f"{output}/{name}", f"{directory}/{name}")
    disk.sync_directory(directory)


def check(directory: str, segments: Sequence[Segment], replacements: Iterable[Replacement]) -> int | None:
    """Check that replacements fit a log, before anything is changed.

    Returns:
        Where the log will end; None: as before, for its last segment stays.

    Raises:
        ValueError: they do not; swapped in all the same, records would be lost or be there twice.
    """
    base_offsets = [segment.base_offset for segment in segments]
    done, last = 0, 0
    for new, sources in replacements:
        first = base_offsets.index(sources[0], done) if sources and sources[0] in base_offsets[done:] else None
        if first is None or tuple(base_offsets[first : first + len(sources)]) != sources:
            raise ValueError(f"cannot replace segments {list(sources)} of {directory}: it has {base_offsets}")
        done = first + len(sources)
        limit = base_offsets[done] if done < len(base_offsets) else 1 << 63
        if not new or new[0] != sources[0] or list(new) != sorted(set(new)) or new[-1] >= limit:
            raise ValueError(
                f"cannot replace segments {list(sources)} of {directory} by {list(new)}: ascending base offsets "
                f"from {sources[0]} to below {limit} expected"
            )
        last = new[-1]
        for base_offset in new:
            for kind in (files.LOG, files.INDEX, files.TIMEINDEX):
                storage.size(f"{directory}/{files.segment_file(base_offset, kind, CLEANED)}")
    if not done or done < len(base_offsets):
        return None
    return Segment(directory, last, name=files.segment_file(last, files.LOG, CLEANED)).extent().next_offset


def swap(directory: str, replacement: Replacement) -> None:
    """Put new segments in the place of old ones. A crash at any step leaves the old ones or the new ones to be loaded.

    With one exception, which is Kafka's own: a load knows by the offsets in the new segments which old ones they stand
    for. Old segments behind the last of these, all of whose records went, may be left.
    """
    names = set(storage.list_directory(directory))

    def rename(base_offsets: Iterable[int], kinds: Iterable[int], state: str, to: str) -> list[str]:
        """Rename what is there of these, make that durable, and return the new names."""
        renamed = []
        for base_offset in base_offsets:
            for kind in kinds:
                name = files.segment_file(base_offset, kind, state)
                if name in names:
                    renamed.append(files.segment_file(base_offset, kind, to))
                    disk.rename(f"{directory}/{name}", f"{directory}/{renamed[-1]}")
                    names.remove(name)
                    names.add(renamed[-1])
        if renamed:
            disk.sync_directory(directory)
        return renamed

    first, *others = replacement.base_offsets
    # A load takes `.swap` for complete where no `.cleaned` is at or below it: so the lowest one comes last.
    rename(reversed(others), _KINDS, CLEANED, _SWAP)
    rename([first], _KINDS, CLEANED, _SWAP)
    # The log before its indexes: what is without a log is dropped, what is without an aborted transactions' index lies.
    old = rename(replacement.sources, [files.LOG], "", _DELETED)
    old += rename(replacement.sources, _KINDS[1:], "", _DELETED)
    gone = [base for base in replacement.sources if base not in replacement.base_offsets]
    old += rename(gone, [files.SNAPSHOT], "", _DELETED)
    # A `.log.swap` without its index would be given one of zeros.
    rename(replacement.base_offsets, [files.LOG], _SWAP, "")
    rename(replacement.base_offsets, _KINDS[1:], _SWAP, "")
    for name in old:
        disk.remove(f"{directory}/{name}")
    disk.sync_directory(directory)
