"""Composite destinations on a machine with two brokers: each queue that they forward to is at one of them."""

import asyncio

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.messaging.clients.homes import home_of
from support.broker.linked_brokers import until
from support.broker.machine_brokers import MachineBrokers, client_at
from support.broker.named_queues import change, shown, shows
from support.broker.operator_views import event_texts

BOTH = (1, 2)
HERE = next(name for name in map("q{}".format, range(100)) if home_of(name, 2) == 1)
THERE = next(name for name in map("q{}".format, range(100)) if home_of(name, 2) == 2)
COMPOSITES = "virtual_destinations.composite_topics"
QUOTA_EXCEEDED = 0x97


@pytest.fixture
def machine_settings() -> tuple[str, ...]:
    """Have a composite that forwards to a queue of each broker, and one with a copy besides."""
    return (
        f"{COMPOSITES}=[{{name: tapped, forward_only: false, forward_to: [{{queue: {HERE}}}, {{queue: {THERE}}}]}},"
        f" {{name: twice, forward_to: [{{queue: {THERE}}}, {{topic: tapped}}]}},"
        f" {{name: some, forward_to: [{{queue: {THERE}, selector: 'n > 1'}}]}},"
        f" {{name: spares, drop_on_resource_limit: true, forward_to: [{{queue: {HERE}}}, {{queue: {THERE}}}]}}]",
    )


@pytest.fixture
def machine(runner: asyncio.Runner, machine: MachineBrokers) -> MachineBrokers:
    """Two brokers of which each knows the queue of the other."""
    runner.run(knows(machine))
    return machine


async def knows(machine: MachineBrokers) -> None:
    """Wait until each broker knows the queue of the other."""
    one, two = (machine[number].node.default.space for number in BOTH)
    await until(lambda: one.queue_home(THERE) is not None and two.queue_home(HERE) is not None, "both queues are known")


async def publish(
    machine: MachineBrokers, number: int, topic: str, *payloads: bytes, qos: int = 1, properties: bytes = b""
) -> list[int]:
    """Publish at a broker; return the answers."""
    client = await machine[number].connect(client_at(number), 5)
    found = [await client.publish(topic, payload, qos=qos, properties=properties) or 0 for payload in payloads]
    await client.round_trip()
    await client.vanish()
    return found


async def contents(machine: MachineBrokers, name: str, count: int) -> list[tuple[str, str]]:
    """Wait until a queue has so many messages; return topic and payload of each."""
    number = 1 if name == HERE else 2
    await shows(machine[number], lambda view: view.ready_count == count, name)
    return [(each.topic, each.payload) for each in await NodeOperations(machine[number].node).browse_queue(name)]


async def test_each_queue_is_made_at_its_home_only(machine: MachineBrokers) -> None:
    for number, name in ((1, HERE), (2, THERE)):
        found = await NodeOperations(machine[number].node).queue_names()
        assert [each for each in found if not each.startswith("#")] == [name]
    for number in BOTH:
        assert await event_texts(machine[number], "VPN_AD_QENDPT_NAME_CONFLICT") == []


@pytest.mark.parametrize("number", BOTH)
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_both_queues_have_the_message_as_it_was_published(machine: MachineBrokers, number: int, qos: int) -> None:
    """Whichever broker it is published at, under its own topic, once; and so have the topic's subscribers."""
    watchers = [await machine[at].connect(f"watcher-{at}", 5) for at in BOTH]
    for watcher in watchers:
        await watcher.subscribe(("tapped", 1))
    assert set(await publish(machine, number, "tapped", b"0", b"1", qos=qos)) == {0}
    for name in (HERE, THERE):
        assert await contents(machine, name, 2) == [("tapped", "0"), ("tapped", "1")]
    for watcher in watchers:
        assert await watcher.payloads(2) == [b"0", b"1"]
        await watcher.is_quiet()


async def test_a_queue_gets_a_message_once_however_many_ways_lead_to_it(machine: MachineBrokers) -> None:
    """It is a target of the first composite, and of the one that a copy goes to (docs: virtual-destinations.md)."""
    assert await publish(machine, 1, "twice", b"x") == [0]
    assert await contents(machine, THERE, 1) == [("twice", "x")]
    assert await contents(machine, HERE, 1) == [("tapped", "x")]


async def test_a_selector_decides_what_crosses(machine: MachineBrokers) -> None:
    numbers = [mqtt.user_property("n", str(number)) for number in (1, 2)]
    await publish(machine, 1, "some", b"small", properties=numbers[0])
    await publish(machine, 1, "some", b"large", properties=numbers[1])
    await publish(machine, 1, "tapped", b"last")
    found = await contents(machine, THERE, 1)
    assert found == [("tapped", "last")], "properties of MQTT are texts, and no numbers"


async def test_messages_wait_for_the_broker_of_a_queue(machine: MachineBrokers) -> None:
    await machine[2].stop()
    assert await publish(machine, 1, "tapped", b"0", b"1") == [0, 0]
    await machine.start(machine[2])
    assert await contents(machine, THERE, 2) == [("tapped", "0"), ("tapped", "1")]


async def test_a_queue_that_refuses_has_the_publisher_refused_at_every_broker(machine: MachineBrokers) -> None:
    """All or nothing, as on one broker."""
    await change(machine[2], THERE, max_msg_size=10)
    space = machine[1].node.default.space
    await until(lambda: (home := space.queue_home(THERE)) is not None and home.facts.message_bytes_max == 10, "1 knows")
    for number in BOTH:
        assert await publish(machine, number, "tapped", bytes(11)) == [QUOTA_EXCEEDED]
    assert (await shown(machine[1], HERE)).spooled_count == 0


async def test_a_queue_that_may_be_left_out_refuses_for_itself(machine: MachineBrokers) -> None:
    await change(machine[2], THERE, max_msg_size=10)
    for number in BOTH:
        assert await publish(machine, number, "spares", bytes(11)) == [0]
    assert len(await contents(machine, HERE, 2)) == 2
    await shows(machine[2], lambda view: sum(view.drops.values()) + sum(view.refusals.values()) == 2, THERE)


async def test_a_retained_message_is_retained_once(machine: MachineBrokers) -> None:
    client = await machine[1].connect(client_at(1), 5)
    await client.publish("tapped", b"kept", qos=1, retain=True)
    assert await contents(machine, THERE, 1) == [("tapped", "kept")]
    late = await machine[1].connect(f"{client_at(1)}-late", 5)
    await late.subscribe(("tapped", 1))
    assert (await late.message()).payload == b"kept"
    await late.is_quiet()


async def test_consumers_of_both_brokers_have_the_queue(machine: MachineBrokers) -> None:
    await publish(machine, 1, "tapped", b"0")
    for name in (HERE, THERE):
        client = await machine[2 if name == HERE else 1].connect(f"of-{name}", 5)
        assert await client.subscribe((f"$queue/{name}", 1)) == [1]
        message = await client.message()
        assert (message.topic, message.payload) == ("tapped", b"0")
