"""Rows of Parquet files come by their bytes: of large values few at a time, or they would not fit in memory."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from brokerless.cli.input import open_rows


def of_produce(path):
    return (rows for rows, _ in open_rows(str(path), "parquet", "utf8"))


def of_restore(path):
    pytest.importorskip("pyspark")
    from brokerless.spark.jobs import formats

    return formats.reading(str(path), "parquet")


def row(offset, value):
    return {"value": value, "offset": offset, "timestamp": 0, "timestampType": 0, "headers": [{"key": "h"}]}


@pytest.mark.parametrize("rows_of", [of_produce, of_restore])
def test_large_values_come_a_few_at_a_time(rows_of, tmp_path):
    small = [row(offset, b"%d" % offset) for offset in range(3000)]
    large = [row(offset, bytes([offset % 256]) * 100_000 + b"%d" % offset) for offset in range(3000, 3400)]
    schema = pa.schema(
        {
            "key": pa.binary(),
            "value": pa.binary(),
            "offset": pa.int64(),
            "timestamp": pa.timestamp("ms", "UTC"),
            "timestampType": pa.int32(),
            "headers": pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})),
            "leaderEpoch": pa.int32(),
            "timestampMillis": pa.int64(),
        }
    )
    with pq.ParquetWriter(tmp_path / "rows.parquet", schema, store_schema=False) as writer:
        for rows in (small, large):
            writer.write_table(pa.Table.from_pylist(rows, schema))
    found = list(rows_of(tmp_path / "rows.parquet"))
    assert [value.as_py() for rows in found for value in rows["value"]] == [row["value"] for row in small + large]
    assert max(rows.nbytes for rows in found) < 8 << 20
