"""`TopicSettings`: how a topic's logs are written. Kafka's names in snake_case, Kafka's values and defaults."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from brokerless import _native
from brokerless.errors import unknown

if TYPE_CHECKING:
    from collections.abc import Mapping

_INT = (1 << 31) - 1
_LONG = (1 << 63) - 1

# What each number may be. A `segment.bytes` below 1 MiB is refused by brokers since 4.0, and was none before.
_RANGES = {
    "segment_bytes": (14, _INT),
    "segment_ms": (1, _LONG),
    "segment_jitter_ms": (0, _LONG),
    "segment_index_bytes": (4, _INT),
    "index_interval_bytes": (0, _INT),
    "max_message_bytes": (0, _INT),
    "compression_lz4_level": (1, 17),
    "compression_zstd_level": (-131072, 22),
    "message_timestamp_before_max_ms": (0, _LONG),
    "message_timestamp_after_max_ms": (0, _LONG),
    "retention_ms": (-1, _LONG),
    # Kafka has no lower limit: each negative number is none.
    "retention_bytes": (-_LONG - 1, _LONG),
    "min_compaction_lag_ms": (0, _LONG),
    "max_compaction_lag_ms": (1, _LONG),
    "min_cleanable_dirty_ratio": (0, 1),
    "delete_retention_ms": (0, _LONG),
    "producer_id_expiration_ms": (1, _INT),
    "flush_messages": (1, _LONG),
    "message_format": (0, 2),
}
_WORDS = {
    "compression_type": ("producer", "uncompressed", *_native.CODECS[1:]),
    "message_timestamp_type": ("CreateTime", "LogAppendTime"),
}
# A broker's settings, and the one that ended with format 2: no topic of 4.x has them.
_NOT_IN_TOPICS = {"producer_id_expiration_ms", "message_format"}
# The smallest segment.bytes that 4.x takes, and the name under which it takes a smaller one.
_SMALLEST_SEGMENT = 1 << 20
_SMALL_SEGMENT = "internal.segment.bytes"


@dataclass(frozen=True, kw_only=True)
class TopicSettings:
    """The settings of one topic. Times in ms, sizes in bytes.

    `retention_ms` and `retention_bytes` delete nothing here: they are handed on to the broker that takes over. What
    `message_format` 0 and 1 mean is what brokers up to 3.x did for such a topic.

    Raises:
        ValueError: a value out of the range that Kafka allows.
        TypeError: a value of another type.

    >>> TopicSettings(segment_ms=3600_000).segment_bytes
    1073741824
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    max_message_bytes: int = (1 << 20) + 12
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = _LONG
    message_timestamp_after_max_ms: int = 3_600_000
    cleanup_policy: str = "delete"
    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _LONG
    min_cleanable_dirty_ratio: float = 0.5
    delete_retention_ms: int = 86_400_000
    producer_id_expiration_ms: int = 86_400_000
    preallocate: bool = False
    flush_messages: int = _LONG
    message_format: int = 2

    def __post_init__(self) -> None:
        for name, default in _defaults().items():
            value: Any = getattr(self, name)
            found, wanted = type(value).__name__, type(default).__name__
            if found != wanted and (found, wanted) != ("int", "float"):
                raise TypeError(f"topic setting {name}={value!r}: {wanted} expected, not {found}")
            if name in _RANGES:
                low, high = _RANGES[name]
                if not low <= value <= high:
                    raise ValueError(f"topic setting {name}={value}: {low} to {high} allowed")
            if name in _WORDS and value not in _WORDS[name]:
                raise ValueError(f"topic setting {name}={value!r}: one of {', '.join(_WORDS[name])} expected")
        level = self.compression_gzip_level
        if level != -1 and not 1 <= level <= 9:
            raise ValueError(f"topic setting compression_gzip_level={level}: -1 or 1 to 9 allowed")
        policies = _policies(self.cleanup_policy)
        # none at all since 4.1: a broker deletes nothing then
        if not policies <= {"delete", "compact"}:
            raise ValueError(
                f"topic setting cleanup_policy={self.cleanup_policy!r}: delete, compact or compact,delete expected"
            )

    @property
    def is_compacted(self) -> bool:
        """Whether records need keys: the cleaner keeps the last of each."""
        return "compact" in _policies(self.cleanup_policy)

    @property
    def has_retention(self) -> bool:
        """Whether old segments are deleted by time and size, and records by DeleteRecords."""
        return "delete" in _policies(self.cleanup_policy)

    def with_keywords(self, settings: Mapping[str, object]) -> TopicSettings:
        """Return these settings with some changed.

        Raises:
            ValueError: an unknown name, or a value out of range.
            TypeError: a value of another type.

        >>> TopicSettings().with_keywords({"segment_byte": 1})
        Traceback (most recent call last):
        ValueError: unknown topic setting 'segment_byte': did you mean 'segment_bytes'?
        """
        known = _defaults()
        for name in settings:
            if name not in known:
                raise unknown("topic setting", name, known)
        return replace(self, **settings)  # type: ignore[arg-type] # __post_init__ checks the types

    def agrees(self, name: str, value: object) -> bool:
        """Tell whether a setting is as here, as far as it is one of topics."""
        if name == "cleanup_policy":
            return _policies(str(value)) == _policies(self.cleanup_policy)
        return name in _NOT_IN_TOPICS or value == getattr(self, name)

    def to_configs(self) -> dict[str, str]:
        """Return what differs from the defaults, as a topic's configuration in Kafka.

        >>> TopicSettings(segment_ms=3600_000, preallocate=True).to_configs()
        {'segment.ms': '3600000', 'preallocate': 'true'}
        """
        configs = {}
        for name, default in _defaults().items():
            value: Any = getattr(self, name)
            if value != default and name not in _NOT_IN_TOPICS:
                is_small = name == "segment_bytes" and value < _SMALLEST_SEGMENT
                config = _SMALL_SEGMENT if is_small else name.replace("_", ".")
                configs[config] = str(value).lower() if isinstance(value, bool) else str(value)
        return configs

    @classmethod
    def named(cls, configs: Mapping[str, str]) -> dict[str, object]:
        """Return the settings that these configurations name, by our names; all of them have to be known.

        Raises:
            ValueError: an unknown name, or a value that its setting cannot have.

        >>> TopicSettings.named({"retention.ms": "-1"})
        {'retention_ms': -1}
        """
        known = {name.replace("_", "."): name for name in _defaults() if name not in _NOT_IN_TOPICS}
        for config in configs:
            if config not in known:
                raise unknown("topic config", config, known)
        settings = cls.from_configs(configs)
        return {known[config]: getattr(settings, known[config]) for config in configs}

    @classmethod
    def from_configs(cls, configs: Mapping[str, str]) -> TopicSettings:
        """Read a topic's configuration in Kafka; what does not concern writing is passed over.

        Raises:
            ValueError: a value that its setting cannot have.

        >>> TopicSettings.from_configs({"segment.ms": "3600000", "min.insync.replicas": "2"}).segment_ms
        3600000
        """
        settings: dict[str, object] = {}
        for name, default in _defaults().items():
            text = configs.get(name.replace("_", "."))
            if name == "segment_bytes":
                text = configs.get(_SMALL_SEGMENT, text)
            if text is not None and name not in _NOT_IN_TOPICS:
                try:
                    settings[name] = _parse(text.strip(), default)
                except ValueError:
                    kind = type(default).__name__
                    raise ValueError(f"topic config {name.replace('_', '.')}={text!r}: {kind} expected") from None
        return cls().with_keywords(settings)


def _defaults() -> dict[str, object]:
    return {field.name: field.default for field in fields(TopicSettings)}


def _policies(text: str) -> set[str]:
    # nothing between commas is no policy, and a broker refuses it; nothing at all is none
    return {word.strip() for word in text.split(",")} if text.strip() else set()


def _parse(text: str, default: object) -> object:
    if type(default) is bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"
    if type(default) is int and "_" in text:
        raise ValueError(text)
    return int(text) if type(default) is int else float(text) if type(default) is float else text
