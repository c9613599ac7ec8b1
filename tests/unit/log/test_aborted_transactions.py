"""read_committed: what is left out, and where it ends. Without a clean shutdown the markers tell."""

import itertools
import os
import random
import tracemalloc

import pytest

import brokerless as bl
from brokerless.log import aborted_transactions
from brokerless.log.aborted_transactions import fitting, overlapping
from support import damage
from support.log_files import batch, marker, write_segment, write_snapshot, write_transaction_index


def committed(log, **options):
    reader = log.read(isolation_level="read_committed", columns=["offset"], **options)
    return [offset for rows in reader for offset in rows["offset"].to_pylist()]


def data(offset, producer_id, count=1, **options):
    return batch(offset, [b"x"] * count, producer_id=producer_id, transactional=True, **options)


def clean(directory):
    (directory.parent / ".kafka_cleanshutdown").touch()


INTERLEAVED = [
    data(0, 1, 2), data(2, 2), marker(3, 1, commit=True), data(4, 2), marker(5, 2, commit=False),
    data(6, 1), data(7, 2), data(8, 1), marker(9, 1, commit=False), marker(10, 2, commit=True),
]  # fmt: skip


@pytest.mark.parametrize("cuts", [[], [3], [5], [1, 2, 3, 4, 5, 6, 7, 8, 9]])
@pytest.mark.parametrize("is_indexed", [False, True])
def test_interleaved_producers(tmp_path, cuts, is_indexed):
    """An abort ends with its own producer's marker and starts again with its next transaction, across segments too."""
    directory = tmp_path / "t-0"
    aborts = [(2, 2, 5, 6), (1, 6, 9, 7)]
    for first, end in zip([0, *cuts], [*cuts, len(INTERLEAVED)], strict=True):
        base = int.from_bytes(INTERLEAVED[first][:8], "big")
        following = int.from_bytes(INTERLEAVED[end][:8], "big") if end < len(INTERLEAVED) else 11
        write_segment(directory, base, INTERLEAVED[first:end])
        own = [entry for entry in aborts if base <= entry[2] < following]
        if own and is_indexed:
            write_transaction_index(directory, base, own)
    if is_indexed:
        clean(directory)
        write_snapshot(directory, 11)
    log = bl.Log(directory)
    assert committed(log) == [0, 1, 7]
    for start in range(12):
        assert committed(log, start_offset=start) == [offset for offset in (0, 1, 7) if offset >= start]
    splits = log.plan(isolation_level="read_committed", target_bytes=1)
    read = [offset for split in splits for rows in bl.read_split(split) for offset in rows["offset"].to_pylist()]
    assert read == [0, 1, 7]
    assert [r for rows in log.read(columns=["offset"]) for r in rows["offset"].to_pylist()] == [0, 1, 2, 4, 6, 7, 8]


def test_compaction_removed_where_a_transaction_began(tmp_path):
    batches = [
        data(3, 3, 2), data(15, 2, 3), data(22, 1, 2), marker(28, 2, commit=False), data(30, 3, 3),
        marker(35, 3, commit=True), data(39, 1, 2), marker(41, 1, commit=False),
    ]  # fmt: skip
    directory = write_segment(tmp_path / "t-0", 0, batches).parent
    write_transaction_index(directory, 0, [(2, 6, 28, 29), (1, 0, 41, 42)])
    write_snapshot(directory, 42)
    clean(directory)
    assert committed(bl.Log(directory)) == [3, 4, 30, 31, 32]
    assert committed(bl.Log(directory), verify_transactions=True) == [3, 4, 30, 31, 32]


def test_markers_without_data_are_harmless(tmp_path):
    batches = [marker(0, 1, commit=False), marker(1, 1, commit=False), batch(2, [b"x"]), marker(3, 2, commit=True)]
    assert committed(bl.Log(write_segment(tmp_path / "t-0", 0, batches).parent)) == [2]


def test_an_empty_control_batch_is_no_marker(tmp_path):
    """The cleaner empties markers to keep the producer's state: they end nothing."""
    emptied = batch(1, [], producer_id=1, transactional=True, control=True, last_offset_delta=0)
    batches = [data(0, 1), emptied, data(2, 1), marker(3, 1, commit=False)]
    assert committed(bl.Log(write_segment(tmp_path / "t-0", 0, batches).parent)) == []


def test_an_idempotent_batch_of_a_producer_that_also_aborted_stays(tmp_path):
    batches = [data(0, 1), marker(1, 1, commit=False), batch(2, [b"x"], producer_id=1)]
    assert committed(bl.Log(write_segment(tmp_path / "t-0", 0, batches).parent)) == [2]


def test_the_last_stable_offset_is_where_the_first_open_transaction_starts(tmp_path):
    batches = [
        data(0, 1),
        marker(1, 1, commit=True),
        data(2, 2),
        data(3, 3),
        marker(4, 3, commit=True),
        batch(5, [b"x"]),
    ]
    log = bl.Log(write_segment(tmp_path / "t-0", 0, batches).parent)
    assert (log.last_stable_offset, log.log_end_offset) == (2, 6)
    assert committed(log) == [0]
    assert log.offsets_for_times(-1, "read_committed").offset == 2
    assert log.offsets_for_times(-3, "read_uncommitted").offset == 0


def test_a_crashed_log_without_snapshots_is_walked_once(tmp_path, monkeypatch):
    log = bl.Log(write_segment(tmp_path / "t-0", 0, INTERLEAVED).parent)
    walked = []
    walk = aborted_transactions._walk
    monkeypatch.setattr(
        aborted_transactions, "_walk", lambda *arguments: (walked.append(arguments), walk(*arguments))[1]
    )
    assert committed(log) == [0, 1, 7]
    assert len(walked) == 1


def test_a_snapshot_knows_of_transactions_that_began_before_the_log(tmp_path):
    """Retention removed where they began: no batch here would tell that producer 7 has one open."""
    directory = write_segment(tmp_path / "t-0", 10, [batch(10, [b"x"]), data(11, 7)]).parent
    write_segment(directory, 12, [batch(12, [b"x"]), marker(13, 7, commit=False)])
    assert committed(bl.Log(directory)) == [10, 12]
    write_snapshot(directory, 12, [(7, 4)])
    assert committed(bl.Log(directory), start_offset=12) == [12]
    damage.cut(directory / f"{12:020d}.log", len(batch(12, [b"x"])))
    log = bl.Log(directory)
    # an open transaction below the log start counts from the batch that the log start is in
    assert log.last_stable_offset == 10
    assert committed(log) == []


def test_at_the_high_watermark_a_transaction_whose_marker_is_above_is_still_open(tmp_path):
    """Its marker may be truncated: then its fate is open, whatever the marker above says."""
    batches = [batch(0, [b"x"]), data(1, 1), batch(2, [b"x"]), marker(3, 1, commit=True), batch(4, [b"x"])]
    directory = write_segment(tmp_path / "t-0", 0, batches).parent
    assert committed(bl.Log(directory)) == [0, 1, 2, 4]
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\nt 0 3\n")
    assert committed(bl.Log(directory), end_offset="high-watermark") == [0]
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\nt 0 4\n")
    assert committed(bl.Log(directory), end_offset="high-watermark") == [0, 1, 2]


def test_an_end_given_as_a_number_changes_nothing_about_transactions(tmp_path):
    batches = [data(0, 1), batch(1, [b"x"]), marker(2, 1, commit=False), batch(3, [b"x"])]
    log = bl.Log(write_segment(tmp_path / "t-0", 0, batches).parent)
    assert committed(log, end_offset=2) == [1]


@pytest.fixture
def damaged(tmp_path):
    """Not cleanly shut down; the second of three segments has lost its framing in front of an ABORT marker."""
    directory = tmp_path / "t-0"
    write_segment(directory, 0, [batch(0, [b"x"]), data(1, 1)])
    path = write_segment(directory, 2, [batch(2, [b"x"]), batch(3, [b"x"]), marker(4, 1, commit=False)])
    write_segment(directory, 5, [batch(5, [b"x"]), data(6, 2), marker(7, 2, commit=False), batch(8, [b"x"])])
    write_transaction_index(directory, 2, [(1, 1, 4, 5)])
    write_snapshot(directory, 2, [(1, 1)])
    write_snapshot(directory, 5)
    damage.overwrite(path, len(batch(2, [b"x"])) + 8, bytes(4))
    return directory


def test_rows_before_the_damage_are_read_committed_too(damaged):
    reader = bl.Log(damaged).read(isolation_level="read_committed", columns=["offset"])
    found = []
    with pytest.raises(bl.errors.CorruptRecordError):
        found.extend(rows["offset"].to_pylist() for rows in reader)
    assert found == [[0], [2]]


def test_behind_the_damage_index_and_snapshot_tell_what_the_lost_markers_said(damaged):
    reader = bl.Log(damaged).read(isolation_level="read_committed", on_corrupt="skip", columns=["offset"])
    assert [offset for rows in reader for offset in rows["offset"].to_pylist()] == [0, 2, 5, 8]
    assert [(lost.start_offset, lost.end_offset) for lost in reader.lost] == [(3, 4)]


TRANSACTIONAL = 22, 4
"""The byte of a batch and the bit in it that say that it is part of a transaction."""


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_damaged_header_that_claims_a_transaction_does_not_end_a_read_without_a_word(copied, is_clean):
    directory = copied("kafka-4.1", "idempotent-0")
    if not is_clean:
        (directory.parent / ".kafka_cleanshutdown").unlink()
    segment = next(segment for segment in reversed(bl.Log(directory).segments) if segment.base_offset <= 188)
    headers = [header for batches in segment.scan() for header in batches.to_pylist()]
    (broken,) = (header for header in headers if header["base_offset"] == 188)
    damage.flip_bit(segment.path, broken["position"] + TRANSACTIONAL[0], TRANSACTIONAL[1])
    log = bl.Log(directory)
    with pytest.raises(bl.errors.CorruptRecordError, match=r"crc mismatch .*\(base_offset 188\)"):
        committed(log)
    reader = log.read(isolation_level="read_committed", on_corrupt="skip", columns=["offset"])
    found = [offset for rows in reader for offset in rows["offset"].to_pylist()]
    assert found == [offset for offset in range(231) if not 188 <= offset <= broken["last_offset"]]
    assert [(lost.start_offset, lost.end_offset) for lost in reader.lost] == [(188, broken["last_offset"] + 1)]


def test_a_transaction_whose_first_batch_is_damaged_is_open_from_its_next_one_on(tmp_path):
    batches = [batch(0, [b"x"]), data(1, 1), batch(2, [b"x"]), data(3, 2), data(4, 1), batch(5, [b"x"])]
    path = write_segment(tmp_path / "t-0", 0, [*batches[:4], marker(4, 2, commit=True), data(5, 1), batch(6, [b"x"])])
    damage.flip_bit(path, len(batches[0]) + len(batches[1]) - 1)
    log = bl.Log(path.parent)
    assert log.last_stable_offset == 5
    reader = log.read(isolation_level="read_committed", on_corrupt="skip", columns=["offset"])
    assert [offset for rows in reader for offset in rows["offset"].to_pylist()] == [0, 2, 3]


def test_behind_a_cut_segment_its_index_and_the_snapshot_tell_what_the_lost_markers_said(tmp_path):
    directory = tmp_path / "t-0"
    path = write_segment(directory, 0, [batch(0, [b"x"]), data(1, 1), marker(2, 1, commit=False)])
    write_segment(directory, 3, [batch(3, [b"x"]), batch(4, [b"x"])])
    write_transaction_index(directory, 0, [(1, 1, 2, 3)])
    write_snapshot(directory, 3)
    damage.cut(path, -1)
    log = bl.Log(directory)
    assert log.last_stable_offset == 5
    reader = log.read(isolation_level="read_committed", on_corrupt="skip", columns=["offset"])
    assert [offset for rows in reader for offset in rows["offset"].to_pylist()] == [0, 3, 4]
    assert [(lost.start_offset, lost.end_offset) for lost in reader.lost] == [(2, 3)]


@pytest.mark.parametrize("log_size", [0, 1 << 30])
def test_a_large_index_that_does_not_fit_is_not_made_into_python_objects(tmp_path, log_size):
    directory = write_segment(tmp_path / "t-0", 0, [batch(0, [b"x"]), batch(1, [b"x"])]).parent
    write_segment(directory, 2, [batch(2, [b"x"])])
    size = write_transaction_index(directory, 0, [(1000, 1000, 2000, 2001)] * 500_000).stat().st_size
    if log_size:
        os.truncate(directory / f"{0:020d}.log", log_size)
    clean(directory)
    write_snapshot(directory, 3)
    segment = bl.Log(directory).segments[0]
    tracemalloc.start()
    try:
        assert fitting(segment) is None
        assert tracemalloc.get_traced_memory()[1] < 3 * size
    finally:
        tracemalloc.stop()
    if not log_size:
        assert committed(bl.Log(directory)) == [0, 1, 2]


def test_one_long_aborted_transaction_does_not_make_planning_quadratic():
    count = 3_000
    short = [(producer, 10 * producer, 10 * producer + 5) for producer in range(count)]
    long = (count, 0, 10 * count)
    looks = 0

    class Seen(tuple):
        __slots__ = ()

        def __getitem__(self, i):
            nonlocal looks
            looks += 1
            return super().__getitem__(i)

    ranges = overlapping([Seen(each) for each in (*short, long)], [(10 * i, 10 * i + 10) for i in range(count)])
    assert ranges == [(transaction, long) for transaction in short]
    assert looks < 10 * count


@pytest.mark.parametrize("seed", range(50))
def test_each_range_gets_the_transactions_that_overlap_it(seed):
    chance = random.Random(seed)
    aborted = []
    for producer in range(chance.randrange(30)):
        first = chance.randrange(100)
        aborted.append((producer, first, first + 1 + chance.randrange(chance.choice([3, 90]))))
    edges = sorted(chance.sample(range(130), 9))
    bounds = list(itertools.pairwise(edges))
    expected = [{t for t in aborted if t[1] < end and t[2] >= start} for start, end in bounds]
    assert [set(ranges) for ranges in overlapping(aborted, bounds)] == expected


def lost_of(reader):
    return [(lost.start_offset, lost.end_offset) for lost in reader.lost]


@pytest.fixture(params=[False, True], ids=["unclean", "clean"])
def ten_transactions(tmp_path, request):
    """Ten transactions of one row, each with its COMMIT marker, and 1,000 rows behind them."""
    batches = []
    for offset in range(0, 20, 2):
        batches += [data(offset, offset), marker(offset + 1, offset, commit=True)]
    plain = [batch(20 + 100 * i, [b"x"] * 100) for i in range(10)]
    path = write_segment(tmp_path / "t-0", 0, [*batches, *plain])
    if request.param:
        clean(path.parent)
        write_snapshot(path.parent, 1020)
    places = [0, *itertools.accumulate(map(len, batches))]
    return path, places, request.param


@pytest.mark.parametrize("byte", [17, 22, 8, 40, 65])
def test_a_damaged_commit_marker_ends_no_read_without_a_word(ten_transactions, byte):
    path, places, is_clean = ten_transactions
    damage.flip_bit(path, places[3] + byte, 5)
    log = bl.Log(path.parent)
    found = []
    with pytest.raises(
        bl.errors.CorruptRecordError,
        match="not known whether the transaction of producer 2 from offset 2 on was committed",
    ):
        found.extend(rows["offset"].to_pylist() for rows in log.read(isolation_level="read_committed"))
    assert found == [[0]]
    reader = log.read(isolation_level="read_committed", on_corrupt="skip", columns=["offset"])
    kept = [offset for rows in reader for offset in rows["offset"].to_pylist()]
    assert kept == [0, *range(4, 20, 2), *range(20, 1020)]
    assert lost_of(reader) == [(3, 4), (2, 4)]
    assert committed(log, start_offset=4) == kept[1:]
    assert committed(log, end_offset=2) == [0]
    if is_clean:
        # The snapshot says that none is open, committed or not.
        assert log.last_stable_offset == 1020
        return
    for look in (lambda: log.last_stable_offset, lambda: log.offsets_for_times(-1, "read_committed")):
        with pytest.raises(bl.errors.CorruptRecordError, match="is not known"):
            look()


@pytest.mark.parametrize("is_indexed", [False, True])
def test_a_damaged_abort_marker_does_not_make_its_rows_committed(tmp_path, is_indexed):
    batches = [data(0, 1), marker(1, 1, commit=True), data(2, 1, 14), marker(16, 1, commit=False), batch(17, [b"x"])]
    path = write_segment(tmp_path / "t-0", 0, batches)
    damage.flip_bit(path, sum(map(len, batches[:3])) + 70)
    if is_indexed:
        write_transaction_index(path.parent, 0, [(1, 2, 16, 17)])
    reader = bl.Log(path.parent).read(isolation_level="read_committed", on_corrupt="skip", columns=["offset"])
    assert [offset for rows in reader for offset in rows["offset"].to_pylist()] == [0, 17]
    assert lost_of(reader) == [(16, 17)] if is_indexed else [(16, 17), (2, 17)]


def test_damage_in_a_large_batch_puts_no_transaction_in_doubt(tmp_path):
    batches = [data(0, 1), batch(1, [b"x" * 100]), data(2, 1), marker(3, 1, commit=True), batch(4, [b"x"])]
    path = write_segment(tmp_path / "t-0", 0, batches)
    damage.flip_bit(path, len(batches[0]) + 100)
    reader = bl.Log(path.parent).read(isolation_level="read_committed", on_corrupt="skip", columns=["offset"])
    assert [offset for rows in reader for offset in rows["offset"].to_pylist()] == [0, 2, 4]
    assert lost_of(reader) == [(1, 2)]


def test_a_missing_segment_that_may_have_had_the_marker_is_a_doubt(tmp_path):
    """Its indexes tell of it. Without its marker, the transaction seems open, and the read ends there in silence."""
    directory = write_segment(tmp_path / "t-0", 0, [batch(0, [b"x"]), data(1, 7)]).parent
    write_segment(directory, 2, [marker(2, 7, commit=True), batch(3, [b"x"])])
    write_segment(directory, 4, [batch(4, [b"x"])])
    (directory / f"{2:020d}.index").touch()
    damage.remove(directory / f"{2:020d}.log")
    with pytest.raises(bl.errors.CorruptRecordError, match="although its indexes or a link to it exist"):
        committed(bl.Log(directory))
    reader = bl.Log(directory).read(isolation_level="read_committed", columns=["offset"], on_corrupt="skip")
    assert [offset for rows in reader for offset in rows["offset"].to_pylist()] == [0, 4]
    assert {(1, 4), (2, 4)} == {(lost.start_offset, lost.end_offset) for lost in reader.lost}


def test_a_marker_that_a_snapshot_knows_of_and_is_not_there_is_missed(tmp_path):
    """Whole batches were taken out: nothing else tells of them."""
    directory = write_segment(tmp_path / "t-0", 0, [batch(0, [b"x"]), data(1, 1)]).parent
    write_segment(directory, 4, [batch(4, [b"x"])])
    write_snapshot(directory, 4)
    log = bl.Log(directory)
    with pytest.raises(
        bl.errors.CorruptRecordError,
        match=r"no marker was found up to offset 4, but 0+4\.snapshot says that it has ended",
    ):
        committed(log)
    reader = log.read(isolation_level="read_committed", on_corrupt="skip", columns=["offset"])
    assert [offset for rows in reader for offset in rows["offset"].to_pylist()] == [0, 4]
    assert lost_of(reader) == [(1, 4)]


ENTRIES = [(2, 2, 5, 6), (1, 6, 9, 7)]


@pytest.mark.parametrize(
    "entries",
    [None, [], ENTRIES[:1], ENTRIES[1:], [(2, 2, 5, 6), (1, 0, 9, 7)], [(2, 2, 5, 6), (2, 6, 9, 7)]],
    ids=["removed", "empty", "first", "second", "too early", "another producer"],
)
def test_a_damaged_transaction_index_changes_no_row_of_a_clean_log(tmp_path, entries):
    directory = write_segment(tmp_path / "t-0", 0, INTERLEAVED).parent
    clean(directory)
    write_snapshot(directory, 11)
    if entries is not None:
        write_transaction_index(directory, 0, entries)
    assert committed(bl.Log(directory)) == [0, 1, 7]
    if entries:
        damage.append(directory / f"{0:020d}.txnindex", b"\0" * 7)
        assert committed(bl.Log(directory)) == [0, 1, 7]


@pytest.fixture
def tiered(tmp_path):
    """The local part of a log from offset 10 on; a transaction of producer 7 began in the remote part, at 4."""
    directory = write_segment(tmp_path / "t-0", 10, [batch(10, [b"x"]), data(11, 7)]).parent
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    write_snapshot(directory, 10, [(7, 4)])
    return directory


@pytest.mark.filterwarnings("ignore:.* in remote storage, or were deleted")
def test_a_transaction_that_began_in_the_remote_part_is_open_from_there(tiered):
    """As a broker has it: the log start offset is that of the remote part."""
    log = bl.Log(tiered)
    assert (log.log_start_offset, log.local_log_start_offset) == (0, 10)
    assert log.last_stable_offset == 4
    assert committed(log) == []


@pytest.mark.filterwarnings("ignore:.* in remote storage, or were deleted")
def test_a_lost_marker_of_a_transaction_that_began_in_the_remote_part_is_missed(tiered):
    write_segment(tiered, 14, [batch(14, [b"x"])])
    write_snapshot(tiered, 14)
    with pytest.raises(bl.errors.CorruptRecordError, match=r"but 0+14\.snapshot says that it has ended"):
        committed(bl.Log(tiered))
