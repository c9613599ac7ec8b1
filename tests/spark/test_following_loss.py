"""A stream tells what is lost, and nothing else, and does so before its checkpoint says otherwise."""

import json
import shutil
import time
from types import SimpleNamespace

import pytest

import brokerless as bl
from support.damage import flip_bit, remove

pytest.importorskip("pyspark")

from following_logs import follower, send, values

from brokerless.spark.source.options import Options
from brokerless.spark.stream.micro_batches import DataLossError, Follower


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data"


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
    with pytest.raises(DataLossError, match=r"t-0 starts at offset 60: retention deleted records from 50 on"):
        following.plan({"t": {"0": 50}}, end)
    assert len(values(following, options, {"t": {"0": 60}}, end)) == 42
    following, options = follower(path, startingOffsets="earliest", failOnDataLoss="false")
    with pytest.warns(UserWarning, match="retention deleted"):
        assert len(values(following, options, {"t": {"0": 50}}, end)) == 42


def test_a_log_that_was_made_anew_or_is_gone_is_loss(path):
    send(path, 10, partitions=1)
    following, options = follower(path)
    start = following.initial()
    shutil.rmtree(path)
    send(path, 4, partitions=1)
    with pytest.raises(
        DataLossError, match="t-0 ends at offset 4, but the next batch starts at 10: it was truncated or recreated"
    ):
        following.latest(start)
    send(path, 1, topic="u", partitions=1)
    shutil.rmtree(path / "t-0")
    with pytest.raises(DataLossError, match="t-0 is missing, or no longer selected"):
        following.latest(start)
    following, options = follower(path, failOnDataLoss="false")
    with pytest.warns(UserWarning, match="t-0 is missing, or no longer selected"):
        assert values(following, options, start, following.latest(start)) == [b"0"]


def pause_with(monkeypatch, happens):
    """Let something happen while the stream waits, and not while another thread of PySpark sleeps."""
    pausing = SimpleNamespace(sleep=lambda _: happens(), monotonic=time.monotonic)
    monkeypatch.setattr("brokerless.spark.stream.micro_batches.time", pausing)


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
    with pytest.raises(
        DataLossError, match="t-0 was read up to offset 10, but the next batch in the checkpoint ends at 4"
    ):
        following.plan({"t": {"0": 10}}, {"t": {"0": 4}})


def test_a_log_that_is_half_there_for_an_instant_is_looked_at_again(path, shorter, monkeypatch):
    following, _ = follower(path, startingOffsets="earliest")
    start = following.latest(following.initial())
    pause_with(monkeypatch, lambda: shorter(10))
    for spoil in (lambda: shorter(4), lambda: shutil.rmtree(path / "t-0"), lambda: shutil.rmtree(path)):
        spoil()
        assert following.latest(start) == start
        spoil()
        assert len(following.plan({"t": {"0": 0}}, start)[0].work) == 1


def test_a_partition_on_its_way_between_two_directories_of_a_broker_is_looked_at_again(tmp_path, monkeypatch):
    first, second = (tmp_path / name for name in ("1", "2"))
    for path, topic in ((first, "t"), (second, "u")):
        bl.create_log_dir(path, cluster_id="AAECAwQFBgcICQoLDA0ODw").close()
        send(path, 4, topic=topic, partitions=1)
    parsed = Options.parse({"paths": json.dumps([str(first), str(second)]), "startingOffsets": "earliest"})
    following = Follower(parsed.for_stream(is_admission_controlled=True))
    shutil.copytree(first / "t-0", second / "t-0")
    pause_with(monkeypatch, lambda: shutil.rmtree(first / "t-0", ignore_errors=True))
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
        DataLossError, match="t-0 is missing, or no longer selected: its records from offset 5 on were not read"
    ):
        following.latest(end)
    available_now, _ = follower(path)
    available_now.freeze()
    with pytest.raises(DataLossError, match="t-0 is missing, or no longer selected"):
        available_now.latest(end)


@pytest.mark.parametrize("knows_start", [True, False])
def test_a_partition_that_comes_back_goes_on_where_it_was(path, away, knows_start):
    following, options = follower(path, startingOffsets="earliest", failOnDataLoss="false")
    start = following.initial()
    end = following.latest(start)
    assert len(values(following, options, start, end)) == 10
    away()
    # PySpark before 4.2 does not say where the last batch ended
    with pytest.warns(UserWarning, match="t-0 is missing, or no longer selected"):
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
    with bl.open_log_dir(path, sole_replica=True):
        (path / "replication-offset-checkpoint").write_text("0\n1\nt 0 4\n")
        following, _ = follower(path)
        following.freeze()
        assert following.latest({"t": {"0": 0}}) == {"t": {"0": 4}}
        assert following.latest(end) == end


def test_a_start_behind_the_end_is_not_said_to_have_been_read(path):
    send(path, 4, partitions=1)
    following, _ = follower(path, startingOffsets='{"t":{"0":100}}')
    with pytest.raises(DataLossError, match=r"ends at offset 4, but the next batch starts at 100: .* the given start"):
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
    with pytest.raises(DataLossError, match="u-0 is missing, or no longer selected"):
        following.latest(start)
    following, _ = follower(path, failOnDataLoss="false", **chosen)
    with pytest.warns(UserWarning, match="u-0 is missing, or no longer selected"):
        assert following.latest(start) == start


def test_damage_at_the_end_of_a_log_is_said_before_a_batch_ends_there(path):
    """No task meets it: the batch ends before it, and so would each one after that."""
    send(path, 4, partitions=1)
    send(path, 4, partitions=1)
    (log,) = (path / "t-0").glob("*.log")
    end = log.stat().st_size
    flip_bit(log, end - 1)
    following, _ = follower(path, startingOffsets="earliest")
    with pytest.raises(bl.errors.CorruptRecordError, match="crc mismatch"):
        following.latest({"t": {"0": 0}})
    following, options = follower(path, startingOffsets="earliest", onCorrupt="skip")
    start = following.initial()
    with pytest.warns(UserWarning, match=r"t-0: .*crc mismatch"):
        latest = following.latest(start)
    assert latest == {"t": {"0": 4}}
    assert len(values(following, options, start, latest)) == 4
    assert following.latest(start) == latest


def test_records_missing_before_a_log_that_is_read_from_its_start_are_said(path):
    send(path, 4, partitions=1)
    with bl.open_log_dir(path) as log_dir:
        log_dir.log("t", 0).roll()
    send(path, 4, partitions=1)
    remove(path / "t-0" / f"{0:020d}.log")
    following, _ = follower(path, startingOffsets="earliest")
    with pytest.raises(bl.errors.CorruptRecordError, match="its indexes or a link to it exist"):
        following.initial()
    following, _ = follower(path, startingOffsets="earliest", onCorrupt="skip")
    with pytest.warns(UserWarning, match=r"t-0: .*its indexes or a link to it exist"):
        assert following.initial() == {"t": {"0": 4}}
