"""A body is decoded to the same row, whether its schema is named before it or in a header."""

import hashlib

import pyarrow as pa
import pytest
from hypothesis import given

from brokerless import _native
from support import avro_schemas, typed
from support.drawn import drawn, random_choices
from support.tally import tally

protobuf_schemas = pytest.importorskip("support.protobuf_schemas", exc_type=ImportError)

HEADERS = _native.row_schema(["headers"]).field("headers").type
KEY, VALUE = "__key_schema_id", "__value_schema_id"


def names_of(text):
    """Return what names a schema: its id, and a GUID."""
    return typed.PREFIX, b"\1" + hashlib.md5(text.encode(), usedforsecurity=False).digest()


def avro(random):
    """Return two versions of a schema, what follows a name of the first one, and bodies of its values."""
    schema, values = avro_schemas.schema_of(random)
    rows = [avro_schemas.random_value(schema, schema.root, values) for _ in range(4)]
    bodies = [avro_schemas.encoded(schema, schema.root, row, values) for row in rows]
    versions = [("AVRO", one.text(), []) for one in (schema, avro_schemas.Reader(schema, random))]
    return versions, b"", avro_schemas.stored_bodies(schema, bodies), values


def protobuf(random):
    proto, values = protobuf_schemas.proto_of(random)
    kind, _ = proto.compiled()
    bodies = [protobuf_schemas.other_form(protobuf_schemas.filled(kind, values), values) for _ in range(4)]
    versions = [one.schema() for one in (proto, protobuf_schemas.Reader(proto, random))]
    return versions, values.choice([b"\0", b"\2\0"]), bodies, values


@pytest.mark.parametrize("kind", [avro, protobuf])
@drawn
@given(random=random_choices)
def test_a_header_names_a_schema_as_a_prefix_does(kind, random):
    versions, indexes, bodies, values = kind(random)
    bodies += [typed.mutated(body, values) for body in bodies for _ in range(2)]
    named = [values.choice(names_of(versions[0][1])) + indexes for _ in bodies]
    payloads = [name + body for name, body in zip(named, bodies, strict=True)]
    own, other = values.choice([(KEY, VALUE), (VALUE, KEY)])
    headers = []
    for name in named:
        # The last header of a name counts, and that of the other part does not.
        before = values.choice([[], [(own, b"\0\0\0\0\x09")], [(own, None), ("h", b"x")]])
        after = values.choice([[], [(other, b"\0\0\0\0\x09")], [("h", None)]])
        headers.append([{"key": key, "value": value} for key, value in (*before, (own, name), *after)])
    tally("value", "framings", len(bodies))
    for target in ({}, {"reader": versions[1]}, {"union": versions}):
        options = {"is_key": own == KEY, **target}
        before = typed.decoded(versions[0], payloads, **options)
        inside = typed.decoded(versions[0], bodies, headers=pa.array(headers, HEADERS), **options)
        typed.check_rows(before, payloads)
        typed.check_rows(inside, bodies)
        assert set(inside["framing"].to_pylist()) == {"header"}
        for column in ("decoded", "error", "schemaId"):
            # Unlike values of Python, their text tells 0.0 from -0.0, and NaN is NaN.
            one, two = (repr(typed.plain(batch[column])) for batch in (before, inside))
            assert one == two


def test_a_header_without_a_value_names_no_schema():
    headers = [[{"key": VALUE, "value": value}] for value in (typed.PREFIX, None)]
    payloads = [b"\2", typed.PREFIX + b"\4"]
    batch = typed.decoded(("AVRO", '"int"', []), payloads, headers=pa.array(headers, HEADERS))
    assert batch["decoded"].to_pylist() == ["1", "2"]
    assert batch["framing"].to_pylist() == ["header", "prefix-v0"]
