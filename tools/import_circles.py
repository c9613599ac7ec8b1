"""Refuse Python modules that import each other: python tools/import_circles.py [PACKAGE_DIRECTORY ...].

Imports for type checkers and imports in functions count, too. To open a circle, move what both modules need into a
third one.
"""

from __future__ import annotations

import ast
import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

PACKAGES = ("src/brokerless", "src/pyspark_brokerless")


def import_graph(packages: Collection[Path]) -> dict[str, set[str]]:
    """Return, for each module of these packages, the modules of theirs that it imports.

    `from package import module` imports the module, not the package: it needs no name that the package defines.
    """
    paths = {_module_name(path, package): path for package in packages for path in package.rglob("*.py")}
    # Extension modules have a stub and import nothing of ours.
    extensions = {_module_name(path, package) for package in packages for path in package.rglob("*.pyi")} - paths.keys()
    known = paths.keys() | extensions
    graph = {name: set(_imports(name, path, known)) - {name} for name, path in paths.items()}
    return {**graph, **{name: set() for name in extensions}}


def _module_name(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(name: str, path: Path, known: Collection[str]) -> Iterator[str]:
    """Yield the known modules that a module imports, anywhere in its text."""
    package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            parents = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*parents, *([node.module] if node.module else [])])
            names = (f"{source}.{alias.name}" for alias in node.names)
            yield from (found for found in (name if name in known else source for name in names) if found in known)


def circles(graph: dict[str, set[str]]) -> list[tuple[list[str], list[str]]]:
    """Return each group of modules that reach each other by imports, sorted, and a shortest circle of its first one."""
    reached = {name: {last for last, _ in _walk(graph, name)} for name in graph}
    groups = {frozenset(other for other in reached[name] if name in reached[other]) for name in graph} - {frozenset()}
    found = []
    for group in sorted(map(sorted, groups)):
        circle = next(path for last, path in _walk(graph, group[0]) if last == group[0])
        found.append((group, circle))
    return found


def _walk(graph: dict[str, set[str]], start: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the modules that a module imports, directly or through others, each with a shortest path to it."""
    left, seen = deque([[start]]), set()
    while left:
        path = left.popleft()
        for name in sorted(graph[path[-1]] - seen):
            seen.add(name)
            left.append([*path, name])
            yield name, left[-1]


def main(arguments: list[str]) -> int:
    """Print the circles. Return 1 if there is one."""
    found = circles(import_graph([Path(argument) for argument in arguments or PACKAGES]))
    for group, circle in found:
        print(f"error: these {len(group)} modules import each other: {', '.join(group)}")
        print(f"  for example {' -> '.join(circle)}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
