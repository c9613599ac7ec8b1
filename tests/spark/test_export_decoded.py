"""Exports of decoded values: Spark reads them as its source gives them."""

import json

import pytest

from brokerless.notes import collected
from brokerless.spark import export

OPTIONS = {"decode": "value=registry,key=registry"}


@pytest.mark.parametrize("topic", ["avro-types", "proto-purchase", "json-orders", "events-union"])
def test_spark_reads_the_rows_and_types_of_the_source(registries, spark, load, tmp_path, topic):
    path = str(registries / "confluent/logs")
    with collected():
        export(spark, path, tmp_path / "e", topics=[topic], options=OPTIONS)
    source = load(path, subscribe=topic, **OPTIONS)
    names = [name for name in source.columns if name not in ("topic", "partition")]
    assert {"keyBytes", "keyDecodeError", "value", "valueBytes", "decodeError"} <= {*names}
    for vectorized in ("true", "false"):
        spark.conf.set("spark.sql.parquet.enableVectorizedReader", vectorized)
        try:
            found = spark.read.parquet(str(tmp_path / "e"))
            assert found.select(*names).dtypes == source.select(*names).dtypes
            columns = ["partition", *names]
            rows = [sorted(map(repr, frame.select(*columns).collect())) for frame in (found, source)]
            assert rows[0] == rows[1]
        finally:
            spark.conf.unset("spark.sql.parquet.enableVectorizedReader")


def test_the_command(run, registries, tmp_path):
    arguments = ["export", registries / "confluent/logs", "--output", tmp_path / "e", "--topic", "json-orders"]
    arguments += ["--format", "json", "--columns", "key,value"]
    decode = ["--decode", "value=registry,key=utf8", "--schemas", registries / "confluent/logs", "--schema", "28"]
    code, _, err = run(*arguments, *decode)
    assert code == 0
    assert "30 records in 1 file" in err
    rows = [json.loads(line) for file in tmp_path.glob("e/*/*/*.json") for line in file.read_text().splitlines()]
    assert {"offset": 0, "key": "0", "value": {"id": 0, "name": "buiuw", "tags": ["q"]}} in rows
    for others, message in (
        ([], "has another export"),
        ([*decode[:-1], "29"], "has another export"),
        (["--schema", "28"], "need --decode"),
        (["--decode", "value=registry", "--message", "M", "--schema", "writer"], "--message chooses the type"),
    ):
        code, _, err = run(*arguments, *others)
        assert code == 2
        assert message in " ".join(err.split())
    code, _, err = run("restore", tmp_path / "e", "--output", tmp_path / "r")
    assert code == 2
    assert "has decoded keys and values, not the stored bytes" in " ".join(err.split())
