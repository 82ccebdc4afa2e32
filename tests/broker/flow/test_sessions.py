"""Sessions of the flow protocol on a real listener: authentication, keep-alive, limits, and how they end."""

import asyncio
from pathlib import Path

import pytest
from scramp import ScramClient

from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frame import CLOSE_PUB, PREFACE, encode_frame
from sluicegate.protocols.flow.codec.frames.cursor import QueueStatus
from sluicegate.protocols.flow.codec.frames.flow import Bind
from sluicegate.protocols.flow.codec.frames.publish import write_publish
from sluicegate.protocols.flow.codec.frames.session import (
    AUTH_CHALLENGE,
    AUTH_DONE,
    AUTH_FAILED,
    Auth,
    Close,
    Error,
    Goaway,
    Hello,
    Welcome,
)
from sluicegate.protocols.flow.codec.frames.settle import Ping
from sluicegate.protocols.flow.codec.limits import KEEP_ALIVE_MS_MIN
from sluicegate.protocols.flow.engine.engine import FlowEngine
from sluicegate.protocols.flow.engine.events import PeerViolated
from support.broker.blocked_sign_in import block_sign_ins
from support.broker.named_queues import create
from support.broker.running_broker import RunningBroker
from support.flow.client import FlowClient, Refused
from support.mqtt.raw_client import DEADLINE_S
from support.network.tokens import TokenServer, bearer

ACCOUNTS = pytest.mark.accounts(ada="engine")


async def test_an_anonymous_client_on_loopback_is_accepted_and_gets_the_limits(broker: RunningBroker) -> None:
    """Flow: sessions. WELCOME says what is in force."""
    async with FlowClient(broker.flow_port, keep_alive_ms=5_000) as client:
        assert client.welcome is not None
        assert client.welcome.keep_alive_ms == 5_000
        assert client.welcome.flows_max == 1024
        assert "ANONYMOUS" in client.welcome.mechanisms
        assert client.welcome.product.startswith("sluicegate ")


async def test_a_keep_alive_beyond_the_limits_is_brought_into_them(broker: RunningBroker) -> None:
    """Flow: sessions, keep-alive."""
    for wished_ms, granted_ms in ((1, KEEP_ALIVE_MS_MIN), (3_600_000, 30_000)):
        async with FlowClient(broker.flow_port, keep_alive_ms=wished_ms) as client:
            assert client.welcome is not None
            assert client.welcome.keep_alive_ms == granted_ms


@ACCOUNTS
async def test_passwords_open_the_door_with_plain(broker: RunningBroker) -> None:
    """Flow: sessions, authentication; RFC 4616."""
    client = FlowClient(broker.flow_port)
    welcome = await client.connect()
    assert "ANONYMOUS" not in welcome.mechanisms
    assert (await client.authenticate("PLAIN", b"\0ada\0wrong")).state == AUTH_FAILED
    assert (await client.authenticate("PLAIN", b"\0ada\0engine")).state == AUTH_DONE
    await client.close()


@ACCOUNTS
async def test_a_password_is_proven_without_being_sent(broker: RunningBroker) -> None:
    """Flow: sessions, authentication; RFC 5802."""
    client = FlowClient(broker.flow_port)
    await client.connect()
    scram = ScramClient(["SCRAM-SHA-256"], "ada", "engine")
    challenge = await client.authenticate("SCRAM-SHA-256", scram.get_client_first().encode())
    assert challenge.state == AUTH_CHALLENGE
    scram.set_server_first((challenge.data or b"").decode())
    answer = await client.authenticate("", scram.get_client_final().encode())
    assert answer.state == AUTH_DONE
    scram.set_server_final((answer.data or b"").decode())  # raises unless the gateway has proven itself too
    await client.close()


@ACCOUNTS
async def test_three_failed_logins_end_the_connection(broker: RunningBroker) -> None:
    """Flow: sessions, limits before authentication."""
    client = FlowClient(broker.flow_port)
    await client.connect()
    for _ in range(3):
        await client.authenticate("PLAIN", b"\0ada\0wrong")
    error = await client.heard(Error)
    assert error.code == codes.NOT_AUTHENTICATED
    await client.ended()


@ACCOUNTS
@pytest.mark.settings("flow.allow_plain_without_tls=false")
async def test_plain_can_be_kept_to_encrypted_listeners(broker: RunningBroker) -> None:
    """Flow: sessions, authentication."""
    client = FlowClient(broker.flow_port)
    welcome = await client.connect()
    assert welcome.mechanisms == ("SCRAM-SHA-256",)
    assert (await client.authenticate("PLAIN", b"\0ada\0engine")).state == AUTH_FAILED
    client.cut()
    await client.ended()


async def test_a_client_that_says_nothing_for_three_intervals_is_gone(broker: RunningBroker) -> None:
    """Flow: sessions, keep-alive."""
    client = FlowClient(broker.flow_port, keep_alive_ms=2_000)
    await client.open()
    broker.forward(7)

    assert (await client.heard(Error)).code == codes.TIMED_OUT
    await client.ended()


async def test_a_client_that_does_not_authenticate_is_disconnected(broker: RunningBroker) -> None:
    """Flow: sessions, limits before authentication."""
    client = FlowClient(broker.flow_port)
    await client.connect()
    broker.forward(11)

    assert (await client.heard(Error)).code == codes.TIMED_OUT
    await client.ended()


async def test_a_broken_rule_ends_the_connection_and_is_counted(broker: RunningBroker) -> None:
    """Flow: errors. A flow that nobody asked for."""
    client = FlowClient(broker.flow_port)
    await client.open()
    client.publishes(7, [1])

    assert (await client.heard(Error)).code == codes.FLOW_ID_UNUSABLE
    await client.ended()
    assert broker.node.flow.counters.violated == {"flow_id_unusable": 1}


async def test_flow_ids_are_used_once(broker: RunningBroker) -> None:
    """Flow: flows. What comes late for a flow that has ended is passed over; its id is never another flow."""
    await create(broker)
    client = FlowClient(broker.flow_port)
    await client.open()
    flow_id = await client.binds("q")
    await client.unbinds(flow_id)
    client.settles(flow_id, 1, 1)
    client.send(Bind(flow_id, 9, "q", 0, 1).encode())

    assert (await client.heard(Error)).code == codes.FLOW_ID_UNUSABLE
    await client.ended()


@pytest.mark.settings("flow.max_flows=2")
async def test_a_connection_has_so_many_flows(broker: RunningBroker) -> None:
    """Flow: flows. The request is refused, and the connection goes on."""
    async with FlowClient(broker.flow_port) as client:
        first = await client.opens_publisher()
        await client.opens_publisher()
        with pytest.raises(Refused) as refused:
            await client.opens_publisher()
        assert refused.value.error.code == codes.TOO_MANY
        assert refused.value.error.retry_after_ms is not None
        await client.closes_publisher(first.flow_id)
        await client.opens_publisher()


async def test_a_node_that_stops_lets_clients_finish(broker: RunningBroker) -> None:
    """Flow: sessions, GOAWAY. What is in flight is answered; who has said goodbye is waited for no longer."""
    await create(broker)
    client = FlowClient(broker.flow_port)
    await client.open()
    opened = await client.opens_publisher()
    stopping = asyncio.create_task(broker.stop())
    goaway = await client.heard(Goaway)
    client.publishes(opened.flow_id, [1], queue="q")

    assert goaway.code == codes.SHUTTING_DOWN
    assert await client.answered(opened.flow_id, 1) == []
    await client.close()
    await stopping


async def test_a_client_that_stays_gets_shutting_down_when_the_time_is_over(broker: RunningBroker) -> None:
    """Flow: sessions, GOAWAY."""
    client = FlowClient(broker.flow_port)
    await client.open()
    await broker.stop()

    await client.heard(Goaway)
    assert (await client.heard(Close)).code == codes.SHUTTING_DOWN
    await client.ended()


async def test_everything_may_be_sent_at_once(broker: RunningBroker) -> None:
    """Flow: sessions. The gateway reads on when it has answered."""
    client = FlowClient(broker.flow_port)
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.flow_port)
    hello = encode_frame(0x01, 0, 0, b"", b"")
    auth = encode_frame(0x03, 0, 0, bytes.fromhex("00160009") + b"ANONYMOUS", b"")
    direct = write_publish(0, 0, "t", b"x", None, to_queue=False, ttl_ms=0, delay_ms=0)
    end = FlowEngine(is_gateway=False, frame_bytes_max=1 << 16, connect_timeout_ms=9_999, keep_alive_ms=9_999, now_ms=0)
    writer.write(PREFACE + hello + auth + direct + encode_frame(0x07, 0, 0, bytes.fromhex("000200020000"), b""))

    async with asyncio.timeout(20):
        data = await reader.read()
    events = end.feed(data, 0, 0)
    assert isinstance(events[0], Welcome)
    writer.close()
    assert not client.is_closed
    assert broker.node.flow.counters.messages_received == 1


async def test_a_closed_publisher_is_answered_even_if_it_has_ended_before(broker: RunningBroker) -> None:
    """Flow: flows. The client cannot know whether its CLOSE_PUB crosses an ERROR."""
    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher()
        await client.closes_publisher(opened.flow_id)
        await client.closes_publisher(opened.flow_id)
        assert not any(isinstance(event, PeerViolated) for event in client.events)
    assert CLOSE_PUB == 0x23


async def test_a_connection_ends_with_its_token(tmp_path: Path) -> None:
    """Flow: sessions, authentication. The end of the token is known from the moment it was shown."""
    tokens = TokenServer(tmp_path)
    every = (*tokens.settings, "authentication.allow_anonymous=false", "flow.keep_alive_s_max=3600")
    async with RunningBroker(tmp_path / "data", every) as broker:
        client = FlowClient(broker.flow_port, keep_alive_ms=3_600_000)
        await client.connect()
        secret = bearer(tokens.token(exp=broker.clock.wall_ms() // 1000 + 3000))
        assert (await client.authenticate("OAUTHBEARER", secret)).state == AUTH_DONE
        broker.forward(3300)

        error = await client.heard(Error)
        assert (error.code, error.text) == (codes.NOT_AUTHENTICATED, "the token has expired")
        await client.ended()


@pytest.mark.timeout(200)  # it has to fill the buffers of a socket
async def test_a_client_that_reads_no_responses_is_disconnected(broker: RunningBroker) -> None:
    """Flow: errors. A client cannot have the gateway hold more than a bounded number of its answers."""
    client = FlowClient(broker.flow_port, receive_buffer_bytes=4096)
    await client.open()
    client.transport.pause_reading()
    pings = Ping(1, False).encode() * 1000
    while not broker.node.flow.counters.violated:
        assert not client.transport.is_closing()
        client.transport.write(pings)
        await asyncio.sleep(0)
    assert broker.node.flow.counters.violated == {"answers_not_read": 1}
    client.cut()
    await client.ended()


@pytest.mark.settings("events.publish_client=true")
async def test_operators_hear_of_clients_and_their_publishers(broker: RunningBroker) -> None:
    """Flow: sessions, publishing; Solace 9.5: the events have the names that operators know."""
    watcher = await broker.connect("watcher")
    await watcher.subscribe("$SYS/LOG/+/CLIENT/+/+/default/device")
    async with FlowClient(broker.flow_port, name="device") as client:
        opened = await client.opens_publisher("till")
        await client.closes_publisher(opened.flow_id)

    texts = [payload.decode() for payload in await watcher.payloads(4)]
    assert [text.split(": ")[1] for text in texts] == [
        "CLIENT_CLIENT_CONNECT",
        "CLIENT_CLIENT_OPEN_FLOW",
        "CLIENT_CLIENT_CLOSE_FLOW",
        "CLIENT_CLIENT_DISCONNECT",
    ]
    assert texts[1].endswith("default device publisher flow till opened")


@pytest.mark.timeout(200)
async def test_answers_of_other_actors_are_bounded_as_well(broker: RunningBroker) -> None:
    """Flow: errors. Requests that the gateway has to ask others about are answered later, and count all the same."""
    await create(broker)
    client = FlowClient(broker.flow_port, receive_buffer_bytes=4096)
    await client.open()
    client.transport.pause_reading()
    asked = QueueStatus(1, "nobody" * 40).encode() * 1000
    while not broker.node.flow.counters.violated:
        assert not client.transport.is_closing()
        client.transport.write(asked)
        await asyncio.sleep(0)
    assert broker.node.flow.counters.violated == {"answers_not_read": 1}
    client.cut()
    await client.ended()


@ACCOUNTS
async def test_a_client_that_took_too_long_is_not_reported_as_connected(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flow: sessions. Its connection had ended when its password was found right, and was told as ended never."""
    sign_in = block_sign_ins(broker, monkeypatch)
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.flow_port)
    says_who = Auth("PLAIN", b"\0ada\0engine").encode()
    writer.write(PREFACE + Hello("slow", "test", 0, ()).encode() + says_who)
    await sign_in.begun.wait()
    broker.forward(11)
    broker.node.flow.tick()
    async with asyncio.timeout(DEADLINE_S):
        await reader.read()
        writer.close()
        while broker.node.flow.open_connections():
            await asyncio.sleep(0.01)
    sign_in.may_end.set()
    await create(broker, "q")  # takes longer
    assert broker.node.services.runtime.events.record.counts.get("CLIENT_CLIENT_CONNECT", 0) == 0
