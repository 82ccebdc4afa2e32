"""`Broker` for tests that are coroutines: no method blocks the event loop that an application runs on as well."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from sluicegate.client import Message
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.testing.broker import WAIT_S, Broker
from sluicegate.testing.messages import QueueState, StoredMessage


class AsyncBroker:
    """A broker on free ports and an empty folder, for a test that is a coroutine.

    async with sluicegate.testing.AsyncBroker() as broker:
        await broker.create_queue("orders", subscriptions=["orders/>"])
    """

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        thread: bool = False,
        accounts: Mapping[str, str] | None = None,
        config_file: Path | str | None = None,
        login: tuple[str, str] | None = None,
    ) -> None:
        """As `Broker`."""
        self._broker = Broker(settings, thread=thread, accounts=accounts, config_file=config_file, login=login)

    @classmethod
    def of(cls, broker: Broker) -> Self:
        """Return the same broker for coroutines."""
        found = cls.__new__(cls)
        found._broker = broker
        return found

    @property
    def broker(self) -> Broker:
        """The same broker for other code: its addresses, and methods that block."""
        return self._broker

    # --- where it is ---

    @property
    def host(self) -> str:
        """As `Broker.host`."""
        return self._broker.host

    @property
    def urls(self) -> Mapping[str, str]:
        """As `Broker.urls`."""
        return self._broker.urls

    def url(self, name: str) -> str:
        """As `Broker.url`."""
        return self._broker.url(name)

    def port(self, name: str) -> int:
        """As `Broker.port`."""
        return self._broker.port(name)

    @property
    def mqtt_url(self) -> str:
        """As `Broker.mqtt_url`."""
        return self._broker.mqtt_url

    @property
    def mqtt_port(self) -> int:
        """As `Broker.mqtt_port`."""
        return self._broker.mqtt_port

    @property
    def mqtt_websocket_url(self) -> str:
        """As `Broker.mqtt_websocket_url`."""
        return self._broker.mqtt_websocket_url

    @property
    def amqp_url(self) -> str:
        """As `Broker.amqp_url`."""
        return self._broker.amqp_url

    @property
    def flow_url(self) -> str:
        """As `Broker.flow_url`."""
        return self._broker.flow_url

    @property
    def http_url(self) -> str:
        """As `Broker.http_url`."""
        return self._broker.http_url

    @property
    def admin_url(self) -> str:
        """As `Broker.admin_url`."""
        return self._broker.admin_url

    # --- start and end ---

    @property
    def is_running(self) -> bool:
        """As `Broker.is_running`."""
        return self._broker.is_running

    async def start(self) -> None:
        """As `Broker.start`."""
        await asyncio.to_thread(self._broker.start)

    async def stop(self) -> None:
        """As `Broker.stop`."""
        await asyncio.to_thread(self._broker.stop)

    async def restart(self) -> None:
        """As `Broker.restart`."""
        await asyncio.to_thread(self._broker.restart)

    async def crash(self) -> None:
        """As `Broker.crash`."""
        await asyncio.to_thread(self._broker.crash)

    async def close(self) -> None:
        """As `Broker.close`."""
        await asyncio.to_thread(self._broker.close)

    async def clear(self) -> None:
        """As `Broker.clear`."""
        await asyncio.to_thread(self._broker.clear)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- queues and messages ---

    async def create_queue(
        self,
        name: str,
        *,
        subscriptions: list[str] | tuple[str, ...] = (),
        durable: bool = True,
        vpn: str = DEFAULT_VPN,
        **attributes: object,
    ) -> None:
        """As `Broker.create_queue`."""
        await asyncio.to_thread(
            self._broker.create_queue, name, subscriptions=subscriptions, durable=durable, vpn=vpn, **attributes
        )

    async def collect(self, *topics: str, vpn: str = DEFAULT_VPN) -> str:
        """As `Broker.collect`."""
        return await asyncio.to_thread(self._broker.collect, *topics, vpn=vpn)

    async def delete_queue(self, name: str, *, vpn: str = DEFAULT_VPN) -> None:
        """As `Broker.delete_queue`."""
        await asyncio.to_thread(self._broker.delete_queue, name, vpn=vpn)

    async def queues(self, *, vpn: str = DEFAULT_VPN) -> list[str]:
        """As `Broker.queues`."""
        return await asyncio.to_thread(self._broker.queues, vpn=vpn)

    async def queue(self, name: str, *, vpn: str = DEFAULT_VPN) -> QueueState:
        """As `Broker.queue`."""
        return await asyncio.to_thread(self._broker.queue, name, vpn=vpn)

    async def publish(self, *messages: Message, vpn: str = DEFAULT_VPN) -> None:
        """As `Broker.publish`."""
        await asyncio.to_thread(self._broker.publish, *messages, vpn=vpn)

    async def browse(self, queue: str, *, selector: str = "", vpn: str = DEFAULT_VPN) -> list[StoredMessage]:
        """As `Broker.browse`."""
        return await asyncio.to_thread(self._broker.browse, queue, selector=selector, vpn=vpn)

    async def drain(self, queue: str, *, vpn: str = DEFAULT_VPN) -> list[StoredMessage]:
        """As `Broker.drain`."""
        return await asyncio.to_thread(self._broker.drain, queue, vpn=vpn)

    async def purge(self, queue: str, *, vpn: str = DEFAULT_VPN) -> int:
        """As `Broker.purge`."""
        return await asyncio.to_thread(self._broker.purge, queue, vpn=vpn)

    async def wait_for_messages(
        self, queue: str, count: int = 1, *, within_s: float = WAIT_S, vpn: str = DEFAULT_VPN
    ) -> QueueState:
        """As `Broker.wait_for_messages`."""
        return await asyncio.to_thread(self._broker.wait_for_messages, queue, count, within_s=within_s, vpn=vpn)

    async def wait_until_empty(self, queue: str, *, within_s: float = WAIT_S, vpn: str = DEFAULT_VPN) -> QueueState:
        """As `Broker.wait_until_empty`."""
        return await asyncio.to_thread(self._broker.wait_until_empty, queue, within_s=within_s, vpn=vpn)

    async def wait_for_consumers(
        self, queue: str, count: int = 1, *, within_s: float = WAIT_S, vpn: str = DEFAULT_VPN
    ) -> QueueState:
        """As `Broker.wait_for_consumers`."""
        return await asyncio.to_thread(self._broker.wait_for_consumers, queue, count, within_s=within_s, vpn=vpn)

    # --- clients, time, what it says ---

    async def clients(self, *, vpn: str = DEFAULT_VPN) -> list[str]:
        """As `Broker.clients`."""
        return await asyncio.to_thread(self._broker.clients, vpn=vpn)

    async def wait_for_client(self, name: str, *, within_s: float = WAIT_S, vpn: str = DEFAULT_VPN) -> None:
        """As `Broker.wait_for_client`."""
        await asyncio.to_thread(self._broker.wait_for_client, name, within_s=within_s, vpn=vpn)

    async def cut(self, client: str | None = None) -> int:
        """As `Broker.cut`."""
        return await asyncio.to_thread(self._broker.cut, client)

    @asynccontextmanager
    async def refusing(self) -> AsyncIterator[None]:
        """As `Broker.refusing`."""
        refusing = self._broker.refusing()
        await asyncio.to_thread(refusing.__enter__)
        try:
            yield
        finally:
            await asyncio.to_thread(refusing.__exit__, None, None, None)

    async def forward(self, seconds: float, *, keeps_clients: bool = True) -> None:
        """As `Broker.forward`."""
        await asyncio.to_thread(self._broker.forward, seconds, keeps_clients=keeps_clients)

    async def metric(self, name: str, **labels: str) -> float:
        """As `Broker.metric`."""
        return await asyncio.to_thread(self._broker.metric, name, **labels)

    def log(self) -> str:
        """As `Broker.log`."""
        return self._broker.log()
