"""A tag that is not the version of its commit publishes nothing."""

import importlib.machinery
import importlib.util
from pathlib import Path

import pytest

TOOL = str(Path(__file__).parents[3] / "tools/release")


@pytest.fixture
def release(tmp_path, monkeypatch):
    loader = importlib.machinery.SourceFileLoader("release", TOOL)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("release", loader))
    loader.exec_module(module)
    for name, file, text in (
        ("CARGO", "Cargo.toml", '[workspace.package]\nversion = "1.2.0"\n'),
        (
            "CHANGELOG",
            "CHANGELOG.md",
            "# Changelog\n\n## [1.2.0] - 2026-01-02\n\n- New.\n\n## [1.1.0] - unreleased\n\n- Old.\n",
        ),
    ):
        (tmp_path / file).write_text(text)
        monkeypatch.setattr(module, name, tmp_path / file)
    return module


def test_the_tag_of_the_version_is_right(release):
    release.check_tag("v1.2.0")


@pytest.mark.parametrize("name", ["v1.2.1", "1.2.0", "v1.2.0-rc1", "v"])
def test_another_tag_is_refused(release, name):
    with pytest.raises(SystemExit, match=f"the tag is {name}, but the version in Cargo.toml is 1.2.0"):
        release.check_tag(name)


def test_a_version_without_a_date_or_a_section_is_refused(release):
    release.CARGO.write_text('[workspace.package]\nversion = "1.1.0"\n')
    with pytest.raises(SystemExit, match=r"has no date for 1\.1\.0"):
        release.check_tag("v1.1.0")
    release.CARGO.write_text('[workspace.package]\nversion = "1.0.0"\n')
    with pytest.raises(SystemExit, match=r"has no section for 1\.0\.0"):
        release.check_tag("v1.0.0")
