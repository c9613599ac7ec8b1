"""A write by tasks: which parts count, and that all rows are in force or none, whatever fails."""

import contextlib
import errno
import json
import threading
from dataclasses import asdict

import pyarrow as pa
import pytest

import brokerless as bl
from brokerless.io import disk
from brokerless.layout import checkpoints, commit_journal
from brokerless.staging.parts import Encoding
from support.write_tasks import begin, send, values, written


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


def test_what_else_was_written_meanwhile_comes_first(tmp_path):
    written(tmp_path / "d", 1)
    write, staging = begin(tmp_path / "d")
    parts = send(staging, 3)
    written(tmp_path / "d", 2)
    write.commit(parts)
    assert values(tmp_path / "d") == [1, 2, 3]


def test_tasks_have_to_see_the_directory(tmp_path):
    _, staging = begin(tmp_path / "d")
    (tmp_path / "d").rename(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="the driver and all executors must share the directory"):
        staging.writer()


def test_tasks_that_are_still_being_killed_do_not_keep_the_staging_directory(tmp_path):
    """Spark aborts a cancelled write while its tasks make and remove parts."""
    for _ in range(20):
        write, _ = begin(tmp_path / "d")
        parts = tmp_path / "d" / write.staging / "parts"
        is_over = threading.Event()

        def make_and_remove(parts=parts, is_over=is_over):
            with contextlib.suppress(FileNotFoundError):
                while not is_over.is_set():
                    for number in range(20):
                        (parts / str(number)).touch()
                    for number in range(20):
                        (parts / str(number)).unlink()

        task = threading.Thread(target=make_and_remove)
        task.start()
        try:
            write.abort()
        finally:
            is_over.set()
            task.join()
        assert not list((tmp_path / "d").glob("*-delete"))


def test_a_commit_waits_for_another_writer(tmp_path):
    written(tmp_path / "d", 1)
    write, staging = begin(tmp_path / "d")
    parts = send(staging, 2)
    holder = bl.open_log_dir(tmp_path / "d")
    with pytest.raises(bl.errors.LogInUseError):
        write.commit(parts, patience=0.1)
    with pytest.raises(bl.errors.LogInUseError):
        write.begin(patience=0.1)
    closing = threading.Timer(0.2, holder.close)
    closing.start()
    write.commit(parts, patience=60)
    closing.join()
    assert values(tmp_path / "d") == [1, 2]


def test_a_part_is_as_small_as_its_topic_has_partitions(tmp_path):
    """There is one for each task and partition: each with all partitions would be too much for any driver."""

    def part(partitions):
        path = tmp_path / str(partitions)
        with bl.create_log_dir(path) as log_dir:
            log_dir.create_topic("t", partitions=partitions)
        (part,) = send(begin(path)[1], 1)
        return part

    assert len(json.dumps(asdict(part(200)))) < len(json.dumps(asdict(part(2)))) + 20


def failing(monkeypatch, path, to_fail):
    """Let calls of `brokerless.io.disk` fail once rows are in force: those for whose name and path this is true."""
    in_force = []

    def patch(name, of):
        def call(first, *others):
            in_force.extend([name] if (path / commit_journal.NAME).exists() else [])
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
        "a move": lambda name, path: name == "rename" and path.startswith(commit_journal.NAME),
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
    assert not (path / commit_journal.NAME).exists()


def test_another_topic_is_made_though_the_first_ones_metadata_are_still_to_be_moved(tmp_path, monkeypatch):
    """Partitions that no metadata names would be taken for those of a cluster that has been started."""
    path = tmp_path / "d"
    with monkeypatch.context() as patched:
        failing(patched, path, lambda name, place: name == "rename" and place.endswith(checkpoints.BOOTSTRAP))
        with pytest.warns(UserWarning, match=r"\[Errno 5\] disk"):
            written(path, 1)
    assert (path / commit_journal.NAME / checkpoints.BOOTSTRAP).exists()
    written(path, 2, topic="u")
    assert (values(path), values(path, "u")) == ([1], [2])


@pytest.fixture
def t_00(tmp_path):
    """A log with a row 1 in a directory that a broker takes for `t-0`."""
    written(tmp_path / "d", 1)
    return (tmp_path / "d/t-0").rename(tmp_path / "d/t-00")


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_directory_that_a_broker_takes_for_the_partition_does_not_stay_beside_it(t_00, overwrite):
    """There would be two of it, and neither a broker nor we could load the log directory."""
    written(t_00.parent, 2, overwrite=overwrite)
    assert values(t_00.parent) == ([2] if overwrite else [1, 2])
    assert [found.name for found in t_00.parent.glob("t-*")] == ["t-0"]


def test_a_directory_that_a_broker_takes_for_the_partition_is_written_to_where_it_is(t_00):
    with bl.Producer(t_00.parent, "t") as producer:
        producer.send(pa.RecordBatch.from_pydict({"value": [b"2"]}))
    assert values(t_00.parent) == [1, 2]
    assert [found.name for found in t_00.parent.glob("t-*")] == ["t-00"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_link_is_not_replaced_whatever_its_spelling(t_00, overwrite):
    target = t_00.rename(t_00.parent.parent / "elsewhere")
    t_00.symlink_to(target)
    with pytest.raises(ValueError, match="t-00 is a symbolic link"):
        written(t_00.parent, 2, overwrite=overwrite)
    assert (values(t_00.parent), t_00.readlink()) == ([1], target)


def test_a_write_that_only_creates_topics_finds_those_created_meanwhile(tmp_path):
    """Two jobs in mode errorifexists: the topic has only the rows of the first."""
    (first, to_first), (second, to_second) = (begin(tmp_path / "d", only_new=True) for _ in range(2))
    parts_of_second = send(to_second, 2)
    first.commit(send(to_first, 1))
    with pytest.raises(FileExistsError, match="has topic t already"):
        second.commit(parts_of_second)
    assert values(tmp_path / "d") == [1]
