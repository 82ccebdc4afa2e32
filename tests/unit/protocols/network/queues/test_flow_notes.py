"""The bodies of LINK_FLOW: written, read again, and read when they are broken."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.protocols.network.queues import notes
from sluicegate.protocols.network.queues.notes import FlowNote, note_body, note_in

numbers = st.integers(0, (1 << 53) - 1)


@given(st.sampled_from(sorted(notes.KINDS)), numbers, st.lists(st.one_of(numbers, st.text(), st.booleans())))
def test_a_note_is_read_as_it_was_written(kind: int, consumer: int, values: list[object]) -> None:
    found = note_in(note_body(kind, consumer, *values))
    assert (found.kind, found.consumer, found.values) == (kind, consumer, values)


@given(st.binary(max_size=100))
def test_any_bytes_are_a_note_or_refused(body: bytes) -> None:
    with suppress(ValueError):
        note_in(body)


@pytest.mark.parametrize("body", [b"", note_body(0, 1), note_body(99, 1), note_body(notes.CREDIT, 1)[:-1] + b"x"])
def test_a_note_that_cannot_be_read_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"LINK_FLOW|JSON|unexpected"):
        note_in(body)


@pytest.mark.parametrize(
    ("values", "reader"),
    [
        ([], "number"),
        ([-1], "number"),
        (["1"], "number"),
        ([True], "number"),
        ([1 << 63], "number"),
        ([[[0, 1 << 63]]], "ranges"),
        ([1], "text"),
        ([1], "flag"),
        ([["x"]], "numbers"),
        ([[]], "ranges"),
        ([[[5, 5]]], "ranges"),
        ([[[1, 2, 3]]], "ranges"),
    ],
)
def test_a_value_of_another_kind_is_refused(values: list[object], reader: str) -> None:
    note = FlowNote(notes.SETTLE, 1, values)
    with pytest.raises(ValueError, match="LINK_FLOW of kind 5"):
        getattr(note, reader)(0)
