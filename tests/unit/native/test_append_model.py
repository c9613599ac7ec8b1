"""Any sequence of appends, retries, reorderings, fences, commits and aborts ends as a simple model says."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

import brokerless as bl
from brokerless import _native
from support.log_files import batch, marker
from support.memory_log import MemoryLog, T

PRODUCERS = (1, 2, 3)
NEAR_WRAP = (1 << 31) - 4


@dataclass
class ProducerModel:
    """What a broker remembers of one producer: its epoch and last five batches, and where its transaction began."""

    epoch: int = -1
    batches: list = field(default_factory=list)  # (first sequence, last sequence, first offset, last offset)
    transaction: int | None = None

    def takes(self, epoch, sequence):
        """Tell whether the sequence follows: any does of an unknown producer, only 0 in a new epoch."""
        if epoch > self.epoch:
            return sequence == 0 or self.epoch < 0
        return sequence == (wrapped(self.batches[-1][1] + 1) if self.batches else 0)


class Model:
    """A log as a list of rows; each row is (offset, value, producer or None), and markers take an offset."""

    def __init__(self):
        self.end = 0
        self.rows = []
        self.producers = {number: ProducerModel() for number in PRODUCERS}
        self.ended = {}  # offset of a row in a transaction -> whether it was committed

    def data(self, producer_id, epoch, sequence, values, *, transactional):
        """Append, and return the error that is expected, or the offsets."""
        producer = self.producers[producer_id]
        last = wrapped(sequence + len(values) - 1)
        if epoch == producer.epoch:
            for first_sequence, last_sequence, first, end in producer.batches:
                if (first_sequence, last_sequence) == (sequence, last):
                    return first, end
        if epoch < producer.epoch:
            return bl.errors.InvalidProducerEpochError
        if not producer.takes(epoch, sequence):
            return bl.errors.OutOfOrderSequenceError
        if producer.transaction is not None and not transactional:
            return bl.errors.InvalidTxnStateError
        if epoch > producer.epoch:
            producer.batches = []
        producer.epoch = epoch
        first = self.plain(values, producer_id if transactional else None)
        producer.batches = [*producer.batches, (sequence, last, first, self.end - 1)][-5:]
        if transactional and producer.transaction is None:
            producer.transaction = first
        return first, self.end - 1

    def plain(self, values, producer_id=None):
        first = self.end
        self.rows += [(first + i, value, producer_id) for i, value in enumerate(values)]
        self.end += len(values)
        return first

    def end_transaction(self, producer_id, epoch, *, commit):
        producer = self.producers[producer_id]
        if epoch < producer.epoch:
            return bl.errors.InvalidProducerEpochError
        if epoch > producer.epoch:
            producer.epoch, producer.batches = epoch, []
        if producer.transaction is not None:
            for offset, _, owner in self.rows:
                if owner == producer_id and offset >= producer.transaction:
                    self.ended[offset] = commit
        producer.transaction = None
        self.end += 1
        return self.end - 1, self.end - 1

    @property
    def stable(self):
        return min((p.transaction for p in self.producers.values() if p.transaction is not None), default=self.end)

    def committed(self):
        return [
            (offset, value)
            for offset, value, owner in self.rows
            if offset < self.stable and (owner is None or self.ended[offset])
        ]


def wrapped(sequence):
    return sequence & 0x7FFFFFFF


def append(log, data, origin="client"):
    try:
        appended = log.append(data, origin=origin)
    except bl.errors.AppendError as error:
        return type(error)
    return appended.first_offset, appended.last_offset


def read_committed(log):
    aborted = [
        (entry["producer_id"], entry["first_offset"], entry["last_offset"])
        for base, files in log.segments.items()
        for entry in _native.TransactionIndex(files["txnindex"], base).entries().to_pylist()
    ]
    decoder = _native.Decoder(["offset", "value"], end_offset=log.appender.last_stable_offset, aborted=aborted)
    rows, data = [], log.bytes
    while data:
        found, consumed = decoder.decode(data)
        rows += [(row["offset"], row["value"]) for row in found.to_pylist()] if found is not None else []
        data = data[consumed:]
    return rows


producers = st.sampled_from(PRODUCERS)
steps = st.one_of(
    # Sequences are given against the expected one: 0 follows, below is a retry or stale, above skips.
    st.tuples(st.just("data"), producers, st.integers(-1, 1), st.integers(-6, 2), st.integers(1, 3), st.booleans()),
    st.tuples(st.just("plain"), st.integers(1, 3)),
    st.tuples(st.just("end"), producers, st.integers(-1, 1), st.booleans()),
    st.tuples(st.sampled_from(["roll", "reload", "recover"])),
)


@given(st.lists(steps, max_size=40), st.sampled_from([0, NEAR_WRAP]))
def test_a_log_is_what_the_model_says(sequence_of_steps, first_sequence):
    log, model = MemoryLog(segment_bytes=600, index_interval_bytes=0), Model()
    for number, (kind, *arguments) in enumerate(sequence_of_steps):
        if kind == "plain":
            values = [b"%d" % number] * arguments[0]
            assert append(log, batch(0, values, timestamp=T))[0] == model.plain(values)
        elif kind == "data":
            producer_id, epoch_step, sequence_step, count, transactional = arguments
            producer = model.producers[producer_id]
            epoch = max(0, producer.epoch + epoch_step)
            following = producer.batches[-1][1] + 1 if producer.batches else first_sequence if producer.epoch < 0 else 0
            sequence = wrapped(following + sequence_step)
            values = [b"%d" % number] * count
            data = batch(
                0,
                values,
                timestamp=T,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                transactional=transactional,
            )
            expected = model.data(producer_id, epoch, sequence, values, transactional=transactional)
            assert append(log, data) == expected, arguments
        elif kind == "end":
            producer_id, epoch_step, commit = arguments
            epoch = max(0, model.producers[producer_id].epoch + epoch_step)
            data = marker(0, producer_id, commit=commit, producer_epoch=epoch, timestamp=T)
            assert append(log, data, "coordinator") == model.end_transaction(producer_id, epoch, commit=commit)
        elif kind == "roll":
            log.roll()
        elif model.end:
            getattr(log, kind)()
            for producer in model.producers.values():
                # a snapshot holds the last batch of each producer only
                producer.batches = producer.batches[-1:]
        assert log.appender.log_end_offset == model.end
        assert log.appender.last_stable_offset == model.stable
    assert read_committed(log) == model.committed()
