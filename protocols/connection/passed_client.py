"""What one broker of a machine tells another with the socket of a client that it has authenticated."""

import struct
from dataclasses import dataclass
from typing import Final, final

from sluicegate.protocols.security.authentication import Principal
from sluicegate.protocols.security.backends.guarded_backend import Admission, Granted
from sluicegate.protocols.transport.passing.passed_peer import decode_texts, encode_texts

_TIMES: Final = struct.Struct("!QQ")  # valid until; when a backend answered, 0: none was asked
_TEXTS_COUNT: Final = 5  # message VPN, client name, user name, client profile, ACL profile
_NOTHING: Final = Granted(Admission(), 0)


@final
@dataclass(frozen=True)
class PassedClient:
    """A client that another broker of this machine has authenticated."""

    vpn: str
    name: str  # the client's own; empty where its protocol has not told it yet
    principal: Principal
    granted: Granted | None = None  # by a backend; None: no backend has decided about the user

    def encode(self, data: bytes) -> bytes:
        """Return it with what was read of the client. Raises ValueError for a text of 64 KiB or more."""
        granted = _NOTHING if self.granted is None else self.granted
        profiles = granted.admission
        texts = encode_texts(
            self.vpn, self.name, self.principal.user_name, profiles.client_profile, profiles.acl_profile
        )
        return b"".join((_TIMES.pack(self.principal.valid_until_ms, granted.answered_ms), texts, data))


def decode_client(message: bytes) -> tuple[PassedClient, bytes]:
    """Return the client, and what was read of it, from what `encode` gave."""
    valid_until_ms, answered_ms = _TIMES.unpack_from(message)
    (vpn, name, user, client_profile, acl_profile), pos = decode_texts(message, _TIMES.size, _TEXTS_COUNT)
    granted = Granted(Admission(client_profile or "", acl_profile or ""), answered_ms) if answered_ms else None
    return PassedClient(vpn or "", name or "", Principal(user or "", valid_until_ms), granted), message[pos:]
