"""The reception of MQTT, where one of several brokers on a machine accepts a client that another one may have to serve.

A connection is here until its client identifier is known. Then it is served where the identifier is at home
(`messaging.clients.homes`): here, or by another broker, which gets the socket with the bytes read so far. Until then
nothing is answered, and nothing but the identifier is read: the broker that serves the client reads CONNECT, and
refuses it if it has to. So what has no identifier is served here.
"""

import logging
from collections.abc import Callable
from typing import Final, final

from sluicegate.protocols.connection.counters import ProtocolCounters
from sluicegate.protocols.connection.forwarding import Forwarding, NotForwarded
from sluicegate.protocols.mqtt.codec.client_id import FIRST_BYTES_MIN, read_client_id
from sluicegate.protocols.mqtt.codec.limits import MqttLimits
from sluicegate.protocols.mqtt.codec.packets.connack import encode_refusals
from sluicegate.protocols.mqtt.codec.reason_codes import SERVER_UNAVAILABLE, UNSPECIFIED_ERROR
from sluicegate.protocols.transport.deadlines import Deadline, Deadlines
from sluicegate.protocols.transport.interface import (
    ByteTransport,
    Connection,
    ConnectionFactory,
    PeerInfo,
    append_piece,
)
from sluicegate.protocols.transport.stream.user import StreamUser
from sluicegate.protocols.transport.unfinished import COUNTED_BYTES_MIN, COUNTER, UnfinishedBytes, UnfinishedShare

log = logging.getLogger("sluicegate.mqtt")


@final
class Reception:
    """What the connections in one reception share. Its `connect` is the factory of the listeners."""

    def __init__(
        self,
        forwarding: Forwarding,
        connect_here: ConnectionFactory,
        *,
        limits: MqttLimits,
        counters: ProtocolCounters,
        unfinished: UnfinishedBytes,
        later: Callable[[Callable[[], object]], object],
    ) -> None:
        """`later` calls back in a turn of its own."""
        self.forwarding: Final = forwarding
        self.connect_here: Final = connect_here
        self.counters: Final = counters
        self.unfinished: Final = unfinished
        self.later: Final = later
        self.arrivals: dict[Arrival, None] = {}  # whose identifier is not known yet
        self.use(limits)

    def use(self, limits: MqttLimits) -> None:
        """Have later connections obey these limits."""
        self.connect_bytes_max = limits.connect_bytes_max
        self.deadlines = Deadlines(limits.connect_timeout_ms / 1000)

    def connect(self) -> Connection:
        """Return the connection of a stream that was just accepted."""
        return Arrival(self)

    def end(self) -> None:
        """Close all connections that are still here: the broker stops."""
        for arrival in list(self.arrivals):
            arrival.end()


@final
class Arrival(StreamUser):
    """One connection whose client identifier is not known yet."""

    def __init__(self, reception: Reception) -> None:
        self._reception = reception
        self._transport: ByteTransport | None = None
        self._peer: PeerInfo | None = None
        self._deadline: Deadline | None = None
        self._pieces: list[bytes] = []  # of what has come
        self._held_bytes = 0
        self._needed_bytes = FIRST_BYTES_MIN  # before they are looked at again
        self._unfinished: UnfinishedShare | None = None

    def opened(self, transport: ByteTransport, peer: PeerInfo) -> None:
        """Wait for CONNECT, for a limited time."""
        self._transport = transport
        self._peer = peer
        reception = self._reception
        reception.arrivals[self] = None
        self._deadline = reception.deadlines.begin(self._time_out)

    def received(self, data: bytes) -> None:
        """Look for the client identifier, and have the client served where that is at home."""
        append_piece(self._pieces, data)
        self._held_bytes += len(data)
        if self._held_bytes >= self._needed_bytes:
            self._look()
        if self._held_bytes >= COUNTED_BYTES_MIN:
            self._unfinished = self._reception.unfinished.count(self._unfinished, self._held_bytes, self._give_up)

    def closed(self, error: Exception | None) -> None:
        """The client has left before it has said who it is."""
        self._leave()

    def writing_paused(self) -> None:
        """Do nothing: nothing is written here."""

    def writing_resumed(self) -> None:
        """Do nothing, as well."""

    def end(self) -> None:
        """Close the connection: the broker stops."""
        if self._transport is not None:
            self._transport.close()

    def _look(self) -> None:
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        found = read_client_id(data, self._reception.connect_bytes_max)
        if found.needed_bytes > 0:
            self._needed_bytes = found.needed_bytes
            self._pieces = [data]
            return
        transport, peer = self._transport, self._peer
        if transport is None or peer is None:
            return
        self._leave()
        homes = self._reception.forwarding.homes
        home = homes.home_of(found.client_id) if found.client_id else homes.here
        if home == homes.here:
            self._serve_here(transport, peer, data)
        else:
            self._serve_at(home, transport, peer, data, found.level)

    def _leave(self) -> None:
        """Be no connection of the reception any more."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._reception.arrivals.pop(self, None)
        self._transport = self._peer = None
        self._pieces = []
        self._held_bytes = 0
        if self._unfinished is not None:
            self._unfinished = self._reception.unfinished.count(self._unfinished, 0, self._give_up)

    def _serve_here(self, transport: ByteTransport, peer: PeerInfo, data: bytes) -> None:
        connection = self._reception.connect_here()
        transport.hand_over(connection)
        connection.opened(transport, peer)
        connection.received(data)

    def _serve_at(self, home: int, transport: ByteTransport, peer: PeerInfo, data: bytes, level: int) -> None:
        try:
            self._reception.forwarding.forward(home, transport, peer, data)
        except NotForwarded as error:
            self._refuse(transport, peer, level, error.counter, error.text)

    def _refuse(self, transport: ByteTransport, peer: PeerInfo, level: int, counter: str, text: str) -> None:
        """Refuse the client, which may come again at once.

        A 5.0 client is told no reason: it may take no packet of that size, and CONNECT is not read so far.
        """
        self._reception.counters.count(self._reception.counters.refused, counter)
        log.info("connection of %s:%d refused: %s", peer.host, peer.port, text)
        transport.write(encode_refusals(level, SERVER_UNAVAILABLE, "")[-1])
        transport.close_after_flush()

    def _time_out(self) -> None:
        self._violated(f"0x{UNSPECIFIED_ERROR:02x}", f"no CONNECT within {self._reception.deadlines.limit_s:g} s")

    def _give_up(self) -> None:
        self._reception.later(self._end_unfinished)

    def _end_unfinished(self) -> None:
        """End the connection, unless its identifier has come meanwhile: all clients together have begun too much."""
        if self._held_bytes >= COUNTED_BYTES_MIN:
            self._violated(COUNTER, "too much unfinished input")

    def _violated(self, counter: str, text: str) -> None:
        transport, peer = self._transport, self._peer
        if transport is None or peer is None:
            return
        self._reception.counters.count(self._reception.counters.violated, counter)
        log.info("protocol error from client '?' at %s:%d: %s", peer.host, peer.port, text)
        transport.close_after_flush()
