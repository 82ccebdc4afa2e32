"""Messages as operators see them. Previews of payloads: text where it is text, never more than the bound."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.actors.messages.partitions import BrowsedMessage
from sluicegate.gateway.operations.queues.message_views import message_view
from sluicegate.gateway.views.queues.messages import (
    PREVIEW_BYTES_MAX,
    PROPERTIES_CHARS_MAX,
    TEXT_CHARS_MAX,
    PropertiesPreview,
    payload_preview,
    value_text,
)
from sluicegate.messaging.message.headers import NATIVE_AMQP, UserPropertyValue
from sluicegate.protocols.amqp.codec.sections import PROPERTIES
from sluicegate.protocols.amqp.messages.decode import read_message
from sluicegate.protocols.amqp.messages.selector_fields import AmqpFields
from sluicegate.protocols.amqp.types.encoding import encode_composite
from sluicegate.protocols.amqp.types.values import AmqpValue, Symbol
from support.cores.messages import batch_of


@pytest.mark.parametrize(
    ("redelivered", "failed", "in_flight", "shown"),
    [
        (False, 0, False, 0),
        (True, 0, True, 1),
        (True, 1, False, 1),
        (True, 1, True, 2),
        (True, 0, False, 1),  # before a crash, perhaps
    ],
)
def test_deliveries_count_that_failed_and_the_one_under_way(
    redelivered: bool, failed: int, in_flight: bool, shown: int
) -> None:
    message = BrowsedMessage(
        partition_number=0, sequence=1, batch=batch_of([b"x"]), row=0, redelivered=redelivered, delivery_count=failed,
        in_flight=in_flight,
    )  # fmt: skip
    assert message_view(message, None, "", {}).delivery_count == shown


@given(st.text(max_size=50), st.integers(0, 3))
def test_text_is_shown_as_text_even_when_the_limit_cuts_a_character(end: str, shift: int) -> None:
    payload = (b"x" * (PREVIEW_BYTES_MAX - shift)) + ("é€😀" + end).encode()
    text, encoding, truncated = payload_preview(payload)
    assert encoding == "text"
    assert truncated == (len(payload) > PREVIEW_BYTES_MAX)
    assert payload.decode().startswith(text)
    assert PREVIEW_BYTES_MAX - 3 <= len(text.encode()) <= PREVIEW_BYTES_MAX


@given(st.binary(max_size=200))
def test_bytes_come_back_whole(payload: bytes) -> None:
    text, encoding, truncated = payload_preview(payload)
    assert not truncated
    assert (text.encode() if encoding == "text" else base64.b64decode(text)) == payload


LONG: st.SearchStrategy[UserPropertyValue] = st.one_of(
    st.text(max_size=3000), st.binary(max_size=3000), st.integers(), st.floats(), st.booleans(), st.none()
)


@given(st.lists(st.tuples(st.text(max_size=30), LONG)))
def test_user_properties_are_shown_whole_up_to_the_bound(properties: list[tuple[str, UserPropertyValue]]) -> None:
    whole = tuple((name, value_text(value, 100_000)[0]) for name, value in properties)
    preview = PropertiesPreview()
    shown = preview.user_properties(properties)
    assert sum(len(name) + len(value) for name, value in shown) <= PROPERTIES_CHARS_MAX
    assert preview.truncated == (sum(len(name) + len(value) for name, value in whole) > PROPERTIES_CHARS_MAX)
    if not preview.truncated:
        assert shown == whole
    for (name, value), (name_shown, value_shown) in zip(whole, shown, strict=False):
        assert name == name_shown
        assert value.startswith(value_shown)


@pytest.mark.parametrize(
    ("value", "text"),
    [(b"\x01\xff", "01ff"), (True, "true"), (False, "false"), (None, ""), (12, "12"), (1.5, "1.5"), ("Ann", "Ann")],
)
def test_values_are_shown_alike_in_every_protocol(value: UserPropertyValue, text: str) -> None:
    assert value_text(value, 100) == (text, False)
    assert value_text(value, max(0, len(text) - 1)) == (text[:-1], text != "")


@given(st.one_of(st.text(max_size=5000), st.binary(max_size=5000)))
def test_a_long_property_is_cut_and_said_to_be(value: str | bytes) -> None:
    preview = PropertiesPreview()
    shown = preview.text(value)
    whole = value.hex() if isinstance(value, bytes) else value
    assert shown == whole[:TEXT_CHARS_MAX]
    assert preview.truncated == (len(whole) > TEXT_CHARS_MAX)


MEGABYTES = 4_000_000
LONG_FIELDS = ("content_type", "message_id", "correlation_id", "reply_to", "user_id", "reply_to_group_id")


def test_no_property_makes_a_page_of_messages_large() -> None:
    """In AMQP and the flow protocol each may have megabytes."""
    text = "x" * MEGABYTES
    values: list[AmqpValue] = [text, text.encode(), None, None, text, text.encode(), Symbol(text), *[None] * 5, text]
    headers = read_message(encode_composite(PROPERTIES, values) + b"\x00\x53\x75\xa0\x01x", 0).headers
    message = BrowsedMessage(
        partition_number=0, sequence=1, batch=batch_of([b"x"], headers=[headers]), row=0, redelivered=False,
        delivery_count=0, in_flight=False,
    )  # fmt: skip
    properties = message_view(message, None, "", {NATIVE_AMQP: AmqpFields()}).properties
    for name in LONG_FIELDS:
        assert len(getattr(properties, name)) == TEXT_CHARS_MAX, name
    assert properties.truncated
