"""A topic's settings are Kafka's: names, defaults and what is refused."""

import pytest

from brokerless.layout.topic_config import TopicConfig


def test_the_defaults_are_kafkas():
    settings = TopicConfig()
    assert settings.to_configs() == {}
    long = (1 << 63) - 1
    assert (settings.segment_bytes, settings.segment_ms, settings.segment_jitter_ms) == (1073741824, 604800000, 0)
    assert (settings.segment_index_bytes, settings.index_interval_bytes) == (10485760, 4096)
    assert (settings.max_message_bytes, settings.compression_type) == (1048588, "producer")
    assert settings.max_decompressed_message_bytes == 2147483639
    assert (settings.compression_gzip_level, settings.compression_lz4_level) == (-1, 9)
    assert (settings.compression_zstd_level, settings.message_timestamp_type) == (3, "CreateTime")
    assert (settings.message_timestamp_before_max_ms, settings.message_timestamp_after_max_ms) == (long, 3600000)
    assert (settings.producer_id_expiration_ms, settings.flush_messages) == (86400000, long)
    assert not settings.is_compacted


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("segment_bytes", [14, (1 << 31) - 1], [13, 1 << 31]),
        ("segment_ms", [1], [0]),
        ("segment_jitter_ms", [0], [-1]),
        ("segment_index_bytes", [4], [3]),
        ("index_interval_bytes", [0], [-1]),
        ("max_message_bytes", [0], [-1, 1 << 31]),
        ("max_decompressed_message_bytes", [1, (1 << 31) - 9], [0, (1 << 31) - 8]),
        ("compression_gzip_level", [-1, 1, 9], [-2, 0, 10]),
        ("compression_lz4_level", [1, 17], [0, 18]),
        ("compression_zstd_level", [-131072, 22], [-131073, 23]),
        ("compression_type", ["uncompressed", "zstd", "producer"], ["none", "ZSTD", ""]),
        ("message_timestamp_type", ["LogAppendTime"], ["logappendtime", "NoTimestampType"]),
        ("message_timestamp_before_max_ms", [0], [-1]),
        ("message_timestamp_after_max_ms", [0], [-1]),
        (
            "cleanup_policy",
            ["compact", "compact,delete", "delete, compact", ""],
            ["none", "compact;delete", ",", "delete,"],
        ),
        ("retention_ms", [-1, 0], [-2]),
        ("retention_bytes", [-7, -(1 << 63)], [1 << 63]),
        ("max_compaction_lag_ms", [1], [0]),
        ("flush_messages", [1], [0]),
        ("message_format", [0, 1, 2], [-1, 3]),
    ],
)
def test_what_kafka_refuses_is_refused(name, good, bad):
    for value in good:
        assert getattr(TopicConfig(**{name: value}), name) == value
    for value in bad:
        with pytest.raises(ValueError, match=rf"topic setting {name}="):
            TopicConfig(**{name: value})


@pytest.mark.parametrize(("name", "value"), [("segment_ms", "1"), ("segment_ms", True), ("preallocate", 1)])
def test_a_value_of_another_type_is_refused(name, value):
    """`segment_ms="1000"` would fail much later; a bool would be taken for 1."""
    with pytest.raises(TypeError, match=rf"topic setting {name}="):
        TopicConfig(**{name: value})


def test_a_compacted_topic_is_told_by_its_policy():
    assert TopicConfig(cleanup_policy="delete, compact").is_compacted


def test_a_broker_is_told_all_that_a_topic_can_have():
    settings = TopicConfig(
        segment_bytes=1 << 20, preallocate=True, cleanup_policy="compact", retention_ms=-1, message_format=1
    )
    configs = {"segment.bytes": "1048576", "preallocate": "true", "cleanup.policy": "compact", "retention.ms": "-1"}
    assert settings.to_configs() == configs
    known = {"message_format": 2, "remote_storage_enable": False}
    assert TopicConfig.from_configs(configs) == settings.with_keywords(known)


def test_a_segment_smaller_than_brokers_take_goes_by_the_name_that_they_take():
    settings = TopicConfig(segment_bytes=4096)
    assert settings.to_configs() == {"internal.segment.bytes": "4096"}
    assert TopicConfig.from_configs(settings.to_configs()).segment_bytes == 4096


def test_whether_a_topic_is_tiered_is_known_of_one_whose_configs_are():
    assert TopicConfig().remote_storage_enable is None
    assert TopicConfig.from_configs({}).remote_storage_enable is False
    tiered = TopicConfig.from_configs({"remote.storage.enable": "true"})
    assert (tiered.remote_storage_enable, tiered.to_configs()) == (True, {"remote.storage.enable": "true"})


def test_configs_as_people_type_them():
    assert TopicConfig.from_configs({"preallocate": " TRUE"}).preallocate
    assert not TopicConfig.from_configs({"preallocate": "False"}).preallocate
    with pytest.raises(ValueError, match=r"topic config segment\.ms='7d': int expected"):
        TopicConfig.from_configs({"segment.ms": "7d"})


@pytest.mark.parametrize(("text", "is_true"), [("true", True), (" False ", False)])
def test_a_boolean_is_true_or_false(text, is_true):
    assert TopicConfig.named({"preallocate": text}) == {"preallocate": is_true}
    with pytest.raises(ValueError, match="preallocate='yes': bool expected"):
        TopicConfig.named({"preallocate": "yes"})
