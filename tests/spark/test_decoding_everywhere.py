"""One topic of framed values, decoded in each way to read it: the same values and errors."""

import json
import struct

import pyarrow.parquet as pq
import pytest

import brokerless as bl
from brokerless.cli import main
from brokerless.notes import collected
from brokerless.spark import export

SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
ROWS = [({"id": 1}, None), ({"id": -2}, None), (None, "the body ends"), (None, None)]
"""The value and the beginning of the error of each row."""
DECODE = ("--decode", "value=registry", "--columns", "offset,value,decodeError")


@pytest.fixture
def orders(tmp_path):
    """A log directory with a schema, and values that name it in both places; the third one is cut."""
    path = tmp_path / "data"
    key = {"keytype": "SCHEMA", "subject": "orders-value", "version": 1, "magic": 1}
    value = {"subject": "orders-value", "version": 1, "id": 7, "schema": json.dumps(SCHEMA)}
    with bl.Producer(path, "_schemas", partitions=1) as producer:
        producer.send([{"key": json.dumps(key).encode(), "value": json.dumps(value).encode()}])
    name = struct.pack(">bi", 0, 7)
    with bl.Producer(path, "orders", partitions=1) as producer:
        header = {"value": b"\x03", "headers": [("__value_schema_id", name)]}
        producer.send([{"value": name + b"\x02"}, header, {"value": name}, {"value": None}])
    return path


@pytest.fixture
def shown(capfd):
    """Return a function that runs a verb and returns its lines of JSON."""

    def shown(*arguments):
        capfd.readouterr()
        with pytest.raises(SystemExit) as exited:
            main([*map(str, arguments)])
        assert not exited.value.code
        return [json.loads(line) for line in capfd.readouterr().out.splitlines()]

    return shown


def check(rows):
    """Check values and errors, in the order of offsets."""
    for (value, error), (wanted, beginning) in zip(rows, ROWS, strict=True):
        assert value == wanted
        assert (error is None) == (beginning is None)
        assert (error or "").startswith(beginning or "")


def of_arrow(table):
    rows = table.sort_by("offset").to_pylist()
    check([(row["value"], row["decodeError"]) for row in rows])


def test_a_topic_is_decoded_in_each_way(orders, spark, tmp_path, shown):
    with collected():
        of_arrow(bl.LogDirs(orders).to_table(["orders"], decode="value=registry"))
        of_arrow(
            bl.Log(orders / "orders-0").read(decode={"value": "registry", "schemas": bl.Schemas(orders)}).read_all()
        )
    read = ("read", orders, "--topic", "orders", *DECODE)
    check([(row["value"], row["decodeError"]) for row in shown(*read)])
    shown(*read, "--output", tmp_path / "orders.parquet")
    of_arrow(pq.read_table(tmp_path / "orders.parquet"))
    file = next((orders / "orders-0").glob("*.log"))
    for options in (("--records",), ()):
        (batch,) = shown("dump", file, "--json", "--decode", "value=registry", *options)
        check([(row.get("value"), row.get("decode_error")) for row in batch["records"]])
    options = {"subscribe": "orders", "decode": "value=registry", "columns": "offset,value,decodeError"}
    rows = spark.read.format("brokerless").options(**options).load(str(orders))
    of_arrow(rows.toArrow())
    rows.write.parquet(str(tmp_path / "table"))
    of_arrow(spark.read.parquet(str(tmp_path / "table")).toArrow())
    with collected():
        export(spark, orders, tmp_path / "e", topics=["orders"], options=options)
    of_arrow(spark.read.parquet(str(tmp_path / "e")).toArrow())
    stream = spark.readStream.format("brokerless").options(startingOffsets="earliest", **options).load(str(orders))
    query = stream.writeStream.format("memory").queryName("decoded").start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    of_arrow(spark.table("decoded").toArrow())
