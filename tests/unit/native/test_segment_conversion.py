"""Bytes of a segment converted: no row changes by format, codec, batch size or number of threads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerless import _native
from support.kafka_answers import partitions
from support.log_files import NOW, batch

LOG_DIRS = ["kafka-2.8-v0", "kafka-2.8-v1", "kafka-2.8-mixed", "kafka-4.1"]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


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
            data = b"".join(p.read_bytes() for p in sorted((golden / "logs" / log_dir / partition).glob("*.log")))
            assert data, partition
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


@pytest.mark.slow
def test_threads_stop_when_they_have_made_enough_and_count_nothing_twice():
    """Batches of zeros that become a thousand times as large: what was made in vain is made again."""
    small = native(batch(0, [bytes(4 << 20)]), compression="zstd")
    # the checksum leaves the base offset out
    data = b"".join(offset.to_bytes(8) + small[8:] for offset in range(40))
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


@given(logs(), st.sampled_from(CODECS), st.sampled_from([None, 62, 200, 100_000]))
def test_no_row_changes_by_codec_or_batch_size(data, codec, batch_size):
    converted = native(data, compression=codec, batch_size=batch_size)
    assert decoded(converted) == decoded(data)
    assert decoded(native(converted, compression="none")) == decoded(data)


@given(logs(), st.sampled_from([0, 1]), st.sampled_from(CODECS[:4]), st.sampled_from([None, 200]))
def test_down_and_up_again_keeps_what_old_formats_hold(data, magic, codec, batch_size):
    down = native(data, magic=magic, compression=codec, drop_producers=True, batch_size=batch_size)
    up = native(down, magic=2)
    kept = ["offset", "key", "value"] + ["timestamp"] * magic
    for converted in (down, up):
        assert [[row[name] for name in kept] for row in decoded(converted)] == [
            [row[name] for name in kept] for row in decoded(data)
        ]


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


@pytest.mark.slow
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
