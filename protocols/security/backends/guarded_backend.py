"""Ask somebody else who may come in: what all backends of authentication have in common.

A backend answers for names that are no accounts of the gateway. An answer that cannot be had is never taken for a yes:
the client is told to try again later. Around each question there are a time limit, a bound on the questions under way,
a breaker that spares a backend which fails, and a memory of answers that let somebody in.
"""

import asyncio
import hashlib
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, final

from sluicegate.actors.runtime.clock import Clock
from sluicegate.messaging.clients.rights import BackendUnavailable
from sluicegate.protocols.security.login_queue import WAITING_OF_NETWORK_MAX, network_of

REMEMBERED_MAX: Final = 10_000  # answers; the one that was not asked for longest is forgotten first
WAITING_MAX: Final = 1_000  # questions that wait for their turn; further clients are told to try again later
FAILURES_MAX: Final = 5  # in a row; then the backend is not asked for a while
REST_MS: Final = 2_000  # so long; twice as long after each further failure
REST_MS_MAX: Final = 30_000

ALLOWED: Final = "allowed"
DENIED: Final = "denied"
REMEMBERED: Final = "remembered"
FAILED: Final = "failed"  # no answer, or one that says neither yes nor no
NOT_ASKED: Final = "not_asked"  # it has failed lately, or too many wait


@dataclass(frozen=True, slots=True)
class Login:
    """What a client has shown."""

    user_name: str
    password: bytes
    client: str  # its identifier, where it is known before the login: in MQTT
    host: str
    listener: str


@dataclass(frozen=True, slots=True)
class Admission:
    """A yes, with the profiles of the user; an empty name is the profile `default`."""

    client_profile: str = ""
    acl_profile: str = ""


@dataclass(frozen=True, slots=True)
class Granted:
    """What a backend has granted a user, and when: brokers of one machine tell each other of clients that move."""

    admission: Admission
    answered_ms: int  # wall clock


class BackendFailed(Exception):
    """A backend gave no answer that could be used. The text is for the log."""


class LoginFailed(Exception):
    """A backend that works could not decide about one user. The text is for the log."""


Ask = Callable[[Login], Awaitable[Admission | None]]  # None: no. Raises BackendFailed, LoginFailed


@final
class GuardedBackend:
    """A backend with its limits. Counters, for metrics: `counts`, by one of the words above."""

    def __init__(
        self,
        ask: Ask,
        *,
        timeout_ms: int,
        concurrent_max: int,
        remembered_ms: int,
        clock: Clock,
        secret: bytes,
        on_failure: Callable[[str], None],
    ) -> None:
        """`remembered_ms`: how long a yes holds; 0: each login is asked about. `secret` keys the hashes of passwords.

        `on_failure` is called with the reason when the backend has begun to fail and when it cannot decide about one
        user, and with an empty text when it answers again.
        """
        self.counts: dict[str, int] = {}
        self._ask = ask
        self._timeout_s = timeout_ms / 1000
        self._concurrent_max = concurrent_max
        self._remembered_ms = remembered_ms
        self._clock = clock
        self._secret = secret
        self._on_failure = on_failure
        self._turns = asyncio.Semaphore(concurrent_max)
        self._under_way = 0  # those that wait for their turn included
        self._under_way_of: Counter[str] = Counter()  # the same, by network
        self._failures = 0  # in a row
        self._rests_until_ms = 0
        self._remembered: OrderedDict[bytes, tuple[Granted, int, str]] = OrderedDict()  # by hash; with end and name
        self._hashes: dict[str, set[bytes]] = {}  # of what is remembered, by name; all its answers are the same

    async def granted(self, login: Login) -> Granted | None:
        """Return what the backend grants a client, None if it says no. Raises BackendUnavailable.

        An answer that is remembered has the time at which it was given.
        """
        key = self._key(login)
        known = self._remembered.get(key)
        if known is not None:
            if known[1] > self._clock.now_ms():
                self._remembered.move_to_end(key)
                self._count(REMEMBERED)
                return known[0]
            self._forget(key)
        if self._clock.now_ms() < self._rests_until_ms or self._is_full(network_of(login.host)):
            self._count(NOT_ASKED)
            raise BackendUnavailable
        # A task of its own: the requests of connections are none, and time limits need one.
        asked = asyncio.ensure_future(self._in_turn(login))
        asked.add_done_callback(_retrieve)
        answer = await asked
        if answer is None:
            return None
        granted = Granted(answer, self._clock.wall_ms())
        if self._remembered_ms:
            self._remember(login.user_name, key, granted)
        return granted

    def forget(self, user_name: str) -> None:
        """Forget all answers about a name: it has other profiles by now, or is decided about elsewhere."""
        for key in self._hashes.pop(user_name, ()):
            del self._remembered[key]

    def learn(self, user_name: str, granted: Granted) -> None:
        """Forget answers about a name that differ from a newer one: an older answer would bring back what it took."""
        known = self._hashes.get(user_name)
        if known is not None and self._remembered[next(iter(known))][0].admission != granted.admission:
            self.forget(user_name)

    def _remember(self, name: str, key: bytes, answer: Granted) -> None:
        self.learn(name, answer)
        if key in self._remembered:
            self._forget(key)
        if len(self._remembered) >= REMEMBERED_MAX:
            self._forget(next(iter(self._remembered)))
        self._remembered[key] = (answer, self._clock.now_ms() + self._remembered_ms, name)
        self._hashes.setdefault(name, set()).add(key)

    def _forget(self, key: bytes) -> None:
        _, _, name = self._remembered.pop(key)
        hashes = self._hashes[name]
        hashes.discard(key)
        if not hashes:
            del self._hashes[name]

    def _is_full(self, network: str) -> bool:
        """Return whether there is no room for a question: in all, or for those of a network."""
        return (
            self._under_way >= self._concurrent_max + WAITING_MAX
            or self._under_way_of[network] >= WAITING_OF_NETWORK_MAX
        )

    async def _in_turn(self, login: Login) -> Admission | None:
        network = network_of(login.host)
        self._under_way += 1
        self._under_way_of[network] += 1
        try:
            async with self._turns:
                if self._clock.now_ms() < self._rests_until_ms:  # it has failed meanwhile
                    self._count(NOT_ASKED)
                    raise BackendUnavailable
                answer = await self._answer(login)
        finally:
            self._under_way -= 1
            self._under_way_of[network] -= 1
            if not self._under_way_of[network]:
                del self._under_way_of[network]
        self._count(DENIED if answer is None else ALLOWED)
        return answer

    async def _answer(self, login: Login) -> Admission | None:
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._ask(login)
        except TimeoutError:
            self._failed(f"no answer within {self._timeout_s:g} s")
            raise BackendUnavailable from None
        except BackendFailed as failure:
            self._failed(str(failure))
            raise BackendUnavailable from None
        except LoginFailed as failure:
            self._answered()
            self._count(FAILED)
            self._on_failure(str(failure))
            raise BackendUnavailable from None
        self._answered()
        return answer

    def _answered(self) -> None:
        if self._failures:
            self._failures, self._rests_until_ms = 0, 0
            self._on_failure("")

    def _failed(self, reason: str) -> None:
        self._count(FAILED)
        self._failures += 1
        if self._failures == 1:
            self._on_failure(reason)
        if self._failures >= FAILURES_MAX:
            rest_ms = REST_MS << min(self._failures - FAILURES_MAX, 8)
            self._rests_until_ms = self._clock.now_ms() + min(rest_ms, REST_MS_MAX)

    def _key(self, login: Login) -> bytes:
        """Return a hash of what the answer depends on: no password is kept."""
        mixed = hashlib.blake2b(key=self._secret, digest_size=32)
        texts = (login.user_name, login.client, login.host, login.listener)
        for part in (login.password, *[each.encode() for each in texts]):
            mixed.update(len(part).to_bytes(4, "big") + part)
        return mixed.digest()

    def _count(self, outcome: str) -> None:
        self.counts[outcome] = self.counts.get(outcome, 0) + 1


def _retrieve(asked: "asyncio.Future[Admission | None]") -> None:
    """Take what a question ended with: who asked may be gone, and nobody else would."""
    if not asked.cancelled():
        asked.exception()
