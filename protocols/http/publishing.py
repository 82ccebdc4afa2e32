"""The way in from one HTTP connection: messages of requests, and whoever waits for them to be safe."""

from typing import final

from actors.futures import LoopFuture
from actors.publishing import Publisher
from messaging.batch import MessageBatch
from messaging.refusals import ADMITTED, REFUSAL_TEXTS, REFUSED_NOT_FOUND
from protocols.destination import Destination
from protocols.http.problems import HttpProblem, not_stored, refusal_problem


@final
class _Waiting:
    """A publish whose confirmations are still to come."""

    __slots__ = ("done", "pending", "refusal")

    def __init__(self, pending: int) -> None:
        self.pending = pending
        self.refusal = ""
        self.done: LoopFuture[None] = LoopFuture()


@final
class Offered:
    """Messages that the broker was offered: refused, done with, or waited for."""

    __slots__ = ("count", "problem", "waiting")

    def __init__(self, count: int, problem: HttpProblem | None, waiting: _Waiting | None) -> None:
        self.count = count
        self.problem = problem
        self.waiting = waiting


@final
class Run:
    """Neighbouring messages that go the same way."""

    __slots__ = ("batch", "destination")

    def __init__(self, destination: Destination, batch: MessageBatch) -> None:
        self.destination = destination
        self.batch = batch


@final
class PublishingSide:
    """What one connection publishes."""

    def __init__(self, publisher: Publisher) -> None:
        self.publisher = publisher
        self._waiting: dict[int, _Waiting] = {}
        self._next_token = 1

    @property
    def unanswered_count(self) -> int:
        """How many publishes wait for confirmations."""
        return len(self._waiting)

    def publish(self, runs: list[Run]) -> list[Offered]:
        """Publish runs of messages in their order; `outcomes` tells when they are safe."""
        offered: list[Offered] = []
        for run in runs:
            self._offer(run.destination, run.batch, offered)
        return offered

    async def outcomes(self, offered: list[Offered]) -> list[HttpProblem | None]:
        """Return once all messages are safe or refused: for each message its problem, or None."""
        problems: list[HttpProblem | None] = []
        for each in offered:
            problem = each.problem
            if each.waiting is not None:
                await each.waiting.done
                problem = not_stored(each.waiting.refusal) if each.waiting.refusal else None
            problems += [problem] * each.count
        return problems

    def _offer(self, destination: Destination, batch: MessageBatch, offered: list[Offered]) -> None:
        """Publish a batch; what is refused is offered again message by message, for a refusal concerns single ones."""
        token = self._next_token
        self._next_token += 1
        result = self.publisher.publish(batch, token)
        if destination.is_queue and not result.routed:
            result.refusal = REFUSED_NOT_FOUND
        if result.refusal == ADMITTED:
            waiting: _Waiting | None = None
            if result.confirmations_pending:
                waiting = _Waiting(result.confirmations_pending)
                self._waiting[token] = waiting
            offered.append(Offered(batch.count, None, waiting))
        elif batch.count == 1:
            problem = refusal_problem(REFUSAL_TEXTS[result.refusal], result.refused_by, result.also_refused)
            offered.append(Offered(1, problem, None))
        else:
            for row in range(batch.count):
                self._offer(destination, batch.select([row]), offered)

    def confirmed(self, token: int, refusal: str = "") -> None:
        """Note that a publish is safe or, with a refusal, could not be stored."""
        waiting = self._waiting.get(token)
        if waiting is None:
            return
        waiting.pending -= 1
        waiting.refusal = waiting.refusal or refusal
        if waiting.pending == 0:
            del self._waiting[token]
            waiting.done.set()

    def end(self) -> None:
        """Let go of the requests that wait: the connection is gone, and their answers are for nobody."""
        for waiting in self._waiting.values():
            waiting.refusal = "the connection ended"
            waiting.done.set()
        self._waiting.clear()
