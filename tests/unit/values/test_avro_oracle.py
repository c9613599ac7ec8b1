"""Avro against fastavro: random schemas, values, pairs of schemas, and damaged bodies.

fastavro reads the schemas without logical types, so that each integer has its full range. The values of logical types
are compared with those of Python.
"""

import base64
import datetime as dt
import io
import json
import math
import re
import struct
import uuid
from decimal import Context, Decimal

import pytest
from hypothesis import given

fastavro = pytest.importorskip("fastavro")

from support.avro_schemas import (  # noqa: E402
    FIRST_DAY,
    UNITS,
    Branch,
    Reader,
    encoded,
    framed,
    number,
    random_value,
    schema_of,
    stored,
)
from support.drawn import drawn, random_choices  # noqa: E402
from support.tally import tally  # noqa: E402
from support.typed import (  # noqa: E402
    PREFIX,
    Json,
    Pairs,
    check_again,
    check_rows,
    decoded,
    is_within,
    mutated,
    rows_of,
    values_of,
)

REFUSED = ("a decimal has more than", "a time is not within a day")
"""Values that JSON text has, and Arrow does not."""


def without_branches(value):
    """Return a value as fastavro has it."""
    if isinstance(value, Branch):
        return without_branches(value.value)
    if isinstance(value, dict):
        return {key: without_branches(one) for key, one in value.items()}
    return [without_branches(one) for one in value] if isinstance(value, list) else value


def members(schema, branches):
    """Return the positions of the branches that are members of a struct; None: the union has a single type."""
    found = {at: schema.node(one) for at, one in enumerate(branches)}
    kinds = {at: one.get("logicalType", one["type"]) for at, one in found.items() if one["type"] != "null"}
    is_single = len(kinds) < 2 or sorted(kinds.values()) in (["int", "long"], ["double", "float"])
    return None if is_single else list(kinds)


def typed(schema, node, value, around=()):
    """Return the value that a column has. `around` are the types around it; None: none is JSON text."""
    found = schema.node(node)
    # Only named types are within themselves.
    name = node if isinstance(node, str) else None
    if found["type"] == "record" and around is not None and name in around:
        return Json(jsonified(schema, node, typed(schema, node, value, None)))
    within = None if around is None else (*around, name)
    match found["type"]:
        case "union":
            branch = typed(schema, node[value.at], value.value, within)
            places = members(schema, node)
            if places is None or (branch is None and stored(schema, node[value.at]) == "null"):
                return branch
            return {f"member{at}": branch if place == value.at else None for at, place in enumerate(places)}
        case "record":
            fields = found["fields"]
            return {field["name"]: typed(schema, field["type"], value[field["name"]], within) for field in fields}
        case "array":
            return [typed(schema, found["items"], one, within) for one in value]
        case "map":
            return Pairs((key, typed(schema, found["values"], one, within)) for key, one in value.items())
        case "float":
            return struct.unpack("<f", struct.pack("<f", value))[0]
    return of_logical(found, value)


def of_logical(found, value):
    """Return what a column has for a stored value of a type with a logical type."""
    match found["type"], found.get("logicalType"):
        case _, "decimal":
            value = Decimal(int.from_bytes(value, signed=True)).scaleb(-found.get("scale", 0), _DIGITS)
            return value if found["precision"] <= 76 else f"{value:f}"
        case "fixed", "uuid":
            return str(uuid.UUID(bytes=value))
        case "fixed", "duration":
            return dict(zip(("months", "days", "millis"), struct.unpack("<III", value), strict=True))
    return value


_DIGITS = Context(prec=200)


def jsonified(schema, node, value):  # noqa: C901 - a case for each type
    """Return the JSON of a column's value."""
    if isinstance(value, Json):
        return value.value
    found = schema.node(node)
    logical = found.get("logicalType")
    match found["type"]:
        case "null":
            return None
        case "union":
            places = members(schema, node)
            if value is None:
                return None
            if places is not None:
                ((at, value),) = [(at, one) for at, one in enumerate(value.values()) if one is not None] or [(0, None)]
                return jsonified(schema, node[places[at]], value)
            (branch,) = [one for one in node if stored(schema, one) != "null"][-1:]
            return jsonified(schema, branch, value)
        case "record":
            return {field["name"]: jsonified(schema, field["type"], value[field["name"]]) for field in found["fields"]}
        case "array":
            return [jsonified(schema, found["items"], one) for one in value]
        case "map":
            return {key: jsonified(schema, found["values"], one) for key, one in value}
        case "float" | "double":
            return value if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
        case "bytes" | "fixed" if logical is None:
            return base64.b64encode(value).decode()
    match logical:
        case "decimal":
            return value if isinstance(value, str) else f"{value:f}"
        case "date":
            return date_text(value)
        case "time-millis" | "time-micros":
            unit = UNITS[logical.rpartition("-")[2]]
            return time_text(*divmod(value, unit), unit)
        case str(name) if "timestamp" in name:
            unit = UNITS[name.rpartition("-")[2]]
            days, rest = divmod(value, 86400 * unit)
            text = f"{date_text(days)}T{time_text(*divmod(rest, unit), unit)}"
            return text + ("" if name.startswith("local") else "Z")
    return value


def date_text(day):
    """Return a date as text. Python has no years beyond 9999, but years repeat after 400 of them."""
    eras, day = divmod(day + FIRST_DAY - 1, 146097)
    date = dt.date.fromordinal(day + 1)
    year = date.year + 400 * eras
    return f"{year:04}{date:-%m-%d}" if 0 <= year <= 9999 else f"{year:+06}{date:-%m-%d}"


def time_text(seconds, fraction, unit):
    digits = len(str(unit)) - 1
    text = f"{fraction:0{digits}}".ljust(6, "0")
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{text}"


def normal(value):
    """Return a value in a form that is equal to another one if both are the same."""
    if isinstance(value, Json):
        return ("json", normal(value.value))
    if isinstance(value, Pairs):
        return [(key, normal(one)) for key, one in value]
    if isinstance(value, dict):
        return {key: normal(one) for key, one in value.items()}
    if isinstance(value, list):
        return [normal(one) for one in value]
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack(">d", value)
    return value if isinstance(value, (str, bytes, type(None))) else (type(value), value)


def parsed(schema, *, is_sorted=False):
    return fastavro.parse_schema(schema.rendered(is_raw=True, is_sorted=is_sorted), named_schemas={})


def read(body, writer, reader=None):
    stream = io.BytesIO(body)
    value = fastavro.schemaless_reader(stream, writer, reader)
    assert not stream.read()
    return value


@drawn
@given(random_choices)
def test_columns_and_json_have_the_values_that_fastavro_reads(random):
    schema, values = schema_of(random)
    rows = [random_value(schema, schema.root, values) for _ in range(5)]
    tally("value", "avro", len(rows))
    bodies = [encoded(schema, schema.root, row, values) for row in rows]
    raw = parsed(schema)
    for row, body in zip(rows, bodies, strict=True):
        assert normal(read(body, raw)) == normal(as_floats(schema, schema.root, without_branches(row), row))
    writer, payloads = ("AVRO", schema.text(), []), framed(schema, bodies)
    columns = [decoded(writer, payloads, reader=writer), decoded(writer, payloads, union=[writer])]
    wanted = [normal(typed(schema, schema.root, row)) for row in rows]
    for batch in columns:
        assert [normal(row) for row in rows_of(batch)] == wanted
    texts = rows_of(decoded(writer, payloads))
    for text, row in zip(texts, rows_of(columns[0]), strict=True):
        assert normal(text.value) == normal(jsonified(schema, schema.root, row))


@drawn
@given(random_choices)
def test_json_is_encoded_to_what_fastavro_reads_and_decodes_to_the_same_json(random):
    schema, values = schema_of(random)
    rows = [random_value(schema, schema.root, values) for _ in range(5)]
    payloads = framed(schema, [encoded(schema, schema.root, row, values) for row in rows])
    raw = parsed(schema)
    for payload in check_again(("AVRO", schema.text(), []), payloads):
        body = payload[len(PREFIX) :]
        if framed(schema, [b"\0"]) != [PREFIX]:
            read(body, raw)


def as_floats(schema, node, value, row):
    """Return fastavro's value of a row: floats have 32 bits."""
    found = schema.node(node)
    match found["type"]:
        case "float":
            return struct.unpack("<f", struct.pack("<f", value))[0]
        case "union":
            return as_floats(schema, node[row.at], value, row.value)
        case "record":
            types = {field["name"]: field["type"] for field in found["fields"]}
            return {name: as_floats(schema, types[name], one, row[name]) for name, one in value.items()}
        case "array":
            return [as_floats(schema, found["items"], *pair) for pair in zip(value, row, strict=True)]
        case "map":
            return {key: as_floats(schema, found["values"], one, row[key]) for key, one in value.items()}
    return value


@drawn
@given(random_choices)
def test_columns_have_the_values_that_fastavro_writes(random):
    schema, values = schema_of(random)
    raw = parsed(schema)
    written = []
    for _ in range(5):
        value = random_value(schema, schema.root, values)
        stream = io.BytesIO()
        # fastavro chooses the branches of unions.
        fastavro.schemaless_writer(stream, raw, read(encoded(schema, schema.root, value, values), raw))
        written.append(stream.getvalue())
    writer = ("AVRO", schema.text(), [])
    batch = decoded(writer, framed(schema, written), reader=writer)
    for got, error, body in zip(values_of(batch), batch["error"].to_pylist(), written, strict=True):
        # The other branch may be a decimal or a time.
        assert error is None or error.startswith(REFUSED)
        assert error or is_alike(schema, schema.root, got, read(body, raw)), (got, body)


def is_alike(schema, node, got, want):  # noqa: C901 - a case for each type
    """Return whether a column's value is the one of fastavro, which does not tell the branches of unions.

    Json stands for itself: its text is that of the writer's value.
    """
    if isinstance(got, Json):
        return want is not None
    found = schema.node(node)
    match found["type"]:
        case "union":
            places = members(schema, node)
            if got is None or want is None:
                return (got, want) == (None, None) and any(stored(schema, one) == "null" for one in node)
            if places is None:
                return any(is_alike(schema, one, got, want) for one in node)
            ((at, got),) = [(at, one) for at, one in zip(places, got.values(), strict=True) if one is not None]
            if stored(schema, node[at]) == "string" and isinstance(want, bytes):
                want = want.decode()  # see _RANKS
            return is_alike(schema, node[at], got, want)
        case "record":
            fields = found["fields"]
            if not (isinstance(got, dict) and list(got) == [field["name"] for field in fields]):
                return False
            # fastavro does not complete the records of a default.
            wanted = [want[field["name"]] if field["name"] in want else field["default"] for field in fields]
            pairs = zip(fields, got.values(), wanted, strict=True)
            return all(is_alike(schema, field["type"], one, wanted) for field, one, wanted in pairs)
        case "array":
            pairs = zip(got, want, strict=True) if isinstance(got, list) and len(got) == len(want) else [(0, None)]
            return all(is_alike(schema, found["items"], *pair) for pair in pairs)
        case "map":
            is_same = isinstance(got, Pairs) and dict(got).keys() == want.keys()
            return is_same and all(is_alike(schema, found["values"], one, want[key]) for key, one in got)
        case "bytes" | "fixed" if isinstance(want, str):
            # fastavro returns a default as JSON has it.
            want = want.encode("latin-1")
        case "float" if isinstance(got, float) and isinstance(want, (int, float)):
            if abs(want) > 2**53 and math.isclose(got, want, rel_tol=2**-23):
                # fastavro rounds a long to 64 bits, and that to 32 bits.
                return True
            want = struct.unpack("<f", struct.pack("<f", want))[0]
        case "double" if isinstance(want, int):
            want = float(want)
    return normal(got) == normal(of_logical(found, want))


_OTHER_LOGICAL_TYPE = re.compile("(date|time|timestamp|decimal|uuid|duration)[^:]* is (written|read)")


@drawn
@given(random_choices)
def test_rows_of_other_versions_are_resolved_as_fastavro_does(random):
    schema, values = schema_of(random)
    reader = Reader(schema, random)
    rows = [random_value(schema, schema.root, values) for _ in range(5)]
    tally("value", "avro versions", len(rows))
    bodies = [encoded(schema, schema.root, row, values) for row in rows]
    raw = parsed(schema), parsed(reader, is_sorted=True)
    batch = decoded(("AVRO", schema.text(), []), framed(schema, bodies), reader=("AVRO", reader.text(), []))
    errors = batch["error"].to_pylist()
    for got, error, body in zip(values_of(batch), errors, bodies, strict=True):
        try:
            want = read(body, *raw)
        except TypeError:
            continue  # fastavro takes some types of unions as keys of a dict
        except (fastavro.read.SchemaResolutionError, UnicodeDecodeError):
            # JSON text is that of the writer's value.
            assert error or "Json(" in repr(got)
        else:
            # The specification does not say whether a date is promoted to a timestamp, as the int is to the long.
            if error and (error.startswith(REFUSED) or _OTHER_LOGICAL_TYPE.search(error)):
                continue
            assert not error
            assert is_alike(reader, reader.root, got, want), (got, want)


@drawn
@given(random_choices)
def test_columns_of_all_versions_have_the_values_of_each(random):
    schema, values = schema_of(random)
    versions = [schema, Reader(schema, random)]
    union = [("AVRO", one.text(), []) for one in versions]
    for one, text in zip(versions, union, strict=True):
        payloads = framed(one, [encoded(one, one.root, random_value(one, one.root, values), values) for _ in range(3)])
        own, batch = (decoded(text, payloads, **target) for target in ({"reader": text}, {"union": union}))
        assert batch["error"].to_pylist() == own["error"].to_pylist() == [None] * 3
        for got, want in zip(values_of(batch), values_of(own), strict=True):
            assert is_within(got, want), (got, want)


@drawn
@given(random_choices)
def test_damaged_bodies_change_no_other_row(random):
    schema, values = schema_of(random)
    rows = [random_value(schema, schema.root, values) for _ in range(4)]
    bodies = [encoded(schema, schema.root, row, values) for row in rows]
    good = framed(schema, bodies)
    payloads = [None, b"no frame"]
    for payload in good:
        payloads += [PREFIX + mutated(payload[len(PREFIX) :], values) for _ in range(6)]
        payloads.append(payload)
    tally("value", "avro damaged", len(payloads))
    writer = ("AVRO", schema.text(), [])
    batch, json_batch = decoded(writer, payloads, reader=writer), decoded(writer, payloads)
    is_typed, is_json = check_rows(batch, payloads), check_rows(json_batch, payloads)
    assert batch.nbytes < 1 << 20
    found = values_of(batch)
    texts = values_of(json_batch)
    assert [normal(row) for row in found[8::7]] == [normal(typed(schema, schema.root, row)) for row in rows]
    for row in range(2, len(payloads)):
        if is_typed[row]:
            assert is_json[row]
            assert normal(texts[row].value) == normal(jsonified(schema, schema.root, found[row]))
        elif is_json[row]:
            assert batch["error"][row].as_py().startswith(REFUSED)


def record(*fields, name="R"):
    return {
        "type": "record",
        "name": name,
        "fields": [dict(zip(("name", "type", "default"), one, strict=False)) for one in fields],
    }


def avro(schema):
    return "AVRO", json.dumps(schema), []


def test_a_default_of_a_type_within_itself_is_json_of_the_readers_schema():
    node = record(("v", "int"), ("next", ["null", "Node"]), name="Node")
    default = {"v": 1, "next": {"v": 2, "next": None}}
    reader = record(("a", "int"), ("node", node, default))
    (row,) = rows_of(decoded(avro(record(("a", "int"))), [PREFIX + b"\x02"], reader=avro(reader)))
    assert normal(row) == normal({"a": 1, "node": {"v": 1, "next": Json(default["next"])}})


def test_a_default_has_all_digits():
    double = 3.150924098812434e145
    reader = record(("f", "double", double))
    assert rows_of(decoded(avro(record()), [PREFIX], reader=avro(reader))) == [{"f": double}]


def fixed(name, logical, size, **more):
    return {"type": "fixed", "name": name, "size": size, "logicalType": logical, **more}


def test_types_of_one_kind_in_a_union_differ_in_their_names():
    digits = {"precision": 2, "scale": 1}
    decimals = avro([fixed("D", "decimal", 1, **digits), {"type": "bytes", "logicalType": "decimal", **digits}])
    payloads = [PREFIX + b"\0\x0f", PREFIX + b"\x02\x02\xff"]
    found = rows_of(decoded(decimals, payloads, reader=decimals))
    assert found == [{"member0": Decimal("1.5"), "member1": None}, {"member0": None, "member1": Decimal("-0.1")}]
    for logical, size in (("uuid", 16), ("duration", 12)):
        writer = avro([fixed("a.A", logical, size), fixed("a.B", logical, size)])
        reader = avro([fixed("b.B", logical, size), fixed("b.A", logical, size)])
        for at, member in enumerate(("member1", "member0")):
            (row,) = rows_of(decoded(writer, [PREFIX + number(at) + bytes(size)], reader=reader))
            assert [name for name, value in row.items() if value is not None] == [member]


def test_fields_of_a_record_and_the_parts_of_a_duration_may_be_in_one_column():
    versions = [
        avro(record(("f", ["null", record(("days", "int"), ("x", "long"), name="A")]))),
        avro(record(("f", fixed("D", "duration", 12)))),
    ]
    bodies = [b"\x02\x0a\x0c", struct.pack("<III", 1, 2, 3)]
    found = [rows_of(decoded(one, [PREFIX + body], union=versions)) for one, body in zip(versions, bodies, strict=True)]
    assert found == [
        [{"f": {"days": 5, "x": 6, "months": None, "millis": None}}],
        [{"f": {"days": 2, "x": None, "months": 1, "millis": 3}}],
    ]


def test_members_of_unions_that_changed_stay_apart():
    times = [{"type": "int", "logicalType": "time-millis"}, {"type": "long", "logicalType": "time-micros"}]
    versions = [avro(record(("f", ["string", *times]))), avro(record(("f", times)))]
    found = rows_of(decoded(versions[1], [PREFIX + b"\0\x02", PREFIX + b"\x02\x02"], union=versions))
    members = [{name: one and one.value for name, one in row["f"].items() if one is not None} for row in found]
    assert members == [{"member0": "00:00:00.001000"}, {"member1": "00:00:00.000001"}]


def test_a_type_within_itself_takes_no_other_type():
    """Such a type is JSON text, which could hold every value."""
    null, other = ["null", "R", "long"], ["R", "long", "string"]
    payloads = [PREFIX + body for body in (b"\0", b"\x02\0", b"\x04\x02")]
    batch = decoded(avro(record(("f", null))), payloads, reader=avro(record(("f", ["R", "long"]))))
    assert check_rows(batch, payloads) == [False, True, True]
    assert batch["decoded"].to_pylist()[2] == {"f": {"member0": None, "member1": 1}}
    payloads = [PREFIX + body for body in (b"\0\x04\x02a", b"\x02\x02", b"\x04\x02a")]
    batch = decoded(avro(record(("f", other))), payloads, reader=avro(record(("f", ["R", "double"]))))
    assert check_rows(batch, payloads) == [True, True, False]
    assert batch["decoded"].to_pylist()[1] == {"f": {"member0": None, "member1": 1.0}}


def test_bytes_without_a_length_may_be_a_member_of_a_union():
    payloads = [PREFIX + b"abc", PREFIX + b"\x02a", PREFIX, PREFIX + b"\xff"]
    found = rows_of(decoded(avro("bytes"), payloads, reader=avro(["int", "bytes"])))
    assert found == [{"member0": None, "member1": payload[5:]} for payload in payloads]
    batch = decoded(avro("bytes"), payloads, reader=avro(["int", "string"]))
    assert check_rows(batch, payloads) == [True, True, True, False]
    assert batch["decoded"].to_pylist()[0] == {"member0": None, "member1": "abc"}


@pytest.mark.parametrize(("kind", "most"), [("int", 86_400_000), ("long", 86_400_000_000)])
def test_a_time_is_within_a_day(kind, most):
    schema = avro({"type": kind, "logicalType": "time-millis" if kind == "int" else "time-micros"})
    times = [0, -1, most - 1, most]
    payloads = [PREFIX + number(time) for time in times]
    batch = decoded(schema, payloads, reader=schema)
    assert check_rows(batch, payloads) == [True, False, True, False]
    assert values_of(batch) == [0, None, most - 1, None]


@pytest.mark.parametrize("inner", ["array", "map", "record"])
def test_types_that_are_nested_too_deep_for_arrow_are_json(inner):
    schema, body = "int", b"\x02"
    for level in range(40):
        match inner:
            case "array":
                schema, body = {"type": "array", "items": schema}, b"\x02" + body + b"\0"
            case "map":
                schema, body = {"type": "map", "values": schema}, b"\x02\x02k" + body + b"\0"
            case "record":
                schema = record(("f", schema), name=f"R{level}")
    schema = avro(schema)
    text, typed_text = (decoded(schema, [PREFIX + body], **one)["decoded"] for one in ({}, {"reader": schema}))
    (want,), (found,) = text.to_pylist(), typed_text.to_pylist()
    assert json.loads(want) == as_plain_json(found)


def as_plain_json(value):
    """Return the JSON of nested values, whose innermost one is JSON text."""
    match value:
        case [(str(key), inner)]:
            return {key: as_plain_json(inner)}
        case list():
            return [as_plain_json(one) for one in value]
        case dict():
            return {key: as_plain_json(one) for key, one in value.items()}
    return json.loads(value) if isinstance(value, str) else value


def test_a_chain_of_types_does_not_overflow_the_stack():
    links = [record(("f", f"R{number - 1}" if number else "int"), name=f"R{number}") for number in range(9000)]
    references = [(link["name"], json.dumps(link)) for link in links]
    schema = "AVRO", '"R8999"', references
    batch = decoded(schema, [PREFIX + b"\x02"], reader=schema)
    assert "nested more than 200 levels" in batch["error"][0].as_py()


def test_a_short_schema_makes_no_long_text():
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4 * 10**9, "scale": 3 * 10**9}
    batch = decoded(avro({"type": "array", "items": decimal}), [PREFIX + b"\x02\x02\x01\0"])
    assert batch["decoded"].to_pylist() == ['["AQ=="]']


def test_defaults_within_defaults_are_limited():
    """Each level of the default doubles it."""
    fields = [(name, ["R", {"type": "map", "values": "int"}], {}) for name in "ab"]
    reader = record(("r", record(*fields), {}), name="T")
    batch = decoded(avro(record(name="T")), [PREFIX], reader=avro(reader))
    assert "take too much memory" in batch["error"][0].as_py()


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        ({"type": "array", "items": "null"}, b""),
        ({"type": "map", "values": "null"}, b"\0"),
        ({"type": "array", "items": record()}, b""),
        ({"type": "array", "items": record(*((f"f{number}", "null") for number in range(200)))}, b""),
        ({"type": "array", "items": {"type": "array", "items": "int"}}, b"\0"),
    ],
)
def test_counts_in_a_body_take_no_memory(schema, body):
    count = number(-(2**63)) + number(0) if len(body) % 2 else number(2**62)
    payloads = [PREFIX + count + body * 1000, PREFIX + number(0)]
    for target in ({}, {"reader": avro(schema)}):
        batch = decoded(avro(schema), payloads, **target)
        assert check_rows(batch, payloads) == [False, True]
        assert batch.nbytes < 1000 + 2 * len(payloads[0])
