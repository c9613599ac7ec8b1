"""Logs that we rewrote, in the hands of real brokers: loaded as they are, every record served, cleaned again."""

import base64
import re
import shutil
from unittest import mock

import pyarrow as pa
import pytest
from faults import RememberingDisk, each_crash
from filling import CODECS, NOW, PRODUCER, check_with_dump_tool, seen, transaction, write
from kafka import AFTER_A_KILL, DEFAULT, EACH_RELEASE, NEWEST, OLDER, Broker, OldBroker, again, as_consumed, complaints

import brokerless as bl
from brokerless import Compaction, Conversion, Erasure, Retention, Truncation, _native, rewrite
from brokerless.io import disk
from brokerless.io.clock import now_ms
from brokerless.rewriting.run import rewrite_each
from support.drop_batches import Repeating, change_settings
from support.log_files import batch
from support.polling import until

EARLIEST, LATEST = -2, -1
ROW = pa.schema([("key", pa.binary()), ("value", pa.binary())])
COMPACTED = {"keyed": True, "cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.01}
# Of a topic that a broker would not compact.
COMPACTION = Compaction(cleanup_policy="compact")


def fill(data, *, keyed=False, **settings):
    """Partition 0: every codec, partition 1: transactions of both ends; many records of few keys, many segments."""
    with bl.create_log_dir(data) as log_dir:
        log_dir.create_topic("t", 2, segment_bytes=4096, **settings)
        log = log_dir.log("t", 0)
        for codec in CODECS:
            write(log, 200, codec, keyed=keyed)
        log = log_dir.log("t", 1)
        for number, commit in enumerate((True, False, False, True)):
            transaction(log, PRODUCER + number, 120, commit=commit, keyed=keyed)
        write(log, 20, keyed=keyed)
    return data


def latest(rows):
    """Return the last value of each key that has one, by partition."""
    found = {(row["partition"], row["key"]): row for row in rows}
    return {key: row for key, row in found.items() if row["value"] is not None}


def check_served(client, broker, expected):
    for level, rows in expected.items():
        assert client.consume(broker, "t", level) == rows
    assert "Skipping recovery of" in broker.log
    assert complaints(broker.log) == []


def first_dirty_offset(data, partition=0):
    return bl.LogDirFiles(str(data)).first_dirty_offsets.get(("t", partition), 0)


def wait_for_cleaner(data, beyond, partition=0):
    until(lambda: first_dirty_offset(data, partition) > beyond, what=f"the cleaner never got beyond {beyond}")


def test_compacted(client, tmp_path):
    """A broker's own cleaner goes on from where ours has come to."""
    data = fill(tmp_path / "data", **COMPACTED)
    before = seen(data, "t")
    done = rewrite(Compaction(roll=True), data, topics=["t"])
    assert [result.name for result in done] == ["t-0", "t-1"]
    for partition in (0, 1):
        check_with_dump_tool(client, data / f"t-{partition}")
    after = seen(data, "t")
    assert len(after["read_uncommitted"]) < len(before["read_uncommitted"]) / 10
    assert latest(after["read_committed"]) == latest(before["read_committed"])
    cleaned = first_dirty_offset(data)
    assert cleaned == 1000
    with Broker(data, log=tmp_path / "broker.log", log_cleaner_backoff_ms=100) as broker:
        check_served(client, broker, after)
        for _ in range(4):
            client.produce(broker, "t", 0, 50, "keyed")
        stored = client.consume(broker, "t", "read_committed")
        wait_for_cleaner(data, cleaned)
        rows = client.consume(broker, "t", "read_committed")
        assert latest(rows) == latest(stored)
        assert complaints(broker.log) == []


@pytest.mark.parametrize("operation", [Conversion(compression="zstd"), COMPACTION, Erasure(key_prefixes=(b"key-1",))])
def test_a_dry_run_beside_a_running_broker(client, tmp_path, operation):
    """It reports what it would once the broker has stopped, and the broker notices nothing."""
    data = fill(tmp_path / "data", keyed=True, retention_ms=-1)
    with Broker(data, log=tmp_path / "broker.log") as broker:
        client.produce(broker, "t", 0, 50, "keyed")
        with pytest.warns(UserWarning, match="is in use by a broker or another writer"):
            found = rewrite(operation, data, topics=["t"], dry_run=True)
        assert client.consume(broker, "t", "read_committed")
        assert complaints(broker.log) == []
    expected = rewrite(operation, data, topics=["t"], dry_run=True)
    assert [(one.name, one.report) for one in found] == [(one.name, one.report) for one in expected]


def end_with_an_expired_tombstone(data):
    """Two partitions whose closed segments do; of partition 0 these end at the high watermark."""
    with bl.create_log_dir(data) as log_dir:
        log_dir.create_topic("t", 2, cleanup_policy="compact", delete_retention_ms=0, min_cleanable_dirty_ratio=0.01)
        for partition in (0, 1):
            log = log_dir.log("t", partition)
            encoder = _native.Encoder()
            for row in ({"key": b"a", "value": b"1"}, {"key": b"b", "value": b"2"}, {"key": b"a", "value": None}):
                log.append_each(encoder.encode(pa.RecordBatch.from_pylist([row], ROW), timestamp=NOW))
            # stamps it with the time from which on it goes, which is now
            log.run(bl.Compaction(roll=True))
            if partition == 1:
                log.append_each(encoder.encode(pa.RecordBatch.from_pylist([row], ROW), timestamp=NOW))
    (data / "cleaner-offset-checkpoint").unlink()


def spans(data, partition):
    """Return the offsets and the number of records of each batch of the closed segments."""
    segments = bl.LogDirs(data).log("t", partition).segments[:-1]
    rows = [row for segment in segments for found in segment.scan() for row in found.to_pylist()]
    return [(row["base_offset"], row["last_offset"], row["records_count"]) for row in rows]


@pytest.mark.parametrize("version", EACH_RELEASE)
def test_what_is_left_of_a_last_batch_without_records_is_what_the_cleaner_of_that_release_leaves(
    client, tmp_path, version
):
    """Else offsets of the log's end are lost, or headers stay that the broker's cleaner would have taken out."""
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    end_with_an_expired_tombstone(theirs)
    shutil.copytree(theirs, ours)
    rewrite(Compaction(release=version), ours, topics=["t"])
    with Broker(theirs, log=tmp_path / "broker.log", version=version, log_cleaner_backoff_ms=100):
        for partition in (0, 1):
            wait_for_cleaner(theirs, 2, partition)
    emptied, is_newer = (2, 2, 0), version != DEFAULT
    assert spans(theirs, 0) == [(1, 1, 1), emptied]
    assert spans(theirs, 1) == [(1, 1, 1), emptied][: 1 if is_newer else 2]
    for partition in (0, 1):
        assert first_dirty_offset(ours, partition) == first_dirty_offset(theirs, partition)
        (log,) = {path.read_bytes() for one in (ours, theirs) for path in (one / f"t-{partition}").glob("*0.log")}
        assert log


def test_compacted_into_more_segments_than_there_were(client, tmp_path):
    """Where the indexes have no slot left. Kafka's own cleaner fails there, so it does not go on."""
    data = fill(tmp_path / "data", index_interval_bytes=0, **COMPACTED)
    before = seen(data, "t")
    with bl.open_log_dir(data, sole_replica=True) as log_dir:
        for partition in (0, 1):
            log_dir.log("t", partition).roll()
    change_settings(data, "t", segment_index_bytes=24, segment_bytes=1 << 20)
    (done, _) = rewrite(Compaction(), data, topics=["t"])
    made = {segment.cleaned_base_offset for segment in done.report.segments}
    directory = data / "t-0"
    segments = [segment.base_offset for segment in bl.Log(directory).segments]
    assert len(segments) > len(made)
    after = seen(data, "t")
    assert latest(after["read_committed"]) == latest(before["read_committed"])
    for partition in (0, 1):
        check_with_dump_tool(client, data / f"t-{partition}")
    change_settings(data, "t", cleanup_policy="delete")
    with Broker(data, log=tmp_path / "broker.log") as broker:
        check_served(client, broker, after)
        client.produce(broker, "t", 0, 50, "keyed")


@pytest.mark.parametrize(
    "verb",
    [
        Conversion(compression="zstd", compression_level=1),
        Conversion(compression="none"),
        Conversion(batch_size=65536),
        Conversion(magic=1, compression="lz4", drop=frozenset({"headers", "producers"})),
        Erasure(keys=(b"key-3",), key_prefixes=(b"key-5",)),
        Erasure(headers=((b"h", b"6"),), blank=True),
    ],
    ids=["zstd", "none", "large batches", "downgraded", "erased", "blanked"],
)
def test_converted_or_erased(client, tmp_path, verb):
    """Also what is downgraded: a broker of 4.1 reads format 1."""
    data = fill(tmp_path / "data", keyed=True)
    before = seen(data, "t")
    rewrite(verb, data, topics=["t"])
    for partition in (0, 1):
        check_with_dump_tool(client, data / f"t-{partition}")
    after = seen(data, "t")
    if isinstance(verb, Conversion) and verb.magic is None:
        assert after == before
    elif isinstance(verb, Conversion):
        # leader epochs and headers went, and what was aborted
        assert after["read_uncommitted"] == after["read_committed"]
        assert [lower(row) for row in after["read_committed"]] == [lower(row) for row in before["read_committed"]]
    elif verb.blank:
        changed = [row for row in after["read_uncommitted"] if row not in before["read_uncommitted"]]
        assert changed
        assert {row["value"] for row in changed} == {""}
        assert len(after["read_uncommitted"]) == len(before["read_uncommitted"])
    else:
        gone = {base64.b64encode(key).decode() for key in (b"key-3", b"key-5")}
        assert after == {level: [row for row in rows if row["key"] not in gone] for level, rows in before.items()}
    with Broker(data, log=tmp_path / "broker.log") as broker:
        served = {level: client.consume(broker, "t", level) for level in after}
        if isinstance(verb, Conversion) and verb.magic == 1:
            # which the consumer has from the broker, where the log has none
            served, after = (
                {level: [lower(row) for row in rows] for level, rows in one.items()} for one in (served, after)
            )
        assert served == after
        sent = client.produce(broker, "t", 0, 20, "keyed")
        assert sent[0]["offset"] == 1000
        assert "Skipping recovery of" in broker.log
        assert complaints(broker.log) == []


def lower(row):
    """Return what format 1 has of a row."""
    return {name: row[name] for name in ("partition", "offset", "timestamp", "key", "value")}


@pytest.mark.parametrize("magic", [0, 1])
def test_downgraded_for_an_old_broker(client, tmp_path, magic):
    """Which knows no headers, producers or transactions, goes on with the log, and cleans it."""
    data = tmp_path / "data"
    with bl.create_log_dir(data, kraft=False) as log_dir:
        log_dir.create_topic("t", 2, segment_bytes=4096)
        for codec in ("none", "gzip", "snappy", "lz4"):
            write(log_dir.log("t", 0), 200, codec, keyed=True)
        for number, commit in enumerate((True, False)):
            transaction(log_dir.log("t", 1), PRODUCER + number, 120, commit=commit, keyed=True)
        # the consumer here waits for the end offset, which it does not get to where nothing is before it
        write(log_dir.log("t", 1), 20, keyed=True)
    verb = Conversion(magic=magic, drop=frozenset({"headers", "producers"}))
    rewrite(verb, data, topics=["t"])
    ours = as_consumed(bl.LogDirs(data), "t")
    assert len(ours) == 800 + 120 + 20
    with OldBroker(data, log=tmp_path / "broker.log", message_format=magic) as broker:
        client.create(broker, "t", 2)
        served = client.consume(broker, "t")
        for row in (*served, *ours):
            del row["leaderEpoch"]  # the consumer has it from the broker, not from the log
        assert served == ours
        sent = client.produce(broker, "t", 0, 50, "plain")
        assert [record["offset"] for record in sent] == list(range(800, 850))
        assert complaints(broker.log) == []


def test_no_broker_complains_of_a_deletion_that_was_killed_or_starts_its_log_elsewhere(client, tmp_path):
    """Each topic is as another kill left it."""
    data, before = tmp_path / "data", 7
    with bl.create_log_dir(data) as log_dir:
        for number in range(60):
            log_dir.create_topic(f"t{number}", segment_bytes=300, index_interval_bytes=0, segment_index_bytes=1200)
        for number in range(60):
            log = log_dir.log(f"t{number}", 0)
            for _ in range(12):
                write(log, 1)
    (tmp_path / "one").mkdir()
    used, left = tmp_path / "one/data", 0
    shutil.copytree(data, used, ignore=lambda _, names: [name for name in names if re.fullmatch(r"t[1-9]\d*-0", name)])
    for crash in each_crash(lambda path: rewrite(Retention(before_offset=before), path, topics=["t0"]), used, tmp_path):
        kept = (data / f"t{left}-0" / "partition.metadata").read_bytes()
        shutil.rmtree(data / f"t{left}-0")
        shutil.copytree(crash.directory / "t0-0", data / f"t{left}-0")
        (data / f"t{left}-0" / "partition.metadata").write_bytes(kept)
        left += 1
    # Before the checkpoints were written, and without the marker
    (data / ".kafka_cleanshutdown").unlink()
    expected = {log.topic: log.log_start_offset for log in bl.LogDirs(data).logs()}
    assert len(set(expected.values())) > 3
    with Broker(data, log=tmp_path / "broker.log", version=NEWEST, **AFTER_A_KILL) as broker:
        for number in range(left):
            topic = f"t{number}"
            assert client.offset(broker, topic, 0, EARLIEST) == expected[topic], topic
            assert client.offset(broker, topic, 0, LATEST) == 12, topic
        # A broker that is killed amid a deletion leaves indexes without a log, too.
        usual = "Recovering unflushed|clean shutdown|Found an orphaned index"
        of_logs = [line for line in complaints(broker.log) if "partition=t" in line]
        assert [line for line in of_logs if not re.search(usual, line)] == []


def test_retained(client, tmp_path):
    """The log start offset of the checkpoint counts, and what is before it is gone."""
    data = fill(tmp_path / "data")
    rewrite(Retention(before_offset=333), data, topics=["t"])
    assert bl.LogDirFiles(str(data)).log_start_offsets == {("t", 0): 333, ("t", 1): 333}
    expected = seen(data, "t")
    assert min(row["offset"] for row in expected["read_uncommitted"]) == 333
    with Broker(data, log=tmp_path / "broker.log") as broker:
        check_served(client, broker, expected)


@pytest.mark.parametrize("version", [NEWEST, again(OLDER[0])])
def test_a_broker_keeps_and_deletes_segments_by_the_times_that_we_name(client, tmp_path, version):
    """In the future, in seconds and in microseconds: the broker judges by them as they are."""
    day, now = 86_400_000, now_ms()
    times = {"now": now, "old": now - 2 * day, "future": now + 900 * day, "seconds": now // 1000, "micro": now * 1000}
    data = tmp_path / "data"
    with bl.create_log_dir(data, release=".".join(version.split(".")[:2])) as log_dir:
        for topic, time in times.items():
            log_dir.create_topic(topic, segment_bytes=100, retention_ms=day, message_timestamp_after_max_ms=1 << 62)
            for offset, timestamp in enumerate((time, now - 2 * day, now)):
                log_dir.log(topic, 0).append_as_follower(batch(offset, [b"x"], timestamp=timestamp))
    planned = rewrite(Retention(retention_ms=day), data, topics=list(times), dry_run=True)
    expected = {one.topic: one.report.log_start_offset for one in planned}
    assert expected == {"now": 0, "old": 2, "future": 0, "seconds": 2, "micro": 0}
    quickly = {"log_retention_check_interval_ms": 200, "log_initial_task_delay_ms": 100}
    with Broker(data, log=tmp_path / "broker.log", version=version, **quickly) as broker:
        until(lambda: client.offset(broker, "old", 0, EARLIEST) == client.offset(broker, "seconds", 0, EARLIEST) == 2)
        assert {topic: client.offset(broker, topic, 0, EARLIEST) for topic in times} == expected


@pytest.mark.parametrize("in_place", [False, True])
def test_a_log_as_it_was(client, tmp_path, in_place):
    """Of one partition. A copy's other one is made anew, empty, since the metadata name it."""
    data = fill(tmp_path / "data")
    before = seen(data, "t")
    new = data if in_place else tmp_path / "new"
    output = None if in_place else new
    truncation = Truncation(offset=500, sole_replica=in_place)
    (done,) = rewrite(truncation, data, topics=["t"], partitions=[0], output=output)
    end = done.report.log_end_offset
    assert 450 < end <= 500
    expected = {
        level: [row for row in rows if (row["offset"] < end if row["partition"] == 0 else in_place)]
        for level, rows in before.items()
    }
    assert seen(new, "t") == expected
    with Broker(new, log=tmp_path / "broker.log") as broker:
        check_served(client, broker, expected)
        assert [record["offset"] for record in client.produce(broker, "t", 0, 1, "keyed")] == [end]


def cut_short(tmp_path, work, before):
    """Return what `tmp_path / "data"` is when its work is killed before the first step of this form."""
    remembering = RememberingDisk(tmp_path / "data")
    with mock.patch.object(disk, "os", remembering):
        work(tmp_path / "data")
    step = next(number for number, step in enumerate(remembering.steps) if re.fullmatch(before, step))
    return remembering.left("kill", tmp_path / "killed", step)


@pytest.mark.parametrize(
    ("renamed", "is_new"),
    [
        (".index.cleaned", False),  # some of the new files have their next name
        (".log", True),  # all have it, and the old ones are there
        (".index", True),  # of some old segments only the log is out of the way
        (".log.swap", True),  # all old ones are
        (".timeindex.swap", True),  # some new files have their final name
    ],
)
def test_a_swap_that_was_cut_short(client, tmp_path, renamed, is_new):
    """The broker completes it or takes it back, as our own reads do."""
    old = seen(fill(tmp_path / "data", keyed=True), "t")

    data = cut_short(
        tmp_path,
        lambda path: rewrite(COMPACTION, path, topics=["t"], partitions=[0]),
        before=rf"rename \S+/\d+{renamed}",
    )
    assert [path.name for path in (data / "t-0").iterdir() if path.name.endswith((".cleaned", ".swap"))]
    ours = seen(data, "t")
    assert (len(ours["read_uncommitted"]) < len(old["read_uncommitted"])) is is_new
    with Broker(data, log=tmp_path / "broker.log") as broker:
        assert {level: client.consume(broker, "t", level) for level in ours} == ours
    assert not [path.name for path in (data / "t-0").iterdir() if path.name.endswith((".cleaned", ".swap"))]


def test_attempts_that_a_killed_owner_left(client, tmp_path):
    """Attempts stand beside the partition, and some of the new files are moved: the old rows are served."""
    old = seen(fill(tmp_path / "data", keyed=True), "t")

    data = cut_short(
        tmp_path,
        lambda path: list(rewrite_each(COMPACTION, [path], topics=["t"], partitions=[0], runner=Repeating())),
        before=r"rename \S+/\d+\.index\.cleaned",
    )
    assert len([path for path in data.glob("t-0.*-delete/*") if path.is_dir()]) == 2
    assert list((data / "t-0").glob("*.cleaned"))
    with Broker(data, log=tmp_path / "broker.log") as broker:
        assert {level: client.consume(broker, "t", level) for level in old} == old
    assert not list((data / "t-0").glob("*.cleaned"))


@pytest.mark.parametrize("how", ["abort", "cut"])
def test_a_copy_as_it_was_in_the_middle_of_a_transaction(client, tmp_path, how):
    """No coordinator of the new cluster would ever end it, and a consumer of committed records would stop there."""
    data = fill(tmp_path / "data")
    new = tmp_path / "new"
    with bl.open_log_dir(data, sole_replica=True) as log_dir:
        log = log_dir.log("t", 1)
        begin = log.log_end_offset
        write(log, 50, producer_id=PRODUCER + 9, producer_epoch=0, base_sequence=0, is_transactional=True)
        write(log, 10)
    rewrite(Truncation(offset=begin + 60, open_transactions=how), data, topics=["t"], output=new)
    expected = seen(new, "t")
    with Broker(new, log=tmp_path / "broker.log") as broker:
        check_served(client, broker, expected)
        client.produce(broker, "t", 1, 5)
        stored = [row for row in client.consume(broker, "t", "read_committed") if row["partition"] == 1]
    before = [row["offset"] for row in expected["read_committed"] if row["partition"] == 1]
    assert len(stored) == len(before) + 5
    assert (max(before) >= begin) is (how == "abort")
