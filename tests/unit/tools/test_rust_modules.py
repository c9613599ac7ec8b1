"""Circles among the modules of a Rust crate, and imports of a layer above, are refused."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[3] / "tools/rust_modules"


def refused(crate, metadata="", root="", **modules):
    """Return the lines of the tool for a crate of these modules, by their paths with `__` between the parts."""
    source = crate / "src"
    source.mkdir()
    (crate / "Cargo.toml").write_text(f'[package]\nname = "made-up"\n[package.metadata]\n{metadata}')
    (source / "lib.rs").write_text("".join(f"mod {name};\n" for name in modules if "__" not in name) + root)
    for name, text in modules.items():
        path = source / f"{name.replace('__', '/')}.rs"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    run = subprocess.run([sys.executable, TOOL, crate], capture_output=True, text=True, check=False)
    assert run.returncode == bool(run.stderr)
    return run.stderr.replace(f"{crate.name}: ", "").splitlines()


@pytest.mark.parametrize(
    "uses_a",
    [
        "use crate::a::Type;",
        "use super::a;",
        "fn function(_: &crate::a::Type) {}",
        "use crate::{c::{self, d}, a::{self, Type}};",
        "// mod tests\nuse crate::a::{\n    Type,\n};",
    ],
)
def test_a_circle_is_refused_however_a_module_is_named(tmp_path, uses_a):
    circle = refused(tmp_path, a="use crate::b::function;", b=uses_a, c="pub(crate) fn d() {}")
    assert circle == ["a circle of imports: a -> b -> a"]


def test_a_circle_through_the_root_is_refused(tmp_path):
    assert refused(tmp_path, root="pub use a::Type;", a="use crate::Type;") == ["a circle of imports: lib -> a -> lib"]


def test_a_circle_through_a_submodule_is_refused(tmp_path):
    parts = {"a": "mod part;\npub use part::Part;", "a__part": "use crate::b::Type;"}
    circle = refused(tmp_path, **parts, b="use crate::a::Part;")
    assert circle == ["a circle of imports: a -> a::part -> b -> a"]


def test_parents_comments_and_tests_make_no_circle(tmp_path):
    found = refused(
        tmp_path,
        a="mod part;\nuse part::Part;",
        a__part="use super::Whole;",
        b="// See crate::c::Type.\nuse crate::a::Whole;\n#[cfg(test)]\nmod tests {\n    use crate::c::Type;\n}",
        c="use crate::b::{Type, a::Whole};",
    )
    assert found == []


def test_an_import_of_a_layer_above_is_refused(tmp_path):
    found = refused(tmp_path, 'layers = ["low", "high"]', low="use crate::high::Type;", high="", other="")
    assert found == ["package.metadata.layers and the modules differ in other", "low imports high, which is above it"]


def test_a_crate_that_only_one_layer_may_use_is_refused_elsewhere(tmp_path):
    modules = {"net": "use tokio::net::TcpStream;", "low": "// tokio::sync\nuse tokio_rustls::TlsAcceptor;"}
    assert refused(tmp_path, 'only = { tokio = "net" }', **modules) == ["low uses tokio, which only net may"]
