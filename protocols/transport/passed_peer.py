"""What one process tells another with a socket that it passes: who the peer is, and what was read of it already.

Both run the same release: one supervisor has started them.
"""

import struct
from typing import Final

from sluicegate.protocols.transport.interface import PeerInfo, PeerRecord

# The first byte of a message through a passage says what its socket is.
LINK: Final = b"L"  # of a link; nothing stands behind it
MQTT_CLIENT: Final = b"M"  # of a client; who that is, and what was read of it, stands behind this
AMQP_CLIENT: Final = b"A"  # of a client that is authenticated: the same, and who it has shown to be
PUBLISHER: Final = (
    b"P"  # of a publisher of the flow protocol; behind this are its client, and what that has sent for it
)

_HEAD: Final = struct.Struct("!BH")  # whether it is encrypted, port
_LENGTH: Final = struct.Struct("!H")
_ABSENT: Final = 0xFFFF  # in place of a length
_PEER_TEXTS: Final = 5  # listener, host, ALPN, name in the certificate, subprotocol


def encode_peer(peer: PeerInfo, data: bytes) -> bytes:
    """Return the message to pass with a peer's socket. Raises ValueError for a text of 64 KiB or more."""
    texts = encode_texts(peer.listener, peer.host, peer.alpn, peer.certificate_name, peer.subprotocol)
    return b"".join((_HEAD.pack(peer.is_encrypted, peer.port), texts, data))


def decode_peer(message: bytes, pos: int = 0) -> tuple[PeerRecord, bytes]:
    """Return the peer, and what was read of it, from a message of `encode_peer` that begins at `pos`."""
    is_encrypted, port = _HEAD.unpack_from(message, pos)
    (listener, host, alpn, certificate_name, subprotocol), pos = decode_texts(message, pos + _HEAD.size, _PEER_TEXTS)
    peer = PeerRecord(
        listener or "",
        host or "",
        port,
        is_encrypted=bool(is_encrypted),
        alpn=alpn,
        certificate_name=certificate_name,
        subprotocol=subprotocol,
    )
    return peer, message[pos:]


def encode_texts(*texts: str | None) -> bytes:
    """Return texts, some of which may be absent, for `decode_texts`. Raises ValueError for one of 64 KiB or more."""
    parts: list[bytes] = []
    for text in texts:
        raw = b"" if text is None else text.encode("utf-8", "surrogatepass")
        if len(raw) >= _ABSENT:
            raise ValueError(f"a text of {len(raw)} bytes; allowed: {_ABSENT - 1}")
        parts += [_LENGTH.pack(_ABSENT if text is None else len(raw)), raw]
    return b"".join(parts)


def decode_texts(message: bytes, pos: int, count: int) -> tuple[list[str | None], int]:
    """Return so many texts of `encode_texts` that begin at `pos`, and where they end."""
    texts: list[str | None] = []
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(message, pos)
        pos += _LENGTH.size
        if length == _ABSENT:
            texts.append(None)
        else:
            texts.append(message[pos : pos + length].decode("utf-8", "surrogatepass"))
            pos += length
    return texts, pos
