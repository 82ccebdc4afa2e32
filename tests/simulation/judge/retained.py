"""The retained message on the one topic that runs have for it: one client sets, replaces and deletes it; wills set it.

Rules [MQTT 3.3.1-5 to 3.3.1-7, 3.3.2-5, 3.1.2-15]: a new subscriber gets the message that was confirmed last, or a
later one; a message that was replaced, deleted or has expired does not come, over crashes too; at the end of the run
the message exists, unless it was deleted or expired.
"""

from collections.abc import Callable

from simulation.judge.targets import Message, Violation
from simulation.judge.timeliness import TICK_US

LATE_US = 1_000_000  # what is about to happen has happened so much later


class RetainedTopic:
    """The topic, over all lives of the node."""

    def __init__(self, now_us: Callable[[], int], crashes: Callable[[], int]) -> None:
        self._now_us = now_us
        self._crashes = crashes
        self._changes: dict[int, Message] = {}  # of the client, by number: in the order in which they take effect
        self._deletions: set[int] = set()

    def changes(self, message: Message, *, deletes: bool) -> None:
        """The client sets or deletes it. It has heard the end of the change before."""
        self._changes[message.number] = message
        if deletes:
            self._deletions.add(message.number)

    @property
    def newest(self) -> int:
        """The number of the last change that was confirmed; 0: none was."""
        return max([number for number, each in self._changes.items() if each.promised_tick], default=0)

    def check_sent(self, message: Message, newest: int) -> None:
        """A message came for a subscription that was asked for when `newest` was the newest."""
        if message.withheld:
            raise Violation(f"{message} is retained, and nobody is to have it")
        if message.number in self._changes and message.number < newest:
            raise Violation(f"retained {message} came, and {self._changes[newest]} was confirmed")
        if message.promised_us and self._has_expired(message, message.promised_us + LATE_US):
            raise Violation(f"retained {message} came after it had expired")

    def check_at_rest(self, message: Message | None, *, wills: list[Message], sure: list[Message]) -> None:
        """Nothing is under way, and this is retained, or nothing. Wills may have come, some of them for sure."""
        newest = self.newest
        had_to_come = [*sure, *([self._changes[newest]] if newest else [])]
        if message is not None:
            self.check_sent(message, newest)
            behind = [each for each in had_to_come if self._is_before(message, each)]
            if behind:
                raise Violation(f"{message} is retained, and {behind} came behind it")
            return
        may_be_last = [
            each
            for each in [*wills, *[each for number, each in self._changes.items() if number >= newest]]
            if not any(self._is_before(each, other) for other in had_to_come)
        ]
        if had_to_come and not any(self._may_be_gone(each) for each in may_be_last):
            raise Violation(f"nothing is retained, and one of {may_be_last} came last")

    def _is_before(self, message: Message, other: Message) -> bool:
        """Return whether this took effect before the other can have.

        What is sent again does so anew, but a message of QoS 2 in the same life of the node: no queue has it, and so
        its packet id is not in the store.
        """
        is_the_same = message.number in self._changes and message.crashes_when_sent == self._crashes()
        is_known = message.promised_us > 0 and (is_the_same or message.sent_count == 1)
        return is_known and message.promised_us + LATE_US < other.sent_us

    def _may_be_gone(self, message: Message) -> bool:
        """Return whether nothing may be retained when this came last."""
        return message.number in self._deletions or self._has_expired(message, message.sent_us)

    def _has_expired(self, message: Message, since_us: int) -> bool:
        return 0 < message.expiry_s <= (self._now_us() - since_us + TICK_US) / 1_000_000
