#!/usr/bin/env python3
"""Run Cargo, and share what it compiles from crates.io between clones.

Usage: tools/cargo.py PROFILE ARGUMENT...   PROFILE is that of the arguments.

What is shared is Cargo's own directory of a profile, without the crates of this workspace: Cargo compares times, so it
would take those of another clone, with other sources, for fresh. A crate from crates.io never changes, and Cargo knows
by a hash in the names of its files whether version, features, compiler and flags are the same.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kept import ROOT, cache, compiler, key, put

OURS = "brokerless-"
"""How the name of each package of the workspace begins."""
MOST = 4
"""So many sets of crates, of some 400 MB each, are kept: those that were used last."""


def target(profile: str) -> Path:
    """Return Cargo's directory of a profile."""
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute() / profile


def cargo(profile: str, *arguments: str) -> int:
    """Run Cargo with these arguments; return its exit code."""
    directory, crates = target(profile), crates_key(profile)
    take_crates(directory, crates)
    # Whatever the user's settings say of it, what is built is where we look for it. And the stable interface of Python
    # is the same for each interpreter: none is asked, by no run of Cargo, or the next one would compile it again.
    environment = os.environ | {"CARGO_TARGET_DIR": str(directory.parent), "PYO3_NO_PYTHON": "1"}
    ended = subprocess.run(["cargo", *arguments], cwd=ROOT, env=environment, check=False)
    keep_crates(directory, crates)
    return ended.returncode


def crates_key(profile: str) -> str:
    """Return the hash of what decides which crates Cargo takes from crates.io, and how it compiles them."""
    manifests = [path.relative_to(ROOT).as_posix() for path in ROOT.glob("*/*/Cargo.toml")]
    return key(["Cargo.lock", "Cargo.toml", ".cargo/config.toml", *manifests], [profile, *compiler()])


def take_crates(directory: Path, key: str) -> None:
    """Give Cargo's directory of a profile, where it is new, what was compiled from crates.io before."""
    home = cache()
    if not home or directory.exists() or not (home / "crates" / key).is_dir():
        return
    directory.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=".crates-", dir=directory.parent))
    try:
        # Times stay: Cargo compares them.
        shutil.copytree(home / "crates" / key, new, dirs_exist_ok=True)
        new.chmod(0o755)
        new.rename(directory)
        os.utime(home / "crates" / key)
    except OSError:
        # Two builds at once, or another clone that has just replaced them: Cargo compiles.
        shutil.rmtree(new, ignore_errors=True)


def keep_crates(directory: Path, key: str) -> None:
    """Keep what Cargo has compiled from crates.io into its directory of a profile, beside what was kept before."""
    home = cache()
    # Who installs from a source distribution builds once, and these are some 400 MB.
    if not home or not (ROOT / ".git").exists() or not (directory / ".fingerprint").is_dir():
        return
    at = home / "crates" / key
    had = set(_units(at))
    units = {unit for unit, name in _units(directory).items() if not name.startswith(OURS)} - had
    if not units:
        return

    def fill(to: Path) -> None:
        if had:
            shutil.copytree(at, to, dirs_exist_ok=True)
        for part in (".fingerprint", "build", "deps"):
            (to / part).mkdir(exist_ok=True)
            for entry in os.scandir(directory / part):
                if _unit(entry.name) in units:
                    copy = shutil.copytree if entry.is_dir() else shutil.copy2
                    copy(entry.path, to / part / entry.name)

    put(at, fill, most=MOST)


def _units(directory: Path) -> dict[str, str]:
    """Return what Cargo has compiled: the name of each package by the hash that its files have in their names."""
    with contextlib.suppress(FileNotFoundError):
        return {_unit(name): name for name in os.listdir(directory / ".fingerprint")}
    return {}


def _unit(name: str) -> str:
    return name.partition(".")[0].rpartition("-")[2]


if __name__ == "__main__":
    sys.exit(cargo(*sys.argv[1:]))
