"""What clients have begun and not finished is counted, and has a bound for all of them together."""

from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.message.thresholds import Exceedance
from sluicegate.protocols.transport.interface import SHORT_PIECE_BYTES, append_piece
from sluicegate.protocols.transport.unfinished import COUNTED_BYTES_MIN, UnfinishedBytes, UnfinishedShare

BYTES_MAX = 50_000
STEPS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30_000)), max_size=60)


class Clients:
    """Connections by number, each of which lets go of all that it holds when it is told to."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self.room = UnfinishedBytes(bytes_max)
        self.ended: list[int] = []
        self._shares: dict[int, UnfinishedShare | None] = {}

    def holds(self, number: int, size: int) -> None:
        share = self.room.count(self._shares.get(number), size, lambda: self.ended.append(number))
        self._shares[number] = share
        self.room.check()


@given(STEPS)
def test_all_clients_together_hold_no_more_than_the_bound(steps: list[tuple[int, int]]) -> None:
    clients, model = Clients(), dict[int, int]()
    for number, size in steps:
        model.pop(number, None)
        if size >= COUNTED_BYTES_MIN:
            model[number] = size
        before = len(clients.ended)
        clients.holds(number, size)
        for ended in clients.ended[before:]:
            assert sum(model.values()) > BYTES_MAX, "there was no room"
            assert ended == next(iter(model)), "it had gone on with nothing for the longest time"
            del model[ended]
        assert clients.room.used_bytes == sum(model.values()) <= BYTES_MAX
    assert clients.room.ended_count == len(clients.ended)


def test_a_client_that_stopped_sending_makes_room_for_another() -> None:
    """However much the other one sends, and the order in which they began."""
    clients = Clients()
    clients.holds(1, 20_000)
    clients.holds(2, 20_000)
    for size in range(21_000, 40_000, 1000):
        clients.holds(1, size)
    assert clients.ended == [2]


def test_one_that_needs_more_than_there_is_ends_itself() -> None:
    clients = Clients()
    clients.holds(1, BYTES_MAX)
    clients.holds(1, BYTES_MAX + 1)
    assert (clients.ended, clients.room.used_bytes) == ([1], 0)
    clients.holds(1, 0)
    clients.holds(1, 5000)
    assert clients.room.used_bytes == 5000


def test_little_is_not_counted() -> None:
    """A read ends in the middle of a small packet most of the time."""
    clients = Clients()
    for number in range(100):
        clients.holds(number, COUNTED_BYTES_MIN - 1)
    assert (clients.ended, clients.room.used_bytes) == ([], 0)


def test_a_bound_that_is_lowered_counts_from_the_next_byte_on() -> None:
    clients = Clients()
    clients.holds(1, 30_000)
    clients.room.bytes_max = 20_000
    clients.holds(2, 10_000)
    assert clients.ended == [1]


def test_it_is_reported_once_and_again_after_a_tenth_of_the_bound_came_in() -> None:
    clients = Clients()
    told: list[int] = []
    clients.room.exceeded = Exceedance(told.append)
    for number in range(3):
        clients.holds(number, 30_000)
    assert clients.ended == [0, 1]
    assert told == [BYTES_MAX] * 2


def test_short_pieces_are_put_together() -> None:
    """Two thousand single bytes would take fifty times what they are."""
    pieces: list[bytes] = []
    for number in range(5000):
        append_piece(pieces, bytes([number % 251]))
        append_piece(pieces, b"")
    assert len(pieces) <= 1 + 5000 // SHORT_PIECE_BYTES
    assert b"".join(pieces) == bytes([number % 251 for number in range(5000)])
