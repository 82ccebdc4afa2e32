"""Forwarding connections to the other brokers of a machine: to those that are the homes of their clients.

The socket is passed, with what was read of it. What TLS and WebSocket have in memory cannot be passed, so there this
broker keeps the stream, and relays its plain bytes through a pair of sockets.
"""

from collections.abc import Callable
from typing import Final, final

from sluicegate.messaging.clients.homes import Homes
from sluicegate.protocols.transport.interface import ByteTransport, PeerInfo
from sluicegate.protocols.transport.passing.moves import pass_stream, relay_stream
from sluicegate.protocols.transport.passing.passage import MESSAGE_BYTES_MAX, Passage, PassageFull
from sluicegate.protocols.transport.passing.passed_peer import encode_peer
from sluicegate.protocols.transport.passing.relay import Relay
from sluicegate.protocols.transport.stream.stream import TcpStream

# Why a connection is not forwarded, in the counter of those that are refused.
BROKER_AWAY: Final = "broker_away"  # its home does not run
BROKER_BUSY: Final = "broker_busy"  # its home takes no more sockets at the moment
OPEN_FILES: Final = "open_files"  # there was no descriptor for passing it on


class NotForwarded(Exception):
    """The home takes no connection now. `counter` is a constant above."""

    def __init__(self, counter: str, text: str) -> None:
        super().__init__(text)
        self.counter = counter
        self.text = text


@final
class Forwarding:
    """The connections of one protocol that this broker forwards."""

    def __init__(self, kind: bytes, homes: Homes, passage_to: Callable[[int], Passage | None]) -> None:
        """`kind` begins the messages that go with sockets. `passage_to` returns None for a broker that is not there."""
        self.kind: Final = kind
        self.homes: Final = homes  # of what the protocol's clients are known by
        self.passed_count = 0  # connections whose sockets were passed on
        self.relayed_count = 0  # connections whose bytes are relayed, or were
        self.relays: dict[Relay, None] = {}
        self._passage_to = passage_to

    def forward(self, home: int, transport: ByteTransport, peer: PeerInfo, data: bytes, *, about: bytes = b"") -> None:
        """Have another broker go on with a stream, of which it gets the data first. The connection hears no more of it.

        `about` is what the other broker is told of the client. Raises NotForwarded; then nothing has changed.
        """
        passage = self._passage_to(home)
        if passage is None or not passage.is_open:
            raise NotForwarded(BROKER_AWAY, f"broker {home} of this machine, its home, is away")
        message = self.kind + encode_peer(peer, about)
        transport = transport.direct()
        stream: object = transport
        try:
            fits = len(message) + len(data) <= MESSAGE_BYTES_MAX
            if isinstance(stream, TcpStream) and fits and not stream.buffered_bytes():
                pass_stream(stream, passage, message + data)
                self.passed_count += 1
            else:
                relay = relay_stream(transport, passage, message, data, self._relay_ended)
                self.relays[relay] = None
                self.relayed_count += 1
        except PassageFull as full:
            raise NotForwarded(BROKER_BUSY, f"broker {home} of this machine, its home: {full}") from full
        except OSError as error:
            raise NotForwarded(OPEN_FILES, f"no socket to pass it to broker {home}: {error}") from error

    def end(self) -> None:
        """Close what is relayed: the broker stops."""
        for relay in list(self.relays):
            relay.end()

    def _relay_ended(self, relay: Relay) -> None:
        self.relays.pop(relay, None)
