"""A followed connection that authenticates each request: a proxy's, for example, with the requests of many users."""

from dataclasses import replace
from typing import final

from sluicegate.gateway.operations.traces.exchanges import Exchange
from sluicegate.gateway.operations.traces.followed.connection import FollowedConnection
from sluicegate.gateway.operations.traces.words import PacketWords
from sluicegate.gateway.views.clients.traces import Direction, TracedPacket
from sluicegate.messaging.clients.rights import ClientRights
from sluicegate.protocols.http.connection import HttpConnection


@final
class FollowedExchanges(FollowedConnection):
    """A connection of which the exchanges of some clients are shown: those whose requests were admitted as theirs.

    An exchange is a request and its response. What passes of it before its response waits. That of a refused request
    is nobody's.
    """

    _shown_client = ""  # of the latest exchange that was shown

    def begin(self) -> None:
        """Tap the connection."""
        self._begun: TracedPacket | None = self._packet("connection", PacketWords("begun"), 0)  # until it is shown
        self._trace_responses(begins=True)
        super().begin()

    def end(self) -> None:
        """Take the tap away. Idempotent."""
        if not self.tap.is_over:
            self._trace_responses(begins=False)
        super().end()

    def _trace_responses(self, *, begins: bool) -> None:
        assert isinstance(self._connection, HttpConnection), "no other protocol authenticates each request"
        self._connection.trace_responses(begins)

    def _passed(self, direction: Direction, words: PacketWords, size: int) -> None:
        exchange = words.exchange
        if exchange is None:
            return  # it cannot be read, so it is not known whose it is
        if not exchange.is_responded:
            if not self._add_pending(exchange.pending, self._packet(direction, words, size)):
                exchange.left_out_count += 1
            return
        pending, exchange.pending = exchange.pending, []
        self._forget(len(pending))
        rights = self._wanted_rights(exchange)
        if rights is None:
            return
        if self._begun is not None:
            pending.insert(0, self._begun)
            self._begun = None
        for packet in pending:
            self._keep(replace(packet, client=rights.client))
        packet = self._packet(direction, words, size, rights.client)
        left_out_count, exchange.left_out_count = exchange.left_out_count, 0
        self._keep(replace(packet, left_out_count=left_out_count) if left_out_count else packet)
        self._shown_client = rights.client

    def _wanted_rights(self, exchange: Exchange) -> ClientRights | None:
        """Return those of an exchange that is part of the trace."""
        rights = exchange.rights
        if rights is None or exchange.vpn != self._wanted.vpn or not self._wanted.includes(rights):
            return None
        return rights

    def _closed(self) -> None:
        if self._shown_client:
            self._keep(self._packet("connection", PacketWords("ended"), 0, self._shown_client))
        self._leave(self)
