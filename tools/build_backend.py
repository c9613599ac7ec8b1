"""How pip builds brokerless (PEP 517, PEP 660): `native.py` compiles the extension, `jar.py` the jar for Spark.

maturin makes the metadata and the source distribution, and `published_readme.py` adapts the README in them to PyPI.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
import tempfile
import tomllib
from importlib.util import find_spec
from pathlib import Path

import jar
import maturin
import native
from kept import ROOT
from maturin import get_requires_for_build_sdist
from published_readme import publish_metadata, publish_sdist
from wheel.wheelfile import WheelFile

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]
# maturin calls its program by name, which is not on the path of an environment that was not activated.
os.environ["PATH"] = os.pathsep.join((sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)))
PACKAGES = ("brokerless", "pyspark_brokerless")


def get_requires_for_build_editable(config_settings: object = None) -> list[str]:
    """Return what an editable install needs beside what pyproject.toml names: nothing. `make setup` builds the jar."""
    _check_compiler()
    return []


def get_requires_for_build_wheel(config_settings: object = None) -> list[str]:
    """Return what a wheel needs beside what pyproject.toml names: Spark, if there is a JDK to compile the jar."""
    _check_compiler()
    if jar.obstacle():
        return []
    with (ROOT / "pyproject.toml").open("rb") as file:
        spark: list[str] = tomllib.load(file)["project"]["optional-dependencies"]["spark"]
    return spark


def _check_compiler() -> None:
    """Stop with one line if there is no compiler. maturin's own hooks would look for a way to install one."""
    if obstacle := native.missing():
        sys.exit(obstacle)


def build_sdist(sdist_directory: str, config_settings: object = None) -> str:
    """Build the source distribution."""
    name: str = maturin.build_sdist(sdist_directory)
    publish_sdist(Path(sdist_directory) / name)
    return name


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: object = None) -> str:
    """Write the metadata of a wheel; return the name of their directory."""
    name: str = maturin.prepare_metadata_for_build_wheel(metadata_directory)
    publish_metadata(Path(metadata_directory) / name / "METADATA")
    return name


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_wheel(wheel_directory: str, config_settings: object = None, metadata_directory: str | None = None) -> str:
    """Build a wheel of the package, with the jar for Spark, or with a file that says why there is none."""
    native.build()
    spark = find_spec("pyspark")
    jar.build(Path(spark.origin).parent / "jars" if spark and spark.origin else None)
    with tempfile.TemporaryDirectory() as contents:
        for package in PACKAGES:
            ignored = shutil.ignore_patterns("__pycache__", ".*")
            shutil.copytree(ROOT / "src" / package, Path(contents) / package, ignore=ignored)
        return _wheel(contents, wheel_directory)


def build_editable(wheel_directory: str, config_settings: object = None, metadata_directory: str | None = None) -> str:
    """Build a wheel that leads Python to `src`."""
    native.build()
    with tempfile.TemporaryDirectory() as contents:
        (Path(contents) / "brokerless.pth").write_text(f"{ROOT / 'src'}\n")
        return _wheel(contents, wheel_directory)


def _wheel(contents: str, directory: str) -> str:
    """Pack a directory and the metadata; return the wheel's name."""
    metadata = Path(contents) / prepare_metadata_for_build_wheel(contents)
    (tag,) = re.findall(r"^Tag: (.*)$", (metadata / "WHEEL").read_text(), re.MULTILINE)
    name = f"{metadata.name.removesuffix('.dist-info')}-{tag}.whl"
    with WheelFile(os.path.join(directory, name), "w") as wheel:
        wheel.write_files(contents)
    return name
