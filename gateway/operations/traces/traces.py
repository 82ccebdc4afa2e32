"""Traces of one client: its connections are tapped as they come, until nobody reads the trace any more."""

import asyncio
import base64
import logging
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import replace
from typing import Final, Literal

from sluicegate.gateway.node.node import Node
from sluicegate.gateway.operations.clients.clients import wanted_clients
from sluicegate.gateway.operations.traces.connections import TracedConnection, packets_of, traceable
from sluicegate.gateway.operations.traces.tap import Tap
from sluicegate.gateway.operations.traces.words import PacketWords, bounded_fields, bounded_properties, bounded_text
from sluicegate.gateway.views.clients.clients import ClientQuery
from sluicegate.gateway.views.clients.traces import Direction, TracedPacket
from sluicegate.gateway.views.errors import ClientNotFound, Refused
from sluicegate.protocols.transport.interface import ByteTransport

log = logging.getLogger("sluicegate.node")

KEPT_MAX: Final = 1000  # packets that nobody has read yet
LOOK_S: Final = 0.5  # between two looks for new connections of the client


class ClientTrace:
    """The taps on the connections of one client, and what has passed and is not read yet."""

    def __init__(self, node: Node, vpn: str, client: str, payload_bytes: int) -> None:
        self._node = node
        self._vpn = vpn
        self._client = client
        self._payload_bytes = payload_bytes
        self._taps: dict[TracedConnection, Tap] = {}
        self._kept: deque[TracedPacket] = deque()
        self._left_out_count = 0
        self._news = asyncio.Event()

    def connections(self) -> list[TracedConnection]:
        """Return the connections of the client. Raises ClientNotFound, and Refused if none can be traced."""
        found = wanted_clients(self._node, self._vpn, ClientQuery(names=(self._client,)))
        if not found:
            raise ClientNotFound(self._client)
        can_be = [each for each in [traceable(one.connection) for one in found] if each is not None]
        if not can_be:
            raise Refused(f"{self._client} is a broker at a link: links cannot be traced")
        return can_be

    def _look(self) -> None:
        """Tap the connections of the client that are not tapped yet, if it is there."""
        with suppress(ClientNotFound, Refused):
            for connection in self.connections():
                stream = connection.stream
                if connection not in self._taps and stream is not None:
                    self._begin(connection, stream)

    def _begin(self, connection: TracedConnection, stream: ByteTransport) -> None:
        address = connection.peer_name()
        from_client, to_client = packets_of(connection, self._vpn)

        def seen(is_received: bool, data: bytes) -> None:
            try:
                for words, size in (from_client if is_received else to_client).read(data):
                    self._keep("received" if is_received else "sent", address, words, size)
            except Exception:  # the connection goes on, whatever is wrong with its trace
                log.exception("trace of client %r: a packet cannot be shown", self._client)

        def closed() -> None:
            self._taps.pop(connection, None)
            self._keep("connection", address, PacketWords("ended"), 0)

        tap = Tap(connection, stream, seen=seen, on_closed=closed)
        self._taps[connection] = tap
        tap.begin()
        self._keep("connection", address, PacketWords("begun"), 0)

    def _keep(self, direction: Direction, address: str, words: PacketWords, size: int) -> None:
        if len(self._kept) >= KEPT_MAX:
            self._left_out_count += 1
            return
        text, encoding = self._payload_of(words.payload) or (None, None)
        wall_ms = self._node.services.clock.wall_ms()
        packet = traced_packet(words, size, direction=direction, address=address, time_ms=wall_ms)
        kept = replace(packet, payload=text, payload_encoding=encoding, left_out_count=self._left_out_count)
        self._kept.append(kept)
        self._left_out_count = 0
        self._news.set()

    def _payload_of(self, payload: bytes | None) -> tuple[str, Literal["text", "base64"]] | None:
        if payload is None or not self._payload_bytes:
            return None
        head = payload[: self._payload_bytes]
        try:
            return head.decode(), "text"
        except UnicodeDecodeError:
            return base64.b64encode(head).decode("ascii"), "base64"

    async def packets(self) -> AsyncGenerator[TracedPacket, None]:
        """Yield what passes, until the reader has enough, or the node stops."""
        try:
            self._look()
            while self._node.ready:
                while self._kept:
                    yield self._kept.popleft()
                self._news.clear()
                try:
                    await asyncio.wait_for(self._news.wait(), LOOK_S)
                except TimeoutError:
                    self._look()
        finally:
            self.end()

    def end(self) -> None:
        """Take the taps away."""
        for tap in self._taps.values():
            tap.end()
        self._taps.clear()


def traced_packet(
    words: PacketWords, size_bytes: int, *, direction: Direction, address: str, time_ms: int
) -> TracedPacket:
    """Return what is kept of a packet until it is read, which is bounded; without its payload."""
    return TracedPacket(
        time_ms=time_ms,
        address=address,
        direction=direction,
        kind=words.kind,
        size_bytes=size_bytes,
        fields=bounded_fields(words.fields),
        properties=bounded_properties(words.properties),
        reason_code=words.reason_code,
        reason=None if words.reason is None else bounded_text(words.reason),
    )
