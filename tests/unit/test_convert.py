"""Converted logs hold the rows that they held: logs of real brokers in every direction, and back where formats can."""

import json
import os
import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import brokerless as bl
from brokerless import _native
from brokerless.errors import CorruptRecordError
from brokerless.log.convert import Convert
from brokerless.log.rewrite import perform
from brokerless.log.settings import TopicSettings
from brokerless.log.writer import LogWriter
from brokerless.rewriting import rewrite
from building import NOW, batch, marker
from expected import CONSUMED_COLUMNS, as_consumed, consumed

COLUMNS = [*CONSUMED_COLUMNS, "producerId", "producerEpoch", "sequence", "isTransactional"]
DROPPING = frozenset({"headers", "producers"})
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
LOG_DIRS = ["kafka-2.8-v0", "kafka-2.8-v1", "kafka-2.8-mixed", "kafka-4.1"]


def partitions(golden, log_dir):
    return sorted(p.name for p in (golden / "expected" / log_dir).iterdir() if consumed(golden, log_dir, p.name, ""))


def rows(path, isolation_level="read_uncommitted", columns=COLUMNS):
    return as_rows(bl.Log(path).read(isolation_level=isolation_level, columns=columns))


def as_rows(batches):
    return [row for rows in batches for row in rows.to_pylist()]


def headers(path):
    return [
        b for log in sorted(path.glob("*.log")) for b in _native.scan(log.read_bytes(), check_crcs=True)[0].to_pylist()
    ]


def convert(path, verb, **settings):
    """Convert a partition that was left clean; return what was done."""
    with LogWriter.open(str(path), settings=TopicSettings(**settings), is_clean=True) as log:
        return perform(verb, log)


def as_magic_2(expected):
    return [
        {**row, "timestampType": "CreateTime"} if row["timestampType"] == "NoTimestampType" else row for row in expected
    ]


@pytest.mark.parametrize(
    ("log_dir", "codec"), [*((name, None) for name in LOG_DIRS), ("kafka-4.1", "none"), ("kafka-2.8-mixed", "zstd")]
)
def test_what_the_consumer_returned_is_there_in_format_2(golden, copied, log_dir, codec):
    for partition in partitions(golden, log_dir):
        path = copied(log_dir, partition)
        end = bl.Log(path).log_end_offset
        report = convert(path, Convert(magic=2, compression=codec))
        assert report.dropped_timestamps == report.dropped_producers == report.dropped_control_batches == 0
        for isolation_level in ("read_uncommitted", "read_committed"):
            found = as_consumed(bl.Log(path).read(isolation_level=isolation_level, columns=CONSUMED_COLUMNS))
            expected = consumed(golden, log_dir, partition, isolation_level)
            assert found == as_magic_2(expected), (partition, isolation_level)
        assert bl.Log(path).log_end_offset == end, partition
        found = headers(path)
        assert all(b["magic"] == 2 and b["is_valid"] for b in found)
        wanted = {codec, "none"} if codec else {b["compression"] for b in found}
        assert {b["compression"] for b in found} <= wanted
        assert all(b["is_control"] or not b["records_count"] or b["compression"] == codec for b in found if codec)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("log_dir", LOG_DIRS)
def test_what_a_read_committed_consumer_returned_is_there_in_old_formats(golden, copied, log_dir, magic):
    for partition in partitions(golden, log_dir):
        path = copied(log_dir, partition)
        end = bl.Log(path).log_end_offset
        convert(path, Convert(magic=magic, compression="gzip", drop=DROPPING))
        expected = consumed(golden, log_dir, partition, "read_committed")
        found = as_consumed(bl.Log(path).read(columns=CONSUMED_COLUMNS))
        assert [as_old(row, magic) for row in expected] == [as_old(row, magic) for row in found], partition
        assert all(row["headers"] == [] and row["leaderEpoch"] is None for row in found)
        assert {b["magic"] for b in headers(path)} <= {magic}
        assert bl.Log(path).log_end_offset == end, partition
        producers = [_native.producer_snapshot(snapshot.read_bytes()).num_rows for snapshot in path.glob("*.snapshot")]
        assert not any(producers), partition


def as_old(row, magic):
    """What a format of old keeps of a row."""
    kept = {**row, "headers": [], "leaderEpoch": None}
    return (
        {**kept, "timestamp": -1, "timestampType": "NoTimestampType"}
        if magic == 0
        else {**kept, "timestampType": row["timestampType"].replace("NoTimestampType", "CreateTime")}
    )


@pytest.mark.parametrize("partition", ["headers-0", "idempotent-0", "txn-interleaved-0"])
def test_what_old_formats_lack_is_refused_unless_asked_for(copied, partition):
    path = copied("kafka-4.1", partition)
    before = {p.name: p.read_bytes() for p in path.glob("*.log")}
    with pytest.raises(ValueError, match=r"\.log: .*which magic 1 does not know: drop (headers|producers)"):
        convert(path, Convert(magic=1, compression="none"))
    assert {p.name: p.read_bytes() for p in path.glob("*.log")} == before
    assert not list(path.glob("*.cleaned"))


def test_there_and_back_gives_the_same_bytes(golden, copied):
    """Another codec and back: only what is compressed by another library than Kafka's differs."""
    for partition in partitions(golden, "kafka-4.1"):
        if all(b["compression"] == "none" for b in headers(golden / "logs" / "kafka-4.1" / partition)):
            path = copied("kafka-4.1", partition)
            before = {p.name: p.read_bytes() for p in path.glob("*.log")}
            convert(path, Convert(compression="lz4"))
            convert(path, Convert(compression="none"))
            assert {p.name: p.read_bytes() for p in path.glob("*.log")} == before, partition


@pytest.mark.parametrize("log_dir", ["kafka-2.8-v0", "kafka-2.8-v1"])
def test_up_and_back_down_gives_the_same_rows(golden, copied, log_dir):
    magic = int(log_dir[-1])
    for partition in partitions(golden, log_dir):
        path = copied(log_dir, partition)
        before = rows(path)
        if {b["magic"] for b in headers(path)} == {magic}:
            convert(path, Convert(magic=2))
            convert(path, Convert(magic=magic))
            assert rows(path) == before, partition


def test_joined_batches_hold_the_rows_sequences_and_transactions_that_they_held(golden, copied):
    fewer = 0
    for partition in partitions(golden, "kafka-4.1"):
        path = copied("kafka-4.1", partition)
        before, committed, batches = rows(path), rows(path, "read_committed"), len(headers(path))
        convert(path, Convert(batch_size=1 << 20))
        assert rows(path) == before, partition
        assert rows(path, "read_committed") == committed, partition
        fewer += batches - len(headers(path))
    assert fewer > 100


def written(directory, *batches, **settings):
    """Write a log, and return its directory."""
    directory.mkdir()
    with LogWriter.open(str(directory), settings=TopicSettings(**settings), is_clean=True, now=lambda: NOW) as log:
        for content in batches:
            log.append_as_follower(content)
    return directory


def test_the_log_ends_where_it_did_though_markers_and_undecided_records_went(tmp_path):
    path = written(
        tmp_path / "t-0",
        batch(0, [b"a", b"b"]),
        batch(2, [b"committed"], producer_id=1, base_sequence=0, transactional=True),
        marker(3, 1, commit=True),
        batch(4, [b"open"], producer_id=2, base_sequence=0, transactional=True),
        batch(5, [b"behind"]),
    )
    report = convert(path, Convert(magic=1, drop=DROPPING))
    assert (report.dropped_producers, report.dropped_control_batches, report.dropped_undecided_records) == (1, 1, 2)
    assert [row["value"] for row in rows(path)] == [b"a", b"b", b"committed"]
    log = bl.Log(path)
    assert (log.log_end_offset, [s.base_offset for s in log.segments]) == (6, [0, 6])
    with LogWriter.open(str(path), settings=TopicSettings(message_format=1), is_clean=True) as again:
        assert again.last_stable_offset == 6
        assert again.append(message(b"next")).first_offset == 6


def message(value):
    """Build a message of format 1."""
    body = struct.pack(">bbqii", 1, 0, NOW, -1, len(value)) + value
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


def test_a_segment_that_outgrows_its_size_is_split(tmp_path):
    batches = [batch(10 * i, [b"x" * 500] * 10) for i in range(20)]
    path = written(tmp_path / "t-0", *batches)
    convert(path, Convert(compression="zstd"))
    before = rows(path)
    report = convert(path, Convert(compression="none"), segment_bytes=20_000)
    assert (report.replaced_segments, report.new_segments) == (1, 7)
    assert rows(path) == before
    segments = bl.Log(path).segments
    assert [s.base_offset for s in segments] == [0, 30, 60, 90, 120, 150, 180]
    assert all(s.size <= 20_000 for s in segments)


def test_nothing_is_replaced_where_nothing_changes(tmp_path):
    path = written(tmp_path / "t-0", batch(0, [b"a"]))
    inode = (path / f"{0:020d}.log").stat().st_ino
    report = convert(path, Convert(magic=2, compression="none"))
    assert (report.replaced_segments, report.changed_batches, report.bytes_before) == (0, 0, report.bytes_after)
    assert (path / f"{0:020d}.log").stat().st_ino == inode


def test_a_dry_run_says_the_same_and_changes_nothing(copied):
    path = copied("kafka-4.1", "multi-partition-0")
    before = {p.name: p.read_bytes() for p in path.iterdir()}
    (planned,) = rewrite(Convert(compression="zstd"), path, dry_run=True)
    assert {p.name: p.read_bytes() for p in path.iterdir()} == before
    (done,) = rewrite(Convert(compression="zstd"), path)
    assert planned.report == done.report
    assert json.loads(json.dumps(done.report.to_dict()))["changed_batches"] == done.report.changed_batches > 0


def test_modification_times_move_along(tmp_path):
    """A segment of format 0 has no other times: retention goes by them."""
    path = written(tmp_path / "t-0", batch(0, [b"a"]))
    log = path / f"{0:020d}.log"
    os.utime(log, ns=(NOW * 1_000_000,) * 2)
    convert(path, Convert(magic=0))
    assert log.stat().st_mtime_ns == NOW * 1_000_000


def test_damage_is_met_and_the_log_stays(tmp_path):
    path = written(tmp_path / "t-0", batch(0, [b"a"]), batch(1, [b"b"]))
    log = path / f"{0:020d}.log"
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(content)
    with pytest.raises(CorruptRecordError, match="crc mismatch") as error:
        convert(path, Convert(compression="zstd"))
    assert (error.value.base_offset, error.value.path) == (1, str(log))
    assert log.read_bytes() == content
    assert not list(path.glob("*.cleaned"))


@pytest.mark.parametrize(
    ("offset", "at", "message"), [(1 << 40, 1, "not below 10, where the log ends"), (5, 2, "offset 2 is below 6")]
)
def test_a_damaged_offset_costs_no_record(tmp_path, offset, at, message):
    path = written(tmp_path / "t-0", *(batch(n, [b"a"]) for n in range(3)), batch(9, [b"a"]))
    log = path / f"{0:020d}.log"
    content = bytearray(log.read_bytes())
    size = len(content) // 4
    content[size : size + 8] = offset.to_bytes(8, "big")
    log.write_bytes(content)
    with pytest.raises(CorruptRecordError, match=message) as error:
        convert(path, Convert(magic=1, drop=frozenset({"producers"})))
    assert (error.value.path, error.value.position) == (str(log), at * size)
    assert log.read_bytes() == content


def test_a_preallocated_tail_is_no_damage(tmp_path):
    path = tmp_path / "t-0"
    path.mkdir()
    settings = TopicSettings(preallocate=True, segment_bytes=1 << 20)
    with LogWriter.open(str(path), settings=settings, is_clean=True) as log:
        log.append(batch(0, [b"a"], timestamp=log.state().now))
        perform(Convert(compression="gzip"), log)
        log.append(batch(0, [b"b"], timestamp=log.state().now))
    assert [row["value"] for row in rows(path)] == [b"a", b"b"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "nothing to convert"),
        ({"magic": 3}, "magic 3 is not"),
        ({"compression": "brotli"}, 'compression is "brotli"'),
        ({"compression_level": 3}, "needs a compression"),
        ({"compression": "gzip", "compression_level": 10}, "compression level 10"),
        ({"magic": 1, "drop": frozenset({"timestamps"})}, "cannot drop 'timestamps'"),
        ({"magic": 2, "drop": DROPPING}, "nothing needs to be dropped"),
    ],
)
def test_a_conversion_that_cannot_be_is_refused_at_once(options, message):
    with pytest.raises(ValueError, match=message):
        Convert(**options)


@st.composite
def logs(draw):
    """Batches in the order of their offsets, of producers and of none, as they can follow each other."""
    batches, offset, sequences = [], 0, {}
    for _ in range(draw(st.integers(1, 12))):
        producer = draw(st.sampled_from([-1, -1, 7, 8]))
        count = draw(st.integers(1, 4))
        values = draw(st.lists(st.one_of(st.none(), st.binary(max_size=20)), min_size=count, max_size=count))
        sequence = sequences.get(producer, 0) if producer >= 0 else -1
        offset += draw(st.sampled_from([0, 0, 0, 3]))
        fields = {"producer_id": producer, "base_sequence": sequence, "leader_epoch": draw(st.sampled_from([0, 0, 1]))}
        batches.append(batch(offset, values, keys=values[::-1], timestamp=NOW + draw(st.integers(-50, 50)), **fields))
        sequences[producer] = sequence + count
        offset += count
    return b"".join(batches)


def native(data, *, segment=0, **options):
    conversion = _native.SegmentConversion(**options)
    conversion.begin(b"", 1 << 31)
    output = _native.SegmentOutput(segment, index_interval_bytes=4096, segment_index_bytes=1 << 20)
    position = 0
    while position < len(data):
        consumed = conversion.feed(data[position:], position, output)
        assert consumed
        position += consumed
    assert conversion.finish(output)
    return bytes(output.take()[0])


@pytest.mark.parametrize("codec", CODECS)
def test_several_threads_make_the_same_bytes_and_counts(golden, codec):
    """Segments of every format, magic 0 and 1 among them, whose messages wait for each other."""
    for log_dir in LOG_DIRS:
        for partition in partitions(golden, log_dir):
            data = b"".join(p.read_bytes() for p in sorted((golden / log_dir / partition).glob("*.log")))
            made = []
            for threads in (1, 3):
                conversion = _native.SegmentConversion(magic=2, compression=codec, threads=threads)
                conversion.begin(b"", 1 << 31)
                output = _native.SegmentOutput(0, index_interval_bytes=100, segment_index_bytes=1 << 20)
                position = 0
                while position < len(data):
                    position += conversion.feed(data[position:], position, output)
                assert conversion.finish(output)
                made.append(([bytes(part) for part in output.take()], conversion.converted))
            assert made[0] == made[1], partition


def test_threads_stop_when_they_have_made_enough_and_count_nothing_twice():
    """Batches of zeros that become a thousand times as large: what was made in vain is made again."""
    small = [native(batch(offset, [bytes(4 << 20)]), compression="zstd") for offset in range(40)]
    data = b"".join(small)
    conversion = _native.SegmentConversion(compression="none", threads=2)
    conversion.begin(b"", 1 << 31)
    output = _native.SegmentOutput(0, index_interval_bytes=4096, segment_index_bytes=1 << 20)
    position, most, size = 0, 0, 0
    while position < len(data):
        position += conversion.feed(data[position:], position, output)
        most = max(most, output.pending_bytes)
        size += len(memoryview(output.take()[0]))
    assert (conversion.converted["batches"], conversion.changed) == (40, 40)
    assert size > 160 << 20
    assert most < 40 << 20


def decoded(data):
    columns = ["offset", "timestamp", "key", "value", "producerId", "producerEpoch", "sequence", "leaderEpoch"]
    found, consumed = _native.Decoder(columns).decode(data)
    assert consumed == len(data)
    return found.to_pylist()


@settings(max_examples=150, deadline=None)
@given(logs(), st.sampled_from(CODECS), st.sampled_from([None, 62, 200, 100_000]))
def test_no_row_changes_by_codec_or_batch_size(data, codec, batch_size):
    converted = native(data, compression=codec, batch_size=batch_size)
    assert decoded(converted) == decoded(data)
    assert decoded(native(converted, compression="none")) == decoded(data)


@settings(max_examples=100, deadline=None)
@given(logs(), st.sampled_from([0, 1]), st.sampled_from(CODECS[:4]), st.sampled_from([None, 200]))
def test_down_and_up_again_keeps_what_old_formats_hold(data, magic, codec, batch_size):
    down = native(data, magic=magic, compression=codec, drop_producers=True, batch_size=batch_size)
    up = native(down, magic=2)
    kept = ["offset", "key", "value"] + ["timestamp"] * magic
    for converted in (down, up):
        assert [[row[name] for name in kept] for row in decoded(converted)] == [
            [row[name] for name in kept] for row in decoded(data)
        ]


@settings(max_examples=100, deadline=None)
@given(logs(), st.data())
def test_a_cut_anywhere_leaves_what_is_whole(data, source):
    cut = source.draw(st.integers(0, len(data) - 1))
    conversion = _native.SegmentConversion(compression="lz4")
    conversion.begin(b"", 1 << 31)
    output = _native.SegmentOutput(0, index_interval_bytes=4096, segment_index_bytes=1 << 20)
    consumed = conversion.feed(data[:cut], 0, output)
    assert consumed <= cut
    assert _native.scan(data[:cut])[1] == consumed
    assert conversion.finish(output)
    assert len(decoded(bytes(output.take()[0])) if consumed else []) == len(
        decoded(data[:consumed]) if consumed else []
    )


def test_every_single_batch_of_kafka_holds_its_rows_in_every_form(golden):
    """Null and empty, all codecs, levels and sizes, odd wrapper offsets, times out of order, control records."""
    columns = ["offset", "timestamp", "key", "value", "headers"]

    def held(data, *, magic):
        parts = [part.set_column(1, "timestamp", part["timestamp"].cast("int64")) for part in decode_all(data, columns)]
        rows = [row for part in parts for row in part.to_pylist()]
        return (
            [{**row, "headers": [], "timestamp": row["timestamp"] if magic else None} for row in rows]
            if magic < 2
            else rows
        )

    forms = 0
    for path in sorted((golden / "batches").glob("*.bin")):
        data = path.read_bytes()
        if len(data) > 1 << 20 or not all(_native.scan(data, check_crcs=True)[0]["is_valid"].to_pylist()):
            continue
        for magic in (0, 1, 2):
            for codec in ("none", "gzip") if magic < 2 else ("none", "lz4", "zstd"):
                drops = {"drop_headers": True, "drop_producers": True} if magic < 2 else {}
                segment = _native.scan(data)[0]["base_offset"][0].as_py()
                converted = native(data, segment=segment, magic=magic, compression=codec, **drops)
                assert held(converted, magic=magic) == held(data, magic=magic), (path.name, magic, codec)
                forms += 1
    assert forms > 300


def decode_all(data, columns):
    decoder, position = _native.Decoder(columns), 0
    while position < len(data):
        rows, consumed = decoder.decode(data[position:], position)
        position += consumed
        if rows is not None:
            yield rows
