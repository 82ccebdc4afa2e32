"""A ledger and its plain model under the same steps; tests derive from it and add steps."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.outcomes import (
    ACCEPTED,
    DISCARD_NOT_STORED,
    DISCARD_PURGED,
    FAILED,
    REJECTED,
    RELEASED,
    WHICHEVER,
)
from sluicegate.messaging.message.publication import UNWRITTEN, Publication
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.rules.expiry import apply_time
from sluicegate.messaging.partitions.rules.in_flight import renew_lock
from sluicegate.messaging.partitions.state.flows import ORDER_BY_KEY, ORDER_NONE, ORDER_OF_ALL, DeliveryRules, Flow
from sluicegate.messaging.partitions.suspended_flows import release_unsent
from sluicegate.messaging.queues.credit import CreditWindow
from support.cores.messages import batch_of, flow_of, published, sequences_of, window_of
from support.cores.plain_partition import PlainPartition

PARTITION_ID = 7
OUTCOMES = st.sampled_from([ACCEPTED, ACCEPTED, ACCEPTED, RELEASED, FAILED, REJECTED])


@st.composite
def some_rules(draw: st.DrawFn) -> DeliveryRules:
    """Draw rules of which a few do something."""
    respects_expiry = draw(st.booleans())
    kind = draw(st.sampled_from(["plain", "plain", "by priority", "last value"]))
    return DeliveryRules(
        redelivery_count_max=draw(st.sampled_from([0, 0, 1, 2])),
        unacked_count_max=draw(st.sampled_from([1, 5, 1000])),
        respects_expiry=respects_expiry,
        expires_once_delivered=draw(st.booleans()),
        max_ttl_ms=draw(st.sampled_from([0, 0, 4])) if respects_expiry else 0,
        delivery_delay_ms=draw(st.sampled_from([0, 0, 0, 2])),
        redelivers=draw(st.sampled_from([True, True, True, False])),
        redelivery_delay_ms=draw(st.sampled_from([0, 0, 2])),
        redelivery_delay_ms_max=7,
        redelivery_delay_percent=200,
        order=draw(st.sampled_from([ORDER_NONE, ORDER_BY_KEY, ORDER_OF_ALL])),
        ack_timeout_ms=draw(st.sampled_from([0, 0, 0, 3])),
        by_priority=kind == "by priority",
        last_value_only=kind == "last value",
    )


class PartitionMachine(RuleBasedStateMachine):
    """Goal: no order of events loses, doubles, reorders or miscounts a message. Method: same steps to both, compare."""

    @initialize(rules=some_rules(), data=st.data())
    def begin(self, rules: DeliveryRules, data: st.DataObject) -> None:
        self.begin_empty(rules)
        self.begin_with_messages(data)

    def begin_empty(self, rules: DeliveryRules) -> None:
        self.delivery_rules = rules
        self.ledger = Ledger(durable=True, rules=self.delivery_rules)
        self.model = PlainPartition(self.delivery_rules)
        self.wall_ms = 1
        self.epoch = 0
        self.flows: dict[int, Flow] = {}
        self.paused: set[int] = set()
        self.owed: dict[int, int] = {}  # flow -> credit its consumer has to give back
        self.shared_window: CreditWindow[Address] = window_of(7)
        self.appended_bytes = 0
        self.appended_count = 0
        self.told: dict[int, set[int]] = {}  # flow -> what it holds, by what the ledger has said
        self.settled = RangeSet()  # what the ledger asked to persist
        self.publications: list[Publication] = []
        self.rows: dict[int, range] = {}  # publication's place in the list -> sequences
        self.drained: list[Publication] = []
        self.given: set[int] = set()  # sequences that some flow was ever given
        self.given_again: set[int] = set()  # those that were given more than once

    def begin_with_messages(self, data: st.DataObject) -> None:
        """Begin with messages, and a consumer that has some.

        Of the rules, Hypothesis leaves some out of each run: mostly nothing was delivered where that begins empty.
        """
        self.attach(limit=data.draw(st.sampled_from([3, 50])), shared=False)
        self.append(count=6, data=data, bare=data.draw(st.booleans()))
        self.deliver_once()

    # --- steps ---

    @rule(count=st.integers(1, 6), data=st.data(), bare=st.booleans())
    def append(self, count: int, data: st.DataObject, bare: bool) -> None:
        payloads = [b"x" * (self.appended_count + row) for row in range(count)]
        headers: list[Headers | None] = [None] * count
        if not bare:
            headers = data.draw(st.lists(self.some_headers(), min_size=count, max_size=count))
        batch = batch_of(payloads, headers=None if bare else headers, received_ms=self.wall_ms)
        publication = published(batch)
        first = self.ledger.append(publication.batch, publication)
        publication.sequenced(PARTITION_ID, first, None)
        self.model.append(first, payloads, headers, self.wall_ms)
        self.rows[len(self.publications)] = range(first, first + count)
        self.publications.append(publication)
        self.appended_count += count
        self.appended_bytes += publication.batch.usage_bytes(durable=self.ledger.durable)

    def some_headers(self) -> st.SearchStrategy[Headers | None]:
        return st.none() | st.builds(
            Headers,
            expires_at_ms=st.sampled_from([0, 0, self.wall_ms + 3]),
            not_before_ms=st.sampled_from([0, 0, 0, self.wall_ms + 2, self.wall_ms + 5]),
            key_hash=st.sampled_from([-1, 1, 2]),
            priority=st.sampled_from([4, 4, 0, 9]),
        )

    @rule(limit=st.sampled_from([1, 3, 50]), shared=st.booleans())
    def attach(self, limit: int, shared: bool) -> None:
        if len(self.flows) == 4:
            return
        self.epoch += 1
        flow = flow_of(self.epoch, limit=limit, window=self.shared_window if shared else None)
        self.flows[flow.flow_id] = flow
        self.owed[flow.flow_id] = 0
        self.ledger.attach(flow, self.epoch)

    @precondition(lambda self: self.flows)
    @rule(data=st.data())
    def pause_or_go_on(self, data: st.DataObject) -> None:
        flow_id = data.draw(st.sampled_from(sorted(self.flows)))
        if flow_id in self.paused:
            self.paused.remove(flow_id)
            self.ledger.attach(self.flows[flow_id], flow_id)  # its epoch was its own id
        else:
            self.paused.add(flow_id)
            self.ledger.pause(flow_id)

    @precondition(lambda self: self.flows)
    @rule(data=st.data(), count_as_failed=st.booleans())
    def detach(self, data: st.DataObject, count_as_failed: bool) -> None:
        self.end_flow(data.draw(st.sampled_from(sorted(self.flows))), count_as_failed=count_as_failed)

    def end_flow(self, flow_id: int, *, count_as_failed: bool) -> None:
        flow = self.flows.pop(flow_id)
        self.paused.discard(flow_id)
        held = self.model.held_by(flow_id)
        self.ledger.detach(flow_id, count_as_failed=count_as_failed)
        self.model.detach(flow_id, count_as_failed=count_as_failed)
        flow.window.give(self.owed.pop(flow_id))
        if held:
            assert self.ledger.settle(flow_id, held[0], held[-1] + 1, ACCEPTED) == 0, "a late settlement is void"

    @precondition(lambda self: self.flows)
    @rule(data=st.data())
    def end_with_some_unsent(self, data: st.DataObject) -> None:
        """A consumer is given messages for the first time, and ends before it is sent them."""
        flow_id = data.draw(st.sampled_from(sorted(self.flows)))
        unsent = [each for each in self.model.held_by(flow_id) if each not in self.given_again]
        if unsent:
            first = data.draw(st.sampled_from(unsent))
            unsent = [each for each in unsent if each >= first]
            release_unsent(self.ledger, flow_id, flow_id, [(each, each + 1) for each in unsent])
            self.model.was_not_sent(unsent)
            self.given.difference_update(set(unsent) - self.model.refused)
        self.end_flow(flow_id, count_as_failed=True)

    @rule(step_ms=st.sampled_from([0, 0, 1, 5]), data=st.data(), outcomes=st.lists(OUTCOMES, max_size=3))
    def deliver(self, step_ms: int, data: st.DataObject, outcomes: list[int]) -> None:
        """Consumers answer for some of what they have, or for nothing yet."""
        self.wall_ms += step_ms
        self.deliver_once()
        for outcome in outcomes:
            self.settle(data, outcome)

    def settle(self, data: st.DataObject, outcome: int) -> None:
        """Ranges as consumers send them: exact, partial, with gaps, or of what they settled before."""
        consumers = [each for each, owed in self.owed.items() if owed]
        if not consumers:
            return
        flow_id = data.draw(st.sampled_from(consumers))
        held = self.model.held_by(flow_id)
        first = data.draw(st.sampled_from([*held, 1]))
        end = data.draw(st.sampled_from([each for each in [*held, first] if each >= first])) + 1
        self.settle_range(flow_id, first, end, outcome)
        if data.draw(st.booleans()):
            assert self.ledger.settle(flow_id, first, end, outcome) == 0, "a second settlement is void"

    @precondition(lambda self: len(self.model.ready()) >= 8)  # it ends all that other steps have begun
    @rule()
    def purge(self) -> None:
        count = len(self.model.ready())
        assert self.model.give_up(1, self.ledger.next_sequence, DISCARD_PURGED) == count
        assert self.ledger.purge() == count

    @precondition(lambda self: self.unanswered())
    @rule(count=st.integers(1, 4))
    def commit(self, count: int) -> None:
        for publication in self.unanswered()[:count]:
            publication.confirmed = True

    @precondition(lambda self: self.unanswered())
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        publication = data.draw(st.sampled_from(self.unanswered()))
        publication.refused = True
        rows = self.rows[self.publications.index(publication)]
        self.model.refused.update(rows)
        count = self.model.give_up(rows.start, rows.stop, DISCARD_NOT_STORED)
        assert self.ledger.give_up(rows.start, rows.stop, DISCARD_NOT_STORED) == count

    def unanswered(self) -> list[Publication]:
        """Return what the store has neither taken nor refused, in the order published."""
        return [each for each in self.publications if not each.confirmed and not each.refused]

    # --- what a step is made of ---

    def deliver_once(self) -> int:
        """Let the ledger deliver once and hold it against the model; return how many messages went out."""
        used = {flow_id: flow.window.used for flow_id, flow in self.flows.items()}
        self.time_passes()
        if self.delivery_rules.last_value_only:
            held = {flow_id: self.model.held_by(flow_id) for flow_id in self.flows}
            segments = self.ledger.segments.all()
            stored = [each for each in segments if each.publication is None or each.publication.confirmed]
            refused = [each for each in segments if each.publication is not None and each.publication.refused]
            self.model.keep_newest(
                {sequence for each in stored for sequence in range(each.first, each.end)},
                {sequence for each in refused for sequence in range(each.first, each.end)},
            )
            for flow_id, before in held.items():
                self.credit_comes_back(flow_id, len(before) - len(self.model.held_by(flow_id)))
        deliveries = self.ledger.deliver(self.wall_ms)
        self.take_settled_effects()
        self.take_what_was_taken_back()
        self.model.delivered(deliveries, self.wall_ms)
        for delivery in deliveries:
            flow_id = delivery.flow.flow_id
            assert flow_id not in self.paused, "a paused flow gets nothing"
            assert delivery.epoch == flow_id
            (self.given_again if delivery.redelivered else self.given).update(sequences_of(delivery))
            self.owed[flow_id] += len(sequences_of(delivery))
            self.told.setdefault(flow_id, set()).update(sequences_of(delivery))
        for flow_id, flow in self.flows.items():
            assert flow.window.used <= max(flow.window.limit, used[flow_id]), "credit is not exceeded"
            assert len(self.model.held_by(flow_id)) <= self.delivery_rules.unacked_count_max
        return sum(len(sequences_of(each)) for each in deliveries)

    def time_passes(self) -> None:
        """Let the ledger drop what expired and take back what was not settled in time, and no more than that."""
        apply_time(self.ledger, self.wall_ms)
        timeout_ms = self.delivery_rules.ack_timeout_ms
        for flow_id in self.flows:
            for sequence in self.model.held_by(flow_id):
                locked_ms = self.model.messages[sequence].locked_ms
                if sequence not in self.ledger.flows[flow_id].in_flight:
                    assert timeout_ms > 0, "only time takes deliveries back"
                    assert locked_ms + timeout_ms <= self.wall_ms, "its time is over"
                    self.model.give_back(sequence, failed=True)
                    self.credit_comes_back(flow_id, 1)
                else:
                    assert not timeout_ms or self.wall_ms < locked_ms + timeout_ms + 1, "its time is not over"
        self.take_settled_effects(expired=True)
        self.model.begin_delays(self.wall_ms)

    def credit_comes_back(self, flow_id: int, count: int) -> None:
        self.flows[flow_id].window.give(count)
        self.owed[flow_id] -= count

    @precondition(lambda self: self.flows)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        flow_id = data.draw(st.sampled_from(sorted(self.flows)))
        held = self.model.held_by(flow_id)
        if not held or not self.delivery_rules.ack_timeout_ms:
            return
        first = data.draw(st.sampled_from(held))
        end = data.draw(st.sampled_from([each for each in held if each >= first])) + 1
        renewed = [sequence for sequence in held if first <= sequence < end]
        assert renew_lock(self.ledger, flow_id, flow_id, [(first, end)], WHICHEVER, self.wall_ms) == len(renewed)
        assert renew_lock(self.ledger, flow_id, flow_id - 1, [(first, end)], WHICHEVER, self.wall_ms) == 0, (
            "an old epoch"
        )
        for sequence in renewed:
            self.model.messages[sequence].locked_ms = self.wall_ms

    @precondition(lambda self: any(self.owed.values()))
    @rule(data=st.data(), outcome=OUTCOMES, delivery_count=st.integers(1, 4))
    def settle_late(self, data: st.DataObject, outcome: int, delivery_count: int) -> None:
        """A consumer speaks of deliveries that were tried so often. It may have got their messages again since."""
        flow_id = data.draw(st.sampled_from([each for each, owed in self.owed.items() if owed]))
        held = self.model.held_by(flow_id)
        first = data.draw(st.sampled_from([*held, 1]))
        end = data.draw(st.sampled_from([each for each in [*held, first] if each >= first])) + 1
        meant = [each for each in held if first <= each < end]
        meant = [each for each in meant if self.model.messages[each].failures + 1 == delivery_count]
        flow = self.ledger.flows[flow_id]
        count = self.ledger.settle_in_flight(flow, first, end, outcome, "", delivery_count)
        assert count == sum([self.model.settle(flow_id, each, each + 1, outcome) for each in meant])
        self.credit_comes_back(flow_id, count)
        self.told.get(flow_id, set()).difference_update(meant)

    def flows_with_room(self) -> list[int]:
        return [
            flow_id
            for flow_id, flow in self.flows.items()
            if flow_id not in self.paused
            and flow.window.available() > 0
            and len(self.model.held_by(flow_id)) < self.delivery_rules.unacked_count_max
        ]

    def settle_range(self, flow_id: int, first: int, end: int, outcome: int) -> None:
        settled = [sequence for sequence in self.model.held_by(flow_id) if first <= sequence < end]
        count = self.ledger.settle(flow_id, first, end, outcome)
        assert count == self.model.settle(flow_id, first, end, outcome)
        self.flows[flow_id].window.give(count)
        self.owed[flow_id] -= count
        self.told.get(flow_id, set()).difference_update(settled)

    def take_what_was_taken_back(self) -> None:
        """Note what flows lost that they did not settle."""
        for flow, first, end in self.ledger.effects.taken_back:
            assert self.told[flow.flow_id].issuperset(range(first, end)), "what is taken back was held"
            self.told[flow.flow_id].difference_update(range(first, end))
        self.ledger.effects.taken_back = []

    def take_settled_effects(self, *, expired: bool = False) -> None:
        """Note what is to be persisted; when something was delivered, part of it may be what had expired."""
        for first, end in self.ledger.effects.settled:
            assert self.settled.add(first, end) == end - first, "nothing is settled twice"
            if expired:
                for sequence in range(first, end):
                    if sequence in self.model.messages:
                        self.model.dropped_as_expired(sequence, self.wall_ms)
        self.ledger.effects.settled = []

    # --- what holds after every step ---

    @invariant()
    def agrees_with_the_model(self) -> None:
        self.take_settled_effects()
        ledger = self.ledger
        ledger.check()
        assert ledger.waiting_count == len(self.model.messages)
        assert {seq for first, end in self.settled.ranges() for seq in range(first, end)} == self.model.settled
        for flow_id in self.flows:
            assert ledger.in_flight_count(flow_id) == len(self.model.held_by(flow_id))
        self.take_what_was_taken_back()
        told = {sequence: flow_id for flow_id, held in self.told.items() for sequence in held}
        assert told == self.not_taken_back()
        assert ledger.effects.discards == self.model.discards

    def not_taken_back(self) -> dict[int, int]:
        """Return what flows were given and have not lost, by sequence."""
        return {sequence: flow_id for flow_id in self.flows for sequence in self.model.held_by(flow_id)}

    @invariant()
    def what_was_released_and_what_waits_add_up(self) -> None:
        effects = self.ledger.effects
        assert effects.released_count + self.ledger.waiting_count == self.appended_count
        assert effects.released_bytes + self.ledger.waiting_bytes == self.appended_bytes
        if not self.model.messages:
            assert self.ledger.waiting_bytes == 0
            assert self.ledger.memory_bytes == 0
            assert self.ledger.floor == self.ledger.next_sequence

    @invariant()
    def a_publication_is_drained_once_and_when_nothing_of_it_is_open(self) -> None:
        self.drained += self.ledger.effects.released_publications
        self.ledger.effects.released_publications = []
        open_rows = self.open_rows()
        for place, publication in enumerate(self.publications):
            open_count = len([sequence for sequence in self.rows[place] if sequence in open_rows])
            assert publication.open_count == open_count
            assert self.drained.count(publication) == (1 if open_count == 0 else 0)

    @invariant()
    def a_publication_knows_how_many_of_its_messages_no_consumer_was_ever_given(self) -> None:
        for place, publication in enumerate(self.publications):
            if publication.record_number == UNWRITTEN:
                assert publication.undelivered_count == len(set(self.rows[place]) - self.given)

    def open_rows(self) -> set[int]:
        """Return the sequences that the journal has to keep."""
        return set(self.model.messages)

    def teardown(self) -> None:
        """Whatever happened, one willing consumer gets everything that is left, and then nothing is left."""
        if not hasattr(self, "ledger"):
            return
        for flow_id in list(self.flows):
            flow = self.flows.pop(flow_id)
            self.ledger.detach(flow_id, count_as_failed=False)
            self.model.detach(flow_id, count_as_failed=False)
            flow.window.give(self.owed.pop(flow_id))
        self.paused.clear()
        self.attach(limit=50, shared=False)
        looks_in_vain = 0
        while self.model.messages:
            self.wall_ms += 1000  # whatever waits for its time
            # A delay after a failure counts from the next look, in which nothing may be due yet.
            looks_in_vain = 0 if self.deliver_all() > 0 else looks_in_vain + 1
            assert looks_in_vain < 2 or not self.model.messages
            self.settle_range(self.epoch, 1, self.ledger.next_sequence, ACCEPTED)
            self.agrees_with_the_model()
        self.what_was_released_and_what_waits_add_up()
        self.a_publication_is_drained_once_and_when_nothing_of_it_is_open()
        assert len(self.drained) == len(self.publications)

    def deliver_all(self) -> int:
        """Deliver until nothing more comes; return how many messages went out."""
        return self.deliver_once()
