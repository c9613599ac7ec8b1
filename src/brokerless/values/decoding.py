"""The choice of forms in which keys and values are decoded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Literal, Self, get_args

from brokerless.arguments import unknown
from brokerless.schemas.store import SchemaStore
from brokerless.wording import option

if TYPE_CHECKING:
    from collections.abc import Callable

Form = Literal["registry", "utf8", "json", "int32", "int64", "float32", "float64", "uuid", "hex"]
"""The form of keys or values: framed with the id of a registry's schema, or of one of Kafka's own serializers."""
OnDecodeError = Literal["null", "raise", "skip"]
SchemaChoice = Literal["writer", "latest", "union"]
"""The schemas whose types decoded keys and values have."""

REGISTRY = "registry"
PARTS = ("key", "value")
_FORMS = get_args(Form)
_ON_ERROR = get_args(OnDecodeError)
_CHOICES = get_args(SchemaChoice)


@dataclass(frozen=True, kw_only=True)
class Decoding:
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
            "union": the fields of all versions. An id: the types of this schema. None: "latest", and "writer" where the
            topics have no one subject `<topic>-value` with a record.
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
    schemas: SchemaStore | None = None
    subject: str | None = None
    context: str | None = None
    schema: SchemaChoice | int | None = None
    on_error: OnDecodeError = "null"

    def __post_init__(self) -> None:
        for part in PARTS:
            form = self.form(part)
            if form is not None and form not in _FORMS:
                raise unknown(f"form of {part}s", form, _FORMS)
        is_id = isinstance(self.schema, int) and not isinstance(self.schema, bool)
        if self.schema is not None and not is_id and self.schema not in _CHOICES:
            raise unknown("choice of schemas", str(self.schema), _CHOICES)
        if self.on_error not in _ON_ERROR:
            raise unknown("on_error", self.on_error, _ON_ERROR)
        if self.schemas is not None and not isinstance(self.schemas, SchemaStore):
            raise TypeError(f"{option('schemas')}: give bl.Schemas({self.schemas!r}), and not {self.schemas!r} itself")
        if self.value is None and self.key is None:
            raise ValueError(f"{option('decode')}: name the form of the value or the key, such as value=registry")
        if self.schema is not None and not self.has_registry:
            raise ValueError(
                f"{option('schema')} chooses among the schemas of a registry: {option('decode')} names no registry, as "
                "in value=registry"
            )

    @classmethod
    def of(cls, given: Decoding | Mapping[str, object] | str) -> Self:
        """Return a decoding of what a caller gave.

        Raises:
            ValueError: a word is unknown, or the text has another form.
            TypeError: it is something else.

        >>> Decoding.of("value=registry, key=utf8") == Decoding.of({"value": "registry", "key": "utf8"})
        True
        """
        if isinstance(given, cls):
            return given
        if isinstance(given, str):
            given = _parsed(given)
        if not isinstance(given, Mapping):
            raise TypeError(f"{option('decode')}: a dict such as {{'value': 'registry'}} is expected, not {given!r}")
        names = [field.name for field in fields(cls)]
        for name in given:
            if name not in names:
                raise unknown("part to decode", str(name), names)
        return cls(**given)  # type: ignore[arg-type]

    def form(self, part: str) -> Form | None:
        """Return the form of a part, "key" or "value"."""
        return self.key if part == "key" else self.value

    @property
    def parts(self) -> list[str]:
        """The parts that are decoded."""
        return [part for part in PARTS if self.form(part) is not None]

    @property
    def needs_schemas(self) -> bool:
        """True if the schemas of a registry are needed, and are not given."""
        return self.has_registry and self.schemas is None

    @property
    def has_registry(self) -> bool:
        """True if keys or values are decoded with the schemas of a registry."""
        return REGISTRY in (self.key, self.value)

    def with_schemas(self, find: Callable[[], SchemaStore]) -> Self:
        """Return this with the schemas that `find` returns, if they are needed and not given."""
        return replace(self, schemas=find()) if self.needs_schemas else self

    def as_text(self) -> Self:
        """Return this with "writer" as the choice of schemas, if there is a choice and none was made."""
        return replace(self, schema="writer") if self.has_registry and self.schema is None else self


def _parsed(text: str) -> dict[str, object]:
    """Parse `value=registry,key=utf8`."""
    found: dict[str, object] = {}
    for item in text.split(","):
        name, equals, form = (part.strip() for part in item.partition("="))
        if not equals or name not in PARTS:
            raise ValueError(f"{option('decode')}: {item.strip()!r} is not of the form value=registry or key=utf8")
        if name in found:
            raise ValueError(f"{option('decode')}: {name} is named twice")
        found[name] = form
    return found
