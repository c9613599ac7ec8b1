"""The choice of forms in which keys and values are decoded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self, get_args

from brokerless.arguments import unknown
from brokerless.values.forms import Form, Forms, is_schema_id
from brokerless.wording import option

OnDecodeError = Literal["null", "raise", "skip"]
SchemaChoice = Literal["writer", "latest", "union"]
"""The schemas whose types decoded keys and values have."""

_ON_ERROR = get_args(OnDecodeError)
_CHOICES = get_args(SchemaChoice)


@dataclass(frozen=True, kw_only=True)
class Decoding(Forms):
    """A choice of forms in which keys and values are decoded.

    Reads take this, or the same as a dict, or as text: `value=registry,key=utf8`.

    Args:
        value: the form of values; None: bytes.
        key: the form of keys; None: bytes.
        schemas: the schemas for "registry"; None: those in the topic `_schemas` beside the log.
        subject: the subject of the values, where the topic's name does not lead to it; None: `<topic>-value`. It names
            the context and the version of a schema that several subjects have.
        context: the context of the schemas; None: that of the subject, else the default context.
        schema: the types of "registry". "writer": JSON text, each by the schema that it was written with. "latest": the
            types of the newest version of the subject that is not deleted, to which Avro's rules resolve all others.
            "union": the fields of all versions. An id: the types of this schema. Open objects of a JSON Schema stay
            JSON text. None: "latest", and "writer" where the topics have no one subject `<topic>-value` with a record,
            a message or a closed object.
        message: the full name of a message of a Protobuf schema, such as `shop.Order.Line`, whose type the values have:
            by the schema "latest", if none is chosen. None: the first message of the schema.
        on_error: for a key or value that does not decode: "null" keeps its bytes and the error in columns of their own,
            "raise" ends the read after the rows before it, "skip" leaves the row out. A note counts them.

    Raises:
        ValueError: an unknown word, or nothing is decoded.
        TypeError: `schemas` is a path.

    >>> import brokerless as bl
    >>> rows = bl.Log(f"{REGISTRY_DIR}/orders-0").read(decode={"key": "registry"}, columns=["offset", "key"], limit=2)
    >>> rows.read_all().to_pylist()
    [{'offset': 0, 'key': '112704799678'}, {'offset': 1, 'key': '113291891301'}]
    """

    value: Form | None = None
    key: Form | None = None
    schema: SchemaChoice | int | None = None
    on_error: OnDecodeError = "null"

    verb = "decode"
    forms = get_args(Form)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.schema is not None and not is_schema_id(self.schema) and self.schema not in _CHOICES:
            raise unknown("choice of schemas", str(self.schema), _CHOICES)
        if self.on_error not in _ON_ERROR:
            raise unknown("on_error", self.on_error, _ON_ERROR)
        if self.schema is not None and not self.is_framed:
            raise ValueError(
                f"{option('schema')} chooses among the schemas of a registry: {option('decode')} names no registry, as "
                "in value=registry"
            )
        if self.message is not None and self.schema == "writer":
            raise ValueError(
                f"{option('message')} chooses the type of columns, and with the {option('schema')} 'writer' they are "
                "JSON text: choose 'latest', 'union' or an id"
            )

    def as_text(self) -> Self:
        """Return this with "writer" as the choice of schemas, if there is a choice and none was made."""
        is_open = self.is_framed and self.schema is None and self.message is None
        return replace(self, schema="writer") if is_open else self
