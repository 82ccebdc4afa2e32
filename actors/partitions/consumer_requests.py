"""Requests of consumers beside settling: renew a lock, annotate, settle durably, drain, suspend and resume a flow."""

from typing import Any, Final, TypeAlias, TypeVar, final

from sluicegate.actors.messages.data import (
    AnnotateDelivery,
    Confirmed,
    PublishFailed,
    RenewLock,
    SettleDurably,
    StoredAnswer,
)
from sluicegate.actors.messages.partitions import (
    DeliverAgain,
    DrainPartition,
    FoundSequences,
    LookUpSequences,
    ReleaseUnsent,
    RestoreSuspended,
    ResumeSuspended,
    Suspend,
)
from sluicegate.actors.messages.spool import WriteTables
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.rules.in_flight import annotate, in_flight_of, renew_lock
from sluicegate.messaging.partitions.rules.selection import has_more_for
from sluicegate.messaging.partitions.state.effects import Delivery
from sluicegate.messaging.partitions.suspended_flows import (
    deliver_again,
    has_resends,
    release_unsent,
    resend,
    restore_suspended,
    resume,
    suspend,
    unsettled_among,
)

T = TypeVar("T")

ConsumerRequest = AnnotateDelivery | RenewLock | DrainPartition

MOVED_ON: Final = "the partition has moved on"


@final
class _Storing:
    """A request that is answered when the store has the outcome of its messages."""

    def __init__(self, reply_to: Address, ranges: list[tuple[int, int]]) -> None:
        self._reply_to = reply_to
        self._ranges = ranges  # that its flow held; no other request has any of them
        self.leaving_count = 0  # messages that are moving to a dead message queue

    def leaving(self, ledger: Ledger) -> list[tuple[int, int]]:
        """Return the messages that are moving to a dead message queue: until they are there, a crash undoes it."""
        return [part for first, end in self._ranges for part in ledger.moving.within(first, end)]

    def is_there(self, ledger: Ledger) -> bool:
        """Return whether some messages are ready for a consumer: the settlement did not take effect."""
        return any(ledger.available_within(first, end) for first, end in self._ranges)

    def refuse(self) -> None:
        """Answer with a refusal."""
        self._reply_to.post(PublishFailed(0, MOVED_ON))

    def wait(self, spool: Address | None) -> None:
        """Answer when everything that the spool has so far is stored. None: nothing here is ever written."""
        if spool is None:
            self._reply_to.post(Confirmed(0))
        else:  # with nothing to write, this waits for the commit alone
            spool.post(WriteTables([], self._reply_to, 0, until_done=True))


@final
class ConsumerRequests:
    """The requests to one partition. They are answered at the end of a turn, when all its work is carried out.

    A settlement waits for its own messages only: one whose messages cannot reach their dead message queue holds up no
    other. Invariant: each `leaving_count` is the number of the request's entries in `_leaving`, and above 0.
    """

    def __init__(self) -> None:
        self.is_awaited = False  # a request waits
        self._drains: dict[int, LoopFuture[None]] = {}  # by flow
        self._storing: list[_Storing] = []  # of this turn
        self._leaving: dict[int, _Storing] = {}  # by the sequence of each message that is moving

    def receive(self, ledger: Ledger, message: ConsumerRequest, wall_ms: int) -> Any:
        """Carry out a request, or arrange its answer."""
        if isinstance(message, AnnotateDelivery):
            annotate(ledger, message.flow_id, message.epoch, message.ranges, message.delivery_count, message.annotation)
            return None
        if isinstance(message, RenewLock):
            return renew_lock(ledger, message.flow_id, message.epoch, message.ranges, message.delivery_count, wall_ms)
        return self._drain(message.flow_id)

    def takes(self, ledger: Ledger, message: SettleDurably) -> bool:
        """Record a settlement to apply now; return False, and refuse it, when it is stale."""
        flow = ledger.flows.get(message.settle.flow_id)
        if flow is None or flow.epoch != message.settle.epoch:
            message.reply_to.post(PublishFailed(0, MOVED_ON))
            return False
        count = message.settle.delivery_count
        held = [part for each in message.settle.ranges for part in in_flight_of(ledger, flow, each[0], each[1], count)]
        if not held:
            message.reply_to.post(
                PublishFailed(0, "the flow holds none of it: taken back, for it was not settled in time")
            )
            return False
        self._wait_for_store(message.reply_to, held)
        return True

    def when_stored(self, value: T) -> LoopFuture[T]:
        """Return a future that is answered with a value when the store has the work of this turn."""
        stored = StoredAnswer(value)
        self._wait_for_store(stored, [])
        return stored.future

    def reply(self, ledger: Ledger, spool: Address | None) -> None:
        """Answer the requests that can be. The ledger has delivered what it could, and the spool has been told."""
        self._moves_ended(ledger, spool)
        for each in self._storing:
            self._wait_until_moved(each, ledger)
            if each.leaving_count == 0:
                each.wait(spool)
        self._storing.clear()
        for flow_id, answer in list(self._drains.items()):
            if not has_more_for(ledger, flow_id):
                del self._drains[flow_id]
                answer.set(None)
        self.is_awaited = len(self._drains) > 0 or len(self._leaving) > 0

    def use_ledger(self, ledger: Ledger) -> None:
        """Use a ledger reloaded from the store: messages that were moving may be ready in it."""
        waiting = [*dict.fromkeys(self._leaving.values()), *self._storing]
        self._leaving.clear()
        self._storing.clear()
        for each in waiting:
            each.leaving_count = 0
            if each.is_there(ledger):
                each.refuse()
            else:
                self._storing.append(each)

    def end(self) -> None:
        """Answer the drains: nothing more comes from this partition."""
        for flow_id in list(self._drains):
            self._drains.pop(flow_id).set(None)

    def _wait_for_store(self, reply_to: Address, ranges: list[tuple[int, int]]) -> None:
        self._storing.append(_Storing(reply_to, ranges))
        self.is_awaited = True

    def _wait_until_moved(self, request: _Storing, ledger: Ledger) -> None:
        for first, end in request.leaving(ledger):
            request.leaving_count += end - first
            for sequence in range(first, end):
                self._leaving[sequence] = request

    def _moves_ended(self, ledger: Ledger, spool: Address | None) -> None:
        """Answer the settlements of which no message is moving any more."""
        ended, ledger.effects.ended_moves = ledger.effects.ended_moves, []
        if not self._leaving:
            return
        for first, end in ended:
            for sequence in range(first, end):
                request = self._leaving.pop(sequence, None)
                if request is None:
                    continue
                request.leaving_count -= 1
                if request.leaving_count == 0:
                    request.wait(spool)

    def _drain(self, flow_id: int) -> LoopFuture[None]:
        """Add a drain for a flow. A repeated one answers the earlier."""
        earlier = self._drains.pop(flow_id, None)
        if earlier is not None:
            earlier.set(None)
        answer: LoopFuture[None] = LoopFuture()
        self._drains[flow_id] = answer
        self.is_awaited = True
        return answer


SuspensionRequest: TypeAlias = (
    Suspend | ResumeSuspended | RestoreSuspended | ReleaseUnsent | LookUpSequences | DeliverAgain
)
SuspensionReply: TypeAlias = FoundSequences | list[tuple[int, int]] | None


@final
class SuspendedFlows:
    """The suspended flows of one partition, whose clients are disconnected.

    The rules are in messaging.partitions.suspended_flows.
    """

    def __init__(self) -> None:
        self.has_resends = False  # a client is back, and messages have waited for it

    def receive(self, ledger: Ledger, request: SuspensionRequest) -> SuspensionReply:
        """Carry out one request."""
        if isinstance(request, Suspend):
            suspend(ledger, request.flow_id, request.to_resend)
        elif isinstance(request, ResumeSuspended):
            resume(ledger, request.flow)
            self.has_resends = True
        elif isinstance(request, RestoreSuspended):
            restore_suspended(ledger, request.flow, request.epoch, request.to_resend)
        elif isinstance(request, ReleaseUnsent):
            release_unsent(ledger, request.flow_id, request.epoch, request.ranges)
        elif isinstance(request, DeliverAgain):
            self.has_resends = True
            return deliver_again(ledger, request.flow_id, request.epoch, request.ranges)
        else:
            return FoundSequences(unsettled_among(ledger, request.ranges), ledger.suspect_end)
        return None

    def deliver(self, ledger: Ledger) -> list[Delivery]:
        """Return deliveries for clients that are back, ahead of all others."""
        again = resend(ledger)
        self.has_resends = has_resends(ledger)
        return again
