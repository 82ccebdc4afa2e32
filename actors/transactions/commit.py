"""The commit of a transaction: its publications and settlements, in one journal record or not at all.

1. Every partition with a settlement of the transaction takes the messages from the consumer (`preparing`), or reports
   that the consumer no longer holds them: then nothing happens.
2. All publications become one batch, which every queue takes, or none; the publication carries the settlements, so the
   record that adds the messages settles as well (storage.commit.planner). Without messages the settlements go to the
   spool alone, together.
3. When the record is on disk, or refused, the partitions are told.

A queue that is deleted in between takes its part of the transaction with it; a change of a number of partitions does
not matter, for partitions are chosen together with the publishing.

See also: what a transaction collects, its limits and its rollback (the protocols). Outcomes other than accepted settle
nothing: the partitions are told of them after the commit.
"""

import logging
from random import Random
from typing import Final, final

import pykka

from sluicegate.actors.messages.data import (
    COMMIT_FAILED,
    COMMIT_MADE,
    Confirmed,
    PrepareSettlement,
    PublishFailed,
    Settled,
    SettledElsewhere,
    SettleTogether,
)
from sluicegate.actors.partitions.jobs.prepare import PreparedSettlement
from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.actors.publishing.result import PublishResult
from sluicegate.actors.runtime.asks import LoopFuture, ask_at
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.refusals import ADMITTED, REFUSED_NOT_FOUND, refusal_text
from sluicegate.messaging.partitions.state.unsettled import DeliverySource
from sluicegate.messaging.queues.pressure import Pressure
from sluicegate.messaging.routing.destinations import QueueTarget
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.topics.syntax import is_queue_topic

log = logging.getLogger("sluicegate.transactions")

NO_PARTITION: Final = 0  # a publication that no partition gives up
TOKEN: Final = 1  # a commit is one publish
NOT_HELD: Final = "a message that it settles is not held by its consumer any more"


@final
class UnsettledRanges:
    """Messages that a consumer holds: half-open ranges of one partition, with flow, epoch and delivery count."""

    def __init__(self, source: DeliverySource, ranges: list[tuple[int, int]]) -> None:
        self.source = source
        self.ranges = ranges

    def prepare(self) -> PrepareSettlement:
        """Return the request to the partition."""
        source = self.source
        return PrepareSettlement(source.flow_id, source.epoch, self.ranges, source.delivery_count)


@final
class TransactionCommit(Address):
    """One commit. The spool confirms or refuses it."""

    def __init__(self, *, space: TopicSpace, spool: Address, rng: Random) -> None:
        self.pressures: list[Pressure] = []  # destinations over their high mark that were published to
        self._space = space
        self._spool = spool
        self._publisher = Publisher(space=space, spool=spool, address=self, rng=rng, in_transaction=True)
        self._stored: LoopFuture[str] = LoopFuture()
        self._prepared: list[PreparedSettlement] = []

    def post(self, message: object) -> None:
        """Take the spool's answer."""
        if isinstance(message, PublishFailed):
            self._stored.set(message.reason)
        else:
            assert isinstance(message, Confirmed), "only the spool knows this address"
            self._stored.set("")

    async def commit(self, batch: MessageBatch | None, accepted: list[UnsettledRanges]) -> str:
        """Publish and settle; return an empty text when all of it is safe, or why nothing of it happened."""
        is_made = False
        try:
            reason = await self._prepare(accepted) or await self._store(batch)
            is_made = not reason
        finally:
            for prepared in self._prepared:
                prepared.post(COMMIT_MADE if is_made else COMMIT_FAILED)
        return reason

    async def _prepare(self, accepted: list[UnsettledRanges]) -> str:
        """Take the settled messages from their consumers. All partitions are asked before an answer is awaited."""
        asked = [ask_at(each.source.partition, each.prepare()) for each in accepted]
        reason = ""
        for answer in asked:
            try:
                prepared: PreparedSettlement | None = await answer
            except pykka.ActorDeadError:  # its queue was deleted
                prepared = None
            except SettledElsewhere as elsewhere:
                reason = str(elsewhere)
                continue
            except Exception as error:  # an error in a partition: the others have to be told of the end
                log.error("a partition failed during the commit of a transaction", exc_info=error)
                prepared = None
            if prepared is None:
                reason = NOT_HELD
            else:
                self._prepared.append(prepared)
        return reason

    async def _store(self, batch: MessageBatch | None) -> str:
        settlements = [settlement for each in self._prepared for settlement in each.settlements]
        if batch is None:
            return await self._settle(settlements)
        lost = self._queue_not_there(batch)
        if lost:
            return refusal_text(REFUSED_NOT_FOUND, lost)
        result = self._publisher.publish(batch, TOKEN)
        self.pressures += self._publisher.pressures
        if result.refusal != ADMITTED:
            self._count_refusal(batch, result)
            return result.reason()
        publication = result.publication
        if publication is None:  # no subscriber, or only queues that are never written
            return await self._settle(settlements)
        if not settlements:
            return await self._stored
        publication.settlements = settlements
        publication.open_count += 1  # written even if its consumers are faster: it carries the settlements
        reason = await self._stored
        publication.open_count -= 1
        if publication.open_count == 0 and not reason:
            self._spool.post(Settled(NO_PARTITION, [], [publication], [], False))
        return reason

    async def _settle(self, settlements: list[tuple[int, int, int]]) -> str:
        """Settle without a publication that is written."""
        if not settlements:
            return ""
        self._spool.post(SettleTogether(settlements, self, TOKEN))
        return await self._stored

    def _queue_not_there(self, batch: MessageBatch) -> str:
        """Return the topic of a missing queue that a message is addressed to, or an empty text."""
        for topic in set(batch.topics or [batch.topic]):
            if is_queue_topic(topic) and self._space.route(topic).is_empty:
                return topic
        return ""

    def _count_refusal(self, batch: MessageBatch, result: PublishResult) -> None:
        """Count the messages at the queue that refused; a single message it has counted already."""
        count = 0
        refused_by: QueueTarget | None = None
        for row in range(batch.count):
            for target in self._space.queues_of(self._space.route_of_row(batch, row)):
                if target.name == result.refused_by:
                    refused_by = target
                    count += 1
        if refused_by is not None and batch.count > 1:
            refused_by.gate.refuse(result.refusal, count, hears=True)
