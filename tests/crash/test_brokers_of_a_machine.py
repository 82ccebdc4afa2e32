"""Several brokers on one machine are one to clients, also over kills of a broker and of the supervisor."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.load.amqp_consumer import AmqpWireConsumer
from support.load.delivery_record import DeliveryRecord
from support.load.flow_clients import FlowWireConsumer
from support.load.mqtt_clients import (
    Received,
    WireClient,
    WireConsumer,
    WirePublisher,
    hung_up_at_the_end,
    run_until,
    turn,
)
from support.processes.gateway import wait_until
from support.processes.machine import MachineProcess, is_running
from support.thorough import amount

BROKERS = 2
ROUNDS = amount(3, thorough=6)
CONFIRMED_PER_ROUND = (100, 500)  # how much is confirmed before the next kill; drawn
SEED = 20_261_127
DRAIN_S = 90
PORTS: dict[type, str] = {AmqpWireConsumer: "amqp", FlowWireConsumer: "flow"}

pytestmark = [pytest.mark.crash, pytest.mark.slow]


class Load:
    """Clients of the machine. The identifiers of the MQTT clients have homes at both brokers."""

    def __init__(self) -> None:
        self.record = DeliveryRecord("the queue")
        self.exact = DeliveryRecord("the QoS 2 session")
        self.at_least_once = [
            *[WirePublisher(f"p{number}", topic="load", keys=[f"a{number}"], qos=1, window=50) for number in range(4)],
            *[WirePublisher(f"r{number}", topic="load", keys=[f"b{number}"], qos=2, window=20) for number in range(2)],
        ]
        self.exactly_once = [
            WirePublisher(f"x{number}", topic="exact", keys=[f"c{number}"], qos=2, level=4 + number % 2)
            for number in range(3)
        ]
        self.publishers = [*self.at_least_once, *self.exactly_once]
        note = self.record.note
        # Two of them, with homes at both brokers as a rule; the record is of the first.
        self.sessions = [
            WireConsumer(f"e{number}", filter_text="exact/#", qos=2, record=record)
            for number, record in enumerate((self.exact.note, _ignore))
        ]
        self.flow_worker = FlowWireConsumer("fq", queue="load", record=note, hold_count=3)
        self.workers: list[WireConsumer | AmqpWireConsumer | FlowWireConsumer] = [
            WireConsumer("mq1", filter_text="$queue/load", qos=1, record=note, hold_count=5),
            WireConsumer("mq2", filter_text="$queue/load", qos=1, record=note, hold_count=5),
            AmqpWireConsumer("aq", queue="load", record=note, hold_count=3),
            self.flow_worker,
        ]
        self.clients: list[WireClient] = [*self.sessions, *self.workers, *self.publishers]

    def connects(self, machine: MachineProcess) -> None:
        """Connect those that are not; workers begin anew, for a queue's broker that was away has ended their flows."""
        for worker in self.workers:
            worker.hang_up()
        for client in self.clients:
            if client.socket is None:
                client.connect(machine.ports[PORTS.get(type(client), "mqtt")])

    def confirms(self, count: int) -> None:
        wanted = sum(publisher.confirmed_count for publisher in self.publishers) + count
        run_until(
            self.clients,
            lambda: sum(publisher.confirmed_count for publisher in self.publishers) >= wanted,
            within_s=DRAIN_S,
            what=f"{count} confirmations",
        )

    def loses(self) -> None:
        """Read what is left at connections that a process has taken with it."""
        for _ in range(20):
            turn(self.clients)

    def drains(self, machine: MachineProcess) -> None:
        """Publish no more, and run until everything has been confirmed and consumed."""
        for publisher in self.publishers:
            publisher.publishing = False
        for consumer in [*self.workers, *self.sessions]:
            consumer.hold_count = 0
            consumer.settle_down_to(0)
        run_until(
            self.clients,
            lambda: all(publisher.is_idle for publisher in self.publishers) and self._all_arrived(),
            within_s=DRAIN_S,
            what="the last confirmations and deliveries",
        )
        run_until(self.clients, lambda: machine.held_count("load") == 0, within_s=DRAIN_S, what="an empty queue")

    def _all_arrived(self) -> bool:
        return self.record.has_all(_confirmed(self.at_least_once)) and self.exact.has_all(_confirmed(self.exactly_once))

    def checks(self) -> None:
        self.record.check_nothing_is_lost(_confirmed(self.at_least_once))
        self.record.check_order()
        self.exact.check_nothing_is_lost(_confirmed(self.exactly_once))
        self.exact.check_order()
        self.exact.check_nothing_is_repeated()


def _ignore(received: Received) -> None:
    """Take a delivery that nobody looks at."""


def _confirmed(publishers: list[WirePublisher]) -> dict[str, int]:
    return {key: number for publisher in publishers for key, number in publisher.confirmed.items()}


@contextmanager
def loaded_machine(folder: Path) -> Iterator[tuple[MachineProcess, Load]]:
    load = Load()
    with MachineProcess(folder, BROKERS) as machine, hung_up_at_the_end(load.clients):
        machine.create_queue("load", access_type="non-exclusive", partition_count=4, subscriptions=["load/>"])
        load.connects(machine)
        run_until(
            load.clients,
            lambda: all(each.subscribed for each in load.sessions) and load.flow_worker.is_bound,
            within_s=DRAIN_S,
            what="SUBACKs, and a flow that is bound",
        )
        yield machine, load


@pytest.mark.timeout(900)
def test_a_broker_that_is_killed_comes_back_alone_and_nothing_is_lost_doubled_or_out_of_order(tmp_path: Path) -> None:
    draw = random.Random(SEED)
    with loaded_machine(tmp_path) as (machine, load):
        supervisor = machine.pid
        for _ in range(ROUNDS):
            load.confirms(draw.randint(*CONFIRMED_PER_ROUND))
            others = machine.broker_pids()
            victim = others.pop(draw.randrange(BROKERS))
            machine.kill_broker(victim)
            assert set(others) <= set(machine.broker_pids())
            load.loses()
            load.connects(machine)
        load.drains(machine)
        load.checks()
        assert machine.pid == supervisor


@pytest.mark.timeout(900)
def test_brokers_stop_by_themselves_when_the_supervisor_is_killed_and_the_next_one_goes_on(tmp_path: Path) -> None:
    draw = random.Random(SEED)
    with loaded_machine(tmp_path) as (machine, load):
        for _ in range(ROUNDS):
            load.confirms(draw.randint(*CONFIRMED_PER_ROUND))
            brokers = machine.broker_pids()
            machine.kill_supervisor()
            machine.start()
            assert not any(is_running(pid) for pid in brokers)
            for client in load.clients:
                if client.socket is not None:
                    client.read_to_the_end()
            load.connects(machine)
        load.drains(machine)
        load.checks()


def test_a_data_folder_of_one_broker_is_one_of_several(tmp_path: Path) -> None:
    with MachineProcess(tmp_path, 1) as machine:
        machine.settings = {}
        machine.restart()
        machine.create_queue("orders", subscriptions=["orders/>"])
        publisher = WirePublisher("p", topic="orders", keys=["k"], qos=1)
        with hung_up_at_the_end([publisher]):
            publisher.connect(machine.mqtt_port)
            run_until([publisher], lambda: publisher.confirmed_count >= 50, within_s=DRAIN_S, what="confirmations")
        held = machine.held_count("orders")
        assert held >= 50

        machine.settings = {"brokers": BROKERS}
        machine.restart()
        assert machine.held_count("orders") == held
        wait_until(lambda: machine.up_count() == BROKERS, within_s=DRAIN_S, what="both brokers")
        machine.create_queue("more")
        assert {machine.queue(name)["broker"] for name in ("orders", "more")} == {"sluicegate", "sluicegate-2"}
