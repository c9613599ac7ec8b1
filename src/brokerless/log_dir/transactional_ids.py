"""The transaction coordinator of a log directory: the producer and the open transaction of each transactional id.

A cluster keeps this state in `__transaction_state`. A directory at rest keeps it in a small text file, which brokers
ignore, beside its checkpoints. Each change is durable before it takes effect: a partition is recorded before its log
gets the transaction's first batch, and the outcome before the first marker.

So after a crash, the next `open_log_dir` finishes an interrupted commit. It aborts a transaction without an outcome:
it holds the lock on the directory, so the transaction's producer no longer runs. A new producer with the same
transactional id also aborts such a transaction.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal

from brokerless import _native
from brokerless.errors import CorruptRecordError
from brokerless.io import disk, storage
from brokerless.io.clock import now_ms
from brokerless.wording import excerpt

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from brokerless.append.writer import LogWriter

FILE = "brokerless-transactional-ids.json"
_VERSION = 0
_MAX_EPOCH = (1 << 15) - 1
# There is only one coordinator, so its epoch is constant: no other coordinator needs fencing.
_COORDINATOR_EPOCH = 0


@dataclass
class _State:
    producer_id: int
    producer_epoch: int
    outcome: Literal["open", "commit", "abort"] = "open"
    partitions: list[tuple[str, int]] = field(default_factory=list)


class TransactionalIds:
    """The transactional ids of one log directory.

    Args:
        directory: the log directory.
        writer: returns the log of a partition, open for writing.
        partitions: returns the existing partitions; a deleted partition needs no marker.

    Raises:
        CorruptRecordError: the file is damaged.
    """

    def __init__(
        self,
        directory: str,
        writer: Callable[[str, int], LogWriter],
        partitions: Callable[[], Collection[tuple[str, int]]],
    ) -> None:
        self._path = f"{directory}/{FILE}"
        self._writer = writer
        self._partitions = partitions
        self._states = _states(self._path)

    def finish(self) -> None:
        """End the transactions that a crash left open: by the recorded outcome, else with an abort."""
        for transactional_id in self._states:
            self._abort_open(transactional_id)

    def start(self, transactional_id: str, producer_id: int | None = None) -> tuple[int, int]:
        """Acquire a transactional id: fence its previous producer, and abort that producer's open transaction.

        Args:
            transactional_id: any text.
            producer_id: the producer id of a new transactional id; None: a random one.

        Returns:
            The producer id, and the new epoch.

        Raises:
            ValueError: the transactional id has another producer id.
        """
        known = self._states.get(transactional_id)
        if known is None:
            known = _State(new_producer_id() if producer_id is None else producer_id, -1)
        elif producer_id not in (None, known.producer_id):
            raise ValueError(
                f"transactional id {transactional_id!r} has producer id {known.producer_id}, not {producer_id}"
            )
        if known.producer_epoch >= _MAX_EPOCH - 1:
            # the last epoch is reserved for the markers of the open transaction
            self._states[transactional_id] = known
            self._abort_open(transactional_id)
            known = _State(new_producer_id(), -1)
        known.producer_epoch += 1
        self._states[transactional_id] = known
        self._abort_open(transactional_id)
        self._write()
        return known.producer_id, known.producer_epoch

    def epoch(self, transactional_id: str) -> tuple[int, int]:
        """Return the id and the epoch of the newest producer with a transactional id."""
        state = self._states[transactional_id]
        return state.producer_id, state.producer_epoch

    def add(self, transactional_id: str, topic: str, partition: int) -> None:
        """Add a partition to the transaction, before the partition gets the transaction's first batch."""
        self._states[transactional_id].partitions.append((topic, partition))
        self._write()

    def end(self, transactional_id: str, *, is_commit: bool) -> None:
        """Record the outcome of the transaction, and write its marker to each of its partitions.

        If an outcome is already recorded but some of its markers are not written yet, that outcome stays. The
        transaction's batches must be durable before the call. When this method returns, the markers are durable too.
        """
        state = self._states[transactional_id]
        if not state.partitions:
            return
        if state.outcome == "open":
            state.outcome = "commit" if is_commit else "abort"
        self._write()
        present = self._partitions()
        for topic, partition in state.partitions:
            if (topic, partition) not in present:
                continue
            log = self._writer(topic, partition)
            marker = _native.end_transaction_marker(
                commit=state.outcome == "commit",
                producer_id=state.producer_id,
                producer_epoch=state.producer_epoch,
                coordinator_epoch=_COORDINATOR_EPOCH,
                timestamp=now_ms(),
            )
            log.append(marker, origin="coordinator")
            log.flush()
        state.partitions, state.outcome = [], "open"
        self._write()

    def _abort_open(self, transactional_id: str) -> None:
        self.end(transactional_id, is_commit=False)

    def _write(self) -> None:
        states = {name: asdict(state) for name, state in self._states.items()}
        text = json.dumps({"version": _VERSION, "transactional_ids": states}, indent=1)
        disk.atomic_write(self._path, f"{text}\n".encode())


def new_producer_id() -> int:
    """Return a random producer id that no broker allocates: brokers allocate ids from 0.

    If a broker allocated the same id to a new producer, the broker would mistake that producer's first batch for a
    duplicate, and drop it silently.

    >>> new_producer_id() >= 1 << 62
    True
    """
    return _native.FIRST_OWN_PRODUCER_ID + secrets.randbelow((1 << 63) - _native.FIRST_OWN_PRODUCER_ID)


def check_file(directory: str) -> None:
    """Check a log directory's file of transactional ids, as `open_log_dir` does.

    Raises:
        CorruptRecordError: the file is damaged.
    """
    _states(f"{directory}/{FILE}")


def _states(path: str) -> dict[str, _State]:
    return _read(path) if storage.exists(path) else {}


def _read(path: str) -> dict[str, _State]:
    try:
        content = json.loads(storage.read_own(path))
        if content["version"] != _VERSION:
            raise CorruptRecordError(
                f"unknown version: stored {excerpt(content['version'])}, known {_VERSION}", path=path
            )
        return {
            name: _State(
                _integer(state["producer_id"], 0, (1 << 63) - 1),
                _integer(state["producer_epoch"], 0, _MAX_EPOCH),
                _outcome(state["outcome"]),
                [(str(topic), _integer(partition, 0, (1 << 31) - 1)) for topic, partition in state["partitions"]],
            )
            for name, state in content["transactional_ids"].items()
        }
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptRecordError(f"transactional ids cannot be read: {error}", path=path) from error


def _integer(value: object, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{excerpt(value)} is not an integer from {low} to {high}")
    return value


def _outcome(value: object) -> Literal["open", "commit", "abort"]:
    if value == "commit" or value == "abort" or value == "open":  # noqa: PLR1714 - what mypy understands
        return value
    raise ValueError(f"{excerpt(value)} is no outcome: open, commit or abort expected")
