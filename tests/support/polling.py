"""Waiting for what another process does."""

import time

PATIENCE = 240
"""Seconds that only a broken program takes, however busy the machine is."""


def until(condition, seconds=PATIENCE, *, pause=0.002, what="it never was so"):
    """Ask again and again until it is so, and return the answer."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, what
        time.sleep(pause)
    return found
