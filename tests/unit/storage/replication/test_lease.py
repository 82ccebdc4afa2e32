"""The lease of an owner: who takes the key, when an owner stops, and what a lost answer changes."""

import pytest

from sluicegate.storage.replication.ownership.keys import (
    ANY,
    Holder,
    Key,
    UnreadableKey,
    decode_holder,
    encode_holder,
)
from sluicegate.storage.replication.ownership.lease import (
    Lease,
    Purpose,
    Put,
    Read,
    Role,
    Stopped,
    Taken,
    Wait,
    times_of,
)

A, B = Holder("a", "1", lease_s=3.0), Holder("b", "1", lease_s=3.0)


class Replica:
    """A lease whose requests a test answers, at the time that the test says."""

    def __init__(self, name: str = "b") -> None:
        self.lease = Lease(name, "1", ["a", "b", "c"])
        self.now_s = 100.0
        self.is_caught_up = True

    def next(self) -> Read | Put | Wait:
        return self.lease.next(self.now_s, is_caught_up=self.is_caught_up)

    def reads(self, key: Key, at_s: float | None = None) -> Read | Put | Wait:
        """Read the key; return what the replica does next."""
        self.now_s = self.now_s if at_s is None else at_s
        assert self.next() == Read()
        assert self.lease.read(key, self.now_s) is None
        return self.next()

    def watches(self, key: Key, until_s: float) -> Read | Put | Wait:
        """Read the same key again and again until a time; return what comes then."""
        while True:
            step = self.reads(key)
            if not isinstance(step, Wait) or step.until_s > until_s:
                return step
            self.now_s = step.until_s

    def takes(self, revision: int = 8) -> None:
        """Become the owner by the key of an earlier one that is silent."""
        assert isinstance(self.watches(Key(7, A._replace(name="gone")), 1000.0), Put)
        assert self.lease.stored(revision, self.now_s) == Taken(revision)


def test_a_standby_takes_a_key_that_nobody_renewed_for_the_lease_and_its_turn() -> None:
    standby = Replica("b")
    assert standby.watches(Key(7, A), 1000.0) == Put(Purpose.TAKE, 7, B)
    assert standby.now_s == 100.0 + 3.0 + 1.0
    assert standby.lease.stored(8, standby.now_s) == Taken(8)
    assert standby.lease.serves(standby.now_s)


def test_of_two_leases_that_differ_the_longer_one_counts() -> None:
    standby = Replica("a")
    assert standby.watches(Key(7, B._replace(lease_s=10.0)), 1000.0) == Put(Purpose.TAKE, 7, A)
    assert standby.now_s == 100.0 + 10.0
    standby = Replica("a")
    assert standby.watches(Key(7, B._replace(lease_s=2.0)), 1000.0) == Put(Purpose.TAKE, 7, A)
    assert standby.now_s == 100.0 + 3.0


def test_a_renewal_that_is_read_begins_the_silence_anew() -> None:
    standby = Replica("a")
    for revision in range(7, 20):
        assert isinstance(standby.watches(Key(revision, B), standby.now_s + 1.0), Wait)
        standby.now_s += 0.5
    assert isinstance(standby.watches(Key(20, B), 1000.0), Put)


def test_a_silence_counts_only_while_reads_succeed() -> None:
    standby = Replica("a")
    assert isinstance(standby.watches(Key(7, B), 102.5), Wait)
    for _ in range(20):
        standby.now_s += 0.1
        assert standby.next() in (Read(), Wait(103.0))
        standby.lease.read_failed(standby.now_s)
    assert isinstance(standby.reads(Key(7, B), 105.0), Wait)
    standby.now_s = 105.5
    assert standby.watches(Key(7, B), 1000.0) == Put(Purpose.TAKE, 7, A)
    assert standby.now_s == 105.0 + 3.0


def test_a_single_read_that_fails_does_not_begin_it_anew() -> None:
    standby = Replica("a")
    assert isinstance(standby.watches(Key(7, B), 102.0), Wait)
    standby.now_s = 102.5
    assert standby.next() == Read()
    standby.lease.read_failed(standby.now_s)
    standby.now_s = 103.0
    assert standby.reads(Key(7, B)) == Put(Purpose.TAKE, 7, A)


def test_a_key_that_is_not_there_is_waited_for_like_a_silent_owner() -> None:
    standby = Replica("a")
    assert standby.watches(Key(0, None), 1000.0) == Put(Purpose.TAKE, 0, A)
    assert standby.now_s == 103.0


def test_a_standby_that_has_not_read_the_log_does_not_try() -> None:
    standby = Replica("a")
    standby.is_caught_up = False
    assert isinstance(standby.watches(Key(7, B), 120.0), Wait)
    standby.is_caught_up = True
    standby.now_s = 120.5
    assert standby.reads(Key(7, B)) == Put(Purpose.TAKE, 7, A)


def test_a_take_that_is_refused_waits_for_the_new_owner_to_be_silent() -> None:
    standby = Replica("b")
    assert isinstance(standby.watches(Key(7, A), 1000.0), Put)
    standby.lease.unconfirmed(standby.now_s)
    assert not standby.lease.serves(standby.now_s)
    standby.now_s += 0.1
    assert isinstance(standby.reads(Key(8, Holder("c", "1"))), Wait)


def test_a_take_whose_answer_was_lost_is_taken_again_at_once_with_a_new_epoch() -> None:
    standby = Replica("b")
    standby.watches(Key(7, A), 1000.0)
    standby.lease.unconfirmed(standby.now_s)
    standby.now_s += 0.1
    assert standby.reads(Key(8, B)) == Put(Purpose.TAKE, 8, B)
    assert standby.lease.stored(9, standby.now_s) == Taken(9)


def test_a_process_of_the_same_name_is_another_replica() -> None:
    standby = Replica("b")
    assert isinstance(standby.reads(Key(7, Holder("b", "2"))), Wait)


def test_a_take_whose_answer_is_older_than_the_lease_is_no_ownership() -> None:
    standby = Replica("a")
    standby.watches(Key(7, B), 1000.0)
    standby.now_s += 2.5
    assert standby.lease.stored(8, standby.now_s) is None
    assert standby.next() == Put(Purpose.TAKE, 8, A)


def test_an_owner_renews_its_key_each_second() -> None:
    owner = Replica("a")
    owner.takes()
    for revision in range(9, 15):
        assert owner.next() == Wait(owner.now_s + 1.0)
        owner.now_s += 1.0
        assert owner.next() == Put(Purpose.RENEW, revision - 1, A)
        assert owner.lease.stored(revision, owner.now_s) is None
    assert owner.lease.epoch == 8


def test_an_owner_stops_before_a_standby_may_take_its_key() -> None:
    owner = Replica("a")
    owner.takes()
    taken_s = owner.now_s
    assert owner.lease.serves(taken_s + 2.49)
    assert owner.lease.tick(taken_s + 2.49) is None
    assert not owner.lease.serves(taken_s + 2.5)
    assert owner.lease.tick(taken_s + 2.5) == Stopped("no renewal of its key and no append was stored for 2.5 s")
    assert owner.lease.role is Role.STANDBY


def test_a_renewal_counts_from_when_it_was_sent() -> None:
    owner = Replica("a")
    owner.takes()
    owner.now_s += 1.0
    assert isinstance(owner.next(), Put)
    owner.lease.stored(9, owner.now_s + 0.7)
    assert owner.lease.stops_s() == owner.now_s + 2.5


def test_an_answer_that_a_paused_process_finds_does_not_make_it_serve_again() -> None:
    owner = Replica("a")
    owner.takes()
    owner.now_s += 1.0
    assert isinstance(owner.next(), Put)
    assert isinstance(owner.lease.stored(9, owner.now_s + 60.0), Stopped)
    assert not owner.lease.serves(owner.now_s + 60.0)


def test_an_append_that_was_stored_counts_like_a_renewal() -> None:
    owner = Replica("a")
    owner.takes()
    owner.lease.appended(owner.now_s + 2.0)
    assert owner.lease.serves(owner.now_s + 4.4)
    owner.lease.appended(owner.now_s + 1.0)  # its answer came later
    assert owner.lease.stops_s() == owner.now_s + 4.5


def test_an_owner_whose_renewal_had_no_answer_reads_and_renews_at_once() -> None:
    owner = Replica("a")
    owner.takes()
    owner.now_s += 1.0
    assert isinstance(owner.next(), Put)
    owner.now_s += 0.75
    assert owner.lease.unconfirmed(owner.now_s) is None
    owner.now_s += 0.1
    assert owner.reads(Key(9, A)) == Put(Purpose.RENEW, 9, A)
    assert owner.lease.stored(10, owner.now_s) is None
    assert owner.lease.stops_s() == owner.now_s + 2.5


@pytest.mark.parametrize(("key", "reason"), [(Key(9, B), "b has its key"), (Key(9, None), "its key is gone")])
def test_an_owner_stops_when_its_key_is_not_its_own(key: Key, reason: str) -> None:
    owner = Replica("a")
    owner.takes()
    owner.now_s += 1.0
    assert isinstance(owner.next(), Put)
    assert owner.lease.unconfirmed(owner.now_s) is None
    owner.now_s += 0.1
    assert owner.next() == Read()
    assert owner.lease.read(key, owner.now_s) == Stopped(reason)
    assert not owner.lease.serves(owner.now_s)


def test_an_owner_waits_no_longer_for_an_answer_than_it_may_serve() -> None:
    owner = Replica("a")
    owner.takes()
    assert owner.lease.answer_within_s(owner.now_s) == 0.75
    assert owner.lease.answer_within_s(owner.now_s + 2.0) == 0.5


def test_an_owner_that_stopped_takes_its_key_at_once_when_the_bucket_is_back() -> None:
    owner = Replica("a")
    owner.takes()
    owner.now_s += 30.0
    assert isinstance(owner.lease.tick(owner.now_s), Stopped)
    assert owner.reads(Key(8, A)) == Put(Purpose.TAKE, 8, A)
    assert owner.lease.stored(9, owner.now_s) == Taken(9)


def test_a_renewal_that_is_answered_after_the_owner_stopped_makes_no_owner() -> None:
    owner = Replica("a")
    owner.takes()
    owner.now_s += 1.0
    assert isinstance(owner.next(), Put)
    owner.now_s += 2.0
    assert isinstance(owner.lease.tick(owner.now_s), Stopped)
    assert owner.lease.stored(9, owner.now_s) is None
    assert not owner.lease.serves(owner.now_s)
    assert owner.next() == Put(Purpose.TAKE, 9, A)


def test_an_owner_that_the_log_refuses_stops_and_reads_who_has_the_key() -> None:
    owner = Replica("a")
    owner.takes()
    owner.now_s += 0.1
    assert owner.lease.give_up("b appends to the log") == Stopped("b appends to the log")
    assert not owner.lease.serves(owner.now_s)
    assert owner.lease.give_up("b appends to the log") is None
    assert isinstance(owner.reads(Key(9, B)), Wait)


def test_a_named_standby_takes_a_key_that_is_handed_over_at_once() -> None:
    owner, standby, other = Replica("a"), Replica("c"), Replica("b")
    owner.takes()
    assert owner.lease.hand_over("c", owner.now_s) == Stopped("handed over to c")
    assert not owner.lease.serves(owner.now_s)
    handed = A._replace(successor="c")
    assert owner.next() == Put(Purpose.HAND_OVER, 8, handed)
    assert owner.lease.stored(9, owner.now_s) is None
    assert isinstance(owner.reads(Key(9, handed)), Wait)
    assert isinstance(other.reads(Key(9, handed)), Wait)
    assert standby.reads(Key(9, handed)) == Put(Purpose.TAKE, 9, Holder("c", "1", lease_s=3.0))


def test_a_handover_that_is_not_confirmed_is_read_and_repeated() -> None:
    owner = Replica("a")
    owner.takes()
    owner.lease.hand_over("c", owner.now_s)
    assert isinstance(owner.next(), Put)
    owner.lease.unconfirmed(owner.now_s)
    owner.now_s += 0.1
    assert owner.reads(Key(8, A)) == Put(Purpose.HAND_OVER, 8, A._replace(successor="c"))
    owner.lease.unconfirmed(owner.now_s)
    owner.now_s += 0.1
    assert isinstance(owner.reads(Key(9, A._replace(successor="c"))), Wait)
    assert owner.lease.role is Role.STANDBY


def test_a_handover_that_the_named_standby_does_not_take_ends_with_another() -> None:
    assert isinstance(Replica("a").watches(Key(9, A._replace(successor="c")), 1000.0), Put)


def test_a_key_that_was_released_is_taken_by_turns_and_not_by_the_process_that_left_it() -> None:
    owner, first, second = Replica("a"), Replica("a"), Replica("b")
    owner.takes()
    assert owner.lease.release(owner.now_s) == Stopped("released its key")
    assert not owner.lease.serves(owner.now_s)
    released = A._replace(successor=ANY)
    assert owner.next() == Put(Purpose.HAND_OVER, 8, released)
    assert owner.lease.stored(9, owner.now_s) is None
    assert isinstance(owner.reads(Key(9, released)), Wait)

    first.lease = Lease("a", "2", ["a", "b", "c"])  # it was started again
    assert first.reads(Key(9, released)) == Put(Purpose.TAKE, 9, A._replace(instance="2"))
    assert isinstance(second.watches(Key(9, released), 1000.0), Put)
    assert 1.0 <= second.now_s - 100.0 < 2.0  # its turn, without the lease


def test_the_only_replica_of_a_broker_releases_its_key() -> None:
    alone = Lease("a", "1", ["a"])
    with pytest.raises(ValueError, match="replica 'a' is not the owner"):
        alone.release(100.0)


@pytest.mark.parametrize("successor", ["a", "z"])
def test_an_owner_hands_over_to_its_standbys_only(successor: str) -> None:
    owner = Replica("a")
    owner.takes()
    with pytest.raises(ValueError, match=rf"'{successor}' is no standby of replica 'a': b, c"):
        owner.lease.hand_over(successor, owner.now_s)
    assert owner.lease.serves(owner.now_s)


def test_a_standby_has_nothing_to_hand_over() -> None:
    with pytest.raises(ValueError, match="replica 'a' is not the owner"):
        Replica("a").lease.hand_over("b", 100.0)


@pytest.mark.parametrize("order", [["b"], ["a", "b", "a"], []])
def test_a_replica_is_in_the_order_of_all_once(order: list[str]) -> None:
    with pytest.raises(ValueError, match="replica 'a' must be in the order of replicas, and each once"):
        Lease("a", "1", order)


def test_a_replica_that_is_moved_to_the_front_waits_for_the_lease_only() -> None:
    standby = Replica("b")
    standby.lease.reorder(["b", "a", "c"])
    assert standby.watches(Key(7, A), 1000.0) == Put(Purpose.TAKE, 7, B)
    assert standby.now_s == 100.0 + 3.0


def test_a_replica_that_is_taken_out_takes_no_key_but_an_owner_keeps_its_own() -> None:
    standby, owner = Replica("b"), Replica("a")
    owner.takes()
    for each in (standby, owner):
        each.lease.reorder(["c"])
    assert isinstance(standby.watches(Key(7, A), 1000.0), Wait)
    assert owner.lease.serves(owner.now_s)


@pytest.mark.parametrize("lease_s", [2.0, 3.0, 10.0, 60.0])
def test_an_answer_may_be_lost_in_each_lease(lease_s: float) -> None:
    times = times_of(lease_s)
    assert times.renew_s + times.answer_s + times.again_s < lease_s - times.margin_s
    assert times.read_s + times.again_s + times.answer_s < times.gap_s + times.read_s
    assert times.gap_s < lease_s
    assert times.margin_s >= 0.5


def test_a_lease_of_less_than_two_seconds_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a lease of 1\.5 s is too short: at least 2 s"):
        times_of(1.5)


def test_a_key_says_who_has_it_and_fields_of_later_releases_are_passed_over() -> None:
    handed = Holder("a", "1", "b", 4.5)
    assert decode_holder(encode_holder(handed), "key k") == handed
    earlier = decode_holder(b'{"name":"a","instance":"1","successor":"b","more":1}', "key k")
    assert earlier == handed._replace(lease_s=0.0)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b'"a"',
        b'{"name":"a"}',
        b'{"name":1,"instance":"1","successor":""}',
        b'{"name":"a","instance":"1","successor":"","lease_s":"x"}',
    ],
)
def test_a_key_that_says_something_else_is_refused(value: bytes) -> None:
    with pytest.raises(UnreadableKey, match="key k does not say who owns the broker"):
        decode_holder(value, "key k")
