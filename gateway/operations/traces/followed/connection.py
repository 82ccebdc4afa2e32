"""One connection that a trace follows: what passes, as it is shown.

Of a new connection it is not known at first whose it is: see `FollowedClient` in `client`, and `FollowedExchanges` in
`each_request`.
"""

import base64
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from sluicegate.gateway.operations.traces.connections import TracedConnection, packets_of
from sluicegate.gateway.operations.traces.tap import Tap
from sluicegate.gateway.operations.traces.wanted import Wanted
from sluicegate.gateway.operations.traces.words import PacketWords, bounded_fields, bounded_properties, bounded_text
from sluicegate.gateway.views.clients.traces import Direction, TracedPacket
from sluicegate.protocols.transport.interface import ByteTransport

log = logging.getLogger("sluicegate.node")

PENDING_MAX: Final = 16  # packets of a connection, or of an exchange: more than an authentication takes
PENDING_OF_ALL_MAX: Final = 1000


@dataclass
class PendingCount:
    """How many packets of all connections of a trace wait until it is known whose they are."""

    count: int = 0


class FollowedConnection(ABC):
    """A connection with a tap on it."""

    def __init__(
        self,
        connection: TracedConnection,
        stream: ByteTransport,
        *,
        wanted: Wanted,
        payload_bytes: int,
        pending_of_all: PendingCount,
        keep: Callable[[TracedPacket], None],
        leave: Callable[["FollowedConnection"], None],
    ) -> None:
        """`keep` gets what passes, `leave` is called when nothing more comes."""
        self._connection = connection
        self._wanted = wanted
        self._payload_bytes = payload_bytes
        self._keep = keep
        self._leave = leave
        self._runtime = connection.cell.runtime
        self._from_client, self._to_client = packets_of(connection, wanted.vpn)
        self._address = connection.peer_name()
        self._pending_of_all = pending_of_all
        self._pending_count = 0  # of this one
        self.tap: Final = Tap(connection, stream, seen=self._seen, on_closed=self._closed)

    def begin(self) -> None:
        """Tap the connection."""
        self.tap.begin()

    def end(self) -> None:
        """Take the tap away. Idempotent."""
        self._forget(self._pending_count)
        self.tap.end()

    @abstractmethod
    def _passed(self, direction: Direction, words: PacketWords, size: int) -> None:
        """Show a packet, now or once it is known whose it is."""

    @abstractmethod
    def _closed(self) -> None:
        """The connection has ended."""

    def _seen(self, is_received: bool, data: bytes) -> None:
        try:
            for words, size in (self._from_client if is_received else self._to_client).read(data):
                self._passed("received" if is_received else "sent", words, size)
        except Exception:  # the connection goes on, whatever is wrong with its trace
            log.exception("trace of %s: a packet cannot be shown", self._address)

    def _add_pending(self, pending: list[TracedPacket], packet: TracedPacket) -> bool:
        """Have a packet wait with others; return whether there was room."""
        if len(pending) >= PENDING_MAX or self._pending_of_all.count >= PENDING_OF_ALL_MAX:
            return False
        pending.append(packet)
        self._pending_count += 1
        self._pending_of_all.count += 1
        return True

    def _forget(self, count: int) -> None:
        """Note that packets wait no more."""
        self._pending_count -= count
        self._pending_of_all.count -= count

    def _packet(self, direction: Direction, words: PacketWords, size: int, client: str = "") -> TracedPacket:
        return traced_packet(
            words,
            size,
            client=client,
            address=self._address,
            direction=direction,
            time_ms=self._runtime.clock.wall_ms(),
            payload_bytes=self._payload_bytes,
        )


def traced_packet(
    words: PacketWords,
    size_bytes: int,
    *,
    client: str,
    direction: Direction,
    address: str,
    time_ms: int,
    payload_bytes: int = 0,
) -> TracedPacket:
    """Return what is kept of a packet until it is read, which is bounded; `payload_bytes` of its payload."""
    text, encoding = _payload_of(words.payload, payload_bytes)
    return TracedPacket(
        time_ms=time_ms,
        client=client,
        address=address,
        direction=direction,
        kind=words.kind,
        size_bytes=size_bytes,
        fields=bounded_fields(words.fields),
        properties=bounded_properties(words.properties),
        reason_code=words.reason_code,
        reason=None if words.reason is None else bounded_text(words.reason),
        payload=text,
        payload_encoding=encoding,
    )


def _payload_of(payload: bytes | None, bytes_max: int) -> tuple[str | None, Literal["text", "base64"] | None]:
    if payload is None or not bytes_max:
        return None, None
    head = payload[:bytes_max]
    try:
        return head.decode(), "text"
    except UnicodeDecodeError:
        return base64.b64encode(head).decode("ascii"), "base64"
