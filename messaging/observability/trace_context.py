"""The W3C trace context of a message: `traceparent`, `tracestate` and `baggage`.

They are user properties of a message. Every protocol that has user properties carries them unchanged: a consumer's span
has the publisher's span as its parent, or is linked to it. Where a protocol has its own place for them (HTTP headers,
AMQP annotations), its codec converts them to and from user properties.

The rules are W3C Trace Context (2021) 3.2; an invalid value is no context, and travels like any property.
"""

from typing import Final, final

from sluicegate.messaging.message.headers import Headers, UserPropertyValue

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
BAGGAGE: Final = "baggage"  # W3C Baggage, for applications; only carried
TRACE_FIELDS: Final = (TRACEPARENT, TRACESTATE, BAGGAGE)

TRACEPARENT_CHARS: Final = 55  # of version 00; later versions may append to it
TRACE_ID_AT: Final = 3
LOW_HALF_AT: Final = 19  # of the trace id
SPAN_ID_AT: Final = 36
FLAGS_AT: Final = 53
TRACE_ID_DIGITS: Final = 32
SPAN_ID_DIGITS: Final = 16
TRACESTATE_CHARS_MAX: Final = 512  # the length that must be passed on (3.3.1.5); spans do not take a longer one

_DIGITS: Final = "0123456789abcdef"  # upper case is not allowed
_NO_TRACE: Final = "0" * TRACE_ID_DIGITS
_NO_SPAN: Final = "0" * SPAN_ID_DIGITS


@final
class TraceContext:
    """Where a span belongs: `trace_id` and `parent_id` as hexadecimal digits, as they travel."""

    __slots__ = ("is_sampled", "parent_id", "trace_id", "tracestate")

    def __init__(self, trace_id: str, parent_id: str, *, is_sampled: bool, tracestate: str = "") -> None:
        self.trace_id = trace_id
        self.parent_id = parent_id
        self.is_sampled = is_sampled  # the publisher records spans of this trace
        self.tracestate = tracestate  # vendor data of tracing systems; empty: none

    def traceparent(self) -> str:
        """Return the form in which it travels."""
        return f"00-{self.trace_id}-{self.parent_id}-{'01' if self.is_sampled else '00'}"

    def __repr__(self) -> str:
        return f"TraceContext({self.traceparent()}, {self.tracestate!r})"


def context_of(headers: Headers) -> TraceContext | None:
    """Return the context of a message, None when it has no valid one."""
    context = read_traceparent(traceparent_in(headers))
    if context is not None and headers.user_properties is not None:
        context.tracestate = _tracestate_in(headers.user_properties)
    return context


def traceparent_in(headers: Headers) -> str:
    """Return the text that may be a context, empty when there is none. Cheaper than `context_of`."""
    properties = headers.user_properties
    if properties is not None:
        for name, value in properties:
            if name == TRACEPARENT:
                return value if isinstance(value, str) and len(value) >= TRACEPARENT_CHARS else ""
    return ""


def read_traceparent(value: str) -> TraceContext | None:
    """Parse a traceparent; return None when it is not valid (3.2.2)."""
    if len(value) < TRACEPARENT_CHARS:
        return None
    if value[2] != "-" or value[SPAN_ID_AT - 1] != "-" or value[FLAGS_AT - 1] != "-":
        return None
    version = value[:2]
    trace_id = value[TRACE_ID_AT : TRACE_ID_AT + TRACE_ID_DIGITS]
    parent_id = value[SPAN_ID_AT : SPAN_ID_AT + SPAN_ID_DIGITS]
    flags = value[FLAGS_AT:TRACEPARENT_CHARS]
    if version == "ff" or trace_id == _NO_TRACE or parent_id == _NO_SPAN:
        return None
    if len(value) > TRACEPARENT_CHARS and (version == "00" or value[TRACEPARENT_CHARS] != "-"):
        return None
    if (version + trace_id + parent_id + flags).strip(_DIGITS):
        return None
    return TraceContext(trace_id, parent_id, is_sampled=int(flags, 16) & 1 == 1)


def _tracestate_in(properties: list[tuple[str, UserPropertyValue]]) -> str:
    state = ",".join([value for name, value in properties if name == TRACESTATE and isinstance(value, str)])
    return state if len(state) <= TRACESTATE_CHARS_MAX else ""
