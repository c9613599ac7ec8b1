"""A build tool without a checksum, or of a version that no test ran with, could change what is published."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "tools/requirements"
FILES = sorted(FOLDER.glob("*.in"))


def pins(text):
    """Return the pinned versions by name, and what follows each of them."""
    parts = re.split(r"(?m)^([A-Za-z0-9._-]+)==(\S+)", text)[1:]
    return {name: (version, rest) for name, version, rest in zip(parts[::3], parts[1::3], parts[2::3], strict=True)}


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_each_build_tool_has_a_version_of_the_tests_and_checksums(file):
    text = file.with_suffix(".txt").read_text()
    constraints = pins((ROOT / "constraints.txt").read_text())
    found = pins(text)
    assert [
        line for line in text.splitlines() if not re.match(r"#|$| {4}(--hash=sha256:[0-9a-f]{64}|#)|\w", line)
    ] == []
    for name, (version, rest) in found.items():
        assert rest.count("--hash=sha256:") >= 1
        assert version == constraints.get(name, (version,))[0]
    named = set(re.findall(r"(?m)^([a-z][a-z0-9-]*)(?:\[\w+\])?>=", file.read_text()))
    assert named
    assert named <= set(found)


def test_the_targets_that_build_published_files_install_only_by_checksum():
    makefile = (ROOT / "Makefile").read_text()
    rule = makefile.partition("\n.venv-wheels/.installed:")[2].partition("\n\n")[0]
    installs = [line for line in rule.splitlines() if "pip install" in line]
    assert len(installs) == len(FILES) == 2
    assert all("--require-hashes" in line for line in installs)
    for target in ("untested-wheel", "sdist", "build/libraries"):
        assert f"\n{target}: .venv-wheels/.installed" in makefile


def test_the_linter_of_prose_has_checksums_and_names_no_registry():
    lock = json.loads((ROOT / "tools/prose/package-lock.json").read_text())
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert len(packages) > 100
    assert [name for name, package in packages.items() if not package.get("integrity")] == []
    assert [name for name, package in packages.items() if "resolved" in package] == []
    assert (
        lock["packages"][""]["dependencies"]
        == json.loads((ROOT / "tools/prose/package.json").read_text())["dependencies"]
    )
    assert "npm ci --silent --ignore-scripts" in (ROOT / "Makefile").read_text()
