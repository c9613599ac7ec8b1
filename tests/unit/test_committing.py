"""A write by tasks: what is checked before it, what becomes of segments, and what a failure leaves."""

import shutil

import pyarrow as pa
import pytest

import brokerless as bl
from brokerless.committing import begin
from brokerless.parts import Encoding
from building import NOW, batch

TOPIC_ID = "AAECAwQFBgcICQoLDA0ODw"


def send(write, *values, **columns):
    task = write.writer()
    task.send(pa.RecordBatch.from_pydict({"value": [str(value).encode() for value in values], **columns}))
    return task.finish()


def written(path, *values, **options):
    write = begin(str(path), "t", **options)
    write.commit(send(write, *values))


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
    write = begin(str(small), "t")
    write.commit(send(write, 7, timestamp=[NOW]))
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
        write = begin(str(small), "t")
        with pytest.raises(bl.RecordTooLargeError):
            write.commit([*send(write, *range(number)), *send(write, "1" * 2_000_000)])
        write.abort()
        assert {file.name: file.read_bytes() for file in (small / "t-0").iterdir()} == before
    assert bl.Root(str(small)).is_clean
    assert not list(small.glob("*-delete"))


def test_segments_roll_as_appends_roll_them(tmp_path):
    written(tmp_path / "d", *range(1000), segment_bytes=1 << 20, encoding=Encoding(batch_size=1000))
    write = begin(str(tmp_path / "d"), "t", encoding=Encoding(batch_size=4000))
    write.commit(send(write, *(10**30 + number for number in range(40_000))))
    sizes = [segment.size for segment in bl.LogDir(tmp_path / "d").log("t", 0).segments]
    assert len(sizes) > 1
    assert max(sizes) <= 1 << 20
    assert len(values(tmp_path / "d")) == 41_000


def test_parts_come_in_the_order_of_tasks(tmp_path):
    write = begin(str(tmp_path / "d"), "t")
    parts = [send(write, number) for number in range(5)]
    write.commit(part for of_task in reversed(parts) for part in of_task)
    assert values(tmp_path / "d") == [4, 3, 2, 1, 0]


def test_an_attempt_that_nobody_speaks_of_does_not_count(tmp_path):
    write = begin(str(tmp_path / "d"), "t", encoding=Encoding(idempotent=True))
    send(write, 1)
    parts = send(write, 1)
    write.writer().send(pa.RecordBatch.from_pydict({"value": [b"2"]}))
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
    write = begin(str(tmp_path / "d"), "t")
    parts = send(write, 3)
    written(tmp_path / "d", 2)
    write.commit(parts)
    assert values(tmp_path / "d") == [1, 2, 3]


def test_a_topic_that_changed_meanwhile_is_refused(tmp_path):
    write = begin(str(tmp_path / "d"), "t")
    parts = send(write, 3)
    written(tmp_path / "d", 2)
    with pytest.raises(ValueError, match=r"had partitions \[\] when the write was begun, and has \[0\]"):
        write.commit(parts)
    write.abort()
    assert values(tmp_path / "d") == [2]


def test_offsets_have_to_be_apart(tmp_path):
    write = begin(str(tmp_path / "d"), "t", encoding=Encoding(keep_offsets=True))
    late, early = send(write, 7, 9, offset=[7, 9]), send(write, 2, 3, offset=[2, 3])
    between = send(write, 8, offset=[8])
    with pytest.raises(ValueError, match="offsets 8 to 8 of t-0 are to come behind 9"):
        write.commit([*late, *early, *between])
    write = begin(str(tmp_path / "d"), "t", encoding=Encoding(keep_offsets=True))
    write.commit([*send(write, 7, 9, offset=[7, 9]), *send(write, 2, 3, offset=[2, 3])])
    assert values(tmp_path / "d") == [2, 3, 7, 9]
    assert bl.LogDir(tmp_path / "d").log("t", 0).log_end_offset == 10
    write = begin(str(tmp_path / "d"), "t", encoding=Encoding(keep_offsets=True))
    for offsets in ([5, 5], [6, 5]):
        with pytest.raises(ValueError, match="do not rise: sort the rows"):
            send(write, 1, 2, offset=offsets)


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
    write = begin(str(tmp_path / "d"), "t")
    (part,) = send(write, 2)
    with open(part.path, "r+b") as file:
        file.truncate(part.size - 1)
    with pytest.raises(ValueError, match=f"has {part.size - 1} bytes, and its task wrote {part.size}"):
        write.commit([part])
    assert values(tmp_path / "d") == [1]


def test_tasks_have_to_see_the_directory(tmp_path):
    write = begin(str(tmp_path / "d"), "t")
    (tmp_path / "d").rename(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="a directory that the driver and all executors share"):
        write.writer()


def test_what_cannot_be_is_refused_before_a_task_runs(tmp_path):
    written(tmp_path / "d", 1, topic_id=TOPIC_ID)
    for options, message in (
        ({"partitions": 2}, "has 1 partitions, not 2"),
        ({"partitions": 0}, "at least 1 needed"),
        ({"topic_id": TOPIC_ID}, "exists: a topic id"),
        ({"segment_bytes": 1 << 20}, "exists: a topic id and segment sizes"),
        ({"overwrite": True, "topic_id": TOPIC_ID}, "is that of the old topic"),
        ({"overwrite": True, "segment_bytes": 1}, "segment_bytes"),
    ):
        with pytest.raises(ValueError, match=message):
            begin(str(tmp_path / "d"), "t", **options)
    for topic, message in (("__cluster_metadata", "Raft"), ("a b", "not a topic name"), ("", "not a topic name")):
        with pytest.raises(ValueError, match=message):
            begin(str(tmp_path / "d"), topic)
    with pytest.raises(ValueError, match="cannot write to s3://"):
        begin("s3://bucket/d", "t")
    with bl.LogDir.open(tmp_path / "d"), pytest.raises(bl.LogInUseError):
        begin(str(tmp_path / "d"), "t")
    assert not list((tmp_path / "d").glob("*-delete"))


def test_a_cluster_that_has_started_gives_the_id(tmp_path, golden):
    shutil.copytree(golden / "logs/kafka-4.1", tmp_path / "d")
    with pytest.raises(ValueError, match="needs the id that it has in cluster"):
        begin(str(tmp_path / "d"), "t", sole_replica=True)
