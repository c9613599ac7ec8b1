"""What a log's files hold while it is written, after a roll, a truncation and a close: what Kafka's hold."""

import pytest

import brokerless as bl
from brokerless import _native
from brokerless.append.writer import LogWriter
from brokerless.io import disk
from brokerless.layout import file_names
from brokerless.layout.topic_config import TopicConfig
from support.kafka_answers import broker_cases
from support.log_files import batch, marker

T = 1_700_000_000_000


def opened(directory, *, is_clean=True, **config):
    directory.mkdir(exist_ok=True)
    return LogWriter.open(str(directory), config=TopicConfig(**config), is_clean=is_clean, now=lambda: T)


def segments(directory):
    """Return (base offset, size, "first-last" of each batch, offset index, time index) of each segment."""
    found = []
    for path in sorted(directory.glob("*.log")):
        base = int(path.stem)
        headers = _native.scan(path.read_bytes())[0].to_pylist()
        index = _native.OffsetIndex(path.with_suffix(".index").read_bytes(), base, raw=True).entries().to_pylist()
        times = _native.TimeIndex(path.with_suffix(".timeindex").read_bytes(), base, raw=True).entries().to_pylist()
        found.append(
            {
                "baseOffset": base,
                "size": path.stat().st_size,
                "batches": [f"{header['base_offset']}-{header['last_offset']}" for header in headers],
                "index": [[entry["offset"], entry["position"]] for entry in index],
                "timeindex": [[entry["timestamp"], entry["offset"]] for entry in times],
            }
        )
    return found


@pytest.mark.parametrize("case", broker_cases("truncate"))
def test_truncation(case, tmp_path):
    log = opened(tmp_path / "t-0")
    log.append(batch(0, [b"0", b"1", b"2"], timestamp=T, step=0))
    log.roll()
    log.append(batch(0, [b"3", b"4"], timestamp=T, step=0), leader_epoch=1)
    log.append(batch(0, [b"5"], timestamp=T + 9, step=0), leader_epoch=2)
    log.truncate_to(case["truncateTo"])
    state = case["state"]
    assert (log.log_start_offset, log.log_end_offset) == (state["logStartOffset"], state["logEndOffset"])
    assert log.high_watermark == case["highWatermark"]
    found = segments(tmp_path / "t-0")
    # sizes are those of Kafka's keys and values, which are not ours
    for segment in (*found, *state["segments"]):
        segment["size"] = bool(segment["size"])
        segment.pop("maxTimestamp", None)
    assert found == state["segments"]
    assert [list(entry) for entry in bl.Log(tmp_path / "t-0").leader_epochs] == state["epochs"]
    log.append(batch(0, [b"more"], timestamp=T))
    log.close()
    rows = [row for rows in bl.Log(tmp_path / "t-0").read(columns=["offset", "value"]) for row in rows.to_pylist()]
    assert rows[-1] == {"offset": state["logEndOffset"], "value": b"more"}


@pytest.mark.parametrize("then", ["close", "delete_records", "compact", "convert"])
def test_a_log_that_was_cut_inside_a_batch_ends_there_for_good(tmp_path, then):
    """Else the next who opens it gives offsets twice, or finds a log that ends below where it starts."""
    log = opened(tmp_path / "t-0", cleanup_policy="compact,delete")
    for values in ([b"a"] * 10, [b"b"] * 10):
        log.append(batch(0, values, timestamp=T, keys=[b"k"] * 10))
    log.truncate_to(15)
    if then == "delete_records":
        log.run(bl.Retention(before_offset=12))
    elif then == "compact":
        log.run(bl.Compaction())
    elif then == "convert":
        log.run(bl.Conversion(compression="gzip"))
    assert log.log_end_offset == 15
    log.close()
    directory, start = str(tmp_path / "t-0"), log.log_start_offset
    again = LogWriter.open(directory, config=TopicConfig(), is_clean=True, log_start_offset=start)
    assert (again.log_start_offset, again.append(batch(0, [b"more"], timestamp=T)).first_offset) == (start, 15)
    again.close()


def test_an_index_entry_with_a_negative_position_leads_to_the_start(tmp_path):
    """As for a broker, which then sees nothing of the segment: that is said, and not that an argument is invalid."""
    log = opened(tmp_path / "t-0", index_interval_bytes=0)
    for _ in range(3):
        log.append(batch(0, [b"x"] * 5, timestamp=T))
    log.close()
    path = tmp_path / "t-0" / f"{0:020d}.index"
    path.write_bytes(path.read_bytes()[:-4] + (-5).to_bytes(4, signed=True))
    assert opened(tmp_path / "t-0").log_end_offset == 15


def test_indexes_of_an_empty_segment_lose_their_zeros(tmp_path):
    """A copy of an empty partition of a running broker: rolled at its own offset, a segment stays the same one."""
    directory, config = tmp_path / "t-0", {"index_interval_bytes": 0, "segment_index_bytes": 1200}
    opened(directory, **config).close()
    for kind in ("index", "timeindex"):
        (directory / f"{0:020d}.{kind}").write_bytes(bytes(1200))
    log = opened(directory, **config)
    for _ in range(3):
        log.append(batch(0, [b"x"] * 5, timestamp=T))
    log.close()
    [segment] = segments(directory)
    assert (segment["index"], segment["timeindex"]) == ([[9, 101], [14, 202]], [[T + 4, 4]])
    assert opened(directory, **config).log_end_offset == 15


@pytest.mark.parametrize("padded", [120, 1200])
@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_an_index_with_a_tail_of_zeros_is_full(tmp_path, kind, padded):
    """A copy of a running broker's has them. Behind them no broker looks, and cannot map a file of that length."""
    directory, limit = tmp_path / "t-0", 1200
    config = {"index_interval_bytes": 0, "segment_index_bytes": limit}
    log = opened(directory, **config)
    for _ in range(3):
        log.append(batch(0, [b"x"] * 5, timestamp=T))
    log.close()
    index = directory / f"{0:020d}.{kind}"
    index.write_bytes(index.read_bytes().ljust(padded, b"\0"))
    log = opened(directory, **config)
    log.append(batch(0, [b"more"], timestamp=T))
    log.close()
    assert [segment["batches"] for segment in segments(directory)] == [["0-4", "5-9", "10-14"], ["15-15"]]
    assert index.stat().st_size == padded
    assert opened(directory, **config).log_end_offset == 16


def test_truncation_to_the_end_of_an_epoch(tmp_path):
    log = opened(tmp_path / "t-0")
    for epoch in (0, 0, 2, 2, 5):
        log.append(batch(0, [b"x"], timestamp=T), leader_epoch=epoch)
    assert log.truncate_to_end_of_epoch(3) == 4
    assert log.truncate_to_end_of_epoch(0) == 2
    assert log.log_end_offset == 2
    with pytest.raises(ValueError, match="unknown leader epoch 7: the log knows 0"):
        log.truncate_to_end_of_epoch(7)


@pytest.mark.parametrize("case", broker_cases("index-write"))
def test_indexes_after_a_clean_close(case, tmp_path):
    names = {key.replace(".", "_"): value for key, value in case["config"].items()}
    log = opened(tmp_path / "t-0", **names)
    for call in case["appendCalls"]:
        log.append_as_follower(bytes.fromhex(call))
    log.close()
    index, times = (
        tmp_path / "t-0" / file_names.segment_file(0, kind) for kind in (file_names.INDEX, file_names.TIMEINDEX)
    )
    assert index.read_bytes().hex() == case["indexHexAfterClose"]
    assert times.read_bytes().hex() == case["timeindexHexAfterClose"]


@pytest.mark.parametrize("case", broker_cases("preallocate"))
def test_preallocated_segments_are_cut_to_their_content(case, tmp_path):
    log = opened(tmp_path / "t-0", preallocate=True, segment_bytes=1000)
    sizes = lambda: [path.stat().st_size for path in sorted((tmp_path / "t-0").glob("*.log"))]  # noqa: E731
    log.append(batch(0, [b"x"], timestamp=T))
    assert sizes() == [case["firstSegmentLive"]]
    log.roll()
    log.append(batch(0, [b"x"], timestamp=T))
    assert sizes()[1] == case["secondLive"]
    length = len(batch(0, [b"x"], timestamp=T))
    assert sizes()[0] == length
    log.close()
    assert sizes() == [length, length]


def test_a_new_preallocated_log_can_be_recovered_and_appended_to(tmp_path):
    """The zeros of a crash are cut off, not taken for content."""
    log = opened(tmp_path / "t-0", preallocate=True, segment_bytes=1000)
    log.append(batch(0, [b"x"], timestamp=T))
    log.flush()
    again = opened(tmp_path / "t-0", is_clean=False, preallocate=True, segment_bytes=1000)
    assert again.append(batch(0, [b"y"], timestamp=T)).first_offset == 1
    again.close()
    values = [value for rows in bl.Log(tmp_path / "t-0").read() for value in rows["value"].to_pylist()]
    assert values == [b"x", b"y"]


def test_flush_messages_makes_every_append_durable(tmp_path):
    log = opened(tmp_path / "t-0", flush_messages=2)
    log.append(batch(0, [b"x"], timestamp=T))
    assert log.recovery_point == 0
    log.append(batch(0, [b"x"], timestamp=T))
    assert log.recovery_point == 2


def test_a_refused_append_changes_no_file(tmp_path):
    log = opened(tmp_path / "t-0", segment_bytes=200)
    log.append(batch(0, [b"x" * 100], timestamp=T, producer_id=1, base_sequence=0))
    log.flush()
    before = {path.name: path.read_bytes() for path in (tmp_path / "t-0").iterdir()}
    with pytest.raises(bl.errors.OutOfOrderSequenceError):
        log.append(batch(0, [b"x" * 100], timestamp=T, producer_id=1, base_sequence=7), leader_epoch=4)
    log.flush()
    assert {path.name: path.read_bytes() for path in (tmp_path / "t-0").iterdir()} == before
    assert log.append(batch(0, [b"x" * 100], timestamp=T, producer_id=1, base_sequence=1)).first_offset == 1


def test_many_ready_batches_stop_at_the_first_that_is_refused(tmp_path):
    log = opened(tmp_path / "t-0")
    good = [batch(0, [b"%d" % i], timestamp=T, producer_id=1, base_sequence=i) for i in range(3)]
    bad = batch(0, [b"x"], timestamp=T, producer_id=1, base_sequence=9)
    with pytest.raises(bl.errors.OutOfOrderSequenceError):
        log.append_each(b"".join([*good, bad, *good]))
    log.close()
    assert [value for rows in bl.Log(tmp_path / "t-0").read() for value in rows["value"].to_pylist()] == [
        b"0",
        b"1",
        b"2",
    ]


def mixed_batches():
    """Return a producer's batches: one is larger than several pieces."""
    sizes = [1, 30, 5, 2000, 1, 1, 400, 3]
    return [
        batch(0, [b"%d" % i * size], timestamp=T + i, producer_id=1, base_sequence=i)
        for i, size in enumerate(sizes * 3)
    ]


def files_of(path):
    return {file.name: file.read_bytes() for file in path.iterdir()}


@pytest.mark.parametrize("piece", [1, 100, 333, 4000])
def test_what_is_decided_on_piece_by_piece_is_the_same(tmp_path, monkeypatch, piece):
    batches, answers = mixed_batches(), []
    for name, length in (("whole-0", 1 << 20), ("pieces-0", piece)):
        monkeypatch.setattr("brokerless.append.writer._PIECE", length)
        with opened(tmp_path / name, segment_bytes=6000, index_interval_bytes=0) as log:
            answers.append(log.append_each(b"".join(batches) + batches[-1][:-1], leader_epoch=3))
            answers.append(log.append_each(b"".join(batches[-3:])))
    for at_once, piecewise in zip(answers[:2], answers[2:], strict=True):
        for name in ("first_offset", "last_offset", "max_timestamp", "is_duplicate", "count", "duplicates", "consumed"):
            assert getattr(piecewise, name) == getattr(at_once, name), name
    assert [answer.count for answer in answers] == [24, 3, 24, 3]
    assert answers[3].is_duplicate
    assert files_of(tmp_path / "pieces-0") == files_of(tmp_path / "whole-0")


def test_a_refusal_in_a_later_piece_says_where_it_is(tmp_path, monkeypatch):
    good = [batch(0, [b"%d" % i], timestamp=T, producer_id=1, base_sequence=i) for i in range(3)]
    bad = batch(0, [b"x"], timestamp=T, producer_id=1, base_sequence=9)
    data = b"".join([*good, bad, *good])
    said = []
    for number, length in enumerate((1 << 20, len(good[0]))):
        monkeypatch.setattr("brokerless.append.writer._PIECE", length)
        (tmp_path / str(number)).mkdir()
        log = opened(tmp_path / str(number) / "t-0")
        with pytest.raises(bl.errors.OutOfOrderSequenceError) as refused:
            log.append_each(data)
        log.close()
        said.append((str(refused.value), refused.value.position))
        assert bl.Log(tmp_path / str(number) / "t-0").log_end_offset == 3
    assert said[0] == said[1]


@pytest.mark.parametrize("written", [0, 1, 3])
def test_a_disk_error_in_any_piece_breaks_the_log(tmp_path, monkeypatch, written):
    """The pieces before it stay, and the log is of no more use."""
    batches = [batch(0, [b"%d" % i], timestamp=T) for i in range(6)]
    monkeypatch.setattr("brokerless.append.writer._PIECE", len(batches[0]))
    log = opened(tmp_path / "t-0")
    write, calls = disk.Output.write_at, []

    def fails(output, *args):
        if output.path.endswith(".log"):
            calls.append(args)
        if len(calls) > written:
            raise OSError(28, "No space left on device")
        write(output, *args)

    monkeypatch.setattr("brokerless.io.disk.Output.write_at", fails)
    with pytest.raises(OSError, match="No space"):
        log.append_each(b"".join(batches))
    monkeypatch.undo()
    with pytest.raises(ValueError, match="broken by an earlier error"):
        log.append(batch(0, [b"y"], timestamp=T))
    again = opened(tmp_path / "t-0", is_clean=False)
    assert again.log_end_offset == written
    again.close()


def test_each_piece_is_flushed_as_the_settings_say(tmp_path, monkeypatch):
    batches = [batch(0, [b"%d" % i], timestamp=T) for i in range(6)]
    monkeypatch.setattr("brokerless.append.writer._PIECE", 2 * len(batches[0]))
    log = opened(tmp_path / "t-0", flush_messages=2)
    flushed, flush = [], log.flush
    monkeypatch.setattr(log, "flush", lambda: (flush(), flushed.append(log.recovery_point)))
    log.append_each(b"".join(batches))
    assert flushed == [2, 4, 6]
    log.close()


def test_a_roll_that_fails_breaks_the_log(tmp_path, monkeypatch):
    """The appender is in the new segment by then, and the files are not: positions would be counted from nowhere."""
    log = opened(tmp_path / "t-0")
    log.append(batch(0, [b"x"], timestamp=T))

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("brokerless.io.disk.Output.sync", fails)
    with pytest.raises(OSError, match="No space"):
        log.roll()
    monkeypatch.undo()
    with pytest.raises(ValueError, match="broken by an earlier error"):
        log.append(batch(0, [b"y"], timestamp=T))


def test_a_disk_error_breaks_the_log_until_it_is_opened_again(tmp_path, monkeypatch):
    """What is in memory and what is on the disk may differ then: going on would give offsets twice."""
    log = opened(tmp_path / "t-0")
    log.append(batch(0, [b"x"], timestamp=T))
    log.flush()

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("brokerless.io.disk.Output.write_at", fails)
    with pytest.raises(OSError, match="No space"):
        log.append(batch(0, [b"y"], timestamp=T))
    monkeypatch.undo()
    with pytest.raises(ValueError, match="broken by an earlier error"):
        log.append(batch(0, [b"y"], timestamp=T))
    with pytest.raises(ValueError, match="broken by an earlier error"):
        log.close()
    again = opened(tmp_path / "t-0", is_clean=False)
    assert again.append(batch(0, [b"z"], timestamp=T)).first_offset == 1
    again.close()


def test_a_transaction_over_a_roll_and_a_reopening_is_aborted_in_the_index(tmp_path):
    log = opened(tmp_path / "t-0")
    log.append(batch(0, [b"a"], timestamp=T, producer_id=9, base_sequence=0, transactional=True))
    log.roll()
    log.close()
    log = opened(tmp_path / "t-0")
    assert log.last_stable_offset == 0
    log.append(marker(0, 9, commit=False, timestamp=T), origin="coordinator")
    log.append(batch(0, [b"b"], timestamp=T))
    assert log.last_stable_offset == log.log_end_offset == 3
    log.close()
    read = bl.Log(tmp_path / "t-0").read(isolation_level="read_committed")
    assert [value for rows in read for value in rows["value"].to_pylist()] == [b"b"]
    index = _native.TransactionIndex((tmp_path / "t-0" / "00000000000000000001.txnindex").read_bytes(), 1)
    assert index.entries().select([1, 2, 3, 4]).to_pylist() == [
        {"producer_id": 9, "first_offset": 0, "last_offset": 1, "last_stable_offset": 2}
    ]
