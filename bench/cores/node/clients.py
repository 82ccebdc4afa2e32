"""MQTT clients of a node that is in this process: they come by its listener, without a socket."""

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
        """Have the node read something."""
        assert self._protocol is not None
        self._protocol.data_received(data)

    def subscribe(self, topic_filter: str, qos: int) -> None:
        """Ask for a subscription."""
        self.send(wire.subscribe(topic_filter, qos=qos, version=self.version))

    def leave(self) -> None:
        """Be gone, without a word."""
        assert self._protocol is not None
        self._protocol.connection_lost(None)
        self._protocol = None

    def taken(self) -> bytes:
        """Return what the node has sent since the last call."""
        data = b"".join(self.written)
        self.written.clear()
        return data

    # --- what the node asks of a transport ---

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take what the node sends."""
        if self.to_answer is not None and not self.written and not self.unanswered:
            self.to_answer.append(self)
        self.written.append(cast(bytes, data))

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Be read by this one."""
        self._protocol = cast(asyncio.Protocol, protocol)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the client's address."""
        return ("127.0.0.1", self.number) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Have none: all is taken at once."""

    def get_write_buffer_size(self) -> int:
        """Return that all was taken."""
        return 0

    def is_closing(self) -> bool:
        """Return that it is open."""
        return False

    def pause_reading(self) -> None:
        """Send on: no case publishes more than is taken."""

    def resume_reading(self) -> None:
        """Nothing was held back."""

    def close(self) -> None:
        """The node closes the connection, which no case asks for."""
        raise AssertionError(f"the node closed the connection of client {self.number}")

    write_eof = abort = close


@final
class Arrivals:
    """Clients that come, ten in each round, and subscribe once they are let in."""

    def __init__(self, node: Node, numbers: list[int], *, clean: bool) -> None:
        self.come: list[Client] = []
        self._node = node
        self._waiting = numbers[::-1]
        self._clean = clean

    async def warm_up(self) -> None:
        """Have some come that are not counted."""
        await self.run(WARM_UP)

    async def run(self, count: int) -> int:
        """Have so many come, or as many as there are; return how many. Asserts that each is answered."""
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
    """Return what each is sent, once all have heard: what is stored for a kept session takes a commit."""
    while not all(client.written for client in clients):
        await asyncio.sleep(ANSWER_S)
    return [client.taken() for client in clients]
