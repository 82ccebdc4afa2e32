"""The rebalancing of a partitioned queue: holddown, sticky assignment, fenced handoff.

A machine over bound flows and partitions. It answers every event with the moves that the queue actor has to make.
A partition changes hands in three steps: it is paused, its owner settles what it holds or the handoff time ends, and
only then the next owner gets it, under a higher assignment epoch. So a key never has two owners.
"""

from typing import Final, final

# Which flow owns which partition: balanced, sticky, moving as little as it can.


def assign_partitions(owners: list[int], flow_ids: list[int]) -> list[int]:
    """Return the new owner of each partition: a flow id, or 0 where there is no flow at all.

    `owners[p]` is the present owner of partition p (0: none); `flow_ids` are the bound flows, oldest first. Every flow
    that owns anything afterwards owns `floor(P / F)` or `ceil(P / F)` partitions, where F is the number of flows that
    can own one; surplus flows own none, the youngest idle ones first. No assignment with that balance moves fewer
    partitions away from a present owner.
    """
    partitions_count = len(owners)
    if not flow_ids or partitions_count == 0:
        return [0] * partitions_count
    held: dict[int, list[int]] = {flow_id: [] for flow_id in flow_ids}
    for partition, owner in enumerate(owners):
        if owner in held:
            held[owner].append(partition)
    # Flows that hold most keep most; among equals the older one goes first. So surplus partitions stay where they are.
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


# States of the queue, by the names its management shows.
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

HOLDDOWN_DELAYS_MAX: Final = 2  # a consumer that comes and goes all the time must not keep partitions from the others

# Moves.
ATTACH: Final = "attach"
PAUSE: Final = "pause"
DETACH: Final = "detach"


@final
class Move:
    """Something the queue actor has to do to one partition."""

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
    """One partition in the eyes of the rebalancer."""

    __slots__ = (
        "epoch", "handoff_deadline_ms", "is_acknowledged", "is_drained", "last_client", "next_owner", "owner", "status",
    )  # fmt: skip

    def __init__(self, epoch: int) -> None:
        self.owner = NO_FLOW
        self.next_owner = NO_FLOW  # while paused
        self.epoch = epoch
        self.status = UNASSIGNED
        self.handoff_deadline_ms = 0
        self.is_drained = False  # while paused: its owner holds nothing of it
        self.is_acknowledged = False  # while paused: its owner, if it acknowledges, has let go of it
        self.last_client = ""  # who gets it back when it returns during the holddown


@final
class Rebalancer:
    """Assignment of the partitions of one queue.

    The holddown lasts `delay_ms` from the first change. Consumers that join do not prolong it, so the delay has to
    cover the gap between the first and the last of them; a consumer that leaves has the whole delay to come back, as
    long as the holddown has not lasted HOLDDOWN_DELAYS_MAX delays already.

    Invariants: a partition has at most one owner; its epoch rises with every new owner, and goes on where another
    partition gets its number; the status is READY only when everything is assigned and a rebalance would move nothing;
    `deadline_ms` is 0 or the time at which `tick` has something to do.
    """

    def __init__(self, partitions_count: int, *, delay_ms: int, handoff_ms: int, epoch: int = 0) -> None:
        self.delay_ms = delay_ms
        self.handoff_ms = handoff_ms
        self.slots = [PartitionSlot(epoch) for _ in range(partitions_count)]
        self.clients: dict[int, str] = {}  # bound flows, oldest first -> client name
        self.acknowledging: set[int] = set()  # of them, those without whose word nothing is handed over in time
        self.status: str = READY
        self.holddown_ends_ms = 0
        self.started_count = 0
        self.completed_count = 0
        self._holddown_began_ms = NEVER
        self._owned: dict[int, list[int]] | None = None  # partitions by owner; None: to be gathered anew
        self._epoch_before = epoch  # the highest of partitions that are no more: their numbers may come back

    def bind(self, flow_id: int, client: str, now_ms: int) -> list[Move]:
        """Add a flow."""
        self.clients[flow_id] = client
        moves: list[Move] = []
        if all(slot.status == UNASSIGNED for slot in self.slots) or self._is_newcomer_alone(client):
            moves = self._rebalance(now_ms)  # the first consumer of an idle queue waits for nobody
        else:
            for partition, slot in enumerate(self.slots):
                if slot.status == UNBOUND and slot.last_client == client:
                    moves.append(self._give(partition, flow_id))
        self._review(now_ms, anew=False)
        return moves

    def _is_newcomer_alone(self, client: str) -> bool:
        """Return whether this is the only consumer, and none of those who may come back for their partitions."""
        return len(self.clients) == 1 and all(slot.last_client != client for slot in self.slots)

    def unbind(self, flow_id: int, now_ms: int) -> list[Move]:
        """Remove a flow, whether it left or was lost; its partitions are detached."""
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
            else:  # nobody is there to hand it to: the owner goes on with it, under the epoch it has
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
        """The owner of a paused partition has let go of it. What it still holds of it is waited for all the same."""
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
        """A partition has forgotten its flows: give it, under a higher epoch, to its owner, or to the next at once."""
        slot = self.slots[partition]
        heir = slot.next_owner if slot.status == PAUSED else slot.owner
        if heir == NO_FLOW:
            return []
        moves = [self._give(partition, heir)]
        self._finish()
        return moves

    def tick(self, now_ms: int) -> list[Move]:
        """Bring time: the end of the holddown, and handoffs that took too long."""
        moves: list[Move] = []
        if self.status == HOLDDOWN and now_ms >= self.holddown_ends_ms:
            moves += self._rebalance(now_ms)
        for partition, slot in enumerate(self.slots):
            if slot.status == PAUSED and now_ms >= slot.handoff_deadline_ms:
                moves += self._hand_over(partition)
        self._finish()
        return moves

    def resize(self, partitions_count: int, now_ms: int) -> list[Move]:
        """Take on more partitions, to be given out like any that are free, or drop the last ones, which are empty."""
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
        if owned is None:  # gathered once per change: the queue asks for every flow
            owned = self._owned = {}
            for partition, slot in enumerate(self.slots):
                owned.setdefault(slot.owner, []).append(partition)
        return owned.get(flow_id, [])

    def assignment_of(self, flow_id: int) -> list[tuple[int, int, int]]:
        """Return the partitions a flow owns with their epochs, and until when it may keep them; 0: for good."""
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
        assert self.acknowledging <= self.clients.keys(), "who acknowledges is bound"
        for slot in self.slots:
            assert slot.owner == NO_FLOW or slot.owner in self.clients, "an owner is bound"
            assert (slot.owner != NO_FLOW) == (slot.status in (PARTITION_READY, PAUSED))
            assert (slot.next_owner != NO_FLOW) == (slot.status == PAUSED), "a paused partition has an heir"
            assert slot.next_owner == NO_FLOW or slot.next_owner in self.clients, "an heir is bound"
            assert slot.next_owner == NO_FLOW or slot.next_owner != slot.owner, "an heir is somebody else"
            paused_count += 1 if slot.status == PAUSED else 0
        assert (paused_count > 0) == (self.status == REBALANCING), "a rebalance lasts as long as its handoffs"
        assert self.status != READY or self._at_rest(), "ready means that nothing is left to move"
        assert (self.deadline_ms() == 0) == (self.status == READY), "there is a deadline while there is something to do"

    def _rebalance(self, now_ms: int) -> list[Move]:
        """Give out what has no owner, and begin the handoffs. The caller finishes when there are none."""
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
        """After a flow came or went: a holddown begins if there is something to move; `anew`: or begins anew."""
        if not self._at_rest():
            if self._holddown_began_ms == NEVER:
                self._holddown_began_ms = now_ms
                self.holddown_ends_ms = now_ms + self.delay_ms
            elif anew:
                latest_ms = self._holddown_began_ms + HOLDDOWN_DELAYS_MAX * self.delay_ms
                self.holddown_ends_ms = min(now_ms + self.delay_ms, latest_ms)
        self._finish()

    def _finish(self) -> None:
        """Find the status: handoffs come first, then the holddown for what changed meanwhile."""
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
