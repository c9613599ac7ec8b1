"""Numbers, times and foreign text as a page shows them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from markupsafe import Markup

from brokerless.wording import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_CHARACTERS = 300
# A message may quote foreign text.
_MOST_OF_MESSAGE, _MOST_PARAGRAPHS = 4000, 20
_HINT = "hint: "
_PARAGRAPH, _HINT_PARAGRAPH = Markup("<p>{}</p>"), Markup('<p class="hint"><b>Hint:</b> {}</p>')
_LABELLED = Markup("<p><b>{}:</b> {}</p>")
_LINK = Markup('<a href="{}{}" target="_blank" rel="noopener noreferrer"><code>{}</code></a>')
_CODE, _WHOLE = Markup("<code>{}</code>"), Markup('<span class="whole">{}</span>')
_OPTION = re.compile(r"((?<!\S)--?\w\S{0,30})")
_FINDINGS = "https://brokerless.github.io/brokerless/latest/findings/#"
_SIGNS = {"error": "✖", "warning": "▲", "note": "·"}


def shown(text: str) -> str:
    r"""Return foreign text, shortened, with its invisible characters written out.

    Invisible characters are controls, unpaired surrogates, and marks that change the direction of text.

    >>> print(shown("a\x1bb\u202ec"))
    a\x1bb\u202ec
    """
    short = text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
    return printable(short)


def with_code(text: str) -> Markup:
    """Return text with the parts between backticks as code, in which no line ends within an option.

    >>> with_code("run `brokerless check`")
    Markup('run <code>brokerless check</code>')
    """
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return Markup("{}").format(text)
    return Markup("").join(_CODE.format(_unbroken(part)) if at % 2 else part for at, part in enumerate(parts))


def paragraphs(message: str) -> Markup:
    r"""Return a message as paragraphs, one for each of its lines; a hint is marked as one.

    >>> paragraphs("it is cut\nhint: run `brokerless repair`")
    Markup('<p>it is cut</p><p class="hint"><b>Hint:</b> run <code>brokerless repair</code></p>')
    """
    short = message if len(message) <= _MOST_OF_MESSAGE else f"{message[:_MOST_OF_MESSAGE]}…"
    found = []
    lines = [line.rstrip("\r") for line in short.split("\n") if line.strip()]
    for line in lines[:_MOST_PARAGRAPHS]:
        is_hint = line.startswith(_HINT)
        text = with_code(printable(line.removeprefix(_HINT)))
        found.append((_HINT_PARAGRAPH if is_hint else _PARAGRAPH).format(text))
    return Markup("").join(found)


def labelled(sentences: Sequence[tuple[str, str]]) -> Markup:
    """Return sentences as paragraphs, each after its label; the first paragraph may have none.

    >>> labelled([("", "it is cut"), ("Readers", "none")])
    Markup('<p>it is cut</p><p><b>Readers:</b> none</p>')
    """
    found = []
    for label, sentence in sentences:
        text = with_code(printable(sentence))
        found.append(_LABELLED.format(label, text) if label else _PARAGRAPH.format(text))
    return Markup("").join(found)


def path(text: str) -> Markup:
    """Return a path that may continue on the next line after each slash.

    >>> path("data/t-0")
    Markup('data/<wbr>t-0')
    """
    return Markup("{}").format(printable(text)).replace("/", Markup("/<wbr>"))


def severity(name: str) -> Markup:
    """Return a severity with a sign, so that its colour is not the only difference.

    >>> severity("error")
    Markup('<span class="severity error">✖ error</span>')
    """
    return Markup('<span class="severity {}">{} {}</span>').format(name, _SIGNS[name], name)


def finding(code: str) -> Markup:
    """Return the code of a finding as a link to its entry in the documentation.

    >>> finding("batch-crc").striptags(), "latest/findings/#batch-crc" in finding("batch-crc")
    ('batch-crc', True)
    """
    return _LINK.format(_FINDINGS, code, code)


def count(number: float | None) -> str:
    """Return a whole number; "-" for none.

    >>> count(1234567)
    '1,234,567'
    """
    return "-" if number is None else f"{number:,.0f}"


def amount(number: float) -> str:
    """Return a number in few characters.

    >>> amount(12), amount(1234567), amount(2.5e12)
    ('12', '1.23 M', '2,500 G')
    """
    for power, prefix in ((9, "G"), (6, "M"), (3, "k")):
        if number >= 10**power:
            return f"{_three(number / 10**power)} {prefix}"
    return f"{number:,.0f}"


def in_bytes(number: float | None) -> str:
    """Return a number of bytes in a unit.

    >>> in_bytes(512), in_bytes(1536), in_bytes(None)
    ('512 B', '1.5 KiB', '-')
    """
    if number is None:
        return "-"
    if number < 0:
        return f"-{in_bytes(-number)}"
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if number >= 1 << power:
            return f"{_three(number / (1 << power))} {unit}"
    return f"{number:,.0f} B"


def share(part: float) -> str:
    """Return a fraction in percent.

    >>> share(0.256)
    '26 %'
    """
    return f"{part * 100:.0f} %"


def moment(ms: int | None) -> str:
    """Return a time in ms; "-" for none.

    >>> moment(1_700_000_000_000)
    '2023-11-14 22:13:20'
    """
    if ms is None:
        return "-"
    try:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)).strftime("%Y-%m-%d %H:%M:%S")
    except OverflowError:
        return f"{ms} ms"


def _unbroken(command: str) -> Markup:
    parts = _OPTION.split(command)
    return Markup("").join(_WHOLE.format(part) if at % 2 else part for at, part in enumerate(parts))


def _three(number: float) -> str:
    """Return a number with three digits, or with all before the point."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
