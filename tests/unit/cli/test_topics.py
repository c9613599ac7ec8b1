"""--topic takes names and globs, and means the same in every verb."""

import re
import shlex
from pathlib import Path

import pytest

import brokerless as bl
from brokerless.layout.file_names import chosen_topics, is_chosen

INCIDENT = Path(__file__).parents[3] / "examples/incident"


@pytest.mark.parametrize("name", ["orders-v1", "orders-v1*"])
@pytest.mark.parametrize(
    "verb",
    [
        ("read",),
        ("ls",),
        ("check",),
        ("producers",),
        ("transactions",),
        ("groups", "--offsets"),
        ("recover", "--dry-run"),
        ("repair", "--dry-run"),
        ("rescue", "--dry-run"),
        ("retain", "--dry-run", "--before-offset", "1"),
        ("truncate", "--dry-run", "--offset", "1"),
        ("compact", "--dry-run"),
        ("convert", "--dry-run", "--compression", "zstd"),
        ("erase", "--dry-run", "--key", "k"),
    ],
    ids=lambda verb: verb[0],
)
def test_the_error_for_a_deleted_topic_has_the_command_that_reads_it(run, verb, name):
    said = run(*verb, INCIDENT, "--topic", name)
    assert said.code == 2
    assert f"topic '{name}' has only directories that end in -delete" in said.err
    command = shlex.split(re.search(r"`brokerless (read .*?)`", said.err)[1])
    read = run(*command)
    assert (read.code, len(read.out.splitlines())) == (0, 10)


@pytest.fixture
def data(tmp_path):
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        for topic in ("orders-eu", "orders-us", "users"):
            log_dir.create_topic(topic)
    for topic in ("orders-eu", "orders-us", "users"):
        with bl.Producer(tmp_path / "data", topic) as producer:
            producer.send([{"key": b"k", "value": topic.encode()}])
    return tmp_path / "data"


@pytest.mark.parametrize(
    ("topic", "names", "is_one"),
    [
        ("orders", ["orders"], True),
        ("orders", ["order"], False),
        ("orders", ["ord*"], True),
        ("orders", ["order?"], True),
        ("orders", ["[a-o]rders"], True),
        ("Orders", ["orders*"], False),
        ("__consumer_offsets", ["*"], False),
        ("__consumer_offsets", ["__*"], True),
        ("_mine", ["*"], True),
        # No topic of Kafka's own: nobody may miss it.
        ("__mine", ["*"], True),
        (None, ["*"], False),
    ],
)
def test_a_name_or_a_glob_chooses_topics(topic, names, is_one):
    assert is_chosen(topic, names) == is_one


def test_a_glob_that_chooses_nothing_is_an_error():
    with pytest.raises(ValueError, match="unknown topic 'x\\*': there are orders, users"):
        chosen_topics(["x*"], ["orders", "users"])


@pytest.mark.parametrize(
    "verb",
    [
        ("ls", "{}"),
        ("read", "{}"),
        ("offsets", "{}", "--timestamp", "latest"),
        ("check", "{}", "--all"),
        ("producers", "{}"),
        ("recover", "{}", "--dry-run", "--all"),
        ("repair", "{}", "--dry-run"),
        ("rescue", "{}", "--dry-run", "--json"),
        ("retain", "{}", "--dry-run", "--before-offset", "1"),
        ("truncate", "{}", "--dry-run", "--offset", "1"),
        ("compact", "{}", "--dry-run", "--roll"),
        ("compact", "{}", "--explain", "k", "--roll"),
        ("convert", "{}", "--dry-run", "--compression", "zstd"),
        ("erase", "{}", "--dry-run", "--key", "k"),
    ],
    ids=lambda verb: f"{verb[0]}{verb[2] if '--explain' in verb else ''}",
)
def test_every_verb_takes_globs(data, run, verb):
    arguments = [one.format(data) for one in verb]
    found = run(*arguments, "--topic", "orders-*")
    named = run(*arguments, "--topic", "orders-eu", "--topic", "orders-us")
    assert found.code == named.code == 0, found.err

    def without_times(said):
        return re.sub(r'"cluster_id":"[^"]*"', "", said.out)

    assert without_times(found) == without_times(named)
    assert "users" not in found.out
    assert run(*arguments, "--topic", "none-*").code == 2


def test_a_server_shows_the_topics_of_a_glob(data):
    from brokerless.serving.directory import ServedDirectory

    served = ServedDirectory(data, topics=["orders-*"])
    assert sorted(name for name, *_ in served.topics(None)[1]) == ["orders-eu", "orders-us"]


def test_groups_shows_commits_for_the_topics_of_a_glob(golden):
    path = golden / "logs/kafka-4.1"
    every = bl.commits(path, lag=False).read_all()["topic"].to_pylist()
    some = bl.commits(path, topics=["txn-*"], lag=False).read_all()["topic"].to_pylist()
    assert some == [topic for topic in every if topic.startswith("txn-")]
    assert len(every) > len(some)
