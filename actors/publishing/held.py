"""What is published to held topics: it waits, and is published when its queue has its new home.

A publisher whose batch has to wait has a line, in which everything waits that it publishes behind that. It is told that
a confirmation is pending. Where one batch waits, one answer comes for it, whatever becomes of it at the release. A
guaranteed batch of several messages is refused first, as by a full queue, and comes again one by one: each may have
another fate then.

See also: which topics are held (messaging.routing.holds).
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Final, final

from sluicegate.actors.messages.data import Confirmed, PublishFailed, Resume, SessionRows
from sluicegate.actors.publishing.result import PublishResult
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.message.refusals import ADMITTED, REFUSED_MOVING, REFUSED_NOT_STORED
from sluicegate.messaging.routing.holds import MESSAGE_BYTES, HeldLine, Holds
from sluicegate.messaging.routing.routes import TopicSpace

log = logging.getLogger("sluicegate.publishing")

HELD_TOKEN: Final = 1  # of the answers to a batch that has waited: they are all its own


@final
class HeldPublish(Address):
    """One batch that waits. The store answers to it, and it answers to the publisher, once."""

    def __init__(self, batch: MessageBatch, size: int, reply_to: Address, token: int) -> None:
        self.batch = batch
        self.size = size
        # Known to its publisher before it is published: rows of its session belong into the same commit.
        self.publication: Publication | None = None
        if batch.qos != AT_MOST_ONCE:
            self.publication = Publication(batch, publisher=self, token=HELD_TOKEN, partitions_count=1)
        self._reply_to = reply_to
        self._token = token
        self._pending_count = 0
        self._failure: PublishFailed | None = None

    def published(self, result: PublishResult, spool: Address) -> None:
        """Await the answers to the publish, of which there may be none."""
        publication = self.publication
        if publication is None:
            return
        self._pending_count = int(result.confirmations_pending)
        if result.refusal != ADMITTED:
            self._failure = PublishFailed(self._token, result.reason(), int(result.refusal))
            self._undo(publication)
        elif result.publication is None:  # no durable queue took it
            rows = publication.session_rows
            publication.unsequenced_count = 0
            if rows:
                self._pending_count += 1
                spool.post(SessionRows([(key, row) for key, row in rows], self, HELD_TOKEN, until_done=True))
            else:
                publication.confirmed = True
        if self._pending_count == 0:
            self._answer()

    def _undo(self, publication: Publication) -> None:
        publication.unsequenced_count = 0
        publication.session_rows = None
        publication.refused = True

    def post(self, message: object) -> None:
        """Take an answer of the store."""
        publication = self.publication
        if isinstance(message, PublishFailed):
            self._failure = PublishFailed(self._token, message.reason, message.verdict)
        self._pending_count -= 1
        if self._pending_count == 0:
            if publication is not None and not (publication.confirmed or publication.refused):
                publication.confirmed = self._failure is None
                publication.refused = self._failure is not None
            self._answer()

    def _answer(self) -> None:
        self._reply_to.post(Confirmed(self._token) if self._failure is None else self._failure)


# Publishes a batch that has waited: its answers go to it.
Publishes = Callable[[HeldPublish], PublishResult]


@final
class PublisherLine(HeldLine):
    """The line of one publisher."""

    def __init__(
        self, space: TopicSpace, holds: Holds, spool: Address, publishes: Publishes, left: Callable[[], None]
    ) -> None:
        """`left` is called when nothing waits any more."""
        self._space = space
        self._holds = holds
        self._spool = spool
        self._publishes = publishes
        self._left = left
        self._waiting: deque[HeldPublish] = deque()

    def is_empty(self) -> bool:
        """Return whether nothing waits."""
        return not self._waiting

    def wait(self, batch: MessageBatch, token: int, reply_to: Address, now_ms: int) -> PublishResult:
        """Put a batch to the end of the line; return what its publisher is told."""
        result = PublishResult()
        holds = self._holds
        guaranteed = batch.qos != AT_MOST_ONCE
        if guaranteed and batch.count > 1:
            result.refuse(REFUSED_MOVING, "")  # it comes again one by one
            return result
        size = int(batch.payload_bytes) + MESSAGE_BYTES * batch.count
        if not holds.has_room(size):
            if guaranteed:
                holds.refused_count += 1
                result.refuse(REFUSED_MOVING, "")
            else:
                holds.dropped_count += batch.count
            return result
        held = HeldPublish(batch, size, reply_to, token)
        self._waiting.append(held)
        holds.joins(self, batch.count, size)
        holds.pressure.level(holds.waiting_bytes, now_ms)
        if guaranteed:
            result.publication = held.publication
            result.confirmations_pending = 1
        return result

    def release(self, count_max: int) -> int:
        """Publish what is not held any more, up to so many batches; return how many were published."""
        count = 0
        while self._waiting and count < count_max and not self._space.is_held(self._waiting[0].batch):
            held = self._waiting.popleft()
            self._holds.leaves(held.batch.count, held.size)
            count += 1
            if not self._waiting:
                self._holds.lines.pop(self, None)
                self._left()
            try:
                result = self._publishes(held)
            except Exception:  # a fault of ours; its publisher has to hear of it, and the others go on
                log.exception("a message that waited for a queue's new home could not be published")
                result = PublishResult()
                result.refuse(REFUSED_NOT_STORED, "")
            held.published(result, self._spool)
        return count


def release_some(space: TopicSpace, count_max: int) -> bool:
    """Publish up to so many batches whose topics are not held any more; return whether there may be more of them.

    To be called again, in a later turn, as long as that is so. When nothing is held and nothing waits, the topic space
    has no holds any more.
    """
    holds = space.held
    if holds is None:
        return False
    left = count_max
    for line in list(holds.lines):
        left -= line.release(left)
        if left <= 0:
            break
    for publisher in holds.pressure.level(holds.waiting_bytes, 0):
        publisher.post(Resume())
    if holds.is_over():
        space.end_holds()
    return left <= 0 and space.held is not None
