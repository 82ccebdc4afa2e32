"""The actor of a flow connection: it hands everything to the compiled connection."""

from typing import Any

from actors.cell import ActorCell
from actors.loop_actor import LoopActor
from protocols.flow.connection import FlowConnection
from protocols.flow.services import FlowServices
from protocols.message_vpns import MessageVpns


class FlowConnectionActor(LoopActor):
    """One flow client's place among the actors."""

    def __init__(self, cell: ActorCell, *, vpns: MessageVpns[FlowServices]) -> None:
        super().__init__(cell)
        self.connection = FlowConnection(cell, vpns=vpns)
        self.behaviour = self.connection

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        """Our own mistake costs this connection, and what it held is delivered again."""
        self.connection.fail()
