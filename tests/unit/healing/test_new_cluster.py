"""What the old cluster knew is effective in the new one, or a note says what is not, and why."""

import shutil

import pytest

import brokerless as bl
from brokerless import _native
from brokerless.healing.rescue_plan import RescuePlan
from brokerless.layout.release import Release
from brokerless.metadata.bootstrap import feature_records
from brokerless.metadata.records import (
    BROKER_RESOURCE,
    config_record,
    metadata_record,
    partition_record,
    topic_record,
)
from brokerless.metadata.voters import Voter, voters_snapshot
from support.damage import flip_bit
from support.log_files import NOW, batch, write_segment

IN_SYNC = "min.insync.replicas"
SNAPSHOT = "__cluster_metadata-0/00000000000000000001-0000000001.checkpoint"


@pytest.fixture
def old(tmp_path):
    """A disk of a cluster that a release with KIP-966 formatted, with a cluster-wide min.insync.replicas."""
    return formatted(tmp_path / "old", "4.1", ("", IN_SYNC, "1"), ("", "log.retention.ms", "777"))


FEATURE = metadata_record("FeatureLevelRecord", name="metadata.version", featureLevel=27)


def formatted(path, release, *settings):
    """A disk with a topic; `settings`: the broker, or "" for all of them, the name and the value."""
    with bl.create_log_dir(path, release=release) as log_dir:
        topic_id = log_dir.create_topic("orders", retention_ms=-1)
        log_dir.log("orders", 0).append(batch(0, [b"v"], timestamp=NOW))
    records = [
        *feature_records(Release.parse(release)),
        *(config_record(BROKER_RESOURCE, *setting) for setting in settings),
        topic_record("orders", topic_id),
        partition_record(0, topic_id, [1], 0, ["AAAAAAAAAAAAAAAAAAAAAQ"]),
    ]
    (path / "bootstrap.checkpoint").write_bytes(_native.kraft_snapshot(records, 0))
    return path


def settings(path):
    return {(row["resource"], row["name"]): row["value"] for row in bl.cluster(path).configs.to_pylist()}


def files(path):
    return {name for name in ("bootstrap.checkpoint", SNAPSHOT) if (path / name).exists()}


def test_a_setting_that_the_first_controller_would_replace_starts_in_the_metadata_log(old, tmp_path):
    rescued = bl.rescue(old, output=tmp_path / "new")
    assert files(tmp_path / "new") == {SNAPSHOT}
    assert settings(tmp_path / "new") == {("", IN_SYNC): "1", ("", "log.retention.ms"): "777"}
    assert (rescued.left, rescued.is_whole) == ([], True)
    # All verbs read it, and records can be added.
    with bl.open_log_dir(tmp_path / "new", sole_replica=True) as log_dir:
        log_dir.log("orders", 0).append(batch(0, [b"w"], timestamp=NOW))
    assert [finding.code for finding in bl.check(tmp_path / "new")] == []
    once_more = bl.rescue(tmp_path / "new", output=tmp_path / "again")
    assert once_more.metadata == str(tmp_path / "new/__cluster_metadata-0")
    assert once_more.is_whole
    assert settings(tmp_path / "again") == settings(tmp_path / "new")
    assert bl.LogDirs(tmp_path / "again").log("orders", 0).log_end_offset == 2


@pytest.mark.parametrize(
    ("release", "of_new", "setting"),
    [
        ("4.0", None, ("", IN_SYNC, "1")),
        ("4.1", None, ("", "log.retention.ms", "777")),
        ("4.1", None, ("1", IN_SYNC, "1")),
        ("4.1", "4.0", ("", IN_SYNC, "1")),
    ],
)
def test_a_cluster_whose_settings_nobody_replaces_can_still_get_topics(tmp_path, release, of_new, setting):
    old = formatted(tmp_path / "old", release, setting)
    bl.rescue(old, output=tmp_path / "new", release=of_new)
    assert files(tmp_path / "new") == {"bootstrap.checkpoint"}
    with bl.open_log_dir(tmp_path / "new") as log_dir:
        log_dir.create_topic("more")
    assert settings(tmp_path / "new") == {setting[:2]: setting[2]}


def test_the_metadata_log_names_the_controllers_beside_the_settings(old, tmp_path):
    rescued = bl.rescue(old, output=tmp_path / "new", nodes=[1, 2], voters="1@one:9093,2@two:9093")
    for path in rescued.nodes.values():
        assert [row["voter_id"] for row in bl.cluster(path).voters.to_pylist()] == [1, 2]
        assert settings(path)["", IN_SYNC] == "1"


def test_a_log_that_does_not_name_the_controllers_any_more_is_noted(old, tmp_path):
    first = old / "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
    first.parent.mkdir()
    records = (FEATURE, topic_record("orders", bl.Log(old / "orders-0").topic_id))
    first.write_bytes(voters_snapshot([Voter(1, bl.LogDirFiles(str(old)).directory_id, "one", 9093)], 0, records))
    said = "the old metadata log names the controllers"
    assert any(said in note for note in map(str, bl.rescue(old, dry_run=True).notes))
    assert not any(said in note for note in map(str, bl.rescue(old, dry_run=True, voters="1@one:9093").notes))


@pytest.mark.parametrize("dry_run", [True, False])
def test_each_setting_that_fewer_nodes_cannot_have_is_noted(tmp_path, dry_run):
    absent = [("2", "log.cleaner.threads", "2"), ("2", "background.threads", "3")]
    old = formatted(tmp_path / "old", "4.1", ("", IN_SYNC, "2"), ("1", IN_SYNC, "3"), *absent)
    rescued = bl.rescue(old, dry_run=True) if dry_run else bl.rescue(old, output=tmp_path / "new")
    assert [note for note in map(str, rescued.notes) if "keeps its id" not in note] == [
        f"{IN_SYNC} of the cluster is lowered from 2 to 1, the number of nodes",
        f"{IN_SYNC} of broker 1 is lowered from 3 to 1, the number of nodes",
        (
            "settings of broker 2 are left out, because the new cluster does not have this node: log.cleaner.threads, "
            "background.threads"
        ),
    ]
    if not dry_run:
        assert settings(tmp_path / "new") == {("", IN_SYNC): "1", ("1", IN_SYNC): "1"}


def test_metadata_that_are_older_than_the_logs_are_in_doubt(old):
    """A leader writes in an epoch only after the metadata have it."""
    metadata = (old / "bootstrap.checkpoint").read_bytes()
    with bl.open_log_dir(old, sole_replica=True) as log_dir:
        log_dir.log("orders", 0, leader_epoch=3).append(batch(0, [b"w"], timestamp=NOW))
    assert bl.rescue(old, dry_run=True).doubts == []
    (old / "bootstrap.checkpoint").write_bytes(metadata)
    (doubt,) = map(str, bl.rescue(old, dry_run=True).doubts)
    assert "the metadata are older than the logs: they lack the last leader epoch of orders-0" in doubt


@pytest.mark.parametrize("damaged", [True, False])
def test_a_log_still_starts_at_a_first_segment_that_a_cleaner_has_emptied(old, tmp_path, damaged):
    """Without it, the log would start where its first record is."""
    partition = old / "orders-0"
    write_segment(partition, 0, [])
    size = len(batch(1114, [b"v"]))
    log = write_segment(partition, 1114, [batch(1114 + at, [b"v"], timestamp=NOW) for at in range(5)])
    (old / ".kafka_cleanshutdown").unlink()
    if damaged:
        flip_bit(log, size * 2 + 66)
    rescued = bl.rescue(old, output=tmp_path / "new")
    repaired = bl.repair(old, tmp_path / "repaired")
    # Nothing tells that the topic was compacted.
    lost = [(0, 1114), (1116, 1117)] if damaged else [(0, 1114)]
    for report in (rescued, repaired):
        assert [(one.start_offset, one.end_offset) for one in report.lost] == lost
    for path in (tmp_path / "new", tmp_path / "repaired"):
        found = bl.Log(path / "orders-0")
        assert [segment.base_offset for segment in found.segments] == [0, 1114]
        assert (found.log_start_offset, found.missing_offsets) == (0, None)


def test_the_plan_tells_what_becomes_of_a_partition_behind_its_copy(old, tmp_path):
    to = str(tmp_path / "new")
    plan = RescuePlan.of([str(old)], to, rename={"orders": "copy"}, until=NOW, converts=True, cluster_id="laptop")
    steps = [str(step) for directory, step in plan.steps() if "copy" in f"{directory}{step}"]
    topic_id = plan.new_id(plan.topics["orders"])
    assert topic_id != plan.topics["orders"].topic_id
    assert steps[1:] == [
        f"write partition.metadata: with the new name, the topic gets a new id, {topic_id}",
        f"cut copy-0: as it was at {NOW}, each transaction whole or absent",
        "convert copy-0: messages of formats 0 and 1 become those of format 2",
    ]
    assert f"{to}: write {SNAPSHOT}: the new cluster starts with it" in str(plan).splitlines()


def test_the_disks_are_not_touched(old, tmp_path):
    shutil.copytree(old, tmp_path / "before")
    bl.rescue(old, output=tmp_path / "new")
    for path in (tmp_path / "before").rglob("*"):
        if path.is_file():
            assert (old / path.relative_to(tmp_path / "before")).read_bytes() == path.read_bytes()
