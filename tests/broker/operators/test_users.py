"""Users that operators create, change, disable and delete while the gateway runs, beside those of a file."""

import asyncio
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from argon2 import PasswordHasher

from sluicegate.gateway.config.load import load
from sluicegate.gateway.node.node import open_store
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.errors import Refused, UserAlreadyExists, UserNotFound
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.protocols.security.login_attempts import FREE_OF_USER
from sluicegate.protocols.security.scram import iterations_of, stored_text
from sluicegate.storage.interface import Table
from support.broker.protocol_clients import OK, Amqp, Answer, FlowProtocol, Http, Mqtt, ProtocolClient
from support.broker.running_broker import RunningBroker
from support.flow.scram import scram
from support.http.client import create, http_client, poll, publish
from support.mqtt.raw_client import DEADLINE_S

CLIENTS: Final[dict[str, Callable[..., ProtocolClient]]] = {
    "mqtt": Mqtt,
    "amqp": Amqp,
    "flow": FlowProtocol,
    "http": Http,
}
WRONG: Final[dict[str, Answer]] = {"mqtt": 0x86, "amqp": "sasl-1", "flow": "auth-failed", "http": 401}
UNNAMED: Final[dict[str, Answer]] = {"mqtt": 0x87, "amqp": "sasl-1", "flow": "auth-failed", "http": 401}
SHUT_DOWN: Final[dict[str, Answer]] = {"mqtt": 0x87, "amqp": "amqp:unauthorized-access", "flow": 0x0203, "http": 403}
LOOPBACK: Final = "127.0.0.1"
REACHABLE: Final = tuple(f"listeners.{name}.host=0.0.0.0" for name in CLIENTS)
ONLY_USERS: Final = pytest.mark.settings("authentication.allow_anonymous=false")
QUICK: Final = functools.partial(PasswordHasher, time_cost=1, memory_cost=8, parallelism=1)


@pytest.fixture(autouse=True)
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have passwords be kept and checked in no time: most of what these tests took was argon2's arithmetic."""
    monkeypatch.setattr("sluicegate.gateway.provisioning.stored_users.PasswordHasher", QUICK)


async def comes_in(broker: RunningBroker, protocol: str, user: str, password: str) -> Answer:
    """Return what a client of a protocol hears when it connects; it is gone again then."""
    client = CLIENTS[protocol](broker)
    try:
        return await client.connect(user, password)
    finally:
        await client.leave()


@pytest.mark.parametrize("protocol", CLIENTS)
@pytest.mark.settings(*REACHABLE)
async def test_a_door_to_the_outside_is_shut_until_there_are_users(broker: RunningBroker, protocol: str) -> None:
    """docs/operate/security.md: nobody comes in off loopback before there are users, and then only they."""
    assert await comes_in(broker, protocol, "", "") == UNNAMED[protocol]
    assert await comes_in(broker, protocol, "ada", "engine") == WRONG[protocol]
    await NodeOperations(broker.node).create_user({"name": "ada", "password": "engine"})
    assert await comes_in(broker, protocol, "ada", "engine") == OK
    assert await comes_in(broker, protocol, "ada", "wrong") == WRONG[protocol]
    assert await comes_in(broker, protocol, "", "") == UNNAMED[protocol]


@pytest.mark.parametrize("protocol", CLIENTS)
async def test_at_home_a_newcomer_needs_no_account(broker: RunningBroker, protocol: str) -> None:
    """README: what is on loopback by default lets anybody of this machine in."""
    assert await comes_in(broker, protocol, "", "") == OK


@pytest.mark.parametrize("protocol", CLIENTS)
async def test_a_name_without_an_account_is_refused_once_there_is_an_account(
    broker: RunningBroker, protocol: str
) -> None:
    """What a client gives is checked; anonymous means without a name. Before, there is nothing to check against."""
    assert await comes_in(broker, protocol, "guest", "whatever") == OK
    await NodeOperations(broker.node).create_user({"name": "ada", "password": "engine"})
    assert await comes_in(broker, protocol, "guest", "whatever") == WRONG[protocol]
    assert await comes_in(broker, protocol, "ada", "wrong") == WRONG[protocol]
    assert await comes_in(broker, protocol, "ada", "engine") == OK
    assert await comes_in(broker, protocol, "", "") == OK


async def test_unknown_user_names_are_no_guesses_while_there_is_no_account(broker: RunningBroker) -> None:
    """docs/connect/mqtt.md, Accounts. Devices that show a name of their own hold up nobody behind the same address."""
    for number in range(25):
        assert await comes_in(broker, "mqtt", f"device-{number}", "whatever") == OK
    await NodeOperations(broker.node).create_user({"name": "ada", "password": "engine"})
    attempts, now_ms = broker.node.services.attempts, broker.node.services.clock.now_ms()
    assert not attempts.must_queue(LOOPBACK, "device-0", now_ms)
    for _ in range(FREE_OF_USER):
        assert await comes_in(broker, "mqtt", "ada", "wrong") == WRONG["mqtt"]
    assert attempts.must_queue(LOOPBACK, "ada", now_ms)
    assert await comes_in(broker, "mqtt", "ada", "engine") == OK


@pytest.mark.parametrize("protocol", CLIENTS)
@ONLY_USERS
async def test_a_user_that_is_shut_down_or_deleted_is_sent_away_at_once(broker: RunningBroker, protocol: str) -> None:
    """Its connections end, and no new one begins; everybody else stays."""
    node = NodeOperations(broker.node)
    for name in ("ada", "bob"):
        await node.create_user({"name": name, "password": "engine"})
    bob = Mqtt(broker, "bob")
    assert await bob.connect("bob", "engine") == OK
    for deed, expected in ((node.update_user("ada", {"enabled": False}), SHUT_DOWN), (node.delete_user("ada"), WRONG)):
        client = CLIENTS[protocol](broker)
        assert await client.connect("ada", "engine") == OK
        await deed
        await broker.node_releases("ada")
        assert await comes_in(broker, protocol, "ada", "engine") == expected[protocol]
        await client.leave()
        if expected is SHUT_DOWN:
            await node.update_user("ada", {"enabled": True})
    assert (await node.show_user("bob")).connected_count == 1
    assert await bob.publish("still/here") == OK
    await bob.leave()


@ONLY_USERS
async def test_a_user_is_there_after_a_restart_and_its_password_is_nowhere(broker: RunningBroker) -> None:
    """Kept are an argon2id hash and what SCRAM needs, and neither is shown."""
    node = NodeOperations(broker.node)
    view = await node.create_user({"name": "ada", "password": "the-engine", "enabled": True})
    assert (view.origin, view.enabled, view.client_profile, view.connected_count) == ("operator", True, "default", 0)
    assert "the-engine" not in repr(broker.node.default.users.provisioned.objects)
    assert "argon2" not in repr(broker.node.default.users.provisioned.objects)
    await broker.stop()
    store = open_store(broker.config)
    (row,) = [value for key, value in store.recover().tables[Table.CATALOG] if key.endswith(b"user/ada")]
    store.close()
    assert b"$argon2id$" in row
    assert b"SCRAM-SHA-256$" in row
    assert b"the-engine" not in row
    await broker.start()
    assert await comes_in(broker, "mqtt", "ada", "the-engine") == OK


async def test_a_started_operation_completes_though_its_client_has_left(broker: RunningBroker) -> None:
    """An operator who hangs up, or a time limit: what the store has and who is let in stay the same thing."""
    node = NodeOperations(broker.node)
    begun = asyncio.create_task(node.create_user({"name": "ada", "password": "engine"}))
    await asyncio.sleep(0)  # it begins
    begun.cancel()
    async with asyncio.timeout(DEADLINE_S):
        while not await node.list_users():
            await asyncio.sleep(0.01)
    assert begun.cancelled()
    assert await comes_in(broker, "mqtt", "ada", "engine") == OK
    await node.update_user("ada", {"enabled": False})
    await broker.restart()
    (ada,) = await NodeOperations(broker.node).list_users()
    assert (ada.name, ada.enabled) == ("ada", False)


@ONLY_USERS
async def test_a_password_holds_for_every_mechanism_and_is_another_at_once(broker: RunningBroker) -> None:
    """RFC 7677: an exchange that began with the old password is not ended with it."""
    node = NodeOperations(broker.node)
    await node.create_user({"name": "ada", "password": "old"})
    assert await scram(broker, "old") == "proven"
    changing = lambda: node.update_user("ada", {"password": "new"})  # noqa: E731 - a name for what happens
    assert await scram(broker, "old", meanwhile=changing) == "failed"
    assert await scram(broker, "new") == "proven"
    assert await comes_in(broker, "amqp", "ada", "old") == "sasl-1"
    assert await comes_in(broker, "amqp", "ada", "new") == OK


def _iterations(broker: RunningBroker, name: str) -> int:
    return iterations_of(broker.node.default.users.provisioned.objects[name].scram)


@ONLY_USERS
async def test_the_next_password_renews_a_scram_key_of_fewer_iterations(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/operate/accounts.md: one that an earlier release stored stays valid until then, over a restart too."""
    with monkeypatch.context() as earlier:
        earlier.setattr(
            "sluicegate.protocols.security.scram.stored_text",
            lambda password, _, random: stored_text(password, 4096, random),
        )
        await NodeOperations(broker.node).create_user({"name": "ada", "password": "engine"})
    await broker.restart()
    assert _iterations(broker, "ada") == 4096
    assert await scram(broker, "engine") == "proven"
    await NodeOperations(broker.node).update_user("ada", {"client_profile": "default"})
    assert _iterations(broker, "ada") == 4096  # nobody knows the password
    await broker.node.reload(load(settings=(*broker.settings, "authentication.scram_iterations=20000")))
    await NodeOperations(broker.node).update_user("ada", {"password": "engine"})
    assert _iterations(broker, "ada") == 20_000
    assert await scram(broker, "engine") == "proven"


@ONLY_USERS
async def test_an_http_connection_from_before_knows_users_of_after(broker: RunningBroker) -> None:
    """Who proves itself is held against the accounts of this moment, however old its connection is."""
    await create(broker, "q")
    async with http_client(broker) as client:
        assert (await client.post("/TOPIC/a", content=b"x", auth=("ada", "engine"))).status_code == 401
        await NodeOperations(broker.node).create_user({"name": "ada", "password": "engine"})
        assert (await client.post("/TOPIC/a", content=b"x", auth=("ada", "engine"))).status_code == 200


@pytest.mark.accounts(ada="engine", bob="builder")
@pytest.mark.parametrize("protocol", CLIENTS)
async def test_clients_of_a_user_removed_from_the_configuration_are_disconnected(
    broker: RunningBroker, protocol: str
) -> None:
    """docs/operate/accounts.md: by a reload, and at once; everybody else stays."""
    clients = {name: CLIENTS[protocol](broker, name) for name in ("ada", "bob")}
    assert await clients["ada"].connect("ada", "engine") == OK
    assert await clients["bob"].connect("bob", "builder") == OK
    left = f"authentication.users=[{{name: bob, password_file: {broker.config.data.path}/bob.password}}]"
    await broker.node.reload(load(None, settings=(*broker.settings, left, "authentication.allow_anonymous=false")))
    await broker.node_releases("ada")
    assert await comes_in(broker, protocol, "ada", "engine") == WRONG[protocol]
    assert await clients["bob"].publish("still/here") == OK
    for client in clients.values():
        await client.leave()


@pytest.mark.accounts(ada="engine", bob="builder")
@ONLY_USERS
async def test_a_reload_that_fails_leaves_all_users_as_they_are(broker: RunningBroker) -> None:
    """Ada is taken out while Bob's password cannot be read: she stays who she was, and goes with the next reload."""
    ada = Mqtt(broker, "ada")
    assert await ada.connect("ada", "engine") == OK
    password = Path(broker.config.data.path) / "bob.password"
    left = f"authentication.users=[{{name: bob, password_file: {password}}}]"
    without_ada = load(None, settings=(*broker.settings, left, "authentication.allow_anonymous=false"))
    kept = password.read_text()
    password.write_text("\n")
    broker.node.configuration = lambda: without_ada
    with pytest.raises(Refused, match=r"cannot be used: .* is empty"):
        await NodeOperations(broker.node).reload()
    assert "ada" in broker.node.default.clients.let_in()
    password.write_text(kept)
    await broker.node.reload(without_ada)
    await broker.node_releases("ada")
    assert "ada" not in broker.node.default.clients.let_in()
    assert await comes_in(broker, "mqtt", "ada", "engine") == WRONG["mqtt"]
    await ada.leave()


@pytest.mark.accounts(ada="engine")
@ONLY_USERS
async def test_a_password_that_changes_during_a_reload_is_not_undone_by_it(broker: RunningBroker) -> None:
    """The reload has read its file before, and waits for what else it takes over, as a new message VPN."""
    password = Path(broker.config.data.path) / "ada.password"
    users = f"authentication.users=[{{name: ada, password_file: {password}}}]"
    config = load(None, settings=(*broker.settings, users, "vpns.sales.enabled=true"))
    reload = asyncio.ensure_future(broker.node.reload(config))
    await asyncio.sleep(0)
    assert not reload.done()
    password.write_text("builder")
    broker.node.watched_files.look()
    await reload
    assert await comes_in(broker, "mqtt", "ada", "builder") == OK


PROFILES: Final = "authentication.client_profiles=[{name: devices, allow_guaranteed_msg_send_enabled: false}]"


@ONLY_USERS
@pytest.mark.settings(PROFILES)
async def test_other_profiles_apply_to_connected_clients(broker: RunningBroker) -> None:
    node = NodeOperations(broker.node)
    await node.create_user({"name": "ada", "password": "engine"})
    ada = Mqtt(broker)
    assert await ada.connect("ada", "engine") == OK
    assert await ada.publish("a") == OK
    await node.update_user("ada", {"client_profile": "devices"})
    assert await ada.publish("a") == 0x87
    await ada.leave()


@ONLY_USERS
async def test_a_user_without_its_profile_is_shut_down_until_the_profile_is_back(broker: RunningBroker) -> None:
    """A profile that the configuration has no more gives nobody the rights of another one."""
    with_profile = load(None, settings=(*broker.settings, PROFILES, "authentication.allow_anonymous=false"))
    without = broker.node.services.config
    await broker.node.reload(with_profile)
    node = NodeOperations(broker.node)
    await node.create_user({"name": "ada", "password": "engine", "client_profile": "devices"})
    ada = Mqtt(broker)
    assert await ada.connect("ada", "engine") == OK
    await broker.node.reload(without)
    await broker.node_releases("ada")
    view = await node.show_user("ada")
    assert (view.enabled, view.client_profile) == (True, "devices")
    assert view.reason == "there is no profile 'devices'"
    assert await comes_in(broker, "mqtt", "ada", "engine") == 0x87
    await broker.node.reload(with_profile)
    assert await comes_in(broker, "mqtt", "ada", "engine") == OK
    await ada.leave()


@pytest.mark.accounts(bob="builder")
async def test_a_user_of_the_configuration_is_changed_there(broker: RunningBroker) -> None:
    """And of two of one name it is the one that counts."""
    node = NodeOperations(broker.node)
    (view,) = await node.list_users()
    assert (view.name, view.origin) == ("bob", "configuration")
    for deed in (node.update_user("bob", {"enabled": False}), node.delete_user("bob")):
        with pytest.raises(Refused, match="change the configuration, and reload"):
            await deed
    with pytest.raises(UserAlreadyExists, match="'bob'"):
        await node.create_user({"name": "bob", "password": "other"})
    await node.create_user({"name": "ada", "password": "engine"})
    assert [each.name for each in await node.list_users()] == ["ada", "bob"]
    configured = (
        "authentication.users=[{name: ada, password: '$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$MTIzNDU2Nzg5MDEy'}]"
    )
    await broker.node.reload(load(None, settings=(*broker.settings, configured)))
    assert [(each.name, each.origin) for each in await node.list_users()] == [("ada", "configuration")]
    await broker.node.reload(broker.config)
    assert [(each.name, each.origin) for each in await node.list_users()] == [
        ("ada", "operator"),
        ("bob", "configuration"),
    ]


async def test_an_invalid_user_is_refused_with_its_place(broker: RunningBroker) -> None:
    node = NodeOperations(broker.node)
    fine = {"name": "ada", "password": "engine"}
    for wrong, field in (
        ({**fine, "name": ""}, "name"),
        ({**fine, "name": "a\nb"}, "name"),
        ({"name": "ada"}, "password"),
        ({**fine, "password": ""}, "password"),
        ({**fine, "password": "a\x00b"}, "password"),
        ({**fine, "password": "x" * 1025}, "password"),
        ({**fine, "client_profile": "nobody"}, "client_profile"),
        ({**fine, "acl_profile": "nobody"}, "acl_profile"),
        ({**fine, "secret": "s"}, "secret"),
    ):
        with pytest.raises(QueueInvalid) as refused:
            await node.create_user(wrong)
        assert refused.value.field == field
        assert "engine" not in str(refused.value)
    assert await node.list_users() == []
    await node.create_user(fine)
    with pytest.raises(QueueInvalid, match="cannot be renamed"):
        await node.update_user("ada", {"name": "eva"})
    for deed in (node.show_user("eva"), node.update_user("eva", {}), node.delete_user("eva")):
        with pytest.raises(UserNotFound, match="'eva'"):
            await deed


@pytest.mark.settings("vpns.shop.enabled=true", "authentication.allow_anonymous=false")
async def test_users_belong_to_one_message_vpn(broker: RunningBroker) -> None:
    node = NodeOperations(broker.node)
    await node.in_vpn("shop").create_user({"name": "ada", "password": "engine"})
    assert await node.list_users() == []
    assert await comes_in(broker, "mqtt", "ada", "engine") == WRONG["mqtt"]
    assert await comes_in(broker, "mqtt", "ada@shop", "engine") == OK


@ONLY_USERS
async def test_http_flows_of_a_user_that_is_shut_down_end_with_it(broker: RunningBroker) -> None:
    """They outlive connections, and hold what was delivered to them."""
    node = NodeOperations(broker.node)
    await create(broker, "q")
    await node.create_user({"name": "ada", "password": "engine"})
    async with http_client(broker, auth=("ada", "engine")) as client:
        await publish(client, "q", "waits")
        _, messages = await poll(client, "/QUEUE/q")
    assert len(messages) == 1
    assert len((await node.show_queue("q")).flows) == 1
    await node.update_user("ada", {"enabled": False})
    async with asyncio.timeout(DEADLINE_S):
        while (await node.show_queue("q")).flows:
            await asyncio.sleep(0.01)
