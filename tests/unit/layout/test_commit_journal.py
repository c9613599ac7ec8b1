"""A journal in a log directory: what readers see, and how it is rolled forward."""

import json
import os
import shutil

import pytest

import brokerless as bl
from brokerless.io import disk, storage
from brokerless.layout import commit_journal
from brokerless.log_dir.recover import planned, recovered
from brokerless.log_dir.topics import NewTopic
from brokerless.staging.atomic_write import AtomicWrite


@pytest.fixture
def pending(tmp_path, monkeypatch):
    """A log directory whose commit was cut short right behind the commit point: `a` overwritten, `b` as it was."""
    import pyarrow as pa

    path = tmp_path / "d"
    with bl.create_log_dir(path) as log_dir:
        for topic in ("a", "b"):
            log_dir.create_topic(topic, partitions=2)
            with bl.Producer(log_dir, topic) as producer:
                producer.send([{"value": b"old", "partition": number % 2} for number in range(6)])
        log_dir.log("a", 0).run(bl.Retention(before_offset=2))
    write = AtomicWrite(path=str(path), topics={"a": NewTopic(partitions=1)}, overwrite=True)
    task = write.begin().writer()
    task.send(pa.RecordBatch.from_pylist([{"value": b"new"}]))
    with monkeypatch.context() as patched:
        patched.setattr(commit_journal, "roll_forward", _killed)
        with pytest.raises(KeyboardInterrupt):
            write.commit(task.finish())
    assert (path / commit_journal.NAME).is_dir()
    return path


def _killed(root):
    if storage.exists(f"{root}/{commit_journal.NAME}"):
        raise KeyboardInterrupt
    return []


def values(path):
    return sorted(
        (log.topic, log.partition, value.decode())
        for log in bl.LogDirs(path).logs()
        for rows in log.read(columns=["value"])
        for value in rows["value"].to_pylist()
    )


NEW = [("a", 0, "new")] + [("b", number, "old") for number in (0, 0, 0, 1, 1, 1)]


def test_a_partition_in_force_in_the_journal_is_of_the_log_directory_around_that(pending):
    assert bl.Log(pending / "a-0").root.node_id == 1
    assert bl.LogDirs(pending / "a-0").roots[0].path == str(pending)


def test_readers_see_what_is_in_force(pending):
    assert values(pending) == NEW
    assert not bl.LogDirFiles(str(pending)).is_clean
    # the old log started at 2, the new one does not
    assert bl.LogDirs(pending).log("a", 0).log_start_offset == 0
    assert [rows["value"].to_pylist() for rows in bl.Log(pending / "a-0").read(columns=["value"])] == [[b"new"]]
    assert [rows["value"].to_pylist() for rows in bl.LogDirs(pending / "a-0").log("a", 0).read(columns=["value"])] == [
        [b"new"]
    ]


def test_the_next_writer_rolls_forward(pending):
    with bl.open_log_dir(pending, sole_replica=True) as log_dir:
        assert log_dir.rolled_forward == ["a-0"]
        for topic, partition in log_dir.partitions():
            log_dir.log(topic, partition)
    assert values(pending) == NEW
    assert not (pending / commit_journal.NAME).exists()
    assert sorted(path.name for path in pending.iterdir() if path.is_dir()) == ["a-0", "b-0", "b-1"]
    assert bl.LogDirFiles(str(pending)).is_clean


def test_recover_plans_and_finishes_an_interrupted_commit(pending):
    steps = [(name, [str(step) for step in steps]) for name, steps in planned(str(pending))]
    said = "replace the old directory by the new one of an interrupted write, because the write was committed"
    assert ("a-0", [said]) in steps
    assert values(pending) == NEW
    assert next(recovered(str(pending)))[0] == "a-0"
    assert not (pending / commit_journal.NAME).exists()
    assert values(pending) == NEW


def test_a_journal_of_a_later_version_is_not_guessed_at(pending):
    contents = pending / commit_journal.NAME / "contents.json"
    contents.write_text(contents.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(bl.errors.CorruptRecordError, match="version 2, expected 1"):
        bl.LogDirs(pending)
    with pytest.raises(bl.errors.CorruptRecordError, match="version 2, expected 1"):
        bl.open_log_dir(pending)


@pytest.mark.parametrize(
    "text", ["", "{}", '{"version": 1, "staging": "../x", "unique": "0", "gone": []}', "[" * 100_000]
)
def test_a_damaged_journal_stops_all(pending, text):
    (pending / commit_journal.NAME / "contents.json").write_text(text)
    with pytest.raises(bl.errors.CorruptRecordError, match="journal of a write cannot be read"):
        bl.open_log_dir(pending)


def test_a_copy_of_a_pending_directory_is_read_alike(pending, tmp_path):
    shutil.copytree(pending, tmp_path / "copy")
    assert values(tmp_path / "copy") == NEW


@pytest.mark.parametrize(
    "changed",
    [
        {"gone": ["../victim-0"]},
        {"gone": ["/victim-0"]},
        {"staging": "../victim-0.0123456789abcdef0123456789abcdef-delete"},
        {"staging": "b-0"},
        {"unique": "x/../../victim-0"},
        {"unique": ""},
        {"gone": ["b-0.0123456789abcdef0123456789abcdef-delete"]},
    ],
)
def test_a_journal_names_nothing_but_directories_beside_it(pending, changed):
    """Else whoever recovers a directory that somebody gave him would lose others."""
    victim = pending.parent / "victim-0"
    victim.mkdir()
    (victim / "file").write_text("mine")
    contents = pending / commit_journal.NAME / "contents.json"
    contents.write_text(json.dumps(json.loads(contents.read_text()) | changed))
    with pytest.raises(bl.errors.CorruptRecordError, match="the journal of a write cannot be read"):
        bl.open_log_dir(pending)
    assert (victim / "file").read_text() == "mine"
    assert (pending / commit_journal.NAME).is_dir()


def test_a_partition_behind_a_link_is_replaced_and_what_it_led_to_stays(pending, tmp_path):
    """A disk that was full: the partition was moved, and a link left in its place."""
    (pending / "a-0").rename(tmp_path / "moved")
    (pending / "a-0").symlink_to(tmp_path / "moved")
    kept = sorted(file.name for file in (tmp_path / "moved").iterdir())
    bl.open_log_dir(pending).close()
    assert not (pending / "a-0").is_symlink()
    assert sorted(file.name for file in (tmp_path / "moved").iterdir()) == kept
    assert [row["value"] for rows in bl.Log(pending / "a-0").read() for row in rows.to_pylist()] == [b"new"]


@pytest.fixture
def at_each_move(pending, monkeypatch):
    """Roll the journal forward; before each move, look, with a call that makes it already."""

    def roll(look):
        rename = disk.rename

        def moved(source, to):
            done = []

            def move():
                if not done:
                    done.append(rename(source, to))

            look(move)
            move()

        with monkeypatch.context() as patched:
            patched.setattr(disk, "rename", moved)
            commit_journal.roll_forward(str(pending))

    return roll


def test_no_partition_is_missing_while_a_journal_is_rolled_forward(pending, at_each_move, monkeypatch):
    """A reader that lists the directory, and reads the journal after a move, would see the partition in neither."""
    listing, looks = storage.list_subdirectories, []

    def look(move):
        def listed(path):
            found = listing(path)
            looks.append(path)
            move()
            return found

        with monkeypatch.context() as patched:
            patched.setattr(storage, "list_subdirectories", listed)
            assert [(log.topic, log.partition) for log in bl.LogDirs(pending).logs()] == [("a", 0), ("b", 0), ("b", 1)]

    at_each_move(look)
    assert looks
    assert values(pending) == NEW


def test_a_read_planned_before_a_commit_is_valid_after_it(pending, at_each_move):
    planned_before = []

    def look(_):
        log = bl.LogDirs(pending).log("a", 0)
        planned_before.append((log, log.plan()))
        # not looked into before the move
        planned_before.append((bl.LogDirs(pending).log("a", 0), None))
        for log, splits in planned_before:
            for split in splits or log.plan():
                assert [row["value"] for rows in bl.read_split(split) for row in rows.to_pylist()] == [b"new"]
            assert log.log_start_offset == 0
            assert bl.Log(pending / "a-0").topic_id == log.topic_id

    at_each_move(look)
    look(None)
    assert len(planned_before) > 6


def test_a_partition_that_was_planned_before_a_commit_is_read_between_its_moves(pending):
    log = bl.LogDirs(pending).log("b", 0)
    (split,) = log.plan()
    (pending / "b-0").rename(pending / commit_journal.NAME / "b-0")
    assert [row["value"] for rows in bl.read_split(split) for row in rows.to_pylist()] == [b"old"] * 3
    assert bl.Log(pending / "b-0").log_end_offset == 3
    # what the new directory does not have is not taken from the old one
    shutil.copytree(pending / commit_journal.NAME / "b-0", pending / "b-0")
    (pending / commit_journal.NAME / "b-0" / "leader-epoch-checkpoint").unlink()
    assert bl.LogDirs(pending).log("b", 0).leader_epochs == []


def test_a_journal_that_goes_while_it_is_read_is_none(pending, monkeypatch):
    reading = storage.read_all

    def read(path):
        if path.startswith(f"{pending}/{commit_journal.NAME}"):
            disk.rename(f"{pending}/{commit_journal.NAME}", f"{pending.parent}/elsewhere")
        return reading(path)

    monkeypatch.setattr(storage, "read_all", read)
    assert commit_journal.Journal.read(str(pending)) is None


def test_a_journal_without_contents_is_damaged(pending):
    (pending / commit_journal.NAME / "contents.json").unlink()
    with pytest.raises(bl.errors.CorruptRecordError, match="the journal of a write cannot be read"):
        bl.LogDirs(pending)


def test_a_whole_write_between_two_looks_is_noticed(pending, monkeypatch):
    """There is no journal before the listing and none after it, but in between a partition was on its way."""
    commit_journal.roll_forward(str(pending))
    listing, state = storage.list_subdirectories, []

    def listed(path):
        if not state:
            state.append(path)
            (pending / "a-0").rename(pending.parent / "away")
            found = listing(path)
            (pending.parent / "away").rename(pending / "a-0")
            return found
        return listing(path)

    os.utime(pending, ns=(0, 0))
    monkeypatch.setattr(storage, "list_subdirectories", listed)
    assert [log.name for log in bl.LogDirs(pending).logs()] == ["a-0", "b-0", "b-1"]


def test_a_link_in_a_journal_takes_no_partitions_place(pending, tmp_path):
    (pending / commit_journal.NAME / "a-0").rename(tmp_path / "elsewhere")
    (pending / commit_journal.NAME / "a-0").symlink_to(tmp_path / "elsewhere")
    for opened in (bl.LogDirs, bl.open_log_dir):
        with pytest.raises(
            bl.errors.CorruptRecordError, match="a link is in the place of a file or directory that brokerless creates"
        ):
            opened(pending)
    assert not (pending / "a-0").is_symlink()
