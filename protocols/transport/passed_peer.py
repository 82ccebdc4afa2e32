"""What one process tells another with a socket that it passes: who the peer is, and what was read of it already.

Both run the same release: one supervisor has started them.
"""

import struct
from typing import Final

from sluicegate.protocols.transport.interface import PeerInfo, PeerRecord

_HEAD: Final = struct.Struct("!BH")  # whether it is encrypted, port
_LENGTH: Final = struct.Struct("!H")
_ABSENT: Final = 0xFFFF  # in place of a length
_TEXTS_COUNT: Final = 5  # listener, host, ALPN, name in the certificate, subprotocol


def encode_peer(peer: PeerInfo, data: bytes) -> bytes:
    """Return the message to pass with a peer's socket. Raises ValueError for a text of 64 KiB or more."""
    parts = [_HEAD.pack(peer.is_encrypted, peer.port)]
    for text in (peer.listener, peer.host, peer.alpn, peer.certificate_name, peer.subprotocol):
        raw = b"" if text is None else text.encode("utf-8", "surrogatepass")
        if len(raw) >= _ABSENT:
            raise ValueError(f"a text of {len(raw)} bytes; allowed: {_ABSENT - 1}")
        parts += [_LENGTH.pack(_ABSENT if text is None else len(raw)), raw]
    parts.append(data)
    return b"".join(parts)


def decode_peer(message: bytes, pos: int = 0) -> tuple[PeerRecord, bytes]:
    """Return the peer, and what was read of it, from a message of `encode_peer` that begins at `pos`."""
    is_encrypted, port = _HEAD.unpack_from(message, pos)
    pos += _HEAD.size
    texts: list[str | None] = []
    for _ in range(_TEXTS_COUNT):
        (length,) = _LENGTH.unpack_from(message, pos)
        pos += _LENGTH.size
        if length == _ABSENT:
            texts.append(None)
        else:
            texts.append(message[pos : pos + length].decode("utf-8", "surrogatepass"))
            pos += length
    listener, host, alpn, certificate_name, subprotocol = texts
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
