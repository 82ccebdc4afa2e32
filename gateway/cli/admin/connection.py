"""Requests to a gateway's admin port: paths and JSON, the login, and what went wrong in words for people.

What is asked there, and what the answers are, is `gateway.cli.admin.client`.
"""

import copy
import http.client
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Final
from urllib.parse import urlencode, urlsplit

import orjson

from sluicegate.gateway.cli.admin.login import LOGIN, AdminLogin
from sluicegate.gateway.cli.terminal.failures import UNREACHABLE, USAGE, CommandFailed, unreachable
from sluicegate.messaging.message.vpn import DEFAULT_VPN

SIGN_IN_ADVICE: Final = "Your account: sluicegate --admin-user NAME ..., or SLUICEGATE_ADMIN_USER."
URL_OPTIONS: Final = "--url or SLUICEGATE_URL"
ADDRESS_ADVICE: Final = f"Another address: {URL_OPTIONS}."
RELEASE_ADVICE: Final = f"Take the gateway's own release; `sluicegate version` says this one. {ADDRESS_ADVICE}"
TIMEOUT_S: Final = 35.0  # longer than the node takes to say that it is stuck
AUTHORIZATION: Final = "Authorization"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Goes nowhere else than it was told: urllib would take the login along, to whatever host, and make GET of POST."""

    def redirect_request(self, req: urllib.request.Request, *_: object) -> None:
        """Leave it at the answer."""


@cache
def _opener() -> urllib.request.OpenerDirector:
    """Return what sends requests. Making it reads the machine's certificates: commands that ask nobody do without."""
    return urllib.request.build_opener(_NoRedirects)


class AdminPort:
    """One gateway's admin port, for one message VPN. What is asked raises CommandFailed with a message for people."""

    def __init__(self, url: str, vpn: str) -> None:
        if not _is_address(url):
            advice = "Write it like http://HOST:PORT."
            raise CommandFailed(f"{url!r} is no address of an admin port", exit_code=USAGE, advice=advice)
        self._url = url.rstrip("/")
        self._vpn = vpn
        self._headers = {"Accept": "application/json"}
        authorization = LOGIN.get(AdminLogin()).authorization()
        if authorization is not None:
            self._headers[AUTHORIZATION] = authorization

    def in_vpn(self, vpn: str) -> "AdminPort":
        """Return the same for another message VPN: with the same login, which is asked for and read once."""
        other = copy.copy(self)
        other._vpn = vpn
        return other

    def ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> object:
        """Return the document that answers a request, None for an empty answer."""
        with self._open(method, path, body, timeout_s=TIMEOUT_S) as response:
            raw: bytes = response.read()
        return self._parsed(raw) if raw else None

    def follow(self, path: str) -> Iterator[object]:
        """Yield the documents of an answer as they come, one a line, until the gateway ends it."""
        with self._open("GET", path, None, timeout_s=None) as lines:
            for line in lines:
                yield self._parsed(line)

    @contextmanager
    def _open(
        self, method: str, path: str, body: Mapping[str, object] | None, *, timeout_s: float | None
    ) -> Iterator[http.client.HTTPResponse]:
        data = None if body is None else orjson.dumps(body)
        headers = self._headers | ({"Content-Type": "application/json"} if data else {})
        if self._vpn != DEFAULT_VPN:
            path += f"{'&' if '?' in path else '?'}{urlencode({'vpn': self._vpn})}"
        request = urllib.request.Request(self._url + path, data=data, method=method, headers=headers)
        try:
            with _opener().open(request, timeout=timeout_s) as response:
                yield response
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(error, is_stranger=AUTHORIZATION not in headers) from None
        except OSError as error:
            reason = getattr(error, "reason", None) or error
            if isinstance(reason, TimeoutError) and reason.errno is None:  # else it is the system's, with its words
                reason = f"it takes connections, and has said nothing for {timeout_s:g} s"
            raise unreachable(self._url, reason, URL_OPTIONS) from None
        except http.client.IncompleteRead:
            raise unreachable(self._url, "the answer breaks off", URL_OPTIONS) from None
        except http.client.HTTPException:  # its text would be what came, whatever that does to a terminal
            raise unreachable(self._url, "what answers there does not speak HTTP", URL_OPTIONS) from None

    def _parsed(self, raw: bytes) -> object:
        try:
            value: object = orjson.loads(raw)
        except orjson.JSONDecodeError:
            text = f"what answers at {self._url} is no Sluicegate admin port"
            raise CommandFailed(text, exit_code=UNREACHABLE, advice=ADDRESS_ADVICE) from None
        return value

    def _refused(self, error: urllib.error.HTTPError, *, is_stranger: bool) -> CommandFailed:
        """Return what the gateway said was wrong, or that it was no gateway who said it."""
        elsewhere = error.headers.get("Location")
        if elsewhere is not None:
            text = f"{error.url} points to {elsewhere!r}, and no login is taken there"
            return CommandFailed(f"{text}; give the admin port's own address")
        advice = SIGN_IN_ADVICE if is_stranger and error.code == http.HTTPStatus.UNAUTHORIZED else ""
        try:
            problem: object = orjson.loads(error.read())
        except (orjson.JSONDecodeError, OSError, http.client.HTTPException):
            problem = None
        if isinstance(problem, dict) and isinstance(problem.get("detail"), str):
            return CommandFailed(str(problem["detail"]), advice=advice)
        text = f"{self._url} answered {error.code} {error.reason!r:.80}, and not in a gateway's words"
        return CommandFailed(text, advice=advice or ADDRESS_ADVICE)


def _is_address(url: str) -> bool:
    """Tell whether requests can be sent there. A login is no part of it: it would be a word of the command line."""
    try:
        parts = urlsplit(url)
        port = parts.port  # which is read now
    except ValueError:
        return False
    is_sent = url.isprintable() and " " not in url and parts.path.isascii()  # what a request may have in its head
    return (
        is_sent and parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0 and "@" not in parts.netloc
    )
