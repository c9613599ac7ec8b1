"""Usage: make bench BENCH="json connector" | chart.py DIRECTORY. Draw the README's charts from what it prints."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
from connector import TOPICS
from matplotlib import pyplot as plt


class Chart(NamedTuple):
    """Bars of seconds by program, the first ones ours."""

    name: str
    title: str
    seconds: dict[str, float]
    ours: int


def json_chart(printed: str) -> Chart | None:
    """Return the chart of the command."""
    found = re.search(r"json: (\d+) records, ([\d.]+) s, kafka-dump-log ([\d.]+) s", printed)
    if found is None:
        return None
    title = f"Print the {int(found[1]):,} records of a log"
    return Chart("speed", title, {"brokerless read": float(found[2]), "kafka-dump-log": float(found[3])}, 1)


def spark_chart(printed: str) -> Chart | None:
    """Return the chart of Spark's reads."""
    found = re.findall(r"connector: read none-100 +([\d.]+) s, ([\w, ]+?) +([\d.]+) s:", printed)
    if not found:
        return None
    theirs = {rival: float(seconds) for _, rival, seconds in found}
    names = {
        "in Python": "brokerless without the jar",
        "connector, tuned": "Kafka connector, tuned",
        "connector": "Kafka connector",
    }
    seconds = {"brokerless": float(found[0][0]), **{name: theirs[rival] for rival, name in names.items()}}
    return Chart(
        "spark",
        f"Read {TOPICS[0].records:,} records of 100 bytes in Spark,\non two cores that the broker shares",
        seconds,
        2,
    )


class Colors(NamedTuple):
    """The colours of a picture."""

    background: str
    text: str
    ours: str
    theirs: str


# A page may be light or dark, and PyPI is light on a dark system. No colour of text has a contrast of 4.5 on both, so
# each picture has a background of its own. Pages that know what they are show the one of their kind.
COLORS = {
    "": Colors("#ffffff", "#24292f", "#2f81c7", "#7d8790"),
    "-dark": Colors("#1c2128", "#d1d7e0", "#4a9be0", "#7d8790"),
}
# In inches and points: as wide as the column of a page. On a phone, at half the size, the text is still 9 pixels high.
WIDTH, FONT, PAD = 7.2, 13, 0.12


def draw(chart: Chart, colors: Colors, path: Path) -> None:
    """Draw the bars, the first one at the top."""
    # Text stays text, and the file is the same each time.
    settings = {"svg.fonttype": "none", "svg.hashsalt": "brokerless", "font.family": "sans-serif", "font.size": FONT}
    mpl.rcParams.update(settings | {"text.color": colors.text, "ytick.labelcolor": colors.text})
    lines = 1 + chart.title.count("\n")
    figure, axes = plt.subplots(figsize=(WIDTH, 0.4 + 0.26 * lines + 0.44 * len(chart.seconds)), layout="constrained")
    figure.set_facecolor(colors.background)
    figure.get_layout_engine().set(w_pad=PAD, h_pad=PAD)
    fills = [colors.ours if place < chart.ours else colors.theirs for place in range(len(chart.seconds))]
    bars = axes.barh(list(chart.seconds), list(chart.seconds.values()), color=fills, height=0.6)
    axes.invert_yaxis()
    axes.bar_label(bars, fmt="%.2f s", padding=4)
    # From the edge of the picture, not of the bars, and with room for a font that is wider than the one measured here.
    figure.suptitle(f"{chart.title} (less is better)", x=PAD / WIDTH, horizontalalignment="left", fontsize=FONT)
    axes.set_facecolor("none")
    axes.set_xlim(0, 1.25 * max(chart.seconds.values()))
    axes.xaxis.set_visible(False)
    axes.tick_params(left=False)
    for side in ("top", "right", "bottom"):
        axes.spines[side].set_visible(False)
    axes.spines["left"].set_color(colors.theirs)
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None})
    path.write_text(drawn.getvalue(), encoding="utf-8")


def main(directory: str, printed: str) -> None:
    """Draw the charts whose lines are there."""
    charts = [chart for chart in (json_chart(printed), spark_chart(printed)) if chart is not None]
    if not charts:
        sys.exit('no line of a benchmark on stdin: make bench BENCH="json connector"')
    for chart in charts:
        for suffix, colors in COLORS.items():
            draw(chart, colors, Path(directory, f"{chart.name}{suffix}.svg"))


if __name__ == "__main__":
    main(sys.argv[1], sys.stdin.read())
