"""What clients are denied, in each protocol: refused in the protocol's own code, counted, and told to operators.

A table holds who is denied what; one test walks it over a real gateway. docs/operate/security.md has it in words.
"""

import asyncio
from typing import Final, NamedTuple

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.security.accounts import EVENTS_OF_DENIALS
from sluicegate.messaging.clients import rights
from sluicegate.protocols.flow.codec import codes
from support.amqp.client import AmqpClient, body, in_transaction
from support.broker.named_queues import create, shown
from support.broker.protocol_clients import OK, PROTOCOLS, Answer, Http, Mqtt
from support.broker.running_broker import RunningBroker
from support.flow.bulk_client import BulkClient, rows_of
from support.flow.client import FlowClient, Refused
from support.mqtt.raw_client import DEADLINE_S

SECRET: Final = "correct-horse"
USERS = pytest.mark.accounts(ada=SECRET, bob=SECRET, eve=SECRET, guest=SECRET)
PROFILES = pytest.mark.settings(
    # ada may use her own topics and one queue; bob comes from nowhere; eve has one connection; guest is shut down.
    "authentication.client_profiles=[{name: one, max_connection_count_per_client_username: 1},"
    " {name: direct, allow_guaranteed_msg_send_enabled: false, allow_guaranteed_msg_receive_enabled: false}]",
    "authentication.acl_profiles=[{name: own,"
    " publish_topic_exceptions: [{topic: hello}, {topic: 'data/$client-username/>'}],"
    " subscribe_topic_exceptions: [{topic: 'data/$client-username/>'}]},"
    " {name: nowhere, client_connect_exceptions: ['127.0.0.0/8'], publish_topic_default_action: allow}]",
    "authentication.users.0.acl_profile=own",
    "authentication.users.1.acl_profile=nowhere",
    "authentication.users.2.client_profile=one",
    "authentication.users.3.enabled=false",
)


class Case(NamedTuple):
    """Who tries what, and how each protocol says no. A protocol that is not named has no such thing to ask."""

    user: str
    verb: str  # `connect`, or what is asked for when it is connected
    what: str
    reason: str  # under which it is counted
    answers: dict[str, Answer]
    password: str = SECRET


CASES: Final[dict[str, Case]] = {
    "a wrong password": Case(
        *("ada", "connect", "", rights.NOT_AUTHENTICATED),
        {"mqtt": 0x86, "amqp": "sasl-1", "flow": "auth-failed", "http": 401},
        password="guess",
    ),
    "no user name": Case(
        *("", "connect", "", rights.NOT_AUTHENTICATED),
        {"mqtt": 0x87, "amqp": "sasl-1", "flow": "auth-failed", "http": 401},
    ),
    "a user that is shut down": Case(
        *("guest", "connect", "", rights.USERNAME_SHUT_DOWN),
        {"mqtt": 0x87, "amqp": "amqp:unauthorized-access", "flow": codes.NOT_AUTHENTICATED, "http": 403},
    ),
    "a forbidden address": Case(
        *("bob", "connect", "", rights.CONNECT_ACL),
        {"mqtt": 0x87, "amqp": "amqp:unauthorized-access", "flow": codes.NOT_AUTHENTICATED, "http": 403},
    ),
    "a forbidden topic": Case(
        *("ada", "publish", "data/bob/x", rights.PUBLISH_ACL),
        {"mqtt": 0x87, "amqp": "amqp:unauthorized-access", "flow": codes.NOT_PERMITTED, "http": 403},
    ),
    "a forbidden subscription": Case(
        *("ada", "subscribe", "data/bob/x", rights.SUBSCRIBE_ACL),
        {"mqtt": 0x87, "amqp": "amqp:unauthorized-access", "flow": codes.PERMISSION_DENIED},
    ),
    "the queue of a virtual topic that may not be subscribed to": Case(
        *("ada", "bind", "Consumer.ada.VirtualTopic.O", rights.SUBSCRIBE_ACL),
        {"mqtt": 0x87, "amqp": "amqp:unauthorized-access", "flow": codes.PERMISSION_DENIED, "http": 403},
    ),
    "a forbidden queue": Case(
        *("ada", "bind", "closed", ""),
        {"mqtt": 0x87, "amqp": "amqp:unauthorized-access", "flow": codes.PERMISSION_DENIED, "http": 403},
    ),
}


def rows() -> list[tuple[str, str]]:
    return [(name, protocol) for name, case in CASES.items() for protocol in case.answers]


@USERS
@PROFILES
@pytest.mark.parametrize(("name", "protocol"), rows())
async def test_a_denied_client_gets_the_code_of_its_protocol(
    broker: RunningBroker, name: str, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    """docs/operate/security.md: refused, counted, told; and no secret in what operators see."""
    case = CASES[name]
    await create(broker, "closed", permission="no-access")
    client = PROTOCOLS[protocol](broker)
    answer = await client.connect(case.user, case.password)
    if case.verb != "connect":
        assert answer == OK
        answer = await getattr(client, case.verb)(case.what)
    assert answer == case.answers[protocol]
    await client.leave()

    events = broker.node.services.runtime.events
    if case.reason:
        assert broker.node.default.clients.denials.counts == {case.reason: 1}
        assert events.record.counts[EVENTS_OF_DENIALS[case.reason].name] == 1
    else:
        assert events.record.counts["CLIENT_CLIENT_BIND_FAILED"] == 1
    if case.verb == "connect":
        servers = {server.name: server for server in broker.node.servers}
        assert servers[protocol].counters.refused == {case.reason: 1}
    told = [each[1].text() for each in events.record.recent(0, 1000)] + caplog.messages
    assert not [line for line in told if SECRET in line or "guess" in line]


OVER_THE_LIMIT: Final[dict[str, Answer]] = {
    "mqtt": 0x97,
    "amqp": "amqp:resource-limit-exceeded",
    "flow": codes.LIMIT_EXCEEDED,
    "http": 503,
}


@USERS
@PROFILES
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_the_connections_of_a_user_are_counted_over_all_protocols(broker: RunningBroker, protocol: str) -> None:
    """Solace 7.2: maxConnectionCountPerClientUsername."""
    first = Mqtt(broker, "first")
    assert await first.connect("eve", SECRET) == OK
    late = PROTOCOLS[protocol](broker, "late")
    assert await late.connect("eve", SECRET) == OVER_THE_LIMIT[protocol]
    assert broker.node.default.clients.denials.counts == {rights.TOO_MANY_CONNECTIONS: 1}
    await late.leave()
    await first.leave()
    await broker.node_releases("eve")

    again = PROTOCOLS[protocol](broker, "again")
    assert await again.connect("eve", SECRET) == OK
    await again.leave()


@USERS
@PROFILES
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_permitted_requests_succeed(broker: RunningBroker, protocol: str) -> None:
    """The exceptions of an ACL profile, with the user's name in the place of the variable."""
    await create(broker, "open", permission="consume")
    client = PROTOCOLS[protocol](broker)
    assert await client.connect("ada", SECRET) == OK
    assert await client.publish("data/ada/x") == OK
    if protocol != "http":
        assert await client.subscribe("data/ada/x") == OK
    assert await client.bind("open") == OK
    assert broker.node.default.clients.denials.counts == {}
    await client.leave()


@pytest.mark.settings(
    "authentication.client_profiles=[{name: default, allow_guaranteed_msg_send_enabled: false,"
    " allow_guaranteed_msg_receive_enabled: false}]"
)
@pytest.mark.parametrize(
    ("protocol", "sent", "bound"),
    [
        ("mqtt", 0x87, 0x87),
        ("amqp", "amqp:unauthorized-access", "amqp:unauthorized-access"),
        ("flow", codes.NOT_PERMITTED, codes.PERMISSION_DENIED),
        ("http", 403, 403),
    ],
)
async def test_guaranteed_messages_are_a_right_of_the_profile(
    broker: RunningBroker, protocol: str, sent: Answer, bound: Answer
) -> None:
    """Solace 7.2: allowGuaranteedMsgSendEnabled, allowGuaranteedMsgReceiveEnabled."""
    await create(broker, "open", permission="consume")
    client = PROTOCOLS[protocol](broker)
    if protocol != "http":
        assert await client.connect("", "") == OK
    assert await client.publish("a") == sent
    assert await client.bind("open") == bound
    assert await client.bind("Consumer.a.VirtualTopic.O") == bound
    await client.leave()
    assert [each.name for each in await NodeOperations(broker.node).list_queues()] == ["open"]


@pytest.mark.settings("authentication.client_profiles=[{name: default, allow_guaranteed_msg_receive_enabled: false}]")
async def test_to_look_at_a_queue_is_to_receive_guaranteed_messages(broker: RunningBroker) -> None:
    """Solace 7.2: allowGuaranteedMsgReceiveEnabled, of browsers and of those that read in bulk."""
    await create(broker, "open")
    worker = Http(broker)
    assert await worker.bind("open?browse=true") == 403
    await worker.leave()
    async with BulkClient(broker.flow_port) as reader:
        for request in (reader.begins_to_read("open"), reader.queue_status("open"), reader.binds_cursor(queue="open")):
            with pytest.raises(Refused) as refusal:
                await request
            assert refusal.value.error.code == codes.PERMISSION_DENIED
    assert broker.node.default.clients.denials.counts == {rights.GUARANTEED_RECEIVE: 4}


@USERS
@PROFILES
async def test_a_client_that_leaves_while_its_password_is_checked_has_no_place(broker: RunningBroker) -> None:
    """Else its user, who may have one connection, would be kept out for ever."""
    for _ in range(5):
        client = await broker.open(5)
        client.send(mqtt.connect("eve", level=5, user_name="eve", password=SECRET.encode()))
        await client.vanish()
    await broker.node_releases("eve")
    await broker.has_no_more_than(sessions=0, queues=0)
    last = Mqtt(broker, "last")
    assert await last.connect("eve", SECRET) == OK
    assert broker.node.default.clients.connected_count("eve") == 1
    await last.leave()


@USERS
@PROFILES
@pytest.mark.parametrize(
    ("protocol", "refused"),
    [
        ("mqtt", 0x87),
        ("amqp", "amqp:unauthorized-access"),
        ("flow", codes.NOT_PERMITTED),
        ("http", 403),
    ],
)
async def test_a_client_without_permission_cannot_learn_whether_a_queue_exists(
    broker: RunningBroker, protocol: str, refused: Answer
) -> None:
    """docs/operate/accounts.md, ACL profiles: queues as destinations."""
    await create(broker, "secret")
    client = PROTOCOLS[protocol](broker)
    assert await client.connect("ada", SECRET) == OK
    for queue in ("secret", "nowhere"):
        assert await client.send(queue) == refused
    await client.leave()


@pytest.mark.settings("authentication.client_profiles=[{name: default, max_msg_rate: 50}]")
async def test_a_client_ahead_of_its_rate_is_not_read_from(broker: RunningBroker) -> None:
    """Nothing is refused or lost: it is taken later."""
    await create(broker, "q", subscriptions=["t"])
    client = await broker.connect(level=5)
    for _ in range(120):
        client.send(mqtt.publish("t", b"x", qos=0, level=5))
    (connection,) = broker.node.mqtt.open_connections()
    async with asyncio.timeout(DEADLINE_S):
        while connection.read_control is None or not connection.read_control.stopped:
            await asyncio.sleep(0.01)
        while (await shown(broker)).ready_count < 120:
            broker.forward(1)
            await asyncio.sleep(0.01)
    await client.round_trip()
    assert broker.node.default.clients.denials.counts == {}


@pytest.mark.settings("authentication.client_profiles=[{name: default, max_msg_rate: 1}]")
async def test_transacted_and_staged_messages_count_against_the_rate(broker: RunningBroker) -> None:
    """Messages of AMQP transactions, and staged ones."""
    in_amqp, in_flow = await AmqpClient.open(broker.amqp_port), BulkClient(broker.flow_port)
    await in_amqp.sender("out", "topic://t", handle=0)
    await in_amqp.coordinator(1)
    txn_id = await in_amqp.declare(1)
    for _ in range(80):
        in_amqp.transfer(0, body(b"x"), state=in_transaction(txn_id, None))
    await in_flow.open()
    await in_flow.stages("job/7", 0, rows_of(["t"] * 80, [b"x"] * 80), 80)
    gates = [each.read_control for each in broker.node.amqp.open_connections()]
    gates += [each.read_control for each in broker.node.flow.open_connections()]
    async with asyncio.timeout(DEADLINE_S):
        while not all(each.stopped for each in gates):
            await asyncio.sleep(0.01)
    in_amqp.vanish()
    broker.forward(100)
    await in_flow.close()


@USERS
async def test_a_publisher_is_its_users_also_after_a_restart(broker: RunningBroker) -> None:
    """Who could open it would fence its owner, and learn what it has sent."""
    for restarts in (False, True):
        if restarts:
            await broker.restart()
        for user, expected in (("ada", None), ("bob", codes.PERMISSION_DENIED), ("ada", None)):
            client = FlowClient(broker.flow_port)
            await client.connect()
            await client.authenticate("PLAIN", f"\0{user}\0{SECRET}".encode())
            refused = None
            try:
                await client.opens_publisher("till-7")
            except Refused as refusal:
                refused = refusal.error.code
            assert refused == expected
            await client.close()
    assert broker.node.default.clients.denials.counts == {rights.PUBLISHER_OF_ANOTHER: 1}


@USERS
async def test_a_session_is_its_users_also_after_a_restart(broker: RunningBroker) -> None:
    """Else whoever knows a client identifier gets the messages that wait for it."""
    for restarts in (False, True):
        if restarts:
            await broker.restart()
        ada = await broker.connect_durable("device", user_name="ada", password=SECRET.encode())
        await ada.leave()
        thief = await broker.open(5)
        thief.send(mqtt.connect("device", level=5, clean_start=False, user_name="bob", password=SECRET.encode()))
        await thief.is_refused(0x87)
    assert broker.node.default.clients.denials.counts == {rights.SESSION_OF_ANOTHER: 1}
