"""Producer state, built from snapshots and the batches after them, as a broker builds it (ProducerStateManager).

A snapshot at offset n holds the state before the record with offset n. A snapshot is taken only if the state has
advanced since the last snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerless import _native
from brokerless.errors import CorruptRecordError
from brokerless.layout import file_names
from brokerless.recovery.segment_replay import replay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerless.recovery.file_changes import Changes


class Snapshots:
    """The producer snapshots of a directory, and the producer state that is built from them.

    Attributes:
        producers: the producer state.
        end_offset: the offset up to which the state is built.
    """

    def __init__(self, changes: Changes, *, now: int, producer_id_expiration_ms: int) -> None:
        self._changes = changes
        self._now = now
        self._expiration_ms = producer_id_expiration_ms
        self._last = 0
        self.end_offset = 0
        self.producers = _native.Producers()

    def offsets(self) -> list[int]:
        """Return the offsets of the existing snapshots, ascending."""
        return file_names.snapshot_offsets(self._changes.names())

    def remove_strays(self, base_offsets: Sequence[int]) -> None:
        """Remove snapshots that are not at a segment's base offset.

        The last snapshot stays if no segment starts after it.
        """
        strays = [offset for offset in self.offsets() if offset not in base_offsets]
        for offset in strays:
            if offset != strays[-1] or (base_offsets and offset < base_offsets[-1]):
                self._remove(offset, "a producer snapshot at no segment's base offset")

    def rebuild(
        self,
        base_offsets: Sequence[int],
        start_offset: int,
        end_offset: int,
        *,
        is_legacy: bool,
        is_clean: bool = False,
    ) -> None:
        """Build the state at `end_offset` (UnifiedLog.rebuildProducerState), and take snapshots on the way.

        Args:
            base_offsets: the base offsets of the segments, ascending.
            start_offset: the log start offset; batches below it are ignored.
            end_offset: the offset to build the state at.
            is_legacy: True if the topic's message format has no producers, so that snapshots are ignored.
            is_clean: True if the log was shut down cleanly, so that it has no producers if it has no snapshot.
        """
        wanted = [*base_offsets[-2:], end_offset]
        if is_legacy or (is_clean and not self.offsets()):
            for offset in wanted:
                self._take_at(offset)
            return
        was_empty = self.producers.is_empty and self.end_offset >= end_offset
        self._reload(start_offset, end_offset)
        if end_offset > self.end_offset and not was_empty:
            first = max((base for base in base_offsets if base <= self.end_offset), default=0)
            for base in base_offsets:
                if first <= base < end_offset:
                    self.end_offset = max(base, self.end_offset, start_offset)
                    if base in wanted:
                        self.take()
                    replay(self._changes, base, self.end_offset, self.producers)
        self._take_at(end_offset)

    def take(self) -> None:
        """Write a snapshot if the state has advanced since the last one."""
        if self.end_offset > self._last:
            name = file_names.segment_file(self.end_offset, file_names.SNAPSHOT)
            self._changes.write(name, self.producers.to_snapshot(), "the producers at this offset")
            self._last = self.end_offset

    def _take_at(self, offset: int) -> None:
        self.end_offset = offset
        self.take()

    def _reload(self, start_offset: int, end_offset: int) -> None:
        for offset in self.offsets():
            if offset <= start_offset:
                self._remove(offset, f"a producer snapshot at or below the start of the log, {start_offset}")
            elif offset > end_offset:
                # The snapshot may lie within the log: recovery builds the state at the start of the segment that it
                # will check.
                self._remove(
                    offset, f"a producer snapshot above offset {end_offset}, from which recovery checks the log"
                )
        if end_offset == self.end_offset:
            return
        for offset in reversed(self.offsets()):
            content = self._changes.read(file_names.segment_file(offset, file_names.SNAPSHOT))
            try:
                self.producers = _native.Producers.from_snapshot(
                    content, now=self._now, producer_id_expiration_ms=self._expiration_ms
                )
            except CorruptRecordError as error:
                self._remove(offset, f"a producer snapshot that cannot be read: {error}")
            else:
                self.end_offset = self._last = offset
                return
        self.producers = _native.Producers()
        self.end_offset = self._last = start_offset

    def _remove(self, offset: int, why: str) -> None:
        self._changes.remove(file_names.segment_file(offset, file_names.SNAPSHOT), why)
