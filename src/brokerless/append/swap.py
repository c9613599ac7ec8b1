"""New segments in the place of old ones, in Kafka's own steps (LocalLog.replaceSegments).

`.cleaned` becomes `.swap`, the old files `.deleted`, `.swap` the final name. What a crash leaves between any two of
them a broker's load, and ours, completes or takes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from brokerless.io import disk, storage
from brokerless.layout import file_names
from brokerless.log.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from brokerless.append.operation import Outcome, Report
    from brokerless.append.writer import LogWriter


class Replacement(NamedTuple):
    """New segments that stand for old ones. Their `.cleaned` files are complete and durable.

    Attributes:
        base_offsets: of the new segments, ascending; the first is that of the first source. A segment without batches
            counts too: sources whose records all went leave an empty one.
        sources: the base offsets of the old segments, ascending, with no other segment between them.
    """

    base_offsets: tuple[int, ...]
    sources: tuple[int, ...]


def discard(log: LogWriter) -> None:
    """Remove the new segments of a log that will not be swapped in, as its next load would.

    Not where a swap was begun: a load tells by the `.cleaned` files whether the `.swap` files are all there.
    """
    if not log.is_broken:
        for name in sorted(storage.list_directory(log.directory)):
            if name.endswith(file_names.CLEANED) and file_names.is_partition_directory([name]):
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
            for kind in file_names.SEGMENT_KINDS:
                name = file_names.segment_file(base_offset, kind, file_names.CLEANED)
                if name in names or kind != file_names.TXNINDEX:
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
            for kind in (file_names.LOG, file_names.INDEX, file_names.TIMEINDEX):
                storage.size(f"{directory}/{file_names.segment_file(base_offset, kind, file_names.CLEANED)}")
    if not done or done < len(base_offsets):
        return None
    return (
        Segment(directory, last, name=file_names.segment_file(last, file_names.LOG, file_names.CLEANED))
        .extent()
        .next_offset
    )


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
                name = file_names.segment_file(base_offset, kind, state)
                if name in names:
                    renamed.append(file_names.segment_file(base_offset, kind, to))
                    disk.rename(f"{directory}/{name}", f"{directory}/{renamed[-1]}")
                    names.remove(name)
                    names.add(renamed[-1])
        if renamed:
            disk.sync_directory(directory)
        return renamed

    first, *others = replacement.base_offsets
    # A load takes `.swap` for complete where no `.cleaned` is at or below it: so the lowest one comes last.
    rename(reversed(others), file_names.SEGMENT_KINDS, file_names.CLEANED, file_names.SWAP)
    rename([first], file_names.SEGMENT_KINDS, file_names.CLEANED, file_names.SWAP)
    # The log before its indexes: what is without a log is dropped, what is without an aborted transactions' index lies.
    old = rename(replacement.sources, [file_names.LOG], "", file_names.DELETED)
    old += rename(replacement.sources, file_names.SEGMENT_KINDS[1:], "", file_names.DELETED)
    gone = [base for base in replacement.sources if base not in replacement.base_offsets]
    old += rename(gone, [file_names.SNAPSHOT], "", file_names.DELETED)
    # A `.log.swap` without its index would be given one of zeros.
    rename(replacement.base_offsets, [file_names.LOG], file_names.SWAP, "")
    rename(replacement.base_offsets, file_names.SEGMENT_KINDS[1:], file_names.SWAP, "")
    disk.remove_all(f"{directory}/{name}" for name in old)
    disk.sync_directory(directory)
