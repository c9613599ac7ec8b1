#!/usr/bin/env python3
"""Build the jar of the Spark source, with its native library; or take it as it was built before.

Usage: tools/jar.py PYSPARK_JARS [ARCHITECTURE=LIBRARY...]

The jar goes into the package. It has the native library of each ARCHITECTURE (Java's `os.arch`) that is given; without
any, the one that is built for this machine. Where no jar can be built, a file in the package says why.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import native
from kept import ROOT, compiler, kept, key, said

JAR = ROOT / "src/brokerless/spark/brokerless.jar"
REASON = ROOT / "src/brokerless/spark/no_jar.txt"
CLASSES = ROOT / "build/jvm"
RELEASE = 17
"""The oldest Java on which the jar runs, as Spark 4."""


def tool(name: str) -> str:
    """Return the path of a JDK's program, as Spark finds Java: JAVA_HOME first, then the PATH."""
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", name) if home else name


def obstacle() -> str | None:
    """Return why no jar is compiled here; None if one is."""
    if os.environ.get("BROKERLESS_NO_JAR"):
        return "the build was told to leave it out (BROKERLESS_NO_JAR)"
    version = said(tool("javac"), "-version")
    if not version:
        return "there was no JDK (javac)"
    found = re.match(r"javac (?:1\.)?(\d+)", version)
    if not found or int(found[1]) < RELEASE:
        return f"the JDK was older than Java {RELEASE} ({version.strip()})"
    return None


def build(spark: Path | None, libraries: dict[str, Path] | None = None) -> None:
    """Put the jar into the package, or a file that says why there is none.

    Args:
        spark: the directory of the jars of the Spark that it is compiled against; None if there is none.
        libraries: the native library of each architecture; by default, that of this machine is built.
    """
    reason = obstacle() or (None if spark else "there was no Spark (pyspark) to compile it against")
    if reason or not spark:
        JAR.unlink(missing_ok=True)
        REASON.write_text(f"{reason}\n")
        print(f"no jar for Spark: {reason}. Spark will read and write in Python workers", file=sys.stderr)
        return
    REASON.unlink(missing_ok=True)
    if libraries:
        _compile(spark, libraries)
        return
    versions = [said(tool("javac"), "-version"), *sorted(path.name for path in spark.glob("spark-*.jar"))]
    sources = [*native.SOURCES, "java", "tools/jar.py", "LICENSE", "THIRD-PARTY-LICENSES"]
    kept(lambda: key(sources, [*compiler(), *versions]), {JAR.name: JAR}, lambda: _compile(spark, _own_library()))


def _own_library() -> dict[str, Path]:
    """Build the native library for this machine; return it by its architecture."""
    native.build()
    properties = subprocess.run(
        [tool("java"), "-XshowSettings:properties", "-version"], check=True, capture_output=True, text=True
    ).stderr
    (architecture,) = (line.split()[2] for line in properties.splitlines() if line.split()[:2] == ["os.arch", "="])
    return {architecture: native.OF_THE_JAR}


def _compile(spark: Path, libraries: dict[str, Path]) -> None:
    shutil.rmtree(CLASSES, ignore_errors=True)
    for architecture, library in libraries.items():
        placed = CLASSES / "native" / architecture / library.name
        placed.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(library, placed)
    # Warnings of Spark's own classes say nothing of ours.
    lint = ["-Xlint:all,-path,-classfile,-processing", "-nowarn"]
    if (ROOT / ".git").exists():
        # Later JDKs warn of more: this fails our build, and no user's.
        lint.append("-Werror")
    sources = sorted((ROOT / "java/brokerless/spark").glob("*.java"))
    _run(tool("javac"), "--release", RELEASE, *lint, "-cp", f"{spark}/*", "-d", CLASSES, *sources)
    shutil.copytree(ROOT / "java/META-INF", CLASSES / "META-INF")
    for name in ("LICENSE", "THIRD-PARTY-LICENSES"):
        shutil.copyfile(ROOT / name, CLASSES / "META-INF" / name)
    _run(tool("jar"), "--create", "--file", JAR, "--date=2020-01-01T00:00:00Z", "-C", CLASSES, ".")


def _run(*command: object) -> None:
    if code := subprocess.run(list(map(str, command)), check=False).returncode:
        JAR.unlink(missing_ok=True)
        sys.exit(code)


if __name__ == "__main__":
    named = dict(argument.split("=", 1) for argument in sys.argv[2:])
    build(Path(sys.argv[1]), {architecture: Path(library) for architecture, library in named.items()})
