"""Each message of docs/guides/broker-messages.md is one of a real broker, and the commands beside it are its cure."""

import os
import re
import shutil
import struct
import subprocess
import sysconfig
import zipfile
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest import mock

import kafka
import pytest
from changes_of_small_files import COMMIT, OTHER_ID, SEGMENT, ZERO_ID, appended, in_place_of, rewritten, write
from kafka import AFTER_A_KILL, BUILD, CLUSTER_ID, NEWEST, SAY_ALL, SAY_LITTLE, Broker, java

import brokerless as bl
from brokerless.metadata.records import metadata_record
from brokerless.state.internal_topic import java_hash
from support import damage
from support.polling import until
from support.state_records import transaction_key

# Verbs warn of what damage hides.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
PAGE = Path(__file__).parents[2] / "docs/guides/broker-messages.md"
PLACEHOLDER = r"\b(?:PATH|NAME|PARTITION|N|UUID|REASON|LINE|LOG|POSITION)\b"
GROUP_KEY = struct.pack(">hh7sh6si", 1, 7, b"billing", 6, b"orders", 0)
FIRST = f"orders-0/{SEGMENT}"
BRINGING_BACK = ("Bring back a deleted or recreated topic", "Topic in a new cluster", "Topic in the same cluster")


def sections():
    """Return by its title what each section of the page has: messages, and blocks of commands."""
    found = {}
    for part in re.split(r"^###? ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        messages = [one.strip("` ") for one in re.findall(r"^\*\*(`.*`)\*\*$", body, flags=re.MULTILINE)]
        found[title] = messages, re.findall(r"^```sh\n(.*?)^```", body, flags=re.MULTILINE | re.DOTALL)
    return found


SECTIONS = sections()
MESSAGES = {message: title for title, (messages, _) in SECTIONS.items() for message in messages}


def spoken(message):
    """Return a pattern for what a broker says."""
    return ".+?".join(map(re.escape, re.split(PLACEHOLDER, message)))


@dataclass(frozen=True)
class Case:
    """A way to break a directory, for a section of the page.

    Attributes:
        title: the section's.
        change: breaks the log directories.
        messages: how many of the section's messages the broker says, or the beginnings of these; None: all of them.
        stops: whether the broker stops.
        disks: how many log directories the broker has.
        client: what a client does meanwhile; its output counts as the broker's.
        is_cured_before: the cure is for a copy of the directory from before the start.
        block: which of the section's blocks of commands is the cure.
        again: see tests/README.md.
    """

    title: str
    change: object
    messages: tuple[str, ...] | None = None
    stops: bool = False
    disks: int = 1
    client: object = None
    is_cured_before: bool = False
    block: int = 0
    again: bool = False

    def expected(self):
        return [
            message for message in SECTIONS[self.title][0] if self.messages is None or message.startswith(self.messages)
        ]


def unclean(data):
    (data / ".kafka_cleanshutdown").unlink()


def flipped(data, unclean_too=False):
    """Flip a bit of the second half of a log."""
    path = data / f"{FIRST}.log"
    damage.flip_bit(path, path.stat().st_size - 30)
    if unclean_too:
        unclean(data)
        (data / "recovery-point-offset-checkpoint").unlink()


def held(data, other, name="orders-0"):
    """Return the directory of two that has a partition, the other one after it."""
    return sorted((data, other), key=lambda disk: not (disk / name).exists())


def copied_partition(data, data2):
    here, there = held(data, data2)
    shutil.copytree(here / "orders-0", there / "orders-0")


def all_snapshots(data, change):
    for path in (data / "orders-1").glob("*.snapshot"):
        change(path)


def coordinator_record(data, topic, name, record):
    appended(data, f"{topic}-{java_hash(name) % 2}", [record])


def newest_metadata_snapshot(data):
    path = max((data / "__cluster_metadata-0").glob("*.checkpoint"))
    damage.flip_bit(path, path.stat().st_size // 2)


def consuming(*arguments):
    """Return a client that reads as `kafka-console-consumer.sh` does."""

    def consume(broker, output):
        main = "org.apache.kafka.tools.consumer.ConsoleConsumer"
        command = [*java(NEWEST), SAY_ALL, main, "--bootstrap-server", broker.at, "--timeout-ms", "4000"]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
        output.write_text(done.stdout + done.stderr)

    return consume


CORRUPT = consuming("--topic", "orders", "--partition", "0", "--offset", "earliest")
BEYOND = GROUP_KEY, struct.pack(">hqi", 3, 500, -1) + COMMIT[14:]


CHECKPOINT = "Malformed checkpoint"
STOPPED = [
    Case("Unknown directory name, such as lost+found", lambda data: (data / "old").mkdir(), stops=True),
    Case("File without an offset", partial(write, name="orders-0/backup.log", content="x"), stops=True, again=True),
    Case(
        "Partition in two directories",
        copied_partition,
        ("Duplicate log directories for",),
        stops=True,
        disks=2,
        again=True,
    ),
    Case(
        "Zeros at the end of a log",
        lambda data: damage.append(data / f"{FIRST}.log", bytes(100)),
        stops=True,
        again=True,
    ),
    Case(
        "Zeros at the end of a log",
        lambda data: damage.overwrite(data / f"{FIRST}.log", 8, struct.pack(">i", -1)),
        stops=True,
        again=True,
    ),
    Case(
        "Unknown version in a transaction index",
        partial(write, name=f"{FIRST}.txnindex", content=struct.pack(">hqqqq", 7, 1, 0, 1, 1)),
        stops=True,
        again=True,
    ),
    Case(
        "Invalid leader epoch",
        partial(write, name="orders-0/leader-epoch-checkpoint", content="0\n1\n-1 0\n"),
        stops=True,
        again=True,
    ),
    Case(
        "Damaged meta.properties",
        lambda data: rewritten(data, "meta.properties", without="cluster.id"),
        ("No readable", "Error while reading"),
        stops=True,
    ),
    Case(
        "Damaged meta.properties",
        partial(write, name="meta.properties", content=""),
        ("Error: node ID",),
        stops=True,
        again=True,
    ),
    Case(
        "Second directory without meta.properties",
        lambda data, data2: (shutil.rmtree(data2), data2.mkdir()),
        stops=True,
        again=True,
        disks=2,
    ),
    Case(
        "Directory of another node",
        lambda data: rewritten(data, "meta.properties", "node.id=7"),
        stops=True,
        again=True,
    ),
    Case(
        "Directory of another cluster",
        lambda _, data2: rewritten(data2, "meta.properties", "cluster.id=abc"),
        stops=True,
        again=True,
        disks=2,
    ),
    Case(
        "Directory id used twice",
        lambda data, data2: shutil.copy(data / "meta.properties", data2),
        stops=True,
        disks=2,
        again=True,
    ),
    Case(
        "Reserved directory id",
        lambda data: rewritten(data, "meta.properties", f"directory.id={ZERO_ID}"),
        stops=True,
        again=True,
    ),
    Case(
        "Damaged quorum-state",
        partial(write, name="__cluster_metadata-0/quorum-state", content="x"),
        stops=True,
        again=True,
    ),
    Case(
        "Wrong id of the metadata log",
        partial(write, name="__cluster_metadata-0/partition.metadata", content=f"version: 0\ntopic_id: {OTHER_ID}"),
        stops=True,
        again=True,
    ),
    *(
        Case(
            "Metadata that contradict themselves",
            partial(
                appended,
                topic="__cluster_metadata-0",
                records=[metadata_record("FenceBrokerRecord", id=1, epoch=999999)],
            ),
            stops=True,
            block=block,
        )
        for block in (0, 1)
    ),
    *(
        Case(
            "Damaged snapshot of the metadata",
            newest_metadata_snapshot,
            ("Got exception",),
            stops=True,
            block=block,
        )
        for block in (0, 1)
    ),
]
OFFLINE = [
    Case("Log directory offline", partial(write, name="recovery-point-offset-checkpoint", content="x\n"), stops=True),
    Case(
        "Error while a directory is loaded",
        lambda data: in_place_of(data / f"{FIRST}.timeindex", Path.mkdir),
        stops=True,
        again=True,
    ),
    Case(
        CHECKPOINT,
        partial(write, name="orders-0/leader-epoch-checkpoint", content="x\n"),
        ("Error while", "Malformed"),
        stops=True,
    ),
    Case(
        CHECKPOINT,
        partial(write, name="replication-offset-checkpoint", content="0\n2\norders 0 5\n"),
        ("Error while", "Expected"),
        stops=True,
        again=True,
    ),
    Case(
        CHECKPOINT,
        partial(write, name="log-start-offset-checkpoint", content="1\n1\norders 0 0\n"),
        ("Error while", "Unrecognised"),
        stops=True,
        again=True,
    ),
    Case(
        "Malformed topic id",
        partial(write, name="orders-0/partition.metadata", content="x"),
        ("Error while", "Malformed"),
        stops=True,
    ),
    Case(
        "Malformed topic id",
        partial(write, name="orders-0/partition.metadata", content=f"version: 0\ntopic_id: {ZERO_ID}"),
        ("Error while", "Invalid"),
        stops=True,
        again=True,
    ),
    Case("File in the place of a partition", lambda data: in_place_of(data / "orders-0"), stops=True, again=True),
]
WARNING = [
    Case("Recovery after a crash", unclean, is_cured_before=True, again=True),
    Case("Invalid messages during recovery", partial(flipped, unclean_too=True), is_cured_before=True),
    Case(
        "Missing or corrupted index",
        lambda data: (
            (data / f"{FIRST}.index").unlink(),
            write(data, f"orders-1/{SEGMENT}.txnindex", struct.pack(">hqqqq", 0, 1, 0, -5, 1)),
        ),
    ),
    Case("Missing segment", lambda data: (data / f"{FIRST}.log").unlink(), again=True),
    Case(
        "Log start offset above the end",
        partial(write, name="log-start-offset-checkpoint", content="0\n1\norders 0 5000\n"),
        is_cured_before=True,
        again=True,
    ),
    Case(
        "Damaged producer snapshot",
        partial(all_snapshots, change=lambda path: damage.flip_bit(path, path.stat().st_size - 2)),
        is_cured_before=True,
        again=True,
    ),
    Case(
        "Checkpoint with an invalid number",
        lambda data: [
            write(data, f"{name}-offset-checkpoint", "0\n1\norders 0 x\n") for name in ("recovery-point", "log-start")
        ],
        is_cured_before=True,
        again=True,
    ),
    Case(
        "Invalid high watermark",
        partial(write, name="replication-offset-checkpoint", content="0\n1\norders 0 x\n"),
        again=True,
    ),
    Case(
        "Log cleaner that has stopped",
        partial(write, name="cleaner-offset-checkpoint", content="0\n1\norders 0 x\n"),
        again=True,
    ),
    Case("Partition without a topic id", lambda data: (data / "orders-0/partition.metadata").unlink()),
    Case(
        "Stray partition",
        lambda data: (
            write(data, "orders-0/partition.metadata", f"version: 0\ntopic_id: {OTHER_ID}"),
            shutil.copytree(data / "orders-1", data / f"orders-1.{'0' * 32}-stray"),
        ),
        again=True,
    ),
    Case("Missing quorum-state", lambda data: (data / "__cluster_metadata-0/quorum-state").unlink(), again=True),
]
COMPLAINING = [
    Case("Corrupt record", flipped, ("Received exception", "Record batch"), client=CORRUPT),
    Case(
        "Group that cannot be loaded",
        partial(coordinator_record, topic="__consumer_offsets", name="billing", record=(GROUP_KEY, COMMIT[:-3])),
    ),
    Case(
        "Record of a later release",
        partial(
            coordinator_record, topic="__consumer_offsets", name="billing", record=(struct.pack(">h", 99) + b"x", b"x")
        ),
        again=True,
    ),
    Case(
        "Transactions that cannot be loaded",
        partial(
            coordinator_record, topic="__transaction_state", name="payments", record=(transaction_key("payments"), b"x")
        ),
        again=True,
    ),
    Case(
        "Offset out of range",
        partial(coordinator_record, topic="__consumer_offsets", name="billing", record=BEYOND),
        ("Fetch position",),
        client=consuming("--topic", "orders", "--group", "billing", "--command-property", "auto.offset.reset=latest"),
        again=True,
    ),
]
# What a broker says again after the cure: nothing is wrong with it.
REPEATED = {message for message in MESSAGES if message.startswith(("Unknown record type", "Loaded stray log"))}
CASES = [*STOPPED, *OFFLINE, *WARNING, *COMPLAINING]
# No broker of a test says these, or one without a case of the table does: each says why.
OF_JARS = {
    "Duplicate log directories found": "two moves of one partition that both were interrupted",
    "Unexpected error in raft IO thread": "depends on which bit of a snapshot is damaged",
    "Found invalid messages during fetch": "a follower, and a leader whose disk changes a byte",
    "Truncating to": "a follower whose leader's log is shorter",
    "Encountered corrupt message": "a leader that finds no batch where its index says that one begins",
    "Record for partition": "messages of formats 0 and 1",
    "Offsets out of range": "the consumers of older releases",
    "The request included message batch larger": "not about files",
    "Received inconsistent topic ID": "lasts for a moment",
    "The fetch session encountered": "lasts for a moment",
}
OF_TESTS = ("Failed to acquire lock", "Found unexpected metadata location")


@pytest.fixture(scope="module")
def sound(client, tmp_path_factory):
    """Return a function that makes a directory, with the log directories of a broker in which nothing is wrong."""
    made = {}

    def directories(tmp_path, disks):
        if disks not in made:
            path = made[disks] = tmp_path_factory.mktemp("sound")
            with Broker(*paths(path, disks), log=path / "server.log", version=NEWEST) as broker:
                client.create(broker, "orders", partitions=2)
                for partition in range(2):
                    client.produce(broker, "orders", partition, 20)
                    client.produce(broker, "orders", partition, 20)
                    client.commit(broker, "billing", "orders", partition, 5)
                client.produce(broker, "orders", 1, 5, mode="commit")
        for source, path in zip(paths(made[disks], disks), paths(tmp_path, disks), strict=True):
            shutil.copytree(source, path)
        return paths(tmp_path, disks)

    return directories


@pytest.fixture
def directories(sound):
    """Return log directories of a broker that is started on them as they are."""

    def made(tmp_path, disks=1):
        found = sound(tmp_path, disks)
        stack.enter_context(mock.patch.multiple(kafka, format_again=nothing, format_directories=nothing))
        return found

    with ExitStack() as stack:
        yield made


def nothing(*_):
    """Do what formatting does not."""


def paths(path, disks):
    return [path / f"data{number}" for number in ("", 2)[:disks]]


def started(data, log, **options):
    return Broker(*data, log=log, version=NEWEST, **AFTER_A_KILL, **options)


def has_leaders(client, broker):
    return client.topics(broker).get("orders", {}).get("leaders") == [1, 1]


def typed(commands, directory, **variables):
    """Type commands in a directory, as a reader of the page would."""
    scripts = directory / "bin"
    scripts.mkdir(exist_ok=True)
    formatter = " ".join([*java(NEWEST), SAY_LITTLE, "kafka.tools.StorageTool"])
    # 2 is the code of a verb that could not run; the others tell of what it found.
    for name, script in {
        "kafka-storage.sh": f'exec {formatter} "$@"',
        "brokerless": f'{sysconfig.get_path("scripts")}/brokerless "$@" || test $? != 2',
    }.items():
        (scripts / name).write_text(f"#!/bin/sh\n{script}\n")
        (scripts / name).chmod(0o755)
    environment = os.environ | variables
    environment["PATH"] = f"{scripts}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", commands], cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{commands}: {done.stdout}{done.stderr}"
    return done.stdout


def directory_id(data):
    return re.search("^directory.id=(.*)", (data / "meta.properties").read_text(), flags=re.MULTILINE)[1]


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{case.title} {number}", marks=[pytest.mark.again] * case.again)
        for number, case in enumerate(CASES)
    ],
)
def test_a_broker_says_it_and_starts_after_the_cure(client, directories, tmp_path, case):
    data = directories(tmp_path, case.disks)
    shutil.copytree(data[0], tmp_path / "backup")
    own = {"CLUSTER_ID": CLUSTER_ID, "DIRECTORY_ID": directory_id(data[-1])}
    case.change(*data)
    for path in data:
        shutil.copytree(path, tmp_path / "before" / path.name)
    assert case.expected()
    # A check says as much of a log that keeps the broker from starting.
    assert case.title != "Zeros at the end of a log" or any(one.kind.stops_broker for one in bl.check(*data))
    assert missing_after_start(case, data, tmp_path) == []
    if case.is_cured_before:
        for path in data:
            shutil.rmtree(path)
            shutil.copytree(tmp_path / "before" / path.name, path)
        shutil.copytree(data[0], tmp_path / "copy")
    _, commands = SECTIONS[case.title]
    cure = commands[case.block]
    if "controller2" in cure:
        # Its metadata log has the same records as the copy from before the fault.
        (tmp_path / "backup").rename(tmp_path / "controller2")
    typed(cure, tmp_path, **own)
    if "--output repaired" in cure:
        data = [tmp_path / "repaired"]
    with started(data, tmp_path / "after.log") as broker:
        until(lambda: has_leaders(client, broker), seconds=20)
        assert case.client or [one for one in unsaid(case, tmp_path / "after.log") if one not in REPEATED] == [
            one for one in case.expected() if one not in REPEATED
        ]


def missing_after_start(case, data, tmp_path):
    """Start a broker and stop it, unless it stops by itself; return the messages that it does not say."""
    logs = tmp_path / "server.log", tmp_path / "client.log"
    try:
        broker = started(data, logs[0])
    except AssertionError:
        assert case.stops
        return unsaid(case, *logs)
    try:
        if case.client:
            case.client(broker, logs[1])
        until(lambda: broker.has_ended if case.stops else not unsaid(case, *logs), seconds=20)
        if not broker.has_ended:
            broker.stop()
    finally:
        broker.kill()
    return unsaid(case, *logs)


def unsaid(case, *logs):
    """Return the messages of a case that are in none of these files."""
    said = "".join(log.read_text(errors="replace") for log in logs if log.exists())
    return [message for message in case.expected() if not re.search(spoken(message), said)]


def test_a_directory_in_use_is_free_once_the_other_process_lets_it_go(directories, tmp_path):
    data = directories(tmp_path)
    (message,) = SECTIONS["Directory in use"][0]
    # Without its lock, the broker says this, and may then wait for its own controller.
    with (
        bl.open_log_dir(data[0], sole_replica=True),
        mock.patch.object(kafka, "START_SECONDS", 20),
        pytest.raises(AssertionError),
    ):
        started(data, tmp_path / "first.log")
    assert re.search(spoken(message), (tmp_path / "first.log").read_text())
    with started(data, tmp_path / "second.log"):
        pass


def test_log_directories_have_the_metadata_in_the_first(directories, tmp_path):
    data = directories(tmp_path, 2)
    messages, commands = SECTIONS["Log directories in another order"]
    with pytest.raises(AssertionError):
        started(data[::-1], tmp_path / "server.log")
    assert re.search(spoken(messages[0]), (tmp_path / "server.log").read_text())
    assert typed(commands[0], tmp_path).splitlines() == ["data/__cluster_metadata-0"]
    with started(data, tmp_path / "after.log"):
        pass


def test_a_deleted_topic_comes_back(client, directories, tmp_path):
    """By the commands of the page: the broker is killed before it removes the files."""
    data = directories(tmp_path)
    save, fork, back = (SECTIONS[title][1][0] for title in BRINGING_BACK)
    broker = started(data, tmp_path / "server.log")
    try:
        rows = client.consume(broker, "orders")
        tool = [*java(NEWEST), SAY_LITTLE, "org.apache.kafka.tools.TopicCommand"]
        subprocess.run([*tool, "--bootstrap-server", broker.at, "--delete", "--topic", "orders"], check=True)
        until(lambda: len(list(data[0].glob("orders-*-delete"))) == 2)
    finally:
        broker.kill()
    typed(save, tmp_path)
    typed(fork, tmp_path)
    assert sum(one.num_rows for log in bl.LogDirs(tmp_path / "new").logs(["orders-old"]) for one in log.read()) == len(
        rows
    )
    with started([tmp_path / "new"], tmp_path / "new.log") as broker:
        assert [row["value"] for row in client.consume(broker, "orders-old")] == [row["value"] for row in rows]
    with started(data, tmp_path / "again.log") as broker:
        client.create(broker, "orders", partitions=2)
    typed(back, tmp_path)
    with started(data, tmp_path / "after.log") as broker:
        assert client.consume(broker, "orders") == rows


def test_the_jars_have_the_messages_that_no_case_makes():
    live = {message for case in CASES for message in case.expected()}
    rest = [one for one in MESSAGES if one not in live and not one.startswith(OF_TESTS)]
    unknown = [one for one in rest if not one.startswith(tuple(OF_JARS))]
    assert unknown == [], "neither a case nor a reason"
    constants = {unified(constant) for constant in string_constants(NEWEST)}
    for message in rest:
        assert any(unified(message) in constant for constant in constants), message


def test_each_message_is_listed_and_has_commands():
    text = PAGE.read_text()
    listed = re.findall(r"^\| `(.*)` \| \[(.*)\]\(#(.*)\) \|$", text, flags=re.MULTILINE)
    assert len(listed) >= 50
    for words, title, anchor in listed:
        assert anchor == re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
        pattern = ".+".join(map(re.escape, words.split(" ... ")))
        assert any(re.search(pattern, one.replace("`", "")) for one in SECTIONS[title][0]), words
    assert {title for _, title, _ in listed} == set(MESSAGES.values())
    for title in MESSAGES.values():
        assert SECTIONS[title][1], title
    assert {case.title for case in CASES} <= SECTIONS.keys()


def unified(text):
    """Return a text with one sign for each part that differs from case to case."""
    return re.sub(rf"\{{\}}|%s|%d|\x01|{PLACEHOLDER}", "\0", text)


def string_constants(version):
    """Return the strings in the classes of a release."""
    for jar in (BUILD / version / "lib").glob("kafka*.jar"):
        with zipfile.ZipFile(jar) as file:
            for name in file.namelist():
                if name.endswith(".class"):
                    yield from constants_of(file.read(name))


# The sizes of a constant pool's entries, tag included, but for strings in UTF-8 (JVM specification, 4.4).
SIZES = {3: 5, 4: 5, 5: 9, 6: 9, 7: 3, 8: 3, 9: 5, 10: 5, 11: 5, 12: 5, 15: 4, 16: 3, 17: 5, 18: 5, 19: 3, 20: 3}
UTF8, LONG, DOUBLE = 1, 5, 6


def constants_of(content):
    (count,) = struct.unpack_from(">H", content, 8)
    at, number = 10, 1
    while number < count:
        tag = content[at]
        if tag == UTF8:
            (length,) = struct.unpack_from(">H", content, at + 1)
            yield content[at + 3 : at + 3 + length].decode(errors="replace")
            at += 3 + length
        else:
            at += SIZES[tag]
        number += 2 if tag in (LONG, DOUBLE) else 1
