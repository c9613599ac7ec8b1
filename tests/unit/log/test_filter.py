"""Rows that a filter in a read keeps are those that pyarrow keeps of all rows; and what is pruned is not read."""

import datetime as dt
import operator
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import brokerless as bl
from brokerless.log import filter as filters
from brokerless.log.filter import Filter
from brokerless.log.log_reader import schema_of
from brokerless.notes import collected
from support.damage import flip_bit

LOGS = [
    "kafka-4.1/codec-none-0",
    "kafka-4.1/rolled-by-time-0",
    "kafka-4.1/txn-interleaved-0",
    "kafka-4.1/compact-plain-0",
    "kafka-2.8-v1/codec-mixed-0",
    "kafka-2.8-v0/codec-gzip-0",
]
DIRECTORIES = ["kafka-4.1", "kafka-2.8-mixed", "kafka-2.8-v1", "kafka-2.8-v0"]
COLUMNS = ["topic", "partition", "offset", "timestamp", "key", "value", "timestampType", "headers"]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
REGISTRY = Path(__file__).parents[3] / "examples/registry"
searched = settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=60)


@pytest.fixture(scope="module")
def tables(golden):
    return {name: bl.LogDirs(golden / "logs" / name).to_table(columns=COLUMNS) for name in DIRECTORIES}


@st.composite
def terms(draw, table):
    """Return a comparison of a column with a value of a row, or near it."""
    row = table.slice(draw(st.integers(0, table.num_rows - 1)), 1).to_pylist()[0]
    column = draw(st.sampled_from(["topic", "partition", "offset", "timestamp", "key", "value"]))
    of, value = pc.field(column), row[column]
    if value is None or draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from([of.is_null(), of.is_valid()]))
    if column in ("partition", "offset"):
        value += draw(st.integers(-2, 2))
    if column == "timestamp":
        value += dt.timedelta(milliseconds=draw(st.integers(-2, 2)))
    literal = pa.scalar(value, table.schema.field(column).type)
    kind = draw(st.sampled_from(["compare", "compare", "mirrored", "in", "text"]))
    if kind == "in":
        others = [table[column][draw(st.integers(0, table.num_rows - 1))] for _ in range(draw(st.integers(0, 3)))]
        return of.isin(pa.array([literal.as_py(), *(other.as_py() for other in others)], literal.type))
    if kind == "text" and isinstance(value, bytes):
        start = draw(st.integers(0, max(0, len(value) - 1)))
        part = value[start : start + draw(st.integers(1, 12))]
        test = draw(st.sampled_from([pc.match_substring, pc.starts_with, pc.ends_with]))
        return test(of, part, ignore_case=draw(st.integers(0, 5)) == 0)
    compare = draw(st.sampled_from(COMPARISONS))
    return compare(pc.scalar(literal), of) if kind == "mirrored" else compare(of, pc.scalar(literal))


@st.composite
def expressions(draw, table):
    found = draw(terms(table))
    for _ in range(draw(st.integers(0, 3))):
        other = draw(terms(table))
        found = draw(st.sampled_from([found & other, found & other, found | other, other & ~found]))
    return found


@searched
@given(directory=st.sampled_from(DIRECTORIES), data=st.data())
def test_a_filter_keeps_the_rows_that_pyarrow_keeps(golden, tables, directory, data):
    table = tables[directory]
    expression = data.draw(expressions(table))
    columns = data.draw(st.lists(st.sampled_from(COLUMNS), min_size=1, unique=True))
    log_dirs = bl.LogDirs(golden / "logs" / directory)
    expected = table.filter(expression).select(columns)
    assert log_dirs.read(filter=expression, columns=columns).read_all().equals(expected)
    assert log_dirs.dataset().to_table(columns, filter=expression).equals(expected)
    assert log_dirs.dataset().count_rows(filter=expression) == expected.num_rows
    limit = data.draw(st.integers(0, 5))
    assert log_dirs.to_table(filter=expression, columns=columns, limit=limit).equals(expected.slice(0, limit))


@searched
@given(place=st.sampled_from(LOGS), data=st.data())
def test_a_filter_in_a_damaged_log_hides_no_row_and_no_loss_that_may_meet_it(golden, tmp_path_factory, place, data):
    original = golden / "logs" / place
    root = tmp_path_factory.mktemp("damaged")
    path = root / original.name
    shutil.copytree(original, path)
    try:
        file = data.draw(st.sampled_from([file for file in sorted(path.glob("*.log")) if file.stat().st_size]))
        flip_bit(file, data.draw(st.integers(0, file.stat().st_size - 1)), data.draw(st.integers(0, 7)))
        with collected():
            rows = bl.Log(original).to_table(columns=COLUMNS)
            kept = bl.Log(path).to_table(columns=COLUMNS, on_corrupt="skip")
        expression = data.draw(expressions(rows))
        with collected():
            skipping = bl.Log(path).to_table(columns=COLUMNS, filter=expression, on_corrupt="skip")
            assert skipping.equals(kept.filter(expression))
            try:
                found = bl.Log(path).to_table(columns=COLUMNS, filter=expression)
            except bl.BrokerlessError:
                return
        assert found.equals(rows.filter(expression))
    finally:
        shutil.rmtree(root)


def of(expression):
    return Filter(expression, schema_of(None, []))


def test_a_filter_shows_the_parts_that_save_reading():
    key, value, offset, time = (pc.field(name) for name in ("key", "value", "offset", "timestamp"))
    at = pa.scalar(1_700_000_000_500_500, pa.timestamp("us", "UTC"))
    found = of((key == b"a") & (offset >= 10) & (offset < 20) & (time > at) & pc.match_substring(value, "x"))
    assert found.columns == ["key", "offset", "timestamp", "value"]
    assert found.offsets == (10, 20)
    assert found.start_timestamp == 1_700_000_000_501
    sought = found.search(["key", "value"]).criteria
    assert [(one.part, one.test, one.texts, one.is_whole) for one in sought] == [
        ("key", "texts", (b"a",), True),
        ("value", "texts", (b"x",), False),
    ]
    assert [one.part for one in found.search(["value"]).criteria] == ["value"]
    some = of((key == b"a") | key.isin(pa.array([b"b", b"c"])))
    assert some.search(["key"]).criteria[0].texts == (b"a", b"b", b"c")
    assert of(offset.isin([7, 9])).offsets == (7, 10)
    assert of(pc.scalar(5) < offset).offsets == (6, 2**63 - 1)


@pytest.mark.parametrize(
    "expression",
    [
        (pc.field("key") == b"a") | (pc.field("value") == b"a"),
        (pc.field("key") == b"a") | (pc.field("offset") == 1),
        ~(pc.field("key") == b"a"),
        pc.field("key").isin(pa.array([b"a", None])),
        pc.match_substring(pc.field("key"), "a", ignore_case=True),
        pc.field("key") != b"a",
    ],
    ids=str,
)
def test_what_says_nothing_about_all_rows_prunes_nothing(expression):
    assert of(expression).search(["key", "value"]) is None
    assert of(expression).offsets == (0, 2**63 - 1)


def test_a_filter_reads_only_what_it_needs(golden, monkeypatch):
    """The bytes that the core is asked for prove it."""
    log_dirs = bl.LogDirs(golden / "logs" / "kafka-4.1")
    opened = []
    original = bl.Log.plan

    def counted(log, *args, **options):
        splits = original(log, *args, **options)
        opened.append((log.name, sum(split.end_position - split.position for split in splits)))
        return splits

    monkeypatch.setattr(bl.Log, "plan", counted)
    one = (pc.field("topic") == "multi-partition") & (pc.field("partition") == 2)
    rows = log_dirs.to_table(filter=one, columns=["offset"]).num_rows
    assert [name for name, _ in opened] == ["multi-partition-2"]
    opened.clear()
    narrow = one & (pc.field("offset") == rows - 1)
    assert log_dirs.to_table(filter=narrow, columns=["offset"]).num_rows == 1
    assert [name for name, _ in opened] == ["multi-partition-2"] * 2
    opened.clear()
    assert log_dirs.to_table(filter=pc.field("topic") == "absent", columns=["offset"]).num_rows == 0
    assert opened == []


def test_a_filter_whose_form_is_unknown_is_applied_to_all_rows(golden, monkeypatch):
    def refuse(_schema):
        raise ValueError("another form")

    monkeypatch.setattr(filters, "_entries", refuse)
    log = bl.Log(golden / "logs" / "kafka-4.1" / "headers-0")
    expected = log.to_table(columns=["offset", "key"])
    expected = expected.filter(pc.field("key") == b"k1").select(["offset"])
    assert log.to_table(columns=["offset"], filter=pc.field("key") == b"k1").equals(expected)


def test_decoded_fields_are_filtered():
    log_dirs = bl.LogDirs(REGISTRY)
    decode = {"value": "registry"}
    rows = log_dirs.to_table(["orders"], decode=decode, columns=["offset", "value"])
    field = rows.schema.field("value").type.field(0).name
    found = rows["value"].combine_chunks().field(field)
    expression = pc.field("value", field) == found[3]
    expected = rows.filter(expression).select(["offset"])
    assert log_dirs.to_table(["orders"], decode=decode, columns=["offset"], filter=expression).equals(expected)
    topic = bl.LogDirs(REGISTRY.with_name("data"))["headers"]
    text = topic.to_table(decode={"key": "utf8"}, columns=["offset", "key"])
    expression = pc.field("key") == "k1"
    expected = text.filter(expression)
    assert expected.num_rows == 2
    assert topic.to_table(decode={"key": "utf8"}, columns=["offset", "key"], filter=expression).equals(expected)


def test_a_key_that_is_no_text_is_null_as_text(tmp_path):
    with bl.Producer(tmp_path / "data", "t") as producer:
        producer.send([{"key": key, "value": "v"} for key in (b"a", None, b"\xff")])
    log = bl.Log(tmp_path / "data" / "t-0")
    for decode, expected in ((None, [1]), ({"key": "utf8"}, [1, 2])):
        with collected():
            rows = log.to_table(columns=["offset"], decode=decode, filter=pc.field("key").is_null())
        assert rows["offset"].to_pylist() == expected
    assert repr(producer) == f"<Producer of t in {tmp_path / 'data'}>"


def test_what_is_no_filter_is_refused(golden):
    log = bl.Log(golden / "logs" / "kafka-4.1" / "headers-0")
    with pytest.raises(TypeError, match="filter: 'offset > 1' is not an expression such as"):
        log.read(filter="offset > 1")
    with pytest.raises(ValueError, match="ofset"):
        log.read(filter=pc.field("ofset") > 1)
