"""Temporary and anonymous queues, queues that expire, and templates (Solace 4.11, 4.12)."""

import asyncio

import pytest

from sluicegate.actors.messages.directory import (
    DeclareQueue,
    DeleteQueue,
    FindQueue,
    KeepQueues,
    LocalQueue,
    QueueExpired,
)
from sluicegate.actors.messages.queues import BindRefused, UnbindFlow
from sluicegate.gateway.config.load import load
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.errors import QueueNotFound, TemplateAlreadyExists, TemplateNotFound
from sluicegate.gateway.views.queues.queues import QueueView
from sluicegate.messaging.clients.rights import ClientDenied
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.messaging.queues.template import template_from_dict
from sluicegate.protocols.flow.codec import codes
from support.broker.browser_client import Browser
from support.broker.named_queues import change, create, shown
from support.broker.running_broker import RunningBroker
from support.flow.bulk_client import BulkClient
from support.flow.client import Refused
from support.mqtt.raw_client import DEADLINE_S


async def declare(
    broker: RunningBroker, *, durable: bool | None = None, client: str | None = None, user: str = "", **asked: object
) -> LocalQueue:
    rights = None if client is None else broker.node.default.clients.rights_of(user, client)
    handle: LocalQueue = await broker.node.default.queues.ask(DeclareQueue(asked, durable, rights))
    return handle


async def temporary(broker: RunningBroker, name: str = "q", **attributes: object) -> QueueView:
    return await NodeOperations(broker.node).create_queue({"name": name, **attributes}, durable=False)


async def is_deleted(broker: RunningBroker, name: str = "q") -> None:
    async with asyncio.timeout(2 * DEADLINE_S):
        while await broker.node.default.queues.ask(FindQueue(name)) is not None:
            await asyncio.sleep(0.01)


async def test_a_temporary_queue_is_used_like_any_other_and_gone_after_a_restart(broker: RunningBroker) -> None:
    """Solace 4.11: non-durable queues keep nothing."""
    assert not (await temporary(broker, subscriptions=["t"])).durable
    consumer = await broker.connect(level=5)
    assert await consumer.subscribe("$queue/q", qos=1) == [1]
    await (await broker.connect()).publish("t", b"m")
    assert await consumer.payloads(1) == [b"m"]
    view = await change(broker, max_bind_count=1)
    assert (view.durable, view.config.max_bind_count) == (False, 1)
    await broker.restart()
    with pytest.raises(QueueNotFound):
        await shown(broker)


@pytest.mark.settings("queues.temporary_grace_s=1")
async def test_an_unbound_temporary_queue_is_deleted_after_the_grace_period(broker: RunningBroker) -> None:
    """docs/operate/settings.md: queues.temporary_grace_s."""
    await temporary(broker)
    await is_deleted(broker)


async def test_a_reload_says_how_long_temporary_queues_wait_that_are_made_then(broker: RunningBroker) -> None:
    """docs/operate/configuration.md: also those of a message VPN that was taken out and comes back."""
    await temporary(broker, "before")
    await broker.node.reload(load(settings=(*broker.settings, "queues.temporary_grace_s=1")))
    await temporary(broker)
    await is_deleted(broker)
    assert not (await shown(broker, "before")).durable


@pytest.mark.settings("authentication.client_profiles=[{name: default, max_endpoint_count_per_client_username: 1}]")
async def test_resources_of_a_user_count_until_they_are_deleted_or_change_owner(broker: RunningBroker) -> None:
    """Solace 3.8: maxEndpointCountPerClientUsername."""
    await declare(broker, name="first", client="c", user="ada")
    with pytest.raises(ClientDenied, match="user 'ada' owns the 1 queues"):
        await declare(broker, name="second", client="c", user="ada")
    await declare(broker, name="of another", client="d", user="bob")

    await change(broker, "first", owner="bob")
    await declare(broker, name="second", client="c", user="ada")
    assert await broker.node.default.queues.ask(DeleteQueue("second"))
    await declare(broker, name="third", durable=False, client="c", user="ada")
    with pytest.raises(ClientDenied, match="user 'ada' owns the 1 queues"):
        await declare(broker, client="c", user="ada")


async def test_a_consumer_that_is_back_in_time_finds_its_queue(broker: RunningBroker) -> None:
    """Solace 4.11: the time runs from the end of the last flow, and begins anew with each."""
    await temporary(broker, subscriptions=["t"], expires_unbound_s=3600)
    consumer = await broker.connect_durable("c")
    await consumer.subscribe("$queue/q", qos=1)
    await consumer.vanish()
    consumer = await broker.connect_durable("c")
    await (await broker.connect()).publish("t", b"still there")
    assert (await consumer.message()).payload == b"still there"
    await change(broker, expires_unbound_s=1)
    await consumer.vanish()
    await is_deleted(broker)


async def test_a_stop_of_the_node_lets_no_queue_expire(broker: RunningBroker) -> None:
    """It is the node that ends the flows then, however long that takes."""
    await create(broker, expires_unbound_s=3600)
    queues = broker.node.default.queues
    queues.inbox.post(KeepQueues())
    queues.inbox.post(QueueExpired("q"))
    assert await queues.ask(FindQueue("q")) is not None


async def test_a_durable_queue_expires_where_configured(broker: RunningBroker) -> None:
    """expires_unbound_s: also after a restart, from which its time runs anew."""
    await create(broker, "kept")
    await create(broker, expires_unbound_s=3600)
    consumer = await broker.connect(level=5)
    await consumer.subscribe("$queue/q", qos=1)
    await change(broker, expires_unbound_s=1)
    await broker.restart()
    await is_deleted(broker)
    await broker.restart()
    assert [view.name for view in await NodeOperations(broker.node).list_queues()] == ["kept"]


async def test_a_client_s_temporary_queue_takes_that_client_only(broker: RunningBroker) -> None:
    """Solace 4.11: it belongs to who made it."""
    await declare(broker, name="q", durable=False, client="mine")
    mine, other = await broker.connect("mine", level=5), await broker.connect("other", level=5)
    assert await other.subscribe("$queue/q", qos=1) == [0x87]
    assert await mine.subscribe("$queue/q", qos=1) == [1]
    with pytest.raises(BindRefused, match="temporary queue 'q' belongs to client 'mine'"):
        await Browser(broker).bind()


@pytest.mark.accounts(ada="a", bob="b")
async def test_a_client_of_another_user_gains_nothing_by_its_name(broker: RunningBroker) -> None:
    """Names of clients can be chosen, and the name of a queue for replies is told to whoever is to reply."""
    await declare(broker, name="q", durable=False, client="mine", user="ada")
    ada = await broker.connect("mine", level=5, user_name="ada", password=b"a")
    assert await ada.subscribe("$queue/q", qos=1) == [1]
    await ada.vanish()
    bob = await broker.connect("mine", level=5, user_name="bob", password=b"b")
    assert await bob.subscribe("$queue/q", qos=1) == [0x87]


async def test_other_clients_cannot_read_a_temporary_queue_in_bulk(broker: RunningBroker) -> None:
    """Solace 4.11: it belongs to who made it."""
    await declare(broker, name="q", durable=False, client="mine")
    async with BulkClient(broker.flow_port, name="mine") as mine, BulkClient(broker.flow_port, name="other") as other:
        assert await mine.reads() == []
        with pytest.raises(Refused) as refusal:
            await other.reads()
        assert refusal.value.error.code == codes.PERMISSION_DENIED


async def test_a_client_s_temporary_queue_ends_when_the_client_unbinds(broker: RunningBroker) -> None:
    """Solace 4.11: removed when the client unbinds; a lost connection has the grace."""
    await declare(broker, name="q", durable=False, client="mine")
    mine = await broker.connect("mine", level=5)
    await mine.subscribe("$queue/q", qos=1)
    assert await mine.unsubscribe("$queue/q") == [0]
    await is_deleted(broker)


async def test_an_anonymous_queue_has_an_unguessable_name(broker: RunningBroker) -> None:
    """Solace 4.11: always non-durable."""
    one, other = [await declare(broker, client="mine") for _ in range(2)]
    assert one.name.startswith("$anonymous/sluicegate/")
    assert len(one.name) == len("$anonymous/sluicegate/") + 32
    assert one.name != other.name
    assert not one.durable
    one.cell.inbox.post(UnbindFlow(0, may_return=False))
    await is_deleted(broker, one.name)


async def test_a_queue_belongs_to_the_user_who_declares_it(broker: RunningBroker) -> None:
    """Solace 4.3: the creator's user name becomes the owner; 4.12: clients make no partitioned queues."""
    handle = await declare(broker, name="q", client="c", user="alice", owner="bob")
    assert (handle.durable, handle.definition.config.owner) == (True, "alice")
    with pytest.raises(QueueInvalid, match="a client cannot create a partitioned queue"):
        await declare(broker, name="p", client="c", access_type="non-exclusive", partition_count=2)


async def test_names_of_temporary_queues_may_be_longer(broker: RunningBroker) -> None:
    """Solace 4.1: 200 characters, and 250."""
    await temporary(broker, "x" * 250)
    with pytest.raises(QueueInvalid, match="it has 251 characters; allowed: 1 to 250 for a temporary queue"):
        await temporary(broker, "x" * 251)
    with pytest.raises(QueueInvalid, match="it has 201 characters; allowed: 1 to 200 for a durable queue"):
        await create(broker, "x" * 201)
    with pytest.raises(QueueInvalid, match="name: it is missing"):
        await NodeOperations(broker.node).create_queue({})


# --- templates ---


async def put(broker: RunningBroker, name: str, name_filter: str, **values: object) -> None:
    template = template_from_dict({"name": name, "queue_name_filter": name_filter, **values})
    await NodeOperations(broker.node).put_template(template, must_be_new=True)


async def test_a_template_says_what_was_left_open(broker: RunningBroker) -> None:
    """Solace 4.12."""
    await put(broker, "all", "orders/>", max_bind_count=7, max_ttl=30)
    await put(broker, "eu", "orders/eu/*", max_bind_count=9)
    await broker.restart()
    config = (await create(broker, "orders/us", max_ttl=5)).config
    assert (config.max_bind_count, config.max_ttl) == (7, 5)
    config = (await create(broker, "orders/eu/1")).config
    assert (config.max_bind_count, config.max_ttl) == (9, 0)
    assert (await create(broker, "other")).config.max_bind_count == 1000
    handle = await declare(broker, name="orders/jp", client="c")
    assert handle.definition.config.max_bind_count == 7


async def test_a_template_can_make_queues_temporary(broker: RunningBroker) -> None:
    """Solace 4.12: durabilityOverride non-durable; what is asked for in so many words stays."""
    await put(broker, "t", "tmp/>", durability_override="non-durable", expires_unbound_s=300)
    view = await create(broker, "tmp/a")
    assert (view.durable, view.config.expires_unbound_s) == (False, 300)
    assert (await NodeOperations(broker.node).create_queue({"name": "tmp/b"}, durable=True)).durable


async def test_a_template_that_is_deleted_leaves_its_queues_alone(broker: RunningBroker) -> None:
    await put(broker, "t", "q*", max_bind_count=7)
    await create(broker)
    node = NodeOperations(broker.node)
    with pytest.raises(TemplateAlreadyExists):
        await put(broker, "t", "q*")
    await node.delete_template("t")
    with pytest.raises(TemplateNotFound):
        await node.delete_template("t")
    await broker.restart()
    assert await NodeOperations(broker.node).list_templates() == []
    assert (await shown(broker)).config.max_bind_count == 7
    assert (await create(broker, "q2")).config.max_bind_count == 1000


async def test_a_template_may_have_its_levels_between_dots_and_must_match_something(broker: RunningBroker) -> None:
    """ActiveMQ: names of queues have their levels between dots."""
    await put(broker, "t", "Consumer.*.>", max_bind_count=3)
    assert (await create(broker, "Consumer.A.VirtualTopic.Orders")).config.max_bind_count == 3
    with pytest.raises(QueueInvalid, match="matches no queue"):
        await put(broker, "u", "Consumer.*x.>")
