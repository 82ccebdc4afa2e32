"""The token keys of a message VPN that are fetched from a URL, over reloads of the configuration."""

import asyncio
from collections.abc import Callable
from typing import final

from sluicegate.actors.runtime.clock import Clock
from sluicegate.gateway.config.sections.security.authentication import ClientOAuth
from sluicegate.gateway.security.credentials import ConfiguredCredentials
from sluicegate.protocols.security.tokens.token_keys import KeyFetcher


@final
class FetchedTokenKeys:
    """What fetches the keys of one message VPN, if its configuration has a URL."""

    def __init__(self, clock: Clock, on_outcome: Callable[[str, str], None]) -> None:
        """`on_outcome` gets the URL, and why its keys cannot be fetched; an empty text: they are in force."""
        self._clock = clock
        self._on_outcome = on_outcome
        self._is_started = False
        self._oauth = ClientOAuth()
        self._fetcher: KeyFetcher | None = None  # None: there is no URL
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

    def configure(self, oauth: ClientOAuth, credentials: ConfiguredCredentials) -> None:
        """Put a configuration in force. Of the same URL, fetched keys stay in force, for the new verifier."""
        if self._fetcher is None or not oauth.fetches_like(self._oauth):
            self._replace(oauth)
        self._oauth = oauth
        if self._fetcher is not None and credentials.verifier is not None:
            self._fetcher.serve(credentials.verifier.keys)

    def start(self) -> None:
        """Begin to fetch, on the running loop."""
        self._is_started = True
        if self._fetcher is not None:
            self._fetcher.start()

    async def close(self) -> None:
        """Fetch no more."""
        self._drop()
        await asyncio.gather(*self._closing)

    def _replace(self, oauth: ClientOAuth) -> None:
        self._drop()
        url = oauth.jwks_url
        if url is None:
            return
        from sluicegate.protocols.security.tokens.token_keys_http import HttpKeys  # late: aiohttp is a tenth of a start

        self._fetcher = KeyFetcher(
            HttpKeys(url, ca_file=oauth.jwks_ca_file, timeout_ms=oauth.jwks_timeout_ms).fetch,
            refresh_ms=oauth.jwks_refresh_s * 1000,
            stale_ms_max=oauth.jwks_stale_max_s * 1000,
            clock=self._clock,
            on_outcome=lambda reason: self._on_outcome(url, reason),
        )
        if self._is_started:
            self._fetcher.start()

    def _drop(self) -> None:
        self._counts = self.counts()
        fetcher, self._fetcher = self._fetcher, None
        if fetcher is not None and self._is_started:
            task = asyncio.ensure_future(fetcher.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
