"""An MQTT client on a raw socket, for whole-broker tests: a test sends packets and reads packets.

It only takes packets apart. It acknowledges, repeats and keeps alive nothing unless the test says so. Every wait has a
deadline; nothing sleeps.
"""

import asyncio
import os
import socket
import ssl
from abc import ABC, abstractmethod
from collections import deque
from contextlib import suppress

import support.mqtt.packets as mqtt
from support.mqtt.packets import Answer, Packet, Published
from support.network.closing_stream import open_closing

DEADLINE_S = 20.0  # for anything that has to come
QUIET_S = 0.12  # how long nothing has to come, behind a round trip


class RawClient:
    """One client's socket. `level` is the protocol level it speaks: 3 (3.1), 4 (3.1.1) or 5."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, level: int) -> None:
        self.level = level
        self.accepted = Answer(-1, False, [])  # the CONNACK, once there was one
        self._reader = reader
        self._writer = writer
        self._packet_id = 0
        self._rest = b""
        self._waiting: deque[Packet] = deque()
        self._ended = False

    @classmethod
    async def open(cls, port: int, level: int, *, tls: ssl.SSLContext | None = None) -> "RawClient":
        return cls(*await open_closing(port, tls=tls), level)

    @property
    def transport(self) -> asyncio.WriteTransport:
        """The transport below."""
        return self._writer.transport

    # --- saying ---

    def send(self, *packets: bytes) -> None:
        """Write, all in one segment."""
        self._writer.write(b"".join(packets))

    async def drained(self) -> None:
        """Wait until what was sent has left for the broker."""
        await self._writer.drain()

    async def connect(self, client_id: str | bytes = "", **options: object) -> Answer:
        """Say CONNECT and return the CONNACK, whatever it says."""
        self.send(mqtt.connect(client_id, level=self.level, **options))  # type: ignore[arg-type]  # those of mqtt.connect
        return await self.connack()

    async def subscribe(self, *filters: str | tuple[str, int], qos: int = 0, properties: bytes = b"") -> list[int]:
        """Subscribe, to each filter with its options byte if it has one, and return the codes of the SUBACK."""
        packet_id = self.next_packet_id()
        pairs = [each if isinstance(each, tuple) else (each, qos) for each in filters]
        self.send(mqtt.subscribe(*pairs, packet_id=packet_id, level=self.level, properties=properties))
        answer = await self.awaited(mqtt.SUBACK)
        assert mqtt.packet_id_of(answer) == packet_id
        return mqtt.suback_codes(answer, self.level)

    async def unsubscribe(self, *filters: str) -> list[int]:
        packet_id = self.next_packet_id()
        self.send(mqtt.unsubscribe(*filters, packet_id=packet_id, level=self.level))
        answer = await self.awaited(mqtt.UNSUBACK)
        assert mqtt.packet_id_of(answer) == packet_id
        return mqtt.suback_codes(answer, self.level)

    async def publish(
        self, topic: str, payload: bytes = b"payload", *, qos: int = 1, retain: bool = False, properties: bytes = b""
    ) -> int:
        """Publish, see the handshake through to its end, and return the reason code of its first answer.

        A QoS 0 publish ends with a round trip: then the broker has routed it.
        """
        packet_id = self.next_packet_id()
        self.send(
            mqtt.publish(
                topic, payload, level=self.level, qos=qos, packet_id=packet_id, retain=retain, properties=properties
            )
        )
        if qos == 0:
            await self.round_trip()
            return 0
        answer = await self.answered(mqtt.PUBACK if qos == 1 else mqtt.PUBREC, packet_id)
        if qos == 2 and answer < 0x80:
            self.send(mqtt.pubrel(packet_id))
            assert await self.answered(mqtt.PUBCOMP, packet_id) == 0
        return answer

    def acknowledge(self, *messages: Published) -> None:
        """PUBACK messages of QoS 1; QoS 0 asks for nothing."""
        self.send(*[mqtt.puback(each.packet_id) for each in messages if each.qos == 1])

    def next_packet_id(self) -> int:
        self._packet_id = self._packet_id % 65_535 + 1
        return self._packet_id

    # --- hearing ---

    async def packet(self) -> Packet:
        """Return the next packet, whatever it is."""
        packet = await self._next()
        assert packet is not None, "the broker closed the connection, and a packet was to come"
        return packet

    async def awaited(self, kind: int) -> Packet:
        """Return the next packet of a kind; what comes before it waits for its own reader."""
        passed: list[Packet] = []
        while True:
            packet = await self.packet()
            if packet.kind == kind:
                self._waiting.extendleft(reversed(passed))
                return packet
            passed.append(packet)

    async def connack(self) -> Answer:
        self.accepted = mqtt.connack(await self.packet(), self.level)
        return self.accepted

    async def message(self) -> Published:
        """Return the next packet, which has to be a PUBLISH; it is not acknowledged."""
        return mqtt.published(await self.packet(), self.level)

    async def messages(self, count: int) -> list[Published]:
        """Return the next `count` messages, and see their handshakes through."""
        found: list[Published] = []
        for _ in range(count):
            message = mqtt.published(await self.awaited(mqtt.PUBLISH), self.level)
            found.append(message)
            await self.completes(message)
        return found

    async def payloads(self, count: int) -> list[bytes]:
        return [message.payload for message in await self.messages(count)]

    async def completes(self, message: Published) -> None:
        """See a delivery through, whatever its QoS."""
        if message.qos == 1:
            self.send(mqtt.puback(message.packet_id))
        elif message.qos == 2:
            self.send(mqtt.pubrec(message.packet_id))
            assert await self.answered(mqtt.PUBREL, message.packet_id) == 0
            self.send(mqtt.pubcomp(message.packet_id))

    async def answered(self, kind: int, packet_id: int) -> int:
        """Take an acknowledgement of a kind, for an id, and return its reason code (3.x: 0)."""
        packet = await self.awaited(kind)
        assert packet.first_byte == kind << 4 | (2 if kind == mqtt.PUBREL else 0)
        assert mqtt.packet_id_of(packet) == packet_id
        if len(packet.body) == 2:
            return 0
        assert self.level == 5, f"a 3.x acknowledgement is two bytes long, not {packet.body!r}"
        return packet.body[2]

    async def round_trip(self) -> None:
        """Wait until the broker has dealt with everything sent so far."""
        self.send(mqtt.pingreq())
        assert (await self.awaited(mqtt.PINGRESP)).body == b""

    async def is_quiet(self) -> None:
        """Nothing more is on the way: not before the answer to a PINGREQ, and not for a moment after it."""
        await self.round_trip()
        assert list(self._waiting) == []
        try:
            packet = await asyncio.wait_for(self._read_packet(), QUIET_S)
        except TimeoutError:
            return
        assert packet is None, f"{packet} came, and nothing was to come"
        raise AssertionError("the broker closed the connection")

    # --- the end ---

    async def is_closed(self) -> None:
        """Check that the broker closes and sends nothing more."""
        packet = await self._next()
        assert packet is None, f"{packet} came before the end"

    async def is_ended(self, reason_code: int) -> None:
        """Check that the broker ends the connection for this reason: 5.0 gets DISCONNECT, 3.x finds it closed."""
        if self.level == 5:
            packet = await self.awaited(mqtt.DISCONNECT)
            assert mqtt.server_disconnect(packet).reason_code == reason_code
        await self.is_closed()

    async def ended_with(self) -> int | None:
        """Return the code of the DISCONNECT that ends the connection (5.0), or None when it answers a PINGREQ."""
        self.send(mqtt.pingreq())
        packet = await self.packet()
        if packet.kind == mqtt.PINGRESP:
            return None
        code = mqtt.server_disconnect(packet).reason_code
        await self.is_closed()
        return code

    async def is_refused(self, reason_code: int) -> None:
        """The broker answers CONNECT with this code, and closes."""
        answer = await self.connack()
        assert (answer.reason_code, answer.session_present) == (reason_code, False)
        await self.is_closed()

    async def leave(self, reason_code: int | None = None, properties: bytes | None = None) -> None:
        """Send DISCONNECT and wait until the broker closes."""
        self.send(mqtt.disconnect(reason_code, properties))
        await self.is_closed()
        await self.vanish()

    async def ends(self) -> None:
        """Send nothing more, and wait until the broker has read everything and closed."""
        self._writer.write_eof()
        while await self._next() is not None:
            pass
        await self.vanish()

    async def vanish(self) -> None:
        """Close the socket without a word."""
        self._ended = True
        self._writer.close()
        with suppress(ConnectionError):  # the broker was faster
            await self._writer.wait_closed()

    def sends_no_more(self) -> None:
        """Close our side of the socket, in TLS without a word: what was sent has left, as far as the socket took it."""
        descriptor = os.dup(self._writer.get_extra_info("socket").fileno())
        with socket.socket(fileno=descriptor) as ours:
            ours.shutdown(socket.SHUT_WR)

    def stop_reading(self) -> None:
        """Leave what the broker sends in the kernel's buffers."""
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]  # of a read transport, which a socket is

    def resume_reading(self) -> None:
        self._writer.transport.resume_reading()  # type: ignore[attr-defined]  # of a read transport, which a socket is

    # --- reading ---

    async def _next(self) -> Packet | None:
        """Return the next packet, None at the end of the stream."""
        if self._waiting:
            return self._waiting.popleft()
        try:
            return await asyncio.wait_for(self._read_packet(), DEADLINE_S)
        except TimeoutError:
            raise AssertionError(f"nothing came within {DEADLINE_S} s") from None

    async def _read_packet(self) -> Packet | None:
        while True:
            found, self._rest = mqtt.take_packets(self._rest)
            if found:
                self._waiting.extend(found[1:])
                return found[0]
            data = await self._reader.read(1 << 18)
            if not data:
                assert not self._rest, f"the stream ends within a packet: {self._rest[:32]!r}"
                return None
            self._rest += data


class Clients(ABC):
    """The clients of one broker, whichever way it runs."""

    def __init__(self) -> None:
        self.named = "client"  # how the ids begin that clients get here; different ones at the brokers of a network
        self._clients: list[RawClient] = []

    @property
    @abstractmethod
    def port(self) -> int:
        """Where the broker listens."""

    async def all_vanish(self) -> None:
        """Close every socket that is still open."""
        for client in self._clients:
            await client.vanish()

    async def open(self, level: int = 4) -> RawClient:
        """Return a client whose socket is open, and that has said nothing yet."""
        client = await RawClient.open(self.port, level)
        self._clients.append(client)
        return client

    async def connect(self, client_id: str = "", level: int = 4, **options: object) -> RawClient:
        """Return a client whose CONNECT was accepted. Without an id it gets one of its own."""
        client = await self.open(level)
        answer = await client.connect(client_id or f"{self.named}-{len(self._clients)}", **options)
        assert answer.reason_code == 0
        return client

    async def connect_durable(self, client_id: str, level: int = 5, **options: object) -> RawClient:
        """Return a client that keeps its session: it resumes the one there is, or begins one."""
        if level == 5:
            extra = options.pop("properties", b"")
            assert isinstance(extra, bytes)
            options["properties"] = mqtt.session_expiry(3600) + extra
        return await self.connect(client_id, level, clean_start=False, **options)
