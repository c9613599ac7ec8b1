"""The core's pass over plain segments finds what the way by columns finds: nothing, on healthy and on damaged logs."""

import random
import shutil
import struct

import pytest

import brokerless as bl
from brokerless import _native
from brokerless.checking.batch_check import BatchCheck
from brokerless.layout import lost_offsets
from support import damage
from support.hunt import PARTITIONS
from support.log_files import NOW, Memory, batch, write_segment
from support.reference_decoder import crc32c

QUICK = ("idempotent-0",)
LOGS = [
    pytest.param(*place, marks=() if place[1] in QUICK else pytest.mark.slow, id="-".join(place))
    for place in PARTITIONS
]
FIELDS = {
    "base_offset": (0, 8),
    "batch_length": (8, 12),
    "partition_leader_epoch": (12, 16),
    "magic": (16, 17),
    "crc": (17, 21),
    "attributes": (21, 23),
    "last_offset_delta": (23, 27),
    "base_timestamp": (27, 35),
    "max_timestamp": (35, 43),
    "producer_id": (43, 51),
    "producer_epoch": (51, 53),
    "base_sequence": (53, 57),
    "records_count": (57, 61),
    "records": (61, 70),
}
VALUE = b"v" * 200


@pytest.fixture
def plain(monkeypatch):
    """Count the segments that were taken in one pass; with `is_used` unset, none is."""

    class Plain:
        taken, left, is_used = 0, 0, True

    take = BatchCheck.take_plain

    def counted(*arguments, **options):
        found = take(*arguments, **options) if Plain.is_used else None
        Plain.taken, Plain.left = Plain.taken + (found is not None), Plain.left + (found is None)
        return found

    monkeypatch.setattr(BatchCheck, "take_plain", counted)
    return Plain


def both(plain, path, level):
    """Return the findings of the two ways."""
    found = []
    for plain.is_used in (True, False):
        found.append([finding.to_dict() for finding in bl.check(path, level=level)])
    return found


def copied(golden, name, partition, to):
    """Copy a partition and the files of the directory around it."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(golden / "logs" / name / partition, to / partition)
    for file in (golden / "logs" / name).iterdir():
        if file.is_file():
            shutil.copy(file, to)
    return to / partition


def places(file):
    """Return position, size and magic of the batches."""
    headers, _ = _native.scan(file.read_bytes())
    return list(zip(*(headers[name].to_pylist() for name in ("position", "size", "magic")), strict=True))


def flips(log, seed):
    """Flip a bit in each field of a header and in each index, one by one. Yield each with the file's content."""
    generator = random.Random(seed)
    files = [file for file in sorted(log.glob("*.log")) if file.stat().st_size and places(file)]
    for field, (start, end) in FIELDS.items():
        for is_summed in (False, True):
            file = generator.choice(files)
            content = file.read_bytes()
            position, size, magic = generator.choice(places(file))
            damage.flip_bit(file, position + generator.randrange(start, end) % size, generator.randrange(8))
            if is_summed and start >= 21 and magic == 2:
                changed = file.read_bytes()[position + 21 : position + size]
                damage.overwrite(file, position + 17, struct.pack(">I", crc32c(changed)))
            yield f"{field} of {position} in {file.name}", file, content
    for pattern in ("*.index", "*.timeindex", "*.txnindex", "*.snapshot"):
        for file in sorted(log.glob(pattern)):
            content = file.read_bytes()
            # Behind the entries of a preallocated index are zeros.
            length = len(content.rstrip(b"\0"))
            for _ in range(3 if length else 0):
                damage.flip_bit(file, generator.randrange(length), generator.randrange(8))
                yield file.name, file, content
            if length:
                damage.cut(file, -1)
                yield f"{file.name} cut", file, content


@pytest.mark.parametrize("level", ["default", "deep"])
@pytest.mark.parametrize(("name", "partition"), LOGS)
def test_both_ways_find_the_same_in_damaged_logs_of_real_brokers(golden, tmp_path, plain, name, partition, level):
    log = copied(golden, name, partition, tmp_path / "data")
    damaged = 0
    for what, file, content in flips(log, f"{name} {partition}"):
        fast, checked = both(plain, log, level)
        assert fast == checked, what
        damaged += bool(fast)
        file.write_bytes(content)
    assert damaged


@pytest.mark.parametrize("level", ["default", "deep"])
def test_healthy_segments_of_brokers_since_kafka_0_11_are_plain(golden, plain, level):
    assert list(bl.check(golden / "logs/kafka-4.1", level=level)) == []
    assert plain.taken > 10
    assert plain.left == 0


def test_gaps_and_epochs_across_segments_are_the_same(tmp_path, plain):
    fields = {"producer_id": 7, "timestamp": NOW}
    first = [batch(at, [VALUE], base_sequence=at, leader_epoch=at // 2, **fields) for at in (0, 1, 2, 5)]
    second = [batch(at, [VALUE], base_sequence=at - 1, leader_epoch=3, **fields) for at in (8, 9, 12)]
    write_segment(tmp_path / "t-0", 0, first)
    write_segment(tmp_path / "t-0", 8, second)
    (tmp_path / "t-0/leader-epoch-checkpoint").write_text("0\n3\n0 0\n1 2\n4 6\n")
    fast, checked = both(plain, tmp_path / "t-0", "default")
    assert fast == checked
    assert [(found["code"], found["start_offset"]) for found in fast] == [
        ("offset-gap", 3),
        ("offset-gap", 6),
        ("offset-gap", 10),
        ("sequence-gap", 5),
        ("sequence-gap", 8),
        ("sequence-gap", 12),
        ("epochs-differ", 5),
    ]
    assert (plain.taken, plain.left) == (2, 2)


def test_what_a_repair_lost_explains_the_next_sequence_of_each_producer_only(tmp_path, plain):
    offsets_and_sequences = [(0, 7, 0), (1, 8, 0), (4, 7, 3), (5, 7, 5), (6, 8, 1), (9, 7, 7), (10, 8, 3)]
    batches = [
        batch(at, [VALUE], producer_id=producer, base_sequence=sequence, timestamp=NOW)
        for at, producer, sequence in offsets_and_sequences
    ]
    write_segment(tmp_path / "t-0", 0, batches)
    (tmp_path / "t-0/leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (tmp_path / "t-0" / lost_offsets.FILE).write_bytes(lost_offsets.content([(2, 4), (7, 9)]))
    fast, checked = both(plain, tmp_path / "t-0", "default")
    assert fast == checked
    # Producer 7 skips a sequence between offsets 4 and 5, where nothing was lost.
    assert [(found["code"], found["start_offset"]) for found in fast] == [("sequence-gap", 5)]


def test_many_gaps_are_bounded_in_the_same_way(tmp_path, plain):
    batches = [batch(2 * at, [b"x"], producer_id=1, base_sequence=2 * at) for at in range(300)]
    write_segment(tmp_path / "t-0", 0, batches)
    fast, checked = both(plain, tmp_path / "t-0", "default")
    assert fast == checked
    codes = [found["code"] for found in fast]
    assert (codes.count("offset-gap"), codes.count("sequence-gap")) == (100, 100)


def test_a_pass_that_ends_early_changes_nothing():
    good, bad = batch(0, [VALUE], producer_id=7, base_sequence=0), bytearray(batch(1, [VALUE]))
    bad[-1] ^= 1

    sequences, producers = _native.ProducerSequences(), _native.Producers()
    options = {"sequences": sequences, "producers": producers}
    content = good + bytes(bad)
    assert _native.check_segment(Memory(content), len(content), 0, **options) is None
    assert sequences.expected(7, 0) is None
    assert producers.entries().num_rows == 0
    found = _native.check_segment(Memory(good), len(good), 0, **options)
    assert found is not None
    assert (found.next_offset, found.replays, sequences.expected(7, 0)) == (1, True, 1)
    assert producers.entries().num_rows == 1


@pytest.mark.parametrize(("name", "partition"), LOGS)
def test_damaged_copies_compare_in_the_same_way(golden, tmp_path, monkeypatch, name, partition):
    original = copied(golden, name, partition, tmp_path / "original")
    copy = copied(golden, name, partition, tmp_path / "copy")
    skip_equal, statuses = _native.skip_equal, set()
    for what, file, content in flips(copy, f"{name} {partition}"):
        found = []
        for skip in (skip_equal, lambda *_: None):
            monkeypatch.setattr(_native, "skip_equal", skip)
            found.append([*bl.compare(original, copy), *bl.compare(copy, original)])
        assert found[0] == found[1], what
        statuses |= {one.status for one in found[0]}
        file.write_bytes(content)
    assert len(statuses) > 1
