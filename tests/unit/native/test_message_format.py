"""Appends to topics whose message format is 0 or 1: what is stored of a request, and what is refused."""

import pytest

from brokerless import _native, errors
from support.log_files import batch
from support.memory_log import MemoryLog, T, everything, with_byte


def compressed(log_format, request, codec="gzip"):
    """Return what a topic of that format and codec stores of a request."""
    log = MemoryLog(message_format=log_format, compression_type=codec)
    log.append(request)
    return log.bytes


def read(data):
    decoder = _native.Decoder(["offset", "timestamp", "key", "value"])
    rows = []
    while data:
        batch_of_rows, consumed = decoder.decode(data)
        rows += batch_of_rows.to_pylist()
        data = data[consumed:]
    return [(r["offset"], round(r["timestamp"].timestamp() * 1000), r["key"], r["value"]) for r in rows]


def magics(log):
    return [(b["magic"], b["compression"], b["base_offset"], b["last_offset"]) for b in log.batches(0)]


ROWS = [(0, T, b"k", b"v"), (1, T + 1, None, b"w"), (2, T + 2, b"", b"")]
REQUEST = batch(0, [value for *_, value in ROWS], keys=[key for _, _, key, _ in ROWS])


@pytest.mark.parametrize("log_format", [0, 1])
@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4"])
def test_a_topic_of_an_old_format_stores_its_own_magic(log_format, codec):
    log = MemoryLog(message_format=log_format, compression_type=codec)
    for start in (0, 3):
        appended = log.append(REQUEST)
        assert (appended.first_offset, appended.last_offset) == (start, start + 2)
        assert appended.max_timestamp == (T + 2 if log_format else -1)
    expected = [
        (offset + start, timestamp if log_format else -1, key, value)
        for start in (0, 3)
        for offset, timestamp, key, value in ROWS
    ]
    assert read(log.bytes) == expected
    if codec == "uncompressed":
        assert magics(log) == [(log_format, "none", offset, offset) for offset in range(6)]
    else:
        assert magics(log) == [(log_format, codec, start, start + 2) for start in (0, 3)]
    assert log.appender.leader_epochs.entries() == []


@pytest.mark.parametrize("codec", ["uncompressed", "gzip"])
def test_a_request_of_magic_1_stays_as_it_is_in_a_topic_of_format_1(codec):
    request = compressed(1, REQUEST, codec)
    log = MemoryLog(message_format=1, log_end_offset=0)
    log.append(request)
    log.append(request)
    offset_fields = (0, 8)
    assert len(log.bytes) == 2 * len(request)
    assert log.bytes[: len(request)] == request
    second = log.bytes[len(request) :]
    assert second[offset_fields[1] : 30] == request[offset_fields[1] : 30]
    assert [offset for offset, *_ in read(log.bytes)] == [*range(6)]


def test_log_append_time_is_written_into_messages_of_magic_1():
    for codec in ("uncompressed", "gzip"):
        log = MemoryLog(message_format=1, message_timestamp_type="LogAppendTime", now=T + 500)
        appended = log.append(compressed(1, REQUEST, codec))
        assert (appended.log_append_time, appended.max_timestamp) == (T + 500, T + 500)
        assert {timestamp for _, timestamp, _, _ in read(log.bytes)} == {T + 500}
        assert all(entry["is_valid"] for entry in _native.scan(log.bytes, check_crcs=True)[0].to_pylist())


def test_a_wrapper_of_magic_0_is_rebuilt_with_the_offsets_of_the_log():
    request = compressed(0, REQUEST)
    log = MemoryLog(message_format=0)
    log.append(request)
    log.append(request)
    assert [offset for offset, *_ in read(log.bytes)] == [*range(6)]


def test_old_formats_refuse_what_they_cannot_hold():
    for log_format in (0, 1):
        log = MemoryLog(message_format=log_format)
        before = everything(log)
        for request in (
            batch(0, [b"v"], producer_id=7, base_sequence=0),
            batch(0, [b"v"], producer_id=7, base_sequence=0, transactional=True),
        ):
            with pytest.raises(errors.UnsupportedForMessageFormatError, match=f"stores magic {log_format}"):
                log.append(request)
        with pytest.raises(errors.UnsupportedCompressionTypeError, match="zstd needs magic 2"):
            log.append(compressed(2, REQUEST, "zstd"))
        assert everything(log) == before


def test_old_formats_refuse_log_append_time_from_a_client_beside_a_good_time_too():
    """A broker that stores magic 2 takes the times for the producer's own."""
    for magic in (1, 2):
        stamped = MemoryLog(message_format=magic, message_timestamp_type="LogAppendTime", compression_type="gzip")
        stamped.append(REQUEST)
        request = stamped.bytes
        MemoryLog().append(request)
        for log_format in (0, 1):
            log = MemoryLog(message_format=log_format)
            before = everything(log)
            with pytest.raises(errors.InvalidTimestampError, match="claims LogAppendTime"):
                log.append(request)
            assert everything(log) == before


def test_a_message_of_an_old_format_ends_the_leader_epochs():
    log = MemoryLog()
    log.append(REQUEST, leader_epoch=4)
    assert log.appender.leader_epochs.entries() == [(4, 0)]
    message = with_byte(compressed(1, batch(0, [b"v"]), "uncompressed"), 7, 3)
    appended = log.append(message, origin="replication", leader_epoch=4)
    assert appended.has_new_epochs
    assert log.appender.leader_epochs.entries() == []
