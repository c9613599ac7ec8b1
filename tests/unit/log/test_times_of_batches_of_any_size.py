"""Every answer for a time is that of a scan of all records, whatever the sizes of batches and the state of indexes."""

import random
import struct
import time
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import brokerless as bl
from brokerless import _native
from brokerless.rewriting.retain import Retain
from brokerless.rewriting.run import rewrite
from brokerless.rewriting.truncate_to import TruncateTo
from building import NOW

# Beyond each buffer that a batch may be read through: 4 KiB, 32 KiB, 256 KiB, 1 MiB and 2 MiB.
SIZES = [1, 100, 5_000, 40_000, 300_000, 1_200_000, 2_500_000]
# A test takes less time than this, so that retention decides the same at its start and at its end.
APART = 3_600_000

batches = st.tuples(
    st.sampled_from(SIZES) | st.integers(1, 300),
    st.lists(st.integers(0, 12), min_size=1, max_size=3),
)
indexes = st.sampled_from(["all", "some", "none", "stale", "missing", "lying"])
segments = st.lists(
    st.tuples(st.lists(batches, min_size=1, max_size=6), indexes, st.integers(0, 2**16)), min_size=1, max_size=3
)


def written(directory, segments):
    """Write the segments; return offset and time of each record, by segment."""
    directory.mkdir(parents=True)
    offset, found = 0, []
    for batches, index, chosen in segments:
        base_offset, content, places, records = offset, b"", [], []
        for size, times in batches:
            rows = {"value": [b"v" * (size // len(times))] * len(times), "timestamp": [NOW + t * APART for t in times]}
            encoder = _native.Encoder(base_offset=offset, batch_size=1 << 30, partition_leader_epoch=0)
            encoded = bytes(encoder.encode(pa.RecordBatch.from_pydict(rows), timestamp=NOW))
            records += zip(range(offset, offset + len(times)), rows["timestamp"], strict=True)
            offset += len(times)
            places.append((len(content), offset - 1, max(rows["timestamp"])))
            content += encoded
        stem = directory / f"{base_offset:020d}"
        stem.with_suffix(".log").write_bytes(content)
        write_indexes(stem, base_offset, places, index, chosen)
        found.append(records)
    return found


def write_indexes(stem, base_offset, places, index, chosen):
    """Write the entries that an index interval chooses, or the first of them; or no files."""
    offsets, times, latest = [], [], -1
    for number, (position, last, largest) in enumerate(places):
        latest = max(latest, largest)
        if index == "none" or (index == "some" and not chosen >> number & 1):
            continue
        if index == "stale" and number > chosen % len(places):
            break
        if position:
            offsets.append(struct.pack(">ii", last - base_offset, position))
        if largest == latest and (not times or struct.unpack(">qi", times[-1])[0] < latest):
            times.append(struct.pack(">qi", latest, last - base_offset))
    if index == "lying":
        chance = random.Random(chosen)
        offsets = [lie(">ii", entry, (3, 100), chance) for entry in offsets]
        times = [lie(">qi", entry, (3 * APART, 3), chance) for entry in times]
    if index != "missing":
        stem.with_suffix(".index").write_bytes(b"".join(offsets))
        stem.with_suffix(".timeindex").write_bytes(b"".join(times))


def lie(form, entry, most, chance):
    """Return an entry of an index of which a number is perhaps another one."""
    numbers = struct.unpack(form, entry)
    return struct.pack(
        form,
        *(max(0, one + chance.choice([0, chance.randint(-at, at)])) for one, at in zip(numbers, most, strict=True)),
    )


def first_since(segments, timestamp):
    """Return the first record at or after a time."""
    return next((record for records in segments for record in records if record[1] >= timestamp), None)


@given(segments, st.integers(-1, 13))
def test_every_answer_is_that_of_a_scan(tmp_path_factory, segments, t):
    check(tmp_path_factory.mktemp("times"), segments, NOW + t * APART)


@pytest.mark.parametrize("index", ["all", "none", "missing", "stale", "lying"])
def test_a_large_batch_behind_the_last_index_entry(tmp_path, index):
    check(tmp_path, [([(1, [0]), (300_000, [7])], index, 0), ([(10, [8])], "all", 0)], NOW + 7 * APART)
    check(tmp_path / "many", [([(3_000, [number // 25]) for number in range(250)], index, 0)], NOW + 9 * APART)


def check(path, segments, timestamp):
    directory = path / "t-0"
    found = written(directory, segments)
    log = bl.Log(directory)
    records = [record for of_segment in found for record in of_segment]
    first = first_since(found, timestamp)
    answer = log.offsets_for_times(timestamp)
    assert (answer.offset, answer.timestamp) == (first or (-1, -1))
    latest = max(when for _, when in records)
    answer = log.offsets_for_times(-3)
    assert (answer.offset, answer.timestamp) == first_since(found, latest)

    def read(**options):
        return [offset for rows in log.read(columns=["offset"], **options) for offset in rows["offset"].to_pylist()]

    every, split = [offset for offset, _ in records], len(records) if first is None else first[0]
    assert read(start_timestamp=timestamp) == every[split:]
    assert read(end_timestamp=timestamp) == every[:split]
    if any(index == "lying" for _, index, _ in segments):
        # A broker may not see all of such a log: writers refuse it.
        return
    run = partial(rewrite, path=directory, dry_run=True)
    # A batch is cut off as a whole.
    (truncated,) = run(TruncateTo(timestamp=timestamp))
    assert truncated.report.log_end_offset == start_of_batch(segments, split)
    # A segment whose newest record is younger stays, and so do those behind it.
    old = [max(when for _, when in of_segment) < timestamp for of_segment in found]
    (retained,) = run(Retain(retention_ms=int(time.time() * 1000) - timestamp + APART // 2, cleanup_policy="delete"))
    assert retained.report.deleted_segments == [*old, False].index(False)


def start_of_batch(segments, offset):
    """Return the first offset of the batch that has an offset; the offset itself if no batch has it."""
    at = 0
    for batches, _, _ in segments:
        for _, times in batches:
            if at <= offset < at + len(times):
                return at
            at += len(times)
    return at
