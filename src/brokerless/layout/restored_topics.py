"""Which topics of a log directory are a restored export, and of which: what a second run of the restore goes by.

That two logs end at one offset does not say that they hold the same records. So a digest of what was restored comes
into force in the same instant as the records, in a file of the log directory that the journal moves there with them.
Brokers look at directories only, and pass over it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from brokerless.errors import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE = "brokerless-restored-topics.json"

_VERSION = 1


class RestoredTopic(NamedTuple):
    """A topic as a restore made it: a digest of all that was restored, and its id, which a topic made anew has not."""

    digest: str
    topic_id: str | None


def parse(content: bytes) -> dict[str, RestoredTopic]:
    """Return what the file says, by topic.

    Raises:
        CorruptRecordError: it cannot be read, or is of a later version.
    """
    try:
        found = json.loads(content)
        if found["version"] != _VERSION:
            raise ValueError(f"version {found['version']}, {_VERSION} is known")
        return {
            str(topic): RestoredTopic(str(one["digest"]), None if one["topic_id"] is None else str(one["topic_id"]))
            for topic, one in found["topics"].items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptRecordError(f"what is known of restored topics cannot be read: {error}") from error


def content(topics: Mapping[str, RestoredTopic]) -> bytes:
    """Return what the file is to hold."""
    known = {topic: one._asdict() for topic, one in topics.items()}
    return json.dumps({"version": _VERSION, "topics": known}, indent=1, sort_keys=True).encode()
