"""`find` prints the records that hold a text, as `read` prints them, and tells how many it searched."""

import io
import json
import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import brokerless as bl
from support.damage import flip_bit


@pytest.fixture(scope="module")
def logs(golden):
    return golden / "logs" / "kafka-4.1"


def objects(result):
    return [json.loads(line) for line in result.out.splitlines()]


def offsets(result):
    return [row["offset"] for row in objects(result)]


def summary(result):
    """Return the numbers of the last line: matches and records."""
    found = re.fullmatch(r"([\d,]+) of ([\d,]+) records? in \d+\.\d s", result.err.splitlines()[-1])
    return tuple(int(number.replace(",", "")) for number in found.groups())


def test_matches_are_printed_as_a_read_prints_records(run, logs):
    found = run("find", logs / "codec-none-0", "--key", b"key-11".hex(), "--exact", "--bytes", "hex")
    rows = objects(run("read", logs / "codec-none-0", "--bytes", "hex"))
    assert found.code == 0
    assert objects(found) == [row for row in rows if row["key"] == b"key-11".hex()] != []
    assert summary(found) == (len(objects(found)), len(rows))


def test_nothing_found_is_no_error(run, logs):
    found = run("find", logs / "codec-none-0", "--any", "nowhere")
    assert (found.code, found.out, summary(found)) == (0, "", (0, 350))


def test_a_repeated_option_is_one_of_its_texts_and_all_options_must_be_met(run, logs):
    path = logs / "codec-none-0"
    both = offsets(run("find", path, "--key", "key-11", "--key", "key-12"))
    assert both == sorted(
        {*offsets(run("find", path, "--key", "key-11")), *offsets(run("find", path, "--key", "key-12"))}
    )
    met = offsets(run("find", path, "--key", "key-1", "--value", "leader"))
    assert met == sorted(
        {*offsets(run("find", path, "--key", "key-1"))} & {*offsets(run("find", path, "--value", "leader"))}
    )


def test_headers_have_a_name_and_may_have_a_text(run, logs):
    path = logs / "headers-0"
    rows = objects(run("read", path, "--bytes", "hex"))
    named = [row["offset"] for row in rows if any(name == "h" for name, _ in row["headers"])]
    assert offsets(run("find", path, "--header", "h")) == named != []
    valued = [row["offset"] for row in rows if ["h", b"v1".hex()] in row["headers"]]
    assert offsets(run("find", path, "--header", "h=v1", "--exact")) == valued != []


@pytest.mark.parametrize("part", ["any", "key", None])
def test_texts_come_from_a_file(run, logs, tmp_path, part):
    file = tmp_path / "texts=.txt"
    file.write_bytes(b"key-11\r\nkey-12\n\n" + b"\n".join(b"no-%d" % i for i in range(5000)))
    given = f"{part}={file}" if part else str(file)
    expected = offsets(
        run("find", logs / "codec-none-0", f"--{part or 'any'}", "key-11", f"--{part or 'any'}", "key-12")
    )
    assert offsets(run("find", logs / "codec-none-0", "--texts-from", given)) == expected != []


def test_texts_come_from_stdin(run, logs, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"key-11\n")))
    assert offsets(run("find", logs / "codec-none-0", "--texts-from", "key=-")) == offsets(
        run("find", logs / "codec-none-0", "--key", "key-11")
    )


def test_text_and_rows_have_the_form_of_bytes(run, logs):
    path = logs / "codec-none-0"
    plain = objects(run("find", path, "--key", "key-11", "--exact", "--columns", "offset,key"))
    found = run("find", path, "--key", b"key-11".hex(), "--exact", "--bytes", "hex", "--columns", "offset,key")
    assert objects(found) == [row | {"key": b"key-11".hex()} for row in plain] != []


def test_counts_and_first_matches(run, logs):
    count = run("find", logs / "codec-none-0", "--key", "key-1", "--count")
    assert count.out == f"{len(objects(run('find', logs / 'codec-none-0', '--key', 'key-1')))}\n"
    first = run("find", logs / "codec-none-0", "--key", "key-1", "--first")
    assert objects(first) == objects(run("find", logs / "codec-none-0", "--key", "key-1", "--limit", "1"))
    assert len(objects(first)) == 1


def test_records_around_a_match_are_told_from_it(run, logs):
    found = run("find", logs / "nulls-0", "--null-value", "--around", "1", "--columns", "offset", "--limit", "1")
    rows = objects(found)
    assert [row["match"] for row in rows].count(True) == 1
    assert summary(found)[0] == 1
    assert [row["offset"] for row in rows] == list(range(rows[0]["offset"], rows[0]["offset"] + len(rows)))


def test_the_partition_of_a_key_is_searched_first_and_a_note_says_so(run, logs):
    row = objects(run("read", logs, "--topic", "multi-partition", "--partition", "2", "--limit", "1"))[0]
    found = run("find", logs, "--topic", "multi-partition", "--key", row["key"], "--exact")
    assert objects(found)[0] == row
    note = (
        "multi-partition: of 4 partitions, the default partitioner sends the key to multi-partition-2, searched first"
    )
    assert found.err.splitlines()[0] == f"note: {note}"


def test_matches_become_a_file(run, logs, tmp_path):
    file = tmp_path / "found.parquet"
    found = run("find", logs, "--topic", "headers", "--key", "k1", "--output", file)
    assert found.err.splitlines()[-1] == f"32 records written to {file}"
    assert pq.read_table(file).num_rows == 32


def test_matches_before_damage_are_printed(run, logs, tmp_path):
    log = tmp_path / "codec-none-0"
    shutil.copytree(logs / "codec-none-0", log)
    file = max(log.glob("*.log"), key=lambda file: file.stat().st_size)
    flip_bit(file, file.stat().st_size // 2)
    stopped = run("find", log, "--any", "kafka", "--columns", "offset")
    skipped = run("find", log, "--any", "kafka", "--columns", "offset", "--on-corrupt", "skip")
    assert (stopped.code, skipped.code) == (1, 1)
    assert "crc" in stopped.err
    assert "lost: offsets" in skipped.err
    read = objects(run("read", log, "--columns", "offset,value", "--bytes", "hex"))
    assert offsets(stopped) == [row["offset"] for row in read if b"kafka".hex() in row["value"]] != []
    assert offsets(skipped)[: len(offsets(stopped))] == offsets(stopped) != offsets(skipped)


def test_the_search_is_limited_as_a_read_is(run, logs):
    path = logs / "txn-commit-abort-0"
    for options in (["--isolation-level", "read_committed"], ["--start-offset", "20"], ["--end-offset", "30"]):
        read = offsets(run("read", path, *options))
        found = run("find", path, "--any", "no such text", "--invert", *options)
        assert offsets(found) == read
        assert summary(found) == (len(read), len(read))


def test_matches_are_decoded_as_by_a_read(run):
    registry = Path(__file__).parents[3] / "examples/registry"
    read = run("read", registry, "--topic", "orders", "--decode", "value=registry,key=utf8")
    found = run("find", registry, "--topic", "orders", "--decode", "value=registry,key=utf8", "--any", "EUR")
    assert objects(found) == [row for row in objects(read) if "EUR" in json.dumps(row["value"])] != []
    notes = [line for line in found.err.splitlines() if "do not decode" in line]
    assert notes[0].startswith("warning: orders: ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "nothing is sought: give --any, --key, --value, --header, --where, --null-value or --producer; `bro"),
        (["--any", "(", "--regex"], 'the pattern "(" does not compile: unclosed group'),
        (["--any", "xyz", "--bytes", "hex"], "'xyz' is not hex"),
        (["--any", "x", "--count", "--output", "f.json"], "--count prints only a number"),
        (["--any", "x", "--first", "--limit", "2"], "--first is --limit 1: give one of them"),
        (["--texts-from", "nowhere.txt"], "nowhere.txt: No such file or directory"),
        (["--texts-from", "/dev/null"], "--texts-from: the file has no text"),
    ],
)
def test_what_cannot_be_sought_is_refused(run, logs, options, message):
    refused = run("find", logs / "codec-none-0", *options)
    assert refused.code == 2
    assert message in refused.err


def test_a_search_in_python_is_that_of_the_command(run, logs):
    found = bl.LogDirs(logs).find(any="grüße", ignore_case=True, columns=["topic", "offset"]).read_all().to_pylist()
    assert objects(run("find", logs, "--any", "GRÜSSE", "-i", "--columns", "topic,offset")) != found
    assert objects(run("find", logs, "--any", "GRÜßE", "-i", "--columns", "topic,offset")) == found != []


@pytest.fixture
def orders(tmp_path):
    """Orders as JSON, of which every tenth has no customer."""
    with bl.Producer(tmp_path / "d", "orders") as producer:
        for number in range(100):
            order = {"id": number, "customer": {"id": number % 7, "name": f"c-{number % 7}"}}
            producer.send(
                [{"key": b"k-%d" % number, "value": json.dumps(order if number % 10 else {"id": number}).encode()}]
            )
    return tmp_path / "d"


def test_a_condition_is_about_columns_and_the_fields_of_json(run, orders):
    expected = [number for number in range(100) if number % 7 == 4 and number % 10]
    found = run("find", orders, "--where", "value.customer.id = 4")
    assert offsets(found) == expected
    assert summary(found) == (len(expected), 100)
    assert offsets(run("find", orders, "--where", "value.customer.name = 'c-4' and offset < 50")) == [
        number for number in expected if number < 50
    ]
    assert offsets(run("find", orders, "--where", "key = 'k-11' or value.customer is null and offset > 80")) == [11, 90]
    assert offsets(run("find", orders, "--where", "value.customer.id = 4", "--limit", "2")) == expected[:2]
    assert offsets(run("find", orders, "--where", "value.id > 90", "--key", "k-9", "--columns", "offset")) == [
        *range(91, 100)
    ]
    assert run("find", orders, "--where", "value.customer.id = 4", "--count").out == f"{len(expected)}\n"
    around = objects(run("find", orders, "--where", "value.id = 50", "--around", "1"))
    assert [(row["offset"], row["match"]) for row in around] == [(49, False), (50, True), (51, False)]


def test_a_condition_is_about_fields_that_a_registry_decodes(run):
    path = Path(__file__).parents[3] / "examples" / "registry"
    plain = objects(run("read", path, "--topic", "orders", "--decode", "key=registry,value=registry"))
    # NaN and infinity are text in JSON.
    decoded = [(row, row["value"]["amount"]) for row in plain if row["value"] is not None]
    matching = [row for row, amount in decoded if not isinstance(amount, str) and amount > 60]
    expected = [row["offset"] for row in matching]
    found = run("find", path, "--topic", "orders", "--where", "value.amount > 60")
    assert offsets(found) == expected != []
    assert objects(found) == matching
    assert "note" not in found.err
    mixed = run("find", path, "--where", "value.amount > 60", "--count")
    assert mixed.out == "0\n"
    assert "some topics have a registry's schemas and some do not, so none is decoded" in mixed.err


def test_a_condition_writes_typed_rows(run, tmp_path):
    path = Path(__file__).parents[3] / "examples" / "registry"
    run("find", path, "--topic", "orders", "--where", "value.amount < 60", "--output", tmp_path / "o.parquet")
    rows = pq.read_table(tmp_path / "o.parquet").to_pylist()
    assert rows
    assert all(row["value"]["amount"] < 60 for row in rows)


def test_a_condition_that_duckdb_refuses_is_an_error_in_one_line(run, orders):
    refused = run("find", orders, "--where", "valu.id = 1")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("brokerless: the condition 'valu.id = 1': Binder Error: ")
    assert refused.err.count("\n") == 1
    inverted = run("find", orders, "--where", "true", "--invert")
    assert inverted.code == 2
    assert "--invert does not apply to --where: write NOT in the condition" in inverted.err


def test_a_condition_without_duckdb_names_the_extra(run, orders, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "duckdb", None)
    refused = run("find", orders, "--where", "true")
    assert refused.code == 2
    assert "pip install 'brokerless[sql]'" in refused.err
