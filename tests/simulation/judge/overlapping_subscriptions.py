"""A second subscription of a session to some topics of its first one: a message that both match comes once.

Rules [MQTT 3.3.4-2 to 3.3.4-4, 4.1.0-1]: messages that were published after the second subscription was acknowledged
carry its identifier too, over later connections of the session and restarts; no message carries it that does not match,
or that was published after the end of the subscription was acknowledged.
"""

from collections.abc import Callable, Sequence
from typing import Final

from simulation.judge.targets import NOT_YET, Message, Violation
from simulation.judge.truth import Truth

OVERLAP_ID: Final = 103  # of the subscription


class Overlap:
    """The second subscription of one session."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._prefix = ""  # of the topics of the first one
        self._requests_count = 0
        self._may_be = False
        self._since_tick = NOT_YET  # it is there for certain
        self._until_tick = 0  # and may have been there

    # --- what the client asks for; each returns who is to be told the answer ---

    def asks(self, prefix: str) -> Callable[[int], None]:
        """The client subscribes, to some of the topics with a prefix."""
        self._prefix = prefix
        self._may_be = True
        return self._heard(self._is_there)

    def leaves(self) -> Callable[[int], None]:
        """The client unsubscribes."""
        self._since_tick = NOT_YET
        return self._heard(self._is_gone)

    @property
    def filter_text(self) -> str:
        """The filter of its subscription."""
        return f"{self._prefix}+/x" if self._prefix.count("/") == 1 else f"{self._prefix}x"

    def _heard(self, change: Callable[[], None]) -> Callable[[int], None]:
        """Return what takes an answer, which says nothing if something else was asked for since."""
        self._requests_count += 1
        number = self._requests_count
        return lambda code: change() if code < 0x80 and number == self._requests_count else None

    def _is_there(self) -> None:
        self._since_tick = self._truth.next_tick()

    def _is_gone(self) -> None:
        self._may_be = False
        self._until_tick = self._truth.next_tick()

    # --- what comes ---

    def check(self, message: Message, topic: str, identifiers: Sequence[object]) -> None:
        """The session gets a message, on a topic, for these subscriptions."""
        matches = topic.startswith(self._prefix) and topic.endswith("/x")
        count = identifiers.count(OVERLAP_ID)
        if count > 1 or (count and not (matches and (self._may_be or message.sent_tick < self._until_tick))):
            raise Violation(f"{message} came on {topic} for {identifiers}, not subscribed to: {self.filter_text}")
        if matches and not count and message.sent_tick > self._since_tick:
            raise Violation(f"{message} came on {topic} for {identifiers}, and not for {self.filter_text} as well")
