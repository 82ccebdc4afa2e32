"""Message groups: a key stays with one consumer of a queue without partitions (ActiveMQ 17; the cases G-01 to G-10)."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import Headers, UserPropertyValue
from sluicegate.messaging.message.outcomes import ACCEPTED, FAILED, RELEASED, WHICHEVER
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.paging import page_loaded, pages_written, plan_pages
from sluicegate.messaging.partitions.prepared import prepare, release_prepared, settle_prepared
from sluicegate.messaging.partitions.rules.groups import GAPS_MAX, SEQUENCE_NAME, closes_group
from sluicegate.messaging.partitions.state.effects import Delivery
from sluicegate.messaging.partitions.state.flows import ORDER_BY_KEY, DeliveryRules
from sluicegate.messaging.selectors.selector import Selectors
from support.cores.messages import batch_of, flow_of, published, sequences_of, written
from support.thorough import examples

BUCKETS = 64


def of_groups(*keys: int | None, closing: tuple[int, ...] = ()) -> MessageBatch:
    """Return a message for each of these groups (None: of none); those at the places `closing` close theirs."""
    headers = [
        None
        if key is None
        else Headers(key_hash=key, user_properties=[(SEQUENCE_NAME, -1)] if place in closing else None)
        for place, key in enumerate(keys)
    ]
    return batch_of([b"m"] * len(keys), headers=headers)


def ledger_with(
    *keys: int | None, buckets: int = BUCKETS, rebalance: bool = False, closing: tuple[int, ...] = ()
) -> Ledger:
    ledger = Ledger(durable=False, rules=DeliveryRules(group_buckets=buckets, group_rebalance=rebalance))
    if keys:
        ledger.append(of_groups(*keys, closing=closing), None)
    return ledger


def arrange(ledger: Ledger, batch: MessageBatch) -> list[int]:
    """Return the order in which a partition appends the rows of a batch."""
    order = None if ledger.groups is None else ledger.groups.arrange(ledger, batch)
    return list(range(batch.count)) if order is None else order


def bind(ledger: Ledger, *flow_ids: int, limit: int = 1000) -> None:
    for flow_id in flow_ids:
        ledger.attach(flow_of(flow_id, limit=limit), flow_id)


def accept(ledger: Ledger, flow_id: int, *sequences: int, outcome: int = ACCEPTED) -> None:
    for sequence in sequences:
        assert ledger.settle(flow_id, sequence, sequence + 1, outcome) == 1
        ledger.flows[flow_id].flow.window.give(1)


def delivered(ledger: Ledger, wall_ms: int = 0) -> dict[int, list[int]]:
    """Deliver; return the sequences by flow."""
    found: dict[int, list[int]] = {}
    for each in ledger.deliver(wall_ms):
        found.setdefault(each.flow.flow_id, []).extend(sequences_of(each))
    ledger.check()
    if ledger.groups is not None:
        ledger.groups.check(ledger)
    return found


def test_each_group_is_seen_by_one_consumer_in_order_and_shares_are_even() -> None:
    """G-01: 21 groups of 50, three consumers."""
    groups = list(range(21)) * 50
    ledger = ledger_with(*groups)
    bind(ledger, 1, 2, 3)

    found = delivered(ledger)

    owners = {sequence: flow_id for flow_id, its in found.items() for sequence in its}
    assert len(owners) == 21 * 50
    for group in range(21):
        assert len({owners[place + 1] for place, each in enumerate(groups) if each == group}) == 1
    assert [its == sorted(its) for its in found.values()] == [True] * 3
    assert sorted(map(len, found.values())) == [350, 350, 350]


def test_when_the_owner_leaves_its_groups_go_on_with_others_in_order() -> None:
    """G-02: what was not settled comes first, and the first message with the flag."""
    ledger = ledger_with(7, 7, 7, 7)
    bind(ledger, 1, limit=2)
    assert delivered(ledger) == {1: [1, 2]}
    bind(ledger, 2)
    assert delivered(ledger) == {}
    accept(ledger, 1, 1)
    ledger.detach(1, count_as_failed=True)

    first, second = ledger.deliver(0)

    assert (list(sequences_of(first)), first.redelivered, first.first_of_group) == ([2], True, True)
    assert (list(sequences_of(second)), second.redelivered, second.first_of_group) == ([3, 4], False, False)


def test_a_group_that_changes_hands_waits_for_what_a_commit_may_give_back() -> None:
    """Who settles in a transaction has its messages again if the commit is not made: before newer ones of the key."""
    ledger = ledger_with(7, 8, 7, 8, rebalance=True)
    bind(ledger, 1, limit=2)
    assert delivered(ledger) == {1: [1, 2]}
    before = prepare(ledger, 1, 1, [(1, 3)], WHICHEVER)
    assert before is not None
    bind(ledger, 2)  # has one of the groups from now on
    assert delivered(ledger) == {}
    release_prepared(ledger, before, 0)
    assert delivered(ledger) == {}

    meanwhile = prepare(ledger, 1, 1, [(2, 3)], WHICHEVER)
    assert meanwhile is not None
    assert delivered(ledger) == {}
    settle_prepared(ledger, meanwhile)
    assert delivered(ledger) == {2: [4]}


def test_groups_that_take_turns_are_claimed_in_neighbourhoods() -> None:
    """What a consumer gets of a backlog is segments and not single messages; G-01 holds: shares are even."""
    ledger = ledger_with(*list(range(21)) * 50)
    bind(ledger, 1, 2, 3)

    deliveries = ledger.deliver(0)

    assert len(deliveries) <= 21 + 3 * 50  # the first of each group is told apart
    assert [
        sum(each.stop_row - each.start_row for each in deliveries if each.flow.flow_id == flow_id)
        for flow_id in (1, 2, 3)
    ] == [350] * 3


def test_a_consumer_claims_no_group_whose_message_it_has_no_room_for() -> None:
    """What it cannot have now is for who can."""
    ledger = ledger_with(*range(6))
    bind(ledger, 1, limit=2)
    bind(ledger, 2)

    found = delivered(ledger)

    assert (len(found[1]), len(found[2])) == (2, 4)


def test_who_comes_late_gets_the_next_new_group_and_none_of_the_old() -> None:
    """G-03, without rebalancing."""
    ledger = ledger_with(1, 2, 3)
    bind(ledger, 1)
    assert delivered(ledger) == {1: [1, 2, 3]}
    bind(ledger, 2)
    ledger.append(of_groups(1, 2, 3, 4), None)
    assert delivered(ledger) == {1: [4, 5, 6], 2: [7]}


def test_a_negative_sequence_closes_its_group_once_the_owner_has_settled_it() -> None:
    """G-04; that it is settled first is ours: a bucket may hold other groups, and their order is not given up."""
    ledger = ledger_with(1, 2, 1, 1, closing=(2,))
    bind(ledger, 1)
    assert delivered(ledger) == {1: [1, 2, 3]}
    bind(ledger, 2)
    assert delivered(ledger) == {}, "its owner has not settled what came before"
    accept(ledger, 1, 1)
    assert delivered(ledger) == {}
    accept(ledger, 1, 3)

    (delivery,) = ledger.deliver(0)

    assert (delivery.flow.flow_id, delivery.first_sequence, delivery.first_of_group) == (2, 4, True)


def test_a_slow_consumer_does_not_hold_up_the_groups_of_others() -> None:
    """G-05: prefetch 1, two consumers, three groups of which the first one's consumer is slow."""
    ledger = ledger_with(1, 2, 1, 1, 2, 3, 2, 3)
    bind(ledger, 1, 2, limit=1)
    assert delivered(ledger) == {1: [1], 2: [2]}
    got: list[int] = [2]
    while got:
        accept(ledger, 2, *got)
        got = delivered(ledger).get(2, [])
        assert got in ([5], [6], [7], [8], [])
    assert ledger.requeued.ranges() == [(3, 5)], "what waits is of the slow one's group"
    assert [flow.flow_id for flow in ledger.effects.starved_flows[-1:]] == [1]
    accept(ledger, 1, 1)
    assert delivered(ledger) == {1: [3]}


def test_a_newcomer_gets_its_share_and_no_two_hold_a_group_at_once() -> None:
    """G-06: each group that moves is settled first; those that stay go on meanwhile."""
    ledger = ledger_with(*range(4), rebalance=True)
    bind(ledger, 1)
    assert delivered(ledger) == {1: [1, 2, 3, 4]}
    bind(ledger, 2)
    ledger.append(of_groups(*range(4)), None)
    assert delivered(ledger) == {1: [5, 6]}
    accept(ledger, 1, 3)
    (delivery,) = ledger.deliver(0)
    assert (delivery.flow.flow_id, delivery.first_sequence, delivery.first_of_group) == (2, 7, True)
    accept(ledger, 1, 4)
    assert delivered(ledger) == {2: [8]}
    bind(ledger, 3)  # four groups, three consumers: one each is its share, and one moves
    for flow_id, held in ((1, [1, 2, 5, 6]), (2, [7, 8])):
        accept(ledger, flow_id, *held)
    ledger.append(of_groups(*range(4)), None)
    assert sorted(map(len, delivered(ledger).values())) == [1, 1, 2]


def test_with_one_bucket_one_consumer_has_all_groups_and_anybody_the_rest() -> None:
    """G-07."""
    ledger = ledger_with(1, 2, 3, buckets=1)
    bind(ledger, 1, 2)
    assert delivered(ledger) == {1: [1, 2, 3]}
    ledger.append(of_groups(None, 4), None)
    assert delivered(ledger) == {1: [5], 2: [4]}


def test_without_buckets_consumers_compete_for_every_message() -> None:
    """G-08."""
    ledger = ledger_with(1, 1, 1, 1, buckets=0)
    bind(ledger, 1, 2)
    assert delivered(ledger) == {1: [1, 2], 2: [3, 4]}


@pytest.mark.parametrize("outcome", [RELEASED, FAILED])
def test_messages_returned_by_the_owner_of_their_group_come_to_it_again(outcome: int) -> None:
    """G-09, and before what is newer in its group."""
    ledger = ledger_with(1, 1, 1)
    bind(ledger, 1, limit=2)
    bind(ledger, 2)
    assert delivered(ledger) == {1: [1, 2]}
    accept(ledger, 1, 1, outcome=outcome)
    accept(ledger, 1, 2)
    assert delivered(ledger) == {1: [1, 3]}


def test_messages_without_a_group_go_to_any_flow_with_room() -> None:
    """G-10, and the queue is as without groups while none has one."""
    ledger = ledger_with(None, None, None, None)
    bind(ledger, 1, 2)
    assert delivered(ledger) == {1: [1, 2], 2: [3, 4]}
    assert ledger.groups is None


def test_a_group_whose_message_waits_for_its_redelivery_waits_with_it() -> None:
    """Order within a group over a failure, as in a partition."""
    rules = DeliveryRules(group_buckets=BUCKETS, redelivery_delay_ms=10, redelivery_delay_ms_max=10, order=ORDER_BY_KEY)
    ledger = Ledger(durable=False, rules=rules)
    ledger.append(of_groups(1, 1, 2), None)
    bind(ledger, 1, limit=1)
    assert delivered(ledger, 1) == {1: [1]}
    accept(ledger, 1, 1, outcome=FAILED)
    assert delivered(ledger, 2) == {1: [3]}
    accept(ledger, 1, 3)
    assert delivered(ledger, 3) == {}
    assert delivered(ledger, 12) == {1: [1]}


def test_without_groups_a_failed_message_blocks_no_other() -> None:
    """Though it lies in a page, where its key would not be known."""
    rules = DeliveryRules(group_buckets=BUCKETS, redelivery_delay_ms=10, redelivery_delay_ms_max=10, order=ORDER_BY_KEY)
    ledger = Ledger(durable=True, rules=rules)
    publication = written(published(of_groups(None, None)))
    first = ledger.append(publication.batch, publication)
    publication.sequenced(7, first, None)
    bind(ledger, 1, limit=1)
    assert delivered(ledger, 1) == {1: [1]}
    pages = {}
    for plan in plan_pages(ledger, page_bytes=1, bytes_to_free=1 << 30, through_record=None):
        pages[plan.first] = plan.runs
        pages_written(ledger, plan)

    accept(ledger, 1, 1, outcome=FAILED)

    assert ledger.deliver(2) == []  # its page is on the way
    for page_first in ledger.effects.wanted_pages:
        page_loaded(ledger, page_first, pages[page_first])
    assert delivered(ledger, 2) == {1: [2]}


def test_a_consumer_that_selects_claims_only_what_it_selects() -> None:
    ledger = Ledger(durable=False, rules=DeliveryRules(group_buckets=BUCKETS))
    headers = [Headers(key_hash=key, priority=priority) for key, priority in ((1, 4), (2, 9), (1, 9), (2, 4))]
    ledger.append(batch_of([b"m"] * 4, headers=list(headers)), None)
    flow = flow_of(1)
    flow.selector = Selectors({}).compile("JMSPriority = 9")
    ledger.attach(flow, 1)
    assert delivered(ledger) == {1: [2, 3]}
    bind(ledger, 2)
    assert delivered(ledger) == {}, "the groups are the first one's, which does not want these messages"
    ledger.detach(1, count_as_failed=False)
    assert delivered(ledger) == {2: [1, 2, 3, 4]}


def test_gaps_that_an_idle_owner_leaves_are_bounded() -> None:
    """Limits on everything: above the bound others wait, and go on when the owner does."""
    ledger = ledger_with(*[1, 2] * (GAPS_MAX + 100))
    bind(ledger, 1, limit=1)
    bind(ledger, 2, limit=1_000_000)
    for _ in range(50):
        delivered_count = sum(map(len, (delivered(ledger) if _ == 0 else by_flow(ledger)).values()))
        if not delivered_count and not ledger.scan_pending():
            break
    assert GAPS_MAX <= ledger.requeued.ranges_count() <= GAPS_MAX + 2
    accept(ledger, 1, 1)
    assert by_flow(ledger)[1] == [3]


def by_flow(ledger: Ledger) -> dict[int, list[int]]:
    """As `delivered`, without the checks, which take long here."""
    found: dict[int, list[int]] = {}
    for each in ledger.deliver(0):
        found.setdefault(each.flow.flow_id, []).extend(sequences_of(each))
    return found


@pytest.mark.parametrize(
    ("value", "closes"),
    [
        *((-1, True), (-7, True), (0, False), (1, False), (0x7FFF_FFFF, False), (0xFFFF_FFFF, True)),
        *(("-1", True), ("4294967295", True), ("5", False), ("-", False), ("x", False), ("-99999999999", False)),
        *((True, False), (1.5, False)),
    ],
)
def test_a_group_is_closed_by_any_negative_sequence_in_any_form(value: UserPropertyValue, closes: bool) -> None:
    """JMS has an int, AMQP an unsigned one, MQTT a text."""
    headers = Headers(user_properties=[("other", -1), (SEQUENCE_NAME, value), (SEQUENCE_NAME, -1)])
    assert closes_group(headers) is closes
    assert not closes_group(Headers())
    assert not closes_group(None)


def test_a_batch_gives_one_segment_for_each_owner_in_publish_order() -> None:
    """Keys that take turns cost no more deliveries than consumers that compete."""
    ledger = ledger_with(*range(6))
    bind(ledger, 1, 2, 3)
    owned = {flow_id: [each - 1 for each in its] for flow_id, its in delivered(ledger).items()}
    assert sorted(map(len, owned.values())) == [2, 2, 2]
    keys = [*range(6), None, 9, *range(6), 9]

    order = arrange(ledger, of_groups(*keys))

    of_owners = [[row for row, key in enumerate(keys) if key in its] for its in owned.values()]
    assert sorted(order[each * 4 : each * 4 + 4] for each in range(3)) == sorted(of_owners)
    assert order[12:] == [6, 7, 14], "what nobody owns comes last"
    ledger.append(of_groups(*keys).select(order), None)
    deliveries = ledger.deliver(0)
    assert [each.stop_row - each.start_row for each in deliveries][:3] == [4, 4, 4]
    for each in deliveries[:3]:
        got = [key for row in range(each.start_row, each.stop_row) if (key := keys[order[row]]) is not None]
        assert set(got) == set(owned[each.flow.flow_id])


def test_a_batch_in_which_a_group_closes_and_one_for_a_single_consumer_stay_as_published() -> None:
    ledger = ledger_with(1, 2)
    bind(ledger, 1, 2)
    assert delivered(ledger) == {1: [1], 2: [2]}
    assert arrange(ledger, of_groups(2, 1, 2, 1)) != [0, 1, 2, 3]
    assert arrange(ledger, of_groups(2, 1, 2, 1, closing=(2,))) == [0, 1, 2, 3]
    ledger.detach(2, count_as_failed=False)
    assert arrange(ledger, of_groups(2, 1, 2, 1)) == [0, 1, 2, 3]


def test_stretches_of_a_group_that_changes_hands_are_looked_at_message_by_message() -> None:
    ledger = ledger_with(1, 2)
    bind(ledger, 1, 2, limit=1)
    assert delivered(ledger) == {1: [1], 2: [2]}
    batch = of_groups(1, 2, 1, 2, 1)
    order = arrange(ledger, batch)
    assert order == [0, 2, 4, 1, 3]
    ledger.append(batch.select(order), None)
    assert delivered(ledger) == {}
    ledger.flows[2].flow.window.limit = 100
    assert delivered(ledger) == {2: [6, 7]}
    ledger.detach(1, count_as_failed=False)
    assert delivered(ledger) == {2: [1, 3, 4, 5]}


KEYS = st.lists(st.sampled_from([None, 0, 1, 2, 3, 4, 5]), min_size=1, max_size=8)
OUTCOMES = st.sampled_from([ACCEPTED, ACCEPTED, ACCEPTED, RELEASED, FAILED])


class GroupMachine(RuleBasedStateMachine):
    """Goal: one consumer at a time holds messages of a group, in order, and nobody with room waits for nothing.

    Method: a plain account of who holds what, beside a ledger with few buckets whose messages go to pages and back.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger(durable=True, rules=DeliveryRules(group_buckets=3, group_rebalance=True))
        self.buckets: dict[int, int] = {}  # of the unsettled ones; -1: none
        self.held: dict[int, set[int]] = {}  # flow -> sequences
        self.rooms: dict[int, int] = {}
        self.last_owner: dict[int, int] = {}  # bucket -> flow that had its last message
        self.pages: dict[int, list[tuple[int, MessageBatch]]] = {}
        self.record_number = 0
        self.bound_count = 0

    @initialize(keys=KEYS, rooms=st.lists(st.integers(1, 6), min_size=1, max_size=3), data=st.data())
    def begin(self, keys: list[int | None], rooms: list[int], data: st.DataObject) -> None:
        """Begin with messages that consumers have: of the rules, Hypothesis leaves some out of each run."""
        for room in rooms:
            self.bind(room=room)
        self.append(keys=keys, data=data)
        self.deliver()

    @rule(keys=KEYS, data=st.data())
    def append(self, keys: list[int | None], data: st.DataObject) -> None:
        closing = data.draw(st.sets(st.integers(0, len(keys) - 1), max_size=1))
        publication = published(of_groups(*keys, closing=tuple(closing)))
        order = arrange(self.ledger, publication.batch)
        assert sorted(order) == list(range(len(keys)))
        for bucket in range(3):
            its = [row for row in order if (key := keys[row]) is not None and key % 3 == bucket]
            assert its == sorted(its), "a group keeps the order published"
        first = self.ledger.append(publication.batch.select(order), publication)
        publication.sequenced(7, first, order)
        self.record_number += 1
        written(publication, self.record_number)
        of_rows = [-1 if key is None else key % 3 for key in keys]
        self.buckets |= {first + place: of_rows[row] for place, row in enumerate(order)}

    @precondition(lambda self: len(self.held) < 4)
    @rule(room=st.integers(1, 6))
    def bind(self, room: int) -> None:
        self.bound_count += 1
        self.ledger.attach(flow_of(self.bound_count, limit=room), self.bound_count)
        self.rooms[self.bound_count], self.held[self.bound_count] = room, set()

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def unbind(self, data: st.DataObject) -> None:
        flow_id = data.draw(st.sampled_from(sorted(self.held)))
        self.ledger.detach(flow_id, count_as_failed=False)
        del self.held[flow_id]

    @rule(data=st.data(), outcomes=st.lists(OUTCOMES, max_size=4))
    def deliver_and_settle(self, data: st.DataObject, outcomes: list[int]) -> None:
        self.deliver()
        for outcome in outcomes:
            if any(self.held.values()):
                self.settle(data, outcome)

    def settle(self, data: st.DataObject, outcome: int) -> None:
        flow_id = data.draw(st.sampled_from(sorted(each for each, held in self.held.items() if held)))
        sequence = data.draw(st.sampled_from(sorted(self.held[flow_id])))
        assert self.ledger.settle(flow_id, sequence, sequence + 1, outcome) == 1
        self.ledger.flows[flow_id].flow.window.give(1)
        self.held[flow_id].discard(sequence)
        if outcome == ACCEPTED:
            del self.buckets[sequence]

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
            if not deliveries and not wanted_pages:
                break
        with_room = [flow_id for flow_id, held in self.held.items() if len(held) < self.rooms[flow_id]]
        ready = [each for each in self.buckets if not any(each in held for held in self.held.values())]
        groups = self.ledger.groups
        if with_room:
            assert not [each for each in ready if self.buckets[each] < 0], "anybody may have them"
        for sequence in ready:
            if with_room and groups is not None:
                may_have = [each for each in self.rooms if groups.is_open_to(self.buckets[sequence], each)]
                assert not set(may_have).intersection(with_room), f"{may_have} have room for {sequence}"
                assert may_have or self._somebody_holds(self.buckets[sequence]), "nobody has the group"

    def _somebody_holds(self, bucket: int) -> bool:
        """Return whether some flow holds a message of a bucket, or one whose key lies in a page with it."""
        return any(self.buckets[each] == bucket or self._is_paged(each) for held in self.held.values() for each in held)

    def _is_paged(self, sequence: int) -> bool:
        segment = self.ledger.segments.at_or_after(sequence)
        return segment is not None and segment.page is not None

    def _take(self, delivery: Delivery) -> None:
        flow_id = delivery.flow.flow_id
        for place, sequence in enumerate(sequences_of(delivery)):
            bucket = self.buckets[sequence]
            assert all(sequence not in held for held in self.held.values())
            if bucket >= 0:
                for other, held in self.held.items():
                    same = {each for each in held if self.buckets[each] == bucket}
                    assert other == flow_id or not same, f"flows {other} and {flow_id} hold one group"
                earlier = {each for each, its in self.buckets.items() if its == bucket and each < sequence}
                assert earlier <= self.held[flow_id], "nothing of a group overtakes what is older"
                if not (delivery.first_of_group and place == 0):
                    assert self.last_owner.get(bucket) == flow_id, "a group that moves says so"
                self.last_owner[bucket] = flow_id
            self.held[flow_id].add(sequence)
        assert len(self.held[flow_id]) <= self.rooms[flow_id]

    @invariant()
    def the_ledger_is_whole(self) -> None:
        self.ledger.check()
        if self.ledger.groups is not None:
            self.ledger.groups.check(self.ledger)
        assert self.ledger.waiting_count == len(self.buckets)


GroupMachine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
TestGroups = GroupMachine.TestCase
