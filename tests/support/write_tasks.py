"""A write by tasks, all of it in this process."""

import pyarrow as pa

import brokerless as bl
from brokerless.log_dir.topics import NewTopic
from brokerless.staging.atomic_write import AtomicWrite
from support.log_files import NOW, batch


def begin(path, topic="t", *, partitions=None, topic_id=None, config=None, **options):
    """Begin a write to one topic; return it, and where tasks write."""
    new = NewTopic(partitions=partitions, topic_id=topic_id, config=config or {})
    write = AtomicWrite(path=str(path), topics={topic: new}, **options)
    return write, write.begin()


def begin_any(path, *, partitions=None, config=None, **options):
    """Begin a write to the topics that rows name; return it, and where tasks write."""
    write = AtomicWrite(path=str(path), others=NewTopic(partitions=partitions, config=config or {}), **options)
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
        for log in bl.LogDirs(path).logs([topic])
        for rows in log.read(columns=["value"])
        for value in rows["value"].to_pylist()
    ]


def bases(path):
    return [segment.base_offset for segment in bl.LogDirs(path).log("t", 0).segments]


def small_log(path):
    """Make topic `t` with a log of three segments, the last of them not full, and at rest."""
    with bl.create_log_dir(path) as log_dir:
        log_dir.create_topic("t", segment_bytes=1000)
        for number in range(5):
            log_dir.log("t", 0).append(batch(0, [b"%d" % number] * 50, timestamp=NOW))
    assert bases(path) == [0, 100, 200]
    return path
