"""The part of a decoded read for tasks in the JVM: the schemas, and the answers to the ids that may be named.

An answer is that of `Resolver`, so that the choice among contexts and subjects has one home. Most answers are the same
for all topics: a topic has its own only for a schema of several subjects, or an id of several contexts.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from brokerless.schemas.store import no_guid, no_schema
from brokerless.values.forms import REGISTRY
from brokerless.values.resolution import Resolver

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from brokerless.schemas.store import SchemaStore
    from brokerless.values.decoding import Decoding
    from brokerless.values.resolution import SchemaText, Target

_VERSION = 1


def decoding_in_json(decoding: Decoding, targets: Mapping[str, Target], topics: Collection[str | None]) -> bytes:
    """Return how the rows of topics are decoded, as JSON that `rust/jvm/src/decoding.rs` parses."""
    texts = _Texts()
    parts = []
    for part in decoding.parts:
        form = decoding.form(part)
        planned: dict[str, Any] = {"part": part, "form": form}
        if form == REGISTRY and decoding.schemas is not None:
            target = targets[part]
            planned |= {
                "reader": None if target.reader is None else texts.place(target.reader),
                "message": decoding.message if part == "value" else None,
                "union": None if target.union is None else [texts.place(text) for text in target.union],
                **_answers(decoding, decoding.schemas, part, topics, texts),
            }
        parts.append(planned)
    raises = decoding.on_error == "raise"
    found = {"version": _VERSION, "raises": raises, "texts": texts.texts, "schemas": texts.schemas, "parts": parts}
    return json.dumps(found).encode()


class _Texts:
    """Texts of schemas, each once."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.schemas: list[dict[str, Any]] = []
        self._text_places: dict[str, int] = {}
        self._schema_places: dict[str, int] = {}

    def _text(self, text: str) -> int:
        place = self._text_places.setdefault(text, len(self.texts))
        if place == len(self.texts):
            self.texts.append(text)
        return place

    def place(self, schema: SchemaText) -> int:
        """Return the place of a schema among all."""
        schema_type, text, references = schema
        planned = {
            "schema_type": schema_type,
            "text": self._text(text),
            "references": [(name, self._text(referenced)) for name, referenced in references],
        }
        place = self._schema_places.setdefault(json.dumps(planned), len(self.schemas))
        if place == len(self.schemas):
            self.schemas.append(planned)
        return place


def _answers(
    decoding: Decoding, store: SchemaStore, part: str, topics: Collection[str | None], texts: _Texts
) -> dict[str, Any]:
    subject = decoding.subject if part == "value" else None
    named = {(version.schema.context, version.schema.id): version.schema for version in store.versions}
    schemas = named.values()
    ids = Counter(schema.id for schema in schemas)
    guids = [schema.guid for schema in schemas]
    several = [
        *(schema_id for schema_id, count in ids.items() if count > 1),
        *(
            name
            for schema in schemas
            if len({version.subject for version in store.versions_of(schema)}) > 1
            for name in (schema.id, schema.guid)
        ),
    ]

    def answers(topic: str | None, names: Collection[int | str]) -> dict[str, Any]:
        resolver = Resolver(store, topic, part, subject, decoding.context)
        return {str(name): _answer(resolver, name, texts) for name in names}

    return {
        "answers": answers(None, [*ids, *guids]),
        "topics": {topic: answers(topic, set(several)) for topic in topics if topic is not None},
        "no_id": no_schema(store, "{}", decoding.context),
        "no_guid": no_guid(store, "{}"),
    }


def _answer(resolver: Resolver, name: int | str, texts: _Texts) -> dict[str, Any]:
    try:
        found = resolver(name)
    except ValueError as error:
        return {"reason": str(error), "id": name if isinstance(name, int) else None}
    text = (found.schema_type, found.text, found.references)
    return {"schema": texts.place(text), "id": found.id, "subject": found.subject, "version": found.version}
