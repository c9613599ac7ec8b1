"""A condition in SQL keeps the rows that a reader of the same JSON keeps."""

import json
import operator

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brokerless.query.condition import SqlCondition

FIELDS = ("id", "name", "a b", "it's", 'quo"ted', "a/b", "~1", "offset", "value")
SIGNS = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
# Doubles do not tell 2^60 from its neighbors.
numbers = st.one_of(st.integers(-3, 3), st.integers(2**60 - 2, 2**60 + 2), st.sampled_from([1.0, 1.5, -2.25, 1e300]))
texts = st.sampled_from(["", "a", "B", "it's", "4", "true"])
literals = st.one_of(numbers, texts, st.booleans())
scalars = st.one_of(literals, st.none())
objects = st.recursive(scalars, lambda of: st.dictionaries(st.sampled_from(FIELDS), of, max_size=3), max_leaves=6)
stored = st.one_of(
    st.none(),
    objects.map(lambda value: json.dumps(value).encode()),
    st.sampled_from([b"\xff", b"", b"none", b"{", b"3"]),
)
searched = settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=100)


def rows_of(values):
    return pa.RecordBatch.from_pydict(
        {"offset": [*range(len(values))], "key": [None] * len(values), "value": values},
        pa.schema({"offset": pa.int64(), "key": pa.binary(), "value": pa.binary()}),
    )


def found(condition, values):
    rows = rows_of(values)
    return SqlCondition(condition, rows.schema).apply(rows)["offset"].to_pylist()


def field(value, path):
    """The field of JSON text; None if it is missing, or null."""
    try:
        value = json.loads(value.decode())
    except (AttributeError, ValueError):
        return None
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def text_of(value):
    """The text of a field; None for one whose text JSON may spell in several ways."""
    if isinstance(value, bool):
        return json.dumps(value)
    return str(value) if isinstance(value, str | int) else None


@searched
@given(
    values=st.lists(stored, max_size=12),
    path=st.lists(st.sampled_from(FIELDS), min_size=1, max_size=3),
    sign=st.sampled_from(list(SIGNS)),
    literal=literals,
    is_mirrored=st.booleans(),
)
def test_fields_of_json_compare_with_constants_of_their_type(values, path, sign, literal, is_mirrored):
    name = ".".join(["value", *('"' + name.replace('"', '""') + '"' for name in path)])
    text = "'" + literal.replace("'", "''") + "'" if isinstance(literal, str) else json.dumps(literal)
    expected, unsure = [], set()
    for number, value in enumerate(values):
        of = field(value, path)
        if isinstance(literal, str):
            if of is not None and text_of(of) is None:
                unsure.add(number)
                continue
            of = text_of(of)
        elif isinstance(of, bool) != isinstance(literal, bool) or not isinstance(of, bool | int | float):
            continue
        if of is not None and SIGNS[sign](of, literal):
            expected.append(number)
    mirrored = {"<": ">", ">=": "<=", ">": "<", "<=": ">="}.get(sign, sign)
    condition = f"{text} {mirrored} {name}" if is_mirrored else f"{name} {sign} {text}"
    assert [number for number in found(condition, values) if number not in unsure] == expected
    missing = [number for number, value in enumerate(values) if field(value, path) is None]
    assert found(f"{name} is null", values) == missing


VALUES = [b'{"customer":{"id":42},"list":[1,{"x":5}]}', b"\xff", None, b'{"customer":{"id":"x"}}', b"plain"]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("value.customer.id = 42", [0]),
        ("value.Customer.id = 42", []),
        ("VALUE.customer.id = 42", [0]),
        ("value.customer.id in (42, 'x') and offset > 0", [3]),
        ("value.customer.id > 41.5", [0]),
        ("value.customer.id between 1 and 50", [0]),
        ("not value.customer.id = 43", [0]),
        ("value.customer.id in (42.0, true)", []),
        ("try_cast(value.customer.id as double) + 1 > 42", [0]),
        ("value.customer", []),
        ("value.list[1] = 1 and value.list[2].x = 5", [0]),
        ("value->>'$.customer.id' = 'x'", [3]),
        ("value like '%42%' and value.customer.id = 42", [0]),
        ("value = 'plain'", [4]),
        ("value is null", [1, 2]),
        ("'value.x' = 'value.x' and offset = 1 -- a comment", [1]),
        ("\"offset\" = 1 and 'offset' = 'offset'", [1]),
        ("key is null and offset", [1, 2, 3, 4]),
    ],
)
def test_conditions(condition, expected):
    if "->>" in condition:
        assert found(condition, VALUES[:1] + [None] * 2 + VALUES[3:4]) == expected
    else:
        assert found(condition, VALUES) == expected


@pytest.mark.parametrize(
    ("condition", "error"),
    [
        ("valu.id = 1", "the condition 'valu.id = 1': Binder Error: .*valu"),
        ("id = 1", 'Referenced column "id" not found .*; a field is written with its part, as value.id'),
        ("count(*) > 1", "WHERE clause cannot contain aggregates"),
        ("row_number() over () > 1", "WHERE clause cannot contain window functions"),
        ("offset >", "Parser Error"),
        ("offset.x = 1", "Binder Error: "),
        ("value.x = offset", "the field value.x has no type: compare it with a constant, or cast it, as try_cast"),
        ("value.x = value.y", "the field value.x has no type"),
        ("value::int = 3", "Conversion Error: Could not convert string 'plain'"),
        ("offset > 1); select (1", "is more than one statement: it has a semicolon"),
    ],
)
def test_a_condition_that_does_not_hold_up_is_an_error(condition, error):
    with pytest.raises(ValueError, match=error):
        found(condition, [b"1", b"plain"])


def test_typed_fields_are_compared_as_such():
    kind = pa.struct({"id": pa.int32(), "at": pa.timestamp("ms", "UTC")})
    rows = pa.RecordBatch.from_arrays([pa.array([{"id": 1, "at": 0}, {"id": 2, "at": 5}, None], kind)], ["value"])
    assert SqlCondition("value.id = 2.0", rows.schema).apply(rows).num_rows == 1
    assert SqlCondition("value.at > '1970-01-01'", rows.schema).apply(rows).num_rows == 1
    with pytest.raises(ValueError, match='Could not find key "name" in struct'):
        SqlCondition("value.name = 2", rows.schema)


def test_only_the_columns_that_a_condition_names_are_needed():
    schema = rows_of([]).schema
    assert SqlCondition("value.id = 1", schema).columns == ["value"]
    assert SqlCondition("Offset > 1 and KEY is null", schema).columns == ["offset", "key"]
    assert SqlCondition("true", schema).columns == ["offset"]
