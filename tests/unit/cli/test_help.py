"""`--help`: a verb is found, and fits on a screen; a shell completes verbs and options."""

import os
import subprocess
import sys

import click
import pytest

from brokerless.cli.command import cli


def verbs(group=cli, prefix=()):
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from verbs(command, (*prefix, name))
        else:
            yield (*prefix, name), command


def test_help_lists_each_verb_once_in_a_line_of_its_own(run):
    lines = run("--help").out.splitlines()
    assert len(lines) <= 55
    assert max(map(len, lines)) <= 80
    for name in cli.commands:
        assert len([line for line in lines if line.startswith(f"  {name} ")]) == 1, name


@pytest.mark.parametrize(
    ("name", "command"), list(verbs()), ids=lambda one: " ".join(one) if isinstance(one, tuple) else ""
)
def test_a_verb_explains_itself_and_all_its_options(run, name, command):
    assert command.get_short_help_str(100).endswith(".")
    shown = run(*name, "--help")
    assert shown.code == 0
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            assert option.help, f"{' '.join(name)} {option.opts[0]}"
            assert option.opts[0] in shown.out


@pytest.mark.parametrize(
    ("words", "found"),
    [("brokerless res", ["rescue"]), ("brokerless repair --o", ["--output"]), ("brokerless spark exp", ["export"])],
)
def test_a_shell_completes_verbs_and_options(words, found):
    environment = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")), "_BROKERLESS_COMPLETE": "bash_complete"}
    command = [sys.executable, "-m", "brokerless"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | environment)
    assert [line.partition(",")[2] for line in said.stdout.splitlines()] == found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_script(shell):
    command = [sys.executable, "-m", "brokerless"]
    environment = os.environ | {"_BROKERLESS_COMPLETE": f"{shell}_source"}
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert "_BROKERLESS_COMPLETE" in said.stdout
