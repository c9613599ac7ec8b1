"""A write by tasks: what is checked before it, what becomes of segments, and what a failure leaves."""

import errno
import json
import os
import shutil
import threading
from dataclasses import asdict, replace

import pyarrow as pa
import pytest

import brokerless as bl
from brokerless import disk, staged_logs, storage
from brokerless.committing import Write
from brokerless.copying import StagedCopy
from brokerless.log import journal
from brokerless.log.streaming_epochs import FILE, Epoch, committed
from brokerless.parts import Encoding
from brokerless.written_topics import NewTopic
from building import NOW, batch

TOPIC_ID = "AAECAwQFBgcICQoLDA0ODw"


def begin(path, topic="t", *, partitions=None, topic_id=None, settings=None, **options):
    """Begin a write to one topic; return it, and where tasks write."""
    new = NewTopic(partitions=partitions, topic_id=topic_id, settings=settings or {})
    write = Write(path=str(path), topics={topic: new}, **options)
    return write, write.begin()


def send(staging, *values, **columns):
    task = staging.writer()
    task.send(pa.RecordBatch.from_pydict({"value": [str(value).encode() for value in values], **columns}))
    return task.finish()


def written(path, *values, **options):
    write, staging = begin(path, **options)
    write.commit(send(staging, *values))


def values(path, topic="t"):
    return [
        int(value)
        for log in bl.LogDir(path).logs([topic])
        for rows in log.read(columns=["value"])
        for value in rows["value"].to_pylist()
    ]


def bases(path):
    return [segment.base_offset for segment in bl.LogDir(path).log("t", 0).segments]


@pytest.fixture
def small(tmp_path):
    """A log of three segments, the last of them not full, and at rest."""
    with bl.LogDir.create(tmp_path / "d") as log_dir:
        log_dir.create_topic("t", segment_bytes=1000)
        for number in range(5):
            log_dir.log("t", 0).append(batch(0, [b"%d" % number] * 50, timestamp=NOW))
    assert bases(tmp_path / "d") == [0, 100, 200]
    return tmp_path / "d"


def inodes(path):
    return {file.name: file.stat().st_ino for file in (path / "t-0").glob("*.log")}


def test_what_is_small_joins_the_active_segment(small):
    before = inodes(small)
    write, staging = begin(small)
    write.commit(send(staging, 7, timestamp=[NOW]))
    assert bases(small) == [0, 100, 200]
    after = inodes(small)
    # those that did not change were not copied
    assert [name for name in before if before[name] != after[name]] == ["00000000000000000200.log"]
    assert values(small)[-1] == 7
    assert bl.LogDir(small).log("t", 0).log_end_offset == 251


def test_what_is_large_begins_a_segment(small):
    before = inodes(small)
    written(small, *range(40))
    assert bases(small) == [0, 100, 200, 250]
    assert before.items() <= inodes(small).items()
    assert values(small)[250:] == list(range(40))


def test_a_copied_log_does_not_write_into_the_old_one(small):
    """Until the commit the old files are those of the log, byte for byte."""
    before = {file.name: file.read_bytes() for file in (small / "t-0").iterdir()}
    for number in (1, 40):
        write, staging = begin(small)
        with pytest.raises(bl.RecordTooLargeError):
            write.commit([*send(staging, *range(number)), *send(staging, "1" * 2_000_000)])
        write.abort()
        assert {file.name: file.read_bytes() for file in (small / "t-0").iterdir()} == before
    assert bl.Root(str(small)).is_clean
    assert not list(small.glob("*-delete"))


def test_segments_roll_as_appends_roll_them(tmp_path):
    written(tmp_path / "d", *range(1000), settings={"segment_bytes": 1 << 20}, encoding=Encoding(batch_size=1000))
    write, staging = begin(tmp_path / "d", encoding=Encoding(batch_size=4000))
    write.commit(send(staging, *(10**30 + number for number in range(40_000))))
    sizes = [segment.size for segment in bl.LogDir(tmp_path / "d").log("t", 0).segments]
    assert len(sizes) > 1
    assert max(sizes) <= 1 << 20
    assert len(values(tmp_path / "d")) == 41_000


def test_parts_come_in_the_order_of_tasks(tmp_path):
    write, staging = begin(tmp_path / "d")
    parts = [send(staging, number) for number in range(5)]
    write.commit(part for of_task in reversed(parts) for part in of_task)
    assert values(tmp_path / "d") == [4, 3, 2, 1, 0]


def test_an_attempt_that_nobody_speaks_of_does_not_count(tmp_path):
    write, staging = begin(tmp_path / "d", encoding=Encoding(idempotent=True))
    send(staging, 1)
    parts = send(staging, 1)
    staging.writer().send(pa.RecordBatch.from_pydict({"value": [b"2"]}))
    write.commit(parts)
    assert values(tmp_path / "d") == [1]


def test_no_rows_still_make_the_topic(tmp_path):
    written(tmp_path / "d", partitions=3)
    assert len(bl.LogDir(tmp_path / "d").logs(["t"])) == 3
    written(tmp_path / "d")
    assert values(tmp_path / "d") == []
    assert not list((tmp_path / "d").glob("*-delete"))


def test_what_else_was_written_meanwhile_comes_first(tmp_path):
    written(tmp_path / "d", 1)
    write, staging = begin(tmp_path / "d")
    parts = send(staging, 3)
    written(tmp_path / "d", 2)
    write.commit(parts)
    assert values(tmp_path / "d") == [1, 2, 3]


def test_a_topic_that_changed_meanwhile_is_refused(tmp_path):
    write, staging = begin(tmp_path / "d")
    parts = send(staging, 3)
    written(tmp_path / "d", 2)
    with pytest.raises(ValueError, match=r"had other partitions when the write was begun \(0 of them, now 1\)"):
        write.commit(parts)
    write.abort()
    assert values(tmp_path / "d") == [2]


def test_offsets_have_to_be_apart(tmp_path):
    write, staging = begin(tmp_path / "d", encoding=Encoding(keep_offsets=True))
    late, early = send(staging, 7, 9, offset=[7, 9]), send(staging, 2, 3, offset=[2, 3])
    between = send(staging, 8, offset=[8])
    with pytest.raises(ValueError, match="offsets 8 to 8 of t-0 are to come behind 9"):
        write.commit([*late, *early, *between])
    write, staging = begin(tmp_path / "d", encoding=Encoding(keep_offsets=True))
    write.commit([*send(staging, 7, 9, offset=[7, 9]), *send(staging, 2, 3, offset=[2, 3])])
    assert values(tmp_path / "d") == [2, 3, 7, 9]
    assert bl.LogDir(tmp_path / "d").log("t", 0).log_end_offset == 10
    write, staging = begin(tmp_path / "d", encoding=Encoding(keep_offsets=True))
    for offsets in ([5, 5], [6, 5]):
        with pytest.raises(ValueError, match="do not rise: sort the rows"):
            send(staging, 1, 2, offset=offsets)


def test_overwriting_forgets_what_was_known_of_the_old_topic(tmp_path):
    written(tmp_path / "d", *range(100))
    with bl.LogDir.open(tmp_path / "d") as log_dir:
        log_dir.log("t", 0).delete_records(60)
    written(tmp_path / "d", 1, 2, overwrite=True)
    assert values(tmp_path / "d") == [1, 2]
    assert bl.Root(str(tmp_path / "d")).log_start_offsets == {}
    assert bl.Root(str(tmp_path / "d")).recovery_points == {("t", 0): 2}
    with bl.LogDir.open(tmp_path / "d") as log_dir:
        assert log_dir.log("t", 0).log_end_offset == 2


def test_a_part_that_is_cut_is_refused(tmp_path):
    written(tmp_path / "d", 1)
    write, staging = begin(tmp_path / "d")
    (part,) = send(staging, 2)
    with open(part.path, "r+b") as file:
        file.truncate(part.size - 1)
    with pytest.raises(ValueError, match=f"has {part.size - 1} bytes, and its task wrote {part.size}"):
        write.commit([part])
    assert values(tmp_path / "d") == [1]


def test_a_batch_may_be_longer_than_what_is_read_at_a_time(tmp_path, monkeypatch):
    """Blocks end within batches, within headers, and hold none whole: each row comes once all the same."""
    monkeypatch.setattr(staged_logs, "_BLOCK", 100)
    for first, kept in ((0, {}), (300, {"keep_offsets": True})):
        numbers = list(range(first, first + 300))
        write, staging = begin(tmp_path / "d", encoding=Encoding(batch_size=500, **kept))
        columns = {"offset": pa.array(numbers, pa.int64())} if kept else {}
        write.commit(send(staging, *numbers, **columns))
    assert values(tmp_path / "d") == list(range(600))


def test_a_part_that_ends_within_a_batch_is_refused(tmp_path):
    write, staging = begin(tmp_path / "d")
    (part,) = send(staging, 1)
    with open(part.path, "r+b") as file:
        file.truncate(part.size - 1)
    with pytest.raises(ValueError, match="ends in the middle of a batch"):
        write.commit([replace(part, size=part.size - 1)])


def test_a_part_that_is_cut_while_it_is_read(tmp_path, monkeypatch):
    write, staging = begin(tmp_path / "d")
    (part,) = send(staging, 1)
    size = storage.File.size

    def cut_behind_it(file):
        found = size(file)
        if found == part.size:
            os.truncate(part.path, found - 1)
        return found

    monkeypatch.setattr(storage.File, "size", cut_behind_it)
    with pytest.raises(ValueError, match="is cut while it is read"):
        write.commit([part])


def test_tasks_have_to_see_the_directory(tmp_path):
    _, staging = begin(tmp_path / "d")
    (tmp_path / "d").rename(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="a directory that the driver and all executors share"):
        staging.writer()


def test_what_cannot_be_is_refused_before_a_task_runs(tmp_path):
    written(tmp_path / "d", 1, topic_id=TOPIC_ID)
    for options, message in (
        ({"partitions": 2}, "has 1 partitions, not 2"),
        ({"partitions": 0}, "at least 1 needed"),
        ({"topic_id": TOPIC_ID[::-1]}, "has the id AAEC"),
        ({"settings": {"segment_bytes": 1 << 20}}, "has segment_bytes=1073741824, not 1048576"),
        ({"overwrite": True, "topic_id": TOPIC_ID}, "is that of the old topic"),
        ({"settings": {"segment_bytes": 1}}, "segment_bytes"),
        ({"overwrite": True, "others": NewTopic()}, "only topics that are named are overwritten"),
        ({"others": NewTopic(topic_id=TOPIC_ID)}, "is one topic's: name the topic"),
    ):
        with pytest.raises(ValueError, match=message):
            begin(tmp_path / "d", **options)
    for topic, message in (("__cluster_metadata", "Raft"), ("a b", "not a topic name"), ("", "not a topic name")):
        with pytest.raises(ValueError, match=message):
            begin(tmp_path / "d", topic)
    with pytest.raises(ValueError, match="cannot write to s3://"):
        begin("s3://bucket/d")
    with pytest.raises(ValueError, match="a write to no topic"):
        Write(path=str(tmp_path / "d"))
    with bl.LogDir.open(tmp_path / "d"), pytest.raises(bl.LogInUseError):
        begin(tmp_path / "d")
    assert not list((tmp_path / "d").glob("*-delete"))


def test_a_cluster_that_has_started_gives_the_id(tmp_path, golden):
    shutil.copytree(golden / "logs/kafka-4.1", tmp_path / "d")
    with pytest.raises(ValueError, match="needs the id that it has in cluster"):
        begin(tmp_path / "d", sole_replica=True)
    with pytest.raises(ValueError, match="rows cannot go to topic 't': it is not there"):
        send(begin_any(tmp_path / "d", sole_replica=True)[1], 1, topic=["t"])


def test_a_topic_may_be_described_again_as_it_is(tmp_path):
    described = {"partitions": 2, "topic_id": TOPIC_ID, "settings": {"segment_bytes": 1 << 20}}
    written(tmp_path / "d", 1, **described)
    written(tmp_path / "d", 2, **described)
    assert sorted(values(tmp_path / "d")) == [1, 2]


def begin_any(path, *, partitions=None, settings=None, **options):
    """Begin a write to the topics that rows name; return it, and where tasks write."""
    write = Write(path=str(path), others=NewTopic(partitions=partitions, settings=settings or {}), **options)
    return write, write.begin()


def test_rows_go_to_the_topics_that_they_name(tmp_path):
    written(tmp_path / "d", 1, partitions=2)
    topic_id = bl.LogDir(tmp_path / "d").log("t", 0).topic_id
    long = "l" * 240
    write, staging = begin_any(tmp_path / "d", partitions=3, settings={"segment_bytes": 1 << 20})
    write.commit([*send(staging, 2, 3, 4, 5, topic=["t", "u", "t", long]), *send(staging, 6, topic=["u"])])
    assert sorted(values(tmp_path / "d")) == [1, 2, 4]
    assert sorted(values(tmp_path / "d", "u")) == [3, 6]
    assert values(tmp_path / "d", long) == [5]
    found = bl.LogDir(tmp_path / "d")
    assert [len(found.logs([topic])) for topic in ("t", "u", long)] == [2, 3, 3]
    assert found.log("t", 0).topic_id == topic_id
    assert len({log.topic_id for log in found.logs()}) == 3
    # those that were made are as they were asked for
    with bl.LogDir.open(tmp_path / "d") as log_dir:
        assert [log_dir.log(topic, 0).settings.segment_bytes for topic in ("t", "u")] == [1 << 30, 1 << 20]


def test_the_column_of_topics_is_no_use_to_a_write_to_others(tmp_path):
    _, staging = begin(tmp_path / "d")
    with pytest.raises(ValueError, match="cannot go to topic 'u'"):
        send(staging, 1, topic=["u"])
    _, staging = begin_any(tmp_path / "d")
    for topics, message in (
        (["u", None], "1 rows have a null in column topic"),
        (["u", "a b"], "not a topic name"),
        (["u", "__cluster_metadata"], "cannot go to topic '__cluster_metadata'"),
        (["u", "__consumer_offsets"], "topic __consumer_offsets is Kafka's own"),
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
    assert bl.LogDir(tmp_path / "d").topics() == []


def test_all_topics_or_none(tmp_path):
    write, staging = begin_any(tmp_path / "d")
    parts = send(staging, 1, "1" * 2_000_000, topic=["a", "b"])
    with pytest.raises(bl.RecordTooLargeError):
        write.commit(parts)
    write.abort()
    assert bl.LogDir(tmp_path / "d").topics() == []


def test_a_named_topic_that_was_made_meanwhile_is_refused(tmp_path):
    write, staging = begin_any(tmp_path / "d", partitions=2)
    parts = send(staging, 3, topic=["t"])
    written(tmp_path / "d", 2)
    with pytest.raises(
        ValueError, match=r"topic 't' had other partitions when the write was begun \(0 of them, now 1\)"
    ):
        write.commit(parts)


def test_several_topics_are_made_as_each_is_described(tmp_path):
    topics = {"a": NewTopic(partitions=2, topic_id=TOPIC_ID), "b": NewTopic(settings={"cleanup_policy": "compact"})}
    write = Write(path=str(tmp_path / "d"), topics=topics)
    write.commit(send(write.begin(), 1, topic=["a"]))
    with bl.LogDir.open(tmp_path / "d") as log_dir:
        assert log_dir.partitions() == [("a", 0), ("a", 1), ("b", 0)]
        assert log_dir.log("b", 0).settings.is_compacted
    assert bl.LogDir(tmp_path / "d").log("a", 1).topic_id == TOPIC_ID


def test_an_epoch_is_in_force_once(tmp_path):
    for number, query, value in ((0, "q", 1), (1, "q", 2), (1, "q", 2), (0, "other", 3), (1, "q", 2), (2, "q", 4)):
        write, staging = begin(tmp_path / "d")
        write.commit(send(staging, value), epoch=Epoch(query, number))
        assert not list((tmp_path / "d").glob("*-delete"))
    assert values(tmp_path / "d") == [1, 2, 3, 4]
    assert committed(str(tmp_path / "d")) == {"q": 2, "other": 0}
    assert bl.Root(str(tmp_path / "d")).is_clean


def test_a_copy_of_the_directory_knows_the_epochs(tmp_path):
    write, staging = begin(tmp_path / "d")
    write.commit(send(staging, 1), epoch=Epoch("q", 0))
    with StagedCopy(str(tmp_path / "copy")) as copy:
        copy.add_root(str(tmp_path / "d"), [("t", 0)])
        copy.publish()
    assert committed(str(tmp_path / "copy")) == {"q": 0}


def test_rows_go_to_topics_of_a_cluster_that_has_started_if_it_has_them(tmp_path, golden):
    shutil.copytree(golden / "logs/kafka-4.1", tmp_path / "d")
    before = bl.LogDir(tmp_path / "d").log("multi-partition", 0).log_end_offset
    write, staging = begin_any(tmp_path / "d", sole_replica=True)
    write.commit(send(staging, 1, topic=["multi-partition"], partition=[0]))
    assert bl.LogDir(tmp_path / "d").log("multi-partition", 0).log_end_offset == before + 1


def test_an_epoch_that_is_older_than_the_last_is_an_error(tmp_path):
    for number in range(2):
        write, staging = begin(tmp_path / "d")
        write.commit(send(staging, number), epoch=Epoch("q", number))
    write, staging = begin(tmp_path / "d")
    with pytest.raises(ValueError, match="and comes with epoch 0: its checkpoint"):
        write.commit(send(staging, 2), epoch=Epoch("q", 0))
    assert values(tmp_path / "d") == [0, 1]


@pytest.mark.parametrize(("before", "number", "known"), [([0], 2, "knows its epochs up to 0"), ([], 1, "knows none")])
def test_an_epoch_whose_predecessor_is_missing_is_an_error(tmp_path, before, number, known):
    """The log directory is an older copy, or was emptied: rows would be missing, and nobody told."""
    for earlier in before:
        write, staging = begin(tmp_path / "d")
        write.commit(send(staging, earlier), epoch=Epoch("q", earlier))
    write, staging = begin(tmp_path / "d")
    with pytest.raises(ValueError, match=f"with epoch {number}, .*{known}.*with a new checkpointLocation"):
        write.commit(send(staging, 2), epoch=Epoch("q", number))
    assert committed(str(tmp_path / "d")) == dict.fromkeys(["q"][: len(before)], 0)


def test_an_epoch_without_rows_counts_too(tmp_path):
    for number in (0, 1):
        write, staging = begin_any(tmp_path / "d")
        write.commit(send(staging, topic=[]), epoch=Epoch("q", number))
        assert committed(str(tmp_path / "d")) == {"q": number}
    assert bl.LogDir(tmp_path / "d").topics() == []
    assert not (tmp_path / "d" / journal.NAME).exists()


def test_an_epoch_may_make_the_topic_anew(tmp_path):
    for number, held in enumerate([[1, 2], [3], []]):
        write, staging = begin(tmp_path / "d", overwrite=True, partitions=2)
        write.commit(send(staging, *held), epoch=Epoch("q", number))
        assert sorted(values(tmp_path / "d")) == held


def test_others_may_write_between_epochs_and_partitions_may_come(tmp_path):
    write, staging = begin(tmp_path / "d")
    write.commit(send(staging, 1), epoch=Epoch("q", 0))
    written(tmp_path / "d", 2)
    written(tmp_path / "d", 3, overwrite=True, partitions=3)
    write, staging = begin(tmp_path / "d")
    write.commit(send(staging, 4, partition=[2]), epoch=Epoch("q", 1))
    assert values(tmp_path / "d")[-1] == 4
    assert len(bl.LogDir(tmp_path / "d").logs(["t"])) == 3


def test_epochs_do_not_copy_a_large_segment_each_time(small, monkeypatch):
    monkeypatch.setattr(staged_logs, "_MOST_FOR_EPOCH", 100)
    for number in range(4):
        write, staging = begin(small)
        write.commit(send(staging, number), epoch=Epoch("q", number))
    assert bases(small) == [0, 100, 200, 250, 252]
    assert values(small)[250:] == [0, 1, 2, 3]


def test_a_commit_waits_for_another_writer(tmp_path):
    written(tmp_path / "d", 1)
    write, staging = begin(tmp_path / "d")
    parts = send(staging, 2)
    holder = bl.LogDir.open(tmp_path / "d")
    with pytest.raises(bl.LogInUseError):
        write.commit(parts, patience=0.1)
    with pytest.raises(bl.LogInUseError):
        write.begin(patience=0.1)
    closing = threading.Timer(0.2, holder.close)
    closing.start()
    write.commit(parts, patience=60)
    closing.join()
    assert values(tmp_path / "d") == [1, 2]


def test_what_an_owner_left_is_removed_by_its_next_commit(tmp_path):
    """A driver that died says nothing; another one's directory stays, which may be in use."""
    written(tmp_path / "d", 0)
    left, _ = begin(tmp_path / "d", owner="/checkpoints/q")
    other, staging = begin(tmp_path / "d", owner="/checkpoints/other")
    nobodys, _ = begin(tmp_path / "d")
    write, of_write = begin(tmp_path / "d", owner="/checkpoints/q")
    write.commit(send(of_write, 1), epoch=Epoch("q", 0))
    assert sorted(path.name for path in (tmp_path / "d").glob("*-delete")) == sorted([other.staging, nobodys.staging])
    other.commit(send(staging, 2))
    # one that was still at it comes too late
    with pytest.raises(ValueError, match="is gone or changed"):
        left.commit([])
    assert sorted(values(tmp_path / "d")) == [0, 1, 2]


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"version": 2, "epochs": {}}', "[" * 100_000]
    + [f'{{"version": 1, "epochs": {{"q": {number}}}}}' for number in ("[]", "-1", "0.5", "1e999", "true", '"3"')],
)
def test_epochs_that_cannot_be_read_stop_a_query(tmp_path, content):
    written(tmp_path / "d", 1)
    (tmp_path / "d" / FILE).write_text(content)
    write, staging = begin(tmp_path / "d")
    with pytest.raises(bl.CorruptRecordError, match="epochs of streaming queries cannot be read"):
        write.commit(send(staging, 2), epoch=Epoch("q", 0))
    write.commit(send(staging, 3))
    assert values(tmp_path / "d") == [1, 3]


@pytest.fixture
def linked(small, tmp_path):
    """A disk that was full: the partition was moved, and a link left in its place."""
    (small / "t-0").rename(tmp_path / "moved")
    (small / "t-0").symlink_to(tmp_path / "moved")
    return small


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_partition_behind_a_link_is_refused_before_anything_is_written(linked, overwrite):
    """A commit would put a directory in the place of the link: on the disk that was full."""
    before = sorted(linked.iterdir())
    with pytest.raises(ValueError, match=r"t-0 is a symbolic link: .* leave \S*/moved behind"):
        begin(linked, overwrite=overwrite)
    assert sorted(linked.iterdir()) == before
    written(linked, 1, topic="other")


def test_a_topic_behind_a_link_that_only_rows_name(linked, tmp_path):
    """Their tasks are refused, and so is the commit where the link came later."""
    staging = Write(path=str(linked), others=NewTopic()).begin()
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


def test_a_part_is_as_small_as_its_topic_has_partitions(tmp_path):
    """There is one for each task and partition: each with all partitions would be too much for any driver."""

    def part(partitions):
        path = tmp_path / str(partitions)
        with bl.LogDir.create(path) as log_dir:
            log_dir.create_topic("t", partitions=partitions)
        (part,) = send(begin(path)[1], 1)
        return part

    assert len(json.dumps(asdict(part(200)))) < len(json.dumps(asdict(part(2)))) + 20


def failing(monkeypatch, path, to_fail):
    """Let calls of `brokerless.disk` fail once rows are in force: those for whose name and path this is true."""
    in_force = []

    def patch(name, of):
        def call(first, *others):
            in_force.extend([name] if (path / journal.NAME).exists() else [])
            if in_force and to_fail(name, first.removeprefix(f"{path}/")):
                raise OSError(errno.EIO, "disk", first)
            return of(first, *others)

        monkeypatch.setattr(disk, name, call)

    for name in ("remove_tree", "rename", "sync_directory", "atomic_write"):
        patch(name, getattr(disk, name))


@pytest.mark.parametrize(
    "to_fail",
    {
        "the old directory": lambda name, path: name == "remove_tree" and path.startswith("t-0."),
        "a move": lambda name, path: name == "rename" and path.startswith(journal.NAME),
        "the commit's own name": lambda name, path: name == "sync_directory",
        "checkpoints": lambda name, path: name == "atomic_write",
        "an earlier write of the owner": lambda name, path: name == "remove_tree" and path.startswith("brokerless-0"),
    }.items(),
    ids=lambda item: item[0],
)
def test_what_fails_once_rows_are_in_force_does_not_fail_the_write(tmp_path, monkeypatch, to_fail):
    """Else the job is done again, and its rows are there twice."""
    path = tmp_path / "d"
    written(path, 1)
    begin(path, owner="q")
    write, staging = begin(path, owner="q")
    parts = send(staging, 2)
    with monkeypatch.context() as patched:
        failing(patched, path, to_fail[1])
        with pytest.warns(UserWarning, match=r"\[Errno 5\] disk"):
            write.commit(parts)
    assert values(path) == [1, 2]
    written(path, 3)
    assert values(path) == [1, 2, 3]
    assert not (path / journal.NAME).exists()


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_only_copies_are_written_to_topics_of_kafka(tmp_path, topic):
    """A coordinator that loads rows of anybody's own fails."""
    with pytest.raises(ValueError, match=f"topic {topic} is Kafka's own: only copies"):
        begin(tmp_path / "d", topic)
    write, staging = begin(tmp_path / "d", topic, encoding=Encoding(keep_offsets=True))
    write.commit(send(staging, 1, offset=[7]))
    assert values(tmp_path / "d", topic) == [1]
    # one that is there already is no better, if rows name it
    with pytest.raises(ValueError, match="is Kafka's own"):
        send(begin_any(tmp_path / "d")[1], 2, topic=[topic])


def test_what_a_query_left_is_removed_by_its_next_epoch_and_by_no_other(tmp_path):
    """Checkpoints of two queries may have the same relative path, and the queries the same name."""

    def task(query):
        write, staging = begin(tmp_path / "d")
        writer = staging.writer(query)
        writer.send(pa.RecordBatch.from_pydict({"value": [b"1"]}))
        return write, writer

    written(tmp_path / "d", 0)
    left, late = task("q")
    other, of_other = task("other")
    write, writer = task("q")
    write.commit(writer.finish(), epoch=Epoch("q", 0))
    assert [path.name for path in (tmp_path / "d").glob("*-delete")] == [other.staging]
    other.commit(of_other.finish(), epoch=Epoch("other", 0))
    assert values(tmp_path / "d") == [0, 1, 1]
    # one that is still at it is told
    with pytest.raises(ValueError, match=f"{left.staging} is gone: .* or the streaming query a second time"):
        late.finish()
