"""A sound batch that begins below the end of the one before it, and ends above it, gives what a consumer gets."""

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import brokerless as bl
from brokerless import _native
from brokerless.errors import CorruptRecordError
from support.broken_directories import BROKEN, healthy
from support.log_files import NOW, batch, write_segment


def values(start, end, tag):
    return [f"{tag}{offset}".encode() for offset in range(start, end)]


def log_of(path, ranges):
    """Write a log of a batch for each range of offsets; its values tell batch and offset."""
    write_segment(path, 0, [batch(a, values(a, b, f"{n}-"), timestamp=NOW) for n, (a, b) in enumerate(ranges)])
    return bl.Log(path)


def read(log, **options):
    return [
        (row["offset"], row["value"])
        for rows in log.read(columns=["offset", "value"], **options)
        for row in rows.to_pylist()
    ]


def consumed(ranges):
    """Return what a consumer gets that asks for one offset after the other."""
    rows, end = [], 0
    for number, (start, stop) in enumerate(ranges):
        rows += [(at, f"{number}-{at}".encode()) for at in range(max(start, end), stop)]
        end = max(end, stop)
    return rows


@given(
    st.lists(st.integers(1, 12), min_size=3, max_size=8),
    st.data(),
    st.sampled_from(["raise", "skip"]),
    st.integers(0, 90),
)
def test_a_read_gives_what_a_consumer_gets(tmp_path_factory, counts, data, on_corrupt, start):
    """Wherever the log goes on behind it, unless a flipped bit explains it; also from an offset in the middle."""
    at, ranges = 0, []
    for count in counts:
        ranges.append((at, at + count))
        at += count
    which = data.draw(st.integers(1, len(ranges) - 2))
    (low, _), (begin, stop) = ranges[which - 1 : which + 1]
    first = data.draw(st.integers(low, begin)) if begin > low else begin
    ranges[which] = (first, stop)
    path = tmp_path_factory.mktemp("overlap") / "t-0"
    log = log_of(path, ranges)
    found = [finding for finding in bl.check(path) if finding.code != "epochs-differ"]
    if first < begin and (first ^ begin).bit_count() == 1:
        assert "batch-order" in {finding.code for finding in found}
        return
    assert [finding.code for finding in found] == ["offset-overlap"] * (first < begin)
    assert log.log_end_offset == at
    rows = consumed(ranges)
    assert read(log, on_corrupt=on_corrupt) == rows
    assert read(log, on_corrupt=on_corrupt, start_offset=min(start, at)) == [row for row in rows if row[0] >= start]


@pytest.mark.parametrize(
    "ranges",
    [
        [(0, 10), (8, 18), (18, 20)],  # a flipped bit may have moved it
        [(0, 10), (8, 18)],
        [(0, 10), (5, 15)],  # nothing tells where the last batch ends
        [(0, 10), (5, 15), (16, 20)],  # the next batch does not begin where it ends
        [(0, 10), (5, 15), (14, 20)],
        [(0, 4), (6, 10), (7, 15), (15, 20)],  # the one before may have been moved
        [(0, 10), (5, 10), (10, 20)],  # it ends where the one before ends
    ],
)
def test_what_may_be_damage_is_damage(tmp_path, ranges):
    log = log_of(tmp_path / "t-0", ranges)
    assert "batch-order" in {finding.code for finding in bl.check(tmp_path / "t-0")}
    with pytest.raises(CorruptRecordError, match="where the segment continues"):
        read(log)


@pytest.mark.parametrize("beyond", [-100_000, -62, -61, -60, -1, 0, 1, 60, 61, 70])
def test_a_time_is_found_wherever_the_windows_of_a_search_end(tmp_path, beyond):
    """Such a batch is confirmed by the one behind it, which is in the next window."""
    window = 1 << 18
    last = [batch(15, [b"c"], timestamp=NOW + 2), batch(16, [b"d"], timestamp=NOW + 3)]
    overlapping = batch(5, values(5, 15, "1-"), timestamp=NOW + 1, step=0)
    rest = window + beyond - len(overlapping) - len(batch(0, [b""] * 10, step=0))
    first = batch(0, [b"x" * (rest - 4), *[b""] * 9], timestamp=NOW, step=0)
    write_segment(tmp_path / "t-0", 0, [first, overlapping, *last], indexed=False)
    log = bl.Log(tmp_path / "t-0")
    assert abs(len(first) + len(overlapping) - window - beyond) < 4
    assert [log.offsets_for_times(NOW + at).offset for at in range(4)] == [0, 5, 15, 16]


def test_a_repair_makes_the_batch_anew(tmp_path):
    data = healthy(tmp_path / "data")
    BROKEN["offset-overlap"](data)
    before = read(bl.Log(data / "t-0"))
    assert [row[0] for row in before] == list(range(25))
    repaired = bl.repair(data, output=tmp_path / "new")
    assert repaired.ranges == []
    assert list(bl.check(tmp_path / "new")) == []
    after = bl.Log(tmp_path / "new/t-0")
    assert read(after) == before
    batches = [(row["base_offset"], row["last_offset"]) for part in after.scan() for row in part.to_pylist()]
    assert batches == [(0, 9), (10, 14), (15, 24)]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_all_fields_of_the_batch_stay(tmp_path, compression, timestamp_type):
    """Also of a transactional producer whose sequences wrap inside of it."""
    data = healthy(tmp_path / "data")
    BROKEN["offset-overlap"](data)
    rows = {
        "offset": list(range(5, 15)),
        "key": [None if at % 3 else b"k%d" % at for at in range(10)],
        "value": [b"v" * at for at in range(9)] + [None],
        "timestamp": [NOW + at for at in range(10)],
        "headers": [[{"key": "h", "value": b"%d" % at}] for at in range(10)],
    }
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    table = pa.RecordBatch.from_arrays(
        [pa.array(rows[name], headers if name == "headers" else None) for name in rows], names=list(rows)
    )
    encoder = _native.Encoder(
        compression=compression,
        timestamp_type=timestamp_type,
        log_append_time=NOW + 99 if timestamp_type == "LogAppendTime" else -1,
        keep_offsets=True,
        partition_leader_epoch=0,
        producer_id=7,
        producer_epoch=3,
        base_sequence=(1 << 31) - 7,
    )
    middle = bytes(encoder.encode(table, timestamp=NOW))
    path = data / "t-0/00000000000000000000.log"
    content = path.read_bytes()
    first, rest = (
        batch(0, [b"%d" % of for of in range(10)], step=0),
        batch(15, [b"%d" % of for of in range(15, 25)], step=0),
    )
    assert content.startswith(first)
    assert content.endswith(rest)
    path.write_bytes(first + middle + rest)
    for index in (data / "t-0").glob("*.*index"):
        index.unlink()
    columns = [
        "offset",
        "timestamp",
        "timestampType",
        "key",
        "value",
        "headers",
        "producerId",
        "sequence",
        "leaderEpoch",
    ]
    before = bl.Log(data / "t-0").read(columns=columns).read_all()
    bl.repair(data, output=tmp_path / "new")
    assert bl.Log(tmp_path / "new/t-0").read(columns=columns).read_all() == before
    scanned = [
        [row for part in bl.Log(one / "t-0").scan() for row in part.to_pylist()] for one in (data, tmp_path / "new")
    ]
    kept = (
        "compression",
        "timestamp_type",
        "producer_id",
        "producer_epoch",
        "last_sequence",
        "last_offset",
        "is_transactional",
    )
    assert [[row[1][name] for name in kept] for row in [scanned[0]]] == [
        [row[1][name] for name in kept] for row in [scanned[1]]
    ]
    assert all(a["last_offset"] < b["base_offset"] for a, b in pairwise(scanned[1]))
