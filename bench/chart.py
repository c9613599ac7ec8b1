"""Usage: make bench BENCH=json | chart.py FILE.svg. Draw the README's chart from what the benchmark prints."""

from __future__ import annotations

import re
import sys

import matplotlib as mpl
from matplotlib import pyplot as plt

LINE = re.compile(r"json: (\d+) records, ([\d.]+) s, kafka-dump-log ([\d.]+) s")


def main(path: str, printed: str) -> None:
    """Draw two bars: the seconds that each program takes."""
    found = LINE.search(printed)
    if found is None:
        sys.exit("no line of the json benchmark on stdin: make bench BENCH=json")
    records, ours, theirs = int(found[1]), float(found[2]), float(found[3])
    # Text stays text, and the file is the same each time.
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "brokerless", "font.family": "sans-serif"})
    figure, axes = plt.subplots(figsize=(7, 1.5), layout="constrained")
    bars = axes.barh(["kafka-dump-log", "brokerless read"], [theirs, ours], color=["#b0b0b0", "#2f7ebc"], height=0.6)
    axes.bar_label(bars, fmt="%.2f s", padding=4)
    axes.set_title(f"Print the {records:,} records of a log (less is better)", loc="left", fontsize=10)
    axes.set_xlim(0, 1.15 * max(ours, theirs))
    axes.xaxis.set_visible(False)
    for side in ("top", "right", "bottom"):
        axes.spines[side].set_visible(False)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main(sys.argv[1], sys.stdin.read())
