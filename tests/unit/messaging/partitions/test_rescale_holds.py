"""What a partition holds while slots move, on one ledger: by example, beside the laws in test_rescale."""

from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.keys import key_hash
from sluicegate.messaging.message.outcomes import FAILED, RELEASED
from sluicegate.messaging.partitions.explain import WaitReason, wait_reason
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.recovery import StoredBatch, StoredPartition, redelivered_ranges, restore
from sluicegate.messaging.partitions.rules.moves import abort_move, begin_move
from sluicegate.messaging.partitions.state.flows import ORDER_BY_KEY, DeliveryRules
from sluicegate.messaging.partitions.state.rescale_holds import HELD_RUNS_MAX, RescaleHolds
from sluicegate.messaging.queues.assignment.slots import modulo_slots
from support.cores.messages import batch_of, flow_of, published, sequences_of

SOURCE, GAINING = 0, 1


def _key_of(partition: int) -> str:
    return next(key for key in map(str, range(100)) if key_hash(key) % 2 == partition)


MOVED, OWN = _key_of(SOURCE), _key_of(GAINING)
KEYS = {"m": MOVED, "o": OWN, ".": ""}


class Gaining:
    """A partition that gained the slot of one key. Messages are letters: `m` of it, `o` of another, `.` of none."""

    def __init__(self, letters: str, *, rules: DeliveryRules | None = None) -> None:
        self.ledger = Ledger(durable=True, rules=rules or DeliveryRules())
        if letters:
            self.publish(letters)
        hold(self.ledger)

    def publish(self, letters: str, *, priorities: str = "") -> None:
        headers: list[Headers | None] = []
        for row, letter in enumerate(letters):
            key = KEYS[letter]
            priority = int(priorities[row]) if priorities else 4
            headers.append(Headers(partition_key=key, key_hash=key_hash(key) if key else -1, priority=priority))
        batch = batch_of([b"m"] * len(letters), headers=headers)
        self.ledger.append(batch, published(batch))

    def attach(self) -> None:
        self.ledger.attach(flow_of(1), 1)

    def delivers(self, wall_ms: int = 0) -> list[tuple[int, bool]]:
        return delivered(self.ledger, wall_ms)


def hold(ledger: Ledger) -> None:
    ledger.rescale_holds = ledger.rescale_holds or RescaleHolds()
    ledger.rescale_holds.close(GAINING, modulo_slots(2), [SOURCE])


def delivered(ledger: Ledger, wall_ms: int = 0) -> list[tuple[int, bool]]:
    """Deliver; return each sequence, and whether it was flagged as redelivered."""
    deliveries = ledger.deliver(wall_ms)
    ledger.check()
    return [(sequence, each.redelivered) for each in deliveries for sequence in sequences_of(each)]


def restarted(ledger: Ledger, *, was_clean: bool) -> Ledger:
    """Return the ledger of the next life."""
    stored = StoredPartition(1)
    stored.floor, stored.next_sequence = ledger.floor, ledger.next_sequence
    for first, end in ledger.settled.ranges():
        stored.settle(first, end)
    for segment in ledger.segments.all():
        assert segment.batch is not None
        stored.batches.append(StoredBatch(segment.first, segment.batch, published(segment.batch)))
    if was_clean:
        stored.redelivered = redelivered_ranges(ledger)
    again = Ledger(durable=True, rules=DeliveryRules())
    restore(again, stored, was_clean=was_clean)
    again.check()
    return again


def test_a_message_without_a_key_is_held_for_no_partition() -> None:
    """Not for that of the last slot either, where -1 would lead."""
    holds = RescaleHolds()
    holds.close(0, modulo_slots(2), [1])
    keyed = Headers(partition_key=_key_of(1), key_hash=key_hash(_key_of(1)))
    batch = batch_of([b"m"] * 2, headers=[Headers(key_hash=-1), keyed])

    assert holds.free_run(batch, 1, 1, 3, None) == (1, 2)


def test_messages_of_a_slot_that_moved_are_passed_over_until_their_source_is_open() -> None:
    gaining = Gaining("om.mo")
    gaining.attach()
    assert gaining.delivers() == [(1, False), (3, False), (5, False)]
    gaining.publish("mo")
    assert gaining.delivers() == [(7, False)]
    assert gaining.ledger.rescale_holds is not None
    assert gaining.ledger.rescale_holds.count() == 3
    gaining.ledger.open_source(SOURCE)
    assert gaining.delivers() == [(2, False), (4, False), (6, False)]


def test_messages_recovered_as_possibly_delivered_are_held_after_a_clean_stop_too() -> None:
    """After a crash all is flagged, and a clean stop remembers that: what it brings back waits behind the cursor."""
    after_crash = restarted(Gaining("omo").ledger, was_clean=False)
    hold(after_crash)
    again = restarted(after_crash, was_clean=True)
    assert again.requeued.total == 3, "a clean stop knows that all of them may have been delivered"
    hold(again)
    again.attach(flow_of(1), 1)
    assert delivered(again) == [(1, True), (3, True)]
    again.open_source(SOURCE)
    assert delivered(again) == [(2, True)]


def test_messages_skipped_before_a_clean_stop_were_never_delivered() -> None:
    gaining = Gaining("omo")
    gaining.attach()
    assert gaining.delivers() == [(1, False), (3, False)]
    gaining.ledger.detach(1, count_as_failed=False)
    again = restarted(gaining.ledger, was_clean=True)
    hold(again)
    again.attach(flow_of(1), 1)
    assert delivered(again) == [(1, True), (3, True)]
    again.open_source(SOURCE)
    assert delivered(again) == [(2, False)]


def test_returned_messages_overtake_held_ones() -> None:
    gaining = Gaining("omo")
    gaining.attach()
    gaining.delivers()
    gaining.ledger.settle(1, 1, 2, RELEASED)
    assert gaining.delivers() == [(1, True)]


def test_messages_behind_a_failed_one_are_still_held() -> None:
    """While a failed message waits all that is fresh is gathered into ranges: held messages among it stay held."""
    rules = DeliveryRules(redelivery_delay_ms=1000, redelivery_delay_ms_max=1000, order=ORDER_BY_KEY)
    gaining = Gaining("o", rules=rules)
    gaining.attach()
    gaining.delivers(1)
    gaining.ledger.settle(1, 1, 2, FAILED)
    gaining.publish("mom.")
    assert gaining.delivers(2) == [(5, False)]
    assert gaining.delivers(2000) == [(1, True), (3, False)]
    gaining.ledger.open_source(SOURCE)
    assert gaining.delivers(2001) == [(2, False), (4, False)]


def test_the_highest_priority_is_held_too() -> None:
    """A queue that ceases to be partitioned may deliver by priority while its partitions drain."""
    gaining = Gaining("", rules=DeliveryRules(by_priority=True))
    gaining.publish("omo.m", priorities="19157")
    gaining.attach()
    assert [sequence for sequence, _ in gaining.delivers()] == [4, 1, 3]
    gaining.ledger.open_source(SOURCE)
    assert gaining.delivers() == [(2, False), (5, False)]


def test_held_messages_can_be_purged() -> None:
    gaining = Gaining("mm")
    gaining.attach()
    assert gaining.delivers() == []
    assert gaining.ledger.purge() == 2
    gaining.ledger.check()
    gaining.ledger.open_source(SOURCE)
    assert gaining.delivers() == []


def test_held_messages_can_move_and_are_held_again_after_an_abort() -> None:
    gaining = Gaining("mm")
    gaining.attach()
    assert gaining.delivers() == []
    assert begin_move(gaining.ledger, 1, 2) == [(1, 2)]
    gaining.ledger.check()
    abort_move(gaining.ledger, 1, 2)
    assert gaining.delivers() == []
    gaining.ledger.open_source(SOURCE)
    assert gaining.delivers() == [(1, False), (2, False)]


def test_with_too_many_runs_of_held_messages_the_partition_waits_as_a_whole() -> None:
    gaining = Gaining("mo" * (HELD_RUNS_MAX + 1), rules=DeliveryRules(unacked_count_max=100_000))
    gaining.ledger.attach(flow_of(1, limit=100_000), 1)
    assert len(gaining.delivers()) == HELD_RUNS_MAX
    assert gaining.delivers() == []
    gaining.ledger.open_source(SOURCE)
    assert len(gaining.delivers()) == HELD_RUNS_MAX + 2


def test_explain_names_the_rescale() -> None:
    gaining = Gaining("om.")
    assert wait_reason(gaining.ledger, 2) is WaitReason.RESCALE
    assert wait_reason(gaining.ledger, 1) is WaitReason.NO_CONSUMER
    gaining.ledger.open_source(SOURCE)
    assert wait_reason(gaining.ledger, 2) is WaitReason.NO_CONSUMER
