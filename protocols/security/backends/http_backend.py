"""Ask a web server who may come in: POST with what the client has shown, in JSON; a JSON object comes back.

200 with `{"result": "allow"}`, and the names of profiles if they are not `default`; 200 with `{"result": "deny"}`, 401
or 403 for a no. Everything else is no answer, redirections included.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final, final

import aiohttp

from sluicegate.protocols.security.backends.guarded_backend import Admission, BackendFailed, Login

ANSWER_BYTES_MAX: Final = 65_536
NO: Final = (401, 403)


@final
class HttpBackend:
    """One URL that answers. Its connections are kept, and belong to the event loop."""

    def __init__(self, url: str, *, vpn: str, headers: Mapping[str, str], concurrent_max: int) -> None:
        self._url = url
        self._vpn = vpn
        self._headers = dict(headers)
        self._concurrent_max = concurrent_max
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False

    async def ask(self, login: Login) -> Admission | None:
        """Return what a client is granted, None for a no. Raises BackendFailed."""
        if self._is_closed:
            raise BackendFailed("it is asked no more")
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=self._concurrent_max)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        body = {
            "username": login.user_name,
            "password": login.password.decode("utf-8", "replace"),
            "client_id": login.client,
            "message_vpn": self._vpn,
            "address": login.host,
            "listener": login.listener,
        }
        try:
            async with self._session.post(
                self._url, json=body, headers=self._headers, allow_redirects=False
            ) as response:
                if response.status in NO:
                    return None
                if response.status != 200:
                    raise BackendFailed(f"it answers with status {response.status}")
                content = await response.content.read(ANSWER_BYTES_MAX + 1)
                while not response.content.at_eof() and len(content) <= ANSWER_BYTES_MAX:
                    content += await response.content.read(ANSWER_BYTES_MAX + 1 - len(content))
        except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError) as error:
            raise BackendFailed(f"{type(error).__name__}: {error}") from None
        return _admission_in(content)

    async def close(self) -> None:
        """Close its connections; it is asked no more."""
        self._is_closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def _admission_in(content: bytes) -> Admission | None:
    """Return what an answer says. Raises BackendFailed."""
    try:
        answer: Any = json.loads(content[: ANSWER_BYTES_MAX + 1])
    except ValueError:
        raise BackendFailed("its answer is no JSON, or too long") from None
    result = answer.get("result") if isinstance(answer, dict) else None
    if result == "deny":
        return None
    if result != "allow":
        raise BackendFailed('its answer has no "result", which is "allow" or "deny"')
    names = [answer.get(key, "") for key in ("client_profile", "acl_profile")]
    if not all(isinstance(each, str) for each in names):
        raise BackendFailed("its answer names a profile by something else than a text")
    return Admission(*names)
