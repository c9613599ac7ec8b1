"""Values that confluent-kafka's serializers sent through a real broker, read at rest with the schemas beside them."""

import json

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from kafka import Broker
from registry import Registry

import brokerless as bl

ORDERS = [{"id": number, "note": f"ö{number}", "tags": ["a", "b"][: number % 3]} for number in range(50)]
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": "string"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
JSON = {
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "note": {"type": "string"}, "tags": {"type": "array"}},
}
PROTO = """syntax = "proto3";
package live;
message Order { int64 id = 1; string note = 2; repeated string tags = 3; }
message Refund { int64 id = 1; string note = 2; repeated string tags = 3; }
"""
FRAMINGS = {"prefix-v0": {}, "header": {"schema.id.serializer": header_schema_id_serializer}}


def messages():
    """Return the classes of two messages of a file: the indexes of the second one are [1]."""
    kind = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="live.proto", package="live", syntax="proto3")
    for name in ("Order", "Refund"):
        message = file.message_type.add(name=name)
        message.field.add(name="id", number=1, type=kind.TYPE_INT64, label=kind.LABEL_OPTIONAL)
        message.field.add(name="note", number=2, type=kind.TYPE_STRING, label=kind.LABEL_OPTIONAL)
        message.field.add(name="tags", number=3, type=kind.TYPE_STRING, label=kind.LABEL_REPEATED)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return [message_factory.GetMessageClass(pool.FindMessageTypeByName(f"live.{one}")) for one in ("Order", "Refund")]


def serializers(client, framing):
    """Return the serializer of each topic, and what makes its objects of orders."""
    order, refund = messages()
    protobuf = {"use.deprecated.format": False} | framing
    return {
        "avro": (AvroSerializer(client, json.dumps(AVRO), conf=framing or None), dict),
        "json": (JSONSerializer(json.dumps(JSON), client, conf=framing or None), dict),
        "order": (ProtobufSerializer(order, client, protobuf), lambda row: order(**row)),
        "refund": (ProtobufSerializer(refund, client, protobuf), lambda row: refund(**row)),
    }


@pytest.mark.parametrize("framing", FRAMINGS)
def test_what_serializers_write_is_read_at_rest(client, tmp_path, framing):
    data = tmp_path / "data"
    with Registry(PROTO) as registry, Broker(data, log=tmp_path / "broker.log") as broker:
        made = serializers(SchemaRegistryClient({"url": registry.url}), FRAMINGS[framing])
        for topic in made:
            client.create(broker, topic, 1)
        client.create(broker, "_schemas", 1, cleanup_policy="compact")
        producer = Producer({"bootstrap.servers": broker.at, "linger.ms": 5})
        for topic, (serialize, of) in made.items():
            for row in ORDERS:
                headers = []
                context = SerializationContext(topic, MessageField.VALUE, headers)
                producer.produce(topic, serialize(of(row), context), headers=headers)
        for key, value in registry.records:
            producer.produce("_schemas", value, key)
        assert producer.flush(60) == 0
        del producer
    logs = bl.LogDirs(data)
    columns = ["offset", "value", "valueBytes", "decodeError", "valueFraming", "valueSubject", "valueVersion"]
    for topic in made:
        for schema in ("writer", "latest"):
            message = "live.Refund" if (topic, schema) == ("refund", "latest") else None
            decode = bl.Decoding(value="registry", schema=schema, message=message)
            rows = logs.log(topic, 0).read(columns=columns, decode=logs.with_schemas(decode)).read_all().to_pylist()
            values = [row.pop("value") for row in rows]
            found = [json.loads(value) if isinstance(value, str) else value for value in values]
            assert [one | {"tags": list(one.get("tags", []))} | {"id": one.get("id", 0)} for one in found] == ORDERS
            assert rows == [
                {"offset": offset, "valueBytes": None, "decodeError": None, "valueFraming": framing}
                | {"valueSubject": f"{topic}-value", "valueVersion": 1}
                for offset in range(len(ORDERS))
            ]
