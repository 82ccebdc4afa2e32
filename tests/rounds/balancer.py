"""An address that follows the owner: what asks `/health/active` of each replica, and passes connections on to it.

Clients of a replicated broker have a list of addresses, or such an address. Connections to a replica that is not the
owner any more are closed, as load balancers can be told to do.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from support.network.proxy_thread import ProxyThread, carry, listening, until_one_ends
from support.processes.gateway import LOOPBACK

LOOK_S: Final = 0.1  # between two looks at a replica
ANSWER_S: Final = 0.5


class Target(NamedTuple):
    """A replica as a balancer knows it."""

    name: str
    host: str
    health_port: int
    ports: dict[str, int]  # by protocol


class Balancer(ProxyThread):
    """Listens on a port for each protocol."""

    def __init__(self, targets: Sequence[Target]) -> None:
        super().__init__()
        self.ports: dict[str, int] = {}  # by protocol
        self.active = ""  # name of the replica that is the owner, as it is known here; empty: none
        self._targets = targets
        self._ways: dict[asyncio.Task[None], str] = {}  # each connection, and the replica that has it
        self._looking: list[asyncio.Task[None]] = []

    # --- in the thread ---

    async def _listen(self) -> Sequence[asyncio.Server]:
        servers = []
        for protocol in self._targets[0].ports:
            server, self.ports[protocol] = await listening(LOOPBACK, partial(self._pass, protocol))
            servers.append(server)
        self._looking = [asyncio.create_task(self._look(target)) for target in self._targets]
        return servers

    async def _look(self, target: Target) -> None:
        while True:
            is_active = await self._is_active(target)
            if is_active and self.active != target.name:
                self._change(target.name)
            elif not is_active and self.active == target.name:
                self._change("")
            await asyncio.sleep(LOOK_S)

    def _change(self, name: str) -> None:
        self.active = name
        for task, has in list(self._ways.items()):
            if has != name:
                task.cancel()

    async def _is_active(self, target: Target) -> bool:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(ANSWER_S):
                reader, writer = await asyncio.open_connection(target.host, target.health_port)
                try:
                    writer.write(b"GET /health/active HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    return b" 200 " in await reader.readline()
                finally:
                    writer.transport.abort()
        return False

    async def _pass(self, protocol: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        target = next((each for each in self._targets if each.name == self.active), None)
        if target is None:
            writer.transport.abort()
            return
        self._ways[task] = target.name
        try:
            with suppress(OSError, TimeoutError, asyncio.CancelledError):
                async with asyncio.timeout(ANSWER_S):
                    there, to_there = await asyncio.open_connection(target.host, target.ports[protocol])
                try:
                    await until_one_ends(carry(reader, to_there), carry(there, writer))
                finally:
                    to_there.transport.abort()
        finally:
            del self._ways[task]
            writer.transport.abort()
