"""What the build needs and the machine lacks is named in one line each, with how to get it."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TOOLS = ("sh", "sed", "head", "env")


@pytest.fixture
def missing(tmp_path):
    """Return a function that checks a machine with only these commands, each a line of output or the real one."""

    def missing(*needs, **commands):
        for name in TOOLS:
            (tmp_path / name).symlink_to(shutil.which(name))
        for name, said in commands.items():
            command = tmp_path / name
            command.write_text(f"#!/bin/sh\nprintf %s '{said}'\n")
            command.chmod(0o755)
        environment = {"PATH": str(tmp_path), "PYTHON": "python3"}
        script = ["sh", str(ROOT / "tools" / "prerequisites"), *needs]
        result = subprocess.run(script, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert result.stdout == ""
        assert result.returncode == (1 if result.stderr else 0)
        return [line.split(" (")[0] for line in result.stderr.splitlines()]

    return missing


GOOD = {"python3": "", "cargo": "cargo 1.999.0 (x)", "cc": "", "java": 'openjdk version "17.0.15" 2025-04-15'}


def test_nothing_is_missing(missing):
    assert missing(**GOOD) == []


@pytest.mark.parametrize(
    ("name", "said", "line"),
    [
        ("python3", None, "missing: Python 3.11 or newer"),
        ("cargo", None, "missing: stable Rust 1.89 or newer with cargo"),
        ("cargo", "cargo 1.70.0 (x)", "missing: stable Rust 1.89 or newer with cargo"),
        ("cc", None, "missing: a C compiler"),
        ("java", None, "missing: Java 17 or newer"),
        ("java", 'java version "1.8.0_392"', "missing: Java 17 or newer"),
        ("java", 'openjdk version "11.0.2"', "missing: Java 17 or newer"),
    ],
)
def test_one_thing_is_missing(name, said, line, missing):
    commands = {command: output for command, output in (GOOD | {name: said}).items() if output is not None}
    assert missing(**commands) == [line]


def test_further_needs(missing):
    assert missing("maven", **GOOD) == ["missing: Maven"]
