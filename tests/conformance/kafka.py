"""Real Kafka on loopback: brokers that start and stop on a directory, its clients and its dump tool.

`fetch.py` fetches it from Maven Central into `build/conformance`, and compiles `java/`.
"""

import base64
import json
import re
import signal
import socket
import struct
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fetch import BROKERS, DEFAULT, NEWEST

from brokerless.layout.checkpoints import random_id
from support.tally import tally

# Java finds the classes of an archive by the paths of their jars: where they are, and not where a link to them is.
BUILD = (Path(__file__).parents[2] / "build" / "conformance").resolve()
# They live for seconds, and would never earn back what the optimising compiler and a parallel collector cost.
JAVA = ("java", "-Xmx700m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
# An archive of loaded classes (JEP 310) halves what a start costs. Without one, or for another Java, all is as before.
HAS_ARCHIVES = True
SAY_ALL = "-Dorg.slf4j.simpleLogger.defaultLogLevel=info"
SAY_LITTLE = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
START_SECONDS = STOP_SECONDS = 240
# A broker that was killed is let in again once its session is over: properties that end it soon. For a cluster of one:
# where another one can lead, a busy machine would change the leader.
AFTER_A_KILL = {"broker_session_timeout_ms": 2000, "broker_heartbeat_interval_ms": 200}
RELEASES = (DEFAULT, NEWEST)
# The oldest that a new cluster can be made for, and the one that it is made for by default.
OLDER = BROKERS[:2]


def again(*values):
    """Return a parameter that `make promises` leaves out: another one has seen the promise."""
    return pytest.param(*values, marks=pytest.mark.again)


# As parameters: of the releases between the newest and the oldest, only `make conformance` makes a case.
EACH_RELEASE = [again(DEFAULT), NEWEST]
EACH_KRAFT_RELEASE = [OLDER[0], again(OLDER[1]), *EACH_RELEASE]
# ListOffsetsRequest.EARLIEST_PENDING_UPLOAD_TIMESTAMP, which the client's release does not have
EARLIEST_PENDING_UPLOAD = -6
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"


def archive(version):
    """Return where the archive of the classes of a release is: `fetch.py` makes it."""
    return BUILD / version / "classes.jsa"


def java(version):
    """Return the start of a command that runs a program of a release, or one of `java/` with its jars."""
    archives = [f"-XX:SharedArchiveFile={archive(version)}"] if HAS_ARCHIVES else []
    # The jars of the archive come first.
    return [*JAVA, *archives, "-cp", f"{BUILD / version / 'lib'}/*:{BUILD / 'client.jar'}"]


_RESERVED = []


def free_ports(count):
    """Return ports that the system gives to no one else while this process lives.

    They are bound, and nobody listens on them: a server may still listen, as Java's do (SO_REUSEADDR).
    """
    for _ in range(count):
        reserved = socket.socket()
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        _RESERVED.append(reserved)
    return [reserved.getsockname()[1] for reserved in _RESERVED[-count:]]


_COMPLAINTS = re.compile(
    r"Recovering unflushed segment|Found invalid|Found a corrupt|without clean shutdown"
    r"|-stray|ERROR|WARN .*Log|Exception"
)
# The metadata log is recovered each time, and a controller tells of each request that came before it was ready.
_OF_OTHERS = re.compile(
    r"__cluster_metadata|INFO .*(QuorumController|ControllerServer|RaftManager)|ControllerApis.*CONTROLLER_REGISTRATION"
    # A broker may assign replicas to its directories before the controller knows its epoch; it tries again.
    r"|ControllerApis.*ASSIGN_REPLICAS_TO_DIRS|AssignmentsManager.*STALE_BROKER_EPOCH"
    # A move waits for the leader's new epoch, and goes on with it (AbstractFetcherThread.onPartitionFenced).
    r"|ReplicaAlterLogDirsThread.*marked as failed"
)
# The stack of what the line above tells.
_STACK = re.compile(r"\s+at |\s+\.\.\. |Caused by: |[\w.$]+(Exception|Error)(: |$)")


def complaints(said):
    """Return the lines in which a broker did not take a log as it was."""
    found, is_of_others = [], False
    for line in said.splitlines():
        is_of_others = is_of_others if _STACK.match(line) else bool(_OF_OTHERS.search(line))
        if not is_of_others and _COMPLAINTS.search(line):
            found.append(line)
    return found


class Process:
    """A Java program of Kafka's, whose output goes to a file."""

    def __init__(self, version, main, *arguments, output, options=()):
        self._output = Path(output)
        with self._output.open("wb") as file:
            command = [*java(version), *options, SAY_ALL, main, *map(str, arguments)]
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

    @property
    def has_ended(self):
        """Whether it is gone, by itself or not."""
        return self._process.poll() is not None

    def stop(self):
        """Let it shut down, and wait for that; harmless if it was killed."""
        if self._process.poll() == -signal.SIGKILL:
            return
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
    """A broker on log directories, from the moment it serves until it is stopped; as a context manager, cleanly.

    It is its cluster's controller, unless it joins the cluster of another one.

    Args:
        directories: its log directory, or several; the metadata log is in the first. Those that no `meta.properties`
            makes one are formatted, as an administrator would.
        node_id: the broker's.
        log: where to write what it says.
        version: Kafka's.
        joins: the broker whose cluster it joins; None: its own.
        standalone: format as `StorageTool format --standalone` does: the voters stand in the metadata log (KIP-853).
        formatted: called when the directories are formatted, and the broker is not started yet.
        controllers: the port of each node of a quorum that this one is of, by node id.
        options: of the JVM.
        properties: further ones, `.` written `_`.

    Attributes:
        at: host and port for clients.
        node_id: as given.
        controller: its cluster's controller, as `controller.quorum.voters` has it.
    """

    def __init__(
        self,
        *directories,
        log,
        node_id=1,
        version=DEFAULT,
        joins=None,
        standalone=False,
        formatted=lambda: None,
        controllers=None,
        options=(),
        **properties,
    ):
        listener, controller = free_ports(2)
        self.at = f"127.0.0.1:{listener}"
        self.node_id = node_id
        self.controller = joins.controller if joins else f"{node_id}@127.0.0.1:{controller}"
        if controllers:
            controller = controllers[node_id]
            self.controller = ",".join(f"{node}@127.0.0.1:{port}" for node, port in controllers.items())
        listeners = f"PLAINTEXT://{self.at}"
        settings = {
            "process.roles": "broker" if joins else "broker,controller",
            "node.id": node_id,
            **(
                {
                    "controller.quorum.bootstrap.servers": ",".join(
                        one.partition("@")[2] for one in self.controller.split(",")
                    )
                }
                if standalone
                else {"controller.quorum.voters": self.controller}
            ),
            "listeners": listeners if joins else f"{listeners},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": listeners,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "offsets.topic.num.partitions": 2,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.num.partitions": 2,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "log.dirs": ",".join(map(str, directories)),
            "log.index.size.max.bytes": 65536,
        }
        file = _write_properties(Path(log).with_suffix(".properties"), settings | _COMMON | _dotted(properties))
        if not all((Path(directory) / "meta.properties").exists() for directory in directories):
            is_plain = len(directories) == 1 and not standalone and "metadata_log_dir" not in properties
            if is_plain and version == DEFAULT:
                format_again(Path(directories[0]), file, (node_id, joins is None))
            else:
                format_directories(version, file, *["--standalone"] * standalone)
        formatted()
        tally("broker", version)
        self._process = Process(version, "kafka.Kafka", file, output=log, options=options)
        self._process.wait_for("Kafka Server started")

    @property
    def log(self):
        """All that it has said so far."""
        return self._process.log

    @property
    def has_ended(self):
        """Whether it is gone, by itself or not."""
        return self._process.has_ended

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


def start_nodes(directories, *, log, controllers=None, **options):
    """Start the nodes of a cluster, each a broker and a controller, and return them once all of them serve.

    Args:
        directories: the log directories of each node, by its id.
        log: the directory for what they say.
        controllers: the port of each controller, by node id; None: any free ones.
        options: see `Broker`.
    """
    controllers = controllers or dict(zip(directories, free_ports(len(directories)), strict=True))

    def start(node):
        return Broker(
            *directories[node], log=Path(log) / f"node-{node}.log", node_id=node, controllers=controllers, **options
        )

    with ThreadPoolExecutor() as threads:
        starts = [threads.submit(start, node) for node in directories]
    brokers = [one.result() for one in starts if one.exception() is None]
    for one in starts:
        if one.exception() is not None:
            for broker in brokers:
                broker.kill()
            raise one.exception()
    return brokers


def format_directories(version, properties, *options):
    """Format the log directories that a file of properties names, as an administrator would."""
    arguments = ["--ignore-formatted", *options, "-t", CLUSTER_ID, "-c", str(properties)]
    tool = [*java(version), SAY_LITTLE, "kafka.tools.StorageTool", "format"]
    subprocess.run([*tool, *arguments], check=True, capture_output=True)


_FORMATTED = {}


def format_again(directory, properties, kind):
    """Format a directory for the default release: by the tool the first one of this kind, the others as that one."""
    names = ("meta.properties", "bootstrap.checkpoint")
    if kind not in _FORMATTED:
        format_directories(DEFAULT, properties)
        _FORMATTED[kind] = {name: (directory / name).read_bytes() for name in names}
        return
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in _FORMATTED[kind].items():
        own = re.sub(b"^directory.id=.*", f"directory.id={random_id()}".encode(), content, flags=re.MULTILINE)
        (directory / name).write_bytes(own)


def tiered(directory):
    """Return properties of a broker that moves closed segments of tiered topics to this directory, the remote storage.

    A topic is one with `remote_storage_enable`; `local_retention_bytes=1` keeps nothing but the active segment here.
    """
    classes = "org.apache.kafka.server.log.remote"
    return {
        "remote_log_storage_system_enable": "true",
        "remote_log_storage_manager_class_name": f"{classes}.storage.LocalTieredStorage",
        "remote_log_metadata_manager_class_name": f"{classes}.metadata.storage.TopicBasedRemoteLogMetadataManager",
        "remote_log_metadata_manager_listener_name": "PLAINTEXT",
        "rsm_config_dir": directory,
        "rsm_config_delete_on_close": "false",
        "rlmm_config_remote_log_metadata_topic_num_partitions": 2,
        "rlmm_config_remote_log_metadata_topic_replication_factor": 1,
        "remote_log_manager_task_interval_ms": 100,
        "log_retention_check_interval_ms": 200,
        "log_initial_task_delay_ms": 100,
    }


def request(broker, key, version, body):
    """Send a flexible request that no client here has, as bytes, and return the answer's, tagged fields included."""
    data = struct.pack(">hhihb", key, version, 0, -1, 0) + body
    host, port = broker.at.split(":")
    with socket.create_connection((host, int(port)), START_SECONDS) as connection, connection.makefile("rwb") as stream:
        stream.write(struct.pack(">i", len(data)) + data)
        stream.flush()
        answer = stream.read(struct.unpack(">i", stream.read(4))[0])
    return answer[5:]


def end_transaction(broker, topic, partition, marker, transaction_version):
    """Send a transaction coordinator's marker (WriteTxnMarkers); return the answer's error code.

    `marker`: producer id and epoch, whether it commits.
    """
    name = topic.encode()
    named = struct.pack(f">bb{len(name)}s", 2, len(name) + 1, name)
    entry = struct.pack(">qh?", *marker) + named + struct.pack(">bibibb", 2, partition, 0, 0, transaction_version, 0)
    answer = request(broker, 27, 2, b"\2" + entry + b"\0")
    return struct.unpack(">h", answer[-6:-4])[0]


def pending_upload(broker, topic, partition):
    """Return the error code and the offset of the earliest pending upload (ListOffsets)."""
    name = topic.encode()
    named = struct.pack(f">bb{len(name)}s", 2, len(name) + 1, name)
    asked = struct.pack(">biiqbb", 2, partition, -1, EARLIEST_PENDING_UPLOAD, 0, 0)
    answer = request(broker, 2, 11, struct.pack(">ib", -1, 0) + named + asked + struct.pack(">ib", 30_000, 0))
    error, _, offset = struct.unpack(">hqq", answer[-25:-7])
    return error, offset


class OldBroker(Broker):
    """A broker of Kafka 2.8.2 with its ZooKeeper, for formats 0 and 1 (`message_format`); else as `Broker`.

    The ZooKeeper's data are beside the log: a directory that is opened again needs the same `log`, with another suffix.
    """

    def __init__(self, directory, *, log, node_id=1, message_format=2, options=(), **properties):
        listener, zookeeper = free_ports(2)
        self.at = f"127.0.0.1:{listener}"
        self.node_id = node_id
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
            tally("broker", "2.8.2")
            self._process = Process("2.8.2", "kafka.Kafka", file, output=log, options=options)
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


class Program:
    """A program that takes jobs as lines of JSON, and answers each with lines, the last one with "done" or "error"."""

    def __init__(self, name, *command):
        self._name = name
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen([*map(str, command)], text=True, **pipes)

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.kill()
        self._process.wait()

    def answer(self, do, **arguments):
        """Return the rows of a job, and its error or None."""
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()
        rows = []
        while line := self._process.stdout.readline():
            row = json.loads(line)
            if "error" in row or "done" in row:
                tally("client", self._name)
                tally("row", self._name, sum("offset" in row for row in rows))
                return rows, row.get("error")
            rows.append(row)
        raise AssertionError(f"the client died: {do} {arguments}")

    def call(self, do, **arguments):
        """Return the rows of a job."""
        rows, error = self.answer(do, **arguments)
        if error is not None:
            raise AssertionError(f"{do} {arguments}: {error}")
        return rows


class Client(Program):
    """Kafka's own clients and its dump tool, in one process for all brokers. Each call of a client takes a broker.

    `version`: the release of the clients; those of another one than the default can do the jobs of `Reader.java` and
    `Tool.java`.
    """

    def __init__(self, version=DEFAULT):
        super().__init__(f"java-{version}", *client_command(version))

    def create(self, broker, topic, partitions=1, replicas=(), **configs):
        """Create a topic; `replicas`: the nodes of each partition, the leader first; `configs`: Kafka's, `.` as `_`."""
        arguments = {"partitions": partitions, "replicas": list(replicas), "configs": _dotted(configs)}
        self._call(broker, "create", topic=topic, **arguments)

    def configure(self, broker, kind, name, **configs):
        """Set dynamic configs of a "topic" or a "broker"; the broker "" is the default of all of them."""
        self._call(broker, "configure", kind=kind.upper(), name=name, configs=_dotted(configs))

    def configs(self, broker, kind, name):
        """Return the configs in force for a "topic" or a "broker": value, and Kafka's word for its source, by name."""
        rows = self._call(broker, "configs", kind=kind.upper(), name=name)
        return {row["name"]: (row["value"], row["source"]) for row in rows}

    def delete_records(self, broker, topic, partition, before_offset):
        """Delete the records below an offset."""
        self._call(broker, "deleteRecords", topic=topic, partition=partition, offset=before_offset)

    def move(self, broker, topic, partition, directory):
        """Begin to move a replica to another log directory of this broker."""
        self._call(broker, "move", topic=topic, partition=partition, node=broker.node_id, directory=str(directory))

    def offset(self, broker, topic, partition, timestamp):
        """Return the offset for a time, or for one of the ListOffsets requests' special ones (-1 latest, ...)."""
        (row,) = self._call(broker, "offset", topic=topic, partition=partition, timestamp=timestamp)
        return row["offset"]

    def topics(self, broker):
        """Return all topics by name: `id`, `leaders` (a node a partition, -1 none), `isr` by partition, `configs`."""
        return {topic.pop("topic"): topic for topic in self._call(broker, "topics")}

    def produce(self, broker, topic, partition, count, mode="idempotent", transactional_id=None, **properties):
        """Write records; return the offset and timestamp that the broker gave each.

        `mode` is "plain" (no producer id, no headers), "idempotent", or "commit" or "abort" for a transaction.
        """
        more = {"transactional.id": transactional_id or f"{topic}-{mode}"}
        arguments = {"topic": topic, "partition": partition, "count": count, "mode": mode}
        # A busy machine is not a failure.
        properties = {"delivery_timeout_ms": 1000 * START_SECONDS, **properties}
        return self._call(broker, "produce", properties=_dotted(properties), **arguments, **more)

    def consume(self, broker, topic, isolation_level="read_uncommitted", group=None, patience=None):
        """Return all records of a topic, by partition and offset, each as a dict of all its fields.

        Of a group, those from where it goes on. Where offsets are missing at the end of a log, a consumer never gets
        there: with `patience`, it stops after so many seconds without a record.
        """
        arguments = {"isolation": isolation_level, "group": group, "patience": patience}
        rows = self._call(broker, "consume", topic=topic, **arguments)
        return sorted(rows, key=lambda row: (row["partition"], row["offset"]))

    def consume_to_damage(self, broker, topic, isolation_level="read_uncommitted"):
        """Return the records that a consumer gets, as it gets them, and the error that it ends with, or None."""
        return self._answer(broker, "consume", topic=topic, isolation=isolation_level)

    def commit(self, broker, group, topic, partition, offset):
        """Commit the offset where a group goes on."""
        self._call(broker, "commit", group=group, topic=topic, partition=partition, offset=offset)

    def dump_log(self, paths, *options):
        """Return what Kafka's dump tool says of these files."""
        (row,) = self._call(None, "dump", arguments=["--files", ",".join(map(str, paths)), *options])
        return row["said"]

    def state(self, broker, do, **arguments):
        """Run a command of `State.java`; return the rows that it answers."""
        return self._call(broker, do, **arguments)

    def _call(self, broker, do, **arguments):
        try:
            return self.call(do, at=broker and broker.at, **arguments)
        except AssertionError as error:
            if isinstance(broker, Broker):
                error.add_note("the broker said last:\n" + "\n".join(broker.log.splitlines()[-40:]))
            raise

    def _answer(self, broker, do, **arguments):
        return self.answer(do, at=broker and broker.at, **arguments)


def client_command(version):
    """Return the command of `Client.java`, on the jars of a release."""
    return [*java(version), SAY_LITTLE, "Client"]


def as_consumed(log_dir, topic, isolation_level="read_uncommitted", **options):
    """Return our rows of a topic in the form of `Client.consume`; `options` are those of `Log.read`."""
    columns = ["partition", "offset", "timestamp", "timestampType", "leaderEpoch", "key", "value", "headers"]
    found = []
    for log in log_dir.logs([topic]):
        for rows in log.read(isolation_level=isolation_level, columns=columns, **options):
            at = rows.schema.get_field_index("timestamp")
            for row in rows.set_column(at, "timestamp", rows["timestamp"].cast("int64")).to_pylist():
                row["key"], row["value"] = _base64(row["key"]), _base64(row["value"])
                row["headers"] = [[header["key"], _base64(header["value"])] for header in row["headers"]]
                found.append(row)
    return found


def _base64(content):
    return None if content is None else base64.b64encode(content).decode()
