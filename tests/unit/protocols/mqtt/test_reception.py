"""Clients that are accepted by one of two brokers of a machine, and served where their identifiers are at home."""

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from websockets.asyncio.client import connect as websocket_connect
from websockets.typing import Subprotocol

import support.mqtt.packets as mqtt
from sluicegate.messaging.clients.homes import Homes, home_of
from sluicegate.protocols.connection.counters import ProtocolCounters
from sluicegate.protocols.connection.forwarding import BROKER_AWAY, BROKER_BUSY, OPEN_FILES, Forwarding
from sluicegate.protocols.mqtt.codec.limits import MqttLimits
from sluicegate.protocols.mqtt.reception import Reception
from sluicegate.protocols.transport.interface import ConnectionFactory
from sluicegate.protocols.transport.listeners import Listener
from sluicegate.protocols.transport.loop import event_loop as socket_loop
from sluicegate.protocols.transport.passing.passage import MESSAGE_BYTES_MAX, Passage, PassageFull, make_pair
from sluicegate.protocols.transport.passing.passed_peer import decode_peer
from sluicegate.protocols.transport.stream.stream import Origin, adopt
from sluicegate.protocols.transport.tls.context import TlsFiles
from sluicegate.protocols.transport.unfinished import COUNTED_BYTES_MIN, COUNTER, UnfinishedBytes
from sluicegate.protocols.transport.websocket import over_websocket
from support.network.event_loops import RunOnLoop
from support.network.recorded_connection import RecordedConnection, Recorder
from support.network.recording_listener import dials, leaves, trusts, writes_certificate
from support.network.websocket_settings import for_everybody

HERE, THERE = 1, 2
LEVELS = pytest.mark.parametrize("level", [3, 4, 5])
UNAVAILABLE = {3: b"\x20\x02\x00\x03", 4: b"\x20\x02\x00\x03", 5: b"\x20\x03\x00\x88\x00"}


def client_at(home: int) -> str:
    """Return a client identifier that is at home at a broker."""
    return next(name for name in map("client-{}".format, range(100)) if home_of(name, 2) == home)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return writes_certificate(tmp_path_factory.mktemp("tls"), "localhost")


class Machine:
    """Two brokers: the reception of the first, with a listener, and who is served there and at the second."""

    def __init__(
        self,
        *,
        limits: MqttLimits | None = None,
        unfinished_bytes_max: int = 1 << 30,
        connect_here: ConnectionFactory | None = None,
    ) -> None:
        self.homes = Homes(HERE, 2)
        self.before_passing: Callable[[], None] = lambda: None
        self.counters = ProtocolCounters()
        self.here = Recorder()
        self.there = Recorder()
        ours, theirs = make_pair()
        self._passage: Passage | None = Passage(ours, take=lambda message, fd: None)
        self._other = Passage(theirs, take=self._take)
        self.unfinished = UnfinishedBytes(unfinished_bytes_max)
        self.reception = Reception(
            Forwarding(b"C", self.homes, self.passage_to),
            connect_here or self.here.connect,
            limits=limits or MqttLimits(),
            counters=self.counters,
            unfinished=self.unfinished,
            later=asyncio.get_running_loop().call_soon,
        )

    def passage_to(self, broker: int) -> Passage | None:
        assert broker == THERE
        self.before_passing()
        return self._passage

    def fill_passage(self) -> None:
        """Let sockets wait that are passed in this poll, until the passage takes no more."""
        assert self._passage is not None
        served = os.open(os.devnull, os.O_RDONLY)
        for size in (MESSAGE_BYTES_MAX, 4096, 16):  # until it has not even room for the name of a client
            with suppress(PassageFull):
                while True:
                    fd = os.dup(served)
                    self._passage.send(b"-" * size, fd)
            os.close(fd)
        os.close(served)

    def other_is_away(self) -> None:
        self.close()
        self._passage = None

    def close(self) -> None:
        self._other.close()
        if self._passage is not None:
            self._passage.close()

    def _take(self, message: bytes, fd: int) -> None:
        if message[:1] == b"-":  # of `fill_passage`
            os.close(fd)
            return
        assert message[:1] == b"C"
        peer, data = decode_peer(message, 1)
        adopt(fd, peer, self.there.connect, data, Origin(peer.listener, lambda: None))


@asynccontextmanager
async def listening(
    machine: Machine, *, tls: TlsFiles | None = None, connect: ConnectionFactory | None = None
) -> AsyncIterator[Listener]:
    """Accept clients at the first broker; at the end nothing of them is left there."""
    listener = Listener(name="mqtt", host="127.0.0.1", port=0, connect=connect or machine.reception.connect, tls=tls)
    await listener.start()
    yield listener
    while listener.connection_count or machine.reception.forwarding.relays or machine.reception.arrivals:
        await asyncio.sleep(0)
    assert machine.unfinished.used_bytes == 0
    machine.close()
    await listener.stop()


async def tls_client(listener: Listener, files: TlsFiles) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    context: ssl.SSLContext = trusts(files, alpn=["mqtt"], shows_certificate=True)
    return await dials(listener, ssl=context, server_hostname="localhost")


@LEVELS
def test_a_client_of_this_broker_is_served_here(run: RunOnLoop, level: int) -> None:
    async def scenario() -> None:
        machine = Machine()
        async with listening(machine) as listener:
            reader, writer = await dials(listener)
            connect = mqtt.connect(client_at(HERE), level=level)
            writer.write(connect[:9])
            await writer.drain()
            writer.write(connect[9:] + mqtt.pingreq())
            served = await machine.here.next_opened()
            await served.has_received(connect + mqtt.pingreq())
            served.transport.write(b"answer")
            assert await reader.readexactly(6) == b"answer"
            assert served.peer.listener == "mqtt"
            assert listener.connection_count == 1
            await leaves(writer)
            assert await served.has_closed() is None
        assert machine.there.made == []

    run(scenario())


@LEVELS
def test_the_socket_of_another_brokers_client_is_passed_with_what_was_read(run: RunOnLoop, level: int) -> None:
    async def scenario() -> None:
        machine = Machine()
        async with listening(machine) as listener:
            reader, writer = await dials(listener)
            packets = mqtt.connect(client_at(THERE), level=level) + mqtt.pingreq()
            writer.write(packets)
            served = await machine.there.next_opened()
            assert served.data == packets or packets.startswith(served.data)
            writer.write(b"more")
            await served.has_received(packets + b"more")
            served.transport.write(b"answer")
            assert await reader.readexactly(6) == b"answer"
            assert (served.peer.listener, served.peer.host) == ("mqtt", "127.0.0.1")
            assert served.peer.port == writer.get_extra_info("sockname")[1]
            assert listener.connection_count == 0
            assert (machine.reception.forwarding.passed_count, machine.reception.forwarding.relayed_count) == (1, 0)
            await leaves(writer)
            assert await served.has_closed() is None
        assert machine.here.made == []

    run(scenario())


def test_the_bytes_of_a_client_in_tls_are_relayed(run: RunOnLoop, files: TlsFiles) -> None:
    async def scenario() -> None:
        machine = Machine()
        async with listening(machine, tls=files) as listener:
            reader, writer = await tls_client(listener, files)
            connect = mqtt.connect(client_at(THERE))
            writer.write(connect)
            served = await machine.there.next_opened()
            await served.has_received(connect)
            peer = served.peer
            assert (peer.is_encrypted, peer.alpn, peer.certificate_name) == (True, "mqtt", "localhost")
            writer.write(b"more")
            await served.has_received(connect + b"more")
            served.transport.write(b"goodbye")
            served.transport.close_after_flush()
            assert await reader.read() == b"goodbye"
            assert (machine.reception.forwarding.passed_count, machine.reception.forwarding.relayed_count) == (0, 1)
            await leaves(writer)

    run(scenario())


@pytest.mark.parametrize("home", [HERE, THERE])
def test_a_client_in_a_websocket_is_served_where_it_is_at_home(run: RunOnLoop, home: int) -> None:
    async def scenario() -> None:
        machine = Machine()
        connect = over_websocket(machine.reception.connect, for_everybody())
        async with listening(machine, connect=connect) as listener:
            url = f"ws://127.0.0.1:{listener.port}/mqtt"
            async with websocket_connect(url, subprotocols=[Subprotocol("mqtt")], proxy=None) as client:
                packet = mqtt.connect(client_at(home))
                await client.send([packet[:5], packet[5:], mqtt.pingreq()])
                served = await (machine.here if home == HERE else machine.there).next_opened()
                await served.has_received(packet + mqtt.pingreq())
                served.transport.write(b"answer")
                assert await client.recv() == b"answer"
                assert served.peer.subprotocol == "mqtt"
            await served.has_closed()

    run(scenario())


def test_a_connect_larger_than_a_message_between_brokers_is_relayed(run: RunOnLoop) -> None:
    """Its identifier may come last: MQTT 5.0 has properties before it."""

    async def scenario() -> None:
        machine = Machine()
        async with listening(machine) as listener:
            _, writer = await dials(listener)
            properties = b"".join(mqtt.user_property(str(number), "x" * 60_000) for number in range(4))
            packet = mqtt.connect(client_at(THERE), level=5, properties=properties)
            assert len(packet) > MESSAGE_BYTES_MAX
            for start in range(0, len(packet), 50_000):
                writer.write(packet[start : start + 50_000])
                await writer.drain()
            served = await machine.there.next_opened()
            await served.has_received(packet)
            assert machine.reception.forwarding.relayed_count == 1
            await leaves(writer)
            await served.has_closed()

    run(scenario())


@pytest.mark.parametrize(
    "data", [mqtt.pingreq(), b"GET / HTTP/1.1\r\n\r\n", mqtt.connect("", level=5), mqtt.connect(protocol_level=9)]
)
def test_what_names_no_client_is_served_here(run: RunOnLoop, data: bytes) -> None:
    """Else nobody would refuse it in the right form, or give it an identifier."""

    async def scenario() -> None:
        machine = Machine()
        async with listening(machine) as listener:
            _, writer = await dials(listener)
            writer.write(data)
            served = await machine.here.next_opened()
            await served.has_received(data)
            await leaves(writer)
            await served.has_closed()

    run(scenario())


def test_a_client_is_served_where_its_session_is(run: RunOnLoop) -> None:
    async def scenario() -> None:
        machine = Machine()
        machine.homes.hold(client_at(HERE), THERE)
        async with listening(machine) as listener:
            _, writer = await dials(listener)
            writer.write(mqtt.connect(client_at(HERE)))
            served = await machine.there.next_opened()
            await leaves(writer)
            await served.has_closed()

    run(scenario())


@LEVELS
@pytest.mark.parametrize("is_tls", [False, True])
def test_a_client_whose_broker_is_away_is_told_so(run: RunOnLoop, files: TlsFiles, level: int, is_tls: bool) -> None:
    """3.x: return code 3, server unavailable; 5.0: reason code 0x88."""

    async def scenario() -> None:
        machine = Machine()
        machine.other_is_away()
        async with listening(machine, tls=files if is_tls else None) as listener:
            reader, writer = await (tls_client(listener, files) if is_tls else dials(listener))
            writer.write(mqtt.connect(client_at(THERE), level=level))
            assert await reader.read() == UNAVAILABLE[level]
            await leaves(writer)
        assert machine.counters.refused == {BROKER_AWAY: 1}

    run(scenario())


@pytest.mark.parametrize("is_tls", [False, True])
def test_a_client_that_cannot_be_passed_is_told_to_come_later(run: RunOnLoop, files: TlsFiles, is_tls: bool) -> None:
    async def scenario() -> None:
        machine = Machine()
        async with listening(machine, tls=files if is_tls else None) as listener:
            reader, writer = await (tls_client(listener, files) if is_tls else dials(listener))
            machine.before_passing = machine.fill_passage
            writer.write(mqtt.connect(client_at(THERE)))
            assert await reader.read() == UNAVAILABLE[4]
            await leaves(writer)
        assert machine.counters.refused == {BROKER_BUSY: 1}

    run(scenario())


def test_a_client_for_whose_relay_there_is_no_descriptor_is_told_to_come_later(
    run: RunOnLoop, monkeypatch: pytest.MonkeyPatch, files: TlsFiles
) -> None:
    def has_none() -> None:
        raise OSError(errno.EMFILE, "no descriptor")

    async def scenario() -> None:
        machine = Machine()
        async with listening(machine, tls=files) as listener:
            reader, writer = await tls_client(listener, files)
            monkeypatch.setattr(socket, "socketpair", has_none)
            writer.write(mqtt.connect(client_at(THERE)))
            assert await reader.read() == UNAVAILABLE[4]
            await leaves(writer)
        assert machine.counters.refused == {OPEN_FILES: 1}

    run(scenario())


def test_a_client_that_says_nothing_is_closed_in_time(run: RunOnLoop) -> None:
    async def scenario() -> None:
        machine = Machine(limits=MqttLimits(connect_timeout_ms=50))
        async with listening(machine) as listener:
            reader, writer = await dials(listener)
            writer.write(mqtt.connect(client_at(THERE))[:-1])
            assert await reader.read() == b""
            await leaves(writer)
        assert machine.counters.violated == {"0x80": 1}

    run(scenario())


def test_a_client_that_has_said_who_it_is_has_no_more_deadline(run: RunOnLoop) -> None:
    async def scenario() -> None:
        machine = Machine(limits=MqttLimits(connect_timeout_ms=50))
        async with listening(machine) as listener:
            reader, writer = await dials(listener)
            writer.write(mqtt.connect(client_at(HERE)))
            served = await machine.here.next_opened()
            silent, _ = await asyncio.wait([asyncio.create_task(reader.read(1))], timeout=0.2)
            assert not silent
            served.transport.close()
            await leaves(writer)
            await served.has_closed()

    run(scenario())


def test_a_client_may_leave_before_it_has_said_who_it_is(run: RunOnLoop) -> None:
    async def scenario() -> None:
        machine = Machine()
        async with listening(machine) as listener:
            _, writer = await dials(listener)
            writer.write(mqtt.connect(client_at(THERE))[:-1])
            await writer.drain()
            while not machine.reception.arrivals:
                await asyncio.sleep(0)
            await leaves(writer)
        assert (machine.here.made, machine.there.made) == ([], [])

    run(scenario())


def test_unfinished_beginnings_of_all_clients_together_are_bounded(run: RunOnLoop) -> None:
    async def scenario() -> None:
        machine = Machine(unfinished_bytes_max=3 * COUNTED_BYTES_MIN)
        packet = mqtt.connect(client_at(HERE), level=5, properties=mqtt.user_property("a", "x" * 9_000))
        assert len(packet) < 3 * COUNTED_BYTES_MIN  # a network may bring it in pieces of any size
        async with listening(machine) as listener:
            reader, writer = await dials(listener)
            writer.write(packet[: 2 * COUNTED_BYTES_MIN])
            while machine.unfinished.used_bytes < 2 * COUNTED_BYTES_MIN:
                await asyncio.sleep(0)
            _, other = await dials(listener)
            other.write(packet[: 2 * COUNTED_BYTES_MIN])
            assert await reader.read() == b""
            await leaves(writer)
            other.write(packet[2 * COUNTED_BYTES_MIN :])
            served = await machine.here.next_opened()
            await served.has_received(packet)
            await leaves(other)
            await served.has_closed()
        assert machine.counters.violated == {COUNTER: 1}

    run(scenario())


def test_a_broker_that_stops_closes_what_is_in_its_reception(run: RunOnLoop, files: TlsFiles) -> None:
    async def scenario() -> None:
        machine = Machine()
        async with listening(machine, tls=files) as listener:
            waiting, writer = await tls_client(listener, files)
            relayed, other = await tls_client(listener, files)
            other.write(mqtt.connect(client_at(THERE)))
            served = await machine.there.next_opened()
            while not machine.reception.arrivals:
                await asyncio.sleep(0)
            machine.reception.end()
            machine.reception.forwarding.end()
            assert await waiting.read() == b""
            assert await relayed.read() == b""
            assert await served.has_closed() is None
            await leaves(writer)
            await leaves(other)

    run(scenario())


def test_a_failure_of_a_connection_that_is_made_here_costs_it_alone() -> None:
    reported: list[str] = []

    class Failing(RecordedConnection):
        def opened(self, *_: object) -> None:
            raise RuntimeError("as the test asked")

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(str(context["exception"])))
        machine = Machine(connect_here=Failing)
        async with listening(machine) as listener:
            reader, writer = await dials(listener)
            writer.write(mqtt.connect(client_at(HERE)))
            assert await reader.read() == b""
            await leaves(writer)

    socket_loop.run(scenario())
    assert reported == ["as the test asked"]
