"""The last committed streaming epoch of each Spark query that writes into a log directory.

A streaming epoch is a micro-batch of the query. If a query ended before Spark recorded the commit of an epoch, Spark
repeats that epoch. So a file of the log directory records the number of the last epoch, and the journal commits this
file together with the rows. Brokers load only directories, and ignore the file.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from brokerless.errors import CorruptRecordError
from brokerless.io import storage
from brokerless.wording import excerpt

FILE = "brokerless-streaming-epochs.json"

_VERSION = 1


class Epoch(NamedTuple):
    """A streaming epoch: the query id, which is stored in the query's checkpoint, and Spark's batch id."""

    query: str
    number: int


def is_committed(root: str, epoch: Epoch) -> bool:
    """Return whether the rows of a streaming epoch are committed. The caller must hold the log directory's lock.

    Raises:
        CorruptRecordError: the file of epochs cannot be read.
        ValueError: a later epoch is committed, so Spark cannot be repeating this one; or the previous epoch is not
            committed, so its rows are missing. (An epoch without rows is committed, too.)
    """
    last = committed(root).get(epoch.query, -1)
    if epoch.number < last:
        raise ValueError(
            f"query {epoch.query} has written streaming epoch {last} to {root}, but now sends epoch {epoch.number}: "
            "its checkpoint is an old copy, or was changed. It is not known which of its rows the log directory "
            "already has. Start the query with a new checkpointLocation, at the first row that is missing"
        )
    if epoch.number > last + 1:
        known = f"has only its epochs up to {last}" if last >= 0 else "has none of its epochs"
        raise ValueError(
            f"query {epoch.query} sends streaming epoch {epoch.number}, but {root} {known}: the log directory is an "
            "older copy than the query's checkpoint, was emptied, or is another directory. Spark does not write the "
            "missing rows again. Start the query with a new checkpointLocation"
        )
    return epoch.number == last


def committed(root: str) -> dict[str, int]:
    """Return the last committed streaming epoch of each query, by query id.

    Raises:
        CorruptRecordError: the file cannot be read, or has a later version.
    """
    path = f"{root}/{FILE}"
    try:
        found = json.loads(storage.read_own(path))
        if found["version"] != _VERSION:
            raise ValueError(f"found version {excerpt(found['version'])}, expected {_VERSION}")
        for query, number in found["epochs"].items():
            if type(number) is not int or number < 0:
                raise ValueError(f"{excerpt(number)} is no epoch of query {excerpt(query)}")
        return dict(found["epochs"])
    except FileNotFoundError:
        return {}
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise CorruptRecordError(f"the epochs of streaming queries cannot be read: {error}", path=path) from error


def content_with(root: str, epoch: Epoch) -> bytes:
    """Return the content of the file after the commit of this streaming epoch: one line per query."""
    known = committed(root) | {epoch.query: epoch.number}
    return json.dumps({"version": _VERSION, "epochs": known}, indent=0, sort_keys=True).encode()
