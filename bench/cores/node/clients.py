"""MQTT clients of a node in this process: they connect to its listener without a socket."""

import asyncio
from typing import Any, Final, cast, final

from bench.wire import mqtt as wire
from sluicegate.gateway.node.node import Node

TOPIC_OF_ALL: Final = "storm"
AT_ONCE: Final = 10  # clients that come in a round
WARM_UP: Final = 100  # clients that are not counted
ANSWER_S: Final = 0.001


@final
class Client(asyncio.Transport):
    """One client, and the transport between it and the node."""

    def __init__(self, node: Node, number: int, *, version: int = wire.MQTT_3_1_1, clean: bool = True) -> None:
        super().__init__()
        self.number = number
        self.version = version
        self.written: list[bytes] = []
        self.unanswered = b""  # acknowledgements for another round
        self.to_answer: list[Client] | None = None  # a client that has to answer enters it once
        self._protocol: asyncio.Protocol | None = None
        listener = node.mqtt.listeners["mqtt"]
        assert listener.admit()
        listener.open(self, ("127.0.0.1", 40_000))
        self.send(wire.connect(f"bench-{number}", version=version, clean=clean))

    def send(self, data: bytes) -> None:
        """Let the node read bytes."""
        assert self._protocol is not None
        self._protocol.data_received(data)

    def subscribe(self, topic_filter: str, qos: int) -> None:
        """Send SUBSCRIBE."""
        self.send(wire.subscribe(topic_filter, qos=qos, version=self.version))

    def leave(self) -> None:
        """Close the connection without DISCONNECT."""
        assert self._protocol is not None
        self._protocol.connection_lost(None)
        self._protocol = None

    def taken(self) -> bytes:
        """Return the bytes that the node has sent since the last call."""
        data = b"".join(self.written)
        self.written.clear()
        return data

    # --- what the node asks of a transport ---

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take bytes that the node sends."""
        if self.to_answer is not None and not self.written and not self.unanswered:
            self.to_answer.append(self)
        self.written.append(cast(bytes, data))

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Set the protocol that receives the data."""
        self._protocol = cast(asyncio.Protocol, protocol)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the client's address."""
        return ("127.0.0.1", self.number) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Ignore the limits: all is written at once."""

    def get_write_buffer_size(self) -> int:
        """Return 0: all was written."""
        return 0

    def is_closing(self) -> bool:
        """Return False: it is open."""
        return False

    def pause_reading(self) -> None:
        """Continue to send: no case publishes more than the node takes."""

    def resume_reading(self) -> None:
        """Do nothing: nothing was held back."""

    def close(self) -> None:
        """Fail: no case lets the node close a connection."""
        raise AssertionError(f"the node closed the connection of client {self.number}")

    write_eof = abort = close


@final
class Arrivals:
    """Clients that connect, ten in each round, and subscribe after CONNACK."""

    def __init__(self, node: Node, numbers: list[int], *, clean: bool) -> None:
        self.come: list[Client] = []
        self._node = node
        self._waiting = numbers[::-1]
        self._clean = clean

    async def warm_up(self) -> None:
        """Connect some clients that are not counted."""
        await self.run(WARM_UP)

    async def run(self, count: int) -> int:
        """Connect `count` clients, or all that there are; return how many. Asserts that each is answered."""
        before = len(self.come)
        while self._waiting and len(self.come) - before < count:
            newest = [self._waiting.pop() for _ in range(min(AT_ONCE, len(self._waiting)))]
            await self._round(newest)
        return len(self.come) - before

    async def _round(self, numbers: list[int]) -> None:
        loop = asyncio.get_running_loop()  # its callbacks are outside of tasks, as those of sockets are
        clients: list[Client] = []
        loop.call_soon(self._connect, numbers, clients)
        await asyncio.sleep(ANSWER_S)
        for answer in await _answers(clients):
            wire.check_connack(answer)
        loop.call_soon(_subscribe, clients)
        await asyncio.sleep(ANSWER_S)
        for answer in await _answers(clients):
            wire.check_suback(answer)
        self.come += clients

    def _connect(self, numbers: list[int], clients: list[Client]) -> None:
        clients += [Client(self._node, each, clean=self._clean) for each in numbers]


def _subscribe(clients: list[Client]) -> None:
    for client in clients:
        client.subscribe(TOPIC_OF_ALL, qos=0)


async def _answers(clients: list[Client]) -> list[bytes]:
    """Wait for all answers, and return them: a stored session takes a commit."""
    while not all(client.written for client in clients):
        await asyncio.sleep(ANSWER_S)
    return [client.taken() for client in clients]
