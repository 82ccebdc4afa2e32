"""The buffers that a turn's pieces are written as."""

from hypothesis import given
from hypothesis import strategies as st

from sluicegate.protocols.connection.write_control import LARGE_BYTES, gathered

SIZES = st.one_of(st.integers(0, 100), st.sampled_from([LARGE_BYTES - 1, LARGE_BYTES, LARGE_BYTES + 1]))


@given(st.lists(SIZES, max_size=70))
def test_buffers_are_the_pieces_in_order_and_hardly_more_than_large_ones(sizes: list[int]) -> None:
    pieces = [bytes((index,)) * size for index, size in enumerate(sizes)]
    buffers = gathered(pieces)
    assert b"".join(buffers) == b"".join(pieces)
    assert len(buffers) <= 2 * sum(size >= LARGE_BYTES for size in sizes) + 1


def test_a_large_piece_is_written_as_it_is_and_not_copied() -> None:
    large = bytes(LARGE_BYTES)
    assert gathered([b"head", b"id", large]) == [b"headid", large]
    assert gathered([b"head", large, b"tail", b"more"])[1] is large


def test_nothing_to_say_is_nothing_to_write() -> None:
    assert gathered([]) == []
