"""Message VPNs that operators create, change and delete while the node runs. docs/concepts/message-vpns.md."""

import asyncio
import functools
from pathlib import Path
from typing import Final

import pytest
from argon2 import PasswordHasher

import support.mqtt.packets as mqtt
from sluicegate.actors.messages.data import StoreRefused
from sluicegate.actors.messages.staging import Stage
from sluicegate.actors.spool.catalog import WriteWholeRows
from sluicegate.gateway.config.load import load
from sluicegate.gateway.operations.backups import show_backup, start_backup
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.process.doctor import examine_node
from sluicegate.gateway.views.clients.accounts import ProfileKind
from sluicegate.gateway.views.errors import Refused, VpnAlreadyExists, VpnNotFound
from sluicegate.gateway.views.node.backups import BackupState
from sluicegate.messaging.message.vpn import row_prefix
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.protocols.flow.codec import codes
from sluicegate.storage.backup.reader import SpoolReader
from sluicegate.storage.backup.restore import restore_backup
from sluicegate.storage.catalog.vpn_rows import vpn_row
from sluicegate.storage.errors import StoreFailed, StoreFull
from sluicegate.storage.interface import CommitJob, Table
from support.broker.inside_client import batch_on, until
from support.broker.protocol_clients import OK, PROTOCOLS, Answer, Mqtt
from support.broker.running_broker import RunningBroker
from support.http.plain import plain_async_client
from support.mqtt.raw_client import DEADLINE_S, RawClient

EVERY_PROTOCOL: Final = pytest.mark.parametrize("protocol", list(PROTOCOLS))
NOT_THERE: Final[dict[str, Answer]] = {"mqtt": 0x87, "amqp": "sasl-1", "flow": codes.VPN_NOT_ALLOWED, "http": 403}
SHUT_DOWN: Final[dict[str, Answer]] = {
    "mqtt": 0x88,
    "amqp": "amqp:connection:forced",
    "flow": codes.VPN_UNAVAILABLE,
    "http": 503,
}
ADMINISTRATIVE_ACTION: Final = 0x98
OF_LABORATORY: Final = pytest.mark.settings("vpns.lab.enabled=true")  # so that `user@vpn` is two names from the start


@pytest.fixture(autouse=True)
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep passwords in no time."""
    quick = functools.partial(PasswordHasher, time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr("sluicegate.gateway.provisioning.stored_users.PasswordHasher", quick)


async def create(broker: RunningBroker, name: str = "sales", **settings: object) -> NodeOperations:
    operations = NodeOperations(broker.node)
    view = await operations.create_message_vpn({"name": name, **settings})
    assert (view.name, view.origin) == (name, "operator")
    return operations.in_vpn(name)


async def answer_to(broker: RunningBroker, protocol: str, user: str) -> Answer:
    """Return what a client hears that connects, and leaves."""
    client = PROTOCOLS[protocol](broker)
    answer = await client.connect(user, "p")
    await client.leave()
    return answer


async def rows_of(broker: RunningBroker, vpn: str) -> dict[Table, list[bytes]]:
    """Return the keys of the rows that the store has of a message VPN."""
    keys = await asyncio.to_thread(broker.node.services.store.row_keys, row_prefix(vpn))
    return {table: found for table, found in keys.items() if found}


async def device(broker: RunningBroker, user: str) -> RawClient:
    """Return a client with a session that is kept for an hour."""
    client = await broker.open(5)
    words = mqtt.connect(
        "device", level=5, clean_start=False, user_name=user, password=b"p", properties=mqtt.session_expiry(3600)
    )
    client.send(words)
    assert mqtt.connack(await client.packet(), 5).reason_code == 0
    return client


async def fill(broker: RunningBroker, vpn: str) -> None:
    """Give a message VPN something of every kind that it can have, and twenty messages in a queue."""
    operations = NodeOperations(broker.node, vpn)
    queue = {"name": "orders", "subscriptions": ["orders/>"], "access_type": "non-exclusive", "partition_count": 3}
    await operations.create_queue(queue)
    await operations.create_user({"name": "ann", "password": "p"})
    await operations.create_profile(ProfileKind.CLIENT, {"name": "few"})
    client = await device(broker, f"ann@{vpn}")
    await client.subscribe("news/#", qos=1)
    for number in range(20):
        for topic, retain in ((f"orders/{number}", False), (f"news/{number}/{'x' * 480}", True)):
            packet_id = client.next_packet_id()
            client.send(mqtt.publish(topic, b"x" * 100, qos=1, packet_id=packet_id, level=5, retain=retain))
            assert await client.answered(mqtt.PUBACK, packet_id) < 0x80
    await client.vanish()


async def is_empty(broker: RunningBroker, vpn: str) -> None:
    """Wait until nobody is connected to a message VPN."""
    async with asyncio.timeout(DEADLINE_S):
        while broker.node.vpns[vpn].clients.count:
            await asyncio.sleep(0.01)


# --- create ---


@EVERY_PROTOCOL
async def test_clients_of_every_protocol_use_a_vpn_that_was_just_created(broker: RunningBroker, protocol: str) -> None:
    """It is a messaging domain of its own, and no restart or reload was needed."""
    await create(broker)
    inside, outside = PROTOCOLS[protocol](broker), PROTOCOLS[protocol](broker)
    await NodeOperations(broker.node, "sales").create_queue({"name": "q"})
    assert await inside.connect("guest@sales", "p") == OK
    assert await outside.connect("", "") == OK
    assert await inside.send("q") == OK
    assert (await NodeOperations(broker.node, "sales").show_queue("q")).ready_count == 1
    assert await outside.send("q") != OK, "it is in the other message VPN"
    await inside.leave()
    await outside.leave()


async def test_it_is_there_after_a_restart_with_its_settings_and_contents(broker: RunningBroker) -> None:
    """Its row in the catalog is what makes it; a file says nothing of it."""
    await create(broker, max_connection_count=7, usage_bytes_max="1 MiB")
    await fill(broker, "sales")
    for again in (broker.restart, broker.crash):
        await again()
        view = await NodeOperations(broker.node).show_message_vpn("sales")
        assert (view.up, view.origin, view.settings["max_connection_count"]) == (True, "operator", 7)
        assert view.max_msg_spool_usage_bytes == 1 << 20
        assert (view.session_count, view.retained_message_count) == (1, 20)
        assert (await NodeOperations(broker.node, "sales").show_queue("orders")).ready_count == 20


async def test_one_that_exists_or_is_named_wrongly_is_not_created(broker: RunningBroker) -> None:
    """The error says what is allowed."""
    operations = NodeOperations(broker.node)
    await create(broker)
    for name in ("sales", "default"):
        with pytest.raises((VpnAlreadyExists, QueueInvalid)):
            await operations.create_message_vpn({"name": name})
    for bad in ("", "1st", "a b", "x" * 33, 7):
        with pytest.raises(QueueInvalid, match="name"):
            await operations.create_message_vpn({"name": bad})
    with pytest.raises(QueueInvalid, match="max_connections") as wrong:
        await operations.create_message_vpn({"name": "lab", "max_connections": 1})
    assert "max_connection_count" in str(wrong.value)
    assert [each.name for each in (await operations.list_message_vpns()).message_vpns] == ["default", "sales"]


async def test_it_inherits_who_may_come_in_unless_it_says_so_itself(broker: RunningBroker) -> None:
    """As a message VPN of the configuration does."""
    await create(broker)
    await create(broker, "closed", allow_anonymous=False)
    assert await answer_to(broker, "mqtt", "guest@sales") == OK
    assert await answer_to(broker, "mqtt", "guest@closed") == 0x86


async def test_an_http_connection_from_before_sends_into_a_new_vpn(broker: RunningBroker) -> None:
    """Connections are kept open for hours: those that are there find what was created, and lose what was deleted."""
    url = f"http://127.0.0.1:{broker.node.http.listeners['http'].port}"
    async with plain_async_client(url, timeout=DEADLINE_S) as client:

        async def publish(vpn: str) -> int:
            answer = await client.post("/TOPIC/t", content=b"x", headers={"Sluicegate-Message-VPN": vpn})
            return answer.status_code

        assert await publish("default") == 200
        await broker.node.reload(broker.config)  # the connection has the message VPNs of before
        await create(broker)
        assert await publish("sales") == 200
        assert await publish("default") == 200  # else the deletion would close the connection
        await NodeOperations(broker.node).delete_message_vpn("sales", force=True)
        assert await publish("sales") == NOT_THERE["http"]
        await create(broker)
        assert await publish("sales") == 200
        assert len(broker.node.http.open_connections()) == 1, "the deletion left the connection alone"


# --- change ---


@EVERY_PROTOCOL
async def test_shutting_it_down_sends_its_clients_away_and_keeps_its_contents(
    broker: RunningBroker, protocol: str
) -> None:
    """The answer is that of a message VPN which the configuration shuts down."""
    operations = await create(broker)
    await operations.create_queue({"name": "q"})
    client = PROTOCOLS[protocol](broker)
    assert await client.connect("guest@sales", "p") == OK
    assert await client.send("q") == OK
    view = await operations.update_message_vpn("sales", {"enabled": False})
    assert (view.enabled, view.up) == (False, False)
    await is_empty(broker, "sales")
    assert await answer_to(broker, protocol, "guest@sales") == SHUT_DOWN[protocol]
    await operations.update_message_vpn("sales", {"enabled": True})
    assert await answer_to(broker, protocol, "guest@sales") == OK
    assert (await operations.show_queue("q")).ready_count == 1
    await client.leave()


async def test_changed_quotas_are_in_force_at_once_and_after_a_restart(broker: RunningBroker) -> None:
    """Settings that a change does not name stay."""
    operations = await create(broker, max_endpoint_count=5)
    await operations.update_message_vpn("sales", {"max_connection_count": 1})
    first = Mqtt(broker, "first")
    assert await first.connect("guest@sales", "p") == OK
    assert await answer_to(broker, "mqtt", "other@sales") == 0x97
    await first.leave()
    await broker.restart()
    settings = (await NodeOperations(broker.node).show_message_vpn("sales")).settings
    assert (settings["max_connection_count"], settings["max_endpoint_count"]) == (1, 5)


@OF_LABORATORY
async def test_what_is_configured_cannot_be_changed_or_deleted_by_operators(broker: RunningBroker) -> None:
    """A file would bring it back; the error says where it stands."""
    operations = NodeOperations(broker.node)
    for name, reason in (("default", "always exists"), ("lab", "is configured")):
        with pytest.raises(Refused, match=reason):
            await operations.update_message_vpn(name, {"enabled": False})
        with pytest.raises(Refused, match=reason):
            await operations.delete_message_vpn(name, force=True)
    with pytest.raises(VpnNotFound):
        await operations.delete_message_vpn("elsewhere", force=True)
    with pytest.raises(VpnNotFound):
        await operations.update_message_vpn("elsewhere", {})


async def test_a_reload_leaves_it_and_a_configured_one_of_its_name_hides_it(broker: RunningBroker) -> None:
    """As with users and queues: the file is right while it speaks of the name."""
    operations = await create(broker, max_connection_count=7)
    changes = await broker.node.reload(broker.config)
    assert (changes.reloadable, changes.restart_needed) == ((), ())
    configured = load(settings=(*broker.settings, "vpns.sales.max_connection_count=9"))
    await broker.node.reload(configured)
    view = await operations.show_message_vpn("sales")
    assert (view.origin, view.settings["max_connection_count"]) == ("configuration", 9)
    await broker.node.reload(broker.config)
    view = await operations.show_message_vpn("sales")
    assert (view.origin, view.settings["max_connection_count"]) == ("operator", 7)


@OF_LABORATORY
async def test_one_that_is_only_in_the_store_can_be_taken_over_or_deleted(broker: RunningBroker) -> None:
    """It was configured once. Before, there was no way to be rid of its messages."""
    await NodeOperations(broker.node, "lab").create_queue({"name": "q"})
    await broker.node.reload(load(settings=broker.settings[:-1]))
    operations = NodeOperations(broker.node)
    view = await operations.show_message_vpn("lab")
    assert (view.origin, view.up) == ("store", False)
    with pytest.raises(VpnAlreadyExists):
        await operations.create_message_vpn({"name": "lab"})
    view = await operations.update_message_vpn("lab", {"enabled": True})
    assert (view.origin, view.up) == ("operator", True)
    assert await operations.in_vpn("lab").queue_names() == ["q"]
    await operations.delete_message_vpn("lab", force=True)
    assert await rows_of(broker, "lab") == {}


# --- delete ---


async def test_without_force_only_one_without_clients_and_messages_is_deleted(broker: RunningBroker) -> None:
    """The reason says what it has."""
    operations = await create(broker)
    client = Mqtt(broker)
    assert await client.connect("guest@sales", "p") == OK
    with pytest.raises(Refused, match="has 1 connected client and 1 MQTT session: only a forced deletion"):
        await operations.delete_message_vpn("sales", force=False)
    assert await client.publish("t") == OK, "a refusal changes nothing"
    await client.leave()
    await is_empty(broker, "sales")
    await operations.create_queue({"name": "q"})
    with pytest.raises(Refused, match="1 queue"):
        await operations.delete_message_vpn("sales", force=False)
    await operations.delete_queue("q")
    await operations.create_user({"name": "ann", "password": "p"})
    await operations.delete_message_vpn("sales", force=False)
    assert await rows_of(broker, "sales") == {}


async def test_a_forced_deletion_leaves_nothing_in_the_store_the_metrics_or_the_quotas(broker: RunningBroker) -> None:
    """Queues, sessions, retained messages, users and profiles go, and other message VPNs keep theirs."""
    gate = broker.node.services.spool_gate
    await NodeOperations(broker.node).create_queue({"name": "q"})
    beside = Mqtt(broker)
    assert await beside.connect("", "") == OK
    assert await beside.send("q") == OK
    before = (gate.usage_bytes, gate.usage_count)
    operations = await create(broker)
    await fill(broker, "sales")
    await broker.node.vpns["sales"].staging.ask(Stage("t", 0, 0, [batch_on("orders/1", [b"x"] * 3)]))
    tables = {Table.CATALOG, Table.OWNERS, Table.RETAINED, Table.SESSIONS, Table.TRANSACTIONS}
    assert set(await rows_of(broker, "sales")) == tables
    assert "sales" in {sample.vpn for sample in await operations.metrics_snapshot()}
    await NodeOperations(broker.node).delete_message_vpn("sales", force=True)
    assert await rows_of(broker, "sales") == {}
    assert (gate.usage_bytes, gate.usage_count) == before
    assert "sales" not in {sample.vpn for sample in await NodeOperations(broker.node).metrics_snapshot()}
    assert "sales" not in [each.name for each in (await NodeOperations(broker.node).list_message_vpns()).message_vpns]
    assert await beside.send("q") == OK
    await beside.leave()
    await broker.restart()
    assert list(broker.node.vpns) == ["default"]
    await broker.stop()
    with SpoolReader.open_folder(broker.config.data.path) as reader:
        assert list(reader.vpns) == ["default"]
        default_partitions = {each for queue in reader.vpns["default"].queues.values() for each in queue.partition_ids}
        assert {page.partition_id for page in reader.pages} <= default_partitions
    await broker.start()


async def test_a_forced_deletion_ends_connections_with_the_code_of_each_protocol(broker: RunningBroker) -> None:
    """0x98 in MQTT, connection:forced in AMQP, a GOAWAY in the flow protocol, the end of the connection in HTTP."""
    await create(broker)
    phone = await device(broker, "guest@sales")
    clients = [PROTOCOLS[each](broker) for each in ("amqp", "flow", "http")]
    for client in clients:
        assert await client.connect("guest@sales", "p") == OK
    await NodeOperations(broker.node).delete_message_vpn("sales", force=True)
    assert await phone.ended_with() == ADMINISTRATIVE_ACTION
    assert all(not server.connections_in("sales") for server in broker.node.servers)
    for client in clients:
        await client.leave()


@OF_LABORATORY
@EVERY_PROTOCOL
async def test_after_the_deletion_clients_are_told_that_it_does_not_exist(broker: RunningBroker, protocol: str) -> None:
    """As for one that never was."""
    await create(broker)
    assert await answer_to(broker, protocol, "guest@sales") == OK
    await NodeOperations(broker.node).delete_message_vpn("sales", force=True)
    assert await answer_to(broker, protocol, "guest@sales") == NOT_THERE[protocol]


async def test_a_new_one_of_the_same_name_has_nothing_of_the_old_one(broker: RunningBroker) -> None:
    """Neither sessions nor their timers, nor views that operators have open."""
    operations = await create(broker)
    await fill(broker, "sales")
    await NodeOperations(broker.node).delete_message_vpn("sales", force=True)
    await create(broker)
    again = NodeOperations(broker.node).in_vpn("sales")
    assert (await again.list_users(), await again.queue_names()) == ([], [])
    view = await again.show_message_vpn("sales")
    assert (view.session_count, view.retained_message_count, view.spooled_msg_count) == (0, 0, 0)
    assert operations is not again
    await fill(broker, "sales")
    assert (await NodeOperations(broker.node, "sales").show_queue("orders")).ready_count == 20


async def test_creating_and_deleting_tell_events(broker: RunningBroker) -> None:
    """docs/operate/events.md."""
    operations = await create(broker)
    await operations.update_message_vpn("sales", {"enabled": False})
    await NodeOperations(broker.node).delete_message_vpn("sales", force=False)
    record = broker.node.services.runtime.events.record
    told = [(event.kind.name, event.vpn) for _, event in record.recent(0, 100) if "VPN_" in event.kind.name]
    assert told == [
        ("SYSTEM_VPN_CREATE", "-"),
        ("VPN_VPN_STATE_CHANGE", "sales"),
        ("VPN_VPN_STATE_CHANGE", "sales"),
        ("SYSTEM_VPN_DELETE", "-"),
    ]


# --- a deletion that did not come to its end ---


async def test_the_next_start_finishes_a_deletion_that_was_interrupted(broker: RunningBroker) -> None:
    """Decided is what the row says; everything else is still there when the node ends."""
    await create(broker)
    await fill(broker, "sales")
    settings = broker.node.services.provisioned_vpns.settings["sales"].to_dict()
    await broker.node.default.catalog.ask(WriteWholeRows([vpn_row("sales", settings, deleting=True)]))
    assert Table.SESSIONS in await rows_of(broker, "sales")
    await broker.crash()
    assert list(broker.node.vpns) == ["default"]
    assert await rows_of(broker, "sales") == {}
    assert broker.node.services.spool_gate.usage_count == 0
    await create(broker)
    assert (await NodeOperations(broker.node).show_message_vpn("sales")).retained_message_count == 0


async def test_doctor_names_a_deletion_that_the_next_start_will_finish(broker: RunningBroker) -> None:
    """docs/concepts/message-vpns.md, Delete."""
    await create(broker)
    await broker.node.default.catalog.ask(WriteWholeRows([vpn_row("sales", {}, deleting=True)]))
    await broker.stop()
    examination = await asyncio.to_thread(examine_node, broker.config, now_s=0, looked=lambda: None)
    assert [(each.subject, each.text) for each in examination.findings if "sales" in each.subject] == [
        ("message VPN sales", "its deletion was interrupted; the next start finishes it")
    ]
    await broker.start()


async def test_a_message_vpn_configured_while_its_deletion_is_not_finished_stays_shut(
    broker: RunningBroker,
) -> None:
    """What clients stored in it would be deleted with the rest."""
    await create(broker)
    defined = broker.node.services.provisioned_vpns
    defined.deleting.add("sales")
    await broker.node.reload(load(settings=(*broker.settings, "vpns.sales.max_connection_count=9")))
    view = await NodeOperations(broker.node).show_message_vpn("sales")
    assert (view.origin, view.up) == ("configuration", False)
    await NodeOperations(broker.node).create_message_vpn({"name": "lab"})
    defined.deleting.add("shop")
    with pytest.raises(Refused, match="'shop' is being deleted"):
        await NodeOperations(broker.node).create_message_vpn({"name": "shop"})


async def test_a_backup_and_its_restore_have_it(broker: RunningBroker) -> None:
    """Its row is in the spool like its queues."""
    await create(broker, max_connection_count=7)
    await fill(broker, "sales")
    await start_backup(broker.node, "b")

    async def has_ended() -> bool:
        return (await show_backup(broker.node)).state != BackupState.RUNNING

    await until(has_ended, "the end of the backup")
    view = await show_backup(broker.node)
    assert view.state == BackupState.DONE
    await NodeOperations(broker.node).delete_message_vpn("sales", force=True)
    await broker.stop()
    data: Path = broker.config.data.path
    data.rename(data.with_name("lost"))
    restore_backup(Path(view.folder), data, incarnation=4711, copied=lambda _: None)
    await broker.start()
    found = await NodeOperations(broker.node).show_message_vpn("sales")
    assert (found.origin, found.up, found.settings["max_connection_count"]) == ("operator", True, 7)
    assert (await NodeOperations(broker.node, "sales").show_queue("orders")).ready_count == 20


async def test_a_stop_in_the_middle_waits_for_the_deletion(broker: RunningBroker) -> None:
    """A clean stop leaves nothing for the next start to finish."""
    await create(broker)
    await fill(broker, "sales")
    node = broker.node
    deletion = asyncio.create_task(NodeOperations(node).delete_message_vpn("sales", force=True))
    while "sales" not in node.services.provisioned_vpns.deleting:
        await asyncio.sleep(0)
    await broker.restart()
    await deletion
    assert not node.services.provisioned_vpns.deleting
    with pytest.raises(Refused, match="the node stops"):
        await node.vpn_changes.create({"name": "lab"})
    assert list(broker.node.vpns) == ["default"]
    assert await rows_of(broker, "sales") == {}


# --- a store that is full, or fails ---


async def test_a_full_store_takes_a_deletion_and_no_creation(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What deletes may use the reserve, so that a full store can be emptied."""
    await create(broker)
    await fill(broker, "sales")
    commit = broker.node.services.store.commit

    def full(job: CommitJob) -> int:
        if not job.uses_reserve:
            raise StoreFull("disk", "no room in this test")
        return commit(job)

    monkeypatch.setattr(broker.node.services.store, "commit", full)
    operations = NodeOperations(broker.node)
    with pytest.raises(StoreRefused):
        await operations.create_message_vpn({"name": "lab"})
    assert list(broker.node.vpns) == ["default", "sales"]
    await operations.delete_message_vpn("sales", force=True)
    assert await rows_of(broker, "sales") == {}


async def test_a_deletion_that_cannot_be_decided_changes_nothing(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients stay, and others come in."""
    await create(broker)
    client = Mqtt(broker)
    assert await client.connect("guest@sales", "p") == OK
    operations = NodeOperations(broker.node)

    def full(job: CommitJob) -> int:
        raise StoreFull("disk", "no room in this test")

    with monkeypatch.context() as patched:
        patched.setattr(broker.node.services.store, "commit", full)
        with pytest.raises(StoreRefused):
            await operations.delete_message_vpn("sales", force=True)
    assert (await operations.show_message_vpn("sales")).up
    assert await client.subscribe("t") == OK
    assert await answer_to(broker, "amqp", "guest@sales") == OK
    await client.leave()


async def test_a_deletion_whose_rows_could_not_be_read_is_finished_by_another_request(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message VPN is gone; the store has the rest of it until then, and no new one takes its name."""
    await create(broker)
    await fill(broker, "sales")
    operations = NodeOperations(broker.node)

    def broken(prefix: bytes) -> dict[Table, list[bytes]]:
        raise StoreFailed("the disk cannot be read in this test")

    with monkeypatch.context() as patched:
        patched.setattr(broker.node.services.store, "row_keys", broken)
        with pytest.raises(StoreRefused, match="cannot be read"):
            await operations.delete_message_vpn("sales", force=True)
    assert "sales" not in broker.node.vpns
    with pytest.raises(Refused, match="is being deleted"):
        await operations.create_message_vpn({"name": "sales"})
    await operations.delete_message_vpn("sales", force=False)
    assert await rows_of(broker, "sales") == {}
    await create(broker)
