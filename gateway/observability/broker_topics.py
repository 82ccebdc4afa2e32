"""The state of the node as retained messages on `$SYS/broker/...`, under the names that mosquitto gives them.

The node hands in its counts; `BrokerTopics` publishes them at an interval. Retained messages are put into the topic
space and not into the store: after a restart they come anew. Subscribers get what has changed, at QoS 0. With an
interval of 0 there is no timer, and nothing is retained.
"""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.actors.runtime.runtime import Runtime, TimerHandle
from sluicegate.gateway.build import VERSION
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.routing.retained_messages import RetainedMessage
from sluicegate.messaging.routing.routes import TopicSpace

log = logging.getLogger("sluicegate.node")

PREFIX: Final = "$SYS/broker/"
MINUTES: Final = (1, 5, 15)  # over which the load averages go
MINUTE_S: Final = 60


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFigures:
    """The counts of a node at one moment. Those whose names end in `total` only grow."""

    uptime_s: int
    clients_connected: int
    sessions_count: int
    subscriptions_count: int
    retained_count: int
    stored_count: int
    stored_bytes: int
    sockets_total: int
    received_total: int
    sent_total: int
    dropped_total: int
    bytes_received_total: int
    bytes_sent_total: int


# Load averages, by topic, of what grows.
LOADS: Final[tuple[tuple[str, str], ...]] = (
    ("load/sockets", "sockets_total"),
    ("load/messages/received", "received_total"),
    ("load/messages/sent", "sent_total"),
    ("load/publish/received", "received_total"),
    ("load/publish/sent", "sent_total"),
    ("load/publish/dropped", "dropped_total"),
    ("load/bytes/received", "bytes_received_total"),
    ("load/bytes/sent", "bytes_sent_total"),
)


def values_of(figures: BrokerFigures, clients_maximum: int) -> dict[str, str]:
    """Return the values by topic, without the prefix and without load averages."""
    clients_total = max(figures.sessions_count, figures.clients_connected)
    disconnected = clients_total - figures.clients_connected
    return {
        "version": f"sluicegate version {VERSION}",
        "uptime": f"{figures.uptime_s} seconds",
        "clients/total": str(clients_total),
        "clients/maximum": str(clients_maximum),
        "clients/connected": str(figures.clients_connected),
        "clients/active": str(figures.clients_connected),  # mosquitto's former names for two of them
        "clients/disconnected": str(disconnected),
        "clients/inactive": str(disconnected),
        "subscriptions/count": str(figures.subscriptions_count),
        "retained messages/count": str(figures.retained_count),
        "messages/stored": str(figures.stored_count),
        "store/messages/count": str(figures.stored_count),
        "store/messages/bytes": str(figures.stored_bytes),
        "messages/received": str(figures.received_total),
        "messages/sent": str(figures.sent_total),
        "publish/messages/received": str(figures.received_total),
        "publish/messages/sent": str(figures.sent_total),
        "publish/messages/dropped": str(figures.dropped_total),
        "bytes/received": str(figures.bytes_received_total),
        "bytes/sent": str(figures.bytes_sent_total),
    }


@final
class LoadAverages:
    """Averages of growth per minute over 1, 5 and 15 minutes, each weighted towards the last (as mosquitto's)."""

    def __init__(self) -> None:
        self._averages: dict[tuple[str, int], float] = {}

    def add(self, before: BrokerFigures, now: BrokerFigures, passed_s: float) -> None:
        """Take the growth of an interval into account."""
        for topic, name in LOADS:
            per_minute = (getattr(now, name) - getattr(before, name)) * MINUTE_S / passed_s
            for minutes in MINUTES:
                kept = math.exp(-passed_s / (minutes * MINUTE_S))
                former = self._averages.get((topic, minutes), 0.0)
                self._averages[topic, minutes] = per_minute + kept * (former - per_minute)

    def values(self) -> dict[str, str]:
        """Return the averages by topic, without the prefix."""
        return {f"{topic}/{minutes}min": f"{average:.2f}" for (topic, minutes), average in self._averages.items()}


@final
class BrokerTopics:
    """Publishes the figures of a node in its message VPN `default`.

    Invariant: what it has said last on each topic is retained there; nothing is while the interval is 0.
    """

    def __init__(
        self, runtime: Runtime, space: TopicSpace, *, figures: Callable[[], BrokerFigures], spool: Address, own: Address
    ) -> None:
        self._runtime = runtime
        self._space = space
        self._figures = figures
        self._spool = spool
        self._own = own  # of the actor in whose name they are published
        self._publisher: Publisher | None = None  # until the first time
        self._interval_s = 0
        self._timer: TimerHandle | None = None
        self._said: dict[str, str] = {}  # by topic without prefix
        self._loads = LoadAverages()
        self._before: tuple[int, BrokerFigures] | None = None  # when, and what was read then
        self._clients_maximum = 0

    def follow(self, interval_s: int) -> None:
        """Publish at another interval from now on; 0: no more, and nothing stays retained."""
        if interval_s == self._interval_s:
            return
        self._interval_s = interval_s
        self.end()
        if interval_s:
            self._tick()
            return
        for name in self._said:
            self._space.retained.remove(PREFIX + name)
        self._said.clear()
        self._before = None
        self._loads = LoadAverages()

    def end(self) -> None:
        """Publish no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self._timer = self._runtime.after(self._interval_s * 1000, self._tick)
        try:
            self._say_what_changed()
        except Exception:
            log.exception("%s: cannot be published", PREFIX)

    def _say_what_changed(self) -> None:
        now_ms, figures = self._runtime.clock.now_ms(), self._figures()
        self._clients_maximum = max(self._clients_maximum, figures.sessions_count, figures.clients_connected)
        values = values_of(figures, self._clients_maximum)
        if self._before is not None and now_ms > self._before[0]:
            self._loads.add(self._before[1], figures, (now_ms - self._before[0]) / 1000)
        self._before = now_ms, figures
        values |= self._loads.values()
        for name, value in values.items():
            if self._said.get(name) != value:
                self._said[name] = value
                self._say(PREFIX + name, value.encode())

    def _say(self, topic: str, payload: bytes) -> None:
        self._space.retained.put(topic, RetainedMessage(self._batch(topic, payload, retain=True)))
        if self._space.route(topic).is_empty:
            return
        if self._publisher is None:
            rng = self._runtime.rng
            self._publisher = Publisher(space=self._space, spool=self._spool, address=self._own, rng=rng)
        self._publisher.publish(self._batch(topic, payload, retain=False), 0)
        self._publisher.pressures.clear()  # a slow subscriber loses them, counted as any drop

    def _batch(self, topic: str, payload: bytes, *, retain: bool) -> MessageBatch:
        return MessageBatch(
            topic=topic,
            topics=None,
            payloads=[payload],
            headers=None,
            qos=AT_MOST_ONCE,
            retain=retain,
            publisher="",
            received_ms=self._runtime.clock.wall_ms(),
            payload_bytes=len(payload),
        )
