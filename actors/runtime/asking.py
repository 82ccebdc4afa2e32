"""Asking somebody of whom only the address is known."""

from typing import Any, final

import pykka

from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.inbox import Inbox
from sluicegate.messaging.message.address import Address


@final
class Ask:
    """A message whose sender waits for the answer."""

    __slots__ = ("answer", "message")

    def __init__(self, message: object, answer: LoopFuture[Any]) -> None:
        self.message = message
        self.answer = answer


def ask_at(address: Address, message: object) -> LoopFuture[Any]:
    """Ask whoever has this address; it is an error, and never a wait without end, when that has stopped."""
    assert isinstance(address, Inbox), "who is asked is an actor of this loop"
    answer: LoopFuture[Any] = LoopFuture()
    if address.closed:
        dead = pykka.ActorDeadError("whoever was asked is gone")
        answer.set_exception((pykka.ActorDeadError, dead, None))
    else:
        address.post(Ask(message, answer))
    return answer


async def ask_unless_gone(address: Address, message: object) -> Any:
    """Ask whoever has this address; None when that has stopped."""
    try:
        return await ask_at(address, message)
    except pykka.ActorDeadError:
        return None
