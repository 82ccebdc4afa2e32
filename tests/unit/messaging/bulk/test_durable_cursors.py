"""Durable cursors against a plain model: one live binding, positions that only rise, rows that bring all back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.messaging.bulk.durable_cursors import (
    LIMITS_DEFAULT,
    TAP,
    CursorBook,
    CursorFenced,
    CursorLimits,
    CursorRefused,
    DurableCursor,
    check_bind,
    cursor_from_row,
)
from support.thorough import examples

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["bind", "ack", "ack", "ack old", "hear", "unbind", "unbind old", "pin", "wait", "restart"]),
        st.integers(0, 3),  # partition
        st.integers(1, 50),  # sequence, or milliseconds
    ),
    max_size=60,
)


class PlainCursor:
    """What a cursor promises, in a few lines."""

    def __init__(self) -> None:
        self.epoch = 0
        self.live = False
        self.heard_ms = 0
        self.acked = dict.fromkeys(range(4), 1)


@settings(max_examples=examples(300), deadline=None)
@given(steps=STEPS)
def test_bindings_are_fenced_and_positions_only_rise(steps: list[tuple[str, int, int]]) -> None:
    """Goal: never two live epochs, never a position that falls. Method: the same steps to the model, compared."""
    cursor, model = DurableCursor("c", "q", TAP), PlainCursor()
    limits = CursorLimits(heartbeat_ms=60)
    now_ms = 0
    for step, partition, number in steps:
        match step:
            case "bind":
                model.epoch, model.live, model.heard_ms = model.epoch + 1, True, now_ms
                assert cursor.bind(f"i{number}", limits, now_ms) == model.epoch
            case "ack" | "ack old" | "hear" | "pin":
                epoch = model.epoch - (1 if step == "ack old" else 0)
                if not model.live or step == "ack old":
                    with pytest.raises(CursorFenced):
                        cursor.heartbeat(epoch, now_ms)
                    continue
                cursor.heartbeat(epoch, now_ms)
                model.heard_ms = now_ms
                if step == "ack":
                    model.acked[partition] = max(model.acked[partition], number)
                    cursor.acknowledge({partition: number}, "b")
                elif step == "pin":
                    cursor.pin({partition: number})
            case "unbind" | "unbind old":
                old = step == "unbind old"
                cursor.unbind(model.epoch - (1 if old else 0))
                model.live = model.live and old
            case "wait":
                now_ms += number
                ends = model.live and now_ms - model.heard_ms >= limits.heartbeat_ms
                assert cursor.tick(now_ms) == ends
                model.live = model.live and not ends
            case _:
                cursor, model.heard_ms = cursor_from_row(cursor.to_row()), now_ms
                cursor.resume(now_ms)
        assert (cursor.epoch, cursor.bound) == (model.epoch, model.live)
        assert [cursor.position(each) for each in range(4)] == list(model.acked.values())
        assert all(end > cursor.position(each) for each, end in cursor.pins.items())
        assert not cursor.pins or cursor.bound


def test_a_cursor_that_was_let_go_holds_nothing_until_it_has_passed_what_it_lost() -> None:
    cursor = DurableCursor("c", "q", TAP)
    cursor.bind("i", CursorLimits(lag_bytes_max=10, lag_time_ms_max=100), 0)
    assert not cursor.measure(10, 900, 1000)

    assert cursor.measure(0, 899, 1000)
    assert cursor.hold(1) is None
    assert not cursor.measure(0, 899, 1000), "it is told once"

    cursor.acknowledge({1: 5}, "")
    assert not cursor.caught_up({1: 6})
    cursor.acknowledge({1: 6}, "")
    assert cursor.caught_up({1: 6})
    assert cursor.hold(1) == 6


@pytest.mark.parametrize(
    ("mode", "name", "limits", "problem"),
    [
        ("shared", "c", LIMITS_DEFAULT, "mode 'shared'; allowed: consume or tap"),
        (TAP, "", LIMITS_DEFAULT, "1 to 200 printable"),
        (TAP, "a\nb", LIMITS_DEFAULT, "1 to 200 printable"),
        (TAP, "c", CursorLimits(lag_bytes_max=0), "lag_bytes_max 0; allowed: 1 to"),
        (TAP, "c", CursorLimits(heartbeat_ms=0), "heartbeat_ms 0; allowed: 1 to"),
    ],
)
def test_a_bind_that_cannot_be_is_refused_by_name(mode: str, name: str, limits: CursorLimits, problem: str) -> None:
    with pytest.raises(CursorRefused, match=problem):
        check_bind(mode, name, "instance", limits)


def test_a_row_that_is_no_cursor_is_refused() -> None:
    with pytest.raises(ValueError, match="mode 'browse'"):
        cursor_from_row({**DurableCursor("c", "q", TAP).to_row(), "mode": "browse"})


def test_the_book_knows_the_readers_of_a_queue() -> None:
    book = CursorBook()
    for name in ("b", "a"):
        book.add(DurableCursor(name, "q", TAP))
    assert [each.name for each in book.of("q")] == ["a", "b"]

    for cursor in book.of("q"):
        book.remove(cursor)
    assert book.queues() == []
