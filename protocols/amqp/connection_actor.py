"""The actor of an AMQP connection: it hands everything to the compiled connection."""

from typing import Any

from actors.cell import ActorCell
from actors.loop_actor import LoopActor
from protocols.amqp.connection import AmqpConnection
from protocols.amqp.services import AmqpServices
from protocols.message_vpns import MessageVpns


class AmqpConnectionActor(LoopActor):
    """One AMQP client's place among the actors."""

    def __init__(self, cell: ActorCell, *, vpns: MessageVpns[AmqpServices]) -> None:
        super().__init__(cell)
        self.connection = AmqpConnection(cell, vpns=vpns)
        self.behaviour = self.connection

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        """Our own mistake costs this connection, and what it held is delivered again."""
        self.connection.fail()
