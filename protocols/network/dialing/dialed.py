"""A connection to a neighbor broker that this broker makes: it logs in as a client does, and presents itself with LINK.

The same connection at the other end is a `FlowConnection`.
"""

import logging
from typing import Any, final

from sluicegate.actors.runtime.inbox import Flushed, Scheduled
from sluicegate.actors.runtime.runtime import ActorCell, Behaviour
from sluicegate.protocols.connection.counters import ProtocolCounters
from sluicegate.protocols.flow.client.errors import AuthenticationRefused
from sluicegate.protocols.flow.client.session.authentication import Login
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.codes import PeerViolation
from sluicegate.protocols.flow.codec.compression import DEFLATE
from sluicegate.protocols.flow.codec.frames.link import (
    VPN_FRAMES,
    Link,
)
from sluicegate.protocols.flow.codec.frames.session import (
    AuthAnswer,
    Close,
    Error,
    Goaway,
    Hello,
    Welcome,
)
from sluicegate.protocols.flow.codec.limits import FRAME_BYTES_MAX
from sluicegate.protocols.flow.engine.engine import FlowEngine
from sluicegate.protocols.flow.engine.events import FlowEvent, PeerViolated
from sluicegate.protocols.flow.links import LinkRefused, LinkWire
from sluicegate.protocols.network.link.links import Links
from sluicegate.protocols.network.link.neighbor import Neighbor
from sluicegate.protocols.transport.interface import ByteTransport
from sluicegate.protocols.transport.stream.user import StreamUser

log = logging.getLogger("sluicegate.network")


@final
class DialedConnection(Behaviour, Flushed, StreamUser):
    """One attempt to connect to a neighbor, and the connection that becomes of it.

    A `Connection` of `protocols.transport.interface`.
    """

    def __init__(
        self,
        cell: ActorCell,
        links: Links,
        neighbor: Neighbor,
        greeting: Link,
        product: str,
        counters: ProtocolCounters,
    ) -> None:
        settings = neighbor.settings
        options = settings.options
        self.cell = cell
        self._links = links
        self._neighbor = neighbor
        self._settings = settings
        self.address = settings.address  # where it is connected to, for logs
        self._greeting = greeting
        self._product = product
        self._counters = counters
        self._engine = FlowEngine(
            is_gateway=False,
            frame_bytes_max=FRAME_BYTES_MAX,
            connect_timeout_ms=int(options.connect_timeout_s * 1000),
            keep_alive_ms=int(options.keep_alive_s * 1000),
            now_ms=cell.runtime.clock.now_ms(),
        )
        is_encrypted = settings.tls is not None
        self._login: Login = Login(options, cell.runtime.rng.randbytes, is_encrypted=is_encrypted)
        self._welcome: Welcome | None = None
        self._transport: ByteTransport | None = None
        self._wire: LinkWire | None = None  # once the neighbor has let us in
        self._is_link = False  # LINK is answered
        self._reason = ""  # why it ends
        self._code = codes.NONE
        self._is_asked = False
        self._is_over = False

    # --- the transport ---

    def opened(self, transport: ByteTransport, peer: Any) -> None:
        """Begin: the transport is ready."""
        self._transport = transport
        options = self._settings.options
        features = (DEFLATE,) if options.compress else ()
        keep_alive_ms = int(options.keep_alive_s * 1000)
        self._engine.send(Hello(options.client_name, self._product, keep_alive_ms, features, options.vpn).encode())
        self.flush()

    def received(self, data: bytes) -> None:
        """Handle bytes of the neighbor."""
        self._counters.bytes_received += len(data)
        now_ms, wall_ms = self.cell.runtime.dispatcher.both_ms()
        self._handle(self._engine.feed(data, now_ms, wall_ms))

    def closed(self, error: Exception | None) -> None:
        """The transport is gone."""
        self._transport = None
        self._end("the connection was lost" if error is None else str(error) or type(error).__name__)
        self.cell.stop()

    def writing_paused(self) -> None:
        """The neighbor reads more slowly than we write."""
        if self._wire is not None:
            self._wire.paused()

    def writing_resumed(self) -> None:
        """The neighbor has caught up."""
        if self._wire is not None:
            self._wire.resumed()

    def tick(self, now_ms: int) -> None:
        """Check the neighbor's signs of life, and steps that take too long."""
        if self._transport is not None:
            self._handle(self._engine.tick(now_ms))

    def stalled(self, stall_ms: int, now_ms: int) -> None:
        """Do not count a time in which this broker read nothing."""
        self._engine.stalled(stall_ms, now_ms)

    def not_connected(self, reason: str) -> None:
        """There is no connection."""
        self._end(reason)
        self.cell.stop()

    # --- for the runtime ---

    def receive(self, message: Any) -> Any:
        """Ignore messages: nobody sends any."""

    def turn_ended(self) -> None:
        """Do nothing: output is written at the end of the turn in any case."""

    def stopped(self) -> None:
        """The link was removed, or the node stops."""
        self._end("the link was removed")
        if self._transport is not None:
            self._transport.close()

    def fail(self) -> None:
        """Abort after a fault of our own."""
        self._end("a fault of this broker; its log says more")
        if self._transport is not None:
            self._transport.abort()

    def owner(self) -> Scheduled | None:
        """Return the connection's actor."""
        return self.cell

    def flush(self) -> None:
        """Write what the engine has to say."""
        self._is_asked = False
        data = b"".join(self._engine.take())
        if data and self._transport is not None:
            self._counters.bytes_sent += len(data)
            self._engine.wrote(self.cell.runtime.clock.now_ms())
            self._transport.write(data)

    # --- events of the engine ---

    def _handle(self, events: list[FlowEvent]) -> None:
        try:
            for event in events:
                if isinstance(event, VPN_FRAMES):
                    if self._wire is not None and self._wire.user is not None:
                        self._wire.user.received(event)
                else:
                    self._handle_rare(event)
                if self._is_over:
                    break
        except PeerViolation as violation:
            self._hang_up(violation.code, violation.text)
        if self._engine.has_output and not self._is_asked:
            self._is_asked = True
            self.cell.runtime.dispatcher.at_turn_end(self)

    def _handle_rare(self, event: FlowEvent) -> None:
        if isinstance(event, Welcome | AuthAnswer):
            self._let_in(event)
        elif isinstance(event, Link):
            self._answered(event)
        elif isinstance(event, Error):
            self._code = event.code
            self._leave(event.text)
        elif isinstance(event, Goaway | Close):
            self._leave(event.text or codes.NAMES.get(event.code, "the neighbor closed the connection"))
        elif isinstance(event, PeerViolated):
            self._leave(event.text)

    def _let_in(self, event: Welcome | AuthAnswer) -> None:
        engine, login = self._engine, self._login
        try:
            if isinstance(event, Welcome):
                self._welcome = event
                next_word = login.begin(event.mechanisms)
            else:
                step = login.answer(event)
                if step is None:
                    self._open()
                    return
                next_word = step
        except AuthenticationRefused as refusal:
            self._code = codes.NOT_AUTHENTICATED
            self._leave(str(refusal))
            return
        engine.send(next_word.encode())

    def _open(self) -> None:
        transport, settings = self._transport, self._settings
        assert transport is not None, "it was read from"
        self._wire = LinkWire(
            self.cell,
            self._engine,
            self._counters,
            transport,
            address=self.address,
            is_encrypted=settings.tls is not None,
            hang_up=self._hang_up,
        )
        self._engine.send(self._greeting.encode())

    def _answered(self, link: Link) -> None:
        wire, welcome = self._wire, self._welcome
        assert wire is not None, "LINK was sent"
        assert welcome is not None, "WELCOME comes before everything else"
        if self._is_link or self._is_over:
            return
        try:
            self._links.answered(self._neighbor, wire, link, welcome.frame_bytes_max)
        except LinkRefused as refused:
            self._code = refused.code
            self._hang_up(refused.code, refused.text)
        else:
            self._is_link = True

    # --- the end ---

    def _hang_up(self, code: int, text: str) -> None:
        """End the connection on our initiative, with an error."""
        self._engine.close(code, text, self.cell.runtime.clock.now_ms())
        self._leave(text)

    def _leave(self, reason: str) -> None:
        """End the connection; what is said already goes out."""
        self.flush()
        self._end(reason)
        if self._transport is None:
            return
        if self._settings.tls is None:
            self._transport.close_after_flush()
        else:
            self._transport.close()  # asyncio's TLS knows no end of one side

    def _end(self, reason: str) -> None:
        """Report the end, once."""
        if self._is_over:
            return
        self._is_over = True
        if self._is_link:
            assert self._wire is not None, "it is a link"
            self._wire.code = self._wire.code or self._code
            self._wire.gone(reason)
        else:
            self._neighbor.dial_ended(reason, self._code)
            if self._wire is not None:
                self._wire.gone(reason)
