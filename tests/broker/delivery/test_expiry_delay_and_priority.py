"""Expiry, delay, priority and last-value queues (Solace 4.2, 4.6, 4.9, 4.10, 6.6)."""

import asyncio

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.queues.queues import QueueView
from sluicegate.storage.errors import StoreFull
from sluicegate.storage.interface import CommitJob
from support.broker.named_queues import change, create, shown, shows
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import RawClient

HOUR_S = 3600


async def consumer(broker: RunningBroker, client_id: str) -> RawClient:
    """Return a client with a flow on the queue."""
    client = await broker.connect(client_id, level=5)
    assert await client.subscribe("$queue/q", qos=1) == [1]
    return client


def later(seconds: float) -> bytes:
    """Return the property by which a publisher delays a message."""
    return mqtt.user_property("sluicegate-delivery-delay-ms", str(int(seconds * 1000)))


def gave_up(view: QueueView, **counts: int) -> bool:
    """Return whether a queue has given up so many messages for these reasons, and no others."""
    return view.discards == counts


async def test_a_message_expires_without_a_consumer(broker: RunningBroker) -> None:
    """Solace 4.9: maxTtl counts from the arrival on the queue."""
    await create(broker, subscriptions=["t"], respect_ttl_enabled=True, max_ttl=1)
    await (await broker.connect()).publish("t", b"short-lived", qos=1)

    view = await shows(broker, lambda view: view.ready_count == 0 and bool(view.discards))

    assert gave_up(view, expired_discarded=1)


async def test_the_earlier_of_two_expiries_counts_and_neither_unless_it_is_respected(broker: RunningBroker) -> None:
    """Solace 4.9: both need respectTtl on the endpoint. It is switched on while messages wait."""
    await create(broker, subscriptions=["t"], max_ttl=2 * HOUR_S)
    publisher = await broker.connect(level=5)
    await publisher.publish("t", b"an hour", qos=1, properties=mqtt.message_expiry(HOUR_S))
    await publisher.publish("t", b"two hours", qos=1, properties=mqtt.message_expiry(3 * HOUR_S))
    broker.clock.forward(HOUR_S + 1)
    await shows(broker, lambda view: view.ready_count == 2)

    await change(broker, respect_ttl_enabled=True)
    await shows(broker, lambda view: gave_up(view, expired_discarded=1) and view.ready_count == 1)
    broker.clock.forward(HOUR_S)
    await publisher.publish("t", b"gives the queue a turn", qos=1)

    await shows(broker, lambda view: gave_up(view, expired_discarded=2) and view.ready_count == 1)


async def test_a_message_that_a_consumer_holds_does_not_expire(broker: RunningBroker) -> None:
    """Solace 4.9: the consumer may finish."""
    await create(broker, subscriptions=["t"], respect_ttl_enabled=True, max_ttl=60)
    worker = await consumer(broker, "worker")
    await (await broker.connect()).publish("t", b"held", qos=1)
    message = await worker.message()
    broker.clock.forward(61)
    worker.acknowledge(message)

    view = await shows(broker, lambda view: view.unacked_count == 0)

    assert view.discards == {}


async def test_a_delayed_message_is_overtaken_and_comes_when_it_is_due(broker: RunningBroker) -> None:
    """Its publisher asked for it. It was never delivered, and is not flagged as if."""
    await create(broker, subscriptions=["t"])
    worker = await consumer(broker, "worker")
    publisher = await broker.connect(level=5)
    publisher.send(  # in one segment, so that the broker has both before the first is due
        mqtt.publish("t", b"later", level=5, qos=1, packet_id=1, properties=later(0.5)),
        mqtt.publish("t", b"now", level=5, qos=1, packet_id=2),
    )

    first, second = await worker.messages(2)

    assert [first.payload, second.payload] == [b"now", b"later"]
    assert ("sluicegate-redelivered", "true") not in second.values(38)


async def test_delays_and_expiries_outlast_a_restart(broker: RunningBroker) -> None:
    """What the spool has is enough to know them."""
    await create(broker, subscriptions=["t"], respect_ttl_enabled=True)
    publisher = await broker.connect(level=5)
    await publisher.publish("t", b"due in an hour", qos=1, properties=later(HOUR_S))
    await publisher.publish("t", b"lives for a minute", qos=1, properties=mqtt.message_expiry(60))
    await broker.restart()
    broker.clock.forward(61)
    worker, publisher = await consumer(broker, "worker"), await broker.connect(level=5)
    await publisher.publish("t", b"new", qos=1)
    assert await worker.payloads(1) == [b"new"]
    await shows(broker, lambda view: gave_up(view, expired_discarded=1))
    broker.clock.forward(HOUR_S)
    await publisher.publish("t", b"newer", qos=1)

    assert await worker.payloads(2) == [b"due in an hour", b"newer"]


async def test_every_message_of_a_queue_is_delayed_where_the_queue_says_so(broker: RunningBroker) -> None:
    """Solace 4.2: deliveryDelay."""
    await create(broker, subscriptions=["t"], delivery_delay_s=1)
    worker = await consumer(broker, "worker")
    published_ms = broker.clock.wall_ms()
    await (await broker.connect()).publish("t", b"a second later", qos=1)

    assert (await worker.message()).payload == b"a second later"
    assert broker.clock.wall_ms() - published_ms >= 1000


async def test_higher_priorities_are_delivered_first(broker: RunningBroker) -> None:
    """Solace 4.10: 9 first, FIFO within a priority, 4 without one."""
    await create(broker, subscriptions=["t"], respect_msg_priority_enabled=True)
    publisher = await broker.connect(level=5)
    for payload, priority in [(b"low", "1"), (b"high", "9"), (b"higher, later", "9")]:
        await publisher.publish("t", payload, qos=1, properties=mqtt.user_property("priority", priority))
    await publisher.publish("t", b"none", qos=1)

    worker = await consumer(broker, "worker")

    assert await worker.payloads(4) == [b"high", b"higher, later", b"none", b"low"]


async def test_a_delivery_that_is_not_settled_in_time_goes_to_another_consumer(broker: RunningBroker) -> None:
    """Ours; what the late one says does no harm."""
    await create(broker, subscriptions=["t"], access_type="non-exclusive", consumer_ack_timeout_ms=60_000)
    hangs = await consumer(broker, "hangs")
    await (await broker.connect()).publish("t", b"work", qos=1)
    held = await hangs.message()
    works = await consumer(broker, "works")
    broker.clock.forward(65)  # locks that run out together last up to a sixteenth longer
    await shown(broker)  # gives the queue a turn

    message = await works.message()
    assert ("sluicegate-redelivered", "true") in message.values(38)
    works.acknowledge(message)
    hangs.acknowledge(held)

    await shows(broker, lambda view: view.ready_count == 0 and view.unacked_count == 0)


async def test_a_failed_message_waits_and_its_key_behind_it(broker: RunningBroker) -> None:
    """Order is kept where the queue keeps one; another key goes on meanwhile."""
    await create(
        broker,
        subscriptions=["t"],
        redelivery_delay_enabled=True,
        redelivery_delay_initial_interval_ms=1_000 * HOUR_S,
        redelivery_delay_max_interval_ms=1_000 * HOUR_S,
    )
    first = await consumer(broker, "first")
    publisher = await broker.connect(level=5)
    await publisher.publish("t", b"fails", qos=1, properties=mqtt.user_property("JMSXGroupID", "k"))
    await first.message()
    await first.vanish()
    await shows(broker, lambda view: not view.flows)
    await publisher.publish("t", b"same key", qos=1, properties=mqtt.user_property("JMSXGroupID", "k"))
    await publisher.publish("t", b"other key", qos=1, properties=mqtt.user_property("JMSXGroupID", "other"))

    second = await consumer(broker, "second")

    assert await second.payloads(1) == [b"other key"]
    broker.clock.forward(HOUR_S)
    await publisher.publish("t", b"gives the queue a turn", qos=1)
    assert await second.payloads(3) == [b"fails", b"same key", b"gives the queue a turn"]


async def test_the_delay_of_a_failed_message_outlasts_a_restart(broker: RunningBroker) -> None:
    """It waits for the rest of its time, and its key behind it; a crash forgets that it failed."""
    delay_ms = 1_000 * HOUR_S
    await create(
        broker,
        subscriptions=["t"],
        redelivery_delay_enabled=True,
        redelivery_delay_initial_interval_ms=delay_ms,
        redelivery_delay_max_interval_ms=delay_ms,
    )
    first, publisher = await consumer(broker, "first"), await broker.connect(level=5)
    await publisher.publish("t", b"fails", qos=1, properties=mqtt.user_property("JMSXGroupID", "k"))
    await first.message()
    await first.vanish()
    await shows(broker, lambda view: not view.flows)
    await publisher.publish("t", b"same key", qos=1, properties=mqtt.user_property("JMSXGroupID", "k"))
    broker.clock.forward(HOUR_S // 2)
    await broker.restart()

    second, publisher = await consumer(broker, "second"), await broker.connect(level=5)
    await publisher.publish("t", b"other key", qos=1, properties=mqtt.user_property("JMSXGroupID", "other"))
    assert await second.payloads(1) == [b"other key"]
    broker.clock.forward(HOUR_S // 2)
    await shown(broker)  # gives the queue a turn
    failed, behind = await second.messages(2)
    assert [failed.payload, behind.payload] == [b"fails", b"same key"]
    assert ("sluicegate-delivery-count", "2") in failed.values(38)


async def test_nothing_is_delivered_twice_where_redelivery_is_off(broker: RunningBroker) -> None:
    """Solace 4.2: redeliveryEnabled."""
    await create(broker, subscriptions=["t"], redelivery_enabled=False)
    worker = await consumer(broker, "worker")
    await (await broker.connect()).publish("t", b"once", qos=1)
    await worker.message()
    await worker.vanish()

    view = await shows(broker, lambda view: bool(view.discards))

    assert gave_up(view, max_redelivery_exceeded_discarded=1)


async def test_a_last_value_queue_keeps_its_newest_message(broker: RunningBroker) -> None:
    """Solace 4.6: maxMsgSpoolUsage = 0; readers browse it, and what a consumer holds of old ones counts no more."""
    await create(broker, subscriptions=["t"], max_msg_spool_usage=0)
    worker = await consumer(broker, "worker")
    publisher = await broker.connect()
    for payload in (b"1", b"2", b"3"):
        await publisher.publish("t", payload, qos=1)
    held = [await worker.message() for _ in range(3)]
    view = await shows(broker, lambda view: view.unacked_count == 1)
    assert gave_up(view, replaced_discarded=2)
    worker.acknowledge(*held[:2])

    (kept,) = await NodeOperations(broker.node).browse_queue("q")

    assert kept.payload == "3"


class RefusingStore:
    """Has a node's store refuse what brings messages, as one without room does, until it is told otherwise."""

    def __init__(self, broker: RunningBroker, patch: pytest.MonkeyPatch) -> None:
        self.refuses = True
        self._commit = broker.node.services.store.commit
        patch.setattr(broker.node.services.store, "commit", self._carry_out)

    def _carry_out(self, job: CommitJob) -> int:
        if self.refuses and job.record is not None and not job.uses_reserve:
            raise StoreFull("map", "no room in this test")
        return self._commit(job)


async def test_a_last_value_stays_until_the_store_has_taken_the_next_one(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Solace 4.6 with a spool that is full: what was refused has replaced nothing, with a consumer or without."""
    await create(broker, subscriptions=["t"], max_msg_spool_usage=0)
    publisher = await broker.connect(level=5)
    assert await publisher.publish("t", b"old", qos=1) == 0
    store = RefusingStore(broker, monkeypatch)

    assert await publisher.publish("t", b"refused", qos=1) >= 0x80

    view = await shows(broker, lambda view: view.ready_count == 1)
    assert gave_up(view, not_stored_discarded=1)
    worker = await consumer(broker, "worker")
    held = await worker.message()
    assert held.payload == b"old"
    store.refuses = False
    await takes_messages_again(broker)
    assert await publisher.publish("t", b"new", qos=1) == 0
    await shows(broker, lambda view: view.discards == {"not_stored_discarded": 1, "replaced_discarded": 1})
    assert (await worker.message()).payload == b"new"
    worker.acknowledge(held)
    assert [each.payload for each in await NodeOperations(broker.node).browse_queue("q")] == ["new"]


async def takes_messages_again(broker: RunningBroker) -> None:
    async with asyncio.timeout(20):
        while broker.node.services.spool_gate.blocked:
            await asyncio.sleep(0.02)
