"""Commits of streaming queries: each epoch is in force once, and what an earlier attempt left goes."""

import pyarrow as pa
import pytest

import brokerless as bl
from brokerless.layout import commit_journal
from brokerless.layout.streaming_epochs import FILE, Epoch, committed
from brokerless.log_dir.copying import StagedCopy
from brokerless.log_dir.topics import NewTopic
from brokerless.staging.atomic_write import AtomicWrite
from support.write_tasks import begin, begin_any, send, values, written


def test_an_epoch_is_in_force_once(tmp_path):
    for number, query, value in ((0, "q", 1), (1, "q", 2), (1, "q", 2), (0, "other", 3), (1, "q", 2), (2, "q", 4)):
        write, staging = begin(tmp_path / "d")
        write.commit(send(staging, value), epoch=Epoch(query, number))
        assert not list((tmp_path / "d").glob("*-delete"))
    assert values(tmp_path / "d") == [1, 2, 3, 4]
    assert committed(str(tmp_path / "d")) == {"q": 2, "other": 0}
    assert bl.LogDirFiles(str(tmp_path / "d")).is_clean


def test_a_copy_of_the_directory_knows_the_epochs(tmp_path):
    write, staging = begin(tmp_path / "d")
    write.commit(send(staging, 1), epoch=Epoch("q", 0))
    with StagedCopy(str(tmp_path / "copy"), is_partition=False) as copy:
        copy.add_root(str(tmp_path / "d"), [("t", 0)])
        copy.publish()
    assert committed(str(tmp_path / "copy")) == {"q": 0}


def test_an_epoch_that_is_older_than_the_last_is_an_error(tmp_path):
    for number in range(2):
        write, staging = begin(tmp_path / "d")
        write.commit(send(staging, number), epoch=Epoch("q", number))
    write, staging = begin(tmp_path / "d")
    with pytest.raises(ValueError, match="but now sends epoch 0: its checkpoint"):
        write.commit(send(staging, 2), epoch=Epoch("q", 0))
    assert values(tmp_path / "d") == [0, 1]


@pytest.mark.parametrize(("before", "number", "known"), [([0], 2, "has only its epochs up to 0"), ([], 1, "has none")])
def test_an_epoch_whose_predecessor_is_missing_is_an_error(tmp_path, before, number, known):
    """The log directory is an older copy, or was emptied: rows would be missing, and nobody told."""
    for earlier in before:
        write, staging = begin(tmp_path / "d")
        write.commit(send(staging, earlier), epoch=Epoch("q", earlier))
    write, staging = begin(tmp_path / "d")
    with pytest.raises(ValueError, match=f"streaming epoch {number}, .*{known}.*with a new checkpointLocation"):
        write.commit(send(staging, 2), epoch=Epoch("q", number))
    assert committed(str(tmp_path / "d")) == dict.fromkeys(["q"][: len(before)], 0)


def test_an_epoch_without_rows_counts_too(tmp_path):
    for number in (0, 1):
        write, staging = begin_any(tmp_path / "d")
        write.commit(send(staging, topic=[]), epoch=Epoch("q", number))
        assert committed(str(tmp_path / "d")) == {"q": number}
    assert bl.LogDirs(tmp_path / "d").topics() == []
    assert not (tmp_path / "d" / commit_journal.NAME).exists()


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
    assert len(bl.LogDirs(tmp_path / "d").logs(["t"])) == 3


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"version": 2, "epochs": {}}', "[" * 100_000]
    + [f'{{"version": 1, "epochs": {{"q": {number}}}}}' for number in ("[]", "-1", "0.5", "1e999", "true", '"3"')],
)
def test_epochs_that_cannot_be_read_stop_a_query(tmp_path, content):
    written(tmp_path / "d", 1)
    (tmp_path / "d" / FILE).write_text(content)
    write, staging = begin(tmp_path / "d")
    with pytest.raises(bl.errors.CorruptRecordError, match="epochs of streaming queries cannot be read"):
        write.commit(send(staging, 2), epoch=Epoch("q", 0))
    write.commit(send(staging, 3))
    assert values(tmp_path / "d") == [1, 3]


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
    with pytest.raises(
        ValueError, match=f"{left.staging} was deleted: .* or the streaming query was started a second time"
    ):
        late.finish()


def test_what_a_query_left_is_removed_when_its_next_epoch_begins(tmp_path):
    """An epoch that fails at each restart must not leave all of its bytes each time: no commit is reached then."""
    written(tmp_path / "d", 0)
    staged = []
    for query in ("q", "other", "q"):
        write = AtomicWrite(path=str(tmp_path / "d"), topics={"t": NewTopic()})
        write.begin(query=query).writer(query)
        staged.append(write.staging)
    assert {path.name for path in (tmp_path / "d").glob("*-delete")} == set(staged[1:])
