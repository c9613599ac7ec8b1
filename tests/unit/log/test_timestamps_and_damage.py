"""A read from or up to a time: damage where the answer may be is an error, or reported as lost, never passed over."""

from pathlib import Path

import pytest

import brokerless as bl
from brokerless.layout import checkpoints
from support.damage import cut, flip_bit, remove
from support.log_files import NOW, batch, write_segment

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
    (Path(log.root.path) / name).write_bytes(checkpoints.format_offset_checkpoint({("t", 0): offset}))


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
        with pytest.raises(bl.errors.CorruptRecordError, match="crc mismatch"):
            read(log, start_timestamp=NOW + 2 * HOUR)


def test_damage_directly_before_the_answer_is_met_for_it_may_have_the_time(log):
    path, position = start_of(log, 2)
    flip_bit(path, position + 61)
    assert read(log, start_timestamp=NOW + 3 * HOUR, on_corrupt="skip") == ([3, 4, 5], [(2, 3)])
    assert read(log, start_timestamp=NOW + 4 * HOUR, on_corrupt="skip") == ([4, 5], [])
    with pytest.raises(bl.errors.CorruptRecordError, match="crc mismatch"):
        read(log, start_timestamp=NOW + 4 * HOUR)


def test_a_missing_segment_before_the_answer_is_met(log):
    write_segment(log.path, 6, [batch(6, [b"6"], timestamp=NOW + 6 * HOUR)], indexed=False)
    Path(path_of(log, 3)).with_suffix(".index").touch()
    remove(path_of(log, 3))
    assert read(log, start_timestamp=NOW + 4 * HOUR, on_corrupt="skip") == ([6], [(3, 6)])
    with pytest.raises(bl.errors.CorruptRecordError, match="although its indexes or a link to it exist"):
        read(log, start_timestamp=NOW + 4 * HOUR)
    assert read(log, start_timestamp=NOW + 7 * HOUR, on_corrupt="skip")[0] == []


def test_damage_where_no_record_is_that_late_may_have_been_that_late(log):
    path, position = start_of(log, 5)
    flip_bit(path, position + 61)
    assert read(log, start_timestamp=NOW + 5 * HOUR, on_corrupt="skip") == ([], [(5, None)])
    with pytest.raises(bl.errors.CorruptRecordError):
        bl.Log(log.path).offsets_for_times(NOW + 5 * HOUR)
    assert bl.Log(log.path).offsets_for_times(NOW + HOUR).offset == 1


def test_a_batch_that_was_moved_is_no_answer(log):
    """No checksum covers the base offset."""
    path, position = start_of(log, 1)
    flip_bit(path, position + 7, 6)
    with pytest.raises(bl.errors.CorruptRecordError):
        read(log, start_timestamp=NOW + HOUR)
    offsets, lost = read(log, start_timestamp=NOW + HOUR, on_corrupt="skip")
    assert offsets == [2, 3, 4, 5]
    assert lost == [(1, 2)]


def test_a_read_up_to_a_time_ends_where_the_sound_records_are(log):
    path, position = start_of(log, 1)
    flip_bit(path, position + MAX_TIMESTAMP, 6)
    assert read(log, end_timestamp=NOW + 4 * HOUR, on_corrupt="skip") == ([0, 2, 3], [(1, 2)])
    with pytest.raises(bl.errors.CorruptRecordError):
        read(log, end_timestamp=NOW + 4 * HOUR)


def test_damage_in_deleted_records_stops_no_look_up(log):
    path, position = start_of(log, 1)
    flip_bit(path, position + MAX_TIMESTAMP, 6)
    checkpoint(log, checkpoints.LOG_START_OFFSETS, 3)
    assert read(log, start_timestamp=NOW + 4 * HOUR) == ([4, 5], [])


def test_a_high_watermark_above_a_damaged_end_does_not_hide_what_is_lost(log):
    checkpoint(log, checkpoints.HIGH_WATERMARKS, 6)
    path, position = start_of(log, 5)
    flip_bit(path, position + 61)
    with pytest.warns(UserWarning, match="t-0 ends at 5, but replication-offset-checkpoint says 6"):
        assert read(log, end_offset="high-watermark", on_corrupt="skip") == ([0, 1, 2, 3, 4], [(5, 6)])
    with (
        pytest.warns(UserWarning, match="t-0 ends at 5, but replication-offset-checkpoint says 6"),
        pytest.raises(bl.errors.CorruptRecordError, match="crc mismatch"),
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
    assert bl.Log(log.path).files.missing
    with pytest.raises(bl.errors.CorruptRecordError, match="its index has offset 2"):
        read(log)
    checkpoint(log, checkpoints.FIRST_DIRTY_OFFSETS, 3)
    assert not bl.Log(log.path).files.missing
    assert read(log) == ([0, 3, 4, 5], [])
    (tmp_path / checkpoints.CLEAN_SHUTDOWN).touch()
    assert bl.Log(log.path).files.missing


def compacted(offset, last_offset):
    """Return a batch from `offset` on of which only the last record is left."""
    return batch(offset, [b"x"], timestamp=NOW + last_offset * HOUR, deltas=[last_offset - offset])


def test_a_loss_is_met_before_a_batch_that_does_not_begin_with_its_base_offset(log):
    """The log cleaner keeps base offsets: record 7 is the first one behind the segment that is missing."""
    write_segment(log.path, 6, [compacted(6, 7), batch(8, [b"8"], timestamp=NOW + 8 * HOUR)], indexed=False)
    Path(path_of(log, 3)).with_suffix(".index").touch()
    remove(path_of(log, 3))
    assert read(log, start_timestamp=NOW + 4 * HOUR, on_corrupt="skip") == ([7, 8], [(3, 6)])
    for look_up in (lambda: read(log, start_timestamp=NOW + 4 * HOUR), lambda: at(log, 4)):
        with pytest.raises(bl.errors.CorruptRecordError, match="although its indexes or a link to it exist"):
            look_up()
    assert at(log, 8) == 8


def at(log, hours):
    return bl.Log(log.path).offsets_for_times(NOW + hours * HOUR).offset


def test_a_loss_before_an_empty_segment_is_not_forgotten(log):
    write_segment(log.path, 6, [], indexed=False)
    Path(path_of(log, 3)).with_suffix(".index").touch()
    remove(path_of(log, 3))
    assert read(log, start_timestamp=NOW + 4 * HOUR, on_corrupt="skip") == ([], [(3, 6)])
    for look_up in (lambda: read(log, start_timestamp=NOW + 4 * HOUR), lambda: at(log, 4)):
        with pytest.raises(bl.errors.CorruptRecordError, match="although its indexes or a link to it exist"):
            look_up()


def test_damage_does_not_hide_the_missing_segment_behind_it(log):
    path, position = start_of(log, 1)
    flip_bit(path, position + 61)
    write_segment(log.path, 6, [batch(6, [b"6"], timestamp=NOW + 6 * HOUR)], indexed=False)
    Path(path_of(log, 3)).with_suffix(".index").touch()
    remove(path_of(log, 3))
    assert read(log, start_timestamp=NOW + 4 * HOUR, on_corrupt="skip") == ([6], [(3, 6)])


@pytest.mark.parametrize(
    "names", [[checkpoints.RECOVERY_POINTS], [checkpoints.RECOVERY_POINTS, checkpoints.HIGH_WATERMARKS]]
)
def test_a_time_is_not_said_to_be_behind_a_log_that_ends_too_early(log, tmp_path, names):
    for name in names:
        checkpoint(log, name, 9)
    (tmp_path / checkpoints.CLEAN_SHUTDOWN).touch()
    for look_up in (
        lambda: at(log, 7),
        lambda: read(log, start_timestamp=NOW + 7 * HOUR),
        lambda: read(log, start_offset="latest"),
    ):
        with pytest.raises(bl.errors.CorruptRecordError, match="t-0 ends at 6"):
            look_up()
    assert at(log, 5) == 5
    assert read(log, start_timestamp=NOW + 7 * HOUR, on_corrupt="skip") == ([], [(6, 9)])


def test_a_high_watermark_behind_the_lost_end_is_no_start(log, tmp_path):
    for name in (checkpoints.RECOVERY_POINTS, checkpoints.HIGH_WATERMARKS):
        checkpoint(log, name, 9)
    (tmp_path / checkpoints.CLEAN_SHUTDOWN).touch()
    with pytest.raises(bl.errors.CorruptRecordError, match="t-0 ends at 6"):
        read(log, start_offset="latest", end_offset="high-watermark")


def test_damage_behind_the_answer_is_none_of_the_look_ups(log):
    path, position = start_of(log, 5)
    flip_bit(path, position + 61)
    assert at(log, 4) == 4
    assert read(log, end_timestamp=NOW + 4 * HOUR) == ([0, 1, 2, 3], [])
    reader = bl.Log(log.path).read(start_timestamp=NOW + 4 * HOUR, columns=["offset"])
    assert next(reader)["offset"].to_pylist() == [4]
    with pytest.raises(bl.errors.CorruptRecordError, match="crc mismatch"):
        next(reader)


@pytest.mark.parametrize("is_indexed", [True, False])
@pytest.mark.parametrize("times", [[5, 5, 5, 5], [5, 4, 3, 2], [5, 9, 2, 1]])
def test_the_largest_time_of_a_closed_segment_is_its_last_index_entry_or_what_the_headers_say(
    tmp_path, times, is_indexed
):
    directory = tmp_path / "t-0"
    write_segment(
        directory, 0, [batch(i, [b"x"], timestamp=NOW + time) for i, time in enumerate(times)], indexed=is_indexed
    )
    write_segment(directory, 4, [batch(4, [b"x"], timestamp=NOW + 3)], indexed=is_indexed)
    log = bl.Log(directory)
    for wanted in range(11):
        found = [i for i, time in enumerate([*times, 3]) if time >= wanted]
        assert log.offsets_for_times(NOW + wanted).offset == (found[0] if found else -1)
    assert log.offsets_for_times(-3).offset == times.index(max(times))
