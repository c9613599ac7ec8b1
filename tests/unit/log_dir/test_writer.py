"""A log directory in our hands: locked, unmarked, and left as a broker leaves it.

The logs are stand-ins: what they do with their files is not asked here.
"""

import errno
import os
import warnings
from pathlib import Path
from typing import ClassVar

import pytest

import brokerless as bl
from brokerless import _native
from brokerless.io import disk
from brokerless.layout import checkpoints
from brokerless.layout.replication import SOLE
from brokerless.log_dir import writer
from brokerless.metadata.bootstrap import Bootstrap
from support.metadata_images import image_of

# The stand-ins have no topic ids.
pytestmark = pytest.mark.filterwarnings("ignore:a broker renames ")

ASIDE = ".kafka_cleanshutdown.aside"
TOPIC_ID = "AAECAwQFBgcICQoLDA0ODw"


class FakeWriter:
    """A log of one file. `opened` has the arguments of each that was opened."""

    opened: ClassVar = []
    replication = SOLE

    def highest_cluster_producer_id(self, since):
        return None

    def __init__(
        self,
        directory,
        config,
        is_clean,
        recovery_point,
        log_start_offset,
        leader_epoch,
        first_dirty_offset,
        recover,
        high_watermark,
    ):
        self.directory = directory
        self.leader_epoch = leader_epoch or 0
        self.log_start_offset, self.first_segment_base_offset = log_start_offset or 0, 0
        self.is_tiered = False
        self.cuts, self.expected_end = (), None
        self.log_end_offset = self.recovery_point = recovery_point
        self.producers = _native.Producers()
        self.replicated_end = recovery_point
        self.failure = None
        self.is_closed = False
        self.first_dirty_offset = first_dirty_offset

    @classmethod
    def open(cls, directory, *, before_changes, before_truncation, reserve_producer_id, replication, **arguments):
        assert os.path.isdir(directory)
        before_changes()
        cls.opened.append((os.path.basename(directory), arguments))
        return cls(directory, **arguments)

    def append(self, count=1):
        with disk.create(f"{self.directory}/{self.log_end_offset:020d}.log") as output:
            output.append(b"x")
            output.sync()
        self.log_end_offset += count
        epochs = checkpoints.format_leader_epochs([checkpoints.LeaderEpoch(self.leader_epoch, 0)])
        disk.atomic_write(f"{self.directory}/leader-epoch-checkpoint", epochs)

    def close(self):
        if self.failure:
            raise self.failure
        disk.sync_directory(self.directory)
        self.recovery_point = self.replicated_end = self.log_end_offset


@pytest.fixture(autouse=True)
def opened(monkeypatch):
    monkeypatch.setattr(writer, "LogWriter", FakeWriter)
    monkeypatch.setattr(FakeWriter, "opened", [])
    return FakeWriter.opened


@pytest.fixture
def brokers(tmp_path):
    """A directory that a broker shut down cleanly: topics t (2 partitions) and u, never ours."""
    root = tmp_path / "data"
    for name in ("t-0", "t-1", "u-0", "__cluster_metadata-0"):
        (root / name).mkdir(parents=True)
    (root / "__cluster_metadata-0" / f"{0:020d}.log").touch()
    (root / "meta.properties").write_text("version=1\nnode.id=3\ncluster.id=abc\n")
    (root / ".kafka_cleanshutdown").write_text('{"version":0, "brokerEpoch":77}\n')
    for name in ("recovery-point", "replication", "log-start"):
        (root / f"{name}-offset-checkpoint").write_text("0\n3\nt 0 5\nt 1 6\nu 0 7\n")
    (root / "cleaner-offset-checkpoint").write_text("0\n2\nt 0 4\nt 1 5\n")
    return root


def open_quietly(path):
    return bl.open_log_dir(path, sole_replica=True)


def test_a_brokers_directory_is_unmarked_while_it_is_open_and_marked_as_it_was_after(brokers):
    before = (brokers / ".kafka_cleanshutdown").read_bytes()
    with open_quietly(brokers) as log_dir:
        assert not (brokers / ".kafka_cleanshutdown").exists()
        assert (log_dir.was_clean, log_dir.node_id, log_dir.cluster_id) == (True, 3, "abc")
        assert bl.LogDirFiles(str(brokers)).is_locked
    assert (brokers / ".kafka_cleanshutdown").read_bytes() == before
    assert not (brokers / ASIDE).exists()
    assert not (brokers / ".lock").exists()


def test_a_log_is_opened_with_what_the_checkpoints_say(brokers, opened):
    with open_quietly(brokers) as log_dir:
        log = log_dir.log("t", 1, leader_epoch=4, segment_bytes=1000)
        assert log_dir.log("t", 1) is log
        log_dir.log("u", 0)
    (name, arguments), (_, defaults) = opened
    assert name == "t-1"
    assert arguments.pop("config").segment_bytes == 1000
    offsets = {"recovery_point": 6, "log_start_offset": 6, "first_dirty_offset": 5}
    assert arguments == {"is_clean": True, "leader_epoch": 4, "recover": False, "high_watermark": 6, **offsets}
    assert (defaults["config"], defaults["leader_epoch"]) == (bl.TopicConfig(), None)


def test_checkpoints_keep_the_entries_of_partitions_that_were_not_opened(brokers):
    with open_quietly(brokers) as log_dir:
        log_dir.log("t", 1).append(10)
        log_dir.log("u", 0).log_start_offset = 0
        log_dir.log("u", 0).first_dirty_offset = 3
    root = bl.LogDirFiles(str(brokers))
    assert root.recovery_points == {("t", 0): 5, ("t", 1): 16, ("u", 0): 7}
    assert root.high_watermarks == {("t", 0): 5, ("t", 1): 16, ("u", 0): 7}
    assert root.first_dirty_offsets == {("t", 0): 4, ("t", 1): 5, ("u", 0): 3}
    # of u-0 the first segment's name says it; of a tiered log only the entry would
    assert root.log_start_offsets == {("t", 0): 5, ("t", 1): 6, ("u", 0): 0}


def test_a_checkpoint_between_is_what_is_flushed_so_far(brokers):
    with open_quietly(brokers) as log_dir:
        log_dir.log("t", 1).recovery_point = 9
        log_dir.checkpoint()
        assert bl.LogDirFiles(str(brokers)).recovery_points["t", 1] == 9
        assert not bl.LogDirFiles(str(brokers)).is_clean


def test_the_cleaners_checkpoint_is_written_again_where_the_disk_was_full(brokers, monkeypatch):
    """Else the old one stays, and a broker's cleaner takes what was appended behind a truncation for cleaned."""
    (brokers / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 100\n")
    written = disk.atomic_write

    def is_full(path, content):
        raise OSError(errno.ENOSPC, "full", path)

    with open_quietly(brokers) as log_dir:
        log_dir.log("t", 0).first_dirty_offset = 10
        monkeypatch.setattr(disk, "atomic_write", is_full)
        with pytest.raises(OSError, match="full"):
            log_dir.checkpoint()
        monkeypatch.setattr(disk, "atomic_write", written)
    assert (brokers / "cleaner-offset-checkpoint").read_text() == "0\n1\nt 0 10\n"


def test_a_log_that_cannot_be_closed_leaves_the_directory_to_be_recovered(brokers):
    log_dir = open_quietly(brokers)
    log_dir.log("t", 0).failure = OSError("disk full")
    other = log_dir.log("u", 0)
    other.append(5)
    with pytest.raises(OSError, match="disk full"):
        log_dir.close()
    assert other.recovery_point == 12  # closed all the same
    assert not (brokers / ".kafka_cleanshutdown").exists()
    assert not (brokers / ".lock").exists()
    assert bl.LogDirFiles(str(brokers)).recovery_points["u", 0] == 7
    log_dir.close()


def test_an_exception_of_the_callers_is_no_reason_to_recover(brokers):
    def fail():
        with open_quietly(brokers) as log_dir:
            log_dir.log("t", 0)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert bl.LogDirFiles(str(brokers)).is_clean


def test_after_a_kill_only_a_directory_whose_logs_were_all_recovered_is_marked(brokers, opened):
    open_quietly(brokers)._unlock()  # as a kill leaves it, but for the lock
    with open_quietly(brokers) as log_dir:
        assert not log_dir.was_clean
        log_dir.log("t", 0)
    assert opened[-1][1]["is_clean"] is False
    assert not bl.LogDirFiles(str(brokers)).is_clean
    with open_quietly(brokers) as log_dir:
        for topic, partition in log_dir.partitions():
            log_dir.log(topic, partition)
    # with the epoch of the broker that was there last
    assert (bl.LogDirFiles(str(brokers)).is_clean, bl.LogDirFiles(str(brokers)).broker_epoch) == (True, 77)


def test_a_marker_that_an_earlier_session_left_aside_gives_way_to_the_brokers_newer_one(brokers):
    (brokers / ASIDE).write_text('{"version":0,"brokerEpoch":1}')
    with open_quietly(brokers):
        pass
    assert bl.LogDirFiles(str(brokers)).broker_epoch == 77


def test_only_one_writer(brokers):
    with open_quietly(brokers), pytest.raises(bl.errors.LogInUseError):
        open_quietly(brokers)
    open_quietly(brokers).close()


@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"]
)
def test_a_damaged_checkpoint_is_not_replaced(brokers, name):
    """The entries of all other partitions would be lost; a broker does not start on it either."""
    (brokers / name).write_text("garbage")
    with pytest.raises(bl.errors.CorruptRecordError, match=name):
        open_quietly(brokers)
    assert (brokers / name).read_text() == "garbage"
    assert (brokers / ".kafka_cleanshutdown").exists()
    assert not (brokers / ".lock").exists()


def test_a_partition_in_two_directories_is_refused_as_by_kafka(brokers):
    (brokers / "t-00").mkdir()
    with pytest.raises(bl.errors.CorruptRecordError, match=r"one partition in two directories.*: t-0, t-00"):
        open_quietly(brokers)


def test_directories_that_do_not_count_are_left_alone(brokers):
    (brokers / "t-9.0123456789abcdef0123456789abcdef-delete").mkdir()
    (brokers / "lost+found").mkdir()
    with open_quietly(brokers) as log_dir:
        assert log_dir.partitions() == [("t", 0), ("t", 1), ("u", 0)]
        with pytest.raises(ValueError, match="Raft layer"):
            log_dir.log("__cluster_metadata", 0)
        with pytest.raises(ValueError, match="unknown topic 'tt': did you mean 't'"):
            log_dir.log("tt", 0)
        with pytest.raises(ValueError, match=r"unknown partition 9: there are 0 to 1$"):
            log_dir.log("t", 9)


def test_what_is_no_log_directory_is_not_written_to(tmp_path):
    with pytest.raises(FileNotFoundError):
        open_quietly(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="has none of a broker's own files"):
        open_quietly(tmp_path)
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / "partition.metadata").touch()
    with pytest.raises(ValueError, match="open the log directory around it"):
        open_quietly(tmp_path / "t-0")
    assert not (tmp_path / ".lock").exists()


def test_other_replicas_are_warned_of(brokers, tmp_path):
    with pytest.warns(UserWarning, match="belongs to cluster abc: another broker may have replicas") as caught:
        bl.open_log_dir(brokers).close()
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_quietly(brokers).close()
        bl.create_log_dir(tmp_path / "new").close()
        bl.open_log_dir(tmp_path / "new").close()


def test_other_settings_for_an_open_log_are_refused(brokers):
    with open_quietly(brokers) as log_dir:
        log_dir.log("t", 0, segment_bytes=1000)
        log_dir.log("t", 0, segment_bytes=1000)
        with pytest.raises(ValueError, match="t-0 is open with other settings"):
            log_dir.log("t", 0, segment_bytes=2000)


def test_after_the_close_nothing_is_written(brokers):
    log_dir = open_quietly(brokers)
    log_dir.close()
    for call in (lambda: log_dir.log("t", 0), lambda: log_dir.create_topic("x"), log_dir.checkpoint):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_a_topic_of_a_running_cluster_needs_its_id(brokers):
    with open_quietly(brokers) as log_dir:
        with pytest.raises(ValueError, match="needs the topic id that it has in cluster abc"):
            log_dir.create_topic("x")
        assert log_dir.create_topic("x", 2, topic_id=TOPIC_ID) == TOPIC_ID
        assert log_dir.log("x", 1)
    assert (brokers / "x-1" / "partition.metadata").read_text() == f"version: 0\ntopic_id: {TOPIC_ID}"
    assert not (brokers / "bootstrap.checkpoint").exists()


@pytest.mark.filterwarnings("ignore:settings of topics are not known")
@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("metadata_log", [None, 5000], ids=["on another disk", "without its first segment"])
def test_a_formatted_directory_is_of_a_running_cluster_once_a_broker_ran_on_it(brokers, metadata_log, is_clean):
    """Formatting puts a snapshot on every disk of a broker; a topic that is written there becomes stray."""
    metadata = brokers / "__cluster_metadata-0"
    (metadata / f"{0:020d}.log").unlink()
    if metadata_log is None:
        metadata.rmdir()
        (brokers / "u-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
    else:
        (metadata / f"{metadata_log:020d}.log").touch()
    if not is_clean:
        (brokers / ".kafka_cleanshutdown").unlink()
    formatted = Bootstrap(node_id=3).format(timestamp=0)
    (brokers / "bootstrap.checkpoint").write_bytes(formatted)
    with pytest.warns(UserWarning, match="belongs to cluster abc"):
        log_dir = bl.open_log_dir(brokers)
    with log_dir, pytest.raises(ValueError, match="needs the topic id that it has in cluster abc"):
        log_dir.create_topic("x")
    assert (brokers / "bootstrap.checkpoint").read_bytes() == formatted


@pytest.mark.filterwarnings("ignore:settings of topics are not known")
@pytest.mark.parametrize("was_started", [False, True])
def test_without_topics_a_directory_is_a_new_clusters_until_a_broker_has_made_its_checkpoints(tmp_path, was_started):
    """Those of a killed broker's second disk are all that tells it from a new one."""
    data = tmp_path / "data"
    bl.create_log_dir(data, cluster_id="abc").close()
    bl.open_log_dir(data).close()
    (data / ".kafka_cleanshutdown").unlink()
    if not was_started:
        with bl.open_log_dir(data) as log_dir:
            assert log_dir.create_topic("t")
        return
    (data / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    with bl.open_log_dir(data, sole_replica=True) as log_dir:
        with pytest.raises(ValueError, match="needs the topic id that it has in cluster abc"):
            log_dir.create_topic("t")
        with pytest.raises(ValueError, match="no metadata log that says which ids"):
            log_dir.reserve_producer_id(7)


def bootstrap(path):
    return Bootstrap.parse((Path(path) / "bootstrap.checkpoint").read_bytes(), node_id=1)


def test_a_new_directory_names_its_topics(tmp_path, opened):
    with bl.create_log_dir(tmp_path / "new", cluster_id="c", directory_id=TOPIC_ID) as log_dir:
        topic_id = log_dir.create_topic("orders", 2, leader_epoch=3, cleanup_policy="compact", segment_bytes=500)
        log_dir.log("orders", 1)
    described = bootstrap(tmp_path / "new").topics
    assert list(described) == ["orders"]
    assert described["orders"].topic_id == topic_id == bl.Log(tmp_path / "new" / "orders-0").topic_id
    assert described["orders"].configs == {"internal.segment.bytes": "500", "cleanup.policy": "compact"}
    assert described["orders"].leader_epochs == {0: 3, 1: 3}
    ((name, arguments),) = opened
    assert (name, arguments["leader_epoch"], arguments["is_clean"]) == ("orders-1", 3, True)
    assert (arguments["config"].is_compacted, arguments["config"].segment_bytes) == (True, 500)
    root = bl.LogDirFiles(str(tmp_path / "new"))
    assert (root.cluster_id, root.node_id, root.directory_id) == ("c", 1, TOPIC_ID)
    assert (root.is_clean, root.broker_epoch) == (True, None)
    assert (root.recovery_points, root.log_start_offsets) == ({("orders", 1): 0}, {})


def test_a_new_directory_opened_again_knows_its_topics_settings_and_epochs(tmp_path, opened):
    with bl.create_log_dir(tmp_path / "new") as log_dir:
        log_dir.create_topic("orders", leader_epoch=3, cleanup_policy="compact")
    with bl.open_log_dir(tmp_path / "new") as log_dir:
        log_dir.log("orders", 0)
        log_dir.create_topic("users")
        with pytest.raises(ValueError, match="topic 'orders' exists"):
            log_dir.create_topic("orders")
    assert opened[0][1]["config"].is_compacted
    assert opened[0][1]["leader_epoch"] == 3
    assert list(bootstrap(tmp_path / "new").topics) == ["orders", "users"]


def test_the_metadata_follows_the_leader_epoch(tmp_path):
    """A leader of a lower epoch than its batches would drop the higher epochs from its checkpoint."""
    with bl.create_log_dir(tmp_path / "new") as log_dir:
        log_dir.create_topic("orders", 3, leader_epoch=3)
        log_dir.log("orders", 0, leader_epoch=8)
        assert bootstrap(tmp_path / "new").topics["orders"].leader_epochs == {0: 8, 1: 3, 2: 3}
        log = log_dir.log("orders", 1)
        log.leader_epoch = 9  # as batches that bring their own
        log.append()
    assert bootstrap(tmp_path / "new").topics["orders"].leader_epochs == {0: 8, 1: 9, 2: 3}


def test_who_else_has_a_replica_is_named_by_the_metadata(brokers, monkeypatch):
    """And nobody is warned of where nobody has."""

    def described(replicas):
        image = image_of(replicas)
        monkeypatch.setattr("brokerless.metadata.log.cluster_image", lambda _: image)

    alone = {("t", 0): (3,), ("t", 1): (3,), ("u", 0): (3,)}
    described(alone)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bl.open_log_dir(brokers).close()
    described(alone | {("t", 1): (3, 4)})
    with pytest.warns(UserWarning, match=r"cluster abc: t-1 is on nodes \(3, 4\)\. If another replica becomes leader"):
        bl.open_log_dir(brokers).close()
    described({("t", 0): (3,)})
    with pytest.warns(UserWarning, match="another broker may have replicas"):
        bl.open_log_dir(brokers).close()
