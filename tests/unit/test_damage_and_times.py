"""A read from or up to a time: damage where the answer may be is an error, or reported as lost, never passed over."""

from pathlib import Path

import pytest

import brokerless as bl
from brokerless.log import texts
from building import NOW, batch, write_segment
from damage import cut, flip_bit, remove

MAX_TIMESTAMP = 35
HOUR = 3_600_000


@pytest.fixture
def log(tmp_path):
    """Six records, an hour apart, in segments 0 and 3. No index entry speaks for their batches."""
    directory = tmp_path / "t-0"
    for base in (0, 3):
        batches = [batch(i, [b"%d" % i], timestamp=NOW + i * HOUR) for i in range(base, base + 3)]
        write_segment(directory, base, batches, indexed=False)
    return bl.Log(directory)


def path_of(log, base_offset):
    return f"{log.path}/{base_offset:020d}.log"


def checkpoint(log, name, offset):
    (Path(log.root.path) / name).write_bytes(texts.format_offset_checkpoint({("t", 0): offset}))


def start_of(log, offset):
    """Return the segment and the position of a batch."""
    segment = next(segment for segment in reversed(log.segments) if segment.base_offset <= offset)
    return segment.path, segment.size // 3 * (offset - segment.base_offset)


def read(log, **options):
    reader = bl.Log(log.path).read(columns=["offset"], **options)
    offsets = [offset for rows in reader for offset in rows["offset"].to_pylist()]
    return offsets, [(lost.start_offset, lost.end_offset) for lost in reader.lost]


@pytest.mark.parametrize("bit", [0, 7])
@pytest.mark.parametrize("byte", [MAX_TIMESTAMP, MAX_TIMESTAMP - 8, MAX_TIMESTAMP + 2])
@pytest.mark.parametrize("offset", range(6))
def test_a_flipped_bit_in_a_time_does_not_move_the_start_of_a_read(log, offset, byte, bit):
    path, position = start_of(log, offset)
    flip_bit(path, position + byte, bit)
    wanted = [i for i in range(2, 6) if i != offset]
    offsets, lost = read(log, start_timestamp=NOW + 2 * HOUR, on_corrupt="skip")
    assert offsets == wanted
    assert offset < 1 or (offset, None if offset == 5 else offset + 1) in lost
    if offset >= 1:
        with pytest.raises(bl.CorruptRecordError, match="crc mismatch"):
            read(log, start_timestamp=NOW + 2 * HOUR)


def test_damage_directly_before_the_answer_is_met_for_it_may_have_the_time(log):
    path, position = start_of(log, 2)
    flip_bit(path, position + 61)
    assert read(log, start_timestamp=NOW + 3 * HOUR, on_corrupt="skip") == ([3, 4, 5], [(2, 3)])
    assert read(log, start_timestamp=NOW + 4 * HOUR, on_corrupt="skip") == ([4, 5], [])
    with pytest.raises(bl.CorruptRecordError, match="crc mismatch"):
        read(log, start_timestamp=NOW + 4 * HOUR)


def test_a_missing_segment_before_the_answer_is_met(log):
    write_segment(log.path, 6, [batch(6, [b"6"], timestamp=NOW + 6 * HOUR)], indexed=False)
    Path(path_of(log, 3)).with_suffix(".index").touch()
    remove(path_of(log, 3))
    assert read(log, start_timestamp=NOW + 4 * HOUR, on_corrupt="skip") == ([6], [(3, 6)])
    with pytest.raises(bl.CorruptRecordError, match="indexes of it are"):
        read(log, start_timestamp=NOW + 4 * HOUR)
    assert read(log, start_timestamp=NOW + 7 * HOUR, on_corrupt="skip")[0] == []


def test_damage_where_no_record_is_that_late_may_have_been_that_late(log):
    path, position = start_of(log, 5)
    flip_bit(path, position + 61)
    assert read(log, start_timestamp=NOW + 5 * HOUR, on_corrupt="skip") == ([], [(5, None)])
    with pytest.raises(bl.CorruptRecordError):
        bl.Log(log.path).offsets_for_times(NOW + 5 * HOUR)
    assert bl.Log(log.path).offsets_for_times(NOW + HOUR).offset == 1


def test_a_batch_that_was_moved_is_no_answer(log):
    """No checksum covers the base offset."""
    path, position = start_of(log, 1)
    flip_bit(path, position + 7, 6)
    with pytest.raises(bl.CorruptRecordError):
        read(log, start_timestamp=NOW + HOUR)
    offsets, lost = read(log, start_timestamp=NOW + HOUR, on_corrupt="skip")
    assert offsets == [2, 3, 4, 5]
    assert lost == [(1, 2)]


def test_a_read_up_to_a_time_ends_where_the_sound_records_are(log):
    path, position = start_of(log, 1)
    flip_bit(path, position + MAX_TIMESTAMP, 6)
    assert read(log, end_timestamp=NOW + 4 * HOUR, on_corrupt="skip") == ([0, 2, 3], [(1, 2)])
    with pytest.raises(bl.CorruptRecordError):
        read(log, end_timestamp=NOW + 4 * HOUR)


def test_damage_in_deleted_records_stops_no_look_up(log):
    path, position = start_of(log, 1)
    flip_bit(path, position + MAX_TIMESTAMP, 6)
    checkpoint(log, texts.LOG_START_OFFSETS, 3)
    assert read(log, start_timestamp=NOW + 4 * HOUR) == ([4, 5], [])


def test_a_high_watermark_above_a_damaged_end_does_not_hide_what_is_lost(log):
    checkpoint(log, texts.HIGH_WATERMARKS, 6)
    path, position = start_of(log, 5)
    flip_bit(path, position + 61)
    with pytest.warns(UserWarning, match="t-0 ends at 5; replication-offset-checkpoint says 6"):
        assert read(log, end_offset="high-watermark", on_corrupt="skip") == ([0, 1, 2, 3, 4], [(5, None)])
    with (
        pytest.warns(UserWarning, match="t-0 ends at 5; replication-offset-checkpoint says 6"),
        pytest.raises(bl.CorruptRecordError, match="crc mismatch"),
    ):
        read(log, end_offset="high-watermark")


def test_offsets_and_ls_name_damage_at_the_end(log, run):
    path, position = start_of(log, 5)
    flip_bit(path, position + 61)
    assert f"{path}:{position}" in run("offsets", log.path, "--timestamp", "latest").err
    assert f"{path}:{position}" in run("ls", log.path).err


def test_the_index_of_a_log_that_was_cleaned_since_tells_of_no_loss(log, tmp_path):
    """A copy of a running broker's files may have the index from before a cleaning, and the `.log` from behind it."""
    path = Path(path_of(log, 0))
    path.with_suffix(".index").write_bytes(bytes([0, 0, 0, 2, 0, 0, 0, 140]))
    cut(path, 69)
    assert bl.Log(log.path).missing
    with pytest.raises(bl.CorruptRecordError, match="its index has offset 2"):
        read(log)
    checkpoint(log, texts.FIRST_DIRTY_OFFSETS, 3)
    assert not bl.Log(log.path).missing
    assert read(log) == ([0, 3, 4, 5], [])
    (tmp_path / texts.CLEAN_SHUTDOWN).touch()
    assert bl.Log(log.path).missing
