"""Partitions and flows: who owns what, and how it changes hands. The story is solace 13.6: delay 5 s, handoff 3 s."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sluicegate.messaging.queues.assignment.access import ExclusiveAccess, SharedAccess
from sluicegate.messaging.queues.assignment.rebalance import (
    ATTACH,
    DETACH,
    HOLDDOWN,
    HOLDDOWN_DELAYS_MAX,
    NO_FLOW,
    PAUSE,
    READY,
    REBALANCING,
    UNASSIGNED,
    UNBOUND,
    Move,
    Rebalancer,
)
from support.thorough import examples

DELAY_MS, HANDOFF_MS = 5000, 3000


class Partitions:
    """The partitions of a queue as far as moves concern them: they allow no move that makes no sense."""

    def __init__(self, count: int) -> None:
        self.attached: list[int] = [NO_FLOW] * count
        self.paused = [False] * count
        self.epochs = [0] * count
        self._epoch_before = 0  # of those that are no more

    def move(self, moves: list[Move]) -> None:
        for each in moves:
            partition = each.partition
            if each.kind == PAUSE:
                assert self.attached[partition] == each.flow_id
                assert not self.paused[partition]
                assert each.epoch == self.epochs[partition]
                self.paused[partition] = True
            elif each.kind == DETACH:
                assert self.attached[partition] == each.flow_id
                assert each.epoch == self.epochs[partition]
                self.attached[partition] = NO_FLOW
                self.paused[partition] = False
            elif self.attached[partition] == each.flow_id:
                assert self.paused[partition], "an owner that is attached again goes on after a pause"
                assert each.epoch == self.epochs[partition], "and settles what it holds under the epoch it has"
                self.paused[partition] = False
            else:
                assert each.kind == ATTACH
                assert self.attached[partition] == NO_FLOW, "at most one owner"
                assert each.epoch > self.epochs[partition], "the epoch rises with every owner"
                self.attached[partition] = each.flow_id
                self.epochs[partition] = each.epoch

    def go_on_to(self, count: int) -> None:
        added = count - len(self.attached)
        self.attached += [NO_FLOW] * added
        self.paused += [False] * added
        self.epochs += [self._epoch_before] * added

    def end_at(self, count: int) -> None:
        assert self.attached[count:] == [NO_FLOW] * len(self.attached[count:]), "nobody has a partition that goes"
        self._epoch_before = max(self._epoch_before, *self.epochs[count:], 0)
        del self.attached[count:], self.paused[count:], self.epochs[count:]


class QueueStory:
    """A partitioned queue, its consumers by name, and time."""

    def __init__(self, partitions_count: int = 4) -> None:
        self.rebalancer = Rebalancer(partitions_count, delay_ms=DELAY_MS, handoff_ms=HANDOFF_MS)
        self.partitions = Partitions(partitions_count)
        self.now_ms = 1000
        self.flows: dict[str, int] = {}
        self._next_flow_id = 1

    def binds(self, *clients: str) -> None:
        for client in clients:
            self.flows[client] = self._next_flow_id
            self._next_flow_id += 1
            self._take(self.rebalancer.bind(self.flows[client], client, self.now_ms))

    def acknowledges(self, client: str) -> None:
        """From now on the client lets go of partitions by its word only."""
        self.rebalancer.acknowledging.add(self.flows[client])

    def lets_go(self, client: str, partition: int) -> None:
        epoch = self.partitions.epochs[partition]
        self._take(self.rebalancer.acknowledge(self.flows[client], partition, epoch))

    def leaves(self, client: str) -> None:
        self._take(self.rebalancer.unbind(self.flows.pop(client), self.now_ms))

    def resizes(self, count: int) -> None:
        """Change the number of partitions; those that go have been drained."""
        self.partitions.go_on_to(count)
        self._take(self.rebalancer.resize(count, self.now_ms))
        self.partitions.end_at(count)

    def passes(self, ms: int) -> None:
        """Let time pass; ticks come when they were asked for."""
        end_ms = self.now_ms + ms
        while 0 < self.rebalancer.deadline_ms() <= end_ms:
            self.now_ms = max(self.now_ms, self.rebalancer.deadline_ms())
            self._take(self.rebalancer.tick(self.now_ms))
        self.now_ms = end_ms

    def drains(self, partition: int) -> None:
        """Let the owner of a paused partition settle what it holds."""
        self._take(self.rebalancer.drained(partition, self.partitions.epochs[partition]))

    def drains_all(self) -> None:
        for partition, paused in enumerate(self.partitions.paused):
            if paused:
                self.drains(partition)

    def owned(self) -> dict[str, list[int]]:
        return {client: self.rebalancer.partitions_of(flow_id) for client, flow_id in self.flows.items()}

    def paused(self) -> list[int]:
        return [partition for partition, paused in enumerate(self.partitions.paused) if paused]

    def _take(self, moves: list[Move]) -> None:
        self.partitions.move(moves)
        self.rebalancer.check()


@pytest.fixture
def queue() -> QueueStory:
    """Return an idle queue with four partitions."""
    return QueueStory()


@pytest.fixture
def shared_by_four(queue: QueueStory) -> QueueStory:
    """Return the queue with a partition for each of c1 to c4, and c5 standing by."""
    queue.binds("c1", "c2", "c3", "c4", "c5")
    queue.passes(DELAY_MS)
    queue.drains_all()
    return queue


def test_the_first_consumer_of_an_idle_queue_gets_everything_at_once(queue: QueueStory) -> None:
    queue.binds("c1")

    assert queue.owned() == {"c1": [0, 1, 2, 3]}
    assert queue.rebalancer.status == READY


def test_a_second_consumer_gets_half_after_the_delay_and_the_handoff(queue: QueueStory) -> None:
    queue.binds("c1", "c2")
    assert queue.rebalancer.status == HOLDDOWN
    queue.passes(DELAY_MS - 1)
    assert queue.owned() == {"c1": [0, 1, 2, 3], "c2": []}

    queue.passes(1)
    assert queue.rebalancer.status == REBALANCING
    assert queue.paused() == [2, 3]
    queue.drains(2)
    assert queue.owned() == {"c1": [0, 1, 3], "c2": [2]}
    queue.passes(HANDOFF_MS)

    assert queue.owned() == {"c1": [0, 1], "c2": [2, 3]}
    assert queue.rebalancer.status == READY
    assert (queue.rebalancer.started_count, queue.rebalancer.completed_count) == (2, 2)


def test_consumers_that_come_within_one_delay_cost_one_rebalance(queue: QueueStory) -> None:
    """Solace 5.3: for autoscaling the delay covers the gap between the first and the last one."""
    queue.binds("c1")
    for client in ("c2", "c3", "c4"):
        queue.passes(1000)
        queue.binds(client)
    queue.passes(DELAY_MS - 2000)
    queue.drains_all()

    assert sorted(len(partitions) for partitions in queue.owned().values()) == [1, 1, 1, 1]
    assert queue.rebalancer.completed_count == 2


def test_the_fifth_consumer_of_four_partitions_stands_by(shared_by_four: QueueStory) -> None:
    owned = shared_by_four.owned()

    assert [len(owned[client]) for client in ("c1", "c2", "c3", "c4", "c5")] == [1, 1, 1, 1, 0]
    shared_by_four.binds("c6")
    assert shared_by_four.rebalancer.status == READY


def test_a_standby_consumer_takes_over_at_once(shared_by_four: QueueStory) -> None:
    lost = shared_by_four.owned()["c2"]

    shared_by_four.leaves("c2")

    assert shared_by_four.owned()["c5"] == lost
    assert shared_by_four.rebalancer.status == READY


def test_a_consumer_that_is_back_within_the_delay_gets_the_same_partition_and_nothing_else_moves(
    shared_by_four: QueueStory,
) -> None:
    shared_by_four.leaves("c5")
    before = shared_by_four.owned()
    rebalances = shared_by_four.rebalancer.started_count
    shared_by_four.leaves("c3")
    assert shared_by_four.rebalancer.partition_statuses(4)[before["c3"][0]][0] == UNBOUND
    shared_by_four.passes(DELAY_MS - 1)
    shared_by_four.binds("c3")
    shared_by_four.passes(DELAY_MS)

    assert shared_by_four.owned() == {**before, "c3": before["c3"]}
    assert shared_by_four.rebalancer.status == READY
    assert shared_by_four.rebalancer.started_count == rebalances


def test_partitions_that_are_added_go_to_those_who_have_least_after_the_delay(shared_by_four: QueueStory) -> None:
    """Solace 13.6, count 4 to 6: the partitions that are there stay where they are."""
    before = shared_by_four.owned()
    shared_by_four.resizes(6)
    assert shared_by_four.rebalancer.status == HOLDDOWN
    assert [status for status, _, _ in shared_by_four.rebalancer.partition_statuses(6)[4:]] == [UNASSIGNED, UNASSIGNED]

    shared_by_four.passes(DELAY_MS)

    owned = shared_by_four.owned()
    assert sorted(len(partitions) for partitions in owned.values()) == [1, 1, 1, 1, 2]
    assert all(set(before[client]) <= set(owned[client]) for client in before)
    assert shared_by_four.rebalancer.status == READY


def test_consumers_of_partitions_that_go_stand_by(queue: QueueStory) -> None:
    """Solace 13.6, count down to 2: surplus flows become inactive; the others keep what they have."""
    queue.binds("c1", "c2", "c3", "c4")
    queue.passes(DELAY_MS)
    queue.drains_all()
    queue.resizes(2)

    assert sorted(len(partitions) for partitions in queue.owned().values()) == [0, 0, 1, 1]
    assert queue.rebalancer.status == READY


def test_a_handoff_ends_with_its_partition(queue: QueueStory) -> None:
    queue.binds("c1", "c2")
    queue.passes(DELAY_MS)
    assert queue.paused() == [2, 3]
    queue.resizes(2)
    queue.passes(DELAY_MS)
    queue.drains_all()

    assert [len(partitions) for partitions in queue.owned().values()] == [1, 1]
    assert queue.rebalancer.status == READY


def test_a_partition_that_gets_the_number_of_one_before_it_goes_on_in_epochs(queue: QueueStory) -> None:
    """Its messages count from 1 again: for a consumer, number, epoch and message id stay those of one message."""
    queue.binds("c1")
    queue.leaves("c1")
    queue.passes(DELAY_MS)
    queue.binds("c1")
    before = queue.rebalancer.assignment_of(queue.flows["c1"])
    queue.resizes(2)
    queue.resizes(4)
    queue.passes(DELAY_MS)

    assigned = queue.rebalancer.assignment_of(queue.flows["c1"])
    assert assigned[:2] == before[:2]
    assert [epoch for _, epoch, _ in assigned[2:]] == [epoch + 1 for _, epoch, _ in before[2:]]


def test_the_only_consumer_gets_everything_back_when_it_reconnects(queue: QueueStory) -> None:
    queue.binds("c1")
    queue.leaves("c1")
    assert queue.rebalancer.status == HOLDDOWN

    queue.binds("c1")

    assert queue.owned() == {"c1": [0, 1, 2, 3]}
    assert queue.rebalancer.status == READY


def test_partitions_of_a_consumer_that_stays_away_go_to_the_others(shared_by_four: QueueStory) -> None:
    shared_by_four.leaves("c5")
    shared_by_four.leaves("c3")
    shared_by_four.passes(DELAY_MS)

    assert sorted(len(partitions) for partitions in shared_by_four.owned().values()) == [1, 1, 2]
    assert shared_by_four.rebalancer.status == READY


def test_when_all_flows_have_left_the_partitions_have_no_owner_and_there_is_no_timer(queue: QueueStory) -> None:
    queue.binds("c1")
    queue.leaves("c1")
    queue.passes(DELAY_MS)

    assert {status for status, _, _ in queue.rebalancer.partition_statuses(4)} == {UNASSIGNED}
    assert queue.rebalancer.deadline_ms() == 0
    queue.binds("c2")
    assert queue.owned() == {"c2": [0, 1, 2, 3]}


def test_a_newcomer_that_leaves_before_the_delay_ends_costs_no_rebalance(queue: QueueStory) -> None:
    queue.binds("c1", "c2")
    queue.leaves("c2")

    assert queue.rebalancer.status == READY
    assert queue.rebalancer.deadline_ms() == 0


def test_an_owner_keeps_what_it_was_about_to_hand_over_to_a_consumer_that_is_gone(queue: QueueStory) -> None:
    """It goes on at once and under its old epoch: nothing it holds is delivered twice."""
    queue.binds("c1", "c2")
    queue.passes(DELAY_MS)
    epochs = list(queue.partitions.epochs)

    queue.leaves("c2")

    assert queue.paused() == []
    assert queue.owned() == {"c1": [0, 1, 2, 3]}
    assert queue.partitions.epochs == epochs
    assert queue.rebalancer.status == READY


def test_an_heir_gets_the_partition_at_once_when_its_owner_is_lost(queue: QueueStory) -> None:
    queue.binds("c1", "c2")
    queue.passes(DELAY_MS)

    queue.leaves("c1")

    assert queue.owned()["c2"] == [2, 3]
    assert queue.rebalancer.status == HOLDDOWN, "0 and 1 wait for c1 to come back"
    queue.passes(DELAY_MS)
    assert queue.owned()["c2"] == [0, 1, 2, 3]


def test_a_settlement_report_from_before_the_handoff_changes_nothing(queue: QueueStory) -> None:
    queue.binds("c1", "c2")
    queue.passes(DELAY_MS + HANDOFF_MS)

    assert queue.rebalancer.drained(2, epoch=1) == []
    assert queue.owned() == {"c1": [0, 1], "c2": [2, 3]}


def test_a_consumer_that_acknowledges_is_waited_for_though_it_holds_nothing(queue: QueueStory) -> None:
    """Flow: partitions. Both are wanted, in whatever order: nothing held, and its word."""
    queue.binds("c1")
    queue.acknowledges("c1")
    queue.binds("c2")
    queue.passes(DELAY_MS)
    queue.drains(2)
    queue.lets_go("c1", 3)
    assert queue.rebalancer.assignment_of(queue.flows["c1"]) == [
        (0, 1, 0), (1, 1, 0), (2, 1, queue.now_ms + HANDOFF_MS), (3, 1, queue.now_ms + HANDOFF_MS)
    ]  # fmt: skip
    assert queue.paused() == [2, 3]

    queue.lets_go("c1", 2)
    queue.drains(3)

    assert queue.owned() == {"c1": [0, 1], "c2": [2, 3]}
    assert queue.rebalancer.assignment_of(queue.flows["c2"]) == [(2, 2, 0), (3, 2, 0)]
    assert queue.rebalancer.status == READY


def test_a_consumer_that_never_acknowledges_keeps_a_partition_no_longer_than_the_handoff_time(
    queue: QueueStory,
) -> None:
    queue.binds("c1")
    queue.acknowledges("c1")
    queue.binds("c2")
    queue.passes(DELAY_MS)
    queue.drains_all()
    queue.passes(HANDOFF_MS - 1)
    assert queue.paused() == [2, 3]
    queue.passes(1)

    assert queue.owned() == {"c1": [0, 1], "c2": [2, 3]}


def test_a_foreign_or_stale_acknowledgement_changes_nothing(queue: QueueStory) -> None:
    queue.binds("c1")
    queue.acknowledges("c1")
    queue.binds("c2")
    queue.lets_go("c1", 2)  # it does not drain
    queue.passes(DELAY_MS)
    queue.drains_all()
    queue.lets_go("c2", 2)

    assert queue.rebalancer.acknowledge(queue.flows["c1"], 2, epoch=0) == []
    assert queue.rebalancer.acknowledge(queue.flows["c1"], 7, epoch=1) == []
    assert queue.paused() == [2, 3]


def test_a_consumer_that_comes_and_goes_does_not_keep_partitions_from_the_others(queue: QueueStory) -> None:
    queue.binds("c1", "c2", "flapping")
    queue.passes(DELAY_MS + HANDOFF_MS)
    queue.leaves("c2")
    for _ in range(20):
        queue.passes(1000)
        queue.leaves("flapping")
        queue.binds("flapping")

    assert queue.rebalancer.status == READY
    assert sum(len(partitions) for partitions in queue.owned().values()) == 4


def test_a_thousand_flows_are_shown_their_partitions_from_one_look_at_the_slots() -> None:
    queue = QueueStory(partitions_count=1000)
    queue.binds(*[f"c{number}" for number in range(50)])
    queue.passes(DELAY_MS + HANDOFF_MS)

    assert {len(partitions) for partitions in queue.owned().values()} == {20}


class RebalanceMachine(RuleBasedStateMachine):
    """Goal: one owner at most, everybody served in time. Method: any order of events, with ticks when asked for."""

    @initialize(count=st.integers(1, 5), delay_ms=st.sampled_from([0, 1, 50]), handoff_ms=st.sampled_from([0, 1, 30]))
    def begin(self, count: int, delay_ms: int, handoff_ms: int) -> None:
        self.rebalancer = Rebalancer(count, delay_ms=delay_ms, handoff_ms=handoff_ms)
        self.partitions = Partitions(count)
        self.now_ms = 0
        self.bound: dict[int, str] = {}
        self.next_flow_id = 1
        self.unowned_since_ms = [0] * count
        self.acknowledged: set[tuple[int, int]] = set()  # partition, epoch
        self.owned_until_loss: dict[int, str] = {}  # partition -> client that lost it in this holddown

    @precondition(lambda self: len(self.bound) < 7)
    @rule(client=st.sampled_from(["a", "b", "c", "d", "e", "f", "g"]), acknowledges=st.booleans())
    def bind(self, client: str, acknowledges: bool) -> None:
        flow_id = self.next_flow_id
        self.next_flow_id += 1
        waiting = [
            partition
            for partition, (status, _, _) in enumerate(self.statuses())
            if status == UNBOUND and self.owned_until_loss.get(partition) == client
        ]
        self.bound[flow_id] = client
        if acknowledges:
            self.rebalancer.acknowledging.add(flow_id)
        self.take(self.rebalancer.bind(flow_id, client, self.now_ms))
        for partition in waiting:
            assert self.partitions.attached[partition] == flow_id, "who comes back gets its partitions again"

    @precondition(lambda self: self.bound)
    @rule(data=st.data())
    def unbind(self, data: st.DataObject) -> None:
        flow_id = data.draw(st.sampled_from(sorted(self.bound)))
        client = self.bound.pop(flow_id)
        lost = [partition for partition, owner in enumerate(self.partitions.attached) if owner == flow_id]
        heirs = {slot.next_owner for slot in self.rebalancer.slots}
        idle = set(self.bound) - set(self.partitions.attached) - heirs
        self.take(self.rebalancer.unbind(flow_id, self.now_ms))
        for partition in lost:
            self.owned_until_loss[partition] = client
            assert not idle or self.partitions.attached[partition] != NO_FLOW, "who stands by takes over at once"

    @rule(data=st.data())
    def drained(self, data: st.DataObject) -> None:
        partition = data.draw(st.integers(0, len(self.partitions.epochs) - 1))
        epoch = self.partitions.epochs[partition] - data.draw(st.sampled_from([0, 0, 1]))
        owner, was_paused = self.partitions.attached[partition], self.partitions.paused[partition]
        self.take(self.rebalancer.drained(partition, epoch))
        if was_paused and owner in self.rebalancer.acknowledging and (partition, epoch) not in self.acknowledged:
            assert self.partitions.attached[partition] == owner, "it is waited for until it says so"

    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        partition = data.draw(st.integers(0, len(self.partitions.epochs) - 1))
        epoch = self.partitions.epochs[partition] - data.draw(st.sampled_from([0, 0, 1]))
        flow_id = data.draw(st.sampled_from([self.partitions.attached[partition], *self.bound]))
        self.acknowledged.add((partition, epoch))
        self.take(self.rebalancer.acknowledge(flow_id, partition, epoch))

    @rule(data=st.data())
    def a_partition_forgets_its_flows(self, data: st.DataObject) -> None:
        partition = data.draw(st.integers(0, len(self.partitions.attached) - 1))
        self.partitions.attached[partition] = NO_FLOW
        self.partitions.paused[partition] = False
        self.take(self.rebalancer.renew(partition))

    @rule(ms=st.sampled_from([0, 1, 10, 50, 200]))
    def time_passes(self, ms: int) -> None:
        """Every tick at a deadline has to bring that deadline forward, or a timer would spin."""
        end_ms = self.now_ms + ms
        ticks = 0
        while 0 < self.rebalancer.deadline_ms() <= end_ms:
            self.now_ms = max(self.now_ms, self.rebalancer.deadline_ms())
            before = (self.rebalancer.status, self.statuses())
            self.take(self.rebalancer.tick(self.now_ms))
            assert (self.rebalancer.status, self.statuses()) != before, "a tick at the deadline makes progress"
            ticks += 1
            assert ticks < 20
        self.now_ms = end_ms

    @rule()
    def tick_that_nobody_asked_for(self) -> None:
        self.take(self.rebalancer.tick(self.now_ms))

    def take(self, moves: list[Move]) -> None:
        self.partitions.move(moves)

    def statuses(self) -> list[tuple[str, int, int]]:
        return self.rebalancer.partition_statuses(len(self.partitions.attached))

    @invariant()
    def agrees_with_the_partitions(self) -> None:
        self.rebalancer.check()
        owned: dict[int, list[int]] = {}
        for partition, (_, owner, epoch) in enumerate(self.statuses()):
            assert owner == self.partitions.attached[partition]
            assert epoch == self.partitions.epochs[partition]
            owned.setdefault(owner, []).append(partition)
        for flow_id in self.bound:
            assert self.rebalancer.partitions_of(flow_id) == owned.get(flow_id, [])

    @invariant()
    def every_partition_is_owned_soon(self) -> None:
        latest_ms = HOLDDOWN_DELAYS_MAX * self.rebalancer.delay_ms + self.rebalancer.handoff_ms + 1  # 1: time 0 is none
        for partition, owner in enumerate(self.partitions.attached):
            if owner != NO_FLOW or not self.bound:
                self.unowned_since_ms[partition] = self.now_ms
            assert self.now_ms - self.unowned_since_ms[partition] <= latest_ms


TestRebalancing = RebalanceMachine.TestCase
TestRebalancing.settings = settings(max_examples=examples(300), stateful_step_count=50, deadline=None)


def test_the_consumers_of_an_exclusive_queue_are_active_one_after_the_other() -> None:
    """Solace 4.4: the first to bind is active, the others stand by in the order they bound."""
    access = ExclusiveAccess()
    moves = [access.bind(flow_id, "c", 0) for flow_id in (1, 2, 3)]
    assert moves == [[Move(ATTACH, 0, 1, 1)], [], []]

    assert access.unbind(2, 0) == []
    assert access.unbind(1, 0) == [Move(DETACH, 0, 1, 1), Move(ATTACH, 0, 3, 2)]
    assert access.partitions_of(3) == [0]
    assert access.renew(0) == [Move(ATTACH, 0, 3, 3)]
    assert access.unbind(3, 0) == [Move(DETACH, 0, 3, 3)]
    assert access.renew(0) == []
    assert access.partition_statuses(1) == [(UNASSIGNED, NO_FLOW, 3)]


def test_every_consumer_of_a_shared_queue_is_active_under_an_epoch_of_its_own() -> None:
    access = SharedAccess()

    assert access.bind(1, "c", 0) == [Move(ATTACH, 0, 1, 1)]
    assert access.bind(2, "c", 0) == [Move(ATTACH, 0, 2, 2)]
    assert access.renew(0) == [Move(ATTACH, 0, 1, 3), Move(ATTACH, 0, 2, 4)]
    assert access.unbind(1, 0) == [Move(DETACH, 0, 1, 3)]
    assert access.unbind(1, 0) == []
    assert access.partitions_of(2) == [0]
