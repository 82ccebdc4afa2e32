"""Invariants of the node at moments when no message is on its way between its actors.

Only this module of the simulation reads private attributes: the accounts of queues, ledgers, gates and the spool must
add up, whatever clients can see of them.
"""

from collections.abc import Iterator

from simulation.judge.targets import Violation
from simulation.machine.image import Image
from sluicegate.actors.messages.directory import LocalQueue
from sluicegate.actors.queues.core import QueueCore
from sluicegate.actors.queues.directory.directory import QueueDirectory
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.actors.transactions.staging import StagingActor
from sluicegate.gateway.node.node import Node
from sluicegate.messaging.bulk.retained_log import RetainedLog
from sluicegate.messaging.partitions.ledger import Ledger


def queues_of(node: Node) -> list[LocalQueue]:
    """Return the queues there are."""
    directory = node.default.queues.actor
    assert isinstance(directory, QueueDirectory)
    return list(directory._queues.by_name.values())


def ledgers_of(queue: LocalQueue) -> Iterator[Ledger]:
    """Yield the ledgers of a queue's partitions."""
    for log in logs_of(queue):
        yield log.ledger


def logs_of(queue: LocalQueue) -> Iterator[RetainedLog]:
    """Yield the logs of a queue's partitions, each beside its ledger."""
    for cell in partitions_of(queue):
        yield cell.actor._partition._log


def partitions_of(queue: LocalQueue) -> list[ActorCell]:
    """Return the actors of a queue's partitions; beside them it has browsers."""
    return [cell for cell in queue.cell.children or () if cell.kind == "partition"]


def core_of(queue: LocalQueue) -> QueueCore:
    """Return all of a queue's state."""
    assert isinstance(queue.state, QueueCore)
    return queue.state


def check_inside(node: Node, *, thorough: bool) -> None:
    """Hold the node's accounts against each other. Raises Violation."""
    queues = queues_of(node)
    staging = node.default.staging.actor
    assert isinstance(staging, StagingActor)
    is_committing = any(each.committing for each in staging._area.open.values())  # and has reserved room in queues
    for queue in queues:
        ledgers = list(ledgers_of(queue))
        if thorough:
            for log in logs_of(queue):
                _check_log(queue, log)
        for ledger in ledgers:
            free = ledger.available_within(ledger.floor, ledger.next_sequence) if ledger.rules.last_value_only else []
            if sum(end - first for first, end in free) > 1:
                raise Violation(f"{queue.name} keeps its newest message only, and has {free}")
        if queue.definition.config.partition_count > 0:
            _check_owners(queue, ledgers)
        if not is_being_read_back(queue) and not is_committing:
            # What another broker has confirmed is taken beyond the limit.
            _check_gate(queue, ledgers, takes_more=any(node.links.overruns().values()))
    if any(is_being_read_back(queue) for queue in queues):
        return
    spooled_bytes = sum(queue.target.gate.usage_bytes for queue in queues if queue.durable) + staging._area.staged_bytes
    if node.services.spool_gate.usage_bytes != spooled_bytes:
        raise Violation(
            f"the spool's gate counts {node.services.spool_gate.usage_bytes} bytes, queues hold {spooled_bytes}"
        )
    memory_bytes = sum(log.memory_bytes + log.ledger.memory_bytes for queue in queues for log in logs_of(queue))
    if node.services.memory.used_bytes != memory_bytes:
        raise Violation(
            f"the memory budget counts {node.services.memory.used_bytes} bytes, partitions hold {memory_bytes}"
        )


def is_being_read_back(queue: LocalQueue) -> bool:
    """Return whether a partition has failed too often: until it is back, what comes waits in its inbox."""
    return any(cell.suspended for cell in partitions_of(queue))


class QuotaWatch:
    """The quota of the message VPN: beyond it no message is taken more, and what is there stays.

    The last publish below it may go beyond it: each queue that wants the message has been asked by itself.
    """

    def __init__(self) -> None:
        self._quota_bytes = -1  # that is in force for sure; -1: none
        self._count, self._left_count, self._usage_bytes = 0, 0, 0  # of messages, when they were looked at last
        self._since: object = None  # what there was to bring messages back until then

    def may_change(self) -> None:
        """A reload begins."""
        self._quota_bytes = -1

    def is_in_force(self, quota_bytes: int) -> None:
        """A configuration is in force: what was taken until now was taken by the one before."""
        self._quota_bytes = quota_bytes
        self._since = None

    def check(self, node: Node, since: object) -> None:
        """Raise Violation when a message was taken beyond the quota, and none has left that could have made room.

        `since` is another value when a crash, a replay or a partition that is read back may have brought some back.
        """
        if any(ledger.moving for queue in queues_of(node) for ledger in ledgers_of(queue)):
            return  # what is being moved counts in both queues
        gate = node.default.gate
        before, left_before, bytes_before, since_before = self._count, self._left_count, self._usage_bytes, self._since
        self._count, self._left_count = gate.usage_count, gate.accepted_count - gate.usage_count
        self._usage_bytes, self._since = gate.usage_bytes, since
        if since != since_before or self._left_count != left_before:
            return
        if 0 <= self._quota_bytes < bytes_before and before < self._count:
            raise Violation(
                f"the message VPN had {bytes_before} bytes of {self._quota_bytes}, and has taken "
                f"{self._count - before} more messages"
            )


def check_at_rest(node: Node, image: Image) -> None:
    """Everything was drained and settled: nothing may be left over. Raises Violation."""
    for queue in queues_of(node):
        count = max(1, queue.definition.config.partition_count)
        if core_of(queue).rescale is not None or len(queue.target.partitions) != count:
            raise Violation(
                f"{queue.name} was drained, has {len(queue.target.partitions)} partitions of {count}, and "
                f"its change is not at its end: {core_of(queue).rescale}"
            )
        for ledger in ledgers_of(queue):
            if ledger.rescale_holds is not None or ledger.watched_cut:
                raise Violation(f"{queue.name} was drained, and one of its partitions goes on holding or waiting")
            if ledger.waiting_count or ledger.memory_bytes or ledger.failures or ledger.requeued.total:
                raise Violation(
                    f"{queue.name} was drained, and holds {ledger.waiting_count} messages, {ledger.memory_bytes} bytes "
                    f"in memory, {ledger.requeued.total} to deliver again, failures of {sorted(ledger.failures)}; "
                    f"flows {list(ledger.flows)}"
                )
            if ledger.floor != ledger.next_sequence:
                raise Violation(f"{queue.name} is empty, and its floor is {ledger.floor} of {ledger.next_sequence}")
    needed = [slot.number for slot in node.services.planner.journal.slots if slot.needed_count > 0]
    if needed:
        raise Violation(f"nothing waits, and the log keeps records {needed}")
    if image.positions.needed_from <= image.positions.applied:
        raise Violation(f"nothing waits, and the last checkpoint left {image.positions}")
    if image.pages:
        raise Violation(f"nothing waits, and the store keeps pages {sorted(image.pages)}")


def forget_connections(node: Node) -> None:
    """A node dies with its process: aiohttp is not to complain of connections that it has left open."""
    for vpn in node.vpns.values():
        for point in vpn.rest.running.values():
            for session in [each._session for each in point.consumers if each._session is not None]:
                if session.connector is not None:
                    session.connector._conns.clear()
                    session.detach()


def _check_owners(queue: LocalQueue, ledgers: list[Ledger]) -> None:
    for number, ledger in enumerate(ledgers):
        if len(ledger.flows) > 1:
            raise Violation(f"partition {number} of {queue.name} has {len(ledger.flows)} owners: {list(ledger.flows)}")


def _check_gate(queue: LocalQueue, ledgers: list[Ledger], *, takes_more: bool) -> None:
    gate = queue.target.gate
    count = sum(ledger.waiting_count for ledger in ledgers)
    size = sum(ledger.waiting_bytes for ledger in ledgers)
    if (gate.usage_count, gate.usage_bytes) != (count, size):
        raise Violation(
            f"the gate of {queue.name} counts {gate.usage_count} messages of {gate.usage_bytes} bytes, "
            f"its partitions hold {count} of {size}"
        )
    if gate.usage_bytes > gate.usage_bytes_max and not takes_more:
        raise Violation(f"{queue.name} holds {gate.usage_bytes} bytes of {gate.usage_bytes_max}")


def _check_log(queue: LocalQueue, log: RetainedLog) -> None:
    try:
        log.ledger.check()
        log.check()
    except AssertionError as error:
        raise Violation(f"a ledger of {queue.name}, or its log, is not in order: {error}") from error
