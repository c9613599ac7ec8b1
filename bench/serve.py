"""`brokerless serve` against a Kafka broker on a copy of the same directory: Java's consumer and librdkafka's.

The logs are in the page cache, all processes on this machine, both servers read in alternation by the same clients. The
clients run before a server starts and ask it again each 10 ms, so a start is measured from the server's process to the
first record, and no client's start counts. What a server takes of the processor is the time of its whole process, of
each read alone.

Usage: serve.py [MEGABYTES [ROUNDS [SEGMENTS [PARTITIONS]]]]: 1000, 5, 100000 and 10000.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil
import pyarrow as pa
from rivals import DATA, HERE, classpath

import brokerless as bl

sys.path.insert(0, str(HERE.parent / "tests" / "conformance"))
import kafka

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPIC, PARTITIONS, RECORD_BYTES = "orders", 4, 1000
CLIENTS = 100
RECORDS_A_SEGMENT, SEGMENTS_EACH = 4, 10
# A broker takes seconds to start, and its compiler some gigabytes to be done.
STARTS, WARM_UP = 3, 2
START_BAR, MANY_SEGMENTS_BAR, MEGABYTES_BAR = 0.3, 1.0, 150.0
THROUGHPUT_BAR, CPU_BAR = 1.0, 0.5
# `brokers` replaces the one of the module, so that clients know the port of a broker before it starts.
free_ports = kafka.free_ports
_TICKS = os.sysconf("SC_CLK_TCK")


class Served(NamedTuple):
    """A running server."""

    address: str
    pid: int
    started: float

    def cpu_seconds(self) -> float:
        """Return what its process has taken of the processor."""
        return sum(self.seconds())

    def seconds(self) -> tuple[float, float]:
        """Return what its process has taken of the processor: its own code, and the kernel for it."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) / _TICKS, int(fields[12]) / _TICKS

    def megabytes(self) -> float:
        """Return the most memory that it has had."""
        return int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text())[1]) / 1024


class Read(NamedTuple):
    """What clients took, and the server meanwhile."""

    first: float
    bytes: int
    seconds: list[float]
    cpu_seconds: float
    kernel_seconds: float


class Clients:
    """A process with clients that are ready to read."""

    def __init__(self, *command: str) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, address: str, topic: str, partitions: int, records: int, clients: int = 1) -> None:
        """Begin to read all partitions, with each client."""
        self._process.stdin.write(f"{address} {topic} {partitions} {clients} {records}\n")
        self._process.stdin.flush()

    def answer(self) -> tuple[float, int, list[float]]:
        """Wait until all have read; return the time of the first record, the bytes, and the seconds of each client."""
        first, size, *seconds = self._process.stdout.readline().split()
        return float(first), int(size), [float(taken) for taken in seconds]

    def read(self, server: Served, topic: str, partitions: int, records: int, clients: int = 1) -> Read:
        """Read from a running server."""
        own, kernel = server.seconds()
        self.ask(server.address, topic, partitions, records, clients)
        first, size, seconds = self.answer()
        later, kernel_later = server.seconds()
        return Read(first, size, seconds, later + kernel_later - own - kernel, kernel_later - kernel)

    def kill(self) -> None:
        """End the process, whatever it reads."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End the process."""
        self._process.communicate("")


@contextmanager
def ours(path: Path, port: int | None = None) -> Iterator[Served]:
    """Serve a directory with the command, at a free port unless one is given."""
    address = f"127.0.0.1:{port or free_ports(1)[0]}"
    command = (str(Path(sys.executable).with_name("brokerless")), "serve", str(path), "--listen", address)
    started = time.time()
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        yield Served(address, process.pid, started)
    finally:
        process.terminate()
        process.wait()


@contextmanager
def brokers(path: Path, log: Path, ports: list[int]) -> Iterator[Served]:
    """Serve a directory with a broker, whose listener is at the first port."""
    kafka.free_ports = lambda _: ports
    started: list[float] = []
    indexes = {"log_index_size_max_bytes": bl.TopicConfig().segment_index_bytes}
    with kafka.Broker(path, log=log, formatted=lambda: started.append(time.time()), **indexes) as broker:
        properties = str(log.with_suffix(".properties"))
        (pid,) = [child.pid for child in psutil.Process().children() if properties in child.cmdline()]
        yield Served(broker.at, pid, started[0])


def clients(*names: str) -> dict[str, Clients]:
    """Start the clients of these names."""
    log4j = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    commands = {
        "Java": ("java", "-Xmx3g", log4j, "-cp", classpath(), "Consumers"),
        "librdkafka": (sys.executable, str(HERE / "confluent.py")),
    }
    return {name: Clients(*command) for name, command in commands.items() if name in names}


def first_record(name: str, bar: float, seconds: list[float], note: str = "") -> bool:
    """Print how long a server took from its start to the first record."""
    median = statistics.median(seconds)
    is_good = median <= bar
    print(f"serve: {name}: {1000 * median:.0f} ms (bar {1000 * bar:.0f} ms){note}{_below(is_good)}", flush=True)
    return is_good


def starts(
    consumers: dict[str, Clients], path: Path, topic: str, partitions: int, rounds: int
) -> dict[str, list[float]]:
    """Start the command anew for each client and round; return the seconds from its process to the first record."""
    taken: dict[str, list[float]] = {name: [] for name in consumers}
    for _ in range(rounds):
        for name, client in consumers.items():
            (port,) = free_ports(1)
            client.ask(f"127.0.0.1:{port}", topic, partitions, 1)
            time.sleep(0.5)
            with ours(path, port) as server:
                first, *_ = client.answer()
                taken[name].append(first - server.started)
    return taken


def running_start(client: Clients, server: Served, rounds: int) -> float:
    """Return how long a new consumer needs to its first record when the server runs, in seconds."""
    taken = []
    for _ in range(rounds + 1):
        start = time.time()
        client.ask(server.address, TOPIC, PARTITIONS, 1)
        taken.append(client.answer()[0] - start)
    return statistics.median(taken[1:])


def broker_starts(client: Clients, path: Path, scratch: Path) -> list[float]:
    """Start a broker anew; return the seconds from its process to the first record."""
    taken = []
    for _ in range(STARTS):
        ports = free_ports(2)
        client.ask(f"127.0.0.1:{ports[0]}", TOPIC, PARTITIONS, 1)
        with brokers(path, scratch / "broker.log", ports) as server:
            first, *_ = client.answer()
            taken.append(first - server.started)
    return taken


def interpreter(rounds: int) -> float:
    """Return what the command takes to say its help: the interpreter's start, and that of the command line."""
    command = (str(Path(sys.executable).with_name("brokerless")), "serve", "--help")
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def against(
    name: str, client: Clients, servers: tuple[Served, Served], records: int, rounds: int, count: int = 1
) -> list[bool]:
    """Read all from both servers in turn, and compare throughput and processor time."""
    runs: tuple[list[Read], list[Read]] = ([], [])
    for number in range(WARM_UP + rounds):
        for of, server in zip(runs, servers, strict=True):
            found = client.read(server, TOPIC, PARTITIONS, records, count)
            if number >= WARM_UP:
                of.append(found)
    mine, theirs = runs

    def ratio(of_ours: list[float], of_theirs: list[float]) -> float:
        return statistics.median(b / o for o, b in zip(of_ours, of_theirs, strict=True))

    faster = ratio([max(run.seconds) for run in mine], [max(run.seconds) for run in theirs])
    cheaper = 1 / ratio([run.cpu_seconds for run in mine], [run.cpu_seconds for run in theirs])
    rate = statistics.median(run.bytes / max(run.seconds) / 1e6 for run in mine)
    cpu = [statistics.median(1e9 * run.cpu_seconds / run.bytes for run in of) for of in runs]
    # The same bytes leave through the kernel for both servers.
    kernel = [statistics.median(1e9 * run.kernel_seconds / run.bytes for run in of) for of in runs]
    fair = [statistics.median(min(run.seconds) / max(run.seconds) for run in of) for of in runs]
    print(
        f"serve: {name}: {rate:.0f} MB/s, {faster:.2f}x the broker (bar {THROUGHPUT_BAR}x)"
        f"{f'; first client done at {fair[0]:.0%} of the last, of the broker {fair[1]:.0%}' if count > 1 else ''}"
        f"{_below(faster >= THROUGHPUT_BAR)}",
        flush=True,
    )
    print(
        f"serve: {name}: CPU {cpu[0]:.3f} s a GB ({kernel[0]:.3f} s in the kernel), "
        f"broker {cpu[1]:.3f} s ({kernel[1]:.3f} s): {cheaper:.0%} (bar {CPU_BAR:.0%})"
        f"{_below(cheaper <= CPU_BAR)}",
        flush=True,
    )
    return [faster >= THROUGHPUT_BAR, cheaper <= CPU_BAR]


def metadata_seconds(address: str) -> float:
    """Return how long the metadata of all topics take, from a connection on which a request was answered before."""
    host, _, port = address.rpartition(":")
    # Metadata, version 1, of all topics.
    request = struct.pack(">ihhihi", 14, 3, 1, 0, -1, -1)
    taken = 0.0
    with connected(host, int(port)) as connection, connection.makefile("rb") as answers:
        for _ in range(2):
            start = time.perf_counter()
            connection.sendall(request)
            answers.read(struct.unpack(">i", answers.read(4))[0])
            taken = time.perf_counter() - start
    return taken


def connected(host: str, port: int) -> socket.socket:
    """Connect to a server that is starting."""
    for _ in range(1000):
        try:
            return socket.create_connection((host, port))
        except ConnectionRefusedError:
            time.sleep(0.01)
    raise TimeoutError(f"nobody listens on {host}:{port}")


def all_partitions(name: str, path: Path, partitions: int) -> float:
    """Have a consumer read all of many partitions, and wait for more; return the most memory of the server."""
    client, records = clients(name)[name], RECORDS_A_SEGMENT * SEGMENTS_EACH * partitions
    with ours(path) as server:
        waited = metadata_seconds(server.address)
        runs = [client.read(server, "t", partitions, records) for _ in range(2)]
        # The last record never comes.
        client.ask(server.address, "t", partitions, records + 1)
        time.sleep(5 + 2 * runs[1].seconds[0])
        before = server.cpu_seconds()
        time.sleep(5)
        rest = (server.cpu_seconds() - before) / 5
        client.kill()
        print(
            f"serve: {partitions} partitions: metadata in {1000 * waited:.0f} ms; a consumer of {name} reads all "
            f"{records} records in {runs[0].seconds[0]:.1f} s, again in {runs[1].seconds[0]:.1f} s, and waits at "
            f"{rest:.0%} of a core",
            flush=True,
        )
        return server.megabytes()


def written(megabytes: int) -> tuple[Path, int]:
    """Return a log directory of this size, written once, and the number of its records."""
    path, records = DATA / f"serve-{megabytes}", megabytes * 1000
    if not path.exists():
        made = path.with_suffix(".part")
        shutil.rmtree(made, ignore_errors=True)
        made.parent.mkdir(parents=True, exist_ok=True)
        with bl.create_log_dir(made) as directory:
            directory.create_topic(TOPIC, PARTITIONS)
        generator = random.Random(0)  # noqa: S311 - the same data in each run
        values = [generator.randbytes(RECORD_BYTES) for _ in range(1000)]
        rows = pa.table({"value": values, "partition": pa.array([i % PARTITIONS for i in range(1000)], pa.int32())})
        with bl.Producer(made, TOPIC, idempotent=True) as producer:
            for _ in range(megabytes):
                producer.send(rows)
        made.rename(path)
    return path, records


def many_segments(partitions: int, segments: int) -> Path:
    """Return a log directory with so many segments in each partition, once: with all files of a broker."""
    path = DATA / f"serve-many-{partitions}-{segments}"
    if path.exists():
        return path
    made = path.with_suffix(".part")
    shutil.rmtree(made, ignore_errors=True)
    made.parent.mkdir(parents=True, exist_ok=True)
    with bl.create_log_dir(made) as directory:
        directory.create_topic("t", partitions)
    with bl.Producer(made, "t") as producer:
        producer.send([{"value": b"brokerless" * 90, "partition": 0}] * RECORDS_A_SEGMENT)
    first = made / "t-0"
    batch, time_index = ((first / f"{0:020}.{kind}").read_bytes() for kind in ("log", "timeindex"))
    snapshot = (first / f"{RECORDS_A_SEGMENT:020}.snapshot").read_bytes()
    epochs = (first / "leader-epoch-checkpoint").read_bytes()
    for number in range(partitions):
        log = made / f"t-{number}"
        for offset in range(0, segments * RECORDS_A_SEGMENT, RECORDS_A_SEGMENT):
            # The base offset lies outside the checksum.
            (log / f"{offset:020}.log").write_bytes(offset.to_bytes(8, "big") + batch[8:])
            (log / f"{offset:020}.index").touch()
            (log / f"{offset:020}.timeindex").write_bytes(time_index)
            (log / f"{offset + RECORDS_A_SEGMENT:020}.snapshot").write_bytes(snapshot)
        (log / "leader-epoch-checkpoint").write_bytes(epochs)
    ends = "".join(f"t {number} {segments * RECORDS_A_SEGMENT}\n" for number in range(partitions))
    for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
        (made / name).write_text(f"0\n{partitions}\n{ends}")
    made.rename(path)
    return path


def _link_or_copy(source: str, to: str) -> None:
    """A segment that nobody appends to is the same file; everything else is a copy."""
    if source.endswith(".log"):
        Path(to).hardlink_to(source)
    else:
        shutil.copyfile(source, to)


def _below(good: bool) -> str:
    return "" if good else "   BELOW"


def main(megabytes: int = 1000, rounds: int = 5, segments: int = 100_000, partitions: int = 10_000) -> bool:
    """Measure, print, and return whether all bars are met."""
    kafka.JAVA, kafka.HAS_ARCHIVES = ("java", "-Xmx1g"), False
    logs, records = written(megabytes)
    small, few = written(max(1, megabytes // 100))
    one, many = (many_segments(*shape) for shape in ((1, segments), (partitions, SEGMENTS_EACH)))
    consumers = clients("Java", "librdkafka")
    memory: dict[str, float] = {}
    good = []
    with tempfile.TemporaryDirectory(dir=DATA) as scratch:
        copies = {}
        for path in (logs, small):
            copies[path] = Path(scratch) / path.name
            shutil.copytree(path, copies[path], copy_function=_link_or_copy)
        # What the clients' compilers do once does not count.
        starts(consumers, small, TOPIC, PARTITIONS, 2)
        taken = starts(consumers, logs, TOPIC, PARTITIONS, rounds)
        theirs = broker_starts(consumers["Java"], copies[logs], Path(scratch))
        help_ms = 1000 * interpreter(rounds)
        with ours(logs) as server:
            running = {name: running_start(client, server, rounds) for name, client in consumers.items()}
        for name, seconds in taken.items():
            note = (
                f"; `serve --help` {help_ms:.0f} ms, the client at a server that runs {1000 * running[name]:.0f} ms; "
                f"a broker {statistics.median(theirs):.1f} s"
            )
            good.append(first_record(f"start to the first record of {name}", START_BAR, seconds, note))
        for name, seconds in starts(consumers, one, "t", 1, rounds).items():
            what = f"start to the first record of {name}, {segments} segments"
            good.append(first_record(what, MANY_SEGMENTS_BAR, seconds))
        with ours(logs) as mine, brokers(copies[logs], Path(scratch) / "broker.log", free_ports(2)) as broker:
            for name, client in consumers.items():
                good += against(name, client, (mine, broker), records, rounds)
            memory["one client"] = mine.megabytes()
        with ours(small) as mine, brokers(copies[small], Path(scratch) / "broker.log", free_ports(2)) as broker:
            for name, client in consumers.items():
                good += against(f"{CLIENTS} clients of {name}", client, (mine, broker), few, rounds, CLIENTS)
            memory[f"{CLIENTS} clients"] = mine.megabytes()
        with ours(one) as mine:
            consumers["Java"].read(mine, "t", 1, RECORDS_A_SEGMENT * segments)
            memory[f"{segments} segments"] = mine.megabytes()
    for name in consumers:
        memory[f"{partitions} partitions, {name}"] = all_partitions(name, many, partitions)
    for what, size in memory.items():
        is_good = size <= MEGABYTES_BAR
        good.append(is_good)
        print(f"serve: memory, {what}: {size:.0f} MB (bar {MEGABYTES_BAR:.0f}){_below(is_good)}", flush=True)
    for client in consumers.values():
        client.close()
    return all(good)


if __name__ == "__main__":
    sys.exit(0 if main(*map(int, sys.argv[1:])) else 1)
