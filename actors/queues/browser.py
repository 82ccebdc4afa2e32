"""A browser: shows a queue from its oldest message to its newest, and then new messages as they arrive.

It changes no delivery state: consumers get what they would have got, and may take a message before the browser sees it.
Messages of one partition come in order; between partitions the one that arrived first comes first, as far as the
partitions can be compared at that moment. `actors.partitions.browse` reads; the queue decides which clients may browse.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

from sluicegate.actors.messages.partitions import BrowsedMessage, BrowsePartition, DeleteMessages, EndBrowse
from sluicegate.actors.messages.queues import (
    PERMISSION_DENIED,
    BindBrowser,
    BindRefused,
    Browsed,
    BrowserCredit,
    DeleteBrowsed,
    DrainFlow,
    FlowDrained,
    FlowGone,
    PartitionsChanged,
)
from sluicegate.actors.queues.core import QueueCore
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.asks import LoopFuture, gather
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.queues.attributes import CONSUME
from sluicegate.messaging.queues.definition import denial, permits

WINDOW_MAX: Final = 10_000  # copies that may wait for a consumer; more than any protocol's window needs
FETCHED_MAX: Final = 1000  # messages in memory, of all partitions together
READ_COUNT_MAX: Final = 100  # messages fetched from a partition at once
READ_COUNT_MIN: Final = 4  # with very many partitions


@dataclass(slots=True)
class _Found:
    """The messages of a partition; None when it is gone."""

    partition_number: int
    partition: ActorCell
    messages: list[BrowsedMessage] | None


class BrowserActor(LoopActor):
    """One browser on one queue."""

    def __init__(self, cell: ActorCell, *, request: BindBrowser, core: QueueCore) -> None:
        super().__init__(cell)
        self._request = request
        self._core = core
        self._credit = min(request.window, WINDOW_MAX)
        self._partitions: dict[int, ActorCell] = {}  # those that the fields below refer to
        self._fetched: dict[int, deque[BrowsedMessage]] = {}
        self._fetched_to: dict[int, int] = {}  # partition -> last sequence fetched
        self._shown_to: dict[int, int] = {}  # partition -> last sequence shown
        self._asked: set[int] = set()  # partitions that have not answered yet
        self._at_end: set[int] = set()  # partitions without more messages; asked again, they wait for new ones
        self._gone: set[int] = set()
        self._drain_number = 0  # of a consumer that waits for the tail; 0: none
        self.handlers = {
            BrowserCredit: self._take_credit,
            DeleteBrowsed: self._delete,
            DrainFlow: self._drain,
            _Found: self._take_found,
            PartitionsChanged: lambda _: self._show(),
        }

    def on_start(self) -> None:
        """Begin to read."""
        self._show()

    def on_failure(self, *_: object) -> None:
        """Tell the consumer: a failed browser does not continue."""
        self._core.browsers.pop(self._request.flow_id, None)
        gone = FlowGone(self._request.flow_id, "500 the browser failed", may_return=True)
        self._request.address.post(gone)

    def on_stop(self) -> None:
        """End the waiting requests to partitions."""
        for number in self._asked:
            if number < len(self._core.partitions):
                self._core.partitions[number].inbox.post(EndBrowse(self._request.flow_id))

    def _take_credit(self, message: BrowserCredit) -> None:
        self._credit = min(self._credit + message.count, WINDOW_MAX)
        self._show()

    def _drain(self, message: DrainFlow) -> None:
        self._drain_number = message.number
        self._show()

    def _take_found(self, message: _Found) -> None:
        number = message.partition_number
        if self._partitions.get(number) is not message.partition:
            return  # it has retired
        self._asked.discard(number)
        if message.messages is None:
            self._gone.add(number)
        elif message.messages:
            self._fetched.setdefault(number, deque()).extend(message.messages)
            self._fetched_to[number] = message.messages[-1].sequence
            self._at_end.discard(number)
        else:
            self._at_end.add(number)
        self._show()

    def _show(self) -> None:
        """Send what the consumer takes, oldest first, and read on where no message is in memory."""
        self._follow_the_queue()
        shown: list[BrowsedMessage] = []
        while self._credit > 0:
            empty = [number for number in self._numbers() if not self._fetched.get(number)]
            for number in empty:
                self._ask(number)
            if any(number not in self._at_end for number in empty):
                break  # its next message may be older than those of the others
            message = self._take_oldest()
            if message is None:
                break
            selector = self._request.selector
            if selector is None or selector.matches(message.batch, message.row):
                shown.append(message)
                self._credit -= 1
        if shown:
            self._request.address.post(Browsed(self._request.flow_id, shown))
        if self._drain_number and self._is_at_tail():
            self._request.address.post(FlowDrained(self._request.flow_id, self._drain_number))
            self._drain_number = 0

    def _is_at_tail(self) -> bool:
        """Return whether all messages of the partitions were shown."""
        return not any(self._fetched.values()) and self._at_end.issuperset(self._numbers())

    def _follow_the_queue(self) -> None:
        """Forget retired partitions: a later one of the same number has other messages."""
        partitions = dict(enumerate(self._core.partitions))
        for number in [each for each, partition in self._partitions.items() if partitions.get(each) is not partition]:
            self._fetched.pop(number, None)
            self._fetched_to.pop(number, None)
            self._shown_to.pop(number, None)
            for numbers in (self._asked, self._at_end, self._gone):
                numbers.discard(number)
        self._partitions = partitions

    def _take_oldest(self) -> BrowsedMessage | None:
        heads = [fetched[0] for fetched in self._fetched.values() if fetched]
        if not heads:
            return None
        oldest = min(heads, key=lambda each: (each.batch.received_ms, each.partition_number))
        number = oldest.partition_number
        self._shown_to[number] = oldest.sequence
        return self._fetched[number].popleft()

    def _numbers(self) -> list[int]:
        """Return the partitions to show. The one that was asked for may have retired; one may come in its place."""
        only = self._request.partition_number
        numbers = range(len(self._core.partitions))
        return [each for each in numbers if only in (None, each) and each not in self._gone]

    def _ask(self, number: int) -> None:
        """Ask a partition for messages after those fetched; at its end, wait there for new ones."""
        if number in self._asked:
            return
        self._asked.add(number)
        after = self._fetched_to.get(number, self._request.after)
        waits_as = self._request.flow_id if number in self._at_end else None
        share = max(READ_COUNT_MIN, min(READ_COUNT_MAX, FETCHED_MAX // len(self._core.partitions)))
        partition = self._partitions[number]
        asked = partition.ask(BrowsePartition(after, share, waits_as))
        asked.then(lambda answer: self.cell.inbox.post(_Found(number, partition, _value(answer))))

    def _delete(self, message: DeleteBrowsed) -> LoopFuture[int]:
        config, user = self._core.config, self._request.user
        if user is not None and not permits(config, user, CONSUME):
            raise BindRefused(PERMISSION_DENIED, denial(config, user, CONSUME))
        by_partition: dict[int, list[int]] = {}
        for number, sequence in message.places:
            if number < len(self._core.partitions) and sequence <= self._shown_to.get(number, 0):
                by_partition.setdefault(number, []).append(sequence)
        answer: LoopFuture[int] = LoopFuture()
        asked = [self._core.partitions[number].ask(DeleteMessages(each)) for number, each in by_partition.items()]
        gather(asked, lambda counts: answer.set(sum(counts)), answer)
        return answer


def _value(answer: LoopFuture[list[BrowsedMessage]]) -> list[BrowsedMessage] | None:
    try:
        return answer.get()
    except Exception:  # the partition has stopped, with its queue or because there are fewer now
        return None
