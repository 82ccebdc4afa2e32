"""Where the rest of a client's large packet is read to: its own memory, not one for reads."""

from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from sluicegate.protocols.mqtt.connection import MqttConnection


@final
class PacketPlace:
    """Stands between the transport of a client that sends something large, and its engine. A `Place`."""

    def __init__(self, connection: "MqttConnection") -> None:
        self._connection = connection
        self._engine = connection.engine

    def room(self) -> memoryview | None:
        """Return memory for what is missing."""
        return self._engine.room()

    def placed(self, count: int) -> None:
        """Have the packet read once it is whole."""
        connection = self._connection
        connection.services.counters.bytes_received += count
        if self._engine.placed(count, connection.cell.runtime.dispatcher.both_ms()[0]):
            connection.received(b"")
        else:
            connection.count_unfinished()
