"""What a write creates belongs to those who may use the directory around it, and to nobody else."""

import os
import stat
import subprocess
import sys

import pytest

from brokerless.io import access, disk
from brokerless.io.access import Access
from brokerless.layout.lock import Lock
from brokerless.notes import collected

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
SOMEBODY, OTHERS = 1234, 4321


@pytest.fixture(autouse=True)
def usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def owner_and_mode(path):
    found = os.stat(path)
    return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)


def everything(directory):
    return [os.path.join(at, name) for at, names, files in os.walk(directory) for name in [*names, *files]]


@pytest.mark.parametrize(
    ("around", "of_files", "of_directories"),
    [
        (0o700, 0o600, 0o700),
        (0o750, 0o640, 0o750),
        (0o755, 0o644, 0o755),
        (0o1777, 0o644, 0o755),
        (0o500, 0o600, 0o700),
    ],
)
def test_new_files_have_at_most_the_permissions_of_their_directory(tmp_path, around, of_files, of_directories):
    directory = tmp_path / "logs"
    directory.mkdir()
    directory.chmod(around)
    disk.create(f"{directory}/file").close()
    disk.make_directory(f"{directory}/orders-0")
    modes = [stat.S_IMODE((directory / name).stat().st_mode) for name in ("file", "orders-0")]
    assert modes == [of_files, of_directories]


def test_a_file_in_a_world_writable_directory_is_not_so_whatever_the_umask(tmp_path):
    os.umask(0)
    tmp_path.chmod(0o1777)
    disk.create(f"{tmp_path}/file").close()
    assert owner_and_mode(tmp_path / "file")[2] & 0o002 == 0


def test_a_copy_permits_what_all_of_its_sources_permit(tmp_path):
    modes = (0o750, 0o705)
    for number, mode in enumerate(modes):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number)).chmod(mode)
    assert Access.common([f"{tmp_path}/0", f"{tmp_path}/1"]).of_directories == 0o700


@needs_root
def test_a_link_in_the_place_of_a_new_directory_is_not_given_away(tmp_path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="link"):
        Access(SOMEBODY, OTHERS, 0o755).give_directory(f"{tmp_path}/link")
    assert owner_and_mode(tmp_path / "secret")[:2] == (0, 0)


def given_away(log_dir, mode=0o700):
    """Make a log directory as a broker of another user has it."""
    os.chown(log_dir, SOMEBODY, OTHERS)
    log_dir.chmod(mode)
    for path in everything(log_dir):
        os.chown(path, SOMEBODY, OTHERS)
        os.chmod(path, mode if os.path.isdir(path) else mode & 0o666)


def damage(log_dir):
    log = log_dir / "headers-0" / f"{0:020}.log"
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)


CONVERTED = ("--topic", "multi-partition", "--compression", "zstd")
WRITES = {
    "repair": lambda log_dir: run("repair", "--in-place", log_dir),
    "convert": lambda log_dir: run(
        "convert", "--in-place", "--topic", "multi-partition", "--compression", "zstd", log_dir
    ),
    "recover": lambda log_dir: run("recover", log_dir),
    "produce": lambda log_dir: run("produce", "--topic", "headers", log_dir, told=b'{"value": "x"}\n'),
}


def run(*arguments, told=b""):
    command = [sys.executable, "-m", "brokerless", *map(str, arguments)]
    done = subprocess.run(command, input=told, capture_output=True, check=False)
    assert done.returncode in (0, 1, 3), done.stderr.decode()


@needs_root
@pytest.mark.parametrize("verb", ["repair", "convert", "recover", "produce"])
def test_what_root_writes_in_place_belongs_to_the_user_of_the_broker(copied, tmp_path, verb):
    log_dir = copied("kafka-4.1", "headers-0", "multi-partition-0")
    damage(log_dir)
    given_away(log_dir)
    WRITES[verb](log_dir)
    # With the bytes that are left out, beside it.
    lost = [tmp_path / name for name in os.listdir(tmp_path) if ".lost" in name]
    assert bool(lost) == (verb == "repair")
    paths = [*everything(log_dir), *lost, *(path for one in lost for path in everything(one))]
    assert {owner_and_mode(path)[:2] for path in paths} == {(SOMEBODY, OTHERS)}
    assert {owner_and_mode(path)[2] & 0o077 for path in paths} == {0}


@needs_root
@pytest.mark.parametrize("verb", ["repair", "convert"])
def test_a_copy_is_for_those_who_may_read_the_original(copied, tmp_path, verb):
    log_dir = copied("kafka-4.1", "headers-0", "multi-partition-0")
    damage(log_dir)
    given_away(log_dir)
    options = CONVERTED if verb == "convert" else []
    run(verb, *options, "--output", tmp_path / "copy", log_dir)
    paths = [tmp_path / "copy", *everything(tmp_path / "copy")]
    assert {owner_and_mode(path)[:2] for path in paths} == {(SOMEBODY, OTHERS)}
    assert {owner_and_mode(path)[2] & 0o077 for path in paths} == {0}


@needs_root
def test_another_user_than_the_brokers_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(access, "_me", lambda: SOMEBODY)
    os.chown(tmp_path, OTHERS, OTHERS)
    with collected() as notes:
        Lock(f"{tmp_path}/.lock").release()
    assert "may not be able to write to them: run this as" in notes[0]
