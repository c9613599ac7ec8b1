"""Filters: a pyarrow expression, and the parts of it that save reading.

pyarrow shows no way to look into an expression, but it can pickle one: the pickle is an Arrow file whose metadata have
the tree, with the literals as its columns. If a release of pyarrow writes another form, all rows are read and the
expression itself is applied to them, as it is in any case.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from brokerless.arguments import unknown
from brokerless.log.search import Criterion, Search

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import pyarrow as pa
    import pyarrow.compute as pc

_AND, _OR = ("and", "and_kleene"), ("or", "or_kleene")
_CONTAINS = {"starts_with", "ends_with", "match_substring"}
# For `literal compare field`, which a reader writes as `field compare literal`.
_MIRRORED = {
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
    "equal": "equal",
}
_PER_MS = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}
_LONG = 2**63


@dataclass(frozen=True)
class _Field:
    path: tuple[str, ...]


@dataclass(frozen=True)
class _Literal:
    scalar: Any


@dataclass(frozen=True)
class _Call:
    name: str
    arguments: tuple[_Node, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


_Node = _Field | _Literal | _Call


class Filter:
    """A pyarrow expression that rows must meet.

    Args:
        expression: the expression, on the columns of a read.
        schema: the schema of the read, with all columns that it may have.

    Attributes:
        columns: the columns that the expression needs.

    Raises:
        TypeError: it is not an expression.
        ValueError: it names an unknown column.
    """

    def __init__(self, expression: pc.Expression, schema: pa.Schema) -> None:
        import pyarrow.compute as pc  # noqa: PLC0415 - slow to import at every start of the command

        given: object = expression
        if not isinstance(given, pc.Expression):
            what = "an expression such as pyarrow.compute.field('offset') > 10"
            raise TypeError(f"filter: {given!r} is not {what}")
        self._expression, self._schema = expression, schema
        try:
            self._tree: _Node | None = _parsed(expression)
        except Exception:  # noqa: BLE001 - the form of a pickle is pyarrow's own
            self._tree = None
        named = sorted({found.path[0] for found in _fields(self._tree)}) if self._tree is not None else schema.names
        for name in named:
            if name not in schema.names:
                raise unknown("column", name, schema.names)
        self.columns = named

    def apply(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that meet the expression."""
        import pyarrow as pa  # noqa: PLC0415 - slow to import at every start of the command

        kept = pa.Table.from_batches([rows]).filter(self._expression).combine_chunks().to_batches()
        return kept[0] if kept else rows.slice(0, 0)

    def may_match(self, topic: str | None, partition: int | None) -> bool:
        """Return False if the expression excludes all rows of a partition."""
        import pyarrow.compute as pc  # noqa: PLC0415 - slow to import at every start of the command

        if not {"topic", "partition"} & set(self.columns):
            return True
        guarantee = _equals(pc.field("topic"), topic) & _equals(pc.field("partition"), partition)
        return bool(surviving([guarantee], self._expression, self._schema))

    @cached_property
    def start_timestamp(self) -> int | None:
        """The lowest timestamp, in ms, that a row may have; None if any."""
        lowest = [low for low, _ in self._ranges("timestamp")]
        return max((low for low in lowest if low is not None and 0 <= low < _LONG), default=None)

    @cached_property
    def offsets(self) -> tuple[int, int]:
        """The range [start, end) of the offsets that a row may have."""
        ranges = list(self._ranges("offset"))
        start = max((low for low, _ in ranges if low is not None), default=0)
        end = min((high + 1 for _, high in ranges if high is not None), default=_LONG - 1)
        return start, end

    def search(self, stored: Collection[str], texts: Collection[str] = ()) -> Search | None:
        """Return what a row must hold in its key and value; None if the expression does not say. `apply` does the rest.

        Args:
            stored: those of "key" and "value" whose column has the bytes of the record.
            texts: those whose column has these bytes as text, and null if they are no text.
        """
        found = [criterion for term in self._terms if (criterion := _criterion(term, {*stored, *texts})) is not None]
        found = [one for one in found if one.test != "null" or one.part in stored]
        return Search(tuple(found)) if found else None

    @cached_property
    def _terms(self) -> list[_Node]:
        """The expressions that a row must all meet."""
        return [] if self._tree is None else list(_flat(self._tree, _AND))

    def _ranges(self, column: str) -> Iterator[tuple[int | None, int | None]]:
        """Yield the lowest and the highest value that each term allows."""
        for term in self._terms:
            if not isinstance(term, _Call):
                continue
            among = _is_in(term)
            if among is not None and among[0].path == (column,):
                values = [_integer(value) for value in among[1]]
                known = [value for value in values if value is not None]
                if len(known) == len(values) and known:
                    yield min(low for low, _ in known), max(high for _, high in known)
                continue
            name, of, literal = _comparison(term)
            value = None if literal is None else _integer(literal.scalar)
            if of is None or of.path != (column,) or value is None:
                continue
            low, high = value
            if name == "equal":
                yield high, low
            elif name in ("greater", "greater_equal"):
                yield (low + 1 if name == "greater" else high), None
            elif name in ("less", "less_equal"):
                yield None, (high - 1 if name == "less" else low)


def _parsed(expression: pc.Expression) -> _Node:
    import pyarrow as pa  # noqa: PLC0415 - slow to import at every start of the command

    pickled: pa.Buffer = expression.__reduce__()[1][0]  # type: ignore[assignment]
    file = pa.ipc.open_file(pickled)
    literals = file.get_batch(0)
    entries = iter(_entries(file.schema))

    def scalar(index: str) -> Any:  # noqa: ANN401 - of any type
        return literals.column(int(index))[0]

    def node(kind: str, text: str) -> _Node:
        if kind == "field_ref":
            return _Field((text,))
        if kind == "nested_field_ref":
            return _Field(tuple(_of_kind(next(entries), "field_ref") for _ in range(int(text))))
        if kind == "literal":
            return _Literal(scalar(text))
        if kind != "call":
            raise ValueError(kind)
        arguments: list[_Node] = []
        options: dict[str, Any] = {}
        for kind_of_next, text_of_next in entries:
            if kind_of_next == "end":
                return _Call(text, tuple(arguments), options)
            if kind_of_next == "options":
                options = dict(scalar(text_of_next).items())
            else:
                arguments.append(node(kind_of_next, text_of_next))
        raise ValueError("no end")

    return node(*next(entries))


def _of_kind(entry: tuple[str, str], kind: str) -> str:
    if entry[0] != kind:
        raise ValueError(entry[0])
    return entry[1]


def _entries(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return the metadata of a schema in their order, with entries of the same key, which a dict cannot hold.

    They are read from Arrow's C data interface (`ArrowSchema.metadata`): a count, then keys and values, each after its
    length.
    """
    capsule = schema.__arrow_c_schema__()
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    # The third field of the structure.
    at = ctypes.cast(pointer_of(capsule, b"arrow_schema"), ctypes.POINTER(ctypes.c_void_p))[2]
    if at is None:
        raise ValueError("no metadata")
    texts: list[str] = []
    count = ctypes.c_int32.from_address(at).value
    at += 4
    for _ in range(2 * count):
        length = ctypes.c_int32.from_address(at).value
        texts.append(ctypes.string_at(at + 4, length).decode())
        at += 4 + length
    return list(zip(texts[::2], texts[1::2], strict=True))


def _fields(node: _Node) -> Iterator[_Field]:
    if isinstance(node, _Field):
        yield node
    elif isinstance(node, _Call):
        for argument in node.arguments:
            yield from _fields(argument)


def _flat(node: _Node, names: Sequence[str]) -> Iterator[_Node]:
    if isinstance(node, _Call) and node.name in names:
        for argument in node.arguments:
            yield from _flat(argument, names)
    else:
        yield node


def _comparison(call: _Call) -> tuple[str, _Field | None, _Literal | None]:
    """Return a comparison as `field compare literal`; no field if it has another form."""
    if call.name in _MIRRORED and len(call.arguments) == 2:
        left, right = (_uncast(argument) for argument in call.arguments)
        if isinstance(left, _Field) and isinstance(right, _Literal):
            return call.name, left, right
        if isinstance(left, _Literal) and isinstance(right, _Field):
            return _MIRRORED[call.name], right, left
    return call.name, None, None


def _uncast(node: _Node) -> _Node:
    """Return the argument of a cast between bytes and text, which changes no byte."""
    if isinstance(node, _Call) and node.name == "cast" and _is_bytes(node.options.get("to_type")):
        return node.arguments[0]
    return node


def _is_bytes(scalar: Any) -> bool:  # noqa: ANN401 - the null scalar of a type
    return str(getattr(scalar, "type", "")).removeprefix("large_") in ("binary", "string", "binary_view", "string_view")


def _is_in(call: _Call) -> tuple[_Field, list[Any]] | None:
    """Return the field of a test for some values, and these; None if the node is none, or null is one of the values."""
    if call.name == "if_else" and len(call.arguments) == 3:
        # As DuckDB writes `field in (...)`: null stays null.
        tested, test, otherwise = call.arguments
        is_null = isinstance(otherwise, _Literal) and not otherwise.scalar.is_valid
        if is_null and isinstance(tested, _Call) and tested.name == "is_valid" and isinstance(test, _Call):
            return _is_in(test)
        return None
    values = call.options.get("value_set")
    if call.name != "is_in" or values is None or len(call.arguments) != 1:
        return None
    of, found = _uncast(call.arguments[0]), list(values.values)
    if not isinstance(of, _Field) or not all(value.is_valid for value in found):
        return None
    return of, found


def _criterion(term: _Node, parts: Collection[str]) -> Criterion | None:
    """Return what a term says about the bytes of a key or value; None if it says nothing."""
    alternatives = [_sought(node, parts) for node in _flat(term, _OR)]
    known = [found for found in alternatives if found is not None]
    kinds = {(found.part, found.test, found.is_whole) for found in known}
    if len(known) < len(alternatives) or len(kinds) != 1:
        return None
    texts = tuple(text for found in known for text in found.texts)
    return Criterion(known[0].part, None, known[0].test, texts, is_whole=known[0].is_whole)


def _sought(node: _Node, parts: Collection[str]) -> Criterion | None:
    if not isinstance(node, _Call):
        return None
    among = _is_in(node)
    name, of, literal = _comparison(node)
    texts: list[bytes | None] = []
    if among is not None:
        of, is_whole, texts = among[0], True, [_bytes_of(value) for value in among[1]]
    elif name == "equal" and literal is not None:
        is_whole, texts = True, [_bytes_of(literal.scalar)]
    elif name in _CONTAINS and len(node.arguments) == 1 and not _truth(node.options.get("ignore_case")):
        argument = _uncast(node.arguments[0])
        of = argument if isinstance(argument, _Field) else None
        is_whole, texts = False, [_bytes_of(node.options.get("pattern"))]
    elif name == "is_null" and len(node.arguments) == 1 and isinstance(node.arguments[0], _Field):
        of, is_whole = node.arguments[0], False
    else:
        return None
    named = of.path if of is not None else ()
    if named not in (("key",), ("value",)) or named[0] not in parts:
        return None
    part: Literal["key", "value"] = "key" if named == ("key",) else "value"
    if name == "is_null":
        return Criterion(part, None, "null")
    known = tuple(text for text in texts if text is not None)
    if not known or len(known) < len(texts):
        return None
    return Criterion(part, None, "texts", known, is_whole=is_whole)


def _truth(scalar: Any) -> bool:  # noqa: ANN401 - a scalar, or None
    return scalar is not None and bool(scalar.as_py())


def _bytes_of(scalar: Any) -> bytes | None:  # noqa: ANN401 - a scalar of any type
    """Return the bytes of a literal; None for a null, or for another type."""
    value = None if scalar is None else scalar.as_py()
    if isinstance(value, str):
        return value.encode()
    return value if isinstance(value, bytes) else None


def _integer(scalar: Any) -> tuple[int, int] | None:  # noqa: ANN401 - a scalar of any type
    """Return an integer, or a time in ms, rounded down and up; None for a null, or for another type."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import at every start of the command

    if not scalar.is_valid:
        return None
    if pa.types.is_integer(scalar.type):
        value = int(scalar.as_py())
        return value, value
    if pa.types.is_timestamp(scalar.type):
        factor, divisor = _PER_MS[scalar.type.unit]
        value = int(scalar.value) * factor
        return value // divisor, -(-value // divisor)
    return None


def _equals(column: pc.Expression, value: object) -> pc.Expression:
    return column.is_null() if value is None else column == value


def surviving(guarantees: Sequence[pc.Expression], expression: pc.Expression, schema: pa.Schema) -> list[int]:
    """Return the numbers of the guarantees under which rows may meet an expression, as Arrow simplifies it.

    A guarantee stands for a file with an invented name, which is not opened.
    """
    import pyarrow.dataset as ds  # noqa: PLC0415 - slow to import at every start of the command
    from pyarrow.fs import LocalFileSystem  # noqa: PLC0415 - the same

    form, files = ds.ParquetFileFormat(), LocalFileSystem()
    fragments = [form.make_fragment(str(i), files, guarantee) for i, guarantee in enumerate(guarantees)]
    found = ds.FileSystemDataset(fragments, schema, form, files).get_fragments(filter=expression)
    return [int(fragment.path) for fragment in found]
