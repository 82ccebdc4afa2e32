"""Local transactions (part 4) of one client: its coordinators, the work in its transactions, and how they end.

A transaction may be used on every session of its connection, and several may be open at once. It ends with its
discharge, with the coordinator link that it was declared on, or when it was idle for too long.

- A message published in it is answered at once, and visible only after the commit (`datapath.transaction`).
- A delivery settled in it stays in flight. The commit settles it in one journal record with the published messages
  (actors.transactions.commit); outcomes other than accepted are sent to the queues after that.
- After a rollback, deliveries that the client has settled are delivered again, as after a failed delivery; those that
  it has not settled stay with it.

Discharges are carried out one after the other, in the order in which they came. Declare and discharge are messages to
the coordinator, each the amqp-value of its message (4.5).
"""

from collections import deque
from typing import Final, final

from sluicegate.actors.transactions.commit import NOT_HELD, TransactionCommit, UnsettledRanges
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.protocols.amqp.client import AmqpClient
from sluicegate.protocols.amqp.codec.delivery_states import ACCEPTED_STATE, DECLARED, AmqpError, DeliveryState, rejected
from sluicegate.protocols.amqp.codec.dispositions import Disposition
from sluicegate.protocols.amqp.codec.sections import VALUE, find_sections
from sluicegate.protocols.amqp.datapath.consuming import wire_ids
from sluicegate.protocols.amqp.datapath.outcomes import ACCEPTED_SETTLEMENT, FAILED_SETTLEMENT, settlement_of
from sluicegate.protocols.amqp.datapath.publishing import takes_rejected
from sluicegate.protocols.amqp.datapath.transaction import OpenDeliveries, Transaction, Transactions
from sluicegate.protocols.amqp.engine.events import DeliveriesReceived
from sluicegate.protocols.amqp.engine.link import IncomingLink
from sluicegate.protocols.amqp.engine.session import Session
from sluicegate.protocols.amqp.types import errors as conditions
from sluicegate.protocols.amqp.types.decoding import decode
from sluicegate.protocols.amqp.types.errors import DecodeError
from sluicegate.protocols.amqp.types.fields import Fields
from sluicegate.protocols.amqp.types.values import AmqpValue, Described, Scalar, Symbol

CONTROL_CREDIT: Final = 100  # requests a coordinator takes ahead of its answers
TXN_ID_BITS: Final = 64  # not guessable, though no other connection could use them

# Why a transaction was rolled back, as it is counted.
ASKED: Final = "asked"
REFUSED: Final = "refused"  # it should have been committed
LOST: Final = "lost"  # with its coordinator link, session or connection
TIMED_OUT: Final = "timeout"

# Descriptors of the requests (4.5).
DECLARE: Final = 0x31
DISCHARGE: Final = 0x32

_BY_SYMBOL: Final[dict[str, int]] = {"amqp:declare:list": DECLARE, "amqp:discharge:list": DISCHARGE}


@final
class Declare:
    """Begin a transaction (4.5.2)."""

    def __init__(self, *, has_global_id: bool) -> None:
        self.has_global_id = has_global_id  # it is to be part of a distributed one


@final
class Discharge:
    """End a transaction (4.5.3)."""

    def __init__(self, txn_id: bytes, *, fail: bool) -> None:
        self.txn_id = txn_id
        self.fail = fail  # roll back


def read_control(payload: bytes) -> Declare | Discharge:
    """Return what a message to the coordinator asks for. Raises DecodeError."""
    sections = find_sections(payload)
    if sections.body_code != VALUE:
        raise DecodeError("a message to the coordinator has an amqp-value as its body")
    value, _ = decode(payload, sections.body_value_at, len(payload))
    if not isinstance(value, Described) or not isinstance(value.value, list):
        raise DecodeError(f"neither a declare nor a discharge: {value!r:.80}")
    code = _code(value.descriptor)
    if code == DECLARE:
        return Declare(has_global_id=Fields("declare", value.value).value(0) is not None)
    if code == DISCHARGE:
        fields = Fields("discharge", value.value)
        return Discharge(fields.binary_required(0, "txn-id"), fail=fields.flag(1, "fail", default=False))
    raise DecodeError(f"neither a declare nor a discharge: {value!r:.80}")


def _code(descriptor: AmqpValue) -> int:
    if isinstance(descriptor, Scalar) and isinstance(descriptor.value, int):
        return descriptor.value
    return _BY_SYMBOL.get(descriptor.text, 0) if isinstance(descriptor, Symbol) else 0


@final
class Coordinator:
    """A link on which a client declares and discharges transactions."""

    def __init__(self, session: Session, link: IncomingLink) -> None:
        self.session = session
        self.link = link
        self.takes_rejected = takes_rejected(link)
        self.declared: dict[bytes, Transaction] = {}  # and not discharged
        self.unanswered_count = 0


@final
class _Discharging:
    """A discharge that waits for its turn."""

    __slots__ = ("coordinator", "delivery_id", "fail", "settled", "transaction")

    def __init__(
        self, coordinator: Coordinator, delivery_id: int, transaction: Transaction, *, fail: bool, settled: bool
    ) -> None:
        self.coordinator = coordinator
        self.delivery_id = delivery_id
        self.transaction = transaction
        self.fail = fail
        self.settled = settled


def coordinators_of(client: AmqpClient) -> "Coordinators":
    """Return what a client does in transactions, made on first use. It knows the client until that ends."""
    coordinators = client.endpoints.transactions
    if coordinators is None:
        coordinators = client.endpoints.transactions = Coordinators(client)
    assert isinstance(coordinators, Coordinators), "nothing else derives from Transactions"
    return coordinators


@final
class Coordinators(Transactions):
    """What one client does in transactions."""

    def __init__(self, client: AmqpClient) -> None:
        self.by_link: dict[IncomingLink, Coordinator] = {}
        self._client = client
        self._accounts = client.services.transactions
        self._limits = client.services.limits
        self._open: dict[bytes, Transaction] = {}
        self._line: deque[_Discharging] = deque()
        self._is_discharging = False

    # --- coordinators ---

    def attached(self, session: Session, link: IncomingLink) -> None:
        """Let a coordinator begin."""
        self.by_link[link] = Coordinator(session, link)
        self._client.engine.sessions.grant(session, link, CONTROL_CREDIT)

    def detached(self, link: IncomingLink) -> None:
        """Roll back what was declared on a link that is gone. What was discharged before goes on."""
        coordinator = self.by_link.pop(link, None)
        if coordinator is not None:
            self._roll_back_all(coordinator, LOST)

    def session_ended(self, session: Session) -> None:
        """Roll back what was declared in a session that is gone."""
        for link in list(self.by_link):
            if self.by_link[link].session is session:
                self.detached(link)

    def connection_ended(self) -> None:
        """Roll everything back. What the client has discharged goes on."""
        for link in list(self.by_link):
            self.detached(link)

    def is_coordinator(self, link: IncomingLink) -> bool:
        """Return whether transactions are declared and discharged on a link."""
        return link in self.by_link

    def is_settling(self, flow_id: int) -> bool:
        """Return whether deliveries of a flow are settled in a transaction that has not come to its end."""
        transactions = [*self._open.values(), *[each.transaction for each in self._line]]
        return any(source.flow_id == flow_id for each in transactions for source in each.settlements.by_source)

    def tick(self, now_ms: int) -> None:
        """End coordinators with a transaction in which nothing was done for too long."""
        if not self._open:
            return
        for coordinator in list(self.by_link.values()):
            idle_ms = max([now_ms - each.used_ms for each in coordinator.declared.values()], default=0)
            if idle_ms > self._limits.transaction_timeout_ms:
                text = f"nothing was done in a transaction for {idle_ms} ms"
                self._end(coordinator, AmqpError(conditions.TRANSACTION_TIMEOUT, text), TIMED_OUT)

    def stalled(self, stall_ms: int) -> None:
        """Do not count a time in which this broker read nothing."""
        for transaction in self._open.values():
            transaction.used_ms += stall_ms

    def _end(self, coordinator: Coordinator, error: AmqpError, why: str) -> None:
        """End a coordinator by our own will, and roll back what was declared on it."""
        self.by_link.pop(coordinator.link, None)
        self._roll_back_all(coordinator, why)
        self._client.end_link(coordinator.session, coordinator.link, error)

    def _roll_back_all(self, coordinator: Coordinator, why: str) -> None:
        for transaction in coordinator.declared.values():
            del self._open[transaction.txn_id]
            self._roll_back(transaction, why)
        coordinator.declared.clear()

    # --- requests ---

    def control(self, event: DeliveriesReceived, now_ms: int) -> None:
        """Carry out what is said to a coordinator."""
        coordinator = self.by_link[event.link]
        for delivery_id, payload in zip(event.delivery_ids, event.payloads, strict=True):
            coordinator.unanswered_count += 1
            try:
                request = read_control(payload)
            except DecodeError as error:
                state = rejected(conditions.DECODE_ERROR, str(error))
                self._answer(coordinator, delivery_id, state, settled=event.settled)
                continue
            if isinstance(request, Discharge):
                self._discharge(coordinator, delivery_id, request, settled=event.settled)
            elif event.settled:
                text = "a settled declare: its transaction id cannot be returned"
                self._end(coordinator, AmqpError(conditions.PRECONDITION_FAILED, text), LOST)
            else:
                self._answer(coordinator, delivery_id, self._declare(coordinator, request, now_ms), settled=False)
            if event.link not in self.by_link:
                return  # it was ended

    def _declare(self, coordinator: Coordinator, request: Declare, now_ms: int) -> DeliveryState:
        if request.has_global_id:
            return rejected(conditions.NOT_IMPLEMENTED, "distributed transactions are not supported")
        maximum = self._limits.transactions_max
        if len(self._open) + len(self._line) >= maximum:
            return rejected(conditions.RESOURCE_LIMIT_EXCEEDED, f"more than {maximum} transactions on one connection")
        bits = self._client.runtime.rng.getrandbits(TXN_ID_BITS)
        txn_id = (self._accounts.declared_count & 0xFFFF_FFFF).to_bytes(4, "big") + bits.to_bytes(8, "big")
        transaction = Transaction(txn_id, limits=self._limits, accounts=self._accounts, now_ms=now_ms)
        self._open[txn_id] = coordinator.declared[txn_id] = transaction
        return DeliveryState(DECLARED, txn_id=txn_id)

    def _discharge(self, coordinator: Coordinator, delivery_id: int, request: Discharge, *, settled: bool) -> None:
        transaction = coordinator.declared.pop(request.txn_id, None)
        if transaction is None:
            self._answer(coordinator, delivery_id, _unknown(request.txn_id), settled=settled)
            return
        del self._open[request.txn_id]
        self._line.append(_Discharging(coordinator, delivery_id, transaction, fail=request.fail, settled=settled))
        if not self._is_discharging:
            self._is_discharging = True
            self._client.carry_out(self._discharge_in_turn())

    def _answer(self, coordinator: Coordinator, delivery_id: int, state: DeliveryState, *, settled: bool) -> None:
        coordinator.unanswered_count -= 1
        if coordinator.link not in self.by_link:
            return
        if state.error is not None and not coordinator.takes_rejected:
            self._end(coordinator, state.error, REFUSED)
            return
        if not settled:
            sessions = self._client.engine.sessions
            sessions.settle(coordinator.session, coordinator.link, delivery_id, delivery_id, state)
        self.top_up(coordinator.link)

    def top_up(self, link: IncomingLink) -> None:
        """Grant credit again to a coordinator when half of it is used and answered."""
        coordinator = self.by_link[link]
        wanted = CONTROL_CREDIT - coordinator.unanswered_count
        if (wanted - link.credit) * 2 >= CONTROL_CREDIT:
            self._client.engine.sessions.grant(coordinator.session, link, wanted)

    # --- what is done in transactions ---

    def publish(self, event: DeliveriesReceived, now_ms: int, wall_ms: int) -> None:
        """Take messages that are published with a transaction's commit."""
        assert event.txn_id is not None, "the caller has seen to that"
        transaction = self._open.get(event.txn_id)
        publishers = self._client.endpoints.publishers
        if transaction is None:
            if event.settled:
                counters = self._client.services.counters
                counters.count(counters.dropped, "unknown_transaction", len(event.delivery_ids))
            publishers.turn_down(event, _unknown(event.txn_id))
            return
        transaction.used_ms = now_ms
        publishers.publish_in(transaction, event, wall_ms)

    def retire(self, session: Session, disposition: Disposition, now_ms: int) -> None:
        """Note what a client has settled in a transaction; of one that there is not, as if it were rolled back."""
        state = disposition.state
        assert state is not None, "the caller has seen to that"
        consumers = self._client.endpoints.consumers
        settled = disposition.settled
        if not settled and state.outcome is None:
            return  # progress is no outcome
        transaction = self._open.get(state.txn_id)
        if transaction is None or transaction.failure:
            if settled:
                for run in consumers.take(session, disposition.first, disposition.last):
                    consumers.settle(run, FAILED_SETTLEMENT)
            return
        transaction.used_ms = now_ms
        runs = (
            consumers.take(session, disposition.first, disposition.last)
            if settled
            else consumers.find(session, disposition.first, disposition.last)
        )
        if session.has_taken_back(disposition.first, disposition.last):
            transaction.fail(NOT_HELD)
        for run in runs:
            link = consumers.link_of(run)
            first, end = run.sequences()
            transaction.settle(run.source, first, end, settlement_of(link, state.outcome), by_client=settled)
            if not settled:
                self._client.engine.sessions.report_state(session, link, *wire_ids(run), state)
        if runs and not settled:
            transaction.open_deliveries.append(OpenDeliveries(session, disposition.first, disposition.last, state))

    # --- the end of a transaction ---

    async def _discharge_in_turn(self) -> None:
        try:
            while self._line:
                each = self._line[0]
                state = ACCEPTED_STATE
                if each.fail:
                    self._roll_back(each.transaction, ASKED)
                else:
                    reason = await self._commit(each.transaction)
                    if reason:
                        state = rejected(conditions.TRANSACTION_ROLLBACK, reason)
                self._line.popleft()
                self._answer(each.coordinator, each.delivery_id, state, settled=each.settled)
                self._client.request_flush()
        finally:
            self._is_discharging = False
            while self._line:  # only after a mistake of ours, which ends the connection
                self._roll_back(self._line.popleft().transaction, LOST)

    async def _commit(self, transaction: Transaction) -> str:
        """Carry out a commit; return why it could not be, with everything rolled back."""
        client = self._client
        services = client.services
        reason = transaction.failure
        if not reason:
            commit = TransactionCommit(space=services.space, spool=services.spool, rng=client.runtime.rng)
            batch = transaction.batch(client.client_name, client.runtime.clock.wall_ms())
            reason = await commit.commit(batch, _accepted_in(transaction))
            client.read_control.published(commit.pressures, client.endpoints.publishers.unanswered_count)
        if reason:
            self._roll_back(transaction, REFUSED)
            return reason
        self._accounts.committed_count += 1
        transaction.end()
        self._tell(transaction)
        return ""

    def _tell(self, transaction: Transaction) -> None:
        """Tell everybody else of a commit: queues of other outcomes, consumers of what is settled now."""
        consumers, sessions = self._client.endpoints.consumers, self._client.engine.sessions
        settled = transaction.settled_by_client
        for each in reversed(transaction.open_deliveries):  # the last outcome of a delivery is the one that counts
            for run in consumers.take(each.session, each.first, each.last):
                sessions.settle(each.session, consumers.link_of(run), *wire_ids(run), each.state)
                settled.setdefault(run.source, RangeSet()).add(*run.sequences())
        for source, ranges in settled.items():  # not what the client has settled outside of the transaction meanwhile
            for settlement, given in transaction.settlements.by_source[source].items():
                parts = [part for first, end in given.ranges() for part in ranges.within(first, end)]
                if settlement != ACCEPTED_SETTLEMENT and parts:
                    settlement.send(source, parts)
            consumers.give_back(source.flow_id, ranges.total)

    def _roll_back(self, transaction: Transaction, why: str) -> None:
        """Undo a transaction: nothing of it was seen but by its client."""
        self._accounts.count_rolled_back(why)
        transaction.end()
        consumers = self._client.endpoints.consumers
        for source, ranges in transaction.settled_by_client.items():
            FAILED_SETTLEMENT.send(source, ranges.ranges())
            consumers.give_back(source.flow_id, ranges.total)


def _accepted_in(transaction: Transaction) -> list[UnsettledRanges]:
    """Return what the commit settles."""
    accepted: list[UnsettledRanges] = []
    for source, by_settlement in transaction.settlements.by_source.items():
        ranges = by_settlement.get(ACCEPTED_SETTLEMENT)
        if ranges is not None and ranges.total > 0:
            accepted.append(UnsettledRanges(source, ranges.ranges()))
    return accepted


def _unknown(txn_id: bytes) -> DeliveryState:
    return rejected(conditions.UNKNOWN_TRANSACTION, f"there is no transaction {txn_id.hex()}")
