"""Flows that select: each gets the messages that its selector selects, and the others stay for others (Solace 4.14)."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.outcomes import (
    ACCEPTED,
    DISCARD_UNDELIVERABLE,
    FAILED,
    FAILED_ELSEWHERE,
    RELEASED,
    RELEASED_ELSEWHERE,
)
from sluicegate.messaging.partitions.explain import WaitReason, wait_reason
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.paging import page_loaded, pages_written, plan_pages
from sluicegate.messaging.partitions.rules.selection import SCANS_PER_TURN
from sluicegate.messaging.partitions.state.effects import Delivery
from sluicegate.messaging.partitions.state.flows import ORDER_BY_KEY, DeliveryRules, Flow
from sluicegate.messaging.selectors.selector import Selectors
from support.cores.messages import batch_of, delivered, flow_of, published, sequences_of, written
from support.thorough import examples

SELECTORS = Selectors({})


def prioritized(*priorities: int) -> MessageBatch:
    """Return a message for each of these priorities, by which the flows here select."""
    return batch_of([b"m"] * len(priorities), headers=[Headers(priority=each) for each in priorities])


def selecting(flow_id: int, priority: int | None, *, limit: int = 1000) -> Flow:
    flow = flow_of(flow_id, limit=limit)
    flow.selector = None if priority is None else SELECTORS.compile(f"JMSPriority = {priority}")
    return flow


def test_each_flow_gets_what_it_selects_and_the_rest_stays() -> None:
    ledger = Ledger(durable=False, rules=DeliveryRules())
    ledger.append(prioritized(1, 2, 1, 3, 2, 1), None)
    ledger.attach(selecting(1, 1), 1)
    ledger.attach(selecting(2, 2), 2)

    assert delivered(ledger.deliver(0)) == {1: [1, 3, 6], 2: [2, 5]}
    assert wait_reason(ledger, 4) is WaitReason.NOT_SELECTED
    ledger.check()
    ledger.attach(flow_of(3), 3)
    assert delivered(ledger.deliver(0)) == {3: [4]}


def test_a_run_that_is_selected_is_one_delivery() -> None:
    ledger = Ledger(durable=False, rules=DeliveryRules())
    ledger.append(prioritized(*[1] * 50, *[2] * 50), None)
    ledger.attach(selecting(1, 1), 1)

    (delivery,) = ledger.deliver(0)

    assert (delivery.first_sequence, delivery.stop_row, delivery.redelivered) == (1, 50, False)


def test_a_released_message_is_examined_again_by_flows_that_had_passed_it() -> None:
    ledger = Ledger(durable=False, rules=DeliveryRules())
    ledger.append(prioritized(1, 2, 1), None)
    ledger.attach(flow_of(1), 1)
    assert delivered(ledger.deliver(0)) == {1: [1, 2, 3]}
    ledger.attach(selecting(2, 1), 2)
    assert ledger.deliver(0) == []
    ledger.pause(1)

    ledger.settle(1, 1, 3, RELEASED)

    (delivery,) = ledger.deliver(0)
    assert (delivery.flow.flow_id, delivery.first_sequence, delivery.redelivered) == (2, 1, True)
    assert ledger.has_ready()  # the second one, which nobody selects
    ledger.check()


def test_a_backlog_is_looked_at_in_slices_and_once() -> None:
    ledger = Ledger(durable=False, rules=DeliveryRules())
    ledger.append(prioritized(*[2] * (2 * SCANS_PER_TURN), 1), None)
    ledger.attach(selecting(1, 1), 1)
    for _ in range(2):
        assert ledger.deliver(0) == []
        assert ledger.scan_pending()

    assert delivered(ledger.deliver(0)) == {1: [2 * SCANS_PER_TURN + 1]}

    ledger.append(prioritized(2, 1), None)
    assert delivered(ledger.deliver(0)) == {1: [2 * SCANS_PER_TURN + 3]}
    assert ledger.scan_budget >= SCANS_PER_TURN - 2
    assert not ledger.scan_pending()


LONG = " OR ".join(["JMSPriority = 1"] * 160)  # 640 words, which weigh as much as eleven simple selectors
PATTERN = "JMSMessageID LIKE '%{}%'".format("a" * 90)  # as three and one


@pytest.mark.parametrize(
    ("selector", "message_id", "weight"),
    [
        ("JMSPriority = 1", None, 1),
        (LONG, None, 11),
        (PATTERN, None, 13),
        ("JMSPriority = 1", "m" * 4096, 5),
        (LONG, "m" * 4096, 55),
    ],
)
@pytest.mark.parametrize("buckets", [0, 64])
def test_expensive_selectors_scan_fewer_messages_in_a_turn(
    selector: str, message_id: str | None, weight: int, buckets: int
) -> None:
    """One of 2000 words and a message of 60 KB of texts were half a second, and 5000 of them a turn."""
    ledger = Ledger(durable=False, rules=DeliveryRules(group_buckets=buckets))
    headers: list[Headers | None] = [Headers(priority=2, message_id=message_id)] * SCANS_PER_TURN
    ledger.append(batch_of([b"m"] * SCANS_PER_TURN, headers=headers), None)
    flow = flow_of(1)
    flow.selector = SELECTORS.compile(selector)
    ledger.attach(flow, 1)

    turns = 1
    while not ledger.deliver(0) and ledger.scan_pending():
        turns += 1

    assert weight <= turns <= weight + weight // 10 + 1


def test_a_flow_without_room_waits_for_credit_and_one_with_nothing_to_its_taste_does_not() -> None:
    ledger = Ledger(durable=False, rules=DeliveryRules())
    ledger.append(prioritized(1, 1, 2), None)
    full, idle = selecting(1, 1, limit=1), selecting(2, 7)
    ledger.attach(full, 1)
    ledger.attach(idle, 2)

    assert delivered(ledger.deliver(0)) == {1: [1]}

    assert ledger.effects.starved_flows == [full]


def test_a_failed_message_holds_up_what_has_its_key_for_selecting_flows_too() -> None:
    rules = DeliveryRules(redelivery_delay_ms=10, redelivery_delay_ms_max=10, order=ORDER_BY_KEY)
    ledger = Ledger(durable=False, rules=rules)
    ledger.append(batch_of([b"m"] * 4, headers=[Headers(priority=1, key_hash=key) for key in (5, 6, 5, 6)]), None)
    ledger.attach(selecting(1, 1, limit=1), 1)
    assert delivered(ledger.deliver(1)) == {1: [1]}

    ledger.settle(1, 1, 2, FAILED)
    ledger.flows[1].flow.window.give(1)
    assert delivered(ledger.deliver(1)) == {1: [2]}
    ledger.settle(1, 2, 3, ACCEPTED)
    ledger.flows[1].flow.window.give(1)
    assert delivered(ledger.deliver(2)) == {1: [4]}
    ledger.settle(1, 4, 5, ACCEPTED)
    ledger.flows[1].flow.window.give(1)
    assert delivered(ledger.deliver(11)) == {1: [1]}
    ledger.check()


def test_a_declined_message_on_a_page_dies_once_no_flow_selects_it() -> None:
    """Until the page is read the second flow might have it; found by the machine below."""
    ledger = Ledger(durable=True, rules=DeliveryRules())
    publication = published(prioritized(1, 1, 2, 1))
    publication.sequenced(7, ledger.append(publication.batch, publication), None)
    written(publication, 1)
    ledger.attach(flow_of(1, limit=3), 1)
    ledger.attach(selecting(2, 1, limit=1), 2)
    assert delivered(ledger.deliver(0)) == {1: [1, 2, 3], 2: [4]}
    (plan,) = plan_pages(ledger, page_bytes=1 << 16, bytes_to_free=1 << 30, through_record=None)
    pages_written(ledger, plan)
    ledger.settle(1, 3, 4, RELEASED_ELSEWHERE)
    assert ledger.waiting_count == 4

    ledger.settle(2, 4, 5, ACCEPTED)
    ledger.flows[2].flow.window.give(1)
    assert ledger.deliver(0) == []
    assert ledger.effects.wanted_pages == [1]
    page_loaded(ledger, 1, plan.runs)

    assert ledger.effects.discards == {DISCARD_UNDELIVERABLE: 1}
    assert ledger.waiting_count == 2
    ledger.check()


PRIORITIES = st.lists(st.integers(1, 3), min_size=1, max_size=8)
OUTCOMES = st.sampled_from([ACCEPTED, ACCEPTED, RELEASED, FAILED, RELEASED_ELSEWHERE, FAILED_ELSEWHERE])


class SelectingMachine(RuleBasedStateMachine):
    """Goal: a ready message that a flow with room selects is delivered, once, and none that it does not select or has
    declined; what nobody who is there may have any more is dropped.

    Method: a plain account of who has what, beside a ledger whose messages go to pages and back.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger(durable=True, rules=DeliveryRules())
        self.priorities: dict[int, int] = {}  # of the unsettled ones
        self.held: dict[int, set[int]] = {}  # flow -> sequences
        self.wanted: dict[int, int | None] = {}  # flow -> priority; None: all
        self.rooms: dict[int, int] = {}
        self.given_back: set[int] = set()
        self.declined: dict[int, set[int]] = {}  # flow -> sequences
        self.dropped_count = 0
        self.pages: dict[int, list[tuple[int, MessageBatch]]] = {}
        self.record_number = 0
        self.bound_count = 0

    @initialize(priorities=PRIORITIES, rooms=st.lists(st.integers(1, 6), min_size=1, max_size=2))
    def begin(self, priorities: list[int], rooms: list[int]) -> None:
        """Begin with messages that consumers have: of the rules, Hypothesis leaves some out of each run."""
        for wanted, room in enumerate(rooms):
            self.bind(priority=wanted or None, room=room)
        self.append(priorities=priorities)
        self.deliver()

    @rule(priorities=PRIORITIES)
    def append(self, priorities: list[int]) -> None:
        publication = published(prioritized(*priorities))
        first = self.ledger.append(publication.batch, publication)
        publication.sequenced(7, first, None)
        self.record_number += 1
        written(publication, self.record_number)
        self.priorities |= {first + row: priority for row, priority in enumerate(priorities)}

    @precondition(lambda self: len(self.wanted) < 4)
    @rule(priority=st.sampled_from([None, 1, 1, 2, 2, 3]), room=st.integers(1, 6))
    def bind(self, priority: int | None, room: int) -> None:
        self.bound_count += 1
        flow_id = self.bound_count
        self.ledger.attach(selecting(flow_id, priority, limit=room), flow_id)
        self.wanted[flow_id], self.rooms[flow_id] = priority, room
        self.held[flow_id], self.declined[flow_id] = set(), set()

    @precondition(lambda self: self.wanted)
    @rule(data=st.data())
    def unbind(self, data: st.DataObject) -> None:
        flow_id = data.draw(st.sampled_from(sorted(self.wanted)))
        in_memory = self.in_memory()
        self.ledger.detach(flow_id, count_as_failed=False)
        self.given_back |= self.held.pop(flow_id)
        del self.wanted[flow_id], self.declined[flow_id]
        self.drop_undeliverable(in_memory)

    @rule(data=st.data(), outcomes=st.lists(OUTCOMES, max_size=4))
    def deliver_and_settle(self, data: st.DataObject, outcomes: list[int]) -> None:
        self.deliver()
        for outcome in outcomes:
            if any(self.held.values()):
                self.settle(data, outcome)

    def settle(self, data: st.DataObject, outcome: int) -> None:
        flow_id = data.draw(st.sampled_from(sorted(each for each, held in self.held.items() if held)))
        sequence = data.draw(st.sampled_from(sorted(self.held[flow_id])))
        in_memory = self.in_memory()
        assert self.ledger.settle(flow_id, sequence, sequence + 1, outcome) == 1
        self.ledger.flows[flow_id].flow.window.give(1)
        self.held[flow_id].discard(sequence)
        if outcome == ACCEPTED:
            del self.priorities[sequence]
        else:
            self.given_back.add(sequence)
        if outcome in (RELEASED_ELSEWHERE, FAILED_ELSEWHERE):
            self.declined[flow_id].add(sequence)
            self.drop_undeliverable(in_memory)

    def in_memory(self) -> set[int]:
        """Return the messages whose priority the ledger can look at."""
        segments = [each for each in self.ledger.segments.all() if each.batch is not None]
        return {sequence for each in segments for sequence in range(each.first, each.end)}

    def drop_undeliverable(self, in_memory: set[int]) -> None:
        in_somebodys_hand = set().union(*self.held.values())
        for sequence in set().union(*self.declined.values()) & self.priorities.keys() - in_somebodys_hand:
            if not any(
                sequence not in self.declined[flow_id]
                and (sequence not in in_memory or priority in (None, self.priorities[sequence]))
                for flow_id, priority in self.wanted.items()
            ):
                del self.priorities[sequence]
                self.dropped_count += 1

    @rule(page_bytes=st.sampled_from([1, 4]))
    def page_out(self, page_bytes: int) -> None:
        for plan in plan_pages(self.ledger, page_bytes=page_bytes, bytes_to_free=1 << 30, through_record=None):
            self.pages[plan.first] = plan.runs
            pages_written(self.ledger, plan)

    def deliver(self) -> None:
        while True:
            deliveries = self.ledger.deliver(0)
            for each in deliveries:
                self._take(each)
            wanted_pages, self.ledger.effects.wanted_pages = self.ledger.effects.wanted_pages, []
            for first in wanted_pages:
                page_loaded(self.ledger, first, self.pages[first])
                read = [range(start, start + batch.count) for start, batch in self.pages[first]]
                self.drop_undeliverable(self.in_memory().union(*read))
            if not deliveries and not wanted_pages:
                break
        in_somebodys_hand = set().union(*self.held.values())
        for flow_id, priority in self.wanted.items():
            if len(self.held[flow_id]) < self.rooms[flow_id]:
                left = [each for each, its in self.priorities.items() if priority in (None, its)]
                left = [each for each in left if each not in self.declined[flow_id]]
                assert set(left) <= in_somebodys_hand, f"flow {flow_id} has room for {left}"

    def _take(self, delivery: Delivery) -> None:
        flow_id = delivery.flow.flow_id
        for sequence in sequences_of(delivery):
            assert self.wanted[flow_id] in (None, self.priorities[sequence])
            assert sequence not in self.declined[flow_id]
            assert all(sequence not in held for held in self.held.values())
            assert delivery.redelivered == (sequence in self.given_back)
            self.held[flow_id].add(sequence)
        assert len(self.held[flow_id]) <= self.rooms[flow_id]

    @invariant()
    def the_ledger_is_whole(self) -> None:
        self.ledger.check()
        assert self.ledger.waiting_count == len(self.priorities)
        assert self.ledger.effects.discards.get(DISCARD_UNDELIVERABLE, 0) == self.dropped_count


SelectingMachine.TestCase.settings = settings(max_examples=examples(50), stateful_step_count=30, deadline=None)
TestSelectingFlows = SelectingMachine.TestCase
