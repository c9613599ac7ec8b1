"""The guides' ways to copy a log work on logs of every age, and a cluster can replicate the copy."""

import json

import pyarrow as pa
import pytest

import brokerless as bl
from brokerless.cli import main
from support.document_code import blocks

LOGS = [
    ("kafka-2.8-v0", "nulls-0"),
    ("kafka-2.8-v0", "codec-mixed-0"),
    ("kafka-2.8-v1", "compact-0"),
    ("kafka-2.8-v1", "log-append-time-0"),
    ("kafka-2.8-mixed", "upgraded-all-codecs-0"),
    ("kafka-4.1", "leader-epochs-0"),
]
COLUMNS = ["offset", "timestamp", "timestampType", "key", "value", "headers"]


def run(*arguments):
    with pytest.raises(SystemExit) as exited:
        main([str(argument) for argument in arguments])
    return exited.value.code


@pytest.mark.parametrize("log_dir", ["kafka-2.8-v0", "kafka-2.8-v1", "kafka-2.8-mixed", "kafka-4.1"])
def test_the_recipe_restores_a_log_of_any_age(golden, copied, tmp_path, monkeypatch, log_dir):
    names = [path.name for path in (golden / "logs" / log_dir).iterdir() if path.is_dir() and path.name[0] != "_"]
    root = copied(log_dir, *names)
    if log_dir != "kafka-4.1":
        topics = [option for name in names for option in ("--topic", name.rpartition("-")[0])]
        assert run("convert", root, *topics, "--magic", 2, "--sole-replica", "--in-place") == 0
    (recipe,) = [block for block in blocks("docs/guides/writing.md", "python") if "append_as_follower" in block]
    for number, name in enumerate(names):
        place = tmp_path / str(number)
        place.mkdir()
        monkeypatch.chdir(place)
        (place / "new-data").symlink_to(root)
        # The segments of the one, the topic of the other.
        exec(recipe.replace("new-data/orders-0", f"new-data/{name}"), {"bl": bl})
        original, copy = bl.Log(place / "new-data" / name), bl.Log("restored/orders-0")
        assert pa.table(copy.read(columns=COLUMNS)).equals(pa.table(original.read(columns=COLUMNS))), name
        assert (copy.log_start_offset, copy.log_end_offset) == (original.log_start_offset, original.log_end_offset)
        epochs = {row["leaderEpoch"] for rows in copy.read(columns=["leaderEpoch"]) for row in rows.to_pylist()}
        # A follower refuses a batch without one.
        assert None not in epochs
        assert epochs <= {epoch.epoch for epoch in copy.leader_epochs}


def test_batches_without_an_epoch_get_that_before_them(golden, tmp_path):
    epochs = bl.Log(golden / "logs/kafka-4.1/leader-epochs-0")
    with open(epochs.segments[0].path, "rb") as file:
        content = bytearray(file.read())
    known = [(batch["position"], batch["partition_leader_epoch"], batch["base_offset"]) for batch in scanned(epochs)]
    for position, _, _ in known[1::2]:
        content[position + 12 : position + 16] = b"\xff" * 4
    with bl.create_log_dir(tmp_path / "d") as log_dir:
        log_dir.create_topic("t")
        log_dir.log("t", 0).append_as_follower(content)
    found = [batch["partition_leader_epoch"] for batch in scanned(bl.Log(tmp_path / "d/t-0"))]
    assert found == [known[number - number % 2][1] for number in range(len(found))]


def scanned(log):
    return [batch for batches in log.scan() for batch in batches.to_pylist()]


@pytest.mark.parametrize(("log_dir", "name"), LOGS)
def test_what_is_read_can_be_produced_with_its_offsets(golden, tmp_path, capfd, log_dir, name):
    topic = name[:-2]
    assert run("read", golden / "logs" / log_dir / name) == 0
    lines = capfd.readouterr().out
    (tmp_path / "rows.jsonl").write_text(lines)
    copy = tmp_path / "copy"
    assert run("produce", copy, "--topic", topic, "--keep-offsets", "--input", tmp_path / "rows.jsonl") == 0
    capfd.readouterr()
    assert run("read", copy, "--topic", topic) == 0
    found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    wanted = [json.loads(line) for line in lines.splitlines()]
    for row in wanted:
        row["leaderEpoch"] = row["leaderEpoch"] or 0
        if row["timestampType"] == "NoTimestampType":
            row["timestampType"] = "CreateTime"
    assert found == wanted
