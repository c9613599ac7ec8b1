"""Repairs keep every sound batch where it was, say exactly what is lost, and leave nothing for a check to find."""

import itertools
import json
import random
import re
import shutil
import struct
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

import brokerless as bl
from brokerless.errors import CorruptRecordError, LogInUseError
from brokerless.healing import leader_epochs as healing_epochs
from brokerless.healing import write_partition
from brokerless.healing.lost_directory import lost_files
from brokerless.healing.repair_plan import RepairPlan
from brokerless.io import disk, storage
from brokerless.layout import checkpoints, lost_offsets
from brokerless.log_dir.copying import FilesAtRest
from brokerless.log_dir.recover import recovered
from support import damage
from support.broken_directories import BROKEN
from support.log_files import NOW, batch, marker, write_segment
from support.state_records import commit_key, commit_value, write_records

VALUE = b"v" * 200
SIZE = len(batch(0, [VALUE]))


@pytest.fixture
def data(tmp_path):
    """A log directory with a topic of two segments of twenty batches each."""
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", index_interval_bytes=500, retention_ms=-1)
        log = log_dir.log("t", 0)
        for at in range(40):
            if at == 20:
                log.roll()
            log.append(batch(0, [VALUE], timestamp=NOW + at))
    return tmp_path / "data"


def first(data, extension="log"):
    return data / "t-0" / f"00000000000000000000.{extension}"


def last(data, extension="log"):
    return data / "t-0" / f"00000000000000000020.{extension}"


def content(root):
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def offsets(data):
    return [offset for rows in bl.Log(data / "t-0").read() for offset in rows["offset"].to_pylist()]


def found(data, **options):
    return [finding.code for finding in bl.check(data, **options) if finding.severity != "note"]


def ranges(repaired):
    return [(one.state, one.start_offset, one.end_offset) for one in repaired.ranges]


def test_batches_on_both_sides_of_damage_stay_and_the_rest_is_said(data, tmp_path):
    damage.flip_bit(first(data), SIZE * 5 + 100)
    damage.overwrite(first(data), SIZE * 8, bytes(SIZE * 2))
    before = content(data)
    repaired = bl.repair(data, tmp_path / "to")
    assert ranges(repaired) == [("lost", 5, 6), ("lost", 8, 10)]
    assert offsets(tmp_path / "to") == [at for at in range(40) if at not in (5, 8, 9)]
    assert found(tmp_path / "to", level="deep") == []
    assert content(data) == before
    report = json.loads((tmp_path / "to.lost/report.json").read_text())
    assert [one["code"] for one in report["ranges"]] == ["batch-crc", "batch-zeros"]
    assert (tmp_path / f"to.lost/t-0/00000000000000000000.log@{SIZE * 5}").read_bytes() == before[
        "t-0/00000000000000000000.log"
    ][SIZE * 5 : SIZE * 6]


def test_damage_that_ends_in_a_base_offset_loses_the_offset_that_the_batch_now_has(data, tmp_path):
    """No checksum covers base offsets: the batch of offset 3 has offset 0, and nothing was said of the record there."""
    shutil.copytree(data, tmp_path / "other")
    damage.overwrite(first(data), 60, bytes(3 * SIZE - 60 + 8))
    assert ranges(bl.repair(data, tmp_path / "to")) == [("lost", 0, 4)]
    filled = bl.repair(data, tmp_path / "filled", sources=[tmp_path / "other"])
    assert ranges(filled) == [("recovered", 0, 4)]
    assert content(tmp_path / "filled/t-0") == content(tmp_path / "other/t-0")


def test_garbage_before_a_batch_at_a_gap_of_an_earlier_repair_loses_no_offset(data, tmp_path):
    whole = first(data).read_bytes()
    first(data).write_bytes(whole[: SIZE * 12] + b"garbage" * 9 + whole[SIZE * 12 : SIZE * 13] + whole[SIZE * 16 :])
    (data / "t-0" / lost_offsets.FILE).write_bytes(lost_offsets.content([(13, 16)]))
    assert ranges(bl.repair(data, tmp_path / "to")) == []
    assert offsets(tmp_path / "to") == [at for at in range(40) if at not in range(13, 16)]


@pytest.mark.parametrize("batch_number", [0, 5, 19, 20, 39])
@pytest.mark.parametrize("at", [8, 9, 10, 11, 16])
@pytest.mark.parametrize("bit", range(8))
def test_a_batch_whose_magic_or_length_is_wrong_is_kept(data, tmp_path, batch_number, at, bit):
    """No checksum covers these bytes."""
    before = content(data)
    path = first(data) if batch_number < 20 else last(data)
    damage.flip_bit(path, SIZE * (batch_number % 20) + at, bit=bit)
    assert "error" in {one.severity for one in bl.check(data, level="deep")}
    repaired = bl.repair(data, tmp_path / "to")
    assert ranges(repaired) == [("recovered", batch_number, batch_number + 1)]
    assert content(tmp_path / "to")[str(path.relative_to(data))] == before[str(path.relative_to(data))]
    assert found(tmp_path / "to", level="deep") == []
    assert "mend offset" in "".join(map(str, repaired.repaired["t-0"]))


def test_a_batch_with_a_wrong_magic_and_other_damage_is_lost(data, tmp_path):
    for at in (16, 100):
        damage.flip_bit(first(data), SIZE * 5 + at)
    assert ranges(bl.repair(data, tmp_path / "to")) == [("lost", 5, 6)]


@pytest.mark.parametrize("how", ["copy", "in place", "dry run", "topic"])
@pytest.mark.parametrize("is_readable", [True, False])
def test_groups_that_committed_beyond_the_new_end_are_named(data, tmp_path, how, is_readable):
    commits = {"beyond": 40, "at": 39, "before": 7, "other\n": 40}
    records = [(commit_key(group, "t", 0), commit_value(offset)) for group, offset in commits.items()]
    write_records(data, "__consumer_offsets", [*records, (commit_key("gone", "t", 1), commit_value(90))])
    if not is_readable:
        damage.flip_bit(next(data.glob("__consumer_offsets-0/*.log")), 80)
    damage.flip_bit(last(data), SIZE * 19 + 100)
    options = {"in_place": True} if how == "in place" else {"output": tmp_path / "to", "dry_run": how == "dry run"}
    repaired = bl.repair(data, topics=["t"] if how == "topic" else None, **options)
    doubts = [one for one in repaired.doubts if one.code == "groups-ahead"]
    named, *unread = doubts
    # Damage to the first commit hides its group. After a repair, no damage tells of it: the lost range does.
    names = ("beyond", "other\n") if is_readable else ("other\n",)
    assert (named.topic, named.partition, named.names) == ("t", 0, names)
    assert f"beyond the new end 39: {'beyond at 40, ' if is_readable else ''}other\\n at 40." in str(named)
    cure = "kafka-consumer-groups.sh --bootstrap-server SERVER --group {} --topic t:0 --reset-offsets --to-offset 39"
    for group in ["beyond"] * is_readable + ["$'other\\n'"]:
        assert f"`{cure.format(group)} --execute`" in str(named)
    assert "before they reach its offset resets it by auto.offset.reset; one that starts later skips" in str(named)
    is_hidden = not is_readable and how in ("dry run", "topic")
    assert [one.topic for one in unread] == ["__consumer_offsets"] * is_hidden
    if how != "dry run":
        report = json.loads((Path(repaired.lost_path) / "report.json").read_text())
        assert [one["code"] for one in report["doubts"]] == ["groups-ahead"] * len(doubts)


def test_groups_are_not_named_if_the_end_of_the_log_is_kept(data, tmp_path):
    write_records(data, "__consumer_offsets", [(commit_key("g", "t", 0), commit_value(90))])
    damage.flip_bit(first(data), SIZE * 2 + 100)
    assert not bl.repair(data, tmp_path / "to").doubts


@pytest.mark.parametrize("seed", [*range(24), 298])
def test_a_batch_that_was_moved_past_another_one_of_a_compacted_log_is_told(tmp_path, seed):
    """No file tells which of two batches was moved. The last batch is not moved here: other files name its offset."""
    chance = random.Random(seed)
    bases = sorted(chance.sample(range(0, 200, 2), 12))
    at = chance.randrange(2, 11)
    free = [offset for offset in range(bases[0] + 1, bases[at - 1]) if offset not in bases]
    moved = [*bases[:at], chance.choice(free), *bases[at + 1 :]]
    for root, order in (("data", moved), ("other", bases)):
        batches = [
            batch(base, [VALUE], keys=[b"%d" % key], timestamp=NOW) for base, key in zip(order, bases, strict=True)
        ]
        write_segment(tmp_path / root / "t-0", 0, batches)
        dirty = checkpoints.format_offset_checkpoint({("t", 0): 200})
        (tmp_path / root / "cleaner-offset-checkpoint").write_bytes(dirty)
    report = bl.repair(tmp_path / "data", tmp_path / "to")
    rows = bl.Log(tmp_path / "to/t-0").to_table(columns=["offset", "key"]).to_pylist()
    there = {(row["offset"], row["key"]) for row in rows}
    gone = [base for base in bases if (base, b"%d" % base) not in there]
    assert gone
    assert [base for base in gone if not any(start <= base < end for _, start, end in ranges(report))] == []
    bl.repair(tmp_path / "data", tmp_path / "filled", sources=[tmp_path / "other"])
    # Where it is now, the other replica has a hole: a cleaner may have made it.
    assert set(offsets(tmp_path / "filled")) - set(bases) <= {moved[at]}
    assert set(bases) <= set(offsets(tmp_path / "filled"))


def test_bytes_between_two_batches_lose_no_offset(data, tmp_path):
    whole = first(data).read_bytes()
    first(data).write_bytes(whole[: SIZE * 3] + b"garbage" * 9 + whole[SIZE * 3 :])
    assert ranges(bl.repair(data, tmp_path / "to")) == []
    assert offsets(tmp_path / "to") == list(range(40))


def test_a_repaired_directory_is_repaired_already(data, tmp_path):
    damage.flip_bit(first(data), SIZE * 5 + 100)
    bl.repair(data, tmp_path / "once")
    again = bl.repair(tmp_path / "once", tmp_path / "twice")
    assert content(tmp_path / "once") == content(tmp_path / "twice")
    assert (again.repaired, again.lost_path, again.ranges) == ({}, None, [])


def test_a_gap_is_found_once_the_record_of_the_repair_is_gone(data, tmp_path):
    damage.flip_bit(first(data), SIZE * 5 + 100)
    bl.repair(data, tmp_path / "to")
    (tmp_path / "to/t-0" / lost_offsets.FILE).unlink()
    assert found(tmp_path / "to") == ["offset-gap"]


def test_a_gap_beside_the_recorded_one_is_found(data, tmp_path):
    damage.flip_bit(first(data), SIZE * 5 + 100)
    bl.repair(data, tmp_path / "to")
    (tmp_path / "to/t-0" / lost_offsets.FILE).write_bytes(lost_offsets.content([(4, 5)]))
    assert found(tmp_path / "to") == ["offset-gap"]


@pytest.mark.parametrize("code", BROKEN)
def test_a_relative_path_is_repaired_as_an_absolute_one(data, tmp_path, code, monkeypatch):
    """A finding with the path as it was given was once not found among the segments, which have absolute paths."""
    BROKEN[code](data)

    def result(path):
        try:
            report = bl.repair(path, dry_run=True)
        except (CorruptRecordError, ValueError) as error:
            return str(error).replace(str(path), "data")
        ranges = [(one.code, one.state, one.start_offset, one.end_offset, one.position) for one in report.ranges]
        steps = {name: [str(step) for step in one] for name, one in report.repaired.items()}
        return ranges, steps, sorted(one.code for one in report.left)

    whole = result(data)
    monkeypatch.chdir(data.parent)
    assert result(data.name) == whole


@pytest.mark.parametrize(
    ("given", "output", "lost"),
    [("data", "to", "to.lost"), ("./data/", "to/", "to.lost"), ("data", None, "data.lost"), (".", None, "{data}.lost")],
)
def test_a_report_has_the_paths_as_they_were_given(data, monkeypatch, given, output, lost):
    damage.flip_bit(first(data), SIZE * 5 + 100)
    monkeypatch.chdir(data if given == "." else data.parent)
    report = bl.repair(given, output, in_place=output is None)
    assert report.output == (output or given).rstrip("/")
    assert report.lost_path == lost.format(data=data)
    assert Path(report.lost_path, "report.json").exists()
    assert [one.path for one in report.ranges] == [f"{given.rstrip('/')}/t-0/{20 * '0'}.log"]


def test_the_report_of_a_repair_in_place_has_what_is_left(tmp_path):
    shutil.copytree(Path(__file__).parents[3] / "examples/incident", tmp_path / "data")
    damage.flip_bit(tmp_path / "data/orders-0" / f"{20 * '0'}.log", 2500)
    repaired = bl.repair(tmp_path / "data", in_place=True)
    report = json.loads((tmp_path / "data.lost/report.json").read_text())
    assert report["left"]
    assert [one["code"] for one in report["left"]] == [one.code for one in repaired.left]


def test_another_replica_has_what_is_lost(data, tmp_path):
    shutil.copytree(data, tmp_path / "other")
    damage.flip_bit(first(data), SIZE * 5 + 100)
    damage.cut(last(data), SIZE * 3 + 50)
    repaired = bl.repair(data, tmp_path / "to", sources=[tmp_path / "other"])
    assert ranges(repaired) == [("recovered", 5, 6), ("recovered", 23, 40)]
    assert offsets(tmp_path / "to") == list(range(40))
    for name in ("00000000000000000000.log", "00000000000000000020.log"):
        assert (tmp_path / "to/t-0" / name).read_bytes() == (tmp_path / "other/t-0" / name).read_bytes()


def test_a_damaged_replica_gives_what_it_has(data, tmp_path):
    shutil.copytree(data, tmp_path / "other")
    damage.overwrite(first(data), SIZE * 5, bytes(SIZE * 4))
    damage.flip_bit(first(tmp_path / "other"), SIZE * 6 + 100)
    repaired = bl.repair(data, tmp_path / "to", sources=[tmp_path / "other"])
    assert ranges(repaired) == [("recovered", 5, 6), ("lost", 6, 7), ("recovered", 7, 9)]
    assert offsets(tmp_path / "to") == [at for at in range(40) if at != 6]


def test_a_replica_that_is_damaged_elsewhere_gives_all(data, tmp_path):
    shutil.copytree(data, tmp_path / "other")
    damage.flip_bit(first(data), SIZE * 9 + 100)
    damage.flip_bit(first(tmp_path / "other"), SIZE * 3 + 100)
    assert ranges(bl.repair(data, dry_run=True, sources=[tmp_path / "other"])) == [("recovered", 9, 10)]


@pytest.fixture
def without_ends(data):
    """The directory without the files that say where the log ended."""
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (data / name).write_text("0\n0\n")
    for snapshot in (data / "t-0").glob("*.snapshot"):
        snapshot.unlink()


def ending_at(data, copy, end):
    shutil.copytree(data, copy)
    damage.cut(last(copy), SIZE * (end - 20))
    return copy


@pytest.mark.parametrize("is_known", [True, False])
def test_a_replica_that_ends_early_does_not_hide_what_it_lacks(data, tmp_path, is_known, request):
    if not is_known:
        request.getfixturevalue("without_ends")
    early = ending_at(data, tmp_path / "early", 30)
    shutil.copytree(data, tmp_path / "late")
    damage.randomize(last(data))
    # What comes after is known by the checkpoints, or by the bytes that are damaged.
    rest = ("lost", 30, 40 if is_known else None)
    assert ranges(bl.repair(data, dry_run=True, sources=[early])) == [("recovered", 20, 30), rest]
    repaired = bl.repair(data, tmp_path / "to", sources=[early, tmp_path / "late"])
    assert ranges(repaired) == [("recovered", 20, 30), ("recovered", 30, 40)]
    assert offsets(tmp_path / "to") == list(range(40))


@pytest.fixture
def crashed(data):
    """The directory of a broker that was killed after it had flushed all of it."""
    (data / checkpoints.CLEAN_SHUTDOWN).unlink()
    return data


@pytest.mark.parametrize("tail", [0, 50, -SIZE * 10])
def test_what_was_flushed_and_is_gone_after_a_crash_is_lost(crashed, tmp_path, tail):
    shutil.copytree(crashed, tmp_path / "other")
    if tail >= 0:
        damage.cut(last(crashed), SIZE * 10 + tail)
    else:
        damage.overwrite(last(crashed), SIZE * 10, bytes(SIZE * 10))
    repaired = bl.repair(crashed, tmp_path / "to")
    assert ranges(repaired) == [("lost", 30, 40)]
    assert lost_offsets.recorded(tmp_path / "to/t-0") == []
    whole = bl.repair(crashed, tmp_path / "whole", sources=[tmp_path / "other"])
    assert ranges(whole) == [("recovered", 30, 40)]
    assert offsets(tmp_path / "whole") == list(range(40))


@pytest.mark.parametrize("tail", [0, 50])
def test_what_was_never_flushed_is_not_lost_after_a_crash(crashed, tmp_path, tail):
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (crashed / name).write_text("0\n1\nt 0 30\n")
    damage.cut(last(crashed), SIZE * 10 + tail)
    repaired = bl.repair(crashed, tmp_path / "to")
    assert ranges(repaired) == []
    assert offsets(tmp_path / "to") == list(range(30))


def test_damage_where_an_earlier_repair_recorded_a_gap_is_lost_anew(data, tmp_path):
    """A follower truncated its log and fetched the range."""
    (data / "t-0" / lost_offsets.FILE).write_bytes(lost_offsets.content([(5, 8)]))
    damage.flip_bit(first(data), SIZE * 6 + 100)
    repaired = bl.repair(data, tmp_path / "to")
    assert ranges(repaired) == [("lost", 6, 7)]
    assert lost_offsets.recorded(tmp_path / "to/t-0") == [(6, 7)]


def test_the_start_of_a_log_comes_from_another_replica_later(data, tmp_path):
    shutil.copytree(data, tmp_path / "other")
    damage.flip_bit(first(data), 100)
    bl.repair(data, tmp_path / "once")
    again = bl.repair(tmp_path / "once", tmp_path / "twice", sources=[tmp_path / "other"])
    assert ranges(again) == [("recovered", 0, 1)]
    assert offsets(tmp_path / "twice") == list(range(40))


def test_a_record_that_cannot_be_read_is_not_replaced(data, tmp_path):
    (data / "t-0" / lost_offsets.FILE).write_bytes(b'{"version":2,"ranges":[[5,6]]}')
    damage.flip_bit(first(data), SIZE * 9 + 100)
    repaired = bl.repair(data, tmp_path / "to")
    assert "batch-crc" in {one.code for one in repaired.left}
    assert content(tmp_path / "to/t-0") == content(data / "t-0")


def test_a_lost_directory_that_appears_meanwhile_is_not_replaced(tmp_path):
    def take(_):
        (tmp_path / "lost").mkdir()
        (tmp_path / "lost/of-another").write_text("x")

    with pytest.raises(FileExistsError, match="meanwhile"), lost_files(f"{tmp_path}/lost", {}, str(tmp_path), take):
        pytest.fail("published")
    assert [path.name for path in tmp_path.rglob("*")] == ["lost", "of-another"]


def test_what_was_lost_comes_from_another_replica_later(data, tmp_path):
    shutil.copytree(data, tmp_path / "other")
    damage.overwrite(first(data), SIZE * 5, bytes(SIZE * 2))
    damage.flip_bit(first(data), SIZE * 9 + 100)
    bl.repair(data, tmp_path / "once")
    damage.flip_bit(first(tmp_path / "other"), SIZE * 6 + 100)
    again = bl.repair(tmp_path / "once", tmp_path / "twice", sources=[tmp_path / "other"])
    assert ranges(again) == [("recovered", 5, 6), ("recovered", 9, 10)]
    assert offsets(tmp_path / "twice") == [at for at in range(40) if at != 6]
    assert lost_offsets.recorded(tmp_path / "twice/t-0") == [(6, 7)]
    assert found(tmp_path / "twice", level="deep") == []
    shutil.copytree(data, tmp_path / "whole")
    write_segment(tmp_path / "whole/t-0", 0, [batch(at, [VALUE], timestamp=NOW + at) for at in range(20)])
    bl.repair(tmp_path / "twice", tmp_path / "last", sources=[tmp_path / "whole"])
    assert offsets(tmp_path / "last") == list(range(40))
    assert not (tmp_path / "last/t-0" / lost_offsets.FILE).exists()
    assert content(tmp_path / "last/t-0").keys() == content(data / "t-0").keys()


def test_in_a_compacted_log_only_what_was_lost_comes_from_another_replica(tmp_path):
    data = tmp_path / "data"
    with bl.create_log_dir(data) as log_dir:
        log_dir.create_topic("t", cleanup_policy="compact")
        for at in range(20):
            log_dir.log("t", 0).append(batch(0, [VALUE], keys=[b"%02d" % at], timestamp=NOW + at))
    # The cleaner dropped offsets 4 and 12 here, and not in the other replica.
    shutil.copytree(data, tmp_path / "other")
    whole = first(data).read_bytes()
    size = len(whole) // 20
    first(data).write_bytes(b"".join(whole[size * at : size * (at + 1)] for at in range(20) if at not in (4, 5, 12)))
    (data / "t-0" / lost_offsets.FILE).write_bytes(lost_offsets.content([(5, 6)]))
    repaired = bl.repair(data, tmp_path / "to", sources=[tmp_path / "other"])
    assert ranges(repaired) == [("recovered", 5, 6)]
    assert offsets(tmp_path / "to") == [at for at in range(20) if at not in (4, 12)]


def test_several_losses_in_one_gap_of_a_compacted_log_come_back_at_once(tmp_path):
    data = tmp_path / "data"
    with bl.create_log_dir(data) as log_dir:
        log_dir.create_topic("t", cleanup_policy="compact")
        for at in range(20):
            log_dir.log("t", 0).append(batch(0, [VALUE], keys=[b"%02d" % at], timestamp=NOW + at))
    shutil.copytree(data, tmp_path / "other")
    whole = first(data).read_bytes()
    size = len(whole) // 20
    first(data).write_bytes(b"".join(whole[size * at : size * (at + 1)] for at in range(20) if not 5 <= at <= 10))
    (data / "t-0" / lost_offsets.FILE).write_bytes(lost_offsets.content([(5, 6), (10, 11)]))
    repaired = bl.repair(data, tmp_path / "to", sources=[tmp_path / "other"])
    assert ranges(repaired) == [("recovered", 5, 6), ("recovered", 10, 11)]


def test_offsets_in_remote_storage_are_not_told_as_lost(tmp_path):
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", remote_storage_enable=True)
        for at in range(40):
            if at == 20:
                log_dir.log("t", 0).roll()
            log_dir.log("t", 0).append(batch(0, [VALUE], timestamp=NOW + at))
    data = tmp_path / "data"
    for path in (data / "t-0").glob("00000000000000000000.*"):
        path.unlink()
    (data / "log-start-offset-checkpoint").write_text("0\n1\nt 0 0\n")
    assert found(data) == []
    damage.flip_bit(last(data), 100)
    assert ranges(bl.repair(data, dry_run=True)) == [("lost", 20, 21)]


def test_batches_of_a_replica_that_rolled_at_other_offsets_fill_a_loss(data, tmp_path):
    with bl.create_log_dir(tmp_path / "other") as log_dir:
        log_dir.create_topic("t", retention_ms=-1)
        log = log_dir.log("t", 0)
        for at in range(40):
            if at in (5, 12, 30):
                log.roll()
            log.append(batch(0, [VALUE], timestamp=NOW + at))
    (tmp_path / "other/t-0/partition.metadata").unlink()
    damage.flip_bit(first(data), SIZE * 5 + 100)
    damage.flip_bit(first(data), SIZE * 12 + 100)
    bl.repair(data, tmp_path / "to", sources=[tmp_path / "other"])
    assert offsets(tmp_path / "to") == list(range(40))
    assert bl.Log(tmp_path / "to/t-0").log_end_offset == 40
    assert found(tmp_path / "to", level="deep") == []


def test_a_diverged_end_is_not_taken(data, tmp_path):
    with_epochs(data, [0, 0, 5, 5, 5], "0\n2\n0 0\n5 2\n")
    shutil.copytree(data, tmp_path / "other")
    write_segment(tmp_path / "other/t-0", 0, [batch(at, [VALUE], leader_epoch=0, timestamp=NOW) for at in range(5)])
    damage.cut(first(data), SIZE * 2 + 10)
    repaired = bl.repair(data, dry_run=True, sources=[tmp_path / "other"])
    assert "recovered" not in {one.state for one in repaired.ranges}


@pytest.mark.parametrize("at", [4, 6])
def test_a_replica_of_another_history_is_not_taken(data, tmp_path, at):
    shutil.copytree(data, tmp_path / "other")
    damage.overwrite(first(tmp_path / "other"), SIZE * at, batch(at, [b"w" * 200], timestamp=NOW + at))
    damage.flip_bit(first(data), SIZE * 5 + 100)
    assert ranges(bl.repair(data, dry_run=True, sources=[tmp_path / "other"])) == [("lost", 5, 6)]


def test_a_topic_that_was_created_again_is_not_taken(data, tmp_path):
    shutil.copytree(data, tmp_path / "other")
    (tmp_path / "other/t-0/partition.metadata").write_text("version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n")
    damage.flip_bit(first(data), SIZE * 5 + 100)
    assert ranges(bl.repair(data, dry_run=True, sources=[tmp_path / "other"])) == [("lost", 5, 6)]


def test_a_segment_that_is_gone_comes_from_another_replica(data, tmp_path):
    shutil.copytree(data, tmp_path / "other")
    first(data).unlink()
    repaired = bl.repair(data, tmp_path / "to", sources=[tmp_path / "other"])
    assert ranges(repaired) == [("recovered", 0, 20)]
    assert sorted(path.name for path in (tmp_path / "to/t-0").glob("*.log")) == [
        "00000000000000000000.log",
        "00000000000000000020.log",
    ]
    assert offsets(tmp_path / "to") == list(range(40))


def test_a_log_of_which_nothing_is_sound_comes_from_another_replica(data, tmp_path):
    shutil.copytree(data, tmp_path / "other")
    damage.randomize(first(data))
    damage.randomize(last(data), seed=1)
    bl.repair(data, tmp_path / "to", sources=[tmp_path / "other"])
    assert offsets(tmp_path / "to") == list(range(40))


def test_the_end_of_a_log_of_which_nothing_is_sound_stays(data, tmp_path):
    damage.randomize(last(data))
    bl.repair(data, tmp_path / "to")
    assert offsets(tmp_path / "to") == list(range(20))
    assert bl.Log(tmp_path / "to/t-0").log_end_offset == 20


def test_a_suspect_batch_is_kept_only_if_it_is_asked_for(data, tmp_path):
    damage.flip_bit(first(data), SIZE * 5 + 150)
    repaired = bl.repair(data, tmp_path / "to", keep_suspect=True)
    assert ranges(repaired) == [("suspect", 5, 6)]
    assert offsets(tmp_path / "to") == list(range(40))
    assert found(tmp_path / "to", level="deep") == []


@pytest.mark.slow
def test_a_sound_batch_of_another_replica_is_better_than_a_suspect_one(data, tmp_path):
    shutil.copytree(data, tmp_path / "other")
    damage.flip_bit(first(data), SIZE * 5 + 150)
    found_here = bl.repair(data, dry_run=True, keep_suspect=True, sources=[tmp_path / "other"])
    assert ranges(found_here) == [("recovered", 5, 6)]


def test_thousands_of_damaged_places_take_seconds(data, tmp_path):
    small = [batch(at, [b"v"], timestamp=NOW) for at in range(3000)]
    with_epochs(data, [], "0\n1\n0 0\n")
    write_segment(data / "t-0", 0, small)
    shutil.copytree(data, tmp_path / "other")
    damaged = bytearray(b"".join(small))
    for at in range(1, 3000, 3):
        damaged[len(small[0]) * at + 30] ^= 1
    first(data).write_bytes(damaged)
    started = time.process_time()
    assert len(bl.repair(data, dry_run=True).lost) == 1000
    assert len(bl.repair(data, dry_run=True, sources=[tmp_path / "other"]).ranges) == 1000
    assert time.process_time() - started < 30


def test_thousands_of_recorded_gaps_take_seconds(data, tmp_path):
    with_epochs(data, [], "0\n1\n0 0\n")
    write_segment(data / "t-0", 0, [batch(2 * at, [b"v"], timestamp=NOW) for at in range(6000)])
    gaps = [(2 * at + 1, 2 * at + 2) for at in range(5999)]
    (data / "t-0" / lost_offsets.FILE).write_bytes(lost_offsets.content(gaps))
    damage.flip_bit(first(data), 30)
    started = time.process_time()
    # The damage touches a recorded gap.
    assert ranges(bl.repair(data, dry_run=True)) == [("lost", 0, 2)]
    assert time.process_time() - started < 20


def test_a_batch_whose_records_break_the_format_is_no_suspect(data, tmp_path):
    damage.flip_bit(first(data), SIZE * 5 + 61, bit=3)
    assert ranges(bl.repair(data, dry_run=True, keep_suspect=True)) == [("lost", 5, 6)]


def with_epochs(data, epochs, file):
    shutil.rmtree(data / "t-0")
    batches = [batch(at, [VALUE], leader_epoch=epoch, timestamp=NOW) for at, epoch in enumerate(epochs)]
    write_segment(data / "t-0", 0, batches)
    (data / "t-0/leader-epoch-checkpoint").write_text(file)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (data / name).unlink()


def epochs(data):
    return [epoch for rows in bl.Log(data / "t-0").scan() for epoch in rows["partition_leader_epoch"].to_pylist()]


@pytest.mark.parametrize(
    ("given", "file"),
    [
        ([0, 0, 3, 3, 99, 3, 3], "0\n2\n0 0\n3 2\n"),
        ([0, 0, 3, 3, 1, 3, 3], "0\n2\n0 0\n3 2\n"),
        ([0, 0, 3, 3, 3, 3, 4], "0\n2\n0 0\n3 2\n"),
        ([0, 0, 3, 3, 99, 3, 3], "not a file of epochs"),
    ],
)
def test_a_leader_epoch_that_contradicts_all_others_is_corrected(data, tmp_path, given, file):
    with_epochs(data, given, file)
    bl.repair(data, tmp_path / "to")
    assert epochs(tmp_path / "to") == [0, 0, 3, 3, 3, 3, 3]
    assert found(tmp_path / "to") == []


@pytest.mark.parametrize("seed", range(50))
def test_as_few_batches_as_possible_get_another_epoch(seed):
    chosen = random.Random(seed)
    runs = [
        healing_epochs._EpochRun(0, chosen.randrange(6), at, at, at, chosen.randrange(1, 5), at, at + 1)
        for at in range(chosen.randrange(1, 9))
    ]
    found = healing_epochs._epochs_by_most(runs)
    assert found == sorted(found)
    changed = sum(run.batches for run, epoch in zip(runs, found, strict=True) if run.epoch != epoch)
    every = (
        sum(run.batches for at, run in enumerate(runs) if at not in kept)
        for count in range(len(runs) + 1)
        for kept in itertools.combinations(range(len(runs)), count)
        if [runs[at].epoch for at in kept] == sorted(runs[at].epoch for at in kept)
    )
    assert changed == min(every)


def test_many_epochs_that_contradict_each_other_take_seconds():
    runs = [healing_epochs._EpochRun(0, at * 7919 % 100_003, at, at, at, 1, at, at + 1) for at in range(100_000)]
    started = time.process_time()
    healing_epochs._epochs_by_most(runs)
    assert time.process_time() - started < 10


def test_behind_damage_a_batch_of_an_older_epoch_is_not_believed(data, tmp_path):
    with_epochs(data, [0, 5, 5, 5, 2, 2, 5], "0\n2\n0 0\n5 1\n")
    damage.flip_bit(first(data), SIZE * 3 + 100)
    repaired = bl.repair(data, tmp_path / "to")
    assert offsets(tmp_path / "to") == [0, 1, 2, 6]
    assert ranges(repaired) == [("lost", 3, 4), ("lost", 4, 6)]
    assert found(tmp_path / "to") == []


@pytest.fixture
def transactional(tmp_path):
    """A log with an aborted transaction and a committed one, each of two batches, between plain batches."""
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", retention_ms=-1)
        log = log_dir.log("t", 0)
        for commit in (False, True):
            log.append(batch(0, [VALUE], timestamp=NOW))
            for at in range(2):
                sequence = at + 2 * commit
                log.append(batch(0, [VALUE], producer_id=7, base_sequence=sequence, transactional=True, timestamp=NOW))
            log.append(marker(0, 7, commit=commit), origin="coordinator")
        log.append(batch(0, [VALUE], timestamp=NOW))
    return tmp_path / "data"


def harm_marker(data, number):
    """Zero a marker."""
    rows = [row for rows in bl.Log(data / "t-0").scan() for row in rows.to_pylist() if row["is_control"]]
    damage.overwrite(first(data), rows[number]["position"] + 20, bytes(40))


def committed(data):
    log = bl.Log(data / "t-0")
    return [offset for rows in log.read(isolation_level="read_committed") for offset in rows["offset"].to_pylist()]


def test_a_lost_marker_of_an_aborted_transaction_is_written_again(transactional, tmp_path):
    before = committed(transactional)
    assert before == [0, 4, 5, 6, 8]
    harm_marker(transactional, 0)
    repaired = bl.repair(transactional, tmp_path / "to")
    assert committed(tmp_path / "to") == before
    # A flipped bit in the index could say the same.
    (doubt,) = map(str, repaired.doubts)
    assert "producer 7 from offset 1 on is ended as aborted" in doubt
    assert found(tmp_path / "to", level="deep") == []


def test_a_marker_at_the_start_of_a_segment_is_written_there(tmp_path):
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", retention_ms=-1)
        log = log_dir.log("t", 0)
        log.append(batch(0, [VALUE], producer_id=7, base_sequence=0, transactional=True, timestamp=NOW))
        log.roll()
        log.append(marker(0, 7, commit=False), origin="coordinator")
        log.append(batch(0, [VALUE], timestamp=NOW))
    damage.overwrite(tmp_path / "data/t-0/00000000000000000001.log", 20, bytes(40))
    bl.repair(tmp_path / "data", tmp_path / "to")
    assert committed(tmp_path / "to") == [2]
    assert [segment.base_offset for segment in bl.Log(tmp_path / "to/t-0").segments] == [0, 1]
    assert found(tmp_path / "to", level="deep") == []


def test_of_a_lost_marker_of_a_committed_transaction_the_doubt_is_said(transactional, tmp_path):
    harm_marker(transactional, 1)
    repaired = bl.repair(transactional, tmp_path / "to")
    (doubt,) = map(str, repaired.doubts)
    assert "it is not known whether the transaction of producer 7 from offset 5 on was committed" in doubt
    assert committed(tmp_path / "to") == [0, 4]


def test_files_beside_the_batches_are_made_again(data, tmp_path):
    damage.overwrite(first(data, "index"), 12, struct.pack(">i", 7777))
    last(data, "timeindex").unlink()
    (data / "t-0/leader-epoch-checkpoint").write_text("x")
    (data / "t-0/partition.metadata").write_text("x")
    (data / "replication-offset-checkpoint").write_text("x")
    batches = first(data).read_bytes()
    bl.repair(data, tmp_path / "to", indexes_only=True)
    assert found(tmp_path / "to", level="deep") == []
    assert first(tmp_path / "to").read_bytes() == batches


@pytest.mark.parametrize("has_other", [True, False])
def test_the_topics_id_comes_from_another_partition_or_the_metadata(data, tmp_path, has_other):
    topic_id = (data / "t-0/partition.metadata").read_bytes()
    if has_other:
        shutil.copytree(data / "t-0", data / "t-1")
        (data / "bootstrap.checkpoint").unlink()
    (data / "t-0/partition.metadata").unlink()
    bl.repair(data, tmp_path / "to")
    assert (tmp_path / "to/t-0/partition.metadata").read_bytes() == topic_id


# What a repair does not end: what producers and tools wrote, what other directories decide, and names.
LEFT = {
    *("batch-timestamp", "record-order", "transaction-hanging", "quorum-damaged", "metadata-damaged"),
    *("ids-missing", "ids-damaged", "topic-id-differs", "partition-stray", "stray", "sequence-gap"),
    *("partition-twice", "file-unpadded", "state-record", "transaction-overdue", "timestamp-unlikely"),
    "batch-unsupported",
}


@pytest.mark.parametrize("code", sorted(BROKEN))
def test_a_repair_ends_each_kind_of_finding_or_says_that_it_is_left(data, tmp_path, code):
    BROKEN[code](data)
    repaired = bl.repair(data, tmp_path / "to")
    left = {code} & LEFT
    # Some have no metadata of their cluster.
    assert {one.code for one in repaired.left if one.severity != "note"} - {"metadata-missing"} == left
    assert set(found(tmp_path / "to", level="deep")) - {"metadata-missing"} == left


def test_a_log_with_damaged_batches_is_left_where_only_indexes_are_repaired(data, tmp_path):
    damage.flip_bit(first(data), SIZE * 5 + 100)
    repaired = bl.repair(data, tmp_path / "to", indexes_only=True)
    assert [one.code for one in repaired.left] == ["batch-crc"]
    assert content(data / "t-0") == content(tmp_path / "to/t-0")


def test_in_place_only_damaged_partitions_are_replaced(data, tmp_path):
    with bl.open_log_dir(data, sole_replica=True) as log_dir:
        log_dir.create_topic("u")
        log_dir.log("u", 0).append(batch(0, [VALUE], timestamp=NOW))
    kept = (data / "u-0").stat().st_ino
    damage.flip_bit(first(data), SIZE * 5 + 100)
    bl.repair(data, in_place=True, lost_path=tmp_path / "lost")
    assert offsets(data) == [at for at in range(40) if at != 5]
    assert found(data, level="deep") == []
    assert (data / "u-0").stat().st_ino == kept
    assert (tmp_path / "lost/report.json").exists()
    assert not [path for path in data.iterdir() if path.name.endswith("-delete")]


def test_a_directory_that_changes_meanwhile_is_not_replaced(data, monkeypatch):
    damage.flip_bit(first(data), SIZE * 5 + 100)
    planned = RepairPlan.of

    def plan(*args, **options):
        found = planned(*args, **options)
        damage.append(last(data), batch(40, [VALUE], timestamp=NOW + 40))
        return found

    monkeypatch.setattr(RepairPlan, "of", plan)
    before = content(data)
    with pytest.raises(LogInUseError, match="changed meanwhile"):
        bl.repair(data, in_place=True)
    assert {**content(data), "t-0/00000000000000000020.log": b""} == {**before, "t-0/00000000000000000020.log": b""}


def test_a_directory_that_changes_meanwhile_is_not_copied(data, tmp_path, monkeypatch):
    damage.flip_bit(first(data), SIZE * 5 + 100)
    verify = RepairPlan._verify

    def change(*args, **options):
        verify(*args, **options)
        damage.append(last(data), batch(40, [VALUE], timestamp=NOW + 40))

    monkeypatch.setattr(RepairPlan, "_verify", change)
    with pytest.raises(LogInUseError, match="changed meanwhile"):
        bl.repair(data, tmp_path / "to")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


@pytest.mark.parametrize("options", [{"output": "to"}, {"in_place": True}])
def test_a_result_with_a_fault_is_not_published(data, tmp_path, monkeypatch, options):
    damage.flip_bit(first(data), SIZE * 5 + 100)
    load = write_partition.load

    def harm(directory, *args, **fields):
        loaded = load(directory, *args, **fields)
        damage.flip_bit(f"{directory}/00000000000000000020.log", 100)
        return loaded

    monkeypatch.setattr(write_partition, "load", harm)
    before = content(data)
    with pytest.raises(CorruptRecordError, match="has a fault"):
        bl.repair(data, **{name: tmp_path / value if name == "to" else value for name, value in options.items()})
    assert content(data) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def test_what_was_left_out_goes_if_the_result_is_not_published(data, tmp_path, monkeypatch):
    damage.flip_bit(first(data), SIZE * 5 + 100)

    def fail(*_, **__):
        raise OSError("no space left")

    monkeypatch.setattr("brokerless.layout.commit_journal.commit", fail)
    with pytest.raises(OSError, match="no space"):
        bl.repair(data, in_place=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]
    assert not [path for path in data.iterdir() if path.name.endswith("-delete")]


def test_a_directory_that_cannot_be_listed_hides_no_change_of_another(data, monkeypatch):
    """As `lost+found`, which only the superuser may list."""
    (data / "lost+found").mkdir()
    listed = storage.list_directory

    def refused(path):
        if path.endswith("lost+found"):
            raise PermissionError(13, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr("brokerless.io.storage.list_directory", refused)
    at_rest = FilesAtRest([str(data)])
    at_rest.check()
    damage.append(last(data), batch(40, [VALUE], timestamp=NOW + 40))
    with pytest.raises(LogInUseError, match=r"changed meanwhile: .*t-0"):
        at_rest.check()


@pytest.mark.parametrize("in_place", [False, True])
def test_what_a_recovery_set_aside_is_kept_and_a_file_that_stops_a_broker_is_in_lost(data, tmp_path, in_place):
    (data / "t-0/set-aside-00000000000000000000.log-from-100").write_bytes(b"cut off")
    (data / "t-0/99999999999999999999.log").write_bytes(b"somebody's")
    (data / "t-0/leader-epoch-checkpoint").write_text("x")
    to = data if in_place else tmp_path / "to"
    bl.repair(data, **({"in_place": True} if in_place else {"output": to}))
    assert (to / "t-0/set-aside-00000000000000000000.log-from-100").read_bytes() == b"cut off"
    assert not (to / "t-0/99999999999999999999.log").exists()
    assert (tmp_path / f"{to.name}.lost/t-0/99999999999999999999.log").read_bytes() == b"somebody's"


def test_a_segment_that_may_not_be_written_is_copied_in_place(data, monkeypatch):
    damage.flip_bit(last(data), 100)
    opened = disk.open_existing

    def refused(path):
        if str(path).endswith("t-0/00000000000000000000.log"):
            raise PermissionError(13, "Permission denied", path)
        return opened(path)

    monkeypatch.setattr("brokerless.io.disk.open_existing", refused)
    bl.repair(data, in_place=True)
    assert offsets(data) == [at for at in range(40) if at != 20]


def test_a_linked_partition_is_not_replaced(data, tmp_path):
    damage.flip_bit(first(data), SIZE * 5 + 100)
    (data / "t-0").rename(tmp_path / "elsewhere")
    (data / "t-0").symlink_to(tmp_path / "elsewhere")
    before = content(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=r"is a link.*new directory .output."):
        bl.repair(data, in_place=True)
    assert content(tmp_path / "elsewhere") == before


def test_a_second_repair_does_not_write_over_the_lost_bytes_of_the_first(data, tmp_path):
    for at in (5, 7):
        damage.flip_bit(first(data), SIZE * at + 100 - (SIZE if at == 7 else 0))
        bl.repair(data, in_place=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "data.lost", "data.lost-2"]
    assert lost_offsets.recorded(data / "t-0") == [(5, 6), (7, 8)]


def test_a_metadata_log_that_lacks_records_is_left(data, tmp_path):
    write_segment(data / "__cluster_metadata-0", 0, [batch(0, [VALUE]), batch(1, [VALUE]), batch(2, [VALUE])])
    damage.flip_bit(data / "__cluster_metadata-0/00000000000000000000.log", SIZE + 100)
    repaired = bl.repair(data, tmp_path / "to")
    assert "batch-crc" in {one.code for one in repaired.left}
    assert content(data / "__cluster_metadata-0") == content(tmp_path / "to/__cluster_metadata-0")


def test_a_partitions_directory_alone_is_repaired_without_a_log_directory(data, tmp_path):
    damage.flip_bit(first(data), SIZE * 5 + 100)
    bl.repair(data / "t-0", tmp_path / "t-0")
    assert offsets(tmp_path) == [at for at in range(40) if at != 5]


def test_other_topics_than_those_named_are_not_repaired_or_copied(data, tmp_path):
    with bl.open_log_dir(data, sole_replica=True) as log_dir:
        log_dir.create_topic("u")
    bl.repair(data, tmp_path / "to", topics=["t"])
    assert sorted(path.name for path in (tmp_path / "to").iterdir() if path.is_dir()) == ["t-0"]
    assert b" 1\n" not in (tmp_path / "to/recovery-point-offset-checkpoint").read_bytes()[:2]
    assert b"u 0" not in (tmp_path / "to/recovery-point-offset-checkpoint").read_bytes()


def test_a_dry_run_says_the_same_and_changes_nothing(data, tmp_path):
    damage.flip_bit(first(data), SIZE * 5 + 100)
    before = content(tmp_path)
    would = bl.repair(data, dry_run=True)
    assert content(tmp_path) == before
    assert would.ranges == bl.repair(data, tmp_path / "to").ranges


def test_a_directory_in_use_is_refused(data, tmp_path):
    with bl.open_log_dir(data, sole_replica=True), pytest.raises(LogInUseError):
        bl.repair(data, tmp_path / "to")


def test_an_existing_result_or_lost_directory_is_refused(data, tmp_path):
    damage.flip_bit(first(data), SIZE * 5 + 100)
    (tmp_path / "there").mkdir()
    with pytest.raises(FileExistsError):
        bl.repair(data, tmp_path / "there")
    with pytest.raises(FileExistsError, match="lost_path"):
        bl.repair(data, tmp_path / "to", lost_path=tmp_path / "there")
    assert not (tmp_path / "to").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "there"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give either a directory"),
        ({"output": "to", "in_place": True}, "give either a directory"),
        ({"dry_run": True, "topics": ["nothing"]}, "nothing"),
        ({"dry_run": True, "indexes_only": True, "keep_suspect": True}, "so sources and keep_suspect have no effect"),
    ],
)
def test_arguments_that_contradict_each_other_are_refused(data, options, message):
    with pytest.raises(ValueError, match=message):
        bl.repair(data, **options)


def test_a_partition_is_not_replaced_alone(data):
    with pytest.raises(ValueError, match="log directory around it"):
        bl.repair(data / "t-0", in_place=True)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("was_clean", [False, True])
def test_after_a_loss_the_marker_names_no_broker_epoch(data, tmp_path, in_place, was_clean):
    """A broker with several disks takes an epoch of another disk in the place of -1, and counts as in sync."""
    marker = data / checkpoints.CLEAN_SHUTDOWN
    marker.write_bytes(checkpoints.format_clean_shutdown(7))
    if not was_clean:
        marker.unlink()
    damage.flip_bit(first(data), SIZE * 5 + 100)
    to = data if in_place else tmp_path / "to"
    bl.repair(data, None if in_place else to, in_place=in_place)
    assert (to / checkpoints.CLEAN_SHUTDOWN).read_bytes() == b'{"version":0}'


@pytest.mark.parametrize("in_place", [False, True])
def test_after_a_crash_a_broker_recovers_a_replica_that_is_being_moved(data, tmp_path, in_place):
    """With zeros in its preallocated indexes, retention would delete all of it once it is in its place."""
    shutil.copytree(data / "t-0", data / f"t-1.{'0' * 32}-future")
    (data / checkpoints.CLEAN_SHUTDOWN).unlink()
    to = data if in_place else tmp_path / "to"
    assert bl.repair(data, None if in_place else to, in_place=in_place).repaired
    assert not bl.LogDirFiles(str(to)).is_clean


@pytest.mark.parametrize("in_place", [False, True])
def test_a_damaged_replica_that_is_being_moved_is_left_out(data, tmp_path, in_place):
    """It would take the place of the sound one on another disk."""
    name = f"t-1.{'0' * 32}-future"
    shutil.copytree(data / "t-0", data / name)
    damage.flip_bit(data / name / "00000000000000000000.log", SIZE * 5 + 100)
    before = content(data)
    assert found(data) == ["batch-crc"]
    to = data if in_place else tmp_path / "to"
    repaired = bl.repair(data, None if in_place else to, in_place=in_place)
    assert "move it again" in str(repaired.left_out[name])
    assert not (to / name).exists()
    assert found(to) == []
    assert offsets(to) == list(range(40))
    if in_place:
        lost = tmp_path / "data.lost" / name
        assert content(lost) == {path.removeprefix(f"{name}/"): each for path, each in before.items() if name in path}
    else:
        assert content(data) == before


def test_a_sound_replica_that_is_being_moved_stays(data, tmp_path):
    name = f"t-1.{'0' * 32}-future"
    shutil.copytree(data / "t-0", data / name)
    damage.flip_bit(first(data), SIZE * 5 + 100)
    bl.repair(data, tmp_path / "to")
    assert content(data / name) == content(tmp_path / "to" / name)


def test_a_file_at_which_a_broker_stops_is_not_in_the_result(data, tmp_path):
    (data / "t-0" / f"{'9' * 20}.log").touch()
    (data / checkpoints.CLEAN_SHUTDOWN).unlink()
    damage.flip_bit(first(data), SIZE * 5 + 100)
    bl.repair(data, tmp_path / "to")
    assert offsets(tmp_path / "to") == [at for at in range(40) if at != 5]
    assert not (tmp_path / "to/t-0" / f"{'9' * 20}.log").exists()


@pytest.mark.parametrize(("epoch", "expected"), [(1 << 29, 4), (5, 5), (3, 4)])
def test_the_file_of_epochs_is_believed_before_a_lone_batch(data, tmp_path, epoch, expected):
    """But for a batch that may be later than the file, which a crash left behind."""
    with_epochs(data, [epoch], "0\n1\n4 0\n")
    bl.repair(data, tmp_path / "to")
    assert epochs(tmp_path / "to") == [expected]
    assert (tmp_path / "to/t-0/leader-epoch-checkpoint").read_text() == f"0\n1\n{expected} 0\n"


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("start", [39, 40])
def test_deleted_records_stay_deleted_where_the_last_batch_is_damaged(data, tmp_path, start, is_clean):
    """All records, or all but the last, were deleted: then the log starts behind the sound batches."""
    (data / "log-start-offset-checkpoint").write_bytes(checkpoints.format_offset_checkpoint({("t", 0): start}))
    damage.flip_bit(last(data), SIZE * 19 + 100)
    if not is_clean:
        (data / ".kafka_cleanshutdown").unlink()
    repaired = bl.repair(data, tmp_path / "to")
    assert ranges(repaired) == ([] if start == 40 else [("lost", 39, 40)])
    log = bl.LogDirs(tmp_path / "to").log("t", 0)
    assert offsets(tmp_path / "to") == []
    # What is lost is no record that anybody can ask for again.
    assert (log.log_start_offset, log.log_end_offset) == (start, start)


def test_a_log_start_that_the_log_never_reached_is_not_believed(data, tmp_path):
    (data / "log-start-offset-checkpoint").write_bytes(checkpoints.format_offset_checkpoint({("t", 0): 4000}))
    bl.repair(data, tmp_path / "to")
    assert offsets(tmp_path / "to") == list(range(40))


def test_a_batch_of_a_compacted_log_in_the_wrong_place_is_told_and_comes_from_another_replica(tmp_path):
    kept = [batch(at, [VALUE], keys=[b"%d" % at], timestamp=NOW + at) for at in range(0, 80, 2)]
    write_segment(tmp_path / "other/t-0", 0, kept)
    write_segment(tmp_path / "data/t-0", 0, [*kept[:10], kept[20], kept[11], *kept[10:11], *kept[12:20], *kept[21:]])
    for root in ("data", "other"):
        dirty = checkpoints.format_offset_checkpoint({("t", 0): 80})
        (tmp_path / root / "cleaner-offset-checkpoint").write_bytes(dirty)
    repaired = bl.repair(tmp_path / "data/t-0", tmp_path / "alone")
    alone = bl.repair(tmp_path / "data", tmp_path / "alone-root")
    gone = sorted(set(range(0, 80, 2)) - set(offsets(tmp_path / "alone-root")))
    assert len(gone) == 2
    assert all(any(start <= one < end for _, start, end in ranges(alone)) for one in gone)
    assert all(any(start <= one < end for _, start, end in ranges(repaired)) for one in gone)
    bl.repair(tmp_path / "data", tmp_path / "filled", sources=[tmp_path / "other"])
    assert offsets(tmp_path / "filled") == list(range(0, 80, 2))


@pytest.mark.parametrize("bit", range(6))
def test_a_batch_that_a_flipped_bit_moved_beside_a_gap_comes_from_another_replica(data, tmp_path, bit):
    """No checksum covers offsets. A bit of the last batch's first one is flipped, and the log was not closed."""
    shutil.copytree(data, tmp_path / "other")
    (data / ".kafka_cleanshutdown").unlink()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (data / name).unlink()
    damage.flip_bit(last(data), SIZE * 19 + 7 - bit // 8, bit % 8)
    bl.repair(data, tmp_path / "to", sources=[tmp_path / "other"])
    assert offsets(tmp_path / "to") == list(range(40))


@pytest.mark.parametrize("far", [1, 3])
def test_sound_batches_come_from_a_replica_that_is_damaged_beside_them(data, tmp_path, far):
    """Both neighbours of the loss are damaged there."""
    (tmp_path / "other").mkdir()
    shutil.copytree(data, tmp_path / "other", dirs_exist_ok=True)
    damage.flip_bit(first(data), SIZE * 10 + 100)
    for at in (*range(10 - far, 10), *range(11, 11 + far)):
        damage.flip_bit(first(tmp_path / "other"), SIZE * at + 100)
    for epochs_file in (True, False):
        if not epochs_file:
            (data / "t-0/leader-epoch-checkpoint").unlink()
        repaired = bl.repair(data, tmp_path / f"to-{epochs_file}", sources=[tmp_path / "other"])
        assert ranges(repaired) == [("recovered", 10, 11)]
        assert offsets(tmp_path / f"to-{epochs_file}") == list(range(40))


@pytest.mark.parametrize("verb", ["repair", "recover", "rescue"])
def test_a_segment_that_spans_more_offsets_than_an_index_holds_is_split_and_nothing_is_lost(data, tmp_path, verb):
    """As a broker splits it (KAFKA-6264)."""
    BROKEN["offset-overflow"](data)
    span = 1 << 30
    wanted = [offset for at in range(5) for offset in (at * span, at * span + span - 1)]
    for options in ({}, {"on_corrupt": "skip"}):
        log = bl.Log(data / "t-0")
        reader = log.read(**options)
        assert [offset for rows in reader for offset in rows["offset"].to_pylist()] == wanted
        assert reader.lost == []
    to = data if verb == "recover" else tmp_path / "to"
    if verb == "repair":
        assert bl.repair(data, to).ranges == []
    elif verb == "rescue":
        assert bl.rescue(data, output=to).is_whole
    else:
        list(recovered(str(data)))
    assert offsets(to) == wanted
    segments = bl.Log(to / "t-0").segments
    assert len(segments) > 1
    assert all(one.end_offset(5 * span) - one.base_offset <= 1 << 31 for one in segments)
    assert found(to, level="deep") == []


@pytest.mark.parametrize("lost", [None, "garbage"])
@pytest.mark.parametrize("start", [7, 40])
@pytest.mark.parametrize("tells", ["epochs", "replica"])
def test_deleted_records_stay_deleted_without_the_checkpoint(data, tmp_path, lost, start, tells):
    """A broker lets the leader epochs begin where the log does. Where they do not tell, another replica may."""
    checkpoint = data / "log-start-offset-checkpoint"
    checkpoint.write_bytes(checkpoints.format_offset_checkpoint({("t", 0): start}))
    with_epochs(data, [0] * 40, f"0\n1\n0 {0 if tells == 'replica' else start}\n")
    shutil.copytree(data, tmp_path / "other")
    checkpoint.unlink() if lost is None else checkpoint.write_text(lost)
    others = [tmp_path / "other"] if tells == "replica" else []
    for repaired in (
        bl.repair(data, sources=others, dry_run=True),
        bl.repair(data, tmp_path / "to", sources=others),
    ):
        assert [doubt for doubt in map(str, repaired.doubts) if f"below offset {start} were deleted" in doubt]
    assert bl.Log(tmp_path / "to/t-0").log_start_offset == start
    assert offsets(tmp_path / "to") == list(range(start, 40))
    assert found(tmp_path / "to", level="deep") == []
    assert bl.repair(tmp_path / "to", dry_run=True).doubts == []


def test_a_first_segment_that_is_gone_with_its_indexes_is_missed(data, tmp_path):
    """The leader epochs begin below the first segment, and by the metadata nothing is in remote storage."""
    shutil.copytree(data, tmp_path / "other")
    for path in (data / "t-0").glob("00000000000000000000.*"):
        path.unlink()
    (missing,) = [one for one in bl.check(data) if one.severity == "error"]
    assert (missing.code, missing.start_offset, missing.end_offset) == ("records-missing", 0, 20)
    assert ranges(bl.repair(data, tmp_path / "alone")) == [("lost", 0, 20)]
    assert found(tmp_path / "alone", level="deep") == []
    assert ranges(bl.repair(data, tmp_path / "to", sources=[tmp_path / "other"])) == [("recovered", 0, 20)]
    assert offsets(tmp_path / "to") == list(range(40))
    assert ranges(bl.rescue(data, dry_run=True)) == [("lost", 0, 20)]


@pytest.mark.parametrize("known", ["recovery-point-offset-checkpoint", "replication-offset-checkpoint", "snapshot"])
def test_a_last_batch_behind_an_offset_at_which_the_log_ended_was_moved(data, tmp_path, known):
    """No log ends amid a gap, so that the batch's own offset is wrong, also after a crash."""
    (data / ".kafka_cleanshutdown").unlink()
    for path in (data / "t-0").glob("*.snapshot"):
        path.unlink()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (data / name).unlink(missing_ok=True)
    if known == "snapshot":
        (data / "t-0/00000000000000000040.snapshot").write_bytes(bytes(10))
    else:
        (data / known).write_bytes(checkpoints.format_offset_checkpoint({("t", 0): 40}))
    damage.flip_bit(last(data), SIZE * 19 + 6, 2)
    # A read, a check and a writer say what the repair does.
    is_certain = known == "recovery-point-offset-checkpoint"
    with nullcontext() if is_certain else pytest.warns(UserWarning, match="t-0 ends at 39"):
        reader = bl.Log(data / "t-0").read(columns=["offset"], on_corrupt="skip")
    with reader:
        read = [offset for rows in reader for offset in rows["offset"].to_pylist()]
    assert (read, [one.start_offset for one in reader.lost]) == (list(range(39)), [39])
    assert found(data).count("batch-order") == 1
    with pytest.raises(CorruptRecordError, match="its base offset is wrong"), bl.open_log_dir(data) as log_dir:
        log_dir.log("t", 0)
    repaired = bl.repair(data, tmp_path / "to")
    assert [(one.code, one.state, one.start_offset) for one in repaired.ranges] == [("batch-order", "lost", 39)]
    assert offsets(tmp_path / "to") == list(range(39))
    assert found(tmp_path / "to", level="deep") == []


EPOCHS = [0] * 13 + [2] * 14 + [4] * 13


@pytest.mark.parametrize("has_other", [True, False])
def test_batches_that_agree_outvote_a_digit_of_the_epochs_file(data, tmp_path, has_other):
    """No checksum covers the file: each flipped bit that leaves a digit is mended, and no batch changes."""
    file = "0\n3\n0 0\n2 13\n4 27\n"
    with_epochs(data, EPOCHS, file)
    list(recovered(str(data)))
    shutil.copytree(data, tmp_path / "other")
    names = ("00000000000000000000.log", "leader-epoch-checkpoint")
    before = [(data / "t-0" / name).read_bytes() for name in names]
    flips = [
        file[:at] + flipped + file[at + 1 :]
        for at in range(4, len(file))
        for bit in range(4)
        if file[at].isdigit() and (flipped := chr(ord(file[at]) ^ (1 << bit))).isdigit()
    ]
    assert len(flips) > 15
    in_doubt = []
    for number, flipped in enumerate(flips):
        (data / "t-0/leader-epoch-checkpoint").write_text(flipped)
        repaired = bl.repair(data, tmp_path / str(number), sources=[tmp_path / "other"] if has_other else [])
        assert repaired.ranges == [], flipped
        # Records that were deleted are without an epoch, and a crash brings them back.
        assert (found(data) == []) == bool(re.match("0\n3\n0 [1-9]", flipped)), flipped
        if found(data) == []:
            continue
        if not has_other and repaired.doubts:
            # A lone batch contradicts the file: nothing tells which one is right.
            in_doubt.append(flipped)
            continue
        assert [(tmp_path / str(number) / "t-0" / name).read_bytes() for name in names] == before, flipped
        assert repaired.doubts == []
    assert in_doubt == ([] if has_other else ["0\n3\n0 0\n2 12\n4 27\n", "0\n3\n0 0\n2 13\n4 26\n"])


def test_batches_of_later_epochs_keep_these(data, tmp_path):
    """A replica that fell behind knows no later epoch: the other one's file tells."""
    with_epochs(data, EPOCHS, "0\n3\n0 0\n2 13\n4 27\n")
    shutil.copytree(data, tmp_path / "other")
    damage.cut(first(data), SIZE * 13 - 10)
    (data / "t-0/leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    for path in ("index", "timeindex"):
        (data / f"t-0/00000000000000000000.{path}").unlink()
    repaired = bl.repair(data, tmp_path / "to", sources=[tmp_path / "other"])
    assert not repaired.lost
    assert epochs(tmp_path / "to") == EPOCHS
    assert (tmp_path / "to/t-0/leader-epoch-checkpoint").read_text() == "0\n3\n0 0\n2 13\n4 27\n"
    assert found(tmp_path / "to", level="deep") == []


@pytest.mark.parametrize("own", ["0\n2\n0 0\n1 20\n", "", "x", "0\n0\n", None])
@pytest.mark.parametrize("others", ["0\n1\n0 0\n", "x", None])
def test_the_end_of_an_old_leader_is_not_taken_for_a_batch_of_the_next_one(data, tmp_path, own, others):
    """It was truncated in the cluster (KIP-101), and the batch behind the loss tells that the next leader was there."""
    with_epochs(data, [0] * 20 + [1] * 20, "0\n2\n0 0\n1 20\n")
    other = tmp_path / "other"
    (other / "t-0").mkdir(parents=True)
    old = [batch(at, [b"old%d" % at if at >= 20 else VALUE], leader_epoch=0, timestamp=NOW) for at in range(23)]
    write_segment(other / "t-0", 0, old)
    for root, file in ((data, own), (other, others)):
        path = root / "t-0/leader-epoch-checkpoint"
        path.write_text(file) if file is not None else path.unlink(missing_ok=True)
    damage.flip_bit(first(data), SIZE * 20 + 100)
    repaired = bl.repair(data, tmp_path / "to", sources=[other])
    assert ranges(repaired) == [("lost", 20, 21)]
    assert epochs(tmp_path / "to") == [0] * 20 + [1] * 19
    rescued = bl.rescue(data, other, output=tmp_path / "rescued")
    assert ("lost", 20, 21) in ranges(rescued)
    assert epochs(tmp_path / "rescued") == [0] * 20 + [1] * 19


@pytest.mark.parametrize("first", [0, 1])
def test_in_a_compacted_log_a_gap_before_the_last_batch_is_a_cleaners(tmp_path, first):
    """A follower's active segment has what the leader's cleaner left, so that nothing backs its last batch."""
    roots = [tmp_path / "one", tmp_path / "two"]
    with bl.create_log_dir(roots[0]) as log_dir:
        log_dir.create_topic("t", cleanup_policy="compact")
    shutil.copytree(*roots)
    (roots[1] / "meta.properties").write_text((roots[0] / "meta.properties").read_text().replace("=1\n", "=2\n"))
    kept = [batch(at, [VALUE], keys=[b"%d" % at], timestamp=NOW, leader_epoch=0) for at in (0, 5, 24, 40)]
    for root, batches in zip(roots, (kept, kept[:3]), strict=True):
        write_segment(root / "t-0", 0, batches)
        (root / "t-0/leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        (root / ".kafka_cleanshutdown").unlink()
        for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
            (root / name).write_bytes(checkpoints.format_offset_checkpoint({("t", 0): 25}))
    repaired = bl.repair(roots[0], tmp_path / "to")
    assert repaired.ranges == []
    assert ["begins at offset 40" in doubt for doubt in map(str, repaired.doubts)] == [True]
    rescued = bl.rescue(roots[first], roots[1 - first], output=tmp_path / "new", nodes=[1])
    assert rescued.chosen["t-0"] == str(roots[0] / "t-0")
    for root in ("to", "new"):
        assert offsets(tmp_path / root) == [0, 5, 24, 40]


@pytest.mark.parametrize("is_deleted", [False, True])
@pytest.mark.parametrize("in_place", [False, True])
def test_what_a_damaged_swap_replaces_is_not_thrown_away(data, tmp_path, is_deleted, in_place):
    """A crash amid a cleaning leaves both: the old segments have what the new one lost, or are kept in `.lost`."""
    (data / ".kafka_cleanshutdown").unlink()
    contents = [first(data).read_bytes(), last(data).read_bytes()]
    swap = bytearray(b"".join(contents))
    swap[SIZE * 25 + 100] ^= 1
    (data / "t-0/00000000000000000000.log.swap").write_bytes(swap)
    if is_deleted:
        for path in [*(data / "t-0").glob("*.log"), *(data / "t-0").glob("*index")]:
            path.rename(f"{path}.deleted")
    repaired = bl.repair(data, in_place=True) if in_place else bl.repair(data, tmp_path / "to")
    result = data if in_place else tmp_path / "to"
    if is_deleted:
        assert ranges(repaired) == [("lost", 25, 26)]
        kept = [path.read_bytes() for path in (tmp_path / f"{result.name}.lost/t-0").glob("*.log.deleted")]
        assert sorted(kept) == sorted(contents)
    else:
        assert ranges(repaired) == [("recovered", 25, 26)]
        assert offsets(result) == list(range(40))
    assert found(result, level="deep") == []


@pytest.mark.parametrize("content", [b"", b"garbage"])
def test_deleted_records_do_not_come_back_without_the_checkpoint_of_log_starts(copied, tmp_path, content):
    """Where its leader epochs begin, a log began; a file of no bytes tells as little as one of garbage."""
    data = copied("kafka-4.1", "trimmed-delete-records-0", "trimmed-to-end-0")
    (data / "log-start-offset-checkpoint").write_bytes(content)
    repaired = bl.repair(data, tmp_path / "to")
    assert sum("has no log start offset for it" in doubt for doubt in map(str, repaired.doubts)) == 2
    starts = [log.log_start_offset for log in bl.LogDirs(tmp_path / "to").logs()]
    assert sorted(starts) == [117, 200]


def test_a_repair_of_a_directory_in_use_names_the_process(copied, tmp_path):
    log_dir = copied("kafka-4.1", "headers-0").parent
    script = "import sys; from brokerless.layout.lock import Lock; lock = Lock(sys.argv[1]); print(flush=True); input()"
    command = [sys.executable, "-c", script, str(log_dir / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        with pytest.raises(bl.errors.LogInUseError, match=f"process {holder.pid} "):
            bl.repair(log_dir, tmp_path / "repaired")
        holder.communicate(b"\n")
