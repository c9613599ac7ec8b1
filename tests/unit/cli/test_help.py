"""`--help`: a verb is found, and fits on a screen; a shell completes verbs and options."""

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from brokerless.cli.command import cli
from brokerless.cli.options import size
from support.verbs import verbs


@pytest.mark.parametrize("group", [[], ["cluster"], ["spark"]], ids=" ".join)
def test_without_a_verb_the_help_is_printed_as_it_is(run, group):
    """Its line ends were once escaped, as those of names in errors."""
    shown = run(*group)
    assert (shown.code, shown.out + shown.err) == (2, run(*group, "--help").out)


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


def test_every_size_is_given_and_shown_with_one_set_of_units(run):
    """KB is 1,000 bytes and KiB 1,024: a limit whose unit has two meanings is 7 % off for a GB."""
    assert "500MB is 500 * 10^6 bytes, 512MiB is 512 * 2^20" in " ".join(run("--help").out.split())
    sizes = [
        (*name, option.opts[0], option.default)
        for name, command in verbs()
        for option in command.params
        if getattr(option.type, "func", None) is size
    ]
    assert len(sizes) >= 6
    for *name, option, default in sizes:
        assert re.fullmatch(r"[1-9]\d*[KMG](i?)B", default), (name, option)
        assert f"[default: {default}]" in " ".join(run(*name, "--help").out.split())
        assert size(default) == size(re.sub("(?=[KMG])", " ", default))


def test_every_size_in_a_text_has_one_of_these_units():
    root = Path(__file__).parents[3]
    for path in (root / "README.md", *(root / "docs").rglob("*.md"), *(root / "src").rglob("*.py")):
        other = re.search(r"\b\d+ ?(?:[kmg]i?[bB]|[KMG]i?b|kB|[KMG]o)\b", path.read_text())
        assert other is None, (path, other)


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


@pytest.mark.parametrize("arguments", [["--version"], ["find", "--help"]])
def test_a_command_that_reads_nothing_imports_no_library(arguments):
    """It takes a third of the time that way."""
    code = (
        "import sys, atexit\n"
        "atexit.register(lambda: print([name for name in ('pyarrow', 'brokerless.public') if name in sys.modules]))\n"
        "from brokerless.cli import main\n"
        f"main({arguments})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
