"""What one broker of a machine tells another with the socket of a client that it has authenticated."""

import struct
from dataclasses import dataclass
from typing import Final, final

from sluicegate.protocols.security.authentication import Principal
from sluicegate.protocols.transport.passed_peer import decode_texts, encode_texts

_VALID: Final = struct.Struct("!Q")
_TEXTS_COUNT: Final = 3  # message VPN, client name, user name


@final
@dataclass(frozen=True)
class PassedClient:
    """A client that another broker of this machine has authenticated."""

    vpn: str
    name: str  # the client's own; empty where its protocol has not told it yet
    principal: Principal

    def encode(self, data: bytes) -> bytes:
        """Return it with what was read of the client. Raises ValueError for a text of 64 KiB or more."""
        texts = encode_texts(self.vpn, self.name, self.principal.user_name)
        return b"".join((_VALID.pack(self.principal.valid_until_ms), texts, data))


def decode_client(message: bytes) -> tuple[PassedClient, bytes]:
    """Return the client, and what was read of it, from what `encode` gave."""
    (valid_until_ms,) = _VALID.unpack_from(message)
    (vpn, name, user), pos = decode_texts(message, _VALID.size, _TEXTS_COUNT)
    return PassedClient(vpn or "", name or "", Principal(user or "", valid_until_ms)), message[pos:]
