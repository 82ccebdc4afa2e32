"""Requests of readers and their answers as notes: what is written is read, and what is broken is refused."""

import pytest

from sluicegate.actors.messages.readers import (
    AckCursor,
    AskHome,
    AskPartitions,
    BindCursor,
    CursorBound,
    CursorPosition,
    CursorSeen,
    CursorStatus,
    DeleteCursor,
    DescribeLog,
    FindRangeEnd,
    HeartbeatCursor,
    LogOverview,
    LookAtCursor,
    PinCursor,
    RangeChunk,
    ReaderRequest,
    ReadRange,
    UnbindCursor,
)
from sluicegate.messaging.bulk.durable_cursors import NAME_CHARS_MAX, CursorLimits
from sluicegate.messaging.partitions.state.segments import Gap
from sluicegate.protocols.network.queues import reader_notes
from sluicegate.protocols.network.queues.notes import CHUNK, NUMBER_MAX, READER, TOLD, FlowNote, note_body, note_in

POSITIONS = [CursorPosition(0, 11, 1, 5, 9, 400), CursorPosition(1, 12, 2, 2, 2, 0)]
REQUESTS: list[ReaderRequest] = [
    AskPartitions(1, ReadRange(5, 9, 1_000)),
    AskPartitions(None, DescribeLog()),
    AskPartitions(0, FindRangeEnd(5, 0, 7)),
    AckCursor("q", "c", 3, {0: 5, 1: 7}, "query/7"),
    PinCursor("q", "c", 3, {}),
    CursorStatus("q", "c", 3, 60_000, {1: 7}),
    HeartbeatCursor("q", "c", 3),
    UnbindCursor("q", "c", 3),
    DeleteCursor("q", "c"),
    LookAtCursor("q", "c"),
]


def crossed(request: ReaderRequest, *, user: str = "ada") -> ReaderRequest:
    """Return a request as it arrives from broker a."""
    body = note_body(READER, 7, *reader_notes.request_values("q", AskHome(user, request, 99)))
    found = reader_notes.request_in(note_in(body), "a")
    assert found is not None
    queue, asked = found
    assert (queue, asked.user) == ("q", user)
    return asked.request


def answered(request: ReaderRequest, answer: object) -> object:
    """Return an answer as it arrives from a broker whose spool has incarnation 99."""
    note = note_in(note_body(TOLD, 7, *reader_notes.answer_values(request, answer)))
    return reader_notes.answer_in(request, note, 99)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_a_request_arrives_as_it_was_made(request_: ReaderRequest) -> None:
    assert crossed(request_) == request_


def test_who_binds_a_cursor_is_shown_with_its_broker() -> None:
    """As consumers are; a name that would be too long then is left as it is."""
    limits = CursorLimits(1 << 40, 5, 30_000)
    bind = BindCursor("q", "c", "tap", "spark", "latest", limits)
    assert crossed(bind) == BindCursor("q", "c", "tap", "spark@a", "latest", limits)
    bind.instance = "x" * NAME_CHARS_MAX
    assert crossed(bind) == bind


def test_numbers_beyond_those_of_a_queue_are_cut_and_do_not_end_the_link() -> None:
    """Clients may ask for any number of 64 bits; notes have those of 63."""
    most = (1 << 64) - 1
    assert crossed(AskPartitions(0, ReadRange(1, most, 10))) == AskPartitions(0, ReadRange(1, NUMBER_MAX, 10))
    assert crossed(CursorStatus("q", "c", most, 0, {0: most})) == CursorStatus("q", "c", NUMBER_MAX, 0, {0: NUMBER_MAX})


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (REQUESTS[1], [LogOverview(0, 11, 1, 9, 10, 500, {}), LogOverview(1, 12, 1, 1, 1, 0, {})]),
        (REQUESTS[2], [12]),
        (BindCursor("q", "c", "tap", "i"), CursorBound(4, 99, POSITIONS)),
        (REQUESTS[3], POSITIONS),
        (REQUESTS[4], None),
        (REQUESTS[5], POSITIONS),
        (REQUESTS[6], None),
        (REQUESTS[7], None),
        (REQUESTS[8], None),
        (REQUESTS[9], CursorSeen(4, "query/7", POSITIONS)),
    ],
    ids=lambda each: type(each).__name__,
)
def test_an_answer_arrives_as_it_was_given(request_: ReaderRequest, answer: object) -> None:
    assert answered(request_, answer) == answer


def test_the_end_of_a_chunk_has_its_gaps() -> None:
    chunk = RangeChunk(0, 1, 9, 12, [], [Gap(1, 3, "settled"), Gap(5, 9, "expired")])
    note = note_in(note_body(CHUNK, 7, *reader_notes.chunk_values(chunk)))
    assert (note.number(0), note.number(1), reader_notes.gaps_in(note, 2)) == (9, 12, chunk.gaps)


def test_a_request_of_a_later_release_is_known_as_such() -> None:
    assert reader_notes.request_in(FlowNote(READER, 7, ["colour", "q", "ada", 1]), "a") is None


@pytest.mark.parametrize(
    "values",
    [
        [],
        ["read", "q"],
        ["read", "q", "ada", 0, 1],
        ["read", "q", "ada", 0, 1, -5, 10],
        ["cut", "q", "ada", None, 1, 5, 10],
        ["ack", "q", "ada", "c", 1, [[0, 1, 2]], ""],
        ["bind", "q", "ada", "c", "tap", 1, "", 1, 1, 1],
        ["look", "q", "ada", None],
    ],
)
def test_a_request_that_cannot_be_read_is_refused(values: list[object]) -> None:
    with pytest.raises(ValueError, match="LINK_FLOW of kind 21"):
        reader_notes.request_in(FlowNote(READER, 7, values), "a")


@pytest.mark.parametrize("gaps", [None, [1], [[1, 2]], [[2, 2, "settled"]], [[1, 2, 3]], [[True, 2, "settled"]]])
def test_gaps_that_cannot_be_read_are_refused(gaps: object) -> None:
    with pytest.raises(ValueError, match="LINK_FLOW of kind 22: value 2"):
        reader_notes.gaps_in(FlowNote(CHUNK, 7, [1, 2, gaps]), 2)
