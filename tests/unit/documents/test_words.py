"""One word for one thing: the options of verbs and the arguments of public functions are those of a table."""

import dataclasses
import inspect
import re
from pathlib import Path

import click
import pytest

import brokerless as bl
from brokerless import spark
from brokerless.cli.command import cli

ROOT = Path(__file__).parents[3]
# What operations take and give among themselves, and settings of topics, which have Kafka's names.
OF_OPERATIONS = {"plan", "state", "states", "share"}
OF_SETTINGS = {"name", "names", "value", "sources", "are_guessed"}


def table():
    """Return the words of the command line and those of Python."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text.partition("## Words of the surface")[2].partition("\n## ")[0]
    options, arguments = [], []
    for line in section.splitlines():
        if line.startswith("| ") and not line.startswith(("| command line", "| ---")):
            of_command, of_python, means = (cell.strip() for cell in line.split("|")[1:4])
            assert means
            options += re.findall(r"`(--[a-z-]+)`", of_command)
            arguments += re.findall(r"`\**([a-z_]+)`", of_python)
            # A word for a single one, or for another use.
            arguments += re.findall(r"`([a-z_]+)`", means)
    return options, arguments


OPTIONS, ARGUMENTS = table()


def commands(group=cli, prefix=""):
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def functions():
    for module, where in ((bl, ""), (spark, "spark.")):
        for name in module.__all__:
            found = getattr(module, name)
            if inspect.isclass(found):
                yield f"{where}{name}", found
                for method, function in inspect.getmembers(found, inspect.isfunction):
                    if not method.startswith("_"):
                        yield f"{where}{name}.{method}", function
            elif callable(found):
                yield f"{where}{name}", found


def test_a_word_has_one_line():
    assert len(OPTIONS) == len(set(OPTIONS))


def test_the_table_has_no_option_that_is_gone():
    used = {option for _, command in commands() for parameter in command.params for option in parameter.opts}
    assert set(OPTIONS) <= used


@pytest.mark.parametrize(("name", "command"), list(commands()), ids=lambda one: one if isinstance(one, str) else "")
def test_every_option_is_in_the_table(name, command):
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            words = [option for option in parameter.opts if len(option) > len("-i")]
            assert len(words) == 1, f"{name}: {parameter.opts} are two words"
            assert words[0] in OPTIONS, f"{name} {words[0]}"


@pytest.mark.parametrize(("name", "function"), list(functions()), ids=lambda one: one if isinstance(one, str) else "")
def test_every_argument_is_in_the_table(name, function):
    if inspect.isclass(function) and issubclass(function, BaseException):
        return
    of_settings = name.startswith("TopicConfig")
    settings = {field.name for field in dataclasses.fields(bl.TopicConfig)} | OF_SETTINGS
    for argument in inspect.signature(function).parameters.values():
        known = {"self", *ARGUMENTS, *OF_OPERATIONS, *(settings if of_settings else ())}
        assert argument.name in known, f"{name}({argument.name})"


@pytest.mark.parametrize(
    ("option", "argument"),
    [("--output", "output"), ("--as-of", "as_of"), ("--memory", "memory"), ("--isolation-level", "isolation_level")],
)
def test_an_option_reaches_the_verb_under_its_word(option, argument):
    """In the code of a verb, too, it has no other name."""
    found = [
        (name, parameter.name)
        for name, command in commands()
        for parameter in command.params
        if option in parameter.opts and parameter.name != argument
    ]
    # A point is a time or an offset.
    assert [one for one in found if one[1] != "point"] == []


def test_progress_has_one_signature():
    for name, function in functions():
        for argument in inspect.signature(function).parameters.values() if not inspect.isclass(function) else ():
            if argument.name == "progress" and argument.default is not argument.empty:
                assert len(inspect.signature(argument.default).parameters) == 2, name


def test_messages_name_options_by_their_words():
    """A message words an option for the face through which the call came."""
    named = set()
    for path in (ROOT / "src/brokerless").rglob("*.py"):
        text = path.read_text()
        if path.name != "wording.py":
            named |= set(re.findall(r"""(?<![.\w])option\(["']([a-z_]+)["']""", text))
            named |= {
                name
                for many in re.findall(r"Remedy\([^)]*\[([^]]*)\]", text)
                for name in re.findall(r'\("([a-z_]+)"', many)
            }
    settings = {field.name for field in dataclasses.fields(bl.TopicConfig)}
    assert len(named) > 20
    options = {option.strip("-").replace("-", "_") for option in OPTIONS}
    assert named - {*ARGUMENTS} - options - settings == set()
