"""`partition_key_source`: a queue takes the key from topic or client id where the publisher gives none."""

import pytest

import support.mqtt.packets as mqtt
from sluicegate.actors.messages.operations import MOVE
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.queues.explanations import DestinationView, ExampleMessage
from sluicegate.gateway.views.queues.messages import MessageView
from sluicegate.gateway.views.queues.selections import FIELDS_OF_MOVE, selection_from_dict
from sluicegate.messaging.queues.definition import QueueInvalid
from support.broker.named_queues import change, create, shown
from support.broker.running_broker import RunningBroker

DEVICES = [f"device-{number}" for number in range(12)]


async def partitioned(broker: RunningBroker, name: str = "q", *, source: str, collects: bool = True) -> None:
    """Create a queue of four partitions."""
    await create(
        broker,
        name,
        access_type="non-exclusive",
        partition_count=4,
        partition_key_source=source,
        subscriptions=["plant/>"] if collects else [],
    )


async def messages(broker: RunningBroker, name: str = "q") -> list[MessageView]:
    return list(await NodeOperations(broker.node).browse_queue(name, limit=1000))


async def explained(broker: RunningBroker, topic: str, **message: object) -> DestinationView:
    specimen = ExampleMessage(topic=topic, **message)  # type: ignore[arg-type]  # fields of a specimen
    [destination] = (await NodeOperations(broker.node).explain_publish(specimen, queue=None)).destinations
    return destination


@pytest.mark.parametrize("level", [3, 4])
async def test_the_level_of_a_topic_is_the_key_where_the_client_cannot_give_one(
    broker: RunningBroker, level: int
) -> None:
    """One packet at a time and many in a read: `explain` says beforehand where each goes, and it goes there."""
    await partitioned(broker, source="topic-level:2")
    client = await broker.connect(level=level)
    for device in DEVICES:
        await client.publish(f"plant/{device}/temperature", qos=1)
    ids = {device: client.next_packet_id() for device in DEVICES}
    client.send(
        *[mqtt.publish(f"plant/{each}", b"x", level=level, qos=1, packet_id=number) for each, number in ids.items()]
    )
    for number in ids.values():
        assert await client.answered(mqtt.PUBACK, number) == 0

    found = await messages(broker)

    assert len(found) == 2 * len(DEVICES)
    for device in DEVICES:
        destination = await explained(broker, f"plant/{device}/temperature")
        assert f"the key '{device}' from level 2 of the topic has hash" in destination.partition_reason
        assert {each.partition for each in found if each.key == device} == {destination.partition}
    assert len({each.partition for each in found}) > 1


async def test_the_client_id_can_be_the_key(broker: RunningBroker) -> None:
    await partitioned(broker, source="client-id")
    for device in DEVICES:
        client = await broker.connect(device, level=4)
        for number in range(2):
            await client.publish(f"plant/{number}", qos=1)

    found = await messages(broker)

    for device in DEVICES:
        destination = await explained(broker, "plant/0", client_id=device)
        assert {each.partition for each in found if each.key == device} == {destination.partition}
    nobody = await explained(broker, "plant/0")
    assert (nobody.partition, "was not given" in nobody.partition_reason) == (None, True)


async def test_a_publisher_s_own_key_counts_before_the_topic(broker: RunningBroker) -> None:
    await partitioned(broker, source="topic-level:2")
    client = await broker.connect(level=5)
    await client.publish("plant/device-1", properties=mqtt.user_property("JMSXGroupID", "mine"))
    await client.publish("plant/device-1")
    found = await messages(broker)
    assert {each.key for each in found} == {"mine", "device-1"}
    for key, given in (("mine", "mine"), ("device-1", None)):
        destination = await explained(broker, "plant/device-1", key=given)
        assert [each.partition for each in found if each.key == key] == [destination.partition]


async def test_a_topic_without_that_level_has_no_key(broker: RunningBroker) -> None:
    await partitioned(broker, source="topic-level:3")
    await (await broker.connect(level=4)).publish("plant/device-1", qos=1)
    [message] = await messages(broker)
    assert message.key is None
    destination = await explained(broker, "plant/device-1")
    assert (destination.partition, "at random" in destination.partition_reason) == (None, True)


async def test_each_queue_finds_its_own_key_for_one_message_over_a_restart(broker: RunningBroker) -> None:
    """What is found is not written: it is found again."""
    await partitioned(broker, "by-level", source="topic-level:2")
    await partitioned(broker, "by-client", source="client-id")
    await partitioned(broker, "as-given", source="property")
    client = await broker.connect("sender", level=4)
    for device in DEVICES:
        await client.publish(f"plant/{device}", qos=1)
    before = {name: await messages(broker, name) for name in ("by-level", "by-client", "as-given")}
    assert {each.key for each in before["by-level"]} == set(DEVICES)
    assert {each.key for each in before["by-client"]} == {"sender"}
    assert {each.key for each in before["as-given"]} == {None}

    await broker.restart()

    assert {name: await messages(broker, name) for name in before} == before


async def test_messages_move_to_a_queue_by_the_key_that_it_finds(broker: RunningBroker) -> None:
    await create(broker, subscriptions=["plant/>"])
    await partitioned(broker, "other", source="topic-level:2", collects=False)
    client = await broker.connect(level=4)
    for device in DEVICES:
        await client.publish(f"plant/{device}", qos=1)
    await NodeOperations(broker.node).take_messages("q", MOVE, selection_from_dict({"to": "other"}, FIELDS_OF_MOVE))
    await partitioned(broker, "like", source="topic-level:2")
    for device in DEVICES:
        await client.publish(f"plant/{device}", qos=1)

    places = {each.key: each.partition for each in await messages(broker, "other")}
    assert places == {each.key: each.partition for each in await messages(broker, "like")}


async def test_the_source_of_keys_changes_while_the_queue_is_in_use(broker: RunningBroker) -> None:
    """What waits stays where it is; what comes goes by the new source."""
    await partitioned(broker, source="property")
    view = await change(broker, partition_key_source="topic-level:2")
    assert view.config.partition_key_source == "topic-level:2"
    client = await broker.connect(level=4)
    for _ in range(5):
        await client.publish("plant/device-1", qos=1)
    assert len({each.partition for each in await messages(broker)}) == 1
    with pytest.raises(QueueInvalid, match="partition_key_source: 'topic-level:0' is not allowed"):
        await change(broker, partition_key_source="topic-level:0")
    assert (await shown(broker)).config.partition_key_source == "topic-level:2"
