"""Any bytes at all at both ends of the flow protocol: only events come out, and memory stays within its bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.protocols.flow.codec.frame import PREFACE
from sluicegate.protocols.flow.engine.events import PeerViolated
from sluicegate.protocols.flow.engine.frame_rules import CLOSED
from support.flow.engine_pair import FRAME_BYTES_MAX, NOW_MS, WALL_MS, WELCOME_DEFLATE, open_client, open_gateway
from support.flow.engine_pair import engine as one_end
from support.flow.golden import body_of, compressed, compressed_frames, golden_frames
from support.hostile.mutated_bytes import ROUNDS, chance_of, mutated

PLAIN = [case.data for case in golden_frames()[1:] if len(body_of(case.data)) > 0]
GOLDEN = [case.data for case in golden_frames()] + [case.data for case in compressed_frames()]


@pytest.mark.parametrize("is_gateway", [True, False], ids=["gateway", "client"])
def test_mutated_frames_bring_events_or_one_violation(is_gateway: bool) -> None:
    """Flow: errors. Method: golden frames, damaged; nothing but events comes out, and after a violation nothing."""
    chance = chance_of(90)
    for number in range(ROUNDS):
        data = mutated(chance, b"".join(chance.choices(GOLDEN, k=chance.randint(1, 4))))
        end = open_gateway(WELCOME_DEFLATE) if is_gateway else open_client(WELCOME_DEFLATE)
        try:
            events = end.feed(data, NOW_MS, WALL_MS)
            if events and isinstance(events[-1], PeerViolated):
                assert end.phase == CLOSED
                assert end.feed(GOLDEN[-1], NOW_MS, WALL_MS) == []
            assert not any(isinstance(event, PeerViolated) for event in events[:-1])
        except Exception as error:
            raise AssertionError(f"round {number}: {data.hex()}") from error


@pytest.mark.parametrize("is_gateway", [True, False], ids=["gateway", "client"])
def test_compressed_damaged_frames_give_events_or_one_violation(is_gateway: bool) -> None:
    """Flow: compression. Method: as above, but bodies are damaged before they are compressed."""
    chance = chance_of(91)
    for number in range(ROUNDS):
        plain = chance.choice(PLAIN)
        body = mutated(chance, body_of(plain))
        data = compressed(plain, body)
        end = open_gateway(WELCOME_DEFLATE) if is_gateway else open_client(WELCOME_DEFLATE)
        try:
            events = end.feed(data, NOW_MS, WALL_MS)
            assert not any(isinstance(event, PeerViolated) for event in events[:-1])
        except Exception as error:
            raise AssertionError(f"round {number}: {data.hex()}") from error


@given(data=st.binary(max_size=200), cut=st.integers(0, 200), with_preface=st.booleans())
def test_any_bytes_at_all_are_taken_or_refused(data: bytes, cut: int, with_preface: bool) -> None:
    """Flow: errors."""
    end = one_end(is_gateway=True)
    sent = PREFACE + data if with_preface else data
    events = end.feed(sent[:cut], NOW_MS, WALL_MS) + end.feed(sent[cut:], NOW_MS, WALL_MS)

    assert not any(isinstance(event, PeerViolated) for event in events[:-1])


def test_no_frame_makes_the_gateway_hold_more_than_its_limit() -> None:
    """Flow: frames. The length is judged before the frame is there."""
    gateway = open_gateway()
    sent = 0
    gateway.feed((FRAME_BYTES_MAX - 4).to_bytes(4, "big") + bytes([0x21, 0, 0, 0, 0, 0, 0, 1]), NOW_MS, WALL_MS)
    while gateway.phase != CLOSED:
        gateway.feed(bytes(4096), NOW_MS, WALL_MS)
        sent += 4096
        assert sent <= FRAME_BYTES_MAX + 4096
