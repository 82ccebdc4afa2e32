"""Guaranteed messages are stored for a neighbor at every moment: while clients leave, and while brokers stop."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.operations.node import NodeOperations
from support.broker.linked_brokers import Brokers, LinkedBroker, until
from support.broker.named_queues import create, shown, shows
from support.mqtt.raw_client import RawClient

AN_HOUR = b"\x11\x00\x00\x0e\x10"  # the property: session expiry
AT_ONCE = 20  # messages under way
FILTERS = [f"device/{number}/state" for number in range(900)]  # a change of all does not fit into one notice


@pytest.fixture
def brokers(runner: asyncio.Runner, tmp_path: Path) -> Iterator[Brokers]:
    found = Brokers(tmp_path)
    yield found
    runner.run(found.__aexit__(None, None, None))


class Load:
    """A client that publishes to the filters in turn, and notes what was confirmed."""

    def __init__(self, client: RawClient, topics: list[str]) -> None:
        self.confirmed: set[bytes] = set()
        self._client = client
        self._topics = topics
        self._goes_on = True
        self._task = asyncio.ensure_future(self._publish())

    async def ends(self) -> None:
        """Stop after what is under way; the broker may be gone."""
        self._goes_on = False
        with suppress(Exception):
            await asyncio.wait_for(self._task, 5)

    async def _publish(self) -> None:
        number = 0
        while self._goes_on:
            sent: dict[int, bytes] = {}
            for _ in range(AT_ONCE):
                packet_id, payload = self._client.next_packet_id(), b"%d" % number
                sent[packet_id] = payload
                topic = self._topics[number % len(self._topics)]
                self._client.send(mqtt.publish(topic, payload, qos=1, packet_id=packet_id, level=5))
                number += 1
            for _ in sent:
                answer = await self._client.awaited(mqtt.PUBACK)
                self.confirmed.add(sent[mqtt.packet_id_of(answer)])
            await asyncio.sleep(0)


async def is_drained(broker: LinkedBroker) -> None:
    """Wait until the neighbor has all."""
    await shows(broker, lambda view: view.spooled_count == 0, "#link/b")


async def reload(broker: LinkedBroker, *settings: str) -> None:
    broker.settings = (*broker.settings, *settings)
    broker.reads_settings()
    await broker.node.reload(broker.config)


@pytest.mark.parametrize("is_cut", [False, True])
async def test_a_session_that_leaves_gets_all_that_is_published_meanwhile(brokers: Brokers, is_cut: bool) -> None:
    """What it wants then is another interest, which begins before the former one ends."""
    await brokers.pair()
    await brokers.are_linked()
    subscriber = await brokers["b"].connect("subscriber", 5, clean_start=False, properties=AN_HOUR)
    await subscriber.subscribe(*[(each, 1) for each in FILTERS])
    await until(lambda: brokers["a"].wants("b") == set(FILTERS))
    if is_cut:
        (await brokers.proxy("a", "b")).cut()
        await until(lambda: not brokers["a"].neighbor("b").is_up)
    load = Load(await brokers["a"].connect("publisher", 5), FILTERS)
    await asyncio.sleep(0.1)
    await subscriber.vanish()
    if is_cut:
        (await brokers.proxy("a", "b")).heal()
        await brokers.are_linked()
    await asyncio.sleep(0.3)
    await load.ends()
    await is_drained(brokers["a"])

    subscriber = await brokers["b"].connect("subscriber", 5, clean_start=False, properties=AN_HOUR)
    received = set(await subscriber.payloads(len(load.confirmed)))
    assert received >= load.confirmed


async def test_a_neighbor_that_was_forgotten_gets_what_is_published_afterwards(brokers: Brokers) -> None:
    """The queue that is made anew counts from the beginning; the neighbor knows that it is another one."""
    await brokers.pair()
    await brokers.are_linked()
    await create(brokers["b"], "q", subscriptions=["t"])
    await until(lambda: brokers["a"].wants("b") == {"t"})
    publisher = await brokers["a"].connect("publisher")
    for number in range(10):
        await publisher.publish("t", b"%d" % number)
    await is_drained(brokers["a"])
    await reload(brokers["a"], "links.b.enabled=false")
    await NodeOperations(brokers["a"].node).forget_neighbor("b", force=False)
    await reload(brokers["a"], "links.b.enabled=true")
    await brokers.are_linked()
    await until(lambda: brokers["a"].wants("b") == {"t"})

    for number in range(10, 15):
        await publisher.publish("t", b"%d" % number)
    await is_drained(brokers["a"])
    assert (await shown(brokers["b"], "q")).spooled_count == 15


async def test_what_is_confirmed_while_a_broker_stops_is_at_the_neighbor_in_the_end(brokers: Brokers) -> None:
    await brokers.pair()
    await brokers.are_linked()
    await create(brokers["b"], "q", subscriptions=["t"])
    await until(lambda: brokers["a"].wants("b") == {"t"})
    load = Load(await brokers["a"].connect("publisher", 5), ["t"])
    await asyncio.sleep(0.2)
    await brokers["a"].stop()
    await load.ends()

    await brokers["a"].start()
    (await brokers.proxy("b", "a")).target_port = brokers["a"].flow_port
    await brokers.are_linked()
    await is_drained(brokers["a"])
    assert (await shown(brokers["b"], "q")).spooled_count >= len(load.confirmed)


async def test_a_message_that_can_never_fit_at_the_neighbor_does_not_hold_up_the_others(brokers: Brokers) -> None:
    """Two queues want it, and the message VPN has no room for two: one gets it, and the other counts it."""
    await brokers.pair()
    await brokers.are_linked()
    for name, topic in (("q", "t"), ("q2", "t"), ("other", "other")):
        await create(brokers["b"], name, subscriptions=[topic])
    await until(lambda: brokers["a"].wants("b") == {"t", "other"})
    brokers["b"].node.default.gate.bound(1_500_000)
    publisher = await brokers["a"].connect("publisher")
    await publisher.publish("t", bytes(1_000_000))
    await publisher.publish("other", b"small")

    assert (await shows(brokers["b"], lambda view: view.spooled_count == 1, "other")).spooled_count == 1
    views = [await shown(brokers["b"], name) for name in ("q", "q2")]
    assert sorted(view.spooled_count for view in views) == [0, 1]
    assert sum(sum(view.drops.values()) for view in views) == 1


async def test_a_neighbor_that_takes_small_frames_hears_of_many_subscriptions(brokers: Brokers) -> None:
    await brokers.pair(b=("flow.max_frame_size=4 KiB",))
    await brokers.are_linked()
    (await brokers.proxy("a", "b")).cut()
    client = await brokers["a"].connect("client", 5)
    text = "a/longer/topic/of/many/levels/that/takes/room/in/a/frame"
    for tens in range(14):
        await client.subscribe(*[(f"{text}/{tens}/{number}", 0) for number in range(1000)])
    (await brokers.proxy("a", "b")).heal()
    await brokers.are_linked()
    assert len(brokers["b"].wants("a")) == 14_000
