"""What the answer to a wrong password costs: the same work and the same waits, whatever the name is of."""

import asyncio
from base64 import b64encode
from collections import Counter
from hashlib import pbkdf2_hmac, sha256
from random import Random
from typing import Final

import pytest
from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError
from hypothesis import given, settings
from hypothesis.strategies import dictionaries, sampled_from, text

from sluicegate.protocols.security import authentication
from sluicegate.protocols.security.account_secrets import (
    ARGON2_PREFIX,
    PLAIN,
    AccountSecrets,
    decoy_of,
    kind_of,
    standard_kind,
)
from sluicegate.protocols.security.authentication import AuthenticationFailed, Authenticator, Credentials, Principal
from sluicegate.protocols.security.login_attempts import DELAY_MS, FREE_OF_HOST, FREE_OF_USER, LoginAttempts
from sluicegate.protocols.security.password_checks import PasswordChecks
from sluicegate.protocols.security.password_hashes import RABBITMQ_SHA_256, foreign_hash_matches
from sluicegate.protocols.security.scram import password_matches
from support.cores.set_clock import SetClock

HOST: Final = "192.0.2.1"
RIGHT: Final = "engine"


def b64(raw: bytes) -> str:
    return b64encode(raw).decode()


QUICK: Final = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
OTHER: Final = PasswordHasher(time_cost=2, memory_cost=16, parallelism=2)
SECRETS: Final = {
    "plain": RIGHT,
    "hashed": QUICK.hash(RIGHT),
    "hashed otherwise": OTHER.hash(RIGHT),
    "of mosquitto": f"$7$1${b64(b'salt')}${b64(pbkdf2_hmac('sha512', RIGHT.encode(), b'salt', 1))}",
    "of RabbitMQ": f"{RABBITMQ_SHA_256}${b64(b'salt' + sha256(b'salt' + RIGHT.encode()).digest())}",
    "scram": f"SCRAM-SHA-256$4096:{'AAAA' * 4}${'A' * 43}=:{'A' * 43}=",
    "scram with SHA-512": f"SCRAM-SHA-512$4096:{'AAAA' * 4}${'A' * 86}==:{'A' * 86}==",
}
verify: Final = PasswordHasher.verify
NOBODY: Final = "nobody"
# Of a message VPN: one account of each kind, all of them, two of a kind, none.
SETS: Final = [*[{name} for name in SECRETS], set(SECRETS), {"plain", "scram"}, {"hashed", "plain"}, set()]


class Door:
    """An authenticator that counts what it does for an answer."""

    def __init__(self, names: set[str], monkeypatch: pytest.MonkeyPatch | None = None, *, tokens: bool = False) -> None:
        self.clock = SetClock()
        self.checked: Counter[str] = Counter()
        self.tokens_seen_count = 0
        self.authenticator = Authenticator(
            credentials=Credentials(
                AccountSecrets({name: SECRETS[name] for name in names}),
                frozenset(),
                {},
                token_principal=self._token,
                tokens_as_passwords=tokens,
            ),
            scram_matches=self._scram_matches,
            attempts=LoginAttempts(),
            checks=PasswordChecks(memory_bytes_max=256 << 20, clock=self.clock),
            clock=self.clock,
            wait=self._wait,
            random_bytes=Random(1).randbytes,
        )
        if monkeypatch is not None:  # the class: each authenticator has a hasher of its own
            monkeypatch.setattr(PasswordHasher, "verify", self._verify)
            monkeypatch.setattr(authentication, "foreign_hash_matches", self._foreign_matches)

    def cost_of(self, name: str, password: str, host: str = HOST) -> tuple[Counter[str], int]:
        """Return which kinds of hashes a wrong password is held against, and how long it waits."""
        self.checked.clear()
        began_ms = self.clock.at_ms
        assert asyncio.run(self.authenticator.password(name, password.encode(), host)) is None
        return Counter(self.checked), self.clock.at_ms - began_ms

    def _verify(self, secret: str, password: bytes) -> bool:
        self.checked[kind_of(secret)] += 1
        if kind_of(secret) == standard_kind():  # a decoy, and what it costs is not what is counted here
            raise VerifyMismatchError
        return verify(QUICK, secret, password)

    def _scram_matches(self, secret: str, password: bytes) -> bool:
        self.checked[kind_of(secret)] += 1
        return password_matches(secret, password)

    def _foreign_matches(self, secret: str, password: bytes) -> bool:
        self.checked[kind_of(secret)] += 1
        return foreign_hash_matches(secret, password)

    def _token(self, token: bytes) -> Principal:
        self.tokens_seen_count += 1
        raise AuthenticationFailed("not believed")

    async def _wait(self, wait_ms: int) -> None:
        self.clock.at_ms += wait_ms


@pytest.mark.parametrize("names", SETS, ids=lambda names: "+".join(sorted(names)) or "none")
@pytest.mark.parametrize("wrong", ["guess", "", "a.b.c", "x" * 500])
def test_a_wrong_password_is_held_against_the_same_for_every_name(
    names: set[str], wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OWASP, Authentication Cheat Sheet: how long an answer takes does not tell whether a name exists."""
    door = Door(names, monkeypatch, tokens=True)
    expected = Counter({kind_of(SECRETS[each]) for each in names} - {PLAIN} or {standard_kind()})
    for number, name in enumerate((*sorted(SECRETS), NOBODY, "")):
        assert door.cost_of(name, wrong, f"192.0.2.{number}") == (expected, 0)


def test_a_token_in_the_place_of_a_password_is_looked_at_for_every_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of accounts have no token there, and it shows neither way."""
    door = Door({"plain"}, monkeypatch, tokens=True)
    for name in ("plain", NOBODY):
        before = door.tokens_seen_count
        assert door.cost_of(name, "a.b.c") == (Counter([standard_kind()]), 0)
        assert door.tokens_seen_count == before + 1


@pytest.mark.parametrize("name", [*SECRETS, NOBODY])
def test_every_name_waits_for_its_failures_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    door = Door(set(SECRETS), monkeypatch)
    waits = [door.cost_of(name, "guess")[1] for _ in range(FREE_OF_USER + 2)]
    assert waits == [0] * FREE_OF_USER + [DELAY_MS, 2 * DELAY_MS]


@pytest.mark.parametrize("name", SECRETS)
def test_an_account_that_changes_while_its_password_is_checked_costs_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = Door(set(SECRETS), monkeypatch)
    expected = door.cost_of(NOBODY, RIGHT)[0]

    async def change() -> Principal | None:
        coming = asyncio.create_task(door.authenticator.password(name, b"wrong", HOST))
        await asyncio.sleep(0)
        door.authenticator.credentials.secrets.drop(name)
        return await coming

    door.checked.clear()
    assert asyncio.run(change()) is None
    assert door.checked == expected


@pytest.mark.parametrize("name", ["plain", "hashed", "hashed otherwise", "of mosquitto", "of RabbitMQ"])
def test_a_right_password_costs_a_check_once_at_most(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has one finds out soon: that tells nothing to others. A plain one is seen to be right without."""
    door = Door(set(SECRETS), monkeypatch)
    kind = kind_of(SECRETS[name])
    for _ in range(3):
        assert asyncio.run(door.authenticator.password(name, RIGHT.encode(), HOST)) == Principal(name)
    assert door.checked == Counter([] if kind == PLAIN else [kind])


def test_former_passwords_are_wrong_after_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    door = Door({"hashed"}, monkeypatch)
    authenticator = door.authenticator
    assert asyncio.run(authenticator.password("hashed", RIGHT.encode(), HOST)) == Principal("hashed")
    authenticator.credentials.secrets.put("hashed", QUICK.hash("another"))
    assert asyncio.run(authenticator.password("hashed", RIGHT.encode(), HOST)) is None
    assert asyncio.run(authenticator.password("hashed", b"another", HOST)) == Principal("hashed")
    authenticator.credentials.secrets.drop("hashed")
    assert asyncio.run(authenticator.password("hashed", b"another", HOST)) is None


@pytest.mark.parametrize("name", ["plain", "hashed"])
def test_a_right_password_among_many_guesses_at_once_is_not_picked_out(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decision 0037: that it is known must not make it the one guess of a burst that needs no check."""
    door = Door(set(SECRETS), monkeypatch)
    authenticator = door.authenticator
    assert asyncio.run(authenticator.password(name, RIGHT.encode(), HOST)) == Principal(name)
    done: list[str] = []

    async def guess(password: str) -> None:
        await authenticator.password(name, password.encode(), HOST)
        done.append(password)

    async def burst() -> None:
        await asyncio.gather(*[guess(f"guess {number}") for number in range(FREE_OF_USER)], guess(RIGHT))

    asyncio.run(burst())
    assert done.index(RIGHT) == FREE_OF_USER


def test_a_valid_token_is_checked_at_once_and_a_wrong_one_waits() -> None:
    door = Door({"plain"}, tokens=True)
    for number in range(FREE_OF_HOST):
        door.authenticator.tried(HOST, f"name {number}", succeeded=False)
    assert asyncio.run(door.authenticator.bearer(b"a.b.c", HOST)) is None
    assert door.clock.at_ms == DELAY_MS


@pytest.mark.parametrize(
    "kind", [standard_kind(), kind_of(OTHER.hash("x")), "SCRAM-SHA-256$15000", "SCRAM-SHA-512$15000"]
)
def test_a_decoy_is_checked_like_its_kind_and_matches_nothing(kind: str) -> None:
    decoy = decoy_of(kind)
    assert kind_of(decoy) == kind
    if kind.startswith(ARGON2_PREFIX):
        with pytest.raises(VerifyMismatchError):
            PasswordHasher().verify(decoy, "password")
    else:
        assert not password_matches(decoy, b"password")


def test_the_standard_kind_is_that_of_hashes_made_now() -> None:
    hasher = PasswordHasher()
    decoy = decoy_of(standard_kind())
    assert len(decoy) == len(hasher.hash("password"))
    assert not hasher.check_needs_rehash(decoy)


@settings(deadline=None)
@given(dictionaries(text("ab@", max_size=3), sampled_from([*SECRETS.values(), None]), max_size=6))
def test_changed_accounts_are_held_against_the_same_as_others_made_at_once(changes: dict[str, str | None]) -> None:
    changed = AccountSecrets(dict.fromkeys(changes, RIGHT))
    for name, secret in changes.items():
        if secret is None:
            changed.drop(name)
        else:
            changed.put(name, secret)
    made = AccountSecrets({name: secret for name, secret in changes.items() if secret is not None})
    assert dict(changed) == dict(made)
    assert changed.checks() == made.checks()
    for name in ("x@a", "x@b", "x@", "x", *changes):
        assert changed.has_domain(name) == made.has_domain(name)
