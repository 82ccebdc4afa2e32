"""Tokens in AUTH: enhanced authentication and re-authentication with a signed JWT (section 4.12)."""

from collections.abc import Callable
from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import RawClient
from support.network.tokens import TokenServer, bearer, xoauth2

RE_AUTHENTICATE, BAD_USER_NAME_OR_PASSWORD, NOT_AUTHORIZED, BAD_METHOD = 0x19, 0x86, 0x87, 0x8C
EXPIRED_S = 1
HOUR_S = 3600
Spelled = Callable[[str], bytes]

METHODS = pytest.mark.parametrize(
    ("method", "spelled"),
    [
        pytest.param("OAUTH2-JWT", str.encode, id="the token alone"),
        pytest.param("OAUTHBEARER", bearer, id="RFC 7628"),
        pytest.param("XOAUTH2", xoauth2, id="the form before that"),
    ],
)


def connect_with(method: str, data: bytes) -> bytes:
    properties = mqtt.authentication_method(method) + mqtt.authentication_data(data)
    return mqtt.connect("prover", level=5, properties=properties)


@pytest.fixture
def tokens(tmp_path: Path) -> TokenServer:
    return TokenServer(tmp_path)


def trusting(tmp_path: Path, tokens: TokenServer) -> RunningBroker:
    return RunningBroker(tmp_path / "data", (*tokens.settings, "authentication.allow_anonymous=false"))


async def let_in(broker: RunningBroker, method: str, data: bytes) -> RawClient:
    client = await broker.open(5)
    client.send(connect_with(method, data))
    answer = await client.connack()
    assert (answer.reason_code, answer.value(21)) == (0, method)
    return client


def valid_for(broker: RunningBroker, tokens: TokenServer, seconds: int, user: str = "ada") -> str:
    return tokens.token(sub=user, exp=broker.clock.wall_ms() // 1000 + seconds)


@METHODS
async def test_a_token_lets_its_user_in(tmp_path: Path, tokens: TokenServer, method: str, spelled: Spelled) -> None:
    """[4.12.0-5]: CONNACK names the method."""
    async with trusting(tmp_path, tokens) as broker:
        client = await let_in(broker, method, spelled(tokens.token()))
        await client.round_trip()
        (row,) = broker.node.mqtt.open_connections()
        assert row.identity.user == "ada"


@pytest.mark.parametrize("data", [b"", b"no token", b"\xff"])
@pytest.mark.parametrize("method", ["OAUTH2-JWT", "XOAUTH2"])
async def test_what_is_no_token_is_refused(tmp_path: Path, tokens: TokenServer, method: str, data: bytes) -> None:
    """[4.12.0-4]."""
    async with trusting(tmp_path, tokens) as broker:
        client = await broker.open(5)
        client.send(connect_with(method, data))
        await client.is_refused(BAD_USER_NAME_OR_PASSWORD)


async def test_a_token_may_follow_connect(tmp_path: Path, tokens: TokenServer) -> None:
    """Section 4.12: the server's first AUTH may be empty."""
    async with trusting(tmp_path, tokens) as broker:
        client = await broker.open(5)
        client.send(mqtt.connect("prover", level=5, properties=mqtt.authentication_method("OAUTH2-JWT")))
        assert mqtt.auth_of(await client.packet()).reason_code == 0x18
        client.send(mqtt.auth(0x18, "OAUTH2-JWT", tokens.token().encode()))
        assert (await client.connack()).reason_code == 0


async def test_without_a_trusted_issuer_the_method_is_not_known(broker: RunningBroker) -> None:
    client = await broker.open(5)
    client.send(connect_with("OAUTH2-JWT", b"a.b.c"))
    await client.is_refused(BAD_METHOD)


@METHODS
async def test_a_connection_ends_with_its_token(
    tmp_path: Path, tokens: TokenServer, method: str, spelled: Spelled
) -> None:
    async with trusting(tmp_path, tokens) as broker:
        client = await let_in(broker, method, spelled(valid_for(broker, tokens, HOUR_S)))
        broker.forward(HOUR_S + 300)
        await client.is_ended(NOT_AUTHORIZED)


@METHODS
async def test_a_new_token_in_time_keeps_the_connection(
    tmp_path: Path, tokens: TokenServer, method: str, spelled: Spelled
) -> None:
    """[4.12.1-1]: and its end counts from then on."""
    async with trusting(tmp_path, tokens) as broker:
        client = await let_in(broker, method, spelled(valid_for(broker, tokens, HOUR_S)))
        client.send(mqtt.auth(RE_AUTHENTICATE, method, spelled(valid_for(broker, tokens, 3 * HOUR_S))))
        assert mqtt.auth_of(await client.packet()).reason_code == 0
        broker.forward(2 * HOUR_S)
        await client.round_trip()
        broker.forward(2 * HOUR_S)
        await client.is_ended(NOT_AUTHORIZED)


@pytest.mark.parametrize(("user", "seconds"), [("bob", HOUR_S), ("ada", -HOUR_S)])
async def test_a_token_of_another_user_or_time_ends_the_connection(
    tmp_path: Path, tokens: TokenServer, user: str, seconds: int
) -> None:
    """[4.12.1-2]: the user is the one of CONNECT."""
    async with trusting(tmp_path, tokens) as broker:
        client = await let_in(broker, "OAUTH2-JWT", tokens.token().encode())
        token = valid_for(broker, tokens, seconds, user)
        client.send(mqtt.auth(RE_AUTHENTICATE, "OAUTH2-JWT", token.encode()))
        await client.is_ended(NOT_AUTHORIZED)


async def test_the_token_alone_is_no_mechanism_of_sasl(tmp_path: Path, tokens: TokenServer) -> None:
    """Its name is not registered, and AMQP's clients take what is offered."""
    async with trusting(tmp_path, tokens) as broker:
        authenticator = broker.node.default.accounts.authenticator
        assert "OAUTH2-JWT" in authenticator.mechanisms
        assert "OAUTH2-JWT" not in authenticator.sasl_mechanisms
        assert {"OAUTHBEARER", "XOAUTH2"} <= set(authenticator.sasl_mechanisms)
