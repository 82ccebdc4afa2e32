"""How much of a turn one client's requests may have. What it asks beyond that waits, and the others are served."""

from typing import TYPE_CHECKING, Any, final

from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.protocols.mqtt.codec.limits import ASKED_NOW_MAX, FILTERS_PER_TURN_MAX

if TYPE_CHECKING:
    from sluicegate.protocols.mqtt.connection import MqttConnection


@final
class TurnShare:
    """What the requests of one client have had of this turn."""

    def __init__(self, cell: ActorCell) -> None:
        self._cell = cell
        self._asked_count = 0
        self._filters_count = 0

    def ask(self, actor: ActorCell, message: object) -> LoopFuture[Any]:
        """Ask an actor on the client's behalf: the first few times in a turn at once, if it has nothing else to do."""
        self._asked_count += 1
        return actor.ask_now(message) if self._asked_count <= ASKED_NOW_MAX else actor.ask(message)

    def next_filter(self) -> LoopFuture[None] | None:
        """Return what to wait for before one more filter is looked at: the others' sockets; None: nothing yet.

        Many need no other actor, such as those that are refused or that nobody has: nothing else would end the turn.
        """
        self._filters_count += 1
        if self._filters_count <= FILTERS_PER_TURN_MAX:
            return None
        self._filters_count = 1
        turn: LoopFuture[None] = LoopFuture()
        self._cell.after(0, turn.set)
        return turn


def share_of(connection: "MqttConnection") -> TurnShare:
    """Return what a client's requests have had of this turn, at whose end the connection lets go of it."""
    share = connection.share
    if share is None:
        share = connection.share = TurnShare(connection.cell)
    return share
