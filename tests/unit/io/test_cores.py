"""The count of cores: the affinity, or less where a quota of a cgroup allows less, whatever its files hold."""

import os

import pytest

from brokerless.io import cores as module
from brokerless.io.cores import cores, log_threads


@pytest.fixture
def cgroups(tmp_path, monkeypatch):
    """Four cores by affinity, no cgroup, and a function that writes files of cgroups."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2, 3, 5}, raising=False)
    monkeypatch.setattr(module, "_OWN_CGROUPS", str(tmp_path / "own"))
    monkeypatch.setattr(module, "_CGROUPS", str(tmp_path / "fs"))

    def write(own, **files):
        (tmp_path / "own").write_text(own)
        for name, content in files.items():
            path = tmp_path / "fs" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    return write


def test_the_affinity_counts(cgroups):
    assert cores() == 4


def test_without_affinity_all_cores_count(cgroups, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert cores() == 3
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cores() == 1


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"200000 100000\n", 2),
        (b"150000 100000\n", 2),
        (b"1000 100000\n", 1),
        (b"900000 100000\n", 4),
        (b"max 100000\n", 4),
        (b"", 4),
        (b"0 100000", 4),
        (b"100000 0", 4),
        (b"-100000 100000", 4),
        (b"100000", 4),
        (b"1 1 1", 4),
        (b"1e5 100000", 4),
        ("\u0661 1".encode(), 4),
        (b"\xff\xfe \x00", 4),
        (b"9" * 5000 + b" 1", 4),
        (b"1 " + b"9" * 5000, 4),
        (b"\n" * 200_000 + b"100000 100000", 4),
    ],
)
def test_a_quota_of_version_2(content, expected, cgroups):
    cgroups("0::/pod/job\n", **{"pod/job/cpu.max": content})
    assert cores() == expected


@pytest.mark.parametrize("own", ["0::/pod/job\n", "0::/\n", "0::/host/docker/1234\n", "0::/../../pod\n"])
def test_the_quota_of_a_parent_counts(own, cgroups):
    """Also in a container, where the path of its own cgroup may be one of the host."""
    cgroups(own, **{"cpu.max": b"100000 100000", "pod/job/cpu.max": b"300000 100000"})
    assert cores() == 1


@pytest.mark.parametrize("mount", ["cpu", "cpu,cpuacct"])
@pytest.mark.parametrize(
    ("quota", "period", "expected"),
    [(b"200000\n", b"100000\n", 2), (b"-1\n", b"100000\n", 4), (b"200000", b"", 4), (b"x", b"y", 4), (b"1", b"0", 4)],
)
def test_a_quota_of_version_1(mount, quota, period, expected, cgroups):
    files = {f"{mount}/pod/cpu.cfs_quota_us": quota, f"{mount}/pod/cpu.cfs_period_us": period}
    cgroups("5:memory:/pod\n4:cpu,cpuacct:/pod\n0::/pod\n", **files)
    assert cores() == expected


@pytest.mark.parametrize("own", ["", "\n\n", "0", "::", "0::", "0:cpu", "a:b:c:d", "0::/\0", "0::" + "/x" * 5000])
def test_a_list_of_cgroups_that_makes_no_sense_is_ignored(own, cgroups):
    cgroups(own)
    assert cores() == 4


def test_files_that_are_directories_are_ignored(cgroups, tmp_path):
    (tmp_path / "fs/cpu.max").mkdir(parents=True)
    cgroups("0::/\n")
    assert cores() == 4
    (tmp_path / "own").unlink()
    (tmp_path / "own").mkdir()
    assert cores() == 4


def test_the_threads_of_a_log(cgroups, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert log_threads() == 4
    cgroups("0::/\n", **{"cpu.max": b"200000 100000"})
    assert log_threads() == 2
    for given, expected in (("1", 1), ("3", 3), ("64", 4), ("0", 2), ("many", 2)):
        monkeypatch.setenv("OMP_NUM_THREADS", given)
        assert log_threads() == expected
