"""Dead messages go to the dead message queue with their reason, and stay there over a restart (Solace 4.8)."""

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.queues.messages import MessageView
from sluicegate.storage.errors import StoreFailed
from sluicegate.storage.interface import CommitJob
from support.broker.named_queues import change, create, shown, shows
from support.broker.operator_views import event_texts
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import RawClient

DMQ = "#DEAD_MSG_QUEUE"
IMPLEMENTATION_ERROR = 0x83
USER_PROPERTY = 38
KEY = "JMSXGroupID"


async def browsed(broker: RunningBroker, name: str = DMQ) -> list[MessageView]:
    return list(await NodeOperations(broker.node).browse_queue(name))


async def consumer(broker: RunningBroker, name: str = "q", client_id: str = "worker") -> RawClient:
    client = await broker.connect(client_id, level=5)
    assert await client.subscribe(f"$queue/{name}", qos=1) == [1]
    return client


async def reject_next(client: RawClient) -> None:
    """Refuse the next message for good."""
    client.send(mqtt.puback((await client.message()).packet_id, IMPLEMENTATION_ERROR))


async def holds(broker: RunningBroker, count: int, name: str = DMQ) -> None:
    """Wait until a queue has so many messages."""
    await shows(broker, lambda view: view.ready_count + view.unacked_count == count, name)


async def counts(broker: RunningBroker, name: str = "q", **discards: int) -> None:
    """Wait until a queue has given up so many messages, by reason and outcome."""
    await shows(broker, lambda view: view.discards == discards, name)


def user_properties(message: mqtt.Published) -> dict[str, str]:
    pairs = [value for value in message.values(USER_PROPERTY) if isinstance(value, tuple)]
    return dict(pairs)


async def test_a_rejected_message_arrives_with_its_reason_and_its_own_properties(broker: RunningBroker) -> None:
    """Why, from where, and how often it was tried; what the publisher wrote is as it was."""
    await create(broker, DMQ)
    await create(broker, subscriptions=["t"])
    worker = await consumer(broker)
    await (await broker.connect(level=5)).publish("t", b"bad", properties=mqtt.user_property("mine", "1"))
    await reject_next(worker)
    await holds(broker, 1)

    message = await (await consumer(broker, DMQ, "undertaker")).message()

    properties = user_properties(message)
    assert message.payload == b"bad"
    assert message.topic == "t"
    assert properties.pop("sluicegate-dead-time-ms").isdigit()
    assert properties == {
        "mine": "1",
        "sluicegate-partition": "0",
        "sluicegate-dead-reason": "rejected",
        "sluicegate-dead-queue": "q",
        "sluicegate-dead-partition": "0",
        "sluicegate-dead-delivery-count": "1",
        "sluicegate-dead-client": "worker",
    }
    await counts(broker, rejected_to_dmq=1)


async def test_a_message_that_failed_too_often_says_how_often(broker: RunningBroker) -> None:
    """Solace 13.4: with a maximum of 1 the second failure is the last."""
    await create(broker, DMQ)
    await create(broker, subscriptions=["t"], max_redelivery_count=1)
    await (await broker.connect()).publish("t", b"poison")
    for _ in range(2):
        worker = await consumer(broker)
        await worker.message()
        await worker.vanish()
    await holds(broker, 1)

    (message,) = await browsed(broker)

    assert message.dead is not None
    assert (message.dead.reason, message.dead.delivery_count, message.dead.client) == (
        "max_redelivery_exceeded",
        2,
        "worker",
    )
    await counts(broker, max_redelivery_exceeded_to_dmq=1)


async def test_an_expired_message_gets_a_new_time_to_live_where_it_goes(broker: RunningBroker) -> None:
    """Solace 4.8: TTL restarts. The dead message queue respects it here, and would drop it at once otherwise."""
    await create(broker, DMQ, respect_ttl_enabled=True)
    await create(broker, subscriptions=["t"], respect_ttl_enabled=True)
    await (await broker.connect(level=5)).publish("t", b"late", properties=mqtt.message_expiry(60))
    broker.clock.forward(61)
    await consumer(broker)
    await holds(broker, 1)

    message = await (await consumer(broker, DMQ, "undertaker")).message()

    assert user_properties(message)["sluicegate-dead-reason"] == "expired"
    assert message.values(2) == [60]
    assert "sluicegate-dead-client" not in user_properties(message), "nobody is to blame"


async def test_dead_messages_keep_their_reason_over_a_restart(broker: RunningBroker) -> None:
    """Also over one after which they are read from the journal, or from a page."""
    await create(broker, DMQ)
    await create(broker, subscriptions=["t"])
    worker = await consumer(broker)
    publisher = await broker.connect()
    for number in range(3):
        await publisher.publish("t", b"%d" % number)
        await reject_next(worker)
    await counts(broker, rejected_to_dmq=3)
    before = await browsed(broker)
    await broker.restart()

    assert [message.dead for message in await browsed(broker)] == [message.dead for message in before]
    assert await browsed(broker, "q") == []
    assert (await shown(broker)).spooled_bytes == 0


async def test_a_partitioned_dead_message_queue_goes_by_the_key(broker: RunningBroker) -> None:
    """Solace 4.8: the hash of the key chooses the partition; without one it is partition 0."""
    await create(broker, DMQ, access_type="non-exclusive", partition_count=4)
    await create(broker, "like", access_type="non-exclusive", partition_count=4, subscriptions=["t"])
    await create(broker, subscriptions=["t"])
    worker = await consumer(broker)
    publisher = await broker.connect(level=5)
    for key in ("a", "b", "c", "d", "e"):
        await publisher.publish("t", key.encode(), properties=mqtt.user_property(KEY, key))
        await reject_next(worker)
    for _ in range(5):
        await publisher.publish("t", b"without")
        await reject_next(worker)
    await holds(broker, 10)

    dead = {message.payload: message.partition for message in await browsed(broker) if message.key}
    assert dead == {message.payload: message.partition for message in await browsed(broker, "like") if message.key}
    assert {message.partition for message in await browsed(broker) if message.key is None} == {0}


async def test_without_a_dead_message_queue_messages_are_dropped_and_counted(broker: RunningBroker) -> None:
    """Solace 4.8: it is not created by itself."""
    await create(broker, subscriptions=["t"])
    worker = await consumer(broker)
    await (await broker.connect()).publish("t", b"bad")
    await reject_next(worker)

    await counts(broker, rejected_discarded=1)
    assert (await shown(broker)).spooled_bytes == 0


async def test_messages_that_the_dead_message_queue_refuses_are_dropped_and_counted(broker: RunningBroker) -> None:
    """Solace 4.8: ...ToDmqFailed. What fits in is taken."""
    await create(broker, DMQ, max_msg_size=3)
    await create(broker, subscriptions=["t"])
    worker = await consumer(broker)
    publisher = await broker.connect()
    for payload in (b"ok", b"too large"):
        await publisher.publish("t", payload)
        await reject_next(worker)

    await counts(broker, rejected_to_dmq=1, rejected_to_dmq_failed=1)
    assert [message.payload for message in await browsed(broker)] == ["ok"]


async def test_a_dead_message_that_the_store_cannot_take_now_is_moved_later(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was confirmed, and its queue has it: one write that fails is no reason to lose it."""
    await create(broker, DMQ)
    await create(broker, subscriptions=["t"])
    worker = await consumer(broker)
    await (await broker.connect()).publish("t", b"bad")
    commit, refused = broker.node.services.store.commit, list[CommitJob]()

    def refuse_twice(job: CommitJob) -> int:
        if len(refused) < 2:
            refused.append(job)
            raise StoreFailed("input/output error")
        return commit(job)

    monkeypatch.setattr(broker.node.services.store, "commit", refuse_twice)
    await reject_next(worker)

    await counts(broker, rejected_to_dmq=1)
    assert len(refused) == 2
    await broker.restart()
    assert [message.payload for message in await browsed(broker)] == ["bad"]


async def test_only_marked_messages_go_where_the_mark_is_respected(broker: RunningBroker) -> None:
    """Solace 4.8: respectDmqEligibleEnabled. MQTT has no mark, so nothing from there is kept."""
    await create(broker, DMQ)
    await create(broker, subscriptions=["t"], respect_dmq_eligible_enabled=True)
    worker = await consumer(broker)
    publisher = await broker.connect()
    await publisher.publish("t", b"one")
    await reject_next(worker)
    await counts(broker, rejected_discarded=1)
    await change(broker, respect_dmq_eligible_enabled=False)
    await publisher.publish("t", b"two")
    await reject_next(worker)
    await holds(broker, 1)

    assert [message.payload for message in await browsed(broker)] == ["two"]


async def test_a_message_that_dies_again_keeps_its_first_death_and_tells_its_way(broker: RunningBroker) -> None:
    """A dead message queue may name another one."""
    await create(broker, DMQ)
    await create(broker, "q.dead", dead_msg_queue=DMQ)
    await create(broker, subscriptions=["t"], dead_msg_queue="q.dead")
    worker, undertaker = await consumer(broker), await consumer(broker, "q.dead", "undertaker")
    await (await broker.connect()).publish("t", b"bad")
    await reject_next(worker)
    await reject_next(undertaker)
    await holds(broker, 1)

    (message,) = await browsed(broker)

    assert message.dead is not None
    assert (message.dead.queue, message.dead.client, message.dead.via) == ("q", "worker", ("q.dead",))


async def test_two_queues_that_name_each_other_do_not_play_ball(broker: RunningBroker) -> None:
    """A message never goes where it died before."""
    await create(broker, "a", dead_msg_queue="b", subscriptions=["t"])
    await create(broker, "b", dead_msg_queue="a")
    first, second = await consumer(broker, "a", "first"), await consumer(broker, "b", "second")
    await (await broker.connect()).publish("t", b"bad")
    await reject_next(first)
    await reject_next(second)

    await counts(broker, "b", rejected_discarded=1)
    await counts(broker, "a", rejected_to_dmq=1)
    await holds(broker, 0, "a")
    await holds(broker, 0, "b")


async def test_the_dead_message_queue_has_an_address_that_every_client_can_send(broker: RunningBroker) -> None:
    """MQTT 4.7.1-1: a client that checks its filters sends no # before a name."""
    await create(broker, DMQ)
    client = await broker.connect("undertaker", level=5)

    assert await client.subscribe("$queue/$DEAD_MSG_QUEUE", "$queue/#other", qos=1) == [1, 0x87]
    assert [flow.client for flow in (await shown(broker, DMQ)).flows] == ["undertaker"]


@pytest.mark.settings("spool.memory_bytes_max=1MiB")
async def test_a_backlog_that_expires_in_pages_leaves_as_a_whole(broker: RunningBroker) -> None:
    """Messages that lie on disk, more of them than are moved at once."""
    count = 6000
    await create(broker, DMQ)
    await create(broker, subscriptions=["t"], respect_ttl_enabled=True)
    publisher = await broker.connect(level=5)
    for start in range(0, count, 100):
        publisher.send(
            *[
                mqtt.publish(
                    "t", b"%0500d" % number, level=5, qos=1, packet_id=number + 1, properties=mqtt.message_expiry(60)
                )
                for number in range(start, start + 100)
            ]
        )
        for _ in range(100):
            await publisher.awaited(mqtt.PUBACK)
    broker.clock.forward(61)
    await consumer(broker)

    await holds(broker, count)

    await counts(broker, expired_to_dmq=count)
    undertaker = await consumer(broker, DMQ, "undertaker")
    payloads = [int(payload) for payload in await undertaker.payloads(count)]
    assert payloads == list(range(count)), "in their order"


async def test_the_loss_of_dead_messages_is_reported_until_their_queue_exists(broker: RunningBroker) -> None:
    """Operators are warned beforehand, and told of the first loss."""
    (warning,) = (await create(broker, subscriptions=["t"])).warnings
    assert f"the dead message queue {DMQ} does not exist" in warning
    worker = await consumer(broker)
    publisher = await broker.connect(level=5)
    for _ in range(2):
        await publisher.publish("t", b"bad")
        await reject_next(worker)
    await counts(broker, rejected_discarded=2)
    (event,) = await event_texts(broker, "VPN_AD_DEAD_MSG_LOST")
    assert "Queue q, partition 0: dead messages are deleted (rejected)" in event
    assert (await create(broker, DMQ)).warnings == ()
    assert (await shown(broker)).warnings == ()
    assert (await create(broker, "without", dead_msg_queue="")).warnings == ()
