"""Bytes that are no requests close their connection, and nothing else."""

import random
import socket
import struct

import pytest

import brokerless as bl
from support.log_files import NOW, batch

API_VERSIONS, METADATA, FETCH = 18, 3, 1


@pytest.fixture
def address(tmp_path):
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t")
        log_dir.log("t", 0).append(batch(0, [b"v"], timestamp=NOW))
    with bl.serve(tmp_path / "data", max_connections_per_address=1000) as address:
        host, _, port = address.rpartition(":")
        yield host, int(port)


def request(api, version, body, correlation=7):
    header = struct.pack(">hhih", api, version, correlation, -1)
    return struct.pack(">i", len(header) + len(body)) + header + body


def answer(connection):
    head = b""
    while len(head) < 4:
        piece = connection.recv(4 - len(head))
        if not piece:
            return None
        head += piece
    (length,) = struct.unpack(">i", head)
    found = b""
    while len(found) < length:
        piece = connection.recv(length - len(found))
        if not piece:
            return None
        found += piece
    return found


def is_served(address):
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(request(API_VERSIONS, 0, b""))
        return answer(connection)[:6] == struct.pack(">ih", 7, 0)


def is_closed(address, content):
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(content)
        try:
            return answer(connection) is None
        except ConnectionResetError:
            return True


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(struct.pack(">i", (1 << 31) - 1) + bytes(100), id="a length of 2 GiB"),
        pytest.param(struct.pack(">i", -1), id="a negative length"),
        pytest.param(struct.pack(">i", 3) + b"abc", id="a request without a header"),
        pytest.param(request(999, 0, b""), id="an unknown request"),
        pytest.param(request(FETCH, 99, b""), id="an unknown version"),
        pytest.param(request(METADATA, 1, struct.pack(">i", (1 << 31) - 1)), id="two billion topics"),
        pytest.param(request(METADATA, 9, b"\0" + b"\xff\xff\xff\xff\x0f"), id="four billion topics"),
        pytest.param(request(METADATA, 1, struct.pack(">ih", 1, 100) + b"t"), id="a name behind the end"),
        pytest.param(request(FETCH, 4, b"\0\0"), id="half of a fetch"),
    ],
)
def test_what_is_no_request_closes_its_connection(address, content):
    assert is_closed(address, content)
    assert is_served(address)


def test_a_version_that_is_too_new_gets_those_that_are_known(address):
    """So that a newer client asks again (KIP-511)."""
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(request(API_VERSIONS, 99, b""))
        correlation, error, count, key, first, last = struct.unpack(">ihihhh", answer(connection))
        assert (correlation, error, count, key) == (7, 35, 1, API_VERSIONS)
        assert first == 0
        assert last >= 4


@pytest.mark.slow
def test_random_bytes_close_their_connection_or_wait_for_more(address):
    chosen = random.Random(1)
    connections = []
    for _ in range(200):
        connection = socket.create_connection(address, timeout=10)
        connection.sendall(struct.pack(">i", chosen.randrange(200)) + chosen.randbytes(chosen.randrange(1, 200)))
        connections.append(connection)
    assert is_served(address)
    for connection in connections:
        connection.close()
    assert is_served(address)


def test_clients_that_send_half_a_request_do_not_keep_others_waiting(address):
    halves = [socket.create_connection(address, timeout=10) for _ in range(500)]
    for connection in halves:
        connection.sendall(request(METADATA, 1, struct.pack(">i", 0))[:-2])
    assert is_served(address)
    for connection in halves:
        connection.sendall(request(METADATA, 1, struct.pack(">i", 0))[-2:])
    assert all(answer(connection) is not None for connection in halves)
    for connection in halves:
        connection.close()
