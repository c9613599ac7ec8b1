"""What damage and tails do to a read."""

import gc
import itertools
import os

import pytest

import brokerless as bl
from brokerless.log.partition_files import header_walk
from support import damage
from support.log_files import batch, marker, write_segment
from support.three_segment_log import SIZE, log_file, offsets, read_offsets, write_log


@pytest.fixture
def directory(tmp_path):
    return write_log(tmp_path / "t-0")


def rows_before_the_error(log, **options):
    found = []
    reader = log.read(columns=["offset"], **options)
    with pytest.raises(bl.errors.CorruptRecordError) as caught:
        found.extend(rows["offset"].to_pylist() for rows in reader)
    return [offset for rows in found for offset in rows], caught.value


@pytest.mark.parametrize("kept", [0, 1, 11, 12, 16, 17, 60, 61, SIZE - 1])
def test_a_cut_tail_ends_the_read_quietly(directory, kept):
    damage.cut(log_file(directory, 16), 3 * SIZE + kept)
    log = bl.Log(directory)
    assert read_offsets(log) == list(range(22))
    assert log.log_end_offset == 22
    assert [b.num_rows for b in log.segments[-1].scan()] == [3]


@pytest.mark.parametrize("kept", [1, 12, 17, 61, SIZE - 1])
def test_a_cut_tail_of_an_older_segment_is_damage(directory, kept):
    damage.cut(log_file(directory, 8), 3 * SIZE + kept)
    found, error = rows_before_the_error(bl.Log(directory))
    assert found == list(range(14))
    assert (error.path, error.position) == (str(log_file(directory, 8)), 3 * SIZE)
    assert f"{kept} bytes are left of it" in str(error)
    with pytest.raises(bl.errors.CorruptRecordError, match="is cut"):
        list(bl.Log(directory).scan())


@pytest.mark.parametrize("count", [1, 11, 12, 17, 18, 61, 5000, 3 << 20])
def test_zeros_to_the_end_are_a_preallocated_tail(directory, count):
    damage.append(log_file(directory, 16), bytes(count))
    log = bl.Log(directory)
    assert read_offsets(log) == list(range(24))
    assert log.log_end_offset == 24
    assert sum(b.num_rows for b in log.segments[-1].scan()) == 4


def test_a_preallocated_file_without_a_batch(directory):
    damage.zero(log_file(directory, 16))
    log = bl.Log(directory)
    assert read_offsets(log) == list(range(16))
    assert log.log_end_offset == 16


def test_zeros_at_the_end_of_an_older_segment_are_damage(directory):
    damage.append(log_file(directory, 8), bytes(100))
    found, error = rows_before_the_error(bl.Log(directory))
    assert found == list(range(16))
    assert error.position == 4 * SIZE


@pytest.mark.parametrize("base", [8, 16])
def test_zeros_in_the_middle_are_damage(directory, base):
    damage.overwrite(log_file(directory, base), SIZE, bytes(SIZE))
    found, error = rows_before_the_error(bl.Log(directory))
    assert found == list(range(base + 2))
    assert error.position == SIZE


def test_garbage_at_the_end_is_met_only_by_who_reads_to_the_end(directory):
    damage.append(log_file(directory, 16), b"\xff" * 100)
    log = bl.Log(directory)
    assert log.log_end_offset == 24
    found, error = rows_before_the_error(log)
    assert found == list(range(24))
    assert error.position == 4 * SIZE
    assert read_offsets(log, end_offset=24) == list(range(24))
    assert read_offsets(log, end_offset=20) == list(range(20))


def test_a_length_that_runs_past_the_end_hides_no_batch_behind_it(directory):
    """Alone it looks like a cut tail; the index knows that the log goes on."""
    damage.overwrite(log_file(directory, 16), SIZE + 8, (1 << 20).to_bytes(4, "big"))
    found, error = rows_before_the_error(bl.Log(directory))
    assert found == list(range(18))
    assert error.position == SIZE


def test_nor_does_it_without_an_index(directory):
    """A crash leaves nothing behind the batch that it cuts."""
    log_file(directory, 16).with_suffix(".index").unlink(missing_ok=True)
    damage.overwrite(log_file(directory, 16), SIZE + 8, (1 << 20).to_bytes(4, "big"))
    found, error = rows_before_the_error(bl.Log(directory))
    assert found == list(range(18))
    assert error.position == SIZE
    reader = bl.Log(directory).read(on_corrupt="skip", columns=["offset"])
    assert offsets(reader) == [*range(18), *range(20, 24)]
    assert [(lost.start_offset, lost.end_offset) for lost in reader.lost] == [(18, 20)]
    for look in (lambda: header_walk(bl.Log(directory).files), lambda: list(bl.Log(directory).scan())):
        with pytest.raises(bl.errors.CorruptRecordError, match="is cut"):
            look()


def test_a_flipped_bit(directory):
    damage.flip_bit(log_file(directory, 8), 2 * SIZE - 1)
    log = bl.Log(directory)
    found, error = rows_before_the_error(log)
    assert found == list(range(10))
    assert (error.path, error.position, error.base_offset) == (str(log_file(directory, 8)), SIZE, 10)
    assert error.next_position == 2 * SIZE
    message = str(error)
    assert "crc" in message
    assert "stored" in message
    assert f"{log_file(directory, 8)}:{SIZE} (base_offset 10)" in message
    assert [row["is_valid"] for b in log.scan(check_crcs=True) for row in b.to_pylist()] == [True] * 5 + [False] + [
        True
    ] * 6


def test_checksums_are_not_looked_at_if_not_asked_for(directory):
    damage.flip_bit(log_file(directory, 8), 17)  # of the checksum itself
    assert read_offsets(bl.Log(directory), check_crcs=False) == list(range(24))


def test_rows_that_were_not_asked_for_are_not_looked_at(directory):
    damage.flip_bit(log_file(directory, 8), 2 * SIZE - 1)
    assert read_offsets(bl.Log(directory), end_offset=10) == list(range(10))
    assert read_offsets(bl.Log(directory), start_offset=12) == list(range(12, 24))


def test_skip_drops_exactly_the_bad_batch(directory):
    damage.flip_bit(log_file(directory, 8), 2 * SIZE - 1)
    reader = bl.Log(directory).read(on_corrupt="skip", columns=["offset"])
    assert offsets(reader) == [*range(10), *range(12, 24)]
    (lost,) = reader.lost
    assert (lost.path, lost.position, lost.start_offset, lost.end_offset) == (str(log_file(directory, 8)), SIZE, 10, 12)
    assert "crc" in lost.reason


def test_skip_drops_each_of_two_bad_batches_in_a_row(directory):
    damage.flip_bit(log_file(directory, 8), 2 * SIZE - 1)
    damage.flip_bit(log_file(directory, 8), 3 * SIZE - 1)
    reader = bl.Log(directory).read(on_corrupt="skip", columns=["offset"])
    assert offsets(reader) == [*range(10), *range(14, 24)]
    assert [(lost.start_offset, lost.end_offset) for lost in reader.lost] == [(10, 12), (12, 14)]


def test_skip_drops_the_last_batch_of_a_segment(directory):
    damage.flip_bit(log_file(directory, 8), 4 * SIZE - 1)
    reader = bl.Log(directory).read(on_corrupt="skip", columns=["offset"])
    assert offsets(reader) == [*range(14), *range(16, 24)]
    assert [(lost.start_offset, lost.end_offset) for lost in reader.lost] == [(14, 16)]


@pytest.mark.parametrize("length", [0, 13, -1, SIZE - 13, 1 << 20])
@pytest.mark.parametrize("base", [8, 16])
def test_skip_drops_exactly_the_batch_whose_length_is_wrong(directory, length, base):
    damage.overwrite(log_file(directory, base), SIZE + 8, length.to_bytes(4, "big", signed=True))
    reader = bl.Log(directory).read(on_corrupt="skip", columns=["offset"])
    assert offsets(reader) == [*range(base + 2), *range(base + 4, 24)]
    assert [(lost.position, lost.start_offset, lost.end_offset) for lost in reader.lost] == [(SIZE, base + 2, base + 4)]


@pytest.mark.parametrize("count", [2, 3])
def test_a_length_that_swallows_whole_batches_loses_none_of_them(directory, count):
    damage.overwrite(log_file(directory, 8), 8, (count * SIZE - 12).to_bytes(4, "big"))
    reader = bl.Log(directory).read(on_corrupt="skip", columns=["offset"])
    assert offsets(reader) == [*range(8), *range(10, 24)]
    assert [(lost.position, lost.start_offset, lost.end_offset) for lost in reader.lost] == [(0, 8, 10)]


def test_skip_drops_exactly_the_batches_that_a_block_of_zeros_covers(directory):
    damage.overwrite(log_file(directory, 16), SIZE + 20, bytes(SIZE))
    reader = bl.Log(directory).read(on_corrupt="skip", columns=["offset"])
    assert offsets(reader) == [*range(18), 22, 23]
    assert [(lost.position, lost.start_offset, lost.end_offset) for lost in reader.lost] == [(SIZE, 18, 22)]


def test_skip_drops_a_cut_batch(directory):
    damage.cut(log_file(directory, 8), -1)
    reader = bl.Log(directory).read(on_corrupt="skip", columns=["offset"])
    assert offsets(reader) == [*range(14), *range(16, 24)]
    assert [(lost.start_offset, lost.end_offset) for lost in reader.lost] == [(14, 16)]


def test_skip_reports_bytes_that_cost_no_offset(directory):
    damage.append(log_file(directory, 8), bytes(100))
    reader = bl.Log(directory).read(on_corrupt="skip", columns=["offset"])
    assert offsets(reader) == list(range(24))
    assert [(lost.position, lost.start_offset, lost.end_offset) for lost in reader.lost] == [(4 * SIZE, 16, 16)]


def test_skip_says_that_it_does_not_know_where_a_damaged_log_ends(directory):
    damage.append(log_file(directory, 16), b"\xff" * 100)
    reader = bl.Log(directory).read(on_corrupt="skip", columns=["offset"])
    assert offsets(reader) == list(range(24))
    assert [(lost.start_offset, lost.end_offset) for lost in reader.lost] == [(24, None)]


def test_skip_reports_only_what_was_asked_for(directory):
    damage.overwrite(log_file(directory, 8), SIZE + 8, bytes(4))
    reader = bl.Log(directory).read(11, 15, on_corrupt="skip", columns=["offset"])
    assert offsets(reader) == [12, 13, 14]
    assert [(lost.start_offset, lost.end_offset) for lost in reader.lost] == [(11, 12)]
    assert bl.Log(directory).read(13, 15, on_corrupt="skip").lost == []


def test_skip_stops_at_the_end_that_was_asked_for_behind_damage_too(directory):
    damage.overwrite(log_file(directory, 16), SIZE + 8, bytes(4))
    for end in range(16, 25):
        reader = bl.Log(directory).read(end_offset=end, on_corrupt="skip", columns=["offset"])
        assert offsets(reader) == [offset for offset in range(end) if offset not in (18, 19)]


@pytest.mark.parametrize("target_bytes", [1, SIZE, None])
def test_what_skip_drops_does_not_depend_on_the_splits(directory, target_bytes):
    damage.overwrite(log_file(directory, 8), SIZE + 8, (SIZE + 5).to_bytes(4, "big"))
    splits = bl.Log(directory).plan(target_bytes=target_bytes, on_corrupt="skip")
    found = [offset for split in splits for offset in offsets(bl.read_split(split, ["offset"]))]
    assert found == [*range(10), *range(12, 24)]


def test_an_unknown_magic_is_unsupported_and_not_corrupt(directory):
    damage.overwrite(log_file(directory, 8), SIZE + 16, b"\x07")
    with pytest.raises(bl.errors.UnsupportedFormatError, match="magic 7"):
        read_offsets(bl.Log(directory))
    reader = bl.Log(directory).read(on_corrupt="skip", columns=["offset"])
    assert offsets(reader) == [*range(10), *range(12, 24)]


@pytest.mark.parametrize("size", [1 << 20, (2 << 20) - 100, 2 << 20, 5 << 20])
def test_a_batch_larger_than_any_read_is_returned(tmp_path, size):
    small = [batch(i, [b"x" * 100]) for i in range(3)]
    large = batch(3, [bytes(size)])
    after = [batch(i, [b"y"]) for i in (4, 5)]
    log = bl.Log(write_segment(tmp_path / "t-0", 0, [*small, large, *after]).parent)
    lengths = [len(value) for rows in log.read(columns=["value"]) for value in rows["value"].to_pylist()]
    assert lengths == [100] * 3 + [size] + [1] * 2
    assert sum(batches.num_rows for batches in log.scan(check_crcs=True)) == 6
    for split in log.plan(target_bytes=1):
        assert sum(rows.num_rows for rows in bl.read_split(split)) == 1


def test_a_batch_of_many_records_comes_in_slices(tmp_path):
    log = bl.Log(write_segment(tmp_path / "t-0", 0, [batch(0, [b""] * 150_000)]).parent)
    chunks = list(log.read(columns=["offset"]))
    assert [rows.num_rows for rows in chunks] == [65536, 65536, 150_000 - 2 * 65536]
    assert offsets(chunks) == list(range(150_000))


@pytest.mark.parametrize("limit", [None, 50])
def test_a_read_that_is_given_up_closes_its_file_at_once(directory, limit):
    """It stayed open, and kept a batch of 50 MB in memory, until Python collected cycles."""

    def held():
        links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
        return [os.readlink(link) for link in links if os.path.islink(link)].count(str(log_file(directory, 0)))

    gc.collect()
    gc.disable()
    try:
        rows = bl.Log(directory).read(limit=limit)
        next(rows)
        assert held() == 1
        del rows
        assert held() == 0
    finally:
        gc.enable()


def test_the_next_offset_is_the_batchs_and_not_its_last_records(tmp_path):
    """Compaction removes the last records of a batch, the batch keeps its range."""
    batches = [batch(0, [b"a"], last_offset_delta=9), batch(10, [b"b"], last_offset_delta=9)]
    log = bl.Log(write_segment(tmp_path / "t-0", 0, batches).parent)
    assert log.log_end_offset == 20
    assert read_offsets(log) == [0, 10]
    assert read_offsets(log, start_offset=5) == [10]


def test_markers_are_never_rows(tmp_path):
    batches = [batch(0, [b"a"], producer_id=1, transactional=True), marker(1, 1, commit=True), batch(2, [b"b"])]
    log = bl.Log(write_segment(tmp_path / "t-0", 0, batches).parent)
    assert read_offsets(log) == read_offsets(log, isolation_level="read_committed") == [0, 2]


def batches_of(path):
    content = path.read_bytes()
    return [content[at : at + SIZE] for at in range(0, len(content), SIZE)]


ORDERS = {
    "beyond the segment": lambda a, b, c, d: [a, batch(200, [b"a", b"b"]), c, d],
    "too large": lambda a, b, c, d: [a, batch(13, [b"a", b"b"]), c, d],
    "negative": lambda a, b, c, d: [a, batch(10 - (1 << 63), [b"a", b"b"]), c, d],
    "below the segment": lambda a, b, c, d: [batch(2, [b"a", b"b"]), b, c, d],
    "twice": lambda a, b, c, d: [a, b, b, c, d],
    "several twice": lambda a, b, c, d: [a, b, c, b, c, d],
    "swapped": lambda a, b, c, d: [a, c, b, d],
    "the last two swapped": lambda a, b, c, d: [a, b, d, c],
    "moved by one": lambda a, b, c, d: [a, batch(11, [b"a", b"b"]), c, d],
}
"""Sound batches 8, 10, 12, 14 of a segment in a wrong order. No checksum covers their offsets."""
ORDER_LOST = {
    "beyond the segment": [(10, 12)],
    "too large": [(10, 12)],
    "negative": [(10, 12)],
    "below the segment": [(8, 10)],
    "twice": [(12, 12)],
    "several twice": [(14, 14), (14, 14)],
    "swapped": [(12, 14)],
    "the last two swapped": [(14, 16)],
    "moved by one": [(10, 12)],
}


@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize("target_bytes", [None, 1])
@pytest.mark.parametrize("what", ORDERS)
def test_batches_out_of_order_are_an_error_and_never_rows_twice_or_backwards(tmp_path, what, target_bytes, is_last):
    directory = write_log(tmp_path / "t-0")
    if is_last:
        for path in directory.glob(f"{16:020d}.*"):
            path.unlink()
    log_file(directory, 8).write_bytes(b"".join(ORDERS[what](*batches_of(log_file(directory, 8)))))
    found = []

    def read():
        for split in bl.Log(directory).plan(target_bytes=target_bytes):
            for rows in bl.read_split(split, ["offset"]):
                found.extend(rows["offset"].to_pylist())

    with pytest.raises(bl.errors.CorruptRecordError, match=r"offset -?\d+ is (below|not below) \d+, where the segment"):
        read()
    assert all(offset not in found[:i] for i, offset in enumerate(found))
    log = bl.Log(directory)
    reader = log.read(on_corrupt="skip", columns=["offset"])
    kept = offsets(reader)
    lost = [(one.start_offset, one.end_offset) for one in reader.lost]
    assert kept == [
        offset
        for offset in range(16 if is_last else 24)
        if not any(start <= offset < end for start, end in ORDER_LOST[what])
    ]
    assert lost == ORDER_LOST[what]


@pytest.mark.parametrize("delta", [-5, 0, 2, 1000])
def test_a_wrong_last_offset_delta_in_the_last_batch_does_not_empty_the_log(directory, delta):
    damage.overwrite(log_file(directory, 16), 3 * SIZE + 23, delta.to_bytes(4, "big", signed=True))
    log = bl.Log(directory)
    assert log.log_end_offset == 22
    found, error = rows_before_the_error(log)
    assert found == list(range(22))
    assert "crc mismatch" in str(error)
    reader = bl.Log(directory).read(on_corrupt="skip", columns=["offset"])
    assert offsets(reader) == list(range(22))
    assert [(lost.start_offset, lost.end_offset) for lost in reader.lost] == [(22, None)]


SHAPES = [[1] * 6, [2, 2, 2, 2], [1, 3, 1, 2, 1], [3, 1, 3, 1, 3], [1, 2, 4, 8, 1]]


@pytest.mark.parametrize("counts", SHAPES, ids=str)
def test_a_moved_batch_does_not_take_the_place_of_a_sound_one(tmp_path, counts):
    """A flipped low bit of a base offset, which no checksum covers: two batches may claim the same offsets then."""
    starts = [sum(counts[:i]) for i in range(len(counts))]
    batches = [batch(start, [b"%d" % (start + i) for i in range(n)]) for start, n in zip(starts, counts, strict=True)]
    for moved, bit in itertools.product(range(len(counts) - 1), range(4)):
        path = write_segment(tmp_path / f"t-{moved}{bit}", 0, batches)
        damage.flip_bit(path, sum(map(len, batches[:moved])) + 7, bit)
        reader = bl.Log(path.parent).read(on_corrupt="skip", columns=["offset", "value"])
        rows = [(row["offset"], int(row["value"])) for found in reader for row in found.to_pylist()]
        damaged = range(starts[moved], starts[moved] + counts[moved])
        assert rows == [(i, i) for i in range(sum(counts)) if i not in damaged], (moved, bit)
        lost = {offset for one in reader.lost for offset in range(one.start_offset, one.end_offset)}
        assert lost >= set(damaged), (moved, bit)
