"""The record of a session that moves: places among the messages of its queue, in place of their sequences."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.message.batch import EXACTLY_ONCE
from sluicegate.protocols.mqtt.session.moved import obstacle_to, record_of, rows_in
from sluicegate.protocols.mqtt.session.session import Session

SEQUENCES = st.lists(st.integers(1, 60), unique=True, min_size=1, max_size=30).map(sorted)


def ranges_of(sequences: list[int]) -> list[tuple[int, int]]:
    return [(each, each + 1) for each in sequences]


def session_with(sent: dict[int, int], received: list[int], below: int = 0) -> Session:
    session = Session("c", expiry_s=60)
    session.ids.partition_id = 7
    for sequence, packet_id in sent.items():
        session.ids.remember(sequence, packet_id, 1, EXACTLY_ONCE)
    for sequence in received:
        session.ids.add_received(sequence, sequence + 1)
    session.ids.maybe_sent_below = below
    return session


def moved(session: Session, here: list[int], there: list[int]) -> tuple[dict[int, int], list[int], int]:
    """Return packet ids by sequence, received sequences, and below what is in doubt, at the new home."""
    state = session.state_row(will=None, closed_wall_ms=1)
    record = record_of(session, state, session.ids_row(), ranges_of(here))
    rows = dict(rows_in(record, 9, ranges_of(there)))
    ids: dict[str, list[Any]] = {"sent": [], "taken": [9, []]}
    if session.ids_key() in rows:
        ids = orjson.loads(rows[session.ids_key()])
    assert ids["taken"][0] == 9
    sent = {first + each: packet_id + each for first, packet_id, count, _ in ids["sent"] for each in range(count)}
    received = [each for first, end in ids["taken"][1] for each in range(first, end)]
    return sent, received, orjson.loads(rows[session.state_key()])["maybe_sent_below"]


@given(SEQUENCES, SEQUENCES, st.data())
def test_packet_ids_go_with_their_messages(here: list[int], there: list[int], data: st.DataObject) -> None:
    count = min(len(here), len(there))
    here, there = here[:count], there[:count]
    chosen = data.draw(st.lists(st.sampled_from(here), unique=True))
    sent = {each: 100 + each for each in chosen[::2]}
    received = sorted(chosen[1::2])
    to = dict(zip(here, there, strict=True))
    below = data.draw(st.integers(0, 70))
    found = moved(session_with(sent, received, below), here, there)
    in_doubt = [each for each in here if each < below]
    assert found[0] == {to[sequence]: packet_id for sequence, packet_id in sent.items()}
    assert found[1] == [to[each] for each in received]
    assert found[2] == (to[in_doubt[-1]] + 1 if in_doubt else 0)


def test_what_is_not_in_the_queue_any_more_is_not_in_the_record() -> None:
    assert moved(session_with({3: 30, 5: 50}, [4]), [5, 6], [1, 2]) == ({1: 50}, [], 0)


@pytest.mark.parametrize(
    ("sent", "unsettled", "moves"),
    [({}, [1, 2], True), ({1: 10, 2: 20}, [1, 2, 3], True), ({1: 10, 3: 30}, [1, 3], True), ({2: 20}, [1, 2], False)],
)
def test_a_message_that_was_not_sent_is_behind_those_that_were(
    sent: dict[int, int], unsettled: list[int], moves: bool
) -> None:
    assert (obstacle_to(session_with(sent, []), ranges_of(unsettled)) == "") is moves


@pytest.mark.parametrize("record", ["", "{}", '{"client": "c"}', "[]"])
def test_a_record_of_something_else_is_refused(record: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of whichever reader
        rows_in(record, 9, [])
