"""A client on asyncio: it makes connections for a `ClientSession`, brings it bytes and time, and wakes who waits."""

import asyncio
import random
import secrets
import ssl
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from sluicegate.protocols.flow.client.aio.bulk import Bulk
from sluicegate.protocols.flow.client.aio.consumer import (
    BROWSE_WINDOW_DEFAULT,
    UNSETTLED_MAX_DEFAULT,
    WINDOW_BYTES_DEFAULT,
    Browser,
    Consumer,
)
from sluicegate.protocols.flow.client.aio.owner import FlowOwner, WaitingLine
from sluicegate.protocols.flow.client.aio.publisher import BYTES_MAX_DEFAULT, Publisher
from sluicegate.protocols.flow.client.aio.queues import Queues
from sluicegate.protocols.flow.client.aio.subscriber import WAITING_BYTES_DEFAULT, Subscriber
from sluicegate.protocols.flow.client.aio.wire import Wire, default_tls
from sluicegate.protocols.flow.client.errors import ConnectFailed, FlowClientError
from sluicegate.protocols.flow.client.events import ClientEvent
from sluicegate.protocols.flow.client.messages import Message
from sluicegate.protocols.flow.client.options import ClientOptions, target_of
from sluicegate.protocols.flow.client.session.direct_inbox import DirectInbox
from sluicegate.protocols.flow.client.session.flow import ClientFlow
from sluicegate.protocols.flow.client.session.requests import Answer, Request
from sluicegate.protocols.flow.client.session.session import ClientSession

TICK_S: Final = 0.25
DIRECT_BYTES_MAX: Final = 256 * 1024  # gathered before they are written
WINDOW_DEFAULT: Final = 1_000
DEFAULT_OPTIONS: Final = ClientOptions()


class Client:
    """A client of one gateway, between `async with` and its end. It connects again by itself, as long as it takes.

    `on_event` is called with each ClientEvent, on the event loop; it must not block. For `flows://` a context of one's
    own may be given as `tls`, with authorities or a certificate; it should offer `gfp/1` by ALPN. One event loop only:
    nothing here may be called from other threads.
    """

    def __init__(
        self,
        url: str,
        options: ClientOptions = DEFAULT_OPTIONS,
        *,
        tls: ssl.SSLContext | None = None,
        on_event: Callable[[ClientEvent], None] | None = None,
    ) -> None:
        """Raises ValueError for a URL that names no gateway."""
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
        self._gone = asyncio.Event()  # the present connection
        self._reason = ""  # why it is
        self._changed = WaitingLine()
        self._owners: dict[ClientFlow, FlowOwner] = {}
        self._subscriber: Subscriber | None = None
        self._asked: dict[Request, asyncio.Future[Answer]] = {}
        self._direct_bytes = 0
        self._running: asyncio.Task[None] | None = None

    # --- what programs do with it ---

    async def __aenter__(self) -> Self:
        """Connect, and be let in. Raises ConnectFailed, AuthenticationRefused or ConnectionBroken."""
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
        """What the client has ended with; None while it goes on."""
        return self._session.error

    @property
    def is_connected(self) -> bool:
        """Whether the gateway has let us in, on a connection that stands."""
        return self._session.is_open

    def publisher(
        self, name: str = "", *, window: int = WINDOW_DEFAULT, window_bytes: int = BYTES_MAX_DEFAULT
    ) -> Publisher:
        """Return a publisher, to be entered with `async with`.

        With a name it returns after crashes of either side and stores nothing twice; the name must be nobody else's.
        `window` messages and about `window_bytes` may be without answer; who publishes more waits.
        """
        return Publisher(self, name, window=window, window_bytes=window_bytes)

    def consumer(
        self,
        queue: str,
        *,
        window: int = WINDOW_DEFAULT,
        window_bytes: int = WINDOW_BYTES_DEFAULT,
        unsettled_max: int = UNSETTLED_MAX_DEFAULT,
        renew_every_s: float = 0.0,
        selector: str = "",
        acknowledges_partitions: bool = False,
    ) -> Consumer:
        """Return a consumer of a queue, to be entered with `async with`; with a selector, of messages it selects.

        `window` messages and about `window_bytes` are fetched ahead of the program; `unsettled_max` may be unsettled in
        all (0: as many as the gateway allows). With `renew_every_s` everything that is held is extended so often.
        With `acknowledges_partitions` the program hears of its partitions, and lets go of them by its own word.
        """
        return Consumer(
            self,
            queue,
            window=window,
            window_bytes=window_bytes,
            unsettled_max=unsettled_max,
            renew_every_s=renew_every_s,
            selector=selector,
            acknowledges_partitions=acknowledges_partitions,
        )

    def browser(self, queue: str, *, window: int = BROWSE_WINDOW_DEFAULT, selector: str = "") -> Browser:
        """Return a browser of a queue, to be entered with `async with`; with a selector, of messages it selects.

        `window` messages are fetched ahead of the program.
        """
        return Browser(self, queue, window=window, selector=selector)

    def subscriber(self, *, waiting_bytes_max: int = WAITING_BYTES_DEFAULT) -> Subscriber:
        """Return a subscriber to topics, to be entered with `async with`; about so much may wait to be taken."""
        return Subscriber(self, waiting_bytes_max=waiting_bytes_max)

    @property
    def queues(self) -> Queues:
        """Queues to make, change and delete."""
        return Queues(self)

    @property
    def bulk(self) -> Bulk:
        """Reading and writing in bulk."""
        return Bulk(self)

    async def publish_direct(self, message: Message) -> None:
        """Publish at most once: nothing is answered or sent again. Waits while there is no connection, or it is full.

        Raises FlowClientError when the client has ended.
        """
        session = self._session
        while not session.is_open or self._is_full:
            session.check_running()
            await self._changed.wait()
        session.publish_direct(message)
        self._direct_bytes += len(message.payload)
        if self._direct_bytes > DIRECT_BYTES_MAX:
            self.flush()
        else:
            self.ask_flush()

    async def close(self) -> None:
        """Close, with everything on it. What publishers have no answer for is stored or not: close them before."""
        if self._loop is None or self._running is None or self._running.done():
            return
        self._session.close(self._now_ms())
        self._look()
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
        self._look()

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
        """Raise what the client has ended with, if it has."""
        self._session.check_running()

    def begin_direct(self, subscriber: Subscriber, waiting_bytes_max: int) -> None:
        """Let a subscriber have the direct messages."""
        self.check_running()
        if self._subscriber is not None:
            raise RuntimeError("a client has one subscriber at a time: direct messages do not say whose they are")
        self._subscriber = subscriber
        self._session.direct.bytes_max = waiting_bytes_max

    async def end_direct(self) -> None:
        """Let nobody have them."""
        self._subscriber = None
        ended = self._session.direct.clear()
        if self._session.error is None and self._session.is_open:
            async with asyncio.timeout(self.close_timeout_s):
                await asyncio.gather(*(self.ask(each.end()) for each in ended), return_exceptions=True)

    async def ask(self, request: Request) -> Answer:
        """Ask the gateway for something; return the answer. Raises RequestRefused, or what the client ended with."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._session.ask(request)
        self._asked[request] = answer
        self.ask_flush()
        return await answer

    def add(self, flow: ClientFlow, owner: FlowOwner) -> None:
        """Open a flow. Raises FlowClientError when the client has ended."""
        if self._loop is None:
            raise RuntimeError("the client is not connected: `async with client` comes first")
        self._session.add(flow, self._now_ms())
        self._owners[flow] = owner
        self.ask_flush()

    def remove(self, flow: ClientFlow) -> None:
        """End a flow."""
        self._session.remove(flow)
        self._look()
        self.ask_flush()

    def forget(self, flow: ClientFlow) -> None:
        """A flow has ended, and its owner knows."""
        self._owners.pop(flow, None)

    def ask_flush(self) -> None:
        """Write what there is to say in the loop's next turn, together with what else comes up in this one."""
        if not self._flush_asked and self._loop is not None:
            self._flush_asked = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what there is to say, as far as the socket takes it."""
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
        self._look()

    def _look(self) -> None:
        """Wake those whose flows have news, and tell what happened."""
        session = self._session
        for flow in session.flows.take_news():
            owner = self._owners.get(flow)
            if owner is not None:
                owner.on_news()
        done, session.asking.done = session.asking.done, []
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
        answer = self._asked.pop(request, None)
        if answer is None:
            self._session.direct.answered(request)
            return
        if answer.done():  # who asked has given up
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
            except Exception as error:  # the program's own; its connection goes on
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
            self._look()
            if not session.was_open:
                return
            if session.error is None:
                await asyncio.sleep(max(0, session.connect_at_ms - self._now_ms()) / 1000)
        self._changed.wake_all()

    async def _connect(self) -> str:
        """Make a connection; return why there is none, or nothing."""
        target = self._target
        loop = asyncio.get_running_loop()
        self._gone.clear()
        try:
            async with asyncio.timeout(self._options.connect_timeout_s):
                await loop.create_connection(
                    lambda: Wire(self),
                    target.host,
                    target.port,
                    ssl=(self._tls or default_tls()) if target.is_tls else None,
                )
        except TimeoutError:
            await self._hang_up()
            return f"no connection after {self._options.connect_timeout_s} s"
        except (OSError, UnicodeError) as error:  # ssl.SSLError is the first; the second is of a name that no host has
            return str(error) or type(error).__name__
        return ""

    async def _serve(self) -> None:
        """Bring time, until the connection is gone."""
        while not self._gone.is_set():
            try:
                async with asyncio.timeout(TICK_S):
                    await self._gone.wait()
            except TimeoutError:
                self._session.tick(self._now_ms())
                self.flush()

    async def _hang_up(self) -> None:
        """Drop the connection, if there is one."""
        if self._transport is not None:
            self._transport.abort()
            await self._gone.wait()

    def on_connection(self, transport: asyncio.Transport) -> None:
        """Begin with a connection."""
        self._transport = transport
        self._is_full = False
        self._session.connected(self._now_ms(), is_encrypted=self._target.is_tls)
        self.flush()

    def on_data(self, data: bytes) -> None:
        """Take in what the gateway says."""
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
        self._gone.set()
