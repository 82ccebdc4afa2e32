"""Publish what comes from a neighbor broker: to this broker's clients and queues, and to no other neighbor.

The publisher's broker has decided everything that is decided once in a network: rights, virtual and composite
destinations, what is retained, who gets a Deliver-To-One message, and which broker's member gets one of a shared group.
"""

import logging
from collections.abc import Callable
from random import Random
from typing import Final, final

from sluicegate.actors.messages.data import Append
from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.actors.publishing.result import ForwardingResult, PublishResult
from sluicegate.actors.publishing.rows import in_order, selected
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.message.refusals import ADMITTED
from sluicegate.messaging.network.choices import has_choices, targets_in, without_choices
from sluicegate.messaging.network.link import NEVER_DELIVERED, SUBSCRIBERS, LinkTargets
from sluicegate.messaging.queues.admission import QueueGate
from sluicegate.messaging.routing.deliver_to_one import DeliverToOne, asks_for_one
from sluicegate.messaging.routing.destinations import QueueTarget, ShareGroup, Subscriber
from sluicegate.messaging.routing.receivers import Route
from sluicegate.messaging.routing.routes import TopicSpace

log = logging.getLogger("sluicegate.network")

# What becomes of guaranteed messages that arrive.
STORING: Final = 1  # the store answers
SETTLED: Final = 2  # nobody stores them
NO_ROOM: Final = 3  # nothing was done: the message VPN, the node or the disk has no room

_Taken = tuple[QueueTarget, list[int] | None, MessageBatch]  # rows of a batch for a queue; None: all


@final
class LinkPublisher(Publisher):
    """Publishes on behalf of one link, in one message VPN. No confirmation comes to its address."""

    def __init__(
        self,
        *,
        space: TopicSpace,
        spool: Address,
        address: Address,
        rng: Random,
        targets: dict[str, QueueTarget],
        siblings: frozenset[str] = frozenset(),
    ) -> None:
        """`targets` has every queue of the message VPN, also one that is being moved here.

        `siblings` are the neighbors with which this broker shares its limits.
        """
        super().__init__(space=space, spool=spool, address=address, rng=rng)
        self._targets = targets
        self._siblings = siblings
        self._hears = False
        self.overrun_count = 0  # messages that queues took beyond their limits

    def store(
        self,
        batch: MessageBatch,
        *,
        neighbor: str,
        row: Callable[[], tuple[bytes, bytes]],
        address: Address,
        token: int,
    ) -> int:
        """Publish guaranteed messages of a neighbor; return STORING, SETTLED or NO_ROOM.

        The commit that stores them stores `row()` as well. STORING: the address gets Confirmed or PublishFailed of the
        token. The limits of a single queue hold up nothing: what the publisher's broker has confirmed is taken beyond
        them. A queue that is shut down, or for which a message is too large, gets no copy and counts that; and so does
        a queue for whose copy there would be no room beside those of the others if the message VPN were empty.
        """
        queues: dict[QueueTarget, list[int] | None] = {}
        direct: dict[Subscriber, list[int] | None] = {}
        groups: dict[ShareGroup, list[int]] = {}
        lost_count = 0
        targets = _targets_by_row(batch) if has_choices(batch) else None
        if targets is not None:
            batch = without_choices(batch)
        route = self._space.arriving_route(batch.topic) if batch.topics is None else None
        if targets is None and route is not None and route.choices is None and not asks_for_one(batch, None):
            queues = dict.fromkeys(_queues_of(route, batch))
            direct = dict.fromkeys(route.direct)
            lost_count = 0 if queues or direct else batch.count
        else:
            before = self._space.arrived_unmatched_count
            gathered = self._gathered(batch, targets)
            groups = _without_queue(gathered)
            queues = {queue: _unless_all(batch, rows) for queue, rows in gathered.queues.items()}
            direct = {subscriber: _unless_all(batch, rows) for subscriber, rows in gathered.direct.items()}
            lost_count = self._space.arrived_unmatched_count - before
            self._space.arrived_unmatched_count = before
        earlier = {} if targets is None else _deliveries_before(targets)
        taken = self._admitted(queues, batch, is_counted=neighbor in self._siblings)
        if taken is None:
            return NO_ROOM
        if self._space.tracing is not None:
            self._space.tracing.arrived(batch, neighbor)
        self._space.arrived_unmatched_count += lost_count
        found = self._put(taken, batch, earlier, row, address, token)
        for subscriber, rows in direct.items():
            self._post_direct(subscriber, batch if rows is None else batch.select(rows))
        for group, own_rows in groups.items():
            self._post_shared(group, selected(batch, in_order(batch, own_rows)))
        self.pressures.clear()
        return found

    def _gathered(self, batch: MessageBatch, targets: list[LinkTargets] | None) -> "_Gathered":
        """Return the receivers of each row, among the targets of each; None: among the subscribers."""
        gathered = _Gathered()
        rows_by_route: dict[Route, list[int]] = {}
        for row in range(batch.count):
            route = self._space.arriving_route(batch.topic_of(row))
            chosen = route if route.choices is None else route.choices.route(batch, row)
            if targets is not None and targets[row].queue:
                self._gather_for_queue(gathered, targets[row].queue, row)
            elif targets is not None and targets[row] != SUBSCRIBERS:
                self._gather(gathered, chosen, batch, [row], targets[row])
            else:
                rows_by_route.setdefault(chosen, []).append(row)
        for route, rows in rows_by_route.items():
            self._gather(gathered, route, batch, rows, SUBSCRIBERS)
        return gathered

    def _admitted(
        self, queues: dict[QueueTarget, list[int] | None], batch: MessageBatch, *, is_counted: bool
    ) -> "list[_Taken] | None":
        """Return the queues that take rows; None: the message VPN, the node or the disk has no room for all of them.

        `is_counted`: the limits count each message once already, at the neighbor. Without that, a message VPN that is
        full of messages which wait there would have no room for any of them here.
        """
        spool = None
        size = count = 0
        found: list[_Taken] = []
        for queue, rows in queues.items():
            part = batch if rows is None else batch.select(rows)
            if queue.gate.spool is not None:
                spool = queue.gate.spool
                part_size = queue.gate.usage_of(part)
                largest = spool.largest_bytes()
                if size + part_size > largest > 0:  # it would not be admitted later either; 0: it is shut for a while
                    queue.gate.refuse(spool.refusal, part.count, hears=False)
                    continue
                size += part_size
                count += part.count
            found.append((queue, rows, part))
        if spool is not None and is_counted:
            counted_size = batch.usage_bytes(durable=True)
            if not spool.admits_moved(size, count, counted_size=counted_size, counted_count=batch.count):
                return None
        elif spool is not None and (spool.verdict_on_bytes(size) or spool.verdict_on_count(count)) != ADMITTED:
            return None
        taken: list[_Taken] = []
        for each in found:
            queue, rows, part = each
            if queue.gate.verdict_of_confirmed(part) == ADMITTED:
                taken.append(each)
            else:
                taken += _taken_singly(queue, batch, list(range(batch.count)) if rows is None else rows)
        return taken

    def _put(
        self,
        taken: "list[_Taken]",
        batch: MessageBatch,
        earlier: dict[int, int],
        row: Callable[[], tuple[bytes, bytes]],
        address: Address,
        token: int,
    ) -> int:
        """Put rows into queues, in one publication. `earlier`: rows that were delivered before, with failures."""
        parts: list[tuple[QueueTarget, int, list[int] | None, MessageBatch]] = []
        for queue, rows, part in taken:
            if queue.gate.verdict_of_moved(part) == ADMITTED:
                queue.gate.reserve(part)
            else:
                self.overrun_count += _reserved_singly(queue.gate, part)
                queue.gate.overrun()
            parts += self._by_partition(queue, rows, part)
        durable_count = sum([part[0].durable for part in parts])
        publication: Publication | None = None
        if durable_count:
            publication = Publication(batch, publisher=address, token=token, partitions_count=durable_count)
            publication.session_rows = [row()]
            publication.rows_can_wait = True
        for queue, number, rows, part in parts:
            own = publication if queue.durable else None
            of_part: list[tuple[int, int]] | None = None
            if earlier:
                its_rows = range(batch.count) if rows is None else rows
                of_part = [(at, earlier[each]) for at, each in enumerate(its_rows) if each in earlier]
            queue.partitions[number].address.post(Append(part, own, rows, of_part))
        return SETTLED if publication is None else STORING

    def deliver(self, batch: MessageBatch, targets: LinkTargets, neighbor: str) -> None:
        """Send a batch to the targets that its broker chose here. Drop and count what finds nobody.

        A full queue and a slow client lose their own copies only: nobody can be told, and the link does not wait.
        """
        space = self._space
        if space.tracing is not None:
            space.tracing.arrived(batch, neighbor)
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

    def _gather_for_queue(self, gathered: "_Gathered", name: str, row: int) -> None:
        """Gather a message that is for one queue, which is being moved here, or is a dead message queue."""
        target = self._targets.get(name)
        if target is not None:
            gathered.queues.setdefault(target, []).append(row)
        else:  # it was deleted, or lost with a backup that was restored
            self._space.arrived_unmatched_count += 1
            log.error("a message for queue %r of this broker is lost: there is no such queue", name)

    def _partition_without_key(self, target: QueueTarget, headers: Headers | None) -> int:
        """Return one partition for all dead messages, so that they keep their order."""
        if headers is not None and headers.dead is not None:
            return 0
        return super()._partition_without_key(target, headers)

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


def _targets_by_row(batch: MessageBatch) -> list[LinkTargets]:
    """Return for whom each message is. One that cannot be read is for the subscribers."""
    found: list[LinkTargets] = []
    for row in range(batch.count):
        headers = batch.headers_of(row)
        try:
            found.append(SUBSCRIBERS if headers is None else targets_in(headers.link_targets))
        except ValueError as error:
            log.error("a message of a neighbor goes to all subscribers: %s", error)
            found.append(SUBSCRIBERS)
    return found


def _without_queue(gathered: "_Gathered") -> dict[ShareGroup, list[int]]:
    """Put the rows of groups with a queue there; return those of the others, whose members get them directly."""
    others: dict[ShareGroup, list[int]] = {}
    for group, rows in gathered.groups.items():
        if group.queue is None:
            others[group] = rows
        else:
            gathered.queues.setdefault(group.queue, []).extend(rows)
    return others


def _unless_all(batch: MessageBatch, rows: list[int]) -> list[int] | None:
    """Return gathered rows in order, each once; None: all of them."""
    found = in_order(batch, rows)
    return None if len(found) == batch.count else found


def _reserved_singly(gate: QueueGate, part: MessageBatch) -> int:
    """Count messages in, of which some are beyond the limits of their queue; return how many."""
    over_count = 0
    for row in range(part.count):
        one = part.select([row])
        over_count += gate.verdict_of_moved(one) != ADMITTED
        gate.reserve(one)
    return over_count


def _deliveries_before(targets: list[LinkTargets]) -> dict[int, int]:
    """Return the rows whose messages were delivered before, from a queue that moves, and how often that failed."""
    return {row: each.failed_count for row, each in enumerate(targets) if each.failed_count != NEVER_DELIVERED}


def _taken_singly(queue: QueueTarget, batch: MessageBatch, rows: list[int]) -> "list[_Taken]":
    """Return the rows that a queue takes of a batch of which it does not take all, and count the others."""
    kept: list[int] = []
    for row in rows:
        verdict = queue.gate.verdict_of_confirmed(selected(batch, [row]))
        if verdict == ADMITTED:
            kept.append(row)
        else:
            queue.gate.refuse(verdict, 1, hears=False)
    return [(queue, None if len(kept) == batch.count else kept, selected(batch, kept))] if kept else []


def _queues_of(route: Route, batch: MessageBatch) -> list[QueueTarget]:
    """Return the queues that get a batch of a route."""
    if batch.qos == AT_MOST_ONCE or not route.guaranteed:
        return route.queues
    return route.queues + [each.queue for each in route.guaranteed if each.queue is not None]
