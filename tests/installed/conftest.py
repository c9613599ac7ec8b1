"""What a user has: an installed wheel, the examples, and the command's directory on the PATH."""

import os
import shutil
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def examples(tmp_path_factory):
    """A directory with the examples of a clone, and nothing else."""
    directory = tmp_path_factory.mktemp("user")
    for name in ("data", "incident", "registry"):
        shutil.copytree(ROOT / "examples" / name, directory / "examples" / name)
    return directory


@pytest.fixture(scope="session")
def environment():
    """The environment of a shell in which the virtual environment is active."""
    scripts = sysconfig.get_path("scripts")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "BROKERLESS"))}
    return {**kept, "PATH": f"{scripts}:{os.environ['PATH']}", "TZ": "America/New_York", "COLUMNS": "120"}
