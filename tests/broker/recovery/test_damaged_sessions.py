"""What becomes of sessions of which some rows in the store cannot be read.

[3.2.2-2]: their clients are told that they have none. What was left of it is not their next session's, ever.
"""

import pytest

import support.mqtt.packets as mqtt
from support.broker.running_broker import RunningBroker
from support.storage.spool_file import flip_raw


@pytest.fixture(autouse=True)
def expect_the_damage(caplog: pytest.LogCaptureFixture) -> None:
    """The node tells of it, as an error."""
    caplog.handler.addFilter(lambda record: "set aside" not in record.getMessage())


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
