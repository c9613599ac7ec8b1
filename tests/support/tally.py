"""What the tests tried, and how often: lines of JSON in the file that `BROKERLESS_TALLY` names (docs/reliability.md).

Each line names the test, so that a count is of tests that passed. `rust/jvm/tests/fuzz` writes such lines too.
"""

import json
import os


def tally(what, of="", times=1):
    """Count something that the running test tries; `of` is its kind."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    note({"what": what, "of": str(of), "times": times, "test": test})


def note(line):
    """Append a line. Several processes do so at once: a short write to the end of a file is whole."""
    if path := os.environ.get("BROKERLESS_TALLY"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
