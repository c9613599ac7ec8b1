"""A Protobuf schema that is a descriptor in base64, as some clients register it."""

import base64
import random as randoms

import pytest
from hypothesis import given

pytest.importorskip("google.protobuf")
from google.protobuf import descriptor_pb2, duration_pb2

from support import typed
from support.drawn import drawn, random_choices
from support.protobuf_schemas import Reader, filled, other_form, proto_of

HEADER = typed.PREFIX + b"\0"
F = descriptor_pb2.FieldDescriptorProto


def in_base64(file):
    return base64.b64encode(file.SerializeToString()).decode()


def schema(file, *references):
    return "PROTOBUF", in_base64(file), [(one.name, in_base64(one)) for one in references]


def rows(batch):
    return repr([typed.plain(batch[column]) for column in ("decoded", "error")])


@drawn
@given(random_choices)
def test_a_descriptor_decodes_as_its_text_does(random):
    proto, values = proto_of(random)
    kind, _ = proto.compiled()
    bodies = [other_form(filled(kind, values), values) for _ in range(4)]
    payloads = [HEADER + one for body in bodies for one in (body, typed.mutated(body, values))]
    reader = Reader(proto, random)
    text, own = proto.schema(), schema(proto.file)
    for target, own_target in (
        ({}, {}),
        ({"reader": text}, {"reader": own}),
        ({"reader": reader.schema()}, {"reader": schema(reader.file)}),
        ({"union": [text, reader.schema()]}, {"union": [own, schema(reader.file)]}),
    ):
        want, found = typed.decoded(text, payloads, **target), typed.decoded(own, payloads, **own_target)
        assert found.schema.field("decoded").type == want.schema.field("decoded").type
        assert rows(found) == rows(want)


def test_a_descriptor_of_the_client_is_read():
    """`duration.proto` as Python's protobuf has it, with the options of its file."""
    text = base64.b64encode(duration_pb2.DESCRIPTOR.serialized_pb).decode()
    value = duration_pb2.Duration(seconds=3, nanos=500_000_000)
    for one in (text, f" {text}\n"):
        batch = typed.decoded(("PROTOBUF", one, []), [HEADER + value.SerializeToString()])
        assert batch["decoded"].to_pylist() == ['"3.500s"']


def file_of(name, **more):
    file = descriptor_pb2.FileDescriptorProto(name=name, syntax="proto3", **more)
    return file, file.message_type.add(name=f"M{name[0]}")


def test_a_descriptor_imports_texts_and_descriptors_by_their_names():
    main, message = file_of("main.proto", dependency=["b/other.proto", "text.proto"])
    other, inner = file_of("b/other.proto", package="b", dependency=["text.proto"])
    message.field.add(name="b", number=1, type=F.TYPE_MESSAGE, type_name=".b.Mb", label=F.LABEL_REPEATED)
    inner.field.add(name="t", number=2, type=F.TYPE_ENUM, type_name=".E", label=F.LABEL_OPTIONAL)
    text = ("text.proto", 'syntax = "proto3"; enum E { ZERO = 0; ONE = 1; }')
    writer = ("PROTOBUF", in_base64(main), [text, ("b/other.proto", in_base64(other))])
    body = b"\x0a\x02\x10\x01\x0a\x00"
    for one in (writer, ("PROTOBUF", MAIN, writer[2])):
        batch = typed.decoded(one, [HEADER + body], reader=one)
        assert typed.rows_of(batch) == [{"b": [{"t": "ONE"}, {"t": "ZERO"}]}]
    batch = typed.decoded(("PROTOBUF", in_base64(main), [text]), [HEADER + body])
    assert "the type .b.Mb of the field b is not defined" in batch["error"][0].as_py()
    broken = [text, ("b/other.proto", "QUJD")]
    batch = typed.decoded(("PROTOBUF", in_base64(main), broken), [HEADER + body])
    assert "b/other.proto: the schema is no .proto file, and as base64 it is no" in batch["error"][0].as_py()


MAIN = 'syntax = "proto3"; import "b/other.proto"; message M { repeated b.Mb b = 1; }'


def test_groups_maps_extensions_and_required_fields():
    file = descriptor_pb2.FileDescriptorProto(name="old.proto", package="o", syntax="proto2")
    message = file.message_type.add(name="M")
    message.nested_type.add(name="Group").field.add(name="n", number=1, type=F.TYPE_SINT32, label=F.LABEL_OPTIONAL)
    entry = message.nested_type.add(name="PartsEntry")
    entry.options.map_entry = True
    for number, name in enumerate(("key", "value"), 1):
        entry.field.add(name=name, number=number, type=F.TYPE_BOOL, label=F.LABEL_OPTIONAL)
    message.field.add(name="parts", number=2, type=F.TYPE_MESSAGE, type_name=".o.M.PartsEntry", label=F.LABEL_REPEATED)
    message.nested_type.add(name="Last").field.add(name="x", number=1, type=F.TYPE_BOOL, label=F.LABEL_REQUIRED)
    message.field.add(name="group", number=1, type=F.TYPE_GROUP, type_name=".o.M.Group", label=F.LABEL_REPEATED)
    message.extension_range.add(start=100, end=200)
    file.extension.add(name="more", number=100, extendee=".o.M", type=F.TYPE_STRING, label=F.LABEL_OPTIONAL)
    body = b"\x0b\x08\x03\x0c" + b"\x12\x04\x08\x01\x10\x00" + b"\xa2\x06\x01e"
    # The client counts the types of groups and of maps, too.
    last = typed.PREFIX + b"\4\0\4" + b"\x08\x01"
    batch = typed.decoded(schema(file), [HEADER + body, last])
    wanted = '{"parts":{"true":false},"group":[{"n":-2}],"[o.more]":"e"}'
    assert batch["decoded"].to_pylist() == [wanted, '{"x":true}']
    assert typed.encoded(schema(file), ['{"x":true}'], "o.M.Last") == [last]
    with pytest.raises(ValueError, match="the field x is required"):
        typed.encoded(schema(file), ["{}"], "o.M.Last")


def test_features_of_an_edition():
    file = descriptor_pb2.FileDescriptorProto(name="new.proto", syntax="editions", edition="EDITION_2023")
    file.options.features.field_presence = descriptor_pb2.FeatureSet.IMPLICIT
    message = file.message_type.add(name="M")
    for number, name in enumerate(("a", "b"), 1):
        message.field.add(name=name, number=number, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL)
    message.field[1].options.features.field_presence = descriptor_pb2.FeatureSet.EXPLICIT
    batch = typed.decoded(schema(file), [HEADER], reader=schema(file))
    assert typed.rows_of(batch) == [{"a": 0, "b": None}]


def _changed(**more):
    file, message = file_of("m.proto")
    message.field.add(name="f", number=1, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL)
    for name, value in more.items():
        setattr(message.field[0] if name != "package" else file, name, value)
    return in_base64(file)


NO_DESCRIPTOR = "the schema is no .proto file, and as base64 it is no FileDescriptorProto: "


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("hello", "line 1: a declaration was expected, not"),
        ("message M {", "line 1: a field was expected, not the end"),
        ("QUJD", f"{NO_DESCRIPTOR}a value has "),
        ("Cg==", f"{NO_DESCRIPTOR}the body ends within a number"),
        (base64.b64encode(b"\x62\x06proto3").decode(), f"{NO_DESCRIPTOR}the file has no name"),
        (_changed(name='a"b'), f'{NO_DESCRIPTOR}"a\\"b" is no name'),
        (_changed(number=0), f"{NO_DESCRIPTOR}the field f has no valid number"),
        (_changed(number=-1), f"{NO_DESCRIPTOR}the field f has no valid number"),
        (_changed(type=F.TYPE_MESSAGE), f"{NO_DESCRIPTOR}the field f has no valid type"),
        (_changed(oneof_index=0), f"{NO_DESCRIPTOR}a field is of a oneof that is not there"),
        (_changed(package="a..b"), f'{NO_DESCRIPTOR}"a..b" is no name'),
        (_changed(type=F.TYPE_MESSAGE, type_name=".N"), "the type .N of the field f is not defined"),
        ("// comment", "the schema has no message"),
    ],
)
def test_what_is_neither_a_text_nor_a_descriptor_is_refused(text, error):
    batch = typed.decoded(("PROTOBUF", text, []), [HEADER])
    assert error in batch["error"][0].as_py()


@pytest.mark.parametrize("seed", range(20))
def test_damaged_descriptors_harm_nothing(seed):
    random = randoms.Random(seed)
    proto, values = proto_of(random)
    kind, _ = proto.compiled()
    payload = HEADER + filled(kind, values).SerializePartialToString()
    for _ in range(20):
        text = base64.b64encode(typed.mutated(proto.file.SerializeToString(), random)).decode()
        typed.check_rows(typed.decoded(("PROTOBUF", text, []), [payload]), [payload])
