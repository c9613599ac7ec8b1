"""What the documents say about writing can be typed in: the examples run, one after the other."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import brokerless as bl
from support.document_code import blocks, fill, run


def sh(script, directory):
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script], cwd=directory, env=environment, check=True, capture_output=True
    ).stdout


def test_the_guide_to_reading(tmp_path, capsys):
    for name in ("var/lib/kafka/data", "disk1/kafka"):
        fill(tmp_path / name)
    (tmp_path / "disk2/kafka").mkdir(parents=True)
    shutil.copy(tmp_path / "disk1/kafka/meta.properties", tmp_path / "disk2/kafka")
    run("docs/guides/reading.md", tmp_path, {})
    first, *_, last = capsys.readouterr().out.splitlines()
    assert int(first) + int(last.removeprefix("orders-1 0 ")) == 3000


def test_the_guide_to_log_directories_and_brokers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fill(tmp_path / "var/lib/kafka/data")
    run("docs/guides/brokers.md", tmp_path, {})
    assert len(bl.LogDirs("new-data").logs(["orders"])) == 4


def test_the_guide_to_writing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks("docs/guides/writing.md", "python"):
        exec(block, names)
    for block in blocks("docs/guides/writing.md", "sh"):
        sh(block, tmp_path)
    committed = [
        value
        for log in bl.LogDirs("new-data").logs(["orders"])
        for rows in log.read(isolation_level="read_committed")
        for value in rows["value"].to_pylist()
    ]
    assert sorted(committed, key=str) == [None, b"new", b"paid", b"paid", b"sent"]
    copy, original = bl.Log("restored/orders-0"), bl.Log("new-data/orders-0")
    assert pa.table(copy.read()).equals(pa.table(original.read()))
    assert capsys.readouterr().out.split() == ["0", str(original.log_end_offset), str(original.last_stable_offset)]


@pytest.mark.slow
def test_the_guide_to_the_command_line(tmp_path):
    (tmp_path / "orders.jsonl").write_text('{"key":"a","value":"1"}\n{"key":"b","value":"2"}\n')
    pq.write_table(pa.table({"key": [b"c"], "value": [b"3"]}), tmp_path / "more.parquet")
    guide = blocks("docs/guides/cli.md", "sh")
    (writing,) = [block for block in guide if block.startswith("brokerless produce")]
    sh(writing, tmp_path)
    lines = [sh(f"brokerless read {name} --topic orders", tmp_path) for name in ("data", "copy")]
    assert lines[0] == lines[1]
    assert lines[0].count(b"\n") == 3


@pytest.mark.slow
def test_the_guide_to_rewriting(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in blocks("docs/guides/rewriting.md", "sh"):
        sh(block, tmp_path)
    # As a script: its other processes start by running it again.
    (block,) = blocks("docs/guides/rewriting.md", "python")
    (tmp_path / "rewrite.py").write_text(block)
    said = sh("python rewrite.py", tmp_path).decode()
    assert [line for line in said.splitlines() if line.startswith("orders-0")][::2] == ["orders-0", "orders-0 2"]
    (tmp_path / "rewrite.py").unlink()
    made = sorted(path.name for path in tmp_path.iterdir())
    assert made == ["as-of-may-2", "compacted", "copy", "data", "for-any-cluster", "for-old-brokers"]
    values = {
        name: [value for rows in bl.LogDirs(name).log("orders", 0).read() for value in rows["value"].to_pylist()]
        for name in made
    }
    assert values == {
        "as-of-may-2": [b"1", b"2", b"3", b"4"],
        "compacted": [b"2", b"3", b"4"],
        "copy": [b"2"],
        "data": [b"2", b"3"],
        "for-any-cluster": [b"2", b"3", b"4"],
        "for-old-brokers": [b"2", b"3", b"4"],
    }


def test_a_deleted_topic_whose_name_has_dots_is_saved_under_its_name(tmp_path):
    with bl.Producer(tmp_path / "data", "shop.orders", partitions=2) as producer:
        producer.send([{"value": b"1", "partition": partition} for partition in (0, 1)])
    for partition in (0, 1):
        directory = tmp_path / "data" / f"shop.orders-{partition}"
        directory.rename(f"{directory}.0123456789abcdef0123456789abcdef-delete")
    (saving,) = [block for block in blocks("docs/guides/broker-messages.md", "sh") if "mkdir saved\n" in block]
    shown = sh(saving, tmp_path).decode()
    assert re.findall(r"^shop\.orders-\d", shown, flags=re.MULTILINE) == ["shop.orders-0", "shop.orders-1"]
    assert sorted(path.name for path in (tmp_path / "saved").iterdir()) == ["shop.orders-0", "shop.orders-1"]


def test_the_producer_of_the_readme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (session,) = [block for block in blocks("README.md", "pycon") if "Producer" in block]
    source = "\n".join(line[4:] for line in session.splitlines() if line.startswith((">>> ", "... ")))
    exec(source, {"bl": bl})
    assert bl.LogDirs("new-data").topics() == ["orders"]


@pytest.mark.slow
def test_the_guide_to_converting(tmp_path):
    estimates = [sh(block, tmp_path).decode() for block in blocks("docs/guides/converting.md", "sh")]
    (rows,) = bl.Log(tmp_path / "for-old-brokers" / "orders-0").read()
    assert rows["value"].to_pylist() == [b"1"]
    formats, sizes = [line.split() for line in estimates[-1].splitlines() if line.startswith("zstd")]
    assert (len(formats), len(sizes)) == (3, 5)


def test_the_guide_to_scale():
    """Its reckoning comes to what it says."""
    for block in blocks("docs/guides/scale.md", "python"):
        exec(block, {})
