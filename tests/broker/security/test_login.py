"""Login under attack: password guessing, equal cost for known and unknown names, and clients that leave meanwhile."""

import asyncio
import base64
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError

import support.mqtt.packets as mqtt
from sluicegate.gateway.observability.metrics.exposition import Exposition
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.protocols.amqp.codec.frames import frame, sasl_frame
from sluicegate.protocols.amqp.codec.performatives import INIT, Open
from sluicegate.protocols.amqp.types.encoding import encode_composite
from sluicegate.protocols.amqp.types.values import AmqpValue, Symbol
from sluicegate.protocols.flow.codec.codes import LIMIT_EXCEEDED
from sluicegate.protocols.security import scram
from sluicegate.protocols.security.account_secrets import CheckCost, kind_of
from sluicegate.protocols.security.login_queue import WAITING_OF_NETWORK_MAX, LoginClass
from support.amqp.client import AMQP_HEADER, SASL_HEADER, AmqpClient
from support.broker.blocked_sign_in import block_sign_ins
from support.broker.protocol_clients import OK, Amqp, Answer, FlowProtocol, Http, Mqtt, ProtocolClient
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import DEADLINE_S
from support.network.closing_stream import open_closing

CLIENTS: Final[dict[str, Callable[..., ProtocolClient]]] = {
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
    checks = broker.node.services.password_checks
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
    port = broker.operator_ports.ports.servers["admin"].port
    async with AsyncExitStack() as guessers:
        for number in range(160):
            _, writer = await guessers.enter_async_context(connected(port, f"127.0.1.{1 + number // 10}"))
            writer.write(request("/queues", b"nobody%d:guess" % number))
        await have_come(broker, 160)
        for path in ("/health/live", "/health/ready") * 15:
            async with connected(port, "127.0.1.1") as (reader, writer):
                writer.write(request(path, b""))
                assert await answered(reader) == 200
        assert broker.node.services.password_checks.waiting_count > 0  # so long they were under way


@ADMIN
async def test_the_logins_of_one_address_take_some_places_and_another_address_has_others(broker: RunningBroker) -> None:
    port = broker.operator_ports.ports.servers["admin"].port
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
    text = Exposition(queue_label_max=0).render(await NodeOperations(broker.node).metrics_snapshot()).decode()
    # Where a check takes long, some have also waited too long for theirs.
    without_place = statuses.count(503) - broker.node.services.password_checks.refused_count
    refused = 'sluicegate_operator_requests_refused_total{listener="admin",reason="logins"}'
    assert f"{refused} {float(without_place)}" in text
    assert f"sluicegate_logins_checked_total {float(broker.node.services.password_checks.checked_count)}" in text
    assert "sluicegate_logins_waiting 0.0" in text


@pytest.mark.settings(
    "authentication.allow_anonymous=false", f"authentication.users=[{{name: ada, password: '{STANDARD}'}}]"
)
async def test_a_login_from_a_new_address_is_checked_before_waiting_ones(broker: RunningBroker) -> None:
    """It waited behind one guess of each address, and each check took its memory beside all others."""
    checks = broker.node.services.password_checks
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
    checks, nothing = broker.node.services.password_checks, CheckCost(0, threads_count=1 << 10)

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


RIGHT: Final = "engine"
HASHER: Final = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
HASH: Final = HASHER.hash(RIGHT)
STORED: Final = (
    "SCRAM-SHA-256$4096:AAAAAAAAAAAAAAAAAAAAAA==$G16v2rqLOZn6q0ueHaotywyiQ2K8kIJ+ndMrQeL9eJ8="
    ":YRzNkEfpX8Wjps4jESaOA1XoUmYwLvJp4pJ8oNKEyB0="
)
VERIFY: Final = PasswordHasher.verify
MATCHES: Final = scram.password_matches
# What a name may be, to whoever does not know: an account of each kind, one of another message VPN, nobody's.
NAMES: Final = ("filed", "hashed", "stored", "shut-down", "made", "elsewhere", "nobody", "ada@corp", "eve@corp")


class Work:
    """What passwords were held against, by kind."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.checked: Counter[str] = Counter()
        monkeypatch.setattr(PasswordHasher, "verify", self._verify)
        monkeypatch.setattr(scram, "password_matches", self._matches)

    def _verify(self, secret: str, password: bytes) -> bool:
        self.checked[kind_of(secret)] += 1
        if kind_of(secret) != kind_of(HASH):  # hashes that are made now: dear, and none is right in these tests
            raise VerifyMismatchError
        return VERIFY(HASHER, secret, password)

    def _matches(self, secret: str, password: bytes) -> bool:
        self.checked[kind_of(secret)] += 1
        return MATCHES(secret, password)

    def taken(self) -> Counter[str]:
        """Return what was checked since it was asked last."""
        checked, self.checked = self.checked, Counter()
        return checked


def settings_of(folder: Path) -> tuple[str, ...]:
    (folder / "plain").write_text(RIGHT)
    (folder / "stored").write_text(STORED)
    users = [
        f"{{name: filed, password_file: {folder}/plain}}",
        f"{{name: hashed, password: '{HASH}'}}",
        f"{{name: stored, password_file: {folder}/stored}}",
        f"{{name: shut-down, password_file: {folder}/plain, enabled: false}}",
        f"{{name: ada@corp, password_file: {folder}/plain}}",
    ]
    return (
        "authentication.allow_anonymous=false",
        f"authentication.users=[{', '.join(users)}]",
        "vpns.sales.authentication.allow_anonymous=false",
        f"vpns.sales.authentication.users=[{{name: elsewhere, password_file: {folder}/plain}}]",
    )


@pytest.mark.parametrize("protocol", CLIENTS)
async def test_a_wrong_password_costs_the_same_and_hears_the_same_whatever_the_name_is_of(
    protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OWASP, Authentication Cheat Sheet: response times are told apart over a network, by a median of a few."""
    work = Work(monkeypatch)  # before the node is made, which keeps what it checks with
    async with RunningBroker(tmp_path / "data", settings_of(tmp_path)) as broker:
        await NodeOperations(broker.node).create_user({"name": "made", "password": RIGHT})
        heard = {}
        for name in NAMES:
            client: ProtocolClient = CLIENTS[protocol](broker, name)
            answer = await client.connect(name, "guess")
            await client.leave()
            heard[name] = (answer, work.taken())
    expected = heard["nobody"]
    assert expected[0] != OK
    assert len(expected[1]) == 3  # the hash and the key of the configuration, and the hash that was made now
    assert heard == dict.fromkeys(NAMES, expected)


@pytest.mark.parametrize("protocol", CLIENTS)
async def test_a_right_password_is_checked_once(protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand devices that come back after the network was away do not wait for a thousand checks."""
    work = Work(monkeypatch)
    async with RunningBroker(tmp_path / "data", settings_of(tmp_path)) as broker:
        for _ in range(3):
            for name in ("filed", "hashed", "stored"):
                client: ProtocolClient = CLIENTS[protocol](broker, name)
                assert await client.connect(name, RIGHT) == OK
                await client.leave()
    assert work.taken() == Counter([kind_of(HASH), kind_of(STORED)])


@pytest.mark.accounts(ada="engine")
async def test_a_container_that_left_before_it_was_let_in_is_not_connected(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2.4.1: a client may send its open at once. Who wants to be the only connection of its container can come."""
    sign_in = block_sign_ins(broker, monkeypatch)
    init: list[AmqpValue] = [Symbol("PLAIN"), b"\0ada\0engine"]
    _, writer = await open_closing(broker.amqp_port)
    writer.write(SASL_HEADER + sasl_frame(encode_composite(INIT, init)) + AMQP_HEADER + frame(0, Open("c").encode()))
    async with asyncio.timeout(DEADLINE_S):
        await sign_in.begun.wait()
        writer.transport.abort()
        while broker.node.amqp.open_connections():
            await asyncio.sleep(0.01)
    sign_in.may_end.set()
    sole = ["sole-connection-for-container"]
    client = await AmqpClient.open(broker.amqp_port, "c", desired=sole, account=("ada", "engine"))
    answer = await client.awaited(Open)
    assert answer.properties is not None
    assert answer.properties.symbol("amqp:connection-establishment-failed") is None
    await client.close()
