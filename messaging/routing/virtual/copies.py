"""Expand a batch by the copies that definitions forward under other topics, and map the rows to their routes.

A publish stays one publish: all queues admit before the first takes a row, and one journal record holds the rows of all
queues.
"""

from collections.abc import Mapping
from typing import final

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import Headers, NativeFields, marked
from sluicegate.messaging.network.choices import naming
from sluicegate.messaging.routing.receivers import Route


@final
class Expansion:
    """Rows as published, and their copies, in the order in which they go out."""

    def __init__(self, batch: MessageBatch, natives: Mapping[int, NativeFields]) -> None:
        self._source = batch
        self._natives = natives
        self._topics: list[str] = []
        self._payloads: list[bytes] = []
        self._headers: list[Headers | None] = []
        self._is_copy: list[bool] = []
        self.rows_by_route: dict[Route, list[int]] = {}

    def add(self, rows_by_route: dict[Route, list[int]]) -> None:
        """Add the rows of the batch, each with its route."""
        routes: dict[int, Route] = {}
        for route, rows in rows_by_route.items():
            for row in rows:
                routes[row] = route
        for row in sorted(routes):
            route = routes[row]
            forwarding = route.forwarding
            copies = [] if forwarding is None else forwarding.copies
            if not copies or _has_own(route):
                self._append(row, self._source.topic_of(row), self._source.headers_of(row), route, is_copy=False)
            for copy in copies:
                if copy.route.is_empty and not self._source.retain:
                    continue  # no queue or client would get it, now or later
                headers = self._source.headers_of(row)
                if copy.marks:
                    headers = marked(headers, copy.marks, self._natives)
                if copy.queue:
                    headers = naming(headers, copy.queue)
                self._append(row, copy.topic, headers, copy.route, is_copy=not copy.queue)

    def batch(self) -> MessageBatch:
        """Return the rows and their copies as one batch."""
        return self._built(list(range(len(self._payloads))))

    def copies(self) -> MessageBatch | None:
        """Return the copies under other topics alone, None when there are none."""
        rows = [row for row, is_copy in enumerate(self._is_copy) if is_copy]
        return self._built(rows) if rows else None

    def _append(self, row: int, topic: str, headers: Headers | None, route: Route, *, is_copy: bool) -> None:
        self.rows_by_route.setdefault(route, []).append(len(self._payloads))
        self._topics.append(topic)
        self._payloads.append(self._source.payloads()[row])
        self._headers.append(headers)
        self._is_copy.append(is_copy)

    def _built(self, rows: list[int]) -> MessageBatch:
        payloads = [self._payloads[row] for row in rows]
        headers = [self._headers[row] for row in rows]
        source = self._source
        return MessageBatch(
            topic="",
            topics=[self._topics[row] for row in rows],
            payloads=payloads,
            headers=headers if any(each is not None for each in headers) else None,
            qos=source.qos,
            retain=source.retain,
            publisher=source.publisher,
            received_ms=source.received_ms,
            payload_bytes=sum([len(payload) for payload in payloads]),
            possible_duplicate=source.possible_duplicate,
        )


def _has_own(route: Route) -> bool:
    """Return whether the message as published has any receiver."""
    return bool(route.direct or route.guaranteed or route.queues or route.groups or route.links is not None)
