"""Restoring an export: all that was exported comes into force, once, whatever fails and whoever writes meanwhile."""

import json
import pkgutil
import shutil
import threading

import pytest

pytest.importorskip("pyspark")

import brokerless as bl
from brokerless.layout import checkpoints
from brokerless.log_dir.restoration import Restoration
from brokerless.spark import export, restore
from support.log_files import NOW, batch
from support.restored_directory import FINE, assert_restored, ends, exported_to, new_source, rows
from support.spark_stand_in import FailedError, Here, failing_at


@pytest.fixture
def source(tmp_path):
    return new_source(tmp_path / "s")


@pytest.fixture
def exported(source, tmp_path):
    return exported_to(tmp_path / "e", source)


def test_where_logs_start_and_end_is_kept(source, exported, tmp_path):
    restore(Here(), exported, str(tmp_path / "d"))
    assert_restored(source, tmp_path / "d")
    late = bl.LogDirs(tmp_path / "d").log("late", 0)
    assert ends(late) == (120, 250)
    assert late.leader_epochs[-1].epoch == 3
    assert ends(bl.LogDirs(tmp_path / "d").log("expired", 0)) == (7, 7)
    with bl.open_log_dir(tmp_path / "d") as log_dir:
        assert log_dir.log("late", 0).config.retention_ms == -1
        assert log_dir.log("late", 0).config.segment_bytes == 1000
        # and it goes on behind that
        log_dir.log("late", 0).append(batch(0, [b"next"], timestamp=NOW))
    assert rows(bl.LogDirs(tmp_path / "d").log("late", 0))[-1]["offset"] == 250


def test_a_run_after_a_failure_does_what_is_left(source, exported, tmp_path, monkeypatch):
    monkeypatch.setattr("brokerless.spark.jobs.restore._TARGET", 1)
    with pytest.raises(FailedError):
        restore(Here(failing_at(1)), exported, str(tmp_path / "d"))
    assert bl.LogDirs(tmp_path / "d").topics() == []
    second = Here(failing_at(2))
    with pytest.raises(FailedError):
        restore(second, exported, str(tmp_path / "d"))
    assert second.made == [1]
    again = Here()
    found = restore(again, exported, str(tmp_path / "d"))
    assert again.made == [2]
    assert (found.tasks, found.skipped) == (1, 2)
    assert_restored(source, tmp_path / "d")


def test_a_part_that_is_not_as_it_was_written_is_written_again(source, exported, tmp_path, monkeypatch):
    monkeypatch.setattr("brokerless.spark.jobs.restore._TARGET", 1)
    with pytest.raises(FailedError):
        restore(Here(failing_at(2)), exported, str(tmp_path / "d"))
    for receipt in (tmp_path / "d").glob("*-delete/parts/task-000000"):
        (part,) = json.loads(receipt.read_text())["parts"]
        with open(part["path"], "ab") as file:
            file.write(b"x")
    again = Here()
    restore(again, exported, str(tmp_path / "d"))
    assert again.made[0] == 0
    assert_restored(source, tmp_path / "d")


def test_a_commit_that_came_to_nothing_is_made_again(source, exported, tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise FailedError

    with monkeypatch.context() as patch:
        patch.setattr("brokerless.layout.commit_journal.commit", fail)
        with pytest.raises(FailedError):
            restore(Here(), exported, str(tmp_path / "d"))
    again = Here()
    restore(again, exported, str(tmp_path / "d"))
    assert again.made == []
    assert_restored(source, tmp_path / "d")


def test_where_logs_start_comes_into_force_with_the_rows(source, exported, tmp_path, monkeypatch):
    """A crash right behind the commit point leaves a journal, and all is in it."""

    def fail(*args, **kwargs):
        raise FailedError

    bl.create_log_dir(tmp_path / "d").close()
    with monkeypatch.context() as patch:
        patch.setattr("brokerless.layout.commit_journal._sync", fail)
        with pytest.warns(UserWarning, match="the rows are committed"):
            restore(Here(), exported, str(tmp_path / "d"))
    assert_restored(source, tmp_path / "d")
    again = Here()
    restore(again, exported, str(tmp_path / "d"))
    assert again.made == []
    assert_restored(source, tmp_path / "d")


def test_topics_one_after_the_other(source, exported, tmp_path):
    for topic in ("late", "two", "empty", "expired"):
        restore(Here(), exported, str(tmp_path / "d"), topics=[topic])
    assert_restored(source, tmp_path / "d")


def test_a_topic_with_other_records_is_left_alone(exported, tmp_path):
    with bl.Producer(tmp_path / "d", "two") as producer:
        producer.send([{"value": b"1"}])
    with pytest.raises(ValueError, match=r"topic 'two' is in .* already, with other records"):
        restore(Here(), exported, str(tmp_path / "d"))
    assert len(rows(bl.LogDirs(tmp_path / "d").log("two", 0))) == 1


def test_a_topic_that_ends_where_the_exported_one_does_is_left_alone(source, exported, tmp_path):
    """Of other records none may be taken for restored ones, and none deleted."""
    with bl.create_log_dir(tmp_path / "d") as log_dir:
        log_dir.create_topic("late")
        log_dir.log("late", 0).append(batch(0, [b"OTHER"] * 250, timestamp=NOW))
    with pytest.raises(ValueError, match=r"topic 'late' is in .* already, with other records"):
        restore(Here(), exported, str(tmp_path / "d"), topics=["late"])
    assert ends(bl.LogDirs(tmp_path / "d").log("late", 0)) == (0, 250)


def test_a_topic_of_another_export_is_left_alone(source, exported, tmp_path):
    export(Here(), str(source), str(tmp_path / "other"), options=FINE)
    restore(Here(), str(tmp_path / "other"), str(tmp_path / "d"))
    with pytest.raises(ValueError, match=r"already, with other records"):
        restore(Here(), exported, str(tmp_path / "d"))
    assert_restored(source, tmp_path / "d")


def test_what_is_asked_for_beside_the_records(exported, tmp_path):
    topic_id = checkpoints.random_id()
    asked = {"topic_ids": {"two": topic_id}, "compression": "zstd", "batch_size": 100}
    found = restore(Here(), exported, str(tmp_path / "d"), topics=iter(["two"]), **asked)
    assert [(report.topic, report.partition) for report in found.partitions] == [("two", 0), ("two", 1)]
    log = bl.LogDirs(tmp_path / "d").log("two", 0)
    codecs = [codec for batches in log.scan() for codec in batches["compression"].to_pylist()]
    assert set(codecs) == {"zstd"}
    assert 2 < len(codecs) < 50
    assert log.topic_id == topic_id


@pytest.mark.parametrize("is_restored", [True, False])
def test_a_topic_that_is_there_keeps_its_id(exported, tmp_path, is_restored):
    """With another one than its cluster gave it, its broker renames it -stray: asked for, it is not passed over."""
    path = str(tmp_path / "d")
    if is_restored:
        restore(Here(), exported, path)
    else:
        with bl.create_log_dir(path) as log_dir:
            log_dir.create_topic("two", 2)
    known = bl.LogDirs(path).log("two", 0).topic_id
    with pytest.raises(ValueError, match=f"topic 'two' is in .* already, with the id {known}, not "):
        restore(Here(), exported, path, topics=["two"], topic_ids={"two": checkpoints.random_id()})
    restore(Here(), exported, path, topics=["two"], topic_ids={"two": known})
    assert bl.LogDirs(path).log("two", 1).topic_id == known


@pytest.mark.filterwarnings("ignore:settings of topics are not known")
def test_a_restore_warns_of_other_replicas_unless_told(exported, tmp_path):
    """Warnings are errors here."""
    path = tmp_path / "d"
    with bl.create_log_dir(path):
        pass
    (path / checkpoints.BOOTSTRAP).unlink()  # as in a directory that a cluster was started on
    asked = {"topics": ["two"], "topic_ids": {"two": checkpoints.random_id()}}
    with pytest.warns(UserWarning, match="If no other replica matters, give sole_replica"):
        restore(Here(), exported, str(path), **asked)
    asked = {"topics": ["late"], "topic_ids": {"late": checkpoints.random_id()}}
    restore(Here(), exported, str(path), sole_replica=True, **asked)


def test_a_topic_that_was_written_to_since(exported, tmp_path):
    restore(Here(), exported, str(tmp_path / "d"))
    with bl.open_log_dir(tmp_path / "d", sole_replica=True) as log_dir:
        log_dir.log("two", 0).append(batch(0, [b"next"], timestamp=NOW))
    with pytest.raises(ValueError, match=r"topic 'two' was restored to .*, and written to since"):
        restore(Here(), exported, str(tmp_path / "d"))


def test_a_topic_that_is_written_to_meanwhile(exported, tmp_path):
    """Its rows would come before those of the export, whose offsets begin behind them."""
    with bl.create_log_dir(tmp_path / "d") as log_dir:
        log_dir.create_topic("late")

    def write(argument):
        with bl.Producer(tmp_path / "d", "late") as producer:
            producer.send([{"value": b"1"}])

    with pytest.raises(ValueError, match=r"late-0 in .* ends at offset \d+: a topic that is restored has to be empty"):
        restore(Here(write), exported, str(tmp_path / "d"), topics=["late"])
    assert len(rows(bl.LogDirs(tmp_path / "d").log("late", 0))) == 1


def test_parts_of_another_export_are_not_taken(source, exported, tmp_path, monkeypatch):
    """It has the same plan: only what is in its files is different."""

    def fail(*args, **kwargs):
        raise FailedError

    export(Here(), str(source), str(tmp_path / "other"), options=FINE)
    with monkeypatch.context() as patch:
        patch.setattr("brokerless.staging.atomic_write.AtomicWrite.commit", fail)
        with pytest.raises(FailedError):
            restore(Here(), str(tmp_path / "other"), str(tmp_path / "d"))
    again = Here()
    restore(again, exported, str(tmp_path / "d"))
    assert again.made == [0]
    assert_restored(source, tmp_path / "d")


def second_driver(monkeypatch, exported, path, name):
    """Let another driver restore the same, just before this is called."""
    monkeypatch.setattr("brokerless.spark.jobs.restore.PATIENCE_BEFORE", 0)
    monkeypatch.setattr("brokerless.spark.jobs.restore.PATIENCE", 0)
    found = []
    owner, _, function = name.rpartition(".")
    real = pkgutil.resolve_name(f"{owner}.{function}")

    def call(*args, **kwargs):
        if not found:
            found.append(None)
            try:
                restore(Here(), exported, path)
            except bl.errors.LogInUseError as error:
                found.append(error)
        return real(*args, **kwargs)

    monkeypatch.setattr(name, call)
    return found


@pytest.mark.parametrize(
    "name", ["brokerless.staging.atomic_write.append_parts", "brokerless.log_dir.writer.LogDirWriter.commit"]
)
def test_another_driver_during_the_commit_takes_nothing_away(source, exported, tmp_path, monkeypatch, name):
    found = second_driver(monkeypatch, exported, str(tmp_path / "d"), name)
    restore(Here(), exported, str(tmp_path / "d"))
    assert len(found) == 2
    assert_restored(source, tmp_path / "d")


def test_another_driver_that_comes_first(source, exported, tmp_path, monkeypatch):
    commit = "brokerless.staging.atomic_write.AtomicWrite.commit"
    found = second_driver(monkeypatch, exported, str(tmp_path / "d"), commit)
    restore(Here(), exported, str(tmp_path / "d"))
    assert len(found) == 1
    assert_restored(source, tmp_path / "d")
    assert not list((tmp_path / "d").glob("*-delete"))


def test_what_is_staged_and_changes_is_not_committed(exported, tmp_path, monkeypatch):
    real = Restoration.stage

    def spoiled(self, directory, staging, made):
        real(self, directory, staging, made)
        shutil.rmtree(f"{staging}/two-0")

    monkeypatch.setattr(Restoration, "stage", spoiled)
    with pytest.raises(ValueError, match="has changed during its commit"):
        restore(Here(), exported, str(tmp_path / "d"))
    assert bl.LogDirs(tmp_path / "d").topics() == []


def test_a_directory_that_is_in_use_for_a_while(source, exported, tmp_path):
    """As in the sink: what tasks made is not lost because somebody looks after the directory."""
    bl.create_log_dir(tmp_path / "d").close()
    held = []

    def hold(argument):
        held.append(bl.open_log_dir(tmp_path / "d", sole_replica=True))
        held.append(threading.Timer(0.3, held[0].close))
        held[1].start()

    restore(Here(hold), exported, str(tmp_path / "d"))
    held[1].join()
    assert_restored(source, tmp_path / "d")


def test_a_topic_that_was_created_for_it(source, exported, tmp_path):
    """As it has to be where a cluster was started on the directory."""
    with bl.create_log_dir(tmp_path / "d") as log_dir:
        log_dir.create_topic("two", 2)
    restore(Here(), exported, str(tmp_path / "d"), topics=["two"])
    for number in range(2):
        log = bl.LogDirs(source).log("two", number)
        assert rows(bl.LogDirs(tmp_path / "d").log("two", number)) == rows(log)


def test_topics_that_are_not_there(exported, tmp_path):
    with pytest.raises(ValueError, match="unknown topic 'tow': did you mean 'two'"):
        restore(Here(), exported, str(tmp_path / "d"), topics=["tow"])


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_leader_epochs_begin_where_they_did(tmp_path, has_checkpoint):
    """A consumer that comes back with an earlier epoch is told to what offset it holds: beyond, it takes for lost."""
    with bl.create_log_dir(tmp_path / "s") as log_dir:
        log_dir.create_topic("t")
        log = log_dir.log("t", 0)
        log.append_as_follower(batch(0, [b"a"], leader_epoch=1, timestamp=NOW))
        log.append_as_follower(batch(1, [b"b"], leader_epoch=5, last_offset_delta=9, timestamp=NOW))
    checkpoint = tmp_path / "s/t-0/leader-epoch-checkpoint"
    expected = bl.LogDirs(tmp_path / "s").log("t", 0).leader_epochs
    if has_checkpoint:
        # As a broker that was elected, and has written nothing since.
        checkpoint.write_text(checkpoint.read_text().replace("\n2\n", "\n3\n") + "7 11\n")
    else:
        checkpoint.unlink()
    restore(Here(), exported_to(tmp_path / "e", tmp_path / "s"), str(tmp_path / "d"))
    restored = bl.LogDirs(tmp_path / "d").log("t", 0)
    assert (restored.leader_epochs, restored.log_end_offset) == (expected, 11)


def test_a_record_that_cannot_be_restored_is_named_by_its_topic(tmp_path):
    """A broker may have stored times before 1970; the other topics of the export can be restored without."""
    with bl.create_log_dir(tmp_path / "s") as log_dir:
        for topic, time in (("good", NOW), ("early", -5000)):
            log_dir.create_topic(topic)
            log_dir.log(topic, 0).append_as_follower(batch(0, [b"a"], timestamp=time))
    exported = exported_to(tmp_path / "e", tmp_path / "s")
    with pytest.raises(ValueError, match=r"topic 'early' cannot be restored: .* timestamp -5000.*: name them"):
        restore(Here(), exported, tmp_path / "d")
    restore(Here(), exported, tmp_path / "d", topics=["good"])
    assert rows(bl.LogDirs(tmp_path / "d").log("good", 0))


def test_a_restore_is_to_a_directory_of_this_machine(exported):
    with pytest.raises(ValueError, match="memory://x/y"):
        restore(Here(), exported, "memory://x/y")
