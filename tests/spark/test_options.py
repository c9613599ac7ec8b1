"""Options mean what they mean to Spark's Kafka source; what cannot be meant is refused by name."""

import warnings

import pytest

pytest.importorskip("pyspark")

from brokerless.spark.sink import sink_options
from brokerless.spark.source.options import Bound, Options


def parse(**options):
    return Options.parse({"path": "/data", **{name.replace("__", "."): value for name, value in options.items()}})


def test_defaults():
    options = parse()
    assert options.paths == ("/data",)
    assert (options.view, options.isolation_level, options.check_crcs) == ("records", "read_uncommitted", True)
    assert (options.start, options.end, options.fail_on_data_loss) == (Bound(), Bound(), True)
    assert (options.topics, options.topic_pattern, options.assigned, options.columns) == (None, None, None, None)


def test_case_does_not_matter():
    assert parse(SUBSCRIBE="a, b", FailOnDataLoss="FALSE").topics == ("a", "b")
    assert not parse(failondataloss="False").fail_on_data_loss


@pytest.mark.parametrize(
    ("path", "paths"),
    [
        ("/with,comma", ("/with,comma",)),
        ('["/a","/b,c"]', ("/a", "/b,c")),
        ("file:///a/b", ("/a/b",)),
        ("relative", ("relative",)),
        ("s3a://bucket/data", ("s3a://bucket/data",)),
    ],
)
def test_paths(path, paths):
    assert parse(path=path).paths == paths


def test_several_paths_given_to_load():
    assert Options.parse({"paths": '["/a","/b"]'}).paths == ("/a", "/b")


@pytest.mark.parametrize(
    ("options", "start"),
    [
        ({"startingOffsets": "Earliest"}, Bound(offset="earliest")),
        ({"startingOffsets": '{"t":{"0":23,"1":-2}}'}, Bound(offsets={("t", 0): 23, ("t", 1): "earliest"})),
        ({"startingTimestamp": "1000"}, Bound(timestamp=1000)),
        ({"startingOffsetsByTimestamp": '{"t":{"0":1000}}'}, Bound(timestamps={("t", 0): 1000})),
        # as in Spark: a time for all goes before times, times before offsets
        ({"startingTimestamp": "1", "startingOffsetsByTimestamp": "x", "startingOffsets": "y"}, Bound(timestamp=1)),
        ({"startingOffsetsByTimestamp": '{"t":{"0":1}}', "startingOffsets": "y"}, Bound(timestamps={("t", 0): 1})),
    ],
)
def test_where_to_start(options, start):
    assert parse(**options).start == start


@pytest.mark.parametrize(
    ("options", "end"),
    [
        ({"endingOffsets": "latest"}, Bound(offset="latest")),
        ({"endingOffsets": "high-watermark"}, Bound(offset="high-watermark")),
        ({"endingOffsets": '{"t":{"0":50,"1":-1}}'}, Bound(offsets={("t", 0): 50, ("t", 1): "latest"})),
        ({"endingTimestamp": "1000"}, Bound(timestamp=1000)),
    ],
)
def test_where_to_end(options, end):
    assert parse(**options).end == end


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffset": "earliest"}, "unknown option 'startingOffset': did you mean 'startingOffsets'"),
        ({"topic": "t"}, "unknown option 'topic'"),
        ({"kafka.isolation.levle": "read_committed"}, "did you mean 'kafka.isolation.level'"),
        ({"kafka.isolationLevel": "read_committed"}, "did you mean 'kafka.isolation.level'"),
        ({"kafka.isolation.level": "committed"}, "read_uncommitted or read_committed"),
        ({"kafka.check.crcs": "yes"}, "true or false"),
        ({"view": "record"}, "records or batches"),
        ({"subscribe": "a", "assign": '{"a":[0]}'}, "only one of"),
        ({"subscribe": " , "}, "names nothing"),
        ({"subscribePattern": "("}, "no regular expression"),
        ({"assign": '{"a":0}'}, "must look like"),
        ({"assign": "a"}, "must look like"),
        ({"startingOffsets": "latest"}, "cannot be latest"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "cannot be latest"),
        ({"endingOffsets": "earliest"}, "cannot be earliest"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "cannot be earliest"),
        ({"startingOffsets": "high-watermark"}, "must be earliest, latest or JSON"),
        ({"startingOffsets": '{"t":{"0":-3}}'}, "negative offset"),
        ({"startingOffsets": '{"t":{"x":1}}'}, "must look like"),
        ({"startingOffsets": '{"t":{"0":"1"}}'}, "must look like"),
        ({"startingOffsets": '{"t":1}'}, "must look like"),
        ({"startingOffsets": "[1]"}, "must be"),
        ({"startingOffsets": '{"t":{"0":9}}', "endingOffsets": '{"t":{"0":8}}'}, "beyond its end"),
        ({"startingTimestamp": "2024-05-01"}, "whole number"),
        # to a broker these are the words latest, earliest, ...
        ({"startingTimestamp": "-2"}, "startingTimestamp has a negative time: -2"),
        ({"endingTimestamp": "-1"}, "endingTimestamp has a negative time: -1"),
        ({"startingOffsetsByTimestamp": '{"t":{"0":5,"1":-1}}'}, "startingOffsetsByTimestamp has a negative time: -1"),
        ({"endingOffsetsByTimestamp": '{"t":{"0":-3}}'}, "endingOffsetsByTimestamp has a negative time: -3"),
        ({"startingOffsetsByTimestampStrategy": "earliest"}, "error or latest"),
        ({"minPartitions": "0"}, "must be positive"),
        ({"maxRecordsPerPartition": "-1"}, "must be positive"),
        ({"path": "[1]"}, "JSON list of paths"),
        ({"path": ""}, "option path is missing"),
        ({"view": "batches", "startingOffsets": "earliest"}, "does not apply to view batches"),
        ({"view": "findings", "kafka.isolation.level": "read_committed"}, "does not apply to view findings"),
    ],
)
def test_refused(options, message):
    with pytest.raises(ValueError) as refused:
        Options.parse({"path": "/data", **options}).for_batch()
    assert message in str(refused.value)


def test_what_is_about_the_network_is_named_once_in_one_warning():
    names = ("kafka.bootstrap.servers", "kafka.group.id", "groupIdPrefix")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Options.parse({"path": "/data", "kafka.isolation.level": "read_committed", **dict.fromkeys(names, "1")})
    assert len(caught) == 1
    for name in names:
        assert name in str(caught[0].message)
    assert "isolation" not in str(caught[0].message)


def test_what_is_about_streams_is_named_in_a_batch_query():
    options = parse(maxOffsetsPerTrigger="5", maxTriggerDelay="1h")
    with pytest.warns(UserWarning, match="maxOffsetsPerTrigger, maxTriggerDelay"):
        options.for_batch()


@pytest.mark.parametrize(
    ("options", "start"),
    [
        ({}, Bound(offset="latest")),
        ({"startingOffsets": "latest"}, Bound(offset="latest")),
        ({"startingOffsets": "earliest"}, Bound(offset="earliest")),
        ({"startingOffsets": '{"t":{"0":-1}}'}, Bound(offsets={("t", 0): "latest"})),
        ({"startingTimestamp": "1000"}, Bound(timestamp=1000)),
    ],
)
def test_where_a_stream_starts(options, start):
    assert parse(**options).for_stream(is_admission_controlled=False).start == start


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"view": "batches"}, "view cannot be batches in a stream"),
        ({"endingOffsets": '{"t":{"0":50}}'}, "endingOffsets gives an end"),
        ({"endingTimestamp": "50"}, "endingTimestamp gives an end"),
        ({"endingOffsetsByTimestamp": '{"t":{"0":50}}'}, "endingOffsetsByTimestamp gives an end"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "minOffsetsPerTrigger 9 is above"),
        ({"maxOffsetsPerTrigger": "0"}, "must be positive"),
        ({"maxTriggerDelay": "soon"}, "must be a duration"),
    ],
)
def test_refused_in_a_stream(options, message):
    with pytest.raises(ValueError) as refused:
        parse(**options).for_stream(is_admission_controlled=True)
    assert message in str(refused.value)


@pytest.mark.parametrize("option", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"])
def test_limits_need_a_pyspark_that_asks_for_them(option):
    options = parse(**{option: "5"})
    options.for_stream(is_admission_controlled=True)
    with pytest.raises(ValueError, match=f"{option} needs PySpark 4.2"):
        options.for_stream(is_admission_controlled=False)


@pytest.mark.parametrize(
    ("text", "seconds"), [("15m", 900), ("90s", 90), ("1500", 1.5), ("2 h", 7200), ("1d", 86400), ("5min", 300)]
)
def test_durations_as_spark_writes_them(text, seconds):
    assert parse(maxTriggerDelay=text).max_trigger_delay == seconds


@pytest.mark.parametrize("name", ["asyncProgressTrackingEnabled", "asyncProgressTrackingCheckpointIntervalMs"])
def test_what_only_sinks_have_is_not_taken_for_a_slip_in_a_read(name):
    """Spark makes the source before it says what for."""
    assert sink_options.is_of_sink({"path": "p", name: "1"})
    assert not sink_options.is_of_sink({"path": "p", "includeHeaders": "true", "kafka.bootstrap.servers": "h:1"})
    with pytest.warns(UserWarning, match=name):
        sink_options.parse({"path": "p", name: "1"}, overwrite=False)


@pytest.mark.parametrize(("option", "most"), [("partitions", 100_000), ("batchSize", 1 << 30)])
def test_numbers_of_a_sink_that_no_machine_has_room_for(option, most):
    sink_options.parse({"path": "p", option: str(most)}, overwrite=False)
    with pytest.raises(ValueError, match=f"option {option} must be at most {most}, not {most + 1}"):
        sink_options.parse({"path": "p", option: str(most + 1)}, overwrite=False)


@pytest.mark.parametrize("checkpoint", ["/d", "/d/", "/d/_cp", "file:///d/_cp", "/e/../d/a/b"])
def test_a_checkpoint_in_the_log_directory_is_refused(checkpoint):
    """No broker starts there then."""
    with pytest.raises(ValueError, match=r"in the log directory /d\. A broker .* would not start"):
        sink_options.parse({"path": "/d", "checkpointlocation": checkpoint}, overwrite=False)


@pytest.mark.parametrize("checkpoint", ["/d2", "/", "/e/d", "s3://d/d", "hdfs://h/d/cp"])
def test_a_checkpoint_elsewhere(checkpoint):
    sink_options.parse({"path": "/d", "checkpointLocation": checkpoint}, overwrite=False)


def test_settings_of_a_new_topic_have_the_names_of_kafka():
    options = {"path": "p", "Topic.Retention.ms": " -1", "topic.cleanup.policy": "compact", "segmentBytes": "1048576"}
    assert sink_options.is_of_sink({"path": "p", "topic.retention.ms": "-1"})
    new = sink_options.parse({**options, "topic": "t"}, overwrite=False).topics["t"]
    assert new.config == {"retention_ms": -1, "cleanup_policy": "compact", "segment_bytes": 1 << 20}
    assert sink_options.parse(options, overwrite=False).others.config == new.config
    for wrong, message in (
        ({"topic.retention.mss": "1"}, "unknown topic config 'retention.mss'.*retention.ms"),
        ({"topic.retention.ms": "long"}, "int expected"),
        ({"topic.segment.bytes": "1048576", "segmentBytes": "1048576"}, "give one of them"),
    ):
        with pytest.raises(ValueError, match=message):
            sink_options.parse({"path": "p", "topic": "t", **wrong}, overwrite=False)


def test_a_pattern_that_java_would_understand_otherwise():
    with pytest.raises(ValueError, match=r"no regular expression.*set intersection"):
        parse(subscribePattern="[a-z&&[^b]]+")
