"""What a connection writes at the end of a turn, and clients that are slow to read or never read."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from sluicegate.protocols.amqp.codec.frames import HEARTBEAT, answer_bytes, frame
from sluicegate.protocols.amqp.codec.transfers import first_transfer, handle_bytes, next_transfer, transfer_lead
from sluicegate.protocols.connection.counters import ProtocolCounters
from sluicegate.protocols.connection.write_control import (
    LARGE_BYTES,
    UNREAD_RESPONSES_BYTES_MAX,
    UnreadResponses,
    WriteControl,
    gathered,
)
from support.cores.lone_actors import Idle, lone_runtime, spawned
from support.network.full_socket import FullSocket


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts its timers."""

    timers_count = 0

    def call_later(self, *arguments: object, **options: object) -> asyncio.TimerHandle:
        self.timers_count += 1
        return super().call_later(*arguments, **options)  # type: ignore[arg-type]  # passed on as they are


def test_a_client_that_falls_behind_again_and_again_has_one_timer() -> None:
    """Each would have gone on for as long as it found the client behind."""
    loop = CountingLoop()
    with lone_runtime(loop=loop) as runtime:
        cell = spawned(runtime, Idle)
        watch = WriteControl(cell, ProtocolCounters(), buffer_bytes_max=1, slow_subscriber_stall_ms=1000)
        watch.attach(FullSocket())
        for _ in range(100):
            watch.writing_paused()
            watch.writing_resumed()
        watch.writing_paused()
        assert loop.timers_count == 1
        runtime.stop()


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


PIECE_BYTES = UNREAD_RESPONSES_BYTES_MAX // 16


class SlowSocket(FullSocket):
    """A socket that takes what a test says."""

    def __init__(self) -> None:
        self.buffered = 500_000

    def buffered_bytes(self) -> int:
        return self.buffered


def test_a_client_that_takes_nothing_may_have_so_much_unread_and_no_more() -> None:
    answers, transport = UnreadResponses(), SlowSocket()
    answers.begin(7)
    answered = 7
    for _ in range(15):
        answered += PIECE_BYTES
        transport.buffered += PIECE_BYTES
        assert not answers.are_too_many(answered, PIECE_BYTES, transport)
    transport.buffered += PIECE_BYTES
    assert answers.are_too_many(answered + PIECE_BYTES, PIECE_BYTES, transport)


def test_a_client_that_is_behind_for_ever_and_reads_on_is_left_alone() -> None:
    """It is sent messages as well, so what it is answered lies among them, and as much as before always waits."""
    answers, transport = UnreadResponses(), SlowSocket()
    answers.begin(0)
    for number in range(1, 1000):
        assert not answers.are_too_many(number * PIECE_BYTES, 2 * PIECE_BYTES, transport)


def test_a_client_that_takes_a_little_for_show_is_cut_off() -> None:
    answers, transport = UnreadResponses(), SlowSocket()
    answers.begin(0)
    unread = transport.buffered
    for number in range(1, 1000):
        transport.buffered += PIECE_BYTES - (1000 if number % 16 == 0 else 0)
        if answers.are_too_many(number * PIECE_BYTES, PIECE_BYTES, transport):
            break
    assert transport.buffered - unread <= 2 * UNREAD_RESPONSES_BYTES_MAX


def test_transfers_and_their_payloads_are_no_answers() -> None:
    """AMQP 2.7.5: they are within the client's credit and window."""
    lead, handle = transfer_lead(0), handle_bytes(0)
    answer = frame(0, b"answer")
    first = first_transfer(lead, handle, 0, b"tag", 0, settled=False, more=True, room=2000)
    rest = next_transfer(lead, handle, more=False, room=10)
    pieces = [answer, first, bytes(2000), rest, b"\0" * 10, HEARTBEAT, first, bytes(2000), answer]
    assert answer_bytes(pieces) == 2 * len(answer) + len(HEARTBEAT)
