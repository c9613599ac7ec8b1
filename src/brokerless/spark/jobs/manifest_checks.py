"""Validation of a manifest before a restore uses it: an export can come from anywhere.

Names become paths, and numbers become sizes and offsets. A manifest is refused unless each is a value that an export
writes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from brokerless.layout import checkpoints, file_names
from brokerless.layout.topic_config import TopicConfig

if TYPE_CHECKING:
    from brokerless.spark.jobs.manifest import ExportedFile, ExportedTopic, Manifest

_MAX = (1 << 63) - 1
_MAX_EPOCH = (1 << 31) - 1
# More partitions than a whole cluster has: each becomes a directory.
_MOST_PARTITIONS = 200_000


def check(manifest: Manifest) -> None:
    """Check every value of a manifest.

    Raises:
        TypeError: a value has the wrong type.
        ValueError: a value is invalid.
    """
    if manifest.form not in ("parquet", "json"):
        raise ValueError(f"form {manifest.form!r}")
    if not all(isinstance(name, str) for name in manifest.columns):
        raise ValueError("a column's name is not a string")
    for text in (manifest.id, manifest.plan):
        if not isinstance(text, str) or not re.fullmatch("[0-9a-f]{32,64}", text):
            raise ValueError(f"{text!r} is no id: 32 to 64 hex digits expected")
    if not isinstance(manifest.is_complete, bool):
        raise TypeError(f"is_complete {manifest.is_complete!r}")
    for what, value in (("tasks", manifest.tasks), ("replaced_keys", manifest.replaced_keys)):
        _check_integer(what, value, 0, _MAX)
    _check_integer("target_bytes", manifest.target_bytes, 1, _MAX)
    for name, topic in manifest.topics.items():
        _check_topic(name, topic)
    for file in manifest.files:
        _check_file(file, manifest)


def _check_topic(name: str, topic: ExportedTopic) -> None:
    file_names.check_topic_name(name)
    # The metadata log has an id that Kafka reserves, and is never restored.
    if topic.topic_id is not None and name != file_names.METADATA_TOPIC:
        checkpoints.check_topic_id(topic.topic_id)
    if not all(isinstance(text, str) for item in topic.configs.items() for text in item):
        raise ValueError(f"a setting of topic {name!r} is not a string")
    TopicConfig.from_configs(topic.configs)
    if not topic.partitions:
        raise ValueError(f"topic {name!r} has no partition")
    for number, partition in topic.partitions.items():
        _check_integer(f"partition of topic {name!r}:", number, 0, _MOST_PARTITIONS - 1)
        what = f"of {name}-{number}"
        _check_integer(f"leader_epoch {what}:", partition.leader_epoch, -1, _MAX_EPOCH)
        _check_integer(f"end_offset {what}:", partition.end_offset, 0, _MAX)
        _check_integer(f"start_offset {what}:", partition.start_offset, 0, partition.end_offset)


def _check_file(file: ExportedFile, manifest: Manifest) -> None:
    topic = manifest.topics.get(file.topic)
    _check_integer("partition of a file:", file.partition, 0, _MOST_PARTITIONS - 1)
    if topic is None or file.partition not in topic.partitions:
        raise ValueError(f"a file of {file.topic}-{file.partition}, which is not in it")
    suffix = r"\.parquet" if manifest.form == "parquet" else r"\.json(\.gz)?"
    expected = rf"topic={re.escape(file.topic)}/partition={file.partition}/[0-9]{{20}}-[0-9]{{6,}}{suffix}"
    if not isinstance(file.name, str) or not re.fullmatch(expected, file.name):
        raise ValueError(f"{file.name!r} is not the name of a file of {file.topic}-{file.partition}")
    partition = topic.partitions[file.partition]
    _check_integer(f"bytes of {file.name}:", file.bytes, 1, _MAX)
    _check_integer(f"first_offset of {file.name}:", file.first_offset, partition.start_offset, partition.end_offset - 1)
    _check_integer(f"last_offset of {file.name}:", file.last_offset, file.first_offset, partition.end_offset - 1)
    _check_integer(f"rows of {file.name}:", file.rows, 1, file.last_offset - file.first_offset + 1)
    if not isinstance(file.seconds, int | float) or isinstance(file.seconds, bool):
        raise TypeError(f"seconds of {file.name}: {file.seconds!r}")


def _check_integer(what: str, value: object, least: int, greatest: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= greatest:
        raise ValueError(f"{what} {value!r} found, {least} to {greatest} expected")
