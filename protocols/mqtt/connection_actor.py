"""The actor of an MQTT connection: it hands everything to the compiled connection."""

from typing import Any

from actors.cell import ActorCell
from actors.loop_actor import LoopActor
from protocols.message_vpns import MessageVpns
from protocols.mqtt.connection import MqttConnection
from protocols.mqtt.services import MqttServices


class MqttConnectionActor(LoopActor):
    """One MQTT client's place among the actors."""

    def __init__(self, cell: ActorCell, *, vpns: MessageVpns[MqttServices]) -> None:
        super().__init__(cell)
        self.connection = MqttConnection(cell, vpns=vpns)
        self.behaviour = self.connection

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        """Our own mistake costs this connection, and its client gets its will and its messages again."""
        self.connection.fail()

    def on_stop(self) -> None:
        """Let publishers go on that wait for this connection."""
        if self.connection.watch is not None:
            self.connection.watch.close()
