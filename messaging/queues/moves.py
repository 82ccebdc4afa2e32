"""The state of a queue that moves to another broker of its network, as both brokers store it.

The old home has MOVING while contents go over, and COMMITTING once it has asked the new home to be the home: then it
does not know which of the two is, until the new home has said so. The new home has RECEIVING until its commit, which is
what decides; from then on its queue is like any other. The old home keeps a `MovedQueue` until every broker that had
its publishers wait knows where the queue is.
"""

from typing import Final, NamedTuple

from sluicegate.messaging.topics.syntax import Syntax, TopicFilter, parse_filter

RECEIVING: Final = "receiving"
MOVING: Final = "moving"
COMMITTING: Final = "committing"
STAGES: Final = (RECEIVING, MOVING, COMMITTING)
SESSION_QUEUE_PREFIX: Final = "#mqtt/"  # before the client identifier, in the name of a session's queue


CONTAINER_QUEUE_PREFIX: Final = "#amqp/"  # before the container id, in the name of a subscription's queue


def client_of(queue: str) -> str:
    """Return the client whose MQTT session a queue is of."""
    return queue.removeprefix(SESSION_QUEUE_PREFIX)


def is_of_session(queue: str) -> bool:
    """Return whether a queue is that of an MQTT session, by its name."""
    return queue.startswith(SESSION_QUEUE_PREFIX)


def is_of_client(queue: str) -> bool:
    """Return whether a queue is what a client has by its own name: a session, or a subscription. Nobody is told it."""
    return queue.startswith((SESSION_QUEUE_PREFIX, CONTAINER_QUEUE_PREFIX))


class QueueMove(NamedTuple):
    """The move of one queue, at one of the two brokers."""

    stage: str
    broker: str  # the other one
    begun_ms: int = 0  # wall clock; 0: not known
    session: str = ""  # record of the MQTT session that the queue is of, at the old home

    def is_from(self, broker: str) -> bool:
        """Return whether the queue is being moved here from this broker."""
        return self.stage == RECEIVING and self.broker == broker

    def refusal(self, queue: str) -> str:
        """Return why the queue cannot be used or changed here now, for clients and operators."""
        if self.stage == RECEIVING:
            return f"503 Queue Is Moving: {queue!r} is being moved here from broker {self.broker!r}"
        return f"503 Queue Is Moving: {queue!r} is being moved to broker {self.broker!r}"


class MovedQueue(NamedTuple):
    """A queue that was moved away, while some broker may still have its publishers wait."""

    name: str
    broker: str  # its home
    filters: tuple[tuple[str, str], ...]  # of its topics: each with its syntax


def filters_in(texts: tuple[tuple[str, str], ...]) -> list[TopicFilter]:
    """Return filters that were stored or told. Raises TopicError and ValueError."""
    return [parse_filter(text, Syntax(syntax)) for text, syntax in texts]
