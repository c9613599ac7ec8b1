"""Two copies are equal, behind, ahead or diverged from the right offset on; compacted ones are compared by records."""

import shutil

import pytest

import brokerless as bl
from support import damage
from support.log_files import batch, write_segment
from support.peak_memory import record, run_measured, zstd_batch

VALUE = b"v" * 50


def log(path, batches):
    write_segment(path / "t-0", 0, batches)
    return path


def status(first, second, **options):
    return [(found.status, found.offset, found.epoch) for found in bl.compare(first, second, **options)]


@pytest.fixture
def batches():
    return [batch(at, [VALUE], leader_epoch=at // 4) for at in range(10)]


def test_equal_and_prefix(tmp_path, batches):
    one, two = log(tmp_path / "1", batches), log(tmp_path / "2", batches[:7])
    assert status(one, one) == [("equal", None, None)]
    assert status(one, two) == [("ahead", 7, 1)]
    assert status(two, one) == [("behind", 7, 1)]


def test_each_field_of_a_batch_makes_them_diverge(tmp_path, batches):
    one = log(tmp_path / "1", batches)
    others = {
        "value": batch(6, [b"w" * 50], leader_epoch=1),
        "epoch": batch(6, [VALUE], leader_epoch=2),
        "offset": batch(7, [VALUE], leader_epoch=1),
        "records": batch(6, [VALUE, VALUE], leader_epoch=1),
    }
    for name, other in others.items():
        two = log(tmp_path / name, [*batches[:6], other])
        (found,) = bl.compare(one, two)
        assert (found.status, found.offset, found.epoch) == ("diverged", 6, 1), name
        assert found.message


@pytest.mark.parametrize(
    ("base", "other", "message"),
    [
        (6, 7, "2/t-0 has no batch of offset 6"),
        (9, 6, "1/t-0 has no batch of offsets 6 to 8"),
    ],
)
def test_a_gap_is_told_with_the_directory_that_has_it(tmp_path, batches, base, other, message):
    one = log(tmp_path / "1", [*batches[:6], batch(base, [VALUE], leader_epoch=1)])
    two = log(tmp_path / "2", [*batches[:6], batch(other, [VALUE], leader_epoch=1)])
    (found,) = bl.compare(one, two)
    assert (found.status, found.differing, found.value, found.other_value) == ("diverged", "base_offset", base, other)
    assert found.message == f"{tmp_path}/{message}"


def test_other_segments_and_another_start_are_equal(tmp_path, batches):
    one = log(tmp_path / "1", batches)
    write_segment(tmp_path / "2/t-0", 3, batches[3:6])
    write_segment(tmp_path / "2/t-0", 6, batches[6:])
    (found,) = bl.compare(one, tmp_path / "2")
    assert (found.status, found.start_offset) == ("equal", 3)


def test_chunks_of_different_lengths(tmp_path):
    batches = [batch(at, [b"%d" % at * (at % 97 + 1)]) for at in range(3000)]
    one = log(tmp_path / "1", batches)
    for start in range(0, 3000, 700):
        write_segment(tmp_path / "2/t-0", start, batches[start : start + 700])
    assert status(one, tmp_path / "2") == [("equal", None, None)]
    write_segment(tmp_path / "2/t-0", 2800, [*batches[2800:2999], batch(2999, [b"other"])])
    assert status(one, tmp_path / "2") == [("diverged", 2999, 0)]


def test_damage_hides_what_follows(tmp_path, batches):
    one, two = log(tmp_path / "1", batches), log(tmp_path / "2", batches)
    damage.flip_bit(two / "t-0/00000000000000000000.log", len(batches[0]) * 5 + 70)
    (found,) = bl.compare(one, two)
    assert (found.status, found.offset) == ("damaged", 5)
    assert "crc" in found.message


def test_partitions_of_one_directory_only(tmp_path, batches):
    one, two = log(tmp_path / "1", batches), log(tmp_path / "2", batches)
    write_segment(one / "u-1", 0, batches)
    assert [(found.status, found.topic) for found in bl.compare(one, two)] == [("equal", "t"), ("extra", "u")]
    assert [found.status for found in bl.compare(two, one)] == ["equal", "missing"]
    for compared in (bl.compare(one, two), bl.compare(two, one)):
        assert [found.message for found in compared] == ["", f"{one} has the partition, and {two} does not"]
    assert [found.status for found in bl.compare(two, one, topics=["t"])] == ["equal"]
    with pytest.raises(ValueError, match="topic 'x' is in neither"):
        list(bl.compare(one, two, topics=["x"]))


def test_compacted_copies_have_equal_records(tmp_path):
    keys = [b"%d" % (at % 7) for at in range(100)]
    with bl.create_log_dir(tmp_path / "1") as log_dir:
        log_dir.create_topic("t", cleanup_policy="compact")
        appended = log_dir.log("t", 0)
        for at, key in enumerate(keys):
            appended.append(batch(0, [b"%d" % at], keys=[key]))
    shutil.copytree(tmp_path / "1", tmp_path / "2")
    bl.rewrite(bl.Compaction(roll=True), tmp_path / "2", topics=["t"])
    assert "diverged" in [found for found, _, _ in status(tmp_path / "1", tmp_path / "2")]
    (found,) = bl.compare(tmp_path / "1", tmp_path / "2", topics=["t"], records=True)
    assert found.status == "equal"
    with bl.open_log_dir(tmp_path / "2", sole_replica=True) as log_dir:
        log_dir.log("t", 0).append(batch(0, [b"other"], keys=[b"3"]))
    (found,) = bl.compare(tmp_path / "1", tmp_path / "2", topics=["t"], records=True)
    assert (found.status, found.offset) == ("behind", 100)


@pytest.mark.slow
def test_the_latest_records_of_very_many_keys_are_compared_in_bounded_memory(tmp_path):
    """Of 1.5 million keys in 9 MB, it took memory for each."""
    count = 1_500_000
    for copy, last in (("same", b"v"), ("one", b"v"), ("other", b"w")):
        records = [record(at, b"%08d" % at, b"v" if at < count - 1 else last) for at in range(count)]
        write_segment(tmp_path / copy / "t-0", 0, [zstd_batch(b"".join(records), count)])
    for copy, code, said in (
        ("same", 0, "1 equal"),
        ("other", 1, "the latest records of keys differ: 2 records, of which the first is at offset 1499999"),
    ):
        ran = run_measured("check", tmp_path / "one", "--against", tmp_path / copy, "--records")
        assert (ran.code, said in ran.out + ran.err) == (code, True), ran
        assert ran.megabytes < 700


def test_shares_of_the_keys_give_what_all_of_them_give(tmp_path):
    for copy in ("one", "other"):
        values = [b"%s %d" % (copy.encode() if at % 500 == 7 else b"", at) for at in range(2_000)]
        values[3] = bytes(20_000) if copy == "one" else bytes(20_001)
        write_segment(tmp_path / copy / "t-0", 0, [batch(0, values, keys=[b"%d" % at for at in range(2_000)])])
    (whole,) = bl.compare(tmp_path / "one", tmp_path / "other", records=True)
    # The values of all keys do not fit, and the largest one never does.
    (divided,) = bl.compare(tmp_path / "one", tmp_path / "other", records=True, memory=200_000)
    assert whole == divided
    assert (whole.status, whole.offset) == ("diverged", 3)
    (same,) = bl.compare(tmp_path / "one", tmp_path / "one", records=True, memory=200_000)
    assert same.status == "equal"


def test_keys_that_fit_into_no_share_are_an_error(tmp_path):
    write_segment(tmp_path / "t-0", 0, [batch(0, [b"v"] * 9, keys=[b"%d" % at for at in range(9)])])
    (found,) = bl.compare(tmp_path, tmp_path, records=True, memory=800)
    assert (found.status, "bytes of memory" in found.message) == ("damaged", True)
