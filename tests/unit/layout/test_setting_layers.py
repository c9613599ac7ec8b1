"""A topic's settings come from Kafka's layers, and where they cannot be known, no record goes by a guess."""

import json
import shutil

import pytest

import brokerless as bl
from brokerless import _native
from brokerless.layout import checkpoints
from brokerless.layout.setting_layers import SYNONYMS, BrokerConfig, Layer, dynamic_layers, layered
from brokerless.layout.topic_config import Setting
from brokerless.metadata.bootstrap import bootstrap
from brokerless.metadata.records import BROKER_RESOURCE, config_record
from brokerless.metadata.topic_settings import Cluster
from brokerless.rewriting.run import rewrite_each
from support.log_files import NOW, batch
from support.metadata_images import set_replicas

METADATA = "__cluster_metadata-0"
UNKNOWN = "settings of topics are not known"
EXPLICIT = {"min_compaction_lag_ms": 0, "delete_retention_ms": 0}


def source(settings, name):
    return getattr(settings, name), settings.source_of(name)


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ([], (604_800_000, "default")),
        (["file"], (7_200_000, "file")),
        (["cluster default", "file"], (1000, "cluster default")),
        (["broker 1", "cluster default", "file"], (2000, "broker 1")),
    ],
)
def test_the_highest_layer_counts(layers, expected):
    configs = {
        "broker 1": {"log.retention.ms": "2000"},
        "cluster default": {"log.retention.ms": "1000"},
        "file": {"log.retention.hours": "2"},
    }
    found = [Layer(name, configs[name]) for name in layers]
    assert source(layered({}, found), "retention_ms") == expected
    assert source(layered({"retention.ms": "604800000"}, found), "retention_ms") == (604_800_000, "topic")


def test_the_first_of_two_synonyms_in_a_layer_counts():
    """The names for longer units are looked at last, whatever the order in the file."""
    configs = {"log.retention.hours": "1", "log.retention.minutes": "2", "log.roll.hours": "3", "log.roll.ms": "4"}
    settings = layered({}, [Layer("file", configs)])
    assert (settings.retention_ms, settings.segment_ms) == (120_000, 4)


@pytest.mark.parametrize(
    ("config", "value", "name", "expected"),
    [
        ("log.roll.hours", "2", "segment_ms", 7_200_000),
        ("log.roll.jitter.hours", "1", "segment_jitter_ms", 3_600_000),
        ("log.retention.minutes", "3", "retention_ms", 180_000),
        ("log.retention.hours", "-1", "retention_ms", -1),
        ("log.retention.ms", "-5", "retention_ms", -1),
        ("log.index.size.max.bytes", "100", "segment_index_bytes", 100),
        ("message.max.bytes", "9", "max_message_bytes", 9),
        ("log.cleaner.min.cleanable.ratio", "0.25", "min_cleanable_dirty_ratio", 0.25),
        ("log.cleanup.policy", "compact, delete", "cleanup_policy", "compact, delete"),
        ("log.preallocate", "True", "preallocate", True),
        ("log.flush.interval.messages", "7", "flush_messages", 7),
        ("producer.id.expiration.ms", "8", "producer_id_expiration_ms", 8),
        ("compression.zstd.level", "-3", "compression_zstd_level", -3),
    ],
)
def test_a_brokers_names_and_units(config, value, name, expected):
    assert source(layered({}, [Layer("file", {config: value})]), name) == (expected, "file")


def test_a_broker_ignores_what_cannot_be_set_at_runtime():
    """It takes the first name of each setting alone, and no value that it cannot read."""
    brokers = {"1": {"log.roll.hours": "1", "num.io.threads": "3"}, "": {"log.retention.ms": "1"}, "2": {}}
    assert layered({}, dynamic_layers(brokers, 1)).segment_ms == 604_800_000
    assert source(layered({}, dynamic_layers(brokers, 1)), "retention_ms") == (1, "cluster default")
    assert source(layered({}, dynamic_layers({"2": {"log.roll.ms": "1"}}, 1)), "segment_ms") == (604_800_000, "default")
    assert source(layered({}, dynamic_layers(brokers, None)), "retention_ms") == (1, "cluster default")
    with pytest.warns(UserWarning, match="log.roll.ms='7d' of broker 1 is ignored, .*: int expected"):
        layers = dynamic_layers({"1": {"log.roll.ms": "7d"}, "": {"log.roll.ms": "5"}}, 1)
    assert source(layered({}, layers), "segment_ms") == (5, "cluster default")


def test_settings_given_are_the_callers():
    settings = layered({"segment.bytes": "1048576"}, [Layer("file", {"log.roll.ms": "5"})])
    changed = settings.with_keywords({"segment_ms": 6})
    assert source(changed, "segment_ms") == (6, "option")
    assert source(changed, "segment_bytes") == (1 << 20, "topic")
    assert source(bl.TopicConfig(segment_ms=6), "segment_ms") == (6, "option")


def test_a_topics_own_configuration_has_nothing_of_its_brokers():
    """Else the metadata of a new cluster, and an export, would fix for good what was one broker's."""
    settings = layered({"retention.ms": "604800000"}, [Layer("file", {"log.roll.ms": "5"})])
    assert settings.to_configs() == {"retention.ms": "604800000"}
    assert settings.with_keywords({"preallocate": False}).to_configs() == {
        "retention.ms": "604800000",
        "preallocate": "false",
    }


def test_a_brokers_file_is_read_as_java_reads_it(tmp_path):
    file = tmp_path / "server.properties"
    file.write_bytes(
        rb"""# log.roll.ms=1
 ! log.roll.ms=2
node.id : 7
log.cleanup.policy compact,\
    delete
log.segment.byte\u0073= 1048576
message.max.bytes=1
message.max.bytes=2
listeners=PLAINTEXT://:9092
"""
    )
    config = BrokerConfig.read(file)
    assert (config.path, config.node_id) == (str(file), 7)
    assert config.configs == {
        "log.cleanup.policy": "compact,delete",
        "log.segment.bytes": "1048576",
        "message.max.bytes": "2",
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("log.retention.hours=7d", "log.retention.hours='7d': int expected"),
        ("log.roll.hours=0", "log.roll.hours='0': topic setting segment_ms=0: 1 to "),
        ("log.cleanup.policy=erase", "log.cleanup.policy='erase': topic setting cleanup_policy='erase'"),
        ("log.cleaner.min.cleanable.ratio=0_5", "log.cleaner.min.cleanable.ratio='0_5': float expected"),
        ("log.preallocate=", "log.preallocate='': bool expected"),
        ("node.id=one", "node.id='one': int expected"),
    ],
)
def test_a_value_that_no_broker_starts_with_is_refused(tmp_path, line, message):
    file = tmp_path / "server.properties"
    file.write_text(f"{line}\n")
    with pytest.raises(ValueError, match=message) as caught:
        BrokerConfig.read(file)
    assert str(file) in str(caught.value)


def test_a_malformed_escape_is_refused(tmp_path):
    (tmp_path / "server.properties").write_text("a=\\u12G4\n")
    with pytest.raises(bl.errors.CorruptRecordError, match="no four hexadecimal digits"):
        BrokerConfig.read(tmp_path / "server.properties")


def start_cluster(data, metadata, brokers):
    """Let the metadata of a new cluster become those of one that has started, in a directory of their own."""
    described = bootstrap(str(data), 1)
    records = [
        *described._records(),
        *(config_record(BROKER_RESOURCE, of, *config) for of, configs in brokers.items() for config in configs.items()),
    ]
    (metadata / METADATA).mkdir(parents=True)
    (metadata / METADATA / f"{100:020d}-{1:010d}.checkpoint").write_bytes(_native.kraft_snapshot(records, 0))
    (metadata / METADATA / f"{100:020d}.log").touch()
    if metadata != data:
        ids = checkpoints.parse_meta_properties((data / checkpoints.META_PROPERTIES).read_bytes())
        of_metadata = checkpoints.format_meta_properties(ids._replace(directory_id=checkpoints.random_id()))
        (metadata / checkpoints.META_PROPERTIES).write_bytes(of_metadata)
    (data / checkpoints.BOOTSTRAP).unlink()


DYNAMIC = {"": {"log.cleaner.min.compaction.lag.ms": "86400000"}, "1": {"log.cleaner.delete.retention.ms": "5"}}


@pytest.fixture
def data(tmp_path):
    """A broker's directory; its cluster's metadata log is in `metadata`."""
    data = tmp_path / "data"
    with bl.create_log_dir(data) as log_dir:
        for topic, settings in (("plain", {}), ("own", {"min_compaction_lag_ms": 0})):
            log_dir.create_topic(topic, cleanup_policy="compact", **settings)
            for value in (b"1", b"2"):
                log_dir.log(topic, 0).append(batch(0, [value], keys=[b"a"], timestamp=now_ms()))
                log_dir.log(topic, 0).roll()
    start_cluster(data, tmp_path / "metadata", DYNAMIC)
    return data


def now_ms():
    from brokerless.io.clock import now_ms

    return now_ms()


@pytest.fixture
def metadata(tmp_path):
    return tmp_path / "metadata"


def offsets(data, topic="plain"):
    return [offset for rows in bl.LogDirs(data).log(topic, 0).read() for offset in rows["offset"].to_pylist()]


@pytest.mark.parametrize("where", ["", METADATA])
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_record_that_a_default_of_the_cluster_keeps_is_kept(data, metadata, where, dry_run):
    """With the topic's own settings alone it went."""
    reports = [
        done.report
        for done in bl.rewrite(
            bl.Compaction(), data, topics=["own", "plain"], dry_run=dry_run, metadata=metadata / where
        )
    ]
    assert [report.total("kept") for report in reports] == [1, 0]
    assert (reports[1].skip_reason, reports[1].limit) == ("nothing_cleanable", "min_compaction_lag")
    found = [[report.settings[name] for name in ("min_compaction_lag_ms", "delete_retention_ms")] for report in reports]
    assert [[(one.value, one.source) for one in settings] for settings in found] == [
        [(0, "topic"), (5, "broker 1")],
        [(86_400_000, "cluster default"), (5, "broker 1")],
    ]
    assert offsets(data) == [0, 1]
    assert offsets(data, "own") == ([0, 1] if dry_run else [1])


def test_the_layers_of_a_directory_with_the_metadata_log(data, metadata, tmp_path):
    shutil.move(metadata / METADATA, data / METADATA)
    file = tmp_path / "server.properties"
    file.write_text("log.cleaner.min.compaction.lag.ms=3\nlog.roll.hours=1\n")
    settings = Cluster.of(str(data), 1, broker_config=file).config_of("plain")
    assert source(settings, "min_compaction_lag_ms") == (86_400_000, "cluster default")
    assert source(settings, "segment_ms") == (3_600_000, str(file))
    assert {settings.source_of(name) for name in SYNONYMS} == {
        "topic", "broker 1", "cluster default", str(file), "default"
    }  # fmt: skip


def test_no_record_goes_by_settings_that_are_not_known(data):
    """All topics were taken to have Kafka's defaults where metadata.log.dir is another disk."""
    words = r"min_compaction_lag_ms and delete_retention_ms of its topic are not known.*directory that has such a log "
    words += r".metadata"
    due = "cleanup_policy and min_cleanable_dirty_ratio and max_compaction_lag_ms"
    for verb, message in (
        (bl.Compaction(), words),
        (bl.Compaction(min_compaction_lag_ms=0), "delete_retention_ms of its topic is not known"),
        (bl.Compaction(only_due=True, **EXPLICIT), due),
        (bl.Retention(retention_ms=1), "cleanup_policy of its topic is not known"),
        (bl.Retention(retention_bytes=1), "cleanup_policy of its topic is not known"),
    ):
        for options in ({"dry_run": True}, {"output": data.parent / "new"}, {}):
            with pytest.raises(ValueError, match=message):
                bl.rewrite(verb, data, topics=["plain"], **options)
            with pytest.raises(ValueError, match=message):
                bl.rewrite(verb, data / "plain-0", **options)
    with pytest.warns(UserWarning, match=UNKNOWN):
        log_dir = bl.open_log_dir(data, sole_replica=True)
    with log_dir:
        with pytest.raises(ValueError, match=words):
            log_dir.log("plain", 0).run(bl.Compaction(roll=True))
        assert log_dir.log("plain", 0).log_end_offset == 2
    assert offsets(data) == [0, 1]
    with pytest.warns(UserWarning, match=UNKNOWN):
        (done,) = bl.rewrite(bl.Compaction(cleanup_policy="compact", **EXPLICIT), data, topics=["plain"])
    assert offsets(data) == [1]
    unknown = done.report.settings["segment_bytes"]
    assert (unknown.value, unknown.source) == (1 << 30, "assumed")


def test_no_record_goes_by_the_settings_of_a_topic_that_the_metadata_do_not_name(data, metadata):
    """As one after damage in the metadata log, whose end is missing."""
    shutil.move(metadata / METADATA, data / METADATA)
    (data / "plain-0").rename(data / "other-0")
    with pytest.raises(ValueError, match="min_compaction_lag_ms and delete_retention_ms of its topic are not known"):
        bl.rewrite(bl.Compaction(), data, topics=["other"])
    assert offsets(data, "other") == [0, 1]


@pytest.mark.parametrize(
    "verb", [bl.Conversion(compression="zstd"), bl.Erasure(keys=(b"a",)), bl.Retention(before_offset=1)], ids=str
)
def test_verbs_that_settings_do_not_decide_warn(data, verb):
    with pytest.warns(
        UserWarning, match=f"{UNKNOWN}, so Kafka's defaults .* If neither another of the broker's log.dirs"
    ):
        bl.rewrite(verb, data, topics=["plain"])


def test_a_brokers_file_is_a_cure_that_leaves_a_warning(data, tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("log.cleaner.min.compaction.lag.ms=86400000\n")
    with pytest.warns(UserWarning, match="topic-level settings, and settings made at runtime, are not known"):
        (done,) = bl.rewrite(bl.Compaction(), data, topics=["plain"], broker_config=file)
    setting = done.report.settings["min_compaction_lag_ms"]
    assert (setting.value, setting.source) == (86_400_000, str(file))
    assert done.report.settings["delete_retention_ms"].source == "assumed"
    assert offsets(data) == [0, 1]


def test_the_metadata_log_is_found_among_the_paths(data, metadata):
    """As a job over all disks of a broker names them."""
    (done,) = rewrite_each(bl.Compaction(), [metadata, data], topics=["plain"])
    assert done.report.settings["min_compaction_lag_ms"].source == "cluster default"


def test_opening_for_writing_warns_unless_it_is_told_where_the_metadata_log_is(data, metadata):
    with pytest.warns(
        UserWarning, match=rf"{UNKNOWN}, .*Name the directory that has __cluster_metadata-0 \(metadata\)"
    ) as caught:
        bl.open_log_dir(data, sole_replica=True).close()
    assert caught[0].filename == __file__
    with bl.open_log_dir(data, metadata=metadata) as log_dir:
        settings = log_dir.log("plain", 0).config
        assert source(settings, "min_compaction_lag_ms") == (86_400_000, "cluster default")
    with bl.Producer(data, "plain", metadata=metadata) as producer:
        producer.send([{"key": b"a", "value": b"3"}])
    with pytest.raises(ValueError, match="'plain' has min_compaction_lag_ms=86400000, not 0"):
        bl.Producer(data, "plain", metadata=metadata, min_compaction_lag_ms=0)


@pytest.fixture(params=["ZooKeeper's", "alone"])
def without_metadata(request, tmp_path):
    """A partition for which there is no metadata log: ZooKeeper had its settings, or it was copied out alone."""
    data = tmp_path / "data"
    with bl.create_log_dir(data, kraft=request.param == "alone") as log_dir:
        log_dir.create_topic("t", cleanup_policy="compact", min_compaction_lag_ms=1 << 50)
        for value in (b"1", b"2"):
            log_dir.log("t", 0).append(batch(0, [value], keys=[b"a"], timestamp=NOW))
            log_dir.log("t", 0).roll()
    if request.param == "alone":
        shutil.move(data / "t-0", tmp_path / "elsewhere/t-0")
        return tmp_path / "elsewhere/t-0"
    return data / "t-0"


def rows(partition):
    return [offset for rows in bl.Log(partition).read() for offset in rows["offset"].to_pylist()]


@pytest.mark.parametrize(
    "verb", [bl.Compaction(), bl.Retention(retention_bytes=1), bl.Retention(retention_ms=1)], ids=str
)
@pytest.mark.parametrize("dry_run", [True, False])
def test_no_record_goes_by_defaults_where_there_never_was_a_metadata_log(without_metadata, verb, dry_run):
    """Those of a topic with a lag of its own went."""
    with pytest.raises(ValueError, match=r"of its topic (is|are) not known, because no metadata log .* was found"):
        bl.rewrite(verb, without_metadata, dry_run=dry_run)
    assert rows(without_metadata) == [0, 1]


def test_what_is_given_is_enough_where_there_never_was_a_metadata_log(without_metadata):
    (done,) = bl.rewrite(bl.Retention(retention_bytes=1, cleanup_policy="compact"), without_metadata)
    assert done.report.deleted_segments == 0
    assert done.report.settings["cleanup_policy"].source == "option"
    with pytest.raises(ValueError, match=r'policy of its topic is not known.*give cleanup_policy="compact"'):
        bl.rewrite(bl.Compaction(**EXPLICIT), without_metadata)
    with pytest.warns(UserWarning, match="would be refused: the cleanup.policy of its topic is not known"):
        bl.rewrite(bl.Compaction(**EXPLICIT), without_metadata, dry_run=True)
    assert rows(without_metadata) == [0, 1]
    (done,) = bl.rewrite(bl.Compaction(cleanup_policy="compact", **EXPLICIT), without_metadata)
    assert done.report.total("kept") == 1
    assert {name: setting.source for name, setting in done.report.settings.items()} == {
        "min_compaction_lag_ms": "option",
        "delete_retention_ms": "option",
        "cleanup_policy": "option",
        "min_cleanable_dirty_ratio": "assumed",
        "max_compaction_lag_ms": "assumed",
        "segment_bytes": "assumed",
    }


def test_a_brokers_file_is_a_cure_there_too(without_metadata, tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("log.cleaner.min.compaction.lag.ms=0\n")
    with pytest.warns(UserWarning, match="the topic-level settings of t are not known, .*: there is no metadata log"):
        (done,) = bl.rewrite(bl.Compaction(cleanup_policy="compact"), without_metadata, broker_config=file)
    found = [done.report.settings[name].source for name in ("min_compaction_lag_ms", "delete_retention_ms")]
    assert found == [str(file), "assumed"]


@pytest.mark.filterwarnings("ignore:a broker does not serve renamed-0")
def test_a_brokers_file_does_not_make_a_topic_known_that_the_metadata_do_not_name(data, metadata, tmp_path):
    """Kafka's defaults were taken for its settings without a word."""
    (data / "plain-0").rename(data / "renamed-0")
    file = tmp_path / "server.properties"
    file.write_text("node.id=1\n")
    words = f"topic-level settings of renamed are not known, .*: the metadata log in {metadata} does not have"
    with pytest.warns(UserWarning, match=words):
        (done,) = bl.rewrite(bl.Compaction(), data, topics=["renamed"], broker_config=file, metadata=metadata)
    assert done.report.settings["min_compaction_lag_ms"].source == "cluster default"
    assert done.report.settings["max_compaction_lag_ms"].source == "assumed"


@pytest.mark.parametrize("replicas", [(1,), (1, 2)])
def test_the_metadata_that_are_named_count_for_a_partition_that_stands_alone(data, metadata, tmp_path, replicas):
    """No high watermark is made up for it: nothing was compacted, for a transaction that was not there."""
    alone = shutil.copytree(data / "own-0", tmp_path / "elsewhere/own-0")
    image = Cluster.of(str(data), 1, metadata=metadata).image
    set_replicas(image, "own", 0, replicas)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("brokerless.metadata.log.cluster_image", lambda _: image)
        (done,) = bl.rewrite(bl.Compaction(), alone, metadata=metadata)
        assert (done.report.skip_reason, done.report.total("kept")) == (None, 1)
        assert done.report.settings["min_compaction_lag_ms"].source == "topic"
        (erased,) = bl.rewrite(bl.Erasure(keys=(b"x",)), alone, metadata=metadata)
        assert erased.report.may_have_replicas == (len(replicas) > 1)


def test_the_brokers_file_says_whose_runtime_settings_count_for_a_partition_that_stands_alone(data, metadata, tmp_path):
    alone = shutil.copytree(data / "own-0", tmp_path / "elsewhere/own-0")
    file = tmp_path / "server.properties"
    file.write_text("node.id=1\n")
    (done,) = bl.rewrite(bl.Compaction(), alone, metadata=metadata, broker_config=file, dry_run=True)
    assert done.report.settings["delete_retention_ms"] == Setting(5, "broker 1")


def test_the_high_watermark_is_named_where_it_limits_a_compaction(data, metadata, monkeypatch):
    """It was called a transaction."""
    image = Cluster.of(str(data), 1, metadata=metadata).image
    set_replicas(image, "own", 0, (1, 2))
    monkeypatch.setattr("brokerless.metadata.log.cluster_image", lambda _: image)
    (data / checkpoints.HIGH_WATERMARKS).write_text("0\n1\nown 0 0\n")
    (done,) = bl.rewrite(bl.Compaction(), data, topics=["own"], dry_run=True, metadata=metadata)
    assert (done.report.skip_reason, done.report.limit) == ("nothing_cleanable", "high_watermark")
    words = "records from the high watermark on may not be on other brokers yet"
    assert done.report.lines()[0] == f"nothing to compact below offset 0: {words}"


def test_a_conversion_names_the_settings_that_it_uses(data, metadata, tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("compression.zstd.level=7\n")
    where = {"topics": ["plain"], "dry_run": True, "metadata": metadata, "broker_config": file}
    (done,) = bl.rewrite(bl.Conversion(compression="zstd"), data, **where)
    assert done.report.to_dict()["settings"] == {
        "segment_bytes": {"value": 1 << 30, "source": "default"},
        "compression_zstd_level": {"value": 7, "source": str(file)},
    }
    assert done.report.lines()[-1] == (
        f"settings: segment_bytes=1073741824 (default); compression_zstd_level=7 ({file})"
    )
    (done,) = bl.rewrite(bl.Conversion(compression="zstd", compression_level=2), data, **where)
    assert done.report.settings["compression_zstd_level"] == Setting(2, "option")
    (done,) = bl.rewrite(bl.Conversion(compression="snappy"), data, **where)
    assert list(done.report.settings) == ["segment_bytes"]


def test_what_does_not_fit_is_refused(data, metadata, tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("node.id=2\n")
    with pytest.raises(ValueError, match=rf"{file} is of broker 2, and {data} of broker 1"):
        bl.open_log_dir(data, broker_config=file)
    with pytest.raises(ValueError, match=f"{data} has no metadata log. A broker has it as __cluster_metadata-0"):
        bl.open_log_dir(data, metadata=data)
    meta = metadata / checkpoints.META_PROPERTIES
    meta.write_text(meta.read_text().replace("cluster.id=", "cluster.id=x"))
    with pytest.raises(ValueError, match=f"the metadata log in {metadata} is of cluster x"):
        bl.open_log_dir(data, metadata=metadata)
    with pytest.raises(ValueError, match="is a new cluster's"):
        bl.Producer(tmp_path / "new", "t", metadata=metadata)
    assert not (tmp_path / "new").exists()


def test_a_new_topic_is_written_by_its_brokers_settings(tmp_path):
    """Its own configuration has what was asked for alone."""
    file = tmp_path / "server.properties"
    file.write_text("node.id=1\nlog.index.interval.bytes=77\nlog.roll.ms=88\n")
    with bl.Producer(tmp_path / "d", "t", broker_config=file, segment_ms=604_800_000) as producer:
        producer.send([{"value": b"1"}])
    with bl.open_log_dir(tmp_path / "d", broker_config=file) as log_dir:
        settings = log_dir.log("t", 0).config
    assert (settings.index_interval_bytes, settings.segment_ms) == (77, 604_800_000)
    assert bootstrap(str(tmp_path / "d"), 1).topics["t"].configs == {"segment.ms": "604800000"}


def test_the_command_line_names_the_sources(data, metadata, tmp_path, run):
    file = tmp_path / "server.properties"
    file.write_text("log.segment.bytes=1048576\n")
    options = ("--metadata", metadata, "--broker-config", file)
    result = run("compact", data, "--topic", "plain", "--dry-run", *options)
    assert result.code == 0
    assert result.out.splitlines()[-1] == (
        "plain-0: settings: min_compaction_lag_ms=86400000 (cluster default); delete_retention_ms=5 (broker 1); "
        "cleanup_policy=compact (topic); min_cleanable_dirty_ratio=0.5, max_compaction_lag_ms=9223372036854775807 "
        f"(default); segment_bytes=1048576 ({file})"
    )
    result = run("retain", data, "--topic", "plain", "--retention-ms", 1, "--dry-run", "--json", *options)
    assert json.loads(result.out)["settings"] == {
        "cleanup_policy": {"value": "compact", "source": "topic"},
        "retention_ms": {"value": 1, "source": "option"},
    }
    assert (
        run("compact", data, "--explain", "a", "--topic", "plain", *options)
        .out.splitlines()[-1]
        .startswith("plain-0: settings:")
    )
    assert run("recover", data, "--dry-run", "--metadata", metadata).code == 0
    assert run("recover", metadata, data, "--dry-run").code == 0
    refused = run("compact", data, "--topic", "plain", "--dry-run")
    assert refused.code == 2
    assert "(--metadata), or the broker's server.properties (--broker-config)" in refused.err
    assert "not known" not in run("compact", data, "--topic", "plain", "--dry-run", *options).err
    file.write_text("log.segment.bytes=1M\n")
    refused = run("compact", data, "--topic", "plain", "--dry-run", *options)
    assert (refused.code, f"{file}: log.segment.bytes='1M': int expected" in refused.err) == (2, True)
