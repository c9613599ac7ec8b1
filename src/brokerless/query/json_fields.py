"""Conditions in SQL on the fields of JSON text: `value.customer.id = 42`.

DuckDB compares JSON with a number by casting it, which fails for a text and rounds a fraction. So a condition is parsed
by DuckDB itself, and each field is replaced by its value in the type of the constant that it is compared with.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    import duckdb

    Node = dict[str, Any]
    # The part, and the names and the numbers that lead to the field.
    Path = tuple[str | int, ...]

_EXTRACTS = ("ARRAY_EXTRACT", "STRUCT_EXTRACT")
_NUMBERS, _TRUTHS = {"INTEGER", "NUMERIC"}, {"BOOLEAN"}
_PLACE = "field_of_json"


def with_fields(connection: duckdb.DuckDBPyConnection, condition: str, parts: Collection[str]) -> str:
    """Return a condition in which the fields of these parts, whose columns are text, are taken from JSON.

    A field that is compared with numbers is null unless it is a number, and the same for truth values. In all other
    places it is text. Text that is no JSON has no fields.

    Raises:
        ValueError: a field is compared with something that has no known type.
    """
    statement = _parsed(connection, f"select ({condition}\n)")
    if statement is None:
        return condition
    query = statement["statements"][0]["node"]
    fields = _Fields(connection, {part.lower() for part in parts})
    query["select_list"] = [fields.as_truth(query["select_list"][0])]
    text = str(_one(connection, "select json_deserialize_sql(?)", json.dumps(statement)))
    return text.removeprefix("SELECT ")


class _Fields:
    """The fields of some parts, in the nodes of DuckDB's parser."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, parts: Collection[str]) -> None:
        self._connection, self._parts = connection, parts

    def as_truth(self, node: Node) -> Node:
        """Return a node that stands for a condition."""
        path = self._path(node)
        return self._replaced(node) if path is None else self._typed(path, _TRUTHS, lambda one: one)

    def _replaced(self, node: Any) -> Any:  # noqa: ANN401 - JSON
        """Return a node, or a value in one, with its fields."""
        if isinstance(node, list):
            return [self._replaced(one) for one in node]
        if not isinstance(node, dict):
            return node
        path = self._path(node)
        if path is not None:
            return self._node(_text(path))
        if node.get("class") == "CONJUNCTION" or node.get("type") == "OPERATOR_NOT":
            return {**node, "children": [self.as_truth(child) for child in node["children"]]}
        if node.get("class") in ("COMPARISON", "BETWEEN") or node.get("type") == "COMPARE_IN":
            return self._compared(node)
        return {name: self._replaced(value) for name, value in node.items()}

    def _compared(self, node: Node) -> Node:
        operands = list(_operands(node))
        named = [place for place in operands if self._path(_at(node, place)) is not None]
        if not named:
            return {name: self._replaced(value) for name, value in node.items()}
        others = [_at(node, place) for place in operands if place not in named]
        if len(named) > 1 or not all(other.get("class") in ("CONSTANT", "CAST") for other in others):
            path = self._path(_at(node, named[0])) or ()
            name = ".".join(map(str, path))
            cast = f"try_cast({name} as double)"
            raise ValueError(f"the field {name} has no type: compare it with a constant, or cast it, as {cast}")
        kinds = {other["literal"]["kind"] if other["class"] == "CONSTANT" else "CAST" for other in others}
        if not (kinds <= _NUMBERS or kinds <= _TRUTHS):
            for place in operands:
                node = _put(node, place, _as_text(_at(node, place)))
        path = self._path(_at(node, named[0])) or ()
        return self._typed(path, kinds, lambda field: _put(node, named[0], field))

    def _typed(self, path: Path, kinds: set[str], put: Callable[[Node], Node]) -> Node:
        """Return a node with a field in the type of the constants of some kinds."""
        text, kind = _text(path), f"json_type({_json(path)})"
        if kinds <= _TRUTHS:
            return put(self._node(f"case when {kind} = 'BOOLEAN' then {text}::boolean end"))
        if not kinds <= _NUMBERS:
            return put(self._node(text))
        # Integers are not compared as doubles, in which neighbors may be equal.
        typed = self._node(
            f"case when {kind} in ('BIGINT', 'UBIGINT') then {_PLACE}_0 when {kind} = 'DOUBLE' then {_PLACE}_1 end"
        )
        for number, of in enumerate(("hugeint", "double")):
            typed = _filled(typed, f"{_PLACE}_{number}", put(self._node(f"{text}::{of}")))
        return typed

    def _node(self, expression: str) -> Node:
        parsed = _parsed(self._connection, f"select {expression}")
        if parsed is None:
            raise ValueError(expression)
        node: Node = parsed["statements"][0]["node"]["select_list"][0]
        return node

    def _path(self, node: Any) -> Path | None:  # noqa: ANN401 - JSON
        """Return the path of a field of JSON; None for any other node."""
        if not isinstance(node, dict):
            return None
        if node.get("class") == "COLUMN_REF":
            first, *names = node["column_names"]
            return (first, *names) if first.lower() in self._parts and names else None
        if node.get("type") not in _EXTRACTS:
            return None
        of, name = node["children"]
        path = self._path(of)
        if path is None and of.get("class") == "COLUMN_REF" and len(of["column_names"]) == 1:
            path = tuple(of["column_names"]) if of["column_names"][0].lower() in self._parts else None
        literal = name.get("literal", {}) if name.get("class") == "CONSTANT" else {}
        if path is None or literal.get("kind") not in ("STRING", "INTEGER"):
            return None
        if literal["kind"] == "STRING":
            return (*path, literal["text"])
        # Lists of DuckDB begin with 1.
        return (*path, int(literal["text"]) - 1) if int(literal["text"]) > 0 else None


def _operands(node: Node) -> Iterator[tuple[str, int | None]]:
    """Yield the places of the operands of a comparison: a name, and a number in a list."""
    if node["type"] == "COMPARE_IN":
        yield from (("children", number) for number in range(len(node["children"])))
    elif node["class"] == "BETWEEN":
        yield from ((name, None) for name in ("input", "lower", "upper"))
    else:
        yield from ((name, None) for name in ("left", "right"))


def _at(node: Node, place: tuple[str, int | None]) -> Node:
    name, number = place
    found: Node = node[name] if number is None else node[name][number]
    return found


def _put(node: Node, place: tuple[str, int | None], operand: Node) -> Node:
    name, number = place
    if number is None:
        return {**node, name: operand}
    return {**node, name: [operand if i == number else one for i, one in enumerate(node[name])]}


def _as_text(node: Node) -> Node:
    """Return a constant as text, and any other node as it is."""
    literal = node.get("literal", {})
    is_typed = node.get("class") == "CONSTANT" and literal.get("kind") in _NUMBERS | _TRUTHS
    return {**node, "literal": {**literal, "kind": "STRING"}} if is_typed else node


def _filled(node: Any, name: str, by: Node) -> Any:  # noqa: ANN401 - JSON
    """Return a node with another in place of a column."""
    if isinstance(node, list):
        return [_filled(one, name, by) for one in node]
    if not isinstance(node, dict):
        return node
    if node.get("column_names") == [name]:
        return by
    return {key: _filled(value, name, by) for key, value in node.items()}


def _json(path: Path) -> str:
    """Return the field as JSON, by a JSON pointer (RFC 6901)."""
    part, *names = path
    pointer = "".join("/" + str(name).replace("~", "~0").replace("/", "~1") for name in names).replace("'", "''")
    return f"try(json_extract(\"{part}\", '{pointer}'))"


def _text(path: Path) -> str:
    return f"({_json(path)} ->> '$')"


def _parsed(connection: duckdb.DuckDBPyConnection, query: str) -> Any:  # noqa: ANN401 - JSON
    """Return a query as DuckDB's parser sees it; None if it does not parse."""
    found = json.loads(_one(connection, "select json_serialize_sql(?)", query))
    return None if found["error"] else found


def _one(connection: duckdb.DuckDBPyConnection, query: str, given: str) -> Any:  # noqa: ANN401 - of any type
    (found,) = connection.execute(query, [given]).fetchall()[0]
    return found
