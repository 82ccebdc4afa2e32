"""Named publishers of a retired broker move to the broker that is to have them, and go on where they were."""

import asyncio
import shutil
import threading
from pathlib import Path

import pytest

from sluicegate import Client, Message
from sluicegate.actors.messages.directory import UpdateRefused
from sluicegate.actors.messages.named_publishers import (
    AdoptPublisher,
    FreePublisher,
    HoldPublisher,
    NotePublisherCopy,
)
from sluicegate.gateway.node.siblings import Released
from sluicegate.messaging.clients.homes import home_of, publisher_key
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frames.session import Error
from sluicegate.protocols.network.moves.moves import VpnMoves
from sluicegate.storage.errors import StoreFull
from sluicegate.storage.interface import CommitJob
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


async def leave_copy(folder: Path) -> None:
    """Have the first broker have a copy of a publisher, as the second one was killed before it has forgotten it."""
    old, before = folder / "machine-2", folder / "before"
    async with second_retired(folder) as machine:
        await machine[2].node.default.publishers.ask(NotePublisherCopy(NAME, "machine-1"))
        await machine[2].stop()
        shutil.copytree(old, before)
        await machine.start(machine[2])
        await hand_over(machine)
    shutil.rmtree(old)
    before.rename(old)


async def opened_with(machine: MachineBrokers, *, stored: int, publishes: list[int]) -> None:
    """Open the publisher, which has so much stored, and publish more."""
    async with FlowClient(machine[1].flow_port) as client:
        opened = await client.opens_publisher(NAME)
        assert opened.stored_through == stored
        client.publishes(opened.flow_id, publishes)
        assert await client.answered(opened.flow_id, publishes[-1]) == []


async def test_a_copy_is_no_home_whatever_number_of_brokers_is_started(tmp_path: Path) -> None:
    """Flow: publishing. What is repeated is stored once: all starts find the publisher where it has gone on."""
    async with MachineBrokers(tmp_path) as machine:
        await create(machine[1], subscriptions=["t"])
        await opened_with(machine, stored=0, publishes=[1, 2])
    await leave_copy(tmp_path)
    async with second_retired(tmp_path) as machine:
        assert [broker.node.default.named_publishers() for broker in machine.all] == [[NAME], [NAME]]
        await opened_with(machine, stored=2, publishes=[3, 4])
    for number in (5, 7):
        async with MachineBrokers(tmp_path) as machine:
            await opened_with(machine, stored=number - 1, publishes=[number])
            assert [broker.node.default.named_publishers() for broker in machine.all] == [[], [NAME]]
        async with second_retired(tmp_path) as machine:
            await opened_with(machine, stored=number, publishes=[number + 1])
    async with second_retired(tmp_path) as machine:
        await move(machine)
    for number in (9, 10):
        async with MachineBrokers(tmp_path) as machine:
            await opened_with(machine, stored=number - 1, publishes=[number])
    async with MachineBrokers(tmp_path) as machine:
        assert [broker.node.default.named_publishers() for broker in machine.all] == [[NAME], []]
        assert await payloads(machine, 10) == numbered(1, 11)


async def test_a_publisher_that_has_moved_and_was_not_opened_is_found_with_any_number_of_brokers(
    tmp_path: Path,
) -> None:
    async with MachineBrokers(tmp_path) as machine:
        await create(machine[1], subscriptions=["t"])
        await opened_with(machine, stored=0, publishes=[1, 2])
    async with second_retired(tmp_path) as machine:
        await move(machine)
    async with MachineBrokers(tmp_path):
        pass
    async with MachineBrokers(tmp_path) as machine:
        assert [broker.node.default.named_publishers() for broker in machine.all] == [[NAME], []]
        await opened_with(machine, stored=2, publishes=[3])
        assert await payloads(machine, 3) == numbered(1, 4)


async def test_a_copy_at_a_broker_that_is_retired_as_well_is_deleted_before_the_publisher_moves_elsewhere(
    tmp_path: Path,
) -> None:
    name = next(
        each
        for each in map("publisher-{}".format, range(100))
        if [home_of(publisher_key("default", each), count) for count in (1, 2, 3)] == [1, 2, 3]
    )

    def moves(machine: MachineBrokers) -> VpnMoves:
        return machine[3].node.links.moves(machine[3].node.default)

    async def adopts(machine: MachineBrokers, broker: int) -> None:
        """Have a broker have a copy, as the old home does before it ends the publisher."""
        publishers = machine[3].node.default.publishers
        record = await publishers.ask(HoldPublisher(name))
        await publishers.ask(NotePublisherCopy(name, f"machine-{broker}"))
        await machine[broker].node.default.publishers.ask(AdoptPublisher(name, record))
        publishers.inbox.post(FreePublisher(name))

    async with MachineBrokers(tmp_path, count=3, brokers=3) as machine, FlowClient(machine[1].flow_port) as client:
        await client.opens_publisher(name)
    async with MachineBrokers(tmp_path, count=2, brokers=3) as machine:
        await adopts(machine, 2)
        assert [each.node.default.named_publishers() for each in machine.all] == [[], [name], [name]]
        # The number of brokers is that of the next start, as far as the old home knows.
        await moves(machine).move_publisher(name, "machine-1")
        assert [each.node.default.named_publishers() for each in machine.all] == [[name], [], []]
    async with MachineBrokers(tmp_path, count=1, brokers=3) as machine, FlowClient(machine[1].flow_port) as client:
        assert (await client.opens_publisher(name)).epoch == 2


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


async def test_a_publisher_waits_for_a_broker_that_is_away(tmp_path: Path) -> None:
    """What it publishes at the new home must not overtake what waits at the old one. Meanwhile it publishes on."""
    async with MachineBrokers(tmp_path, brokers=3) as machine:
        await create(machine[3], subscriptions=["t"])
        async with FlowClient(machine[1].flow_port) as client:
            await client.opens_publisher(NAME)
    async with MachineBrokers(tmp_path, count=1, brokers=3) as machine, FlowClient(machine[1].flow_port) as client:
        opened = await client.opens_publisher(NAME)
        await machine[3].stop()
        client.publishes(opened.flow_id, [1, 2])
        assert await client.answered(opened.flow_id, 2) == []
        with pytest.raises(UpdateRefused, match="messages wait for broker 'machine-3', which is away"):
            await hand_over(machine)
        client.publishes(opened.flow_id, [3])
        assert await client.answered(opened.flow_id, 3) == []
        await machine.start(machine[3])
        await move(machine)
        view = await shows(machine[3], lambda view: view.ready_count >= 3)
        assert view.ready_count == 3


async def test_a_publisher_waits_until_what_it_has_published_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not closed for that: it would be closed again and again while the link has a backlog."""
    async with MachineBrokers(tmp_path, brokers=3) as machine:
        await create(machine[3], subscriptions=["t"])
        async with FlowClient(machine[1].flow_port) as client:
            await client.opens_publisher(NAME)
    async with MachineBrokers(tmp_path, count=1, brokers=3) as machine, FlowClient(machine[1].flow_port) as client:
        opened = await client.opens_publisher(NAME)
        store, goes_on = machine[3].node.services.store, threading.Event()
        commit = store.commit

        def commit_late(job: CommitJob) -> int:
            goes_on.wait(30)  # a test that fails must end
            return commit(job)

        monkeypatch.setattr(store, "is_at_hand", lambda _: False)  # it commits in its thread
        monkeypatch.setattr(store, "commit", commit_late)
        client.publishes(opened.flow_id, [1, 2])
        assert await client.answered(opened.flow_id, 2) == []
        with pytest.raises(UpdateRefused, match="broker 'machine-3' is slow to store"):
            await hand_over(machine)
        client.publishes(opened.flow_id, [3])
        assert await client.answered(opened.flow_id, 3) == []
        goes_on.set()
        await move(machine)
        view = await shows(machine[3], lambda view: view.ready_count >= 3)
        assert view.ready_count == 3


async def test_a_publisher_whose_copy_cannot_be_noted_is_open_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with MachineBrokers(tmp_path) as machine, FlowClient(machine[1].flow_port) as client:
        await client.opens_publisher(NAME)
    async with second_retired(tmp_path) as machine:
        store = machine[2].node.services.store
        commit = store.commit
        failures: list[CommitJob] = []

        def commit_or_fail(job: CommitJob) -> int:
            if failures:
                return commit(job)
            failures.append(job)
            raise StoreFull("map", "planted")

        monkeypatch.setattr(store, "commit", commit_or_fail)
        with pytest.raises(UpdateRefused, match="has not moved"):
            await hand_over(machine)
        assert failures
        async with FlowClient(machine[1].flow_port) as client:
            assert (await client.opens_publisher(NAME)).epoch == 2


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
