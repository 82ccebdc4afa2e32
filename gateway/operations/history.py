"""Make views of what a node keeps of its figures, and one of those of several brokers."""

import math
from collections.abc import Sequence
from typing import Final

from sluicegate.gateway.node.history import NODE_FIGURES, PARTITION_FIGURES, QUEUE_FIGURES, VPN_FIGURES
from sluicegate.gateway.observability.history import COARSE_STEP_MS, FINE_SPAN_S, STEP_MS, History, Kind
from sluicegate.gateway.views.node.history import HistoryQuery, HistoryView

DIGITS: Final = 3  # behind the point

# Of these the machine has what its slowest broker has; everything else adds up.
TIMES: Final = frozenset(
    figure.name
    for figures in (NODE_FIGURES, VPN_FIGURES, QUEUE_FIGURES, PARTITION_FIGURES)
    for figure in figures
    if figure.kind is Kind.TIME
)


def history_view(history: History, question: HistoryQuery, *, wall_ms: int) -> HistoryView:
    """Return the steps that a question asks for."""
    is_fine = question.span_s <= FINE_SPAN_S
    ring, step_ms = (history.fine, STEP_MS) if is_fine else (history.coarse, COARSE_STEP_MS)
    after_ms = max(question.after_ms, wall_ms - question.span_s * 1000)
    first, rows = ring.after(after_ms // step_ms)
    columns = zip(*rows, strict=True) if rows else [()] * len(history.figures)
    return HistoryView(
        step_ms=step_ms,
        times_ms=[(first + at) * step_ms for at in range(len(rows))],
        values={
            figure.name: [None if math.isnan(each) else round(each, DIGITS) for each in column]
            for figure, column in zip(history.figures, columns, strict=True)
        },
    )


def merged_history(views: Sequence[HistoryView], *, goes_on: bool = False) -> HistoryView:
    """Return the figures of several brokers together, up to the last step that all of them have.

    A broker that has no value in a step, such as one that started later, counts for nothing in it. `goes_on`: whoever
    asks has the steps before and will ask again, so nothing is new before every broker has something new.
    """
    known = [view for view in views if view.times_ms]
    empty = [view for view in views if not view.times_ms]
    if empty and (goes_on or not known):
        return empty[0]
    until_ms = min(view.times_ms[-1] for view in known)
    times_ms = sorted({time_ms for view in known for time_ms in view.times_ms if time_ms <= until_ms})
    values: dict[str, list[float | None]] = {}
    for name in known[0].values:
        columns = [dict(zip(view.times_ms, view.values[name], strict=True)) for view in known]
        values[name] = [_together(name, [column.get(time_ms) for column in columns]) for time_ms in times_ms]
    return HistoryView(step_ms=views[0].step_ms, times_ms=times_ms, values=values)


def _together(name: str, values: Sequence[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    if not known:
        return None
    return max(known) if name in TIMES else round(sum(known), DIGITS)
