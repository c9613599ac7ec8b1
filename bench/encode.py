"""Arrow to bytes, one thread: shares of the limit, and ratios to Kafka's own builder."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

import pyarrow as pa
from rivals import CODECS, SHAPES, kafka_classes, limit, log_file, median_ratio

from brokerless._native import Decoder, Encoder, scan

if TYPE_CHECKING:
    from pathlib import Path

    from rivals import Shape

ROUNDS = 9
# The bars: share of the limit by codec; ratio to Kafka's builder.
SHARE = {"none": 0.70, "lz4": 0.85, "snappy": 0.85, "gzip": 0.85, "zstd": 0.85}
KAFKA = {"none": 3.0, "lz4": 2.0, "snappy": 1.0, "gzip": 1.0, "zstd": 1.0}


def arrow_batches(data: pa.Buffer, *, headers: bool) -> list[pa.RecordBatch]:
    """Return all records, in Arrow batches as a reader gives them."""
    decoder = Decoder(["key", "value", "timestamp", *(["headers"] if headers else [])])
    batches, position = [], 0
    while position < data.size:
        rows, consumed = decoder.decode(data.slice(position), position)
        assert rows is not None
        batches.append(rows)
        position += consumed
    return batches


def ours(encoder: Encoder, batches: list[pa.RecordBatch]) -> tuple[float, int]:
    """Encode all; return seconds and bytes."""
    start = time.perf_counter()
    size = sum(encoder.encode(rows, timestamp=0).size for rows in batches)
    return time.perf_counter() - start, size


def measure(shape: Shape, codec: str, file: Path) -> bool:
    """Print one line; return whether every bar is reached."""
    data = pa.py_buffer(file.read_bytes())
    records = scan(data.slice(0, 1 << 20))[0]["records_count"][0].as_py()
    batches = arrow_batches(data, headers=shape.headers > 0)
    bar = SHARE[codec]
    rod, classes = limit(file, "encode"), kafka_classes(file, "build")
    times: dict[str, list[float]] = {"limit": [], "ours": [], "kafka": []}
    rod.seconds()
    encoder = Encoder(compression=codec, batch_size=1 << 30, max_records=records)
    _, size = ours(encoder, batches)
    # A batch more for each Arrow batch, at most; and the same records otherwise.
    assert codec != "none" or abs(size - data.size) < 100 * len(batches), (size, data.size)
    for _ in range(ROUNDS):
        times["limit"].append(rod.seconds())
        times["ours"].append(ours(encoder, batches)[0])
        times["kafka"].append(classes.seconds())
    rod.close()
    classes.close()
    share = median_ratio(times["limit"], times["ours"])
    kafka = median_ratio(times["kafka"], times["ours"])
    million = sum(rows.num_rows for rows in batches) / statistics.median(times["ours"]) / 1e6
    good = share >= bar and kafka >= KAFKA[codec]
    print(
        f"{shape.name:36} {codec:7} {million:6.1f} M/s  share of limit {share:.2f} (bar {bar:.2f})  "
        f"Kafka {kafka:.1f}x (bar {KAFKA[codec]:.1f}, limit {kafka / share:.1f}){'' if good else '   BELOW'}",
        flush=True,
    )
    return good


def main() -> bool:
    """Measure every shape and codec."""
    print(f"encode: one thread, key, value and timestamp (and headers) from Arrow, medians of {ROUNDS}")
    good = [measure(shape, codec, log_file(shape, codec)) for shape in SHAPES for codec in CODECS]
    return all(good)
