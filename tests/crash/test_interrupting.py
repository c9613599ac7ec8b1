"""A signal after any change that a verb makes to the disk: no file stays half written, and no log half changed.

The command turns SIGINT, SIGTERM and SIGHUP into interrupts, which wait for the end of a change (`io/interrupts.py`).
"""

import contextlib
import json

import pytest
from faults import each_interrupt

import brokerless as bl
from brokerless.cli.command import run
from support import damage
from support.log_files import NOW, batch

SIZE = len(batch(0, [b"0"], keys=[b"k0"]))
# Names of what is under way. A broker deletes some, and recovers others; after a signal there is nothing to be done.
UNFINISHED = (".tmp", ".cleaned", ".swap", ".deleted", "-delete", ".partial", ".aside", "journal")


@pytest.fixture
def outer(tmp_path):
    """A log directory with a topic of two partitions, and a compacted one; and rows for a new topic."""
    data = tmp_path / "outer/data"
    data.parent.mkdir()
    with bl.create_log_dir(data) as log_dir:
        small = {"segment_bytes": 3 * SIZE, "index_interval_bytes": 0, "segment_index_bytes": 1200}
        log_dir.create_topic("t", 2, **small)
        log_dir.create_topic("c", **small, cleanup_policy="compact")
        for topic, partition, count in (("t", 0, 7), ("t", 1, 1), ("c", 0, 4)):
            for i in range(count):
                log = log_dir.log(topic, partition)
                log.append(batch(0, [b"%d" % i], timestamp=NOW + i, keys=[b"k%d" % (i % 3)]))
    rows = [json.dumps({"value": str(i), "partition": i % 2}) for i in range(6)]
    (data.parent / "rows.jsonl").write_text("\n".join(rows) + "\n")
    return data.parent


def rows(data):
    """Return the rows of each log; None: there is no log directory."""
    if not (data / "meta.properties").exists():
        return None
    columns = ["offset", "key", "value"]
    return {log.name: log.to_table(columns=columns).to_pylist() for log in bl.LogDirs(data).logs()}


def unfinished(directory):
    names = (str(path.relative_to(directory)) for path in directory.rglob("*"))
    return [name for name in names if name.endswith(UNFINISHED) or ".unfinished" in name]


def errors(data):
    return [str(one) for one in bl.check(data) if one.severity == "error"]


def command(*arguments):
    """Run a command as a user does; its exit code says no more than the test sees."""

    def work(path):
        with contextlib.suppress(SystemExit):
            run([argument.replace("D/", f"{path}/") for argument in arguments])

    return work


IN_PLACE = {
    "retain": ["--topic", "t", "--partition", "0", "--before-offset", "5", "--in-place"],
    "compact": ["--topic", "c", "--roll", "--in-place"],
    "convert": ["--topic", "c", "--compression", "lz4", "--in-place"],
    "erase": ["--topic", "c", "--key", "k1", "--in-place"],
    "recover": [],
}


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


BESIDE = {
    "retain": ["D/data", "--topic", "t", "--partition", "0", "--before-offset", "5", "--output", "D/new"],
    "truncate": ["D/data", "--topic", "t", "--timestamp", str(NOW + 4), "--output", "D/new"],
    "repair": ["D/data", "--output", "D/new"],
    "rescue": ["D/data", "--output", "D/new"],
    "report": ["D/data", "--output", "D/new"],
    "read": ["D/data", "--output", "D/new"],
}


def names(directory):
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


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
