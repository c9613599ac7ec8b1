"""The metadata a new cluster starts with: what Kafka wrote is kept, and what we add is read back."""

import pytest

import brokerless as bl
from brokerless import _native
from brokerless.layout.release import Release
from brokerless.metadata.bootstrap import Bootstrap, Topic, snapshot_records
from brokerless.metadata.log import cluster_image
from brokerless.metadata.records import metadata_record
from support.metadata_images import image_after, settings

# What `kafka.tools.StorageTool format` of 4.1.0 wrote.
FORMATTED = bytes.fromhex(
    "0000000000000000000000470000000002525c27be002000000000000001a1feb470a7000001a1feb470a7ffffffffffffff"
    "ffffffffffffff000000012a0000000800000003160000000000000000000000000000000000000001000000b90000000002"
    "b5726e99000000000003000001a1feb470d8000001a1feb470d8ffffffffffffffffffffffffffff000000043a000000012e"
    "010c00116d657461646174612e76657273696f6e001b00005a000002014e010c0021656c696769626c652e6c65616465722e"
    "7265706c696361732e76657273696f6e00010000340000040128010c000e67726f75702e76657273696f6e00010000400000"
    "060134010c00147472616e73616374696f6e2e76657273696f6e0002000000000000000000050000003f00000000029df8e6"
    "e4002000000000000001a1feb470d9000001a1feb470d9ffffffffffffffffffffffffffff000000011a0000000800000004"
    "0600000000"
)
TOPIC_ID = "AAECAwQFBgcICQoLDA0ODw"


def test_a_new_cluster_has_the_features_that_kafka_gives_it():
    bootstrap = Bootstrap(node_id=1, release=Release(4, 1))
    assert snapshot_records(bootstrap.format(timestamp=0)) == snapshot_records(FORMATTED)
    later = Bootstrap(node_id=1, release=Release(4, 1, 2))
    assert later.format(timestamp=0) == bootstrap.format(timestamp=0)


def test_releases_that_no_directory_is_made_for_are_refused():
    """Before 3.7 a partition's record has no directories: such a broker does not start."""
    with pytest.raises(ValueError, match=r"cannot make a log directory for Kafka 3.8: the oldest release is 3.9"):
        Bootstrap(node_id=1, release=Release(3, 8))
    with pytest.raises(ValueError, match="not a release of Kafka: '4'"):
        Release.parse("4")
    # of metadata.version 14
    old = _native.kraft_snapshot([bytes.fromhex("010c00") + b"\x11metadata.version" + bytes.fromhex("000e00")], 0)
    bootstrap = Bootstrap.parse(old, node_id=1)
    assert bootstrap.format(timestamp=0) == old
    bootstrap.topics["t"] = Topic(TOPIC_ID, {}, {0: 0})
    with pytest.raises(bl.errors.UnsupportedFormatError, match=r"formatted with metadata.version 14; .* at least 17"):
        bootstrap.format(timestamp=0)


def test_what_kafka_wrote_stays_and_topics_come_behind_it():
    bootstrap = Bootstrap.parse(FORMATTED, node_id=1)
    assert bootstrap.topics == {}
    bootstrap.topics["orders"] = Topic(TOPIC_ID, {"cleanup.policy": "compact"}, {0: 0, 1: 7})
    records = snapshot_records(bootstrap.format(timestamp=0))
    assert records[:4] == snapshot_records(FORMATTED)
    assert [record.hex() for record in records[4:]] == [
        "01020007" + b"orders".hex() + "000102030405060708090a0b0c0d0e0f" + "00",
        "01040002" + "07" + b"orders".hex() + "0f" + b"cleanup.policy".hex() + "08" + b"compact".hex() + "00",
        *(
            "010301" + f"{partition:08x}" + "000102030405060708090a0b0c0d0e0f"
            "020000000102000000010101"
            "00000001" + f"{epoch:08x}" + "0000000002" + "00" * 15 + "01" + "00"
            for partition, epoch in ((0, 0), (1, 7))
        ),
    ]  # fmt: skip


def test_a_bootstrap_file_is_read_back_as_it_was_written():
    bootstrap = Bootstrap(node_id=70000)
    for number in range(200):
        partitions = dict.fromkeys(range(number), number)
        bootstrap.topics[f"t{number}"] = Topic(f"{number:021d}A", {"retention.ms": str(number)}, partitions)
    assert Bootstrap.parse(bootstrap.format(timestamp=0), node_id=70000).topics == bootstrap.topics


def test_records_of_other_kinds_are_kept(golden):
    """A cluster formatted with SCRAM credentials would lose its only way in."""
    other = metadata_record(
        "UserScramCredentialRecord", name="admin", mechanism=1, salt="", storedKey="", serverKey="", iterations=4096
    )
    content = _native.kraft_snapshot([*snapshot_records(FORMATTED), other], 0)
    bootstrap = Bootstrap.parse(content, node_id=1)
    bootstrap.topics["orders"] = Topic(TOPIC_ID, {}, {0: 0})
    assert other in snapshot_records(bootstrap.format(timestamp=0))


def test_partitions_that_are_elsewhere_are_not_made_ours():
    bootstrap = Bootstrap(node_id=2)
    bootstrap.topics["orders"] = Topic(TOPIC_ID, {}, {3: 0})
    with pytest.raises(
        bl.errors.UnsupportedFormatError, match=r"partition 3 of topic id .* has other replicas than node 1"
    ):
        Bootstrap.parse(bootstrap.format(timestamp=0), node_id=1)


@pytest.mark.parametrize("cut", range(1, len(FORMATTED), 7))
def test_a_cut_snapshot_is_not_taken_for_a_shorter_one(cut):
    whole_batches = (83, 280)
    if cut not in whole_batches:
        with pytest.raises(bl.errors.CorruptRecordError, match="cut"):
            Bootstrap.parse(FORMATTED[:cut], node_id=1)


def records_cut_short():
    bootstrap = Bootstrap(node_id=1)
    bootstrap.topics["orders"] = Topic(TOPIC_ID, {"cleanup.policy": "compact"}, {0: 0})
    *features, topic, config, partition = snapshot_records(bootstrap.format(timestamp=0))
    for before, record, needed in (([], topic, 26), ([topic], config, 34), ([topic, config], partition, 45)):
        for cut in range(needed):
            yield [*features, *before, record[:cut]]


@pytest.mark.parametrize("records", list(records_cut_short()))
def test_a_cut_record_is_refused(records):
    with pytest.raises((bl.errors.CorruptRecordError, bl.errors.UnsupportedFormatError)):
        Bootstrap.parse(_native.kraft_snapshot(records, 0), node_id=1)


def test_a_record_that_never_ends_is_refused():
    for record in (b"\xff" * 20, b"\x02\x02\x00", b"\x01\x02\x00\xff\xff\xff\xff\x0f"):
        with pytest.raises((bl.errors.CorruptRecordError, bl.errors.UnsupportedFormatError), match="metadata record"):
            Bootstrap.parse(_native.kraft_snapshot([record], 0), node_id=1)


def test_a_topic_is_not_named_out_of_the_log_directory(tmp_path):
    """Its name becomes that of a directory, which recovering would make."""
    path = tmp_path / "d"
    bl.create_log_dir(path).close()
    bootstrap = Bootstrap.parse((path / "bootstrap.checkpoint").read_bytes(), node_id=1)
    bootstrap.topics["../out"] = Topic(TOPIC_ID, {}, {0: 0})
    (path / "bootstrap.checkpoint").write_bytes(bootstrap.format(timestamp=0))
    with pytest.raises(bl.errors.CorruptRecordError, match="not a topic name"):
        bl.open_log_dir(path)
    assert not (tmp_path / "out-0").exists()


def test_settings_go_with_the_topic_they_were_of():
    """One that is deleted and made again has Kafka's defaults."""
    bootstrap = Bootstrap(node_id=1)
    bootstrap.topics["t"] = Topic(TOPIC_ID, {"cleanup.policy": "compact"}, {0: 0})
    bootstrap.topics["other"] = Topic("_" * 21 + "w", {}, {0: 0})
    records = snapshot_records(bootstrap.format(timestamp=0))
    assert settings(image_after(records)) == {"t": {"cleanup.policy": "compact"}, "other": {}}
    removed = bytes.fromhex("010900" + "000102030405060708090a0b0c0d0e0f" + "00")
    assert settings(image_after([*records, removed])) == {"other": {}}
    again = Bootstrap(node_id=1)
    again.topics["t"] = Topic("A" * 22, {}, {0: 0})
    assert settings(image_after([*records, removed, *snapshot_records(again.format(timestamp=0))])) == {
        "other": {},
        "t": {},
    }


@pytest.mark.parametrize(("value", "known"), [("01", {"cleanup.policy": ""}), ("00", {})], ids=["empty", "null"])
def test_a_setting_that_is_empty_is_not_taken_for_one_that_was_removed(value, known):
    """A broker of 4.1 takes an empty cleanup.policy, and deletes nothing then."""
    bootstrap = Bootstrap(node_id=1)
    bootstrap.topics["t"] = Topic(TOPIC_ID, {"cleanup.policy": "compact"})
    changed = bytes.fromhex("010400" + "02" + "0274" + "0f") + b"cleanup.policy" + bytes.fromhex(value + "00")
    assert settings(image_after([*snapshot_records(bootstrap.format(timestamp=0)), changed])) == {"t": known}


def test_producer_ids_that_were_kept_are_read_back_and_never_go_back():
    bootstrap = Bootstrap.parse(FORMATTED, node_id=1)
    assert bootstrap.keep_producer_id(0)
    assert bootstrap.next_producer_id == 1000
    assert not bootstrap.keep_producer_id(999)
    assert bootstrap.keep_producer_id((1 << 62) - 1)
    again = Bootstrap.parse(bootstrap.format(timestamp=0), node_id=1)
    assert again.next_producer_id == bootstrap.next_producer_id > (1 << 62) - 1
    assert again.format(timestamp=0) == bootstrap.format(timestamp=0)


def test_the_image_of_a_cluster_has_settings_of_all_layers_replicas_and_producer_ids(golden):
    """As a broker of 4.1 wrote them."""
    image = cluster_image(str(golden / "logs/kafka-4.1"))
    assert image.configs_of("preallocated")["preallocate"] == "true"
    assert image.partitions_of("multi-partition")[3]["replicas"] == [1]
    assert image.next_producer_id % 1000 == 0 < image.next_producer_id
    assert cluster_image(str(golden / "logs/kafka-4.1-compacted")) is None


def test_replicas_that_were_reassigned_and_settings_of_brokers_are_the_last_ones():
    bootstrap = Bootstrap(node_id=3)
    bootstrap.topics["t"] = Topic(TOPIC_ID, {}, {0: 0})
    key = bytes(4) + bytes.fromhex("000102030405060708090a0b0c0d0e0f")
    # tags 0 (in sync) and 2 (replicas): nodes 3 and 4
    two = bytes.fromhex("03" + "00000003" + "00000004")
    moved = bytes.fromhex("010500") + key + bytes.fromhex("0200" + "09") + two + bytes.fromhex("0209") + two
    default = bytes.fromhex("010400" + "04" + "01") + b"\x04log" + b"\x021" + b"\0"
    removed = bytes.fromhex("010400" + "04" + "01") + b"\x04log" + b"\0" + b"\0"
    image = image_after([*snapshot_records(bootstrap.format(timestamp=0)), moved, default])
    assert image.partitions_of("t")[0]["replicas"] == [3, 4]
    assert image.broker_configs == {"": {"log": "1"}}
    assert image_after([default, removed]).broker_configs == {"": {}}
    for cut in range(len(moved)):
        assert not image_after([moved[:cut]]).is_whole, cut
