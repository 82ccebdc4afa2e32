"""The number of partitions changes while messages come and go: each key in order, one owner at most, nothing lost."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sluicegate.messaging.message.outcomes import ACCEPTED, FAILED, RELEASED
from sluicegate.messaging.queues.assignment.slots import partition_in
from support.cores.moving_queue import DELAY_MS, HANDOFF_MS, Held, MovingQueue
from support.thorough import examples

KEYS = ["", "a", "b", "c", "d", "e", "f", "g"]
CLIENTS = ["c1", "c2", "c3", "c4"]
COUNTS = st.integers(1, 5)


class RescaleMachine(RuleBasedStateMachine):
    """Goal: no order of events breaks the promises. Method: all cores together, each delivery held against a rule.

    The rule stands in `MovingQueue._deliver`: whoever gets a message holds all older ones of its key.
    """

    @initialize(count=COUNTS, redelivery_delay_ms=st.sampled_from([0, DELAY_MS]))
    def begin(self, count: int, redelivery_delay_ms: int) -> None:
        self.queue = MovingQueue(count, redelivery_delay_ms=redelivery_delay_ms)
        self.known: list[tuple[bytes, Held]] = []  # what consumers were given, settled or not

    @rule(keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=8))
    def publish(self, keys: list[str]) -> None:
        self.queue.publishes(keys)

    @rule(count=COUNTS)
    def ask_for_partitions(self, count: int) -> None:
        self.queue.asks_for(count)

    @precondition(lambda self: len(self.queue.flows) < len(CLIENTS))
    @rule(data=st.data())
    def join(self, data: st.DataObject) -> None:
        there = {flow.client for flow in self.queue.flows.values()}
        self.queue.joins(data.draw(st.sampled_from([each for each in CLIENTS if each not in there])))

    @precondition(lambda self: self.queue.flows)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.queue.leaves(data.draw(st.sampled_from(sorted(self.queue.flows))))

    @rule()
    def deliver(self) -> None:
        before = dict(self.queue.holders)
        self.queue.delivers()
        self.known += [each for each in self.queue.holders.items() if before.get(each[0]) != each[1]]

    @precondition(lambda self: self.known)
    @rule(data=st.data(), outcome=st.sampled_from([ACCEPTED, ACCEPTED, ACCEPTED, RELEASED, FAILED]))
    def settle(self, data: st.DataObject, outcome: int) -> None:
        """Settle what a consumer holds, or held once, in any order."""
        payload, held = data.draw(st.sampled_from(self.known))
        self.queue.settles(payload, held, outcome)

    @rule()
    def settle_all(self) -> None:
        self.queue_settles_all()

    @rule(ms=st.sampled_from([1, DELAY_MS // 2, DELAY_MS, HANDOFF_MS]))
    def pass_time(self, ms: int) -> None:
        self.queue.passes(ms)

    @rule(data=st.data())
    def page_out(self, data: st.DataObject) -> None:
        partition_id = data.draw(st.sampled_from(self.queue.ids))
        self.queue.spool.page_out(partition_id, page_bytes=8, bytes_to_free=100_000)

    @rule()
    def commit(self) -> None:
        self.queue.commits()

    @rule()
    def lose_power(self) -> None:
        self.queue.loses_power()
        self.known = []

    @rule()
    def stop_and_start(self) -> None:
        self.queue.stops_and_starts()
        self.known = []

    @invariant()
    def holds_together(self) -> None:
        if not hasattr(self, "queue"):
            return
        queue = self.queue
        queue.access.check()
        for partition_id in queue.ids:
            queue.spool.ledgers[partition_id].check()
        assert sum(queue.spool.ledgers[each].waiting_count for each in queue.ids) == len(queue.unsettled)
        assert queue.rescale is not None or len({partition_in(queue.slots, each) for each in range(64)}) <= len(
            queue.ids
        )

    def queue_settles_all(self) -> None:
        for payload, held in list(self.queue.holders.items()):
            self.queue.settles(payload, held, ACCEPTED)

    def teardown(self) -> None:
        """Whatever happened: with willing consumers everything is delivered, and the change comes to its end."""
        if not hasattr(self, "queue"):
            return
        queue = self.queue
        for flow_id in list(queue.flows):
            queue.leaves(flow_id)
        for client in ("c1", "c2"):
            queue.joins(client)
        for _ in range(200):
            queue.passes(DELAY_MS)
            queue.commits()
            if queue.delivers() == 0 and not queue.unsettled and len(queue.ids) == queue.wanted:
                break
            self.queue_settles_all()
        assert queue.unsettled == {}
        assert len(queue.ids) == queue.wanted
        queue.passes(DELAY_MS)
        queue.passes(DELAY_MS)
        assert all(queue.spool.ledgers[each].rescale_holds is None for each in queue.ids)
        loads = sorted(len(queue.access.partitions_of(flow_id)) for flow_id in queue.flows)
        assert sum(loads) == queue.wanted
        assert queue.wanted < 2 or loads[1] - loads[0] <= 1


RescaleMachine.TestCase.settings = settings(max_examples=examples(25), stateful_step_count=40, deadline=None)
TestRescale = RescaleMachine.TestCase


def test_a_failed_message_that_lies_in_a_page_is_not_overtaken_by_its_key() -> None:
    """What a consumer holds may be written to a page meanwhile: then nobody knows its key, and all wait behind it."""
    queue = MovingQueue(1, redelivery_delay_ms=DELAY_MS)
    queue.joins("c1")
    queue.publishes(["f"])
    queue.commits()
    assert queue.delivers() == 1
    queue.publishes(["f"])
    queue.spool.page_out(queue.ids[0], page_bytes=8, bytes_to_free=100_000)
    queue.commits()
    for flow_id in list(queue.flows):
        queue.leaves(flow_id)
    queue.joins("c2")
    assert queue.delivers() == 0
    queue.passes(DELAY_MS)
    assert queue.delivers() == 2
