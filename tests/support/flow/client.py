"""A client of the flow protocol on a real socket, over the engine: one frame at a time, nothing automatic."""

import asyncio
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeVar, cast

from sluicegate.messaging.message.headers import Headers
from sluicegate.protocols.flow.codec import frame as frames
from sluicegate.protocols.flow.codec.frame import CLOSE_PUB, UNBIND
from sluicegate.protocols.flow.codec.frames.deliver import Delivered
from sluicegate.protocols.flow.codec.frames.flow import Bind, Bound, FlowEnd, OpenPub, PubOpened
from sluicegate.protocols.flow.codec.frames.publish import PubAck, Refusal, write_publish
from sluicegate.protocols.flow.codec.frames.session import AUTH_DONE, Auth, AuthAnswer, Error, Hello, Welcome
from sluicegate.protocols.flow.codec.frames.settle import OUTCOME_ACCEPTED, Credit, Settle
from sluicegate.protocols.flow.codec.frames.subscription import Subscribe, Subscribed
from sluicegate.protocols.flow.engine.engine import FlowEngine
from sluicegate.protocols.flow.engine.events import DeliveriesReceived, FlowEvent, PeerViolated

DEADLINE_S = 20
FRAME_BYTES_MAX = 64 * 1024 * 1024
E = TypeVar("E")


class Refused(Exception):
    """The gateway answered with an ERROR."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.text)
        self.error = error


class FlowClient:
    """One connection. `events` has the gateway's frames that no call has taken yet, in order."""

    def __init__(
        self,
        port: int,
        *,
        name: str = "client",
        keep_alive_ms: int = 30_000,
        tls: ssl.SSLContext | None = None,
        receive_buffer_bytes: int = 0,
        features: tuple[str, ...] = (),
        vpn: str = "",
    ) -> None:
        self.events: list[FlowEvent] = []
        self.is_closed = False
        self.welcome: Welcome | None = None
        self._port = port
        self._tls = tls
        self._receive_buffer_bytes = receive_buffer_bytes  # of the socket; 0: the system's choice
        self._hello = Hello(name, "test", keep_alive_ms, features, vpn)
        self._engine = FlowEngine(
            is_gateway=False,
            frame_bytes_max=FRAME_BYTES_MAX,
            connect_timeout_ms=DEADLINE_S * 1000,
            keep_alive_ms=keep_alive_ms,
            now_ms=0,
        )
        self._arrived = asyncio.Event()
        self._next_flow_id = 1
        self._next_request_id = 1

    # --- the session ---

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def connect(self) -> Welcome:
        """Connect, and read the gateway's offer."""
        end = socket.socket()
        end.setblocking(False)
        if self._receive_buffer_bytes:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)
        name = None if self._tls is None else "127.0.0.1"
        try:
            await asyncio.get_running_loop().sock_connect(end, ("127.0.0.1", self._port))
            self._reader, self._writer = await asyncio.open_connection(sock=end, ssl=self._tls, server_hostname=name)
        except BaseException:
            end.close()
            raise
        self._reading = asyncio.create_task(self._read())
        try:
            self.send(self._hello.encode())
            self.welcome = await self.heard(Welcome)
        except BaseException:
            self.cut()
            raise
        return self.welcome

    async def open(self) -> None:
        """Connect, and be let in without a name."""
        await self.connect()
        answer = await self.authenticate("ANONYMOUS", None)
        assert answer.state == AUTH_DONE

    async def authenticate(self, mechanism: str, data: bytes | None) -> AuthAnswer:
        """Take one step of an authentication."""
        self.send(Auth(mechanism, data).encode())
        return await self.heard(AuthAnswer)

    async def close(self) -> None:
        """Close the session, and wait for the end."""
        self._engine.close(0, "", 0)
        self.send(b"")
        await self.ended()

    async def ends(self) -> None:
        """Send nothing more, and wait until the gateway has read everything and closed."""
        self._writer.write_eof()
        await self.ended()

    def cut(self) -> None:
        """Drop the connection without a word."""
        self._writer.transport.abort()

    async def ended(self) -> None:
        """Wait until the connection is gone."""
        async with asyncio.timeout(DEADLINE_S):
            await asyncio.gather(self._reading, return_exceptions=True)
            self._writer.close()
            with suppress(OSError):  # cut off by the gateway
                await self._writer.wait_closed()

    def send(self, data: bytes) -> None:
        """Send frames, whatever they are."""
        self._engine.send(data)
        if not self._writer.is_closing():
            self._writer.write(b"".join(self._engine.take()))

    async def _read(self) -> None:
        with suppress(ConnectionError):
            while data := await self._reader.read(65_536):
                self.events += self._engine.feed(data, 0, time.time_ns() // 1_000_000)
                self.send(b"")
                self._arrived.set()
        self._writer.close()  # as programs do: a gateway that stops gives who does not a second
        self.is_closed = True
        self._arrived.set()

    # --- what the gateway said ---

    async def heard(self, kind: type[E], matches: Callable[[E], bool] = lambda _: True) -> E:
        """Wait for an event, and take it out. Raises Refused for an ERROR, unless that is waited for."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                for event in self.events:
                    if isinstance(event, kind) and matches(event):
                        self.events.remove(event)
                        return event
                    if isinstance(event, PeerViolated):
                        raise AssertionError(f"the gateway broke a rule: {event}")
                    if isinstance(event, Error) and kind is not Error:
                        self.events.remove(event)
                        raise Refused(event)
                assert not self.is_closed, f"the connection is gone, and there was no {kind.__name__}: {self.events}"
                self._arrived.clear()
                await self._arrived.wait()

    # --- publishing ---

    def ids(self) -> tuple[int, int]:
        """Return a new flow id and a new request id."""
        self._next_flow_id += 1
        self._next_request_id += 1
        return self._next_flow_id - 1, self._next_request_id - 1

    @property
    def transport(self) -> asyncio.Transport:
        """The transport below."""
        return cast(asyncio.Transport, self._writer.transport)  # uvloop's has another base

    async def opens_publisher(self, name: str = "", window: int = 0) -> PubOpened:
        flow_id, request_id = self.ids()
        self.send(OpenPub(flow_id, request_id, name, window).encode())
        return await self.heard(PubOpened, lambda opened: opened.request_id == request_id)

    def publishes(
        self,
        flow_id: int,
        sequences: list[int],
        *,
        topic: str = "t",
        queue: str = "",
        payload: bytes | None = None,
        headers: Headers | None = None,
    ) -> None:
        """Send messages whose payloads are their sequences, unless one is given. Flow 0: direct ones."""
        self.send(
            b"".join(
                write_publish(
                    flow_id,
                    sequence,
                    queue or topic,
                    str(sequence).encode() if payload is None else payload,
                    headers,
                    to_queue=bool(queue),
                    ttl_ms=0,
                    delay_ms=0,
                )
                for sequence in sequences
            )
        )

    async def answered(self, flow_id: int, through: int) -> list[Refusal]:
        """Wait until everything is answered up to a sequence; return the refusals."""
        refusals: list[Refusal] = []
        while True:
            ack = await self.heard(PubAck, lambda ack: ack.flow_id == flow_id)
            refusals += ack.refusals
            if ack.answered_through >= through:
                return refusals

    async def closes_publisher(self, flow_id: int) -> None:
        self.send(FlowEnd(CLOSE_PUB, flow_id, 0, False).encode())
        await self.heard(FlowEnd)

    # --- consuming ---

    async def binds(self, queue: str, *, credit: int = 1000, unsettled_max: int = 0) -> int:
        flow_id, request_id = self.ids()
        self.send(Bind(flow_id, request_id, queue, unsettled_max, credit).encode())
        await self.heard(Bound, lambda bound: bound.request_id == request_id)
        return flow_id

    async def unbinds(self, flow_id: int) -> None:
        self.send(FlowEnd(UNBIND, flow_id, 0, False).encode())
        await self.heard(FlowEnd)

    async def receives_in_all(self, count: int, flow_id: int) -> list[Delivered]:
        """Return the next `count` deliveries of a flow; that more have come is an error."""
        received: list[Delivered] = []
        while len(received) < count:
            event = await self.heard(DeliveriesReceived, lambda event: event.flow_id == flow_id)
            received += event.deliveries
        assert len(received) == count, f"{count} were expected: {received}"
        return received

    def grants(self, flow_id: int, delivery_id_max: int, *, recalls: bool = False) -> None:
        self.send(Credit(flow_id, delivery_id_max, recalls, False).encode())

    def settles(self, flow_id: int, first: int, last: int, outcome: int = OUTCOME_ACCEPTED) -> None:
        self.send(Settle(flow_id, 0, ((first, last, outcome),)).encode())

    def accepts_through(self, flow_id: int, last: int) -> None:
        self.send(Settle(flow_id, last, ()).encode())


async def subscribes(
    client: FlowClient, topic_filter: str, *priorities: str, selector: str = "", kind: int = frames.SUBSCRIBE
) -> None:
    _, request_id = client.ids()
    client.send(Subscribe(kind, request_id, topic_filter, priorities, selector).encode())
    await client.heard(Subscribed, lambda answer: answer.request_id == request_id)
