"""Random Protobuf schemas, later versions of them, and bodies of their messages."""

import math
import random as randoms
import struct

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    json_format,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)

F = descriptor_pb2.FieldDescriptorProto
KNOWN = (any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
SCALARS = (
    *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
    *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"),
)
KEYS = tuple(name for name in SCALARS if name not in ("double", "float", "bytes"))
WRAPPERS = tuple(f"google.protobuf.{name}" for name in wrappers_pb2.DESCRIPTOR.message_types_by_name)
BARE_JSON = tuple(f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue", "FieldMask", "Any"))
TIMES = ("google.protobuf.Timestamp", "google.protobuf.Duration")
MESSAGES = (*WRAPPERS, *BARE_JSON, *TIMES, "google.protobuf.Empty")
NUMBER_NAMES = {value: name.removeprefix("TYPE_").lower() for name, value in F.Type.items()}


class Proto:
    """A random schema: a descriptor of a file, whose first message is the one that is decoded."""

    def __init__(self, random):
        self.random = random
        self.file = descriptor_pb2.FileDescriptorProto(
            name="main.proto",
            syntax=random.choice(["proto2", "proto3", "proto3"]),
            package=random.choice(["", "t", "a.b"]),
        )
        self.is_proto3 = self.file.syntax == "proto3"
        self.messages, self.enums, self.count, self.reserved = {}, [], 0, {}
        package = f".{self.file.package}" if self.file.package else ""
        self._declare(self.file.message_type, self.file.enum_type, package, 0)
        for name, message in list(self.messages.items()):
            self._fill(name, message)
        self.import_known()

    def import_known(self):
        """Import the files of the types that fields have."""
        del self.file.dependency[:]
        text = str(self.file)
        for one in KNOWN:
            types = (*one.DESCRIPTOR.message_types_by_name, *one.DESCRIPTOR.enum_types_by_name)
            if any(f'".google.protobuf.{name}"' in text for name in types):
                self.file.dependency.append(one.DESCRIPTOR.name)

    def _declare(self, messages, enums, scope, depth):
        random = self.random
        for _ in range(random.randint(depth == 0, 3 if depth == 0 else 1)):
            name = f"{random.choice('MNm')}{len(self.messages)}"
            message = messages.add(name=name)
            self.messages[f"{scope}.{name}"] = message
            if depth < 2:
                self._declare(message.nested_type, message.enum_type, f"{scope}.{name}", depth + 1)
        for _ in range(random.randint(0, 1)):
            name = f"E{len(self.enums)}"
            self.enums.append(f"{scope}.{name}")
            self._fill_enum(enums.add(name=name))

    def _fill_enum(self, enum):
        random = self.random
        numbers = [0 if self.is_proto3 else random.choice([0, 5, -3])]
        numbers += random.sample([1, 2, 7, -1, 2**31 - 1, -(2**31)], random.randint(0, 4))
        if random.random() < 0.3:
            enum.options.allow_alias = True
            numbers.append(random.choice(numbers))
        for at, number in enumerate(numbers):
            enum.value.add(name=f"{enum.name}_V{at}", number=number)

    def _fill(self, name, message):
        random = self.random
        for _ in range(random.choice([0, 1, 2, 3, 5])):
            self.add(name, message)
        for _ in range(random.choice([0, 0, 1, 2])):
            at = len(message.oneof_decl)
            message.oneof_decl.add(name=f"o{at}_{len(message.field)}")
            for _ in range(random.randint(1, 3)):
                self.add(name, message, oneof=at)
        self.settle(message)

    def add(self, scope, message, *, oneof=None):
        """Add a random field to a message."""
        random = self.random
        used = {field.number for field in message.field} | self.reserved.get(scope, set())
        number = random.choice([n for n in (*range(1, 25), 100, 536870911) if n not in used])
        self.count += 1
        field = message.field.add(name=f"{random.choice(['f', 'snake_case', 'camelCase'])}{self.count}", number=number)
        field.label = F.LABEL_OPTIONAL
        if oneof is not None:
            field.oneof_index = oneof
            self._type(field)
            return
        kind = random.random()
        if kind < 0.15:
            self._map(scope, message, field)
            return
        self._type(field)
        if kind < 0.4:
            field.label = F.LABEL_REPEATED
            if is_packable(field) and random.random() < 0.5:
                field.options.packed = random.random() < 0.5
        elif self.is_proto3:
            field.proto3_optional = kind < 0.6
        elif kind < 0.5:
            field.label = F.LABEL_REQUIRED

    def _type(self, field):
        random = self.random
        kind = random.random()
        if kind < 0.5:
            field.type = F.Type.Value(f"TYPE_{random.choice(SCALARS).upper()}")
        elif kind < 0.6 and self.enums:
            field.type, field.type_name = F.TYPE_ENUM, random.choice(self.enums)
        elif kind < 0.63:
            field.type, field.type_name = F.TYPE_ENUM, ".google.protobuf.NullValue"
        elif kind < 0.8:
            field.type, field.type_name = F.TYPE_MESSAGE, f".{random.choice(MESSAGES)}"
        else:
            field.type, field.type_name = F.TYPE_MESSAGE, random.choice(list(self.messages))

    def _map(self, scope, message, field):
        entry_name = "".join(part[:1].upper() + part[1:] for part in field.name.split("_")) + "Entry"
        entry = message.nested_type.add(name=entry_name)
        entry.options.map_entry = True
        kind = F.Type.Value(f"TYPE_{self.random.choice(KEYS).upper()}")
        entry.field.add(name="key", number=1, label=F.LABEL_OPTIONAL, type=kind)
        value = entry.field.add(name="value", number=2, label=F.LABEL_OPTIONAL)
        while not value.HasField("type") or (value.type == F.TYPE_ENUM and not self.is_proto3):
            # The first number of an enum in a map must be 0.
            value.ClearField("type_name")
            self._type(value)
        field.label, field.type, field.type_name = F.LABEL_REPEATED, F.TYPE_MESSAGE, f"{scope}.{entry.name}"

    def settle(self, message):
        """Give each optional field of proto3 its oneof, which comes after the others."""
        for field in message.field:
            if field.proto3_optional:
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")

    def text(self):
        """Return the schema as a .proto file."""
        lines = [f'syntax = "{self.file.syntax}";']
        if self.file.package:
            lines.append(f"package {self.file.package};")
        lines += [f'import "{path}";' for path in self.file.dependency]
        lines += [_enum_text(one) for one in self.file.enum_type]
        lines += [self._message_text(one) for one in self.file.message_type]
        return "\n".join(lines)

    def _message_text(self, message):
        entries = {one.name: one for one in message.nested_type if one.options.map_entry}
        lines = [_enum_text(one) for one in message.enum_type]
        lines += [self._message_text(one) for one in message.nested_type if one.name not in entries]
        oneofs = {}
        for field in message.field:
            text = self._field_text(field, entries)
            if field.HasField("oneof_index") and not field.proto3_optional:
                oneofs.setdefault(field.oneof_index, []).append(text)
            else:
                lines.append(text)
        # The fields of a message have the order of the file, oneof or not.
        for at, fields in oneofs.items():
            lines.append(f"oneof {message.oneof_decl[at].name} {{\n{chr(10).join(fields)}\n}}")
        return f"message {message.name} {{\n" + "\n".join(lines) + "\n}"

    def _field_text(self, field, entries):
        entry = entries.get(field.type_name.rpartition(".")[2])
        if entry is not None:
            key, value = entry.field
            return f"map<{_type_text(key)}, {_type_text(value)}> {field.name} = {field.number};"
        label = {F.LABEL_REPEATED: "repeated ", F.LABEL_REQUIRED: "required "}.get(field.label, "")
        if not label and (field.proto3_optional or not (self.is_proto3 or field.HasField("oneof_index"))):
            label = "optional "
        options = f" [packed = {str(field.options.packed).lower()}]" if field.options.HasField("packed") else ""
        return f"{label}{_type_text(field)} {field.name} = {field.number}{options};"

    def compiled(self):
        """Return the class of the first message, and the pool of all."""
        pool = descriptor_pool.DescriptorPool()
        for one in KNOWN:
            pool.AddSerializedFile(one.DESCRIPTOR.serialized_pb)
        pool.AddSerializedFile(self.file.SerializeToString())
        first = pool.FindFileByName("main.proto").message_types_by_name[self.file.message_type[0].name]
        return message_factory.GetMessageClass(first), pool

    def schema(self):
        return "PROTOBUF", self.text(), []


def is_packable(field):
    return field.type not in (F.TYPE_STRING, F.TYPE_BYTES, F.TYPE_MESSAGE)


def _type_text(field):
    return field.type_name or NUMBER_NAMES[field.type]


def _enum_text(enum):
    alias = "option allow_alias = true; " if enum.options.allow_alias else ""
    return f"enum {enum.name} {{ {alias}{' '.join(f'{one.name} = {one.number};' for one in enum.value)} }}"


class Reader(Proto):
    """A later version of a schema."""

    def __init__(self, writer, random):
        self.random = random
        self.file = descriptor_pb2.FileDescriptorProto()
        self.file.CopyFrom(writer.file)
        self.is_proto3, self.enums, self.count = writer.is_proto3, writer.enums, 1000
        self.messages = {}
        # No version may give the number of another field to a new one.
        self.reserved = {name: {field.number for field in one.field} for name, one in writer.messages.items()}
        self._collect(self.file.message_type, f".{self.file.package}" if self.file.package else "")
        for name, message in list(self.messages.items()):
            self._change(name, message)
        self.import_known()

    def _collect(self, messages, scope):
        for message in messages:
            if not message.options.map_entry:
                self.messages[f"{scope}.{message.name}"] = message
                self._collect(message.nested_type, f"{scope}.{message.name}")

    def _change(self, name, message):  # noqa: C901 - a case for each type
        random = self.random
        fields = [field for field in message.field if random.random() < 0.8]
        for field in fields:
            field.ClearField("oneof_index") if field.proto3_optional else None
            if random.random() < 0.1:
                field.name = f"renamed_{field.number}"
            if field.type not in (F.TYPE_MESSAGE, F.TYPE_ENUM) and random.random() < 0.3:
                # Some are not compatible: then the values are those of unknown fields.
                field.type = F.Type.Value(f"TYPE_{random.choice(SCALARS).upper()}")
                field.ClearField("options")
            if field.type != F.TYPE_MESSAGE and random.random() < 0.1 and not field.HasField("oneof_index"):
                field.label = random.choice([F.LABEL_OPTIONAL, F.LABEL_REPEATED])
                field.proto3_optional = False
                field.ClearField("options")
        # The last oneofs are those of optional fields.
        kept = sorted({field.oneof_index for field in fields if field.HasField("oneof_index")})
        names = [message.oneof_decl[at].name for at in kept]
        for field in fields:
            if field.HasField("oneof_index"):
                field.oneof_index = kept.index(field.oneof_index)
        copies = [F.FromString(field.SerializeToString()) for field in fields]
        random.shuffle(copies)
        in_oneofs = [field for field in copies if field.HasField("oneof_index")]
        copies = [field for field in copies if not field.HasField("oneof_index")] + sorted(
            in_oneofs, key=lambda field: field.oneof_index
        )
        del message.field[:], message.oneof_decl[:]
        message.field.extend(copies)
        for one in names:
            message.oneof_decl.add(name=one)
        for _ in range(random.choice([0, 0, 1, 2])):
            self.add(name, message)
        for oneof in range(len(names)):
            if random.random() < 0.2:
                self.add(name, message, oneof=oneof)
        # As in the text, the fields of oneofs come last.
        ordered = sorted(message.field, key=lambda field: field.oneof_index if field.HasField("oneof_index") else -1)
        copies = [F.FromString(field.SerializeToString()) for field in ordered]
        del message.field[:]
        message.field.extend(copies)
        self.settle(message)


TEXTS = ("", "a", "ß", "日本", "😀", 'q"\\\n\x01', "x" * 70)
NUMBERS = {
    "INT32": (0, 1, -1, 300, 2**31 - 1, -(2**31)),
    "INT64": (0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63)),
    "UINT32": (0, 1, 300, 2**32 - 1),
    "UINT64": (0, 1, 2**53 + 1, 2**64 - 1),
}
FLOATS = (0.0, -0.0, 1.5, 1e-45, 3.4028234663852886e38, math.inf, -math.inf, math.nan)


def random_scalar(field, random):
    if field.enum_type is not None:
        if not field.enum_type.is_closed and random.random() < 0.2:
            return random.choice([9999, -77])
        return random.choice(field.enum_type.values).number
    match field.cpp_type:
        case field.CPPTYPE_INT32 | field.CPPTYPE_INT64 | field.CPPTYPE_UINT32 | field.CPPTYPE_UINT64:
            name = next(name for name in NUMBERS if getattr(field, f"CPPTYPE_{name}") == field.cpp_type)
            return random.choice(NUMBERS[name])
        case field.CPPTYPE_FLOAT:
            return random.choice([*FLOATS, struct.unpack("<f", random.randbytes(4))[0]])
        case field.CPPTYPE_DOUBLE:
            return random.choice([*FLOATS, 0.1, 1e300, 5e-324, struct.unpack("<d", random.randbytes(8))[0]])
        case field.CPPTYPE_BOOL:
            return random.random() < 0.5
    return random.choice(TEXTS) if field.type == field.TYPE_STRING else random.randbytes(random.choice([0, 1, 5]))


def fill(message, random, depth=0):  # noqa: C901 - a case for each type
    """Set random fields of a message."""
    match message.DESCRIPTOR.full_name:
        case "google.protobuf.Timestamp":
            message.seconds = random.choice([0, 1, -1, random.randint(-62135596800, 253402300799)])
            message.nanos = random.choice([0, 1, 999, 999999999, 500000000, 123456000])
        case "google.protobuf.Duration":
            sign = random.choice([1, -1])
            message.seconds = sign * random.choice([0, 1, 315576000000, 77])
            message.nanos = sign * random.choice([0, 1, 999, 999999999, 500000000, 1000])
        case "google.protobuf.FieldMask":
            message.paths.extend(random.sample(["a", "a_b", "foo_bar.baz_q", "x.y"], random.randint(0, 3)))
        case "google.protobuf.Struct":
            json_format.ParseDict({key: random_json(random) for key in random.sample(TEXTS, 2)}, message)
        case "google.protobuf.ListValue":
            json_format.ParseDict([random_json(random) for _ in range(random.randint(0, 3))], message)
        case "google.protobuf.Value":
            json_format.ParseDict(random_json(random), message)
        case "google.protobuf.Any":
            if random.random() < 0.7:
                inner = timestamp_pb2.Timestamp(seconds=random.randint(0, 10**9))
                message.type_url = "type.googleapis.com/google.protobuf.Timestamp"
                message.value = inner.SerializeToString()
        case _:
            fields = list(message.DESCRIPTOR.fields)
            random.shuffle(fields)
            for field in fields:
                if random.random() < (0.7 if depth < 3 else 0.3) and (depth < 6 or field.message_type is None):
                    fill_field(message, field, random, depth)


def random_json(random, depth=0):
    simple = [None, 0.0, -2.5, 1e100, random.choice(TEXTS), True]
    match random.randrange(8 if depth < 3 else 6):
        case 6:
            return [random_json(random, depth + 1) for _ in range(random.randint(0, 2))]
        case 7:
            return {key: random_json(random, depth + 1) for key in random.sample(TEXTS, random.randint(0, 2))}
        case at:
            return simple[at]


def fill_field(message, field, random, depth):
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        found = getattr(message, field.name)
        for _ in range(random.randint(0, 3)):
            if value.message_type is not None:
                fill(found[random_scalar(key, random)], random, depth + 1)
            else:
                found[random_scalar(key, random)] = random_scalar(value, random)
    elif field.is_repeated:
        found = getattr(message, field.name)
        for _ in range(random.randint(0, 3)):
            if field.message_type is not None:
                fill(found.add(), random, depth + 1)
            else:
                found.append(random_scalar(field, random))
    elif field.message_type is not None:
        found = getattr(message, field.name)
        found.SetInParent()
        fill(found, random, depth + 1)
    else:
        setattr(message, field.name, random_scalar(field, random))


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def read_varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def pieces(data):
    """Return the fields of a message without groups: tags, and tags with their values."""
    out, at = [], 0
    while at < len(data):
        start = at
        tag, at = read_varint(data, at)
        match tag & 7:
            case 0:
                _, at = read_varint(data, at)
            case 1:
                at += 8
            case 2:
                length, at = read_varint(data, at)
                at += length
            case 5:
                at += 4
        out.append((tag, data[start:at]))
    return out


UNKNOWN = varint(2999 << 3 | 2) + b"\x03abc" + varint(2998 << 3 | 3) + b"\x08\x01" + varint(2998 << 3 | 4)


def other_form(message, random):
    """Return another encoding of a message, or of one like it."""
    body = message.SerializePartialToString()
    match random.randrange(5):
        case 0:  # two messages one after the other are merged
            other = type(message)()
            fill(other, random)
            return body + other.SerializePartialToString()
        case 1:
            found = pieces(body)
            random.shuffle(found)
            return b"".join(piece for _, piece in found)
        case 2:
            at = random.choice([0, len(body)])
            return body[:at] + UNKNOWN + body[at:]
        case 3:
            return _split(message.DESCRIPTOR, body, random)
    return body


def _split(descriptor, body, random):
    """Return a body whose messages are in two parts each, and whose lists are packed and not packed."""
    out = bytearray()
    for tag, piece in pieces(body):
        field = descriptor.fields_by_number.get(tag >> 3)
        _, start = read_varint(piece, 0)
        if tag & 7 != 2 or field is None:
            out += piece
            if field is not None and field.is_repeated and is_packable(field):
                out += varint(tag & ~7 | 2) + varint(len(piece) - start) + piece[start:]
        elif field.message_type is not None and not field.is_repeated:
            _, start = read_varint(piece, start)
            inner = pieces(piece[start:])
            at = random.randint(0, len(inner))
            for part in (inner[:at], inner[at:]):
                value = b"".join(one for _, one in part)
                out += varint(tag) + varint(len(value)) + value
        elif is_packable(field) and field.is_repeated:
            _, start = read_varint(piece, start)
            # One after the other, and as a list once more.
            at = start
            while at < len(piece):
                wire = {"double": 1, "fixed64": 1, "sfixed64": 1, "float": 5, "fixed32": 5, "sfixed32": 5}
                form = wire.get(NUMBER_NAMES[field.type], 0)
                end = {1: at + 8, 5: at + 4}.get(form) or read_varint(piece, at)[1]
                out += varint(tag & ~7 | form) + piece[at:end]
                at = end
            out += piece
        else:
            out += piece
    return bytes(out)


def proto_of(random):
    """Return a random schema, and a source of values."""
    return Proto(random), randoms.Random(random.getrandbits(32))


def filled(kind, random):
    message = kind()
    fill(message, random)
    return message


def messages_of(random):
    """Return a schema, its class, and bodies of messages, in forms that other writers may give them."""
    proto, values = proto_of(random)
    kind, _ = proto.compiled()
    return proto, kind, [other_form(filled(kind, values), values) for _ in range(6)]
