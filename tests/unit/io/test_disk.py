"""What is written arrives whole, where it belongs, and replaces nothing that it should not."""

import errno
import os
import re
from pathlib import Path

import pytest

import brokerless
from brokerless.io import disk
from brokerless.log_dir.copying import copy_file


def test_a_new_file_replaces_none(tmp_path):
    (tmp_path / "f").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        disk.create(str(tmp_path / "f"))
    with pytest.raises(FileNotFoundError):
        disk.open_existing(str(tmp_path / "g"))
    assert (tmp_path / "f").read_bytes() == b"old"


def test_appends_and_writes_in_place(tmp_path):
    path = str(tmp_path / "f")
    with disk.create(path) as output:
        output.append(b"01234")
        output.append(memoryview(bytearray(b"56789")))
        output.write_at(2, b"ab")
        output.write_at(12, b"z")
        assert output.size() == 13
        output.truncate(14)
    assert (tmp_path / "f").read_bytes() == b"01ab456789\0\0z\0"
    with disk.open_existing(path) as output:
        output.truncate(3)
        output.append(b"!")
    assert (tmp_path / "f").read_bytes() == b"01a!"


def test_a_missing_file_does_not_keep_the_others_from_being_removed(tmp_path):
    """Files that stay behind fill the disk."""
    paths = [tmp_path / str(number) for number in range(10)]
    for path in paths[1:]:
        path.touch()
    with pytest.raises(FileNotFoundError, match=re.escape(str(paths[0]))):
        disk.remove_all(map(str, paths))
    assert list(tmp_path.iterdir()) == []
    disk.remove_all([])


@pytest.mark.parametrize("is_able", [True, False])
def test_the_system_is_asked_to_begin_with_all_that_is_written_but_the_last(tmp_path, monkeypatch, is_able):
    """A file that is never begun with makes its sync wait for all of it."""
    begun = []

    def advise(descriptor, start, length, advice):
        begun.append((start, start + length))
        if not is_able:
            raise OSError("no such advice")

    monkeypatch.setattr(os, "posix_fadvise", advise)
    monkeypatch.setattr(disk, "_EAGER", 10)
    with disk.create(str(tmp_path / "f")) as output:
        for length in (4, 5, 6, 30, 3, 6):
            output.append(b"." * length)
    assert begun == [(0, 15), (15, 45)]
    with disk.create(str(tmp_path / "g")) as output, open(tmp_path / "f", "rb") as source:
        assert output.copy_from(source.fileno(), 0, 54) == 54
    assert begun[2:] == [(0, 54)]


@pytest.mark.parametrize("is_able", [True, False])
def test_a_copy_is_whole_whether_or_not_the_system_makes_it(tmp_path, monkeypatch, is_able):
    def unable(*_):
        raise OSError("another file system")

    if not is_able:
        monkeypatch.setattr(os, "copy_file_range", unable)
    content = bytes(range(251)) * 40_000
    (tmp_path / "a").write_bytes(content)
    os.utime(tmp_path / "a", ns=(1, 1_600_000_000_000_000_001))
    copied = []
    copy_file(str(tmp_path / "a"), str(tmp_path / "b"), copied.append)
    assert (tmp_path / "b").read_bytes() == content
    assert (tmp_path / "b").stat().st_mtime_ns == 1_600_000_000_000_000_001
    assert (sum(copied), len(copied)) == (len(content), 3)
    with pytest.raises(FileExistsError):
        copy_file(str(tmp_path / "a"), str(tmp_path / "b"))


def test_a_tree_goes_and_what_its_links_point_to_stays(tmp_path):
    (tmp_path / "tree" / "below").mkdir(parents=True)
    (tmp_path / "tree" / "below" / "f").touch()
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "f").touch()
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "kept")
    disk.remove_tree(str(tmp_path / "tree"))
    assert [path.name for path in tmp_path.rglob("*")] == ["kept", "f"]


def test_a_write_that_the_system_takes_in_pieces_is_whole(tmp_path, monkeypatch):
    """A signal or a full pipe makes `write` take less than it was given; what is left must follow."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: write(descriptor, bytes(content[:3])))
    with disk.create(str(tmp_path / "f")) as output:
        output.append(b"0123456789")
    assert (tmp_path / "f").read_bytes() == b"0123456789"


def test_a_full_disk_is_said_with_the_file(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with disk.create(str(tmp_path / "a")) as output:
        monkeypatch.setattr(disk.os, "write", full)
        with pytest.raises(OSError, match=re.escape(str(tmp_path / "a"))):
            output.append(b"abc")


def test_arrays_of_wider_items_are_written_as_their_bytes(tmp_path):
    with disk.create(str(tmp_path / "f")) as output:
        output.append(memoryview(bytearray(16)).cast("q"))
    assert (tmp_path / "f").read_bytes() == bytes(16)


def test_a_closed_file_may_be_closed_again(tmp_path):
    output = disk.create(str(tmp_path / "f"))
    output.close()
    output.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        output.append(b"x")


def test_an_atomic_write_into_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    disk.atomic_write("f", b"x")
    assert os.listdir(tmp_path) == ["f"]


def test_writes_go_to_a_files_place_whatever_its_name_becomes(tmp_path):
    with disk.create(str(tmp_path / "f")) as output:
        disk.rename(str(tmp_path / "f"), str(tmp_path / "g"))
        output.append(b"x")
    assert (tmp_path / "g").read_bytes() == b"x"


def test_nothing_but_the_seam_changes_files():
    """A change that goes past it would not be seen by the crash tests' disk, and they would prove nothing."""
    changing = re.compile(
        r"os\.(remove|unlink|rename|replace|mkdir|makedirs|rmdir|f?truncate|fsync|write|link|symlink)\b|shutil|tempfile"
    )
    package = Path(brokerless.__file__).parent
    # what the command line writes goes where the user says, and verdicts that outgrow the memory into a nameless file:
    # into no log directory
    others = {package / "io" / "disk.py", package / "rewriting" / "compact" / "record_selection.py"}
    sources = {path for path in package.rglob("*.py") if package / "cli" not in path.parents} - others
    examples = re.compile(r"^ *(>>>|\.\.\.) .*$", re.MULTILINE)
    assert [str(path) for path in sources if changing.search(examples.sub("", path.read_text()))] == []
