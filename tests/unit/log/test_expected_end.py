"""What a directory's own files tell of and a log lacks: every verb says so, and none lets the evidence go unasked."""

import json
import re
import shutil
import struct

import pyarrow as pa
import pytest

import brokerless as bl
from brokerless import Compaction, Conversion, Erasure, Retention, Truncation, rewrite
from brokerless.inspection.findings import findings
from brokerless.layout import checkpoints
from brokerless.log_dir.recover import recovered
from brokerless.spark.source.options import Options
from brokerless.spark.source.tasks import plan_segments
from support.damage import cut, overwrite, remove
from support.log_files import batch
from support.state_records import commit_key, commit_value, write_records

VERBS = [
    Compaction(roll=True),
    Conversion(compression="gzip"),
    Erasure(keys=(b"k",)),
    Retention(retention_bytes=1),
    Truncation(offset=3),
]
CHECKPOINTS = "t-0 ends at 8, but recovery-point-offset-checkpoint"
CUT = f"{CHECKPOINTS}, replication-offset-checkpoint and 0+9.snapshot say 9, so offsets 8 to 8 are lost"
REMOVED = "offsets 3 to 5 are lost: 0+3.log is missing, but its indexes are here"


@pytest.fixture
def data(tmp_path):
    """A log directory that was left clean: nine records in segments 0, 3, 6."""
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", segment_bytes=250)
        for i in range(9):
            log_dir.log("t", 0).append(batch(0, [b"%d" % i], keys=[b"k"]))
    return tmp_path / "data"


def lose_the_end(data):
    path = data / "t-0" / f"{6:020d}.log"
    cut(path, path.stat().st_size * 2 // 3)
    return CUT


def lose_a_segment(data):
    remove(data / "t-0" / f"{3:020d}.log")
    return REMOVED


def empty_a_segment(data):
    """Its index tells of batches."""
    segment = data / "t-0" / f"{3:020d}.log"
    segment.with_suffix(".index").write_bytes(bytes([0, 0, 0, 1, 0, 0, 0, 80]))
    segment.write_bytes(b"")
    return "offsets 3 to 5 are lost: 0+3.log: the file ends at 0, and its index has offset 4 at 80"


def cut_an_older_segment(data):
    """At the end of a batch: its indexes tell of the two behind that."""
    path = data / "t-0" / f"{3:020d}.log"
    path.with_suffix(".index").write_bytes(bytes([0, 0, 0, 2, 0, 0, 0, path.stat().st_size * 2 // 3]))
    cut(path, path.stat().st_size // 3)
    return r"offsets 4 to 5 are lost: 0+3.log: the file ends at \d+, and its index has offset 5 at \d+"


def move_the_end(data):
    """No checksum covers the base offset of the last batch: by it the log ends at 1033."""
    segment = data / "t-0" / f"{6:020d}.log"
    overwrite(segment, segment.stat().st_size * 2 // 3 + 6, b"\x04")
    return (
        "its last batch ends at offset 1033, but the log ended at 9 according to recovery-point-offset-checkpoint and "
    )


LOSSES = pytest.mark.parametrize("lose", [lose_the_end, lose_a_segment, empty_a_segment, cut_an_older_segment])
CONTRADICTIONS = pytest.mark.parametrize("lose", [*LOSSES.args[1], move_the_end])


def contents(directory):
    files = {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    return {name: content for name, content in files.items() if not name.endswith(".lock")}


def values(path, **options):
    return [int(value) for rows in bl.Log(path).read(**options) for value in rows["value"].to_pylist()]


@CONTRADICTIONS
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: type(verb).__name__)
@pytest.mark.parametrize("how", ["in place", "copy", "dry run"])
def test_no_verb_goes_on_without_them_and_the_evidence_stays(data, tmp_path, lose, verb, how):
    """Done, exit 0, and the checkpoints written anew: nobody could tell any more that there had been others."""
    missing = lose(data)
    before = contents(data)
    where = {"in place": {}, "copy": {"output": tmp_path / "new"}, "dry run": {"dry_run": True}}[how]
    with pytest.raises(bl.errors.CorruptRecordError, match=f"records are missing at .*: {missing}"):
        rewrite(verb, data, topics=["t"], **where)
    assert contents(data) == before
    assert not (tmp_path / "new").exists()


@CONTRADICTIONS
def test_no_record_is_written_behind_them(data, lose):
    """A consumer whose offset is behind the end reads the new records for the old ones."""
    missing = lose(data)
    before = contents(data)
    with (
        pytest.raises(bl.errors.CorruptRecordError, match=missing),
        bl.Producer(data, "t", sole_replica=True) as producer,
    ):
        producer.send([{"value": b"9"}])
    assert contents(data) == before


@LOSSES
def test_recover_goes_on_without_them_where_it_is_told_to(data, lose, run):
    missing = lose(data)
    before = contents(data)
    said = run("recover", data, "--dry-run")
    assert said.out.startswith("0 records lost; records are missing already; ")
    assert (said.code, run("recover", data, "--dry-run", "--force").code) == (1, 0)
    assert "without --dry-run, recovery would fail" in said.err
    with pytest.raises(
        bl.errors.CorruptRecordError, match=f"shut down cleanly, but records are missing at .*: {missing}"
    ):
        list(recovered(str(data)))
    assert contents(data) == before
    kept = values(data / "t-0", on_corrupt="skip")
    list(recovered(str(data), force=True))
    with bl.Producer(data, "t", sole_replica=True) as producer:
        producer.send([{"value": b"9"}])
    assert values(data / "t-0") == [*kept, 9]
    assert run("ls", data).code == 0


def test_an_older_segment_that_is_cut_is_refused_where_its_indexes_are_gone_too(data):
    """A broker rebuilds them, cuts the segment where its last batch is cut, and goes on without what was behind."""
    path = data / "t-0" / f"{3:020d}.log"
    cut(path, -5)
    remove(path.with_suffix(".index"))
    before = contents(data)
    with (
        bl.open_log_dir(data, sole_replica=True) as log_dir,
        pytest.raises(bl.errors.CorruptRecordError, match=rf"a broker cuts {path.name}, which has no index"),
    ):
        log_dir.log("t", 0)
    assert contents(data) == before


def test_after_a_crash_a_checkpoint_ahead_of_the_log_is_said(data, run):
    """A high watermark may be ahead of what reached the disk: nothing is refused."""
    lose_the_end(data)
    remove(data / checkpoints.CLEAN_SHUTDOWN)
    remove(data / checkpoints.RECOVERY_POINTS)
    said = "t-0 ends at 8, but replication-offset-checkpoint and "
    for code, verb in ((1, ["ls"]), (0, ["offsets", "--timestamp", "latest"]), (0, ["recover", "--dry-run"])):
        result = run(verb[0], data, *verb[1:])
        assert result.code == code
        assert said in result.err + result.out
    with pytest.warns(UserWarning, match=said), bl.Producer(data, "t", sole_replica=True) as producer:
        producer.send([{"value": b"9"}])
    assert values(data / "t-0") == [0, 1, 2, 3, 4, 5, 6, 7, 9]


def test_after_a_crash_what_was_flushed_is_lost_for_every_verb(data, tmp_path, run):
    """A broker writes the recovery point after the sync of the log: nothing but a loss leaves the log below it."""
    lose_the_end(data)
    remove(data / checkpoints.CLEAN_SHUTDOWN)
    (data / checkpoints.RECOVERY_POINTS).write_bytes(checkpoints.format_offset_checkpoint({("t", 0): 9}))
    (data / checkpoints.HIGH_WATERMARKS).write_bytes(checkpoints.format_offset_checkpoint({("t", 0): 10}))
    said = f"{CHECKPOINTS} says 9 and replication-offset-checkpoint says 10, and a broker syncs"
    for level in ("quick", "default", "deep"):
        found = {one.code: one for one in bl.check(data, level=level) if one.severity == "error"}
        assert [(one.start_offset, one.end_offset) for one in found.values()] == [(8, 10)]
        assert said in found["records-missing"].message
    write_records(data, "__consumer_offsets", [(commit_key("g", "t", 0), commit_value(10))])
    before = contents(data)
    repaired = run("repair", data, "--dry-run")
    assert "t-0: offsets 8 to 9 lost" in repaired.out
    (doubt,) = [line for line in repaired.out.splitlines() if line.startswith("doubt: t-0: 1 group")]
    for options in ([], ["--dry-run"]):
        result = run("recover", data, *options)
        assert result.code == 1
        assert said in result.out
        assert doubt in result.out
        assert "--force" in result.err
    refused = json.loads(run("recover", data, "--json", "--dry-run").out.splitlines()[0])
    assert (refused["needs_force"], refused["missing_offsets"]) == (True, 2)
    assert [one["names"] for one in refused["doubts"]] == [["g"]]
    with pytest.raises(bl.errors.CorruptRecordError, match=said):
        values(data / "t-0")
    with (
        bl.open_log_dir(data, sole_replica=True) as log_dir,
        pytest.raises(bl.errors.CorruptRecordError, match=said),
    ):
        log_dir.log("t", 0)
    assert contents(data) == before
    assert "needs --force" not in run("recover", data, "--force").err
    assert values(data / "t-0") == [0, 1, 2, 3, 4, 5, 6, 7]


def test_after_a_crash_a_cut_at_damage_explains_what_is_missing(data, run):
    """The cut bytes are set aside: a recovery needs no force, and says where the log will end."""
    overwrite(data / "t-0" / f"{6:020d}.log", 100, b"\xff")
    remove(data / checkpoints.CLEAN_SHUTDOWN)
    result = run("recover", data)
    assert result.code == 0
    assert "t-0 ends at 7, but" in result.out
    assert "are lost" not in result.out


def test_a_segment_that_is_gone_after_a_crash_is_refused_too(data):
    """Its indexes were written behind it, and nothing that a crash leaves has them alone."""
    missing = lose_a_segment(data)
    remove(data / checkpoints.CLEAN_SHUTDOWN)
    with (
        bl.open_log_dir(data, sole_replica=True) as log_dir,
        pytest.raises(bl.errors.CorruptRecordError, match=missing),
    ):
        log_dir.log("t", 0)
    before = contents(data)
    with pytest.raises(bl.errors.CorruptRecordError, match=r"records are missing.*Nothing was changed"):
        list(recovered(str(data)))
    assert contents(data) == before
    list(recovered(str(data), force=True))
    assert values(data / "t-0") == [0, 1, 2, 6, 7, 8]


def test_deleted_or_merged_segments_are_not_reported_missing(data):
    """A broker that died while it deleted or cleaned leaves such indexes, and a reader passes over them."""
    segment = data / "t-0" / f"{0:020d}.log"
    merged = data / "t-0" / f"{3:020d}.log"
    segment.write_bytes(segment.read_bytes() + merged.read_bytes())
    merged.unlink()
    assert values(data / "t-0") == list(range(9))
    with bl.open_log_dir(data, sole_replica=True) as log_dir:
        assert log_dir.log("t", 0).log_end_offset == 9
    (data / checkpoints.LOG_START_OFFSETS).write_bytes(checkpoints.format_offset_checkpoint({("t", 0): 6}))
    (data / "t-0" / f"{3:020d}.index").touch()
    remove(segment)
    assert values(data / "t-0") == [6, 7, 8]
    with bl.open_log_dir(data, sole_replica=True) as log_dir:
        assert log_dir.log("t", 0).log_end_offset == 9


def test_a_dump_of_the_newest_segment_says_what_is_missing_behind_it(data, run):
    newest = data / "t-0" / f"{6:020d}.log"
    assert run("dump", newest).code == 0
    lose_the_end(data)
    result = run("dump", newest, "--json")
    assert (result.code, len(result.out.splitlines())) == (1, 2)
    assert CHECKPOINTS in result.err
    assert run("dump", data / "t-0" / f"{3:020d}.log").code == 0


@CONTRADICTIONS
def test_a_check_finds_missing_records_too(data, lose):
    lose(data)
    found = [one for segment in bl.Log(data / "t-0").segments for one in findings(segment, is_clean=True)]
    (told,) = bl.Log(data / "t-0").files.missing
    expected = (told.path, told.start_offset, told.end_offset, told.reason)
    moved = [one for one in found if one.code == "batch-order"]
    assert len(moved) == (lose is move_the_end)
    assert [(one.path, one.start_offset, one.end_offset, one.reason) for one in found if one not in moved] == [expected]


@CONTRADICTIONS
def test_what_only_counts_says_them_too(data, lose, run):
    lose(data)
    (said,) = bl.Log(data / "t-0").files.contradictions()
    for verb in (["offsets", data, "--timestamp", "latest"], ["convert", data, "--topic", "t", "--estimate"]):
        result = run(*verb)
        assert result.code == 0
        assert f"note: {said}" in result.err
    with pytest.warns(UserWarning, match=re.escape(said)):
        plan_segments(Options.parse({"path": str(data)}))


def test_a_read_names_what_an_older_segment_lacks_and_a_range_before_it_does_not(data):
    """Cut between two batches, it looks whole: the next segment goes on, and nobody misses what was between."""
    cut_an_older_segment(data)
    with pytest.raises(bl.errors.CorruptRecordError, match="the file ends at 70, and its index has offset 5 at 140"):
        values(data / "t-0")
    for target in (None, 64):
        read = bl.Log(data / "t-0").plan(on_corrupt="skip", target_bytes=target)
        reader = bl.Reader(read, ["offset"])
        assert pa.table(reader)["offset"].to_pylist() == [0, 1, 2, 3, 6, 7, 8]
        assert [(lost.start_offset, lost.end_offset) for lost in reader.lost] == [(4, 6)]
    assert values(data / "t-0", end_offset=4) == [0, 1, 2, 3]
    assert values(data / "t-0", start_offset=6) == [6, 7, 8]
    with pytest.raises(bl.errors.CorruptRecordError, match="its index has offset 5"):
        values(data / "t-0", start_offset=4, end_offset=5)


@pytest.mark.parametrize("entry", [(2, 1 << 20), (1 << 20, 70), (0, 1 << 20), (-1, 1 << 20)])
def test_a_damaged_index_is_not_believed_of_a_segment_that_is_whole(data, entry):
    """No checksum covers it: a flipped bit of its last entry would hold up a read of all rows."""
    (data / "t-0" / f"{3:020d}.index").write_bytes(struct.pack(">ii", *entry))
    assert values(data / "t-0") == list(range(9))
    assert bl.Log(data / "t-0").files.missing == []
    with bl.open_log_dir(data, sole_replica=True) as log_dir:
        assert log_dir.log("t", 0).log_end_offset == 9


def test_a_read_of_the_newest_segments_file_says_what_is_missing_behind_it(data):
    lose_the_end(data)
    with pytest.raises(bl.errors.CorruptRecordError, match="t-0 ends at 8"):
        values(data / "t-0" / f"{6:020d}.log")
    assert values(data / "t-0" / f"{3:020d}.log") == [3, 4, 5]


def test_a_log_that_was_written_on_since_it_was_looked_at_lacks_nothing(data):
    """A broker that starts, appends and stops in between leaves checkpoints above the end that was seen."""
    log = bl.Log(data / "t-0")
    assert log.log_end_offset == 9
    with bl.Producer(data, "t", sole_replica=True) as producer:
        producer.send([{"value": b"9"}])
    assert log.files.expected_end is None
    assert [int(value) for rows in log.read() for value in rows["value"].to_pylist()] == list(range(9))


DAMAGE = {
    "a flipped bit": lambda path, size: overwrite(path, size - 3, b"\xff"),
    "batches in another order": lambda path, size: path.write_bytes(
        (content := path.read_bytes())[size : 2 * size] + content[:size] + content[2 * size :]
    ),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize(
    "verb", [Retention(before_offset=3), Truncation(offset=9), Compaction(cleanup_policy="compact")]
)
def test_a_copy_says_which_damage_it_has(data, tmp_path, damage, verb):
    """Done, exit 0, and the damage of the old directory is in the new one."""
    newest = data / "t-0" / f"{6:020d}.log"
    damage(newest, newest.stat().st_size // 3)
    with pytest.raises(bl.errors.CorruptRecordError):
        values(data / "t-0")
    (done,) = rewrite(verb, data, topics=["t"], output=tmp_path / "new")
    (lost, *_) = done.damage
    assert lost.path == str(tmp_path / "new" / "t-0" / newest.name)
    assert 6 <= lost.start_offset <= lost.end_offset <= 9
    reader = bl.Log(tmp_path / "new" / "t-0").read(on_corrupt="skip")
    assert len([rows for rows in reader for _ in range(rows.num_rows)]) < 9
    assert [*reader.lost] == [*done.damage]


def test_a_copy_that_has_damage_ends_with_its_exit_code(data, tmp_path, run):
    newest = data / "t-0" / f"{6:020d}.log"
    DAMAGE["a flipped bit"](newest, newest.stat().st_size // 3)
    retain = ["retain", data, "--topic", "t", "--before-offset", "3", "--output"]
    result = run(*retain, tmp_path / "new")
    assert result.code == 1
    assert (
        f"t-0: the new log has the same damage: lost: offsets 6 to 6 at {tmp_path}/new/t-0/{newest.name}:0: "
        in result.err
    )
    result = run(*retain, tmp_path / "newer", "--json")
    (words,) = map(json.loads, result.out.splitlines())
    assert [lost["position"] for lost in words["damage"]] == [0]
    # What is sound is copied without a word of damage.
    shutil.rmtree(tmp_path / "new")
    assert run("truncate", data, "--topic", "t", "--offset", "6", "--output", tmp_path / "new").code == 0


def test_what_a_copy_leaves_out_is_told_by_offsets_that_rise(data, tmp_path):
    """The batch with offset 6 is behind 7, and below the cut: it would be gone without a word."""
    newest = data / "t-0" / f"{6:020d}.log"
    DAMAGE["batches in another order"](newest, newest.stat().st_size // 3)
    with pytest.raises(bl.errors.CorruptRecordError, match="offset 6 is below 8"):
        rewrite(Truncation(offset=8), data, topics=["t"], output=tmp_path / "new")


@pytest.mark.parametrize("verb", [Erasure(keys=(b"x",)), Conversion(magic=2)])
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("base", [0, 6])
def test_a_verb_that_reads_everything_refuses_damage_where_nothing_is_to_change(data, verb, damage, base):
    """Batches that were swapped have right checksums, and what is looked for is told by offset."""
    path = data / "t-0" / f"{base:020d}.log"
    damage(path, path.stat().st_size // 3)
    with pytest.raises(bl.errors.CorruptRecordError, match=r"crc mismatch|offset \d is below \d"):
        rewrite(verb, data, topics=["t"])


def test_damage_that_a_verb_leaves_in_place_is_said(data, run):
    newest = data / "t-0" / f"{6:020d}.log"
    DAMAGE["a flipped bit"](newest, newest.stat().st_size // 3)
    result = run("retain", data, "--topic", "t", "--before-offset", "3", "--in-place")
    assert result.code == 1
    assert (
        f"t-0: the new log has the same damage: lost: offsets 6 to 6 at {newest}:0: record batch crc mismatch"
        in result.err
    )
    assert bl.Log(data / "t-0").log_start_offset == 3


def test_no_cut_is_made_by_a_header_that_is_damaged(data, tmp_path):
    """Its last offset seems to be above the cut: the batch would be gone without a word."""
    newest = data / "t-0" / f"{6:020d}.log"
    overwrite(newest, newest.stat().st_size // 3 + 24, b"\x40")
    with pytest.raises(
        bl.errors.CorruptRecordError,
        match=r"crc mismatch .* the batch with last offset \d+ may or may not be after the cut",
    ):
        rewrite(Truncation(offset=8), data, topics=["t"], output=tmp_path / "new")


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_a_log_of_which_only_indexes_are_left_is_said_to_lack_all(data, run, level):
    for path in (data / "t-0").glob("*.log"):
        path.unlink()
    for option in ("raise", "skip"):
        result = run("read", data / "t-0", "--isolation-level", level, "--on-corrupt", option)
        assert (result.code, result.out) == (1, "")
        assert "although its indexes or a link to it exist" in result.err
    for verb in ("compact", "erase --key k", "compact --explain k"):
        name, *options = verb.split()
        result = run(name, data, *options, "--dry-run", "--topic", "t")
        assert result.code == 1, verb
        assert "records are missing" in result.err


def test_what_a_running_broker_deletes_is_not_missing(data, monkeypatch):
    """Retention deletes a segment, and a deletion renames the directory, after the files were listed."""
    monkeypatch.setattr(bl.LogDirFiles, "is_locked", True)
    log = bl.Log(data / "t-0")
    assert (len(log.segments), log.log_end_offset) == (3, 9)
    for suffix in ("log", "index", "timeindex"):
        (data / "t-0" / f"{0:020d}.{suffix}").unlink()
    assert log.files.missing == []
    assert log.files.lost_after(log.segments[0]) == []


def test_an_end_that_a_running_broker_claims_needs_no_second_look(data, monkeypatch):
    checkpoint = data / checkpoints.HIGH_WATERMARKS
    checkpoint.write_text("0\n1\nt 0 100\n")
    monkeypatch.setattr(bl.LogDirFiles, "is_locked", True)
    log = bl.Log(data / "t-0")
    assert (log.log_end_offset, log.high_watermark) == (9, 100)
    (data / "t-0").rename(data / "t-0.0123456789abcdef0123456789abcdef-delete")
    assert log.files.expected_end is None
