"""Consumers of queues that other brokers have, seen where the consumers are.

The judge of the queue's broker sees such a flow at its end of the link, and holds it against all that it promises to
consumers. What is left to see here: a client gets what the link brought for it, in that order for each key, each
message once and as it was marked, and the queue hears of an outcome only what the client has said.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from simulation.judge.targets import Message, Violation


class Far(NamedTuple):
    """A delivery of a queue of another broker."""

    queue: str
    number: int  # of the message
    flagged: bool  # as redelivered
    tries: int  # its delivery count; 0: it is not told


class FarFlows:
    """The consumers of one broker at queues of the others."""

    def __init__(self, queues: Iterable[str], messages: Mapping[int, Message]) -> None:
        self.queues = frozenset(queues)  # of others
        self._messages = messages  # of the network
        self._brought: dict[tuple[str, str, str], list[Far]] = {}  # by queue, client and key: what it was not given yet
        self._said: set[tuple[str, Far, int]] = set()  # client, message without its marks, outcome

    def brought(self, client: str, far: Far) -> None:
        """A link brings a message for a client."""
        self._brought.setdefault(self._line(client, far), []).append(far)

    def came(self, client: str, far: Far) -> None:
        """A client gets a message. What the link brought before of its key, it does not get any more.

        Raises Violation.
        """
        line = self._brought.get(self._line(client, far), [])
        for place, each in enumerate(line):
            if each.number == far.number and each.flagged == far.flagged and far.tries in (0, each.tries):
                del line[: place + 1]
                return
        raise Violation(f"{client} got {far}, and the link brought {line}")

    def says(self, client: str, far: Far, outcome: int) -> None:
        """A client gives a message an outcome."""
        self._said.add((client, _plain(far), outcome))

    def check_said(self, client: str, far: Far, outcome: int) -> None:
        """The queue hears of an outcome. Raises Violation unless the client has given it."""
        if (client, _plain(far), outcome) not in self._said:
            raise Violation(
                f"the broker of {far.queue} hears of outcome {outcome} for {far}, and {client} said no such"
            )

    def _line(self, client: str, far: Far) -> tuple[str, str, str]:
        message = self._messages.get(far.number)
        return far.queue, client, "" if message is None else f"{message.publisher} {message.key} {message.qos > 0}"


def _plain(far: Far) -> Far:
    return Far(far.queue, far.number, False, 0)
