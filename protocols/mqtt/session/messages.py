"""The messages between MQTT connections and the session directory."""

from dataclasses import dataclass
from typing import final

from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.protocols.mqtt.codec.events import Will
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


@dataclass(slots=True)
class TakeOver:
    """Directory -> connection, ask: another connection took over. Answered with SessionReleased or None."""


@final
class SessionReleased:
    """Connection -> directory: the connection ends and returns the session."""

    __slots__ = ("connection", "session", "will")

    def __init__(self, session: Session, will: Will | None, connection: ActorCell) -> None:
        self.session = session
        self.will = will  # to be published, after its delay; None after a normal DISCONNECT
        self.connection = connection


@dataclass(slots=True)
class RestoreSessions:
    """Node -> directory, ask: bring back the sessions of these rows of the store. Answered with how many there are."""

    rows: dict[bytes, bytes]
