"""The messages of the data path, between publishers, partitions, consumers, commits of transactions and the spool.

They carry batches and ranges, never single messages. One of them is made for every batch, so their constructors are
written by hand: a dataclass runs its own interpreted one, 1,800 instructions against 250, even in a compiled module.

Behind the messages are the settlements that a connection sends to the partitions whose deliveries it received.
"""

from typing import Any, Final, final

from mypy_extensions import i64, mypyc_attr

from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.outcomes import RELEASED, WHICHEVER
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.message.refusals import REFUSAL_TEXTS, REFUSED_NOT_STORED
from sluicegate.messaging.partitions.state.effects import Delivery
from sluicegate.messaging.partitions.state.flows import Flow
from sluicegate.messaging.partitions.state.unsettled import DeliverySource
from sluicegate.messaging.routing.destinations import ShareGroup

_NOTHING_FURTHER: Final[list[tuple[int, int]]] = []


@final
@mypyc_attr(free_list_len=1)
class Append:
    """Add a batch to the partition. `publication` is None for queues that are never written."""

    def __init__(
        self,
        batch: MessageBatch,
        publication: Publication | None,
        rows: list[int] | None,
        earlier: list[tuple[int, int]] | None = None,
    ) -> None:
        self.batch = batch
        self.publication = publication
        self.rows = rows  # rows of the publication's batch that `batch` consists of; None: all
        # Rows of `batch` that were delivered before, at another broker, and how many deliveries have failed.
        self.earlier = earlier

    def in_order(self, order: list[int]) -> "Append":
        """Return the same message with the rows of its batch in another order."""
        rows = self.rows
        its_rows = order if rows is None else [rows[row] for row in order]
        earlier = self.earlier
        if earlier is not None:
            failed_counts = dict(earlier)
            earlier = [(at, failed_counts[row]) for at, row in enumerate(order) if row in failed_counts]
        return Append(self.batch.select(order), self.publication, its_rows, earlier)


@final
class SharedDirect:
    """A direct batch for one member of a shared group. A plain direct batch is posted as it is."""

    def __init__(self, group: ShareGroup, batch: MessageBatch) -> None:
        self.group = group
        self.batch = batch


@final
class Confirmed:
    """A publish is safe: on disk, or settled by all its consumers before it had to be written."""

    def __init__(self, token: int) -> None:
        self.token = token


@final
class PublishFailed:
    """A publish could not be stored: for lack of space, or with REFUSED_SPOOL_FAILED because the store has failed."""

    def __init__(self, token: int, reason: str, verdict: int = REFUSED_NOT_STORED) -> None:
        self.token = token
        self.reason = reason
        self.verdict = verdict

    def text(self) -> str:
        """Return the text for the publisher."""
        return f"{REFUSAL_TEXTS[self.verdict]}: {self.reason}"


@final
class Resume:
    """The destination that the publisher waited for can take more."""


@final
@mypyc_attr(free_list_len=1)
class Deliveries:
    """Partition -> consumer: messages of one flow, in sequence order within this partition."""

    def __init__(self, flow: Flow, partition: Address, partition_number: int, deliveries: list[Delivery]) -> None:
        self.flow = flow
        self.partition = partition
        self.partition_number = partition_number
        self.deliveries = deliveries


@final
@mypyc_attr(free_list_len=1)
class Settle:
    """Consumer -> partition: the outcome of half-open sequence ranges. Has no effect under an old epoch.

    With a delivery count it applies to deliveries with this count, and has no effect where the flow holds the messages
    from a later one.

    Mostly it is one range, `[first, end)`; a list of it would cost 700 instructions for a message that comes alone.
    """

    def __init__(
        self,
        flow_id: int,
        epoch: i64,
        first: i64,
        end: i64,
        outcome: i64,
        cause: str = "",
        further: list[tuple[int, int]] = _NOTHING_FURTHER,
        delivery_count: i64 = WHICHEVER,
    ) -> None:
        self.flow_id = flow_id
        self.epoch = epoch
        self.first = first
        self.end = end
        self.outcome = outcome
        self.cause = cause  # of REJECTED: the consumer's reason; cut to CAUSE_CHARS_MAX
        self.further = further  # ranges with the same outcome
        self.delivery_count = delivery_count

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """All ranges."""
        return [(self.first, self.end), *self.further]


@final
class SettleDurably:
    """Consumer -> partition: as Settle. Answered to `reply_to` with Confirmed when it is final.

    Answered with PublishFailed under an old epoch, or where the flow no longer holds any of it: then it has no effect,
    and the messages are delivered again.
    """

    def __init__(self, settle: Settle, reply_to: Address) -> None:
        self.settle = settle
        self.reply_to = reply_to


@final
class AnnotateDelivery:
    """Consumer -> partition: annotate messages that the consumer is about to return. Ranges and counts as in Settle."""

    def __init__(
        self, flow_id: int, epoch: int, ranges: list[tuple[int, int]], delivery_count: int, annotation: bytes
    ) -> None:
        self.flow_id = flow_id
        self.epoch = epoch
        self.ranges = ranges
        self.delivery_count = delivery_count
        self.annotation = annotation


@final
class RenewLock:
    """Ask of a partition: restart the locks of half-open ranges that a flow holds, as in Settle, where there are locks.

    Answered with the number of messages that it holds of them; 0 under an old epoch.
    """

    def __init__(self, flow_id: int, epoch: int, ranges: list[tuple[int, int]], delivery_count: int) -> None:
        self.flow_id = flow_id
        self.epoch = epoch
        self.ranges = ranges
        self.delivery_count = delivery_count


@final
class Wake:
    """Consumer -> partition: there is credit again."""


WAKE: Final = Wake()


@final
class StorePublication:
    """Write a publication, which all its partitions have numbered."""

    def __init__(self, publication: Publication) -> None:
        self.publication = publication


@final
class Settled:
    """Half-open ranges of a partition are settled; publications and pages that are no longer needed."""

    def __init__(
        self,
        partition_id: int,
        ranges: list[tuple[int, int]],
        released: list[Publication],
        dropped_pages: list[int],
        written: bool,
    ) -> None:
        self.partition_id = partition_id
        self.ranges = ranges
        self.released = released
        self.dropped_pages = dropped_pages
        self.written = written  # it concerns messages that the store has, so this is worth a commit


@final
class SessionRows:
    """Write rows of the session table; None deletes one. Answered like `actors.messages.spool.WriteTables`."""

    def __init__(
        self, rows: list[tuple[bytes, bytes | None]], reply_to: Address | None, token: int, *, until_done: bool = False
    ) -> None:
        self.rows = rows
        self.reply_to = reply_to
        self.token = token
        self.until_done = until_done  # as of WriteTables


# --- commits of transactions ---


@final
class PrepareSettlement:
    """Ask of a partition: take half-open ranges from the flow that holds them, for a commit in progress.

    Answered with a Prepared, to which the commit posts CommitEnded; or with None, and nothing is done, when the flow
    does not hold all of them under this epoch, from deliveries with this count. A partition of another broker raises
    SettledElsewhere.
    """

    def __init__(self, flow_id: int, epoch: int, ranges: list[tuple[int, int]], delivery_count: int) -> None:
        self.flow_id = flow_id
        self.epoch = epoch
        self.ranges = ranges
        self.delivery_count = delivery_count


class SettledElsewhere(Exception):
    """The answer to PrepareSettlement from a partition of another broker: it has no part in commits here."""

    def __init__(self, broker: str) -> None:
        text = f"it settles a message of a queue of broker {broker}: a transaction settles those of its own broker only"
        super().__init__(text)


@final
class CommitEnded:
    """Commit -> Prepared: the settlement is in the store, or nothing happened."""

    def __init__(self, *, is_made: bool) -> None:
        self.is_made = is_made


COMMIT_MADE: Final = CommitEnded(is_made=True)
COMMIT_FAILED: Final = CommitEnded(is_made=False)


@final
class SettleTogether:
    """Commit -> spool: settle half-open ranges of several partitions in one commit.

    Answered to `reply_to` with Confirmed of `token` when that is made: it frees space, so it is retried until then.
    When the store has failed for good the answer is PublishFailed: then none of it is applied, whatever the store does
    later.
    """

    def __init__(self, settlements: list[tuple[int, int, int]], reply_to: Address, token: int) -> None:
        self.settlements = settlements  # partition id, first, end
        self.reply_to = reply_to
        self.token = token


# --- settlements ---


def source_of(sources: dict[int, DeliverySource], message: Deliveries, delivery: Delivery) -> DeliverySource:
    """Return where settlements of a delivery go; `sources` has, by partition number, that of the last one."""
    number = message.partition_number
    source = sources.get(number)
    if source is None or not source.has_brought(delivery) or source.partition is not message.partition:
        epoch, count = delivery.epoch, delivery.delivery_count
        source = sources[number] = DeliverySource(message.partition, number, message.flow.flow_id, epoch, count)
    return source


def settle_from(source: DeliverySource, first: int, end: int, outcome: int) -> Settle:
    """Return the outcome of the half-open range `[first, end)` of a source's sequences."""
    return Settle(source.flow_id, source.epoch, first, end, outcome, delivery_count=source.delivery_count)


def release_delivery(message: Deliveries, delivery: Delivery) -> None:
    """Return a delivery that its client was not sent to its partition."""
    flow_id, first = message.flow.flow_id, delivery.first_sequence
    end = first + delivery.stop_row - delivery.start_row
    count = delivery.delivery_count
    message.partition.post(Settle(flow_id, delivery.epoch, first, end, RELEASED, delivery_count=count))


class DurableSettlement(Address):
    """A settlement that waits for the store: it is in force for ever, or refused.

    The partition answers in any case, also when the flow has lost the deliveries meanwhile.
    """

    def post(self, message: object) -> None:
        """Take the partition's refusal, or its word that the store has the settlement."""
        assert isinstance(message, (Confirmed, PublishFailed)), "nothing else is sent here"
        self.decided(message if isinstance(message, PublishFailed) else None)

    def decided(self, refusal: PublishFailed | None) -> None:
        """Go on: the settlement is stored, unless it was refused."""
        raise AssertionError("who waits goes on")


# --- answers of the store ---


class StoreRefused(Exception):
    """A catalog row was not stored. The text says why."""


@final
class StoredAnswer(Address):
    """An address for the spool to confirm to: its future is set to a value, or to StoreRefused if the store fails."""

    def __init__(self, value: Any) -> None:
        self.future: LoopFuture[Any] = LoopFuture()
        self._value = value

    def post(self, message: object) -> None:
        """Set the answer."""
        if isinstance(message, PublishFailed):
            self.future.set_exception((StoreRefused, StoreRefused(message.reason), None))
        else:
            assert isinstance(message, Confirmed), "only the spool answers"
            self.future.set(self._value)
