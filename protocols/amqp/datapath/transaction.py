"""One transaction until it is discharged: the messages published in it, and the deliveries settled in it (4.4).

It only collects them. No consumer sees its messages, and deliveries settled in it stay in flight with their consumer.
Discharging, and the answer to the client, is in `links.coordinator`.
"""

from typing import Final, final

from sluicegate.messaging.message.batch import AT_LEAST_ONCE, BYTES_PER_ROW, MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.messaging.message.usage import text_bytes
from sluicegate.messaging.partitions.state.unsettled import DeliverySource
from sluicegate.protocols.amqp.codec.delivery_states import ACCEPTED_STATE, TRANSACTIONAL, DeliveryState
from sluicegate.protocols.amqp.datapath.outcomes import Settlement, Settlements
from sluicegate.protocols.amqp.engine.link import IncomingLink
from sluicegate.protocols.amqp.engine.session import Session
from sluicegate.protocols.amqp.limits import AmqpLimits
from sluicegate.protocols.amqp.messages.decode import MessageIn

RANGE_BYTES: Final = 64  # of memory, for a run of settled messages


@final
class TransactionAccounts:
    """What all open transactions of a node hold in memory together, and how they ended. Shared on the node's loop."""

    def __init__(self) -> None:
        self.open_count = 0
        self.used_bytes = 0
        self.declared_count = 0
        self.committed_count = 0
        self.rolled_back_counts: dict[str, int] = {}  # by reason

    def count_rolled_back(self, why: str) -> None:
        """Count a transaction that was undone."""
        self.rolled_back_counts[why] = self.rolled_back_counts.get(why, 0) + 1


@final
class OpenDeliveries:
    """Deliveries `first` to `last`, wire ids, both included, whose outcome the client has not settled."""

    __slots__ = ("first", "last", "session", "state")

    def __init__(self, session: Session, first: int, last: int, state: DeliveryState) -> None:
        self.session = session
        self.first = first
        self.last = last
        self.state = state


@final
class Transaction:
    """What a client does under one transaction id.

    Invariant: `size` is counted in the accounts until `end`.
    """

    def __init__(self, txn_id: bytes, *, limits: AmqpLimits, accounts: TransactionAccounts, now_ms: int) -> None:
        self.txn_id = txn_id
        self.used_ms = now_ms  # when something was last done in it
        self.failure = ""  # why it cannot be committed
        self.accepted_state = DeliveryState(TRANSACTIONAL, txn_id=txn_id, outcome=ACCEPTED_STATE)
        self.size = 0
        self.operations_count = 0
        self.settlements = Settlements()
        self.settled_by_client: dict[DeliverySource, RangeSet] = {}
        self.open_deliveries: list[OpenDeliveries] = []
        self._limits = limits
        self._accounts = accounts
        accounts.open_count += 1
        accounts.declared_count += 1
        self._topics: list[str] = []
        self._payloads: list[bytes] = []
        self._headers: list[Headers | None] = []
        self._payload_bytes = 0
        self._is_ended = False

    # --- what is done in it ---

    def publish(self, topic: str, message: MessageIn) -> str:
        """Take a message, or return why not: then the transaction cannot be committed."""
        size = len(message.payload)
        kept = size + text_bytes(topic) + BYTES_PER_ROW
        if message.headers is not None:
            kept += message.headers.memory_bytes()
        refusal = self._count(1, kept)
        if refusal:
            return refusal
        self._topics.append(topic)
        self._payloads.append(message.payload)
        self._headers.append(message.headers)
        self._payload_bytes += size
        return ""

    def settle(self, source: DeliverySource, first: int, end: int, settlement: Settlement, *, by_client: bool) -> None:
        """Note what becomes of `[first, end)`; `by_client` when the client has forgotten the deliveries."""
        # Beyond a limit it is noted still: those the client has settled come again.
        self._count(end - first, RANGE_BYTES + settlement.size())
        self.settlements.record(source, first, end, settlement)
        if by_client:
            self.settled_by_client.setdefault(source, RangeSet()).add(first, end)

    def fail(self, reason: str) -> None:
        """Note that something of it was refused: it is all or nothing."""
        self.failure = self.failure or reason

    def _count(self, operations_count: int, size: int) -> str:
        """Count an operation, or return which limit it would exceed."""
        limits, accounts = self._limits, self._accounts
        refusal = ""
        if self.operations_count + operations_count > limits.transaction_operations_max:
            refusal = f"more than {limits.transaction_operations_max} messages in one transaction"
        elif self.size + size > limits.transaction_bytes_max:
            refusal = f"more than {limits.transaction_bytes_max} bytes in one transaction"
        elif accounts.used_bytes + size > limits.transactions_bytes_max:
            refusal = f"more than {limits.transactions_bytes_max} bytes in all open transactions"
        if refusal:
            self.fail(refusal)
            return refusal
        self.operations_count += operations_count
        self.size += size
        accounts.used_bytes += size
        return ""

    # --- its end ---

    def batch(self, client: str, wall_ms: int) -> MessageBatch | None:
        """Return everything published, in order; None when nothing was.

        It arrives in its queues now: what they say of time begins with the commit. What its publisher said of it, such
        as a time to live, began when the message came, as JMS has it for messages that are sent in a transaction.
        """
        if not self._payloads:
            return None
        topics = self._topics
        same = topics.count(topics[0]) == len(topics)
        return MessageBatch(
            topic=topics[0] if same else "",
            topics=None if same else topics,
            payloads=self._payloads,
            headers=self._headers if any(each is not None for each in self._headers) else None,
            qos=AT_LEAST_ONCE,
            retain=False,
            publisher=client,
            received_ms=wall_ms,
            payload_bytes=self._payload_bytes,
        )

    def end(self) -> None:
        """Give back what it counts for, once. Nothing more is done in it."""
        if not self._is_ended:
            self._is_ended = True
            self._accounts.used_bytes -= self.size
            self._accounts.open_count -= 1

    def __repr__(self) -> str:
        return f"Transaction({self.txn_id.hex()}, {self.operations_count} operations, {self.size} bytes)"


class Transactions:
    """What a connection uses of its client's coordinators (`links.coordinator`)."""

    def is_coordinator(self, link: IncomingLink) -> bool:
        """Return whether transactions are declared and discharged on a link."""
        raise AssertionError("coordinators know that")

    def is_settling(self, flow_id: int) -> bool:
        """Return whether deliveries of a flow are settled in a transaction that has not come to its end."""
        raise AssertionError("coordinators know that")

    def top_up(self, link: IncomingLink) -> None:
        """Grant credit again to a coordinator when half of it is used and answered."""
        raise AssertionError("coordinators do that")

    def tick(self, now_ms: int) -> None:
        """End coordinators with a transaction in which nothing was done for too long."""
        raise AssertionError("coordinators do that")

    def stalled(self, stall_ms: int) -> None:
        """Do not count a time in which this broker read nothing."""
        raise AssertionError("coordinators do that")

    def detached(self, link: IncomingLink) -> None:
        """Roll back what was declared on a link that is gone. What was discharged before goes on."""
        raise AssertionError("coordinators do that")

    def session_ended(self, session: Session) -> None:
        """Roll back what was declared in a session that is gone."""
        raise AssertionError("coordinators do that")

    def connection_ended(self) -> None:
        """Roll everything back. What the client has discharged goes on."""
        raise AssertionError("coordinators do that")
