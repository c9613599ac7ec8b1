"""The commands of the README, and the Python sessions of pages, print what is shown."""

import doctest
import re
import shlex
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()
COMMANDS = re.findall(r"^\$ brokerless (.*)\n((?:(?!```).*\n)*)", README, flags=re.MULTILINE)


@pytest.fixture
def clone(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "examples/data", tmp_path / "examples/data")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("clone")
@pytest.mark.parametrize(("command", "shown"), COMMANDS)
def test_a_command_prints_what_is_shown(run, command, shown):
    result = run(*shlex.split(command))
    assert (result.code, result.out) == (0, shown)


@pytest.mark.usefixtures("clone")
@pytest.mark.parametrize("page", ["README.md", "docs/guides/notebooks.md"])
def test_a_python_session_prints_what_is_shown(page):
    session = "\n".join(re.findall(r"^```pycon\n(.*?)^```", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL))
    example = doctest.DocTestParser().get_doctest(session, {}, page, page, 0)
    runner = doctest.DocTestRunner()
    runner.run(example)
    assert (runner.failures, runner.tries) == (0, len(example.examples))
    assert example.examples


def test_the_readme_shows_commands():
    assert len(COMMANDS) >= 4
