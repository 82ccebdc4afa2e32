"""The rebalancing of a partitioned queue: holddown, sticky assignment, fenced handoff.

A state machine over bound flows and partitions. It answers every event with the moves that the queue actor has to make.
A partition changes hands in three steps: it is paused; its owner settles what it holds, or the handoff time ends; the
next owner gets it, under a higher assignment epoch. So a key never has two owners.
"""

from typing import Final, final

# The assignment of partitions to flows: balanced, sticky, with as few moves as possible.


def assign_partitions(owners: list[int], flow_ids: list[int]) -> list[int]:
    """Return the new owner of each partition: a flow id, or 0 where there is no flow at all.

    `owners[p]` is the present owner of partition p (0: none); `flow_ids` are the bound flows, oldest first. Every flow
    that owns any partition afterwards owns `floor(P / F)` or `ceil(P / F)` of them, where F is the number of flows that
    can own one; surplus flows own none, the youngest idle ones first. No assignment with that balance takes fewer
    partitions from a present owner.
    """
    partitions_count = len(owners)
    if not flow_ids or partitions_count == 0:
        return [0] * partitions_count
    held: dict[int, list[int]] = {flow_id: [] for flow_id in flow_ids}
    for partition, owner in enumerate(owners):
        if owner in held:
            held[owner].append(partition)
    # Flows that own most keep most; among equals the older flow goes first. So surplus partitions stay where they are.
    order = {flow_id: place for place, flow_id in enumerate(flow_ids)}
    ranked = sorted(flow_ids, key=lambda flow_id: (-len(held[flow_id]), order[flow_id]))
    active = ranked[:partitions_count]
    smallest, larger_count = divmod(partitions_count, len(active))
    result = [0] * partitions_count
    room: list[tuple[int, int]] = []
    for rank, flow_id in enumerate(active):
        size = smallest + (1 if rank < larger_count else 0)
        kept = held[flow_id][:size]
        for partition in kept:
            result[partition] = flow_id
        if len(kept) < size:
            room.append((flow_id, size - len(kept)))
    free = [partition for partition in range(partitions_count) if result[partition] == 0]
    taken = 0
    for flow_id, missing in room:
        for partition in free[taken : taken + missing]:
            result[partition] = flow_id
        taken += missing
    return result


# States of the queue, by the names that management shows.
READY: Final = "ready"
HOLDDOWN: Final = "holddown"
REBALANCING: Final = "rebalancing"

# States of a partition.
UNASSIGNED: Final = "unassigned"
PARTITION_READY: Final = "ready"
PAUSED: Final = "paused"
UNBOUND: Final = "unbound"

NO_FLOW: Final = 0
NEVER: Final = -1

HOLDDOWN_DELAYS_MAX: Final = 2  # a consumer that reconnects all the time must not keep partitions from the others

# Moves.
ATTACH: Final = "attach"
PAUSE: Final = "pause"
DETACH: Final = "detach"


@final
class Move:
    """An action of the queue actor on one partition."""

    __slots__ = ("epoch", "flow_id", "kind", "partition")

    def __init__(self, kind: str, partition: int, flow_id: int, epoch: int) -> None:
        self.kind = kind  # ATTACH, PAUSE or DETACH
        self.partition = partition
        self.flow_id = flow_id
        self.epoch = epoch

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Move) and repr(self) == repr(other)

    __hash__ = None  # type: ignore[assignment]  # a value, compared in tests

    def __repr__(self) -> str:
        return f"{self.kind} partition {self.partition} flow {self.flow_id} epoch {self.epoch}"


@final
class PartitionSlot:
    """One partition as the rebalancer sees it."""

    __slots__ = (
        "epoch", "handoff_deadline_ms", "is_acknowledged", "is_drained", "last_client", "next_owner", "owner", "status",
    )  # fmt: skip

    def __init__(self, epoch: int) -> None:
        self.owner = NO_FLOW
        self.next_owner = NO_FLOW  # while paused
        self.epoch = epoch
        self.status = UNASSIGNED
        self.handoff_deadline_ms = 0
        self.is_drained = False  # while paused: its owner holds no message of it
        self.is_acknowledged = False  # while paused: its owner has acknowledged the revocation, where it acknowledges
        self.last_client = ""  # gets the partition back when it returns during the holddown


@final
class Rebalancer:
    """Assignment of the partitions of one queue.

    The holddown lasts `delay_ms` from the first change. A consumer that joins does not extend it, so the delay has to
    cover the gap between the first consumer and the last. A consumer that leaves has the whole delay to return, unless
    the holddown has already lasted HOLDDOWN_DELAYS_MAX delays.

    Invariants: a partition has at most one owner; its epoch rises with every new owner, and continues where another
    partition gets its number; the status is READY only when everything is assigned and a rebalance would move nothing;
    `deadline_ms` is 0 or the time at which `tick` has work.
    """

    def __init__(self, partitions_count: int, *, delay_ms: int, handoff_ms: int, epoch: int = 0) -> None:
        self.delay_ms = delay_ms
        self.handoff_ms = handoff_ms
        self.slots = [PartitionSlot(epoch) for _ in range(partitions_count)]
        self.clients: dict[int, str] = {}  # bound flows, oldest first -> client name
        self.acknowledging: set[int] = set()  # of these, flows that have to acknowledge an early handoff
        self.status: str = READY
        self.holddown_ends_ms = 0
        self.started_count = 0
        self.completed_count = 0
        self._holddown_began_ms = NEVER
        self._owned: dict[int, list[int]] | None = None  # partitions by owner; None: to be computed again
        self._epoch_before = epoch  # the highest epoch of removed partitions: their numbers may return

    def bind(self, flow_id: int, client: str, now_ms: int) -> list[Move]:
        """Add a flow."""
        self.clients[flow_id] = client
        moves: list[Move] = []
        if all(slot.status == UNASSIGNED for slot in self.slots) or self._is_newcomer_alone(client):
            moves = self._rebalance(now_ms)  # the first consumer of an idle queue does not wait
        else:
            for partition, slot in enumerate(self.slots):
                if slot.status == UNBOUND and slot.last_client == client:
                    moves.append(self._give(partition, flow_id))
        self._review(now_ms, anew=False)
        return moves

    def _is_newcomer_alone(self, client: str) -> bool:
        """Return whether this is the only consumer, and not one that may return for its partitions."""
        return len(self.clients) == 1 and all(slot.last_client != client for slot in self.slots)

    def unbind(self, flow_id: int, now_ms: int) -> list[Move]:
        """Remove a flow that left or was lost; its partitions are detached."""
        client = self.clients.pop(flow_id, None)
        if client is None:
            return []
        self.acknowledging.discard(flow_id)
        self._owned = None
        idle = self._idle_flows()
        taken = 0
        moves: list[Move] = []
        for partition, slot in enumerate(self.slots):
            heir = slot.next_owner
            if slot.owner != flow_id and heir != flow_id:
                continue
            if heir in (NO_FLOW, flow_id) and idle:
                heir = idle[taken % len(idle)]  # a standby consumer takes over at once
                taken += 1
            if slot.owner == flow_id:
                moves.append(Move(DETACH, partition, flow_id, slot.epoch))
                slot.owner = NO_FLOW
                slot.next_owner = NO_FLOW
                slot.last_client = client
                slot.status = UNBOUND
                if heir != NO_FLOW:
                    moves.append(self._give(partition, heir))
            elif heir != flow_id:
                slot.next_owner = heir
            else:  # no flow to hand it to: the owner continues, under its epoch
                slot.next_owner = NO_FLOW
                slot.status = PARTITION_READY
                moves.append(Move(ATTACH, partition, slot.owner, slot.epoch))
        self._review(now_ms, anew=True)
        return moves

    def drained(self, partition: int, epoch: int) -> list[Move]:
        """The owner of a paused partition has settled everything it held of it."""
        slot = self.slots[partition]
        if slot.status != PAUSED or slot.epoch != epoch:
            return []
        slot.is_drained = True
        return self._release(partition)

    def acknowledge(self, flow_id: int, partition: int, epoch: int) -> list[Move]:
        """The owner of a paused partition acknowledges the handoff. Messages it still holds are waited for."""
        if partition >= len(self.slots):
            return []
        slot = self.slots[partition]
        if slot.status != PAUSED or slot.epoch != epoch or slot.owner != flow_id:
            return []
        slot.is_acknowledged = True
        return self._release(partition)

    def _release(self, partition: int) -> list[Move]:
        slot = self.slots[partition]
        if not slot.is_drained or (slot.owner in self.acknowledging and not slot.is_acknowledged):
            return []
        moves = self._hand_over(partition)
        self._finish()
        return moves

    def renew(self, partition: int) -> list[Move]:
        """Assign a partition that has lost its flows again, under a higher epoch, to its owner or the next one."""
        slot = self.slots[partition]
        heir = slot.next_owner if slot.status == PAUSED else slot.owner
        if heir == NO_FLOW:
            return []
        moves = [self._give(partition, heir)]
        self._finish()
        return moves

    def tick(self, now_ms: int) -> list[Move]:
        """Advance the clock: end the holddown, and handoffs that took too long."""
        moves: list[Move] = []
        if self.status == HOLDDOWN and now_ms >= self.holddown_ends_ms:
            moves += self._rebalance(now_ms)
        for partition, slot in enumerate(self.slots):
            if slot.status == PAUSED and now_ms >= slot.handoff_deadline_ms:
                moves += self._hand_over(partition)
        self._finish()
        return moves

    def resize(self, partitions_count: int, now_ms: int) -> list[Move]:
        """Add partitions, to be assigned like any free ones, or remove the last ones, which are empty."""
        moves: list[Move] = []
        for partition in range(partitions_count, len(self.slots)):
            slot = self.slots[partition]
            if slot.owner != NO_FLOW:
                moves.append(Move(DETACH, partition, slot.owner, slot.epoch))
            self._epoch_before = max(self._epoch_before, slot.epoch)
        del self.slots[partitions_count:]
        while len(self.slots) < partitions_count:
            self.slots.append(PartitionSlot(self._epoch_before))
        self._owned = None
        self._review(now_ms, anew=False)
        return moves

    def deadline_ms(self) -> int:
        """Return when `tick` is next needed; 0: not at all."""
        deadlines = [slot.handoff_deadline_ms for slot in self.slots if slot.status == PAUSED]
        if self.status == HOLDDOWN:
            deadlines.append(self.holddown_ends_ms)
        return max(1, min(deadlines)) if deadlines else 0

    def partitions_of(self, flow_id: int) -> list[int]:
        """Return the partitions a flow owns. Callers must not change the list."""
        owned = self._owned
        if owned is None:  # computed once per change: the queue asks for every flow
            owned = self._owned = {}
            for partition, slot in enumerate(self.slots):
                owned.setdefault(slot.owner, []).append(partition)
        return owned.get(flow_id, [])

    def assignment_of(self, flow_id: int) -> list[tuple[int, int, int]]:
        """Return the partitions of a flow with their epochs, and until when it may keep them; 0: no limit."""
        assignment: list[tuple[int, int, int]] = []
        for partition in self.partitions_of(flow_id):
            slot = self.slots[partition]
            deadline_ms = slot.handoff_deadline_ms if slot.status == PAUSED else 0
            assignment.append((partition, slot.epoch, deadline_ms))
        return assignment

    def partition_statuses(self, count: int) -> list[tuple[str, int, int]]:
        """Return status, owning flow and epoch of each partition."""
        return [(slot.status, slot.owner, slot.epoch) for slot in self.slots[:count]]

    def check(self) -> None:
        """Assert the invariants."""
        paused_count = 0
        assert self.acknowledging <= self.clients.keys(), "an acknowledging flow is bound"
        for slot in self.slots:
            assert slot.owner == NO_FLOW or slot.owner in self.clients, "an owner is bound"
            assert (slot.owner != NO_FLOW) == (slot.status in (PARTITION_READY, PAUSED))
            assert (slot.next_owner != NO_FLOW) == (slot.status == PAUSED), "a paused partition has a next owner"
            assert slot.next_owner == NO_FLOW or slot.next_owner in self.clients, "the next owner is bound"
            assert slot.next_owner == NO_FLOW or slot.next_owner != slot.owner, "the next owner is another flow"
            paused_count += 1 if slot.status == PAUSED else 0
        assert (paused_count > 0) == (self.status == REBALANCING), "a rebalance lasts as long as its handoffs"
        assert self.status != READY or self._at_rest(), "ready means that nothing is left to move"
        assert (self.deadline_ms() == 0) == (self.status == READY), "there is a deadline while there is something to do"

    def _rebalance(self, now_ms: int) -> list[Move]:
        """Assign the free partitions, and begin the handoffs. The caller finishes when there are none."""
        moves: list[Move] = []
        wanted = assign_partitions([slot.owner for slot in self.slots], list(self.clients))
        for partition, owner in enumerate(wanted):
            slot = self.slots[partition]
            if owner == NO_FLOW:
                slot.status = UNASSIGNED
                slot.last_client = ""
            elif slot.owner == NO_FLOW:
                moves.append(self._give(partition, owner))
            elif owner != slot.owner:
                slot.status = PAUSED
                slot.next_owner = owner
                slot.handoff_deadline_ms = now_ms + self.handoff_ms
                slot.is_drained = slot.is_acknowledged = False
                moves.append(Move(PAUSE, partition, slot.owner, slot.epoch))
        if moves:
            self.started_count += 1
            self.status = REBALANCING
        self._holddown_began_ms = NEVER
        return moves

    def _hand_over(self, partition: int) -> list[Move]:
        slot = self.slots[partition]
        return [Move(DETACH, partition, slot.owner, slot.epoch), self._give(partition, slot.next_owner)]

    def _give(self, partition: int, flow_id: int) -> Move:
        slot = self.slots[partition]
        slot.owner = flow_id
        slot.next_owner = NO_FLOW
        slot.epoch += 1
        slot.status = PARTITION_READY
        slot.last_client = self.clients[flow_id]
        self._owned = None
        return Move(ATTACH, partition, flow_id, slot.epoch)

    def _review(self, now_ms: int, *, anew: bool) -> None:
        """Begin a holddown after a flow came or went, if there is anything to move; `anew`: extend a running one."""
        if not self._at_rest():
            if self._holddown_began_ms == NEVER:
                self._holddown_began_ms = now_ms
                self.holddown_ends_ms = now_ms + self.delay_ms
            elif anew:
                latest_ms = self._holddown_began_ms + HOLDDOWN_DELAYS_MAX * self.delay_ms
                self.holddown_ends_ms = min(now_ms + self.delay_ms, latest_ms)
        self._finish()

    def _finish(self) -> None:
        """Set the status: handoffs come first, then the holddown for changes in the meantime."""
        if [slot for slot in self.slots if slot.status == PAUSED]:
            return
        if self.status == REBALANCING:
            self.completed_count += 1
        if self._at_rest():
            self.status = READY
            self._holddown_began_ms = NEVER
        else:
            self.status = HOLDDOWN

    def _at_rest(self) -> bool:
        """Return whether a rebalance now would change nothing."""
        owners = [slot.owner for slot in self.slots]
        if not self.clients:
            return all(slot.status == UNASSIGNED for slot in self.slots)
        return assign_partitions(owners, list(self.clients)) == owners

    def _idle_flows(self) -> list[int]:
        owners = {slot.owner for slot in self.slots} | {slot.next_owner for slot in self.slots}
        return [flow_id for flow_id in self.clients if flow_id not in owners]
