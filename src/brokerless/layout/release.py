"""Releases of Kafka, and the rules that differ between them."""

from __future__ import annotations

import re
from typing import NamedTuple


class Release(NamedTuple):
    """A release, such as 4.3.1. Releases compare by their numbers.

    >>> Release.parse("4.1") < Release.parse("4.3.1") < NEWEST
    True
    """

    major: int
    minor: int
    patch: int = 0

    @classmethod
    def parse(cls, text: str) -> Release:
        """Parse a release: two or three numbers.

        Raises:
            ValueError: the text is not a release.
        """
        numbers = re.fullmatch(r"([0-9]{1,4})\.([0-9]{1,4})(?:\.([0-9]{1,4}))?", text)
        if numbers is None:
            raise ValueError(f"not a release of Kafka: {text!r}; give two or three numbers, such as 4.3.1")
        return cls(*(int(number or 0) for number in numbers.groups()))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}" if self.patch else f"{self.major}.{self.minor}"

    @property
    def deletes_records_without_policy(self) -> bool:
        """True if brokers accept DeleteRecords for an empty `cleanup.policy` (Partition.deleteRecordsOnLeader)."""
        return self >= (4, 2)

    @property
    def keeps_last_cleaned_batch(self) -> bool:
        """True if the cleaner keeps the last batch of each range that it cleans, even if it is empty (KAFKA-17076).

        If False, the cleaner keeps an empty last batch only if it ends at the high watermark (KAFKA-20452).
        """
        return self < (4, 4)


NEWEST = Release(4, 4)
"""The newest release with known rules."""
