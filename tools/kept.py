"""The cache of builds: a new clone takes what another one has built from the same sources.

- `built/KEY/` has what we build from our own sources: the extension and the jar. KEY is a hash of all that the build
  reads.
- `crates/KEY/` has what Cargo compiles from crates.io (`cargo.py`).

The cache is `brokerless/` in `$XDG_CACHE_HOME`, else in `~/.cache`. `BROKERLESS_BUILD_CACHE` names another directory;
empty, it turns the cache off. It may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

ROOT = Path(__file__).resolve().parent.parent
BUILT = 16
"""So many builds are kept: those that were used last."""


def cache() -> Path | None:
    """Return the directory of what is kept; None: nothing is kept."""
    named = os.environ.get("BROKERLESS_BUILD_CACHE")
    if named is not None:
        return Path(named).absolute() if named else None
    # A relative one is to be ignored, the XDG specification says.
    home = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return Path(home if os.path.isabs(home) else Path.home() / ".cache") / "brokerless"
    except RuntimeError:
        # A user without a home.
        return None


def said(*command: str) -> str:
    """Return what a program says of itself; "" where there is none."""
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


def compiler() -> list[str]:
    """Return what decides, beside the sources, what Cargo makes of them."""
    settings = ("RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC", "RUSTC_WRAPPER", "MACOSX_DEPLOYMENT_TARGET")
    # Cargo's, and those of the crates that compile C.
    groups = ("CARGO_BUILD_", "CARGO_PROFILE_", "CARGO_TARGET_", "CC", "CFLAGS", "HOST_", "TARGET_", "ZSTD_SYS_")
    named = [
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name in settings or name.startswith(groups)
        if name not in ("CARGO_BUILD_TARGET_DIR", "CARGO_TARGET_DIR")
    ]
    named += [file.read_text(errors="replace") for file in _settings_files()]
    # What is linked here runs with this C library and with later ones.
    libc = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else ""
    return [said("rustc", "-vV"), said(os.environ.get("CC", "cc"), "--version"), str(libc), *named]


def _settings_files() -> list[Path]:
    """Return the files of Cargo's settings that are not ours: the user's, and those of directories above this one."""
    homes = [Path(os.environ["CARGO_HOME"])] if os.environ.get("CARGO_HOME") else []
    with contextlib.suppress(RuntimeError):
        homes = homes or [Path.home() / ".cargo"]
    places = [*homes, *(directory / ".cargo" for directory in ROOT.parents)]
    files = [directory / name for directory in places for name in ("config", "config.toml")]
    return [file for file in files if file.is_file()]


def key(sources: Iterable[str], facts: Iterable[str]) -> str:
    """Return the hash of these files, and of those in these directories, and of facts beside them."""
    found: list[Path] = []
    for source in sources:
        path = ROOT / source
        found += [path] if path.is_file() else path.rglob("*")
    hashed = hashlib.sha256()
    for path in sorted(path for path in found if path.is_file()):
        content = path.read_bytes()
        hashed.update(f"{path.relative_to(ROOT).as_posix()} {len(content)}\n".encode() + content)
    for fact in facts:
        hashed.update(f"{len(fact)}\n{fact}".encode())
    return hashed.hexdigest()[:32]


def kept(find_key: Callable[[], str], outputs: Mapping[str, Path], build: Callable[[], None]) -> bool:
    """Make these files by `build`, or take them as they were made before; return whether they were taken.

    Args:
        find_key: returns `key` of all that `build` reads. Where that changes meanwhile, nothing is kept.
        outputs: where each file goes, by the name that it is kept by.
        build: makes them all.
    """
    home = cache()
    at = home / "built" / find_key() if home else None
    if at and all((at / name).is_file() for name in outputs):
        with contextlib.suppress(OSError):
            for name, path in outputs.items():
                place(at / name, path)
            # Others may own the cache.
            with contextlib.suppress(OSError):
                os.utime(at)
            return True
    build()
    if at and at.name == find_key():

        def fill(to: Path) -> None:
            for name, path in outputs.items():
                shutil.copy2(path, to / name)
                # A crash must leave no empty file that looks like a build.
                with (to / name).open("rb") as file:
                    os.fsync(file.fileno())

        put(at, fill, most=BUILT)
    return False


def place(source: Path, to: Path) -> None:
    """Copy a file by a rename: what has the old one open keeps it."""
    to.parent.mkdir(parents=True, exist_ok=True)
    new = to.with_name(f".{to.name}.{os.getpid()}")
    shutil.copyfile(source, new)
    new.chmod(source.stat().st_mode & 0o777)
    new.replace(to)


def put(at: Path, fill: Callable[[Path], None], *, most: int) -> None:
    """Create a directory, atomically, with what `fill` writes; keep only the `most` recently used directories."""
    new = None
    try:
        at.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix=".new-", dir=at.parent))
        fill(new)
        if at.exists():
            old = new.with_name(new.name + ".old")
            at.rename(old)
            new.rename(at)
            shutil.rmtree(old, ignore_errors=True)
        else:
            new.rename(at)
        os.utime(at)
        drop(at.parent, most)
    except OSError as error:
        # The build is done; only the next one takes longer.
        print(f"note: this build is not kept: {error}", file=sys.stderr)
        if new:
            shutil.rmtree(new, ignore_errors=True)


def drop(directory: Path, most: int) -> None:
    """Drop the directories in this one but for so many that were used last."""
    used, now = {}, time.time()
    for entry in directory.iterdir():
        # Another build may drop the same ones.
        with contextlib.suppress(FileNotFoundError):
            used[entry] = entry.stat().st_mtime
    found = sorted((modified, entry) for entry, modified in used.items() if not entry.name.startswith("."))
    # What a build left that was killed.
    dead = [entry for entry, modified in used.items() if entry.name.startswith(".new-") and modified < now - 3600]
    for entry in [*(entry for _, entry in found[:-most]), *dead]:
        shutil.rmtree(entry, ignore_errors=True)
