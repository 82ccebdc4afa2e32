"""What the flows of consumers and browsers have in common: a queue, and what came of it and was not taken."""

from collections import deque

from sluicegate.protocols.flow.client.session.flow import ClientFlow
from sluicegate.protocols.flow.codec.frame import UNBIND
from sluicegate.protocols.flow.codec.frames.deliver import Delivered


class QueueFlow(ClientFlow):
    """A flow that is bound to a queue."""

    def __init__(self, queue: str) -> None:
        super().__init__(UNBIND)
        self.queue = queue
        self.incarnation = 0  # of the gateway's spool, as of the last bind; 0: not known yet
        self._line: deque[Delivered] = deque()  # not taken by the program

    @property
    def waiting_count(self) -> int:
        """How many messages the program may take now."""
        return len(self._line)
