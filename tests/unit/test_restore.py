"""Restoring an export: the same rows at the same offsets, between the same ends, whatever fails meanwhile."""

import contextlib
import hashlib
import importlib
import json
import pathlib
import pkgutil
import shutil
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

import brokerless as bl
from brokerless.restoration import Restoration
from brokerless.spark import export, restore
from brokerless.spark.jobs.formats import RESTORED_COLUMNS
from building import NOW, batch
from here import FailedError, Here, failing_at

LOG_DIRS = ["kafka-4.1", "kafka-4.1-tiered", "kafka-4.1-compacted", "kafka-2.8-mixed", "kafka-2.8-v0", "kafka-2.8-v1"]


def rows(log, **options):
    found = []
    for part in log.read(columns=RESTORED_COLUMNS, **options):
        times = part["timestamp"].cast("int64").to_pylist()
        found += [
            {**row, "timestamp": time}
            for row, time in zip(part.drop_columns("timestamp").to_pylist(), times, strict=True)
        ]
    return found


def converted(row):
    """Messages of format 0 and 1 are records of format 2 then, as a broker converts them."""
    return {**row, "timestampType": max(row["timestampType"], 0), "leaderEpoch": row["leaderEpoch"] or 0}


def ends(log):
    return log.log_start_offset, log.log_end_offset


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("log_dir", LOG_DIRS)
@pytest.mark.filterwarnings("ignore:.* has no offsets")
def test_golden_logs_come_back_offset_by_offset(golden, tmp_path, log_dir, level):
    options = {"kafka.isolation.level": level, "minPartitions": "20"}
    export(Here(), str(golden / "logs" / log_dir), str(tmp_path / "e"), options=options)
    found = restore(Here(), str(tmp_path / "e"), str(tmp_path / "d"), compression="zstd")
    source, copy = bl.LogDir(golden / "logs" / log_dir), bl.LogDir(tmp_path / "d")
    topics = [topic for topic in source.topics() if not topic.startswith("__")]
    assert copy.topics() == topics
    for log in source.logs(topics):
        restored = copy.log(log.topic, log.partition)
        expected = [converted(row) for row in rows(log, isolation_level=level)]
        assert rows(restored) == expected, log.name
        assert rows(restored, isolation_level="read_committed") == expected, log.name
        end = log.log_end_offset if level == "read_uncommitted" else log.last_stable_offset
        assert ends(restored) == (log.local_log_start_offset, end), log.name
        assert restored.topic_id == (log.topic_id or restored.topic_id)
    assert bl.Root(str(tmp_path / "d")).is_clean
    assert not list((tmp_path / "d").glob("*-delete"))
    assert sum(partition.rows for partition in found.partitions) == sum(len(rows(log)) for log in copy.logs())
    again = Here()
    assert restore(again, str(tmp_path / "e"), str(tmp_path / "d"), compression="zstd").tasks == 0
    assert again.made == []


def test_json_comes_back_too(golden, tmp_path):
    path = golden / "logs/kafka-4.1"
    export(Here(), str(path), str(tmp_path / "e"), format="json", compression="gzip")
    restore(Here(), str(tmp_path / "e"), str(tmp_path / "d"))
    for log in bl.LogDir(tmp_path / "d").logs():
        assert rows(log) == rows(bl.LogDir(path).log(log.topic, log.partition)), log.name


@pytest.fixture
def source(tmp_path):
    """Three topics: one that starts late and ends with what compaction took, one of two partitions, one empty."""
    with bl.LogDir.create(tmp_path / "s") as log_dir:
        log_dir.create_topic("late", segment_bytes=1000, retention_ms=-1)
        log = log_dir.log("late", 0)
        for _ in range(4):
            log.append(batch(0, [b"x"] * 50, timestamp=NOW))
        log.append_as_follower(batch(200, [b"last"], leader_epoch=3, last_offset_delta=49, timestamp=NOW))
        log.delete_records(120)
        log_dir.create_topic("two", 2)
        for number in range(2):
            log_dir.log("two", number).append(batch(0, [b"%d" % number] * 50, timestamp=NOW))
        log_dir.create_topic("empty")
        log_dir.create_topic("expired")
        log_dir.log("expired", 0).append(batch(0, [b"x"] * 7, timestamp=NOW))
        log_dir.log("expired", 0).delete_records(7)
    return tmp_path / "s"


FINE = {"minPartitions": "100"}


@pytest.fixture
def exported(source, tmp_path):
    export(Here(), str(source), str(tmp_path / "e"), options=FINE)
    return str(tmp_path / "e")


def assert_restored(source, path):
    assert bl.LogDir(path).topics() == bl.LogDir(source).topics()
    for log in bl.LogDir(source).logs():
        restored = bl.LogDir(path).log(log.topic, log.partition)
        assert rows(restored) == rows(log)
        assert ends(restored) == ends(log)
        assert restored.topic_id == log.topic_id


def test_where_logs_start_and_end_is_kept(source, exported, tmp_path):
    restore(Here(), exported, str(tmp_path / "d"))
    assert_restored(source, tmp_path / "d")
    late = bl.LogDir(tmp_path / "d").log("late", 0)
    assert ends(late) == (120, 250)
    assert late.leader_epochs[-1].epoch == 3
    assert ends(bl.LogDir(tmp_path / "d").log("expired", 0)) == (7, 7)
    with bl.LogDir.open(tmp_path / "d") as log_dir:
        assert log_dir.log("late", 0).settings.retention_ms == -1
        assert log_dir.log("late", 0).settings.segment_bytes == 1000
        # and it goes on behind that
        log_dir.log("late", 0).append(batch(0, [b"next"], timestamp=NOW))
    assert rows(bl.LogDir(tmp_path / "d").log("late", 0))[-1]["offset"] == 250


def test_a_run_after_a_failure_does_what_is_left(source, exported, tmp_path, monkeypatch):
    monkeypatch.setattr("brokerless.spark.jobs.restore._TARGET", 1)
    with pytest.raises(FailedError):
        restore(Here(failing_at(1)), exported, str(tmp_path / "d"))
    assert bl.LogDir(tmp_path / "d").topics() == []
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
        patch.setattr("brokerless.log.journal.commit", fail)
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

    bl.LogDir.create(tmp_path / "d").close()
    with monkeypatch.context() as patch:
        patch.setattr("brokerless.log.journal._sync", fail)
        with pytest.warns(UserWarning, match="what was written is in force"):
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
    assert len(rows(bl.LogDir(tmp_path / "d").log("two", 0))) == 1


def test_a_topic_that_ends_where_the_exported_one_does_is_left_alone(source, exported, tmp_path):
    """Of other records none may be taken for restored ones, and none deleted."""
    with bl.LogDir.create(tmp_path / "d") as log_dir:
        log_dir.create_topic("late")
        log_dir.log("late", 0).append(batch(0, [b"OTHER"] * 250, timestamp=NOW))
    with pytest.raises(ValueError, match=r"topic 'late' is in .* already, with other records"):
        restore(Here(), exported, str(tmp_path / "d"), topics=["late"])
    assert ends(bl.LogDir(tmp_path / "d").log("late", 0)) == (0, 250)


def test_a_topic_of_another_export_is_left_alone(source, exported, tmp_path):
    export(Here(), str(source), str(tmp_path / "other"), options=FINE)
    restore(Here(), str(tmp_path / "other"), str(tmp_path / "d"))
    with pytest.raises(ValueError, match=r"already, with other records"):
        restore(Here(), exported, str(tmp_path / "d"))
    assert_restored(source, tmp_path / "d")


def test_a_topic_that_was_written_to_since(exported, tmp_path):
    restore(Here(), exported, str(tmp_path / "d"))
    with bl.LogDir.open(tmp_path / "d", sole_replica=True) as log_dir:
        log_dir.log("two", 0).append(batch(0, [b"next"], timestamp=NOW))
    with pytest.raises(ValueError, match=r"topic 'two' was restored to .*, and written to since"):
        restore(Here(), exported, str(tmp_path / "d"))


def test_a_topic_that_is_written_to_meanwhile(exported, tmp_path):
    """Its rows would come before those of the export, whose offsets begin behind them."""
    with bl.LogDir.create(tmp_path / "d") as log_dir:
        log_dir.create_topic("late")

    def write(argument):
        with bl.Producer(tmp_path / "d", "late") as producer:
            producer.send([{"value": b"1"}])

    with pytest.raises(ValueError, match=r"late-0 in .* ends at offset \d+: a topic that is restored has to be empty"):
        restore(Here(write), exported, str(tmp_path / "d"), topics=["late"])
    assert len(rows(bl.LogDir(tmp_path / "d").log("late", 0))) == 1


def test_parts_of_another_export_are_not_taken(source, exported, tmp_path, monkeypatch):
    """It has the same plan: only what is in its files is different."""

    def fail(*args, **kwargs):
        raise FailedError

    export(Here(), str(source), str(tmp_path / "other"), options=FINE)
    with monkeypatch.context() as patch:
        patch.setattr("brokerless.committing.Write.commit", fail)
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
            except bl.LogInUseError as error:
                found.append(error)
        return real(*args, **kwargs)

    monkeypatch.setattr(name, call)
    return found


@pytest.mark.parametrize(
    "name", ["brokerless.committing.append_parts", "brokerless.log_dir_writer.LogDirWriter.commit"]
)
def test_another_driver_during_the_commit_takes_nothing_away(source, exported, tmp_path, monkeypatch, name):
    found = second_driver(monkeypatch, exported, str(tmp_path / "d"), name)
    restore(Here(), exported, str(tmp_path / "d"))
    assert len(found) == 2
    assert_restored(source, tmp_path / "d")


def test_another_driver_that_comes_first(source, exported, tmp_path, monkeypatch):
    found = second_driver(monkeypatch, exported, str(tmp_path / "d"), "brokerless.committing.Write.commit")
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
    with pytest.raises(ValueError, match="has changed since its commit was begun"):
        restore(Here(), exported, str(tmp_path / "d"))
    assert bl.LogDir(tmp_path / "d").topics() == []


def test_a_directory_that_is_in_use_for_a_while(source, exported, tmp_path):
    """As in the sink: what tasks made is not lost because somebody looks after the directory."""
    bl.LogDir.create(tmp_path / "d").close()
    held = []

    def hold(argument):
        held.append(bl.LogDir.open(tmp_path / "d", sole_replica=True))
        held.append(threading.Timer(0.3, held[0].close))
        held[1].start()

    restore(Here(hold), exported, str(tmp_path / "d"))
    held[1].join()
    assert_restored(source, tmp_path / "d")


def test_a_topic_that_was_created_for_it(source, exported, tmp_path):
    """As it has to be where a cluster was started on the directory."""
    with bl.LogDir.create(tmp_path / "d") as log_dir:
        log_dir.create_topic("two", 2)
    restore(Here(), exported, str(tmp_path / "d"), topics=["two"])
    for number in range(2):
        log = bl.LogDir(source).log("two", number)
        assert rows(bl.LogDir(tmp_path / "d").log("two", number)) == rows(log)


def test_an_export_that_is_not_whole(source, tmp_path):
    with pytest.raises(FailedError):
        export(Here(failing_at(2)), str(source), str(tmp_path / "e"), options=FINE)
    with pytest.raises(ValueError, match="is no whole export"):
        restore(Here(), str(tmp_path / "e"), str(tmp_path / "d"))
    assert not (tmp_path / "d").exists()


def test_a_file_that_lost_rows(exported, tmp_path):
    (file,) = (tmp_path / "e").glob("topic=late/*/*.parquet")
    pq.write_table(pq.ParquetFile(file).read().slice(1), file)
    with pytest.raises(ValueError, match="has 80 rows, and was exported with 81"):
        restore(Here(), exported, str(tmp_path / "d"))
    file.write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=file.name):
        restore(Here(), exported, str(tmp_path / "d"))
    assert bl.LogDir(tmp_path / "d").topics() == []


def spoiled(exported, change):
    """Change a manifest, and let `_SUCCESS` vouch for it: an export that somebody made for us."""
    manifest, success = (pathlib.Path(exported) / name for name in ("_manifest.json", "_SUCCESS"))
    fields = json.loads(manifest.read_text())
    change(fields)
    manifest.write_text(json.dumps(fields))
    success.write_text(f"{hashlib.sha256(manifest.read_bytes()).hexdigest()}\n")


def numbered(fields, number):
    partitions = fields["topics"]["late"]["partitions"]
    partitions[number] = partitions["0"]


def of_late(name, value):
    return lambda fields: fields["topics"]["late"]["partitions"]["0"].update({name: value})


def of_file(name, value):
    return lambda fields: fields["files"][0].update({name: value})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (of_file("name", "../e/topic=late/partition=0/00000000000000000000-000000.parquet"), "is not the name of"),
        (of_file("name", "topic=late/partition=0/../../../x.parquet"), "x.parquet' is not the name of"),
        (of_file("topic", "../../x"), "which is not in it"),
        (of_file("partition", "0"), "partition of a file: '0'"),
        (of_file("rows", 10**6), "rows of topic=late"),
        (of_file("bytes", True), "bytes of topic=late"),
        (of_file("last_offset", 10**6), "last_offset of topic=late"),
        (of_late("end_offset", 5), "start_offset of late-0: 120, and 0 to 5"),
        (of_late("start_offset", 251), "start_offset of late-0: 251, and 0 to 250"),
        (of_late("end_offset", 1 << 63), "end_offset of late-0"),
        (of_late("leader_epoch", "3"), "leader_epoch of late-0"),
        (lambda fields: fields["topics"].update({"../x": fields["topics"]["late"]}), "not a topic name"),
        (lambda fields: fields["topics"]["late"].update(partitions={}), "topic 'late' has no partition"),
        (lambda fields: fields["topics"]["late"].update(topic_id="../x"), "'../x'"),
        (lambda fields: fields["topics"]["late"].update(configs={"segment.bytes": "x"}), "segment.bytes='x'"),
        (lambda fields: numbered(fields, "-1"), "'-1' is no partition"),
        (lambda fields: numbered(fields, "2000000000"), "partition of topic 'late': 2000000000"),
        (lambda fields: fields.update(tasks="3"), "tasks '3'"),
    ],
)
def test_a_manifest_that_says_what_cannot_be(exported, tmp_path, change, message):
    spoiled(exported, change)
    with pytest.raises(ValueError, match=r"_manifest\.json is not what an export says of itself: ") as caught:
        restore(Here(), exported, str(tmp_path / "d"))
    assert message in str(caught.value)
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("timestamp", None, "column timestamp has 81 nulls"),
        ("offset", None, "column offset has 81 nulls"),
        ("offset", range(1000, 1081), "has offsets 1000 to 1080, and was exported with 120 to 200"),
        ("offset", [*range(120, 200), 1 << 40], "has offsets 120 to 1099511627776"),
        ("value", "", "there is no column value"),
        ("timestampMillis", "", "there is no column timestampMillis"),
        ("value", pa.array(["x"] * 81), "column value is string, not binary"),
    ],
)
def test_a_file_that_is_not_what_was_exported(exported, tmp_path, column, value, message):
    (file,) = (tmp_path / "e").glob("topic=late/*/*.parquet")
    table = pq.ParquetFile(file).read()
    at = table.schema.get_field_index(column)
    if isinstance(value, str):
        table = table.drop_columns([column])
    else:
        kind = value.type if isinstance(value, pa.Array) else table.schema.field(at).type
        table = table.set_column(at, column, pa.array([None] * 81 if value is None else value, kind))
    pq.write_table(table, file)
    with pytest.raises(ValueError, match=message) as caught:
        restore(Here(), exported, str(tmp_path / "d"))
    assert file.name in str(caught.value)
    assert bl.LogDir(tmp_path / "d").topics() == []


def test_an_export_that_lost_records_is_not_restored_silently(source, tmp_path, monkeypatch, capsys):
    damaged = source / "two-0" / f"{0:020d}.log"
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    lost = export(Here(), str(source), str(tmp_path / "e"), options={"onCorrupt": "skip"}).lost
    with pytest.warns(UserWarning, match="lacks what was damaged when it was exported, in 1 places"):
        assert restore(Here(), str(tmp_path / "e"), str(tmp_path / "d")).lost == lost
    command = importlib.import_module("brokerless.cli.spark.restore")
    monkeypatch.setattr(command, "task_progress", lambda *_: contextlib.nullcontext())
    given = {"topics": (), "topic_ids": (), "compression": "none", "batch_size": 16384, "sole_replica": False}
    with pytest.raises(SystemExit) as ended, pytest.warns(UserWarning, match="lacks what was damaged"):
        command.restore.callback.__wrapped__(
            Here(), exported=str(tmp_path / "e"), to=str(tmp_path / "d"), form="text", **given
        )
    assert ended.value.code == 1
    assert f"lost: offsets 0 to 49 at {damaged}:0: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "form", "message"),
    [
        ({"columns": "value"}, "parquet", "exported without key, timestamp, timestampType, headers, leaderEpoch"),
        ({"columns": "key,value,timestamp,timestampType,headers,leaderEpoch,magic"}, "json", "exported with magic"),
    ],
)
def test_columns_that_are_needed(source, tmp_path, options, form, message):
    export(Here(), str(source), str(tmp_path / "e"), options=options, format=form)
    with pytest.raises(ValueError, match=message):
        restore(Here(), str(tmp_path / "e"), str(tmp_path / "d"))


def test_topics_that_are_not_there(exported, tmp_path):
    with pytest.raises(ValueError, match="unknown topic 'tow': did you mean 'two'"):
        restore(Here(), exported, str(tmp_path / "d"), topics=["tow"])
