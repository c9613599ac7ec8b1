"""Each kind of finding has a broken directory that raises it and nothing else; healthy directories raise nothing."""

import shutil
import struct

import pytest

import brokerless as bl
import damage
from broken_directories import BROKEN, SIZE, first, healthy
from brokerless.checking.codes import CODES


def codes(*paths, notes=False, **options):
    found = [finding.code for finding in bl.check(*paths, **options)]
    return [code for code in found if notes or CODES[code].severity != "note"]


@pytest.fixture
def data(tmp_path):
    return healthy(tmp_path / "data")


DEEP = {"batch-payload", "batch-records", "batch-timestamp", "record-order"}


def test_a_healthy_directory_has_no_finding(data):
    for level in ("quick", "default", "deep"):
        assert codes(data, notes=True, level=level) == []


def test_logs_of_real_brokers_have_no_finding(golden):
    for path in sorted((golden / "logs").iterdir()):
        if path.is_dir() and "crashed" not in path.name:
            assert codes(path, notes=True, level="deep") == [], path.name


@pytest.mark.parametrize("code", BROKEN)
def test_a_broken_directory_has_its_finding_alone(data, code):
    BROKEN[code](data)
    assert set(codes(data, notes=True, level="deep")) == {code}
    if code in DEEP:
        assert codes(data, notes=True) == []


def test_a_partition_that_the_metadata_place_here_is_missing(golden, tmp_path):
    shutil.copytree(golden / "logs/kafka-4.1", tmp_path / "data")
    shutil.rmtree(tmp_path / "data/headers-0")
    (finding,) = bl.check(tmp_path / "data")
    assert (finding.code, finding.topic, finding.partition) == ("partition-missing", "headers", 0)


def test_directories_that_do_not_go_together(data, tmp_path):
    shutil.copytree(data, tmp_path / "copy")
    assert codes(data, tmp_path / "copy", notes=True) == ["ids-conflict"]
    damage.flip_bit(first(tmp_path / "copy"), 100)
    assert codes(data, tmp_path / "copy") == ["ids-conflict", "batch-crc"]


def test_every_kind_is_raised_here():
    assert set(BROKEN) | {"partition-missing", "ids-conflict"} == set(CODES)


def test_quick_reads_headers_only(data):
    damage.flip_bit(first(data), SIZE * 5 + 100)
    assert codes(data, level="quick") == []
    damage.overwrite(first(data), SIZE * 5 + 8, struct.pack(">i", -1))
    assert codes(data, level="quick") == ["batch-framing"]


def test_one_topic_alone(data):
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


def test_entries_of_an_index_into_damage_are_not_its_fault(data):
    damage.overwrite(first(data), SIZE * 5, bytes(SIZE * 10))
    assert codes(data) == ["batch-zeros"]
