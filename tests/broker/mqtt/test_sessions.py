"""Sessions: what outlives a connection, for how long, and for which client (sections 3.1.2.4, 3.1.2.11, 4.1)."""

import asyncio
import threading
from typing import cast

import pytest

import support.mqtt.packets as mqtt
from sluicegate.actors.messages.directory import ListQueues
from sluicegate.actors.messages.queues import PurgeQueue
from sluicegate.messaging.observability.events import CLIENT_DISCONNECTED
from sluicegate.storage.interface import CommitJob
from support.broker.running_broker import RunningBroker
from support.mqtt.packets import Published, WillPart
from support.mqtt.raw_client import DEADLINE_S, RawClient


@pytest.mark.parametrize("level", [3, 4, 5])
async def test_messages_wait_for_a_client_that_keeps_its_session(broker: RunningBroker, level: int) -> None:
    """[3.1.2-5] [3.2.2-3]; 3.1 has no Session Present flag, and resumes all the same."""
    client = await broker.connect_durable("sleeper", level)
    assert not client.accepted.session_present
    await client.subscribe("t", qos=1)
    await client.leave()
    publisher = await broker.connect()
    for number in range(3):
        await publisher.publish("t", b"%d" % number)

    client = await broker.connect_durable("sleeper", level)

    assert client.accepted.session_present == (level > 3)
    assert await client.payloads(3) == [b"0", b"1", b"2"]
    await client.is_quiet()


async def test_a_clean_session_forgets_everything_and_leaves_nothing(broker: RunningBroker) -> None:
    """[311:3.1.2-6]."""
    client = await broker.connect_durable("sleeper", 4)
    await client.subscribe("t", qos=1)
    await client.leave()
    publisher = await broker.connect()
    await publisher.publish("t")

    client = await broker.connect("sleeper", clean_start=True)
    assert not client.accepted.session_present
    await publisher.publish("t")
    await client.is_quiet()
    await client.leave()

    client = await broker.connect("sleeper", clean_start=False)
    assert not client.accepted.session_present


async def test_a_session_ends_when_its_expiry_interval_has_passed(broker: RunningBroker) -> None:
    """[4.1.0-2] [3.1.2-23]; it is that of the latest close, and begins with it."""
    client = await broker.connect("brief", 5, properties=mqtt.session_expiry(4))
    await client.leave()
    client = await broker.connect("brief", 5, clean_start=False, properties=mqtt.session_expiry(1000))
    assert client.accepted.session_present
    await client.leave()
    await asyncio.sleep(4.1)  # the interval of the first close
    client = await broker.connect("brief", 5, clean_start=False, properties=mqtt.session_expiry(1))
    assert client.accepted.session_present
    await client.leave()
    await broker.has_no_more_than(sessions=0, queues=0)
    client = await broker.connect("brief", 5, clean_start=False)
    assert not client.accepted.session_present


async def test_a_session_does_not_expire_while_its_client_is_connected(broker: RunningBroker) -> None:
    """[4.1.0-1]."""
    client = await broker.connect("brief", 5, properties=mqtt.session_expiry(1))
    await client.subscribe("t")
    await asyncio.sleep(1.3)
    publisher = await broker.connect()
    await publisher.publish("t", b"still here")
    assert await client.payloads(1) == [b"still here"]


@pytest.mark.parametrize("crashed", [False, True])
async def test_a_session_expires_however_often_the_broker_is_started_meanwhile(
    broker: RunningBroker, crashed: bool
) -> None:
    """Section 3.1.2.11.2. After a crash with the client connected it counts from the start behind it, and goes on."""
    client = await broker.connect("brief", 5, properties=mqtt.session_expiry(100))
    if crashed:
        await broker.crash()
    else:
        await client.vanish()
        await broker.restart()
    for _ in range(2):
        assert broker.node.default.sessions_count == 1
        broker.forward(60)
        await broker.restart()
    await broker.has_no_more_than(sessions=0, queues=0)


async def test_a_delayed_will_does_not_prolong_its_session(broker: RunningBroker) -> None:
    """Section 3.1.2.11.2: the interval counts from the end of the connection."""
    witness = await broker.connect()
    await witness.subscribe("will/topic")
    will = WillPart(properties=mqtt.will_delay(1))
    client = await broker.connect("brief", 5, will=will, properties=mqtt.session_expiry(100))
    await client.vanish()
    async with asyncio.timeout(DEADLINE_S):
        while len(broker.node.mqtt.open_connections()) > 1:
            await asyncio.sleep(0.01)
    await broker.connect("another", 5)  # whoever is let in now comes behind the end of that session's connection
    broker.forward(60)
    assert await witness.payloads(1) == [b"gone"]
    broker.forward(60)
    await broker.restart()
    await broker.has_no_more_than(sessions=0, queues=0)


async def test_without_an_expiry_interval_the_session_ends_with_the_connection(broker: RunningBroker) -> None:
    """Section 3.1.2.11.2: absent is 0."""
    client = await broker.connect("brief", 5, clean_start=False)
    await client.leave()
    client = await broker.connect("brief", 5, clean_start=False)
    assert not client.accepted.session_present


async def test_a_kept_session_that_its_client_lets_end_does_not_outlive_a_crash(broker: RunningBroker) -> None:
    """[3.1.2-23]: nor does what the client subscribes to meanwhile pile up as something that is still to be stored."""
    client = await broker.connect_durable("device")
    await client.subscribe("t", qos=1)
    await client.vanish()
    client = await broker.connect("device", 5, clean_start=False)
    assert client.accepted.session_present
    for number in range(3):
        await client.subscribe(f"other/{number}", qos=1)
        await client.unsubscribe(f"other/{number}")
    (connection,) = broker.node.mqtt.open_connections()
    assert connection.attached is not None
    assert not connection.attached.session.unstored
    await broker.crash()
    assert not (await broker.connect_durable("device")).accepted.session_present


async def test_disconnect_may_end_a_session_that_was_to_be_kept(broker: RunningBroker) -> None:
    """Section 3.14.2.2.2."""
    client = await broker.connect_durable("leaver")
    await client.leave(0, mqtt.session_expiry(0))
    assert not (await broker.connect_durable("leaver")).accepted.session_present


async def test_disconnect_may_not_prolong_a_session_that_was_to_end(broker: RunningBroker) -> None:
    """Section 3.14.2.2.2: a protocol error, so the will is sent."""
    heir = await broker.connect()
    await heir.subscribe("will/topic")
    client = await broker.connect("leaver", 5, will=WillPart())
    client.send(mqtt.disconnect(0, mqtt.session_expiry(5)))
    await client.is_ended(0x82)
    assert await heir.payloads(1) == [b"gone"]


@pytest.mark.parametrize("level", [3, 4, 5])
async def test_a_client_that_comes_again_ends_its_older_connection(broker: RunningBroker, level: int) -> None:
    """[3.1.4-3] [311:3.1.4-2]."""
    first = await broker.connect("same", level)
    second = await broker.connect("same", level)
    await first.is_ended(0x8E)
    await second.round_trip()


async def test_takeover_hands_over_what_was_not_acknowledged(broker: RunningBroker) -> None:
    """[3.1.4-3] [4.4.0-1]: under the same id, with DUP."""
    first = await broker.connect_durable("same")
    await first.subscribe("t", qos=1)
    publisher = await broker.connect()
    await publisher.publish("t", b"in flight")
    sent = await first.message()
    second = await broker.connect_durable("same")
    await first.is_ended(0x8E)
    again = await second.message()
    assert (again.payload, again.packet_id, again.dup) == (b"in flight", sent.packet_id, True)


@pytest.mark.accounts(ada="engine")
async def test_a_wrong_password_takes_over_no_connection(broker: RunningBroker) -> None:
    """Section 3.1.4: checks come first."""
    client = await broker.connect("same", 5, user_name="ada", password=b"engine")
    intruder = await broker.open(5)
    intruder.send(mqtt.connect("same", level=5, user_name="ada", password=b"guess"))
    await intruder.is_refused(0x86)
    await client.round_trip()


async def test_a_session_goes_on_under_another_protocol_version(broker: RunningBroker) -> None:
    """Section 4.1: the session belongs to the client id, whatever the version."""
    client = await broker.connect_durable("moved", 4)
    await client.subscribe("t", qos=1)
    await client.leave()
    publisher = await broker.connect(level=5)
    await publisher.publish("t", b"old times", properties=mqtt.user_property("k", "v"))

    client = await broker.connect_durable("moved", 5)

    assert client.accepted.session_present
    message = await client.message()
    assert (message.payload, message.values(38)) == (b"old times", [("k", "v")])


@pytest.mark.parametrize("durable", [False, True])
async def test_many_connections_that_race_for_one_id_leave_exactly_one(broker: RunningBroker, durable: bool) -> None:
    """[3.1.4-3]. Who is taken over while its session is being stored is not let in, and hears why."""
    clients = [await broker.open(5) for _ in range(50)]
    expiry = mqtt.session_expiry(60 if durable else 0)
    for client in clients:
        client.send(mqtt.connect("contested", level=5, clean_start=not durable, properties=expiry))
    answers = [(await client.connack()).reason_code for client in clients]
    assert set(answers) <= ({0, 0x80} if durable else {0})
    let_in = [client for client, answer in zip(clients, answers, strict=True) if answer == 0]

    outcomes = await asyncio.gather(*[client.ended_with() for client in let_in])

    assert sorted(outcomes, key=lambda code: code or 0) == [None] + [0x8E] * (len(let_in) - 1)
    survivor = let_in[outcomes.index(None)]
    await survivor.subscribe("t", qos=1)
    await survivor.publish("t", b"alone")
    assert await survivor.payloads(1) == [b"alone"]


@pytest.mark.parametrize("level", [3, 4, 5])
@pytest.mark.parametrize("qos", [1, 2])
async def test_unacknowledged_messages_keep_their_ids_over_a_restart(
    broker: RunningBroker, level: int, qos: int
) -> None:
    """[4.4.0-1]: those sent come with DUP under their ids, those that had no credit without DUP."""
    client = await broker.connect_durable("patient", level)
    await client.subscribe("t", qos=qos)
    publisher = await broker.connect()
    await publisher.publish("t", b"answered", qos=qos)
    await publisher.publish("t", b"sent", qos=qos)
    answered, sent = await client.message(), await client.message()
    await client.completes(answered)
    await client.round_trip()
    await client.vanish()
    await publisher.publish("t", b"never sent", qos=qos)
    await broker.restart()

    client = await broker.connect_durable("patient", level)

    again, fresh = await client.message(), await client.message()
    assert (again.payload, again.packet_id, again.dup) == (b"sent", sent.packet_id, True)
    assert (fresh.payload, fresh.dup) == (b"never sent", False)


async def purged_while_away(broker: RunningBroker, qos: int) -> tuple[RawClient, Published]:
    """Return a client that is back, and the message that was purged while it was away."""
    client = await broker.connect_durable("patient")
    await client.subscribe("t", qos=qos)
    await (await broker.connect("publisher")).publish("t", b"purged", qos=qos)
    sent = await client.message()
    await client.leave()
    (queue,) = await broker.node.default.queues.ask(ListQueues())
    assert await queue.cell.ask(PurgeQueue()) == 1
    return await broker.connect_durable("patient"), sent


async def test_nothing_comes_for_a_qos_1_message_that_is_gone(broker: RunningBroker) -> None:
    """[2.2.1-4]: its packet id is free, and the client knows nothing of it."""
    client, _ = await purged_while_away(broker, 1)
    await (await broker.connect()).publish("t", b"next")
    message = await client.message()
    assert (message.payload, message.dup) == (b"next", False)


async def test_the_packet_id_of_a_qos_2_message_that_is_gone_is_released_before_another_has_it(
    broker: RunningBroker,
) -> None:
    """[4.3.3-1]: the client has it, and would pass over another message under its id."""
    client, sent = await purged_while_away(broker, 2)
    assert await client.answered(mqtt.PUBREL, sent.packet_id) == 0
    await (await broker.connect()).publish("t", b"next", qos=2)
    message = await client.message()
    assert message.packet_id != sent.packet_id


async def test_a_clean_start_is_answered_when_the_store_has_forgotten_the_old_session(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[3.1.2-4] [3.2.2-2]: a crash behind the CONNACK must not bring it back. Who had none need not wait."""
    client = await broker.connect_durable("back")
    await client.subscribe("t", qos=1)
    await client.leave()
    store, may_commit = broker.node.services.store, threading.Event()
    commit = store.commit

    def commit_later(job: CommitJob) -> int:
        assert may_commit.wait(DEADLINE_S)
        return commit(job)

    monkeypatch.setattr(store, "commit", commit_later)
    monkeypatch.setattr(store, "is_at_hand", lambda _: False)  # the loop would wait by itself
    client = await broker.open(5)
    answer = asyncio.ensure_future(client.connect("back", clean_start=True))
    try:
        for number in range(3):
            await (await broker.connect(f"new-{number}", 5)).round_trip()
        assert not answer.done()
    finally:
        may_commit.set()

    assert not (await answer).session_present
    await broker.crash()
    assert not (await broker.connect_durable("back")).accepted.session_present
    assert [each.name for each in await broker.node.default.queues.ask(ListQueues())] == []


async def test_a_connection_that_fails_over_its_end_gives_its_session_back(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Who claims the session waits for that: its client would never be answered again."""
    client = await broker.connect_durable("sleeper", 5)
    await client.subscribe("t", qos=1)
    caplog.handler.addFilter(lambda record: "cannot detach it from its connection" not in record.getMessage())
    counts = broker.node.services.runtime.events.record.counts
    counts[CLIENT_DISCONNECTED.name] = cast("int", None)  # so that telling that the client has gone fails
    await client.leave()
    counts[CLIENT_DISCONNECTED.name] = 0

    client = await broker.connect_durable("sleeper", 5)

    assert client.accepted.session_present
    publisher = await broker.connect()
    await publisher.publish("t", b"kept")
    assert await client.payloads(1) == [b"kept"]
