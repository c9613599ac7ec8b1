"""Random Avro schemas, later versions of them, and bodies of their values."""

import copy
import datetime as dt
import json
import math
import random as randoms
import struct
import sys
import uuid

from support.typed import PREFIX

LOGICAL = {
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "timestamp-nanos": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
    "local-timestamp-nanos": "long",
    "decimal": "bytes",
    "uuid": "string",
    "fixed-decimal": "fixed",
    "fixed-uuid": "fixed",
    "duration": "fixed",
}
"""The logical types, and those that they are stored as."""
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
UNITS = {"millis": 10**3, "micros": 10**6, "nanos": 10**9}
LEAST_SECOND, MOST_SECOND = -62135596800, 253402300799  # the years 1 to 9999
FIRST_DAY = dt.date(1970, 1, 1).toordinal()


class Branch:
    """A value of a union, and the position of its branch."""

    def __init__(self, at, value):
        self.at, self.value = at, value


class Schema:
    """A random schema: `root`, in which named types are only named, and their definitions."""

    def __init__(self, random):
        self.random = random
        self.names = {}
        self.spaces = random.choice([("",), ("a.b.", "c.")])
        self._open = []
        self._left = 40
        self.root = self.type(0) if random.random() < 0.2 else self.record(0)

    def type(self, depth, without=frozenset()):
        """Return a type whose kind is none of `without`."""
        random = self.random
        self._left -= 1
        kinds = [*PRIMITIVES, *PRIMITIVES, *LOGICAL, "enum", "fixed"]
        if depth < 4 and self._left > 0:
            kinds += ["record", "array", "map"] * 4 + ([] if "union" in without else ["union"] * 8)
        if self.names and "name" not in without:
            kinds += ["name"] * 4
        while True:
            kind = random.choice(kinds)
            if kind not in without and (LOGICAL.get(kind) not in without or LOGICAL[kind] == "fixed"):
                return self._of(kind, depth, without)

    def _of(self, kind, depth, without):  # noqa: C901 - a case for each type
        random = self.random
        match kind:
            case "name":
                name = random.choice(list(self.names))
                if name not in self._open:
                    return name
                # A record that always has itself has no value.
                return {"type": "array", "items": name} if "array" not in without else self.type(depth, without)
            case "record":
                return self.record(depth)
            case "array":
                return {"type": "array", "items": self.type(depth + 1)}
            case "map":
                return {"type": "map", "values": self.type(depth + 1)}
            case "union":
                return self.union(depth)
            case "enum":
                symbols = random.sample(["A", "B", "C_c", "d", "E0"], random.randint(1, 4))
                named = {"type": "enum", "symbols": symbols}
                if random.random() < 0.5:
                    named["default"] = random.choice(symbols)
                return self.named(named)
            case "fixed":
                return self.named({"type": "fixed", "size": random.choice([0, 1, 3, 16])})
            case "fixed-uuid":
                return self.named({"type": "fixed", "size": 16, "logicalType": "uuid"})
            case "duration":
                return self.named({"type": "fixed", "size": 12, "logicalType": "duration"})
            case "fixed-decimal":
                digits = {1: 2, 5: 11, 16: 38, 17: 40, 32: 76}
                size = random.choice(list(digits))
                return self.named({"type": "fixed", "size": size, **self.decimal(digits[size])})
            case "decimal":
                return {"type": "bytes", **self.decimal(80)}
        if kind in LOGICAL:
            return {"type": LOGICAL[kind], "logicalType": kind}
        return kind if random.random() < 0.8 else {"type": kind}

    def decimal(self, most):
        precision = self.random.choice([1, most, self.random.randint(1, most)])
        decimal = {"logicalType": "decimal", "precision": precision}
        if scale := self.random.choice([0, precision, self.random.randint(0, precision)]):
            decimal["scale"] = scale
        return decimal

    def union(self, depth):
        random = self.random
        branches, seen = [], {"union"}
        wanted = random.choice([1, 2, 2, 2, 3, 4])
        if random.random() < 0.7:
            branches, seen = ["null"], {"union", "null"}
        while len(branches) < wanted:
            branch = self.type(depth + 1, frozenset(seen))
            kind = stored(self, branch)
            if kind not in ("record", "enum", "fixed"):
                seen.add(kind)
            elif branch in self.names:
                # A name stands once in a union, with its definition or without.
                seen.add("name")
            branches.append(branch)
        if self._open and "name" not in seen and random.random() < 0.3:
            name = random.choice(self._open)
            if name not in branches:
                branches.append(name)
        if height(self, branches, tuple(self._open)) == math.inf:
            branches.append("null")
        random.shuffle(branches)
        return branches

    def named(self, definition):
        name = self.full(f"N{len(self.names)}")
        self.names[name] = {"name": name, **definition}
        return name

    def full(self, name):
        """Return a name in a namespace. Within one, a name without one cannot be told."""
        return self.random.choice(self.spaces) + name

    def record(self, depth):
        name = self.named({"type": "record", "fields": []})
        self._open.append(name)
        for number in range(self.random.choice([0, 1, 2, 2, 3, 4, 5])):
            self.names[name]["fields"].append({"name": f"f{number}", "type": self.type(depth + 1)})
        self._open.pop()
        return name

    def text(self):
        """Return the schema as JSON."""
        return json.dumps(self.rendered(), ensure_ascii=self.random.random() < 0.5)

    def rendered(self, *, is_raw=False, is_sorted=False):  # noqa: C901 - a case for each type
        """Return the schema with each definition where its name stands first.

        Args:
            is_raw: without logical types.
            is_sorted: the branches of each union are sorted by `_RANKS`.
        """
        seen = set()

        def render(node, around):  # noqa: C901 - a case for each type
            if isinstance(node, list):
                branches = sorted(node, key=lambda one: _RANKS.get(stored(self, one), -1)) if is_sorted else node
                return [render(one, around) for one in branches]
            if isinstance(node, str) and node not in self.names:
                return node
            made = {} if isinstance(node, str) else dict(node)
            if isinstance(node, str):
                full = self.names[node]["name"]
                space, _, name = full.rpartition(".")
                # A name is that of the namespace around it, or a full one.
                named = name if space == around and ord(name[-1]) % 2 else full
                if node in seen:
                    return named
                seen.add(node)
                made = {**self.names[node], "name": named}
                if space and ord(name[-1]) % 3 == 0:
                    made |= {"name": name, "namespace": space}
                around = space
            for key in _LOGICAL_KEYS if is_raw else ():
                made.pop(key, None)
            if list(made) == ["type"]:
                # fastavro does not find such a type in a union.
                return made["type"] if is_raw else made
            for key in ("items", "values"):
                if key in made:
                    made[key] = render(made[key], around)
            if "fields" in made:
                made["fields"] = [{**field, "type": render(field["type"], around)} for field in made["fields"]]
            return made

        return render(self.root, "")

    def node(self, node):
        """Return the definition of a type."""
        if isinstance(node, str):
            return self.names.get(node, {"type": node})
        return {"type": "union", "branches": node} if isinstance(node, list) else node


# The specification says: "The first schema in the reader's union that matches the (selected) writer's schema is
# recursively resolved against it", and so does fastavro. We first look for the same type, as Java does. Otherwise
# values of ["bytes", "string"] would change their types even without another version. In this order, fastavro finds
# the same type first, except that it takes a string for bytes.
_RANKS = {"int": 0, "long": 1, "float": 2, "double": 3, "bytes": 4, "string": 5}
_LOGICAL_KEYS = ("logicalType", "precision", "scale")


def stored(schema, node):
    """Return the name of the type that values are stored as."""
    return schema.node(node)["type"]


def height(schema, node, within=()):
    """Return the least number of records in a value of a type."""
    found = schema.node(node)
    if found["type"] == "record":
        if node in within:
            return math.inf
        return 1 + max((height(schema, one["type"], (*within, node)) for one in found["fields"]), default=0)
    return min(height(schema, one, within) for one in node) if found["type"] == "union" else 0


TEXTS = ("", "a", "ß", "日本", "😀", 'q"\\\n\x01', "x" * 70)
INTS = {
    "int": (0, 1, -1, 63, 64, -64, -65, 2**31 - 1, -(2**31)),
    "long": (0, 1, -1, 8191, -8193, 2**53 + 1, 2**63 - 1, -(2**63)),
}
FLOATS = (0.0, -0.0, 1.5, -1e-45, 3.4028234663852886e38, math.inf, -math.inf, math.nan)
DOUBLES = (*FLOATS, 0.1, 1e300, 5e-324, 123456789.0)


def random_value(schema, node, random, depth=0):  # noqa: C901 - a case for each type
    """Return a value of a type, with the branch of each union."""
    found = schema.node(node)
    match found.get("logicalType"):
        case "date":
            return random.choice([0, -1, random.randint(1 - FIRST_DAY, dt.date.max.toordinal() - FIRST_DAY)])
        case "time-millis" | "time-micros" as name:
            most = 86400 * UNITS[name.rpartition("-")[2]] - 1
            return random.choice([0, most, random.randint(0, most)])
        case str(name) if "timestamp" in name:
            unit = UNITS[name.rpartition("-")[2]]
            least, most = max(LEAST_SECOND * unit, -(2**63)), min((MOST_SECOND + 1) * unit - 1, 2**63 - 1)
            return random.choice([0, -1, least, most, random.randint(least, most)])
        case "decimal":
            return random_decimal(found, random)
    match found["type"]:
        case "null":
            return None
        case "boolean":
            return random.random() < 0.5
        case "int" | "long" as kind:
            bits = 31 if kind == "int" else 63
            return random.choice([*INTS[kind], random.randint(-(2**bits), 2**bits - 1)])
        case "float":
            return random.choice([*FLOATS, struct.unpack("<f", random.randbytes(4))[0]])
        case "double":
            return random.choice([*DOUBLES, struct.unpack("<d", random.randbytes(8))[0]])
        case "bytes":
            return random.randbytes(random.choice([0, 1, 5, 70]))
        case "string":
            return str(uuid.UUID(bytes=random.randbytes(16))) if "logicalType" in found else random.choice(TEXTS)
        case "fixed":
            return random.randbytes(found["size"])
        case "enum":
            return random.choice(found["symbols"])
        case "array":
            count = random.choice([0, 1, 2, 3] if depth < 5 else [0])
            return [random_value(schema, found["items"], random, depth + 1) for _ in range(count)]
        case "map":
            keys = random.sample(TEXTS, random.choice([0, 1, 2, 3] if depth < 5 else [0]))
            return {key: random_value(schema, found["values"], random, depth + 1) for key in keys}
        case "record":
            fields = found["fields"]
            return {field["name"]: random_value(schema, field["type"], random, depth + 1) for field in fields}
    heights = [height(schema, one) for one in node]
    most = min(heights) if depth > 5 else sys.maxsize
    at = random.choice([at for at, one in enumerate(heights) if one <= most])
    return Branch(at, random_value(schema, node[at], random, depth + 1))


def random_decimal(found, random):
    most = 10 ** found["precision"] - 1
    number = random.choice([0, -1, most, -most, random.randint(-most, most)])
    size = found.get("size")
    if size is None:
        size = number.bit_length() // 8 + 1 + random.choice([0, 0, 0, 3])
        # No bytes are the number 0.
        size = random.choice([0, size]) if number == 0 else size
    return number.to_bytes(size, signed=True)


def encoded(schema, node, value, random):
    """Return a body: arrays and maps in one block or in several, some with their size."""
    out = bytearray()
    _encode(schema, node, value, random, out)
    return bytes(out)


def number(value):
    value, out = value << 1 ^ value >> 63, bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def sized(value):
    return number(len(value)) + value


def _encode(schema, node, value, random, out):  # noqa: C901 - a case for each type
    found = schema.node(node)
    match found["type"]:
        case "boolean":
            out.append(value)
        case "int" | "long":
            out += number(value)
        case "float":
            out += struct.pack("<f", value)
        case "double":
            out += struct.pack("<d", value)
        case "bytes":
            out += sized(value)
        case "string":
            out += sized(value.encode())
        case "fixed":
            out += value
        case "enum":
            out += number(found["symbols"].index(value))
        case "array":
            _blocks([(b"", item) for item in value], schema, found["items"], random, out)
        case "map":
            _blocks([(sized(key.encode()), item) for key, item in value.items()], schema, found["values"], random, out)
        case "record":
            for field in found["fields"]:
                _encode(schema, field["type"], value[field["name"]], random, out)
        case "union":
            out += number(value.at)
            _encode(schema, node[value.at], value.value, random, out)


def _blocks(items, schema, node, random, out):
    while items:
        count = random.randint(1, len(items))
        block = bytearray()
        for key, item in items[:count]:
            block += key
            _encode(schema, node, item, random, block)
        out += number(-count) + number(len(block)) if random.random() < 0.3 else number(count)
        out += block
        items = items[count:]
    out += number(0)


def framed(schema, bodies):
    """Return payloads with the id of the only schema."""
    return [PREFIX + body for body in stored_bodies(schema, bodies)]


def stored_bodies(schema, bodies):
    """Return bodies as serializers write them: without a length if the schema is `bytes`."""
    if schema.root not in ("bytes", {"type": "bytes"}):
        return bodies
    ends = (next(at for at, byte in enumerate(body) if byte < 128) for body in bodies)
    return [body[end + 1 :] for body, end in zip(bodies, ends, strict=True)]


def schema_of(random):
    """Return a random schema, and a source of values."""
    schema = Schema(random)
    return schema, randoms.Random(random.getrandbits(32))


class Reader(Schema):
    """A schema that a writer's schema may be resolved to: the writer's, changed in random ways."""

    def __init__(self, writer, random):
        self.random = random
        self.names, self.spaces = copy.deepcopy(writer.names), writer.spaces
        self._left = 20
        self._pending = []
        self._open = list(self.names)
        for name in list(self.names):
            self._change_named(self.names[name])
        self.root = self._changed(writer.root)
        for field in self._pending:
            value = random_value(self, field["type"], random, 3)
            field["default"] = default_json(self, field["type"], value, random)

    def _is(self, probability):
        return self.random.random() < probability

    def _changed(self, node, taken=()):
        """Return a changed type. `taken` are the types in the union around it, if there is one."""
        random = self.random
        if isinstance(node, list):
            return self._changed_union(node)
        found = self.node(node)
        kind = found["type"]
        if kind in PROMOTED and "logicalType" not in found and self._is(0.4):
            node = random.choice([node, *(one for one in PROMOTED[kind] if one not in taken)])
        elif kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            node = {**node, inner: self._changed(node[inner])}
        if not taken and kind != "null" and self._is(0.15):
            node = ["null", node] if self._is(0.5) else [node, "null"]
        return node

    def _changed_union(self, branches):
        random = self.random
        kinds = [stored(self, one) for one in branches]
        changed = [self._changed(one, kinds) for one in branches]
        if len({stored(self, one) for one in changed}) < len(set(kinds)):
            changed = list(branches)
        if len(changed) > 1 and self._is(0.2):
            left_out = changed.pop(random.randrange(len(changed)))
            if all(stored(self, one) == "record" for one in changed):
                # A record that always has itself has no value.
                changed.append(left_out)
        if self._is(0.3):
            random.shuffle(changed)
        if "null" not in map(str, changed) and self._is(0.3):
            changed.append("null")
        return changed

    def _change_named(self, named):
        random = self.random
        if self._is(0.2):
            # Only names without their namespaces must be the same.
            named["name"] = self.full(named["name"].rpartition(".")[2])
        elif self._is(0.2):
            named["aliases"] = ["x.Old", named["name"]]
            named["name"] = self.full(f"Renamed{named['name'].rpartition('.')[2]}")
        if named["type"] == "enum" and self._is(0.5):
            known = random.sample([*named["symbols"], "New", "Z"], random.randint(1, len(named["symbols"]) + 2))
            named["symbols"] = known
            named.pop("default", None)
            if self._is(0.5):
                named["default"] = random.choice(known)
        if named["type"] == "record":
            self._change_record(named)

    def _change_record(self, record):
        random = self.random
        fields = [{**field, "type": self._changed(field["type"])} for field in record["fields"] if not self._is(0.15)]
        for number, field in enumerate(fields):
            if self._is(0.15):
                field["aliases"] = ["unknown", field["name"]]
                field["name"] = f"renamed{number}"
        for number in range(random.choice([0, 0, 1, 2])):
            field = {"name": f"new{number}", "type": self.type(3)}
            fields.append(field)
            self._pending.append(field)
        if self._is(0.3):
            random.shuffle(fields)
        record["fields"] = fields


PROMOTED = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


def default_json(schema, node, value, random):
    """Return a value as the default of a field."""
    found = schema.node(node)
    match found["type"]:
        case "union":
            return default_json(schema, node[value.at], value.value, random)
        case "record":
            made = {}
            for field in found["fields"]:
                # A field with a default may be missing in a default of its record.
                if "default" not in field or random.random() < 0.5:
                    made[field["name"]] = default_json(schema, field["type"], value[field["name"]], random)
            return made
        case "array":
            return [default_json(schema, found["items"], one, random) for one in value]
        case "map":
            return {key: default_json(schema, found["values"], one, random) for key, one in value.items()}
        case "bytes" | "fixed":
            return value.decode("latin-1")
        case "float" | "double":
            return value if math.isfinite(value) else 0.5
    return value
