"""What is refused is not kept: no cycle holds its bytes that Python's collector has to find, or cannot see."""

import gc
import weakref

import pyarrow as pa
import pytest

import brokerless as bl
from brokerless import _native


class Bytes(bytearray):
    """Bytes that can be waited for."""


@pytest.fixture(autouse=True)
def no_collector():
    gc.disable()
    yield
    gc.enable()


def refused(log, batches, method):
    with pytest.raises(bl.errors.RecordTooLargeError):
        getattr(log, method)(batches)


@pytest.mark.parametrize("method", ["append", "append_each"])
def test_a_refused_append_does_not_keep_its_batch(tmp_path, method):
    rows = pa.record_batch({"value": [b"x" * 1000]})
    with bl.create_log_dir(tmp_path) as log_dir:
        log_dir.create_topic("t", max_message_bytes=500)
        log = log_dir.log("t", 0)
        batches = Bytes(_native.Encoder().encode(rows, timestamp=0).to_pybytes())
        kept = weakref.ref(batches)
        refused(log, batches, method)
        del batches
        assert kept() is None


def fail(producer, rows):
    producer.send(rows)
    with pytest.raises(bl.errors.RecordTooLargeError):
        producer.flush()


def test_a_producer_that_failed_does_not_keep_its_rows(tmp_path, monkeypatch):
    # What `send` lets pass, and the append refuses.
    monkeypatch.setattr("brokerless.produce.row_rules.RowRules.check", lambda *_: None)
    content = Bytes(b"x" * 1000)
    kept = weakref.ref(content)
    buffers = [None, pa.array([0, 1000], pa.int32()).buffers()[1], pa.py_buffer(content)]
    rows = pa.record_batch({"value": pa.Array.from_buffers(pa.binary(), 1, buffers)})
    del content, buffers
    with bl.Producer(tmp_path, "t", max_message_bytes=500) as producer:
        fail(producer, rows)
        with pytest.raises(ValueError, match=r"the producer failed earlier: t-0: batch has .*; make a new one"):
            producer.send(rows)
        del rows
        assert kept() is None
