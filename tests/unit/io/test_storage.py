"""Files are read by position into one buffer, and no file's size is taken on trust."""

import os

import pytest

import brokerless as bl
from brokerless.io import storage
from brokerless.io.file_window import SIZE, Window
from support.log_files import batch, write_segment


def test_a_read_into_a_buffer_says_how_much_there_was(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"0123456789")
    buffer = memoryview(bytearray(6))
    with storage.File(str(path)) as file:
        assert (file.read_into(2, buffer), bytes(buffer)) == (6, b"234567")
        assert file.read_into(8, buffer) == 2
        assert file.read_into(50, buffer) == 0
        assert file.read(8, 6) == b"89"


def test_a_preallocated_tail_is_not_read(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"x" * 100 + bytes(10 << 20))
    assert len(storage.read_until_zeros(str(path))) == 3 << 15
    assert len(storage.read_all(str(path))) == 100 + (10 << 20)


def test_a_sparse_file_of_a_terabyte_is_not_read_as_a_whole(tmp_path):
    path = tmp_path / "f"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    for read in (storage.read_all, storage.read_until_zeros):
        with pytest.raises(OSError, match="too large to be read as a whole"):
            read(str(path))


def test_what_is_larger_than_any_small_file_is_not_read_as_a_whole(tmp_path):
    path = tmp_path / "f"
    with path.open("wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(OSError, match=r"67108865 bytes, at most 67108864.*/f"):
        storage.read_all(str(path))


def test_a_named_pipe_is_refused_and_not_waited_for(tmp_path):
    path = tmp_path / f"{200:020d}.log"
    os.mkfifo(path)
    with pytest.raises(OSError, match=r"not a regular file: .*200\.log"):
        storage.File(str(path))
    log = bl.Log(write_segment(tmp_path, 0, [batch(0, [b"x"])]).parent)
    with pytest.raises(OSError, match="not a regular file"):
        _ = log.log_end_offset


def test_a_device_and_a_directory_are_refused_and_closed(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="not a regular file"):
        storage.File("/dev/zero")
    with pytest.raises(IsADirectoryError):
        storage.File(str(tmp_path))
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_window_reads_behind_its_end_only_as_far_as_a_batch_needs(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(bytes(range(200)))
    with storage.File(str(path)) as file:
        window = Window(file, 10, 30)
        assert window.fill(0)
        assert bytes(window.data) == bytes(range(10, 30))
        window.advance(4)
        assert window.fill(40)
        assert (window.position, bytes(window.data)) == (14, bytes(range(14, 54)))
        assert not window.fill(187)
        assert window.fill(186)
        assert not window.fill(0)


def test_a_window_gives_back_what_a_large_batch_took(tmp_path):
    path = tmp_path / "f"
    with path.open("wb") as file:
        file.truncate(20 * SIZE)
    with storage.File(str(path)) as file:
        window = Window(file, 0, 20 * SIZE)
        assert window.fill(5 * SIZE)
        assert len(window.data) == 5 * SIZE
        window.advance(5 * SIZE)
        assert window.fill(0)
        assert window._buffer.nbytes == SIZE
