"""A repair is a plan of steps: what a dry run prints is what a run does, and nothing is done while it is planned."""

import re
import shutil
from pathlib import Path

import pytest

import brokerless as bl
from brokerless.healing.pieces import Piece
from brokerless.healing.repair_plan import RepairPlan
from brokerless.healing.rescue_plan import RescuePlan
from brokerless.notes import collected
from support import damage
from support.broken_directories import BROKEN, SIZE, first, healthy, last

LOG = "00000000000000000000.log"
LAST = "00000000000000000020.log"
RESTAMPED = " with another leader epoch in 1 batch"
# What the recovery of the result makes of the batches.
MADE = (".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint")


@pytest.fixture
def data(tmp_path):
    return healthy(tmp_path / "data")


def content(root):
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def lines(path, *sources, **options):
    """The steps of a partition that change something."""
    plan = RepairPlan.of(str(path), [str(source) for source in sources], **options)
    return [str(step) for name, step in plan.steps() if name == "t-0" and step.why]


def test_a_sound_directory_needs_no_step(data):
    assert str(RepairPlan.of(str(data))) == ""


def test_damage_is_dropped_and_what_is_sound_is_kept(data):
    damage.flip_bit(first(data), SIZE * 5 + 100)
    kept = f"write {LOG}: keep offsets 0 to 4, keep offsets 6 to 19"
    assert lines(data) == [kept, f"drop {LOG}:{SIZE * 5}: batch-crc"]
    assert str(RepairPlan.of(str(data))).splitlines()[:2] == [f"t-0: {kept}", f"t-0: keep {LAST}"]


def test_another_replica_fills_a_loss(data, tmp_path):
    shutil.copytree(data, tmp_path / "other")
    damage.flip_bit(first(data), SIZE * 5 + 100)
    source = first(tmp_path / "other")
    filled = f"write {LOG}: keep offsets 0 to 4, fill offset 5 from {source}, keep offsets 6 to 19"
    assert lines(data, tmp_path / "other")[0] == filled


def test_a_suspect_batch_is_sealed_again(data):
    damage.flip_bit(first(data), SIZE * 5 + 100)
    kept = f"write {LOG}: keep offsets 0 to 4, reseal offset 5, keep offsets 6 to 19"
    assert lines(data, keep_suspect=True) == [kept]


def test_a_batch_that_begins_amid_another_one_is_trimmed(data):
    BROKEN["offset-overlap"](data)
    assert any(re.search(rf"write {LOG}: .*trim offset", line) for line in lines(data))


def test_a_wrong_leader_epoch_is_told_with_its_batches(data):
    BROKEN["epoch-order"](data)
    assert any(re.search(r"keep offsets .* with another leader epoch in \d+ batch", line) for line in lines(data))


@pytest.mark.parametrize(
    ("verb", "fields", "expected"),
    [
        ("keep", {}, "keep offsets 3 to 8"),
        ("fill", {}, "fill offsets 3 to 8 from /r/0.log"),
        ("mark", {"content": b"x", "next_offset": 4}, "mark offset 3"),
        (
            "keep",
            {"patches": ((12, b"1234"), (212, b"else"))},
            f"keep offsets 3 to 8{RESTAMPED}",
        ),
        ("reseal", {"patches": ((17, b"1234"),)}, "reseal offsets 3 to 8"),
        (
            "reseal",
            {"patches": ((17, b"seal"), (12, b"1"))},
            f"reseal offsets 3 to 8{RESTAMPED}",
        ),
    ],
)
def test_the_words_for_batches(verb, fields, expected):
    piece = Piece("/r/0.log", 0, 100, 3, 9, verb=verb)
    assert str(piece._replace(**fields)) == expected


def test_files_that_are_made_again_name_the_finding(data):
    (data / "t-0/leader-epoch-checkpoint").write_text("x")
    assert lines(data) == ["rebuild leader-epoch-checkpoint: epochs-damaged"]
    (step,) = bl.repair(data, dry_run=True).repaired["t-0"]
    assert str(step) == "rebuild leader-epoch-checkpoint: epochs-damaged"
    assert (step.code, step.path) == ("rebuild", f"{data}/t-0/leader-epoch-checkpoint")


def test_a_checkpoint_of_the_directory_that_cannot_be_read_is_told(data, run):
    (data / "recovery-point-offset-checkpoint").write_text("x")
    said = "write recovery-point-offset-checkpoint: it cannot be read"
    assert str(RepairPlan.of(str(data))) == said
    assert bl.repair(data, dry_run=True).checkpoints == ["recovery-point-offset-checkpoint"]
    told = "its recovery points are lost, and a broker recovers these logs when it starts"
    assert (
        run("repair", data, "--dry-run").out
        == f"write recovery-point-offset-checkpoint again, because it cannot be read: {told}\n"
    )


@pytest.mark.parametrize("lost", ["00000000000000000000.index", "partition.metadata"])
def test_a_file_that_is_missing_is_told(data, lost, run):
    (data / "t-0" / lost).unlink()
    (line,) = run("repair", data, "--dry-run").out.splitlines()
    assert lost in line


def test_what_is_left_as_it_is_says_why(data, run):
    damage.flip_bit(first(data), SIZE * 5 + 100)
    said = run("repair", data, "--dry-run", "--indexes-only").out.splitlines()
    assert said[0] == "t-0 is left unchanged: its batches are damaged"


def test_a_torn_tail_is_told(data, run):
    (data / ".kafka_cleanshutdown").unlink()
    damage.append(last(data), b"\0" * 7 + b"x" * 30)
    said = run("repair", data, "--dry-run").out.splitlines()
    assert f"t-0: drop {LAST}:{SIZE * 20}: tail-torn" in said


def test_replaced_segments_are_told_if_something_is_lost(data):
    """A crash amid a cleaning leaves the old segments beside the new one."""
    (data / ".kafka_cleanshutdown").unlink()
    swap = bytearray(first(data).read_bytes() + last(data).read_bytes())
    swap[SIZE * 25 + 100] ^= 1
    (data / f"t-0/{LOG}.swap").write_bytes(swap)
    for path in [*(data / "t-0").glob("*.log"), *(data / "t-0").glob("*index")]:
        path.rename(f"{path}.deleted")
    assert f"replace {LOG}.deleted: a swap has its batches in another segment" in lines(data)


@pytest.mark.parametrize("code", sorted(BROKEN))
def test_a_run_does_what_its_dry_run_says(data, tmp_path, code):
    BROKEN[code](data)
    before = content(tmp_path)
    would = bl.repair(data, dry_run=True)
    plan = RepairPlan.of(str(data))
    assert str(plan) == str(RepairPlan.of(str(data)))
    assert content(tmp_path) == before
    done = bl.repair(data, tmp_path / "to")
    assert (would.repaired, would.ranges, would.doubts) == (done.repaired, done.ranges, done.doubts)
    for repair in plan.logs:
        steps = {step.name: step for step in repair.steps(plan.topic_ids.get("t")) if step.verb in ("keep", "write")}
        names = {path.name for path in (tmp_path / "to" / repair.log.name).iterdir()} if steps else set()
        made = {name for name in names if name.endswith(MADE) or (code == "offset-overflow" and name.endswith(".log"))}
        assert names - made <= set(steps)
        for name in names - made:
            if steps[name].verb == "keep":
                assert (tmp_path / "to" / repair.log.name / name).read_bytes() == Path(steps[name].to).read_bytes()


def test_a_rescue_is_planned_partition_by_partition(data, tmp_path):
    shutil.copytree(data, tmp_path / "other")
    damage.flip_bit(first(data), SIZE * 5 + 100)
    before = content(tmp_path)
    plan = RescuePlan.of([str(data)], str(tmp_path / "new"), nodes=[1, 2])
    printed = str(plan).splitlines()
    for node in (1, 2):
        to = tmp_path / f"new/node-{node}"
        assert (f"{to}/t-0: write {LOG}: keep offsets 0 to 4, keep offsets 6 to 19" in printed) == (node == 1)
        assert f"{to}: write meta.properties: the new cluster starts with it" in printed
    assert content(tmp_path) == before
    done = bl.rescue(data, output=tmp_path / "new", nodes=[1, 2])
    assert (done.ranges, done.nodes) == (plan.report.ranges, plan.report.nodes)
    written = {str(path.parent) for path in (tmp_path / "new").glob("*/meta.properties")}
    assert written == set(done.nodes.values())


def test_a_partition_that_no_disk_has_is_planned_empty(data):
    shutil.rmtree(data / "t-0")
    plan = RescuePlan.of([str(data)], str(data) + "-new")
    assert f"{data}-new: write t-0: the new partition is empty, because no disk has it" in str(plan).splitlines()


def left(report):
    return sorted((one.code, one.topic, one.partition, one.start_offset, one.message) for one in report.left)


def dry_run_and_run(tmp_path, *disks, **options):
    """A dry run and the run, which end with the same exit code."""
    would = bl.rescue(*disks, dry_run=True, **options)
    done = bl.rescue(*disks, output=tmp_path / "new", **options)
    assert (would.is_clean, would.is_whole) == (done.is_clean, done.is_whole)
    return would, done


@pytest.mark.parametrize("code", sorted(BROKEN))
def test_a_rescue_leaves_what_its_dry_run_says(data, tmp_path, code):
    BROKEN[code](data)
    would, done = dry_run_and_run(tmp_path, data)
    assert {one.code for one in would.left} == {one.code for one in done.left}
    assert (would.notes, would.doubts, would.ranges) == (done.notes, done.doubts, done.ranges)


INCIDENT = Path(__file__).parents[3] / "examples/incident"
MARKERS = [("payments-0", 234), ("payments-0", 702), ("payments-1", 234), ("payments-1", 468), ("payments-1", 1014)]


@pytest.mark.parametrize("harm", ["flip", "cut"])
@pytest.mark.parametrize(("partition", "position"), MARKERS)
def test_a_dry_run_knows_the_transactions_that_a_lost_marker_leaves_open(tmp_path, partition, position, harm):
    shutil.copytree(INCIDENT, tmp_path / "d")
    log = tmp_path / "d" / partition / LOG
    if harm == "flip":
        damage.flip_bit(log, position + 70)
    else:
        damage.cut(log, position)
    would, done = dry_run_and_run(tmp_path, tmp_path / "d")
    assert left(would) == left(done) != []


@pytest.mark.parametrize("cluster_id", ["4L6g3nShT-eMCtK--X86sw", "4L6g3nShT-eMCtK--X86su"])
def test_a_dry_run_of_two_copies_of_a_disk_finds_the_hanging_transaction(tmp_path, cluster_id):
    for name in ("one", "two"):
        shutil.copytree(INCIDENT, tmp_path / name)
    file = tmp_path / "two/meta.properties"
    file.write_text(re.sub("cluster.id=.*", f"cluster.id={cluster_id}", file.read_text()))
    would, done = dry_run_and_run(tmp_path, tmp_path / "one", tmp_path / "two")
    assert left(would) == left(done) != []


def test_a_dry_run_asks_coordinators_for_topics_by_their_new_names(tmp_path):
    rename = {"orders": "copy"}
    would, done = dry_run_and_run(tmp_path, INCIDENT, rename=rename, cluster_id="laptop")
    assert left(would) == left(done) != []


def test_a_report_prints_as_what_was_done(copied, tmp_path):
    """It printed each field of each range."""
    data = copied("kafka-4.1", "headers-0")
    with collected():
        (cut,) = bl.rewrite(bl.Truncation(offset=0), data, dry_run=True)
    assert str(cut).startswith("headers-0: would end at 0, not at ")
    log = data / "00000000000000000000.log"
    content = bytearray(log.read_bytes())
    content[100] ^= 1
    log.write_bytes(content)
    planned, done = bl.repair(data, dry_run=True), bl.repair(data, tmp_path / "to")
    assert str(planned).splitlines()[-1].startswith("1 of 1 partition would be repaired; damaged ranges: 1 lost")
    assert str(done).splitlines()[0] == str(done.lost[0])
    assert str(done).splitlines()[-1].startswith("1 of 1 partition repaired; damaged ranges: 1 lost; the result is ")
    assert bl.repair(tmp_path / "to", dry_run=True).summary.startswith("nothing to repair in 1 partition")
    rescued = str(bl.rescue(data.parent, dry_run=True)).splitlines()
    assert 1 <= len(rescued) <= 6
    assert rescued[-1].startswith("there will be ")
