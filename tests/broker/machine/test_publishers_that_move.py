"""Named publishers of a retired broker move to the broker that is to have them, and go on where they were."""

import asyncio
import shutil
from pathlib import Path

import pytest

from sluicegate import Client, Message
from sluicegate.actors.messages.directory import UpdateRefused
from sluicegate.gateway.node.siblings import Released
from sluicegate.messaging.clients.homes import home_of, publisher_key
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frames.session import Error
from support.broker.machine_brokers import MachineBrokers, second_retired
from support.broker.named_queues import create, shows
from support.flow.client import FlowClient, Refused

NAME = next(name for name in map("publisher-{}".format, range(100)) if home_of(publisher_key("default", name), 2) == 2)


async def hand_over(machine: MachineBrokers) -> None:
    """Have the publisher at the first broker, which is not told yet that it is found there."""
    await machine[2].node.links.moves(machine[2].node.default).move_publisher(NAME, "machine-1")
    assert machine[2].node.default.named_publishers() == []
    assert machine[1].node.default.named_publishers() == [NAME]


async def move(machine: MachineBrokers) -> None:
    await hand_over(machine)
    released = Released(publishers=frozenset({publisher_key("default", NAME)}))
    for broker in machine.all:
        broker.siblings.released(2, released)


async def payloads(machine: MachineBrokers, count: int) -> list[bytes]:
    """Return what the queue has, once it has so many."""
    view = await shows(machine[1], lambda view: view.ready_count >= count)
    assert view.ready_count == count
    async with FlowClient(machine[1].flow_port, name="reader") as client:
        flow = await client.binds("q")
        return [each.payload for each in await client.receives_in_all(count, flow)]


def numbered(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


async def test_a_publisher_goes_on_at_the_new_home_and_what_it_repeats_is_stored_once(tmp_path: Path) -> None:
    """Flow: publishing. The client finds the spool that it knows, so that it may have messages without an answer."""
    async with MachineBrokers(tmp_path) as machine:
        await create(machine[1], subscriptions=["t"])
        async with FlowClient(machine[1].flow_port) as client:
            opened = await client.opens_publisher(NAME)
            client.publishes(opened.flow_id, [1, 2, 3])
            assert await client.answered(opened.flow_id, 3) == []
            client.publishes(opened.flow_id, [4, 5])
            assert await client.answered(opened.flow_id, 5) == []
        incarnation = opened.incarnation
    async with second_retired(tmp_path) as machine:
        await move(machine)
        async with FlowClient(machine[1].flow_port) as client:
            opened = await client.opens_publisher(NAME)
            assert (opened.epoch, opened.stored_through, opened.incarnation) == (2, 5, incarnation)
            client.publishes(opened.flow_id, [6])
            assert await client.answered(opened.flow_id, 6) == []
    async with second_retired(tmp_path) as machine:
        async with FlowClient(machine[1].flow_port) as client:
            opened = await client.opens_publisher(NAME)
            assert (opened.epoch, opened.stored_through, opened.incarnation) == (3, 6, incarnation)
        assert await payloads(machine, 6) == numbered(1, 7)


async def test_what_was_refused_and_not_heard_of_is_sent_again(tmp_path: Path) -> None:
    async with MachineBrokers(tmp_path) as machine:
        await create(machine[2], subscriptions=["t"])
        async with FlowClient(machine[1].flow_port) as client:
            opened = await client.opens_publisher(NAME, window=10)
            client.publishes(opened.flow_id, [1])
            client.publishes(opened.flow_id, [2], queue="nowhere")
            client.publishes(opened.flow_id, [3, 4])
            (refusal,) = await client.answered(opened.flow_id, 4)
            assert (refusal.first, refusal.code) == (2, codes.QUEUE_NOT_FOUND)
    async with second_retired(tmp_path) as machine:
        await move(machine)
        async with FlowClient(machine[1].flow_port) as client:
            opened = await client.opens_publisher(NAME, window=10)
            assert (opened.stored_through, opened.stored_highest) == (1, 4)
            client.publishes(opened.flow_id, [2, 3, 4, 5])
            assert await client.answered(opened.flow_id, 5) == []
        assert await payloads(machine, 5) == [b"1", b"3", b"4", b"2", b"5"]


async def test_a_client_that_publishes_is_told_to_come_again_and_finds_the_new_home(tmp_path: Path) -> None:
    async with MachineBrokers(tmp_path) as machine, FlowClient(machine[1].flow_port) as client:
        await client.opens_publisher(NAME)
    async with second_retired(tmp_path) as machine, FlowClient(machine[1].flow_port) as client:
        opened = await client.opens_publisher(NAME)
        await hand_over(machine)
        error = await client.heard(Error)
        assert (error.code, error.flow_id, error.retry_after_ms) == (codes.DISABLED, opened.flow_id, 1000)
        with pytest.raises(Refused) as refused:  # the old home has it no more, and makes no new one
            await client.opens_publisher(NAME)
        assert (refused.value.error.code, refused.value.error.retry_after_ms) == (codes.DISABLED, 1000)
        machine[1].siblings.released(2, Released(publishers=frozenset({publisher_key("default", NAME)})))
        assert (await client.opens_publisher(NAME)).epoch == 3


async def test_a_copy_of_a_move_that_broke_off_is_replaced(tmp_path: Path) -> None:
    """The old home was killed before it has forgotten the publisher: it is found there, and goes on there."""
    async with MachineBrokers(tmp_path) as machine:
        await create(machine[1], subscriptions=["t"])
        async with FlowClient(machine[1].flow_port) as client:
            opened = await client.opens_publisher(NAME)
            client.publishes(opened.flow_id, [1, 2])
            assert await client.answered(opened.flow_id, 2) == []
    old, before = tmp_path / "machine-2", tmp_path / "before"
    shutil.copytree(old, before)
    async with second_retired(tmp_path) as machine:
        await hand_over(machine)
    shutil.rmtree(old)
    before.rename(old)
    async with second_retired(tmp_path) as machine:
        assert [broker.node.default.named_publishers() for broker in machine.all] == [[NAME], [NAME]]
        async with FlowClient(machine[1].flow_port) as client:
            opened = await client.opens_publisher(NAME)
            assert (opened.epoch, opened.stored_through) == (2, 2)
            client.publishes(opened.flow_id, [3, 4])
            assert await client.answered(opened.flow_id, 4) == []
        await move(machine)
        async with FlowClient(machine[1].flow_port) as client:
            opened = await client.opens_publisher(NAME)
            assert (opened.epoch, opened.stored_through) == (3, 4)
        assert await payloads(machine, 4) == numbered(1, 5)


async def test_a_publisher_that_was_opened_later_at_the_new_home_stays(tmp_path: Path) -> None:
    """Two data folders that were put together may have two."""
    async with MachineBrokers(tmp_path) as machine, FlowClient(machine[1].flow_port) as client:
        await client.opens_publisher(NAME)
    async with second_retired(tmp_path) as machine:
        for broker in machine.all:
            broker.siblings.released(2, Released(publishers=frozenset({publisher_key("default", NAME)})))
        for _ in range(2):
            async with FlowClient(machine[1].flow_port) as client:
                await client.opens_publisher(NAME)
        with pytest.raises(UpdateRefused, match="was opened there as well, and later"):
            await hand_over(machine)
        assert machine[2].node.default.named_publishers() == [NAME]


async def test_a_publisher_waits_for_what_it_has_published(tmp_path: Path) -> None:
    """What it publishes at the new home must not overtake what waits at the old one for a broker that is away."""
    async with MachineBrokers(tmp_path) as machine:
        await create(machine[1], subscriptions=["t"])
        async with FlowClient(machine[1].flow_port) as client:
            await client.opens_publisher(NAME)
    async with second_retired(tmp_path) as machine:
        async with FlowClient(machine[1].flow_port) as client:
            opened = await client.opens_publisher(NAME)
            client.publishes(opened.flow_id, list(range(1, 500)), payload=bytes(10_000))
            assert await client.answered(opened.flow_id, 499) == []
            await machine[1].stop()
        with pytest.raises(UpdateRefused, match="machine-1"):
            await hand_over(machine)
        assert machine[2].node.default.named_publishers() == [NAME]
        await machine.start(machine[1])
        await move(machine)


async def test_the_client_library_publishes_on_while_its_publisher_moves(tmp_path: Path) -> None:
    async with MachineBrokers(tmp_path) as machine, FlowClient(machine[1].flow_port) as client:
        await create(machine[1], subscriptions=["t"])
        await client.opens_publisher(NAME)
    async with second_retired(tmp_path) as machine:
        url = f"flow://127.0.0.1:{machine[1].flow_port}"
        async with Client(url) as library, library.publisher(NAME) as publisher:
            for number in range(100):
                await publisher.publish(Message(b"%d" % number, topic="t"))
            waiting = [asyncio.create_task(publisher.publish(Message(b"%d" % n, topic="t"))) for n in range(100, 400)]
            await asyncio.sleep(0)
            await move(machine)
            await asyncio.gather(*waiting)
        assert await payloads(machine, 400) == numbered(0, 400)
