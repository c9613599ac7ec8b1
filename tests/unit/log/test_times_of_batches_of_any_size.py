"""Every answer for a time is that of a scan of all records, whatever the sizes of batches and the state of indexes."""

import random
import struct
import time
from datetime import UTC, datetime
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import brokerless as bl
from brokerless import _native
from brokerless.log.offset_range import end_at, start_at
from brokerless.rewriting.retain import Retention
from brokerless.rewriting.run import rewrite
from brokerless.rewriting.truncate import Truncation
from brokerless.serving.directory import ServedDirectory
from support.log_files import NOW

# There is no metadata log that tells the settings of the topic, and none decides here.
pytestmark = pytest.mark.filterwarnings("ignore:settings of topics are not known")

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


# Format, codec and type of timestamps. A message of format 1 without a codec is a batch of its own.
FORMATS = [(2, "none", "CreateTime"), (2, "lz4", "LogAppendTime"), (1, "none", "CreateTime"), (1, "gzip", "CreateTime")]
FORMATS += [(1, "gzip", "LogAppendTime")]
formats = st.sampled_from(FORMATS)


class Written(NamedTuple):
    """What a test wrote: the records of each segment, each with its offset and time, and the starts of batches."""

    segments: list
    starts: list


def written(directory, segments, form=FORMATS[0]):
    """Write the segments of a log."""
    magic, compression, timestamp_type = form
    directory.mkdir(parents=True)
    offset, found, starts = 0, [], []
    for batches, index, chosen in segments:
        base_offset, content, places, records = offset, b"", [], []
        for size, times in batches:
            is_alone = magic == 1 and compression == "none"
            for of_batch in [[one] for one in times] if is_alone else [times]:
                count = len(of_batch)
                when = [NOW + one * APART for one in of_batch]
                when = [max(when)] * count if timestamp_type == "LogAppendTime" else when
                offsets = pa.array(range(offset, offset + count))
                # What does not compress keeps the batch large.
                value = random.Random(offset).randbytes(size // len(times))
                rows = {"offset": offsets, "value": [value] * count, "timestamp": when}
                encoder = _native.Encoder(
                    magic=magic,
                    compression=compression,
                    batch_size=1 << 30,
                    keep_offsets=True,
                    timestamp_type=timestamp_type,
                    log_append_time=max(when) if timestamp_type == "LogAppendTime" else -1,
                    partition_leader_epoch=0 if magic == 2 else -1,
                )
                encoded = bytes(encoder.encode(pa.RecordBatch.from_pydict(rows), timestamp=NOW))
                records += zip(range(offset, offset + count), when, strict=True)
                starts.append(offset)
                offset += count
                places.append((len(content), offset - 1, max(when)))
                content += encoded
        stem = directory / f"{base_offset:020d}"
        stem.with_suffix(".log").write_bytes(content)
        write_indexes(stem, base_offset, places, index, chosen)
        found.append(records)
    return Written(found, starts)


def in_log_dir(path, log_start_offset):
    """Make a directory a log directory that was shut down cleanly, with a log that begins at an offset."""
    (path / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    (path / ".kafka_cleanshutdown").write_text('{"version": 0}')
    (path / "log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {log_start_offset}\n")


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


@given(segments, st.integers(-1, 13), formats, st.integers(0, 6))
def test_every_answer_is_that_of_a_scan(tmp_path_factory, segments, t, form, log_start_offset):
    check(tmp_path_factory.mktemp("times"), segments, NOW + t * APART, form, log_start_offset)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("index", ["all", "none", "missing", "stale", "lying"])
def test_a_large_batch_behind_the_last_index_entry(tmp_path, index, form):
    check(tmp_path / "one", [([(1, [0]), (300_000, [7])], index, 0), ([(10, [8])], "all", 0)], NOW + 7 * APART, form)
    many = [([(3_000, [number // 25]) for number in range(250)], index, 0)]
    check(tmp_path / "many", many, NOW + 9 * APART, form, 3)


def check(path, segments, timestamp, form=FORMATS[0], log_start_offset=0):
    of_batches = written(path / "t-0", segments, form)
    # A broker deletes segments below the start of the log.
    start = min(log_start_offset, of_batches.segments[0][-1][0])
    in_log_dir(path, start)
    found = [[record for record in records if record[0] >= start] for records in of_batches.segments]
    log = bl.Log(path / "t-0")
    records = [record for of_segment in found for record in of_segment]
    first = first_since(found, timestamp)
    answer = log.offsets_for_times(timestamp)
    # A broker looks into the first segment that is late enough, even if its late records are below the log start.
    asked = [max(when for _, when in records) >= timestamp for records in of_batches.segments]
    said = first_since(found[asked.index(True) :][:1], timestamp) if any(asked) else None
    assert (answer.offset, answer.timestamp) == (said or (-1, -1))
    latest = max(when for records in of_batches.segments for _, when in records)
    # A broker looks for the latest time below the start of the log, too.
    answer = log.offsets_for_times(-3)
    assert (answer.offset, answer.timestamp) == first_since(of_batches.segments, latest)

    def read(**options):
        return [offset for rows in log.read(columns=["offset"], **options) for offset in rows["offset"].to_pylist()]

    every = [offset for offset, _ in records]
    split = every[-1] + 1 if first is None else first[0]
    assert read(start_timestamp=timestamp) == [offset for offset in every if offset >= split]
    assert read(end_timestamp=timestamp) == [offset for offset in every if offset < split]
    # What Spark's startingTimestamp and endingTimestamp ask.
    for of_spark in (start_at, end_at):
        assert of_spark(log.files, timestamp, "read_uncommitted", skips=False) == (None if first is None else first[0])
    cut = split if first is None else max(one for one in of_batches.starts if one <= split)
    until = datetime.fromtimestamp(timestamp / 1000, UTC)
    (*_, (_, high_watermark, _), _, _) = ServedDirectory(path, as_of=until).partition("t", 0, None)[3]
    assert high_watermark == max(cut, start)
    if any(index == "lying" for _, index, _ in segments):
        # A broker may not see all of such a log: writers refuse it.
        return

    def run(operation):
        return rewrite(operation, path, topics=["t"], dry_run=True)

    # A batch is cut off as a whole: from the first one with a record of that time, also below the start of the log.
    whole = first_since(of_batches.segments, timestamp)
    cut = every[-1] + 1 if whole is None else max(one for one in of_batches.starts if one <= whole[0])
    (truncated,) = run(Truncation(timestamp=timestamp))
    assert truncated.report.log_end_offset == max(cut, start)
    # A segment whose newest record is younger stays, and so do those behind it.
    old = [max(when for _, when in of_segment) < timestamp for of_segment in of_batches.segments]
    (retained,) = run(Retention(retention_ms=int(time.time() * 1000) - timestamp + APART // 2, cleanup_policy="delete"))
    assert retained.report.deleted_segments == [*old, False].index(False)
