"""How far streaming queries have written into a log directory: the last epoch of each that is in force.

Spark repeats the epoch of a query that ended before Spark knew of its commit. So the number of an epoch comes into
force in the same instant as its rows: it is in a file of the log directory that the journal moves there with them.
Brokers look at directories only, and pass over it.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from brokerless.errors import CorruptRecordError
from brokerless.io import storage

FILE = "brokerless-streaming-epochs.json"

_VERSION = 1


class Epoch(NamedTuple):
    """A batch of a streaming query: the query's id, which it keeps as long as its checkpoint, and Spark's batch id."""

    query: str
    number: int


def is_committed(root: str, epoch: Epoch) -> bool:
    """Tell whether the rows of an epoch are in force. Only for who has the log directory's lock.

    Raises:
        CorruptRecordError: what is known of epochs cannot be read.
        ValueError: later ones of the query are in force, and Spark repeats the last one only; or the one before it is
            not, and each has its turn, those without rows too.
    """
    last = committed(root).get(epoch.query, -1)
    if epoch.number < last:
        raise ValueError(
            f"query {epoch.query} has written epoch {last} to {root}, and comes with epoch {epoch.number}: its "
            "checkpoint is an old copy, or was changed; which rows are here already cannot be told: start the query "
            "with a new checkpoint, behind those"
        )
    if epoch.number > last + 1:
        known = f"knows its epochs up to {last}" if last >= 0 else "knows none of its epochs"
        raise ValueError(
            f"query {epoch.query} comes with epoch {epoch.number}, and {root} {known}: the log directory is an older "
            "copy than the query's checkpoint, was emptied, or is another one; what is missing is not written again: "
            "start the query with a new checkpointLocation"
        )
    return epoch.number == last


def committed(root: str) -> dict[str, int]:
    """Return the last epoch of each query, by its id.

    Raises:
        CorruptRecordError: it cannot be read, or is of a later version.
    """
    path = f"{root}/{FILE}"
    try:
        found = json.loads(storage.read_all(path))
        if found["version"] != _VERSION:
            raise ValueError(f"version {found['version']}, {_VERSION} is known")
        for query, number in found["epochs"].items():
            if type(number) is not int or number < 0:
                raise ValueError(f"{number!r} is no epoch of query {query}")
        return dict(found["epochs"])
    except FileNotFoundError:
        return {}
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise CorruptRecordError(f"the epochs of streaming queries cannot be read: {error}", path=path) from error


def content_with(root: str, epoch: Epoch) -> bytes:
    """Return what the file is to hold once this epoch is in force: a line a query."""
    known = committed(root) | {epoch.query: epoch.number}
    return json.dumps({"version": _VERSION, "epochs": known}, indent=0, sort_keys=True).encode()
