"""Large logs, and many: segments and topics cost little to look at, and long logs no more memory than short ones."""

import os
import subprocess
import sys

import pytest

import brokerless as bl
from brokerless.io import storage
from brokerless.log_dir.restoration import Restoration
from support.log_files import NOW, batch, write_segment

# Not `ru_maxrss`: a process inherits it from the one that starts it.
PEAK = """
import re, sys
from pathlib import Path
import brokerless as bl
rows = sum(chunk.num_rows for chunk in bl.Log(sys.argv[1]).read())
print(rows, int(re.search("VmHWM:.*?([0-9]+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""


def rows_and_peak(directory):
    command = [sys.executable, "-c", PEAK, str(directory)]
    rows, megabytes = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return int(rows), int(megabytes)


@pytest.mark.slow
def test_the_memory_of_a_read_does_not_grow_with_the_log(tmp_path):
    batches = [bytearray(batch(0, [os.urandom(1000)] * 16)) for _ in range(1000)]
    for i in range(12):
        for j, content in enumerate(batches):
            content[:8] = (16 * (1000 * i + j)).to_bytes(8, "big")
        write_segment(tmp_path / "long-0", 16000 * i, batches, indexed=False)
    (tmp_path / "t-0").mkdir()
    os.link(tmp_path / "long-0" / f"{0:020d}.log", tmp_path / "t-0" / f"{0:020d}.log")
    short_rows, short = rows_and_peak(tmp_path / "t-0")
    long_rows, long = rows_and_peak(tmp_path / "long-0")
    assert long_rows == 12 * short_rows
    assert long < short + 25, "megabytes"


@pytest.fixture
def many_segments(tmp_path):
    for i in range(3000):
        write_segment(tmp_path / "t-0", 10 * i, [batch(10 * i, [b"x"] * 10, timestamp=NOW + 10 * i)])
    return tmp_path / "t-0"


def test_planning_small_segments_reads_none_but_the_last(many_segments, monkeypatch):
    opened = []
    open_file = storage.File.__init__
    monkeypatch.setattr(storage.File, "__init__", lambda file, path: opened.append(path) or open_file(file, path))
    splits = bl.Log(many_segments).plan()
    assert len(splits) == 3000
    of_segments = {os.path.basename(path) for path in opened if path.endswith(("log", "index"))}
    assert of_segments <= {f"{29990:020d}.{suffix}" for suffix in ("log", "index", "timeindex")}


def test_opening_a_log_of_many_segments_reads_nothing(many_segments, monkeypatch):
    monkeypatch.setattr(storage, "File", None)
    monkeypatch.setattr(storage, "size", None)
    assert len(bl.Log(many_segments).segments) == 3000


def test_a_start_in_the_middle_of_many_segments(many_segments):
    log = bl.Log(many_segments)
    assert len(log.plan(start_offset=29985)) == 2
    assert log.offsets_for_times(NOW + 20_001) == (20_001, NOW + 20_001, 0)


def test_many_restored_topics_are_known_by_one_look_at_the_logs(tmp_path, monkeypatch):
    """A look for each topic takes 10,000 topics of ten partitions minutes."""
    with bl.create_log_dir(tmp_path / "d") as log_dir:
        for number in range(20):
            log_dir.create_topic(f"t{number}")
        looks = []
        for name in ("logs", "topics"):
            look = getattr(bl.LogDirs, name)
            monkeypatch.setattr(bl.LogDirs, name, lambda *given, look=look: looks.append(look) or look(*given))
        restoration = Restoration({f"t{number}": "d" for number in range(20)}, {})
        restoration.stage(log_dir, str(tmp_path / "d"), {})
    assert len(restoration.done(bl.LogDirs(tmp_path / "d"))) == 20
    assert len(looks) == 2
