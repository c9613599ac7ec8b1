"""A known vulnerability is ignored for some days only, and for a reason."""

import shutil
import subprocess
import sys
from datetime import date
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TODAY = date(2026, 11, 30)


@pytest.fixture
def tool():
    loader = SourceFileLoader("ignored_advisories", str(ROOT / "tools/ignored_advisories"))
    module = module_from_spec(spec_from_loader("ignored_advisories", loader))
    loader.exec_module(module)
    return module


def test_each_audit_ignores_the_advisories_that_it_knows(tool):
    entries = ("RUSTSEC-2026-0001 2026-11-30 a b", "PYSEC-2026-7 2027-02-28 a", "GHSA-a-b 2026-12-01 a")
    assert tool.ignored("\n".join(("# A comment.", "", *entries)), TODAY) == {
        "cargo": ["RUSTSEC-2026-0001"],
        "pip": ["PYSEC-2026-7", "GHSA-a-b"],
    }


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("RUSTSEC-2026-0001 2026-11-29 because", "RUSTSEC-2026-0001 has expired on 2026-11-29: update the package"),
        ("RUSTSEC-2026-0001 2027-03-01 because", "lasts until 2027-03-01: 90 days are the most"),
        ("RUSTSEC-2026-0001 2026-12-01", "expected ID YYYY-MM-DD REASON, and found"),
        ("RUSTSEC-2026-0001 because", "expected ID YYYY-MM-DD REASON, and found"),
        ("zlib 2026-12-01 because", "expected ID YYYY-MM-DD REASON, and found"),
    ],
)
def test_an_entry_that_nobody_would_look_at_again_is_refused(tool, entry, message):
    with pytest.raises(SystemExit, match=message):
        tool.ignored(entry, TODAY)


def test_the_audit_fails_where_an_entry_has_expired(tmp_path):
    """Not only the list: an error in the options would run an audit without them."""
    shutil.copy(ROOT / "tools/ignored_advisories", tmp_path)
    (tmp_path / "ignored_advisories.txt").write_text("RUSTSEC-2026-0001 2026-01-01 because\n")
    done = subprocess.run([sys.executable, tmp_path / "ignored_advisories", "cargo"], check=False, capture_output=True)
    assert (done.returncode, done.stdout) == (1, b"")
    recipe = (ROOT / "Makefile").read_text().partition("\naudit:")[2].partition("\n\n")[0]
    for audit in ("cargo", "pip"):
        assert f"ignored=$$($(PYTHON) tools/ignored_advisories {audit}) && " in recipe


def test_the_list_of_this_clone_can_be_read(tool):
    """Only the audit refuses an entry that has expired: a clone is tested on any day."""
    lines = [line for line in tool.LIST.read_text().splitlines() if line and not line.startswith("#")]
    assert [line for line in lines if not tool.ENTRY.fullmatch(line)] == []
