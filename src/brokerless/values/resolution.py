"""The schema that an id in a key or value stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from brokerless.schemas.schema import without_context

if TYPE_CHECKING:
    from brokerless.schemas.schema import Schema, SchemaVersion
    from brokerless.schemas.store import SchemaStore


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
            schema.schema_type,
            schema.text,
            [(reference.name, one.text) for reference, one in self._store.referenced(schema)],
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
