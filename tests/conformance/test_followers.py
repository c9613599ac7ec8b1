"""A leader's directory that we rewrote, and the follower that goes on from what it has."""

import re
import shutil
import time

import pytest
from filling import ISOLATION_LEVELS, seen
from kafka import START_SECONDS, Broker, as_consumed

import brokerless as bl
from brokerless import Conversion, rewrite
from brokerless.log_dir.recover import recovered
from brokerless.metadata.uncommitted import Uncommitted

# Far larger than the batches that are written.
LARGE = 1 << 16


def pair(tmp_path, number, **properties):
    """Start the leader, which is its cluster's controller, with these properties, then the follower; return both."""
    quick = {"replica_high_watermark_checkpoint_interval_ms": 100}
    leader = Broker(tmp_path / "leader", log=tmp_path / f"leader-{number}.log", **quick, **properties)
    return leader, Broker(tmp_path / "follower", log=tmp_path / f"follower-{number}.log", node_id=2, joins=leader)


# Longer than any test: nobody takes a killed follower out of sync while its leader lives, however slow the machine is.
PATIENT = {"broker_session_timeout_ms": 3_600_000, "replica_lag_time_max_ms": 3_600_000}


def write_ahead_of_the_follower(client, tmp_path):
    """Kill both, the follower first: in the metadata it is in sync, and has half of what the leader has."""
    leader, follower = pair(tmp_path, 1, **PATIENT)
    try:
        # A controller that starts again fences both dead brokers in the same pass, in the order of a hash of their ids
        # and epochs, so in any. Without this setting only the one fenced last could lead again: where that is the
        # follower, the leader would drop what it lacks. With it the first that is back leads: that is the leader, as
        # `pair` starts the follower only once the leader has started, which it has not before it is unfenced.
        client.create(leader, "t", replicas=[1, 2], unclean_leader_election_enable="true")
        client.produce(leader, "t", 0, 100, "plain", batch_size=200)
        wait_until(lambda: bl.LogDirFiles(str(tmp_path / "leader")).high_watermarks.get(("t", 0)) == 100)
        follower.kill()
        client.produce(leader, "t", 0, 100, "plain", batch_size=200, acks=1)
        consumed = client.topics(leader)["t"]
        assert consumed["isr"] == [[1, 2]]
    finally:
        leader.kill()
        follower.kill()
    log = bl.LogDirs(tmp_path / "leader").log("t", 0)
    (said,) = Uncommitted([log]).of(log, log.plan())
    assert said.startswith(
        "it is not known whether offsets 100 to 199 of t-0 were committed, because the partition has 2"
    )
    list(recovered(str(tmp_path / "leader")))


def wait_until(is_so):
    deadline = time.monotonic() + START_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def batches(data):
    log = bl.LogDirs(data).log("t", 0)
    return [(row["base_offset"], row["last_offset"]) for rows in log.scan() for row in rows.to_pylist()]


def follow(client, tmp_path, is_so):
    """Start both again, and wait."""
    leader, follower = pair(tmp_path, 2)
    with leader, follower:
        wait_until(lambda: is_so(leader, follower))
        return {level: client.consume(leader, "t", level) for level in ISOLATION_LEVELS}


def test_batches_are_joined_only_below_what_a_follower_has(client, tmp_path):
    write_ahead_of_the_follower(client, tmp_path)
    before = as_consumed(bl.LogDirs(tmp_path / "leader"), "t")
    (done,) = rewrite(Conversion(batch_size=LARGE), tmp_path / "leader", topics=["t"])
    assert done.report.apart_batches > 2
    joined = batches(tmp_path / "leader")
    assert joined[0] == (0, 99)
    assert len(joined) == 1 + done.report.apart_batches

    def has_caught_up(leader, _):
        return client.topics(leader)["t"]["isr"] == [[1, 2]] and len(client.consume(leader, "t")) == 200

    assert follow(client, tmp_path, has_caught_up) == dict.fromkeys(ISOLATION_LEVELS, before)
    assert as_consumed(bl.LogDirs(tmp_path / "follower"), "t") == before


def test_a_follower_that_ends_in_a_joined_batch_never_follows_again(client, tmp_path):
    """What `sole_replica` says there is not: this is why nothing is joined there without it."""
    write_ahead_of_the_follower(client, tmp_path)
    rewrite(Conversion(batch_size=LARGE, sole_replica=True), tmp_path / "leader", topics=["t"])
    assert batches(tmp_path / "leader") == [(0, 199)]
    failed = re.compile(r"UnexpectedAppendOffsetException|marked as failed")
    follow(client, tmp_path, lambda _, follower: failed.search(follower.log))


def of_format_1(client, tmp_path):
    """Make a log of format 1 of the leader's, and take the follower's away; return what a consumer is to be served."""
    leader, follower = pair(tmp_path, 1)
    with leader, follower:
        client.create(leader, "t", replicas=[1, 2])
        client.produce(leader, "t", 0, 100, "plain", batch_size=200)
        follower.stop()
        leader.stop()
    rewrite(Conversion(magic=1, sole_replica=True), tmp_path / "leader", topics=["t"])
    shutil.rmtree(tmp_path / "follower" / "t-0")
    before = as_consumed(bl.LogDirs(tmp_path / "leader"), "t")
    return [{**row, "leaderEpoch": 0} for row in before]


def test_a_new_follower_takes_what_was_converted_from_format_1(client, tmp_path):
    """Batches without a leader epoch would stop it for good."""
    before = of_format_1(client, tmp_path)
    rewrite(Conversion(magic=2, sole_replica=True), tmp_path / "leader", topics=["t"])

    def has_caught_up(leader, follower):
        assert "marked as failed" not in follower.log
        return client.topics(leader)["t"]["isr"] == [[1, 2]] and len(client.consume(leader, "t")) == 100

    assert follow(client, tmp_path, has_caught_up) == dict.fromkeys(ISOLATION_LEVELS, before)
    assert as_consumed(bl.LogDirs(tmp_path / "follower"), "t") == before


def test_a_follower_of_batches_without_a_leader_epoch_fails_until_these_are_converted(client, tmp_path):
    """As Kafka's cleaner, and so our compaction, leaves those that were messages. Converting mends them."""
    before = of_format_1(client, tmp_path)
    path = next((tmp_path / "leader" / "t-0").glob("*.log"))
    rewrite(Conversion(magic=2, sole_replica=True), tmp_path / "leader", topics=["t"])
    with path.open("r+b") as file:
        file.seek(12)
        file.write(b"\xff" * 4)
    failed = re.compile(r"invalid partition leader epoch entry EpochEntry\(epoch=-1")
    follow(client, tmp_path, lambda _, follower: failed.search(follower.log))
    (done,) = rewrite(Conversion(magic=2, sole_replica=True), tmp_path / "leader", topics=["t"])
    assert done.report.changed_batches == 1
    assert as_consumed(bl.LogDirs(tmp_path / "leader"), "t") == before


def test_nothing_is_joined_where_a_replica_is_out_of_sync(client, tmp_path):
    """It may end anywhere."""
    leader, follower = pair(tmp_path, 1)
    with leader, follower:
        client.create(leader, "t", replicas=[1, 2])
        client.produce(leader, "t", 0, 100, "plain", batch_size=200)
        follower.stop()
        client.produce(leader, "t", 0, 100, "plain", batch_size=200, acks=1)
        wait_until(lambda: client.topics(leader)["t"]["isr"] == [[1]])
    before = batches(tmp_path / "leader")
    with pytest.raises(ValueError, match=r"another broker's replica may end inside .*give sole_replica"):
        rewrite(Conversion(batch_size=LARGE), tmp_path / "leader", topics=["t"])
    (done,) = rewrite(Conversion(compression="zstd"), tmp_path / "leader", topics=["t"])
    assert done.report.changed_batches == len(before)
    assert batches(tmp_path / "leader") == before
    assert seen(tmp_path / "leader", "t")["read_committed"] == as_consumed(bl.LogDirs(tmp_path / "leader"), "t")


def test_a_follower_that_catches_up_has_indexes_of_its_own(client, tmp_path):
    """It takes many batches in one append, and notes stable offsets behind them (UnifiedLog.append): no finding."""
    coordinators = {
        "offsets_topic_replication_factor": 1,
        "transaction_state_log_replication_factor": 1,
        "transaction_state_log_min_isr": 1,
    }
    leader, follower = pair(tmp_path, 1, **coordinators)
    with leader:
        client.create(leader, "t", replicas=[1, 2], min_insync_replicas=1)
        follower.stop()
        for number in range(6):
            client.produce(leader, "t", 0, 10, "plain")
            client.produce(leader, "t", 0, 6, mode="commit" if number % 2 else "abort")
        with Broker(tmp_path / "follower", log=tmp_path / "follower-2.log", node_id=2, joins=leader):
            wait_until(lambda: bl.Log(tmp_path / "follower/t-0").files.extent.next_offset == 102)
    indexes = [
        b"".join(path.read_bytes() for path in (tmp_path / f"{name}/t-0").glob("*.txnindex"))
        for name in ("leader", "follower")
    ]
    assert len(set(indexes)) == 2
    for name in ("leader", "follower"):
        assert [one for one in bl.check(tmp_path / name, topics=["t"]) if one.severity != "note"] == []
