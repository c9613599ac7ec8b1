"""The replacement of old segments by new ones, in Kafka's own steps (LocalLog.replaceSegments).

1. The new files are renamed from `.cleaned` to `.swap`.
2. The old files are renamed to `.deleted`.
3. The new files get their final names.
4. The `.deleted` files are removed.

After a crash between any two steps, the load of a broker or of brokerless completes the swap or undoes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerless.io import disk, storage
from brokerless.layout import file_names
from brokerless.log.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from brokerless.append.operation import Outcome, Replacement, Report


def discard(directory: str) -> None:
    """Remove the new segments of a log that will not be swapped in, as the next load would.

    Do not call it after a swap has begun: the next load uses the `.cleaned` files to find out whether the `.swap` files
    are complete.
    """
    for name in sorted(storage.list_directory(directory)):
        if name.endswith(file_names.CLEANED) and file_names.is_partition_directory([name]):
            disk.remove(f"{directory}/{name}")


def collect(directory: str, outcome: Outcome[Report]) -> None:
    """Move new segments from their directory to the log's directory. Until the swap, a load would delete them there.

    Raises:
        FileNotFoundError: a file of a new segment is missing.
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
        The log end offset after the swap; None if it does not change, because the last segment stays.

    Raises:
        ValueError: the replacements do not fit, so that the swap would lose or repeat records.
        FileNotFoundError: a file of a new segment is missing.
    """
    base_offsets = [segment.base_offset for segment in segments]
    done, last = 0, 0
    for new, sources in replacements:
        first = base_offsets.index(sources[0], done) if sources and sources[0] in base_offsets[done:] else None
        if first is None or tuple(base_offsets[first : first + len(sources)]) != sources:
            raise ValueError(
                f"cannot replace segments {list(sources)} of {directory}: its segments have the base offsets "
                f"{base_offsets}"
            )
        done = first + len(sources)
        limit = base_offsets[done] if done < len(base_offsets) else 1 << 63
        if not new or new[0] != sources[0] or list(new) != sorted(set(new)) or new[-1] >= limit:
            raise ValueError(
                f"cannot replace segments {list(sources)} of {directory} by {list(new)}: the new base offsets must "
                f"ascend from {sources[0]}, and be below {limit}"
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
    """Replace old segments by new ones. After a crash at any step, a load finds either the old or the new segments.

    There is one exception, as in Kafka. A load removes only the old segments up to the last offset in the new ones. So
    if the rewrite removed all records of the last old segments, a load after a crash may keep these old segments.
    """
    names = set(storage.list_directory(directory))

    def rename(base_offsets: Iterable[int], kinds: Iterable[int], state: str, to: str) -> list[str]:
        """Rename those of these files that exist, make the new names durable, and return them."""
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
    # A load treats `.swap` files as complete if no `.cleaned` file is at or below them, so the lowest offset comes
    # last.
    rename(reversed(others), file_names.SEGMENT_KINDS, file_names.CLEANED, file_names.SWAP)
    rename([first], file_names.SEGMENT_KINDS, file_names.CLEANED, file_names.SWAP)
    # The `.log` before its indexes: a load deletes indexes without a `.log`, but a `.log` without its transaction index
    # would show aborted records.
    old = rename(replacement.sources, [file_names.LOG], "", file_names.DELETED)
    old += rename(replacement.sources, file_names.SEGMENT_KINDS[1:], "", file_names.DELETED)
    gone = [base for base in replacement.sources if base not in replacement.base_offsets]
    old += rename(gone, [file_names.SNAPSHOT], "", file_names.DELETED)
    # The `.log` first: for a `.log.swap` without its index, a load creates an index of zeros.
    rename(replacement.base_offsets, [file_names.LOG], file_names.SWAP, "")
    rename(replacement.base_offsets, file_names.SEGMENT_KINDS[1:], file_names.SWAP, "")
    disk.remove_all(f"{directory}/{name}" for name in old)
    disk.sync_directory(directory)
