"""A new connection that is watched from its first byte on, by a trace for example."""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from sluicegate.protocols.transport.interface import ByteTransport, Connection, PeerInfo

C = TypeVar("C", bound=Connection)


class WatchedConnection(Generic[C]):
    """Stands for a connection until its stream is open, and then lets watchers come between the two."""

    def __init__(self, connection: C, watchers: Iterable[Callable[[C], Connection | None]]) -> None:
        """Each watcher gets the connection once it is open, and returns what it has put between the two, if anything.

        What the first of them has put there is nearest to the stream.
        """
        self._connection = connection
        self._watchers = tuple(watchers)
        self._first: Connection = connection  # what gets the bytes of the stream

    def opened(self, transport: ByteTransport, peer: PeerInfo) -> None:
        """Open the connection, and leave the stream to it and its watchers."""
        self._connection.opened(transport, peer)
        transport.hand_over(self._connection)
        between = [watcher(self._connection) for watcher in self._watchers]
        self._first = next((each for each in between if each is not None), self._connection)

    def received(self, data: bytes) -> None:
        """Pass on what was read of the stream before it was open here."""
        self._first.received(data)

    def closed(self, error: Exception | None) -> None:
        """Pass it on."""
        self._first.closed(error)

    def writing_paused(self) -> None:
        """Pass it on."""
        self._first.writing_paused()

    def writing_resumed(self) -> None:
        """Pass it on."""
        self._first.writing_resumed()
