"""What is in the wheel, and what its import costs."""

import json
import platform
import re
import subprocess
import sys
import uuid
import zipfile
from datetime import datetime
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


def linked_crates():
    """Return name and version of each crate whose licence comes with the package."""
    (path,) = (file for file in distribution("brokerless").files if file.match("licenses/THIRD-PARTY-LICENSES"))
    head, *texts = path.read_text(encoding="utf-8").split("=" * 80)
    assert len(texts) > 50
    return set(re.findall(r"(?m)^(\S+) (\d\S*): ", head))


def test_the_licences_of_linked_crates_come_with_it():
    names = {name for name, _ in linked_crates()}
    assert {"pyo3", "arrow-array", "tokio", "zstd-sys", "lz4-sys", "jni"} <= names
    assert not any(name.startswith("brokerless") for name in names)


@pytest.fixture
def bills():
    """Return the bills of materials of a wheel that is published, by the crate that each is of."""
    found = {
        file.name.partition(".")[0]: file.read_text(encoding="utf-8")
        for file in distribution("brokerless").files
        if file.match("sboms/*.cyclonedx.json")
    }
    if not found and "manylinux" not in (distribution("brokerless").read_text("WHEEL") or ""):
        pytest.skip("only a wheel that is published has them")
    assert set(found) == {"brokerless-python", "brokerless-jvm"}
    return found


def test_the_bills_of_materials_name_every_crate_and_what_crates_compile(bills):
    components = {
        crate: [one for one in json.loads(text)["components"] if one["scope"] == "required" and "purl" in one]
        for crate, text in bills.items()
    }
    linked = {
        crate: {(one["name"], one["version"]) for one in listed if one["purl"].startswith("pkg:cargo/")}
        for crate, listed in components.items()
    }
    others = {one["name"] for listed in components.values() for one in listed if one["purl"].startswith("pkg:github/")}
    assert others == {"boringssl", "libdeflate", "lz4", "rust-std", "zstd"}
    assert linked["brokerless-jvm"] | linked["brokerless-python"] <= linked_crates()
    # The crates of another platform are in no bill of this one.
    missing = linked_crates() - linked["brokerless-python"] - linked["brokerless-jvm"]
    assert all(re.search("apple|core-foundation|mach|security-framework", name) for name, _ in missing), missing


def test_the_bills_of_materials_name_no_directory_of_the_builder_and_have_a_date_and_a_number(bills):
    for text in bills.values():
        document = json.loads(text)
        assert "file:" not in text
        assert not re.search(r'"/', text)
        assert uuid.UUID(document["serialNumber"]).version == 5
        assert datetime.fromisoformat(document["metadata"]["timestamp"]).year >= 2024
        assert document["metadata"]["component"]["version"] == brokerless.__version__


def test_the_jar_has_its_bill_of_materials_for_those_who_copy_it_alone(bills):
    with zipfile.ZipFile(PACKAGE / "spark/brokerless.jar") as jar:
        assert jar.read("META-INF/sbom/brokerless-jvm.cyclonedx.json").decode() == bills["brokerless-jvm"]


def test_the_import_takes_less_than_50_ms():
    measured = "import time; started = time.process_time(); import brokerless; print(time.process_time() - started)"
    times = [float(subprocess.check_output([sys.executable, "-c", measured])) for _ in range(10)]
    assert min(times) < 0.050
