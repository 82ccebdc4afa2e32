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
from sluicegate.messaging.routing.destinations import QueueTarget

# Dead messages of a partition whose way to the dead message queue fails over a fault of the gateway, again and again.
#
# Nothing of theirs is lost: they are on their way in the partition's books, and their queue has them. Tried and told
# each second, a single one of them would fill the log. A store that fails for a while is no such fault.


AGAIN_MS_MIN: Final = 1000  # until the next attempt
AGAIN_MS_MAX: Final = 60_000


@final
class StuckDeadLetters:
    """Those of one partition, by their sequences. Operators hear when there are some, and when there are none left."""

    def __init__(self, clock: Clock, events: Events, queue_name: str, number: int) -> None:
        self._clock = clock
        self._events = events
        self._where = f"queue {queue_name!r}, partition {number}"
        self._stuck = RangeSet()
        self._since_ms = 0  # when the first of them failed for the first time

    def failed(self, ranges: list[tuple[int, int]], error: Exception) -> int:
        """Note that a move of these has failed; return in how many ms to try again: as long as it has failed by now."""
        now_ms = self._clock.now_ms()
        if self._stuck.total == 0:
            self._since_ms = now_ms
            self._events.emit(VPN_DEAD_MSG_STUCK, f"{self._where}: dead messages cannot be moved: {error!r}")
        again_ms = min(max(now_ms - self._since_ms, AGAIN_MS_MIN), AGAIN_MS_MAX)
        is_new = False
        for first, end in ranges:
            is_new = self._stuck.count_within(first, end) < end - first or is_new
            self._stuck.add(first, end)
        if is_new:
            log.error("%s: dead messages cannot be moved: %r", self._where, error, exc_info=error)
        else:
            log.error("%s: dead messages still cannot be moved: %r; again in %d ms", self._where, error, again_ms)
        return again_ms

    def over(self, first: int, end: int) -> None:
        """Note that messages are on their way no more, or fail over something else."""
        if self._stuck.total > 0 and self._stuck.count_within(first, end) > 0:
            self._stuck.discard(first, end)
            if self._stuck.total == 0:
                self._events.emit(VPN_DEAD_MSG_STUCK_CLEAR, f"{self._where}: no dead message is held up any more")

    def all_over(self) -> None:
        """Note that none is on its way any more."""
        for first, end in self._stuck.ranges():
            self.over(first, end)


log = logging.getLogger("sluicegate.queues")


@final
class JobContext:
    """The partition that jobs are run for, and what they need of its surroundings."""

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
        targets: dict[str, QueueTarget],
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
        self.targets = targets  # every queue of the node by name
        self.trace = trace  # None: nothing of this queue is traced
        self.requests = ConsumerRequests()  # of the partition: the end of its turn looks after them
        self.jobs: dict[int, PartitionJob] = {}
        self.dead_lettering_count = 0  # messages on their way to the dead message queue
        self.stuck = StuckDeadLetters(runtime.clock, events, queue_name, number)
        self.settled_count = 0  # messages that transactions settled

    def use_ledger(self, ledger: Ledger) -> None:
        """Take up a ledger that was made anew from the store."""
        self.ledger = ledger
        self.stuck.all_over()
        for job in self.jobs.values():
            job.reloaded()


class PartitionJob(Address):
    """One job. It is answered by being posted to, like any address."""

    def __init__(self, context: JobContext) -> None:
        self.context = context
        context.jobs[id(self)] = self

    def post(self, message: object) -> None:
        """Leave an answer with the partition, for its next turn."""
        self.context.address.post(JobReply(self, message))

    def begin(self) -> None:
        """Do what there is to do before anything is waited for."""
        try:
            self.run()
        except Exception as error:  # the boundary of a job
            self._break_off(error)

    def take_reply(self, message: Any) -> None:
        """Take an answer, in a turn of the partition."""
        try:
            self.answered(message)
        except Exception as error:  # the boundary of a job
            self._break_off(error)

    def run(self) -> None:
        """Begin."""
        raise AssertionError("a job has something to do")

    def answered(self, message: Any) -> None:
        """Go on."""
        raise AssertionError("a job knows what it waits for")

    def failed(self, error: Exception) -> None:
        """End over a fault of the gateway: say what becomes of what was in hand."""
        self.over()

    def reloaded(self) -> None:
        """The ledger was made anew."""

    def abandon(self) -> None:
        """The queue is gone: tell whoever waits for this job how far it came."""
        self.over()

    def log_failure(self, error: Exception) -> None:
        """Have the log tell over what fault it ends."""
        context = self.context
        log.error("queue %r, partition %d: a job failed: %r", context.queue_name, context.number, error, exc_info=error)

    def _break_off(self, error: Exception) -> None:
        self.log_failure(error)
        self.failed(error)

    def over(self) -> None:
        """Nothing is waited for any more."""
        self.context.jobs.pop(id(self), None)


@final
class JobReply:
    """A job -> its partition: handle this answer in your turn."""

    def __init__(self, job: PartitionJob, message: object) -> None:
        self.job = job
        self.message = message
