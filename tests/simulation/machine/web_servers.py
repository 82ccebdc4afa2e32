"""Web servers in memory, to which REST delivery points push: they answer well, badly, late, in part, or not at all.

They judge nothing: `push_tap` sees the same bytes at the node's end.
"""

import asyncio
import errno
from collections.abc import Callable
from random import Random
from typing import Any, Final

import httptools

from simulation.clients.client import Later
from simulation.wires.memory_network import LATENCY_US, OutgoingWire
from simulation.wires.push_tap import PushTap

# How a server is disposed for the time being.
WILLING, MOODY, LATE, SILENT, REFUSING, UNREACHABLE = "willing", "moody", "late", "silent", "refusing", "unreachable"
MOODS: Final = (WILLING, WILLING, MOODY, MOODY, MOODY, LATE, SILENT, REFUSING, UNREACHABLE)

# What it does with one request.
DONE, DECLINES, FAILS, BREAKS, BREAKS_OFF, WAITS, IGNORES, CHATTERS = range(8)
DEEDS: Final = {
    WILLING: (DONE,),
    MOODY: (DONE, DONE, DONE, DONE, DECLINES, FAILS, FAILS, BREAKS, BREAKS_OFF, WAITS, IGNORES, CHATTERS),
    LATE: (WAITS,),
    SILENT: (IGNORES,),
    REFUSING: (DONE, FAILS),
    UNREACHABLE: (DONE, BREAKS),
}
DONE_WITH: Final = (200, 200, 201, 202, 204, 299)
DECLINED_WITH: Final = (400, 404, 407, 422)
FAILED_WITH: Final = (301, 308, 408, 409, 429, 500, 503)
LATE_US_MAX, PIECE_US_MAX, LOOKS_AGAIN_S = 6_000_000, 50_000, 0.5
CLOSING_SHARE, CHUNKED_SHARE, HINT_SHARE, BODY_BYTES_MAX = 0.1, 0.2, 0.1, 300
UNASKED: Final = b"HTTP/1.1 204 No Content\r\nX-Unasked: yes\r\n\r\n"


class Visit:
    """One connection of the node to a server, at the server's end."""

    def __init__(self, server: "WebServer") -> None:
        self.wire: OutgoingWire | None = None
        self.is_busy = False  # with a request whose answer is not sent whole
        self._waiting_count = 0  # requests behind it
        self._server = server
        self._requests = httptools.HttpRequestParser(self)

    def received(self, data: bytes) -> None:
        """Bytes of the node have arrived."""
        self._requests.feed_data(data)

    def disconnected(self) -> None:
        """The node has ended the connection, or has died."""
        self.wire = None
        self._server.visits.pop(self, None)

    def on_message_complete(self) -> None:
        """A request is whole. Requests are answered in turn [RFC 9112 9.3.2], also where an answer comes in pieces.

        There are several when the node has taken an answer that it did not ask for as that to the first.
        """
        self._waiting_count += 1
        if not self.is_busy:
            self._turn_to_next()

    def answered(self) -> None:
        """The answer to a request is sent whole."""
        self.is_busy = False
        if self._waiting_count:
            self._turn_to_next()

    def sends(self, data: bytes) -> None:
        """Send a part of an answer, if the connection is still there."""
        if self.wire is not None:
            self.wire.send(data)

    def breaks(self) -> None:
        """Break the connection."""
        wire = self.wire
        self.disconnected()
        if wire is not None:
            wire.hang_up()

    def ends(self) -> None:
        """Close the connection in good order."""
        wire = self.wire
        self.disconnected()
        if wire is not None:
            wire.finish()

    def _turn_to_next(self) -> None:
        self._waiting_count -= 1
        self.is_busy = True
        self._server.asked(self)


class WebServer:
    """One server, behind one port."""

    def __init__(self, later: Later) -> None:
        self.mood = WILLING
        self.visits: dict[Visit, None] = {}
        self.rng = Random(0)  # seeded anew by each step
        self._later = later

    def asked(self, visit: Visit) -> None:
        """Do something with a request."""
        deed = self.rng.choice(DEEDS[self.mood])
        if deed == DONE:
            self._answers(visit, self.rng.choice(DONE_WITH))
        elif deed == DECLINES:
            self._answers(visit, self.rng.choice(DECLINED_WITH))
        elif deed == FAILS:
            self._answers(visit, self.rng.choice(FAILED_WITH))
        elif deed == BREAKS:
            self._later(self.rng.randrange(PIECE_US_MAX), visit.breaks)
        elif deed == BREAKS_OFF:
            answer, _ = self._answer(self.rng.choice(DONE_WITH))
            visit.sends(answer[: self.rng.randrange(1, len(answer))])
            self._later(self.rng.randrange(PIECE_US_MAX), self.rng.choice((visit.breaks, visit.ends)))
        elif deed == WAITS:
            status = self.rng.choice((*DONE_WITH, *DECLINED_WITH, *FAILED_WITH))
            self._later(self.rng.randrange(LATE_US_MAX), lambda: self._answers(visit, status))
        elif deed == CHATTERS:
            visit.sends(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            self.says_something(visit)
            visit.answered()

    def says_something(self, visit: Visit) -> None:
        """Send a response that no request has asked for, a little later, if it has nothing else to do by then."""
        self._later(self.rng.randrange(PIECE_US_MAX), lambda: None if visit.is_busy else visit.sends(UNASKED))

    def breaks_all(self) -> None:
        """Break all connections."""
        for visit in list(self.visits):
            visit.breaks()

    def stalls(self, stalls: bool) -> None:
        """Stop reading, or continue."""
        for visit in self.visits:
            if visit.wire is not None:
                visit.wire.stall(stalls)

    def _answers(self, visit: Visit, status: int) -> None:
        answer, is_last = self._answer(status)
        cut = self.rng.randrange(len(answer))
        visit.sends(answer[:cut] or answer)
        if cut:
            self._later(self.rng.randrange(PIECE_US_MAX), lambda: self._sends_rest(visit, answer[cut:], is_last))
        else:
            self._sends_rest(visit, b"", is_last)

    def _sends_rest(self, visit: Visit, rest: bytes, is_last: bool) -> None:
        if rest:
            visit.sends(rest)
        if is_last:
            visit.ends()
        else:
            visit.answered()

    def _answer(self, status: int) -> tuple[bytes, bool]:
        """Return an answer, and whether the connection ends with it."""
        rng = self.rng
        is_last, body = rng.random() < CLOSING_SHARE, b"." * rng.randrange(BODY_BYTES_MAX)
        hint = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" if rng.random() < HINT_SHARE else b""
        head = b"HTTP/1.1 %d Words\r\n" % status + (b"Connection: close\r\n" if is_last else b"")
        if status == 204:
            return hint + head + b"\r\n", is_last
        if status in (301, 308):
            head += b"Location: /elsewhere\r\n"
        if rng.random() < CHUNKED_SHARE:
            return hint + head + b"Transfer-Encoding: chunked\r\n\r\n" + _chunked(body), is_last
        return hint + head + b"Content-Length: %d\r\n\r\n" % len(body) + body, is_last


def _chunked(body: bytes) -> bytes:
    return (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + b"0\r\n\r\n"


class Web:
    """All servers that the node can reach, by port: what the virtual loop has for `outside`."""

    def __init__(
        self,
        ports: tuple[int, ...],
        *,
        later: Later,
        tap: Callable[[int], PushTap],
        judge: Callable[[Callable[[Any], None], object], None],
        loop: Callable[[], asyncio.AbstractEventLoop],
    ) -> None:
        self.servers = {port: WebServer(later) for port in ports}
        self.rng = Random(0)  # seeded anew by each step
        self._tap = tap
        self._judge = judge
        self._loop = loop

    def reseed(self, salt: int) -> None:
        """Begin a step."""
        self.rng.seed(f"web {salt}")
        for port, server in self.servers.items():
            server.rng.seed(f"web {port} {salt}")

    async def reach(self, port: int) -> None:
        """Make a connection, as the server likes. Raises OSError."""
        await asyncio.sleep(self.rng.randrange(LATENCY_US) / 1_000_000)
        server = self.servers[port]
        while server.mood == UNREACHABLE:
            await asyncio.sleep(LOOKS_AGAIN_S)
        if server.mood == REFUSING:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "the simulated server refuses connections")

    def open(self, port: int, protocol: Any) -> asyncio.Transport:
        """Return the node's end of a connection that was made."""
        visit, tap = Visit(self.servers[port]), self._tap(port)
        visit.wire = wire = OutgoingWire(
            self._loop(),
            visit,
            self.rng,
            written=lambda data: self._judge(tap.written, data),
            read=lambda data: self._judge(tap.read, data),
            ended=tap.ended,
        )
        self.servers[port].visits[visit] = None
        wire.set_protocol(protocol)
        return wire

    def node_died(self) -> None:
        """The other end of all connections is no more."""
        for server in self.servers.values():
            for visit in list(server.visits):
                visit.disconnected()

    def mend(self) -> None:
        """From now on all servers do as they are asked."""
        for server in self.servers.values():
            server.stalls(False)
            server.mood = WILLING
