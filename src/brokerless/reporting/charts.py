"""Charts as SVG inside a page. Colours are variables of the page's style sheet, so that they follow light and dark.

Names of topics and groups are in the page's legends, not in the charts: Matplotlib would read `$` as mathematics, and
omit a label that begins with an underscore.
"""

from __future__ import annotations

import io
import re
from datetime import UTC
from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib import dates, style
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

COLOURS = 8
"""The number of series that a chart can show with different colours."""

# Placeholder colours, used by nothing else, which the style sheet replaces: for the series, then for text and lines.
_SERIES = [f"#0101{number:02x}" for number in range(COLOURS)]
_TEXT, _GRID = "#010201", "#010202"
_VARIABLES = {colour: f"var(--series-{number})" for number, colour in enumerate(_SERIES)}
_VARIABLES |= {_TEXT: "var(--muted)", _GRID: "var(--line)"}
# In inches. On a phone the small one is drawn at about its size, so that its labels stay legible.
_SIZE, _WIDE = (5.4, 2.4), (12, 2.6)
# Matplotlib counts days from 1970.
_MS_PER_DAY = 86_400_000
_MS_PER_SECOND = 1000
_STYLE: Any = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "brokerless",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.color": _TEXT,
    "axes.labelcolor": _TEXT,
    "axes.edgecolor": _GRID,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.6,
    "xtick.color": _GRID,
    "ytick.color": _GRID,
    "xtick.labelcolor": _TEXT,
    "ytick.labelcolor": _TEXT,
}


# Independent of the program's Matplotlib settings.
_styled = style.context(["default", _STYLE])


class Unit(NamedTuple):
    """The unit of an axis: `names` are the names of `base` to the power of 0, 1, 2, ..."""

    base: int
    names: Sequence[str]


BYTES = Unit(1024, ("B", "KiB", "MiB", "GiB", "TiB"))
RECORDS = Unit(1000, ("", "k", "M", "G"))


class Series(NamedTuple):
    """One series: `values[i]` belongs to the i-th position on the axis; `colour` is an index that starts at 0."""

    values: Sequence[float]
    colour: int


@_styled
def bars_over_time(name: str, times: Sequence[int], width: int, series: Sequence[Series], unit: Unit) -> str:
    """Return stacked bars. Each bar begins at one of `times` (ms), and is `width` ms wide."""
    figure, axes = _figure()
    starts = [time / _MS_PER_DAY for time in times]
    days = width / _MS_PER_DAY
    below = [0.0] * len(times)
    for one in series:
        tops = [low + value for low, value in zip(below, one.values, strict=True)]
        _draw(axes, starts, days, below, tops, one.colour)
        below = tops
    _time_axis(axes)
    return _svg(name, figure, axes, unit)


@_styled
def lines_over_time(
    name: str, series: Sequence[tuple[Sequence[int], Series]], unit: Unit, *, is_wide: bool = False
) -> str:
    """Return lines that keep their value up to the next time; each series has its own times in ms."""
    figure, axes = _figure(is_wide=is_wide)
    everything = [time for times, _ in series for time in times]
    first, last = min(everything), max(everything)
    # Room after the last time, where its value shows.
    end = last + max((last - first) // 40, _MS_PER_SECOND)
    for times, one in series:
        places = [time / _MS_PER_DAY for time in (*times, end)]
        values = [*one.values, one.values[-1]]
        axes.plot(places, values, color=_SERIES[one.colour], linewidth=1.8, drawstyle="steps-post")
    axes.set_ylim(0, max(1.0, axes.get_ylim()[1]))
    _time_axis(axes)
    return _svg(name, figure, axes, unit)


@_styled
def bars(name: str, labels: Sequence[str], series: Sequence[Series], unit: Unit, *, is_wide: bool = False) -> str:
    """Return groups of bars with a label below each group."""
    figure, axes = _figure(is_wide=is_wide)
    width = 0.8 / max(len(series), 1)
    for number, one in enumerate(series):
        places = [place - 0.4 + width * number for place in range(len(labels))]
        _draw(axes, places, width * 0.92, [0.0] * len(places), one.values, one.colour)
    axes.set_xticks(range(len(labels)), labels)
    return _svg(name, figure, axes, unit)


def _draw(
    axes: Axes, starts: Sequence[float], width: float, below: Sequence[float], tops: Sequence[float], colour: int
) -> None:
    """Draw bars. A collection is drawn many times as fast as an artist for each bar."""
    corners = [
        ((start, low), (start, top), (start + width, top), (start + width, low))
        for start, low, top in zip(starts, below, tops, strict=True)
    ]
    bars = PolyCollection(corners, facecolors=_SERIES[colour], linewidths=0)
    bars.set_in_layout(False)
    axes.add_collection(bars)
    axes.autoscale_view()
    axes.set_ylim(0, max(axes.get_ylim()[1], 1.05 * max(tops, default=0)))


def _figure(*, is_wide: bool = False) -> tuple[Figure, Axes]:
    figure = Figure(figsize=_WIDE if is_wide else _SIZE, layout="constrained")
    return figure, figure.add_subplot()


def _time_axis(axes: Axes) -> None:
    library: Any = dates
    # With 3 to 8 ticks, every span has a suitable distance of ticks. With at least 5, some spans have none.
    locator = library.AutoDateLocator(tz=UTC, minticks=3, maxticks=8)
    axes.xaxis.set_major_locator(locator)
    formatter = library.ConciseDateFormatter(locator, tz=UTC)
    # Its own labels of seconds have no minute: "30, 22:44, 30".
    formatter.formats[5] = formatter.zero_formats[5] = "%H:%M:%S.%f"
    formatter.offset_formats[5] = "%Y-%b-%d"
    axes.xaxis.set_major_formatter(formatter)
    # Below the lowest label of the other axis.
    axes.tick_params(axis="x", pad=6)
    # A label at an end of the axis begins or ends there, so that nothing overlaps or clips it.
    figure: Any = axes.figure
    figure.draw_without_rendering()
    for label in axes.get_xticklabels():
        text: Any = label.get_window_extent()
        if text.x0 < axes.bbox.x0:
            label.set_horizontalalignment("left")
        elif text.x1 > axes.bbox.x1:
            label.set_horizontalalignment("right")


def _svg(name: str, figure: Figure, axes: Axes, unit: Unit) -> str:
    """Return a figure as an element of a page, whose ids begin with `name`."""
    highest = axes.get_ylim()[1]
    power = sum(highest >= unit.base**power for power in range(1, len(unit.names)))
    scale, suffix = unit.base**power, unit.names[power]
    # Ticks are round in the unit that they show.
    ticks = MaxNLocator(5, min_n_ticks=3).tick_values(0, highest / scale)
    axes.set_yticks([tick * scale for tick in ticks], [f"{tick:g} {suffix}".rstrip() for tick in ticks])
    axes.tick_params(length=0)
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' id="', f' id="{name}-', svg)
    svg = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", svg)
    # The page sets the width.
    svg = re.sub(r'^<svg ([^>]*?)width="[^"]*"', r"<svg \1", svg, count=1)
    svg = re.sub(r'^<svg ([^>]*?)height="[^"]*"', r'<svg \1aria-hidden="true"', svg, count=1)
    return re.sub(r"#0101[0-9a-f]{2}|#01020[12]", lambda colour: _VARIABLES[colour[0]], svg)
