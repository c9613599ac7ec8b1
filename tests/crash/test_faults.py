"""What the disk says of a crash is what a real one may leave, and no more: else the crash tests would show nothing."""

from pathlib import Path
from unittest import mock

import pytest
from faults import FALLS, RememberingDisk, each_crash

from brokerless.io import disk


@pytest.fixture
def root(tmp_path):
    (tmp_path / "root" / "sub").mkdir(parents=True)
    (tmp_path / "root" / "old").write_bytes(b"old")
    (tmp_path / "root" / "sub" / "f").write_bytes(b"0123456789")
    return tmp_path / "root"


def contents(directory):
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None for path in directory.rglob("*")
    }


def run(root, work):
    remembering = RememberingDisk(root)
    with mock.patch.object(disk, "os", remembering):
        work(str(root))
    return remembering


START = {"old": b"old", "sub": None, "sub/f": b"0123456789"}


def test_files_from_before_a_run_survive_a_simulated_crash(root, tmp_path):
    remembering = run(root, lambda path: None)
    for fall in ("kill", "power", "names"):
        assert contents(remembering.left(fall, tmp_path / fall)) == START


def test_a_new_file_needs_its_own_fsync_and_its_directorys(root, tmp_path):
    def work(path):
        for name in ("neither", "content", "name", "both"):
            with disk.create(f"{path}/sub/{name}") as output:
                output.append(b"x")
                if name in ("content", "both"):
                    output.sync()
            if name == "both":
                # that the directory knew of all four
                disk.sync_directory(f"{path}/sub")
        with disk.create(f"{path}/sub/late") as output:
            output.append(b"x")
            output.sync()

    remembering = run(root, work)
    power = contents(remembering.left("power", tmp_path / "power"))
    assert power == START | {"sub/neither": b"", "sub/content": b"x", "sub/name": b"", "sub/both": b"x"}
    assert contents(remembering.left("names", tmp_path / "names")) == power | {"sub/late": b"x"}
    assert contents(remembering.left("kill", tmp_path / "kill"))["sub/neither"] == b"x"


def test_writes_in_place_and_truncations_go_back_to_the_last_fsync(root, tmp_path):
    def work(path):
        with disk.open_existing(f"{path}/sub/f") as output:
            output.write_at(2, b"ab")
            output.sync()
            output.write_at(0, b"zz")
            output.truncate(5)

    remembering = run(root, work)
    assert contents(remembering.left("power", tmp_path / "power"))["sub/f"] == b"01ab456789"
    assert contents(remembering.left("kill", tmp_path / "kill"))["sub/f"] == b"zzab4"


def test_a_preallocated_file_is_as_long_as_at_its_last_fsync(root, tmp_path):
    def work(path):
        with disk.create(f"{path}/sub/new") as output:
            output.truncate(100)
            output.sync()
            output.write_at(0, b"entry")
            disk.sync_directory(f"{path}/sub")

    remembering = run(root, work)
    assert contents(remembering.left("power", tmp_path / "power"))["sub/new"] == bytes(100)
    assert contents(remembering.left("kill", tmp_path / "kill"))["sub/new"] == b"entry" + bytes(95)


def test_a_rename_and_a_removal_need_the_directorys_fsync(root, tmp_path):
    def work(path):
        disk.rename(f"{path}/old", f"{path}/new")
        disk.remove(f"{path}/sub/f")

    remembering = run(root, work)
    assert contents(remembering.left("power", tmp_path / "power")) == START
    assert contents(remembering.left("names", tmp_path / "names")) == {"new": b"old", "sub": None}


def test_a_renamed_directory_keeps_what_is_durable_in_it(root, tmp_path):
    def work(path):
        disk.rename(f"{path}/sub", f"{path}/dir")
        disk.sync_directory(path)
        disk.create(f"{path}/dir/new").close()
        disk.make_directory(f"{path}/made")
        disk.remove_directory(f"{path}/made")

    remembering = run(root, work)
    assert contents(remembering.left("power", tmp_path / "power")) == {
        "old": b"old",
        "dir": None,
        "dir/f": b"0123456789",
    }


def test_half_of_the_write_that_is_cut_short_reaches_the_file_and_nothing_after_it(root, tmp_path):
    def work(path):
        with disk.open_existing(f"{path}/old") as output:
            output.append(b"123456")
            output.write_at(12, b"ab")
        disk.remove(f"{path}/sub/f")

    remembering = run(root, work)
    assert remembering.steps == ["write old", "write old", "remove sub/f"]
    kept = [contents(remembering.left("kill", tmp_path / f"kill-{step}", step)) for step in range(3)]
    assert [left["old"] for left in kept] == [b"old123", b"old123456\0\0\0a", b"old123456\0\0\0ab"]
    assert [left | {"old": b"old"} for left in kept] == [START] * 3
    for step in range(3):
        assert contents(remembering.left("power", tmp_path / f"power-{step}", step)) == START


def test_half_of_a_copied_range_reaches_the_file(root, tmp_path):
    def work(path):
        with disk.open_existing(f"{path}/old") as output, (root / "sub/f").open("rb") as source:
            output.copy_from(source.fileno(), 2, 6)

    remembering = run(root, work)
    assert contents(remembering.left("kill", tmp_path / "half", 0))["old"] == b"ol234"
    assert contents(remembering.left("kill", tmp_path / "whole"))["old"] == b"ol234567"


def test_a_change_outside_of_the_root_is_an_error(root):
    with mock.patch.object(disk, "os", RememberingDisk(root)), pytest.raises(AssertionError, match="is outside of"):
        disk.remove(f"{root}/../x")


def test_an_atomic_write_leaves_the_old_content_or_the_new(root, tmp_path):
    """At every step and after every fall; and what a crash left beside it does not stop the next one."""
    steps = []
    for crash in each_crash(lambda path: disk.atomic_write(f"{path}/old", b"new!"), root, tmp_path):
        assert (crash.directory / "old").read_bytes() in (b"old", b"new!")
        steps.append(crash.step)
        disk.atomic_write(f"{crash.directory}/old", b"next")
        assert contents(crash.directory) == START | {"old": b"next"}
    assert list(dict.fromkeys(steps)) == [
        "create old.tmp",
        "write old.tmp",
        "fsync old.tmp",
        # The rename: what a crash before it leaves is what one before the fsync did.
        "fsync .",
        # The return: what a crash behind all leaves is what a kill before the last fsync did.
        "",
    ]


def test_a_crash_that_is_not_yielded_leaves_what_another_one_left(root, tmp_path):
    """Else a state of the disk would be missed."""
    done = 0

    def work(path):
        nonlocal done
        done = 0
        for _ in range(3):
            disk.atomic_write(f"{path}/old", b"new!")
            done += 1

    yielded = [
        (crash.progress, *sorted(contents(crash.directory).items()))
        for crash in each_crash(work, root, tmp_path, observe=lambda: done)
        if crash.step
    ]
    remembering = RememberingDisk(root, observe=lambda: done)
    with mock.patch.object(disk, "os", remembering):
        work(str(root))
        remembering.returned()
    every = [
        (
            remembering.progress[step],
            *sorted(contents(remembering.left(fall, tmp_path / f"{fall}-{step}", step)).items()),
        )
        for step in range(len(remembering.steps))
        for fall in FALLS
    ]
    assert set(yielded) == set(every)
    assert len(set(yielded)) == len(yielded) < len(every)


def test_a_change_that_the_disk_does_not_see_is_an_error(root, tmp_path):
    """Nothing would be known of what a crash leaves of it."""
    with pytest.raises(AssertionError, match="did not go through"):
        list(each_crash(lambda path: Path(path, "new").write_bytes(b""), root, tmp_path))


def test_the_disk_sees_a_rename_without_an_fsync_before_it(root, tmp_path):
    """The mistake that atomic_write must not make, and that these tests must be able to see."""

    def careless(path):
        with disk.create(f"{path}/tmp") as output:
            output.append(b"new!")
        disk.rename(f"{path}/tmp", f"{path}/old")

    left = {(crash.directory / "old").read_bytes() for crash in each_crash(careless, root, tmp_path)}
    assert b"new!" in left
    remembering = run(root, careless)
    assert (remembering.left("names", tmp_path / "names") / "old").read_bytes() == b""
