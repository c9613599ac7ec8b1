"""JSON Schema against jsonschema: random schemas with the values that they allow, and bodies that they do not allow."""

import json
import math

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

jsonschema = pytest.importorskip("jsonschema")

import brokerless as bl  # noqa: E402
from support.tally import tally  # noqa: E402
from support.typed import PREFIX, Json, Pairs, check_rows, decoded, is_within, mutated, rows_of, values_of  # noqa: E402

drawn = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
random_choices = st.randoms(use_true_random=False)

NAMES = ("a", "b", "Ä ", 'q"\\', "", "0", "same.name")
TYPES = {"boolean": pa.bool_(), "integer": pa.int64(), "number": pa.float64(), "string": pa.string()}


class Schema:
    """A random schema, all of whose objects are closed or maps, and its type in Arrow."""

    def __init__(self, random):
        self.random = random
        self.definitions = {}
        self.root, self.type = self.part(0)
        if self.definitions:
            self.root["$defs"] = self.definitions

    def part(self, depth):
        """Return a schema and its type; it may allow null, or be a reference."""
        random = self.random
        schema, kind = self.plain(depth)
        match random.randrange(5):
            case 0 if isinstance(schema.get("type"), str):
                schema["type"] = random.sample([schema["type"], "null"], 2)
            case 1:
                options = random.sample([schema, {"type": "null"}], 2)
                return {random.choice(["anyOf", "oneOf"]): options}, kind
            case 2 if depth:
                name = f"d/{len(self.definitions)}"
                self.definitions[name] = schema
                return {"$ref": "#/$defs/" + name.replace("/", "~1")}, kind
        return schema, kind

    def plain(self, depth):
        random = self.random
        kinds = [*TYPES, "enum", "open", "any"]
        if depth < 4:
            kinds += ["array", "map", "object"] * 3
        match random.choice(kinds) if depth else random.choice(["object"] * 4 + kinds):
            case "enum":
                return {"enum": ["x", "ÿ", ""]}, pa.string()
            case "open":
                properties = {"a": {"type": "integer"}}
                return {"type": "object", "properties": properties, "required": ["a"]}, Json
            case "any":
                return {"type": ["integer", "string"]}, Json
            case "array":
                items, kind = self.part(depth + 1)
                return {"type": "array", "items": items}, [kind]
            case "map":
                values, kind = self.part(depth + 1)
                return {"type": "object", "additionalProperties": values}, Pairs([kind])
            case "object":
                parts = {name: self.part(depth + 1) for name in random.sample(NAMES, random.randint(1, 4))}
                properties = {name: schema for name, (schema, _) in parts.items()}
                required = random.sample(list(parts), random.randint(0, len(parts)))
                closed = random.choice(["additionalProperties", "unevaluatedProperties"])
                schema = {"type": "object", "properties": properties, "required": required, closed: False}
                return schema, {name: kind for name, (_, kind) in parts.items()}
            case kind:
                return {"type": kind}, TYPES[kind]

    def value(self, schema=None):
        """Return a random value that a schema allows."""
        random = self.random
        schema = self.root if schema is None else schema
        if "$ref" in schema:
            name = schema["$ref"].removeprefix("#/$defs/").replace("~1", "/")
            return self.value(self.definitions[name])
        if "enum" in schema:
            return random.choice(schema["enum"])
        kinds = schema.get("type")
        if kinds is None:
            (options,) = (schema[name] for name in ("anyOf", "oneOf") if name in schema)
            return self.value(random.choice(options))
        match random.choice(kinds) if isinstance(kinds, list) else kinds:
            case "null":
                return None
            case "boolean":
                return random.random() < 0.5
            case "integer":
                return random.choice([0, 1, -(2**63), 2**63 - 1, 2**53 + 1, random.randrange(-1000, 1000), 1e15])
            case "number":
                return random.choice([0.1, -0.0, 1e300, 5e-324, 7, 2**53, random.gauss(0, 1e6)])
            case "string":
                return random.choice(["", "ä", '"\\/\b\n', "\0", "😀", "null", "x" * random.randrange(40)])
            case "array":
                return [self.value(schema["items"]) for _ in range(random.randrange(4))]
        return self.members(schema)

    def members(self, schema):
        random = self.random
        if "properties" not in schema:
            names = random.sample(NAMES, random.randrange(4))
            return {name: self.value(schema["additionalProperties"]) for name in names}
        named = {
            name: self.value(member)
            for name, member in schema["properties"].items()
            if name in schema["required"] or random.random() < 0.6
        }
        if "additionalProperties" not in schema and "unevaluatedProperties" not in schema:
            named["more"] = [None, {"z": 1.5}]
        return dict(random.sample(list(named.items()), len(named)))


def text_of(value, random):
    """Return JSON text of a value, with escapes or without, and with any white space."""
    text = json.dumps(
        value,
        ensure_ascii=random.random() < 0.5,
        indent=random.choice([None, None, 1, "\t"]),
        separators=random.choice([(",", ":"), (" , ", " : "), None]),
    )
    return random.choice(["", " ", "\r\n"]) + text + random.choice(["", "\n"])


def same(expected, got, kind):
    """Whether a typed value is the one of JSON text."""
    if kind is Json:
        return (got.value if isinstance(got, Json) else got) == expected
    if expected is None:
        return got is None
    match kind:
        case Pairs():
            found = dict(got)
            return len(got) == len(expected) and all(
                name in found and same(value, found[name], kind[0]) for name, value in expected.items()
            )
        case list():
            return len(got) == len(expected) and all(same(*pair, kind[0]) for pair in zip(expected, got, strict=True))
        case dict():
            return set(got) == set(kind) and all(same(expected.get(name), got[name], kind[name]) for name in kind)
    if isinstance(expected, bool) or isinstance(got, bool) or kind != pa.float64():
        # Python rounds 9007199254740993.0, which is an integer here.
        got = float(got) if isinstance(expected, float) else got
        return got == expected and isinstance(got, bool) == isinstance(expected, bool)
    return got == expected and (isinstance(expected, int) or math.copysign(1, got) == math.copysign(1, expected))


def fits(value, kind):
    """Whether JSON is of a type. Each one has null, and no object needs all members."""
    if value is None or kind is Json:
        return True
    match kind:
        case Pairs():
            return isinstance(value, dict) and all(fits(one, kind[0]) for one in value.values())
        case list():
            return isinstance(value, list) and all(fits(one, kind[0]) for one in value)
        case dict():
            is_known = isinstance(value, dict) and value.keys() <= kind.keys()
            return is_known and all(fits(one, kind[name]) for name, one in value.items())
    (name,) = (name for name, one in TYPES.items() if one == kind)
    limits = {"minimum": -(2**63), "maximum": 2**63 - 1} if name == "integer" else {}
    return allows({"type": name, **limits}, value) and (name != "number" or float(value) == value)


def arrow_type(kind):
    match kind:
        case Pairs():
            return pa.map_(pa.string(), arrow_type(kind[0]))
        case list():
            return pa.list_(arrow_type(kind[0]))
        case dict():
            return pa.struct([(name, arrow_type(one)) for name, one in kind.items()])
    return pa.string() if kind is Json else kind


def allows(schema, value):
    return jsonschema.Draft202012Validator(schema).is_valid(value)


@drawn
@given(random_choices)
def test_a_value_that_a_schema_allows_is_read_with_its_types(random):
    schema = Schema(random)
    values = [schema.value() for _ in range(8)]
    assert all(allows(schema.root, value) for value in values)
    writer = ("JSON", json.dumps(schema.root), [])
    payloads = [PREFIX + text_of(value, random).encode() for value in values]
    for target in ({"reader": writer}, {"union": [writer]}):
        batch = decoded(writer, payloads, **target)
        assert batch.schema.field("decoded").type == arrow_type(schema.type)
        for value, row in zip(values, rows_of(batch), strict=True):
            assert same(value, row, schema.type), (value, row)
    tally("value", "JSON Schema", len(payloads))


@drawn
@given(random_choices)
def test_a_value_of_another_schema_is_an_error_or_loses_nothing(random):
    schema, other = Schema(random), Schema(random)
    values = [random.choice([schema, other]).value() for _ in range(8)]
    values += [{**value, "unknown": 1} for value in values if isinstance(value, dict)]
    writer = ("JSON", json.dumps(schema.root), [])
    payloads = [PREFIX + text_of(value, random).encode() for value in values]
    batch = decoded(writer, payloads, reader=writer)
    is_decoded = check_rows(batch, payloads)
    for value, row, is_row in zip(values, values_of(batch), is_decoded, strict=True):
        assert is_row == fits(value, schema.type), value
        assert not is_row or same(value, row, schema.type), (value, row)
    tally("value", "JSON Schema versions", len(payloads))


@drawn
@given(random_choices)
def test_the_fields_of_all_versions_hold_the_values_of_each(random):
    versions = [Schema(random) for _ in range(3)]
    writers = [("JSON", json.dumps(version.root), []) for version in versions]
    for version, writer in zip(versions, writers, strict=True):
        payloads = [PREFIX + text_of(version.value(), random).encode() for _ in range(5)]
        batch = decoded(writer, payloads, union=writers)
        wanted = rows_of(decoded(writer, payloads, reader=writer))
        errors = batch["error"].to_pylist()
        for got, want, error in zip(values_of(batch), wanted, errors, strict=True):
            # An integer of one version may be a number of another one.
            assert "a double" in error if error else is_within(got, want), (got, want)
    tally("value", "JSON Schema versions", 15)


@drawn
@given(random_choices)
def test_a_damaged_body_changes_no_other_row(random):
    schema = Schema(random)
    whole = [schema.value() for _ in range(4)]
    texts = [text_of(value, random).encode() for value in whole for _ in range(6)]
    payloads = [PREFIX + (text if at % 6 == 0 else mutated(text, random)) for at, text in enumerate(texts)]
    batch = decoded(("JSON", json.dumps(schema.root), []), payloads, reader=("JSON", json.dumps(schema.root), []))
    is_decoded = check_rows(batch, payloads)
    for at, (payload, row) in enumerate(zip(payloads, values_of(batch), strict=True)):
        if at % 6 == 0:
            assert is_decoded[at]
        if is_decoded[at]:
            assert same(json.loads(payload[5:], parse_constant=pytest.fail), row, schema.type), payload
    tally("value", "JSON Schema damaged", len(payloads))


def test_the_last_of_members_with_one_name_counts():
    schema = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"type": "integer"}}, "m": {"type": "object"}},
        "additionalProperties": False,
    }
    schema["properties"]["m"]["additionalProperties"] = {"type": "integer"}
    writer = ("JSON", json.dumps(schema), [])
    body = b'{"a": [1, 2], "m": {"x": 1, "y": 2, "x": 3}, "a": [], "a": [4]}'
    rows = rows_of(decoded(writer, [PREFIX + body, PREFIX + b"{}"], reader=writer))
    assert rows == [{"a": [4], "m": [("y", 2), ("x", 3)]}, {"a": None, "m": None}]


def test_closed_objects_have_columns_by_default_and_open_ones_do_not(tmp_path):
    item = {"type": "object", "properties": {"n": {"type": "integer"}}}
    older = {"type": "object", "properties": {"id": {"type": "integer"}, "item": item}, "additionalProperties": False}
    newer = {**older, "properties": {**older["properties"], "name": {"type": "string"}}}
    path = tmp_path / "data"
    value = {"id": 1, "item": {"n": 2, "more": True}}
    for topic, schemas in {"closed": (older, newer), "open": (item,), "text": ({"type": "string"},)}.items():
        for schema in schemas:
            encode = {"value": "json-schema", "register": json.dumps(schema)}
            with bl.Producer(path, topic, encode=encode) as producer:
                producer.send([{"value": value}])
    directories = bl.LogDirs(path)

    def rows(topic, **decode):
        table = directories.to_table([topic], decode={"value": "registry", **decode}, columns=["value"])
        return table.schema.field("value").type, table["value"].to_pylist()

    text = json.dumps(value, separators=(",", ":"))
    typed = pa.struct([("id", pa.int64()), ("item", pa.string()), ("name", pa.string())])
    row = {"id": 1, "item": '{"n":2,"more":true}', "name": None}
    for schema in (None, "latest", "union"):
        assert rows("closed", schema=schema) == (typed, [row, row])
    del row["name"]
    assert rows("closed", schema=1) == (pa.struct([*typed][:2]), [row, row])
    for topic, count in {"closed": 2, "open": 1, "text": 1}.items():
        assert rows(topic, schema="writer") == (pa.string(), [text] * count)
    assert rows("open") == rows("open", schema="latest") == (pa.string(), [text])
    assert rows("text") == (pa.string(), [text])
    with pytest.warns(UserWarning, match=r"text-0, offset 0: \$: text is expected, not an object"):
        assert rows("text", schema="latest") == (pa.string(), [None])
