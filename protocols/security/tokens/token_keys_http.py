"""Fetch a JSON Web Key Set (RFC 7517) over HTTP: one GET, within a time and a size. Redirections are not followed."""

import asyncio
import logging
import re
import ssl
from pathlib import Path
from typing import Final, final

import aiohttp

from sluicegate.protocols.security.tokens.bearer_tokens import read_published_keys
from sluicegate.protocols.security.tokens.token_keys import FetchedKeys, FetchFailed

log = logging.getLogger("sluicegate.node")

ANSWER_BYTES_MAX: Final = 1 << 20  # of some hundred keys; a server has two or three
FRESH_S_MAX: Final = 10**9
_MAX_AGE: Final = re.compile(r"(?:^|[\s,])max-age=\"?(\d{1,18})", re.IGNORECASE)
_NOT_KEPT: Final = re.compile(r"(?:^|[\s,])no-(?:cache|store)(?:$|[\s,=])", re.IGNORECASE)


@final
class HttpKeys:
    """One URL with a key set. The file of its authority is read at each fetch, so a new one is in force by itself."""

    def __init__(self, url: str, *, ca_file: Path | None, timeout_ms: int) -> None:
        """`ca_file` has the authorities that the server's certificate may be from; None: those of the system."""
        self._url = url
        self._ca_file = ca_file
        self._timeout_s = timeout_ms / 1000
        self._ignored_count = 0  # keys of the last answer

    async def fetch(self) -> FetchedKeys:
        """Return the key set of the server. Raises FetchFailed."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._fetch()
        except TimeoutError:
            raise FetchFailed(f"no answer within {self._timeout_s:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError, asyncio.IncompleteReadError) as error:
            raise FetchFailed(f"{type(error).__name__}: {error}") from None

    async def _fetch(self) -> FetchedKeys:
        # In a thread: it reads the authorities of the system, which takes tens of milliseconds.
        tls = await asyncio.to_thread(ssl.create_default_context, cafile=self._ca_file)
        connector = aiohttp.TCPConnector(ssl=tls, force_close=True)
        # Without compression, so that the bound on what is read is one on what is kept.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        async with (
            aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
            ) as session,
            session.get(self._url, allow_redirects=False, headers=headers) as response,
        ):
            if response.status != 200:
                raise FetchFailed(f"it answers with status {response.status}")
            coding = response.headers.get("Content-Encoding", "identity")
            if coding.strip().lower() != "identity":
                raise FetchFailed(f"its answer is compressed ({coding!r:.40}), which the request excludes")
            content = b""
            while not response.content.at_eof():
                content += await response.content.read(ANSWER_BYTES_MAX + 1 - len(content))
                if len(content) > ANSWER_BYTES_MAX:
                    raise FetchFailed(f"its answer has more than {ANSWER_BYTES_MAX} bytes")
            fresh_ms = fresh_ms_in(", ".join(response.headers.getall("Cache-Control", [])))
        try:
            keys, ignored_count = await asyncio.to_thread(lambda: read_published_keys(content.decode()))
        except ValueError as problem:
            raise FetchFailed(f"its answer: {problem}") from None
        if ignored_count != self._ignored_count:
            self._ignored_count = ignored_count
            log.warning("%s: %d of its keys are not for signatures, or cannot be read", self._url, ignored_count)
        return FetchedKeys(keys, fresh_ms)


def fresh_ms_in(cache_control: str) -> int | None:
    """Return for how long an answer is fresh by its Cache-Control (RFC 9111, 5.2.2); None: it does not say."""
    if _NOT_KEPT.search(cache_control):
        return 0
    found = _MAX_AGE.search(cache_control)
    return None if found is None else min(int(found.group(1)), FRESH_S_MAX) * 1000
