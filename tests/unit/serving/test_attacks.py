"""One hostile client stops no other one: each attack costs a bounded amount of memory, and others are answered at once.

Each request has at most 1 MiB. The figures of memory and of waits are logged (`pytest --log-cli-level=info`).
"""

import contextlib
import logging
import resource
import signal
import socket
import struct
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from support.served import (
    API_VERSIONS,
    CAP_MIB,
    METADATA,
    PARTITIONS,
    Process,
    Watch,
    answer,
    request,
    text,
)

pytestmark = pytest.mark.slow

FETCH, LIST_OFFSETS, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN_GROUP = 1, 2, 8, 9, 10, 11
LEAVE_GROUP, DESCRIBE_GROUPS, LIST_GROUPS, OFFSET_FOR_LEADER_EPOCH, CONSUMER_HEARTBEAT = 13, 15, 16, 23, 68
LONG = b"x" * 32_000
IN_TIME = 1.0
"""The longest wait of another client, in seconds, on a machine that has time."""


def send(server, requests, connections=1, waits=True):
    """Send requests on some connections at once, and await the answers. A closed connection is replaced."""

    def run(mine):
        connection = server.connect("127.0.0.9")
        for one in mine:
            try:
                connection.sendall(one)
                if waits:
                    answer(connection)
            except OSError:
                connection.close()
                connection = server.connect("127.0.0.9")
        connection.close()

    requests = list(requests)
    threads = [threading.Thread(target=run, args=(requests[at::connections],)) for at in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def ask(connection):
    """Ask for versions."""
    connection.sendall(request(API_VERSIONS, 0, b""))
    answer(connection)


def fetch(version, name, numbers, session=(0, -1)):
    """Return a fetch of one topic, of version 4 or 7, without a wait."""
    offsets = struct.pack(">qqi", 0, -1, 1) if version >= 7 else struct.pack(">qi", 0, 1)
    partitions = b"".join(struct.pack(">i", number) + offsets for number in numbers)
    head = struct.pack(">iiiib", -1, 0, 0, 1 << 20, 0) + (struct.pack(">ii", *session) if version >= 7 else b"")
    topics = struct.pack(">i", 1) + text(name) + struct.pack(">i", len(numbers)) + partitions
    return request(FETCH, version, head + topics + (struct.pack(">i", 0) if version >= 7 else b""))


def fetches_of_long_names(server):
    send(server, [fetch(4, LONG, range(20_000))] * 24, connections=8)


def sessions_of_long_names(server):
    send(server, [fetch(7, LONG, range(20_000), (0, 0))] * 24, connections=4)
    with server.connect("127.0.0.9") as connection:
        connection.sendall(fetch(7, b"wide", range(10), (0, 0)))
        session = struct.unpack_from(">i", answer(connection), 4 + 4 + 2)[0]
        for epoch in range(1, 8):
            with contextlib.suppress(OSError):
                connection.sendall(fetch(7, LONG, range(20_000 * epoch, 20_000 * (epoch + 1)), (session, epoch)))
                answer(connection)


def sessions_of_many_partitions(server):
    send(server, [fetch(7, b"wide", range(30_000), (0, 0))] * 40, connections=4)


def commit(group, topics, version=2):
    """Return a commit of a client without a generation; `topics`: names with (partition, metadata)."""
    body = text(group) + struct.pack(">ihq", -1, 0, -1) + struct.pack(">i", len(topics))
    for name, partitions in topics:
        body += text(name) + struct.pack(">i", len(partitions))
        body += b"".join(struct.pack(">iq", number, 1) + text(metadata) for number, metadata in partitions)
    return request(OFFSET_COMMIT, version, body)


def commits_without_topics(server):
    send(server, (commit(b"%06d" % at + LONG[:30_000], []) for at in range(2000)), connections=4)
    send(server, (commit(b"%06d" % at, [(b"none", [(0, b"m")])]) for at in range(2000)), connections=4)
    send(server, [request(LIST_GROUPS, 0, b"")] * 8, connections=4)


def commits_of_many_groups(server):
    send(server, (commit(b"%06d" % at, [(b"t", [(0, b"m" * 4000)])]) for at in range(20_000)), connections=4)
    send(server, [request(LIST_GROUPS, 0, b"")] * 8, connections=4)
    groups = b"".join(text(b"%06d" % at) for at in range(20_000))
    send(server, [request(DESCRIBE_GROUPS, 0, struct.pack(">i", 20_000) + groups)] * 8, connections=4)


def commits_that_grow(server):
    """First without metadata, then with as many as a commit may have."""

    def all_of(metadata, count):
        for group in range(30):
            for first in range(0, PARTITIONS, count):
                partitions = [(number, metadata) for number in range(first, first + count)]
                yield commit(b"%d" % group, [(b"wide", partitions)])

    send(server, all_of(b"", PARTITIONS))
    send(server, all_of(b"m" * 4096, 250), connections=4)


def commits_of_one_partition(server):
    """The same partition many times in a commit: afterwards, others still commit."""
    send(server, [commit(b"g", [(b"t", [(0, b"m")] * 50_000)])] * 40, connections=4)
    with server.connect() as connection:
        connection.sendall(commit(b"another", [(b"t", [(0, b"")])]))
        assert answer(connection)[-2:] == b"\0\0"


def offsets_of_a_large_commit(server):
    """Fetches of one commit with metadata, many times in a request."""
    send(server, [commit(b"g", [(b"t", [(0, b"m" * 4096)])])])
    body = text(b"g") + struct.pack(">i", 1) + text(b"t") + struct.pack(">i", 100_000) + bytes(4 * 100_000)
    send(server, [request(OFFSET_FETCH, 1, body)] * 16, connections=8)


def join(group, protocols, client_id=b"c", member=b"", kind=b"c"):
    """Return a request to join a group, version 2."""
    body = text(group) + struct.pack(">ii", 1_800_000, 1_800_000) + text(member) + text(kind)
    body += struct.pack(">i", len(protocols))
    body += b"".join(text(name) + struct.pack(">i", len(metadata)) + metadata for name, metadata in protocols)
    return request(JOIN_GROUP, 2, body, client_id=client_id)


def members_with_long_names(server):
    def joins():
        for at in range(2500):
            yield join(b"%06d" % at, [(LONG, b"")], client_id=LONG, kind=LONG)

    send(server, joins(), connections=8)
    groups = b"".join(text(b"%06d" % at) for at in range(2500))
    send(server, [request(DESCRIBE_GROUPS, 0, struct.pack(">i", 2500) + groups)] * 8, connections=4)
    send(server, [request(LIST_GROUPS, 0, b"")] * 8, connections=4)


def members_with_many_protocols(server):
    """Each knows 80,000 protocols, and only the last one of them all."""
    for member in range(3):
        protocols = [(b"%d%05d" % (member, at), b"") for at in range(78_000)] + [(b"last", b"")]
        with server.connect("127.0.0.9") as connection:
            connection.sendall(join(b"g", protocols))
            time.sleep(0.3)


def members_of_large_groups(server):
    """A thousand members that know as many protocols as they may, in a group, and static ones that leave."""
    protocols = [(b"%02d" % at, b"m") for at in range(64)]
    connections = [server.connect("127.0.0.9") for _ in range(300)]
    for connection in connections:
        connection.sendall(join(b"g", protocols))
    leave = text(b"g") + struct.pack(">i", 60_000) + (text(b"m") + text(b"instance")) * 60_000
    send(server, [request(LEAVE_GROUP, 3, leave)] * 4, connections=2)
    for connection in connections:
        connection.close()


def coordinators_of_many_keys(server):
    keys = 1_000_000
    body = b"\0" + b"\0" + varint(keys + 1) + b"\1" * keys + b"\0"
    # The header of a flexible request ends with tagged fields: none.
    send(server, [request(FIND_COORDINATOR, 4, body)] * 8, connections=8)


def varint(value):
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def refusals_of_long_names(server):
    count = 50_000
    one = text(LONG) + struct.pack(">i", count)
    head = struct.pack(">i", 1)
    numbers = [struct.pack(">i", number) for number in range(count)]
    bodies = [
        (LIST_OFFSETS, 1, struct.pack(">i", -1) + head + one + b"".join(number + bytes(8) for number in numbers)),
        (OFFSET_FOR_LEADER_EPOCH, 2, head + one + b"".join(number + bytes(8) for number in numbers)),
        (OFFSET_FETCH, 1, text(b"g") + head + one + b"".join(numbers)),
    ]
    requests = [request(*body) for body in bodies] + [commit(b"g", [(LONG, [(at, b"") for at in range(count)])])]
    send(server, requests * 4, connections=8)


def groups_of_the_newer_protocol(server):
    """Each member wants all topics, by a pattern or by its name, and gets all partitions."""

    def heartbeats():
        for at in range(4000):
            name = b"%06d" % at
            wants = b"\2" + compact(b"wide") + b"\0" if at % 2 else b"\1" + compact(b"(w|x|y|z){1,40}i?d?e?.*")
            body = compact(name) + compact(name) + struct.pack(">i", 0) + b"\0\0" + struct.pack(">i", 60_000)
            yield request(CONSUMER_HEARTBEAT, 1, b"\0" + body + wants + b"\0" + b"\1" + b"\0")

    send(server, heartbeats(), connections=8)


def compact(value):
    return varint(len(value) + 1) + value


def requests_that_never_end(server):
    """All connections that an address may have, each with as much as a part may take that is not a large one."""
    connections = [server.connect("127.0.0.9") for _ in range(500)]
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.sendall(struct.pack(">i", 1 << 18) + bytes(250_000))
    time.sleep(1)
    for connection in connections:
        connection.close()


ATTACKS = [
    fetches_of_long_names,
    sessions_of_long_names,
    sessions_of_many_partitions,
    commits_without_topics,
    commits_of_many_groups,
    commits_that_grow,
    commits_of_one_partition,
    offsets_of_a_large_commit,
    members_with_long_names,
    members_with_many_protocols,
    members_of_large_groups,
    coordinators_of_many_keys,
    refusals_of_long_names,
    groups_of_the_newer_protocol,
    requests_that_never_end,
]


def calm(watch, seconds=0.5):
    """Return the longest wait without an attack: a machine that runs other tests too is slow."""
    watch.longest()
    time.sleep(seconds)
    return watch.longest()


def assert_harmless(server, watch, rest, before, name):
    """Assert that memory and others' waits are within their limits, and log both."""
    waited, taken = watch.longest(), server.memory("VmHWM") - rest
    text = "%s: %d MiB more, others waited %.3f s at most (%.3f s before)"
    logging.getLogger(__name__).info(text, name, taken, waited, before)
    assert taken < CAP_MIB
    assert waited < IN_TIME + 5 * before
    assert server.process.poll() is None


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__.replace("_", " "))
def test_an_attack_costs_little_memory_and_keeps_nobody_waiting(data, attack):
    with Process(data) as server, Watch(server) as watch:
        send(server, [request(METADATA, 1, struct.pack(">i", -1))])
        before, rest = calm(watch), server.memory()
        attack(server)
        assert_harmless(server, watch, rest, before, attack.__name__)


def test_a_large_file_of_commits_keeps_nobody_waiting(data, tmp_path):
    """Commits are added to it: it is not written as a whole for each of them."""
    commits = tmp_path / "commits"
    # Tabs, of which each is two letters there.
    metadata = "\\t" * 4096
    lines = (f"g\twide\t{at}\t1\t-1\t{metadata}\n" for at in range(PARTITIONS))
    commits.write_text("".join(lines))
    with Process(data, "--commits", commits) as server, Watch(server) as watch, server.connect() as connection:
        connection.sendall(commit(b"g", [(b"t", [(0, b"")])]))
        assert answer(connection)[-2:] == b"\0\0"
        before, rest, longest = calm(watch), server.memory(), 0
        attack = threading.Thread(
            target=lambda: send(
                server,
                [commit(b"h%d" % at, [(b"wide", [(at, b"m" * 100)])]) for at in range(2000)],
                connections=6,
            )
        )
        attack.start()
        while attack.is_alive():
            begun = time.monotonic()
            connection.sendall(commit(b"g", [(b"t", [(0, b"m")])]))
            assert answer(connection)[-2:] == b"\0\0"
            longest = max(longest, time.monotonic() - begun)
        logging.getLogger(__name__).info("another one's commits waited %.3f s at most", longest)
        assert_harmless(server, watch, rest, before, "a large file of commits")
        assert longest < IN_TIME + 5 * before
        size = commits.stat().st_size
    assert size > 24_000_000


@pytest.mark.parametrize("arguments", [[], ["--users", "users"]], ids=["nobody is asked", "passwords"])
def test_silent_connections_lock_nobody_out(data, tmp_path, arguments):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    (tmp_path / "users").write_text("ann:secret\n")
    arguments = [tmp_path / "users" if one == "users" else one for one in arguments]
    silent = []
    try:
        with Process(data, *arguments) as server:
            rest = server.memory()
            # Those of one address take the places of each other, and those of several ones all places.
            silent.extend(server.connect(f"127.0.0.{2 + at // 400}") for at in range(2000))
            for source in ("127.0.0.1", "127.0.0.2"):
                begun = time.monotonic()
                with server.connect(source) as connection:
                    ask(connection)
                assert time.monotonic() - begun < IN_TIME
            assert server.memory("VmHWM") - rest < CAP_MIB
    finally:
        for connection in silent:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_client_that_asks_nothing_is_out_after_ten_seconds(data, tmp_path):
    """Where it has to log in, it is not enough to ask for versions."""
    (tmp_path / "users").write_text("ann:secret\n")
    with Process(data) as server, Process(data, "--users", tmp_path / "users") as with_users:
        begun = time.monotonic()
        silent, asks = server.connect(), with_users.connect()
        kept = server.connect()
        for connection in (asks, kept):
            ask(connection)
        for connection in (silent, asks):
            assert connection.recv(1) == b""
            assert 5 < time.monotonic() - begun < 15
        ask(kept)


def test_what_is_above_a_limit_of_a_broker_or_of_the_server_gets_its_error(data):
    """The connection stays: docs/serving.md names these errors."""
    invalid_group_id, inconsistent_protocol, metadata_too_large = 24, 23, 12

    def error(at, found):
        return struct.unpack_from(">h", found, at)[0]

    protocols = [(b"%d" % at, b"") for at in range(65)]
    with Process(data) as server, server.connect() as connection:
        for sent, place, code in (
            (join(b"g" * 1025, protocols[:1]), 8, invalid_group_id),
            (join(b"g", protocols), 8, inconsistent_protocol),
            (commit(b"g" * 1025, [(b"t", [(0, b"")])]), -2, invalid_group_id),
            (commit(b"g" * 1024, [(b"t", [(0, b"")])]), -2, 0),
            (commit(b"g", [(b"t", [(0, b"m" * 4097)])]), -2, metadata_too_large),
            # A broker counts letters, not bytes.
            (commit(b"g", [(b"t", [(0, "é".encode() * 4096)])]), -2, 0),
        ):
            connection.sendall(sent)
            found = answer(connection)
            assert error(place % len(found), found) == code


def test_connections_that_wait_to_be_accepted_are_not_dropped(data):
    """A dropped one is asked for again after a second, of whomever it is."""
    with Process(data) as server, contextlib.ExitStack() as open_ones:
        server.process.send_signal(signal.SIGSTOP)
        try:
            begun = time.monotonic()
            for _ in range(400):
                open_ones.enter_context(server.connect("127.0.0.9"))
            assert time.monotonic() - begun < IN_TIME
        finally:
            server.process.send_signal(signal.SIGCONT)


def test_an_address_has_a_limit_of_connections(data):
    with Process(data, "--max-connections-per-address", 3) as server:
        held = [server.connect() for _ in range(3)]
        for connection in held:
            ask(connection)
        with server.connect() as further, pytest.raises(OSError):
            ask(further)
        with server.connect("127.0.0.2") as other:
            ask(other)
        for connection in held:
            connection.close()


def test_counters_are_shown_though_clients_of_http_are_silent_or_endless(data):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        at = ("127.0.0.1", probe.getsockname()[1])
    with Process(data, "--metrics", f"{at[0]}:{at[1]}") as server:
        rest = server.memory()
        silent = [socket.create_connection(at, timeout=20) for _ in range(200)]
        time.sleep(1)
        threads = len(list((Path("/proc") / str(server.process.pid) / "task").iterdir()))
        assert threads < 100
        with contextlib.suppress(OSError):
            silent[0].sendall(b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 1_000_000)
        for connection in silent:
            with contextlib.suppress(OSError):
                while connection.recv(1 << 16):
                    pass
        with urllib.request.urlopen(f"http://{at[0]}:{at[1]}/metrics", timeout=10) as found:
            assert b"brokerless_connections_total" in found.read()
        assert server.memory("VmHWM") - rest < CAP_MIB
        for connection in silent:
            connection.close()
