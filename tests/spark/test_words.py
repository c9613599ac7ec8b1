"""Errors name an option as Spark's users write it: not as an option of the command line, nor as one of Python."""

import inspect
import re
import shutil

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import StringType, StructField, StructType

import brokerless as bl
from brokerless.layout.topic_config import TopicConfig
from brokerless.spark.data_source import BrokerlessSource
from support.damage import overwrite

_FUNCTIONS = (bl.Log.read, bl.Log.plan, bl.LogDirs.read, bl.Producer, bl.open_log_dir, TopicConfig)
PYTHON_ONLY = {name for call in _FUNCTIONS for name in inspect.signature(call).parameters if "_" in name}

READS = (
    {"path": ""},
    {"path": "", "kafka.bootstrap.servers": "h:9092"},
    {"path": "/nowhere"},
    {"subscribe": "codec-nope"},
    {"assign": '{"codec-none":[7]}'},
    {"onCorrupt": "drop"},
    {"subscribe": "codec-none", "startingOffsets": '{"codec-none":{"0":99999}}'},
    {"subscribe": "codec-none", "endingOffsets": '{"codec-none":{"0":99999}}'},
    {"subscribe": "codec-none", "startingOffsets": '{"codec-zstd":{"0":1}}'},
    {"subscribe": "codec-none", "startingTimestamp": "99999999999999"},
    {"subscribe": "codec-none", "startingTimestamp": "1e3"},
    {"subscribe": "codec-damaged"},
    {"subscribe": "codec-damaged", "kafka.isolation.level": "read_committed"},
    {"view": "commits", "asOf": "soon"},
    {"view": "batches", "startingOffsets": "earliest"},
    {"columns": "ofset"},
    {"decode": "value=registry"},
    {"decode": "value=registry", "schemas": "/nowhere"},
    {"decode": "value=int64", "onDecodeError": "ignore"},
    {"decode": "value=int64", "onDecodeError": "raise", "subscribe": "codec-none"},
    {"onDecodeError": "skip"},
)
WRITES = (
    {"path": "", "kafka.bootstrap.servers": "h:9092"},
    {"path": "s3://bucket/data"},
    {"path": "LOGS"},
    {"partitions": "0"},
    {"topicId": "x"},
    {"batchSize": "1k"},
    {"segmentBytes": "1"},
    {"keepOffsets": "true"},
    {"keepOffsets": "true", "idempotent": "true"},
    {"compression": "zip"},
    {"topic.compression.gzip.level": "77"},
    {"topic.cleanup.policy": "shrink"},
    {"topic.retention.ms": "soon"},
    {"topic.segment.bytes": "1"},
    {"topic": "__consumer_offsets"},
    {"topic": "a/b"},
    {"topic": "present", "partitions": "7"},
    {"topic": "present", "ifExists": "error"},
    {"topic": "present", "ifExists": "fail"},
)
STREAMS = (
    {"endingTimestamp": "5"},
    {"startingOffsets": '{"codec-none":{"0":1}}'},
    {"subscribe": "nope"},
    {"view": "sums"},
)


@pytest.fixture
def path(golden, tmp_path):
    """Directories of logs, some damaged, and one to write to."""
    for name, source in {"none": "none", "zstd": "zstd", "damaged": "none"}.items():
        shutil.copytree(golden / f"logs/kafka-4.1/codec-{source}-0", tmp_path / f"d/codec-{name}-0")
    overwrite(min((tmp_path / "d/codec-damaged-0").glob("*.log")), 100, b"\xff")
    with bl.Producer(tmp_path / "w", "present") as producer:
        producer.send([{"value": b"v"}])
    return tmp_path


def read(options, path):
    reader = (source := BrokerlessSource({"path": str(path / "d"), **options})).reader(source.schema())
    for task in reader.partitions():
        list(reader.read(task))


def write(options, path):
    given = {"path": str(path / "w"), "topic": "new", **options}
    given["path"] = given["path"].replace("LOGS", str(path / "d"))
    writer = BrokerlessSource(given).writer(StructType([StructField("value", StringType())]), overwrite=False)
    writer.write(iter([pa.record_batch({"value": ["v"]})]))


def follow(options, path):
    source = BrokerlessSource({"path": str(path / "d"), **options})
    reader = source.streamReader(source.schema())
    reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())


@pytest.mark.filterwarnings("ignore:options without effect")
@pytest.mark.parametrize(
    ("run", "options"),
    [*((read, one) for one in READS), *((write, one) for one in WRITES), *((follow, one) for one in STREAMS)],
    ids=lambda value: None if callable(value) else "-".join(f"{name}={text}" for name, text in value.items())[:60],
)
def test_errors_name_options_as_spark_does(run, options, path, monkeypatch):
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "1")
    with pytest.raises((bl.BrokerlessError, ValueError, OSError, TypeError)) as failed:
        run(options, path)
    text = str(failed.value)
    assert not set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", text)) & PYTHON_ONLY
    assert not re.search(r"(?<![\w-])--[a-z]", text)
    assert "create_log_dir" not in text


@pytest.mark.filterwarnings("ignore:options without effect")
@pytest.mark.parametrize("run", [read, write, follow])
def test_servers_without_a_path_are_answered_with_the_line_to_change(run, tmp_path):
    with pytest.raises(ValueError, match="option path is missing") as failed:
        run({"path": "", "kafka.bootstrap.servers": "h:9092\n"}, tmp_path)
    line = '.option("path", "/kafka/data") in place of .option("kafka.bootstrap.servers", "h:9092\\n")'
    assert line in str(failed.value)


def test_a_setting_of_a_new_topic_is_named_as_its_option(path):
    for options, name in (
        ({"segmentBytes": "1"}, "option segmentBytes=1: 14 to"),
        ({"topic.segment.bytes": "1"}, r"option topic\.segment\.bytes=1: 14 to"),
        ({"topic.retention.ms": "soon"}, r"option topic\.retention\.ms='soon': int"),
        ({"topic.compression.gzip.level": "77"}, r"option topic\.compression\.gzip\.level=77"),
    ):
        with pytest.raises(ValueError, match=name):
            write(options, path)
