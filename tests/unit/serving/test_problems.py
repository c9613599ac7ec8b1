"""A client learns only that the server failed. The server's log names the damage to the user."""

import asyncio
import os
import re
import signal
import socket
import struct
import warnings

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

import brokerless as bl
from brokerless.errors import CorruptRecordError, UnsupportedFormatError
from brokerless.layout import checkpoints
from support.damage import flip_bit
from support.log_files import NOW, batch
from support.served import Process

CORRUPT_MESSAGE = 2
OFFSET_OUT_OF_RANGE = 1


def fetch(offset):
    """Return a fetch of t-0 from an offset on, version 4, with its length."""
    partition = struct.pack(">iiqi", 1, 0, offset, 1 << 20)
    topic = struct.pack(">ih", 1, 1) + b"t" + partition
    body = struct.pack(">hhihiiiib", 1, 4, 7, -1, -1, 0, 1, 1 << 20, 0) + topic
    return struct.pack(">i", len(body)) + body


def error_of(address, offset):
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(fetch(offset))
        answer = b""
        while len(answer) < 4 or len(answer) < 4 + struct.unpack(">i", answer[:4])[0]:
            answer += connection.recv(4096)
    # length, correlation, throttle, one topic "t", one partition, its number
    return struct.unpack_from(">h", answer, 4 + 4 + 4 + 4 + 3 + 4 + 4)[0]


def test_damage_that_a_client_meets_is_told_once(tmp_path, caplog):
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", segment_bytes=1 << 20)
        log = log_dir.log("t", 0)
        for _ in range(3):
            log.append(batch(0, [b"v"], timestamp=NOW))
    segment = tmp_path / "data" / "t-0" / f"{0:020}.log"
    content = bytearray(segment.read_bytes())
    size = len(content) // 3
    # The magic of the second batch; a further segment makes it damage in the middle.
    content[size + 16] = 99
    segment.write_bytes(content)
    (segment.parent / f"{3:020}.log").write_bytes(b"")
    with bl.serve(tmp_path / "data") as address:
        assert error_of(address, 0) == 0
        for _ in range(2):
            assert error_of(address, 2) == CORRUPT_MESSAGE
    (told,) = [record.getMessage() for record in caplog.records if record.name == "brokerless.serve"]
    assert told.startswith(f"magic 99 is not 0, 1 or 2 at {segment}:{size} ")


def test_a_segment_that_is_cut_is_an_error_and_told_and_no_client_is_disconnected(tmp_path, caplog):
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", segment_bytes=1 << 20)
        log = log_dir.log("t", 0)
        for _ in range(3):
            log.append(batch(0, [b"v" * 1000], timestamp=NOW))
            log.roll()
    (first, *_) = sorted((tmp_path / "data" / "t-0").glob("*.log"))
    with bl.serve(tmp_path / "data") as address:
        assert error_of(address, 0) == 0
        os.truncate(first, first.stat().st_size - 1)
        assert error_of(address, 0) == CORRUPT_MESSAGE
        # Its file is as it is: nobody meets a promise of the time before.
        assert error_of(address, 0) == 0
        assert error_of(address, 1) == 0
    told, damage = [record.getMessage() for record in caplog.records if record.name == "brokerless.serve"]
    assert told.startswith(f"t-0: {first.name} was cut while it was served: it has ")
    assert damage.startswith(f"record batch is cut at {first}:0: ")


def damaged_directory(path, damage):
    """Create a topic `t` of three segments with two batches each, and damage the second batch; return its place."""
    with bl.create_log_dir(path) as log_dir:
        log_dir.create_topic("t", segment_bytes=1 << 20)
        log = log_dir.log("t", 0)
        for _ in range(3):
            for _ in range(2):
                log.append(batch(0, [b"v" * 100], timestamp=NOW))
            log.roll()
    segment = path / "t-0" / f"{0:020}.log"
    content = bytearray(segment.read_bytes())
    second = len(content) // 2
    content[second + damage[0]] ^= damage[1]
    segment.write_bytes(content)
    return segment, second


def read_by_client(address, **options):
    """Return the offsets that a client of t-0 gets, and the name of the error that ends the read."""

    async def read():
        consumer = AIOKafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest", **options)
        consumer.assign([TopicPartition("t", 0)])
        await consumer.start()
        offsets = []
        try:
            while True:
                offsets.append((await asyncio.wait_for(consumer.getone(), 1.5)).offset)
        except (TimeoutError, KafkaError) as error:
            return offsets, type(error).__name__
        finally:
            await consumer.stop()

    return asyncio.run(read())


# The byte of the batch to change, by which bits; and what a client sees.
DAMAGES = {
    "a wrong checksum": ((100, 0xFF), ([0], "CorruptRecordException")),
    "a length beyond the end of the file": ((8, 0x40), ([0, 2, 3, 4, 5], "TimeoutError")),
    "a length below the smallest": ((8, 0x80), ([0], "CorruptRecordException")),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_told_in_the_words_of_a_read(tmp_path, caplog, name):
    """Batches are sent as stored, so that a client may fail, or skip records, without an error of the server."""
    damage, seen = DAMAGES[name]
    segment, second = damaged_directory(tmp_path / "data", damage)
    with pytest.raises((CorruptRecordError, UnsupportedFormatError)) as raised:
        bl.Log(tmp_path / "data" / "t-0").to_table()
    with bl.serve(tmp_path / "data") as address:
        assert read_by_client(address) == seen
        read_by_client(address)
    (told,) = [record for record in caplog.records if record.name == "brokerless.serve"]
    assert (told.levelname, told.getMessage()) == ("ERROR", str(raised.value).replace("\nhint: ", "; hint: "))
    assert f"{segment}:{second}" in told.getMessage()


def test_sound_logs_are_not_told(tmp_path, caplog):
    """The check meets batches that a response cuts off, and batches larger than its own reads."""
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", segment_bytes=1 << 20)
        log = log_dir.log("t", 0)
        for size in (1, 70_000, 300_000, 1, 600_000):
            log.append(batch(0, [os.urandom(size)], timestamp=NOW))
    with bl.serve(tmp_path / "data") as address:
        for offset in range(5):
            assert error_of(address, offset) == 0
        assert read_by_client(address) == ([0, 1, 2, 3, 4], "TimeoutError")
    assert [record for record in caplog.records if record.name == "brokerless.serve"] == []


def test_the_command_ends_with_1_after_a_client_has_met_damage(tmp_path):
    segment, second = damaged_directory(tmp_path / "data", DAMAGES["a wrong checksum"][0])
    with Process(tmp_path / "data", "--topic", "t") as server:
        assert read_by_client("{}:{}".format(*server.address)) == ([0], "CorruptRecordException")
        server.process.send_signal(signal.SIGTERM)
        told, following = server.process.stderr.read().splitlines()
        assert server.process.wait() == 1
    assert re.match(rf"damaged: record batch crc mismatch at {segment}:{second} \(base_offset 1\): stored ", told)
    assert "--on-corrupt skip" in told
    assert following == f"next: brokerless check {tmp_path / 'data'} --topic t"


def damaged_at_its_end(path, batches):
    """Write a log of a topic `t`, shut it down cleanly, and damage its last batch; return its segment."""
    with bl.create_log_dir(path) as log_dir:
        log_dir.create_topic("t")
        for one in batches:
            log_dir.log("t", 0).append(one)
    segment = path / "t-0" / f"{0:020}.log"
    flip_bit(segment, segment.stat().st_size - 10)
    return segment


def test_damage_at_the_end_of_a_log_is_told_at_the_start(tmp_path):
    """A client that reads an undamaged topic would not meet it."""
    segment = damaged_at_its_end(tmp_path / "data", [batch(0, [b"v" * 100], timestamp=NOW)] * 3)
    last = segment.stat().st_size * 2 // 3
    with Process(tmp_path / "data", "--topic", "t", "--memory", "64MiB") as server:
        told, following = server.process.stderr.readline(), server.process.stderr.readline()
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait() == 130, "no client has met it"
    assert told.startswith(
        f"warning: t-0: lost: offset 2 and all later ones at {segment}:{last}: record batch crc mismatch"
    )
    assert following == f"next: brokerless check {tmp_path / 'data'} --topic t\n"


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_damaged_last_batch_ends_no_log_that_was_shut_down_cleanly(tmp_path, is_clean):
    """A client at the end was once sent back to the damage, and a client at the damage got no error."""
    damaged_at_its_end(tmp_path / "data", [batch(0, [b"v" * 100], timestamp=NOW)] * 3)
    if not is_clean:
        (tmp_path / "data" / checkpoints.CLEAN_SHUTDOWN).unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with bl.serve(tmp_path / "data") as address:
            ends = error_of(address, 3), read_by_client(address)
    # As on a broker, which cuts the batch off only after a crash.
    error, seen = (0, "CorruptRecordException") if is_clean else (OFFSET_OUT_OF_RANGE, "TimeoutError")
    assert ends == (error, ([0, 1], seen))


def test_a_damaged_batch_of_an_open_transaction_is_sent_to_no_reader_of_committed_rows(tmp_path):
    """The batch cannot be read, but the snapshot of the producers says that its transaction is open."""
    transaction = {"producer_id": 1 << 62, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    batches = [batch(0, [b"v"], timestamp=NOW), batch(0, [b"w" * 100], timestamp=NOW, **transaction)]
    damaged_at_its_end(tmp_path / "data", batches)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with bl.serve(tmp_path / "data") as address:
            assert read_by_client(address) == ([0], "CorruptRecordException")
            assert read_by_client(address, isolation_level="read_committed") == ([0], "TimeoutError")
