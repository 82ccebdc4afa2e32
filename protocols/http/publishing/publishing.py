"""Publishing from one HTTP connection: messages of requests come in, and their confirmations go back."""

from typing import final

from sluicegate.actors.messages.data import PublishFailed
from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.refusals import ADMITTED
from sluicegate.messaging.observability.latency import LatencyHistogram
from sluicegate.protocols.http.codec.responses import HttpProblem, not_stored, refusal_problem


class Submission:
    """The messages of one request, until all are safe or refused: for each message its problem, or None."""

    def __init__(self) -> None:
        self.problems: list[HttpProblem | None] = []
        self.unmatched: set[int] | None = None  # places of messages that nobody gets; None: there are none
        self.requires_match = False  # such messages are refused
        self.offers_pending = 0

    def done(self) -> None:
        """All messages are safe or refused."""
        raise AssertionError("somebody waits for the messages")

    def note_unmatched(self, count: int) -> None:
        """Note that nobody gets the next messages."""
        first = len(self.problems)
        unmatched = self.unmatched or set()
        unmatched.update(range(first, first + count))
        self.unmatched = unmatched

    def offer_done(self) -> None:
        """One of the offers, in which its messages were published, is done."""
        self.offers_pending -= 1
        if self.offers_pending == 0:
            self.done()


@final
class _PendingBatch:
    """Messages that were published together, whose confirmations are still to come."""

    __slots__ = ("count", "first", "pending", "received_ms", "refusal", "submission")

    def __init__(self, submission: Submission, first: int, count: int, pending: int, received_ms: int) -> None:
        self.submission = submission
        self.first = first  # its place in the submission
        self.count = count
        self.pending = pending
        self.received_ms = received_ms  # wall clock
        self.refusal: PublishFailed | None = None


@final
class PendingPublishes:
    """What one connection publishes."""

    def __init__(self, publisher: Publisher, confirmations: LatencyHistogram) -> None:
        self.publisher = publisher
        self._confirmations = confirmations
        self._pending: dict[int, _PendingBatch] = {}
        self._next_token = 1

    @property
    def unanswered_count(self) -> int:
        """How many publishes wait for confirmations."""
        return len(self._pending)

    def publish(self, batches: list[MessageBatch], submission: Submission) -> None:
        """Publish batches in their order, each of one destination; the submission may be done when this returns."""
        submission.offers_pending = 1  # this call
        self.publisher.requires_match = submission.requires_match
        for batch in batches:
            self._offer(batch, submission)
        submission.offer_done()

    def _offer(self, batch: MessageBatch, submission: Submission) -> None:
        """Publish a batch; what is refused is offered again message by message, for a refusal concerns single ones."""
        token = self._next_token
        self._next_token += 1
        result = self.publisher.publish(batch, token)
        if result.refusal == ADMITTED:
            if result.confirmations_pending:
                first = len(submission.problems)
                pending = result.confirmations_pending
                self._pending[token] = _PendingBatch(submission, first, batch.count, pending, batch.received_ms)
                submission.offers_pending += 1
            elif not result.routed:
                submission.note_unmatched(batch.count)
            submission.problems += [None] * batch.count
        elif batch.count == 1:
            problem = refusal_problem(result.text(), result.refused_by, result.also_refused)
            submission.problems.append(problem)
        else:
            for row in range(batch.count):
                self._offer(batch.select([row]), submission)

    def confirmed(self, token: int, refusal: PublishFailed | None = None, wall_ms: int = 0) -> None:
        """Note that a publish is safe or, with a refusal, could not be stored."""
        batch = self._pending.get(token)
        if batch is None:
            return
        batch.pending -= 1
        batch.refusal = batch.refusal or refusal
        if batch.pending == 0:
            del self._pending[token]
            if batch.refusal is not None:
                for place in range(batch.first, batch.first + batch.count):
                    batch.submission.problems[place] = not_stored(batch.refusal)
            else:
                self._confirmations.observe(batch.received_ms, wall_ms, batch.count)
            batch.submission.offer_done()

    def end(self) -> None:
        """Drop what waits: the connection is gone, and nothing can be answered."""
        for token in list(self._pending):
            self._pending[token].pending = 1
            self.confirmed(token, PublishFailed(token, "the connection ended"))
