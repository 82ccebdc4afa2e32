"""Sessions of the client library: authentication, TLS, broken connections, and how they end."""

import asyncio
import ssl
from pathlib import Path

import pytest
from argon2 import PasswordHasher

import sluicegate
from sluicegate import Client, ClientOptions, Connected, Disconnected, Message
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.protocols.flow.codec import codes
from sluicegate.testing.ports import free_port
from support.broker.named_queues import change, create, shown, shows
from support.broker.running_broker import RunningBroker
from support.flow.tls_broker import settings_of, tls_port
from support.network.certificates import make_certificates
from support.network.tokens import TokenServer

ACCOUNTS = pytest.mark.accounts(ada="engine")


def url(broker: RunningBroker) -> str:
    return f"flow://127.0.0.1:{broker.flow_port}"


def user_of(broker: RunningBroker) -> list[str]:
    """Return who is connected."""
    return [each.identity.user for each in broker.node.flow.open_connections()]


@ACCOUNTS
@pytest.mark.settings("flow.allow_plain_without_tls=false")
async def test_a_password_is_proven_with_scram(broker: RunningBroker) -> None:
    """Flow: sessions, authentication; RFC 5802. PLAIN is not even offered."""
    async with Client(url(broker), ClientOptions(username="ada", password="engine")) as client:
        assert client.is_connected
        assert user_of(broker) == ["ada"]


@ACCOUNTS
@pytest.mark.parametrize("options", [ClientOptions(username="ada", password="wrong"), ClientOptions()])
async def test_an_operator_without_valid_credentials_is_refused(broker: RunningBroker, options: ClientOptions) -> None:
    """Flow: sessions, authentication."""
    with pytest.raises(sluicegate.AuthenticationRefused):
        await Client(url(broker), options).__aenter__()


async def test_plain_is_tried_where_scram_cannot_prove_an_account(tmp_path: Path) -> None:
    """Flow: sessions, authentication. Of an argon2 hash SCRAM has no use; the password goes over TLS only."""
    certificates = make_certificates(tmp_path)
    hashed = PasswordHasher(time_cost=1, memory_cost=1024, parallelism=1).hash("engine")
    async with RunningBroker(tmp_path / "data", settings_of(certificates), {"ada": hashed}) as broker:
        options = ClientOptions(username="ada", password="engine")
        context = ssl.create_default_context(cafile=str(certificates.authority))
        async with Client(f"flows://127.0.0.1:{tls_port(broker)}", options, tls=context):
            assert user_of(broker) == ["ada"]
        with pytest.raises(sluicegate.AuthenticationRefused):
            await Client(url(broker), options).__aenter__()


async def test_a_certificate_is_a_name(tmp_path: Path) -> None:
    """Flow: sessions, authentication: EXTERNAL, for who has nothing else to show."""
    certificates = make_certificates(tmp_path)
    settings = settings_of(certificates, f"listeners.flow_tls.client_ca={certificates.authority}")
    async with RunningBroker(tmp_path / "data", settings) as broker:
        context = ssl.create_default_context(cafile=str(certificates.authority))
        context.load_cert_chain(certificates.server, certificates.server_key)
        async with Client(f"flows://127.0.0.1:{tls_port(broker)}", tls=context):
            assert user_of(broker) == ["localhost"]


async def test_a_gateway_without_a_trusted_certificate_is_not_trusted(tmp_path: Path) -> None:
    """Flow: connections, TLS. Without a context of the program's own, the system's authorities decide."""
    certificates = make_certificates(tmp_path)
    async with RunningBroker(tmp_path / "data", settings_of(certificates)) as broker:
        with pytest.raises(sluicegate.ConnectFailed, match="certificate verify failed"):
            await Client(f"flows://localhost:{tls_port(broker)}").__aenter__()


async def test_a_token_is_asked_for_on_each_connection(tmp_path: Path) -> None:
    """Flow: sessions, authentication: OAUTHBEARER. Tokens expire, so a function may bring them."""
    tokens = TokenServer(tmp_path)
    shown: list[str] = []

    def token() -> str:
        shown.append(tokens.token())
        return shown[-1]

    settings = (f"listeners.flow.port={free_port()}", *tokens.settings)
    certificates = make_certificates(tmp_path)
    context = ssl.create_default_context(cafile=str(certificates.authority))
    settings = (*settings, *settings_of(certificates, f"listeners.flow_tls.port={free_port()}"))
    async with RunningBroker(tmp_path / "data", settings) as broker:
        events: asyncio.Queue[sluicegate.ClientEvent] = asyncio.Queue()
        address = f"flows://127.0.0.1:{tls_port(broker)}"
        async with Client(address, ClientOptions(token=token), tls=context, on_event=events.put_nowait):
            assert isinstance(await events.get(), Connected)
            assert user_of(broker) == ["ada"]
            await broker.restart()
            assert isinstance(await events.get(), Disconnected)
            while not isinstance(await events.get(), Connected):
                pass
            assert user_of(broker) == ["ada"]
    assert len(shown) == 2


async def test_an_unreachable_gateway_is_an_error_of_the_first_connection() -> None:
    """Later ones are tried again."""
    with pytest.raises(sluicegate.ConnectFailed, match=r"127\.0\.0\.1"):
        await Client(f"flow://127.0.0.1:{free_port()}").__aenter__()


async def test_a_name_that_no_host_has_is_an_error_of_the_first_connection() -> None:
    """Resolving it fails with an error that is none of the system's, and nobody told the program."""
    with pytest.raises(sluicegate.ConnectFailed, match=r"a\.\.example"):
        async with asyncio.timeout(20):
            await Client("flow://a..example").__aenter__()


async def test_a_client_comes_back_with_its_publishers_and_consumers(tmp_path: Path) -> None:
    """Flow: sessions, publishing, consuming. The program notices events and redeliveries, and no errors."""
    settings = (f"listeners.flow.port={free_port()}",)
    async with RunningBroker(tmp_path / "data", settings) as broker:
        await create(broker)
        events: asyncio.Queue[sluicegate.ClientEvent] = asyncio.Queue()
        async with (
            Client(url(broker), on_event=events.put_nowait) as client,
            client.publisher("till") as publisher,
            client.consumer("q") as consumer,
        ):
            await publisher.send_all(Message(str(n).encode(), queue="q") for n in range(10))
            held = [await consumer.receive() for _ in range(10)]
            consumer.accept_all(held[:4])
            await shows(broker, lambda view: view.unacked_count == 6)
            await broker.restart()
            await publisher.send_all(Message(str(n).encode(), queue="q") for n in range(10, 15))
            again = [await consumer.receive() for _ in range(11)]
            assert [each.payload for each in again] == [str(n).encode() for n in range(4, 15)]
            assert [each.redelivered for each in again] == [True] * 6 + [False] * 5
            consumer.accept_all(held)  # of the broken connection: they change nothing
            assert consumer.settled_too_late_count == 10
            consumer.accept_all(again)
            await shows(broker, lambda view: view.unacked_count == 0 and view.ready_count == 0)
        seen = [events.get_nowait() for _ in range(events.qsize())]
        interrupted = [each for each in seen if isinstance(each, sluicegate.FlowInterrupted)]
        assert [(each.queue, each.given_up_count) for each in interrupted] == [("q", 6)]


async def test_messages_without_a_consumer_wait(tmp_path: Path) -> None:
    """Flow: publishing. As much as the window holds; then `send` waits, too."""
    settings = (f"listeners.flow.port={free_port()}",)
    async with RunningBroker(tmp_path / "data", settings) as broker:
        await create(broker)
        events: asyncio.Queue[sluicegate.ClientEvent] = asyncio.Queue()
        options = ClientOptions(reconnect_delay_max_s=0.5)
        client = Client(url(broker), options, on_event=events.put_nowait)
        async with client, client.publisher(window=5) as publisher:
            await broker.stop()
            while not isinstance(await events.get(), Disconnected):
                pass
            for _ in range(5):
                await publisher.send(Message(b"x", queue="q"))
            sixth = asyncio.create_task(publisher.send(Message(b"x", queue="q")))
            await events.get()  # another attempt has failed
            assert not sixth.done()
            await broker.start()
            assert await sixth == 6
            await publisher.flush()
            await shows(broker, lambda view: view.ready_count == 6)


async def test_a_consumer_is_bound_again_when_its_queue_lets_it(broker: RunningBroker) -> None:
    """Flow: consuming, states: ended, with a time after which it may be bound again."""
    await create(broker)
    events: asyncio.Queue[sluicegate.ClientEvent] = asyncio.Queue()
    async with Client(url(broker), on_event=events.put_nowait) as client, client.consumer("q") as consumer:
        await change(broker, egress_enabled=False)
        while not isinstance(await events.get(), sluicegate.FlowInterrupted):
            pass
        await change(broker, egress_enabled=True)
        async with client.publisher() as publisher:
            await publisher.publish(Message(b"x", queue="q"))
        assert (await consumer.receive()).payload == b"x"


async def test_a_consumer_ends_with_its_queue(broker: RunningBroker) -> None:
    """Flow: consuming, states: ended for good."""
    await create(broker)
    async with Client(url(broker)) as client, client.consumer("q") as consumer:
        waiting = asyncio.create_task(consumer.receive())
        await NodeOperations(broker.node).delete_queue("q")
        with pytest.raises(sluicegate.ConsumerEnded) as ended:
            await waiting
        assert ended.value.code == codes.REVOKED


async def test_locks_are_renewed_by_themselves(broker: RunningBroker) -> None:
    """Flow: consuming, outcomes: extend, before the time to settle is over."""
    await create(broker, consumer_ack_timeout_ms=3_600_000)
    async with Client(url(broker)) as client:
        async with client.publisher() as publisher:
            await publisher.publish(Message(b"x", queue="q"))
        async with client.consumer("q", renew_every_s=0.3) as consumer:
            await consumer.receive()
            before = broker.node.flow.counters.bytes_received
            async with asyncio.timeout(20):
                while broker.node.flow.counters.bytes_received < before + 2 * 39:  # two SETTLE frames of one range
                    await asyncio.sleep(0.01)
            assert consumer.held_count == 1


async def test_a_gateway_that_starts_anew_while_its_publisher_goes_on_has_each_message_once(tmp_path: Path) -> None:
    """Flow: sessions, GOAWAY; publishing, named publishers."""
    settings = (f"listeners.flow.port={free_port()}",)
    async with RunningBroker(tmp_path / "data", settings) as broker:
        await create(broker)
        async with Client(url(broker)) as client, client.publisher("till", window=50) as publisher:

            async def publish() -> None:
                for number in range(3_000):
                    await publisher.send(Message(str(number).encode(), queue="q"))
                await publisher.flush()

            publishing = asyncio.create_task(publish())
            await shows(broker, lambda view: view.ready_count > 100)
            await broker.restart()
            await publishing
        assert (await shown(broker)).ready_count == 3_000


async def test_a_publisher_that_was_refused_a_whole_window_goes_on_when_it_returns(tmp_path: Path) -> None:
    """Flow: publishing, named publishers: refusals of which the gateway cannot know that they were heard."""
    settings = (f"listeners.flow.port={free_port()}",)
    async with RunningBroker(tmp_path / "data", settings) as broker:
        await create(broker, reject_msg_to_sender_on_discard_behavior="always")
        async with Client(url(broker)) as client, client.publisher("till", window=4) as publisher:
            await publisher.publish(Message(b"1", queue="q"))
            await change(broker, ingress_enabled=False)
            for _ in range(4):
                await publisher.send(Message(b"refused", queue="q"))
            with pytest.raises(sluicegate.PublishRefused) as refused:
                await publisher.flush()
            assert refused.value.sequences == [2, 3, 4, 5]
            await broker.restart()
            await change(broker, ingress_enabled=True)
            async with asyncio.timeout(30):
                assert await publisher.publish(Message(b"2", queue="q")) == 6
        assert (await shown(broker)).ready_count == 2
