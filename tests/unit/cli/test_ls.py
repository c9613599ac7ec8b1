"""`ls` tells what is there, also where some of it is damaged or replicated."""

import json
import shutil

from damage import overwrite


def test_json(golden, run):
    result = run("ls", golden / "logs/kafka-4.1", "--format", "json")
    assert (result.code, result.err) == (0, "")
    found = {(line["topic"], line["partition"]): line for line in map(json.loads, result.out.splitlines())}
    assert len(found) == len(list((golden / "logs/kafka-4.1").glob("*-*/")))
    mixed = found["codec-mixed", 0]
    assert (mixed["segments"], mixed["batches"], mixed["magics"]) == (3, 60, [2])
    assert sorted(mixed["compressions"]) == ["gzip", "lz4", "none", "snappy", "zstd"]
    assert (mixed["log_start_offset"], mixed["log_end_offset"], mixed["missing_offsets"]) == (0, 605, None)
    assert mixed["bytes"] == sum(f.stat().st_size for f in (golden / "logs/kafka-4.1/codec-mixed-0").glob("*.log"))
    assert found["trimmed-delete-records", 0]["log_start_offset"] == 117
    assert found["txn-open", 0]["last_stable_offset"] < found["txn-open", 0]["log_end_offset"]
    assert found["empty-topic", 0]["max_timestamp"] is None
    assert found["no-timestamps", 0]["first_timestamp"] is None


def test_text(golden, run):
    result = run("ls", golden / "logs/kafka-2.8-mixed", golden / "logs/kafka-2.8-mixed", "--topic", "upgraded-none")
    heading, row = result.out.splitlines()
    assert heading.split()[:5] == ["PARTITION", "SEGMENTS", "BYTES", "START", "END"]
    assert row.split()[0] == "upgraded-none-0"
    assert "0,1,2" in row


def test_what_is_remote_is_said(golden, run):
    result = run("ls", golden / "logs/kafka-4.1-tiered", "--topic", "tiered-zstd")
    assert "not here" in result.out


def test_damage_does_not_hide_the_other_partitions(copied, run):
    root = copied("kafka-4.1", "codec-gzip-0", "codec-none-0", "codec-zstd-0")
    overwrite(root / "codec-none-0" / "00000000000000000000.log", 8, b"\0\0\0\1")
    result = run("ls", root)
    assert result.code == 1
    assert [line.split()[0] for line in result.out.splitlines()[1:]] == ["codec-gzip-0", "codec-none-0", "codec-zstd-0"]
    assert result.err.startswith("damaged: ")
    assert "codec-none-0/00000000000000000000.log:0" in result.err


def test_replicas_and_leftovers(copied, run):
    root = copied("kafka-4.1", "codec-gzip-0", "nulls-0")
    other = root.parent / "other"
    shutil.copytree(root, other)
    properties = other / "meta.properties"
    properties.write_text(properties.read_text().replace("node.id=1", "node.id=2"))
    shutil.move(other / "nulls-0", other / f"nulls-0.{'0' * 32}-delete")
    result = run("ls", root, other, "--format", "json")
    rows = [(row["topic"], row["node_id"], row["is_read"]) for row in map(json.loads, result.out.splitlines())]
    assert sorted(row[0] for row in rows) == ["codec-gzip", "codec-gzip", "nulls"]
    assert [row[2] for row in rows] == [True, False, True]
    assert "-delete (delete)" in result.err
