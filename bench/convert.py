"""Converting a log in place, durable at its close: against the limit of recompression, and against copying the file.

The limit is a loop in memory over the same batches: CRC, decompression, compression, CRC. Ours reads and writes files
besides. For the copy, a log of which all but the first batch stays as it is.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from typing import TYPE_CHECKING

from rivals import CODECS, DATA, SHAPES, limit, log_file, median_ratio

from brokerless import LogWriter, TopicConfig
from brokerless.rewriting.convert import Conversion

if TYPE_CHECKING:
    from pathlib import Path

    from rivals import Shape

ROUNDS = 7
SETTINGS = TopicConfig(segment_bytes=(1 << 31) - 1, max_message_bytes=1 << 21)
RECODING_BAR, COPYING_BAR = 0.70, 0.50
BLOCK = 1 << 20
# As long as this, so that what opening and closing cost does not count.
MIN_BYTES = 256 << 20
PAIRS = (("none", "lz4"), ("none", "zstd"), ("gzip", "zstd"), ("snappy", "lz4"), ("lz4", "zstd"), ("zstd", "snappy"))


def source(shape: Shape, codec: str, *, is_mixed: bool = False) -> Path:
    """Return a partition directory, left clean, of one segment; mixed: its first batch has another codec."""
    once = log_file(shape, codec)
    directory = DATA / f"convert-{'mixed-' * is_mixed}{once.parent.name}"
    if not directory.exists():
        partial = DATA / "convert-part-0"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        batches = _as_sent(once.read_bytes())
        with LogWriter.open(str(partial), config=SETTINGS, is_clean=True) as log:
            if is_mixed:
                log.append(_first(_as_sent(log_file(shape, "gzip").read_bytes())))
            for _ in range(-(-MIN_BYTES // len(batches))):
                log.append_each(batches)
        partial.rename(directory)
    return directory


def _as_sent(batches: bytes) -> bytes:
    """Return batches as producers send them: their offsets start at 0."""
    sent, position = bytearray(batches), 0
    while position < len(sent):
        sent[position : position + 8] = bytes(8)
        position += 12 + int.from_bytes(sent[position + 8 : position + 12], "big")
    return bytes(sent)


def _first(batches: bytes) -> bytes:
    return batches[: 12 + int.from_bytes(batches[8:12], "big")]


def ours(directory: Path, codec: str) -> float:
    """Convert a copy of the log; return seconds, from opening it to its close."""
    copy = DATA / "convert-copy-0"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(directory, copy)
    os.sync()
    start = time.perf_counter()
    with LogWriter.open(str(copy), config=SETTINGS, is_clean=True) as log:
        report = log.run(Conversion(compression=codec))
    seconds = time.perf_counter() - start
    assert report.changed_batches
    shutil.rmtree(copy)
    return seconds


def plain(directory: Path) -> float:
    """Copy the file in blocks; return seconds, one fsync included."""
    copy = DATA / "convert-copy-0"
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    os.sync()
    block = memoryview(bytearray(BLOCK))
    start = time.perf_counter()
    log = next(directory.glob("*.log"))
    with open(log, "rb", buffering=0) as file, open(copy / "copy", "wb", buffering=0) as out:
        while length := file.readinto(block):
            out.write(block[:length])
        os.fsync(out.fileno())
    seconds = time.perf_counter() - start
    shutil.rmtree(copy)
    return seconds


def recoding(shape: Shape, codec: str, to: str) -> bool:
    """Print one line; return whether the bar is reached."""
    directory = source(shape, codec)
    log = next(directory.glob("*.log"))
    pacer = limit(log, "recode", str(CODECS.index(to)))
    pacer.seconds()
    times: dict[str, list[float]] = {"ours": [], "limit": []}
    for _ in range(ROUNDS):
        times["ours"].append(ours(directory, to))
        times["limit"].append(pacer.seconds())
    pacer.close()
    return _judge(f"{codec} to {to}", times["limit"], times["ours"], log.stat().st_size, RECODING_BAR)


def copying(shape: Shape) -> bool:
    """Print one line; return whether the bar is reached."""
    directory = source(shape, "none", is_mixed=True)
    log = next(directory.glob("*.log"))
    times: dict[str, list[float]] = {"ours": [], "plain": []}
    for _ in range(ROUNDS):
        times["plain"].append(plain(directory))
        times["ours"].append(ours(directory, "none"))
    return _judge("none, rewritten", times["plain"], times["ours"], log.stat().st_size, COPYING_BAR)


def _judge(name: str, theirs: list[float], ours: list[float], size: int, bar: float) -> bool:
    share = median_ratio(theirs, ours)
    rate = size / statistics.median(ours) / 1e6
    print(
        f"  {name:18} {rate:6.0f} MB/s  share {share:.2f} (bar {bar:.2f}){'' if share >= bar else '   BELOW'}",
        flush=True,
    )
    return share >= bar


def main() -> bool:
    """Measure 16 KB batches of small values, between codecs and without one."""
    shape = SHAPES[0]
    print(f"convert: {shape.name}, a log in place, durable, medians of {ROUNDS}")
    good = [copying(shape)] + [recoding(shape, codec, to) for codec, to in PAIRS]
    return all(good)
