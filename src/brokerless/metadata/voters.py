"""The voters of a metadata quorum, as the first snapshot of its log has them (KIP-853, `RecordsSnapshotWriter`).

A cluster with them needs `controller.quorum.bootstrap.servers` in place of `controller.quorum.voters`. The control
records are Kafka's generated messages KRaftVersionRecord and VotersRecord at version 0.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, NamedTuple

from brokerless import _native
from brokerless.metadata.bootstrap import compact_array, compact_string, uuid_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

_KRAFT_VERSION, _VOTERS = 5, 6
_LISTENER = "CONTROLLER"


class Voter(NamedTuple):
    """A controller of the quorum, and where its listener `CONTROLLER` is."""

    node_id: int
    directory_id: str
    host: str
    port: int


def parse_voters(text: str) -> dict[int, tuple[str, int]]:
    """Parse voters as `controller.quorum.voters` has them, and return host and port by node id.

    Raises:
        ValueError: the text has another form, or names a node twice.

    >>> parse_voters("1@one:9093,2@two:9093")
    {1: ('one', 9093), 2: ('two', 9093)}
    """
    found: dict[int, tuple[str, int]] = {}
    for one in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,10})@(\[[^]]+\]|[^:@\s]+):(\d{1,5})\s*", one)
        if match is None or int(match[1]) >= 1 << 31 or not 0 < int(match[3]) < 1 << 16 or int(match[1]) in found:
            raise ValueError(f"not voters: {text!r}; ID@HOST:PORT expected for each, with commas between")
        found[int(match[1])] = match[2].strip("[]"), int(match[3])
    return found


def voters_snapshot(voters: Iterable[Voter], timestamp: int) -> bytes:
    """Return the first snapshot of a metadata log whose quorum these voters are: version 1 of the Raft protocol.

    Args:
        voters: the voters.
        timestamp: of its records, ms.
    """
    content = struct.pack(">h", 0) + compact_array([_voter(voter) for voter in voters]) + _NO_TAGS
    version = struct.pack(">hh", 0, 1) + _NO_TAGS
    return _native.kraft_snapshot([], timestamp, [(_KRAFT_VERSION, version), (_VOTERS, content)])


_NO_TAGS = b"\0"


def _voter(voter: Voter) -> bytes:
    endpoint = compact_string(_LISTENER) + compact_string(voter.host) + struct.pack(">H", voter.port) + _NO_TAGS
    supported = struct.pack(">hh", 0, 1) + _NO_TAGS
    directory = uuid_bytes(voter.directory_id)
    return struct.pack(">i", voter.node_id) + directory + compact_array([endpoint]) + supported + _NO_TAGS
