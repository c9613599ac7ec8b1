#!/usr/bin/env python3
"""Build the jar of the Spark source, with its native library; or take it as it was built before.

Usage: tools/jar.py PYSPARK_JARS   The jar goes into the package. Without a JDK, none is built.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import native
from kept import ROOT, compiler, kept, key, said

JAR = ROOT / "src/brokerless/spark/brokerless.jar"
CLASSES = ROOT / "build/jvm"


def tool(name: str) -> str:
    """Return the path of a JDK's program, as Spark finds Java: JAVA_HOME first, then the PATH."""
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", name) if home else name


def build(spark: Path) -> None:
    """Put the jar into the package; `spark` has the jars of the Spark that it is compiled against."""
    if not shutil.which(tool("javac")):
        print("no jar: there is no JDK (javac), so Spark reads and writes in Python", file=sys.stderr)
        JAR.unlink(missing_ok=True)
        return
    versions = [said(tool("javac"), "-version"), *sorted(path.name for path in spark.glob("spark-*.jar"))]
    sources = [*native.SOURCES, "java", "tools/jar.py"]
    kept(lambda: key(sources, [*compiler(), *versions]), {JAR.name: JAR}, lambda: _compile(spark))


def _compile(spark: Path) -> None:
    native.build()
    shutil.rmtree(CLASSES, ignore_errors=True)
    properties = subprocess.run(
        [tool("java"), "-XshowSettings:properties", "-version"], check=True, capture_output=True, text=True
    ).stderr
    (architecture,) = (line.split()[2] for line in properties.splitlines() if line.split()[:2] == ["os.arch", "="])
    library = CLASSES / "native" / architecture / native.OF_THE_JAR.name
    library.parent.mkdir(parents=True)
    # Warnings of Spark's own classes say nothing of ours.
    lint = ["-Xlint:all,-path,-classfile,-processing", "-Werror", "-nowarn"]
    sources = sorted((ROOT / "java/brokerless/spark").glob("*.java"))
    _run(tool("javac"), "--release", "17", *lint, "-cp", f"{spark}/*", "-d", CLASSES, *sources)
    shutil.copytree(ROOT / "java/META-INF", CLASSES / "META-INF")
    shutil.copyfile(native.OF_THE_JAR, library)
    _run(tool("jar"), "--create", "--file", JAR, "--date=2020-01-01T00:00:00Z", "-C", CLASSES, ".")


def _run(*command: object) -> None:
    if code := subprocess.run(list(map(str, command)), check=False).returncode:
        JAR.unlink(missing_ok=True)
        sys.exit(code)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
