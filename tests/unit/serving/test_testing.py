"""An application's test makes topics and lets its own client read them; nothing else runs."""

import asyncio
import shutil
import time

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka.admin import AdminClient

import brokerless as bl
from brokerless.testing import Kafka
from support.document_code import blocks

pytest_plugins = ["pytester"]

GUIDE = "docs/guides/serving.md"
ANOTHER = """
def test_each_test_has_its_own(kafka):
    import brokerless
    assert brokerless.LogDirs(kafka.directory).topics() == []
"""
ROWS = [{"key": f"{number}", "value": f"{number}"} for number in range(20)]


@pytest.fixture
def kafka(tmp_path):
    with Kafka(tmp_path / "kafka") as kafka:
        yield kafka


@pytest.mark.slow
def read(kafka, topic, count, **settings):
    """Return the values of so many records, by confluent-kafka."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "log_level": 0,
            "topic.metadata.refresh.interval.ms": 200,
            **settings,
        }
    )
    consumer.subscribe([topic])
    records = consumer.consume(count, 20)
    consumer.close()
    return [record.value().decode() for record in records]


def test_a_test_is_as_its_documentation_says(pytester):
    """The fixture is there with one line, and a consumer of the application gets the rows."""
    conftest, test = (block for block in blocks(GUIDE, "python") if "pytest_plugins" in block or "def test_" in block)
    pytester.makeconftest(conftest)
    pytester.makepyfile(f"{test}\n\n{ANOTHER}")
    pytester.runpytest_subprocess("-p", "no:randomly", "-p", "no:cacheprovider").assert_outcomes(passed=2)


def test_the_recipe_for_confluent_kafka(kafka, capsys):
    kafka.send("orders", ROWS[:3])
    (block,) = [block for block in blocks(GUIDE, "python") if block.startswith("from") and "127.0.0.1:9092" in block]
    exec(block.replace("127.0.0.1:9092", kafka.bootstrap_servers), {})
    assert capsys.readouterr().out.splitlines() == [f"0 {at} b'{at}'" for at in range(3)]


def test_a_topic_that_is_made_after_the_start_is_found_at_once(kafka):
    client = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    for number in range(5):
        kafka.create_topic(f"topic-{number}", partitions=number + 1)
        topics = client.list_topics(timeout=10).topics
        assert {name: len(topic.partitions) for name, topic in topics.items()} == {
            f"topic-{made}": made + 1 for made in range(number + 1)
        }


def test_a_topic_that_is_found_later_is_noticed_also_after_a_while(kafka, monkeypatch):
    """When the directories have not changed for some time, their modification times alone are looked at."""
    monkeypatch.setattr("brokerless.serving.directory._COARSEST_CLOCK_NS", 0)
    client = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    assert not client.list_topics(timeout=10).topics
    time.sleep(0.05)
    kafka.create_topic("orders")
    assert list(client.list_topics(timeout=10).topics) == ["orders"]


def test_what_is_sent_while_a_consumer_waits_arrives(kafka):
    kafka.create_topic("orders", partitions=3)

    async def run():
        consumer = AIOKafkaConsumer(
            "orders", bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest", group_id="g"
        )
        got = []
        async with asyncio.timeout(20), consumer:
            for part in (ROWS[:5], ROWS[5:]):
                await asyncio.to_thread(kafka.send, "orders", part)
                expected = len(got) + len(part)
                while len(got) < expected:
                    records = await consumer.getmany(timeout_ms=1000)
                    got += [record.value.decode() for one in records.values() for record in one]
        return got

    assert sorted(asyncio.run(run()), key=int) == [row["value"] for row in ROWS]


def test_a_group_goes_on_where_it_committed(kafka):
    kafka.send("orders", ROWS)
    first = read(kafka, "orders", 8, **{"queued.max.messages.kbytes": 1024})
    kafka.send("orders", [{"value": "last"}])
    assert first == [row["value"] for row in ROWS[:8]]
    rest = read(kafka, "orders", 13)
    assert rest == [*(row["value"] for row in ROWS[8:]), "last"]


def test_a_directory_with_files_is_refused(tmp_path):
    (tmp_path / "kafka").mkdir()
    (tmp_path / "kafka" / "file").touch()
    with pytest.raises(FileExistsError):
        Kafka(tmp_path / "kafka")


def test_a_topic_that_goes_is_gone(tmp_path):
    for topic in ("orders", "payments"):
        with bl.Producer(tmp_path / "data", topic) as producer:
            producer.send(ROWS)
    with bl.serve(tmp_path / "data") as address:
        client = AdminClient({"bootstrap.servers": address, "log_level": 0})
        assert sorted(client.list_topics(timeout=10).topics) == ["orders", "payments"]
        shutil.rmtree(tmp_path / "data" / "orders-0")
        assert list(client.list_topics(timeout=10).topics) == ["payments"]
