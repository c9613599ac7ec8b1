"""What is in the wheel, and what its import costs."""

import json
import platform
import re
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

import brokerless

PACKAGE = Path(brokerless.__file__).parent


def test_the_package_is_the_installed_one():
    assert PACKAGE.is_relative_to(sys.prefix)
    assert not any("src" in Path(directory).parts for directory in sys.path)
    assert all(
        Path(str(distribution("brokerless").locate_file(file))).exists() for file in distribution("brokerless").files
    )


def test_the_extension_is_one_for_all_versions_of_python():
    assert [path.name for path in PACKAGE.glob("_native*.so")] == ["_native.abi3.so"]


def test_the_jar_has_the_library_of_this_machine():
    architecture = {"x86_64": "amd64"}.get(platform.machine(), platform.machine())
    with zipfile.ZipFile(PACKAGE / "spark/brokerless.jar") as jar:
        assert [name for name in jar.namelist() if re.match(rf"native/{architecture}/libbrokerless_jvm\.", name)]


def test_typing_and_metadata():
    assert (PACKAGE / "py.typed").exists()
    metadata = distribution("brokerless").metadata
    assert metadata["Version"] == brokerless.__version__
    assert {"spark", "s3", "report"} <= set(metadata.get_all("Provides-Extra"))


def test_the_description_has_no_path_that_pypi_cannot_follow():
    description = distribution("brokerless").metadata.get_payload()
    targets = re.findall(r"\]\(([^)\s]+)\)", description)
    assert targets
    assert [target for target in targets if not target.startswith("https://")] == []


def test_the_bill_of_materials_names_every_crate():
    if "manylinux" not in (distribution("brokerless").read_text("WHEEL") or ""):
        pytest.skip("only a wheel that is published has one")
    (bill,) = (file for file in distribution("brokerless").files if file.match("sboms/*.cyclonedx.json"))
    components = json.loads(Path(str(bill.locate())).read_text())["components"]
    assert {"brokerless-core", "pyo3", "arrow-array", "tokio", "zstd-sys"} <= {one["name"] for one in components}
    assert all(one["version"] for one in components)


def test_the_import_takes_less_than_50_ms():
    measured = "import time; started = time.process_time(); import brokerless; print(time.process_time() - started)"
    times = [float(subprocess.check_output([sys.executable, "-c", measured])) for _ in range(10)]
    assert min(times) < 0.050
