"""`LogRepair`: what a repair will do for one log, as steps. Nothing is changed before `write_partition` takes them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from brokerless.arguments import listed_few
from brokerless.healing.pieces import is_damage
from brokerless.io import storage
from brokerless.layout import checkpoints, file_names, lost_offsets
from brokerless.log.segment import NO_END

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from brokerless.checking.finding import Finding
    from brokerless.healing.damaged_range import DamagedRange
    from brokerless.healing.pieces import Piece
    from brokerless.log.log import Log
    from brokerless.recovery.file_changes import Slice


class Step(NamedTuple):
    """What is done for one file, and why: as a `recovery.file_changes.Step`, but into another directory.

    Attributes:
        verb: "keep" or "write"; "rebuild" (from the batches, by the recovery of the result), "replace" (a file in whose
            place another one is) or "drop" (bytes that are no sound batch).
        name: the file's name; of bytes that are dropped, with their position.
        to: the path of a file to keep; batches, or bytes, to write; or the part of a file that the result lacks.
        why: the reason, in words; "": it stays as it is.
    """

    verb: str
    name: str
    to: str | Sequence[Piece] | bytes | Slice
    why: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.name}{self.why and ': '}{self.why}"


@dataclass(frozen=True, kw_only=True)
class LogRepair:
    """What can be kept of a log, and what else is done: see `salvage`.

    Attributes:
        log: the log.
        findings: what a deep check found.
        segments: by base offset, the pieces of each segment of the repaired log; none if it can be taken as it is.
        ranges: the damaged ranges of offsets, and what became of them.
        left: the findings that a repair does not cure.
        doubts: the transactions of which it is not known whether they were committed, a sentence each.
        recorded: the ranges of offsets that the repaired log lacks, ascending, but for its end.
        log_start_offset: records below it are deleted; None: no checkpoint tells.
        snapshots_from: snapshots of producers above this offset know of other batches than the repaired log has.
        gone: what the result lacks of the present files: the steps that do not keep or write one.
        unusable: why the log can only be copied as it is; "": it can be repaired.
    """

    log: Log
    findings: Sequence[Finding] = ()
    segments: Mapping[int, Sequence[Piece]] = field(default_factory=dict)
    ranges: Sequence[DamagedRange] = ()
    left: Sequence[Finding] = ()
    doubts: Sequence[str] = ()
    recorded: Sequence[tuple[int, int]] = ()
    log_start_offset: int | None = None
    snapshots_from: int = NO_END
    gone: Sequence[Step] = ()
    unusable: str = ""

    def left_alone(self, why: str) -> LogRepair:
        """Return the same for a log that is copied as it is."""
        left = [found for found in self.findings if found.severity != "note"]
        return replace(self, unusable=why, ranges=(), doubts=(), left=left)

    @property
    def is_changed(self) -> bool:
        """Whether the repaired log is another one."""
        return bool(self.segments) and not self.unusable

    @property
    def has_damaged_batches(self) -> bool:
        """Whether batches are damaged or missing, or have wrong leader epochs."""
        return any(
            found.kind.subject == "records" or found.code == "epoch-order" or is_damage(found)
            for found in self.findings
        )

    @property
    def lost(self) -> list[DamagedRange]:
        """The ranges that are lost."""
        return [one for one in self.ranges if one.state == "lost"]

    @property
    def end_offset(self) -> int:
        """The offset after the last batch that is kept."""
        pieces = [piece for of_segment in self.segments.values() for piece in of_segment]
        return pieces[-1].next_offset if pieces else self.log.log_end_offset

    def steps(self, topic_id: str | None = None) -> Iterator[Step]:
        """Yield what is done for each file, in this order; nothing for a log that is not changed.

        Args:
            topic_id: the topic's id, for a log that has none; None: not known.
        """
        if not self.is_changed:
            return
        for base_offset, pieces in self.segments.items():
            name = file_names.segment_file(base_offset, file_names.LOG)
            is_told = self.ranges or any(piece.verb != "keep" or piece.patches for piece in pieces)
            is_kept = len(pieces) == 1 and pieces[0].is_file and os.path.basename(pieces[0].path) == name
            if is_kept and pieces[0].verb == "keep":
                yield Step("keep", name, pieces[0].path)
            else:
                yield Step("write", name, pieces, listed_few(map(str, pieces)) if is_told else "")
        directory = self.log.path
        names = [name for name in sorted(storage.list_directory(directory)) if storage.is_file(f"{directory}/{name}")]
        rebuilt = {step.name for step in self.gone if step.verb != "drop"}
        kept = [name for name in names if name not in rebuilt and self._is_kept(name)]
        yield from (Step("keep", name, f"{directory}/{name}") for name in kept)
        if topic_id is not None and checkpoints.PARTITION_METADATA not in kept:
            yield Step("write", checkpoints.PARTITION_METADATA, checkpoints.format_partition_metadata(topic_id))
        if self.recorded:
            yield Step("write", lost_offsets.FILE, lost_offsets.content(self.recorded))
        yield from self.gone

    def _is_kept(self, name: str) -> bool:
        """Return whether a file beside the batches is kept. Others are made again, or of no use."""
        if name.endswith((*file_names.STATES, ".tmp")) or name.startswith(file_names.SET_ASIDE):
            return False
        if name == lost_offsets.FILE or file_names.is_fatal(name):
            return False
        offset = file_names.live_base_offset(name)
        return offset is None or (name.endswith(".snapshot") and offset <= self.snapshots_from)
