"""Contexts as the W3C writes them, and which of them are traced."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.message.batch import AT_LEAST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import NATIVE_MQTT5, NATIVE_NONE, Headers
from sluicegate.messaging.observability.trace_context import TRACE_FIELDS, TraceContext, context_of, read_traceparent
from sluicegate.messaging.observability.trace_records import PublishTraced, TraceBuffer
from sluicegate.messaging.observability.tracing import TraceSampler, Tracing

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
SAMPLED = f"00-{TRACE}-{PARENT}-01"


def tracing(**options: object) -> Tracing:
    chosen = {"ratio": 1.0, "is_parent_based": True, "begins": False, "seed": 1, **options}
    sampler = TraceSampler(**chosen)  # type: ignore[arg-type]  # a test names what matters to it
    return Tracing(TraceBuffer(records_max=1000), sampler, topics=[], queues=[], natives={})


def batch(*headers: Headers | None) -> MessageBatch:
    return MessageBatch(
        topic="t",
        topics=None,
        payloads=[b"x"] * len(headers),
        headers=list(headers) if any(headers) else None,
        qos=AT_LEAST_ONCE,
        retain=False,
        publisher="p",
        received_ms=1000,
        payload_bytes=len(headers),
    )


def of(*properties: tuple[str, str]) -> Headers:
    return Headers(user_properties=list(properties))


@pytest.mark.parametrize(
    "text",
    [
        "",
        SAMPLED[:-1],
        SAMPLED.upper(),
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{PARENT}-0g",
        f"00_{TRACE}-{PARENT}-01",
        f"{SAMPLED}-more",  # version 00 has no more
        f"cc-{TRACE}-{PARENT}-01more",
    ],
)
def test_invalid_headers_give_no_context(text: str) -> None:
    """Trace Context 3.2.2, and 4.3 of parsing what later versions send."""
    assert read_traceparent(text) is None


@pytest.mark.parametrize("text", [SAMPLED, f"cc-{TRACE}-{PARENT}-01", f"cc-{TRACE}-{PARENT}-01-what the future says"])
def test_later_versions_are_read_as_this_one(text: str) -> None:
    """Trace Context 4.3: what a later version says behind its flags is not for us."""
    context = read_traceparent(text)
    assert context is not None
    assert context.traceparent() == SAMPLED


@given(st.integers(1, (1 << 128) - 1), st.integers(1, (1 << 64) - 1), st.booleans())
def test_a_context_is_read_as_it_was_written(trace_id: int, span_id: int, is_sampled: bool) -> None:
    written = TraceContext(f"{trace_id:032x}", f"{span_id:016x}", is_sampled=is_sampled)
    read = context_of(of(("mine", "1"), ("traceparent", written.traceparent())))
    assert read is not None
    assert (read.traceparent(), read.is_sampled) == (written.traceparent(), is_sampled)


@given(st.text(max_size=60))
def test_no_text_harms_who_reads_it(text: str) -> None:
    context = read_traceparent(text)
    assert context is None or context.traceparent()[3:52] == text[3:52]


def test_a_tracestate_goes_with_its_context_unless_it_is_longer_than_all_pass_on() -> None:
    """Trace Context 3.3.1.5: 512 characters have to be passed on."""
    short = context_of(of(("tracestate", "a=1"), ("traceparent", SAMPLED)))
    long = context_of(of(("traceparent", SAMPLED), ("tracestate", "a" * 513)))
    assert short is not None
    assert long is not None
    assert (short.tracestate, long.tracestate) == ("a=1", "")
    assert TRACE_FIELDS == ("traceparent", "tracestate", "baggage")


def test_a_tracestate_in_several_parts_is_one() -> None:
    """Trace Context 3.3.1: it may be split into several, which are one list in their order."""
    context = context_of(of(("tracestate", "a=1"), ("traceparent", SAMPLED), ("tracestate", "b=2")))
    assert context is not None
    assert context.tracestate == "a=1,b=2"


@given(st.floats(0.01, 1.0), st.integers(0, (1 << 64) - 1))
def test_with_a_ratio_the_low_half_of_the_id_decides_for_everybody_alike(ratio: float, low: int) -> None:
    """OpenTelemetry's TraceIdRatioBased: the same traces with every process that has the same ratio."""
    sampler = TraceSampler(ratio=ratio, is_parent_based=False, begins=False, seed=1)
    context = TraceContext(f"{1:016x}{low:016x}", PARENT, is_sampled=False)
    assert sampler.takes(context.traceparent()) == (low < round(ratio * (1 << 64)))


@pytest.mark.parametrize("ratio", [1.0, 0.9, 0.8, 0.6, 0.5, 0.3, 0.1, 0.01])
def test_as_many_traces_begin_as_the_ratio_says_and_all_of_them_are_taken(ratio: float) -> None:
    sampler = TraceSampler(ratio=ratio, is_parent_based=False, begins=True, seed=7)
    count = begun = 0
    for size in [1, 3, 250] * 400:
        row = sampler.next_to_begin(0, size)
        while row < size:
            assert sampler.takes(sampler.new_context().traceparent())
            begun += 1
            row = sampler.next_to_begin(row + 1, size)
        count += size
    assert begun == pytest.approx(count * ratio, rel=0.1)


def test_messages_of_one_context_are_one_publish() -> None:
    noted: list[PublishTraced] = []
    first, second = of(("traceparent", SAMPLED)), of(("traceparent", SAMPLED.replace("4b", "5b")))
    published = batch(first, first, None, second, of(("traceparent", "none")))
    assert tracing().begin(published, noted) is published
    assert [(each.count, each.payload_bytes, each.is_begun) for each in noted] == [(2, 2, False), (1, 1, False)]


def test_a_message_that_gets_a_context_keeps_what_it_has_and_the_others_are_as_they_were() -> None:
    """What has a form of its own protocol gets that form anew, from its properties."""
    noted: list[PublishTraced] = []
    native = Headers(user_properties=[("mine", "1")], native_format=NATIVE_MQTT5, native=b"\x26")
    brought = of(("traceparent", SAMPLED))
    begun = tracing(begins=True).begin(batch(None, native, brought), noted)
    column = begun.headers()
    assert column is not None
    assert column[2] is brought
    assert [each.is_begun for each in noted] == [False, True, True]
    changed = column[1]
    assert changed is not None
    assert changed.user_properties is not None
    assert changed.user_properties[0] == ("mine", "1")
    assert (changed.native_format, changed.native) == (NATIVE_NONE, b"")
    assert native.user_properties == [("mine", "1")]


def test_a_trace_that_begins_here_takes_the_place_of_what_is_no_context() -> None:
    """Trace Context 3.2 and 3.3: of a traceparent that cannot be read, neither it nor its tracestate goes on."""
    noted: list[PublishTraced] = []
    brought = of(("traceparent", SAMPLED.upper()), ("tracestate", "a=1"), ("baggage", "b=1"))
    begun = tracing(begins=True).begin(batch(brought), noted)
    headers = begun.headers_of(0)
    assert headers is not None
    assert headers.user_properties == [("baggage", "b=1"), ("traceparent", noted[0].context.traceparent())]
    assert context_of(headers) is not None


def test_beyond_its_bound_a_buffer_drops_and_counts() -> None:
    noted: list[PublishTraced] = []
    buffer = TraceBuffer(records_max=2)
    tracing().begin(batch(of(("traceparent", SAMPLED))), noted)
    for _ in range(3):
        buffer.add(noted[0])
    assert (len(buffer.take()), buffer.dropped_count, buffer.take()) == (2, 1, [])
