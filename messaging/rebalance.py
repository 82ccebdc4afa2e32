"""The rebalancing of a partitioned queue: holddown, sticky assignment, fenced handoff.

A machine over bound flows and partitions. It answers every event with the moves that the queue actor has to make.
A partition changes hands in three steps: it is paused, its owner settles what it holds or the handoff time ends, and
only then the next owner gets it, under a higher assignment epoch. So a key never has two owners.
"""

from typing import Final, final

from messaging.assignment import assign_partitions

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

    __slots__ = ("epoch", "handoff_deadline_ms", "last_client", "next_owner", "owner", "status")

    def __init__(self) -> None:
        self.owner = NO_FLOW
        self.next_owner = NO_FLOW  # while paused
        self.epoch = 0
        self.status = UNASSIGNED
        self.handoff_deadline_ms = 0
        self.last_client = ""  # who gets it back when it returns during the holddown


@final
class Rebalancer:
    """Assignment of the partitions of one queue.

    Invariants: a partition has at most one owner; its epoch rises with every new owner; `deadline_ms` is 0 or the time
    at which `tick` has something to do.
    """

    def __init__(self, partitions_count: int, *, delay_ms: int, handoff_ms: int) -> None:
        self.delay_ms = delay_ms
        self.handoff_ms = handoff_ms
        self.slots = [PartitionSlot() for _ in range(partitions_count)]
        self.clients: dict[int, str] = {}  # bound flows, oldest first -> client name
        self.status = READY
        self.holddown_ends_ms = 0
        self.started_count = 0
        self.completed_count = 0
        self._changed = False  # flows came or went while partitions were changing hands

    def bind(self, flow_id: int, client: str, now_ms: int) -> list[Move]:
        """Add a flow."""
        self.clients[flow_id] = client
        if all(slot.owner == NO_FLOW and slot.last_client in ("", client) for slot in self.slots):
            return self._rebalance(now_ms)  # the first consumer of an idle queue waits for nobody
        moves: list[Move] = []
        for partition, slot in enumerate(self.slots):
            if slot.status == UNBOUND and slot.last_client == client:
                moves.append(self._give(partition, flow_id))
        if self.status == HOLDDOWN and self._balanced():
            self.status = READY  # everybody is back where they were
        elif len(self.clients) <= len(self.slots):
            self._hold_down(now_ms)
        return moves

    def unbind(self, flow_id: int, now_ms: int) -> list[Move]:
        """Remove a flow, whether it left or was lost; its partitions are detached."""
        client = self.clients.pop(flow_id, None)
        if client is None:
            return []
        idle = self._idle_flows()
        moves: list[Move] = []
        orphaned = False
        for partition, slot in enumerate(self.slots):
            if slot.next_owner == flow_id:
                slot.next_owner = NO_FLOW
            if slot.owner != flow_id:
                continue
            moves.append(Move(DETACH, partition, flow_id, slot.epoch))
            heir = slot.next_owner
            slot.owner = NO_FLOW
            slot.next_owner = NO_FLOW
            slot.last_client = client
            slot.status = UNBOUND
            if heir == NO_FLOW and idle:
                heir = idle[0]  # a standby consumer takes everything over at once
            if heir != NO_FLOW:
                moves.append(self._give(partition, heir))
            else:
                orphaned = True
        if orphaned:
            self._hold_down(now_ms)
        elif self._settled_down() and self.status == REBALANCING:
            self._finish()
        return moves

    def drained(self, partition: int, epoch: int) -> list[Move]:
        """The owner of a paused partition has settled everything it held of it."""
        slot = self.slots[partition]
        if slot.status != PAUSED or slot.epoch != epoch:
            return []
        return self._hand_over(partition)

    def tick(self, now_ms: int) -> list[Move]:
        """Bring time: the end of the holddown, and handoffs that took too long."""
        moves: list[Move] = []
        if self.status == HOLDDOWN and now_ms >= self.holddown_ends_ms:
            moves += self._rebalance(now_ms)
        for partition, slot in enumerate(self.slots):
            if slot.status == PAUSED and now_ms >= slot.handoff_deadline_ms:
                moves += self._hand_over(partition)
        return moves

    def deadline_ms(self) -> int:
        """Return when `tick` is next needed; 0: not at all."""
        deadlines = [slot.handoff_deadline_ms for slot in self.slots if slot.status == PAUSED]
        if self.status == HOLDDOWN:
            deadlines.append(self.holddown_ends_ms)
        return min(deadlines) if deadlines else 0

    def partitions_of(self, flow_id: int) -> list[int]:
        """Return the partitions a flow owns."""
        return [partition for partition, slot in enumerate(self.slots) if slot.owner == flow_id]

    def partition_statuses(self, count: int) -> list[tuple[str, int, int]]:
        """Return status, owning flow and epoch of each partition."""
        return [(slot.status, slot.owner, slot.epoch) for slot in self.slots[:count]]

    def check(self) -> None:
        """Assert the invariants."""
        for slot in self.slots:
            assert slot.owner == NO_FLOW or slot.owner in self.clients, "an owner is bound"
            assert (slot.owner != NO_FLOW) == (slot.status in (PARTITION_READY, PAUSED))
            assert slot.next_owner == NO_FLOW or slot.status == PAUSED

    def _hold_down(self, now_ms: int) -> None:
        """Wait for the set of consumers to come to rest; every change starts the wait anew."""
        self.holddown_ends_ms = now_ms + self.delay_ms
        if self.status == REBALANCING:
            self._changed = True  # `_finish` begins the holddown when the handoffs are done
        else:
            self.status = HOLDDOWN

    def _rebalance(self, now_ms: int) -> list[Move]:
        self.status = REBALANCING
        self.started_count += 1
        moves: list[Move] = []
        wanted = assign_partitions([slot.owner for slot in self.slots], list(self.clients))
        for partition, owner in enumerate(wanted):
            slot = self.slots[partition]
            if owner == NO_FLOW:
                slot.status = UNASSIGNED
                slot.last_client = ""
                continue
            if owner == slot.owner:
                continue
            if slot.owner == NO_FLOW:
                moves.append(self._give(partition, owner))
            else:
                slot.status = PAUSED
                slot.next_owner = owner
                slot.handoff_deadline_ms = now_ms + self.handoff_ms
                moves.append(Move(PAUSE, partition, slot.owner, slot.epoch))
        if self._settled_down():
            self._finish()
        return moves

    def _hand_over(self, partition: int) -> list[Move]:
        slot = self.slots[partition]
        moves = [Move(DETACH, partition, slot.owner, slot.epoch)]
        heir = slot.next_owner if slot.next_owner != NO_FLOW else slot.owner
        slot.owner = NO_FLOW
        slot.next_owner = NO_FLOW
        moves.append(self._give(partition, heir))
        if self._settled_down():
            self._finish()
        return moves

    def _give(self, partition: int, flow_id: int) -> Move:
        slot = self.slots[partition]
        slot.owner = flow_id
        slot.next_owner = NO_FLOW
        slot.epoch += 1
        slot.status = PARTITION_READY
        slot.last_client = self.clients[flow_id]
        return Move(ATTACH, partition, flow_id, slot.epoch)

    def _settled_down(self) -> bool:
        """Return whether no handoff is under way."""
        return not [slot for slot in self.slots if slot.status == PAUSED]

    def _finish(self) -> None:
        if self.status == REBALANCING:
            self.completed_count += 1
        self.status = HOLDDOWN if self._changed else READY
        self._changed = False

    def _balanced(self) -> bool:
        """Return whether a rebalance now would move nothing."""
        owners = [slot.owner for slot in self.slots]
        return assign_partitions(owners, list(self.clients)) == owners

    def _idle_flows(self) -> list[int]:
        owners = {slot.owner for slot in self.slots} | {slot.next_owner for slot in self.slots}
        return [flow_id for flow_id in self.clients if flow_id not in owners]
