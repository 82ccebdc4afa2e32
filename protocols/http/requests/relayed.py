"""Requests about flows that another broker of this machine has: relayed to it, each over a stream of its own.

A flow is an actor of one broker, and its id begins with the number of that broker. The kernel gives a worker's next
connection to any of them. So the request is written anew for the broker that has the flow, with who the client is, and
the response comes back byte by byte. The connection stays where it is: its other requests are served here.
"""

from typing import Final, final

import httptools

from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.protocols.connection.passed_client import PassedClient
from sluicegate.protocols.http.client import HttpClient
from sluicegate.protocols.http.codec.requests import ClientLeft, Request
from sluicegate.protocols.http.codec.responses import UNAVAILABLE, HttpProblem
from sluicegate.protocols.http.consuming.delivery_forms import FLOW_PREFIX
from sluicegate.protocols.http.consuming.flow import FlowReader
from sluicegate.protocols.http.consuming.flows import broker_of
from sluicegate.protocols.security.authentication import Principal
from sluicegate.protocols.transport.interface import ByteTransport, PeerInfo
from sluicegate.protocols.transport.passing.moves import open_stream
from sluicegate.protocols.transport.passing.passage import MESSAGE_BYTES_MAX, PassageFull
from sluicegate.protocols.transport.passing.passed_peer import HTTP_CLIENT, encode_peer
from sluicegate.protocols.transport.stream.stream import Origin, TcpStream
from sluicegate.protocols.transport.stream.user import StreamUser

AHEAD_BYTES_MAX: Final = 256 * 1024  # of a response that the client has not taken
RETRY_AFTER: Final = b"1"  # seconds; a broker that has died is back after some

# What the request says of its own form: it has another one on its way.
_OF_ITS_FORM: Final = ("content-encoding", "content-length", "expect", "host", "transfer-encoding", "upgrade")
_ORIGIN: Final = Origin("relay", lambda: None)  # of the pairs, which no listener counts


def home_of_request(client: HttpClient, request: Request, *, is_flow: bool) -> int:
    """Return the other broker that has the flow of a request; 0: it is for this one."""
    brokers = client.services.brokers
    if brokers is None:
        return 0
    if is_flow:
        home = broker_of(request.raw_path.decode("latin-1")[len(FLOW_PREFIX) :])
    else:  # a browser that connects again to where it began
        home = broker_of(request.header("last-event-id")) if request.method == "GET" else 0
    if home == brokers.number or home > len(brokers.names):
        return 0
    if not is_flow and home:
        passage = brokers.passage_to(home)
        if passage is None or not passage.is_open:
            return 0  # its flow is gone, and it begins another one here
    return home


async def relay_to_broker(client: HttpClient, request: Request, principal: Principal, home: int) -> None:
    """Answer a request with the response of another broker. Raises HttpProblem and ClientLeft."""
    body = await client.whole(request, client.services.limits.body_bytes_max)
    response = _Response(_stream_to(client, request, principal, home, body))
    client.read_with(response)
    try:
        while data := await response.more():
            await client.pass_on(request, data)
    finally:
        client.read_with(None)
        response.end()
    if client.has_left:
        raise ClientLeft
    if response.is_complete or (request.is_http_1_0 and response.has_begun):
        request.end_passing(is_last=not response.keeps_alive)
    else:
        raise _away(f"broker {home} of this machine, which has the flow, has gone")


def _stream_to(client: HttpClient, request: Request, principal: Principal, home: int, body: bytes) -> TcpStream:
    """Return a stream to the other broker, which gets the request. Raises HttpProblem."""
    brokers, peer = client.services.brokers, client.peer
    assert brokers is not None, "the flow is at another one"
    assert peer is not None, "the transport comes before its requests"
    passage = brokers.passage_to(home)
    if passage is None or not passage.is_open:
        raise _away(f"broker {home} of this machine, which has the flow, is away")
    granted = client.services.authenticator.granted(principal.user_name)
    who = PassedClient(client.identity.vpn, client.name, principal, granted)
    message = HTTP_CLIENT + encode_peer(peer, who.encode(b""))
    data = _written(request, body)
    fits = len(message) + len(data) <= MESSAGE_BYTES_MAX
    try:
        stream = open_stream(passage, message + data if fits else message, files_max=client.services.files_max)
    except (PassageFull, OSError) as error:
        raise _away(f"broker {home} of this machine, which has the flow, takes no more requests: {error}") from None
    if not fits:
        stream.write(data)
    return stream


def _away(detail: str) -> HttpProblem:
    return HttpProblem(UNAVAILABLE, detail, reason="Broker Away", headers=[(b"retry-after", RETRY_AFTER)])


def _written(request: Request, body: bytes) -> bytes:
    """Return a request as it goes to the other broker, with its whole body, gzip undone."""
    target = request.raw_path + (b"?" + request.raw_query if request.raw_query else b"")
    version = b"HTTP/1.0" if request.is_http_1_0 else b"HTTP/1.1"
    lines = [b" ".join((request.method.encode("ascii"), target, version))]
    if request.host:
        lines.append(b"host: " + request.host.encode("utf-8"))
    lines += [
        name.encode("latin-1") + b": " + value.encode("utf-8")
        for name, value in request.fields
        if name.lower() not in _OF_ITS_FORM
    ]
    if body:
        lines.append(b"content-length: %d" % len(body))
    return b"\r\n".join([*lines, b"", body])


@final
class _Response(FlowReader, StreamUser):
    """The response of the other broker, as it comes."""

    def __init__(self, stream: TcpStream) -> None:
        self.is_complete = False
        self.has_begun = False
        self.keeps_alive = True
        self._stream = stream
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._pieces: list[bytes] = []
        self._ahead_bytes = 0
        self._is_over = False  # nothing more comes
        self._came: LoopFuture[None] | None = None
        stream.open(self, _ORIGIN, "", 0)
        stream.resume_reading()

    async def more(self) -> bytes:
        """Return what has come since the last call, once there is anything; nothing at the end."""
        if not self._pieces and not self._is_over:
            self._came = LoopFuture()
            await self._came
        data = b"".join(self._pieces)
        self._pieces.clear()
        if self._ahead_bytes >= AHEAD_BYTES_MAX:
            self._stream.resume_reading()
        self._ahead_bytes = 0
        return data

    def end(self) -> None:
        """Have nothing more to do with it."""
        self._is_over = True
        self._parser = None  # it holds us, and we it
        self._stream.close()

    # --- the stream ---

    def opened(self, transport: ByteTransport, peer: PeerInfo) -> None:
        """Do nothing: it is open from the beginning."""

    def received(self, data: bytes) -> None:
        """Take bytes of the response."""
        parser = self._parser
        if parser is None:
            return
        self._pieces.append(data)
        self._ahead_bytes += len(data)
        if self._ahead_bytes >= AHEAD_BYTES_MAX:
            self._stream.pause_reading()
        parser.feed_data(data)
        self._wake()

    def closed(self, error: Exception | None) -> None:
        """The other broker has closed the stream, or died."""
        self._is_over = True
        self._wake()

    def writing_paused(self) -> None:
        """Do nothing: a request is written at once."""

    def writing_resumed(self) -> None:
        """Do nothing, as well."""

    # --- the client ---

    def ended(self, reason: str) -> None:
        """The client has left, or this broker stops."""
        self._is_over = True
        self._stream.close()
        self._wake()

    # --- what the parser says ---

    def on_headers_complete(self) -> None:
        """Note that there is a response."""
        parser = self._parser
        assert parser is not None, "it has ended"
        self.has_begun = True
        self.keeps_alive = parser.should_keep_alive()

    def on_message_complete(self) -> None:
        """Note the end of the response."""
        self.is_complete = self._is_over = True

    def _wake(self) -> None:
        came, self._came = self._came, None
        if came is not None:
            came.set()
