"""Rows of a batch, by the routes on which they go."""

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.routing.receivers import Route


def by_choice(batch: MessageBatch, rows_by_route: dict[Route, list[int]]) -> dict[Route, list[int]]:
    """Return the rows by their routes, where selectors decide."""
    rows_by_choice: dict[Route, list[int]] = {}
    for route, rows in rows_by_route.items():
        choices = route.choices
        if choices is None:
            rows_by_choice[route] = rows
            continue
        for row in rows:
            rows_by_choice.setdefault(choices.route(batch, row), []).append(row)
    return rows_by_choice


def selected(batch: MessageBatch, rows: list[int]) -> MessageBatch:
    """Return some rows of a batch, in order."""
    return batch if len(rows) == batch.count else batch.select(rows)


def in_order(batch: MessageBatch, rows: list[int]) -> list[int]:
    """Return rows gathered from several routes in the order published, each once."""
    return list(range(batch.count)) if len(rows) == batch.count else sorted(set(rows))
