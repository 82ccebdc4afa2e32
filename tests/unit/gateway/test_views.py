"""Payload previews: text where it is text, never more than the bound."""

import base64

from hypothesis import given
from hypothesis import strategies as st

from gateway.views import PREVIEW_BYTES_MAX, payload_preview


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
