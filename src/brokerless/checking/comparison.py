"""The results of a comparison of two copies of a partition."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal, NamedTuple

Status = Literal["equal", "behind", "ahead", "diverged", "damaged", "missing", "extra"]
"""The state of a partition, seen from the first directory.

- equal: both have the same batches, from the later of the two starts on.
- ahead, behind: one is a prefix of the other, and the first one ends later, or earlier.
- diverged: from some offset on, the batches differ.
- damaged: a batch cannot be read, so that it is not known what follows.
- missing, extra: only the second one has the partition, or only the first one.
"""


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison of two copies of a partition.

    Attributes:
        topic: the topic.
        partition: the partition.
        status: see `Status`.
        path: the first copy; None if it is missing.
        other: the second copy; None if it is missing.
        start_offset: the first offset that was compared.
        offset: the offset where they differ, or where the shorter one ends; None if neither applies.
        epoch: the leader epoch there, of the first copy that has one.
        message: the difference in words.
    """

    topic: str | None
    partition: int | None
    status: Status
    path: str | None
    other: str | None
    start_offset: int | None = None
    offset: int | None = None
    epoch: int | None = None
    message: str = ""

    def to_dict(self) -> dict[str, object]:
        """Return the comparison as a dict for JSON."""
        return asdict(self)


class Difference(NamedTuple):
    """The result of a comparison; see `Comparison`."""

    status: Status
    offset: int | None = None
    epoch: int | None = None
    message: str = ""


class Place(NamedTuple):
    """A place between the batches of a log: the number of a segment, and a position in its file."""

    segment: int
    position: int
