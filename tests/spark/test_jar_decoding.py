"""The JVM decodes values of random schemas as `Log.read` does: rows and errors. `make hunt` tries many more."""

import base64
import json
import os
import random as randoms

import pyarrow as pa
import pytest
from needing_jar import jar_or_skip

import brokerless as bl
from brokerless.notes import collected
from brokerless.spark.source.spark_types import spark_rows, spark_type
from brokerless.values.decoding import Decoding
from support import avro_schemas, typed
from support.tally import tally

protobuf_schemas = pytest.importorskip("support.protobuf_schemas", exc_type=ImportError)
jar_or_skip()

TOPICS = 6
"""The topics of a case: each has two versions of a random schema."""
CASES = max(3, int(os.environ.get("BROKERLESS_HUNT", "0")) // 10 // TOPICS)
FIRST = int(os.environ["BROKERLESS_HUNT_FROM"]) if "BROKERLESS_HUNT" in os.environ else 0
COLUMNS = (
    *("topic", "offset", "value", "valueBytes", "decodeError"),
    *("valueFraming", "valueSchemaId", "valueSubject", "valueVersion"),
)
ID_HEADER = "__value_schema_id"


class Case:
    """Topics with values of random schemas, and the schemas."""

    def __init__(self, seed, path):
        self.random, self.path, self.ids = randoms.Random(seed), path, 0
        drawn = {f"t{number}": (_avro, _protobuf)[number % 2](self.random) for number in range(TOPICS)}
        registered = {topic: [self._register(topic, one) for one in versions] for topic, versions in drawn.items()}
        self.schemas = bl.Schemas(path)
        for topic, versions in drawn.items():
            ids = registered[topic]
            rows = [
                self._row(ids[at], indexes, body)
                for at, (*_, indexes, bodies) in enumerate(versions)
                for body in bodies
            ]
            rows += [{"value": None}, {"value": b"no frame"}, self._row(999, b"", b"x")]
            self.random.shuffle(rows)
            with bl.Producer(path, topic, partitions=1) as producer:
                producer.send(rows)
            tally("value", "in the JVM", len(rows))

    @property
    def topics(self):
        return [f"t{number}" for number in range(TOPICS)]

    def _register(self, topic, version):
        self.ids += 1
        schema_type, text, *_ = version
        subject, number = f"{topic}-value", 1 + (self.ids - 1) % 2
        key = {"keytype": "SCHEMA", "subject": subject, "version": number, "magic": 1}
        value = {"subject": subject, "version": number, "id": self.ids, "schemaType": schema_type, "schema": text}
        with bl.Producer(self.path, "_schemas", partitions=1) as producer:
            producer.send([{"key": json.dumps(key).encode(), "value": json.dumps(value).encode()}])
        return self.ids

    def _row(self, schema_id, indexes, body):
        """Return a row whose schema is named before its value or in a header, in either form."""
        name = b"\0" + schema_id.to_bytes(4)
        if schema_id < 999 and self.random.random() < 0.5:
            name = b"\1" + bytes.fromhex(self.schemas.schema(schema_id).guid.replace("-", ""))
        if self.random.random() < 0.5:
            return {"value": name + indexes + body}
        other = self.random.choice([b"", b"\0", b"\0\0\0\0\1", None, name])
        before = [(ID_HEADER, other), ("h", b"x")] if self.random.random() < 0.3 else []
        return {"value": body, "headers": [*before, (ID_HEADER, name + indexes)]}

    def frame(self, spark, topics, schema):
        """Return the rows of topics, decoded in the JVM."""
        options = {"subscribe": ",".join(topics), "decode": "value=registry", "schema": schema}
        return spark.read.format("brokerless").options(columns=",".join(COLUMNS), **options).load(str(self.path))

    def difference(self, spark, topics, schema):
        """Return what differs between the JVM and `Log.read`; None: nothing."""
        decode = Decoding(value="registry", schema=schema)
        with collected():
            expected = bl.LogDirs(self.path).to_table(topics, decode=decode, columns=COLUMNS)
        kinds = pa.schema([pa.field(field.name, spark_type(field.type)) for field in expected.schema])
        expected = rows_of(pa.Table.from_batches([spark_rows(one, kinds) for one in expected.to_batches()], kinds))
        found = rows_of(_without_void(self.frame(spark, topics, schema)).toArrow())
        assert len(found) == len(expected) > 5 * len(topics)
        for row, other in zip(found, expected, strict=True):
            # Unlike values of Python, their text tells 0.0 from -0.0, and NaN is NaN.
            if repr(row) != repr(other):
                return f"{topics}, {schema}:\n  {row!s:.2000}\n  {other!s:.2000}"
        return None


def _without_void(frame):
    """Return rows whose nulls are integers: within lists and maps, Spark gives Arrow a wrong number of nulls."""
    kind = frame.schema["value"].dataType.simpleString()
    return frame.withColumn("value", frame["value"].cast(kind.replace("void", "int")))


def rows_of(table):
    """Return the rows of a table, in order."""
    (batch,) = table.combine_chunks().to_batches()
    columns = [typed.plain(column) for column in batch.columns]
    rows = (dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True))
    return sorted(rows, key=lambda row: (row["topic"], row["offset"]))


def _avro(random):
    """Return two versions: the type, the text, the message indexes and bodies, some of which are damaged."""
    schema, values = avro_schemas.schema_of(random)
    versions = []
    for one in (schema, avro_schemas.Reader(schema, random)):
        rows = [avro_schemas.random_value(one, one.root, values) for _ in range(4)]
        bodies = avro_schemas.stored_bodies(one, [avro_schemas.encoded(one, one.root, row, values) for row in rows])
        versions.append(("AVRO", one.text(), b"", _with_damage(bodies, values)))
    return versions


def _protobuf(random):
    proto, values = protobuf_schemas.proto_of(random)
    versions = []
    for one in (proto, protobuf_schemas.Reader(proto, random)):
        kind, _ = one.compiled()
        bodies = [protobuf_schemas.other_form(protobuf_schemas.filled(kind, values), values) for _ in range(4)]
        descriptor = base64.b64encode(one.file.SerializeToString()).decode()
        versions.append(("PROTOBUF", random.choice([one.text(), descriptor]), b"\0", _with_damage(bodies, values)))
    return versions


def _with_damage(bodies, random):
    return [*bodies, *(typed.mutated(body, random) for body in bodies for _ in range(2))]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(FIRST, FIRST + CASES))
def test_values_of_random_schemas_are_decoded_as_in_other_reads(spark, tmp_path, seed):
    case = Case(seed, tmp_path / "data")
    frame = case.frame(spark, case.topics, "writer")
    assert "ColumnarToRow" in frame._jdf.queryExecution().executedPlan().toString()
    found = [case.difference(spark, case.topics, "writer")]
    found += [case.difference(spark, [topic], "latest") for topic in case.topics]
    differences = [one for one in found if one is not None]
    assert not differences, "\n\n".join(differences)
