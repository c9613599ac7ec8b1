#!/usr/bin/env python3
"""Build the extension, and the library of the jar, in one run of Cargo; or take them as they were built before.

Usage: tools/native.py   The extension goes into the package, the library into build/native.
"""

from __future__ import annotations

import os
import shutil
import sys
import tomllib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cargo import cargo, target
from kept import ROOT, compiler, kept, key, place

PACKAGES = ("brokerless-python", "brokerless-jvm")
CRATES = ("core", "jvm", "python", "serve", "values")
LIBRARY = "{}.dylib" if sys.platform == "darwin" else "{}.so"
EXTENSION = ROOT / "src/brokerless/_native.abi3.so"
OF_THE_JAR = ROOT / "build/native" / LIBRARY.format("libbrokerless_jvm")
SOURCES = [
    "Cargo.toml",
    "Cargo.lock",
    ".cargo/config.toml",
    "tools/native.py",
    "rust/python/build.rs",
    *(f"rust/{crate}/{part}" for crate in CRATES for part in ("Cargo.toml", "src")),
]


def build() -> None:
    """Put the extension and the library where they belong."""
    if obstacle := missing():
        sys.exit(obstacle)
    outputs = {"_native": EXTENSION, "libbrokerless_jvm": OF_THE_JAR}
    kept(lambda: key(SOURCES, compiler()), outputs, _compile)


def missing() -> str | None:
    """Return what this machine lacks to compile, and what to do; None if it lacks nothing."""
    if shutil.which("cargo"):
        return None
    with (ROOT / "Cargo.toml").open("rb") as file:
        oldest = tomllib.load(file)["workspace"]["package"]["rust-version"]
    return (
        f"brokerless is compiled with Rust {oldest} or newer, and there is no cargo here: install Rust (rustup.rs), or "
        "take a wheel, which needs no compiler: pip install --only-binary brokerless brokerless"
    )


def _compile() -> None:
    packages = [f"--package={package}" for package in PACKAGES]
    if code := cargo("local", "build", "--quiet", "--profile", "local", "--lib", *packages):
        sys.exit(code)
    place(target("local") / LIBRARY.format("lib_native"), EXTENSION)
    place(target("local") / OF_THE_JAR.name, OF_THE_JAR)


if __name__ == "__main__":
    build()
