"""Message VPNs of one node: how clients get into one, how they are refused, and that nothing of one is seen in another.

docs/concepts/message-vpns.md; decision 0035.
"""

from typing import Final

import pytest
from argon2 import PasswordHasher

from sluicegate.gateway.config.load import load
from sluicegate.gateway.observability.metrics.exposition import Exposition
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.clients.clients import ClientQuery
from sluicegate.gateway.views.clients.subscriptions import SmrpQuery
from sluicegate.gateway.views.errors import VpnNotFound
from sluicegate.messaging.clients.rights import (
    ENDPOINT_COUNT,
    NOT_AUTHENTICATED,
    TOO_MANY_CONNECTIONS,
    VPN_DOWN,
    VPN_UNKNOWN,
)
from sluicegate.protocols.amqp.codec.termini import NEVER, Source
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frame import PROVISION
from sluicegate.protocols.flow.codec.frames.provision import Provision, Provisioned
from sluicegate.protocols.flow.codec.frames.session import AUTH_DONE, AUTH_FAILED
from sluicegate.storage.backup.reader import SpoolReader
from sluicegate.storage.integrity.inspection import inspect_spool
from support.amqp.client import AmqpClient
from support.broker.inside_client import InsideClient
from support.broker.message_usage import usage_of
from support.broker.protocol_clients import OK, PROTOCOLS, Amqp, Answer
from support.broker.running_broker import RunningBroker
from support.flow.client import FlowClient, Refused
from support.http.client import http_client

SECRET: Final = "correct-horse"
OTHER_SECRET: Final = "battery-staple"
QUICK: Final = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


def users(secret: str, *names: str) -> str:
    """Return accounts as `--set` takes them."""
    accounts = [f"{{name: '{name}', password: '{QUICK.hash(secret)}'}}" for name in names]
    return f"[{', '.join(accounts)}]"


OTHER_USERS: Final = users(OTHER_SECRET, "ann")
ACCOUNTS: Final = pytest.mark.settings(
    "authentication.allow_anonymous=false",
    f"authentication.users={users(SECRET, 'ann', 'bob@work')}",
    "vpns.sales.authentication.allow_anonymous=false",
    f"vpns.sales.authentication.users={OTHER_USERS}",
    "vpns.lab.enabled=false",
    f"vpns.lab.authentication.users={OTHER_USERS}",
)
ANONYMOUS: Final = pytest.mark.settings("vpns.sales.enabled=true", "vpns.closed.authentication.allow_anonymous=false")
EVERY_PROTOCOL: Final = pytest.mark.parametrize("protocol", list(PROTOCOLS))
NOT_BELIEVED: Final[dict[str, Answer]] = {"mqtt": 0x86, "amqp": "sasl-1", "flow": "auth-failed", "http": 401}
NOT_THERE: Final[dict[str, Answer]] = {"mqtt": 0x87, "amqp": "sasl-1", "flow": codes.VPN_NOT_ALLOWED, "http": 403}
SHUT_DOWN: Final[dict[str, Answer]] = {
    "mqtt": 0x88,
    "amqp": "amqp:connection:forced",
    "flow": codes.VPN_UNAVAILABLE,
    "http": 503,
}


async def answer_to(broker: RunningBroker, protocol: str, user: str, password: str) -> Answer:
    client = PROTOCOLS[protocol](broker)
    answer = await client.connect(user, password)
    await client.leave()
    return answer


def denied(broker: RunningBroker, vpn: str) -> dict[str, int]:
    return broker.node.vpns[vpn].clients.denials.counts


async def collect(broker: RunningBroker, vpn: str, queue: str, **attributes: object) -> None:
    await NodeOperations(broker.node, vpn).create_queue({"name": queue, **attributes})


async def ready(broker: RunningBroker, vpn: str, queue: str) -> int:
    return (await NodeOperations(broker.node, vpn).show_queue(queue)).ready_count


# --- who comes in where ---


@ACCOUNTS
@EVERY_PROTOCOL
async def test_the_same_name_is_another_user_in_each_vpn(broker: RunningBroker, protocol: str) -> None:
    """0176: `user@vpn` in every protocol that has user names; without it, the listener's VPN."""
    assert await answer_to(broker, protocol, "ann", SECRET) == OK
    assert await answer_to(broker, protocol, "ann@default", SECRET) == OK
    assert await answer_to(broker, protocol, "ann@sales", OTHER_SECRET) == OK
    assert await answer_to(broker, protocol, "ann@sales", SECRET) == NOT_BELIEVED[protocol]
    assert await answer_to(broker, protocol, "ann", OTHER_SECRET) == NOT_BELIEVED[protocol]
    assert denied(broker, "sales") == denied(broker, "default") == {NOT_AUTHENTICATED: 1}


@ACCOUNTS
async def test_a_user_without_a_vpn_is_in_the_listeners_whatever_was_tried_before(broker: RunningBroker) -> None:
    """docs/connect/flow-protocol.md: AUTH that failed may be tried again, and begins anew."""
    client = FlowClient(broker.flow_port)
    await client.connect()
    for name, password, state in (("ann@sales", SECRET, AUTH_FAILED), ("ann", SECRET, AUTH_DONE)):
        assert (await client.authenticate("PLAIN", f"\0{name}\0{password}".encode())).state == state
    assert broker.node.default.clients.connected_count("ann") == 1
    await client.close()


@ACCOUNTS
@EVERY_PROTOCOL
async def test_an_unknown_vpn_is_refused_counted_and_reported(broker: RunningBroker, protocol: str) -> None:
    """solace.md 7.4: 403 Message VPN Not Allowed, in the protocol's own code; told in the VPN it came by."""
    assert await answer_to(broker, protocol, "ann@elsewhere", SECRET) == NOT_THERE[protocol]
    assert denied(broker, "default") == {VPN_UNKNOWN: 1}
    assert broker.node.services.runtime.events.record.counts["CLIENT_CLIENT_CONNECT_FAIL"] == 1
    (server,) = [each for each in broker.node.servers if each.name == protocol]
    assert server.counters.refused == {VPN_UNKNOWN: 1}


@ACCOUNTS
@EVERY_PROTOCOL
async def test_a_vpn_that_is_shut_down_is_refused_counted_and_reported(broker: RunningBroker, protocol: str) -> None:
    """solace.md 7.4: 503 Message VPN Unavailable."""
    assert await answer_to(broker, protocol, "ann@lab", OTHER_SECRET) == SHUT_DOWN[protocol]
    assert denied(broker, "lab") == {VPN_DOWN: 1}
    (server,) = [each for each in broker.node.servers if each.name == protocol]
    assert server.counters.refused == {VPN_DOWN: 1}
    events = [event for _, event in broker.node.services.runtime.events.record.recent(0, 100)]
    assert [event.vpn for event in events if event.kind.name == "CLIENT_CLIENT_CONNECT_FAIL"] == ["lab"]


@ACCOUNTS
@EVERY_PROTOCOL
async def test_an_account_whose_name_has_an_at_sign_is_one_name(broker: RunningBroker, protocol: str) -> None:
    """0176: names of accounts go first, so addresses of mail can be user names."""
    assert await answer_to(broker, protocol, "bob@work", SECRET) == OK
    assert await answer_to(broker, protocol, "bob@work@default", SECRET) == OK


@pytest.mark.accounts(**{"bob@work": SECRET})
@EVERY_PROTOCOL
async def test_on_a_node_with_one_vpn_an_at_sign_means_nothing(broker: RunningBroker, protocol: str) -> None:
    """0176: nothing changes for a node that has `default` only."""
    assert await answer_to(broker, protocol, "bob@work", SECRET) == OK
    assert await answer_to(broker, protocol, "ann@home", SECRET) == NOT_BELIEVED[protocol]


@pytest.mark.settings("vpns.sales.enabled=true", *(f"listeners.{name}.vpn=sales" for name in PROTOCOLS))
@EVERY_PROTOCOL
async def test_a_listener_is_for_one_vpn(broker: RunningBroker, protocol: str) -> None:
    """Whoever names none is in the listener's."""
    await collect(broker, "sales", "q", subscriptions=["t"])
    await collect(broker, "default", "q", subscriptions=["t"])
    client = PROTOCOLS[protocol](broker)
    assert await client.connect("", "") == OK
    if protocol == "amqp":
        assert await client.bind("q") == OK
        assert (await NodeOperations(broker.node, "sales").show_queue("q")).flows
    else:
        assert await client.publish("t") == OK
        assert await ready(broker, "sales", "q") == 1
    assert await ready(broker, "default", "q") == 0
    await client.leave()


# --- each protocol's own words ---


@ANONYMOUS
@pytest.mark.parametrize("hostname", ["vpn:sales", "vhost:sales"])
@pytest.mark.parametrize("place", ["sasl-init", "open"])
async def test_amqp_names_a_vpn_by_hostname(broker: RunningBroker, hostname: str, place: str) -> None:
    """AMQP 2.7.1 and 5.3.3.2: the hostname is for the broker to make sense of."""
    await collect(broker, "sales", "only-here")
    names = {"sasl_hostname": hostname} if place == "sasl-init" else {"hostname": hostname}
    client = Amqp(broker, **names)
    assert await client.connect("", "") == OK
    assert await client.bind("only-here") == OK
    await client.leave()


@ANONYMOUS
async def test_a_hostname_that_is_one_names_no_vpn(broker: RunningBroker) -> None:
    await collect(broker, "default", "only-here")
    client = Amqp(broker, sasl_hostname="sales", hostname="sales.example")
    assert await client.connect("", "") == OK
    assert await client.bind("only-here") == OK
    await client.leave()


@ACCOUNTS
async def test_an_amqp_client_stays_in_the_vpn_it_signed_in_to(broker: RunningBroker) -> None:
    """0176: users are of one VPN, so an open for another one is not allowed."""
    client = Amqp(broker, hostname="vpn:sales")
    assert await client.connect("ann", SECRET) == "amqp:not-allowed"
    await client.leave()
    assert denied(broker, "sales") == {VPN_UNKNOWN: 1}


@ANONYMOUS
@pytest.mark.parametrize(("name", "condition"), [("elsewhere", "amqp:not-found"), ("closed", "amqp:not-allowed")])
async def test_an_open_for_a_vpn_that_will_not_have_it_is_closed(
    broker: RunningBroker, name: str, condition: str
) -> None:
    client = Amqp(broker, hostname=f"vpn:{name}")
    assert await client.connect("", "") == condition
    await client.leave()


@ANONYMOUS
async def test_flow_clients_name_a_vpn_in_hello(broker: RunningBroker) -> None:
    """Flow: sessions, the field message VPN."""
    await collect(broker, "sales", "only-here")
    async with FlowClient(broker.flow_port, vpn="sales") as client:
        await client.binds("only-here")
    stranger = FlowClient(broker.flow_port, vpn="elsewhere")
    with pytest.raises(Refused) as refused:
        await stranger.connect()
    assert refused.value.error.code == codes.VPN_NOT_ALLOWED
    await stranger.ended()


@ANONYMOUS
async def test_flow_clients_are_offered_what_their_vpn_takes(broker: RunningBroker) -> None:
    client = FlowClient(broker.flow_port, vpn="closed")
    assert "ANONYMOUS" not in (await client.connect()).mechanisms
    client.cut()
    await client.ended()


@ANONYMOUS
async def test_http_requests_of_one_connection_may_be_for_different_vpns(broker: RunningBroker) -> None:
    """docs/connect/http.md: Sluicegate-Message-VPN, as a proxy that shares connections sends it."""
    for vpn in ("default", "sales"):
        await collect(broker, vpn, "q", subscriptions=["t"])
    async with http_client(broker) as client:
        for name, status in (("sales", 200), ("", 200), ("sales", 200), ("elsewhere", 403), ("closed", 401)):
            headers = {"Sluicegate-Message-VPN": name} if name else {}
            assert (await client.post("/TOPIC/t", content=b"x", headers=headers)).status_code == status
        assert len(broker.node.http.open_connections()) == 1
    assert (await ready(broker, "sales", "q"), await ready(broker, "default", "q")) == (2, 1)
    assert denied(broker, "closed") == {NOT_AUTHENTICATED: 1}


# --- nothing leaks ---


@ACCOUNTS
@EVERY_PROTOCOL
async def test_messages_published_in_one_vpn_are_not_visible_in_another(broker: RunningBroker, protocol: str) -> None:
    """Queues with the same name and subscription, in both; only the publisher's has it."""
    for vpn in ("default", "sales"):
        await collect(broker, vpn, "q", subscriptions=["t"])
    client = PROTOCOLS[protocol](broker)
    assert await client.connect("ann@sales", OTHER_SECRET) == OK
    assert await client.publish("t") == OK
    await client.leave()
    if protocol == "amqp":  # it has opened a link, and sent nothing
        return
    assert (await ready(broker, "sales", "q"), await ready(broker, "default", "q")) == (1, 0)


@ACCOUNTS
@pytest.mark.parametrize("protocol", ["mqtt", "amqp", "flow"])
async def test_a_queue_of_another_vpn_is_not_there(broker: RunningBroker, protocol: str) -> None:
    await collect(broker, "sales", "only-there")
    client = PROTOCOLS[protocol](broker)
    assert await client.connect("ann", SECRET) == OK
    not_found: dict[str, Answer] = {"mqtt": 0x80, "amqp": "amqp:not-found", "flow": codes.NOT_FOUND}
    assert await client.bind("only-there") == not_found[protocol]
    await client.leave()


@ANONYMOUS
async def test_a_client_id_is_taken_in_its_own_vpn_only(broker: RunningBroker) -> None:
    """[3.1.4-3] within a VPN: nobody is disconnected, and each has its session."""
    here = await broker.connect_durable("device")
    there = await broker.connect_durable("device", user_name="x@sales")
    await here.subscribe("t", qos=1)
    await there.subscribe("t", qos=1)
    await here.publish("t", b"here", qos=1)
    await there.publish("t", b"there", qos=1)
    assert (await here.payloads(1), await there.payloads(1)) == ([b"here"], [b"there"])


@ANONYMOUS
async def test_retained_messages_and_shared_groups_are_of_one_vpn(broker: RunningBroker) -> None:
    """Members of `$share/g/t` take turns with those of their own VPN only; so do readers of what is retained."""
    here = await broker.connect("a", 5)
    there = await broker.connect("a", 5, user_name="x@sales")
    for client, payload in ((here, b"here"), (there, b"there")):
        await client.subscribe("$share/g/t")
        await client.publish("kept", payload, qos=1, retain=True)
    for client, payload in ((here, b"here"), (there, b"there")):
        for _ in range(3):
            await client.publish("t", payload)
        assert await client.payloads(3) == 3 * [payload]
        await client.subscribe("kept")
        assert await client.payloads(1) == [payload]


# --- restarts and reloads ---


@ANONYMOUS
async def test_the_state_of_each_vpn_survives_a_restart(broker: RunningBroker) -> None:
    """Queues, templates, sessions and retained messages, each in its own VPN; two have the same names."""
    for vpn in ("default", "sales"):
        await collect(broker, vpn, "q", subscriptions=["q/>"], max_ttl=3 if vpn == "sales" else 4)
        client = await broker.connect_durable("device", user_name=f"x@{vpn}")
        await client.subscribe("news", qos=1)
        await client.publish("kept", vpn.encode(), qos=1, retain=True)
        await client.publish("q/1", vpn.encode(), qos=1)
        await client.leave()
        sender = await broker.connect("sender", 5, user_name=f"x@{vpn}")
        await sender.publish("news", vpn.encode(), qos=2)
    await broker.restart()
    for vpn in ("default", "sales"):
        view = NodeOperations(broker.node, vpn)
        assert {queue.name: queue.ready_count for queue in await view.list_queues()} == {"#mqtt/device": 1, "q": 1}
        assert (await view.show_queue("q")).config.max_ttl == (3 if vpn == "sales" else 4)
        client = await broker.connect_durable("device", user_name=f"x@{vpn}")
        assert client.accepted.session_present
        assert await client.payloads(1) == [vpn.encode()]
        await client.subscribe("kept")
        assert await client.payloads(1) == [vpn.encode()]


@ANONYMOUS
async def test_transactions_cursors_and_publishers_have_names_of_their_own_in_each_vpn(broker: RunningBroker) -> None:
    """Staged under one name in both, committed in one; over a restart, after which the other goes on."""
    for vpn in ("default", "sales"):
        inside = InsideClient(broker, "q", vpn=vpn)
        await inside.create(retention_time_s=3600)
        await inside.publish(vpn.encode())
        assert (await inside.bind(cursor="c", instance=vpn)).epoch == 1
        assert (await inside.stage("t", 0, vpn.encode())).messages_count == 1
        async with FlowClient(broker.flow_port, vpn=vpn, name=f"client-{vpn}") as client:
            opened = await client.opens_publisher("p")
            assert (opened.epoch, opened.stored_through) == (1, 0)
            client.publishes(opened.flow_id, [7], topic="nowhere")
            assert not await client.answered(opened.flow_id, 7)
    assert (await InsideClient(broker, "q", vpn="sales").commit("t", (0, 0))).messages_count == 1
    await broker.restart()
    here, there = InsideClient(broker, "q"), InsideClient(broker, "q", vpn="sales")
    assert ((await here.staging()).open_count, (await there.staging()).open_count) == (1, 0)
    assert (await here.commit("t", (0, 0))).messages_count == 1
    assert (await there.commit("t", (0, 0))).already
    for inside, vpn in ((here, "default"), (there, "sales")):
        consumer = await inside.consume_all()
        assert consumer.payloads() == 2 * [vpn.encode()]
        assert (await inside.bind(cursor="c", instance=vpn)).epoch == 2


@ANONYMOUS
async def test_a_reload_brings_a_vpn_and_shuts_one_down(broker: RunningBroker) -> None:
    """docs/concepts/message-vpns.md: clients of one that is shut down are sent away; what it holds is kept."""
    await collect(broker, "sales", "q", subscriptions=["t"])
    client = await broker.connect("a", 5, user_name="x@sales")
    other = await broker.connect("b", 5)
    await client.publish("t", b"before", qos=1)
    async with http_client(broker) as worker:  # its flow outlives the connection
        answer = await worker.get("/QUEUE/q", headers={"Sluicegate-Message-VPN": "sales"})
        assert answer.content == b"before"
    down = load(settings=(*broker.settings, "vpns.sales.enabled=false", "vpns.new.queues.declared=[{name: fresh}]"))
    await broker.node.reload(down)
    assert await client.ended_with() == 0x98
    await other.round_trip()
    assert await answer_to(broker, "mqtt", "x@sales", "") == 0x88
    assert await answer_to(broker, "mqtt", "x@new", "") == OK
    assert await ready(broker, "new", "fresh") == 0
    assert await ready(broker, "sales", "q") == 1
    await broker.node.reload(broker.config)
    assert await answer_to(broker, "mqtt", "x@sales", "") == OK
    assert await answer_to(broker, "mqtt", "x@new", "") == 0x88  # it is configured no more


@ANONYMOUS
async def test_a_vpn_that_is_configured_no_more_keeps_what_it_has(broker: RunningBroker) -> None:
    """Over a restart too: nobody comes in, nothing is deleted."""
    await collect(broker, "sales", "q", subscriptions=["t"])
    client = await broker.connect("a", 5, user_name="x@sales")
    await client.publish("t", b"kept", qos=1)
    with_it = broker.config
    broker.config = load(settings=broker.settings[: -len(ANONYMOUS.args)])
    await broker.restart()
    assert await ready(broker, "sales", "q") == 1
    assert await answer_to(broker, "mqtt", "x@sales", "") == 0x88
    broker.config = with_it
    await broker.restart()
    assert await ready(broker, "sales", "q") == 1
    assert await answer_to(broker, "mqtt", "x@sales", "") == OK


# --- what operators see ---


@ANONYMOUS
async def test_operators_look_at_one_vpn_at_a_time(broker: RunningBroker) -> None:
    """Admin API, parameter vpn: queues, clients and subscriptions of that VPN only; all VPNs in one list."""
    await collect(broker, "sales", "q", subscriptions=["t"])
    client = await broker.connect("device", 5, user_name="x@sales")
    await client.publish("t", b"four", qos=1)
    view = NodeOperations(broker.node)
    there = view.in_vpn("sales")
    assert [queue.name for queue in await view.list_queues()] == []
    assert [queue.name for queue in await there.list_queues()] == ["q"]
    assert (await view.list_clients(ClientQuery())).clients == ()
    assert [each.name for each in (await there.list_clients(ClientQuery())).clients] == ["device"]
    assert (await view.smrp_subscriptions(SmrpQuery())).total_count == 0
    assert (await there.smrp_subscriptions(SmrpQuery())).vpn_name == "sales"
    with pytest.raises(VpnNotFound):
        view.in_vpn("elsewhere")
    vpns = {vpn.name: vpn for vpn in (await view.list_message_vpns()).message_vpns}
    assert list(vpns) == ["closed", "default", "sales"]
    sales = vpns["sales"]
    assert (sales.enabled, sales.connection_count, sales.endpoint_count, sales.spooled_msg_count) == (True, 1, 1, 1)
    assert sales.msg_spool_usage_bytes == usage_of("t", b"four")
    assert vpns["default"].msg_spool_usage_bytes == 0


@ANONYMOUS
async def test_metrics_and_events_say_which_vpn_they_are_of(broker: RunningBroker) -> None:
    """docs/operate/metrics.md: label vpn; an event is published in its own VPN, one of the node in `default`."""
    here = await broker.connect("here", 5)
    there = await broker.connect("there", 5, user_name="x@sales")
    for client in (here, there):
        await client.subscribe("$SYS/LOG/+/VPN/#")
    for vpn in ("default", "sales"):
        await collect(broker, vpn, f"q-{vpn}")
    for client, vpn in ((here, "default"), (there, "sales")):
        (message,) = await client.messages(1)
        assert message.topic.endswith(f"/VPN_AD_QENDPT_CREATE/{vpn}")
        assert f": {vpn} - Queue q-{vpn} created".encode() in message.payload
        await client.is_quiet()
    samples = await NodeOperations(broker.node).metrics_snapshot()
    ready_of = {(each.labels, each.vpn) for each in samples if each.name == "sluicegate_queue_messages_ready"}
    assert ready_of == {(("q-default",), "default"), (("q-sales",), "sales")}
    text = Exposition(queue_label_max=10).render(samples).decode()
    assert 'sluicegate_queue_messages_ready{queue="q-sales",vpn="sales"} 0.0' in text
    assert 'sluicegate_queues{vpn="default"} 1.0' in text


@ANONYMOUS
async def test_a_stopped_spool_with_several_vpns_is_in_order(broker: RunningBroker) -> None:
    """`sluicegate doctor` and readers of backups know whose a queue, a cursor and a staged transaction is."""
    for vpn in ("default", "sales"):
        inside = InsideClient(broker, "q", vpn=vpn)
        await inside.create(retention_time_s=3600)
        await inside.publish(vpn.encode())
        await inside.bind(cursor="c")
        await inside.stage("t", 0, b"staged")
    await broker.stop()
    with SpoolReader.open_folder(broker.config.data.path) as reader:
        assert list(inspect_spool(reader, looked=lambda: None)) == []
        for vpn in ("default", "sales"):
            (run,) = reader.vpns[vpn].read("q", 0, 1).runs
            assert run.batch.payloads() == [vpn.encode()]
    await broker.start()


# --- quotas ---

ROOM_FOR_ONE = usage_of("t", b"sixty")
ROOM_FOR_TWO = usage_of("t", b"sixty", b"more")


@pytest.mark.settings(
    "vpns.sales.max_connection_count=1",
    "vpns.sales.max_subscription_count=1",
    f"vpns.sales.usage_bytes_max={ROOM_FOR_ONE}",
)
async def test_quotas_of_one_vpn_are_used_up_by_its_clients_only(broker: RunningBroker) -> None:
    """docs/concepts/message-vpns.md: connections, subscriptions, spool; `default` has room, and a reload makes some."""
    here = await broker.connect("a", 5)
    there = await broker.connect("a", 5, user_name="x@sales")
    assert await answer_to(broker, "mqtt", "y@sales", "") == 0x97
    assert denied(broker, "sales") == {TOO_MANY_CONNECTIONS: 1}
    assert await there.subscribe("t", qos=1) == [1]
    assert await there.subscribe("u", qos=1) == [0x97]
    assert await here.subscribe("t", "u", qos=1) == [1, 1]
    await collect(broker, "sales", "q", subscriptions=["q"])
    assert await there.publish("q", b"sixty") == 0
    assert await there.publish("q", b"more") == 0x97
    assert await here.publish("t", b"there is room here") == 0
    more = (
        "vpns.sales.max_connection_count=2",
        f"vpns.sales.usage_bytes_max={ROOM_FOR_TWO}",
        "vpns.sales.usage_threshold=90/60%",
    )
    changes = await broker.node.reload(load(settings=(*broker.settings, *more)))
    assert not changes.restart_needed
    assert await answer_to(broker, "mqtt", "y@sales", "") == OK
    assert await there.publish("q", b"more") == 0
    assert await there.publish("q", b"more") == 0x97


@pytest.mark.settings("vpn.max_subscription_count=1")
@pytest.mark.parametrize("protocol", ["mqtt", "flow"])
async def test_a_subscription_that_is_there_is_made_again_whatever_the_quota_of_its_vpn(
    broker: RunningBroker, protocol: str
) -> None:
    """What is there already stays: most clients subscribe to the same once more whenever they are back."""
    client = PROTOCOLS[protocol](broker)
    assert await client.connect("", "") == OK
    assert await client.subscribe("t") == await client.subscribe("t") == OK
    assert await client.subscribe("u") != OK
    await client.leave()


@pytest.mark.settings("vpn.max_subscription_count=1")
@pytest.mark.accounts(ada="a")
async def test_a_durable_subscription_is_taken_up_again_whatever_the_quota_of_its_vpn(broker: RunningBroker) -> None:
    """Else who goes away for a moment would never have its messages again."""
    source = Source("topic://t", durable=2, expiry_policy=NEVER)
    for _ in range(2):
        client = await AmqpClient.open(broker.amqp_port, account=("ada", "a"))
        assert (await client.receiver("mine", source)).source is not None
        assert (await client.receiver("other", "topic://t", handle=1)).source is None
        client.vanish()
        await broker.node_releases("ada")


@ANONYMOUS
async def test_a_vpn_that_is_configured_again_has_the_quota_that_it_is_configured_with(broker: RunningBroker) -> None:
    """Also when the node began without it: then what the store knows of it has no bounds."""
    await collect(broker, "sales", "q", subscriptions=["t"])
    broker.config = load(settings=broker.settings[: -len(ANONYMOUS.args)])
    await broker.restart()
    await broker.node.reload(load(settings=(*broker.settings, f"vpns.sales.usage_bytes_max={ROOM_FOR_ONE}")))
    client = await broker.connect("a", 5, user_name="x@sales")
    assert await client.publish("t", b"sixty") == 0
    assert await client.publish("t", b"more") == 0x97


@pytest.mark.settings("vpns.sales.max_endpoint_count=1")
async def test_clients_make_no_queues_beyond_the_quota_of_their_vpn(broker: RunningBroker) -> None:
    """503 Max Endpoints Exceeded; operators may make more."""
    await collect(broker, "sales", "q")
    async with FlowClient(broker.flow_port, vpn="sales") as client:
        _, request_id = client.ids()
        client.send(Provision(PROVISION, request_id, "mine", 0, b"").encode())
        with pytest.raises(Refused) as refused:
            await client.heard(Provisioned)
        assert "has the 1 queues that it may have" in refused.value.error.text
    await collect(broker, "sales", "another")
    assert denied(broker, "sales") == {ENDPOINT_COUNT: 1}
