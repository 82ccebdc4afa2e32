"""The token keys that are fetched from a URL, over reloads of the configuration: of a message VPN, or of operators."""

import asyncio
from typing import final

from sluicegate.actors.runtime.clock import Clock
from sluicegate.actors.runtime.events import Events
from sluicegate.gateway.config.sections.security.authentication import OAuth
from sluicegate.gateway.security.credentials import ConfiguredCredentials
from sluicegate.messaging.observability.events import EventKind
from sluicegate.protocols.security.tokens.token_keys import KeyFetcher, TokenKeys


@final
class FetchedTokenKeys:
    """What fetches the keys for one set of accounts, once it was started, if their configuration has a URL."""

    def __init__(self, clock: Clock, events: Events, *, up: EventKind, down: EventKind) -> None:
        """`up` is emitted when fetched keys are in force, `down` when they cannot be fetched, with the reason."""
        self._clock = clock
        self._events = events
        self._up = up
        self._down = down
        self._is_started = False
        self._oauth = OAuth()  # in force
        self._used_by: TokenKeys | None = None  # the keys of the verifier in force
        self._fetcher: KeyFetcher | None = None  # None: there is no URL, or nothing is fetched yet
        self._fetched_by = OAuth()  # what the fetcher was made by
        self._counts: dict[str, int] = {}  # of fetchers that were replaced
        self._closing: set[asyncio.Task[None]] = set()

    def counts(self) -> dict[str, int]:
        """Return the number of fetches by outcome; empty if there never was a URL."""
        counts = dict(self._counts)
        for outcome, count in ({} if self._fetcher is None else self._fetcher.counts).items():
            counts[outcome] = counts.get(outcome, 0) + count
        return counts

    def age_s(self) -> float | None:
        """Return how long ago keys were fetched last, also if they are no longer in force; None: never."""
        if self._fetcher is None or self._fetcher.fetched_at_ms is None:
            return None
        return (self._clock.now_ms() - self._fetcher.fetched_at_ms) / 1000

    def configure(self, oauth: OAuth, credentials: ConfiguredCredentials) -> None:
        """Put a configuration in force. Of the same URL, fetched keys stay in force, for the new verifier."""
        self._oauth = oauth
        self._used_by = None if credentials.verifier is None else credentials.verifier.keys
        if self._is_started:
            self._follow()

    def start(self) -> None:
        """Begin to fetch, on the running loop."""
        self._is_started = True
        self._follow()

    async def close(self) -> None:
        """Fetch no more."""
        self._drop()
        self._is_started = False
        await asyncio.gather(*self._closing)

    def _follow(self) -> None:
        if self._fetcher is None or not self._oauth.fetches_like(self._fetched_by):
            self._replace(self._oauth)
        if self._fetcher is not None and self._used_by is not None:
            self._fetcher.serve(self._used_by)

    def _replace(self, oauth: OAuth) -> None:
        self._drop()
        self._fetched_by = oauth
        url = oauth.jwks_url
        if url is None:
            return
        from sluicegate.protocols.security.tokens.token_keys_http import HttpKeys  # late: aiohttp is a tenth of a start

        self._fetcher = KeyFetcher(
            HttpKeys(url, ca_file=oauth.jwks_ca_file, timeout_ms=oauth.jwks_timeout_ms).fetch,
            refresh_ms=oauth.jwks_refresh_s * 1000,
            stale_ms_max=oauth.jwks_stale_max_s * 1000,
            clock=self._clock,
            on_outcome=lambda reason: self._tell(url, reason),
        )
        self._fetcher.start()

    def _tell(self, url: str, reason: str) -> None:
        if reason:
            self._events.emit(self._down, f"The token keys at {url} cannot be fetched: {reason}")
        else:
            self._events.emit(self._up, f"The token keys at {url} are fetched and in force")

    def _drop(self) -> None:
        self._counts = self.counts()
        fetcher, self._fetcher = self._fetcher, None
        if fetcher is not None:
            task = asyncio.ensure_future(fetcher.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
