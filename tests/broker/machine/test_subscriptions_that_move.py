"""Durable subscriptions of AMQP of a retired broker move to the broker that is to have their container."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from sluicegate.actors.messages.directory import FindQueue, SetQueueMove
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.gateway.machine.handing_over import HandingOver
from sluicegate.gateway.machine.messages import Left
from sluicegate.gateway.machine.retiring import Retirement
from sluicegate.gateway.node.siblings import Released
from sluicegate.messaging.clients.homes import home_of
from sluicegate.messaging.queues.moves import MOVING, QueueMove
from sluicegate.protocols.amqp.codec.performatives import CLOSE, Detach
from sluicegate.protocols.amqp.codec.sections import APPLICATION_PROPERTIES
from sluicegate.protocols.amqp.codec.termini import COPY, NEVER, Source
from sluicegate.protocols.amqp.links.filters import selector_filter
from sluicegate.protocols.amqp.messages.decode import BODY_DATA, body_bytes_of
from sluicegate.protocols.amqp.types import errors as conditions
from sluicegate.protocols.amqp.types.encoding import encode
from sluicegate.protocols.amqp.types.values import AmqpMap
from support.amqp.client import AmqpClient
from support.amqp.received import Ended
from support.broker.linked_brokers import until
from support.broker.machine_brokers import MachineBrokers

TOPIC = "topic://news/eu"
CONTAINER = next(name for name in map("container-{}".format, range(100)) if home_of(name, 2) == 2)


class Retiring:
    """Two brokers, of which the second is to go, and what the supervisor does for it."""

    def __init__(self, machine: MachineBrokers) -> None:
        self.machine = machine
        self.left = Left(1)
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Have the broker hand over what it has."""
        broker = self.machine[2]
        retirement = Retirement(
            broker.node,
            broker.siblings,
            HandingOver(broker.node, is_retired=True, place=_not_asked, hand_over=_not_asked),
            tell_left=self._tell_left,
            tell_released=self._tell_released,
        )
        self._task = asyncio.create_task(retirement.run())

    def end(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _tell_left(self, left: Left) -> None:
        self.left = left

    async def _tell_released(self, released: Released) -> None:
        for broker in self.machine.all:
            broker.siblings.released(2, released)

    async def goes(self) -> None:
        """Wait until the broker has nothing left, and all know that."""
        homes = self.machine[1].siblings.container_homes
        await until(lambda: self.left.objects_count == 0 and homes.home_of(CONTAINER) == 1, "the end of the moves")


async def _not_asked(*_: object) -> str:
    raise AssertionError("the broker has no bridges and no delivery points")


@asynccontextmanager
async def second_retired(folder: Path) -> AsyncIterator[Retiring]:
    async with MachineBrokers(folder, count=1) as machine:
        retiring = Retiring(machine)
        yield retiring
        retiring.end()


def durable(selector: str = "", *capabilities: str) -> Source:
    return Source(
        TOPIC,
        durable=2,
        expiry_policy=NEVER,
        distribution_mode=COPY,
        filters=selector_filter(selector),
        capabilities=["topic", *capabilities],
    )


async def leave(machine: MachineBrokers, source: Source | None = None, *, name: str = "mine") -> None:
    """Make a subscription, whose client goes."""
    client = await AmqpClient.open(machine[1].amqp_port, CONTAINER)
    await client.receiver(name, source or durable())
    await client.close()


async def take(machine: MachineBrokers, count: int, source: Source | None = None) -> list[bytes]:
    """Return what waits for the client, which is no more than that."""
    client = await AmqpClient.open(machine[1].amqp_port, CONTAINER)
    await client.receiver("mine", source or durable(), credit=count + 10)
    payloads = [each.payload for each in await client.deliveries(count)]
    await client.is_quiet()
    client.settle(0, count - 1)
    await client.close()
    return payloads


async def publish(machine: MachineBrokers, numbers: range) -> None:
    client = await AmqpClient.open(machine[1].amqp_port, "publisher")
    await client.sender("s", TOPIC)
    for number in numbers:
        said = b"\x00\x53" + bytes((APPLICATION_PROPERTIES,)) + encode(AmqpMap([("qty", number)]))
        client.transfer(9, said + body_bytes_of(BODY_DATA, b"%d" % number))
    await client.confirmed()
    await client.close()


def payloads_of(numbers: range) -> list[bytes]:
    return [b"%d" % number for number in numbers]


async def is_forced(client: AmqpClient) -> None:
    """Wait until the broker closes the connection: the client is to come again."""
    ended = await client.awaited(Ended)
    assert ended.code == CLOSE
    assert ended.error is not None
    assert ended.error.condition == conditions.CONNECTION_FORCED
    client.vanish()


@pytest.mark.parametrize("source", [durable(), durable("", "shared")])
async def test_what_waits_for_a_subscription_comes_in_order_and_once(tmp_path: Path, source: Source) -> None:
    async with MachineBrokers(tmp_path) as machine:
        await leave(machine, source)
        await publish(machine, range(50))
    async with second_retired(tmp_path) as retiring:
        await publish(retiring.machine, range(50, 60))
        retiring.begin()
        await retiring.goes()
        await publish(retiring.machine, range(60, 70))
        assert await take(retiring.machine, 70, source) == payloads_of(range(70))
    async with second_retired(tmp_path) as retiring:
        await publish(retiring.machine, range(70, 71))
        assert await take(retiring.machine, 1, source) == payloads_of(range(70, 71))


async def test_a_subscription_moves_with_its_selector(tmp_path: Path) -> None:
    source = durable("qty > 3")
    async with MachineBrokers(tmp_path) as machine:
        await leave(machine, source)
        await publish(machine, range(6))
    async with second_retired(tmp_path) as retiring:
        retiring.begin()
        await retiring.goes()
        await publish(retiring.machine, range(6))
        client = await AmqpClient.open(retiring.machine[1].amqp_port, CONTAINER)
        shown = await client.receiver("mine", None)  # without a source: the client wants to know what it has
        assert shown.source is not None
        assert shown.source.filters == source.filters
        await client.close()
        assert await take(retiring.machine, 4, source) == [b"4", b"5", b"4", b"5"]


async def test_publishers_go_on_while_a_subscription_moves(tmp_path: Path) -> None:
    async with MachineBrokers(tmp_path) as machine:
        await leave(machine)
        await publish(machine, range(200))
    async with second_retired(tmp_path) as retiring:
        publishing = asyncio.create_task(publish(retiring.machine, range(200, 500)))
        retiring.begin()
        await retiring.goes()
        await publishing
        assert await take(retiring.machine, 500) == payloads_of(range(500))


async def test_a_client_is_sent_away_and_finds_its_subscription_at_the_new_home(tmp_path: Path) -> None:
    async with MachineBrokers(tmp_path) as machine:
        await leave(machine)
    async with second_retired(tmp_path) as retiring:
        client = await AmqpClient.open(retiring.machine[1].amqp_port, CONTAINER)
        await client.receiver("mine", durable(), credit=10)
        await publish(retiring.machine, range(3))
        assert [each.payload for each in await client.deliveries(3)] == payloads_of(range(3))
        client.settle(0, 0)
        await client.round_trip()
        retiring.begin()
        await is_forced(client)
        await retiring.goes()
        assert await take(retiring.machine, 2) == payloads_of(range(1, 3))


async def test_a_container_whose_subscriptions_move_is_refused(tmp_path: Path) -> None:
    async with MachineBrokers(tmp_path) as machine:
        await leave(machine)
    async with second_retired(tmp_path) as retiring:
        retiring.machine[2].node.default.amqp_registry.containers.moving = frozenset({CONTAINER})
        await is_forced(await AmqpClient.open(retiring.machine[1].amqp_port, CONTAINER))


async def test_a_look_that_fails_releases_no_container(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with MachineBrokers(tmp_path) as machine:
        await leave(machine)
    async with second_retired(tmp_path) as retiring:
        vpn = retiring.machine[2].node.default
        failed = asyncio.Event()

        class Failing:
            async def ask(self, message: object) -> object:
                failed.set()
                raise AssertionError("planted")

        queues, vpn.queues = vpn.queues, cast(ActorCell, Failing())
        retiring.begin()
        for _ in range(2):
            failed.clear()
            await failed.wait()
        assert retiring.machine[1].siblings.container_homes.home_of(CONTAINER) == 2
        vpn.queues = queues
        await retiring.goes()
    caplog.clear()  # of the fault


@pytest.mark.parametrize("source", [durable(), None])
async def test_a_retired_broker_makes_no_durable_subscriptions(tmp_path: Path, source: Source | None) -> None:
    """Nor does it say that there is none: it may be at the new home already."""
    async with MachineBrokers(tmp_path) as machine:
        await leave(machine)
    async with second_retired(tmp_path) as retiring:
        client = await AmqpClient.open(retiring.machine[1].amqp_port, CONTAINER)
        waiting = asyncio.create_task(client.receiver("other", source))
        with pytest.raises(asyncio.IncompleteReadError):
            await waiting
        await is_forced(client)


async def test_a_subscription_that_the_new_home_has_already_stays_and_is_served(tmp_path: Path) -> None:
    """Two data folders that were put together may have two."""
    async with MachineBrokers(tmp_path) as machine:
        await leave(machine)
        await leave(machine, name="other")
        await publish(machine, range(2))
    async with second_retired(tmp_path) as retiring:
        await second_at_the_new_home(retiring)
        client = await AmqpClient.open(retiring.machine[1].amqp_port, CONTAINER)
        await client.receiver("mine", durable(), credit=10)
        await client.receiver("other", durable(), handle=1, credit=10)
        retiring.begin()
        await until(lambda: bool(retiring.left.obstacles), "a word about the subscription")
        (obstacle,) = retiring.left.obstacles
        assert obstacle.startswith(f"durable subscription {CONTAINER}/mine: ")
        assert "does not take queue" in obstacle
        await publish(retiring.machine, range(2, 4))
        assert len(await client.deliveries(2 + 2 * 2)) == 6  # the connection that was there has lasted
        client.settle(0, 5)
        await client.close()
        assert await retiring.machine[1].node.default.queues.ask(FindQueue(f"#amqp/{CONTAINER}/other")) is None


async def second_at_the_new_home(retiring: Retiring) -> None:
    """Have a subscription of the same name at the new home: that of the retired broker cannot move."""
    for broker in retiring.machine.all:
        broker.siblings.released(2, Released(containers=frozenset({CONTAINER})))
    await leave(retiring.machine)
    for broker in retiring.machine.all:
        broker.siblings.container_homes.hold(CONTAINER, 2)


async def test_a_container_that_stays_is_told_why_it_gets_no_new_subscription(tmp_path: Path) -> None:
    async with MachineBrokers(tmp_path) as machine:
        await leave(machine)
    async with second_retired(tmp_path) as retiring:
        await second_at_the_new_home(retiring)
        retiring.begin()
        await until(lambda: bool(retiring.left.obstacles), "a word about the subscription")
        client = await AmqpClient.open(retiring.machine[1].amqp_port, CONTAINER)
        await client.receiver("mine", durable(), credit=10)
        assert (await client.receiver("new", durable(), handle=1)).source is None
        error = (await client.awaited(Detach)).error
        assert error is not None
        assert error.condition == conditions.ILLEGAL_STATE
        assert f"durable subscription {CONTAINER}/mine: " in (error.description or "")
        await publish(retiring.machine, range(1))
        assert [each.payload for each in await client.deliveries(1)] == payloads_of(range(1))
        await client.close()


async def test_a_container_whose_move_a_restart_goes_on_with_is_refused_from_the_start(tmp_path: Path) -> None:
    """Also before the retirement has looked: the client would find some of its subscriptions."""
    async with MachineBrokers(tmp_path) as machine:
        await leave(machine)
        move = QueueMove(MOVING, "machine-1")
        await machine[2].node.default.queues.ask(SetQueueMove(f"#amqp/{CONTAINER}/mine", move, of_container=True))
    async with second_retired(tmp_path) as retiring:
        await is_forced(await AmqpClient.open(retiring.machine[1].amqp_port, CONTAINER))
        retiring.begin()
        await retiring.goes()
        await publish(retiring.machine, range(1))
        assert await take(retiring.machine, 1) == payloads_of(range(1))


async def test_a_container_is_served_while_a_neighbor_of_an_earlier_release_takes_no_part(tmp_path: Path) -> None:
    async with MachineBrokers(tmp_path, brokers=3) as machine:
        await leave(machine)
    async with MachineBrokers(tmp_path, count=1, brokers=3) as machine:
        retiring = Retiring(machine)
        link = machine[2].node.links.moves(machine[2].node.default).links["machine-3"]
        link._holds_for_clients = False
        client = await AmqpClient.open(machine[1].amqp_port, CONTAINER)
        await client.receiver("mine", durable(), credit=10)
        retiring.begin()
        await until(lambda: bool(retiring.left.obstacles), "a word about the neighbor")
        [obstacle] = retiring.left.obstacles
        assert "/mine: broker 'machine-3' is of an earlier release" in obstacle
        await publish(machine, range(1))
        assert [each.payload for each in await client.deliveries(1)] == payloads_of(range(1))
        link._holds_for_clients = True
        await is_forced(client)
        await retiring.goes()
        assert await take(machine, 1) == payloads_of(range(1))
        retiring.end()


async def test_a_container_is_served_while_a_broker_is_away_that_has_to_take_part(tmp_path: Path) -> None:
    async with MachineBrokers(tmp_path, brokers=3) as machine:
        await leave(machine)
    async with MachineBrokers(tmp_path, count=1, brokers=3) as machine:
        retiring = Retiring(machine)
        await machine[3].stop()
        client = await AmqpClient.open(machine[1].amqp_port, CONTAINER)
        await client.receiver("mine", durable(), credit=10)
        retiring.begin()
        await until(lambda: any("/mine: " in each for each in retiring.left.obstacles), "a word about the link")
        await publish(machine, range(1))
        assert [each.payload for each in await client.deliveries(1)] == payloads_of(range(1))
        await machine.start(machine[3])
        await is_forced(client)
        await retiring.goes()
        assert await take(machine, 1) == payloads_of(range(1))
        retiring.end()
