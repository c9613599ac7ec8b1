"""Time queries where no golden log shows what a broker answers; where one does, see test_golden."""

import os
import struct
import zlib

import pyarrow as pa
import pytest

import brokerless as bl
from brokerless import _native
from support.log_files import NOW, batch, marker, write_segment

NONE = (-1, -1, None)


def test_a_time_at_or_above_the_last_stable_offset_has_no_answer(tmp_path):
    batches = [batch(0, [b"x"]), batch(1, [b"x"], timestamp=NOW + 10, producer_id=1, transactional=True)]
    log = bl.Log(write_segment(tmp_path / "t-0", 0, batches).parent)
    assert log.offsets_for_times(NOW + 5) == (1, NOW + 10, 0)
    assert log.offsets_for_times(NOW + 5, "read_committed") == NONE
    assert log.offsets_for_times(-3) == (1, NOW + 10, 0)
    assert log.offsets_for_times(-3, "read_committed") == NONE
    # and so such a time starts a read at its end
    assert list(log.read(start_timestamp=NOW + 5, isolation_level="read_committed")) == []


def test_markers_answer_though_no_consumer_sees_them(tmp_path):
    batches = [
        batch(0, [b"x"], producer_id=1, transactional=True),
        marker(1, 1, commit=True, timestamp=NOW + 50),
        batch(2, [b"x"], timestamp=NOW + 20),
    ]
    log = bl.Log(write_segment(tmp_path / "t-0", 0, batches).parent)
    assert log.offsets_for_times(NOW + 10) == log.offsets_for_times(-3) == (1, NOW + 50, 0)


def test_only_the_first_segment_that_is_late_enough_is_searched(tmp_path):
    directory = tmp_path / "t-0"
    write_segment(directory, 0, [batch(0, [b"x"], timestamp=-1), batch(1, [b"x"], timestamp=-1)])
    write_segment(directory, 2, [batch(2, [b"x"], timestamp=NOW)])
    # without timestamps the first segment is as late as its file
    os.utime(directory / f"{0:020d}.log", (NOW // 1000 + 1, NOW // 1000 + 1))
    assert bl.Log(directory).offsets_for_times(NOW) == NONE
    os.utime(directory / f"{0:020d}.log", (NOW // 1000 - 1, NOW // 1000 - 1))
    assert bl.Log(directory).offsets_for_times(NOW) == (2, NOW, 0)


def test_the_largest_timestamp_is_that_of_the_first_segment_that_has_it(tmp_path):
    directory = tmp_path / "t-0"
    write_segment(directory, 0, [batch(0, [b"x"]), batch(1, [b"x", b"x"], timestamp=NOW + 9)])
    write_segment(directory, 3, [batch(3, [b"x"], timestamp=NOW + 10), batch(4, [b"x"], timestamp=NOW + 3)])
    assert bl.Log(directory).offsets_for_times(-3) == (2, NOW + 10, 0)


def test_the_active_segments_time_index_is_behind_its_data(tmp_path):
    """Its last entry is written when the segment is closed: until then the newest batches are not in it."""
    directory = tmp_path / "t-0"
    write_segment(directory, 0, [batch(i, [b"x"], timestamp=NOW + i) for i in range(10)])
    index = directory / f"{0:020d}.timeindex"
    index.write_bytes(index.read_bytes()[:24])
    log = bl.Log(directory)
    assert log.offsets_for_times(NOW + 8) == (8, NOW + 8, 0)
    assert log.offsets_for_times(-3) == (9, NOW + 9, 0)


def test_epochs_of_answers(tmp_path):
    directory = tmp_path / "t-0"
    write_segment(directory, 0, [batch(0, [b"x"], leader_epoch=3), batch(1, [b"x"], leader_epoch=5)])
    assert bl.Log(directory).offsets_for_times(-1) == (2, -1, 0)
    assert bl.Log(directory).offsets_for_times(-2) == (0, -1, None)
    (directory / "leader-epoch-checkpoint").write_text("0\n3\n3 0\n5 1\n7 2\n")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 1\n")
    log = bl.Log(directory)
    # a leader that has written nothing yet counts as well
    assert log.offsets_for_times(-1) == (2, -1, 7)
    assert log.offsets_for_times(-2) == log.offsets_for_times(-4) == (1, -1, 5)
    assert log.offsets_for_times(-5) == NONE
    assert log.offsets_for_times(0) == (1, NOW, 5)


@pytest.mark.parametrize("timestamp", [-7, -100])
def test_no_other_negative_number_is_a_query(tmp_path, timestamp):
    log = bl.Log(write_segment(tmp_path / "t-0", 0, [batch(0, [b"x"])]).parent)
    with pytest.raises(ValueError, match="neither ms since the epoch nor one of -1 to -6"):
        log.offsets_for_times(timestamp)


def test_messages_of_magic_0_have_the_time_of_their_append_in_the_index_alone(tmp_path):
    """Kafka 2.8 stamps it there with LogAppendTime, and every broker goes by it before it goes by the file's time."""
    directory = tmp_path / "t-0"
    row = pa.RecordBatch.from_pydict({"value": [b"x"]})
    old = [bytes(_native.Encoder(magic=0, base_offset=offset).encode(row, timestamp=-1)) for offset in range(3)]
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(b"".join(old))
    write_segment(directory, 3, [batch(3, [b"x"], timestamp=NOW + 100)])
    os.utime(directory / f"{0:020d}.log", (NOW // 1000 + 60, NOW // 1000 + 60))
    assert bl.Log(directory).offsets_for_times(NOW + 50) == NONE
    (directory / f"{0:020d}.timeindex").write_bytes(struct.pack(">qi", NOW + 6, 1))
    assert bl.Log(directory).offsets_for_times(NOW + 50) == (3, NOW + 100, 0)
    # of a batch that has a time, the entry is held against it
    (directory / f"{3:020d}.timeindex").write_bytes(struct.pack(">qi", NOW + 6, 0))
    assert bl.Log(directory).offsets_for_times(NOW + 50) == (3, NOW + 100, 0)


def test_the_first_batch_that_claims_the_largest_time_is_believed(tmp_path):
    """Kafka does not look for a second one where no record of the first has it."""
    rows = pa.RecordBatch.from_pydict({"value": [b"x"], "timestamp": [NOW]})
    wrapper = bytearray(_native.Encoder(magic=1, compression="gzip").encode(rows, timestamp=NOW))
    wrapper[18:26] = struct.pack(">q", NOW + 9)
    wrapper[12:16] = struct.pack(">I", zlib.crc32(wrapper[16:]))
    found = batch(1, [b"x"], timestamp=NOW + 9)
    assert bl.Log(write_segment(tmp_path / "t-0", 0, [bytes(wrapper), found]).parent).offsets_for_times(-3) == NONE
    assert bl.Log(write_segment(tmp_path / "u-0", 0, [found]).parent).offsets_for_times(-3) == (1, NOW + 9, 0)
