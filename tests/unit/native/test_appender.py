"""The appender where Kafka's cases end: many requests at once, refusals without a trace, settings."""

import itertools
from random import Random

import pyarrow as pa
import pytest

from brokerless import _native, errors
from support.encoder_rows import rows_of
from support.log_files import batch
from support.memory_log import KINDS, MemoryLog, T, everything, requests, with_byte


def contents(log):
    return {base: {kind: bytes(files[kind]) for kind in KINDS} for base, files in log.segments.items()}


def test_many_requests_in_one_call_end_as_the_same_one_by_one():
    settings = {"index_interval_bytes": 100, "segment_bytes": 700}
    data = list(requests())
    one_by_one, at_once = MemoryLog(**settings), MemoryLog(**settings)
    for request in data:
        one_by_one.append(request)
    appended = at_once.append_each(b"".join(data) + b"\0" * 11)
    assert (appended.error, appended.count, appended.duplicates) == (None, len(data), 0)
    assert appended.consumed == sum(map(len, data))
    assert (appended.first_offset, appended.last_offset) == (0, at_once.appender.log_end_offset - 1)
    assert len(at_once.segments) > 2
    assert contents(at_once) == contents(one_by_one)
    assert everything(at_once) == everything(one_by_one)
    assert at_once.snapshots == one_by_one.snapshots


NEAR = (0, 1, -1, T, T - 1, T + 1, T + 5, T + 6, -1)
TOPICS = [
    {},
    {"message_timestamp_type": "LogAppendTime"},
    {"message_timestamp_after_max_ms": 5},
    {"message_timestamp_before_max_ms": 5},
    {"message_timestamp_before_max_ms": 5, "message_timestamp_type": "LogAppendTime"},
    {"cleanup_policy": "compact"},
    {"cleanup_policy": "compact,delete"},
    {"compression_type": "lz4"},
    {"compression_type": "uncompressed"},
    {"max_message_bytes": 400},
    {"max_decompressed_message_bytes": 40},
    {"segment_bytes": 900, "index_interval_bytes": 0},
]


@pytest.mark.parametrize("topic", TOPICS, ids=str)
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("producer", [{}, {"producer_id": 7}, {"producer_id": 7, "is_transactional": True}], ids=str)
def test_what_the_encoder_made_is_taken_as_anybodys_is(topic, codec, producer):
    """Its records are not walked, so its headers have to say all that the records would."""
    random = Random(repr((topic, codec, producer)))
    sequences = {"producer_epoch": 0, "base_sequence": 0} if producer else {}
    encoder = _native.Encoder(compression=codec, batch_size=300, **producer, **sequences)
    checked, trusted = MemoryLog(**topic), MemoryLog(**topic)
    for _ in range(12):
        count = random.randrange(1, 9)
        times = random.choice([[T] * count, random.choices(NEAR, k=count)])
        rows = rows_of(
            [random.choice([None, b"", random.randbytes(random.randrange(120))]) for _ in range(count)],
            key=pa.array([random.choice([b"k", b"k", b"k", None]) for _ in range(count)], pa.binary()),
            timestamp=pa.array(times, pa.int64()),
        )
        data = bytes(encoder.encode(rows, timestamp=T))
        for request in (data, data) if random.random() < 0.2 else (data,):
            said = []
            for log, is_encoded_here in ((checked, False), (trusted, True)):
                answer = log.append_each(request, is_encoded_here=is_encoded_here)
                names = ("first_offset", "last_offset", "log_append_time", "max_timestamp", "count", "duplicates")
                said.append(([getattr(answer, name) for name in names], answer.consumed, repr(answer.error)))
            assert said[0] == said[1]
    assert contents(trusted) == contents(checked)
    assert everything(trusted) == everything(checked)
    assert trusted.snapshots == checked.snapshots


def test_what_is_much_comes_without_a_copy():
    log = MemoryLog()
    (write,) = log.append_each(batch(0, [b"v" * 1000] * 16) * 8).writes
    assert isinstance(write.log, pa.Buffer)
    assert len(write.log) == log.appender.segment_size


def test_the_first_refused_of_many_ends_the_call_and_those_before_count():
    first, gap = (batch(0, [b"v"], producer_id=7, base_sequence=sequence) for sequence in (0, 5))
    log = MemoryLog()
    appended = log.append_each(first + first + gap + batch(0, [b"never"]))
    assert (appended.count, appended.duplicates, appended.consumed) == (2, 1, 2 * len(first))
    assert isinstance(appended.error, errors.OutOfOrderSequenceError)
    assert appended.error.position == 2 * len(first)
    assert "base_sequence 5, 1 is next" in str(appended.error)
    assert (log.appender.log_end_offset, len(log.bytes)) == (1, len(first))


def test_broken_framing_between_requests_says_where():
    good = batch(0, [b"v"])
    appended = MemoryLog().append_each(good + bytes(40))
    assert (appended.count, type(appended.error)) == (1, errors.CorruptRecordError)
    assert appended.error.position == len(good)


def test_a_request_refused_for_its_producer_does_not_roll_the_segment_first():
    request = batch(0, [b"v" * 100], producer_id=7, base_sequence=0)
    log = MemoryLog(segment_bytes=len(request) + 1)
    log.append(request)
    before = everything(log)
    with pytest.raises(errors.OutOfOrderSequenceError):
        log.append(batch(0, [b"v" * 100], producer_id=7, base_sequence=2), leader_epoch=5)
    assert everything(log) == before
    appended = log.append(request, leader_epoch=5)
    assert (appended.is_duplicate, appended.writes) == (True, [])
    assert everything(log) == before


def test_an_index_that_fills_up_within_a_call_refuses_all_of_it():
    log = MemoryLog(segment_index_bytes=36, index_interval_bytes=0)
    data = b"".join(batch(offset, [b"v"], timestamp=T + offset) for offset in range(6))
    before = everything(log)
    with pytest.raises(errors.AppendError, match="time index is full"):
        log.append(data, origin="replication")
    assert everything(log) == before
    appended = log.append_each(data, origin="replication")
    assert appended.error is None
    assert [write.base_offset for write in appended.writes] == [0, 3]


def test_a_cut_request_is_nothing_and_a_cut_tail_is_left_out():
    request = batch(0, [b"v", b"w"])
    for cut in range(len(request)):
        log = MemoryLog()
        before = everything(log)
        assert log.append(request[:cut]).count == 0
        assert everything(log) == before
        log.append(request + request[:cut])
        assert len(log.bytes) == len(request)


def test_a_broken_bit_is_refused_or_does_no_harm():
    request = batch(0, [b"v", b"w"], keys=[b"k", None], producer_id=7, base_sequence=0)
    # outside the checksum: base offset, length, leader epoch, magic
    for at, bit in itertools.product(range(len(request)), range(8)):
        log = MemoryLog()
        before = everything(log)
        try:
            taken = log.append(with_byte(request, at, request[at] ^ 1 << bit)).count
        except (errors.AppendError, errors.CorruptRecordError):
            taken = 0
        assert taken == (12 <= at < 16), (at, bit)
        if not taken:
            assert everything(log) == before


def test_errors_name_the_records_the_limit_and_the_way_out():
    log = MemoryLog(cleanup_policy="compact", message_timestamp_before_max_ms=10)
    with pytest.raises(errors.InvalidTimestampError) as caught:
        log.append(batch(0, [b"v"] * 3, keys=[None, b"k", b"k"], timestamp=T - 20, step=5))
    assert [index for index, _ in caught.value.record_errors] == [0, 1]
    assert "null key" in caught.value.record_errors[0][1]
    assert f"timestamp {T - 15} is not within 10 ms before" in caught.value.record_errors[1][1]
    assert str(caught.value).startswith("2 records are refused; the first is record 0 at position 0 (base_offset 0): ")
    with pytest.raises(errors.RecordTooLargeError, match=r"batch has 70 bytes.*max_message_bytes is 69"):
        MemoryLog(max_message_bytes=69).append(batch(0, [b"vv"]))


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_record_of_a_compressed_batch_may_not_be_larger_than_the_topic_says(magic):
    """Brokers since 4.4: of batches that are not compressed, max.message.bytes is limit enough."""
    value = b"v" * 1000
    size = 1000 + (14, 22, 7)[magic]
    encoder = _native.Encoder(magic=magic, compression="gzip")
    data = bytes(encoder.encode(rows_of([value]), timestamp=T))
    topic = {"message_format": magic, "message_timestamp_before_max_ms": (1 << 63) - 1}
    MemoryLog(**topic, max_decompressed_message_bytes=size).append(data)
    refused = MemoryLog(**topic, max_decompressed_message_bytes=size - 1)
    with pytest.raises(errors.InvalidRecordError, match=rf"record is {size} bytes decompressed, max_.* is {size - 1}"):
        refused.append(data)
    assert refused.appender.log_end_offset == 0
    plain = _native.Encoder(magic=magic).encode(rows_of([value]), timestamp=T)
    refused.append(bytes(plain))


def test_very_many_record_errors_are_counted_and_not_all_listed():
    log = MemoryLog(cleanup_policy="compact", max_message_bytes=1 << 24)
    with pytest.raises(errors.InvalidRecordError, match="70000 records are refused") as caught:
        log.append(batch(0, [b""] * 70_000))
    assert len(caught.value.record_errors) == 1 << 16


def test_jitter_makes_segments_roll_early_each_by_its_own():
    def rolled_after(jitter, seed):
        log = MemoryLog(segment_ms=1000, segment_jitter_ms=jitter, segment_jitter_seed=seed)
        return next(ms for ms in range(1, 1100) if log.append(batch(0, [b"v"], timestamp=T + ms)).writes[0].is_new) - 1

    assert {rolled_after(0, seed) for seed in range(5)} == {1001}
    found = {rolled_after(400, seed) for seed in range(20)}
    assert len(found) > 10
    assert all(600 < ms <= 1001 for ms in found)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"compression_type": "none"}, "compression_type is"),
        ({"compression_type": "zstd", "compression_zstd_level": 23}, "compression level 23"),
        ({"message_timestamp_type": "NoTimestampType"}, "message_timestamp_type is"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        MemoryLog(**settings)


def test_the_origin_is_one_of_four():
    with pytest.raises(ValueError, match=r"origin is .Client., not one of client, coordinator"):
        MemoryLog().append(batch(0, [b"v"]), origin="Client")
