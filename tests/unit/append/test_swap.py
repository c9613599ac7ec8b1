"""Segments that take the place of others in an open log: what fits, what is refused, and that the log goes on."""

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

import brokerless as bl
from brokerless import _native
from brokerless.append.operation import Replacement
from brokerless.append.swap import discard
from brokerless.io import disk, storage
from support.drop_batches import DropBatches, write_cleaned
from support.log_files import NOW, batch

SETTINGS = bl.TopicConfig(segment_bytes=250, index_interval_bytes=0)


def opened(path, config=SETTINGS, **options):
    path.mkdir(exist_ok=True)
    return bl.LogWriter.open(str(path), config=config, is_clean=True, now=lambda: NOW, **options)


@pytest.fixture
def log(tmp_path):
    """Twelve records, three a segment: 0, 3, 6, 9."""
    writer = opened(tmp_path / "t-0")
    for i in range(12):
        writer.append(batch(0, [b"%d" % i], timestamp=NOW + i, producer_id=7, base_sequence=i))
    assert bases(writer) == [0, 3, 6, 9]
    return writer


def bases(log):
    return [segment.base_offset for segment in bl.Log(log.directory).segments]


def values(log):
    return [int(value) for rows in bl.Log(log.directory).read() for value in rows["value"].to_pylist()]


def contents(log):
    directory = storage.list_directory(log.directory)
    return {name: storage.read_all(f"{log.directory}/{name}") for name in directory}


@pytest.mark.parametrize(
    ("groups", "parts", "expected"),
    [((1,), 1, [0, 3, 6, 9]), ((3,), 1, [0, 9]), ((2, 2), 1, [0, 6]), ((4,), 1, [0]), ((3,), 2, [0, 5, 9])],
)
def test_new_segments_stand_for_old_ones_and_the_log_goes_on(log, groups, parts, expected):
    verb = DropBatches((1, 4, 7), groups, parts)
    dropped = {offset for offset in (1, 4, 7) if offset < 3 * sum(groups)}
    assert log.run(verb)["dropped"] == len(dropped)
    assert bases(log) == expected
    left = [i for i in range(12) if i not in dropped]
    assert values(log) == left
    # its producer is known as before: the next sequence is taken, the last one a duplicate
    assert log.append(batch(0, [b"11"], timestamp=NOW + 11, producer_id=7, base_sequence=11)).is_duplicate
    assert log.append(batch(0, [b"12"], producer_id=7, base_sequence=12)).first_offset == 12
    log.close()
    assert not [name for name in contents(log) if name.endswith((".cleaned", ".swap", ".deleted"))]
    with opened(Path(log.directory)) as again:
        # no snapshot of an old segment, nothing to be rebuilt
        assert again.recovery == []
        assert again.log_end_offset == 13
    assert values(log) == [*left, 12]


def test_a_segment_may_lose_all_of_its_records(log):
    log.run(DropBatches((3, 4, 5), (1, 1)))
    assert bases(log) == [0, 3, 6, 9]
    assert values(log) == [0, 1, 2, 6, 7, 8, 9, 10, 11]


@pytest.mark.parametrize(
    ("replacements", "message"),
    [
        ([Replacement((0,), (0, 6))], r"have the base offsets \[0, 3, 6, 9\]"),
        ([Replacement((1,), (1,))], r"have the base offsets \[0, 3, 6, 9\]"),
        ([Replacement((0,), ())], r"have the base offsets \[0, 3, 6, 9\]"),
        ([Replacement((3,), (3,)), Replacement((0,), (0,))], r"have the base offsets \[0, 3, 6, 9\]"),
        ([Replacement((0,), (0, 3)), Replacement((3,), (3,))], r"have the base offsets \[0, 3, 6, 9\]"),
        ([Replacement((1,), (0,))], "must ascend from 0, and be below 3"),
        ([Replacement((0, 3), (0,))], "must ascend from 0, and be below 3"),
        ([Replacement((0, 0), (0,))], "must ascend from 0, and be below 3"),
        ([Replacement((), (0,))], "must ascend from 0, and be below 3"),
    ],
    ids=[
        "a gap",
        "no segment",
        "of nothing",
        "not ascending",
        "twice",
        "another start",
        "beyond",
        "same",
        "by nothing",
    ],
)
def test_what_does_not_fit_changes_nothing(log, replacements, message):
    """Swapped in all the same, records would be lost, or be there twice."""
    for replacement in replacements:
        for base in set(replacement.base_offsets):
            write_cleaned(log.directory, base, b"")
    log.flush()
    before = contents(log)
    with pytest.raises(ValueError, match=message):
        log.replace_segments(replacements)
    assert contents(log) == before
    log.append(batch(0, [b"12"]))
    discard(log.directory)
    assert not [name for name in contents(log) if name.endswith(".cleaned")]


def test_a_half_written_segment_is_not_swapped_in(log):
    write_cleaned(log.directory, 0, b"")
    (Path(log.directory) / f"{0:020d}.index.cleaned").unlink()
    with pytest.raises(FileNotFoundError):
        log.replace_segments([Replacement((0,), (0,))])
    assert values(log) == list(range(12))


def test_the_log_ends_where_it_did(log):
    """Else offsets would be given a second time."""
    write_cleaned(log.directory, 9, batch(9, [b"9"], producer_id=7, base_sequence=9))
    with pytest.raises(ValueError, match="the log would end at offset 10, not at 12"):
        log.replace_segments([Replacement((9,), (9,))])
    assert (values(log), log.log_end_offset) == (list(range(12)), 12)


def test_a_log_without_producers_forgets_them(log):
    """And the leader epochs: formats 0 and 1 have neither."""
    assert bl.Log(log.directory).leader_epochs == [(0, 0)]
    outcome = DropBatches((1,)).work(DropBatches((1,)).plan(log.state()), dry_run=False, progress=lambda _: None)
    log.enforce(replace(outcome, has_producers=False, has_leader_epochs=False))
    assert bl.Log(log.directory).leader_epochs == []
    assert _native.producer_snapshot(log.state().producers).num_rows == 0
    # of a producer that is not known, any sequence is the first
    assert not log.append(batch(0, [b"12"], producer_id=7, base_sequence=11)).is_duplicate
    log.close()
    snapshots = [content for name, content in contents(log).items() if name.endswith(".snapshot")]
    assert sorted(_native.producer_snapshot(content).num_rows for content in snapshots)[:-1] == [0] * (
        len(snapshots) - 1
    )


def test_a_verb_that_fails_leaves_nothing(log):
    class Failing(DropBatches):
        def work(self, plan, *, dry_run, progress):
            super().work(plan, dry_run=dry_run, progress=progress)
            raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"):
        log.run(Failing((1,)))
    assert not [name for name in contents(log) if name.endswith(".cleaned")]
    assert log.append(batch(0, [b"12"])).first_offset == 12
    assert values(log) == list(range(13))


def test_a_state_goes_to_other_processes(log):
    state = log.state()
    again = pickle.loads(pickle.dumps(state))
    assert [segment.path for segment in again.segments] == [segment.path for segment in state.segments]
    assert replace(again, segments=()) == replace(state, segments=())
    assert (state.log_start_offset, state.log_end_offset, state.last_stable_offset, state.now) == (0, 12, 12, NOW)


@pytest.mark.parametrize("parts", [1, 2])
def test_a_disk_that_fails_at_any_rename_leaves_the_old_rows_or_the_new(tmp_path, monkeypatch, parts):
    """What is cleaned up after the failure must not make a swap that was begun look complete."""
    verb, new = DropBatches((1, 4), (2,), parts), [i for i in range(9) if i not in (1, 4)]
    rename, left, found = disk.rename, 0, []

    def fail(path, to):
        nonlocal left
        left -= path.endswith((".log", ".index", ".timeindex", ".cleaned", ".swap"))
        if not left:
            raise OSError("no disk")
        rename(path, to)

    for at in range(1, 6 * (parts + 1) + 1):
        log = opened(tmp_path / str(at))
        for i in range(9):
            log.append(batch(0, [b"%d" % i], timestamp=NOW + i))
        left = at
        monkeypatch.setattr(disk, "rename", fail)
        with pytest.raises(OSError, match="no disk"):
            log.run(verb)
        monkeypatch.undo()
        with opened(tmp_path / str(at)) as again:
            found.append(values(again))
    assert found == sorted(found, key=len, reverse=True)
    assert {tuple(rows) for rows in found} == {tuple(range(9)), tuple(new)}


def test_a_log_whose_files_changed_halfway_is_not_written_to(log, monkeypatch):
    """What they hold is known only once they are loaded again."""
    verb = DropBatches((1,))
    outcome = verb.work(verb.plan(log.state()), dry_run=False, progress=lambda _: None)

    def fail(path, to):
        raise OSError("no space")

    monkeypatch.setattr(disk, "rename", fail)
    with pytest.raises(OSError, match="no space"):
        log.enforce(outcome)
    with pytest.raises(ValueError, match="open its directory again"):
        log.append(batch(0, [b"12"]))
    monkeypatch.undo()
    with opened(Path(log.directory)) as again:
        assert again.append(batch(0, [b"12"])).first_offset == 12
    assert values(log) == list(range(13))
