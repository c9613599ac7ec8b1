"""The options of `format("brokerless")`: the names and rules of Spark's Kafka source, and a few more.

Source of the rules: Spark's Kafka integration guide and KafkaSourceProvider. Names ignore case.
"""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast

from brokerless.arguments import to_ms
from brokerless.notes import note
from brokerless.spark.source.decoded import Decode
from brokerless.spark.source.option_values import boolean, canonical, choice, integer, local, missing_path, positive
from brokerless.values.decoding import Decoding

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from brokerless.log.offset_range import IsolationLevel
    from brokerless.log.split import OnCorrupt
    from brokerless.spark.source.decoded import Decoded
    from brokerless.values.decoding import OnDecodeError, SchemaChoice

_STATE_VIEWS = (
    *("groups", "commits", "transactions", "producers", "remote_segments", "schemas"),
    *(
        f"cluster.{subject}"
        for subject in (
            *("brokers", "controllers", "topics", "partitions", "configs", "acls", "quotas", "users", "features"),
            *("tokens", "voters"),
        )
    ),
)
VIEWS = ("records", "batches", "findings", "sums", *_STATE_VIEWS)

_SELECTION = ("subscribe", "subscribePattern", "assign")
_RANGE = (
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "maxRecordsPerPartition",
)
# How keys and values are decoded.
_DECODING = ("decode", "schemas", "subject", "context", "message", "schema", "onDecodeError")
# The jar adds it to the options of the user (`Decoded.java`).
_IN_JVM = "decodesinjvm"
# The size of a stream's batches.
_TRIGGER = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
# The point of the views of a cluster's state, and whether they show what came before.
_OF_STATE = ("asOf", "history")
# The views that option `subscribe` restricts to topics, and those that can show what came before.
_WITH_TOPICS = ("commits", "remote_segments", "cluster.topics", "cluster.partitions")
_WITH_HISTORY = ("groups", "commits", "transactions", "remote_segments")
# The levels of a check.
_LEVELS = ("default", "quick", "deep")
_HONOURED_KAFKA = ("kafka.isolation.level", "kafka.check.crcs")
_KNOWN = (
    "path",
    "paths",
    "view",
    "columns",
    "onCorrupt",
    *_OF_STATE,
    "level",
    *_SELECTION,
    *_RANGE,
    *_TRIGGER,
    *_DECODING,
    "minPartitions",
    "includeHeaders",
    "failOnDataLoss",
    *_HONOURED_KAFKA,
)
# Options of Spark's Kafka source about the network or consumer groups, like every other kafka.* option.
_IGNORED = (
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
)

Partition = tuple[str, int]
Offset = int | Literal["earliest", "latest", "high-watermark"]

_WORDS: dict[int, Offset] = {-1: "latest", -2: "earliest"}


@dataclass(frozen=True)
class Bound:
    """The start or end of a read. At most one of the four attributes is given; without one, the default applies.

    Attributes:
        offset: one offset for every partition.
        offsets: the offset of each partition; every partition of the read must be named.
        timestamp: one time for every partition, in ms.
        timestamps: the time of each partition, in ms; every partition of the read must be named.
    """

    offset: Offset | None = None
    offsets: dict[Partition, Offset] | None = None
    timestamp: int | None = None
    timestamps: dict[Partition, int] | None = None


@dataclass(frozen=True)
class Options:
    """The parsed options of a read, checked as far as possible without reading the disk.

    Attributes:
        decode: the choice of what is decoded.
        decodes_in_jvm: whether the tasks of a decoded read run in the JVM.
        decoded: the same with schemas and types, which the source has read; None until then.
    """

    paths: tuple[str, ...]
    view: str
    columns: tuple[str, ...] | None
    topics: tuple[str, ...] | None
    topic_pattern: re.Pattern[str] | None
    assigned: tuple[Partition, ...] | None
    start: Bound
    end: Bound
    no_match: str
    isolation_level: IsolationLevel
    check_crcs: bool
    on_corrupt: OnCorrupt
    fail_on_data_loss: bool
    include_headers: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay: float
    as_of: int | None
    history: bool
    level: str
    decode: Decode | None
    given: frozenset[str]
    decodes_in_jvm: bool = False
    decoded: Decoded | None = None

    @property
    def chooses_topics(self) -> bool:
        """True if the options choose topics or partitions."""
        return any(name in self.given for name in _SELECTION)

    @property
    def skips(self) -> bool:
        """True if the read skips damage, and reports it."""
        return self.on_corrupt == "skip"

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Options:
        """Parse and check options.

        Raises:
            ValueError: an option is unknown (the message suggests the nearest name), or its value is invalid.
        """
        in_jvm = [name for name in options if name.lower() == _IN_JVM]
        options = {name: value for name, value in options.items() if name not in in_jvm}
        given = canonical(options, _KNOWN, _IGNORED, _HONOURED_KAFKA)
        chosen = [name for name in _SELECTION if name in given]
        if len(chosen) > 1:
            raise ValueError(f"only one of {', '.join(_SELECTION)} can be given, not {' and '.join(chosen)}")
        view = choice(given, "view", VIEWS)
        if view != "records":
            for name in (*_RANGE, "includeHeaders", "kafka.isolation.level"):
                if name in given:
                    raise ValueError(f"option {name} does not apply to view {view}, which shows whole logs")
        idle = _without_effect(view)
        for name in given:
            if name in idle:
                raise ValueError(f"option {name} does not apply to view {view}")
        start, end = _bound(given, "starting"), _bound(given, "ending")
        if "earliest" in (end.offset, *(end.offsets or {}).values()):
            raise ValueError("option endingOffsets cannot be earliest: a query reads from earliest to latest")
        _check_order(start, end)
        paths = _paths(given, options)
        return cls(
            paths=paths,
            view=view,
            columns=_names(given, "columns"),
            topics=_names(given, "subscribe"),
            topic_pattern=_pattern(given),
            assigned=_assigned(given),
            start=start,
            end=end,
            no_match=choice(given, "startingOffsetsByTimestampStrategy", ("error", "latest")),
            isolation_level=cast(
                "IsolationLevel", choice(given, "kafka.isolation.level", ("read_uncommitted", "read_committed"))
            ),
            check_crcs=boolean(given, "kafka.check.crcs", default=True),
            on_corrupt=cast("OnCorrupt", choice(given, "onCorrupt", ("raise", "skip"))),
            fail_on_data_loss=boolean(given, "failOnDataLoss", default=True),
            include_headers=boolean(given, "includeHeaders", default=False),
            min_partitions=positive(given, "minPartitions"),
            max_records_per_partition=positive(given, "maxRecordsPerPartition"),
            max_offsets_per_trigger=positive(given, "maxOffsetsPerTrigger"),
            min_offsets_per_trigger=positive(given, "minOffsetsPerTrigger"),
            max_trigger_delay=_seconds(given, "maxTriggerDelay", "15m"),
            as_of=_time(given, "asOf"),
            history=boolean(given, "history", default=view == "commits"),
            level=choice(given, "level", _LEVELS),
            decode=_decode(given, paths),
            decodes_in_jvm=bool(in_jvm),
            given=frozenset(given),
        )

    def for_batch(self) -> Options:
        """Check the options for a batch query, and return them.

        Raises:
            ValueError: an option's value is only for streams.
        """
        if "latest" in (self.start.offset, *(self.start.offsets or {}).values()):
            raise ValueError(
                "option startingOffsets cannot be latest: a batch query reads from earliest to latest, and only a "
                "stream (readStream) can start with future records"
            )
        idle = [name for name in _TRIGGER if name in self.given]
        if idle:
            note(f"options without effect on a batch query: {', '.join(idle)}")
        return self

    def for_stream(self, *, is_admission_controlled: bool) -> Options:
        """Return the options for a stream. By default a stream starts at the end of the logs.

        Args:
            is_admission_controlled: whether this version of PySpark lets a source limit a batch.

        Raises:
            ValueError: a stream cannot have an option, at least not with this version of PySpark.
        """
        if self.view != "records":
            raise ValueError(f"option view cannot be {self.view} in a stream: only records are followed")
        ending: list[str] = [name for name in ("endingTimestamp", "endingOffsetsByTimestamp") if name in self.given]
        if self.end.offset not in (None, "latest", "high-watermark") or self.end.offsets is not None or ending:
            raise ValueError(
                f"option {(ending or ['endingOffsets'])[0]} gives an end, and a stream has none: endingOffsets may be "
                "latest or high-watermark, which limit how far the stream follows each log"
            )
        limits = [name for name in _TRIGGER if name in self.given]
        if limits and not is_admission_controlled:
            raise ValueError(
                f"option {limits[0]} needs PySpark 4.2: in earlier versions, a source cannot limit a batch"
            )
        most, least = self.max_offsets_per_trigger, self.min_offsets_per_trigger
        if most is not None and least is not None and least > most:
            raise ValueError(f"minOffsetsPerTrigger {least} is above maxOffsetsPerTrigger {most}")
        return self if self.start != Bound() else replace(self, start=Bound(offset="latest"))


def _without_effect(view: str) -> set[str]:
    """Return the options that a view lacks, in addition to the options that only view `records` has."""
    if view == "records":
        return {*_OF_STATE, "level"}
    if view not in _STATE_VIEWS:
        return {*_OF_STATE, *_DECODING} | ({"level"} if view != "findings" else set())
    idle = {"level", "onCorrupt", "failOnDataLoss", "kafka.check.crcs", *_SELECTION, *_DECODING}
    if view == "producers":
        return {"history", *idle} - {*_SELECTION}
    idle -= {"subscribe"} if view in _WITH_TOPICS else set()
    return idle | (set() if view in _WITH_HISTORY else {"history"})


def _paths(given: dict[str, str], options: Mapping[str, str]) -> tuple[str, ...]:
    """Parse the paths: one path unchanged (it may contain commas), or a JSON list, as `load([...])` passes several."""
    text = given.get("paths") or given.get("path", "")
    if not text:
        raise missing_path(options, "a Kafka log directory, a partition directory or a .log file")
    return _several(text, "path")


def _several(text: str, option: str) -> tuple[str, ...]:
    paths = _json(text, option, '["/disk1/kafka","/disk2/kafka"]') if text.startswith("[") else [text]
    if not paths or not all(isinstance(path, str) for path in paths):
        raise ValueError(f"option {option} must be a path or a JSON list of paths, not {text}")
    return tuple(local(path) for path in paths)


def _decode(given: dict[str, str], paths: tuple[str, ...]) -> Decode | None:
    others = [name for name in _DECODING[1:] if name in given]
    if "decode" not in given:
        if others:
            raise ValueError(f"option {others[0]} needs option decode, such as value=registry")
        return None
    schema = given.get("schema")
    decoding = replace(
        Decoding.of(given["decode"]),
        subject=given.get("subject"),
        context=given.get("context"),
        message=given.get("message"),
        schema=int(schema) if schema is not None and schema.isdecimal() else cast("SchemaChoice | None", schema),
        on_error=cast("OnDecodeError", choice(given, "onDecodeError", ("null", "raise", "skip"))),
    )
    return Decode(decoding, paths, _several(given["schemas"], "schemas") if "schemas" in given else None)


def _names(given: dict[str, str], option: str) -> tuple[str, ...] | None:
    if option not in given:
        return None
    names = tuple(name.strip() for name in given[option].split(",") if name.strip())
    if not names:
        raise ValueError(f"option {option} names nothing: {given[option]!r}")
    return names


def _pattern(given: dict[str, str]) -> re.Pattern[str] | None:
    text = given.get("subscribePattern")
    if text is None:
        return None
    try:
        with warnings.catch_warnings():
            # Java has nested sets, and Python warns that it may get them. Until then it would match another pattern.
            warnings.simplefilter("error", FutureWarning)
            return re.compile(text)
    except (re.error, FutureWarning) as error:
        raise ValueError(f"option subscribePattern is no regular expression: {text!r}: {error}") from None


def _assigned(given: dict[str, str]) -> tuple[Partition, ...] | None:
    text = given.get("assign")
    if text is None:
        return None
    example = '{"topicA":[0,1],"topicB":[2,4]}'
    topics = _json(text, "assign", example)
    if not isinstance(topics, dict) or not all(_is_partitions(partitions) for partitions in topics.values()):
        raise ValueError(f"option assign must look like {example}, not {text}")
    return tuple((topic, partition) for topic, partitions in topics.items() for partition in partitions)


def _is_partitions(value: object) -> bool:
    return isinstance(value, list) and all(type(partition) is int for partition in value)


def _bound(given: dict[str, str], side: str) -> Bound:
    """Parse the options of one bound; `side` is "starting" or "ending".

    As in Spark, one time for all partitions takes precedence over times by partition, and these over offsets.
    """
    every, by_time, by_offset = f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets"
    if every in given:
        timestamp = integer(given[every], every)
        _check_times(every, [timestamp])
        return Bound(timestamp=timestamp)
    if by_time in given:
        timestamps = _by_partition(given[by_time], by_time, '{"topicA":{"0":1000,"1":1000}}')
        _check_times(by_time, timestamps.values())
        return Bound(timestamps=timestamps)
    text = given.get(by_offset)
    if text is None:
        return Bound()
    words = ("earliest", "latest", *(("high-watermark",) if side == "ending" else ()))
    if text.lower() in words:
        bound = Bound(offset=text.lower())  # type: ignore[arg-type]
    elif not text.startswith("{"):
        raise ValueError(f"option {by_offset} must be {', '.join(words)} or JSON, not {text!r}")
    else:
        numbers = _by_partition(text, by_offset, '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}')
        if min(numbers.values(), default=0) < min(_WORDS):
            raise ValueError(
                f"option {by_offset} has a negative offset that is neither -1 (latest) nor -2 (earliest): {text}"
            )
        bound = Bound(offsets={partition: _WORDS.get(number, number) for partition, number in numbers.items()})
    return bound


def _time(given: dict[str, str], option: str) -> int | None:
    """Parse a time: ms since 1970, or ISO 8601 text."""
    text = given.get(option)
    if text is None:
        return None
    forms = "ms since 1970, or ISO 8601 (2024-05-01T12:00)"
    return to_ms(f"option {option}", int(text) if re.fullmatch(r"\d{1,18}", text) else text, forms)


def _check_times(option: str, timestamps: Iterable[int]) -> None:
    """Refuse negative times. For a broker, the times -1 and -2 mean latest and earliest; in Spark these are offsets."""
    earliest = min(timestamps, default=0)
    if earliest < 0:
        raise ValueError(f"option {option} has a negative time: {earliest}; give ms since 1970")


def _by_partition(text: str, option: str, example: str) -> dict[Partition, int]:
    topics = _json(text, option, example)
    numbers: dict[Partition, int] = {}
    try:
        for topic, partitions in topics.items():
            for partition, number in partitions.items():
                if type(number) is not int:
                    raise ValueError(number)
                numbers[topic, int(partition)] = number
    except (AttributeError, ValueError):
        raise ValueError(f"option {option} must look like {example}, not {text}") from None
    return numbers


def _check_order(start: Bound, end: Bound) -> None:
    for first, last in ((start.offsets, end.offsets), (start.timestamps, end.timestamps)):
        for partition in (first or {}).keys() & (last or {}).keys():
            low, high = first[partition], last[partition]  # type: ignore[index]
            if isinstance(low, int) and isinstance(high, int) and low > high >= 0:
                raise ValueError(f"{partition[0]}-{partition[1]} would start at {low}, beyond its end {high}")


def _json(text: str, option: str, example: str) -> Any:  # noqa: ANN401 - JSON
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise ValueError(f"option {option} must look like {example}, not {text}") from None


_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def _seconds(given: dict[str, str], option: str, default: str) -> float:
    """Return a duration as Spark writes it; a bare number is milliseconds."""
    text = given.get(option, default).lower()
    found = re.fullmatch(r"(\d+)\s*([a-z]*)", text)
    if not found or (found[2] or "ms") not in _UNITS:
        raise ValueError(f"option {option} must be a duration like 30s or 15m, not {given[option]!r}")
    return int(found[1]) * _UNITS[found[2] or "ms"]
