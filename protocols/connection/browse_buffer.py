"""The messages that a browser of a queue has read ahead for its client.

A browser (actors.queues.browser) counts how many more messages it may show. AMQP clients grant credit up or down, those
of the flow protocol up to a number. So the browser is asked for a few messages ahead, and they wait here for credit, or
for a socket that is full.
"""

from collections import deque
from typing import Final, final

from sluicegate.actors.messages.partitions import BrowsedMessage
from sluicegate.actors.messages.queues import BrowserCredit
from sluicegate.actors.runtime.runtime import ActorCell

BROWSE_BUFFER_MAX: Final = 100  # messages that a browser may have shown, or be about to, and the client has not


@final
class BrowseBuffer:
    """The messages of one browser.

    Invariant: `requested_count` and the length of `waiting` are BROWSE_BUFFER_MAX together, or less.
    """

    def __init__(self) -> None:
        self.browser: ActorCell | None = None  # None until the queue has bound it
        self.requested_count = 0  # messages that the browser may show and has not
        self.waiting: deque[BrowsedMessage] = deque()  # shown, and not sent

    def add(self, messages: list[BrowsedMessage]) -> None:
        """Keep what the browser shows."""
        self.requested_count -= len(messages)
        self.waiting.extend(messages)

    def request(self, credit: int) -> None:
        """Have more shown: the client takes so many messages more than it was sent."""
        wanted = min(credit, BROWSE_BUFFER_MAX) - len(self.waiting) - self.requested_count
        if wanted > 0 and self.browser is not None:
            self.requested_count += wanted
            self.browser.inbox.post(BrowserCredit(wanted))
