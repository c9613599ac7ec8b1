"""Damaged files and damaged Arrow memory for `produce` and `Producer.send`, in a process of their own.

    python tests/support/hostile_inputs.py DIRECTORY [--seed 0] [--count 2000 | --seconds 600]

Each input is a seed of `seeds()` with some bytes changed. Whatever they are, they give rows or a ValueError, in bounded
memory, and the rows that were accepted are in the log at the end. Another exception ends the run, and a signal the
process: `DIRECTORY/input` is then the input that did it.
"""

import argparse
import json
import os
import random
import resource
import struct
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq

import brokerless as bl
from brokerless.cli.input import open_rows

MAX_MEMORY = 4 << 30
HEADERS = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
VIEWED = pa.large_list(pa.struct({"key": pa.string_view(), "value": pa.binary_view()}))


def table(key, value, headers, time=None):
    rows = range(60)
    columns = {
        "key": pa.array([f"key {row}" * (row % 5) if row % 7 else None for row in rows]).cast(key),
        "value": pa.array([f"value {row}" * (row % 4) if row % 9 else None for row in rows]).cast(value),
        "headers": pa.array(
            [[{"key": "h", "value": b"v" * row}] * (row % 3) if row % 5 else None for row in rows], headers
        ),
        "timestamp": pa.array([1_700_000_000_000 + row for row in rows]).cast(time or pa.int64()),
        "partition": pa.array([row % 3 for row in rows], pa.int32()),
    }
    return pa.table(columns)


def arrow_file(rows, **options):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(rows, max_chunksize=25)
    return sink.getvalue().to_pybytes()


def arrow_stream(rows):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=25)
    return sink.getvalue().to_pybytes()


def parquet_file(rows, **options):
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, row_group_size=25, **options)
    return sink.getvalue().to_pybytes()


def json_lines(rows):
    lines = []
    for row in rows.to_pylist():
        row["headers"] = [[header["key"], header["value"].decode()] for header in row["headers"] or []]
        row["key"], row["value"] = ({"base64": "YQ=="} if row[name] == b"" else row[name] for name in ("key", "value"))
        lines.append(
            json.dumps({name: (value.decode() if isinstance(value, bytes) else value) for name, value in row.items()})
        )
    return "\n".join(lines).encode()


def seeds():
    """Each form of input, by its name: how `produce` calls it, and a whole file."""
    plain = table(pa.binary(), pa.binary(), HEADERS)
    large = table(
        pa.large_string(), pa.large_binary(), pa.large_list(HEADERS.value_type), pa.timestamp("us", "Etc/UTC")
    )
    views = table(pa.binary_view(), pa.string_view(), VIEWED, pa.timestamp("ns"))
    dictionary = table(pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int16(), pa.binary()), HEADERS)
    indices = pa.array([row % 4 for row in range(60)], pa.int8())
    lists, times = plain["headers"].combine_chunks()[:4], plain["timestamp"].combine_chunks()[:4]
    encoded = plain.set_column(2, "headers", pa.DictionaryArray.from_arrays(indices, lists))
    encoded = encoded.set_column(3, "timestamp", pa.DictionaryArray.from_arrays(indices, times))
    fixed = plain.set_column(0, "key", pa.array([b"%04d" % row for row in range(60)], pa.binary(4)))
    return {
        "plain": ("arrow", arrow_file(plain)),
        "stream": ("arrow", arrow_stream(plain)),
        "large": ("arrow", arrow_file(large)),
        "views": ("arrow", arrow_file(views)),
        "stream of views": ("arrow", arrow_stream(views)),
        "dictionary": ("arrow", arrow_stream(dictionary)),
        "dictionaries of all": ("arrow", arrow_stream(encoded)),
        "fixed": ("arrow", arrow_file(fixed)),
        "compressed": ("arrow", arrow_file(large, compression="zstd")),
        "parquet": ("parquet", parquet_file(plain)),
        "plain parquet": (
            "parquet",
            parquet_file(plain, use_dictionary=False, compression="none", write_page_checksum=True),
        ),
        "json": ("json", json_lines(plain)),
    }


def mutated(content, chance):
    content = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 5])):
        at = chance.randrange(len(content))
        match chance.randrange(6):
            case 0:
                content[at] ^= 1 << chance.randrange(8)
            case 1:
                content[at] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
            case 2:
                number = chance.choice([-1, 1 << 31, -(1 << 31), 1 << 62, chance.getrandbits(30)])
                packed = struct.pack("<q", number)[: chance.choice([4, 8])]
                content[at : at + len(packed)] = packed
            case 3:
                content[at : at + 8] = bytes(8)
            case 4:
                del content[at : at + chance.choice([1, 8, 100])]
            case 5:
                content[at:at] = content[at : at + chance.choice([1, 8, 100])]
        if not content:
            return b""
    return bytes(content)


def run(directory, seed, count, seconds):
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    end = time.monotonic() + seconds
    wholes = seeds()
    accepted = 0
    path = f"{directory}/input"
    settings = {"message_timestamp_after_max_ms": (1 << 63) - 1}
    with bl.Producer(f"{directory}/log", "t", partitions=3, **settings) as producer:
        for number in range(seed, seed + count):
            if time.monotonic() > end:
                break
            chance = random.Random(number)
            form, whole = wholes[chance.choice(sorted(wholes))]
            with open(path, "wb") as file:
                file.write(mutated(whole, chance))
            try:
                for rows, _ in open_rows(path, form, "utf8"):
                    in_stream = pa.RecordBatchReader.from_batches(rows.schema, [rows])
                    producer.send(chance.choice([rows, in_stream]))
                    accepted += rows.num_rows
            except ValueError:
                pass
    assert producer.records == accepted, (producer.records, accepted)
    os.remove(path)
    return accepted


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1 << 60)
    parser.add_argument("--seconds", type=float, default=1e9)
    given = parser.parse_args()
    sys.stdout.write(f"{run(given.directory, given.seed, given.count, given.seconds)}\n")
