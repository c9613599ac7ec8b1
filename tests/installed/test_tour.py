"""The README, typed by somebody who has the wheel and the examples."""

import doctest
import re
import subprocess
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text()
COMMANDS = re.findall(r"^\$ (brokerless .*)\n((?:(?!```).*\n)*)", README, flags=re.MULTILINE)
PAIRS = [pytest.param(*pair, id=pair[0]) for pair in COMMANDS]


@pytest.mark.parametrize(("command", "shown"), PAIRS)
def test_a_command_prints_what_is_shown(examples, environment, command, shown):
    done = subprocess.run(
        command, shell=True, cwd=examples, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == (shown, 1 if "error" in shown else 0), done.stderr


def test_the_python_session_prints_what_is_shown(examples, monkeypatch):
    monkeypatch.chdir(examples)
    session = "\n".join(re.findall(r"^```pycon\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL))
    example = doctest.DocTestParser().get_doctest(session, {}, "README.md", "README.md", 0)
    runner = doctest.DocTestRunner()
    runner.run(example)
    assert (runner.failures, runner.tries > 3) == (0, True)


def test_the_readme_shows_commands_of_each_job():
    assert {command.split()[1] for command, _ in COMMANDS} >= {"ls", "read", "offsets", "convert", "rescue"}
