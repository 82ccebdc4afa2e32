"""Where the rest of a peer's large frame is read to: its own memory, not one for reads."""

from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from sluicegate.protocols.flow.connection import FlowConnection


@final
class FramePlace:
    """Stands between the transport of a client that sends something large, and its engine. A `Place`."""

    def __init__(self, connection: "FlowConnection") -> None:
        self._connection = connection

    def room(self) -> memoryview | None:
        """Return memory for what is missing."""
        return self._connection.engine.room()

    def placed(self, count: int) -> None:
        """Have the frame read once it is whole."""
        connection = self._connection
        connection.services.counters.bytes_received += count
        connection.engine.alive(connection.runtime.dispatcher.both_ms()[0])
        if connection.engine.placed(count):
            connection.received(b"")
        else:
            connection.count_unfinished()
