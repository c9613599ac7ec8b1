"""A segment recovered is what its appends wrote, of brokers too; damaged, it is cut where a broker cuts it."""

import struct

import pytest

from brokerless import _native
from support.log_files import NOW, batch, marker
from support.memory_log import DEFAULTS, KINDS, MemoryLog, recovered, requests, with_byte


def mixed_log(**settings):
    """Make a log with rolls, epochs, open, aborted and committed transactions."""
    log = MemoryLog(index_interval_bytes=100, segment_bytes=700, **settings)
    for number, request in enumerate(requests()):
        log.append(request, leader_epoch=number // 4)
        if number % 3 == 2:
            log.append(marker(0, 8, commit=number % 2 == 0), origin="coordinator", leader_epoch=number // 4)
    return log


def test_recovery_makes_anew_what_the_appends_wrote():
    """Also where the file comes in windows of any size."""
    log = mixed_log()
    log.close()
    assert len(log.segments) > 3
    assert any(files["txnindex"] for files in log.segments.values())
    for window in (None, 1, 37, 200):
        producers, epochs = _native.Producers(), _native.LeaderEpochs()
        for base, files in sorted(log.segments.items()):
            if base in log.snapshots:
                assert producers.to_snapshot() == log.snapshots[base]
            recovery = recovered(bytes(files["log"]), base, producers, epochs, log.config, window)
            assert (recovery.ended, recovery.valid_bytes) == ("whole", len(files["log"]))
            made = {kind: getattr(recovery, kind) for kind in KINDS[1:]}
            assert made == {kind: bytes(files[kind]) for kind in KINDS[1:]}
        assert epochs.entries() == log.appender.leader_epochs.entries()
        assert producers.entries() == log.appender.producers.entries()
        assert recovery.next_offset == log.appender.log_end_offset


def test_a_segment_cut_anywhere_keeps_its_whole_batches():
    log = mixed_log(max_message_bytes=1000)
    data = bytes(log.segments[0]["log"])
    ends = [0, *(b["position"] + b["size"] for b in log.batches(0))]
    for cut in range(len(data) + 1):
        recovery = recovered(data[:cut], 0)
        assert (recovery.ended, recovery.valid_bytes) == ("whole", max(end for end in ends if end <= cut))
        assert recovery.batches == sum(0 < end <= cut for end in ends)


def test_zeros_behind_the_batches_are_cut_off_however_few():
    good = batch(0, [b"v"])
    for zeros in range(40):
        recovery = recovered(good + bytes(zeros), 0)
        assert (recovery.valid_bytes, recovery.next_offset) == (len(good), 1)
        assert recovery.ended == ("cut" if zeros > 17 else "whole")


def short_marker():
    """Build a marker whose value is too short for a coordinator epoch."""
    key, value = struct.pack(">hh", 0, 0), b"\0\0"
    return batch(1, [value], keys=[key], producer_id=7, transactional=True, control=True)


GOOD = batch(0, [b"v"], leader_epoch=1)
OPEN = batch(0, [b"v"], producer_id=7, base_sequence=0, transactional=True)
NEXT = batch(1, [b"w"], leader_epoch=2)


@pytest.mark.parametrize(
    ("data", "base", "ended", "batches", "error"),
    [
        pytest.param(GOOD + with_byte(NEXT, 50, 1), 0, "cut", 1, "crc mismatch", id="crc"),
        pytest.param(GOOD + bytes(30), 0, "cut", 1, "length 0 is below", id="length"),
        pytest.param(with_byte(GOOD, 16, 5) + NEXT, 0, "whole", 2, None, id="magic-5-is-outside-the-crc"),
        pytest.param(GOOD + batch(1 << 31, [b"v"]), 0, "split", 1, "not within 2", id="too-far"),
        pytest.param(GOOD, 5, "failed", 0, "not within 2", id="below-the-base"),
        pytest.param(GOOD * 400, 0, "emptied", 0, "the last offset in the offset index", id="not-ascending"),
        pytest.param(
            batch(0, [bytes(5000)]) + batch(9, [b"v"], timestamp=NOW + 1) + batch(1, [b"w"], timestamp=NOW + 2),
            0,
            "emptied",
            0,
            "offset 1 is below 9, the last offset in the time index",
            id="the-last-time-not-ascending",
        ),
        pytest.param(
            OPEN + batch(1, [b"v"], producer_id=7, base_sequence=1),
            0,
            "failed",
            2,
            "transaction from offset 0 on is open",
            id="outside-the-open-transaction",
        ),
        pytest.param(
            OPEN + short_marker() + batch(2, [b"v"]), 0, "cut", 2, "2 bytes, but needs 6", id="bad-marker-stays"
        ),
        pytest.param(batch(0, [], last_offset_delta=0) + NEXT, 0, "whole", 2, None, id="empty-batch"),
        pytest.param(b"", 3, "whole", 0, None, id="nothing"),
    ],
)
def test_what_a_load_makes_of_trouble(data, base, ended, batches, error):
    recovery = recovered(data, base)
    assert (recovery.ended, recovery.batches) == (ended, batches)
    assert (recovery.error is None) if error is None else (error in recovery.error)
    if ended == "emptied":
        assert (recovery.valid_bytes, recovery.index, recovery.timeindex) == (0, b"", b"")


def test_recovery_believes_only_newer_epochs():
    epochs = _native.LeaderEpochs([(1, 0)])
    data = GOOD + NEXT + batch(2, [b"v"], leader_epoch=1) + batch(3, [b"v"], leader_epoch=-1)
    recovery = recovered(data, 0, epochs=epochs)
    assert recovery.ended == "whole"
    assert epochs.entries() == [(1, 0), (2, 1)]


def test_a_replay_brings_producers_forward_from_an_offset():
    log = mixed_log(segment_ms=1 << 40)
    for start in (0, 4, 7):
        expected = _native.Producers()
        for base, files in sorted(log.segments.items()):
            inside = [b for b in log.batches(base) if start <= b["last_offset"]]
            recovered(b"".join(bytes(files["log"])[b["position"] :][: b["size"]] for b in inside), base, expected)
        found = _native.Producers()
        for files in (log.segments[base] for base in sorted(log.segments)):
            replay, data = _native.ProducerReplay(found, start), bytes(files["log"])
            position = 0
            while replay.ended is None:
                position += replay.feed(data[position : position + 300], position, len(data))
            assert replay.ended == "whole"
        assert found.entries() == expected.entries()
        assert found.first_unstable_offset == expected.first_unstable_offset


def test_a_replay_that_fails_changes_nothing():
    producers = _native.Producers()
    data = OPEN + batch(1, [b"v"], producer_id=7, base_sequence=1)
    replay = _native.ProducerReplay(producers, 0)
    replay.feed(data, 0, len(data))
    assert replay.ended == "failed"
    assert producers.is_empty


@pytest.mark.parametrize("window", [None, 1, 37])
@pytest.mark.parametrize(
    ("behind", "ended"),
    [
        pytest.param(b"", "whole", id="nothing"),
        pytest.param(bytes(17), "whole", id="too-few-for-a-magic"),
        pytest.param(bytes(18), "failed", id="length"),
        pytest.param(b"\x7f" * 40, "whole", id="longer-than-the-file"),
        pytest.param(NEXT[:-1], "whole", id="cut"),
    ],
)
def test_a_segment_ends_with_its_last_whole_batch_whatever_its_magic(behind, ended, window):
    whole = GOOD + with_byte(NEXT, 16, 5)
    end = _native.SegmentEnd(0)
    data = whole + behind
    taken, seen = 0, window or len(data)
    while end.ended is None:
        taken += end.feed(data[taken : taken + seen], taken, len(data))
        seen = max(seen, end.needed)
    assert (end.ended, end.position, end.next_offset) == (ended, len(whole), 2)
    assert (end.error is None) == (ended == "whole")


def test_positions_must_follow_each_other():
    with pytest.raises(ValueError, match="not the next one"):
        _native.SegmentRecovery(
            0,
            producers=_native.Producers(),
            epochs=_native.LeaderEpochs(),
            index_interval_bytes=DEFAULTS["index_interval_bytes"],
            segment_index_bytes=DEFAULTS["segment_index_bytes"],
        ).feed(GOOD, 1, len(GOOD))
    with pytest.raises(ValueError, match="not the next one"):
        _native.SegmentEnd(0).feed(GOOD, 1, len(GOOD))
    with pytest.raises(ValueError, match="not the next one"):
        _native.ProducerReplay(_native.Producers(), 0).feed(GOOD, 1, len(GOOD))


REOPENED = "opened again, which starts the count of the index interval anew"
CLEANED = "the cleaner dropped what the transaction index, or a snapshot taken before, still tells of"
NOT_REBUILT = {
    "__cluster_metadata-0": REOPENED,
    "__transaction_state-0": REOPENED,
    "__transaction_state-1": REOPENED,
    "leader-epochs-0": REOPENED,
    "compact-idempotent-0": CLEANED,
    "compact-txn-0": CLEANED,
    "compact-txn-expired-0": CLEANED,
}


def rebuilt(directory, interval):
    """Recover the segments of a partition; tell whether its broker left the same indexes and snapshots."""
    producers, epochs = _native.Producers(), _native.LeaderEpochs()
    settings = DEFAULTS | {"index_interval_bytes": interval}
    recovery = None
    for path in sorted(directory.glob("*.log")):
        if recovery is not None and not is_snapshot(path.with_suffix(".snapshot"), producers):
            return False
        recovery = recovered(path.read_bytes(), int(path.stem), producers, epochs, settings, 1 << 14)
        assert (recovery.ended, recovery.valid_bytes) == ("whole", path.stat().st_size)
        for kind in KINDS[1:]:
            file = path.with_suffix(f".{kind}")
            if getattr(recovery, kind) != (file.read_bytes() if file.exists() else b""):
                return False
    return is_snapshot(directory / f"{recovery.next_offset:020d}.snapshot", producers)


def is_snapshot(path, producers):
    """Tell whether the file, if there is one, holds that state; the order of its entries means nothing."""
    if not path.exists():
        return True
    entries = _native.producer_snapshot(path.read_bytes()).to_pylist()
    return sorted(entries, key=lambda entry: entry["producer_id"]) == producers.entries().to_pylist()


def test_recovery_rebuilds_the_files_that_brokers_left(golden):
    """Byte by byte: what a broker indexed as it appended, and what it knew of producers and transactions."""
    found = {}
    for directory in sorted((golden / "logs" / "kafka-4.1").iterdir()):
        if directory.is_dir() and any(directory.glob("*.log")):
            found[directory.name] = any(rebuilt(directory, interval) for interval in (512, 1024, 4096))
    assert len(found) > 40
    assert {name for name, is_same in found.items() if not is_same} == set(NOT_REBUILT)
