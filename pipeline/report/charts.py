"""Plots as SVG within a page: static, with text as text, and without scripts.

Matplotlib draws them, by its objects: pyplot would look for a screen.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

# Okabe and Ito's colours, which are told apart by colour-blind eyes too; red is for what is wrong.
COLOURS: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#8c6d1f", "#5b6675", "#000000")
BAD: Final = "#d0342c"
LINES_MAX: Final = len(COLOURS)  # of one plot: more are told apart by nobody
WIDTH_INCHES: Final = 9.6
HEIGHT_INCHES: Final = 2.9
LEGEND_CHARACTERS: Final = 120  # that fit beside each other above a plot
LEGEND_MARK_CHARACTERS: Final = 8  # that the piece of line before a name takes
LEGEND_ROW_INCHES: Final = 0.22

_STYLE: Final[dict[Any, Any]] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["system-ui", "Segoe UI", "Roboto", "DejaVu Sans", "sans-serif"],
    "font.size": 10,
    "svg.fonttype": "none",  # text, not outlines: small files, and it can be searched
    "svg.hashsalt": "sluicegate",  # the same picture is the same text
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#8a94a1",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#e4e8ed",
    "legend.frameon": False,
}


@final
@dataclass(frozen=True)
class Line:
    """A line of a plot: the positions and values of its points."""

    name: str
    places: Sequence[datetime] | Sequence[float]
    values: Sequence[float]
    is_bad: bool = False


@final
@dataclass(frozen=True)
class Bar:
    """A bar or column of a plot."""

    name: str
    value: float
    is_bad: bool = False


def lines_over_time(lines: Sequence[Line], *, says: str) -> str:
    """Return lines over times in UTC, at most LINES_MAX; `says` is the label of the vertical axis."""
    with mpl.rc_context(_STYLE):
        figure, axes = _empty(says)
        _draw(figure, axes, lines)
        locator = AutoDateLocator(minticks=3, maxticks=9)  # type: ignore[no-untyped-call]  # untyped there
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]  # and here
        return _svg(figure)


def lines_over(lines: Sequence[Line], *, across: str, says: str) -> str:
    """Return lines over whole numbers, such as counts of partitions; at most LINES_MAX."""
    with mpl.rc_context(_STYLE):
        figure, axes = _empty(says)
        _draw(figure, axes, lines)
        axes.set_xlabel(across)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        return _svg(figure)


def columns(drawn: Sequence[Bar], *, across: str, says: str) -> str:
    """Return vertical bars in their order: for a scale."""
    with mpl.rc_context(_STYLE):
        figure, axes = _empty(says)
        places = range(len(drawn))
        axes.bar(places, [each.value for each in drawn], color=_colours(drawn), width=0.8)
        axes.set_xticks(places, [each.name for each in drawn], rotation=0 if len(drawn) <= 12 else 40)
        axes.set_xlabel(across)
        return _svg(figure)


def bars(drawn: Sequence[Bar], *, says: str) -> str:
    """Return horizontal bars, the first on top: for long names."""
    with mpl.rc_context({**_STYLE, "axes.grid.axis": "x"}):
        figure, axes = _empty("")
        figure.set_figheight(0.8 + 0.26 * max(1, len(drawn)))
        places = range(len(drawn))
        axes.barh(places, [each.value for each in drawn], color=_colours(drawn), height=0.72)
        axes.set_yticks(places, [each.name for each in drawn])
        axes.margins(y=0.01)
        axes.invert_yaxis()
        axes.set_xlabel(says)
        return _svg(figure)


def _empty(says: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH_INCHES, HEIGHT_INCHES), layout="constrained")
    axes = figure.add_subplot()
    axes.set_ylabel(says)
    return figure, axes


def _draw(figure: Figure, axes: Axes, lines: Sequence[Line]) -> None:
    colours = iter(COLOURS)
    for line in lines:
        axes.plot(
            line.places,  # type: ignore[arg-type]  # moments are for it as good as numbers
            line.values,
            label=line.name,
            color=BAD if line.is_bad else next(colours),
            linewidth=1.6,
            marker="o" if len(line.values) == 1 else None,
        )
    axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
    if len(lines) > 1:
        _name(figure, lines)


def _name(figure: Figure, lines: Sequence[Line]) -> None:
    """Put the legend above, in as many rows as it needs."""
    in_a_row = max(1, LEGEND_CHARACTERS // (max(len(line.name) for line in lines) + LEGEND_MARK_CHARACTERS))
    rows = -(-len(lines) // in_a_row)
    figure.set_figheight(HEIGHT_INCHES + LEGEND_ROW_INCHES * rows)
    figure.legend(loc="outside upper left", ncols=in_a_row)


def _colours(drawn: Sequence[Bar]) -> list[str]:
    return [BAD if each.is_bad else COLOURS[0] for each in drawn]


def _svg(figure: Figure) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    return text[text.index("<svg") :]  # without what stands on top of a file of its own
