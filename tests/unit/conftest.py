"""Run the command in this process."""

from typing import NamedTuple

import pytest

from brokerless.cli import main
from support.verbs import check_code


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(capfd):
    """Return a function that runs the command with some arguments. It exits with a code that its help names."""

    def run(*arguments):
        capfd.readouterr()
        with pytest.raises(SystemExit) as exited:
            main([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        check_code(arguments, exited.value.code)
        return Result(exited.value.code, captured.out, captured.err)

    return run
