"""The load of the rounds: clients of each protocol, all through one address that follows the owner."""

import time
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from rounds.balancer import Balancer
from rounds.clients.amqp import AmqpConsumer, AmqpPublisher
from rounds.clients.flow_and_http import Coroutines
from rounds.clients.mqtt import V5, V311, MqttConsumer, MqttPublisher
from rounds.clients.pace import Pace
from rounds.ledger import Ledger
from rounds.machines import EXACT, QUEUE, NotWhole, until


class Unbalanced(Exception):
    """Clients were told something that is not so."""


KINDS: Final = ("MQTT 3.1.1", "MQTT 5", "AMQP", "flow", "HTTP")


class Load:
    """All clients. Use it as a context manager."""

    def __init__(self, balancer: Balancer) -> None:
        self._balancer: Final = balancer
        self.ledger: Final = Ledger()
        self._pace: Final = Pace(self.ledger)
        self._sessions: list[MqttConsumer] = []

    def __enter__(self) -> Self:
        pace, ports = self._pace, self._balancer.ports
        mqtt = ports["mqtt"]
        session = MqttConsumer("xs", pace, mqtt, version=V311, qos=2, filter_text=f"{EXACT}/#")
        worker = MqttConsumer("mw", pace, mqtt, version=V5, qos=1, filter_text=f"$queue/{QUEUE}")
        self._sessions += [session, worker]
        until(lambda: all(each.subscribed.is_set() for each in self._sessions), "the subscriptions")
        AmqpConsumer("ac", pace, ports["amqp"], queue=QUEUE)
        MqttPublisher("x", pace, mqtt, version=V311, qos=2, topic=EXACT, is_exact=True)
        MqttPublisher("m", pace, mqtt, version=V5, qos=1, topic=QUEUE, is_exact=False)
        AmqpPublisher("a", pace, ports["amqp"], queue=QUEUE)
        Coroutines(pace, ports, queue=QUEUE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pace.ended.set()
        for session in self._sessions:
            session.end()

    def publish(self) -> None:
        """Have publishers send."""
        self._pace.publishing.set()

    def until_served(self, count: int) -> None:
        """Wait until each kind of publisher has so many more confirmations. Raises NotWhole."""
        before = self.ledger.counts()

        def is_served() -> bool:
            now = self.ledger.counts()
            return all(now.get(kind, 0) >= before.get(kind, 0) + count for kind in KINDS)

        until(is_served, f"{count} confirmations of each kind")

    def run_for(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    def balance(self) -> None:
        """Send nothing new, and wait until all is answered and has come; then judge. Raises NotWhole, Unbalanced."""
        self._pace.publishing.clear()
        with suppress(NotWhole):
            until(self.ledger.is_balanced, "a balance")
        faults = self.ledger.faults()
        if faults:
            raise Unbalanced(f"{len(faults)} faults: {'; '.join(faults[:5])}")
        if not self.ledger.is_balanced():
            raise Unbalanced(self.ledger.missing())
