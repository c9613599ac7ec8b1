"""Examples of docstrings as code: an extension of Griffe."""

from __future__ import annotations

import re
from typing import Any

import griffe

_PATHS = {
    "SAMPLE": "the directory of a partition, such as `examples/data/headers-0`",
    "SAMPLE_DIR": "a log directory, such as `examples/data`",
    "CLUSTER_DIR": "a log directory of a cluster, such as `examples/incident`",
    "NEW": "a directory that does not exist yet",
    "NEW_DIR": "a directory that does not exist yet",
}
"""What the names of `tests/unit/documents/test_doctests.py` stand for. Each public name has a page of its own."""
_EXAMPLE = re.compile(r"(?m)^( *)>>> .*\n?(?:^\1(?!$).*\n?)*")


class Doctests(griffe.Extension):
    """Fence each example, so that Markdown does not join its lines."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:  # noqa: ANN401, ARG002 - Griffe's own signature
        """Fence the examples of a docstring."""
        if obj.docstring:
            obj.docstring.value = _EXAMPLE.sub(_fenced, obj.docstring.value)


def _fenced(match: re.Match[str]) -> str:
    indent = match[1]
    used = [name for name in _PATHS if re.search(rf"\b{name}\b", match[0])]
    meanings = " and ".join(f"`{name}` is {_PATHS[name]}" for name in used)
    note = f"\n{indent}Here {meanings}.\n" if used else ""
    return f"{indent}```pycon\n{match[0].rstrip()}\n{indent}```\n{note}"
