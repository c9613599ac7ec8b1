"""The schema that an id in a key or value stands for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from brokerless.schemas.schema import DEFAULT_CONTEXT, UnresolvedReferenceError, context_of, without_context
from brokerless.values.forms import REGISTRY, SCHEMA_TYPES
from brokerless.wording import option

if TYPE_CHECKING:
    from collections.abc import Collection

    from brokerless.schemas.schema import Schema, SchemaVersion
    from brokerless.schemas.store import SchemaStore
    from brokerless.values.decoding import Decoding
    from brokerless.values.encoding import Encoding
    from brokerless.values.forms import Forms

SchemaText = tuple[str, str, list[tuple[str, str]]]
"""The type and the text of a schema, and the names and texts of those that it refers to."""


class Resolved(NamedTuple):
    """A schema, and the version of a subject that it is. The extension takes the fields in this order."""

    schema_type: str
    text: str
    references: list[tuple[str, str]]
    id: int
    subject: str | None
    version: int | None


class Resolver:
    """The schemas that the keys or the values of a topic name.

    Args:
        store: all schemas.
        topic: the topic; None if it is not known.
        part: "key" or "value".
        subject: the expected subject; None: `<topic>-<part>` (TopicNameStrategy).
        context: the context; None: that of the subject, else the default context.
    """

    def __init__(
        self, store: SchemaStore, topic: str | None, part: str, subject: str | None, context: str | None
    ) -> None:
        self._store, self._topic, self._context = store, topic, context
        self._subject = subject or (None if topic is None else f"{topic}-{part}")

    def __call__(self, schema_id: int | str) -> Resolved:
        """Return the schema with an id or a GUID.

        Raises:
            ValueError: no schema has the id, or one that it refers to is not there.
        """
        schema = self._store.schema(schema_id, subject=self._subject, context=self._context)
        version = self._version(schema)
        return Resolved(
            *_text(self._store, schema),
            schema.id,
            None if version is None else version.subject,
            None if version is None else version.version,
        )

    def _version(self, schema: Schema) -> SchemaVersion | None:
        """Return the newest version of the expected subject, else of one of the topic's, else of the only subject."""
        versions = self._store.versions_of(schema)
        for is_fit in (self._is_expected, self._is_of_topic, lambda _subject: True):
            fit = [version for version in versions if is_fit(version.subject)]
            if len({version.subject for version in fit}) == 1:
                return max(fit, key=lambda version: version.version)
        return None

    def _is_expected(self, subject: str) -> bool:
        return self._subject is not None and self._subject in (subject, without_context(subject))

    def _is_of_topic(self, subject: str) -> bool:
        """Return whether a subject is one of the topic's records (TopicRecordNameStrategy)."""
        return self._topic is not None and without_context(subject).startswith(f"{self._topic}-")


class Target(NamedTuple):
    """The schemas whose types the decoded keys or values of topics have. Without any, they are JSON text.

    Attributes:
        reader: the schema that all others are resolved to.
        union: schemas whose fields they all have.
    """

    reader: SchemaText | None = None
    union: list[SchemaText] | None = None


def target(decoding: Decoding, topics: Collection[str | None], part: str) -> Target:
    """Return the schemas whose types the keys or values of these topics have.

    Raises:
        ValueError: the choice of schemas needs one subject, and there is none, or it or the id is not known.
    """
    store, choice = decoding.schemas, decoding.schema
    _check_subject(decoding)
    if choice is None and part == "value" and decoding.message is not None:
        choice = "latest"
    if store is None or choice == "writer":
        return Target()
    if isinstance(choice, int):
        if part == "key":
            return Target()
        return Target(_text(store, store.schema(choice, subject=decoding.subject, context=decoding.context)))
    subject = subject_of(decoding, topics, part)
    if choice is None or part == "key":
        if subject is None or subject not in store.subjects:
            return Target()
        if choice is None and not _has_fields(store, store.latest(subject).schema):
            return Target()
    if subject is None:
        raise ValueError(
            f"{option('schema')}: {choice!r} takes the versions of one subject, and the topics have several: choose "
            f"one topic, or name the subject with {option('subject')}, or choose 'writer'"
        )
    if choice == "union":
        latest = store.latest(subject)
        versions = [version for version in store.versions if version.subject == latest.subject]
        schemas = {version.schema.id: version.schema for version in versions}
        return Target(union=[_text(store, schema) for schema in schemas.values()])
    return Target(_text(store, store.latest(subject).schema))


def schema_to_write(encoding: Encoding, topic: str, part: str) -> tuple[Schema, SchemaText] | None:
    """Return the schema that the keys or values of a topic are written with, and its text with references.

    None is for a form without a schema.

    Raises:
        ValueError: there is no such schema, or it has another type than the form.
    """
    form, store = encoding.form(part), encoding.schemas
    if form not in encoding.framed:
        return None
    if store is None:
        raise ValueError(f"{option('encode')}: name the schemas: bl.Schemas(path)")
    subject = str(subject_of(encoding, [topic], part))
    if isinstance(encoding.schema, int) and part == "value":
        name = without_context(subject)
        context = encoding.context if name == subject else context_of(subject)
        schema = store.schema(encoding.schema, subject=name, context=context)
    else:
        latest = store.latest(subject)
        if latest.deleted is not None:
            raise ValueError(f"all versions of {subject} are deleted: name the id of a schema ({option('schema')})")
        schema = latest.schema
    if form != REGISTRY and SCHEMA_TYPES[form] != schema.schema_type:
        raise ValueError(
            f"{option('encode')}: {part}={form}, but schema {schema.id} has the type {schema.schema_type}: give "
            f"{REGISTRY}"
        )
    return schema, _text(store, schema)


def subject_of(decoding: Forms, topics: Collection[str | None], part: str) -> str | None:
    """Return the only subject of topics, by TopicNameStrategy."""
    name = decoding.subject if part == "value" else None
    if name is None:
        (topic,) = topics if len(topics) == 1 else (None,)
        name = None if topic is None else f"{topic}-{part}"
    if name is None or decoding.context in (None, DEFAULT_CONTEXT) or without_context(name) != name:
        return name
    return f":{decoding.context}:{name}"


def _check_subject(decoding: Decoding) -> None:
    """Refuse a subject that was given by name, and that the registry does not know."""
    if decoding.schemas is not None and decoding.subject is not None:
        decoding.schemas.latest(str(subject_of(decoding, (), "value")))


def _has_fields(store: SchemaStore, schema: Schema) -> bool:
    """Return whether a schema describes records, messages or closed objects, and all that it refers to is there."""
    try:
        schema_type, text, _ = _text(store, schema)
        found = None if schema_type == "PROTOBUF" else json.loads(text)
    except (UnresolvedReferenceError, ValueError, RecursionError):
        return False
    if schema_type == "PROTOBUF":
        return True
    if not isinstance(found, dict):
        return False
    if schema_type == "AVRO":
        return found.get("type") == "record"
    # The rest of the schema decides whether it has a type then.
    is_closed = False in (found.get("additionalProperties"), found.get("unevaluatedProperties"))
    return schema_type == "JSON" and found.get("type") == "object" and is_closed


def _text(store: SchemaStore, schema: Schema) -> SchemaText:
    references = [(reference.name, one.text) for reference, one in store.referenced(schema)]
    return schema.schema_type, schema.text, references
