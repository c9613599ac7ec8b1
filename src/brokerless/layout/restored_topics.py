"""The file that records which topics of a log directory are restored exports. A restore that resumes reads it.

Two logs with the same end offset may hold different records. So a restore writes a digest of its records to this file.
The journal commits the file together with the records. Brokers load only directories, and ignore the file.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from brokerless.errors import CorruptRecordError
from brokerless.wording import excerpt

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE = "brokerless-restored-topics.json"

_VERSION = 1


class RestoredTopic(NamedTuple):
    """A restored topic: a digest of its records, and its topic id, which changes if the topic is created again."""

    digest: str
    topic_id: str | None


def parse(content: bytes) -> dict[str, RestoredTopic]:
    """Parse the file and return the restored topics by name.

    Raises:
        CorruptRecordError: the file cannot be read, or has a later version.
    """
    try:
        found = json.loads(content)
        if found["version"] != _VERSION:
            raise ValueError(f"found version {excerpt(found['version'])}, expected {_VERSION}")
        return {
            str(topic): RestoredTopic(str(made["digest"]), None if made["topic_id"] is None else str(made["topic_id"]))
            for topic, made in found["topics"].items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptRecordError(f"the record of restored topics cannot be read: {error}") from error


def content(topics: Mapping[str, RestoredTopic]) -> bytes:
    """Return the content of the file for these topics."""
    known = {name: topic._asdict() for name, topic in topics.items()}
    return json.dumps({"version": _VERSION, "topics": known}, indent=1, sort_keys=True).encode()
