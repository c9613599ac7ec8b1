"""What an export says of itself is checked before it is restored, and its files against that."""

import contextlib
import hashlib
import importlib
import inspect
import json
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

import brokerless as bl
from brokerless.spark import export, restore
from brokerless.spark.jobs.export_directory import ExportDirectory
from support.log_files import NOW, batch
from support.restored_directory import FINE, exported_to, new_source
from support.spark_stand_in import FailedError, Here, failing_at


@pytest.fixture
def source(tmp_path):
    return new_source(tmp_path / "s")


@pytest.fixture
def exported(source, tmp_path):
    return exported_to(tmp_path / "e", source)


def test_an_export_that_is_not_whole(source, tmp_path):
    with pytest.raises(FailedError):
        export(Here(failing_at(2)), str(source), str(tmp_path / "e"), options=FINE)
    with pytest.raises(ValueError, match="is not a finished export"):
        restore(Here(), str(tmp_path / "e"), str(tmp_path / "d"))
    assert not (tmp_path / "d").exists()


def test_a_receipt_that_is_none_is_named(source, tmp_path):
    """The error was "Expecting value", without a file."""
    with pytest.raises(FailedError):
        export(Here(failing_at(2)), str(source), str(tmp_path / "e"), options=FINE)
    receipt = next(path for path in (tmp_path / "e").rglob("*.json") if path.stem.isdigit())
    receipt.write_bytes(b"")
    with pytest.raises(ValueError, match=rf"{receipt.name} is not the receipt of a task: .*delete it"):
        export(Here(), str(source), str(tmp_path / "e"), options=FINE)


def test_a_file_that_lost_rows(exported, tmp_path):
    (file,) = (tmp_path / "e").glob("topic=late/*/*.parquet")
    pq.write_table(pq.ParquetFile(file).read().slice(1), file)
    with pytest.raises(ValueError, match="has 80 rows, and was exported with 81"):
        restore(Here(), exported, str(tmp_path / "d"))
    file.write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=file.name):
        restore(Here(), exported, str(tmp_path / "d"))
    assert bl.LogDirs(tmp_path / "d").topics() == []


def test_a_file_that_is_gone_is_told_before_anything_is_begun(exported, tmp_path):
    (file,) = (tmp_path / "e").glob("topic=late/*/*.parquet")
    file.unlink()
    with pytest.raises(
        ValueError,
        match=f"topic 'late' cannot be restored, because .*1 file of the export is missing, such as .*{file.name}\\.",
    ):
        restore(Here(), exported, str(tmp_path / "d"))
    assert not (tmp_path / "d").exists()
    restore(Here(), exported, str(tmp_path / "d"), topics=["two"])
    assert bl.LogDirs(tmp_path / "d").topics() == ["two"]


def test_a_directory_of_an_export_is_listed_once_however_many_files_it_has(tmp_path, monkeypatch):
    """A listing for each file takes minutes for some ten thousands of them, and longer in a store."""
    with bl.create_log_dir(tmp_path / "s") as log_dir:
        log_dir.create_topic("t", segment_bytes=1000)
        for _ in range(4):
            log_dir.log("t", 0).append(batch(0, [b"x"] * 50, timestamp=NOW))
    exported, names, listed = exported_to(tmp_path / "e", tmp_path / "s"), ExportDirectory.names, []

    def counted(directory, place=""):
        listed.append(place)
        return names(directory, place)

    monkeypatch.setattr(ExportDirectory, "names", counted)
    restore(Here(), exported, str(tmp_path / "d"))
    assert len(list((tmp_path / "e" / "topic=t" / "partition=0").iterdir())) > 1
    assert listed.count("topic=t/partition=0") == 1


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
        (of_late("end_offset", 5), "start_offset of late-0: 120 found, 0 to 5 expected"),
        (of_late("start_offset", 251), "start_offset of late-0: 251 found, 0 to 250 expected"),
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
    with pytest.raises(ValueError, match=r"_manifest\.json is not a valid manifest: ") as caught:
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
    assert bl.LogDirs(tmp_path / "d").topics() == []


def test_an_export_that_lost_records_is_not_restored_silently(source, tmp_path, monkeypatch, capsys):
    damaged = source / "two-0" / f"{0:020d}.log"
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    lost = export(Here(), str(source), str(tmp_path / "e"), options={"onCorrupt": "skip"}).lost
    with pytest.warns(UserWarning, match="left out the damaged ranges of its logs, in 1 place,"):
        assert restore(Here(), str(tmp_path / "e"), str(tmp_path / "d")).lost == lost
    command = importlib.import_module("brokerless.cli.spark.restore")
    monkeypatch.setattr(command, "task_progress", lambda *_: contextlib.nullcontext())
    given = {"topics": (), "topic_ids": (), "compression": "none", "batch_size": 16384, "sole_replica": False}
    with pytest.raises(SystemExit) as ended, pytest.warns(UserWarning, match="left out the damaged ranges of its logs"):
        inspect.unwrap(command.restore.callback)(
            Here(), exported=str(tmp_path / "e"), output=str(tmp_path / "d"), form="text", **given
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


def say_more(fields):
    fields["zz"] = 1


def say_less(fields):
    del fields["files"][0]["rows"]


@pytest.mark.parametrize(
    ("change", "message"), [(say_more, "'zz' is not a field of Manifest$"), (say_less, "'rows' is missing$")]
)
def test_what_a_manifest_says_too_much_or_not_at_all_is_named(exported, tmp_path, change, message):
    spoiled(exported, change)
    with pytest.raises(ValueError, match=rf"_manifest\.json is not a valid manifest: {message}"):
        restore(Here(), exported, str(tmp_path / "d"))


def test_a_directory_that_is_no_export(exported, tmp_path):
    (tmp_path / "e/_manifest.json").unlink()
    with pytest.raises(ValueError, match=r"e is not an export: it has no _manifest\.json; give the directory"):
        restore(Here(), exported, str(tmp_path / "d"))


def test_an_export_that_is_not_there_is_told_before_spark_starts(run, tmp_path):
    result = run("spark", "restore", tmp_path / "nothing", "--output", tmp_path / "d", "--master", "no such thing")
    assert (result.code, "nothing' does not exist" in result.err) == (2, True)
