"""Usage: help_texts.py FILE. Write the help of every verb to FILE, for the prose linter."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from brokerless.cli.command import cli

if TYPE_CHECKING:
    from collections.abc import Iterator


def helps(command: click.Command, name: str) -> Iterator[str]:
    """Yield the text of a command and of its subcommands: what it does, and each option."""
    yield f"# {name}\n\n{command.help}\n"
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.help:
            yield f"- `{parameter.opts[0]}`: {parameter.help}\n"
    for subcommand in command.commands.values() if isinstance(command, click.Group) else ():
        yield from helps(subcommand, f"{name} {subcommand.name}")


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join(helps(cli, "brokerless")))
