"""`sql` shows what a query finds in topics and in a cluster's state, in several forms."""

import io
import json
import os
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
import duckdb
import pyarrow.parquet as pq
import pytest

import brokerless as bl
from brokerless.cli import sql as sql_module
from brokerless.query.duckdb import Tables
from support.damage import flip_bit

EXAMPLES = Path(__file__).parents[3] / "examples"
INCIDENT = EXAMPLES / "incident"


def objects(result):
    return [json.loads(line) for line in result.out.splitlines()]


def test_a_query_prints_a_table_or_json_lines_or_csv(run):
    query = 'select partition, count(*) n, max("offset") last from orders group by all order by 1'
    table = run("sql", INCIDENT, "-c", query)
    assert table.code == 0
    assert [line.split()[1::2] for line in table.out.splitlines() if line.startswith("│   ")][1:] == [
        ["0", "200", "199"],
        ["1", "170", "169"],
        ["2", "140", "139"],
    ]
    lines = run("sql", INCIDENT, "--json", "-c", query)
    assert objects(lines)[0] == {"partition": 0, "n": 200, "last": 199}
    assert (
        run("sql", INCIDENT, "--format", "csv", "-c", query).out
        == "partition,n,last\n0,200,199\n1,170,169\n2,140,139\n"
    )


def test_each_statement_prints_its_result(run):
    found = run("sql", INCIDENT, "--json", "-c", "create table t as select 1 a; select * from t; select a + 1 a from t")
    assert objects(found) == [{"a": 1}, {"a": 2}]


def test_a_result_becomes_a_file(run, tmp_path):
    file = tmp_path / "orders.parquet"
    written = run("sql", INCIDENT, "--output", file, "-c", "select partition, key from orders")
    assert (written.code, written.out, written.err) == (0, "", f"written to {file}\n")
    assert pq.read_table(file).num_rows == 510
    assert [path.name for path in tmp_path.iterdir()] == ["orders.parquet"]
    failed = run("sql", INCIDENT, "--output", file, "-c", "select nothing from orders")
    assert failed.code == 2
    assert pq.read_table(file).num_rows == 510
    assert [path.name for path in tmp_path.iterdir()] == ["orders.parquet"]


def test_a_device_stays_one(run, tmp_path):
    pipe = tmp_path / "rows.csv"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as thread:
        read = thread.submit(pipe.read_text)
        assert run("sql", INCIDENT, "--output", pipe, "-c", "select 1 a").code == 0
        assert read.result() == "a\n1\n"
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_an_error_is_that_of_its_statement(golden, tmp_path):
    log = tmp_path / "codec-none-0"
    shutil.copytree(golden / "logs" / "kafka-4.1" / "codec-none-0", log)
    file = max(log.glob("*.log"), key=lambda file: file.stat().st_size)
    flip_bit(file, file.stat().st_size // 2)
    session = sql_module._Session(duckdb.connect(), {"": Tables(log, decode=None)}, "json", None)
    with pytest.raises(bl.errors.CorruptRecordError):
        session.run('select count(value) from "codec-none"')
    with pytest.raises(click.UsageError, match="Parser Error"):
        session.run("selec")


def test_the_state_of_the_cluster_is_beside_the_topics(run):
    query = 'select "group", sum(lag)::int lag from commits group by all having sum(lag) > 100 order by 1'
    assert objects(run("sql", INCIDENT, "--json", "-c", query)) == [
        {"group": "billing", "lag": 110},
        {"group": "shipping", "lag": 480},
    ]
    names = {row["name"] for row in objects(run("sql", INCIDENT, "--json", "-c", "show tables"))}
    assert {"orders", "payments", "groups", "commits", "transactions", "producers", "topics", "findings"} <= names


def test_keys_whose_last_value_is_null(run, tmp_path):
    with bl.Producer(tmp_path / "data", "users") as producer:
        producer.send([{"key": "a", "value": "1"}, {"key": "b", "value": "1"}, {"key": "a", "value": None}])
    query = 'select key from users group by key having arg_max(value is null, "offset") order by key'
    assert objects(run("sql", tmp_path / "data", "--json", "-c", query)) == [{"key": "a"}]


def test_directories_have_names(run, tmp_path):
    for name, keys in (("old", "abc"), ("new", "bcd")):
        with bl.Producer(tmp_path / name, "users") as producer:
            producer.send([{"key": key, "value": key} for key in keys])
    query = "select key from old.users except select key from new.users"
    paths = [f"old={tmp_path / 'old'}", f"new={tmp_path / 'new'}"]
    assert objects(run("sql", *paths, "--json", "-c", query)) == [{"key": "a"}]
    unknown = run("sql", *paths, "-c", "select * from users")
    assert unknown.code == 2
    assert "Table with name users does not exist" in unknown.err
    assert "the tables are old.users" in unknown.err


def test_values_are_decoded_where_schemas_are_there(run):
    query = 'select value.currency c, key from orders order by partition, "offset" limit 1'
    rows = bl.LogDirs(EXAMPLES / "registry").to_table(["orders"], decode="value=registry,key=registry", limit=1)
    expected = {"c": rows["value"][0].as_py()["currency"], "key": rows["key"][0].as_py()}
    assert objects(run("sql", EXAMPLES / "registry", "--json", "-c", query)) == [expected]
    chosen = run(
        "sql", EXAMPLES / "registry", "--decode", "key=hex", "--json", "-c", "select typeof(key) t from orders limit 1"
    )
    assert objects(chosen) == [{"t": "VARCHAR"}]


def test_statements_come_from_stdin(run, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("select count(*) n from orders;"))
    assert objects(run("sql", INCIDENT, "--json")) == [{"n": 510}]


def test_a_result_does_not_cut_off_what_stdout_has(run, tmp_path):
    """DuckDB opens the file behind stdout anew."""
    import subprocess
    import sys

    file = tmp_path / "out"
    with file.open("wb") as out:
        out.write(b"before\n")
        out.flush()
        command = [sys.executable, "-m", "brokerless", "sql", str(INCIDENT), "--json", "-c", "select 1 a"]
        subprocess.run(command, stdout=out, check=True)
    assert file.read_text() == 'before\n{"a":1}\n'


def test_damage_is_told_as_by_other_verbs(run, golden, tmp_path):
    log = tmp_path / "codec-none-0"
    shutil.copytree(golden / "logs" / "kafka-4.1" / "codec-none-0", log)
    file = max(log.glob("*.log"), key=lambda file: file.stat().st_size)
    flip_bit(file, file.stat().st_size // 2)
    query = 'select count(octet_length(value)) n from "codec-none"'
    stopped = run("sql", log, "--decode", "key=utf8", "-c", query)
    assert stopped.code == 1
    assert "crc" in stopped.err
    assert "Traceback" not in stopped.err
    skipped = run("sql", log, "--decode", "key=utf8", "--on-corrupt", "skip", "--json", "-c", query)
    assert 0 < objects(skipped)[0]["n"] < 350


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-c", "selec 1"], 'Parser Error: syntax error at or near "selec"'),
        (["-c", "select * from nowhere"], "the tables are __cluster_metadata, "),
        (["-c", "select 1", "--output", "x.txt"], "x.txt: name the file .json, .csv or .parquet"),
        (["-c", "select 1", "--format", "parquet"], "--format parquet needs --output FILE"),
        (["-c", "select 1", "--json", "--format", "csv"], "--json and --format csv contradict each other"),
    ],
)
def test_what_cannot_run_is_refused(run, options, message):
    refused = run("sql", INCIDENT, *options)
    assert refused.code == 2
    assert message in refused.err


def test_the_prompt_runs_statements_up_to_their_semicolon(run, monkeypatch, tmp_path):
    from prompt_toolkit.application import create_app_session
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with create_pipe_input() as typed, create_app_session(input=typed, output=DummyOutput()):
        typed.send_text("select count(*) n\nfrom orders;\nselect nothing;\n")
        typed.send_bytes(b"\x04")
        found = run("sql", INCIDENT, "--json")
    assert objects(found) == [{"n": 510}]
    assert "nothing" in found.err
    assert "from orders;" in (tmp_path / "brokerless" / "sql_history").read_text()


def test_without_duckdb_the_extra_is_named(run, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    refused = run("sql", INCIDENT, "-c", "select 1")
    assert refused.code == 2
    assert refused.err.endswith("brokerless: brokerless sql needs duckdb: pip install 'brokerless[sql]'\n")
    assert duckdb is not None
