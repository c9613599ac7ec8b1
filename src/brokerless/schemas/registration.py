"""A new schema of a subject, as a registry adds it to its topic."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from brokerless.schemas.schema import DEFAULT_CONTEXT, Schema, SchemaVersion, context_of, in_utf8, value_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerless.schemas.store import SchemaStore

_COMMENT = re.compile(r"""("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|//[^\n]*|/\*.*?\*/""", re.DOTALL)
_IMPORT = re.compile(r"""\bimport\s+(?:(?:public|weak)\s+)?["']([^"']*)["']\s*;""")
# Files and schemas that the clients of a registry have themselves.
_KNOWN_FILES = ("google/protobuf/", "google/type/", "confluent/")
_KNOWN_URIS = ("http://json-schema.org/", "https://json-schema.org/")


def registered(store: SchemaStore, subject: str, schema_type: str, text: str) -> SchemaVersion:
    """Return the newest version in use of a subject that has a schema. If none has it, return the next version.

    The next version has the id that the schema has in the context already, else the next id.

    Raises:
        ValueError: the next version cannot have the schema: it is no JSON, or it refers to another schema.

    >>> import brokerless as bl
    >>> registered(bl.Schemas(REGISTRY_DIR), "orders-key", "AVRO", ' "long"')[:2]
    ('orders-key', 1)
    >>> added = registered(bl.Schemas(REGISTRY_DIR), "orders-key", "AVRO", '{"type": "fixed", "name": "F", "size": 5}')
    >>> added.version, added.schema.text
    (2, '{"type":"fixed","name":"F","size":5}')
    """
    schema = Schema(0, context_of(subject), schema_type, text if schema_type == "PROTOBUF" else _without_spaces(text))
    wanted = _comparable(schema)
    # After a hard delete, the registry counts as if the version had never been.
    own = [version for version in store.versions if version.subject == subject and version.deleted != "hard"]
    in_use = [version for version in own if version.deleted is None and _comparable(version.schema) == wanted]
    if in_use:
        return max(in_use, key=lambda version: version.version)
    _check_alone(schema)
    of_context = [version for version in store.versions if version.schema.context == schema.context]
    same = (version.schema for version in of_context if version.deleted != "hard" and _is_whole(version.schema, schema))
    next_id = max((version.schema.id for version in of_context), default=0) + 1
    found = next(same, replace(schema, id=next_id))
    return SchemaVersion(subject, max((version.version for version in own), default=0) + 1, found)


def records_of(store: SchemaStore, version: SchemaVersion) -> list[dict[str, bytes]]:
    """Return the keys and values of the records with which a registry adds a version to its topic."""
    context = version.schema.context
    value = value_of(version._replace(schema=replace(version.schema, stored_guid=None)))
    key = {"keytype": "SCHEMA", "subject": version.subject, "version": version.version, "magic": 1}
    records = [(key, value | {"deleted": False})]
    if context not in (DEFAULT_CONTEXT, *store.contexts):
        named = {"tenant": "default", "context": context}
        records.insert(0, ({"keytype": "CONTEXT", **named, "magic": 0}, cast("dict[str, Any]", named)))
    return [{"key": _compact(key).encode(), "value": _compact(value).encode()} for key, value in records]


def _without_spaces(text: str) -> str:
    """Return the text in which a registry stores JSON."""
    try:
        return in_utf8(_compact(json.loads(text)))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the schema is no JSON: {error}") from error


def _comparable(schema: Schema) -> tuple[str, str]:
    """Return the type and the text of a schema, without what has no meaning: spaces at ends, the order of members."""
    text = "\n".join(line.rstrip() for line in schema.text.strip().splitlines())
    if schema.schema_type != "PROTOBUF":
        # Others may have written what is no JSON.
        with suppress(ValueError, RecursionError):
            text = json.dumps(json.loads(text), sort_keys=True)
    return schema.schema_type, text


def _is_whole(found: Schema, schema: Schema) -> bool:
    """Return whether a schema of the registry is another one, and no more than it."""
    return found.is_same(schema) and found.metadata is None and found.rule_set is None


def _check_alone(schema: Schema) -> None:
    """Refuse a schema that refers to others. What an Avro schema refers to is missing when it is parsed.

    Raises:
        ValueError: it does.
    """
    if schema.schema_type == "PROTOBUF":
        # Without comments. Texts are kept: they may have the beginning of one.
        text = _COMMENT.sub(lambda found: found[1] or " ", schema.text)
        others = [path for path in _IMPORT.findall(text) if not path.startswith(_KNOWN_FILES)]
    elif schema.schema_type == "JSON":
        parsed = json.loads(schema.text)
        if not isinstance(parsed, dict | bool):
            raise ValueError("a JSON Schema is an object, or true or false")
        own, used = (set(_texts(parsed, name)) for name in ("$id", "$ref"))
        others = [uri for uri in sorted(used) if not uri.startswith(("#", *_KNOWN_URIS, *own))]
    else:
        return
    if others:
        raise ValueError(
            f"the schema refers to {', '.join(others)}: only a registry can register a schema with references to others"
        )


def _texts(value: object, name: str) -> Iterator[str]:
    """Yield the texts that objects have under a name, in all of a JSON value."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case dict() as members:
                waiting += members.values()
                if isinstance(text := members.get(name), str):
                    yield text
            case list() as items:
                waiting += items


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
