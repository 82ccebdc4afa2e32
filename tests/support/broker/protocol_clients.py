"""One client of each protocol with the same interface: its requests, and the code of the gateway's response.

A client is made for each request. `OK` stands for a granted request in every protocol; every other answer is the
protocol's own code, as it was on the wire.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

import httpx

import support.mqtt.packets as mqtt
from sluicegate.protocols.amqp.codec.delivery_states import AmqpError
from sluicegate.protocols.amqp.codec.frames import frame, sasl_frame
from sluicegate.protocols.amqp.codec.performatives import INIT, Begin, Detach, Flow, Open
from sluicegate.protocols.amqp.types.encoding import encode_composite
from sluicegate.protocols.amqp.types.values import Symbol
from sluicegate.protocols.flow.codec.frame import SUBSCRIBE
from sluicegate.protocols.flow.codec.frames.session import AUTH_DONE
from sluicegate.protocols.flow.codec.frames.subscription import Subscribe, Subscribed
from support.amqp.client import AMQP_HEADER, AmqpClient, body
from support.amqp.received import Ended
from support.broker.running_broker import RunningBroker
from support.flow.client import FlowClient, Refused
from support.http.plain import plain_async_client
from support.mqtt.raw_client import DEADLINE_S, RawClient
from support.network.closing_stream import open_closing

OK: Final = "ok"
SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"

Answer = str | int


class ProtocolClient(Protocol):
    """What a client of any protocol can be asked to try."""

    async def connect(self, user: str, password: str) -> Answer:
        """Connect as a user; an empty name means an anonymous client."""

    async def publish(self, topic: str) -> Answer:
        """Publish one guaranteed message."""

    async def send(self, queue: str) -> Answer:
        """Publish one guaranteed message to a queue by its name."""

    async def subscribe(self, topic: str) -> Answer:
        """Subscribe to a topic."""

    async def bind(self, queue: str) -> Answer:
        """Consume a queue."""

    async def leave(self) -> None:
        """Be gone, with or without a word."""


class Mqtt:
    """MQTT 5.0; the codes are reason codes."""

    def __init__(self, broker: RunningBroker, name: str = "device") -> None:
        self._broker = broker
        self._name = name
        self._client: RawClient | None = None

    async def connect(self, user: str, password: str) -> Answer:
        self._client = await self._broker.open(5)
        secret = password.encode() if user else None
        self._client.send(mqtt.connect(self._name, level=5, user_name=user or None, password=secret))
        code = mqtt.connack(await self._client.packet(), 5).reason_code
        return code or OK

    async def publish(self, topic: str) -> Answer:
        assert self._client is not None
        packet_id = self._client.next_packet_id()
        self._client.send(mqtt.publish(topic, b"x", qos=1, packet_id=packet_id, level=5))
        code = await self._client.answered(mqtt.PUBACK, packet_id)
        return code if code >= 0x80 else OK

    async def send(self, queue: str) -> Answer:
        return await self.publish(f"$queue/{queue}")

    async def subscribe(self, topic: str) -> Answer:
        assert self._client is not None
        (code,) = await self._client.subscribe(topic, qos=1)
        return code if code >= 0x80 else OK

    async def bind(self, queue: str) -> Answer:
        return await self.subscribe(f"$queue/{queue}")

    async def leave(self) -> None:
        if self._client is not None:
            await self._client.vanish()


class Amqp:
    """AMQP 1.0; the codes are error conditions, and `sasl-1` and the like for the outcome of SASL."""

    def __init__(
        self, broker: RunningBroker, name: str = "device", *, sasl_hostname: str | None = None, hostname: str = ""
    ) -> None:
        self._broker = broker
        self._name = name
        self._sasl_hostname = sasl_hostname
        self._hostname = hostname or None  # of the open
        self._client: AmqpClient | None = None
        self._handle = 0

    async def connect(self, user: str, password: str) -> Answer:
        reader, writer = await open_closing(self._broker.amqp_port)
        mechanism, response = ("PLAIN", f"\0{user}\0{password}".encode()) if user else ("ANONYMOUS", b"")
        writer.write(
            SASL_HEADER + sasl_frame(encode_composite(INIT, [Symbol(mechanism), response, self._sasl_hostname]))
        )
        async with asyncio.timeout(DEADLINE_S):
            assert await reader.readexactly(8) == SASL_HEADER
            await _sasl_frame(reader)  # the mechanisms
            outcome = await _sasl_frame(reader)
        self._client = AmqpClient(reader, writer)
        if outcome[-2:-1] == b"\x50" and outcome[-1]:
            return f"sasl-{outcome[-1]}"
        writer.write(AMQP_HEADER + frame(0, Open(self._name, hostname=self._hostname).encode()))
        writer.write(frame(0, Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=100).encode()))
        async with asyncio.timeout(DEADLINE_S):
            assert await reader.readexactly(8) == AMQP_HEADER
        echo = Flow(next_incoming_id=0, incoming_window=100, next_outgoing_id=0, outgoing_window=100, echo=True)
        self._client.send(echo.encode())
        return _ending(await self._first(Flow, Ended))

    async def publish(self, topic: str) -> Answer:
        return await self._send_to(f"topic://{topic}")

    async def send(self, queue: str) -> Answer:
        return await self._send_to(f"queue://{queue}")

    async def _send_to(self, address: str) -> Answer:
        assert self._client is not None
        self._handle += 1
        answer = await self._client.sender(f"out{self._handle}", address, handle=self._handle)
        if answer.target is None:
            return _ending(await self._client.awaited(Detach))
        await self._client.awaited(Flow)  # its credit
        state = await self._client.outcome(self._client.transfer(self._handle, body("x")))
        return OK if state.error is None else state.error.condition

    async def subscribe(self, topic: str) -> Answer:
        return await self._receive(f"topic://{topic}")

    async def bind(self, queue: str) -> Answer:
        return await self._receive(f"queue://{queue}")

    async def _receive(self, address: str) -> Answer:
        assert self._client is not None
        self._handle += 1
        answer = await self._client.receiver(f"in{self._handle}", address, handle=self._handle)
        if answer.source is not None:  # bound is a flow when it answers a drain
            self._client.flow(self._handle, 1, drain=True)
        return _ending(await self._first(Flow, Detach))

    async def _first(self, *kinds: type) -> object:
        """Return the next frame of one of these kinds. Flows that grant credit to our own links are none."""
        assert self._client is not None
        while True:
            heard = await self._client.heard()
            if isinstance(heard, kinds) and not (isinstance(heard, Flow) and heard.link_credit > 0):
                return heard

    async def leave(self) -> None:
        if self._client is not None:
            self._client.vanish()


class FlowProtocol:
    """The flow protocol; the codes are those of ERROR and PUB_ACK, and `auth-failed`."""

    def __init__(self, broker: RunningBroker, name: str = "device") -> None:
        self._client = FlowClient(broker.flow_port, name=name)

    async def connect(self, user: str, password: str) -> Answer:
        await self._client.connect()
        try:
            mechanism, response = ("PLAIN", f"\0{user}\0{password}".encode()) if user else ("ANONYMOUS", None)
            answer = await self._client.authenticate(mechanism, response)
        except Refused as refused:
            return refused.error.code
        return OK if answer.state == AUTH_DONE else "auth-failed"

    async def publish(self, topic: str) -> Answer:
        return await self._send_to(topic=topic)

    async def send(self, queue: str) -> Answer:
        return await self._send_to(queue=queue)

    async def _send_to(self, *, topic: str = "", queue: str = "") -> Answer:
        opened = await self._client.opens_publisher()
        self._client.publishes(opened.flow_id, [1], topic=topic, queue=queue)
        refusals = await self._client.answered(opened.flow_id, 1)
        return refusals[0].code if refusals else OK

    async def subscribe(self, topic: str) -> Answer:
        _, request_id = self._client.ids()
        self._client.send(Subscribe(SUBSCRIBE, request_id, topic, (), "").encode())
        try:
            await self._client.heard(Subscribed)
        except Refused as refused:
            return refused.error.code
        return OK

    async def bind(self, queue: str) -> Answer:
        try:
            await self._client.binds(queue)
        except Refused as refused:
            return refused.error.code
        return OK

    async def leave(self) -> None:
        self._client.cut()
        await self._client.ended()


class Http:
    """HTTP; the codes are statuses. A request is what connects, so `connect` publishes to a topic of its own."""

    def __init__(self, broker: RunningBroker, name: str = "device") -> None:
        url = f"http://127.0.0.1:{broker.node.http.listeners['http'].port}"
        self._client = plain_async_client(url, timeout=DEADLINE_S, headers={"X-Name": name})

    async def connect(self, user: str, password: str) -> Answer:
        if user:
            self._client.auth = httpx.BasicAuth(user, password)
        return await self.publish("hello")

    async def publish(self, topic: str) -> Answer:
        return await self._post(f"/TOPIC/{topic}")

    async def send(self, queue: str) -> Answer:
        return await self._post(f"/QUEUE/{queue}")

    async def _post(self, path: str) -> Answer:
        status = (await self._client.post(path, content=b"x")).status_code
        return OK if status == httpx.codes.OK else status

    async def subscribe(self, topic: str) -> Answer:
        raise NotImplementedError(f"{topic}: the protocol publishes")

    async def bind(self, queue: str) -> Answer:
        status = (await self._client.get(f"/QUEUE/{queue}")).status_code
        return OK if status in (httpx.codes.OK, httpx.codes.NO_CONTENT) else status

    async def leave(self) -> None:
        await self._client.aclose()


PROTOCOLS: Final[dict[str, Callable[..., ProtocolClient]]] = {
    "mqtt": Mqtt,
    "amqp": Amqp,
    "flow": FlowProtocol,
    "http": Http,
}


async def _sasl_frame(reader: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await reader.readexactly(4), "big")
    return await reader.readexactly(size - 4)


def _ending(heard: object) -> Answer:
    """Return the error of an end or a detach, OK for anything else."""
    error: AmqpError | None = heard.error if isinstance(heard, Ended | Detach) else None
    return OK if error is None else error.condition
