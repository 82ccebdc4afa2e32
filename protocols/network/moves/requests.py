"""Requests about queues that move, from either end of a link. Each is carried out once, and answered once.

A request whose connection ends, or that is not answered in time, fails, and may have been carried out all the same: all
requests may be repeated.
"""

import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, final

from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.actors.runtime.tasks import run
from sluicegate.protocols.network.queues.channel import QueuesChannel
from sluicegate.protocols.network.queues.notes import MOVE, MOVED, FlowNote

ANSWER_MS_MAX: Final = 15_000

log = logging.getLogger("sluicegate.network")

# Takes the neighbor and its request; returns the answer. Raises Exception with a text for the neighbor.
CarriesOut = Callable[[str, FlowNote], Coroutine[Any, Any, str]]


class MoveFailed(Exception):
    """The neighbor did not do what it was asked for, or it is not known whether it did; the text says why."""


@final
class MoveRequests:
    """The requests of both ends of one link, in one message VPN."""

    def __init__(self, cell: ActorCell, neighbor: str, carries_out: CarriesOut, has_told: Callable[[], bool]) -> None:
        """`has_told` returns whether all that the neighbor wants is in force here."""
        self.neighbor: Final = neighbor
        self.has_told: Final = has_told
        self._cell = cell
        self._carries_out = carries_out
        self._channel: QueuesChannel | None = None
        self._knows_moves = False
        self._holds_for_clients = False
        self._number = 0
        self._asked: dict[int, LoopFuture[str]] = {}

    @property
    def is_up(self) -> bool:
        """Whether there is a connection."""
        return self._channel is not None

    def lack(self) -> str:
        """Return why the neighbor cannot be asked; empty if it can."""
        if self._channel is None:
            return f"the link to broker {self.neighbor!r} is down"
        return "" if self._knows_moves else f"broker {self.neighbor!r} is of an earlier release, which moves no queues"

    def lack_for_clients(self) -> str:
        """Return why the neighbor cannot take part in the move of a queue that a client has by its name; or nothing."""
        if lack := self.lack():
            return lack
        text = f"broker {self.neighbor!r} is of an earlier release, which takes no part in moves of what clients have"
        return "" if self._holds_for_clients else text

    def connected(self, channel: QueuesChannel, *, knows_moves: bool, holds_for_clients: bool) -> None:
        """Begin on a new connection."""
        self._channel = channel
        self._holds_for_clients = holds_for_clients
        self._knows_moves = knows_moves

    def disconnected(self) -> None:
        """The connection is gone."""
        self._channel = None
        for number in list(self._asked):
            self._fail(number, f"the link to broker {self.neighbor!r} went down")

    def ask(self, what: str, queue: str, *more: object) -> LoopFuture[str]:
        """Ask the neighbor; return the answer, which is there later. MoveFailed is its exception."""
        self._number += 1
        number = self._number
        answer: LoopFuture[str] = LoopFuture()
        channel, lack = self._channel, self.lack()
        self._asked[number] = answer
        if channel is None or lack:
            self._fail(number, lack)
        else:
            channel.note(MOVE, number, what, queue, *more)
            late = f"broker {self.neighbor!r} has not answered within {ANSWER_MS_MAX // 1000} s"
            self._cell.after(ANSWER_MS_MAX, lambda: self._fail(number, late))
        return answer

    def _fail(self, number: int, text: str) -> None:
        answer = self._asked.pop(number, None)
        if answer is not None:
            answer.set_exception((MoveFailed, MoveFailed(text), None))

    def received(self, note: FlowNote) -> None:
        """Handle a request or an answer of the neighbor. Raises ValueError."""
        if note.kind == MOVED:
            text, error = note.text(0), note.text(1)
            if error:
                self._fail(note.consumer, error)
            else:
                answer = self._asked.pop(note.consumer, None)
                if answer is not None:
                    answer.set(text)
            return
        channel = self._channel
        assert channel is not None, "notes come over a connection"
        run(self._cell.runtime, self._answer(channel, note))

    async def _answer(self, channel: QueuesChannel, note: FlowNote) -> None:
        text, error = "", ""
        try:
            text = await self._carries_out(self.neighbor, note)
        except Exception as failure:  # it must cost neither the link nor the broker
            error = str(failure) or repr(failure)
            log.info("move, asked by broker %s: %s: %s", self.neighbor, note.values[:2], error)
        if channel is self._channel:
            channel.note(MOVED, note.consumer, text, error)
