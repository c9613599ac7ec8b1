"""What tasks wrote, in the hands of a real broker: alone in a new directory, and behind its own records."""

import subprocess
import sys

import killed_commits
import pyarrow as pa
import pytest
from filling import ISOLATION_LEVELS, check_with_dump_tool, seen
from kafka import Broker, complaints

import brokerless as bl
from brokerless.io import storage
from brokerless.layout import commit_journal
from brokerless.layout.streaming_epochs import Epoch, committed
from brokerless.log_dir.topics import NewTopic
from brokerless.staging.atomic_write import AtomicWrite
from brokerless.staging.parts import Encoding
from support.polling import until


def write_tasks(path, topic, tasks=3, *, value_size=0, partitions=None, config=None, epoch=None, **options):
    """Write 100 rows a task, each with a key; one more task fails, and another is done twice."""
    new = NewTopic(partitions=partitions, config=config or {})
    write = AtomicWrite(path=str(path), topics={topic: new}, sole_replica=True, **options)
    staging = write.begin()
    parts = []
    for number in [*range(tasks), tasks - 1]:
        task = staging.writer()
        values = [b"%d-%d" % (number, row) for row in range(100)]
        padded = [value.ljust(value_size, b".") for value in values]
        task.send(pa.RecordBatch.from_pydict({"key": values, "value": padded}))
        parts.append(task.finish())
    staging.writer().send(pa.RecordBatch.from_pydict({"value": [b"never"] * 10}))
    write.commit((part for of_task in parts[:tasks] for part in of_task), epoch=epoch)


def serve(client, path, topics, log):
    """Start a broker; compare what its clients read with what we read; return what it said."""
    before = {topic: seen(path, topic) for topic in topics}
    for found in bl.LogDirs(path).logs(topics):
        check_with_dump_tool(client, path / found.name)
    with Broker(path, log=log) as broker:
        for topic in topics:
            for level in ISOLATION_LEVELS:
                assert client.consume(broker, topic, level) == before[topic][level]
            client.produce(broker, topic, 0, 20)
        said = broker.log
    assert complaints(said) == []
    assert "Skipping recovery of" in said
    return before


@pytest.mark.parametrize(
    "encoding",
    [Encoding(), Encoding(compression="zstd", idempotent=True), Encoding(compression="lz4", transactional=True)],
    ids=["plain", "idempotent", "transactional"],
)
def test_a_new_cluster_serves_what_tasks_wrote(client, tmp_path, encoding):
    data = tmp_path / "data"
    write_tasks(data, "t", partitions=2, encoding=encoding, config={"segment_bytes": 1 << 20})
    write_tasks(data, "t", encoding=encoding)
    write_tasks(data, "u", partitions=1)
    write_tasks(data, "u", partitions=2, overwrite=True, encoding=encoding)
    before = serve(client, data, ["t", "u"], tmp_path / "broker.log")
    assert len(before["t"]["read_committed"]) == 600
    assert len(before["u"]["read_committed"]) == 300


@pytest.mark.parametrize("transactional", [False, True])
def test_a_broker_serves_the_segments_that_parts_became(client, tmp_path, transactional):
    data = tmp_path / "data"
    encoding = Encoding(idempotent=True, transactional=transactional)
    for _ in range(2):
        write_tasks(data, "t", value_size=30_000, partitions=2, encoding=encoding, config={"segment_bytes": 4 << 20})
    # 1 MiB or more each, and none divided
    assert [len(log.segments) for log in bl.LogDirs(data).logs(["t"])] == [6, 6]
    before = serve(client, data, ["t"], tmp_path / "broker.log")
    assert len(before["t"]["read_committed"]) == 600


def test_a_broker_goes_on_with_what_tasks_wrote_behind_its_own_records(client, tmp_path):
    data = tmp_path / "data"
    with Broker(data, log=tmp_path / "broker-1.log") as broker:
        client.create(broker, "t", 2, internal_segment_bytes=8192)
        client.produce(broker, "t", 0, 100)
        client.produce(broker, "t", 1, 40, "commit")
    write_tasks(data, "t", encoding=Encoding(transactional=True))
    before = serve(client, data, ["t"], tmp_path / "broker-2.log")
    assert len(before["t"]["read_committed"]) == 440
    # and again behind what it stored meanwhile
    write_tasks(data, "t")
    assert len(serve(client, data, ["t"], tmp_path / "broker-3.log")["t"]["read_committed"]) == 760


def test_a_broker_passes_over_what_queries_left(client, tmp_path):
    """The epochs that are in force are a file beside its own."""
    data = tmp_path / "data"
    for number in (0, 1, 1):
        write_tasks(data, "t", epoch=Epoch("q", number))
    assert committed(str(data)) == {"q": 1}
    assert len(serve(client, data, ["t"], tmp_path / "broker-1.log")["t"]["read_committed"]) == 600
    for number in (1, 2):
        write_tasks(data, "t", epoch=Epoch("q", number))
    assert len(serve(client, data, ["t"], tmp_path / "broker-2.log")["t"]["read_committed"]) == 920


def test_no_broker_starts_in_the_middle_of_a_commit(client, tmp_path, monkeypatch):
    """It would take some partitions for what they were, and others for what they are to be."""
    data = tmp_path / "data"
    write_tasks(data, "t", partitions=2)

    def killed(root):
        if storage.exists(f"{root}/{commit_journal.NAME}"):
            raise KeyboardInterrupt
        return []

    with monkeypatch.context() as patched:
        patched.setattr(commit_journal, "roll_forward", killed)
        with pytest.raises(KeyboardInterrupt):
            write_tasks(data, "t")
    with pytest.raises(AssertionError):
        Broker(data, log=tmp_path / "broker-1.log").stop()
    assert commit_journal.NAME in (tmp_path / "broker-1.log").read_text()
    assert len(seen(data, "t")["read_committed"]) == 600
    with bl.open_log_dir(data, sole_replica=True) as log_dir:
        for key in log_dir.partitions():
            log_dir.log(*key)
    assert len(serve(client, data, ["t"], tmp_path / "broker-2.log")["t"]["read_committed"]) == 600


def test_a_broker_starts_on_what_a_killed_commit_left(client, tmp_path):
    """Without the journal: of the last one before the commit point, and of the last one of all."""
    with bl.create_log_dir(tmp_path / "start") as log_dir:
        log_dir.create_topic("t")
        with bl.Producer(log_dir, "t") as producer:
            producer.send([{"value": b"old"}])
    (tmp_path / "killed").mkdir()
    command = [sys.executable, killed_commits.__file__, tmp_path / "start", tmp_path / "killed"]
    subprocess.run(command, check=True)
    left = [path for path in sorted((tmp_path / "killed").iterdir()) if not (path / commit_journal.NAME).exists()]
    before = [path for path in left if len(seen(path, "t")["read_committed"]) == 1][-1]
    assert list(before.glob("brokerless-0.*-delete"))
    for path, count in ((before, 1), (left[-2], 2)):
        held = seen(path, "t")["read_committed"]
        assert len(held) == count
        with Broker(path, log=tmp_path / f"broker-{count}.log") as broker:
            assert client.consume(broker, "t", "read_committed") == held
            assert not [line for line in complaints(broker.log) if "ERROR" in line or "-stray" in line]


def test_a_write_does_not_go_on_once_a_broker_was_there(client, tmp_path):
    """It deletes what is staged, after a minute."""
    data = tmp_path / "data"
    write_tasks(data, "t", partitions=2)
    write = AtomicWrite(path=str(data), topics={"t": NewTopic()}, sole_replica=True)
    task = write.begin().writer()
    task.send(pa.RecordBatch.from_pydict({"value": [b"x"] * 10}))
    parts = task.finish()
    quick = {"log_initial_task_delay_ms": 500, "log_segment_delete_delay_ms": 500}
    with Broker(data, log=tmp_path / "broker.log", **quick) as broker:
        until(lambda: not (data / write.staging).exists())
        assert len(client.consume(broker, "t")) == 300
    assert not (data / write.staging).exists()
    with pytest.raises(ValueError, match="a broker was started meanwhile"):
        write.commit(parts)
    assert len(seen(data, "t")["read_committed"]) == 300
