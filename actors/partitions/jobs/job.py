"""Jobs: work of a partition over several turns, such as reading pages or waiting for the commit of a move.

A job outlives the turn that started it, and a restart of the actor. Replies are queued in the partition's inbox and
handled in its turn. An exception ends the job, which decides what becomes of its messages; the turn goes on.
"""

import logging
from typing import Any, Final, final

from sluicegate.actors.partitions.consumer_requests import ConsumerRequests
from sluicegate.actors.runtime.clock import Clock
from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.actors.spool.store_threads import StoreReader
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.messaging.observability.events import VPN_DEAD_MSG_STUCK, VPN_DEAD_MSG_STUCK_CLEAR
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.trace import QueueTrace
from sluicegate.messaging.queues.admission import QueueGate
from sluicegate.messaging.routing.queue_ways import QueueWays

AGAIN_MS_MIN: Final = 1000  # delay of the next attempt
AGAIN_MS_MAX: Final = 60_000
HELD_UP_REPORT_MS: Final = 10_000  # what holds messages up for so long is reported for each partition that waits


@final
class StuckDeadLetters:
    """Dead messages of one partition whose move fails again and again: a fault of the gateway, or a store that fails.

    The messages are not lost: the ledger has them as moving. Retried and logged each second, one of them would fill the
    log, so after a fault retries slow down. Operators are told when there are such messages, and when none is left. A
    store that fails for some seconds is not worth an event of each partition.
    """

    def __init__(self, clock: Clock, events: Events, queue_name: str, number: int) -> None:
        self._clock = clock
        self._events = events
        self._where = f"queue {queue_name!r}, partition {number}"
        self._stuck = RangeSet()
        self._since_ms = 0  # when the first of them failed for the first time
        self._is_reported = False

    def failed(self, ranges: list[tuple[int, int]], error: Exception) -> int:
        """Record a failed move; return the delay of the next attempt in ms: as long as the failures have lasted."""
        lasted_ms, is_new = self._add(ranges)
        self._report(repr(error))
        again_ms = min(max(lasted_ms, AGAIN_MS_MIN), AGAIN_MS_MAX)
        if is_new:
            log.error("%s: dead messages cannot be moved: %r", self._where, error, exc_info=error)
        else:
            log.error("%s: dead messages still cannot be moved: %r; again in %d ms", self._where, error, again_ms)
        return again_ms

    def not_stored(self, ranges: list[tuple[int, int]], reason: str) -> None:
        """Record messages that the store refused in their dead message queue."""
        self.held_up(ranges, f"the store refuses them in their dead message queue: {reason}")

    def held_up(self, ranges: list[tuple[int, int]], reason: str) -> None:
        """Record messages that have to wait."""
        lasted_ms, _ = self._add(ranges)
        if lasted_ms >= HELD_UP_REPORT_MS:
            self._report(reason)

    def over(self, first: int, end: int) -> None:
        """Record that messages are no longer moving."""
        if self._stuck.total > 0 and self._stuck.count_within(first, end) > 0:
            self._stuck.discard(first, end)
            if self._stuck.total == 0 and self._is_reported:
                self._is_reported = False
                self._events.emit(VPN_DEAD_MSG_STUCK_CLEAR, f"{self._where}: no dead message is held up any more")

    def _add(self, ranges: list[tuple[int, int]]) -> tuple[int, bool]:
        """Add messages; return for how long in ms some have been stuck, and whether one of these was not."""
        now_ms = self._clock.now_ms()
        if self._stuck.total == 0:
            self._since_ms = now_ms
        added_count = sum([self._stuck.add(first, end) for first, end in ranges])
        return now_ms - self._since_ms, added_count > 0

    def _report(self, reason: str) -> None:
        if not self._is_reported:
            self._is_reported = True
            self._events.emit(VPN_DEAD_MSG_STUCK, f"{self._where}: dead messages cannot be moved: {reason}")

    def all_over(self) -> None:
        """Record that none is moving any more."""
        for first, end in self._stuck.ranges():
            self.over(first, end)


log = logging.getLogger("sluicegate.queues")


@final
class JobContext:
    """The partition that jobs run for, and the services they need."""

    def __init__(
        self,
        runtime: Runtime,
        address: Address,
        *,
        ledger: Ledger,
        queue_name: str,
        number: int,
        partition_id: int,
        gate: QueueGate,
        reader: StoreReader | None,
        ways: QueueWays,
        trace: QueueTrace | None,
        events: Events,
    ) -> None:
        self.runtime = runtime
        self.clock: Clock = runtime.clock
        self.rng = runtime.rng
        self.address = address
        self.ledger = ledger
        self.queue_name = queue_name
        self.number = number
        self.partition_id = partition_id
        self.gate = gate  # of the queue itself
        self.reader = reader
        self.ways = ways  # to every queue
        self.trace = trace  # None: this queue is not traced
        self.requests = ConsumerRequests()  # of the partition: its turn's end answers them
        self.jobs: dict[int, PartitionJob] = {}
        self.dead_lettering_count = 0  # messages moving to the dead message queue
        self.awaits_way = False  # dead messages wait until it is known where their queue is
        self.events = events
        self.loss_reported = False  # an event says that dead messages are lost for want of a dead message queue
        self.refusal_reported = False  # an event says that it refuses them; none has arrived there since
        self.refusal_reported_ms = 0  # when, by the loop's clock; 0: never
        self.stuck = StuckDeadLetters(runtime.clock, events, queue_name, number)
        self.settled_count = 0  # messages settled by transactions

    def dead_waiting_count(self) -> int:
        """Return how many dead messages are not in their dead message queue yet."""
        return self.dead_lettering_count + sum([each.end - each.first for each in self.ledger.effects.dead])

    def use_ledger(self, ledger: Ledger) -> None:
        """Use a ledger that was reloaded from the store."""
        self.ledger = ledger
        self.stuck.all_over()
        for job in self.jobs.values():
            job.reloaded()


class PartitionJob(Address):
    """One job. Answers are posted to it, as to any address."""

    def __init__(self, context: JobContext) -> None:
        self.context = context
        context.jobs[id(self)] = self

    def post(self, message: object) -> None:
        """Queue an answer with the partition, for its next turn."""
        self.context.address.post(JobReply(self, message))

    def begin(self) -> None:
        """Do all that is possible without waiting."""
        try:
            self.run()
        except Exception as error:  # the boundary of a job
            self._break_off(error)

    def take_reply(self, message: Any) -> None:
        """Handle an answer, in a turn of the partition."""
        try:
            self.answered(message)
        except Exception as error:  # the boundary of a job
            self._break_off(error)

    def run(self) -> None:
        """Start the job."""
        raise AssertionError("PartitionJob is abstract")

    def answered(self, message: Any) -> None:
        """Handle an answer."""
        raise AssertionError("this job waits for no answer")

    def failed(self, error: Exception) -> None:
        """End after a fault of the gateway: decide what becomes of the messages in hand."""
        self.over()

    def reloaded(self) -> None:
        """Adapt to a reloaded ledger."""

    def abandon(self) -> None:
        """End because the queue is deleted: answer the waiting caller."""
        self.over()

    def log_failure(self, error: Exception) -> None:
        """Log the fault that ends the job."""
        context = self.context
        log.error("queue %r, partition %d: a job failed: %r", context.queue_name, context.number, error, exc_info=error)

    def _break_off(self, error: Exception) -> None:
        self.log_failure(error)
        self.failed(error)

    def over(self) -> None:
        """End the job: it waits for nothing more."""
        self.context.jobs.pop(id(self), None)


@final
class JobReply:
    """A job -> its partition: handle this answer in your turn."""

    def __init__(self, job: PartitionJob, message: object) -> None:
        self.job = job
        self.message = message
