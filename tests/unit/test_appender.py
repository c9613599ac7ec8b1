"""The appender where Kafka's cases end: many requests at once, refusals without a trace, old formats, recovery."""

import itertools
import struct

import pyarrow as pa
import pytest

from appending import DEFAULTS, KINDS, MemoryLog, T, everything, recovered
from brokerless import _native, errors
from building import batch, marker


def with_byte(data, at, value):
    return data[:at] + bytes([value]) + data[at + 1 :]


def contents(log):
    return {base: {kind: bytes(files[kind]) for kind in KINDS} for base, files in log.segments.items()}


def requests():
    """Requests of several producers, as one broker could get them."""
    yield batch(0, [b"plain"] * 3)
    for sequence in range(0, 12, 2):
        yield batch(0, [b"a" * 50] * 2, producer_id=7, base_sequence=sequence, timestamp=T + sequence)
        yield batch(0, [b"t"], producer_id=8, base_sequence=sequence // 2, transactional=True)
        if sequence % 4 == 2:
            yield batch(0, [b"again"] * 3)


def mixed_log(**settings):
    """Make a log with rolls, epochs, open, aborted and committed transactions."""
    log = MemoryLog(index_interval_bytes=100, segment_bytes=700, **settings)
    for number, request in enumerate(requests()):
        log.append(request, leader_epoch=number // 4)
        if number % 3 == 2:
            log.append(marker(0, 8, commit=number % 2 == 0), origin="coordinator", leader_epoch=number // 4)
    return log


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
    assert str(caught.value).startswith("2 records are refused, the first is record 0 at position 0 (base_offset 0): ")
    with pytest.raises(errors.RecordTooLargeError, match=r"batch is 70 bytes.*max_message_bytes is 69"):
        MemoryLog(max_message_bytes=69).append(batch(0, [b"vv"]))


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


# formats 0 and 1


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


def test_a_message_of_an_old_format_ends_the_leader_epochs():
    log = MemoryLog()
    log.append(REQUEST, leader_epoch=4)
    assert log.appender.leader_epochs.entries() == [(4, 0)]
    message = with_byte(compressed(1, batch(0, [b"v"]), "uncompressed"), 7, 3)
    appended = log.append(message, origin="replication", leader_epoch=4)
    assert appended.has_new_epochs
    assert log.appender.leader_epochs.entries() == []


# recovery


def test_recovery_makes_anew_what_the_appends_wrote():
    """Also where the file comes in windows of any size."""
    log = mixed_log()
    log.close()
    assert len(log.segments) > 3
    assert any(files["txnindex"] for files in log.segments.values())
    for window in (None, 1, 37, 200):
        producers, epochs = _native.Producers(), _native.LeaderEpochs()
        for base, files in sorted(log.segments.items()):
            if base in log.snapshots:
                assert producers.to_snapshot() == log.snapshots[base]
            recovery = recovered(bytes(files["log"]), base, producers, epochs, log.settings, window)
            assert (recovery.ended, recovery.valid_bytes) == ("whole", len(files["log"]))
            made = {kind: getattr(recovery, kind) for kind in KINDS[1:]}
            assert made == {kind: bytes(files[kind]) for kind in KINDS[1:]}
        assert epochs.entries() == log.appender.leader_epochs.entries()
        assert producers.entries() == log.appender.producers.entries()
        assert recovery.next_offset == log.appender.log_end_offset


def test_a_segment_cut_anywhere_keeps_its_whole_batches():
    log = mixed_log(max_message_bytes=1000)
    data = bytes(log.segments[0]["log"])
    ends = [0, *(b["position"] + b["size"] for b in log.batches(0))]
    for cut in range(len(data) + 1):
        recovery = recovered(data[:cut], 0)
        assert (recovery.ended, recovery.valid_bytes) == ("whole", max(end for end in ends if end <= cut))
        assert recovery.batches == sum(0 < end <= cut for end in ends)


def test_zeros_behind_the_batches_are_cut_off_however_few():
    good = batch(0, [b"v"])
    for zeros in range(40):
        recovery = recovered(good + bytes(zeros), 0)
        assert (recovery.valid_bytes, recovery.next_offset) == (len(good), 1)
        assert recovery.ended == ("cut" if zeros > 17 else "whole")


def short_marker():
    """Build a marker whose value is too short for a coordinator epoch."""
    key, value = struct.pack(">hh", 0, 0), b"\0\0"
    return batch(1, [value], keys=[key], producer_id=7, transactional=True, control=True)


GOOD = batch(0, [b"v"], leader_epoch=1)
OPEN = batch(0, [b"v"], producer_id=7, base_sequence=0, transactional=True)
NEXT = batch(1, [b"w"], leader_epoch=2)


@pytest.mark.parametrize(
    ("data", "base", "ended", "batches", "error"),
    [
        pytest.param(GOOD + with_byte(NEXT, 50, 1), 0, "cut", 1, "crc mismatch", id="crc"),
        pytest.param(GOOD + bytes(30), 0, "cut", 1, "length 0 is below", id="length"),
        pytest.param(with_byte(GOOD, 16, 5) + NEXT, 0, "whole", 2, None, id="magic-5-is-outside-the-crc"),
        pytest.param(GOOD + batch(1 << 31, [b"v"]), 0, "split", 1, "not within 2", id="too-far"),
        pytest.param(GOOD, 5, "failed", 0, "not within 2", id="below-the-base"),
        pytest.param(GOOD * 400, 0, "emptied", 0, "not above the offset index's last one", id="not-ascending"),
        pytest.param(
            OPEN + batch(1, [b"v"], producer_id=7, base_sequence=1),
            0,
            "failed",
            2,
            "transaction from offset 0 on is open",
            id="outside-the-open-transaction",
        ),
        pytest.param(OPEN + short_marker() + batch(2, [b"v"]), 0, "cut", 2, "2 bytes, 6 needed", id="bad-marker-stays"),
        pytest.param(batch(0, [], last_offset_delta=0) + NEXT, 0, "whole", 2, None, id="empty-batch"),
        pytest.param(b"", 3, "whole", 0, None, id="nothing"),
    ],
)
def test_what_a_load_makes_of_trouble(data, base, ended, batches, error):
    recovery = recovered(data, base)
    assert (recovery.ended, recovery.batches) == (ended, batches)
    assert (recovery.error is None) if error is None else (error in recovery.error)
    if ended == "emptied":
        assert (recovery.valid_bytes, recovery.index, recovery.timeindex) == (0, b"", b"")


def test_recovery_believes_only_newer_epochs():
    epochs = _native.LeaderEpochs([(1, 0)])
    data = GOOD + NEXT + batch(2, [b"v"], leader_epoch=1) + batch(3, [b"v"], leader_epoch=-1)
    recovery = recovered(data, 0, epochs=epochs)
    assert (recovery.ended, recovery.has_new_epochs) == ("whole", True)
    assert epochs.entries() == [(1, 0), (2, 1)]


def test_a_replay_brings_producers_forward_between_two_offsets():
    log = mixed_log(segment_ms=1 << 40)
    for start, end in ((0, 1 << 60), (0, 7), (4, 9)):
        expected = _native.Producers()
        for base, files in sorted(log.segments.items()):
            inside = [b for b in log.batches(base) if start <= b["last_offset"] < end]
            recovered(b"".join(bytes(files["log"])[b["position"] :][: b["size"]] for b in inside), base, expected)
        found = _native.Producers()
        for files in (log.segments[base] for base in sorted(log.segments)):
            replay, data = _native.ProducerReplay(found, start, end), bytes(files["log"])
            position = 0
            while replay.ended is None:
                position += replay.feed(data[position : position + 300], position, len(data))
            assert replay.ended == "whole"
        assert found.entries() == expected.entries()
        assert found.first_unstable_offset == expected.first_unstable_offset


def test_a_replay_that_fails_changes_nothing():
    producers = _native.Producers()
    data = OPEN + batch(1, [b"v"], producer_id=7, base_sequence=1)
    replay = _native.ProducerReplay(producers, 0)
    replay.feed(data, 0, len(data))
    assert replay.ended == "failed"
    assert producers.is_empty


def test_positions_must_follow_each_other():
    with pytest.raises(ValueError, match="not where the recovery is"):
        _native.SegmentRecovery(
            0,
            producers=_native.Producers(),
            epochs=_native.LeaderEpochs(),
            index_interval_bytes=DEFAULTS["index_interval_bytes"],
            segment_index_bytes=DEFAULTS["segment_index_bytes"],
        ).feed(GOOD, 1, len(GOOD))
    with pytest.raises(ValueError, match="not where the replay is"):
        _native.ProducerReplay(_native.Producers(), 0).feed(GOOD, 1, len(GOOD))


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
        MemoryLog().append(REQUEST, origin="Client")


# what brokers left behind

REOPENED = "opened again, which starts the count of the index interval anew"
CLEANED = "the cleaner dropped what the transaction index, or a snapshot taken before, still tells of"
NOT_REBUILT = {
    "__cluster_metadata-0": REOPENED,
    "__transaction_state-0": REOPENED,
    "__transaction_state-1": REOPENED,
    "leader-epochs-0": REOPENED,
    "compact-idempotent-0": CLEANED,
    "compact-txn-0": CLEANED,
    "compact-txn-expired-0": CLEANED,
}


def rebuilt(directory, interval):
    """Recover the segments of a partition; tell whether its broker left the same indexes and snapshots."""
    producers, epochs = _native.Producers(), _native.LeaderEpochs()
    settings = DEFAULTS | {"index_interval_bytes": interval}
    recovery = None
    for path in sorted(directory.glob("*.log")):
        if recovery is not None and not is_snapshot(path.with_suffix(".snapshot"), producers):
            return False
        recovery = recovered(path.read_bytes(), int(path.stem), producers, epochs, settings, 1 << 14)
        assert (recovery.ended, recovery.valid_bytes) == ("whole", path.stat().st_size)
        for kind in KINDS[1:]:
            file = path.with_suffix(f".{kind}")
            if getattr(recovery, kind) != (file.read_bytes() if file.exists() else b""):
                return False
    return is_snapshot(directory / f"{recovery.next_offset:020d}.snapshot", producers)


def is_snapshot(path, producers):
    """Tell whether the file, if there is one, holds that state; the order of its entries means nothing."""
    if not path.exists():
        return True
    entries = _native.producer_snapshot(path.read_bytes()).to_pylist()
    return sorted(entries, key=lambda entry: entry["producer_id"]) == producers.entries().to_pylist()


def test_recovery_rebuilds_the_files_that_brokers_left(golden):
    """Byte by byte: what a broker indexed as it appended, and what it knew of producers and transactions."""
    found = {}
    for directory in sorted((golden / "logs" / "kafka-4.1").iterdir()):
        if directory.is_dir() and any(directory.glob("*.log")):
            found[directory.name] = any(rebuilt(directory, interval) for interval in (512, 1024, 4096))
    assert len(found) > 40
    assert {name for name, is_same in found.items() if not is_same} == set(NOT_REBUILT)
