"""A signal after any change that a verb makes to the disk: no file stays half written, and no log half changed.

The command turns SIGINT, SIGTERM and SIGHUP into interrupts, which wait for the end of a change (`io/interrupts.py`).
After a signal there is nothing to be done.
"""

import pytest
from commands import BESIDE, IN_PLACE, SIZE, command, errors, names, rows, unfinished
from faults import each_interrupt

import brokerless as bl
from support import damage


def sound_rows(left):
    """Return the rows of a directory that was left clean, with nothing unfinished in it."""
    data = left.directory / "data"
    assert not unfinished(left.directory), left
    assert bl.LogDirFiles(str(data)).is_clean, left
    assert not errors(data), left
    return rows(data)


@pytest.mark.parametrize("verb", IN_PLACE)
def test_a_log_is_as_it_was_or_changed_and_its_directory_clean(outer, tmp_path, verb, capsys):
    """And the same command again does what is left."""
    work = command(verb, "D/data", *IN_PLACE[verb])
    old = rows(outer / "data")
    interrupts = each_interrupt(work, outer, tmp_path)
    new = rows(next(interrupts).directory / "data")
    seen = set()
    for left in interrupts:
        found = sound_rows(left)
        assert all(found[log] in (old[log], new[log]) for log in old), left
        seen.add(found == new)
        work(left.directory)
        assert rows(left.directory / "data") == new, left
    assert verb in ("convert", "recover") or seen == {False, True}


@pytest.mark.parametrize("topic", ["t", "new"])
def test_what_was_produced_is_whole_batches(outer, tmp_path, topic, capsys):
    partitions = ["--partitions", "2"] if topic == "new" else []
    work = command("produce", "D/data", "--topic", topic, *partitions, "--input", "D/rows.jsonl")
    interrupts = each_interrupt(work, outer, tmp_path)
    new = rows(next(interrupts).directory / "data")
    for left in interrupts:
        found = sound_rows(left)
        assert all(found[log] == new[log][: len(found[log])] for log in found), left


@pytest.mark.parametrize("verb", BESIDE)
def test_a_result_is_whole_or_not_there(outer, tmp_path, verb, capsys):
    if verb in ("repair", "rescue"):
        damage.flip_bit(outer / "data/t-0/00000000000000000003.log", SIZE + 68)
    (outer / "data/.lock").touch()
    before = names(outer)
    interrupts = each_interrupt(command(verb, *BESIDE[verb]), outer, tmp_path)
    whole = names(next(interrupts).directory)
    assert before != whole
    for left in interrupts:
        assert names(left.directory) in (before, whole), left


def test_a_new_log_directory_has_its_topics_one_after_the_other(outer, tmp_path, capsys):
    work = command("produce", "D/new", "--topic", "n", "--partitions", "2", "--input", "D/rows.jsonl")
    interrupts = each_interrupt(work, outer, tmp_path)
    whole = rows(next(interrupts).directory / "new")
    for left in interrupts:
        assert not unfinished(left.directory), left
        new = left.directory / "new"
        found = rows(new)
        if found:
            assert bl.LogDirFiles(str(new)).is_clean, left
            assert not errors(new), left
            assert all(found[log] == whole[log][: len(found[log])] for log in found), left


def test_a_repair_in_place_is_whole_or_not_begun(outer, tmp_path, capsys):
    damage.flip_bit(outer / "data/t-0/00000000000000000003.log", SIZE + 68)
    work = command("repair", "D/data", "--in-place")
    interrupts = each_interrupt(work, outer, tmp_path)
    next(interrupts)
    seen = set()
    for left in interrupts:
        assert not unfinished(left.directory), left
        data = left.directory / "data"
        assert bl.LogDirFiles(str(data)).is_clean, left
        seen.add(bool(errors(data)))
        assert (left.directory / "data.lost/report.json").exists() != bool(errors(data)), left
        work(left.directory)
        assert not errors(data), left
    assert seen == {False, True}
