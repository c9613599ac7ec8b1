"""No sound record goes unsaid: recovery tells what it loses, and keeps it aside; nobody else cuts a log at damage."""

import re
import shutil
import struct
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

import brokerless as bl
from brokerless import _native
from brokerless.append.writer import LogWriter
from brokerless.io import storage
from brokerless.layout import checkpoints, file_names
from brokerless.layout.topic_config import TopicConfig
from brokerless.log_dir.recover import forecast, recovered
from brokerless.rewriting.run import rewrite
from support.damage import overwrite
from support.log_files import NOW, batch

ROWS = 100


@pytest.fixture
def data(tmp_path):
    """A directory with 100 records in batches of one, several segments."""
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", segment_bytes=2000)
        for number in range(ROWS):
            log_dir.log("t", 0).append(batch(0, [b"%d" % number]))
    return tmp_path / "data"


def contents(directory):
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def values(data):
    return [int(value) for rows in bl.Log(data / "t-0").read() for value in rows["value"].to_pylist()]


def set_aside(data):
    paths = sorted((data / "t-0").glob(f"{file_names.SET_ASIDE}*"))
    return [path.name for path in paths], b"".join(path.read_bytes() for path in paths)


def damage(data, *, number=7):
    """Flip a bit in a value of this batch of the first segment, as if after a crash without a recovery point."""
    size = batch(0, [b"7"])
    overwrite(data / "t-0" / f"{0:020d}.log", number * len(size) + len(size) - 3, b"\xff")
    (data / checkpoints.CLEAN_SHUTDOWN).unlink()
    (data / checkpoints.RECOVERY_POINTS).write_bytes(checkpoints.format_offset_checkpoint({}))


def test_opening_a_log_that_would_lose_sound_batches_is_refused(data):
    damage(data)
    before = contents(data)
    words = r"loses 92 sound records after it, offsets 8 to 99.* Nothing was changed. `brokerless recover`"
    with bl.open_log_dir(data) as log_dir, pytest.raises(bl.errors.CorruptRecordError, match=words):
        log_dir.log("t", 0)
    for verb in (bl.Conversion(compression="zstd"), bl.Retention(retention_bytes=1), bl.Compaction(roll=True)):
        for dry_run in (True, False):
            with pytest.raises(bl.errors.CorruptRecordError, match="brokerless recover"):
                rewrite(verb, data, topics=["t"], dry_run=dry_run)
    assert contents(data) == before
    with pytest.raises(bl.errors.CorruptRecordError, match="brokerless recover"), bl.Producer(data, "t") as producer:
        producer.send([{"value": b"x"}])
    assert contents(data / "t-0").items() <= {name.removeprefix("t-0/"): file for name, file in before.items()}.items()


def test_what_recovery_cuts_off_is_counted_and_set_aside(data):
    damage(data)
    found = forecast(str(data))
    assert found.lost_records == 92
    assert found.summary().startswith("lost in 1 log: up to 1 record in the damage, 92 records after it; ")
    assert dict(recovered(str(data))) == dict(found.steps)
    assert values(data) == list(range(7))
    names, content = set_aside(data)
    assert names[0] == f"{file_names.SET_ASIDE}{0:020d}.log-from-{7 * len(batch(0, [b'7']))}"
    assert [header["base_offset"] for header in _native.scan(content)[0].to_pylist()] == list(range(7, ROWS))
    assert bl.LogDirFiles(str(data)).is_clean
    # Nobody takes it for a part of the log.
    assert bl.Log(data / "t-0").log_end_offset == 7
    assert list(recovered(str(data))) == [("t-0", [])]
    (result,) = rewrite(bl.Erasure(keys=(b"k",)), data, topics=["t"], dry_run=True)
    assert {f"{data}/t-0/{name}" for name in names} <= set(result.report.leftovers)
    rewrite(bl.Conversion(compression="zstd"), data, topics=["t"], output=data.parent / "copy")
    assert set_aside(data.parent / "copy") == ([], b"")


def test_lost_framing_is_searched_for_sound_batches(data):
    """A length that claims too much, and zeros as of a block that was never written."""
    damage(data)
    size = len(batch(0, [b"7"]))
    overwrite(data / "t-0" / f"{0:020d}.log", 7 * size + 8, b"\x7f\xff")
    overwrite(data / "t-0" / f"{0:020d}.log", 9 * size, bytes(2 * size))
    assert forecast(str(data)).lost_records == 89 + 1


@pytest.mark.parametrize("high_watermark", [None, 98, 99])
def test_no_number_is_given_if_damage_hides_the_end_of_the_log(data, high_watermark):
    """A high watermark may be seconds behind the log, so after a crash it is no bound."""
    damage(data)
    last = max((data / "t-0").glob("*.log"))
    size = len(batch(0, [b"99"]))
    for number in (1, 2):
        overwrite(last, last.stat().st_size - (number - 1) * size - 3, b"\xff")
    for snapshot in (data / "t-0").glob("*.snapshot"):
        snapshot.unlink()
    offsets = {} if high_watermark is None else {("t", 0): high_watermark}
    (data / checkpoints.HIGH_WATERMARKS).write_bytes(checkpoints.format_offset_checkpoint(offsets))
    found = forecast(str(data))
    assert (found.lost_records, found.damaged_offsets) == (90, None)
    assert found.summary().startswith("lost in 1 log: the records in the damage, 90 records after it; ")


def test_a_damaged_end_is_cut_off_and_said(data):
    """Nothing sound is behind it: a broker, too, has nothing else to do."""
    last = max((data / "t-0").glob("*.log"))
    overwrite(last, last.stat().st_size - 3, b"\xff")
    (data / checkpoints.CLEAN_SHUTDOWN).unlink()
    with bl.open_log_dir(data) as log_dir, pytest.warns(UserWarning, match="has cut off .*crc mismatch.* set aside"):
        log_dir.log("t", 0)
    assert values(data) == list(range(99))
    assert len(set_aside(data)[0]) == 1


def test_what_a_crash_leaves_is_cut_off_quietly(data):
    """The beginning of a batch, and zeros: they were never records."""
    last = max((data / "t-0").glob("*.log"))
    for end in (b"cut", bytes(500)):
        with last.open("ab") as file:
            file.write(end)
        (data / checkpoints.CLEAN_SHUTDOWN).unlink()
        with bl.open_log_dir(data) as log_dir:
            assert [step for step in log_dir.log("t", 0).recovery if step.code == "truncate"]
    assert (values(data), set_aside(data)) == (list(range(ROWS)), ([], b""))


def test_a_directory_that_was_left_clean_is_not_cut_unless_that_is_asked_for(data):
    last = max((data / "t-0").glob("*.log"))
    overwrite(last, len(batch(0, [b"7"])) - 3, b"\xff")
    sound = [value for value in range(ROWS) if value != file_names.base_offset(str(last))]
    before = contents(data)
    words = r"was shut down cleanly.* Nothing was changed\. .*, use force"
    with pytest.raises(bl.errors.CorruptRecordError, match=words):
        list(recovered(str(data)))
    assert contents(data) == before
    list(recovered(str(data), force=True))
    assert values(data) == [value for value in sound if value < file_names.base_offset(str(last))]
    assert len(set_aside(data)[0]) == 1


def test_a_directory_that_was_left_clean_is_recovered_where_nothing_is_lost(data):
    max((data / "t-0").glob("*.timeindex")).unlink()
    assert next(iter(recovered(str(data))))[1]


def test_a_refused_conversion_has_changed_nothing(tmp_path):
    """Also not what recovering the log first comes to."""
    with bl.Producer(tmp_path / "data", "t", magic=1, idempotent=False) as producer:
        producer.send([{"value": b"v"}])
    with (tmp_path / "data" / "t-0" / f"{0:020d}.log").open("ab") as file:
        file.write(b"cut")
    (tmp_path / "data" / checkpoints.CLEAN_SHUTDOWN).unlink()
    before = contents(tmp_path / "data")
    with pytest.raises((ValueError, bl.errors.CorruptRecordError)):
        rewrite(bl.Conversion(compression="zstd"), tmp_path / "data", topics=["t"])
    assert contents(tmp_path / "data") == before


def test_a_log_that_is_opened_to_be_recovered_may_lose_them(data):
    damage(data)
    with bl.open_log_dir(data, recover=True) as log_dir:
        assert sum(cut.records for cut in log_dir.log("t", 0).cuts) == 92
    assert len(values(data)) == 7


def test_opening_a_partition_alone_is_refused_too(data):
    damage(data)
    options = {"config": TopicConfig(segment_bytes=2000), "is_clean": False}
    with pytest.raises(bl.errors.CorruptRecordError, match="loses 92 sound records"):
        LogWriter.open(str(data / "t-0"), **options)
    LogWriter.open(str(data / "t-0"), recover=True, **options).close()


@pytest.fixture
def cluster(copied):
    """A broker's directory that was shut down cleanly, with its cluster's metadata."""
    return copied("kafka-4.1")


def test_a_broker_that_will_start_is_said_to(cluster, run):
    result = run("recover", cluster)
    assert result.code == 0
    assert re.fullmatch(r"0 records lost; \d+ changes; a broker will start", result.out.splitlines()[0])


def test_without_meta_properties_a_broker_does_not_start(cluster, run):
    (cluster / "meta.properties").unlink()
    for options in (["--dry-run"], []):
        result = run("recover", cluster, *options)
        assert result.code == 1
        first, second = result.out.splitlines()[:2]
        assert first.endswith("; a broker will not start")
        assert second.startswith(f"a broker does not start: {cluster}/meta.properties: the file is missing")


def test_without_the_clusters_metadata_a_broker_serves_nothing(cluster, run):
    shutil.rmtree(cluster / "__cluster_metadata-0")
    result = run("recover", cluster)
    assert result.code == 1
    first, second = result.out.splitlines()[:2]
    assert first.endswith("; a broker will start and serve nothing")
    assert "has no __cluster_metadata-0. If " in second
    assert "renames all partitions -stray" in second
    file = cluster.parent / "rows.jsonl"
    file.write_text('{"value": "a"}\n')
    said = run("produce", cluster, "--topic", "headers", "--input", file, "--sole-replica")
    assert (said.code, "renames all partitions -stray" in said.err) == (0, True)


def test_one_of_a_brokers_disks_has_its_clusters_metadata(cluster, run):
    disk = cluster.parent / "disk2"
    disk.mkdir()
    ids = re.sub(
        "directory.id=.*", f"directory.id={checkpoints.random_id()}", (cluster / "meta.properties").read_text()
    )
    (disk / "meta.properties").write_text(ids)
    shutil.move(cluster / "headers-0", disk)
    assert run("recover", disk, "--dry-run").code == 1
    result = run("recover", cluster, disk)
    assert (result.code, result.out.splitlines()[0].endswith("; a broker will start")) == (0, True)
    assert "__cluster_metadata-0" not in result.out
    assert bl.LogDirFiles(str(disk)).is_clean


def test_a_checkpoint_with_a_wrong_number_is_written_again(cluster, run):
    """A broker reads it as if it was empty; without high watermarks it serves nothing."""
    file = cluster / checkpoints.HIGH_WATERMARKS
    entries = checkpoints.parse_offset_checkpoint(file.read_bytes())
    file.write_text("0\n1\nheaders 0 x\n")
    planned = run("recover", cluster, "--dry-run", "--all")
    assert (planned.code, planned.out.splitlines()[0].endswith("; a broker will start")) == (0, True)
    assert f"{file.name}: write the file again: checkpoint is malformed: not an int64: 'x'; until then" in planned.out
    assert planned.err.count("the file is treated as empty") == 1
    assert run("recover", cluster, "--all").out == planned.out
    assert checkpoints.parse_offset_checkpoint(file.read_bytes()).keys() == entries.keys()


def test_a_log_start_beyond_the_end_is_no_moved_batch(cluster):
    """A broker deletes all segments, and begins the log at the checkpoint."""
    file = cluster / checkpoints.LOG_START_OFFSETS
    offsets = checkpoints.parse_offset_checkpoint(file.read_bytes())
    offsets["headers", 0] = bl.Log(cluster / "headers-0").log_end_offset + 5
    file.write_bytes(checkpoints.format_offset_checkpoint(offsets))
    found = forecast(str(cluster))
    assert not [said for said in found.missing if "was moved" in said]


def test_a_new_clusters_directory_needs_no_metadata_log(data, run):
    assert run("recover", data).code == 0


def test_damage_to_the_clusters_metadata_is_what_a_broker_cuts_off(cluster, run):
    """It starts all the same, and so do we: settings are known up to there."""
    log = max((cluster / "__cluster_metadata-0").glob("*.log"))
    middle = next(iter(bl.Log(cluster / "__cluster_metadata-0").scan()))["position"].to_pylist()
    position = middle[len(middle) // 2]
    overwrite(log, position + 70, b"\xff\xff")
    result = run("recover", cluster)
    assert result.code == 0
    first, second = result.out.splitlines()[:2]
    assert first.endswith("; a broker will start")
    assert second.startswith("a broker cuts off a part of __cluster_metadata-0")
    assert f"from byte {position} on" in second
    file = cluster.parent / "rows.jsonl"
    file.write_text('{"value": "a"}\n')
    said = run("produce", cluster, "--topic", "headers", "--input", file, "--sole-replica")
    assert (said.code, "the cluster's metadata are read up to the damage" in said.err) == (0, True)
    said = run("compact", cluster, "--topic", "compact-delete", "--dry-run")
    assert said.code == 0


def test_a_log_that_cannot_be_cut_into_segments_is_one_that_a_broker_does_not_start_on(tmp_path, run):
    """The base offset of the new segment would be in a payload that nobody can decompress."""
    with bl.Producer(tmp_path / "data", "t", magic=1, idempotent=False) as producer:
        producer.send([{"value": b"v"}])
    rows = pa.record_batch({"value": [b"a", b"b"]})
    wrapper = bytearray(_native.Encoder(magic=1, compression="gzip").encode(rows, timestamp=NOW))
    wrapper[:8] = struct.pack(">q", (1 << 31) + 5)
    wrapper[-9:] = bytes(9)
    wrapper[12:16] = struct.pack(">I", zlib.crc32(wrapper[16:]))
    with (tmp_path / "data" / "t-0" / f"{0:020d}.log").open("ab") as file:
        file.write(wrapper)
    (tmp_path / "data" / checkpoints.CLEAN_SHUTDOWN).unlink()
    for options in (["recover", "--dry-run"], ["recover"], ["compact", "--topic", "t", "--dry-run"]):
        result = run(options[0], tmp_path / "data", *options[1:])
        assert result.code == 1
        assert re.search(
            "a broker does not start at .*: it cannot split .* ends at offset 2147483653 needs a new segment",
            result.err,
        )


def test_a_refusal_names_a_way_to_a_log_that_every_verb_takes(data, run):
    size = len(batch(0, [b"7"]))
    overwrite(data / "t-0" / f"{0:020d}.log", 8 * size - 3, b"\xff")
    erase = ["--topic", "t", "--key", "k", "--in-place", "--sole-replica"]
    for verb in (
        ["erase", data, *erase],
        ["convert", data, *erase[:2], "--compression", "zstd", "--in-place"],
        ["compact", data, "--explain", "k", *erase[:2]],
    ):
        refused = run(*verb)
        assert refused.code == 1
        assert "read PATH --topic T --on-corrupt skip | brokerless produce NEW --topic T --keep-offsets" in refused.err
    rows = run("read", data, "--topic", "t", "--on-corrupt", "skip")
    (data.parent / "rows.jsonl").write_text(rows.out)
    new = data.parent / "new"
    assert run("produce", new, "--topic", "t", "--keep-offsets", "--input", data.parent / "rows.jsonl").code == 0
    assert run("erase", new, *erase).code == 0
    assert values(new) == [number for number in range(ROWS) if number != 7]


def test_a_batch_that_a_flipped_bit_moves_behind_the_end_of_the_log_is_refused(data):
    """A broker gives it a segment of its own, and the log goes on behind that."""
    last = [row for rows in bl.Log(data / "t-0").segments[0].scan() for row in rows.to_pylist()][-1]
    overwrite(data / "t-0" / f"{0:020d}.log", last["position"] + 2, b"\x01")
    (data / checkpoints.CLEAN_SHUTDOWN).unlink()
    (data / checkpoints.RECOVERY_POINTS).write_bytes(checkpoints.format_offset_checkpoint({}))
    before, moved = contents(data), (1 << 40) + last["base_offset"]
    words = rf"loses 1 sound record .*offset {moved} is not below \d+, where the next segment begins"
    with bl.open_log_dir(data) as log_dir, pytest.raises(bl.errors.CorruptRecordError, match=words):
        log_dir.log("t", 0)
    assert contents(data / "t-0") == {name[4:]: file for name, file in before.items() if name.startswith("t-0/")}
    assert forecast(str(data)).lost_records == 1


@pytest.mark.parametrize("again", [2, 0])
def test_a_log_whose_last_batch_is_an_old_one_is_not_written_to_behind_it(data, again):
    """A broker takes the log to end there, and nobody gets to what is above any more."""
    with bl.open_log_dir(data) as log_dir:
        log_dir.log("t", 0).roll()
    log = bl.Log(data / "t-0")
    newest, end = log.segments[-2], log.log_end_offset
    content = storage.read_all(newest.path)
    size = len(content) // (end - newest.base_offset)
    for path in (data / "t-0").glob(f"{end:020d}.[lit]*"):
        path.unlink()
    with open(newest.path, "ab") as file:
        file.write(content[again * size : again * size + size])
    (data / checkpoints.CLEAN_SHUTDOWN).unlink()
    first = newest.base_offset + again + 1
    before, lost = contents(data), end - first
    words = rf"loses {lost} sound records .* offsets {first} to {end - 1}.*the last batch ends at offset {first}"
    with bl.open_log_dir(data) as log_dir, pytest.raises(bl.errors.CorruptRecordError, match=words):
        log_dir.log("t", 0)
    assert contents(data / "t-0") == {name[4:]: file for name, file in before.items() if name.startswith("t-0/")}
    assert forecast(str(data)).lost_records == lost


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_flipped_bit_of_the_last_offset_moves_no_end(data, is_clean):
    last = [row for rows in bl.Log(data / "t-0").segments[-1].scan() for row in rows.to_pylist()][-1]
    path = bl.Log(data / "t-0").segments[-1].path
    overwrite(Path(path), last["position"] + 2, b"\x01")
    if not is_clean:
        (data / checkpoints.CLEAN_SHUTDOWN).unlink()
    log = bl.Log(data / "t-0")
    assert log.log_end_offset == ROWS - 1
    with pytest.raises(bl.errors.CorruptRecordError, match=rf"offset {(1 << 40) + ROWS - 1} is "):
        list(log.read())
    reader = log.read(on_corrupt="skip", columns=["offset"])
    assert [row["offset"] for rows in reader for row in rows.to_pylist()] == list(range(ROWS - 1))
    assert reader.lost
    before = contents(data / "t-0")
    with (
        bl.open_log_dir(data) as log_dir,
        pytest.raises(bl.errors.CorruptRecordError, match=r"base offset|is not below"),
    ):
        log_dir.log("t", 0)
    assert contents(data / "t-0") == before


def test_a_name_without_padding_is_told_as_it_is(data):
    """A message with the padded name would send its reader to a file that does not exist."""
    first = data / "t-0" / f"{0:020d}.log"
    first.rename(data / "t-0" / "0.log")
    (data / ".kafka_cleanshutdown").unlink()
    told = rf"t-0: a broker does not see the records in 0\.log, .*rename the file to {first.name}"
    with pytest.raises(bl.errors.BrokerlessError, match=told):
        forecast(str(data))
