"""Who may consume a named queue: permission levels, owners, and how a client hears of a refusal (Solace 4.3)."""

import pytest

import support.mqtt.packets as mqtt
from sluicegate.actors.messages.directory import DeleteQueue, PermissionDenied, UpdateQueue
from sluicegate.gateway.admin.semp.objects.queues import QUEUE
from sluicegate.messaging.queues.definition import changed
from support.broker.named_queues import change, create, shown, shows
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import RawClient

DENIED = 0x87


async def subscribed(client: RawClient, text: str) -> tuple[list[int], bytes]:
    """Subscribe, and return the codes and the whole SUBACK."""
    packet_id = client.next_packet_id()
    client.send(mqtt.subscribe((text, 1), packet_id=packet_id, level=client.level))
    answer = await client.awaited(mqtt.SUBACK)
    return list(answer.body[-1:]), answer.body


@pytest.mark.parametrize(
    ("permission", "allowed"),
    [("no-access", False), ("read-only", False), ("consume", True), ("modify-topic", True), ("delete", True)],
)
async def test_a_client_needs_consume_to_bind(broker: RunningBroker, permission: str, allowed: bool) -> None:
    """Solace 4.3: levels are cumulative."""
    await create(broker, permission=permission)
    client = await broker.connect(level=5)
    assert await client.subscribe("$queue/q", qos=1) == [1 if allowed else DENIED]


async def test_a_denied_client_gets_the_reason(broker: RunningBroker) -> None:
    """Solace 4.3, and MQTT 3.9.2.1.2: the Reason String names user, right and queue."""
    await create(broker, permission="no-access")
    codes, body = await subscribed(await broker.connect(level=5), "$queue/q")
    assert codes == [DENIED]
    assert b"403 Permission Denied: a client without user name has 'no-access' on queue 'q'" in body


async def test_no_reason_comes_to_a_client_that_asked_for_none(broker: RunningBroker) -> None:
    """[MQTT-3.1.2-29]."""
    await create(broker, permission="no-access")
    client = await broker.connect(level=5, properties=bytes([23, 0]))
    codes, body = await subscribed(client, "$queue/q")
    assert (codes, len(body)) == ([DENIED], 4)


async def test_refusals_are_counted_by_reason(broker: RunningBroker) -> None:
    """Solace 4.5: bind failure counters of a queue."""
    await create(broker, permission="no-access", max_bind_count=1)
    client = await broker.connect(level=5)
    assert await client.subscribe("$queue/q", qos=1) == [DENIED]
    await change(broker, permission="consume")
    assert await client.subscribe("$queue/q", qos=1) == [1]
    assert await (await broker.connect(level=5)).subscribe("$queue/q", qos=1) == [0x97]
    view = await shown(broker)
    assert view.bind_refusals == {"permission_denied": 1, "max_bind_count_exceeded": 1}
    failures = [each for each in QUEUE.attributes if each.name.endswith("BindFailureCount")]
    assert {each.name: each.read(view) for each in failures if each.read is not None} == {
        "disabledBindFailureCount": 0,
        "maxBindCountExceededBindFailureCount": 1,
        "otherBindFailureCount": 1,
    }


@pytest.mark.accounts(alice="a", bob="b")
async def test_the_owner_may_do_everything(broker: RunningBroker) -> None:
    """Solace 4.3: the owner's name comes from authentication."""
    await create(broker, permission="no-access", owner="alice")
    alice = await broker.connect(level=5, user_name="alice", password=b"a")
    bob = await broker.connect(level=5, user_name="bob", password=b"b")
    assert await alice.subscribe("$queue/q", qos=1) == [1]
    assert await bob.subscribe("$queue/q", qos=1) == [DENIED]


async def test_an_unverified_name_owns_nothing(broker: RunningBroker) -> None:
    """Where no account is needed a client may call itself anything."""
    await create(broker, permission="no-access", owner="alice")
    alice = await broker.connect(level=5, user_name="alice")
    assert await alice.subscribe("$queue/q", qos=1) == [DENIED]


async def test_a_right_that_is_taken_away_ends_the_flow(broker: RunningBroker) -> None:
    """Solace 4.3: whoever may not consume does not go on to."""
    await create(broker, subscriptions=["t"])
    client = await broker.connect(level=5)
    assert await client.subscribe("$queue/q", qos=1) == [1]
    await change(broker, permission="read-only")
    await shows(broker, lambda view: not view.flows)
    await (await broker.connect()).publish("t")
    await client.is_quiet()


async def test_clients_change_and_delete_queues_by_their_rights(broker: RunningBroker) -> None:
    """Solace 4.3: modify-topic is for subscriptions, delete for the rest."""
    await create(broker, permission="modify-topic", owner="alice")
    queues = broker.node.default.queues
    bob = broker.node.default.clients.rights_of("bob", "device")
    await queues.ask(UpdateQueue("q", lambda q: changed(q.definition, {"subscriptions": ["a", "b"]}), bob))
    assert (await shown(broker)).subscriptions == ("a", "b")
    with pytest.raises(PermissionDenied, match="403 Permission Denied: user 'bob' has 'modify-topic'"):
        await queues.ask(UpdateQueue("q", lambda q: changed(q.definition, {"max_bind_count": 1}), bob))
    with pytest.raises(PermissionDenied, match="'delete' is needed"):
        await queues.ask(DeleteQueue("q", user="bob"))
    assert await queues.ask(DeleteQueue("q", user="alice"))
