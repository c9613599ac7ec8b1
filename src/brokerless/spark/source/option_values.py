"""Names and value types that the options of the source and of the sink share."""

from __future__ import annotations

import difflib
import os
import re
from typing import TYPE_CHECKING

from brokerless.arguments import unknown
from brokerless.notes import note
from brokerless.wording import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# An option this similar to one that changes the rows is a typing mistake, not another network setting.
_SLIP = 0.85


def canonical(
    options: Mapping[str, str], known: Sequence[str], ignored: Sequence[str], honoured_kafka: Sequence[str] = ()
) -> dict[str, str]:
    """Return the options under their canonical names, and warn once about options without effect.

    Args:
        options: the options, as Spark passes them; case does not matter.
        known: the names that have an effect.
        ignored: Spark's names that have no effect here. Every other `kafka.*` option has no effect either.
        honoured_kafka: the `kafka.*` options among the known ones.

    Raises:
        ValueError: an option is unknown; the message suggests the nearest name.
    """
    names = {name.lower(): name for name in known}
    without_effect = {name.lower(): name for name in ignored}
    given, idle = {}, []
    for option, value in options.items():
        key = option.lower()
        if key in names:
            given[names[key]] = value.strip()
        elif key in without_effect:
            idle.append(without_effect[key])
        elif key.startswith("kafka.") and not difflib.get_close_matches(key, honoured_kafka, cutoff=_SLIP):
            idle.append(option)
        else:
            raise unknown("option", option, (*known, *ignored))
    if idle:
        note(f"options without effect on logs at rest: {', '.join(sorted(idle))}")
    return given


def missing_path(options: Mapping[str, str], kind: str) -> ValueError:
    """Build the error for options without a path: with the line to change if they name servers, as Spark's Kafka does.

    >>> str(missing_path({}, "a Kafka log directory"))
    'option path is missing: give a Kafka log directory'
    """
    servers = next((value for name, value in options.items() if name.lower() == "kafka.bootstrap.servers"), None)
    if servers is None:
        return ValueError(f"option path is missing: give {kind}")
    return ValueError(
        f"option path is missing: brokerless uses the files of a broker, and connects to none. Give {kind}: "
        f'.option("path", "/kafka/data") in place of .option("kafka.bootstrap.servers", "{printable(servers)}")'
    )


def local(path: str | os.PathLike[str]) -> str:
    """Return a local path for a `file:` URL; leave other paths and URLs unchanged."""
    return re.sub(r"^file:/+", "/", os.fspath(path), flags=re.IGNORECASE)


def choice(given: dict[str, str], option: str, values: tuple[str, ...]) -> str:
    """Return the value of an option that allows only `values`; the first is the default."""
    value = given.get(option, values[0]).lower()
    if value not in values:
        raise ValueError(f"option {option} must be {' or '.join(values)}, not {given[option]!r}")
    return value


def boolean(given: dict[str, str], option: str, *, default: bool) -> bool:
    """Return the value of a true or false option."""
    values = ("true", "false") if default else ("false", "true")
    return choice(given, option, values) == "true"


def positive(given: dict[str, str], option: str, *, most: int | None = None) -> int | None:
    """Return an option's number, from 1 to `most`; None if the option is not given."""
    if option not in given:
        return None
    number = integer(given[option], option)
    if number <= 0:
        raise ValueError(f"option {option} must be positive, not {number}")
    if most is not None and number > most:
        raise ValueError(f"option {option} must be at most {most}, not {number}")
    return number


def integer(text: str, option: str) -> int:
    """Parse an option's whole number."""
    if not re.fullmatch(r"[+-]?\d+", text):
        raise ValueError(f"option {option} must be a whole number, not {text!r}")
    return int(text)
