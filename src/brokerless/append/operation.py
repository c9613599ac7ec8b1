"""The protocol of the operations that rewrite a log: `LogState`, `RewriteOperation` and `Outcome`.

An operation (compact, retain, convert, erase) is a small picklable object.

1. The owner of the log calls `plan` with the log's `LogState`.
2. `work` carries out the plan, in any process: it reads the old segments and writes new ones as `.cleaned` files.
3. The owner applies the `Outcome` to the log.

So only the owner of the log changes it, and only when all new files are durable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from brokerless.layout.topic_config import OPTION
from brokerless.wording import option

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from typing import TypeAlias

    from brokerless.layout.topic_config import TopicConfig
    from brokerless.log.segment import Segment

    Progress = Callable[[int], None]

    class StagedCall(Protocol):
        """A part of the work, which any process can do. It writes into a separate directory. Picklable."""

        def __call__(self, *, progress: Progress, output: str) -> Any: ...  # noqa: ANN401 - what the next step takes

    # A generator that yields calls to make at the same time, receives their results in this order, and returns the
    # outcome.
    Steps: TypeAlias = "Generator[Sequence[StagedCall], list[Any], Outcome[ReportT]]"

PlanT = TypeVar("PlanT")
ReportT = TypeVar("ReportT", bound="Report", covariant=True)  # noqa: PLC0105 - the usual name, were it not exported


@dataclass(frozen=True, kw_only=True)
class LogState:
    """The state of a log at rest, from which an operation makes its plan. Picklable.

    Attributes:
        directory: the partition's directory.
        config: the topic's settings.
        segments: the segments, ascending; the last one is the active segment.
        log_start_offset: the log start offset. Records between it and the first segment are in remote storage.
        log_end_offset: the log end offset.
        high_watermark: the offset up to which all in-sync replicas have the log.
        last_stable_offset: the offset at which a `read_committed` read ends.
        first_dirty_offset: the log's offset in the cleaner checkpoint; None without one.
        producers: the producer state at the log end, as the content of a `.snapshot`.
        now: the time of the whole run, ms since the epoch.
        others_from: no other replica ends below this offset (see `Replication`); None without other replicas.
        is_tiered: whether segments of the log may be in remote storage, including segments that are also local.
        is_original: True if the operation changes the cluster's own log; False if it changes a copy, or nothing.
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
        """The range [start, end) that is only in remote storage; None without one."""
        first = self.segments[0].base_offset
        return (self.log_start_offset, first) if self.log_start_offset < first else None

    def remote_part(self) -> str:
        """Return, as text, which part of a tiered log is in remote storage, as far as its files show."""
        if self.remote_offsets is None:
            return "copies of its segments may be in remote storage"
        start, end = self.remote_offsets
        return f"its offsets {start} to {end - 1} are in remote storage, which may also have copies of later offsets"


class Report(Protocol):
    """The effect of an operation on one log, done or planned. A frozen dataclass."""

    def to_dict(self) -> dict[str, object]:
        """Return the report as a dict for JSON; sizes in bytes, times in ms."""

    def lines(self, *, dry_run: bool = False) -> list[str]:
        """Return the report as text, the most important line first. For a dry run, the text describes the plan."""


class Replacement(NamedTuple):
    """New segments that replace old ones. Their `.cleaned` files are complete and durable.

    Attributes:
        base_offsets: the base offsets of the new segments, ascending. The first new segment has the base offset of the
            first source. If no record of the sources stays, there is one empty new segment.
        sources: the base offsets of the old segments, ascending, with no other segment between them.
    """

    base_offsets: tuple[int, ...]
    sources: tuple[int, ...]


def outputs_of(replacements: Sequence[Replacement], output: str | None) -> tuple[str, ...]:
    """Return `Outcome.outputs` for replacements whose files are all in `output`; None: the log's own directory."""
    return () if output is None else (output,) * len(replacements)


class Commit(NamedTuple):
    """An open transaction that will be committed: its producer, and the epochs of the COMMIT marker."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


@dataclass(frozen=True, kw_only=True)
class Outcome(Generic[ReportT]):
    """The result of an operation's work, with the changes that the log's owner has to make. Picklable.

    Attributes:
        report: the report for the user.
        replacements: the replacements of segments, ascending. Each replacement is one swap of its own.
        truncate_to: the offset from which on all records are deleted; None to delete nothing.
        ends_open_transactions: True to end the transactions that are open after the truncation. All get ABORT markers,
            except `commits`.
        commits: the open transactions to end with COMMIT markers.
        ended_at: the time of the ABORT and COMMIT markers in ms, which is the same in each replica.
        deleted_segments: the number of oldest segments to delete. If all are deleted, a new segment begins at the log
            end.
        log_start_offset: the new log start offset; None to change it only for deleted segments.
        first_dirty_offset: the log's new offset in the cleaner checkpoint; None to keep the present one.
        outputs: for each replacement, the directory of its files. `collect` moves the files to the log's directory.
            Empty if all files are in the log's directory already.
        has_producers: False if the new segments hold no producer's batches any more, so that the log forgets its
            producers.
        has_leader_epochs: False if the new segments have no leader epochs (formats 0 and 1), so that the log forgets
            its epochs.
        unread_from: the base offset of the first segment that the work has not read completely; None if it has read all
            segments.
    """

    report: ReportT
    replacements: tuple[Replacement, ...] = ()
    truncate_to: int | None = None
    ends_open_transactions: bool = False
    commits: tuple[Commit, ...] = ()
    ended_at: int | None = None
    deleted_segments: int = 0
    log_start_offset: int | None = None
    first_dirty_offset: int | None = None
    outputs: tuple[str, ...] = ()
    has_producers: bool = True
    has_leader_epochs: bool = True
    unread_from: int | None = None


class PlainOperation:
    """The base of most operations: no setting decides which records are removed, and the log is not rolled first."""

    decided_by: ClassVar[tuple[str, ...]] = ()
    consent: ClassVar[Mapping[str, str]] = {}

    def needs_roll(self, state: LogState) -> bool:  # noqa: ARG002
        """Return False."""
        return False


class RewriteOperation(Protocol[PlanT, ReportT]):
    """An operation on a log: a frozen dataclass of its options. Operations, plans and outcomes are picklable."""

    @property
    def state_name(self) -> str:
        """The operation's name in resume files, which must never change."""

    @property
    def decided_by(self) -> tuple[str, ...]:
        """The topic settings that decide which records are removed. If one is unknown, the operation is refused."""

    @property
    def consent(self) -> Mapping[str, str]:
        """The settings, with their values, that must be known or given before anything is changed."""

    def needs_roll(self, state: LogState) -> bool:
        """Return whether the log must be rolled before `plan`. In a dry run, `plan` assumes that it was rolled."""

    def plan(self, state: LogState) -> PlanT:
        """Plan the work from the log's state. Reads no records.

        Raises:
            ValueError: the operation refuses the log. The message names the loss, and the option that permits it.
        """

    def work(self, plan: PlanT, *, dry_run: bool, progress: Progress, output: str | None = None) -> Outcome[ReportT]:
        """Read the log and write `.cleaned` files, in any process.

        Args:
            plan: the result of `plan`.
            dry_run: write nothing, and return an outcome with only a report.
            progress: called with the number of bytes of old segments read since the last call.
            output: the directory for the new files, from which they are moved later; None for the log's own directory.

        Raises:
            CorruptRecordError: a segment is damaged. The log is unchanged.
            ValueError: the operation refuses the log because of its records.
        """


@runtime_checkable
class Joint(RewriteOperation[PlanT, ReportT], Protocol[PlanT, ReportT]):
    """An operation that plans several logs together, before it works on any of them."""

    def together(
        self, states: Mapping[str, tuple[tuple[str, int], LogState]], progress: Callable[[str, int], None]
    ) -> Mapping[str, RewriteOperation[LogState, ReportT]]:
        """Return the operation for each log.

        Args:
            states: topic, partition and state of each log, by directory.
            progress: called with a log's directory and the number of its bytes that were read.
        """


@runtime_checkable
class Divisible(RewriteOperation[PlanT, ReportT], Protocol[PlanT, ReportT]):
    """An operation that can divide its work on a large log, so that no call needs memory or time for the whole log."""

    def steps(self, plan: PlanT, share: int) -> Steps[ReportT] | None:
        """Return the work as steps, whose calls handle about `share` bytes each; None if one call is enough."""


class UnknownSettingsError(ValueError):
    """An operation depends on settings that are not known, and takes them as options.

    Args:
        message: the refusal, without the options.
        settings: a value for each option that is not given, by name.
    """

    def __init__(self, message: str, settings: Mapping[str, object]) -> None:
        super().__init__(message)
        self.settings = settings

    def __str__(self) -> str:
        words = [
            option(name, value) if isinstance(value, str) else f"{option(name)}={value}"
            for name, value in self.settings.items()
        ]
        return f"{self.args[0]} {', '.join(words)}"

    def __reduce__(self) -> tuple[type[UnknownSettingsError], tuple[str, Mapping[str, object]]]:
        """Another process may raise it."""
        return type(self), (self.args[0], self.settings)


def check_known(operation: RewriteOperation[Any, Any], config: TopicConfig, directory: str) -> None:
    """Refuse an operation if a setting that decides which records are removed is unknown.

    Raises:
        ValueError: a setting is unknown.
    """
    unknown = [name for name in operation.decided_by if config.are_guessed and config.source_of(name) != OPTION]
    if unknown:
        named = {**{name: getattr(config, name) for name in operation.decided_by}, **operation.consent}
        raise UnknownSettingsError(
            f"cannot decide which records of {directory} to remove. {' and '.join(map(option, unknown))} of its topic "
            f"{'are' if len(unknown) > 1 else 'is'} not known, because no metadata log (__cluster_metadata-0) with "
            f"this topic was found. Name the directory that has such a log ({option('metadata')}), or the broker's "
            f"server.properties ({option('broker_config')}), or give the settings as options. Kafka's defaults, "
            "if they are right for this topic, are:",
            {name: value for name, value in named.items() if hasattr(getattr(operation, "compact", operation), name)},
        )
