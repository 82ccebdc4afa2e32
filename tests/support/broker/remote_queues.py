"""A queue q of broker b, for consumers of broker a."""

from support.broker.linked_brokers import Brokers, until
from support.broker.named_queues import create, shows
from support.flow.client import FlowClient
from support.mqtt.raw_client import RawClient


async def queue_at_b(network: Brokers, **attributes: object) -> None:
    await create(network["b"], "q", **attributes)
    await until(lambda: network["a"].node.default.space.queue_home("q") is not None, "a knows q")


async def publish(network: Brokers, numbers: range, *, at: str = "b", key: bool = False) -> None:
    """Publish messages whose payloads are their numbers to q."""
    async with FlowClient(network[at].flow_port) as client:
        opened = await client.opens_publisher()
        for sequence, number in enumerate(numbers, 1):
            client.publishes(opened.flow_id, [sequence], queue="q", payload=b"%d" % number)
        assert await client.answered(opened.flow_id, len(numbers)) == []


async def consumer(network: Brokers, name: str = "consumer", *, at: str = "a") -> RawClient:
    """Return an MQTT client that consumes q."""
    client = await network[at].connect(name, 5)
    assert await client.subscribe(("$queue/q", 1)) == [1]
    return client


async def cut(network: Brokers) -> None:
    (await network.proxy("a", "b")).cut()
    await until(lambda: not network["a"].neighbor("b").is_up, "the link is down at a")
    await until(lambda: not network["b"].neighbor("a").is_up, "the link is down at b")


async def heal(network: Brokers) -> None:
    (await network.proxy("a", "b")).heal()
    await network.are_linked()


def payloads(numbers: range) -> list[bytes]:
    return [b"%d" % number for number in numbers]


async def is_empty(network: Brokers) -> None:
    await shows(network["b"], lambda view: view.spooled_count == 0)
