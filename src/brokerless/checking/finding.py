"""A finding of a check."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from brokerless.checking.codes import CODES

if TYPE_CHECKING:
    from brokerless.checking.codes import Severity


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A fault at one place.

    Attributes:
        code: its kind, which never changes its meaning: see `brokerless finding CODE`.
        topic: the topic; None outside of partitions.
        partition: the partition.
        path: the file or directory.
        position: the byte position in the file.
        start_offset: the first offset that may be lost or wrong.
        end_offset: the offset after the last one; None: up to the end of the log.
        next_position: where the log is sound again; None: nowhere in this file.
        message: what was found, stored against computed.
    """

    code: str
    path: str
    message: str
    topic: str | None = None
    partition: int | None = None
    position: int | None = None
    start_offset: int | None = None
    end_offset: int | None = None
    next_position: int | None = None

    @property
    def severity(self) -> Severity:
        """How bad it is: "error", "warning" or "note"."""
        return CODES[self.code].severity

    def to_dict(self) -> dict[str, object]:
        """Return the finding as a dict for JSON, with its severity and its texts."""
        code = CODES[self.code]
        return {
            "code": self.code,
            "severity": code.severity,
            **asdict(self),
            "broker": code.broker,
            "reader": code.reader,
            "cure": code.cure,
        }
