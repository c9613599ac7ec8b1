"""Each kind of finding has a broken directory that raises it and nothing else; healthy directories raise nothing."""

import contextlib
import os
import re
import shutil
import struct
from functools import partial
from pathlib import Path

import pytest

import brokerless as bl
from brokerless import _native
from brokerless.checking.codes import CODES, LEVELS
from brokerless.layout.checkpoints import (
    OFFSET_CHECKPOINTS,
    format_offset_checkpoint,
    parse_meta_properties,
    parse_offset_checkpoint,
    random_id,
)
from brokerless.log_dir.recover import forecast
from brokerless.metadata.bootstrap import snapshot_records
from brokerless.metadata.records import BROKER_RESOURCE, config_record, metadata_record
from support import damage
from support.broken_directories import BROKEN, SIZE, first, healthy, last
from support.log_files import NOW, batch, write_segment, write_snapshot
from support.state_records import transaction_key, transaction_value, write_records


def codes(*paths, notes=False, **options):
    found = [finding.code for finding in bl.check(*paths, **options)]
    return [code for code in found if notes or CODES[code].severity != "note"]


@pytest.fixture
def data(tmp_path):
    return healthy(tmp_path / "data")


# The directory id of a second disk.
SECOND = "AAECAwQFBgcICQoLDA0ODw"
DEEP = {"batch-payload", "batch-records", "batch-timestamp", "record-order", "state-record"}


def test_a_healthy_directory_has_no_finding(data):
    for level in ("quick", "default", "deep"):
        assert codes(data, notes=True, level=level) == []


def test_logs_of_real_brokers_have_no_finding(golden):
    for path in sorted((golden / "logs").iterdir()):
        if path.is_dir() and "crashed" not in path.name:
            # Some are the topics of a broker alone.
            is_part = not (path / "__cluster_metadata-0").exists()
            found = codes(path, notes=True, level="deep")
            assert found == [] or (is_part and found == ["metadata-missing"]), path.name


@pytest.mark.parametrize("code", BROKEN)
def test_a_broken_directory_has_its_finding_alone(data, code):
    BROKEN[code](data)
    # Coordinators of topics that nobody made are those of a cluster whose metadata are elsewhere.
    assert set(codes(data, notes=True, level="deep")) - {"metadata-missing"} == {code}
    if code in DEEP:
        assert set(codes(data, notes=True)) <= {"metadata-missing"}


def test_a_partition_that_the_metadata_place_here_is_missing(golden, tmp_path):
    shutil.copytree(golden / "logs/kafka-4.1", tmp_path / "data")
    shutil.rmtree(tmp_path / "data/headers-0")
    (finding,) = bl.check(tmp_path / "data")
    assert (finding.code, finding.topic, finding.partition) == ("partition-lost", "headers", 0)
    assert list(map(str, forecast(str(tmp_path / "data")).dropping)) == [f"no headers-0: {finding.message}"]
    # A broker that was killed may not have made it yet; but the checkpoints name what it had.
    (tmp_path / "data/.kafka_cleanshutdown").unlink()
    assert "partition-lost" in codes(tmp_path / "data")
    for name in OFFSET_CHECKPOINTS:
        if (file := tmp_path / "data" / name).exists():
            offsets = parse_offset_checkpoint(file.read_bytes())
            offsets.pop(("headers", 0), None)
            file.write_bytes(format_offset_checkpoint(offsets))
    assert "partition-missing" in codes(tmp_path / "data")
    assert forecast(str(tmp_path / "data")).is_good


def test_many_lost_partitions_are_one_sentence(copied):
    """A disk may have had thousands."""
    found = forecast(str(copied("kafka-4.1", "headers-0", "__cluster_metadata-0")))
    (why,) = map(str, found.dropping)
    assert re.match(r"no (\S+, ){5}and 38 more: the metadata log places it on node 1", why)
    assert found.summary().endswith("a broker will start and serve 1 of 44 partitions: 43 logs are lost")


def test_a_file_in_the_place_of_a_partition(golden, tmp_path):
    data = shutil.copytree(golden / "logs/kafka-4.1", tmp_path / "data")
    shutil.rmtree(data / "headers-0")
    (data / "headers-0").write_text("x")
    (data / "other-0").write_text("x")
    found = [one for one in bl.check(data) if one.code == "name-taken"]
    assert [one.path for one in found] == [str(data / "headers-0")]
    assert str(data / "headers-0") in str(forecast(str(data)).faults[0])


def test_a_partition_that_is_in_another_directory_of_its_broker_is_not_missing(golden, tmp_path):
    data = shutil.copytree(golden / "logs/kafka-4.1", tmp_path / "data")
    disk = tmp_path / "disk"
    disk.mkdir()
    ids = (data / "meta.properties").read_text()
    (disk / "meta.properties").write_text(re.sub("directory.id=.*", f"directory.id={random_id()}", ids))
    shutil.copy(data / ".kafka_cleanshutdown", disk)
    shutil.move(data / "headers-0", disk)
    assert codes(data, disk) == []
    assert codes(data) == ["partition-lost"]


def test_a_directory_that_another_node_registered(golden, tmp_path):
    data = shutil.copytree(golden / "logs/kafka-4.1", tmp_path / "data")
    ids = (data / "meta.properties").read_text()
    (data / "meta.properties").write_text(ids.replace("node.id=1", "node.id=7"))
    (found,) = [one for one in bl.check(data) if one.code == "ids-conflict"]
    assert found.message == "node.id is 7, but in the metadata the directory belongs to node 1"
    assert found.message in str(forecast(str(data)).faults[0])


def test_a_disk_whose_metadata_are_on_another_one(golden, tmp_path):
    """Without them, nobody knows which partitions are stray."""
    data = shutil.copytree(golden / "logs/kafka-4.1", tmp_path / "data")
    disk = tmp_path / "disk"
    disk.mkdir()
    shutil.move(data / "__cluster_metadata-0", disk)
    ids = (data / "meta.properties").read_text()
    (disk / "meta.properties").write_text(re.sub("directory.id=.*", f"directory.id={random_id()}", ids))
    shutil.copy(data / ".kafka_cleanshutdown", disk)
    assert codes(data) == ["metadata-missing"]
    assert codes(data, disk) == []


def test_a_directory_that_lost_its_id(golden, tmp_path):
    """Its broker makes a new one, and its controller takes all replicas in the old one for lost, unless it is there."""
    data = shutil.copytree(golden / "logs/kafka-4.1", tmp_path / "data")
    sound = (data / "meta.properties").read_text()
    for text in (
        re.sub("directory.id=.*\n", "", sound),
        re.sub("directory.id=.*", f"directory.id={random_id()}", sound),
    ):
        (data / "meta.properties").write_text(text)
        found = list(bl.check(data))
        assert {one.code for one in found} == {"directory-id-differs"}
        assert {one.topic for one in found} >= {"headers", "__consumer_offsets"}
        assert forecast(str(data)).unserved
    disk = tmp_path / "disk"
    disk.mkdir()
    (disk / "meta.properties").write_text(sound)
    # A broker that has both finds its partitions in the other one, and tells its controller.
    assert {one.code for one in bl.check(data, disk)} == set()


def test_the_metadata_of_each_node_are_checked(golden, tmp_path):
    """The newest ones are sound; a controller with damaged ones does not start."""
    one, other = (shutil.copytree(golden / "logs/kafka-4.1", tmp_path / name) for name in ("one", "other"))
    ids = (other / "meta.properties").read_text()
    ids = re.sub("directory.id=.*", f"directory.id={SECOND}", ids)
    (other / "meta.properties").write_text(ids.replace("node.id=1", "node.id=2"))
    (other / "__cluster_metadata-0" / f"{20:020d}-{1:010d}.checkpoint").write_bytes(b"x" * 100)
    for paths in ([other], [one, other], [other, one]):
        assert str(other) in {one.path[: len(str(other))] for one in bl.check(*paths) if one.kind.stops_broker}


@pytest.fixture
def two_disks(golden, tmp_path):
    """A broker's two directories: the metadata place its partitions in the first, and name the second."""
    disk = tmp_path / "disk"
    disk.mkdir()
    data = shutil.copytree(golden / "logs/kafka-4.1", tmp_path / "data")
    ids = (data / "meta.properties").read_text()
    (disk / "meta.properties").write_text(re.sub("directory.id=.*", f"directory.id={SECOND}", ids))
    (disk / OFFSET_CHECKPOINTS[0]).write_bytes(format_offset_checkpoint({}))
    log = bl.Log(data / "__cluster_metadata-0")
    (broker,) = bl.cluster(data).rows("brokers")
    change = metadata_record(
        "BrokerRegistrationChangeRecord",
        2,
        brokerId=1,
        brokerEpoch=broker["epoch"],
        logDirs=[*broker["log_dirs"], SECOND],
    )
    epoch = log.leader_epochs[-1].epoch
    with open(log.segments[-1].path, "ab") as file:
        file.write(batch(log.log_end_offset, [change], leader_epoch=epoch))
    return data, disk


def test_directories_of_a_broker_that_are_not_given(two_disks):
    data, disk = two_disks
    assert codes(data, disk, notes=True) == []
    (found,) = bl.check(data)
    assert (found.code, SECOND in found.message) == ("directory-absent", True)


def test_the_cure_of_ids_names_the_lines(two_disks):
    """A disk whose ids are gone; the other one has most of them, and the metadata have the last."""
    data, disk = two_disks
    ids = parse_meta_properties((data / "meta.properties").read_bytes())
    (disk / "meta.properties").unlink()
    lines = f"write version=1, cluster.id={ids.cluster_id}, node.id=1 and the directory.id that the metadata have"
    (why,) = map(str, forecast(str(disk), beside=[str(data)]).faults)
    assert lines in why
    (disk / "meta.properties").write_text("version=0\n")
    with pytest.raises(bl.errors.CorruptRecordError, match=lines):
        forecast(str(disk), beside=[str(data)])


def test_directories_that_do_not_go_together(data, tmp_path):
    shutil.copytree(data, tmp_path / "copy")
    assert codes(data, tmp_path / "copy", notes=True) == ["ids-conflict"]
    damage.flip_bit(first(tmp_path / "copy"), 100)
    assert codes(data, tmp_path / "copy") == ["ids-conflict", "batch-crc"]


def test_every_kind_is_raised_here():
    others = {
        *("partition-missing", "partition-lost", "name-taken", "metadata-missing", "ids-conflict"),
        *("directory-id-differs", "directory-absent", "shutdowns-differ"),
    }
    # That of a cut snapshot is raised with the metadata of a cluster (test_cluster.py), others in test_unreadable.py.
    assert set(BROKEN) | others | {"metadata-cut", "disk-unreadable", "file-unreadable"} == set(CODES)


def test_quick_reads_headers_only(data):
    damage.flip_bit(first(data), SIZE * 5 + 100)
    assert codes(data, level="quick") == []
    damage.overwrite(first(data), SIZE * 5 + 8, struct.pack(">i", -1))
    assert codes(data, level="quick") == ["batch-framing"]


@pytest.mark.parametrize("code", BROKEN)
def test_the_quickest_level_that_finds_a_fault_is_the_one_of_its_code(data, code):
    BROKEN[code](data)
    finds = [level for level in LEVELS if code in codes(data, notes=True, level=level)]
    assert finds == list(LEVELS[LEVELS.index(CODES[code].level) :])


@pytest.mark.parametrize("code", BROKEN)
def test_a_repair_cures_what_its_code_says(data, code, tmp_path):
    BROKEN[code](data)
    left = None
    # A directory that cannot be read as one is refused.
    with contextlib.suppress(bl.errors.CorruptRecordError, ValueError):
        left = {found.code for found in bl.repair(data, output=tmp_path / "repaired").left}
    if CODES[code].is_cured:
        assert left == set()
    # A directory of no partition is not copied; notes are not left.
    elif left is not None and code != "name-unknown" and CODES[code].severity != "note":
        assert code in left


def test_what_a_code_says_of_a_broker_is_what_its_text_says():
    for name, code in CODES.items():
        assert code.stops_broker == ("not start" in code.broker), name
        assert code.loses_records <= (code.subject in ("batch", "records") or name == "batch-unsupported"), name


def test_a_check_of_one_topic_leaves_the_rest_out(data):
    (data / "lost+found").mkdir()
    assert codes(data, topics=["t"]) == []
    with pytest.raises(ValueError, match="unknown level 'thorough'"):
        codes(data, level="thorough")
    with pytest.raises(ValueError, match="topic"):
        codes(data, topics=["x"])


def test_a_finding_tells_its_place_its_effect_and_its_cure(data):
    damage.flip_bit(first(data), SIZE * 5 + 100)
    (finding,) = bl.check(data)
    assert (finding.topic, finding.partition, finding.position) == ("t", 0, SIZE * 5)
    assert (finding.start_offset, finding.end_offset, finding.next_position) == (5, 6, SIZE * 6)
    assert finding.to_dict()["cure"] == CODES["batch-crc"].cure


@pytest.mark.parametrize("code", sorted(BROKEN))
def test_a_path_begins_as_it_was_given(data, code, monkeypatch):
    """Findings on batches used to have absolute paths, beside others as they were given."""
    BROKEN[code](data)
    monkeypatch.chdir(data.parent)
    for given in (data.name, f"./{data.name}", f"../{data.parent.name}/{data.name}"):
        for found in bl.check(given):
            assert found.path.startswith(given), found
    whole = {found.path for found in bl.check(data)}
    assert {os.path.abspath(found.path) for found in bl.check(data.name)} == whole


@pytest.mark.parametrize("level", LEVELS)
def test_a_batch_of_an_invalid_size_stops_a_broker_only_where_it_reads_the_batch(data, level):
    """A check and a writer, which loads a log as a broker does, agree: what follows the last index entry is read."""
    sound = last(data).read_bytes()
    size = struct.pack(">i", -1)
    damage.overwrite(last(data), SIZE * 3 + 8, size)
    assert codes(data, level=level) == ["batch-framing"]
    with bl.open_log_dir(data) as log_dir:
        log_dir.log("t", 0)
    last(data).write_bytes(sound)
    damage.overwrite(last(data), -SIZE + 8, size)
    assert codes(data, level=level) == ["batch-unloadable"]
    with bl.open_log_dir(data) as log_dir, pytest.raises(bl.errors.CorruptRecordError, match="a broker does not start"):
        log_dir.log("t", 0)
    # After a crash, a broker truncates the log there.
    (data / ".kafka_cleanshutdown").unlink()
    assert "batch-unloadable" not in codes(data, level=level, notes=True)


def test_entries_of_an_index_into_damage_are_not_its_fault(data):
    damage.overwrite(first(data), SIZE * 5, bytes(SIZE * 10))
    assert codes(data) == ["batch-zeros"]


@pytest.mark.parametrize("emptied", [(5, 7), (7,), ()], ids=["both", "last", "gone"])
def test_a_snapshot_that_lacks_an_open_transaction_is_found_and_made_anew(tmp_path, emptied):
    """A broker would give its records to consumers with read_committed."""
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t")
        log = log_dir.log("t", 0)
        log.append(batch(0, [b"a"] * 3))
        log.append(batch(0, [b"b"] * 2, producer_id=8, base_sequence=0, transactional=True))
        log.roll()
        log.append(batch(0, [b"c"] * 2))
    data = tmp_path / "data"
    sound = {path.name: path.read_bytes() for path in (data / "t-0").glob("*.snapshot")}
    assert [int(name.partition(".")[0]) for name in sorted(sound)] == [5, 7]
    assert len(bl.Log(data / "t-0").read(isolation_level="read_committed").read_all()) == 3
    for name in sound:
        (data / "t-0" / name).unlink()
    for offset in emptied:
        write_snapshot(data / "t-0", offset)
    if emptied == (7,):
        (data / "t-0/00000000000000000005.snapshot").write_bytes(sound["00000000000000000005.snapshot"])
    assert "snapshot-incomplete" in [one.code for one in bl.check(data) if one.severity == "error"]
    bl.repair(data, tmp_path / "to")
    bl.rescue(data, output=tmp_path / "rescued")
    for result in ("to", "rescued"):
        log = bl.Log(tmp_path / result / "t-0")
        assert log.last_stable_offset == 3
        assert (tmp_path / result / "t-0/00000000000000000007.snapshot").read_bytes() == sound[
            "00000000000000000007.snapshot"
        ]


@pytest.mark.parametrize("is_damaged", [False, True])
def test_metadata_that_end_in_damage_do_not_say_that_nothing_is_in_remote_storage(golden, tmp_path, is_damaged):
    """What switched tiering on may be behind the damage: a log that begins above its epochs may be whole."""
    data = shutil.copytree(golden / "logs/kafka-4.1", tmp_path / "data")
    for path in (data / "codec-mixed-0").glob("00000000000000000000.*"):
        path.unlink()
    if is_damaged:
        log = max((data / "__cluster_metadata-0").glob("*.log"), key=lambda path: path.stat().st_size)
        damage.flip_bit(log, log.stat().st_size // 2)
    codes = {one.code for one in bl.check(data)}
    assert ("records-missing" in codes) == (not is_damaged)
    repaired = bl.repair(data, dry_run=True)
    assert [one.start_offset for one in repaired.ranges if one.topic == "codec-mixed"] == ([] if is_damaged else [0])


@pytest.mark.parametrize(("resource", "is_compacted"), [("", True), ("1", True), ("2", False)])
def test_a_log_that_a_broker_setting_compacts_has_no_gap(data, resource, is_compacted):
    """Of all brokers, of this one, of another one: a cleaner may have removed what a gap lacks."""
    BROKEN["offset-gap"](data)
    known = snapshot_records((data / "bootstrap.checkpoint").read_bytes())
    setting = config_record(BROKER_RESOURCE, resource, "log.cleanup.policy", "compact")
    (data / "bootstrap.checkpoint").write_bytes(_native.kraft_snapshot([*known, setting], 0))
    assert codes(data) == ([] if is_compacted else ["offset-gap"])
    assert codes(data, level="deep") == codes(data)


@pytest.mark.parametrize(
    ("timeout", "minutes", "said"),
    [
        (None, 14, None),
        (
            None,
            16,
            ("for 16 minutes (960000 ms), but the default of transaction.max.timeout.ms is 900000"),
        ),
        (60_000, 1, None),
        (60_000, 2, "for 2 minutes (120000 ms), but its transaction.timeout.ms is 60000"),
        # The broker allows that.
        (3_600_000, 59, None),
        (
            3_600_000,
            61,
            "for 1 hour (3660000 ms), but its transaction.timeout.ms is 3600000",
        ),
    ],
)
def test_a_transaction_is_overdue_by_the_timeout_of_its_producer_where_that_is_known(tmp_path, timeout, minutes, said):
    begun = batch(0, [b"x"], producer_id=7, base_sequence=0, transactional=True, timestamp=NOW)
    write_segment(tmp_path / "t-0", 0, [begun, batch(1, [b"x"], timestamp=NOW + minutes * 60_000)])
    if timeout is not None:
        records = [
            (transaction_key("other"), transaction_value(8, 1, timeout=5)),
            (transaction_key("id"), transaction_value(7, 1, [("t", 0)], timeout=5)),
            (transaction_key("id"), transaction_value(7, 1, [("t", 0)], timeout=timeout)),
        ]
        write_records(tmp_path, "__transaction_state", records)
    found = [one for one in bl.check(tmp_path) if one.code == "transaction-overdue"]
    assert [one.message.partition("it had been open ")[2] for one in found] == ([] if said is None else [said])


FUTURE = 4_102_444_800_000


@pytest.mark.parametrize(
    ("time", "why"),
    [
        (FUTURE, f"its largest timestamp {FUTURE} is in the future, on 2100-01-01"),
        (NOW // 1000, f"its largest timestamp {NOW // 1000} is of 1970-01-20, and may be in seconds"),
        (NOW * 1000, f"its largest timestamp {NOW * 1000} is in the future, and may be in microseconds"),
        (0, "its largest timestamp 0 is of 1970-01-01, as of a clock that was not set"),
        (12_345, "its largest timestamp 12345 is of 1970-01-01, as of a clock that was not set"),
        (NOW, None),
    ],
    ids=["future", "seconds", "microseconds", "zero", "uptime", "now"],
)
def test_times_by_which_retention_keeps_or_deletes_a_segment_are_told(tmp_path, time, why):
    write_segment(tmp_path / "t-0", 0, [batch(0, [b"x"], timestamp=time)])
    found = [(one.code, one.message) for one in bl.check(tmp_path) if one.code == "timestamp-unlikely"]
    assert found == ([] if why is None else [("timestamp-unlikely", why)])


def test_a_finding_names_its_partition_once(data, run):
    """The line has the name before the message."""
    BROKEN["checkpoint-ahead"](data)
    (line,) = [one for one in run("check", data).out.splitlines() if "checkpoint-ahead" in one]
    assert ("t-0 ends at" in line, "t-0: the log ends at" in line) == (False, True)


def test_a_swap_that_a_stop_interrupted_is_left_over_and_nothing_is_missing(data):
    """A broker completes it when it starts: the indexes are there, under the names of the swap."""
    for kind in ("log", "index", "timeindex"):
        file = first(data, kind)
        file.rename(f"{file}.swap")
    assert set(codes(data, notes=True)) == {"leftover"}


def test_a_blank_directory_does_not_hide_the_findings_of_another(data, tmp_path):
    (tmp_path / "blank").mkdir()
    BROKEN["batch-crc"](data)
    found = {(one.code, one.path) for one in bl.check(data, tmp_path / "blank")}
    assert ("ids-missing", str(tmp_path / "blank/meta.properties")) in found
    assert "batch-crc" in {code for code, _ in found}


@pytest.mark.parametrize("make", [os.mkdir, lambda path: os.symlink(path.name, path)], ids=["directory", "loop"])
@pytest.mark.parametrize(
    "name",
    ["t-0/partition.metadata", "t-0/leader-epoch-checkpoint", "meta.properties", ".lock", "cleaner-offset-checkpoint"],
)
def test_what_is_no_file_does_not_hide_other_findings(data, tmp_path, name, make):
    BROKEN["batch-crc"](data)
    (data / name).unlink(missing_ok=True)
    make(data / name)
    found = {one.code: one.path for one in bl.check(data)}
    assert "batch-crc" in found
    assert any(name in path for path in found.values())
    # No other verb fails on it but with an error of its own.
    for use in (bl.repair, bl.rescue):
        with contextlib.suppress(bl.errors.BrokerlessError):
            use(data, output=tmp_path / use.__name__)


@pytest.mark.parametrize(
    ("change", "is_found"),
    [
        *((partial(damage.flip_bit, position=position), True) for position in (70, 150, 400)),
        (partial(damage.cut, length=200), False),
        (partial(damage.cut, length=0), False),
    ],
)
def test_damage_in_the_snapshot_that_formatting_wrote_keeps_a_broker_from_starting(tmp_path, change, is_found):
    """A broker reads it at each start while it has no newer one, although the metadata log has its records."""
    data = tmp_path / "data"
    shutil.copytree(Path(__file__).parents[3] / "examples/incident", data)
    snapshot = data / f"__cluster_metadata-0/{0:020}-{0:010}.checkpoint"
    change(snapshot)
    found = [(one.code, one.path) for one in bl.check(data) if one.kind.stops_broker]
    assert found == [("metadata-damaged", str(snapshot))] * is_found
