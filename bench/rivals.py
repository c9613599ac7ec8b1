"""The logs that are measured, and the other programs that read them, each a process that makes one pass a line."""

from __future__ import annotations

import statistics
import subprocess
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
JAVA = HERE / "java"
DATA = HERE.parent / "build" / "bench"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True)
class Shape:
    """What a log is made of: batches close at a number of records or, if that is 0, at 16 KB of them."""

    name: str
    records: int
    value_bytes: int
    batch_records: int = 0
    headers: int = 0


SHAPES = (
    Shape("100 B, 16 KB batches", 500_000, 100),
    Shape("100 B, 1000 records a batch", 500_000, 100, batch_records=1000),
    Shape("1 KB, 16 KB batches", 100_000, 1000),
    Shape("100 B and 2 headers, 16 KB batches", 500_000, 100, headers=2),
)


def classpath() -> str:
    """Return the class path of Kafka and of `Bench.java`, built when that changed."""
    library, built = JAVA / "target" / "lib", JAVA / "target" / "classes" / "Bench.class"
    sources = (JAVA / "src" / "main" / "java").iterdir()
    if not built.exists() or built.stat().st_mtime < max(source.stat().st_mtime for source in sources):
        command = ["mvn", "-q", "-B", "package", "dependency:copy-dependencies", "-DoutputDirectory=target/lib"]
        subprocess.run(command, cwd=JAVA, check=True)
    return f"{JAVA / 'target' / 'classes'}:{library}/*"


def log_file(shape: Shape, codec: str) -> Path:
    """Return a log of this shape, written by Kafka's own classes unless it is there."""
    slug = f"{shape.value_bytes}-{shape.batch_records}-{shape.headers}-{shape.records}-{codec}"
    folder = DATA / f"{slug}-0"
    file = folder / f"{0:020}.log"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        sizes = (shape.records, shape.value_bytes, shape.batch_records, 16384, shape.headers)
        partial = file.with_suffix(".part")
        command = ["java", "-cp", classpath(), "Bench", "write", str(partial), codec, *map(str, sizes)]
        subprocess.run(command, check=True)
        partial.rename(file)
    return file


class Pacer:
    """Another program, which makes one pass over a file for each line it is given."""

    def __init__(self, *command: str) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self) -> float:
        """Let it make one pass."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """End it."""
        self._process.communicate("")


def limit(file: Path, *mode: str) -> Pacer:
    """Return the limit over this file: of decoding, or with the mode "encode" of that."""
    binary = HERE.parent / "target" / "local" / "brokerless-limit"
    subprocess.run(["cargo", "build", "--profile", "local", "--quiet", "-p", "brokerless-limit"], cwd=HERE, check=True)
    return Pacer(str(binary), str(file), *mode)


def arrow_avro(schema: Path, values: Path) -> Pacer:
    """Return Arrow's decoder of Avro over framed values, one after the other in a file."""
    crate = HERE / "arrow-avro"
    subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=crate, check=True)
    return Pacer(str(crate / "target" / "release" / "brokerless-bench-arrow-avro"), str(schema), str(values))


def kafka_classes(file: Path, mode: str = "read") -> Pacer:
    """Return Kafka's record classes over this file, warmed up; with the mode "build" they build its batches again."""
    pacer = Pacer("java", "-Xmx2g", "-cp", classpath(), "Bench", mode, str(file))
    for _ in range(8):
        pacer.seconds()
    return pacer


def median_ratio(theirs: list[float], ours: list[float]) -> float:
    """Return the ratio of the medians."""
    return statistics.median(theirs) / statistics.median(ours)
