"""The interest that a neighbor knows is the interest there is: over breaks, restarts and changes at any moment."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sluicegate.messaging.network.digests import BUCKETS, bucket_of
from sluicegate.messaging.network.exchange import (
    BATCH_MAX,
    UNACKNOWLEDGED_MAX,
    BucketPart,
    ChangeNotice,
    InterestReceiver,
    InterestSender,
    Synchronised,
)
from sluicegate.messaging.network.interest import (
    Change,
    Interest,
    InterestCounts,
    InterestKind,
    InterestSet,
    text_of,
)
from sluicegate.messaging.topics.syntax import Syntax, parse_filter, queue_topic_filter
from support.thorough import examples

interests = st.builds(
    Interest,
    st.sampled_from(InterestKind),
    st.integers(0, 40).map(lambda number: f"plant/{number}/>"),
    st.sampled_from(Syntax),
    st.sampled_from(["", "crew"]),
    st.integers(0, 4),
    st.booleans(),
)

BATCH_BYTES = 4_000_000  # more than any batch here has
BYTES_OF_FOUR = 4 * 27


def wants(number: int) -> Interest:
    return Interest(InterestKind.SUBSCRIBERS, f"plant/{number}", Syntax.SMF, "", 1, False)


def exchanged(sender: InterestSender, receiver: InterestReceiver) -> list[Change]:
    """Send all there is; return what changed at the receiver."""
    changes: list[Change] = []
    for notice in sender.notices():
        changes.append(receiver.take(notice))
        sender.acknowledged(notice.number)
    return changes


def connected(sender: InterestSender, receiver: InterestReceiver) -> list[Change]:
    sender.connected(receiver.connected(), BATCH_BYTES, BATCH_BYTES)
    return exchanged(sender, receiver)


class TwoBrokers(RuleBasedStateMachine):
    """A sender and a receiver, with a wire between them that may be cut with notices on it."""

    def __init__(self) -> None:
        super().__init__()
        self.sender, self.receiver = InterestSender(), InterestReceiver()
        self.is_up = False
        self.routed: set[Interest] = set()  # what the receiver's changes come to

    def _note(self, change: Change) -> None:
        assert not set(change.added) & self.routed, "what begins was not there"
        assert set(change.removed) <= self.routed, "what ends was there"
        self.routed = (self.routed - set(change.removed)) | set(change.added)

    @rule(added=st.lists(interests, max_size=5), removed=st.lists(interests, max_size=3))
    def interest_changes(self, added: list[Interest], removed: list[Interest]) -> None:
        self.sender.change(Change(added, removed))

    @precondition(lambda self: not self.is_up)
    @rule()
    def connects(self) -> None:
        self.sender.connected(self.receiver.connected(), BATCH_BYTES, BATCH_BYTES)
        self.is_up = True

    @precondition(lambda self: self.is_up)
    @rule(count=st.integers(1, 300))
    def some_is_sent(self, count: int) -> None:
        for _, notice in zip(
            range(count), self.sender.notices(), strict=False
        ):  # the range first: what it takes is sent
            self._note(self.receiver.take(notice))
            self.sender.acknowledged(notice.number)

    @precondition(lambda self: self.is_up)
    @rule(lost=st.integers(0, 3))
    def breaks(self, lost: int) -> None:
        """What was sent last is lost."""
        for _ in zip(range(lost), self.sender.notices(), strict=False):
            pass
        self.sender.disconnected()
        self.is_up = False

    @rule()
    def everything_is_sent_in_the_end(self) -> None:
        if not self.is_up:
            self.connects()
        for change in exchanged(self.sender, self.receiver):
            self._note(change)
        assert set(self.receiver.interests.all()) == set(self.sender.interests.all()) == self.routed

    @invariant()
    def the_receiver_routes_what_it_knows(self) -> None:
        assert set(self.receiver.interests.all()) == self.routed


TwoBrokers.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)
TestTwoBrokers = TwoBrokers.TestCase


def test_equal_subscriptions_are_one_interest_until_the_last_of_them_ends() -> None:
    local = InterestCounts()
    assert [local.begin(wants(1)) for _ in range(3)] == [True, False, False]
    assert [local.end(wants(1)) for _ in range(3)] == [False, False, True]
    assert local.all() == []


def test_digests_tell_sets_apart_and_depend_on_no_order() -> None:
    one, other = InterestSet(), InterestSet()
    for number in range(1000):
        one.add(wants(number))
        other.add(wants(999 - number))
    assert one.digests == other.digests

    other.discard(wants(7))
    differing = [number for number in range(BUCKETS) if one.digests[number] != other.digests[number]]
    assert differing == [bucket_of(wants(7).hash())]


def test_after_a_break_only_the_buckets_that_differ_are_sent() -> None:
    sender, receiver = InterestSender(), InterestReceiver()
    sender.change(Change([wants(number) for number in range(5000)], []))
    connected(sender, receiver)
    sender.disconnected()
    late, early = wants(70_000), wants(7)
    sender.change(Change([late], [early]))

    digests = receiver.connected()
    assert not receiver.is_complete
    sender.connected(digests, BATCH_BYTES, BATCH_BYTES)
    notices = list(sender.notices())
    assert [type(each) for each in notices] == [BucketPart, BucketPart, Synchronised]
    changes = [receiver.take(each) for each in notices]
    assert [each for change in changes for each in change.added] == [late]
    assert [each for change in changes for each in change.removed] == [early]
    assert receiver.is_complete


def test_a_change_during_a_bucket_of_several_parts_is_not_undone_by_its_end() -> None:
    sender, receiver = InterestSender(), InterestReceiver()
    bucket = bucket_of(wants(0).hash())
    many = [each for each in map(wants, range(700_000)) if bucket_of(each.hash()) == bucket][: 2 * BATCH_MAX + 1]
    *first, late = many
    sender.change(Change(first, []))
    sender.connected(receiver.connected(), BATCH_BYTES, BATCH_BYTES)
    notices = sender.notices()
    receiver.take(next(notices))
    sender.change(Change([late], [first[0]]))
    kinds = []
    for notice in notices:
        kinds.append(type(notice))
        receiver.take(notice)

    assert kinds == [BucketPart, ChangeNotice, Synchronised]
    assert set(receiver.interests.all()) == {late, *first[1:]}


def test_a_notice_out_of_order_and_a_wrong_digest_are_refused() -> None:
    receiver = InterestReceiver()
    receiver.connected()
    with pytest.raises(ValueError, match="notice 2 after 0"):
        receiver.take(Synchronised(2, 0))
    with pytest.raises(ValueError, match="received is 0000000000000000, that of the neighbor 0000000000000007"):
        receiver.take(Synchronised(1, 7))
    with pytest.raises(ValueError, match="is not in bucket"):
        receiver.take(BucketPart(2, 255 - bucket_of(wants(1).hash()), [wants(1)], is_last=True))


def test_what_was_not_sent_cannot_be_acknowledged() -> None:
    sender = InterestSender()
    sender.connected(InterestReceiver().connected(), BATCH_BYTES, BATCH_BYTES)
    list(sender.notices())
    with pytest.raises(ValueError, match="2 is acknowledged; sent are 0 to 1"):
        sender.acknowledged(2)


@pytest.mark.parametrize(
    ("text", "syntax", "travels_as"),
    [
        ("plant/+/press", Syntax.MQTT, ("plant/*/press", Syntax.SMF)),
        ("plant/*/press", Syntax.SMF, ("plant/*/press", Syntax.SMF)),
        ("plant/#", Syntax.MQTT, ("plant/#", Syntax.MQTT)),
        ("plant/>", Syntax.SMF, ("plant/>", Syntax.SMF)),
        ("pl*/>", Syntax.SMF, ("pl*/>", Syntax.SMF)),
        ("a//b", Syntax.MQTT, ("a//b", Syntax.MQTT)),
        ("a/b*", Syntax.MQTT, ("a/b*", Syntax.MQTT)),  # literal there, a prefix in SMF
        ("a/>", Syntax.MQTT, ("a/>", Syntax.MQTT)),
        ("a/+", Syntax.SMF, ("a/+", Syntax.SMF)),
    ],
)
def test_a_filter_travels_in_one_form_and_means_the_same_at_the_neighbor(
    text: str, syntax: Syntax, travels_as: tuple[str, Syntax]
) -> None:
    topic_filter = parse_filter(text, syntax)
    assert text_of(topic_filter) == travels_as
    assert parse_filter(*travels_as) == topic_filter


def test_a_filter_that_neither_syntax_can_express_does_not_travel() -> None:
    assert text_of(queue_topic_filter("+*")) is None


def test_what_begins_is_told_before_what_ends_and_no_notice_has_more_than_the_neighbor_takes() -> None:
    sender, receiver = InterestSender(), InterestReceiver()
    before = [wants(number) for number in range(40)]
    after = [each._replace(selects=True) for each in before]
    sender.change(Change(before, []))
    sender.connected(receiver.connected(), BYTES_OF_FOUR, BATCH_BYTES)
    exchanged(sender, receiver)
    sender.change(Change(after, before))

    filters = {each.topic_filter for each in before}
    notices = list(sender.notices())
    assert len(notices) > 15
    for notice in notices:
        receiver.take(notice)
        assert {each.topic_filter for each in receiver.interests.all()} == filters
        assert isinstance(notice, ChangeNotice)
        for told in (notice.change.added, notice.change.removed):
            assert sum(each.text_bytes() for each in told) <= BYTES_OF_FOUR
    assert set(receiver.interests.all()) == set(after)


def test_an_interest_that_no_frame_of_the_neighbor_takes_is_left_out_until_it_takes_larger_ones() -> None:
    sender, receiver = InterestSender(), InterestReceiver()
    long, longer, short = (wants(1)._replace(topic_filter="x" * size) for size in (4_000, 9_000, 10))
    sender.change(Change([long, short], []))
    sender.connected(receiver.connected(), 2_000, 5_000)
    exchanged(sender, receiver)
    sender.change(Change([longer], [short]))
    exchanged(sender, receiver)
    assert set(receiver.interests.all()) == {long}
    assert (receiver.is_complete, sender.left_out_count) == (True, 1)

    for bytes_max, known in ((3_000, set()), (20_000, {long, longer})):
        sender.disconnected()
        sender.connected(receiver.connected(), 2_000, bytes_max)
        exchanged(sender, receiver)
        assert set(receiver.interests.all()) == known
        assert (receiver.is_complete, sender.left_out_count) == (True, 2 - len(known))
    sender.change(Change([], [long, longer]))
    exchanged(sender, receiver)
    assert receiver.interests.count == 0


def test_two_interests_that_fill_a_frame_each_are_in_two_notices() -> None:
    sender, receiver = InterestSender(), InterestReceiver()
    one, other = (wants(1)._replace(topic_filter=letter * 4_000) for letter in "ab")
    sender.change(Change([one], []))
    sender.connected(receiver.connected(), 1_000, 5_000)
    exchanged(sender, receiver)
    sender.change(Change([other], [one]))
    notices = list(sender.notices())
    assert [each.change for each in notices if isinstance(each, ChangeNotice)] == [
        Change([other], []),
        Change([], [one]),
    ]


def test_a_sender_rests_until_the_neighbor_acknowledges() -> None:
    """A neighbor whose store is slow has so many notices to keep, and no more."""
    sender, receiver = InterestSender(), InterestReceiver()
    sender.change(Change([wants(number) for number in range(5000)], []))
    sender.connected(receiver.connected(), BATCH_BYTES, BATCH_BYTES)
    notices = list(sender.notices())
    assert len(notices) == UNACKNOWLEDGED_MAX
    assert sender.has_unsent
    assert list(sender.notices()) == []
    sender.acknowledged(10)
    assert len(list(sender.notices())) == 10


def test_interests_that_end_without_having_begun_make_no_room_for_others() -> None:
    receiver = InterestReceiver(interests_max=10)
    receiver.connected()
    receiver.take(ChangeNotice(1, Change([wants(number) for number in range(8)], [])))
    bogus = [wants(number) for number in range(100, 120)]
    with pytest.raises(ValueError, match="more than 10 topics"):
        receiver.take(ChangeNotice(2, Change([wants(number) for number in range(20, 24)], bogus)))
    assert receiver.interests.count == 8


def test_all_that_one_subscription_may_want_is_in_one_bucket() -> None:
    """So it is replaced at once after a break."""
    variants = [
        Interest(InterestKind.SUBSCRIBERS, "a/b", Syntax.SMF, "", priority, selects, is_guaranteed)
        for priority in range(5)
        for selects in (False, True)
        for is_guaranteed in (False, True)
    ]
    hashes = {each.hash() for each in variants}
    assert len(hashes) == len(variants)
    assert len({bucket_of(each) for each in hashes}) == 1
