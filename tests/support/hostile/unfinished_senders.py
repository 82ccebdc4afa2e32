"""Clients of every protocol that begin to send something large and stop in the middle.

Each reports what the broker sent it as it ended the connection.
"""

import asyncio
from itertools import count
from typing import Final, Protocol, Self

import support.mqtt.packets as mqtt
from sluicegate.protocols.amqp.types.encoding import encode
from sluicegate.protocols.amqp.types.values import AmqpValue, uint
from sluicegate.protocols.flow.codec.frames.publish import write_publish
from sluicegate.protocols.flow.codec.frames.session import Error
from support.amqp.client import AmqpClient
from support.amqp.received import Ended
from support.flow.client import FlowClient
from support.mqtt.raw_client import DEADLINE_S, RawClient

LARGE: Final = bytes(8 << 20)  # of which only the beginning is ever sent
NUMBERS: Final = count()
PIECE_BYTES: Final = 32 * 1024  # less than an AMQP frame may have


class UnfinishedSender(Protocol):
    """One client, with a session or without."""

    @classmethod
    async def open(cls, port: int) -> Self:
        """Connect."""

    async def sends(self, size: int) -> None:
        """Send so many bytes more of what is never whole."""

    async def ending(self) -> object:
        """Return what the broker said as it ended the connection."""

    async def vanish(self) -> None:
        """Be gone without a word."""


class MqttSender:
    """A PUBLISH that is not whole."""

    def __init__(self, client: RawClient) -> None:
        self._client = client
        self._packet = mqtt.publish("t", LARGE, level=5, qos=1, packet_id=1)
        self._sent = 0

    @classmethod
    async def open(cls, port: int) -> Self:
        client = await RawClient.open(port, 5)
        await client.connect("")
        return cls(client)

    async def sends(self, size: int) -> None:
        self._client.send(self._packet[self._sent : self._sent + size])
        self._sent += size
        await self._client.drained()

    async def ending(self) -> object:
        code = mqtt.server_disconnect(await self._client.awaited(mqtt.DISCONNECT)).reason_code
        await self._client.is_closed()
        return code

    async def vanish(self) -> None:
        await self._client.vanish()


class AmqpSender:
    """A delivery whose last transfer does not come."""

    def __init__(self, client: AmqpClient) -> None:
        self._client = client

    @classmethod
    async def open(cls, port: int) -> Self:
        client = await AmqpClient.open(port, f"c{next(NUMBERS)}")  # a link of one name is taken over
        await client.sender("s", "topic://t")
        return cls(client)

    async def sends(self, size: int) -> None:
        self._transfers([min(PIECE_BYTES, size - start) for start in range(0, size, PIECE_BYTES)])
        await asyncio.sleep(0)

    async def sends_short(self, sizes: list[int]) -> None:
        """Send a transfer of each size, and wait until the broker has read them."""
        self._transfers(sizes)
        await self._client.round_trip()

    def _transfers(self, sizes: list[int]) -> None:
        fields: list[AmqpValue] = [uint(9), uint(0), b"tag", uint(0), False, True]
        encoded = b"".join([encode(each) for each in fields])
        head = b"\x00\x53\x14\xd0" + (len(encoded) + 4).to_bytes(4, "big") + (6).to_bytes(4, "big")
        with self._client.one_write():
            for size in sizes:
                self._client.send(head + encoded + LARGE[:size])

    async def ending(self) -> object:
        ended = await self._client.awaited(Ended)
        return None if ended.error is None else ended.error.condition

    async def vanish(self) -> None:
        self._client.vanish()


class FlowSender:
    """A PUBLISH frame that is not whole."""

    def __init__(self, client: FlowClient) -> None:
        self._client = client
        self._frame = write_publish(1, 1, "t", LARGE, None, to_queue=False, ttl_ms=0, delay_ms=0)
        self._sent = 0

    @classmethod
    async def open(cls, port: int) -> Self:
        client = FlowClient(port)
        await client.open()
        await client.opens_publisher()
        return cls(client)

    async def sends(self, size: int) -> None:
        self._client.send(self._frame[self._sent : self._sent + size])
        self._sent += size
        await asyncio.sleep(0)

    async def ending(self) -> object:
        error = await self._client.heard(Error)
        await self._client.ended()
        return error.code

    async def vanish(self) -> None:
        self._client.cut()


class HttpSender:
    """A body that is not whole."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> Self:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"POST /TOPIC/t HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(LARGE)}\r\n\r\n"
        writer.write(head.encode())
        return cls(reader, writer)

    async def sends(self, size: int) -> None:
        self._writer.write(LARGE[:size])
        await self._writer.drain()

    async def ending(self) -> object:
        """The status, and whether it says when to come again."""
        answer = await asyncio.wait_for(self._reader.read(-1), DEADLINE_S)
        self._writer.close()
        return int(answer.split()[1]), b"\r\nretry-after: " in answer.lower()

    async def vanish(self) -> None:
        self._writer.transport.abort()


class WebSocketSender:
    """A frame that is not whole, of which nothing has come to MQTT."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> Self:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Protocol: mqtt\r\n\r\n"
        )
        assert b"101" in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), DEADLINE_S)
        writer.write(b"\x82\xff" + len(LARGE).to_bytes(8, "big") + b"mask")  # binary, masked
        return cls(reader, writer)

    async def sends(self, size: int) -> None:
        self._writer.write(LARGE[:size])
        await self._writer.drain()

    async def ending(self) -> object:
        """The code of the Close frame."""
        frame = await asyncio.wait_for(self._reader.read(-1), DEADLINE_S)
        self._writer.close()
        return int.from_bytes(frame[2:4], "big")

    async def vanish(self) -> None:
        self._writer.transport.abort()
