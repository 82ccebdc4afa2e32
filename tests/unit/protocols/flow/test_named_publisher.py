"""What is remembered of a publisher by its name, against a plain model, over crashes at any moment."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.protocols.flow.publishers.publisher import EPOCH_PLACE, NamedPublisher, place_of_row
from support.thorough import examples

WINDOW = 8


class Story:
    """A publisher, a gateway and a store. Each step may be followed by a crash, after which only rows are left.

    The publisher sends what it has no answer for, in order, within its window. The model is the set of sequences that
    the store has, and it must never have one twice; what was refused must come again until its refusal was heard.
    """

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.stored: list[int] = []  # every sequence that was written, as often as it was
        self.named = NamedPublisher("p")
        self.sent_through = 0  # the client's side
        self.answered_through = 0
        self.refused: set[int] = set()  # the client heard so
        self.open_again()

    def open_again(self) -> None:
        """A new connection: the client learns how far it is answered for, and sends the rest again."""
        self.named.begin_again(10)
        assert self.named.highest() >= max(self.stored, default=0), "who has lost count finds a sequence that is new"
        for key, value in self.named.opened_rows():
            if value is None:
                del self.rows[key]
            else:
                self.rows[key] = value
        self.named.is_copy = False
        self.line: list[tuple[int, int, bool]] = []  # first, last, refused: answered at the gateway, not sent
        self.gateway_through = self.named.floor
        self.received_through = self.named.floor
        self.answered_through = max(self.answered_through, self.named.floor)
        self.next_to_send = self.named.floor + 1

    def publish(self, count: int, refuse: bool) -> None:
        """The client sends a run of what it may; the gateway writes it with its row, or refuses it."""
        limit = min(self.gateway_through + WINDOW, self.next_to_send + count - 1)
        run = [each for each in range(self.next_to_send, limit + 1) if each not in self.refused]
        self.next_to_send = limit + 1
        if not run:
            return
        self.received_through = run[-1]
        fresh = [each for each in run if each not in self.named.stored]
        if refuse:
            for each in fresh:
                self.line.append((each, each, True))
        else:
            for each in fresh:
                key, value = self.named.row_of(each, each)
                self.rows[key] = value  # the commit that brings the message
                self.stored.append(each)
        self.line += [(each, each, False) for each in run if not refuse or each not in fresh]
        self.line.sort()
        self.sent_through = max(self.sent_through, run[-1])

    def answer(self, is_heard: bool) -> None:
        """The gateway answers all of it; with `is_heard` the client gets the PUB_ACK."""
        refused = []
        for first, last, was_refused in self.line:
            self.gateway_through = last
            if was_refused:
                self.named.note_refused(first, last)
                refused.append(first)
            else:
                self.named.note_stored(first, last)
        self.line = []
        self.named.advance(self.gateway_through, self.received_through - WINDOW)
        if is_heard:
            self.answered_through = self.gateway_through
            self.refused |= set(refused)
        else:
            self.open_again()  # the connection broke: nothing behind it is heard either

    def crash(self) -> None:
        """The gateway comes back with what the store has."""
        named = NamedPublisher("p")
        for key, value in self.rows.items():
            name, place = place_of_row(key)
            assert name == "p"
            named.restore(place, value)
        self.named = named
        self.open_again()

    def move(self) -> None:
        """The publisher moves to another gateway, with another store that may have an older state of it."""
        for first, last, was_refused in self.line:
            if not was_refused:
                self.named.note_stored(first, last)
        named = NamedPublisher("p")
        named.take_over(self.named.record(1), 2)
        named.replaces(self.named)
        for key, value in named.rows():
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value
        self.named = named
        self.open_again()

    def check(self) -> None:
        self.named.check()
        assert len(self.stored) == len(set(self.stored)), "nothing is stored twice"
        floor = self.named.floor
        missing = set(range(1, floor + 1)) - set(self.stored) - self.refused
        assert missing == set(), "what lies below the floor is stored, or its refusal was heard"
        # One refused sequence keeps the floor below it until a window later, and a window is under way above that.
        assert len(self.rows) <= 2 * WINDOW + 1, "places are used again"


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 4), st.booleans()),
        st.tuples(st.just("answer"), st.just(0), st.booleans()),
        st.tuples(st.just("crash"), st.just(0), st.just(False)),
        st.tuples(st.just("move"), st.just(0), st.just(False)),
    ),
    max_size=60,
)


@settings(max_examples=examples(200))
@given(steps=STEPS)
def test_nothing_is_stored_twice_and_no_refusal_is_lost(steps: list[tuple[str, int, bool]]) -> None:
    """Flow: publishing, resumption. Method: any order of runs, answers, broken connections and crashes."""
    story = Story()
    for kind, count, flag in steps:
        if kind == "publish":
            story.publish(count, flag)
        elif kind == "answer":
            story.answer(flag)
        elif kind == "move":
            story.move()
        else:
            story.crash()
        story.check()


def test_a_row_is_found_again_by_its_key_whatever_the_name() -> None:
    """Names may hold what separates the parts of a key."""
    named = NamedPublisher("a/b\0\xff\xff")
    key, _ = named.row_of(1, 3)

    assert place_of_row(key) == ("a/b\0\xff\xff", 0)
    assert place_of_row(named.epoch_row()[0]) == ("a/b\0\xff\xff", EPOCH_PLACE)


@pytest.mark.parametrize("floor", [0, 4, 8, 10])
@pytest.mark.parametrize("newest_first", [True, False])
def test_rows_are_understood_in_any_order_wherever_the_floor_lies(floor: int, newest_first: bool) -> None:
    """A row of several sequences may reach across a floor that a later row has raised."""
    written = NamedPublisher("p")
    rows = [written.row_of(1, 8)]
    written.advance(floor, 0)
    rows += [written.row_of(9, 10)] if floor < 8 else [written.epoch_row()]
    found = NamedPublisher("p")
    for key, value in reversed(rows) if newest_first else rows:
        found.restore(place_of_row(key)[1], value)
        found.check()

    last = 10 if floor < 8 else floor
    assert (found.floor, found.highest()) == (floor, last)
    assert found.stored.total == last - floor


def test_all_rows_of_a_publisher_can_be_deleted() -> None:
    named = NamedPublisher("p")
    keys = [named.row_of(1, 3)[0], named.row_of(4, 4)[0], named.epoch_row()[0]]

    assert [key for key, value in named.rows_to_delete() if value is None] == keys


@pytest.mark.parametrize("user", ["", "mia", "Zoë", "ann\0eve"])
def test_a_publisher_comes_back_with_its_user_and_the_window_that_it_had(user: str) -> None:
    written = NamedPublisher("p")
    written.user = user
    written.begin_again(300)
    found = NamedPublisher("p")
    found.restore(EPOCH_PLACE, written.epoch_row()[1])
    assert (found.user, found.window, found.epoch) == (user, 300, 1)

    found.was_cut_off = True
    found.begin_again(20)
    assert found.window == 300, "it may have had so many in flight when it was cut off"
    found.was_cut_off = False
    found.begin_again(20)
    assert found.window == 20


@pytest.mark.parametrize("user", ["", "mia"])
def test_rows_of_earlier_releases_say_nothing_of_a_window(user: str) -> None:
    found = NamedPublisher("p")
    found.restore(EPOCH_PLACE, struct.pack(">QI", 7, 2) + user.encode())
    assert (found.user, found.window, found.epoch, found.floor) == (user, 0, 2, 7)


def test_a_publisher_that_moves_keeps_the_incarnation_that_its_client_knows() -> None:
    """The next one is another one as soon as the spool at the new home is."""
    first = NamedPublisher("p")
    first.user = "ann\0\1\0eve"
    second, third, read = NamedPublisher("p"), NamedPublisher("p"), NamedPublisher("p")
    second.take_over(first.record(0xA), 0xB)
    third.take_over(second.record(0xB), 0xC)
    for key, value in third.rows():
        assert value is not None
        read.restore(place_of_row(key)[1], value)
    assert [0xB ^ second.lineage, 0xC ^ third.lineage, 0xC ^ read.lineage] == [0xA, 0xA, 0xA]
    assert (read.user, read.window) == (first.user, first.window)
    assert 0xD ^ read.lineage != 0xA


@pytest.mark.parametrize(
    "record",
    [
        "",
        "[]",
        "{}",
        '{"user":"","epoch":1,"floor":5,"stored":[[4,6]],"window":0,"was_cut_off":false,"incarnation":1}',
        '{"user":"","epoch":-1,"floor":5,"stored":[],"window":0,"was_cut_off":false,"incarnation":1}',
        '{"user":"","epoch":1,"floor":5,"stored":null,"window":0,"was_cut_off":false,"incarnation":1}',
    ],
)
def test_a_record_that_another_broker_cannot_have_made_is_refused(record: str) -> None:
    with pytest.raises(ValueError, match=r"record of a publisher|JSON|empty|input|characters"):
        NamedPublisher("p").take_over(record, 2)
