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
HTTP_CLIENT: Final = b"H"  # of one request of a client that is authenticated, likewise
PUBLISHER: Final = (
    b"P"  # of a publisher of the flow protocol; behind this are its client, and what that has sent for it
)

_HEAD: Final = struct.Struct("!4I")  # the port, and the lengths of listener, host and what else there is
_LENGTH: Final = struct.Struct("!H")
_ABSENT: Final = 0xFFFF  # in place of a length
_SECURE: Final = b"\1"
_PLAIN: Final = b"\0"


def encode_peer(peer: PeerInfo, data: bytes) -> bytes:
    """Return the message to pass with a peer's socket. Raises ValueError for a text of 64 KiB or more."""
    listener, host = _encoded(peer.listener), _encoded(peer.host)
    more = b""  # of most, which are over plain TCP
    if peer.is_encrypted or not (peer.alpn is None and peer.certificate_name is None and peer.subprotocol is None):
        more = _SECURE if peer.is_encrypted else _PLAIN
        more += encode_texts(peer.alpn, peer.certificate_name, peer.subprotocol)
    head = _HEAD.pack(peer.port, len(listener), len(host), len(more))
    return b"".join([head, listener, host, more, data])


def decode_peer(message: bytes, pos: int = 0) -> tuple[PeerRecord, bytes]:
    """Return the peer, and what was read of it, from a message of `encode_peer` that begins at `pos`."""
    port, listener_bytes, host_bytes, more_bytes = _HEAD.unpack_from(message, pos)
    listener_at = pos + _HEAD.size
    host_at = listener_at + listener_bytes
    more_at = host_at + host_bytes
    data_at = more_at + more_bytes
    listener, host = _decoded(message[listener_at:host_at]), _decoded(message[host_at:more_at])
    if data_at == more_at:
        return PeerRecord(listener, host, port), message[data_at:]
    (alpn, certificate_name, subprotocol), _ = decode_texts(message, more_at + len(_SECURE), 3)
    peer = PeerRecord(
        listener,
        host,
        port,
        is_encrypted=message[more_at : more_at + len(_SECURE)] == _SECURE,
        alpn=alpn,
        certificate_name=certificate_name,
        subprotocol=subprotocol,
    )
    return peer, message[data_at:]


def encode_texts(*texts: str | None) -> bytes:
    """Return texts, some of which may be absent, for `decode_texts`. Raises ValueError for one of 64 KiB or more."""
    parts: list[bytes] = []
    for text in texts:
        raw = b"" if text is None else _encoded(text)
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
            texts.append(_decoded(message[pos : pos + length]))
            pos += length
    return texts, pos


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decoded(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")
