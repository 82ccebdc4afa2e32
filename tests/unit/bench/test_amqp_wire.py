"""The load generator's AMQP frames, held against the fields that the specification gives them."""

import struct

import pytest

from bench.wire import amqp as wire
from support.amqp.golden import described_frame, frames_of, golden


def frames(stream: bytes) -> list[str]:
    return [described_frame(data) for frame, data in frames_of(stream) if frame is not None]


def test_a_connection_is_opened_without_waiting() -> None:
    """2.4.1: header, open and begin in one write."""
    assert wire.opening("c").startswith(wire.HEADER)
    window = "incoming-window=uint(2147483647), outgoing-window=uint(2147483647)"
    assert frames(wire.opening("c")) == [
        "channel 0: open(container-id='c', hostname='localhost')",
        f"channel 0: begin(next-outgoing-id=uint(0), {window})",
    ]


def test_links_are_attached_for_both_directions() -> None:
    """2.7.3: unsettled, of a durable queue."""
    modes = "snd-settle-mode=ubyte(0), rcv-settle-mode=ubyte(0)"
    assert frames(wire.attach("l", "q", is_receiver=True)) == [
        f"channel 0: attach(name='l', handle=uint(0), role=True, {modes}, "
        "source=source(address='q', durable=uint(2)), target=target())"
    ]
    assert frames(wire.attach("l", "q", is_receiver=False)) == [
        f"channel 0: attach(name='l', handle=uint(0), role=False, {modes}, "
        "source=source(), target=target(address='q', durable=uint(2)), initial-delivery-count=uint(0))"
    ]


def test_credit_and_outcomes_speak_of_what_was_received() -> None:
    """2.7.4, 2.7.6."""
    (flow,) = frames(wire.flow(300, 1000))
    assert "handle=uint(0), delivery-count=uint(300), link-credit=uint(1000)" in flow
    assert frames(wire.accepted(3, 7)) == [
        "channel 0: disposition(role=True, first=uint(3), last=uint(7), settled=True, state=accepted())"
    ]


@pytest.mark.parametrize("payload_bytes", [100, 1024])
def test_a_template_becomes_a_message_by_three_numbers(payload_bytes: int) -> None:
    """2.7.5, 3.2: delivery id, tag, and the sequence in the payload, behind the number of its stream."""
    template, id_at, tag_at, sequence_at = wire.transfer_template(payload_bytes)
    frame = bytearray(template)
    for at, number in ((id_at, 7), (tag_at, 8), (sequence_at, 9)):
        struct.pack_into(">I", frame, at, number)
    text = described_frame(bytes(frame))
    assert "delivery-id=uint(7), delivery-tag=b'\\x00\\x00\\x00\\x08'" in text
    assert bytes(frame[-payload_bytes:]) == struct.pack(">II", 0, 9) + bytes(payload_bytes - 8)


def test_frames_of_other_brokers_are_read() -> None:
    """Frames of others: the numbers in them, whatever their encoding; an ending is an error."""
    given = golden("frames.txt")
    assert wire.performative(given["heartbeat"], 0, 8) == 0
    assert wire.fields(given["flow"], 0, 7)[4:] == [1, 0, 10]
    assert wire.fields(given["disposition-rejected"], 0, 4) == [1, 2, 5, 1]
    assert wire.fields(given["transfer-rhea"], 0, 2) == [0, 0]
    for name in ("detach-error", "end-error", "close-error"):
        with pytest.raises(wire.AmqpError):
            wire.performative(given[name], 0, len(given[name]))
