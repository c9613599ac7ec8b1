"""Real Kafka on loopback: brokers that start and stop on a directory, its clients and its dump tool.

`make conformance` fetches it from Maven Central into `build/conformance`, and compiles `java/`.
"""

import base64
import json
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

BUILD = Path(__file__).parents[2] / "build" / "conformance"
JAVA = ("java", "-Xmx700m", "-XX:TieredStopAtLevel=1")
SAY_ALL = "-Dorg.slf4j.simpleLogger.defaultLogLevel=info"
SAY_LITTLE = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
START_SECONDS = STOP_SECONDS = 90


def class_path(version):
    return f"{BUILD / version / 'classes'}:{BUILD / version / 'lib'}/*"


def free_ports(count):
    """Return ports that nobody listened on a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def dump_log(paths, *options, version="4.1.0"):
    """Return what Kafka's dump tool says of these files."""
    tool = ["kafka.tools.DumpLogSegments", "--files", ",".join(map(str, paths)), *options]
    command = [*JAVA, SAY_LITTLE, "-cp", class_path(version), *tool]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


_COMPLAINTS = re.compile(
    r"Recovering unflushed segment|Found invalid|Found a corrupt|without clean shutdown"
    r"|-stray|ERROR|WARN .*Log|Exception"
)


def complaints(said):
    """Return the lines in which a broker did not take a log as it was. Its own metadata log it recovers each time."""
    return [line for line in said.splitlines() if _COMPLAINTS.search(line) and "__cluster_metadata" not in line]


class Process:
    """A Java program of Kafka's, whose output goes to a file."""

    def __init__(self, version, main, *arguments, output, options=()):
        self._output = Path(output)
        with self._output.open("wb") as file:
            command = [*JAVA, *options, SAY_ALL, "-cp", class_path(version), main, *map(str, arguments)]
            self._process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)

    @property
    def log(self):
        """All that it has said so far."""
        return self._output.read_text(errors="replace")

    def wait_for(self, words):
        """Wait until it has said this; if it never does, or the test is interrupted, it is ended."""
        deadline = time.monotonic() + START_SECONDS
        try:
            while words not in self.log:
                ended = self._process.poll() is not None or time.monotonic() > deadline
                assert not ended, f"never said {words!r}:\n{self.log}"
                time.sleep(0.1)
        except BaseException:
            self.kill()
            raise

    def stop(self):
        """Let it shut down, and wait for that."""
        self._process.send_signal(signal.SIGTERM)
        try:
            # 143: a JVM that was asked to go
            assert self._process.wait(STOP_SECONDS) in (0, 143), self.log
        finally:
            self.kill()

    def kill(self):
        """End it at once; harmless if it has ended."""
        self._process.kill()
        self._process.wait()


class Broker:
    """A broker on a log directory, from the moment it serves until it is stopped; as a context manager, cleanly.

    Args:
        directory: its only log directory. A new one is formatted first, as an administrator would.
        node_id: the broker's.
        log: where to write what it says.
        properties: further ones, `.` written `_`.

    Attributes:
        at: host and port for clients.
    """

    def __init__(self, directory, *, log, node_id=1, **properties):
        listener, controller = free_ports(2)
        self.at = f"127.0.0.1:{listener}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": node_id,
            "controller.quorum.voters": f"{node_id}@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://{self.at},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.at}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "offsets.topic.num.partitions": 2,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.num.partitions": 2,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "log.dirs": directory,
            "log.index.size.max.bytes": 65536,
        }
        file = _write_properties(Path(log).with_suffix(".properties"), settings | _COMMON | _dotted(properties))
        if not (Path(directory) / "meta.properties").exists():
            arguments = ["kafka.tools.StorageTool", "format", "-t", "conformanceClusterAAAAA", "-c", str(file)]
            command = [*JAVA, SAY_LITTLE, "-cp", class_path("4.1.0"), *arguments]
            subprocess.run(command, check=True, capture_output=True)
        self._process = Process("4.1.0", "kafka.Kafka", file, output=log)
        self._process.wait_for("Kafka Server started")

    @property
    def log(self):
        """All that it has said so far."""
        return self._process.log

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.stop()
        else:
            self.kill()

    def stop(self):
        """Shut it down cleanly."""
        self._process.stop()

    def kill(self):
        """As a power failure would, but for the disk's cache."""
        self._process.kill()


class OldBroker(Broker):
    """A broker of Kafka 2.8.2 with its ZooKeeper, for formats 0 and 1 (`message_format`); else as `Broker`.

    The ZooKeeper's data are beside the log: a directory that is opened again needs the same `log`, with another suffix.
    """

    def __init__(self, directory, *, log, node_id=1, message_format=2, **properties):
        listener, zookeeper = free_ports(2)
        self.at = f"127.0.0.1:{listener}"
        cluster = {
            "tickTime": 2000,
            "dataDir": Path(log).with_suffix(".zookeeper"),
            "clientPort": zookeeper,
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "maxClientCnxns": 0,
        }
        settings = {
            "broker.id": node_id,
            "listeners": f"PLAINTEXT://{self.at}",
            "advertised.listeners": f"PLAINTEXT://{self.at}",
            "zookeeper.connect": f"127.0.0.1:{zookeeper}",
            "zookeeper.session.timeout.ms": 60000,
            "log.dirs": directory,
            "log.message.format.version": ("0.9.0", "0.10.2", "2.8")[message_format],
            "inter.broker.protocol.version": "2.8",
            "offsets.topic.num.partitions": 2,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.num.partitions": 2,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
        }
        self._zookeeper = Process(
            "2.8.2",
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            _write_properties(Path(log).with_suffix(".zookeeper.properties"), cluster),
            output=Path(log).with_suffix(".zookeeper.log"),
            options=["-Dzookeeper.admin.enableServer=false"],
        )
        try:
            self._zookeeper.wait_for("PrepRequestProcessor (sid:0) started")
            file = _write_properties(Path(log).with_suffix(".properties"), settings | _COMMON | _dotted(properties))
            self._process = Process("2.8.2", "kafka.Kafka", file, output=log)
            self._process.wait_for(f"[KafkaServer id={node_id}] started")
        except BaseException:
            self._zookeeper.kill()
            raise

    def stop(self):
        super().stop()
        self._zookeeper.stop()

    def kill(self):
        super().kill()
        self._zookeeper.kill()


# Nothing is deleted or cleaned while a test looks, whatever its timestamps.
_COMMON = {"log.retention.ms": -1, "log.cleaner.dedupe.buffer.size": 8388608}


def _dotted(properties):
    return {name.replace("_", "."): value for name, value in properties.items()}


def _write_properties(path, properties):
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path


class Client:
    """Kafka's own clients, in one process for all brokers. Each call takes a broker."""

    def __init__(self):
        command = [*JAVA, SAY_LITTLE, "-cp", class_path("4.1.0"), "Client"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, text=True, **pipes)

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.kill()
        self._process.wait()

    def create(self, broker, topic, partitions=1, **configs):
        """Create a topic; `configs` are Kafka's, `.` written `_`."""
        self._call(broker, "create", topic=topic, partitions=partitions, configs=_dotted(configs))

    def topics(self, broker):
        """Return all topics by name: `id`, `leaders` (a node a partition, -1 none), `configs`."""
        return {topic.pop("topic"): topic for topic in self._call(broker, "topics")}

    def produce(self, broker, topic, partition, count, mode="idempotent", transactional_id=None, **properties):
        """Write records; return the offset and timestamp that the broker gave each.

        `mode` is "plain" (no producer id, no headers), "idempotent", or "commit" or "abort" for a transaction.
        """
        more = {"transactional.id": transactional_id or f"{topic}-{mode}"}
        arguments = {"topic": topic, "partition": partition, "count": count, "mode": mode}
        return self._call(broker, "produce", properties=_dotted(properties), **arguments, **more)

    def consume(self, broker, topic, isolation_level="read_uncommitted"):
        """Return all records of a topic, by partition and offset, each as a dict of all its fields."""
        rows = self._call(broker, "consume", topic=topic, isolation=isolation_level)
        return sorted(rows, key=lambda row: (row["partition"], row["offset"]))

    def _call(self, broker, do, **arguments):
        self._process.stdin.write(json.dumps({"do": do, "at": broker.at, **arguments}) + "\n")
        self._process.stdin.flush()
        rows = []
        while line := self._process.stdout.readline():
            row = json.loads(line)
            if "error" in row:
                raise AssertionError(f"{do} {arguments}: {row['error']}")
            if "done" in row:
                return rows
            rows.append(row)
        raise AssertionError(f"the client died: {do} {arguments}")


def as_consumed(log_dir, topic, isolation_level="read_uncommitted"):
    """Return our rows of a topic in the form of `Client.consume`."""
    columns = ["partition", "offset", "timestamp", "timestampType", "leaderEpoch", "key", "value", "headers"]
    found = []
    for log in log_dir.logs([topic]):
        for rows in log.read(isolation_level=isolation_level, columns=columns):
            at = rows.schema.get_field_index("timestamp")
            for row in rows.set_column(at, "timestamp", rows["timestamp"].cast("int64")).to_pylist():
                row["key"], row["value"] = _base64(row["key"]), _base64(row["value"])
                row["headers"] = [[header["key"], _base64(header["value"])] for header in row["headers"]]
                found.append(row)
    return found


def _base64(content):
    return None if content is None else base64.b64encode(content).decode()
