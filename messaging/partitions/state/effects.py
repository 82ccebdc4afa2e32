"""The effects of a ledger: external actions as values, carried out by the partition actor."""

from typing import final

from mypy_extensions import i64, mypyc_attr

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.partitions.state.flows import Flow


@final
@mypyc_attr(free_list_len=1)
class Delivery:
    """Rows `[start_row, stop_row)` of a batch on their way to one flow, with consecutive sequences."""

    __slots__ = (
        "annotation",
        "batch",
        "delivery_count",
        "epoch",
        "first_of_group",
        "first_sequence",
        "flow",
        "publication",
        "redelivered",
        "start_row",
        "stop_row",
    )

    def __init__(
        self,
        flow: Flow,
        epoch: i64,
        batch: MessageBatch,
        start_row: i64,
        stop_row: i64,
        first_sequence: i64,
        redelivered: bool,
        delivery_count: i64,
        publication: Publication | None,
    ) -> None:
        self.flow = flow
        self.epoch = epoch
        self.batch = batch
        self.start_row = start_row
        self.stop_row = stop_row
        self.first_sequence = first_sequence
        self.redelivered = redelivered  # these messages left the queue before, or may have
        self.delivery_count = delivery_count  # including this delivery; 1 for a message returned untouched
        self.publication = publication  # that stores them; None when they are in a page, or are never stored
        self.first_of_group = False  # its first message is the first of its message group for this flow
        self.annotation = b""  # from earlier consumers, in their protocol's format; the message is then alone

    def __repr__(self) -> str:
        last = self.first_sequence + self.stop_row - self.start_row - 1
        return f"Delivery(flow={self.flow.flow_id}, {self.first_sequence}..{last}, redelivered={self.redelivered})"


@final
class DeadRange:
    """Sequences `[first, end)` that go to the dead message queue, all for one reason."""

    __slots__ = ("cause", "client", "end", "first", "reason")

    def __init__(self, first: int, end: int, reason: str, client: str, cause: str) -> None:
        self.first = first
        self.end = end
        self.reason = reason
        self.client = client  # the consumer that had them last; empty when no consumer caused it
        self.cause = cause  # its text; empty: none

    def __repr__(self) -> str:
        return f"DeadRange({self.first}..{self.end - 1}, {self.reason})"


@final
class Effects:
    """All actions of a ledger that are still to be carried out. The owner empties the lists it has handled."""

    __slots__ = (
        "dead",
        "dead_lettered_counts",
        "discards",
        "dropped_pages",
        "ended_moves",
        "released_bytes",
        "released_count",
        "released_publications",
        "settled",
        "settled_written",
        "starved_flows",
        "taken_back",
        "wanted_pages",
    )

    def __init__(self) -> None:
        self.released_publications: list[Publication] = []  # no row of theirs is open any more
        self.settled: list[tuple[int, int]] = []  # half-open, to be persisted
        self.settled_written = False  # some of `settled` is in the store, so persisting it is worth a commit
        self.dropped_pages: list[int] = []  # keys of pages in which nothing is unsettled
        self.dead: list[DeadRange] = []  # bound for the dead message queue, and not handled yet
        self.wanted_pages: list[int] = []  # keys of pages to read
        self.starved_flows: list[Flow] = []  # had messages waiting and no credit
        self.taken_back: list[tuple[Flow, int, int]] = []  # `[first, end)` that a flow held, and did not settle
        self.ended_moves: list[tuple[int, int]] = []  # `[first, end)` that are no longer moving, for whatever reason
        self.discards: dict[str, int] = {}  # reason -> messages dropped
        self.dead_lettered_counts: dict[str, int] = {}  # reason -> messages moved to the dead message queue
        self.released_count: i64 = 0  # messages and bytes that no longer count against the quota
        self.released_bytes: i64 = 0

    def settle(self, first: int, end: int) -> None:
        """Add settled sequences; neighbours are merged, for each entry costs the spool one of its own."""
        settled = self.settled
        if settled and settled[-1][1] == first:
            settled[-1] = (settled[-1][0], end)
        else:
            settled.append((first, end))

    def dead_letter(self, first: int, end: int, reason: str, client: str, cause: str) -> None:
        """Add messages for the dead message queue; neighbours with the same reason are merged."""
        if self.dead:
            last = self.dead[-1]
            if last.end == first and last.reason == reason and last.client == client and last.cause == cause:
                last.end = end
                return
        self.dead.append(DeadRange(first, end, reason, client, cause))

    def dead_lettered(self, reason: str, count: int) -> None:
        """Count messages that the dead message queue has taken."""
        self.dead_lettered_counts[reason] = self.dead_lettered_counts.get(reason, 0) + count

    def discard(self, reason: str, count: int) -> None:
        """Count messages the ledger dropped."""
        self.discards[reason] = self.discards.get(reason, 0) + count
