"""Converting a log to other message formats and codecs, or to fewer batches. Offsets never change.

`_native.SegmentConversion` converts the batches. This module walks the segments, and finds the aborted transactions if
the new format cannot mark them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from brokerless import _native
from brokerless.append.operation import Outcome, PlainOperation, outputs_of
from brokerless.arguments import check_several
from brokerless.io.chunking import in_shares
from brokerless.io.cores import log_threads
from brokerless.layout.topic_config import OPTION, Setting, settings_line
from brokerless.log.aborted_transactions import aborted_in
from brokerless.rewriting.segment_rewrite import batches_size, max_segment_bytes, renew, transaction_index
from brokerless.wording import option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from brokerless.append.operation import LogState, Progress, Replacement, Steps
    from brokerless.layout.topic_config import TopicConfig
    from brokerless.log.aborted_transactions import Aborted
    from brokerless.log.segment import Segment

DROPS = ("headers", "producers")
"""The parts that a conversion can drop: headers; producers, with their transactions and control batches."""


_LEVELS = {codec: f"compression_{codec}_level" for codec in ("gzip", "lz4", "zstd")}


@dataclass(frozen=True, kw_only=True)
class ConversionReport:
    """The effect of a conversion, done or planned. Sizes are in bytes.

    Attributes:
        segments: the number of segments before.
        replaced_segments: the number of changed segments.
        new_segments: the number of segments that replaced them.
        bytes_before: the size of all batches before.
        bytes_after: the size of all batches after.
        batches: the number of batches before; a message outside any wrapper is counted as a batch.
        changed_batches: the number of changed batches.
        apart_batches: the number of batches that were not joined, because another replica may end inside the joined
            batch.
        dropped_headers: the number of records that lost their headers.
        dropped_timestamps: the number of records that lost their timestamp, for which format 0 has no place.
        dropped_producers: the number of batches that lost producer, sequence and transaction.
        dropped_control_batches: the number of markers and other control batches left out.
        dropped_aborted_records: the number of records left out because their transactions were aborted.
        dropped_undecided_records: the number of records left out because they were at or beyond the last stable offset.
        settings: the settings by which batches were compressed and segments divided, each with its source.
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
        """Return the report as a dict for JSON."""
        return asdict(self)

    def lines(self, *, dry_run: bool = False) -> list[str]:
        """Return the report in words. For a dry run, the words describe the plan."""
        if not self.batches:
            return ["nothing to convert: the log has no batches"]
        share = f" ({self.bytes_after / self.bytes_before:.0%})" if self.bytes_before else ""
        would_be, became = ("would be ", "would become") if dry_run else ("", "became")
        several = "s"[: self.segments != 1]
        lines = [
            f"{self.changed_batches:,} of {self.batches:,} batches {would_be}converted",
            f"{self.bytes_before:,} bytes {became} {self.bytes_after:,}{share}",
            f"{self.replaced_segments} of {self.segments} segment{several} {would_be}replaced by {self.new_segments}",
        ]
        counts = {
            "batches not joined: another replica may end inside them": self.apart_batches,
            "records lost their headers": self.dropped_headers,
            "records lost their timestamp": self.dropped_timestamps,
            "batches lost their producer": self.dropped_producers,
            "control batches left out": self.dropped_control_batches,
            "aborted records left out": self.dropped_aborted_records,
            "undecided records left out, at or above the last stable offset": self.dropped_undecided_records,
        }
        lines += [f"{count} {what}" for what, count in counts.items() if count]
        return [*lines, settings_line(self.settings)]


@dataclass(frozen=True, kw_only=True)
class Conversion(PlainOperation):
    """Convert a log's batches.

    Args:
        magic: the new format: 0, 1 or 2; None to keep it. With 2, batches without a leader epoch get epoch 0, because a
            new follower fails without one.
        compression: the new codec: `none`, `gzip`, `snappy`, `lz4` or `zstd`; None to keep it.
        compression_level: the level as Kafka defines it for the codec; None for the topic's setting. With a level,
            batches that already have the codec are compressed again.
        batch_size: join batches up to this many uncompressed bytes, if the producer is the same and sequences and
            offsets are consecutive. None to join only messages of formats 0 and 1 outside any wrapper, up to 16,384
            bytes.
        drop: "headers" to leave out headers if the format lacks them. "producers" to leave out producers in any format,
            so that no producer id in the log can conflict with an id that another cluster assigns. This also drops all
            markers, the records of aborted transactions, and everything from the last stable offset on.
        sole_replica: True if no other broker has a replica that matters. Otherwise batches are joined only below the
            offset that all other replicas have, by the metadata in the log directory.
        max_batch_bytes: the maximum decompressed size of one batch, in bytes.

    Raises:
        ValueError: the arguments do not fit together.

    >>> Conversion(magic=1, compression="zstd")
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
            raise ValueError(f"cannot drop {name!r}: {' or '.join(DROPS)} expected")
        self._native([], 0, 0)

    def plan(self, state: LogState) -> LogState:
        """Check that the whole log can be converted.

        Raises:
            ValueError: batches would be joined, but another replica may end inside a joined batch. Or a tiered log
                would lose its leader epochs in format 0 or 1: without them, brokers do not find its remote segments.
        """
        if self.batch_size is not None and self._join_below(state) == 0:
            raise _unsafe_to_join(state)
        if state.is_tiered and not self._has_leader_epochs:
            raise ValueError(
                f"cannot convert {state.directory} to magic {self.magic}, because the log is tiered: "
                f"{state.remote_part()}, and brokers find remote segments by leader epochs, which formats 0 and 1 do "
                "not store"
            )
        return state

    def work(
        self, plan: LogState, *, dry_run: bool, progress: Progress, output: str | None = None
    ) -> Outcome[ConversionReport]:
        """Convert segment by segment; see `RewriteOperation`."""
        aborted = aborted_in(plan.segments, plan.log_end_offset) if self._drops_producers else []
        part = self._part(plan, plan.segments, aborted, dry_run=dry_run, progress=progress, output=output)
        return self._outcome([part])

    def steps(self, plan: LogState, share: int) -> Steps[ConversionReport] | None:
        """Convert some segments in each call, independently of the others; see `Divisible`."""
        shares = in_shares(plan.segments, lambda segment: segment.size, share)
        return self._steps(plan, shares) if len(shares) > 1 else None

    def _steps(self, plan: LogState, shares: Sequence[tuple[Segment, ...]]) -> Steps[ConversionReport]:
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
    ) -> Outcome[ConversionReport]:
        """Convert some segments."""
        rewriter = self._native(
            aborted, plan.last_stable_offset, plan.log_end_offset, self._level(plan.config), self._join_below(plan)
        )
        replacements: list[Replacement] = []
        before = after = 0
        for segment in segments:
            size = batches_size(segment)
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
        report = ConversionReport(
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
            settings=self._settings(plan.config),
        )
        if dry_run:
            return Outcome(report=report)
        outputs = outputs_of(replacements, output)
        return Outcome(report=report, replacements=tuple(replacements), outputs=outputs)

    def _outcome(self, parts: Sequence[Outcome[ConversionReport]]) -> Outcome[ConversionReport]:
        """Merge the outcomes of neighbouring segments, in order."""
        reports = [part.report for part in parts]
        counts = [field.name for field in fields(ConversionReport) if field.name != "settings"]
        return Outcome(
            report=ConversionReport(
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

    def _level(self, config: TopicConfig) -> int | None:
        if self.compression_level is not None or self.compression not in _LEVELS:
            return self.compression_level
        level: int = getattr(config, _LEVELS[self.compression])
        return level

    def _settings(self, config: TopicConfig) -> dict[str, Setting]:
        """Return the settings that the conversion uses, except those of indexes."""
        used = config.used(("segment_bytes",))
        if self.compression in _LEVELS:
            name = _LEVELS[self.compression]
            own = self.compression_level
            used[name] = config.used((name,))[name] if own is None else Setting(own, OPTION)
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
            threads=log_threads(),
        )


def _unsafe_to_join(state: LogState) -> ValueError:
    return ValueError(
        f"cannot join batches of {state.directory}: another broker's replica may end inside a joined batch, and can "
        f"then no longer replicate. If no other broker has a replica, give {option('sole_replica')}. In formats 0 and "
        "1, messages outside any wrapper are always joined"
    )


def _is_changed(rewriter: _native.SegmentConversion, before: int) -> bool:
    return rewriter.changed > before


def _aborted(state: LogState, *, progress: Progress, output: str | None = None) -> list[Aborted]:  # noqa: ARG001
    """Return all aborted transactions. The bytes read are not reported as progress."""
    return aborted_in(state.segments, state.log_end_offset)
