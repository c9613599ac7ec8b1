"""Converting a log: other formats, other codecs, fewer batches. Offsets never change.

What becomes of each batch is decided by `_native.SegmentConversion`. Here segments are walked, and it is found which
transactions were aborted where a format has no place for them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from brokerless import _native
from brokerless.append.operation import Outcome
from brokerless.errors import check_several
from brokerless.io.chunking import in_shares
from brokerless.io.workers import threads
from brokerless.layout.topic_config import OPTION, Setting, settings_line
from brokerless.log.transactions import aborted_in
from brokerless.rewriting.segment_rewrite import max_segment_bytes, renew, transaction_index

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from brokerless.append.operation import LogState, Progress, Steps
    from brokerless.append.swap import Replacement
    from brokerless.append.writer import LogWriter
    from brokerless.layout.topic_config import TopicSettings
    from brokerless.log.segment import Segment
    from brokerless.log.transactions import Aborted

DROPS = ("headers", "producers")
"""What formats 0 and 1 lack, and can be left out: headers; producers with their transactions and control batches."""


_LEVELS = {codec: f"compression_{codec}_level" for codec in ("gzip", "lz4", "zstd")}


@dataclass(frozen=True, kw_only=True)
class ConvertReport:
    """What a conversion did, or would do. Sizes in bytes.

    Attributes:
        segments: how many there were.
        replaced_segments: how many of them changed.
        new_segments: how many took their place.
        bytes_before: of all batches.
        bytes_after: likewise.
        batches: as they were; a message that stands alone counts as one.
        changed_batches: how many of them did not stay as they were.
        apart_batches: how many were not joined with others, since another replica may end behind them.
        dropped_headers: records that lost their headers.
        dropped_timestamps: records that lost their timestamp, which format 0 has no place for.
        dropped_producers: batches that lost producer, sequence and transaction.
        dropped_control_batches: markers and other control batches left out.
        dropped_aborted_records: records of aborted transactions left out.
        dropped_undecided_records: records left out because they were behind the last stable offset.
        settings: those by which batches were compressed and segments divided, each with its source.
    """

    segments: int
    replaced_segments: int
    new_segments: int
    bytes_before: int
    bytes_after: int
    batches: int
    changed_batches: int
    apart_batches: int
    dropped_headers: int
    dropped_timestamps: int
    dropped_producers: int
    dropped_control_batches: int
    dropped_aborted_records: int
    dropped_undecided_records: int
    settings: Mapping[str, Setting]

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON takes it."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Return it in words."""
        share = f" ({self.bytes_after / self.bytes_before:.0%})" if self.bytes_before else ""
        lines = [
            f"{self.changed_batches} of {self.batches} batches converted",
            f"{self.bytes_before} bytes became {self.bytes_after}{share}",
            f"{self.replaced_segments} of {self.segments} segments replaced by {self.new_segments}",
        ]
        counts = {
            "batches not joined: another replica may end behind them": self.apart_batches,
            "records lost their headers": self.dropped_headers,
            "records lost their timestamp": self.dropped_timestamps,
            "batches lost their producer": self.dropped_producers,
            "control batches left out": self.dropped_control_batches,
            "aborted records left out": self.dropped_aborted_records,
            "undecided records left out, at or behind the last stable offset": self.dropped_undecided_records,
        }
        lines += [f"{count} {what}" for what, count in counts.items() if count]
        return [*lines, settings_line(self.settings)]


@dataclass(frozen=True, kw_only=True)
class Convert:
    """Convert a log's batches.

    Args:
        magic: 0, 1 or 2; None: what they are. With 2, batches without a leader epoch get 0: else a new follower fails
            on them.
        compression: `none`, `gzip`, `snappy`, `lz4` or `zstd`; None: what they are.
        compression_level: as Kafka has it for the codec; None: the one of the topic's settings. With a level, batches
            that have the codec are compressed again too.
        batch_size: join batches up to so many bytes, uncompressed, where nobody could tell: same producer, sequences
            and offsets that go on. None: only messages of formats 0 and 1 that stand alone, up to 16384.
        drop: "headers": leave them out where the format lacks them. "producers": leave them out of any format: what is
            left goes to any cluster, whatever ids that gives. With producers go all markers, the records of aborted
            transactions, and all from the last stable offset on.
        sole_replica: no other broker has a replica, or none that matters. Else batches are joined only below the offset
            that all other replicas have, by the metadata in the log directory.
        max_batch_bytes: the most that one batch may decompress to.

    Raises:
        ValueError: it cannot be.

    >>> Convert(magic=1, compression="zstd")
    Traceback (most recent call last):
    ValueError: magic 1 does not support zstd: use another codec
    """

    state_name: ClassVar[str] = "Convert"

    magic: int | None = None
    compression: str | None = None
    compression_level: int | None = None
    batch_size: int | None = None
    drop: frozenset[str] = frozenset()
    max_batch_bytes: int = _native.DEFAULT_MAX_BATCH_BYTES
    sole_replica: bool = False

    def __post_init__(self) -> None:
        check_several("drop", self.drop)
        object.__setattr__(self, "drop", frozenset(self.drop))
        for name in sorted(self.drop - set(DROPS)):
            raise ValueError(f"cannot drop {name!r}: one of {', '.join(DROPS)} expected")
        self._native([], 0, 0)

    @property
    def decided_by(self) -> tuple[str, ...]:
        """No setting: what goes is what was asked for."""
        return ()

    def prepare(self, log: LogWriter) -> None:
        """Nothing comes before."""

    def plan(self, state: LogState) -> LogState:
        """Check that all of the log can be converted.

        Raises:
            ValueError: batches are to be joined, and other replicas may end anywhere; formats 0 and 1 for a tiered log:
                without leader epochs nothing finds its remote segments.
        """
        if self.batch_size is not None and self._join_below(state) == 0:
            raise _unsafe_to_join(state)
        if state.is_tiered and not self._has_leader_epochs:
            raise ValueError(
                f"cannot convert {state.directory} to magic {self.magic}: it is tiered: {state.remote_part()}, and "
                "brokers find them by leader epochs, which formats 0 and 1 have no place for"
            )
        return state

    def work(
        self, plan: LogState, *, dry_run: bool, progress: Progress, output: str | None = None
    ) -> Outcome[ConvertReport]:
        """Convert segment by segment; see `verb.RewriteOperation`."""
        aborted = aborted_in(plan.segments, plan.log_end_offset) if self._drops_producers else []
        part = self._part(plan, plan.segments, aborted, dry_run=dry_run, progress=progress, output=output)
        return self._outcome([part])

    def steps(self, plan: LogState, share: int) -> Steps[ConvertReport] | None:
        """Convert some segments in each call, which know nothing of the others; see `verb.Divisible`."""
        shares = in_shares(plan.segments, lambda segment: segment.size, share)
        return self._steps(plan, shares) if len(shares) > 1 else None

    def _steps(self, plan: LogState, shares: Sequence[tuple[Segment, ...]]) -> Steps[ConvertReport]:
        aborted: list[Aborted] = []
        if self._drops_producers:
            (aborted,) = yield [partial(_aborted, plan)]
        done = yield [partial(self._part, plan, segments, aborted) for segments in shares]
        return self._outcome(done)

    def _part(
        self,
        plan: LogState,
        segments: Sequence[Segment],
        aborted: list[Aborted],
        *,
        dry_run: bool = False,
        progress: Progress,
        output: str | None,
    ) -> Outcome[ConvertReport]:
        """Convert some segments."""
        rewriter = self._native(
            aborted, plan.last_stable_offset, plan.log_end_offset, self._level(plan.settings), self._join_below(plan)
        )
        replacements: list[Replacement] = []
        before = after = 0
        for segment in segments:
            size = segment.extent().end_position if segment.is_last else segment.size
            index = transaction_index(plan, segment) if self._has_producers else b""
            rewriter.begin(index, max_segment_bytes(plan, segment))
            is_changed = partial(_is_changed, rewriter, rewriter.changed)
            renewed = renew(
                rewriter, plan, segment, dry_run=dry_run, progress=progress, output=output, is_changed=is_changed
            )
            before += size
            after += size if renewed is None else renewed.size
            if renewed is not None:
                replacements.append(renewed.replacement)
            if rewriter.converted["apart"] and self._join_below(plan) == 0:
                raise _unsafe_to_join(plan)
        counts = rewriter.converted
        report = ConvertReport(
            segments=len(segments),
            replaced_segments=len(replacements),
            new_segments=sum(len(replacement.base_offsets) for replacement in replacements),
            bytes_before=before,
            bytes_after=after,
            batches=counts["batches"],
            changed_batches=counts["changed"],
            apart_batches=counts["apart"],
            dropped_headers=counts["headers"],
            dropped_timestamps=counts["timestamps"],
            dropped_producers=counts["producers"],
            dropped_control_batches=counts["control_batches"],
            dropped_aborted_records=counts["aborted"],
            dropped_undecided_records=counts["undecided"],
            settings=self._settings(plan.settings),
        )
        if dry_run:
            return Outcome(report=report)
        outputs = () if output is None else (output,) * len(replacements)
        return Outcome(report=report, replacements=tuple(replacements), outputs=outputs)

    def _outcome(self, parts: Sequence[Outcome[ConvertReport]]) -> Outcome[ConvertReport]:
        """Put together what was done to neighbouring segments, in their order."""
        reports = [part.report for part in parts]
        counts = [field.name for field in fields(ConvertReport) if field.name != "settings"]
        return Outcome(
            report=ConvertReport(
                **{name: sum(getattr(report, name) for report in reports) for name in counts},
                settings=reports[0].settings,
            ),
            replacements=tuple(replacement for part in parts for replacement in part.replacements),
            outputs=tuple(output for part in parts for output in part.outputs),
            has_producers=self._has_producers,
            has_leader_epochs=self._has_leader_epochs,
        )

    @property
    def _drops_producers(self) -> bool:
        return "producers" in self.drop

    @property
    def _has_producers(self) -> bool:
        return self._has_leader_epochs and not self._drops_producers

    @property
    def _has_leader_epochs(self) -> bool:
        return self.magic not in (0, 1)

    def _join_below(self, state: LogState) -> int | None:
        return None if self.sole_replica else state.others_from

    def _level(self, settings: TopicSettings) -> int | None:
        if self.compression_level is not None or self.compression not in _LEVELS:
            return self.compression_level
        level: int = getattr(settings, _LEVELS[self.compression])
        return level

    def _settings(self, settings: TopicSettings) -> dict[str, Setting]:
        """Return the settings that are used, but for those of indexes."""
        used = settings.used(("segment_bytes",))
        if self.compression in _LEVELS:
            name = _LEVELS[self.compression]
            own = self.compression_level
            used[name] = settings.used((name,))[name] if own is None else Setting(own, OPTION)
        return used

    def _native(
        self,
        aborted: list[Aborted],
        last_stable_offset: int,
        log_end_offset: int,
        level: int | None = None,
        join_below: int | None = None,
    ) -> _native.SegmentConversion:
        return _native.SegmentConversion(
            magic=self.magic,
            compression=self.compression,
            compression_level=self.compression_level if level is None else level,
            recompress=self.compression_level is not None,
            batch_size=self.batch_size,
            join_below=join_below,
            drop_headers="headers" in self.drop,
            drop_producers=self._drops_producers,
            aborted=aborted,
            last_stable_offset=last_stable_offset,
            log_end_offset=log_end_offset,
            max_batch_bytes=self.max_batch_bytes,
            threads=threads(),
        )


def _unsafe_to_join(state: LogState) -> ValueError:
    return ValueError(
        f"cannot join batches of {state.directory}: another broker's replica may end inside such a batch, and then "
        "never follows again. If there is none, say so: sole_replica (--sole-replica). Of formats 0 and 1, messages "
        "that stand alone are always joined"
    )


def _is_changed(rewriter: _native.SegmentConversion, before: int) -> bool:
    return rewriter.changed > before


def _aborted(state: LogState, *, progress: Progress, output: str | None = None) -> list[Aborted]:  # noqa: ARG001
    """Find all aborted transactions. What is read is no progress."""
    return aborted_in(state.segments, state.log_end_offset)
