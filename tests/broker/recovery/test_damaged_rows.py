"""What becomes of queues and sessions of which some rows in the store are damaged."""

import pytest

import support.mqtt.packets as mqtt
from sluicegate.storage.catalog.queues import COUNTER_ROW
from sluicegate.storage.environment.databases import PARTITION_KEY
from support.broker.named_queues import create
from support.broker.running_broker import RunningBroker
from support.storage.spool_file import flip_raw


@pytest.fixture(autouse=True)
def expect_the_damage(caplog: pytest.LogCaptureFixture) -> None:
    """The node tells of it, as an error."""
    caplog.handler.addFilter(lambda record: "set aside" not in record.getMessage())


async def test_a_queue_gets_no_partition_of_another_when_the_count_of_partitions_is_lost(
    broker: RunningBroker,
) -> None:
    """Two queues on one partition of the store would have each other's messages after the next start."""
    await create(broker, "old", subscriptions=["old"])
    await (await broker.connect()).publish("old", b"of the old one")
    await broker.all_vanish()
    await broker.stop()
    flip_raw(broker.config.data.path, "catalog", COUNTER_ROW, -1)
    await broker.start()

    await create(broker, "new", subscriptions=["new"])
    await (await broker.connect()).publish("new", b"of the new one")
    await broker.restart()

    for name in ("old", "new"):
        client = await broker.connect(level=5)
        await client.subscribe(f"$queue/{name}", qos=1)
        assert (await client.message()).payload == f"of the {name} one".encode()
        await client.is_quiet()


async def test_a_queue_goes_on_without_the_place_of_its_partition(broker: RunningBroker) -> None:
    """What was delivered is not known, so it may come again, and says so; so does what comes after the next crash."""
    await create(broker, subscriptions=["t"])
    await (await broker.connect()).publish("t", b"before")
    await broker.all_vanish()
    await broker.stop()
    flip_raw(broker.config.data.path, "cursors", PARTITION_KEY.pack(1), -1)
    await broker.start()
    await (await broker.connect()).publish("t", b"after")
    await broker.crash()

    client = await broker.connect(level=5)
    await client.subscribe("$queue/q", qos=1)
    assert await client.payloads(2) == [b"before", b"after"]


async def restart_without_the_session(broker: RunningBroker) -> None:
    """Make the row unreadable that says that there is a session, and have its client begin a new one."""
    await broker.all_vanish()
    await broker.stop()
    flip_raw(broker.config.data.path, "sessions", b"session/device", -1)
    await broker.start()
    client = await broker.connect_durable("device")
    await client.subscribe("something else")
    await broker.crash()


@pytest.mark.parametrize("text", ["t", "$share/g/t"])
async def test_a_new_session_has_no_subscriptions_of_one_that_could_not_be_read(
    broker: RunningBroker, text: str
) -> None:
    client = await broker.connect_durable("device")
    await client.subscribe(text, qos=1)
    await restart_without_the_session(broker)
    await (await broker.connect()).publish("t", qos=1)
    back = await broker.connect_durable("device")
    await back.is_quiet()


async def test_a_new_session_knows_no_packet_ids_of_one_that_could_not_be_read(broker: RunningBroker) -> None:
    """Else it would take another message for one that it has had."""
    await (await broker.connect_durable("subscriber")).subscribe("t", qos=1)
    client = await broker.connect_durable("device")
    client.send(mqtt.publish("t", b"one", qos=2, packet_id=1, level=5))
    await client.answered(mqtt.PUBREC, 1)
    await restart_without_the_session(broker)
    back = await broker.connect_durable("device")
    back.send(mqtt.publish("t", b"another", qos=2, packet_id=1, level=5))
    await back.answered(mqtt.PUBREC, 1)
    subscriber = await broker.connect_durable("subscriber")
    assert await subscriber.payloads(2) == [b"one", b"another"]
