"""What a queue or the node refuses: each check through MQTT, with its text, its counter and its event."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import support.mqtt.packets as mqtt
from sluicegate.actors.messages.data import SharedDirect
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.messaging.routing.destinations import ShareGroup
from support.broker.named_queues import create, shown
from support.broker.operator_views import counted, event_texts
from support.broker.running_broker import RunningBroker
from support.cores.messages import batch_of
from support.mqtt.publish_answers import IMPLEMENTATION_SPECIFIC_ERROR, answer_to
from support.mqtt.raw_client import DEADLINE_S

QUOTA_EXCEEDED = 0x97
NO_MATCHING_SUBSCRIBERS = 0x10
UNSPECIFIED_ERROR = 0x80
MB = 1 << 20
LOW = mqtt.user_property("priority", "3")


async def create_queue(broker: RunningBroker, name: str = "q", **attributes: object) -> None:
    await NodeOperations(broker.node).create_queue({"name": name, "subscriptions": ["t"], **attributes})


@pytest.mark.settings("spool.usage_bytes_max=1MiB", "spool.map_bytes_max=64MiB")
async def test_the_nodes_quota(broker: RunningBroker) -> None:
    """Solace 6.3, row 1: refused whatever the queue says."""
    await create_queue(broker, reject_msg_to_sender_on_discard_behavior="never")
    client = await broker.connect(level=5)
    assert await answer_to(client, bytes(MB * 9 // 10)) == (0, "")
    code, text = await answer_to(client, bytes(MB // 4))
    assert (code, text) == (QUOTA_EXCEEDED, "503 Spool Over Quota: the broker's message spool is full (q)")
    assert await counted(broker, "sluicegate_messages_refused_total") == {"spool_usage_exceeded": 1}
    assert await event_texts(broker, "SYSTEM_AD_MSG_SPOOL_QUOTA_EXCEED") == [
        "SYSTEM: SYSTEM_AD_MSG_SPOOL_QUOTA_EXCEED: - - Message spool usage quota 1024 kB exceeded"
    ]
    assert len(await event_texts(broker, "SYSTEM_AD_MSG_SPOOL_HIGH")) == 1


@pytest.mark.settings("vpn.usage_bytes_max=1MiB")
async def test_the_quota_of_the_message_vpn(broker: RunningBroker) -> None:
    """Solace 6.3, row 2."""
    await create_queue(broker, reject_msg_to_sender_on_discard_behavior="never")
    client = await broker.connect(level=5)
    code, text = await answer_to(client, bytes(2 * MB))
    assert (code, text) == (QUOTA_EXCEEDED, "503 Spool Over Quota: the message VPN's spool quota is used up (q)")
    assert await counted(broker, "sluicegate_messages_refused_total") == {"vpn_usage_exceeded": 1}


async def test_the_quota_of_a_queue_and_its_threshold(broker: RunningBroker) -> None:
    """Solace 6.3, row 3, and 13.5."""
    await create_queue(broker, max_msg_spool_usage=1, event_msg_spool_usage_threshold="50/20%")
    client = await broker.connect(level=5)
    assert (await answer_to(client, bytes(MB * 3 // 4)))[0] == 0
    code, text = await answer_to(client, bytes(MB // 2))
    assert (code, text) == (
        QUOTA_EXCEEDED,
        "503 Spool Over Quota: the queue's message spool quota is used up, at most 1048576 bytes (q)",
    )
    assert await counted(broker, "sluicegate_messages_refused_total") == {"endpoint_usage_exceeded": 1}
    assert await event_texts(broker, "VPN_AD_MSG_SPOOL_HIGH") == [
        "VPN: VPN_AD_MSG_SPOOL_HIGH: default - Queue q message spool threshold 512 kB exceeded: 768 kB"
    ]
    assert await event_texts(broker, "VPN_AD_MSG_SPOOL_QUOTA_EXCEED") == [
        "VPN: VPN_AD_MSG_SPOOL_QUOTA_EXCEED: default - Queue q message spool quota 1024 kB exceeded"
    ]
    await NodeOperations(broker.node).purge_queue("q")
    assert await event_texts(broker, "VPN_AD_MSG_SPOOL_HIGH_CLEAR") == [
        "VPN: VPN_AD_MSG_SPOOL_HIGH_CLEAR: default - Queue q message spool threshold 204 kB cleared: 0 kB"
    ]


async def test_the_size_of_a_message(broker: RunningBroker) -> None:
    """Solace 6.3, rows 4 and 5."""
    await create_queue(broker, max_msg_size=10)
    client = await broker.connect(level=5)
    code, text = await answer_to(client, b"x" * 11)
    assert (code, text) == (
        QUOTA_EXCEEDED,
        "400 Document Is Too Large: the message is larger than the queue takes, at most 10 bytes (q)",
    )


@pytest.mark.parametrize(
    ("behavior", "answer"),
    [
        ("never", (0, "")),
        ("when-queue-enabled", (0, "")),
        ("always", (IMPLEMENTATION_SPECIFIC_ERROR, "503 Queue Shutdown: the queue's ingress is shut down (q)")),
    ],
)
async def test_ingress_that_is_shut_down(broker: RunningBroker, behavior: str, answer: tuple[int, str]) -> None:
    """Solace 6.3, row 6, and 13.3."""
    await create_queue(broker, ingress_enabled=False, reject_msg_to_sender_on_discard_behavior=behavior)
    assert await answer_to(await broker.connect(level=5)) == answer
    metric = "sluicegate_messages_refused_total" if answer[0] else "sluicegate_messages_dropped_total"
    assert await counted(broker, metric) == {"endpoint_disabled": 1}


async def test_the_limit_for_low_priority(broker: RunningBroker) -> None:
    """Solace 6.3, row 7."""
    await create_queue(broker, reject_low_priority_msg_enabled=True, reject_low_priority_msg_limit=2)
    client = await broker.connect(level=5)
    for _ in range(2):
        assert await answer_to(client, properties=LOW) == (0, "")
    code, text = await answer_to(client, properties=LOW)
    assert (code, text.partition(":")[0]) == (QUOTA_EXCEEDED, "503 Low Priority Msg Congestion")
    assert await answer_to(client) == (0, "")
    assert await counted(broker, "sluicegate_messages_refused_total") == {"low_priority_msg_congestion": 1}
    prefix = "VPN_AD_MSG_SPOOL_REJECT_LOW_PRIORITY_MSG_LIMIT"
    assert len(await event_texts(broker, f"{prefix}_HIGH")) == 1
    assert len(await event_texts(broker, f"{prefix}_EXCEED")) == 1


@pytest.mark.settings("limits.queue_messages_max=2", "limits.messages_max=3")
async def test_the_number_of_messages(broker: RunningBroker) -> None:
    """Solace 6.3: the maximum of a queue, and that of the broker."""
    await create_queue(broker)
    await create_queue(broker, "r", subscriptions=["r"])
    client = await broker.connect(level=5)
    assert [(await answer_to(client))[0] for _ in range(2)] == [0, 0]
    text = "503 Max message usage exceeded: the queue holds the most messages it may, at most 2 (q)"
    assert await answer_to(client) == (QUOTA_EXCEEDED, text)
    assert await answer_to(client, topic="r") == (0, "")
    text = "503 Max message usage exceeded: the broker holds the most messages it may (r)"
    assert await answer_to(client, topic="r") == (QUOTA_EXCEEDED, text)
    assert len(await event_texts(broker, "SYSTEM_AD_MSG_COUNT_UTILIZATION_EXCEEDED")) == 1


async def test_messages_without_subscribers_are_dropped_and_counted(broker: RunningBroker) -> None:
    """Solace 6.3: no subscription match. MQTT 5 says so with a success code [3.4.2.1]."""
    client = await broker.connect(level=5)
    assert await answer_to(client) == (NO_MATCHING_SUBSCRIBERS, "")
    await client.publish("t", qos=0)
    assert await counted(broker, "sluicegate_messages_dropped_total") == {"no_subscription_match": 2}


@pytest.mark.settings("vpn.reject_msg_to_sender_on_no_subscription_match=true")
async def test_messages_without_subscribers_are_refused_where_configured(broker: RunningBroker) -> None:
    """Solace 6.3: rejectMsgToSenderOnNoSubscriptionMatchEnabled."""
    await create_queue(broker)
    client = await broker.connect(level=5)
    assert await answer_to(client, topic="nobody") == (
        UNSPECIFIED_ERROR,
        "503 No Subscription Match: nobody subscribes to the topic",
    )
    ids = [client.next_packet_id() for _ in range(3)]
    topics = ["t", "nobody", "t"]
    client.send(*[mqtt.publish(topic, level=5, qos=1, packet_id=each) for topic, each in zip(topics, ids, strict=True)])
    assert [await client.answered(mqtt.PUBACK, each) for each in ids] == [0, UNSPECIFIED_ERROR, 0]
    assert await counted(broker, "sluicegate_messages_refused_total") == {"no_subscription_match": 2}


async def test_a_refusal_in_a_run_of_publishes_is_counted_once(broker: RunningBroker) -> None:
    await create_queue(broker, max_msg_size=1)
    client = await broker.connect(level=5)
    ids = [client.next_packet_id() for _ in range(4)]
    payloads = zip([b"1", b"22", b"3", b"44"], ids, strict=True)
    client.send(*[mqtt.publish("t", payload, level=5, qos=1, packet_id=each) for payload, each in payloads])
    assert [await client.answered(mqtt.PUBACK, each) for each in ids] == [0, QUOTA_EXCEEDED, 0, QUOTA_EXCEEDED]
    assert await counted(broker, "sluicegate_messages_refused_total") == {"max_msg_size_exceeded": 2}


async def test_a_client_that_wants_no_reasons_gets_none(broker: RunningBroker) -> None:
    """[3.1.2-29]: Request Problem Information."""
    await create_queue(broker, max_msg_size=1)
    client = await broker.connect(level=5, properties=mqtt.request_problem_information(0))
    assert await answer_to(client, b"22") == (QUOTA_EXCEEDED, "")


async def test_a_reason_that_is_too_long_for_the_client_is_left_out(broker: RunningBroker) -> None:
    """[3.4.2-2]."""
    await create_queue(broker, max_msg_size=1)
    client = await broker.connect(level=5, properties=mqtt.maximum_packet_size(40))
    assert await answer_to(client, b"22") == (QUOTA_EXCEEDED, "")


async def test_a_refused_direct_message_is_counted_as_dropped(broker: RunningBroker) -> None:
    await create_queue(broker, max_msg_size=1)
    client = await broker.connect()
    await client.publish("t", b"22", qos=0)
    assert await counted(broker, "sluicegate_messages_refused_total") == {}
    assert await counted(broker, "sluicegate_messages_dropped_total") == {"max_msg_size_exceeded": 1}


async def test_direct_messages_that_cannot_be_delivered_are_counted(broker: RunningBroker) -> None:
    """A direct message for a client that is away; one above a client's Maximum Packet Size [3.1.2-25]."""
    small = await broker.connect("small", level=5, properties=mqtt.maximum_packet_size(30))
    await small.subscribe("t")
    away = await broker.connect_durable("away")
    await away.subscribe("u")
    await away.leave()
    client = await broker.connect()
    await client.publish("t", bytes(100), qos=0)
    await client.publish("u", qos=0)
    await small.round_trip()
    assert await counted(broker, "sluicegate_messages_dropped_total") == {"packet_too_large": 1, "client_away": 1}


async def test_direct_messages_that_arrive_after_their_client_has_left_are_counted(broker: RunningBroker) -> None:
    """A direct message, also one that was given to a member of a shared subscription."""
    client = await broker.connect()
    await client.subscribe("t", "$share/g/t")
    (connection,) = broker.node.mqtt.open_connections()
    batch = batch_of([b"late"])
    group = ShareGroup("g", "t")
    connection.receive(SharedDirect(group, batch))
    connection.turn_ended()
    assert await client.payloads(1) == [b"late"]
    await client.leave()
    connection.receive(batch)
    connection.receive(SharedDirect(group, batch))
    assert await counted(broker, "sluicegate_messages_dropped_total") == {"client_away": 2}


async def test_flows_near_their_maximum_are_an_event(broker: RunningBroker) -> None:
    """Solace 6.8: bind count, 80/60 %."""
    await create_queue(broker, access_type="non-exclusive", max_bind_count=2)
    first, second = await broker.connect(level=5), await broker.connect(level=5)
    await first.subscribe("$queue/q", qos=1)
    assert await event_texts(broker, "VPN_AD_BIND_COUNT_HIGH") == []
    await second.subscribe("$queue/q", qos=1)
    assert await event_texts(broker, "VPN_AD_BIND_COUNT_HIGH") == [
        "VPN: VPN_AD_BIND_COUNT_HIGH: default - Queue q bind count threshold 2 flows exceeded: 2 flows"
    ]
    await second.unsubscribe("$queue/q")
    await second.round_trip()
    assert len(await event_texts(broker, "VPN_AD_BIND_COUNT_HIGH_CLEAR")) == 1


@pytest.mark.settings("spool.map_bytes_max=16MiB", "spool.usage_bytes_max=16MiB")
async def test_a_store_that_few_large_messages_have_filled_takes_more_once_they_are_consumed(
    broker: RunningBroker,
) -> None:
    """What nothing needs any more in the journal goes by its size, too: too few records would wait for ever."""
    queues = ["q0", "q1", "q2", "q3"]  # each with less than is moved into pages
    for name in queues:
        await create_queue(broker, name, subscriptions=[name])
    publisher, consumer = await broker.connect(level=5), await broker.connect(level=5)
    count = 0
    while (await answer_to(publisher, bytes(MB // 2), topic=queues[count % 4]))[0] == 0:
        count += 1

    await consumer.subscribe(*[f"$queue/{name}" for name in queues], qos=1)
    consumer.acknowledge(*await consumer.messages(count))

    async with asyncio.timeout(DEADLINE_S):
        while broker.node.services.spool_gate.blocked:
            await asyncio.sleep(0.01)
    assert await answer_to(publisher, bytes(MB // 2), topic="q0") == (0, "")


CASES = Path(__file__).parents[2] / "data" / "routing" / "rejects.txt"
LARGE = bytes(MB // 4)

ATTRIBUTES: dict[str, dict[str, Any]] = {
    "over-quota": {"max_msg_spool_usage": 1},
    "too-big": {"max_msg_size": 10},
    "low-priority": {"reject_low_priority_msg_enabled": True, "reject_low_priority_msg_limit": 1},
    "shut-down": {"ingress_enabled": False},
    "vpn-full": {},
    "broker-full": {},
}
SETTINGS = {
    "vpn-full": ("vpn.usage_bytes_max=1MiB",),
    "broker-full": ("spool.usage_bytes_max=1MiB", "spool.map_bytes_max=64MiB"),
}


def cases() -> list[Any]:
    """Return problem, behavior, answer and queues of each line."""
    lines = [line.split() for line in CASES.read_text().splitlines() if line and not line.startswith("#")]
    return [pytest.param(*words, marks=pytest.mark.settings(*SETTINGS.get(words[0], ()))) for words in lines]


@pytest.mark.parametrize(("problem", "behavior", "answer", "queues"), cases())
async def test_a_publish_to_two_queues_is_answered_as_written(
    broker: RunningBroker, problem: str, behavior: str, answer: str, queues: str
) -> None:
    """All or nothing where the publisher hears of it; else the queue that can has it."""
    await create(broker, "Q1", subscriptions=["t"])
    attributes = {"reject_msg_to_sender_on_discard_behavior": behavior, **ATTRIBUTES[problem]}
    await create(broker, "Q2", subscriptions=["t", "before"], **attributes)
    publisher = await broker.connect("p", 5)
    before_count = 0
    if problem not in ("too-big", "shut-down"):  # what is there already is what makes the problem
        await publisher.publish("before", bytes(MB * 9 // 10))
        before_count = 1

    code = await publisher.publish("t", LARGE, properties=LOW if problem == "low-priority" else b"")

    assert ("nack" if code >= 0x80 else "ack") == answer
    counts = [(await shown(broker, name)).ready_count for name in ("Q1", "Q2")]
    assert counts == [1 if queues == "Q1" else 0, before_count]


async def test_a_queue_counts_what_it_did_not_take_by_reason(broker: RunningBroker) -> None:
    """Other queues of the node count nothing of it; a publisher of QoS 0 is never told."""
    await create_queue(broker, max_msg_size=10)
    await create_queue(broker, "silent", max_msg_size=10, reject_msg_to_sender_on_discard_behavior="never")
    await create_queue(broker, "off", ingress_enabled=False)
    client = await broker.connect(level=5)
    await answer_to(client, bytes(11))
    await client.publish("t", bytes(11), qos=0)
    await client.publish("t", b"x", qos=1)
    refusing, silent, off = [await shown(broker, name) for name in ("q", "silent", "off")]
    assert (refusing.refusals, refusing.drops) == ({"max_msg_size_exceeded": 1}, {"max_msg_size_exceeded": 1})
    assert (silent.refusals, silent.drops) == ({}, {"max_msg_size_exceeded": 2})
    assert (off.refusals, off.drops) == ({}, {"endpoint_disabled": 3})
    samples = await NodeOperations(broker.node).metrics_snapshot()
    by_queue = {each.labels: each.value for each in samples if each.name == "sluicegate_queue_messages_dropped_total"}
    assert by_queue["silent", "max_msg_size_exceeded"] == 2
    assert by_queue["off", "endpoint_disabled"] == 3
