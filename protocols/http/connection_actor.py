"""The actor of an HTTP connection: it hands everything to the compiled connection."""

from typing import Any

from actors.cell import ActorCell
from actors.loop_actor import LoopActor
from protocols.http.connection import HttpConnection
from protocols.http.services import HttpServices
from protocols.message_vpns import MessageVpns


class HttpConnectionActor(LoopActor):
    """One HTTP client's place among the actors."""

    def __init__(self, cell: ActorCell, *, vpns: MessageVpns[HttpServices]) -> None:
        super().__init__(cell)
        self.connection = HttpConnection(cell, vpns=vpns)
        self.behaviour = self.connection

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        """Our own mistake costs this connection, and its client asks again over another."""
        self.connection.fail()
