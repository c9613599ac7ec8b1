"""`retain`, and with it what all verbs that rewrite share: nothing unasked, a report in words or JSON."""

import json
import os

import pytest

import brokerless as bl
from brokerless.wording import moment
from support.log_files import batch

T = 1_700_000_000_000


@pytest.fixture
def data(tmp_path):
    """Topic t: two partitions of three one-record segments, a second apart."""
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", 2, segment_bytes=100)
        for partition in range(2):
            for i in range(3):
                batches = batch(i, [b"%02d" % i], timestamp=T + 1000 * i)
                log_dir.log("t", partition).append_as_follower(batches)
    return tmp_path / "data"


def offsets(path):
    return {log.name: [o for rows in log.read() for o in rows["offset"].to_pylist()] for log in bl.LogDirs(path).logs()}


def test_in_place(data, run):
    assert run("retain", data, "--topic", "t", "--retention-bytes", "500MB", "--dry-run").code == 0
    result = run("retain", data, "--topic", "t", "--partition", 1, "--retention-bytes", 100, "--in-place")
    assert result.code == 0
    assert result.out.splitlines() == [
        "t-1: 1 of 3 segments deleted, 70 of 210 bytes",
        "t-1: the log starts at 1, and ends at 3",
        "t-1: settings: cleanup_policy=delete (default); retention_bytes=100 (option)",
    ]
    assert result.err.splitlines() == ["1 partition done in place"]
    assert offsets(data) == {"t-0": [0, 1, 2], "t-1": [1, 2]}


def test_the_release_whose_rules_count(run, tmp_path):
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", cleanup_policy="")
        log_dir.log("t", 0).append_as_follower(batch(0, [b"a", b"b"], timestamp=T))
    arguments = ("retain", tmp_path / "data", "--topic", "t", "--before-offset", 1, "--in-place", "--release")
    refused = run(*arguments, "4.1.0")
    assert (refused.code, "brokers of 4.1 refuse that" in refused.err) == (2, True)
    refused = run(*arguments, "newest")
    assert (refused.code, "not a release of Kafka: 'newest'" in refused.err) == (2, True)
    assert run(*arguments, "4.2").code == 0
    assert offsets(tmp_path / "data") == {"t-0": [1]}


def test_a_copy_as_it_was(data, run, tmp_path):
    result = run(
        "truncate",
        data,
        "--topic",
        "t",
        "--timestamp",
        "2023-11-14T22:13:22",
        "--output",
        tmp_path / "new",
        "--jobs",
        2,
    )
    assert (result.code, result.err.splitlines()) == (0, [f"2 partitions written to {tmp_path}/new"])
    assert sorted(result.out.splitlines()) == [
        f"t-{partition}: ends at 2, not at 3: 70 of 210 bytes cut" for partition in range(2)
    ]
    assert offsets(data) == {"t-0": [0, 1, 2], "t-1": [0, 1, 2]}
    assert offsets(tmp_path / "new") == {"t-0": [0, 1], "t-1": [0, 1]}


def test_a_dry_run_in_json(data, run):
    result = run("retain", data, "--topic", "t", "--before-offset", "latest", "--dry-run", "--json")
    assert (result.code, result.err.splitlines()) == (0, ["2 partitions examined; nothing was changed"])
    (first, _) = map(json.loads, result.out.splitlines())
    assert first == {
        "topic": "t",
        "partition": 0,
        "dry_run": True,
        "segments": 3,
        "size": 210,
        "deleted_segments": 2,
        "deleted_size": 140,
        "log_start_offset": 3,
        "log_end_offset": 3,
        "is_compacted_only": False,
        "settings": {"cleanup_policy": {"value": "delete", "source": "default"}},
        "deleted_until": None,
        "kept_from": None,
        "deleted_by_mtime": False,
        "kept_by_mtime": False,
    }
    assert offsets(data) == {"t-0": [0, 1, 2], "t-1": [0, 1, 2]}


def test_a_start_offset_that_no_file_holds(data, run, tmp_path):
    result = run("retain", data / "t-0", "--before-offset", 1, "--output", tmp_path / "t-5")
    assert (result.code, result.err.splitlines()) == (0, [f"1 partition written to {tmp_path}/t-5"])
    log = bl.LogWriter.open(str(data / "t-1"), config=bl.TopicConfig(), is_clean=True)
    log.append(batch(0, [b"03", b"04"]))
    log.close()
    result = run("retain", data / "t-1", "--before-offset", 4, "--output", tmp_path / "t-6")
    assert "the copy of t-1 starts at offset 4, but no file in its directory can record this offset" in result.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--retention-ms", 1], "give --output DIR or --in-place, or see with --dry-run"),
        (["--retention-ms", 1, "--in-place", "--output", "new"], "give --in-place or --output, not both"),
        (["--in-place"], "no limit"),
        (["--before-offset", 4, "--dry-run"], "cannot delete records before offset 4"),
        (["--retention-ms", -1, "--in-place"], "-1 is not in the range"),
    ],
)
def test_what_is_refused(data, run, options, message):
    result = run("retain", data, "--topic", "t", *options)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert offsets(data) == {"t-0": [0, 1, 2], "t-1": [0, 1, 2]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--timestamp", 1], "give --output DIR or --in-place, or see with --dry-run"),
        (["--timestamp", 1, "--offset", 1, "--dry-run"], "--timestamp does not go with --offset"),
        (["--dry-run"], "--timestamp or --offset is needed"),
    ],
)
def test_truncations_that_are_refused(data, run, options, message):
    result = run("truncate", data, "--topic", "t", *options)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert offsets(data) == {"t-0": [0, 1, 2], "t-1": [0, 1, 2]}


def test_a_truncation_in_place_is_for_the_sole_replica(data, run):
    """Below the high watermark, followers would have more records than their leader."""
    # Then nothing says that no other broker has a replica.
    (data / "bootstrap.checkpoint").unlink()
    cut = ["truncate", data, "--topic", "t", "--partition", 0, "--offset", 2, "--in-place"]
    refused = run(*cut)
    assert (refused.code, refused.out) == (2, "")
    assert "--sole-replica" in refused.err
    assert offsets(data) == {"t-0": [0, 1, 2], "t-1": [0, 1, 2]}
    assert run(*cut, "--sole-replica").code == 0
    assert offsets(data) == {"t-0": [0, 1], "t-1": [0, 1, 2]}


def test_nothing_that_was_not_named(data, run):
    result = run("retain", data, "--retention-bytes", 0, "--in-place")
    assert (result.code, result.err.count("no topic named")) == (2, 1)


def test_a_copy_is_not_made_inside_a_partition(data, run):
    result = run("retain", data, "--topic", "t", "--before-offset", 1, "--output", data / "t-0/sub")
    assert (result.code, result.out) == (2, "")
    assert "it would be in a partition's directory" in result.err
    assert not (data / "t-0/sub").exists()


FUTURE = 4_102_444_800_000
DAY = 86_400_000


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize(
    ("time", "words", "is_deleted"),
    [
        (FUTURE, f"{FUTURE}, in the future, on 2100-01-01", False),
        (T // 1000, f"{T // 1000}, of 1970-01-20, and may be in seconds", True),
        (T * 1000, f"{T * 1000}, in the future, and may be in microseconds", False),
        (T, moment(T), True),
    ],
    ids=["future", "seconds", "microseconds", "old"],
)
def test_the_time_that_deletes_or_keeps_a_segment_is_told(tmp_path, run, time, words, is_deleted, dry_run):
    """A broker judges a segment by its largest timestamp, whatever it is (LogSegment.largestTimestamp)."""
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", segment_bytes=100)
        for i, timestamp in enumerate((time, T, FUTURE)):
            log_dir.log("t", 0).append_as_follower(batch(i, [b"x"], timestamp=timestamp))
    how = "--dry-run" if dry_run else "--in-place"
    result = run("retain", tmp_path / "data", "--topic", "t", "--retention-ms", DAY, how)
    assert result.code == 0
    lines = [
        line.removeprefix("t-0: its limit of time ") for line in result.out.splitlines() if "limit of time" in line
    ]
    if is_deleted:
        # And the next one, which is as old.
        assert lines == [
            f"deletes segments up to largest timestamp {moment(T)}",
            f"keeps those from largest timestamp {FUTURE}, in the future, on 2100-01-01",
        ]
    else:
        assert lines == [f"keeps those from largest timestamp {words}"]
    kept = [2] if is_deleted and not dry_run else [0, 1, 2]
    assert offsets(tmp_path / "data") == {"t-0": kept}


def test_a_time_in_seconds_that_deletes_the_last_deleted_segment_is_told(tmp_path, run):
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", segment_bytes=100)
        for i, timestamp in enumerate((T // 1000, FUTURE)):
            log_dir.log("t", 0).append_as_follower(batch(i, [b"x"], timestamp=timestamp))
    result = run("retain", tmp_path / "data", "--topic", "t", "--retention-ms", DAY, "--dry-run")
    assert f"deletes segments up to largest timestamp {T // 1000}, of 1970-01-20, and may be in seconds" in result.out


def test_the_time_of_a_file_is_not_called_a_timestamp(tmp_path, run):
    """Records of v0 have no timestamps: a broker judges their segment by the time of its file."""
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", segment_bytes=100)
        for i in range(3):
            log_dir.log("t", 0).append_as_follower(batch(i, [b"x"], timestamp=-1))
    for segment, time in zip(bl.Log(tmp_path / "data/t-0").segments, (T, FUTURE, T), strict=True):
        os.utime(segment.path, (time // 1000, time // 1000))
    result = run("retain", tmp_path / "data", "--topic", "t", "--retention-ms", DAY, "--dry-run")
    of_file = "the modification time of a file without timestamps,"
    assert f"deletes segments up to {of_file} {moment(T)}" in result.out
    assert f"keeps those from {of_file} {FUTURE}, in the future" in result.out
    result = run("retain", tmp_path / "data", "--topic", "t", "--retention-ms", DAY, "--dry-run", "--json")
    report = json.loads(result.out)
    assert (report["deleted_until"], report["deleted_by_mtime"], report["kept_by_mtime"]) == (T, True, True)
