"""The voters of a metadata quorum, in the first snapshot of its log (KIP-853, `RecordsSnapshotWriter`).

If the snapshot names the voters, the cluster's nodes need the setting `controller.quorum.bootstrap.servers`, not
`controller.quorum.voters`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from brokerless import _native

if TYPE_CHECKING:
    from collections.abc import Iterable

# Types of control records (ControlRecordType): their values are a KRaftVersionRecord and a VotersRecord.
_KRAFT_VERSION, _VOTERS = 5, 6
_LISTENER = "CONTROLLER"


class Voter(NamedTuple):
    """A controller of the quorum, and the address of its listener `CONTROLLER`."""

    node_id: int
    directory_id: str
    host: str
    port: int


def parse_voters(text: str) -> dict[int, tuple[str, int]]:
    """Parse voters in the format of `controller.quorum.voters`, and return host and port by node id.

    Raises:
        ValueError: the text has another form, or names a node twice.

    >>> parse_voters("1@one:9093,2@two:9093")
    {1: ('one', 9093), 2: ('two', 9093)}
    """
    found: dict[int, tuple[str, int]] = {}
    for one in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,10})@(\[[^]]+\]|[^:@\s]+):(\d{1,5})\s*", one)
        if match is None:
            raise ValueError(f"not voters: {text!r}; ID@HOST:PORT expected for each, with commas between")
        if int(match[1]) >= 1 << 31 or not 0 < int(match[3]) < 1 << 16:
            raise ValueError(f"not a voter: {one!r}; ids up to 2147483647 and ports from 1 to 65535 are possible")
        if int(match[1]) in found:
            raise ValueError(f"not voters: {text!r} names node {match[1]} twice")
        found[int(match[1])] = match[2].strip("[]"), int(match[3])
    return found


def voters_snapshot(voters: Iterable[Voter], timestamp: int, records: Iterable[bytes] = ()) -> bytes:
    """Return a metadata snapshot that names the voters of its quorum (kraft.version 1).

    Args:
        voters: the voters; if empty, the controllers' configuration names them (kraft.version 0).
        timestamp: the timestamp of the records in ms.
        records: the other records.
    """
    controls: list[tuple[int, bytes]] = []
    if every := [_fields(voter) for voter in voters]:
        version, content = {"version": 0, "kRaftVersion": 1}, {"version": 0, "voters": every}
        controls = [(_KRAFT_VERSION, json.dumps(version).encode()), (_VOTERS, json.dumps(content).encode())]
    return _native.kraft_snapshot(list(records), timestamp, controls)


def _fields(voter: Voter) -> dict[str, Any]:
    return {
        "voterId": voter.node_id,
        "voterDirectoryId": voter.directory_id,
        "endpoints": [{"name": _LISTENER, "host": voter.host, "port": voter.port}],
        "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
    }
