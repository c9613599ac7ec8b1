"""Writes of Spark to one log directory: `writing_job.py LOG_DIR SCRATCH`. A batch a topic, and what a stream copies."""

import sys

from job_session import check_place, session

ROWS = 3000
HEADERS = "array(struct('h' as key, X'31' as value), struct('h' as key, cast(null as binary) as value))"
BATCHES = {
    "plain": {},
    "gzip": {"compression": "gzip"},
    "snappy": {"compression": "snappy"},
    "lz4": {"compression": "lz4"},
    "zstd": {"compression": "zstd", "batchSize": "1000"},
    "idempotent": {"idempotent": "true"},
    "transactional": {"transactional": "true", "compression": "lz4"},
}


def main():
    log_dir, scratch = sys.argv[1:]
    spark = session("connector")
    rows = spark.range(0, ROWS, 1, 3).selectExpr(
        "if(id % 5 = 0, null, cast(concat('key-', id % 7) as binary)) as key",
        "if(id % 11 = 10, null, cast(repeat(cast(id as string), int(id % 40)) as binary)) as value",
        f"if(id % 3 = 0, {HEADERS}, null) as headers",
        "timestamp_millis(1700000000000 + id) as timestamp",
    )
    for topic, options in BATCHES.items():
        writer = rows.write.format("brokerless").mode("append").option("topic", topic).option("partitions", 2)
        writer.options(**options).save(log_dir)
        # A second write appends: the rows of the first one stay.
        writer.save(log_dir)
    arriving = spark.readStream.format("brokerless").option("subscribe", "zstd").option("includeHeaders", "true")
    arriving = arriving.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 2500).load(log_dir)
    copied = arriving.select("key", "value", "headers", "timestamp").writeStream.format("brokerless")
    copied = copied.option("topic", "streamed").option("path", log_dir).option("checkpointLocation", scratch)
    copied.trigger(availableNow=True).start().awaitTermination()
    # If the library is there for reads, it is there for writes.
    check_place(spark.read.format("brokerless").load(log_dir))
    spark.stop()


if __name__ == "__main__":
    main()
