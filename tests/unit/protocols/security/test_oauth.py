"""Bearer tokens and their two mechanisms: which are believed, and what a client hears of one that is not."""

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import pytest
from joserfc.jwk import ECKey, OctKey

from sluicegate.actors.runtime.clock import SystemClock
from sluicegate.messaging.clients.roster import ClientRoster
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.protocols.connection.message_vpns import MessageVpns
from sluicegate.protocols.connection.sasl import SaslDialogue
from sluicegate.protocols.security.account_secrets import AccountSecrets
from sluicegate.protocols.security.authentication import (
    Authenticated,
    AuthenticationFailed,
    Authenticator,
    Challenge,
    Credentials,
    Principal,
)
from sluicegate.protocols.security.login_attempts import LoginAttempts
from sluicegate.protocols.security.oauth import OAUTHBEARER, XOAUTH2, OAuthMechanism
from sluicegate.protocols.security.password_checks import PasswordChecks
from sluicegate.protocols.security.tokens.bearer_tokens import (
    KEYS_MAX,
    LEEWAY_S,
    TokenVerifier,
    read_keys,
    read_published_keys,
)
from sluicegate.protocols.security.tokens.token_keys import TokenKeys
from sluicegate.protocols.transport.interface import PeerRecord
from support.network.tokens import AUDIENCE, FAR_S, ISSUER, TokenServer, bearer, xoauth2

NOW_S = 1_700_000_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> TokenServer:
    return TokenServer(tmp_path_factory.mktemp("keys"))


def verifier(server: TokenServer, **changes: Any) -> TokenVerifier:
    options = {"issuer": ISSUER, "audience": AUDIENCE, "user_claim": "sub", "wall_ms": lambda: NOW_S * 1000, **changes}
    return TokenVerifier(TokenKeys(read_keys(server.keys_text)), **options)


def test_a_valid_token_says_who_and_until_when(server: TokenServer) -> None:
    """RFC 7519 4.1: sub is the user, exp the end, and clocks may differ by a minute."""
    principal = verifier(server).principal(server.token().encode())
    assert principal == Principal("ada", valid_until_ms=(FAR_S + LEEWAY_S) * 1000)
    verifier(server).principal(server.token(exp=NOW_S - LEEWAY_S + 1).encode())
    verifier(server).principal(server.token(aud=["other", AUDIENCE]).encode())
    assert verifier(server, user_claim="upn").principal(server.token(upn="grace").encode()).user_name == "grace"


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": NOW_S - LEEWAY_S - 1},
        {"exp": None},
        {"exp": "soon"},
        {"nbf": NOW_S + LEEWAY_S + 1},
        {"iss": "https://other.example"},
        {"iss": None},
        {"aud": "somebody else"},
        {"aud": None},
        {"sub": None},
        {"sub": ""},
        {"sub": "x" * 256},
        {"sub": 7},
    ],
    ids=str,
)
def test_a_token_with_a_wrong_claim_is_refused(server: TokenServer, claims: dict[str, Any]) -> None:
    """RFC 7519 4.1: whose, for whom, from when and until when."""
    with pytest.raises(AuthenticationFailed):
        verifier(server).principal(server.token(**claims).encode())


def test_a_token_of_another_user_is_refused(server: TokenServer, tmp_path: Path) -> None:
    """RFC 8725: no token without a signature, by another key, or by the public key taken for a shared secret."""
    good = server.token()
    head, payload, signature = good.split(".")
    unsigned = "eyJhbGciOiJub25lIn0." + payload + "."
    other = TokenServer(tmp_path)
    tampered = f"{head}.{payload[:-4]}AAAA.{signature}"
    for token in (
        unsigned,
        other.token(),
        server.token_by_secret(),
        tampered,
        "",
        "a.b.c",
        "x" * 40_000,
        "\xff.\xff.x",
    ):
        with pytest.raises(AuthenticationFailed):
            verifier(server).principal(token.encode())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("not json", "no JSON"),
        ("[]", "no key set"),
        ('{"keys": []}', "no key set"),
        (json.dumps({"keys": [OctKey.generate_key(256).as_dict()]}), "key 0 is no public key"),
        (json.dumps({"keys": [ECKey.generate_key("P-256").as_dict(private=True)]}), "key 0 is a private key"),
        ('{"keys": [{"kty": "EC", "crv": "P-256", "x": "AA"}]}', "cannot be read"),
        ('{"keys": [{"kty": "RSA", "n": 5, "e": []}]}', "cannot be read"),
        ('{"keys": ' + "[" * 100_000, "nested too deep"),
        (json.dumps({"keys": [{"kty": "RSA"}] * (KEYS_MAX + 1)}), "101 keys; allowed: at most 100"),
    ],
    ids=["no JSON", "a list", "no keys", "a secret", "private", "half a key", "odd values", "deep", "many"],
)
def test_a_key_set_that_cannot_be_used_is_refused(text: str, why: str) -> None:
    """RFC 7517: public keys only."""
    with pytest.raises(ValueError, match=why):
        read_keys(text)


OTHER_KEYS: Final = (
    {"kty": "AKP", "alg": "ML-DSA-44", "pub": "AA", "kid": "later"},  # of a kind that is not known here
    {"kty": "EC", "crv": "P-1024", "x": "AA", "y": "AA", "kid": "curve"},
    {**ECKey.generate_key("P-256").as_dict(private=False), "use": "enc", "kid": "sealed"},
    ECKey.generate_key("P-256").as_dict(private=True),
    "key",
)


def test_keys_of_a_server_that_cannot_check_signatures_are_ignored(server: TokenServer) -> None:
    """RFC 7517, section 5."""
    [signing] = json.loads(server.keys_text)["keys"]
    keys, ignored_count = read_published_keys(json.dumps({"keys": [*OTHER_KEYS, signing]}))
    assert (len(keys.keys), ignored_count) == (1, len(OTHER_KEYS))
    found = TokenVerifier(TokenKeys(keys), issuer=ISSUER, audience=AUDIENCE, user_claim="sub", wall_ms=lambda: 0)
    assert found.principal(server.token().encode()).user_name == "ada"
    with pytest.raises(ValueError, match="none of its keys can be used: key 0 is no public key"):
        read_published_keys(json.dumps({"keys": OTHER_KEYS}))


@pytest.mark.parametrize("user", ["", "ada"])
def test_oauthbearer_accepts_a_client_with_a_token(server: TokenServer, user: str) -> None:
    """RFC 7628 3.1; a user name beside the token has to be the token's."""
    exchange = OAuthMechanism(OAUTHBEARER, verifier(server)).begin()
    answer = exchange.step(bearer(server.token(), user))
    assert isinstance(answer, Authenticated)
    assert answer.principal.user_name == "ada"


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"n,,\x01\x01",
        b"p=x,,\x01auth=Bearer x\x01\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,a=\xff,\x01auth=Bearer x",
    ],
)
def test_oauthbearer_says_invalid_token_and_fails_with_the_next_step(server: TokenServer, response: bytes) -> None:
    """RFC 7628 3.2.3: the reason is not for the client."""
    for said in (response, bearer(server.token(exp=1)), bearer(server.token(), "grace")):
        exchange = OAuthMechanism(OAUTHBEARER, verifier(server)).begin()
        assert exchange.step(said) == Challenge(b'{"status":"invalid_token"}')
        with pytest.raises(AuthenticationFailed):
            exchange.step(b"\x01")


def test_xoauth2_fails_at_once(server: TokenServer) -> None:
    mechanism = OAuthMechanism(XOAUTH2, verifier(server))
    assert isinstance(mechanism.begin().step(xoauth2(server.token())), Authenticated)
    assert mechanism.begin().step(None) == Challenge(b"")
    for said in (b"", b"ada", xoauth2("x"), xoauth2(server.token(), "grace")):
        with pytest.raises(AuthenticationFailed):
            mechanism.begin().step(said)


def authenticator(server: TokenServer, *, token_as_password: bool) -> Authenticator:
    return Authenticator(
        credentials=Credentials(
            secrets=AccountSecrets({"grace": "compiler"}),
            anonymous_listeners=frozenset(),
            mechanisms={OAUTHBEARER: OAuthMechanism(OAUTHBEARER, verifier(server))},
            token_principal=verifier(server).principal,
            tokens_as_passwords=token_as_password,
        ),
        scram_matches=lambda secret, password: False,
        attempts=LoginAttempts(),
        checks=PasswordChecks(memory_bytes_max=256 << 20, clock=SystemClock()),
        clock=SystemClock(),
        wait=lambda wait_ms: asyncio.sleep(0),
        random_bytes=Random(1).randbytes,
    )


class Services(NamedTuple):
    """What a dialogue uses of a message VPN."""

    authenticator: Authenticator
    clients: ClientRoster


def test_tokens_are_not_offered_in_the_clear(server: TokenServer) -> None:
    """RFC 6750 5.3: whoever reads a bearer token has it."""
    vpns = MessageVpns({DEFAULT_VPN: Services(authenticator(server, token_as_password=False), ClientRoster())}, {})
    plain = PeerRecord(listener="amqp", host="h", port=1)
    secure = PeerRecord(listener="amqps", host="h", port=1, is_encrypted=True)
    assert SaslDialogue(vpns, plain, allows_plain_unencrypted=False).offered() == []
    assert SaslDialogue(vpns, secure, allows_plain_unencrypted=False).offered() == [OAUTHBEARER, "PLAIN"]


def test_a_token_passes_for_a_password_where_that_is_configured(server: TokenServer) -> None:
    """MQTT 3.1.1 has nothing but user name and password."""
    token = server.token().encode()

    async def tried(user: str, password: bytes, *, is_allowed: bool = True) -> str | None:
        principal = await authenticator(server, token_as_password=is_allowed).password(user, password, "h")
        return None if principal is None else principal.user_name

    async def scenario() -> None:
        assert await tried("ada", token) == "ada"
        assert await tried("", token) == "ada"
        assert await tried("eve", token) is None
        assert await tried("grace", token) is None, "an account has its own password"
        assert await tried("grace", b"compiler") == "grace"
        assert await tried("ada", server.token(exp=1).encode()) is None
        assert await tried("ada", token, is_allowed=False) is None

    asyncio.run(scenario())
