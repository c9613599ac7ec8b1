"""Any bytes in any file of a partition give rows or one of our errors, and never an end without a word."""

import contextlib
import random
import struct
import subprocess
import sys
import zlib

import pyarrow as pa
import pytest

import brokerless as bl
from brokerless import _native
from support import damage
from support.reference_decoder import crc32c

PARTITIONS = [
    ("kafka-4.1", "codec-mixed-0"),
    ("kafka-4.1", "txn-interleaved-0"),
    ("kafka-4.1", "compact-txn-0"),
    ("kafka-2.8-mixed", "upgraded-all-codecs-0"),
]


def break_something(path, chance):
    size = path.stat().st_size
    at = chance.randrange(size)
    match chance.randrange(5):
        case 0:
            damage.flip_bit(path, at, chance.randrange(8))
        case 1:
            damage.overwrite(path, at, chance.randbytes(min(chance.choice([1, 4, 8, 60]), size - at)))
        case 2:
            damage.overwrite(path, at, bytes(min(chance.choice([4, 100, 5000]), size - at)))
        case 3:
            damage.cut(path, at)
        case 4:
            damage.append(path, chance.choice([bytes(100), chance.randbytes(100), path.read_bytes()[:at]]))


@contextlib.contextmanager
def only_our_errors():
    try:
        yield
    except (bl.errors.CorruptRecordError, bl.errors.UnsupportedFormatError) as error:
        if error.path is None:
            raise AssertionError("an error without its file") from error


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize(("log_dir", "partition"), PARTITIONS)
def test_damage_anywhere(copied, log_dir, partition, seed):
    chance = random.Random(f"{partition} {seed}")
    directory = copied(log_dir, partition)
    for path in chance.choices([p for p in sorted(directory.iterdir()) if p.stat().st_size], k=chance.choice([1, 3])):
        break_something(path, chance)
    log = bl.Log(directory)
    for isolation_level in ("read_uncommitted", "read_committed"):
        found = []
        with only_our_errors():
            for rows in log.read(columns=["offset", "value", "headers"], isolation_level=isolation_level):
                found += rows["offset"].to_pylist()
            found.append("end")
        reader = log.read(isolation_level=isolation_level, on_corrupt="skip", columns=["offset"])
        kept = [offset for rows in reader for offset in rows["offset"].to_pylist()]
        if found[-1:] == ["end"]:
            assert (found[:-1], reader.lost) == (kept, [])
        else:
            assert kept[: len(found)] == found
        for query in (0, 1_600_000_000_000, -1, -2, -3):
            with only_our_errors():
                log.offsets_for_times(query, isolation_level)
    with only_our_errors():
        assert list(log.scan(check_crcs=True))


def varint(number):
    number, encoded = number << 1 ^ number >> 63, bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def write_batch(path, count, payload):
    """Write a log of one batch of so many records, compressed by zstd."""
    body = (
        struct.pack(">hiqqqhii", 4, count - 1, 0, 0, -1, -1, -1, count)
        + pa.Codec("zstd").compress(payload).to_pybytes()
    )
    path.mkdir()
    (path / f"{0:020}.log").write_bytes(struct.pack(">qiibI", 0, len(body) + 9, 0, 2, crc32c(body)) + body)
    return path


READ = r"""
import re, sys, time
import brokerless as bl
rows = headers = 0
start = time.process_time()
for batch in bl.Log(sys.argv[1]).read():
    rows += batch.num_rows
    headers += len(batch["headers"].flatten())
# What `resource` knows is at least what the process had that started this one.
peak = int(re.search(r"VmHWM:\s+(\d+) kB", open("/proc/self/status").read())[1])
print(rows, headers, time.process_time() - start, peak >> 10)
"""


def read_apart(path):
    """Return rows, headers, seconds of a processor, and MB at most."""
    done = subprocess.run([sys.executable, "-c", READ, path], capture_output=True, text=True, check=True)
    return [float(number) for number in done.stdout.split()]


@pytest.mark.slow
def test_a_batch_of_very_many_records_takes_time_by_their_number(tmp_path):
    """Each of its parts was decompressed, and walked over, from the start of the batch on."""
    count = 36_000_000
    log = write_batch(tmp_path / "t-0", count, bytes([12, 0, 0, 0, 1, 1, 0]) * count)
    assert (log / f"{0:020}.log").stat().st_size < 30_000
    rows, _, seconds, megabytes = read_apart(log)
    assert rows == count
    # 2 s; by the square of their number it was 70 s.
    assert seconds < 10
    assert megabytes < 500


def record_of_headers(count):
    body = b"\0\0\0\1\1" + varint(count) + b"\0\1" * count
    return varint(len(body)) + body


def test_very_many_headers_come_in_parts(tmp_path):
    count, of_each = 100, 300_000
    log = write_batch(tmp_path / "t-0", count, record_of_headers(of_each) * count)
    rows, headers, _, megabytes = read_apart(log)
    assert (rows, headers) == (count, count * of_each)
    assert megabytes < 500


def test_a_record_of_too_many_headers_is_refused(tmp_path):
    log = bl.Log(write_batch(tmp_path / "t-0", 1, record_of_headers((1 << 24) + 1)))
    with pytest.raises(bl.errors.UnsupportedFormatError, match="16777217 headers; at most 16777216 are read"):
        list(log.read())
    # Whether a record is read does not depend on what is asked for.
    with pytest.raises(bl.errors.UnsupportedFormatError, match="16777217 headers"):
        list(log.read(columns=["offset"]))


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_of_very_many_messages_comes_in_parts(tmp_path, magic):
    values = pa.array([b"%d" % number for number in range(600_000)])
    encoder = _native.Encoder(magic=magic, compression="gzip", level=1, batch_size=1 << 30)
    batch = encoder.encode(pa.record_batch({"value": values}), timestamp=5)
    decoder = _native.Decoder(["value", "offset"])
    parts, consumed = [], 0
    while not consumed:
        rows, consumed = decoder.decode(batch)
        parts.append(rows)
    assert consumed == batch.size
    assert [rows.num_rows for rows in parts] == [1 << 18, 1 << 18, 600_000 - (1 << 19)]
    found = pa.Table.from_batches(parts)
    assert found["value"].combine_chunks() == values
    assert found["offset"].to_pylist() == list(range(600_000))


def test_millions_of_records_in_a_small_batch_are_not_all_rows_at_once(tmp_path):
    """In one piece, a topic's name for each of them would take gigabytes, and overflow Arrow's offsets."""
    count = 2_000_000
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    payload = compressor.compress(bytes([12, 0, 0, 0, 1, 1, 0]) * count) + compressor.flush()
    body = struct.pack(">hiqqqhii", 1, count - 1, 0, 0, -1, -1, -1, count) + payload
    batch = struct.pack(">qiibI", 0, len(body) + 9, 0, 2, crc32c(body)) + body
    decoder = _native.Decoder(["topic", "offset"], topic="t" * 249, partition=0)
    parts, consumed = [], 0
    while not consumed:
        rows, consumed = decoder.decode(batch)
        parts.append(rows.num_rows)
    assert (sum(parts), consumed) == (count, len(batch))
    assert max(parts) <= 1 << 18

    partition = tmp_path / "t-0"
    partition.mkdir()
    (partition / f"{0:020}.log").write_bytes(batch)
    assert sum(rows.num_rows for rows in bl.Log(partition).read(columns=["offset"])) == count
