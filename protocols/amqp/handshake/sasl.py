"""SASL (part 5) on one connection: it carries the client's responses to the mechanisms, and their challenges back."""

from sluicegate.messaging.clients.rights import AUTHENTICATION_UNAVAILABLE, LOGINS_BUSY, NOT_AUTHENTICATED, ClientDenied
from sluicegate.protocols.amqp.client import AmqpClient
from sluicegate.protocols.amqp.codec.performatives import SASL_AUTH, SASL_OK, SASL_SYS_TEMP
from sluicegate.protocols.amqp.engine.events import SaslInitReceived
from sluicegate.protocols.amqp.handshake.open import vpn_of_hostname
from sluicegate.protocols.connection.sasl import SaslDialogue
from sluicegate.protocols.security.authentication import Authenticated, AuthenticationFailed, Challenge
from sluicegate.protocols.transport.interface import PeerInfo


class AmqpSasl:
    """One connection's authentication. The engine reads nothing more until each step has its answer."""

    def __init__(self, client: AmqpClient, peer: PeerInfo) -> None:
        services = client.services
        self._client = client
        self._dialogue = SaslDialogue(client.vpns, peer, allows_plain_unencrypted=services.allows_plain_unencrypted)

    def offered(self) -> list[str]:
        """Return the mechanisms this client may use, best first."""
        return self._dialogue.offered()

    async def begin(self, event: SaslInitReceived) -> None:
        """Take the client's mechanism, and its initial response."""
        dialogue, vpn = self._dialogue, vpn_of_hostname(event.hostname)
        try:
            if vpn is not None:
                dialogue.enter(self._client.vpns.named(vpn, dialogue.services, ""))
            answer = await dialogue.begin(event.mechanism, event.initial_response)
        except AuthenticationFailed as failure:
            self._fail(str(failure))
            return
        except ClientDenied as denied:
            self._client.count_refused(denied.reason)
            is_for_now = denied.reason in (LOGINS_BUSY, AUTHENTICATION_UNAVAILABLE)
            self._client.sasl_outcome(SASL_SYS_TEMP if is_for_now else SASL_AUTH, None)
            return
        self._answer(answer)

    def step(self, data: bytes) -> None:
        """Take the client's next response."""
        try:
            answer = self._dialogue.step(data)
        except AuthenticationFailed as failure:
            self._fail(str(failure))
            return
        self._answer(answer)

    def _answer(self, answer: Challenge | Authenticated) -> None:
        if self._client.is_released:
            return  # the client left meanwhile: what it sent on would be opened, and never closed
        if isinstance(answer, Challenge):
            self._client.challenge(answer.data)
        else:
            self._client.enter(self._dialogue.services)
            self._client.identity.authenticated(answer.principal)
            self._client.sasl_outcome(SASL_OK, answer.data or None)

    def _fail(self, text: str) -> None:
        services = self._dialogue.services
        services.clients.denials.deny(
            NOT_AUTHENTICATED, "", f"401 Unauthorized: AMQP client at {self._client.peer_name()}: {text}"
        )
        self._client.refuse(text)
        self._client.sasl_outcome(SASL_AUTH, None)
