"""Compressed frames at both ends of the flow protocol: what they stand for, when they are made, what is refused."""

import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec import frame as frames
from sluicegate.protocols.flow.codec.codes import PeerViolation
from sluicegate.protocols.flow.codec.compression import DEFLATE, deflated, inflated
from sluicegate.protocols.flow.codec.frame import COMPRESSED, PREFACE, RESPONSE, cut_frame, encode_frame
from sluicegate.protocols.flow.codec.frames.publish import PublishesReceived, write_publish
from sluicegate.protocols.flow.codec.frames.session import AUTH_DONE, Auth, AuthAnswer, Hello
from sluicegate.protocols.flow.codec.limits import DEFLATED_BODY_BYTES_MIN, DEFLATED_BYTES_MAX, INFLATED_RATIO_MAX
from sluicegate.protocols.flow.engine.events import FlowEvent, PeerViolated
from support.flow.engine_pair import (
    FRAME_BYTES_MAX,
    NOW_MS,
    WALL_MS,
    WELCOME_DEFLATE,
    EnginePair,
    open_client,
    open_gateway,
)
from support.flow.engine_pair import engine as one_end
from support.flow.golden import CompressedFrame, body_of, compressed, compressed_frames, decoded, golden_frames

GOLDEN = {case.name: case.data for case in golden_frames()}
CASES = compressed_frames()
WORDS = b"temperature pressure humidity plant line "

stands_for_a_frame = [case for case in CASES if case.says in GOLDEN]
is_refused = [case for case in CASES if case.says not in GOLDEN]


def publish(sequence: int, payload: bytes) -> bytes:
    return write_publish(1, sequence, "t", payload, None, to_queue=False, ttl_ms=0, delay_ms=0)


def text(size: int, seed: int = 1) -> bytes:
    """Return words in no order: they compress to a fraction, and by far not to a hundredth."""
    draw = random.Random(seed)
    words = WORDS.split(b" ")
    data = bytearray()
    while len(data) < size:
        data += b"%s %d " % (draw.choice(words), draw.randrange(1_000_000))
    return bytes(data[:size])


def flags_of(data: bytes) -> list[int]:
    """Return the flags of all frames."""
    found: list[int] = []
    pos = 0
    while pos < len(data):
        frame = cut_frame(data, pos, len(data), len(data))
        assert frame is not None
        found.append(frame.flags)
        pos = frame.end
    return found


def refusal(events: list[FlowEvent]) -> int:
    """Return the code of the violation that was the last event."""
    assert isinstance(events[-1], PeerViolated), events
    return events[-1].code


@pytest.mark.parametrize("case", stands_for_a_frame, ids=lambda case: case.name)
def test_a_compressed_frame_says_what_the_frame_says_that_it_stands_for(case: CompressedFrame) -> None:
    """Flow: compression, golden bytes."""
    frame = cut_frame(case.data, 0, len(case.data), FRAME_BYTES_MAX)
    assert frame is not None
    whole, its = inflated(frame, case.data, FRAME_BYTES_MAX)
    plain = encode_frame(whole.kind, whole.flags, whole.flow_id, its[: whole.body_at], its[whole.body_at :])
    assert plain == GOLDEN[case.says]

    is_response = case.data[5] & RESPONSE != 0
    to_client = is_response or case.data[4] in (frames.DELIVER, frames.ROWS)
    end, plain_end = [(open_client if to_client else open_gateway)(WELCOME_DEFLATE) for _ in range(2)]
    events = end.feed(case.data, NOW_MS, WALL_MS)
    assert repr(events) == repr(plain_end.feed(plain, NOW_MS, WALL_MS))
    assert repr(decoded(plain)) in repr(events)
    assert end.saved_received == len(plain) - len(case.data)


@pytest.mark.parametrize("to_client", [True, False], ids=["to client", "to gateway"])
@pytest.mark.parametrize("name", [name for name in GOLDEN if name != "preface" and body_of(GOLDEN[name])])
def test_every_frame_with_a_body_may_be_compressed(name: str, to_client: bool) -> None:
    """Flow: compression: all that is read of a frame is read of the one it stands for."""
    plain = GOLDEN[name]
    end, plain_end = [(open_client if to_client else open_gateway)(WELCOME_DEFLATE) for _ in range(2)]
    events = end.feed(compressed(plain, body_of(plain)), NOW_MS, WALL_MS)
    assert repr(events) == repr(plain_end.feed(plain, NOW_MS, WALL_MS))


@pytest.mark.parametrize("case", is_refused, ids=lambda case: case.name)
def test_frames_that_inflate_to_other_or_too_many_bytes_are_refused(case: CompressedFrame) -> None:
    """Flow: compression, golden bytes: decompression bombs among them."""
    gateway = open_gateway(WELCOME_DEFLATE)
    assert codes.NAMES[refusal(gateway.feed(case.data, NOW_MS, WALL_MS))] == case.says


@pytest.mark.parametrize("size", [0, 1, 20, 1 << 31])
def test_nothing_is_inflated_beyond_the_size_that_was_named(size: int) -> None:
    """Flow: compression. A bomb costs what it names, and what it names has limits; here it says less than it holds."""
    stream = zlib.compress(bytes(200_000_000))
    body = size.to_bytes(4, "big") + stream
    data = encode_frame(frames.PUBLISH, COMPRESSED, 1, b"", body)
    frame = cut_frame(data, 0, len(data), 1 << 30)
    assert frame is not None
    with pytest.raises(PeerViolation):
        inflated(frame, data, 1 << 30)


def test_a_body_may_have_a_hundred_times_its_stream_and_no_more() -> None:
    """Flow: compression, limits: so that small frames do not add up to a bomb. Who sends leaves such a body alone."""
    payload = bytes(INFLATED_RATIO_MAX * 1_000)
    assert deflated(publish(1, payload), DEFLATED_BYTES_MAX) == publish(1, payload)
    payload = text(800) * 40
    (flags,) = flags_of(deflated(publish(1, payload), DEFLATED_BYTES_MAX))
    assert flags == COMPRESSED


def test_before_a_client_is_let_in_nothing_is_inflated() -> None:
    """Flow: compression: in force once the connection is open. A bomb of a stranger is refused unread."""
    wire = EnginePair(WELCOME_DEFLATE)
    wire.client.send(Hello("c", "", 0, (DEFLATE,)).encode())
    wire.carry()
    wire.gateway.welcome(WELCOME_DEFLATE, WALL_MS)
    plain = Auth("PLAIN", b"x" * 600).encode()
    data = plain[:5] + bytes([COMPRESSED]) + plain[6:]
    assert refusal(wire.gateway.feed(data, NOW_MS, WALL_MS)) == codes.MALFORMED

    gateway = one_end(is_gateway=True)
    hello = PREFACE + encode_frame(frames.HELLO, COMPRESSED, 0, b"", bytes([0, 0, 1, 0]) + zlib.compress(bytes(256)))
    assert refusal(gateway.feed(hello, NOW_MS, WALL_MS)) == codes.MALFORMED


def test_a_compressed_frame_is_refused_where_compression_is_not_in_force() -> None:
    """Flow: compression, negotiation: as every flag that is not known."""
    assert refusal(open_gateway().feed(CASES[0].data, NOW_MS, WALL_MS)) == codes.MALFORMED


def test_credentials_are_never_compressed() -> None:
    """Flow: compression: what is secret and what others chose must not be compressed together."""
    wire = EnginePair(WELCOME_DEFLATE)
    wire.client.send(Hello("c", "", 0, (DEFLATE,)).encode())
    wire.carry()
    wire.gateway.welcome(WELCOME_DEFLATE, WALL_MS)
    wire.carry()
    wire.client.send(Auth("OAUTHBEARER", b"token " * 300).encode())
    said = b"".join(wire.client.take())
    assert flags_of(said) == [0]
    wire.gateway.feed(said, NOW_MS, WALL_MS)
    wire.gateway.auth_answer(AuthAnswer(AUTH_DONE, b"v=" * 400), WALL_MS)
    assert flags_of(b"".join(wire.gateway.take())) == [RESPONSE]


def test_only_bodies_that_become_smaller_are_compressed() -> None:
    """Flow: compression. Small ones and such as have been compressed before go out as they are, in their order."""
    sent = [
        publish(1, text(DEFLATED_BODY_BYTES_MIN - 100)),
        publish(2, text(4_000)),
        publish(3, random.Random(1).randbytes(4_000)),
        publish(4, text(4_000)),
        publish(5, b"x"),
    ]
    data = deflated(b"".join(sent), DEFLATED_BYTES_MAX)
    assert flags_of(data) == [0, COMPRESSED, 0, COMPRESSED, 0]
    (run,) = open_gateway(WELCOME_DEFLATE).feed(data, NOW_MS, WALL_MS)
    assert isinstance(run, PublishesReceived)
    assert run.sequences == [1, 2, 3, 4, 5]


def test_the_gateway_compresses_so_much_in_a_turn_and_sends_the_rest_as_it_is() -> None:
    """Flow: compression, limits: other clients wait meanwhile."""
    gateway = open_gateway(WELCOME_DEFLATE)
    frame = publish(1, text(DEFLATED_BYTES_MAX // 2 - 100))
    gateway.send(frame * 3)
    data = b"".join(gateway.take())
    assert flags_of(data) == [COMPRESSED, COMPRESSED, 0]
    assert gateway.saved_sent == 3 * len(frame) - len(data)


@given(
    sizes=st.lists(st.integers(0, 3_000), max_size=12),
    kinds=st.lists(st.booleans(), min_size=12, max_size=12),
    step=st.integers(1, 4_000),
)
def test_compression_changes_nothing_of_what_is_said(sizes: list[int], kinds: list[bool], step: int) -> None:
    """Goal: with and without it the same is heard. Method: the same frames, compressed, and cut anywhere."""
    wire = EnginePair(WELCOME_DEFLATE)
    wire.opens()
    for number, size in enumerate(sizes):
        is_text = kinds[number]
        wire.client.send(publish(number + 1, text(size, number) if is_text else random.Random(number).randbytes(size)))
    data = b"".join(wire.client.take())
    heard: list[tuple[int, bytes]] = []
    for start in range(0, len(data), step):
        for event in wire.gateway.feed(data[start : start + step], NOW_MS, WALL_MS):
            assert isinstance(event, PublishesReceived)
            heard += zip(event.sequences, event.payloads, strict=True)
    assert heard == [
        (number + 1, text(size, number) if kinds[number] else random.Random(number).randbytes(size))
        for number, size in enumerate(sizes)
    ]
    assert wire.client.saved_sent == wire.gateway.saved_received >= 0
