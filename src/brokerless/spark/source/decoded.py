"""Decoded keys and values in a read of Spark: the types of their columns, and the schemas that travel to the tasks.

The types are those of the moment when the source is loaded, with the schemas that are known then. Spark creates the
tasks' reader before it plans, so each plan reads the schemas again, and its tasks carry those that are new. A registry
stores a schema before a client uses it: the schemas are read after the plan has found the ends of the logs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from brokerless import _native
from brokerless.log_dir.log_dirs import LogDirs
from brokerless.schemas.store import changed, changes
from brokerless.spark.source.jvm_decoding import decoding_in_json
from brokerless.spark.source.spark_types import spark_type
from brokerless.state.schemas import Schemas
from brokerless.values.row_decoder import RowDecoder, decoded_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from brokerless.schemas.schema import SchemaVersion
    from brokerless.values.decoding import Decoding
    from brokerless.values.resolution import Target


@dataclass(frozen=True)
class Decode:
    """The choice of forms in which a read decodes, and the places of the schemas.

    Attributes:
        decoding: the forms of keys and values, without schemas.
        paths: the paths of the read.
        schemas: the paths of the schemas; None: those of the read.
    """

    decoding: Decoding
    paths: tuple[str, ...]
    schemas: tuple[str, ...] | None

    def with_schemas(self) -> Decoding:
        """Read the schemas, if they are needed.

        Raises:
            ValueError: there are none.
        """
        schemas = self.schemas
        if schemas is None:
            return LogDirs(*self.paths).with_schemas(self.decoding)
        return self.decoding.with_schemas(lambda: Schemas(*schemas))


@dataclass(frozen=True)
class Decoded:
    """Keys and values that a read decodes, and their types.

    Attributes:
        chosen: the choice of the user.
        decoding: the same, with the schemas that were known when the source was loaded.
        targets: the schemas whose types keys and values have.
        schema: all columns, in Spark's types.
    """

    chosen: Decode
    decoding: Decoding
    targets: Mapping[str, Target]
    schema: pa.Schema

    @classmethod
    def of(cls, chosen: Decode, topics: Callable[[], Collection[str | None]]) -> Self:
        """Read the schemas, and determine the types.

        Args:
            chosen: the choice of the user.
            topics: returns the topics of the read.

        Raises:
            ValueError: there are no schemas, or they do not lead to one type.
        """
        decoding = chosen.with_schemas()
        columns = [*_native.ROW_COLUMNS, *decoded_columns(decoding)]
        decoder = RowDecoder(decoding, columns, () if decoding.schemas is None else topics())
        stored = _native.row_schema([name for name in _native.ROW_COLUMNS if name not in decoding.parts], spark=True)
        fields = [
            stored.field(field.name) if field.name in stored.names else pa.field(field.name, spark_type(field.type))
            for field in decoder.schema
        ]
        return cls(chosen, decoding, decoder.targets, pa.schema(fields))

    @property
    def made(self) -> pa.Schema:
        """The columns that decoding makes, in Spark's types."""
        return pa.schema([self.schema.field(name) for name in (*self.decoding.parts, *decoded_columns(self.decoding))])

    def changes(self) -> tuple[SchemaVersion, ...]:
        """Read the schemas again, and return what has changed since the source was loaded."""
        now = self.chosen.with_schemas().schemas
        return () if self.decoding.schemas is None or now is None else tuple(changes(self.decoding.schemas, now))

    def for_jvm(self, topics: Collection[str | None]) -> bytes:
        """Return what tasks in the JVM need to decode the rows of topics, with the schemas of now, as JSON.

        The reader in the JVM parses it (`rust/jvm/src/decoding.rs`).
        """
        return decoding_in_json(self.chosen.with_schemas(), self.targets, topics)

    def decoder(self, columns: Sequence[str], changes: Sequence[SchemaVersion] = ()) -> RowDecoder:
        """Return a decoder into these columns, in Arrow's types, with the schemas that have changed."""
        decoding = self.decoding
        if decoding.schemas is not None and changes:
            decoding = replace(decoding, schemas=changed(decoding.schemas, changes))
        return RowDecoder(decoding, columns, targets=self.targets)
