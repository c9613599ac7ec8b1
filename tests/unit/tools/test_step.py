"""A step of a check ends as its command does, and the table says which ones failed."""

import subprocess
import sys
from pathlib import Path

import pytest

STEP = Path(__file__).parents[3] / "tools" / "step"


@pytest.fixture
def step(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPS", str(tmp_path / "steps"))
    (tmp_path / "steps").touch()

    def step(*arguments):
        done = subprocess.run([sys.executable, STEP, *arguments], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.splitlines()

    return step


def test_the_table_has_each_step_and_ends_as_the_worst_of_them(step):
    code, lines = step("good", sys.executable, "-c", "print(1, flush=True)")
    assert (code, [line.split() for line in lines]) == (0, [["1"], ["step", "good", "passed", "0:00"]])
    assert step()[0] == 0
    code, lines = step("bad", sys.executable, "-c", "import sys; sys.exit(3)")
    assert (code, lines[-1].split()) == (3, ["step", "bad", "failed", "(3)", "0:00"])
    code, lines = step()
    assert code == 1
    assert [line.split() for line in lines[2:]] == [["good", "passed", "0:00"], ["bad", "failed", "(3)", "0:00"]]
