#!/usr/bin/env python3
"""Build what is published: the source distribution and, from it alone, the wheel of a platform, with the jar for Spark.

Usage: tools/wheels.py [--target TRIPLE] [--libraries DIRECTORY] [--library-only] [--sdist FILE] [--sdist-only]
                       [--output DIRECTORY]

The jar has the native library of this platform, and those in DIRECTORY/ARCHITECTURE, which `--library-only` has built
on other platforms. On Linux, zig links against an old C library: the wheel runs on every distribution since 2014.

The same sources make the same bytes. SOURCE_DATE_EPOCH is the date of all files; by default, it is the time of the
commit, and for a wheel the time of the source distribution.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kept import ROOT
from published_readme import own_version, publish_sdist, published

GLIBC = "2.17"
LARGEST = 15 << 20
"""No wheel may have more bytes: PyPI keeps each of them for ever."""
PROFILE = "wheel"
OF_THE_EXTENSION = "brokerless-python.cyclonedx.json"
OF_THE_JAR = "brokerless-jvm.cyclonedx.json"
"""The bills of materials."""
ARCHITECTURES = {"x86_64-unknown-linux-gnu": "amd64", "aarch64-unknown-linux-gnu": "aarch64"} | {
    "x86_64-apple-darwin": "x86_64",
    "aarch64-apple-darwin": "aarch64",
}
"""Java's `os.arch` on each platform."""


def main() -> None:
    """Build, and print the path of each file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=ARCHITECTURES, default=host())
    parser.add_argument("--libraries", type=Path, default=ROOT / "build/libraries")
    parser.add_argument("--library-only", action="store_true", help="build only the library of the jar")
    parser.add_argument("--sdist", type=Path, help="the source distribution; by default, this clone's")
    parser.add_argument("--sdist-only", action="store_true", help="build only the source distribution")
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    asked = parser.parse_args()
    if asked.sdist and asked.sdist.resolve().is_relative_to(asked.output.resolve()):
        sys.exit(f"{asked.sdist} is in {asked.output}, which is made anew: move the file to another directory")
    if not asked.library_only:
        shutil.rmtree(asked.output, ignore_errors=True)
    archive = placed(asked.sdist, asked.output)
    os.environ.setdefault("SOURCE_DATE_EPOCH", str(date_of(archive)))
    if asked.sdist_only:
        print(archive)
        return
    sources = unpacked(archive)
    library(sources, asked.target, asked.libraries)
    if not asked.library_only:
        jar(sources, asked.libraries)
        wheel(sources, asked.target, asked.output)
    for path in sorted(asked.output.iterdir() if not asked.library_only else asked.libraries.rglob("lib*")):
        print(path, f"{path.stat().st_size:,} bytes")
        if path.stat().st_size > LARGEST:
            sys.exit(f"{path} is larger than {LARGEST:,} bytes")


def host() -> str:
    """Return the target of this machine."""
    said = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout
    return next(line.split()[1] for line in said.splitlines() if line.startswith("host:"))


def source_date() -> int:
    """Return the date of what is built from these sources, in seconds of Unix time.

    It is SOURCE_DATE_EPOCH, else the time of the commit, else the time of the source distribution that this is.
    """
    if named := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(named)
    # A source distribution may lie in another repository.
    if (ROOT / ".git").exists():
        command = ["git", "log", "-1", "--format=%ct"]
        return int(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    return int((ROOT / "PKG-INFO").stat().st_mtime)


def date_of(sdist: Path) -> int:
    """Return the date of a source distribution, in seconds of Unix time."""
    with tarfile.open(sdist) as archive:
        return int(archive.getmember(f"{sdist.name.removesuffix('.tar.gz')}/PKG-INFO").mtime)


def placed(sdist: Path | None, output: Path) -> Path:
    """Put the source distribution where the wheel will be, and return its path."""
    if sdist:
        output.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(sdist, output))
    run("maturin", "sdist", "--out", output)
    (path,) = output.glob("*.tar.gz")
    publish_sdist(path)
    return path


def unpacked(path: Path) -> Path:
    """Unpack the source distribution, always in the same place, so that Cargo compiles again only what has changed."""
    directory = ROOT / "build/wheel-source"
    shutil.rmtree(directory, ignore_errors=True)
    with tarfile.open(path) as archive:
        archive.extractall(directory, filter="data")
    return directory / path.name.removesuffix(".tar.gz")


def library(sources: Path, target: str, to: Path) -> None:
    """Build the jar's library for a target into `to`, below its architecture."""
    build = ["zigbuild", f"--target={target}.{GLIBC}"] if is_linux(target) else ["build", f"--target={target}"]
    run("cargo", *build, "--quiet", f"--profile={PROFILE}", "--lib", "--package=brokerless-jvm", cwd=sources)
    suffix = "so" if is_linux(target) else "dylib"
    placed = to / ARCHITECTURES[target] / f"libbrokerless_jvm.{suffix}"
    placed.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(targets() / target / PROFILE / placed.name, placed)


def jar(sources: Path, libraries: Path) -> None:
    """Build the jar with all libraries, and their bill of materials, into the package of `sources`."""
    bill = sources / f"java/META-INF/sbom/{OF_THE_JAR}"
    bill.parent.mkdir(parents=True)
    bill.write_text(third_party(sources, "--sbom", "brokerless-jvm"))
    spark = subprocess.run(
        [sys.executable, "-c", "import os, pyspark; print(os.path.dirname(pyspark.__file__))"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    found = [f"{path.parent.name}={path}" for path in sorted(libraries.rglob("lib*"))]
    run(sys.executable, "tools/jar.py", f"{spark}/jars", *found, cwd=sources)
    if not (sources / "src/brokerless/spark/brokerless.jar").is_file():
        sys.exit("a wheel without the jar is not for publishing")


def wheel(sources: Path, target: str, output: Path) -> None:
    """Build the wheel, with the README as PyPI shows it.

    maturin checks that it needs nothing that its platform tag does not promise.
    """
    readme = sources / "README.md"
    readme.write_text(published(readme.read_text(), own_version()))
    # maturin's own bill names this machine's directories, has no number, and lacks the jar.
    (sources / OF_THE_EXTENSION).write_text(third_party(sources, "--sbom", "brokerless-python", "--target", target))
    shutil.copyfile(sources / f"java/META-INF/sbom/{OF_THE_JAR}", sources / OF_THE_JAR)
    with (sources / "pyproject.toml").open("a") as file:
        file.write(f'\n[tool.maturin.sbom]\nrust = false\ninclude = ["{OF_THE_EXTENSION}", "{OF_THE_JAR}"]\n')
    portable = ["--zig", f"--compatibility=manylinux_{GLIBC.replace('.', '_')}"] if is_linux(target) else []
    run(
        "maturin",
        "build",
        "--quiet",
        f"--profile={PROFILE}",
        f"--target={target}",
        *portable,
        "--out",
        output,
        cwd=sources,
    )


def third_party(sources: Path, *arguments: str) -> str:
    """Return what `tools/third_party` of these sources prints."""
    command = [sys.executable, str(sources / "tools/third_party"), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def is_linux(target: str) -> bool:
    """Return whether a target is Linux."""
    return target.endswith("linux-gnu")


def targets() -> Path:
    """Return Cargo's directory for wheels: one for all runs, because the sources are unpacked anew each time."""
    return ROOT / "build/wheel-target"


def run(program: str | os.PathLike[str], *arguments: object, cwd: Path = ROOT) -> None:
    """Run a program of this environment, or end with its exit code."""
    scripts = sysconfig.get_path("scripts")
    cargo_home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    places = {ROOT / "build/wheel-source": "brokerless", cargo_home: "cargo"}
    environment = os.environ | {
        "PATH": os.pathsep.join((scripts, os.environ["PATH"])),
        "CARGO_TARGET_DIR": str(targets()),
        "PYO3_NO_PYTHON": "1",
        # The same sources make the same files: without the present time, and without this machine's paths.
        "SOURCE_DATE_EPOCH": str(source_date()),
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(f"--remap-path-prefix={path}={name}" for path, name in places.items()),
    }
    if code := subprocess.run([program, *map(str, arguments)], cwd=cwd, env=environment, check=False).returncode:
        sys.exit(code)


if __name__ == "__main__":
    main()
