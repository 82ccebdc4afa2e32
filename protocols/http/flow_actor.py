"""The actor of an HTTP flow: it hands everything to the compiled flow."""

from typing import Any

from actors.cell import ActorCell
from actors.loop_actor import LoopActor
from messaging.address import Address
from messaging.credit import CreditWindow
from protocols.http.flow import FlowTerms, HttpFlow


class HttpFlowActor(LoopActor):
    """One HTTP worker's place among the actors."""

    def __init__(self, cell: ActorCell, *, terms: FlowTerms, queue: ActorCell, window: CreditWindow[Address]) -> None:
        super().__init__(cell)
        self.flow = HttpFlow(cell, terms=terms, queue=queue, window=window)
        self.behaviour = self.flow

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        """Our own mistake costs this flow; its worker binds another."""
        self.flow.end("a fault of this broker; its log says more")
