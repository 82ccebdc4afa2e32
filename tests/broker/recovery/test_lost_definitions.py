"""Queues that lost both copies of their definition: their messages are served, and operators decide the rest."""

import asyncio
import json

import pytest
from typer.testing import CliRunner

import support.mqtt.packets as mqtt
from sluicegate.gateway.cli import app
from sluicegate.gateway.config.load import load
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views import errors as answers
from sluicegate.gateway.views.queues.queues import QueueView
from sluicegate.gateway.views.queues.selections import FIELDS_OF_MOVE, selection_from_dict
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.protocols.amqp.codec.performatives import Detach
from sluicegate.protocols.amqp.codec.termini import COPY, NEVER, Source
from sluicegate.protocols.amqp.messages.decode import BODY_DATA, body_bytes_of
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec import frame as frames
from sluicegate.protocols.flow.codec.frames.provision import DURABLE, Provision, Provisioned
from sluicegate.storage.backup.reader import SpoolReader
from sluicegate.storage.catalog.queues import QUEUE_ROW
from sluicegate.storage.integrity.inspection import Severity, inspect_spool
from support.amqp.client import AmqpClient
from support.broker.named_queues import change, create, shown, shows
from support.broker.running_broker import RunningBroker
from support.flow.client import FlowClient, Refused
from support.mqtt.raw_client import RawClient
from support.storage.lost_rows import lose, lose_definition, lose_owners, names_in

KEYS = ["a", "b", "c", "d", "e", "f", "g", "h"]
LOST = "VPN_AD_QENDPT_DEFINITION_LOST"
RECOVERED_KEY = QUEUE_ROW + b"#recovered/1"


@pytest.fixture(autouse=True)
def expect_the_damage(caplog: pytest.LogCaptureFixture) -> None:
    """The node tells of it, as an error."""
    told = ("set aside", LOST)
    caplog.handler.addFilter(lambda record: not any(each in record.getMessage() for each in told))


async def filled(broker: RunningBroker, *payloads: bytes, name: str = "q", **attributes: object) -> None:
    """Create a queue, and have it collect messages."""
    await create(broker, name, subscriptions=["t"], **attributes)
    client = await broker.connect(level=5)
    for payload in payloads:
        assert await client.publish("t", payload) == 0


async def loses(broker: RunningBroker, name: str = "q", *, torn: bool = False, owners: tuple[int, ...] = ()) -> None:
    """Start again without the definition of a queue, and without the rows that say whose some partitions are."""
    await broker.all_vanish()
    await broker.stop()
    lose_definition(broker.config.data.path, name, torn=torn)
    lose_owners(broker.config.data.path, *owners)
    await broker.start()


async def browsed(broker: RunningBroker, name: str = "q") -> list[str]:
    return [each.payload for each in await NodeOperations(broker.node).browse_queue(name, limit=1000)]


async def events(broker: RunningBroker, kind: str) -> list[str]:
    return [each.text for each in await NodeOperations(broker.node).events(after=0, limit=1000) if each.event == kind]


async def taken(broker: RunningBroker, name: str, count: int) -> list[bytes]:
    """Consume so many messages, and no more."""
    client = await broker.connect(level=5)
    assert await client.subscribe(f"$queue/{name}", qos=1) == [1]
    payloads = [(await acknowledged(client)).payload for _ in range(count)]
    await client.is_quiet()
    return payloads


async def acknowledged(client: RawClient) -> mqtt.Published:
    message = await client.message()
    client.acknowledge(message)
    return message


def is_lost(view: QueueView) -> bool:
    config = view.config
    return view.definition_lost and not config.ingress_enabled and not config.egress_enabled


@pytest.mark.parametrize("torn", [False, True])
async def test_the_messages_are_served_under_the_queues_name_and_kept_from_clients(
    broker: RunningBroker, torn: bool
) -> None:
    await filled(broker, b"1", b"2")
    await loses(broker, torn=torn)

    view = await shown(broker)
    assert is_lost(view)
    assert (view.ready_count, view.subscriptions, view.config.permission) == (2, (), "no-access")
    assert await browsed(broker) == ["1", "2"]
    (text,) = await events(broker, LOST)
    assert "queue q is lost; it has 2 messages" in text
    client = await broker.connect(level=5)
    assert (await client.subscribe("$queue/q", qos=1))[0] >= 0x80
    async with FlowClient(broker.flow_port, name="publisher") as publisher:
        opened = await publisher.opens_publisher()
        publisher.publishes(opened.flow_id, [1], queue="q", payload=b"3")
        (refusal,) = await publisher.answered(opened.flow_id, 1)
        assert (refusal.first, refusal.last) == (1, 1)
    samples = await NodeOperations(broker.node).metrics_snapshot()
    assert [each.value for each in samples if each.name == "sluicegate_queues_definition_lost"] == [1]


async def test_it_stays_shut_over_starts_and_is_enabled_by_an_operator_for_good(broker: RunningBroker) -> None:
    await filled(broker, b"1")
    await loses(broker)
    await broker.restart()
    assert is_lost(await shown(broker))
    assert len(await events(broker, LOST)) == 1, "each start tells of it"

    view = await change(broker, max_ttl=7, dead_msg_queue="")
    assert is_lost(view), "nobody has decided"
    view = await change(broker, egress_enabled=True, ingress_enabled=True, permission="consume", subscriptions=["t"])
    assert not view.definition_lost
    assert len(await events(broker, LOST + "_CLEAR")) == 1
    await broker.restart()

    view = await shown(broker)
    assert (view.definition_lost, view.config.max_ttl, view.subscriptions) == (False, 7, ("t",))
    assert await events(broker, LOST) == []
    assert await (await broker.connect(level=5)).publish("t", b"2") == 0
    assert await taken(broker, "q", 2) == [b"1", b"2"]


async def test_its_messages_are_moved_out_and_it_is_deleted(broker: RunningBroker) -> None:
    await filled(broker, b"1", b"2")
    await loses(broker)
    await create(broker, "other")

    node = NodeOperations(broker.node)
    moved = await node.take_messages("q", "move", selection_from_dict({"to": "other"}, FIELDS_OF_MOVE))
    assert moved.done_count == 2
    assert (await browsed(broker), await browsed(broker, "other")) == ([], ["1", "2"])
    await node.delete_queue("q")
    assert len(await events(broker, LOST + "_CLEAR")) == 1
    await broker.restart()

    with pytest.raises(answers.QueueNotFound):
        await shown(broker)
    assert await browsed(broker, "other") == ["1", "2"]


async def test_no_queue_can_be_created_in_the_place_of_a_lost_definition(broker: RunningBroker) -> None:
    """Neither an operator nor a client gets the messages, or loses them, by asking for a queue."""
    await filled(broker, b"1")
    await loses(broker)

    with pytest.raises(answers.Refused, match="queue 'q' is there with its messages, and its definition was lost"):
        await create(broker)
    async with FlowClient(broker.flow_port, name="maker") as client:
        for kind, code in (
            (frames.PROVISION, codes.ALREADY_EXISTS),
            (frames.ALTER, codes.PERMISSION_DENIED),
            (frames.DEPROVISION, codes.PERMISSION_DENIED),
        ):
            _, request_id = client.ids()
            attributes = json.dumps({"max_ttl": 1}).encode() if kind == frames.ALTER else b""
            client.send(
                Provision(kind, request_id, "q", DURABLE if kind == frames.PROVISION else 0, attributes).encode()
            )
            with pytest.raises(Refused) as refusal:
                await client.heard(Provisioned)
            assert refusal.value.error.code == code
            assert "definition was lost" in refusal.value.error.text
    assert is_lost(await shown(broker))
    assert await browsed(broker) == ["1"]


async def keyed(broker: RunningBroker, number: int) -> None:
    publisher = await broker.connect(level=5)
    for key in KEYS:
        assert (
            await publisher.publish("t", f"{key}:{number}".encode(), properties=mqtt.user_property("JMSXGroupID", key))
            == 0
        )


def in_order(payloads: list[bytes], count: int) -> bool:
    texts = [each.decode() for each in payloads]
    return all(
        [each for each in texts if each.startswith(f"{key}:")] == [f"{key}:{number}" for number in range(count)]
        for key in KEYS
    )


@pytest.mark.parametrize("declared_count", [4, 6, 2, 0])
async def test_a_declared_queue_restores_a_lost_definition(broker: RunningBroker, declared_count: int) -> None:
    """With whichever number of partitions: what waits comes first, key by key."""
    await create(broker, access_type="non-exclusive", partition_count=4, subscriptions=["t"])
    await keyed(broker, 0)
    await broker.all_vanish()
    await broker.stop()
    lose_definition(broker.config.data.path, "q")
    declared = {
        "name": "q",
        "access_type": "non-exclusive",
        "partition_count": declared_count,
        "subscriptions": ["t"],
        "max_ttl": 9,
    }
    broker.config = load(None, settings=(*broker.settings, f"queues.declared=[{json.dumps(declared)}]"))
    await broker.start()

    view = await shown(broker)
    assert (view.definition_lost, view.config.max_ttl, view.subscriptions) == (False, 9, ("t",))
    assert view.config.egress_enabled
    assert len(await events(broker, LOST + "_CLEAR")) == 1
    assert broker.node.default.warnings == []
    await keyed(broker, 1)
    await broker.restart()
    client = await broker.connect(level=5)
    assert await client.subscribe("$queue/q", qos=1) == [1]
    assert in_order([(await acknowledged(client)).payload for _ in range(2 * len(KEYS))], 2)
    await shows(broker, lambda view: view.partition_operational_count == declared_count)


async def test_partitions_and_the_slot_map_outlive_the_definition(broker: RunningBroker) -> None:
    """After a change of their number the map is no modulo: by that, new messages would overtake what waits."""
    await create(broker, access_type="non-exclusive", partition_count=4, subscriptions=["t"])
    await change(broker, partition_count=5)
    await shows(broker, lambda view: view.partition_operational_count == 5 and view.scale_status == "ready")
    await keyed(broker, 0)
    before = {key: await partition_of(broker, key) for key in KEYS}
    await loses(broker)

    view = await shown(broker)
    assert (view.config.partition_count, view.partition_operational_count) == (5, 5)
    assert is_lost(view)
    assert {key: await partition_of(broker, key) for key in KEYS} == before


async def partition_of(broker: RunningBroker, key: str) -> int:
    return (await NodeOperations(broker.node).explain_key("q", key)).partition


async def test_a_change_of_partitions_that_was_under_way_goes_on(broker: RunningBroker) -> None:
    await create(broker, access_type="non-exclusive", partition_count=2, subscriptions=["t"])
    await keyed(broker, 0)
    await change(broker, partition_count=3)
    await shows(broker, lambda view: view.partition_operational_count == 3)
    await keyed(broker, 1)
    await loses(broker)

    view = await change(broker, egress_enabled=True, permission="consume")
    assert view.scale_status == "scaling-up"
    client = await broker.connect(level=5)
    assert await client.subscribe("$queue/q", qos=1) == [1]
    assert in_order([(await acknowledged(client)).payload for _ in range(2 * len(KEYS))], 2)
    await shows(broker, lambda view: view.scale_status == "ready")


async def test_a_queue_whose_name_is_lost_gets_one(broker: RunningBroker) -> None:
    await filled(broker, b"1", b"2")
    await loses(broker, owners=(1,))

    view = await shown(broker, "#recovered/1")
    assert is_lost(view)
    assert await browsed(broker, "#recovered/1") == ["1", "2"]
    await create(broker)  # nobody knows that it is the one
    with pytest.raises(QueueInvalid):
        await create(broker, "#recovered/2")
    await change(broker, "#recovered/1", egress_enabled=True, permission="consume")
    await broker.restart()
    async with FlowClient(broker.flow_port, name="reader") as client:
        flow_id = await client.binds("#recovered/1")
        assert [each.payload for each in await client.receives_in_all(2, flow_id)] == [b"1", b"2"]


async def test_a_partition_without_a_row_is_found_beside_the_others(broker: RunningBroker) -> None:
    """Ids are given out in one go."""
    await create(broker, access_type="non-exclusive", partition_count=4, subscriptions=["t"])
    await keyed(broker, 0)
    counts = [each.ready_count for each in (await shown(broker)).partitions]
    await loses(broker, owners=(1, 3))

    assert [each.name for each in await NodeOperations(broker.node).list_queues()] == ["q"]
    assert [each.ready_count for each in (await shown(broker)).partitions] == counts


async def test_a_deleted_queue_does_not_come_back(broker: RunningBroker) -> None:
    """Its messages may be in the journal for some time still."""
    await filled(broker, b"1")
    await create(broker, "other", subscriptions=["t"])
    client = await broker.connect(level=5)
    assert await client.publish("t", b"2") == 0
    await NodeOperations(broker.node).delete_queue("q")
    await broker.all_vanish()
    await broker.crash()

    assert [each.name for each in await NodeOperations(broker.node).list_queues()] == ["other"]
    await broker.stop()
    folder = broker.config.data.path
    assert names_in(folder, "owners") == {b"partition/2"}
    await broker.start()


@pytest.mark.parametrize("owners_are_lost", [False, True])
async def test_a_partition_that_retired_leaves_nothing(broker: RunningBroker, owners_are_lost: bool) -> None:
    await create(broker, access_type="non-exclusive", partition_count=3, subscriptions=["t"])
    await change(broker, partition_count=1)
    await shows(broker, lambda view: view.partition_operational_count == 1 and view.scale_status == "ready")
    await filled(broker, b"1", name="other")
    await broker.all_vanish()
    await broker.stop()
    assert names_in(broker.config.data.path, "owners") == {b"partition/1", b"partition/4"}
    if owners_are_lost:
        lose_owners(broker.config.data.path, 1, 4)
    await broker.start()

    assert [each.name for each in await NodeOperations(broker.node).list_queues()] == ["other", "q"]
    await broker.stop()
    assert names_in(broker.config.data.path, "owners") == {b"partition/1", b"partition/4"}, "they are written anew"
    await broker.start()


async def test_the_queue_of_a_session_and_of_a_share_get_their_definitions_back(broker: RunningBroker) -> None:
    """All that there is to them is known: their clients notice nothing."""
    for name, topic_filter in (("device", "t"), ("worker", "$share/group/t")):
        client = await broker.connect_durable(name)
        await client.subscribe(topic_filter, qos=1)
        await client.vanish()
    publisher = await broker.connect(level=5)
    assert await publisher.publish("t", b"1") == 0
    await broker.all_vanish()
    await broker.stop()
    for queue in ("#mqtt/device", "#share/group/t"):
        lose_definition(broker.config.data.path, queue)
    await broker.start()

    assert await events(broker, LOST) == []
    publisher = await broker.connect(level=5)
    assert await publisher.publish("t", b"2") == 0
    for name in ("device", "worker"):
        client = await broker.connect_durable(name)
        assert await client.payloads(2) == [b"1", b"2"]


async def attached(broker: RunningBroker, container: str = "reader") -> tuple[AmqpClient, bool]:
    """Return a client that has attached to its durable subscription, and whether it might."""
    client = await AmqpClient.open(broker.amqp_port, container)
    source = Source("topic://news", durable=2, expiry_policy=NEVER, distribution_mode=COPY)
    answer = await client.receiver("sub", source, credit=10)
    return client, answer.source is not None


async def test_an_amqp_subscription_gets_its_definition_back_from_its_client(broker: RunningBroker) -> None:
    client, _ = await attached(broker)
    await client.close()
    publisher = await AmqpClient.open(broker.amqp_port, "publisher")
    await publisher.sender("s", "topic://news")
    publisher.transfer(9, body_bytes_of(BODY_DATA, b"1"))
    await publisher.confirmed()
    await publisher.close()
    await loses(broker, "#amqp/reader/sub")
    assert is_lost(await shown(broker, "#amqp/reader/sub"))

    client, is_attached = await attached(broker)
    assert is_attached
    assert [each.payload for each in await client.deliveries(1)] == [b"1"]
    view = await shown(broker, "#amqp/reader/sub")
    assert (view.definition_lost, view.subscriptions) == (False, ("news",))
    await client.close()


@pytest.mark.accounts(ada="engine", bob="builder")
async def test_an_amqp_subscription_of_another_user_stays_that_users(broker: RunningBroker) -> None:
    source = Source("topic://news", durable=2, expiry_policy=NEVER, distribution_mode=COPY)
    for account, is_lost_now in ((("ada", "engine"), False), (("bob", "builder"), True)):
        client = await AmqpClient.open(broker.amqp_port, "reader", account=account)
        answer = await client.receiver("sub", source, credit=10)
        assert (answer.source is None) is is_lost_now
        if is_lost_now:
            assert (await client.awaited(Detach)).error is not None
        await client.close()
        if not is_lost_now:
            await loses(broker, "#amqp/reader/sub")
    assert is_lost(await shown(broker, "#amqp/reader/sub"))


@pytest.mark.settings("vpns.sales.enabled=true")
async def test_a_queue_is_found_in_its_message_vpn(broker: RunningBroker) -> None:
    sales = NodeOperations(broker.node).in_vpn("sales")
    await sales.create_queue({"name": "q", "subscriptions": ["t"]})
    async with FlowClient(broker.flow_port, name="p", vpn="sales") as client:
        opened = await client.opens_publisher()
        client.publishes(opened.flow_id, [1], queue="q", payload=b"1", headers=Headers())
        await client.answered(opened.flow_id, 1)
    await broker.stop()
    lose_definition(broker.config.data.path, "q", vpn="sales")
    lose(broker.config.data.path, b"\0sales\0staging/partition-id", "catalog", "catalog_copy")
    await broker.start()

    assert await NodeOperations(broker.node).list_queues() == []
    sales = NodeOperations(broker.node).in_vpn("sales")
    assert is_lost(await sales.show_queue("q"))
    assert [each.payload for each in await sales.browse_queue("q")] == ["1"]
    assert [each.name for each in await sales.list_queues()] == ["q"], "where transactions are staged is no queue"


async def test_a_last_value_queue_keeps_its_value(broker: RunningBroker) -> None:
    await filled(broker, b"1", b"2", max_msg_spool_usage=0)
    await loses(broker)
    assert await browsed(broker) == ["2"]
    await change(broker, max_msg_spool_usage=0, egress_enabled=True, ingress_enabled=True, subscriptions=["t"])
    assert await (await broker.connect(level=5)).publish("t", b"3") == 0
    assert await browsed(broker) == ["3"]


async def test_messages_kept_for_replay_survive_a_lost_definition(broker: RunningBroker) -> None:
    """How long a queue keeps what was settled stands beside its messages."""
    await filled(broker, b"1", retention_time_s=3600)
    assert await taken(broker, "q", 1) == [b"1"]
    await loses(broker)
    view = await shown(broker)
    assert (view.config.retention_time_s, view.ready_count) == (3600, 0)
    assert view.kept_bytes > 0


@pytest.mark.settings("admin.enabled=true", "admin.port=0")
async def test_commands_name_it(broker: RunningBroker) -> None:
    await filled(broker, b"1")
    await broker.all_vanish()
    await broker.stop()
    lose_definition(broker.config.data.path, "q")
    for _ in range(2):  # before a start has found it, and after
        with SpoolReader.open_folder(broker.config.data.path) as reader:
            found = [each for each in inspect_spool(reader, looked=lambda: None) if each.subject == "queue q"]
        assert [each.severity for each in found] == [Severity.ERROR]
        assert "its definition is lost: it is served shut, with 1 messages" in found[0].text
        await broker.start()
        admin = broker.operator_ports.ports.servers["admin"]
        shell = CliRunner(env={"SLUICEGATE_URL": f"http://127.0.0.1:{admin.port}", "NO_COLOR": "1"})
        for arguments in (["queue", "show", "q"], ["queue", "list"]):
            result = await asyncio.to_thread(shell.invoke, app, arguments)
            assert "definition" in result.stdout
            assert "lost" in result.stdout
        refused = await asyncio.to_thread(shell.invoke, app, ["queue", "create", "q"])
        assert refused.exit_code != 0
        assert "definition was lost" in " ".join(refused.stderr.split())
        await broker.stop()
    await broker.start()


async def test_one_good_copy_repairs_the_other(broker: RunningBroker) -> None:
    await filled(broker, b"1")
    for database in ("catalog", "catalog_copy"):
        await broker.all_vanish()
        await broker.stop()
        lose(broker.config.data.path, QUEUE_ROW + b"q", database)
        await broker.start()
        assert not (await shown(broker)).definition_lost
        await broker.stop()
        assert QUEUE_ROW + b"q" in names_in(broker.config.data.path, database)
        await broker.start()
    assert await taken(broker, "q", 1) == [b"1"]
