"""A client without permission on a queue or topic sees nothing of its content, whatever it asks or waits for."""

from typing import Final

import pytest

import support.mqtt.packets as mqtt
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frames.deliver import Delivered
from support.amqp.client import AmqpClients
from support.broker.named_queues import create, shown
from support.broker.running_broker import RunningBroker
from support.flow.client import FlowClient, Refused
from support.http.client import http_client, poll
from support.mqtt.raw_client import RawClient

SECRETS: Final = [b"secret one", b"secret two", b"secret three"]
DENIED: Final = "amqp:unauthorized-access"

SUBSCRIBES_NOWHERE: Final = pytest.mark.settings(
    "authentication.acl_profiles=[{name: default, publish_topic_default_action: allow}]"
)


async def closed_queue(broker: RunningBroker) -> RawClient:
    """Make a queue that nobody but its owner may consume, with messages in it; return who published them."""
    await create(broker, permission="no-access", owner="alice", subscriptions=["t"])
    publisher = await broker.connect()
    for secret in SECRETS:
        await publisher.publish("t", secret, qos=1)
    return publisher


async def all_of_it_is_there(broker: RunningBroker) -> None:
    """Nothing was delivered to anybody, nothing was taken, and the refusal was counted and told."""
    view = await shown(broker)
    assert (view.ready_count, view.unacked_count, view.flows) == (len(SECRETS), 0, ())
    assert view.bind_refusals["permission_denied"] >= 1
    assert broker.node.services.runtime.events.record.counts["CLIENT_CLIENT_BIND_FAILED"] >= 1


async def test_an_amqp_link_that_is_refused_never_sees_a_message(broker: RunningBroker, amqp: AmqpClients) -> None:
    """AMQP 2.6.3: a detach says why, and credit that crosses it is nobody's.

    In whatever settlement mode it asks, and when it comes again under the same name.
    """
    await closed_queue(broker)
    client = await amqp.connect()
    for handle, settled in ((0, False), (1, True), (2, False)):
        await client.receiver(f"in{handle % 2}", "queue://q", handle=handle, credit=100, settled=settled)
        await client.is_detached(DENIED)
        await client.is_quiet()
    await all_of_it_is_there(broker)


@SUBSCRIBES_NOWHERE
async def test_an_amqp_link_to_a_forbidden_topic_sees_neither_what_is_retained_nor_what_comes(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """AMQP 2.6.3: the attach of a refused link has no source, and a detach follows."""
    publisher = await broker.connect()
    await publisher.publish("t", SECRETS[0], retain=True)
    client = await amqp.connect()
    for handle, address in enumerate(("topic://t", "topic://#", "topic://>")):
        answer = await client.receiver(f"in{handle}", address, handle=handle, credit=100)
        assert answer.source is None
        await client.is_detached(DENIED)
    await publisher.publish("t", SECRETS[1], qos=1)
    await client.is_quiet()


@pytest.mark.parametrize("level", [4, 5])
async def test_an_mqtt_client_that_is_refused_sees_nothing(broker: RunningBroker, level: int) -> None:
    """MQTT 5.0, 3.9.3: whatever else is granted in the same SUBSCRIBE."""
    publisher = await closed_queue(broker)
    await publisher.publish("kept", b"open", retain=True)
    client = await broker.connect(level=level)
    client.send(mqtt.subscribe(("$queue/q", 1), ("kept", 1), level=level, packet_id=9))
    answer = await client.awaited(mqtt.SUBACK)
    assert list(answer.body[-2:]) == [0x87 if level == 5 else 0x80, 1]
    assert await client.payloads(1) == [b"open"]
    await client.is_quiet()
    await all_of_it_is_there(broker)


@SUBSCRIBES_NOWHERE
@pytest.mark.parametrize("level", [4, 5])
async def test_a_forbidden_filter_brings_neither_what_is_retained_nor_what_comes(
    broker: RunningBroker, level: int
) -> None:
    """[MQTT-3.3.1-9] is for filters that were granted."""
    publisher = await broker.connect()
    await publisher.publish("t", SECRETS[0], retain=True)
    client = await broker.connect(level=level)
    for topic_filter in ("t", "#", "+", "$share/g/t"):
        assert await client.subscribe(topic_filter, qos=1) == [0x87 if level == 5 else 0x80]
    await publisher.publish("t", SECRETS[1], qos=1)
    await client.is_quiet()


async def test_a_flow_that_is_refused_never_sees_a_message(broker: RunningBroker) -> None:
    """Flow spec, BIND: credit in it is void with it."""
    await closed_queue(broker)
    async with FlowClient(broker.flow_port) as client:
        with pytest.raises(Refused) as refused:
            await client.binds("q", credit=1000)
        assert refused.value.error.code == codes.PERMISSION_DENIED
        await create(broker, "open")
        await client.binds("open")  # what was under way before has come with its answer
        assert not [each for each in client.events if isinstance(each, Delivered)]
    await all_of_it_is_there(broker)


@pytest.mark.accounts(alice="a", bob="b")
async def test_an_http_worker_that_is_refused_sees_nothing(broker: RunningBroker) -> None:
    """403, and what it is of is not in the answer; the owner has all of it, as if nobody had asked."""
    await create(broker, permission="no-access", owner="alice")
    async with http_client(broker, auth=("alice", "a")) as alice, http_client(broker, auth=("bob", "b")) as bob:
        for secret in SECRETS:
            assert (await alice.post("/QUEUE/q", content=secret)).status_code == 200
        for accept in ("application/x-ndjson", "text/event-stream", "*/*"):
            answer = await bob.get("/QUEUE/q", params={"max": 100}, headers={"Accept": accept})
            assert answer.status_code == 403
            assert b"secret" not in answer.content
        await all_of_it_is_there(broker)
        _, messages = await poll(alice, "/QUEUE/q")
    assert len(messages) == len(SECRETS)
    assert not any(each["redelivered"] for each in messages)
