"""MQTT consumers of `$queue/NAME` with a selector in the user property `selector` (Solace 4.14)."""

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.messaging.observability.events import VPN_SELECTORS_DIFFER, VPN_SELECTORS_DIFFER_CLEAR
from sluicegate.messaging.partitions.explain import WaitReason
from sluicegate.messaging.partitions.rules.selection import SCANS_PER_TURN
from support.broker.named_queues import create, shown, shows
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import RawClient


async def consumer(broker: RunningBroker, text: str, *, client_id: str = "", receive_maximum: int = 100) -> RawClient:
    properties = mqtt.receive_maximum(receive_maximum)
    client = await broker.connect(client_id, level=5, properties=properties)
    assert await client.subscribe("$queue/q", qos=1, properties=selecting(text)) == [1]
    return client


def selecting(text: str) -> bytes:
    return mqtt.user_property("selector", text) if text else b""


def colored(color: str, key: str = "") -> bytes:
    return mqtt.user_property("color", color) + (mqtt.user_property("JMSXGroupID", key) if key else b"")


async def published(broker: RunningBroker, *colors: str, key: str = "") -> None:
    publisher = await broker.connect(level=5)
    for number, color in enumerate(colors):
        await publisher.publish("t", b"%d" % number, properties=colored(color, key))
    await publisher.vanish()


async def test_consumers_get_what_they_select_and_the_rest_stays_for_others(broker: RunningBroker) -> None:
    await create(broker, subscriptions=["t"], access_type="non-exclusive")
    reds = await consumer(broker, "color = 'red'")
    await published(broker, "red", "blue", "green", "red")
    blues = await consumer(broker, "color = 'blue'")

    assert [(await reds.message()).payload for _ in range(2)] == [b"0", b"3"]
    assert (await blues.message()).payload == b"1"
    await shows(broker, lambda view: (view.ready_count, view.unacked_count) == (1, 3))
    anything = await consumer(broker, "")
    assert (await anything.message()).payload == b"2"


async def test_a_released_message_goes_to_a_flow_that_selects_it(broker: RunningBroker) -> None:
    await create(broker, subscriptions=["t"], access_type="non-exclusive")
    first = await consumer(broker, "color IN ('red', 'blue')")
    await published(broker, "red", "blue")
    assert [(await first.message()).payload for _ in range(2)] == [b"0", b"1"]
    second = await consumer(broker, "color = 'blue'")
    await second.is_quiet()

    await first.vanish()

    assert (await second.message()).payload == b"1"
    await shows(broker, lambda view: view.ready_count == 1)


async def test_the_active_consumer_of_an_exclusive_queue_leaves_what_it_does_not_select(broker: RunningBroker) -> None:
    await create(broker, subscriptions=["t"])
    await published(broker, "red", "blue")
    active = await consumer(broker, "color = 'blue'")
    waiting = await consumer(broker, "")
    assert await active.payloads(1) == [b"1"]
    await waiting.is_quiet()

    await active.vanish()

    assert await waiting.payloads(1) == [b"0"]


async def test_a_partition_is_its_owners_with_what_that_does_not_select(broker: RunningBroker) -> None:
    """Solace refuses selectors here; explain says why a key waits."""
    await create(broker, subscriptions=["t"], access_type="non-exclusive", partition_count=3)
    reds = await consumer(broker, "color = 'red'")
    await published(broker, "blue", "red", "blue", "red", key="k")

    assert await reds.payloads(2) == [b"1", b"3"]
    explained = await NodeOperations(broker.node).explain_key("q", "k")
    assert (explained.reason, explained.waiting_count) == (WaitReason.NOT_SELECTED, 2)


async def test_different_selectors_on_a_partitioned_queue_are_reported_and_explained(broker: RunningBroker) -> None:
    """The second consumer would take what the first one, which owns the partition, leaves; and does not get it."""
    record = broker.node.services.runtime.events.record
    await create(broker, subscriptions=["t"], access_type="non-exclusive", partition_count=1)
    await consumer(broker, "color = 'red'")
    assert VPN_SELECTORS_DIFFER.name not in record.counts

    blues = await broker.connect(level=5)
    packet_id = blues.next_packet_id()
    blues.send(mqtt.subscribe(("$queue/q", 1), packet_id=packet_id, level=5, properties=selecting("color = 'blue'")))
    answer = await blues.awaited(mqtt.SUBACK)
    assert mqtt.suback_codes(answer, 5) == [1]
    assert b"selectors of consumers of partitioned queue 'q' differ: a message" in answer.body
    (event,) = [each for _, each in record.recent(0, 100) if each.kind is VPN_SELECTORS_DIFFER]
    assert "bound to partitioned queue q with another selector" in event.text()
    await published(broker, "blue", key="k")
    explained = await NodeOperations(broker.node).explain_key("q", "k")
    assert (explained.reason, explained.waiting_count) == (WaitReason.NOT_SELECTED_BY_OWNER, 1)

    await blues.unsubscribe("$queue/q")
    assert record.counts[VPN_SELECTORS_DIFFER_CLEAR.name] == 1
    explained = await NodeOperations(broker.node).explain_key("q", "k")
    assert explained.reason is WaitReason.NOT_SELECTED


@pytest.mark.settings("spool.memory_bytes_max=1MiB")
async def test_selected_messages_are_found_in_a_backlog_on_disk(broker: RunningBroker) -> None:
    await create(broker, subscriptions=["t"])
    publisher = await broker.connect(level=5)
    for number in range(300):
        color = "red" if number % 100 == 99 else "blue"
        await publisher.publish("t", b"%04d" % number + bytes(8000), properties=colored(color))

    reds = await consumer(broker, "color = 'red'", receive_maximum=1)
    for number in (99, 199, 299):
        (payload,) = await reds.payloads(1)
        assert int(payload[:4]) == number
    await shows(broker, lambda view: (view.ready_count, view.unacked_count) == (297, 0))


async def test_a_long_backlog_in_memory_is_looked_through_in_slices(broker: RunningBroker) -> None:
    await create(broker, subscriptions=["t"])
    publisher = await broker.connect()
    for number in range(SCANS_PER_TURN + 100):
        publisher.send(mqtt.publish("t", b"x", qos=1, packet_id=number + 1))
    await shows(broker, lambda view: view.ready_count == SCANS_PER_TURN + 100)
    await published(broker, "red")

    assert await (await consumer(broker, "color = 'red'")).payloads(1) == [b"0"]


async def test_another_selector_for_the_same_queue_begins_anew(broker: RunningBroker) -> None:
    """[3.8.4-3]."""
    await create(broker, subscriptions=["t"])
    await published(broker, "red", "blue", "green")
    client = await consumer(broker, "color = 'red'")
    assert (await client.message()).payload == b"0"

    assert await client.subscribe("$queue/q", qos=1, properties=selecting("color <> 'green'")) == [1]

    assert [(await client.message()).payload for _ in range(2)] == [b"0", b"1"]
    assert await client.subscribe("$queue/q", qos=1, properties=selecting("color  <>  'green'")) == [1]
    await client.is_quiet()  # the same one, written otherwise


async def test_a_session_comes_back_with_its_selector(broker: RunningBroker) -> None:
    await create(broker, subscriptions=["t"])
    client = await broker.connect_durable("s")
    assert await client.subscribe("$queue/q", qos=1, properties=selecting("color = 'red'")) == [1]
    await client.vanish()
    await broker.restart()
    await published(broker, "blue", "red")

    again = await broker.connect_durable("s")

    assert await again.payloads(1) == [b"1"]
    await again.is_quiet()


async def test_operators_see_what_a_flow_selects(broker: RunningBroker) -> None:
    await create(broker, subscriptions=["t"])
    await consumer(broker, "color = 'red'")

    (flow,) = (await shown(broker)).flows

    assert flow.selector == "color = 'red'"
