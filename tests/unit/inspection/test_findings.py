"""Every place of damage in a segment is found, by itself, and a tail that a crash left is told from it."""

import os
import shutil
import struct
import time

import pytest

import brokerless as bl
from brokerless import _native
from brokerless.inspection.findings import findings
from brokerless.log.survey import survey
from support import damage
from support.log_files import NOW, batch
from support.reference_decoder import crc32c

HEADER = 61


def found(directory, *, is_clean=True):
    if not is_clean:
        crash(directory)
    return [finding for segment in bl.Log(directory).segments for finding in findings(segment, is_clean=is_clean)]


def crash(directory):
    """Make the log directory look as after a crash in which no record had been synced."""
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (directory.parent / name).unlink(missing_ok=True)


@pytest.fixture
def log(tmp_path):
    """Five batches of two records in each of two segments; return the partition's directory."""
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t")
        log = log_dir.log("t", 0)
        for i in range(10):
            if i == 5:
                log.roll()
            log.append(batch(0, [b"value %d" % i, b"another"], timestamp=NOW + i))
    return tmp_path / "data" / "t-0"


def old(log):
    return log / "00000000000000000000.log"


def newest(log):
    return log / "00000000000000000010.log"


def batches(path):
    """Return position and size of each batch of a file."""
    headers, _ = _native.scan(path.read_bytes())
    return list(zip(headers["position"].to_pylist(), headers["size"].to_pylist(), strict=True))


def test_the_logs_of_real_brokers(golden):
    """None has anything, but for two of a killed broker that were broken by hand."""
    kinds = {}
    for log_dir in sorted((golden / "logs").iterdir()):
        for log in bl.LogDirs(log_dir).logs():
            for segment in log.segments:
                for finding in findings(segment, is_clean=log.root.is_clean):
                    kinds[log_dir.name, log.topic] = finding.code
    assert kinds == {("kafka-4.1-crashed", "crash-cut"): "tail-torn", ("kafka-4.1-crashed", "crash-zstd"): "batch-crc"}


def test_each_bad_batch_is_a_finding(log):
    places = batches(old(log))
    for position, _ in (places[1], places[3]):
        damage.flip_bit(old(log), position + HEADER + 2)
    first, second = found(log)
    assert (first.code, first.path, first.position, first.base_offset) == ("batch-crc", str(old(log)), places[1][0], 2)
    assert (first.next_position, first.start_offset, first.end_offset) == (places[2][0], 2, 4)
    assert first.reason.startswith("record batch crc mismatch: stored ")
    assert (second.position, second.start_offset, second.end_offset) == (places[3][0], 6, 8)


def test_bad_neighbours_are_two_findings(log):
    places = batches(old(log))
    for position, _ in places[1:3]:
        damage.flip_bit(old(log), position + HEADER + 2)
    assert [(f.position, f.start_offset, f.end_offset) for f in found(log)] == [
        (places[1][0], 2, 4),
        (places[2][0], 4, 6),
    ]


def test_behind_a_lost_frame_the_next_good_batch_is_found(log):
    """A length that is wrong leads nowhere: 2^24 bytes more than there are, or into the middle of what follows."""
    places = batches(old(log))
    for at, bit in ((8, 0), (11, 5)):
        damage.flip_bit(old(log), places[1][0] + at, bit)
        (finding,) = found(log)
        assert (finding.position, finding.next_position) == (places[1][0], places[2][0])
        assert (finding.start_offset, finding.end_offset) == (2, 4)
        damage.flip_bit(old(log), places[1][0] + at, bit)
    assert found(log) == []


def test_garbage_between_batches(log):
    content = old(log).read_bytes()
    position = batches(old(log))[2][0]
    old(log).write_bytes(content[:position] + os.urandom(3000) + content[position:])
    (finding,) = found(log)
    assert (finding.position, finding.next_position) == (position, position + 3000)
    assert (finding.start_offset, finding.end_offset) == (4, 4)


def test_zeros_in_the_middle_are_damage(log):
    """They are many, and no batch is looked for at each of them."""
    content = newest(log).read_bytes()
    position = batches(newest(log))[2][0]
    newest(log).write_bytes(content[:position] + bytes(4 << 20) + content[position:])
    (finding,) = found(log, is_clean=False)
    assert (finding.code, finding.position, finding.next_position) == ("batch-zeros", position, position + (4 << 20))


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_cut_batch(log, is_clean):
    """At the end of the log it is what a crash left, unless none was; in an older segment it is damage."""
    for path in (old(log), newest(log)):
        damage.cut(path, -5)
    first, second = found(log, is_clean=is_clean)
    place, size = batches(old(log))[-1]
    end = place + size
    assert (first.code, first.position, first.next_position) == ("batch-cut", end, None)
    assert (first.start_offset, first.end_offset) == (8, 10)
    assert (second.code, second.position) == ("batch-cut" if is_clean else "tail-torn", end)
    assert (second.start_offset, second.end_offset) == (18, None)
    assert "record batch is cut" in second.reason


def test_a_bad_batch_at_the_end_is_a_tail(log):
    """A broker's recovery cuts at the first bad batch, though it is framed; a good one behind it would go, too."""
    places = batches(newest(log))
    damage.flip_bit(newest(log), places[4][0] + HEADER + 2)
    assert [finding.code for finding in found(log, is_clean=False)] == ["tail-torn"]
    damage.flip_bit(newest(log), places[3][0] + HEADER + 2)
    assert [(finding.code, finding.position) for finding in found(log, is_clean=False)] == [("tail-torn", places[3][0])]
    damage.flip_bit(newest(log), places[1][0] + HEADER + 2)
    assert [finding.code for finding in found(log, is_clean=False)] == ["batch-crc", "tail-torn"]


def test_a_preallocated_tail_is_nothing_until_the_log_is_closed(log):
    damage.append(newest(log), bytes(100_000))
    assert found(log, is_clean=False) == []
    (zeros,) = found(log)
    assert (zeros.code, zeros.start_offset) == ("tail-zeros", zeros.end_offset)
    damage.append(old(log), bytes(100))
    (finding,) = found(log, is_clean=False)
    assert (finding.path, finding.next_position, finding.end_offset) == (str(old(log)), None, 10)


def test_a_segment_of_which_there_are_only_indexes_is_lost(log):
    """Each file that is here is good, and records are gone: who copied the directory missed a file."""
    names = sorted(path.name for path in log.iterdir())
    newest(log).unlink()
    (lost,) = found(log)
    assert (lost.code, lost.path, lost.position, lost.next_position) == ("segment-missing", str(newest(log)), 0, None)
    assert (lost.start_offset, lost.end_offset) == (10, None)
    assert "the file is missing" in lost.reason
    for name in names:
        if name.startswith("00000000000000000010.") and not name.endswith(".log"):
            (log / name).rename(log / name.replace("10.", "05."))
    (log / "00000000000000000010.log").touch()
    crash(log)
    assert found(log) == [], "the segment before goes on behind it: a cleaner has merged them"
    old(log).write_bytes(old(log).read_bytes()[: batches(old(log))[1][0]])
    (lost,) = found(log)
    assert (os.path.basename(lost.path), lost.start_offset, lost.end_offset) == ("00000000000000000005.log", 5, 10)


def test_what_a_broker_deletes_is_not_lost(log):
    """It deletes the log before its indexes, in both steps."""
    crash(log)
    newest(log).rename(f"{newest(log)}.deleted")
    assert found(log) == []
    (log / "00000000000000000000.index").rename(log / "00000000000000000012.index")
    listed = bl.Log(log).segments
    assert [segment.lost for segment in listed] == [12]

    def now():
        return [finding.start_offset for segment in listed for finding in findings(segment, is_clean=True)]

    assert now() == [12]
    for name in ("00000000000000000012.log", "00000000000000000012.log.deleted"):
        (log / name).touch()
        assert now() == [], "made, or being deleted meanwhile"
        (log / name).unlink()
    (log / "00000000000000000012.index").unlink()
    assert now() == [], "deleted meanwhile"


def test_offsets_that_go_back(log):
    """The checksum does not cover the base offset: a batch may be twice there, or be another segment's."""
    places = batches(old(log))
    content = old(log).read_bytes()
    twice = content + content[places[3][0] : places[3][0] + places[3][1]]
    old(log).write_bytes(twice)
    (finding,) = found(log)
    assert (finding.code, finding.position, finding.base_offset) == ("batch-order", len(content), 6)
    assert finding.reason == "offset 6 is below 10, where the segment continues"
    damage.flip_bit(old(log), len(content) + 9)  # the copy's length
    (finding,) = found(log)
    assert (finding.code, finding.position, finding.next_position) == ("batch-cut", len(content), None)
    old(log).write_bytes(content)
    damage.overwrite(old(log), places[4][0], (40).to_bytes(8, "big"))
    (finding,) = found(log)
    assert finding.reason == "offset 41 is not below 10, where the segment has to end"


def test_records_are_looked_into(tmp_path):
    """A checksum may be right and the records wrong: what a producer with a fault sent."""
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t")
        log_dir.log("t", 0).append(batch(0, [b"value"], timestamp=NOW))
    path = tmp_path / "data" / "t-0" / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[HEADER] += 2  # its length
    content[17:21] = crc32c(bytes(content[21:])).to_bytes(4, "big")
    path.write_bytes(content)
    (finding,) = found(tmp_path / "data" / "t-0")
    assert finding.reason.startswith("record 0 of 1: ")


def test_records_that_do_not_rise(tmp_path):
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t")
        log_dir.log("t", 0).append(batch(0, [b"1", b"2"], timestamp=NOW))
    path = tmp_path / "data" / "t-0" / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    at = HEADER + 1 + content[HEADER] // 2  # the second record: length, attributes, timestamp delta, offset delta
    assert content[at + 3] == 2
    content[at + 3] = 0
    content[17:21] = crc32c(bytes(content[21:])).to_bytes(4, "big")
    path.write_bytes(content)
    (finding,) = found(tmp_path / "data" / "t-0")
    assert (finding.code, finding.position, finding.reason) == ("record-order", 0, "record 0 follows record 0")


def test_an_unknown_codec_is_unsupported(log):
    place = batches(old(log))[1][0]
    content = bytearray(old(log).read_bytes())
    end = place + batches(old(log))[1][1]
    content[place + 22] |= 7
    content[place + 17 : place + 21] = crc32c(bytes(content[place + 21 : end])).to_bytes(4, "big")
    old(log).write_bytes(content)
    (finding,) = found(log)
    assert (finding.code, finding.position, finding.next_position) == ("batch-unsupported", place, end)


@pytest.mark.parametrize("name", ["codec-gzip-0", "txn-interleaved-0"])
def test_a_check_finds_any_flipped_bit(golden, tmp_path, name):
    """Whatever bit flips in a log: what is found is the batch that holds it, or, of its offset, the next one."""
    source = next((golden / "logs").glob(f"*/{name}"))
    directory = shutil.copytree(source, tmp_path / name)
    path = next(path for path in sorted(directory.glob("*.log")) if path.stat().st_size > 1000)
    places = batches(path)
    for position in range(0, 1000, 7):
        damage.flip_bit(path, position, position % 8)
        hit = max(at for at, _ in places if at <= position)
        for finding in found(directory):
            assert finding.position == hit or finding.code == "batch-order", position
        damage.flip_bit(path, position, position % 8)


def imposter(offset, size, *, count):
    """Return the header of a batch of format 2 that is none; its last offset delta is 3."""
    fields = (offset, size - 12, 0, 2, 0, 0, 3, 0, 0, -1, -1, -1, count)
    return struct.pack(">qiibIHiqqqhii", *fields)


def test_a_search_that_would_not_end_is_given_up(log):
    """Each of many headers claims half of the file: to checksum all of them would take minutes."""
    content = old(log).read_bytes()
    position = batches(old(log))[1][0]
    hostile = b"\1" + imposter(3, 4 << 20, count=4) * ((8 << 20) // HEADER)
    old(log).write_bytes(content[:position] + hostile + content[position:])
    begun = time.process_time()
    (finding,) = found(log)
    assert time.process_time() - begun < 5
    assert (finding.code, finding.position, finding.next_position) == ("batch-cut", position, None)
    assert (finding.start_offset, finding.end_offset) == (2, 10)
    assert finding.reason.endswith("was given up: too many bytes there look like a batch")


def test_a_header_that_cannot_be_does_not_prolong_a_search(log):
    """More records than offsets: what such a header claims is not checksummed, and the batch behind it is found."""
    content = old(log).read_bytes()
    position = batches(old(log))[1][0]
    hostile = b"\1" + imposter(3, 4 << 20, count=5) * ((8 << 20) // HEADER)
    old(log).write_bytes(content[:position] + hostile + content[position:])
    (finding,) = found(log)
    assert (finding.position, finding.next_position) == (position, position + len(hostile))


def test_many_bad_batches_in_a_row_are_one_search(log):
    """What is behind all of them is looked for once, and not from each again."""
    path = old(log)
    for position, _ in batches(path):
        damage.flip_bit(path, position + HEADER + 2)
    content, begins = path.read_bytes(), []

    class Recorded:
        def size(self):
            return len(content)

        def read(self, position, length):
            begins.append(position)
            return content[position : position + length]

    assert len(survey(Recorded(), str(path), 0, 10, len(content)).parts) == 5
    assert len([position for position, _ in batches(path) if position + 1 in begins]) == 1


def test_a_check_and_a_read_report_the_same_of_a_moved_last_batch(tmp_path):
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t")
        for number in range(5):
            log_dir.log("t", 0).append(batch(0, [b"%d" % number]))
    path = tmp_path / "data" / "t-0" / f"{0:020d}.log"
    damage.overwrite(path, path.stat().st_size * 4 // 5 + 6, b"\x04")
    log = bl.Log(tmp_path / "data" / "t-0")
    reader = log.read(on_corrupt="skip")
    assert sum(rows.num_rows for rows in reader) == 4
    (segment,) = log.segments
    found = [(one.position, one.start_offset, one.end_offset) for one in findings(segment, is_clean=True)]
    assert found == [(one.position, one.start_offset, one.end_offset) for one in reader.lost]
    assert len(found) == 2
