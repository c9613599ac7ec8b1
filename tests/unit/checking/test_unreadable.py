"""Files that a disk cannot read, or that the user may not read: each is named, and all others are checked and kept."""

import errno
import json
import os
import shutil
import subprocess
import sys
from itertools import chain

import pytest

import brokerless as bl
from brokerless.io import storage
from support.failing_disk import denied, fail
from support.log_files import NOW, batch

VALUE = b"v" * 1000
SIZE = len(batch(0, [VALUE]))
COUNT = 40
BLOCK = 4096
LOG = "t-0/00000000000000000000.log"
DDRESCUE = "image the disk with ddrescue first, and work on the copy"
needs_denial = pytest.mark.skipif(
    os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root reads every file, except with setpriv"
)


@pytest.fixture
def data(tmp_path):
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        for topic in ("t", "u"):
            log_dir.create_topic(topic, retention_ms=-1)
            log = log_dir.log(topic, 0)
            for at in range(COUNT):
                log.append(batch(0, [VALUE], timestamp=NOW + at))
    return tmp_path / "data"


def lost_offsets(start, end):
    """Return the range of offsets in the blocks of some bytes."""
    first, last = start // BLOCK * BLOCK, -(-end // BLOCK) * BLOCK
    return first // SIZE, min(COUNT, -(-last // SIZE))


PLACES = {
    "the first batch": (10, 20),
    "the middle": (COUNT * SIZE // 2, COUNT * SIZE // 2 + 5000),
    "the end": (COUNT * SIZE - 10, COUNT * SIZE),
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_check_names_the_blocks_that_the_disk_cannot_read_and_goes_on(data, monkeypatch, place):
    (data / "u-0/leader-epoch-checkpoint").write_text("x")
    fail(monkeypatch, data / LOG, *place)
    first, end = lost_offsets(*place)
    for level in ("default", "deep"):
        unread, other = sorted(bl.check(data, level=level), key=lambda one: one.topic)
        assert (unread.code, unread.path) == ("disk-unreadable", str(data / LOG))
        assert (unread.start_offset, unread.end_offset or COUNT) == (first, end)
        assert unread.message.startswith("the disk cannot read bytes ")
        assert unread.message.endswith(DDRESCUE)
        assert other.code == "epochs-damaged"
    quick = [one.code for one in bl.check(data, level="quick")]
    assert set(quick) <= {"disk-unreadable", "batch-framing", "epochs-damaged"}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_read_returns_the_rows_before_them_and_a_skip_those_on_both_sides(data, monkeypatch, place):
    fail(monkeypatch, data / LOG, *place)
    first, end = lost_offsets(*place)
    read, reader = [], bl.Log(data / "t-0").read(columns=["offset"])
    with pytest.raises(OSError, match="Input/output error at byte ") as raised:
        read.extend(rows["offset"].to_pylist() for rows in reader)
    assert raised.value.errno == errno.EIO
    assert raised.value.filename == str(data / LOG)
    assert DDRESCUE in str(raised.value)
    assert list(chain.from_iterable(read)) == list(range(first))
    reader = bl.Log(data / "t-0").read(columns=["offset"], on_corrupt="skip")
    found = [offset for rows in reader for offset in rows["offset"].to_pylist()]
    assert found == [*range(first), *range(end, COUNT)]
    assert [(one.start_offset, one.end_offset or COUNT) for one in reader.lost] == [(first, end)]
    # Without checksums, nothing tells which batches the disk could not read.
    with pytest.raises(OSError, match="Input/output error"):
        list(bl.Log(data / "t-0").read(on_corrupt="skip", check_crcs=False))


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_repair_and_rescue_keep_the_batches_on_both_sides(data, monkeypatch, run, tmp_path, place):
    first, end = lost_offsets(*place)
    with monkeypatch.context() as failing:
        fail(failing, data / LOG, *place)
        in_place = run("repair", "--in-place", data)
        repaired = run("repair", data, "--output", tmp_path / "repaired")
        rescued = run("rescue", data, "--output", tmp_path / "rescued")
    assert in_place.code == 2
    assert DDRESCUE in in_place.err, "the next attempt to read the bytes may succeed"
    for result in (repaired, rescued):
        assert f"t-0: offset{'s' * (end - first > 1)} {first}" in result.out
        assert f"disk-unreadable at {data / LOG}" in result.out
    for name in ("repaired", "rescued"):
        offsets = bl.Log(tmp_path / name / "t-0").to_table(columns=["offset"])["offset"].to_pylist()
        assert offsets == [*range(first), *range(end, COUNT)]
        assert bl.Log(tmp_path / name / "u-0").to_table().num_rows == COUNT
        assert not [one.code for one in bl.check(tmp_path / name) if one.severity == "error"]


SMALL = {
    "t-0/leader-epoch-checkpoint": "epochs-damaged",
    f"t-0/{COUNT:020d}.snapshot": "snapshot-damaged",
    "t-0/00000000000000000000.index": "offset-index",
    "t-0/00000000000000000000.timeindex": "time-index",
    "t-0/partition.metadata": "topic-id-damaged",
    "data/meta.properties": "ids-damaged",
    "data/recovery-point-offset-checkpoint": "checkpoint-damaged",
}


@pytest.mark.parametrize("name", SMALL)
def test_a_small_file_that_the_disk_cannot_read_is_a_damaged_one(data, monkeypatch, run, tmp_path, name):
    path = data.parent / name if name.startswith("data/") else data / name
    with monkeypatch.context() as failing:
        fail(failing, path)
        found = list(bl.check(data))
        assert {(one.code, one.path) for one in found} == {(SMALL[name], str(path))}
        assert all("Input/output error" in one.message for one in found)
        run("repair", data, "--output", tmp_path / "repaired")
    assert bl.Log(tmp_path / "repaired/t-0").to_table().num_rows == COUNT
    assert not [one.code for one in bl.check(tmp_path / "repaired") if one.severity == "error"]


def test_a_metadata_log_that_the_disk_cannot_read(golden, monkeypatch):
    path = golden / "logs/kafka-4.1"
    name = "__cluster_metadata-0/00000000000000000000.log"
    fail(monkeypatch, path / name, 300, 400)
    found = [(one.code, one.path) for one in bl.check(path, topics=None) if one.severity == "error"]
    assert ("disk-unreadable", str(path / name)) in found
    assert ("file-unreadable", str(path / name)) in found
    assert {code for code, _ in found} == {"disk-unreadable", "file-unreadable"}


def test_ls_names_the_file_that_the_disk_cannot_read(data, monkeypatch, run):
    fail(monkeypatch, data / LOG)
    result = run("ls", data)
    assert f"damaged: Input/output error at byte 0; {DDRESCUE}: {data / LOG}" in result.err
    assert "u-0" in result.out


def test_a_block_is_read_once_and_its_neighbours_are_kept(tmp_path, monkeypatch):
    path = tmp_path / "x.log"
    content = os.urandom(4 * BLOCK + 100)
    path.write_bytes(content)
    fail(monkeypatch, path, BLOCK + 5, BLOCK + 6)
    with pytest.raises(OSError, match="Input/output error"), storage.File(str(path)) as file:
        file.read(0, len(content))
    with storage.bridged(), storage.File(str(path)) as file:
        assert file.read(10, len(content)) == content[10:BLOCK] + b"\xff" * BLOCK + content[2 * BLOCK :]
        assert storage.unreadable_ranges(str(path)) == [(BLOCK, 2 * BLOCK)]
        assert file.read(2 * BLOCK, BLOCK) == content[2 * BLOCK : 3 * BLOCK]
    assert storage.unreadable_ranges(str(path)) == []


def test_a_pipe_in_the_place_of_a_segment_does_not_hide_other_findings(data):
    (data / LOG).unlink()
    os.mkfifo(data / LOG)
    (data / "u-0/leader-epoch-checkpoint").write_text("x")
    for level in ("quick", "default", "deep"):
        unread, other = sorted(bl.check(data, level=level), key=lambda one: one.topic)
        assert (unread.code, unread.path) == ("file-unreadable", str(data / LOG))
        assert unread.message == "it cannot be read: not a regular file"
        assert other.code == "epochs-damaged"
    with pytest.raises(OSError, match="not a regular file"):
        bl.repair(data, dry_run=True)


@needs_denial
def test_what_the_user_may_not_read_does_not_hide_other_findings(data, tmp_path):
    with bl.open_log_dir(data) as log_dir:
        log_dir.create_topic("v")
        log_dir.log("t", 0).roll()
        log_dir.log("t", 0).append(batch(0, [VALUE], timestamp=NOW))
    closed = [*sorted((data / "t-0").glob("*.log")), data / "v-0"]
    (data / "u-0/leader-epoch-checkpoint").write_text("x")
    modes = {path: path.stat().st_mode for path in closed}
    for path in closed:
        path.chmod(0)
    try:
        words = [*denied(), sys.executable, "-m", "brokerless"]
        checked = subprocess.run([*words, "check", "--json", data], capture_output=True, text=True, check=False)
        listed = subprocess.run([*words, "ls", data], capture_output=True, text=True, check=False)
    finally:
        for path, mode in modes.items():
            path.chmod(mode)
    found = [json.loads(line) for line in checked.stdout.splitlines()]
    unread = {one["path"]: one["message"] for one in found if one["code"] == "file-unreadable"}
    assert unread == dict.fromkeys(map(str, closed), "it cannot be read: Permission denied")
    assert "epochs-damaged" in {one["code"] for one in found}
    assert checked.returncode == 1
    for path in closed:
        assert f"Permission denied: {path}" in listed.stderr
