"""One connection that a trace follows. Of a new one it is not known at first whose it is: what passes is held back."""

import base64
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal

from sluicegate.gateway.operations.traces.connections import TracedConnection, packets_of
from sluicegate.gateway.operations.traces.tap import Tap
from sluicegate.gateway.operations.traces.wanted import Wanted
from sluicegate.gateway.operations.traces.words import PacketWords, bounded_fields, bounded_properties, bounded_text
from sluicegate.gateway.views.clients.traces import Direction, TracedPacket
from sluicegate.protocols.flow.connection import FlowConnection
from sluicegate.protocols.transport.interface import ByteTransport

log = logging.getLogger("sluicegate.node")

HELD_MAX: Final = 16  # packets of a connection: more than an authentication takes
HELD_OF_ALL_MAX: Final = 1000


@dataclass
class Holding:
    """What all connections of a trace hold back."""

    count: int = 0


class FollowedConnection:
    """A connection with a tap on it."""

    def __init__(
        self,
        connection: TracedConnection,
        stream: ByteTransport,
        *,
        wanted: Wanted,
        payload_bytes: int,
        holding: Holding,
        keep: Callable[[TracedPacket], None],
        leave: Callable[["FollowedConnection"], None],
    ) -> None:
        """`keep` gets what passes, `leave` is called once when nothing more comes."""
        self._connection = connection
        self._wanted = wanted
        self._payload_bytes = payload_bytes
        self._holding = holding
        self._keep = keep
        self._leave = leave
        self._runtime = connection.cell.runtime
        self._from_client, self._to_client = packets_of(connection, wanted.vpn)
        self._address = connection.peer_name()
        self._may_change = wanted.may_change(connection)
        self._held: list[TracedPacket] = []
        self._client = ""  # its name, while what passes is part of the trace
        self._looks_soon = False
        self._left_out_count = 0
        self.tap: Final = Tap(connection, stream, seen=self._seen, on_closed=self._closed)

    def begin(self) -> None:
        """Tap the connection."""
        self.tap.begin()
        self._passed("connection", PacketWords("begun"), 0)
        self._look()

    def end(self) -> None:
        """Take the tap away."""
        self._drop()
        self.tap.end()

    def _seen(self, is_received: bool, data: bytes) -> None:
        try:
            for words, size in (self._from_client if is_received else self._to_client).read(data):
                self._passed("received" if is_received else "sent", words, size)
        except Exception:  # the connection goes on, whatever is wrong with its trace
            log.exception("trace of %s: a packet cannot be shown", self._address)
        # A request is known to be wanted when it is answered.
        is_known = is_received if self._may_change else bool(self._client)
        if not (is_known or self._looks_soon):
            self._looks_soon = True
            self._runtime.after(0, self._look)

    def _passed(self, direction: Direction, words: PacketWords, size: int) -> None:
        packet = traced_packet(
            words,
            size,
            client=self._client,
            address=self._address,
            direction=direction,
            time_ms=self._runtime.clock.wall_ms(),
            payload_bytes=self._payload_bytes,
        )
        if self._client and not self._may_change:
            self._keep(packet)
        elif len(self._held) < HELD_MAX and self._holding.count < HELD_OF_ALL_MAX:
            self._held.append(replace(packet, left_out_count=self._left_out_count))
            self._holding.count += 1
            self._left_out_count = 0
        else:
            self._left_out_count += 1

    def _look(self) -> None:
        """See whose connection it is by now, and pass on what was held back, or drop it."""
        self._looks_soon = False
        identity = self._connection.identity
        rights = identity.admitted()
        is_link = isinstance(self._connection, FlowConnection) and self._connection.link is not None
        if rights is None and identity.counts_here and not is_link:
            return  # it is not known yet
        if rights is not None and identity.vpn == self._wanted.vpn and self._wanted.includes(rights):
            self._client = rights.client
            for packet in self._held:
                self._keep(replace(packet, client=self._client))
        else:
            self._client = ""
        self._drop()
        if not (self._client or self._may_change):
            self._leave(self)

    def _drop(self) -> None:
        self._holding.count -= len(self._held)
        self._held.clear()

    def _closed(self) -> None:
        self._look()
        if self._client:
            ended = PacketWords("ended")
            wall_ms = self._runtime.clock.wall_ms()
            self._keep(
                traced_packet(
                    ended, 0, client=self._client, address=self._address, direction="connection", time_ms=wall_ms
                )
            )
        self._leave(self)


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
