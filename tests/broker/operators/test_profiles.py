"""Profiles that operators create while the gateway runs: in force at once, after those of the configuration."""

import asyncio
from typing import Final

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.config.load import load
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.clients.accounts import ProfileKind
from sluicegate.gateway.views.errors import (
    AclExceptionAlreadyExists,
    AclProfileAlreadyExists,
    AclProfileNotFound,
    ClientProfileNotFound,
    Refused,
)
from sluicegate.messaging.queues.definition import QueueInvalid
from support.broker.protocol_clients import OK, Mqtt
from support.broker.running_broker import RunningBroker

ONLY_USERS: Final = pytest.mark.settings("authentication.allow_anonymous=false")
DENIED: Final = 0x87

CLIENT, ACL = ProfileKind.CLIENT, ProfileKind.ACL


@ONLY_USERS
async def test_a_changed_profile_applies_to_connected_clients(broker: RunningBroker) -> None:
    """Decision 0036: changed profiles are in force at once."""
    node = NodeOperations(broker.node)
    await node.create_profile(ACL, {"name": "devices", "publish_topic_exceptions": [{"topic": "up/>"}]})
    await node.create_user({"name": "ada", "password": "engine", "acl_profile": "devices"})
    ada = Mqtt(broker)
    assert await ada.connect("ada", "engine") == OK
    assert (await ada.publish("up/1"), await ada.publish("down/1")) == (OK, DENIED)
    await node.add_acl_exception("devices", "publish_topic_exceptions", {"topic": "down/>"})
    assert await ada.publish("down/1") == OK
    await node.remove_acl_exception("devices", "publish_topic_exceptions", "smf,up/>")
    assert await ada.publish("up/1") == DENIED
    await node.create_profile(CLIENT, {"name": "listeners", "allow_guaranteed_msg_send_enabled": False})
    await node.update_user("ada", {"client_profile": "listeners"})
    assert await ada.publish("down/1") == DENIED
    await node.update_profile(CLIENT, "listeners", {"allow_guaranteed_msg_send_enabled": True})
    assert await ada.publish("down/1") == OK
    await ada.leave()
    await broker.restart()
    ada = Mqtt(broker)
    assert await ada.connect("ada", "engine") == OK
    assert (await ada.publish("up/1"), await ada.publish("down/1")) == (DENIED, OK)
    await ada.leave()


async def test_a_profile_that_a_user_has_stays(broker: RunningBroker) -> None:
    node = NodeOperations(broker.node)
    await node.create_profile(CLIENT, {"name": "small"})
    await node.create_profile(ACL, {"name": "strict"})
    await node.create_user({"name": "ada", "password": "engine", "client_profile": "small", "acl_profile": "strict"})
    for kind, name in ((CLIENT, "small"), (ACL, "strict")):
        with pytest.raises(Refused, match="users have it: 'ada'; give them another one first"):
            await node.delete_profile(kind, name)
    await node.update_user("ada", {"client_profile": "default"})
    await node.delete_profile(CLIENT, "small")
    await node.delete_user("ada")
    await node.delete_profile(ACL, "strict")
    await broker.restart()
    view = await NodeOperations(broker.node).list_profiles()
    assert [each.name for each in (*view.client_profiles, *view.acl_profiles)] == ["default", "default"]


async def test_of_two_profiles_of_one_name_that_of_the_configuration_counts(broker: RunningBroker) -> None:
    """The other one is kept for when that is gone, with the users that have it."""
    node = NodeOperations(broker.node)
    await node.create_profile(ACL, {"name": "devices", "publish_topic_default_action": "allow"})
    await node.create_user({"name": "ada", "password": "engine", "acl_profile": "devices"})
    configured = load(None, settings=(*broker.settings, "authentication.acl_profiles=[{name: devices}]"))
    await broker.node.reload(configured)
    view = await node.show_profile(ACL, "devices")
    assert view.origin == "configuration"
    for deed in (node.update_profile(ACL, "devices", {}), node.delete_profile(ACL, "devices")):
        with pytest.raises(Refused, match="change the configuration, and reload"):
            await deed
    ada = Mqtt(broker)
    assert await ada.connect("ada", "engine") == OK
    assert await ada.publish("t") == DENIED
    await broker.node.reload(broker.config)
    assert await ada.publish("t") == OK
    assert (await node.show_profile(ACL, "devices")).origin == "operator"
    await ada.leave()


async def test_an_invalid_profile_is_refused_with_its_place(broker: RunningBroker) -> None:
    node = NodeOperations(broker.node)
    for kind, wrong, field in (
        (CLIENT, {"name": ""}, "name"),
        (CLIENT, {"name": "x" * 33}, "name"),
        (CLIENT, {"name": "x", "colour": "red"}, "colour"),
        (CLIENT, {"name": "x", "max_connection_count": -1}, "max_connection_count"),
        (ACL, {"name": "x", "publish_topic_default_action": "perhaps"}, "publish_topic_default_action"),
    ):
        with pytest.raises(QueueInvalid) as refused:
            await node.create_profile(kind, wrong)
        assert refused.value.field == field
    for name in ("default", "twice"):
        if name == "twice":
            await node.create_profile(ACL, {"name": name})
        with pytest.raises(AclProfileAlreadyExists, match=repr(name)):
            await node.create_profile(ACL, {"name": name})
    await node.add_acl_exception("twice", "client_connect_exceptions", "10.0.0.0/8")
    with pytest.raises(AclExceptionAlreadyExists):
        await node.add_acl_exception("twice", "client_connect_exceptions", "10.0.0.0/8")
    with pytest.raises(ClientProfileNotFound):
        await node.show_profile(CLIENT, "none")
    with pytest.raises(AclProfileNotFound):
        await node.delete_profile(ACL, "none")


async def test_exceptions_that_come_at_the_same_time_are_all_there(broker: RunningBroker) -> None:
    """Each is added to those that there are then; none is lost to another one's change."""
    node = NodeOperations(broker.node)
    await node.create_profile(ACL, {"name": "devices"})
    topics = [f"t/{number}" for number in range(8)]
    field = "subscribe_topic_exceptions"
    await asyncio.gather(*(node.add_acl_exception("devices", field, {"topic": topic}) for topic in topics))
    (view,) = [each for each in (await node.list_profiles()).acl_profiles if each.name == "devices"]
    assert sorted(each.topic for each in view.subscribe_topic_exceptions) == topics


async def test_a_client_that_is_back_gets_nothing_more_of_what_it_may_not_subscribe_to_by_now(
    broker: RunningBroker,
) -> None:
    """docs/operate/accounts.md: subscriptions of a kept session are checked again, before it gets messages."""
    node = NodeOperations(broker.node)
    await node.create_profile(ACL, {"name": "devices", "subscribe_topic_exceptions": [{"topic": "news/>"}]})
    await node.create_user({"name": "ada", "password": "engine", "acl_profile": "devices"})
    publisher = await broker.connect(level=5)
    for number in range(5):
        assert await publisher.publish(f"news/{number}", b"x", qos=1, retain=True) < DENIED
    one_at_a_time = mqtt.receive_maximum(1)
    ada = await broker.connect_durable("device", properties=one_at_a_time, user_name="ada", password=b"engine")
    assert await ada.subscribe("news/+", qos=1) == [1]
    first = await ada.message()
    await ada.vanish()
    await broker.node_releases("ada")
    await node.remove_acl_exception("devices", "subscribe_topic_exceptions", "smf,news/>")
    ada = await broker.connect_durable("device", user_name="ada", password=b"engine")
    again = await ada.message()
    assert (again.topic, again.dup) == (first.topic, True)
    ada.acknowledge(again)
    await ada.is_quiet()
