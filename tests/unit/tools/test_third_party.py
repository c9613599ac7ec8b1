"""A bill of materials that names a directory of the builder, or differs between two builds, proves nothing."""

import datetime as dt
import importlib.machinery
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LINUX = "x86_64-unknown-linux-gnu"
CRATES = ["brokerless-python", "brokerless-jvm"]

pytestmark = pytest.mark.skipif(not shutil.which("cargo"), reason="needs cargo")


def module_of(name):
    loader = importlib.machinery.SourceFileLoader(f"tool_{Path(name).stem}", str(ROOT / "tools" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def third_party():
    return module_of("third_party")


@pytest.fixture(scope="module", params=CRATES)
def bill(third_party, request):
    return third_party.bill(request.param, [LINUX], 1_700_000_000)


def test_it_is_valid_cyclonedx(bill):
    validation = pytest.importorskip("cyclonedx.validation.json")
    schema = pytest.importorskip("cyclonedx.schema")
    assert validation.JsonStrictValidator(schema.SchemaVersion.V1_5).validate_str(bill) is None


def test_it_names_no_directory_of_the_builder(bill):
    assert "file:" not in bill
    assert str(ROOT) not in bill
    assert str(Path.home()) not in bill


def test_its_date_is_the_given_one_and_its_number_is_of_its_content(third_party, bill):
    document = json.loads(bill)
    assert document["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    number = uuid.UUID(document["serialNumber"])
    assert (number.version, number.variant) == (5, uuid.RFC_4122)
    crate = document["metadata"]["component"]["name"]
    assert third_party.bill(crate, [LINUX], 1_700_000_000) == bill
    assert json.loads(third_party.bill(crate, [LINUX], 1_700_000_001))["serialNumber"] != document["serialNumber"]


def test_it_identifies_each_component_and_what_each_needs(bill):
    document = json.loads(bill)
    components = {one["bom-ref"]: one for one in document["components"]}
    assert len(components) == len(document["components"]) > 30
    ours = {name for name, one in components.items() if one["name"].startswith("brokerless-")}
    crates = {name for name in components if name.startswith("pkg:cargo/")}
    assert {components[name]["name"] for name in set(components) - ours - crates} <= {*C_LIBRARIES, "rust-std"}
    for name in crates:
        # A crate of crates.io: a scanner finds it by its purl, and its archive by its checksum.
        assert components[name]["purl"] == name
        assert components[name]["licenses"]
        assert re.fullmatch("[0-9a-f]{64}", components[name]["hashes"][0]["content"])
    # A purl of cargo would lead to a crate of somebody else.
    assert [name for name in ours if "purl" in components[name]] == []
    root = document["metadata"]["component"]
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev0)?", root["version"])
    assert root["purl"].startswith(f"pkg:pypi/brokerless@{root['version']}#")
    needs = {one["ref"]: set(one["dependsOn"]) for one in document["dependencies"]}
    assert set(needs) == {root["bom-ref"], *components}
    assert set().union(*needs.values()) == set(components)


C_LIBRARIES = {"zstd", "lz4", "libdeflate", "boringssl"}


def test_c_libraries_have_the_names_that_scanners_know(bill):
    """A scanner knows a hole in zstd, and not that the crate zstd-sys contains it."""
    document = json.loads(bill)
    by_name = {one["name"]: one for one in document["components"]}
    needs = {one["ref"]: one["dependsOn"] for one in document["dependencies"]}
    for crate in ("zstd-sys", "lz4-sys", "libdeflate-sys"):
        library = by_name[crate.removesuffix("-sys")]
        assert re.fullmatch(r"\d+(\.\d+)+", library["version"])
        assert library["purl"].endswith(f"@v{library['version']}")
        assert library["bom-ref"] in needs[by_name[crate]["bom-ref"]]
        # Some crates name the version of their C library.
        assert by_name[crate]["version"].partition("+")[2].endswith(library["version"]) or crate == "libdeflate-sys"
    assert by_name["zstd"]["cpe"] == f"cpe:2.3:a:facebook:zstandard:{by_name['zstd']['version']}:*:*:*:*:*:*:*"
    assert by_name["lz4"]["cpe"] == f"cpe:2.3:a:lz4_project:lz4:{by_name['lz4']['version']}:*:*:*:*:*:*:*"
    assert ("boringssl" in by_name) == ("ring" in by_name)
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", by_name["rust-std"]["version"])


def test_a_crate_with_an_unknown_c_library_is_refused(third_party):
    package = {"name": "openssl-sys", "version": "1.0.0", "links": "openssl", "manifest_path": "Cargo.toml"}
    with pytest.raises(SystemExit, match="openssl-sys links openssl: add it to BUNDLED"):
        third_party.bundled(package)


def test_the_licences_name_the_standard_library():
    assert "Rust's standard library" in (ROOT / "THIRD-PARTY-LICENSES").read_text()


def test_the_licences_attribute_what_is_generated_from_kafka():
    text = " ".join((ROOT / "THIRD-PARTY-LICENSES").read_text().split())
    made = [path for path in (ROOT / "rust").glob("*/src/**/*.rs") if "Made by `tools/messages" in path.read_text()]
    assert {path.name for path in made} == {"messages.rs", "requests.rs"}
    assert all(path.name in text for path in made)
    assert "Copyright 2026 The Apache Software Foundation" in text


def test_what_only_builds_is_not_in_scope(bill):
    scopes = {one["name"]: one["scope"] for one in json.loads(bill)["components"]}
    assert {scopes[name] for name in ("proc-macro2", "cc", "syn")} == {"excluded"}
    assert {scopes[name] for name in ("brokerless-core", "zstd-sys", "lz4-sys")} == {"required"}


def test_the_date_is_that_of_the_variable_else_of_the_commit_else_of_the_source_distribution(tmp_path, monkeypatch):
    wheels = module_of("wheels.py")
    monkeypatch.setattr(wheels, "ROOT", tmp_path)
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    (tmp_path / "PKG-INFO").touch()
    os.utime(tmp_path / "PKG-INFO", (1_600_000_000, 1_600_000_000))
    assert wheels.source_date() == 1_600_000_000
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    when = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a"}
    subprocess.run(
        ["git", "-C", tmp_path, "commit", "--quiet", "--allow-empty", "--message", "x"],
        check=True,
        env=os.environ | who | {"GIT_COMMITTER_DATE": when.isoformat()},
    )
    assert wheels.source_date() == when.timestamp()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "5")
    assert wheels.source_date() == 5


@pytest.mark.slow
def test_the_command_prints_it(tmp_path):
    command = [sys.executable, str(ROOT / "tools/third_party"), "--sbom", "brokerless-jvm"]
    environment = os.environ | {"SOURCE_DATE_EPOCH": "0"}
    printed = [subprocess.check_output(command, cwd=place, env=environment) for place in (tmp_path, ROOT)]
    assert printed[0] == printed[1]
    assert json.loads(printed[0])["metadata"]["timestamp"] == "1970-01-01T00:00:00Z"
