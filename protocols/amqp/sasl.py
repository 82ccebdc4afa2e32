"""Who a client is: SASL's mechanisms (part 5) over the one authentication service of all protocols."""

from typing import TYPE_CHECKING, Final

from protocols.amqp.events import SaslInitReceived
from protocols.amqp.sasl_frames import SASL_AUTH, SASL_OK
from protocols.authentication import ANONYMOUS, AuthenticationFailed, Exchange, Principal, Proven

if TYPE_CHECKING:
    from protocols.amqp.connection import AmqpConnection

ANONYMOUS_NAME: Final = "ANONYMOUS"
PLAIN_NAME: Final = "PLAIN"
EXTERNAL_NAME: Final = "EXTERNAL"


class SaslDialogue:
    """One connection's authentication. The engine reads nothing more until each step has its answer."""

    def __init__(self, connection: "AmqpConnection") -> None:
        self._connection = connection
        self._exchange: Exchange | None = None

    def offered(self) -> list[str]:
        """Return the mechanisms this client may use, best first."""
        connection = self._connection
        services, peer = connection.services, connection.peer
        assert peer is not None, "mechanisms depend on the transport"
        names: list[str] = []
        if peer.certificate_name is not None:
            names.append(EXTERNAL_NAME)
        names += sorted(services.authenticator.mechanisms)
        if peer.is_encrypted or services.allows_plain_unencrypted:
            names.append(PLAIN_NAME)
        if services.authenticator.admits_anonymous(peer.listener):
            names.append(ANONYMOUS_NAME)
        return names

    async def begin(self, event: SaslInitReceived) -> None:
        """Take the client's choice, and its first words."""
        response = event.initial_response
        if event.mechanism not in self.offered():
            self._fail(f"mechanism {event.mechanism[:80]!r} was not offered")
        elif event.mechanism == ANONYMOUS_NAME:
            self._succeed(ANONYMOUS)
        elif event.mechanism == PLAIN_NAME:
            await self._plain(response or b"")
        elif event.mechanism == EXTERNAL_NAME:
            self._external(response or b"")
        else:
            self._exchange = self._connection.services.authenticator.mechanisms[event.mechanism].begin()
            self.step(response)

    def step(self, data: bytes | None) -> None:
        """Take the client's next words."""
        if self._exchange is None:
            self._fail("a sasl-response where none was asked for")
            return
        try:
            answer = self._exchange.step(data)
        except AuthenticationFailed as failure:
            self._fail(str(failure))
            return
        if isinstance(answer, Proven):
            self._exchange = None
            self._succeed(answer.principal, answer.data)
        else:
            self._connection.challenge(answer.data)

    async def _plain(self, response: bytes) -> None:
        """RFC 4616: authorization identity, authentication identity and password, with a NUL between each."""
        parts = response.split(b"\0")
        if len(parts) != 3 or not parts[1] or parts[0] not in (b"", parts[1]):
            self._fail("a PLAIN response that is not [authzid] NUL authcid NUL password")
            return
        try:
            user_name = parts[1].decode("utf-8")
        except UnicodeDecodeError:
            self._fail("a PLAIN user name that is not UTF-8")
            return
        principal = await self._connection.services.authenticator.password(user_name, parts[2])
        if principal is None:
            self._fail(f"PLAIN of user {user_name[:80]!r}")
        else:
            self._succeed(principal)

    def _external(self, response: bytes) -> None:
        peer = self._connection.peer
        assert peer is not None, "SASL comes after the transport"
        assert peer.certificate_name is not None, "EXTERNAL is offered to those with a certificate"
        principal = self._connection.services.authenticator.certificate(peer.certificate_name)
        if principal is None or response not in (b"", principal.user_name.encode()):
            self._fail("EXTERNAL with an identity that is not the certificate's")
        else:
            self._succeed(principal)

    def _succeed(self, principal: Principal, data: bytes | None = None) -> None:
        self._connection.authenticated(principal.user_name)
        self._connection.sasl_outcome(SASL_OK, data)

    def _fail(self, text: str) -> None:
        self._connection.refuse(text)
        self._connection.sasl_outcome(SASL_AUTH, None)
