"""The lower half of an asyncio client: its connections, its session, and the listeners of their news.

Publishers, consumers and other handles are built on `ClientBase`; `Client`, which derives from it, makes them. A
`ClientSession` makes all decisions; this module brings it bytes and time, and wakes waiting tasks.
"""

import asyncio
import random
import secrets
import ssl
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, Self, cast

from sluicegate.protocols.flow.client.errors import ConnectFailed, FlowClientError
from sluicegate.protocols.flow.client.events import ClientEvent
from sluicegate.protocols.flow.client.options import ClientOptions, target_of
from sluicegate.protocols.flow.client.session.direct_inbox import DirectInbox
from sluicegate.protocols.flow.client.session.flow import ClientFlow
from sluicegate.protocols.flow.client.session.requests import Answer, Request
from sluicegate.protocols.flow.client.session.session import ClientSession

ALPN: Final = "gfp/1"
TICK_S: Final = 0.25
DEFAULT_OPTIONS: Final = ClientOptions()


class WaitQueue:
    """Waiting tasks, first come first served. Each checks its condition again when woken."""

    def __init__(self) -> None:
        self._line: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """Wait to be woken. A task that gives up passes its turn on."""
        turn = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with suppress(ValueError):  # `wake` has come upon it before us
                    self._line.remove(turn)
            else:
                self.wake(1)
            raise

    def wake(self, count: int) -> None:
        """Wake so many of those that wait longest."""
        while self._line and count > 0:
            turn = self._line.popleft()
            if not turn.done():  # else its task was cancelled and has not run yet
                turn.set_result(None)
                count -= 1

    def wake_all(self) -> None:
        """Wake all tasks that wait now."""
        self.wake(len(self._line))


class Listener:
    """Is notified of changes that concern it."""

    def on_news(self) -> None:
        """Check what has changed, and wake the tasks that wait for it."""
        raise AssertionError("each kind has its own news")


class ClientBase:
    """One client: it connects, again and again, and carries what its flows and requests have to say."""

    def __init__(
        self,
        url: str,
        options: ClientOptions = DEFAULT_OPTIONS,
        *,
        tls: ssl.SSLContext | None = None,
        on_event: Callable[[ClientEvent], None] | None = None,
    ) -> None:
        """Make a client, which connects when it is entered with `async with`.

            Client("flow://localhost")
            Client("flows://gate.example:55443", ClientOptions(username="ada", password="engine"))
            Client("flows://gate.example", tls=ssl.create_default_context(cafile="ca.pem"), on_event=print)

        - `url` (str): "flow://HOST[:PORT]", default port 55555, or "flows://HOST[:PORT]" for TLS, default port 55443.
        - `options` (ClientOptions): credentials, message VPN and timeouts; by default an anonymous client.
        - `tls` (ssl.SSLContext or None): whom to trust, and the client's certificate; None: the system's authorities.
        - `on_event` (function of a ClientEvent, or None): it is told of connections that are made and lost, and of
          flows. It is called on the event loop and must not block.

        Raises ValueError for a URL that names no gateway, and for `tls` without TLS.
        """
        self._target = target_of(url)
        if tls is not None and not self._target.is_tls:
            raise ValueError(f"{url} is not encrypted, so a TLS context has no use: flows:// is")
        self._tls = tls
        self._options = options
        self._on_event = on_event
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session = ClientSession(
            options, random_bytes=secrets.token_bytes, jitter=random.SystemRandom().random, now_ms=0
        )
        self._transport: asyncio.Transport | None = None
        self._is_full = False  # the socket takes no more
        self._flush_asked = False
        self._disconnected = asyncio.Event()  # the present connection is gone
        self._reason = ""  # why it is gone, or could not be made
        self._changed = WaitQueue()
        self._owners: dict[ClientFlow, Listener] = {}
        self._subscriber: Listener | None = None
        self._pending: dict[Request, asyncio.Future[Answer]] = {}
        self._direct_bytes = 0
        self._running: asyncio.Task[None] | None = None

    # --- from the first connection to the end ---

    async def __aenter__(self) -> Self:
        """Connect and authenticate. Raises ConnectFailed, AuthenticationRefused or ConnectionBroken."""
        assert self._running is None, "a client is entered once"
        self._loop = asyncio.get_running_loop()
        self._running = self._loop.create_task(self._run(), name=f"flow client of {self._target.host}")
        try:
            while not self._session.was_open:
                self._session.check_running()
                if self._running.done():
                    raise ConnectFailed(f"{self._target.host}:{self._target.port}: {self._reason}")
                await self._changed.wait()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def error(self) -> FlowClientError | None:
        """The error that ended the client; None while it runs."""
        return self._session.error

    @property
    def is_connected(self) -> bool:
        """Whether there is an authenticated connection."""
        return self._session.is_open

    async def close(self) -> None:
        """Close, with everything on it. Unanswered messages may or may not be stored: close publishers first."""
        if self._loop is None or self._running is None or self._running.done():
            return
        self._session.close(self._now_ms())
        self._notify()
        self.flush()
        await asyncio.wait({self._running}, timeout=self._options.close_timeout_s)
        await self._stop()

    async def _stop(self) -> None:
        """End at once."""
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        await self._hang_up()
        self._session.close(0)
        self._session.disconnected("closed", 0)
        self._notify()

    # --- for publishers and consumers ---

    @property
    def close_timeout_s(self) -> float:
        """How long a publisher or consumer may take to close."""
        return self._options.close_timeout_s

    @property
    def direct(self) -> DirectInbox:
        """Subscriptions and direct messages."""
        return self._session.direct

    def check_running(self) -> None:
        """Raise the error that ended the client, if it has ended."""
        self._session.check_running()

    def begin_direct(self, subscriber: Listener, waiting_bytes_max: int) -> None:
        """Give the direct messages to a subscriber."""
        self.check_running()
        if self._subscriber is not None:
            raise RuntimeError("a client has one subscriber at a time: direct messages do not say whose they are")
        self._subscriber = subscriber
        self._session.direct.bytes_max = waiting_bytes_max

    async def end_direct(self) -> None:
        """End the delivery of direct messages, and all subscriptions."""
        self._subscriber = None
        ended = self._session.direct.clear()
        if self._session.error is None and self._session.is_open:
            try:
                async with asyncio.timeout(self.close_timeout_s):
                    await asyncio.gather(*(self.ask(each.end()) for each in ended), return_exceptions=True)
            except TimeoutError:
                text = f"the gateway has not confirmed the end of the subscriptions within {self.close_timeout_s:g} s"
                raise TimeoutError(text) from None

    async def ask(self, request: Request) -> Answer:
        """Send a request; return the answer. Raises RequestRefused, or the error that ended the client."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._session.ask(request)
        self._pending[request] = answer
        self.ask_flush()
        return await answer

    def add(self, flow: ClientFlow, owner: Listener) -> None:
        """Open a flow. Raises FlowClientError when the client has ended."""
        if self._loop is None:
            raise RuntimeError("the client is not connected: `async with client` comes first")
        self._session.add(flow, self._now_ms())
        self._owners[flow] = owner
        self.ask_flush()

    def remove(self, flow: ClientFlow) -> None:
        """End a flow."""
        self._session.remove(flow)
        self._notify()
        self.ask_flush()

    def forget(self, flow: ClientFlow) -> None:
        """A flow has ended, and its owner knows."""
        self._owners.pop(flow, None)

    def ask_flush(self) -> None:
        """Write pending output in the loop's next turn, together with all else of this one."""
        if not self._flush_asked and self._loop is not None:
            self._flush_asked = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write pending output, as far as the socket takes it."""
        self._flush_asked = False
        self._direct_bytes = 0
        transport, session = self._transport, self._session
        while transport is not None and not self._is_full:
            data = session.take(self._now_ms())
            if not data:
                break
            transport.write(data)
        if transport is not None and session.wants_hangup:
            transport.close()
        self._notify()

    def _notify(self) -> None:
        """Notify the owners of changed flows, and report events."""
        session = self._session
        for flow in session.flows.take_news():
            owner = self._owners.get(flow)
            if owner is not None:
                owner.on_news()
        done, session.requests.done = session.requests.done, []
        for request in done:
            self._answer(request)
        if self._subscriber is not None and (session.direct.has_news or session.error is not None):
            session.direct.has_news = False
            self._subscriber.on_news()
        events = session.take_events()
        if events:
            self._changed.wake_all()
        for event in events:
            self._tell(event)

    def _answer(self, request: Request) -> None:
        answer = self._pending.pop(request, None)
        if answer is None:
            self._session.direct.answered(request)
            return
        if answer.done():  # the caller has given up
            return
        if request.error is not None:
            answer.set_exception(request.error)
        else:
            assert request.answer is not None, "a request is answered, or has failed"
            answer.set_result(request.answer)

    def _tell(self, event: ClientEvent) -> None:
        if self._on_event is not None and self._loop is not None:
            try:
                self._on_event(event)
            except Exception as error:  # the program's own; the connection stays
                context = {"message": f"on_event failed for {event}", "exception": error}
                self._loop.call_exception_handler(context)

    # --- connections ---

    def _now_ms(self) -> int:
        assert self._loop is not None, "the client was entered"
        return int(self._loop.time() * 1000)

    async def _run(self) -> None:
        """Connect, again and again. Ends when the session does, or when the first connection cannot be made."""
        session = self._session
        while session.error is None:
            self._reason = await self._connect()
            if not self._reason:
                await self._serve()
            self._reason = session.disconnected(self._reason, self._now_ms())
            self._changed.wake_all()
            self._notify()
            if not session.was_open:
                return
            if session.error is None:
                await asyncio.sleep(max(0, session.connect_at_ms - self._now_ms()) / 1000)
        self._changed.wake_all()

    async def _connect(self) -> str:
        """Make a connection; return why there is none, or nothing."""
        target = self._target
        loop = asyncio.get_running_loop()
        self._disconnected.clear()
        try:
            async with asyncio.timeout(self._options.connect_timeout_s):
                await loop.create_connection(
                    lambda: Connection(self),
                    target.host,
                    target.port,
                    ssl=(self._tls or default_tls()) if target.is_tls else None,
                )
        except TimeoutError:
            await self._hang_up()
            return f"no connection within {self._options.connect_timeout_s:g} s"
        except (OSError, UnicodeError) as error:  # ssl.SSLError is the first; the second is of a name that no host has
            text = str(error) or type(error).__name__
            if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLCertVerificationError):
                text = f"the TLS handshake failed: {text}; a port without TLS has a URL with flow://"
            elif target.is_tls and isinstance(error, ConnectionError) and not error.errno:  # asyncio's, without a word
                text = "the TLS handshake failed: the connection was closed; a port without TLS has a URL with flow://"
            return text
        return ""

    async def _serve(self) -> None:
        """Bring time, until the connection is gone."""
        while not self._disconnected.is_set():
            try:
                async with asyncio.timeout(TICK_S):
                    await self._disconnected.wait()
            except TimeoutError:
                self._session.tick(self._now_ms())
                self.flush()

    async def _hang_up(self) -> None:
        """Drop the connection, if there is one."""
        if self._transport is not None:
            self._transport.abort()
            await self._disconnected.wait()

    def on_connection(self, transport: asyncio.Transport) -> None:
        """Begin with a connection."""
        self._transport = transport
        self._is_full = False
        self._session.connected(self._now_ms(), is_encrypted=self._target.is_tls)
        self.flush()

    def on_data(self, data: bytes) -> None:
        """Handle bytes of the gateway."""
        self._session.feed(data, self._now_ms(), time.time_ns() // 1_000_000)
        self.flush()

    def on_full(self, is_full: bool) -> None:
        """Note whether the socket takes more."""
        self._is_full = is_full
        if not is_full:
            self._changed.wake_all()
            self.ask_flush()

    def on_gone(self, reason: str) -> None:
        """The connection is gone."""
        self._transport = None
        self._reason = reason
        self._disconnected.set()


class Connection(asyncio.Protocol):
    """The asyncio protocol of one connection."""

    def __init__(self, client: "ClientBase") -> None:
        self._client = client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._client.on_connection(cast(asyncio.Transport, transport))  # uvloop's has another base

    def data_received(self, data: bytes) -> None:
        """Pass on the data."""
        self._client.on_data(data)

    def pause_writing(self) -> None:
        """The socket takes no more."""
        self._client.on_full(True)

    def resume_writing(self) -> None:
        """It takes more again."""
        self._client.on_full(False)

    def connection_lost(self, error: Exception | None) -> None:
        """End."""
        self._client.on_gone("closed by the gateway" if error is None else str(error) or type(error).__name__)


def default_tls() -> ssl.SSLContext:
    """Return a context that trusts the system's authorities."""
    context = ssl.create_default_context()
    context.set_alpn_protocols([ALPN])
    return context
