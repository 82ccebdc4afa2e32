"""Any order of publishes, deliveries, commits, checkpoints and crashes over a spool in memory."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sluicegate.messaging.message.outcomes import ACCEPTED, FAILED, RELEASED
from support.cores.messages import sequences_of
from support.cores.spool_in_memory import Place, SpoolInMemory

PARTITIONS = [3, 8]


OUTCOMES = st.sampled_from([ACCEPTED, ACCEPTED, ACCEPTED, FAILED, RELEASED])


class SpoolMachine(RuleBasedStateMachine):
    """Goal: nothing the store promised is lost or doubled, whenever the power fails. Method: count promises plainly."""

    def __init__(self) -> None:
        super().__init__()
        self.spool = SpoolInMemory(PARTITIONS)
        self.published_count = 0
        self.failures: dict[Place, int] = {}
        self.delivered: set[Place] = set()  # in this life, or possibly in one that ended with a crash
        self.paged_last: int = PARTITIONS[0]

    # --- steps ---

    @rule(count=st.integers(1, 5), data=st.data())
    def publish(self, count: int, data: st.DataObject) -> None:
        payloads = [b"%d" % (self.published_count + row) for row in range(count)]
        self.published_count += count
        some_rows = st.lists(st.integers(0, count - 1), min_size=1, unique=True).map(sorted)
        choice = st.dictionaries(st.sampled_from(PARTITIONS), st.none() | some_rows, min_size=1)
        self.spool.publish(payloads, data.draw(choice))

    @rule(partition_id=st.sampled_from(PARTITIONS))
    def deliver(self, partition_id: int) -> None:
        for delivery in self.spool.deliver(partition_id):
            for sequence in sequences_of(delivery):
                place = Place(partition_id, sequence)
                assert delivery.redelivered == (place in self.delivered)
                self.delivered.add(place)

    @rule(partition_id=st.sampled_from(PARTITIONS), skip=st.integers(0, 9), count=st.integers(1, 9), outcome=OUTCOMES)
    def settle(self, partition_id: int, skip: int, count: int, outcome: int) -> None:
        ledger = self.spool.ledgers[partition_id]
        flow = ledger.flows.get(1)
        first = ledger.floor + skip
        held = [] if flow is None else [seq for seq in range(first, first + count) if seq in flow.in_flight]
        self.spool.settle(partition_id, first, first + count, outcome)
        if outcome == FAILED:
            for sequence in held:
                place = Place(partition_id, sequence)
                self.failures[place] = self.failures.get(place, 0) + 1

    @rule(
        partition_id=st.sampled_from(PARTITIONS),
        page_bytes=st.sampled_from([1, 4, 100]),
        free=st.sampled_from([1, 5000]),
    )
    def page_out(self, partition_id: int, page_bytes: int, free: int) -> None:
        self.spool.page_out(partition_id, page_bytes=page_bytes, bytes_to_free=free)

    @rule(partition_id=st.sampled_from(PARTITIONS))
    def publish_one(self, partition_id: int) -> None:
        self.published_count += 1
        self.spool.publish([b"%d" % self.published_count], {partition_id: None})

    @rule()
    def publish_to_all_and_commit(self) -> None:
        self.published_count += 1
        self.spool.publish([b"%d" % self.published_count] * 3, dict.fromkeys(PARTITIONS))
        self.spool.commit_everything()

    @rule()
    def commit(self) -> None:
        self.spool.commit_everything()

    @rule()
    def a_commit_fails(self) -> None:
        self.spool.begin_commit()
        self.spool.end_commit(succeeds=False)

    @rule(patience_ms=st.sampled_from([0, 1]))
    def begin_commit(self, patience_ms: int) -> None:
        self.spool.begin_commit(patience_ms=patience_ms)

    @precondition(lambda self: self.spool.commit_out is not None)
    @rule(succeeds=st.sampled_from([True, True, True, False]))
    def end_commit(self, succeeds: bool) -> None:
        self.spool.end_commit(succeeds=succeeds)

    @rule()
    def begin_checkpoint(self) -> None:
        self.spool.begin_checkpoint()

    @precondition(lambda self: self.spool.checkpoint_out is not None)
    @rule(succeeds=st.sampled_from([True, True, True, False]))
    def end_checkpoint(self, succeeds: bool) -> None:
        self.spool.end_checkpoint(succeeds=succeeds)

    @rule()
    def checkpoint(self) -> None:
        self.spool.checkpoint_everything()

    @rule(likely=st.sampled_from([False, False, True]), keeps_commit=st.booleans(), keeps_checkpoint=st.booleans())
    def crash(self, likely: bool, keeps_commit: bool, keeps_checkpoint: bool) -> None:
        if likely:
            expected = self.spool.crash(keeps_commit=keeps_commit, keeps_checkpoint=keeps_checkpoint)
            self.comes_back(expected, after_a_crash=True)

    @rule(likely=st.sampled_from([False, False, True]))
    def stop_cleanly(self, likely: bool) -> None:
        if likely:
            self.comes_back(self.spool.stop_and_start(), after_a_crash=False)

    # --- what holds ---

    def comes_back(self, expected: dict[Place, bytes], *, after_a_crash: bool) -> None:
        """Take what was brought back, and hold it against what had to come back."""
        for partition_id in PARTITIONS:
            ledger = self.spool.ledgers[partition_id]
            assert ledger.waiting_count == len([place for place in expected if place.partition_id == partition_id])
        if after_a_crash:
            self.delivered |= set(expected)
        seen = self.spool.take_all()
        assert {place: payload for place, (payload, _, _) in seen.items()} == expected
        for place, (_, redelivered, delivery_count) in seen.items():
            assert redelivered == (place in self.delivered)
            failures = self.failures.get(place, 0)
            assert delivery_count <= failures + 1
            assert after_a_crash or delivery_count == failures + 1
            self.failures[place] = delivery_count - 1
        self.delivered |= set(expected)

    @invariant()
    def what_was_confirmed_is_promised_or_settled(self) -> None:
        for publication in self.spool.confirmed:
            for match in publication.matches:
                count = publication.batch.count if match.rows is None else len(match.rows)
                ledger = self.spool.ledgers[match.partition_id]
                for sequence in range(match.first_sequence, match.first_sequence + count):
                    settled = sequence < ledger.floor or sequence in ledger.settled
                    assert settled or Place(match.partition_id, sequence) in self.spool.promised

    @invariant()
    def ledgers_are_in_order(self) -> None:
        for ledger in self.spool.ledgers.values():
            ledger.check()

    def teardown(self) -> None:
        self.spool.commit_everything()
        self.comes_back(self.spool.crash(), after_a_crash=True)
        for partition_id, ledger in self.spool.ledgers.items():
            self.spool.settle(partition_id, 1, ledger.next_sequence, ACCEPTED)
        self.spool.checkpoint_everything()
        assert self.spool.unsettled() == {}
        assert self.spool.store.pages == {}
        assert all(slot.needed_count == 0 for slot in self.spool.planner.journal.slots), (
            "the log needs nothing any more"
        )
        assert self.spool.store.log == {}
