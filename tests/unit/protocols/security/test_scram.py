"""SCRAM by itself: stored forms of passwords, and accounts that change. Whole exchanges: tests/broker."""

import hashlib
from base64 import b64decode
from random import Random

import pytest
from hypothesis import given
from hypothesis.strategies import characters, text
from scramp import ScramClient

from sluicegate.protocols.flow.client.session import authentication as scram_of_the_flow_client
from sluicegate.protocols.security.authentication import Authenticated, AuthenticationFailed, Challenge, Principal
from sluicegate.protocols.security.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    NAME,
    NAME_512,
    Scram,
    ScramExchange,
    iterations_of,
    password_matches,
    stored_secret,
    stored_text,
)

RANDOM_BYTES = Random(1).randbytes
NOT_OF_ASCII = "gr\u00fcn"


def first_step(mechanism: Scram, password: str, user: str = "ada") -> tuple[ScramExchange, ScramClient]:
    """Return both sides of an exchange after the server's challenge."""
    exchange, client = mechanism.begin(), ScramClient([mechanism.name], user, password)
    challenge = exchange.step(client.get_client_first().encode())
    assert isinstance(challenge, Challenge)
    client.set_server_first(challenge.data.decode())
    return exchange, client


def last_step(exchange: ScramExchange, client: ScramClient) -> str:
    """Return whom the client has proven to be; it has its own proof of the server then."""
    proven = exchange.step(client.get_client_final().encode())
    assert isinstance(proven, Authenticated)
    client.set_server_final(proven.data.decode())
    return proven.principal.user_name


@given(text(characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=40))
def test_the_stored_form_of_a_password_proves_it_and_does_not_tell_it(password: str) -> None:
    """RFC 5802, section 3: StoredKey and ServerKey, with a salt of their own each time."""
    kept = stored_text(password, ITERATIONS_MIN, RANDOM_BYTES)
    assert password_matches(kept, password.encode())
    assert not password_matches(kept, password.encode() + b"x")
    assert stored_text(password, ITERATIONS_MIN, RANDOM_BYTES) != kept
    assert stored_secret(kept, ITERATIONS_MAX, RANDOM_BYTES)[3] == iterations_of(kept) == ITERATIONS_MIN


def test_the_example_of_rfc_7677_is_answered_as_there() -> None:
    """RFC 7677, section 3."""
    kept = stored_text("pencil", 4096, lambda _: b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
    exchange = ScramExchange(Scram({"user": kept}, ITERATIONS_MIN, RANDOM_BYTES), "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    challenge = exchange.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    nonce = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert challenge == Challenge(nonce + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    outcome = exchange.step(b"c=biws," + nonce + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    assert outcome == Authenticated(Principal("user"), b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@given(text(characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=40))
def test_each_mechanism_has_a_stored_form_of_its_own(password: str) -> None:
    """That of the other one proves nothing, and a plain password is for SHA-256 alone."""
    forms = {name: stored_text(password, ITERATIONS_MIN, RANDOM_BYTES, name) for name in (NAME, NAME_512)}
    for name, kept in forms.items():
        assert kept.startswith(f"{name}$")
        assert password_matches(kept, password.encode())
        assert not password_matches(kept, password.encode() + b"x")
        assert iterations_of(kept) == ITERATIONS_MIN
        assert Scram({"ada": kept}, ITERATIONS_MIN, RANDOM_BYTES, name).can_succeed
    assert not Scram({"ada": forms[NAME_512]}, ITERATIONS_MIN, RANDOM_BYTES).can_succeed
    others = {"ada": forms[NAME], "bob": "builder", "eve": "$argon2id$v=19$m=8,t=1,p=1$c2FsdA$aGFzaA"}
    assert not Scram(others, ITERATIONS_MIN, RANDOM_BYTES, NAME_512).can_succeed


def test_a_client_proves_a_password_with_sha_512() -> None:
    kept = stored_text("engine", ITERATIONS_MIN, RANDOM_BYTES, NAME_512)
    mechanism = Scram({"ada": kept}, ITERATIONS_MIN, RANDOM_BYTES, NAME_512)
    assert last_step(*first_step(mechanism, "engine")) == "ada"
    for user, password in (("ada", "wrong"), ("nobody", "engine")):
        exchange, client = first_step(mechanism, password, user)
        with pytest.raises(AuthenticationFailed, match=f"SCRAM-SHA-512 of user '{user}'"):
            exchange.step(client.get_client_final().encode())
    salt, stored_key, server_key, iterations = mechanism.stored("nobody")
    assert [len(each) for each in (salt, stored_key, server_key)] == [len(each) for each in mechanism.stored("ada")[:3]]
    assert iterations == ITERATIONS_MIN


@pytest.mark.parametrize("password", ["gru\u0308n", "a\u00a0b", "\u2168", "so\u00adft"])
def test_a_password_that_is_sent_matches_in_the_form_in_which_it_was_kept(password: str) -> None:
    """RFC 4013, as RFC 5802 and RFC 4616 ask for it: keyboards differ in how they write an umlaut."""
    assert password_matches(stored_text(password, ITERATIONS_MIN, RANDOM_BYTES), password.encode())


def test_a_password_that_has_no_such_form_matches_nothing() -> None:
    kept = stored_text("engine", ITERATIONS_MIN, RANDOM_BYTES)
    assert not password_matches(kept, b"\xff")
    assert not password_matches(kept, "engine\ue000".encode())


@pytest.mark.parametrize("password", ["engine", "a b", NOT_OF_ASCII, "$argon2 like", "SCRAM-SHA-256$ like", "x" * 1024])
def test_a_client_proves_a_password_against_its_stored_form(password: str) -> None:
    mechanism = Scram({"ada": stored_text(password, ITERATIONS_MIN, RANDOM_BYTES)}, ITERATIONS_MIN, RANDOM_BYTES)
    assert last_step(*first_step(mechanism, password)) == "ada"
    exchange, client = first_step(mechanism, password + "x")
    with pytest.raises(AuthenticationFailed):
        exchange.step(client.get_client_final().encode())


@pytest.mark.parametrize("password", ["a\x00b", "\u0007"])
def test_texts_that_rfc_4013_prohibits_are_no_passwords(password: str) -> None:
    with pytest.raises(ValueError, match="forbidden"):
        stored_text(password, ITERATIONS_MIN, RANDOM_BYTES)


@pytest.mark.parametrize("secrets", [{}, {"ada": "other"}, {"ada": "$argon2id$v=19$m=8,t=1,p=1$c2FsdA$aGFzaA"}])
def test_an_exchange_does_not_end_with_an_account_that_has_changed(secrets: dict[str, str]) -> None:
    """Decision 0039: deleted, of another password, or one that SCRAM cannot use any more."""
    mechanism = Scram({"ada": "engine"}, ITERATIONS_MIN, RANDOM_BYTES)
    exchange, client = first_step(mechanism, "engine")
    mechanism.configure(secrets, ITERATIONS_MIN)
    with pytest.raises(AuthenticationFailed, match="changed meanwhile"):
        exchange.step(client.get_client_final().encode())


def test_a_change_of_others_does_not_disturb_an_exchange() -> None:
    """What was derived of a plain password stays, with its salt: clients may keep what they derived of it."""
    mechanism = Scram({"ada": "engine", "bob": "builder"}, ITERATIONS_MIN, RANDOM_BYTES)
    exchange, client = first_step(mechanism, "engine")
    derived = mechanism.stored("ada")
    mechanism.configure({"ada": "engine", "eve": "apple"}, ITERATIONS_MIN)
    assert last_step(exchange, client) == "ada"
    assert mechanism.stored("ada") == derived


def test_names_that_do_not_exist_look_like_others_before_and_after_a_change() -> None:
    """RFC 5802, section 5.1 (unknown-user): always the same salt for a name, or its absence shows."""
    mechanism = Scram({"ada": "engine"}, ITERATIONS_MIN, RANDOM_BYTES)
    salt = mechanism.stored("nobody")[0]
    mechanism.configure({"bob": "builder"}, ITERATIONS_MIN)
    assert mechanism.stored("nobody")[0] == salt
    assert mechanism.stored("ada")[0] != salt


def test_iterations_are_what_is_asked_for_and_clients_do_as_many() -> None:
    """RFC 7677, section 4: 15,000 and more. The limits stand beside each other's."""
    assert ITERATIONS_MIN == 15_000
    assert ITERATIONS_MAX == scram_of_the_flow_client.ITERATIONS_MAX
    for secret in ("engine", stored_text("engine", 20_000, RANDOM_BYTES)):
        mechanism = Scram({"ada": secret}, 20_000, RANDOM_BYTES)
        assert mechanism.stored("ada")[3] == 20_000
        assert last_step(*first_step(mechanism, "engine")) == "ada"


def test_a_key_of_fewer_iterations_is_still_proven_and_a_plain_password_has_another_key_at_once() -> None:
    """Those of earlier releases have 4096."""
    kept = {"ada": stored_text("engine", 4096, RANDOM_BYTES), "bob": "builder"}
    mechanism = Scram(kept, ITERATIONS_MIN, RANDOM_BYTES)
    assert mechanism.stored("ada")[3] == 4096
    assert last_step(*first_step(mechanism, "engine")) == "ada"
    assert mechanism.stored("bob")[3] == ITERATIONS_MIN
    mechanism.configure(kept, 20_000)
    assert (mechanism.stored("ada")[3], mechanism.stored("bob")[3]) == (4096, 20_000)
    assert last_step(*first_step(mechanism, "builder", "bob")) == "bob"


def test_the_iterations_of_names_that_do_not_exist_are_those_of_accounts() -> None:
    """RFC 5802, section 5.1: else old accounts would show by having fewer than a name that nobody has."""
    old, new = stored_text("engine", 4096, RANDOM_BYTES), stored_text("engine", ITERATIONS_MIN, RANDOM_BYTES)
    nobody = [f"nobody-{number}" for number in range(400)]
    mechanism = Scram({"ada": old}, ITERATIONS_MIN, RANDOM_BYTES)

    def counts() -> list[int]:
        return [mechanism.stored(name)[3] for name in nobody]

    assert set(counts()) == {4096}
    mechanism.change("bob", new)
    half = counts()
    assert set(half) == {4096, ITERATIONS_MIN}
    assert 100 < half.count(4096) < 300
    assert counts() == half  # as stable as an account's
    mechanism.change("eve", new)
    fewer = counts()
    assert all(now >= before for now, before in zip(fewer, half, strict=True))  # each changes once, as an account does
    assert fewer.count(4096) < half.count(4096)
    mechanism.change("ada", new)
    assert set(counts()) == {ITERATIONS_MIN}
    mechanism.configure({}, 20_000)
    assert set(counts()) == {20_000}


def test_the_first_exchange_of_a_plain_password_costs_the_same_for_an_unknown_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its keys are derived when it is read: thousands of hashes at the first exchange would tell that a name exists."""
    derived_count = 0
    pbkdf2 = hashlib.pbkdf2_hmac

    def counted(name: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        nonlocal derived_count
        derived_count += 1
        return pbkdf2(name, password, salt, iterations)

    mechanism = Scram({"ada": "engine", "bob": "a\x00b"}, ITERATIONS_MIN, RANDOM_BYTES)
    mechanism.configure({"ada": "engine", "eve": "apple", "bob": "a\x00b"}, ITERATIONS_MIN)
    monkeypatch.setattr("sluicegate.protocols.security.scram.hashlib.pbkdf2_hmac", counted)
    for name in ("ada", "eve", "bob", "nobody"):
        mechanism.stored(name)
        mechanism.stored(name)
    assert derived_count == 0


def test_a_plain_password_that_rfc_4013_prohibits_is_refused() -> None:
    mechanism = Scram({"bob": "a\x00b"}, ITERATIONS_MIN, RANDOM_BYTES)
    assert not mechanism.can_succeed
    exchange, client = first_step(mechanism, "engine", "bob")
    with pytest.raises(AuthenticationFailed):
        exchange.step(client.get_client_final().encode())
