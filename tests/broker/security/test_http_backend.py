"""A web server that decides who may come in: what it is told, what its answers mean, and what becomes of clients when
it gives none.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.config.document import ConfigError
from sluicegate.gateway.config.load import load
from sluicegate.gateway.config.sections.security.backends import HttpHook
from sluicegate.gateway.config.sections.security.ldap import LdapDirectory
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.errors import Refused
from sluicegate.messaging.clients.rights import AUTHENTICATION_UNAVAILABLE
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.security.backends.guarded_backend import (
    FAILURES_MAX,
    REST_MS,
    Admission,
    BackendFailed,
    Granted,
    Login,
)
from sluicegate.protocols.security.backends.http_backend import HttpBackend
from sluicegate.protocols.security.login_attempts import FREE_OF_USER
from support.broker.protocol_clients import OK, PROTOCOLS, Answer
from support.broker.running_broker import RunningBroker
from support.http.web_server import WebServer
from support.mqtt.raw_client import DEADLINE_S
from support.network.tokens import TokenServer

ALLOW = json.dumps({"result": "allow"}).encode()
DENY = json.dumps({"result": "deny"}).encode()
PROFILES = (
    "authentication.acl_profiles=[{name: strict, publish_topic_exceptions: [{topic: 'data/$client-username/>'}]}]",
)


@asynccontextmanager
async def asking(tmp_path: Path, *settings: str, local: bool = False) -> AsyncIterator[tuple[RunningBroker, WebServer]]:
    async with WebServer() as server:
        server.body = ALLOW
        url = f"authentication.http.url=http://127.0.0.1:{server.port}/login"
        accounts = {"ada": "correct-horse"} if local else None
        broker = RunningBroker(tmp_path / "data", (url, "authentication.allow_anonymous=false", *settings), accounts)
        async with broker:
            yield broker, server


async def login(broker: RunningBroker, user: str = "eve", password: bytes = b"secret", client: str = "device") -> int:
    raw = await broker.open(5)
    raw.send(mqtt.connect(client, level=5, user_name=user, password=password))
    return mqtt.connack(await raw.packet(), 5).reason_code


async def outcomes(broker: RunningBroker) -> dict[str, float]:
    samples = await NodeOperations(broker.node).metrics_snapshot()
    return {each.labels[0]: each.value for each in samples if each.name == "sluicegate_external_logins_total"}


async def test_the_server_is_told_who_wants_in_and_its_yes_is_remembered_for_a_while(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hook-secret\n")
    settings = (f"authentication.http.secret_file={tmp_path / 'secret'}", "authentication.http.cache_s=60")
    async with asking(tmp_path, *settings) as (broker, server):
        assert await login(broker) == 0
        assert await login(broker) == 0
        (request,) = server.requests
        assert (request.method, request.path) == ("POST", "/login")
        assert request.headers["authorization"] == "Bearer hook-secret"
        assert json.loads(request.body) == {
            "username": "eve",
            "password": "secret",
            "client_id": "device",
            "message_vpn": "default",
            "address": "127.0.0.1",
            "listener": "mqtt",
        }
        assert await login(broker, password=b"other") == 0  # another question
        broker.forward(61)
        assert await login(broker) == 0
        assert len(server.requests) == 3
        assert await outcomes(broker) == {"allowed": 3, "remembered": 1}


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_every_protocol_asks(tmp_path: Path, protocol: str) -> None:
    async with asking(tmp_path) as (broker, server):
        client = PROTOCOLS[protocol](broker)
        assert await client.connect("eve", "secret") == OK
        await client.leave()
        assert json.loads(server.requests[0].body)["username"] == "eve"


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [("mqtt", 0x88), ("amqp", "sasl-4"), ("flow", codes.LIMIT_EXCEEDED), ("http", 503)],
)
async def test_a_server_that_is_down_lets_nobody_in(tmp_path: Path, protocol: str, expected: Answer) -> None:
    """[5.0:3.2.2.2]: 0x88, Server unavailable; RFC 4422 and AMQP 5.3.3.6: outcome 4, sys-temp."""
    async with asking(tmp_path) as (broker, server):
        await server.stop()
        client = PROTOCOLS[protocol](broker)
        assert await client.connect("eve", "secret") == expected
        await client.leave()
        assert (await outcomes(broker))["failed"] == 1
        servers = {each.name: each for each in broker.node.servers}
        if protocol != "http":
            assert servers[protocol].counters.refused == {AUTHENTICATION_UNAVAILABLE: 1}


@pytest.mark.parametrize("status", [401, 403])
async def test_a_no_is_a_wrong_password(tmp_path: Path, status: int) -> None:
    async with asking(tmp_path) as (broker, server):
        server.status = lambda _: status
        assert await login(broker) == 0x86
        server.status, server.body = lambda _: 200, DENY
        assert await login(broker) == 0x86
        assert await outcomes(broker) == {"denied": 2}


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, ALLOW),
        (204, b""),
        (302, ALLOW),
        (200, b"yes"),
        (200, b"[]"),
        (200, b'{"result": true}'),
        (200, b'{"result": "allow", "acl_profile": 7}'),
        (200, b" " * 70_000 + ALLOW),
    ],
)
async def test_an_answer_that_is_neither_yes_nor_no_is_no_yes(tmp_path: Path, status: int, body: bytes) -> None:
    async with asking(tmp_path) as (broker, server):
        server.status, server.body = lambda _: status, body
        assert await login(broker) == 0x88
        assert await outcomes(broker) == {"failed": 1}


async def test_a_server_that_is_silent_holds_up_no_client_but_those_that_it_is_asked_about(tmp_path: Path) -> None:
    settings = ("authentication.http.timeout_ms=50", "authentication.http.max_concurrent_requests=1")
    async with asking(tmp_path, *settings, local=True) as (broker, server):
        server.hold = asyncio.Event()
        waiting = asyncio.ensure_future(login(broker))
        await server.has(1)
        assert await login(broker, "ada", b"correct-horse", "local") == 0
        assert await asyncio.wait_for(waiting, DEADLINE_S) == 0x88
        server.hold.set()
        assert server.at_once_max == 1


async def test_a_server_that_fails_is_spared_and_asked_again_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with asking(tmp_path) as (broker, server):
        server.status = lambda _: 500
        for _ in range(FAILURES_MAX + 3):
            assert await login(broker) == 0x88
        assert len(server.requests) == FAILURES_MAX
        assert await outcomes(broker) == {"failed": FAILURES_MAX, "not_asked": 3}
        assert caplog.text.count("it answers with status 500") == 1
        server.status = lambda _: 200
        broker.forward(REST_MS // 1000 + 1)
        assert await login(broker) == 0


async def test_a_user_has_the_profiles_that_the_server_names(tmp_path: Path) -> None:
    async with asking(tmp_path, *PROFILES) as (broker, server):
        server.body = json.dumps({"result": "allow", "acl_profile": "strict"}).encode()
        client = await broker.connect("device", 5, user_name="eve", password=b"secret")
        for topic, expected in (("data/eve/x", 0x10), ("data/ada/x", 0x87)):
            packet_id = client.next_packet_id()
            client.send(mqtt.publish(topic, b"x", qos=1, packet_id=packet_id, level=5))
            assert await client.answered(mqtt.PUBACK, packet_id) == expected
        server.body = json.dumps({"result": "allow", "acl_profile": "unknown"}).encode()
        assert await login(broker, "bob", client="other") == 0x86
        assert (await outcomes(broker))["profile_missing"] == 1


async def test_a_profile_of_a_connected_user_stays_and_one_of_a_user_that_is_gone_can_be_deleted(
    tmp_path: Path,
) -> None:
    async with asking(tmp_path) as (broker, server):
        profiles = broker.node.default.acl_profiles
        await profiles.create({"name": "made"})
        server.body = json.dumps({"result": "allow", "acl_profile": "made"}).encode()
        client = await broker.connect("device", 5, user_name="eve", password=b"secret")
        with pytest.raises(Refused, match="users have it: 'eve'"):
            await profiles.delete("made")
        await client.leave()
        async with asyncio.timeout(DEADLINE_S):
            while broker.node.default.clients.connected_count("eve"):
                await asyncio.sleep(0.01)
        await profiles.delete("made")
        assert await login(broker) == 0x86  # the remembered yes names a profile that is gone


async def test_accounts_of_the_gateway_are_never_asked_about(tmp_path: Path) -> None:
    async with asking(tmp_path, local=True) as (broker, server):
        assert await login(broker, "ada", b"correct-horse") == 0
        assert await login(broker, "ada", b"wrong") == 0x86
        assert server.requests == []


async def denies_as_the_strict_profile(broker: RunningBroker, password: bytes) -> bool:
    """Return whether a connection of `eve` may publish as PROFILES say, and no more."""
    client = await broker.connect("account", 5, user_name="eve", password=password)
    packet_id = client.next_packet_id()
    client.send(mqtt.publish("data/ada/x", b"x", qos=1, packet_id=packet_id, level=5))
    return await client.answered(mqtt.PUBACK, packet_id) == 0x87


@pytest.mark.parametrize("way", ["created", "configured"])
async def test_a_user_that_was_let_in_and_becomes_an_account_has_the_profiles_of_the_account(
    tmp_path: Path, way: str
) -> None:
    async with asking(tmp_path, *PROFILES) as (broker, server):
        vpn = broker.node.default
        await vpn.acl_profiles.create({"name": "made"})
        server.body = json.dumps({"result": "allow", "acl_profile": "made"}).encode()
        assert await login(broker) == 0
        if way == "created":
            await vpn.users.create({"name": "eve", "password": "correct-horse", "acl_profile": "strict"})
        else:
            (tmp_path / "eve").write_text("correct-horse\n")
            users = f"authentication.users=[{{name: eve, password_file: {tmp_path / 'eve'}, acl_profile: strict}}]"
            await broker.node.reload(load(settings=(*broker.settings, users)))
        await broker.all_vanish()
        await broker.node_releases("eve")
        await vpn.acl_profiles.delete("made")
        assert await denies_as_the_strict_profile(broker, b"correct-horse")


async def test_an_account_that_is_created_while_the_server_is_asked_about_its_name_is_the_only_one(
    tmp_path: Path,
) -> None:
    async with asking(tmp_path, *PROFILES, "authentication.http.cache_s=60") as (broker, server):
        server.hold = asyncio.Event()
        waiting = asyncio.ensure_future(login(broker))
        await server.has(1)
        users = broker.node.default.users
        await users.create({"name": "eve", "password": "correct-horse", "acl_profile": "strict"})
        server.hold.set()
        assert await asyncio.wait_for(waiting, DEADLINE_S) == 0x86
        assert await denies_as_the_strict_profile(broker, b"correct-horse")
        await users.delete("eve")
        assert await login(broker) == 0
        assert len(server.requests) == 2  # the first yes was not remembered


async def test_a_login_that_waits_while_its_name_becomes_an_account_is_one_of_the_account(tmp_path: Path) -> None:
    async with asking(tmp_path, local=True) as (broker, server):
        server.body, server.hold = DENY, asyncio.Event()
        guesses = [asyncio.ensure_future(login(broker, password=b"%d" % each, client=f"{each}")) for each in range(3)]
        await server.has(FREE_OF_USER)
        waiting = asyncio.ensure_future(login(broker, password=b"right", client="waiting"))
        assert await login(broker, "ada", b"correct-horse", "local") == 0
        await broker.node.default.users.create({"name": "eve", "password": "right"})
        server.hold.set()
        assert await asyncio.wait_for(waiting, DEADLINE_S) == 0
        assert await asyncio.wait_for(asyncio.gather(*guesses), DEADLINE_S) == [0x86] * 3
        assert len(server.requests) == FREE_OF_USER


async def test_what_a_server_says_that_was_replaced_meanwhile_lets_nobody_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with asking(tmp_path) as (broker, server):
        external = broker.node.default.external

        class Replacing(logging.Handler):
            """Replaces the server at the last moment: it is said to answer again before its answer is used."""

            def emit(self, record: logging.LogRecord) -> None:
                if "answers again" in record.getMessage():
                    external.configure(HttpHook(), LdapDirectory())

        server.status = lambda _: 500
        assert await login(broker) == 0x88
        server.status = lambda _: 200
        caplog.set_level(logging.INFO, "sluicegate.node")
        logger, handler = logging.getLogger("sluicegate.node"), Replacing()
        logger.addHandler(handler)
        try:
            assert await login(broker) == 0x88
        finally:
            logger.removeHandler(handler)
        assert not external.is_asked
        assert not external.usernames


async def test_a_burst_of_guesses_is_not_sent_before_the_first_of_it_counts(tmp_path: Path) -> None:
    async with asking(tmp_path, local=True) as (broker, server):
        server.body, server.hold = DENY, asyncio.Event()
        guesses = [asyncio.ensure_future(login(broker, password=b"%d" % each, client=f"{each}")) for each in range(5)]
        await server.has(FREE_OF_USER)
        assert await login(broker, "ada", b"correct-horse", "local") == 0
        server.hold.set()
        assert await asyncio.wait_for(asyncio.gather(*guesses), DEADLINE_S) == [0x86] * 5
        assert server.at_once_max == FREE_OF_USER
        assert broker.node.default.accounts.authenticator.must_queue("127.0.0.1", "eve")


async def test_a_newer_answer_about_a_name_replaces_all_that_are_remembered(tmp_path: Path) -> None:
    async with asking(tmp_path, *PROFILES, "authentication.http.cache_s=60") as (broker, server):
        assert await login(broker, password=b"first", client="account") == 0
        server.body = json.dumps({"result": "allow", "acl_profile": "strict"}).encode()
        assert await login(broker, password=b"second", client="other") == 0
        assert await denies_as_the_strict_profile(broker, b"first")
        assert broker.node.default.external.usernames["eve"].acl_profile == "strict"


async def test_an_answer_that_is_remembered_is_as_old_as_it_is_and_gives_way_to_a_newer_one_of_another_broker(
    tmp_path: Path,
) -> None:
    """Brokers of a machine tell each other what was granted, with the client that moves."""
    strict = Admission("", "strict")
    async with asking(tmp_path, *PROFILES, "authentication.http.cache_s=60") as (broker, server):
        external = broker.node.default.external
        assert await login(broker) == 0
        first = external.granted("eve")
        assert first is not None
        assert await login(broker) == 0
        assert external.granted("eve") == first
        assert external.takes_over("eve", Granted(strict, first.answered_ms + 1))
        assert external.takes_over("eve", first)
        assert external.usernames["eve"].acl_profile == "strict"
        server.body = DENY
        assert await login(broker) == 0x86
        assert len(server.requests) == 2


async def test_a_yes_is_remembered_for_the_listener_that_was_told(tmp_path: Path) -> None:
    async with asking(tmp_path, "authentication.http.cache_s=60") as (broker, server):
        for protocol in ("amqp", "http", "amqp"):
            client = PROTOCOLS[protocol](broker)
            assert await client.connect("eve", "secret") == OK
            await client.leave()
        assert [json.loads(each.body)["listener"] for each in server.requests] == ["amqp", "http"]


async def test_a_valid_token_is_never_sent(tmp_path: Path) -> None:
    tokens = TokenServer(tmp_path)
    settings = (*tokens.settings, "authentication.oauth.token_as_password=true")
    async with asking(tmp_path, *settings) as (broker, server):
        assert await login(broker, "ada", tokens.token().encode()) == 0
        for _ in range(FREE_OF_USER):
            assert await login(broker, "eve", tokens.token().encode()) == 0x86
        assert server.requests == []
        assert broker.node.default.accounts.authenticator.must_queue("127.0.0.1", "eve")


async def test_a_backend_that_is_closed_asks_no_more() -> None:
    async with WebServer() as server:
        server.body = ALLOW
        backend = HttpBackend(f"http://127.0.0.1:{server.port}/", vpn="default", headers={}, concurrent_max=1)
        question = Login("eve", b"secret", "device", "127.0.0.1", "mqtt")
        assert await backend.ask(question) is not None
        await backend.close()
        try:
            with pytest.raises(BackendFailed):
                await backend.ask(question)
        finally:
            await backend.close()
        assert len(server.requests) == 1


async def test_nobody_is_let_in_under_an_empty_name(tmp_path: Path) -> None:
    """It would be the name of all anonymous clients."""
    async with asking(tmp_path) as (broker, server):
        assert await login(broker, "") == 0x86
        assert await login(broker, "e" * 256) == 0x86
        assert server.requests == []


async def test_users_let_in_stay_over_a_reload_and_go_with_their_backend(tmp_path: Path) -> None:
    async with asking(tmp_path) as (broker, _):
        client = await broker.connect("device", 5, user_name="eve", password=b"secret")
        await broker.node.reload(load(settings=broker.settings))
        await client.round_trip()
        without = [each for each in broker.settings if not each.startswith("authentication.http.url")]
        await broker.node.reload(load(settings=without))
        await client.is_ended(0x98)


def test_a_configuration_that_cannot_work_is_refused(tmp_path: Path) -> None:
    for settings, reason in (
        (("authentication.http.url=ftp://x/",), "an http or https URL"),
        (("authentication.http.url=http://x/", f"authentication.http.secret_file={tmp_path}/absent"), "secret_file"),
    ):
        with pytest.raises(ConfigError, match=reason):
            load(settings=settings)
