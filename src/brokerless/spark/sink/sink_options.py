"""The options of `df.write` and `writeStream`: those of Spark's Kafka sink, and further ones for topics at rest."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from brokerless import _native
from brokerless.io.remote import is_remote
from brokerless.layout.file_names import MOST_PARTITIONS
from brokerless.layout.topic_config import TopicConfig
from brokerless.log_dir.topics import NewTopic
from brokerless.spark.source.option_values import boolean, canonical, choice, local, missing_path, positive
from brokerless.staging.atomic_write import AtomicWrite
from brokerless.staging.parts import Encoding

if TYPE_CHECKING:
    from collections.abc import Mapping

# Options that the source does not have: one of them shows that the options are a sink's.
OF_SINKS = (
    "topic",
    "compression",
    "partitions",
    "topicId",
    "batchSize",
    "segmentBytes",
    "idempotent",
    "transactional",
    "keepOffsets",
    "soleReplica",
    "ifExists",
    # Spark's own options of every query, which it passes on.
    "checkpointLocation",
    "queryName",
)
# The prefix of a topic's setting, before Kafka's name: topic.retention.ms.
_SETTING = "topic."
# Options of Spark's Kafka sink, which Spark itself refuses for other sinks. They also show that options are a sink's.
_ASYNCHRONOUS = ("asyncProgressTrackingEnabled", "asyncProgressTrackingCheckpointIntervalMs")
# A column of headers is always written. The source has this option, too.
_IGNORED = ("includeHeaders", *_ASYNCHRONOUS)
# A batch is read as a whole.
_LARGEST_BATCH = 1 << 30


def parse(options: Mapping[str, str], *, overwrite: bool) -> AtomicWrite:
    """Check options as far as possible without reading the disk, and return the write that they describe.

    Args:
        options: the options, as Spark passes them.
        overwrite: replace the topic.

    Raises:
        ValueError: an option is unknown (the message suggests the nearest name), its value is invalid, or it
            contradicts another, such as a checkpoint in the log directory.
    """
    others = {option: value for option, value in options.items() if not _is_setting(option)}
    given = canonical(others, ("path", *OF_SINKS), _IGNORED)
    if not given.get("path"):
        raise missing_path(options, "a Kafka log directory, created if it does not exist")
    _check_apart(local(given["path"]), checkpoint(options))
    topic = given.get("topic")
    if not topic:
        if overwrite:
            raise ValueError("overwriting needs option topic: the topics in the rows do not say which are to go")
        if "topicId" in given:
            raise ValueError("option topicId is that of one topic: it needs option topic")
    only_new = choice(given, "ifExists", ("append", "error")) == "error"
    if only_new and overwrite:
        raise ValueError("option ifExists cannot be error in mode overwrite, which replaces an existing topic")
    new = _new_topic(options, given)
    return AtomicWrite(
        path=local(given["path"]),
        topics={topic: new} if topic else {},
        others=None if topic else new,
        overwrite=overwrite,
        only_new=only_new,
        encoding=Encoding(
            compression=choice(given, "compression", _native.CODECS),
            batch_size=positive(given, "batchSize", most=_LARGEST_BATCH) or 16384,
            idempotent=boolean(given, "idempotent", default=False),
            transactional=boolean(given, "transactional", default=False),
            keep_offsets=boolean(given, "keepOffsets", default=False),
        ),
        sole_replica=boolean(given, "soleReplica", default=False),
    )


def checkpoint(options: Mapping[str, str]) -> str:
    """Return the path of a query's checkpoint; "" if the options have none."""
    return next((local(value.strip()) for name, value in options.items() if name.lower() == "checkpointlocation"), "")


def _check_apart(path: str, checkpoint: str) -> None:
    if not checkpoint or is_remote(checkpoint):
        return
    if Path(os.path.realpath(checkpoint)).is_relative_to(os.path.realpath(path)):
        raise ValueError(
            f"option checkpointLocation {checkpoint} is in the log directory {path}. A broker treats each directory "
            "there as a partition, so it would not start. Give a checkpointLocation elsewhere, and move or remove this "
            "directory if Spark has created it"
        )


def _is_setting(option: str) -> bool:
    return option.lower().startswith(_SETTING)


def _new_topic(options: Mapping[str, str], given: Mapping[str, str]) -> NewTopic:
    """Return the properties of a new topic.

    Raises:
        ValueError: a setting has a value that Kafka does not allow. The error names the option, not Python's argument.
    """
    partitions = positive(dict(given), "partitions", most=MOST_PARTITIONS)
    try:
        config = _config(options, segment_bytes=positive(dict(given), "segmentBytes"))
        return NewTopic(partitions=partitions, topic_id=given.get("topicId"), config=config)
    except (TypeError, ValueError) as error:
        segment_size = "segmentBytes" if "segmentBytes" in given else f"{_SETTING}segment.bytes"

        def worded(found: re.Match[str]) -> str:
            name = found[1].replace("_", ".")
            return f"option {segment_size if name == 'segment.bytes' else _SETTING + name}"

        raise ValueError(re.sub(r"^topic (?:setting|config) ([\w.]+)", worded, str(error))) from None


def _config(options: Mapping[str, str], *, segment_bytes: int | None) -> dict[str, object]:
    """Return the settings of a new topic, by the names of `TopicConfig`."""
    configs = {
        option.lower().removeprefix(_SETTING): value.strip() for option, value in options.items() if _is_setting(option)
    }
    config = TopicConfig.named(configs)
    if segment_bytes is None:
        return config
    if "segment_bytes" in config:
        raise ValueError("options segmentBytes and topic.segment.bytes are one setting: give one of them")
    return {**config, "segment_bytes": segment_bytes}


def is_of_sink(options: Mapping[str, str]) -> bool:
    """Return whether the options are for a write. Spark creates the source before it decides to read or write."""
    of_sinks = {name.lower() for name in (*OF_SINKS, *_ASYNCHRONOUS)}
    return any(option.lower() in of_sinks or _is_setting(option) for option in options)
