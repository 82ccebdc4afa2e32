"""Enhanced authentication of one connection (section 4.12): AUTH packets in both directions, and re-authentication.

The engine checks the order of packets, the mechanism checks their data. Messages flow during a re-authentication, which
must not change the user.
"""

from sluicegate.messaging.clients.rights import NOT_AUTHENTICATED, ClientDenied
from sluicegate.protocols.mqtt.client import AuthExchange, MqttClient
from sluicegate.protocols.mqtt.codec.events import AuthReceived, ConnectReceived
from sluicegate.protocols.mqtt.codec.reason_codes import (
    BAD_AUTHENTICATION_METHOD,
    BAD_USER_NAME_OR_PASSWORD,
    CONNECTION_RATE_EXCEEDED,
    CONTINUE_AUTHENTICATION,
    NOT_AUTHORIZED,
    PACKET_TOO_LARGE,
    RE_AUTHENTICATE,
    SUCCESS,
)
from sluicegate.protocols.mqtt.requests.connect import connect, enter_vpn, refuse_denied
from sluicegate.protocols.security.authentication import Authenticated, AuthenticationFailed, Exchange, Principal


class EnhancedAuthentication(AuthExchange):
    """The exchanges of one connection that named a method in CONNECT."""

    def __init__(self, client: MqttClient, method: str, event: ConnectReceived) -> None:
        self._client = client
        self._method = method
        self._connect: ConnectReceived | None = event  # None once it is accepted
        self._exchange: Exchange | None = None
        self._principal: Principal | None = None

    def begin(self, data: bytes | None) -> None:
        """Take the method and the first message, which CONNECT may have brought."""
        connect = self._connect
        if connect is not None and connect.user_name is not None:
            try:
                enter_vpn(self._client, connect.user_name, connect.client_id)
            except ClientDenied as denied:
                refuse_denied(self._client, denied)
                return
        authenticator = self._client.services.authenticator
        mechanism = authenticator.mechanisms.get(self._method)
        if mechanism is None:
            self._fail(BAD_AUTHENTICATION_METHOD, f"authentication method {self._method[:80]!r} is not known")
            return
        if not authenticator.may_try_now(self._host()):
            self._fail(CONNECTION_RATE_EXCEEDED, f"too many attempts from {self._host()} have failed")
            return
        self._exchange = authenticator.exchange(mechanism, self._host())
        self._step(data)

    def received(self, event: AuthReceived) -> None:
        """Handle an AUTH packet; the engine has checked the order."""
        if event.reason_code == RE_AUTHENTICATE:
            self.begin(event.data)
        else:
            self._step(event.data)

    def _step(self, data: bytes | None) -> None:
        exchange = self._exchange
        assert exchange is not None, "the engine lets no AUTH pass before its CONNECT"
        try:
            answer = exchange.step(data)
        except AuthenticationFailed as failure:
            self._fail(BAD_USER_NAME_OR_PASSWORD if self._connect is not None else NOT_AUTHORIZED, str(failure))
            return
        if isinstance(answer, Authenticated):
            self._exchange = None
            self._authenticated(answer)
        else:
            self._send(CONTINUE_AUTHENTICATION, answer.data or None)

    def _authenticated(self, outcome: Authenticated) -> None:
        client, event = self._client, self._connect
        if event is not None:
            self._connect = None
            self._principal = outcome.principal
            client.carry_out(connect(client, event, outcome))
        elif self._principal is None or outcome.principal.user_name != self._principal.user_name:
            self._fail(NOT_AUTHORIZED, "a re-authentication is another user's")
        else:
            client.identity.authenticated(outcome.principal)
            self._send(SUCCESS, outcome.data)

    def _send(self, reason_code: int, data: bytes | None) -> None:
        if not self._client.engine.auth(reason_code, self._method, data):
            self._fail(PACKET_TOO_LARGE, "AUTH is larger than the client takes")

    def _host(self) -> str:
        peer = self._client.peer
        assert peer is not None, "the transport comes before its bytes"
        return peer.host

    def _fail(self, reason_code: int, text: str) -> None:
        """Refuse the CONNECT, or end the connection [4.12.1-2]. The reason is not sent."""
        client = self._client
        if self._connect is not None:
            client.services.clients.denials.deny(
                NOT_AUTHENTICATED, self._connect.client_id, f"401 Unauthorized: MQTT client at {client.peer_name()}"
            )
            client.engine.refuse(reason_code)
            client.refuse(NOT_AUTHENTICATED, text)
        else:
            client.end(reason_code, "re-authentication failed")
