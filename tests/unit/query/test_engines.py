"""What engines ask of a log directory has the rows of a full read, and they read no more than they need."""

import operator
import threading
import warnings
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import brokerless as bl
from brokerless import _native
from brokerless.io.scanning import Scannable
from brokerless.notes import collected
from brokerless.query.duckdb import Tables
from support.damage import flip_bit

EXAMPLES = Path(__file__).parents[3] / "examples"
COLUMNS = ["topic", "partition", "offset", "timestamp", "key", "value"]
COMPARISONS = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, ">=": operator.ge}
searched = settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=40)


@pytest.fixture(scope="module")
def log_dirs(golden):
    return bl.LogDirs(golden / "logs" / "kafka-4.1")


@pytest.fixture(scope="module")
def rows(log_dirs):
    return log_dirs.to_table(columns=COLUMNS)


@st.composite
def conditions(draw, rows):
    """Return a condition as SQL, as an expression of polars, and as one of pyarrow."""
    row = rows.slice(draw(st.integers(0, rows.num_rows - 1)), 1).to_pylist()[0]
    column = draw(st.sampled_from(["topic", "partition", "offset", "timestamp", "key", "value"]))
    value = row[column]
    if value is None:
        return f'"{column}" is null', pl.col(column).is_null(), pc.field(column).is_null()
    sign = draw(st.sampled_from(list(COMPARISONS)))
    if isinstance(value, bytes):
        text = "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::blob"
    elif column == "timestamp":
        text = f"epoch_ms({value.timestamp() * 1000:.0f})::timestamptz"
    else:
        text = repr(value)
    literal = pa.scalar(value, rows.schema.field(column).type)
    compare = COMPARISONS[sign]
    return (
        f'"{column}" {sign} {text}',
        compare(pl.col(column), pl.lit(value)),
        compare(pc.field(column), pc.scalar(literal)),
    )


@searched
@given(data=st.data())
def test_engines_find_the_rows_that_pyarrow_finds(log_dirs, rows, data):
    sql, of_polars, of_arrow = data.draw(conditions(rows))
    for _ in range(data.draw(st.integers(0, 2))):
        more = data.draw(conditions(rows))
        if data.draw(st.booleans()):
            sql, of_polars, of_arrow = f"({sql}) and ({more[0]})", of_polars & more[1], of_arrow & more[2]
        else:
            sql, of_polars, of_arrow = f"({sql}) or ({more[0]})", of_polars | more[1], of_arrow | more[2]
    expected = [
        tuple(row.values()) for row in rows.filter(of_arrow).select(["topic", "partition", "offset"]).to_pylist()
    ]
    dataset = log_dirs.dataset()
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    connection.register("logs", dataset)
    found = connection.execute(f'select topic, partition, "offset" from logs where {sql}').fetchall()
    assert sorted(found) == sorted(expected)
    assert connection.execute(f"select count(*) from logs where {sql}").fetchall() == [(len(expected),)]
    frame = pl.scan_pyarrow_dataset(dataset).filter(of_polars).select("topic", "partition", "offset").collect()
    assert frame.rows() == expected


def test_a_count_parses_no_record(log_dirs, monkeypatch):
    asked = []
    original = _native.SplitReader

    def reader(split, file, columns, **options):
        asked.append((columns, options["by_headers"]))
        return original(split, file, columns, **options)

    monkeypatch.setattr(_native, "SplitReader", reader)
    dataset = log_dirs.dataset(["multi-partition"])
    connection = duckdb.connect()
    connection.register("logs", dataset)
    assert connection.execute("select count(*) from logs").fetchall() == [(600,)]
    assert dataset.count_rows() == 600
    assert set(map(str, asked)) == {str((["partition"], True))}


def test_a_head_ends_the_read(log_dirs):
    frame = bl.scan_polars(log_dirs.roots[0].path, topics=["multi-partition"])
    assert frame.select("offset").head(3).collect().to_series().to_list() == [0, 1, 2]
    assert log_dirs.dataset(["multi-partition"]).head(3, columns=["offset"]).to_pydict() == {"offset": [0, 1, 2]}
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ThreadPool")]


def test_a_dataset_has_the_rows_of_a_read_for_each_of_its_methods(log_dirs):
    dataset = log_dirs["multi-partition"].dataset(columns=["partition", "offset", "key"])
    expected = log_dirs.to_table(["multi-partition"], columns=["partition", "offset", "key"])
    assert isinstance(dataset, ds.Dataset)
    assert dataset.to_table().equals(expected)
    assert dataset.scanner().to_table().equals(expected)
    assert pa.Table.from_batches(dataset.to_batches()).equals(expected)
    assert dataset.scanner(columns=["key"]).to_table().equals(expected.select(["key"]))
    doubled = {"twice": pc.field("offset") * 2}
    assert dataset.to_table(doubled)["twice"].to_pylist() == [2 * offset for offset in expected["offset"].to_pylist()]
    assert dataset.to_table([]).shape == (600, 0)
    assert dataset.head(0).num_rows == 0
    assert dataset.head(700).num_rows == 600
    for call in (dataset.sort_by, dataset.join, lambda: dataset.partition_expression):
        with pytest.raises(NotImplementedError, match="this dataset has no files of its own"):
            call()


def test_a_topic_has_the_rows_of_its_partitions(log_dirs):
    topic = log_dirs["multi-partition"]
    expected = log_dirs.to_table(["multi-partition"], columns=["offset", "key"])
    assert topic.to_table(columns=["offset", "key"]).equals(expected)
    assert topic.to_polars(columns=["offset", "key"]).rows() == list(zip(*expected.to_pydict().values(), strict=True))
    assert topic.to_pandas(columns=["offset"])["offset"].to_list() == expected["offset"].to_pylist()
    assert pa.table(topic).num_rows == 600
    assert repr(topic) == "<Topic multi-partition: 4 partitions>"
    log = topic.logs[0]
    offsets = log.to_table(columns=["offset"])["offset"].to_pylist()
    assert log.to_pandas(columns=["offset"])["offset"].to_list() == offsets
    assert log.to_polars(columns=["offset"], filter=pc.field("offset") < 3).rows() == [(0,), (1,), (2,)]
    assert log.dataset(columns=["offset"]).count_rows() == log.to_table(columns=["offset"]).num_rows
    with pytest.raises(ValueError, match="unknown topic 'absent'"):
        log_dirs["absent"]
    with pytest.raises(TypeError, match="3 is not the name of a topic"):
        log_dirs[3]


def test_what_is_no_frame_says_how_to_make_one(log_dirs):
    import pandas as pd

    for one, cure in [
        (log_dirs, r"log_dirs.to_pandas\(topics\)"),
        (log_dirs.logs()[0], r"log.to_pandas\(\)"),
        (log_dirs.read(), r"reader.read_all\(\).to_pandas\(\)"),
    ]:
        with pytest.raises(TypeError, match=cure):
            pd.DataFrame(one)


def test_a_reader_that_was_read_says_so(log_dirs):
    reader = log_dirs.read(["multi-partition"], columns=["offset"])
    assert reader.read_all().num_rows == 600
    for again in (reader.read_all, lambda: list(reader), lambda: pa.table(reader)):
        with pytest.raises(ValueError, match="this reader has returned its rows"):
            again()


def test_log_directories_are_a_stream_for_duckdb(log_dirs):
    connection = duckdb.connect()
    expected = log_dirs.to_table(columns=["offset"]).num_rows
    assert connection.sql("select count(*) from log_dirs").fetchall() == [(expected,)]
    assert connection.sql("select count(*) from log_dirs").fetchall() == [(expected,)]


def test_the_error_of_damage_reaches_the_engine(golden, tmp_path):
    import shutil

    log = tmp_path / "codec-none-0"
    shutil.copytree(golden / "logs" / "kafka-4.1" / "codec-none-0", log)
    file = max(log.glob("*.log"), key=lambda file: file.stat().st_size)
    flip_bit(file, file.stat().st_size // 2)
    dataset = bl.Log(log).dataset()
    connection = duckdb.connect()
    connection.register("logs", dataset)
    with pytest.raises(duckdb.Error, match="crc"):
        connection.execute("select sum(octet_length(value)) from logs").fetchall()
    assert isinstance(dataset.failed, bl.errors.CorruptRecordError)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        skipping = bl.Log(log).dataset(on_corrupt="skip")
        assert skipping.count_rows() > 0
    assert caught == []


def test_views_of_duckdb_are_topics_and_state():
    connection = duckdb.connect()
    names = bl.register_duckdb(connection, EXAMPLES / "incident")
    assert {"orders", "payments", "__consumer_offsets", "groups", "findings"} <= set(names)
    count = connection.sql('select count(*), count(distinct "offset") from orders').fetchall()
    assert count == [(510, 200)]
    lags = dict(
        connection.sql("select topic, sum(lag) from commits where \"group\" = 'billing' group by all").fetchall()
    )
    assert lags == {"orders": 110}
    of_state = connection.sql("select topic, partitions from topics order by 1").fetchall()
    listed = connection.sql("select topic, count(*) from partitions group by all order by 1").fetchall()
    assert of_state == listed
    for name in names:
        if name != "schemas":
            connection.sql(f'select * from "{name}" limit 1').to_arrow_table()
    with pytest.raises(duckdb.Error, match="no topic _schemas"):
        connection.sql("select * from schemas").to_arrow_table()


def test_views_are_in_a_schema_and_decoded_where_schemas_are_there():
    connection = duckdb.connect()
    bl.register_duckdb(connection, EXAMPLES / "registry", schema="prod")
    found = connection.sql(
        "select key, value.currency from prod.orders where value.buyer is not null limit 1"
    ).fetchall()
    expected = bl.LogDirs(EXAMPLES / "registry").to_table(["orders"], decode="value=registry,key=registry", limit=1)
    assert found == [(expected["key"][0].as_py(), expected["value"][0].as_py()["currency"])]
    bl.register_duckdb(connection, EXAMPLES / "registry", decode=None)
    assert connection.sql("select typeof(value) from orders limit 1").fetchall() == [("BLOB",)]


def test_a_topic_with_the_name_of_another_table_has_a_name_of_its_own(tmp_path):
    for topic in ("groups", "Orders", "orders"):
        with bl.Producer(tmp_path / "data", topic) as producer:
            producer.send([{"value": topic}])
    with collected() as notes:
        tables = Tables(tmp_path / "data")
    assert [note.rpartition(" ")[2] for note in notes] == ["orders_2", "groups_2"]
    assert {"groups", "groups_2", "Orders", "orders_2"} <= set(tables.names)
    assert tables.find("ORDERS") == "Orders"
    values = {
        name: tables.table(name).to_table(["value"])["value"].to_pylist() for name in ("Orders", "orders_2", "groups")
    }
    assert values == {"Orders": ["Orders"], "orders_2": ["orders"], "groups": ["groups"]}


def test_a_scannable_may_be_read_by_two_threads(log_dirs):
    dataset = log_dirs.dataset(["multi-partition"], columns=["offset"])
    first, second = dataset.to_batches(), dataset.to_batches()
    assert next(first).num_rows
    assert sum(batch.num_rows for batch in second) == 600
    assert isinstance(dataset, Scannable)


def test_the_fragments_of_a_dataset_are_its_partitions(log_dirs):
    """DataFusion scans them at the same time."""
    dataset = log_dirs.dataset(["multi-partition"], columns=["partition", "offset"])
    fragments = list(dataset.get_fragments())
    tables = [fragment.scanner(dataset.schema, columns=["offset", "partition"]).to_table() for fragment in fragments]
    assert [table["partition"].unique().to_pylist() for table in tables] == [[0], [1], [2], [3]]
    assert pa.concat_tables(tables).num_rows == 600
    (only,) = dataset.get_fragments(filter=pc.field("partition") == 2)
    assert only.scanner(filter=pc.field("offset") < 9).to_table().num_rows == 9
    decoded = log_dirs.dataset(["multi-partition"], decode="key=utf8")
    assert len(list(decoded.get_fragments())) == 1
    limited = log_dirs.dataset(["multi-partition"], limit=5)
    assert sum(fragment.scanner().to_table().num_rows for fragment in limited.get_fragments()) == 5
