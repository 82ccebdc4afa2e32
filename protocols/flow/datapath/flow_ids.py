"""The flow ids of one connection: each is asked for once, ascending, and used up when its flow has ended.

Flow: frames. So what comes late for a flow that has ended is told apart from what was never asked for.
"""

from typing import final

from sluicegate.protocols.flow.codec.codes import FLOW_ID_UNUSABLE, OUT_OF_TURN
from sluicegate.protocols.flow.codec.errors import PeerViolation


@final
class FlowIds:
    """Which flow ids the client has asked for so far."""

    def __init__(self) -> None:
        self._highest = 0
        self._pending: set[int] = set()  # whose request is not answered yet

    @property
    def pending_count(self) -> int:
        """How many requests for flows are not answered."""
        return len(self._pending)

    def take(self, flow_id: int) -> None:
        """Give a flow id to a request. Raises PeerViolation."""
        if flow_id <= self._highest:
            text = f"flow {flow_id} behind {self._highest}; their ids ascend"
            raise PeerViolation(FLOW_ID_UNUSABLE, text)
        self._highest = flow_id
        self._pending.add(flow_id)

    def answered(self, flow_id: int) -> None:
        """Note that the request is answered: the flow may be used, or the id is used up."""
        self._pending.discard(flow_id)

    def check_ended(self, flow_id: int) -> None:
        """Look at a frame for a flow that is not there. Raises PeerViolation unless the flow has ended."""
        if flow_id in self._pending:
            raise PeerViolation(OUT_OF_TURN, f"flow {flow_id} is used before its request was answered")
        if flow_id > self._highest:
            raise PeerViolation(FLOW_ID_UNUSABLE, f"flow {flow_id} was never asked for")
