"""`python -m bench.plot runs.json ... plot.svg`: draws the results of `python -m bench --json`.

One panel has the ratios of the first broker to the others, case by case; the others have the curves: cases whose names
differ only in a number at their end. Needs matplotlib (`pip install sluicegate[bench]`).
"""

import argparse
import re
from pathlib import Path
from statistics import median
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.report import Ratio, Run, ratios, read_files

POINTS_MIN: Final = 3  # fewer are no curve
COLUMNS: Final = 3
PANEL_INCHES: Final = 3.2
BAR_INCHES: Final = 0.28
_CURVE: Final = re.compile(r"(.+)-(\d+)")

Curves = dict[str, dict[str, dict[int, list[float]]]]  # headlines by family, broker and number


def main() -> None:
    """Read the files, draw, and write the picture in the format of its suffix."""
    parser = argparse.ArgumentParser(prog="python -m bench.plot", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, help="what --json wrote; of several the runs are put together")
    parser.add_argument("picture", type=Path, help="a name that ends in .svg, .png or .pdf")
    options = parser.parse_args()
    try:
        draw(read_files(options.runs)).savefig(options.picture)
    except (OSError, ValueError) as error:
        parser.error(str(error))


def draw(runs: list[Run]) -> Figure:
    """Return the picture of the runs. Raises ValueError when there is nothing to compare."""
    compared = ratios(runs)
    curves = _curves(runs)
    heights = [PANEL_INCHES] * -(-len(curves) // COLUMNS)
    if compared:
        heights.insert(0, max(PANEL_INCHES, BAR_INCHES * len(compared)))
    if not heights:
        raise ValueError("one broker, and no curve: there is nothing to compare")
    figure = Figure(figsize=(COLUMNS * PANEL_INCHES * 1.4, sum(heights)), layout="constrained")
    grid = figure.add_gridspec(len(heights), COLUMNS, height_ratios=heights)
    if compared:
        _draw_ratios(figure.add_subplot(grid[0, :]), compared)
    for place, (family, lines) in enumerate(curves.items()):
        axes = figure.add_subplot(grid[bool(compared) + place // COLUMNS, place % COLUMNS])
        headline = next(run.outcome.headline for run in runs if run.case.startswith(f"{family}-"))
        _draw_curve(axes, family, f"{headline.name}, {headline.unit}", lines)
    return figure


def _curves(runs: list[Run]) -> Curves:
    found: Curves = {}
    for run in runs:
        parts = _CURVE.fullmatch(run.case)
        if parts is not None:
            by_broker = found.setdefault(parts[1], {}).setdefault(run.broker, {})
            by_broker.setdefault(int(parts[2]), []).append(run.outcome.headline.value)
    return {
        family: lines for family, lines in found.items() if max(len(points) for points in lines.values()) >= POINTS_MIN
    }


def _draw_ratios(axes: Axes, compared: list[Ratio]) -> None:
    names = [f"{ratio.case}, {ratio.worse}" for ratio in compared]
    middles = [median(ratio.values) for ratio in compared]
    below = [middle - min(ratio.values) for middle, ratio in zip(middles, compared, strict=True)]
    above = [max(ratio.values) - middle for middle, ratio in zip(middles, compared, strict=True)]
    colours = ["tab:blue" if middle >= 1 else "tab:red" for middle in middles]
    axes.barh(names, middles, xerr=[below, above], color=colours, capsize=2)
    axes.set_xscale("log")
    axes.axvline(1.0, color="black", linewidth=1)
    axes.invert_yaxis()
    axes.set_xlabel(f"{compared[0].better}: times as good as the peer; median of the rounds, minimum to maximum")
    axes.margins(y=0.01)


def _draw_curve(axes: Axes, family: str, headline: str, lines: dict[str, dict[int, list[float]]]) -> None:
    for broker, points in lines.items():
        numbers = sorted(points)
        axes.plot(numbers, [median(points[number]) for number in numbers], marker="o", label=broker)
    axes.set_title(f"{family}-N", fontsize="medium")
    axes.set_xscale("symlog" if any(0 in points for points in lines.values()) else "log")
    axes.set_xlabel("N")
    axes.set_ylabel(headline, fontsize="small")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize="small")


if __name__ == "__main__":
    main()
