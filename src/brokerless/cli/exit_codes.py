"""What the command ends with: 0 for done, or one of these."""

import signal

DAMAGE = 1
FAILURE = 2


class Ended(KeyboardInterrupt):
    """A signal that asks a process to end, with its number: what cleans up after an interrupt does so after it too."""


def of_interrupt(interrupt: KeyboardInterrupt) -> int:
    """Return what a shell says of a process that was ended by that signal."""
    return 128 + (interrupt.args[0] if isinstance(interrupt, Ended) else signal.SIGINT)
