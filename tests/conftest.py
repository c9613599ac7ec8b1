"""Fixtures: the golden logs of real brokers, unpacked once a session, and copies of them to break."""

import os
import random
import shutil
import sys
import tarfile
from pathlib import Path

import pytest

from support.tally import note

TESTS = Path(__file__).parent
DATA = TESTS / "data"
# These tests are for an installed wheel: see tools/installed.
collect_ignore = ["installed"]

# A JVM that lives for seconds gains nothing from the optimising compiler or a parallel collector.
# `spark/quick_start.py` makes the archive of classes; without it, Spark only starts more slowly.
_ARCHIVE = f"-XX:SharedArchiveFile={Path(sys.prefix) / 'spark.jsa'} -Xlog:cds=off,cds+dynamic=off"
os.environ.setdefault("SPARK_SUBMIT_OPTS", f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {_ARCHIVE}")
# numpy starts threads when it is imported, and hardly one of our many processes computes with it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

try:
    from hypothesis import settings
except ModuleNotFoundError:  # the environment of the oldest Spark has none
    pass
else:
    # `make test` and CI try many new examples; a failure prints the line that repeats it.
    settings.register_profile("ci", max_examples=300, deadline=None, print_blob=True)
    # `make check` and a plain `pytest` answer soon, and give the same answer again.
    settings.register_profile("dev", max_examples=20, deadline=None, derandomize=True)
    settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_configure():
    """Choose the seeds of the hunt, before there are several processes."""
    os.environ.setdefault("BROKERLESS_HUNT_FROM", str(random.randrange(10**9)))


def pytest_report_header():
    """Name the variable that repeats the seeds of the hunt."""
    return f"hunt: BROKERLESS_HUNT_FROM={os.environ['BROKERLESS_HUNT_FROM']}"


def pytest_runtest_logreport(report):
    """Count the test for docs/reliability.md, in the process that runs it."""
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    if (is_worker or not hasattr(report, "node")) and (report.when == "call" or report.outcome != "passed"):
        why = report.longrepr[2].removeprefix("Skipped: ") if report.outcome == "skipped" else None
        note({"what": "test", "of": report.outcome, "times": 1, "test": report.nodeid, "why": why})


def pytest_collection_modifyitems(items):
    """Mark tests by their folder: `-m "not crash"`. Put slow ones first: a late one would run alone."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0]
        if folder in ("conformance", "crash", "spark"):
            item.add_marker(folder)


def _unpack(archives, to):
    for archive in archives:
        with tarfile.open(archive) as tar:
            tar.extractall(to, filter="data")
    for line in (DATA / "golden" / "mtimes.tsv").read_text().splitlines():
        name, milliseconds = line.split("\t")
        path = to / "logs" / name
        if path.exists():
            os.utime(path, ns=(int(milliseconds) * 1_000_000,) * 2)


@pytest.fixture(scope="session")
def golden(tmp_path_factory):
    """The golden data: `logs/`, `expected/`, `batches/`. Never to be written to; see `copied`."""
    to = tmp_path_factory.mktemp("golden")
    _unpack(sorted((DATA / "golden").glob("*.tar.xz")), to)
    return to


@pytest.fixture
def copied(golden, tmp_path):
    """Return a function that copies golden partitions, by default all, with the files of their log directory."""

    def copy(log_dir, *partitions):
        to = tmp_path / log_dir
        for source in (golden / "logs" / log_dir).iterdir():
            if source.is_file():
                to.mkdir(exist_ok=True)
                shutil.copy2(source, to)
            elif not partitions or source.name in partitions:
                shutil.copytree(source, to / source.name)
        return to / partitions[0] if len(partitions) == 1 else to

    return copy


@pytest.fixture(scope="session")
def registries(tmp_path_factory):
    """The data of real schema registries: `confluent/` and `karapace/`, each with `logs/` and `expected/`."""
    to = tmp_path_factory.mktemp("registries")
    for archive in (DATA / "registry").glob("*.tar.xz"):
        (to / archive.name.partition(".")[0]).mkdir()
        with tarfile.open(archive) as tar:
            tar.extractall(to / archive.name.partition(".")[0], filter="data")
    return to
