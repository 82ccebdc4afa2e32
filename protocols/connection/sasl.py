"""SASL's mechanisms (RFC 4422) over the one authentication service of all protocols.

See also: the messages that carry it, AMQP's SASL layer and AUTH of the flow protocol.
"""

from typing import Final, Generic

from sluicegate.protocols.connection.message_vpns import MessageVpns, S
from sluicegate.protocols.security.authentication import (
    ANONYMOUS,
    Authenticated,
    AuthenticationFailed,
    Challenge,
    Exchange,
    Principal,
)
from sluicegate.protocols.transport.interface import SIBLINGS, PeerInfo

ANONYMOUS_NAME: Final = "ANONYMOUS"
PLAIN_NAME: Final = "PLAIN"
EXTERNAL_NAME: Final = "EXTERNAL"


class SaslDialogue(Generic[S]):
    """One client's authentication. A new `begin` begins anew.

    `services` are those of the message VPN that it shows itself to: the listener's, unless it has named another one,
    for good with `enter`, or behind the user name of one attempt.
    """

    def __init__(self, vpns: MessageVpns[S], peer: PeerInfo, *, allows_plain_unencrypted: bool) -> None:
        self.services = self._here = vpns.of_listener(peer.listener)
        self._vpns = vpns
        self._peer = peer
        self._allows_plain = peer.is_encrypted or allows_plain_unencrypted
        self._exchange: Exchange | None = None

    def enter(self, services: S) -> None:
        """Have the client show itself to another message VPN from now on."""
        self.services = self._here = services

    def offered(self) -> list[str]:
        """Return the mechanisms this client may use, best first."""
        if self._peer.listener == SIBLINGS:
            return [ANONYMOUS_NAME]
        names: list[str] = []
        if self._peer.certificate_name is not None:
            names.append(EXTERNAL_NAME)
        authenticator = self.services.authenticator
        mechanisms = authenticator.sasl_mechanisms
        names += [name for name in sorted(mechanisms) if self._allows_plain or not mechanisms[name].needs_encryption]
        if self._allows_plain:
            names.append(PLAIN_NAME)
        if authenticator.admits_anonymous(self._peer.listener):
            names.append(ANONYMOUS_NAME)
        return names

    async def begin(self, mechanism: str, response: bytes | None) -> Challenge | Authenticated:
        """Take the client's choice and its first words, if it has any. Raises AuthenticationFailed, ClientDenied."""
        self._exchange = None
        self.services = self._here
        if mechanism not in self.offered():
            raise AuthenticationFailed(f"mechanism {mechanism[:80]!r} was not offered")
        if mechanism == ANONYMOUS_NAME:
            return Authenticated(ANONYMOUS, b"")
        if mechanism == PLAIN_NAME:
            return Authenticated(await self._plain(response or b""), b"")
        if mechanism == EXTERNAL_NAME:
            return Authenticated(self._external(response or b""), b"")
        authenticator = self.services.authenticator
        if not await authenticator.may_try(self._peer.host):
            raise AuthenticationFailed(f"too many attempts from {self._peer.host} have failed")
        chosen = authenticator.sasl_mechanisms.get(mechanism)
        if chosen is None:
            raise AuthenticationFailed(f"mechanism {mechanism!r} was removed while the client waited")
        self._exchange = authenticator.exchange(chosen, self._peer.host)
        return self.step(response)

    def step(self, data: bytes | None) -> Challenge | Authenticated:
        """Take the client's next words. Raises AuthenticationFailed."""
        exchange = self._exchange
        if exchange is None:
            raise AuthenticationFailed("an unexpected response")
        self._exchange = None
        answer = exchange.step(data)
        if isinstance(answer, Challenge):
            self._exchange = exchange
        return answer

    async def _plain(self, response: bytes) -> Principal:
        """RFC 4616: authorization identity, authentication identity and password, with a NUL between each."""
        parts = response.split(b"\0")
        if len(parts) != 3 or not parts[1] or parts[0] not in (b"", parts[1]):
            raise AuthenticationFailed("a PLAIN response that is not [authzid] NUL authcid NUL password")
        try:
            user_name = parts[1].decode("utf-8")
        except UnicodeDecodeError:
            raise AuthenticationFailed("a PLAIN user name that is not UTF-8") from None
        user_name, self.services = self._vpns.of_user(user_name, self.services, "")
        peer = self._peer
        authenticator = self.services.authenticator
        principal = await authenticator.client(user_name, parts[2], listener=peer.listener, host=peer.host)
        if principal is None:
            raise AuthenticationFailed(f"PLAIN of user {user_name[:80]!r}")
        return principal

    def _external(self, response: bytes) -> Principal:
        assert self._peer.certificate_name is not None, "EXTERNAL is offered to those with a certificate"
        principal = self.services.authenticator.certificate(self._peer.certificate_name)
        if principal is None or response not in (b"", principal.user_name.encode()):
            raise AuthenticationFailed("EXTERNAL with an identity that is not the certificate's")
        return principal
