"""The bodies of LINK_INTERESTS: written, read again, and read when they are broken."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.network.exchange import BATCH_MAX, BucketPart, ChangeNotice, Notice, Synchronised
from sluicegate.messaging.network.interest import Change, Interest, InterestKind
from sluicegate.messaging.topics.syntax import Syntax
from sluicegate.protocols.network.exchange.interest_frames import notice_body, notice_in

syntaxes = st.sampled_from(Syntax)
of_subscribers = st.builds(
    Interest,
    st.just(InterestKind.SUBSCRIBERS),
    st.text(max_size=40),
    syntaxes,
    st.text(max_size=10),
    st.integers(0, 4),
    st.booleans(),
    st.booleans(),
)
of_others = st.builds(  # groups, with a filter in its shortest form, and queues
    Interest,
    st.sampled_from([InterestKind.SHARED, InterestKind.QUEUE]),
    st.sampled_from(["plant/>", "a", "a/*/b"]),
    st.just(Syntax.SMF),
    st.text(max_size=10),
    st.just(0),
    st.booleans(),
    st.booleans(),
)
interests = st.one_of(of_subscribers, of_others)
numbers = st.integers(1, (1 << 64) - 1)
lists = st.lists(interests, max_size=5)
notices = st.one_of(
    st.builds(ChangeNotice, numbers, st.builds(Change, lists, lists)),
    st.builds(BucketPart, numbers, st.integers(0, 255), lists, st.booleans()),
    st.builds(Synchronised, numbers, st.integers(0, (1 << 64) - 1)),
)


@given(notices)
def test_a_notice_is_read_as_it_was_written(notice: Notice) -> None:
    assert notice_in(notice_body(notice)) == notice


@given(notices, st.data())
def test_a_notice_that_is_cut_is_refused(notice: Notice, data: st.DataObject) -> None:
    body = notice_body(notice)
    with pytest.raises(ValueError, match="LINK_INTERESTS"):
        notice_in(body[: data.draw(st.integers(0, len(body) - 1))])


@given(st.binary(max_size=200))
def test_any_bytes_are_a_notice_or_refused(body: bytes) -> None:
    with suppress(ValueError):
        notice_in(body)


def test_a_notice_of_too_many_interests_is_refused() -> None:
    one = Interest(InterestKind.SUBSCRIBERS, "a", Syntax.SMF, "", 0, False)
    body = notice_body(ChangeNotice(1, Change([one] * (BATCH_MAX + 1), [])))
    with pytest.raises(ValueError, match="1001 interests; at most 1000"):
        notice_in(body)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [({8: 9}, "kind 9 with 0 interests that end"), ({20: 7}, "kind 7 with priority 1"), ({22: 5}, "with priority 5")],
)
def test_what_this_release_does_not_know_is_refused(changes: dict[int, int], problem: str) -> None:
    body = bytearray(
        notice_body(BucketPart(1, 0, [Interest(InterestKind.SUBSCRIBERS, "a", Syntax.SMF, "g", 1, False)], True))
    )
    for at, value in changes.items():
        body[at] = value
    with pytest.raises(ValueError, match=problem):
        notice_in(bytes(body))


@pytest.mark.parametrize(
    ("interest", "problem"),
    [
        (Interest(InterestKind.SHARED, "a", Syntax.SMF, "crew", 1, False), "SHARED 'a' with priority 1; it has none"),
        (Interest(InterestKind.QUEUE, "q", Syntax.SMF, "", 2, False), "QUEUE 'q' with priority 2; it has none"),
        (Interest(InterestKind.SHARED, "a/b", Syntax.MQTT, "crew", 0, False), "'a/b' of a group is not in its"),
    ],
)
def test_a_group_or_a_queue_in_a_second_form_is_refused(interest: Interest, problem: str) -> None:
    """In two forms it would be wanted no more when the first of them ends."""
    with pytest.raises(ValueError, match=problem):
        notice_in(notice_body(ChangeNotice(1, Change([interest], []))))
