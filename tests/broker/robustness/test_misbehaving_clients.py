"""One client cannot harm the others, and a crash harms nobody."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import support.mqtt.packets as mqtt
from sluicegate.actors.runtime.clock import Clock
from sluicegate.actors.runtime.supervision import ONE_CONNECTION
from sluicegate.gateway.config.load import load
from sluicegate.gateway.node.node import STOP_S
from sluicegate.protocols.flow.engine.engine import FlowEngine
from sluicegate.protocols.mqtt.codec.limits import ASKED_NOW_MAX
from sluicegate.protocols.mqtt.connection import MqttConnection
from sluicegate.protocols.security.authentication import Principal
from sluicegate.protocols.transport.interface import PeerRecord
from support.broker.running_broker import RunningBroker
from support.flow.engine_pair import HELLO
from support.mqtt.packets import WillPart
from support.mqtt.raw_client import DEADLINE_S, Clients
from support.network.full_socket import FullSocket
from support.processes.gateway import GatewayProcess

MIB = 1024 * 1024


class BrokerProcess(Clients):
    """A gateway in a process of its own: to be killed, or to have its memory measured."""

    def __init__(self, gateway: GatewayProcess) -> None:
        super().__init__()
        self._gateway = gateway

    @property
    def port(self) -> int:
        return self._gateway.mqtt_port

    def crash_and_start_again(self) -> None:
        self._gateway.kill9()
        self._gateway.start()

    def memory_bytes(self) -> int:
        return int(psutil.Process(self._gateway.pid).memory_info().rss)


@pytest.fixture
def process(runner: asyncio.Runner, tmp_path: Path) -> Iterator[BrokerProcess]:
    with GatewayProcess(tmp_path, {"log.level": "warning"}) as gateway:
        process = BrokerProcess(gateway)
        yield process
        runner.run(process.all_vanish())


# --- a crash ---


@pytest.mark.crash
async def test_sessions_and_messages_survive_a_crash(process: BrokerProcess) -> None:
    """Section 4.1: state is kept by a server that says it keeps it; each message comes once, per QoS in its order."""
    subscriber = await process.connect_durable("keeper")
    await subscriber.subscribe(("t/+", 2), properties=mqtt.subscription_identifier(5))
    await subscriber.vanish()
    publisher = await process.connect_durable("publisher")
    await publisher.publish("kept", b"retained", retain=True)
    for number in range(20):
        await publisher.publish(f"t/{number % 3}", b"%d" % number, qos=1 + number % 2)
    publisher.send(mqtt.publish("t/0", b"half done", level=5, qos=2, packet_id=600))
    assert await publisher.answered(mqtt.PUBREC, 600) == 0
    await publisher.vanish()

    process.crash_and_start_again()

    publisher = await process.connect_durable("publisher")
    assert publisher.accepted.session_present
    publisher.send(mqtt.publish("t/0", b"half done", level=5, qos=2, packet_id=600, dup=True))
    assert await publisher.answered(mqtt.PUBREC, 600) == 0
    publisher.send(mqtt.pubrel(600))
    assert await publisher.answered(mqtt.PUBCOMP, 600) == 0
    subscriber = await process.connect_durable("keeper")
    assert subscriber.accepted.session_present
    messages = await subscriber.messages(21)
    for qos, last in ((1, []), (2, [b"half done"])):
        expected = [b"%d" % number for number in range(20) if 1 + number % 2 == qos] + last
        assert [each.payload for each in messages if each.qos == qos] == expected
    assert {tuple(each.values(11)) for each in messages} == {(5,)}
    await publisher.publish("t/9", b"subscribed still")
    assert await subscriber.payloads(1) == [b"subscribed still"]
    await subscriber.subscribe("kept")
    assert await subscriber.payloads(1) == [b"retained"]
    await subscriber.is_quiet()


@pytest.mark.crash
async def test_a_qos_2_delivery_goes_on_after_a_crash_where_it_was(process: BrokerProcess) -> None:
    """[4.3.3-6] [4.4.0-1]: the same ids; PUBREL for what was past PUBREC, PUBLISH with DUP for what was not."""
    subscriber = await process.connect_durable("keeper")
    await subscriber.subscribe("t", qos=2)
    publisher = await process.connect("publisher", 5)
    for payload in (b"released", b"sent"):
        await publisher.publish("t", payload, qos=2)
    released, sent = [await subscriber.message() for _ in range(2)]
    subscriber.send(mqtt.pubrec(released.packet_id))
    assert await subscriber.answered(mqtt.PUBREL, released.packet_id) == 0

    process.crash_and_start_again()

    subscriber = await process.connect_durable("keeper")
    assert await subscriber.answered(mqtt.PUBREL, released.packet_id) == 0
    again = await subscriber.message()
    assert (again.payload, again.packet_id, again.dup) == (b"sent", sent.packet_id, True)
    subscriber.send(mqtt.pubcomp(released.packet_id))
    await subscriber.completes(again)
    await subscriber.is_quiet()


class BrokenClock(Clock):
    """Fails when it is asked whether a client was let in for longer than this."""

    def now_ms(self) -> int:
        return 0

    def now_ns(self) -> int:
        return 0

    def wall_ms(self) -> int:
        raise ValueError("what time is it?")


async def test_a_connection_that_fails_as_time_passes_costs_the_others_nothing(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Goal 2: one client harms nobody else. Who is silent is still noticed, whoever was looked at before."""
    failing = await broker.connect("failing", 5)
    silent = await broker.connect("silent", 5, keep_alive_s=1)
    cell = next(iter(broker.node.mqtt.connections.children or ()))
    connection: MqttConnection = cell.behaviour
    connection.identity.authenticated(Principal("", valid_until_ms=1))  # the only one that asks for the time

    broker.clock.forward(60)
    runtime = broker.node.services.runtime
    clock, runtime.clock = runtime.clock, BrokenClock()
    broker.node.mqtt.tick()
    runtime.clock = clock

    await failing.is_closed()
    await silent.is_ended(0x8D)
    assert "what time is it?" in caplog.text
    caplog.clear()


class BrokenSocket(FullSocket):
    """A transport that fails when something is to be written."""

    def __init__(self) -> None:
        self.is_aborted = False

    def write(self, data: bytes) -> None:
        raise ValueError("what is a socket?")

    def abort(self) -> None:
        self.is_aborted = True


def flow_greeting() -> bytes:
    """Return what a client of the flow protocol says first."""
    client = FlowEngine(is_gateway=False, frame_bytes_max=MIB, connect_timeout_ms=1, keep_alive_ms=1, now_ms=0)
    client.send(HELLO.encode())
    return b"".join(client.take())


@pytest.mark.parametrize(
    ("protocol", "first_bytes"),
    [("mqtt", mqtt.connect("broken")), ("amqp", b"AMQP\x03\x01\x00\x00"), ("flow", flow_greeting())],
)
async def test_a_connection_that_fails_to_write_costs_the_others_nothing(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture, protocol: str, first_bytes: bytes
) -> None:
    """Goal 2: one client harms nobody else. At the end of a turn all write, whoever's turn it was."""
    broker.ignores_violations()
    other = await broker.connect("other", 5)
    servers = {server.name: server for server in broker.node.servers}
    server, broken = servers[protocol], BrokenSocket()
    cell = broker.node.services.runtime.spawn(
        server.make_connection, kind="connection", name="broken", policy=ONE_CONNECTION, parent=server.connections
    )
    connection = cell.behaviour
    connection.opened(broken, PeerRecord(listener=protocol, host="here", port=1))

    connection.received(first_bytes)
    await other.round_trip()
    connection.closed(None)

    assert broken.is_aborted
    assert "what is a socket?" in caplog.text
    caplog.clear()


class DeafSocket(FullSocket):
    """The transport of a client that does not hear that it should go."""

    def __init__(self, clock: Clock) -> None:
        self.told_ms: int | None = None
        self._clock = clock

    def close_after_flush(self) -> None:
        self.told_ms = self._clock.now_ms()


async def test_clients_of_all_protocols_get_the_shutdown_at_once(broker: RunningBroker) -> None:
    """docs/operate/operations.md, start and stop: connections that stay open delay neither the others nor the stop."""
    node = broker.node
    deaf = {server.name: DeafSocket(broker.clock) for server in node.servers}
    for server in node.servers:
        cell = node.services.runtime.spawn(
            server.make_connection, kind="connection", name="deaf", policy=ONE_CONNECTION, parent=server.connections
        )
        cell.behaviour.opened(deaf[server.name], PeerRecord(listener=server.name, host="here", port=1))

    stopping = asyncio.create_task(broker.stop())
    async with asyncio.timeout(DEADLINE_S):
        while any(each.told_ms is None for each in deaf.values()):
            await asyncio.sleep(0.01)
    broker.clock.forward(STOP_S)
    await asyncio.wait_for(stopping, DEADLINE_S)
    told_ms = [each.told_ms or 0 for each in deaf.values()]
    assert max(told_ms) - min(told_ms) < STOP_S * 1000 / len(deaf)
    await broker.start()


async def test_a_connection_that_has_failed_accepts_no_login(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """The session that its CONNECT waited for goes back to the directory; nobody is told that its client is here."""
    broker.ignores_violations()
    held = await broker.connect_durable("device")
    coming = await broker.open(5)
    await held.round_trip()  # it is there
    cell = list(broker.node.mqtt.connections.children or ())[-1]
    connection = cell.behaviour
    counts = broker.node.services.runtime.events.record.counts
    connected_before = counts["CLIENT_CLIENT_CONNECT"]
    is_open: list[bool] = []

    def fails_while_it_waits_for_the_session() -> None:
        connection.received(mqtt.connect("device", level=5, properties=mqtt.session_expiry(60)))
        cell.failed(ValueError("what now?"))
        is_open.append(connection.is_open())  # its socket has yet to say that it is gone

    asyncio.get_running_loop().call_soon(fails_while_it_waits_for_the_session)

    await held.is_ended(0x8E)
    await coming.is_closed()
    assert is_open == [False]
    assert counts["CLIENT_CLIENT_CONNECT"] == connected_before
    assert (await broker.connect_durable("device")).accepted.session_present
    assert "what now?" in caplog.text
    caplog.clear()


async def test_a_client_that_goes_while_subscriptions_are_taken_from_it_may_come_back(broker: RunningBroker) -> None:
    """What its CONNECT would still store waits for no answer that comes to nobody: else the session never came back."""
    broker.ignores_violations()
    device = await broker.connect_durable("device")
    await device.subscribe(*(f"t/{number}" for number in range(2 * ASKED_NOW_MAX)), qos=0)
    await device.vanish()
    nothing = "authentication.acl_profiles=[{name: default, subscribe_topic_default_action: disallow}]"
    await broker.node.reload(load(None, settings=(*broker.settings, nothing)))
    other, coming = await broker.connect(), await broker.open(5)
    await other.round_trip()  # the one that is coming is there
    connection = list(broker.node.mqtt.connections.children or ())[-1].behaviour

    def comes_and_goes() -> None:
        connection.received(mqtt.connect("device", level=5, clean_start=False, properties=mqtt.session_expiry(60)))
        assert connection.is_busy
        connection.closed(None)

    asyncio.get_running_loop().call_soon(comes_and_goes)

    assert (await broker.connect_durable("device")).accepted.session_present
    await coming.vanish()


async def test_sessions_and_messages_survive_a_restart(broker: RunningBroker) -> None:
    """Section 4.1."""
    subscriber = await broker.connect_durable("keeper", 4)
    await subscriber.subscribe("t", qos=1)
    await subscriber.vanish()
    publisher = await broker.connect()
    for number in range(5):
        await publisher.publish("t", b"%d" % number)
    await broker.restart()
    subscriber = await broker.connect_durable("keeper", 4)
    assert subscriber.accepted.session_present
    assert await subscriber.payloads(5) == [b"%d" % number for number in range(5)]
    await broker.restart()
    subscriber = await broker.connect_durable("keeper", 4)
    await subscriber.is_quiet()


# --- clients that leave in the middle ---


@pytest.mark.parametrize("expiry_s", [0, 60])
async def test_a_client_that_leaves_while_its_subscribe_is_carried_out_leaves_nothing_behind(
    broker: RunningBroker, expiry_s: int
) -> None:
    """Section 4.1: the session ends in order, whatever was under way; the next connection finds it so."""
    expiry = mqtt.session_expiry(expiry_s)
    for _ in range(20):
        client = await broker.open(5)
        client.send(mqtt.connect("hasty", level=5, properties=expiry))
        await client.connack()
        client.send(mqtt.subscribe(("$share/g/t", 1), ("t", 1), ("u", 2), level=5))
        await client.drained()
        await client.vanish()
    client = await broker.connect("hasty", 5, clean_start=True)
    publisher = await broker.connect()
    assert await publisher.publish("t") == 0
    await client.is_quiet()
    await client.leave()
    await publisher.leave()
    await broker.has_no_more_than(sessions=0, queues=0)


async def test_a_takeover_in_the_middle_of_a_subscribe_loses_nothing(broker: RunningBroker) -> None:
    """[3.1.4-3]: the subscription is in force or it is not, and the session goes on."""
    for _ in range(20):
        first = await broker.connect_durable("same")
        first.send(mqtt.subscribe(("t", 1), ("$share/g/s", 1), level=5))
        second = await broker.connect_durable("same")
        await first.awaited(mqtt.DISCONNECT)
        assert await second.subscribe("t", "$share/g/s", qos=1) == [1, 1]
        publisher = await broker.connect("publisher")
        await publisher.publish("t", b"plain")
        await publisher.publish("s", b"shared")
        assert sorted(await second.payloads(2)) == [b"plain", b"shared"]
        await second.is_quiet()
        await second.leave(0, mqtt.session_expiry(0))


# --- clients that send nonsense ---


def specimens(level: int) -> list[bytes]:
    """Valid packets of every type, to be damaged."""
    properties = mqtt.user_property("k", "v") + mqtt.message_expiry(9) if level == 5 else b""
    will = WillPart(properties=mqtt.will_delay(1) if level == 5 else b"")
    return [
        mqtt.connect("mutant", level=level, will=will, user_name="u", password=b"p", keep_alive_s=5),
        mqtt.publish("a/b", b"x" * 30, level=level, properties=properties),
        mqtt.publish("a/b", b"y", level=level, qos=1, packet_id=3, properties=properties),
        mqtt.publish("a/b", b"z", level=level, qos=2, packet_id=4, retain=True),
        mqtt.subscribe(("a/#", 1), ("$share/g/b", 2), level=level, packet_id=5),
        mqtt.unsubscribe("a/#", "c", level=level, packet_id=6),
        mqtt.puback(1),
        mqtt.pubrec(2),
        mqtt.pubrel(4),
        mqtt.pubcomp(2),
        mqtt.pingreq(),
        mqtt.auth(0x18),
        mqtt.disconnect(),
    ]


def damaged(rng: random.Random, packet: bytes) -> bytes:
    """Change a few bytes, leave some out, double some, or cut the end off."""
    data = bytearray(packet)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data)) if data else 0
        kind = rng.randrange(4)
        if kind == 0 and data:
            data[at] = rng.randrange(256)
        elif kind == 1:
            del data[at : at + rng.randint(1, 4)]
        elif kind == 2:
            data[at:at] = rng.randbytes(rng.randint(1, 4))
        else:
            del data[rng.randrange(len(data) + 1) :]
    return bytes(data)


async def attack(process: BrokerProcess, rng: random.Random) -> None:
    """Send ten damaged packets on one connection, some behind a good CONNECT, and leave."""
    level = rng.choice((3, 4, 5))
    client = await process.open(level)
    if rng.random() < 0.8:
        client.send(mqtt.connect(f"fuzz-{rng.randrange(20)}", level=level))
    for packet in rng.choices(specimens(level), k=10):
        client.send(damaged(rng, packet))
    try:
        await client.drained()
    except ConnectionError:
        return  # closed by the broker already, as it should be
    await client.vanish()


async def test_nonsense_on_many_connections_does_not_touch_a_good_client(process: BrokerProcess) -> None:
    """[4.13.1-1]: an error ends the connection it is on. Seeded; memory comes back to where it was."""
    rng = random.Random(20_240_229)
    good = await process.connect("good", 5, will=WillPart())
    await good.subscribe(("good/t", 1))

    async def storm() -> None:
        for number in range(10):
            await asyncio.gather(*[attack(process, rng) for _ in range(10)])
            await good.publish("good/t", b"%d" % number)
            assert await good.payloads(1) == [b"%d" % number]

    await storm()  # what is allocated once and kept: code, caches, pools
    before = process.memory_bytes()
    await storm()
    await good.is_quiet()
    assert process.memory_bytes() < before * 1.1


# --- clients that do not read ---


@pytest.mark.slow
@pytest.mark.parametrize("qos", [0, 1])
async def test_a_subscriber_that_does_not_read_costs_the_others_nothing(process: BrokerProcess, qos: int) -> None:
    """Section 4.9 limits what is unacknowledged; what waits is limited by us: 64 MiB for a session that is not kept."""
    stalled = await process.connect("stalled", 5)
    other = await process.connect("other", 5)
    for subscriber in (stalled, other):
        await subscriber.subscribe("t", qos=qos)
    stalled.stop_reading()
    publisher = await process.connect("publisher", 5)
    payload = bytes(64 * 1024)
    count = 100 * MIB // len(payload)
    before = peak = process.memory_bytes()

    async def publish() -> None:
        for number in range(count):
            publisher.send(mqtt.publish("t", payload, level=5, qos=qos, packet_id=number % 500 + 1))
            await publisher.drained()
            if number % 100 == 99:
                for _ in range(100 if qos else 0):
                    await publisher.awaited(mqtt.PUBACK)

    publishing = asyncio.ensure_future(publish())
    for number in range(count):
        await other.messages(1)
        if number % 50 == 0:
            peak = max(peak, process.memory_bytes())
    await publishing

    assert peak - before < (64 + 48) * MIB
