"""Publish a batch: the entry point that all protocols share.

A publisher belongs to one connection. It looks up the routes, splits the batch by destination and by partition, asks
the gates, and posts. For guaranteed messages it returns the number of confirmations to expect.
"""

from random import Random

from sluicegate.actors.messages.data import Append, SessionRows, SharedDirect
from sluicegate.actors.publishing.held import HELD_TOKEN, HeldPublish, PublisherLine
from sluicegate.actors.publishing.result import ForwardingResult, PublishResult
from sluicegate.actors.publishing.retain import retain, retain_again
from sluicegate.actors.publishing.rows import by_choice, in_order, selected
from sluicegate.messaging.clients.payload_rules import PayloadCheck
from sluicegate.messaging.clients.rights import ClientRights
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import AT_LEAST_ONCE, AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.keys import key_hashes
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.message.refusals import (
    ADMITTED,
    REFUSED_MOVING,
    REFUSED_NO_MATCH,
    REFUSED_NOT_FOUND,
    REFUSED_PAYLOAD,
)
from sluicegate.messaging.network.choices import targets_value, with_choices
from sluicegate.messaging.network.link import SUBSCRIBERS, LinkOutput, LinkTargets
from sluicegate.messaging.network.neighbors import LinkRoute
from sluicegate.messaging.network.parts import LinkParts
from sluicegate.messaging.observability.trace_records import PublishTraced
from sluicegate.messaging.queues.pressure import Pressure
from sluicegate.messaging.routing.deliver_to_one import DeliverToOne, asks_for_one
from sluicegate.messaging.routing.destinations import QueueTarget, ShareGroup, Subscriber, deal_to_members
from sluicegate.messaging.routing.holds import Holds
from sluicegate.messaging.routing.receivers import Forwarding, Route
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.routing.virtual.copies import Expansion
from sluicegate.messaging.topics.syntax import is_queue_topic, queue_name_of


class Publisher:
    """Publishes on behalf of one connection."""

    def __init__(
        self, *, space: TopicSpace, spool: Address, address: Address, rng: Random, in_transaction: bool = False
    ) -> None:
        self._space = space
        self._spool = spool
        self._address = address
        self._rng = rng
        self._deliver_to_one: DeliverToOne | None = None  # None until a message asks for it
        # In a transaction a publish goes to all destinations or none, whatever definitions say; and it is not handled
        # before the caller has added to the publication what belongs into the same commit.
        self._in_transaction = in_transaction
        self._line: PublisherLine | None = None  # None: nothing that it has published waits for a queue's new home
        self._has_waited: HeldPublish | None = None  # the batch for which this publisher was made, at its release
        self._hears = True  # what becomes of guaranteed messages
        self.rights: ClientRights | None = None  # of the client; None: the broker itself publishes
        # Whether the publisher is told that there is no room to retain a message, which then goes nowhere. Else it is
        # delivered to subscribers, and is not retained.
        self.hears_of_retained = False
        self.requires_match = False  # the publisher asked that messages without subscriber are refused
        self.pressures: list[Pressure] = []  # destinations over their high mark that this publisher feeds

    def publish(self, batch: MessageBatch, token: int) -> PublishResult:
        """Send a batch to all its destinations. `token` comes back with each confirmation."""
        if self._space.held is not None and (self._line is not None or self._space.is_held(batch)):
            return self._wait(self._space.held, batch, token)
        tracing = self._space.tracing
        if tracing is None:
            return self._publish(batch, token)
        noted: list[PublishTraced] = []
        batch = tracing.begin(batch, noted)
        result = self._publish(batch, token)
        if noted and (result.refusal == ADMITTED or batch.count == 1):  # else the rows are published again one by one
            tracing.published(noted, result.refusal, is_routed=result.routed)
        return result

    def _wait(self, holds: Holds, batch: MessageBatch, token: int) -> PublishResult:
        """Have a batch wait for the new home of a queue, and everything behind it."""
        result = PublishResult()
        rights = self.rights
        check: PayloadCheck | None = None
        if rights is not None and rights.limits_publishing:
            check = self._check(rights, batch, result)
        if self._in_transaction and result.refusal == ADMITTED:  # its other queues would wait as well
            result.refuse(REFUSED_MOVING, "")
        if result.refusal != ADMITTED:
            return result
        if check is not None and rights is not None:
            rights.note_payloads(check)
            batch = check.batch
        if self._line is None:
            self._line = PublisherLine(self._space, holds, self._spool, self._publish_waited, self._has_no_line)
        result = self._line.wait(batch, token, self._address, batch.received_ms)
        if self._line.is_empty():
            self._line = None
        elif holds.pressure.over:
            self.pressures.append(holds.pressure)
        return result

    def _publish_waited(self, held: HeldPublish) -> PublishResult:
        """Publish a batch that has waited; its publisher had the right to."""
        publisher = Publisher(space=self._space, spool=self._spool, address=held, rng=self._rng)
        publisher._has_waited = held
        publisher.requires_match = self.requires_match
        publisher.hears_of_retained = self.hears_of_retained
        result = publisher.publish(held.batch, HELD_TOKEN)
        if result.refusal != ADMITTED and held.batch.count > 1:
            for row in range(held.batch.count):
                publisher.publish(held.batch.select([row]), HELD_TOKEN)
        return result

    def _has_no_line(self) -> None:
        self._line = None

    def _publication_of(self, batch: MessageBatch, token: int, partitions_count: int) -> Publication:
        """Return the publication of a batch; that of one that has waited is known to its publisher already."""
        held = self._has_waited
        publication = None if held is None else held.publication
        if publication is None:
            return Publication(batch, publisher=self._address, token=token, partitions_count=partitions_count)
        publication.batch = batch
        publication.unsequenced_count = partitions_count
        return publication

    def note(self, row: tuple[bytes, bytes | None], token: int) -> None:
        """Have the store record the outcome of a publish of which it stores nothing, and confirm it like any other."""
        self._spool.post(SessionRows([row], self._address, token, until_done=True))

    def _publish(self, batch: MessageBatch, token: int) -> PublishResult:
        result = PublishResult()
        rights = self.rights
        check: PayloadCheck | None = None  # None: no rule for payloads concerns the batch
        if rights is not None and rights.limits_publishing:
            check = self._check(rights, batch, result)
            if result.refusal != ADMITTED:
                return result
            if check is not None:
                batch = check.batch
        if batch.retain and not self._may_retain(batch, None, result):
            return result
        copies = self._send(batch, token, result)
        if result.forwarded is not None:
            self._count_forwarded(result.forwarded, batch, result)
        if batch.retain and result.refusal == ADMITTED:
            result.confirmations_pending += self._retain(batch, copies, token, keeps=result.retains)
        if check is not None and rights is not None and (result.refusal == ADMITTED or batch.count == 1):
            rights.note_payloads(check)
        return result

    def _check(self, rights: ClientRights, batch: MessageBatch, result: PublishResult) -> PayloadCheck | None:
        """Refuse what the client has no right to publish, or whose payload a rule refuses; return what rules say."""
        result.refusal = rights.publish_verdict(batch)
        if result.refusal != ADMITTED:
            return None
        check = rights.check_payloads(batch)
        if check is not None and check.refused_by:
            result.refuse(REFUSED_PAYLOAD, "")
            result.also_refused = f" ({check.text()})"
            if batch.count == 1:  # a larger batch is split, and each message is checked again
                rights.note_payloads(check)
        return check

    def retain_again(self, message: MessageBatch, token: int) -> int:
        """Have the store write what is retained now on a message's topic, if it may have refused it.

        Return the number of confirmations to expect.
        """
        expansion = Expansion(message, self._space.natives)
        expansion.add(by_choice(message, {self._space.route(message.topic_of(0)): [0]}))
        pending = 0
        for each in (message, expansion.copies()):
            if each is not None:
                pending += retain_again(each, token, space=self._space, spool=self._spool, address=self._address)
        return pending

    def _may_retain(self, batch: MessageBatch, copies: MessageBatch | None, result: PublishResult) -> bool:
        """Return whether a batch with RETAIN may be published; without room, its rows are published one by one."""
        retained = self._space.retained
        verdict = retained.verdict([batch] if copies is None else [batch, copies])
        if verdict == ADMITTED:
            return True
        hears = self.hears_of_retained and batch.qos != AT_MOST_ONCE
        if batch.count == 1:
            retained.note_refusal(verdict, hears=hears)
        if batch.count > 1 or hears:
            result.refuse(verdict, "", retained.limit(verdict))
            return False
        result.retains = False
        return True

    def _retain(self, batch: MessageBatch, copies: MessageBatch | None, token: int, *, keeps: bool) -> int:
        pending = 0
        for each in (batch, copies):
            if each is not None:
                pending += retain(each, token, space=self._space, spool=self._spool, address=self._address, keeps=keeps)
        pressure = self._space.retained.pressure
        if pressure.over:
            self.pressures.append(pressure)
        return pending

    def _send(self, batch: MessageBatch, token: int, result: PublishResult) -> MessageBatch | None:
        """Send a batch by its topics; return the copies by definitions that are to be retained as well."""
        topics = batch.topics
        if topics is None:
            route = self._space.route(batch.topic)
            if route.choices is None:
                if route.forwarding is not None:
                    self._note_forwarding(route.forwarding, batch.count, batch.count, result)
                self._publish_by(route, batch, None, token, result)
                return None
            rows_by_route = {route: list(range(batch.count))}
        else:
            rows_by_route = {}
            route_of = self._space.route
            for row in range(batch.count):
                rows_by_route.setdefault(route_of(topics[row]), []).append(row)
        copies: MessageBatch | None = None
        if self._space.selects:
            rows_by_route = by_choice(batch, rows_by_route)
            self._note_forwardings(rows_by_route, batch.count, result)
            if any(route.forwarding is not None and bool(route.forwarding.copies) for route in rows_by_route):
                expansion = Expansion(batch, self._space.natives)
                expansion.add(rows_by_route)
                copies = expansion.copies() if batch.retain else None
                if copies is not None and result.retains and not self._may_retain(batch, copies, result):
                    return None
                batch, rows_by_route = expansion.batch(), expansion.rows_by_route
                if not rows_by_route:  # no row has a destination
                    return copies
        if len(rows_by_route) == 1:
            self._publish_by(next(iter(rows_by_route)), batch, None, token, result)
        else:
            self._publish_mixed(batch, rows_by_route, token, result)
        return copies

    def _note_forwardings(self, rows_by_route: dict[Route, list[int]], published: int, result: PublishResult) -> None:
        for route, rows in rows_by_route.items():
            if route.forwarding is not None:
                self._note_forwarding(route.forwarding, len(rows), published, result)

    def _note_forwarding(self, forwarding: Forwarding, count: int, published: int, result: PublishResult) -> None:
        """Record what the definitions say that forward `count` rows; `published` rows are published together."""
        forwarded = result.forwarded
        if forwarded is None:
            forwarded = result.forwarded = ForwardingResult(published)
        forwarded.spared.update(forwarding.spared)
        # Several rows are taken all or not at all; if not, they are published again one by one.
        forwarded.is_partial = forwarded.is_partial or (
            forwarding.is_partial and published == 1 and not self._in_transaction
        )
        forwarded.is_concurrent = forwarded.is_concurrent or forwarding.is_concurrent
        for name in forwarding.missing:
            result.refuse(REFUSED_NOT_FOUND, name)
        forwarded.missing_count += count * (len(forwarding.missing) + len(forwarding.lost))
        forwarded.unmatched_count += count * forwarding.unmatched_count
        if forwarding.is_nowhere:
            forwarded.filtered_count += count

    def _count_forwarded(self, forwarded: ForwardingResult, batch: MessageBatch, result: PublishResult) -> None:
        """Count forwarded messages without destination; not for several rows that are published again one by one."""
        if result.refusal == ADMITTED:
            self._space.filtered_count += forwarded.filtered_count
            self._count_unrouted(batch, forwarded.unmatched_count)
        if result.refusal == ADMITTED or batch.count == 1:
            self._space.missing_count += forwarded.missing_count

    def _publish_mixed(
        self, batch: MessageBatch, rows_by_route: dict[Route, list[int]], token: int, result: PublishResult
    ) -> None:
        """Publish a batch whose rows have different routes: gather the rows of each destination into one batch."""
        direct: dict[Subscriber, list[int]] = {}
        queues: dict[QueueTarget, list[int]] = {}
        groups: dict[ShareGroup, list[int]] = {}
        guaranteed = batch.qos != AT_MOST_ONCE
        unrouted_count = 0
        parts: LinkParts | None = None  # None: no neighbor wants any of the rows
        for route, rows in rows_by_route.items():
            if route.is_empty_for_direct and (route.is_empty or not guaranteed):
                unrouted_count += len(rows)
            receivers = route.direct
            if not guaranteed:
                receivers = receivers + route.guaranteed + route.takers
            else:
                for subscriber in route.guaranteed:
                    if subscriber.queue is not None:
                        queues.setdefault(subscriber.queue, []).extend(rows)
            links = route.links
            if links is not None:
                self._ask_home(links, batch, rows, result)
                if guaranteed:
                    for output in links.stored:
                        queues.setdefault(self._space.link_queues[output], []).extend(rows)
                if parts is None:
                    parts = self._parts(batch)
                self._gather_linked(route, links, rows, receivers, parts, direct, groups)
            elif len(receivers) > 1 and asks_for_one(batch, rows):
                for subscriber, own_rows in self._hands(route, batch, rows, receivers).items():
                    direct.setdefault(subscriber, []).extend(own_rows)
            else:
                for subscriber in receivers:
                    direct.setdefault(subscriber, []).extend(rows)
            for queue in route.queues:
                own_rows = rows if guaranteed or queue.turns is None else direct.pop(queue.turns, [])
                if own_rows:
                    queues.setdefault(queue, []).extend(own_rows)
            if links is None:
                for group in route.groups:
                    groups.setdefault(group, []).extend(rows)
        for group in list(groups):
            if guaranteed and group.queue is not None:
                queues.setdefault(group.queue, []).extend(groups.pop(group))
        if unrouted_count and self._refuses_unrouted(batch):
            result.refusal = REFUSED_NO_MATCH
            return
        if not self._spool_mixed(queues, parts, batch, token, result):
            return
        if parts is not None:
            if not guaranteed:
                self._spool_named(rows_by_route, batch)
            self._count_sent(batch, parts.send())
        self._count_unrouted(batch, unrouted_count)
        result.routed = unrouted_count < batch.count
        for subscriber, rows in direct.items():
            self._post_direct(subscriber, selected(batch, in_order(batch, rows)))
        for group, rows in groups.items():
            self._post_shared(group, selected(batch, in_order(batch, rows)))

    def _parts(self, batch: MessageBatch) -> LinkParts:
        assert self._space.neighbors is not None, "a route has links"
        return LinkParts(self._space.neighbors, batch)

    def _gather_linked(
        self,
        route: Route,
        links: LinkRoute,
        rows: list[int],
        receivers: list[Subscriber],
        parts: LinkParts,
        direct: dict[Subscriber, list[int]],
        groups: dict[ShareGroup, list[int]],
    ) -> None:
        """Gather the clients and groups of rows that neighbors want as well, and what these get."""
        batch = parts.batch
        unclaimed: list[int] | None = None  # Deliver-To-One rows that a neighbor may get
        if asks_for_one(batch, rows):
            if links.matches:
                unclaimed = []
            for subscriber, own_rows in self._hands(route, batch, rows, receivers, unclaimed).items():
                direct.setdefault(subscriber, []).extend(own_rows)
        else:
            for subscriber in receivers:
                direct.setdefault(subscriber, []).extend(rows)
        elsewhere = route.groups_elsewhere(guaranteed=batch.qos != AT_MOST_ONCE)
        parts.add(links, rows, elsewhere, unclaimed)
        for group in route.groups:
            if not any(each.key == group.key for each in elsewhere):
                groups.setdefault(group, []).extend(rows)

    def _publish_by(
        self, route: Route, batch: MessageBatch, rows: list[int] | None, token: int, result: PublishResult
    ) -> None:
        """Publish rows that all have the same route."""
        guaranteed = batch.qos != AT_MOST_ONCE
        if guaranteed and route.only_queue is not None and result.refusal == ADMITTED:
            self._spool_to_one(route.only_queue, batch, token, result)
            return
        links = route.links
        if links is not None:
            self._ask_home(links, batch, rows, result)
        if (route.takers and not guaranteed) or (links is not None and _is_divided(links, batch)):
            self._publish_mixed(batch, {route: list(range(batch.count))}, token, result)
            return
        if route.queues or (guaranteed and (route.guaranteed or route.groups or links is not None)):
            targets: dict[QueueTarget, list[int] | None] = dict.fromkeys(route.queues, rows)
            if guaranteed:
                for subscriber in route.guaranteed:
                    if subscriber.queue is not None:
                        targets[subscriber.queue] = rows
                for group in route.groups:
                    if group.queue is not None:
                        targets[group.queue] = rows
                if links is not None:
                    for output in links.stored:
                        targets[self._space.link_queues[output]] = rows
            if (targets or result.refusal != ADMITTED) and not self._spool_to(targets, batch, token, result):
                return
        elif result.refusal != ADMITTED:  # a target queue that does not exist
            return
        if links is not None:
            if links.is_named and not guaranteed:
                self._spool_named({route: list(range(batch.count))}, batch)
            outputs = links.beside if guaranteed else links.outputs
            for output in outputs:
                output.send(batch, SUBSCRIBERS)
            self._count_sent(batch, batch.count * len(outputs))
        receivers = route.direct if guaranteed or not route.guaranteed else route.direct + route.guaranteed
        if len(receivers) > 1 and asks_for_one(batch, None):
            for subscriber, its in self._hands(route, batch, list(range(batch.count)), receivers).items():
                self._post_direct(subscriber, selected(batch, its))
        else:
            alone = len(receivers) == 1 and not self._in_transaction  # several would hold up all other actors
            for subscriber in receivers:
                self._post_direct(subscriber, batch, at_once=alone)
        for group in route.groups:
            if not guaranteed or group.queue is None:
                self._post_shared(group, batch)
        if route.is_empty_for_direct and (route.is_empty or not guaranteed):
            self._handle_unrouted(batch, result)

    def _ask_home(self, links: LinkRoute, batch: MessageBatch, rows: list[int] | None, result: PublishResult) -> None:
        """Refuse messages for a queue of a neighbor that would refuse them: what is confirmed here it has to take."""
        home = links.home
        if home is None:
            return
        # While the link is down nobody tells that there is room again: the link's queue has a quota of its own.
        facts = home.facts if home.output.is_up else home.facts._replace(is_full=False)
        verdict = facts.verdict(batch if rows is None else selected(batch, rows))
        if verdict != ADMITTED:
            result.refuse(verdict, home.name, home.facts.limit(verdict))
            if batch.count == 1:  # else they are counted one by one
                counts = self._space.refused_early
                counts[verdict] = counts.get(verdict, 0) + 1

    def _handle_unrouted(self, batch: MessageBatch, result: PublishResult) -> None:
        """Handle rows without destination: report it for a queue's topic, and else where the VPN requires it."""
        result.routed = False
        topic = batch.topic_of(0)
        if is_queue_topic(topic):
            name = queue_name_of(topic)
            result.refuse(REFUSED_NOT_FOUND, name)
            if homes := self._space.conflict(name):
                result.also_refused += (
                    f"; brokers {', '.join(homes)} have one each, and the name means none of them here"
                )
            if batch.count == 1:  # else they are counted one by one
                self._space.missing_count += 1
        elif not self._refuses_unrouted(batch):
            self._count_unrouted(batch, batch.count)
        else:
            result.refusal = REFUSED_NO_MATCH
            if batch.count == 1:
                self._space.unmatched_refused_count += 1

    def _refuses_unrouted(self, batch: MessageBatch) -> bool:
        """Return whether rows without subscriber are refused; retained ones are kept for later subscribers."""
        asked = self.requires_match or (self._space.refuses_unmatched and batch.qos != AT_MOST_ONCE)
        return asked and not batch.retain

    def _count_unrouted(self, batch: MessageBatch, count: int) -> None:
        """Count `count` dropped rows without subscriber."""
        if not batch.retain:
            self._space.unmatched_count += count

    def _count_sent(self, batch: MessageBatch, count: int) -> None:
        """Count messages that were sent to neighbors, of a batch of which each neighbor gets some."""
        if batch.qos != AT_MOST_ONCE:
            self._space.sent_at_most_once_count += count

    # --- direct messages ---

    def _hands(
        self,
        route: Route,
        batch: MessageBatch,
        rows: list[int],
        receivers: list[Subscriber],
        unclaimed: list[int] | None = None,
    ) -> dict[Subscriber, list[int]]:
        """Return the rows of each receiver, where some rows are Deliver-To-One."""
        if self._deliver_to_one is None:
            self._deliver_to_one = DeliverToOne(self._space)
        return self._deliver_to_one.hands(route, batch, rows, receivers, unclaimed)

    def _post_direct(self, subscriber: Subscriber, batch: MessageBatch, *, at_once: bool = False) -> None:
        address = subscriber.address
        if address is None:
            self._space.offline_count += batch.count
            return
        if at_once:
            address.deliver_now(batch)
        else:
            address.post(batch)
        pressure = subscriber.pressure
        if pressure is not None and pressure.over:
            self.pressures.append(pressure)

    def _post_shared(self, group: ShareGroup, batch: MessageBatch) -> None:
        """Distribute the rows over the members in turn; disconnected members get none."""
        hands = deal_to_members(group, batch)
        if not hands:
            self._space.offline_count += batch.count
        for member, its in hands:
            queue = group.queue_of(member)
            if queue is not None:
                whole: dict[QueueTarget, list[int] | None] = {queue: None}
                dealt = PublishResult()
                dealt.forwarded = ForwardingResult(1)
                dealt.forwarded.spared[queue] = None  # its publisher goes on: what the queue refuses is dropped there
                self._spool_to(whole, its, 0, dealt)
            elif member.address is not None:
                member.address.post(SharedDirect(group, its))

    # --- guaranteed messages ---

    def _spool_to_one(self, target: QueueTarget, batch: MessageBatch, token: int, result: PublishResult) -> None:
        """Put a whole batch into the only destination: the usual case for guaranteed messages."""
        gate = target.gate
        if len(target.partitions) != 1 or gate.verdict(batch) != ADMITTED:
            whole: dict[QueueTarget, list[int] | None] = {target: None}
            self._spool_to(whole, batch, token, result)
            return
        gate.reserve(batch)
        publication: Publication | None = None
        if target.durable:
            publication = self._publication_of(batch, token, 1)
            result.publication = publication
            result.confirmations_pending += 1
        append = Append(batch, publication, None)
        if self._in_transaction:
            target.partitions[0].address.post(append)
        else:
            target.partitions[0].address.deliver_now_if_idle(append)
        if target.pressure.over:
            self.pressures.append(target.pressure)

    def _spool_to(
        self,
        targets: dict[QueueTarget, list[int] | None] | dict[QueueTarget, list[int]],
        batch: MessageBatch,
        token: int,
        result: PublishResult,
    ) -> bool:
        """Put rows of a batch into queues, all or nothing. Return False, with the refusals recorded, when one refuses.

        Definitions may allow queues to be skipped, or to keep what they took before one refused.
        """
        forwarded = result.forwarded
        refusing: list[tuple[QueueTarget, int, int, bool]] = []  # verdict, rows, whether the publisher is told
        taken: list[tuple[QueueTarget, list[int] | None, MessageBatch]] = []
        for target, rows in targets.items():
            part = batch if rows is None else selected(batch, rows)
            verdict = target.gate.verdict(part)
            if verdict == ADMITTED:
                taken.append((target, None if part is batch else rows, part))
                continue
            is_spared = forwarded is not None and target in forwarded.spared
            hears = not is_spared and target.gate.refuses_publisher(verdict)
            refusing.append((target, verdict, part.count, hears))
            if hears:
                result.refuse(verdict, target.name, target.gate.limit(verdict))
            is_last = _comes_again(batch, result) or _stops_at_refusal(forwarded)
            if is_last and not is_spared and result.refusal != ADMITTED:
                break
        if refusing and (result.refusal == ADMITTED or not _comes_again(batch, result)):
            for target, verdict, count, hears in refusing:
                target.gate.refuse(verdict, count, hears=hears and batch.qos != AT_MOST_ONCE)
        if result.refusal != ADMITTED and (forwarded is None or not forwarded.is_partial):
            return False
        parts: list[tuple[QueueTarget, int, list[int] | None, MessageBatch]] = []
        for target, rows, part in taken:
            target.gate.reserve(part)
            parts += self._by_partition(target, rows, part)
        durable = [part for part in parts if part[0].durable]
        publication: Publication | None = None
        if durable:
            if batch.qos == AT_MOST_ONCE or result.refusal != ADMITTED or not self._hears:
                publication = Publication(batch, publisher=None, token=0, partitions_count=len(durable))
            else:
                publication = self._publication_of(batch, token, len(durable))
                result.publication = publication
                result.confirmations_pending += 1
            publication.is_transaction = self._in_transaction
        for target, number, rows, part in parts:
            target.partitions[number].address.post(Append(part, publication if target.durable else None, rows))
            if target.pressure.over:
                self.pressures.append(target.pressure)
        return result.refusal == ADMITTED

    def _spool_mixed(
        self,
        queues: dict[QueueTarget, list[int]],
        parts: LinkParts | None,
        batch: MessageBatch,
        token: int,
        result: PublishResult,
    ) -> bool:
        """Put gathered rows into queues, also what is for one receiver at a neighbor. Return as `_spool_to`."""
        chosen = parts.stored() if parts is not None and batch.qos != AT_MOST_ONCE else []
        if chosen:
            return self._spool_chosen(chosen, queues, batch, token, result)
        if not queues and result.refusal == ADMITTED:
            return True
        return self._spool_to({queue: in_order(batch, rows) for queue, rows in queues.items()}, batch, token, result)

    def _spool_named(self, rows_by_route: dict[Route, list[int]], batch: MessageBatch) -> None:
        """Put direct messages that name a queue of a neighbor into the queues of links, which lose none of them.

        Their publisher is told nothing, as when a queue here takes them or drops them.
        """
        for route, rows in rows_by_route.items():
            if route.links is None or not route.links.is_named:
                continue
            stored = batch.select(rows)
            stored.qos = AT_LEAST_ONCE
            [output] = route.links.stored
            target = self._space.link_queues[output]
            verdict = target.gate.verdict(stored)
            if verdict != ADMITTED:
                target.gate.refuse(verdict, stored.count, hears=False)
                continue
            target.gate.reserve(stored)
            publication = Publication(stored, publisher=None, token=0, partitions_count=1)
            target.partitions[0].address.post(Append(stored, publication, None))

    def _spool_chosen(
        self,
        chosen: list[tuple[LinkOutput, int, LinkTargets]],
        queues: dict[QueueTarget, list[int]],
        batch: MessageBatch,
        token: int,
        result: PublishResult,
    ) -> bool:
        """Put rows into queues, and into link queues those that are for one receiver at a neighbor, with their choice.

        In the record each choice is a row of its own. Where the neighbor's subscribers get the message too, it goes
        there once, for both.
        """
        choices: list[tuple[int, bytes]] = []
        for output, row, targets in chosen:
            rows = queues.get(self._space.link_queues[output], [])
            if row in rows:
                rows.remove(row)
                targets = LinkTargets(subscribers=True, deliver_to_one=targets.deliver_to_one, groups=targets.groups)
            choices.append((row, targets_value(targets)))
        needed = {row for rows in queues.values() for row in rows}
        expanded, places, own_places = with_choices(batch, choices, needed)
        placed: dict[QueueTarget, list[int]] = {
            queue: [places[row] for row in rows] for queue, rows in queues.items() if rows
        }
        for choice, place in zip(chosen, own_places, strict=True):
            placed.setdefault(self._space.link_queues[choice[0]], []).append(place)
        if result.forwarded is None:
            result.forwarded = ForwardingResult(batch.count)  # so many were published, not so many as there are rows
        return self._spool_to(
            {queue: in_order(expanded, rows) for queue, rows in placed.items()}, expanded, token, result
        )

    def _partition_without_key(self, target: QueueTarget, headers: Headers | None) -> int:
        """Return the number of the partition for a message without a key."""
        return target.partition_of(self._rng.getrandbits(16))

    def _by_partition(
        self, target: QueueTarget, rows: list[int] | None, part: MessageBatch
    ) -> list[tuple[QueueTarget, int, list[int] | None, MessageBatch]]:
        """Split the rows for a queue by partition: by the hash of the key, of one from the key source, or at random."""
        if len(target.partitions) == 1:
            return [(target, 0, rows, part)]
        headers = part.headers()
        found = None if target.key_source is None else key_hashes(target.key_source, part)
        chosen: dict[int, list[int]] = {}
        for row in range(part.count):
            row_headers = None if headers is None else headers[row]
            if row_headers is not None and row_headers.key_hash >= 0:
                number = target.partition_of(row_headers.key_hash)
            elif found is not None and found[row] >= 0:
                number = target.partition_of(found[row])
            else:
                number = self._partition_without_key(target, row_headers)
            chosen.setdefault(number, []).append(row)
        if len(chosen) == 1:
            return [(target, number, rows, part) for number in chosen]
        return [
            (
                target,
                number,
                chosen_rows if rows is None else [rows[row] for row in chosen_rows],
                part.select(chosen_rows),
            )
            for number, chosen_rows in chosen.items()
        ]


def _is_divided(links: LinkRoute, batch: MessageBatch) -> bool:
    """Return whether not every neighbor of a route gets the whole batch, for its subscribers."""
    return bool(links.groups) or asks_for_one(batch, None)


def _stops_at_refusal(forwarded: ForwardingResult | None) -> bool:
    """Return whether queues after one that refuses are not asked: what they took would stay there."""
    return forwarded is not None and forwarded.is_partial and not forwarded.is_concurrent


def _comes_again(batch: MessageBatch, result: PublishResult) -> bool:
    """Return whether a refused batch is published again one by one: only then refusals are counted."""
    return (batch.count if result.forwarded is None else result.forwarded.published_count) > 1
