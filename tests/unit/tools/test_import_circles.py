"""No module is reached from what it imports: neither for a type, nor from within a function."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[3] / "tools" / "import_circles.py"
FOR_TYPES = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from package.one import One\n"


@pytest.fixture
def circles(tmp_path):
    def circles(**modules):
        (tmp_path / "package").mkdir(exist_ok=True)
        for name, text in {"__init__": "", **modules}.items():
            suffix = "pyi" if name == "_native" else "py"
            (tmp_path / "package" / f"{name}.{suffix}").write_text(text)
        command = [sys.executable, TOOL, tmp_path / "package"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == bool(done.stdout), done.stderr
        return done.stdout

    return circles


@pytest.mark.parametrize(
    "back",
    [
        "import package.one\n",
        "from package.one import One\n",
        "from package import one\n",
        "from . import one\n",
        "from .one import One\n",
        FOR_TYPES,
        "def later():\n    from package.one import One\n",
    ],
)
def test_a_circle_is_named(circles, back):
    said = circles(one="from package.two import Two\n", two="from package import three\n", three=back, four=back)
    assert "3 modules import each other: package.one, package.three, package.two\n" in said
    assert "package.one -> package.two -> package.three -> package.one\n" in said


def test_imports_in_one_direction_are_no_circle(circles):
    assert not circles(one="from package import two, three\n", two="import package.three\n", three="import ast\n")


def test_a_module_of_a_package_does_not_need_the_package(circles):
    """A package may import its modules, and they one another and the extension, whose stub has types of theirs."""
    modules = {"one": "from package import _native, two\n", "two": "", "_native": "from package.one import One\n"}
    assert not circles(__init__="from package.one import One\n", **modules)
    assert "package, package.one\n" in circles(
        __init__="from package.one import One\n", one="from package import One\n"
    )


def test_this_project_has_no_circle():
    done = subprocess.run([sys.executable, TOOL], cwd=TOOL.parents[1], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
