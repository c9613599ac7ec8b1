"""Options of the form NAME=VALUE."""

from __future__ import annotations

import click


def pair(text: str) -> tuple[str, str]:
    """Parse NAME=VALUE; an option type."""
    name, is_there, value = text.partition("=")
    if not is_there:
        raise click.BadParameter(f"{text!r} is not a pair: give NAME=VALUE")
    return name, value
