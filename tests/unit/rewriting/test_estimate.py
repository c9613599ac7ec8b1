"""The estimated sizes are those that the records then have."""

import struct

import pytest

import brokerless as bl
from brokerless import _native
from brokerless.rewriting import estimate as module
from brokerless.rewriting.estimate import estimate
from support import damage
from support.log_files import NOW, batch, write_segment
from support.peak_memory import record


def write(path, count, *, records=1, value=b"x" * 100):
    batches = [batch(at * records, [value] * records, timestamp=NOW + at) for at in range(count)]
    return write_segment(path / "t-0", 0, batches).parent


def sizes(report):
    return {(found.batch_size, found.compression): found.bytes_per_record for found in report.batches}


def test_a_larger_batch_size_saves_headers(tmp_path):
    found = estimate(bl.Log(write(tmp_path, 1000)).segments)
    assert (found.sampled_records, found.sampled_bytes) == (
        1000,
        sum(f.stat().st_size for f in tmp_path.glob("t-0/*.log")),
    )
    now = {(form.magic, form.compression): form.bytes_per_record for form in found.forms}
    assert now[2, "none"] == found.sampled_bytes / 1000
    assert max(sizes(found)[size, "none"] for size in (16 << 10, 1 << 20)) < now[2, "none"] - 50
    assert sizes(found)[1 << 20, "zstd"] < sizes(found)[16 << 10, "zstd"] < 10


def test_batches_are_those_that_a_producer_would_fill(tmp_path):
    directory = write(tmp_path, 1000)
    with bl.create_log_dir(tmp_path / "filled") as log_dir:
        log_dir.create_topic("t")
        with bl.Producer(log_dir, "t", batch_size=16 << 10) as producer:
            producer.send([{"value": b"x" * 100, "timestamp": NOW + at} for at in range(1000)])
    filled = (tmp_path / "filled/t-0/00000000000000000000.log").stat().st_size
    assert sizes(estimate(bl.Log(directory).segments))[16 << 10, "none"] == pytest.approx(filled / 1000, rel=0.01)


def test_a_sample_of_a_large_log_is_bounded_and_from_all_of_it(tmp_path):
    directory = write(tmp_path, 2000, records=10)
    small = estimate(bl.Log(directory).segments, sample=256 << 10)
    whole = estimate(bl.Log(directory).segments)
    assert 128 << 10 < small.sampled_bytes <= 256 << 10
    for form in ((16 << 10, "none"), (64 << 10, "none")):
        assert sizes(small)[form] == pytest.approx(sizes(whole)[form], rel=0.02)


def test_many_small_segments_are_sampled_in_some_places(tmp_path, monkeypatch):
    for number in range(200):
        write_segment(tmp_path / "t-0", number * 10, [batch(number * 10, [b"x" * 1000] * 10)])
    read = []
    measure = module._measure
    monkeypatch.setattr(module, "_measure", lambda *arguments: read.append(arguments) or measure(*arguments))
    found = estimate(bl.Log(tmp_path / "t-0").segments, sample=64 << 10)
    assert len(read) <= 32
    assert found.sampled_records


def test_damage_ends_a_sample_or_the_estimate(tmp_path):
    log = write(tmp_path, 100) / "00000000000000000000.log"
    size = log.stat().st_size
    damage.flip_bit(log, size // 2 + 30)
    segments = bl.Log(tmp_path / "t-0").segments
    with pytest.raises(bl.errors.CorruptRecordError, match="crc"):
        estimate(segments)
    found = estimate(segments, on_corrupt="skip")
    assert found.sampled_records == 50
    assert found.sampled_bytes == size // 2


M = (1 << 63) - 1


@pytest.mark.parametrize(
    ("base", "deltas"),
    [(M - 2, [2, 1, 0]), (M - 1, [1, 0, 0]), (5, [-(2**31), 2**31 - 1]), (M - 2**31, [2**31 - 1, 0, 2**31 - 1])],
)
def test_records_whose_offsets_fall_or_leap_are_measured(base, deltas):
    """They stopped the estimate, and so a report."""
    payload = b"".join(record(delta, b"k", b"v") for delta in deltas)
    body = struct.pack(">hiqqqhii", 0, max(0, *deltas), 0, 0, -1, -1, -1, len(deltas)) + payload
    content = struct.pack(">qiibI", base, len(body) + 9, 0, 2, _native.crc32c(body)) + body
    estimate = _native.SpaceEstimate()
    estimate.feed(content, 0)
    estimate.finish()
    assert estimate.records == len(deltas)
    space = estimate.space(2, "none")
    assert space is not None
    assert len(content) - 20 < space[0] <= len(content) + 10
