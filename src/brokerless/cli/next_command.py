"""The command to run next: it repeats the options of the running one, so that it does the same work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from brokerless.cli import terminal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_WORDS = "brokerless.words"


def remember(context: click.Context, words: Sequence[str]) -> None:
    """Keep the words after a verb as typed: a parsed value such as -1h no longer has its text."""
    context.meta[_WORDS] = tuple(words)


def say_next(verb: str, paths: Iterable[str], *words: str, without: Iterable[str] = ()) -> None:
    """Print on stderr the command to run next; for the arguments see `next_command`."""
    terminal.say(f"next: {next_command(verb, paths, *words, without=without)}", err=True)


def next_command(verb: str, paths: Iterable[str], *words: str, without: Iterable[str] = ()) -> str:
    """Return a command: `verb` on these paths, with each given option that it has too.

    Args:
        verb: the next verb.
        paths: its directories.
        words: more options.
        without: the parameters whose options are left out, such as "dry_run".
    """
    context = click.get_current_context()
    following = context.find_root().command
    assert isinstance(following, click.Group)
    known = {_identity(option) for option in following.commands[verb].params if option.name not in set(without)}
    repeated = [word for option, given in _given(context) if _identity(option) in known for word in given]
    # A name that begins with a dash would be an option.
    places = [f"./{path}" if path.startswith("-") else path for path in paths]
    return terminal.as_typed("brokerless", verb, *places, *repeated, *words)


def _identity(option: click.Parameter) -> tuple[str | None, tuple[str, ...]]:
    """Return what two verbs share if the option means the same: --all has another name for what it shows."""
    return option.name, tuple(option.opts)


def _given(context: click.Context) -> Iterator[tuple[click.Option, list[str]]]:
    """Yield the given options in their order, each with its words."""
    values, _, order = context.command.make_parser(context).parse_args(list(context.meta.get(_WORDS, ())))
    options = [one for one in order if isinstance(one, click.Option)]
    for option in dict.fromkeys(options):
        flag, value = option.opts[0], values[option.name]
        if option.is_flag:
            # Of --quick --deep, which share a parameter, the last one counts.
            if option.is_bool_flag or value == option.flag_value:
                yield option, [flag]
        elif option.multiple:
            yield option, [word for each in value for word in (flag, *_words(each))]
        else:
            yield option, [flag, *_words(value)]


def _words(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else (value,)
