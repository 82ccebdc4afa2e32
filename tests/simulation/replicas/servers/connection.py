"""A connection of one process to the servers, with those methods of the client library that the product uses."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, cast

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from simulation.replicas.servers.servers import Request, Servers

Callback = Callable[[Msg], Awaitable[None]]


class Version(NamedTuple):
    """Of the server at the other end."""

    major: int = 2
    minor: int = 14
    patch: int = 0


class Subscription:
    """What came for one subject, in order."""

    def __init__(self, connection: "Connection", subject: str, callback: Callback) -> None:
        self.subject: Final = subject
        self._connection: Final = connection
        self._came: asyncio.Queue[Msg] = asyncio.Queue()
        self._task: Final = asyncio.create_task(self._call(callback))

    def put(self, message: Msg) -> None:
        """Take what came."""
        self._came.put_nowait(message)

    async def unsubscribe(self) -> None:
        """Get no more."""
        self._connection.forget(self)
        self._task.cancel()

    async def _call(self, callback: Callback) -> None:
        while True:
            await callback(await self._came.get())


class Connection:
    """One connection. It belongs to the loop on which it was made."""

    connected_server_version: Final = Version()
    connected_url: Final = None

    def __init__(self, servers: Servers, machine: str, number: int) -> None:
        self.machine: Final = machine
        self._servers: Final = servers
        self._loop: Final = asyncio.get_running_loop()
        self._prefix: Final = f"_INBOX.{number}"
        self._count = 0
        self._subscriptions: list[Subscription] = []
        self._asked: Final[dict[str, asyncio.Future[Msg]]] = {}
        self.is_closed = False

    def new_inbox(self) -> str:
        """Return a subject that nobody has."""
        self._count += 1
        return f"{self._prefix}.{self._count}"

    async def request(
        self, subject: str, payload: bytes = b"", timeout: float = 0.5, headers: dict[str, str] | None = None
    ) -> Msg:
        """Send a request; return its answer. Raises nats.errors.TimeoutError."""
        self._check()
        inbox = self.new_inbox()
        answered: asyncio.Future[Msg] = self._loop.create_future()
        self._asked[inbox] = answered
        self._servers.subscribe(inbox, self)
        try:
            self._servers.send(Request(self, subject, payload, inbox, headers or {}))
            async with asyncio.timeout(timeout):
                return await answered
        except TimeoutError:
            raise nats.errors.TimeoutError from None
        finally:
            self._servers.unsubscribe(inbox, self)
            del self._asked[inbox]

    async def publish(
        self, subject: str, payload: bytes = b"", reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        """Send a message."""
        self._check()
        self._servers.send(Request(self, subject, payload, reply, headers or {}))

    async def subscribe(self, subject: str, cb: Callback, **_: Any) -> Subscription:
        """Get the messages of a subject."""
        self._check()
        made = Subscription(self, subject, cb)
        self._subscriptions.append(made)
        self._servers.subscribe(subject, self)
        return made

    def forget(self, subscription: Subscription) -> None:
        """End a subscription."""
        self._subscriptions = [each for each in self._subscriptions if each is not subscription]
        self._servers.unsubscribe(subscription.subject, self)

    async def close(self) -> None:
        """Close the connection."""
        self.die()

    def die(self) -> None:
        """Be gone, with the process."""
        self.is_closed = True
        self._servers.gone(self)

    def arrived(self, subject: str, data: bytes, reply: str, headers: dict[str, str] | None) -> None:
        """Take a message, when the process has a turn."""
        self._loop.call_soon_threadsafe(self._take, Msg(cast(Client, self), subject, reply, data, headers))

    def _take(self, message: Msg) -> None:
        answered = self._asked.get(message.subject)
        if answered is not None and not answered.done():
            answered.set_result(message)
        for each in self._subscriptions:
            if each.subject == message.subject:
                each.put(message)

    def _check(self) -> None:
        if self.is_closed:
            raise nats.errors.ConnectionClosedError
