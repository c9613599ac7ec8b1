"""Filters of a query read less with the jar, and leave the rows that they should."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from needing_jar import jar_or_skip, plan

import brokerless as bl
from support.damage import flip_bit, overwrite

jar_or_skip()

FILTERS = (
    "offset = 300",
    "offset >= 200 and offset < 220",
    "offset > 604",
    "offset <= 0",
    "offset in (5, 599)",
    "offset > 9223372036854775806",
    "topic = 'codec-mixed' and partition = 0 and offset >= 590",
    "topic = 'codec-zstd' and offset < 3",
    "topic in ('codec-mixed', 'codec-none') and partition in (0, 1)",
    "partition = 7",
    "partition = 0 or offset < 10",
    "timestamp > timestamp_millis({middle})",
    "timestamp = timestamp_millis({middle})",
    "timestamp >= timestamp_millis({middle}) and offset < 400",
    "timestamp < timestamp_millis({middle})",
)


def kept(frame, condition):
    """The rows that Spark's own evaluation of a condition leaves: these rows are in memory, and no source narrows."""
    return frame.localCheckpoint().where(condition)


def rows(frame):
    return sorted(map(repr, frame.collect()))


@pytest.mark.parametrize("tasks", [{"minPartitions": "1"}, {"minPartitions": "40"}, {"maxRecordsPerPartition": "7"}])
@pytest.mark.parametrize("condition", FILTERS)
def test_filters_leave_the_rows_that_they_should(topics, load, condition, tasks):
    middle = bl.Log(topics / "codec-mixed-0").to_table(columns=["timestamp"])["timestamp"][300].as_py()
    condition = condition.format(middle=round(middle.timestamp() * 1000))
    frame = load(topics, **tasks)
    assert rows(frame.where(condition)) == rows(kept(frame, condition))


def test_filters_do_not_trust_an_index(topics, load):
    """Each entry of it is wrong: by its offset, or by its position."""
    for path in (topics / "codec-mixed-0").glob("*.index"):
        for at in range(0, path.stat().st_size - 8, 8):
            overwrite(path, at, (at // 8 * 7 + 1).to_bytes(4, "big"))
    frame = load(topics, subscribe="codec-mixed", minPartitions="20")
    for condition in ("offset = 300", "offset >= 200 and offset < 220", "offset > 500"):
        assert rows(frame.where(condition)) == rows(kept(frame, condition))


def test_filters_do_not_trust_an_index_that_the_start_came_from(tmp_path, load):
    """Nor that pieces which are cut by offset, and have the same entry, follow each other in the file.

    Its entries have the right offsets and wrong positions: what is read without one is read from the beginning.
    """
    with bl.Producer(tmp_path / "d", "t", batch_size=200) as producer:
        producer.send([{"value": b"%d" % i} for i in range(20_000)])
    index = min((tmp_path / "d" / "t-0").glob("*.index"))
    content = index.read_bytes().rstrip(b"\0")
    entries = [(content[at : at + 4], content[at + 4 : at + 8]) for at in range(0, len(content) // 8 * 8, 8)]
    third = len(entries) // 3
    shifted = [offset + entries[min(i + third, len(entries) - 1)][1] for i, (offset, _) in enumerate(entries)]
    index.write_bytes(b"".join(shifted))
    frame = load(tmp_path / "d", subscribe="t", startingOffsets='{"t":{"0":10000}}')
    assert frame.count() == 10_000
    for condition in ("offset >= 12000 and offset < 12010", "offset >= 12000"):
        assert rows(frame.where(condition)) == rows(kept(frame, condition)), condition
    assert frame.where("offset >= 12000").count() == 8_000


def test_filters_leave_the_rows_of_pieces_that_are_cut_by_offset(tmp_path, load):
    """The pieces of one split have the same place in the file."""
    with bl.Producer(tmp_path / "d", "t", batch_size=200) as producer:
        producer.send([{"value": b"%d" % i} for i in range(20_000)])
    frame = load(tmp_path / "d", startingOffsets='{"t":{"0":10000}}', maxRecordsPerPartition="100")
    assert {row.offset for row in frame.where("offset >= 10050 and offset < 10350").collect()} == {*range(10050, 10350)}
    assert frame.where("offset = 10050").count() == 1


def test_filters_read_only_the_tasks_that_they_need(topics, load):
    frame = load(topics, minPartitions="3")
    assert frame.where("topic = 'codec-zstd'").rdd.getNumPartitions() < frame.rdd.getNumPartitions()
    assert "PushedFilters: [offset >= 5" in plan(frame.where("offset >= 5"))


@st.composite
def terms(draw, rows):
    """Return a condition in SQL, of a value of a row or a part of it."""
    row = draw(st.sampled_from(rows))
    column = draw(st.sampled_from(["offset", "partition", "topic", *["key", "value"] * 3]))
    value = row[column]
    if value is None or draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from([f"{column} is null", f"{column} is not null"]))
    if not isinstance(value, bytes):
        return f"{column} {draw(st.sampled_from(['=', '<>', '<', '>=']))} {value!r}"
    kind = draw(st.sampled_from(["=", "<>", "in", "contains", "startswith", "endswith", "like"]))
    if kind == "in":
        others = [draw(st.sampled_from(rows))[column] or b"" for _ in range(draw(st.integers(0, 3)))]
        return f"{column} in ({', '.join(hexadecimal(text) for text in [value, *others])})"
    as_text = f"cast({column} as string)"
    if kind in ("=", "<>"):
        return draw(
            st.sampled_from(
                [
                    f"{column} {kind} {hexadecimal(value)}",
                    f"{as_text} {kind} cast({hexadecimal(value)} as string)",
                ]
            )
        )
    start = draw(st.integers(0, max(0, len(value) - 1)))
    part = value[start : start + draw(st.integers(1, 12))]
    if kind == "like":
        text = "".join(character for character in part.decode("latin-1") if character.isalnum() and character.isascii())
        return f"{as_text} like '{draw(st.sampled_from(['%{}%', '{}%', '%{}', '{}'])).format(text)}'"
    tested, text = draw(
        st.sampled_from(
            [(column, hexadecimal(part)), (as_text, f"cast({hexadecimal(part)} as string)")],
        )
    )
    return f"{kind}({tested}, {text})"


def hexadecimal(text):
    return f"X'{text.hex()}'"


@st.composite
def conditions(draw, rows):
    found = draw(terms(rows))
    for _ in range(draw(st.integers(0, 3))):
        other = draw(terms(rows))
        form = draw(st.sampled_from(["({0}) and ({1})", "({0}) and ({1})", "({0}) or ({1})", "({1}) and not ({0})"]))
        found = form.format(found, other)
    return found


def stored_rows(in_memory):
    """The rows of a frame, with their keys and values as bytes."""
    of_row = [row.asDict() for row in in_memory.collect()]
    parts = ("key", "value")
    return [{**row, **{part: None if row[part] is None else bytes(row[part]) for part in parts}} for row in of_row]


def check_random_filters(frame, count):
    """Compare filters of a read with the same ones of its rows in memory."""
    narrow = frame.select("topic", "partition", "offset", "key", "value")
    in_memory = narrow.localCheckpoint()
    rows_in_memory = stored_rows(in_memory)

    @settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=count)
    @given(data=st.data())
    def searched(data):
        condition = data.draw(conditions(rows_in_memory))
        assert places(narrow.where(condition)) == places(in_memory.where(condition))

    searched()


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("directory", ["kafka-4.1", "kafka-2.8-mixed", "kafka-2.8-v1", "kafka-2.8-v0"])
def test_random_filters_leave_the_rows_that_they_should(golden, load, directory, level):
    """On keys, values and places, of all formats and codecs, and transactions."""
    check_random_filters(load(golden / "logs" / directory, minPartitions="4", kafka__isolation__level=level), 20)


def test_random_filters_of_bytes_that_are_no_text(tmp_path, load):
    texts = [b"\xff", b"\xfe\xff", b"\xef\xbf\xbd", b"a\xffb", b"a", b"", b"\x00", "ä".encode(), None]
    with bl.Producer(tmp_path / "d", "t", partitions=2, batch_size=200) as producer:
        producer.send([{"key": texts[i % 9], "value": texts[i // 9 % 9]} for i in range(500)])
    check_random_filters(load(tmp_path / "d"), 60)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(4))
def test_random_filters_of_a_damaged_log_hide_no_row_that_a_read_returns(topics, load, seed):
    for number, log in enumerate(sorted(topics.glob("*/*.log"))):
        if log.stat().st_size:
            flip_bit(log, (7919 * (seed + 1) * (number + 1)) % log.stat().st_size, seed)
    check_random_filters(load(topics, onCorrupt="skip", minPartitions="3"), 15)


def places(frame):
    return sorted(map(tuple, frame.select("topic", "partition", "offset").collect()))


PUSHED = {
    "key = X'6b31'": "key = ",
    "cast(key as string) = 'k1'": "CAST(key AS string) = 'k1'",
    "key in (X'6b31', X'6b32')": "key IN (",
    "key = X'6b31' or key = X'6b32'": " OR ",
    "value is null": "value IS NULL",
    "value like '%ab%'": "LIKE '%ab%'",
    "startswith(cast(key as string), 'k1')": "LIKE 'k1%'",
    "endswith(cast(key as string), '1') and partition = 0": "LIKE '%1'",
}
NOT_PUSHED = (
    "key <> X'6b31'",
    "key = X'6b31' or value = X'6b31'",
    "key = X'6b31' or offset = 3",
    "not (key = X'6b31')",
    "upper(cast(key as string)) = 'K1'",
    "cast(key as string) collate UTF8_LCASE = 'k1'",
    "key = value",
    "key is not null",
    "exists(headers, header -> header.key = 'k1')",
)


def test_a_plan_shows_which_filters_the_decoder_applies(topics, load):
    frame = load(topics, subscribe="codec-mixed", includeHeaders="true")
    for condition, shown in PUSHED.items():
        pushed = plan(frame.where(condition)).partition("PushedFilters: [")[2].partition("]")[0]
        assert shown in pushed, condition
    for condition in NOT_PUSHED:
        assert "PushedFilters: []" in plan(frame.where(condition)), condition


def decoded(frame):
    """The number of records that the decoder made rows of."""
    frame.collect()
    leaf = frame._jdf.queryExecution().executedPlan().collectLeaves().head()
    return leaf.metrics().apply("records").value()


def test_records_that_a_filter_excludes_are_not_decoded(topics, load):
    frame = load(topics, subscribe="codec-mixed")
    row = frame.where("offset = 300").first()
    key = hexadecimal(bytes(row.key))
    assert frame.where(f"key = {key}").count() == decoded(frame.where(f"key = {key}")) > 0
    text = f"cast({hexadecimal(bytes(row.value))} as string)"
    assert decoded(frame.where(f"contains(cast(value as string), {text})")) < 20
    assert decoded(frame.where("key is null")) == frame.where("key is null").count()
    assert decoded(frame) == 605


def test_filters_of_decoded_text_are_those_of_its_bytes(topics, load):
    """Of other forms they are not: the bytes of a value are not its text."""
    frame = load(topics, subscribe="codec-mixed", decode="key=utf8,value=hex")
    assert plan(frame.where("key = 'k1'")).count("PushedFilters: [key = 'k1']") == 1
    for condition in ("key is null", "value = '61'", "valueBytes is null"):
        assert "PushedFilters: []" in plan(frame.where(condition))
    in_memory = frame.localCheckpoint()
    keys = [row.key for row in in_memory.collect()]
    for key in sorted({key for key in keys if key})[:5]:
        assert frame.where(f"key = '{key}'").count() == keys.count(key)
    assert frame.where("key is null").count() == keys.count(None)
