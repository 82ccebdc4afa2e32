"""The bodies of LINK_INTERESTS: written, read again, and read when they are broken."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.network.exchange import BATCH_MAX, BucketPart, ChangeNotice, Notice, Synchronised
from sluicegate.messaging.network.interest import Change, Interest, InterestKind
from sluicegate.messaging.topics.syntax import Syntax
from sluicegate.protocols.network.exchange.interest_frames import notice_body, notice_in

interests = st.builds(
    Interest,
    st.sampled_from(InterestKind),
    st.text(max_size=40),
    st.sampled_from(Syntax),
    st.text(max_size=10),
    st.integers(0, 4),
    st.booleans(),
    st.booleans(),
)
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
        notice_body(BucketPart(1, 0, [Interest(InterestKind.SHARED, "a", Syntax.SMF, "g", 1, False)], True))
    )
    for at, value in changes.items():
        body[at] = value
    with pytest.raises(ValueError, match=problem):
        notice_in(bytes(body))
