"""A broker appends, rolls, cleans and deletes while its log is read."""

import dataclasses
import os
import struct

import pytest

import brokerless as bl
from brokerless.log.segment import Segment
from support import damage
from support.log_files import batch
from support.three_segment_log import SIZE, log_file, offsets, read_offsets, write_log


@pytest.fixture
def directory(tmp_path):
    return write_log(tmp_path / "t-0")


def test_what_grows_after_the_plan_is_not_read(directory):
    splits = bl.Log(directory).plan()
    damage.append(log_file(directory, 16), batch(24, [b"a", b"b"])[:-1])
    assert [offset for split in splits for offset in offsets(bl.read_split(split, ["offset"]))] == list(range(24))


def test_an_append_in_progress_is_no_damage(directory):
    whole = batch(24, [b"a", b"b"])
    for length in range(len(whole)):
        damage.cut(log_file(directory, 16), 4 * SIZE)
        damage.append(log_file(directory, 16), whole[:length])
        assert read_offsets(bl.Log(directory)) == list(range(24))


def test_a_segment_that_retention_deletes_after_the_plan_is_read_to_its_end(directory):
    log = bl.Log(directory)
    splits = log.plan()
    for suffix in ("log", "index", "timeindex"):
        path = directory / f"{0:020d}.{suffix}"
        path.rename(f"{path}.deleted")
    assert [offset for split in splits for offset in offsets(bl.read_split(split, ["offset"]))] == list(range(24))
    assert read_offsets(bl.Log(directory)) == list(range(8, 24))


def test_a_segment_that_is_gone_is_not_found(directory):
    splits = bl.Log(directory).plan()
    os.remove(splits[0].path)
    with pytest.raises(FileNotFoundError, match=r"deleted, truncated or replaced .*: read again"):
        list(bl.read_split(splits[0]))


def test_a_swap_that_is_completed_after_the_plan(directory):
    """The cleaner's output bears .swap until its inputs are gone."""
    swap = directory / f"{0:020d}.log.swap"
    swap.write_bytes(batch(1, [b"a"]) + batch(9, [b"b"], last_offset_delta=6))
    log = bl.Log(directory)
    splits = log.plan()
    assert [segment.base_offset for segment in log.segments] == [0, 16]
    for base in (0, 8):
        path = log_file(directory, base)
        path.rename(f"{path}.deleted")
    swap.rename(log_file(directory, 0))
    found = [offset for split in splits for offset in offsets(bl.read_split(split, ["offset"]))]
    assert found == [1, 9, *range(16, 24)]


def test_a_truncation_after_the_plan_is_reported(directory):
    """A follower truncates what was not committed: what was planned is no longer there."""
    splits = bl.Log(directory).plan()
    for length in (2 * SIZE + 5, 2 * SIZE):
        damage.cut(log_file(directory, 16), length)
        with pytest.raises(FileNotFoundError, match="read again"):
            list(bl.read_split(splits[-1]))


@pytest.fixture
def cleaned(directory):
    """Return what replaces the first two segments, as the log cleaner does it: with what is left of both."""

    def clean():
        for base in (0, 8):
            log_file(directory, base).rename(f"{log_file(directory, base)}.deleted")
        log_file(directory, 0).write_bytes(batch(1, [b"a"]) + batch(9, [b"b"], last_offset_delta=6))

    return clean


def test_what_the_cleaner_replaced_after_the_plan_is_read_as_it_was_planned(directory, cleaned):
    splits = bl.Log(directory).plan()
    cleaned()
    assert [offset for split in splits for offset in offsets(bl.read_split(split, ["offset"]))] == list(range(24))


def test_what_the_cleaner_replaced_long_ago_is_read_by_its_offsets_or_not_at_all(directory, cleaned):
    """A position of one file means nothing in another, whose name is the same."""
    whole = bl.Log(directory).plan(target_bytes=None)
    halves = halves_of(bl.Log(directory).plan()[0], (3, 5))
    assert [offset for split in halves for offset in offsets(bl.read_split(split, ["offset"]))] == list(range(8))
    cleaned()
    for path in directory.glob("*.deleted"):
        path.unlink()
    # The one behind has been merged into it; its rows are not the split's.
    late = dataclasses.replace(whole[0], position=2 * SIZE, entry=(3, 5), start_offset=1)
    for split in (whole[0], late):
        assert offsets(bl.read_split(split, ["offset"])) == [1]
    for split in (whole[1], *halves):
        with pytest.raises(FileNotFoundError, match="read again"):
            list(bl.read_split(split))


def test_what_the_cleaner_merges_after_the_listing_comes_once(directory, cleaned, monkeypatch):
    """The new file bears the first one's name, and has the length that is planned with."""
    monkeypatch.setattr(bl.LogDirFiles, "is_locked", True)
    log = bl.Log(directory)
    assert len(log.segments) == 3
    cleaned()
    assert read_offsets(log) == [1, *range(8, 24)]


@pytest.fixture
def rolled(directory):
    """Roll the active segment, as a broker does, and put what is left of it and of the next one into its place."""

    def roll():
        log_file(directory, 16).rename(f"{log_file(directory, 16)}.deleted")
        values = [b"x"] * 8
        log_file(directory, 16).write_bytes(batch(17, [b"a"]) + b"".join(batch(24 + 8 * i, values) for i in range(8)))
        log_file(directory, 88).write_bytes(b"")

    return roll


def halves_of(split, entry, middle=2 * SIZE):
    """Cut a split at an entry (before, offset) of its index."""
    return [
        dataclasses.replace(split, end_position=middle, ends_segment=False),
        dataclasses.replace(split, position=middle, entry=entry, fallback_position=middle),
    ]


def test_an_active_segment_that_was_rolled_and_cleaned_after_the_plan_is_read_as_it_was_planned(directory, rolled):
    """The new file is larger than what was planned: by its size it might be the same one that has grown."""
    splits = bl.Log(directory).plan(end_offset=24)
    rolled()
    for planned in ([splits[-1]], halves_of(splits[-1], (19, 21))):
        assert [offset for split in planned for offset in offsets(bl.read_split(split, ["offset"]))] == [*range(16, 24)]


def test_an_active_segment_that_was_cleaned_long_ago_is_read_by_its_offsets_or_not_at_all(directory, rolled):
    """Rows of the segments that were merged into it would come twice, or be taken for those of a half."""
    whole = bl.Log(directory).plan(end_offset=24)[-1]
    rolled()
    for path in directory.glob("*.deleted"):
        path.unlink()
    assert offsets(bl.read_split(whole, ["offset"])) == [17]
    for half in halves_of(whole, (19, 21)):
        with pytest.raises(FileNotFoundError, match="read again"):
            list(bl.read_split(half))


@pytest.mark.parametrize("segment_bytes", [1 << 20, 4000])
@pytest.mark.parametrize("is_rolled", [False, True])
def test_a_segment_that_a_conversion_made_larger_is_read_whole_or_not_at_all(tmp_path, segment_bytes, is_rolled):
    """Its old length says nothing of the new file, and its rows may be in several by now."""
    path, rows = tmp_path / "d", [{"value": b"%d" % i * 90} for i in range(200)]
    with bl.Producer(path, "t", compression="zstd", segment_bytes=segment_bytes) as producer:
        producer.send(rows)
    log = bl.Log(path / "t-0")
    with bl.open_log_dir(path) as log_dir:
        if is_rolled:
            log_dir.log("t", 0).roll()
            log = bl.Log(path / "t-0")
        [split] = log.plan(end_offset=200)
        log_dir.log("t", 0).append(batch(0, [b"more"]))
        log_dir.log("t", 0).roll()
        log_dir.log("t", 0).run(bl.Conversion(compression="none"))
    if segment_bytes < 1 << 20:
        with pytest.raises(FileNotFoundError, match="read again"):
            list(bl.read_split(split))
    else:
        assert offsets(bl.read_split(split, ["offset"])) == list(range(200))


def test_another_log_under_the_same_name_is_not_read_as_the_planned_one(directory):
    """A topic is deleted and made anew between the plan and the read."""
    splits = bl.Log(directory).plan()
    log_file(directory, 16).write_bytes(b"".join(batch(16 + 2 * i, [b"new", b"rows"]) for i in range(9)))
    with pytest.raises(FileNotFoundError, match="read again"):
        list(bl.read_split(splits[-1]))


def test_a_batch_that_is_appended_while_the_end_is_looked_for_hides_none_before_it(directory, monkeypatch):
    """A broker writes the batch, then its index entry: who takes the file's length before may see only the latter."""
    log = log_file(directory, 16)
    position_before = Segment.position_before

    def appending(segment, file, offset):
        damage.append(log, batch(24, [b"a", b"b"]))
        log.with_suffix(".index").write_bytes(struct.pack(">ii", 9, 4 * SIZE))
        return position_before(segment, file, offset)

    monkeypatch.setattr(Segment, "position_before", appending)
    assert bl.Log(directory).log_end_offset == 26
