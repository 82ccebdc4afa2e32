"""What publishers, consumers, browsers and readers have in common on asyncio: opened, waiting for news, and closed."""

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Self

from sluicegate.protocols.flow.client.aio.waiting import WaitingLine
from sluicegate.protocols.flow.client.errors import ClientClosed
from sluicegate.protocols.flow.client.session.flow import ENDED, ClientFlow

if TYPE_CHECKING:
    from sluicegate.protocols.flow.client.aio.client import Client


class FlowOwner:
    """Has one flow of a client, within `async with`."""

    def __init__(self, client: "Client", flow: ClientFlow) -> None:
        self._client = client
        self._flow = flow
        self._changed = WaitingLine()

    async def __aenter__(self) -> Self:
        """Open it. Raises RequestRefused, or what the client ended with."""
        self._client.add(self._flow, self)
        try:
            while not self._flow.was_open:
                self._flow.check_running()
                await self._changed.wait()
        except BaseException:
            self._client.remove(self._flow)
            self._client.forget(self._flow)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        await self.close()

    async def close(self) -> None:
        """Close it, which takes `close_timeout_s` at most. What was not answered or settled then is left open."""
        flow = self._flow
        if flow.phase != ENDED:
            self._client.remove(flow)
            try:
                async with asyncio.timeout(self._client.close_timeout_s):
                    while flow.phase != ENDED:
                        await self._changed.wait()
            except TimeoutError:
                flow.end(ClientClosed("it was closed"))
            finally:
                self.on_news()
        self._client.forget(flow)

    def on_news(self) -> None:
        """Wake those who wait for what the gateway has said."""
        self._changed.wake_all()
