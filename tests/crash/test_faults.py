"""The disk that dies loses what a real one may, and no more: else the crash tests would show nothing."""

from unittest import mock

import pytest
from faults import DyingDisk, Killed, each_crash

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


def run(root, work, kill_at=None):
    dying = DyingDisk(root, kill_at)
    with mock.patch.object(disk, "os", dying):
        try:
            work(str(root))
        except Killed:
            assert kill_at is not None
    return dying


START = {"old": b"old", "sub": None, "sub/f": b"0123456789"}


def test_what_was_there_at_the_start_is_durable(root, tmp_path):
    dying = run(root, lambda path: None)
    for fall in ("kill", "power", "names"):
        assert contents(dying.left(fall, tmp_path / fall)) == START


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

    dying = run(root, work)
    power = contents(dying.left("power", tmp_path / "power"))
    assert power == START | {"sub/neither": b"", "sub/content": b"x", "sub/name": b"", "sub/both": b"x"}
    assert contents(dying.left("names", tmp_path / "names")) == power | {"sub/late": b"x"}
    assert contents(dying.left("kill", tmp_path / "kill"))["sub/neither"] == b"x"


def test_writes_in_place_and_truncations_go_back_to_the_last_fsync(root, tmp_path):
    def work(path):
        with disk.open_existing(f"{path}/sub/f") as output:
            output.write_at(2, b"ab")
            output.sync()
            output.write_at(0, b"zz")
            output.truncate(5)

    dying = run(root, work)
    assert contents(dying.left("power", tmp_path / "power"))["sub/f"] == b"01ab456789"
    assert contents(dying.left("kill", tmp_path / "kill"))["sub/f"] == b"zzab4"


def test_a_preallocated_file_is_as_long_as_at_its_last_fsync(root, tmp_path):
    def work(path):
        with disk.create(f"{path}/sub/new") as output:
            output.truncate(100)
            output.sync()
            output.write_at(0, b"entry")
            disk.sync_directory(f"{path}/sub")

    dying = run(root, work)
    assert contents(dying.left("power", tmp_path / "power"))["sub/new"] == bytes(100)
    assert contents(dying.left("kill", tmp_path / "kill"))["sub/new"] == b"entry" + bytes(95)


def test_a_rename_and_a_removal_need_the_directorys_fsync(root, tmp_path):
    def work(path):
        disk.rename(f"{path}/old", f"{path}/new")
        disk.remove(f"{path}/sub/f")

    dying = run(root, work)
    assert contents(dying.left("power", tmp_path / "power")) == START
    assert contents(dying.left("names", tmp_path / "names")) == {"new": b"old", "sub": None}


def test_a_renamed_directory_keeps_what_is_durable_in_it(root, tmp_path):
    def work(path):
        disk.rename(f"{path}/sub", f"{path}/dir")
        disk.sync_directory(path)
        disk.create(f"{path}/dir/new").close()
        disk.make_directory(f"{path}/made")
        disk.remove_directory(f"{path}/made")

    dying = run(root, work)
    assert contents(dying.left("power", tmp_path / "power")) == {"old": b"old", "dir": None, "dir/f": b"0123456789"}


def test_half_of_the_write_that_is_killed_reaches_the_file_and_nothing_after_it(root, tmp_path):
    def work(path):
        with disk.open_existing(f"{path}/old") as output:
            try:
                output.append(b"123456")
            finally:
                disk.remove(f"{path}/sub/f")

    dying = run(root, work, kill_at=1)
    assert contents(dying.left("kill", tmp_path / "kill")) == START | {"old": b"old123"}
    assert dying.steps == ["write old"]


def test_a_change_outside_of_the_root_is_an_error(root):
    with mock.patch.object(disk, "os", DyingDisk(root)), pytest.raises(AssertionError, match="is outside of"):
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
        "rename old.tmp",
        "fsync .",
        "",
    ]


def test_a_skipped_fall_leaves_what_the_step_before_left(root, tmp_path, monkeypatch):
    """Else a state of the disk would be missed."""

    def left(scratch):
        scratch.mkdir()
        crashes = each_crash(lambda path: disk.atomic_write(f"{path}/old", b"new!"), root, scratch)
        return [(crash.fall, *sorted(contents(crash.directory).items())) for crash in crashes]

    some = left(tmp_path / "some")
    monkeypatch.setattr(DyingDisk, "is_same_as_before", lambda *_: False)
    every = left(tmp_path / "every")
    assert len(some) < len(every)
    assert set(some) == set(every)


def test_the_disk_sees_a_rename_without_an_fsync_before_it(root, tmp_path):
    """The mistake that atomic_write must not make, and that these tests must be able to see."""

    def careless(path):
        with disk.create(f"{path}/tmp") as output:
            output.append(b"new!")
        disk.rename(f"{path}/tmp", f"{path}/old")

    left = {(crash.directory / "old").read_bytes() for crash in each_crash(careless, root, tmp_path)}
    assert b"new!" in left
    dying = run(root, careless)
    assert (dying.left("names", tmp_path / "names") / "old").read_bytes() == b""
