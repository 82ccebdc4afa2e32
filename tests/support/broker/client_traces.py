"""A trace of a username that a test reads as its clients come and go."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.operations.traces.tap import Tap
from sluicegate.gateway.views.clients.traces import TracedPacket
from support.broker.inside_client import until
from support.broker.running_broker import RunningBroker


class Following:
    """What a trace has shown so far."""

    def __init__(self, trace: AsyncIterator[TracedPacket]) -> None:
        self.packets: list[TracedPacket] = []
        self._trace = trace
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        async for packet in self._trace:
            self.packets.append(packet)

    def kinds(self) -> list[str]:
        return [each.kind for each in self.packets]

    async def until_kind(self, kind: str, count: int = 1) -> None:
        await until(lambda: self.kinds().count(kind) >= count, kind)

    async def end(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._trace.aclose()  # type: ignore[attr-defined]  # it is a generator


@asynccontextmanager
async def following(broker: RunningBroker, username: str) -> AsyncIterator[Following]:
    """Trace a username meanwhile. Nothing is left of the trace when it is over."""
    followed = Following(await NodeOperations(broker.node).trace_username(username, 10))
    await until(lambda: bool(broker.node.http.watchers), "the trace")
    try:
        yield followed
    finally:
        await followed.end()
    assert not any(server.watchers for server in broker.node.servers)
    connections = [each for server in broker.node.servers for each in server.open_connections()]
    assert not any(isinstance(each.stream, Tap) for each in connections)
