"""Strangers who guess passwords by the hundred: probes are answered, and who has the right one comes in before them."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.observability.metrics import Exposition
from sluicegate.gateway.operations.node import NodeView
from sluicegate.protocols.flow.codec.codes import LIMIT_EXCEEDED
from sluicegate.protocols.security.account_secrets import CheckCost
from sluicegate.protocols.security.login_queue import WAITING_OF_NETWORK_MAX, LoginClass
from support.broker.protocol_clients import OK, Amqp, Answer, FlowProtocol, Http, Mqtt, SpeakingClient
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import DEADLINE_S

CLIENTS: Final[dict[str, Callable[..., SpeakingClient]]] = {
    "mqtt": Mqtt,
    "amqp": Amqp,
    "flow": FlowProtocol,
    "http": Http,
}
BUSY: Final[dict[str, Answer]] = {"mqtt": 0x89, "amqp": "sasl-4", "flow": LIMIT_EXCEEDED, "http": 503}
STANDARD: Final = "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHRzb21lc2FsdA$PyUSGKi2xf9hPZ+Sbv2GFDsGJqGDIsTwPYhw0dO6mQo"
GUESSERS_COUNT: Final = 100
ADMIN: Final = pytest.mark.settings(
    "admin.enabled=true",
    "admin.port=0",
    f"admin.users=[{{name: root, password: '{STANDARD}', global_access_level: admin}}]",
)


@asynccontextmanager
async def connected(port: int, source: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Connect from an address of this machine."""
    async with asyncio.timeout(DEADLINE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def have_come(broker: RunningBroker, count: int) -> None:
    """Wait until so many passwords are checked, or wait for it."""
    checks = broker.node.password_checks
    async with asyncio.timeout(DEADLINE_S):
        while checks.checked_count + checks.waiting_count < count:
            await asyncio.sleep(0.005)


def request(path: str, authorization: bytes) -> bytes:
    login = b"Authorization: Basic %b\r\n" % base64.b64encode(authorization) if authorization else b""
    return b"GET %b HTTP/1.1\r\nHost: localhost\r\n%b\r\n" % (path.encode(), login)


async def answered(reader: asyncio.StreamReader) -> int:
    async with asyncio.timeout(DEADLINE_S):
        return int((await reader.readuntil(b"\r\n\r\n"))[9:12])


@ADMIN
async def test_every_probe_is_answered_while_logins_of_unknown_names_are_checked(broker: RunningBroker) -> None:
    """A liveness probe that hears 503 has a healthy node restarted: 160 connections were enough."""
    port = broker.node.operator_ports.servers["admin"].port
    async with AsyncExitStack() as guessers:
        for number in range(160):
            _, writer = await guessers.enter_async_context(connected(port, f"127.0.1.{1 + number // 10}"))
            writer.write(request("/queues", b"nobody%d:guess" % number))
        await have_come(broker, 160)
        for path in ("/health/live", "/health/ready") * 15:
            async with connected(port, "127.0.1.1") as (reader, writer):
                writer.write(request(path, b""))
                assert await answered(reader) == 200
        assert broker.node.password_checks.waiting_count > 0  # so long they were under way


@ADMIN
async def test_the_logins_of_one_address_take_some_places_and_another_address_has_others(broker: RunningBroker) -> None:
    port = broker.node.operator_ports.servers["admin"].port
    statuses: list[int] = []

    async def guess(number: int) -> None:
        async with connected(port, "127.0.1.1") as (reader, writer):
            writer.write(request("/queues", b"nobody%d:guess" % number))
            statuses.append(await answered(reader))

    guessing = [asyncio.create_task(guess(number)) for number in range(60)]
    async with asyncio.timeout(DEADLINE_S):
        while 503 not in statuses:
            await asyncio.sleep(0.005)
    async with connected(port, "127.0.1.2") as (reader, writer):
        writer.write(request("/queues", b"nobody:guess"))
        assert await answered(reader) == 401
    await asyncio.gather(*guessing)
    assert set(statuses) == {401, 503}
    text = Exposition(queue_label_max=0).render(await NodeView(broker.node).metrics_snapshot()).decode()
    # Where a check takes long, some have also waited too long for theirs.
    without_place = statuses.count(503) - broker.node.password_checks.refused_count
    refused = 'sluicegate_operator_requests_refused_total{listener="admin",reason="logins"}'
    assert f"{refused} {float(without_place)}" in text
    assert f"sluicegate_logins_checked_total {float(broker.node.password_checks.checked_count)}" in text
    assert "sluicegate_logins_waiting 0.0" in text


@pytest.mark.settings(
    "authentication.allow_anonymous=false", f"authentication.users=[{{name: ada, password: '{STANDARD}'}}]"
)
async def test_a_login_from_a_new_address_is_checked_before_those_who_wait(broker: RunningBroker) -> None:
    """It waited behind one guess of each address, and each check took its memory beside all others."""
    checks = broker.node.password_checks
    most_running = 0
    async with AsyncExitStack() as guessers:
        for number in range(GUESSERS_COUNT):
            _, writer = await guessers.enter_async_context(connected(broker.port, f"127.0.2.{1 + number}"))
            writer.write(mqtt.connect(f"guesser {number}", level=5, user_name=f"nobody {number}", password=b"guess"))
        await have_come(broker, GUESSERS_COUNT)
        before, waiting = checks.checked_count, checks.waiting_count
        client = Mqtt(broker)
        coming = asyncio.create_task(client.connect("ada", "not the password"))
        async with asyncio.timeout(DEADLINE_S):
            while not coming.done():
                most_running = max(most_running, checks.running_count)
                await asyncio.sleep(0.005)
        assert await coming == 0x86
        assert waiting > GUESSERS_COUNT // 2
        assert checks.checked_count - before <= 5  # its own, and the few that may go before
        assert checks.waiting_count > 0
        assert most_running * 64 << 20 <= broker.config.limits.login_memory_bytes_max
        await client.leave()


@pytest.mark.accounts(ada="engine")
@pytest.mark.parametrize("protocol", CLIENTS)
@pytest.mark.parametrize("name", ["ada", "nobody"])
async def test_a_login_that_finds_no_room_to_wait_hears_that_it_may_try_again(
    broker: RunningBroker, protocol: str, name: str
) -> None:
    """And not that its password is wrong: devices take that for an answer. A right one that is plain needs no check."""
    checks, nothing = broker.node.password_checks, CheckCost(0, threads_count=1 << 10)

    async def wait() -> None:
        async with checks.turn("127.0.0.1", LoginClass.NEW, nothing):
            await asyncio.get_running_loop().create_future()

    waiting = [asyncio.create_task(wait()) for _ in range(WAITING_OF_NETWORK_MAX + 1)]
    await asyncio.sleep(0)
    assert checks.waiting_count == WAITING_OF_NETWORK_MAX
    try:
        client = CLIENTS[protocol](broker, name)
        assert await client.connect(name, "guess") == BUSY[protocol]
        await client.leave()
        client = CLIENTS[protocol](broker, "ada")
        assert await client.connect("ada", "engine") == OK
        await client.leave()
    finally:
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    assert checks.waiting_count == 0
