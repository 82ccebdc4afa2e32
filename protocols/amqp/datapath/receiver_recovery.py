"""Recovery of receiving links: deliveries are kept for a client while it is away (2.6.13).

A client that loses its connection has deliveries that it has not settled, or does not know to be settled. If its link
asks for it, by an expiry policy of `never` or a timeout, the flow behind the link stays bound while the client is away,
without credit, so no other consumer gets its deliveries. When the link is attached again, the client's unsettled map
says what it has of them:

- with an outcome: the outcome takes effect, as if it had come over the lost connection;
- without one: it is delivered again on the new link under its tag, with `resume` set;
- not in the map: the client never got it, or its settlement was lost; it is delivered again as a new delivery.

The broker's own map has what is resumed and nothing else; a client forgets what is in its map only. A map that the
client calls incomplete resumes nothing: outcomes in it take effect, deliveries in it without one are given back to the
queue, the rest stays for the next time, and nothing new is sent on the link before that (2.7.3).

An attach waits for outcomes that are on their way to the store, but not for ever: a rejection that cannot reach its
dead message queue would keep the client from all other messages.

All of this is in memory: a restart of the broker forgets every link.

See also: links on which clients send (`sender_recovery`).
"""

from typing import Final, final

from sluicegate.actors.messages.data import Deliveries, DurableSettlement, PublishFailed, release_delivery
from sluicegate.actors.messages.partitions import DeliverAgain
from sluicegate.actors.messages.queues import FlowGone, FlowState, UnbindFlow
from sluicegate.actors.runtime.asks import LoopFuture, ask_unless_gone
from sluicegate.actors.runtime.runtime import ActorCell, Runtime
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.messaging.partitions.state.unsettled import DeliverySource, UnsettledRun
from sluicegate.messaging.queues.credit import CreditWindow
from sluicegate.protocols.amqp.codec.addresses import AddressRefused
from sluicegate.protocols.amqp.codec.delivery_states import OUTCOMES, DeliveryState, read_state
from sluicegate.protocols.amqp.codec.termini import NEVER, Source
from sluicegate.protocols.amqp.datapath.outcomes import FAILED_SETTLEMENT, Settlements, settlement_of
from sluicegate.protocols.amqp.datapath.sender_recovery import NOT_BEGUN, LinkName
from sluicegate.protocols.amqp.engine.link import SERIAL_MASK, OutgoingLink
from sluicegate.protocols.amqp.types import errors as conditions
from sluicegate.protocols.amqp.types.encoding import encode
from sluicegate.protocols.amqp.types.errors import DecodeError
from sluicegate.protocols.amqp.types.values import AmqpMap

# What is granted at most of the time that a client asks for: others wait for what it holds, and for its partitions.
AWAY_S_MAX: Final = 300
FLOWS_MAX: Final = 1_000  # of clients that are away; one more is ended at once
DELIVERIES_MAX: Final = 100_000  # that they hold together

STORE_WAIT_MS: Final = 10_000  # an attach waits so long for outcomes: longer than a store is tried that fails

DeliveryKey = tuple[int, int]  # partition number, sequence


def away_s_granted(source: Source) -> int:
    """Return how long the deliveries of a detached receiving link are kept; 0 when it does not ask for that."""
    return AWAY_S_MAX if source.expiry_policy == NEVER else min(source.timeout_s, AWAY_S_MAX)


@final
class SuspendedDelivery:
    """A delivery that the client may have, on an earlier connection."""

    __slots__ = ("sequence", "source", "tag")

    def __init__(self, tag: bytes, source: DeliverySource, sequence: int) -> None:
        self.tag = tag
        self.source = source
        self.sequence = sequence


@final
class _StoredOutcome(DurableSettlement):
    """Waits until an outcome is in force, or was refused because it came too late."""

    def __init__(self) -> None:
        self.is_decided: LoopFuture[None] = LoopFuture()

    def decided(self, refusal: PublishFailed | None) -> None:
        """Go on in any case."""
        self.give_up()

    def give_up(self) -> None:
        """Wait no longer."""
        if not self.is_decided.done:
            self.is_decided.set()


@final
class ResumableFlow(Address):
    """The flow of one receiving link, which outlives the client's connection: its deliveries come here.

    Invariants: while the client is away the window has no limit left; `window.used` counts `suspended`, too.
    """

    def __init__(
        self, name: LinkName, flow_id: int, window: CreditWindow[Address], queue: ActorCell, about: str, away_s: int
    ) -> None:
        self.name = name
        self.flow_id = flow_id
        self.window = window
        self.queue = queue
        self.about = about  # the queue and what the link wants of it; another link of that name is another flow
        self.away_s = away_s
        self.is_bound = False
        self.expires_ms = NOT_BEGUN
        self.drain_number = 0  # of the last time that the peer wanted its credit back
        self.state: FlowState | None = None  # what the queue said last
        self.suspended: dict[DeliveryKey, SuspendedDelivery] = {}  # not delivered on the link that is attached now
        self._at: Address | None = None  # the connection that has the link; None: the client is away
        self._tags: dict[int, bytes] = {}  # by delivery id, of what the client holds on the link that is attached now
        self._next_tag = 0
        self._storing_count = 0  # outcomes that are on their way to the store
        self._waiting: LoopFuture[None] | None = None

    def post(self, message: object) -> None:
        """Take a message for the flow, whether the client is connected or not."""
        if isinstance(message, FlowGone):
            self.is_bound = False
        elif isinstance(message, FlowState):
            self.state = message
        if self._at is not None:
            self._at.post(message)
        elif isinstance(message, Deliveries):
            self.turn_back(message)

    def turn_back(self, message: Deliveries) -> None:
        """Return messages that found no link to the partition, except those that are kept for the client.

        A flow that is over has given everything back at its end.
        """
        if not self.is_bound:
            return
        for delivery in message.deliveries:
            first = delivery.first_sequence
            end = first + delivery.stop_row - delivery.start_row
            self.window.give(end - first)
            if (message.partition_number, first) not in self.suspended:
                release_delivery(message, delivery)

    def is_for(self, about: str) -> bool:
        """Return whether a link with these wishes may resume the flow."""
        return self.is_bound and self.about == about

    # --- while the client is there ---

    def attached(self, connection: Address) -> None:
        """Give the flow to a connection."""
        self._at = connection
        self.expires_ms = NOT_BEGUN

    def take(self, partition_number: int, sequence: int) -> SuspendedDelivery | None:
        """Remove and return the delivery that is resumed with this message; None for a new one."""
        return self.suspended.pop((partition_number, sequence), None)

    def keeps(self, source: DeliverySource, first: int, end: int) -> bool:
        """Return whether `[first, end)`, for which there is no credit any more, stay with the client for later."""
        if (source.partition_number, first) not in self.suspended:
            return False
        source.partition.post(DeliverAgain(source.flow_id, source.epoch, [(first, end)]))
        return True

    def new_tag(self) -> bytes:
        """Return a tag that no other delivery of the link has had."""
        tag = self._next_tag
        self._next_tag = tag + 1
        return (tag & SERIAL_MASK).to_bytes(4, "big")

    def sent(self, delivery_id: int, tag: bytes) -> None:
        """Note a delivery."""
        self._tags[delivery_id] = tag

    def settled(self, run: UnsettledRun) -> None:
        """Forget deliveries that the client has settled, or whose outcome it has sent."""
        for delivery_id in range(run.first_id, run.first_id + run.count):
            self._tags.pop(delivery_id & SERIAL_MASK, None)

    def stores(self) -> None:
        """An outcome is on its way to the store."""
        self._storing_count += 1

    def stored(self) -> None:
        """An outcome has come to the store."""
        self._storing_count -= 1
        if self._storing_count == 0:
            self._wait_no_longer()

    def _wait_no_longer(self) -> None:
        if self._waiting is not None:
            self._waiting.set()
            self._waiting = None

    # --- while it is away ---

    def detached(self, runs: list[UnsettledRun], now_ms: int) -> None:
        """Keep the unsettled deliveries of the client: its link is detached."""
        self._at = None
        self.window.limit = 0
        self.expires_ms = now_ms + 1000 * self.away_s
        for run in runs:
            for row in range(run.count):
                tag = self._tags[(run.first_id + row) & SERIAL_MASK]
                sequence = run.first_sequence + row
                key = (run.source.partition_number, sequence)
                if key in self.suspended:  # it was late, and came again: the later delivery stands for both
                    self.window.give(1)
                self.suspended[key] = SuspendedDelivery(tag, run.source, sequence)
        self._tags.clear()

    def end(self) -> None:
        """Let go of everything: the client does not come back, not in time, or wants something else."""
        self.suspended.clear()
        self.window.close()
        if self.is_bound:
            self.is_bound = False
            self.queue.inbox.post(UnbindFlow(self.flow_id))

    # --- when it is back ---

    async def resume(self, link: OutgoingLink, map_bytes_max: int, runtime: Runtime) -> AmqpMap | None:
        """Compare the client's map with the suspended deliveries, and act on it; return our map, None if empty."""
        if self._storing_count > 0:
            self._waiting = self._waiting or LoopFuture()
            timer = runtime.after(STORE_WAIT_MS, self._wait_no_longer)
            await self._waiting
            timer.cancel()
        attach = link.attach
        listed = _states_in(attach.unsettled)
        settlements = Settlements()
        size = 0
        for key, delivery in list(self.suspended.items()):
            state = listed.get(delivery.tag)
            size += len(encode(delivery.tag)) + 1
            if state is not None and state.code in OUTCOMES:
                settlements.record(
                    delivery.source, delivery.sequence, delivery.sequence + 1, settlement_of(link, state)
                )
            elif (delivery.tag in listed) == attach.incomplete_unsettled or size > map_bytes_max:
                settlements.record(delivery.source, delivery.sequence, delivery.sequence + 1, FAILED_SETTLEMENT)
            else:
                continue
            self._drop(key)
        await _settle(settlements, runtime, durably=link.is_second)
        if not attach.incomplete_unsettled:
            await self._deliver_again()
        return AmqpMap([(delivery.tag, None) for delivery in self.suspended.values()]) if self.suspended else None

    async def _deliver_again(self) -> None:
        """Have the suspended deliveries sent to the client again, but for what was taken back meanwhile."""
        by_source: dict[DeliverySource, RangeSet] = {}
        for delivery in self.suspended.values():
            by_source.setdefault(delivery.source, RangeSet()).add(delivery.sequence, delivery.sequence + 1)
        for source, wanted in by_source.items():
            request = DeliverAgain(source.flow_id, source.epoch, wanted.ranges())
            ranges: list[tuple[int, int]] | None = await ask_unless_gone(source.partition, request)
            for first, end in ranges or []:
                wanted.discard(first, end)
            for first, end in wanted.ranges():
                for sequence in range(first, end):
                    self._drop((source.partition_number, sequence))

    def _drop(self, key: DeliveryKey) -> None:
        """Keep a delivery no longer: it is the client's no more."""
        del self.suspended[key]
        self.window.give(1)

    def __repr__(self) -> str:
        return f"ResumableFlow({self.flow_id} of {self.about!r}, {len(self.suspended)} suspended)"


@final
class ResumableFlows:
    """Those of all clients that are away. Shared on the node's loop."""

    def __init__(self, *, flows_max: int = FLOWS_MAX, deliveries_max: int = DELIVERIES_MAX) -> None:
        self._flows: dict[LinkName, ResumableFlow] = {}
        self._flows_max = flows_max
        self._deliveries_max = deliveries_max

    def take(self, name: LinkName) -> ResumableFlow | None:
        """Return the flow of a link that is attached again, which is not away any more."""
        return self._flows.pop(name, None)

    def went_away(self, flow: ResumableFlow) -> None:
        """Keep a flow until its client is back, or its time is over; not if its queue has unbound it."""
        name = flow.name
        former = self._flows.pop(name, None)
        if former is not None:
            former.end()
        self._flows[name] = flow
        if (
            not flow.is_bound
            or len(self._flows) > self._flows_max
            or sum([len(each.suspended) for each in self._flows.values()]) > self._deliveries_max
        ):
            self._end(name)

    def tick(self, now_ms: int) -> None:
        """Bring time: deliveries of clients that do not come back go to others."""
        for name in [name for name, flow in self._flows.items() if flow.expires_ms <= now_ms]:
            self._end(name)

    def end(self, users: frozenset[str] | None = None) -> None:
        """Let go of everything, or of what these users hold: they are not let in any more."""
        for name in [name for name in self._flows if users is None or name[1] in users]:
            self._end(name)

    def _end(self, name: LinkName) -> None:
        self._flows.pop(name).end()


def _states_in(unsettled: AmqpMap | None) -> dict[bytes, DeliveryState | None]:
    """Return what a client says of deliveries, by tag. Raises AddressRefused for a state that is none."""
    states: dict[bytes, DeliveryState | None] = {}
    for tag, value in [] if unsettled is None else unsettled.pairs:
        if isinstance(tag, bytes):
            try:
                states[tag] = read_state(value)
            except DecodeError as error:
                raise AddressRefused(conditions.DECODE_ERROR, f"unsettled: {error}") from None
    return states


async def _settle(settlements: Settlements, runtime: Runtime, *, durably: bool) -> None:
    """Tell partitions what became of deliveries; with `durably`, return when it is in force for ever, or after a time.

    The time is STORE_WAIT_MS.
    """
    waiting: list[_StoredOutcome] = []
    for source, by_settlement in settlements.by_source.items():
        for settlement, ranges in by_settlement.items():
            if ranges.total == 0:
                continue
            if durably and settlement != FAILED_SETTLEMENT:
                stored = _StoredOutcome()
                waiting.append(stored)
                settlement.send(source, ranges.ranges(), stored)
            else:
                settlement.send(source, ranges.ranges())
    if not waiting:
        return

    def give_up() -> None:
        for each in waiting:
            each.give_up()

    timer = runtime.after(STORE_WAIT_MS, give_up)
    for each in waiting:
        await each.is_decided
    timer.cancel()
