"""Spark repairs each directory by a task, as `brokerless.repair` does with the others as its sources."""

import json
import shutil

import pytest

import brokerless as bl
from brokerless.spark import repair
from support import damage
from support.broken_directories import SIZE, first, healthy


@pytest.fixture
def disks(tmp_path):
    """Two disks with the same log, each damaged elsewhere."""
    paths = [healthy(tmp_path / "one"), tmp_path / "two"]
    shutil.copytree(paths[0], paths[1])
    damage.flip_bit(first(paths[0]), SIZE * 5 + 100)
    damage.flip_bit(first(paths[1]), SIZE * 9 + 100)
    return paths


def ranges(found):
    return [[(one.state, one.start_offset) for one in repaired.ranges] for repaired in found]


def test_each_takes_what_it_lost_from_the_other(spark, disks):
    found = repair(spark, *disks)
    assert ranges(found) == [[("recovered", 5)], [("recovered", 9)]]
    for path in disks:
        assert [one for one in bl.check(f"{path}.repaired", level="deep") if one.severity != "note"] == []


def test_a_dry_run_changes_nothing(spark, disks, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    assert ranges(repair(spark, *disks, dry_run=True)) == [[("recovered", 5)], [("recovered", 9)]]
    assert sorted(tmp_path.rglob("*")) == before


def test_the_command(run, disks):
    code, out, _ = run("repair", disks[0], "--in-place", "--json")
    (line,) = out.splitlines()
    assert (code, [one["state"] for one in json.loads(line)["ranges"]]) == (3, ["lost"])
    (said,) = bl.repair(disks[1], dry_run=True).ranges
    steps = "t-0: write 00000000000000000000.log: keep offsets 0 to 8, keep offsets 10 to 19"
    assert run("repair", disks[1], "--dry-run")[:2] == (3, f"{said}\n{steps}\n")
    _, out, _ = run("repair", disks[0], disks[1], "--dry-run")
    assert [line for line in out.splitlines() if line.endswith(":")] == [f"{disks[0]}:", f"{disks[1]}:"]


def test_indexes_alone_are_repaired_without_the_others(spark, disks):
    found = repair(spark, *disks, indexes_only=True, dry_run=True)
    assert any(one.left_alone for one in found)


def test_no_suffix(spark, disks):
    with pytest.raises(ValueError, match="suffix"):
        repair(spark, *disks, suffix="")
