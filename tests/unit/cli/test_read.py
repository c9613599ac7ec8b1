"""`read` prints what a consumer returns, and goes about damage, pipes and files as a command should."""

import base64
import io
import json
import os
import shutil
import signal
import stat
import struct
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import brokerless as bl
from brokerless import _native
from brokerless.cli import output
from brokerless.layout.checkpoints import HIGH_WATERMARKS
from brokerless.metadata.bootstrap import Bootstrap
from support.damage import cut, flip_bit
from support.kafka_answers import LOG_DIRS, consumed, text, value
from support.metadata_images import image_of, set_replicas


def objects(lines):
    return [json.loads(line) for line in lines.splitlines()]


@pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("log_dir", LOG_DIRS)
def test_golden(log_dir, isolation_level, golden, run):
    for directory in sorted((golden / "expected" / log_dir).iterdir()):
        expected = consumed(golden, log_dir, directory.name, isolation_level) if directory.is_dir() else None
        if expected is None:
            continue
        path = golden / "logs" / log_dir / directory.name
        result = run("read", path, "--isolation-level", isolation_level, "--bytes", "base64")
        assert result.code == 0
        rows = objects(result.out)
        if log_dir.endswith("-tiered") and directory.name.startswith("tiered-"):
            assert "in remote storage, or were deleted" in result.err
            expected = [row for row in expected if row["offset"] >= rows[0]["offset"] > 0]
        else:
            assert result.err == ""
        topic, _, partition = directory.name.rpartition("-")
        assert [as_consumed(row, topic, int(partition)) for row in rows] == expected, directory.name


def as_consumed(row, topic, partition):
    assert (row.pop("topic"), row.pop("partition")) == (topic, partition)
    row["headers"] = [[text(key.encode()), content] for key, content in row["headers"]]
    content = row.pop("value")
    return row | value(None if content is None else base64.b64decode(content))


def test_keys_in_the_order_a_reader_expects(golden, run):
    row = run("read", golden / "logs/kafka-4.1/headers-0", "--limit", 1).out
    assert list(json.loads(row)) == [
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "leaderEpoch",
        "key",
        "value",
        "headers",
    ]


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        (["--start-offset", 100, "--end-offset", 103], [100, 101, 102]),
        (["--start-offset", "latest"], []),
        (["--limit", 2], [0, 1]),
        (["--limit", 0], []),
        (["--start-offset", 498], [498, 499]),
        (["--start-timestamp", "2100-01-01"], []),
        (["--end-timestamp", "1970-01-01T00:00:00.001Z"], []),
    ],
)
def test_ranges(options, offsets, golden, run):
    result = run("read", golden / "logs/kafka-4.1/codec-zstd-0", *options)
    assert (result.code, [row["offset"] for row in objects(result.out)]) == (0, offsets)


def test_no_row_at_all_of_a_topic_that_is_not_there_is_an_error_too(golden, run):
    result = run("read", golden / "logs/kafka-4.1", "--topic", "heders", "--limit", 0)
    assert (result.code, "did you mean 'headers'?" in result.err) == (2, True)


def test_iso_times_and_milliseconds_mean_the_same(golden, run):
    path = golden / "logs/kafka-4.1/codec-zstd-0"
    times = [row["timestamp"] for row in objects(run("read", path).out)]
    middle = sorted(times)[len(times) // 2]
    iso = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=middle)).astimezone(timezone(timedelta(hours=2)))
    assert (
        run("read", path, "--start-timestamp", iso.isoformat()).out
        == run("read", path, "--start-timestamp", middle).out
        != ""
    )


def test_internal_topics_only_by_name(golden, run):
    root = golden / "logs/kafka-4.1-recovered"
    assert not {row["topic"] for row in objects(run("read", root).out)} & {"__transaction_state", "__cluster_metadata"}
    named = run("read", root, "--topic", "__transaction_state", "--partition", 1)
    assert {(row["topic"], row["partition"]) for row in objects(named.out)} == {("__transaction_state", 1)}
    assert run("read", root / "__transaction_state-1").out == named.out
    beside = objects(run("read", root, f"{root}/__transaction_state-1/", "--columns", "topic,partition").out)
    assert {row["partition"] for row in beside if row["topic"] == "__transaction_state"} == {1}


def test_a_lone_file_has_no_topic(golden, run, tmp_path):
    source = golden / "logs/kafka-4.1/nulls-0/00000000000000000000.log"
    (tmp_path / source.name).write_bytes(source.read_bytes())
    rows = objects(run("read", tmp_path / source.name).out)
    assert len(rows) == 80
    assert {(row["topic"], row["partition"]) for row in rows} == {(None, None)}


def test_columns(golden, run):
    result = run("read", golden / "logs/kafka-4.1/codec-zstd-0", "--columns", "compression,offset", "--limit", 1)
    assert result.out == '{"compression":"zstd","offset":0}\n'
    result = run("read", golden / "logs/kafka-4.1/codec-zstd-0", "--columns", "ofset")
    assert (result.code, "did you mean 'offset'?" in result.err) == (2, True)


def test_values_that_are_not_utf8_are_told_apart(golden, run):
    path = golden / "logs/kafka-2.8-v0/codec-none-0"
    plain, encoded = (objects(run("read", path, "--bytes", form).out) for form in ("utf8", "base64"))
    kinds = {type(row["value"]) for row in plain}
    assert kinds == {str, dict}
    for shown, row in zip(plain, encoded, strict=True):
        if isinstance(shown["value"], dict):
            assert shown["value"] == {"base64": row["value"]}


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_files(form, golden, run, tmp_path):
    output = tmp_path / "rows"
    result = run("read", golden / "logs/kafka-4.1/headers-0", "--format", form, "--output", output)
    assert (result.code, result.out) == (0, "")
    table = pq.read_table(output) if form == "parquet" else pa.ipc.open_file(output).read_all()
    expected = consumed(golden, "kafka-4.1", "headers-0", "read_uncommitted")
    assert table["offset"].to_pylist() == [row["offset"] for row in expected]
    # What JSON lines have, too: a copy keeps leader epochs, whatever the format.
    lines = run("read", golden / "logs/kafka-4.1/headers-0", "--limit", 1).out
    assert table.column_names == list(json.loads(lines))
    assert "leaderEpoch" in table.column_names
    assert os.listdir(tmp_path) == ["rows"]


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("rows.parquet", b"PAR1"),
        ("rows.arrow", b"ARROW1"),
        ("ROWS.PARQUET", b"PAR1"),
        ("rows.jsonl", b'{"topic"'),
        ("parquet", b'{"topic"'),
        ("a.parquet/rows", b'{"topic"'),
    ],
)
def test_a_files_name_says_its_format(name, start, golden, run, tmp_path):
    output = tmp_path / name
    output.parent.mkdir(exist_ok=True)
    assert run("read", golden / "logs/kafka-4.1/headers-0", "--output", output).code == 0
    assert output.read_bytes().startswith(start)
    assert run("read", golden / "logs/kafka-4.1/headers-0", "--output", output, "--format", "json").code == 0
    assert output.read_bytes().startswith(b'{"topic"')


def test_a_name_of_another_format_is_refused(golden, run, tmp_path):
    """JSON lines under the name of a spreadsheet are found out far too late."""
    for name in ("all.csv", "all.avro", "all.json.gz"):
        result = run("read", golden / "logs/kafka-4.1/headers-0", "--output", tmp_path / name)
        assert (result.code, "is not a supported format" in result.err) == (2, True)
        assert not (tmp_path / name).exists()
    assert (
        run("read", golden / "logs/kafka-4.1/headers-0", "--output", tmp_path / "all.csv", "--format", "json").code == 0
    )


@pytest.mark.parametrize("form", ["json", "arrow", "parquet"])
def test_a_file_of_no_rows_is_whole(form, golden, run, tmp_path):
    output = tmp_path / "rows"
    assert run("read", golden / "logs/kafka-4.1/empty-topic-0", "--format", form, "--output", output).code == 0
    if form == "parquet":
        assert pq.read_table(output).num_rows == 0
    assert output.exists()


def test_a_file_that_could_not_be_written_is_not_there(golden, run, tmp_path):
    output = tmp_path / "rows"
    result = run("read", golden / "logs/kafka-4.1", "--topic", "nope", "--format", "parquet", "--output", output)
    assert result.code == 2
    assert os.listdir(tmp_path) == []


def test_arrow_needs_a_file(golden, run):
    result = run("read", golden / "logs/kafka-4.1/headers-0", "--format", "arrow")
    assert (result.code, "--output" in result.err) == (2, True)


@pytest.mark.parametrize("to_file", [False, True])
def test_damage_ends_the_output_after_the_rows_before_it(to_file, copied, run, tmp_path):
    directory = copied("kafka-4.1", "codec-zstd-0")
    first, second = sorted(directory.glob("*.log"))
    flip_bit(second, second.stat().st_size // 2)
    whole = int(second.stem)
    output = ["--output", tmp_path / "rows"] if to_file else []
    result = run("read", directory, *output)
    rows = objects((tmp_path / "rows").read_text() if to_file else result.out)
    assert result.code == 1
    assert f"{second.name}:" in result.err
    assert [row["offset"] for row in rows] == list(range(len(rows)))
    assert whole <= len(rows) < 500
    assert first.exists()


@pytest.mark.parametrize("form", ["json", "arrow", "parquet"])
def test_damage_does_not_cost_the_file_that_was_there(form, copied, run, tmp_path):
    directory = copied("kafka-4.1", "codec-zstd-0")
    second = max(directory.glob("*.log"))
    flip_bit(second, second.stat().st_size // 2)
    output = tmp_path / "rows"
    output.write_text("whole")
    result = run("read", directory, "--format", form, "--output", output)
    assert (result.code, output.read_text()) == (1, "whole")
    assert result.err.splitlines()[-1].startswith(f"note: {output} is unchanged")
    assert sorted(os.listdir(tmp_path)) == ["kafka-4.1", "rows"]


def test_skipped_damage_is_reported(copied, run):
    directory = copied("kafka-4.1", "codec-none-0")
    path = min(directory.glob("*.log"))
    flip_bit(path, path.stat().st_size // 2)
    result = run("read", directory, "--on-corrupt", "skip")
    kept = [row["offset"] for row in objects(result.out)]
    lost = sorted(set(range(350)) - set(kept))
    assert result.code == 1
    assert f"lost: offsets {lost[0]} to {lost[-1]} " in result.err
    assert 0 < len(lost) < 50


def test_a_cut_tail_is_what_a_crash_leaves(copied, run):
    directory = copied("kafka-4.1", "codec-none-0")
    (directory.parent / ".kafka_cleanshutdown").unlink()
    # Records below a recovery point were synced, and are not lost in a crash.
    (directory.parent / "recovery-point-offset-checkpoint").unlink()
    cut(max(directory.glob("*.log")), -10)
    result = run("read", directory)
    assert (result.code, result.out.count("\n")) == (0, 333)
    assert "ends at 333, but " in result.err
    assert "replication-offset-checkpoint, 00000000000000000350.snapshot" in result.err


def test_a_cut_log_after_a_clean_shutdown_is_damage(copied, run):
    directory = copied("kafka-4.1", "codec-none-0")
    cut(max(directory.glob("*.log")), -10)
    result = run("read", directory)
    assert (result.code, result.out.count("\n")) == (1, 333)
    assert "record batch is cut" in result.err
    result = run("read", directory, "--on-corrupt", "skip")
    assert (result.code, result.out.count("\n")) == (1, 333)
    assert "lost: offsets 333 to 349 " in result.err


def test_a_reader_that_goes_away_is_no_error_and_not_done(golden):
    """Like a program that SIGPIPE ends. 0 would say, under pipefail, that nothing was found."""
    command = [sys.executable, "-m", "brokerless", "read", str(golden / "logs/kafka-4.1"), "--bytes", "utf8"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    assert (b"Broken pipe" in process.stderr.read(), process.wait()) == (False, 128 + signal.SIGPIPE)
    process.stderr.close()


@pytest.mark.parametrize("form", ["json", "arrow", "parquet"])
def test_a_pipe_is_written_to_not_replaced(form, golden, run, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        result = run("read", golden / "logs/kafka-4.1/headers-0", "--format", form, "--output", pipe)
        content = reader.communicate(timeout=30)[0]
    assert (result.code, result.err) == (0, f"120 records written to {pipe}\n")
    run("read", golden / "logs/kafka-4.1/headers-0", "--format", form, "--output", tmp_path / "rows")
    assert content == (tmp_path / "rows").read_bytes()
    assert pipe.is_fifo()


def test_a_device_is_written_to_not_replaced(golden, run, tmp_path):
    # By a link: should the device be replaced after all, it is the link that goes.
    full = tmp_path / "full"
    full.symlink_to("/dev/full")
    result = run("read", golden / "logs/kafka-4.1/headers-0", "--limit", 1, "--output", full)
    assert (result.code, result.err) == (2, f"brokerless: No space left on device: {full}\n")
    assert full.is_char_device()


@pytest.mark.parametrize("form", ["json", "arrow", "parquet"])
def test_a_full_disk_is_named(form, golden, run, tmp_path):
    full = tmp_path / "full"
    full.symlink_to("/dev/full")
    result = run("read", golden / "logs/kafka-4.1", "--bytes", "utf8", "--format", form, "--output", full)
    assert (result.code, result.err) == (2, f"brokerless: No space left on device: {full}\n")


class Full(io.BytesIO):
    """A file on a disk that fills up."""

    errors = 0

    def write(self, content):
        if self.tell() > 1000:
            self.errors += 1
            raise OSError(f"error {self.errors}")
        return super().write(content)


def test_the_first_error_of_a_parquet_write_is_reported(monkeypatch):
    monkeypatch.setattr(output, "_ROW_GROUP_BYTES", 0)
    rows = pa.record_batch({"offset": list(range(1000))})

    def fill():
        with output._parquet_writer(Full(), rows.schema) as write:
            while True:
                write(rows)

    with pytest.raises(OSError, match=r"^error 1$"):
        fill()


def test_a_link_and_the_permissions_of_its_file_stay(golden, run, tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "rows", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    assert run("read", golden / "logs/kafka-4.1/headers-0", "--limit", 1, "--output", link).code == 0
    assert link.is_symlink()
    assert (target.read_text().count("\n"), stat.S_IMODE(target.stat().st_mode)) == (1, 0o640)
    assert (sorted(os.listdir(tmp_path)), os.listdir(target.parent)) == (["link", "there"], ["rows"])


@pytest.mark.slow
def test_what_the_shell_opened_goes_on(golden, tmp_path):
    command = [sys.executable, "-m", "brokerless", "read", golden / "logs/kafka-4.1/headers-0", "--limit", "1"]
    with (tmp_path / "rows").open("w") as file:
        for output in ("/dev/fd/1", "/dev/stdout", "/proc/self/fd/1"):
            subprocess.run([*command, "--output", output], stdout=file, check=True)
            subprocess.run(["echo", "between"], stdout=file, check=True)
    lines = (tmp_path / "rows").read_text().splitlines()
    assert lines[1::2] == ["between"] * 3
    assert [json.loads(line)["offset"] for line in lines[::2]] == [0] * 3


def test_an_output_that_is_no_files_name(golden, run, tmp_path):
    result = run("read", golden / "logs/kafka-4.1/headers-0", "--output", f"{tmp_path}/new/")
    assert (result.code, os.listdir(tmp_path)) == (2, [])


def test_a_named_pipe_that_nobody_reads_any_more(golden, tmp_path):
    """What was asked for has not been written."""
    os.mkfifo(tmp_path / "pipe")
    command = [sys.executable, "-m", "brokerless", "read", golden / "logs/kafka-4.1", "--output", tmp_path / "pipe"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        os.close(os.open(tmp_path / "pipe", os.O_RDONLY))
        assert b"Broken pipe" in process.communicate()[1]
    assert process.returncode == 2


def test_what_is_lost_behind_the_limit_does_not_count(copied, run):
    """It is met all the same, for it is read ahead."""
    directory = copied("kafka-4.1", "headers-0")
    flip_bit(next(directory.glob("*.log")), -1)
    skipping = ["read", directory, "--on-corrupt", "skip"]
    whole = run(*skipping)
    assert (whole.code, "lost: offsets" in whole.err) == (1, True)
    count = len(objects(whole.out))
    assert count > 1
    for limit, code in ((0, 0), (1, 0), (count, 0), (count + 1, 1)):
        found = run(*skipping, "--limit", limit)
        assert (found.code, found.out) == (code, "".join(whole.out.splitlines(keepends=True)[:limit]))


def test_what_another_run_writes_is_no_matter(golden, run, tmp_path):
    """Processes in containers all have the same number: of one that was killed, or of one that runs."""
    partial = tmp_path / f".rows.{os.getpid()}.partial"
    partial.write_text("another's")
    assert run("read", golden / "logs/kafka-4.1/headers-0", "--output", tmp_path / "rows").code == 0
    assert partial.read_text() == "another's"
    assert sorted(os.listdir(tmp_path)) == [partial.name, "rows"]


@pytest.mark.parametrize("name", ["r" * 255, "é" * 127])
def test_a_name_may_be_as_long_as_a_file_system_has_it(name, golden, run, tmp_path):
    assert run("read", golden / "logs/kafka-4.1/headers-0", "--output", tmp_path / name).code == 0
    assert os.listdir(tmp_path) == [name]


def test_an_output_without_a_name(golden, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("read", golden / "logs/kafka-4.1/headers-0", "--output", "")
    assert (result.code, result.out) == (2, "")
    assert "the name is empty: name a file, or give - for stdout" in result.err


@pytest.mark.parametrize("form", ["json", "arrow"])
def test_a_dash_is_stdout(form, golden, tmp_path):
    command = [sys.executable, "-m", "brokerless", "read", golden / "logs/kafka-4.1/headers-0", "--format", form]
    written = subprocess.run([*command, "--output", "-"], cwd=tmp_path, capture_output=True, check=True).stdout
    assert os.listdir(tmp_path) == []
    subprocess.run([*command, "--output", "rows"], cwd=tmp_path, check=True)
    assert written == (tmp_path / "rows").read_bytes()


@pytest.fixture
def replicated(tmp_path, monkeypatch):
    """A log directory whose metadata name two replicas of t-0, with five of its ten rows below the high watermark."""
    with bl.Producer(tmp_path / "d", "t") as producer:
        producer.send([{"value": b"%d" % i} for i in range(10)])
    (tmp_path / "d" / HIGH_WATERMARKS).write_text("0\n1\nt 0 5\n")
    image = image_of({("t", 0): (1, 2)})
    monkeypatch.setattr("brokerless.metadata.log.cluster_image", lambda _: image)
    monkeypatch.setattr("brokerless.metadata.topic_settings.bootstrap", lambda *_: None)
    return tmp_path / "d", image


def test_rows_that_may_never_have_been_committed_are_named(replicated, run):
    data, image = replicated
    said = (
        "note: it is not known whether offsets 5 to 9 of t-0 were committed, because the partition has 2 replicas, and "
        "the high watermark 5"
    )
    result = run("read", data)
    assert said in result.err
    assert len(result.out.splitlines()) == 10
    at_high_watermark = run("read", data, "--end-offset", "high-watermark")
    assert "committed" not in at_high_watermark.err
    assert len(at_high_watermark.out.splitlines()) == 5
    set_replicas(image, "t", 0, (1,))
    assert "committed" not in run("read", data).err


@pytest.mark.parametrize(
    ("options", "doubtful"),
    [
        (["--end-offset", "latest"], (5, 9)),
        (["--end-offset", "10"], (5, 9)),
        (["--end-offset", "7"], (5, 6)),
        (["--start-offset", "8"], (8, 9)),
        (["--end-timestamp", "2100-01-01"], (5, 9)),
        (["--end-offset", "5"], None),
        (["--start-offset", "latest"], None),
        (["--end-timestamp", "1970-01-01"], None),
    ],
)
def test_a_read_names_the_rows_above_the_high_watermark(options, doubtful, replicated, run):
    err = run("read", replicated[0] / "t-0", *options).err
    if doubtful is None:
        assert "committed" not in err
    else:
        assert f"not known whether offsets {doubtful[0]} to {doubtful[1]} of t-0 were committed" in err


@pytest.fixture
def two_disks(tmp_path):
    """A broker's directories, killed: t-0 and t-1 in `d2`, and the metadata log, which names two replicas, in `d1`."""
    data = tmp_path / "d2"
    with bl.Producer(data, "t", partitions=2) as producer:
        producer.send([{"value": b"%d" % i, "partition": i % 2} for i in range(20)])
    (data / HIGH_WATERMARKS).write_text("0\n2\nt 0 5\nt 1 5\n")
    # Two nodes in the place of one.
    bootstrap = Bootstrap.parse((data / "bootstrap.checkpoint").read_bytes(), 1)
    one, two = (b"".join(struct.pack(">i", node) for node in nodes) for nodes in ((1,), (1, 2)))
    records = [record.replace(b"\x02" + one, b"\x03" + two) for record in bootstrap._records()]
    metadata = tmp_path / "d1/__cluster_metadata-0"
    metadata.mkdir(parents=True)
    (metadata / f"{100:020d}-{1:010d}.checkpoint").write_bytes(_native.kraft_snapshot(records, 0))
    (metadata / f"{100:020d}.log").touch()
    shutil.copy(data / "meta.properties", tmp_path / "d1")
    (data / "bootstrap.checkpoint").unlink()
    return tmp_path / "d1", data


def test_the_metadata_log_of_a_read_is_found_or_named(two_disks, run):
    metadata, data = two_disks
    said = "it is not known whether offsets 5 to 9 of t-{} were committed, because the partition has 2 replicas"
    shutil.copytree(data / "t-0", metadata / "other-0")
    for options in ([metadata, data], [data, "--metadata", metadata], [metadata / "other-0", data]):
        err = run("read", *options).err
        assert (said.format(0) in err, said.format(1) in err) == (True, True)
    assert said.format(1) in run("read", metadata, data / "t-1").err


def test_that_it_is_not_known_whether_there_are_other_replicas_is_said_once(two_disks, run):
    _, data = two_disks
    for options, count in (([data], 1), ([data / "t-1"], 1), ([data, "--end-offset", "high-watermark"], 0)):
        assert run("read", *options).err.count("other brokers may have replicas, but the metadata log") == count
    refused = run("read", data, "--metadata", data)
    assert (refused.code, f"{data} has no metadata log" in refused.err, refused.out) == (2, True, "")


def test_a_read_that_stops_at_a_running_brokers_high_watermark_says_so(run, tmp_path):
    with bl.Producer(tmp_path / "d", "t") as producer:
        producer.send([{"value": b"a"}, {"value": b"b"}])
    (tmp_path / "d/replication-offset-checkpoint").write_text("0\n1\nt 0 1\n")
    assert "high watermark" not in run("read", tmp_path / "d").err
    with bl.open_log_dir(tmp_path / "d", sole_replica=True):
        stopped = run("read", tmp_path / "d")
        assert [row["offset"] for row in objects(stopped.out)] == [0]
        assert "stopped at offset 1, the checkpointed high watermark, because a broker has the log open" in stopped.err
        whole = run("read", tmp_path / "d", "--end-offset", "latest")
        assert ([row["offset"] for row in objects(whole.out)], whole.err) == ([0, 1], "")


def test_a_directory_that_a_broker_renamed_is_read_by_naming_it(golden, run, tmp_path):
    """It is listed as not read, and the pages say that it can be."""
    stray = tmp_path / f"headers-0.{'0' * 32}-stray"
    shutil.copytree(golden / "logs/kafka-4.1/headers-0", stray)
    found = run("read", stray, "--columns", "topic,offset", "--limit", 1)
    assert (found.code, found.out) == (0, '{"topic":"headers","offset":0}\n')
