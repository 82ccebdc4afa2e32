"""Publish what comes from a neighbor broker: to this broker's clients and queues, and to no other neighbor.

The publisher's broker has decided everything that is decided once in a network: rights, virtual and composite
destinations, what is retained, who gets a Deliver-To-One message, and which broker's member gets one of a shared group.
"""

from random import Random
from typing import final

from sluicegate.actors.publishing.publisher import Publisher, in_order, selected
from sluicegate.actors.publishing.result import ForwardingResult, PublishResult
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.message.refusals import ADMITTED
from sluicegate.messaging.network.link import SUBSCRIBERS, LinkTargets
from sluicegate.messaging.routing.deliver_to_one import DeliverToOne, asks_for_one
from sluicegate.messaging.routing.destinations import QueueTarget, ShareGroup, Subscriber
from sluicegate.messaging.routing.routes import Route, TopicSpace


@final
class LinkPublisher(Publisher):
    """Publishes on behalf of one link, in one message VPN. No confirmation comes to its address."""

    def __init__(self, *, space: TopicSpace, spool: Address, address: Address, rng: Random) -> None:
        super().__init__(space=space, spool=spool, address=address, rng=rng)
        self._hears = False

    def deliver(self, batch: MessageBatch, targets: LinkTargets) -> None:
        """Send a batch to the targets that its broker chose here. Drop and count what finds nobody.

        A full queue and a slow client lose their own copies only: nobody can be told, and the link does not wait.
        """
        space = self._space
        if batch.topics is None:
            route = space.arriving_route(batch.topic)
            if route.choices is None and not route.takers and targets == SUBSCRIBERS and not asks_for_one(batch, None):
                self._deliver_by(route, batch)
                self.pressures.clear()
                return
        gathered = _Gathered()
        rows_by_route: dict[Route, list[int]] = {}
        for row in range(batch.count):
            route = space.arriving_route(batch.topic_of(row))
            chosen = route if route.choices is None else route.choices.route(batch, row)
            rows_by_route.setdefault(chosen, []).append(row)
        for route, rows in rows_by_route.items():
            self._gather(gathered, route, batch, rows, targets)
        self._send_gathered(gathered, batch)
        self.pressures.clear()

    def _deliver_by(self, route: Route, batch: MessageBatch) -> None:
        """Deliver a batch to the subscribers of its only route."""
        queues = _queues_of(route, batch)
        receivers = route.direct
        if batch.qos == AT_MOST_ONCE and route.guaranteed:
            receivers = receivers + route.guaranteed
        if queues:
            self._spool_arrived(dict.fromkeys(queues), batch)
        alone = len(receivers) == 1
        for subscriber in receivers:
            self._post_direct(subscriber, batch, at_once=alone)
        if not (queues or receivers):
            self._space.arrived_unmatched_count += batch.count

    def _gather(
        self, gathered: "_Gathered", route: Route, batch: MessageBatch, rows: list[int], targets: LinkTargets
    ) -> None:
        """Gather the receivers of rows that have the same route, and count rows without any."""
        groups = [group for group in route.groups if group.key in targets.groups]
        for group in groups:
            gathered.groups.setdefault(group, []).extend(rows)
        if asks_for_one(batch, rows):
            found = self._gather_asking(gathered, route, batch, rows, targets)
            lost_count = 0 if groups else len(rows) - found
        else:
            found_any = targets.subscribers and self._gather_subscribers(gathered, route, batch, rows)
            lost_count = 0 if groups or found_any else len(rows)
        self._space.arrived_unmatched_count += lost_count

    def _gather_subscribers(self, gathered: "_Gathered", route: Route, batch: MessageBatch, rows: list[int]) -> bool:
        """Gather all clients and queues; return whether there are any."""
        queues = _queues_of(route, batch)
        receivers = route.direct if batch.qos != AT_MOST_ONCE else route.direct + route.guaranteed
        for subscriber in receivers:
            gathered.direct.setdefault(subscriber, []).extend(rows)
        for queue in queues:
            gathered.queues.setdefault(queue, []).extend(rows)
        return bool(receivers or queues)

    def _gather_asking(
        self, gathered: "_Gathered", route: Route, batch: MessageBatch, rows: list[int], targets: LinkTargets
    ) -> int:
        """Gather the receivers of rows some of which ask for Deliver-To-One; return how many rows have one."""
        hands: dict[Subscriber, list[int]] = {}
        found: dict[int, None] = {}
        receivers = route.direct if batch.qos != AT_MOST_ONCE else route.direct + route.guaranteed + route.takers
        if self._deliver_to_one is None:
            self._deliver_to_one = DeliverToOne(self._space)
        for row in rows:
            headers = batch.headers_of(row)
            chosen = receivers if targets.subscribers else []
            if headers is not None and headers.deliver_to_one:
                chosen = self._deliver_to_one.arrived(
                    route, batch, row, receivers, is_always=targets.subscribers, is_one=targets.deliver_to_one
                )
            for subscriber in chosen:
                found[row] = None
                hands.setdefault(subscriber, []).append(row)
        for queue in _queues_of(route, batch):
            turns = None if batch.qos != AT_MOST_ONCE else queue.turns
            own_rows = hands.pop(turns, []) if turns is not None else rows if targets.subscribers else []
            if own_rows:
                found.update(dict.fromkeys(own_rows))
                gathered.queues.setdefault(queue, []).extend(own_rows)
        for subscriber, own_rows in hands.items():
            gathered.direct.setdefault(subscriber, []).extend(own_rows)
        return len(found)

    def _send_gathered(self, gathered: "_Gathered", batch: MessageBatch) -> None:
        guaranteed = batch.qos != AT_MOST_ONCE
        queues = gathered.queues
        for group in list(gathered.groups):
            if guaranteed and group.queue is not None:
                queues.setdefault(group.queue, []).extend(gathered.groups.pop(group))
        if queues:
            self._spool_arrived({queue: in_order(batch, rows) for queue, rows in queues.items()}, batch)
        for subscriber, rows in gathered.direct.items():
            self._post_direct(subscriber, selected(batch, in_order(batch, rows)))
        for group, rows in gathered.groups.items():
            self._post_shared(group, selected(batch, in_order(batch, rows)))

    def _spool_arrived(self, targets: dict[QueueTarget, list[int] | None], batch: MessageBatch) -> None:
        """Put rows into queues, each as many as it has room for; a queue counts those that it refuses."""
        admitted: dict[QueueTarget, list[int] | None] = {}
        for queue, rows in targets.items():
            part = batch if rows is None else selected(batch, rows)
            if part.count == 1 or queue.gate.verdict(part) == ADMITTED:
                admitted[queue] = rows
                continue
            for row in range(batch.count) if rows is None else rows:
                self._spool_where_admitted({queue: [row]}, batch)
        if admitted:
            self._spool_where_admitted(admitted, batch)

    def _spool_where_admitted(self, targets: dict[QueueTarget, list[int] | None], batch: MessageBatch) -> None:
        result = PublishResult()
        result.forwarded = ForwardingResult(1)
        result.forwarded.spared.update(dict.fromkeys(targets))
        self._spool_to(targets, batch, 0, result)


@final
class _Gathered:
    """The rows of a batch for each receiver."""

    def __init__(self) -> None:
        self.direct: dict[Subscriber, list[int]] = {}
        self.queues: dict[QueueTarget, list[int]] = {}
        self.groups: dict[ShareGroup, list[int]] = {}


def _queues_of(route: Route, batch: MessageBatch) -> list[QueueTarget]:
    """Return the queues that get a batch of a route."""
    if batch.qos == AT_MOST_ONCE or not route.guaranteed:
        return route.queues
    return route.queues + [each.queue for each in route.guaranteed if each.queue is not None]
