"""Queries over a log directory: DuckDB against Parquet, narrow columns, a range in Polars, and a cold start.

All reads are of the page cache, in one process, and in alternation. The Parquet files have the same rows, written by
DuckDB.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import polars as pl
from find import judged, least_of, written
from rivals import DATA

import brokerless as bl

if TYPE_CHECKING:
    from find import Logs

AGGREGATE_BARS = {"none": 1.3, "zstd": 2.5}
NARROW_BAR, RANGE_BAR_MS, COLD_BAR_S = 1.2, 100.0, 2.0
PARTITIONS, COLD_ROUNDS = 1000, 3


def main() -> bool:
    """Measure, print, and return whether all bars are met."""
    good = []
    for codec, bar in AGGREGATE_BARS.items():
        good += of_engines(codec, written(codec, 100), bar)
    return all([*good, cold()])


def of_engines(codec: str, logs: Logs, bar: float) -> list[bool]:
    """Compare queries of 10 million records with the same over Parquet, and with decoding alone."""
    connection = duckdb.connect()
    bl.register_duckdb(connection, logs.directory, decode=None)
    parquet = DATA / f"query-{codec}.parquet"
    if not parquet.exists():
        made = parquet.with_suffix(".part")
        rows = 'select partition, "offset", timestamp, key, value from orders'
        connection.execute(f"copy ({rows}) to '{made}' (format parquet, compression zstd)")
        made.rename(parquet)
    aggregate = "select count(*), sum(octet_length(value)), min(value), max(value) from "
    narrow = 'select sum(partition), max("offset") from orders'
    if (
        connection.execute(f"{aggregate} orders").fetchall()
        != connection.execute(f"{aggregate} '{parquet}'").fetchall()
    ):
        sys.exit("the rows differ")
    decoding = bl.LogDirs(logs.directory)

    def decode() -> None:
        for _ in decoding.read(columns=["partition", "offset"]):
            pass

    frame = bl.scan_polars(logs.directory, topics=["orders"])

    def in_range() -> None:
        found = frame.filter(pl.col("partition") == 1, pl.col("offset").is_between(1_000_000, 1_000_100))
        if found.select("key", "value").collect().height != 101:
            sys.exit("not the rows of the range")

    seconds = least_of(
        {
            "logs": lambda: connection.execute(f"{aggregate} orders").fetchall(),
            "parquet": lambda: connection.execute(f"{aggregate} '{parquet}'").fetchall(),
            "narrow": lambda: connection.execute(narrow).fetchall(),
            "decode": decode,
            "range": in_range,
        }
    )
    print(f"query: {codec}: {', '.join(f'{name} {taken * 1000:.0f} ms' for name, taken in seconds.items())}")
    values = f"query: {codec}: time of an aggregate of values, of that over Parquet"
    columns = f"query: {codec}: time of an aggregate of narrow columns, of decoding them"
    return [
        judged(values, seconds["logs"] / seconds["parquet"], bar, at_most=True),
        judged(columns, seconds["narrow"] / seconds["decode"], NARROW_BAR, at_most=True),
        judged(f"query: {codec}: ms of a range in Polars", seconds["range"] * 1000, RANGE_BAR_MS, at_most=True),
    ]


def cold() -> bool:
    """Find a key in one of 1,000 partitions, with the whole command."""
    command = str(Path(sys.executable).with_name("brokerless"))
    with tempfile.TemporaryDirectory(dir=DATA) as scratch:
        directory = Path(scratch) / "d"
        with bl.Producer(directory, "orders", partitions=PARTITIONS) as producer:
            producer.send([{"key": b"key-%d" % number, "value": b"%d" % number} for number in range(100_000)])
        taken = []
        for _ in range(COLD_ROUNDS):
            start = time.perf_counter()
            find = [command, "find", str(directory), "--key", "key-4711", "--exact"]
            with subprocess.Popen(find, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
                if process.stdout is None or not process.stdout.readline():
                    sys.exit("the key is not found")
                taken.append(time.perf_counter() - start)
    return judged("query: seconds until a key in 1,000 partitions is found", min(taken), COLD_BAR_S, at_most=True)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
