"""How much a message VPN may retain: what is refused, what always works, and retained messages on a slow disk."""

import asyncio

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.config.load import load
from sluicegate.gateway.operations.clients.message_vpns import vpns_view
from sluicegate.messaging.routing.retained_messages import NODE_BYTES, UNWRITTEN_HIGH_BYTES, usage_of_row
from support.broker.blocked_store import BlockedStore
from support.broker.inside_client import until
from support.broker.operator_views import counted, event_texts
from support.broker.running_broker import RunningBroker
from support.cores.messages import batch_of
from support.mqtt.raw_client import RawClient

QUOTA_EXCEEDED = 0x97
KB = 1000
USAGE = int(usage_of_row(batch_of([bytes(KB)], topic="t/1"), 0)) + NODE_BYTES  # of one more below `t`
ROOM_FOR_TWO = NODE_BYTES + 2 * USAGE

BYTES = pytest.mark.settings(f"vpn.retained_bytes_max={ROOM_FOR_TWO}")
COUNT = pytest.mark.settings("vpn.max_retained_message_count=2")
EITHER = pytest.mark.parametrize("reason", [pytest.param("usage", marks=BYTES), pytest.param("count", marks=COUNT)])
TOLD = pytest.mark.parametrize("qos", [1, 2])


async def keep(client: RawClient, topic: str, payload: bytes = bytes(KB), *, qos: int = 1) -> int:
    """Publish with RETAIN; return the reason code of the answer."""
    return await client.publish(topic, payload, qos=qos, retain=True)


async def kept(broker: RunningBroker) -> dict[str, bytes]:
    """What a new subscription to everything brings."""
    client = await broker.connect(level=5)
    await client.subscribe("t/#")
    count = broker.node.default.space.retained.count
    found = {message.topic: message.payload for message in await client.messages(count)}
    await client.is_quiet()
    await client.leave()
    return found


@EITHER
@TOLD
async def test_a_further_topic_is_refused_and_goes_nowhere(broker: RunningBroker, reason: str, qos: int) -> None:
    """PUBACK and PUBREC 0x97, with the reason, a counter and an event."""
    client = await broker.connect(level=5)
    listener = await broker.connect(level=5)
    await listener.subscribe("t/3")
    assert [await keep(client, f"t/{number}", qos=qos) for number in (1, 2, 3)] == [0, 0, QUOTA_EXCEEDED]
    await listener.is_quiet()
    assert sorted(await kept(broker)) == ["t/1", "t/2"]
    refused = f"retained_{reason}_exceeded"
    assert await counted(broker, "sluicegate_messages_refused_total") == {refused: 1}
    assert await counted(broker, "sluicegate_retained_refused_total") == {refused: 1}
    (text,) = await event_texts(broker, "VPN_MQTT_RETAIN_QUOTA_EXCEED")
    limit = f"quota {ROOM_FOR_TWO // 1024} kB" if reason == "usage" else "limit 2 messages"
    assert text == f"VPN: VPN_MQTT_RETAIN_QUOTA_EXCEED: default - Message VPN retained message {limit} exceeded"


@BYTES
async def test_the_publisher_reads_why(broker: RunningBroker) -> None:
    client = await broker.connect(level=5)
    client.send(mqtt.publish("t/1", bytes(10 * KB), level=5, qos=1, packet_id=1, retain=True))
    body = (await client.awaited(mqtt.PUBACK)).body
    assert body[2] == QUOTA_EXCEEDED
    why = "503 Retained Message Quota Exceeded: the message VPN's retained messages use up their memory"
    assert f"{why}, at most {ROOM_FOR_TWO} bytes".encode() in body


@EITHER
@TOLD
async def test_replacing_and_deleting_work_at_the_limit(broker: RunningBroker, reason: str, qos: int) -> None:
    """A message that is not larger takes no more room than the one before, and a deletion makes some."""
    client = await broker.connect(level=5)
    assert [await keep(client, f"t/{number}") for number in (1, 2)] == [0, 0]
    assert await keep(client, "t/1", b"x" * KB, qos=qos) == 0
    assert await keep(client, "t/2", b"smaller", qos=qos) == 0
    assert await kept(broker) == {"t/1": b"x" * KB, "t/2": b"smaller"}
    assert await keep(client, "t/2", b"", qos=qos) == 0
    assert await keep(client, "t/3", qos=qos) == 0
    assert sorted(await kept(broker)) == ["t/1", "t/3"]


@BYTES
async def test_a_larger_one_in_the_place_of_another_needs_room(broker: RunningBroker) -> None:
    """What was retained before stays when its publisher hears that the new one is not."""
    client = await broker.connect(level=5)
    assert [await keep(client, f"t/{number}", b"first" * 200) for number in (1, 2)] == [0, 0]
    assert await keep(client, "t/1", bytes(KB + 1)) == QUOTA_EXCEEDED
    assert await kept(broker) == {"t/1": b"first" * 200, "t/2": b"first" * 200}


@EITHER
@pytest.mark.parametrize(("level", "qos"), [(5, 0), (4, 0), (4, 1), (4, 2), (3, 1)])
async def test_a_publisher_without_reason_codes_has_its_message_delivered_and_not_retained(
    broker: RunningBroker, reason: str, level: int, qos: int
) -> None:
    """QoS 0, and MQTT 3.x, which has no word for it and would send it again for ever."""
    client = await broker.connect(level=5)
    assert [await keep(client, f"t/{number}") for number in (1, 2)] == [0, 0]
    listener = await broker.connect(level=5)
    await listener.subscribe("t/3", qos=qos)
    old = await broker.connect(level=level)
    await old.publish("t/3", b"live", qos=qos, retain=True)
    (message,) = await listener.messages(1)
    assert (message.payload, message.qos) == (b"live", qos)
    assert sorted(await kept(broker)) == ["t/1", "t/2"]
    await old.round_trip()
    assert await counted(broker, "sluicegate_retained_refused_total") == {f"retained_{reason}_exceeded": 1}
    assert await counted(broker, "sluicegate_messages_refused_total") == {}


@BYTES
async def test_a_message_that_is_not_retained_deletes_the_one_it_would_replace(broker: RunningBroker) -> None:
    """[311:3.3.1-7]: nothing old is left that looks like the last one; over a restart too."""
    client = await broker.connect(level=5)
    assert [await keep(client, f"t/{number}") for number in (1, 2)] == [0, 0]
    await client.publish("t/1", bytes(5 * KB), qos=0, retain=True)
    await client.round_trip()
    assert sorted(await kept(broker)) == ["t/2"]
    await broker.restart()
    assert sorted(await kept(broker)) == ["t/2"]


@BYTES
async def test_a_will_beyond_the_limit_is_delivered(broker: RunningBroker) -> None:
    """Nobody is there to hear of a refusal."""
    client = await broker.connect(level=5)
    assert [await keep(client, f"t/{number}") for number in (1, 2)] == [0, 0]
    listener = await broker.connect(level=5)
    await listener.subscribe("t/3", qos=1)
    mortal = await broker.connect("mortal", level=5, will=mqtt.WillPart("t/3", bytes(KB), qos=1, retain=True))
    await mortal.vanish()
    assert (await listener.messages(1))[0].topic == "t/3"
    assert sorted(await kept(broker)) == ["t/1", "t/2"]


@COUNT
async def test_of_several_in_one_write_those_are_taken_that_there_is_room_for(broker: RunningBroker) -> None:
    client = await broker.connect(level=5)
    client.send(
        *[
            mqtt.publish(f"t/{1 + number % 3}", b"m", level=5, qos=1, packet_id=1 + number, retain=True)
            for number in range(6)
        ]
    )
    codes = [await client.answered(mqtt.PUBACK, 1 + number) for number in range(6)]
    assert codes == [0, 0, QUOTA_EXCEEDED] * 2
    assert sorted(await kept(broker)) == ["t/1", "t/2"]


@pytest.mark.settings(
    "virtual_destinations.composite_topics=[{name: t/1, forward_to: [{topic: t/one}, {topic: t/two}]}]",
    "vpn.max_retained_message_count=2",
)
async def test_copies_that_definitions_make_are_retained_with_it_or_not_at_all(broker: RunningBroker) -> None:
    client = await broker.connect(level=5)
    assert await keep(client, "t/1") == QUOTA_EXCEEDED
    assert await kept(broker) == {}


@BYTES
async def test_retained_messages_above_a_lowered_limit_stay(broker: RunningBroker) -> None:
    """Over a restart as well; a reload brings the limit, and a later one lifts it."""
    client = await broker.connect(level=5)
    assert [await keep(client, f"t/{number}") for number in (1, 2)] == [0, 0]
    lower = ("vpn.retained_bytes_max=1 KiB", "vpn.max_retained_message_count=1")
    changes = await broker.node.reload(load(settings=(*broker.settings, *lower)))
    assert not changes.restart_needed
    assert await keep(client, "t/3", b"") == 0
    assert await keep(client, "t/3", b"x") == QUOTA_EXCEEDED
    assert await keep(client, "t/1", b"x" * KB) == 0
    broker.config = load(settings=(*broker.settings, *lower))
    await broker.restart()
    assert await kept(broker) == {"t/1": b"x" * KB, "t/2": bytes(KB)}
    client = await broker.connect(level=5)
    assert await keep(client, "t/3", b"x") == QUOTA_EXCEEDED
    await broker.node.reload(load(settings=(*broker.settings, "vpn.retained_bytes_max=1 MiB")))
    assert await keep(client, "t/3", b"x") == 0


@pytest.mark.settings("vpns.sales.max_retained_message_count=1", "vpns.sales.retained_bytes_max=2 MiB")
async def test_each_message_vpn_has_its_own_and_operators_see_it(broker: RunningBroker) -> None:
    there = await broker.connect("a", 5, user_name="x@sales")
    here = await broker.connect("a", 5)
    assert [await keep(there, f"t/{number}") for number in (1, 2)] == [0, QUOTA_EXCEEDED]
    assert [await keep(here, f"t/{number}") for number in (1, 2)] == [0, 0]
    views = {view.name: view for view in vpns_view(broker.node).message_vpns}
    sales = views["sales"]
    assert (sales.retained_message_count, sales.max_retained_message_count) == (1, 1)
    assert (sales.retained_message_bytes, sales.max_retained_message_bytes) == (USAGE + NODE_BYTES, 2 << 20)
    assert views["default"].retained_message_bytes == 2 * USAGE + NODE_BYTES


MIB = 1 << 20
FLOOD_MIB = 64
READ_AHEAD = 2 * MIB  # what has been read of a client before it learns that it has to wait


async def flood(client: RawClient, qos: int) -> None:
    """Have much retained, one message behind the other, as fast as it is taken."""
    for number in range(1, FLOOD_MIB + 1):
        packet_id = number if qos else 0
        client.send(mqtt.publish("t", bytes(MIB), level=client.level, qos=qos, packet_id=packet_id, retain=True))
        await client.drained()


@pytest.mark.parametrize("level", [4, 5])
@pytest.mark.parametrize("qos", [0, 1])
async def test_a_publisher_of_many_retained_messages_is_not_read_from_until_they_are_on_disk(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, level: int, qos: int
) -> None:
    """All on one topic, whose last message is all that counts as retained. Others go on meanwhile."""
    retained = broker.node.default.space.retained
    flooder, other = await broker.connect("flooder", level), await broker.connect("other", level)
    await other.subscribe("direct")

    with BlockedStore(broker, monkeypatch):
        flooding = asyncio.create_task(flood(flooder, qos))
        await until(lambda: retained.pressure.over, "back-pressure by retained messages")
        await other.publish("direct", b"m", qos=0)

        assert (await other.message()).payload == b"m"
        assert retained.unwritten_bytes < UNWRITTEN_HIGH_BYTES + READ_AHEAD
        assert not flooding.done()
    await flooding
    await flooder.round_trip()
    await until(lambda: retained.unwritten_bytes == 0, "all retained messages to be written")
    assert retained.count == 1
    await broker.restart()
    assert broker.node.default.space.retained.count == 1
