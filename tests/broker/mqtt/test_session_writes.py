"""Session state reaches the store in the order that a restart needs (section 4.3.3)."""

import asyncio

import pytest

import support.mqtt.packets as mqtt
from sluicegate.actors.messages.data import Confirmed, SessionRows, StoreRefused
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.inbox import MESSAGES_PER_DRAIN_MAX, Inbox
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.actors.runtime.supervision import ONE_CONNECTION
from sluicegate.actors.runtime.tasks import run
from sluicegate.messaging.message.batch import EXACTLY_ONCE, MessageBatch
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.topics.syntax import Syntax, parse_filter
from sluicegate.protocols.mqtt.session.session import Session
from sluicegate.protocols.mqtt.session.subscriptions import GrantedSubscription
from sluicegate.protocols.mqtt.session.writes import SessionWrites
from support.broker import named_queues
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import DEADLINE_S


class Writer(LoopActor):
    """Stands where a connection would: the spool's confirmations come to it."""

    def __init__(self, cell: ActorCell, broker: RunningBroker) -> None:
        super().__init__(cell)
        self.writes = SessionWrites(cell, broker.node.mqtt.vpns.default.spool, Session("exact", expiry_s=60))

    def on_receive(self, message: object) -> None:
        assert isinstance(message, Confirmed)
        self.writes.confirmed(message.token)


def written_of(spool: Inbox) -> list[bytes]:
    """Return the keys of the last write that a spool was asked for."""
    asked = spool.items[-1]
    assert isinstance(asked, SessionRows)
    return sorted(key for key, _ in asked.rows)


def subscribes(session: Session, text: str) -> None:
    session.grant(text, GrantedSubscription(parse_filter(text, Syntax.MQTT), 0, False, False, 0, 0, None))
    session.changed(text)


async def test_packet_ids_are_stored_no_earlier_than_their_message(broker: RunningBroker) -> None:
    """[4.3.3-10]: ids alone would let it come twice, as its publisher, not confirmed, sends it again after a crash.

    A publish to several partitions is stored when all of them have numbered it; one may have delivered it before.
    """
    runtime = broker.node.services.runtime
    cell = runtime.spawn(lambda cell: Writer(cell, broker), kind="test", name="writer", policy=ONE_CONNECTION)
    batch = MessageBatch(
        topic="t",
        topics=None,
        payloads=[b"everywhere"],
        headers=None,
        qos=EXACTLY_ONCE,
        retain=False,
        publisher="p",
        received_ms=0,
        payload_bytes=10,
    )
    publication = Publication(batch, publisher=None, token=0, partitions_count=2)
    publication.sequenced(1, 1, None)
    written: list[str] = []
    cell.actor.writes.before_exactly_once(lambda: written.append("first"), publication)
    cell.actor.writes.before_exactly_once(lambda: written.append("second"), None)
    other = await broker.connect_durable("other")
    for topic in ("a", "b"):  # each answered after a commit
        await other.subscribe(topic)
    assert written == []

    publication.sequenced(2, 1, None)

    async with asyncio.timeout(DEADLINE_S):
        while len(written) < 2:
            await asyncio.sleep(0.01)
    assert written == ["first", "second"]


async def test_a_client_that_subscribes_again_to_what_it_had_waits_for_no_commit(broker: RunningBroker) -> None:
    """[4.1.0-1]: the store has its session already, and what has it keeps through a restart."""
    client = await broker.connect_durable("again")
    await client.subscribe("a", "b")
    spool = broker.node.services.spool_actor()
    before = spool.commits_count
    assert await client.subscribe("a", "b") == [0, 0]
    assert spool.commits_count == before
    await client.subscribe(("a", 1))
    assert spool.commits_count > before


async def test_a_further_subscription_writes_one_row_only(broker: RunningBroker) -> None:
    """A client may have thousands. What was refused is written with what comes next."""
    runtime, session = broker.node.services.runtime, Session("many", expiry_s=60)
    spool = Inbox(runtime.dispatcher)  # that nobody empties
    cell = runtime.spawn(lambda cell: Writer(cell, broker), kind="test", name="writer", policy=ONE_CONNECTION)
    writes = SessionWrites(cell, spool, session)
    for text in ("a", "b", "c"):
        subscribes(session, text)
    first = run(runtime, writes.store_session(None))
    assert written_of(spool) == [session.state_key(), *map(session.subscription_key, ("a", "b", "c"))]
    writes.confirmed(-1)
    await first

    subscribes(session, "d")
    second = run(runtime, writes.store_subscriptions())
    assert written_of(spool) == [session.subscription_key("d")]
    writes.refused(-2, "full")
    with pytest.raises(StoreRefused):
        await second

    session.table.revoke("b")
    session.changed("b")
    run(runtime, writes.store_subscriptions())
    assert written_of(spool) == [session.subscription_key("b"), session.subscription_key("d")]


async def test_subscriptions_of_every_kind_survive_a_crash_and_those_that_ended_do_not(broker: RunningBroker) -> None:
    await named_queues.create(broker, "orders", subscriptions=["orders/>"])
    client = await broker.connect_durable("device")
    assert await client.subscribe(("gone", 1), ("plain", 1), ("$share/g/shared", 1), ("$queue/orders", 1)) == [1] * 4
    assert await client.unsubscribe("gone") == [0]
    await broker.crash()
    publisher = await broker.connect()
    for topic in ("gone", "plain", "shared", "orders/eu"):
        await publisher.publish(topic, topic.encode(), qos=1)
    back = await broker.connect_durable("device")
    assert sorted(await back.payloads(3)) == [b"orders/eu", b"plain", b"shared"]
    await back.is_quiet()


async def test_a_session_that_a_takeover_ends_leaves_no_packet_ids_to_the_next(broker: RunningBroker) -> None:
    """[3.1.4-4]: what was to be written of it at the end of the turn comes before it is deleted, or not at all.

    Else its client would be told of messages after a crash that this session never had.
    """
    broker.ignores_violations()
    client = await broker.connect_durable("device")
    await client.subscribe("t", qos=2)
    publisher = await broker.connect("publisher")
    await publisher.publish("t", b"once", qos=2)
    sent = await client.message()
    next_client = await broker.open(5)
    await publisher.round_trip()  # it is there
    cells = list(broker.node.mqtt.connections.children or ())
    held, coming = cells[0].behaviour, cells[-1].behaviour

    def both_in_one_turn() -> None:
        held.received(mqtt.pubrec(sent.packet_id))
        coming.received(mqtt.connect("device", level=5, clean_start=True, properties=mqtt.session_expiry(60)))

    asyncio.get_running_loop().call_soon(both_in_one_turn)
    assert not (await next_client.connack()).session_present
    await broker.crash()
    back = await broker.connect_durable("device")
    assert back.accepted.session_present
    await back.is_quiet()


async def test_a_publish_under_way_as_its_session_ends_leaves_no_packet_id_to_the_next(broker: RunningBroker) -> None:
    """[4.3.3-10]: the next session's message under this id would pass for a repetition after a crash, and be lost.

    The first one is stored all the same; its row is written with it, by a partition that had a lot before it.
    """
    broker.ignores_violations()
    await named_queues.create(broker, "q", subscriptions=["t"])
    client = await broker.connect_durable("device")
    await client.subscribe("unused")
    publisher = await broker.connect("publisher")
    next_client = await broker.open(5)
    await publisher.round_trip()  # it is there
    cells = list(broker.node.mqtt.connections.children or ())
    held, coming = cells[0].behaviour, cells[-1].behaviour

    def all_in_one_turn() -> None:
        for number in range(1, 12 * MESSAGES_PER_DRAIN_MAX):
            held.received(mqtt.publish("t", b"before", qos=1, packet_id=number, level=5))
        held.received(mqtt.publish("t", b"one", qos=2, packet_id=1, level=5))
        coming.received(mqtt.connect("device", level=5, clean_start=True, properties=mqtt.session_expiry(60)))

    asyncio.get_running_loop().call_soon(all_in_one_turn)
    await next_client.connack()
    await broker.crash()
    back = await broker.connect_durable("device")
    assert back.accepted.session_present
    back.send(mqtt.publish("t", b"another", qos=2, packet_id=1, level=5))
    await back.answered(mqtt.PUBREC, 1)
    assert (await named_queues.shown(broker)).ready_count == 12 * MESSAGES_PER_DRAIN_MAX + 1


async def test_a_repetition_is_answered_no_earlier_than_the_first_one_is_stored(broker: RunningBroker) -> None:
    """[4.3.3-9]: PUBREC says that it is the broker's now. A partition may take its time to number the first one."""
    broker.ignores_violations()
    await named_queues.create(broker, "q", subscriptions=["t"])
    await (await broker.connect_durable("device")).subscribe("unused")
    back = await broker.open(5)
    publisher = await broker.connect("publisher")
    await publisher.round_trip()  # they are there
    cells = list(broker.node.mqtt.connections.children or ())
    first, second = cells[0].behaviour, cells[1].behaviour
    under_way: list[Publication] = []

    def all_in_one_turn() -> None:
        first.received(mqtt.publish("t", b"m", qos=2, packet_id=1, level=5))
        (entry,) = first.attached.publishing.line.unanswered()
        under_way.append(entry.publication)
        entry.publication.unsequenced_count += 1  # by another partition
        expiry = mqtt.session_expiry(3600)
        second.received(mqtt.connect("device", level=5, clean_start=False, properties=expiry))

    asyncio.get_running_loop().call_soon(all_in_one_turn)
    assert (await back.connack()).session_present
    back.send(mqtt.publish("t", b"m", qos=2, packet_id=1, level=5, dup=True))
    await back.is_quiet()

    (publication,) = under_way
    publication.unsequenced_count -= 1
    await back.answered(mqtt.PUBREC, 1)


@pytest.mark.parametrize("level", [4, 5])
async def test_a_released_packet_id_is_free_after_a_crash_whatever_was_released_beside_it(
    broker: RunningBroker, level: int
) -> None:
    """[4.3.3-12] [4.3.3-13]: another message under it would pass for a repetition, and be lost.

    A client that is back says PUBREL again for what it has heard no PUBCOMP of, which the broker may have forgotten.
    """
    await named_queues.create(broker, "q", subscriptions=["t"])
    client = await broker.connect_durable("device", level)
    client.send(mqtt.publish("t", b"first", qos=2, packet_id=5, level=level))
    await client.answered(mqtt.PUBREC, 5)
    client.send(mqtt.pubrel(4), mqtt.pubrel(5), mqtt.pubrel(6))
    for packet_id, code in ((4, 0x92), (5, 0), (6, 0x92)):
        assert await client.answered(mqtt.PUBCOMP, packet_id) == (code if level == 5 else 0)
    await broker.crash()
    back = await broker.connect_durable("device", level)
    assert back.accepted.session_present
    back.send(mqtt.publish("t", b"second", qos=2, packet_id=5, level=level))
    assert await back.answered(mqtt.PUBREC, 5) == 0
    await named_queues.shows(broker, lambda queue: queue.ready_count == 2)


async def test_a_packet_id_released_on_a_last_connection_is_free_in_the_next_session(broker: RunningBroker) -> None:
    """[3.1.2-23]: a session that was kept may end with its connection; what is stored of it goes with it."""
    await named_queues.create(broker, "q", subscriptions=["t"])
    client = await broker.connect_durable("device")
    client.send(mqtt.publish("t", b"first", qos=2, packet_id=5, level=5))
    await client.answered(mqtt.PUBREC, 5)
    await client.vanish()
    client = await broker.connect("device", 5, clean_start=False)
    assert client.accepted.session_present
    client.send(mqtt.pubrel(5))
    assert await client.answered(mqtt.PUBCOMP, 5) == 0
    await client.leave()
    assert not (await broker.connect_durable("device")).accepted.session_present
    await broker.crash()
    back = await broker.connect_durable("device")
    assert back.accepted.session_present
    back.send(mqtt.publish("t", b"second", qos=2, packet_id=5, level=5))
    assert await back.answered(mqtt.PUBREC, 5) == 0
    await named_queues.shows(broker, lambda queue: queue.ready_count == 2)


async def test_a_new_session_has_nothing_of_what_an_ended_one_was_subscribed_to(broker: RunningBroker) -> None:
    """[3.1.4-4]: not after a crash either, when all is there is what the store has."""
    first = await broker.connect_durable("device")
    await first.subscribe(("old", 1))
    await first.leave()
    second = await broker.connect("device", 5, properties=mqtt.session_expiry(3600))
    await second.subscribe(("new", 1))
    await broker.crash()
    publisher = await broker.connect()
    for topic in ("old", "new"):
        await publisher.publish(topic, topic.encode(), qos=1)
    back = await broker.connect_durable("device")
    assert await back.payloads(1) == [b"new"]
    await back.is_quiet()
