"""Run the command in this process."""

from typing import NamedTuple

import pytest

from brokerless.cli import main


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(capfd):
    """Return a function that runs the command with some arguments."""

    def run(*arguments):
        capfd.readouterr()
        with pytest.raises(SystemExit) as exited:
            main([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        return Result(exited.value.code, captured.out, captured.err)

    return run
