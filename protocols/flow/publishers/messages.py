"""The messages between flow connections and the directory of named publishers."""

from dataclasses import dataclass

from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.protocols.flow.publishers.publisher import NamedPublisher


@dataclass(slots=True)
class ClaimPublisher:
    """Connection -> directory: open a publisher. Answered with it once its new epoch is stored and all is decided.

    Raises TooManyPublishers, PublisherOfAnother, and PublisherNotStored when the epoch could not be written.
    """

    name: str
    connection: ActorCell
    user: str  # empty: anonymous
    window: int  # sequences that it may send ahead of answers


@dataclass(slots=True)
class ReleasePublisher:
    """Connection -> directory: its flow has ended. Of another epoch than the present one it changes nothing."""

    publisher: NamedPublisher
    epoch: int


@dataclass(slots=True)
class FencePublisher:
    """Directory -> connection, ask: the publisher is opened elsewhere. Answered with None when the flow has ended."""

    publisher: NamedPublisher


@dataclass(slots=True)
class RestorePublishers:
    """Front -> directory, an ask: the rows that the store has. Answered with the number of publishers."""

    rows: dict[bytes, bytes]
    was_clean: bool  # the gateway was stopped in order


class TooManyPublishers(Exception):
    """The gateway remembers as many publishers as it may."""


class PublisherOfAnother(Exception):
    """The publisher is another user's."""


class PublisherNotStored(Exception):
    """The store could not take the publisher's new epoch."""
