"""kill -9 of either of two linked brokers under load: what is confirmed at one arrives at the other, once and in order.

Publishers are at a, and consumers at b. A message that a has confirmed is in a session or queue of b, or on its way to
it, whatever is killed when.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.load.delivery_record import DeliveryRecord
from support.load.mqtt_clients import WireConsumer, WirePublisher, hung_up_at_the_end, run_until
from support.processes.gateway import GatewayProcess
from support.thorough import amount

ROUNDS = amount(4, thorough=8)
CONFIRMED_PER_ROUND = (100, 600)  # how much is confirmed before the next kill; drawn, so that kills hit all places
SEED = 20_261_127
DRAIN_S = 60
MAY_LINK: dict[str, object] = {
    "authentication.client_profiles.0.name": "default",
    "authentication.client_profiles.0.allow_bridge_connections_enabled": True,
}

pytestmark = [pytest.mark.crash, pytest.mark.slow]


class Load:
    """Publishers at a, consumers at b, and what they were given."""

    def __init__(self) -> None:
        self.queue = DeliveryRecord("the queue")
        self.exact = DeliveryRecord("the QoS 2 session")
        self.at_least_once = [WirePublisher("p1", topic="load", keys=["a", "b", "c"], qos=1, window=50)]
        self.exactly_once = [
            WirePublisher("x1", topic="exact", keys=["d", "e"], qos=2, level=4, window=20),
            WirePublisher("x2", topic="exact", keys=["f", "g"], qos=2, level=5),
        ]
        self.publishers = self.at_least_once + self.exactly_once
        self.consumers = [
            WireConsumer("q1", filter_text="$queue/load", qos=1, record=self.queue.note, hold_count=5),
            WireConsumer("e1", filter_text="exact/#", qos=2, record=self.exact.note),
        ]

    def confirmed_count(self) -> int:
        return sum(publisher.confirmed_count for publisher in self.publishers)

    def confirm(self, count: int) -> None:
        """Run until so many more messages are confirmed."""
        wanted = self.confirmed_count() + count
        clients = [*self.publishers, *self.consumers]
        run_until(clients, lambda: self.confirmed_count() >= wanted, within_s=DRAIN_S, what=f"{count} confirmations")

    def connect_consumers(self, port: int) -> None:
        for consumer in self.consumers:
            consumer.connect(port)
        run_until(
            self.consumers,
            lambda: all(each.subscribed for each in self.consumers),
            within_s=DRAIN_S,
            what="SUBACKs",
        )

    def connect_publishers(self, port: int) -> None:
        for publisher in self.publishers:
            publisher.connect(port)

    def drain(self) -> None:
        """Publish no more, and run until everything has been confirmed and consumed."""
        for publisher in self.publishers:
            publisher.publishing = False
        for consumer in self.consumers:
            consumer.hold_count = 0
            consumer.settle_down_to(0)
        run_until(
            [*self.publishers, *self.consumers],
            lambda: all(each.is_idle for each in self.publishers) and self._all_arrived(),
            within_s=DRAIN_S,
            what="the last deliveries",
        )

    def check(self) -> None:
        for record, publishers in ((self.queue, self.at_least_once), (self.exact, self.exactly_once)):
            record.check_nothing_is_lost(confirmed(publishers))
            record.check_order()
        self.exact.check_nothing_is_repeated()

    def _all_arrived(self) -> bool:
        return self.queue.has_all(confirmed(self.at_least_once)) and self.exact.has_all(confirmed(self.exactly_once))


def confirmed(publishers: list[WirePublisher]) -> dict[str, int]:
    return {key: number for publisher in publishers for key, number in publisher.confirmed.items()}


@pytest.mark.timeout(600)
def test_confirmed_messages_cross_the_link_once_over_crashes_of_both_brokers(tmp_path: Path) -> None:
    draw, load = random.Random(SEED), Load()
    for name in "ab":
        (tmp_path / name).mkdir()
    b = GatewayProcess(tmp_path / "b", {"node.name": "b", "links.a.url": "", **MAY_LINK})
    with b, hung_up_at_the_end([*load.publishers, *load.consumers]):
        b.create_queue("load", subscriptions=["load/>"])
        url = f"flow://127.0.0.1:{b.ports['flow']}"
        with GatewayProcess(tmp_path / "a", {"node.name": "a", "links.b.url": url, **MAY_LINK}) as a:
            load.connect_consumers(b.mqtt_port)
            run_until(
                load.consumers,
                lambda: bool(a.leads_to("load/a")) and bool(a.leads_to("exact/d")),
                within_s=DRAIN_S,
                what="a that knows what b wants",
            )
            load.connect_publishers(a.mqtt_port)
            for _ in range(ROUNDS):
                load.confirm(draw.randint(*CONFIRMED_PER_ROUND))
                if draw.random() < 0.5:
                    a.kill9()
                    for publisher in load.publishers:
                        publisher.read_to_the_end()
                    a.start()
                    load.connect_publishers(a.mqtt_port)
                else:
                    b.kill9()
                    for consumer in load.consumers:
                        consumer.read_to_the_end()
                    b.start()
                    load.connect_consumers(b.mqtt_port)
            load.drain()
            load.check()
            run_until(
                load.consumers, lambda: a.held_count("#link/b") == 0, within_s=DRAIN_S, what="an empty link queue"
            )


@contextmanager
def linked_to(b: GatewayProcess, folder: Path) -> Iterator[GatewayProcess]:
    """Run a, which connects to b."""
    url = f"flow://127.0.0.1:{b.ports['flow']}"
    with GatewayProcess(folder, {"node.name": "a", "links.b.url": url, **MAY_LINK}) as a:
        yield a


@pytest.mark.timeout(600)
def test_members_of_a_shared_group_elsewhere_get_what_is_confirmed(tmp_path: Path) -> None:
    """The member at b is chosen when a message is published, which is stored with the message."""
    draw, shared = random.Random(SEED), DeliveryRecord("the shared group")
    publisher = WirePublisher("p1", topic="shared", keys=["a", "b", "c"], qos=1, window=50)
    member = WireConsumer("s1", filter_text="$share/crew/shared/#", qos=1, record=shared.note, hold_count=5)
    for name in "ab":
        (tmp_path / name).mkdir()
    b = GatewayProcess(tmp_path / "b", {"node.name": "b", "links.a.url": "", **MAY_LINK})
    with b, hung_up_at_the_end([publisher, member]), linked_to(b, tmp_path / "a") as a:

        def run(condition: Callable[[], bool], what: str) -> None:
            run_until([publisher, member], condition, within_s=DRAIN_S, what=what)

        def begin(*, is_first: bool = False) -> None:
            if is_first:
                member.connect(b.mqtt_port)
                run(lambda: member.subscribed, "SUBACK")
            run(lambda: bool(a.leads_to("shared/a")), "a that knows the member at b")
            publisher.connect(a.mqtt_port)

        begin(is_first=True)
        for _ in range(ROUNDS):
            wanted = publisher.confirmed_count + draw.randint(*CONFIRMED_PER_ROUND)
            run(lambda wanted=wanted: publisher.confirmed_count >= wanted, "confirmations")  # type: ignore[misc]
            a.kill9()
            publisher.read_to_the_end()
            is_first = draw.random() < 0.5
            if is_first:  # what a has confirmed, b may have had, or not
                b.kill9()
                member.read_to_the_end()
                b.start()
            a.start()
            begin(is_first=is_first)
        publisher.publishing = False
        member.hold_count = 0
        member.settle_down_to(0)
        run(lambda: publisher.is_idle and shared.has_all(confirmed([publisher])), "the last deliveries")
        shared.check_nothing_is_lost(confirmed([publisher]))
        shared.check_order()
        run(lambda: a.held_count("#link/b") == 0, "an empty link queue")
