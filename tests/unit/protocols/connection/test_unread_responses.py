"""When a client that is always behind is one that reads nothing."""

from sluicegate.protocols.amqp.codec.frames import HEARTBEAT, answer_bytes, frame
from sluicegate.protocols.amqp.codec.transfers import first_transfer, handle_bytes, next_transfer, transfer_lead
from sluicegate.protocols.connection.write_control import UNREAD_RESPONSES_BYTES_MAX, UnreadResponses
from support.network.full_socket import FullSocket

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
