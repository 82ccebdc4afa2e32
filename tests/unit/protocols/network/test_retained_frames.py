"""The bodies of LINK_RETAINED: what is written is read, and what is damaged is refused with a reason."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.network.digests import BUCKETS
from sluicegate.messaging.network.retained.exchange import ENTRIES_MAX, RetainedEntry
from sluicegate.messaging.network.retained.versions import Version
from sluicegate.protocols.network.retained import frames
from sluicegate.protocols.network.retained.frames import RetainedPart, retained_part

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
versions = st.builds(Version, st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), texts)
topics = texts.filter(lambda text: not set(text) & set("#+\0"))
entries = st.builds(RetainedEntry, topics, versions, st.booleans())

ENTRY = RetainedEntry("plant/1", Version(1, 2, "a"), False)
DELETED = RetainedEntry("plant/2", Version(3, 4, "b"), True)


def list_of(topic: str, broker: str) -> bytes:
    """Return a list with one entry."""
    return frames.list_body(1, [frames.entry_bytes(RetainedEntry(topic, Version(1, 1, broker), False))])


@given(st.lists(entries, max_size=5), st.integers(0, 2**64 - 1))
def test_lists_and_changes_are_read_as_they_were_written(listed: list[RetainedEntry], number: int) -> None:
    part = retained_part(frames.list_body(number, [frames.entry_bytes(each) for each in listed]))
    assert (part.kind, part.number, part.entries) == (frames.LIST, number, tuple(listed))
    messages = [b"" if each.is_deleted else b"message" for each in listed]
    changes = [frames.change_bytes(each, message) for each, message in zip(listed, messages, strict=True)]
    part = retained_part(frames.changes_body(number, 7, changes))
    assert part == RetainedPart(frames.CHANGES, number, 7, entries=tuple(listed), messages=tuple(messages))


def test_the_other_kinds_are_read_as_they_were_written() -> None:
    digests = list(range(BUCKETS))
    assert retained_part(frames.digests_body(digests, 7)).digests == tuple(digests)
    assert retained_part(frames.digests_body([], 7)).digests == ()
    assert retained_part(frames.wanted_body([frames.sized_text("a/b"), frames.sized_text("ä")])).topics == ("a/b", "ä")
    assert retained_part(frames.ack_body(9)) == RetainedPart(frames.ACK, 9)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "0 bytes"),
        (frames.digests_body([1, 2], 7), "2 digests"),
        (b"\x09" + frames.ack_body(1)[1:], "kind 9"),
        (frames.ack_body(1) + b"x", "1 bytes behind"),
        (frames.wanted_body([frames.sized_text("a")] * (ENTRIES_MAX + 1)), "at most 1000"),
        (frames.wanted_body([frames.sized_text("abc")])[:-1], "1 bytes early"),
        (list_of("", "a"), "it is empty"),
        (list_of("plant/#", "a"), "in filters only"),
        (list_of("t", "a" * 256), "256 bytes"),
        (frames.changes_body(1, 1, [frames.change_bytes(ENTRY, b"")]), "0 bytes of a message"),
        (frames.changes_body(1, 1, [frames.change_bytes(DELETED, b"x")]), "1 bytes of a message"),
        (frames.changes_body(1, 1, [frames.change_bytes(ENTRY, b"message")])[:-1], "1 bytes early"),
    ],
)
def test_a_damaged_body_is_refused_with_the_reason(body: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        retained_part(body)


@given(st.binary(max_size=200))
def test_bytes_that_say_nothing_are_refused_and_never_fail_otherwise(body: bytes) -> None:
    with suppress(ValueError):
        retained_part(body)
