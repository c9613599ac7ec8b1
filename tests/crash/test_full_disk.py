"""A disk that is full from any change of a verb on: nothing is lost, and a second run does the rest.

The error names the file. What the verb wrote for itself is removed: it would keep the disk full. Only the marker of a
clean shutdown may be aside: the directory is then as after a crash of its broker.
"""

import pytest
from commands import BESIDE, IN_PLACE, SIZE, command, errors, names, rows, unfinished
from faults import each_full_disk

import brokerless as bl
from support import damage

ASIDE = ".kafka_cleanshutdown.aside"


def disturbed(work, outer, tmp_path, capsys):
    """Yield what the work left behind when the disk was full; first what it leaves with enough space."""
    left = each_full_disk(work, outer, tmp_path)
    yield next(left)
    capsys.readouterr()
    for one in left:
        error = capsys.readouterr().err
        assert "No space left on device" in error, one
        assert "run/" in error, one
        yield one
        capsys.readouterr()


def kept_rows(left):
    """Return the rows of a directory that holds nothing unfinished, but is perhaps as after a crash."""
    data = left.directory / "data"
    assert all(name.endswith(ASIDE) for name in unfinished(left.directory)), left
    return rows(data)


def finished_rows(left):
    """Return the rows after `recover`, which ends what a full disk has left as after a crash."""
    command("recover", "D/data")(left.directory)
    data = left.directory / "data"
    assert not unfinished(left.directory), left
    assert bl.LogDirFiles(str(data)).is_clean, left
    assert not errors(data), left
    return rows(data)


def with_records(logs):
    return {name: found for name, found in logs.items() if found}


@pytest.mark.parametrize("verb", IN_PLACE)
def test_a_log_is_as_it_was_or_changed_and_a_second_run_does_the_rest(outer, tmp_path, verb, capsys):
    work = command(verb, "D/data", *IN_PLACE[verb])
    old = rows(outer / "data")
    full = disturbed(work, outer, tmp_path, capsys)
    new = rows(next(full).directory / "data")
    for left in full:
        found = kept_rows(left)
        for log in old:
            # As by a broker, segments are deleted before the start offset is in its checkpoint.
            is_between = (
                verb == "retain"
                and new[log] == found[log][-len(new[log]) :]
                and found[log] == old[log][-len(found[log]) :]
            )
            assert found[log] in (old[log], new[log]) or is_between, left
        work(left.directory)
        assert finished_rows(left) == new, left


@pytest.mark.parametrize("topic", ["t", "new"])
def test_what_was_produced_is_whole_batches(outer, tmp_path, topic, capsys):
    partitions = ["--partitions", "2"] if topic == "new" else []
    work = command("produce", "D/data", "--topic", topic, *partitions, "--input", "D/rows.jsonl")
    full = disturbed(work, outer, tmp_path, capsys)
    new = rows(next(full).directory / "data")
    for left in full:
        found = kept_rows(left)
        assert all(found[log] == new[log][: len(found[log])] for log in found), left
        assert with_records(finished_rows(left)) == with_records(found), left


@pytest.mark.parametrize("verb", BESIDE)
def test_a_result_is_whole_or_not_there(outer, tmp_path, verb, capsys):
    if verb in ("repair", "rescue"):
        damage.flip_bit(outer / "data/t-0/00000000000000000003.log", SIZE + 68)
    (outer / "data/.lock").touch()
    before = names(outer)
    work = command(verb, *BESIDE[verb])
    full = disturbed(work, outer, tmp_path, capsys)
    whole = names(next(full).directory)
    for left in full:
        assert names(left.directory) in (before, whole), left
        work(left.directory)
        assert names(left.directory) == whole, left


def test_a_repair_in_place_keeps_what_it_would_remove(outer, tmp_path, capsys):
    """The damaged file stays whole until its bytes are in data.lost, and a second run does the rest."""
    damage.flip_bit(outer / "data/t-0/00000000000000000003.log", SIZE + 68)
    work = command("repair", "D/data", "--in-place")
    full = disturbed(work, outer, tmp_path, capsys)
    new = rows(next(full).directory / "data")
    for left in full:
        assert all(name.endswith(ASIDE) for name in unfinished(left.directory)), left
        work(left.directory)
        assert finished_rows(left) == new, left
