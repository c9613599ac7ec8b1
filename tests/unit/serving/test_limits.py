"""A thousand clients that mean harm cost a bounded amount of memory, and keep no other client waiting."""

import hashlib
import os
import random
import signal
import struct
import time

import pytest

from support.served import API_VERSIONS, CAP_MIB, METADATA, PARTITIONS, Process, answer, request

pytestmark = pytest.mark.slow

FETCH, OFFSET_COMMIT, JOIN_GROUP, DESCRIBE_CONFIGS = 1, 8, 11, 32
# A machine that runs other tests beside this one is slow; a client that is kept waiting waits for a minute and more.
IN_TIME = 15


def answers_within(server, seconds):
    """Whether a well-behaved client gets an answer in time."""
    begun = time.monotonic()
    with server.connect() as connection:
        connection.sendall(request(METADATA, 1, struct.pack(">ih", 1, 1) + b"t"))
        answer(connection)
    return time.monotonic() - begun < seconds


def metadata_of_all():
    return request(METADATA, 1, struct.pack(">i", -1))


def fetch(partition_count, max_wait):
    """Return a fetch of one topic with many partitions, that waits."""
    partitions = b"".join(struct.pack(">iqi", number, 0, 1 << 20) for number in range(partition_count))
    body = struct.pack(">iiiib", -1, max_wait, 1 << 30, 1 << 30, 0) + struct.pack(">i", 1)
    return request(FETCH, 4, body + struct.pack(">h", 4) + b"wide" + struct.pack(">i", partition_count) + partitions)


ATTACKS = {
    "garbage": lambda at: random.Random(at).randbytes(200),
    "half a request": lambda _: metadata_of_all()[:-2],
    "a length of 2 GiB": lambda _: struct.pack(">i", (1 << 31) - 1) + bytes(1000),
    "most of a large request": lambda _: struct.pack(">i", 1 << 20) + bytes((1 << 20) - 1),
    "answers that nobody reads": lambda _: metadata_of_all() * 20,
    "fetches that wait long": lambda _: fetch(PARTITIONS, 600_000),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_thousand_clients_that_mean_harm(data, name):
    with Process(data, "--max-connections-per-address", 2000) as server:
        assert answers_within(server, 20)
        rest = server.memory()
        connections = []
        for at in range(1000):
            connection = server.connect()
            connections.append(connection)
            connection.settimeout(0.5)
            try:
                connection.sendall(ATTACKS[name](at))
            except (OSError, TimeoutError):
                continue
        assert answers_within(server, IN_TIME)
        time.sleep(1)
        assert answers_within(server, IN_TIME)
        assert server.memory("VmHWM") - rest < CAP_MIB
        for connection in connections:
            connection.close()
        assert answers_within(server, IN_TIME)
        assert server.process.poll() is None


def join(group, metadata):
    """Return a request to join a group, version 2."""
    text = struct.pack(">h", len(group)) + group + struct.pack(">iih", 1_800_000, 1_800_000, 0)
    protocol = struct.pack(">ih", 1, 1) + b"p" + struct.pack(">i", len(metadata)) + metadata
    return request(JOIN_GROUP, 2, text + struct.pack(">h", 1) + b"c" + protocol)


def session(session_id, epoch, numbers):
    """Return a fetch of a session, version 7, of some partitions."""
    partitions = b"".join(struct.pack(">iqqi", number, 0, -1, 1) for number in numbers)
    body = struct.pack(">iiiibii", -1, 0, 0, 1, 0, session_id, epoch) + struct.pack(">ih", 1, 4) + b"wide"
    return request(FETCH, 7, body + struct.pack(">i", len(numbers)) + partitions + struct.pack(">i", 0))


def settings(count):
    """Return a request for the settings of one topic, so many times, version 1."""
    resource = struct.pack(">bh", 2, 1) + b"t" + struct.pack(">i", -1)
    return request(DESCRIBE_CONFIGS, 1, struct.pack(">i", count) + resource * count + b"\1")


def commits(number):
    """Return commits of a group with all the metadata that a commit may have, version 2."""
    partition = struct.pack(">iqh", 0, 1, 4096) + b"m" * 4096
    text = b"g%06d" % number
    body = struct.pack(">h", len(text)) + text + struct.pack(">ihqi", -1, 0, -1, 1) + struct.pack(">h", 1) + b"t"
    return request(OFFSET_COMMIT, 2, body + struct.pack(">i", 1) + partition)


@pytest.mark.parametrize("kind", ["members", "sessions", "settings", "commits"])
def test_what_clients_leave_behind_or_ask_for_is_bounded(data, kind):
    with Process(data) as server:
        assert answers_within(server, 20)
        rest = server.memory()
        for at in range(300 if kind != "commits" else 20):
            with server.connect() as connection:
                connection.settimeout(20)
                try:
                    if kind == "members":
                        connection.sendall(join(b"g%06d" % at, bytes(1_000_000)))
                        # It waits until it gets an answer, or is refused.
                        answer(connection)
                    elif kind == "settings":
                        connection.sendall(settings(100_000))
                        answer(connection)
                    elif kind == "commits":
                        for number in range(1000):
                            connection.sendall(commits(1000 * at + number))
                            answer(connection)
                    else:
                        connection.sendall(session(0, 0, range(30_000)))
                        session_id = struct.unpack_from(">i", answer(connection), 4 + 4 + 2)[0]
                        for epoch in range(1, 3):
                            connection.sendall(session(session_id, epoch, range(30_000 * epoch, 30_000 * (epoch + 1))))
                            answer(connection)
                except OSError:
                    continue
            if kind in ("settings", "sessions") and at >= 12:
                break
        assert server.memory("VmHWM") - rest < CAP_MIB
        assert answers_within(server, IN_TIME)


def test_connections_above_the_limit_are_closed_and_the_others_served(data):
    with Process(data, "--max-connections", 10) as server:
        held = [server.connect() for _ in range(10)]
        # One that has asked nothing would give its place up.
        assert all(answer_of(connection) for connection in held)
        with server.connect() as further, pytest.raises(OSError):
            answer_of(further)
        assert all(answer_of(connection) for connection in held)
        for connection in held:
            connection.close()


def answer_of(connection):
    connection.sendall(request(API_VERSIONS, 0, b""))
    return answer(connection)


def content(path):
    """Return a digest of all that is in a directory."""
    found = hashlib.sha256()
    for file in sorted(path.rglob("*")):
        status = file.lstat()
        found.update(f"{file}{status.st_size}{status.st_mtime_ns}".encode())
        if file.is_file():
            found.update(file.read_bytes())
    return found.hexdigest()


def commit(offset):
    """Return a commit of a client that assigns partitions itself, version 2."""
    text = struct.pack(">h", 1) + b"g" + struct.pack(">ih", -1, 0) + struct.pack(">qi", -1, 1)
    return request(OFFSET_COMMIT, 2, text + struct.pack(">h", 1) + b"t" + struct.pack(">iiqh", 1, 0, offset, 0))


def test_a_killed_server_leaves_the_directory_as_it_was_and_whole_commits(data, tmp_path):
    commits, before = tmp_path / "commits", content(data)
    chosen, last = random.Random(1), 0
    for _ in range(8):
        with Process(data, "--commits", commits) as server, server.connect() as connection:
            until = time.monotonic() + chosen.uniform(0, 0.2)
            while time.monotonic() < until:
                connection.sendall(commit(last + 1))
                assert answer(connection)[-2:] == b"\0\0"
                last += 1
            connection.sendall(commit(last + 1))
            os.kill(server.process.pid, signal.SIGKILL)
        fields = commits.read_text().splitlines()[-1].split("\t") if last else []
        if last:
            assert fields[:3] == ["g", "t", "0"]
            assert int(fields[3]) in (last, last + 1)
            last = int(fields[3])
    assert last > 0
    assert content(data) == before
