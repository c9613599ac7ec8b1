"""No clone runs what another one was built from, whatever is shared between them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[3] / "tools"
MAIN = 'fn main() { println!("{}", itoa::Buffer::new().format(NUMBER)) }\n'


@pytest.fixture
def environment(tmp_path, monkeypatch):
    for name in ("CARGO_TARGET_DIR", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BROKERLESS_BUILD_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def kept(monkeypatch):
    """The module, as the tools import it."""
    monkeypatch.syspath_prepend(str(TOOLS))
    import kept

    return kept


def clone(directory, number):
    """Make a workspace with the build's tools, a crate of ours, and one from crates.io."""
    shutil.copytree(TOOLS, directory / "tools", ignore=shutil.ignore_patterns("prose", "__pycache__"))
    # What no clone has built is not shared.
    (directory / ".git").mkdir()
    crate = directory / "rust" / "tiny"
    (crate / "src").mkdir(parents=True)
    (directory / "Cargo.toml").write_text('[workspace]\nresolver = "3"\nmembers = ["rust/tiny"]\n')
    (crate / "Cargo.toml").write_text(
        '[package]\nname = "brokerless-tiny"\nversion = "0.1.0"\nedition = "2024"\n[dependencies]\nitoa = "1"\n'
    )
    (crate / "src" / "main.rs").write_text(MAIN.replace("NUMBER", str(number)))
    # Cargo compares times: sources that are older than what another clone has compiled are the trap.
    for file in directory.rglob("*"):
        os.utime(file, (1_600_000_000, 1_600_000_000))
    return directory


def build(directory):
    """Build it; return what Cargo says, and what the program prints."""
    command = [
        sys.executable,
        directory / "tools" / "cargo.py",
        "release",
        "build",
        "--release",
        "--verbose",
    ]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    program = directory / "target" / "release" / "brokerless-tiny"
    return said, subprocess.run([program], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
def test_clones_that_differ_share_crates_and_nothing_of_ours(tmp_path):
    said, printed = build(clone(tmp_path / "first", 1))
    assert "Compiling itoa" in said
    assert printed == "1"
    said, printed = build(clone(tmp_path / "second", 2))
    assert "Fresh itoa" in said
    assert "Compiling brokerless-tiny" in said
    assert printed == "2"


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
def test_without_a_cache_all_is_built_and_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("BROKERLESS_BUILD_CACHE", "")
    for name, number in (("first", 1), ("second", 2)):
        said, printed = build(clone(tmp_path / name, number))
        assert "Compiling itoa" in said
        assert printed == str(number)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("name", ["home/config.toml", "sources/.cargo/config.toml"])
def test_what_the_users_settings_of_cargo_say_makes_another_build(tmp_path, kept, monkeypatch, name):
    monkeypatch.setenv("CARGO_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(kept, "ROOT", tmp_path / "sources" / "clone")
    (tmp_path / "sources" / "clone").mkdir(parents=True)
    facts = [kept.compiler()]
    (tmp_path / name).parent.mkdir(exist_ok=True)
    for flags in ("-Ctarget-cpu=native", "-Copt-level=0"):
        (tmp_path / name).write_text(f'[build]\nrustflags = ["{flags}"]\n')
        facts.append(kept.compiler())
    assert len({tuple(fact) for fact in facts}) == 3


@pytest.mark.usefixtures("environment")
def test_a_build_is_taken_only_for_the_same_sources(tmp_path, kept, monkeypatch):
    monkeypatch.setattr(kept, "ROOT", tmp_path)
    source, made = tmp_path / "src", tmp_path / "made"
    source.mkdir()
    builds = []

    def built(content, name="a"):
        for old in source.iterdir():
            old.unlink()
        (source / name).write_text(content)
        builds.clear()

        def compile_it():
            builds.append(content)
            made.write_text(f"of {content}")

        taken = kept.kept(lambda: kept.key(["src"], []), {"made": made}, compile_it)
        assert taken == (not builds)
        assert made.read_text() == f"of {content}"
        made.unlink()
        return taken

    assert not built("x")
    assert built("x")
    assert not built("y")
    assert not built("y", "another name")
    assert built("x")


@pytest.mark.usefixtures("environment")
def test_facts_and_the_borders_of_files_are_part_of_a_key(tmp_path, kept, monkeypatch):
    monkeypatch.setattr(kept, "ROOT", tmp_path)
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").write_text("2")
    keys = {
        kept.key(*parts) for parts in [(["a"], []), (["b"], []), (["a", "b"], []), (["a"], ["2"]), (["a"], ["", "2"])]
    }
    assert len(keys) == 5
    monkeypatch.setenv("RUSTFLAGS", "-Ctarget-cpu=native")
    flagged = kept.compiler()
    monkeypatch.delenv("RUSTFLAGS")
    assert flagged != kept.compiler()


@pytest.mark.usefixtures("environment")
def test_a_build_whose_sources_change_meanwhile_is_not_kept(tmp_path, kept, monkeypatch):
    monkeypatch.setattr(kept, "ROOT", tmp_path)
    source, made = tmp_path / "source", tmp_path / "made"

    def built(then):
        def compile_it():
            made.write_text(f"of {source.read_text()}")
            source.write_text(then)

        return kept.kept(lambda: kept.key(["source"], []), {"made": made}, compile_it)

    source.write_text("old")
    assert not built(then="new")
    source.write_text("old")
    assert not built(then="old")
    assert built(then="old")


@pytest.mark.usefixtures("environment")
def test_a_cache_of_somebody_else_is_used(tmp_path, kept, monkeypatch):
    made = tmp_path / "made"
    kept.kept(lambda: "k", {"made": made}, lambda: made.write_text("x"))

    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "utime", refuse)
    assert kept.kept(lambda: "k", {"made": made}, lambda: made.write_text("y"))
    assert made.read_text() == "x"


@pytest.mark.usefixtures("environment")
def test_a_build_that_fails_is_not_kept(tmp_path, kept):
    def fail():
        (tmp_path / "made").write_text("half")
        sys.exit(1)

    with pytest.raises(SystemExit):
        kept.kept(lambda: "k", {"made": tmp_path / "made"}, fail)
    assert not (tmp_path / "cache").exists()


@pytest.mark.usefixtures("environment")
def test_the_builds_that_were_used_last_are_kept(tmp_path, kept, monkeypatch):
    monkeypatch.setattr(kept, "BUILT", 2)
    for number in range(4):
        kept.kept(
            lambda number=number: str(number), {"made": tmp_path / "made"}, lambda: (tmp_path / "made").write_text("x")
        )
        os.utime(tmp_path / "cache" / "built" / str(number), (number, number))
    assert sorted(os.listdir(tmp_path / "cache" / "built")) == ["2", "3"]


@pytest.mark.usefixtures("environment")
def test_a_cache_that_cannot_be_written_costs_no_build(tmp_path, kept, capsys):
    (tmp_path / "cache").write_text("a file")
    assert not kept.kept(lambda: "k", {"made": tmp_path / "made"}, lambda: (tmp_path / "made").write_text("x"))
    assert (tmp_path / "made").read_text() == "x"
    assert capsys.readouterr().err.startswith("note: this build is not kept: ")


def test_the_cache_is_where_users_expect_it(kept, monkeypatch, tmp_path):
    monkeypatch.delenv("BROKERLESS_BUILD_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kept.cache() == tmp_path / "brokerless"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/someone")
    assert kept.cache() == Path("/home/someone/.cache/brokerless")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert kept.cache() == Path("/home/someone/.cache/brokerless")
