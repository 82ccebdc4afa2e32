"""Virtual topics in a network: each consumer queue gets a message once, at whichever broker it is."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluicegate.actors.messages.directory import DeleteQueue
from sluicegate.gateway.config.load import load
from support.broker.linked_brokers import Brokers, LinkedBroker, until
from support.broker.named_queues import create, shown

VIRTUAL = 'virtual_destinations.virtual_topics=[{"name": "VirtualTopic.>"%s}]'
DEFINED = VIRTUAL % ""
LOCAL = VIRTUAL % ', "local": true'


async def linked(brokers: Brokers, *settings: str, b: tuple[str, ...] = ()) -> None:
    await brokers.pair(a=settings, b=b or settings)
    await brokers.are_linked()


async def published(broker: LinkedBroker, topic: str, count: int, *, qos: int = 1) -> None:
    publisher = await broker.connect(level=5)
    for number in range(count):
        await publisher.publish(topic, b"%d" % number, qos=qos)


async def waits(broker: LinkedBroker, queue: str, count: int) -> None:
    """Wait until so many messages are in a queue, and until no more come."""
    async with asyncio.timeout(20):
        while (await shown(broker, queue)).ready_count < count:
            await asyncio.sleep(0.01)
    assert (await shown(broker, queue)).ready_count == count


@pytest.fixture
def brokers(runner: asyncio.Runner, tmp_path: Path) -> Iterator[Brokers]:
    found = Brokers(tmp_path)
    yield found
    runner.run(found.__aexit__(None, None, None))


@pytest.mark.parametrize("topic", ["VirtualTopic.t", "VirtualTopic/t"])
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_consumer_queues_at_both_brokers_get_each_message_once(brokers: Brokers, topic: str, qos: int) -> None:
    await linked(brokers, DEFINED)
    await create(brokers["a"], "Consumer.a.VirtualTopic.t")
    await create(brokers["b"], "Consumer.b.VirtualTopic.t")
    await create(brokers["b"], "Consumer.all.VirtualTopic.>")
    await until(lambda: topic in brokers["a"].wants("b"))

    await published(brokers["a"], topic, 5, qos=qos)

    await waits(brokers["a"], "Consumer.a.VirtualTopic.t", 5)
    await waits(brokers["b"], "Consumer.b.VirtualTopic.t", 5)
    await waits(brokers["b"], "Consumer.all.VirtualTopic.>", 5)


async def test_a_subscriber_of_the_topic_beside_the_queue_doubles_nothing(brokers: Brokers) -> None:
    """With bridges between ActiveMQ brokers the queue would get two."""
    await linked(brokers, DEFINED)
    await create(brokers["a"], "Consumer.a.VirtualTopic.t")
    await create(brokers["b"], "Consumer.b.VirtualTopic.t")
    subscriber = await brokers["b"].connect("subscriber", 5)
    await subscriber.subscribe("VirtualTopic.t", qos=1)
    await until(lambda: "VirtualTopic.t" in brokers["a"].wants("b"))

    await published(brokers["a"], "VirtualTopic.t", 3)

    assert await subscriber.payloads(3) == [b"0", b"1", b"2"]
    await waits(brokers["b"], "Consumer.b.VirtualTopic.t", 3)
    await waits(brokers["a"], "Consumer.a.VirtualTopic.t", 3)


async def test_queues_of_a_local_virtual_topic_get_what_is_published_at_their_broker(brokers: Brokers) -> None:
    await linked(brokers, LOCAL)
    await create(brokers["a"], "Consumer.a.VirtualTopic.t")
    await create(brokers["b"], "Consumer.b.VirtualTopic.t")
    subscriber = await brokers["b"].connect("subscriber", 5)
    await subscriber.subscribe("VirtualTopic.#", "VirtualTopic.t", qos=1)
    await until(lambda: "VirtualTopic.t" in brokers["a"].wants("b"))

    await published(brokers["a"], "VirtualTopic.t", 2)
    assert await subscriber.payloads(2) == [b"0", b"1"]
    await published(brokers["b"], "VirtualTopic.t", 3)

    await waits(brokers["b"], "Consumer.b.VirtualTopic.t", 3)
    await waits(brokers["a"], "Consumer.a.VirtualTopic.t", 2)


async def test_a_changed_definition_changes_what_the_neighbor_sends(brokers: Brokers) -> None:
    await linked(brokers, LOCAL)
    await create(brokers["b"], "Consumer.b.VirtualTopic.t")
    b = brokers["b"]
    assert brokers["a"].wants("b") == set()
    await b.node.reload(load(settings=[DEFINED if each == LOCAL else each for each in b.settings]))
    await until(lambda: brokers["a"].wants("b") == {"VirtualTopic.t", "VirtualTopic/t"})
    await b.node.reload(load(settings=b.settings))
    await until(lambda: brokers["a"].wants("b") == set())


async def test_a_queue_that_is_deleted_or_not_exported_is_sent_nothing(brokers: Brokers) -> None:
    kept_back = ('links.a.export_exclude_queues=["Consumer.x.VirtualTopic.x"]',)
    await linked(brokers, DEFINED, b=(DEFINED, *kept_back))
    await create(brokers["b"], "Consumer.x.VirtualTopic.x")
    await create(brokers["b"], "Consumer.b.VirtualTopic.t")
    await until(lambda: brokers["a"].wants("b") == {"VirtualTopic.t", "VirtualTopic/t"})
    await brokers["b"].node.default.queues.ask(DeleteQueue("Consumer.b.VirtualTopic.t"))
    await until(lambda: brokers["a"].wants("b") == set())


async def test_messages_for_a_queue_of_a_neighbor_that_is_away_wait_for_it(brokers: Brokers) -> None:
    await linked(brokers, DEFINED)
    await create(brokers["b"], "Consumer.b.VirtualTopic.t")
    await until(lambda: "VirtualTopic.t" in brokers["a"].wants("b"))
    await brokers["b"].stop()
    await published(brokers["a"], "VirtualTopic.t", 4)
    await brokers["b"].start()
    brokers.proxies["a", "b"].target_port = brokers["b"].flow_port
    await waits(brokers["b"], "Consumer.b.VirtualTopic.t", 4)
