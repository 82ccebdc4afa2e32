"""The publishers of one client that another broker of this machine has, because their names are at home there.

A named publisher is known at the home of its name only, or what it repeats over a connection to another broker would be
stored twice. So the broker that has the connection passes the publisher's frames on to the home, as they are, through a
pair of Unix sockets for each publisher, and the answers back. The home knows who the client is, and asks nothing.

See also: `requests.bind` (which publishers); `connection` (the home's end: `FlowConnection.visit`).
"""

from typing import Final, Protocol, final

from sluicegate.messaging.clients.homes import Homes
from sluicegate.protocols.flow.codec import frame as frames
from sluicegate.protocols.flow.codec.frame import RESPONSE, SESSION, Frame, cut_frame
from sluicegate.protocols.flow.codec.frames.flow import OpenPub
from sluicegate.protocols.flow.codec.frames.session import Error, read_session_frame
from sluicegate.protocols.flow.codec.limits import FRAME_BYTES_MAX
from sluicegate.protocols.transport.interface import ByteTransport, PeerInfo
from sluicegate.protocols.transport.passing.passage import Passage
from sluicegate.protocols.transport.stream.stream import Origin, TcpStream
from sluicegate.protocols.transport.stream.user import StreamUser

_ORIGIN: Final = Origin("relay", lambda: None)  # of the pairs, which no listener counts


class PublisherHomes(Protocol):
    """The brokers of this machine, as far as named publishers need them."""

    @property
    def publisher_homes(self) -> Homes:
        """The homes of named publishers."""

    def passage_to(self, broker: int) -> Passage | None:
        """Return the passage to a broker, None while it does not run."""


class RelayUser(Protocol):
    """The connection of the client, as its relayed publishers see it."""

    def relay_opened(self, relayed: "RelayedPublisher") -> None:
        """The home has opened the publisher. Its answer follows."""

    def relay_answered(self, relayed: "RelayedPublisher", answer: bytes) -> None:
        """The home has sent a frame for the client."""

    def relay_ended(self, relayed: "RelayedPublisher") -> None:
        """The publisher is no more: the home has said so, in the frame before."""

    def relay_violated(self, error: Error) -> None:
        """The client has violated the protocol, by what the home has read of it."""

    def relay_lost(self, relayed: "RelayedPublisher") -> None:
        """The home has gone."""

    def relay_full(self) -> None:
        """The home takes no more for now, or takes more again."""


@final
class RelayedPublisher(StreamUser):
    """One publisher, from its OPEN_PUB to its end."""

    def __init__(self, user: RelayUser, request: OpenPub, home: int, stream: TcpStream) -> None:
        """Take over our end of a pair of sockets; the home has got OPEN_PUB with its own."""
        self.flow_id = request.flow_id
        self.name = request.name
        self.request_id = request.request_id
        self.home = home
        self.is_open = False  # the home has answered
        self.is_full = False
        self._user: RelayUser | None = user  # None: it has ended
        self._stream = stream
        self._unfinished = b""  # of a frame of the home

    def begin(self) -> None:
        """Read what the home answers."""
        stream = self._stream
        stream.open(self, _ORIGIN, "", 0)
        stream.resume_reading()

    def send(self, pieces: list[bytes]) -> None:
        """Pass on frames of the client."""
        self._stream.write(b"".join(pieces))

    def hold_back(self, holds: bool) -> None:
        """Take no answers, while the client does not read them."""
        if holds:
            self._stream.pause_reading()
        else:
            self._stream.resume_reading()

    def end(self) -> None:
        """Have nothing more to do with it; what was passed on before reaches the home."""
        self._user = None
        self._stream.close()

    # --- the stream ---

    def opened(self, transport: ByteTransport, peer: PeerInfo) -> None:
        """Do nothing: it is open from the beginning."""

    def received(self, data: bytes) -> None:
        """Pass on the frames of the home."""
        if self._unfinished:
            data = self._unfinished + data
        pos, end = 0, len(data)
        while self._user is not None:
            frame = cut_frame(data, pos, end, FRAME_BYTES_MAX)
            if frame is None:
                break
            self._answered(self._user, frame, data[pos : frame.end], data)
            pos = frame.end
        self._unfinished = data[pos:]

    def closed(self, error: Exception | None) -> None:
        """The home has closed the stream, or died."""
        user, self._user = self._user, None
        if user is not None:
            user.relay_lost(self)

    def writing_paused(self) -> None:
        """The home reads more slowly than we write."""
        self._set_full(True)

    def writing_resumed(self) -> None:
        """The home has caught up."""
        self._set_full(False)

    def _set_full(self, is_full: bool) -> None:
        self.is_full = is_full
        if self._user is not None:
            self._user.relay_full()

    def _answered(self, user: RelayUser, frame: Frame, answer: bytes, data: bytes) -> None:
        kind = frame.kind
        if kind == frames.ERROR and frame.flow_id == SESSION:
            error = read_session_frame(frame, data)
            assert isinstance(error, Error), "its type says so"
            self.end()
            user.relay_violated(error)
            return
        if frame.flow_id != self.flow_id:
            return  # GOAWAY or CLOSE: its end shows as well
        if kind == frames.OPEN_PUB and frame.flags & RESPONSE:
            self.is_open = True
            user.relay_opened(self)
        user.relay_answered(self, answer)
        if kind in (frames.ERROR, frames.CLOSE_PUB):
            self.end()
            user.relay_ended(self)


@final
class RelayedPublishers:
    """The relayed publishers of one client."""

    def __init__(self) -> None:
        self.flows: dict[int, RelayedPublisher] = {}

    @property
    def is_full(self) -> bool:
        """Whether a home takes no more."""
        return any(relayed.is_full for relayed in self.flows.values())

    @property
    def open_count(self) -> int:
        """How many their homes have opened."""
        return sum([relayed.is_open for relayed in self.flows.values()])

    def add(self, relayed: RelayedPublisher) -> None:
        """Let a publisher begin."""
        self.flows[relayed.flow_id] = relayed
        relayed.begin()

    def hold_back(self, holds: bool) -> None:
        """Take no answers, while the client does not read them."""
        for relayed in self.flows.values():
            relayed.hold_back(holds)

    def end(self) -> None:
        """End all: the client has gone."""
        for relayed in self.flows.values():
            relayed.end()
        self.flows.clear()
