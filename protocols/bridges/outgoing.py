"""Outgoing rules of a bridge: messages of a queue, or of topics, go to the foreign broker.

A message of a queue is settled when the foreign broker has confirmed it, so it goes there at least once. A slow
foreign broker leaves the window used up, and the messages in the queue, where its quota holds. A message of a topic is
direct: it goes at most once, and is dropped and counted where there is no connection or no room.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any, Final, final

import pykka

from sluicegate.actors.messages.data import Deliveries, release_delivery, settle_from, source_of
from sluicegate.actors.messages.directory import FindQueue, QueueHandle
from sluicegate.actors.messages.queues import BindFlow, BindRefused, FlowGone, FlowState, UnbindFlow
from sluicegate.actors.messages.router import AddSubscription, RemoveSubscription
from sluicegate.actors.partitions.triggers import wake_waiters
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import NATIVE_AMQP, NATIVE_NONE, Headers
from sluicegate.messaging.message.outcomes import ACCEPTED, FAILED, REJECTED, RELEASED
from sluicegate.messaging.observability.events import VPN_BRIDGE_RULE_DOWN, VPN_BRIDGE_RULE_UP, as_word
from sluicegate.messaging.partitions.state.effects import Delivery
from sluicegate.messaging.partitions.state.unsettled import DeliverySource
from sluicegate.messaging.queues.credit import CreditWindow
from sluicegate.messaging.routing.destinations import Subscriber
from sluicegate.protocols.bridges.path import PATH, extended, has_passed, is_too_long, path_of
from sluicegate.protocols.bridges.remote import Outgoing, Refusal
from sluicegate.protocols.bridges.rules import (
    DROPPED_CAME_BACK,
    DROPPED_NOT_CONNECTED,
    DROPPED_OWN,
    DROPPED_REFUSED,
    DROPPED_TOO_MANY_HOPS,
    DROPPED_UNMAPPED,
    DROPPED_WINDOW_FULL,
    PROTOCOL,
    RULES_MAX,
    BridgeContext,
    RuleCounters,
)
from sluicegate.protocols.bridges.settings import OutgoingRule

log = logging.getLogger("sluicegate.bridges")

REBIND_MS: Final = 3_000  # as other protocols do for their clients
DIRECT_MESSAGES_MAX: Final = 10_000  # of one topic rule, on their way to the foreign broker's socket
SIZE_FIRST: Final = 1_024  # what a message is taken for before one was there


class OutgoingSide(LoopActor):
    """What both kinds of outgoing rules do: number messages, and translate them."""

    def __init__(
        self, cell: ActorCell, *, rule: OutgoingRule, index: int, bridge: BridgeContext, counters: RuleCounters
    ) -> None:
        super().__init__(cell)
        self.rule = rule
        self.counters = counters
        self.is_up = False
        self.reason = "not connected yet"  # why it is not up
        self.shortfalls = bridge.shortfalls_of(rule.name, counters)
        self._index = index
        self._bridge = bridge
        self._outbox: list[Outgoing] = []  # of this turn
        self._last_number = index
        self._path = extended("", bridge.place, bridge.settings.name)  # of a message without a path behind it

    def next_number(self) -> int:
        """Return the number of the next message. Its last byte is the index of the rule."""
        self._last_number += RULES_MAX
        return self._last_number

    def add(self, number: int, batch: MessageBatch, row: int, topic: str) -> str:
        """Send a message at the end of the turn, or return why it is dropped."""
        headers = batch.headers_of(row)
        path = self._path
        if headers is not None:
            behind = path_of(headers)
            if behind is not None:
                if has_passed(behind, self._bridge.place):
                    return DROPPED_CAME_BACK
                if is_too_long(behind):
                    return DROPPED_TOO_MANY_HOPS
                path = extended(behind, self._bridge.place, self._bridge.settings.name)
                headers = _without_path(headers)
        self._outbox.append(
            Outgoing(
                number=number,
                rule=self._index,
                topic=topic,
                payload=batch.payloads()[row],
                headers=headers,
                path=path,
                qos=self.rule.qos,
                retain=batch.retain,
            )
        )
        return ""

    def image(self, topic: str) -> str | None:
        """Return where a message of a topic goes; None: nowhere."""
        return self.rule.target or self.rule.topic_map.image(topic)

    def on_turn_ended(self) -> None:
        """Hand the messages of the turn to the foreign broker's thread."""
        if self._outbox:
            outbox, self._outbox = self._outbox, []
            self._bridge.line.publish(outbox)

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        """Have the bridge begin anew."""
        self._bridge.rule_failed(self.rule.name)

    # --- what the bridge says ---

    def open(self) -> None:
        """There is a connection."""
        raise AssertionError("open is abstract")

    def lost(self, *, keeps_unconfirmed: bool) -> None:
        """There is no connection any more. Without `keeps_unconfirmed` messages without an outcome get none."""
        raise AssertionError("lost is abstract")

    def confirmed(self, numbers: list[int]) -> None:
        """The foreign broker has these messages."""
        raise AssertionError("confirmed is abstract")

    def refused(self, refusals: Iterable[Refusal]) -> None:
        """The foreign broker did not take these."""
        raise AssertionError("refused is abstract")

    def drain(self) -> None:
        """Take no further messages."""
        raise AssertionError("drain is abstract")

    def end(self) -> None:
        """Let go of the queue or topics, and stop."""
        raise AssertionError("end is abstract")

    @property
    def unconfirmed_count(self) -> int:
        """The number of messages that wait for the foreign broker."""
        raise AssertionError("unconfirmed_count is abstract")

    @property
    def waiting_count(self) -> int:
        """The number of messages that are not settled yet, those included that are tried again."""
        return self.unconfirmed_count


def _without_path(headers: Headers) -> Headers:
    """Return headers without the path, which the remote writes anew."""
    changed = headers.copy()
    changed.user_properties = [each for each in changed.user_properties or [] if each[0] != PATH] or None
    if changed.native_format != NATIVE_AMQP:  # it repeats the user properties; AMQP's remote replaces the one in there
        changed.native_format = NATIVE_NONE
        changed.native = b""
    return changed


@final
class Held:
    """A message of a queue that waits for the foreign broker's outcome."""

    __slots__ = ("payload_bytes", "sequence", "source")

    def __init__(self, source: DeliverySource, sequence: int, payload_bytes: int) -> None:
        self.source = source
        self.sequence = sequence
        self.payload_bytes = payload_bytes


@final
class QueueSource(OutgoingSide):
    """Consumes a queue of ours.

    Invariant: `window.used` is the number of messages in `_held`, of those whose retry waits, and of deliveries on
    their way here.
    """

    def __init__(
        self, cell: ActorCell, *, rule: OutgoingRule, index: int, bridge: BridgeContext, counters: RuleCounters
    ) -> None:
        super().__init__(cell, rule=rule, index=index, bridge=bridge, counters=counters)
        self._window: CreditWindow[Address] = CreditWindow(0, bridge.services.credit)
        self._held: dict[int, Held] = {}  # in order of their numbers
        self._held_bytes = 0
        self._waiting: dict[int, Held] = {}  # failed, and to be settled when the retry delay is over
        self._size_bytes = SIZE_FIRST  # a message has about so many bytes: what is yet to come has no size
        self._sources: dict[int, DeliverySource] = {}  # by partition number: that of its last delivery
        self._partitions: set[int] = set()
        self._queue: ActorCell | None = None
        self._flow_id = 0  # 0: not bound
        self._timer: Any = None
        self._is_draining = False
        self._is_ended = False

    @property
    def unconfirmed_count(self) -> int:
        """The number of messages that wait for the foreign broker."""
        return len(self._held)

    @property
    def waiting_count(self) -> int:
        """The number of messages that are not settled yet, those included that are tried again."""
        return len(self._held) + len(self._waiting)

    def open(self) -> None:
        """Bind the queue, if that was not done, and take messages."""
        if self._flow_id:
            self._review()
        elif self._timer is None and not self._is_ended:
            self._try_to_bind()

    def lost(self, *, keeps_unconfirmed: bool) -> None:
        """Take no more, and return to the queue what was sent without an outcome."""
        self._window.limit = 0
        if keeps_unconfirmed:
            return
        self._outbox.clear()
        held, self._held = self._held, {}
        self._held_bytes = 0
        self._settle([*held.values()], RELEASED)
        self._bridge.settled()

    def drain(self) -> None:
        """Take no further messages."""
        self._is_draining = True
        self._window.limit = 0

    def end(self) -> None:
        """Unbind; the queue gets back what has no outcome."""
        self._is_ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._flow_id and self._queue is not None:
            self._queue.inbox.post(UnbindFlow(self._flow_id, count_as_failed=False, may_return=False))
        self._forget_flow("stopped")
        self.cell.stop()

    # --- outcomes ---

    def confirmed(self, numbers: list[int]) -> None:
        """Settle messages that the foreign broker has."""
        taken: list[Held] = []
        size = 0
        pop = self._held.pop
        for number in numbers:
            held = pop(number, None)  # None: it has left the flow
            if held is not None:
                size += held.payload_bytes
                taken.append(held)
        self._held_bytes -= size
        self.counters.messages_count += len(taken)
        self.counters.payload_bytes += size
        self._settle(taken, ACCEPTED)
        self._review()
        if not self._held:
            self._bridge.settled()

    def refused(self, refusals: Iterable[Refusal]) -> None:
        """Settle messages that the foreign broker did not take. Those that failed come again after the retry delay."""
        for refusal in refusals:
            held = self._held.pop(refusal.number, None)
            if held is None:
                continue
            self._held_bytes -= held.payload_bytes
            if refusal.outcome == REJECTED:
                self.counters.drop(DROPPED_REFUSED)
                self._reject(held, refusal.reason)
            else:
                self.counters.failures_count += 1
                self._retry_later(refusal.number, held, refusal.outcome)
        self._review()
        if not self._held:
            self._bridge.settled()

    def _retry_later(self, number: int, held: Held, outcome: int) -> None:
        self._waiting[number] = held
        delay_ms = self._bridge.settings.retry_delay_ms

        def settle() -> None:
            if self._waiting.pop(number, None) is not None:
                self._settle([held], FAILED if outcome == FAILED else RELEASED)
                self._review()

        self.cell.after(delay_ms, settle)

    def _reject(self, held: Held, cause: str) -> None:
        settle = settle_from(held.source, held.sequence, held.sequence + 1, REJECTED)
        settle.cause = cause
        held.source.partition.post(settle)
        self._window.give(1)

    def _settle(self, taken: list[Held], outcome: int) -> None:
        """Settle messages of this flow, neighbours in one range."""
        first = end = 0
        source: DeliverySource | None = None
        for held in taken:
            if held.source is source and held.sequence == end:
                end += 1
                continue
            if source is not None:
                source.partition.post(settle_from(source, first, end, outcome))
            source, first, end = held.source, held.sequence, held.sequence + 1
        if source is not None:
            source.partition.post(settle_from(source, first, end, outcome))
            self._window.give(len(taken))

    # --- deliveries ---

    def on_receive(self, message: Any) -> None:
        """Take deliveries, or what the queue says of the flow."""
        if isinstance(message, Deliveries):
            self._deliver(message)
        elif isinstance(message, FlowState):
            self._state(message.partitions)
        elif isinstance(message, FlowGone):
            self._forget_flow(message.reason)
            self._not_bound(message.reason)

    def _deliver(self, message: Deliveries) -> None:
        if message.flow.flow_id != self._flow_id:
            return  # of a flow that has ended, with its window: they are the queue's again
        is_wanted = self._bridge.is_open and not self._is_draining and message.partition_number in self._partitions
        for delivery in message.deliveries:
            if is_wanted:
                self._send(source_of(self._sources, message, delivery), delivery)
            else:  # it has come after the connection was lost, or the partition taken away
                self._window.give(delivery.stop_row - delivery.start_row)
                release_delivery(message, delivery)
        self._review()

    def _send(self, source: DeliverySource, delivery: Delivery) -> None:
        batch = delivery.batch
        is_own = batch.publisher == self._bridge.client
        topic = self.image(batch.topic_of(delivery.start_row))
        has_one_topic = batch.topics is None or bool(self.rule.target)
        payloads, size = batch.payloads(), 0
        for row in range(delivery.start_row, delivery.stop_row):
            held = Held(source, delivery.first_sequence + row - delivery.start_row, len(payloads[row]))
            if not has_one_topic:
                topic = self.image(batch.topic_of(row))
            if is_own:
                self.counters.drop(DROPPED_OWN)
                self._settle([held], ACCEPTED)
                continue
            if topic is None:
                self.counters.drop(DROPPED_UNMAPPED)
                self._reject(held, f"the topic map {self.rule.topic_map} has no image of {batch.topic_of(row)!r:.200}")
                continue
            number = self.next_number()
            dropped = self.add(number, batch, row, topic)
            if dropped:
                self.counters.drop(dropped)
                self._settle([held], ACCEPTED)
                continue
            self._held[number] = held
            size += held.payload_bytes
        self._held_bytes += size
        if size:
            self._size_bytes = max(size // (delivery.stop_row - delivery.start_row), 1)

    def _state(self, partitions: list[int]) -> None:
        """Set the partitions of the flow; messages of others have returned to the queue."""
        self._partitions = set(partitions)
        for number in [each for each in self._sources if each not in self._partitions]:
            del self._sources[number]
        for held_by in (self._held, self._waiting):
            for number, held in list(held_by.items()):
                if held.source.partition_number not in self._partitions:
                    del held_by[number]
                    self._window.give(1)
                    if held_by is self._held:
                        self._held_bytes -= held.payload_bytes
        self._review()

    def _review(self) -> None:
        """Set the window to what there is room for, and wake partitions that wait."""
        bridge, window = self._bridge, self._window
        if not self._flow_id or not bridge.is_open or self._is_draining:
            return
        room_bytes = bridge.settings.window_bytes - self._held_bytes
        room = 0 if room_bytes <= 0 else max(room_bytes // self._size_bytes, 1)
        window.limit = min(bridge.settings.window_messages, window.used + room)
        wake_waiters(window, self.runtime.dispatcher)

    # --- the flow ---

    def _try_to_bind(self) -> None:
        self._timer = None
        self.runtime.keep(self.runtime.loop.create_task(self._bind()))

    async def _bind(self) -> None:
        try:
            await self._bind_flow()
        except (BindRefused, pykka.ActorDeadError) as refusal:  # it would not, or was deleted meanwhile
            self._forget_flow(str(refusal))
            self._not_bound(str(refusal))
        except Exception:  # ours: it is tried again, as after a refusal
            log.exception("bridge %r failed to bind the queue %r", self._bridge.settings.name, self.rule.queue)
            self._forget_flow("")
            self._not_bound("a fault of the broker; its log says more")

    async def _bind_flow(self) -> None:
        services, name, client = self._bridge.services, self.rule.queue, self._bridge.client
        handle: QueueHandle | None = await services.queues.ask(FindQueue(name, anywhere=True))
        if self._is_ended or self._flow_id:
            return
        if handle is None:
            self._not_bound(f"there is no queue {name!r}")
            return
        self._queue = handle.cell
        self._flow_id = flow_id = self.runtime.next_urn()
        self._window.limit = 0
        await handle.cell.ask(BindFlow(flow_id, client, client, self.cell.inbox, self._window, PROTOCOL))
        if self._has_ended():
            handle.cell.inbox.post(UnbindFlow(flow_id, count_as_failed=False, may_return=False))
        elif self._flow_id == flow_id:
            self.is_up = True
            self.reason = ""
            self._tell(VPN_BRIDGE_RULE_UP, "is up")
            self._review()

    def _has_ended(self) -> bool:
        return self._is_ended  # asked by a call: mypy would go by an older value

    def _forget_flow(self, reason: str) -> None:
        """The flow has ended: its unsettled messages are the queue's."""
        self._flow_id = 0
        self._queue = None
        self.is_up = False
        self.reason = reason
        self._held.clear()
        self._waiting.clear()
        self._outbox.clear()
        self._held_bytes = 0
        self._sources.clear()
        self._partitions.clear()
        self._window.close()
        self._window = CreditWindow(0, self._bridge.services.credit)
        self._bridge.settled()

    def _not_bound(self, reason: str) -> None:
        if self._is_ended:
            return
        if self.is_up or self.reason != reason or self._timer is None:
            self._tell(VPN_BRIDGE_RULE_DOWN, f"is down: {reason}")
        self.is_up = False
        self.reason = reason
        self._timer = self.cell.after(REBIND_MS, self._try_to_bind)

    def _tell(self, kind: Any, what: str) -> None:
        name = as_word(f"{self._bridge.settings.name}/{self.rule.name}")
        self._bridge.services.events.emit(kind, f"bridge rule {name} {what}")


@final
class TopicSource(OutgoingSide):
    """Subscribes to topics of ours: their messages are direct."""

    def __init__(
        self, cell: ActorCell, *, rule: OutgoingRule, index: int, bridge: BridgeContext, counters: RuleCounters
    ) -> None:
        super().__init__(cell, rule=rule, index=index, bridge=bridge, counters=counters)
        self._on_the_way: dict[int, int] = {}  # number -> payload bytes
        self._bytes_on_the_way = 0
        self._subscriber = Subscriber(bridge.client, f"{bridge.client}/{rule.name}")
        self._subscriber.address = cell.inbox
        self._is_subscribed = False

    @property
    def unconfirmed_count(self) -> int:
        """The number of messages on their way."""
        return len(self._on_the_way)

    def open(self) -> None:
        """Subscribe, if that was not done."""
        self.is_up = True
        self.reason = ""
        if not self._is_subscribed:
            self._is_subscribed = True
            topic_filter = self.rule.topic_filter
            assert topic_filter is not None, "the settings were checked"
            self._bridge.services.router.ask(
                AddSubscription(
                    self._subscriber, topic_filter, AT_MOST_ONCE, retained_if_new=False, retained_if_known=False
                )
            )

    def lost(self, *, keeps_unconfirmed: bool) -> None:
        """Forget what was on its way. The subscription stays, so that what is lost meanwhile is counted."""
        self.is_up = False
        self.reason = "not connected"
        if not keeps_unconfirmed:
            self._outbox.clear()
            self.counters.drop(DROPPED_NOT_CONNECTED, len(self._on_the_way))
            self._on_the_way.clear()
            self._bytes_on_the_way = 0
        self._bridge.settled()

    def drain(self) -> None:
        """Unsubscribe."""
        if self._is_subscribed:
            self._is_subscribed = False
            topic_filter = self.rule.topic_filter
            assert topic_filter is not None, "the settings were checked"
            self._bridge.services.router.ask(RemoveSubscription(self._subscriber, topic_filter))

    def end(self) -> None:
        """Unsubscribe, and stop."""
        self.drain()
        self._subscriber.address = None
        self._on_the_way.clear()
        self.cell.stop()

    def on_receive(self, batch: Any) -> None:
        """Take a direct batch."""
        assert isinstance(batch, MessageBatch), "nothing else is sent here"
        reason = self._refusal(batch)
        if reason:
            self.counters.drop(reason, int(batch.count))
            return
        payloads = batch.payloads()
        for row in range(batch.count):
            topic = self.image(batch.topic_of(row))
            number = self.next_number()
            dropped = DROPPED_UNMAPPED if topic is None else self.add(number, batch, row, topic)
            if dropped:
                self.counters.drop(dropped)
            else:
                self._on_the_way[number] = len(payloads[row])
                self._bytes_on_the_way += len(payloads[row])

    def _refusal(self, batch: MessageBatch) -> str:
        bridge = self._bridge
        if batch.publisher == bridge.client:
            return DROPPED_OWN
        if not bridge.is_open:
            return DROPPED_NOT_CONNECTED
        is_full = len(self._on_the_way) >= DIRECT_MESSAGES_MAX or self._bytes_on_the_way >= bridge.settings.window_bytes
        return DROPPED_WINDOW_FULL if is_full else ""

    def confirmed(self, numbers: list[int]) -> None:
        """Count what has gone."""
        for number in numbers:
            size = self._on_the_way.pop(number, -1)
            if size >= 0:
                self._bytes_on_the_way -= size
                self.counters.messages_count += 1
                self.counters.payload_bytes += size
        if not self._on_the_way:
            self._bridge.settled()

    def refused(self, refusals: Iterable[Refusal]) -> None:
        """Count what was not taken: direct messages are not tried again."""
        for refusal in refusals:
            size = self._on_the_way.pop(refusal.number, -1)
            if size >= 0:
                self._bytes_on_the_way -= size
                self.counters.drop(DROPPED_REFUSED)
        if not self._on_the_way:
            self._bridge.settled()


def source_factory(
    rule: OutgoingRule, index: int, bridge: BridgeContext, counters: RuleCounters
) -> Callable[[ActorCell], OutgoingSide]:
    """Return what makes the actor of a rule."""
    kind = QueueSource if rule.queue else TopicSource
    return lambda cell: kind(cell, rule=rule, index=index, bridge=bridge, counters=counters)
