"""The exit codes of the command, and the line about them in each verb's help."""

import re
import signal

DONE = 0
DAMAGE = 1
FAILURE = 2
WARNINGS = 3
# What each code means, whatever the verb.
MEANINGS = {
    DONE: "done, and nothing was found",
    DAMAGE: "damage or errors were found, or damage made the output incomplete",
    FAILURE: "could not run",
    WARNINGS: "warnings, or records are or may be lost",
}
OF_SIGNALS = "130, 143, 129"
MEANING_OF_SIGNALS = "stopped by SIGINT (Ctrl-C), SIGTERM or SIGHUP, after the usual cleanup"
# 128 and the number of SIGPIPE, which Windows does not have.
UNREAD = 141
MEANING_OF_UNREAD = "the reader of the output (`head`) has ended, so what was found is not known"
_LINE = "Exit codes: "


def exit_line(
    *, done: str | None = "done", damage: str | None = "damage was found", warnings: str | None = None
) -> str:
    """Return the line about exit codes in a verb's help; pass None for a code that it never returns.

    >>> exit_line()
    'Exit codes: 0 done; 1 damage was found; 2 could not run.'
    """
    of_verb = {DONE: done, DAMAGE: damage, FAILURE: MEANINGS[FAILURE], WARNINGS: warnings}
    return _LINE + "; ".join(f"{code} {text}" for code, text in of_verb.items() if text is not None) + "."


def named_in(line: str | None) -> set[int]:
    """Return the codes that a line of `exit_line` names.

    >>> named_in(exit_line(damage=None))
    {0, 2}
    """
    return {int(code) for code in re.findall(r"(?:^Exit codes:|;) (\d)", line or "")}


class Ended(KeyboardInterrupt):
    """A signal that asks the process to end; its argument is the number. Like an interrupt, it triggers the cleanup."""


def of_interrupt(interrupt: KeyboardInterrupt) -> int:
    """Return the exit code that a shell reports for a process ended by this signal."""
    return 128 + (interrupt.args[0] if isinstance(interrupt, Ended) else signal.SIGINT)
