"""The keys that tokens are checked with: those of a file, or those that an authorization server publishes at a URL.

Keys of a URL are fetched in the background: at the start, then each time they are due, and earlier when a token names a
key that is not among them. While the server gives none, the last good ones stay in force, for a limited time. Checking
a token waits for nothing: without keys, all tokens are refused. HTTP itself is in `token_keys_http`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from sluicegate.actors.runtime.clock import Clock

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

REFRESH_MS_MIN: Final = 60_000  # whatever the server says of how long its answer is fresh
UNKNOWN_KEY_MS: Final = 10_000  # between two fetches for tokens with an unknown key: everybody can send such tokens
RETRY_MS: Final = 1_000  # after a failure; twice as long after each further one
RETRY_MS_MAX: Final = 60_000
NOT_YET: Final = "have not been fetched yet"

FETCHED: Final = "fetched"
FAILED: Final = "failed"


class FetchFailed(Exception):
    """An authorization server gave no key set that could be used. The text is for the log."""


@dataclass(frozen=True, slots=True)
class FetchedKeys:
    """A key set as a server has sent it."""

    keys: "KeySet"
    fresh_ms: int | None  # how long it says that it is fresh; None: it says nothing


Fetch = Callable[[], Awaitable[FetchedKeys]]  # raises FetchFailed


@final
class TokenKeys:
    """The keys in force, for one verifier of tokens."""

    def __init__(self, keys: "KeySet | None" = None) -> None:
        """`keys` are those of a file; None: they are fetched."""
        self.keys = keys
        self.problem = NOT_YET  # why there are none
        self.on_unknown_key: Callable[[], None] | None = None  # called when a token names a key that is not there


def refresh_after_ms(fresh_ms: int | None, refresh_ms: int) -> int:
    """Return when to fetch again: when the server's answer is no longer fresh, between the minimum and `refresh_ms`."""
    return refresh_ms if fresh_ms is None else min(refresh_ms, max(REFRESH_MS_MIN, fresh_ms))


def retry_after_ms(failures: int) -> int:
    """Return when to fetch again after so many failures in a row."""
    return min(RETRY_MS << min(failures - 1, 16), RETRY_MS_MAX)


@final
class KeyFetcher:
    """Fetches the keys of one URL, and puts them in force. `counts` has its fetches, by FETCHED and FAILED."""

    def __init__(
        self, fetch: Fetch, *, refresh_ms: int, stale_ms_max: int, clock: Clock, on_outcome: Callable[[str], None]
    ) -> None:
        """`on_outcome` is called with the reason when fetches begin to fail and when the last keys have become too
        old, and with an empty text when fetches succeed for the first time, or again.

        Keys are in force for `stale_ms_max` at most after they were fetched.
        """
        self.counts = {FETCHED: 0, FAILED: 0}
        self.fetched_at_ms: int | None = None  # the last keys, on the clock of timers
        self._fetch = fetch
        self._refresh_ms = refresh_ms
        self._stale_ms_max = stale_ms_max
        self._clock = clock
        self._on_outcome = on_outcome
        self._keys: KeySet | None = None
        self._used_by = TokenKeys()
        self._failures = 0  # in a row
        self._due_ms = 0
        self._began_ms: int | None = None  # the last fetch
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def serve(self, used_by: TokenKeys) -> None:
        """Put the keys in force there, now and from now on. A reload makes a new verifier."""
        self._used_by.on_unknown_key = None
        used_by.keys, used_by.problem = self._keys, self._used_by.problem
        used_by.on_unknown_key = self.unknown_key
        self._used_by = used_by

    def start(self) -> None:
        """Begin to fetch, on the running loop. Idempotent."""
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        """Fetch no more. The keys stay in force."""
        self._used_by.on_unknown_key = None
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def unknown_key(self) -> None:
        """Fetch soon: a token names a key that is not among these. At most once in UNKNOWN_KEY_MS."""
        began_ms = self._began_ms
        earliest_ms = self._clock.now_ms() if began_ms is None else began_ms + UNKNOWN_KEY_MS
        if self._failures == 0 and earliest_ms < self._due_ms:
            self._due_ms = earliest_ms
            self._wake.set()

    async def _run(self) -> None:
        while True:
            self._began_ms = self._clock.now_ms()
            await self._once()
            while (rest_ms := self._due_ms - self._clock.now_ms()) > 0:
                self._wake.clear()
                try:
                    await asyncio.wait_for(self._wake.wait(), rest_ms / 1000)
                except TimeoutError:
                    continue

    async def _once(self) -> None:
        try:
            fetched = await self._fetch()
        except FetchFailed as failure:
            self._failed(str(failure))
            return
        except Exception as error:  # a library's own: it must not end the fetches
            self._failed(f"{type(error).__name__}: {error}")
            return
        self.counts[FETCHED] += 1
        is_news = self._failures > 0 or self._keys is None
        self._failures = 0
        self._keys = self._used_by.keys = fetched.keys
        self.fetched_at_ms = self._clock.now_ms()
        self._due_ms = self.fetched_at_ms + refresh_after_ms(fetched.fresh_ms, self._refresh_ms)
        if is_news:
            self._on_outcome("")

    def _failed(self, reason: str) -> None:
        """Try again later. Keys that have become too old are no longer in force."""
        self.counts[FAILED] += 1
        self._failures += 1
        now_ms = self._clock.now_ms()
        self._due_ms = now_ms + retry_after_ms(self._failures)
        self._used_by.problem = f"could not be fetched: {reason}"
        is_news = self._failures == 1
        if self._keys is not None and self.fetched_at_ms is not None:
            stale_at_ms = self.fetched_at_ms + self._stale_ms_max
            if now_ms >= stale_at_ms:
                self._keys = self._used_by.keys = None
                reason = f"{reason}; the last ones are {self._stale_ms_max // 1000} s old, and tokens are refused"
                is_news = True
            else:
                self._due_ms = min(self._due_ms, stale_at_ms)
        if is_news:
            self._on_outcome(reason)
