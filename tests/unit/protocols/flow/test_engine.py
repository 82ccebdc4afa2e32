"""The flow engine at both ends: sessions, turns, keep-alive, and what it does with bytes that break the rules."""

import pytest

from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec import frame as frames
from sluicegate.protocols.flow.codec.frame import CRITICAL, PREFACE, encode_frame
from sluicegate.protocols.flow.codec.frames.publish import PublishesReceived, write_publish
from sluicegate.protocols.flow.codec.frames.session import AUTH_DONE, AUTH_FAILED, Auth, AuthAnswer, Close, Error, Hello
from sluicegate.protocols.flow.codec.frames.settle import Ping
from sluicegate.protocols.flow.engine.engine import FlowEngine
from sluicegate.protocols.flow.engine.events import DeliveriesReceived, FlowEvent, PeerViolated
from sluicegate.protocols.flow.engine.frame_rules import AUTHENTICATING, CLOSED, GREETING, OPEN, TO_CLIENT, TO_GATEWAY
from support.flow.engine_pair import (
    CONNECT_TIMEOUT_MS,
    FRAME_BYTES_MAX,
    HELLO,
    KEEP_ALIVE_MS,
    NOW_MS,
    WALL_MS,
    WELCOME,
    EnginePair,
    open_client,
    open_gateway,
)
from support.flow.engine_pair import engine as one_end
from support.flow.golden import golden_frames

GOLDEN = {case.name: case.data for case in golden_frames()}


def publish(sequence: int, flow_id: int = 1, payload: bytes = b"x") -> bytes:
    return write_publish(flow_id, sequence, "t", payload, None, to_queue=False, ttl_ms=0, delay_ms=0)


def last_violation(events: list[FlowEvent]) -> PeerViolated:
    last = events[-1]
    assert isinstance(last, PeerViolated)
    return last


def at_phase(phase: int, *, is_gateway: bool) -> FlowEngine:
    """Return one end in a phase, at which it reads."""
    wire = EnginePair()
    if phase == OPEN:
        wire.opens()
    else:
        wire.client.send(b"")
        wire.carry()
        if phase == AUTHENTICATING:
            wire.client.send(HELLO.encode())
            wire.carry()
            wire.gateway.welcome(WELCOME, WALL_MS)
            wire.carry()
        elif not is_gateway:
            wire.to_client += wire.client.feed(b"", NOW_MS, WALL_MS)
    return wire.gateway if is_gateway else wire.client


@pytest.mark.parametrize("is_gateway", [True, False], ids=["to gateway", "to client"])
@pytest.mark.parametrize("phase", [GREETING, AUTHENTICATING, OPEN])
@pytest.mark.parametrize("name", [name for name in GOLDEN if name != "preface"])
def test_a_frame_passes_only_in_its_turn(name: str, phase: int, is_gateway: bool) -> None:
    """Flow: sessions, state table. Every golden frame is tried in every phase, in both directions."""
    end = at_phase(phase, is_gateway=is_gateway)
    data = GOLDEN[name]
    kind, is_response = data[4], data[5] & frames.RESPONSE != 0
    wanted = (TO_GATEWAY if is_gateway else TO_CLIENT)[phase].get(kind)

    events = end.feed(data, NOW_MS, WALL_MS)

    if wanted == is_response:
        assert not any(isinstance(event, PeerViolated) for event in events)
    else:
        assert last_violation(events).code == codes.OUT_OF_TURN
        assert end.phase == CLOSED


def test_a_session_opens_and_closes_with_a_word_of_both() -> None:
    """Flow: sessions."""
    wire = EnginePair()
    wire.opens()
    wire.client.close(codes.NONE, "done", NOW_MS)
    wire.carry()

    assert wire.to_gateway[-1] == Close(codes.NONE, "done")
    assert wire.to_client[-1] == Close(codes.NONE, "")
    assert wire.client.phase == wire.gateway.phase == CLOSED


def test_a_client_may_send_on_before_it_is_let_in() -> None:
    """Flow: sessions. Preface, HELLO, AUTH and requests may go out in one piece; each waits for its turn."""
    gateway = one_end(is_gateway=True)
    data = PREFACE + HELLO.encode() + Auth("ANONYMOUS", None).encode() + publish(1)

    assert gateway.feed(data, NOW_MS, WALL_MS) == [HELLO]
    assert gateway.welcome(WELCOME, WALL_MS) == [Auth("ANONYMOUS", None)]
    (run,) = gateway.auth_answer(AuthAnswer(AUTH_DONE, None), WALL_MS)
    assert isinstance(run, PublishesReceived)


@pytest.mark.parametrize("behind", [Ping(1, False), Close(codes.SHUTTING_DOWN, "it stops")])
def test_a_gateway_may_send_on_when_it_has_let_the_client_in(behind: Ping | Close) -> None:
    """Flow: sessions. A gateway that stops says so behind its answer, and both may be read at once."""
    client = at_phase(AUTHENTICATING, is_gateway=False)
    answer = AuthAnswer(AUTH_DONE, None)

    events = client.feed(answer.encode() + behind.encode(), NOW_MS, WALL_MS)

    assert events == [answer, *([behind] if isinstance(behind, Close) else [])]
    assert client.phase == (CLOSED if isinstance(behind, Close) else OPEN)
    assert client.has_output


def test_three_failed_authentications_end_the_connection() -> None:
    """Flow: sessions, limits before authentication."""
    gateway = at_phase(AUTHENTICATING, is_gateway=True)
    for _ in range(2):
        gateway.feed(Auth("PLAIN", b"").encode(), NOW_MS, WALL_MS)
        assert gateway.auth_answer(AuthAnswer(AUTH_FAILED, None), WALL_MS) == []
    gateway.feed(Auth("PLAIN", b"").encode(), NOW_MS, WALL_MS)

    assert last_violation(gateway.auth_answer(AuthAnswer(AUTH_FAILED, None), WALL_MS)).code == codes.NOT_AUTHENTICATED


def test_large_frames_need_authentication() -> None:
    """Flow: sessions, limits before authentication: 4096 bytes, judged by the first four."""
    gateway = at_phase(AUTHENTICATING, is_gateway=True)

    assert last_violation(gateway.feed((4093).to_bytes(4, "big"), NOW_MS, WALL_MS)).code == codes.FRAME_TOO_LARGE


def test_a_frame_over_the_limit_is_refused_before_it_is_there() -> None:
    """Flow: frames."""
    gateway = open_gateway()

    events = gateway.feed((FRAME_BYTES_MAX - 3).to_bytes(4, "big"), NOW_MS, WALL_MS)

    assert last_violation(events).code == codes.FRAME_TOO_LARGE


def test_another_major_version_gets_ours() -> None:
    """Flow: sessions. The gateway sends its preface and closes: the client would not understand an ERROR."""
    gateway = one_end(is_gateway=True)

    events = gateway.feed(PREFACE[:4] + b"\x02\x00\x00\x00", NOW_MS, WALL_MS)

    assert last_violation(events).code == codes.VERSION_UNKNOWN
    assert gateway.take() == [PREFACE]


def test_another_protocol_gets_no_answer() -> None:
    """Flow: sessions."""
    gateway = one_end(is_gateway=True)

    assert last_violation(gateway.feed(b"GET / HTTP/1.1\r\n", NOW_MS, WALL_MS)).code == codes.MALFORMED
    assert gateway.take() == []


def test_an_unknown_frame_is_passed_over_unless_it_is_critical() -> None:
    """Flow: frames."""
    gateway = open_gateway()

    assert gateway.feed(encode_frame(0x7F, 0, 5, b"", b"future"), NOW_MS, WALL_MS) == []
    events = gateway.feed(encode_frame(0x7F, CRITICAL, 5, b"", b"future"), NOW_MS, WALL_MS)
    assert last_violation(events).code == codes.CRITICAL_UNKNOWN


def test_an_unknown_field_is_passed_over_unless_it_is_critical() -> None:
    """Flow: fields."""
    known = bytes.fromhex("0002 0002 0000")

    gateway = open_gateway()
    events = gateway.feed(encode_frame(frames.CLOSE, 0, 0, known + bytes.fromhex("4001 0001 ff"), b""), NOW_MS, WALL_MS)
    assert events == [Close(codes.NONE, "")]

    gateway = open_gateway()
    events = gateway.feed(encode_frame(frames.CLOSE, 0, 0, known + bytes.fromhex("c001 0001 ff"), b""), NOW_MS, WALL_MS)
    assert last_violation(events).code == codes.CRITICAL_UNKNOWN


def test_neighbouring_messages_of_one_flow_are_one_event() -> None:
    """Flow: publishing. One frame is one message; what lies side by side is handled together."""
    gateway = open_gateway()

    events = gateway.feed(publish(1) + publish(2) + publish(1, flow_id=2) + publish(3), NOW_MS, WALL_MS)

    runs = [event for event in events if isinstance(event, PublishesReceived)]
    assert [(run.flow_id, run.sequences) for run in runs] == [(1, [1, 2]), (2, [1]), (1, [3])]


def test_neighbouring_deliveries_of_one_flow_are_one_event() -> None:
    """Flow: consuming."""
    client = open_client()

    (event,) = client.feed(GOLDEN["deliver-plain"] + GOLDEN["deliver-full"], NOW_MS, WALL_MS)

    assert isinstance(event, DeliveriesReceived)
    assert [each.delivery_id for each in event.deliveries] == [1, 2]


@pytest.mark.parametrize("step", [1, 2, 3, 7, 50])
def test_it_does_not_matter_where_the_network_cuts(step: int) -> None:
    """Flow: frames. Everything a client may say, in pieces and as a whole, is the same."""
    said = [name for name in GOLDEN if TO_GATEWAY[OPEN].get(GOLDEN[name][4]) == bool(GOLDEN[name][5] & 1)]
    data = b"".join(GOLDEN[name] for name in said if name not in ("preface", "close"))

    whole = [repr(event) for event in open_gateway().feed(data, NOW_MS, WALL_MS)]
    gateway = open_gateway()
    parts = [
        repr(event)
        for start in range(0, len(data), step)
        for event in gateway.feed(data[start : start + step], NOW_MS, WALL_MS)
    ]

    def alone(line: str) -> str:
        return line if line.startswith("PublishesReceived") else ""

    assert [line for line in parts if not alone(line)] == [line for line in whole if not alone(line)]
    assert len(whole) > 5


def test_a_ping_is_answered_with_its_number() -> None:
    """Flow: sessions, keep-alive."""
    gateway = open_gateway()

    assert gateway.feed(Ping(77, False).encode(), NOW_MS, WALL_MS) == []
    assert gateway.take() == [Ping(77, True).encode()]


def test_a_silent_side_pings_and_a_silent_peer_is_gone_after_three_intervals() -> None:
    """Flow: sessions, keep-alive. Any byte of the peer counts."""
    gateway = open_gateway()

    assert gateway.tick(NOW_MS + KEEP_ALIVE_MS - 1) == []
    assert gateway.take() == []
    assert gateway.tick(NOW_MS + KEEP_ALIVE_MS) == []
    assert gateway.take() == [Ping(1, False).encode()]
    gateway.feed(b"\x00", NOW_MS + KEEP_ALIVE_MS, WALL_MS)
    assert gateway.tick(NOW_MS + 4 * KEEP_ALIVE_MS) == []
    assert last_violation(gateway.tick(NOW_MS + 4 * KEEP_ALIVE_MS + 1)).code == codes.TIMED_OUT


@pytest.mark.parametrize("cut", range(1, len(PREFACE)))
@pytest.mark.parametrize("is_gateway", [True, False], ids=["to gateway", "to client"])
def test_a_preface_that_comes_in_two_parts_is_a_preface(cut: int, is_gateway: bool) -> None:
    """Flow: sessions. It has no length that could be read as that of a frame."""
    end = one_end(is_gateway=is_gateway)
    assert end.feed(PREFACE[:cut], NOW_MS, WALL_MS) == []
    assert end.buffer() is None
    assert end.feed(PREFACE[cut:], NOW_MS, WALL_MS) == []
    assert end.phase == GREETING


def test_a_client_that_is_not_let_in_in_time_is_cut_off() -> None:
    """Flow: sessions, limits before authentication."""
    gateway = one_end(is_gateway=True)

    assert gateway.tick(NOW_MS + CONNECT_TIMEOUT_MS) == []
    assert last_violation(gateway.tick(NOW_MS + CONNECT_TIMEOUT_MS + 1)).code == codes.TIMED_OUT


def test_the_session_fails_with_an_error_that_says_why() -> None:
    """Flow: errors. An ERROR without flow and request ends the connection."""
    wire = EnginePair()
    wire.opens()
    wire.client.send(Hello("again", "", 0, ()).encode())
    wire.carry()

    last = wire.to_client[-1]
    assert isinstance(last, Error)
    assert (last.flow_id, last.request_id, last.code) == (0, 0, codes.OUT_OF_TURN)


def test_a_message_of_many_parts_is_put_together_once() -> None:
    """Flow: frames. The frame arrives in pieces of any size, and is handed over when it is whole."""
    gateway = open_gateway()
    data = publish(1, payload=bytes(60_000))

    for start in range(0, len(data) - 1000, 1000):
        assert gateway.feed(data[start : start + 1000], NOW_MS, WALL_MS) == []
    rest = data[len(data) - len(data) % 1000 :] if len(data) % 1000 else data[-1000:]
    (run,) = gateway.feed(rest, NOW_MS, WALL_MS)

    assert isinstance(run, PublishesReceived)
    assert run.payloads == [bytes(60_000)]
