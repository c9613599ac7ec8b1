"""A log directory made anew: what it may be made of, and what its topics may be called."""

import os
import pickle
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import brokerless as bl
from brokerless.io import disk
from brokerless.log_dir.topics import NewTopic
from brokerless.log_dir.writer import LogDirWriter, open_or_create
from brokerless.metadata.bootstrap import bootstrap
from brokerless.staging.atomic_write import AtomicWrite
from support.log_files import NOW, batch


def test_before_kraft_a_directory_needs_no_ids(tmp_path):
    with bl.create_log_dir(tmp_path / "new", node_id=5, kraft=False) as log_dir:
        assert log_dir.create_topic("orders") is None
    assert (tmp_path / "new" / "meta.properties").read_text() == "broker.id=5\nversion=0\n"
    assert sorted(path.name for path in (tmp_path / "new" / "orders-0").iterdir()) == []
    assert not (tmp_path / "new" / "bootstrap.checkpoint").exists()


def test_a_directory_with_something_in_it_is_not_made_a_new_one(tmp_path):
    (tmp_path / "f").touch()
    with pytest.raises(FileExistsError, match="not empty"):
        bl.create_log_dir(tmp_path)
    with pytest.raises(FileNotFoundError):
        bl.create_log_dir(tmp_path / "a" / "b")
    for bad in ({"node_id": -1}, {"node_id": 1 << 31}, {"cluster_id": "two\nlines"}):
        with pytest.raises(ValueError, match="not a "):
            bl.create_log_dir(tmp_path / "new", **bad)
    assert os.listdir(tmp_path) == ["f"]


@pytest.mark.parametrize("at", ["bootstrap.checkpoint", "meta.properties"])
def test_a_directory_that_another_writer_is_making_is_in_use(tmp_path, monkeypatch, at):
    """Made by both it would lose the topics that the first one made."""
    write = disk.atomic_write

    def meet(path, content):
        if path.endswith(at) and not met:
            met.append(path)
            with pytest.raises(bl.errors.LogInUseError):
                open_or_create(tmp_path / "new")
        write(path, content)

    met = []
    monkeypatch.setattr(disk, "atomic_write", meet)
    with bl.create_log_dir(tmp_path / "new") as log_dir:
        log_dir.create_topic("orders")
    assert met
    with open_or_create(tmp_path / "new") as log_dir:
        assert log_dir.partitions() == [("orders", 0)]


def test_writes_that_begin_at_one_time_make_one_directory(tmp_path):
    writes = [AtomicWrite(path=str(tmp_path / "new"), topics={"t": NewTopic()}) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda write: write.begin(patience=60), writes))
    for write in writes:
        write.commit(())
    assert bl.LogDirs(tmp_path / "new").topics() == ["t"]


def test_a_directory_of_anybodys_gets_no_lock(tmp_path, monkeypatch):
    """A file that comes and goes there would be seen."""
    (tmp_path / "f").touch()
    monkeypatch.setattr(disk, "create", pytest.fail)
    with pytest.raises(FileExistsError):
        bl.create_log_dir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("",), "not a topic name"),
        (("a/b",), "not a topic name"),
        (("..",), "not a topic name"),
        (("x" * 250,), "not a topic name"),
        (("page_views",), "collides with topic 'page.views'"),
        (("page.views",), "exists"),
        (("x", 0), "1 to 100000 are allowed"),
        (("x", 1_000_000_000), "1 to 100000 are allowed"),
        (("__cluster_metadata",), "Raft layer"),
    ],
)
def test_topics_that_kafka_would_not_create(tmp_path, arguments, message):
    with bl.create_log_dir(tmp_path / "new") as log_dir:
        topic_id = log_dir.create_topic("page.views")
        with pytest.raises(ValueError, match=message):
            log_dir.create_topic(*arguments)
        reserved = ({"topic_id": "A" * 22}, {"topic_id": "A" * 21 + "Q"})
        for bad in ({"topic_id": "x"}, {"topic_id": topic_id}, *reserved, {"leader_epoch": -1}, {"segment_byte": 1}):
            with pytest.raises(ValueError, match=r"topic"):
                log_dir.create_topic("x", **bad)
    assert bl.LogDirs(tmp_path / "new").topics() == ["page.views"]
    assert not list((tmp_path / "new").glob("x-*"))


def test_a_topic_whose_making_was_cut_short_is_made_when_it_is_written_to(tmp_path):
    with bl.create_log_dir(tmp_path / "new") as log_dir:
        topic_id = log_dir.create_topic("orders")
    (tmp_path / "new" / "orders-0" / "partition.metadata").unlink()
    (tmp_path / "new" / "orders-0").rmdir()
    with bl.open_log_dir(tmp_path / "new") as log_dir:
        assert log_dir.partitions() == [("orders", 0)]
        log_dir.log("orders", 0)
    assert bl.Log(tmp_path / "new" / "orders-0").topic_id == topic_id


@pytest.mark.filterwarnings("ignore:settings of topics are not known")
def test_a_topic_id_that_a_started_cluster_gave_to_another_topic(tmp_path):
    """Of two topics with one id, a broker loads one, and takes the other for stray."""
    with bl.create_log_dir(tmp_path / "d") as log_dir:
        topic_id = log_dir.create_topic("t")
    # As a broker leaves it that has been started here.
    (tmp_path / "d/bootstrap.checkpoint").unlink()
    with bl.open_log_dir(tmp_path / "d", sole_replica=True) as log_dir:
        with pytest.raises(ValueError, match=f"topic id {topic_id} is that of topic 't'"):
            log_dir.create_topic("u", topic_id=topic_id)
        assert log_dir.partitions() == [("t", 0)]
    new = NewTopic(topic_id=topic_id)
    with pytest.raises(ValueError, match=f"topic id {topic_id} is that of topic 't'"):
        AtomicWrite(path=str(tmp_path / "d"), topics={"u": new}, sole_replica=True).begin()
    with pytest.raises(ValueError, match="two topics have the same id"):
        AtomicWrite(
            path=str(tmp_path / "d"), topics={"v": NewTopic(topic_id="B" * 22), "w": NewTopic(topic_id="B" * 22)}
        )


def test_an_open_log_directory_is_not_copied(tmp_path):
    with (
        bl.create_log_dir(tmp_path / "d") as log_dir,
        pytest.raises(TypeError, match="two would write over each other"),
    ):
        pickle.dumps(log_dir)


@pytest.mark.parametrize("name", ["new", "t-1", "t-0/new"])
def test_a_log_directory_is_not_made_in_another(tmp_path, name):
    """By a name that is no partition's, a broker that is there does not start any more."""
    with bl.create_log_dir(tmp_path / "d") as log_dir:
        log_dir.create_topic("t")
    with pytest.raises(ValueError, match=r"cannot make .*, because .* is a (log directory|partition directory)"):
        bl.create_log_dir(tmp_path / "d" / name)
    assert not (tmp_path / "d" / name).exists()


@pytest.mark.parametrize("directory_id", ["x", "AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAYw"])
def test_an_id_with_which_no_broker_starts(tmp_path, directory_id):
    with pytest.raises(ValueError, match=f"not a directory id: '{directory_id}'"):
        bl.create_log_dir(tmp_path / "d", directory_id=directory_id)
    assert not (tmp_path / "d").exists()
    bl.create_log_dir(tmp_path / "d", directory_id="AAAAAAAAAAAAAAAAAAAAZA").close()


@pytest.mark.parametrize("spelt", ["d/t-link", "points", "a/up/../new"])
def test_a_link_does_not_lead_into_another_log_directory(tmp_path, spelt):
    """Neither one that lies in it, nor one that leads to a place in it, nor by the way."""
    with bl.create_log_dir(tmp_path / "d") as log_dir:
        log_dir.create_topic("t")
    for name in ("a", "elsewhere", "d/empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "d/t-link").symlink_to("../elsewhere")
    (tmp_path / "points").symlink_to("d/empty")
    (tmp_path / "a/up").symlink_to("../d/t-0")
    with pytest.raises(ValueError, match=r"cannot make .*, because .* is a log directory"):
        bl.create_log_dir(tmp_path / spelt)
    assert not [*tmp_path.rglob("elsewhere/*"), *tmp_path.rglob("empty/*"), *tmp_path.rglob("new")]


def test_what_lies_further_up_is_no_reason_to_refuse(tmp_path):
    """As a segment in /tmp: no broker looks so far down."""
    (tmp_path / "00000000000000000000.log").touch()
    (tmp_path / "between").mkdir()
    bl.create_log_dir(tmp_path / "between/d").close()
    with pytest.raises(ValueError, match="is a partition directory"):
        bl.create_log_dir(tmp_path / "d")


def test_what_fails_while_it_is_made_lets_go_of_the_lock(tmp_path, monkeypatch):
    """Else this process could never write there."""
    with monkeypatch.context() as patch:
        patch.setattr(LogDirWriter, "__init__", fail)
        with pytest.raises(OSError, match="too many open files"):
            bl.create_log_dir(tmp_path / "d")
    with open_or_create(tmp_path / "d") as log_dir:
        assert log_dir.partitions() == []


def fail(*_, **__):
    raise OSError("too many open files")


def test_a_topic_of_which_old_checkpoints_are_here_begins_at_0(tmp_path):
    """Of one whose directories somebody removed: its log start offset would hide the new rows."""
    for kraft in (False, True):
        path = tmp_path / str(kraft)
        with bl.create_log_dir(path, kraft=kraft) as log_dir:
            log_dir.create_topic("t")
            log_dir.log("t", 0).append(batch(0, [b"v"] * 9, timestamp=NOW))
            assert log_dir.log("t", 0).run(bl.Retention(before_offset=5)).log_start_offset == 5
        shutil.rmtree(path / "t-0")
        with bl.open_log_dir(path) as log_dir:
            if not kraft:
                log_dir.create_topic("t")
            assert log_dir.log("t", 0).log_start_offset == 0
            assert log_dir.log("t", 0).log_end_offset == 0
        assert bl.LogDirFiles(str(path)).log_start_offsets == {}


def test_producer_ids_that_a_cluster_may_give_are_kept_before_their_batches_are_written(tmp_path):
    data = tmp_path / "data"
    with bl.create_log_dir(data) as log_dir:
        log_dir.create_topic("t")
        log = log_dir.log("t", 0)
        log.append(batch(0, [b"1"], producer_id=5000, producer_epoch=0, base_sequence=0))
        # A broker that starts after a kill finds it, too.
        assert bootstrap(str(data), 1).next_producer_id == 6000
    with bl.Producer(data, "t", idempotent=True, producer_id=6000) as producer:
        assert bootstrap(str(data), 1).next_producer_id == 7000
        producer.send([{"value": b"v"}])
    with bl.Producer(data, "t", transactional_id="x") as producer, producer.transaction():
        producer.send([{"value": b"v"}])
    assert bootstrap(str(data), 1).next_producer_id == 7000


@pytest.mark.parametrize("days", [0, 400])
def test_producer_ids_in_files_that_were_put_there_are_kept(tmp_path, days):
    """Those of producers that have expired, too: a broker may keep them longer."""
    timestamp = time.time_ns() // 1_000_000 - days * 86_400_000
    with bl.create_log_dir(tmp_path / "from") as log_dir:
        log_dir.create_topic("t")
        log = log_dir.log("t", 0)
        log.append(batch(0, [b"1"], timestamp=timestamp, producer_id=5000, producer_epoch=0, base_sequence=0))
    with bl.create_log_dir(tmp_path / "to") as log_dir:
        log_dir.create_topic("t")
    for path in (tmp_path / "from/t-0").glob("0*"):
        shutil.copy2(path, tmp_path / "to/t-0")
    with bl.open_log_dir(tmp_path / "to") as log_dir:
        log_dir.log("t", 0)
    assert bootstrap(str(tmp_path / "to"), 1).next_producer_id == 6000


def test_where_nobody_knows_which_ids_a_cluster_gave_they_are_refused_unless_told(tmp_path):
    """A broker with ZooKeeper starts again from 0 too, and nothing here could tell it."""
    data = tmp_path / "data"
    content = batch(0, [b"1"], producer_id=5000, producer_epoch=0, base_sequence=0)
    with bl.create_log_dir(data, kraft=False) as log_dir:
        log_dir.create_topic("t")
        log = log_dir.log("t", 0)
        for append in (log.append, log.append_each, log.append_as_follower):
            with pytest.raises(ValueError, match=r"no metadata log that says .* --drop producers"):
                append(content)
        assert log.log_end_offset == 0
    with (
        bl.open_log_dir(data, next_producer_id=5000) as log_dir,
        pytest.raises(ValueError, match="will assign this id"),
    ):
        log_dir.log("t", 0).append(content)
    with bl.open_log_dir(data, next_producer_id=5001) as log_dir:
        assert log_dir.log("t", 0).append(content).last_offset == 0
