"""The settings of topics, in all of a broker's layers: what it says is in force, and what its cleaner keeps by them."""

import pytest
from kafka import Broker, complaints

import brokerless as bl
from brokerless.layout.setting_layers import SYNONYMS
from brokerless.layout.topic_config import parse_setting
from brokerless.log_dir.recover import forecast
from brokerless.metadata.topic_settings import Cluster
from support.polling import until

STATIC = {
    "log_roll_hours": 5,
    "log_roll_jitter_hours": 1,
    "log_retention_minutes": 90,
    "log_cleaner_min_cleanable_ratio": 0.01,
    "log_cleaner_min_compaction_lag_ms": 1,
    "log_cleaner_delete_retention_ms": 1,
    "log_index_interval_bytes": 100,
    "compression_gzip_level": 3,
    "log_cleanup_policy": "delete, compact",
    "producer_id_expiration_ms": 5_000_000,
    "log_cleaner_backoff_ms": 100,
}
CLUSTER_DEFAULT = {
    "log_cleaner_min_compaction_lag_ms": 3_600_000,
    "log_cleaner_delete_retention_ms": 7_000_000,
    "log_roll_ms": 3_000_000,
    "message_max_bytes": 2_000_000,
}
OF_BROKER = {"log_cleaner_delete_retention_ms": 8_000_000, "log_flush_interval_messages": 1_000_000}
OF_TOPIC = {"min_compaction_lag_ms": 0, "internal_segment_bytes": 2000}
SOURCES = {
    "DYNAMIC_TOPIC_CONFIG": "topic",
    "DYNAMIC_BROKER_CONFIG": "broker 1",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "cluster default",
    "STATIC_BROKER_CONFIG": "file",
    "DEFAULT_CONFIG": "default",
}


def in_force(client, broker, topic):
    """Return the value and source of each setting, as the broker has them."""
    of_topic, of_broker = client.configs(broker, "topic", topic), client.configs(broker, "broker", "1")
    # no line of the table is dead
    assert {config for names in SYNONYMS.values() for config, _ in names} <= of_broker.keys()
    found = {}
    for name, ((server_name, _), *_) in SYNONYMS.items():
        value, source = of_topic.get(name.replace("_", "."), of_broker[server_name])
        found[name] = parse_setting(name, value), SOURCES[source]
    return found


def test_the_layers_of_a_broker(client, tmp_path):
    """With a default of the cluster for the lag, records went that a broker keeps.

    All of it with the metadata log on another disk, where all topics were taken to have Kafka's defaults.
    """
    data, metadata, file = tmp_path / "data", tmp_path / "metadata", tmp_path / "before.properties"
    with Broker(data, log=file.with_suffix(".log"), metadata_log_dir=metadata, **STATIC) as broker:
        client.configure(broker, "broker", "", **CLUSTER_DEFAULT)
        client.configure(broker, "broker", "1", **OF_BROKER)
        client.create(broker, "plain", cleanup_policy="compact", internal_segment_bytes=2000)
        client.create(broker, "own", cleanup_policy="compact", **OF_TOPIC)
        until(
            lambda: in_force(client, broker, "plain")["flush_messages"] == (1_000_000, "broker 1"),
            what="no dynamic config",
        )
        for topic in ("plain", "own"):
            for _ in range(4):
                client.produce(broker, topic, 0, 100, "keyed", batch_size=500)
        until(lambda: bl.LogDirFiles(str(data)).first_dirty_offsets.get(("own", 0), 0) > 100, what="never cleaned")
        expected = {topic: in_force(client, broker, topic) for topic in ("plain", "own")}
        served = {topic: client.consume(broker, topic) for topic in ("plain", "own")}
    # of the cleaner: with the lag of its own, one topic has been compacted
    assert len(served["own"]) < len(served["plain"]) == 400

    cluster = Cluster.of(str(data), 1, broker_config=file, metadata=metadata)
    for topic in ("plain", "own"):
        found = cluster.config_of(topic).used(SYNONYMS)
        named = {name: (one.value, one.source.replace(str(file), "file")) for name, one in found.items()}
        # A broker describes the source of the name in ms alone (ConfigHelper.configSynonyms drops the others).
        assert expected[topic].pop("segment_jitter_ms") == (3_600_000, "default")
        assert named.pop("segment_jitter_ms") == (3_600_000, "file")
        # Kafka has no public name for a segment that small
        expected[topic]["segment_bytes"] = (2000, "topic")
        assert named == expected[topic]

    with pytest.raises(ValueError, match="min_compaction_lag_ms and delete_retention_ms of its topic are not known"):
        bl.rewrite(bl.Compaction(roll=True), data, topics=["plain"])
    elsewhere = {"metadata": metadata, "broker_config": file}
    done = bl.rewrite(bl.Compaction(roll=True), data, topics=["own", "plain"], **elsewhere)
    of_own, of_plain = (result.report for result in done)
    assert of_own.total("kept") < of_own.total("records")
    assert (of_plain.first_uncleanable_offset, of_plain.limit) == (0, "min_compaction_lag")
    assert of_plain.to_dict()["settings"]["min_compaction_lag_ms"] == {"value": 3_600_000, "source": "cluster default"}
    assert forecast(str(data), metadata=metadata).is_good
    with Broker(data, log=tmp_path / "after.log", metadata_log_dir=metadata, **STATIC) as broker:
        assert client.consume(broker, "plain") == served["plain"]
        assert complaints(broker.log) == []
