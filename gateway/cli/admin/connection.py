"""HTTP requests to a gateway's admin port: JSON bodies, the login, and errors as messages to print.

The operations and their answers are in `gateway.cli.admin.client`.
"""

import copy
import http.client
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from queue import Empty, SimpleQueue
from typing import Final
from urllib.parse import urlencode, urlsplit

import orjson

from sluicegate.gateway.cli.terminal.credentials import LOGIN, AdminLogin
from sluicegate.gateway.cli.terminal.failures import UNREACHABLE, USAGE, CommandFailed, unreachable
from sluicegate.messaging.message.vpn import DEFAULT_VPN

SIGN_IN_ADVICE: Final = "Log in with sluicegate --admin-username NAME ..., or set SLUICEGATE_ADMIN_USERNAME."
URL_OPTIONS: Final = "--url or SLUICEGATE_URL"
ADDRESS_ADVICE: Final = f"Give another address with {URL_OPTIONS}."
RELEASE_ADVICE: Final = f"Use the gateway's own release; `sluicegate version` prints this one. {ADDRESS_ADVICE}"
TIMEOUT_S: Final = 35.0  # longer than the node's own timeout for a stuck operation
# A gateway that has not answered for the first is asked whether it is there, and has the second to say so.
PATIENCE_S: Final = 5.0
PROBE_S: Final = 5.0
PROBE_PATH: Final = "/health/live"  # needs no account, and is answered while operations are being carried out
EVENTS_TYPE: Final = "text/event-stream"
EVENT_DATA: Final = b"data: "  # a line of it
AUTHORIZATION: Final = "Authorization"


class RequestRefused(CommandFailed):
    """The gateway has refused a request. `members` are those of its problem details (RFC 9457)."""

    def __init__(self, text: str, *, advice: str, members: Mapping[str, object]) -> None:
        super().__init__(text, advice=advice)
        self.members = members


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follow no redirects: urllib would send the login to any host, and turn a POST into a GET."""

    def redirect_request(self, req: urllib.request.Request, *_: object) -> None:
        """Return None, so that the redirect becomes an HTTPError."""


@cache
def _opener() -> urllib.request.OpenerDirector:
    """Return the opener for requests. It is built on first use, because that reads the machine's certificates."""
    return urllib.request.build_opener(_NoRedirects)


class AdminPort:
    """The admin port of one gateway, for one message VPN. Requests raise CommandFailed with a message to print."""

    def __init__(self, url: str, vpn: str) -> None:
        if not _is_address(url):
            advice = "The form is http://HOST:PORT."
            raise CommandFailed(f"{url!r} is not the address of an admin port", exit_code=USAGE, advice=advice)
        self._url = url.rstrip("/")
        self._vpn = vpn
        self._headers = {"Accept": "application/json"}
        authorization = LOGIN.get(AdminLogin()).authorization(self._url)
        if authorization is not None:
            self._headers[AUTHORIZATION] = authorization

    def in_vpn(self, vpn: str) -> "AdminPort":
        """Return the port for another message VPN, with the same login, which is read only once."""
        other = copy.copy(self)
        other._vpn = vpn
        return other

    def ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> object:
        """Send a request; return the JSON document of the answer, None for an empty one."""
        with self._open(method, path, body, timeout_s=TIMEOUT_S) as response:
            raw: bytes = response.read()
        return self._parsed(raw) if raw else None

    def follow(self, path: str) -> Iterator[object]:
        """Yield the JSON documents of an answer as they arrive, one per line, until the gateway ends it."""
        with self._open("GET", path, None, timeout_s=None) as lines:
            for line in lines:
                yield self._parsed(line)

    def events(self, path: str) -> Iterator[object]:
        """Yield the JSON documents of an event stream as they arrive, until the gateway ends it."""
        with self._open("GET", path, None, timeout_s=None) as lines:
            if lines.headers.get_content_type() != EVENTS_TYPE:
                raise self._no_admin_port()
            for line in lines:
                if line.startswith(EVENT_DATA):
                    yield self._parsed(line.removeprefix(EVENT_DATA))

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
            with self._answer(request, timeout_s) as response:
                yield response
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(error, is_stranger=AUTHORIZATION not in headers) from None
        except OSError as error:
            reason = getattr(error, "reason", None) or error
            if isinstance(reason, TimeoutError) and reason.errno is None:  # with errno, the system's own text is better
                reason = f"the answer was interrupted for {timeout_s:g} s"
            raise unreachable(self._url, reason, URL_OPTIONS) from None
        except http.client.IncompleteRead:
            raise unreachable(self._url, "the answer is incomplete", URL_OPTIONS) from None
        except http.client.HTTPException:  # its text is what was received, with any control characters
            raise unreachable(self._url, "the server there does not speak HTTP", URL_OPTIONS) from None

    def _answer(self, request: urllib.request.Request, timeout_s: float | None) -> http.client.HTTPResponse:
        """Send a request; return the answer, of which the head has arrived.

        A slow operation is waited for as long as the gateway is there. One that answers nothing is given up.
        """
        answered: SimpleQueue[http.client.HTTPResponse | Exception] = SimpleQueue()

        def exchange() -> None:
            try:
                answered.put(_opener().open(request, timeout=timeout_s))
            except Exception as error:  # raised below, in the thread of the command
                answered.put(error)

        threading.Thread(target=exchange, daemon=True, name="request").start()
        try:
            try:
                answer = answered.get(timeout=PATIENCE_S)
            except Empty:
                answer = answered.get(timeout=TIMEOUT_S if self._is_there() else 0)
        except Empty:
            reason = f"it has not answered for {PATIENCE_S + PROBE_S:g} s"
            raise unreachable(self._url, reason, URL_OPTIONS) from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _is_there(self) -> bool:
        """Return whether anything answers at the address. Whatever is not silence counts."""
        try:
            _opener().open(self._url + PROBE_PATH, timeout=PROBE_S).close()
        except urllib.error.HTTPError as error:
            error.close()
        except (TimeoutError, urllib.error.URLError):
            return False
        except (OSError, http.client.HTTPException):
            return True
        return True

    def _parsed(self, raw: bytes) -> object:
        try:
            value: object = orjson.loads(raw)
        except orjson.JSONDecodeError:
            raise self._no_admin_port() from None
        return value

    def _no_admin_port(self, why: str = "") -> CommandFailed:
        text = f"the server at {self._url} is not a Sluicegate admin port{why}"
        return CommandFailed(text, exit_code=UNREACHABLE, advice=ADDRESS_ADVICE)

    def _refused(self, error: urllib.error.HTTPError, *, is_stranger: bool) -> CommandFailed:
        """Return the problem that the gateway reported, or that the answer is not a gateway's."""
        location = error.headers.get("Location")
        if location is not None:
            text = f"{error.url} redirects to {location!r}; the login is not sent there"
            return CommandFailed(f"{text}: give the admin port's own address")
        advice = SIGN_IN_ADVICE if is_stranger and error.code == http.HTTPStatus.UNAUTHORIZED else ""
        try:
            problem: object = orjson.loads(error.read())
        except (orjson.JSONDecodeError, OSError, http.client.HTTPException):
            problem = None
        if isinstance(problem, dict) and isinstance(problem.get("detail"), str):
            if error.code == http.HTTPStatus.METHOD_NOT_ALLOWED:  # the port of publishers, for example
                return self._no_admin_port(f", or one of another release: {problem['detail']}")
            return RequestRefused(str(problem["detail"]), advice=advice, members=problem)
        text = f"{self._url} answered {error.code} {error.reason!r:.80}, which is not an answer of a gateway"
        return CommandFailed(text, advice=advice or ADDRESS_ADVICE)


def _is_address(url: str) -> bool:
    """Return whether requests can be sent to an address. It must not contain a login, which others could see."""
    try:
        parts = urlsplit(url)
        port = parts.port  # parsed on access
    except ValueError:
        return False
    is_sendable = url.isprintable() and " " not in url and parts.path.isascii()  # allowed in an HTTP request line
    is_http = parts.scheme in ("http", "https") and bool(parts.hostname)
    return is_sendable and is_http and port != 0 and "@" not in parts.netloc
