"""All schemas of a registry, with all that were deleted: old data still carry their ids."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

from brokerless.arguments import unknown
from brokerless.notes import note
from brokerless.schemas.schema import (
    DEFAULT_CONTEXT,
    MalformedSchemaError,
    UnresolvedReferenceError,
    context_of,
    value_of,
    version_of,
    without_context,
)
from brokerless.wording import counted, in_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from brokerless.schemas.schema import Deleted, Reference, Schema, SchemaVersion

    Row = tuple[int | None, int | None, bytes | None, bytes | None]

_NOT_OF_SCHEMAS = ("CONFIG", "MODE", "CONTEXT", "NOOP", "ASSOC")
"""The types of records that say nothing of schemas."""
_SHOWN = 60
"""The characters of a name that a message shows: it is foreign data."""
_MOST_REFERENCES = 1000
"""A schema with more of them, directly and indirectly, is refused: each may be resolved many times."""


MOST_BYTES = 1 << 30
"""The most characters of all schemas: they stay in memory."""


class SchemaStore:
    """The schemas of a registry.

    Args:
        name: where they are from, for messages.
        sources: each is a registry's answers as JSON, or the records of a topic: offset, timestamp in ms, key and
            value. Notes name the records that are not understood.

    Attributes:
        name: as given.
        versions: all versions, in the order in which the registry wrote them. A version that was deleted and registered
            again is there twice.
    """

    def __init__(self, name: str, *sources: str | Iterable[Row]) -> None:
        self.name = name
        self.versions: list[SchemaVersion] = []
        # The place in `versions` of the last one of each subject and number.
        self._places: dict[str, dict[int, int]] = {}
        self._by_id: dict[tuple[str, int], Schema] = {}
        self._contexts: set[str] = set()
        self._size = 0
        for source in sources:
            if isinstance(source, str):
                self._add_answers(source)
            else:
                self._add_records(source)

    def _add_records(self, rows: Iterable[Row]) -> None:
        count = 0
        first = ""
        for offset, timestamp, key, value in rows:
            try:
                self._add(_parsed(key), value, offset, timestamp)
            except MalformedSchemaError as error:
                count += 1
                first = first or f"at offset {offset}: {error}"
        if count:
            note(f"{self.name}: {counted(count, 'record')} left out, the first {first}")

    def _add_answers(self, text: str) -> None:
        """Add what `to_json` has made, or the answer of a registry to `GET /schemas?deleted=true`.

        Raises:
            ValueError: the text is neither.
        """
        found = _parsed(text)
        for number, value in enumerate(found if isinstance(found, list) else [found]):
            try:
                self._put(version_of(value))
            except MalformedSchemaError as error:
                raise ValueError(
                    f"{self.name}: entry {number} is not the version of a schema: {error}. Expected: a registry's "
                    "answer to GET /schemas?deleted=true, or what `brokerless schemas --save` wrote"
                ) from error

    def to_json(self) -> str:
        """Return all versions as JSON, in the form of a registry's answers."""
        lines = ",\n".join(json.dumps(value_of(version), ensure_ascii=False) for version in self.versions)
        return f"[\n{lines}\n]\n" if lines else "[]\n"

    def _add(self, key: object, value: bytes | None, offset: int | None, timestamp: int | None) -> None:
        """Add a record as a registry does (KafkaStoreMessageHandler), but forget nothing that was deleted.

        Raises:
            MalformedSchemaError: the record is not understood, or a registry ignores it.
        """
        if not isinstance(key, dict):
            raise MalformedSchemaError("the key is no JSON object")
        # Karapace deletes with an empty value.
        content = _parsed(value) if value else None
        match key.get("keytype"):
            case "SCHEMA" if content is None:
                self._delete(key.get("subject"), key.get("version"), "hard")
            case "SCHEMA":
                self._put(version_of(content, offset, timestamp))
            case "DELETE_SUBJECT" | "CLEAR_SUBJECT" as kind:
                if isinstance(content, dict):
                    clears = kind == "CLEAR_SUBJECT"
                    self._delete_subject(content.get("subject"), content.get("version"), clears=clears)
            case kind if kind not in _NOT_OF_SCHEMAS:
                raise MalformedSchemaError(f"the key type {str(kind)[:_SHOWN]!r} is not known")

    def _put(self, version: SchemaVersion) -> None:
        """Add a version, or a new state of one."""
        schema = version.schema
        known = self._by_id.setdefault((schema.context, schema.id), schema)
        if known is schema:
            self._contexts.add(schema.context)
            self._size += len(schema.text)
            if self._size > MOST_BYTES:
                raise ValueError(f"{self.name}: the schemas have more than {in_bytes(MOST_BYTES)}, which is too much")
        if not known.is_same(schema):
            raise MalformedSchemaError(
                f"{version.subject[:_SHOWN]} version {version.version} has the id {schema.id} of another schema, and a "
                "registry ignores it"
            )
        version = version._replace(schema=known)
        places = self._places.setdefault(version.subject, {})
        place = places.get(version.version)
        if place is not None and self.versions[place].schema is known:
            self.versions[place] = version
            return
        if place is not None:
            self._delete(version.subject, version.version, "hard")
        places[version.version] = len(self.versions)
        self.versions.append(version)

    def _delete(self, subject: object, number: object, how: Deleted) -> None:
        place = self._places.get(subject, {}).get(number) if isinstance(subject, str) else None  # type: ignore[call-overload]
        if place is not None and self.versions[place].deleted != "hard":
            self.versions[place] = self.versions[place]._replace(deleted=how)

    def _delete_subject(self, subject: object, last: object, *, clears: bool) -> None:
        for number, place in self._places.get(subject, {}).items() if isinstance(subject, str) else ():
            if clears and self.versions[place].deleted is not None:
                self._delete(subject, number, "hard")
            elif not clears and isinstance(last, int) and number <= last and self.versions[place].deleted is None:
                self._delete(subject, number, "soft")

    @property
    def subjects(self) -> list[str]:
        """The subjects that have or had a version, sorted."""
        return sorted(self._places)

    @property
    def contexts(self) -> list[str]:
        """The contexts of all subjects, sorted; the default context is "."."""
        return sorted(self._contexts)

    def schema(self, schema_id: int | str, *, subject: str | None = None, context: str | None = None) -> Schema:
        """Return the schema with an id or a GUID.

        An id may stand for different schemas in different contexts. Without a context, the one is chosen that has the
        subject, else the default context, else the only context that has the id.

        Args:
            schema_id: the id, or the GUID as text.
            subject: a subject that is expected to have the schema, without its context; None: none.
            context: look only in this context; None: in all.

        Raises:
            ValueError: no schema has the id, or several contexts have it.

        >>> import brokerless as bl
        >>> bl.Schemas(REGISTRY_DIR).schema(4).text
        '"long"'
        """
        if isinstance(schema_id, str):
            found = self._by_guid.get(schema_id.lower())
            if found is None:
                raise ValueError(no_guid(self, schema_id))
            return found
        wanted = [context] if context is not None else [DEFAULT_CONTEXT, *self.contexts]
        found_in = {one: self._by_id[one, schema_id] for one in wanted if (one, schema_id) in self._by_id}
        if len(found_in) > 1 and subject is not None:
            of_subject = [
                schema
                for schema in found_in.values()
                if any(without_context(version.subject) == subject for version in self.versions_of(schema))
            ]
            if len(of_subject) == 1:
                return of_subject[0]
        if len(found_in) > 1 and DEFAULT_CONTEXT not in found_in:
            raise ValueError(
                f"several contexts of {self.name} have a schema with the id {schema_id}: name one of "
                f"{', '.join(sorted(found_in))}"
            )
        if not found_in:
            raise ValueError(no_schema(self, str(schema_id), context))
        return next(iter(found_in.values()))

    def version(self, subject: str, number: int) -> SchemaVersion:
        """Return a version of a subject, also if it was deleted.

        Raises:
            ValueError: the subject or the version is not known.
        """
        places = self._known(subject)
        if number not in places:
            raise ValueError(f"{subject} has no version {number}: it has {', '.join(map(str, sorted(places)))}")
        return self.versions[places[number]]

    def latest(self, subject: str) -> SchemaVersion:
        """Return the newest version of a subject that is not deleted; if all are deleted, the newest of them.

        Raises:
            ValueError: the subject is not known.

        >>> import brokerless as bl
        >>> bl.Schemas(REGISTRY_DIR).latest("orders-value").version
        3
        """
        places = self._known(subject)
        numbers = sorted(places, reverse=True)
        in_use = [number for number in numbers if self.versions[places[number]].deleted is None]
        return self.versions[places[(in_use or numbers)[0]]]

    def _known(self, subject: str) -> dict[int, int]:
        if subject not in self._places:
            raise unknown("subject", subject, self._places)
        return self._places[subject]

    def versions_of(self, schema: Schema) -> list[SchemaVersion]:
        """Return the versions that have a schema: one of each of its subjects, or several."""
        return self._by_schema[schema.context, schema.id]

    def referenced(self, schema: Schema) -> list[tuple[Reference, Schema]]:
        """Return all schemas that a schema refers to, directly and indirectly: first those that others refer to.

        Raises:
            UnresolvedReferenceError: a reference leads to no schema, or to itself.
        """
        found: dict[Reference, tuple[Reference, Schema]] = {}
        # Each step visits a schema (True) or, when its references are there, adds it (False).
        steps: list[tuple[Reference | None, Schema, bool]] = [(None, schema, True)]
        above: set[tuple[str, int]] = set()
        while steps:
            reference, one, is_first = steps.pop()
            place = (one.context, one.id)
            if not is_first:
                above.discard(place)
                if reference is not None:
                    found[reference] = (reference, one)
                continue
            if reference in found:
                continue
            if place in above:
                raise UnresolvedReferenceError(f"the references of schema {schema.id} lead back to schema {one.id}")
            if len(found) + len(steps) + len(one.references) > _MOST_REFERENCES:
                raise UnresolvedReferenceError(f"schema {schema.id} has more than {_MOST_REFERENCES} references")
            above.add(place)
            steps.append((reference, one, False))
            steps += [(link, self._target(one, link), True) for link in reversed(one.references)]
        return list(found.values())

    def _target(self, schema: Schema, reference: Reference) -> Schema:
        """Return the schema of a reference. A subject without a context is one of the same context."""
        names = [reference.subject]
        if schema.context != DEFAULT_CONTEXT and context_of(reference.subject) == DEFAULT_CONTEXT:
            names.insert(0, f":{schema.context}:{reference.subject}")
        for name in names:
            place = self._places.get(name, {}).get(reference.version)
            if place is not None:
                return self.versions[place].schema
        raise UnresolvedReferenceError(
            f"schema {schema.id} refers to {reference.name}: {reference.subject} version {reference.version} is not in "
            f"{self.name}"
        )

    @cached_property
    def _by_guid(self) -> dict[str, Schema]:
        found: dict[str, Schema] = {}
        for schema in self._by_id.values():
            found.setdefault(schema.guid, schema)
        return found

    @cached_property
    def _by_schema(self) -> dict[tuple[str, int], list[SchemaVersion]]:
        found = defaultdict(list)
        for version in self.versions:
            found[version.schema.context, version.schema.id].append(version)
        return found


def no_schema(store: SchemaStore, schema_id: str, context: str | None) -> str:
    """Return the message for an id that no schema has."""
    where = "" if context is None else f" and the context {context}"
    return f"no schema with the id {schema_id}{where} in {store.name}"


def no_guid(store: SchemaStore, guid: str) -> str:
    """Return the message for a GUID that no schema has."""
    return f"no schema with the GUID {guid} in {store.name}"


def changes(earlier: SchemaStore, later: SchemaStore) -> list[SchemaVersion]:
    """Return the versions that are new in a later state of a registry, or are deleted or in use again there."""
    known = {_state(version) for version in earlier.versions}
    return [version for version in later.versions if _state(version) not in known]


def changed(store: SchemaStore, versions: Iterable[SchemaVersion]) -> SchemaStore:
    """Return the schemas of a store with the changes to them.

    Raises:
        ValueError: a version has the id of another schema.
    """
    found = SchemaStore(store.name)
    for version in (*store.versions, *versions):
        found._put(version)  # noqa: SLF001 - this module's
    return found


def _state(version: SchemaVersion) -> tuple[str, int, int, Deleted | None]:
    # The subject names the context of the id.
    return version.subject, version.version, version.schema.id, version.deleted


def _parsed(text: str | bytes | None) -> object:
    """Parse JSON.

    Raises:
        MalformedSchemaError: it is none.
    """
    try:
        # As bytes, `json` would also take what looks like UTF-16 and UTF-32, which registries do not write.
        return json.loads(text.decode() if isinstance(text, bytes) else text or "")
    except (ValueError, RecursionError) as error:
        raise MalformedSchemaError("it is no JSON" if isinstance(text, bytes) else f"it is no JSON: {error}") from error
