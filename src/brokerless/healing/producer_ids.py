"""The highest producer id in partitions. A new cluster must hand out only higher ids.

If a new producer got the id of an old producer, a broker would mistake the new producer for the old one. The broker
would acknowledge the new producer's batches as duplicates, and these batches would be lost. A producer id may be in
batches, in the snapshots of producers whose batches were deleted, and in the state of a transactional id whose batches
are in other partitions.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from brokerless import _native
from brokerless.errors import BrokerlessError
from brokerless.io import storage
from brokerless.metadata.records import decoded_records
from brokerless.notes import note
from brokerless.state.internal_topic import TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterable

    from brokerless.log.log import Log

# Clusters allocate ids from 0 and never reach this one. brokerless's own writers use higher ids
# (`FIRST_OWN_PRODUCER_ID` in Rust).
_FIRST_OF_OTHERS = 1 << 62
_IDS = ("producerId", "previousProducerId", "nextProducerId")


class Headers(NamedTuple):
    """Facts from the headers of a log's batches.

    Attributes:
        producer_id: the highest producer id; -1 if none.
        magic: the oldest message format; 2 for a log without batches.
    """

    producer_id: int
    magic: int


def of_headers(log: Log) -> Headers:
    """Return the facts from the headers of a sound log's batches."""
    highest, magic = -1, 2
    for batches in log.scan():
        highest = max(highest, _highest(batches["producer_id"]))
        magic = min(magic, pc.min(batches["magic"]).as_py() or 0) if batches.num_rows else magic
    return Headers(highest, magic)


def in_snapshots(logs: Iterable[Log]) -> int:
    """Return the highest producer id in the snapshots of some logs; -1 if none. Damaged snapshots are ignored."""
    highest = -1
    for log in logs:
        with contextlib.suppress(BrokerlessError, OSError):
            for offset in log.snapshots:
                with contextlib.suppress(BrokerlessError, OSError):
                    found = _native.producer_snapshot(storage.read_all(log.files.snapshot_path(offset)))
                    highest = max(highest, _highest(found["producer_id"]))
    return highest


def of_transactional_ids(log: Log) -> int:
    """Return the highest producer id of a transactional id in a partition of `__transaction_state`; -1 if none.

    A note names each record that is skipped because it would take too much memory.
    """
    highest = -1
    with contextlib.suppress(BrokerlessError, OSError):
        for rows in log.read(on_corrupt="skip", columns=["key", "value", "offset"]):
            for part, decoded in decoded_records(TRANSACTIONS_TOPIC, rows):
                too_large: Any = decoded["is_too_large"]
                for offset in part["offset"].filter(too_large).to_pylist():
                    note(
                        f"{log.name}: the record at offset {offset} is not decoded, because it takes too much memory. "
                        "A new producer may get a producer id that this record has already assigned"
                    )
                for text, unknown in zip(decoded["value"].to_pylist(), decoded["unknown"].to_pylist(), strict=True):
                    value = json.loads(text) if unknown is None and text is not None else {}
                    if isinstance(value, dict):
                        ids = [value.get(name, -1) for name in _IDS]
                        highest = max([highest, *(one for one in ids if 0 <= one < _FIRST_OF_OTHERS)])
    return highest


def _highest(ids: pa.Array[Any]) -> int:
    below = ids.filter(pc.less(ids, pa.scalar(_FIRST_OF_OTHERS, ids.type)))
    found = pc.max(below).as_py()
    return -1 if found is None else int(found)
