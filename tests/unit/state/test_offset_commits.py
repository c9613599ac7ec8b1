"""Offset commits as a table: history, steps back, and lag then and now."""

import random
import shutil
import struct
import warnings

import pyarrow as pa
import pytest

import brokerless as bl
from brokerless.layout import checkpoints
from brokerless.log.end_offsets import end_offsets
from brokerless.state import offset_commits
from support.damage import flip_bit
from support.log_files import NOW, batch, write_segment
from support.state_records import commit_key, commit_value, write_records


def rows(*paths, **options):
    return bl.commits(*paths, **options).read_all().to_pylist()


def test_commits_of_a_broker(golden):
    found = rows(golden / "logs/kafka-4.1")
    assert len(found) == 21
    assert [row["coordinator_offset"] for row in found if row["is_removed"]] == [39]
    back = [row for row in found if row["is_back"]]
    assert {(row["group"], row["topic"]) for row in back} == {
        (group, "headers") for group in ("group-consumer", "gruppe-ü")
    }
    assert all(row["offset"] + row["lag"] == 120 for row in back)
    assert [row["offset"] for row in found if row["group"] == "group-txn"] == [20, 22]


def test_only_the_latest(golden):
    found = rows(golden / "logs/kafka-4.1", history=False)
    assert not any(row["is_removed"] for row in found)
    places = [(row["group"], row["topic"], row["partition"]) for row in found]
    assert len(places) == len(set(places)) == 15
    assert [row["offset"] for row in found if row["group"] == "group-txn"] == [22]


def log_of(path, count=10, size=1, step=1000):
    """A data partition with a batch of `size` records each `step` ms."""
    batches = [batch(i * size, [b"x"] * size, timestamp=NOW + i * step, step=0) for i in range(count)]
    write_segment(path / "t-0", 0, batches)


def test_lag_is_what_was_behind_the_commit(tmp_path):
    log_of(tmp_path)
    commits = [(3, NOW + 4500), (3, NOW - 1), (10, NOW + 20_000), (2, NOW + 2000)]
    records = [(commit_key("g", "t", 0), commit_value(offset, time)) for offset, time in commits]
    write_records(tmp_path, "__consumer_offsets", [*records, (commit_key("g", "t", 0), None)])
    found = rows(tmp_path)
    assert [row["lag_then"] for row in found] == [2, 0, 0, 1, None]
    assert [row["lag"] for row in found] == [7, 7, 0, 8, None]
    assert [row["is_back"] for row in found] == [None, False, False, True, None]
    assert [row["previous_offset"] for row in found] == [None, 3, 3, 10, 2]


def test_lag_at_a_time_counts_the_records_of_then(tmp_path):
    log_of(tmp_path)
    write_records(tmp_path, "__consumer_offsets", [(commit_key("g", "t", 0), commit_value(1, NOW + 1500))], time=NOW)
    (row,) = rows(tmp_path, as_of=NOW + 3000)
    assert (row["lag_then"], row["lag"]) == (1, 3)


def test_lag_of_a_partition_that_is_not_there_is_not_known(tmp_path):
    write_records(tmp_path, "__consumer_offsets", [(commit_key("g", "t", 5), commit_value(1))])
    (row,) = rows(tmp_path)
    assert (row["offset"], row["lag_then"], row["lag"]) == (1, None, None)


def test_lag_of_a_damaged_partition_is_not_known_and_said(tmp_path):
    log_of(tmp_path)
    path = tmp_path / "t-0" / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    struct.pack_into(">i", content, 8, 3)
    path.write_bytes(content)
    write_records(tmp_path, "__consumer_offsets", [(commit_key("g", "t", 0), commit_value(1))])
    with pytest.warns(UserWarning, match="the lag at a past time of commits for t-0 is not known"):
        (row,) = rows(tmp_path)
    assert row["lag_then"] is None


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("recovery_point", [None, 10, 1_000_000])
def test_a_damaged_last_batch_moves_no_group_beyond_the_end(tmp_path, is_clean, recovery_point):
    """After a clean shutdown a broker keeps the batch. The lag was once negative, and the group seemed to reset."""
    log_of(tmp_path)
    path = tmp_path / "t-0" / f"{0:020d}.log"
    flip_bit(path, path.stat().st_size - 2)
    (tmp_path / checkpoints.META_PROPERTIES).write_text("version=1\nnode.id=1\n")
    if recovery_point is not None:
        content = checkpoints.format_offset_checkpoint({("t", 0): recovery_point})
        (tmp_path / checkpoints.RECOVERY_POINTS).write_bytes(content)
    if is_clean:
        (tmp_path / checkpoints.CLEAN_SHUTDOWN).touch()
    write_records(tmp_path, "__consumer_offsets", [(commit_key("g", "t", 0), commit_value(10))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (row,) = rows(tmp_path)
    end = 10 if is_clean else 9
    assert (row["log_end_offset"], row["lag"], row["is_out_of_range"]) == (end, end - 10, not is_clean)


def test_commits_that_do_not_decode_are_said(tmp_path):
    records = [(commit_key("g", "t", 0), value) for value in (b"\0\x09", commit_value(1)[:-1], commit_value(7))]
    write_records(tmp_path, "__consumer_offsets", records)
    with pytest.warns(
        UserWarning,
        match="2 commits cannot be decoded, the first of them at offset 0: unknown version 9.*does not load",
    ):
        (row,) = rows(tmp_path, lag=False)
    assert row["offset"] == 7


def test_groups_and_topics_can_be_chosen(tmp_path):
    names = [("g", "t"), ("g", "s"), ("h", "t")]
    write_records(tmp_path, "__consumer_offsets", [(commit_key(*name, 0), commit_value(1)) for name in names])
    chosen = rows(tmp_path, groups=["g"], topics=["t"])
    assert [(row["group"], row["topic"]) for row in chosen] == [("g", "t")]
    with pytest.raises(ValueError, match="groups: the list is empty"):
        bl.commits(tmp_path, groups=[])
    with pytest.raises(TypeError, match="groups: a list is expected"):
        bl.commits(tmp_path, groups="g")


@pytest.mark.parametrize("seed", range(8))
def test_end_offsets_are_those_of_a_walk(tmp_path, seed):
    """Timestamps also go backwards; indexes are there, wrong, or missing; several segments."""
    chooser = random.Random(seed)
    offset, headers = 0, []
    for _ in range(4):
        base, batches = offset, []
        for _ in range(chooser.randint(1, 40)):
            count = chooser.randint(1, 5)
            time = NOW + chooser.randint(0, 30) * 100 + offset * 50
            batches.append(batch(offset, [b"x" * chooser.choice((1, 3000))] * count, timestamp=time, step=0))
            headers.append((time, offset + count))
            offset += count
        path = write_segment(tmp_path / "t-0", base, batches, indexed=seed % 3 > 0)
        if seed % 3 == 1:
            index = path.with_suffix(".timeindex")
            index.write_bytes(bytes(chooser.randrange(256) for _ in index.read_bytes()))
    times = sorted(chooser.randint(NOW - 100, NOW + 3100 + offset * 50) for _ in range(200))
    expected = []
    for time in times:
        end = 0
        for latest, behind in headers:
            if latest > time:
                break
            end = behind
        expected.append(end)
    assert end_offsets(bl.Log(tmp_path / "t-0").files, pa.array(times)).to_pylist() == expected


def test_the_ends_of_a_log_are_found_once_for_all_coordinators(tmp_path, monkeypatch):
    log_of(tmp_path)
    for coordinator in range(3):
        commits = [(coordinator + i, NOW + 1000 * i + 500) for i in range(4)]
        records = [(commit_key("g", "t", 0), commit_value(*commit)) for commit in commits]
        write_records(tmp_path, "__consumer_offsets", records, partition=coordinator)
    found = []
    monkeypatch.setattr(
        offset_commits, "end_offsets", lambda files, times: (found.append(files.name), end_offsets(files, times))[1]
    )
    assert [row["lag_then"] for row in rows(tmp_path)] == [1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]
    assert found == ["t-0"]
    whole = rows(tmp_path)
    # And in small parts, the rows are the same.
    monkeypatch.setattr(offset_commits, "_ROWS_AT_ONCE", 1)
    monkeypatch.setattr(offset_commits, "_ROWS", 1)
    assert rows(tmp_path) == whole


def test_commits_outside_of_the_log_are_marked(tmp_path):
    """A consumer that starts with one resets; `kafka-consumer-groups` has a negative lag beyond the end."""
    log_of(tmp_path)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 4\n")
    offsets = (3, 4, 10, 400)
    records = [(commit_key(f"g{offset:03}", "t", 0), commit_value(offset)) for offset in offsets]
    write_records(tmp_path, "__consumer_offsets", records)
    found = rows(tmp_path, history=False)
    assert [(row["lag"], row["is_out_of_range"]) for row in found] == [(7, True), (6, False), (0, False), (-390, True)]
    assert {(row["log_start_offset"], row["log_end_offset"]) for row in found} == {(4, 10)}


def test_a_commit_after_an_expired_one_goes_back(tmp_path):
    key = commit_key("g", "t", 0)
    records = [(key, commit_value(40)), (key, None), (key, commit_value(3, NOW + 1000))]
    write_records(tmp_path, "__consumer_offsets", records)
    first, removed, back = rows(tmp_path, lag=False)
    assert (first["previous_offset"], first["is_back"]) == (None, None)
    assert (removed["is_removed"], removed["previous_offset"]) == (True, 40)
    assert removed["previous_commit_time"] == first["commit_time"]
    assert (back["previous_offset"], back["is_back"]) == (40, True)


def test_partitions_that_are_in_none_of_the_paths_are_named(golden, tmp_path):
    write_records(tmp_path, "__consumer_offsets", [(commit_key("g", "t", 0), commit_value(1))], partition=1)
    said = "__consumer_offsets-0 is in none of the paths: its groups are not shown"
    for verb in (bl.groups, rows):
        with pytest.warns(UserWarning, match=said):
            verb(tmp_path)
    # A path of a partition is a choice.
    assert bl.groups(tmp_path / "__consumer_offsets-1").num_rows == 1
    shutil.copytree(golden / "logs/kafka-4.1", tmp_path / "broker")
    shutil.rmtree(tmp_path / "broker/__consumer_offsets-0")
    with pytest.warns(UserWarning, match=said):
        bl.groups(tmp_path / "broker")
