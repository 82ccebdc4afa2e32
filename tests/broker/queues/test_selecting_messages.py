"""Operators select messages of a queue to look at, delete, move, copy or re-drive (docs/concepts/selectors.md)."""

import asyncio

import orjson
import pytest

import support.mqtt.packets as mqtt
from sluicegate.actors.messages.operations import COPY, DELETE, MOVE
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.operations.queues.messages import LOOKED_AT_ONCE
from sluicegate.gateway.views.queues.messages import TakenView
from sluicegate.gateway.views.queues.selections import FIELDS_OF_MOVE, FIELDS_OF_REDRIVE, selection_from_dict
from sluicegate.messaging.queues.definition import QueueInvalid
from support.broker.named_queues import create, shows
from support.broker.running_broker import RunningBroker
from support.http.plain import plain_async_client
from support.mqtt.raw_client import DEADLINE_S

DMQ = "#DEAD_MSG_QUEUE"


async def published(broker: RunningBroker, *numbers: int) -> None:
    """Publish messages that say their number in the property `number`, a text, and their key in JMSXGroupID."""
    client = await broker.connect(level=5)
    for number in numbers:
        properties = mqtt.user_property("number", str(number)) + mqtt.user_property("JMSXGroupID", f"k{number % 7}")
        assert await client.publish("t", b"%d" % number, properties=properties) == 0
    await client.vanish()


async def browsed(broker: RunningBroker, selector: str, *, name: str = "q", limit: int = 1000) -> list[str]:
    messages = await NodeOperations(broker.node).browse_queue(name, limit=limit, selector=selector)
    return [message.payload for message in messages]


async def take(broker: RunningBroker, action: str, **selection: object) -> TakenView:
    return await NodeOperations(broker.node).take_messages("q", action, selection_from_dict(selection, FIELDS_OF_MOVE))


async def test_a_page_shows_what_the_selector_selects(broker: RunningBroker) -> None:
    await create(broker, subscriptions=["t"])
    await published(broker, *range(6))

    assert await browsed(broker, "number IN ('1', '4')") == ["1", "4"]
    assert await browsed(broker, "convert_string_expressions:number >= 2", limit=3) == ["2", "3", "4"]
    assert await browsed(broker, "number > 2") == []  # a text is no number
    assert await browsed(broker, "JMSXGroupID = 'k0' AND JMSDestination = 'topic://t'") == ["0"]


async def test_a_page_reads_on_until_it_has_enough_in_every_partition(broker: RunningBroker) -> None:
    await create(broker, subscriptions=["t"], access_type="non-exclusive", partition_count=2)
    client = await broker.connect()
    for number in range(3 * LOOKED_AT_ONCE):
        client.send(mqtt.publish("t", b"x", qos=1, packet_id=number + 1))
    await shows(broker, lambda view: view.ready_count == 3 * LOOKED_AT_ONCE)
    await published(broker, 7)

    assert await browsed(broker, "number IS NOT NULL") == ["7"]
    assert len(await browsed(broker, "number IS NULL", limit=LOOKED_AT_ONCE + 9)) == LOOKED_AT_ONCE + 9


@pytest.mark.settings("admin.enabled=true", "admin.port=0")
async def test_the_admin_port_takes_a_selector_for_a_page_and_for_following(broker: RunningBroker) -> None:
    await create(broker, subscriptions=["t"])
    await published(broker, *range(6))
    async with plain_async_client(
        f"http://127.0.0.1:{broker.operator_ports.ports.servers['admin'].port}", timeout=DEADLINE_S
    ) as client:
        page = await client.get("/queues/q/messages", params={"selector": "number LIKE '4%'"})
        assert [message["payload"] for message in page.json()["messages"]] == ["4"]
        wrong = await client.get("/queues/q/messages", params={"selector": "number LIKE 4"})
        assert (wrong.status_code, wrong.json()["field"]) == (422, "selector")
        assert "character 13" in wrong.json()["detail"]
        query = {"selector": "number = '5' OR number = '9'", "follow": "1"}
        async with client.stream("GET", "/queues/q/messages", params=query) as answer:
            lines = answer.aiter_lines()
            assert orjson.loads(await anext(lines))["payload"] == "5"
            await published(broker, 8, 9)
            assert orjson.loads(await anext(lines))["payload"] == "9"


async def test_messages_are_deleted_moved_and_copied_by_a_selector(broker: RunningBroker) -> None:
    """Solace 4.15, with a choice that its tools make outside the broker."""
    await create(broker, subscriptions=["t"])
    await create(broker, "other")
    await published(broker, *range(8))

    assert (await take(broker, MOVE, to="other", selector="number = '3'")).done_count == 1
    assert (await take(broker, COPY, to="other", selector="number IN ('5', '6')")).done_count == 2
    assert (await take(broker, DELETE, selector="number NOT IN ('5', '6', '7')", limit=2)).done_count == 2

    assert await browsed(broker, "TRUE") == ["2", "4", "5", "6", "7"]
    assert await browsed(broker, "TRUE", name="other") == ["3", "5", "6"]


async def test_an_invalid_selector_moves_nothing_and_is_refused_with_its_place(broker: RunningBroker) -> None:
    await create(broker, subscriptions=["t"])

    with pytest.raises(QueueInvalid, match="selector: character 8: '!' begins nothing; allowed: <> is the sign"):
        await take(broker, DELETE, selector="number != 5")
    with pytest.raises(QueueInvalid, match="selector: character 9: "):
        await browsed(broker, "number =")
    with pytest.raises(QueueInvalid, match="selector: "):
        await NodeOperations(broker.node).follow_queue("q", selector="5")


async def test_dead_messages_are_driven_back_by_what_they_carry(broker: RunningBroker) -> None:
    await create(broker, DMQ)
    await create(broker, subscriptions=["t"])
    worker = await broker.connect(level=5)
    assert await worker.subscribe("$queue/q", qos=1) == [1]
    for number in range(3):
        await published(broker, number)
        worker.send(mqtt.puback((await worker.message()).packet_id, 0x83))
        await shows(broker, lambda view, number=number: view.ready_count == number + 1, DMQ)  # type: ignore[misc]
    node = NodeOperations(broker.node)
    selector = "\"sluicegate-dead-queue\" = 'q' AND \"sluicegate-dead-reason\" = 'rejected' AND number <> '1'"

    view = await node.start_redrive(DMQ, selection_from_dict({"selector": selector}, FIELDS_OF_REDRIVE))
    async with asyncio.timeout(3 * DEADLINE_S):
        while view.state == "running":
            await asyncio.sleep(0.01)
            view = await node.show_redrive(DMQ)

    assert (view.state, view.done_count) == ("done", 2)
    assert await browsed(broker, "TRUE", name=DMQ) == ["1"]
