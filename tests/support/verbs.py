"""The verbs of the command, and the exit codes that their help names."""

import click

from brokerless.cli.command import cli
from brokerless.cli.exit_codes import named_in


def verbs(group=cli, prefix=()):
    """Yield the words of each verb, and its command."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from verbs(command, (*prefix, name))
        else:
            yield (*prefix, name), command


def check_code(arguments, code):
    """Fail if a verb has exited with a code that its help does not name."""
    verb = cli
    for argument in map(str, arguments):
        verb = getattr(verb, "commands", {}).get(argument, verb)
    is_known = hasattr(verb, "commands") or code in named_in(verb.epilog) or code > 128
    assert is_known or (code == 0 and "--help" in arguments), f"{arguments}: exit code {code} is not in the help"
