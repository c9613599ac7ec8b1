"""`BrokerConfig` and `layered`: the settings that a topic inherits from its broker.

Kafka has these layers. The first layer that has a setting determines its value:

1. the topic's own configuration;
2. the dynamic configuration of its broker;
3. the dynamic default of all brokers;
4. the broker's file (`server.properties`);
5. Kafka's defaults.

Within a layer, a setting may have several names, for different units. The first of these names that is set determines
the value. From a dynamic layer, a broker uses only the first name of each setting, and ignores other names and
unreadable values (`DynamicBrokerConfig.fromPersistentProps`). A dynamic value overrides all names in the file: a
dynamic `log.retention.ms` overrides any `log.retention.hours` in the file.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from brokerless.io import storage
from brokerless.layout import checkpoints
from brokerless.layout.topic_config import TopicConfig, parse_setting
from brokerless.notes import note

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000

SYNONYMS: dict[str, tuple[tuple[str, int], ...]] = {
    "segment_bytes": (("log.segment.bytes", 1),),
    "segment_ms": (("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS)),
    "segment_jitter_ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS)),
    "segment_index_bytes": (("log.index.size.max.bytes", 1),),
    "index_interval_bytes": (("log.index.interval.bytes", 1),),
    "max_message_bytes": (("message.max.bytes", 1),),
    "compression_type": (("compression.type", 1),),
    "compression_gzip_level": (("compression.gzip.level", 1),),
    "compression_lz4_level": (("compression.lz4.level", 1),),
    "compression_zstd_level": (("compression.zstd.level", 1),),
    "message_timestamp_type": (("log.message.timestamp.type", 1),),
    "message_timestamp_before_max_ms": (("log.message.timestamp.before.max.ms", 1),),
    "message_timestamp_after_max_ms": (("log.message.timestamp.after.max.ms", 1),),
    "cleanup_policy": (("log.cleanup.policy", 1),),
    "retention_ms": (("log.retention.ms", 1), ("log.retention.minutes", _MINUTE_MS), ("log.retention.hours", _HOUR_MS)),
    "retention_bytes": (("log.retention.bytes", 1),),
    "min_compaction_lag_ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "max_compaction_lag_ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "min_cleanable_dirty_ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "delete_retention_ms": (("log.cleaner.delete.retention.ms", 1),),
    "producer_id_expiration_ms": (("producer.id.expiration.ms", 1),),
    "preallocate": (("log.preallocate", 1),),
    "flush_messages": (("log.flush.interval.messages", 1),),
}
"""The names of a topic's settings in a broker's configuration, each with its unit in ms. The first set name is used.

The list is Kafka's `ServerTopicConfigSynonyms`, plus the setting that only brokers have. A topic's
`remote.storage.enable` has no name in a broker's configuration. The broker's message format
(`log.message.format.version`, up to 3.x) is not used.
"""

_DYNAMIC = {names[0][0] for names in SYNONYMS.values()}


class Layer(NamedTuple):
    """A layer of a broker's configuration, with its source as in `Setting.source`."""

    source: str
    configs: Mapping[str, str]


@dataclass(frozen=True)
class BrokerConfig:
    """The part of a broker's configuration file that concerns topics.

    Attributes:
        path: the file.
        node_id: the broker's id; None if the file has none.
        configs: the configurations named in `SYNONYMS`.
    """

    path: str
    node_id: int | None
    configs: Mapping[str, str]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> BrokerConfig:
        """Read a `server.properties`.

        Raises:
            ValueError: a broker would not start with a value.
            FileNotFoundError: the file does not exist.
        """
        name = os.fspath(path)
        properties = checkpoints.parse_properties(storage.read_all(name))
        known = {config for names in SYNONYMS.values() for config, _ in names}
        configs = {config: value for config, value in properties.items() if config in known}
        for config, value in configs.items():
            try:
                _values({config: value})
            except ValueError as error:
                raise ValueError(f"{name}: {config}={value!r}: {error}") from None
        node = properties.get("node.id", properties.get("broker.id"))
        try:
            # If the id is negative, ZooKeeper assigns one.
            node_id = int(node) if node is not None and int(node) >= 0 else None
        except ValueError:
            raise ValueError(f"{name}: node.id={node!r}: int expected") from None
        return cls(name, node_id, configs)

    @property
    def layer(self) -> Layer:
        """The layer of this file."""
        return Layer(self.path, self.configs)


def dynamic_layers(brokers: Mapping[str, Mapping[str, str]], node_id: int | None) -> list[Layer]:
    """Return the dynamic layers of a broker, the highest first.

    Args:
        brokers: the dynamic configurations, by broker id; the id "" means the default of all brokers.
        node_id: the broker's id; None if it is not known, so that only the default applies.
    """
    layers = [_valid(Layer("cluster default", brokers.get("", {})))]
    if node_id is not None:
        layers.insert(0, _valid(Layer(f"broker {node_id}", brokers.get(str(node_id), {}))))
    return layers


def layered(configs: Mapping[str, str], layers: Iterable[Layer]) -> TopicConfig:
    """Return the settings of a topic, each with its source.

    Args:
        configs: the topic's own configuration.
        layers: the layers of its broker, the highest first.

    Raises:
        ValueError: a value is invalid.

    >>> layers = [Layer("broker 1", {"log.roll.ms": "60000"}), Layer("server.properties", {"log.retention.hours": "1"})]
    >>> settings = layered({"segment.bytes": "1048576"}, layers)
    >>> settings.segment_ms, settings.source_of("segment_ms"), settings.retention_ms
    (60000, 'broker 1', 3600000)
    """
    settings = TopicConfig.from_configs(configs)
    values: dict[str, object] = {}
    sources: dict[str, str] = {}
    for layer in layers:
        for name, value in _values(layer.configs).items():
            if name not in settings.sources and name not in values:
                values[name], sources[name] = value, layer.source
    return settings.with_keywords(values, sources)


def _valid(layer: Layer) -> Layer:
    """Return a dynamic layer without the configurations that a broker ignores."""
    configs = {}
    for config in layer.configs.keys() & _DYNAMIC:
        value = layer.configs[config]
        try:
            _values({config: value})
            configs[config] = value
        except ValueError as error:
            note(f"{config}={value!r} of {layer.source} is ignored, as a broker ignores an invalid value: {error}")
    return Layer(layer.source, configs)


def _values(configs: Mapping[str, str]) -> dict[str, object]:
    """Return the topic settings in a broker's configuration, by attribute name.

    Raises:
        ValueError: a value is invalid.
    """
    found = {}
    for name, synonyms in SYNONYMS.items():
        for config, unit in synonyms:
            if config in configs:
                value = parse_setting(name, configs[config])
                if isinstance(value, int) and unit > 1:
                    value *= unit
                # KafkaConfig.getLogRetentionTimeMillis: every negative time means "unlimited".
                if name == "retention_ms" and isinstance(value, int):
                    value = max(value, -1)
                TopicConfig(**{name: value})  # type: ignore[arg-type] # checks it
                found[name] = value
                break
    return found
