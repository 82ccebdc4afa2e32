"""The messages between MQTT connections and the session directory."""

from dataclasses import dataclass
from typing import final

from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.protocols.mqtt.codec.events import Will
from sluicegate.protocols.mqtt.codec.reason_codes import SESSION_TAKEN_OVER
from sluicegate.protocols.mqtt.session.session import Session


@final
class ClaimSession:
    """Connection -> directory, ask: claim the session of a client. Answered with SessionClaimed once it is released.

    Raises ClientDenied when the session is another user's, or the message VPN may have no more.
    """

    __slots__ = ("clean_start", "client_id", "connection", "expiry_s", "is_assigned", "user", "will_bytes")

    def __init__(
        self,
        client_id: str,
        clean_start: bool,
        expiry_s: int,
        connection: ActorCell,
        user: str,
        will_bytes: int,
        is_assigned: bool,
    ) -> None:
        self.client_id = client_id
        self.is_assigned = is_assigned  # the identifier is new: no other broker knows it
        self.clean_start = clean_start
        self.expiry_s = expiry_s
        self.connection = connection
        self.user = user  # empty: anonymous
        self.will_bytes = will_bytes  # that its will counts for


@final
class SessionClaimed:
    """Directory -> connection: the session, and whether it was there before."""

    __slots__ = ("present", "session")

    def __init__(self, session: Session, present: bool) -> None:
        self.session = session
        self.present = present


@final
class TakeOver:
    """Directory -> connection, ask: end, because of this. Answered with SessionReleased or None."""

    __slots__ = ("reason_code", "text")

    def __init__(
        self, reason_code: int = SESSION_TAKEN_OVER, text: str = "another connection uses this client identifier"
    ) -> None:
        self.reason_code = reason_code
        self.text = text


@dataclass(slots=True)
class EndSession:
    """Node -> directory, ask: end the session of a client for good, as if it had expired, and its connection before.

    Answered with whether there was one, once the store has nothing of it. Raises UpdateRefused while it moves.
    """

    client_id: str
    text: str  # for the client


@final
class SessionReleased:
    """Connection -> directory: the connection ends and returns the session."""

    __slots__ = ("connection", "session", "will")

    def __init__(self, session: Session, will: Will | None, connection: ActorCell) -> None:
        self.session = session
        self.will = will  # to be published, after its delay; None after a normal DISCONNECT
        self.connection = connection


@dataclass(slots=True)
class FindSession:
    """Connection -> directory, ask: whether there is a session of this client identifier. Answered with a bool."""

    client_id: str


@dataclass(slots=True)
class RestoreSessions:
    """Node -> directory, ask: bring back the sessions of these rows of the store. Answered with how many there are."""

    rows: dict[bytes, bytes]
