"""A search finds what a read and a filter in Python find, in logs of real brokers, whole and damaged."""

import functools
import re
import shutil
import threading

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import brokerless as bl
from brokerless.log.search import Search
from brokerless.notes import collected
from support import damage

COLUMNS = ["topic", "partition", "offset", "key", "value", "headers"]
PARTITIONS = [
    ("kafka-4.1", "headers-0"),
    ("kafka-4.1", "nulls-0"),
    ("kafka-4.1", "codec-mixed-0"),
    ("kafka-4.1", "codec-none-0"),
    ("kafka-4.1", "idempotent-0"),
    ("kafka-4.1", "txn-interleaved-0"),
    ("kafka-4.1", "txn-commit-abort-0"),
    ("kafka-4.1", "compact-txn-0"),
    ("kafka-4.1", "log-append-time-0"),
    ("kafka-4.1", "trimmed-delete-records-0"),
    ("kafka-2.8-mixed", "txn-0"),
    ("kafka-2.8-mixed", "codec-zstd-0"),
    ("kafka-2.8-v1", "codec-mixed-0"),
    ("kafka-2.8-v1", "compact-0"),
    ("kafka-2.8-v0", "codec-gzip-0"),
]
DAMAGE = ("flip_bit", "overwrite", "cut", "append")
searched = settings(suppress_health_check=list(HealthCheck), deadline=None)


@functools.cache
def rows_of(path):
    return bl.Log(path).to_table(columns=COLUMNS).to_pylist()


def fields(row):
    """Return the key, the value, and the names and values of the headers."""
    headers = [part for header in row["headers"] or () for part in (header["key"].encode(), header["value"])]
    return [row["key"], row["value"], *headers]


@st.composite
def texts(draw, rows):
    """Return a text: a part of a field, a whole one, the end of one and the start of the next, or any bytes."""
    row = draw(st.sampled_from(rows))
    field = draw(st.sampled_from([field for field in fields(row) if field is not None] or [b""]))
    kind = draw(st.sampled_from(["part", "whole", "any", "beyond"]))
    if kind == "whole":
        return field
    if kind == "any":
        return draw(st.binary(max_size=6))
    if kind == "beyond":
        return field[-2:] + b"\0"
    start = draw(st.integers(0, max(0, len(field) - 1)))
    return field[start : start + draw(st.integers(1, 40))]


@st.composite
def searches(draw, rows):
    """Return the arguments of `find`."""
    found = {}
    one_or_some = st.one_of(texts(rows), st.lists(texts(rows), min_size=1, max_size=4))
    many = st.lists(texts(rows).filter(lambda text: len(text) >= 4), min_size=65, max_size=90)
    for part in ("any", "key", "value"):
        if draw(st.integers(0, 2)) == 0:
            found[part] = draw(many if draw(st.integers(0, 5)) == 0 else one_or_some)
    names = sorted({header["key"] for row in rows for header in row["headers"] or ()}) or ["h"]
    if draw(st.integers(0, 3)) == 0:
        found["headers"] = {draw(st.sampled_from(names)): draw(st.one_of(st.none(), one_or_some))}
    if not found or draw(st.integers(0, 5)) == 0:
        found["null_value"] = True
    for flag in ("exact", "ignore_case", "invert"):
        found[flag] = draw(st.integers(0, 3)) == 0
    return found


def is_met(row, sought):
    """Return whether a row is found, by Python alone."""
    case = (lambda text: text.lower()) if sought["ignore_case"] else (lambda text: text)

    def has(field, given):
        given = [given] if isinstance(given, bytes) else given
        field = None if field is None else case(field)
        if field is None:
            return False
        return any(field == case(text) if sought["exact"] else case(text) in field for text in given)

    def any_header(name, given):
        headers = [header for header in row["headers"] or () if header["key"] == name]
        return bool(headers) if given is None else any(has(header["value"], given) for header in headers)

    met = [
        *(any(has(field, sought["any"]) for field in fields(row)) for _ in range("any" in sought)),
        *(has(row[part], sought[part]) for part in ("key", "value") if part in sought),
        *(any_header(name, given) for name, given in sought.get("headers", {}).items()),
        *(row["value"] is None for _ in range("null_value" in sought)),
    ]
    return all(met) != sought["invert"]


def outcome(read):
    """Return the rows of a read, its losses and notes, and its error."""
    rows, lost, notes, error = [], [], [], None
    with collected():
        try:
            reader = read()
            lost, notes = reader.lost, reader.notes
            for batch in reader:
                rows += batch.to_pylist()
        except bl.BrokerlessError as raised:
            error = str(raised)
    return rows, lost, notes, error


@searched
@given(place=st.sampled_from(PARTITIONS), data=st.data())
def test_a_search_finds_what_a_read_and_a_filter_find(golden, place, data):
    path = golden / "logs" / "/".join(place)
    sought = data.draw(searches(rows_of(path)))
    level = data.draw(st.sampled_from(["read_uncommitted", "read_committed"]))
    read = bl.Log(path).to_table(columns=COLUMNS, isolation_level=level).to_pylist()
    expected = [row for row in read if is_met(row, sought)]
    matches = bl.Log(path).find(**sought, columns=COLUMNS, isolation_level=level)
    assert matches.read_all().to_pylist() == expected
    assert matches.searched == len(read)


@searched
@given(place=st.sampled_from(PARTITIONS), data=st.data())
def test_a_search_in_a_damaged_log_finds_what_a_read_and_a_filter_find(golden, tmp_path_factory, place, data):
    original = golden / "logs" / "/".join(place)
    sought = data.draw(searches(rows_of(original)))
    root = tmp_path_factory.mktemp("damaged")
    path = root / place[1]
    shutil.copytree(original, path)
    try:
        file = data.draw(st.sampled_from(sorted(path.glob("*.log"))))
        size = file.stat().st_size
        at = data.draw(st.integers(0, max(0, size - 1)))
        kind = data.draw(st.sampled_from(DAMAGE)) if size else "append"
        if kind == "flip_bit":
            damage.flip_bit(file, at, data.draw(st.integers(0, 7)))
        elif kind == "cut":
            damage.cut(file, at)
        else:
            noise = data.draw(st.binary(min_size=1, max_size=200))
            damage.append(file, noise) if kind == "append" else damage.overwrite(file, at, noise)
        policy = data.draw(st.sampled_from(["raise", "skip"]))
        read = outcome(lambda: bl.Log(path).read(columns=COLUMNS, on_corrupt=policy))
        found = outcome(lambda: bl.Log(path).find(**sought, columns=COLUMNS, on_corrupt=policy))
        assert found == ([row for row in read[0] if is_met(row, sought)], *read[1:])
    finally:
        shutil.rmtree(root)


@settings(searched, max_examples=30)
@given(place=st.sampled_from(PARTITIONS), data=st.data())
def test_the_records_around_matches_are_those_beside_them(golden, place, data):
    path = golden / "logs" / "/".join(place)
    rows = rows_of(path)
    sought = data.draw(searches(rows))
    count = data.draw(st.integers(1, 4))
    met = [is_met(row, sought) for row in rows]
    expected = [row["offset"] for i, row in enumerate(rows) if any(met[max(0, i - count) : i + count + 1])]
    shown = bl.Log(path).find(**sought, columns=["offset"], around=count).read_all().to_pylist()
    assert [row["offset"] for row in shown] == expected
    found = [row["offset"] for row, is_found in zip(rows, met, strict=True) if is_found]
    assert [row["offset"] for row in shown if row["match"]] == found


PATTERNS = ["key-1[0-9]$", "^k", "e.o", "(retention|leader) [0-9]+", r"\bkafka\b", "(?i)GRÜSSE|grüße", "", "x{2,}"]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("place", PARTITIONS[:4], ids="/".join)
def test_patterns_match_within_one_field(golden, place, pattern, exact):
    path = golden / "logs" / "/".join(place)
    match = functools.partial(re.fullmatch if exact else re.search, pattern)
    expected = [
        row["offset"]
        for row in rows_of(path)
        if any(field is not None and match(field.decode(errors="replace")) for field in (row["key"], row["value"]))
    ]
    found = set()
    for part in ("key", "value"):
        matches = bl.Log(path).find(**{part: pattern}, regex=True, exact=exact, columns=["offset"])
        found.update(matches.read_all()["offset"].to_pylist())
    assert sorted(found) == expected


def test_a_search_of_directories_keeps_their_order_and_takes_the_partition_of_a_key_first(golden):
    log_dirs = bl.LogDirs(golden / "logs" / "kafka-4.1")
    matches = log_dirs.find(["multi-partition"], key="key-1", columns=["partition", "offset"])
    rows = [(row["partition"], row["offset"]) for row in matches.read_all().to_pylist()]
    assert rows == sorted(rows)
    assert matches.notes == []
    (key,) = log_dirs.read(["multi-partition"], [2], columns=["key"], limit=1).read_all()["key"].to_pylist()
    matches = log_dirs.find(["multi-partition"], key=key, exact=True, columns=["partition"])
    first = next(matches)["partition"][0].as_py()
    assert first == 2
    assert matches.notes == [
        "multi-partition: of 4 partitions, the default partitioner sends the key to multi-partition-2, searched first"
    ]


def test_a_limit_ends_the_search_and_its_threads(golden):
    before = threading.active_count()
    matches = bl.LogDirs(golden / "logs" / "kafka-4.1").find(any="e", limit=3, columns=["offset"])
    assert matches.read_all().num_rows == 3
    assert threading.active_count() == before
    with bl.LogDirs(golden / "logs" / "kafka-4.1").find(any="e", columns=["offset"]) as matches:
        assert next(matches).num_rows
    assert threading.active_count() == before


def test_only_the_batches_of_a_producer_are_searched(golden):
    log = bl.Log(golden / "logs" / "kafka-4.1" / "txn-interleaved-0")
    rows = log.to_table(columns=["offset", "producerId"]).to_pylist()
    producer = rows[-1]["producerId"]
    found = log.find(producer_ids=[producer], columns=["offset"]).read_all()["offset"].to_pylist()
    assert found == [row["offset"] for row in rows if row["producerId"] == producer] != []


def test_matches_are_decoded(golden):
    log_dirs = bl.LogDirs(golden / "logs" / "kafka-4.1")
    rows = log_dirs.find(["headers"], key="k1", decode="key=utf8", columns=["key", "offset"], around=1, limit=1)
    assert {row["offset"]: (row["key"], row["match"]) for row in rows.read_all().to_pylist()} == {
        0: ("k0", False),
        1: ("k1", True),
        2: ("k1", False),
    }


@pytest.mark.parametrize(
    ("sought", "message"),
    [
        ({}, "nothing is sought: give any, key, value"),
        ({"key": []}, "key is an empty list: give at least one text"),
        ({"any": "(", "regex": True}, r"the pattern \"\(\" does not compile: unclosed group"),
        ({"any": b"\xff", "regex": True}, "a pattern is not UTF-8"),
        ({"any": "x", "around": -1}, "around"),
        ({"any": "x", "producer_ids": [-1]}, "producer_ids"),
        ({"any": "x", "columns": ["valeu"]}, "valeu"),
        ({"any": [str(number) for number in range(1_000_001)]}, "1000001 texts; at most 1000000 are sought at once"),
    ],
)
def test_what_cannot_be_sought_is_refused(golden, sought, message):
    with pytest.raises(ValueError, match=message):
        bl.Log(golden / "logs" / "kafka-4.1" / "headers-0").find(**sought)


def test_a_text_is_text_or_bytes(golden):
    with pytest.raises(TypeError, match="value: 7 is neither text nor bytes"):
        bl.Log(golden / "logs" / "kafka-4.1" / "headers-0").find(value=[7])


def test_matches_are_an_arrow_stream(golden):
    matches = bl.Log(golden / "logs" / "kafka-4.1" / "headers-0").find(headers="h1", columns=["offset"])
    assert pa.table(matches).num_rows == matches.searched - sum(
        not any(header["key"] == "h1" for header in row["headers"])
        for row in rows_of(golden / "logs" / "kafka-4.1" / "headers-0")
    )


def test_the_keys_that_are_sought_are_known_if_they_are_whole():
    assert Search.of(key=["a", b"b"], exact=True).whole_keys == (b"a", b"b")
    for other in ({"exact": False}, {"ignore_case": True}, {"regex": True}, {"invert": True}):
        assert Search.of(**{"key": "a", "exact": True, **other}).whole_keys == ()
