"""Metadata transactions (KIP-868) that a controller finds open: what they hold counts neither there nor here."""

import pytest
from kafka import EACH_KRAFT_RELEASE, Broker

import brokerless as bl
from brokerless.metadata.log import cluster_image
from brokerless.metadata.records import (
    TOPIC_RESOURCE,
    config_record,
    metadata_record,
    metadata_records,
    partition_record,
    topic_record,
)
from brokerless.metadata.topic_settings import Cluster
from support.log_files import batch

MADE_ID = "AAECAwQFBgcICQoLDA0ODw"
OPENED = [
    metadata_record("BeginTransactionRecord", name="never ended"),
    topic_record("made", MADE_ID),
    partition_record(0, MADE_ID, [1], 0, ["AAAAAAAAAAAAAAAAAAAAAQ"]),
    config_record(TOPIC_RESOURCE, "kept", "cleanup.policy", "compact"),
]


def append(data, records):
    """Append records to the metadata log, in the epoch of its last batch."""
    log = bl.Log(data / "__cluster_metadata-0")
    content = batch(log.log_end_offset, records, leader_epoch=log.leader_epochs[-1].epoch, step=0)
    with open(log.segments[-1].path, "ab") as file:
        file.write(content)


def known(data):
    """Return the topics, and the cleanup policy of the one that was there before."""
    topics = {row["topic"] for row in bl.cluster(data).rows("topics")}
    image = cluster_image(str(data))
    assert set(image.topic_ids) == topics
    policies = {
        Cluster(str(data), 1, None).config_of("kept").cleanup_policy,
        image.settings_of("kept", 1).cleanup_policy,
    }
    return topics, policies


@pytest.mark.parametrize("version", EACH_KRAFT_RELEASE)
@pytest.mark.parametrize("is_ended", [False, True])
def test_a_metadata_transaction_counts_once_it_has_ended(client, tmp_path, version, is_ended):
    """Of an open one, the next controller writes an AbortTransactionRecord."""
    data = tmp_path / "data"
    with Broker(data, log=tmp_path / "broker-1.log", version=version) as broker:
        client.create(broker, "kept")
    append(data, [*OPENED, metadata_record("EndTransactionRecord")] if is_ended else OPENED)
    expected = ({"kept", "made"}, {"compact"}) if is_ended else ({"kept"}, {"delete"})
    assert known(data) == expected
    with Broker(data, log=tmp_path / "broker-2.log", version=version) as broker:
        seen = client.topics(broker)
        policy, _ = client.configs(broker, "topic", "kept")["cleanup.policy"]
    assert (set(seen), {policy}) == expected
    assert known(data) == expected
    rows = bl.Log(data / "__cluster_metadata-0").read(columns=["key", "value"])
    names = [record.name for part in rows for record in metadata_records(part)]
    assert names.count("AbortTransactionRecord") == (not is_ended)
