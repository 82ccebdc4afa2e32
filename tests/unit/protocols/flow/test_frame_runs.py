"""Frames that are alike are read and written together; what comes of it is what comes of each alone."""

from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.message.headers import Headers
from sluicegate.protocols.flow.codec.frame import PREFACE
from sluicegate.protocols.flow.codec.frames.deliver import NUMBERS_ALIKE, DeliverHead, write_alike, write_deliver
from sluicegate.protocols.flow.codec.frames.publish import PublishesReceived, write_publish
from sluicegate.protocols.flow.codec.frames.session import AUTH_DONE, Auth, AuthAnswer, Hello, Welcome
from sluicegate.protocols.flow.engine.engine import FlowEngine
from sluicegate.protocols.flow.engine.events import PeerViolated
from support.flow.golden import decoded

SIZES = st.lists(st.sampled_from([0, 1, 1, 1, 7]), min_size=1, max_size=40)
NEAR_A_STEP = st.integers(-20, 20).map(lambda off: NUMBERS_ALIKE + off) | st.integers(1, 1 << 60)


def open_gateway() -> FlowEngine:
    """Return a gateway's engine whose client is let in."""
    engine = FlowEngine(
        is_gateway=True, frame_bytes_max=1 << 20, connect_timeout_ms=1_000, keep_alive_ms=1_000, now_ms=0
    )
    engine.feed(PREFACE + Hello("c", "p", 0, ()).encode(), 0, 0)
    engine.welcome(Welcome("p", 1_000, 1 << 20, 10, (), ("ANONYMOUS",)), 0)
    engine.feed(Auth("ANONYMOUS", None).encode(), 0, 0)
    engine.auth_answer(AuthAnswer(AUTH_DONE, None), 0)
    return engine


@given(delivery_id=NEAR_A_STEP, message_id=NEAR_A_STEP, sizes=SIZES, topic=st.sampled_from([b"t", b"a/b"]))
def test_deliveries_written_together_are_those_written_alone(
    delivery_id: int, message_id: int, sizes: list[int], topic: bytes
) -> None:
    """Flow: consuming, DELIVER. Also where the ids pass a multiple of 65536."""
    payloads = [bytes((number,)) * size for number, size in enumerate(sizes)]
    together: list[bytes] = []
    head = DeliverHead(
        3,
        7,
        8,
        delivery_count=2,
        redelivered=True,
        was_direct=False,
        first_of_group=False,
        received_ms=1_700_000_000_000,
    )
    write_alike(
        together,
        head,
        delivery_id,
        message_id,
        topic=topic,
        payloads=payloads,
        start=0,
        stop=len(payloads),
    )
    alone = [
        write_deliver(
            head,
            delivery_id + row,
            message_id + row,
            topic=topic,
            headers=None,
            payload=payload,
            wall_ms=0,
        )
        for row, payload in enumerate(payloads)
    ]
    assert b"".join(together) == b"".join(alone)


@st.composite
def publishes(draw: st.DrawFn) -> list[bytes]:
    """Frames of a few publishers that mostly repeat themselves, with sequences as a careless client might have them."""
    frames: list[bytes] = []
    sequence = draw(NEAR_A_STEP | st.just((1 << 32) - 3))
    for _ in range(draw(st.integers(1, 30))):
        sequence = max(1, sequence + draw(st.sampled_from([1, 1, 1, 1, 1, 2, -1])))
        flow_id = draw(st.sampled_from([1, 1, 1, 1, 2, 0]))
        headers = draw(st.sampled_from([None, None, None, None, Headers(priority=9)]))
        frames.append(
            write_publish(
                flow_id,
                sequence if flow_id else 0,
                draw(st.sampled_from(["t", "t", "t", "t/long"])),
                draw(st.sampled_from([b"x", b"y", b"x", b"long"])),
                headers,
                to_queue=draw(st.sampled_from([False] * 9 + [True])),
                ttl_ms=0,
                delay_ms=0,
            )
        )
    return frames


@given(frames=publishes(), cut=st.integers(0, 2000))
def test_publishes_read_together_are_those_read_alone(frames: list[bytes], cut: int) -> None:
    """Flow: publishing. However the bytes are cut, and whatever stands between those that are alike."""
    data = b"".join(frames)
    engine = open_gateway()
    events = engine.feed(data[:cut], 0, 0) + engine.feed(data[cut:], 0, 0)
    assert not any(isinstance(event, PeerViolated) for event in events)
    together: list[tuple[object, ...]] = []
    for event in events:
        assert isinstance(event, PublishesReceived)
        assert len(event.sequences) == len(event.topics) == len(event.payloads) == len(event.headers)
        assert event.payload_bytes == sum(len(payload) for payload in event.payloads)
        rows = zip(event.sequences, event.topics, event.payloads, event.headers, strict=True)
        together += [(event.flow_id, event.mode, event.to_queue, *row) for row in rows]
    alone: list[tuple[object, ...]] = []
    for frame in frames:
        run = decoded(frame)
        assert isinstance(run, PublishesReceived)
        row = (run.sequences[0], run.topics[0], run.payloads[0], run.headers[0])
        alone.append((run.flow_id, run.mode, run.to_queue, *row))
    assert together == alone


def test_a_publish_without_a_sequence_behind_good_ones_is_refused_as_it_is_alone() -> None:
    """Flow: publishing. What is alike but for a wrong sequence is looked at by itself."""
    engine = open_gateway()
    good = [write_publish(1, n, "t", b"x", None, to_queue=False, ttl_ms=0, delay_ms=0) for n in (1, 2)]
    wrong = good[0][:12] + bytes(8) + good[0][20:]
    published, violated = engine.feed(b"".join([*good, wrong]), 0, 0)
    assert isinstance(published, PublishesReceived)
    assert published.sequences == [1, 2]
    assert isinstance(violated, PeerViolated)
