"""The client's half of authentication, against independent implementations of the other half."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scramp import ScramMechanism

from sluicegate.protocols.flow.client.errors import AuthenticationRefused
from sluicegate.protocols.flow.client.options import ClientOptions, Target, target_of
from sluicegate.protocols.flow.client.session.authentication import ScramExchange, mechanisms_for
from support.thorough import examples

NONCE = "fyko+d2lbbFgONRv9qkxdawL"
NAMES = st.text("abcäöß =,ªⅨ\u00a0\u00ad中", min_size=1, max_size=12).filter(lambda text: text.strip("\u00ad") != "")


def test_the_example_of_the_standard_is_spoken_word_for_word() -> None:
    """RFC 7677 3."""
    exchange = ScramExchange("user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert exchange.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert exchange.final(challenge) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    exchange.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    with pytest.raises(AuthenticationRefused):
        exchange.check(b"v=" + b"A" * 43 + b"=")


@settings(max_examples=examples(20))  # each costs both sides 4096 rounds
@given(user=NAMES, password=NAMES)
def test_names_and_passwords_of_any_script_are_proven(user: str, password: str) -> None:
    """RFC 4013, RFC 5802: both sides prepare them alike."""
    mechanism = ScramMechanism("SCRAM-SHA-256")
    stored = mechanism.make_auth_info(password, iteration_count=4096, salt=b"a grain of salt")
    server = mechanism.make_server(lambda _: stored, s_nonce="server")
    client = ScramExchange(user, password, NONCE)
    server.set_client_first(client.first().decode())
    server.set_client_final(client.final(server.get_server_first().encode()).decode())
    client.check(server.get_server_final().encode())


@pytest.mark.parametrize(
    ("challenge", "problem"),
    [
        (b"r=somebody,s=W22ZaA==,i=4096", "nonce"),
        (b"r=" + NONCE.encode() + b",s=W22ZaA==,i=4096", "nonce"),
        (b"r=" + NONCE.encode() + b"x,s=W22ZaA==,i=many", "number of iterations"),
        (b"r=" + NONCE.encode() + b"x,s=W22ZaA==,i=999999999", "at most"),
        (b"r=" + NONCE.encode() + b"x,s=!,i=4096", "base64"),
        (b"\xff", "UTF-8"),
    ],
)
def test_a_challenge_that_is_none_is_refused(challenge: bytes, problem: str) -> None:
    """RFC 5802 5: the nonce begins with ours; work is bounded."""
    exchange = ScramExchange("ada", "engine", NONCE)
    with pytest.raises(AuthenticationRefused, match=problem):
        exchange.final(challenge)


@pytest.mark.parametrize(
    ("options", "offered", "encrypted", "tried"),
    [
        (ClientOptions(username="a", password="b"), ("SCRAM-SHA-256", "PLAIN"), False, ["SCRAM-SHA-256"]),
        (ClientOptions(username="a", password="b"), ("SCRAM-SHA-256", "PLAIN"), True, ["SCRAM-SHA-256", "PLAIN"]),
        (ClientOptions(username="a", password="b", allow_plain_without_tls=True), ("PLAIN",), False, ["PLAIN"]),
        (ClientOptions(token="t"), ("XOAUTH2", "OAUTHBEARER"), True, ["OAUTHBEARER", "XOAUTH2"]),
        (ClientOptions(), ("EXTERNAL", "ANONYMOUS"), True, ["EXTERNAL", "ANONYMOUS"]),
    ],
)
def test_mechanisms_are_tried_that_suit_what_there_is_to_show(
    options: ClientOptions, offered: tuple[str, ...], encrypted: bool, tried: list[str]
) -> None:
    """Flow: sessions, authentication."""
    assert mechanisms_for(options, offered, is_encrypted=encrypted) == tried


@pytest.mark.parametrize(
    ("options", "offered", "needed"),
    [
        (
            ClientOptions(username="ada", password="engine"),
            ("PLAIN", "ANONYMOUS"),
            "over TLS, or with allow_plain_without_tls",
        ),
        (ClientOptions(username="ada", password="engine"), (), "offers nothing; this client needs SCRAM-SHA-256$"),
        (ClientOptions(token="t"), ("PLAIN",), "this client needs OAUTHBEARER or XOAUTH2$"),
    ],
)
def test_a_client_that_accepts_no_offered_type_gets_the_list_of_types(
    options: ClientOptions, offered: tuple[str, ...], needed: str
) -> None:
    """PLAIN needs a word of the program, and where the gateway offers nothing better it has to be heard of."""
    with pytest.raises(AuthenticationRefused, match=needed):
        mechanisms_for(options, offered, is_encrypted=False)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("flow://gw.example", Target("gw.example", 55_555, False)),
        ("flow://10.0.0.1:1234/", Target("10.0.0.1", 1234, False)),
        ("flows://gw.example", Target("gw.example", 55_443, True)),
        ("flows://[::1]:9", Target("::1", 9, True)),
    ],
)
def test_a_url_names_a_gateway(url: str, target: Target) -> None:
    """Flow: connections."""
    assert target_of(url) == target


@pytest.mark.parametrize("url", ["gw.example:55555", "http://gw.example", "flow://", "flow://a:b@gw", "flow://gw:0"])
def test_anything_else_is_refused(url: str) -> None:
    """Passwords have no place in URLs, which are logged."""
    with pytest.raises(ValueError, match="flow"):
        target_of(url)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"user": "ada"}, "go together"),
        ({"user": "ada", "password": "x", "token": "t"}, "not both"),
        ({"connect_timeout_s": 0}, "more than 0"),
        ({"keep_alive_s": 0.5}, "1.0 or more"),
        ({"reconnect_delay_s": 5.0, "reconnect_delay_max_s": 1.0}, "at most"),
        ({"client_name": "ø" * 128}, "255 bytes"),
        ({"give_up_after_s": -1.0}, "0 or more"),
    ],
)
def test_options_that_make_no_sense_are_refused(arguments: dict[str, object], problem: str) -> None:
    """Once, when they are made."""
    with pytest.raises(ValueError, match=problem):
        ClientOptions(**arguments)  # type: ignore[arg-type]  # each case is wrong on purpose
