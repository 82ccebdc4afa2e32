"""A large queue moves to another broker while publishers and consumers are at work.

SLUICEGATE_TEST_MOVED_MESSAGES says how many messages the queue has when the move begins.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from sluicegate.messaging.message.vpn import DEFAULT_VPN
from support.http.plain import HTTP
from support.load.amqp_consumer import AmqpWireConsumer
from support.load.delivery_record import DeliveryRecord
from support.load.flow_clients import FlowWireConsumer
from support.load.mqtt_clients import WireClient, WireConsumer, WirePublisher, hung_up_at_the_end, run_until
from support.processes.gateway import GatewayProcess, wait_until
from support.processes.machine import MachineProcess

MESSAGES: Final = int(os.environ.get("SLUICEGATE_TEST_MOVED_MESSAGES", "20000"))
PATIENCE_S: Final = 120 + MESSAGES // 500
WINDOW: Final = 500  # of those who fill the queue
CONSUMED_BEFORE: Final = 500
CONFIRMED_AFTER: Final = 500
LOOK_EVERY_S: Final = 0.2
MAY_LINK: Final = {
    "authentication.client_profiles.0.name": "default",
    "authentication.client_profiles.0.allow_bridge_connections_enabled": True,
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(6 * PATIENCE_S)]


class Load:
    """Publishers and consumers of the queue, at two brokers or at one address for both."""

    def __init__(self) -> None:
        self.record = DeliveryRecord("the queue")
        self.fillers = [
            WirePublisher(
                f"f{number}", topic="load", keys=[f"f{number}.{key}" for key in range(8)], qos=1, window=WINDOW
            )
            for number in range(4)
        ]
        self.publishers = [
            WirePublisher(
                f"p{number}", topic="load", keys=[f"p{number}.a", f"p{number}.b"], qos=1 + number % 2, window=5
            )
            for number in range(4)
        ]
        note = self.record.note
        self.sessions = [
            WireConsumer(f"mq{number}", filter_text="$queue/load", qos=1, record=note, hold_count=5)
            for number in range(2)
        ]
        self.workers: list[AmqpWireConsumer | FlowWireConsumer] = [
            AmqpWireConsumer("aq", queue="load", record=note, hold_count=5),
            FlowWireConsumer("fq", queue="load", record=note, hold_count=5),
        ]
        self.clients: list[WireClient] = [*self.fillers, *self.publishers, *self.sessions, *self.workers]

    def run(self, condition: Callable[[], bool], what: str) -> None:
        run_until(self.clients, condition, within_s=PATIENCE_S, what=what)

    def fill(self, ports: list[int]) -> None:
        """Have the queue filled with MESSAGES."""
        for number, filler in enumerate(self.fillers):
            filler.connect(ports[number % len(ports)])
        self.run(lambda: sum([each.confirmed_count for each in self.fillers]) >= MESSAGES, "a filled queue")
        for filler in self.fillers:
            filler.publishing = False
        self.run(lambda: all(each.is_idle for each in self.fillers), "the last confirmations")

    def begin(self, ports: list[int], protocols: dict[type, list[int]]) -> None:
        """Have publishers and consumers at work."""
        for number, client in enumerate([*self.publishers, *self.sessions]):
            client.connect(ports[number % len(ports)])
        self.attach(protocols)
        self.run(Sometimes(self._all_consume), "deliveries to all consumers")

    def _all_consume(self) -> bool:
        consumers = {each.consumer for each in self.record.received}
        return len(self.record.received) >= CONSUMED_BEFORE and len(consumers) == len(self.sessions) + len(self.workers)

    def attach(self, protocols: dict[type, list[int]]) -> None:
        """Have the workers begin anew: their flows have ended, and they may return."""
        for number, worker in enumerate(self.workers):
            worker.hang_up()
            worker.connect(protocols[type(worker)][number % len(protocols[type(worker)])])

    def confirms_more(self) -> None:
        wanted = sum([each.confirmed_count for each in self.publishers]) + CONFIRMED_AFTER
        self.run(lambda: sum([each.confirmed_count for each in self.publishers]) >= wanted, "confirmations")

    def drain(self) -> None:
        """Publish no more, and run until everything has been confirmed and consumed."""
        for publisher in self.publishers:
            publisher.publishing = False
        for consumer in [*self.sessions, *self.workers]:
            consumer.hold_count = 0
            consumer.settle_down_to(0)
        self.run(
            lambda: all(each.is_idle for each in self.publishers) and self.record.has_all(self.confirmed),
            "the last deliveries",
        )

    @property
    def confirmed(self) -> dict[str, int]:
        return {key: number for each in [*self.fillers, *self.publishers] for key, number in each.confirmed.items()}

    def check(self) -> None:
        self.record.check_nothing_is_lost(self.confirmed)
        self.record.check_order()
        self.record.check_repetitions_are_marked()


def _keys(publisher: str, count: int) -> list[str]:
    return [f"{publisher}.{number}" for number in range(count)]


class Sometimes:
    """A condition that costs a request: it is asked for a few times a second."""

    def __init__(self, condition: Callable[[], bool]) -> None:
        self._condition = condition
        self._asked_s = 0.0

    def __call__(self) -> bool:
        now_s = time.monotonic()
        if now_s - self._asked_s < LOOK_EVERY_S:
            return False
        self._asked_s = now_s
        return self._condition()


def create_queue(broker: GatewayProcess, **home: str) -> None:
    broker.create_queue(
        "load",
        vpn=DEFAULT_VPN,
        access_type="non-exclusive",
        partition_count=4,
        partition_rebalance_delay_s=0,
        subscriptions=["load/>"],
        **home,
    )


def is_moving(broker: GatewayProcess) -> bool:
    return bool(HTTP.get(f"{broker.admin_url}/network/moves").raise_for_status().json()["moves"])


def moves_the_queue(broker: GatewayProcess, to: str) -> None:
    done = broker.command("queue", "move", "load", "--to", to)
    assert done.returncode == 0, done.stderr
    assert f"load is being moved to {to}" in done.stdout


def test_between_brokers_of_a_machine(tmp_path: Path) -> None:
    load = Load()
    with MachineProcess(tmp_path, 2) as machine, hung_up_at_the_end(load.clients):
        ports = [machine.mqtt_port]
        protocols = {AmqpWireConsumer: [machine.amqp_port], FlowWireConsumer: [machine.ports["flow"]]}
        create_queue(machine, home="sluicegate")
        load.fill(ports)
        load.run(Sometimes(lambda: machine.held_count("load") >= MESSAGES), "what is between the brokers")
        load.begin(ports, protocols)

        moves_the_queue(machine, "sluicegate-2")
        load.run(Sometimes(lambda: not is_moving(machine)), "the move")

        assert machine.queue("load")["broker"] == "sluicegate-2"
        load.attach(protocols)
        load.confirms_more()
        load.drain()
        load.check()
        load.run(Sometimes(lambda: machine.held_count("load") == 0), "an empty queue")


@contextmanager
def linked_gateways(folder: Path) -> Iterator[tuple[GatewayProcess, GatewayProcess]]:
    for name in "ab":
        (folder / name).mkdir()
    b = GatewayProcess(folder / "b", {"node.name": "b", "links.a.url": "", "brokers": 1, **MAY_LINK})
    with b:
        link = {"links.b.url": f"flow://127.0.0.1:{b.ports['flow']}"}
        with GatewayProcess(folder / "a", {"node.name": "a", **link, "brokers": 1, **MAY_LINK}) as a:
            yield a, b


def test_between_gateways_of_a_network(tmp_path: Path) -> None:
    load = Load()
    with linked_gateways(tmp_path) as (a, b), hung_up_at_the_end(load.clients):
        ports = [a.mqtt_port, b.mqtt_port]
        protocols = {
            AmqpWireConsumer: [a.amqp_port, b.amqp_port],
            FlowWireConsumer: [a.ports["flow"], b.ports["flow"]],
        }
        create_queue(a)
        wait_until(lambda: bool(b.leads_to("load/x")), within_s=PATIENCE_S, what="a link")
        load.fill(ports)
        load.run(Sometimes(lambda: a.held_count("load") >= MESSAGES), "what is between the brokers")
        load.begin(ports, protocols)

        moves_the_queue(b, "b")  # asked for at the other broker
        load.run(Sometimes(lambda: not is_moving(a)), "the move")

        assert b.queue("load")["broker"] == "b"
        load.attach(protocols)
        load.confirms_more()
        load.drain()
        load.check()
        load.run(Sometimes(lambda: b.held_count("load") == 0), "an empty queue")
        assert a.command("queue", "list").stdout.split("Queues of other brokers:")[1].split()[5:7] == ["load", "b"]
