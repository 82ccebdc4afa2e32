"""What a publisher remembers, against a plain gateway: nothing is lost, doubled or out of order, whatever breaks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.protocols.flow.client.errors import IncarnationChanged, PublisherForgotten
from sluicegate.protocols.flow.client.messages import Message
from sluicegate.protocols.flow.client.session.outbox import Outbox
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frame import cut_frame
from sluicegate.protocols.flow.codec.frames.flow import PubOpened
from sluicegate.protocols.flow.codec.frames.publish import PubAck, Refusal, read_publish
from sluicegate.protocols.flow.codec.limits import FRAME_BYTES_MAX
from sluicegate.protocols.flow.engine.engine import FlowEngine

SPOOL = 0x5B001  # its incarnation
RESTORED = 0x5B002  # that of another one
WINDOW = 5
NOWHERE = -1  # a message without topic


def is_unlucky(number: int) -> bool:
    """Whether the gateway refuses a message: single ones, and now and then as many as a window holds."""
    return number % 7 == 0 or number % 40 > 30


class PlainGateway:
    """Stores what it gets, in order, and remembers each sequence for ever.

    A refusal counts as heard when something comes that only its answer allowed to be sent; until then its publisher
    may send the message again.
    """

    def __init__(self) -> None:
        self.stored: list[int] = []  # payloads, which are numbers
        self.decided: dict[int, bool] = {}  # by sequence: stored, or refused
        self.answered_through = 0
        self.received_through = 0

    def opens(self, outbox: Outbox) -> None:
        """Open the publisher; refusals that were not heard of are forgotten."""
        unheard = [n for n, is_stored in self.decided.items() if not is_stored and n > self.received_through - WINDOW]
        floor = min([self.answered_through, *(n - 1 for n in unheard)])
        self.decided = {n: is_stored for n, is_stored in self.decided.items() if is_stored}
        while floor + 1 in self.decided:
            floor += 1
        self.answered_through = self.received_through = floor
        highest = max([floor, *self.decided])
        outbox.opened(PubOpened(1, 1, 1, floor, highest, floor + WINDOW, SPOOL))

    def gets(self, sequence: int, number: int) -> None:
        assert self.received_through < sequence <= self.answered_through + WINDOW, "the window is kept"
        self.received_through = sequence
        if sequence not in self.decided:
            self.decided[sequence] = number != NOWHERE and not is_unlucky(number)
            if self.decided[sequence]:
                self.stored.append(number)

    def answers(self, through: int, last_before: int) -> PubAck:
        refused = [n for n in range(last_before + 1, through + 1) if self.decided.get(n) is False]
        self.answered_through = through
        refusals = [Refusal(sequence, sequence, codes.QUEUE_FULL, "q") for sequence in refused]
        return PubAck(1, through, through + WINDOW, refusals)


def sent(outbox: Outbox) -> list[tuple[int, int]]:
    """Return sequence and number of each message that the outbox sends now."""
    engine = FlowEngine(
        is_gateway=False, frame_bytes_max=FRAME_BYTES_MAX, connect_timeout_ms=1, keep_alive_ms=1, now_ms=0
    )
    engine.take()
    outbox.flow_id = 1
    outbox.pump(engine)
    found: list[tuple[int, int]] = []
    for data in engine.take():
        frame = cut_frame(data, 0, len(data), FRAME_BYTES_MAX)
        assert frame is not None
        run = read_publish(frame, data, 0, None, {})
        found.append((run.sequences[0], int(run.payloads[0]) if run.topics[0] else NOWHERE))
    return found


@given(data=st.data())
def test_a_named_publisher_stores_each_message_once_and_in_order(data: st.DataObject) -> None:
    """Flow: publishing, named publishers. Goal: whatever breaks when. Method: random steps, compared at the end."""
    outbox, gateway = Outbox("till", window=WINDOW, bytes_max=1_000_000), PlainGateway()
    on_the_way: list[tuple[int, int]] = []
    is_connected = False
    number = 0
    refused: list[int] = []
    for step in data.draw(st.lists(st.sampled_from("ppppssaab"), max_size=200)) + ["b"] + ["s", "a"] * 100:
        if step == "p" and outbox.has_room() and outbox.was_open:
            number += 1
            outbox.put(Message(str(number).encode(), queue="q"), 0, is_awaited=False)
        elif step == "s" and is_connected:
            on_the_way += sent(outbox)
        elif step == "a" and on_the_way and is_connected:
            count = data.draw(st.integers(1, len(on_the_way)))
            arrived, on_the_way = on_the_way[:count], on_the_way[count:]
            for each in arrived:
                gateway.gets(*each)
            outbox.acknowledged(gateway.answers(arrived[-1][0], gateway.answered_through))
            refused += [each.first for each in outbox.take_refusals()[0]]
        elif step == "b":  # the connection breaks; some of what is on its way arrives, and its answer does not
            for each in on_the_way[: data.draw(st.integers(0, len(on_the_way)))]:
                gateway.gets(*each)
            on_the_way = []
            outbox.interrupted("it broke")
            gateway.opens(outbox)
            is_connected = True
        outbox.check()
    assert outbox.unanswered_count == 0
    assert gateway.stored == [n for n in range(1, number + 1) if not is_unlucky(n)]
    assert refused == [n for n in range(1, number + 1) if is_unlucky(n)], "each refusal is heard once"


def test_a_window_that_was_refused_as_a_whole_does_not_stop_a_publisher_that_returns() -> None:
    """Flow: publishing. The gateway does not know that the refusals were heard, and opens the same window again."""
    outbox, gateway = Outbox("till", window=WINDOW, bytes_max=1_000_000), PlainGateway()
    gateway.opens(outbox)
    for number in (7, 14, 21, 28, 35, 36):
        outbox.put(Message(str(number).encode(), topic="t"), 0, is_awaited=False) if outbox.has_room() else None
    for each in sent(outbox):
        gateway.gets(*each)
    outbox.acknowledged(gateway.answers(5, 0))
    outbox.interrupted("it broke")
    gateway.opens(outbox)
    outbox.put(Message(b"1", topic="t"), 0, is_awaited=False)

    assert sent(outbox) == [(5, NOWHERE)]
    assert sent(outbox) == [], "once"
    gateway.gets(5, NOWHERE)
    outbox.acknowledged(gateway.answers(5, 0))
    assert sent(outbox) == [(6, 1)]
    assert outbox.take_refusals()[1] == 5


def test_a_publisher_without_a_name_sends_again_under_new_sequences() -> None:
    """Flow: publishing. The gateway does not know it again; its own numbers go on."""
    outbox = Outbox("", window=WINDOW, bytes_max=1_000_000)
    outbox.opened(PubOpened(1, 1, 0, 0, 0, WINDOW, SPOOL))
    for number in range(1, 5):
        outbox.put(Message(str(number).encode(), topic="t"), 0, is_awaited=True)
    assert sent(outbox) == [(1, 1), (2, 2), (3, 3), (4, 4)]
    outbox.acknowledged(PubAck(1, 2, 2 + WINDOW, [Refusal(2, 2, codes.QUEUE_FULL, "q")]))
    outbox.interrupted("it broke")
    outbox.opened(PubOpened(1, 1, 0, 0, 0, WINDOW, SPOOL))
    assert sent(outbox) == [(1, 3), (2, 4)]
    outbox.acknowledged(PubAck(1, 2, 2 + WINDOW, [Refusal(1, 1, codes.QUEUE_FULL, "q")]))
    assert [(each.sequence, each.refusal is not None) for each in outbox.answered] == [
        (1, False), (2, True), (3, True), (4, False),
    ]  # fmt: skip


def test_a_publisher_whose_history_is_gone_does_not_guess() -> None:
    """Flow: publishing, named publishers. What was stored before the gateway forgot would be stored twice."""
    outbox = Outbox("till", window=WINDOW, bytes_max=1_000_000)
    outbox.opened(PubOpened(1, 1, 1, 10, 10, 10 + WINDOW, SPOOL))
    outbox.interrupted("it broke")
    outbox.opened(PubOpened(1, 1, 1, 0, 0, WINDOW, SPOOL))
    with pytest.raises(PublisherForgotten, match="'till'"):
        outbox.put(Message(b"x", topic="t"), 0, is_awaited=False)


def publisher_in_another_spool(stored_through: int, stored_highest: int) -> Outbox:
    """Return a publisher that had 10 answered, 9 and 10 with a refusal, and 11 sent, and finds a restored spool."""
    outbox = Outbox("till", window=WINDOW, bytes_max=1_000_000)
    outbox.opened(PubOpened(1, 1, 1, 7, 7, 7 + WINDOW, SPOOL))
    for number in range(8, 12):
        outbox.put(Message(str(number).encode(), topic="t"), 0, is_awaited=False)
    assert [sequence for sequence, _ in sent(outbox)] == [8, 9, 10, 11]
    outbox.acknowledged(PubAck(1, 10, 10 + WINDOW, [Refusal(9, 10, codes.QUEUE_FULL, "q")]))
    outbox.interrupted("it broke")
    outbox.opened(PubOpened(1, 1, 1, stored_through, stored_highest, stored_through + WINDOW, RESTORED))
    return outbox


@pytest.mark.parametrize("stored", [8, 9, 10])
def test_a_publisher_goes_on_in_a_restored_spool_that_has_just_what_was_confirmed(stored: int) -> None:
    """Flow: publishing, incarnations. What was refused need not be there."""
    outbox = publisher_in_another_spool(stored, stored)
    assert sent(outbox) == [(11, 11)]
    assert outbox.incarnation == RESTORED
    outbox.check()


@pytest.mark.parametrize(
    ("stored_through", "stored_highest"),
    [
        pytest.param(7, 7, id="the last that was confirmed is missing"),
        pytest.param(7, 8, id="something below the last that was confirmed may be missing"),
        pytest.param(0, 0, id="nothing is there"),
        pytest.param(8, 11, id="somebody has used the name, or an answer was lost"),
        pytest.param(500, 500, id="it is another story altogether"),
    ],
)
def test_a_publisher_in_another_spool_does_not_guess(stored_through: int, stored_highest: int) -> None:
    """Flow: publishing, incarnations. Nothing is lost, and nothing doubled, without a word."""
    outbox = publisher_in_another_spool(stored_through, stored_highest)
    with pytest.raises(IncarnationChanged, match=r"'till'.*000000000005b002.*000000000005b001"):
        outbox.check_running()


def test_a_publisher_without_a_name_has_nothing_to_miss_in_another_spool() -> None:
    """Flow: publishing. It sends again what was not answered, as over any connection."""
    outbox = Outbox("", window=WINDOW, bytes_max=1_000_000)
    outbox.opened(PubOpened(1, 1, 0, 0, 0, WINDOW, SPOOL))
    outbox.put(Message(b"1", topic="t"), 0, is_awaited=False)
    assert sent(outbox) == [(1, 1)]
    outbox.interrupted("it broke")
    outbox.opened(PubOpened(1, 1, 0, 0, 0, WINDOW, RESTORED))
    assert sent(outbox) == [(1, 1)]


def test_a_message_that_a_changed_gateway_has_no_frame_for_is_refused_alone() -> None:
    """Flow: frames. Its sequence remains a gap, and the others go on."""
    outbox = Outbox("till", window=WINDOW, bytes_max=1_000_000)
    outbox.opened(PubOpened(1, 1, 1, 0, 0, WINDOW, SPOOL))
    for size in (10, 5_000, 10):
        outbox.put(Message(b"1" * size, topic="t"), 0, is_awaited=True)
    outbox.interrupted("it broke")
    outbox.frame_bytes_max = 4_096
    outbox.opened(PubOpened(1, 1, 2, 0, 0, WINDOW, SPOOL))
    assert [sequence for sequence, _ in sent(outbox)] == [1, 3]
    (refused,) = outbox.answered
    assert refused.refusal is not None
    assert (refused.sequence, refused.refusal.code) == (2, codes.FRAME_TOO_LARGE)
    outbox.check()


def test_few_large_messages_fill_a_window_as_many_small_ones_do() -> None:
    """The limit of bytes: one message may go beyond it, so that none is too large for ever."""
    outbox = Outbox("", window=1_000, bytes_max=10_000)
    outbox.opened(PubOpened(1, 1, 0, 0, 0, 1_000, SPOOL))
    outbox.put(Message(bytes(50_000), topic="t"), 0, is_awaited=False)
    assert not outbox.has_room()
    sent_count = outbox.unanswered_count
    outbox.acknowledged(PubAck(1, sent_count, 1_001, []))
    assert outbox.has_room()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "topic or to a queue"),
        ({"topic": "t", "queue": "q"}, "topic or to a queue"),
        ({"topic": "t", "priority": 10}, "priorities are 0 to 9"),
        ({"topic": "t", "ttl_ms": -1}, "0 or more"),
        ({"topic": "t", "key": ""}, "1 to 255 bytes"),
        ({"topic": "t", "key": "ø" * 128}, "1 to 255 bytes"),
        ({"topic": "t", "ttl_ms": 1, "properties": [("n", 1)] * 1024}, "1025 properties"),
    ],
)
def test_a_message_that_cannot_be_said_is_refused_when_it_is_made(arguments: dict[str, object], problem: str) -> None:
    """Flow: publishing."""
    with pytest.raises(ValueError, match=problem):
        Message(b"x", **arguments)  # type: ignore[arg-type]  # each case is wrong on purpose
