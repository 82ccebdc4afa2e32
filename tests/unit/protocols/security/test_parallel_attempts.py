"""Attempts to log in that begin side by side, before the first of them has failed: decision 0037."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from random import Random
from typing import Any

import pytest

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
    Exchange,
    Principal,
)
from sluicegate.protocols.security.login_attempts import (
    DELAY_MS,
    FREE_OF_HOST,
    FREE_OF_USER,
    WAIT_MS_MAX,
    LoginAttempts,
)
from sluicegate.protocols.security.password_checks import PasswordChecks
from sluicegate.protocols.security.scram import NAME
from sluicegate.protocols.transport.interface import PeerRecord
from support.cores.set_clock import SetClock

HOST = "192.0.2.1"
BURST = 100
DEADLINE_S = 60


class Claim:
    """A mechanism of two steps: what comes second proves nothing, but that it is believed."""

    needs_encryption = False
    is_sasl = True
    can_succeed = True

    def __init__(self) -> None:
        self._is_answered = False

    def begin(self) -> "Claim":
        return Claim()

    def step(self, data: bytes | None) -> Challenge | Authenticated:
        if not self._is_answered:
            self._is_answered = True
            return Challenge(b"")
        if data != b"right":
            raise AuthenticationFailed("wrong")
        return Authenticated(Principal("ada"), b"")


class Door:
    """An authenticator that knows Ada, and how long those who came had to wait."""

    def __init__(self, check: Callable[[str, bytes], bool]) -> None:
        self.attempts = LoginAttempts()
        self.waits_ms: list[int] = []
        self.authenticator = Authenticator(
            credentials=Credentials(AccountSecrets({"ada": f"{NAME}$of ada"}), frozenset(), {"CLAIM": Claim()}),
            scram_matches=check,
            attempts=self.attempts,
            checks=PasswordChecks(memory_bytes_max=1 << 20, clock=SetClock(), threads_max=BURST),
            clock=SetClock(),
            wait=self._wait,
            random_bytes=Random(1).randbytes,
        )

    def comes(self, password: bytes) -> Coroutine[Any, Any, Principal | None]:
        """Try a password as Ada."""
        return self.authenticator.password("ada", password, HOST)

    def begun(self) -> Exchange:
        """Begin an exchange, and take the first step."""
        assert self.authenticator.may_try_now(HOST)
        exchange = self.authenticator.exchange(self.authenticator.mechanisms["CLAIM"], HOST)
        exchange.step(b"")
        return exchange

    async def _wait(self, delay_ms: int) -> None:
        self.waits_ms.append(delay_ms)


class ReloadedDoor(Door):
    """A reload takes the mechanisms away while somebody waits for a turn."""

    @property
    def clients(self) -> ClientRoster:
        raise AssertionError("nobody gets so far")

    async def _wait(self, delay_ms: int) -> None:
        self.authenticator.credentials = replace(self.authenticator.credentials, mechanisms={})


@pytest.mark.parametrize("failures", [FREE_OF_USER - 1, FREE_OF_USER])
def test_a_right_password_waits_if_the_free_failures_were_used_up_beside_it(failures: int) -> None:
    """And comes in then; nobody waits for fewer failures."""
    others_are_through = threading.Event()
    door = Door(lambda _, password: password == b"right" and others_are_through.wait(DEADLINE_S))

    async def come() -> Principal | None:
        right = asyncio.create_task(door.comes(b"right"))
        await asyncio.sleep(0)  # its check begins
        for _ in range(failures):
            assert await door.comes(b"wrong") is None
        others_are_through.set()
        return await right

    assert asyncio.run(come()) == Principal("ada")
    assert door.waits_ms == ([] if failures < FREE_OF_USER else [DELAY_MS])


def test_a_burst_guesses_no_faster_than_one() -> None:
    """All begin at once: what neither the free ones nor the line hold is refused, and nobody learns what it was."""
    others_are_through = threading.Event()
    door = Door(lambda _, password: password == b"right" and others_are_through.wait(DEADLINE_S))

    async def come() -> Principal | None:
        right = asyncio.create_task(door.comes(b"right"))
        assert await asyncio.gather(*[door.comes(b"wrong") for _ in range(BURST)]) == [None] * BURST
        others_are_through.set()
        return await right

    assert asyncio.run(come()) is None
    looked_at_max = FREE_OF_USER + WAIT_MS_MAX // DELAY_MS
    assert door.attempts.refused_count >= BURST + 1 - looked_at_max


def test_exchanges_that_began_before_others_failed_are_refused_unseen() -> None:
    """SCRAM and tokens count by address: a proof is not looked at beside those that used up its free failures."""
    door = Door(lambda _, __: False)
    early, late, *others = [door.begun() for _ in range(FREE_OF_HOST + 2)]
    for exchange in others[1:]:
        with pytest.raises(AuthenticationFailed, match="wrong"):
            exchange.step(b"wrong")
    assert early.step(b"right") == Authenticated(Principal("ada"), b"")
    with pytest.raises(AuthenticationFailed, match="wrong"):
        others[0].step(b"wrong")
    with pytest.raises(AuthenticationFailed, match="too many attempts"):
        late.step(b"right")


def test_a_mechanism_that_is_disabled_during_a_login_lets_no_client_in() -> None:
    door = ReloadedDoor(lambda _, __: False)
    for _ in range(FREE_OF_HOST):
        door.authenticator.tried(HOST, "", succeeded=False)
    vpns = MessageVpns({DEFAULT_VPN: door}, {})
    dialogue = SaslDialogue(vpns, PeerRecord("amqp", HOST, 1), allows_plain_unencrypted=False)
    with pytest.raises(AuthenticationFailed, match="removed while the client waited"):
        asyncio.run(dialogue.begin("CLAIM", b""))
