"""One verdict: what `check` and `recover` say of a broker's start on a changed directory, and what the broker does.

Each change is made to a directory that is otherwise sound: see `changes_of_small_files.py`. A broker stops, or starts
and lacks something that it should serve, or serves all: records, and where a group goes on.
"""

import os
import random
import re
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from unittest import mock

import kafka
import pytest
from changes_of_small_files import CHANGES, TWO_DISKS, appended
from fetch import OLDEST
from kafka import NEWEST, Broker, Client, OldBroker

import brokerless as bl
from brokerless.errors import CorruptRecordError
from brokerless.layout.file_names import parse_directory_name
from brokerless.log_dir.recover import Forecast, forecast
from brokerless.metadata.directory import metadata_among
from brokerless.recovery.load_result import SilentLossError
from brokerless.state.internal_topic import java_hash
from support.polling import until
from support.state_records import transaction_key, transaction_value

# A forecast warns of what damage hides.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
OLDEST_KRAFT = "3.9.2"
# Of a broker with ZooKeeper: it has no metadata log, and other ids.
OF_KRAFT = re.compile(
    r"meta: |metadata|quorum|formatted|bootstrap|snapshot|topic id|directory: (?!lost|-|\.|t-|t$)|stray"
    r"|.* in place of (__cluster_metadata|bootstrap|meta)"
)
# 2.8 takes these in another way than later releases: docs/findings.md says so of `file-unknown`, `leftover` and
# `state-record`. Only ZooKeeper knows which partitions are gone.
OF_LATER = {
    "file: x.swap",
    f"directory: t-0.{'0' * 32}-stray",
    "groups: a key of an unknown version",
    "groups: a key of a negative version",
    "directory: t-0 gone",
}
# Releases up to 4.1 read only the first byte of a version: docs/findings.md says so of `transaction-version`.
OF_NEWEST = {"txnindex: an entry of another version"}
# One of each kind; `make conformance` tries all.
OF_EACH = (
    "meta: empty",
    "meta: no directory.id",
    "recovery-point-offset-checkpoint: malformed",
    "log-start-offset-checkpoint: no number",
    "epochs: a negative epoch",
    "topic id: empty",
    "bootstrap: garbage",
    "formatted: a flipped bit at 66 of batch 1",
    "quorum: version 9",
    "file: backup.log",
    "file: x.swap",
    "folder: 00000000000000000009.log",
    "directory: t-00",
    "metadata: a fence with a wrong epoch",
    "metadata: an invalid setting",
    "snapshot: a flipped bit",
    "groups: a value cut",
    "deleted: damaged epochs",
)
LOADED = r"Finished loading .* from __transaction_state-(\d)"
STOPS, LACKS, SERVES = "does not start", "starts and lacks something", "serves all"


def template(path, release, disks=1):
    """Make a directory, or several of a broker, in which nothing is wrong."""
    client = Client()
    with start(path, release, disks, metadata_log_max_record_bytes_between_snapshots=1500) as broker:
        client.create(broker, "t", partitions=2)
        for _ in range(3):
            client.produce(broker, "t", 0, 20)
            client.produce(broker, "t", 1, 5)
        client.produce(broker, "t", 1, 5, mode="commit")
        for partition in range(2):
            client.commit(broker, "g", "t", partition, 5)
        expected = served(client, broker)
    client.close()
    return expected


def start(path, release, disks=1, **options):
    log = path / "broker.log"
    path.mkdir(exist_ok=True)
    if release == OLDEST:
        options = {name: value for name, value in options.items() if not name.startswith("metadata")}
        return OldBroker(path / "disk0", log=log, **options)
    return Broker(*(path / f"disk{number}" for number in range(disks)), log=log, version=release, **options)


def served(client, broker):
    """Return the records that a broker serves, from the beginning and from where the group goes on."""
    leaders = {topic: row["leaders"] for topic, row in client.topics(broker).items()}
    if "t" not in leaders or -1 in [node for nodes in leaders.values() for node in nodes]:
        return None
    found = client.consume(broker, "t", patience=10)
    rows, error = client.answer("consume", at=broker.at, topic="t", isolation="read_uncommitted", group="g", patience=5)
    return [row["offset"] for row in found], sorted(row["offset"] for row in rows), error


def unserved(client, broker, path):
    """Return the directories that a broker renamed `-stray`, or keeps and serves as no partition."""
    served = {
        (topic, partition) for topic, row in client.topics(broker).items() for partition in range(len(row["leaders"]))
    }
    found = set()
    for directory in filter(Path.is_dir, path.glob("*/*")):
        with suppress(ValueError):
            topic, partition, leftover = parse_directory_name(directory.name)
            is_own = topic == "__cluster_metadata" or leftover in ("delete", "future")
            # What was being moved may become stray: the partition stays where it is.
            is_stray = leftover == "stray" and not (directory.parent / f"{topic}-{partition}").exists()
            if is_stray or not (is_own or leftover or (topic, partition) in served):
                found.add(directory)
    return found


def outcome(client, path, release, expected, disks, seconds):
    """Return what a broker does on a directory, in these seconds after it served what is expected."""
    strays = set(path.glob("*/*-stray"))
    try:
        broker = start(path, release, disks)
    except AssertionError:
        return STOPS
    try:
        # A directory may go offline a moment after the start.
        until(lambda: broker.has_ended or served(client, broker) == expected, seconds=8, pause=0.2)
        # Before its controller knows what it registered with, a broker serves what it did before.
        time.sleep(seconds)
        is_lasting = broker.has_ended or served(client, broker) == expected
        # Without the metadata, which ZooKeeper has, nothing in a directory tells that its topic is unknown.
        if release != OLDEST and not broker.has_ended:
            is_lasting &= unserved(client, broker, path) <= strays
    except AssertionError:
        return STOPS if broker.has_ended else LACKS
    finally:
        has_ended = broker.has_ended
        broker.kill()
    if has_ended:
        return STOPS
    return SERVES if is_lasting else LACKS


def of_fault(said, paths):
    """Return what a sentence about a fault says."""
    return LACKS if "takes this log directory offline" in said and len(paths) > 1 else STOPS


def of_check(paths):
    """Return what the findings say. A broker knows nothing of records that only checkpoints tell of."""
    found = list(bl.check(*paths, level="deep"))
    said = {of_fault(one.message, paths) for one in found if one.kind.stops_broker}
    said |= {LACKS for one in found if one.kind.is_unserved}
    return worst(said)


def of_recover(paths):
    said, forecasts = set(), []
    for path in paths:
        try:
            forecasts.append(forecast(path, metadata=metadata_among(paths, path), beside=paths))
        except SilentLossError:
            said.add(LACKS)
        except CorruptRecordError as error:
            said.add(of_fault(str(error), paths))
    found = Forecast.of_all(forecasts)
    said |= {of_fault(str(one), paths) for one in found.faults}
    mended = any("a broker serves no partition" in str(step) for _, steps in found.steps for step in steps)
    return worst(said | ({LACKS} if found.dropping or mended else set()))


def worst(said):
    return next((one for one in (STOPS, LACKS) if one in said), SERVES)


def disagreements(tmp_path, release, names, changes, disks=1):
    """Return the changes of which not all say the same."""
    whole = tmp_path / "whole"
    expected = template(whole, release, disks)

    clients = SimpleQueue()
    for _ in range(2):
        clients.put(Client())

    def disagreement(number, name, seconds):
        path = shutil.copytree(whole, tmp_path / f"{number}")
        data = [path / f"disk{disk}" for disk in range(disks)]
        changes[name](*data)
        paths = list(map(str, data))
        said = of_check(paths), of_recover(paths)
        client = clients.get()
        try:
            found = outcome(client, path, release, expected, disks, seconds)
        finally:
            clients.put(client)
            shutil.rmtree(path)
        # A recovery does not look at what a coordinator will load.
        is_of_groups = "groups: " in name and said[1] == SERVES
        agrees = said[0] == found and (said[1] == found or is_of_groups)
        return None if agrees else f"{release}, {name}: a broker {found}; check: {said[0]}; recover: {said[1]}"

    def lasting_disagreement(numbered):
        # A machine with other work may show a broker's first state for long: what differs is looked at once more.
        return disagreement(*numbered, seconds=4) and disagreement(*numbered, seconds=20)

    # Formatting is what an administrator does with a new directory, and these are none.
    with ThreadPoolExecutor(2) as threads, mock.patch.multiple(kafka, format_again=nothing, format_directories=nothing):
        found = list(threads.map(lasting_disagreement, enumerate(names)))
    while not clients.empty():
        clients.get().close()
    return [one for one in found if one is not None]


def nothing(*_):
    """Do what formatting does not."""


def of_release(release):
    if release == OLDEST_KRAFT:
        # The tool that describes all topics fails at this one, and none of them is missing.
        return [name for name in CHANGES if name not in {"metadata: a topic of a bad name", *OF_NEWEST}]
    return [name for name in CHANGES if release != OLDEST or not (OF_KRAFT.match(name) or name in OF_LATER | OF_NEWEST)]


def test_one_verdict_on_each_kind_of_change(tmp_path):
    assert disagreements(tmp_path, NEWEST, OF_EACH, CHANGES) == []


@pytest.mark.again
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("release", [NEWEST, OLDEST_KRAFT, OLDEST])
def test_one_verdict_on_all_changes(tmp_path, release, part):
    assert disagreements(tmp_path, release, of_release(release)[part::4], CHANGES) == []


@pytest.mark.again
@pytest.mark.parametrize("release", [NEWEST, OLDEST_KRAFT, OLDEST])
def test_one_verdict_on_changes_together(tmp_path, release):
    """Two or three changes, which may hide one another."""
    drawn = random.Random(f"{os.environ['BROKERLESS_HUNT_FROM']} {release}")
    changes = {}
    (tmp_path / "scratch").mkdir()
    template(tmp_path / "scratch/whole", release)
    while len(changes) < 40:
        names = drawn.sample(of_release(release), drawn.choice([2, 2, 3]))
        path = shutil.copytree(tmp_path / "scratch/whole", tmp_path / "scratch/copy")
        # A change may take away the file of another one.
        with suppress(OSError, CorruptRecordError):
            in_turn(names, path / "disk0")
            changes[" + ".join(names)] = partial(in_turn, names)
        shutil.rmtree(path)
    assert disagreements(tmp_path, release, changes, changes) == []


def in_turn(names, data):
    for name in names:
        CHANGES[name](data)


@pytest.mark.again
@pytest.mark.parametrize("release", [NEWEST, OLDEST_KRAFT])
def test_one_verdict_on_two_directories_of_a_broker(tmp_path, release):
    assert disagreements(tmp_path, release, TWO_DISKS, TWO_DISKS, disks=2) == []


def test_the_order_of_directories_is_told_where_a_broker_stops(tmp_path):
    """The names of docs/guides/troubleshooting.md; no file in the directories tells their order."""
    template(tmp_path / "whole", NEWEST, disks=2)
    directories = [tmp_path / "whole/disk1", tmp_path / "whole/disk0"]
    stops = pytest.raises(AssertionError, match="Found unexpected metadata location in data directory")
    with mock.patch.multiple(kafka, format_again=nothing, format_directories=nothing), stops:
        Broker(*directories, log=tmp_path / "broker.log", version=NEWEST)


def test_the_records_of_transactions_are_loaded_up_to_one_that_cannot_be_decoded(tmp_path, client):
    template(tmp_path / "sound", NEWEST)
    data = tmp_path / "sound/disk0"
    topic = f"__transaction_state-{java_hash('later') % 2}"
    damaged = shutil.copytree(tmp_path / "sound", tmp_path / "damaged") / "disk0"
    later = transaction_key("later"), transaction_value(4711, 0)
    appended(data, topic, [later])
    appended(damaged, topic, [(transaction_key("broken"), b"x"), later])
    assert [one.code for one in bl.check(data, level="deep")] == []
    (found,) = bl.check(damaged, level="deep")
    assert (found.code, found.path) == ("state-record", str(damaged / topic))
    with mock.patch.multiple(kafka, format_again=nothing, format_directories=nothing):
        for path, loads in ((data.parent, True), (damaged.parent, False)):
            with start(path, NEWEST) as broker:
                until(lambda broker=broker: len(set(re.findall(LOADED, broker.log))) == 2)
                ids = {row["id"] for row in client.state(broker, "transactions")}
                assert ("later" in ids) == loads


def test_the_matrix_is_large_enough():
    assert len(of_release(NEWEST)) > 150
    assert len(of_release(OLDEST)) > 60
