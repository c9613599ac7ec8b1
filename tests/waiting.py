"""Waiting for what another process does."""

import time


def until(condition, seconds=60):
    """Ask again and again until it is so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)
