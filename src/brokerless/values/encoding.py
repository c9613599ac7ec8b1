"""The choice of forms in which keys and values are encoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from brokerless.arguments import unknown
from brokerless.values.forms import REGISTRY, SCHEMA_TYPES, Form, Forms, is_schema_id
from brokerless.wording import option

EncodeForm = Form | Literal["avro", "protobuf", "json-schema"]
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
        schemas: the schemas for "registry"; None: those in the topic `_schemas` of the log directory. "avro",
            "protobuf" and "json-schema" are "registry", too, and refuse a schema of another type.
        subject: the subject of the values; None: `<topic>-value`. Keys have `<topic>-key`.
        context: the context of the schemas; None: that of the subject, else the default context.
        schema: the schema of values: "latest", the newest version of the subject that is not deleted; or an id. Keys
            have the newest version of their subject.
        message: the full name of the values' message in a Protobuf schema, such as `shop.Order.Line`; None: the first
            message of the schema.
        framing: the place of the schema's id: "prefix", before the key or value; or "header", the GUID of the schema in
            the header `__key_schema_id` or `__value_schema_id`. An encoded key or value has no other header of this
            name: one that its row has is left out.
        register: the text of a schema for the values, which has the type that their form names. The producer adds it to
            the topic `_schemas` of the log directory, as the next version of the subject, and makes this topic if it is
            missing. If a version in use has the schema, it writes none. The schema may import only the files that
            Protobuf has itself.

    Raises:
        ValueError: an unknown word, nothing is encoded, or a schema is given and not needed.
        TypeError: `schemas` is a path.

    >>> import brokerless as bl
    >>> order = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
    >>> with bl.Producer(NEW_DIR, "orders", encode=bl.Encoding(value="avro", register=order)) as producer:
    ...     producer.send([{"value": {"id": 7}}])
    >>> encode = bl.Encoding(value="registry", schemas=bl.Schemas(REGISTRY_DIR), schema=28)
    >>> with bl.Producer(NEW_DIR, "copies", encode=encode) as producer:
    ...     producer.send([{"value": {"id": 7, "name": "seven", "tags": []}}])
    """

    value: EncodeForm | None = None
    key: EncodeForm | None = None
    schema: Literal["latest"] | int = _LATEST
    framing: Framing = "prefix"
    register: str | None = None

    verb = "encode"
    forms = (REGISTRY, *SCHEMA_TYPES, *get_args(Form)[1:])
    framed = (REGISTRY, *SCHEMA_TYPES)

    def __post_init__(self) -> None:
        super().__post_init__()
        is_id = is_schema_id(self.schema)
        if not is_id and self.schema != _LATEST:
            raise unknown("choice of a schema", str(self.schema), [_LATEST])
        if self.framing not in _FRAMINGS:
            raise unknown("framing", str(self.framing), _FRAMINGS)
        if is_id and self.value not in self.framed:
            raise ValueError(f"the schema {self.schema} is for values in the form {REGISTRY}: encode value={REGISTRY}")
        if self.register is not None and (self.value not in SCHEMA_TYPES or is_id or self.schemas is not None):
            raise ValueError(
                f"{option('register')} adds a schema of the values to the log directory, in which all others are, too: "
                f"encode value={', '.join(SCHEMA_TYPES)}, without {option('schema')} and {option('schemas')}"
            )
        if self.framing != "prefix" and not self.is_framed:
            raise ValueError(
                f"{option('framing')} is for the schemas of a registry: {option('encode')} names no registry, as in "
                f"value={REGISTRY}"
            )
