"""A log directory that is being written to, cut short at every step: a broker never trusts what is not whole.

The logs are stand-ins of one fsynced file a record; crashes of the real ones are tested with them.
"""

import contextlib
import os
from pathlib import Path

import pytest
from faults import each_crash

import brokerless as bl
from brokerless import _native
from brokerless.io import disk
from brokerless.layout import checkpoints
from brokerless.layout.replication import SOLE
from brokerless.log_dir import writer
from brokerless.metadata.bootstrap import Bootstrap, bootstrap_file, snapshot_records, without_records

MARKER = b'{"version":0, "brokerEpoch":77}\n'
TOPIC_ID = "AAECAwQFBgcICQoLDA0ODw"
# What `StorageTool format --standalone` of 4.4.0 wrote: the voters, then the features.
FORMATTED = bytes.fromhex(
    "00000000000000000000009a000000000240e4b616002000000002000001a20abc8ae6000001a20abc8ae6ffffffffffffff"
    "ffffffffffffff000000032a0000000800000003160000000001a20abc8ac300001e00000208000000050a00000001000082"
    "0100000408000000066e00000200000001e50d233dcfe746cd8083bca34e100eab020b434f4e54524f4c4c45520a3132372e"
    "302e302e316b140000000001000000000000000000000003000000f100000000029a317fa0000000000005000001a20abc8b"
    "52000001a20abc8b52ffffffffffffffffffffffffffff000000063a000000012e010c00116d657461646174612e76657273"
    "696f6e002100005a000002014e010c0021656c696769626c652e6c65616465722e7265706c696361732e76657273696f6e00"
    "010000340000040128010c000e67726f75702e76657273696f6e00010000340000060128010c000e73686172652e76657273"
    "696f6e0002000038000008012c010c001073747265616d732e76657273696f6e000100004000000a0134010c00147472616e"
    "73616374696f6e2e76657273696f6e0002000000000000000000090000003f0000000002d3825e19002000000000000001a2"
    "0abc8b5a000001a20abc8b5affffffffffffffffffffffffffff000000011a00000008000000040600000000"
)


class OneFileALog:
    first_dirty_offset = None
    replication = SOLE
    producers = _native.Producers()
    is_tiered = False
    cuts = ()
    expected_end = None

    def __init__(self, directory):
        self.directory = directory
        self.highest_cluster_producer_id = lambda since: None
        self.log_start_offset = self.first_segment_base_offset = 0
        self.log_end_offset = sum(name.startswith("record-") for name in os.listdir(directory))
        self.recovery_point = self.replicated_end = self.log_end_offset

    @classmethod
    def open(cls, directory, **_):
        return cls(directory)

    def append(self):
        with disk.create(f"{self.directory}/record-{self.log_end_offset}") as output:
            output.append(b"x")
            output.sync()
        self.log_end_offset += 1

    def close(self):
        disk.sync_directory(self.directory)
        self.recovery_point = self.replicated_end = self.log_end_offset


@pytest.fixture(autouse=True)
def _logs(monkeypatch):
    monkeypatch.setattr(writer, "LogWriter", OneFileALog)


def records(directory, name):
    return sum(path.name.startswith("record-") for path in (directory / name).glob("*"))


def opens_again(directory):
    with bl.open_log_dir(directory, sole_replica=True) as log_dir:
        for topic, partition in log_dir.partitions():
            log_dir.log(topic, partition)
    assert bl.LogDirFiles(str(directory)).is_clean
    return directory


@pytest.mark.filterwarnings("ignore:settings of topics are not known")
@pytest.mark.filterwarnings("ignore:a broker renames ")
def test_the_marker_is_there_only_where_nothing_was_begun_or_all_was_done(tmp_path):
    start = tmp_path / "start"
    for name in ("t-0", "u-0"):
        (start / name).mkdir(parents=True)
    (start / "meta.properties").write_text("version=1\nnode.id=3\ncluster.id=abc\n")
    (start / ".kafka_cleanshutdown").write_bytes(MARKER)
    (start / "recovery-point-offset-checkpoint").write_text("0\n2\nt 0 0\nu 0 7\n")

    def work(path):
        with bl.open_log_dir(path, sole_replica=True) as log_dir:
            log_dir.log("t", 0).append()
            log_dir.create_topic("x", topic_id=TOPIC_ID, segment_index_bytes=1200)
            log_dir.log("x", 0).append()

    states = set()
    for crash in each_crash(work, start, tmp_path):
        written = records(crash.directory, "t-0"), records(crash.directory, "x-0")
        marker = crash.directory / ".kafka_cleanshutdown"
        root = bl.LogDirFiles(str(crash.directory))
        if marker.exists():
            assert marker.read_bytes() == MARKER
            assert written in ((0, 0), (1, 1)), crash
            assert root.recovery_points.get(("x", 0), 0) == written[1], crash
        assert root.recovery_points["u", 0] == 7
        assert root.recovery_points["t", 0] <= written[0], crash
        states.add((marker.exists(), written))
        assert bl.LogDirFiles(str(opens_again(crash.directory))).broker_epoch == 77
    assert {(True, (0, 0)), (False, (1, 0)), (False, (1, 1)), (True, (1, 1))} <= states


def test_a_new_directory_never_has_a_partition_that_a_broker_would_call_stray(tmp_path):
    (tmp_path / "start").mkdir()

    def work(path):
        with bl.create_log_dir(f"{path}/new") as log_dir:
            for topic in ("t", "u"):
                log_dir.create_topic(topic, 2, segment_index_bytes=1200)
                log_dir.log(topic, 1).append()

    for crash in each_crash(work, tmp_path / "start", tmp_path):
        new = crash.directory / "new"
        if not (new / checkpoints.META_PROPERTIES).exists():
            assert not list(new.glob("*-[01]"))
            # It is no log directory yet, and can be made into one again.
            with bl.create_log_dir(new) if new.exists() else contextlib.nullcontext():
                continue
        described = Bootstrap.parse((new / checkpoints.BOOTSTRAP).read_bytes(), node_id=1).topics
        ids = {name: topic.topic_id for name, topic in described.items()}
        for directory in new.glob("*-[01]"):
            if records(new, directory.name):
                assert bl.Log(directory).topic_id == ids[directory.name[0]], crash
        opens_again(new)
        assert all(bl.Log(directory).topic_id == ids[directory.name[0]] for directory in new.glob("*-[01]")), crash


def test_what_formatting_wrote_is_never_lost_while_it_is_put_elsewhere(tmp_path):
    """Of 4.4, which has it in the metadata log's directory: the features, the voters, and then our topics."""
    start = tmp_path / "start"
    metadata = start / "__cluster_metadata-0"
    metadata.mkdir(parents=True)
    (start / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=abc\n")
    (metadata / "00000000000000000000-0000000000.checkpoint").write_bytes(FORMATTED)
    features = snapshot_records(FORMATTED)

    def work(path):
        with bl.open_log_dir(path, sole_replica=True) as log_dir:
            log_dir.create_topic("t", segment_index_bytes=1200)
            log_dir.log("t", 0).append()

    places = set()
    for crash in each_crash(work, start, tmp_path):
        file = Path(bootstrap_file(str(crash.directory), None))
        found = snapshot_records(file.read_bytes())
        assert found[: len(features)] == features, crash
        assert len(found) > len(features) or not (crash.directory / "t-0").exists(), crash
        snapshot = (
            crash.directory / "__cluster_metadata-0" / "00000000000000000000-0000000000.checkpoint"
        ).read_bytes()
        assert b"CONTROLLER" in snapshot
        places.add((file.name, snapshot == FORMATTED))
        opens_again(crash.directory)
    assert places == {("00000000000000000000-0000000000.checkpoint", True), ("bootstrap.checkpoint", False)}


def test_a_snapshot_without_its_records_keeps_its_voters_and_its_frame():
    alone = without_records(FORMATTED)
    assert snapshot_records(alone) == []
    batches, end = _native.scan(alone, check_crcs=True)
    assert end == len(alone)
    assert batches["base_offset"].to_pylist() == [0, 3]
    assert all(batches["is_valid"].to_pylist())
    assert without_records(Bootstrap(node_id=1).format(timestamp=0)) == b""
    for cut in range(1, len(FORMATTED)):
        with contextlib.suppress(bl.errors.CorruptRecordError):
            assert without_records(FORMATTED[:cut]) in (b"", alone[: len(without_records(FORMATTED[:cut]))])
