"""`brokerless serve` as a process, requests to it in bytes, and a client that measures how long it waits."""

import re
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

API_VERSIONS, METADATA = 18, 3
PARTITIONS = 3000
"""Of topic `wide` in the directory that is served."""
CAP_MIB = 256
"""The most memory above that of a server at rest, as docs/serving.md states it, in MiB."""


class Process:
    """`brokerless serve` as a process."""

    def __init__(self, *arguments):
        command = [sys.executable, "-m", "brokerless", "serve", *map(str, arguments), "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        self.address = ("127.0.0.1", int(re.search(r":(\d+)$", line.strip())[1]))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()

    def memory(self, field="VmRSS"):
        """Return its memory in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"{field}:\s+(\d+) kB", status)[1]) // 1024

    def connect(self, source="127.0.0.1"):
        return socket.create_connection(self.address, timeout=20, source_address=(source, 0))


def request(api, version, body, correlation=7, client_id=None):
    """Return a request with its length, with the first version of headers that has a client id."""
    name = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    header = struct.pack(">hhi", api, version, correlation) + name
    return struct.pack(">i", len(header) + len(body)) + header + body


def exactly(connection, count):
    found = bytearray()
    while len(found) < count:
        piece = connection.recv(min(count - len(found), 1 << 20))
        if not piece:
            raise ConnectionError("closed")
        found += piece
    return bytes(found)


def answer(connection):
    (length,) = struct.unpack(">i", exactly(connection, 4))
    return exactly(connection, length)


def text(value):
    return struct.pack(">h", len(value)) + value


class Watch:
    """Another client, which asks all the time, on one connection and on new ones. It is a process of its own."""

    def __init__(self, server, topic="t"):
        command = [sys.executable, __file__, str(server.address[1]), topic]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "asks\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def longest(self):
        """Return the longest wait since the last call, in seconds."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def _watch(port, topic):
    import select

    question = request(METADATA, 1, struct.pack(">i", 1) + text(topic.encode()))
    kept = socket.create_connection(("127.0.0.1", port), timeout=60)
    longest, turn = 0.0, 0
    sys.stdout.write("asks\n")
    sys.stdout.flush()
    while True:
        turn += 1
        begun = time.monotonic()
        try:
            if turn % 2:
                kept.sendall(question)
                answer(kept)
            else:
                with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
                    connection.sendall(question)
                    answer(connection)
            waited = time.monotonic() - begun
        except OSError:
            waited = 999.0
        longest = max(longest, waited)
        if select.select([sys.stdin], [], [], 0.01)[0]:
            if not sys.stdin.readline():
                return
            sys.stdout.write(f"{longest}\n")
            sys.stdout.flush()
            longest = 0.0


if __name__ == "__main__":
    _watch(int(sys.argv[1]), sys.argv[2])
