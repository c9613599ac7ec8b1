"""A report by Spark tasks has the numbers of a report by this process."""

import brokerless as bl
from brokerless.spark import report
from support import damage
from support.log_files import batch, write_segment
from support.state_records import commit_key, commit_value, write_records


def test_the_numbers_are_equal(golden, spark):
    here, there = (make(golden / "logs/kafka-4.1") for make in (bl.report, lambda path: report(spark, path)))
    assert here.notes == there.notes
    for name, table in here.tables.items():
        assert there.tables[name].equals(table), name


def test_notes_and_findings_come_from_tasks(tmp_path, spark):
    log = write_segment(tmp_path / "data/t-0", 0, [batch(at, [b"v"]) for at in range(10)])
    damage.flip_bit(log, 100)
    commits = write_records(tmp_path / "data", "__consumer_offsets", [(commit_key("g", "t", 0), commit_value(5))] * 3)
    damage.flip_bit(commits, commits.stat().st_size // 2 + 30)
    here, there = bl.report(tmp_path / "data"), report(spark, tmp_path / "data")
    assert there.tables["findings"].equals(here.tables["findings"])
    assert there.tables["kinds"].equals(here.tables["kinds"])
    assert there.tables["kinds"]["code"].to_pylist() == ["batch-crc", "batch-crc", "epochs-differ", "epochs-differ"]
    assert sorted(there.notes) == sorted(here.notes)
    assert any("the content of these records is not known" in note for note in there.notes)
