"""Ready batches into a new log, durable at its close: against copying the same file in a plain loop with one fsync."""

from __future__ import annotations

import os
import shutil
import statistics
import time
from typing import TYPE_CHECKING

from rivals import CODECS, DATA, SHAPES, log_file, median_ratio

from brokerless import LogWriter, TopicConfig
from brokerless._native import Decoder

if TYPE_CHECKING:
    from pathlib import Path

    from rivals import Shape

ROUNDS = 9
# Of the plain loop or, for compressed batches, of the slower of that and decompression, which validation needs.
BAR = 0.60
BLOCK = 1 << 20
# As long as this, so that what opening and closing cost does not count.
MIN_BYTES = 128 << 20


def ready(shape: Shape, codec: str) -> Path:
    """Return a file of batches as producers send them: their offsets start at 0."""
    source = log_file(shape, codec)
    file = DATA / f"ready-{source.parent.name}"
    if not file.exists():
        data = bytearray(source.read_bytes())
        position = 0
        while position < len(data):
            data[position : position + 8] = bytes(8)
            position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        partial = file.with_suffix(".part")
        partial.write_bytes(data * -(-MIN_BYTES // len(data)))
        partial.rename(file)
    return file


def ours(source: Path, directory: Path) -> float:
    """Append the file in blocks to a new log; return seconds, its close included."""
    directory.mkdir()
    block = memoryview(bytearray(BLOCK))
    log = LogWriter.open(str(directory), config=TopicConfig(), is_clean=True)
    start = time.perf_counter()
    with log, open(source, "rb", buffering=0) as file:
        left = 0
        while length := file.readinto(block[left:]):
            end = left + length
            taken = log.append_each(block[:end]).consumed
            left = end - taken
            block[:left] = block[taken:end]
    seconds = time.perf_counter() - start
    assert left == 0
    return seconds


def plain(source: Path, directory: Path) -> float:
    """Copy the file; return seconds."""
    directory.mkdir()
    block = memoryview(bytearray(BLOCK))
    start = time.perf_counter()
    with open(source, "rb", buffering=0) as file, open(directory / "copy", "wb", buffering=0) as out:
        while length := file.readinto(block):
            out.write(block[:length])
        os.fsync(out.fileno())
    return time.perf_counter() - start


def decompression(data: bytes) -> float:
    """Decode the offsets alone, without checksums; return seconds."""
    start = time.perf_counter()
    decoder = Decoder(["offset"], check_crcs=False)
    position = 0
    while position < len(data):
        position += decoder.decode(memoryview(data)[position:], position)[1]
    return time.perf_counter() - start


def measure(shape: Shape, codec: str) -> bool:
    """Print one line; return whether the bar is reached."""
    source = ready(shape, codec)
    data = source.read_bytes()
    directory = DATA / "append-0"
    shutil.rmtree(directory, ignore_errors=True)
    times: dict[str, list[float]] = {"ours": [], "plain": [], "decompression": []}
    pair = [("plain", plain), ("ours", ours)]
    for _ in range(ROUNDS):
        # Who comes second finds the pages that the first has freed.
        pair.reverse()
        for name, run in pair:
            times[name].append(run(source, directory))
            shutil.rmtree(directory)
        times["decompression"].append(decompression(data))
    loop = median_ratio(times["plain"], times["ours"])
    decoded = median_ratio(times["decompression"], times["ours"])
    share = loop if codec == "none" else max(loop, decoded)
    rounds = zip(times["plain"], times["decompression"], strict=True)
    in_turn = statistics.median(max(copied, decompressed) / (copied + decompressed) for copied, decompressed in rounds)
    rate = len(data) / statistics.median(times["ours"]) / 1e6
    good = share >= BAR
    print(
        f"{shape.name:36} {codec:7} {rate:6.0f} MB/s  share {share:.2f} (bar {BAR:.2f})  "
        f"plain loop {loop:.2f}  decompression {decoded:.2f}"
        f"{'' if codec == 'none' else f' (both in turn {in_turn:.2f})'}{'' if good else '   BELOW'}",
        flush=True,
    )
    return good


def main() -> bool:
    """Measure 16 KB batches of small and of large values, with every codec."""
    print(f"append: ready batches into a new log, one flush at its close, medians of {ROUNDS}")
    shapes = [shape for shape in SHAPES if not shape.batch_records and not shape.headers]
    good = [measure(shape, codec) for shape in shapes for codec in CODECS]
    return all(good)
