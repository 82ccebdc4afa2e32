"""Messages about named publishers that move to another broker: to the directory of named publishers."""

from dataclasses import dataclass


@dataclass(slots=True)
class HoldPublisher:
    """Ask: end the flow of a publisher, give it to no other, and describe it once the store has decided about all.

    Answered with its record, for `AdoptPublisher`; None: there is no such publisher. Asked once more, it is described
    once more.
    """

    name: str


@dataclass(slots=True)
class FreePublisher:
    """A held publisher does not move."""

    name: str


@dataclass(slots=True)
class EndHeldPublisher:
    """Ask: forget a held publisher, which is at another broker. Answered with None, when its rows are deleted.

    Raises StoreRefused; it stays held then.
    """

    name: str


@dataclass(slots=True)
class AdoptPublisher:
    """Ask: have a publisher that has come, in place of what is known of it. Answered with None when it is stored.

    Raises UpdateRefused when it was opened here after its record was made, ValueError for the record, and StoreRefused.
    """

    name: str
    record: str


@dataclass(slots=True)
class FindPublisherCopy:
    """Ask: which broker may have a copy of a publisher of this one, of an earlier try to move it? Empty: none."""

    name: str


@dataclass(slots=True)
class DropPublisherCopy:
    """Ask: forget the copy of a publisher whose home is elsewhere. Answered with None when its rows are deleted.

    Raises UpdateRefused when it was opened here, and StoreRefused.
    """

    name: str


@dataclass(slots=True)
class NotePublisherCopy:
    """Ask: store that a broker may have a copy of a held publisher from now on. Answered with None when it is stored.

    Until it has ended here, this broker is its home, and a start with any number of brokers finds that. Raises
    StoreRefused.
    """

    name: str
    broker: str
