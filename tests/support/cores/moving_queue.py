"""A partitioned queue whose number of partitions changes: the real cores beside a plain model.

Partitions, spool and store are those of `spool_in_memory`; the rebalancer decides who owns which partition. The work of
the actors happens here at once, in the same order; a commit makes it durable, and a power failure undoes the rest.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache

from sluicegate.messaging.message.batch import AT_LEAST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.keys import key_hash
from sluicegate.messaging.message.outcomes import ACCEPTED
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.state.effects import Delivery
from sluicegate.messaging.partitions.state.flows import ORDER_BY_KEY, Flow
from sluicegate.messaging.partitions.state.rescale_holds import RescaleHolds
from sluicegate.messaging.queues.assignment.rebalance import ATTACH, PAUSE, Move, Rebalancer
from sluicegate.messaging.queues.assignment.slots import CUT_UNKNOWN, Rescale, modulo_slots, partition_in, resized_slots
from sluicegate.storage.commit.planner import TableRequest
from support.cores.messages import flow_of, sequences_of
from support.cores.spool_in_memory import SpoolInMemory

DELAY_MS, HANDOFF_MS = 5000, 3000
WINDOW = 5

map_of = cache(resized_slots)  # 50 ms of Python each, and tests ask for the same few again and again


@dataclass(frozen=True)
class Held:
    """A message that is in flight with a consumer, or was until it was taken away."""

    flow_id: int
    epoch: int
    partition_id: int
    sequence: int


@dataclass(frozen=True)
class Stored:
    """What the store knows of the queue."""

    partition_ids: list[int]
    slots: bytes
    rescale: Rescale | None = None
    cuts: dict[int, int] = field(default_factory=dict)  # those of the change that are known


class MovingQueue:
    """The queue. Payloads are `key:number`, or `:number` without a key; the numbers of a key ascend."""

    def __init__(self, count: int, *, redelivery_delay_ms: int = 0) -> None:
        self.wanted = count
        self.spool = SpoolInMemory(list(range(1, count + 1)))
        rules = self.spool.rules
        rules.redelivery_delay_ms = rules.redelivery_delay_ms_max = redelivery_delay_ms
        rules.order = ORDER_BY_KEY
        self.next_partition_id = count + 1
        self.stored = Stored(list(self.spool.partition_ids), modulo_slots(count))
        self.unsettled: dict[bytes, None] = {}
        self.numbers: dict[str, int] = {}
        self.now_ms = 1000
        self._next_flow_id = 1
        self._come_up()

    # --- what users do ---

    def publishes(self, keys: list[str]) -> None:
        """Publish one batch; an empty key is none."""
        payloads = []
        for key in keys:
            self.numbers[key] = self.numbers.get(key, 0) + 1
            payloads.append(f"{key}:{self.numbers[key]}".encode())
        batch = MessageBatch(
            topic="t",
            topics=None,
            payloads=payloads,
            headers=[Headers(partition_key=key, key_hash=key_hash(key)) if key else None for key in keys],
            qos=AT_LEAST_ONCE,
            retain=False,
            publisher="p",
            received_ms=0,
            payload_bytes=sum(map(len, payloads)),
        )
        rows: dict[int, list[int] | None] = {}
        for row, key in enumerate(keys):
            partition_id = self.ids[self.partition_of(key, payloads[row])]
            rows[partition_id] = [*(rows.get(partition_id) or []), row]
        self.spool.publish_batch(batch, rows)
        self.unsettled.update(dict.fromkeys(payloads))

    def partition_of(self, key: str, payload: bytes = b"") -> int:
        """Return where a message goes; one without a key goes anywhere."""
        return partition_in(self.slots, key_hash(key or payload.decode()))

    def joins(self, client: str) -> None:
        flow = flow_of(self._next_flow_id, limit=WINDOW)
        self._next_flow_id += 1
        self.flows[flow.flow_id] = flow
        self._move(self.access.bind(flow.flow_id, client, self.now_ms))

    def leaves(self, flow_id: int) -> None:
        """End a consumer, with all that it has in flight."""
        self._move(self.access.unbind(flow_id, self.now_ms))
        del self.flows[flow_id]
        self._turn_ends()

    def settles(self, payload: bytes, held: Held, outcome: int) -> None:
        """Settle one message for a consumer; what was taken from it meanwhile counts for nothing."""
        ledger = self.spool.ledgers.get(held.partition_id)
        its = None if ledger is None else ledger.flows.get(held.flow_id)
        if ledger is None or its is None or its.epoch != held.epoch:
            assert self.holders.get(payload) != held, "who holds a message may settle it"
            return
        count = ledger.settle(held.flow_id, held.sequence, held.sequence + 1, outcome)
        assert count == (1 if self.holders.get(payload) == held else 0)
        if count:
            its.flow.window.give(1)
            del self.holders[payload]
            if outcome == ACCEPTED:
                del self.unsettled[payload]
        self._turn_ends()

    def passes(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while 0 < self.access.deadline_ms() <= end_ms:
            self.now_ms = max(self.now_ms, self.access.deadline_ms())
            self._move(self.access.tick(self.now_ms))
        self.now_ms = end_ms
        self._turn_ends()

    def delivers(self) -> int:
        """Deliver what there is credit for; return how many messages that were."""
        count = 0
        for partition_id in self.ids:
            count += self._deliver(partition_id)
            while self.spool.read_wanted_pages(partition_id):
                count += self._deliver(partition_id)
        self._turn_ends()
        return count

    def asks_for(self, count: int) -> None:
        """Request another number of partitions. One change runs at a time, and the last request counts."""
        self.wanted = count
        self._plan()

    def commits(self) -> None:
        self.spool.begin_commit()
        self.spool.end_commit(succeeds=True)
        self._turn_ends()

    def loses_power(self) -> None:
        self.spool.partition_ids = list(self.stored.partition_ids)
        kept = self.spool.crash()
        self.unsettled = dict.fromkeys(kept.values())
        stored = self.stored.rescale  # a wish is stored with its plan, and is lost with it
        self.wanted = len(self.stored.partition_ids) if stored is None else stored.count
        self._come_up()

    def stops_and_starts(self) -> None:
        """End in good order: consumers go first, and everything is written."""
        for flow_id in list(self.flows):
            self.leaves(flow_id)
        self.spool.commit_everything()
        self._turn_ends()
        self.spool.commit_everything()
        self.spool.partition_ids = list(self.stored.partition_ids)
        kept = self.spool.stop_and_start()
        assert set(kept.values()) == set(self.unsettled)
        self._come_up()

    # --- what goes on inside ---

    def _come_up(self) -> None:
        """Go on from what is stored: nobody consumes, and a change under way waits for what was recovered."""
        self.ids = list(self.stored.partition_ids)
        self.slots = self.stored.slots
        self.flows: dict[int, Flow] = {}
        self.holders: dict[bytes, Held] = {}
        self.planned = False
        self.access = Rebalancer(len(self.ids), delay_ms=DELAY_MS, handoff_ms=HANDOFF_MS)
        stored = self.stored.rescale
        self.rescale: Rescale | None = None
        if stored is not None:
            self.rescale = _fresh(stored)
            for number, cut in self.stored.cuts.items():
                self.rescale.take_cut(number, cut)
            self._post_barrier(self.rescale)
        self._turn_ends()

    def _plan(self) -> None:
        """Prepare the next change, and begin it when it is stored."""
        count_before = len(self.ids)
        if self.planned or self.rescale is not None or self.wanted == count_before:
            return
        self.planned = True
        slots = map_of(self.slots, count_before, self.wanted)
        rescale = Rescale(count_before=count_before, count=self.wanted, slots_before=self.slots, slots=slots)
        added = list(range(self.next_partition_id, self.next_partition_id + self.wanted - count_before))
        self.next_partition_id += len(added)
        for partition_id in added:
            self.spool.open_partition(partition_id)
        self._store(Stored([*self.ids, *added], slots, rescale), lambda: self._begin(rescale, added))

    def _begin(self, rescale: Rescale, added: list[int]) -> None:
        self.planned = False
        self.rescale = _fresh(rescale)
        self.ids += added
        self._post_barrier(self.rescale)
        self.slots = rescale.slots
        self._move(self.access.resize(len(self.ids), self.now_ms))
        self._store(replace(self.stored, cuts=dict(self.rescale.cuts)), lambda: None)

    def _post_barrier(self, rescale: Rescale) -> None:
        for number in range(rescale.count):
            if number not in rescale.cuts:
                ledger = self.spool.ledgers[self.ids[number]]
                ledger.rescale_holds = ledger.rescale_holds or RescaleHolds()
                ledger.rescale_holds.close(number, rescale.slots_before, rescale.waits_for())
        for number, cut in list(rescale.cuts.items()):
            ledger = self.spool.ledgers[self.ids[number]]
            ledger.watched_cut = cut if cut != CUT_UNKNOWN else ledger.next_sequence
            rescale.take_cut(number, ledger.watched_cut)

    def _turn_ends(self) -> None:
        self.spool.carry_out_effects()
        for number, partition_id in enumerate(list(self.ids)):
            if partition_id not in self.ids:
                continue  # it retired just now
            ledger = self.spool.ledgers[partition_id]
            if ledger.watched_cut and ledger.is_settled_below(ledger.watched_cut):
                ledger.watched_cut = 0
                self._source_drained(number)
            if ledger.rescale_holds is not None and ledger.rescale_holds.are_over():
                ledger.rescale_holds = None

    def _source_drained(self, source: int) -> None:
        rescale = self.rescale
        assert rescale is not None
        for number in range(rescale.count):
            if number not in rescale.cuts:
                self._ledger(number).open_source(source)
        if rescale.drain(source):
            self.rescale = None
            self._move(self.access.resize(rescale.count, self.now_ms))
            retired = self.ids[rescale.count :]
            del self.ids[rescale.count :]
            for partition_id in retired:
                assert self.spool.ledgers[partition_id].waiting_count == 0, "what retires is empty"
                self.spool.forget_partition(partition_id)
            self._store(Stored(list(self.ids), self.slots), self._plan)

    def _store(self, stored: Stored, then: Callable[[], None]) -> None:
        def done(reason: str) -> None:
            self.stored = stored
            then()

        self.spool.planner.write_tables(TableRequest([], done))

    def _move(self, moves: list[Move]) -> None:
        for move in moves:
            ledger = self.spool.ledgers[self.ids[move.partition]]
            if move.kind == ATTACH:
                ledger.attach(self.flows[move.flow_id], move.epoch)
            elif move.kind == PAUSE:
                ledger.pause(move.flow_id)
            else:
                self._detach(ledger, self.ids[move.partition], move.flow_id)
        for number, slot in enumerate(self.access.slots):
            if slot.status == "paused" and self._ledger(number).in_flight_count(slot.owner) == 0:
                self._move(self.access.drained(number, slot.epoch))
        self.access.check()

    def _ledger(self, number: int) -> Ledger:
        return self.spool.ledgers[self.ids[number]]

    def _detach(self, ledger: Ledger, partition_id: int, flow_id: int) -> None:
        ledger.detach(flow_id, count_as_failed=True)
        for payload, held in list(self.holders.items()):
            if held.flow_id == flow_id and held.partition_id == partition_id:
                del self.holders[payload]
                self.flows[flow_id].window.give(1)

    def _deliver(self, partition_id: int) -> int:
        """Deliver from one partition: whoever gets a message holds all older ones of its key that are not settled."""
        count = 0
        for delivery in self.spool.ledgers[partition_id].deliver(self.now_ms):
            for sequence, payload in zip(sequences_of(delivery), _payloads(delivery), strict=True):
                assert payload in self.unsettled, "nothing is delivered that was settled or never published"
                assert payload not in self.holders, "nobody else holds it"
                key, number = _parts(payload)
                for older in self.unsettled if key else []:
                    other_key, other_number = _parts(older)
                    if other_key == key and other_number < number:
                        holder = self.holders.get(older)
                        assert holder is not None, f"{payload!r} before {older!r}"
                        assert holder.flow_id == delivery.flow.flow_id, f"two hold {key!r}"
                self.holders[payload] = Held(delivery.flow.flow_id, delivery.epoch, partition_id, sequence)
                count += 1
        return count


def _fresh(rescale: Rescale) -> Rescale:
    return Rescale(
        count_before=rescale.count_before,
        count=rescale.count,
        slots_before=rescale.slots_before,
        slots=rescale.slots,
    )


def _payloads(delivery: Delivery) -> list[bytes]:
    return delivery.batch.payloads()[delivery.start_row : delivery.stop_row]


def _parts(payload: bytes) -> tuple[str, int]:
    key, _, number = payload.decode().partition(":")
    return key, int(number)
