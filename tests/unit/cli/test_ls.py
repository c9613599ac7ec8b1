"""`ls` tells what is there, also where some of it is damaged or replicated."""

import errno
import json
import os
import shutil

import pytest

import brokerless as bl
from brokerless.log import partition_files
from support.damage import overwrite
from support.kafka_answers import read_json_lines
from support.log_files import NOW, batch, write_segment

JSON_IF = {"json": ["--json"], "text": []}


def test_json(golden, run):
    result = run("ls", golden / "logs/kafka-4.1", "--json")
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
    assert found["no-timestamps", 0]["first_record_timestamp"] is None


def test_text(golden, run):
    result = run("ls", golden / "logs/kafka-2.8-mixed", golden / "logs/kafka-2.8-mixed", "--topic", "upgraded-none")
    heading, row = result.out.splitlines()
    assert heading.split()[:5] == ["PARTITION", "SEGMENTS", "BYTES", "START", "END"]
    assert row.split()[0] == "upgraded-none-0"
    assert "0,1,2" in row


def test_what_is_remote_is_said(golden, run):
    result = run("ls", golden / "logs/kafka-4.1-tiered", "--topic", "tiered-zstd")
    assert "not here" in result.out
    result = run("ls", golden / "logs/kafka-4.1-tiered", "--topic", "tiered-zstd", "--json")
    found = json.loads(result.out)
    assert [found[name] for name in ("log_start_offset", "local_log_start_offset", "log_end_offset")] == [0, 672, 720]


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
    result = run("ls", root, other, "--json")
    rows = [(row["topic"], row["node_id"], row["is_read"]) for row in map(json.loads, result.out.splitlines())]
    assert sorted(row[0] for row in rows) == ["codec-gzip", "codec-gzip", "nulls"]
    assert [row[2] for row in rows] == [True, False, True]
    assert "-delete (delete)" in result.err
    # A leftover of another topic is no answer to a question about one.
    assert "-delete" not in run("ls", root, other, "--topic", "codec-gzip").err


@pytest.mark.parametrize(("version", "said"), [("1", ["nulls-0"]), ("0", [])])
def test_a_directory_that_a_kraft_broker_would_rename_is_named(copied, run, version, said):
    """It has no topic id, so no metadata can name it; brokers before KRaft take it by its name."""
    root = copied("kafka-4.1", "codec-gzip-0", "nulls-0")
    (root / "nulls-0" / "partition.metadata").unlink()
    properties = root / "meta.properties"
    properties.write_text(properties.read_text().replace("version=1", f"version={version}"))
    result = run("ls", root)
    assert result.code == 0
    lines = [line for line in result.err.splitlines() if not line.startswith("note: ")]
    assert [line.split()[2].rpartition("/")[2] for line in lines if "-stray" in line] == said
    assert run("ls", root / "nulls-0" / "00000000000000000000.log").err == ""


def test_a_directory_without_its_clusters_metadata_is_named(copied, run):
    """A broker that has them nowhere serves nothing of it."""
    root = copied("kafka-4.1", "codec-gzip-0", "__cluster_metadata-0")
    assert run("ls", root).err == ""
    shutil.rmtree(root / "__cluster_metadata-0")
    assert "has no __cluster_metadata-0" in run("ls", root).err
    assert "renames all partitions -stray" in run("ls", root).err
    assert run("ls", root / "codec-gzip-0").err == ""


def test_a_delete_horizon_is_no_first_time(golden, run):
    partition = golden / "logs/kafka-4.1-compacted/compact-delete-0"
    row = json.loads(run("ls", partition, "--json").out)
    first = read_json_lines(golden / "expected/kafka-4.1-compacted/compact-delete-0/batches.jsonl")[0]
    assert (first["deleteHorizonMs"] is not None, first["countOrNull"]) == (True, 1)
    assert row["first_record_timestamp"] == first["maxTimestamp"]


@pytest.mark.parametrize("name", ["nulls-0/leader-epoch-checkpoint", "meta.properties"])
def test_replicas_that_cannot_be_compared_are_listed_all_the_same(name, copied, run):
    root = copied("kafka-4.1", "codec-gzip-0", "nulls-0")
    other = root.parent / "other"
    shutil.copytree(root, other)
    shutil.rmtree(other / "codec-gzip-0")
    properties = other / "meta.properties"
    properties.write_text(properties.read_text().replace("node.id=1", "node.id=2"))
    (other / name).write_text("version=x\n")
    result = run("ls", root, other, "--json")
    assert result.code == 1
    assert f"{other}/{name}" in result.err
    rows = [json.loads(line) for line in result.out.splitlines()]
    # Whose a disk is does not matter: the first of two replicas that are alike is read.
    known = [None, None] if name.startswith("nulls") else [True, False]
    assert [(row["topic"], row["is_read"]) for row in rows] == list(
        zip(("codec-gzip", "nulls", "nulls"), (True, *known), strict=True)
    )
    assert [row["log_end_offset"] for row in rows] == [500, 80, 80]


def break_high_watermarks(root):
    (root / "replication-offset-checkpoint").write_text("garbage\n")


def break_topic_id(root):
    (root / "codec-none-0" / "partition.metadata").write_text("garbage\n")


def break_node_id(root):
    (root / "meta.properties").write_text("version=x\n")


def directory_for_segment(root):
    path = root / "codec-none-0" / "00000000000000000000.log"
    path.unlink()
    path.mkdir()


def dangling_segment(root):
    path = root / "codec-none-0" / "00000000000000000000.log"
    path.unlink()
    path.symlink_to("/nonexistent")


@pytest.mark.parametrize(
    "harm", [break_high_watermarks, break_topic_id, break_node_id, directory_for_segment, dangling_segment]
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_one_bad_file_does_not_stop_the_listing(harm, form, copied, run):
    root = copied("kafka-4.1", "codec-gzip-0", "codec-none-0", "codec-zstd-0")
    harm(root)
    result = run("ls", root, *JSON_IF[form])
    assert result.code == 1
    assert result.err.startswith("damaged: ")
    said = [line for line in result.err.splitlines() if not line.startswith(("hint: ", "note: "))]
    assert result.err.count("damaged: ") == len(said) == len(set(said))
    lines = result.out.splitlines()
    if form == "text":
        assert [line.split()[0] for line in lines[1:]] == ["codec-gzip-0", "codec-none-0", "codec-zstd-0"]
    else:
        rows = [json.loads(line) for line in lines]
        assert [row["log_end_offset"] for row in rows][::2] == [500, 500]


@pytest.mark.parametrize("partition", ["log-append-time-0", "trimmed-delete-records-0"])
def test_the_first_time_is_that_of_the_first_record(golden, run, partition):
    """With LogAppendTime not the producer's, and not that of records below the log start."""
    path = golden / "logs" / "kafka-4.1" / partition
    (found,) = json.loads("[" + run("ls", path, "--json").out + "]")
    first = json.loads(run("read", path, "--limit", 1).out)
    assert found["first_record_timestamp"] == first["timestamp"]


def test_a_log_that_ends_below_its_checkpoints_is_damaged(copied, run):
    directory = copied("kafka-4.1", "codec-none-0")
    newest = max(directory.glob("*.log"))
    *_, last = (row for rows in bl.Log(directory).segments[-1].scan() for row in rows.to_pylist())
    os.truncate(newest, last["position"])
    result = run("ls", directory, "--json")
    (listed,) = (json.loads(line) for line in result.out.splitlines())
    assert (result.code, listed["log_end_offset"], listed["high_watermark"]) == (1, 333, 350)
    assert "codec-none-0 ends at 333, but recovery-point-offset-checkpoint" in result.err
    result = run("offsets", directory, "--timestamp", "latest")
    assert "codec-none-0 ends at 333, but recovery-point-offset-checkpoint" in result.err


def test_a_removed_segment_is_damage(copied, run):
    directory = copied("kafka-4.1", "codec-mixed-0")
    (_, second, *_) = sorted(directory.glob("*.log"))
    second.unlink()
    result = run("ls", directory)
    assert result.code == 1
    assert f"damaged: {second}: the file is missing" in result.err


@pytest.mark.parametrize(
    ("time", "note"),
    [
        (4_102_444_800_000, "latest record in the future, on 2100-01-01"),
        (NOW // 1000, "latest record of 1970-01-20, and may be in seconds"),
        (NOW * 1000, "latest record in the future, and may be in microseconds"),
        (NOW, ""),
    ],
    ids=["future", "seconds", "microseconds", "now"],
)
def test_a_time_by_which_a_segment_is_kept_or_deleted_is_noted(tmp_path, run, time, note):
    write_segment(tmp_path / "t-0", 0, [batch(0, [b"x"], timestamp=time)])
    row = run("ls", tmp_path).out.splitlines()[1]
    assert row.partition("none")[2].strip() == note


@pytest.mark.parametrize("form", JSON_IF.values(), ids=JSON_IF)
def test_a_file_that_may_not_be_read_is_no_damage(golden, run, monkeypatch, form):
    """It was `damaged: [Errno 13] Permission denied: PosixPath('...')`, with the exit code of damage."""
    path = golden / "logs/kafka-4.1"
    denied = path / "codec-mixed-0/00000000000000000000.log"
    walk = partition_files.header_walk

    def walk_if_allowed(files):
        # Root may read every file, so a mode would deny nothing.
        if files.path == str(denied.parent):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), denied)
        return walk(files)

    monkeypatch.setattr(partition_files, "header_walk", walk_if_allowed)
    result = run("ls", path, *form)
    assert result.code == 2
    assert f"brokerless: Permission denied: {denied}\nhint: run it as the user of the broker" in result.err
    assert "damaged" not in result.err + result.out
    assert "PosixPath" not in result.err + result.out
    assert "txn-open" in result.out, "the other partitions are listed"
