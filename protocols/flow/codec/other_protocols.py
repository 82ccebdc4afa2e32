"""The other protocols that may be at the other end of a connection, told by their first bytes."""

from typing import Final

_BY_FIRST_BYTES: Final = (
    (b"AMQP", "AMQP"),
    (b"HTTP", "HTTP"),
    (b"GET ", "HTTP"),
    (b"POST", "HTTP"),
    (b"SSH-", "SSH"),
    (b"\x15\x03", "TLS"),  # an alert: the server cannot read what was sent to it
    (b"\x16\x03", "TLS"),  # a handshake
    (b"\x10", "MQTT"),  # CONNECT
    (b"\x20\x02\x00", "MQTT"),  # CONNACK of MQTT 3
)


def protocol_of(first: bytes) -> str:
    """Return the name of the protocol that begins with these bytes; empty for one that is not known."""
    for begin, name in _BY_FIRST_BYTES:
        if first.startswith(begin):
            return name
    return ""
