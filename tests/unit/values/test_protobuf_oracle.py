"""Protobuf against Python's protobuf: random schemas, messages, pairs of schemas, and damaged bodies."""

import math
import struct

import pytest
from hypothesis import given

pytest.importorskip("google.protobuf")
from google.protobuf import (
    duration_pb2,
    json_format,
    message_factory,
)
from google.protobuf.message import DecodeError

from support.drawn import drawn, random_choices
from support.protobuf_schemas import BARE_JSON, WRAPPERS, Reader, filled, messages_of, other_form, proto_of, varint
from support.tally import tally
from support.typed import (
    PREFIX,
    Json,
    Pairs,
    check_again,
    check_rows,
    decoded,
    encoded,
    is_within,
    mutated,
    rows_of,
    values_of,
)

HEADER = PREFIX + b"\0"
"""The id of the schema, and the index of the first message."""


def typed(message, around=()):
    """Return the value that a column has of a message."""
    descriptor = message.DESCRIPTOR
    name = descriptor.full_name
    if name == "google.protobuf.Timestamp":
        return message.seconds * 10**6 + message.nanos // 1000
    if name == "google.protobuf.Duration":
        return message.seconds * 10**6 + abs(message.nanos) // 1000 * (-1 if message.nanos < 0 else 1)
    if name in WRAPPERS:
        return message.value
    if name in around or name in BARE_JSON:
        return Json(as_json(message))
    return {field.name: _typed_field(message, field, (*around, name)) for field in descriptor.fields}


def _typed_field(message, field, around):
    def of(value, field=field):
        return typed(value, around) if field.message_type is not None else _scalar(value, field)

    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        value = field.message_type.fields_by_name["value"]
        return Pairs((key, of(one, value)) for key, one in getattr(message, field.name).items())
    if field.is_repeated:
        return [of(one) for one in getattr(message, field.name)]
    if field.has_presence and not message.HasField(field.name):
        return None
    return of(getattr(message, field.name))


def _scalar(value, field):
    if field.type == field.TYPE_STRING and isinstance(value, bytes):
        # In proto2, Python's protobuf returns the bytes.
        raise ValueError("not UTF-8")
    if field.enum_type is None:
        return value
    found = field.enum_type.values_by_number.get(value)
    return str(value) if found is None else found.name


def as_json(message):
    """Return the JSON of a message, as Protobuf's own but with 64-bit integers as numbers.

    It is `...` if there is none: the parts of two durations may have different signs together.
    """
    try:
        found = json_format.MessageToDict(message, preserving_proto_field_name=True)
    except json_format.SerializeToJsonError:
        return ...
    return _with_numbers(found, message.DESCRIPTOR)


def _with_numbers(found, descriptor):
    if descriptor.full_name in ("google.protobuf.Int64Value", "google.protobuf.UInt64Value"):
        return int(found)
    if descriptor.full_name.startswith("google.protobuf."):
        return found
    made = {}
    for name, value in found.items():
        field = descriptor.fields_by_name[name]
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            inner = field.message_type.fields_by_name["value"]
            made[name] = {key: _number(one, inner) for key, one in value.items()}
        else:
            made[name] = [_number(one, field) for one in value] if field.is_repeated else _number(value, field)
    return made


def _number(value, field):
    if field.message_type is not None:
        return _with_numbers(value, field.message_type)
    return int(value) if field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64) else value


def _with_entries_of(got, want):
    """Return a value with the maps of another one that have some of its keys, and with its JSON.

    Python's protobuf leaves out an entry with unknown fields, which may have the key of another entry. We keep it, as
    Java does. A message that is encoded as a group is an unknown field to it, too.
    """
    if isinstance(got, Json) or want is None:
        return want
    if isinstance(got, Pairs) and isinstance(want, Pairs):
        return want if dict(want).keys() <= dict(got).keys() else got
    if isinstance(got, dict) and isinstance(want, dict):
        return {name: _with_entries_of(one, want[name]) for name, one in got.items()}
    if isinstance(got, list) and isinstance(want, list) and len(got) == len(want):
        return list(map(_with_entries_of, got, want))
    return got


def is_same(got, want):
    """Return whether two values of a column are the same."""
    if isinstance(got, Json) and isinstance(want, Json):
        return is_same_json(got.value, want.value)
    if type(got) is not type(want):
        return False
    if isinstance(got, dict):
        return got.keys() == want.keys() and all(is_same(one, want[name]) for name, one in got.items())
    if isinstance(got, Pairs):
        got, want = dict(got), dict(want)
        return got.keys() == want.keys() and all(is_same(one, want[key]) for key, one in got.items())
    if isinstance(got, list):
        return len(got) == len(want) and all(map(is_same, got, want))
    if isinstance(got, float):
        return struct.pack("<d", got) == struct.pack("<d", want) or (math.isnan(got) and math.isnan(want))
    return got == want


def is_same_json(got, want):
    """Return whether two values of JSON are the same. Python's protobuf writes floats with fewer digits."""
    if want is ...:
        return True
    if isinstance(got, dict) and isinstance(want, dict):
        # Python's protobuf leaves out a Value of a Struct that has no kind. We have null.
        got, want = ({name: one for name, one in each.items() if one is not None} for each in (got, want))
        return got.keys() == want.keys() and all(is_same_json(one, want[name]) for name, one in got.items())
    if isinstance(got, list) and isinstance(want, list):
        return len(got) == len(want) and all(map(is_same_json, got, want))
    if isinstance(got, float) and isinstance(want, float):
        return got == want or _as_float(got) == _as_float(want)
    return type(got) is type(want) and got == want


def _as_float(value):
    return struct.pack("<f", value) if abs(value) < 3.4028235e38 else value


def without_nulls(value):
    """Return a value of JSON without the members that are null: a `NullValue` of another number is null, too."""
    if isinstance(value, dict):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


def parsed(kind, body):
    message = kind()
    message.MergeFromString(body)
    return message


@drawn
@given(random_choices)
def test_columns_and_json_have_the_values_that_protobuf_reads(random):
    proto, kind, bodies = messages_of(random)
    tally("value", "protobuf", len(bodies))
    schema, payloads = proto.schema(), [HEADER + body for body in bodies]
    wanted = [parsed(kind, body) for body in bodies]
    for target in ({"reader": schema}, {"union": [schema]}):
        for got, want in zip(rows_of(decoded(schema, payloads, **target)), wanted, strict=True):
            assert list(got) == [field.name for field in want.DESCRIPTOR.fields]
            assert is_same(got, typed(want)), (got, typed(want))
    for got, want in zip(rows_of(decoded(schema, payloads)), wanted, strict=True):
        assert is_same_json(got.value, as_json(want)), (got, as_json(want))


@drawn
@given(random_choices)
def test_json_is_encoded_to_what_protobuf_reads_and_decodes_to_the_same_json(random):
    proto, kind, bodies = messages_of(random)
    # The others lack a required field.
    bodies = [body for body in bodies if parsed(kind, body).IsInitialized()]
    again = check_again(proto.schema(), [HEADER + body for body in bodies], without_nulls)
    for body, payload in zip(bodies, again, strict=True):
        assert payload.startswith(HEADER)
        got, want = (as_json(parsed(kind, one)) for one in (payload[len(HEADER) :], body))
        assert is_same_json(without_nulls(got), without_nulls(want)), (got, want)


def positions(messages, package):
    """Yield the names of messages, those within them too, and their positions: in the file, and in each outer one."""
    for at, message in enumerate(one for one in messages if not one.options.map_entry):
        name = f"{package}.{message.name}" if package else message.name
        yield name, (at,)
        for inner, below in positions(message.nested_type, name):
            yield inner, (at, *below)


@drawn
@given(random_choices)
def test_each_message_of_a_schema_is_encoded_with_its_indexes(random):
    proto, values = proto_of(random)
    _, pool = proto.compiled()
    for name, indexes in positions(proto.file.message_type, proto.file.package):
        kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
        # A zigzag number is twice a number from 0 on.
        shown = b"\0" if indexes == (0,) else bytes([2 * len(indexes), *(2 * index for index in indexes)])
        bodies = [one.SerializeToString() for one in (filled(kind, values) for _ in range(2)) if one.IsInitialized()]
        again = check_again(proto.schema(), [PREFIX + shown + one for one in bodies], without_nulls, name)
        for body, payload in zip(bodies, again, strict=True):
            assert payload.startswith(PREFIX + shown)
            got, want = (as_json(parsed(kind, one)) for one in (payload[len(PREFIX + shown) :], body))
            assert is_same_json(without_nulls(got), without_nulls(want)), (got, want)
    for unknown in (f"{name}x", f"{name}.", f"x.{name}", "", "."):
        with pytest.raises(ValueError, match=r"no message .* is in the schema"):
            encoded(proto.schema(), [], unknown)


@drawn
@given(random_choices)
def test_messages_of_other_versions_are_read_as_protobuf_does(random):
    proto, _, bodies = messages_of(random)
    reader = Reader(proto, random)
    reader_kind, _ = reader.compiled()
    tally("value", "protobuf versions", len(bodies))
    batch = decoded(proto.schema(), [HEADER + body for body in bodies], reader=reader.schema())
    found = values_of(batch)
    for got, error, body in zip(found, batch["error"].to_pylist(), bodies, strict=True):
        try:
            want = typed(parsed(reader_kind, body))
        except DecodeError:
            # A value that another one of its oneof replaces is not read.
            assert error or "oneof" in reader.text()
        except ValueError:
            assert error
        else:
            if error == "a string is not UTF-8" and not proto.is_proto3:
                continue  # Python's protobuf returns the bytes
            assert not error, error
            assert is_same(got, want), (got, want)


@drawn
@given(random_choices)
def test_columns_of_all_versions_have_the_values_of_each(random):
    proto, values = proto_of(random)
    versions = [proto, Reader(proto, random)]
    union = [one.schema() for one in versions]
    for one in versions:
        kind, _ = one.compiled()
        schema = one.schema()
        payloads = [HEADER + other_form(filled(kind, values), values) for _ in range(3)]
        own, batch = (decoded(schema, payloads, **target) for target in ({"reader": schema}, {"union": union}))
        assert batch["error"].to_pylist() == own["error"].to_pylist()
        for got, want in zip(values_of(batch), values_of(own), strict=True):
            assert is_within(got, want), (got, want)


@drawn
@given(random_choices)
def test_damaged_messages_change_no_other_row(random):
    proto, values = proto_of(random)
    kind, _ = proto.compiled()
    messages = [filled(kind, values) for _ in range(4)]
    payloads = [None, b"no frame"]
    for message in messages:
        body = message.SerializePartialToString()
        payloads += [HEADER + mutated(body, values) for _ in range(6)]
        payloads.append(HEADER + body)
    tally("value", "protobuf damaged", len(payloads))
    schema = proto.schema()
    batch, json_batch = decoded(schema, payloads, reader=schema), decoded(schema, payloads)
    is_typed, is_json = check_rows(batch, payloads), check_rows(json_batch, payloads)
    assert batch.nbytes < 1 << 20
    found = values_of(batch)
    assert all(map(is_same, found[8::7], map(typed, messages)))
    for row, payload in enumerate(payloads[2:], 2):
        try:
            want = typed(parsed(kind, payload[len(HEADER) :]))
        except (DecodeError, TypeError, ValueError):
            want = None
        if is_typed[row]:
            assert is_json[row]
            # In proto2, Python's protobuf leaves out the unknown numbers of enums.
            if want is not None and proto.is_proto3:
                assert is_same(_with_entries_of(found[row], want), want), (found[row], want)
        elif is_json[row] and want is not None:
            error = batch["error"][row].as_py()
            # JSON text does not have a text that another value of its oneof replaces.
            assert error.startswith("a time does not fit") or (error == "a string is not UTF-8" and not proto.is_proto3)


def proto(*lines):
    return "PROTOBUF", 'syntax = "proto3";\n' + "\n".join(lines), []


def test_a_field_of_several_types_has_its_default_as_json():
    first = proto("message M { int32 a = 1; repeated int32 b = 2; optional int32 c = 3; }")
    second = proto("message M { string a = 1; string b = 2; string c = 3; }")
    payloads = [HEADER, HEADER + b"\x08\x05\x12\x01\x07\x18\x09"]
    found = rows_of(decoded(first, payloads, union=[first, second]))
    assert [{name: value and value.value for name, value in row.items()} for row in found] == [
        {"a": 0, "b": [], "c": None},
        {"a": 5, "b": [7], "c": 9},
    ]


def test_parts_of_a_microsecond_are_dropped():
    schema = proto('import "google/protobuf/duration.proto";', "message M { google.protobuf.Duration d = 1; }")
    durations = [duration_pb2.Duration(seconds=-1, nanos=-1), duration_pb2.Duration(nanos=-1999)]
    bodies = [one.SerializeToString() for one in durations]
    payloads = [HEADER + b"\x0a" + varint(len(body)) + body for body in bodies]
    assert rows_of(decoded(schema, payloads, reader=schema)) == [{"d": -1_000_000}, {"d": -1}]


def test_a_chain_of_messages_does_not_overflow_the_stack():
    schema = proto(*(f"message M{n} {{ M{n + 1} f = 1; }}" for n in range(9000)), "message M9000 { int32 f = 1; }")
    body = b""
    for _ in range(30):
        body = b"\x0a" + varint(len(body)) + body
    (row,) = rows_of(decoded(schema, [HEADER + body], reader=schema))
    depth = 0
    while isinstance(row, dict):
        row, depth = row["f"], depth + 1
    assert (depth, isinstance(row, Json)) == (20, True)
