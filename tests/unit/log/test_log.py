"""Where a log starts and ends, and what of it is read."""

import os
import pickle
import shutil
import subprocess
import warnings

import pyarrow as pa
import pytest

import brokerless as bl
from brokerless.log.partition_files import header_walk
from brokerless.log.reader import SparkReader
from support import damage
from support.log_files import NOW, batch, write_segment, write_snapshot
from support.three_segment_log import offsets, read_offsets


@pytest.fixture
def three_segments(tmp_path):
    """Offsets 0 to 11 in batches of two, two batches a segment."""
    for base in (0, 4, 8):
        write_segment(tmp_path / "t-0", base, [batch(base, [b"a", b"b"]), batch(base + 2, [b"c", b"d"])])
    return tmp_path / "t-0"


def test_starts_and_ends_in_words_and_numbers(three_segments):
    log = bl.Log(three_segments)
    assert read_offsets(log) == read_offsets(log, start_offset="earliest", end_offset="latest") == list(range(12))
    assert read_offsets(log, start_offset=5, end_offset=9) == [5, 6, 7, 8]
    assert read_offsets(log, start_offset="latest") == read_offsets(log, start_offset=12) == []
    assert read_offsets(log, start_offset=7, end_offset=7) == read_offsets(log, start_offset=7, end_offset=3) == []
    assert read_offsets(log, end_offset=10**6) == list(range(12))


@pytest.mark.parametrize("kind", ["delete", "stray"])
def test_the_checkpoints_of_a_topic_that_was_made_anew_hide_no_row_of_the_old_one(three_segments, kind):
    root = three_segments.parent
    (root / "log-start-offset-checkpoint").write_text("0\n1\nt 0 10\n")
    (root / "replication-offset-checkpoint").write_text("0\n1\nt 0 11\n")
    old = three_segments.rename(root / f"t-0.{'0' * 32}-{kind}")
    log = bl.Log(old)
    assert (log.name, log.log_start_offset, log.high_watermark) == ("t-0", 0, None)
    assert read_offsets(log) == list(range(12))
    assert read_offsets(bl.Log(old / f"{0:020d}.log")) == list(range(4))


def test_a_range_inside_one_batch(three_segments):
    assert read_offsets(bl.Log(three_segments), start_offset=5, end_offset=6) == [5]


@pytest.mark.parametrize("back", range(1, 16))
@pytest.mark.parametrize("end", ["latest", "high-watermark", 7])
def test_a_negative_start_counts_from_the_end_of_what_is_visible(three_segments, end, back):
    (three_segments.parent / "replication-offset-checkpoint").write_text("0\n1\nt 0 9\n")
    visible = 9 if end == "high-watermark" else 12
    expected = range(max(0, visible - back), 7 if end == 7 else visible)
    assert read_offsets(bl.Log(three_segments), start_offset=-back, end_offset=end) == list(expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_a_negative_start_of_any_log_reads_the_same_as_its_offset(golden, level):
    tried = 0
    for directory in sorted(golden.glob("logs/kafka-*/*-[0-9]")):
        log = bl.Log(directory)
        rows = log.to_table(isolation_level=level, on_corrupt="skip", columns=["offset"])["offset"].to_pylist()
        for back in (1, 2, 10, 1000):
            start = log.log_end_offset - back
            read = log.read(start_offset=-back, isolation_level=level, on_corrupt="skip", columns=["offset"])
            assert pa.table(read)["offset"].to_pylist() == [offset for offset in rows if offset >= start], (log, back)
            tried += 1
    assert tried > 200


@pytest.mark.parametrize("start", [13, 1 << 62])
def test_a_start_outside_the_log(three_segments, start):
    with pytest.raises(
        bl.errors.OffsetOutOfRangeError, match=f"offset {start} is not in the log t-0, which has offsets 0 to 11"
    ) as caught:
        bl.Log(three_segments).read(start_offset=start)
    assert (caught.value.log_start_offset, caught.value.log_end_offset) == (0, 12)


@pytest.mark.parametrize(
    ("option", "word"),
    [
        ("start_offset", "earlyest"),
        ("end_offset", "high-water-mark"),
        ("isolation_level", "read-committed"),
        ("on_corrupt", "skipp"),
    ],
)
def test_an_unknown_word_comes_with_the_nearest(three_segments, option, word):
    with pytest.raises(ValueError, match=f"unknown {option} '{word}': did you mean"):
        bl.Log(three_segments).plan(**{option: word})


def test_an_unknown_column_comes_with_the_nearest(three_segments):
    with pytest.raises(ValueError, match="unknown column 'time_stamp': did you mean 'timestamp'"):
        bl.Log(three_segments).read(columns=["time_stamp"])


@pytest.mark.parametrize("options", [{"start_timestamp": -1}, {"end_timestamp": -2}, {"end_offset": -1}])
def test_negative_numbers_are_not_words_in_disguise(three_segments, options):
    with pytest.raises(ValueError, match=r"not a time|negative"):
        bl.Log(three_segments).plan(**options)


def test_times_are_resolved_as_a_broker_does(tmp_path):
    batches = [batch(i, [b"x"], timestamp=NOW + 10 * i) for i in range(10)]
    log = bl.Log(write_segment(tmp_path / "t-0", 0, batches).parent)
    assert read_offsets(log, start_timestamp=NOW + 35, end_timestamp=NOW + 70) == [4, 5, 6]
    assert read_offsets(log, start_timestamp=NOW + 1000) == []
    assert read_offsets(log, end_timestamp=NOW + 1000) == list(range(10))
    assert read_offsets(log, start_offset=6, start_timestamp=NOW) == [6, 7, 8, 9]
    assert read_offsets(log, end_offset=3, end_timestamp=NOW + 80) == [0, 1, 2]


def test_the_log_start_offset_may_lie_inside_a_batch(golden):
    log = bl.Log(golden / "logs" / "kafka-4.1" / "trimmed-delete-records-0")
    starts = [row["base_offset"] for batches in log.scan() for row in batches.to_pylist()]
    assert log.log_start_offset not in starts
    assert read_offsets(log) == list(range(117, 200))


def test_a_log_start_behind_the_end_empties_the_log_and_is_told(three_segments):
    """As a broker would; a checkpoint that was copied later than the log is no reason to take it for empty."""
    (three_segments.parent / "log-start-offset-checkpoint").write_text("0\n1\nt 0 40\n")
    log = bl.Log(three_segments)
    with pytest.warns(UserWarning, match="t-0 ends at 12, below its start offset 40 in .*log-start-offset-checkpoint"):
        assert (log.log_start_offset, log.log_end_offset) == (40, 40)
    assert read_offsets(log) == []
    # one file of a log is below its start whenever older records were deleted
    assert read_offsets(bl.Log(three_segments / f"{0:020d}.log")) == []


def test_damage_below_the_log_start_is_not_told_as_a_log_that_ends_there(three_segments):
    """There are rows behind it, and the read says what is wrong."""
    (three_segments.parent / "log-start-offset-checkpoint").write_text("0\n1\nt 0 10\n")
    last = three_segments / f"{8:020d}.log"
    damage.overwrite(last, 8, b"\xff" * 4)
    damage.remove(last.with_suffix(".index"))
    log = bl.Log(three_segments)
    assert (log.log_start_offset, log.log_end_offset) == (10, 12)
    with pytest.raises(bl.errors.CorruptRecordError):
        read_offsets(log)
    reader = log.read(on_corrupt="skip", columns=["offset"])
    assert offsets(reader) == [10, 11]
    assert reader.lost == []


def test_a_log_of_which_only_indexes_were_copied_is_not_silently_empty(three_segments):
    for path in three_segments.glob("*.log"):
        path.unlink()
    log = bl.Log(three_segments)
    with pytest.warns(
        UserWarning, match=r"t-0 has indexes, but the \.log files of these are missing, from 0{20}\.log on"
    ):
        assert (log.segments, log.log_end_offset) == ([], 0)


def test_a_checkpoint_older_than_the_last_retention_is_no_missing_range(three_segments):
    damage.remove(three_segments / "00000000000000000000.log")
    (three_segments.parent / "log-start-offset-checkpoint").write_text("0\n1\nt 0 2\n")
    (three_segments / "leader-epoch-checkpoint").write_text("0\n1\n0 4\n")
    log = bl.Log(three_segments)
    assert (log.log_start_offset, log.missing_offsets) == (4, None)


@pytest.mark.filterwarnings("ignore:.* in remote storage, or were deleted")
def test_offsets_in_remote_storage_count_as_missing_here(golden):
    log = bl.Log(golden / "logs" / "kafka-4.1-tiered" / "tiered-plain-0")
    assert (log.log_start_offset, log.local_log_start_offset, log.missing_offsets) == (0, 290, (0, 290))
    assert read_offsets(log) == list(range(290, 300))
    with pytest.raises(bl.errors.OffsetOutOfRangeError, match="which has offsets 290 to 299 here"):
        log.read(start_offset=289)


def test_the_high_watermark_is_null_without_a_checkpoint(three_segments):
    log = bl.Log(three_segments)
    assert log.high_watermark is None
    with pytest.raises(ValueError, match=r"the high watermark of t-0 is not known: .* has no checkpoint of it"):
        log.read(end_offset="high-watermark")


def checkpoint_high_watermark(directory, offset):
    (directory.parent / "replication-offset-checkpoint").write_text(f"0\n1\nt 0 {offset}\n")


def test_the_high_watermark_ends_a_read_if_asked_for(three_segments):
    checkpoint_high_watermark(three_segments, 6)
    log = bl.Log(three_segments)
    assert log.high_watermark == 6
    assert read_offsets(log) == list(range(12))
    assert read_offsets(log, end_offset="high-watermark") == list(range(6))


@pytest.mark.parametrize(("checkpointed", "expected"), [(0, 0), (100, 12)])
def test_a_read_to_the_high_watermark_stays_within_the_log(three_segments, checkpointed, expected, monkeypatch):
    checkpoint_high_watermark(three_segments, checkpointed)
    monkeypatch.setattr(bl.LogDirFiles, "is_locked", True)
    log = bl.Log(three_segments)
    assert log.high_watermark == checkpointed
    assert read_offsets(log, end_offset="high-watermark") == list(range(expected))


def test_under_a_live_broker_a_read_ends_at_the_high_watermark(three_segments, monkeypatch):
    """What is above may still be truncated: it was not committed."""
    checkpoint_high_watermark(three_segments, 6)
    monkeypatch.setattr(bl.LogDirFiles, "is_locked", True)
    log = bl.Log(three_segments)
    assert read_offsets(log) == list(range(6))
    assert read_offsets(log, end_offset="latest") == list(range(12))
    assert log.offsets_for_times(-1).offset == 6


def test_a_live_broker_that_checkpointed_nothing_yet(three_segments, monkeypatch):
    monkeypatch.setattr(bl.LogDirFiles, "is_locked", True)
    assert read_offsets(bl.Log(three_segments)) == list(range(12))


def test_an_empty_partition_directory(tmp_path):
    (tmp_path / "t-0").mkdir()
    log = bl.Log(tmp_path / "t-0")
    assert (log.segments, log.log_start_offset, log.log_end_offset, log.last_stable_offset) == ([], 0, 0, 0)
    assert read_offsets(log) == read_offsets(log, isolation_level="read_committed") == []
    assert list(log.scan()) == []
    assert log.offsets_for_times(0) == log.offsets_for_times(-3) == (-1, -1, None)


def test_the_path_may_be_relative(three_segments, monkeypatch):
    monkeypatch.chdir(three_segments)
    assert bl.Log(".").name == "t-0"
    assert read_offsets(bl.Log("00000000000000000004.log")) == [4, 5, 6, 7]


def test_a_split_can_be_pickled(three_segments):
    splits = bl.Log(three_segments).plan(target_bytes=1)
    copies = pickle.loads(pickle.dumps(splits))
    assert copies == splits
    assert [offset for split in copies for offset in offsets(bl.read_split(split, ["offset"]))] == list(range(12))


@pytest.mark.parametrize(("share", "pieces"), [(0.95, 1), (1.05, 1), (1.5, 2), (2.05, 2), (2.5, 3), (8, 8), (0.1, 1)])
def test_no_split_is_a_rest_of_a_few_bytes(tmp_path, share, pieces):
    """A rest of a few bytes would be a task of its own, and cost as much as any."""
    with bl.create_log_dir(tmp_path) as log_dir:
        log_dir.create_topic("t", index_interval_bytes=0)
        for number in range(400):
            log_dir.log("t", 0).append(batch(0, [b"%d" % number]))
    log = bl.LogDirs(tmp_path).log("t", 0)
    size = log.segments[0].size
    splits = log.plan(target_bytes=round(size / share))
    assert len(splits) == pieces
    sizes = [split.end_position - split.position for split in splits]
    assert max(sizes) - min(sizes) < size // 100
    assert [offset for split in splits for offset in offsets(bl.read_split(split, ["offset"]))] == list(range(400))


def test_a_split_has_bytes(three_segments):
    with pytest.raises(ValueError, match="target_bytes 0: expected 1 or more"):
        bl.Log(three_segments).plan(target_bytes=0)


def test_rows_are_an_arrow_stream(three_segments):
    table = pa.table(bl.Log(three_segments).read())
    assert table.num_rows == 12
    assert table.schema == bl.Log(three_segments).read().schema


def test_the_default_columns_are_those_of_sparks_kafka_source(three_segments):
    schema = bl.Log(three_segments).read().schema
    assert schema.names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    assert schema.field("timestamp").type == pa.timestamp("ms", "UTC")
    assert SparkReader(bl.Log(three_segments).plan()).schema.field("timestamp").type == pa.timestamp("us", "UTC")


def test_a_closed_reader_holds_no_file(three_segments):
    with bl.Log(three_segments).read() as reader:
        next(reader)
    assert not [path for path in os.listdir("/proc/self/fd") if _target(path).startswith(str(three_segments))]
    assert list(reader) == []


def _target(descriptor):
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except FileNotFoundError:
        return ""


def test_header_walk_says_what_is_in_a_log(golden):
    walk = header_walk(bl.Log(golden / "logs" / "kafka-2.8-mixed" / "upgraded-all-codecs-0").files)
    assert list(walk.magics) == [0, 1, 2]
    assert set(walk.compressions) == {"none", "gzip", "snappy", "lz4"}
    assert walk.batches == 144


def test_reading_changes_nothing(golden, copied):
    directory = copied("kafka-4.1-crashed", "crash-zeros-0")
    before = subprocess.run(["ls", "-lR", "--full-time", directory.parent], capture_output=True, check=True).stdout
    log = bl.Log(directory)
    assert read_offsets(log, isolation_level="read_committed")
    assert (
        subprocess.run(["ls", "-lR", "--full-time", directory.parent], capture_output=True, check=True).stdout == before
    )


def test_a_cut_older_segment_is_not_called_healthy(three_segments):
    path = bl.Log(three_segments).segments[1].path
    damage.cut(path, -1)
    log = bl.Log(three_segments)
    with pytest.raises(bl.errors.CorruptRecordError, match="record batch is cut") as caught:
        header_walk(log.files)
    assert caught.value.path == path


def test_an_offset_that_a_flipped_bit_makes_too_large_hides_nothing_behind_it(tmp_path):
    """No checksum covers a message's offset, or a batch's first; a consumer would go on behind the large one."""
    batches = [batch(0, [b"0"]), batch(1 << 20, [b"1"]), batch(2, [b"2"]), batch(3, [b"3"])]
    log = bl.Log(write_segment(tmp_path / "t-0", 0, batches).parent)
    with pytest.raises(
        bl.errors.CorruptRecordError, match="offset 1048576 is not below 4, where the segment has to end"
    ):
        read_offsets(log)
    reader = log.read(columns=["value"], on_corrupt="skip")
    assert [value for rows in reader for value in rows["value"].to_pylist()] == [b"0", b"2", b"3"]
    assert [(lost.start_offset, lost.end_offset) for lost in reader.lost] == [(1, 2)]


def checkpoint(directory, name, offset):
    (directory.parent / name).write_text(f"0\n1\nt 0 {offset}\n")


@pytest.fixture
def shut_down(three_segments):
    """The three segments, as a clean shutdown leaves them."""
    checkpoint(three_segments, "recovery-point-offset-checkpoint", 12)
    checkpoint(three_segments, "replication-offset-checkpoint", 12)
    (three_segments.parent / ".kafka_cleanshutdown").touch()
    write_snapshot(three_segments, 12)
    return three_segments


def lost_of(log, **options):
    reader = log.read(columns=["offset"], on_corrupt="skip", **options)
    return offsets(reader), [(lost.start_offset, lost.end_offset) for lost in reader.lost]


@pytest.mark.parametrize("base", [0, 4, 8])
def test_a_removed_segment_is_an_error_where_its_indexes_are_left(three_segments, base):
    damage.remove(three_segments / f"{base:020d}.log")
    with pytest.raises(bl.errors.CorruptRecordError, match="the file is missing, although its indexes") as caught:
        read_offsets(bl.Log(three_segments))
    assert caught.value.path == str(three_segments / f"{base:020d}.log")
    kept, lost = lost_of(bl.Log(three_segments))
    assert kept == [offset for offset in range(12) if not base <= offset < base + 4]
    assert lost == [(base, base + 4 if base < 8 else None)]
    if base:
        assert read_offsets(bl.Log(three_segments), end_offset=base) == list(range(base))
    if base < 8:
        assert read_offsets(bl.Log(three_segments), start_offset=base + 4) == list(range(base + 4, 12))


@pytest.mark.parametrize("kept", [8, 10])
def test_a_clean_log_that_ends_below_its_checkpoints_is_an_error_with_the_numbers(shut_down, kept):
    path = shut_down / f"{8:020d}.log"
    size = path.stat().st_size
    damage.cut(path, size // 2 * ((kept - 8) // 2))
    log = bl.Log(shut_down)
    assert (log.log_end_offset, log.high_watermark) == (kept, 12)
    checkpoints = "recovery-point-offset-checkpoint, replication-offset-checkpoint"
    said = rf"t-0 ends at {kept}, but {checkpoints} and 0+12\.snapshot say 12"
    with pytest.raises(bl.errors.CorruptRecordError, match=said):
        read_offsets(log)
    assert lost_of(bl.Log(shut_down)) == (list(range(kept)), [(kept, 12)])
    assert read_offsets(bl.Log(shut_down), end_offset=kept) == list(range(kept))
    damage.append(path, bytes(4000))
    assert lost_of(bl.Log(shut_down)) == (list(range(kept)), [(kept, 12)])


def test_what_is_lost_at_the_end_is_known_from_the_checkpoints(shut_down):
    path = shut_down / f"{8:020d}.log"
    damage.overwrite(path, 20, bytes(path.stat().st_size))
    with pytest.raises(bl.errors.CorruptRecordError, match="crc mismatch"):
        read_offsets(bl.Log(shut_down))
    assert lost_of(bl.Log(shut_down)) == (list(range(8)), [(8, 12)])


def test_all_segments_removed_after_a_clean_shutdown_is_an_error(shut_down):
    for path in shut_down.glob(f"{0:010d}*"):
        if path.suffix != ".snapshot":
            path.unlink()
    with pytest.raises(bl.errors.CorruptRecordError, match="t-0 ends at 0, but "):
        read_offsets(bl.Log(shut_down))
    assert lost_of(bl.Log(shut_down)) == ([], [(0, 12)])


def test_checkpoints_ahead_of_an_unclean_log_are_said(shut_down):
    damage.remove(shut_down.parent / ".kafka_cleanshutdown")
    damage.remove(shut_down.parent / "recovery-point-offset-checkpoint")
    path = shut_down / f"{8:020d}.log"
    damage.cut(path, path.stat().st_size // 2)
    with pytest.warns(UserWarning, match="t-0 ends at 10, but .* say 12.*After a crash"):
        assert read_offsets(bl.Log(shut_down)) == list(range(10))
    assert read_offsets(bl.Log(shut_down), end_offset=9) == list(range(9))


def test_a_log_shows_what_it_holds(three_segments):
    log = bl.Log(three_segments)
    start, end = log.log_start_offset, log.log_end_offset
    assert repr(log).startswith(f"<Log {log.name} offsets [{start}, {end}) 3 segments ")
    assert f"<li>offsets [{start}, {end})</li>" in log._repr_html_()


def test_a_log_that_cannot_be_read_still_has_a_repr(three_segments):
    log = bl.Log(three_segments)
    for path in three_segments.iterdir():
        path.unlink()
    three_segments.rmdir()
    assert repr(log) == f"<Log {log.name}>"


def test_a_log_is_an_arrow_stream_and_a_table(three_segments):
    log = bl.Log(three_segments)
    assert pa.table(log) == log.to_table() == pa.Table.from_batches(list(log))
    assert log.to_table(limit=0).num_rows == 0
    assert log.to_table(limit=5) == log.to_table().slice(0, 5)
    with pytest.raises(ValueError, match="limit=-1: 0 or more needed"):
        log.read(limit=-1)


def test_a_table_of_a_damaged_log_warns_of_what_it_lacks(three_segments):
    path = min(three_segments.glob("*.log"))
    damage.flip_bit(path, 70)
    log = bl.Log(three_segments)
    with pytest.raises(bl.errors.CorruptRecordError):
        log.to_table()
    with pytest.warns(UserWarning, match="lost: offsets"):
        assert log.to_table(on_corrupt="skip").num_rows < log.log_end_offset


def test_a_log_directory_in_place_of_a_partition_is_named(golden):
    with pytest.raises(ValueError, match=r"it is a log directory: LogDirs\(.*\) reads all its topics"):
        bl.Log(golden / "logs/kafka-4.1")


def test_a_display_does_not_use_up_the_warnings_of_a_read(three_segments):
    (three_segments.parent / "log-start-offset-checkpoint").write_text(f"0\n1\n{bl.Log(three_segments).topic} 0 500\n")
    log = bl.Log(three_segments)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert repr(log).endswith("with warnings>")
    with pytest.warns(UserWarning, match="a read returns no row"):
        assert log.to_table().num_rows == 0


def test_a_name_cannot_command_a_terminal(tmp_path, three_segments):
    hostile = tmp_path / "a\x1b[2J\nb-0"
    shutil.copytree(three_segments, hostile)
    assert "\x1b" not in repr(bl.Log(hostile))
    assert "\n" not in repr(bl.Log(hostile))
