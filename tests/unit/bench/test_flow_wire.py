"""What the load generator of the flow protocol says and understands, held against the gateway's own codec."""

from hypothesis import given
from hypothesis import strategies as st

from bench.wire import flow as wire
from sluicegate.protocols.flow.codec.frame import PREFACE
from sluicegate.protocols.flow.codec.frames.deliver import DeliverHead, write_deliver
from sluicegate.protocols.flow.codec.frames.flow import Bind, OpenPub, PubOpened
from sluicegate.protocols.flow.codec.frames.publish import PubAck, PublishesReceived
from sluicegate.protocols.flow.codec.frames.settle import Settle
from support.flow.golden import decoded

NUMBERS = st.integers(0, 1 << 31) | st.integers(-30, 30).map(lambda off: wire.RUN + off)


def delivery(delivery_id: int, payload: bytes) -> bytes:
    head = DeliverHead(
        wire.FLOW, 0, 1, delivery_count=1, redelivered=False, was_direct=False, first_of_group=False, received_ms=1
    )
    return write_deliver(head, delivery_id, delivery_id, topic=b"t", headers=None, payload=payload, wall_ms=0)


def test_requests_are_what_the_gateway_understands() -> None:
    """Flow: frame types."""
    assert wire.greeting("c").startswith(PREFACE)
    assert decoded(wire.open_publisher("p", 9)) == OpenPub(wire.FLOW, 1, "p", 9)
    assert decoded(wire.bind("q")) == Bind(wire.FLOW, 1, "q", 0, 1 << 62)
    assert decoded(wire.settle_through(7)) == Settle(wire.FLOW, 7, ())
    assert wire.sequence_limit(PubOpened(1, 1, 3, 4, 5, 1_004, 6).encode()) == 1_004
    assert wire.answered_through(PubAck(1, 12, 1_012, []).encode(), 0) == 12


@given(first=NUMBERS, count=st.integers(1, 40))
def test_numbers_are_put_into_all_frames_at_once(first: int, count: int) -> None:
    """Flow: publishing, PUBLISH: sequence and payload."""
    template = wire.publish_template("t", 10)
    size = len(template)
    frames = bytearray(template * count)
    wire.put_numbers(frames, count, size, wire.PUBLISH_SEQUENCE_AT + 8, first + 1)
    wire.put_numbers(frames, count, size, size - 6, first)
    for number in range(count):
        run = decoded(bytes(frames[number * size : (number + 1) * size]))
        assert isinstance(run, PublishesReceived)
        assert (run.sequences, run.payloads) == ([first + number + 1], [(first + number).to_bytes(4, "big") + bytes(6)])


@given(first=NUMBERS, count=st.integers(1, 40), wrong=st.none() | st.integers(0, 39))
def test_a_number_that_does_not_follow_is_seen(first: int, count: int, wrong: int | None) -> None:
    """Flow: consuming, DELIVER: delivery id."""
    ids = list(range(first + 1, first + 1 + count))
    if wrong is not None:
        ids[wrong % count] += 1
    data = b"".join(delivery(each, bytes(10)) for each in ids)
    size = wire.deliver_bytes("t", 10)
    assert wire.deliveries_in_front(data, size) == count
    assert wire.numbers_follow(data, count, size, wire.DELIVER_ID_AT + 8, first + 1) == (wrong is None)


@given(before=st.integers(0, 5), behind=st.integers(0, 5))
def test_deliveries_are_told_from_what_is_between_them(before: int, behind: int) -> None:
    """Flow: frames."""
    ack = PubAck(1, 12, 1_012, []).encode()
    data = delivery(1, bytes(10)) * before + ack + delivery(1, bytes(10)) * behind
    assert wire.deliveries_in_front(data, wire.deliver_bytes("t", 10)) == before
    at = before * wire.deliver_bytes("t", 10)
    assert wire.frame_end(data, at) == at + len(ack)
    assert wire.frame_end(ack[:-1], 0) == -1
