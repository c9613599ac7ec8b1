"""Examples of docstrings as code: an extension of Griffe."""

from __future__ import annotations

import re
from typing import Any

import griffe

_PATHS = {
    "SAMPLE": "examples/data/headers-0",
    "SAMPLE_DIR": "examples/data",
    "CLUSTER_DIR": "examples/incident",
    "NEW": "new",
    "NEW_DIR": "new-data",
}
"""What a reader types in a clone for the names of `tests/unit/documents/test_doctests.py`."""
_EXAMPLE = re.compile(r"(?m)^( *)>>> .*\n?(?:^\1(?!$).*\n?)*")


class Doctests(griffe.Extension):
    """Fence each example, so that Markdown does not join its lines."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:  # noqa: ANN401, ARG002 - Griffe's own signature
        """Fence the examples of a docstring."""
        if obj.docstring:
            obj.docstring.value = _EXAMPLE.sub(_fenced, obj.docstring.value)


def _fenced(match: re.Match[str]) -> str:
    indent = match[1]
    named = "|".join(_PATHS)
    example = re.sub(rf"\{{({named})\}}", lambda found: _PATHS[found[1]], match[0].rstrip())
    example = re.sub(r'\bf("[^"{}]*")', r"\1", example)
    example = re.sub(rf"\b({named})\b", lambda found: f'"{_PATHS[found[1]]}"', example)
    return f"{indent}```pycon\n{example}\n{indent}```\n"
