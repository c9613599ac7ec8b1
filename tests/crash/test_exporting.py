"""An export and a restore, cut short at every step: what shows is whole, and a second run ends with all rows once."""

import os

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from faults import each_crash

import brokerless as bl
from brokerless.layout import commit_journal
from brokerless.spark import export, restore
from support.log_files import NOW, batch
from support.spark_stand_in import Here

FINE = {"minPartitions": "100"}
# The indexes of active segments are as large as they may get: less to be copied for each step.
SMALL = {"segment_index_bytes": 1200}


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Nothing that a test writes needs to be durable: what is, `faults.py` knows without the system."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    # One step after the other.
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})


@pytest.fixture
def source(tmp_path):
    """A partition that starts at offset 2 and ends behind its last record, and another."""
    with bl.create_log_dir(tmp_path / "source") as log_dir:
        log_dir.create_topic("t", 2, **SMALL)
        for number in range(2):
            log_dir.log("t", number).append(batch(0, [b"%d" % number] * 5, timestamp=NOW))
        log_dir.log("t", 0).append_as_follower(batch(5, [b"x"], last_offset_delta=4, timestamp=NOW))
        log_dir.log("t", 0).run(bl.Retention(before_offset=2))
    return tmp_path / "source"


def rows(directory):
    return [
        (log.partition, row["offset"], row["value"])
        for log in bl.LogDirs(directory).logs()
        for found in log.read(columns=["offset", "value"])
        for row in found.to_pylist()
    ]


def test_an_export(source, tmp_path):
    expected = rows(source)
    (tmp_path / "start").mkdir()

    def work(path):
        export(Here(), str(source), f"{path}/e", options=FINE)

    for crash in each_crash(work, tmp_path / "start", tmp_path):
        shown = sorted(crash.directory.glob("e/topic=*/*/*.parquet"))
        values = [value for file in shown for value in pq.ParquetFile(file).read()["value"].to_pylist()]
        assert values in ([], [value for number, _, value in expected if number == 0], [row[2] for row in expected])
        if (crash.directory / "e/_SUCCESS").exists():
            assert len(values) == len(expected)
        work(crash.directory)
        table = ds.dataset(str(crash.directory / "e"), partitioning="hive").to_table()
        found = [(row["partition"], row["offset"], row["value"]) for row in table.to_pylist()]
        assert sorted(found) == expected, crash


def test_a_restore(source, tmp_path):
    expected = rows(source)
    ends = {log.name: (log.log_start_offset, log.log_end_offset) for log in bl.LogDirs(source).logs()}
    export(Here(), str(source), str(tmp_path / "e"), options=FINE)
    (tmp_path / "start").mkdir()

    def work(path):
        return restore(Here(), str(tmp_path / "e"), f"{path}/d")

    skipped = set()
    for crash in each_crash(work, tmp_path / "start", tmp_path, falls=("power",)):
        at = crash.directory / "d"
        if (at / "meta.properties").exists():
            assert rows(at) in ([], expected), crash
        skipped.add(work(crash.directory).skipped)
        assert rows(at) == expected, crash
        found = {log.name: (log.log_start_offset, log.log_end_offset) for log in bl.LogDirs(at).logs()}
        assert found == ends, crash
        assert not (at / commit_journal.NAME).exists(), crash
    assert skipped == {0, 1}
