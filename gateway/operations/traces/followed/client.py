"""A followed connection of one client: it is the client's from its admission to its end."""

from dataclasses import replace
from typing import final

from sluicegate.gateway.operations.traces.followed.connection import FollowedConnection
from sluicegate.gateway.operations.traces.words import PacketWords
from sluicegate.gateway.views.clients.traces import Direction, TracedPacket
from sluicegate.protocols.flow.connection import FlowConnection


@final
class FollowedClient(FollowedConnection):
    """A connection of one client. What passes before the client is admitted waits, or is dropped if it is another."""

    _client = ""  # its name, once it is known to be part of the trace
    _is_identified_soon = False
    _left_out_count = 0

    def begin(self) -> None:
        """Tap the connection."""
        self._pending: list[TracedPacket] = []
        super().begin()
        self._passed("connection", PacketWords("begun"), 0)
        self._identify()

    def _seen(self, is_received: bool, data: bytes) -> None:
        super()._seen(is_received, data)
        if not self._is_identified_soon and (not self._client or self._is_link()):
            self._is_identified_soon = True
            self._runtime.after(0, self._identify)

    def _passed(self, direction: Direction, words: PacketWords, size: int) -> None:
        packet = self._packet(direction, words, size, self._client)
        if self._client:
            self._show(packet)
        elif not self._add_pending(self._pending, packet):
            self._left_out_count += 1

    def _show(self, packet: TracedPacket) -> None:
        """Show a packet, which says how many are missing before it."""
        left_out_count, self._left_out_count = self._left_out_count, 0
        self._keep(replace(packet, left_out_count=left_out_count) if left_out_count else packet)

    def _identify(self) -> None:
        """See whose connection it is by now, and show what has waited for that, or drop it."""
        self._is_identified_soon = False
        if self.tap.is_over:
            return
        if self._is_link():
            self._leave(self)
            return
        if self._client:
            return
        identity = self._connection.identity
        rights = identity.admitted()
        is_gone = self._connection.stream is None  # another broker goes on with it: nothing tells its end here
        if rights is None and identity.counts_here and not is_gone:
            return  # it is not known yet
        if rights is None or identity.vpn != self._wanted.vpn or not self._wanted.includes(rights):
            self._leave(self)
            return
        self._client = rights.client
        for packet in self._pending:
            self._keep(replace(packet, client=self._client))
        self._forget(len(self._pending))
        self._pending.clear()

    def _is_link(self) -> bool:
        """Return whether it has become a link between brokers, which is not traced."""
        return isinstance(self._connection, FlowConnection) and self._connection.link is not None

    def _closed(self) -> None:
        self._identify()
        if self._client:
            self._show(self._packet("connection", PacketWords("ended"), 0, self._client))
        self._leave(self)
