"""`produce` takes what `read` writes, and with --keep-offsets nothing of it changes."""

import io
import json
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import brokerless as bl
from brokerless.metadata.bootstrap import Bootstrap, bootstrap

TESTS = Path(__file__).parents[2]
# Every message format, codec and timestamp type, gaps from compaction, nulls, headers and transactions.
PARTITIONS = [
    ("kafka-4.1", "headers-0"),
    ("kafka-4.1", "codec-mixed-0"),
    ("kafka-4.1", "log-append-time-0"),
    ("kafka-4.1", "compact-log-append-time-0"),
    ("kafka-4.1", "compact-tombstones-0"),
    ("kafka-4.1", "leader-epochs-0"),
    ("kafka-4.1", "no-timestamps-0"),
    ("kafka-4.1", "timestamps-out-of-order-0"),
    ("kafka-4.1", "txn-interleaved-0"),
    ("kafka-2.8-v1", "nulls-0"),
]


@pytest.mark.parametrize("form", ["json", "arrow", "parquet"])
def test_a_copy_with_its_offsets_reads_as_the_original(golden, run, tmp_path, form):
    """In any form, of any format: offsets, gaps, times and their types, leader epochs, nulls, headers."""
    for log_dir, name in PARTITIONS:
        topic = name.rpartition("-")[0]
        original = run("read", golden / "logs" / log_dir / name)
        rows = [json.loads(line) for line in original.out.splitlines()]
        file = tmp_path / f"{log_dir}-{name}.{form}"
        columns = "topic,partition,offset,timestamp,timestampType,leaderEpoch,key,value,headers"
        run("read", golden / "logs" / log_dir / name, "--format", form, "--output", file, "--columns", columns)
        copy = tmp_path / f"{log_dir}-{name}"
        result = run("produce", copy, "--topic", topic, "--keep-offsets", "--input", file, "--compression", "lz4")
        assert result.code == 0, result.err
        assert ("have no leader epoch" in result.err) == (rows[0]["leaderEpoch"] is None)
        again = [json.loads(line) for line in run("read", copy, "--topic", topic).out.splitlines()]
        # where the original knew no leader epoch, the copy has the first
        expected = [row | {"leaderEpoch": row["leaderEpoch"] or 0} for row in rows]
        assert again == expected, (log_dir, name)


@pytest.mark.parametrize("form", ["arrow", "json"])
def test_leader_epochs_that_the_input_lacks_are_not_lost_without_a_word(golden, run, tmp_path, form):
    file, columns = tmp_path / f"rows.{form}", "offset,timestamp,key,value"
    lines = run("read", golden / "logs/kafka-4.1/leader-epochs-0", "--format", form, "--columns", columns).out
    if form == "json":
        file.write_text(lines)
    else:
        options = ["--format", form, "--output", file, "--columns", columns]
        run("read", golden / "logs/kafka-4.1/leader-epochs-0", *options)
    for name, options in {"copy": ["--keep-offsets"], "sent": [], "old": ["--keep-offsets", "--magic", 1]}.items():
        done = run("produce", tmp_path / name, "--topic", "t", "--input", file, *options)
        assert done.code == 0, done.err
        assert ("have no leader epoch" in done.err) == (name == "copy")


@pytest.mark.parametrize(("name", "copies"), [("nulls-0", 2), ("codec-snappy-0", 2)])
def test_messages_without_timestamps_are_copied_into_any_format(golden, run, tmp_path, name, copies):
    """Only magic 0 has no timestamps; the others have -1 for none, as Kafka writes it when it converts."""
    topic = name.rpartition("-")[0]
    original = run("read", golden / "logs/kafka-2.8-v0" / name).out
    file = tmp_path / "rows.jsonl"
    file.write_text(original)
    rows = [json.loads(line) for line in original.splitlines()]
    for magic, timestamp_type in {2: "CreateTime", 1: "CreateTime", 0: "NoTimestampType"}.items():
        copy = tmp_path / str(magic)
        done = run("produce", copy, "--topic", topic, "--keep-offsets", "--magic", magic, "--input", file)
        assert done.code == 0, done.err
        found = [json.loads(line) for line in run("read", copy, "--topic", topic).out.splitlines()]
        epoch = 0 if magic == 2 else None
        assert found == [row | {"timestampType": timestamp_type, "leaderEpoch": epoch} for row in rows]


@pytest.mark.parametrize("as_bytes", ["utf8", "base64", "hex"])
def test_lines_from_a_pipe_in_any_notation_of_bytes(run, tmp_path, monkeypatch, as_bytes):
    with bl.Producer(tmp_path / "a", "t") as producer:
        producer.send(
            [
                {
                    "key": b"\xff\x00",
                    "value": b"plain",
                    "headers": [{"key": "h", "value": b"\xfe"}, {"key": "", "value": None}],
                },
                {"key": None, "value": "\u2028 \U0001f600".encode()},
            ]
        )
    lines = run("read", tmp_path / "a", "--bytes", as_bytes).out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    assert run("produce", tmp_path / "b", "--topic", "t", "--bytes", as_bytes, "--keep-offsets").code == 0
    assert run("read", tmp_path / "b", "--bytes", as_bytes).out == lines


def test_one_transaction_for_all_of_the_input(run, tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"value": "a"}\n\n{"value": "b", "partition": 1}\n')
    result = run(
        "produce", tmp_path / "d", "--topic", "t", "--partitions", 2, "--transactional-id", "x", "--input", file
    )
    assert (result.code, result.out) == (0, "")
    assert "2 records written to t" in result.err
    for log in bl.LogDirs(tmp_path / "d").logs():
        assert log.log_end_offset == log.last_stable_offset
    assert len(run("read", tmp_path / "d", "--isolation-level", "read_committed").out.splitlines()) == 2


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('{"value": "a"}\n{"value": 1}\n', "line 2: "),
        ('{"value": "a"}\n{"valeu": "b"}\n', "unknown field `valeu`"),
        ('{"value": "a"}\n{"value": "b"\n', "line 2: EOF"),
        ('{"value": {"base64": "?"}}\n', "line 1: not base64"),
        ('{"value": null, "timestampType": "Never"}\n', 'unknown timestampType "Never"'),
        ('{"value": null}\n{"key": "a"}\n', "line 2: missing field `value`"),
    ],
)
def test_a_line_that_is_none_is_named_and_nothing_is_written(run, tmp_path, lines, said):
    file = tmp_path / "rows.jsonl"
    file.write_text(lines)
    result = run("produce", tmp_path / "d", "--topic", "t", "--input", file)
    assert result.code == 2
    assert said in result.err
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    ("form", "place"),
    [("json", "2 rows are refused; the first is line 5: "), ("arrow", "2 rows are refused; the first is row 2: ")],
)
def test_a_refused_row_is_named_by_its_line(run, tmp_path, form, place):
    """It was "row 2", while a line that is no JSON is "line 5"."""
    rows = [{"key": "a", "value": "b"}] * 2 + [{"key": None, "value": "c"}] * 2
    lines = [json.dumps(row) for row in rows]
    (tmp_path / "in.json").write_text("\n".join([lines[0], "", *lines[1:2], "  ", *lines[2:]]) + "\n")
    table = pa.Table.from_pylist([{name: value and value.encode() for name, value in row.items()} for row in rows])
    with pa.ipc.new_file(tmp_path / "in.arrow", table.schema) as writer:
        writer.write_table(table.slice(0, 2))
        writer.write_table(table.slice(2))
    options = ("--topic", "t", "--config", "cleanup.policy=compact", "--input", tmp_path / f"in.{form}")
    result = run("produce", tmp_path / "d", *options)
    assert result.code == 2
    assert f"{place}null key, but a compacted topic needs keys" in result.err


def test_a_bad_topic_name_makes_no_directory(run, tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"value": "a"}\n')
    assert "not a topic name" in run("produce", tmp_path / "d", "--topic", "a b", "--input", file).err
    with pytest.raises(ValueError, match="not a topic name"):
        bl.Producer(tmp_path / "d", "a b")
    assert not (tmp_path / "d").exists()


def test_lines_longer_than_a_block_come_whole(run, tmp_path, monkeypatch):
    monkeypatch.setattr("brokerless.cli.input._BLOCK", 7)
    lines = ['{"value": "a line of many blocks"}', "", '{"value": "b"}', '{"value": "no line end"}']
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(lines))
    assert run("produce", tmp_path / "d", "--topic", "t", "--input", file).code == 0
    found = [row["value"] for rows in bl.Log(tmp_path / "d" / "t-0").read() for row in rows.to_pylist()]
    assert found == [b"a line of many blocks", b"b", b"no line end"]


def test_other_brokers_are_warned_of_unless_the_metadata_or_the_user_exclude_them(run, copied):
    path = copied("kafka-4.1", "headers-0", "__cluster_metadata-0")
    file = path / "rows.jsonl"
    file.write_text('{"value": "a"}\n')
    produce = ["produce", path, "--topic", "headers", "--input", file]
    # Its metadata name one node.
    assert "another broker" not in run(*produce).err
    shutil.rmtree(path / "__cluster_metadata-0")
    assert "another broker may have replicas" in run(*produce).err
    result = run(*produce, "--sole-replica")
    assert "another broker" not in result.err
    assert result.code == 0


def test_a_new_directory_is_made_for_a_release(run, tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"value": "a"}\n')
    made = {}
    for release in ((), ("--release", "3.9"), ("--release", "4.1")):
        path = tmp_path / "-".join(["d", *release])
        produce = ["produce", path, "--topic", "t", "--input", file]
        assert run(*produce, *release).code == 0
        made[release[1:]] = Bootstrap.parse((path / "bootstrap.checkpoint").read_bytes(), 1)._metadata_version
        refused = run(*produce, "--release", "4.1")
        assert (refused.code, f"release 4.1: {path} exists" in refused.err) == (2, True)
    assert len(set(made.values())) == 3
    assert run("produce", tmp_path / "e", "--topic", "t", "--input", file, "--release", "2.8").code == 2
    assert not (tmp_path / "e").exists()


def test_recover_says_what_it_does_and_a_dry_run_does_nothing(golden, run, copied):
    path = copied("kafka-4.1-crashed")
    before = {file.name: file.read_bytes() for file in (path / "crash-zstd-0").iterdir()}
    planned = run("recover", path, "--dry-run")
    assert planned.code == 0
    # The batch behind the damaged one is whole.
    assert re.fullmatch(
        r"lost in 1 log: up to \d+ records? in the damage, \d+ records after it; up to 3 may be missing already; "
        r"\d+ changes; a broker will start",
        planned.out.splitlines()[0],
    )
    *_, line, cut = planned.out.splitlines()
    assert re.fullmatch(r"crash-zstd-0: \d+ changes", line)
    assert re.match(
        r"crash-zstd-0: sets aside 0+282\.log from byte \d+ on \(\d+ bytes: .*crc mismatch.* \d+ records of", cut
    )
    assert "would be made" in planned.err
    assert "--all prints them" in planned.err
    verbose = run("recover", path, "--dry-run", "--all")
    assert verbose.out.splitlines()[0] == planned.out.splitlines()[0]
    steps = [step for step in verbose.out.splitlines() if step.startswith("crash-zstd-0: ")]
    assert line == f"crash-zstd-0: {len(steps)} changes"
    assert "truncate 00000000000000000282.log" in verbose.out
    assert "crc mismatch" in verbose.out
    assert {file.name: file.read_bytes() for file in (path / "crash-zstd-0").iterdir()} == before
    done = run("recover", path)
    assert done.out == planned.out
    assert bl.LogDirFiles(str(path)).is_clean
    assert run("recover", path, "--topic", "crash-zst").code == 2
    again = run("recover", path)
    assert (again.code, again.out) == (0, "0 records lost; 0 changes; a broker will start\n")
    assert again.err == f"0 changes made in {path}: a broker accepts its logs unchanged\n"


def test_recover_ends_with_the_code_of_damage_where_a_broker_does_not_start(golden, run, copied):
    path = copied("kafka-4.1-crashed", "crash-zstd-0").parent
    (path / "crash-zstd-0" / "leader-epoch-checkpoint").write_text("damaged\n")
    for options in ([], ["--dry-run"]):
        result = run("recover", path, *options)
        effect = "a broker takes this log directory offline; if it has no other, it does not start"
        assert (result.code, effect in result.err) == (1, True)
        assert result.out == "a broker will not start\n"


def test_a_topic_keeps_its_id(run, tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"value": "a"}\n')
    topic_id, other = "AAECAwQFBgcICQoLDA0ODw", "AAECAwQFBgcICQoLDA0OEA"
    options = ["produce", tmp_path / "d", "--topic", "t", "--input", file, "--topic-id"]
    assert [run(*options, topic_id).code, run(*options, topic_id).code] == [0, 0]
    refused = run(*options, other)
    assert refused.code == 2
    assert f"has the id {topic_id}, not {other}" in refused.err
    assert bl.Log(tmp_path / "d" / "t-0").log_end_offset == 2


def test_an_arrow_file_with_damaged_offsets_is_refused_and_nothing_of_it_produced(run, tmp_path):
    rows = pa.record_batch({"value": pa.array([b"a" * 20, b"b" * 20])})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    offsets, damaged = struct.pack("<3i", 0, 20, 40), struct.pack("<3i", 0, 20, 2**30)
    (tmp_path / "rows.arrow").write_bytes(sink.getvalue().to_pybytes().replace(offsets, damaged))
    result = run("produce", tmp_path / "log", "--topic", "t", "--input", tmp_path / "rows.arrow")
    assert result.code == 2
    assert "record batch 0 is damaged, or the format of the input is not arrow (" in result.err
    assert run("read", tmp_path / "log", "--topic", "t").out == ""


def test_a_null_of_a_damaged_file_may_have_any_view(run, tmp_path):
    """Arrow calls the file valid, and its cast followed the view of a null out of the process's memory."""
    file = TESTS / "data/hostile/null-with-a-wild-view.arrow"
    command = [sys.executable, "-m", "brokerless", "produce", tmp_path / "log", "--topic", "t", "--partitions", "4"]
    done = subprocess.run([*command, "--input", file], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, f"60 records written to t in {tmp_path}/log\n")


@pytest.mark.slow
def test_damaged_inputs_give_rows_or_an_error(tmp_path):
    """And never end the process, which would be for want of a check."""
    command = [sys.executable, TESTS / "support" / "hostile_inputs.py", tmp_path]
    done = subprocess.run([*command, "--count", "2000"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20_000


def test_rows_that_take_no_bytes_are_refused_when_a_file_claims_too_many(run, tmp_path):
    """A damaged length of a column of nulls would otherwise fill all memory."""
    rows = pa.record_batch({"value": pa.nulls((1 << 20) + 1)})
    with pa.ipc.new_stream(tmp_path / "rows.arrow", rows.schema) as writer:
        writer.write_batch(rows)
    result = run("produce", tmp_path / "log", "--topic", "t", "--input", tmp_path / "rows.arrow")
    assert result.code == 2
    assert "record batch 0 has 0 bytes, too few for its 1048577 rows" in result.err


def test_records_written_before_a_bad_line_are_counted(run, tmp_path):
    """Who repeats a produce that failed has to know what the log holds."""
    file = tmp_path / "rows.jsonl"
    file.write_text('{"value": "%s"}\n' % ("x" * 1000) * 20_000 + "{\n")
    done = run("produce", tmp_path / "d", "--topic", "t", "--input", file)
    log = bl.LogDirs(tmp_path / "d").log("t", 0)
    assert done.code == 2
    assert log.log_end_offset > 0
    assert f"{log.log_end_offset:,} records were written to t" in done.err
    done = run("produce", tmp_path / "e", "--topic", "t", "--input", file, "--transactional-id", "loader")
    assert done.code == 2
    assert "records were written" not in done.err


def test_settings_of_a_new_topic(run, tmp_path):
    """Without them a broker deletes what is older than a week, and a large record cannot be written at all."""
    file = tmp_path / "rows.jsonl"
    file.write_text('{"value": "%s"}\n' % ("x" * 2_000_000))
    options = ["produce", tmp_path / "d", "--topic", "t", "--input", file]
    assert run(*options).code == 2
    done = run(
        *options[:1],
        tmp_path / "e",
        *options[2:],
        "--config",
        "max.message.bytes=3000000",
        "--config",
        "retention.ms=-1",
    )
    assert (done.code, done.err) == (0, f"1 record written to t in {tmp_path}/e\n")
    assert bootstrap(str(tmp_path / "e"), 1).topics["t"].configs == {
        "max.message.bytes": "3000000",
        "retention.ms": "-1",
    }


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("retention.ms", "NAME=VALUE is expected"),
        ("retention.sm=1", "did you mean 'retention.ms'"),
        ("retention.ms=long", "int expected"),
        ("segment.bytes=1", "14 to 2147483647 allowed"),
    ],
)
def test_settings_that_a_topic_cannot_have(run, tmp_path, config, message):
    (tmp_path / "rows.jsonl").write_text('{"value": "a"}\n')
    options = ["produce", tmp_path / "d", "--topic", "t", "--input", tmp_path / "rows.jsonl"]
    refused = run(*options, "--config", config)
    assert refused.code == 2
    assert message in refused.err
    assert not (tmp_path / "d").exists()
    assert run(*options).code == 0
    assert "--config is only for new topics, but t exists" in run(*options, "--config", "retention.ms=1").err


@pytest.mark.parametrize("keeps", [False, True])
def test_records_written_before_a_refused_record_are_counted(run, tmp_path, keeps):
    """Those read before it are in the log."""
    rows = [{"value": "v" * 900_000, "offset": 3 * i} for i in range(30)] + [{"value": "x" * 2_000_000, "offset": 99}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ["--keep-offsets", "--config", "max.message.bytes=1000"] if keeps else []
    done = run("produce", tmp_path / "d", "--topic", "t", "--input", tmp_path / "rows.jsonl", *options)
    if keeps:
        # A follower takes what its leader has.
        assert (done.code, "31 records written" in done.err) == (0, True)
    else:
        written = bl.LogDirs(tmp_path / "d").log("t", 0).log_end_offset
        assert (done.code, f"{written} records were written" in done.err, 0 < written <= 30) == (2, True, True)
        assert "max_message_bytes is 1048588" in done.err


def test_nothing_is_said_to_be_written_of_a_copy_that_is_there_already(run, tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"value": "a", "offset": 3}\n{"value": "b", "offset": 4}\n')
    command = ("produce", tmp_path / "d", "--topic", "t", "--input", tmp_path / "rows.jsonl", "--keep-offsets")
    assert "2 records written" in run(*command).err
    again = run(*command)
    assert (again.code, "were written" in again.err) == (2, False)
    assert "below the log end offset 5" in again.err


def test_no_input(tmp_path):
    command = f"{sys.executable} -m brokerless.cli produce {tmp_path}/d --topic t <&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert "unexpected" not in done.stderr


A_VALUE = 'text, null or {"base64": text} expected; write JSON as text'
A_HEADER = (
    'a header is ["name", value] or {"key": "name", "value": value}, and the value is text, null or {"base64": text}'
)


def test_headers_are_pairs_or_objects(run, tmp_path):
    """A read prints pairs; other tools write objects, and leave out what is null."""
    of_pairs = '["h", "x"], ["n", null], ["h", "x"]'
    of_objects = '{"key": "h", "value": "x"}, {"key": "n"}, {"value": "x", "key": "h"}'
    lines = [f'{{"value": "v", "headers": [{headers}]}}\n' for headers in (of_pairs, of_objects)]
    (tmp_path / "rows.jsonl").write_text("".join(lines))
    assert run("produce", tmp_path / "d", "--topic", "t", "--input", tmp_path / "rows.jsonl").code == 0
    found = [json.loads(line)["headers"] for line in run("read", tmp_path / "d").out.splitlines()]
    assert found == [[["h", "x"], ["n", None], ["h", "x"]]] * 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('["t", 0, 3, 1700000000000, "CreateTime", 0, "k", "v", []]', "line 2: not a JSON object"),
        (
            '{"value": {"base64": "YQ==", "x": 1}}',
            'line 2: text, null or {"base64": text} expected; write JSON as text, at column 37',
        ),
        ('{"value": 5}', f"line 2: {A_VALUE}, at column 12"),
        ('{"value": "v", "headers": [["h", "x", "y"]]}', f"line 2: {A_HEADER}, at column 43"),
        ("\ufeff{}", "line 2: not a JSON object"),
    ],
)
def test_lines_that_are_almost_rows(run, tmp_path, line, message):
    (tmp_path / "rows.jsonl").write_text('{"value": "a"}\n' + line + "\n")
    refused = run("produce", tmp_path / "d", "--topic", "t", "--input", tmp_path / "rows.jsonl")
    assert refused.code == 2
    assert message in refused.err
    assert not (tmp_path / "d").exists()
