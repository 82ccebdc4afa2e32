"""Three linked brokers under load from clients of all protocols: each is killed and stopped, and each link is cut.

A queue at each broker collects everything. What any publisher had confirmed anywhere is in all three queues in the end,
in order for each key; and where a publisher is named, or resumes its deliveries, only once.
"""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from support.load.amqp_consumer import AmqpWireConsumer
from support.load.amqp_publisher import AmqpWirePublisher
from support.load.delivery_record import DeliveryRecord
from support.load.flow_clients import FlowWireConsumer, FlowWirePublisher
from support.load.http_clients import HttpWirePublisher
from support.load.mqtt_clients import (
    NumberedPublisher,
    WireClient,
    WireConsumer,
    WirePublisher,
    hung_up_at_the_end,
    run_until,
)
from support.network.tcp_proxy import TcpProxy
from support.processes.gateway import GatewayProcess

NAMES = ("a", "b", "c")
ROUNDS = int(os.environ.get("SLUICEGATE_NETWORK_ROUNDS", "1"))  # in each, each broker is killed
CONFIRMED_PER_STEP = (100, 500)  # how much is confirmed before the next; drawn
CUT_S = float(os.environ.get("SLUICEGATE_CUT_S", "4"))  # a link that is cut is noticed after 3 seconds
LOADED_S = 4  # of a cut; of one that lasts, then `BURST_S` in each `PAUSE_S`: more could not be drained in time
BURST_S, PAUSE_S = 0.3, 10
STOPPED_S = 4
SEED = 20_261_128
WITHIN_S = 120
MAY_LINK: dict[str, object] = {
    "authentication.client_profiles.0.name": "default",
    "authentication.client_profiles.0.allow_bridge_connections_enabled": True,
}
PORTS = {WirePublisher: "mqtt", WireConsumer: "mqtt", AmqpWirePublisher: "amqp", AmqpWireConsumer: "amqp"}
PORTS |= {FlowWirePublisher: "flow", FlowWireConsumer: "flow", HttpWirePublisher: "http"}

pytestmark = [pytest.mark.crash, pytest.mark.slow]

Publisher = WirePublisher | NumberedPublisher


class Site:
    """One broker with its clients, and the record of what its queue delivered."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.record = DeliveryRecord(f"the queue at {name}")
        self.publishers: list[Publisher] = [
            WirePublisher(f"m1-{name}", topic="load", keys=[f"{name}q"], qos=1),
            WirePublisher(f"m2-{name}", topic="load", keys=[f"{name}x"], qos=2, window=20),
            AmqpWirePublisher(f"am-{name}", topic="load", keys=[f"{name}p"]),
            FlowWirePublisher(f"fl-{name}", topic="load", keys=[f"{name}f"]),
            HttpWirePublisher(f"ht-{name}", topic="load", keys=[f"{name}h"]),
        ]
        note = self.record.note
        self.consumers: list[WireConsumer | AmqpWireConsumer | FlowWireConsumer] = [
            WireConsumer(f"mq-{name}", filter_text="$queue/load", qos=1, record=note, hold_count=5),
            AmqpWireConsumer(f"aq-{name}", queue="load", record=note, hold_count=3),
            FlowWireConsumer(f"fq-{name}", queue="load", record=note, hold_count=3),
        ]
        self.clients: list[WireClient] = [*self.consumers, *self.publishers]

    def connect(self, broker: GatewayProcess) -> None:
        for client in self.clients:
            client.connect(broker.ports[PORTS[type(client)]])

    def confirmed_count(self) -> int:
        return sum(publisher.confirmed_count for publisher in self.publishers)


class Network:
    """Three brokers, of which each pair has one link through a proxy, and all their clients."""

    def __init__(self, brokers: dict[str, GatewayProcess], ways: dict[str, TcpProxy]) -> None:
        self.brokers = brokers
        self.ways = ways  # by the names of both brokers
        self.sites = {name: Site(name) for name in NAMES}
        self.clients: list[WireClient] = [client for site in self.sites.values() for client in site.clients]
        self.publishers = [publisher for site in self.sites.values() for publisher in site.publishers]

    def begins(self) -> None:
        """Connect everybody, once all brokers know of all queues."""
        for broker in self.brokers.values():
            broker.create_queue(
                "load",
                access_type="non-exclusive",
                partition_count=4,
                subscriptions=["load/>"],
                partition_rebalance_delay_s=0,
                partition_rebalance_max_handoff_time_s=1,
            )
        run_until(
            [],
            lambda: all(len(broker.leads_to("load/x")) == len(NAMES) for broker in self.brokers.values()),
            within_s=WITHIN_S,
            what="brokers that know what their neighbors want",
        )
        for name, site in self.sites.items():
            site.connect(self.brokers[name])

    def confirms(self, count: int, *, at: str = "") -> None:
        """Run until so many more messages are confirmed, at one broker or in all."""
        sites = [self.sites[at]] if at else list(self.sites.values())
        wanted = sum(site.confirmed_count() for site in sites) + count
        run_until(
            self.clients,
            lambda: sum(site.confirmed_count() for site in sites) >= wanted,
            within_s=WITHIN_S,
            what=f"{count} confirmations {at}",
        )

    def is_killed(self, name: str) -> None:
        broker, site = self.brokers[name], self.sites[name]
        broker.kill9()
        for client in site.clients:
            client.read_to_the_end()
        broker.start()
        site.connect(broker)

    def is_cut(self, pair: str) -> None:
        """Cut a link for a while. Publishers at both ends go on: their messages wait for the neighbor."""
        self.ways[pair].cut()
        self.runs_for(min(CUT_S, LOADED_S))
        ends = time.monotonic() + CUT_S - LOADED_S
        while time.monotonic() < ends:
            self.publishes(False)
            self.runs_for(min(PAUSE_S, ends - time.monotonic()))
            self.publishes(True)
            self.runs_for(BURST_S)
        for name in pair:
            self.confirms(50, at=name)
        self.ways[pair].heal()

    def stands_still(self, name: str) -> None:
        """Stop a broker for a while. The others' publishers go on."""
        os.kill(self.brokers[name].pid, signal.SIGSTOP)
        try:
            for other in NAMES:
                if other != name:
                    self.confirms(50, at=other)
            self.runs_for(STOPPED_S)
        finally:
            os.kill(self.brokers[name].pid, signal.SIGCONT)

    def runs_for(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        run_until(self.clients, lambda: time.monotonic() >= ends, within_s=2 * seconds + 1, what="the time to pass")

    def publishes(self, publishing: bool) -> None:
        for publisher in self.publishers:
            publisher.publishing = publishing

    def drains(self) -> None:
        """Publish no more, and run until everything has been confirmed and consumed everywhere."""
        self.publishes(False)
        run_until(
            self.clients,
            lambda: all(publisher.is_idle for publisher in self.publishers),
            within_s=WITHIN_S,
            what="the last confirmations",
        )
        for site in self.sites.values():
            for consumer in site.consumers:
                consumer.hold_count = 0
                consumer.settle_down_to(0)
        confirmed = self.confirmed()
        run_until(
            self.clients,
            lambda: all(site.record.has_all(confirmed) for site in self.sites.values()),
            within_s=WITHIN_S,
            what="the last deliveries",
        )
        run_until(self.clients, self._is_empty, within_s=WITHIN_S, what="empty queues")

    def confirmed(self) -> dict[str, int]:
        return {key: number for publisher in self.publishers for key, number in publisher.confirmed.items()}

    def checks(self) -> None:
        for site in self.sites.values():
            site.record.check_nothing_is_lost(self.confirmed())
            site.record.check_order()

    def _is_empty(self) -> bool:
        links = [f"#link/{name}" for name in NAMES]
        return all(
            broker.held_count(queue) == 0
            for name, broker in self.brokers.items()
            for queue in ("load", *[link for link in links if not link.endswith(name)])
        )


@contextmanager
def network(folder: Path) -> Iterator[Network]:
    """Run three brokers: a connects to b and c, and b to c."""
    with ExitStack() as stack:
        brokers: dict[str, GatewayProcess] = {}
        ways: dict[str, TcpProxy] = {}
        for name in reversed(NAMES):
            (folder / name).mkdir()
            links: dict[str, object] = {}
            for other in NAMES:
                if other in brokers:
                    ways[name + other] = stack.enter_context(TcpProxy(brokers[other].ports["flow"]))
                    links[f"links.{other}.url"] = ways[name + other].url
                elif other != name:
                    links[f"links.{other}.url"] = ""
            settings = {"node.name": name, **links, **MAY_LINK}
            brokers[name] = stack.enter_context(GatewayProcess(folder / name, settings))
        made = Network(brokers, ways)
        stack.enter_context(hung_up_at_the_end(made.clients))
        yield made


@pytest.mark.timeout(1200)
def test_everything_confirmed_anywhere_is_in_every_queue_over_crashes_stops_and_cuts(tmp_path: Path) -> None:
    draw = random.Random(SEED)
    with network(tmp_path) as brokers:
        brokers.begins()
        for _ in range(ROUNDS):
            deeds: list[tuple[Callable[[str], None], str]] = [(brokers.is_killed, name) for name in NAMES]
            deeds += [(brokers.is_cut, draw.choice(sorted(brokers.ways))), (brokers.stands_still, draw.choice(NAMES))]
            draw.shuffle(deeds)
            for deed, whom in deeds:
                brokers.confirms(draw.randint(*CONFIRMED_PER_STEP))
                deed(whom)
        brokers.drains()
        brokers.checks()
