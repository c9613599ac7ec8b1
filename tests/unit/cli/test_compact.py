"""`compact`: the report in words and JSON, what is refused, partitions and jobs; `--explain`: reason by reason."""

import json
import os

import pytest

import brokerless as bl
from support.log_files import NOW, batch, marker


@pytest.fixture
def data(tmp_path):
    """Topic t, two partitions: keys a, b, a in one segment, a and a tombstone of b in the next, then an empty one."""
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", 2, cleanup_policy="compact")
        for partition in range(2):
            log = log_dir.log("t", partition)
            for keys, values in ((b"aba", [b"1", b"1", b"2"]), (b"ab", [b"3", None])):
                log.append(batch(0, values, keys=[bytes([key]) for key in keys], timestamp=NOW))
                log.roll()
    return tmp_path / "data"


def offsets(path):
    return {log.name: [o for rows in log.read() for o in rows["offset"].to_pylist()] for log in bl.LogDirs(path).logs()}


def test_in_place(data, run):
    result = run("compact", data, "--topic", "t", "--in-place", "--jobs", 2)
    assert (result.code, result.err.splitlines()) == (0, ["2 partitions done in place"])
    assert sorted(result.out.splitlines())[:3] == [
        "t-0: 166 bytes to 88, 5 records to 2, 2 keys, up to offset 5: the active segment begins there",
        "t-0: segment 0: 88 bytes to 0, 3 records to 0: 3 superseded",
        "t-0: segment 3: 78 bytes to 88, 2 records to 2: 1 tombstones",
    ]
    assert offsets(data) == {"t-0": [3, 4], "t-1": [3, 4]}
    # a broker's cleaner finds it done
    assert bl.LogDirFiles(str(data)).first_dirty_offsets == {("t", 0): 5, ("t", 1): 5}
    again = run("compact", data, "--topic", "t", "--partition", 1, "--in-place")
    nothing, settings = again.out.splitlines()
    assert nothing == "t-1: nothing to compact below offset 5: the active segment begins there"
    assert settings == (
        "t-1: settings: min_compaction_lag_ms=0, delete_retention_ms=86400000, min_cleanable_dirty_ratio=0.5, "
        "max_compaction_lag_ms=9223372036854775807, segment_bytes=1073741824 (default); cleanup_policy=compact (topic)"
    )


def test_a_copy(data, run, tmp_path):
    result = run("compact", data, "--topic", "t", "--output", tmp_path / "new", "--memory", "1KiB")
    assert result.code == 0
    assert offsets(data) == {"t-0": [0, 1, 2, 3, 4], "t-1": [0, 1, 2, 3, 4]}
    assert offsets(tmp_path / "new") == {"t-0": [3, 4], "t-1": [3, 4]}


def test_a_dry_run_in_json(data, run):
    result = run("compact", data, "--topic", "t", "--dry-run", "--json")
    first = json.loads(result.out.splitlines()[0])
    assert (first["topic"], first["dry_run"], first["keys"], first["is_due"]) == ("t", True, 2, True)
    assert [segment["superseded"] for segment in first["segments"]] == [3, 0]
    assert first["settings"]["cleanup_policy"] == {"value": "compact", "source": "topic"}
    assert offsets(data) == {"t-0": [0, 1, 2, 3, 4], "t-1": [0, 1, 2, 3, 4]}


def test_records_without_a_key_are_a_matter_of_asking(tmp_path, run):
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", 1)
        log_dir.log("t", 0).append(batch(0, [b"1"]))
    asked = ("compact", tmp_path / "data", "--topic", "t", "--in-place", "--cleanup-policy", "compact")
    refused = run(*asked[:-2], "--roll")
    assert (refused.code, "give --cleanup-policy compact" in refused.err) == (2, True)
    refused = run(*asked, "--roll")
    assert refused.code == 2
    assert "1 of its records have no key, the first of them at offset 0" in refused.err
    assert offsets(tmp_path / "data") == {"t-0": [0]}
    assert run(*asked, "--drop-null-keys").code == 0
    assert offsets(tmp_path / "data") == {"t-0": []}


@pytest.mark.parametrize("memory", ["0", "12kB", "-1", "\u0663MiB"])
def test_memory_is_a_number_of_bytes(data, run, memory):
    result = run("compact", data, "--topic", "t", "--dry-run", "--memory", memory)
    assert (result.code, "is not a number of bytes" in result.err) == (2, True)


def explained(run, data, key, *options):
    result = run("compact", data, "--explain", key, "--topic", "t", "--partition", 0, *options)
    assert result.code == 0
    lines = [line.partition(": ")[2] for line in result.out.splitlines()]
    return [line for line in lines if not line.startswith("settings: ")]


def test_why_a_record_is_still_there(data, run):
    assert explained(run, data, "a") == [
        "offset 0 (segment 0) goes: superseded by offset 3",
        "offset 2 (segment 0) goes: superseded by offset 3",
        "offset 3 (segment 3) stays: the newest record with its key",
    ]
    lines = explained(run, data, "62", "--bytes", "hex")
    assert lines[0] == "offset 1 (segment 0) goes: superseded by offset 4"
    assert lines[1].startswith(
        "offset 4 (segment 3) stays: a tombstone without a delete horizon; the next compaction sets it to "
    )
    assert explained(run, data, "c") == ["no record has the key c"]
    run("compact", data, "--topic", "t", "--in-place", "--delete-retention-ms", 0)
    assert explained(run, data, "b") == [
        "offset 4 (segment 0) stays: a tombstone, and the newest record with its key; a compaction would change nothing"
    ]
    (line,) = explained(run, data, "b", "--ignore-checkpoint")
    assert line.startswith("offset 4 (segment 0) goes: a tombstone whose delete horizon ")


def test_why_a_record_is_not_compacted_yet(data, run):
    with bl.LogDirWriter(str(data)) as log_dir:
        log = log_dir.log("t", 0)
        log.append(batch(0, [b"4"], keys=[b"a"], producer_id=7, base_sequence=0, transactional=True))
        log.append(marker(0, 7, commit=False), origin="coordinator")
        log.append(batch(0, [b"5"], keys=[b"a"]))
    lines = explained(run, data, "a")
    newer = "; offset 7 has a newer record of the key, but is not compacted yet (the active segment begins there)"
    active = "no record from offset 5 on is compacted, because the active segment begins there"
    assert lines[2:] == [
        f"offset 3 (segment 3) stays: the newest record with its key{newer}",
        f"offset 5 (segment 5) stays: {active}; offset 7 has a newer record of the key",
        f"offset 7 (segment 5) stays: {active}",
    ]
    assert explained(run, data, "a", "--roll")[3:] == [
        "offset 5 (segment 5) goes: its transaction was aborted",
        "offset 7 (segment 5) stays: the newest record with its key",
    ]
    (found,) = [
        json.loads(line)
        for line in run("compact", data, "--explain", "b", "--topic", "t", "--partition", 0, "--json").out.splitlines()
    ]
    fields = ("offset", "goes", "reason", "newer_offset", "delete_horizon_ms")
    assert [[record[name] for name in fields] for record in found["records"]] == [
        [1, True, "superseded", 4, None],
        [4, False, "tombstone", None, None],
    ]
    assert (found["limit"], found["first_uncleanable_offset"]) == ("active_segment", 5)
    assert found["settings"]["delete_retention_ms"] == {"value": 86_400_000, "source": "default"}


@pytest.mark.parametrize("magic", [0, 1])
def test_why_a_tombstone_of_an_old_format_goes_or_stays(tmp_path, run, magic):
    data = tmp_path / "data"
    with bl.create_log_dir(data) as log_dir:
        log_dir.create_topic("t", 1, cleanup_policy="compact", message_format=magic)
        log = log_dir.log("t", 0)
        for keys in ("a", "b", "c"):
            with bl.Producer(log_dir, "t", magic=magic) as producer:
                producer.send([{"key": keys.encode(), "value": None}, {"key": keys.encode() + b"x", "value": b"x"}])
            log.roll()
        log.first_dirty_offset = 4
    modified = NOW // 1000 - 86_400
    for base_offset, age in ((0, 10 * 86_400), (2, 0)):
        os.utime(data / "t-0" / f"{base_offset:020}.log", (modified - age, modified - age))
    expected = {
        "a": f"goes: a tombstone of format {magic}, which has no delete horizon. Its segment was last modified at "
        f"{(modified - 10 * 86_400) * 1000}, and a compaction drops such tombstones if their segment was last "
        f"modified at {(modified - 86_400) * 1000} or before",
        "b": "stays: a tombstone without a delete horizon; the next compaction sets it to ",
        "c": "stays: a tombstone without a delete horizon; the next compaction sets it to ",
    }
    for key, why in expected.items():
        (line,) = explained(run, data, key)
        assert line.partition(") ")[2].startswith(why)
    run("compact", data, "--topic", "t", "--in-place")
    assert offsets(data) == {"t-0": [1, 2, 3, 4, 5]}


def test_a_refusal_prints_the_command_that_is_not_refused(run, tmp_path):
    """Of a topic whose settings ZooKeeper had."""
    data = tmp_path / "data"
    with bl.create_log_dir(data, kraft=False) as log_dir:
        log_dir.create_topic("t", 1)
        log_dir.log("t", 0).append(batch(0, [b"1", b"2"], keys=[b"k", b"k"]))
        log_dir.log("t", 0).roll()
    asked = ("compact", data, "--topic", "t", "--output", tmp_path / "new")
    lags = ("--min-compaction-lag-ms", 0, "--delete-retention-ms", 86400000)
    told = [run(*asked), run(*asked, *lags)]
    for refused in told:
        assert (refused.code, (tmp_path / "new").exists()) == (2, False)
        assert "--cleanup-policy compact" in refused.err.splitlines()[-2]
        *_, line = refused.err.splitlines()
        command = line.partition("brokerless ")[2].split()
        assert command[0] == "compact"
    dry = run(*asked[:-2], *lags, "--dry-run")
    assert (dry.code, "would be refused: the cleanup.policy of its topic is not known" in dry.err) == (0, True)
    done = run(*command)
    assert done.code == 0
    assert offsets(tmp_path / "new") == {"t-0": [1]}


def test_that_nothing_was_compacted_is_said_with_the_cure(tmp_path, run):
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", 1, cleanup_policy="compact")
        log_dir.log("t", 0).append(batch(0, [b"1", b"2"], keys=[b"k", b"k"]))
    result = run("compact", tmp_path / "data", "--topic", "t", "--output", tmp_path / "new")
    said, command = result.err.splitlines()[-2:]
    assert said == "nothing was compacted"
    assert run(*command.partition("brokerless ")[2].split()).code == 0
    assert offsets(tmp_path / "new.rolled") == {"t-0": [1]}
