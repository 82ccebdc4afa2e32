"""Events that a program may observe and need not act on: connections and flows that open, pause and end."""

from dataclasses import dataclass
from typing import TypeAlias, final

from sluicegate.protocols.flow.codec.frames.partition import PartitionState


@final
@dataclass(frozen=True)
class Connected:
    """The gateway has let the client in. Publishers and consumers come back by themselves."""

    product: str  # of the gateway, name and version


@final
@dataclass(frozen=True)
class Disconnected:
    """A connection is gone, or could not be made."""

    reason: str
    retry_in_ms: int  # until the next attempt


@final
@dataclass(frozen=True)
class FlowActivated:
    """The consumer gets messages: it is the one of an exclusive queue, or has partitions."""

    queue: str


@final
@dataclass(frozen=True)
class FlowDeactivated:
    """The consumer stands by."""

    queue: str


@final
@dataclass(frozen=True)
class FlowInterrupted:
    """The consumer's flow is interrupted. Its unsettled messages are delivered again, to it or to others."""

    queue: str
    reason: str
    given_up_count: int  # messages that had come and were not settled


@final
@dataclass(frozen=True)
class SettledTooLate:
    """Messages were settled that the consumer holds no more: they were, or will be, delivered to another."""

    queue: str
    count: int


@final
@dataclass(frozen=True)
class PartitionsChanged:
    """The consumer's partitions have changed; the list is complete. Draining ones have to be released."""

    queue: str
    partitions: tuple[PartitionState, ...]


@final
@dataclass(frozen=True)
class SubscriptionLost:
    """A subscription was refused when the connection was made again, and is given up."""

    topic_filter: str
    reason: str


ClientEvent: TypeAlias = (
    Connected
    | Disconnected
    | FlowActivated
    | FlowDeactivated
    | FlowInterrupted
    | SettledTooLate
    | PartitionsChanged
    | SubscriptionLost
)
