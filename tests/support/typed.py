"""Decoded keys and values in a form to compare: columns of Arrow as values of Python, whose dates have no limits."""

import json
from itertools import pairwise

import pyarrow as pa

from brokerless import _native

PREFIX = b"\0\0\0\0\1"
"""The id of the only schema."""


def decoded(writer, payloads, *, headers=None, **target):
    """Decode payloads that name the schema 1, which is `writer`: a type, a text and references."""

    def resolve(name):
        if isinstance(name, int) and name != 1:
            raise ValueError("no such schema")
        return *writer, 1, None, None

    decoder = _native.SchemaDecoder(resolve, **target)
    batch = decoder.decode(pa.array(payloads, pa.binary()), headers)
    batch.validate(full=True)
    assert batch.num_rows == len(payloads)
    return batch


def encoded(writer, texts, message=None):
    """Encode JSON texts with the schema 1, which is `writer`."""
    encoder = _native.ValueEncoder("value", "registry", (1, *writer), message=message)
    field = pa.field("value", pa.string(), metadata={"content-type": "application/json"})
    found = encoder.encode(pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], schema=pa.schema([field])))
    found.validate(full=True)
    return found["value"].to_pylist()


def check_again(writer, payloads, prepared=lambda value: value, message=None):
    """Check that the JSON of payloads is encoded to payloads with the same JSON, and return them."""
    texts = decoded(writer, payloads)["decoded"].to_pylist()
    again = encoded(writer, texts, message)
    for pair in zip(texts, decoded(writer, again)["decoded"].to_pylist(), strict=True):
        # Unlike values of Python, texts differ where 0.0 is not -0.0.
        before, after = (json.dumps(prepared(json.loads(text)), sort_keys=True) for text in pair)
        assert after == before
    return again


def rows_of(batch):
    """Return the values of a batch of rows that all decode."""
    assert batch["error"].to_pylist() == [None] * batch.num_rows
    return values_of(batch)


def values_of(batch):
    """Return the decoded values of a batch; None for rows that do not decode."""
    return plain(batch["decoded"], batch.schema.field("decoded"))


def check_rows(batch, payloads):
    """Check that each row is decoded, or has its bytes and an error. Return for each whether it is decoded."""
    is_decoded = []
    columns = (batch[name].to_pylist() for name in ("bytes", "error", "framing"))
    for row, (payload, kept, error, framing) in enumerate(zip(payloads, *columns, strict=True)):
        is_decoded.append(kept is None and error is None)
        if not is_decoded[-1]:
            assert kept == payload
            assert error or framing == "none"
        if payload is None or not is_decoded[-1]:
            assert not batch["decoded"][row].is_valid
    return is_decoded


def plain(array, field=None):
    """Return the values of a column: maps as pairs, times as numbers, texts that are JSON by its field as `Json`."""
    kind = array.type
    valid = array.is_valid().to_pylist()

    def inner(array, one):
        return plain(array, None if field is None else one)

    if field is not None and (field.metadata or {}).get(b"content-type") == b"application/json":
        found = [None if text is None else Json(json.loads(text)) for text in array.to_pylist()]
    elif pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        columns = {one.name: inner(array.field(i), one) for i, one in enumerate(fields)}
        found = [{name: column[row] for name, column in columns.items()} for row in range(len(array))]
    elif pa.types.is_list(kind):
        found = _parts(array, inner(array.values, kind.value_field))
    elif pa.types.is_map(kind):
        pairs = zip(inner(array.keys, kind.key_field), inner(array.items, kind.item_field), strict=True)
        found = [Pairs(items) for items in _parts(array, list(pairs))]
    elif pa.types.is_temporal(kind):
        found = array.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
    else:
        found = array.to_pylist()
    return [one if is_there else None for one, is_there in zip(found, valid, strict=True)]


def _parts(array, values):
    ends = array.offsets.to_pylist()
    return [values[start:end] for start, end in pairwise(ends)]


class Pairs(list):
    """The keys and values of a map."""


class Json:
    """A value whose column has JSON text."""

    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return f"Json({self.value!r})"


def mutated(body, random):
    """Return a body with a few bytes changed, removed or added."""
    changed = bytearray(body)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(changed) + 1)
        match random.randrange(6):
            case 0:
                del changed[at:]
            case 1:
                del changed[at : at + random.randint(1, 3)]
            case 2:
                changed[at:at] = random.randbytes(random.randint(1, 3))
            case 3:
                changed[at:at] = changed[: random.randrange(8)]
            case _ if changed:
                at %= len(changed)
                changed[at] = random.choice([random.randrange(256), changed[at] ^ 1, 0, 0x7F, 0x80, 0xFF])
    return bytes(changed)


def is_within(got, want):
    """Return whether a column of several versions has the value of one. Json stands for itself."""
    if isinstance(got, Json) or want is None:
        return isinstance(got, Json) or got is None
    if isinstance(want, dict):
        rest = [one for name, one in got.items() if name not in want]
        return rest.count(None) == len(rest) and all(is_within(got[name], one) for name, one in want.items())
    if isinstance(want, Pairs):
        return len(got) == len(want) and all(
            key == own_key and is_within(one, own) for (key, one), (own_key, own) in zip(got, want, strict=True)
        )
    if isinstance(want, list):
        return len(got) == len(want) and all(map(is_within, got, want))
    return got == want or (got != got and want != want) or (isinstance(got, float) and got == float(want))  # noqa: PLR0124
