"""The state of a message VPN as retained messages on `$SYS/broker/...`, under the names that mosquitto gives them.

The node hands in its counts; `BrokerTopics` publishes them at an interval, from the first subscription that matches any
of them until none does: otherwise there is no timer, and nothing is retained. Retained messages are put into the topic
space and not into the store. Subscribers get what is retained, and then what has changed, at QoS 0.
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
class TrafficFigures:
    """What all message VPNs of a node have in common. Those whose names end in `total` only grow."""

    sockets_total: int
    received_total: int
    sent_total: int
    dropped_total: int
    bytes_received_total: int
    bytes_sent_total: int
    memory_bytes: int  # 0: unknown
    memory_bytes_max: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFigures:
    """The counts of a message VPN at one moment, and those of the node."""

    uptime_s: int
    clients_connected: int
    sessions_count: int
    sessions_count_max: int  # ever
    expired_total: int
    subscriptions_count: int
    retained_count: int
    stored_count: int
    stored_bytes: int
    traffic: TrafficFigures | None  # None: not to be told in this message VPN


# Topics without the prefix and without load averages: of a message VPN, and of the node.
VPN_TOPICS: Final = (
    "version",
    "uptime",
    "clients/total",
    "clients/maximum",
    "clients/connected",
    "clients/active",
    "clients/disconnected",
    "clients/inactive",
    "clients/expired",
    "subscriptions/count",
    "retained messages/count",
    "messages/stored",
    "store/messages/count",
    "store/messages/bytes",
)
TRAFFIC_TOPICS: Final = (
    "messages/received",
    "messages/sent",
    "publish/messages/received",
    "publish/messages/sent",
    "publish/messages/dropped",
    "bytes/received",
    "bytes/sent",
    "heap/current",
    "heap/maximum",
)

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


def values_of(figures: BrokerFigures) -> dict[str, str]:
    """Return the values by topic, without the prefix and without load averages."""
    disconnected = max(0, figures.sessions_count - figures.clients_connected)
    values = {
        "version": f"sluicegate version {VERSION}",
        "uptime": f"{figures.uptime_s} seconds",
        "clients/total": str(figures.sessions_count),
        "clients/maximum": str(figures.sessions_count_max),
        "clients/connected": str(figures.clients_connected),
        "clients/active": str(figures.clients_connected),  # mosquitto's former names for two of them
        "clients/disconnected": str(disconnected),
        "clients/inactive": str(disconnected),
        "clients/expired": str(figures.expired_total),
        "subscriptions/count": str(figures.subscriptions_count),
        "retained messages/count": str(figures.retained_count),
        "messages/stored": str(figures.stored_count),
        "store/messages/count": str(figures.stored_count),
        "store/messages/bytes": str(figures.stored_bytes),
    }
    return values if figures.traffic is None else values | _traffic_values(figures.traffic)


def _traffic_values(traffic: TrafficFigures) -> dict[str, str]:
    values = {
        "messages/received": str(traffic.received_total),
        "messages/sent": str(traffic.sent_total),
        "publish/messages/received": str(traffic.received_total),
        "publish/messages/sent": str(traffic.sent_total),
        "publish/messages/dropped": str(traffic.dropped_total),
        "bytes/received": str(traffic.bytes_received_total),
        "bytes/sent": str(traffic.bytes_sent_total),
    }
    if traffic.memory_bytes:
        values["heap/current"] = str(traffic.memory_bytes)
        values["heap/maximum"] = str(traffic.memory_bytes_max)
    return values


@final
class LoadAverages:
    """Averages of growth per minute over 1, 5 and 15 minutes, each weighted towards the last (as mosquitto's)."""

    def __init__(self, now: TrafficFigures, uptime_s: int) -> None:
        """Begin with the averages since the start of the node."""
        self._averages: dict[tuple[str, int], float] = {}
        for topic, name in LOADS:
            for minutes in MINUTES:
                self._averages[topic, minutes] = getattr(now, name) * MINUTE_S / max(uptime_s, MINUTE_S)

    def add(self, before: TrafficFigures, now: TrafficFigures, passed_s: float) -> None:
        """Take the growth of an interval into account."""
        for topic, name in LOADS:
            per_minute = (getattr(now, name) - getattr(before, name)) * MINUTE_S / passed_s
            for minutes in MINUTES:
                kept = math.exp(-passed_s / (minutes * MINUTE_S))
                former = self._averages[topic, minutes]
                self._averages[topic, minutes] = per_minute + kept * (former - per_minute)

    def values(self) -> dict[str, str]:
        """Return the averages by topic, without the prefix."""
        return {f"{topic}/{minutes}min": f"{average:.2f}" for (topic, minutes), average in self._averages.items()}


@final
class BrokerTopics:
    """Publishes the figures of a message VPN in it, as long as somebody subscribes to them.

    Invariant: while there is a timer, what it has said last on each topic is retained there; otherwise nothing is.
    """

    def __init__(
        self,
        runtime: Runtime,
        space: TopicSpace,
        *,
        figures: Callable[[], BrokerFigures | None],
        tells_traffic: bool,
        spool: Address,
        own: Address,
    ) -> None:
        """`figures` looks at all sessions, and returns None once the message VPN is gone.

        `tells_traffic` says whether they include those of the node.
        """
        self._runtime = runtime
        self._space = space
        self._figures = figures
        self._names = _names(tells_traffic=tells_traffic)
        self._spool = spool
        self._own = own  # of the actor in whose name they are published
        self._publisher: Publisher | None = None  # until the first time
        self._interval_s = 0
        self._timer: TimerHandle | None = None
        self._said: dict[str, str] = {}  # by topic without prefix
        self._loads: LoadAverages | None = None  # None: there is no traffic to tell of
        self._before: tuple[int, TrafficFigures] | None = None  # when, and what was read then

    def follow(self, interval_s: int) -> None:
        """Publish at another interval from now on; 0: never, and nothing stays retained."""
        if interval_s == self._interval_s:
            return
        self._interval_s = interval_s
        self.end()
        if interval_s:
            self._space.on_system_filter = self._subscribed
            self._begin_if_wanted(publishes=True)
        else:
            self._space.on_system_filter = None

    def end(self) -> None:
        """Publish no more until somebody subscribes, and retain nothing."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for name in self._said:
            self._space.retained.remove(PREFIX + name)
        self._said.clear()
        self._before = self._loads = None

    def _subscribed(self) -> None:
        """Have something to send at once to who subscribes to what begins with `$SYS/`."""
        if self._timer is None:
            self._begin_if_wanted(publishes=False)  # whoever asks gets the retained ones

    def _begin_if_wanted(self, *, publishes: bool) -> None:
        try:
            figures = self._figures() if self._is_wanted() else None
            if figures is not None:
                self._timer = self._runtime.after(self._interval_s * 1000, self._tick)
                self._say_what_changed(figures, publishes=publishes)
        except Exception:
            log.exception("%s: cannot be published", PREFIX)

    def _is_wanted(self) -> bool:
        return any(not self._space.route(PREFIX + name).is_empty for name in self._names)

    def _tick(self) -> None:
        try:
            figures = self._figures() if self._is_wanted() else None
            if figures is None:
                self.end()
                return
            self._timer = self._runtime.after(self._interval_s * 1000, self._tick)
            self._say_what_changed(figures, publishes=True)
        except Exception:
            log.exception("%s: cannot be published", PREFIX)

    def _say_what_changed(self, figures: BrokerFigures, *, publishes: bool) -> None:
        values = values_of(figures)
        if figures.traffic is not None:
            values |= self._load_values(figures.traffic, figures.uptime_s)
        for name, value in values.items():
            if self._said.get(name) != value:
                self._said[name] = value
                self._say(PREFIX + name, value.encode(), publishes=publishes)

    def _load_values(self, traffic: TrafficFigures, uptime_s: int) -> dict[str, str]:
        now_ms, before, loads = self._runtime.clock.now_ms(), self._before, self._loads
        if loads is None:
            loads = self._loads = LoadAverages(traffic, uptime_s)
        if before is not None and now_ms > before[0]:
            loads.add(before[1], traffic, (now_ms - before[0]) / 1000)
        self._before = now_ms, traffic
        return loads.values()

    def _say(self, topic: str, payload: bytes, *, publishes: bool) -> None:
        self._space.retained.put(topic, RetainedMessage(self._batch(topic, payload, retain=True)))
        if not publishes or self._space.route(topic).is_empty:
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


def _names(*, tells_traffic: bool) -> tuple[str, ...]:
    """Return the topics of a message VPN without the prefix."""
    if not tells_traffic:
        return VPN_TOPICS
    loads = [f"{topic}/{minutes}min" for topic, _ in LOADS for minutes in MINUTES]
    return (*VPN_TOPICS, *TRAFFIC_TOPICS, *loads)
