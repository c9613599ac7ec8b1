"""The README, typed by somebody who has the wheel and the examples."""

import doctest
import re
import subprocess
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text()
SESSIONS = re.findall(r"^```console\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.*)\n", flags=re.MULTILINE)


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.splitlines()[0].removeprefix("$ "))
def test_a_session_prints_what_is_shown(examples, environment, session):
    typed = []
    for command in COMMAND.findall(session):
        done = subprocess.run(
            command, shell=True, cwd=examples, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == (1 if "error" in done.stdout else 0), done.stderr
        typed.append(f"$ {command}\n{done.stdout}")
    assert "".join(typed) == session


def test_the_python_session_prints_what_is_shown(examples, monkeypatch):
    monkeypatch.chdir(examples)
    session = "\n".join(re.findall(r"^```pycon\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL))
    example = doctest.DocTestParser().get_doctest(session, {}, "README.md", "README.md", 0)
    runner = doctest.DocTestRunner()
    runner.run(example)
    assert (runner.failures, runner.tries > 3) == (0, True)


def test_the_readme_shows_commands_of_each_job():
    verbs = re.findall(r"^\$.*\bbrokerless (\w+)", "".join(SESSIONS), flags=re.MULTILINE)
    assert {*verbs} >= {"produce", "ls", "read", "offsets", "convert", "rescue"}
