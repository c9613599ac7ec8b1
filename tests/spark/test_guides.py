"""What the documents say of Spark can be typed in: the examples run, one after the other."""

import pytest

import brokerless as bl
from support.document_code import ROOT, fill, run


@pytest.fixture
def type_in(spark, tmp_path, monkeypatch):
    """Return a function that runs the examples of a guide, its streams until they have all there is."""
    monkeypatch.chdir(tmp_path)

    def finish():
        for query in spark.streams.active:
            query.processAllAvailable()
            query.stop()

    return lambda name: run(name, tmp_path, {"spark": spark}, after=finish)


def records(path):
    return sum(rows.num_rows for log in bl.LogDirs(path).logs(["orders"]) for rows in log.read())


def test_the_guide_to_spark(type_in, spark, tmp_path):
    fill(tmp_path / "backup/kafka-data")
    for name in ("restore", "jobs", "tables"):
        (tmp_path / name).mkdir()
    type_in("docs/guides/spark.md")
    assert spark.read.parquet(str(tmp_path / "tables/orders")).count() == 3000
    assert records(tmp_path / "restore/kafka-data") == 6000


def test_the_guide_to_incidents(type_in, tmp_path, capsys):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    type_in("docs/guides/after-an-incident.md")
    shown = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line] for line in shown]
    assert ["shipping", "480"] in rows
    assert ["shipping", "orders", "2", "80", "0"] in rows
    assert [row[:2] for row in rows if row[0] == "payment-service-2"] == [["payment-service-2", "8"]]
    assert ["topic", "orders", "retention.ms", "3600000", "false"] in rows


def test_the_guide_to_decoding(type_in, tmp_path, capsys):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    type_in("docs/guides/decoding.md")
    shown = [[cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.splitlines()]
    assert ["currency", "count"] in shown


def test_the_guide_to_jobs(type_in, tmp_path):
    fill(tmp_path / "data")
    type_in("docs/guides/jobs.md")
    assert records(tmp_path / "data") == 50


def test_the_guide_to_exporting(type_in, tmp_path):
    fill(tmp_path / "kafka/data")
    for name in ("exports", "restored"):
        (tmp_path / name).mkdir()
    type_in("docs/guides/exporting.md")
    assert records(tmp_path / "restored/kafka-data") == 3000
