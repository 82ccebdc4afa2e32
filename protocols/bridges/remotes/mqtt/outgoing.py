"""Messages for a foreign broker over either version of MQTT: what can go, what is written, and what it closes for."""

from collections import deque
from typing import Final, final

from sluicegate.messaging.message.outcomes import RELEASED
from sluicegate.messaging.topics.syntax import TopicError, check_topic_syntax
from sluicegate.protocols.bridges.remote import Line, Outgoing

OUTPUT_BYTES_MAX: Final = 1 << 20  # buffered: more is not published before the socket has taken some
ANSWERS_BYTES_MAX: Final = 1 << 20  # buffered beside what was published: what would be answered is not read before
_PACKET_EXTRA_BYTES: Final = 16  # fixed header, lengths and packet id of a PUBLISH, at most


def refusal_of(message: Outgoing, properties_bytes: int, packet_bytes_max: int) -> str:
    """Return why a message cannot go over MQTT in a packet of at most so many bytes; empty: it can."""
    try:
        check_topic_syntax(message.topic)
    except TopicError as error:
        return f"MQTT cannot carry it: {error}"
    size = len(message.topic.encode()) + properties_bytes + len(message.payload) + _PACKET_EXTRA_BYTES
    if size <= packet_bytes_max:
        return ""
    return f"its packet has {size} bytes; allowed by the foreign broker or maximum_packet_size: {packet_bytes_max}"


@final
class Unwritten:
    """Messages of QoS 0 that the socket has yet to take: confirmed when it has, they go at most once."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._messages: deque[tuple[int, int]] = deque()  # number, and the written bytes that it is complete at

    def add(self, number: int, complete_at_bytes: int) -> None:
        """Note a message that is complete when so many bytes are written."""
        self._messages.append((number, complete_at_bytes))

    def written(self, written_bytes: int) -> None:
        """Confirm what is complete."""
        messages = self._messages
        while messages and messages[0][1] <= written_bytes:
            self._line.confirmed(messages.popleft()[0])

    def connection_lost(self) -> None:
        """Give the others back: they are not sent."""
        for number, _ in self._messages:
            self._line.refused(number, RELEASED, "the connection was lost")
        self._messages.clear()


@final
class PoisonFinder:
    """Finds the message that a foreign broker closes connections because of, by what was under way when they ended.

    A broker that speaks MQTT 3.1.1 has no other way to refuse a message, and some that speak MQTT 5 use none: size,
    topic or RETAIN may be why. The message goes again with the next connection, and that ends in the same way.
    """

    def __init__(self) -> None:
        self._number = 0  # of the first message without an answer when the last connection ended; 0: none

    def look(self, number: int, topic: str, payload_bytes: int) -> str:
        """Take the first message without an answer when the foreign broker has ended a connection; 0: there was none.

        Return what to say of it; empty: nothing, for it is not that of the connection before.
        """
        is_again = number == self._number != 0
        self._number = number
        if not is_again:
            return ""
        return (
            f"; as before, the message to {topic!r:.200} with {payload_bytes} bytes was the first without an answer: "
            "the foreign broker may refuse it in this way"
        )
