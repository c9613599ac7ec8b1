"""The topics of a write: those that are named, as they are described, and those that rows name."""

import os
import shutil

import pytest

import brokerless as bl
from brokerless.log_dir.topics import NewTopic
from brokerless.staging.atomic_write import AtomicWrite
from brokerless.staging.parts import Encoding
from support.log_files import NOW, batch
from support.write_tasks import begin, begin_any, send, small_log, values, written

TOPIC_ID = "AAECAwQFBgcICQoLDA0ODw"


def test_no_rows_still_make_the_topic(tmp_path):
    written(tmp_path / "d", partitions=3)
    assert len(bl.LogDirs(tmp_path / "d").logs(["t"])) == 3
    written(tmp_path / "d")
    assert values(tmp_path / "d") == []
    assert not list((tmp_path / "d").glob("*-delete"))


@pytest.mark.parametrize(
    ("begins", "message"),
    [
        (begin, "topic 't' has 1 partition, not 3"),
        (begin_any, "divided among 3 partitions of topic 't', which now has 1"),
    ],
)
def test_a_topic_with_other_partitions_than_rows_were_divided_among_is_refused(tmp_path, begins, message):
    """A key's rows would be in two of them."""
    write, staging = begins(tmp_path / "d", partitions=3)
    parts = send(staging, 3, topic=["t"])
    written(tmp_path / "d", 2)
    with pytest.raises(ValueError, match=message):
        write.commit(parts)
    write.abort()
    assert values(tmp_path / "d") == [2]


@pytest.mark.parametrize("begins", [begin, begin_any])
def test_two_writes_that_make_one_topic_both_come_into_force(tmp_path, begins):
    """The second comes upon what it would have made itself."""
    writes = [begins(tmp_path / "d", partitions=1) for _ in range(2)]
    for number, (write, staging) in enumerate(writes):
        write.commit(send(staging, number, topic=["t"]))
    assert values(tmp_path / "d") == [0, 1]


def test_a_topic_made_meanwhile_with_other_settings_is_refused(tmp_path):
    """As it is where the write begins: its rows could be deleted where they were to be compacted."""
    write, staging = begin(tmp_path / "d", config={"cleanup_policy": "compact"})
    parts = send(staging, 3, key=[b"k"])
    written(tmp_path / "d", 2)
    with pytest.raises(ValueError, match="has cleanup_policy=delete, not compact"):
        write.commit(parts)
    write.abort()
    assert values(tmp_path / "d") == [2]


def test_overwriting_forgets_what_was_known_of_the_old_topic(tmp_path):
    written(tmp_path / "d", *range(100))
    with bl.open_log_dir(tmp_path / "d") as log_dir:
        log_dir.log("t", 0).run(bl.Retention(before_offset=60))
    written(tmp_path / "d", 1, 2, overwrite=True)
    assert values(tmp_path / "d") == [1, 2]
    assert bl.LogDirFiles(str(tmp_path / "d")).log_start_offsets == {}
    assert bl.LogDirFiles(str(tmp_path / "d")).recovery_points == {("t", 0): 2}
    with bl.open_log_dir(tmp_path / "d") as log_dir:
        assert log_dir.log("t", 0).log_end_offset == 2


def test_what_cannot_be_is_refused_before_a_task_runs(tmp_path):
    written(tmp_path / "d", 1, topic_id=TOPIC_ID)
    for options, message in (
        ({"partitions": 2}, "has 1 partition, not 2"),
        ({"partitions": 0}, "1 to 100000 are allowed"),
        ({"topic_id": TOPIC_ID[::-1]}, "has the id AAEC"),
        ({"config": {"segment_bytes": 1 << 20}}, "has segment_bytes=1073741824, not 1048576"),
        ({"overwrite": True, "topic_id": TOPIC_ID}, "is the id of the old topic"),
        ({"config": {"segment_bytes": 1}}, "segment_bytes"),
        ({"overwrite": True, "others": NewTopic()}, "cannot overwrite topics that rows name"),
        ({"others": NewTopic(topic_id=TOPIC_ID)}, "belongs to one topic: name that topic"),
    ):
        with pytest.raises(ValueError, match=message):
            begin(tmp_path / "d", **options)
    for topic, message in (("__cluster_metadata", "Raft"), ("a b", "not a topic name"), ("", "not a topic name")):
        with pytest.raises(ValueError, match=message):
            begin(tmp_path / "d", topic)
    with pytest.raises(ValueError, match="cannot write to: s3://"):
        begin("s3://bucket/d")
    with pytest.raises(ValueError, match="the write has no topic"):
        AtomicWrite(path=str(tmp_path / "d"))
    with bl.open_log_dir(tmp_path / "d"), pytest.raises(bl.errors.LogInUseError):
        begin(tmp_path / "d")
    assert not list((tmp_path / "d").glob("*-delete"))


def test_a_cluster_that_has_started_gives_the_id(tmp_path, golden):
    shutil.copytree(golden / "logs/kafka-4.1", tmp_path / "d")
    with pytest.raises(ValueError, match="needs the topic id that it has in cluster"):
        begin(tmp_path / "d", sole_replica=True)
    with pytest.raises(ValueError, match="rows cannot go to topic 't': it does not exist"):
        send(begin_any(tmp_path / "d", sole_replica=True)[1], 1, topic=["t"])


def test_a_topic_may_be_described_again_as_it_is(tmp_path):
    described = {"partitions": 2, "topic_id": TOPIC_ID, "config": {"segment_bytes": 1 << 20}}
    written(tmp_path / "d", 1, **described)
    written(tmp_path / "d", 2, **described)
    assert sorted(values(tmp_path / "d")) == [1, 2]


def test_several_topics_are_made_as_each_is_described(tmp_path):
    topics = {"a": NewTopic(partitions=2, topic_id=TOPIC_ID), "b": NewTopic(config={"cleanup_policy": "compact"})}
    write = AtomicWrite(path=str(tmp_path / "d"), topics=topics)
    write.commit(send(write.begin(), 1, topic=["a"]))
    with bl.open_log_dir(tmp_path / "d") as log_dir:
        assert log_dir.partitions() == [("a", 0), ("a", 1), ("b", 0)]
        assert log_dir.log("b", 0).config.is_compacted
    assert bl.LogDirs(tmp_path / "d").log("a", 1).topic_id == TOPIC_ID


def test_rows_go_to_the_topics_that_they_name(tmp_path):
    written(tmp_path / "d", 1, partitions=2)
    topic_id = bl.LogDirs(tmp_path / "d").log("t", 0).topic_id
    long = "l" * 240
    write, staging = begin_any(tmp_path / "d", partitions=3, config={"segment_bytes": 1 << 20})
    write.commit([*send(staging, 2, 3, 4, 5, topic=["t", "u", "t", long]), *send(staging, 6, topic=["u"])])
    assert sorted(values(tmp_path / "d")) == [1, 2, 4]
    assert sorted(values(tmp_path / "d", "u")) == [3, 6]
    assert values(tmp_path / "d", long) == [5]
    found = bl.LogDirs(tmp_path / "d")
    assert [len(found.logs([topic])) for topic in ("t", "u", long)] == [2, 3, 3]
    assert found.log("t", 0).topic_id == topic_id
    assert len({log.topic_id for log in found.logs()}) == 3
    # those that were made are as they were asked for
    with bl.open_log_dir(tmp_path / "d") as log_dir:
        assert [log_dir.log(topic, 0).config.segment_bytes for topic in ("t", "u")] == [1 << 30, 1 << 20]


def test_rows_go_to_topics_of_a_cluster_that_has_started_if_it_has_them(tmp_path, golden):
    shutil.copytree(golden / "logs/kafka-4.1", tmp_path / "d")
    before = bl.LogDirs(tmp_path / "d").log("multi-partition", 0).log_end_offset
    write, staging = begin_any(tmp_path / "d", sole_replica=True)
    write.commit(send(staging, 1, topic=["multi-partition"], partition=[0]))
    assert bl.LogDirs(tmp_path / "d").log("multi-partition", 0).log_end_offset == before + 1


def test_the_column_of_topics_is_no_use_to_a_write_to_others(tmp_path):
    _, staging = begin(tmp_path / "d")
    with pytest.raises(ValueError, match="cannot go to topic 'u'"):
        send(staging, 1, topic=["u"])
    _, staging = begin_any(tmp_path / "d")
    for topics, message in (
        (["u", None], "1 rows have a null in column topic"),
        (["u", "a b"], "not a topic name"),
        (["u", "__cluster_metadata"], "cannot go to topic '__cluster_metadata'"),
        (["u", "__consumer_offsets"], "topic __consumer_offsets is internal to Kafka"),
    ):
        with pytest.raises(ValueError, match=message):
            send(staging, 1, 2, topic=topics)
    with pytest.raises(ValueError, match="no column topic"):
        send(staging, 1)


def test_topics_that_kafka_takes_for_one_are_refused(tmp_path):
    write, staging = begin_any(tmp_path / "d")
    parts = send(staging, 1, 2, topic=["a.b", "a_b"])
    with pytest.raises(ValueError, match="collides with topic"):
        write.commit(parts)
    write.abort()
    assert not list((tmp_path / "d").glob("*-delete"))
    assert bl.LogDirs(tmp_path / "d").topics() == []


def test_all_topics_or_none(tmp_path):
    write, staging = begin_any(tmp_path / "d")
    parts = send(staging, 1, "1" * 2_000_000, topic=["a", "b"])
    # Of many partitions, the one that it is about.
    with pytest.raises(bl.errors.RecordTooLargeError, match=r"^b-0: batch has"):
        write.commit(parts)
    write.abort()
    assert bl.LogDirs(tmp_path / "d").topics() == []


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_only_copies_are_written_to_topics_of_kafka(tmp_path, topic):
    """A coordinator that loads rows of anybody's own fails."""
    with pytest.raises(ValueError, match=f"topic {topic} is internal to Kafka: only rows"):
        begin(tmp_path / "d", topic)
    write, staging = begin(tmp_path / "d", topic, encoding=Encoding(keep_offsets=True))
    write.commit(send(staging, 1, offset=[7]))
    assert values(tmp_path / "d", topic) == [1]
    # one that is there already is no better, if rows name it
    with pytest.raises(ValueError, match="is internal to Kafka"):
        send(begin_any(tmp_path / "d")[1], 2, topic=[topic])


@pytest.fixture
def linked(tmp_path):
    """A disk that was full: the partition was moved, and a link left in its place."""
    small = small_log(tmp_path / "d")
    (small / "t-0").rename(tmp_path / "moved")
    (small / "t-0").symlink_to(tmp_path / "moved")
    return small


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_partition_behind_a_link_is_refused_before_anything_is_written(linked, overwrite):
    """A commit would put a directory in the place of the link: on the disk that was full."""
    before = sorted(linked.iterdir())
    with pytest.raises(ValueError, match=r"t-0 is a symbolic link: .* \S*/moved would not get the rows"):
        begin(linked, overwrite=overwrite)
    assert sorted(linked.iterdir()) == before
    written(linked, 1, topic="other")


def test_a_topic_behind_a_link_that_only_rows_name(linked, tmp_path):
    """Their tasks are refused, and so is the commit where the link came later."""
    staging = AtomicWrite(path=str(linked), others=NewTopic()).begin()
    with pytest.raises(ValueError, match="is a symbolic link"):
        send(staging, 1, topic=["t"])
    written(linked, 1, topic="u")
    write, staging = begin(linked, "u")
    parts = send(staging, 2)
    (linked / "u-0").rename(tmp_path / "u")
    (linked / "u-0").symlink_to(tmp_path / "u")
    with pytest.raises(ValueError, match="is a symbolic link"):
        write.commit(parts)
    assert (linked / "u-0").is_symlink()
    assert values(linked, "u") == [1]


def test_options_of_a_topic_may_stay_where_its_settings_are_not_told(tmp_path):
    """A directory of ZooKeeper's times does not say them, and a streaming query gives its options at every epoch."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=c\n")
    settings = {"message_timestamp_type": "LogAppendTime"}
    for value in (1, 2):
        written(tmp_path / "d", value, config=settings, sole_replica=True)
    assert values(tmp_path / "d") == [1, 2]
    found = bl.LogDirs(tmp_path / "d").log("t", 0).read(columns=["timestampType"])
    assert [kind for rows in found for kind in rows["timestampType"].to_pylist()] == [1, 1]


def test_a_link_where_a_new_partition_is_to_be_is_refused_before_anything_is_written(tmp_path):
    """A commit could never be carried out."""
    bl.create_log_dir(tmp_path / "d").close()
    (tmp_path / "d/t-1").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="t-1 is a symbolic link"):
        begin(tmp_path / "d", partitions=2)
    write, staging = begin_any(tmp_path / "d", partitions=2)
    parts = send(staging, 1, topic=["u"])
    (tmp_path / "d/u-1").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="u-1 is a symbolic link"):
        write.commit(parts)
    assert not (tmp_path / "d/.brokerless-journal").exists()


def test_a_new_topic_begins_at_0_whatever_checkpoints_say_of_an_old_one(tmp_path):
    """Its directories were removed by hand: the old log start offset would hide the new rows."""
    with bl.create_log_dir(tmp_path / "d", kraft=False) as log_dir:
        log_dir.create_topic("t")
        log_dir.log("t", 0).append(batch(0, [b"v"] * 9, timestamp=NOW))
        log_dir.log("t", 0).run(bl.Retention(before_offset=5))
    shutil.rmtree(tmp_path / "d/t-0")
    written(tmp_path / "d", 1, 2, sole_replica=True)
    assert values(tmp_path / "d") == [1, 2]
    assert bl.LogDirFiles(str(tmp_path / "d")).log_start_offsets == {}


def test_a_topic_that_only_the_metadata_of_a_new_cluster_have_has_its_id_there(tmp_path):
    with bl.create_log_dir(tmp_path / "d") as log_dir:
        topic_id = log_dir.create_topic("t")
    shutil.rmtree(tmp_path / "d/t-0")
    written(tmp_path / "d", 1, topic_id=topic_id)
    assert values(tmp_path / "d") == [1]


def test_what_is_no_file_in_a_partition_is_passed_over(tmp_path):
    """As where the log is opened, and by a broker."""
    written(tmp_path / "d", 1)
    (tmp_path / "d/t-0/gone.txt").symlink_to("nowhere")
    os.mkfifo(tmp_path / "d/t-0/pipe")
    written(tmp_path / "d", 2)
    bl.rewrite(bl.Retention(retention_ms=1 << 60), tmp_path / "d", topics=["t"], output=tmp_path / "copy")
    assert values(tmp_path / "d") == values(tmp_path / "copy") == [1, 2]


@pytest.mark.filterwarnings("ignore:settings of topics are not known")
def test_a_broker_that_was_started_meanwhile_is_what_is_told(tmp_path):
    """Not what it left, as topics that need ids now."""
    write, staging = begin(tmp_path / "d", sole_replica=True)
    parts = send(staging, 1)
    shutil.rmtree(staging.path)
    (tmp_path / "d/bootstrap.checkpoint").unlink()
    with pytest.raises(ValueError, match="is gone or changed: a broker was started meanwhile"):
        write.commit(parts)
