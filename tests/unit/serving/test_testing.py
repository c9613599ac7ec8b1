"""An application's test makes topics and lets its own client read them; nothing else runs."""

import asyncio
import shutil
import time

import confluent_kafka
import pyarrow as pa
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError
from confluent_kafka.admin import AdminClient

import brokerless as bl
from brokerless.testing import Kafka
from support.document_code import blocks

pytest_plugins = ["pytester"]

GUIDE = "docs/guides/testing.md"
RECIPES = "docs/guides/serving.md"
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


@pytest.mark.slow
def test_a_test_is_as_its_documentation_says(pytester):
    """The fixture is there with one line, and consumers of the application get the rows."""
    fixture, conftest, *tests = sorted(
        (block for block in blocks(GUIDE, "python") if "pytest" in block or "def test_" in block),
        key=lambda block: ("scope=" not in block, "pytest_plugins" not in block),
    )
    assert len(tests) == 2
    pytester.makepyfile("\n\n".join([*tests, ANOTHER]))
    # First a server for each test, then one for all.
    for text in (conftest, f"{conftest}\n{fixture}"):
        pytester.makeconftest(text)
        pytester.runpytest_subprocess("-p", "no:randomly", "-p", "no:cacheprovider").assert_outcomes(passed=3)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([{"key": "\u00e9", "value": {"\u00e9": [1, None]}}], [("\u00e9".encode(), '{"\u00e9":[1,null]}'.encode())]),
        ({"key": {"id": 7}, "value": None}, [(b'{"id":7}', None)]),
        ({"key": None, "value": [1, 2]}, [(None, b"[1,2]")]),
        (["text", b"\xff", bytearray(b"b"), 7, 1.5, True, None, [{"a": 1}]],
         [(None, one) for one in (b"text", b"\xff", b"b", b"7", b"1.5", b"true", None, b'[{"a":1}]')]),
        ((str(number) for number in range(3)), [(None, b"0"), (None, b"1"), (None, b"2")]),
        (pa.table({"key": ["k"], "value": ["v"]}), [(b"k", b"v")]),
        ([], []),
    ],
)  # fmt: skip
def test_rows_are_what_a_test_would_write(kafka, rows, expected):
    kafka.create_topic("orders")
    kafka.send("orders", rows)
    found = bl.Log(f"{kafka.directory}/orders-0").read().read_all().to_pylist()
    assert [(row["key"], row["value"]) for row in found] == expected


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ("text", TypeError, r"give a list of values, \['text'\]"),
        (b"text", TypeError, "one bytes was given"),
        (7, TypeError, "int was given"),
        ({"amount": 3}, ValueError, "is not a row: .* To send the dict itself as JSON"),
        ([{"value": 1, "amount": 3}], ValueError, "is not a row"),
        ([{"key": "a"}], ValueError, "is not a row"),
        ([object()], TypeError, "a row's value cannot be JSON"),
        ([{"key": float("nan"), "value": None}], ValueError, "a row's key cannot be JSON"),
    ],
)
def test_rows_that_may_mean_several_things_are_refused(kafka, rows, error, message):
    with pytest.raises(error, match=message):
        kafka.send("orders", rows)


def test_what_a_group_has_committed_is_returned(kafka):
    """The last commit of each partition, and of this group alone."""
    kafka.create_topic("orders", partitions=2)
    for group, offsets in (("g", [3, 5]), ("g", [4]), ("other", [9])):
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "log_level": 0}
        )
        places = [confluent_kafka.TopicPartition("orders", number, at) for number, at in enumerate(offsets)]
        consumer.commit(offsets=places, asynchronous=False)
        consumer.close()
    assert kafka.committed("g") == {("orders", 0): 4, ("orders", 1): 5}
    assert kafka.committed("none") == {}
    kafka.close()
    assert kafka.committed("g") == {}


def test_a_cleared_server_has_nothing_and_its_address(kafka):
    address = kafka.bootstrap_servers
    for number in range(3):
        kafka.send("orders", [f"{number}"])
        assert read(kafka, "orders", 1) == [f"{number}"]
        assert kafka.committed("g") == {("orders", 0): 1}
        kafka.clear()
        assert (kafka.bootstrap_servers, kafka.committed("g")) == (address, {})
        assert bl.LogDirs(kafka.directory).topics() == []
    kafka.close()
    with pytest.raises(ValueError, match="closed"):
        kafka.clear()


def test_a_fixture_shows_its_address_and_directory(kafka):
    assert repr(kafka) == f"<Kafka {kafka.bootstrap_servers}, directory {kafka.directory!r}>"
    kafka.close()
    assert repr(kafka).startswith("<Kafka closed, ")


@pytest.mark.parametrize(("is_idempotent", "to"), [(False, " to topic orders"), (True, "")])
def test_an_application_that_produces_is_told_in_one_line_why_not(kafka, caplog, is_idempotent, to):
    """Clients show only the name of the error."""

    async def produce():
        address = kafka.bootstrap_servers
        producer = AIOKafkaProducer(bootstrap_servers=address, enable_idempotence=is_idempotent)
        try:
            await producer.start()
            await producer.send_and_wait("orders", b"new")
        finally:
            await producer.stop()

    kafka.create_topic("orders")
    for _ in range(2):
        with pytest.raises(KafkaError):
            asyncio.run(produce())
    (told,) = [record.getMessage() for record in caplog.records if record.name == "brokerless.serve"]
    assert told.startswith(f"a client tried to produce{to}, and got an error, because this server only reads: ")
    assert "kafka.send(topic, rows)" in told


def test_the_recipe_for_confluent_kafka(kafka, capsys):
    kafka.send("orders", ROWS[:3])
    (block,) = [block for block in blocks(RECIPES, "python") if block.startswith("from") and "127.0.0.1:9092" in block]
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
