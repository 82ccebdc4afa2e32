"""One queue of a neighbor, as consumers of this broker see it.

A `RemoteQueue` is an actor that takes what a queue's actor takes of consumers. It turns requests into notes for the
neighbor, and what the neighbor answers into the messages that a queue and its partitions send. Settlements come to its
`RemotePartition` actors, one for each partition that has delivered.

Credit is lent: what a consumer's window has room for is taken from the window, and given to the neighbor, which may
deliver so many messages. Once they are here they are unsettled, as those of a local partition are. A loan that nothing
was delivered for is asked back when others wait for the window, and when the consumer drains the flow. What comes for
credit that the consumer has recalled meanwhile is returned untouched, and so is all that follows until the neighbor has
answered a recall: else later messages of a key would come before it.
"""

import logging
from typing import Any, Final, final

from sluicegate.actors.messages.data import (
    Deliveries,
    Settle,
    Wake,
)
from sluicegate.actors.messages.queues import (
    ACTIVE_CONSUMER,
    ENDPOINT_DISABLED,
    INACTIVE,
    AcknowledgeHandoff,
    Assignment,
    BindBrowser,
    BindFlow,
    BindRefused,
    BrowserBound,
    DrainFlow,
    FlowDrained,
    FlowGone,
    FlowOverview,
    FlowState,
    UnbindFlow,
)
from sluicegate.actors.messages.readers import AskHome
from sluicegate.actors.network.link_batches import link_batch
from sluicegate.actors.partitions.triggers import wake_waiters
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.actors.runtime.supervision import ONE_CONNECTION
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.outcomes import RELEASED
from sluicegate.messaging.network.times import arriving
from sluicegate.messaging.partitions.state.effects import Delivery
from sluicegate.messaging.partitions.state.flows import Flow
from sluicegate.messaging.queues.credit import CreditWindow
from sluicegate.protocols.flow.codec.frames.link_flow import (
    FIRST_OF_GROUP,
    REDELIVERED,
    LinkDeliver,
)
from sluicegate.protocols.network.queues import notes
from sluicegate.protocols.network.queues.notes import FlowNote
from sluicegate.protocols.network.queues.remote.browsers import RemoteBrowsers
from sluicegate.protocols.network.queues.remote.link import QueueEnd, QueueLink
from sluicegate.protocols.network.queues.remote.partition import RemotePartition

log = logging.getLogger("sluicegate.network")

LOAN_MAX: Final = 1_000  # messages of one flow that the neighbor may deliver
LOAN_BYTES_MAX: Final = 4 * 1024 * 1024  # of them, as far as the sizes of earlier ones tell
LOAN_FIRST: Final = 32  # messages, while nothing is known of their sizes
RECALL_MS: Final = 250  # a loan for which nothing came in this time is asked back, where others wait
SHARED_WINDOWS: Final = "mqtt"  # the protocol in which one window is for all flows of a connection


@final
class _Borrower:
    """A consumer's flow at this broker, and what is lent to the neighbor for it."""

    def __init__(self, request: BindFlow, flow: Flow, bound: LoopFuture[None]) -> None:
        self.flow: Final = flow
        self.window: Final[CreditWindow[Address]] = request.window
        self.bound: Final = bound
        self.is_shared: Final = request.protocol == SHARED_WINDOWS
        self.is_bound = False
        self.loan = 0  # messages that the neighbor may still deliver; they count as used in the window
        self.lent_count = 0  # in all, since the flow was bound
        self.received_count = 0
        self.drain_number = 0  # of the drain or recall that is under way
        self.is_drained = False  # one is under way
        self.wanted_drain_number = 0  # of the drain that the consumer waits for; 0: none
        self.message_bytes = 0  # of what comes, about; 0: nothing has come
        self.returns_all = False  # what comes, until the recall that is under way is answered
        self.received_before = 0  # when the loan was last looked at
        self.partitions: list[int] = []  # that it has at the neighbor, as that has told
        self._unsettled: dict[int, int] = {}  # messages, by partition

    @property
    def unsettled_count(self) -> int:
        """The messages that came and are neither settled nor back in a partition that it has lost."""
        return sum(self._unsettled.values())

    @property
    def loan_max(self) -> int:
        """The most messages to be lent at a time: what comes must find room in memory though the consumer is slow."""
        if self.message_bytes == 0:
            return LOAN_FIRST
        return max(1, min(LOAN_MAX, LOAN_BYTES_MAX // self.message_bytes))

    def receives(self, number: int, count: int, size: int) -> None:
        """Count messages that came from a partition, of so many bytes in all."""
        self.loan -= count
        self.received_count += count
        self._unsettled[number] = self._unsettled.get(number, 0) + count
        mean = max(1, size // count)
        self.message_bytes = mean if mean > self.message_bytes else (self.message_bytes * 3 + mean) // 4

    def settled(self, number: int, count: int) -> None:
        """Count messages of a partition as settled. It may have lost the partition meanwhile, and them with it."""
        held = self._unsettled.get(number)
        if held is not None:
            self._unsettled[number] = max(0, held - count)

    def keeps_only(self, partitions: list[int]) -> None:
        """Note which partitions it has: the others have back what it has not settled."""
        self.partitions = partitions
        for number in list(self._unsettled):
            if number not in partitions:
                del self._unsettled[number]

    def waits_for_socket(self) -> bool:
        """Return whether only the consumer's socket keeps it from having more."""
        return self.window.is_shut and self.window.used < self.window.limit

    def takes_back(self) -> None:
        """Give the loan back to the window. One that its consumer has closed has nothing to be given."""
        self.window.unlend(self.loan)
        self.loan = 0
        self.lent_count = self.received_count


@final
class RemoteQueue(QueueEnd):
    """One queue of a neighbor."""

    def __init__(self, cell: ActorCell, name: str, link: QueueLink) -> None:
        self.name: Final = name
        self._cell = cell
        self._link = link
        self._flows: dict[int, _Borrower] = {}
        self._partitions: dict[int, ActorCell] = {}
        self.is_found = False  # since its link last looked for queues that are not used
        self._is_watched = False
        self._browsers: Final = RemoteBrowsers(cell, name, link)

    def clients(self) -> set[str]:
        """Return the names of the clients that consume from it or browse it here."""
        return {each.flow.client for each in self._flows.values()} | self._browsers.clients()

    def has_flows(self) -> bool:
        """Return whether there are consumers or browsers."""
        return len(self._flows) > 0 or self._browsers.count > 0

    def flows(self) -> list[FlowOverview]:
        """Return its consumers and browsers here, as far as this broker knows them."""
        found = []
        for flow_id, each in self._flows.items():
            flow, activity = each.flow, ACTIVE_CONSUMER if each.partitions else INACTIVE
            text = "" if flow.selector is None else flow.selector.text
            window, count, partitions = each.window.limit, each.unsettled_count, each.partitions
            found.append(FlowOverview(flow_id, flow.client, flow.protocol, window, count, activity, partitions, text))
        return found + self._browsers.flows()

    # --- what consumers say ---

    def receive(self, message: Any) -> Any:
        """Handle a message of a consumer."""
        if isinstance(message, Wake):
            for borrower in list(self._flows.values()):
                self._review(borrower)
        elif isinstance(message, BindFlow):
            return self._bind(message)
        elif isinstance(message, UnbindFlow):
            self._unbind(message)
        elif isinstance(message, DrainFlow):
            self._drain(message)
        elif isinstance(message, AcknowledgeHandoff):
            self._link.say(notes.HANDOFF, message.flow_id, message.partitions)
        elif isinstance(message, BindBrowser):
            return self._bind_browser(message)
        elif isinstance(message, AskHome):
            self.is_found = True
            return self._link.readers.ask(self.name, message)
        return None

    def turn_ended(self) -> None:
        """Do nothing: the link writes at the end of the turn."""

    def stopped(self) -> None:
        """End all flows: the queue is known here no longer."""
        for flow_id in list(self._flows):
            self._link.say(notes.UNBIND, flow_id, False, True)
        self.lost("the queue is gone, or the link to its broker was removed", may_return=True)

    def _check_reachable(self) -> None:
        """Raise BindRefused while the link is down."""
        cause = self._link.absence()
        if cause:
            raise BindRefused(
                ENDPOINT_DISABLED, f"503 Service Unavailable: queue {self.name!r} cannot be reached: {cause}"
            )

    def _bind_browser(self, message: BindBrowser) -> LoopFuture[BrowserBound]:
        self._check_reachable()
        self._link.begin(message.flow_id, self)
        return self._browsers.bind(message)

    def _bind(self, message: BindFlow) -> LoopFuture[None]:
        self._check_reachable()
        flow = Flow(
            flow_id=message.flow_id,
            queue_name=self.name,
            client=message.client,
            address=message.address,
            window=message.window,
            bound_order=message.flow_id,
            protocol=message.protocol,
            selector=message.selector,
            of_partition_max=message.of_partition_max,
        )
        bound: LoopFuture[None] = LoopFuture()
        borrower = self._flows[message.flow_id] = _Borrower(message, flow, bound)
        if borrower.is_shared:
            lenders = borrower.window.lenders
            if lenders is None:
                lenders = borrower.window.lenders = []
            lenders.append(self._watch)
        self._link.begin(message.flow_id, self)
        self._link.say(
            notes.BIND,
            message.flow_id,
            self.name,
            message.client,
            message.user,
            message.protocol,
            "" if message.selector is None else message.selector.text,
            message.acknowledges,
            int(message.of_partition_max),
        )
        self._review(borrower)
        return bound

    def _unbind(self, message: UnbindFlow) -> None:
        if any(not partition.inbox.empty() for partition in self._partitions.values()):
            # What the consumer has settled before waits there; with the flow it would lose its meaning.
            self._cell.inbox.post(message)
            return
        if self._forget(message.flow_id) is not None:
            self._link.say(notes.UNBIND, message.flow_id, message.count_as_failed, message.may_return)
        else:
            self._browsers.unbind(message)

    def _forget(self, flow_id: int) -> _Borrower | None:
        borrower = self._flows.pop(flow_id, None)
        if borrower is None:
            return None
        self._link.end(flow_id)
        borrower.takes_back()
        if borrower.is_shared and borrower.window.lenders is not None:
            borrower.window.lenders.remove(self._watch)
        if not borrower.is_bound:
            gone = BindRefused(ENDPOINT_DISABLED, f"503 Service Unavailable: queue {self.name!r} cannot be reached")
            borrower.bound.set_exception((BindRefused, gone, None))
        return borrower

    def _drain(self, message: DrainFlow) -> None:
        borrower = self._flows.get(message.flow_id)
        if borrower is None:
            return
        borrower.wanted_drain_number = message.number
        self._review(borrower)

    def _end_loan(self, borrower: _Borrower, number: int) -> None:
        """Drain the flow, or recall what is lent (0)."""
        borrower.drain_number = number
        borrower.is_drained = True
        self._link.say(notes.DRAIN, borrower.flow.flow_id, number)

    # --- credit ---

    def _review(self, borrower: _Borrower) -> None:
        """Lend what the window has room for, if a good part of the loan is used up; stand in line for more."""
        if borrower.is_drained:
            return  # what is lent now would be taken for lent before
        window = borrower.window
        room = int(window.room())
        loan_max = borrower.loan_max
        if borrower.wanted_drain_number:
            if borrower.waits_for_socket():
                window.wait(self._cell.inbox)
            else:
                self._lend(borrower, min(room, loan_max - borrower.loan))
                self._end_loan(borrower, borrower.wanted_drain_number)
            return
        if window.is_shut and borrower.loan > loan_max:  # messages are larger than those before
            self._end_loan(borrower, 0)
            return
        wanted = min(loan_max, borrower.loan + ((room + 1) // 2 if borrower.is_shared else room))
        if room > 0 and borrower.loan * 2 <= wanted:
            self._lend(borrower, min(room, wanted - borrower.loan))
        # In a shared window a flow with a loan leaves the line to others: each delivery brings it here again.
        if borrower.loan == 0 or (not borrower.is_shared and borrower.loan * 2 <= loan_max):
            window.wait(self._cell.inbox)
        elif borrower.is_shared and window.is_waited_for():  # by those who stood in line as the loan was made
            self._watch()

    def _lend(self, borrower: _Borrower, count: int) -> None:
        if count <= 0:
            return
        borrower.window.lend(count)
        borrower.loan += count
        borrower.lent_count += count
        self._link.say(notes.CREDIT, borrower.flow.flow_id, borrower.lent_count)

    def _watch(self) -> None:
        """Look after a while whether a loan is idle that others wait for."""
        if not self._is_watched:
            self._is_watched = True
            self._cell.after(RECALL_MS, self._look)

    def _look(self) -> None:
        self._is_watched = False
        for borrower in list(self._flows.values()):
            window = borrower.window
            is_idle = borrower.received_count == borrower.received_before
            borrower.received_before = borrower.received_count
            if not borrower.is_shared or borrower.loan == 0 or borrower.is_drained:
                continue
            if window.is_shut or window.used < window.limit or not window.is_waited_for():
                continue
            if is_idle:
                self._end_loan(borrower, 0)
            else:
                self._watch()

    # --- what the neighbor says ---

    def deliver(self, frame: LinkDeliver) -> None:
        """Pass messages on to their consumer. Raises ValueError."""
        borrower = self._flows.get(frame.consumer)
        if borrower is None:  # a consumer that has ended: they are delivered to others
            self._browsers.show(frame)
            return
        batch = arriving(link_batch(frame.batch), frame.sent_ms, self._cell.runtime.dispatcher.both_ms()[1])
        count = batch.count
        if count > borrower.loan:  # one of the two is wrong: the flow begins anew, and the link goes on
            text = f"{count} messages came for the {borrower.loan} that were asked for"
            log.warning("flow of %r at %r of %s: %s", borrower.flow.client, self.name, self._link.neighbor, text)
            self._forget(frame.consumer)
            self._link.say(notes.UNBIND, frame.consumer, False, True)
            borrower.flow.address.post(FlowGone(frame.consumer, f"500 Internal Error: {text}", may_return=True))
            return
        borrower.receives(frame.partition, count, len(frame.batch))
        window = borrower.window
        excess = count if borrower.returns_all else int(window.excess(count))
        partition = self._partition(frame.partition)
        window.unlend(excess)
        window.arrive(count - excess)
        if excess:  # the consumer has recalled its credit, or all consumers together are at their maximum
            if not borrower.is_drained:  # before the messages are back: they must not come at once again
                self._end_loan(borrower, 0)
            borrower.returns_all = True
            end = frame.first + count
            released = Settle(
                frame.consumer, frame.epoch, end - excess, end, RELEASED, delivery_count=frame.delivery_count
            )
            partition.post(released)
        if excess < count:
            is_again = frame.flags & REDELIVERED != 0
            delivery = Delivery(
                borrower.flow, frame.epoch, batch, 0, count - excess, frame.first, is_again, frame.delivery_count, None
            )
            delivery.first_of_group = frame.flags & FIRST_OF_GROUP != 0
            delivery.annotation = frame.annotation
            borrower.flow.address.deliver_now(Deliveries(borrower.flow, partition, frame.partition, [delivery]))
        self._review(borrower)

    def told(self, note: FlowNote) -> None:
        """Carry out a note of the neighbor. Raises ValueError."""
        borrower = self._flows.get(note.consumer)
        if borrower is None:
            self._browsers.told(note)
            return
        kind, flow_id, address = note.kind, note.consumer, borrower.flow.address
        if kind == notes.BOUND:
            borrower.is_bound = True
            borrower.bound.set()
        elif kind == notes.REFUSED:
            refusal = BindRefused(note.text(0), note.text(1))
            borrower.is_bound = True  # decided
            self._forget(flow_id)
            borrower.bound.set_exception((BindRefused, refusal, None))
        elif kind == notes.STATE:
            borrower.keeps_only(note.numbers(1))
            address.post(FlowState(flow_id, note.flag(0), borrower.partitions))
        elif kind == notes.ASSIGNMENT:
            now_ms = self._cell.runtime.clock.now_ms()
            rows = [(row[0], row[1], now_ms + row[2] if row[2] else 0) for row in note.rows(0, 3)]
            address.post(Assignment(flow_id, rows))
        elif kind == notes.DRAINED:
            self._drained(borrower, note.number(0))
        elif kind == notes.GONE:
            reason, was_bound, borrower.is_bound = note.text(0), borrower.is_bound, True  # decided
            self._forget(flow_id)
            if was_bound:
                address.post(FlowGone(flow_id, reason, note.flag(1)))
            else:
                borrower.bound.set_exception((BindRefused, BindRefused(ENDPOINT_DISABLED, reason), None))
        else:
            raise ValueError(f"LINK_FLOW of kind {kind} from the broker of a queue")

    def _drained(self, borrower: _Borrower, number: int) -> None:
        if not borrower.is_drained or number != borrower.drain_number:
            raise ValueError(f"DRAINED {number} for consumer {borrower.flow.flow_id}, which did not ask for it")
        window = borrower.window
        is_used_up = borrower.loan == 0 and not borrower.returns_all
        borrower.takes_back()
        borrower.is_drained = borrower.returns_all = False
        if number == 0:
            wake_waiters(window, self._cell.runtime.dispatcher)  # the others first
        elif number != borrower.wanted_drain_number:
            borrower.flow.address.post(FlowDrained(borrower.flow.flow_id, number))
        elif not is_used_up or (window.room() == 0 and not borrower.waits_for_socket()):
            borrower.wanted_drain_number = 0
            borrower.flow.address.post(FlowDrained(borrower.flow.flow_id, number))
        self._cell.inbox.post(Wake())  # after the consumer has decided what it wants now

    def lost(self, reason: str, *, may_return: bool) -> None:
        """End all flows."""
        for flow_id in list(self._flows):
            borrower = self._forget(flow_id)
            if borrower is not None and borrower.is_bound:
                borrower.flow.address.post(FlowGone(flow_id, reason, may_return=may_return))
        self._browsers.lost(reason, may_return=may_return)

    def settled(self, flow_id: int, number: int, count: int) -> None:
        """Count messages of a partition that a consumer has settled."""
        borrower = self._flows.get(flow_id)
        if borrower is not None:
            borrower.settled(number, count)

    # --- partitions ---

    def _partition(self, number: int) -> Address:
        found = self._partitions.get(number)
        if found is None:
            link = self._link

            def make(cell: ActorCell) -> RemotePartition:
                return RemotePartition(number, link)

            found = self._partitions[number] = self._cell.runtime.spawn(
                make, kind="remote-partition", name=str(number), policy=ONE_CONNECTION, parent=self._cell
            )
        return found.inbox
