"""The exit codes of the command: 0 for done, or one of these."""

import signal

DAMAGE = 1
FAILURE = 2
WARNINGS = 3


class Ended(KeyboardInterrupt):
    """A signal that asks the process to end; its argument is the number. As an interrupt, it triggers the cleanup."""


def of_interrupt(interrupt: KeyboardInterrupt) -> int:
    """Return the exit code that a shell reports for a process ended by this signal."""
    return 128 + (interrupt.args[0] if isinstance(interrupt, Ended) else signal.SIGINT)
