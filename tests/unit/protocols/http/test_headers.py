"""Attributes of messages as headers of answers: what a header cannot hold is left out."""

import pytest

from sluicegate.messaging.message.headers import TIME_MS_MAX, Headers, UserPropertyValue
from sluicegate.protocols.http.codec.message_in import read_attributes
from sluicegate.protocols.http.codec.message_out import response_headers


@pytest.mark.parametrize(
    ("name", "value"),
    [("a\n", "1"), ("a b", "1"), ("a:", "1"), ("a", "1\n"), ("a", "1\r\nb: 2"), ("a", "\0")],
)
def test_a_user_property_that_is_no_header_is_left_out(name: str, value: str) -> None:
    """RFC 9110 5.1, 5.5: another header, or the end of all, would begin behind it."""
    headers = Headers()
    headers.user_properties = [(name, value), ("kept", "2")]
    fields = response_headers(headers, 0)
    prefix = b"Solace-User-Property-"
    assert [each for each in fields if each[0].startswith(prefix)] == [(prefix + b"kept", b"2")]


@pytest.mark.parametrize(
    "value", [0, -(1 << 63), (1 << 63) - 1, 1 << 63, (1 << 64) - 1, True, 2.5, "x", "7; type=int8"]
)
def test_a_user_property_that_is_published_again_is_the_same(value: UserPropertyValue) -> None:
    """As a line of JSON, or by a REST consumer that hands on what it got; numbers have the type that they fit."""
    headers = Headers()
    headers.user_properties = [("a", value)]
    fields = [(name.decode(), said.decode()) for name, said in response_headers(headers, 0)]
    assert read_attributes(fields, b"", 0).headers.user_properties == [("a", value)]


@pytest.mark.parametrize(
    "published",
    [
        Headers(dmq_eligible=True),
        Headers(deliver_to_one=True),
        Headers(priority=9),
        Headers(message_id="m-1"),
        Headers(correlation=b"c-1"),
        Headers(reply_to="#q/answers"),
        Headers(timestamp_ms=1_700_000_000_000),
    ],
)
def test_attributes_of_a_delivery_are_those_it_was_published_with(published: Headers) -> None:
    """docs/connect/http.md: what comes can be published again."""
    fields = [(name.decode(), said.decode()) for name, said in response_headers(published, 0)]
    again = read_attributes(fields, b"\xff", 0).headers
    again.content_type = None  # which a body always has
    assert again == published


@pytest.mark.parametrize(("said_ms", "kept_ms"), [(1 << 53, TIME_MS_MAX), (1_700_000_000_000,) * 2])
def test_a_timestamp_is_one_that_calendars_have(said_ms: int, kept_ms: int) -> None:
    """What readers in bulk make a date of."""
    assert read_attributes([("Solace-Timestamp", str(said_ms))], b"", 0).headers.timestamp_ms == kept_ms
