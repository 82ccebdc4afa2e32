"""AMQP container ids and link names: which link is the same, and what a second attach does."""

import pytest

from sluicegate.protocols.amqp.codec.performatives import Detach, Open
from sluicegate.protocols.amqp.messages.decode import BODY_DATA, body_bytes_of
from sluicegate.protocols.amqp.types.values import AmqpMap, Symbol
from support.amqp.client import AmqpClient
from support.amqp.received import Ended
from support.broker.inside_client import InsideClient
from support.broker.running_broker import RunningBroker

SOLE = "sole-connection-for-container"


async def queue(broker: RunningBroker, **attributes: object) -> InsideClient:
    inside = InsideClient(broker, "q")
    await inside.create(**attributes)
    return inside


async def stolen(client: AmqpClient) -> Detach:
    detach = await client.awaited(Detach)
    assert detach.error is not None
    assert (detach.closed, detach.error.condition) == (False, "amqp:link:stolen")
    return detach


async def test_a_link_attached_again_elsewhere_is_stolen_and_no_message_is_lost(broker: RunningBroker) -> None:
    """AMQP 2.6.1, test case 24: container ids and name are the link, whichever connection it is on."""
    inside = await queue(broker)
    await inside.publish(b"1", b"2", b"3")
    first = await AmqpClient.open(broker.amqp_port, "worker")
    await first.receiver("l", "q", credit=2)
    held = await first.deliveries(2)
    first.settle(held[0].delivery_id)
    second = await AmqpClient.open(broker.amqp_port, "worker")
    await second.receiver("l", "q", credit=10)
    await stolen(first)
    assert [each.payload for each in await second.deliveries(2)] == [b"2", b"3"]
    await first.close()
    await second.close()


async def test_a_link_attached_again_on_its_own_connection_is_stolen(broker: RunningBroker) -> None:
    """AMQP 2.6.1: of whatever session, and for clients without a container id too."""
    inside = await queue(broker)
    client = await AmqpClient.open(broker.amqp_port, "")
    await client.sender("s", "q", handle=0)
    await client.receiver("s", "q", handle=1)  # the other direction is another link
    await client.sender("s", "q", handle=2)
    assert (await stolen(client)).handle == 0
    client.transfer(2, body_bytes_of(BODY_DATA, b"m"), settled=True)
    client.flow(1, 1)
    assert [each.payload for each in await client.deliveries(1)] == [b"m"]
    assert (await inside.overview()).usage_count == 1
    await client.close()


async def test_the_same_name_in_other_containers_is_another_link(broker: RunningBroker) -> None:
    await queue(broker, access_type="non-exclusive")
    clients = [await AmqpClient.open(broker.amqp_port, container) for container in ("a", "b", "", "")]
    for client in clients:
        await client.receiver("l", "q")
    for client in clients:
        await client.is_quiet()
        await client.close()


async def test_a_container_that_is_connected_is_refused_a_sole_connection(broker: RunningBroker) -> None:
    """Test case 17, as Qpid JMS maps it to InvalidClientIDException: an open that says so, then the close."""
    first = await AmqpClient.open(broker.amqp_port, "id", desired=[SOLE])
    answer = await first.awaited(Open)
    assert SOLE in answer.offered
    assert answer.properties is not None
    assert answer.properties.symbol("amqp:connection-establishment-failed") is None

    second = await AmqpClient.open(broker.amqp_port, "id", desired=[SOLE])
    answer = await second.awaited(Open)
    assert answer.properties is not None
    assert answer.properties.symbol("amqp:connection-establishment-failed") is True
    ended = await second.awaited(Ended)
    assert ended.error is not None
    assert ended.error.condition == "amqp:invalid-field"
    assert ended.error.info == AmqpMap([(Symbol("invalid-field"), Symbol("container-id"))])
    second.vanish()

    third = await AmqpClient.open(broker.amqp_port, "id")  # without the desire two may share an id
    await third.close()
    await first.close()
    fourth = await AmqpClient.open(broker.amqp_port, "id", desired=[SOLE])
    await fourth.is_quiet()
    await fourth.close()


@pytest.mark.accounts(ada="a", bob="b")
async def test_another_users_connection_keeps_no_container_out(broker: RunningBroker) -> None:
    """Container ids can be chosen: who takes another user's would else keep that user's only client out."""
    namesake = await AmqpClient.open(broker.amqp_port, "id", account=("bob", "b"))
    await namesake.round_trip()
    only = await AmqpClient.open(broker.amqp_port, "id", desired=[SOLE], account=("ada", "a"))
    assert (await only.receiver("l", "topic://t")).source is not None
    await only.close()
    await namesake.close()
