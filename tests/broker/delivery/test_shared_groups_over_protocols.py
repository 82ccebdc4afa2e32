"""One shared group over all protocols: MQTT's `$share/`, SMF's `#share/`, and AMQP links to either."""

import pytest

from sluicegate.messaging.clients.rights import SHARE_NAME_ACL
from sluicegate.protocols.amqp.codec.performatives import Detach
from sluicegate.protocols.amqp.codec.termini import Source
from sluicegate.protocols.amqp.types.values import AmqpMap, Symbol, uint
from support.amqp.client import AmqpClient, refused_with
from support.amqp.received import Received
from support.broker.inside_client import until
from support.broker.operator_views import explained
from support.broker.running_broker import RunningBroker
from support.broker.virtual_clients import publish
from support.flow.client import FlowClient, subscribes

MQTT_FORM, SMF_FORM = "$share/crew/work/+", "#share/crew/work/*"
TOPIC = "work/a"
TEN = [b"%d" % number for number in range(10)]


async def member(broker: RunningBroker, address: str, name: str = "link", *, credit: int = 100) -> AmqpClient:
    client = await AmqpClient.open(broker.amqp_port, name)
    answer = await client.receiver(name, Source(address), credit=credit)
    assert answer.source is not None
    return client


def payloads(received: list[Received]) -> list[bytes]:
    return [each.payload for each in received]


def groups_of(broker: RunningBroker) -> set[str]:
    """Return the members of each group on the topic, and its queue."""
    route = broker.node.default.space.route(TOPIC)
    return {f"{len(group.members)} {group.queue.name if group.queue else ''}" for group in route.groups}


@pytest.mark.parametrize("address", [MQTT_FORM, SMF_FORM, f"topic://{SMF_FORM}"])
async def test_guaranteed_messages_go_to_one_member_of_either_protocol(broker: RunningBroker, address: str) -> None:
    mqtt = await broker.connect("m", 5)
    assert await mqtt.subscribe(MQTT_FORM, qos=1) == [1]
    amqp = await member(broker, address, credit=5)
    assert groups_of(broker) == {f"2 #share/{MQTT_FORM[len('$share/') :]}"}

    assert await publish(broker, TOPIC, *TEN) == [0] * 10

    by_amqp = payloads(await amqp.deliveries(5))
    assert sorted(by_amqp + await mqtt.payloads(5)) == TEN
    await amqp.is_quiet()
    await mqtt.is_quiet()
    await amqp.close()


async def test_the_queue_of_a_group_is_found_after_a_restart_whichever_client_made_it(broker: RunningBroker) -> None:
    """An AMQP link that wrote the filter its way has left, and the member that is left writes it in MQTT's."""
    client = await AmqpClient.open(broker.amqp_port, "link")
    await client.receiver("link", Source(SMF_FORM, durable=2), credit=0)
    mqtt = await broker.connect_durable("m")
    assert await mqtt.subscribe(MQTT_FORM, qos=1) == [1]
    await mqtt.leave()
    assert await publish(broker, TOPIC, *TEN) == [0] * 10
    client.vanish()

    await broker.restart()

    assert groups_of(broker) == {f"1 #share/{MQTT_FORM[len('$share/') :]}"}
    back = await broker.connect_durable("m")
    assert await back.payloads(10) == TEN


async def test_direct_messages_take_turns_over_all_protocols(broker: RunningBroker) -> None:
    """Nothing is lost by it that a member takes messages from the queue only."""
    mqtt = await broker.connect("m", 5)
    await mqtt.subscribe(MQTT_FORM)
    amqp = await member(broker, MQTT_FORM)
    async with FlowClient(broker.flow_port) as flow:
        await subscribes(flow, SMF_FORM)
        [view] = (await explained(broker, TOPIC, qos=0)).destinations
        assert view.reason == "it is the turn of m, one of 3 members"
        assert await publish(broker, TOPIC, *TEN[:9], qos=0) == [0] * 9
        assert await mqtt.payloads(3) == [b"0", b"3", b"6"]
        assert payloads(await amqp.deliveries(3)) == [b"1", b"4", b"7"]
        assert [each.payload for each in await flow.receives_in_all(3, 0)] == [b"2", b"5", b"8"]
    await amqp.close()


@pytest.mark.parametrize("ends", ["detached", "closed", "connection closed", "lost"])
async def test_a_membership_ends_with_its_link_and_the_group_with_its_last_member(
    broker: RunningBroker, ends: str
) -> None:
    stays = await broker.connect("m", 5)
    assert await stays.subscribe(MQTT_FORM, qos=1) == [1]
    amqp = await member(broker, SMF_FORM)
    await _leave(amqp, ends)
    await until(lambda: min(groups_of(broker)).startswith("1 "), "one member is left")
    assert await publish(broker, TOPIC, *TEN) == [0] * 10
    assert await stays.payloads(10) == TEN
    await stays.unsubscribe(MQTT_FORM)
    assert groups_of(broker) == set()
    amqp.vanish()


async def _leave(client: AmqpClient, how: str) -> None:
    if how == "lost":
        client.vanish()
    elif how == "connection closed":
        await client.close()
    else:
        client.detach(0, closed=how == "closed")
        await client.awaited(Detach)


async def test_a_member_with_its_filter_in_the_wrong_syntax_takes_nothing_from_the_intended_group(
    broker: RunningBroker,
) -> None:
    """In SMF's syntax `work/+` is one topic: another group, whose queue would have the same name."""
    wrong = Source(MQTT_FORM.replace("$", "#"))
    mqtt = await broker.connect("m", 5)
    assert await mqtt.subscribe(MQTT_FORM, qos=1) == [1]
    client = await AmqpClient.open(broker.amqp_port, "reader")
    assert await refused_with(client, await client.receiver("a", wrong)) == "amqp:illegal-state"
    await client.close()
    assert await publish(broker, TOPIC, *TEN) == [0] * 10
    assert await mqtt.payloads(10) == TEN
    await mqtt.unsubscribe(MQTT_FORM)

    client = await AmqpClient.open(broker.amqp_port, "reader")
    assert (await client.receiver("a", wrong)).source is not None, "the name is free again"
    assert await mqtt.subscribe(MQTT_FORM, qos=1) == [0x83]
    await client.close()


async def test_partitions_and_addresses_that_are_no_group_are_refused(broker: RunningBroker) -> None:
    client = await AmqpClient.open(broker.amqp_port, "reader")
    four = AmqpMap([(Symbol("partition-count"), uint(4))])
    await client.receiver("a", Source(MQTT_FORM), properties=four)
    two = AmqpMap([(Symbol("partition-count"), uint(2))])
    other = await client.receiver("b", Source(SMF_FORM), handle=1, properties=two)
    assert await refused_with(client, other) == "amqp:illegal-state"
    for handle, address in enumerate(("$share//t", "$share/g", "#share/*/t"), 2):
        assert await refused_with(client, await client.receiver(address, Source(address), handle=handle)) == (
            "amqp:invalid-field"
        )
    assert groups_of(broker) == {f"1 #share/{MQTT_FORM[len('$share/') :]}"}
    assert (await client.sender("s", MQTT_FORM)).target is None, "it is to receive from only"
    await client.awaited(Detach)
    await client.close()


@pytest.mark.settings(
    "authentication.acl_profiles=[{name: default, subscribe_share_name_default_action: disallow,"
    " subscribe_share_name_exceptions: [{topic: mine}], publish_topic_default_action: allow,"
    " subscribe_topic_default_action: allow, client_connect_default_action: allow}]"
)
async def test_the_share_name_needs_its_right(broker: RunningBroker) -> None:
    client = await AmqpClient.open(broker.amqp_port, "reader")
    answer = await client.receiver("a", Source(MQTT_FORM))
    assert await refused_with(client, answer) == "amqp:unauthorized-access"
    assert broker.node.default.clients.denials.counts == {SHARE_NAME_ACL: 1}
    assert (await client.receiver("b", Source("$share/mine/t"), handle=1)).source is not None
    await client.close()
