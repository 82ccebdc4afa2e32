"""Queues that flow clients create, change, delete and query."""

import json

import pytest

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.messaging.clients.rights import PUBLISH_ACL, SUBSCRIBE_ACL
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.queues.template import template_from_dict
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec import frame as frames
from sluicegate.protocols.flow.codec.frames.deliver import Delivered
from sluicegate.protocols.flow.codec.frames.flow import ACTIVE, ENDED, Bind, Bound, FlowState
from sluicegate.protocols.flow.codec.frames.provision import DURABLE, TEMPORARY, Provision, Provisioned
from support.broker.named_queues import change, create, shown
from support.broker.running_broker import RunningBroker
from support.flow.bulk_client import BulkClient, rows_of
from support.flow.client import FlowClient, Refused

ACCOUNTS = pytest.mark.accounts(ada="engine", bob="builder")
OWN_TOPICS = pytest.mark.settings(
    "authentication.acl_profiles=[{name: own, subscribe_topic_exceptions: [{topic: 'data/$client-username/>'}]}]",
    "authentication.users.0.acl_profile=own",
)


async def provisions(
    client: FlowClient, kind: int, name: str, durability: int = 0, **attributes: object
) -> Provisioned:
    _, request_id = client.ids()
    data = json.dumps(attributes).encode() if attributes else b""
    client.send(Provision(kind, request_id, name, durability, data).encode())
    return await client.heard(Provisioned, lambda answer: answer.request_id == request_id)


async def refusal_of(client: FlowClient, kind: int, name: str, **attributes: object) -> int:
    """Return the code by which a request is refused."""
    with pytest.raises(Refused) as refusal:
        await provisions(client, kind, name, 0, **attributes)
    return refusal.value.error.code


async def browses(client: FlowClient, queue: str = "q", *, credit: int = 1000, selector: str = "") -> int:
    flow_id, request_id = client.ids()
    client.send(Bind(flow_id, request_id, queue, 0, credit, False, selector, True).encode())
    await client.heard(Bound, lambda bound: bound.request_id == request_id)
    assert (await client.heard(FlowState)).state == ACTIVE
    return flow_id


async def published(broker: RunningBroker, first: int, last: int, *, colour: str = "") -> None:
    async with FlowClient(broker.flow_port, name="filler") as client:
        opened = await client.opens_publisher()
        headers = Headers(user_properties=[("colour", colour)]) if colour else None
        for number in range(first, last + 1):
            payload = b"%d" % number
            client.publishes(opened.flow_id, [number], queue="q", payload=payload, headers=headers)
        await client.answered(opened.flow_id, last)


async def is_gone(client: FlowClient, queue: str) -> bool:
    """Wait until a queue cannot be bound any more."""
    try:
        while True:
            await client.unbinds(await client.binds(queue))
    except Refused as refusal:
        return refusal.error.code == codes.NOT_FOUND


def payloads(received: list[Delivered]) -> list[bytes]:
    return [each.payload for each in received]


async def test_a_queue_is_made_changed_and_deleted(broker: RunningBroker) -> None:
    """Flow: provisioning. Attributes have the names of the admin API; what is in force comes back."""
    async with FlowClient(broker.flow_port) as client:
        wanted = {"max_redelivery_count": 5, "permission": "delete", "subscriptions": ["orders/>"]}
        made = await provisions(client, frames.PROVISION, "orders", DURABLE, **wanted)
        attributes = json.loads(made.attributes)
        assert (made.name, attributes["name"], attributes["max_redelivery_count"]) == ("orders", "orders", 5)
        assert attributes["subscriptions"] == ["orders/>"]
        altered = await provisions(client, frames.ALTER, "orders", max_bind_count=3)
        assert json.loads(altered.attributes)["max_bind_count"] == 3
        assert (await shown(broker, "orders")).config.max_redelivery_count == 5
        await provisions(client, frames.DEPROVISION, "orders")
        with pytest.raises(Refused) as refusal:
            await client.binds("orders")
        assert refusal.value.error.code == codes.NOT_FOUND


async def test_a_temporary_queue_without_a_name_gets_one_and_goes_with_its_consumer(broker: RunningBroker) -> None:
    """Flow: provisioning. It is for replies: it takes no other client, and ends when its client unbinds."""
    async with FlowClient(broker.flow_port, name="asker") as client:
        made = await provisions(client, frames.PROVISION, "", TEMPORARY)
        flow_id = await client.binds(made.name)
        opened = await client.opens_publisher()
        client.publishes(opened.flow_id, [1], queue=made.name)
        assert payloads(await client.receives_in_all(1, flow_id)) == [b"1"]
        await client.unbinds(flow_id)
        assert await is_gone(client, made.name)


async def test_an_invalid_provisioning_request_is_refused_with_a_code(broker: RunningBroker) -> None:
    """Flow: errors. The text says what is wrong and what is allowed."""
    await create(broker)
    async with FlowClient(broker.flow_port) as client:
        for kind, name, durability, attributes, code in (
            (frames.PROVISION, "q", 0, {}, codes.ALREADY_EXISTS),
            (frames.PROVISION, "a", 9, {}, codes.REQUEST_INVALID),
            (frames.PROVISION, "a", 0, {"colour": "red"}, codes.REQUEST_INVALID),
            (frames.PROVISION, "a<b", 0, {}, codes.REQUEST_INVALID),
            (frames.ALTER, "q", 0, {"max_bind_count": -1}, codes.REQUEST_INVALID),
            (frames.ALTER, "nobody", 0, {"max_bind_count": 1}, codes.NOT_FOUND),
            (frames.DEPROVISION, "nobody", 0, {}, codes.NOT_FOUND),
        ):
            with pytest.raises(Refused) as refusal:
                await provisions(client, kind, name, durability, **attributes)
            assert (refusal.value.error.code, bool(refusal.value.error.text)) == (code, True)
        for data in (b"{", b"[]"):
            client.send(Provision(frames.PROVISION, 999, "a", 0, data).encode())
            with pytest.raises(Refused) as refusal:
                await client.heard(Provisioned)
            assert refusal.value.error.code == codes.REQUEST_INVALID


@ACCOUNTS
async def test_queues_are_changed_and_deleted_with_permission_only(broker: RunningBroker) -> None:
    """Flow: provisioning, rights. The maker owns the queue; others have what its permission says."""
    ada, bob = FlowClient(broker.flow_port, name="ada"), FlowClient(broker.flow_port, name="bob")
    for client, password in ((ada, b"\0ada\0engine"), (bob, b"\0bob\0builder")):
        await client.connect()
        await client.authenticate("PLAIN", password)
    await provisions(ada, frames.PROVISION, "mine", permission="consume")
    for kind, attributes in ((frames.ALTER, {"max_bind_count": 5}), (frames.DEPROVISION, {})):
        with pytest.raises(Refused) as refusal:
            await provisions(bob, kind, "mine", **attributes)
        assert refusal.value.error.code == codes.PERMISSION_DENIED
    await change(broker, "mine", permission="modify-topic")
    await provisions(bob, frames.ALTER, "mine", subscriptions=["a/b"])
    await provisions(ada, frames.DEPROVISION, "mine")
    await ada.close()
    await bob.close()


@ACCOUNTS
@pytest.mark.settings(
    "authentication.client_profiles=[{name: one, max_endpoint_count_per_client_username: 1}]",
    "authentication.users.0.client_profile=one",
)
async def test_a_change_cannot_give_a_queue_what_its_client_may_not_create(broker: RunningBroker) -> None:
    """Solace 4.12: no partitioned queues; 7.2: so many queues of its user."""
    client = FlowClient(broker.flow_port, name="ada")
    await client.connect()
    await client.authenticate("PLAIN", b"\0ada\0engine")
    await provisions(client, frames.PROVISION, "mine", access_type="non-exclusive", egress_enabled=False)
    for attributes in ({"partition_count": 4}, {"owner": "bob"}, {"owner": ""}):
        assert await refusal_of(client, frames.ALTER, "mine", **attributes) == codes.REQUEST_INVALID
    await provisions(client, frames.ALTER, "mine", owner="ada", partition_count=0)
    assert await refusal_of(client, frames.PROVISION, "another") == codes.PERMISSION_DENIED
    await client.close()


@ACCOUNTS
@OWN_TOPICS
async def test_no_queue_of_a_client_collects_what_that_may_not_subscribe_to(broker: RunningBroker) -> None:
    """docs/operate/accounts.md, ACL profiles: it could be consumed. Neither by its subscriptions nor by its name."""
    client = FlowClient(broker.flow_port, name="ada")
    await client.connect()
    await client.authenticate("PLAIN", b"\0ada\0engine")
    for name, topics in (
        ("spy", ["secret/>"]),
        ("spy", ["data/ada/>", ">"]),
        ("spy", [">", "!secret/>"]),
        ("Consumer.spy.VirtualTopic.Secret", []),
    ):
        assert await refusal_of(client, frames.PROVISION, name, subscriptions=topics) == codes.PERMISSION_DENIED
    await provisions(client, frames.PROVISION, "mine", subscriptions=["data/ada/>", "!data/ada/private/>"])
    topics = ["data/ada/>", "!data/ada/private/>", "secret/>"]
    assert await refusal_of(client, frames.ALTER, "mine", subscriptions=topics) == codes.PERMISSION_DENIED
    assert (await shown(broker, "mine")).subscriptions == ("data/ada/>", "!data/ada/private/>")
    assert broker.node.default.clients.denials.counts == {SUBSCRIBE_ACL: 5}
    await client.close()


@ACCOUNTS
@OWN_TOPICS
async def test_existing_subscriptions_of_a_queue_do_not_prevent_its_change(broker: RunningBroker) -> None:
    """Others gave it these topics. To take an exception away is to add all that they match."""
    await create(broker, subscriptions=["a", ">", "!secret/>"], permission="delete")
    client = FlowClient(broker.flow_port, name="ada")
    await client.connect()
    await client.authenticate("PLAIN", b"\0ada\0engine")
    await provisions(client, frames.ALTER, "q", max_bind_count=5)
    await provisions(client, frames.ALTER, "q", subscriptions=[">", "!secret/>", "!more/>", "data/ada/x"])
    topics = [">", "!more/>", "!others/>"]
    assert await refusal_of(client, frames.ALTER, "q", subscriptions=topics) == codes.PERMISSION_DENIED
    await provisions(client, frames.ALTER, "q", subscriptions=["data/ada/x"])
    assert (await shown(broker)).subscriptions == ("data/ada/x",)
    await client.close()


@ACCOUNTS
@pytest.mark.settings(
    "authentication.acl_profiles=[{name: own, publish_topic_exceptions: [{topic: $queue/mine/>}]}]",
    "authentication.users.0.acl_profile=own",
)
async def test_dead_messages_go_to_no_queue_that_the_client_may_not_publish_to(broker: RunningBroker) -> None:
    """docs/operate/accounts.md, ACL profiles. It could put there what it rejects; a template is an operator's."""
    template: dict[str, object] = {"name": "t", "queue_name_filter": "by-template", "dead_msg_queue": "orders"}
    await NodeOperations(broker.node).put_template(template_from_dict(template), must_be_new=True)
    client = FlowClient(broker.flow_port, name="ada")
    await client.connect()
    await client.authenticate("PLAIN", b"\0ada\0engine")
    assert await refusal_of(client, frames.PROVISION, "a", dead_msg_queue="orders") == codes.PERMISSION_DENIED
    await provisions(client, frames.PROVISION, "a", dead_msg_queue="mine/dead")
    assert await refusal_of(client, frames.ALTER, "a", dead_msg_queue="orders") == codes.PERMISSION_DENIED
    for name in ("", "#DEAD_MSG_QUEUE"):
        await provisions(client, frames.ALTER, "a", dead_msg_queue=name)
    await provisions(client, frames.PROVISION, "by-template")
    await provisions(client, frames.ALTER, "by-template", max_bind_count=5)
    assert (await shown(broker, "by-template")).config.dead_msg_queue == "orders"
    assert broker.node.default.clients.denials.counts == {PUBLISH_ACL: 2}
    await client.close()


@pytest.mark.settings("vpn.max_subscription_count=4")
async def test_queues_of_clients_have_no_more_topics_than_their_vpn_may(broker: RunningBroker) -> None:
    """docs/concepts/message-vpns.md, quotas. A queue has one subscription by its name."""
    async with FlowClient(broker.flow_port) as client:
        topics = ["a", "b", "c", "d", "e"]
        assert await refusal_of(client, frames.PROVISION, "q", subscriptions=topics) == codes.PERMISSION_DENIED
        await provisions(client, frames.PROVISION, "q", subscriptions=["a", "b", "c"])
        assert await refusal_of(client, frames.PROVISION, "r", subscriptions=["d"]) == codes.PERMISSION_DENIED
        await provisions(client, frames.PROVISION, "r")


@pytest.mark.settings("vpn.max_subscription_count=4")
async def test_a_change_that_leaves_a_queue_no_more_topics_is_made_whatever_the_quota_of_its_vpn(
    broker: RunningBroker,
) -> None:
    """An exception is no subscription, and what is replaced is gone."""
    async with FlowClient(broker.flow_port) as client:
        await provisions(client, frames.PROVISION, "q", subscriptions=["a", "b", "c/>", "!c/x"], permission="delete")
        for topics in (["a", "b", "c/>"], ["a", "b", "d"]):
            await provisions(client, frames.ALTER, "q", subscriptions=topics)
        more = ["a", "b", "d", "e"]
        assert await refusal_of(client, frames.ALTER, "q", subscriptions=more) == codes.PERMISSION_DENIED


async def test_a_browser_sees_what_waits_and_what_comes_and_takes_nothing(broker: RunningBroker) -> None:
    """Flow: consuming, browsing. Credit limits what comes; there is nothing to settle."""
    await create(broker)
    await published(broker, 1, 250)
    async with FlowClient(broker.flow_port) as client:
        flow_id = await browses(client, credit=200)
        first = await client.receives_in_all(200, flow_id)
        assert payloads(first) == [b"%d" % number for number in range(1, 201)]
        assert [each.delivery_id for each in first] == [each.message_id for each in first] == list(range(1, 201))
        client.grants(flow_id, 300)
        await client.receives_in_all(50, flow_id)
        await published(broker, 251, 252)
        assert payloads(await client.receives_in_all(2, flow_id)) == [b"251", b"252"]
        assert (await shown(broker)).ready_count == 252
        await client.unbinds(flow_id)
        assert (await shown(broker)).flows == ()


async def test_a_browser_may_select_and_hears_of_the_end_of_its_queue(broker: RunningBroker) -> None:
    """Flow: consuming, browsing. FLOW_STATE says that the flow has ended."""
    await create(broker)
    await published(broker, 1, 3, colour="red")
    await published(broker, 1, 2, colour="blue")
    async with FlowClient(broker.flow_port) as client:
        flow_id = await browses(client, selector="colour = 'blue'")
        assert payloads(await client.receives_in_all(2, flow_id)) == [b"1", b"2"]
        await NodeOperations(broker.node).delete_queue("q")
        ended = await client.heard(FlowState)
        assert (ended.flow_id, ended.state, ended.code) == (flow_id, ENDED, codes.REVOKED)


async def test_a_browser_that_does_not_read_delays_no_other_client(broker: RunningBroker) -> None:
    """Flow: consuming, browsing. What does not fit into its socket waits in the queue, and comes when there is room."""
    await create(broker)
    async with BulkClient(broker.flow_port) as client:
        for part in range(4):
            await client.stages("t", part, rows_of(["q"] * 250, [bytes(20_000)] * 250), 250, to_queues=True)
        await client.commits("t", *[(part, 0) for part in range(4)])
        slow = FlowClient(broker.flow_port, receive_buffer_bytes=4096)
        await slow.open()
        flow_id = await browses(slow, credit=0)
        slow.transport.pause_reading()
        slow.grants(flow_id, 1000)
        await client.receives_in_all(1000, await browses(client))
    slow.transport.resume_reading()

    received = await slow.receives_in_all(1000, flow_id)
    assert [each.message_id for each in received] == list(range(1, 1001))
    await slow.close()
