"""A rescue takes the best replica of each partition, says what is missing, and leaves its sources untouched."""

import json
import os
import shutil
import struct
from functools import partial

import pyarrow as pa
import pytest

import brokerless as bl
from brokerless import _native
from brokerless.checking.check import check
from brokerless.errors import CorruptRecordError, LogInUseError, UnsupportedFormatError
from brokerless.healing.log_repair import salvage
from brokerless.layout import checkpoints, file_names
from brokerless.layout.commit_journal import NAME as JOURNAL
from brokerless.layout.release import Release
from brokerless.metadata.bootstrap import feature_records
from brokerless.metadata.records import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    config_record,
    decoded_records,
    partition_record,
    topic_record,
)
from brokerless.state.internal_topic import java_hash
from support import damage
from support.log_files import NOW, batch, marker, write_segment
from support.reference_decoder import crc32c
from support.state_records import commit_key, commit_value, transaction_key, transaction_value

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


OTHER_ID = "AAECAwQFBgcICQoLDA0ODw"
DIRECTORY_ID = "BAECAwQFBgcICQoLDA0ODw"
UNIQUE = "0123456789abcdef0123456789abcdef"


def metadata_of(path, *records):
    """Replace what a new cluster starts with."""
    features = feature_records(Release(4, 0))
    (path / "bootstrap.checkpoint").write_bytes(_native.kraft_snapshot([*features, *records], 0))


def with_records(path, *records):
    """Add records to what a new cluster starts with."""
    known = bl.LogDirFiles(str(path))
    assert known.cluster_id
    file = path / "bootstrap.checkpoint"
    rows = _native.Decoder(["value"])
    content, position, values = file.read_bytes(), 0, []
    while position < len(content):
        found, consumed = rows.decode(memoryview(content)[position:], position)
        values += [] if found is None else found["value"].to_pylist()
        position += consumed
    file.write_bytes(_native.kraft_snapshot([*values, *records], 0))


def moving_record(partition, topic_id, replicas, isr, *, removing, adding):
    """The record of a partition that is moved to other nodes."""
    moves = {"removingReplicas": removing, "addingReplicas": adding, "isr": isr, "leader": isr[0]}
    return partition_record(partition, topic_id, replicas, 3, [DIRECTORY_ID] * len(replicas), **moves)


def without_metadata(*paths):
    for path in paths:
        (path / "bootstrap.checkpoint").unlink()


def partition_of(path, name, topic_id, *batches):
    """Write a partition's directory."""
    write_segment(path / name, 0, batches)
    (path / name / "partition.metadata").write_bytes(checkpoints.format_partition_metadata(topic_id))


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
    rescued = bl.rescue(*disks, output=tmp_path / "new")
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
    bl.rescue(*disks, output=tmp_path / "new")
    with bl.open_log_dir(tmp_path / "new", sole_replica=True) as log_dir:
        log_dir.log("orders", 0).append(batch(0, [VALUE], timestamp=NOW))
    assert offsets(tmp_path / "new") == list(range(11))


def test_no_producer_gets_an_id_that_a_log_has(disks, tmp_path):
    bl.rescue(*disks, output=tmp_path / "new")
    with bl.open_log_dir(tmp_path / "new", sole_replica=True) as log_dir:
        assert log_dir._root.bootstrap.next_producer_id > 41


def test_the_best_replica_is_taken_and_mended_from_the_others(disks, tmp_path):
    appended(disks[1])
    damage.flip_bit(disks[1] / "orders-0/00000000000000000000.log", SIZE * 4 + 80)
    rescued = bl.rescue(*disks, output=tmp_path / "new")
    assert rescued.chosen["orders-0"] == str(disks[1] / "orders-0")
    assert [(one.state, one.start_offset) for one in rescued.ranges] == [("recovered", 4)]
    assert offsets(tmp_path / "new") == list(range(11))


def test_a_later_epoch_counts_more_than_a_later_end(disks, tmp_path):
    for _ in range(5):
        appended(disks[0])
    appended(disks[1], leader_epoch=7)
    bl.rescue(*disks, output=tmp_path / "new")
    assert offsets(tmp_path / "new") == list(range(11))
    rows = bl.cluster(tmp_path / "new").partitions.to_pylist()
    assert [row["leader_epoch"] for row in rows if (row["topic"], row["partition"]) == ("orders", 0)] == [8]


def test_what_no_disk_has_is_said_and_starts_empty(disks, tmp_path):
    for one in disks:
        shutil.rmtree(one / "payments-0")
    rescued = bl.rescue(*disks, output=tmp_path / "new")
    assert [(one.topic, one.partition, one.is_gone) for one in rescued.missing] == [("payments", 0, True)]
    assert rescued.topics["payments"] == 1


def test_without_metadata_directories_tell_the_topics(disks, tmp_path):
    known = ids(disks[0])
    for one in disks:
        (one / "bootstrap.checkpoint").unlink()
    rescued = bl.rescue(*disks, output=tmp_path / "new")
    assert rescued.metadata is None
    assert any("no disk has the cluster's metadata" in doubt for doubt in map(str, rescued.doubts))
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
    rescued = bl.rescue(tmp_path / "one", output=tmp_path / "new")
    assert settings(tmp_path / "new")["orders", "min.insync.replicas"] == "1"
    assert any("min.insync.replicas of topic orders is lowered from 2 to 1" in note for note in map(str, rescued.notes))


def test_several_nodes_get_a_directory_each(disks, tmp_path):
    rescued = bl.rescue(*disks, output=tmp_path / "new", nodes=[1, 2, 3])
    rows = bl.cluster(rescued.nodes[2]).partitions.to_pylist()
    # Replicas stay on their node, and are as many as before.
    assert {tuple(row["replicas"]) for row in rows} == {(1,)}
    assert (tmp_path / "new/node-1/orders-0").exists()
    assert not (tmp_path / "new/node-2/orders-0").exists()
    assert [bl.LogDirFiles(path).node_id for path in rescued.nodes.values()] == [1, 2, 3]


def test_a_topic_forked_under_another_name_gets_a_new_id_and_keeps_its_records(disks, tmp_path):
    rescued = bl.rescue(
        disks[0],
        output=tmp_path / "new",
        topics=["orders"],
        rename={"orders": "copy"},
        cluster_id="laptop",
        as_of=NOW + 6,
    )
    assert rescued.topics == {"copy": 2}
    assert offsets(tmp_path / "new", "copy") == list(range(6))
    assert ids(tmp_path / "new")["copy"] not in ids(disks[0]).values()
    assert bl.LogDirFiles(str(tmp_path / "new")).cluster_id == "laptop"


def test_damaged_ids_do_not_keep_a_disk_out(disks, tmp_path):
    (disks[1] / "meta.properties").write_text("version=1\nnode.id=x\n")
    shutil.rmtree(disks[0] / "payments-0")
    rescued = bl.rescue(*disks, output=tmp_path / "new")
    assert rescued.chosen["payments-0"] == str(disks[1] / "payments-0")


def test_an_older_topic_of_the_same_name_is_not_used(disks, tmp_path):
    metadata = disks[1] / "orders-0/partition.metadata"
    metadata.write_bytes(checkpoints.format_partition_metadata("AAECAwQFBgcICQoLDA0ODw"))
    shutil.rmtree(disks[0] / "orders-0")
    rescued = bl.rescue(*disks, output=tmp_path / "new")
    assert [(one.topic, one.partition) for one in rescued.missing if one.is_gone] == [("orders", 0)]
    assert any("an older topic with the name 'orders'" in note for note in map(str, rescued.notes))


def test_a_topic_with_several_ids_is_refused_without_metadata(disks, tmp_path):
    (disks[1] / "orders-0/partition.metadata").write_bytes(
        checkpoints.format_partition_metadata("AAECAwQFBgcICQoLDA0ODw")
    )
    for one in disks:
        (one / "bootstrap.checkpoint").unlink()
    with pytest.raises(ValueError, match="created several times"):
        bl.rescue(*disks, output=tmp_path / "new")


def test_damaged_metadata_are_passed_over(disks, tmp_path):
    damage.cut(disks[0] / "bootstrap.checkpoint", 100)
    rescued = bl.rescue(*disks, output=tmp_path / "new")
    assert rescued.metadata == str(disks[1] / "bootstrap.checkpoint")
    assert any(f"the metadata in {disks[0]} cannot be read" in note for note in map(str, rescued.notes))


def test_a_name_with_a_huge_number_does_not_make_as_many_partitions(disks):
    (disks[0] / "orders-2000000000").mkdir()
    found = bl.rescue(*disks, dry_run=True)
    assert found.topics["orders"] == 2
    assert any(
        "orders-2000000000" in note and "the metadata have only 2 partitions" in note for note in map(str, found.notes)
    )
    without_metadata(*disks)
    with pytest.raises(ValueError, match="has a partition 2000000000"):
        bl.rescue(*disks, dry_run=True)


def with_cluster_id(path, cluster_id):
    meta = (path / "meta.properties").read_text()
    before = bl.LogDirFiles(str(path)).cluster_id
    (path / "meta.properties").write_text(meta.replace(f"cluster.id={before}", f"cluster.id={cluster_id}"))


OLD, FLIPPED = "theOldClusterAAAAAAAAA", "theOldClusterAAAAAAAAC"


@pytest.mark.parametrize(
    ("found", "taken", "note"),
    [
        (("", OLD, OLD), OLD, "is not used, because it is empty"),
        ((FLIPPED, OLD, OLD), OLD, f"is {FLIPPED}. This is treated as a damaged form of {OLD}, the id on 2 of 3 disks"),
        ((OLD, FLIPPED), OLD, f"is {FLIPPED}. This is treated as a damaged form of {OLD}, the id on 1 of 2 disks"),
        (("", ""), None, "no disk names the cluster's id: the cluster gets a new one"),
    ],
)
def test_a_damaged_cluster_id_does_not_stop_a_rescue(disks, tmp_path, found, taken, note):
    shutil.copytree(disks[0], tmp_path / "three")
    every = [*disks, tmp_path / "three"][: len(found)]
    for path, cluster_id in zip(every, found, strict=True):
        with_cluster_id(path, cluster_id)
    every[-1].rename(tmp_path / "last")
    (tmp_path / "last/meta.properties").write_text(
        (tmp_path / "last/meta.properties").read_text().replace("node.id=1", "node.id=3")
    )
    rescued = bl.rescue(*every[:-1], tmp_path / "last", output=tmp_path / "new")
    assert taken in (None, rescued.cluster_id)
    assert rescued.cluster_id
    assert any(note in one for one in map(str, rescued.notes))
    assert offsets(tmp_path / "new") == list(range(10))


def test_the_given_cluster_id_settles_which_one_is_right(disks, tmp_path):
    with_cluster_id(disks[0], "garbage")
    with pytest.raises(ValueError, match=r"with a damaged id, give the right id \(cluster_id\)"):
        bl.rescue(*disks, dry_run=True)
    rescued = bl.rescue(*disks, output=tmp_path / "new", cluster_id=OLD)
    assert f"the cluster.id of {disks[0]} is garbage. This is treated as a damaged form of {OLD}, the given id" in map(
        str, rescued.notes
    )
    assert any(f"the cluster keeps its id, {OLD}" in note for note in map(str, rescued.notes))


def test_disks_of_different_clusters_are_refused(disks, tmp_path):
    other = disk(tmp_path / "other", 3, "anotherClusterAAAAAAAA")
    with pytest.raises(ValueError, match="different clusters"):
        bl.rescue(*disks, other, output=tmp_path / "new")


def test_a_disk_in_use_is_refused(disks, tmp_path):
    with bl.open_log_dir(disks[0], sole_replica=True), pytest.raises(LogInUseError):
        bl.rescue(*disks, output=tmp_path / "new")


def test_a_dry_run_changes_nothing(disks, tmp_path):
    before = content(tmp_path)
    found = bl.rescue(*disks, dry_run=True)
    assert content(tmp_path) == before
    assert found.topics == {"orders": 2, "payments": 1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give a directory"),
        ({"output": "x", "dry_run": True}, "give a directory"),
        ({"dry_run": True, "nodes": [1, 1]}, "the ids of nodes must be"),
        ({"dry_run": True, "voters": "2@host:9093"}, "not among the nodes"),
        ({"dry_run": True, "voters": "1:9093"}, "not voters"),
        ({"dry_run": True, "voters": "1@a:90930"}, "not a voter: '1@a:90930'; ids up to"),
        ({"dry_run": True, "voters": "1@a:9093,1@b:9093"}, "names node 1 twice"),
        ({"dry_run": True, "topics": ["nothing"]}, "unknown topic"),
        ({"dry_run": True, "rename": {"nothing": "x"}}, "unknown topic"),
        ({"dry_run": True, "rename": {"orders": "payments"}}, "payments"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(disks, options, message):
    with pytest.raises(ValueError, match=message):
        bl.rescue(*disks, **options)


def test_a_log_that_cannot_be_checked_gives_way_to_another_one_and_is_said(disks, tmp_path):
    """A batch with a codec of a later release: what is in it is not known."""
    appended(disks[1])
    path = disks[1] / "orders-0/00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[SIZE * 10 + 22] = 7
    struct.pack_into(">I", content, SIZE * 10 + 17, crc32c(content[SIZE * 10 + 21 :]))
    path.write_bytes(content)
    rescued = bl.rescue(*disks, output=tmp_path / "new")
    assert rescued.chosen["orders-0"] == str(disks[0] / "orders-0")
    assert any(str(disks[1] / "orders-0") in doubt and "cannot be used" in doubt for doubt in map(str, rescued.doubts))
    assert offsets(tmp_path / "new") == list(range(10))
    shutil.rmtree(disks[0] / "orders-0")
    rescued = bl.rescue(*disks, output=tmp_path / "alone")
    assert any("orders-0 is copied as it is" in doubt for doubt in map(str, rescued.doubts))
    assert (tmp_path / "alone/orders-0/00000000000000000000.log").read_bytes() == bytes(content)
    assert not rescued.is_whole


def test_directories_of_an_older_topic_do_not_count_as_partitions(disks, tmp_path):
    partition_of(disks[0], "orders-7", OTHER_ID, batch(0, [VALUE]))
    rescued = bl.rescue(*disks, output=tmp_path / "new")
    assert rescued.topics["orders"] == 2
    assert rescued.missing == []
    assert not (tmp_path / "new/orders-7").exists()


def test_a_directory_with_the_topics_id_was_made_after_the_metadata(disks, tmp_path):
    partition_of(disks[0], "orders-3", ids(disks[0])["orders"], batch(0, [VALUE]))
    rescued = bl.rescue(*disks, output=tmp_path / "new")
    assert rescued.topics["orders"] == 4
    assert offsets(tmp_path / "new", "orders", 3) == [0]
    assert [one.partition for one in rescued.missing] == [2]
    assert any("partitions were added after the metadata were written" in note for note in map(str, rescued.notes))


def test_a_topic_without_partitions_is_left_out(disks, tmp_path):
    for one in disks:
        with_records(one, topic_record("none", OTHER_ID))
    rescued = bl.rescue(*disks, output=tmp_path / "new")
    assert rescued.topics == {"orders": 2, "payments": 1}
    assert any("topic none is left out" in note for note in map(str, rescued.notes))


def test_a_topic_whose_name_leads_elsewhere_is_left_out(disks, tmp_path):
    for one in disks:
        with_records(one, topic_record("../x", OTHER_ID), partition_record(0, OTHER_ID, [1], 0, [DIRECTORY_ID]))
    rescued = bl.rescue(*disks, output=tmp_path / "deep")
    assert rescued.topics == {"orders": 2, "payments": 1}
    assert not (tmp_path / "x-0").exists()


GROUPS_OF_TWO = [name for name in map("group-{}".format, range(40)) if java_hash(name) % 2 == 1]


@pytest.mark.parametrize(
    ("groups", "partition", "count"),
    [
        # Nothing tells: as by default.
        ([], 0, 50),
        # Names that the default number would put elsewhere
        (GROUPS_OF_TWO, 1, 2),
        # More groups, and a number that fits all of them, although higher partitions are lost
        ([name for name in map("group-{}".format, range(999)) if java_hash(name) % 50 == 3], 3, 50),
        ([name for name in map("group-{}".format, range(9999)) if java_hash(name) % 64 == 3], 3, 64),
    ],
)
def test_without_metadata_groups_tell_how_many_partitions_they_are_in(disks, tmp_path, groups, partition, count):
    """Otherwise their coordinator would look for their offsets in another partition."""
    keys = [commit_key(name, "orders", 0) for name in groups]
    values = [commit_value(5) for _ in groups]
    batches = [batch(0, values, keys=keys)] if groups else []
    for one in disks:
        partition_of(one, f"__consumer_offsets-{partition}", OTHER_ID, *batches)
    without_metadata(*disks)
    rescued = bl.rescue(*disks, output=tmp_path / "new")
    assert rescued.topics["__consumer_offsets"] == count
    assert any(
        f"how many partitions __consumer_offsets has. It gets {count}" in note for note in map(str, rescued.notes)
    )
    assert any("A topic may have had more" in note for note in map(str, rescued.notes))


def next_producer_id(path):
    with bl.open_log_dir(path, sole_replica=True) as log_dir:
        return log_dir._root.bootstrap.next_producer_id


def snapshot_with(path, producer_id):
    """Write a producer snapshot at the end of a log."""
    producers = struct.pack(">i", 1) + struct.pack(">qhiqiqiq", producer_id, 0, 1, 3, 0, NOW, -1, -1)
    path.write_bytes(struct.pack(">hI", 1, crc32c(producers)) + producers)


def test_no_producer_gets_an_id_that_a_snapshot_has(disks, tmp_path):
    """Of a producer whose batches retention has deleted."""
    snapshot_with(disks[0] / "orders-0/00000000000000000010.snapshot", 7123)
    bl.rescue(*disks, output=tmp_path / "new")
    assert next_producer_id(tmp_path / "new") > 7123


def test_no_producer_gets_the_id_of_an_idle_transactional_id(disks, tmp_path):
    state = batch(0, [transaction_value(8123, 0)], keys=[transaction_key("idle")])
    for one in disks:
        partition_of(one, "__transaction_state-0", OTHER_ID, state)
    bl.rescue(*disks, output=tmp_path / "new")
    assert next_producer_id(tmp_path / "new") > 8123


def test_a_record_too_large_to_look_for_producer_ids_is_named(disks, tmp_path, monkeypatch):
    """Its ids were passed over without a word, and a new producer could get one of them."""
    monkeypatch.setattr("brokerless.healing.producer_ids.decoded_records", partial(decoded_records, memory=2_000))
    state = batch(0, [transaction_value(8123, 1, [("t", 0)] * 100)], keys=[transaction_key("large")])
    for one in disks:
        partition_of(one, "__transaction_state-0", OTHER_ID, state)
    found = bl.rescue(*disks, output=tmp_path / "new")
    assert any(
        "__transaction_state-0: the record at offset 0 is not decoded, because it takes too much memory" in note
        for note in map(str, found.doubts)
    )


def test_a_metadata_record_that_takes_too_much_memory_is_not_called_newer(disks, tmp_path, monkeypatch):
    """Nobody would find a newer brokerless that reads it."""
    monkeypatch.setattr("brokerless.metadata.records.decoded_records", partial(decoded_records, memory=2_000))
    large = partition_record(0, OTHER_ID, [1] * 100, 0, [DIRECTORY_ID] * 100)
    for one in disks:
        with_records(one, topic_record("t", OTHER_ID), large)
    with pytest.raises(UnsupportedFormatError, match="takes too much memory: decoded, about") as raised:
        bl.rescue(*disks, output=tmp_path / "new")
    assert "newer" not in str(raised.value)


def test_without_metadata_a_block_of_producer_ids_is_left_out(disks, tmp_path):
    """A broker may have had the next block."""
    without_metadata(*disks)
    bl.rescue(*disks, output=tmp_path / "new")
    # The highest is 41: the brokers had the block from 0, and perhaps that from 1000 on.
    assert next_producer_id(tmp_path / "new") == 2000


def records_in(path):
    decoder, content, position, values = _native.Decoder(["value"]), path.read_bytes(), 0, []
    while position < len(content):
        found, consumed = decoder.decode(memoryview(content)[position:], position)
        values += [] if found is None else found["value"].to_pylist()
        position += consumed
    return values


def test_metadata_records_of_unknown_types_come_last(disks, tmp_path):
    """They may refer to topics."""
    for one in disks:
        metadata_of(
            one, b"\1\x63\0\0", topic_record("t", OTHER_ID), partition_record(0, OTHER_ID, [1], 0, [DIRECTORY_ID])
        )
    rescued = bl.rescue(*disks, output=tmp_path / "new", topics=["t"])
    assert records_in(tmp_path / "new/bootstrap.checkpoint")[-1] == b"\1\x63\0\0"
    assert any("1 metadata record of an unknown type is kept" in note for note in map(str, rescued.notes))
    rescued = bl.rescue(*disks, output=tmp_path / "other", topics=["t"], release="4.0")
    assert b"\1\x63\0\0" not in records_in(tmp_path / "other/bootstrap.checkpoint")
    assert any("1 metadata record of an unknown type is left out" in note for note in map(str, rescued.notes))


def test_metadata_records_in_a_newer_version_are_not_lost_silently(disks, tmp_path):
    """Its meaning is: a topic's partition would be missing."""
    newer = partition_record(1, OTHER_ID, [1], 0, [DIRECTORY_ID])
    newer = newer[:2] + b"\x09" + newer[3:]
    for one in disks:
        with_records(one, topic_record("t", OTHER_ID), partition_record(0, OTHER_ID, [1], 0, [DIRECTORY_ID]), newer)
    with pytest.raises(UnsupportedFormatError, match=r"PartitionRecord.*version 9.*release"):
        bl.rescue(*disks, output=tmp_path / "new")
    rescued = bl.rescue(*disks, output=tmp_path / "new", release="4.0")
    assert rescued.topics["t"] == 1
    assert any("decoding failed: PartitionRecord" in note and "version 9" in note for note in map(str, rescued.notes))


@pytest.mark.parametrize(
    ("isr", "expected"),
    [
        # The target counts,
        ([1, 2, 3], [3, 4]),
        # unless none of it is in sync.
        ([1, 2], [1, 2]),
    ],
)
def test_a_partition_that_is_being_moved_does_not_get_twice_the_replicas(disks, tmp_path, isr, expected):
    for one in disks:
        record = moving_record(0, OTHER_ID, [3, 4, 1, 2], isr, removing=[1, 2], adding=[3, 4])
        metadata_of(one, topic_record("orders", OTHER_ID), record)
        shutil.rmtree(one / "orders-0")
        partition_of(one, "orders-0", OTHER_ID, batch(0, [VALUE]))
    rescued = bl.rescue(*disks, output=tmp_path / "new", nodes=[1, 2, 3, 4], topics=["orders"])
    (row,) = bl.cluster(rescued.nodes[1]).partitions.to_pylist()
    assert row["replicas"] == expected
    assert any("these partitions were being moved to other nodes: orders-0" in note for note in map(str, rescued.notes))


@pytest.mark.parametrize("value", ["2", "two", "9" * 5000, "-1", "\u0663", "", " 3 "])
def test_a_setting_that_is_no_number_is_kept_as_it_is(disks, tmp_path, value):
    """Nobody could write with acks=all if more replicas had to be in sync than there are."""
    for one in disks:
        configs = [config_record(TOPIC_RESOURCE, "orders", "min.insync.replicas", value)]
        configs += [
            config_record(BROKER_RESOURCE, node, "min.insync.replicas", value) for node in ("", "1", "9" * 5000)
        ]
        with_records(one, *configs)
    bl.rescue(*disks, output=tmp_path / "new")
    found = settings(tmp_path / "new")
    is_number = value in ("2", "9" * 5000, " 3 ")
    assert found["orders", "min.insync.replicas"] == ("1" if is_number else value)
    assert found["", "min.insync.replicas"] == ("1" if is_number else value)
    assert ("9" * 5000, "min.insync.replicas") not in found


def test_a_replica_that_is_moved_to_another_disk_is_taken_if_no_other_is_left(disks, tmp_path):
    for one in disks:
        shutil.rmtree(one / "payments-0")
    shutil.move(disks[0] / "orders-0", disks[0] / f"orders-0.{UNIQUE}-future")
    rescued = bl.rescue(*disks, output=tmp_path / "new")
    # Of equal replicas the one in its place is taken.
    assert rescued.chosen["orders-0"] == str(disks[1] / "orders-0")
    shutil.rmtree(disks[1] / "orders-0")
    rescued = bl.rescue(*disks, output=tmp_path / "alone")
    assert rescued.chosen["orders-0"] == str(disks[0] / f"orders-0.{UNIQUE}-future")
    assert offsets(tmp_path / "alone") == list(range(10))
    assert any("a replica that was being moved to another disk" in note for note in map(str, rescued.notes))


def test_a_stray_replica_is_taken_if_no_other_is_left(disks, tmp_path):
    for one in disks:
        shutil.move(one / "orders-0", one / f"orders-0.{UNIQUE}-stray")
    partition_of(disks[0], f"gone-0.{UNIQUE}-stray", OTHER_ID, batch(0, [VALUE]))
    rescued = bl.rescue(*disks, output=tmp_path / "new")
    assert rescued.chosen["orders-0"] == str(disks[0] / f"orders-0.{UNIQUE}-stray")
    assert offsets(tmp_path / "new") == list(range(10))
    assert any(
        "orders-0 comes from" in note and "which its broker renamed -stray" in note for note in map(str, rescued.notes)
    )
    without_metadata(*disks)
    without = bl.rescue(*disks, output=tmp_path / "without", topics=["orders"])
    assert without.topics == {"orders": 2}
    assert "orders-0" in without.chosen
    assert offsets(tmp_path / "without") == list(range(10))


def test_a_topic_that_only_stray_replicas_tell_is_rescued_with_a_doubt(disks, tmp_path):
    """A broker that starts with a new metadata log makes all replicas stray."""
    for one in disks:
        for path in [path for path in one.iterdir() if path.name[-2:] in ("-0", "-1")]:
            shutil.move(path, path.with_name(f"{path.name}.{UNIQUE}-stray"))
    without_metadata(*disks)
    rescued = bl.rescue(*disks, output=tmp_path / "new")
    assert rescued.topics == {"orders": 2, "payments": 1}
    assert offsets(tmp_path / "new") == offsets(tmp_path / "new", "payments") == list(range(10))
    for topic in rescued.topics:
        assert any(
            f"topic {topic} is in no metadata" in doubt and "-stray" in doubt for doubt in map(str, rescued.doubts)
        )


def test_a_stray_replica_of_another_topic_of_its_name_is_left_out_with_a_doubt(disks, tmp_path):
    partition_of(disks[0], f"orders-0.{UNIQUE}-stray", OTHER_ID, batch(0, [VALUE]))
    for change in (lambda *_: None, without_metadata):
        change(*disks)
        rescued = bl.rescue(*disks, output=tmp_path / change.__name__)
        assert offsets(rescued.output) == list(range(10))
        (doubt,) = (doubt for doubt in map(str, rescued.doubts) if "renamed these directories -stray" in doubt)
        assert f"{disks[0]}/orders-0.{UNIQUE}-stray" in doubt
        assert OTHER_ID in doubt


def test_a_stray_replica_of_a_topic_with_a_long_name_is_known_by_its_id(tmp_path):
    """The name of its directory has only the beginning of the topic's."""
    name = "n" * 249
    with bl.create_log_dir(tmp_path / "d") as log_dir:
        log_dir.create_topic(name)
        log_dir.log(name, 0).append(batch(0, [VALUE]))
    stray = file_names.leftover_directory_name(name, 0, "stray", UNIQUE)
    assert name not in stray
    shutil.move(tmp_path / f"d/{name}-0", tmp_path / "d" / stray)
    bl.rescue(tmp_path / "d", output=tmp_path / "new")
    assert offsets(tmp_path / "new", name) == [0]


def test_a_stray_replica_is_not_taken_if_there_is_another(disks, tmp_path):
    appended(disks[0])
    shutil.move(disks[0] / "orders-0", disks[0] / f"orders-0.{UNIQUE}-stray")
    rescued = bl.rescue(*disks, output=tmp_path / "new")
    assert rescued.chosen["orders-0"] == str(disks[1] / "orders-0")
    assert any(f"not used: {disks[0]}/orders-0" in note for note in map(str, rescued.notes))


def test_metadata_of_a_commit_that_is_in_force_but_not_moved_are_read(disks, tmp_path):
    """The partitions of the write are in the journal, and its topics in the journal's metadata only."""
    journal = disks[0] / JOURNAL
    journal.mkdir()
    shutil.move(disks[0] / "bootstrap.checkpoint", journal)
    shutil.move(disks[0] / "orders-0", journal)
    staging = f"brokerless-0.{UNIQUE}-delete"
    contents = {"version": 1, "staging": staging, "unique": UNIQUE, "gone": []}
    (journal / "contents.json").write_text(json.dumps(contents))
    rescued = bl.rescue(disks[0], output=tmp_path / "new")
    assert rescued.metadata == str(journal / "bootstrap.checkpoint")
    assert offsets(tmp_path / "new") == list(range(10))


def test_a_report_that_cannot_be_written_is_refused_before_any_work(disks, tmp_path, monkeypatch):
    monkeypatch.setattr("brokerless.healing.rescue_plan.find_topics", lambda *_: pytest.fail("work before"))
    (tmp_path / "there").mkdir()
    with pytest.raises(FileExistsError, match="name a new directory for the bytes"):
        bl.rescue(*disks, output=tmp_path / "new", lost_path=tmp_path / "there")
    with pytest.raises(FileNotFoundError, match="parent directory"):
        bl.rescue(*disks, output=tmp_path / "new", lost_path=tmp_path / "no/report")
    with pytest.raises(FileExistsError, match="--output needs a new one"):
        bl.rescue(*disks, output=disks[0], lost_path=tmp_path / "report")
    with pytest.raises(ValueError, match="the report cannot go to"):
        bl.rescue(*disks, output=tmp_path / "new", lost_path=tmp_path / "new")


def test_lost_path_chooses_the_directory_of_the_report(disks, tmp_path):
    rescued = bl.rescue(*disks, output=tmp_path / "new", lost_path=tmp_path / "report")
    assert rescued.lost_path == str(tmp_path / "report")
    assert json.loads((tmp_path / "report/report.json").read_text())["doubts"] == []
    assert not (tmp_path / "new.lost").exists()


def test_a_second_rescue_does_not_write_over_the_report_of_the_first(disks, tmp_path):
    (tmp_path / "new.lost").mkdir()
    rescued = bl.rescue(*disks, output=tmp_path / "new")
    assert rescued.lost_path == str(tmp_path / "new.lost-2")
    assert list((tmp_path / "new.lost").iterdir()) == []


def test_a_note_warns_of_the_old_nodes_where_the_cluster_keeps_its_id(disks, tmp_path):
    assert any("the old nodes must be down" in note for note in map(str, bl.rescue(*disks, dry_run=True).notes))
    assert not any("old nodes" in note for note in map(str, bl.rescue(*disks, dry_run=True, cluster_id="laptop").notes))


def test_a_copy_of_some_topics_says_that_groups_and_transactions_stay_behind(disks):
    for one in disks:
        partition_of(one, "__consumer_offsets-0", OTHER_ID)
        partition_of(one, "__transaction_state-0", DIRECTORY_ID)

    def said(**options):
        notes = list(map(str, bl.rescue(*disks, dry_run=True, **options).notes))
        return [
            word
            for word in ("groups have no committed offsets", "groups have no offsets", "open transactions")
            for note in notes
            if note.startswith(word)
        ]

    assert said() == []
    assert said(topics=["orders"]) == ["groups have no committed offsets", "open transactions"]
    # A cut aborts them.
    assert said(topics=["orders"], as_of=NOW) == ["groups have no committed offsets"]
    assert said(topics=["orders", "__consumer_offsets", "__transaction_state"]) == []
    assert said(rename={"orders": "copy"}) == ["groups have no offsets", "open transactions"]


@pytest.fixture
def tiered(tmp_path):
    """A disk with a topic whose first segments are in remote storage only."""
    with bl.create_log_dir(tmp_path / "tiered", cluster_id="theOldClusterAAAAAAAAA") as log_dir:
        log_dir.create_topic("t", segment_bytes=SIZE * 2 + 1, index_interval_bytes=0)
        for at in range(10):
            log_dir.log("t", 0).append(batch(0, [VALUE], timestamp=NOW + at))
        log_dir._root.bootstrap.topics["t"].configs["remote.storage.enable"] = "true"
        log_dir._root.bootstrap.topics["t"].configs["local.retention.bytes"] = "1"
        log_dir._root.write_bootstrap()
    for path in (tmp_path / "tiered/t-0").glob("0000000000000000000[0-3].*"):
        path.unlink()
    checkpoint = checkpoints.format_offset_checkpoint({("t", 0): 0})
    (tmp_path / "tiered/log-start-offset-checkpoint").write_bytes(checkpoint)
    assert bl.Log(tmp_path / "tiered/t-0").missing_offsets == (0, 4)
    return tmp_path / "tiered"


def epochs_of(path):
    return checkpoints.parse_leader_epochs((path / "leader-epoch-checkpoint").read_bytes())


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_cluster_in_the_place_of_the_old_one_keeps_its_remote_segments(tiered, tmp_path, is_clean):
    if not is_clean:
        (tiered / ".kafka_cleanshutdown").unlink()
    rescued = bl.rescue(tiered, output=tmp_path / "new")
    assert settings(tmp_path / "new")["t", "remote.storage.enable"] == "true"
    assert bl.Log(tmp_path / "new/t-0").missing_offsets == (0, 4)
    assert any("Configure the new brokers with the same remote storage" in note for note in map(str, rescued.notes))
    assert rescued.left == []


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize(
    ("options", "name", "said"),
    [
        ({"cluster_id": "laptop"}, "t", "A cluster with another id must not use this storage"),
        ({"rename": {"t": "u"}}, "u", "belong to the topic's old id"),
    ],
)
def test_a_copy_does_not_use_the_remote_segments_of_the_old_cluster(tiered, tmp_path, options, name, said, is_clean):
    if not is_clean:
        (tiered / ".kafka_cleanshutdown").unlink()
    rescued = bl.rescue(tiered, output=tmp_path / "new", **options)
    assert not [one for of, one in settings(tmp_path / "new") if one.startswith(("remote.", "local.")) and of == name]
    log = bl.Log(tmp_path / f"new/{name}-0")
    assert (log.log_start_offset, log.missing_offsets, log.log_end_offset) == (4, None, 10)
    assert epochs_of(tmp_path / f"new/{name}-0")[0][1] >= 4
    assert any(said in note for note in map(str, rescued.notes))
    assert rescued.left == []


def test_a_cut_of_a_forked_tiered_topic_is_not_refused(tiered, tmp_path):
    bl.rescue(tiered, output=tmp_path / "new", cluster_id="laptop", as_of=NOW + 6)
    assert offsets(tmp_path / "new", "t") == [4, 5]


@pytest.mark.parametrize("has_storage", [True, False])
def test_without_metadata_remote_segments_are_seen_by_the_start_of_the_log(tiered, tmp_path, has_storage):
    (tiered / "bootstrap.checkpoint").unlink()
    if has_storage:
        partition_of(tiered, "__remote_log_metadata-0", OTHER_ID)
    rescued = bl.rescue(tiered, output=tmp_path / "new")
    expected = "it gets remote.storage.enable=true" if has_storage else "set remote.storage.enable=true"
    assert any(expected in note for note in map(str, rescued.notes))
    assert settings(tmp_path / "new").get(("t", "remote.storage.enable")) == ("true" if has_storage else None)
    if has_storage:
        assert bl.Log(tmp_path / "new/t-0").missing_offsets == (0, 4)


def legacy(path, magic):
    """A directory of a cluster with ZooKeeper, with messages of an old format."""
    path.mkdir()
    (path / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=theOldClusterAAAAAAAAA\n")
    (path / "old-0").mkdir()
    rows = pa.record_batch({"key": pa.array([b"k"] * 5), "value": pa.array([b"%d" % at for at in range(5)])})
    encoder = _native.Encoder(magic=magic, compression="gzip")
    content = bytes(encoder.encode(rows, timestamp=NOW))
    (path / "old-0/00000000000000000000.log").write_bytes(content)
    return path


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats_are_converted_if_that_is_wanted(tmp_path, magic):
    source = legacy(tmp_path / "data", magic)
    kept = bl.rescue(source, output=tmp_path / "kept")
    assert {row["magic"] for row in table(tmp_path / "kept")} == {magic}
    assert any("messages of formats 0 and 1" in note and "old" in note for note in map(str, kept.notes))
    rescued = bl.rescue(source, output=tmp_path / "new", convert=True)
    assert {row["magic"] for row in table(tmp_path / "new")} == {2}
    before, after = (bl.Log(path / "old-0").to_table() for path in (tmp_path / "kept", tmp_path / "new"))
    assert before.select(["offset", "key", "value"]) == after.select(["offset", "key", "value"])
    assert rescued.left == []
    assert not any("messages of formats" in note for note in map(str, rescued.notes))


def table(path):
    return [row for batches in bl.Log(path / "old-0").scan() for row in batches.to_pylist()]


def test_a_cut_at_a_time_is_the_same_on_all_nodes(disks, tmp_path):
    """With replicas of a partition on both."""
    for one in disks:
        metadata_of(one, topic_record("orders", OTHER_ID), partition_record(0, OTHER_ID, [1, 2], 0, [DIRECTORY_ID] * 2))
        (one / "orders-0/partition.metadata").write_bytes(checkpoints.format_partition_metadata(OTHER_ID))
    rescued = bl.rescue(*disks, output=tmp_path / "new", nodes=[1, 2], topics=["orders"], as_of=NOW + 6)
    for path in rescued.nodes.values():
        assert offsets(path) == list(range(6))
        assert bl.LogDirFiles(path).is_clean
    (row,) = bl.cluster(rescued.nodes[2]).partitions.to_pylist()
    assert row["replicas"] == [1, 2]
    assert rescued.left == []


def test_the_epoch_of_a_log_whose_last_segment_is_empty_is_that_of_the_one_before(disks, tmp_path):
    """An empty segment must not make a replica the worst one."""
    appended(disks[1], leader_epoch=7)
    (disks[1] / "orders-0/00000000000000000011.log").touch()
    for _ in range(5):
        appended(disks[0])
    rescued = bl.rescue(*disks, output=tmp_path / "new")
    assert rescued.chosen["orders-0"] == str(disks[1] / "orders-0")


def test_the_epoch_of_a_log_is_that_of_its_last_sound_batch_also_behind_damage(disks, tmp_path):
    """A damaged replica is still the best one: the others lack what its leader wrote."""
    for _ in range(3):
        appended(disks[1], leader_epoch=7)
    path = disks[1] / "orders-0/00000000000000000000.log"
    damage.overwrite(path, SIZE * 10 + 8, b"\x7f\xff")
    # With the right length alone, the batch would be sound.
    damage.flip_bit(path, SIZE * 11 - 5)
    for _ in range(5):
        appended(disks[0])
    rescued = bl.rescue(*disks, output=tmp_path / "new")
    assert rescued.chosen["orders-0"] == str(disks[1] / "orders-0")
    assert [(one.start_offset, one.end_offset, one.state) for one in rescued.ranges] == [(10, 11, "lost")]
    assert offsets(tmp_path / "new") == [*range(10), 11, 12]


def test_checkpoints_do_not_describe_a_stray_replica(disks, tmp_path):
    """They are of the partition that took its name."""
    for one in disks:
        shutil.move(one / "orders-0", one / f"orders-0.{UNIQUE}-stray")
        checkpoint = checkpoints.format_offset_checkpoint({("orders", 0): 8})
        (one / "log-start-offset-checkpoint").write_bytes(checkpoint)
        # Not shut down cleanly: its files are written again.
        (one / ".kafka_cleanshutdown").unlink()
    bl.rescue(*disks, output=tmp_path / "new")
    assert offsets(tmp_path / "new") == list(range(10))


def metadata_log_of(path, voters):
    """Make a disk one of a cluster that has started, with some controllers."""
    directory = path / "__cluster_metadata-0"
    directory.mkdir()
    records = records_in(path / "bootstrap.checkpoint")
    (directory / "00000000000000000000.log").write_bytes(batch(0, records, leader_epoch=1))
    quorum = {"currentVoters": [{"voterId": one} for one in voters]}
    (directory / "quorum-state").write_text(json.dumps(quorum))


def test_notes_alone_do_not_change_the_exit_code(disks, run):
    result = run("rescue", disks[0], "--dry-run")
    assert (result.code, result.out.startswith("note: the cluster keeps its id")) == (0, True)


def test_a_doubt_leads_to_exit_code_3(disks, run, tmp_path):
    metadata_log_of(disks[0], [1, 2, 3])
    result = run("rescue", disks[0], "--output", tmp_path / "new", "--lost", tmp_path / "report")
    assert result.code == 3
    assert "doubt: the metadata come from" in result.out
    assert json.loads((tmp_path / "report/report.json").read_text())["doubts"]
    assert run("rescue", disks[0], "--dry-run", "--json").code == 3


def test_no_doubt_is_said_of_the_metadata_of_a_sole_controller(disks, run):
    metadata_log_of(disks[0], [1])
    result = run("rescue", disks[0], "--dry-run")
    assert (result.code, "committed" in result.out) == (0, False)


def test_a_transaction_that_may_have_been_committed_leads_to_exit_code_3(tmp_path, run):
    """Its marker is lost, and no other replica has it."""
    with bl.create_log_dir(tmp_path / "d") as log_dir:
        log_dir.create_topic("t")
        log = log_dir.log("t", 0)
        log.append(batch(0, [VALUE], producer_id=7, base_sequence=0, transactional=True))
        log.append(marker(0, 7, commit=True), origin="coordinator")
        log.append(batch(0, [VALUE]))
    position = SIZE
    damage.flip_bit(tmp_path / "d/t-0/00000000000000000000.log", position + 70)
    found = bl.rescue(tmp_path / "d", dry_run=True)
    assert any(doubt.startswith("t-0: ") for doubt in map(str, found.doubts))
    assert run("rescue", tmp_path / "d", "--dry-run").code == 3


def ends_at(path, count):
    """Make a replica one that never had more than so many records."""
    damage.cut(path / LOG, SIZE * count)
    (path / "orders-0/00000000000000000010.snapshot").unlink()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (path / name).write_bytes(checkpoints.format_offset_checkpoint({("orders", 0): count}))


LOG = "orders-0/00000000000000000000.log"


def reasons(rescued):
    return [one.reason for one in rescued.missing if (one.topic, one.partition, one.is_gone) == ("orders", 0, False)]


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("is_damaged", [True, False])
def test_a_replica_that_had_more_than_what_is_left_of_it_is_said(disks, is_damaged, is_clean):
    """Its records are damaged or gone, and the best one that is left ends before."""
    ends_at(disks[1], 7)
    assert bl.rescue(*disks, dry_run=True).is_whole
    if is_damaged:
        damage.overwrite(disks[0] / LOG, SIZE * 5, b"\xff" * (SIZE * 5))
    else:
        damage.cut(disks[0] / LOG, 0)
    if not is_clean:
        (disks[0] / ".kafka_cleanshutdown").unlink()
    rescued = bl.rescue(*disks, dry_run=True)
    assert rescued.chosen["orders-0"] == str(disks[1] / "orders-0")
    assert any(str(disks[0] / "orders-0") in why and "10" in why for why in reasons(rescued))
    assert any("in sync" in one.reason and one.offset == 7 for one in rescued.missing)


@pytest.mark.parametrize("has_more", [True, False])
def test_a_damaged_end_after_a_crash_is_said_if_it_had_more_than_what_is_left(disks, has_more):
    """No file says where the log ended. A torn end that others have as a whole is no loss."""
    for one in disks:
        ends_at(one, 7)
        (one / ".kafka_cleanshutdown").unlink()
        for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
            (one / name).unlink()
    damage.cut(disks[0] / LOG, SIZE * 5)
    damage.append(disks[0] / LOG, b"\xff" * (SIZE * 5 if has_more else SIZE))
    rescued = bl.rescue(*disks, dry_run=True)
    assert rescued.chosen["orders-0"] == str(disks[1] / "orders-0")
    assert len(reasons(rescued)) == (2 if has_more else 0)
    assert not has_more or "damaged from offset 5" in reasons(rescued)[0]


@pytest.mark.parametrize("has_file", [True, False])
def test_a_flipped_bit_in_an_epoch_makes_no_replica_the_best(disks, has_file):
    """No checksum covers the epoch of a batch."""
    ends_at(disks[1], 7)
    damage.flip_bit(disks[1] / LOG, SIZE * 6 + 12, 3)
    if not has_file:
        (disks[1] / "orders-0/leader-epoch-checkpoint").unlink()
    rescued = bl.rescue(*disks, dry_run=True)
    assert rescued.chosen["orders-0"] == str(disks[0] / "orders-0")


def test_a_flipped_bit_in_an_epoch_does_not_raise_that_of_the_cluster(disks, tmp_path):
    damage.flip_bit(disks[0] / LOG, SIZE * 9 + 12, 5)
    bl.rescue(disks[0], output=tmp_path / "new")
    rows = bl.cluster(tmp_path / "new").partitions.to_pylist()
    assert {row["leader_epoch"] for row in rows} == {1}


def test_a_replica_without_a_topic_id_gives_way(disks, tmp_path):
    """It may be of an older topic with that name."""
    (disks[1] / "orders-0/partition.metadata").unlink()
    shutil.rmtree(disks[1] / "orders-0")
    write_segment(disks[1] / "orders-0", 0, [batch(at, [b"older"], leader_epoch=5) for at in range(30)])
    rescued = bl.rescue(*disks, dry_run=True)
    assert rescued.chosen["orders-0"] == str(disks[0] / "orders-0")
    assert any(str(disks[1] / "orders-0") in note and "topic id" in note for note in map(str, rescued.notes))
    assert not any("topic id" in doubt for doubt in map(str, rescued.doubts))
    shutil.rmtree(disks[0] / "orders-0")
    rescued = bl.rescue(*disks, dry_run=True)
    assert rescued.chosen["orders-0"] == str(disks[1] / "orders-0")
    assert any(str(disks[1] / "orders-0") in doubt and "topic id" in doubt for doubt in map(str, rescued.doubts))


def test_no_doubt_is_told_of_a_topic_that_never_had_an_id(disks):
    """Brokers before 2.8 have none."""
    without_metadata(*disks)
    for one in disks:
        for file in one.glob("*/partition.metadata"):
            file.unlink()
    assert not any("topic id" in doubt for doubt in map(str, bl.rescue(*disks, dry_run=True).doubts))


def unreadable(path):
    """Make a file one that cannot be opened."""
    path.unlink()
    os.mkfifo(path)


def test_a_replica_that_cannot_be_read_gives_way_and_is_said(disks, tmp_path):
    unreadable(disks[0] / LOG)
    rescued = bl.rescue(*disks, output=tmp_path / "new")
    assert rescued.chosen["orders-0"] == str(disks[1] / "orders-0")
    assert any(str(disks[0] / "orders-0") in doubt and "cannot be read" in doubt for doubt in map(str, rescued.doubts))
    assert any("in sync" in why for why in reasons(rescued))
    assert offsets(tmp_path / "new") == list(range(10))


def test_a_replica_that_cannot_be_read_mends_no_other(disks):
    damage.flip_bit(disks[0] / LOG, SIZE * 4 + 80)
    unreadable(disks[1] / LOG)
    rescued = bl.rescue(*disks, dry_run=True)
    assert [(one.state, one.start_offset, one.end_offset) for one in rescued.ranges] == [("lost", 4, 5)]
    assert any(str(disks[1] / "orders-0") in doubt and "cannot be read" in doubt for doubt in map(str, rescued.doubts))


def test_a_replica_that_fails_amid_its_bytes_mends_no_other(disks, monkeypatch):
    """As a disk with a bad sector."""
    damage.flip_bit(disks[0] / LOG, SIZE * 4 + 80)
    bad = str(disks[1] / "orders-0")

    def failing(log, others=(), **options):
        if bad in (log.path, *(other.path for other in others)):
            raise OSError(5, "Input/output error")
        return salvage(log, others, **options)

    monkeypatch.setattr("brokerless.healing.rescue_plan.salvage", failing)
    rescued = bl.rescue(*disks, dry_run=True)
    assert rescued.chosen["orders-0"] == str(disks[0] / "orders-0")
    assert any(str(disks[1] / "orders-0") in doubt and "cannot be read" in doubt for doubt in map(str, rescued.doubts))


def test_a_partition_that_no_disk_can_read_starts_empty_and_is_said(disks, tmp_path):
    for one in disks:
        unreadable(one / LOG)
    rescued = bl.rescue(*disks, output=tmp_path / "new")
    missing = [one for one in rescued.missing if one.is_gone]
    assert [(one.topic, one.partition) for one in missing] == [("orders", 0)]
    assert all(str(one / "orders-0") in missing[0].reason for one in disks)
    assert offsets(tmp_path / "new", "payments") == list(range(10))


def test_what_an_earlier_repair_lost_is_said_again_unless_another_replica_has_it(disks, tmp_path):
    damage.flip_bit(disks[0] / LOG, SIZE * 4 + 80)
    bl.repair(disks[0], tmp_path / "repaired")
    rescued = bl.rescue(tmp_path / "repaired", output=tmp_path / "new")
    assert [(one.start_offset, one.end_offset, one.state) for one in rescued.ranges] == [(4, 5, "lost")]
    assert "earlier repair" in rescued.ranges[0].message
    assert not rescued.is_whole
    again = bl.rescue(tmp_path / "new", dry_run=True)
    assert [(one.start_offset, one.end_offset, one.state) for one in again.ranges] == [(4, 5, "lost")]
    for order in ((tmp_path / "repaired", disks[1]), (disks[1], tmp_path / "repaired")):
        rescued = bl.rescue(*order, dry_run=True)
        assert rescued.chosen["orders-0"] == str(disks[1] / "orders-0")
        assert rescued.is_whole


def test_what_a_repair_lost_at_the_start_does_not_hide_that_another_replica_has_it(disks, tmp_path):
    damage.flip_bit(disks[0] / LOG, 80)
    bl.repair(disks[0], tmp_path / "repaired")
    rescued = bl.rescue(tmp_path / "repaired", disks[1], output=tmp_path / "new")
    assert offsets(tmp_path / "new") == list(range(10))
    assert rescued.is_whole


def test_what_a_repair_lost_and_retention_removed_is_not_said(disks, tmp_path):
    damage.flip_bit(disks[0] / LOG, SIZE * 4 + 80)
    bl.repair(disks[0], tmp_path / "repaired")
    starts = checkpoints.format_offset_checkpoint({("orders", 0): 6})
    (tmp_path / "repaired/log-start-offset-checkpoint").write_bytes(starts)
    assert bl.rescue(tmp_path / "repaired", dry_run=True).ranges == []


def test_a_file_at_which_a_broker_stops_is_left_out_and_noted(disks, tmp_path):
    name = "99999999999999999999.log"
    (disks[0] / "orders-0" / name).write_bytes(b"")
    rescued = bl.rescue(disks[0], output=tmp_path / "new")
    assert not (tmp_path / "new/orders-0" / name).exists()
    assert any(name in note for note in map(str, rescued.notes))
    assert offsets(tmp_path / "new") == list(range(10))


def test_an_error_of_the_copy_names_its_source(disks, tmp_path, monkeypatch):
    def failing(found, directory, **_):
        raise CorruptRecordError(f"bad: {directory}", path=directory)

    monkeypatch.setattr("brokerless.healing.rescue.write_partition", failing)
    (disks[0] / ".kafka_cleanshutdown").unlink()
    with pytest.raises(CorruptRecordError) as raised:
        bl.rescue(disks[0], output=tmp_path / "new")
    assert raised.value.path == str(disks[0] / "orders-0")
    assert str(raised.value).count(str(disks[0] / "orders-0")) >= 1
    assert "-delete" not in str(raised.value)


@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", "replication-offset-checkpoint", "meta.properties"]
)
def test_a_small_file_of_a_disk_that_cannot_be_read_hides_no_record(disks, tmp_path, name):
    (disks[0] / name).unlink()
    (disks[0] / name).mkdir()
    rescued = bl.rescue(disks[0], output=tmp_path / "new")
    assert offsets(tmp_path / "new") == list(range(10))
    if name != "meta.properties":
        assert any(name in doubt for doubt in map(str, rescued.doubts))


def test_a_damaged_checkpoint_is_in_doubt(disks):
    """Without it, deleted records may be back."""
    (disks[0] / "log-start-offset-checkpoint").write_text("x")
    assert any("log-start-offset-checkpoint" in doubt for doubt in map(str, bl.rescue(disks[0], dry_run=True).doubts))


def test_a_disk_that_changes_meanwhile_is_refused(disks, tmp_path, monkeypatch):
    """As a broker without a lock file would change it: the result has something of before, and something of after."""

    def changing(*arguments, **options):
        damage.append(disks[1] / "payments-0/00000000000000000000.log", b"\0")
        return check(*arguments, **options)

    monkeypatch.setattr("brokerless.healing.rescue.check", changing)
    with pytest.raises(LogInUseError, match="changed meanwhile"):
        bl.rescue(*disks, output=tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


def in_sync(path, *nodes, leader_epoch=0):
    """Make the metadata of a disk say which replicas of the first partition are in sync."""
    leading = {"isr": nodes, "leader": nodes[0]}
    with_records(path, partition_record(0, ids(path)["orders"], [1, 2], leader_epoch, [DIRECTORY_ID] * 2, **leading))


def emptied(path, start):
    """Make a replica one whose records retention deleted."""
    shutil.rmtree(path / "orders-0")
    write_segment(path / "orders-0", start, [])
    (path / "orders-0/leader-epoch-checkpoint").write_text(f"0\n1\n0 {start}\n")
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        known = checkpoints.parse_offset_checkpoint((path / name).read_bytes())
        (path / name).write_bytes(checkpoints.format_offset_checkpoint({**known, ("orders", 0): start}))


def with_id_of(path, other):
    shutil.copy(other / "orders-0/partition.metadata", path / "orders-0")


def test_a_replica_in_sync_whose_records_retention_deleted_is_the_best(disks, tmp_path):
    emptied(disks[0], 25)
    with_id_of(disks[0], disks[1])
    in_sync(disks[0], 1)
    in_sync(disks[1], 1)
    for order in (disks, disks[::-1]):
        assert bl.rescue(*order, dry_run=True).chosen["orders-0"] == str(disks[0] / "orders-0")
    bl.rescue(*disks, output=tmp_path / "new")
    log = bl.LogDirs(tmp_path / "new").log("orders", 0)
    assert (log.log_start_offset, log.log_end_offset) == (25, 25)


@pytest.mark.parametrize("committed", [7, None])
def test_a_replica_in_sync_that_lost_its_records_is_not_the_best(disks, committed):
    """Its disk was replaced: it starts at 0, and another knows that more was committed; or is of a later leader."""
    emptied(disks[0], 0)
    with_id_of(disks[0], disks[1])
    in_sync(disks[0], 1)
    in_sync(disks[1], 1)
    if committed is None:
        (disks[1] / "orders-0/leader-epoch-checkpoint").write_text("0\n1\n3 0\n")
        (disks[1] / "replication-offset-checkpoint").unlink()
    assert bl.rescue(*disks, dry_run=True).chosen["orders-0"] == str(disks[1] / "orders-0")


def test_the_highest_log_start_that_is_proven_wins_in_any_order(disks, tmp_path):
    known = checkpoints.format_offset_checkpoint({("orders", 0): 4})
    (disks[0] / "log-start-offset-checkpoint").write_bytes(known)
    for number, order in enumerate((disks, disks[::-1])):
        bl.rescue(*order, output=tmp_path / f"new-{number}")
        assert offsets(tmp_path / f"new-{number}") == list(range(4, 10))
    known = checkpoints.format_offset_checkpoint({("orders", 0): 400})
    (disks[0] / "log-start-offset-checkpoint").write_bytes(known)
    bl.rescue(*disks, output=tmp_path / "unproven")
    assert offsets(tmp_path / "unproven") == list(range(10))


@pytest.mark.parametrize("bit", [4, 5, 6, 20, 30])
def test_a_flipped_bit_in_the_last_base_offset_makes_no_replica_the_best(disks, tmp_path, bit):
    for one in disks:
        (one / ".kafka_cleanshutdown").unlink()
        for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
            (one / name).unlink()
        (one / "orders-0/00000000000000000010.snapshot").unlink()
    damage.flip_bit(disks[0] / LOG, SIZE * 9 + 7 - bit // 8, bit % 8)
    for number, order in enumerate((disks, disks[::-1])):
        rescued = bl.rescue(*order, output=tmp_path / str(number))
        assert rescued.chosen["orders-0"] == str(disks[1] / "orders-0")
        assert offsets(tmp_path / str(number)) == list(range(10))


def test_a_disk_that_the_metadata_do_not_name_as_a_replica_gives_batches_and_is_said(disks, tmp_path):
    assert not any("batches come from" in note for note in map(str, bl.rescue(*disks, dry_run=True).notes))
    damage.flip_bit(disks[0] / LOG, SIZE * 4 + 80)
    rescued = bl.rescue(*disks, output=tmp_path / "new")
    assert offsets(tmp_path / "new") == list(range(10))
    (note,) = [note for note in map(str, rescued.notes) if "batches come from" in note]
    assert (
        note
        == f"orders-0: batches come from {disks[1]} of node 2, although the metadata assign the replicas to other nodes"
    )


def test_the_records_before_a_segment_that_one_disk_lost_come_from_another(disks, tmp_path):
    """Epochs that begin where the log does prove no deletion: a broker that ran on, or a repair, made them so."""
    emptied(disks[0], 4)
    with_id_of(disks[0], disks[1])
    write_segment(disks[0] / "orders-0", 4, [batch(at, [VALUE], timestamp=NOW + at) for at in range(4, 10)])
    ends = checkpoints.format_offset_checkpoint({("orders", 0): 10})
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (disks[0] / name).write_bytes(ends)
    for number, order in enumerate((disks, disks[::-1])):
        bl.rescue(*order, output=tmp_path / str(number), topics=["orders"])
        # The disk of the leader tells where the log starts; without metadata, that with the most records.
        assert offsets(tmp_path / str(number)) == list(range(4, 10))
    without_metadata(*disks)
    for number, order in enumerate((disks, disks[::-1])):
        bl.rescue(*order, output=tmp_path / f"bare-{number}", topics=["orders"])
        assert offsets(tmp_path / f"bare-{number}") == list(range(10))


def test_a_replica_that_was_to_be_deleted_is_named_where_no_other_is_left(disks, tmp_path):
    deleted = disks[0] / f"orders-0.{'0' * 32}-delete"
    (disks[0] / "orders-0").rename(deleted)
    (missing,) = [one for one in bl.rescue(disks[0], dry_run=True).missing if one.partition == 0]
    assert missing.reason.endswith(
        f"A broker was about to delete {deleted}. To use its records, rename it to orders-0, and run the rescue again"
    )


def test_of_equal_replicas_the_one_that_the_metadata_name_is_taken_in_any_order(disks):
    for order in (disks, disks[::-1]):
        rescued = bl.rescue(*order, dry_run=True)
        assert rescued.chosen["orders-0"] == str(disks[0] / "orders-0")
        assert not any("batches come from" in note for note in map(str, rescued.notes))


def test_disks_of_different_shutdowns_of_a_node_are_in_doubt(tmp_path):
    """A snapshot of one of two disks was put back."""
    for name, epoch in (("one", 7), ("two", 9)):
        disk(tmp_path / name, 1)
        (tmp_path / name / ".kafka_cleanshutdown").write_bytes(checkpoints.format_clean_shutdown(epoch))
    shutil.rmtree(tmp_path / "two/orders-0")
    said = f"node 1 was shut down at different broker epochs: 7 in {tmp_path}/one, 9 in {tmp_path}/two"
    rescued = bl.rescue(tmp_path / "one", tmp_path / "two", output=tmp_path / "new", topics=["orders"])
    assert any(doubt.startswith(said) for doubt in map(str, rescued.doubts))
    (found,) = (one for one in check(tmp_path / "one", tmp_path / "two") if one.code == "shutdowns-differ")
    assert (found.severity, found.message) == ("warning", said)


def test_a_segment_behind_a_link_that_leads_nowhere_is_missing(disks, tmp_path):
    """Its disk is not mounted: a broker makes an empty log at the end of the link."""
    for one in disks:
        (one / LOG).unlink()
        (one / LOG).symlink_to(tmp_path / "unmounted")
    rescued = bl.rescue(*disks, output=tmp_path / "new")
    assert [(one.code, one.start_offset, one.end_offset) for one in rescued.ranges] == [("segment-missing", 0, 10)]
