"""Settings of the stream that somebody changes while a broker uses it."""

from contextlib import AsyncExitStack
from typing import Any

import pytest

from sluicegate.gateway.cluster.log.servers import Servers
from sluicegate.gateway.cluster.log.settings_watch import SettingsWatch
from sluicegate.gateway.cluster.log.spool import TimedStream
from sluicegate.gateway.config.sections.cluster import Cluster
from sluicegate.storage.replication.jetstream import JetStream, stream_name
from sluicegate.storage.replication.messages import Begin
from sluicegate.storage.replication.replica import Append
from sluicegate.storage.replication.requests import Requests
from sluicegate.storage.replication.stream import StreamUnavailable
from support.processes.nats import NatsCluster
from support.processes.nats_streams import NAMES, stored
from support.storage.answers import answered

LOG_BYTES = 64 << 20


class Watched:
    """A stream that an owner appends to, with the watch on its settings."""

    def __init__(self, cluster: NatsCluster, broker: str) -> None:
        self._settings = Cluster(servers=tuple(cluster.urls), replica="a", replicas=("a", "b"), log_bytes_max=LOG_BYTES)
        self.broker = broker
        self.servers = Servers(broker, self._settings)
        self.said: list[str] = []

    async def open(self) -> None:
        await self.servers.connect()
        await self.servers.prepare_bucket()
        begin = await self.servers.prepare(7)
        assert begin == Begin(7, self.broker)
        self.stream = TimedStream(
            JetStream(self.servers.client, self.broker), appended=lambda sent_s: None, is_waiting=lambda: False
        )
        self.watch = SettingsWatch(self.servers, self._settings.copies, self.said.append)

    async def look(self) -> str:
        """Look at the settings; return why nothing may be appended, empty if it may."""
        await answered(self.watch.look)
        self.stream.held_back = self.watch.held_back
        return self.watch.held_back

    async def edit(self, **settings: Any) -> None:
        """Change settings of the stream, as `nats stream edit` does."""
        name = stream_name(self.broker)
        requests = Requests(self.servers.client, name, answer_s=20.0)
        config = (await answered(lambda: requests.ask(f"STREAM.INFO.{name}")))["config"]
        await answered(lambda: requests.ask(f"STREAM.UPDATE.{name}", config | settings))


@pytest.mark.parametrize(
    ("setting", "value"), [("max_age", 600_000_000_000), ("discard", "old"), ("max_msgs", 1000), ("num_replicas", 1)]
)
async def test_nothing_is_appended_while_the_stream_could_lose_it(
    servers: NatsCluster, setting: str, value: object
) -> None:
    async with AsyncExitStack() as undo:
        watched = Watched(servers, f"watched{next(NAMES)}")
        await watched.open()
        undo.push_async_callback(watched.servers.close)
        assert await watched.look() == ""
        usual = {"max_age": 0, "discard": "new", "max_msgs": -1, "num_replicas": 3}[setting]
        await watched.edit(**{setting: value})
        assert f"{setting}: {value!r}" in await watched.look()
        with pytest.raises(StreamUnavailable, match=setting):
            await watched.stream.append(Append(1, b"a record"))
        await watched.edit(**{setting: usual})
        assert await watched.look() == ""
        assert await stored(watched.stream, Append(1, b"a record")) == 2


async def test_the_stream_is_looked_at_also_when_the_object_store_is_gone(servers: NatsCluster) -> None:
    async with AsyncExitStack() as undo:
        watched = Watched(servers, f"watched{next(NAMES)}")
        await watched.open()
        undo.push_async_callback(watched.servers.close)
        name = f"OBJ_{stream_name(watched.broker)}"
        requests = Requests(watched.servers.client, name, answer_s=20.0)
        await answered(lambda: requests.ask(f"STREAM.DELETE.{name}"))
        await watched.edit(discard="old")
        assert "discard" in await watched.look()
        assert "not found" in watched.said[-1]
        await watched.edit(discard="new")
        assert await watched.look() == ""


async def test_a_larger_stream_than_was_asked_for_is_reported_and_used(servers: NatsCluster) -> None:
    async with AsyncExitStack() as undo:
        watched = Watched(servers, f"watched{next(NAMES)}")
        await watched.open()
        undo.push_async_callback(watched.servers.close)
        await watched.edit(max_bytes=2 * LOG_BYTES)
        assert await watched.look() == ""
        assert await watched.look() == ""
        (said,) = watched.said
        assert f"max_bytes: {2 * LOG_BYTES}" in said


async def test_a_stream_that_is_gone_is_reported(servers: NatsCluster) -> None:
    async with AsyncExitStack() as undo:
        watched = Watched(servers, f"watched{next(NAMES)}")
        await watched.open()
        undo.push_async_callback(watched.servers.close)
        requests = Requests(watched.servers.client, stream_name(watched.broker), answer_s=20.0)
        await answered(lambda: requests.ask(f"STREAM.DELETE.{stream_name(watched.broker)}"))
        assert await watched.look() == ""
        assert "not found" in watched.said[-1]
