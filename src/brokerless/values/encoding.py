"""The choice of forms in which keys and values are encoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from brokerless.arguments import unknown
from brokerless.values.forms import REGISTRY, Form, Forms, is_schema_id
from brokerless.wording import option

EncodeForm = Form | Literal["avro", "protobuf"]
"""The forms that are decoded, and "registry" for schemas of one type."""

Framing = Literal["prefix", "header"]
"""The places of a schema's id."""

_LATEST: Literal["latest"] = "latest"
_FRAMINGS = get_args(Framing)


@dataclass(frozen=True, kw_only=True)
class Encoding(Forms):
    """A choice of forms in which keys and values are encoded: the same as those in which they are decoded.

    A `Producer` takes this, or the same as a dict, or as text: `value=registry,key=utf8`.

    Args:
        value: the form of values; None: they are bytes.
        key: the form of keys; None: they are bytes.
        schemas: the schemas for "registry"; None: those in the topic `_schemas` of the log directory. "avro" and
            "protobuf" are "registry", too, and refuse a schema of another type.
        subject: the subject of the values; None: `<topic>-value`. Keys have `<topic>-key`.
        context: the context of the schemas; None: that of the subject, else the default context.
        schema: the schema of values: "latest", the newest version of the subject that is not deleted; or an id. Keys
            have the newest version of their subject.
        message: the full name of the values' message in a Protobuf schema, such as `shop.Order.Line`; None: the first
            message of the schema.
        framing: the place of the schema's id: "prefix", before the key or value; or "header", the GUID of the schema in
            the header `__key_schema_id` or `__value_schema_id`. An encoded key or value has no other header of this
            name: one that its row has is left out.

    Raises:
        ValueError: an unknown word, nothing is encoded, or a schema is given and not needed.
        TypeError: `schemas` is a path.

    >>> import brokerless as bl
    >>> encode = bl.Encoding(value="registry", schemas=bl.Schemas(REGISTRY_DIR), schema=28)
    >>> with bl.Producer(NEW_DIR, "copies", encode=encode) as producer:
    ...     producer.send([{"value": {"id": 7, "name": "seven", "tags": []}}])
    """

    value: EncodeForm | None = None
    key: EncodeForm | None = None
    schema: Literal["latest"] | int = _LATEST
    message: str | None = None
    framing: Framing = "prefix"

    verb = "encode"
    forms = (REGISTRY, "avro", "protobuf", *get_args(Form)[1:])
    framed = (REGISTRY, "avro", "protobuf")

    def __post_init__(self) -> None:
        super().__post_init__()
        is_id = is_schema_id(self.schema)
        if not is_id and self.schema != _LATEST:
            raise unknown("choice of a schema", str(self.schema), [_LATEST])
        if self.framing not in _FRAMINGS:
            raise unknown("framing", str(self.framing), _FRAMINGS)
        chosen = f"schema {self.schema}" if is_id else self.message and f"message {self.message}"
        if chosen and self.value not in self.framed:
            raise ValueError(f"the {chosen} is for values in the form {REGISTRY}: encode value={REGISTRY}")
        if self.framing != "prefix" and not self.is_framed:
            raise ValueError(
                f"{option('framing')} is for the schemas of a registry: {option('encode')} names no registry, as in "
                f"value={REGISTRY}"
            )
