"""The sample log directory of an incident, and the advice of its guide, on a real broker."""

import shutil

import incident
import pytest
from incident import INCIDENT, make, start

import brokerless as bl
from support.document_code import blocks


@pytest.fixture
def advice():
    """The arguments of kafka-transactions.sh in the guide."""
    (line,) = [
        line
        for block in blocks("docs/guides/after-an-incident.md", "sh")
        for line in block.splitlines()
        if "abort" in line
    ]
    return line.split("broker1:9092 ")[1].split()


def hanging(client, broker):
    """What kafka-transactions.sh finds: topic, partition and start offset."""
    arguments = ["find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0"]
    (row,) = client.state(broker, "transactionsTool", arguments=arguments)
    rows = [[cell.strip() for cell in line.split("\t")] for line in row["said"].splitlines()[1:] if line.strip()]
    return [(topic, int(partition), int(start)) for topic, partition, _, _, _, start, *_ in rows]


def test_the_guide_ends_the_hanging_transaction(client, tmp_path, advice):
    data = tmp_path / "data"
    shutil.copytree(INCIDENT, data)
    with start(data, tmp_path / "log") as broker:
        incident.until(lambda: hanging(client, broker) == [("payments", 1, 7)])
        client.state(broker, "transactionsTool", arguments=advice)
        incident.until(lambda: not hanging(client, broker))
    assert bl.transactions(INCIDENT)["is_hanging"].to_pylist() == [False, True, False]
    assert bl.transactions(data)["is_hanging"].to_pylist() == [False, False, False]


def facts(data):
    """What the guide tells of, without times and ids."""
    columns = ["group", "topic", "partition", "offset", "leader_epoch", "previous_offset", "is_back", "lag"]
    commits = bl.commits(data).read_all().select(columns).to_pylist()
    opened = [
        (row["transactional_id"], row["state"], one["topic"], one["partition"], one["first_offset"], one["is_hanging"])
        for row in bl.transactions(data).to_pylist()
        for one in row["open"]
    ]
    state = bl.cluster(data)
    return (
        sorted(map(repr, commits)),
        opened,
        state.topics["topic"].to_pylist(),
        state.configs.to_pylist(),
        state.acls.drop_columns(["id"]).to_pylist(),
        state.users["user"].to_pylist(),
    )


def test_the_sample_can_be_made_again(client, tmp_path):
    make(tmp_path / "data", client, tmp_path / "log", pause=0.3)
    assert facts(tmp_path / "data") == facts(INCIDENT)
