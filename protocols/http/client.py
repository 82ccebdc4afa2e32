"""One HTTP client, as its requests see it: who it is, which message VPN it is in, what it publishes and reads.

`SignIn` authenticates its requests, and `CrossOrigin` decides which web pages may read the responses. The connection
derives from `HttpClient` and brings the transport, the clock and the order of requests (`connection`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol, final

from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.clock import Clock
from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.runtime import ActorCell, Behaviour
from sluicegate.messaging.clients.names import name_by_broker
from sluicegate.messaging.clients.rights import NOT_AUTHENTICATED, ClientDenied
from sluicegate.messaging.clients.roster import ClientRoster
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.selectors.selector import Selectors
from sluicegate.protocols.connection.counters import ProtocolCounters, Traffic
from sluicegate.protocols.connection.identity import Identity
from sluicegate.protocols.connection.message_vpns import MessageVpns
from sluicegate.protocols.connection.passed_client import PassedClient
from sluicegate.protocols.connection.read_control import ReadControl
from sluicegate.protocols.http.codec.message_in import VPN_HEADER
from sluicegate.protocols.http.codec.requests import ClientLeft, Request, basic_credentials
from sluicegate.protocols.http.codec.responses import (
    BAD_REQUEST,
    CHALLENGES,
    UNAUTHORIZED,
    HttpProblem,
    ResponseHeads,
    refusal_problem,
)
from sluicegate.protocols.http.consuming.flow import FlowReader
from sluicegate.protocols.http.consuming.flows import HttpFlows
from sluicegate.protocols.http.publishing.publishing import PendingPublishes, Submission
from sluicegate.protocols.http.publishing.request_reply import ReplyBox
from sluicegate.protocols.security.authentication import ANONYMOUS, Authenticator, Principal
from sluicegate.protocols.transport.interface import PeerInfo
from sluicegate.protocols.transport.origins import OriginRefusal, WebPages
from sluicegate.protocols.transport.passing.passage import Passage
from sluicegate.protocols.transport.unfinished import UnfinishedBytes


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """The limits of HTTP clients that operators set."""

    body_bytes_max: int  # of a request, as it is sent and after gzip is undone
    message_bytes_max: int  # of each message in it
    batch_messages_max: int
    head_timeout_ms: int  # from the first byte of a request to the end of its headers, and from accept to the first
    body_timeout_ms: int  # of silence within a body, and for what of it comes more slowly than at the least rate
    body_rate_min: int  # bytes a second, on the average of a whole body
    keep_alive_ms: int  # from an answer to the next request
    flows_max: int  # of all clients
    flows_per_client_max: int
    unsettled_max: int  # that a flow may hold
    lock_ms: int  # that a worker has to settle a message, unless it says otherwise
    lock_ms_max: int
    wait_ms_max: int  # that a request may wait for messages


class Brokers(Protocol):
    """The brokers of this machine, as far as requests about flows need them."""

    @property
    def number(self) -> int:
        """The number of this one."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all, in the order of their numbers, which begin with 1."""

    def passage_to(self, broker: int) -> Passage | None:
        """Return the passage to a broker, None while it does not run."""


@dataclass(frozen=True, slots=True)
class HttpServices:
    """The services that the HTTP connections of one message VPN share."""

    events: Events
    space: TopicSpace
    router: ActorCell
    queues: ActorCell
    flows: HttpFlows
    selectors: Selectors
    spool: Address
    authenticator: Authenticator
    clients: ClientRoster
    pages: Mapping[str, WebPages]  # which may use a listener's port, by its name
    limits: HttpLimits
    counters: ProtocolCounters
    unfinished: UnfinishedBytes  # of all clients of the node
    heads: ResponseHeads
    is_gateway: bool  # every request is relayed, and waits for its reply
    brokers: Brokers | None  # of this machine; None: there is one
    files_max: int  # the number of a file from which on none is opened for clients


@final
class SignIn:
    """Authentication of one connection's requests: by Authorization, by the client certificate, or anonymous.

    Passwords take tens of milliseconds to check, by design; so a connection remembers the last header that was right, a
    token's for as long as it is valid, a password's for as long as the account has it.
    """

    def __init__(self, vpns: MessageVpns[HttpServices], peer: PeerInfo, clock: Clock) -> None:
        self.services = vpns.of_listener(peer.listener)  # of the message VPN that the latest request was for
        self._vpns = vpns
        self._clock = clock
        self._peer = peer
        self._verified_header = ""
        self._verified_by = self.services  # of the VPN that the request with that header was for, but for its user name
        self._verified_services = self.services
        self._verified_secret: str | None = None  # that the header was held against; None: it is a token
        self._verified = ANONYMOUS

    def known(self, authorization: str, here: HttpServices) -> Principal | None:
        """Return who sends a request where nothing has to be checked for that, else None. Raises HttpProblem.

        The request is for the message VPN `here`, unless the user's name says another one.
        """
        self.services = here
        if not authorization:
            return self._without_words()
        if authorization == self._verified_header and here is self._verified_by and self._holds():
            self.services = self._verified_services
            return self._verified
        return None

    async def principal(self, authorization: str, here: HttpServices) -> Principal:
        """Return who sends a request. Raises ClientDenied, and HttpProblem: 401 without a word of what was wrong."""
        known = self.known(authorization, here)
        if known is not None:
            return known
        scheme, _, value = authorization.partition(" ")
        if scheme.lower() == "basic":
            name, password = _credentials(value.strip())
            name, self.services = self._vpns.of_user(name, here, "")
            authenticator, peer = self.services.authenticator, self._peer
            principal = await authenticator.client(name, password, listener=peer.listener, host=peer.host)
            if principal is not None and authenticator.asks_about(name):
                return principal  # for how long its backend's answer holds, it knows itself
            if principal is ANONYMOUS:
                return principal  # it costs nothing to see again, and whether strangers are let in may change
        elif scheme.lower() == "bearer":
            principal = await self.services.authenticator.bearer(value.strip().encode(), self._peer.host)
        else:
            raise _unauthorized("the scheme of the Authorization header is not supported here")
        if principal is None:
            raise _unauthorized("the credentials are wrong")
        self._verified_header = authorization
        self._verified_by = here
        self._verified_services = self.services
        self._verified_secret = self.services.authenticator.credentials.secrets.get(principal.user_name)
        self._verified = principal
        return principal

    def _holds(self) -> bool:
        """Return whether the remembered header still proves what it did.

        A connection that others use as well is not ended when its user is deleted, nor is any by another password.
        """
        verified = self._verified
        if 0 < verified.valid_until_ms < self._clock.wall_ms():
            return False
        return (
            self._verified_services.authenticator.credentials.secrets.get(verified.user_name) == self._verified_secret
        )

    def _without_words(self) -> Principal:
        authenticator, name = self.services.authenticator, self._peer.certificate_name
        if name is not None and authenticator.knows(name):
            principal = authenticator.certificate(name)
            if principal is not None:
                return principal
        if authenticator.admits_anonymous(self._peer.listener):
            return ANONYMOUS
        raise _unauthorized("this port requires authentication")


def _credentials(value: str) -> tuple[str, bytes]:
    try:
        return basic_credentials(value)
    except ValueError as problem:
        raise HttpProblem(BAD_REQUEST, str(problem)) from None


def _unauthorized(detail: str) -> HttpProblem:
    return HttpProblem(UNAUTHORIZED, detail, headers=[(b"www-authenticate", CHALLENGES)])


ANY_HEADER: Final = b"*"
PREFLIGHT_CACHED_S: Final = 600


@final
class CrossOrigin:
    """CORS (the Fetch standard): which web pages may read the responses on one connection.

    Whether a request of a page is answered at all is decided in `protocols.transport.origins`.
    """

    def __init__(self, pages: WebPages) -> None:
        self._pages = pages

    def refusal(self, request: Request) -> OriginRefusal | None:
        """Return why a request is refused, None if it is not. The page may read the answer if its origin is allowed."""
        origin = request.header("origin")
        if origin:
            request.answer_headers = self._headers(origin)
            origin = ", ".join(request.values("origin"))
        return self._pages.refusal(request.host, origin, request.header("sec-fetch-site"))

    def preflight(self, request: Request, methods: bytes) -> list[tuple[bytes, bytes]]:
        """Return what else a page is told that asks what it may send; `methods` are those of the path."""
        if not self._headers(request.header("origin")):
            return []
        asked = request.header("access-control-request-headers").encode("latin-1", "replace")
        fields = [
            (b"access-control-allow-methods", methods),
            (b"access-control-allow-headers", asked),
            (b"access-control-max-age", str(PREFLIGHT_CACHED_S).encode()),
        ]
        # Chromium asks for a page of the Internet before it goes to a machine that others there cannot reach.
        if request.header("access-control-request-private-network"):
            fields.append((b"access-control-allow-private-network", b"true"))
        return fields

    def _headers(self, origin: str) -> list[tuple[bytes, bytes]]:
        """Return what lets a page read an answer; nothing for pages that may not, and for other clients."""
        if not origin or not self._pages.allows(origin):
            return []
        return [
            (b"access-control-allow-origin", origin.encode("latin-1", "replace")),
            (b"access-control-expose-headers", ANY_HEADER),  # attributes of messages are headers, and users name them
            (b"vary", b"origin"),
        ]


class HttpClient(Behaviour):
    """What requests need of the connection on which they came."""

    cross_origin: CrossOrigin  # from `opened` on

    def __init__(self, cell: ActorCell, vpns: MessageVpns[HttpServices]) -> None:
        self.cell = cell
        self.runtime = cell.runtime
        services = vpns.default
        self.vpns = vpns
        self.services = services  # of the message VPN that the latest request was for
        self.read_control = ReadControl(cell.inbox)
        self.name = name_by_broker("http", services.space.broker, cell.runtime.next_urn())
        self.identity = Identity(services.clients)
        self.replies = self._reply_box(services)
        self.publishing = PendingPublishes(self._publisher(services), services.counters.confirmations)
        self.peer_host = ""
        self.peer: PeerInfo | None = None  # from `opened` on
        self._visitor: PassedClient | None = None  # who it is, as another broker of this machine has found out
        self.has_left = False  # the transport is gone
        self.sign_in: SignIn | None = None  # from `opened` on
        self.listener_services = services  # of the message VPN of the listener
        self.counters = services.counters
        self.traffic = Traffic()
        self.writable: LoopFuture[None] | None = None  # the client reads slower than we write
        self.resumed: LoopFuture[None] | None = None  # a request waits until the client may publish again
        self.reader: FlowReader | None = None  # what the present request reads messages with
        self.since_ms = 0  # the first byte of a head, the last of a body so far, or the last answer
        self._clock = cell.runtime.clock
        self._peer_name = "?"
        self._reading_end: str | None = None  # why no request reads any more

    def proceed(self) -> None:
        """Begin requests in their turn, write responses, and pause or resume reading."""
        raise AssertionError("the connection does that")

    def peer_name(self) -> str:
        """Return where the client is, for logs."""
        return self._peer_name

    # --- what requests need ---

    async def whole(self, request: Request, bytes_max: int) -> bytes:
        """Return the body of a request, once all of it is there. Raises HttpProblem and ClientLeft."""
        request.check_size(bytes_max)
        request.read()
        while not request.is_whole and not request.is_answered:
            self.proceed()
            await request.more()
            request.check_size(bytes_max)
        return request.body(bytes_max)

    def begin_stream(self, request: Request, headers: list[tuple[bytes, bytes]]) -> None:
        """Begin a streamed response: its head goes out at once, before there is any body."""
        request.begin_stream(headers)
        self.proceed()

    async def stream_more(self, request: Request, data: bytes) -> None:
        """Send more of a response; return when the client's socket takes more again."""
        request.stream(data)
        self.proceed()
        if self.writable is not None:
            await self.writable

    async def pass_on(self, request: Request, data: bytes) -> None:
        """Send bytes of another broker's answer; return when the client's socket takes more again."""
        request.pass_on(data)
        self.proceed()
        if self.writable is not None:
            await self.writable

    def services_of(self, request: Request) -> HttpServices:
        """Return the services of the message VPN of a request, by its header or its listener. Raises HttpProblem."""
        name = request.header(VPN_HEADER)
        if not name:
            return self.listener_services
        try:
            return self.vpns.named(name, self.listener_services, self.name)
        except ClientDenied as denied:
            raise self._refused(denied) from None

    def is_known(self, request: Request, here: HttpServices) -> bool:
        """Return whether the client is authenticated without waiting, and admit it. Raises HttpProblem."""
        assert self.sign_in is not None, "the transport comes before its requests"
        try:
            principal = self.sign_in.known(request.header("authorization"), here)
        except HttpProblem as problem:
            self._denied(problem)
            raise
        if principal is None:
            return False
        self._enter(self.sign_in.services)
        self._admit(principal, request)
        return True

    async def principal(self, request: Request, here: HttpServices) -> Principal:
        """Authenticate the client of a request, and admit it. Raises HttpProblem."""
        if self._visitor is not None:
            return self._visiting(self._visitor)
        assert self.sign_in is not None, "the transport comes before its requests"
        try:
            principal = await self.sign_in.principal(request.header("authorization"), here)
        except ClientDenied as denied:
            raise self._refused(denied) from None
        except HttpProblem as problem:
            self._denied(problem)
            raise
        self._enter(self.sign_in.services)
        self._admit(principal, request)
        return principal

    def visit(self, visitor: PassedClient) -> None:
        """Serve a request of a client that another broker of this machine has authenticated (`requests.relayed`)."""
        self._visitor = visitor

    def _visiting(self, visitor: PassedClient) -> Principal:
        """Give a client its rights that has its place at another broker. Raises HttpProblem."""
        try:
            self._enter(self.vpns.of_passed(visitor, self.listener_services))
        except ClientDenied as denied:
            raise self._refused(denied) from None
        self.publishing.publisher.rights = self.identity.visit(
            visitor.principal, visitor.name, self.cell.runtime.clock.now_ms()
        )
        return visitor.principal

    def _denied(self, problem: HttpProblem) -> None:
        assert self.sign_in is not None, "the transport comes before its requests"
        if problem.status == UNAUTHORIZED:
            text = f"401 Unauthorized: HTTP client at {self._peer_name}: {problem.detail}"
            self.sign_in.services.clients.denials.deny(NOT_AUTHENTICATED, self.name, text)
            self.counters.count(self.counters.refused, NOT_AUTHENTICATED)

    def _admit(self, principal: Principal, request: Request) -> None:
        """Admit the client of a request, again when its user has changed. Raises HttpProblem."""
        is_same = self.identity.user == principal.user_name
        self.identity.authenticated(principal)
        admitted = self.identity.admitted()
        if is_same and admitted is not None:
            request.rights, request.vpn = admitted, self.identity.vpn
            return
        try:
            rights = self.identity.admit(self.name, self.peer_host, self.cell.runtime.clock.now_ms())
        except ClientDenied as denied:
            raise self._refused(denied) from None
        request.rights, request.vpn = rights, self.identity.vpn
        self.publishing.publisher.rights = rights
        self.read_control.limit(rights)

    def _refused(self, denied: ClientDenied) -> HttpProblem:
        """Count a request that is refused; return the error for its response."""
        self.counters.count(self.counters.refused, denied.reason)
        return refusal_problem(denied.text, "")

    def _enter(self, services: HttpServices) -> None:
        """Enter the message VPN of these services. Earlier requests go on in their own."""
        if services is self.services:
            return
        self.services = services
        self.identity.enter(services.clients)
        self.publishing.publisher = self._publisher(services)
        self.replies.end()
        self.replies = self._reply_box(services)

    def _reply_box(self, services: HttpServices) -> ReplyBox:
        return ReplyBox(self.cell, services.router, services.counters, services.space.broker, client=self.name)

    def _publisher(self, services: HttpServices) -> Publisher:
        address, rng = self.cell.inbox, self.runtime.rng
        return Publisher(space=services.space, spool=services.spool, address=address, rng=rng)

    def read_with(self, reader: FlowReader | None) -> None:
        """Set the reader of the present request: it ends with the connection, and when the node stops.

        Either may have come while the request waited for what it reads from.
        """
        self.reader = reader
        if self._reading_end is not None:
            self.end_reading(self._reading_end)

    def end_reading(self, reason: str) -> None:
        """End the reader of the present request, and of any later one."""
        self._reading_end = reason
        reader, self.reader = self.reader, None
        if reader is not None:
            reader.ended(reason)

    def publish(self, batches: list[MessageBatch], submission: Submission) -> None:
        """Publish batches, each of one destination; the submission is told the result of each."""
        count = sum([batch.count for batch in batches])
        self.counters.messages_received += count
        self.traffic.messages_received += count
        self.publishing.publish(batches, submission)
        self.read_control.published(self.publishing.publisher.pressures, self.publishing.unanswered_count)

    def count_sent(self, count: int) -> None:
        """Count messages that the client is sent."""
        self.services.counters.messages_sent += count
        self.traffic.messages_sent += count

    async def wait_for_destinations(self) -> None:
        """Wait until every destination that this client feeds can take more. Raises ClientLeft."""
        while self.read_control.stopped:
            resumed: LoopFuture[None] = LoopFuture()
            self.resumed = resumed
            await resumed
            if self.has_left:
                raise ClientLeft
            self.since_ms = self._clock.now_ms()

    def resume_publishing(self) -> None:
        """Resume the request that waits in `wait_for_destinations`."""
        resumed, self.resumed = self.resumed, None
        if resumed is not None:
            resumed.set()
