"""Temporary queues and topics that AMQP clients have the broker create, and when these are deleted."""

import pytest

from sluicegate.actors.messages.directory import FindQueue
from sluicegate.protocols.amqp.codec.performatives import Attach, Detach
from sluicegate.protocols.amqp.codec.termini import Source, Target
from sluicegate.protocols.amqp.links.dynamic_nodes import policy_properties
from sluicegate.protocols.amqp.messages.decode import body_bytes_of
from sluicegate.protocols.amqp.registry import (
    DELETE_ON_CLOSE,
    DELETE_ON_NO_LINKS,
    DELETE_ON_NO_LINKS_OR_MESSAGES,
    DELETE_ON_NO_MESSAGES,
)
from sluicegate.protocols.flow.codec import codes
from support.amqp.client import AmqpClient
from support.amqp.temporary_nodes import BODY, made_queue, queue_is_gone
from support.broker.protocol_clients import OK, Amqp, FlowProtocol, Mqtt, ProtocolClient
from support.broker.running_broker import RunningBroker


def message(payload: bytes) -> bytes:
    return body_bytes_of(BODY, payload)


async def test_a_dynamic_source_is_a_queue_that_anybody_may_send_to(broker: RunningBroker) -> None:
    """AMQP 3.5.3, test case 63: an address comes back, what is sent there arrives, and it goes with its connection."""
    asking = await AmqpClient.open(broker.amqp_port, "asking")
    address = await made_queue(asking)
    asking.flow(0, 10)
    answering = await AmqpClient.open(broker.amqp_port, "answering")
    await answering.sender("s", address)
    answering.transfer(9, message(b"the answer"))
    (answer,) = await asking.deliveries(1)
    assert answer.payload == b"the answer"

    asking.vanish()
    detach = await answering.awaited(Detach)
    assert detach.error is not None
    assert (detach.closed, detach.error.condition) == (True, "amqp:resource-deleted")
    await queue_is_gone(broker, address)
    await answering.close()


async def test_other_clients_cannot_receive_from_a_temporary_queue(broker: RunningBroker) -> None:
    """JMS 6.2.2; another connection under the same container id is another connection."""
    first = await AmqpClient.open(broker.amqp_port, "c")
    address = await made_queue(first)
    for container in ("c", "other"):
        second = await AmqpClient.open(broker.amqp_port, container)
        answer = await second.receiver("l", address)
        assert answer.source is None
        detach = await second.awaited(Detach)
        assert detach.error is not None
        assert detach.error.condition == "amqp:resource-locked"
        await second.close()
    answer = await first.receiver("again", address, handle=1)
    assert answer.source is not None
    await first.close()


async def made_topic(client: AmqpClient) -> str:
    made = await client.sender("maker", Target(None, dynamic=True, capabilities=["temporary-topic"]), handle=0)
    assert isinstance(made.target, Target)
    assert made.target.address is not None
    return made.target.address


@pytest.mark.parametrize("spied", ["$temporary/#", "$temporary/+", "$temporary*/>", "+/+", "#", ">"])
async def test_no_wildcard_finds_what_is_sent_to_a_temporary_topic(broker: RunningBroker, spied: str) -> None:
    """JMS 6.2.2: what cannot be received from by its name is not received from without it."""
    first = await AmqpClient.open(broker.amqp_port, "c")
    target = Target(None, dynamic=True, capabilities=["temporary-topic"])
    made = await first.sender("maker", target)
    assert isinstance(made.target, Target)
    spy = await AmqpClient.open(broker.amqp_port, "other")
    answer = await spy.receiver("l", f"topic://{spied}", credit=10)
    if answer.source is not None:
        first.transfer(9, message(b"m"))
        await first.confirmed()
        await spy.is_quiet()
    await spy.close()
    await first.close()


@pytest.mark.parametrize("share", ["", "$share/g/"])
async def test_a_temporary_topic_has_no_subscribers_of_other_protocols_or_shares(
    broker: RunningBroker, share: str
) -> None:
    """JMS 6.2.2: whoever is asked for a reply learns the name; that is to send there, not to listen."""
    asking = await AmqpClient.open(broker.amqp_port, "asking")
    topic = (await made_topic(asking)).removeprefix("temp-topic://")
    for make, refused in (
        (Mqtt, 0x87),
        (FlowProtocol, codes.PERMISSION_DENIED),
        (Amqp, "amqp:unauthorized-access" if share else "amqp:resource-locked"),
    ):
        client: ProtocolClient = make(broker, "answering")
        assert await client.connect("", "") == OK
        assert await client.subscribe(share + topic) == refused
        assert await client.publish(topic) == OK
        await client.leave()
    await asking.close()


@pytest.mark.settings(
    "authentication.acl_profiles=[{name: strict, publish_topic_exceptions: [{topic: '$temporary/>'}]}]",
    "authentication.users.0.acl_profile=strict",
)
@pytest.mark.accounts(ada="a")
async def test_the_creator_of_a_temporary_topic_receives_from_it_whatever_its_acl_profile_forbids(
    broker: RunningBroker,
) -> None:
    """No exception of an ACL profile could name it: the gateway finds the name."""
    client = await AmqpClient.open(broker.amqp_port, account=("ada", "a"))
    address = await made_topic(client)
    assert (await client.receiver("r", address, handle=1, credit=1)).source is not None
    client.transfer(0, message(b"m"))
    assert (await client.delivery()).payload == b"m"
    assert (await client.receiver("s", "topic://t", handle=2)).source is None
    await client.close()


async def test_a_dynamic_target_makes_a_topic_for_the_links_of_its_connection(broker: RunningBroker) -> None:
    """Test case 64, as JMS makes a TemporaryTopic: by a link to send on."""
    client = await AmqpClient.open(broker.amqp_port)
    target = Target(None, dynamic=True, capabilities=["temporary-topic"])
    made = await client.sender("maker", target, handle=0)
    assert isinstance(made.target, Target)
    assert made.target.capabilities == ["temporary-topic"]
    address = made.target.address
    assert address is not None
    assert made.target.dynamic_properties == policy_properties(DELETE_ON_CLOSE)

    for handle in (1, 2):
        source = Source(address, capabilities=["temporary-topic"] if handle == 1 else None)
        await client.receiver(f"r{handle}", source, handle=handle, credit=10)
    other = await AmqpClient.open(broker.amqp_port, "other")
    assert (await other.receiver("l", address)).source is None
    assert (await other.awaited(Detach)).closed
    await other.sender("s", address)
    other.transfer(9, message(b"m"))
    copies = await client.deliveries(2)
    assert {(each.handle, each.payload) for each in copies} == {(1, b"m"), (2, b"m")}

    client.detach(0)
    ended = {(await client.awaited(Detach)).handle for _ in range(3)}
    assert ended == {0, 1, 2}
    assert (await other.awaited(Detach)).handle == 9
    await client.close()
    await other.close()


async def test_a_dynamic_target_is_a_queue_unless_it_says_otherwise(broker: RunningBroker) -> None:
    client = await AmqpClient.open(broker.amqp_port)
    made = await client.sender("maker", Target(None, dynamic=True), handle=0)
    assert isinstance(made.target, Target)
    assert made.target.address is not None
    client.transfer(0, message(b"kept until it is read"))
    await client.receiver("l", made.target.address, handle=1, credit=1)
    assert [each.payload for each in await client.deliveries(1)] == [b"kept until it is read"]
    await client.close()
    await queue_is_gone(broker, made.target.address)


async def test_without_links_a_node_goes_where_that_is_its_policy(broker: RunningBroker) -> None:
    """AMQP 3.5.11: the link that made it may close before the last one does."""
    client = await AmqpClient.open(broker.amqp_port)
    address = await made_queue(client, DELETE_ON_NO_LINKS)
    await client.sender("s", address)
    client.detach(0)
    await client.awaited(Detach)
    assert await broker.node.default.queues.ask(FindQueue(address)) is not None
    client.detach(9)
    await client.awaited(Detach)
    await queue_is_gone(broker, address)
    await client.close()


@pytest.mark.parametrize("policy", [DELETE_ON_NO_MESSAGES, DELETE_ON_NO_LINKS_OR_MESSAGES])
async def test_without_messages_a_node_goes_where_that_is_its_policy(broker: RunningBroker, policy: int) -> None:
    """AMQP 3.5.12, 3.5.13: what holds a message stays when its maker closes, until somebody has taken it."""
    client = await AmqpClient.open(broker.amqp_port)
    address = await made_queue(client, policy)
    await client.sender("s", address)
    client.transfer(9, message(b"m"))
    for handle in (0, 9):
        client.detach(handle)
        await client.awaited(Detach)
    assert await broker.node.default.queues.ask(FindQueue(address)) is not None
    await client.receiver("l", address, handle=1, credit=1)
    (held,) = await client.deliveries(1)
    client.settle(held.delivery_id)
    client.detach(1)
    await queue_is_gone(broker, address)
    await client.close()


async def test_an_invalid_dynamic_node_is_refused(broker: RunningBroker) -> None:
    """AMQP 3.5.3: no address goes with dynamic; a lifetime policy is one of the four."""
    client = await AmqpClient.open(broker.amqp_port)
    bad_policy = policy_properties(0x2F)
    for handle, terminus in enumerate(
        (Source("named", dynamic=True), Source(None, dynamic=True, dynamic_properties=bad_policy))
    ):
        answer = await client.receiver(f"l{handle}", terminus, handle=handle)
        assert answer.source is None
        detach = await client.awaited(Detach)
        assert detach.error is not None
        assert detach.error.condition == "amqp:invalid-field"
    refused = await client.sender("s", Target("named", dynamic=True))
    assert isinstance(refused, Attach)
    assert refused.target is None
    await client.close()


@pytest.mark.settings("authentication.client_profiles=[{name: default, max_ingress_flow_count: 2}]")
async def test_senders_to_nodes_that_are_being_made_count_among_publisher_flows(broker: RunningBroker) -> None:
    """docs/operate/accounts.md, `max_ingress_flow_count`: also when a client attaches them all at once."""
    client = await AmqpClient.open(broker.amqp_port)
    for handle in range(3):
        node = Target(None, dynamic=True)
        asked = Attach(f"s{handle}", handle=handle, is_receiver=False, source=Source("here"), target=node)
        asked.initial_delivery_count = 0
        client.send(asked.encode())
    refused = await client.awaited(Detach)
    assert refused.error is not None
    assert (refused.handle, refused.error.condition) == (2, "amqp:resource-limit-exceeded")
    client.send(Detach(2, closed=True).encode())
    for _ in range(3):
        await client.awaited(Attach)
    client.detach(0)
    await client.awaited(Detach)
    answer = await client.sender("s3", Target(None, dynamic=True), handle=2)
    assert answer.target is not None, "there is room for another one"
    await client.close()
