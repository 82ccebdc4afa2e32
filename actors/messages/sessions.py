"""Messages about MQTT sessions that move to another broker, with their queues: to the directory of sessions."""

from dataclasses import dataclass

from sluicegate.actors.messages.directory import LocalQueue

SessionRow = tuple[bytes, bytes]  # its key within the message VPN, and its value


@dataclass(slots=True)
class HoldSession:
    """Ask: end the connection of a session, give it to no other, and describe it, also once more.

    Answered with HeldSession; None: there is no such session. Raises UpdateRefused for one that cannot move.
    """

    client_id: str


@dataclass(frozen=True, slots=True)
class HeldSession:
    """A session that no connection has or gets. Sequences of its queue are in the record as places among messages."""

    record: str  # for the broker that it moves to
    filters: tuple[tuple[str, str], ...]  # what enters its queue: each with its syntax
    queue: LocalQueue | None
    keys: list[bytes]  # of its rows, within the message VPN
    obstacle: str  # why its messages do not keep their places on the way; empty: they do


@dataclass(slots=True)
class FreeSession:
    """A held session does not move."""

    client_id: str


@dataclass(slots=True)
class EndHeldSession:
    """Ask: forget a held session, which is at another broker. Answered with None, when its rows are deleted as well."""

    client_id: str
    has_rows: bool  # the store has its rows yet


@dataclass(slots=True)
class RowsOfSession:
    """Ask: return the rows of a session that comes, as a list of SessionRow. Raises ValueError for its record."""

    record: str
    queue: LocalQueue | None  # with all messages; None: it has none


@dataclass(slots=True)
class AdoptSession:
    """Ask: have a session that has come. Answered with None when it is in force, as far as neighbors can be told.

    Raises UpdateRefused when there is another one of its client, and StoreRefused.
    """

    rows: list[SessionRow]
    queue: LocalQueue | None
    are_stored: bool  # the store has the rows already
