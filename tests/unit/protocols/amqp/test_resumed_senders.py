"""What is remembered of senders' links, and its bounds."""

import random

from sluicegate.actors.messages.data import Confirmed, PublishFailed
from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.actors.runtime.clock import SystemClock
from sluicegate.actors.runtime.inbox import Dispatcher, Inbox
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.protocols.amqp.codec.delivery_states import ACCEPTED_STATE, REJECTED, RELEASED_STATE
from sluicegate.protocols.amqp.codec.termini import CONNECTION_CLOSE, LINK_DETACH, NEVER, SESSION_END, Target
from sluicegate.protocols.amqp.datapath.sender_recovery import (
    TAGS_PER_CREDIT,
    SuspendedSender,
    SuspendedSenders,
    begin_expiry,
    unsettled_map,
)
from sluicegate.protocols.amqp.types.values import AmqpMap

CREDIT = 5


def inbox() -> Inbox:
    """Return an inbox that nobody empties."""
    return Inbox(Dispatcher(call_soon=lambda _: None, clock=SystemClock(), on_fatal=lambda _: None))


def links(links_max: int = 1000) -> SuspendedSenders:
    space, spool, rng = TopicSpace(), inbox(), random.Random(1)

    def make_publisher(address: Address) -> Publisher:
        return Publisher(space=space, spool=spool, address=address, rng=rng)

    return SuspendedSenders(make_publisher, links_max=links_max)


def attach(
    all_links: SuspendedSenders, name: str = "l", *, policy: str = NEVER, timeout_s: int = 0, now_ms: int = 0
) -> tuple[SuspendedSender, bool]:
    target = Target("q", expiry_policy=policy, timeout_s=timeout_s)
    found, is_known = all_links.attach(("c", "", name), target, credit=CREDIT, now_ms=now_ms)
    assert found is not None
    return found, is_known


def asked_for(*tags: bytes) -> AmqpMap:
    return AmqpMap([(tag, None) for tag in tags])


def test_a_publish_over_several_queues_has_one_outcome_when_all_have_answered() -> None:
    link, _ = attach(links())
    told = inbox()
    token = link.take_token()
    link.stores(token, [b"a", b"b"], 2, told, 77)
    link.post(Confirmed(token))
    assert (told.items, link.settled().done) == ([], False)
    waits = link.settled()
    link.post(PublishFailed(token, "full"))
    assert waits.done
    (answer,) = told.items
    assert isinstance(answer, PublishFailed)
    assert answer.token == 77
    for tag in (b"a", b"b"):
        state = link.outcome(tag)
        assert state is not None
        assert state.code == REJECTED


def test_publishes_that_are_on_their_way_together_have_an_outcome_each() -> None:
    """What the store took, and what it refused, of one link: neither is answered, or suspended, for the other."""
    link, _ = attach(links())
    told = inbox()
    tokens = [link.take_token() for _ in range(3)]
    for token, tag in zip(tokens, (b"a", b"b", b"c"), strict=True):
        link.stores(token, [tag], 1, told, 70 + token)
    link.post(PublishFailed(tokens[1], "full"))
    link.post(Confirmed(tokens[0]))
    assert [(type(each), each.token) for each in told.items if isinstance(each, Confirmed | PublishFailed)] == [
        (PublishFailed, 70 + tokens[1]),
        (Confirmed, 70 + tokens[0]),
    ]
    states = [link.outcome(tag) for tag in (b"a", b"b", b"c")]
    assert [None if state is None else state.code for state in states] == [ACCEPTED_STATE.code, REJECTED, None]
    assert not link.settled().done


def test_a_link_that_asks_for_no_time_is_not_remembered() -> None:
    """2.6.13 and 3.5.6: an expiry policy without a timeout ends what there is of the link with the link."""
    all_links = links()
    target = Target("q", expiry_policy=LINK_DETACH, timeout_s=0)
    assert all_links.attach(("c", "", "l"), target, credit=CREDIT, now_ms=0) == (None, False)
    assert all_links.links == {}


def test_only_the_latest_outcomes_are_kept() -> None:
    link, _ = attach(links())
    tags = [b"%d" % number for number in range(100)]
    link.note(tags, ACCEPTED_STATE)
    link.note([tags[-CREDIT]], RELEASED_STATE)  # used again
    kept = [tag for tag in tags if link.outcome(tag) is not None]
    assert kept == tags[-TAGS_PER_CREDIT * CREDIT :]
    assert link.outcome(tags[-CREDIT]) is RELEASED_STATE


def test_a_client_that_names_not_all_it_is_unsure_of_loses_nothing() -> None:
    """2.7.3 incomplete-unsettled."""
    link, _ = attach(links())
    link.note([b"a", b"b"], ACCEPTED_STATE)
    assert link.resume(asked_for(b"a"), is_incomplete=True) == [(b"a", ACCEPTED_STATE)]
    assert link.resume(asked_for(b"b", b"x"), is_incomplete=False) == [(b"b", ACCEPTED_STATE)]
    assert link.outcome(b"a") is None


def test_a_map_that_does_not_fit_into_a_frame_says_so() -> None:
    """2.7.3 incomplete-unsettled."""
    known = [(b"%03d" % number, ACCEPTED_STATE) for number in range(100)]
    whole, is_incomplete = unsettled_map(known, 10_000)
    assert (len(whole.pairs), is_incomplete) == (100, False)
    part, is_incomplete = unsettled_map(known, 200)
    assert 0 < len(part.pairs) < 100
    assert is_incomplete


def test_beyond_the_maximum_the_link_that_was_away_longest_is_forgotten() -> None:
    all_links = links(links_max=3)
    for name in ("a", "b", "c"):
        link, _ = attach(all_links, name)
        if name != "a":
            all_links.detached(link, link.attached_count, closed=False)
    attach(all_links, "d")
    assert [name for _, _, name in all_links.links] == ["a", "c", "d"]


def test_links_whose_time_is_over_are_forgotten() -> None:
    """3.5.6."""
    all_links = links()
    for name, policy in (("a", LINK_DETACH), ("b", SESSION_END), ("c", CONNECTION_CLOSE), ("d", NEVER)):
        link, _ = attach(all_links, name, policy=policy, timeout_s=10)
        all_links.detached(link, link.attached_count, closed=False)
        begin_expiry(link, SESSION_END, 0)
    attach(all_links, "e", now_ms=9_999)
    assert len(all_links.links) == 5
    attach(all_links, "e", now_ms=10_000)
    assert [name for _, _, name in all_links.links] == ["c", "d", "e"]
