"""The page of a report: its numbers as HTML that needs no other files and no network.

Names, keys and messages are foreign text. The template escapes all foreign text. Invisible characters are written out,
and the page allows no script except its own.
"""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING

import jinja2
from markupsafe import Markup, escape

from brokerless.reporting.sections import sections, tiles
from brokerless.reporting.texts import moment, paragraphs, shown, with_code
from brokerless.reporting.verdict import verdict

if TYPE_CHECKING:
    from brokerless.reporting.tables import Numbers


_MOST_NOTES = 100
# The name of a partition that fits into a line of a phone.
_NUMBERED = re.compile(r"(\S{1,28}-\d+)")
# The verdict has a sign and a word, so that its colour is not the only difference.
_SIGNS = {"error": "✖ Faults", "warning": "▲ Warnings", "sound": "✔ No fault found"}


def page(numbers: Numbers, created: int) -> str:
    """Return the page of a report.

    Args:
        numbers: the numbers to show.
        created: the time of the report, in ms.
    """
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters |= {"zip": zip, "unbroken": _unbroken}
    script = _resource("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    found = [section for section in sections(numbers, created) if not section.is_empty]
    clusters = ", ".join(numbers.cluster_ids)
    return environment.from_string(_resource("page.html")).render(
        title=f"Kafka cluster {shown(clusters)}" if clusters else "Kafka logs",
        paths=[shown(path) for path in numbers.paths],
        created=moment(created),
        version=version("brokerless"),
        style=_markup("page.css"),
        script=_markup("page.js"),
        script_hash=f"sha256-{digest}",
        verdict=verdict(numbers),
        verdict_sign=_SIGNS[verdict(numbers).severity],
        tiles=tiles(numbers, created),
        notes=[paragraphs(note) for note in numbers.notes[:_MOST_NOTES]],
        more_notes=max(0, len(numbers.notes) - _MOST_NOTES),
        sections=found,
        with_code=with_code,
    )


def _resource(name: str) -> str:
    return files("brokerless.reporting").joinpath(name).read_text(encoding="utf-8")


def _markup(name: str) -> Markup:
    return Markup(_resource(name))  # noqa: S704 - a file of this package


def _unbroken(text: str) -> Markup:
    """Return text in which no line ends within the name of a partition."""
    parts = _NUMBERED.split(text)
    whole = Markup('<span class="whole">{}</span>')
    return Markup("").join(whole.format(part) if at % 2 else escape(part) for at, part in enumerate(parts))
