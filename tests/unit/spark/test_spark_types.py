"""Columns in Spark's types keep each value, or are null."""

from decimal import Decimal

import pyarrow as pa
import pytest

from brokerless.spark.source.spark_types import spark_column, spark_type

EDGE = 1 << 63
LARGE = Decimal("1" * 40 + "." + "2" * 10)


@pytest.mark.parametrize(
    ("kind", "values", "in_spark", "expected"),
    [
        (pa.uint32(), [0, (1 << 32) - 1], pa.int64(), None),
        (pa.uint64(), [0, (1 << 64) - 1], pa.decimal128(20, 0), None),
        (pa.time32("ms"), [1], pa.int32(), None),
        (pa.time64("us"), [1], pa.int64(), None),
        (pa.timestamp("ns", "UTC"), [-EDGE, EDGE - 1], pa.int64(), None),
        (pa.timestamp("ns"), [1], pa.int64(), None),
        (pa.timestamp("us"), [-EDGE, EDGE - 1], pa.timestamp("us"), None),
        (pa.timestamp("ms", "UTC"), [-EDGE, -1, EDGE - 1], pa.timestamp("us", "UTC"), [None, -1000, None]),
        (pa.decimal256(50, 10), [LARGE, Decimal("1E-10")], pa.string(), [str(LARGE), "0.0000000001"]),
    ],
)
def test_no_value_changes(kind, values, in_spark, expected):
    array = pa.array([*values, None], pa.int64() if pa.types.is_timestamp(kind) else kind).cast(kind)
    for column, place in (
        (array, lambda one: one),
        (pa.StructArray.from_arrays([array], ["f"]), lambda one: pa.struct([("f", one)])),
        (pa.ListArray.from_arrays([0, 1, len(array)], array), pa.list_),
        (pa.MapArray.from_arrays([0, len(array)], list(map(str, range(len(array)))), array), None),
    ):
        wanted = pa.map_(pa.string(), in_spark) if place is None else place(in_spark)
        assert spark_type(column.type) == wanted
        found = spark_column(column, wanted)
        found.validate(full=True)
        leaves = found
        while pa.types.is_nested(leaves.type):
            leaves = leaves.items if pa.types.is_map(leaves.type) else leaves.flatten()
            leaves = leaves[0] if isinstance(leaves, list) else leaves
        plain = leaves.cast(pa.int64()) if pa.types.is_temporal(in_spark) else leaves
        assert plain.to_pylist() == [*(values if expected is None else expected), None]


def test_what_is_null_stays_null():
    kind = pa.struct([("a", pa.list_(pa.uint32())), ("b", pa.map_(pa.string(), pa.uint64())), ("c", pa.struct([]))])
    rows = [None, {"a": None, "b": None, "c": None}, {"a": [1, None], "b": [("x", None)], "c": {}}]
    found = spark_column(pa.array(rows, kind), spark_type(kind))
    assert found.to_pylist() == rows
    for start, stop in ((0, 2), (1, 3), (1, 2), (2, 3), (3, 3)):
        part = pa.array(rows, kind).slice(start, stop - start)
        for one, wanted in ((part, rows[start:stop]), *((part.field(at), None) for at in range(3))):
            made = spark_column(one, spark_type(one.type))
            made.validate(full=True)
            assert made.to_pylist() == (one.to_pylist() if wanted is None else wanted)
