"""The newest metadata on the disks that survive: which copy counts, up to where, and what is in doubt."""

import json
import random
import shutil
import struct
from pathlib import Path

import pytest

import brokerless as bl
from brokerless import _native
from brokerless.healing.surviving_metadata import surviving_metadata
from brokerless.layout.checkpoints import MetaProperties, format_meta_properties
from brokerless.metadata.records import topic_record
from brokerless.metadata.voters import Voter, voters_snapshot
from support.damage import append, cut, flip_bit, overwrite
from support.log_files import batch

INCIDENT = Path(__file__).parents[3] / "examples/incident"
METADATA = "__cluster_metadata-0"
ID = "AECAwQFBgcICQoLDA0ODw"
LOG = f"{METADATA}/{0:020d}.log"


@pytest.fixture
def broker(golden):
    return golden / "logs/kafka-4.1"


def root(path, node_id=1, voters=()):
    """Make a log directory with an empty metadata log."""
    (path / METADATA).mkdir(parents=True)
    meta = MetaProperties(1, "theOldClusterAAAAAAAAA", node_id, None)
    (path / "meta.properties").write_bytes(format_meta_properties(meta))
    if voters:
        content = {"leaderId": 1, "leaderEpoch": 1, "currentVoters": [{"voterId": one} for one in voters]}
        (path / METADATA / "quorum-state").write_text(json.dumps(content))
    return path


def log_of(path, batches, base=0):
    """Write a segment of the metadata log; each batch is (leader epoch, names of topics that it creates)."""
    content, offset = b"", base
    for epoch, names in batches:
        records = [topic_record(name, f"{name}{ID}") for name in names]
        content += batch(offset, records, leader_epoch=epoch)
        offset += len(records)
    (path / METADATA / f"{base:020d}.log").write_bytes(content)


def snapshot_of(path, offset, epoch, names):
    file = path / METADATA / f"{offset:020d}-{epoch:010d}.checkpoint"
    file.write_bytes(_native.kraft_snapshot([topic_record(name, f"{name}{ID}") for name in names], 5))
    return file


def surviving(*paths):
    return surviving_metadata([bl.LogDirFiles(str(path)) for path in paths])


def names(found):
    return sorted(found.image.topic_ids)


def test_all_metadata_of_a_sole_controller_are_committed(broker):
    found = surviving(broker)
    assert (found.offset, found.epoch, found.doubts, found.notes) == (666, 4, [], [])
    assert found.image.table("partitions") == bl.cluster(broker).partitions


def test_disks_without_metadata_have_no_surviving_metadata(tmp_path, golden):
    assert surviving() is None
    assert surviving(golden / "logs/kafka-2.8-mixed") is None


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        ([(1, ["a"]), (1, ["b"])], [(1, ["a"])], ["a", "b"]),
        # A later epoch counts more than a longer log: its leader did not have the rest.
        ([(1, ["a"]), (1, ["b"]), (1, ["c"])], [(1, ["a"]), (2, ["d"])], ["a", "d"]),
    ],
)
def test_the_newest_of_several_copies_is_read(tmp_path, first, second, wanted, is_reversed):
    paths = [root(tmp_path / "1", 1), root(tmp_path / "2", 2)]
    for path, batches in zip(paths, (first, second), strict=True):
        log_of(path, batches)
    assert names(surviving(*(paths[::-1] if is_reversed else paths))) == wanted


def test_the_epoch_is_that_of_an_earlier_segment_if_the_last_one_has_no_batch(tmp_path):
    one, two = root(tmp_path / "1", 1), root(tmp_path / "2", 2)
    log_of(one, [(1, ["a"]), (3, ["b"])])
    log_of(one, [], base=2)
    log_of(two, [(2, ["c"]), (2, ["d"]), (2, ["e"])])
    assert names(surviving(one, two)) == ["a", "b"]


def test_the_epoch_is_that_of_the_snapshot_if_the_log_behind_it_has_no_batch(tmp_path):
    one, two = root(tmp_path / "1", 1), root(tmp_path / "2", 2)
    snapshot_of(one, 5, 3, ["a"])
    log_of(one, [], base=5)
    log_of(two, [(2, [name]) for name in "bcdefgh"])
    assert (names(surviving(one, two)), surviving(one, two).epoch) == (["a"], 3)


def test_damage_ends_a_copy_and_another_one_is_read(broker, tmp_path):
    for number in (1, 2):
        shutil.copytree(broker / METADATA, tmp_path / f"{number}/{METADATA}")
        shutil.copy(broker / "meta.properties", tmp_path / str(number))
    position = next(bl.Log(broker / METADATA).scan())["position"][40].as_py()
    overwrite(tmp_path / "1" / LOG, position + 70, b"\xff")
    alone = surviving(tmp_path / "1")
    assert 0 < alone.offset < 666
    # The damage, and that its only controller may have had more
    assert any("known up to offset" in doubt and "checksum" in doubt for doubt in map(str, alone.doubts))
    assert any("0 of the 1 controllers" in doubt for doubt in map(str, alone.doubts))
    assert alone.image.table("topics") == bl.cluster(broker, as_of_offset=alone.offset).topics
    both = surviving(tmp_path / "1", tmp_path / "2")
    assert (both.offset, both.doubts) == (666, [])
    assert all("is damaged" in note for note in map(str, both.notes))
    assert len(both.notes) == 1


@pytest.mark.parametrize("seed", range(20))
def test_metadata_cut_or_flipped_anywhere_raise_no_error(broker, copied, seed):
    """Up to the damage, the metadata are those that the undamaged log had there."""
    chosen = random.Random(seed)
    directory = copied("kafka-4.1", METADATA)
    file = directory / f"{0:020d}.log"
    size = file.stat().st_size
    if seed % 2:
        cut(file, chosen.randrange(size))
    else:
        flip_bit(file, chosen.randrange(size), chosen.randrange(8))
    found = surviving(directory.parent)
    expected = bl.cluster(broker, as_of_offset=found.offset)
    for subject in ("topics", "partitions", "configs", "features"):
        assert found.image.table(subject) == expected.table(subject)


def test_a_damaged_snapshot_gives_way_to_an_older_one_and_the_log(tmp_path):
    path = root(tmp_path / "d", voters=[1])
    log_of(path, [(1, ["b"]), (2, ["c"])], base=5)
    snapshot_of(path, 5, 1, ["a"])
    newer = snapshot_of(path, 6, 1, ["a", "b"])
    assert (names(surviving(path)), surviving(path).doubts) == (["a", "b", "c"], [])
    flip_bit(newer, 120)
    found = surviving(path)
    assert (names(found), found.offset, found.epoch) == (["a", "b", "c"], 7, 2)
    assert found.doubts == []
    assert any(str(newer) in note for note in map(str, found.notes))


def test_a_log_without_its_beginning_is_the_last_resort(tmp_path):
    path = root(tmp_path / "1")
    log_of(path, [(9, ["b"])], base=5)
    found = surviving(path)
    assert names(found) == ["b"]
    assert any("does not have all metadata" in doubt and "lost" in doubt for doubt in map(str, found.doubts))
    whole = root(tmp_path / "2", 2)
    log_of(whole, [(1, ["a"])])
    assert names(surviving(path, whole)) == ["a"]


def test_records_behind_a_gap_do_not_count(tmp_path):
    """After a snapshot, and in the log: a change without what it changes says nothing."""
    path = root(tmp_path / "1")
    snapshot_of(path, 5, 1, ["a"])
    log_of(path, [(1, ["b"])], base=7)
    found = surviving(path)
    assert (names(found), found.offset) == (["a"], 5)
    assert any("begins at offset 7" in doubt for doubt in map(str, found.doubts))
    path = root(tmp_path / "2")
    log_of(path, [(1, ["a"])])
    log_of(path, [(1, ["b"])], base=3)
    found = surviving(path)
    assert (names(found), found.offset) == (["a"], 1)
    assert found.doubts


@pytest.mark.parametrize(
    ("ends", "voters", "expected"),
    [
        ({1: 8}, [1, 2, 3], "1 of the 3 controllers"),
        # No voter, or one of the disks of the same voter
        ({1: 8, 9: 8}, [1, 2, 3], "1 of the 3 controllers"),
        ({1: 8}, [], "controllers that are not known"),
        ({1: 8, 2: 7}, [1, 2], None),
        ({1: 8, 2: 7}, [1, 2, 3], None),
        ({1: 8, 9: 7}, [1], None),
    ],
)
def test_a_doubt_is_told_unless_most_controllers_have_the_same_end(tmp_path, ends, voters, expected):
    """What was committed is on one of them, and so in the copy that goes furthest."""
    for node_id, end in ends.items():
        path = root(tmp_path / str(node_id), node_id, voters)
        snapshot_of(path, 5, 1, [])
        log_of(path, [(1, [name]) for name in "abc"[: end - 5]], base=5)
    found = surviving(*(tmp_path / str(node_id) for node_id in ends))
    assert found.offset == 8
    assert found.doubts == [] if expected is None else any(expected in doubt for doubt in map(str, found.doubts))


def test_the_voters_of_the_log_count_more_than_those_of_the_quorum_state(tmp_path):
    path = root(tmp_path / "1", 1, [1])
    voters = [Voter(node, f"a{ID}", "host", 9093) for node in (1, 2, 3)]
    (path / METADATA / f"{0:020d}-{0:010d}.checkpoint").write_bytes(voters_snapshot(voters, 5))
    log_of(path, [(1, ["a"])])
    assert any("1 of the 3 controllers" in doubt for doubt in map(str, surviving(path).doubts))


def bounds(content):
    """Where each batch of some content ends."""
    ends, position = [], 0
    while position < len(content):
        position += struct.unpack_from(">i", content, position + 8)[0] + 12
        ends.append(position)
    return ends


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_snapshot_without_its_header_or_footer_is_damaged(tmp_path, at):
    """It is cut between batches, or empty as after a crash: no batch of it is damaged."""
    path = root(tmp_path / "d", voters=[1])
    snapshot_of(path, 5, 1, ["a", "b"])
    log_of(path, [(1, list("cdefg"))], base=5)
    file = snapshot_of(path, 10, 1, ["q"])
    cut(file, [0, *bounds(file.read_bytes())][at])
    found = surviving(path)
    assert (names(found), found.offset) == (list("abcdefg"), 10)
    assert any(str(file) in note and "it has no" in note for note in map(str, found.notes))


def test_an_empty_copy_of_the_metadata_does_not_win_over_a_log(tmp_path):
    empty = root(tmp_path / "1", 1, [1])
    snapshot_of(empty, 10, 1, ["q"]).write_bytes(b"")
    other = root(tmp_path / "2", 2, [1])
    log_of(other, [(1, ["a"])])
    found = surviving(empty, other)
    assert names(found) == ["a"]
    assert any("0 of the 1 controllers" in doubt for doubt in map(str, found.doubts))


@pytest.mark.parametrize("has_zeros", [False, True])
def test_a_log_that_ends_before_its_other_files_say_is_in_doubt(tmp_path, has_zeros):
    """With zeros behind its end it is in doubt, too: Kafka does not preallocate this log."""
    path = root(tmp_path / "d", voters=[1])
    log_of(path, [(1, ["a"]), (1, ["b"]), (1, ["c"])])
    assert surviving(path).doubts == []
    end = bounds((path / LOG).read_bytes())[1]
    size = (path / LOG).stat().st_size
    cut(path / LOG, end)
    if has_zeros:
        append(path / LOG, bytes(size - end))
    else:
        (path / METADATA / f"{3:020d}.snapshot").write_bytes(b"")
    found = surviving(path)
    assert (names(found), found.offset) == (["a", "b"], 2)
    assert any("known up to offset 2" in doubt for doubt in map(str, found.doubts))
    assert any("0 of the 1 controllers" in doubt for doubt in map(str, found.doubts))


def test_what_a_cluster_starts_with_is_in_doubt_if_its_log_is_empty(tmp_path):
    with bl.create_log_dir(tmp_path / "d") as log_dir:
        log_dir.create_topic("t")
    assert surviving(tmp_path / "d").doubts == []
    (tmp_path / "d" / METADATA).mkdir(exist_ok=True)
    (tmp_path / "d" / LOG).write_bytes(b"")
    found = surviving(tmp_path / "d")
    assert names(found) == ["t"]
    assert any("is empty" in doubt for doubt in map(str, found.doubts))
    (tmp_path / "d/bootstrap.checkpoint").unlink()
    unread = []
    assert surviving_metadata([bl.LogDirFiles(str(tmp_path / "d"))], unread) is None
    assert any("is empty" in str(doubt) for doubt in unread)


@pytest.mark.parametrize("position", range(61, 83))
def test_a_flipped_bit_in_a_control_record_of_a_snapshot_is_damage(tmp_path, position):
    path = root(tmp_path / "d", voters=[1])
    file = snapshot_of(path, 10, 1, ["q"])
    log_of(path, [(1, ["a"])], base=10)
    for bit in range(8):
        before = file.read_bytes()
        flip_bit(file, position, bit)
        found = surviving(path)
        assert names(found) == ["a"]
        assert any("snapshot" in doubt for doubt in map(str, found.doubts))
        file.write_bytes(before)


def test_a_flipped_bit_in_a_format_of_a_log_is_damage(tmp_path):
    path = root(tmp_path / "d", voters=[1])
    log_of(path, [(1, ["a"]), (1, ["b"])])
    for at in (0, bounds((path / LOG).read_bytes())[0]):
        for bit in range(8):
            before = (path / LOG).read_bytes()
            flip_bit(path / LOG, at + 16, bit)
            found = surviving(path)
            assert (found is None) == (at == 0)
            assert found is None or (names(found) == ["a"] and found.doubts)
            (path / LOG).write_bytes(before)


def test_a_name_with_a_number_that_no_snapshot_has_does_not_count(tmp_path):
    path = root(tmp_path / "d", voters=[1])
    log_of(path, [(1, ["a"])])
    snapshot_of(path, 10**20 - 1, 1, ["q"])
    found = surviving(path)
    assert (names(found), found.offset, found.doubts) == (["a"], 1, [])


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[" * 99999,
        '{"currentVoters": 5}',
        '{"currentVoters": [{"voterId": 1e400}]}',
        '{"currentVoters": [{"voterId": []}]}',
        "\0",
    ],
)
def test_a_hostile_quorum_state_raises_no_error(tmp_path, content):
    path = root(tmp_path / "1")
    (path / METADATA / "quorum-state").write_text(content)
    log_of(path, [(1, ["a"])])
    assert any("controllers that are not known" in doubt for doubt in map(str, surviving(path).doubts))


@pytest.mark.filterwarnings("ignore:the file is ignored")
def test_a_lost_or_damaged_meta_properties_hides_no_metadata(tmp_path):
    path = root(tmp_path / "1")
    log_of(path, [(1, ["a"])])
    (path / "meta.properties").write_bytes(b"version=x\n")
    assert names(surviving(path)) == ["a"]


def test_a_disk_that_was_only_formatted_has_no_surviving_metadata(tmp_path):
    """Its broker ran, and had the metadata log on another disk."""
    with bl.create_log_dir(tmp_path / "d") as log_dir:
        log_dir.create_topic("t")
    (tmp_path / "d/bootstrap.checkpoint").write_bytes(_native.kraft_snapshot([], 0))
    assert surviving(tmp_path / "d") is None


def test_leader_epochs_that_cannot_be_read_hide_no_metadata(tmp_path):
    path = root(tmp_path / "d", voters=[1])
    log_of(path, [(1, ["a"])])
    (path / METADATA / "leader-epoch-checkpoint").mkdir()
    assert names(surviving(path)) == ["a"]


def closed_by_broker(path):
    (path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":7}')


def quorum_state(path, **fields):
    (path / METADATA / "quorum-state").write_text(json.dumps({"currentVoters": [{"voterId": 1}], **fields}))


def test_a_log_that_ends_below_its_own_snapshot_is_in_doubt(tmp_path):
    """A snapshot is made of what the log has: what came behind is lost."""
    path = root(tmp_path / "d", voters=[1])
    log_of(path, [(1, "ab"), (1, "c")])
    snapshot_of(path, 5, 1, "abcde")
    found = surviving(path)
    assert (names(found), found.offset) == (list("abcde"), 5)
    assert str(found.doubts[0]).endswith("it ends at offset 3, below its own snapshot of offset 5")


def test_a_log_that_starts_at_its_snapshot_is_sound(tmp_path):
    """A controller that fetched the snapshot has such a log."""
    path = root(tmp_path / "d", voters=[1])
    log_of(path, [], base=5)
    snapshot_of(path, 5, 1, "abcde")
    assert surviving(path).doubts == []


@pytest.mark.parametrize("offset", [1, 5])
def test_a_snapshot_without_a_log_is_in_doubt_once_a_controller_has_started(tmp_path, offset):
    path = root(tmp_path / "d", voters=[1])
    snapshot_of(path, offset, 1, "abc")
    assert str(surviving(path).doubts[0]).endswith(f"it has no segments after its snapshot of offset {offset}")


def test_the_snapshot_that_a_new_cluster_starts_with_is_not_in_doubt(tmp_path):
    path = root(tmp_path / "d")
    snapshot_of(path, 1, 1, "abc")
    found = surviving(path)
    assert (names(found), found.doubts) == (list("abc"), [])


@pytest.mark.parametrize(
    ("leader", "epoch", "is_doubted"), [(1, 3, True), (1, 2, False), (2, 3, False), (-1, 3, False)]
)
def test_a_leader_whose_log_has_nothing_of_its_epoch_has_lost_its_end(tmp_path, leader, epoch, is_doubted):
    """Cut between two batches, a log is sound by itself."""
    path = root(tmp_path / "d")
    log_of(path, [(1, "ab"), (2, "c")])
    quorum_state(path, leaderId=leader, leaderEpoch=epoch)
    doubts = list(map(str, surviving(path).doubts))
    assert [
        bool(doubts),
        *("it has no records of leader epoch 3, although its node was the leader" in one for one in doubts[:1]),
    ] == ([True, True] if is_doubted else [False])


@pytest.mark.parametrize("is_gone", [True, False])
def test_what_a_cluster_started_with_is_in_doubt_if_its_log_is_gone(tmp_path, is_gone):
    with bl.create_log_dir(tmp_path / "d", cluster_id="theOldClusterAAAAAAAAA") as log_dir:
        log_dir.create_topic("a")
    assert surviving(tmp_path / "d").doubts == []
    if is_gone:
        closed_by_broker(tmp_path / "d")
    else:
        (tmp_path / "d" / METADATA).mkdir()
        quorum_state(tmp_path / "d")
    found = surviving(tmp_path / "d")
    assert names(found) == ["a"]
    (doubt,) = map(str, found.doubts)
    assert "without later changes" in doubt


def test_a_disk_whose_metadata_log_was_elsewhere_has_not_lost_it(tmp_path):
    with bl.create_log_dir(tmp_path / "d", cluster_id="theOldClusterAAAAAAAAA") as log_dir:
        log_dir.create_topic("a")
    (tmp_path / "d/bootstrap.checkpoint").unlink()
    closed_by_broker(tmp_path / "d")
    unread = []
    assert surviving_metadata([bl.LogDirFiles(str(tmp_path / "d"))], unread) is None
    assert unread == []


@pytest.mark.parametrize("harm", ["directory", "log", "files", "emptied", "cut", "snapshot"])
def test_a_brokers_metadata_whose_log_is_gone_empty_or_cut_are_in_doubt(tmp_path, harm):
    """A rescue ended with exit code 0, although later settings and access rights were gone."""
    disk = tmp_path / "d"
    shutil.copytree(INCIDENT, disk)
    directory, log = disk / METADATA, disk / LOG
    assert bl.rescue(disk, dry_run=True).doubts == []
    if harm == "directory":
        shutil.rmtree(directory)
    elif harm == "log":
        log.unlink()
    elif harm == "files":
        for path in directory.glob("0000*"):
            path.unlink()
    elif harm == "emptied":
        log.write_bytes(b"")
    elif harm == "cut":
        cut(log, log.stat().st_size // 2)
    else:
        # A controller's snapshot is of what its log had.
        snapshot_of(disk, 60, 1, "a")
    found = bl.rescue(disk, dry_run=True)
    assert found.doubts
    assert not found.is_whole
