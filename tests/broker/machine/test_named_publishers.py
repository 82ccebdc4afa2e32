"""Named publishers of the flow protocol at two brokers of one machine: each is known at the home of its name only."""

import asyncio
import random
import ssl

import pytest

from sluicegate import Client, Message
from sluicegate.gateway.node.siblings import Holdings
from sluicegate.gateway.operations.metrics import samples_of
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.clients.clients import ClientQuery
from sluicegate.messaging.clients.homes import home_of, publisher_key
from sluicegate.messaging.message.headers import Headers
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.compression import DEFLATE
from sluicegate.protocols.flow.codec.frame import PUBLISH, encode_frame
from sluicegate.protocols.flow.codec.frames.session import Error
from support.broker.linked_brokers import until
from support.broker.machine_brokers import MachineBrokers
from support.broker.named_queues import create, shows
from support.cores.client_rights import acl, rules
from support.flow.client import FlowClient, Refused
from support.network.certificates import Certificates

CONNECTIONS = ("sluicegate_connections", ("flow",))
ACCEPTING_AND_HOME = pytest.mark.parametrize(("accepting", "home"), [(1, 1), (1, 2), (2, 1)])


@pytest.fixture
def machine_settings(certificates: Certificates) -> tuple[str, ...]:
    return tuple(certificates.in_tls("listeners.flow_tls"))


def publisher_at(home: int, vpn: str = "default") -> str:
    """Return the name of a publisher that belongs to one of two brokers."""
    names = map("publisher-{}".format, range(100))
    return next(name for name in names if home_of(publisher_key(vpn, name), 2) == home)


async def holds(machine: MachineBrokers, count: int) -> None:
    """Wait until the queue has so many messages, and all that crosses the link has arrived."""
    async with FlowClient(machine[1].flow_port, name="last") as client:
        opened = await client.opens_publisher()
        client.publishes(opened.flow_id, [1], topic="t")
        assert await client.answered(opened.flow_id, 1) == []
    async with FlowClient(machine[2].flow_port, name="last") as client:
        opened = await client.opens_publisher()
        client.publishes(opened.flow_id, [1], topic="t")
        assert await client.answered(opened.flow_id, 1) == []
    view = await shows(machine[1], lambda view: view.ready_count >= count + 2)
    assert view.ready_count == count + 2


@ACCEPTING_AND_HOME
async def test_what_is_repeated_over_another_broker_is_stored_once(
    machine: MachineBrokers, accepting: int, home: int
) -> None:
    """Flow: publishing. The state of a named publisher is at one broker, whoever accepts its connections."""
    await create(machine[1], subscriptions=["t"])
    name = publisher_at(home)
    first = FlowClient(machine[accepting].flow_port)
    await first.open()
    opened = await first.opens_publisher(name)
    assert (opened.epoch, opened.stored_through) == (1, 0)
    first.publishes(opened.flow_id, [1, 2, 3])
    assert await first.answered(opened.flow_id, 3) == []
    first.cut()
    incarnation = opened.incarnation
    for epoch, broker in enumerate((3 - accepting, accepting), 2):
        async with FlowClient(machine[broker].flow_port) as client:
            opened = await client.opens_publisher(name)
            assert (opened.epoch, opened.stored_through, opened.incarnation) == (epoch, epoch + 1, incarnation)
            client.publishes(opened.flow_id, [epoch + 2])
            assert await client.answered(opened.flow_id, epoch + 2) == []
    await holds(machine, 5)


@ACCEPTING_AND_HOME
async def test_a_publisher_that_is_opened_over_another_broker_is_fenced(
    machine: MachineBrokers, accepting: int, home: int
) -> None:
    name = publisher_at(home)
    async with FlowClient(machine[accepting].flow_port) as first, FlowClient(machine[3 - accepting].flow_port) as other:
        opened = await first.opens_publisher(name)
        await other.opens_publisher(name)
        error = await first.heard(Error)
        assert (error.code, error.flow_id) == (codes.FENCED, opened.flow_id)
        first.publishes(opened.flow_id, [1])  # is disregarded, and the connection lives
        await first.opens_publisher()


async def test_one_connection_has_publishers_of_both_brokers(machine: MachineBrokers) -> None:
    await create(machine[1], subscriptions=["t"])
    async with FlowClient(machine[1].flow_port) as client:
        flows = [(await client.opens_publisher(name)).flow_id for name in ("", publisher_at(1), publisher_at(2))]
        for sequence in range(1, 101):
            for flow in flows:
                client.publishes(flow, [sequence])
        for flow in flows:
            assert await client.answered(flow, 100) == []
        for flow in flows:
            await client.closes_publisher(flow)
    await holds(machine, 300)
    await until(lambda: len(machine[2].node.flow.open_connections()) == 1, "the end of the relay")  # the link stays


@ACCEPTING_AND_HOME
async def test_messages_of_a_publisher_at_another_broker_are_counted_for_its_client(
    machine: MachineBrokers, accepting: int, home: int
) -> None:
    """Once in the metrics: the home has them in its own."""
    await create(machine[1])
    before = _messages_received(machine)
    async with FlowClient(machine[accepting].flow_port, name="till") as client:
        opened = await client.opens_publisher(publisher_at(home))
        client.publishes(opened.flow_id, [1, 2, 3], queue="q")
        assert await client.answered(opened.flow_id, 3) == []
        (shown,) = (await NodeOperations(machine[accepting].node).list_clients(ClientQuery(names=("till",)))).clients
        assert shown.messages_received == 3
        assert _messages_received(machine) - before == 3


def _messages_received(machine: MachineBrokers) -> int:
    """Return how many messages flow clients have published at both brokers."""
    return sum(machine[number].node.flow.counters.messages_received for number in (1, 2))


@pytest.mark.parametrize("features", [(), (DEFLATE,)])
async def test_large_and_compressed_messages_are_relayed_as_they_are(
    machine: MachineBrokers, features: tuple[str, ...]
) -> None:
    await create(machine[1], subscriptions=["t"])
    async with FlowClient(machine[1].flow_port, features=features) as client:
        opened = await client.opens_publisher(publisher_at(2))
        large = bytes(random.Random(1).choices(b"abcdefgh", k=1_000_000))  # zlib takes two thirds off
        client.publishes(opened.flow_id, [1], payload=large, headers=Headers(partition_key="k"))
        client.publishes(opened.flow_id, [2], payload=b"")
        assert await client.answered(opened.flow_id, 2) == []
        flow = await client.binds("q")
        delivered = await client.receives_in_all(2, flow)
        assert [each.payload for each in delivered] == [large, b""]
        assert delivered[0].headers is not None
        assert delivered[0].headers.partition_key == "k"


async def test_a_client_in_tls_reaches_the_home(machine: MachineBrokers, certificates: Certificates) -> None:
    port = machine[1].node.flow.listeners["flow_tls"].port
    tls = ssl.create_default_context(cafile=certificates.authority)
    for epoch in (1, 2):
        async with FlowClient(port, tls=tls) as client:
            assert (await client.opens_publisher(publisher_at(2))).epoch == epoch


async def test_the_home_refuses_single_messages_and_breaks_publishers(machine: MachineBrokers) -> None:
    await create(machine[1], "here", max_msg_size=10)
    async with FlowClient(machine[1].flow_port) as client:
        opened = await client.opens_publisher(publisher_at(2))
        client.publishes(opened.flow_id, [1], queue="nowhere")
        (refusal,) = await client.answered(opened.flow_id, 1)
        assert refusal.code == codes.QUEUE_NOT_FOUND
        client.publishes(opened.flow_id, [1])
        assert (await client.heard(Error)).code == codes.SEQUENCE_NOT_ASCENDING


async def test_a_malformed_message_ends_the_connection(machine: MachineBrokers) -> None:
    """The home decodes it."""
    async with FlowClient(machine[1].flow_port) as client:
        opened = await client.opens_publisher(publisher_at(2))
        client.send(encode_frame(PUBLISH, 0, opened.flow_id, b"", b"short"))
        assert (await client.heard(Error)).code == codes.MALFORMED
        await client.ended()


async def test_a_publisher_is_away_while_its_home_is(machine: MachineBrokers) -> None:
    name = publisher_at(2)
    async with FlowClient(machine[1].flow_port) as client:
        opened = await client.opens_publisher(name)
        client.publishes(opened.flow_id, [1, 2])
        assert await client.answered(opened.flow_id, 2) == []
        await machine[2].stop()
        error = await client.heard(Error)
        assert (error.code, error.flow_id, error.retry_after_ms) == (codes.DISABLED, opened.flow_id, 1000)
        with pytest.raises(Refused) as refused:
            await client.opens_publisher(name)
        assert (refused.value.error.code, refused.value.error.retry_after_ms) == (codes.DISABLED, 1000)
        await machine.start(machine[2])
        opened = await client.opens_publisher(name)
        assert (opened.epoch, opened.stored_through) == (2, 2)


async def test_a_publisher_waits_while_its_home_may_open_no_more_files(
    machine: MachineBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Publishers may not take the files of the spool."""
    async with FlowClient(machine[1].flow_port) as client:
        monkeypatch.setattr("sluicegate.gateway.node.servers.server.files_for_clients", lambda: 3)
        with pytest.raises(Refused) as refused:
            await client.opens_publisher(publisher_at(2))
        assert refused.value.error.retry_after_ms == 1000


async def test_a_publisher_stays_at_the_broker_that_has_it(machine: MachineBrokers) -> None:
    """It was opened when there was another number of brokers."""
    name = publisher_at(1)
    key = publisher_key("default", name)
    for broker in machine.all:
        broker.siblings.learn(2, Holdings({}, frozenset(), frozenset({key})))
    async with FlowClient(machine[1].flow_port) as client:
        opened = await client.opens_publisher(name)
        client.publishes(opened.flow_id, [1])
        assert await client.answered(opened.flow_id, 1) == []
    await machine[2].stop()
    await machine.start(machine[2])  # it tells what it has
    assert machine[1].siblings.publisher_homes.home_of(key) == 2
    async with FlowClient(machine[1].flow_port) as client:
        opened = await client.opens_publisher(name)
        assert (opened.epoch, opened.stored_through) == (2, 1)


async def test_a_client_counts_once_and_its_rights_hold_at_the_home(machine: MachineBrokers) -> None:
    async with FlowClient(machine[1].flow_port, name="orders-1") as client:
        opened = await client.opens_publisher(publisher_at(2))
        assert machine[1].node.default.clients.count == 1
        assert machine[2].node.default.clients.count == 0
        samples = [samples_of(broker.node, []) for broker in machine.all]
        counts = [each.value for some in samples for each in some if (each.name, each.labels) == CONNECTIONS]
        assert counts == [1, 0]
        for broker in machine.all:
            broker.node.default.clients.set_acl_profile("default", acl(publish=rules("other")))
        client.publishes(opened.flow_id, [1])
        (refusal,) = await client.answered(opened.flow_id, 1)
        assert refusal.code == codes.NOT_PERMITTED


async def test_a_client_sends_no_faster_than_the_home_reads(machine: MachineBrokers) -> None:
    await create(machine[1], subscriptions=["t"])
    async with FlowClient(machine[1].flow_port) as client:
        opened = await client.opens_publisher(publisher_at(2))
        (accepting,) = [each for each in machine[1].node.flow.open_connections() if each.relays is not None]
        (home,) = [each for each in machine[2].node.flow.open_connections() if each.client == "client"]
        home.read_control.busy(True)
        client.publishes(opened.flow_id, list(range(1, 201)), payload=bytes(50_000))
        await until(lambda: accepting.read_control.stopped, "a client that is not read from")
        assert client.transport.get_write_buffer_size() > 0
        home.read_control.busy(False)
        assert await client.answered(opened.flow_id, 200) == []
        assert not accepting.read_control.stopped


async def test_the_client_library_goes_on_when_the_home_is_back(machine: MachineBrokers) -> None:
    """It opens the publisher again over the connection that it has, and repeats what has no answer."""
    await create(machine[1], subscriptions=["t"])
    url = f"flow://127.0.0.1:{machine[1].flow_port}"
    async with Client(url) as client, client.publisher(publisher_at(2)) as publisher:
        for number in range(20):
            await publisher.publish(Message(b"%d" % number, topic="t"))
        await machine[2].stop()
        waiting = [asyncio.create_task(publisher.publish(Message(b"%d" % number, topic="t"))) for number in range(20)]
        await machine.start(machine[2])
        await asyncio.gather(*waiting)
    await holds(machine, 40)
