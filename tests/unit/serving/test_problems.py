"""A client learns only that the server failed. A warning names the damage to the user."""

import os
import socket
import struct

import brokerless as bl
from support.log_files import NOW, batch

CORRUPT_MESSAGE = 2


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
    assert told.startswith("t-0: ")
    assert "99" in told


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
    (told,) = [record.getMessage() for record in caplog.records if record.name == "brokerless.serve"]
    assert told.startswith(f"t-0: {first.name} was cut while it was served: it has ")
