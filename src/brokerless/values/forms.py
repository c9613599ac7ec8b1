"""The forms of keys and values that a caller chooses: what decoding and encoding have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from brokerless.arguments import unknown
from brokerless.schemas.store import SchemaStore
from brokerless.wording import option

if TYPE_CHECKING:
    from collections.abc import Callable

Form = Literal["registry", "utf8", "json", "int32", "int64", "float32", "float64", "uuid", "hex"]
"""The form of keys or values: framed with the id of a registry's schema, or of one of Kafka's own serializers."""

REGISTRY: Literal["registry"] = "registry"
SCHEMA_TYPES = {"avro": "AVRO", "protobuf": "PROTOBUF", "json-schema": "JSON"}
"""The types of a registry's schemas, by the forms that take no other one."""
PARTS = ("key", "value")


def is_schema_id(choice: object) -> bool:
    """Return whether a choice of a schema is an id. To Python, a boolean is a number."""
    return isinstance(choice, int) and not isinstance(choice, bool)


@dataclass(frozen=True, kw_only=True)
class Forms:
    """The forms of keys and values, and the schemas. `Decoding` and `Encoding` say what each field means."""

    value: str | None = None
    key: str | None = None
    schemas: SchemaStore | None = None
    subject: str | None = None
    context: str | None = None
    message: str | None = None

    verb: ClassVar[str]
    forms: ClassVar[tuple[str, ...]]
    """All forms."""
    framed: ClassVar[tuple[str, ...]] = (REGISTRY,)
    """The forms that need a schema."""

    def __post_init__(self) -> None:
        for part in PARTS:
            form = self.form(part)
            if form is not None and form not in self.forms:
                raise unknown(f"form of {part}s", form, self.forms)
        if self.schemas is not None and not isinstance(self.schemas, SchemaStore):
            raise TypeError(f"{option('schemas')}: give bl.Schemas({self.schemas!r}), and not {self.schemas!r} itself")
        if self.value is None and self.key is None:
            raise ValueError(f"{option(self.verb)}: name the form of the value or the key, such as value=registry")
        if self.message is not None and self.value not in self.framed:
            raise ValueError(
                f"the message {self.message} is for values in the form {REGISTRY}: {self.verb} value={REGISTRY}"
            )

    @classmethod
    def of(cls, given: Forms | Mapping[str, object] | str) -> Self:
        """Return the forms that a caller gave.

        Raises:
            ValueError: a word is unknown, or the text has another form.
            TypeError: it is something else.

        >>> from brokerless.values.decoding import Decoding
        >>> Decoding.of("value=registry, key=utf8") == Decoding.of({"value": "registry", "key": "utf8"})
        True
        """
        if isinstance(given, cls):
            return given
        if isinstance(given, str):
            given = cls.parsed(given)
        if not isinstance(given, Mapping):
            raise TypeError(f"{option(cls.verb)}: a dict such as {{'value': 'registry'}} is expected, not {given!r}")
        names = [field.name for field in fields(cls)]
        for name in given:
            if name not in names:
                raise unknown(f"part to {cls.verb}", str(name), names)
        return cls(**given)  # type: ignore[arg-type]

    def form(self, part: str) -> str | None:
        """Return the form of a part, "key" or "value"."""
        return self.key if part == "key" else self.value

    @property
    def parts(self) -> list[str]:
        """The parts that have a form."""
        return [part for part in PARTS if self.form(part) is not None]

    @property
    def needs_schemas(self) -> bool:
        """True if the schemas of a registry are needed, and are not given."""
        return self.is_framed and self.schemas is None

    @property
    def is_framed(self) -> bool:
        """True if the form of the keys or the values needs a schema."""
        return self.key in self.framed or self.value in self.framed

    def with_schemas(self, find: Callable[[], SchemaStore]) -> Self:
        """Return this with the schemas that `find` returns, if they are needed and not given."""
        return replace(self, schemas=find()) if self.needs_schemas else self

    @classmethod
    def parsed(cls, text: str) -> dict[str, object]:
        """Parse `value=registry,key=utf8`."""
        found: dict[str, object] = {}
        for item in text.split(","):
            name, equals, form = (part.strip() for part in item.partition("="))
            if not equals or name not in PARTS:
                raise ValueError(f"{option(cls.verb)}: {item.strip()!r} is not of the form value=registry or key=utf8")
            if name in found:
                raise ValueError(f"{option(cls.verb)}: {name} is named twice")
            found[name] = form
        return found
