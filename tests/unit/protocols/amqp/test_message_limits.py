"""How much there may be in one message, whatever its bytes allow: each value is an object while the message is read."""

import pytest

from sluicegate.messaging.message.headers import USER_PROPERTIES_MAX
from sluicegate.protocols.amqp.codec.sections import (
    APPLICATION_PROPERTIES,
    DATA,
    MESSAGE_ANNOTATIONS,
    SECTIONS_MAX,
    SEQUENCE,
    VALUE,
)
from sluicegate.protocols.amqp.messages.decode import MESSAGE_VALUES_MAX, read_message
from sluicegate.protocols.amqp.types.encoding import encode
from sluicegate.protocols.amqp.types.errors import DecodeError
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue, Described, Symbol, ulong

BODY = encode(Described(ulong(DATA), b"payload"))


def section(code: int, value: AmqpValue) -> bytes:
    return encode(Described(ulong(code), value))


@pytest.mark.parametrize("sections", [1, 10])
def test_a_body_has_a_bounded_number_of_values_over_all_its_sections(sections: int) -> None:
    """3.2.7: a body may have any number of sequences."""
    each = MESSAGE_VALUES_MAX // sections
    values: list[AmqpValue] = [True] * each
    taken = section(SEQUENCE, values) * sections

    assert read_message(taken, 0).payload.count(b"true") == MESSAGE_VALUES_MAX
    with pytest.raises(DecodeError, match="more than are taken"):
        read_message(taken + section(SEQUENCE, [True]), 0)


def test_values_before_the_body_count_too() -> None:
    values: list[AmqpValue] = [None] * (MESSAGE_VALUES_MAX // 2)
    annotations = section(MESSAGE_ANNOTATIONS, AmqpMap([(Symbol("x-opt-a"), values)]))

    read_message(annotations + BODY, 0)
    with pytest.raises(DecodeError, match="more than are taken"):
        read_message(annotations + section(VALUE, values), 0)


def test_a_long_body_of_few_values_is_taken() -> None:
    body = section(VALUE, AmqpMap([("picture", bytes(1 << 20)), ("name", "n" * MESSAGE_VALUES_MAX)]))

    assert len(read_message(body, 0).payload) > 1 << 20


@pytest.mark.parametrize("code", [MESSAGE_ANNOTATIONS, APPLICATION_PROPERTIES])
def test_the_number_of_user_properties_is_limited(code: int) -> None:
    pairs: list[tuple[AmqpValue, AmqpValue]] = [
        (f"x-{number}" if code == APPLICATION_PROPERTIES else Symbol(f"x-{number}"), 1)
        for number in range(USER_PROPERTIES_MAX + 1)
    ]

    headers = read_message(section(code, AmqpMap(pairs[1:])) + BODY, 0).headers
    assert headers is not None
    assert len(headers.user_properties or []) == USER_PROPERTIES_MAX
    with pytest.raises(DecodeError, match=f"at most {USER_PROPERTIES_MAX}"):
        read_message(section(code, AmqpMap(pairs)) + BODY, 0)


@pytest.mark.parametrize("before", [b"", section(APPLICATION_PROPERTIES, AmqpMap([("a", 1)]))])
def test_a_body_has_a_bounded_number_of_sections(before: bytes) -> None:
    """In any order, too: that of rhea has the footer before the body."""
    footer = section(0x78, AmqpMap([]))
    data = section(DATA, b"x")

    assert len(read_message(footer + before + data * (SECTIONS_MAX - 2), 0).payload) == SECTIONS_MAX - 2
    with pytest.raises(DecodeError, match="sections"):
        read_message(before + data * (SECTIONS_MAX + 1), 0)
    with pytest.raises(DecodeError, match="sections"):
        read_message(footer + before + data * (SECTIONS_MAX + 1), 0)
