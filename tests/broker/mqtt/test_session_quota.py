"""Limits of a message VPN: number of MQTT sessions, and memory of sessions and subscriptions."""

import asyncio

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.config.load import load
from sluicegate.gateway.operations.clients.message_vpns import vpns_view
from sluicegate.messaging.clients.rights import SESSION_BYTES as DENIED_BYTES
from sluicegate.messaging.clients.rights import SESSION_COUNT as DENIED_COUNT
from sluicegate.messaging.clients.rights import SUBSCRIPTION_COUNT, UNRELEASED
from sluicegate.messaging.message.usage import selector_bytes, share_bytes
from sluicegate.messaging.topics.subscription_index import subscription_bytes
from sluicegate.messaging.topics.syntax import Syntax, parse_filter
from sluicegate.protocols.mqtt.session.quota import NAME_COPIES, RECEIVED_FREE_BYTES, RECEIVED_ID_BYTES, SESSION_BYTES
from support.broker.blocked_store import BlockedStore
from support.broker.inside_client import until
from support.broker.named_queues import create
from support.broker.operator_views import counted, event_texts
from support.broker.running_broker import RunningBroker
from support.mqtt.packets import WillPart
from support.mqtt.raw_client import RawClient

QUOTA_EXCEEDED = 0x97
SERVER_UNAVAILABLE = 3
NO_MATCH = 0x10
KIB = 1 << 10
LARGE_WILL = WillPart("will/topic", bytes(40 * KIB), properties=mqtt.will_delay(1000))
SMALL = SESSION_BYTES + NAME_COPIES * len("a")
ROOM = SMALL + 41 * KIB  # for one with a large will, and not for two

COUNT = pytest.mark.settings("vpn.max_mqtt_session_count=2")
BYTES = pytest.mark.settings(f"vpn.session_bytes_max={ROOM}")


async def answer(broker: RunningBroker, name: str, level: int = 5, **options: object) -> int:
    """Connect once more; return the code of CONNACK. A client that is let in stays."""
    client = await broker.open(level)
    keeps = {"clean_start": False, "properties": mqtt.session_expiry(1000)} if level == 5 else {"clean_start": False}
    client.send(mqtt.connect(name, level=level, **{**keeps, **options}))  # type: ignore[arg-type]  # those of connect
    return (await client.connack()).reason_code


def denied(broker: RunningBroker) -> dict[str, int]:
    return dict(broker.node.default.clients.denials.counts)


async def two_kept(broker: RunningBroker) -> list[RawClient]:
    return [await broker.connect_durable(name) for name in ("a", "b")]


@COUNT
@pytest.mark.parametrize(("level", "code"), [(5, QUOTA_EXCEEDED), (4, SERVER_UNAVAILABLE), (3, SERVER_UNAVAILABLE)])
async def test_a_further_kept_session_is_refused(broker: RunningBroker, level: int, code: int) -> None:
    """Counted, with an event; a session that ends with its connection is no kept one."""
    first, _ = await two_kept(broker)
    assert await answer(broker, "c", level) == code
    assert denied(broker) == {DENIED_COUNT: 1}
    (text,) = await event_texts(broker, "CLIENT_CLIENT_CONNECT_FAIL")
    assert "503 Max Sessions Exceeded: message VPN 'default' keeps the 2 that it may" in text
    assert await answer(broker, "c", level, clean_start=True, **({"properties": b""} if level == 5 else {})) == 0
    await first.leave(properties=mqtt.session_expiry(0))
    await broker.has_no_more_than(sessions=2, queues=0)
    assert await answer(broker, "d", level) == 0


@COUNT
@pytest.mark.parametrize("level", [4, 5])
async def test_a_session_that_is_there_is_resumed_and_begun_anew_at_the_limit(
    broker: RunningBroker, level: int
) -> None:
    """Also by a takeover, and above a limit that was lowered."""
    first, second = await two_kept(broker)
    await first.vanish()
    assert await answer(broker, "a", level) == 0
    assert await answer(broker, "a", level) == 0
    changes = await broker.node.reload(load(settings=(*broker.settings, "vpn.max_mqtt_session_count=1")))
    assert not changes.restart_needed
    assert await answer(broker, "b", level) == 0
    await second.is_ended(0x8E)
    assert await answer(broker, "b", 5, clean_start=True) == 0
    assert await answer(broker, "c", level) in (QUOTA_EXCEEDED, SERVER_UNAVAILABLE)


@COUNT
async def test_no_other_session_takes_the_place_of_one_that_begins_anew(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though for a moment there is neither the old one nor the new one: the store has to forget the old one first."""
    await two_kept(broker)
    with BlockedStore(broker, monkeypatch):
        anew = asyncio.create_task(answer(broker, "a", clean_start=True))
        await until(lambda: broker.node.default.sessions_count == 1, "the other session to end")
        assert await answer(broker, "c") == QUOTA_EXCEEDED
    assert await anew == 0
    assert broker.node.default.session_quota.kept_count == 2


@COUNT
async def test_sessions_that_a_start_brings_back_count(broker: RunningBroker) -> None:
    for client in await two_kept(broker):
        await client.vanish()
    await broker.restart()
    assert broker.node.default.session_quota.kept_count == 2
    assert await answer(broker, "c") == QUOTA_EXCEEDED
    assert [await answer(broker, name) for name in ("a", "b")] == [0, 0]


@BYTES
async def test_wills_count_while_they_wait(broker: RunningBroker) -> None:
    """Of clients that are connected, of those that are away, and after a restart; not of one that was sent."""
    first = await broker.connect_durable("a", will=LARGE_WILL)
    assert await answer(broker, "b", will=LARGE_WILL) == QUOTA_EXCEEDED
    await first.vanish()
    assert await answer(broker, "b", will=LARGE_WILL) == QUOTA_EXCEEDED
    await broker.restart()
    assert await answer(broker, "b", will=LARGE_WILL) == QUOTA_EXCEEDED
    assert denied(broker) == {DENIED_BYTES: 1}
    assert await answer(broker, "a", will=LARGE_WILL) == 0
    assert await answer(broker, "a") == 0
    assert await answer(broker, "b", will=WillPart("t", bytes(KIB))) == 0
    assert await answer(broker, "b", will=LARGE_WILL) == QUOTA_EXCEEDED
    await broker.node.reload(load(settings=(*broker.settings, f"vpn.session_bytes_max={2 * ROOM}")))
    assert await answer(broker, "b", will=LARGE_WILL) == 0


@pytest.mark.settings(f"vpn.session_bytes_max={ROOM}", "mqtt.client_id_bytes_max=65535")
async def test_long_client_identifiers_count(broker: RunningBroker) -> None:
    assert await answer(broker, "x" * 12_000) == QUOTA_EXCEEDED
    assert await answer(broker, "x" * 10_000) == 0
    assert broker.node.default.session_quota.usage_bytes == SESSION_BYTES + NAME_COPIES * 10_000


async def test_ended_sessions_do_not_count(broker: RunningBroker) -> None:
    """However a session ends: by a goodbye, with its connection, by expiry, by a clean start."""
    quota = broker.node.default.session_quota
    kept = await broker.connect_durable("kept", will=LARGE_WILL)
    fleeting = await broker.connect("fleeting", 5, will=WillPart("t", bytes(KIB)))
    assert quota.kept_count == 1
    await fleeting.vanish()
    await kept.leave(properties=mqtt.session_expiry(0))
    await broker.has_no_more_than(sessions=0, queues=0)
    assert (quota.kept_count, quota.usage_bytes) == (0, 0)


ID_BYTES = RECEIVED_ID_BYTES + len("a")
FREE_COUNT = RECEIVED_FREE_BYTES // ID_BYTES
FURTHER_COUNT = 10


async def publish_and_not_release(client: RawClient, first: int, count: int) -> list[int]:
    """Publish at QoS 2 without PUBREL, all in one write; return the codes of PUBREC."""
    packet_ids = range(first, first + count)
    client.send(*[mqtt.publish("t", b"", level=5, qos=2, packet_id=each) for each in packet_ids])
    return [await client.answered(mqtt.PUBREC, each) for each in packet_ids]


@pytest.mark.settings(f"vpn.session_bytes_max={SMALL + (FURTHER_COUNT + 1) * ID_BYTES}")
async def test_unreleased_messages_beyond_the_free_number_of_a_session_count(broker: RunningBroker) -> None:
    """Each id has a row on disk. Beyond the limit further messages are refused, and what is released makes quota."""
    await create(broker, subscriptions=["t"])
    client = await broker.connect_durable("a")
    quota = broker.node.default.session_quota
    codes = await publish_and_not_release(client, 1, FREE_COUNT + FURTHER_COUNT + 3)
    taken_count = codes.index(QUOTA_EXCEEDED)
    assert FREE_COUNT + FURTHER_COUNT <= taken_count <= FREE_COUNT + FURTHER_COUNT + 2
    assert set(codes[taken_count:]) == {QUOTA_EXCEEDED}
    assert denied(broker) == {UNRELEASED: len(codes) - taken_count}
    (text, *_) = await event_texts(broker, "CLIENT_CLIENT_PUBLISH_DENIED")
    assert f"503 Max Unreleased Messages Exceeded: {taken_count} are not released" in text
    usage_bytes = quota.usage_bytes
    assert await publish_and_not_release(client, 1, 1) == [0], "a repetition takes no more room"
    client.send(mqtt.pubrel(1))
    await client.awaited(mqtt.PUBCOMP)
    assert quota.usage_bytes == usage_bytes - ID_BYTES
    assert await publish_and_not_release(client, taken_count + 1, 1) == [0]
    await client.vanish()
    await broker.restart()
    quota = broker.node.default.session_quota
    assert quota.usage_bytes == usage_bytes
    client = await broker.connect_durable("a")
    assert await publish_and_not_release(client, 1, 1) == [QUOTA_EXCEEDED]
    await client.leave(properties=mqtt.session_expiry(0))
    await broker.has_no_more_than(sessions=0, queues=1)
    assert quota.usage_bytes == 0


@pytest.mark.parametrize(
    "reason",
    [
        pytest.param("vpn_usage_exceeded", marks=pytest.mark.settings("vpn.usage_bytes_max=1 MiB")),
        pytest.param("spool_usage_exceeded", marks=pytest.mark.settings("spool.usage_bytes_max=1 MiB")),
    ],
)
async def test_messages_waiting_for_a_kept_session_count_for_the_message_vpn_and_the_node(
    broker: RunningBroker, reason: str
) -> None:
    """Over a restart too, and until it ends: its queue is one like any other."""
    away = await broker.connect_durable("away")
    await away.subscribe("t", qos=1)
    await away.vanish()
    publisher = await broker.connect(level=5)
    codes = [await publisher.publish("t", bytes(400 * KIB), qos=1) for _ in range(3)]
    assert codes == [0, 0, QUOTA_EXCEEDED]
    assert await counted(broker, "sluicegate_messages_refused_total") == {reason: 1}
    await broker.restart()
    assert broker.node.default.gate.usage_bytes == broker.node.services.spool_gate.usage_bytes > 800 * KIB
    publisher = await broker.connect(level=5)
    assert await publisher.publish("t", bytes(400 * KIB), qos=1) == QUOTA_EXCEEDED
    assert await answer(broker, "away", clean_start=True, properties=b"") == 0
    assert broker.node.default.gate.usage_bytes == broker.node.services.spool_gate.usage_bytes == 0
    assert await publisher.publish("t", bytes(400 * KIB), qos=1) == NO_MATCH


ONE_FILTER = subscription_bytes(parse_filter("t/" + "x" * 1000, Syntax.MQTT))


@pytest.mark.settings(f"vpn.subscription_bytes_max={2 * ONE_FILTER}")
async def test_subscriptions_count_by_their_filters(broker: RunningBroker) -> None:
    """SUBACK 0x97; one that is there is made again, and one that ends makes quota."""
    client = await broker.connect(level=5)
    texts = ["t/" + letter * 1000 for letter in "abc"]
    assert await client.subscribe(*texts) == [0, 0, QUOTA_EXCEEDED]
    assert denied(broker) == {SUBSCRIPTION_COUNT: 1}
    assert await client.subscribe(texts[0]) == [0]
    assert await client.unsubscribe(texts[1]) == [0]
    assert await client.subscribe(texts[2]) == [0]
    await client.leave()
    await broker.has_no_more_than(sessions=0, queues=0)
    assert await (await broker.connect(level=5)).subscribe(texts[1]) == [0]


SELECTOR = "a = 1"
LONGER = SELECTOR + " OR b = 2"
SELECTING = ONE_FILTER + selector_bytes(SELECTOR)


@pytest.mark.settings(f"vpn.subscription_bytes_max={2 * SELECTING}")
async def test_selectors_count_with_their_subscriptions(broker: RunningBroker) -> None:
    """Compiled they take fifty times their text; in the place of another one, too. One that is there may stay."""
    space = broker.node.default.space
    client = await broker.connect(level=5)
    first, second = ("t/" + letter * 1000 for letter in "ab")
    assert await client.subscribe(first, properties=mqtt.user_property("selector", LONGER)) == [0]
    assert await client.subscribe(second, properties=mqtt.user_property("selector", SELECTOR)) == [QUOTA_EXCEEDED]
    assert await client.subscribe(first, properties=mqtt.user_property("selector", SELECTOR)) == [0]
    assert await client.subscribe(second, properties=mqtt.user_property("selector", SELECTOR)) == [0]
    assert space.subscriptions_bytes == 2 * SELECTING
    assert await client.subscribe(second, properties=mqtt.user_property("selector", SELECTOR)) == [0]
    assert await client.subscribe(second, properties=mqtt.user_property("selector", LONGER)) == [QUOTA_EXCEEDED]
    assert await client.subscribe(first) == [0]
    assert space.subscriptions_bytes == ONE_FILTER + SELECTING
    await client.leave()
    await broker.has_no_more_than(sessions=0, queues=0)
    await until(lambda: space.subscriptions_bytes == 0, "all subscriptions to end")


NAME = "g" * 500
MEMBER = ONE_FILTER + share_bytes(NAME)


@pytest.mark.settings(f"vpn.subscription_bytes_max={ONE_FILTER + 2 * MEMBER}")
@pytest.mark.parametrize("qos", [0, 1])
async def test_members_of_a_group_count_and_so_does_its_name(broker: RunningBroker, qos: int) -> None:
    """The group is one subscription for all of them, and each keeps the filter and the name."""
    space = broker.node.default.space
    text = f"$share/{NAME}/t/" + "a" * 1000
    one, other, third = [await broker.connect(name, level=5) for name in ("a", "b", "c")]
    assert [await each.subscribe(text, qos=qos) for each in (one, other, third)] == [[qos], [qos], [QUOTA_EXCEEDED]]
    assert await other.subscribe(text, qos=qos) == [qos]
    assert space.subscriptions_bytes == ONE_FILTER + 2 * MEMBER
    await other.unsubscribe(text)
    assert await third.subscribe(text, qos=qos) == [qos]
    for each in (one, other, third):
        await each.vanish()
    await broker.has_no_more_than(sessions=0, queues=0)
    await until(lambda: space.subscriptions_bytes == 0, "all subscriptions to end")


async def test_operators_see_what_there_is_and_what_may_be(broker: RunningBroker) -> None:
    client = await broker.connect_durable("a")
    await client.subscribe("t/" + "x" * 1000)
    (view,) = vpns_view(broker.node).message_vpns
    assert (view.kept_session_count, view.max_mqtt_session_count) == (1, 100_000)
    assert (view.session_bytes, view.max_session_bytes) == (SMALL, 256 << 20)
    assert (view.subscription_bytes, view.max_subscription_bytes) == (ONE_FILTER, 256 << 20)
