"""A rescue that is cut short at every step leaves its sources untouched, and no result or a whole one."""

import os
import shutil

import pytest
from faults import each_crash

import brokerless as bl
from brokerless import _native
from brokerless.layout.release import Release
from brokerless.metadata.bootstrap import feature_records
from brokerless.metadata.records import partition_record, topic_record
from support import damage
from support.log_files import NOW, batch

SIZE = len(batch(0, [b"0"]))
TOPIC_ID, DIRECTORY_ID = "AAECAwQFBgcICQoLDA0ODw", "BAECAwQFBgcICQoLDA0ODw"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Nothing that a test writes needs to be durable: what is, `faults.py` knows without the system."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def outer(tmp_path):
    """The disks of two nodes with the same topic, in a directory of its own; the better replica is damaged."""
    first = tmp_path / "outer/one"
    first.parent.mkdir()
    with bl.create_log_dir(first, cluster_id="theOldClusterAAAAAAAAA") as log_dir:
        log_dir.create_topic("t", topic_id=TOPIC_ID, segment_index_bytes=1200)
        for at in range(6):
            log_dir.log("t", 0).append(batch(0, [b"%d" % at], timestamp=NOW + at))
    shutil.copytree(first, first.with_name("two"))
    meta = (first / "meta.properties").read_text()
    (first.with_name("two") / "meta.properties").write_text(meta.replace("node.id=1", "node.id=2"))
    with bl.open_log_dir(first, sole_replica=True) as log_dir:
        log_dir.log("t", 0).append(batch(0, [b"6"], timestamp=NOW + 6))
    damage.flip_bit(first / "t-0/00000000000000000000.log", SIZE * 2 + 65)
    replicated = partition_record(0, TOPIC_ID, [1, 2], 0, [DIRECTORY_ID] * 2)
    content = _native.kraft_snapshot([*feature_records(Release(4, 0)), topic_record("t", TOPIC_ID), replicated], 0)
    for name in ("one", "two"):
        (tmp_path / "outer" / name / "bootstrap.checkpoint").write_bytes(content)
    return tmp_path / "outer"


def content(root):
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def offsets(directory):
    log = bl.LogDirs(directory).log("t", 0)
    return [offset for rows in log.read() for offset in rows["offset"].to_pylist()]


@pytest.mark.parametrize(
    ("options", "nodes", "expected"),
    [
        pytest.param({}, [""], 7, id="one node, and damage that the other replica fills"),
        pytest.param({"nodes": [1, 2]}, ["node-1", "node-2"], 7, id="two nodes"),
        pytest.param({"as_of": NOW + 4}, [""], 4, id="as of"),
    ],
)
def test_a_rescue(outer, tmp_path, options, nodes, expected):
    before = {name: content(outer / name) for name in ("one", "two")}
    seen = set()

    def rescue(path):
        bl.rescue(f"{path}/one", f"{path}/two", output=f"{path}/new", **options)

    for crash in each_crash(rescue, outer, tmp_path):
        assert {name: content(crash.directory / name) for name in before} == before, crash
        new = crash.directory / "new"
        seen.add(new.exists())
        if new.exists():
            # What is lost is written before the result is.
            assert (crash.directory / "new.lost/report.json").exists(), crash
            for node in nodes:
                assert not [one for one in bl.check(new / node) if one.severity != "note"], crash
                assert offsets(new / node) == list(range(expected)), crash
                assert bl.LogDirFiles(str(new / node)).is_clean, crash
                assert bl.cluster(new / node).topics["topic"].to_pylist() == ["t"], crash
        for name in os.listdir(crash.directory):
            is_unfinished = name.endswith("-delete") or ".unfinished-" in name
            assert is_unfinished or name in ("one", "two", "new", "new.lost"), crash
    assert seen == {False, True}
