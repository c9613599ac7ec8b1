"""The transactional ids of a log directory: who each stands for, and what it has open. The coordinator's part.

A cluster keeps this in `__transaction_state`; a directory at rest keeps it in one small text beside its checkpoints,
which a broker leaves alone. Each change is durable before it has an effect: a partition is noted before the first batch
of a transaction goes there, the outcome before the first marker. So the next `open_log_dir` after a crash finishes a
commit that was cut short, and aborts a transaction without an outcome: who holds the directory's lock knows that its
producer is gone. A transaction is aborted, too, when its id is taken again.
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

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from brokerless.append.writer import LogWriter

FILE = "brokerless-transactional-ids.json"
_VERSION = 0
_MAX_EPOCH = (1 << 15) - 1
# One coordinator, of one epoch: there is nobody else to be fenced.
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
        writer: gives the log of a partition, open for writing.
        partitions: what there is; a partition that was deleted needs no marker.

    Raises:
        CorruptRecordError: the file cannot be read.
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
        """End what a crash left open: as was decided before it, or else with an abort."""
        for transactional_id in self._states:
            self._abort_open(transactional_id)

    def start(self, transactional_id: str, producer_id: int | None = None) -> tuple[int, int]:
        """Take a transactional id: fence who had it, and abort what that left open.

        Args:
            transactional_id: any text.
            producer_id: for an id that is new; None for a random one.

        Returns:
            The producer id, and the epoch to be used from now on.

        Raises:
            ValueError: the id stands for another producer id.
        """
        known = self._states.get(transactional_id)
        if known is None:
            known = _State(new_producer_id() if producer_id is None else producer_id, -1)
        elif producer_id not in (None, known.producer_id):
            raise ValueError(f"transactional id {transactional_id!r} stands for producer id {known.producer_id}")
        if known.producer_epoch >= _MAX_EPOCH - 1:
            # its last epoch is kept for the markers of what is open
            self._states[transactional_id] = known
            self._abort_open(transactional_id)
            known = _State(new_producer_id(), -1)
        known.producer_epoch += 1
        self._states[transactional_id] = known
        self._abort_open(transactional_id)
        self._write()
        return known.producer_id, known.producer_epoch

    def epoch(self, transactional_id: str) -> tuple[int, int]:
        """Return the producer id and epoch of the newest producer."""
        state = self._states[transactional_id]
        return state.producer_id, state.producer_epoch

    def add(self, transactional_id: str, topic: str, partition: int) -> None:
        """Note that the transaction goes to a partition, before it does."""
        self._states[transactional_id].partitions.append((topic, partition))
        self._write()

    def end(self, transactional_id: str, *, is_commit: bool) -> None:
        """Decide the transaction, and write its marker to each partition that it touched.

        An outcome that was decided before, and not carried out to the end, stays.
        What was appended before must be durable. When this returns, the markers are.
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
    """Return a producer id that no broker gives: they count theirs from 0.

    A broker that met a new producer of its own with an id of ours would take its first batch for one that it has, and
    drop it without a word.

    >>> new_producer_id() >= 1 << 62
    True
    """
    return _native.FIRST_OWN_PRODUCER_ID + secrets.randbelow((1 << 63) - _native.FIRST_OWN_PRODUCER_ID)


def check_file(directory: str) -> None:
    """Raise what opening a log directory would raise at its transactional ids.

    Raises:
        CorruptRecordError: the file cannot be read.
    """
    _states(f"{directory}/{FILE}")


def _states(path: str) -> dict[str, _State]:
    return _read(path) if storage.exists(path) else {}


def _read(path: str) -> dict[str, _State]:
    try:
        content = json.loads(storage.read_all(path))
        if content["version"] != _VERSION:
            raise CorruptRecordError(f"unknown version: stored {content['version']}, known {_VERSION}", path=path)
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
        raise ValueError(f"{value!r} is not an integer from {low} to {high}")
    return value


def _outcome(value: object) -> Literal["open", "commit", "abort"]:
    if value == "commit" or value == "abort" or value == "open":  # noqa: PLR1714 - what mypy understands
        return value
    raise ValueError(f"{value!r} is no outcome")
