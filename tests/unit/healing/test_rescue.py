"""A rescue takes the best replica of each partition, says what is missing, and leaves its sources untouched."""

import json
import shutil

import pytest

import brokerless as bl
import damage
from brokerless.errors import LogInUseError
from brokerless.layout import checkpoints
from building import NOW, batch

VALUE = b"v" * 100
SIZE = len(batch(0, [VALUE]))


def content(root):
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def offsets(directory, topic="orders", partition=0):
    log = bl.LogDirs(directory).log(topic, partition)
    return [offset for rows in log.read() for offset in rows["offset"].to_pylist()]


def disk(path, node, cluster_id="theOldClusterAAAAAAAAA"):
    """A log directory of a cluster, with two topics."""
    with bl.create_log_dir(path, node_id=node, cluster_id=cluster_id) as log_dir:
        log_dir.create_topic("orders", partitions=2, retention_ms=-1)
        log_dir.create_topic("payments")
        for at in range(10):
            log_dir.log("orders", 0).append(batch(0, [VALUE], timestamp=NOW + at))
            log_dir.log("payments", 0).append(batch(0, [VALUE], timestamp=NOW + at, producer_id=41, base_sequence=at))
    return path


def appended(path, **options):
    """Append a record to the first partition of a disk of any node."""
    meta = (path / "meta.properties").read_text()
    (path / "meta.properties").write_text(meta.replace("node.id=2", "node.id=1"))
    with bl.open_log_dir(path, sole_replica=True) as log_dir:
        log_dir.log("orders", 0, **options).append(batch(0, [VALUE], timestamp=NOW))
    (path / "meta.properties").write_text(meta)


@pytest.fixture
def disks(tmp_path):
    """The disks of two nodes with the same logs."""
    first = disk(tmp_path / "one", 1)
    shutil.copytree(first, tmp_path / "two")
    meta = (first / "meta.properties").read_text().replace("node.id=1", "node.id=2")
    (tmp_path / "two/meta.properties").write_text(meta)
    return first, tmp_path / "two"


def ids(directory):
    return dict(zip(*(bl.cluster(directory).topics[name].to_pylist() for name in ("topic", "topic_id")), strict=True))


def test_topics_keep_their_ids_settings_and_records(disks, tmp_path):
    before = [content(one) for one in disks]
    rescued = bl.rescue(*disks, to=tmp_path / "new")
    assert [content(one) for one in disks] == before
    assert ids(tmp_path / "new") == ids(disks[0])
    assert offsets(tmp_path / "new") == list(range(10))
    assert (rescued.nodes, rescued.cluster_id) == ({1: str(tmp_path / "new")}, "theOldClusterAAAAAAAAA")
    assert (rescued.lost, rescued.missing, rescued.left) == ([], [], [])
    settings = bl.cluster(tmp_path / "new").configs.to_pylist()
    assert [(row["resource"], row["name"], row["value"]) for row in settings] == [("orders", "retention.ms", "-1")]
    assert bl.LogDirFiles(str(tmp_path / "new")).is_clean
    report = json.loads((tmp_path / "new.lost/report.json").read_text())
    assert report["topics"] == {"orders": 2, "payments": 1}


def test_records_can_be_added_to_the_result(disks, tmp_path):
    bl.rescue(*disks, to=tmp_path / "new")
    with bl.open_log_dir(tmp_path / "new", sole_replica=True) as log_dir:
        log_dir.log("orders", 0).append(batch(0, [VALUE], timestamp=NOW))
    assert offsets(tmp_path / "new") == list(range(11))


def test_no_producer_gets_an_id_that_a_log_has(disks, tmp_path):
    bl.rescue(*disks, to=tmp_path / "new")
    with bl.open_log_dir(tmp_path / "new", sole_replica=True) as log_dir:
        assert log_dir._root.bootstrap.next_producer_id > 41


def test_the_best_replica_is_taken_and_mended_from_the_others(disks, tmp_path):
    appended(disks[1])
    damage.flip_bit(disks[1] / "orders-0/00000000000000000000.log", SIZE * 4 + 80)
    rescued = bl.rescue(*disks, to=tmp_path / "new")
    assert rescued.chosen["orders-0"] == str(disks[1] / "orders-0")
    assert [(one.state, one.start_offset) for one in rescued.ranges] == [("recovered", 4)]
    assert offsets(tmp_path / "new") == list(range(11))


def test_a_later_epoch_counts_more_than_a_later_end(disks, tmp_path):
    for _ in range(5):
        appended(disks[0])
    appended(disks[1], leader_epoch=7)
    bl.rescue(*disks, to=tmp_path / "new")
    assert offsets(tmp_path / "new") == list(range(11))
    rows = bl.cluster(tmp_path / "new").partitions.to_pylist()
    assert [row["leader_epoch"] for row in rows if (row["topic"], row["partition"]) == ("orders", 0)] == [8]


def test_what_no_disk_has_is_said_and_starts_empty(disks, tmp_path):
    for one in disks:
        shutil.rmtree(one / "payments-0")
    rescued = bl.rescue(*disks, to=tmp_path / "new")
    assert [(one.topic, one.partition, one.is_gone) for one in rescued.missing] == [("payments", 0, True)]
    assert rescued.topics["payments"] == 1


def test_without_metadata_directories_tell_the_topics(disks, tmp_path):
    known = ids(disks[0])
    for one in disks:
        (one / "bootstrap.checkpoint").unlink()
    rescued = bl.rescue(*disks, to=tmp_path / "new")
    assert rescued.metadata is None
    assert any("no disk has the cluster's metadata" in note for note in rescued.notes)
    assert ids(tmp_path / "new") == known
    assert offsets(tmp_path / "new") == list(range(10))
    # A broker would delete records of more than seven days.
    assert settings(tmp_path / "new") == {("orders", "retention.ms"): "-1", ("payments", "retention.ms"): "-1"}


def settings(directory):
    return {(row["resource"], row["name"]): row["value"] for row in bl.cluster(directory).configs.to_pylist()}


def test_no_topic_wants_more_replicas_in_sync_than_it_has(tmp_path):
    with bl.create_log_dir(tmp_path / "one") as log_dir:
        log_dir.create_topic("orders", retention_ms=-1)
        log_dir._root.bootstrap.topics["orders"].configs["min.insync.replicas"] = "2"
        log_dir._root.write_bootstrap()
    rescued = bl.rescue(tmp_path / "one", to=tmp_path / "new")
    assert settings(tmp_path / "new")["orders", "min.insync.replicas"] == "1"
    assert any("min.insync.replicas of topic orders is 1, not 2" in note for note in rescued.notes)


def test_several_nodes_get_a_directory_each(disks, tmp_path):
    rescued = bl.rescue(*disks, to=tmp_path / "new", nodes=[1, 2, 3])
    rows = bl.cluster(rescued.nodes[2]).partitions.to_pylist()
    # Replicas stay on their node, and are as many as before.
    assert {tuple(row["replicas"]) for row in rows} == {(1,)}
    assert (tmp_path / "new/node-1/orders-0").exists()
    assert not (tmp_path / "new/node-2/orders-0").exists()
    assert [bl.LogDirFiles(path).node_id for path in rescued.nodes.values()] == [1, 2, 3]


def test_a_fork_of_one_topic_under_another_name(disks, tmp_path):
    rescued = bl.rescue(
        disks[0], to=tmp_path / "new", topics=["orders"], rename={"orders": "copy"}, cluster_id="laptop", until=NOW + 6
    )
    assert rescued.topics == {"copy": 2}
    assert offsets(tmp_path / "new", "copy") == list(range(6))
    assert ids(tmp_path / "new")["copy"] not in ids(disks[0]).values()
    assert bl.LogDirFiles(str(tmp_path / "new")).cluster_id == "laptop"


def test_damaged_ids_do_not_keep_a_disk_out(disks, tmp_path):
    (disks[1] / "meta.properties").write_text("version=1\nnode.id=x\n")
    shutil.rmtree(disks[0] / "payments-0")
    rescued = bl.rescue(*disks, to=tmp_path / "new")
    assert rescued.chosen["payments-0"] == str(disks[1] / "payments-0")


def test_an_older_topic_of_the_same_name_is_not_used(disks, tmp_path):
    metadata = disks[1] / "orders-0/partition.metadata"
    metadata.write_bytes(checkpoints.format_partition_metadata("AAECAwQFBgcICQoLDA0ODw"))
    shutil.rmtree(disks[0] / "orders-0")
    rescued = bl.rescue(*disks, to=tmp_path / "new")
    assert [(one.topic, one.partition) for one in rescued.missing if one.is_gone] == [("orders", 0)]
    assert any("an older topic of the name 'orders'" in note for note in rescued.notes)


def test_a_topic_with_several_ids_is_refused_without_metadata(disks, tmp_path):
    (disks[1] / "orders-0/partition.metadata").write_bytes(
        checkpoints.format_partition_metadata("AAECAwQFBgcICQoLDA0ODw")
    )
    for one in disks:
        (one / "bootstrap.checkpoint").unlink()
    with pytest.raises(ValueError, match="created several times"):
        bl.rescue(*disks, to=tmp_path / "new")


def test_damaged_metadata_are_passed_over(disks, tmp_path):
    damage.cut(disks[0] / "bootstrap.checkpoint", 100)
    rescued = bl.rescue(*disks, to=tmp_path / "new")
    assert rescued.metadata == str(disks[1] / "bootstrap.checkpoint")
    assert any(f"the metadata in {disks[0]} cannot be read" in note for note in rescued.notes)


def test_a_name_with_a_huge_number_does_not_make_as_many_partitions(disks):
    (disks[0] / "orders-2000000000").mkdir()
    with pytest.raises(ValueError, match="has a partition 2000000000"):
        bl.rescue(*disks, dry_run=True)


def test_disks_of_different_clusters_are_refused(disks, tmp_path):
    other = disk(tmp_path / "other", 3, "anotherClusterAAAAAAAA")
    with pytest.raises(ValueError, match="different clusters"):
        bl.rescue(*disks, other, to=tmp_path / "new")


def test_a_disk_in_use_is_refused(disks, tmp_path):
    with bl.open_log_dir(disks[0], sole_replica=True), pytest.raises(LogInUseError):
        bl.rescue(*disks, to=tmp_path / "new")


def test_a_dry_run_changes_nothing(disks, tmp_path):
    before = content(tmp_path)
    found = bl.rescue(*disks, dry_run=True)
    assert content(tmp_path) == before
    assert found.topics == {"orders": 2, "payments": 1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give a directory"),
        ({"to": "x", "dry_run": True}, "give a directory"),
        ({"dry_run": True, "nodes": [1, 1]}, "not nodes"),
        ({"dry_run": True, "voters": "2@host:9093"}, "not among the nodes"),
        ({"dry_run": True, "voters": "1:9093"}, "not voters"),
        ({"dry_run": True, "topics": ["nothing"]}, "unknown topic"),
        ({"dry_run": True, "rename": {"nothing": "x"}}, "unknown topic"),
        ({"dry_run": True, "rename": {"orders": "payments"}}, "payments"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(disks, options, message):
    with pytest.raises(ValueError, match=message):
        bl.rescue(*disks, **options)
