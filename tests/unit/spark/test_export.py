"""Exports as their tasks make them, in this process: what is refused, and what a run after a failure goes on with."""

import importlib
import random

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

pytest.importorskip("pyspark")

import brokerless as bl
from brokerless import _native
from brokerless.spark import export, restore
from brokerless.spark.jobs.export_directory import ExportDirectory
from brokerless.spark.jobs.export_files import FileWriter
from brokerless.spark.jobs.manifest import Manifest
from support.damage import flip_bit
from support.log_files import NOW, batch
from support.spark_stand_in import FailedError, Here, failing_at

# The module: the package has a function of this name.
jobs_export = importlib.import_module("brokerless.spark.jobs.export")


@pytest.fixture
def numbers(tmp_path):
    """A topic of two partitions, of which the first has three segments."""
    with bl.create_log_dir(tmp_path / "d") as log_dir:
        log_dir.create_topic("t", 2, segment_bytes=1000)
        for number in range(5):
            log_dir.log("t", 0).append(batch(0, [b"%d" % number] * 50, timestamp=NOW))
        log_dir.log("t", 1).append(batch(0, [b"9"] * 50, timestamp=NOW))
    return str(tmp_path / "d")


# A task for each segment.
FINE = {"minPartitions": "100"}


def values(to):
    table = (
        ds.dataset(str(to), partitioning="hive")
        .to_table()
        .sort_by([("partition", "ascending"), ("offset", "ascending")])
    )
    return table["value"].to_pylist()


EXPECTED = [b"%d" % number for number in (0, 1, 2, 3, 4, 9) for _ in range(50)]


def test_a_run_after_a_failure_does_what_is_left(numbers, tmp_path):
    with pytest.raises(FailedError):
        export(Here(failing_at(2)), numbers, str(tmp_path / "e"), options=FINE)
    assert not (tmp_path / "e/_SUCCESS").exists()
    # what is seen is whole
    assert values(tmp_path / "e") == EXPECTED[: len(values(tmp_path / "e"))]
    first = {file: file.stat().st_mtime_ns for file in (tmp_path / "e").glob("*/*/*.parquet")}
    again = Here()
    found = export(again, numbers, str(tmp_path / "e"), options=FINE)
    assert again.made == [2, 3]
    assert (found.tasks, found.skipped) == (2, 2)
    assert values(tmp_path / "e") == EXPECTED
    assert {file: file.stat().st_mtime_ns for file in first} == first
    assert sorted(file.name for file in (tmp_path / "e").iterdir()) == ["_SUCCESS", "_manifest.json", "topic=t"]
    once_more = Here()
    assert export(once_more, numbers, str(tmp_path / "e"), options=FINE).partitions == found.partitions
    assert once_more.made == []


def test_a_file_that_is_not_as_it_was_written_is_written_again(numbers, tmp_path):
    with pytest.raises(FailedError):
        export(Here(failing_at(3)), numbers, str(tmp_path / "e"), options=FINE)
    cut, gone, *_ = sorted((tmp_path / "e").glob("*/*/*.parquet"))
    cut.write_bytes(cut.read_bytes()[:-1])
    gone.unlink()
    again = Here()
    export(again, numbers, str(tmp_path / "e"), options=FINE)
    assert again.made == [0, 1, 3]
    assert values(tmp_path / "e") == EXPECTED


def test_an_attempt_beside_another_writes_the_same(numbers, tmp_path):
    """As a speculative copy of a task does, at any time."""
    calls = []
    export(Here(calls.append), numbers, str(tmp_path / "e"), options=FINE)
    written = {file: file.read_bytes() for file in (tmp_path / "e").glob("*/*/*.parquet")}
    directory = ExportDirectory(str(tmp_path / "e"))
    directory.begin()
    _writer(directory).write_numbered(calls[1])
    assert {file: file.read_bytes() for file in (tmp_path / "e").glob("*/*/*.parquet")} == written


def _writer(directory):
    columns = Manifest.read(directory).columns
    return FileWriter(directory=directory, form="parquet", columns=columns, compression="zstd", check_crcs=True)


def test_a_task_that_comes_late_finishes_nothing(numbers, tmp_path):
    calls = []
    export(Here(calls.append), numbers, str(tmp_path / "e"), options=FINE)
    before = sorted(tmp_path.glob("e/**/*"))
    with pytest.raises(FileNotFoundError):
        _writer(ExportDirectory(str(tmp_path / "e"))).write_numbered(calls[1])
    assert sorted(tmp_path.glob("e/**/*")) == before


@pytest.mark.slow
@pytest.mark.parametrize(("distinct", "is_small"), [(2000, True), (8000, False)])
def test_values_that_repeat_are_written_once(tmp_path, distinct, is_small):
    """Some thousand of 1 KB fit a dictionary; what does not repeat is written as it is, with nothing lost."""
    expected = [random.Random(number % distinct).randbytes(1000) for number in range(16_000)]
    with bl.create_log_dir(tmp_path / "d") as log_dir:
        log_dir.create_topic("t")
        for start in range(0, len(expected), 500):
            log_dir.log("t", 0).append(batch(0, expected[start : start + 500], timestamp=NOW))
    export(Here(), str(tmp_path / "d"), str(tmp_path / "e"))
    assert values(tmp_path / "e") == expected
    size = sum(file.stat().st_size for file in (tmp_path / "e").glob("*/*/*.parquet"))
    assert (size < 10_000_000) == is_small


def test_damage_leaves_no_file_of_the_task(numbers, tmp_path):
    damaged = tmp_path / "d/t-0" / f"{100:020d}.log"
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(bl.errors.CorruptRecordError):
        export(Here(), numbers, str(tmp_path / "e"), options=FINE)
    assert [file.name[:20] for file in (tmp_path / "e").glob("*/*/*")] == [f"{0:020d}"]
    assert list((tmp_path / "e/_temporary").iterdir()) == []
    found = export(Here(), numbers, str(tmp_path / "skipping"), options={**FINE, "onCorrupt": "skip"})
    assert [(lost.start_offset, lost.end_offset) for lost in found.lost] == [(150, 200)]
    assert values(tmp_path / "skipping") == [value for value in EXPECTED if value != b"3"]


@pytest.mark.parametrize("options", [{}, FINE])
@pytest.mark.parametrize(
    ("base_offsets", "kept", "lost"),
    [
        ([0, 2, 2, 4], [0, 1, 2, 3, 4, 5], []),
        ([0, 2, 1 << 40, 6], [0, 1, 2, 3, 6, 7], [(4, 6)]),
        ([0, 4, 2, 6], [0, 1, 6, 7], [(2, 4), (4, 6)]),
        ([1 << 40, 2, 4, 6], [2, 3, 4, 5, 6, 7], [(0, 2)]),
        ([0, 2, 0, 6], [0, 1, 2, 3, 6, 7], [(4, 6)]),
    ],
    ids=["twice", "flipped", "swapped", "flipped-first", "flipped-down"],
)
def test_offsets_that_no_restore_would_take(tmp_path, base_offsets, kept, lost, options):
    """They are not in a batch's checksum."""
    with bl.create_log_dir(tmp_path / "d") as log_dir:
        log_dir.create_topic("t", segment_bytes=2 * len(batch(0, [b"a", b"b"])) + 1)
        for offset in (0, 2, 4, 6, 8):
            log_dir.log("t", 0).append(batch(0, [b"%d" % offset, b""], timestamp=NOW))
    for segment in bl.LogDirs(tmp_path / "d").log("t", 0).segments[:2]:
        bases, base_offsets = base_offsets[:2], base_offsets[2:]
        with open(segment.path, "wb") as file:
            file.writelines(batch(base, [b"%d" % base, b""], timestamp=NOW) for base in bases)
    with pytest.raises(bl.errors.CorruptRecordError, match=r"(?s)offset \d+ is (not )?below \d+.*skip"):
        export(Here(), str(tmp_path / "d"), str(tmp_path / "e"), options=options)
    found = export(Here(), str(tmp_path / "d"), str(tmp_path / "x"), options={**options, "onCorrupt": "skip"})
    assert [(one.start_offset, one.end_offset) for one in found.lost if one.end_offset != one.start_offset] == lost
    with pytest.warns(UserWarning, match=r"in (1 place|2 places),"):
        restore(Here(), str(tmp_path / "x"), str(tmp_path / "r"))
    restored = bl.LogDirs(tmp_path / "r").log("t", 0).read(columns=["offset"])
    assert [offset for rows in restored for offset in rows["offset"].to_pylist()] == [*kept, 8, 9]


def test_another_job_in_the_same_directory_is_refused(numbers, tmp_path):
    export(Here(), numbers, str(tmp_path / "e"), options=FINE)
    for other in (
        {"options": {**FINE, "columns": "value"}},
        {"compression": "snappy"},
        {"options": {**FINE, "startingOffsets": '{"t":{"0":1,"1":0}}'}},
    ):
        with pytest.raises(ValueError, match="has another export"):
            export(Here(), numbers, str(tmp_path / "e"), **other)
    with bl.open_log_dir(numbers, sole_replica=True) as log_dir:
        log_dir.log("t", 1).append(batch(0, [b"10"], timestamp=NOW))
    with pytest.raises(ValueError, match="or the logs have changed"):
        export(Here(), numbers, str(tmp_path / "e"), options=FINE)
    assert values(tmp_path / "e") == EXPECTED
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").touch()
    with pytest.raises(ValueError, match="holds file, and is not an export"):
        export(Here(), numbers, str(tmp_path / "other"))


@pytest.mark.parametrize("sizes", [FINE, {}, {"maxRecordsPerPartition": "70"}, {"maxRecordsPerPartition": "20"}])
def test_an_export_with_an_end_goes_on_though_the_logs_grow(numbers, tmp_path, sizes):
    ends = {"endingOffsets": '{"t":{"0":240,"1":50}}', **sizes}
    with pytest.raises(FailedError):
        export(Here(failing_at(0)), numbers, str(tmp_path / "e"), options=ends)
    with bl.open_log_dir(numbers, sole_replica=True) as log_dir:
        for number in (0, 1):
            for _ in range(20):
                log_dir.log("t", number).append(batch(0, [b"10"] * 50, timestamp=NOW))
    again = Here()
    found = export(again, numbers, str(tmp_path / "e"), options=ends)
    assert len(again.made) == found.tasks
    assert values(tmp_path / "e") == [*EXPECTED[:240], *EXPECTED[250:]]
    partitions = Manifest.read(ExportDirectory(str(tmp_path / "e"))).topics["t"].partitions
    assert {number: partition.end_offset for number, partition in partitions.items()} == {0: 240, 1: 50}


@pytest.mark.parametrize("options", [FINE, {**FINE, "endingOffsets": '{"t":{"0":250,"1":50}}'}])
@pytest.mark.parametrize("partition", [0, 1])
def test_an_export_of_logs_that_were_rewritten_does_not_go_on(tmp_path, options, partition):
    """Else it has rows that were erased meanwhile, in files of tasks that are done."""
    with bl.create_log_dir(tmp_path / "d") as log_dir:
        log_dir.create_topic("t", 2, segment_bytes=1000)
        for number, count in ((0, 5), (1, 1)):
            for _ in range(count):
                encoder = _native.Encoder(batch_size=100)
                rows = [{"key": b"%d" % key, "value": b"x"} for key in range(50)]
                log_dir.log("t", number).append_each(encoder.encode(pa.RecordBatch.from_pylist(rows), timestamp=NOW))
    with pytest.raises(FailedError):
        export(Here(failing_at(1)), str(tmp_path / "d"), str(tmp_path / "e"), options=options)
    with bl.open_log_dir(tmp_path / "d", sole_replica=True) as log_dir:
        log_dir.log("t", partition).run(bl.Erasure(keys=[b"33"]))
    with pytest.raises(ValueError, match="or the logs have changed"):
        export(Here(), str(tmp_path / "d"), str(tmp_path / "e"), options=options)


def test_a_directory_that_a_task_does_not_see(numbers, tmp_path):
    def gone(argument):
        (tmp_path / "e/_manifest.json").unlink()

    with pytest.raises(ValueError, match=r"_manifest\.json is not visible on"):
        export(Here(gone), numbers, str(tmp_path / "e"))


def test_an_object_store(numbers, tmp_path):
    import fsspec

    store = fsspec.filesystem("memory")
    store.put(numbers, "/export-source", recursive=True)
    with pytest.raises(FailedError):
        export(Here(failing_at(2)), "memory://export-source", "memory://exported/t", options=FINE)
    again = Here()
    export(again, "memory://export-source", "memory://exported/t", options=FINE)
    assert again.made == [2, 3]
    store.get("/exported/t", str(tmp_path / "e"), recursive=True)
    assert values(tmp_path / "e") == EXPECTED
    assert sorted(file.name for file in (tmp_path / "e").iterdir()) == [
        "_SUCCESS",
        "_manifest.json",
        "_tasks",
        "topic=t",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"format": "orc"}, "unknown format 'orc'"),
        ({"compression": "brotli"}, "unknown compression 'brotli'"),
        ({"format": "json", "compression": "zstd"}, "unknown compression 'zstd'"),
        ({"format": "delta", "compression": "zstd"}, "delta has settings of its own"),
        ({"options": {"view": "batches"}}, "option view is not for an export"),
        ({"options": {"Path": "x"}}, "option Path is not for an export"),
        ({"options": {"columns": "vlaue"}}, "did you mean 'value'"),
        ({"options": {"startingOffsets": "latest"}}, "cannot be latest"),
        ({"topics": ["x"]}, "unknown topic 'x'"),
        ({"options": {"decode": "value=avro"}}, "unknown form of values 'avro'"),
        ({"options": {"decode": "value=utf8", "columns": "valueSubject"}}, "unknown column 'valueSubject'"),
        ({"options": {"decode": "value=registry"}}, "_schemas"),
    ],
)
def test_what_cannot_be(numbers, tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        export(Here(), numbers, str(tmp_path / "e"), **arguments)
    assert not (tmp_path / "e").exists()


def test_no_export_in_a_log_directory(numbers, tmp_path):
    with pytest.raises(ValueError, match=r"d is a log directory. A broker loads"):
        export(Here(), numbers, f"{numbers}/e")
    with pytest.raises(ValueError, match=r"d is a log directory. A broker loads"):
        export(Here(), numbers, f"{numbers}/exports/e")
    with pytest.raises(ValueError, match="t-0 is a partition directory"):
        export(Here(), numbers, f"{numbers}/t-0/exports/e")
    with pytest.raises(ValueError, match="and is not an export"):
        export(Here(), numbers, numbers)
    assert not list(tmp_path.glob("d/**/e*"))


def test_a_run_that_was_planned_before_another_one_ended(numbers, tmp_path, monkeypatch):
    """It must not put its empty manifest beside the other one's `_SUCCESS`."""
    real = jobs_export.plan

    def planned(*args):
        monkeypatch.setattr(jobs_export, "plan", real)
        export(Here(), numbers, str(tmp_path / "e"))
        return real(*args)

    monkeypatch.setattr(jobs_export, "plan", planned)
    with pytest.raises(ValueError, match="another run has begun an export"):
        export(Here(), numbers, str(tmp_path / "e"))
    assert sum(file.rows for file in Manifest.read(ExportDirectory(str(tmp_path / "e"))).files) == 300


@pytest.mark.parametrize("name", ["_SUCCESS", "_manifest.json"])
def test_a_file_of_another_export_is_not_taken_for_success(numbers, tmp_path, name):
    for to in ("e", "other"):
        export(Here(), numbers, str(tmp_path / to))
    (tmp_path / "e" / name).write_bytes((tmp_path / "other" / name).read_bytes())
    with pytest.raises(ValueError, match="is not a finished export: _SUCCESS is not of this manifest"):
        restore(Here(), str(tmp_path / "e"), str(tmp_path / "r"))
    again = Here()
    export(again, numbers, str(tmp_path / "e"))
    assert len(again.made) == 1
    restore(Here(), str(tmp_path / "e"), str(tmp_path / "r"))


def test_an_export_whose_files_are_gone_says_so(numbers, tmp_path):
    export(Here(), numbers, str(tmp_path / "e"), options=FINE)
    cut, gone, *_ = sorted((tmp_path / "e").glob("*/*/*.parquet"))
    content = cut.read_bytes()
    cut.write_bytes(content[:-1])
    with pytest.raises(ValueError, match=f"{cut.name} has {len(content) - 1} bytes, and was written with"):
        export(Here(), numbers, str(tmp_path / "e"), options=FINE)
    cut.write_bytes(content)
    gone.unlink()
    with pytest.raises(ValueError, match=f"{gone.name} is gone"):
        export(Here(), numbers, str(tmp_path / "e"), options=FINE)


def test_a_file_of_no_topic_is_refused(golden, tmp_path):
    (tmp_path / "lone.log").write_bytes(b"")
    with pytest.raises(ValueError, match="is of no topic"):
        export(Here(), str(tmp_path / "lone.log"), str(tmp_path / "e"))


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"version": 2}', b'{"version": 1, "topics": 3}'])
def test_a_manifest_that_is_none(numbers, tmp_path, content):
    (tmp_path / "e").mkdir()
    (tmp_path / "e/_manifest.json").write_bytes(content)
    with pytest.raises(ValueError, match="is not a valid manifest"):
        export(Here(), numbers, str(tmp_path / "e"))


def test_an_export_leaves_out_no_more_rows_than_needed(tmp_path):
    """One batch in the middle seems to be near the end of its segment."""
    with bl.create_log_dir(tmp_path / "d") as log_dir:
        log_dir.create_topic("t")
        for offset in range(100):
            log_dir.log("t", 0).append(batch(0, [b"%02d" % offset], timestamp=NOW))
    log = tmp_path / "d/t-0" / f"{0:020d}.log"
    flip_bit(log, 3 * log.stat().st_size // 100 + 7, 6)
    found = export(Here(), str(tmp_path / "d"), str(tmp_path / "e"), options={"onCorrupt": "skip"})
    assert [(one.start_offset, one.end_offset) for one in found.lost] == [(3, 4)]
    assert values(tmp_path / "e") == [b"%02d" % offset for offset in range(100) if offset != 3]
