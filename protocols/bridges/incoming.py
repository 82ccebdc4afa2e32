"""Incoming rules of a bridge: what arrives from the foreign broker is published here.

An arrival is settled, and so confirmed to the foreign broker, when it is safe here. While a queue has no room nothing
is settled: the window fills, and the foreign broker keeps the messages.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final, final

from sluicegate.actors.messages.data import Confirmed, PublishFailed, Resume
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.message.outcomes import ACCEPTED, REJECTED, RELEASED
from sluicegate.messaging.message.refusals import (
    ADMITTED,
    REFUSED_MESSAGE_TOO_LARGE,
    REFUSED_NO_MATCH,
    refusal_text,
)
from sluicegate.messaging.observability.events import VPN_BRIDGE_RULE_DOWN, VPN_BRIDGE_RULE_UP, as_word
from sluicegate.messaging.topics.syntax import TopicError, check_published_topic
from sluicegate.protocols.bridges.path import has_passed, is_too_long, path_of
from sluicegate.protocols.bridges.remote import Arrival, Settlement
from sluicegate.protocols.bridges.rules import (
    DROPPED_CAME_BACK,
    DROPPED_INVALID,
    DROPPED_NOT_CONNECTED,
    DROPPED_REFUSED,
    DROPPED_TOO_MANY_HOPS,
    DROPPED_UNMAPPED,
    BridgeContext,
    RuleCounters,
)
from sluicegate.protocols.bridges.settings import IncomingRule

RETRY_MS: Final = 1_000  # after a refusal for want of room
PERMANENT: Final = (REFUSED_MESSAGE_TOO_LARGE, REFUSED_NO_MATCH)  # refusals that waiting does not change


@final
class IncomingSide(LoopActor):
    """Publishes the arrivals of one rule, in their order."""

    def __init__(self, cell: ActorCell, *, rule: IncomingRule, bridge: BridgeContext, counters: RuleCounters) -> None:
        super().__init__(cell)
        self.rule = rule
        self.counters = counters
        self.reason = ""  # why nothing is published at the moment; empty: it is
        self.shortfalls = bridge.shortfalls_of(rule.name, counters)
        self._bridge = bridge
        self._publisher = bridge.services.publisher_at(cell.inbox)
        self._last_token = 0
        self._published: dict[int, list[Any]] = {}  # token -> confirmations to come, and arrivals
        self._waiting: deque[tuple[str, Arrival]] = deque()  # mapped, for want of room; what comes goes behind them
        self._waits_for_pressure = False
        self._settlements: list[Settlement] = []
        self._timer: Any = None

    @property
    def unconfirmed_count(self) -> int:
        """The number of publishes that wait for the store."""
        return len(self._published)

    @property
    def waiting_count(self) -> int:
        """The number of messages that are not stored yet: the store has them, or there is no room for them."""
        return len(self._waiting) + sum(len(arrivals) for _, arrivals in self._published.values())

    def arrived(self, arrivals: list[Arrival]) -> None:
        """Publish arrivals."""
        for arrival in arrivals:
            topic = self._topic(arrival)
            if topic:
                self._waiting.append((topic, arrival))
        if self._timer is None and not self._waits_for_pressure:
            self._publish_waiting()
        self._flush()

    def lost(self) -> None:
        """The connection is gone: what is not published yet will arrive again, but for messages of QoS 0."""
        for _, arrival in self._waiting:
            if arrival.qos == AT_MOST_ONCE:
                self.counters.drop(DROPPED_NOT_CONNECTED)
            self._settlements.append(Settlement(arrival.number, RELEASED))
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.reason:
            self.reason = ""
            self._tell(VPN_BRIDGE_RULE_UP, "waits no longer: the connection is lost")
        self._flush()

    def end(self) -> None:
        """Stop."""
        self._waiting.clear()
        self.cell.stop()

    # --- what is published, and where ---

    def _topic(self, arrival: Arrival) -> str:
        """Return the topic that an arrival is published to; empty: it is dropped."""
        if arrival.fault:
            return self._drop(arrival, DROPPED_INVALID, REJECTED, arrival.fault)
        behind = path_of(arrival.headers)
        if behind:
            if has_passed(behind, self._bridge.place):
                return self._drop(arrival, DROPPED_CAME_BACK)
            if is_too_long(behind):
                return self._drop(arrival, DROPPED_TOO_MANY_HOPS)
        if self.rule.target:
            return self.rule.target
        topic = self.rule.topic_map.image(arrival.topic)
        if topic is None:
            return self._drop(arrival, DROPPED_UNMAPPED, REJECTED, f"the topic map has no image of {arrival.topic!r}")
        try:
            check_published_topic(topic)
        except TopicError as error:
            return self._drop(arrival, DROPPED_INVALID, REJECTED, str(error))
        return topic

    def _drop(self, arrival: Arrival, why: str, outcome: int = ACCEPTED, reason: str = "") -> str:
        self.counters.drop(why)
        self._settlements.append(Settlement(arrival.number, outcome, reason))
        return ""

    def _publish_waiting(self) -> None:
        """Publish what waits, until there is no room."""
        waiting = self._waiting
        while waiting and self._timer is None and not self._waits_for_pressure:
            run = [waiting.popleft()]
            first = run[0][1]
            while waiting and waiting[0][1].qos == first.qos and waiting[0][1].retain == first.retain:
                run.append(waiting.popleft())
            self._publish(run)

    def _publish(self, run: list[tuple[str, Arrival]]) -> None:
        """Publish messages of one kind together; one by one where that is refused."""
        self._last_token += 1
        token = self._last_token
        batch = self._batch(run)
        result = self._publisher.publish(batch, token)
        if result.refusal != ADMITTED:
            if len(run) > 1:
                for index, each in enumerate(run):
                    self._publish([each])
                    if self._timer is not None:  # it is the first that waits, and those behind it wait too
                        refused = self._waiting.popleft()
                        self._waiting.extendleft(reversed(run[index + 1 :]))
                        self._waiting.appendleft(refused)
                        return
            else:
                verdict = int(result.refusal)
                self._refused(run[0], verdict, refusal_text(verdict, result.refused_by, result.limit))
            return
        self._note_pressure()
        if result.confirmations_pending:
            self._published[token] = [int(result.confirmations_pending), [arrival for _, arrival in run]]
        else:
            self._stored([arrival for _, arrival in run])

    def _batch(self, run: list[tuple[str, Arrival]]) -> MessageBatch:
        arrivals = [arrival for _, arrival in run]
        topics = [topic for topic, _ in run]
        first = topics[0]
        is_one = topics.count(first) == len(topics)
        payloads = [each.payload for each in arrivals]
        has_headers = any(each.headers is not None for each in arrivals)
        return MessageBatch(
            topic=first if is_one else "",
            topics=None if is_one else topics,
            payloads=payloads,
            headers=[each.headers for each in arrivals] if has_headers else None,
            qos=arrivals[0].qos,
            retain=arrivals[0].retain and not self.rule.target,
            publisher=self._bridge.client,
            received_ms=self.runtime.clock.wall_ms(),
            payload_bytes=sum([len(payload) for payload in payloads]),
        )

    def _refused(self, message: tuple[str, Arrival], verdict: int, text: str) -> None:
        """Drop a message that is never taken, or that nobody repeats; keep another, and try again."""
        arrival = message[1]
        if verdict in PERMANENT or arrival.qos == AT_MOST_ONCE:
            self._drop(arrival, DROPPED_REFUSED, REJECTED, text)
            return
        self.counters.failures_count += 1
        self._waiting.appendleft(message)
        if not self.reason:
            self._tell(VPN_BRIDGE_RULE_DOWN, f"waits: {text}")
        self.reason = text
        if self._timer is None:
            self._timer = self.cell.after(RETRY_MS, self._try_again)

    def _try_again(self) -> None:
        self._timer = None
        if not self.cell.is_stopped():
            self._publish_waiting()
            self._flush()

    def _stored(self, arrivals: list[Arrival]) -> None:
        if self.reason and self._timer is None:
            self.reason = ""
            self._tell(VPN_BRIDGE_RULE_UP, "publishes again")
        self.counters.messages_count += len(arrivals)
        for arrival in arrivals:
            self.counters.payload_bytes += len(arrival.payload)
            self._settlements.append(Settlement(arrival.number))

    def _note_pressure(self) -> None:
        """Wait where a destination is over its high mark, as other publishers do."""
        pressures = self._publisher.pressures
        if pressures:
            for pressure in pressures:
                if pressure.over:
                    pressure.wait(self.cell.inbox)
                    self._waits_for_pressure = True
            pressures.clear()

    # --- what the store and destinations say ---

    def on_receive(self, message: Any) -> None:
        """Take the answers of the store, and the word of a destination that it takes more."""
        if isinstance(message, Confirmed):
            entry = self._published.get(message.token)
            if entry is None:
                return
            entry[0] -= 1
            if entry[0] == 0:
                del self._published[message.token]
                self._stored(entry[1])
        elif isinstance(message, PublishFailed):
            entry = self._published.pop(message.token, None)
            if entry is not None:
                self._not_stored(entry[1], message)
        elif isinstance(message, Resume):
            self._waits_for_pressure = False
            self._publish_waiting()

    def _not_stored(self, arrivals: list[Arrival], failure: PublishFailed) -> None:
        """Try again what the store has refused, before what came behind it."""
        text = failure.text()
        for arrival in reversed(arrivals):
            topic = self.rule.target or self.rule.topic_map.image(arrival.topic)
            assert topic, "it was published"
            self._refused((topic, arrival), failure.verdict, text)

    def on_turn_ended(self) -> None:
        """Settle what is stored."""
        self._flush()
        if not self._published:
            self._bridge.settled()

    def _flush(self) -> None:
        if self._settlements:
            settlements, self._settlements = self._settlements, []
            self._bridge.line.settle(settlements)

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        """Have the bridge begin anew."""
        self._bridge.rule_failed(self.rule.name)

    def _tell(self, kind: Any, what: str) -> None:
        name = as_word(f"{self._bridge.settings.name}/{self.rule.name}")
        self._bridge.services.events.emit(kind, f"bridge rule {name} {what}")


def incoming_factory(
    rule: IncomingRule, bridge: BridgeContext, counters: RuleCounters
) -> Callable[[ActorCell], IncomingSide]:
    """Return what makes the actor of a rule."""
    return lambda cell: IncomingSide(cell, rule=rule, bridge=bridge, counters=counters)
