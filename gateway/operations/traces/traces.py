"""Traces of clients: their connections are followed as they come, until nobody reads the trace any more."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import replace
from typing import Final

from sluicegate.gateway.node.node import Node
from sluicegate.gateway.node.servers.server import ClientConnection
from sluicegate.gateway.operations.clients.clients import wanted_clients
from sluicegate.gateway.operations.traces.connections import traceable
from sluicegate.gateway.operations.traces.followed.client import FollowedClient
from sluicegate.gateway.operations.traces.followed.connection import FollowedConnection, PendingCount
from sluicegate.gateway.operations.traces.followed.each_request import FollowedExchanges
from sluicegate.gateway.operations.traces.tap import Tap
from sluicegate.gateway.operations.traces.wanted import Wanted
from sluicegate.gateway.views.clients.clients import ClientQuery
from sluicegate.gateway.views.clients.traces import TracedPacket
from sluicegate.gateway.views.errors import ClientNotFound, Refused

UNREAD_MAX: Final = 1000  # packets that nobody has read yet
LOOK_S: Final = 0.5  # between two looks whether the node still runs


def check_traceable(node: Node, vpn: str, client: str) -> None:
    """Raise ClientNotFound unless the client is connected, and Refused if none of its connections can be traced."""
    found = wanted_clients(node, vpn, ClientQuery(names=(client,)))
    if not found:
        raise ClientNotFound(client)
    if all(traceable(one.connection) is None for one in found):
        raise Refused(f"{client} is a broker at a link: links cannot be traced")


class ClientTrace:
    """The connections of some clients, and what has passed and is not read yet."""

    def __init__(self, node: Node, wanted: Wanted, payload_bytes: int) -> None:
        self._node = node
        self._wanted = wanted
        self._payload_bytes = payload_bytes
        self._followed: dict[FollowedConnection, None] = {}
        self._pending_of_all = PendingCount()
        self._unread: deque[TracedPacket] = deque()
        self._left_out_count = 0
        self._news = asyncio.Event()

    async def packets(self) -> AsyncGenerator[TracedPacket, None]:
        """Yield what passes, until the reader has enough, or the node stops."""
        try:
            self._begin()
            while self._node.ready:
                while self._unread:
                    yield self._unread.popleft()
                self._news.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._news.wait(), LOOK_S)
        finally:
            self._end()

    def _begin(self) -> None:
        """Follow the connections that are there and may be wanted, and from now on each new one, until it is known."""
        for server in self._node.servers:
            server.watchers.append(self._follow)
            for connection in server.open_connections():
                rights = connection.identity.admitted()
                may_be = (
                    rights is None
                    or self._wanted.authenticates_each_request(connection)
                    or self._wanted.includes(rights)
                )
                if may_be and connection.identity.counts_here:
                    self._follow(connection)

    def _end(self) -> None:
        for server in self._node.servers:
            if self._follow in server.watchers:
                server.watchers.remove(self._follow)
        for followed in list(self._followed):
            self._leave(followed)

    def _follow(self, connection: ClientConnection) -> Tap | None:
        """Tap a connection that can be traced; return the tap, or None."""
        traced = traceable(connection)
        stream = None if traced is None else traced.stream
        if traced is None or stream is None or not traced.identity.counts_here:
            return None
        kind = FollowedExchanges if self._wanted.authenticates_each_request(connection) else FollowedClient
        followed = kind(
            traced,
            stream,
            wanted=self._wanted,
            payload_bytes=self._payload_bytes,
            pending_of_all=self._pending_of_all,
            keep=self._keep,
            leave=self._leave,
        )
        self._followed[followed] = None
        followed.begin()
        return followed.tap

    def _leave(self, followed: FollowedConnection) -> None:
        self._followed.pop(followed, None)
        followed.end()

    def _keep(self, packet: TracedPacket) -> None:
        if len(self._unread) >= UNREAD_MAX:
            self._left_out_count += 1 + packet.left_out_count
            return
        left_out_count = packet.left_out_count + self._left_out_count
        self._unread.append(replace(packet, left_out_count=left_out_count) if left_out_count else packet)
        self._left_out_count = 0
        self._news.set()
