"""An index that would mislead a broker is found, whatever is in it; one that a broker writes is not.

What misleads is computed by the rules of Kafka's own classes (AbstractIndex, LogSegment, FileRecords) over the batches
that the test wrote, for each offset and each time.
"""

import random
import struct
from contextlib import nullcontext

import pytest

import brokerless as bl
from brokerless.errors import CorruptRecordError
from brokerless.log_dir.recover import forecast
from support.log_files import NOW, batch, marker, write_segment, write_transaction_index
from support.reference_decoder import crc32c

BASE = 40
SEEDS = 25


def slot(entries, target):
    """Return the number of the entry that AbstractIndex finds for a target; -1 for none."""
    if not entries or entries[0] > target:
        return -1
    low, high = 0, len(entries) - 1
    while low < high:
        middle = (low + high + 1) >> 1
        if entries[middle] > target:
            high = middle - 1
        elif entries[middle] < target:
            low = middle
        else:
            return middle
    return low


def position_of(offsets, target):
    """Return where a broker begins to search for an offset (OffsetIndex.lookup)."""
    at = slot([offset for offset, _ in offsets], target)
    return 0 if at < 0 else offsets[at][1]


def batch_from(batches, position, is_wanted):
    """Return the first wanted batch from a position on; None without one, or where no batch begins."""
    starts = [one["position"] for one in batches]
    if position not in starts:
        return None
    return next((one for one in batches[starts.index(position) :] if is_wanted(one)), None)


def misleads_by_offset(offsets, batches):
    """Return whether a broker misses the batch of an offset, or the end of the log (LogSegment.readNextOffset)."""

    def found(position, target):
        return batch_from(batches, position, lambda one: one["last"] >= target)

    for target in range(BASE, batches[-1]["last"] + 1):
        if found(position_of(offsets, target), target) != found(0, target):
            return True
    last = offsets[-1][0] if offsets else BASE
    return found(position_of(offsets, last), last) is None


def misleads_by_time(times, batches):
    """Return whether a broker finds a wrong batch for a time (LogSegment.findOffsetByTimestamp), or largest time."""
    offsets = [(one["last"], one["position"]) for one in batches[1:]]
    for target in range(NOW - 2, NOW + 24):
        at = slot([time for time, _ in times], target)
        start = position_of(offsets, BASE if at < 0 else max(BASE, times[at][1]))
        first = batch_from(batches, start, lambda one, target=target: one["time"] >= target)
        if first != batch_from(batches, 0, lambda one, target=target: one["time"] >= target):
            return True
    return bool(times) and times[-1][0] != max(one["time"] for one in batches)


def written(directory, chance):
    """Write a log that a broker closed; return its batches, and the entries that a broker may have written."""
    directory.mkdir(parents=True)
    batches, content, offset = [], b"", BASE
    for _ in range(chance.randint(1, 8)):
        count, time = chance.randint(1, 3), NOW + chance.randint(0, 20)
        one = batch(offset, [b"v"] * count, timestamp=time, step=0)
        offset += count
        batches.append({"position": len(content), "last": offset - 1, "time": time})
        content += one
    (directory / f"{BASE:020d}.log").write_bytes(content)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (directory.parent / name).write_text(f"0\n1\nt 0 {offset}\n")
    (directory.parent / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    snapshot = struct.pack(">i", 0)
    (directory / f"{offset:020d}.snapshot").write_bytes(struct.pack(">hI", 1, crc32c(snapshot)) + snapshot)
    (directory / "leader-epoch-checkpoint").write_text(f"0\n1\n0 {BASE}\n")
    offsets, times = [], []
    for one in batches:
        # The interval decides; the largest timestamp comes at the end in any case.
        if one["position"] and chance.random() < 0.7:
            offsets.append((one["last"], one["position"]))
        is_later = one["time"] > max((before["time"] for before in batches[: batches.index(one)]), default=-1)
        is_largest = one["time"] == max(other["time"] for other in batches)
        if is_later and (is_largest or chance.random() < 0.7):
            times.append((one["time"], one["last"]))
    return batches, offsets, times


def lied(entries, low, high, chance):
    """Return entries of which some are wrong: other numbers, another order, some more or fewer, zeros, or bytes."""
    entries = list(entries)
    for _ in range(chance.randint(1, 2)):
        what = chance.choice(["change", "add", "drop", "swap", "zeros", "bytes"])
        at = chance.randrange(len(entries) + 1)
        lie = tuple(chance.choice([a, b, chance.randint(a, b)]) for a, b in zip(low, high, strict=True))
        if what == "add" or not entries:
            entries.insert(at, lie)
        elif what == "change":
            at = min(at, len(entries) - 1)
            kept = chance.randrange(2)
            entries[at] = (entries[at][0], lie[1]) if kept == 0 else (lie[0], entries[at][1])
        elif what == "drop":
            del entries[chance.randrange(len(entries))]
        elif what == "swap":
            chance.shuffle(entries)
        else:
            size = chance.randint(1, 40)
            tail = [tuple(chance.randint(0, (1 << 31) - 1) for _ in low) if what == "bytes" else (0, 0)] * size
            entries += [(one[0] - 1, one[1]) if chance.random() < 0.2 else one for one in tail]
    return entries


def findings(directory, level):
    return {one.code for one in bl.check(directory.parent, level=level) if one.code != "file-foreign"} - {
        "ids-missing",
        "topic-id-missing",
    }


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(4))
def test_an_index_that_misleads_a_broker_is_found(tmp_path, chunk):
    misled = 0
    for seed in range(chunk * SEEDS, (chunk + 1) * SEEDS):
        chance = random.Random(seed)
        directory = tmp_path / str(seed) / "t-0"
        batches, offsets, times = written(directory, chance)
        stem = directory / f"{BASE:020d}"
        assert not misleads_by_offset(offsets, batches), seed
        assert not misleads_by_time(times, batches), seed
        end = batches[-1]["last"] + 1
        content_end = stem.with_suffix(".log").stat().st_size
        for kind in ("none", "index", "timeindex"):
            of_offsets, of_times = offsets, times
            if kind == "index":
                of_offsets = lied(offsets, (BASE - 1, -1), (end + 3, content_end + 60), chance)
            elif kind == "timeindex":
                of_times = lied(times, (NOW - 5, BASE - 1), (NOW + 30, end + 3), chance)
            of_index = [struct.pack(">ii", offset - BASE if place else 0, place) for offset, place in of_offsets]
            stem.with_suffix(".index").write_bytes(b"".join(of_index))
            of_index = [struct.pack(">qi", time, offset - BASE if time else 0) for time, offset in of_times]
            stem.with_suffix(".timeindex").write_bytes(b"".join(of_index))
            of_offsets = [(offset if place else BASE, place) for offset, place in of_offsets]
            of_times = [(time, offset if time else BASE) for time, offset in of_times]
            is_misled = misleads_by_offset(of_offsets, batches) or misleads_by_time(of_times, batches)
            misled += is_misled
            for level in ("default", "deep"):
                found = findings(directory, level)
                if kind == "none":
                    assert not found, (seed, found)
                else:
                    expected = {"index": "offset-index", "timeindex": "time-index"}[kind]
                    assert found <= {expected}, (seed, found)
                    assert found or not is_misled, (seed, kind, of_offsets, of_times, batches)
            if is_misled:
                repaired = tmp_path / f"{seed}-{kind}"
                bl.repair(directory.parent, repaired)
                assert not [one for one in bl.check(repaired) if "index" in one.code], (seed, kind)
    assert misled > SEEDS // 2


def test_the_entries_of_real_brokers_mislead_nobody(golden):
    """Guards the rules of this file: entries that brokers wrote pass them."""
    checked = 0
    for path in sorted((golden / "logs").glob("*/*-0")):
        if bl.Log(path).root.is_clean:
            assert not [one for one in bl.check(path) if one.code in ("offset-index", "time-index")]
            checked += 1
    assert checked > 30


@pytest.mark.parametrize(
    ("stable", "is_found"),
    [((0, 6), False), ((0, 5), False), ((1, 6), True), ((0, 7), False), ((0, 8), True), ((1 << 40, 6), True)],
)
def test_a_last_stable_offset_that_ends_a_search_too_early_is_found(tmp_path, stable, is_found):
    """A broker collects no aborted transaction behind such an entry (TransactionIndex.collectAbortedTxns)."""
    directory = tmp_path / "t-0"
    batches = [
        batch(0, [b"a"], producer_id=8, base_sequence=0, transactional=True),
        batch(1, [b"b"], producer_id=9, base_sequence=0, transactional=True),
        marker(2, 9, commit=False),
        batch(3, [b"c"], producer_id=9, base_sequence=1, transactional=True),
        marker(4, 9, commit=True),
        marker(5, 8, commit=False),
        batch(6, [b"d"]),
    ]
    write_segment(directory, 0, batches)
    first, second = stable
    write_transaction_index(directory, 0, [(9, 1, 2, first), (8, 0, 5, second)])
    found = [one for one in bl.check(directory) if one.code == "transaction-index"]
    assert bool(found) == is_found


@pytest.mark.parametrize("version", [1, 16, 0x100, -1, -0x7000])
def test_a_version_that_no_broker_writes_is_found_and_made_anew(tmp_path, version):
    """Brokers of 4.4 do not start with one above 0, those up to 4.1 read its first byte alone (AbortedTxn)."""
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t")
        log = log_dir.log("t", 0)
        log.append(batch(0, [b"a"], producer_id=8, base_sequence=0, transactional=True))
        log.append(marker(0, 8, commit=False), origin="coordinator")
    path = tmp_path / "data/t-0/00000000000000000000.txnindex"
    sound = path.read_bytes()
    assert sound[:2] == bytes(2)
    path.write_bytes(struct.pack(">h", version) + sound[2:])
    assert "transaction-version" in [one.code for one in bl.check(tmp_path / "data")]
    stops = pytest.raises(CorruptRecordError, match="a broker does not start") if version > 0 else nullcontext()
    with stops:
        forecast(str(tmp_path / "data"))
    bl.repair(tmp_path / "data", tmp_path / "to")
    assert (tmp_path / "to/t-0" / path.name).read_bytes() == sound
