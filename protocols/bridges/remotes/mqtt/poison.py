"""Finds the message that a foreign broker closes connections because of. No packets, and no socket.

A broker that speaks MQTT 3.1.1 has no other way to refuse a message, and some that speak MQTT 5 have none either: size,
topic or RETAIN may be why. The bridge sends the message again with the next connection, and that ends in the same way.
"""

from typing import final


@final
class PoisonFinder:
    """Compares what was under way when connections ended."""

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
