"""Framed values to Arrow columns, against fastavro, protobuf's own classes, arrow-avro and ptars; and `Schemas`."""

from __future__ import annotations

import io
import json
import statistics
import time
from typing import TYPE_CHECKING, Any

import fastavro
import ptars
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from rivals import DATA, arrow_avro

from brokerless import _native
from brokerless.schemas.store import SchemaStore
from brokerless.spark.source.jvm_decoding import decoding_in_json
from brokerless.values.decoding import Decoding
from brokerless.values.resolution import Target

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS, ROUNDS = 100_000, 15
# The framing: schema 1.
PREFIX = b"\0\0\0\0\1"
RATIO = 20.0
# The other two decode into Arrow as well. ptars leaves enums as numbers; neither has errors of rows.
ARROW_AVRO, PTARS = 0.7, 1.0
VERSIONS, SECONDS, PLAN_SECONDS = 50_000, 2.0, 5.0

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "currency", "type": {"type": "enum", "name": "Currency", "symbols": ["EUR", "USD", "GBP"]}},
        {"name": "note", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {
            "name": "address",
            "type": {
                "type": "record",
                "name": "Address",
                "fields": [{"name": "street", "type": "string"}, {"name": "zip", "type": "int"}],
            },
        },
    ],
}
PROTO = """syntax = "proto3";
message Order {
  int64 id = 1; string customer = 2; double amount = 3; Currency currency = 4; optional string note = 5;
  int64 at = 6; repeated string tags = 7; Address address = 8;
  enum Currency { EUR = 0; USD = 1; GBP = 2; }
  message Address { string street = 1; int32 zip = 2; }
}
"""


def row(number: int) -> dict[str, Any]:
    """Return the fields of an order."""
    return {
        "id": number,
        "customer": f"customer-{number % 1000}",
        "amount": number / 7,
        "currency": ("EUR", "USD", "GBP")[number % 3],
        "note": None if number % 4 else f"note {number}",
        "at": 1_700_000_000_000 + number,
        "tags": [f"tag{tag}" for tag in range(number % 3)],
        "address": {"street": f"street {number % 77}", "zip": number % 90_000},
    }


def main() -> bool:
    """Measure in alternation, in one thread."""
    schema = fastavro.parse_schema(AVRO)
    bodies = []
    for number in range(ROWS):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, row(number))
        bodies.append(out.getvalue())

    def of_fastavro() -> pa.Table:
        return pa.Table.from_pylist([fastavro.schemaless_reader(io.BytesIO(body), schema) for body in bodies])

    DATA.mkdir(parents=True, exist_ok=True)
    schema_file, values = DATA / "order.avsc", DATA / "order.avro-values"
    schema_file.write_text(json.dumps(AVRO))
    values.write_bytes(b"".join(PREFIX + body for body in bodies))
    arrow = arrow_avro(schema_file, values)
    rivals = [("fastavro to a pyarrow table", of_fastavro, RATIO), ("arrow-avro", arrow.seconds, ARROW_AVRO)]
    is_good = compare("Avro", ("AVRO", json.dumps(AVRO), []), [PREFIX + body for body in bodies], rivals)
    arrow.close()

    order = message_class()
    bodies = [message(order, row(number)).SerializeToString() for number in range(ROWS)]

    def of_protobuf() -> pa.Table:
        return pa.Table.from_pylist([fields(order.FromString(body)) for body in bodies])

    array = pa.array(bodies)
    handler = ptars.HandlerPool([order.DESCRIPTOR.file]).get_for_message(order.DESCRIPTOR)

    def of_ptars() -> pa.RecordBatch:
        return handler.array_to_record_batch(array)

    rivals = [("protobuf to a pyarrow table", of_protobuf, RATIO), ("ptars", of_ptars, PTARS)]
    is_good &= compare("Protobuf", ("PROTOBUF", PROTO, []), [PREFIX + b"\0" + body for body in bodies], rivals)
    return load_schemas() and is_good


def compare(
    what: str,
    schema: tuple[str, str, list[tuple[str, str]]],
    values: list[bytes],
    rivals: list[tuple[str, Callable[[], Any], float]],
) -> bool:
    """Compare our decoder with others: the name, the work, and the bar of each. The first one's table is the right one.

    Those in Python get the bodies without their framing. The work of another process returns the seconds it took.
    """
    framed = pa.array(values, pa.binary())

    def ours() -> pa.Table:
        decoder = _native.SchemaDecoder(lambda _id: (*schema, 1, None, None), reader=schema)
        batches, rest = [], framed
        while len(rest):
            batches.append(decoder.decode(rest))
            rest = rest.slice(batches[-1].num_rows)
        return pa.Table.from_batches(batches)

    table = ours()
    assert table["error"].null_count == table.num_rows == ROWS
    columns = table["decoded"].combine_chunks()
    expected = rivals[0][1]()
    for name in ("id", "customer", "amount", "currency", "note", "tags"):
        assert columns.field(name).to_pylist() == expected[name].to_pylist(), name
    times = [(seconds(ours), *(seconds(work) for _, work, _ in rivals)) for _ in range(ROUNDS)]
    # The least time of each: a pass takes some hundredths of a second, to which other programs only add.
    fast, *slow = (min(taken) for taken in zip(*times, strict=True))
    ratios = [taken / fast for taken in slow]
    is_good = all(ratio >= bar for ratio, (_, _, bar) in zip(ratios, rivals, strict=True))
    rate = ROWS / fast / 1e6
    said = [f"{ratio:.2f}x {name} (bar {bar:g})" for ratio, (name, _, bar) in zip(ratios, rivals, strict=True)]
    print(f"values: {what}, {ROWS} rows: {rate:.2f} million rows/s, {', '.join(said)}{'' if is_good else '   BELOW'}")
    return is_good


def seconds(work: Callable[[], object]) -> float:
    """Return the seconds that work takes, by its own measure if it has one."""
    start = time.perf_counter()
    done = work()
    return done if isinstance(done, float) else time.perf_counter() - start


def message_class() -> Any:  # noqa: ANN401 - a class that protobuf makes
    """Return the class of `PROTO`'s message."""
    kind = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", syntax="proto3")
    order = file.message_type.add(name="Order")
    order.enum_type.add(name="Currency")
    for number, name in enumerate(("EUR", "USD", "GBP")):
        order.enum_type[0].value.add(name=name, number=number)
    address = order.nested_type.add(name="Address")
    address.field.add(name="street", number=1, type=kind.TYPE_STRING, label=kind.LABEL_OPTIONAL)
    address.field.add(name="zip", number=2, type=kind.TYPE_INT32, label=kind.LABEL_OPTIONAL)
    for number, (name, of, label, type_name) in enumerate(
        (
            ("id", kind.TYPE_INT64, kind.LABEL_OPTIONAL, ""),
            ("customer", kind.TYPE_STRING, kind.LABEL_OPTIONAL, ""),
            ("amount", kind.TYPE_DOUBLE, kind.LABEL_OPTIONAL, ""),
            ("currency", kind.TYPE_ENUM, kind.LABEL_OPTIONAL, ".Order.Currency"),
            ("note", kind.TYPE_STRING, kind.LABEL_OPTIONAL, ""),
            ("at", kind.TYPE_INT64, kind.LABEL_OPTIONAL, ""),
            ("tags", kind.TYPE_STRING, kind.LABEL_REPEATED, ""),
            ("address", kind.TYPE_MESSAGE, kind.LABEL_OPTIONAL, ".Order.Address"),
        ),
        1,
    ):
        order.field.add(name=name, number=number, type=of, label=label, type_name=type_name or None)
    order.oneof_decl.add(name="_note")
    order.field[4].oneof_index, order.field[4].proto3_optional = 0, True
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Order"))


def message(order: Any, values: dict[str, Any]) -> Any:  # noqa: ANN401
    return order(**{name: value for name, value in values.items() if value is not None})


def fields(found: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the fields of a message, as a user's own code gets them."""
    return {
        "id": found.id,
        "customer": found.customer,
        "amount": found.amount,
        "currency": ("EUR", "USD", "GBP")[found.currency],
        "note": found.note if found.HasField("note") else None,
        "at": found.at,
        "tags": list(found.tags),
        "address": {"street": found.address.street, "zip": found.address.zip},
    }


def load_schemas() -> bool:
    """Load the records of a registry's topic."""
    rows = []
    for number in range(VERSIONS):
        subject, version = f"subject-{number // 10}-value", number % 10 + 1
        key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
        name = {"type": "string", "doc": str(number)}
        schema = {**AVRO, "fields": [*AVRO["fields"], {"name": "more", "type": name}]}  # type: ignore[list-item]
        value = {**key, "id": number + 1, "schema": json.dumps(schema), "deleted": False}
        rows.append((number, 0, json.dumps(key).encode(), json.dumps(value).encode()))
    took = statistics.median(seconds(lambda: SchemaStore("bench", iter(rows))) for _ in range(3))
    decoding = Decoding(value="registry", schemas=SchemaStore("bench", iter(rows)))
    planned = seconds(lambda: decoding_in_json(decoding, {"value": Target()}, ["orders"]))
    is_good = took <= SECONDS and planned <= PLAN_SECONDS
    print(
        f"values: {VERSIONS} versions of schemas: {took:.2f} s (bar {SECONDS:.0f}); for the JVM {planned:.2f} s "
        f"(bar {PLAN_SECONDS:.0f}){'' if is_good else '   BELOW'}"
    )
    return is_good
