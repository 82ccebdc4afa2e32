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
    payload_preview,
    properties_preview,
)
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


@given(st.lists(st.tuples(st.text(max_size=30), st.one_of(st.text(max_size=3000), st.integers(), st.none()))))
def test_user_properties_are_shown_whole_up_to_the_bound(properties: list[tuple[str, object]]) -> None:
    whole = tuple((name, str(value)) for name, value in properties)
    shown, truncated = properties_preview(properties)
    assert sum(len(name) + len(value) for name, value in shown) <= PROPERTIES_CHARS_MAX
    assert truncated == (sum(len(name) + len(value) for name, value in whole) > PROPERTIES_CHARS_MAX)
    if not truncated:
        assert shown == whole
    for (name, value), (name_shown, value_shown) in zip(whole, shown, strict=False):
        assert name == name_shown
        assert value.startswith(value_shown)
