"""Bytes to Arrow, one thread: shares of the limit, and ratios to Kafka's Java classes and to aiokafka."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

import pyarrow as pa
from aiokafka.record.default_records import DefaultRecordBatch
from rivals import CODECS, SHAPES, kafka_classes, limit, log_file, median_ratio

from brokerless._native import Decoder
from brokerless.log.reader import KAFKA_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rivals import Shape

ROUNDS = 9
# The bars: share of the limit by codec, without and with headers; ratio to Kafka's classes.
SHARE = {"none": 0.65, "lz4": 0.80, "snappy": 0.85, "gzip": 0.90, "zstd": 0.90}
SHARE_WITH_HEADERS = {"none": 0.40, "lz4": 0.65, "snappy": 0.65, "gzip": 0.65, "zstd": 0.65}
KAFKA = {"none": 3.0, "lz4": 2.0, "snappy": 2.0, "gzip": 1.8, "zstd": 1.3}
AIOKAFKA = 5.0
# aiokafka reads the first so many bytes only: it would take minutes for all.
AIOKAFKA_BYTES = 4 << 20


def ours(data: pa.Buffer, columns: tuple[str, ...]) -> tuple[float, int]:
    """Decode all; return seconds and rows."""
    start = time.perf_counter()
    decoder = Decoder(columns, topic="t", partition=0)
    position = rows = 0
    while position < data.size:
        batch, consumed = decoder.decode(data.slice(position), position)
        position += consumed
        rows += batch.num_rows
    return time.perf_counter() - start, rows


def _records(data: bytes) -> Iterator[object]:
    position = 0
    while position < len(data):
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        batch = DefaultRecordBatch(data[position : position + size])
        assert batch.validate_crc()
        yield from batch
        position += size


def aiokafka(data: bytes) -> tuple[float, int]:
    """Decode into Arrow with aiokafka's reader; return seconds and rows."""
    start = time.perf_counter()
    keys, values = [], []
    for record in _records(data):
        keys.append(record.key)
        values.append(record.value)
    rows = pa.record_batch([pa.array(keys, pa.binary()), pa.array(values, pa.binary())], ["key", "value"])
    return time.perf_counter() - start, rows.num_rows


def whole_batches(data: bytes, most: int) -> bytes:
    """Return as many batches from the start of `data` as fit."""
    position = 0
    while position < len(data):
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        if position + size > most:
            break
        position += size
    return data[:position]


def measure(shape: Shape, codec: str, file: Path) -> bool:
    """Print one line; return whether every bar is reached."""
    data = file.read_bytes()
    buffer = pa.py_buffer(data)
    columns = ("key", "value", "headers") if shape.headers else ("key", "value")
    bar = (SHARE_WITH_HEADERS if shape.headers else SHARE)[codec]
    rod, classes = limit(file), kafka_classes(file)
    part = whole_batches(data, AIOKAFKA_BYTES)
    times: dict[str, list[float]] = {"limit": [], "ours": [], "kafka": [], "aiokafka": [], "all": []}
    rod.seconds()
    ours(buffer, columns)
    for _ in range(ROUNDS):
        times["limit"].append(rod.seconds())
        seconds, rows = ours(buffer, columns)
        times["ours"].append(seconds)
        times["kafka"].append(classes.seconds())
        seconds, part_rows = aiokafka(part)
        times["aiokafka"].append(seconds * rows / part_rows)
        times["all"].append(ours(buffer, tuple(KAFKA_COLUMNS))[0])
    rod.close()
    classes.close()
    share = median_ratio(times["limit"], times["ours"])
    kafka = median_ratio(times["kafka"], times["ours"])
    aio = median_ratio(times["aiokafka"], times["ours"])
    million = rows / statistics.median(times["ours"]) / 1e6
    whole = rows / statistics.median(times["all"]) / 1e6
    good = share >= bar and aio >= AIOKAFKA and (shape.headers > 0 or kafka >= KAFKA[codec])
    print(
        f"{shape.name:36} {codec:7} {million:6.1f} M/s  share of limit {share:.2f} (bar {bar:.2f})  "
        f"Kafka {kafka:.1f}x (bar {KAFKA[codec]:.1f}, limit {kafka / share:.1f})  "
        f"aiokafka {aio:.1f}x (bar {AIOKAFKA:.0f}, limit {aio / share:.1f})  "
        f"all columns {whole:5.1f} M/s{'' if good else '   BELOW'}",
        flush=True,
    )
    return good


def main() -> bool:
    """Measure every shape and codec."""
    print(f"decode: one thread, CRC on, key and value (and headers) into Arrow, medians of {ROUNDS}")
    good = [measure(shape, codec, log_file(shape, codec)) for shape in SHAPES for codec in CODECS]
    return all(good)
