"""A log directory that is being written to, cut short at every step: a broker never trusts what is not whole.

The logs are stand-ins of one fsynced file a record; crashes of the real ones are tested with them.
"""

import contextlib
import os

import pytest
from faults import each_crash

import brokerless as bl
from brokerless import disk, log_dir_writer
from brokerless.kraft import Bootstrap
from brokerless.log import texts

MARKER = b'{"version":0, "brokerEpoch":77}\n'
TOPIC_ID = "AAECAwQFBgcICQoLDA0ODw"


class OneFileALog:
    first_dirty_offset = None

    def __init__(self, directory):
        self.directory = directory
        self.log_start_offset = self.first_segment_base_offset = 0
        self.log_end_offset = sum(name.startswith("record-") for name in os.listdir(directory))
        self.recovery_point = self.high_watermark = self.log_end_offset

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
        self.recovery_point = self.high_watermark = self.log_end_offset


@pytest.fixture(autouse=True)
def _logs(monkeypatch):
    monkeypatch.setattr(log_dir_writer, "LogWriter", OneFileALog)


def records(directory, name):
    return sum(path.name.startswith("record-") for path in (directory / name).glob("*"))


def opens_again(directory):
    with bl.LogDir.open(directory, sole_replica=True) as log_dir:
        for topic, partition in log_dir.partitions():
            log_dir.log(topic, partition)
    assert bl.Root(str(directory)).is_clean
    return directory


def test_the_marker_is_there_only_where_nothing_was_begun_or_all_was_done(tmp_path):
    start = tmp_path / "start"
    for name in ("t-0", "u-0"):
        (start / name).mkdir(parents=True)
    (start / "meta.properties").write_text("version=1\nnode.id=3\ncluster.id=abc\n")
    (start / ".kafka_cleanshutdown").write_bytes(MARKER)
    (start / "recovery-point-offset-checkpoint").write_text("0\n2\nt 0 0\nu 0 7\n")

    def work(path):
        with bl.LogDir.open(path, sole_replica=True) as log_dir:
            log_dir.log("t", 0).append()
            log_dir.create_topic("x", topic_id=TOPIC_ID)
            log_dir.log("x", 0).append()

    states = set()
    for crash in each_crash(work, start, tmp_path):
        written = records(crash.directory, "t-0"), records(crash.directory, "x-0")
        marker = crash.directory / ".kafka_cleanshutdown"
        root = bl.Root(str(crash.directory))
        if marker.exists():
            assert marker.read_bytes() == MARKER
            assert written in ((0, 0), (1, 1)), crash
            assert root.recovery_points.get(("x", 0), 0) == written[1], crash
        assert root.recovery_points["u", 0] == 7
        assert root.recovery_points["t", 0] <= written[0], crash
        states.add((marker.exists(), written))
        assert bl.Root(str(opens_again(crash.directory))).broker_epoch == 77
    assert {(True, (0, 0)), (False, (1, 0)), (False, (1, 1)), (True, (1, 1))} <= states


def test_a_new_directory_never_has_a_partition_that_a_broker_would_call_stray(tmp_path):
    (tmp_path / "start").mkdir()

    def work(path):
        with bl.LogDir.create(f"{path}/new") as log_dir:
            for topic in ("t", "u"):
                log_dir.create_topic(topic, 2)
                log_dir.log(topic, 1).append()

    for crash in each_crash(work, tmp_path / "start", tmp_path):
        new = crash.directory / "new"
        if not (new / texts.META_PROPERTIES).exists():
            assert not list(new.glob("*-[01]"))
            # It is no log directory yet, and can be made into one again.
            with bl.LogDir.create(new) if new.exists() else contextlib.nullcontext():
                continue
        described = Bootstrap.parse((new / texts.BOOTSTRAP).read_bytes(), node_id=1).topics
        ids = {name: topic.topic_id for name, topic in described.items()}
        for directory in new.glob("*-[01]"):
            if records(new, directory.name):
                assert bl.Log(directory).topic_id == ids[directory.name[0]], crash
        opens_again(new)
        assert all(bl.Log(directory).topic_id == ids[directory.name[0]] for directory in new.glob("*-[01]")), crash
