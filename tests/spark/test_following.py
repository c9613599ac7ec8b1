"""A stream's offsets move on as those of Spark's Kafka source do."""

import json
import shutil

import pytest

import brokerless as bl

pytest.importorskip("pyspark")

from following_logs import follower, send, values

from brokerless.spark.source.options import Options
from brokerless.spark.stream.micro_batches import Follower


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data"


def test_a_new_query_begins_behind_what_is_there_and_reads_what_comes(path):
    send(path, 10)
    following, options = follower(path)
    start = following.initial()
    assert start == {"t": {"0": 5, "1": 5}}
    assert following.latest(start) == start
    send(path, 4)
    end = following.latest(start)
    assert end == {"t": {"0": 7, "1": 7}}
    assert sorted(values(following, options, start, end)) == [b"0", b"1", b"2", b"3"]


def test_partitions_and_topics_that_appear_are_read_from_their_start(path):
    send(path, 2)
    following, options = follower(path, subscribePattern="t.*")
    start = following.initial()
    send(path, 6, topic="t2", partitions=3)
    end = following.latest(start)
    assert end == {"t": {"0": 1, "1": 1}, "t2": {"0": 2, "1": 2, "2": 2}}
    assert len(values(following, options, start, end)) == 6


def test_a_batch_has_so_many_offsets_shared_out_by_what_each_partition_has(path):
    send(path, 100, topic="a", partitions=1)
    send(path, 10, topic="b", partitions=1)
    send(path, 1, topic="c", partitions=1)
    following, options = follower(path, startingOffsets="earliest", maxOffsetsPerTrigger="50")
    start, seen, sizes = following.initial(), 0, []
    while (end := following.latest(start)) != start:
        sizes.append(len(values(following, options, start, end)))
        if not seen:
            assert end == {"a": {"0": 45}, "b": {"0": 4}, "c": {"0": 1}}
        seen, start = seen + sizes[-1], end
    assert seen == 111
    assert max(sizes) <= 51
    assert following.latest({"a": {"0": 0}, "b": {"0": 0}, "c": {"0": 0}}, is_limited=False)["a"]["0"] == 100


def test_few_offsets_wait_for_more_but_not_for_ever(path, monkeypatch):
    send(path, 10, partitions=1)
    following, _ = follower(path, startingOffsets="earliest", minOffsetsPerTrigger="8", maxTriggerDelay="60s")
    now = [1000.0]
    monkeypatch.setattr("brokerless.spark.stream.micro_batches.time.monotonic", lambda: now[0])
    first = following.latest(following.initial())
    assert first == {"t": {"0": 10}}
    send(path, 7, partitions=1)
    assert following.latest(first) == first
    assert following.latest(first, is_limited=False) == {"t": {"0": 17}}
    now[0] += 60
    second = following.latest(first)
    assert second == {"t": {"0": 17}}
    send(path, 8, partitions=1)
    assert following.latest(second) == {"t": {"0": 25}}


def test_available_now_ends_with_what_was_there_and_waits_for_nothing(path):
    send(path, 10, partitions=1)
    following, _ = follower(
        path, startingOffsets="earliest", minOffsetsPerTrigger="1", maxOffsetsPerTrigger="6", maxTriggerDelay="1d"
    )
    following.freeze()
    send(path, 10, partitions=1)
    first = following.latest(following.initial())
    assert first == {"t": {"0": 6}}
    second = following.latest(first)
    assert second == {"t": {"0": 10}}
    assert following.latest(second) == second


def test_read_committed_waits_at_the_last_stable_offset(path):
    send(path, 3, partitions=1)
    with bl.open_log_dir(path, sole_replica=True) as log_dir:
        producer = bl.Producer(log_dir, "t", transactional_id="x")
        producer.begin()
        producer.send([{"value": b"open"}])
        producer.flush()
        log_dir.log("t", 0).flush()
        # As far as the files go: a high watermark is checkpointed now and then only.
        ends = {"startingOffsets": "earliest", "endingOffsets": "latest"}
        following, options = follower(path, kafka__isolation__level="read_committed", **ends)
        start = following.initial()
        end = following.latest(start)
        assert end == {"t": {"0": 3}}
        producer.commit()
        log_dir.log("t", 0).flush()
        later = following.latest(end)
        assert later == {"t": {"0": 5}}
        assert values(following, options, end, later) == [b"open"]
        producer.close()


@pytest.mark.parametrize(
    "start", ["earliest", "latest", '{"t":{"0":0}}', '{"t":{"0":-1}}', {"startingOffsetsByTimestamp": '{"t":{"0":0}}'}]
)
def test_a_first_batch_that_is_repeated_is_the_same_and_what_has_appeared_is_the_next_one(path, start):
    """A restart in the first batch must neither end the query for ever, nor pass over the rows of a new topic."""
    options = start if isinstance(start, dict) else {"startingOffsets": start}
    send(path, 4, partitions=1)
    following, _ = follower(path, **options)
    start = following.initial()
    end = following.latest(start)
    # the process ends, and much happens before the next one
    send(path, 3, partitions=1)
    send(path, 3, topic="u", partitions=1)
    following, parsed = follower(path, **options)
    again = following.initial()
    assert len(values(following, parsed, again, end)) == end["t"]["0"] - start["t"]["0"]
    later = following.latest(end)
    assert later == {"t": {"0": 7}, "u": {"0": 3}}
    assert len(values(following, parsed, end, later)) == 6


def test_topics_may_appear_where_the_first_batch_ended_where_it_began(path):
    send(path, 4, partitions=1)
    following, options = follower(path, startingOffsets='{"t":{"0":4}}')
    start = following.initial()
    assert following.latest(start) == start
    assert values(following, options, start, start) == []
    send(path, 3, topic="u", partitions=1)
    end = following.latest(start)
    assert len(values(following, options, start, end)) == 3


@pytest.mark.parametrize("named", ['{"t":{"0":0}}', '{"t":{"0":0,"1":0,"2":0}}'])
@pytest.mark.parametrize("option", ["startingOffsets", "startingOffsetsByTimestamp"])
def test_a_new_query_needs_a_start_for_each_partition_and_no_other(path, option, named):
    send(path, 4)
    following, _ = follower(path, **{option: named})
    start = following.initial()
    with pytest.raises(ValueError, match="must name every partition that is read and no other"):
        following.latest(start)
    # PySpark before 4.2 asks for an end first
    following, _ = follower(path, **{option: named})
    end = following.latest({}, is_limited=False)
    with pytest.raises(ValueError, match="must name every partition that is read and no other"):
        following.plan(following.initial(), end)


def test_a_partition_without_a_high_watermark_is_followed_once_it_has_one(path):
    send(path, 10, partitions=1)
    marks = path / "replication-offset-checkpoint"
    marks.write_text("0\n1\nt 0 10\n")
    following, _ = follower(path, startingOffsets="earliest", endingOffsets="high-watermark")
    start = following.latest(following.initial())
    assert start == {"t": {"0": 10}}
    send(path, 3, topic="u", partitions=1)
    marks.write_text("0\n1\nt 0 10\n")
    assert following.latest(start) == {"t": {"0": 10}, "u": {"0": 0}}
    marks.write_text("0\n2\nt 0 10\nu 0 3\n")
    assert following.latest(start) == {"t": {"0": 10}, "u": {"0": 3}}
    marks.unlink()
    with pytest.raises(ValueError, match="the high watermark of t-0 is not known"):
        following.latest(start)


@pytest.mark.parametrize("damaged", [{"t": 5}, {"t": {"0": "x"}}, {"t": {"a": 0}}, 5])
def test_a_checkpoint_that_is_damaged(path, damaged):
    send(path, 4, partitions=1)
    following, _ = follower(path)
    for call in (lambda: following.latest(damaged), lambda: following.plan(damaged, following.initial())):
        with pytest.raises(ValueError, match=r"the query's checkpoint has .* start the query with a new checkpoint"):
            call()


def test_files_without_a_name_of_their_own_are_not_taken_for_one(path, tmp_path):
    for topic in ("a", "b"):
        send(path, 3, topic=topic, partitions=1)
        (tmp_path / topic).mkdir()
        shutil.copy(next((path / f"{topic}-0").glob("*.log")), tmp_path / topic)
    logs = [str(next((tmp_path / topic).glob("*.log"))) for topic in ("a", "b")]
    following, _ = follower(logs[0], startingOffsets="earliest")
    assert following.latest(following.initial()) != {}
    parsed = Options.parse({"paths": json.dumps(logs), "startingOffsets": "earliest"})
    following = Follower(parsed.for_stream(is_admission_controlled=True))
    with pytest.raises(ValueError, match="have the same topic and partition, or none"):
        following.latest(following.initial())


def test_what_appeared_counts_towards_the_least_that_a_batch_has(path):
    send(path, 10, partitions=1)
    following, _ = follower(
        path, startingOffsets="earliest", minOffsetsPerTrigger="100", maxTriggerDelay="15m", subscribePattern=".*"
    )
    start = following.latest(following.initial())
    send(path, 1000, topic="u", partitions=1)
    assert following.latest(start) == {"t": {"0": 10}, "u": {"0": 1000}}
