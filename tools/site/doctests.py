"""Examples of docstrings as code: an extension of Griffe."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?m)^( *)>>> .*\n?(?:^\1(?!$).*\n?)*")


class Doctests(griffe.Extension):
    """Fence each example, so that Markdown does not join its lines."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:  # noqa: ANN401, ARG002 - Griffe's own signature
        """Fence the examples of a docstring."""
        if obj.docstring:
            obj.docstring.value = _EXAMPLE.sub(_fenced, obj.docstring.value)


def _fenced(match: re.Match[str]) -> str:
    indent = match[1]
    return f"{indent}```pycon\n{match[0].rstrip()}\n{indent}```\n"
