"""Decoded keys and values in a read of Spark: the types of their columns, and the schemas that travel to the tasks.

The types are those of the moment when the source is loaded, with the schemas that are known then. Spark creates the
tasks' reader before it plans, so each plan reads the schemas again, and its tasks carry those that are new. A registry
stores a schema before a client uses it: the schemas are read after the plan has found the ends of the logs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self, cast

import pyarrow as pa

from brokerless import _native
from brokerless.log_dir.log_dirs import LogDirs
from brokerless.spark.source.spark_types import spark_type
from brokerless.spark.source.tasks import select_logs
from brokerless.state.schemas import Schemas
from brokerless.values.row_decoder import RowDecoder, decoded_columns

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from brokerless.schemas.schema import SchemaVersion
    from brokerless.schemas.store import SchemaStore
    from brokerless.spark.source.options import Options
    from brokerless.values.decoding import Decoding
    from brokerless.values.resolution import Target


@dataclass(frozen=True)
class Decoded:
    """What a read decodes, and into which types.

    Attributes:
        decoding: the forms of keys and values, with the schemas that were known when the source was loaded.
        targets: the schemas whose types keys and values have.
        schema: all columns, in Spark's types.
    """

    decoding: Decoding
    targets: Mapping[str, Target]
    schema: pa.Schema

    @classmethod
    def of(cls, options: Options) -> Self | None:
        """Read the schemas, and return what the options decode; None if they decode nothing.

        Raises:
            ValueError: there are no schemas, or they do not lead to one type.
        """
        if options.decode is None:
            return None
        decoding = _with_schemas(options.decode, options)
        topics = set() if decoding.schemas is None else _topics(options)
        decoder = RowDecoder(decoding, [*_native.ROW_COLUMNS, *decoded_columns(decoding)], topics)
        stored = _native.row_schema([name for name in _native.ROW_COLUMNS if name not in decoding.parts], spark=True)
        schema = pa.schema(
            [
                stored.field(field.name) if field.name in stored.names else pa.field(field.name, spark_type(field.type))
                for field in decoder.schema
            ]
        )
        return cls(decoding, decoder.targets, schema)

    def new_versions(self, options: Options) -> tuple[SchemaVersion, ...]:
        """Read the schemas again, and return what was not known when the source was loaded."""
        if self.decoding.schemas is None:
            return ()
        now = _with_schemas(replace(self.decoding, schemas=None), options)
        return tuple(self.decoding.schemas.news_of(cast("SchemaStore", now.schemas)))

    def decoder(self, columns: Sequence[str], new_versions: Sequence[SchemaVersion]) -> RowDecoder:
        """Return a decoder into these columns, in Arrow's types, which also knows new schemas."""
        decoding = self.decoding
        if decoding.schemas is not None and new_versions:
            decoding = replace(decoding, schemas=decoding.schemas.with_versions(new_versions))
        return RowDecoder(decoding, columns, targets=self.targets)


def _with_schemas(decode: Decoding, options: Options) -> Decoding:
    if options.schemas is None:
        return LogDirs(*options.paths).with_schemas(decode)
    paths = options.schemas
    return decode.with_schemas(lambda: Schemas(*paths))


def _topics(options: Options) -> Collection[str | None]:
    """Return the topics of a read: those that the options name, though they may not exist yet."""
    if options.topics is not None:
        return set(options.topics)
    if options.assigned is not None:
        return {topic for topic, _ in options.assigned}
    return {log.topic for log in select_logs(options)}
