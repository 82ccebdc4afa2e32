"""Messages through PUBLISH and DELIVER: what goes in comes out, whatever it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.message.headers import TIME_MS_MAX, Headers, UserPropertyValue
from sluicegate.protocols.flow.codec.codes import LocalMisuse
from sluicegate.protocols.flow.codec.frames.deliver import Delivered, DeliverHead, write_deliver
from sluicegate.protocols.flow.codec.frames.publish import PublishesReceived, write_publish
from support.flow.golden import WALL_MS, decoded

TEXTS = st.text(max_size=40).filter(lambda text: max(text, default=" ") < "\ud800" or max(text) > "\udfff")
TIMES = st.integers(0, 1 << 40)
VALUES: st.SearchStrategy[UserPropertyValue] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 63), (1 << 64) - 1),
    st.floats(allow_nan=False),
    TEXTS,
    st.binary(max_size=40),
)


@st.composite
def some_headers(draw: st.DrawFn, *, times: bool) -> Headers:
    key = draw(st.none() | st.text("abcø€", min_size=1, max_size=20))
    return Headers(
        partition_key=key,
        expires_at_ms=WALL_MS + draw(st.integers(1, 1 << 40)) if times and draw(st.booleans()) else 0,
        not_before_ms=WALL_MS + draw(st.integers(1, 1 << 40)) if times and draw(st.booleans()) else 0,
        priority=draw(st.integers(0, 9)),
        payload_is_text=draw(st.booleans()),
        content_type=draw(st.none() | TEXTS),
        correlation=draw(st.none() | st.binary(max_size=20)),
        reply_to=draw(st.none() | TEXTS),
        message_id=draw(st.none() | TEXTS),
        timestamp_ms=draw(TIMES),
        dmq_eligible=draw(st.booleans()),
        deliver_to_one=draw(st.booleans()),
        eliding_eligible=draw(st.booleans()),
        user_properties=draw(st.none() | st.lists(st.tuples(TEXTS, VALUES), min_size=1, max_size=5)),
    )


@given(headers=some_headers(times=True), topic=TEXTS, payload=st.binary(max_size=100), to_queue=st.booleans())
def test_a_published_message_arrives_as_it_was_sent(
    headers: Headers, topic: str, payload: bytes, to_queue: bool
) -> None:
    """Flow: publishing, properties."""
    ttl_ms = headers.expires_at_ms - WALL_MS if headers.expires_at_ms else 0
    delay_ms = headers.not_before_ms - WALL_MS if headers.not_before_ms else 0
    data = write_publish(3, 9, topic, payload, headers, to_queue=to_queue, ttl_ms=ttl_ms, delay_ms=delay_ms)
    run = decoded(data)

    assert isinstance(run, PublishesReceived)
    assert (run.flow_id, run.sequences, run.topics, run.payloads, run.to_queue) == (
        3, [9], [topic], [payload], to_queue,
    )  # fmt: skip
    assert (run.headers[0] or Headers()) == headers


@given(headers=some_headers(times=False), topic=TEXTS, payload=st.binary(max_size=100))
def test_a_delivered_message_arrives_as_it_was_published(headers: Headers, topic: str, payload: bytes) -> None:
    """Flow: consuming, properties."""
    data = write_deliver(
        DeliverHead(
            3,
            7,
            8,
            delivery_count=70_000,
            redelivered=True,
            was_direct=False,
            first_of_group=True,
            received_ms=WALL_MS,
        ),
        1,
        2,
        topic=topic.encode(),
        headers=headers,
        payload=payload,
        wall_ms=WALL_MS,
    )
    delivered = decoded(data)

    assert isinstance(delivered, Delivered)
    assert (delivered.topic, delivered.payload) == (topic, payload)
    assert (delivered.headers or Headers()) == headers
    assert delivered.delivery_count == 0xFFFF  # the most the field can say
    assert (delivered.redelivered, delivered.was_direct, delivered.first_of_group) == (True, False, True)


def test_a_message_that_has_expired_on_its_way_is_delivered_with_a_millisecond_to_live() -> None:
    """Flow: properties. A time to live of 0 would say that it never expires."""
    headers = Headers(expires_at_ms=WALL_MS - 5)
    data = write_deliver(
        DeliverHead(
            3,
            0,
            1,
            delivery_count=1,
            redelivered=False,
            was_direct=False,
            first_of_group=False,
            received_ms=WALL_MS,
        ),
        1,
        2,
        topic=b"t",
        headers=headers,
        payload=b"",
        wall_ms=WALL_MS,
    )
    delivered = decoded(data)

    assert isinstance(delivered, Delivered)
    assert delivered.headers is not None
    assert delivered.headers.expires_at_ms == WALL_MS + 1


def test_a_time_that_no_clock_will_reach_is_cut_to_one_that_can_be_stored() -> None:
    """Flow: properties."""
    data = write_publish(1, 1, "t", b"", Headers(), to_queue=False, ttl_ms=(1 << 64) - 1, delay_ms=0)
    run = decoded(data)

    assert isinstance(run, PublishesReceived)
    assert run.headers[0] is not None
    assert run.headers[0].expires_at_ms == WALL_MS + TIME_MS_MAX


def test_a_whole_number_of_more_than_64_bits_cannot_be_said() -> None:
    """Flow: properties."""
    headers = Headers(user_properties=[("n", 1 << 64)])
    with pytest.raises(LocalMisuse):
        write_publish(1, 1, "t", b"", headers, to_queue=False, ttl_ms=0, delay_ms=0)
