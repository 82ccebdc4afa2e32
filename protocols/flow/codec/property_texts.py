"""User properties as texts: how columns carry them, for readers whose maps hold texts only.

Flow: columns. The type of a property is that of `properties`; its text is what it looks like: numbers in decimal,
`true` and `false`, nothing for null, bytes in base64.
"""

from base64 import b64decode, b64encode

from sluicegate.messaging.message.headers import UserPropertyValue
from sluicegate.protocols.flow.codec.codes import MALFORMED
from sluicegate.protocols.flow.codec.errors import LocalMisuse, PeerViolation
from sluicegate.protocols.flow.codec.properties import BYTES, F64, FALSE, I64, NULL, TEXT, TRUE, U64


def property_text(value: UserPropertyValue) -> tuple[int, bytes]:
    """Return type and text of a property."""
    if value is None:
        return NULL, b""
    if isinstance(value, bool):
        return (TRUE, b"true") if value else (FALSE, b"false")
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 64:
            raise LocalMisuse(f"the user property {value} has more than 64 bits")
        return (I64 if value < 1 << 63 else U64), str(value).encode()
    if isinstance(value, float):
        return F64, repr(value).encode()
    if isinstance(value, str):
        return TEXT, value.encode("utf-8")
    return BYTES, b64encode(value)


def property_value(kind: int, text: bytes) -> UserPropertyValue:
    """Return the property that a type and a text stand for. Raises PeerViolation."""
    if kind == TEXT:
        return text.decode("utf-8")
    if kind == NULL:
        return None
    if kind in (TRUE, FALSE):
        return kind == TRUE
    try:
        if kind == F64:
            return float(text)
        if kind == BYTES:
            return b64decode(text, validate=True)
        number = int(text) if kind in (I64, U64) and len(text) <= 20 else None
    except ValueError:
        number = None
    if number is None or not -(1 << 63) <= number < 1 << 64:
        raise PeerViolation(MALFORMED, f"a property of type {kind} with the text {text[:40]!r}")
    return number
