"""The common parts of a client's flows: they outlive connections, and are opened again on each."""

from collections import deque
from typing import Final

from sluicegate.protocols.flow.client.errors import FlowClientError
from sluicegate.protocols.flow.codec.frame import UNBIND
from sluicegate.protocols.flow.codec.frames.deliver import Delivered
from sluicegate.protocols.flow.codec.frames.flow import FlowEnd
from sluicegate.protocols.flow.codec.frames.session import Error
from sluicegate.protocols.flow.engine.engine import FlowEngine

NO_FLOW: Final = 0

# Phases of a flow on the present connection.
RESTING: Final = 0  # no connection, or to be opened again at `retry_at_ms`
OPENING: Final = 1  # the request is on its way
OPEN: Final = 2
CLOSING: Final = 3  # the program is done with it, and the gateway has not confirmed that
ENDED: Final = 4  # for good


class ClientFlow:
    """One publisher or consumer. The session notifies it of frames; `has_news` says that its owner should check it."""

    def __init__(self, end_kind: int) -> None:
        self.phase = RESTING
        self.flow_id = NO_FLOW  # on the present connection
        self.was_open = False  # at least once
        self.retry_at_ms = 0  # of a request that was refused for now
        self.error: FlowClientError | None = None  # why it has ended
        self.is_dirty = False  # it has something to say
        self.has_news = False
        self._end_kind = end_kind  # the frame that ends it: CLOSE_PUB or UNBIND

    def request(self, request_id: int, flow_id: int) -> bytes:
        """Return the frame that opens it on a connection."""
        raise AssertionError("each kind of flow has its own request")

    def closing(self, request_id: int) -> bytes:
        """Return the frame that ends it."""
        return FlowEnd(self._end_kind, self.flow_id, request_id, False).encode()

    def pump(self, engine: FlowEngine) -> None:
        """Send what may be sent now."""
        raise AssertionError("each kind of flow has its own words")

    def interrupted(self, reason: str) -> None:
        """Forget what belongs to a connection that is gone, and wait for the next."""
        self.flow_id = NO_FLOW
        self.phase = RESTING

    def ended_by(self, frame: Error) -> FlowClientError:
        """Return the error for one with which the gateway ended the flow."""
        raise AssertionError("each kind of flow has its own errors")

    def check_running(self) -> None:
        """Raise the error that has ended it, if one has."""
        if self.error is not None:
            raise self.error.with_traceback(None)  # one error for all who ask

    def end(self, error: FlowClientError) -> None:
        """End for good. The first reason counts."""
        if self.phase != ENDED:
            self.phase = ENDED
            self.error = error
            self.has_news = True


# The common part of consumer and browser flows: a queue, and its messages that the program has not taken.


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
