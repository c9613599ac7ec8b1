"""A repair that is cut short at every step leaves the directory as it was, or repaired; and its source untouched."""

import os

import pytest
from faults import each_crash

import brokerless as bl
from support import damage
from support.log_files import NOW, batch

SIZE = len(batch(0, [b"0"]))


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Nothing that a test writes needs to be durable: what is, `faults.py` knows without the system."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def outer(tmp_path):
    """A log directory with two damaged topics and a sound one, in a directory of its own."""
    (tmp_path / "outer").mkdir()
    data = tmp_path / "outer/data"
    with bl.create_log_dir(data) as log_dir:
        for topic in ("t", "u", "v"):
            # The indexes of active segments are as large as they may get: less to be copied for each step.
            log_dir.create_topic(topic, segment_bytes=250, index_interval_bytes=0, segment_index_bytes=1200)
            log = log_dir.log(topic, 0)
            for i in range(8):
                log.append(batch(0, [b"%d" % i], timestamp=NOW + i))
    for topic in ("t", "u"):
        damage.flip_bit(data / f"{topic}-0/00000000000000000003.log", SIZE + 65)
    return tmp_path / "outer"


def offsets(data, topic):
    log = bl.LogDirs(data).log(topic, 0)
    return [offset for rows in log.read(on_corrupt="skip") for offset in rows["offset"].to_pylist()]


def lost(path):
    """Return the offsets that the damage takes from each topic."""
    return {one.topic: one.start_offset for one in bl.repair(path, dry_run=True).ranges}


def content(root):
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_repair_beside(outer, tmp_path):
    before = content(outer / "data")
    seen = set()
    for crash in each_crash(lambda path: bl.repair(f"{path}/data", f"{path}/new"), outer, tmp_path):
        assert content(crash.directory / "data") == before, crash
        new = crash.directory / "new"
        seen.add(new.exists())
        if new.exists():
            # What is lost is written before the result is.
            assert (crash.directory / "new.lost/report.json").exists(), crash
            assert not [one for one in bl.check(new) if one.severity != "note"], crash
            assert bl.LogDirFiles(str(new)).is_clean, crash
        for name in os.listdir(crash.directory):
            is_unfinished = name.endswith("-delete") or ".unfinished-" in name
            assert is_unfinished or name in ("data", "new", "new.lost"), crash
    assert seen == {False, True}


def test_a_repair_in_place(outer, tmp_path):
    gone = lost(outer / "data")
    whole = {topic: [at for at in range(8) if at != gone.get(topic)] for topic in ("t", "u", "v")}
    seen = set()
    for crash in each_crash(lambda path: bl.repair(f"{path}/data", in_place=True), outer, tmp_path):
        data = crash.directory / "data"
        # A read that skips damage returns the same rows before and after.
        assert {topic: offsets(data, topic) for topic in whole} == whole, crash
        damaged = {one.topic for one in bl.check(data) if one.severity == "error"}
        assert damaged in (set(), {"t", "u"}), crash
        seen.add(bool(damaged))
        if not damaged:
            assert (crash.directory / "data.lost/report.json").exists(), crash
        # As a broker would: a clean directory stays clean until the commit, behind which no broker starts.
        assert bl.LogDirFiles(str(data)).is_clean, crash
        if crash.step:
            again = bl.repair(data, in_place=True, lost_path=crash.directory / "again.lost")
            assert bool(again.lost) == bool(damaged), crash
        assert not [one for one in bl.check(data, level="deep") if one.severity != "note"], crash
        assert not [name for name in os.listdir(data) if "journal" in name], crash
    assert seen == {False, True}
