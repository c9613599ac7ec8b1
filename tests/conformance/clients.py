"""Kafka clients that nobody here wrote, all with the same jobs.

A job is `read` or `offsets`, with `at`, `isolation` and `partitions`, which has an entry a partition:

- `read`, start "beginning" (null), "time" (ms) or "group" (an offset, which the client commits first): the rows from
  there to the end.
- `offsets`, timestamps, of which -1 to -5 are Kafka's special ones: a row an answer. A client leaves out those that it
  cannot ask for.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from kafka import BUILD, Program, again, client_command

from support.tally import tally

READER = Path(__file__).parent / "python" / "reader.py"
PYTHON = {name: [sys.executable, READER, name] for name in ("confluent-kafka", "aiokafka", "kafka-python")}
JAVA = {f"java-{version}": client_command(version) for version in ("4.4.0", "4.1.0", "3.9.2", "2.8.2")}
FRANZ_GO = BUILD / "franz-go"
HAS_GO = shutil.which("go") is not None
COMMANDS = {**JAVA, **PYTHON, **({"franz-go": [FRANZ_GO]} if HAS_GO else {})}
EACH_CLIENT = [again(name) if name in ("java-4.1.0", "java-3.9.2") else name for name in COMMANDS]


class Clients:
    """The clients by name, each a process that starts when it is asked for."""

    def __init__(self):
        self._started = {}

    def __getitem__(self, name):
        if name not in self._started:
            self._started[name] = Program(name, *COMMANDS[name])
        return self._started[name]

    def close(self):
        for program in self._started.values():
            program.close()


class Member:
    """A member of a group in a process of its own: it reads, commits and rests for some milliseconds, until it dies.

    Args:
        name: the client's.
        output: a file for what it says.
        job: `at`, `isolation`, `group`, `topics`, `pause`.
    """

    def __init__(self, name, output, **job):
        self._output = output
        tally("client", name)
        with output.open("w") as file:
            self._process = subprocess.Popen(
                [*map(str, COMMANDS[name])], stdin=subprocess.PIPE, stdout=file, stderr=subprocess.DEVNULL, text=True
            )
        self._process.stdin.write(json.dumps({"do": "member", **job}) + "\n")
        self._process.stdin.flush()

    @property
    def said(self):
        """What it has said so far."""
        text = self._output.read_text()
        found = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
        assert not [row for row in found if "error" in row], found
        return found

    @property
    def rows(self):
        return [row for row in self.said if "offset" in row]

    @property
    def assigned(self):
        """How many partitions it has."""
        return next((row["assigned"] for row in reversed(self.said) if "assigned" in row), 0)

    def kill(self):
        """With SIGKILL: it does not leave its group."""
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
