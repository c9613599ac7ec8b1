"""Logs that we wrote, in the hands of real brokers: nothing recovered, every record served, every new one stored."""

import base64
import hashlib
import io
import json
from pathlib import Path

import fastavro
import pytest
from filling import CODECS, ISOLATION_LEVELS, PRODUCER, check_with_dump_tool, seen, transaction, write
from kafka import Broker, OldBroker, as_consumed, complaints

import brokerless as bl

REGISTRY = Path(__file__).parents[2] / "examples/registry"


def fill(log_dir, topic):
    """Partition 0: every codec, more than one segment. Partition 1: transactions of both ends."""
    log = log_dir.log(topic, 0)
    for codec in CODECS:
        write(log, 150, codec)
    write(log, 50, producer_id=PRODUCER, producer_epoch=3, base_sequence=0)
    log = log_dir.log(topic, 1)
    for number, commit in enumerate((True, False, False, True)):
        transaction(log, PRODUCER + 1 + number, 40, commit=commit)
    write(log, 20)


def use(client, broker, topic, before):
    """Let real clients read what is there, and then add to it; return what they read after that."""
    for level in ISOLATION_LEVELS:
        assert client.consume(broker, topic, level) == before[level]
    # behind partition 0's last record: no marker is there
    end = 1 + max(row["offset"] for row in before["read_uncommitted"] if row["partition"] == 0)
    sent = client.produce(broker, topic, 0, 60)
    assert [record["offset"] for record in sent] == list(range(end, end + 60))
    for mode in ("commit", "abort"):
        assert len(client.produce(broker, topic, 1, 30, mode)) == 30
    after = {level: client.consume(broker, topic, level) for level in ISOLATION_LEVELS}
    assert len(after["read_committed"]) == len(before["read_committed"]) + 90
    assert len(after["read_uncommitted"]) == len(before["read_uncommitted"]) + 120
    return after


def test_a_new_cluster_starts_on_what_we_wrote(client, tmp_path):
    data = tmp_path / "data"
    with bl.create_log_dir(data) as log_dir:
        log_dir.create_topic("t", 2, segment_bytes=8192, leader_epoch=2, retention_ms=-1)
        fill(log_dir, "t")
    found = bl.LogDirs(data)
    assert len(found.log("t", 0).segments) > 2
    for log in found.logs(["t"]):
        check_with_dump_tool(client, data / log.name)
    before = seen(data, "t")
    with Broker(data, log=tmp_path / "broker.log") as broker:
        after = use(client, broker, "t", before)
        said = broker.log
    assert "Skipping recovery of 2 logs" in said
    assert complaints(said) == []
    assert seen(data, "t") == after


def test_encoded_values_are_those_that_a_consumer_gets(client, tmp_path):
    """Behind a registry's framing, with a schema that a registry stored, and read by a decoder of others."""
    schemas = bl.Schemas(REGISTRY)
    order = {"id": -7, "buyer": "ä", "amount": 2.5, "currency": "EUR", "tags": ["x", ""], "priority": "HIGH"}
    orders = [order | {"id": number} for number in range(500)]
    data = tmp_path / "data"
    encode = {"value": "registry", "key": "int64", "schemas": schemas, "schema": 3}
    with bl.Producer(data, "orders", partitions=1, compression="zstd", encode=encode) as producer:
        producer.send([{"key": one["id"], "value": one} for one in orders])
    with Broker(data, log=tmp_path / "broker.log") as broker:
        found = client.consume(broker, "orders")
        # The broker's own records follow ours.
        assert len(client.produce(broker, "orders", 0, 5)) == 5
        assert complaints(broker.log) == []
    schema = fastavro.parse_schema(json.loads(schemas.schema(3).text))
    assert len(found) == len(orders)
    for row, one in zip(found, orders, strict=True):
        value = base64.b64decode(row["value"])
        assert value[:5] == b"\0\0\0\0\3"
        assert fastavro.schemaless_reader(io.BytesIO(value[5:]), schema, None) == one
        assert int.from_bytes(base64.b64decode(row["key"]), signed=True) == one["id"]


@pytest.mark.parametrize("framing", ["prefix", "header"])
def test_a_schema_that_a_producer_registers_is_a_record_of_the_clusters_topic(client, tmp_path, framing):
    """A broker serves it, and goes on behind the values that name it."""
    data = tmp_path / "data"
    with Broker(data, log=tmp_path / "broker-1.log") as broker:
        for topic in ("_schemas", "orders"):
            client.create(broker, topic, 1, cleanup_policy="compact" if topic == "_schemas" else "delete")
        client.produce(broker, "orders", 0, 3)
    schema = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    encode = bl.Encoding(value="avro", register=json.dumps(schema), framing=framing)
    with bl.Producer(data, "orders", encode=encode, sole_replica=True) as producer:
        producer.send([{"value": {"id": number}} for number in range(20)])
    with Broker(data, log=tmp_path / "broker-2.log") as broker:
        (record,) = client.consume(broker, "_schemas")
        found = client.consume(broker, "orders")[3:]
        assert len(client.produce(broker, "orders", 0, 5)) == 5
        assert complaints(broker.log) == []
    value = json.loads(base64.b64decode(record["value"]))
    assert (value["subject"], value["version"], value["id"]) == ("orders-value", 1, 1)
    guid = hashlib.md5(value["schema"].encode()).digest()
    for number, row in enumerate(found):
        payload = base64.b64decode(row["value"])
        headers = [(name, base64.b64decode(content)) for name, content in row["headers"]]
        if framing == "header":
            assert headers == [("__value_schema_id", b"\1" + guid)]
        else:
            assert (headers, payload[:5]) == ([], b"\0\0\0\0\1")
            payload = payload[5:]
        assert fastavro.schemaless_reader(io.BytesIO(payload), fastavro.parse_schema(schema), None) == {"id": number}


def test_a_broker_goes_on_with_a_log_that_we_extended(client, tmp_path):
    """A topic of its cluster, with records of its own before ours, and after."""
    data = tmp_path / "data"
    with Broker(data, log=tmp_path / "broker-1.log") as broker:
        client.create(broker, "t", 2, internal_segment_bytes=8192)
        client.create(broker, "empty", 2)
        client.produce(broker, "t", 0, 100, compression_type="zstd")
        client.produce(broker, "t", 1, 40, "abort")
        before = client.consume(broker, "t")
    marker = (data / ".kafka_cleanshutdown").read_bytes()
    with bl.open_log_dir(data, sole_replica=True) as log_dir:
        for topic in ("t", "empty"):
            fill(log_dir, topic)
    assert (data / ".kafka_cleanshutdown").read_bytes() == marker
    for log in bl.LogDirs(data).logs(["t", "empty"]):
        check_with_dump_tool(client, data / log.name)
    ours = {topic: seen(data, topic) for topic in ("t", "empty")}
    assert [row for row in before if row not in ours["t"]["read_uncommitted"]] == []
    with Broker(data, log=tmp_path / "broker-2.log") as broker:
        after = {topic: use(client, broker, topic, before) for topic, before in ours.items()}
        said = broker.log
    assert "Skipping recovery of" in said
    assert complaints(said) == []
    assert {topic: seen(data, topic) for topic in after} == after


def test_a_broker_recovers_what_we_left_in_the_middle(client, tmp_path):
    """As a kill leaves it, but for the lock: what was flushed is all there."""
    data = tmp_path / "data"
    log_dir = bl.create_log_dir(data)
    log_dir.create_topic("t", 2, segment_bytes=8192)
    fill(log_dir, "t")
    for partition in (0, 1):
        log_dir.log("t", partition).flush()
    log_dir._unlock()
    segments = sum(len(log.segments) for log in bl.LogDirs(data).logs(["t"]))
    before = seen(data, "t")
    with Broker(data, log=tmp_path / "broker.log") as broker:
        use(client, broker, "t", before)
        recovered = [line for line in complaints(broker.log) if "Recovering unflushed segment" in line]
    assert len(recovered) == segments


def test_a_topic_that_got_its_id_in_the_cluster_is_not_stray(client, tmp_path):
    """Made there, its directory lost or elsewhere, and made again here under its id."""
    data = tmp_path / "data"
    with Broker(data, log=tmp_path / "broker-1.log") as broker:
        client.create(broker, "t")
        topic_id = client.topics(broker)["t"]["id"]
    for path in (data / "t-0").iterdir():
        path.unlink()
    (data / "t-0").rmdir()
    with bl.open_log_dir(data, sole_replica=True) as log_dir:
        log_dir.create_topic("t", topic_id=topic_id)
        write(log_dir.log("t", 0), 100, "lz4")
    before = seen(data, "t")
    with Broker(data, log=tmp_path / "broker-2.log") as broker:
        assert client.consume(broker, "t") == before["read_uncommitted"]
        assert complaints(broker.log) == []
    assert not list(data.glob("*-stray"))


def test_a_topic_with_another_id_than_the_clusters_is_stray(client, tmp_path):
    """What the docs warn of: the data stay, in a directory that no longer counts."""
    data = tmp_path / "data"
    with Broker(data, log=tmp_path / "broker-1.log"):
        pass
    with bl.open_log_dir(data, sole_replica=True) as log_dir:
        log_dir.create_topic("t", topic_id="AAECAwQFBgcICQoLDA0ODw")
        with pytest.warns(UserWarning, match="a broker renames t-0 -stray, and does not serve it"):
            write(log_dir.log("t", 0), 10)
    with Broker(data, log=tmp_path / "broker-2.log"):
        pass
    (leftover,) = bl.LogDirs(data).leftovers()
    assert (leftover.kind, leftover.topic, leftover.partition) == ("stray", "t", 0)


@pytest.mark.parametrize("message_format", [0, 1])
def test_an_old_broker_goes_on_with_formats_0_and_1(client, tmp_path, message_format):
    data = tmp_path / "data"
    with bl.create_log_dir(data, kraft=False) as log_dir:
        log_dir.create_topic("t")
        log = log_dir.log("t", 0, message_format=message_format)
        for codec in ("none", "gzip", "snappy", "lz4"):
            write(log, 60, codec, magic=message_format)
    ours = as_consumed(bl.LogDirs(data), "t")
    with OldBroker(data, log=tmp_path / "broker.log", message_format=message_format) as broker:
        client.create(broker, "t")
        consumed = client.consume(broker, "t")
        for row in (*consumed, *ours):
            del row["leaderEpoch"]  # the consumer has it from the broker, not from the log
        assert consumed == ours
        sent = client.produce(broker, "t", 0, 50, "plain")
        assert [record["offset"] for record in sent] == list(range(240, 290))
        said = broker.log
    assert complaints(said) == []
    assert len(as_consumed(bl.LogDirs(data), "t")) == 290
