"""Records that a log should have according to its other files: checkpoints, snapshots, indexes without a `.log`.

After a clean shutdown, all of these files describe the same log. If the log ends before them, records are lost. After a
crash, or in a copy of a running broker's files, they may be ahead of the log, except the recovery point. A broker
raises it only after a sync of the log (UnifiedLog.flush), and a broker that is killed keeps what it has written, so a
log that ends below its recovery point has lost records. When a broker itself truncates a log, it checkpoints the lower
recovery point at once (LogManager.truncateTo). Killed between the two, it lacks only what its leader has, or did not
have either. A broker checks none of this: it serves the records on disk and rewrites the files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from brokerless import _native
from brokerless.layout import checkpoints
from brokerless.layout.file_names import LOG, SNAPSHOT, segment_file
from brokerless.wording import conjoined

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


LOST = "the file is missing, although its indexes or a link to it exist: a broker starts without its records"


class ExpectedEnd(NamedTuple):
    """A log end offset according to other files, which is above the actual end of the log.

    Attributes:
        name: the log's name.
        end_offset: the actual log end offset.
        offset: the highest end offset according to the files.
        sources: the files, with their end offsets.
        is_clean: whether the log was shut down cleanly.
        is_flushed: whether the log ends below its recovery point.
    """

    name: str
    end_offset: int
    offset: int
    sources: tuple[str, ...]
    is_clean: bool
    is_flushed: bool

    @property
    def is_certain(self) -> bool:
        """True if the records are certainly lost. After a crash, those below the recovery point are."""
        return self.is_clean or self.is_flushed

    @property
    def short(self) -> str:
        """The end of the log, and the end that the files give, as text without the name of the log."""
        return f"ends at {self.end_offset}, but {' and '.join(self.sources)}"

    @property
    def missing(self) -> str:
        """The missing offsets, and the files that report them, as text."""
        lost = f"offsets {self.end_offset} to {self.offset - 1} are lost"
        flushed = "" if self.is_clean else f", and a broker syncs a log before it writes {checkpoints.RECOVERY_POINTS}"
        return f"{self.name} {self.short}{flushed}, so {lost}"

    @property
    def doubt(self) -> str:
        """The end that the files give, as text without the name of the log, for a log that may have lost records."""
        then = "After a crash, or in a copy of a running broker's files, these files may be ahead of the log"
        return f"{self.short}. {then}"

    def __str__(self) -> str:
        return self.missing if self.is_certain else f"{self.name} {self.doubt}"


class LoneClaim(NamedTuple):
    """The last batch of a log if only its own base offset, which no checksum covers, gives its place in the log.

    Attributes:
        base_offset: the base offset in the header of the batch.
        end_offset: the offset after the batch before it.
        position: the byte position of the batch in the last segment.
        expected_end: the highest offset between `end_offset` and `base_offset` that another file gives as the end of
            the log; None if no file gives one. If there is such an offset, damage to the base offset has moved the
            batch, because no log ends inside a gap.
    """

    base_offset: int
    end_offset: int
    position: int
    expected_end: int | None

    def __str__(self) -> str:
        begin, end = self.base_offset, self.expected_end
        return f"the last batch says that it begins at offset {begin}, but the log ended at {end}"


class EndEvidence(NamedTuple):
    """The end offsets according to a log's other files; None or empty where a file gives none."""

    recovery_point: int | None
    high_watermark: int | None
    snapshots: Sequence[int]
    epoch_starts: Sequence[int]

    def above(self, end_offset: int, *, name: str, is_clean: bool) -> ExpectedEnd | None:
        """Return the highest end offset above `end_offset`, or None."""
        ends = list(self._ends())
        is_flushed = (self.recovery_point or 0) > end_offset
        if is_clean and self.corroborated_end is not None:
            # No leader epoch begins above the end of its log.
            ends = [end for end in ends if end[0] <= self.corroborated_end or end[1] != checkpoints.LEADER_EPOCHS]
        elif is_flushed and not is_clean:
            # What was not flushed is lost only if the cluster had committed it.
            ends = [end for end in ends if end[1] in (checkpoints.RECOVERY_POINTS, checkpoints.HIGH_WATERMARKS)]
        found: dict[int, list[str]] = {}
        for offset, source in ends:
            if offset > end_offset:
                found.setdefault(offset, []).append(source)
        if not found:
            return None
        sources = tuple(f"{conjoined(names)} {_says(names)} {offset}" for offset, names in found.items())
        return ExpectedEnd(name, end_offset, max(found), sources, is_clean, is_flushed)

    @property
    def corroborated_end(self) -> int | None:
        """The log end offset after a clean shutdown, if the recovery point and the newest snapshot agree; else None.

        A broker writes both when it closes the log at shutdown.
        """
        newest = self.snapshots[-1] if self.snapshots else None
        return newest if newest == self.recovery_point else None

    @property
    def known(self) -> list[int]:
        """The offsets at which a batch ended, according to these files."""
        return [self.recovery_point or 0, self.high_watermark or 0, *self.snapshots[-1:]]

    def lone_claim(
        self, end_offset: int, last: Mapping[str, Any] | None, recorded: Iterable[tuple[int, int]]
    ) -> LoneClaim | None:
        """Return the last batch if offsets are missing before it, and no file confirms its own offsets.

        The batch may still be right. A cleaner makes no gaps in the active segment, but a follower fetches only the
        records that its leader's cleaner kept, so the follower's active segment may have gaps. Other files record
        offsets at which a batch ended. A batch that begins below such an offset and ends above it contradicts them.

        Args:
            end_offset: the offset after the batch before it.
            last: the header fields of the last batch; None if the log has no batch.
            recorded: the offset ranges that earlier repairs recorded as lost.
        """
        if last is None or last["magic"] < 2 or last["base_offset"] <= end_offset:
            return None
        base, known = last["base_offset"], self.known
        starts = self.epoch_starts[-1:]
        is_known = base in known or max(known) > last["last_offset"] or any(base <= start for start in starts)
        if is_known or any(low <= end_offset and base <= high for low, high in recorded):
            return None
        between = [offset for offset in known if end_offset < offset < base]
        return LoneClaim(base, end_offset, last["position"], max(between, default=None))

    def _ends(self) -> Iterator[tuple[int, str]]:
        """Yield end offsets, each with the name of its file."""
        for offset, name in (
            (self.recovery_point, checkpoints.RECOVERY_POINTS),
            (self.high_watermark, checkpoints.HIGH_WATERMARKS),
        ):
            if offset is not None:
                yield offset, name
        if self.snapshots:
            yield self.snapshots[-1], segment_file(self.snapshots[-1], SNAPSHOT)
        if self.epoch_starts:
            yield self.epoch_starts[-1], checkpoints.LEADER_EPOCHS


def _says(names: Sequence[str]) -> str:
    return "say" if len(names) > 1 or names[0].endswith("s") else "says"


def above_in_words(end_offset: int, corroborated: int) -> str:
    """Return the explanation for a log that ends above the offset at which it was closed."""
    return (
        f"its last batch ends at offset {end_offset}, but the log ended at {corroborated} according to "
        f"{checkpoints.RECOVERY_POINTS} and {segment_file(corroborated, SNAPSHOT)}: the base offset of the batch is "
        "wrong"
    )


def cut_short_in_words(size: int, entry: tuple[int, int]) -> str:
    """Return the explanation for a `.log` that is shorter than the last entry of its index, an offset and a position.

    >>> cut_short_in_words(80, (5, 160))
    'the file ends at 80, and its index has offset 5 at 160: a broker starts without the records after the end'
    """
    return _native.cut_short_in_words(size, *entry)


def lost_in_words(base_offset: int, following: int | None) -> str:
    """Return the explanation for a missing `.log`. `following` is the base offset of the next segment.

    >>> lost_in_words(4, 8)
    'offsets 4 to 7 are lost: 00000000000000000004.log is missing, but its indexes are here'
    """
    lost = (
        f"all from offset {base_offset} on is" if following is None else f"offsets {base_offset} to {following - 1} are"
    )
    return f"{lost} lost: {segment_file(base_offset, LOG)} is missing, but its indexes are here"
