"""A job that reads Kafka, as people have them: `connector_job.py FORMAT QUERIES`, and all rows as JSON lines.

QUERIES is a JSON list of the options of each query, and of a stream if they have "stream". Nothing here knows where the
rows come from.
"""

import base64
import json
import sys

from job_session import check_place, session


def as_json(value):
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, list):
        return [[header["key"], as_json(header["value"])] for header in value]
    return str(value) if hasattr(value, "isoformat") else value


def stream(spark, source, options, name):
    """Return what a stream finds up to now."""
    rows = spark.readStream.format(source).options(**options).load()
    rows.writeStream.format("memory").queryName(name).trigger(availableNow=True).start().awaitTermination()
    return spark.table(name)


def main():
    source, queries = sys.argv[1], json.loads(sys.argv[2])
    spark = session("connector")
    for number, options in enumerate(queries):
        if options.pop("stream", None):
            rows = stream(spark, source, options, f"found{number}")
        else:
            rows = spark.read.format(source).options(**options).load()
            check_place(rows, source)
        found = [[as_json(value) for value in row] for row in rows.orderBy("topic", "partition", "offset").collect()]
        sys.stdout.write(json.dumps({"schema": json.loads(rows.schema.json()), "rows": found}) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
