"""A machine that is started with fewer brokers than have data moves what the others have, and ends them."""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from sluicegate import Client, Message
from sluicegate.messaging.clients.homes import home_of, publisher_key
from sluicegate.protocols.amqp.codec.performatives import Detach
from sluicegate.protocols.amqp.codec.termini import COPY, NEVER, Source
from support.amqp.client import AmqpClient
from support.load.delivery_record import DeliveryRecord
from support.load.mqtt_clients import NotLetIn, WireClient, WireConsumer, WirePublisher, hung_up_at_the_end, run_until
from support.mqtt.raw_client import RawClient
from support.processes.machine import MachineProcess
from support.processes.retired_broker import end_second, keep_second

BROKERS = 3
TRAFFIC_S = 120
QUEUES = [f"q{number}" for number in range(6)]

pytestmark = [pytest.mark.crash, pytest.mark.slow]


async def publish(port: int, count: int) -> None:
    """Publish so many messages to each queue, as a client that leaves no session behind."""
    client = await RawClient.open(port, 5)
    await client.connect("publisher")
    for number in range(count):
        for place, name in enumerate(QUEUES):
            packet_id = 1 + number * len(QUEUES) + place
            client.send(mqtt.publish(f"load/{name}", b"%d" % number, level=5, qos=1, packet_id=packet_id))
    for _ in range(count * len(QUEUES)):
        await client.awaited(mqtt.PUBACK)
    await client.leave()


def contents(machine: MachineProcess) -> dict[str, list[str]]:
    """The payloads of each queue, oldest first."""
    return {name: machine.payloads(name) for name in QUEUES}


def test_queues_of_retired_brokers_are_at_the_others_and_one_process_goes_on(tmp_path: Path) -> None:
    with MachineProcess(tmp_path, BROKERS) as machine:
        for name in QUEUES:
            machine.create_queue(name, subscriptions=[f"load/{name}"])
        asyncio.run(publish(machine.mqtt_port, 50))
        before = contents(machine)
        assert before == {name: [str(number) for number in range(50)] for name in QUEUES}
        assert {machine.queue(name)["broker"] for name in QUEUES} == {"sluicegate", "sluicegate-2", "sluicegate-3"}

        machine.settings["brokers"] = 2
        machine.restart()
        machine.until_retired(2)
        assert contents(machine) == before
        assert {machine.queue(name)["broker"] for name in QUEUES} == {"sluicegate", "sluicegate-2"}

        del machine.settings["brokers"]
        machine.restart()
        machine.until_retired(1)
        assert contents(machine) == before

        machine.restart()
        assert machine.broker_pids() == []
        assert contents(machine) == before


async def leave_session(port: int, client_id: str, count: int) -> None:
    """Make a session with so many messages that wait for its client."""
    client = await RawClient.open(port, 5)
    await client.connect(client_id, clean_start=True, properties=mqtt.session_expiry(3600))
    await client.subscribe("work/#", qos=1)
    await client.leave()
    publisher = await RawClient.open(port, 5)
    await publisher.connect("publisher")
    for number in range(count):
        assert await publisher.publish("work/1", b"%d" % number, qos=1) == 0
    await publisher.leave()


async def take_session(port: int, client_id: str, count: int) -> list[bytes]:
    """Return what waits for a client, which then ends its session."""
    client = await RawClient.open(port, 5)
    answer = await client.connect(client_id, clean_start=False, properties=mqtt.session_expiry(3600))
    assert (answer.reason_code, answer.session_present) == (0, True)
    messages = await client.messages(count)
    client.acknowledge(*messages)
    await client.leave(0, mqtt.session_expiry(0))
    return [each.payload for each in messages]


def test_a_session_of_a_retired_broker_is_at_another_with_all_that_waits_for_its_client(tmp_path: Path) -> None:
    client_id = next(name for name in map("client-{}".format, range(100)) if home_of(name, 2) == 2)
    expected = [b"%d" % each for each in range(5)]
    with MachineProcess(tmp_path, 2) as machine:
        asyncio.run(leave_session(machine.mqtt_port, client_id, 5))
        machine.settings["brokers"] = 1
        machine.restart()
        machine.until_retired(1)
        assert asyncio.run(take_session(machine.mqtt_port, client_id, 5)) == expected
        asyncio.run(leave_session(machine.mqtt_port, client_id, 5))
        assert asyncio.run(take_session(machine.mqtt_port, client_id, 5)) == expected


async def attached(machine: MachineProcess, container: str, *, credit: int) -> AmqpClient:
    """Attach to the container's durable subscription."""
    client = await AmqpClient.open(machine.ports["amqp"], container)
    source = Source("topic://work/1", durable=2, expiry_policy=NEVER, distribution_mode=COPY)
    await client.receiver("mine", source, credit=credit)
    return client


async def leave_subscriptions(machine: MachineProcess, containers: Sequence[str], payloads: Sequence[bytes]) -> None:
    """Make durable subscriptions with messages that wait for their clients."""
    for container in containers:
        subscriber = await attached(machine, container, credit=0)
        await subscriber.close()
    publisher = await RawClient.open(machine.mqtt_port, 5)
    await publisher.connect("publisher")
    for payload in payloads:
        assert await publisher.publish("work/1", payload, qos=1) == 0
    await publisher.leave()


async def take_subscription(machine: MachineProcess, container: str, count: int) -> list[bytes]:
    """Return what waits for a client, which then ends its subscription."""
    client = await attached(machine, container, credit=count + 10)
    deliveries = await client.deliveries(count)
    await client.is_quiet()
    client.settle(0, count - 1)
    client.detach(0)
    await client.awaited(Detach)
    await client.close()
    return [each.payload for each in deliveries]


def test_durable_subscriptions_move_while_brokers_are_killed(tmp_path: Path) -> None:
    """AMQP 3.5.3. What waits comes once, in order, and the publishers of the topic go on."""
    names = map("container-{}".format, range(100))
    containers = [name for name in names if home_of(name, 2) == 2][:8]
    payloads = [b"%d" % number for number in range(300)]
    with MachineProcess(tmp_path, 2) as machine:
        keep_second(machine)
        asyncio.run(leave_subscriptions(machine, containers, payloads[:150]))
        machine.settings["brokers"] = 1
        machine.stop()
        machine.start()
        os.kill(machine.broker_pid(2), signal.SIGKILL)  # some have moved, or none
        asyncio.run(leave_subscriptions(machine, [], payloads[150:]))
        os.kill(machine.broker_pid(1), signal.SIGKILL)
        end_second(machine)
        for container in containers:
            assert asyncio.run(take_subscription(machine, container, len(payloads))) == payloads


class Traffic:
    """Publishers of QoS 2, and sessions that take what they publish: all of them have homes at every broker."""

    def __init__(self) -> None:
        self.records = {f"s{number}": DeliveryRecord(f"session s{number}") for number in range(4)}
        self.publishers = [
            WirePublisher(f"p{number}", topic="work", keys=[f"k{number}"], qos=2, window=20) for number in range(4)
        ]
        self.sessions = [
            WireConsumer(name, filter_text="work/#", qos=2, record=record.note, receive_maximum=20)
            for name, record in self.records.items()
        ]
        self.clients: list[WireClient] = [*self.sessions, *self.publishers]

    def confirmed(self) -> dict[str, int]:
        return {key: number for publisher in self.publishers for key, number in publisher.confirmed.items()}

    def connects(self, machine: MachineProcess, clients: Sequence[WireClient]) -> None:
        """Connect those that are not, as soon as they are let in: while its session moves a client is refused."""
        for client in clients:
            if client.socket is None:
                with suppress(NotLetIn):  # the next turn tries again
                    client.connect(machine.mqtt_port)

    def goes_on(self, machine: MachineProcess, until: Callable[[], bool], what: str) -> None:
        """Run until something has happened, and keep the clients connected."""

        def is_reached() -> bool:
            self.connects(machine, self.clients)
            return until()

        run_until(self.clients, is_reached, within_s=TRAFFIC_S, what=what)

    def confirms(self, machine: MachineProcess, count: int) -> None:
        wanted = sum(self.confirmed().values()) + count
        self.goes_on(machine, lambda: sum(self.confirmed().values()) >= wanted, f"{count} confirmations")

    def backs_up(self, count: int) -> None:
        """Have so much wait for the sessions, whose clients are away."""
        for session in self.sessions:
            session.hang_up()
        wanted = sum(self.confirmed().values()) + count
        run_until(
            self.publishers,
            lambda: sum(self.confirmed().values()) >= wanted,
            within_s=TRAFFIC_S,
            what="a backlog",
        )

    def loses(self) -> None:
        for client in self.clients:
            if client.socket is not None:
                client.read_to_the_end()

    def checks(self, machine: MachineProcess) -> None:
        """Publish no more; everything that was confirmed comes to each session, once and in order."""
        for publisher in self.publishers:
            publisher.publishing = False
        self.goes_on(
            machine,
            lambda: (
                all(each.is_idle for each in self.publishers)
                and all(record.has_all(self.confirmed()) for record in self.records.values())
            ),
            "the last deliveries",
        )
        for record in self.records.values():
            record.check_nothing_is_lost(self.confirmed())
            record.check_order()
            record.check_nothing_is_repeated()


def has_left(machine: MachineProcess, count: int) -> bool:
    """Return whether only so many brokers have data."""
    return machine.broker_folders() == list(range(2, count + 1))


@pytest.mark.timeout(900)
def test_sessions_move_under_traffic_and_kills_with_nothing_lost_doubled_or_out_of_order(tmp_path: Path) -> None:
    traffic = Traffic()
    with MachineProcess(tmp_path, BROKERS) as machine, hung_up_at_the_end(traffic.clients):
        traffic.goes_on(machine, lambda: all(each.subscribed for each in traffic.sessions), "SUBACKs")
        traffic.confirms(machine, 300)
        for count in (2, 1):
            traffic.backs_up(300)
            machine.settings["brokers"] = count
            machine.stop()
            traffic.loses()
            machine.start()
            retired = machine.broker_pids()[count]
            os.kill(retired, signal.SIGKILL)
            traffic.confirms(machine, 100)
            machine.kill_supervisor()
            machine.start()
            traffic.loses()
            traffic.confirms(machine, 100)
            traffic.goes_on(machine, partial(has_left, machine, count), "the end of retired brokers")
        machine.settings["brokers"] = BROKERS
        machine.restart()
        traffic.loses()
        traffic.confirms(machine, 100)
        traffic.checks(machine)


PUBLISHED = 900  # by each publisher; a listing of a queue has no more than 1,000


async def publish_while(url: str, names: Sequence[str], kills: Callable[[], None]) -> None:
    """Have each publisher send to the queue of its name, from before `kills` until after it, in a thread."""
    async with Client(url) as client:
        killing = asyncio.Event()

        async def publish(name: str) -> None:
            async with client.publisher(name, window=50) as publisher:
                for number in range(PUBLISHED):
                    await publisher.send(Message(b"%d" % number, queue=name))
                    if number == PUBLISHED // 3:
                        await publisher.flush()
                        killing.set()
                    if number > PUBLISHED // 3:
                        await asyncio.sleep(0.01)  # so that they go on for as long as all of it takes
                await publisher.flush()

        async with asyncio.TaskGroup() as tasks:
            for name in names:
                tasks.create_task(publish(name))
            await killing.wait()
            await asyncio.to_thread(kills)


@pytest.mark.timeout(400)
def test_named_publishers_move_while_they_publish_and_brokers_are_killed(tmp_path: Path) -> None:
    """Flow: publishing. Each message is there once, in order."""
    candidates = map("publisher-{}".format, range(100))
    names = [name for name in candidates if home_of(publisher_key("default", name), 2) == 2][:4]
    with MachineProcess(tmp_path, 2) as machine:
        for name in names:
            machine.create_queue(name)
        keep_second(machine)

        def kills() -> None:
            machine.settings["brokers"] = 1
            os.kill(machine.broker_pid(2), signal.SIGKILL)  # what is not answered is stored, or not
            machine.kill_supervisor()
            machine.start()
            os.kill(machine.broker_pid(2), signal.SIGKILL)  # some have moved, or none
            os.kill(machine.broker_pid(1), signal.SIGKILL)
            end_second(machine)

        asyncio.run(publish_while(machine.flow_url, names, kills))
        assert {name: machine.payloads(name) for name in names} == {
            name: [str(number) for number in range(PUBLISHED)] for name in names
        }
