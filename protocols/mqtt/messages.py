"""What MQTT connections and the session directory say to each other."""

from dataclasses import dataclass

from actors.cell import ActorCell
from protocols.mqtt.session import Session
from protocols.mqtt.will import Will


@dataclass(slots=True)
class ClaimSession:
    """Connection -> directory, ask: I am this client now. Answered with SessionClaimed once the session is its own.

    Raises ClientDenied when the session is another user's.
    """

    client_id: str
    clean_start: bool
    expiry_s: int
    connection: ActorCell
    user: str  # empty: anonymous


@dataclass(slots=True)
class SessionClaimed:
    """Directory -> connection: the session, and whether it was there before."""

    session: Session
    present: bool


@dataclass(slots=True)
class TakeOver:
    """Directory -> connection, ask: another connection is this client now. Answered with SessionReleased or None."""


@dataclass(slots=True)
class SessionReleased:
    """Connection -> directory: the connection is gone, or going; the session is yours."""

    session: Session
    will: Will | None  # due, unless its delay says later; None when the client said goodbye
    connection: ActorCell


@dataclass(slots=True)
class RestoreSessions:
    """Node -> directory, ask: bring back the sessions of these rows of the store. Answered with how many there are."""

    rows: dict[bytes, bytes]
