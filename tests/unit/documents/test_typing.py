"""Type checkers know what the library offers, in a project that has nothing but the strict settings."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import brokerless as bl
from brokerless import spark

pytest.importorskip("mypy")


@pytest.mark.slow
def test_a_strict_type_checker_knows_every_public_name(tmp_path):
    script = tmp_path / "script.py"
    names = [f"bl.{name}" for name in ("__version__", *bl.__all__, *bl._ALSO)] + [
        f"spark.{name}" for name in spark.__all__
    ]
    script.write_text("\n".join(["import brokerless as bl", "from brokerless import spark", *names]) + "\n")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir=.cache", script.name],
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": str(Path(bl.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert [line for line in checked.stdout.splitlines() if line.startswith(script.name)] == []
    assert checked.returncode in (0, 1), checked.stderr
    assert "no issues" in checked.stdout or "Found" in checked.stdout
