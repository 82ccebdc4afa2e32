"""The base of clients of MQTT 5 that are judged by a count: nothing is kept for them, and no tap looks on."""

from abc import abstractmethod
from collections.abc import Callable
from random import Random

import support.mqtt.packets as mqtt
from simulation.clients.client import KEEP_ALIVE_S, OFFLINE, ONLINE
from simulation.clients.connected_client import Wired
from simulation.wires.memory_network import Wire
from support.mqtt.packets import Packet


class LoneClient(Wired):
    """A client at one broker. It is online once its first subscription is answered."""

    def __init__(
        self, name: str, broker: str, client_id: str, *, dial: Callable[["LoneClient", "SilentTap"], Wire]
    ) -> None:
        super().__init__()
        self.name = name
        self.broker = broker
        self.state = OFFLINE
        self.rng = Random(0)
        self._client_id = client_id
        self._dial = dial
        self._unread = b""

    def connect(self) -> None:
        """Connect and subscribe."""
        self._unread = b""
        self._wire = self._dial(self, SilentTap())
        self._wire.send(mqtt.connect(self._client_id, level=5, keep_alive_s=KEEP_ALIVE_S))
        self._subscribe()

    def close(self) -> None:
        """Leave in good order."""
        if self._wire is not None:
            self._wire.send(mqtt.disconnect())
            self._wire.finish()
            self._gone()

    def tick(self) -> None:
        """Show that it is alive."""
        if self._wire is not None:
            self._wire.send(mqtt.pingreq())

    def received(self, data: bytes) -> None:
        """Handle packets of the node."""
        packets, self._unread = mqtt.take_packets(self._unread + data)
        for packet in packets:
            if packet.kind == mqtt.SUBACK:
                self.state = ONLINE
            else:
                self._take(packet)

    def disconnected(self) -> None:
        """The node, or the network, has ended the connection."""
        self._gone()

    @abstractmethod
    def _subscribe(self) -> None:
        """Subscribe, on a new connection."""

    @abstractmethod
    def _take(self, packet: Packet) -> None:
        """Handle a packet, other than SUBACK."""

    def _gone(self) -> None:
        self._wire = None
        self.state = OFFLINE


class SilentTap:
    """Judges nothing."""

    def written(self, data: bytes) -> None:
        """The node writes."""

    def read(self, data: bytes) -> None:
        """The node reads."""

    def ended(self) -> None:
        """The node closes the connection, or has lost it."""
