"""The results of a comparison of two copies of a partition."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

if TYPE_CHECKING:
    from brokerless.errors import BrokerlessError

Differing = Literal["base_offset", "last_offset", "partition_leader_epoch", "crc", "records"]
"""The difference between two copies: a field of the header of a batch, or the latest records of keys."""

Status = Literal["equal", "behind", "ahead", "diverged", "damaged", "missing", "extra"]
"""The state of a partition in the first directory, compared with the second.

- equal: both copies have the same batches, from the later of the two log starts on.
- ahead, behind: one copy is a prefix of the other, and the first copy ends later, or earlier.
- diverged: from some offset on, the batches differ.
- damaged: a batch cannot be read, so the batches after it could not be compared.
- missing, extra: only the second directory has the partition (missing), or only the first (extra).
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
        offset: the offset where the copies differ, or where the shorter copy ends; None if neither applies.
        epoch: the leader epoch at `offset`, from the first copy that has one.
        differing: the kind of difference at `offset`; None unless the status is "diverged".
        value: the value of the differing header field in the first copy, or the number of latest records that differ.
        other_value: the value of the header field in the second copy; None if latest records differ.
        damaged_path: the file with the batch that cannot be read; None unless the status is "damaged".
        damaged_position: the byte position of the batch that cannot be read.
        message: the difference, as text.
    """

    topic: str | None
    partition: int | None
    status: Status
    path: str | None
    other: str | None
    start_offset: int | None = None
    offset: int | None = None
    epoch: int | None = None
    differing: Differing | None = None
    value: int | None = None
    other_value: int | None = None
    damaged_path: str | None = None
    damaged_position: int | None = None
    message: str = ""

    def __str__(self) -> str:
        epoch = "" if self.epoch is None else f", leader epoch {self.epoch}"
        place = "" if self.offset is None else f" at offset {self.offset}{epoch}"
        message = f": {self.message}" if self.message else ""
        return f"{self.status} {self.topic}-{self.partition}{place}{message}"

    def to_dict(self) -> dict[str, object]:
        """Return the comparison as a dict for JSON."""
        return asdict(self)


class Difference(NamedTuple):
    """The result of a comparison of two logs; see `Comparison`."""

    status: Status
    offset: int | None = None
    epoch: int | None = None
    differing: Differing | None = None
    value: int | None = None
    other_value: int | None = None
    damaged_path: str | None = None
    damaged_position: int | None = None
    message: str = ""

    @classmethod
    def damaged(cls, offset: int | None, error: BrokerlessError) -> Self:
        """Return the result where an error ends the comparison."""
        path, position = getattr(error, "path", None), getattr(error, "position", None)
        return cls("damaged", offset, damaged_path=path, damaged_position=position, message=str(error))


class Place(NamedTuple):
    """A place between the batches of a log: the index of a segment, and a position in its file."""

    segment: int
    position: int
