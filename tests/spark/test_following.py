"""A stream's offsets move on as those of Spark's Kafka source do, and loss is told from what is none."""

import json
import shutil

import pyarrow as pa
import pytest

import brokerless as bl

pytest.importorskip("pyspark")

from brokerless.spark.following import DataLossError, Follower
from brokerless.spark.options import Options
from brokerless.spark.records import SCHEMA, read


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data"


def send(path, count, topic="t", partitions=2, **producer):
    with bl.Producer(path, topic, partitions=partitions, **producer) as sending:
        sending.send([{"value": b"%d" % i, "partition": i % partitions} for i in range(count)])


def follower(path, **options):
    options = {name.replace("__", "."): value for name, value in options.items()}
    parsed = Options.parse({"path": str(path), **options})
    return Follower(parsed.for_stream(is_admission_controlled=True)), parsed


def values(follower, options, start, end):
    tasks, wanted = follower.plan(start, end), pa.schema([SCHEMA.field("value")])
    return [value for task in tasks for rows in read(task, options, wanted) for value in rows["value"].to_pylist()]


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
    monkeypatch.setattr("brokerless.spark.following.time.monotonic", lambda: now[0])
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


def test_available_now_takes_a_start_behind_its_end_for_no_loss(path):
    """Spark asks where a new query starts after it has asked how far it goes: in between, logs grow and appear."""
    send(path, 5, partitions=1)
    following, options = follower(path)
    following.freeze()
    send(path, 3, partitions=1)
    send(path, 2, topic="u", partitions=1)
    start = following.initial()
    assert start == following.latest(start) == {"t": {"0": 8}, "u": {"0": 2}}
    assert values(following, options, start, start) == []


def test_available_now_believes_no_partition_gone_that_was_away_for_an_instant(path):
    """A broker moves it to another directory."""
    send(path, 5)
    following, _ = follower(path)
    aside = path.with_name("aside")
    (path / "t-1").rename(aside)
    following.freeze()
    aside.rename(path / "t-1")
    assert following.latest({"t": {"0": 1, "1": 1}}) == {"t": {"0": 3, "1": 2}}


def test_read_committed_waits_at_the_last_stable_offset(path):
    send(path, 3, partitions=1)
    with bl.LogDir.open(path, sole_replica=True) as log_dir:
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


def test_what_retention_took_is_loss_and_a_gap_is_not(path):
    send(path, 100, partitions=1)
    rows = [{"value": b"v", "offset": offset} for offset in (200, 300)]
    with bl.Producer(path, "t", keep_offsets=True) as copying:
        copying.send(rows)
    following, options = follower(path, startingOffsets="earliest")
    end = following.latest(following.initial())
    assert end == {"t": {"0": 301}}
    assert len(values(following, options, {"t": {"0": 50}}, end)) == 52
    checkpoint = path / "log-start-offset-checkpoint"
    checkpoint.write_text("0\n1\nt 0 60\n")
    with pytest.raises(DataLossError, match=r"t-0 starts at offset 60: retention took those from 50 on"):
        following.plan({"t": {"0": 50}}, end)
    assert len(values(following, options, {"t": {"0": 60}}, end)) == 42
    following, options = follower(path, startingOffsets="earliest", failOnDataLoss="false")
    with pytest.warns(UserWarning, match="retention took"):
        assert len(values(following, options, {"t": {"0": 50}}, end)) == 42


def test_a_log_that_was_made_anew_or_is_gone_is_loss(path):
    send(path, 10, partitions=1)
    following, options = follower(path)
    start = following.initial()
    shutil.rmtree(path)
    send(path, 4, partitions=1)
    with pytest.raises(
        DataLossError, match="t-0 ends at offset 4, and is to be read from 10 on: it was cut or made anew"
    ):
        following.latest(start)
    send(path, 1, topic="u", partitions=1)
    shutil.rmtree(path / "t-0")
    with pytest.raises(DataLossError, match="t-0 is gone"):
        following.latest(start)
    following, options = follower(path, failOnDataLoss="false")
    with pytest.warns(UserWarning, match="t-0 is gone"):
        assert values(following, options, start, following.latest(start)) == [b"0"]


@pytest.fixture
def shorter(path):
    """Return a function that puts an older copy of a topic with one partition in its place, or the newer one again."""
    send(path, 4, partitions=1)
    shutil.copytree(path, path.parent / "4")
    send(path, 6, partitions=1)
    shutil.copytree(path, path.parent / "10")

    def put(end):
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(path.parent / str(end), path)

    return put


def test_a_log_that_seems_shorter_for_a_while_is_not_read_again(path, shorter):
    """An end below the start, once Spark has it in the checkpoint, has rows twice that are there again."""
    following, _ = follower(path, startingOffsets="earliest")
    start = following.latest(following.initial())
    following.plan({}, start)
    shorter(4)
    # PySpark before 4.2 does not say where the last batch ended
    for known in (start, {}):
        with pytest.raises(DataLossError, match="t-0 ends at offset 4"):
            following.latest(known)
    shorter(10)
    assert following.latest(start) == start


def test_a_checkpoint_that_goes_back_is_loss(path):
    send(path, 10, partitions=1)
    following, _ = follower(path)
    with pytest.raises(DataLossError, match="t-0 was read to 10, and the next batch in the checkpoint ends at 4"):
        following.plan({"t": {"0": 10}}, {"t": {"0": 4}})


def test_a_log_that_is_half_there_for_an_instant_is_looked_at_again(path, shorter, monkeypatch):
    following, _ = follower(path, startingOffsets="earliest")
    start = following.latest(following.initial())
    monkeypatch.setattr("brokerless.spark.following.time.sleep", lambda _: shorter(10))
    for spoil in (lambda: shorter(4), lambda: shutil.rmtree(path / "t-0"), lambda: shutil.rmtree(path)):
        spoil()
        assert following.latest(start) == start
        spoil()
        assert len(following.plan({"t": {"0": 0}}, start)[0].work) == 1


def test_a_partition_on_its_way_between_two_directories_of_a_broker_is_looked_at_again(tmp_path, monkeypatch):
    first, second = (tmp_path / name for name in ("1", "2"))
    for path, topic in ((first, "t"), (second, "u")):
        bl.LogDir.create(path, cluster_id="AAECAwQFBgcICQoLDA0ODw").close()
        send(path, 4, topic=topic, partitions=1)
    parsed = Options.parse({"paths": json.dumps([str(first), str(second)]), "startingOffsets": "earliest"})
    following = Follower(parsed.for_stream(is_admission_controlled=True))
    shutil.copytree(first / "t-0", second / "t-0")
    monkeypatch.setattr(
        "brokerless.spark.following.time.sleep", lambda _: shutil.rmtree(first / "t-0", ignore_errors=True)
    )
    assert following.latest({}) == {"t": {"0": 4}, "u": {"0": 4}}


@pytest.fixture
def away(path):
    """Read a topic of two partitions to the end; then take one away, and give it back with more in it."""
    send(path, 10)

    def move(to_its_place=False):
        if to_its_place:
            (path.parent / "t-0").rename(path / "t-0")
            send(path, 4)
        else:
            (path / "t-0").rename(path.parent / "t-0")

    return move


def test_a_known_partition_that_is_gone_is_told_before_a_batch_is_written_down(path, away):
    """A batch written down without it would fail at each restart, or read it again from its start."""
    following, _ = follower(path, startingOffsets="earliest")
    end = following.latest(following.initial())
    away()
    with pytest.raises(
        DataLossError, match="t-0 is gone, or no longer selected: what it held from offset 5 on was not read"
    ):
        following.latest(end)
    available_now, _ = follower(path)
    available_now.freeze()
    with pytest.raises(DataLossError, match="t-0 is gone"):
        available_now.latest(end)


@pytest.mark.parametrize("knows_start", [True, False])
def test_a_partition_that_comes_back_goes_on_where_it_was(path, away, knows_start):
    following, options = follower(path, startingOffsets="earliest", failOnDataLoss="false")
    start = following.initial()
    end = following.latest(start)
    assert len(values(following, options, start, end)) == 10
    away()
    # PySpark before 4.2 does not say where the last batch ended
    with pytest.warns(UserWarning, match="t-0 is gone"):
        without = following.latest(end if knows_start else {}, is_limited=False)
    assert without == end
    assert values(following, options, end, without) == []
    away(to_its_place=True)
    back = following.latest(without if knows_start else {}, is_limited=False)
    assert len(values(following, options, without, back)) == 4
    # nor does a batch that has it no more read it again, in whatever order
    short = {"t": {"1": 5}}
    assert values(following, options, end, short) == []
    assert len(values(following, options, short, back)) == 4


def test_available_now_does_not_go_back(path):
    """A checkpointed high watermark may be behind what was read."""
    send(path, 10, partitions=1)
    end = {"t": {"0": 10}}
    with bl.LogDir.open(path, sole_replica=True):
        (path / "replication-offset-checkpoint").write_text("0\n1\nt 0 4\n")
        following, _ = follower(path)
        following.freeze()
        assert following.latest({"t": {"0": 0}}) == {"t": {"0": 4}}
        assert following.latest(end) == end


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


def test_a_start_behind_the_end_is_not_said_to_have_been_read(path):
    send(path, 4, partitions=1)
    following, _ = follower(path, startingOffsets='{"t":{"0":100}}')
    with pytest.raises(
        DataLossError, match=r"ends at offset 4, and is to be read from 100 on: .* the start that was given"
    ):
        following.latest(following.initial())


@pytest.mark.parametrize("chosen", [{"subscribe": "t,u"}, {"assign": '{"t":[0],"u":[0]}'}])
def test_a_topic_that_is_named_and_goes_is_loss_and_at_the_start_an_error(path, chosen):
    send(path, 4, partitions=1)
    with pytest.raises(ValueError, match="unknown topic 'u'"):
        follower(path, **chosen)[0].initial()
    send(path, 3, topic="u", partitions=1)
    following, _ = follower(path, startingOffsets="earliest", **chosen)
    start = following.latest(following.initial())
    shutil.rmtree(path / "u-0")
    with pytest.raises(DataLossError, match="u-0 is gone"):
        following.latest(start)
    following, _ = follower(path, failOnDataLoss="false", **chosen)
    with pytest.warns(UserWarning, match="u-0 is gone"):
        assert following.latest(start) == start


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
    with pytest.raises(ValueError, match="no high watermark of t-0 is checkpointed"):
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
    with pytest.raises(ValueError, match="have the same, or none"):
        following.latest(following.initial())


def test_what_appeared_counts_towards_the_least_that_a_batch_has(path):
    send(path, 10, partitions=1)
    following, _ = follower(
        path, startingOffsets="earliest", minOffsetsPerTrigger="100", maxTriggerDelay="15m", subscribePattern=".*"
    )
    start = following.latest(following.initial())
    send(path, 1000, topic="u", partitions=1)
    assert following.latest(start) == {"t": {"0": 10}, "u": {"0": 1000}}
