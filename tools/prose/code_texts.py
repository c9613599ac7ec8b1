"""Usage: code_texts.py DIRECTORY. Write the docstrings and Rust's doc comments to files there, for the prose linter."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[2]
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each docstring, and of each text below an attribute, without examples."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for statement in node.body if isinstance(node, _DOCUMENTED) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                text = statement.value.value
                if isinstance(text, str):
                    kept = (line.strip() for line in text.splitlines() if not re.match(r"\s*(?:>>>|\.\.\. )", line))
                    yield statement.lineno, "\n".join(kept)


def doc_comments(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each doc comment."""
    lines: list[str] = []
    for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), ""], 1):
        found = re.match(r"\s*//[/!] ?(.*)", line)
        if found:
            lines.append(found[1])
        elif lines:
            yield number - len(lines), "\n".join(lines)
            lines = []


def written(texts: Iterable[tuple[Path, int, str]]) -> str:
    """Return texts with their places as headings."""
    return "\n".join(f"## {path.relative_to(ROOT)}:{line}\n\n{text}\n" for path, line, text in texts)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    sources = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.pyi")])
    (target / "docstrings.md").write_text(written((path, *one) for path in sources for one in docstrings(path)))
    crates = sorted(path for path in (ROOT / "rust").rglob("*.rs") if "target" not in path.parts)
    (target / "rust.md").write_text(written((path, *one) for path in crates for one in doc_comments(path)))
