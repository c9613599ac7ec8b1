"""A finding of a check."""

from __future__ import annotations

import re
import shlex
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from brokerless.checking.codes import CODES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from brokerless.checking.codes import Code, Severity
    from brokerless.log.defect import Defect

_PLACEHOLDER = re.compile(r"\b(TOPIC|PARTITION|OFFSET)\b")
_FIELDS: list[pa.Field[Any]] = [
    pa.field("code", pa.string()),
    pa.field("severity", pa.string()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("path", pa.string()),
    pa.field("position", pa.int64()),
    pa.field("start_offset", pa.int64()),
    pa.field("end_offset", pa.int64()),
    pa.field("next_position", pa.int64()),
    pa.field("message", pa.string()),
    pa.field("broker", pa.string()),
    pa.field("reader", pa.string()),
    pa.field("cure", pa.string()),
]
SCHEMA = pa.schema(_FIELDS)
"""The columns of findings as a table: those of `Finding.to_dict`."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A fault at one place.

    Attributes:
        code: the code of the finding, whose meaning never changes: see `brokerless finding CODE`.
        topic: the topic; None outside of partitions.
        partition: the partition; None outside of partitions.
        path: the file or directory.
        position: the byte position in the file.
        start_offset: the first offset that may be lost or wrong.
        end_offset: the offset after the last one; None if the range extends to the end of the log.
        next_position: the byte position at which the log is sound again; None if the rest of the file is not sound.
        message: the fault, with the stored and the computed value.
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

    @classmethod
    def of(cls, defect: Defect, topic: str | None, partition: int | None) -> Self:
        """Return the finding for a defect of a partition's log."""
        return cls(
            code=defect.code,
            topic=topic,
            partition=partition,
            path=defect.path,
            position=defect.position,
            start_offset=defect.start_offset,
            end_offset=defect.end_offset,
            next_position=defect.next_position,
            message=defect.reason,
        )

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Self:
        """Return the finding from a dict that `to_dict` returned, or from a row with these columns."""
        return cls(**{field.name: row[field.name] for field in fields(cls)})

    @property
    def kind(self) -> Code:
        """The entry of the code in `codes`: the severity, the texts and the consequences."""
        return CODES[self.code]

    @property
    def severity(self) -> Severity:
        """The severity: "error", "warning" or "note"."""
        return self.kind.severity

    @property
    def cure(self) -> str:
        """The cure, with this finding's topic, partition and offset in the place of their names in capitals."""
        values = {"TOPIC": self.topic, "PARTITION": self.partition, "OFFSET": self.start_offset}
        # Names are foreign text, and the cure is a command.
        known = {name: shlex.quote(str(value)) for name, value in values.items() if value is not None}
        return _PLACEHOLDER.sub(lambda found: known.get(found[1], found[1]), self.kind.cure)

    def to_dict(self) -> dict[str, object]:
        """Return the finding as a dict for JSON, with its severity and its texts."""
        kind = self.kind
        return {
            "code": self.code,
            "severity": kind.severity,
            **asdict(self),
            "broker": kind.broker,
            "reader": kind.reader,
            "cure": self.cure,
        }

    def to_row(self) -> dict[str, object]:
        """Return the finding as a row of `SCHEMA`. Bytes of a name that are not valid UTF-8 become escapes."""
        return {
            name: value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value
            for name, value in self.to_dict().items()
        }
