"""Browsing with the client library: it takes nothing, follows new messages, and outlives connections."""

import asyncio
from pathlib import Path

import pytest

import sluicegate
from sluicegate import BlockingClient, Browser, Client, Message
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.testing.ports import free_port
from support.broker.named_queues import create, shows
from support.broker.running_broker import RunningBroker


def url(broker: RunningBroker) -> str:
    return f"flow://127.0.0.1:{broker.flow_port}"


async def seen(browser: Browser, count: int) -> list[bytes]:
    """Return the next payloads."""
    found: list[bytes] = []
    while len(found) < count:
        found += [each.payload for each in await browser.receive_many(count - len(found))]
    return found


def numbers(first: int, end: int) -> list[bytes]:
    return [str(number).encode() for number in range(first, end)]


async def publish(client: Client, first: int, end: int) -> None:
    async with client.publisher() as publisher:
        await publisher.send_all(
            Message(str(n).encode(), queue="q", properties=[("parity", n % 2)]) for n in range(first, end)
        )


async def test_a_browser_sees_everything_and_takes_nothing(broker: RunningBroker) -> None:
    """Flow: consuming, browsing: oldest first, then new messages; more than its window."""
    await create(broker)
    async with Client(url(broker)) as client:
        await publish(client, 0, 300)
        async with client.browser("q", window=7) as browser:
            first = await browser.receive()
            assert (first.payload, first.sequence, first.partition) == (b"0", 1, 0)
            assert browser.incarnation == broker.node.services.recovered.incarnation
            assert await seen(browser, 299) == numbers(1, 300)
            waiting = asyncio.create_task(browser.receive())
            await publish(client, 300, 301)
            assert (await waiting).payload == b"300"
        await shows(broker, lambda view: view.ready_count == 301 and not view.flows)
        async with client.consumer("q") as consumer:
            delivery = await consumer.receive()
            assert (delivery.payload, delivery.delivery_count, delivery.redelivered) == (b"0", 1, False)


async def test_a_browser_sees_what_its_selector_selects(broker: RunningBroker) -> None:
    """Flow: consuming, selectors."""
    await create(broker)
    async with Client(url(broker)) as client:
        await publish(client, 0, 20)
        async with client.browser("q", selector="parity = 1") as browser:
            assert await seen(browser, 10) == numbers(0, 20)[1::2]


async def test_a_browser_goes_on_where_it_was_when_its_connection_broke(tmp_path: Path) -> None:
    """Flow: consuming, browsing: the gateway shows the queue anew, and the program sees nothing twice."""
    settings = (f"listeners.flow.port={free_port()}",)
    async with RunningBroker(tmp_path / "data", settings) as broker:
        await create(broker, partition_count=3, access_type="non-exclusive")
        async with Client(url(broker)) as client, client.browser("q") as browser:
            await publish(client, 0, 50)
            before = await seen(browser, 50)
            await broker.restart()
            await publish(client, 50, 60)
            assert sorted(before) == sorted(numbers(0, 50))
            assert sorted(await seen(browser, 10)) == sorted(numbers(50, 60))


async def test_the_end_of_the_queue_is_the_end_of_its_browsers(broker: RunningBroker) -> None:
    """Flow: consuming, states. Closing ends an iteration without an error."""
    await create(broker)
    async with Client(url(broker)) as client:
        with pytest.raises(sluicegate.RequestRefused):
            await client.browser("nowhere").__aenter__()
        async with client.browser("q") as closed:
            reading = asyncio.create_task(anext(aiter(closed), None))
            await closed.close()
            assert await reading is None
        async with client.browser("q") as browser:
            await NodeOperations(broker.node).delete_queue("q")
            with pytest.raises(sluicegate.ConsumerEnded):
                await browser.receive()


@pytest.mark.parametrize("arguments", [{"window": 0}, {"queue": ""}, {"selector": "x" * 20_000}])
async def test_a_browser_that_makes_no_sense_is_not_made(broker: RunningBroker, arguments: dict[str, object]) -> None:
    async with Client(url(broker)) as client:
        with pytest.raises(ValueError, match=r"window|name|selector"):
            client.browser(**{"queue": "q", **arguments})  # type: ignore[arg-type]  # each case is wrong on purpose


async def test_a_program_that_blocks_browses(broker: RunningBroker) -> None:
    await create(broker)

    def program(address: str) -> None:
        with BlockingClient(address) as client:
            with client.publisher() as publisher:
                publisher.send_all(Message(payload, queue="q") for payload in numbers(0, 30))
            with client.browser("q") as browser:
                assert browser.receive(timeout_s=20).payload == b"0"
                assert next(browser).payload == b"1"
                found = [each.payload for each in browser.receive_many(100, timeout_s=20)]
                while len(found) < 28:
                    found.append(browser.receive(timeout_s=20).payload)
                assert found == numbers(2, 30)
                with pytest.raises(TimeoutError):
                    browser.receive(timeout_s=0.05)
                browser.close()
                assert list(browser) == []

    await asyncio.to_thread(program, url(broker))
    await shows(broker, lambda view: view.ready_count == 30)
