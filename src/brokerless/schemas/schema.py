"""A schema of a registry, and a version of a subject.

A registry gives each schema an id, and counts the versions of each subject. One schema may be a version of several
subjects: it then has one id.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import uuid
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

SCHEMAS_TOPIC = "_schemas"
DEFAULT_CONTEXT = "."
_CONTEXT_PREFIX = ":."

Deleted = Literal["soft", "hard"]
"""The kind of a deletion. A registry still gives out the schema of a soft-deleted version, by its id."""


class MalformedSchemaError(ValueError):
    """JSON that is not the version of a schema."""


class UnresolvedReferenceError(ValueError):
    """A schema refers to one that is not there, or to itself."""


class Reference(NamedTuple):
    """A reference to the version of another subject: `name` is what the schema's text calls it.

    The name is a full name in Avro, the path of an import in Protobuf, and a URI in JSON Schema.
    """

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class Schema:
    """A schema of a registry.

    Attributes:
        id: the id, unique within the context.
        context: the context; "." is the default context.
        schema_type: "AVRO", "PROTOBUF", "JSON", or the type of a plug-in.
        text: the schema itself.
        references: the schemas that the text refers to.
        metadata: tags, properties and sensitive properties, as the registry stores them; None if it has none.
        rule_set: rules for data and for migration, as the registry stores them; None if it has none.
        stored_guid: the GUID that the registry stored; None if it stored none.
    """

    id: int
    context: str
    schema_type: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: dict[str, Any] | None = None
    rule_set: dict[str, Any] | None = None
    stored_guid: str | None = None

    @cached_property
    def guid(self) -> str:
        """The GUID, which message headers carry. It is a hash of all of the schema (Schema.updateHash, MD5)."""
        if self.stored_guid is not None:
            return self.stored_guid
        digest = hashlib.md5(b"".join(_hashed(self)), usedforsecurity=False).digest()
        return str(uuid.UUID(bytes=digest))

    def is_same(self, other: Schema) -> bool:
        """Return whether two schemas may have one id: what is decoded with them is the same."""
        return (self.schema_type, self.text, self.references) == (other.schema_type, other.text, other.references)


class SchemaVersion(NamedTuple):
    """A version of a subject.

    Attributes:
        subject: the subject as the registry writes it: `:.context:name` outside of the default context.
        version: the version, from 1 on.
        schema: its schema.
        deleted: how the version was deleted; None if it is in use.
        offset: the offset of its last record in the topic; None if it is not from a topic.
        timestamp: the time of that record, in ms; None if it is not known.
    """

    subject: str
    version: int
    schema: Schema
    deleted: Deleted | None = None
    offset: int | None = None
    timestamp: int | None = None


def context_of(subject: str) -> str:
    """Return the context of a subject (QualifiedSubject).

    >>> context_of("orders-value"), context_of(":.eu:orders-value")
    ('.', '.eu')
    """
    if not subject.startswith(_CONTEXT_PREFIX):
        return DEFAULT_CONTEXT
    return subject[1:].partition(":")[0]


def without_context(subject: str) -> str:
    """Return a subject without its context.

    >>> without_context("orders-value"), without_context(":.eu:orders-value")
    ('orders-value', 'orders-value')
    """
    return subject[1:].partition(":")[2] if subject.startswith(_CONTEXT_PREFIX) else subject


def version_of(value: object, offset: int | None = None, timestamp: int | None = None) -> SchemaVersion:
    """Return the version that the value of a SCHEMA record describes; REST answers have the same fields.

    Args:
        value: the parsed JSON.
        offset: the offset of the record.
        timestamp: the time of the record, in ms.

    Raises:
        MalformedSchemaError: a field is missing, or has another type.
    """
    if not isinstance(value, dict):
        raise MalformedSchemaError("it is no object")
    subject = _text(value, "subject")
    deleted: Deleted | None = "hard" if value.get("hardDeleted") is True else "soft" if value.get("deleted") else None
    schema = Schema(
        id=_integer(value, "id"),
        context=context_of(subject),
        schema_type=_text(value, "schemaType", "AVRO"),
        text=_text(value, "schema"),
        references=_references(value.get("references")),
        metadata=_object(value, "metadata"),
        rule_set=_object(value, "ruleSet"),
        stored_guid=_stored_guid(value),
    )
    when = value.get("ts")
    if timestamp is None and isinstance(when, int):
        timestamp = when
    return SchemaVersion(subject, _integer(value, "version"), schema, deleted, offset, timestamp)


def value_of(version: SchemaVersion) -> dict[str, Any]:
    """Return a version as JSON, in the form of a registry's answers. `version_of` reads it.

    >>> value_of(SchemaVersion("orders-key", 1, Schema(7, ".", "AVRO", '"long"')))
    {'subject': 'orders-key', 'version': 1, 'id': 7, 'schemaType': 'AVRO', 'schema': '"long"'}
    """
    schema = version.schema
    value: dict[str, Any] = {
        "subject": version.subject,
        "version": version.version,
        "id": schema.id,
        "schemaType": schema.schema_type,
    }
    if schema.stored_guid is not None:
        value["guid"] = schema.stored_guid
    if schema.references:
        value["references"] = [one._asdict() for one in schema.references]
    if schema.metadata is not None:
        value["metadata"] = schema.metadata
    if schema.rule_set is not None:
        value["ruleSet"] = schema.rule_set
    value["schema"] = schema.text
    if version.timestamp is not None:
        value["ts"] = version.timestamp
    if version.deleted is not None:
        value["deleted"] = True
    if version.deleted == "hard":
        value["hardDeleted"] = True
    return value


def _text(value: dict[str, Any], name: str, default: str | None = None) -> str:
    found = value.get(name)
    if found is None and default is not None:
        return default
    if not isinstance(found, str):
        raise MalformedSchemaError(f"{name!r} is no text")
    return in_utf8(found)


def in_utf8(text: str) -> str:
    """Return text as Java would write it in UTF-8: with a question mark for half of a surrogate pair."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _integer(value: dict[str, Any], name: str) -> int:
    found = value.get(name)
    if not isinstance(found, int) or isinstance(found, bool) or not -(1 << 31) <= found < 1 << 31:
        raise MalformedSchemaError(f"{name!r} is no int32")
    return found


def _object(value: dict[str, Any], name: str) -> dict[str, Any] | None:
    found = value.get(name)
    if found is not None and not isinstance(found, dict):
        raise MalformedSchemaError(f"{name!r} is no object")
    return found


def _references(found: object) -> tuple[Reference, ...]:
    if found is None:
        return ()
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise MalformedSchemaError("'references' is no list of objects")
    return tuple(Reference(_text(one, "name"), _text(one, "subject"), _integer(one, "version")) for one in found)


def _stored_guid(value: dict[str, Any]) -> str | None:
    """Return the GUID of a REST answer, or of a stored hash, which older registries wrote."""
    guid, md5 = value.get("guid"), value.get("md5")
    try:
        if isinstance(guid, str):
            return str(uuid.UUID(guid))
        if isinstance(md5, str):
            return str(uuid.UUID(bytes=base64.b64decode(md5, validate=True)))
    except (ValueError, binascii.Error) as error:
        raise MalformedSchemaError("its GUID is malformed") from error
    return None


def _hashed(schema: Schema) -> Iterable[bytes]:
    """Yield what the GUID is a hash of (Schema.updateHash)."""
    yield _bytes(schema.text)
    for reference in schema.references:
        yield _bytes(reference.name) + _bytes(reference.subject) + reference.version.to_bytes(4, signed=True)
    if (metadata := schema.metadata) is not None:
        yield b"\1"
        for tag, values in _sorted_map(metadata.get("tags")):
            yield _bytes(tag) + b"".join(map(_bytes, _sorted_set(values)))
        for name, value in _sorted_map(metadata.get("properties")):
            yield _bytes(name) + _bytes(value)
        yield b"".join(map(_bytes, _sorted_set(metadata.get("sensitive"))))
    if (rule_set := schema.rule_set) is not None:
        yield b"\1"
        for kind in ("migrationRules", "domainRules", "encodingRules"):
            for rule in _items(rule_set.get(kind)):
                yield from _hashed_rule(rule)
        yield _bytes(rule_set.get("enableAt"))


def _hashed_rule(rule: object) -> Iterable[bytes]:
    """Yield what the GUID has of a rule (Rule.updateHash)."""
    if isinstance(rule, dict):
        yield b"".join(_bytes(rule.get(name)) for name in ("name", "doc", "kind", "mode", "type"))
        yield b"".join(map(_bytes, _sorted_set(rule.get("tags"))))
        for name, value in _sorted_map(rule.get("params")):
            yield _bytes(name) + _bytes(value)
        yield b"".join(_bytes(rule.get(name)) for name in ("expr", "onSuccess", "onFailure"))
        yield b"\1" if rule.get("disabled") is True else b""


def _bytes(text: object) -> bytes:
    return text.encode("utf-8", "replace") if isinstance(text, str) else b""


def _items(found: object) -> list[Any]:
    return found if isinstance(found, list) else []


def _sorted_set(found: object) -> list[str]:
    return sorted({one for one in _items(found) if isinstance(one, str)}, key=_java_order)


def _sorted_map(found: object) -> list[tuple[str, Any]]:
    return sorted(found.items(), key=lambda pair: _java_order(pair[0])) if isinstance(found, dict) else []


def _java_order(text: str) -> bytes:
    """Return the key by which Java sorts strings: their UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")
