"""A `Follower` of logs that producers write: where it goes, and the rows that it plans."""

import pyarrow as pa

import brokerless as bl
from brokerless.spark.source.options import Options
from brokerless.spark.source.records import SCHEMA, read
from brokerless.spark.stream.micro_batches import Follower


def send(path, count, topic="t", partitions=2, **producer):
    with bl.Producer(path, topic, partitions=partitions, **producer) as sending:
        sending.send([{"value": b"%d" % i, "partition": i % partitions} for i in range(count)])


def follower(path, **options):
    options = {name.replace("__", "."): value for name, value in options.items()}
    parsed = Options.parse({"path": str(path), **options})
    return Follower(parsed.for_stream(is_admission_controlled=True)), parsed


def values(follower, options, start, end):
    tasks, wanted = follower.plan(start, end), pa.schema([SCHEMA.field("value")])
    return [value for task in tasks for rows in read(task, options, wanted) for value in rows["value"].to_pylist()]
