"""Numbers that one protocol can say and another cannot, on their way between messages of AMQP and of others."""

import pytest

from sluicegate.messaging.message.headers import TIME_MS_MAX, Headers, UserPropertyValue
from sluicegate.protocols.amqp.codec.sections import PROPERTIES, find_sections
from sluicegate.protocols.amqp.messages.decode import read_message
from sluicegate.protocols.amqp.messages.encode import write_message
from sluicegate.protocols.amqp.types.decoding import decode
from sluicegate.protocols.amqp.types.encoding import encode
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue, Described, Symbol, timestamp, ulong

U64_MAX = (1 << 64) - 1


def written(*properties: tuple[str, UserPropertyValue]) -> dict[AmqpValue, AmqpValue]:
    """Return annotations and application properties of a message of another protocol, as an AMQP consumer gets it."""
    headers = Headers(user_properties=list(properties))
    data = write_message(b"", headers, topic="t", durable=True, delivery_count=0, is_first=True, wall_ms=0)
    sections = find_sections(data)
    found: list[tuple[AmqpValue, AmqpValue]] = []
    for at in (sections.annotations_at, sections.application_at):
        section, _ = decode(data, at, len(data))
        assert isinstance(section, AmqpMap)
        found += section.pairs
    return dict(found)


def test_an_unsigned_number_of_64_bits_is_a_ulong_where_no_long_holds_it() -> None:
    """HTTP's uint64 and the flow protocol's U64 reach further than AMQP's long (1.6.9)."""
    largest = (1 << 63) - 1
    assert written(("n", U64_MAX), ("x-n", largest + 1), ("m", largest), ("b", True)) == {
        Symbol("x-n"): ulong(largest + 1),
        "n": ulong(U64_MAX),
        "m": largest,
        "b": True,
    }


@pytest.mark.parametrize(
    ("expires_ms", "said"),
    [(0, None), (TIME_MS_MAX, timestamp(TIME_MS_MAX)), (TIME_MS_MAX + 1, None), (1 << 53, None)],
)
def test_an_expiry_behind_the_year_9999_is_left_out(expires_ms: int, said: AmqpValue) -> None:
    """3.2.4, absolute-expiry-time: publishers over HTTP and the flow protocol may give a message as long as they like,
    and clients make a date of it.
    """
    headers = Headers(expires_at_ms=expires_ms, message_id="m", correlation=b"c")
    data = write_message(b"", headers, topic="t", durable=True, delivery_count=0, is_first=True, wall_ms=0)
    section, _ = decode(data, find_sections(data).properties_at, len(data))
    assert isinstance(section, list)
    assert dict(enumerate(section)).get(8) == said


@pytest.mark.parametrize(("said_ms", "kept_ms"), [((1 << 63) - 1, TIME_MS_MAX), (-1, 0), (1_700_000_000_000,) * 2])
def test_a_creation_time_is_one_that_calendars_have(said_ms: int, kept_ms: int) -> None:
    """3.2.4: 64 bits reach beyond what readers in bulk can count in microseconds. AMQP consumers get it as it came."""
    fields: list[AmqpValue] = [None] * 9
    sent = encode(Described(ulong(PROPERTIES), [*fields, timestamp(said_ms)]))
    message = read_message(sent, 0)
    assert message.headers is not None
    assert message.headers.timestamp_ms == kept_ms
