"""The `brokerless` command: one function a verb, each in the file of its name, no logic of its own.

Data goes to stdout, words to stderr. Exit codes: 0 done, 1 damage or findings, 2 could not run; and of what a signal
ended, 128 and its number.
The library is imported inside the verbs: `--help` and a mistyped option answer at once. So are the verbs inside `main`:
an interrupt meanwhile is no traceback.
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
        from brokerless.cli.group import run

        code = run(arguments)
    except KeyboardInterrupt as interrupt:
        for note in getattr(interrupt, "__notes__", ()):
            if sys.stderr is not None:
                sys.stderr.write(f"note: {note}\n")
        code = of_interrupt(interrupt)
    sys.exit(code)
