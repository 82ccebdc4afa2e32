"""The order of AUTH packets in an exchange [4.12]. The SASL mechanism checks the data in them."""

from typing import Final, final

from sluicegate.protocols.mqtt.codec.errors import LocalMisuse, PeerViolation
from sluicegate.protocols.mqtt.codec.events import AuthReceived
from sluicegate.protocols.mqtt.codec.reason_codes import (
    CONTINUE_AUTHENTICATION,
    PROTOCOL_ERROR,
    RE_AUTHENTICATE,
    SUCCESS,
)


@final
class AuthenticationDialogue:
    """The turns of one connection, from CONNECT on. Each AUTH of the client but 0x19 answers one of ours."""

    def __init__(self, method: str | None) -> None:
        self.awaits_client = False  # our AUTH 0x18 is not answered yet
        self._method = method  # None: CONNECT named none, and no AUTH is allowed
        self._accepted = False  # CONNACK was sent
        self._again = False  # the client has requested a re-authentication

    def accepted(self) -> None:
        """CONNACK ends the first exchange."""
        self._accepted = True
        self.awaits_client = False

    def received(self, event: AuthReceived) -> None:
        """Check the client's turn."""
        if self._method is None:
            raise PeerViolation(PROTOCOL_ERROR, "AUTH, but CONNECT named no method [4.12.0-7]")
        if event.method != self._method:
            raise PeerViolation(
                PROTOCOL_ERROR, f"AUTH with method {event.method[:80]!r}, not {self._method!r} [4.12.0-5]"
            )
        if event.reason_code == RE_AUTHENTICATE:
            if not self._accepted or self._again:
                raise PeerViolation(PROTOCOL_ERROR, "re-authentication in the middle of authentication")
            self._again = True
        elif not self.awaits_client:
            raise PeerViolation(PROTOCOL_ERROR, "AUTH that was not requested")
        self.awaits_client = False

    def sends(self, reason_code: int, method: str) -> None:
        """Check our turn, and take it."""
        if self._method != method:
            raise LocalMisuse(f"AUTH with method {method!r}, which the client did not name [4.12.0-5] [4.12.0-6]")
        if reason_code == CONTINUE_AUTHENTICATION and (self._again or not self._accepted):
            self.awaits_client = True
        elif reason_code == SUCCESS and self._again:
            self._again = False
            self.awaits_client = False
        else:
            raise LocalMisuse(f"AUTH with reason code 0x{reason_code:02X} at this point")


NO_DIALOGUE: Final = AuthenticationDialogue(None)  # of all whose CONNECT names no method: there are no turns to take
