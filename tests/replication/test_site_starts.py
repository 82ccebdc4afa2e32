"""A replica of a standby site starts: what it does with a stream that an earlier process has made and not filled."""

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from sluicegate.gateway.cluster.sites.replication import SiteReplication
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.config.sections.cluster import Cluster, Replication
from sluicegate.gateway.config.sections.node import Data, Node
from sluicegate.storage.replication.jetstream import JetStream, connected
from sluicegate.storage.replication.sites.keys import SiteKeys
from sluicegate.storage.replication.sites.states import first_state, serving
from support.processes.nats import NatsCluster
from support.processes.nats_streams import until_bucket_created, until_created
from support.storage.answers import answered
from support.storage.trimmed import TrimmedBroker, trimmed_broker

BYTES_MAX = 64 << 20
WITHIN_S = 60


@pytest.fixture(scope="module")
def london(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCluster]:
    """The servers of the standby site."""
    with NatsCluster(tmp_path_factory.mktemp("london")) as cluster:
        yield cluster


class Starting:
    """A process of a replica at the standby site, as far as it concerns the sites."""

    def __init__(self, broker: TrimmedBroker, own: NatsCluster, mate: NatsCluster, folder: Path) -> None:
        replication = Replication(site="london", mate="paris", mate_servers=tuple(mate.urls), role="standby")
        cluster = Cluster(
            servers=tuple(own.urls), replica="a", replicas=("a",), replication=replication, log_bytes_max=BYTES_MAX
        )
        self.changed = asyncio.Event()
        self.ended: list[tuple[str, BaseException]] = []
        self.sites = SiteReplication(
            Config(node=Node(name=broker.name), data=Data(path=folder), cluster=cluster),
            changed=self.changed.set,
            handed=lambda: (None, 0),
            owner_rows=list,
            task_ended=lambda name, error: self.ended.append((name, error)),
        )

    async def opened(self) -> None:
        async with asyncio.timeout(WITHIN_S):
            await self.sites.open()


async def test_a_replica_begins_anew_when_the_log_was_trimmed_past_a_stream_that_has_nothing(
    servers: NatsCluster, london: NatsCluster, tmp_path: Path
) -> None:
    client = await connected(london.urls, WITHIN_S)
    async with trimmed_broker(servers, tmp_path) as broker:
        active = serving(first_state("paris", is_active=True), 1)
        await answered(partial(SiteKeys(broker.client, broker.name).put, active, 0))
        await until_created(JetStream(client, broker.name), BYTES_MAX)  # and the process died
        await until_bucket_created(client)
        for _ in range(2):
            await broker.commits()
            await broker.snapshot()
        assert await broker.trim() > 1

        first = Starting(broker, london, servers, tmp_path / "a")
        await first.opened()
        await first.changed.wait()
        assert (first.sites.generation, first.sites.state.generation) == (0, 1)  # so the process is replaced
        assert first.ended == []
        await first.sites.close()

        second = Starting(broker, london, servers, tmp_path / "a")
        await second.opened()
        assert second.sites.generation == 1
        theirs = await answered(broker.stream.bounds)
        assert (await answered(JetStream(client, broker.name, 1).bounds)).last == theirs.last
        assert second.ended == []
        await second.sites.close()
    await client.close()
