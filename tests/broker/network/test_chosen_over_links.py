"""Guaranteed messages for one receiver of the network: the choice is stored with the message, and made once."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from support.broker.linked_brokers import Brokers, until
from support.mqtt.raw_client import RawClient

TO_ONE = mqtt.user_property("deliver-to-one", "true")


@pytest.fixture
def network(runner: asyncio.Runner, tmp_path: Path) -> Iterator[Brokers]:
    """Brokers b and c, and a that connects to both through proxies."""
    brokers = Brokers(tmp_path)

    async def start() -> None:
        await brokers.__aenter__()
        dead = "dead_time_ms=60000"
        links = []
        for name in "bc":
            await brokers.add(name, "links.a.url=", f"links.a.{dead}")
            proxy = await brokers.proxy("a", name)
            links += [f"links.{name}.url=flow://127.0.0.1:{proxy.port}", f"links.{name}.{dead}"]
        await brokers.add("a", *links)
        await brokers.are_linked("a", "b")
        await brokers.are_linked("a", "c")

    runner.run(start())
    yield brokers
    runner.run(brokers.__aexit__(None, None, None))


async def member(network: Brokers, at: str, topic_filter: str = "$share/crew/t", *, qos: int = 1) -> RawClient:
    client = await network[at].connect(f"{at} member", 5)
    await client.subscribe(topic_filter, qos=qos)
    return client


async def hold(network: Brokers) -> None:
    """Let nothing cross any more, and tell nobody."""
    for name in "bc":
        (await network.proxy("a", name)).freeze()


async def go_on(network: Brokers) -> None:
    """Cut what was held, and link the brokers again."""
    for name in "bc":
        proxy = await network.proxy("a", name)
        proxy.cut()
        proxy.heal()
    await network.are_linked("a", "b")
    await network.are_linked("a", "c")


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def backlog(network: Brokers) -> int:
    links = [network["a"].neighbor(name).vpns[0] for name in "bc"]
    return sum([int(each.queue_sender.queue.target.gate.usage_count) for each in links])


async def drained(network: Brokers) -> None:
    await until(lambda: backlog(network) == 0, "all are answered")


@pytest.mark.parametrize("crashes", [False, True], ids=["cut", "crash"])
async def test_members_elsewhere_get_each_message_once_whatever_breaks(network: Brokers, *, crashes: bool) -> None:
    members = [await member(network, name) for name in "bc"]
    await hold(network)
    publisher = await network["a"].connect("publisher")
    for payload in numbers(10):
        assert await publisher.publish("t", payload) == 0
    assert backlog(network) == 10, "one neighbor is chosen for each"
    if crashes:
        await network["a"].crash()
    await go_on(network)
    got = [await each.payloads(5) for each in members]
    assert [sorted(each, key=int) for each in got] == got, "in the order published"
    assert sorted(got[0] + got[1], key=int) == numbers(10)
    await drained(network)
    for each in members:
        await each.is_quiet()
    assert network["a"].node.default.space.sent_at_most_once_count == 0


async def test_a_member_that_is_away_at_its_broker_gets_it_later(network: Brokers) -> None:
    """The neighbor stores it in the queue of the group: there is no other member that could have it."""
    session = await network["b"].connect_durable("session")
    await session.subscribe("$share/crew/t", qos=1)
    await hold(network)
    publisher = await network["a"].connect("publisher")
    await publisher.publish("t", b"kept")
    await session.leave()
    await go_on(network)
    await drained(network)
    back = await network["b"].connect_durable("session")
    assert await back.payloads(1) == [b"kept"]


async def test_a_broker_restores_the_choice_of_deliver_to_one(network: Brokers) -> None:
    takers: list[RawClient] = []
    for name in "bc":
        client = await network[name].connect(f"{name} taker", 5)
        await client.subscribe("jobs", properties=mqtt.user_property("dto-priority", "P2"))
        takers.append(client)
    await hold(network)
    publisher = await network["a"].connect("publisher", 5)
    for payload in numbers(6):
        assert await publisher.publish("jobs", payload, properties=TO_ONE) == 0
    await network["a"].crash()
    await go_on(network)
    got = [await each.payloads(3) for each in takers]
    assert sorted(got[0] + got[1]) == numbers(6)
    await drained(network)
    for each in takers:
        await each.is_quiet()


async def test_a_choice_and_the_subscribers_of_one_neighbor_cross_together(network: Brokers) -> None:
    crew = await member(network, "b")
    other = await network["b"].connect("other")
    await other.subscribe("t", qos=1)
    publisher = await network["a"].connect("publisher")
    for payload in numbers(5):
        await publisher.publish("t", payload)
    assert await crew.payloads(5) == numbers(5)
    assert await other.payloads(5) == numbers(5)
    await drained(network)
    assert network["b"].neighbor("a").vpns[0].arrivals.received_count == 5
    await crew.is_quiet()
    await other.is_quiet()
