"""The `brokerless` command: one function per verb, each in the file of its name, without logic of its own.

Data goes to stdout, messages to stderr. `exit_codes.py` defines the exit codes.

Verbs import the library inside their functions, so that `--help` and mistyped options answer at once. `main` imports
the verbs inside its function too, so that an interrupt during the import shows no traceback.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from brokerless.cli.exit_codes import of_interrupt

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit."""
    try:
        from brokerless.cli.command import run

        code = run(arguments)
    except KeyboardInterrupt as interrupt:
        for note in getattr(interrupt, "__notes__", ()):
            if sys.stderr is not None:
                sys.stderr.write(f"note: {note}\n")
        code = of_interrupt(interrupt)
    sys.exit(code)
