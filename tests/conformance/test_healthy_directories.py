"""A directory in which nothing is wrong: no verb finds anything that its broker does not share, at Kafka's defaults."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from fetch import OLDEST
from filling import EARLIEST_LOCAL
from kafka import AFTER_A_KILL, DEFAULT, NEWEST, Broker, OldBroker, again, start_nodes, tiered

import brokerless as bl
from brokerless.checking.codes import CODES
from brokerless.log_dir.recover import forecast
from brokerless.metadata.directory import metadata_among
from support.polling import until

OLDEST_KRAFT = "3.9.2"

# The indexes of active segments are preallocated: 10 MiB of zeros, in no whole number of entries of a time index.
DEFAULTS = {"log_index_size_max_bytes": 10 << 20, "offsets_topic_num_partitions": 50, "log_cleaner_backoff_ms": 100}
COMPACTED = {"cleanup_policy": "compact", "segment_ms": 50, "min_cleanable_dirty_ratio": 0.01}
# What a crash leaves, and what a broker puts in order when it starts.
OF_A_CRASH = {name for name, code in CODES.items() if code.severity == "note"} | {"checkpoint-ahead"}
# A stop does not wait for file.delete.delay.ms.
OF_A_STOP = {"leftover"}


@contextmanager
def ending(*brokers, is_killed):
    """Stop or kill brokers in the end; none outlives a failure."""
    try:
        yield
        if not is_killed:
            # Together: the metadata of two controllers need both.
            with ThreadPoolExecutor() as threads:
                list(threads.map(Broker.stop, brokers))
    finally:
        for one in brokers:
            one.kill()


def write(client, brokers, directories):
    """Write transactions and commits with the first of some brokers, delete and compact."""
    broker = brokers[0]
    for _ in range(5):
        client.produce(broker, "t", 0, 100)
    client.produce(broker, "t", 1, 50, mode="commit")
    client.produce(broker, "t", 1, 50, mode="abort")
    client.commit(broker, "g", "t", 0, 5)
    client.delete_records(broker, "t", 0, 42)
    replicas = [one.node_id for one in brokers] if len(brokers) > 1 else []
    client.create(broker, "c", replicas=replicas, **COMPACTED)
    until(lambda: has_compacted(client, broker, directories), what="the cleaner did not come", pause=0.2)


def has_compacted(client, broker, directories):
    """Write keys, and return whether the cleaner was there: a segment is rolled by the times of later records."""
    client.produce(broker, "c", 0, 50, "keyed")
    return any(bl.LogDirFiles(str(one)).first_dirty_offsets.get(("c", 0), 0) > 0 for one in directories)


def one(client, data, release, *, is_killed):
    """Make the directory of a single broker."""
    kind, version = (OldBroker, {}) if release == OLDEST else (Broker, {"version": release})
    broker = kind(data, log=data.with_name("broker.log"), **version, **DEFAULTS)
    with ending(broker, is_killed=is_killed):
        client.create(broker, "t", partitions=2, **{"segment_bytes": 1 << 20} if release == OLDEST else {})
        write(client, [broker], [data])
    return [data]


def two_disks(client, data, release, *, is_killed):
    directories = [data / "0", data / "1"]
    broker = Broker(*directories, log=data.with_name("broker.log"), version=release, **DEFAULTS)
    with ending(broker, is_killed=is_killed):
        client.create(broker, "t", partitions=2)
        write(client, [broker], directories)
    return directories


def pair(client, data, release, *, is_killed):
    directories = {1: [data / "0"], 2: [data / "1"]}
    # The last one to stop has no controllers any more: it would wait five minutes for their leave.
    brokers = start_nodes(directories, log=data.parent, version=release, controlled_shutdown_enable="false", **DEFAULTS)
    with ending(*brokers, is_killed=is_killed):
        client.create(brokers[0], "t", partitions=2, replicas=[1, 2])
        write(client, brokers, [data / "0", data / "1"])
    return [data / "0", data / "1"]


def tiering(client, data, release, *, is_killed):
    """Make a directory whose older segments are in remote storage alone."""
    properties = DEFAULTS | tiered(data.with_name("remote"))
    broker = Broker(data, log=data.with_name("broker.log"), version=release, **properties)
    with ending(broker, is_killed=is_killed):
        configs = {"remote_storage_enable": "true", "local_retention_bytes": 1, "segment_bytes": 1 << 20}
        client.create(broker, "t", partitions=2, **configs)
        for _ in range(30):
            client.produce(broker, "t", 0, 2000)
        until(lambda: client.offset(broker, "t", 0, EARLIEST_LOCAL) > 0, what="no segment was moved")
        write(client, [broker], [data])
    return [data]


def unhealthy(directories, *, is_killed):
    """Return what is found that is no trace of a crash, by each verb."""
    paths = list(map(str, directories))
    checked = [(one.code, str(one)) for one in bl.check(*paths, level="deep")]
    foreseen = [forecast(path, metadata=metadata_among(paths, path), beside=paths) for path in paths]
    reported = [(code, code) for code in bl.report(*paths).tables["findings"]["code"].to_pylist()]
    return [
        *(said for code, said in checked + reported if code not in (OF_A_CRASH if is_killed else OF_A_STOP)),
        *(why for one in foreseen for why in (*one.faults, *one.dropping, *one.cuts, *one.missing)),
    ]


@pytest.mark.parametrize("is_killed", [False, True], ids=["clean", "killed"])
@pytest.mark.parametrize(
    ("release", "make"),
    [
        (NEWEST, one),
        (OLDEST, one),
        *(again(release, one) for release in (DEFAULT, "4.0.2", OLDEST_KRAFT)),
        (NEWEST, two_disks),
        (NEWEST, pair),
        # The only release with a store of remote segments for tests.
        (DEFAULT, tiering),
        *(again(release, shape) for release in (DEFAULT, OLDEST_KRAFT) for shape in (two_disks, pair)),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_nothing_is_found_in_healthy_directories(client, tmp_path, release, make, is_killed):
    directories = make(client, tmp_path / "data", release, is_killed=is_killed)
    assert unhealthy(directories, is_killed=is_killed) == []


def test_indexes_that_a_power_failure_left_unflushed_are_made_anew(client, tmp_path):
    (data,) = one(client, tmp_path / "data", NEWEST, is_killed=True)
    rows = {level: offsets(data, level) for level in ("read_uncommitted", "read_committed")}
    (aborted,) = data.glob("t-1/*.txnindex")
    aborted.write_bytes(b"")
    for index in (*data.glob("t-0/*.index"), *data.glob("t-1/*.timeindex")):
        index.write_bytes(b"\xff" * 24)
    assert "index-unflushed" in {one.code for one in bl.check(data, level="deep")}
    assert unhealthy([data], is_killed=True) == []
    with Broker(data, log=tmp_path / "again.log", version=NEWEST, **AFTER_A_KILL, **DEFAULTS) as broker:
        for level, expected in rows.items():
            assert [row["offset"] for row in client.consume(broker, "t", level) if row["partition"] == 1] == expected


def offsets(data, level):
    read = bl.Log(data / "t-1").read(columns=["offset"], isolation_level=level)
    return [offset for rows in read for offset in rows["offset"].to_pylist()]
