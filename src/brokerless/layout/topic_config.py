"""`TopicConfig`: the settings of a topic, with Kafka's names in snake_case, Kafka's values and Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from brokerless import _native
from brokerless.arguments import unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_INT = (1 << 31) - 1
_LONG = (1 << 63) - 1

# The range of each number. Brokers refuse a `segment.bytes` below 1 MiB since 4.0, and allowed it before.
_RANGES = {
    "segment_bytes": (14, _INT),
    "segment_ms": (1, _LONG),
    "segment_jitter_ms": (0, _LONG),
    "segment_index_bytes": (4, _INT),
    "index_interval_bytes": (0, _INT),
    "max_message_bytes": (0, _INT),
    "max_decompressed_message_bytes": (1, _INT - 8),
    "compression_lz4_level": (1, 17),
    "compression_zstd_level": (-131072, 22),
    "message_timestamp_before_max_ms": (0, _LONG),
    "message_timestamp_after_max_ms": (0, _LONG),
    "retention_ms": (-1, _LONG),
    # Kafka has no lower limit here: every negative number means "unlimited".
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
# Settings that no topic of 4.x can have: a broker's setting, and the message format, which is always 2.
_NOT_IN_TOPICS = {"producer_id_expiration_ms", "message_format"}
# The smallest segment.bytes that 4.x allows, and the internal setting that allows smaller values.
_SMALLEST_SEGMENT = 1 << 20
_SMALL_SEGMENT = "internal.segment.bytes"
# The sources of settings, besides the layers of a broker.
OPTION, TOPIC, DEFAULT = "option", "topic", "default"
UNKNOWN = "assumed"
"""The source of a default that is used because the topic's own settings are not known."""


@dataclass(frozen=True)
class Setting:
    """A setting and its source.

    Attributes:
        value: the value.
        source: one of
            "topic": the topic's own configuration;
            "broker 1" or "cluster default": a broker's dynamic configuration;
            the path of a broker's configuration file;
            "default": Kafka's default;
            "option": an argument of the caller;
            "assumed": Kafka's default, because the topic's own settings are not known.
    """

    value: object
    source: str


def settings_line(settings: Mapping[str, Setting]) -> str:
    """Return settings as one line, grouped by source.

    >>> settings_line({"retention_ms": Setting(-1, "topic"), "preallocate": Setting(False, "default")})
    'settings: retention_ms=-1 (topic); preallocate=False (default)'
    """
    by_source: dict[str, list[str]] = {}
    for name, setting in settings.items():
        by_source.setdefault(setting.source, []).append(f"{name}={setting.value}")
    parts = [f"{', '.join(named)} ({source})" for source, named in by_source.items()]
    return f"settings: {'; '.join(parts)}"


@dataclass(frozen=True, kw_only=True)
class TopicConfig:
    """The settings of one topic. Times are in ms, sizes in bytes.

    Each attribute is a topic configuration of Kafka: `segment_ms` is `segment.ms`. Some need an explanation:

    - `retention_ms` and `retention_bytes` delete nothing while brokerless writes a log. Only the broker that serves the
      log later applies them.
    - With `message_format` 0 or 1, logs are written as brokers up to 3.x wrote them for topics with that format.
    - `remote_storage_enable` is True if a broker may have moved segments to remote storage. None means unknown, so that
      the log's own files decide.
    - `sources` holds the source of each setting that was read or given; see `source_of`.
    - `are_guessed` is True if neither the topic's own settings nor its broker's are known. No record may be deleted
      because of such settings.

    Raises:
        ValueError: a value is outside the range that Kafka allows.
        TypeError: a value has the wrong type.

    >>> TopicConfig(segment_ms=3600_000).segment_bytes
    1073741824
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    max_message_bytes: int = (1 << 20) + 12
    max_decompressed_message_bytes: int = _INT - 8
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
    remote_storage_enable: bool | None = None
    message_format: int = 2
    sources: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    are_guessed: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name, default in _defaults().items():
            value: Any = getattr(self, name)
            found, wanted = type(value).__name__, _kind(default).__name__
            if value is not default and found != wanted and (found, wanted) != ("int", "float"):
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
        # Since 4.1, the policy may be empty. A broker then deletes nothing.
        if not policies <= {"delete", "compact"}:
            raise ValueError(
                f"topic setting cleanup_policy={self.cleanup_policy!r}: delete, compact or compact,delete expected"
            )

    def __reduce__(self) -> tuple[object, ...]:
        # Each log's task carries a config, so leave Kafka's defaults out.
        known = _defaults()
        changed = {name: getattr(self, name) for name, default in known.items() if getattr(self, name) != default}
        return _with_defaults, ({**changed, "sources": dict(self.sources), "are_guessed": self.are_guessed},)

    @property
    def is_compacted(self) -> bool:
        """True if the cleaner keeps only the last record of each key, so that records need keys."""
        return "compact" in _policies(self.cleanup_policy)

    @property
    def has_retention(self) -> bool:
        """True if old segments are deleted by time and size."""
        return "delete" in _policies(self.cleanup_policy)

    def source_of(self, name: str) -> str:
        """Return the source of a setting; see `Setting`.

        >>> settings = TopicConfig.from_configs({"segment.ms": "3600000"})
        >>> settings.source_of("segment_ms"), settings.source_of("segment_bytes")
        ('topic', 'default')
        """
        is_default = getattr(self, name) == _defaults()[name]
        return self.sources.get(name, DEFAULT if is_default else OPTION)

    def used(self, names: Iterable[str]) -> dict[str, Setting]:
        """Return these settings with their sources."""
        return {name: Setting(getattr(self, name), self.source_of(name)) for name in names}

    def with_keywords(
        self, settings: Mapping[str, object], sources: Mapping[str, str] = MappingProxyType({})
    ) -> TopicConfig:
        """Return these settings with some changes.

        Args:
            settings: the new values.
            sources: the sources of the new values; a setting without an entry comes from the caller ("option").

        Raises:
            ValueError: a name is unknown, or a value is out of range.
            TypeError: a value has the wrong type.

        >>> TopicConfig().with_keywords({"segment_byte": 1})
        Traceback (most recent call last):
        ValueError: unknown topic setting 'segment_byte': did you mean 'segment_bytes'?
        """
        known = _defaults()
        for name in settings:
            if name not in known:
                raise unknown("topic setting", name, known)
        changed = {name: sources.get(name, OPTION) for name in settings}
        # __post_init__ checks the types
        return replace(self, **settings, sources={**self.sources, **changed})  # type: ignore[arg-type]

    def agrees(self, name: str, value: object) -> bool:
        """Return whether a setting has this value; always True for settings that no topic can have."""
        if name == "cleanup_policy":
            return _policies(str(value)) == _policies(self.cleanup_policy)
        return name in _NOT_IN_TOPICS or value == getattr(self, name)

    def to_configs(self) -> dict[str, str]:
        """Return the topic's own configuration under Kafka's names, without broker settings and defaults.

        >>> TopicConfig(segment_ms=3600_000, preallocate=True).to_configs()
        {'segment.ms': '3600000', 'preallocate': 'true'}
        """
        configs = {}
        for name in _defaults():
            value: Any = getattr(self, name)
            if self.source_of(name) in (TOPIC, OPTION) and name not in _NOT_IN_TOPICS:
                is_small = name == "segment_bytes" and value < _SMALLEST_SEGMENT
                config = _SMALL_SEGMENT if is_small else name.replace("_", ".")
                configs[config] = str(value).lower() if isinstance(value, bool) else str(value)
        return configs

    @classmethod
    def named(cls, configs: Mapping[str, str]) -> dict[str, object]:
        """Convert configurations under Kafka's names to settings by attribute name. All names must be known.

        Raises:
            ValueError: a name is unknown, or a value is invalid.

        >>> TopicConfig.named({"retention.ms": "-1"})
        {'retention_ms': -1}
        """
        known = {name.replace("_", "."): name for name in _defaults() if name not in _NOT_IN_TOPICS}
        for config in configs:
            if config not in known:
                raise unknown("topic config", config, known)
        settings = cls.from_configs(configs)
        return {known[config]: getattr(settings, known[config]) for config in configs}

    @classmethod
    def from_configs(cls, configs: Mapping[str, str]) -> TopicConfig:
        """Create the settings from a topic's configuration in Kafka. Names that do not concern writing are ignored.

        Raises:
            ValueError: a value is invalid.

        >>> TopicConfig.from_configs({"segment.ms": "3600000", "min.insync.replicas": "2"}).segment_ms
        3600000
        """
        settings: dict[str, object] = {}
        for name in _defaults():
            text = configs.get(name.replace("_", "."))
            if name == "segment_bytes":
                text = configs.get(_SMALL_SEGMENT, text)
            if text is not None and name not in _NOT_IN_TOPICS:
                try:
                    settings[name] = parse_setting(name, text)
                except ValueError as error:
                    raise ValueError(f"topic config {name.replace('_', '.')}={text!r}: {error}") from None
        sources = dict.fromkeys(settings, TOPIC)
        if "remote_storage_enable" not in settings:
            settings["remote_storage_enable"], sources["remote_storage_enable"] = False, DEFAULT
        return cls().with_keywords(settings, sources)


def parse_setting(name: str, text: str) -> object:
    """Parse a setting's value as Kafka writes it.

    Raises:
        ValueError: the text is not a value of the setting's type.

    >>> parse_setting("preallocate", "TRUE ")
    True
    """
    default = _defaults()[name]
    try:
        return _parse(text.strip(), default)
    except ValueError:
        raise ValueError(f"{_kind(default).__name__} expected") from None


def _with_defaults(changed: dict[str, Any]) -> TopicConfig:
    return TopicConfig(**changed)


@cache
def _defaults() -> dict[str, object]:
    return {field.name: field.default for field in fields(TopicConfig) if field.compare}


def _kind(default: object) -> type:
    """Return the type of a setting with this default."""
    return bool if default is None else type(default)


def _policies(text: str) -> set[str]:
    # An empty text means no policy. An empty word between commas is an invalid policy, which brokers refuse.
    return {word.strip() for word in text.split(",")} if text.strip() else set()


def _parse(text: str, default: object) -> object:
    if _kind(default) is bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"
    if type(default) in (int, float) and "_" in text:
        raise ValueError(text)
    return int(text) if type(default) is int else float(text) if type(default) is float else text
