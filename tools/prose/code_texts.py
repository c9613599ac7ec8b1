"""Usage: code_texts.py DIRECTORY. Write docstrings, Rust's doc comments and messages to files, for the prose linter."""

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


def messages(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each string that a user may read: of several words, and no docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    alone = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "N" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone | parts:
            text = node.value
        else:
            continue
        if _is_prose(text):
            yield node.lineno, text


def native_messages(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each of Rust's strings that a user may read."""
    source = path.read_text(encoding="utf-8")
    for found in re.finditer(r'(?m)^\s*//.*$|"((?:[^"\\]|\\.)*)"', source):
        text = re.sub(r"\\\s*\n\s*", "", found[1] or "")
        if _is_prose(text):
            yield source.count("\n", 0, found.start()) + 1, re.sub(r"\{[^}]*\}", "N", text)


def _is_prose(text: str) -> bool:
    return len(re.findall(r"[A-Za-z]{2,}(?=[ ,.:;]|$)", text)) > 3 and " " in text


def written(texts: Iterable[tuple[Path, int, str]]) -> str:
    """Return texts with their places as headings."""
    return "\n".join(f"## {path.relative_to(ROOT)}:{line}\n\n{text}\n" for path, line, text in texts)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    sources = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.pyi")])
    crates = sorted(path for path in (ROOT / "rust").rglob("*.rs") if "target" not in path.parts)
    for name, paths, texts in (
        ("docstrings", sources, docstrings),
        ("messages", sources, messages),
        ("rust", crates, doc_comments),
        ("native_messages", [path for path in crates if "tests" not in path.parts], native_messages),
    ):
        (target / f"{name}.md").write_text(written((path, *one) for path in paths for one in texts(path)))
